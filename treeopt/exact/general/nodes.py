"""What is done at a node: bound it, filter it to a fixed point, and find where to cut it.

`filter_node` repeats these steps until nothing changes: `propagate` narrows the box by rows and
logic; `raise_rows` improves the multipliers of the rows; `narrow` drops leaves of every sum that
cannot matter, each sum with its own slack; `examine_all` finds cuts of which one side can be
dropped. Then the node is closed, solved outside because no tree is left, or divided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.exact.box_lists import Lists, cut_features, meets, narrow
from treeopt.exact.general.bounds import UNIT, part_ends, part_value, slack_of, sum_error
from treeopt.exact.general.dividing import EMPTY, NARROWER, Cut, examine_all
from treeopt.exact.general.multipliers import cost_bound, is_empty, raise_rows
from treeopt.exact.general.propagate import all_ends, propagate
from treeopt.exact.general.search_state import BOX, General
from treeopt.kernels.jit import is_set, kernel, lean

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Features, Statement
    from treeopt.problem.leaves import Leaves
    from treeopt.types import Array, FloatArray, Int32Array, IntArray


@lean
def objective_bound(
    features: Features, parts: Array, box: Int32Array, costs: float, sums: FloatArray
) -> float:
    """Return a lower bound on the objective in a box, from bounds of sums and costs."""
    total, size = costs, abs(costs)
    for i in range(parts.size):
        if parts[i].in_objective:
            low, high = part_ends(features, parts, i, box)
            value = part_value(parts, i, sums, low, high)
            total += value
            size += abs(value)
    return total if np.isinf(size) else total - sum_error(size, parts.size)


@lean
def breaks_limit(features: Features, parts: Array, box: Int32Array, sums: FloatArray) -> bool:
    """Return whether a part exceeds its limit everywhere in a box."""
    for i in range(parts.size):
        if not parts[i].in_objective:
            low, high = part_ends(features, parts, i, box)
            if part_value(parts, i, sums, low, high) > relaxed(parts[i].limit):
                return True
    return False


@lean
def relaxed(limit: float) -> float:
    """Return a limit plus a margin for the rounding of the comparison."""
    return limit + UNIT * abs(limit)


@lean
def set_slacks(
    features: Features,
    parts: Array,
    box: Int32Array,
    to_gain: float,
    sums: FloatArray,
    slack: FloatArray,
) -> None:
    """Write by how much each sum may grow before the node is of no interest.

    ``to_gain`` is the distance of the bound of the node from the best value.
    """
    for i in range(parts.size):
        low, high = part_ends(features, parts, i, box)
        allowance = relaxed(parts[i].limit)
        if parts[i].in_objective:
            value = part_value(parts, i, sums, low, high)
            allowance = value + to_gain
            if to_gain < np.inf:
                allowance += UNIT * (abs(value) + abs(to_gain))
        for k in range(parts[i].start, parts[i].end):
            slack[k] = np.inf
            if allowance < np.inf:
                slack[k] = slack_of(parts, i, sums, k, low, high, allowance)


@lean
def is_closed(state: Any, bound: float) -> bool:
    """Return whether a node can be dropped; note its bound if it may be better than the best."""
    if not bound >= state.best - state.tolerance or state.best == np.inf:
        return False  # also if the bound is NaN
    if bound < state.best:
        state.tie_bound = min(state.tie_bound, bound)
    return True


@lean
def filter_node(
    statement: Statement, search: General, at: int, source: int, parent: float, min_gain: float
) -> None:
    """Filter a node to a fixed point, then close it, ask about it, or divide it.

    ``at`` is its level, ``source`` the level whose lists it starts from, and ``parent`` the bound
    of its parent.
    """
    state, level, box = search.state[0], search.level[at], search.level_box[at]
    room, y, now = search.room, search.level_y[at], search.room.feature
    features, rows, parts = statement.features, statement.rows, statement.parts
    n_sums, sums, slack = statement.sums.size, search.room.sums, search.room.slack
    level.pending = 0
    all_ends(features, box, now)
    first = True
    while True:
        for k in range(now.size):
            now[k].is_narrower = False
        if not propagate(features, rows, statement.logic, box, now):
            return
        if state.n_rays > 0 and is_empty(features, rows, search.rays, state.n_rays, now):
            return
        for k in range(now.size):
            now[k].is_changed |= now[k].is_narrower
        for k in range(n_sums):
            sums[k] = search.level_sum[source if first else at, k].bound
        if first:
            costs = raise_rows(features, rows, statement.offset, y, box, now)
        else:
            costs = cost_bound(features, rows, statement.offset, y, box, now)
        # Slacks follow from the bound of the lists alone, not from that of the parent.
        bound = objective_bound(features, parts, box, costs, sums)
        if is_closed(state, max(bound, parent)) or breaks_limit(features, parts, box, sums):
            return
        set_slacks(features, parts, box, state.best - bound, sums, slack)
        start = source if first else at
        if not narrow_all(search, room.changed, at, start, box, statement.leaves.stop):
            return
        first = False
        if take_changes(features, box, now):
            continue
        bound = objective_bound(features, parts, box, costs, sums)
        if is_closed(state, max(bound, parent)) or breaks_limit(features, parts, box, sums):
            return
        set_slacks(features, parts, box, state.best - bound, sums, slack)
        drop_slack_sums(statement, search.lists, search.level_sum[at], sums, box)
        level.bound = max(bound, parent)
        n_trees = 0
        for k in range(n_sums):
            n_trees += search.level_sum[at, k].n_trees
        if n_trees == 0:
            state.asked, state.asked_bound, state.asked_level = BOX, level.bound, at
            return
        cut = examine_all(statement, search, at, box, state.best - bound, min_gain)
        if cut.feature == EMPTY or is_set(statement.leaves.stop):
            return
        if cut.feature == NARROWER:
            continue
        divide(level, cut, bound)
        state.level = at
        return


@lean
def narrow_all(
    search: General, changed: IntArray, at: int, source: int, box: Int32Array, stop: IntArray
) -> bool:
    """Narrow the lists of all sums; return False if a tree has no leaf left."""
    state, room = search.state[0], search.room
    p = room.feature.size
    target = search.level[at].end if source == at else search.level[source].end
    for k in range(p):
        room.feature[k].is_narrower = False
    for s in range(room.sums.size):
        before, own = search.level_sum[source, s], search.level_sum[at, s]
        n_changed = 0
        for k in range(p):
            if room.feature[k].is_changed:
                changed[n_changed] = k
                n_changed += 1
        to = before.at if source == at else target
        constant, n_trees = before.constant, before.n_trees
        own.at = to
        if n_trees == 0:
            own.constant, own.bound, own.n_trees, own.end = constant, before.bound, 0, to
            continue
        kept = narrow(
            search.lists,
            before.at,
            n_trees,
            to,
            box,
            changed,
            n_changed,
            room.slack[s],
            stop,
        )
        state.spent += kept.end - to
        if kept.n_trees < 0:
            return False
        own.constant, own.n_trees, own.end = constant + kept.folded, kept.n_trees, kept.end
        own.bound = own.constant + kept.bound
        room.sums[s] = own.bound
        for i in range(kept.n_changed):
            room.feature[changed[i]].is_narrower = True
        if source != at:
            target = kept.end
    if source != at:
        search.level[at].end = target
    return True


@lean
def take_changes(features: Features, box: Int32Array, now: Array) -> bool:
    """Make the noted changes the ones to be handled next; return whether there are any."""
    any_changed = False
    for k in range(now.size):
        now[k].is_changed = now[k].is_narrower
        any_changed |= now[k].is_narrower
    if any_changed:
        all_ends(features, box, now)
    return any_changed


@lean
def drop_slack_sums(
    statement: Statement, lists: Lists, level_sums: Array, sums: FloatArray, box: Int32Array
) -> None:
    """Drop the trees of sums whose limit no point of the node can exceed.

    Leaves that exceed it are not in the lists any more, so all leaves that meet the box are looked
    at; but only where the lists alone would allow it.
    """
    parts = statement.parts
    for i in range(parts.size):
        s = parts[i].start
        if parts[i].in_objective or parts[i].n_sums > 1 or level_sums[s].n_trees == 0:
            continue
        own, before = level_sums[s], sums[s]
        for t in range(own.n_trees):
            a, b = lists.arena[own.at + t], lists.arena[own.at + t + 1]
            sums[s] += lists.value[lists.arena[b - 1]] - lists.value[lists.arena[a]]
        if part_value(parts, i, sums, 0.0, 0.0) <= parts[i].limit:
            sums[s] = highest_sum(statement.leaves, statement.sums[s], box)
            value = part_value(parts, i, sums, 0.0, 0.0)
            # Predictions beyond the largest number may be infinite, and then exceed any limit.
            is_finite = abs(value) < abs(parts[i].weight) * parts[i].largest
            if is_finite and value + 2.0 * parts[i].error * max(abs(value), 1.0) <= parts[i].limit:
                own.n_trees = 0
                own.constant = own.bound
        sums[s] = before


@kernel
def highest_sum(leaves: Leaves, listed: Any, box: Int32Array) -> float:
    """Return an upper bound on a sum in a box."""
    cut = np.empty(box.size // 2, np.int64)
    n_cut = cut_features(leaves, box, cut)
    total = listed.constant + 3.0 * listed.error
    for t in range(listed.start, listed.end):
        i = leaves.start[t + 1] - 1
        while not meets(leaves, i, box, cut, n_cut):
            i -= 1
        total += leaves.value[i]
    return total


@lean
def divide(level: Any, cut: Cut, bound: float) -> None:
    """Give a level two children, on both sides of a cut."""
    level.pending = 2
    level.feature, level.cut = cut.feature, cut.place
    level.first_side = 0 if cut.is_left_better else 1
    level.left_bound = max(bound + cut.left, level.bound)
    level.right_bound = max(bound + cut.right, level.bound)
