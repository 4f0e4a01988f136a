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

from treeopt.exact.descent import ONCE, Walk, go_to, move, new_walk
from treeopt.exact.general.bounds import cost_at, first_reaching, lowest_cost, part_value
from treeopt.exact.general.nodes import row_at
from treeopt.exact.general.statement import OPEN
from treeopt.kernels.jit import is_set, kernel

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Features, Logic, Rows, Statement
    from treeopt.types import Array, FloatArray, Int32Array

GROWTH = 1.7
"""Factor by which the penalty grows if the end of a descent is not feasible."""

MAX_GROWTHS = 40
"""Number of times that the penalty grows."""


class Stroll(NamedTuple):
    """Where a descent stands.

    Attributes
    ----------
    walk : Walk
        Places of the point, and which boxes it is in.
    x : float64 array
        Its numbers.
    sums : float64 array
        Sums there.
    along : float64 array
        Room for the sums at a place of a line.
    change : float64 array ``[sum, place]``
        Room for the changes of all sums along all lines.
    low, high : float64 arrays
        How far each feature may move without leaving the leaves of the point; both are its number
        if it is not flexible.
    row_low, row_high : float64 arrays
        Minimum and maximum of the rows if the features move so far.
    row_scale : float64 array
        Typical size of a violation of each row.
    """

    walk: Walk
    x: FloatArray
    sums: FloatArray
    along: FloatArray
    change: FloatArray
    low: FloatArray
    high: FloatArray
    row_low: FloatArray
    row_high: FloatArray
    row_scale: FloatArray


def new_stroll(statement: Statement, row_scale: FloatArray) -> Stroll:
    """Return room for a descent."""
    p, n_sums = statement.features.feature.size, statement.sums.size
    n_places, n_rows = int(statement.leaves.place_start[-1]), row_scale.size
    return Stroll(
        walk=new_walk(statement.leaves),
        x=np.zeros(p),
        sums=np.zeros(n_sums),
        along=np.zeros(n_sums),
        change=np.zeros((n_sums, n_places + p)),
        low=np.zeros(p),
        high=np.zeros(p),
        row_low=np.zeros(n_rows),
        row_high=np.zeros(n_rows),
        row_scale=row_scale,
    )


class Move(NamedTuple):
    """The best move: feature, place and number, and the merit there. Feature -1 means none."""

    feature: int
    place: int
    x: float
    merit: float


@kernel
def add_sums(statement: Statement, stroll: Stroll) -> None:
    """Write the sums at the point, and their changes along all lines as differences."""
    leaves, walk, change = statement.leaves, stroll.walk, stroll.change
    outside, near = walk.outside, walk.near
    for s in range(statement.sums.size):
        for c in range(change.shape[1]):
            change[s, c] = 0.0
        total = statement.sums[s].constant
        for t in range(statement.sums[s].start, statement.sums[s].end):
            if is_set(leaves.stop):
                return
            n, here = 0, 0.0
            for i in range(leaves.start[t], leaves.start[t + 1]):
                if outside[i] < 2 * ONCE:
                    near[n] = i
                    n += 1
                    if outside[i] == 0:
                        here = leaves.value[i]
            total += here
            for a in range(n):
                i = near[a]
                if outside[i] > 0:
                    k = outside[i] - ONCE
                    first = leaves.place_start[k] + k
                    change[s, first + leaves.low[k, i]] += leaves.value[i] - here
                    change[s, first + leaves.high[k, i] + 1] -= leaves.value[i] - here
        stroll.sums[s] = total


