"""Multipliers of rows: bounds on costs by weak duality, and proofs that rows contradict each other.

The cost of a box plus the multipliers times what the rows miss is a lower bound, whatever the
multipliers are. It is separable: each feature is minimized alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeopt.exact.general.bounds import lowest_cost, sum_error
from treeopt.exact.general.statement import OPEN
from treeopt.kernels.jit import lean

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Features, Rows
    from treeopt.types import Array, FloatArray, Int32Array


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
    return total - sum_error(size, p + y.size)


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
        if total > sum_error(size, now.size + rows.row.size) and total > 0.0:
            return True
    return False
