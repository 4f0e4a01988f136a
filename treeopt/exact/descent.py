"""White-box search for good points: all lines through a point at once.

Of every box it is known how many of the point's coordinates lie outside it. Boxes with none are
those that hold the point, one per tree; boxes with one tell what the tree would add if just that
coordinate moved into them. So one pass over the boxes gives the whole function along all lines
through the point. The best move along any of them is made until there is none: a local minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.kernels.jit import is_set, kernel
from treeopt.kernels.list_boxes import copy_row

if TYPE_CHECKING:
    from treeopt.problem.leaves import Leaves
    from treeopt.types import Array

ONCE = np.int64(2**40)
"""A box's `outside` counts coordinates in units of this, and adds up their numbers."""

# The places of `Walk.counter`.
PASSES, MOVES = range(2)

ELITE = 20
"""So many local minima are kept."""

DESCENT_WORK = 50_000
"""What a descent takes besides its loops, in nanoseconds."""

CHILDREN = 0.5
"""Share of descents that begin between two of them, rather than near one."""

FEATURE, FIRST, LAST = range(3)
"""A move: the feature, and the first and last of neighbouring places that are equally good."""


class Walk(NamedTuple):
    """Where the local search stands."""

    at: Array  # the point, as places
    outside: Array  # for each box, the coordinates of the point that lie outside it
    change: Array  # room for the function along all lines
    near: Array  # room for the boxes of a tree
    counter: Array
    seen: Array  # the best point that was looked at,
    least: Array  # and the sum there


