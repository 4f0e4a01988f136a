"""Branch and bound over boxes of the grid, compiled, in steps that can be resumed.

A node is a box of places. Its bound is the sum of the best box of each tree that meets it. The best
open node comes off a heap, and from it the search plunges: it continues with the better half of
each cut and returns for the other half, on lists that shrink from level to level, until a number of
nodes are done; then what is open goes onto the heap. Nodes are filtered with the value of the best
point: boxes of trees that no better point can lie in are dropped, and so are places.

`advance` is the loop over nodes. Its steps: `begin_plunge` or `next_child` opens a node,
`filter_node` bounds it and closes it, solves it or divides it, and `end_plunge` puts what is open
onto the heap. `lists` and `branching` have what is done at a node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.exact.box_lists import Lists, gather, narrow
from treeopt.exact.branching import (
    BRANCH,
    EMPTY,
    SOLVED,
    CutRoom,
    Examined,
    examine,
    new_cut_room,
)
from treeopt.exact.exact_settings import DEFAULT_SETTINGS, ExactSettings
from treeopt.kernels.jit import inlined, is_set, kernel
from treeopt.kernels.list_boxes import copy_row
from treeopt.problem.leaves import Leaves

if TYPE_CHECKING:
    from treeopt.types import Array, FloatArray, Int32Array, IntArray

SEARCH_STATE = np.dtype(
    [
        ("n_open", np.int64),  # open nodes on the heap
        ("n_unused", np.int64),  # unused rows of the pool
        ("level", np.int64),  # level of the plunge; -1: none
        ("nodes", np.int64),  # nodes so far
        ("plunged", np.int64),  # nodes of this plunge
        ("plunge_nodes", np.int64),  # maximum number of nodes of a plunge
        ("spent", np.int64),  # work so far, in boxes visited
        ("n_ties", np.int64),  # ties that are kept
        ("best", np.float64),  # sum at the best point
        ("search_error", np.float64),  # rounding error of computed sums
        ("tie_tolerance", np.float64),  # nodes whose bound exceeds the best by this are dropped
        ("tie_bound", np.float64),  # lowest bound of the ties that are not kept
    ]
)
"""State of a search, as one record."""

LEVEL = np.dtype(
    [
        ("constant", np.float64),  # the constant and the value of folded trees
        ("bound", np.float64),
        ("n_trees", np.int64),  # trees that have lists
        ("at", np.int64),  # position and end of the lists in the arena
        ("end", np.int64),
        ("pending", np.int64),  # how many of the two children are still to be visited
        ("feature", np.int64),  # the cut: feature, last place on the left
        ("cut", np.int64),
        ("first_side", np.int64),  # the side that is visited first
        ("left_bound", np.float64),  # bounds of the children
        ("right_bound", np.float64),
    ]
)
"""The node at a level of the plunge, as a record."""

ENDLESS = 2**62
"""The length of a plunge that ends only when nothing below it is open."""

DONE, PAUSED, FULL = range(3)
"""What `advance` returns: no node is open; the work is done; the pool needs more room."""


Run = Callable[..., list[Any]]
"""``run(function, items, *rest)`` calls the function for every item, on several threads."""


class Heap(NamedTuple):
    """Open nodes, the lowest bound first, and the pool of their boxes."""

    bound: FloatArray
    node: IntArray  # rows of the pool
    pool: Int32Array  # boxes of open nodes
    unused: IntArray  # rows of the pool without a node


class Ties(NamedTuple):
    """Nodes that were closed although they may be as good as the best point."""

    box: Int32Array
    bound: FloatArray


class Search(NamedTuple):
    """The whole state of a tree search. A box is its lows followed by its highs."""

    state: Array  # one record of `SEARCH_STATE`
    best: Int32Array  # the best point
    heap: Heap
    lists: Lists  # of the plunge
    level: Array  # records of `LEVEL`
    level_box: Int32Array  # box of the node at each level
    ties: Ties
    room: CutRoom


class OpenNode(NamedTuple):
    """A node before it is filtered.

    Attributes
    ----------
    level : int
        Where it is in the plunge.
    source, n_trees : int
        Position of the lists that it begins with, and the number of trees; -1 if it is closed.
    n_changed : int
        Number of features along which it is narrower than the node of these lists.
    bound : float
        Its bound so far.
    slack : float
        Boxes that are worse than their tree's best by this much are dropped.
    """

    level: int
    source: int
    n_trees: int
    n_changed: int
    bound: float
    slack: float


def new_search(
    leaves: Leaves,
    search_error: float,
    tie_tolerance: float,
    settings: ExactSettings = DEFAULT_SETTINGS,
    room: int | None = None,
) -> Search:
    """Return a search with nothing open, and room for ``heap_nodes`` or ``room`` open nodes."""
    room = settings.heap_nodes if room is None else room
    p, n_boxes, n_trees = leaves.low.shape[0], leaves.value.size, leaves.start.size - 1
    levels, n_ties = settings.max_levels, settings.max_ties
    state = np.zeros(1, SEARCH_STATE)
    state["level"] = -1
    state["plunge_nodes"] = settings.plunge_nodes
    state["n_unused"] = room
    state["best"] = state["tie_bound"] = np.inf
    state["search_error"], state["tie_tolerance"] = search_error, tie_tolerance
    return Search(
        state=state,
        best=np.zeros(p, np.int32),
        heap=Heap(
            bound=np.empty(room),
            node=np.empty(room, np.int64),
            pool=np.empty((room, 2 * p), np.int32),
            unused=np.arange(room)[::-1].copy(),
        ),
        lists=Lists(
            value=np.empty(n_boxes),
            box=np.empty((n_boxes, 2 * p), np.int32),
            arena=np.empty(8 * (n_boxes + n_trees + 2), np.int32),
        ),
        level=np.empty(levels, LEVEL),
        level_box=np.empty((levels, 2 * p), np.int32),
        ties=Ties(box=np.empty((n_ties, 2 * p), np.int32), bound=np.empty(n_ties)),
        room=new_cut_room(p, int(leaves.place_start[-1])),
    )


def grown(
    search: Search,
    more: int,
    is_over: Callable[[], bool] = lambda: False,
    copied_bytes: int = DEFAULT_SETTINGS.copied_bytes,
) -> Search:
    """Return the search with room for more open nodes; unchanged if the time is over."""
    heap = larger_heap(search.state, search.heap, more, is_over, copied_bytes)
    return search if heap is search.heap else search._replace(heap=heap)


def larger_heap(
    state: Array, heap: Heap, more: int, is_over: Callable[[], bool], copied_bytes: int
) -> Heap:
    """Return a heap with room for more open nodes; unchanged if the time is over."""
    room = heap.bound.size
    tables: list[Array] = []
    for old in heap:
        table = np.empty((room + more, *old.shape[1:]), old.dtype)
        at_once = max(1, copied_bytes * room // max(old.nbytes, 1))
        for first in range(0, room, at_once):
            if is_over():
                return heap
            rows = slice(first, min(first + at_once, room))
            table[rows] = old[rows]
        tables.append(table)
    larger = Heap(*tables)
    n_unused = int(state["n_unused"][0])
    larger.unused[n_unused : n_unused + more] = np.arange(room, room + more)
    state["n_unused"] += more
    return larger


@kernel
def push(search_state: Array, heap: Heap, box: Int32Array, bound: float) -> None:
    """Put a node onto the heap."""
    state = search_state[0]
    state.n_unused -= 1
    node = heap.unused[state.n_unused]
    copy_row(box, heap.pool[node])
    i = state.n_open
    state.n_open += 1
    while i > 0 and heap.bound[(i - 1) >> 1] > bound:
        heap.bound[i] = heap.bound[(i - 1) >> 1]
        heap.node[i] = heap.node[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap.bound[i] = bound
    heap.node[i] = node


@inlined
def pop(search_state: Array, heap: Heap, box: Int32Array) -> float:
    """Take the node with the lowest bound off the heap; write its box and return its bound."""
    state = search_state[0]
    lowest, node = heap.bound[0], heap.node[0]
    copy_row(heap.pool[node], box)
    heap.unused[state.n_unused] = node
    state.n_unused += 1
    state.n_open -= 1
    n = state.n_open
    bound, last = heap.bound[n], heap.node[n]
    i = 0
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and heap.bound[child + 1] < heap.bound[child]:
            child += 1
        if heap.bound[child] >= bound:
            break
        heap.bound[i] = heap.bound[child]
        heap.node[i] = heap.node[child]
        i = child
    heap.bound[i] = bound
    heap.node[i] = last
    result: float = lowest
    return result


@kernel
def is_closed(search_state: Array, ties: Ties, box: Int32Array, bound: float) -> bool:
    """Tell whether a node can be dropped; if it may be as good as the best, note it as a tie."""
    state = search_state[0]
    if bound < state.best - state.search_error:
        return False
    if bound < state.best + state.tie_tolerance:
        if state.n_ties < ties.bound.size:
            copy_row(box, ties.box[state.n_ties])
            ties.bound[state.n_ties] = bound
            state.n_ties += 1
        else:
            state.tie_bound = min(state.tie_bound, bound)
    return True


@inlined
def note_best(
    search_state: Array, best: Int32Array, ties: Ties, box: Int32Array, bound: float
) -> None:
    """Note the middle of a box as the best point; drop ties that it is clearly better than."""
    state, p = search_state[0], best.size
    state.best = bound
    for k in range(p):
        best[k] = (box[k] + box[p + k]) >> 1
    n = 0
    for i in range(state.n_ties):
        if ties.bound[i] < bound + state.tie_tolerance:
            ties.bound[n] = ties.bound[i]
            copy_row(ties.box[i], ties.box[n])
            n += 1
    state.n_ties = n


@kernel
def take_child(levels: Array, level_box: Int32Array, level: int, box: Int32Array) -> float:
    """Take the next child of a level off; write its box and return its bound."""
    p = box.size // 2
    node = levels[level]
    node.pending -= 1
    side = node.first_side if node.pending == 1 else 1 - node.first_side
    copy_row(level_box[level], box)
    if side == 0:
        box[p + node.feature] = node.cut
        bound: float = node.left_bound
    else:
        box[node.feature] = node.cut + 1
        bound = node.right_bound
    return bound


@kernel
def advance(leaves: Leaves, search: Search, min_gain: float, work: int) -> int:
    """Continue for some work, counted in boxes visited; return DONE, PAUSED or FULL.

    Between two calls, what is open is on the heap or a child still to be visited.
    """
    state = search.state[0]
    p = search.best.size
    changed = np.empty(p, np.int64)
    first = np.empty(leaves.start.size, np.int64)
    child_box = np.empty(2 * p, np.int32)
    end = state.spent + work
    while True:
        if is_set(leaves.stop) or state.spent >= end:
            return PAUSED
        while state.level >= 0 and search.level[state.level].pending == 0:
            state.level -= 1
        if state.level < 0:
            if state.n_open == 0:
                return DONE
            node = begin_plunge(leaves, search, first)
        elif is_plunge_over(search.state, search.level, search.lists.arena.size):
            if state.n_unused < 2 * search.level.size:
                return FULL
            end_plunge(search, child_box)
            continue
        else:
            node = next_child(search, child_box, changed)
        if node.n_trees >= 0:
            filter_node(leaves, search, node, min_gain, changed)


@inlined
def begin_plunge(leaves: Leaves, search: Search, first: IntArray) -> OpenNode:
    """Begin a plunge with the best open node. ``first`` is room, see `gather`."""
    state, box = search.state[0], search.level_box[0]
    bound = pop(search.state, search.heap, box)
    n_trees = -1
    if not is_closed(search.state, search.ties, box, bound):
        state.nodes += 1
        state.plunged = 0
        n_trees, end = gather(leaves, box, state.best + state.tie_tolerance, search.lists, first)
        state.spent += end + leaves.value.size // 4
        search.level[0].at = 0
        search.level[0].constant = leaves.constant
    return OpenNode(0, 0, n_trees, 0, bound, np.inf)


@inlined
def is_plunge_over(search_state: Array, levels: Array, arena_size: int) -> bool:
    """Tell whether a plunge has had its nodes, or has no room to go deeper."""
    state = search_state[0]
    level = levels[state.level]
    is_deep: bool = state.level + 2 > levels.size
    has_no_room: bool = level.end + (level.end - level.at) > arena_size
    return state.plunged >= state.plunge_nodes or is_deep or has_no_room


@inlined
def end_plunge(search: Search, child_box: Int32Array) -> None:
    """Put what is open below a plunge onto the heap."""
    for e in range(search.state[0].level + 1):
        while search.level[e].pending > 0:
            bound = take_child(search.level, search.level_box, e, child_box)
            if not is_closed(search.state, search.ties, child_box, bound):
                push(search.state, search.heap, child_box, bound)


@inlined
def next_child(search: Search, child_box: Int32Array, changed: IntArray) -> OpenNode:
    """Open the next child of the deepest level: one level deeper, or as its parent's successor."""
    state = search.state[0]
    at = state.level
    parent = search.level[at]
    bound = take_child(search.level, search.level_box, at, child_box)
    n_trees = -1
    if not is_closed(search.state, search.ties, child_box, bound):
        n_trees = parent.n_trees
        state.nodes += 1
        state.plunged += 1
        changed[0] = parent.feature
        if parent.pending == 1:
            at += 1
            search.level[at].constant = parent.constant
            search.level[at].at = parent.end
        copy_row(child_box, search.level_box[at])
    slack = state.best + state.tie_tolerance - parent.bound
    return OpenNode(at, parent.at, n_trees, 1, bound, slack)


