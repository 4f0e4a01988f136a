"""Try a point of a node: the cheapest point that lies in the best leaves of the objective."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeopt.exact.general.bounds import cost_at, lowest_cost, part_value, place_of
from treeopt.exact.general.multipliers import row_at
from treeopt.exact.general.nodes import relaxed
from treeopt.exact.general.search_state import POINT
from treeopt.kernels.jit import lean

if TYPE_CHECKING:
    from treeopt.exact.box_lists import Lists
    from treeopt.exact.general.search_state import General
    from treeopt.exact.general.statement import Features, Logic, Rows, Statement
    from treeopt.types import Array, FloatArray, Int32Array

REPAIRS = 3
"""Number of times that all rows are repaired in turn."""


@lean
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
        repair(features, rows, room.feature, room.point)
        for k in range(p):
            own = room.feature[k]
            own.point_place = place_of(features, k, room.point[k], own.common_low, own.common_high)
            if own.point_place < 0:
                return
        for r in range(rows.row.size):
            if not rows.row[r].is_literal:
                value = row_at(rows, r, room.point)
                slip = 1e-9 * (abs(rows.row[r].low) if rows.row[r].low == rows.row[r].high else 0.0)
                if value > rows.row[r].high + slip or value < rows.row[r].low - slip:
                    return
    if not logic_holds(rows, statement.logic, room.feature, room.point):
        return
    if not sums_there(search.lists, search.level_sum[at], room.feature, room.trial):
        return
    value = value_there(
        features, statement.parts, statement.offset, room.feature, room.point, room.trial
    )
    if value < state.best - state.tolerance:
        state.asked = POINT
        state.asked_bound, state.asked_level = search.level[at].bound, at


@lean
def repair(features: Features, rows: Rows, now: Array, point: FloatArray) -> None:
    """Move the point within the common region so that rows hold, as far as this is simple."""
    for _ in range(REPAIRS):
        for r in range(rows.row.size):
            if rows.row[r].is_literal:
                continue
            value = row_at(rows, r, point)
            for i in range(rows.row[r].start, rows.row[r].end):
                k, a = rows.entry[i].feature, rows.entry[i].factor
                missing = 0.0
                if value > rows.row[r].high:
                    missing = rows.row[r].high - value
                elif value < rows.row[r].low:
                    missing = rows.row[r].low - value
                if missing == 0.0:
                    break
                own = features.feature[k]
                if a == 0.0 or not own.ordered or own.is_integer:
                    continue
                origin = features.feature[k].place_start
                low = features.place[origin + now[k].common_low].low
                high = features.place[origin + now[k].common_high].high
                to = min(max(point[k] + missing / a, low), high)
                value += a * (to - point[k])
                point[k] = to


@lean
def logic_holds(rows: Rows, logic: Logic, now: Array, point: FloatArray) -> bool:
    """Return whether the point satisfies clauses and counts."""
    for i in range(logic.clause_start.size - 1):
        holds = False
        for q in range(logic.clause_start[i], logic.clause_start[i + 1]):
            r = logic.literal[q].row
            if r >= 0:
                value = row_at(rows, r, point)
                holds |= rows.row[r].low <= value <= rows.row[r].high
            else:
                at = logic.literal[q].mask + now[logic.literal[q].feature].point_place
                holds |= logic.below[at + 1] > logic.below[at]
        if not holds:
            return False
    for i in range(logic.counts.size):
        n = 0
        for q in range(logic.counts[i].start, logic.counts[i].end):
            n += now[logic.counted[q].feature].point_place != logic.counted[q].zero
        if n > logic.counts[i].most:
            return False
    return True


@lean
def sums_there(lists: Lists, level_sums: Array, now: Array, sums: FloatArray) -> bool:
    """Write all sums at the point; return False if it is in leaves that were dropped."""
    p = now.size
    for s in range(sums.size):
        own = level_sums[s]
        total = own.constant
        for t in range(own.n_trees):
            found = False
            for i in range(lists.arena[own.at + t], lists.arena[own.at + t + 1]):
                row = lists.arena[i]
                inside = True
                for k in range(p):
                    place = now[k].point_place
                    if lists.box[row, k] > place or lists.box[row, p + k] < place:
                        inside = False
                        break
                if inside:
                    total += lists.value[row]
                    found = True
                    break
            if not found:
                return False
        sums[s] = total
    return True


@lean
def value_there(
    features: Features, parts: Array, offset: float, now: Array, point: FloatArray, sums: FloatArray
) -> float:
    """Return the objective at the point; infinite if a limit is exceeded."""
    value = offset
    for i in range(parts.size):
        x = point[parts[i].feature] if parts[i].feature >= 0 else 0.0
        own = part_value(parts, i, sums, x, x)
        if parts[i].in_objective:
            value += own
        elif own > relaxed(parts[i].limit):
            return np.inf
    for k in range(now.size):
        if features.feature[k].has_table:
            value += features.place[features.feature[k].place_start + now[k].point_place].table
        elif features.feature[k].is_priced:
            value += cost_at(features, k, point[k])
    return value
