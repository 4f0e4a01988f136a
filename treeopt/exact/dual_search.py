"""Branch and bound with the dual bound: fewer nodes, and each of them takes longer.

For problems that the plain tree search does not finish soon. A node keeps its part of the problem
with the prices, from which its children begin. The best open node comes first. To examine a node is
to `shrink` its part to the places that are kept, `ascend` to raise its bound, and `choose_cut`.
Nodes are examined in parallel: each takes a few calls of compiled code.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.exact.dual import ascend
from treeopt.exact.dual_cut import choose_cut
from treeopt.exact.dual_part import LARGE, Part, whole_part
from treeopt.exact.dual_shrink import shrink
from treeopt.exact.exact_settings import DEFAULT_SETTINGS, ExactSettings

if TYPE_CHECKING:
    from treeopt.exact.tree_search import Run
    from treeopt.problem.leaves import Leaves
    from treeopt.types import BoolArray, Int32Array


class Node(NamedTuple):
    """A node: its bound, the sum of its settled trees, what is left, and the cut to branch on.

    ``keep`` tells which places of the part are kept; ``at`` is the last place on the left of the
    cut. If no box is left, the node is a point, and there is no cut.
    """

    bound: float
    settled: float
    part: Part
    keep: BoolArray
    feature: int
    at: int

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return sum(array.nbytes for array in self.part) + self.keep.nbytes

    @property
    def is_point(self) -> bool:
        """Whether all trees are settled."""
        return not self.part.value.size

    def child(self, side: int) -> BoolArray:
        """Return the places that one side of the cut keeps."""
        keep = self.keep.copy()
        if side == 0:
            keep[self.at + 1 : self.part.place_start[self.feature + 1]] = False
        else:
            keep[self.part.place_start[self.feature] : self.at + 1] = False
        return keep


class Outcome(NamedTuple):
    """Result of examining a node: None if it is closed, and the work that it took."""

    node: Node | None
    work: int


class DualSearch:
    """Best-first branch and bound with the interface of `TreeSearch`.

    Parameters
    ----------
    leaves : Leaves
        The boxes of all trees.
    search_error : float
        Rounding error of a sum of leaves.
    tie_tolerance : float
        Nodes whose bound exceeds the best value by this or more are dropped; others that are not
        better than it are ties.
    n_jobs : int
        Number of nodes that are examined at the same time.
    is_over : callable
        Tells whether the time is over, also within nodes.
    settings : ExactSettings
        Tuning.

    Attributes
    ----------
    search_error : float
        Points that are better than the best value by at most this may be missed: the rounding error
        of a sum, and that of rounding values down to steps.
    nodes : int
        Number of nodes so far.
    spent : int
        Work so far.
    tie_bound : float
        The lowest bound of what was dropped because it is not better than the best point.
    ties : list of (bound, box)
        Single points, as boxes, that may be as good as the best; their sums are rounded down.
    """

    def __init__(
        self,
        leaves: Leaves,
        search_error: float,
        tie_tolerance: float,
        n_jobs: int,
        is_over: Callable[[], bool] = lambda: False,
        settings: ExactSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.leaves, self.tie_tolerance, self.n_jobs = leaves, tie_tolerance, n_jobs
        self.is_over, self.settings = is_over, settings
        first, last = leaves.value[leaves.start[:-1]], leaves.value[leaves.start[1:] - 1]
        largest = float(np.maximum(np.abs(first), np.abs(last)).sum())
        self.step = 2.0 ** (np.ceil(np.log2(max(largest, 1e-290))) - settings.step_bits)
        self.search_error = search_error + first.size * self.step
        self.heap: list[tuple[float, int, Node]] = []
        self.deep: list[Node] = []
        self.bytes = 0
        self.number = count()
        self.nodes, self.spent = 0, 0
        self.tie_bound = np.inf
        self.ties: list[tuple[float, Int32Array]] = []
        whole = whole_part(leaves, self.step)
        self._put(Node(-np.inf, 0.0, whole, np.ones(whole.place.size, np.bool_), -1, -1))

    @property
    def is_open(self) -> bool:
        """Whether any node is open."""
        return bool(self.heap or self.deep)

    @property
    def _is_stopped(self) -> bool:
        """Whether compiled code may have been told to end, so that its results are invalid."""
        return bool(self.leaves.stop[0])

    @property
    def bound(self) -> float:
        """The lowest bound of all open nodes."""
        bounds = [node.bound for node in self.deep]
        if self.heap:
            bounds.append(self.heap[0][0])
        return self.leaves.constant + min(bounds, default=np.inf)

    def advance(self, work: int, point: Int32Array, value: float, run: Run) -> list[Int32Array]:
        """Continue for some work; return points that may be better than ``value``."""
        stop = self.spent + work
        best = value - self.leaves.constant
        cutoff = float(np.ceil((best + self.tie_tolerance) / self.step)) * self.step
        found: list[Int32Array] = []
        self.ties = [tie for tie in self.ties if tie[0] < value + self.tie_tolerance]
        while self.spent < stop and self.is_open:
            if self.nodes < self.settings.root_rounds:
                chosen = [self._next()]
                jobs = [(node, node.keep) for node in chosen]
            else:
                chosen = self._choose(best)
                jobs = [(node, node.child(side)) for node in chosen for side in (0, 1)]
            outcomes = run(self._examine, jobs, cutoff)
            if None in outcomes:
                for node in chosen:
                    self._put(node)
                break
            for (node, _), outcome in zip(jobs, outcomes, strict=True):
                self._take(node.bound, outcome, best, found)
        return found

    def _choose(self, best: float) -> list[Node]:
        """Take the next nodes, one for each thread; those no better than the best are closed."""
        chosen: list[Node] = []
        while len(chosen) < self.n_jobs and self.is_open:
            node = self._next()
            if not self._is_tie(node.bound, best):
                chosen.append(node)
        return chosen

    def _examine(self, job: tuple[Node, BoolArray], cutoff: float) -> Outcome | None:
        """Examine what some places leave of a node; return None if the time is over."""
        node, keep = job
        return self._bounded(node.part, keep, node.settled, cutoff)

    def _bounded(
        self, part: Part, keep: BoolArray, settled: float, cutoff: float
    ) -> Outcome | None:
        """Bound what some places leave of a part, and choose where to cut it."""
        settings = self.settings
        work, ratio = 0, settings.shrink_ratio
        for sweeps in (settings.sweeps, 1, 1):
            gained, part = shrink(part, keep)
            if self._is_stopped:
                return None
            settled += gained
            if gained >= LARGE:
                return Outcome(None, work)
            if not part.value.size:
                return Outcome(Node(settled, settled, part, keep, -1, -1), work)
            keep = np.ones(part.place.size, np.bool_)
            raised = self._raised(part, sweeps, cutoff - settled, keep)
            if raised is None:
                return None
            bound = raised + settled
            work += settings.span_work * (sweeps + 2) * (part.box.size + part.value.size)
            if bound >= cutoff:
                return Outcome(None, work)
            if ratio * np.count_nonzero(keep) > (ratio - 1) * keep.size:
                break
        to_gain = cutoff - bound if bound > -LARGE / 2 else 1.0
        min_gain = settings.dual_min_gain * to_gain / part.tree_start.size
        feature, at = choose_cut(part, min_gain, cutoff - settled, keep)
        if self._is_stopped:
            return None
        return Outcome(Node(bound, settled, part, keep, feature, at), work)

    def _raised(self, part: Part, sweeps: int, cutoff: float, keep: BoolArray) -> float | None:
        """Return the bound of a part after some sweeps; None if the time is over.

        Removes places from ``keep``.
        """
        bound = -LARGE
        at, end = 0, sweeps * (part.place_start.size - 1)
        while at < end:
            if self.is_over():
                return None
            slice_visits = self.settings.slice_visits
            bound, at = ascend(part, at, end, slice_visits, cutoff, self.step, keep)
            if self._is_stopped:
                return None
        return bound

    def _next(self) -> Node:
        """Take the next node: the best, or the last one if there is no memory for more."""
        node = self.deep.pop() if self.deep else heapq.heappop(self.heap)[2]
        self.bytes -= node.nbytes
        return node

    def _is_tie(self, bound: float, best: float) -> bool:
        """Tell whether nothing better can be there; note how close it is."""
        if bound < best - self.search_error:
            return False
        if bound < best + self.tie_tolerance:
            self.tie_bound = min(self.tie_bound, self.leaves.constant + bound)
        return True

    def _take(self, parent: float, outcome: Outcome, best: float, found: list[Int32Array]) -> None:
        """Put an examined node where it belongs; ``parent`` is the bound of its parent."""
        node = outcome.node
        self.nodes += 1
        self.spent += outcome.work
        if node is None:
            return
        if node.is_point:
            self._take_point(node, best, found)
            return
        node = node._replace(bound=max(node.bound, parent))
        if not self._is_tie(node.bound, best):
            self._put(node)

    def _take_point(self, node: Node, best: float, found: list[Int32Array]) -> None:
        """Note a node that is a point as a tie, and as found if it is better than the best."""
        if node.bound >= best + self.tie_tolerance:
            return
        # All points of it lie in the same boxes.
        part = node.part
        first = part.place[part.place_start[:-1]] - self.leaves.place_start[:-1]
        point = first.astype(np.int32)
        bound = self.leaves.constant + node.bound
        if len(self.ties) < self.settings.max_ties:
            self.ties.append((bound, np.append(point, point)))
        else:
            self.tie_bound = min(self.tie_bound, bound)
        if node.bound < best:
            found.append(point)

    def _put(self, node: Node) -> None:
        """Keep an open node."""
        self.bytes += node.nbytes
        if self.bytes > self.settings.dual_bytes:
            self.deep.append(node)
        else:
            heapq.heappush(self.heap, (node.bound, next(self.number), node))
