"""Try a point of a node: the cheapest point that lies in the best leaves of the objective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treeopt.exact.general.bounds import cost_at, lowest_cost, part_value, place_of
from treeopt.exact.general.nodes import POINT, relaxed, row_at
from treeopt.kernels.jit import kernel

if TYPE_CHECKING:
    from treeopt.exact.general.nodes import General, Room
    from treeopt.exact.general.statement import Statement
    from treeopt.types import Int32Array

REPAIRS = 3
"""Number of times that all rows are repaired in turn."""


@kernel
def try_point(statement: Statement, search: General, at: int, box: Int32Array) -> None:
    """Ask about the cheapest point in the best leaves if it seems feasible and better."""
    state, room, p = search.state[0], search.room, box.size // 2
    features, rows = statement.features, statement.rows
    for k in range(p):
        first, last = room.feature[k].common_low, room.feature[k].common_high
        if first > last:
            return
        _, x, place = lowest_cost(features, k, first, last, room.feature[k].tilt)
        room.point[k] = x
        room.feature[k].point_place = place
    if rows.row.size > 0:
        repair(statement, room)
        for k in range(p):
            room.feature[k].point_place = place_of(
                features, k, room.point[k], room.feature[k].common_low, room.feature[k].common_high
            )
            if room.feature[k].point_place < 0:
                return
        for r in range(rows.row.size):
            if not rows.row[r].is_literal:
                value = row_at(statement, r, room.point)
                slip = 1e-9 * (abs(rows.row[r].low) if rows.row[r].low == rows.row[r].high else 0.0)
                if value > rows.row[r].high + slip or value < rows.row[r].low - slip:
                    return
    if not logic_holds(statement, room):
        return
    value = value_there(statement, search, at)
    if value < state.best - state.tolerance:
        state.asked, state.asked_value = POINT, value
        state.asked_bound, state.asked_level = search.level[at].bound, at


@kernel
def repair(statement: Statement, room: Room) -> None:
    """Move the point within the common region so that rows hold, as far as this is simple."""
    features, rows = statement.features, statement.rows
    for _ in range(REPAIRS):
        for r in range(rows.row.size):
            if rows.row[r].is_literal:
                continue
            value = row_at(statement, r, room.point)
            for i in range(rows.row[r].start, rows.row[r].end):
                k, a = rows.entry[i].feature, rows.entry[i].factor
                missing = 0.0
                if value > rows.row[r].high:
                    missing = rows.row[r].high - value
                elif value < rows.row[r].low:
                    missing = rows.row[r].low - value
                if missing == 0.0:
                    break
                if not features.feature[k].ordered:
                    continue
                origin = features.feature[k].place_start
                low = features.place[origin + room.feature[k].common_low].low
                high = features.place[origin + room.feature[k].common_high].high
                to = min(max(room.point[k] + missing / a, low), high)
                value += a * (to - room.point[k])
                room.point[k] = to


@kernel
def logic_holds(statement: Statement, room: Room) -> bool:
    """Return whether the point satisfies clauses and counts."""
    logic, rows = statement.logic, statement.rows
    for i in range(logic.clause_start.size - 1):
        holds = False
        for q in range(logic.clause_start[i], logic.clause_start[i + 1]):
            r = logic.literal[q].row
            if r >= 0:
                value = row_at(statement, r, room.point)
                holds |= rows.row[r].low <= value <= rows.row[r].high
            else:
                at = logic.literal[q].mask + room.feature[logic.literal[q].feature].point_place
                holds |= logic.below[at + 1] > logic.below[at]
        if not holds:
            return False
    for i in range(logic.count.size):
        n = 0
        for q in range(logic.count[i].start, logic.count[i].end):
            n += room.feature[logic.counted[q].feature].point_place != logic.counted[q].zero
        if n > logic.count[i].most:
            return False
    return True


@kernel
def value_there(statement: Statement, search: General, at: int) -> float:
    """Return the objective at the point; infinite if a limit is exceeded."""
    room, lists, parts, features = search.room, search.lists, statement.parts, statement.features
    p = room.point.size
    for s in range(statement.sums.size):
        own = search.level_sum[at, s]
        total = own.constant
        for t in range(own.n_trees):
            found = False
            for i in range(lists.arena[own.at + t], lists.arena[own.at + t + 1]):
                row = lists.arena[i]
                inside = True
                for k in range(p):
                    place = room.feature[k].point_place
                    if lists.box[row, k] > place or lists.box[row, p + k] < place:
                        inside = False
                        break
                if inside:
                    total += lists.value[row]
                    found = True
                    break
            if not found:
                return float("inf")
        room.trial[s] = total
    value = statement.offset
    for i in range(parts.size):
        x = room.point[parts[i].feature] if parts[i].feature >= 0 else 0.0
        own_value = part_value(parts, i, room.trial, x, x)
        if parts[i].in_objective:
            value += own_value
        elif own_value > relaxed(parts[i].limit):
            return float("inf")
    for k in range(p):
        if features.feature[k].has_table:
            value += features.place[
                features.feature[k].place_start + room.feature[k].point_place
            ].table
        elif features.feature[k].is_priced:
            value += cost_at(features, k, room.point[k])
    return value
