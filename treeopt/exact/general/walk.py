"""Descents on the objective plus a penalty for violated constraints, compiled.

As in `treeopt.exact.descent`, one pass over the boxes gives every sum along all axis-parallel lines
through a point. Here a point also has a number within each place, because costs and rows depend on
it. A move goes to a place of a feature and to one of a few numbers there: the cheapest, the nearest
to the present one, and those at which a row just holds. The penalty grows until the point is
feasible.

If a descent is *flexible*, a row holds if features without costs can make it hold without leaving
the leaves of the point. They are not moved; the caller finds their numbers at the end of the
descent, by a linear program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.exact.descent import go_to, move
from treeopt.exact.general.bounds import cost_at, part_value
from treeopt.exact.general.multipliers import row_at
from treeopt.exact.general.numbers import best_number, find_axis, find_valley
from treeopt.exact.general.stroll import add_sums, set_reach
from treeopt.kernels.jit import inlined, is_set, lean

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Rows, Statement
    from treeopt.exact.general.stroll import Stroll
    from treeopt.types import Array, FloatArray, Int32Array

GROWTH = 1.7
"""Factor by which the penalty grows if the end of a descent is not feasible."""

MAX_GROWTHS = 40
"""Number of times that the penalty grows."""


class Move(NamedTuple):
    """The best move: feature, place and number, and the merit there. Feature -1 means none."""

    feature: int
    place: int
    x: float
    merit: float


@lean
def parts_merit(
    parts: Array, sums: FloatArray, penalty: float, x: float, k: int, point: FloatArray
) -> float:
    """Return the parts of the objective plus penalties of limits, with feature ``k`` at ``x``."""
    total = 0.0
    for i in range(parts.size):
        f = parts[i].feature
        at = 0.0
        if f >= 0:
            at = x if f == k else point[f]
        value = part_value(parts, i, sums, at, at)
        if parts[i].in_objective:
            total += value
        elif value > parts[i].limit:
            total += penalty * (value - parts[i].limit) / parts[i].scale
    return total


@lean
def row_penalty(rows: Rows, scale: FloatArray, r: int, low: float, high: float) -> float:
    """Return the relative violation of a row that can have the values of an interval."""
    row = rows.row[r]
    return max(row.low - high, low - row.high, 0.0) / scale[r]


@lean
def logic_penalty(statement: Statement, stroll: Stroll, k: int, place: int, x: float) -> float:
    """Return how many clauses are violated and counts exceeded, with one feature moved."""
    rows, logic, at, point = statement.rows, statement.logic, stroll.walk.at, stroll.x
    total = 0.0
    for i in range(logic.clause_start.size - 1):
        worst = np.inf
        for q in range(logic.clause_start[i], logic.clause_start[i + 1]):
            r = logic.literal[q].row
            if r >= 0:
                value = row_at(rows, r, point)
                for e in range(rows.row[r].start, rows.row[r].end):
                    if rows.entry[e].feature == k:
                        value += rows.entry[e].factor * (x - point[k])
                worst = min(worst, row_penalty(rows, stroll.row_scale, r, value, value))
            else:
                f = logic.literal[q].feature
                c = logic.literal[q].mask + (place if f == k else at[f])
                worst = 0.0 if logic.below[c + 1] > logic.below[c] else min(worst, 1.0)
        total += worst
    for i in range(logic.counts.size):
        n = 0
        for q in range(logic.counts[i].start, logic.counts[i].end):
            f = logic.counted[q].feature
            n += (place if f == k else at[f]) != logic.counted[q].zero
        total += max(n - logic.counts[i].most, 0)
    return total


@lean
def merit_of(statement: Statement, stroll: Stroll, penalty: float) -> float:
    """Return the merit of the point: objective plus penalties."""
    features, p = statement.features, stroll.x.size
    total = statement.offset + parts_merit(statement.parts, stroll.sums, penalty, 0.0, -1, stroll.x)
    for k in range(p):
        if features.feature[k].has_table:
            at = features.feature[k].place_start + stroll.walk.at[k]
            total += features.place[at].table
        elif features.feature[k].is_priced:
            total += cost_at(features, k, stroll.x[k])
    for r in range(statement.rows.row.size):
        if not statement.rows.row[r].is_literal:
            ends = stroll.row_low[r], stroll.row_high[r]
            total += penalty * row_penalty(statement.rows, stroll.row_scale, r, *ends)
    return total + penalty * logic_penalty(statement, stroll, -1, 0, 0.0)


@lean
def best_move(statement: Statement, stroll: Stroll, merit: float, penalty: float) -> Move:
    """Return the best move from the point along any line."""
    best = Move(-1, -1, 0.0, merit)
    parts = parts_merit(statement.parts, stroll.sums, penalty, 0.0, -1, stroll.x)
    for k in range(stroll.x.size):
        best = best_along(statement, stroll, k, parts, merit, best, penalty)
    return best


@lean
def best_along(
    statement: Statement,
    stroll: Stroll,
    k: int,
    parts_here: float,
    merit: float,
    best: Move,
    penalty: float,
) -> Move:
    """Return the best move along feature ``k`` if it is better than the best so far.

    ``parts_here`` and ``merit`` are those of the point.
    """
    features, logic, parts = statement.features, statement.logic, statement.parts
    start = statement.leaves.place_start[k]
    n_places = statement.leaves.place_start[k + 1] - start
    axis = find_axis(features, statement.rows, stroll, k, penalty)
    valley = find_valley(features, k, axis, n_places - 1, stroll.corners)
    rest, here = merit - axis.merit - parts_here, stroll.walk.at[k]
    has_logic = logic.clause_start.size > 1 or logic.counts.size > 0
    if has_logic:
        rest -= penalty * logic_penalty(statement, stroll, k, here, axis.x)
    is_factor = False
    for i in range(parts.size):
        is_factor |= parts[i].feature == k
    own = features.feature[k]
    is_same = not (own.is_priced or axis.rows.shape[0] or has_logic or is_factor)
    # Places between which no sum changes are examined together.
    in_runs = own.ordered and not (own.has_table or has_logic or is_factor)
    change, along = stroll.change[:, start + k : start + k + n_places], stroll.along
    is_curved, factor = stroll.is_curved, stroll.factor
    for s in range(along.size):
        along[s] = stroll.sums[s]
    value, first = parts_here, 0
    while first < n_places:
        changed = curved = False
        for s in range(along.size):
            if change[s, first] != 0.0:
                along[s] += change[s, first]
                value += factor[s] * change[s, first]
                changed, curved = True, curved or is_curved[s]
        last = run_end(change, first) if in_runs else first
        c, first = first, last + 1
        if is_same and not changed and not c <= here <= last:
            continue
        if curved and not is_factor:
            value = parts_merit(parts, along, penalty, 0.0, -1, stroll.x)
        if not is_factor and rest + valley.least + value >= best.merit:
            continue  # whatever the number
        to, x, total = best_number(features, k, axis, valley, c, last)
        if is_factor:
            value = parts_merit(parts, along, penalty, x, k, stroll.x)
        total += rest + value
        if has_logic:
            total += penalty * logic_penalty(statement, stroll, k, to, x)
        if total < best.merit:
            best = Move(k, to, x, total)
    return best


@inlined
def run_end(change: FloatArray, first: int) -> int:
    """Return the last place from ``first`` on up to which no sum changes again."""
    last = first + 1
    while last < change.shape[1]:
        for s in range(change.shape[0]):
            if change[s, last] != 0.0:
                return last - 1
        last += 1
    return last - 1


@lean
def descend(
    statement: Statement,
    stroll: Stroll,
    places: Int32Array,
    x: FloatArray,
    penalty: float,
    is_flexible: bool,
    max_passes: int,
) -> float:
    """Descend from a point; return the merit at the end.

    If the end is not feasible, the penalty grows and the descent continues.
    """
    go_to(statement.leaves, stroll.walk, places)
    for k in range(x.size):
        stroll.x[k] = x[k]
    state, merit = stroll.walk.state[0], np.inf
    for _ in range(MAX_GROWTHS):
        merit = np.inf
        while state.passes < max_passes and not is_set(statement.leaves.stop):
            add_sums(statement, stroll)
            set_reach(statement, stroll, is_flexible)
            state.passes += 1
            before, merit = merit, merit_of(statement, stroll, penalty)
            if not merit < before:  # the move gained nothing but rounding errors
                break
            found = best_move(statement, stroll, merit, penalty)
            if found.feature < 0 or not found.merit < merit - 1e-12 * abs(merit):
                break
            if stroll.walk.at[found.feature] != found.place:
                move(statement.leaves, stroll.walk, found.feature, np.int32(found.place))
            stroll.x[found.feature] = found.x
        if merit_of(statement, stroll, 2.0 * penalty) <= merit + 1e-12 * abs(merit):
            break
        if state.passes >= max_passes or is_set(statement.leaves.stop):
            break
        penalty *= GROWTH
    return merit