def new_walk(leaves: Leaves) -> Walk:
    """Return a walk that has not begun: `go_to` a point first."""
    p, n = leaves.low.shape
    return Walk(
        at=np.full(p, -1, np.int32),
        outside=np.full(n, p * ONCE + p * (p - 1) // 2, np.int64),
        change=np.zeros(int(leaves.place_start[-1]) + p),
        near=np.empty(n, np.int32),
        counter=np.zeros(2, np.int64),
        seen=np.zeros(p, np.int32),
        least=np.full(1, np.inf),
    )


@kernel
def move(leaves: Any, walk: Any, k: Any, to: Any) -> None:
    """Move one coordinate."""
    low, high, outside = leaves.low[k], leaves.high[k], walk.outside
    before = walk.at[k]
    unit = ONCE + k
    for i in range(outside.size):
        was = (low[i] <= before) & (before <= high[i])
        now = (low[i] <= to) & (to <= high[i])
        outside[i] += (np.int64(was) - np.int64(now)) * unit
    walk.at[k] = to
    walk.counter[MOVES] += 1


@kernel
def go_to(leaves: Any, walk: Any, point: Any) -> None:
    """Move to a point."""
    for k in range(point.size):
        if walk.at[k] != point[k]:
            if is_set(leaves.stop):
                return
            move(leaves, walk, k, point[k])


@kernel
def look(leaves: Any, walk: Any, best: Any) -> Any:
    """Return the sum at the point and how much the best move along any line would change it.

    The move is written into ``best``.
    """
    outside, change, near = walk.outside, walk.change, walk.near
    p = walk.at.size
    touched = np.zeros(p, np.bool_)
    total = leaves.constant
    for t in range(leaves.start.size - 1):
        if is_set(leaves.stop):
            return total, 0.0
        here = 0.0
        n = 0
        for i in range(leaves.start[t], leaves.start[t + 1]):
            if outside[i] < 2 * ONCE:
                near[n] = i
                n += 1
        for a in range(n):
            if outside[near[a]] == 0:
                here = leaves.value[near[a]]
        total += here
        for a in range(n):
            i = near[a]
            if outside[i] > 0:
                k = outside[i] - ONCE
                touched[k] = True
                first = leaves.place_start[k] + k
                change[first + leaves.low[k, i]] += leaves.value[i] - here
                change[first + leaves.high[k, i] + 1] -= leaves.value[i] - here
    least = 0.0
    for k in range(p):
        if not touched[k]:
            continue
        # Feature k has one entry more than it has places.
        first = leaves.place_start[k] + k
        size = leaves.place_start[k + 1] - leaves.place_start[k]
        here = 0.0
        for c in range(size):
            here += change[first + c]
            change[first + c] = 0.0
            if here < least:
                least = here
                best[FEATURE], best[FIRST], best[LAST] = k, c, c
            elif here == least and best[FEATURE] == k and best[LAST] == c - 1:
                best[LAST] = c
        change[first + size] = 0.0
    walk.counter[PASSES] += 1
    if total < walk.least[0]:
        walk.least[0] = total
        copy_row(walk.at, walk.seen)
    return total, least


@kernel
def descend(leaves: Any, walk: Any, noise: Any, most: Any) -> Any:
    """Make the best moves until there is none that brings more than ``noise``; return the sum.

    Ends after ``most`` passes of the whole walk, wherever it stands then.
    """
    best = np.zeros(3, np.int64)
    best[FEATURE] = -1
    total, least = look(leaves, walk, best)
    while least < -noise and walk.counter[PASSES] < most:
        k = best[FEATURE]
        before = walk.at[k]
        move(leaves, walk, k, np.int32((best[FIRST] + best[LAST]) >> 1))
        best[FEATURE] = -1
        better, next_least = look(leaves, walk, best)
        if not better < total:
            move(leaves, walk, k, before)
            break
        total, least = better, next_least
    return total


Call = Callable[..., Any]
"""``call(function, *arguments)`` calls a function that may take long."""


def _at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function as usual."""
    return function(*arguments)


class LocalSearch:
    """Descents from many points: given ones, then children and neighbours of the best found.

    The best different local minima are kept. A new point is one of them with a few coordinates set
    at random, or takes each coordinate from one of two of them.

    Attributes
    ----------
    best : int32 array
        The best point so far, as places.
    value : float
        The sum there.
    descents : int
        Number of descents.
    in_vain : int
        Number of them since the best was found.
    """

    def __init__(
        self, leaves: Leaves, starts: Array, noise: float, seed: int, call: Call = _at_once
    ) -> None:
        self.leaves, self.noise, self.call = leaves, noise, call
        self.walk = new_walk(leaves)
        self.starts = list(starts)
        self.rng = np.random.default_rng(seed)
        self.elite: list[Array] = []
        self.values: list[float] = []
        self.best, self.value = np.zeros(self.walk.at.size, np.int32), np.inf
        self.descents = self.in_vain = 0

    @property
    def passes(self) -> int:
        """The number of points at which all lines were looked at."""
        return int(self.walk.counter[PASSES])

    @property
    def work(self) -> int:
        """The work so far."""
        loops = int(2.5 * self.walk.counter.sum() * self.leaves.value.size)
        return loops + DESCENT_WORK * self.descents

    def step(self, most: int) -> None:
        """Descend from the next point, for at most so many passes in all."""
        if self.starts:
            self.descend_from(self.starts.pop(0), most)
        elif len(self.elite) > 1 and self.rng.random() < CHILDREN:
            mother, father = self.rng.choice(len(self.elite), 2, replace=False)
            which = self.rng.random(self.best.size) < 0.5
            self.descend_from(np.where(which, self.elite[mother], self.elite[father]), most)
        else:
            point = self.elite[self.rng.integers(len(self.elite))].copy()
            axes = self.rng.integers(point.size, size=self.rng.integers(2, 5))
            point[axes] = self.rng.integers(np.diff(self.leaves.place_start)[axes])
            self.descend_from(point, most)

    def descend_from(self, point: Array, most: int) -> None:
        """Descend from a point, and keep where it leads if that is good."""
        value = float(self.call(self._descent, point, most))
        if self.leaves.stop[0]:
            # It was not finished: what counts is the best point on the way.
            value = float(self.walk.least[0])
            if value < self.value:
                self.best, self.value = self.walk.seen.copy(), value
            return
        self.descents += 1
        self.in_vain += 1
        if value < self.value:
            self.best, self.value, self.in_vain = self.walk.at.copy(), value, 0
        if any(abs(value - known) <= self.noise for known in self.values):
            return
        if len(self.elite) < ELITE:
            self.elite.append(self.walk.at.copy())
            self.values.append(value)
        elif value < max(self.values):
            worst = int(np.argmax(self.values))
            self.elite[worst], self.values[worst] = self.walk.at.copy(), value

    def _descent(self, point: Array, most: int) -> float:
        """Go to a point and down from there; return the sum at the end."""
        go_to(self.leaves, self.walk, point)
        return float(descend(self.leaves, self.walk, self.noise, most))
