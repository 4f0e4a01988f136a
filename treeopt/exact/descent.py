"""White-box search for good points: all lines through a point at once.

For every box the walk counts the coordinates of the point that lie outside it. Boxes with none hold
the point, one per tree. Boxes with exactly one tell what their tree would add if that coordinate
moved into them. So one pass over the boxes gives the whole function along all axis-parallel lines
through the point. A descent makes the best move along any of them until there is none: the point is
a local minimum. `LocalSearch` descends from many points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.exact.exact_settings import DEFAULT_SETTINGS, ExactSettings
from treeopt.kernels.jit import inlined, is_set, kernel
from treeopt.kernels.list_boxes import copy_row

if TYPE_CHECKING:
    from treeopt.problem.leaves import Leaves
    from treeopt.types import Array, BoolArray, FloatArray, Int32Array, IntArray

ONCE = np.int64(2**40)
"""One coordinate outside a box adds this plus its number to the box's ``outside``."""

WALK_STATE = np.dtype([("passes", np.int64), ("moves", np.int64), ("lowest", np.float64)])
"""State of a walk: passes over all boxes, moves, and the lowest sum that was seen."""


class Walk(NamedTuple):
    """Where the local search stands."""

    at: Int32Array  # the point, as places
    outside: IntArray  # per box, the coordinates of the point outside it, see `ONCE`
    change: FloatArray  # room for the function along all lines
    near: Int32Array  # room for the boxes of a tree
    seen: Int32Array  # the best point that was scanned
    state: Array  # one record of `WALK_STATE`


class Lines(NamedTuple):
    """The sum at a point, and the best move along any line through it.

    The move changes the sum by ``change`` (0.0 if there is none) and goes to any of the places
    ``first`` to ``last`` of ``feature``, which are equally good.
    """

    total: float
    change: float
    feature: int
    first: int
    last: int