@inlined
def filter_node(
    leaves: Leaves, search: Search, node: OpenNode, min_gain: float, changed: IntArray
) -> None:
    """Filter a node to a fixed point, then close it, note its best point, or divide it."""
    state, level, box = search.state[0], search.level[node.level], search.level_box[node.level]
    cutoff = state.best + state.tie_tolerance
    level.pending = 0
    source, n_trees, n_changed, slack = node.source, node.n_trees, node.n_changed, node.slack
    while True:
        kept = narrow(
            search.lists, source, n_trees, level.at, box, changed, n_changed, slack, leaves.stop
        )
        source, n_trees, n_changed = level.at, kept.n_trees, kept.n_changed
        state.spent += kept.end - level.at
        if n_trees < 0:
            return
        level.constant += kept.folded
        bound = kept.bound + level.constant
        slack = cutoff - bound
        if is_closed(search.state, search.ties, box, bound):
            return
        if n_changed > 0:
            continue
        found = examine(
            search.lists,
            level.at,
            n_trees,
            box,
            slack,
            min_gain,
            leaves.place_start,
            search.room,
            changed,
            leaves.stop,
        )
        state.spent += found.work
        n_changed = found.n_changed
        if found.outcome == BRANCH:
            level.bound, level.n_trees, level.end = bound, n_trees, kept.end
            divide(level, found, bound, node.bound)
            state.level = node.level
            return
        if found.outcome == SOLVED:
            note_best(search.state, search.best, search.ties, box, bound)
            return
        if found.outcome == EMPTY:
            return


