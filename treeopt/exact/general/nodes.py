"""What is done at a node: bound it, filter it to a fixed point, and find where to cut it.

`filter_node` repeats these steps until nothing changes: `propagate` narrows the box by rows and
logic; `raise_rows` improves the multipliers of the rows; `narrow` drops leaves of every sum that
cannot matter, each sum with its own slack; `examine_all` finds cuts of which one side can be
dropped. Then the node is closed, solved outside because no tree is left, or divided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.exact.box_lists import Lists, narrow
from treeopt.exact.branching import CutRoom, add_losses, start_from
from treeopt.exact.general.bounds import (
    UNIT,
    lowest_cost,
    part_ends,
    part_value,
    slack_of,
)
from treeopt.exact.general.propagate import all_ends, propagate
from treeopt.exact.tree_search import Heap
from treeopt.kernels.jit import is_set, kernel

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Statement
    from treeopt.types import Array, FloatArray, Int32Array, IntArray

GENERAL_STATE = np.dtype(
    [
        ("n_open", np.int64),  # open nodes on the heap
        ("n_unused", np.int64),  # unused rows of the pool
        ("level", np.int64),  # level of the plunge; -1: none
        ("nodes", np.int64),  # nodes so far
        ("plunged", np.int64),  # nodes of this plunge
        ("plunge_nodes", np.int64),  # maximum number of nodes of a plunge
        ("spent", np.int64),  # work so far, in boxes visited
        ("n_rays", np.int64),  # rays that are kept
        ("asked", np.int64),  # what the caller has to do: NOTHING, POINT, BOX or ROWS
        ("best", np.float64),  # value of the best point
        ("tolerance", np.float64),  # nodes that are less than this below the best are closed
        ("tie_bound", np.float64),  # lowest bound of the nodes that were closed so
        ("asked_bound", np.float64),  # bound of the node that is asked about
        ("asked_value", np.float64),  # value of the point that is asked about
        ("asked_level", np.int64),  # level of that node
    ]
)
"""State of a search, as one record."""

NOTHING, POINT, BOX, ROWS = range(4)
"""What a caller has to do: nothing; check a point; solve a box in which no tree is left; solve the
linear program of a node."""

MAX_RAYS = 16
"""Number of rays that are kept: combinations of rows that have shown that a node is empty."""

LEVEL = np.dtype(
    [
        ("bound", np.float64),
        ("pending", np.int64),  # how many of the two children are still to be visited
        ("feature", np.int64),  # the cut: feature, last place on the left
        ("cut", np.int64),
        ("first_side", np.int64),  # the side that is visited first
        ("left_bound", np.float64),  # bounds of the children
        ("right_bound", np.float64),
        ("end", np.int64),  # end of its lists in the arena
    ]
)
"""The node at a level of the plunge, as a record."""

LEVEL_SUM = np.dtype(
    [
        ("constant", np.float64),  # the constant and the value of folded trees
        ("bound", np.float64),  # lower bound of the sum
        ("n_trees", np.int64),  # trees that have lists
        ("at", np.int64),  # position of the lists in the arena
        ("end", np.int64),
    ]
)
"""A sum at a level, as a record."""


FEATURE_ROOM = np.dtype(
    [
        ("low", np.float64),  # ends of its numbers in a box
        ("high", np.float64),
        ("cost", np.float64),  # lowest cost in a box
        ("tilt", np.float64),  # what the multipliers of the rows add to its cost per unit
        ("place", np.int64),  # place of the lowest cost
        ("point_place", np.int64),  # place of the point that is asked about
        ("new_low", np.int64),  # what is left of a box
        ("new_high", np.int64),
        ("common_low", np.int64),  # what the best leaves of the objective have in common
        ("common_high", np.int64),
        ("is_changed", np.bool_),  # whether a box is narrower than its lists
        ("is_narrower", np.bool_),  # whether it has become narrower since
    ],
    align=True,
)
"""Room for one feature at a node, as a record."""


class Room(NamedTuple):
    """Room for the steps at a node; what is in it on entry does not matter."""

    cut: CutRoom
    feature: Array  # records of `FEATURE_ROOM`
    at: FloatArray  # where the cost of each feature is lowest
    point: FloatArray  # the point that is asked about
    sums: FloatArray  # lower bounds of all sums
    slack: FloatArray  # by how much each sum may grow
    trial: FloatArray  # sums at a point
    changed: IntArray
    score: FloatArray  # [side, place]: gains relative to the slacks
    gain: FloatArray  # [side, place]: gains of the objective


class General(NamedTuple):
    """The whole state of a search."""

    state: Array  # one record of `GENERAL_STATE`
    heap: Heap
    lists: Lists
    level: Array  # records of `LEVEL`
    level_box: Int32Array
    level_y: FloatArray  # multipliers of the rows at each level
    level_sum: Array  # records of `LEVEL_SUM`, [level, sum]
    root_y: FloatArray  # multipliers that a plunge starts with
    rays: FloatArray  # [ray, row]: multipliers that have shown that a node is empty
    room: Room


@kernel
def set_tilt(statement: Statement, y: FloatArray, room: Room) -> None:
    """Write what the multipliers of the rows add to the cost per unit of each feature."""
    rows = statement.rows
    for k in range(room.feature.size):
        tilt = 0.0
        for i in range(
            statement.features.feature[k].row_start, statement.features.feature[k].row_end
        ):
            tilt += y[rows.of[i].row] * rows.of[i].factor
        room.feature[k].tilt = tilt


@kernel
def cost_bound(statement: Statement, y: FloatArray, box: Int32Array, room: Room) -> float:
    """Return a lower bound on all costs in a box, by weak duality with the multipliers."""
    features, rows, p = statement.features, statement.rows, box.size // 2
    set_tilt(statement, y, room)
    total, size = statement.offset, abs(statement.offset)
    for k in range(p):
        room.feature[k].cost = 0.0
        if features.feature[k].is_priced or room.feature[k].tilt != 0.0:
            cost, at, place = lowest_cost(features, k, box[k], box[p + k], room.feature[k].tilt)
            room.feature[k].cost, room.at[k], room.feature[k].place = cost, at, place
            total += cost
            size += abs(cost)
    for r in range(y.size):
        if y[r] != 0.0:
            part = y[r] * (rows.row[r].high if y[r] > 0 else rows.row[r].low)
            # The row as a user computes it may be off by its rounding error.
            slip = rows.row[r].error * rows.row[r].size
            for i in range(rows.row[r].start, rows.row[r].end):
                k = rows.entry[i].feature
                slip += rows.row[r].error * rows.entry[i].size * abs(room.at[k])
            total -= part + abs(y[r]) * slip
            size += abs(part)
    return total - UNIT * size


@kernel
def row_at(statement: Statement, r: int, x: FloatArray) -> float:
    """Return the value of a row at a point."""
    rows = statement.rows
    total = 0.0
    for i in range(rows.row[r].start, rows.row[r].end):
        total += rows.entry[i].factor * x[rows.entry[i].feature]
    return total


@kernel
def cheapest(statement: Statement, y: FloatArray, box: Int32Array, room: Room) -> None:
    """Write the cheapest point of a box, for some multipliers."""
    p = box.size // 2
    set_tilt(statement, y, room)
    for k in range(p):
        _, at, place = lowest_cost(statement.features, k, box[k], box[p + k], room.feature[k].tilt)
        room.at[k], room.feature[k].place = at, place


@kernel
def raise_rows(statement: Statement, y: FloatArray, box: Int32Array, room: Room) -> float:
    """Improve the multipliers row by row; return the bound on the costs.

    Along one multiplier the bound is concave. Its slope is the value of the row at the cheapest
    point minus the limit of the row, so a bisection finds the maximum.
    """
    rows = statement.rows
    bound = cost_bound(statement, y, box, room)
    is_priced = False
    for k in range(room.feature.size):
        is_priced |= statement.features.feature[k].is_priced
    if not is_priced:
        return bound
    for r in range(y.size):
        if rows.row[r].is_literal:
            continue
        before, best = y[r], bound
        y[r] = 0.0
        cheapest(statement, y, box, room)
        value = row_at(statement, r, room.at)
        if rows.row[r].low <= value <= rows.row[r].high:
            bound = cost_bound(statement, y, box, room)
            if bound < best:
                y[r], bound = before, best
            continue
        side = 1.0 if value > rows.row[r].high else -1.0
        limit = rows.row[r].high if side > 0 else rows.row[r].low
        step = max(abs(before), 1e-9)
        lower = 0.0
        for _ in range(80):
            y[r] = side * step
            cheapest(statement, y, box, room)
            if side * (row_at(statement, r, room.at) - limit) <= 0:
                break
            lower = step
            step *= 4.0
        upper = step
        for _ in range(40):
            if upper - lower <= 1e-9 * upper:
                break
            middle = 0.5 * (lower + upper)
            y[r] = side * middle
            cheapest(statement, y, box, room)
            if side * (row_at(statement, r, room.at) - limit) <= 0:
                upper = middle
            else:
                lower = middle
        y[r] = side * upper
        bound = cost_bound(statement, y, box, room)
        if bound < best:
            y[r], bound = before, best
    return cost_bound(statement, y, box, room)


@kernel
def objective_bound(statement: Statement, box: Int32Array, costs: float, room: Room) -> float:
    """Return a lower bound on the objective in a box, from bounds of sums and costs."""
    parts = statement.parts
    total, size = costs, abs(costs)
    for i in range(parts.size):
        if parts[i].in_objective:
            low, high = part_ends(statement.features, parts, i, box)
            value = part_value(parts, i, room.sums, low, high)
            total += value
            size += abs(value)
    if np.isinf(size):
        return total
    return total - UNIT * size


@kernel
def breaks_limit(statement: Statement, box: Int32Array, room: Room) -> bool:
    """Return whether a part exceeds its limit everywhere in a box."""
    parts = statement.parts
    for i in range(parts.size):
        if not parts[i].in_objective:
            low, high = part_ends(statement.features, parts, i, box)
            if part_value(parts, i, room.sums, low, high) > relaxed(parts[i].limit):
                return True
    return False


@kernel
def relaxed(limit: float) -> float:
    """Return a limit plus a margin for the rounding of the comparison."""
    return limit + UNIT * abs(limit)


@kernel
def set_slacks(
    statement: Statement, box: Int32Array, bound: float, cutoff: float, room: Room
) -> None:
    """Write by how much each sum may grow before the node is of no interest."""
    parts = statement.parts
    for i in range(parts.size):
        low, high = part_ends(statement.features, parts, i, box)
        allowance = relaxed(parts[i].limit)
        if parts[i].in_objective:
            allowance = np.inf
            if cutoff < np.inf:
                value = part_value(parts, i, room.sums, low, high)
                allowance = value + (cutoff - bound)
                allowance += UNIT * (abs(value) + abs(cutoff) + abs(bound))
        for k in range(parts[i].start, parts[i].end):
            if allowance == np.inf:
                room.slack[k] = np.inf
            else:
                room.slack[k] = slack_of(parts, i, room.sums, k, low, high, allowance)


@kernel
def is_empty(statement: Statement, search: General) -> bool:
    """Return whether a ray shows that no point of a box satisfies the rows."""
    rows, room = statement.rows, search.room
    for i in range(search.state[0].n_rays):
        set_tilt(statement, search.rays[i], room)
        total, size = 0.0, 0.0
        for k in range(room.feature.size):
            now = room.feature[k]
            if now.tilt != 0.0:
                x = now.low if now.tilt > 0 else now.high
                total += now.tilt * x
                size += abs(now.tilt * x)
        for r in range(rows.row.size):
            y = search.rays[i, r]
            if y != 0.0:
                limit = rows.row[r].high if y > 0 else rows.row[r].low
                slip = rows.row[r].size
                for e in range(rows.row[r].start, rows.row[r].end):
                    now = room.feature[rows.entry[e].feature]
                    slip += rows.entry[e].size * max(abs(now.low), abs(now.high))
                total -= y * limit + abs(y) * rows.row[r].error * slip
                size += abs(y * limit)
        if total > UNIT * size and total > 0.0:
            return True
    return False


@kernel
def is_closed(state: Any, bound: float) -> bool:
    """Return whether a node can be dropped; note its bound if it may be better than the best."""
    if bound < state.best - state.tolerance:
        return False
    if bound < state.best:
        state.tie_bound = min(state.tie_bound, bound)
    return True


@kernel
def filter_node(
    statement: Statement,
    search: General,
    at: int,
    source: int,
    parent_bound: float,
    min_gain: float,
) -> None:
    """Filter a node to a fixed point, then close it, ask about it, or divide it.

    ``at`` is its level, and ``source`` the level whose lists it starts from.
    """
    state, level, box = search.state[0], search.level[at], search.level_box[at]
    room, y, leaves = search.room, search.level_y[at], statement.leaves
    n_sums = statement.sums.size
    level.pending = 0
    all_ends(statement.features, box, room.feature)
    first = True
    while True:
        for k in range(room.feature.size):
            room.feature[k].is_narrower = False
        if not propagate(statement, box, room.feature) or is_empty(statement, search):
            return
        for k in range(room.feature.size):
            room.feature[k].is_changed |= room.feature[k].is_narrower
        for k in range(n_sums):
            room.sums[k] = search.level_sum[source if first else at, k].bound
        costs = raise_rows(statement, y, box, room)
        bound = max(objective_bound(statement, box, costs, room), parent_bound)
        if is_closed(state, bound) or breaks_limit(statement, box, room):
            return
        set_slacks(statement, box, bound, state.best, room)
        if not narrow_all(statement, search, at, source if first else at, box):
            return
        first = False
        if take_changes(statement, box, room):
            continue
        bound = max(objective_bound(statement, box, costs, room), parent_bound)
        if is_closed(state, bound) or breaks_limit(statement, box, room):
            return
        set_slacks(statement, box, bound, state.best, room)
        drop_slack_sums(statement, search, at)
        n_trees = 0
        for k in range(n_sums):
            n_trees += search.level_sum[at, k].n_trees
        if n_trees == 0:
            state.asked, state.asked_bound, state.asked_level = BOX, bound, at
            level.bound = bound
            return
        feature, cut = examine_all(statement, search, at, box, costs, bound, min_gain)
        if is_set(leaves.stop):
            return
        if feature == -2:
            return
        if feature == -1:
            continue
        level.bound = bound
        divide(level, room, feature, cut, statement.features.feature[feature].place_start, bound)
        state.level = at
        return


@kernel
def narrow_all(
    statement: Statement, search: General, at: int, source: int, box: Int32Array
) -> bool:
    """Narrow the lists of all sums; return False if a tree has no leaf left."""
    state, room, leaves = search.state[0], search.room, statement.leaves
    p = room.feature.size
    target = search.level[at].end if source == at else search.level[source].end
    for k in range(p):
        room.feature[k].is_narrower = False
    for s in range(statement.sums.size):
        before, own = search.level_sum[source, s], search.level_sum[at, s]
        n_changed = 0
        for k in range(p):
            if room.feature[k].is_changed:
                room.changed[n_changed] = k
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
            room.changed,
            n_changed,
            room.slack[s],
            leaves.stop,
        )
        state.spent += kept.end - to
        if kept.n_trees < 0:
            return False
        own.constant, own.n_trees, own.end = constant + kept.folded, kept.n_trees, kept.end
        own.bound = own.constant + kept.bound
        room.sums[s] = own.bound
        for i in range(kept.n_changed):
            room.feature[room.changed[i]].is_narrower = True
        if source != at:
            target = kept.end
    if source != at:
        search.level[at].end = target
    return True


@kernel
def take_changes(statement: Statement, box: Int32Array, room: Room) -> bool:
    """Make the noted changes the ones to be handled next; return whether there are any."""
    any_changed = False
    for k in range(room.feature.size):
        room.feature[k].is_changed = room.feature[k].is_narrower
        any_changed |= room.feature[k].is_narrower
    if any_changed:
        all_ends(statement.features, box, room.feature)
    return any_changed


@kernel
def drop_slack_sums(statement: Statement, search: General, at: int) -> None:
    """Drop the trees of sums whose limit no point of the node can exceed."""
    parts, lists, room = statement.parts, search.lists, search.room
    for i in range(parts.size):
        if parts[i].in_objective or parts[i].n_sums > 1:
            continue
        s = parts[i].start
        own = search.level_sum[at, s]
        if own.n_trees == 0:
            continue
        spread = 2.0 * statement.sums[s].error
        for t in range(own.n_trees):
            a, b = lists.arena[own.at + t], lists.arena[own.at + t + 1]
            spread += lists.value[lists.arena[b - 1]] - lists.value[lists.arena[a]]
        before = room.sums[s]
        room.sums[s] = before + spread * (1.0 + UNIT)
        low, high = 0.0, 0.0
        value = part_value(parts, i, room.sums, low, high)
        room.sums[s] = before
        margin = 2.0 * parts[i].error * max(abs(value), 1.0)
        if value + margin <= parts[i].limit:
            own.n_trees = 0
            own.constant = own.bound


@kernel
def divide(level: Any, room: Room, feature: int, cut: int, origin: int, bound: float) -> None:
    """Give a level two children, on both sides of a cut."""
    level.pending = 2
    level.feature, level.cut = feature, cut
    left, right = room.score[0, origin + cut], room.score[1, origin + cut]
    level.first_side = 0 if left <= right else 1
    level.left_bound = bound + max(room.gain[0, origin + cut], 0.0)
    level.right_bound = bound + max(room.gain[1, origin + cut], 0.0)


@kernel
def examine_all(
    statement: Statement,
    search: General,
    at: int,
    box: Int32Array,
    costs: float,
    bound: float,
    min_gain: float,
) -> tuple[int, int]:
    """Examine all cuts of a node by all sums and costs.

    Returns the best cut: its feature and the last place on the left. If the box became narrower
    instead, the feature is -1, and if it is empty, -2.
    """
    state, room, p = search.state[0], search.room, box.size // 2
    place_start = statement.leaves.place_start
    for k in range(p):
        room.feature[k].new_low = room.feature[k].common_low = box[k]
        room.feature[k].new_high = room.feature[k].common_high = box[p + k]
        for c in range(place_start[k] + box[k], place_start[k] + box[p + k] + 1):
            room.score[0, c] = room.score[1, c] = 0.0
            room.gain[0, c] = room.gain[1, c] = 0.0
    for i in range(statement.parts.size):
        for s in range(statement.parts[i].start, statement.parts[i].end):
            if search.level_sum[at, s].n_trees > 0:
                is_linear = statement.parts[i].in_objective and statement.parts[i].link == 0
                is_linear &= statement.parts[i].end - statement.parts[i].start == 1
                examine_sum(
                    statement, search, at, s, box, is_linear, statement.parts[i].in_objective
                )
                if is_set(statement.leaves.stop):
                    return -2, -1
    examine_costs(statement, box, bound, state.best, room)
    any_changed = False
    for k in range(p):
        room.feature[k].is_changed = False
        if room.feature[k].new_low > room.feature[k].new_high:
            return -2, -1
        if room.feature[k].new_low > box[k] or room.feature[k].new_high < box[p + k]:
            box[k], box[p + k] = room.feature[k].new_low, room.feature[k].new_high
            room.feature[k].is_changed = True
            any_changed = True
    if any_changed:
        all_ends(statement.features, box, room.feature)
        return -1, -1
    best, feature, cut = 0.0, -1, -1
    for k in range(p):
        state.spent += box[p + k] - box[k]
        for c in range(box[k], box[p + k]):
            left, right = room.score[0, place_start[k] + c], room.score[1, place_start[k] + c]
            score = max(left, min_gain) * max(right, min_gain)
            if (left > min_gain or right > min_gain) and score > best:
                best, feature, cut = score, k, c
    if feature >= 0:
        return feature, cut
    return any_cut(statement, search, at, box)


@kernel
def any_cut(statement: Statement, search: General, at: int, box: Int32Array) -> tuple[int, int]:
    """Return a cut that separates the best leaf of a tree from others."""
    p, lists = box.size // 2, search.lists
    for s in range(statement.sums.size):
        own = search.level_sum[at, s]
        for t in range(own.n_trees):
            row = lists.arena[lists.arena[own.at + t]]
            for k in range(p):
                if lists.box[row, k] > box[k]:
                    return k, lists.box[row, k] - 1
                if lists.box[row, p + k] < box[p + k]:
                    return k, lists.box[row, p + k]
    return -2, -1


@kernel
def examine_sum(
    statement: Statement,
    search: General,
    at: int,
    s: int,
    box: Int32Array,
    is_linear: bool,
    in_objective: bool,
) -> None:
    """Add the losses of one sum to the scores of all cuts; narrow what is left of the box."""
    room, cut, p = search.room, search.room.cut, box.size // 2
    place_start, own = statement.leaves.place_start, search.level_sum[at, s]
    slack = room.slack[s]
    scale = slack if slack < np.inf else max(statement.sums[s].spread, 1e-300)
    scale = max(scale, 1e-300)
    start_from(box, cut)
    work = add_losses(
        search.lists, own.at, own.n_trees, box, slack, place_start, cut, statement.leaves.stop
    )
    search.state[0].spent += work
    for k in range(p):
        room.feature[k].new_low = max(room.feature[k].new_low, cut.low[k])
        room.feature[k].new_high = min(room.feature[k].new_high, cut.high[k])
        if in_objective:
            room.feature[k].common_low = max(room.feature[k].common_low, cut.common_low[k])
            room.feature[k].common_high = min(room.feature[k].common_high, cut.common_high[k])
        if cut.touched[k] == 0:
            continue
        off = 2.0**-52 * (2 * cut.touched[k] + 2) * cut.sum_of_losses[k]
        safe, origin = slack + off, place_start[k]
        left, right = 0.0, 0.0
        for c in range(box[k], box[p + k]):
            left += cut.loss[0, origin + c]
            right += cut.loss[1, origin + c]
            if left >= safe:
                room.feature[k].new_low = max(room.feature[k].new_low, c + 1)
            if right >= safe:
                room.feature[k].new_high = min(room.feature[k].new_high, c)
            room.score[0, origin + c] += left / scale
            room.score[1, origin + c] += right / scale
            if is_linear:
                room.gain[0, origin + c] += left - off
                room.gain[1, origin + c] += right - off


@kernel
def examine_costs(
    statement: Statement, box: Int32Array, bound: float, cutoff: float, room: Room
) -> None:
    """Add what each cut costs to the scores; narrow what is left of the box."""
    features, p = statement.features, box.size // 2
    slack = cutoff - bound
    for k in range(p):
        if box[k] == box[p + k] or not (
            features.feature[k].is_priced or room.feature[k].tilt != 0.0
        ):
            continue
        origin, tilt, here = (
            features.feature[k].place_start,
            room.feature[k].tilt,
            room.feature[k].cost,
        )
        widest = 0.0
        for c in range(box[k], box[p + k]):
            left = lowest_cost(features, k, box[k], c, tilt)[0] - here
            right = lowest_cost(features, k, c + 1, box[p + k], tilt)[0] - here
            size = UNIT * (abs(here) + max(left, right))
            left, right = max(left - size, 0.0), max(right - size, 0.0)
            if left >= slack:
                room.feature[k].new_low = max(room.feature[k].new_low, c + 1)
            if right >= slack:
                room.feature[k].new_high = min(room.feature[k].new_high, c)
            room.gain[0, origin + c] += left
            room.gain[1, origin + c] += right
            widest = max(widest, max(left, right))
        scale = slack if slack < np.inf else max(widest, 1e-300)
        scale = max(scale, 1e-300)
        for c in range(box[k], box[p + k]):
            left = lowest_cost(features, k, box[k], c, tilt)[0] - here
            right = lowest_cost(features, k, c + 1, box[p + k], tilt)[0] - here
            room.score[0, origin + c] += max(left, 0.0) / scale
            room.score[1, origin + c] += max(right, 0.0) / scale
