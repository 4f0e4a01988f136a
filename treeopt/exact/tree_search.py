"""Branch and bound over boxes of the grid, compiled, in steps that may be taken up again.

A node is a box of places. Its bound is the sum of the best box of each tree that meets it. The best
open node comes off a heap, and from it the search plunges: it goes on with the better half of each
cut and comes back for the other, on lists that shrink from level to level, until some number of
nodes are done; what is open then goes onto the heap. Nodes are filtered with the value of the best
point: boxes of trees that no better point can lie in are dropped, and so are places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.exact.branching import (
    CUT,
    EMPTY,
    FEATURE,
    LEFT,
    NARROW,
    NARROWED,
    RIGHT,
    SOLVED,
    WORK,
    examine,
)
from treeopt.exact.lists import gather, narrow
from treeopt.kernels.jit import is_set, kernel
from treeopt.kernels.list_boxes import copy_row
from treeopt.problem.leaves import Leaves

if TYPE_CHECKING:
    from treeopt.types import Array

# The places of `Search.counter`: open nodes on the heap, unused places of the pool, the level of
# the plunge (-1: none), nodes so far and in this plunge, work so far, ties noted; and, set from
# outside, the length of a plunge.
HEAP, UNUSED, LEVEL, NODES, PLUNGED, SPENT, TIES, PLUNGE = range(8)
N_COUNTS = 8

# The places of `Search.number`: the sum at the best point, how far computed sums may be off, how
# much worse than the best point a true sum must be to be of no interest, and the least bound among
# the ties that there was no room for.
BEST, NOISE, MARGIN, TIE_BOUND = range(4)

LEVELS = 256
"""The deepest that a plunge goes."""

PLUNGE_NODES = 100
"""Nodes of a plunge before the best open node is looked for again."""

OPEN_BYTES = 2**30
"""Memory for open nodes: beyond that a plunge goes on until nothing below it is open."""

COPIED_AT_ONCE = 2**23
"""Bytes that are copied between two looks at the limits when the pool grows."""

BOX_WORK = 15
"""The work of looking at a box, in nanoseconds or so."""

ENDLESS = 2**62
"""The length of a plunge that ends only when nothing below it is open."""

TIE_ROOM = 64
"""So many ties are kept with their boxes."""

# What `advance` returns: no node is open; the work is done; the pool needs more room.
DONE, PAUSED, FULL = range(3)


Run = Callable[..., list[Any]]
"""``run(function, items, *rest)`` calls the function for every item, on several threads."""


class Search(NamedTuple):
    """All that the tree search knows. Boxes are lows and highs, one after the other."""

    counter: Array
    number: Array
    best: Array  # the best point
    heap_bound: Array
    heap_node: Array  # places in the pool
    pool: Array  # boxes of open nodes
    unused: Array  # places of the pool that are free
    table_value: Array  # the table of the plunge, see `lists`
    table_box: Array
    arena: Array
    level_box: Array  # the node at each level of the plunge,
    level_constant: Array  # the constant of its lists,
    level_bound: Array  # their bound,
    level_trees: Array  # number of trees,
    level_at: Array  # and where they begin
    level_end: Array  # and end in the arena
    pending: Array  # how many of its two children are still to be visited
    child: Array  # the cut: feature, last place on the left, and the side that comes first
    child_bound: Array  # bounds of the left and right child
    loss: Array  # room for `examine`
    tie_box: Array
    tie_bound: Array


def new_search(leaves: Leaves, noise: float, margin: float, room: int = 2**12) -> Search:
    """Return a search with nothing open."""
    p, n_boxes, n_trees = leaves.low.shape[0], leaves.value.size, leaves.start.size - 1
    count = np.zeros(N_COUNTS, np.int64)
    count[LEVEL] = -1
    count[PLUNGE] = PLUNGE_NODES
    count[UNUSED] = room
    return Search(
        counter=count,
        number=np.array([np.inf, noise, margin, np.inf]),
        best=np.zeros(p, np.int32),
        heap_bound=np.empty(room),
        heap_node=np.empty(room, np.int64),
        pool=np.empty((room, 2 * p), np.int32),
        unused=np.arange(room)[::-1].copy(),
        table_value=np.empty(n_boxes),
        table_box=np.empty((n_boxes, 2 * p), np.int32),
        arena=np.empty(8 * (n_boxes + n_trees + 2), np.int32),
        level_box=np.empty((LEVELS, 2 * p), np.int32),
        level_constant=np.empty(LEVELS),
        level_bound=np.empty(LEVELS),
        level_trees=np.empty(LEVELS, np.int64),
        level_at=np.empty(LEVELS, np.int64),
        level_end=np.empty(LEVELS, np.int64),
        pending=np.empty(LEVELS, np.int64),
        child=np.empty((LEVELS, 3), np.int64),
        child_bound=np.empty((LEVELS, 2)),
        loss=np.empty((2, int(leaves.place_start[-1]))),
        tie_box=np.empty((TIE_ROOM, 2 * p), np.int32),
        tie_bound=np.empty(TIE_ROOM),
    )


def _heap(search: Search) -> tuple[Array, ...]:
    """Return the arrays of the heap."""
    return search.counter, search.heap_bound, search.heap_node, search.pool, search.unused


def grown(search: Search, more: int, is_over: Callable[[], bool] = lambda: False) -> Search:
    """Return the search with room for more open nodes; as it is if the time is over."""
    room = search.heap_bound.size
    count = search.counter
    names = ("heap_bound", "heap_node", "pool", "unused")
    tables: dict[str, Array] = {}
    for name in names:
        old: Array = getattr(search, name)
        tables[name] = np.empty((room + more, *old.shape[1:]), old.dtype)
        at_once = max(1, COPIED_AT_ONCE * room // max(old.nbytes, 1))
        for first in range(0, room, at_once):
            if is_over():
                return search
            rows = slice(first, min(first + at_once, room))
            tables[name][rows] = old[rows]
    tables["unused"][count[UNUSED] : count[UNUSED] + more] = np.arange(room, room + more)
    count[UNUSED] += more
    return search._replace(**tables)


@kernel
def push(
    count: Any, heap_bound: Any, heap_node: Any, pool: Any, unused: Any, box: Any, bound: Any
) -> None:
    """Put a node onto the heap."""
    count[UNUSED] -= 1
    node = unused[count[UNUSED]]
    copy_row(box, pool[node])
    i = count[HEAP]
    count[HEAP] += 1
    while i > 0 and heap_bound[(i - 1) >> 1] > bound:
        heap_bound[i] = heap_bound[(i - 1) >> 1]
        heap_node[i] = heap_node[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap_bound[i] = bound
    heap_node[i] = node


@kernel
def pop(count: Any, heap_bound: Any, heap_node: Any, pool: Any, unused: Any, box: Any) -> Any:
    """Take the node with the least bound off the heap; write its box and return its bound."""
    least, node = heap_bound[0], heap_node[0]
    copy_row(pool[node], box)
    unused[count[UNUSED]] = node
    count[UNUSED] += 1
    count[HEAP] -= 1
    n = count[HEAP]
    bound, last = heap_bound[n], heap_node[n]
    i = 0
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and heap_bound[child + 1] < heap_bound[child]:
            child += 1
        if heap_bound[child] >= bound:
            break
        heap_bound[i] = heap_bound[child]
        heap_node[i] = heap_node[child]
        i = child
    heap_bound[i] = bound
    heap_node[i] = last
    return least


@kernel
def is_closed(count: Any, number: Any, tie_box: Any, tie_bound: Any, box: Any, bound: Any) -> Any:
    """Tell whether a node can be given up; if only because it is no better, note it as a tie."""
    if bound < number[BEST] - number[NOISE]:
        return False
    if bound < number[BEST] + number[MARGIN]:
        if count[TIES] < TIE_ROOM:
            copy_row(box, tie_box[count[TIES]])
            tie_bound[count[TIES]] = bound
            count[TIES] += 1
        else:
            number[TIE_BOUND] = min(number[TIE_BOUND], bound)
    return True


@kernel
def note_best(
    count: Any, number: Any, best: Any, tie_box: Any, tie_bound: Any, box: Any, bound: Any
) -> None:
    """Note the middle of a box as the best point; ties with the one before are ties no more."""
    p = best.size
    number[BEST] = bound
    for k in range(p):
        best[k] = (box[k] + box[p + k]) >> 1
    n = 0
    for i in range(count[TIES]):
        if tie_bound[i] < bound + number[MARGIN]:
            tie_bound[n] = tie_bound[i]
            copy_row(tie_box[i], tie_box[n])
            n += 1
    count[TIES] = n


@kernel
def take_child(
    pending: Any, child: Any, child_bound: Any, level_box: Any, level: Any, box: Any
) -> Any:
    """Take the next child of a level off; write its box and return its bound."""
    p = box.size // 2
    pending[level] -= 1
    feature, cut, first = child[level, 0], child[level, 1], child[level, 2]
    side = first if pending[level] == 1 else 1 - first
    copy_row(level_box[level], box)
    if side == 0:
        box[p + feature] = cut
    else:
        box[feature] = cut + 1
    return child_bound[level, side]


@kernel
def advance(leaves: Any, search: Any, work: Any) -> Any:
    """Go on for so much work, counted in boxes looked at; return DONE, PAUSED or FULL.

    Between two calls, what is open is on the heap or a child still to be visited.
    """
    count, number = search.counter, search.number
    heap = (count, search.heap_bound, search.heap_node, search.pool, search.unused)
    ties = (search.tie_box, search.tie_bound)
    cuts = (search.pending, search.child, search.child_bound, search.level_box)
    table = (search.table_value, search.table_box)
    p = search.best.size
    changed = np.empty(p, np.int64)
    whole = np.zeros(4, np.int64)
    real = np.zeros(2)
    first = np.empty(leaves.start.size, np.int64)
    child_box = np.empty(2 * p, np.int32)
    stop = count[SPENT] + work
    while True:
        if is_set(leaves.stop) or count[SPENT] >= stop:
            return PAUSED
        level = count[LEVEL]
        while level >= 0 and search.pending[level] == 0:
            level -= 1
        count[LEVEL] = level
        threshold = number[BEST] + number[MARGIN]
        slack = np.inf
        n_changed = 0
        if level < 0:
            # A new plunge, from the best open node.
            if count[HEAP] == 0:
                return DONE
            level = 0
            box = search.level_box[0]
            stored = pop(*heap, box)
            if is_closed(count, number, *ties, box, stored):
                continue
            count[NODES] += 1
            count[PLUNGED] = 0
            n, end = gather(leaves, box, threshold, *table, search.arena, first)
            count[SPENT] += end + leaves.value.size // 4
            if n < 0:
                continue
            search.level_at[0] = source = 0
            search.level_constant[0] = leaves.constant
        else:
            size = search.level_end[level] - search.level_at[level]
            no_room = level + 2 > LEVELS or search.level_end[level] + size > search.arena.size
            if count[PLUNGED] >= count[PLUNGE] or no_room:
                # The plunge ends: what is open goes onto the heap.
                if count[UNUSED] < 2 * LEVELS:
                    return FULL
                for e in range(level + 1):
                    while search.pending[e] > 0:
                        stored = take_child(*cuts, e, child_box)
                        if not is_closed(count, number, *ties, child_box, stored):
                            push(*heap, child_box, stored)
                continue
            # The next child, in the place of its parent if it is the second.
            stored = take_child(*cuts, level, child_box)
            if is_closed(count, number, *ties, child_box, stored):
                continue
            count[NODES] += 1
            count[PLUNGED] += 1
            slack = threshold - search.level_bound[level]
            source, n = search.level_at[level], search.level_trees[level]
            changed[0] = search.child[level, 0]
            n_changed = 1
            if search.pending[level] == 1:
                search.level_constant[level + 1] = search.level_constant[level]
                search.level_at[level + 1] = search.level_end[level]
                level += 1
            box = search.level_box[level]
            copy_row(child_box, box)
        search.pending[level] = 0
        at = search.level_at[level]
        bound = 0.0
        outcome = NARROW
        # Filter to a fixed point.
        while outcome == NARROW:
            n, fold, bound, end, n_changed = narrow(
                *table,
                search.arena,
                source,
                n,
                at,
                box,
                changed,
                n_changed,
                slack,
                leaves.stop,
            )
            source = at
            count[SPENT] += end - at
            if n < 0:
                break
            search.level_constant[level] += fold
            bound += search.level_constant[level]
            slack = threshold - bound
            if is_closed(count, number, *ties, box, bound):
                n = -1
                break
            if n_changed > 0:
                continue
            outcome = examine(
                *table,
                search.arena,
                at,
                n,
                box,
                slack,
                leaves.place_start,
                search.loss,
                changed,
                whole,
                real,
                leaves.stop,
            )
            count[SPENT] += whole[WORK]
            n_changed = whole[NARROWED]
            if outcome == EMPTY:
                n = -1
        if n < 0:
            continue
        if outcome == SOLVED:
            note_best(count, number, search.best, *ties, box, bound)
            continue
        search.level_bound[level] = bound
        search.level_trees[level] = n
        search.level_end[level] = end
        search.pending[level] = 2
        search.child[level, 0] = whole[FEATURE]
        search.child[level, 1] = whole[CUT]
        search.child[level, 2] = 0 if real[LEFT] <= real[RIGHT] else 1
        search.child_bound[level, 0] = max(bound + real[LEFT], stored)
        search.child_bound[level, 1] = max(bound + real[RIGHT], stored)
        count[LEVEL] = level


class TreeSearch:
    """The searches of several threads, which share what is open; see `DualSearch` for the other."""

    def __init__(
        self,
        leaves: Leaves,
        noise: float,
        margin: float,
        n_jobs: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.leaves, self.noise, self.is_over = leaves, 2 * noise, is_over
        self.searches = [new_search(leaves, self.noise, margin) for _ in range(n_jobs)]
        whole = np.append(np.zeros(leaves.low.shape[0]), np.diff(leaves.place_start) - 1)
        push(*_heap(self.searches[0]), whole.astype(np.int32), -np.inf)

    @property
    def nodes(self) -> int:
        """The number of nodes so far."""
        return sum(int(search.counter[NODES]) for search in self.searches)

    @property
    def spent(self) -> int:
        """The work so far."""
        return BOX_WORK * sum(int(search.counter[SPENT]) for search in self.searches)

    @property
    def is_open(self) -> bool:
        """Whether anything is left."""
        return any(map(_is_open, self.searches))

    @property
    def bound(self) -> float:
        """The least bound of all that is open."""
        return min(map(_open_bound, self.searches))

    @property
    def tie_bound(self) -> float:
        """The least bound of the ties that were not kept with their boxes."""
        return min(float(search.number[TIE_BOUND]) for search in self.searches)

    @property
    def ties(self) -> list[tuple[float, Array]]:
        """The ties: bounds and boxes."""
        return [
            (float(search.tie_bound[i]), search.tie_box[i])
            for search in self.searches
            for i in range(search.counter[TIES])
        ]

    def advance(self, work: int, point: Array, value: float, run: Run) -> list[Array]:
        """Go on for so much work in each thread; return points that are better than ``value``."""
        for search in self.searches:
            if value < search.number[BEST]:
                search.number[BEST] = value
                search.best[:] = point
        before = [float(search.number[BEST]) for search in self.searches]
        run(self._go_on, range(len(self.searches)), work)
        self._share()
        after = zip(self.searches, before, strict=True)
        return [search.best.copy() for search, best in after if search.number[BEST] < best]

    def _go_on(self, job: int, work: int) -> None:
        search = self.searches[job]
        if advance(self.leaves, search, max(work // BOX_WORK, 1)) == FULL:
            if 2 * search.pool.nbytes * len(self.searches) <= OPEN_BYTES:
                self.searches[job] = grown(search, search.heap_bound.size, self.is_over)
            elif search.counter[PLUNGE] < ENDLESS:
                # No room: as deep as it goes.
                search.counter[PLUNGE] = ENDLESS
            else:
                # It went as deep as it can.
                self.searches[job] = grown(search, 4 * LEVELS, self.is_over)

    def _share(self) -> None:
        """Give searches with nothing to do half of what the others have open."""
        giver = max(self.searches, key=lambda search: int(search.counter[HEAP]))
        for search in self.searches:
            if not _is_open(search) and giver.counter[HEAP] > 1:
                share(giver, search)


def _open_bound(search: Search) -> float:
    """Return the least bound of all that is open; infinite if nothing is."""
    bounds = [np.inf]
    if search.counter[HEAP]:
        bounds.append(float(search.heap_bound[0]))
    for level in range(int(search.counter[LEVEL]) + 1):
        first = search.child[level, 2]
        sides = {0: [], 1: [1 - first], 2: [0, 1]}[int(search.pending[level])]
        bounds.extend(float(search.child_bound[level, side]) for side in sides)
    return min(bounds)


def _is_open(search: Search) -> bool:
    """Tell whether anything is open."""
    return bool(search.counter[HEAP]) or bool(search.pending[: search.counter[LEVEL] + 1].any())


def share(giver: Search, taker: Search) -> None:
    """Give every other node of one search's heap to another, which has none."""
    n = int(giver.counter[HEAP])
    order = np.argsort(giver.heap_bound[:n], kind="stable")
    bounds = giver.heap_bound[order]
    boxes = giver.pool[giver.heap_node[order]]
    number = np.arange(n)
    to_taker = (number % 2 == 1) & (number // 2 < taker.heap_bound.size - 2 * LEVELS)
    refill(giver, boxes[~to_taker], bounds[~to_taker])
    refill(taker, boxes[to_taker], bounds[to_taker])


def refill(search: Search, boxes: Array, bounds: Array) -> None:
    """Let a heap hold these nodes and no others; their bounds ascend, which is a heap's order."""
    n, room = bounds.size, search.heap_bound.size
    search.unused[:] = np.arange(room)
    search.counter[HEAP], search.counter[UNUSED] = n, room - n
    search.heap_bound[:n] = bounds
    search.heap_node[:n] = room - 1 - np.arange(n)
    search.pool[room - n :] = boxes[::-1]
