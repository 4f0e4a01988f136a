"""Branch and bound with the stronger bound: fewer nodes, and each of them takes longer.

For problems that the plain tree search does not finish soon. A node keeps its part of the problem
with the prices, from which its children begin; the best open node comes first. One call of compiled
code examines a node, so that several threads can share the heap.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.exact.dual import LARGE, Part, ascend, choose_cut, shrink, whole_part
from treeopt.exact.settings import DEFAULT_SETTINGS, ExactSettings

if TYPE_CHECKING:
    from treeopt.exact.tree_search import Run
    from treeopt.problem.leaves import Leaves
    from treeopt.types import Array


class Node(NamedTuple):
    """A node: its bound, the sum of its settled trees, what is left, and the cut to branch on.

    If nothing is left, it is a point, and there is no cut.
    """

    bound: float
    settled: float
    part: Part
    keep: Array
    feature: int
    at: int

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return sum(array.nbytes for array in self.part) + self.keep.nbytes

    def child(self, side: int) -> Array:
        """Return the places that one side of the cut keeps."""
        keep = self.keep.copy()
        if side == 0:
            keep[self.at + 1 : self.part.place_start[self.feature + 1]] = False
        else:
            keep[self.part.place_start[self.feature] : self.at + 1] = False
        return keep


class Outcome(NamedTuple):
    """What became of a node: None if it is closed, and the work that it took."""

    node: Node | None
    work: int


class DualSearch:
    """A best-first search; ``is_over`` tells whether its time is over, for limits within nodes.

    Attributes
    ----------
    nodes : int
        Number of nodes so far.
    spent : int
        Work so far.
    tie_bound : float
        The least bound of what was given up because it is not better than the best point.
    ties : list of (bound, box)
        Single points, as boxes, that the best so far did not rule out; their sums are rounded down.
    """

    def __init__(
        self,
        leaves: Leaves,
        search_error: float,
        margin: float,
        n_jobs: int,
        is_over: Callable[[], bool] = lambda: False,
        settings: ExactSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.settings = settings
        self.leaves, self.margin, self.n_jobs, self.is_over = leaves, margin, n_jobs, is_over
        first, last = leaves.value[leaves.start[:-1]], leaves.value[leaves.start[1:] - 1]
        largest = float(np.maximum(np.abs(first), np.abs(last)).sum())
        self.step = 2.0 ** (np.ceil(np.log2(max(largest, 1e-290))) - self.settings.step_bits)
        self.search_error = search_error + first.size * self.step
        self.heap: list[tuple[float, int, Node]] = []
        self.deep: list[Node] = []
        self.bytes = 0
        self.number = count()
        self.nodes, self.spent = 0, 0
        self.tie_bound = np.inf
        self.ties: list[tuple[float, Array]] = []
        whole = whole_part(leaves, self.step)
        self._put(Node(-np.inf, 0.0, whole, np.ones(whole.place.size, np.bool_), -1, -1))

    @property
    def is_open(self) -> bool:
        """Whether anything is left."""
        return bool(self.heap or self.deep)

    @property
    def _is_stopped(self) -> bool:
        """Whether compiled code may have been told to end, so that its results are of no use."""
        return bool(self.leaves.stop[0])

    @property
    def bound(self) -> float:
        """The least bound of all that is open."""
        bounds = [node.bound for node in self.deep]
        if self.heap:
            bounds.append(self.heap[0][0])
        return self.leaves.constant + min(bounds, default=np.inf)

    def advance(self, work: int, point: Array, value: float, run: Run) -> list[Array]:
        """Go on for so much work; return points that may be better than ``value``."""
        stop = self.spent + work
        best = value - self.leaves.constant
        cut = float(np.ceil((best + self.margin) / self.step)) * self.step
        found: list[Array] = []
        self.ties = [tie for tie in self.ties if tie[0] < value + self.margin]
        while self.spent < stop and self.is_open:
            if self.nodes < self.settings.root_rounds:
                chosen = [self._next()]
                jobs = [(node, node.keep) for node in chosen]
            else:
                chosen = self._choose(best)
                jobs = [(node, node.child(side)) for node in chosen for side in (0, 1)]
            outcomes = run(self._examine, jobs, cut)
            if None in outcomes:
                for node in chosen:
                    self._put(node)
                break
            for (node, _), outcome in zip(jobs, outcomes, strict=True):
                self._take(node.bound, outcome, best, found)
        return found

    def _choose(self, best: float) -> list[Node]:
        """Take the next nodes, one for each thread; what is no better than the best is closed."""
        chosen: list[Node] = []
        while len(chosen) < self.n_jobs and self.is_open:
            node = self._next()
            if not self._is_tie(node.bound, best):
                chosen.append(node)
        return chosen

    def _examine(self, job: tuple[Node, Array], cut: float) -> Outcome | None:
        """Examine what some places leave of a node; None if the time is over."""
        node, keep = job
        return self._bounded(node.part, keep, node.settled, cut)

    def _bounded(self, part: Part, keep: Array, settled: float, cut: float) -> Outcome | None:
        """Bound what some places leave of a part, and choose where to cut it."""
        work = 0
        for sweeps in (self.settings.sweeps, 1, 1):
            gained, part = shrink(part, keep)
            if self._is_stopped:
                return None
            settled += gained
            if gained >= LARGE:
                return Outcome(None, work)
            if not part.value.size:
                node = Node(settled, settled, part, keep, -1, -1)
                return Outcome(node, work)
            keep = np.ones(part.place.size, np.bool_)
            at, end = 0, sweeps * (part.place_start.size - 1)
            while at < end:
                if self.is_over():
                    return None
                bound, at = ascend(
                    part, at, end, self.settings.slice_limits, cut - settled, self.step, keep
                )
                if self._is_stopped:
                    return None
            bound += settled
            work += self.settings.limit_work * (sweeps + 2) * (part.box.size + part.value.size)
            if bound >= cut:
                return Outcome(None, work)
            ratio = self.settings.shrink_ratio
            if ratio * np.count_nonzero(keep) > (ratio - 1) * keep.size:
                break
        to_gain = cut - bound if bound > -LARGE / 2 else 1.0
        least_gain = self.settings.dual_min_gain * to_gain / part.tree_start.size
        feature, at = choose_cut(part, least_gain, cut - settled, keep)
        if self._is_stopped:
            return None
        return Outcome(Node(bound, settled, part, keep, feature, at), work)

    def _next(self) -> Node:
        """Take the next node: the best, or the last one if there is no room for more."""
        node = self.deep.pop() if self.deep else heapq.heappop(self.heap)[2]
        self.bytes -= node.nbytes
        return node

    def _is_tie(self, bound: float, best: float) -> bool:
        """Tell whether nothing better can be there; note how close it is."""
        if bound < best - self.search_error:
            return False
        if bound < best + self.margin:
            self.tie_bound = min(self.tie_bound, self.leaves.constant + bound)
        return True

    def _take(self, parent: float, outcome: Outcome, best: float, found: list[Array]) -> None:
        """Sort an examined node in."""
        node = outcome.node
        self.nodes += 1
        self.spent += outcome.work
        if node is None:
            return
        if not node.part.value.size:
            if node.bound < best + self.margin:
                # All points of it have the same boxes.
                part = node.part
                first = part.place[part.place_start[:-1]] - self.leaves.place_start[:-1]
                point = first.astype(np.int32)
                if len(self.ties) < self.settings.max_ties:
                    self.ties.append((self.leaves.constant + node.bound, np.append(point, point)))
                else:
                    self.tie_bound = min(self.tie_bound, self.leaves.constant + node.bound)
                if node.bound < best:
                    found.append(point)
            return
        node = node._replace(bound=max(node.bound, parent))
        if self._is_tie(node.bound, best):
            return
        self._put(node)

    def _put(self, node: Node) -> None:
        """Keep an open node."""
        self.bytes += node.nbytes
        if self.bytes > self.settings.dual_bytes:
            self.deep.append(node)
        else:
            heapq.heappush(self.heap, (node.bound, next(self.number), node))
