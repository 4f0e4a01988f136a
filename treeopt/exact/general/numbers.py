"""The best number of a feature in some places, for a descent.

What counts is the cost of the number plus the penalties of the rows that the feature is in. Unless
there are fees or discounts, this sum is convex. Its minimum over all numbers, the *valley*, is then
found once, and the best number of a place is the one nearest to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.exact.general.bounds import cost_at, ends, first_reaching, lowest_cost
from treeopt.exact.general.statement import OPEN
from treeopt.kernels.jit import lean

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Features, Rows
    from treeopt.exact.general.stroll import Stroll
    from treeopt.types import FloatArray

FACTOR, LOW, HIGH, LEAST, MOST, WEIGHT = range(6)
"""Columns of `Axis.rows`: the coefficient; the limits of the row; its minimum and maximum with the
feature at its present number; the penalty per unit of violation."""


class Axis(NamedTuple):
    """A feature of a descent, with all others at their places.

    Its rows are copied to one table, because a kernel that passes many arrays to a small function
    spends its time on passing them.

    Attributes
    ----------
    x : float
        The present number.
    merit : float
        Its cost plus the penalties of its rows.
    slope : float
        Cost per unit, without kinks.
    has_kinks, has_table, is_integer : bool
        Whether the cost has kinks, whether it is a table by places, and whether numbers must be
        integers.
    rows : float64 array ``[row, column]``
        Its rows, see `FACTOR`.
    """

    x: float
    merit: float
    slope: float
    has_kinks: bool
    has_table: bool
    is_integer: bool
    rows: FloatArray


@lean
def find_axis(features: Features, rows: Rows, stroll: Stroll, k: int, penalty: float) -> Axis:
    """Return the axis of a feature; its table is in the room of the stroll."""
    own, x = features.feature[k], stroll.x[k]
    n, table = own.row_end - own.row_start, stroll.rows
    merit = 0.0
    if own.has_table:
        merit = features.place[own.place_start + stroll.walk.at[k]].table
    elif own.is_priced:
        merit = cost_at(features, k, x)
    for i in range(n):
        r, factor = rows.of[own.row_start + i].row, rows.of[own.row_start + i].factor
        one, other = factor * stroll.low[k], factor * stroll.high[k]
        least, most = stroll.row_low[r], stroll.row_high[r]
        table[i, FACTOR], table[i, LOW], table[i, HIGH] = factor, rows.row[r].low, rows.row[r].high
        table[i, LEAST] = least + (factor * x - min(one, other))
        table[i, MOST] = most + (factor * x - max(one, other))
        table[i, WEIGHT] = penalty / stroll.row_scale[r]
        merit += table[i, WEIGHT] * max(table[i, LOW] - most, least - table[i, HIGH], 0.0)
    has_kinks = own.kink_start < own.kink_end
    return Axis(x, merit, own.slope, has_kinks, own.has_table, own.is_integer, table[:n])


@lean
def number_merit(features: Features, k: int, axis: Axis, x: float) -> float:
    """Return the cost of a number, unless it is a category, plus the penalties of the rows."""
    total, rows, step = axis.slope * x, axis.rows, x - axis.x
    if axis.has_kinks:
        total = cost_at(features, k, x)
    for i in range(rows.shape[0]):
        rise = rows[i, FACTOR] * step
        over = max(rows[i, LOW] - rows[i, MOST] - rise, rows[i, LEAST] + rise - rows[i, HIGH])
        if over > 0.0:
            total += rows[i, WEIGHT] * over
    return total


@lean
def where_row_holds(axis: Axis, i: int, side: int) -> float:
    """Return the number at which a row reaches its lower (0) or upper limit."""
    # Rows that hold between two limits need one end of their interval at each.
    missing = axis.rows[i, LOW] - axis.rows[i, MOST]
    if side == 1:
        missing = axis.rows[i, HIGH] - axis.rows[i, LEAST]
    return axis.x + missing / axis.rows[i, FACTOR]


class Valley(NamedTuple):
    """Where the cost of a feature plus penalties is lowest.

    Attributes
    ----------
    is_known : bool
        Whether the sum is convex, and the interval known.
    low, high : float
        The interval in which the sum is lowest.
    least : float
        The sum there; if it is not known, the lowest cost.
    """

    is_known: bool
    low: float
    high: float
    least: float


@lean
def find_valley(features: Features, k: int, axis: Axis, last: int, corners: FloatArray) -> Valley:
    """Return the valley of a feature with places up to ``last``."""
    own, n_rows = features.feature[k], axis.rows.shape[0]
    if not own.is_priced and n_rows == 0:
        return Valley(True, -np.inf, np.inf, 0.0)
    is_convex = not own.has_table
    for i in range(own.kink_start, own.kink_end):
        is_convex &= features.kink[i].fee == 0.0 and features.kink[i].weight >= 0.0
    first, final = ends(features, k, 0, last)
    if not is_convex or (own.is_priced and max(abs(first), abs(final)) > OPEN):
        least = lowest_cost(features, k, 0, last, 0.0)[0] if own.is_priced else 0.0
        return Valley(False, 0.0, 0.0, least)
    n_kinks = own.kink_end - own.kink_start
    corner = corners[: 2 + n_kinks + 2 * n_rows]
    corner[0], corner[1] = first, final
    for i in range(n_kinks):
        corner[2 + i] = features.kink[own.kink_start + i].at
    for i in range(n_rows):
        for s in range(2):
            corner[2 + n_kinks + 2 * i + s] = where_row_holds(axis, i, s)
    least, low, high = np.inf, np.inf, -np.inf
    for x in corner:
        at = min(max(x, first), final)
        if abs(at) > OPEN:
            continue
        merit = number_merit(features, k, axis, at)
        if merit < least - 1e-13 * abs(least):
            low, high = at, at
        elif merit <= least + 1e-13 * abs(least):
            low, high = min(low, at), max(high, at)
        least = min(least, merit)
    return Valley(low <= high, low, high, least if low <= high else 0.0)


@lean
def best_number(
    features: Features, k: int, axis: Axis, valley: Valley, first: int, last: int
) -> tuple[int, float, float]:
    """Return the best number of a range of places: its place, itself, its merit.

    See `number_merit`. A range of several places must ascend.
    """
    origin = features.feature[k].place_start
    low, high = features.place[origin + first].low, features.place[origin + last].high
    if axis.has_table:
        return first, low, features.place[origin + first].table
    if valley.is_known:
        best, merit = nearest_number(features, k, axis, valley, low, high)
    else:
        best, merit = tried_number(features, k, axis, first, last)
    if first == last:
        return first, best, merit
    place = first_reaching(features, k, best, first, last)
    if features.place[origin + place].low <= best:
        return place, best, merit
    # The number lies between two places. Take the better one of their ends.
    best, x = features.place[origin + place].low, features.place[origin + place - 1].high
    merit, value = number_merit(features, k, axis, best), number_merit(features, k, axis, x)
    return (place - 1, x, value) if value < merit else (place, best, merit)


@lean
def nearest_number(
    features: Features, k: int, axis: Axis, valley: Valley, low: float, high: float
) -> tuple[float, float]:
    """Return the number between two ends that is nearest to the valley, and its merit."""
    x = min(max(min(max(axis.x, valley.low), valley.high), low), high)
    if axis.is_integer and x != np.floor(x):
        one, other = np.floor(x), np.ceil(x)
        value, merit = number_merit(features, k, axis, one), number_merit(features, k, axis, other)
        return (one, value) if value < merit else (other, merit)
    if valley.low <= x <= valley.high:
        return x, valley.least
    return x, number_merit(features, k, axis, x)


@lean
def tried_number(
    features: Features, k: int, axis: Axis, first: int, last: int
) -> tuple[float, float]:
    """Return the best of a few numbers, and its merit.

    They are the number nearest to the present one, the cheapest, and those at which a row reaches
    a limit.
    """
    own, origin = features.feature[k], features.feature[k].place_start
    low, high = features.place[origin + first].low, features.place[origin + last].high
    best = min(max(axis.x, low), high)
    merit = number_merit(features, k, axis, best)
    if low == high:
        return best, merit
    if own.is_priced:
        x = lowest_cost(features, k, first, last, 0.0)[1]
        value = number_merit(features, k, axis, x)
        if value < merit:
            best, merit = x, value
    for i in range(axis.rows.shape[0]):
        for s in range(2):
            x = where_row_holds(axis, i, s)
            if np.isinf(x):
                continue
            if axis.is_integer:
                x = np.floor(x) if (s == 1) == (axis.rows[i, FACTOR] > 0) else np.ceil(x)
            x = min(max(x, low), high)
            if x != best:
                value = number_merit(features, k, axis, x)
                if value < merit:
                    best, merit = x, value
    return best, merit
