"""Bounds on a box of places: costs of features, parts of the objective, limits.

All bounds are lower bounds on what a user computes, with rounding errors on the safe side.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from treeopt.exact.general.statement import SOFTMAX
from treeopt.kernels.jit import lean
from treeopt.kernels.link_functions import EXP, LOGISTIC, SOFTPLUS, SQUARE

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Features
    from treeopt.types import Array, FloatArray, Int32Array

UNIT = 2.0**-50
"""Relative rounding error of a cost, with room to spare."""

TAIL = 1e-36
"""Absolute error of a logistic function in single precision, far from 0."""

MAX_HALVINGS = 60
"""Steps of a bisection."""


@lean
def sum_error(size: float, n: int) -> float:
    """Return the maximum rounding error of a sum of ``n`` terms with absolute values ``size``."""
    return (n + 8) * 2.0**-53 * size


@lean
def cost_at(features: Features, k: int, x: float) -> float:
    """Return the cost of feature ``k`` at a number; not for categories."""
    cost = features.feature[k].slope * x
    for i in range(features.feature[k].kink_start, features.feature[k].kink_end):
        cost += features.kink[i].weight * abs(x - features.kink[i].at)
        if x != features.kink[i].at:
            cost += features.kink[i].fee
    return cost


@lean
def safe_cost(features: Features, k: int, x: float, tilt: float) -> float:
    """Return a lower bound on the cost at a number plus ``tilt * x``."""
    own = features.feature[k]
    cost, size = (own.slope + tilt) * x, (own.size + abs(tilt)) * abs(x)
    for i in range(features.feature[k].kink_start, features.feature[k].kink_end):
        weight, at = features.kink[i].weight, features.kink[i].at
        cost += weight * abs(x - at)
        size += abs(weight) * (abs(x) + abs(at))
        if x != at:
            cost += features.kink[i].fee
            size += abs(features.kink[i].fee)
    return cost - UNIT * size


@lean
def first_reaching(features: Features, k: int, x: float, first: int, last: int) -> int:
    """Return the first of some ascending places whose numbers reach ``x``, or the last place."""
    origin, low, high = features.feature[k].place_start, first, last
    while low < high:
        middle = (low + high) // 2
        if features.place[origin + middle].high < x:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def place_of(features: Features, k: int, x: float, first: int, last: int) -> int:
    """Return the place of a number within a range of places; -1 if it is not admissible."""
    origin = features.feature[k].place_start
    if features.feature[k].ordered:
        c = first_reaching(features, k, x, first, last)
        inside = features.place[origin + c].low <= x <= features.place[origin + c].high
        return c if inside else -1
    for c in range(first, last + 1):
        if features.place[origin + c].low <= x <= features.place[origin + c].high:
            return c
    return -1


@lean
def lowest_cost(
    features: Features, k: int, first: int, last: int, tilt: float
) -> tuple[float, float, int]:
    """Return the minimum of cost plus ``tilt * x`` over places, where it is, and its place.

    If all numbers cost the same, the number nearest to 0 is taken.
    """
    origin = features.feature[k].place_start
    best, at, place = np.inf, 0.0, first
    if features.feature[k].has_table:
        for c in range(first, last + 1):
            if features.place[origin + c].table < best:
                best, place = features.place[origin + c].table, c
        return best - UNIT * abs(best), features.place[origin + place].low, place
    if features.feature[k].ordered:
        low, high = features.place[origin + first].low, features.place[origin + last].high
        if not features.feature[k].is_priced and tilt == 0.0 and low < 0.0 < high:
            place = place_of(features, k, 0.0, first, last)
            if place >= 0:
                return 0.0, 0.0, place
        best, at, place = safe_cost(features, k, low, tilt), low, first
        value = safe_cost(features, k, high, tilt)
        if value < best or (value == best and abs(high) < abs(low)):
            best, at, place = value, high, last
    else:
        for c in range(first, last + 1):
            for x in (features.place[origin + c].low, features.place[origin + c].high):
                value = safe_cost(features, k, x, tilt)
                if value < best:
                    best, at, place = value, x, c
    for i in range(features.feature[k].stop_start, features.feature[k].stop_end):
        if first <= features.stop[i].place <= last:
            value = safe_cost(features, k, features.stop[i].at, tilt)
            if value < best:
                best, at, place = value, features.stop[i].at, features.stop[i].place
    return best, at, place


@lean
def ends(features: Features, k: int, first: int, last: int) -> tuple[float, float]:
    """Return the minimum and maximum number of a range of places."""
    origin = features.feature[k].place_start
    if features.feature[k].ordered:
        return features.place[origin + first].low, features.place[origin + last].high
    low, high = np.inf, -np.inf
    for c in range(first, last + 1):
        low = min(low, features.place[origin + c].low)
        high = max(high, features.place[origin + c].high)
    return low, high


@lean
def linked(link: int, slope: float, complement: bool, total: float) -> float:
    """Return the prediction for a margin, in float64."""
    value = total
    if link == EXP:
        value = math.exp(total) if total < 709.78 else np.inf
    elif link == LOGISTIC:
        x = -slope * total
        value = 1.0 / (1.0 + math.exp(x)) if x < 700.0 else 0.0
    elif link == SQUARE:
        value = math.copysign(total * total, total)
    elif link == SOFTPLUS:
        value = math.log1p(math.exp(total)) if total < 700.0 else total
    return 1.0 - value if complement else value


@lean
def one_sided(parts: Array, i: int, sums: FloatArray, begin: int, n: int, sign: float) -> float:
    """Return the prediction of a part from sums that are listed with a sign."""
    if parts[i].kind != SOFTMAX:
        return linked(parts[i].link, parts[i].slope, parts[i].complement, sign * sums[begin])
    own, total = sign * sums[begin], 1.0
    for k in range(begin + 1, begin + n):
        difference = -sign * sums[k] - own
        total += math.exp(min(difference, 700.0))
    return 1.0 / total


@lean
def times(factor: float, prediction: float) -> float:
    """Return a product; 0 if the factor is 0, whatever the prediction."""
    return 0.0 if factor == 0.0 else factor * prediction


@lean
def part_value(parts: Array, i: int, sums: FloatArray, low: float, high: float) -> float:
    """Return a lower bound on a part, given lower bounds of its sums.

    For a product, ``low`` and ``high`` are the bounds of its feature.
    """
    begin, n = parts[i].start, parts[i].n_sums
    weight, error = parts[i].weight, parts[i].error
    is_unit = parts[i].kind == SOFTMAX or parts[i].link == LOGISTIC
    if not parts[i].is_product:
        value = one_sided(parts, i, sums, begin, n, parts[i].sign)
        if abs(value) > parts[i].largest:  # the model may return an infinity, but need not
            return -np.inf if weight * value < 0.0 else abs(weight) * parts[i].largest
        if parts[i].link == 0 and parts[i].kind != SOFTMAX:
            return weight * value
        size = abs(value)
        if parts[i].complement:
            size = max(size, 1.0)
        value = weight * value - abs(weight) * (error * size + TAIL)
        return value
    half = n // 2
    least = one_sided(parts, i, sums, begin, half, parts[i].sign)
    most = one_sided(parts, i, sums, begin + half, half, -parts[i].sign)
    margin = error * max(abs(least), abs(most), 1.0 if is_unit else 0.0) + TAIL
    if parts[i].link == 0 and parts[i].kind != SOFTMAX:
        margin = 0.0
    least, most = least - margin, most + margin
    least = parts[i].largest if least > parts[i].largest else least
    most = np.inf if most > parts[i].largest else most
    a, b = low - parts[i].minus, high - parts[i].minus
    if parts[i].minus != 0.0:
        slip = UNIT * (max(abs(low), abs(high)) + abs(parts[i].minus))
        a, b = a - slip, b + slip
    lowest = min(
        min(times(weight * a, least), times(weight * a, most)),
        min(times(weight * b, least), times(weight * b, most)),
    )
    return lowest - UNIT * abs(lowest)


@lean
def slack_of(
    parts: Array,
    i: int,
    sums: FloatArray,
    k: int,
    low: float,
    high: float,
    allowance: float,
) -> float:
    """Return by how much sum ``k`` of part ``i`` may grow before the part reaches an allowance.

    A larger number than the exact one may be returned, but not a smaller one.
    """
    if parts[i].link == 0 and parts[i].kind != SOFTMAX and not parts[i].is_product:
        return (allowance - sums[k]) * (1.0 + UNIT) + UNIT * abs(allowance)
    before = sums[k]
    step = 1.0 + UNIT * abs(before)
    for _ in range(200):
        sums[k] = before + step
        if part_value(parts, i, sums, low, high) >= allowance:
            break
        step *= 2.0
    else:
        sums[k] = before
        return np.inf
    lower, upper = 0.0, step
    for _ in range(MAX_HALVINGS):
        middle = 0.5 * (lower + upper)
        sums[k] = before + middle
        if part_value(parts, i, sums, low, high) >= allowance:
            upper = middle
        else:
            lower = middle
        if upper - lower <= 1e-6 * upper:
            break
    sums[k] = before
    return upper


@lean
def part_ends(features: Features, parts: Array, i: int, box: Int32Array) -> tuple[float, float]:
    """Return the bounds of the feature that a part is multiplied by."""
    k = parts[i].feature
    if k < 0:
        return 0.0, 0.0
    return ends(features, k, box[k], box[box.size // 2 + k])
