"""Branch and bound for problems with constraints and costs, compiled, in steps.

As in `treeopt.exact.tree_search`, the best open node comes off a heap, and from it the search
plunges on lists that shrink from level to level. What cannot be decided in compiled code is asked:
whether a point is feasible and what its value is, and the solution of a box in which no tree is
left. The caller answers by closing the node, or by setting the best value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeopt.exact.box_lists import cut_features, first_meets, meets
from treeopt.exact.general.multipliers import raise_rows
from treeopt.exact.general.nodes import filter_node, is_closed, objective_bound, set_slacks
from treeopt.exact.general.propagate import all_ends
from treeopt.exact.general.search_state import NOTHING, ROWS, General
from treeopt.exact.general.trial import try_point
from treeopt.exact.tree_search import pop, push, take_child
from treeopt.kernels.jit import is_set, kernel, lean
from treeopt.kernels.list_boxes import copy_row

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Statement
    from treeopt.types import Int32Array, IntArray

DONE, PAUSED, FULL, ASKED = range(4)
"""What `advance` returns: no node is open; the work is done; the pool needs room; see `asked`."""


@kernel
def advance(statement: Statement, search: General, min_gain: float, work: int) -> int:
    """Continue for some work, counted in boxes visited; return DONE, PAUSED, FULL or ASKED."""
    state, p = search.state[0], search.room.point.size
    first = np.empty(statement.leaves.start.size, np.int64)
    child_box = np.empty(2 * p, np.int32)
    end = state.spent + work
    state.asked = NOTHING
    while True:
        if is_set(statement.leaves.stop) or state.spent >= end:
            return PAUSED
        while state.level >= 0 and search.level[state.level].pending == 0:
            state.level -= 1
        at, source, bound = -1, -1, 0.0
        if state.level < 0:
            if state.n_open == 0:
                return DONE
            bound = pop(search.state, search.heap, search.level_box[0])
            if is_closed(state, bound):
                continue
            state.plunged = 0
            if not gather_all(statement, search, first):
                state.nodes += 1
                continue
            at = source = 0
        else:
            level = search.level[state.level]
            size = level.end - search.level_sum[state.level, 0].at
            is_deep = state.level + 2 > search.level.size
            if (
                state.plunged >= state.plunge_nodes
                or is_deep
                or level.end + size > search.lists.arena.size
            ):
                if state.n_unused < 2 * search.level.size:
                    return FULL
                end_plunge(search, child_box)
                continue
            source = state.level
            bound = take_child(search.level, search.level_box, source, child_box)
            if is_closed(state, bound):
                continue
            state.plunged += 1
            at = source
            if level.pending == 1:
                at = source + 1
                for r in range(search.root_y.size):
                    search.level_y[at, r] = search.level_y[source, r]
            copy_row(child_box, search.level_box[at])
            for k in range(p):
                search.room.feature[k].is_changed = k == level.feature
        state.nodes += 1
        state.spent += 1
        filter_node(statement, search, at, source, bound, min_gain)
        if state.asked == NOTHING and state.level == at and search.level[at].pending == 2:
            try_point(statement, search, at, search.level_box[at])
            if at == source == 0 and state.asked == NOTHING and search.root_y.size > 0:
                if state.wait == 0:
                    state.asked, state.asked_level = ROWS, at
                else:
                    state.wait -= 1
        if state.asked != NOTHING:
            return ASKED


@lean
def end_plunge(search: General, child_box: Int32Array) -> None:
    """Put what is open below a plunge onto the heap."""
    for e in range(search.state[0].level + 1):
        while search.level[e].pending > 0:
            bound = take_child(search.level, search.level_box, e, child_box)
            if not is_closed(search.state[0], bound):
                push(search.state, search.heap, child_box, bound)


@kernel
def gather_all(statement: Statement, search: General, first: IntArray) -> bool:
    """Fill the table with the boxes of all sums that meet the first node of a plunge.

    Returns False if a tree has no box, or if the node is closed.
    """
    leaves, lists, room = statement.leaves, search.lists, search.room
    state, box, p = search.state[0], search.level_box[0], room.point.size
    for k in range(p):
        room.feature[k].is_changed = False
    copy_row(search.root_y, search.level_y[0])
    cut = np.empty(p, np.int64)
    n_cut = cut_features(leaves, box, cut)
    state.spent += leaves.value.size // 4
    if not first_meets(leaves, box, cut, n_cut, first):
        return False
    for s in range(statement.sums.size):
        room.sums[s] = statement.sums[s].constant
        for t in range(statement.sums[s].start, statement.sums[s].end):
            room.sums[s] += leaves.value[first[t]]
    features, parts = statement.features, statement.parts
    y, offset = search.level_y[0], statement.offset
    all_ends(features, box, room.feature)
    costs = raise_rows(features, statement.rows, offset, y, box, room.feature)
    bound = objective_bound(features, parts, box, costs, room.sums)
    if is_closed(state, bound):
        return False
    set_slacks(features, parts, box, state.best - bound, room.sums, room.slack)
    end, row = 0, 0
    for s in range(statement.sums.size):
        own = search.level_sum[0, s]
        begin, stop = statement.sums[s].start, statement.sums[s].end
        own.at, own.n_trees, own.constant = end, stop - begin, statement.sums[s].constant
        own.bound = room.sums[s]
        at = end
        end += stop - begin + 1
        for t in range(begin, stop):
            lists.arena[at + t - begin] = end
            too_high = leaves.value[first[t]] + room.slack[s]
            for i in range(first[t], leaves.start[t + 1]):
                if leaves.value[i] >= too_high and i > first[t]:
                    break
                if i > first[t] and not meets(leaves, i, box, cut, n_cut):
                    continue
                if is_set(leaves.stop):
                    return False
                lists.value[row] = leaves.value[i]
                for k in range(p):
                    lists.box[row, k] = leaves.low[k, i]
                    lists.box[row, p + k] = leaves.high[k, i]
                lists.arena[end] = row
                row += 1
                end += 1
        lists.arena[at + stop - begin] = end
        own.end = end
    search.level[0].end = end
    state.spent += end
    return True
