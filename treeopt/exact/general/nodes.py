"""What is done at a node: bound it, filter it to a fixed point, and find where to cut it.

`filter_node` repeats these steps until nothing changes: `propagate` narrows the box by rows and
logic; `raise_rows` improves the multipliers of the rows; `narrow` drops leaves of every sum that
cannot matter, each sum with its own slack; `examine_all` finds cuts of which one side can be
dropped. Then the node is closed, solved outside because no tree is left, or divided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.exact.box_lists import Lists, cut_features, meets, narrow
from treeopt.exact.branching import CutRoom, add_losses, start_from
from treeopt.exact.general.bounds import (
    UNIT,
    lowest_cost,
    part_ends,
    part_value,
    slack_of,
)
from treeopt.exact.general.propagate import all_ends, propagate
from treeopt.exact.general.statement import OPEN
from treeopt.exact.tree_search import Heap
from treeopt.kernels.jit import is_set, kernel, lean

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Features, Rows, Statement
    from treeopt.problem.leaves import Leaves
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
        ("wait", np.int64),  # plunges before the next linear program
        ("asked", np.int64),  # what the caller has to do: NOTHING, POINT, BOX or ROWS
        ("best", np.float64),  # value of the best point
        ("tolerance", np.float64),  # nodes that are less than this below the best are closed
        ("tie_bound", np.float64),  # lowest bound of the nodes that were closed so
        ("asked_bound", np.float64),  # bound of the node that is asked about
        ("asked_level", np.int64),  # level of that node
    ]
)
"""State of a search, as one record."""

NOTHING, POINT, BOX, ROWS = range(4)
"""What a caller has to do: nothing; check a point; solve a box in which no tree is left; solve the
linear program of a node."""

NARROWER, EMPTY = -1, -2
"""What `examine_all` returns instead of a feature."""

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
        ("at", np.float64),  # number of the lowest cost
        ("point_place", np.int64),  # place of the point that is asked about
        ("new_low", np.int64),  # what is left of a box
        ("new_high", np.int64),
        ("common_low", np.int64),  # what the best leaves of the objective have in common
        ("common_high", np.int64),
        ("has_moved", np.bool_),  # to its other end, as a multiplier grows
        ("is_changed", np.bool_),  # whether a box is narrower than its lists
        ("is_narrower", np.bool_),  # whether it has become narrower since
        ("is_scored", np.bool_),  # whether its cuts have scores and gains
    ],
    align=True,
)
"""Room for one feature at a node, as a record."""


class Room(NamedTuple):
    """Room for the steps at a node; what is in it on entry does not matter."""

    cut: CutRoom
    feature: Array  # records of `FEATURE_ROOM`
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


@lean
def set_tilt(features: Features, rows: Rows, y: FloatArray, now: Array) -> None:
    """Write what the multipliers of the rows add to the cost per unit of each feature."""
    for k in range(now.size):
        own, tilt = features.feature[k], 0.0
        for i in range(own.row_start, own.row_end):
            tilt += y[rows.of[i].row] * rows.of[i].factor
        now[k].tilt = tilt


@lean
def cost_bound(
    features: Features, rows: Rows, offset: float, y: FloatArray, box: Int32Array, now: Array
) -> float:
    """Return a lower bound on all costs in a box, by weak duality with the multipliers."""
    p = box.size // 2
    set_tilt(features, rows, y, now)
    total, size = offset, abs(offset)
    for k in range(p):
        own = now[k]
        own.cost = own.at = 0.0
        if features.feature[k].is_priced or own.tilt != 0.0:
            own.cost, own.at, _ = lowest_cost(features, k, box[k], box[p + k], own.tilt)
            total += own.cost
            size += abs(own.cost)
    for r in range(y.size):
        if y[r] != 0.0:
            row = rows.row[r]
            part = y[r] * (row.high if y[r] > 0 else row.low)
            # The row as a user computes it may be off by its rounding error.
            slip = row.size
            for i in range(row.start, row.end):
                own = now[rows.entry[i].feature]
                far = max(abs(own.low), abs(own.high))
                slip += rows.entry[i].size * (far if far < OPEN else abs(own.at))
            total -= part + abs(y[r]) * row.error * slip
            size += abs(part)
    return total - UNIT * size


@lean
def row_at(rows: Rows, r: int, x: FloatArray) -> float:
    """Return the value of a row at a point."""
    total = 0.0
    for i in range(rows.row[r].start, rows.row[r].end):
        total += rows.entry[i].factor * x[rows.entry[i].feature]
    return total


@lean
def row_at_cheapest(
    features: Features, rows: Rows, r: int, y: float, box: Int32Array, now: Array
) -> float:
    """Return the value of a row at the cheapest point, if its multiplier is ``y``.

    ``now`` has what the other rows add to the cost per unit of each feature.
    """
    p, total = box.size // 2, 0.0
    for i in range(rows.row[r].start, rows.row[r].end):
        k, factor = rows.entry[i].feature, rows.entry[i].factor
        tilt = now[k].tilt + y * factor
        total += factor * lowest_cost(features, k, box[k], box[p + k], tilt)[1]
    return total


@lean
def raise_rows(
    features: Features, rows: Rows, offset: float, y: FloatArray, box: Int32Array, now: Array
) -> float:
    """Improve the multipliers row by row; return the bound on the costs.

    Along one multiplier the bound is concave. Its slope is the value of the row at the cheapest
    point minus the limit of the row, so a bisection finds the maximum.
    """
    bound = cost_bound(features, rows, offset, y, box, now)
    is_priced = False
    for k in range(now.size):
        is_priced |= features.feature[k].is_priced
    if not is_priced:
        return bound
    for r in range(y.size):
        if rows.row[r].is_literal:
            continue
        before, best = y[r], bound
        for i in range(rows.row[r].start, rows.row[r].end):
            now[rows.entry[i].feature].tilt -= before * rows.entry[i].factor
        y[r] = best_multiplier(features, rows, r, before, box, now)
        if y[r] != before:
            bound = cost_bound(features, rows, offset, y, box, now)
        if y[r] == before or bound < best:
            y[r] = before
            bound = cost_bound(features, rows, offset, y, box, now)
    return bound


@lean
def best_multiplier(
    features: Features, rows: Rows, r: int, before: float, box: Int32Array, now: Array
) -> float:
    """Return the multiplier of a row at which the bound is highest.

    ``now`` has what the other rows add to the cost per unit of each feature.
    """
    low, high = rows.row[r].low, rows.row[r].high
    value = row_at_cheapest(features, rows, r, 0.0, box, now)
    if low <= value <= high:
        return 0.0
    side = 1.0 if value > high else -1.0
    limit = high if side > 0 else low
    for i in range(rows.row[r].start, rows.row[r].end):
        k = rows.entry[i].feature
        is_finite = max(abs(now[k].low), abs(now[k].high)) < OPEN
        if not (is_finite and is_linear(features, k)):
            return side * bisected(features, rows, r, side, limit, abs(before), box, now)
    return side * first_crossing(features, rows, r, side, limit, now)


@lean
def is_linear(features: Features, k: int) -> bool:
    """Return whether the cost of a feature is proportional to its number."""
    own = features.feature[k]
    return own.ordered and not own.has_table and own.kink_start == own.kink_end


@lean
def first_crossing(
    features: Features, rows: Rows, r: int, side: float, limit: float, now: Array
) -> float:
    """Return the smallest multiplier at which a row of linear costs reaches its limit.

    As the multiplier grows, one feature after the other moves from one end of its range to the
    other, each when its total cost per unit changes its sign.
    """
    value, done = 0.0, 0.0
    for i in range(rows.row[r].start, rows.row[r].end):
        k, a = rows.entry[i].feature, side * rows.entry[i].factor
        own, slope = now[k], features.feature[k].slope + now[k].tilt
        own.has_moved = not slope * a < 0.0
        if slope == 0.0:
            value += min(a * own.low, a * own.high)
        else:
            value += a * (own.low if slope > 0.0 else own.high)
    while value > side * limit:
        reached, first = np.inf, -1
        for i in range(rows.row[r].start, rows.row[r].end):
            k, a = rows.entry[i].feature, side * rows.entry[i].factor
            if not now[k].has_moved:
                at = -(features.feature[k].slope + now[k].tilt) / a
                if at < reached:
                    reached, first = at, i
        if first < 0:
            break
        own = now[rows.entry[first].feature]
        own.has_moved, done = True, reached
        value -= abs(rows.entry[first].factor) * (own.high - own.low)
    return done


@lean
def bisected(
    features: Features,
    rows: Rows,
    r: int,
    side: float,
    limit: float,
    start: float,
    box: Int32Array,
    now: Array,
) -> float:
    """Return a multiplier at which a row just reaches its limit, by bisection."""
    lower, upper = 0.0, max(start, 1e-9)
    for _ in range(60):
        if side * (row_at_cheapest(features, rows, r, side * upper, box, now) - limit) <= 0:
            break
        lower = upper
        upper *= 4.0
    for _ in range(30):
        if upper - lower <= 1e-6 * upper:
            break
        middle = 0.5 * (lower + upper)
        if side * (row_at_cheapest(features, rows, r, side * middle, box, now) - limit) <= 0:
            upper = middle
        else:
            lower = middle
    return upper


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
    return total if np.isinf(size) else total - UNIT * size


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
def is_empty(features: Features, rows: Rows, rays: FloatArray, n_rays: int, now: Array) -> bool:
    """Return whether a ray shows that no point of a box satisfies the rows."""
    for i in range(n_rays):
        set_tilt(features, rows, rays[i], now)
        total, size = 0.0, 0.0
        for k in range(now.size):
            if now[k].tilt != 0.0:
                term = now[k].tilt * (now[k].low if now[k].tilt > 0 else now[k].high)
                total += term
                size += abs(term)
        for r in range(rows.row.size):
            y, row = rays[i, r], rows.row[r]
            if y != 0.0:
                limit = row.high if y > 0 else row.low
                slip = row.size
                for e in range(row.start, row.end):
                    own = now[rows.entry[e].feature]
                    slip += rows.entry[e].size * max(abs(own.low), abs(own.high))
                total -= y * limit + abs(y) * row.error * slip
                size += abs(y * limit)
        if total > UNIT * size and total > 0.0:
            return True
    return False


@lean
def is_closed(state: Any, bound: float) -> bool:
    """Return whether a node can be dropped; note its bound if it may be better than the best."""
    if bound < state.best - state.tolerance:
        return False
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
        feature, cut = examine_all(statement, search, at, box, state.best - bound, min_gain)
        if feature == EMPTY or is_set(statement.leaves.stop):
            return
        if feature == NARROWER:
            continue
        origin = statement.leaves.place_start[feature]
        divide(level, room.score, room.gain, feature, cut, origin + cut, bound)
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
            if value + 2.0 * parts[i].error * max(abs(value), 1.0) <= parts[i].limit:
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
def divide(
    level: Any, score: FloatArray, gain: FloatArray, feature: int, cut: int, at: int, bound: float
) -> None:
    """Give a level two children, on both sides of a cut, whose number among all is ``at``."""
    level.pending = 2
    level.feature, level.cut = feature, cut
    level.first_side = 0 if score[0, at] <= score[1, at] else 1
    level.left_bound = max(bound + gain[0, at], level.bound)
    level.right_bound = max(bound + gain[1, at], level.bound)


@lean
def examine_all(
    statement: Statement, search: General, at: int, box: Int32Array, to_gain: float, min_gain: float
) -> tuple[int, int]:
    """Examine all cuts of a node by all sums and costs.

    Returns the best cut: its feature and the last place on the left. The feature is NARROWER if the
    box became narrower instead, and EMPTY if it holds no point of interest.
    """
    state, room, parts = search.state[0], search.room, statement.parts
    place_start, stop = statement.leaves.place_start, statement.leaves.stop
    begin_cuts(box, room.feature)
    scale = 0.0
    for i in range(parts.size):
        is_linear = parts[i].in_objective and parts[i].link == 0 and parts[i].n_sums == 1
        for s in range(parts[i].start, parts[i].end):
            own = search.level_sum[at, s]
            if own.n_trees == 0:
                continue
            scale += statement.sums[s].spread if is_linear else 0.0
            target = room.gain if is_linear else room.score
            state.spent += examine_sum(
                search.lists,
                own,
                box,
                room.slack[s],
                1.0 if is_linear else min(room.slack[s], statement.sums[s].spread),
                place_start,
                room,
                target,
                stop,
            )
            if is_set(stop):
                return EMPTY, -1
            take_ends(room.cut, room.feature, parts[i].in_objective)
    scale += examine_costs(statement.features, box, room)
    return best_cut(
        statement.features,
        search.lists,
        search.level_sum[at],
        box,
        room,
        to_gain,
        max(min(to_gain, scale), 1e-300),
        min_gain,
    )


@lean
def begin_cuts(box: Int32Array, now: Array) -> None:
    """Prepare the room for the cuts of a box; their scores and gains are cleared when needed."""
    p = box.size // 2
    for k in range(p):
        now[k].new_low = now[k].common_low = box[k]
        now[k].new_high = now[k].common_high = box[p + k]
        now[k].is_scored = False


@lean
def clear_cuts(room: Room, box: Int32Array, k: int, origin: int) -> None:
    """Set scores and gains of the cuts along a feature to 0, unless they are in use."""
    if room.feature[k].is_scored:
        return
    room.feature[k].is_scored = True
    for c in range(origin + box[k], origin + box[box.size // 2 + k]):
        room.score[0, c] = room.score[1, c] = room.gain[0, c] = room.gain[1, c] = 0.0


@lean
def take_ends(cut: CutRoom, now: Array, in_objective: bool) -> None:
    """Narrow what is left of the box, and what the best leaves have in common."""
    for k in range(now.size):
        now[k].new_low = max(now[k].new_low, cut.low[k])
        now[k].new_high = min(now[k].new_high, cut.high[k])
        if in_objective:
            now[k].common_low = max(now[k].common_low, cut.common_low[k])
            now[k].common_high = min(now[k].common_high, cut.common_high[k])


@kernel
def examine_sum(
    lists: Lists,
    own: Any,
    box: Int32Array,
    slack: float,
    scale: float,
    place_start: IntArray,
    room: Room,
    target: FloatArray,
    stop: IntArray,
) -> int:
    """Add the losses of one sum, divided by a scale, to all cuts; return the work.

    Where a side of a cut is of no interest, the room for the cuts is narrowed.
    """
    p, scale, cut = box.size // 2, max(scale, 1e-300), room.cut
    start_from(box, cut)
    work: int = add_losses(lists, own.at, own.n_trees, box, slack, place_start, cut, stop)
    for k in range(p):
        if cut.touched[k] == 0:
            continue
        off = 2.0**-52 * (2 * cut.touched[k] + 2) * cut.sum_of_losses[k]
        safe, origin = slack + off, place_start[k]
        left, right = 0.0, 0.0
        clear_cuts(room, box, k, origin)
        for c in range(box[k], box[p + k]):
            left += cut.loss[0, origin + c]
            right += cut.loss[1, origin + c]
            if left >= safe:
                cut.low[k] = max(cut.low[k], c + 1)
            if right >= safe:
                cut.high[k] = min(cut.high[k], c)
                break
            target[0, origin + c] += (left - off) / scale
            target[1, origin + c] += (right - off) / scale
    return work


@lean
def examine_costs(features: Features, box: Int32Array, room: Room) -> float:
    """Add what each cut costs to the gains of the objective; return the spread of the costs."""
    p, spread, now, gain = box.size // 2, 0.0, room.feature, room.gain
    for k in range(p):
        own = now[k]
        if box[k] == box[p + k] or not (features.feature[k].is_priced or own.tilt != 0.0):
            continue
        origin, widest = features.feature[k].place_start, 0.0
        slope = features.feature[k].slope + own.tilt
        steepness = abs(features.feature[k].slope) + abs(own.tilt)
        is_simple = is_linear(features, k)
        clear_cuts(room, box, k, origin)
        for c in range(box[k], box[p + k]):
            if is_simple:
                left = max(-slope, 0.0) * (own.high - features.place[origin + c].high)
                right = max(slope, 0.0) * (features.place[origin + c + 1].low - own.low)
            else:
                left = lowest_cost(features, k, box[k], c, own.tilt)[0] - own.cost
                right = lowest_cost(features, k, c + 1, box[p + k], own.tilt)[0] - own.cost
            size = UNIT * (abs(own.cost) + max(left, right))
            if is_simple:
                ends = features.place[origin + c].high, features.place[origin + c + 1].low
                size += UNIT * steepness * max(abs(ends[0]), abs(ends[1]))
            gain[0, origin + c] += max(left - size, 0.0)
            gain[1, origin + c] += max(right - size, 0.0)
            widest = max(widest, max(left, right))
        spread += widest
    return spread


@lean
def best_cut(
    features: Features,
    lists: Lists,
    level_sums: Array,
    box: Int32Array,
    room: Room,
    to_gain: float,
    scale: float,
    min_gain: float,
) -> tuple[int, int]:
    """Return the cut with the largest product of both scores, or narrow the box.

    Sides that gain as much as ``to_gain`` are of no interest. Gains count relative to ``scale``.
    """
    p, now, any_changed = box.size // 2, room.feature, False
    best, feature, cut = 0.0, EMPTY, -1
    for k in range(p):
        if not now[k].is_scored:
            continue
        origin = features.feature[k].place_start
        for c in range(now[k].new_low, now[k].new_high):
            left, right = room.gain[0, origin + c], room.gain[1, origin + c]
            safe = to_gain + UNIT * (abs(left) + abs(right) + abs(to_gain))
            if left >= safe:
                now[k].new_low = max(now[k].new_low, c + 1)
            if right >= safe:
                now[k].new_high = min(now[k].new_high, c)
                break
            left = max(room.score[0, origin + c] + left / scale, min_gain)
            right = max(room.score[1, origin + c] + right / scale, min_gain)
            if left * right > best and max(left, right) > min_gain:
                best, feature, cut = left * right, k, c
    for k in range(p):
        now[k].is_changed = False
        if now[k].new_low > now[k].new_high:
            return EMPTY, -1
        if now[k].new_low > box[k] or now[k].new_high < box[p + k]:
            box[k], box[p + k] = now[k].new_low, now[k].new_high
            now[k].is_changed = any_changed = True
    if any_changed:
        all_ends(features, box, now)
        return NARROWER, -1
    if feature < 0:
        feature, cut = any_cut(lists, level_sums, box)
        if feature >= 0:
            clear_cuts(room, box, feature, features.feature[feature].place_start)
    return feature, cut


@lean
def any_cut(lists: Lists, level_sums: Array, box: Int32Array) -> tuple[int, int]:
    """Return a cut that separates the best leaf of a tree from others."""
    p = box.size // 2
    for s in range(level_sums.size):
        own = level_sums[s]
        for t in range(own.n_trees):
            row = lists.arena[lists.arena[own.at + t]]
            for k in range(p):
                if lists.box[row, k] > box[k]:
                    return k, lists.box[row, k] - 1
                if lists.box[row, p + k] < box[p + k]:
                    return k, lists.box[row, p + k]
    return EMPTY, -1