def new_walk(leaves: Leaves) -> Walk:
    """Return a walk without a point: `go_to` one first."""
    p, n = leaves.low.shape
    state = np.zeros(1, WALK_STATE)
    state["lowest"] = np.inf
    return Walk(
        at=np.full(p, -1, np.int32),
        outside=np.full(n, p * ONCE + p * (p - 1) // 2, np.int64),
        change=np.zeros(int(leaves.place_start[-1]) + p),
        near=np.empty(n, np.int32),
        seen=np.zeros(p, np.int32),
        state=state,
    )


@kernel
def move(leaves: Leaves, walk: Walk, k: int, to: int | np.int32) -> None:
    """Move coordinate ``k`` to a place."""
    low, high, outside = leaves.low[k], leaves.high[k], walk.outside
    before = walk.at[k]
    unit = ONCE + k
    for i in range(outside.size):
        was = (low[i] <= before) & (before <= high[i])
        now = (low[i] <= to) & (to <= high[i])
        outside[i] += (np.int64(was) - np.int64(now)) * unit
    walk.at[k] = to
    walk.state[0].moves += 1


@kernel
def go_to(leaves: Leaves, walk: Walk, point: Int32Array) -> None:
    """Move to a point."""
    for k in range(point.size):
        if walk.at[k] != point[k]:
            if is_set(leaves.stop):
                return
            move(leaves, walk, k, point[k])


@kernel
def scan_lines(leaves: Leaves, walk: Walk) -> Lines:
    """Return the sum at the point and the best move along any line."""
    touched = np.zeros(walk.at.size, np.bool_)
    total = leaves.constant
    for t in range(leaves.start.size - 1):
        if is_set(leaves.stop):
            return Lines(total, 0.0, -1, -1, -1)
        total += add_changes(leaves, walk, t, touched)
    lines: Lines = best_move(leaves, walk, touched, total)
    state = walk.state[0]
    state.passes += 1
    if total < state.lowest:
        state.lowest = total
        copy_row(walk.at, walk.seen)
    return lines


@inlined
def add_changes(leaves: Leaves, walk: Walk, t: int, touched: BoolArray) -> float:
    """Add the changes of tree ``t`` along all lines, as differences; return its value here."""
    outside, change, near = walk.outside, walk.change, walk.near
    here = 0.0
    n = 0
    for i in range(leaves.start[t], leaves.start[t + 1]):
        if outside[i] < 2 * ONCE:
            near[n] = i
            n += 1
    for a in range(n):
        if outside[near[a]] == 0:
            here = leaves.value[near[a]]
    for a in range(n):
        i = near[a]
        if outside[i] > 0:
            k = outside[i] - ONCE
            touched[k] = True
            # Feature k has one entry more than it has places.
            first = leaves.place_start[k] + k
            change[first + leaves.low[k, i]] += leaves.value[i] - here
            change[first + leaves.high[k, i] + 1] -= leaves.value[i] - here
    return here


@inlined
def best_move(leaves: Leaves, walk: Walk, touched: BoolArray, total: float) -> Lines:
    """Return the best move by the changes that were added, and clear these."""
    change = walk.change
    lowest, feature, first, last = 0.0, -1, -1, -1
    for k in range(touched.size):
        if not touched[k]:
            continue
        origin = leaves.place_start[k] + k
        size = leaves.place_start[k + 1] - leaves.place_start[k]
        here = 0.0
        for c in range(size):
            here += change[origin + c]
            change[origin + c] = 0.0
            if here < lowest:
                lowest = here
                feature, first, last = k, c, c
            elif here == lowest and feature == k and last == c - 1:
                last = c
        change[origin + size] = 0.0
    return Lines(total, lowest, feature, first, last)


@kernel
def descend(
    leaves: Leaves, walk: Walk, point: Int32Array, min_decrease: float, max_passes: int
) -> float:
    """Go to a point and make the best moves from there; return the sum at the end.

    Ends where no move decreases the sum by more than ``min_decrease``, or after ``max_passes``
    passes of the whole walk.
    """
    go_to(leaves, walk, point)
    state = walk.state[0]
    lines: Lines = scan_lines(leaves, walk)
    while lines.change < -min_decrease and state.passes < max_passes:
        k = lines.feature
        before = walk.at[k]
        move(leaves, walk, k, np.int32((lines.first + lines.last) >> 1))
        after = scan_lines(leaves, walk)
        if not after.total < lines.total:
            move(leaves, walk, k, before)
            break
        lines = after
    return lines.total


Call = Callable[..., Any]
"""``call(function, *arguments)`` calls a function that may take long."""


def _call_directly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function as usual."""
    return function(*arguments)


class LocalSearch:
    """Descents from many points: given ones, then mixtures and neighbors of the best found.

    The best different local minima are kept. A new start is one of them with a few coordinates set
    at random, or takes each coordinate from one of two of them.

    Parameters
    ----------
    leaves : Leaves
        The boxes of all trees.
    starts : int32 array
        Points to start from, as places.
    search_error : float
        Rounding error of sums: smaller decreases are ignored, and sums that differ by less are
        taken as equal.
    seed : int
        Seed of the random starts.
    call : callable
        Calls descents, which may take long.
    settings : ExactSettings
        Tuning.

    Attributes
    ----------
    best : int32 array
        The best point so far, as places.
    value : float
        The sum there.
    descents : int
        Number of descents.
    failures : int
        Number of descents since the best point was found.
    """

    def __init__(
        self,
        leaves: Leaves,
        starts: Int32Array,
        search_error: float,
        seed: int,
        call: Call = _call_directly,
        settings: ExactSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.leaves, self.search_error, self.call = leaves, search_error, call
        self.settings = settings
        self.walk, self.n_places = new_walk(leaves), np.diff(leaves.place_start)
        self.starts = list(starts)
        self.rng = np.random.default_rng(seed)
        self.elite: list[Int32Array] = []
        self.values: list[float] = []
        self.best, self.value = np.zeros(self.walk.at.size, np.int32), np.inf
        self.descents = self.failures = 0

    @property
    def passes(self) -> int:
        """The number of points at which all lines were scanned."""
        return int(self.walk.state["passes"][0])

    @property
    def work(self) -> int:
        """The work so far."""
        loops = self.passes + int(self.walk.state["moves"][0])
        work = int(self.settings.pass_work * loops * self.leaves.value.size)
        return work + self.settings.descent_work * self.descents

    def step(self, max_passes: int) -> None:
        """Descend from the next point, for at most ``max_passes`` passes in total."""
        if self.starts:
            self.descend_from(self.starts.pop(0), max_passes)
        elif len(self.elite) > 1 and self.rng.random() < self.settings.crossover_share:
            mother, father = self.rng.choice(len(self.elite), 2, replace=False)
            which = self.rng.random(self.best.size) < 0.5
            point = np.where(which, self.elite[mother], self.elite[father])
            self.descend_from(point, max_passes)
        else:
            point = self.elite[self.rng.integers(len(self.elite))].copy()
            n = self.rng.integers(self.settings.min_mutations, self.settings.max_mutations + 1)
            axes = self.rng.integers(point.size, size=n)
            point[axes] = self.rng.integers(self.n_places[axes])
            self.descend_from(point, max_passes)

    def descend_from(self, point: Int32Array, max_passes: int) -> None:
        """Descend from a point, and keep the local minimum if it is a good one."""
        value = float(
            self.call(descend, self.leaves, self.walk, point, self.search_error, max_passes)
        )
        if self.leaves.stop[0]:
            # Not finished: the best point on the way counts.
            value = float(self.walk.state["lowest"][0])
            if value < self.value:
                self.best, self.value = self.walk.seen.copy(), value
            return
        self.descents += 1
        self.failures += 1
        if value < self.value:
            self.best, self.value, self.failures = self.walk.at.copy(), value, 0
        if any(abs(value - known) <= self.search_error for known in self.values):
            return
        if len(self.elite) < self.settings.n_elite:
            self.elite.append(self.walk.at.copy())
            self.values.append(value)
        elif value < max(self.values):
            worst = int(np.argmax(self.values))
            self.elite[worst], self.values[worst] = self.walk.at.copy(), value