@kernel
def set_reach(statement: Statement, stroll: Stroll, is_flexible: bool) -> None:
    """Write how far each feature may move, and the minimum and maximum of the rows."""
    leaves, features, walk = statement.leaves, statement.features, stroll.walk
    p = stroll.x.size
    first, last = np.zeros(p, np.int64), np.empty(p, np.int64)
    for k in range(p):
        last[k] = leaves.place_start[k + 1] - leaves.place_start[k] - 1
    if is_flexible:
        for i in range(walk.outside.size):
            if walk.outside[i] == 0:
                for k in range(p):
                    first[k] = max(first[k], leaves.low[k, i])
                    last[k] = min(last[k], leaves.high[k, i])
    for k in range(p):
        own, origin = features.feature[k], leaves.place_start[k]
        stroll.low[k] = stroll.high[k] = stroll.x[k]
        if is_flexible and own.ordered and not own.is_priced:
            low = features.place[origin + first[k]].low
            high = features.place[origin + last[k]].high
            if max(abs(low), abs(high)) < OPEN:
                stroll.low[k] = min(stroll.x[k], low)
                stroll.high[k] = max(stroll.x[k], high)
    for r in range(statement.rows.row.size):
        stroll.row_low[r] = stroll.row_high[r] = 0.0
        for i in range(statement.rows.row[r].start, statement.rows.row[r].end):
            k, a = statement.rows.entry[i].feature, statement.rows.entry[i].factor
            one, other = a * stroll.low[k], a * stroll.high[k]
            stroll.row_low[r] += min(one, other)
            stroll.row_high[r] += max(one, other)


@kernel
def fix_feature(features: Features, rows: Rows, stroll: Stroll, k: int, sign: float) -> None:
    """Keep a feature at its number in the minimum and maximum of the rows; undo it by sign -1."""
    if stroll.low[k] == stroll.high[k]:
        return
    for i in range(features.feature[k].row_start, features.feature[k].row_end):
        r, a = rows.of[i].row, rows.of[i].factor
        one, other = a * stroll.low[k], a * stroll.high[k]
        stroll.row_low[r] += sign * (a * stroll.x[k] - min(one, other))
        stroll.row_high[r] += sign * (a * stroll.x[k] - max(one, other))


@kernel
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


@kernel
def row_penalty(rows: Rows, scale: FloatArray, r: int, low: float, high: float) -> float:
    """Return the relative violation of a row that can have the values of an interval."""
    row = rows.row[r]
    return max(row.low - high, low - row.high, 0.0) / scale[r]


@kernel
def number_merit(
    features: Features,
    rows: Rows,
    stroll: Stroll,
    k: int,
    place: int,
    step: tuple[float, float],
    penalty: float,
) -> float:
    """Return the cost of a feature after a step from one number to another, plus penalties.

    Before a step, the feature must be fixed in the rows, see `fix_feature`.
    """
    before, x = step
    total = 0.0
    if features.feature[k].has_table:
        total = features.place[features.feature[k].place_start + place].table
    elif features.feature[k].is_priced:
        total = cost_at(features, k, x)
    for i in range(features.feature[k].row_start, features.feature[k].row_end):
        r, rise = rows.of[i].row, rows.of[i].factor * (x - before)
        low, high = stroll.row_low[r] + rise, stroll.row_high[r] + rise
        total += penalty * row_penalty(rows, stroll.row_scale, r, low, high)
    return total


@kernel
def best_number(
    features: Features,
    rows: Rows,
    stroll: Stroll,
    k: int,
    first: int,
    last: int,
    before: float,
    penalty: float,
) -> tuple[int, float, float]:
    """Return the best number of a range of places among a few: its place, itself, its merit.

    See `number_merit`. A range of several places must ascend.
    """
    own, origin = features.feature[k], features.feature[k].place_start
    low, high = features.place[origin + first].low, features.place[origin + last].high
    best = min(max(before, low), high)
    merit = number_merit(features, rows, stroll, k, first, (before, best), penalty)
    if low == high or own.has_table:
        return first, best, merit
    if own.is_priced:
        x = lowest_cost(features, k, first, last, 0.0)[1]
        value = number_merit(features, rows, stroll, k, first, (before, x), penalty)
        if value < merit:
            best, merit = x, value
    for i in range(own.row_start, own.row_end):
        r, factor = rows.of[i].row, rows.of[i].factor
        for s in range(2):
            limit = rows.row[r].low if s == 0 else rows.row[r].high
            if np.isinf(limit):
                continue
            # Rows that hold between two limits need one end of their interval at each.
            now = stroll.row_high[r] if s == 0 else stroll.row_low[r]
            x = before + (limit - now) / factor
            if own.is_integer:
                x = np.floor(x) if (s == 1) == (factor > 0) else np.ceil(x)
            x = min(max(x, low), high)
            if x != best:
                value = number_merit(features, rows, stroll, k, first, (before, x), penalty)
                if value < merit:
                    best, merit = x, value
    if first == last:
        return first, best, merit
    place = first_reaching(features, k, best, first, last)
    if features.place[origin + place].low <= best:
        return place, best, merit
    # The number lies between two places. Take the better one of their ends.
    best = features.place[origin + place].low
    merit = number_merit(features, rows, stroll, k, first, (before, best), penalty)
    x = features.place[origin + place - 1].high
    value = number_merit(features, rows, stroll, k, first, (before, x), penalty)
    return (place - 1, x, value) if value < merit else (place, best, merit)