@inlined
def divide(level: Any, found: Examined, bound: float, parent_bound: float) -> None:
    """Give a level two children, on both sides of the best cut."""
    level.pending = 2
    level.feature, level.cut = found.feature, found.cut
    level.first_side = 0 if found.left <= found.right else 1
    level.left_bound = max(bound + found.left, parent_bound)
    level.right_bound = max(bound + found.right, parent_bound)


class TreeSearch:
    """Branch and bound on several threads, which share what is open.

    `DualSearch` has the same interface.

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
        Number of threads.
    is_over : callable
        Tells whether the time is over.
    settings : ExactSettings
        Tuning.

    Attributes
    ----------
    search_error : float
        Points that are better than the best value by at most this may be missed.
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
        self.leaves, self.search_error, self.is_over = leaves, 2 * search_error, is_over
        self.settings = settings
        self.searches = [
            new_search(leaves, self.search_error, tie_tolerance, settings) for _ in range(n_jobs)
        ]
        root = np.append(np.zeros(leaves.low.shape[0]), np.diff(leaves.place_start) - 1)
        push(self.searches[0].state, self.searches[0].heap, root.astype(np.int32), -np.inf)

    @property
    def nodes(self) -> int:
        """The number of nodes so far."""
        return sum(int(search.state["nodes"][0]) for search in self.searches)

    @property
    def spent(self) -> int:
        """The work so far."""
        boxes = sum(int(search.state["spent"][0]) for search in self.searches)
        return self.settings.box_work * boxes

    @property
    def is_open(self) -> bool:
        """Whether any node is open."""
        return any(map(_is_open, self.searches))

    @property
    def bound(self) -> float:
        """The lowest bound of all open nodes."""
        return min(map(_open_bound, self.searches))

    @property
    def tie_bound(self) -> float:
        """The lowest bound of the ties that were not kept with their boxes."""
        return min(float(search.state["tie_bound"][0]) for search in self.searches)

    @property
    def ties(self) -> list[tuple[float, Int32Array]]:
        """The ties: bounds and boxes."""
        return [
            (float(search.ties.bound[i]), search.ties.box[i])
            for search in self.searches
            for i in range(int(search.state["n_ties"][0]))
        ]

    def advance(self, work: int, point: Int32Array, value: float, run: Run) -> list[Int32Array]:
        """Continue for some work in each thread; return points that are better than ``value``.

        ``value`` is that of the best known point.
        """
        for search in self.searches:
            if value < search.state["best"][0]:
                search.state["best"] = value
                search.best[:] = point
        before = [float(search.state["best"][0]) for search in self.searches]
        run(self._continue, range(len(self.searches)), work)
        self._share()
        after = zip(self.searches, before, strict=True)
        return [search.best.copy() for search, best in after if search.state["best"][0] < best]

    def _continue(self, job: int, work: int) -> None:
        """Continue one search; make room if it needs any."""
        search, settings = self.searches[job], self.settings
        boxes = max(work // settings.box_work, 1)
        if advance(self.leaves, search, settings.tree_min_gain, boxes) != FULL:
            return
        more = search.heap.bound.size
        if 2 * search.heap.pool.nbytes * len(self.searches) > settings.tree_bytes:
            if search.state["plunge_nodes"][0] < ENDLESS:
                # No memory for more open nodes: plunge as deep as possible.
                search.state["plunge_nodes"] = ENDLESS
                return
            more = 4 * settings.max_levels
        self.searches[job] = grown(search, more, self.is_over, settings.copied_bytes)

    def _share(self) -> None:
        """Give searches with nothing open half of what the fullest has."""
        giver = max(self.searches, key=lambda search: int(search.state["n_open"][0]))
        for search in self.searches:
            if not _is_open(search) and giver.state["n_open"][0] > 1:
                share(giver, search)


def _open_bound(search: Search) -> float:
    """Return the lowest bound of all open nodes; infinite if there is none."""
    bounds = [np.inf]
    if search.state["n_open"][0]:
        bounds.append(float(search.heap.bound[0]))
    for level in search.level[: search.state["level"][0] + 1]:
        both = float(level["left_bound"]), float(level["right_bound"])
        second = both[1 - level["first_side"]]
        bounds.extend({0: (), 1: (second,), 2: both}[int(level["pending"])])
    return min(bounds)


def _is_open(search: Search) -> bool:
    """Tell whether any node is open."""
    levels = search.level[: search.state["level"][0] + 1]
    return bool(search.state["n_open"][0]) or bool(levels["pending"].any())


def share(giver: Search, taker: Search) -> None:
    """Give every other node of one search's heap to another, which has none."""
    n = int(giver.state["n_open"][0])
    order = np.argsort(giver.heap.bound[:n], kind="stable")
    bounds = giver.heap.bound[order]
    boxes = giver.heap.pool[giver.heap.node[order]]
    number = np.arange(n)
    to_taker = (number % 2 == 1) & (number // 2 < taker.heap.bound.size - 2 * taker.level.size)
    refill(giver, boxes[~to_taker], bounds[~to_taker])
    refill(taker, boxes[to_taker], bounds[to_taker])


def refill(search: Search, boxes: Int32Array, bounds: FloatArray) -> None:
    """Replace the nodes of a heap; their bounds ascend, which is a valid order of a heap."""
    heap, n, room = search.heap, bounds.size, search.heap.bound.size
    heap.unused[:] = np.arange(room)
    search.state["n_open"], search.state["n_unused"] = n, room - n
    heap.bound[:n] = bounds
    heap.node[:n] = room - 1 - np.arange(n)
    heap.pool[room - n :] = boxes[::-1]