@kernel
def logic_penalty(
    rows: Rows,
    logic: Logic,
    at: Int32Array,
    point: FloatArray,
    scale: FloatArray,
    k: int,
    place: int,
    x: float,
) -> float:
    """Return how many clauses are violated and counts exceeded, with one feature moved."""
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
                worst = min(worst, row_penalty(rows, scale, r, value, value))
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


@kernel
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
    return total + penalty * logic_penalty(
        statement.rows, statement.logic, stroll.walk.at, stroll.x, stroll.row_scale, -1, 0, 0.0
    )


@kernel
def any_change(stroll: Stroll, at: int) -> bool:
    """Return whether a sum changes at a place of a line, by its number among all places."""
    changed = False
    for s in range(stroll.sums.size):
        changed |= stroll.change[s, at] != 0.0
    return changed


@kernel
def best_move(statement: Statement, stroll: Stroll, merit: float, penalty: float) -> Move:
    """Return the best move from the point along any line."""
    leaves, features, p = statement.leaves, statement.features, stroll.x.size
    rows, scale = statement.rows, stroll.row_scale
    n_sums = statement.sums.size
    logic, at = statement.logic, stroll.walk.at
    has_logic = statement.logic.clause_start.size > 1 or statement.logic.counts.size > 0
    best = Move(-1, -1, 0.0, merit)
    here_parts = parts_merit(statement.parts, stroll.sums, penalty, 0.0, -1, stroll.x)
    for k in range(p):
        is_factor = False
        for i in range(statement.parts.size):
            is_factor |= statement.parts[i].feature == k
        origin = leaves.place_start[k] + k
        place = stroll.walk.at[k]
        here = stroll.x[k]
        before = number_merit(features, rows, stroll, k, place, (here, here), penalty)
        fix_feature(features, rows, stroll, k, 1.0)
        if has_logic:
            before += penalty * logic_penalty(rows, logic, at, stroll.x, scale, k, place, here)
        rest = merit - before - here_parts
        n_places, c = leaves.place_start[k + 1] - leaves.place_start[k], 0
        least = rest
        if features.feature[k].is_priced:
            least += lowest_cost(features, k, 0, n_places - 1, 0.0)[0]
        is_same = not features.feature[k].is_priced
        is_same &= features.feature[k].row_start == features.feature[k].row_end
        for s in range(n_sums):
            stroll.along[s] = stroll.sums[s]
        parts_here = here_parts
        # Places between which no sum changes are examined together.
        in_runs = features.feature[k].ordered and not features.feature[k].has_table
        in_runs &= not has_logic and not is_factor
        while c < n_places:
            changed = False
            for s in range(n_sums):
                if stroll.change[s, origin + c] != 0.0:
                    stroll.along[s] += stroll.change[s, origin + c]
                    changed = True
            first = last = c
            while in_runs and last + 1 < n_places and not any_change(stroll, origin + last + 1):
                last += 1
            c = last + 1
            if changed and not is_factor:
                parts_here = parts_merit(statement.parts, stroll.along, penalty, 0.0, -1, stroll.x)
            is_here = first <= place <= last
            if is_same and not changed and not is_here and not has_logic and not is_factor:
                continue
            if not is_factor and least + parts_here >= best.merit:
                continue  # whatever the number, and even if all rows hold
            to, x, value = best_number(features, rows, stroll, k, first, last, here, penalty)
            if is_factor:
                parts_here = parts_merit(statement.parts, stroll.along, penalty, x, k, stroll.x)
            value += rest + parts_here
            if has_logic:
                value += penalty * logic_penalty(rows, logic, at, stroll.x, scale, k, to, x)
            if value < best.merit:
                best = Move(k, to, x, value)
        fix_feature(features, rows, stroll, k, -1.0)
    return best


@kernel
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
