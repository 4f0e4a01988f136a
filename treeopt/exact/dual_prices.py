"""Set the prices of one feature so that all trees on it are indifferent.

`set_prices` is the step that raises the dual bound, see `dual`. It first takes the marginals: what
each segment would cost its tree if the point had to lie there. Added up with θ they give, for each
place, what the feature costs in total; what a place costs above the cheapest one is to spare. Each
tree gets an equal share of what its segments have to spare at least, and then as much more, in
proportion, as is not given away yet. The new prices make its marginals equal to these shares, and
the rest goes back to θ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.exact.dual_part import LARGE, Part
from treeopt.kernels.jit import inlined, is_set, kernel

if TYPE_CHECKING:
    from treeopt.types import FloatArray, Index, IntArray


class Ascent(NamedTuple):
    """The bound of a part while it is raised.

    Attributes
    ----------
    feature_start, pairs, tree_of : int64 arrays
        The pairs of each feature, and the tree of each pair.
    worth : float64 array
        The value of each box plus the lowest prices within it.
    theta : float64 array
        θ of each place.
    best_box, best_place : float64 arrays
        The lowest worth of each tree's boxes, and the lowest θ of each feature.
    size : float64 array
        One number: the largest that any sum was so far.
    marginal, share, rest, events, table : float64 arrays
        Room: per segment, per segment, per span, per place of a feature, and rows of these for
        minima over 1, 2, 4, ... places.
    """

    feature_start: IntArray
    pairs: IntArray
    tree_of: IntArray
    worth: FloatArray
    theta: FloatArray
    best_box: FloatArray
    best_place: FloatArray
    size: FloatArray
    marginal: FloatArray
    share: FloatArray
    rest: FloatArray
    events: FloatArray
    table: FloatArray


@kernel
def lowest_of(x: FloatArray, a: int, b: int) -> float:
    """Return the minimum of ``x[a:b]``."""
    lowest = LARGE
    for i in range(a, b):
        lowest = min(lowest, x[i])
    return lowest


@kernel
def fill_minima(table: FloatArray, row: Index, n: int) -> None:
    """Fill the rows below ``row`` with minima over 2, 4, 8, ... neighbors of that row."""
    half = 1
    while 2 * half <= n:
        for c in range(n - 2 * half + 1):
            table[row + 1, c] = min(table[row, c], table[row, c + half])
        row += 1
        half *= 2


@kernel
def lowest_between(table: FloatArray, row: Index, a: int, b: int) -> float:
    """Return the minimum of ``table[row, a:b]`` by the rows below it."""
    half = 1
    while 2 * half <= b - a:
        row += 1
        half *= 2
    lowest: float = min(table[row, a], table[row, b - half])
    return lowest


@kernel
def set_prices(part: Part, ascent: Ascent, j: int, step: float) -> float:
    """Set the prices of feature ``j`` anew; return the lowest of its new θ.

    The sum of the trees' marginals and θ, for each place, is left in ``table[0]``. Afterwards the
    best box of each tree on the feature is worth 0.
    """
    pairs = ascent.pairs[ascent.feature_start[j] : ascent.feature_start[j + 1]]
    n = part.place_start[j + 1] - part.place_start[j]
    for c in range(n):
        ascent.events[c] = 0.0
    sum_of_largest = take_marginals(part, ascent, pairs)
    if is_set(part.stop):
        return LARGE
    origin = part.place_start[j]
    lowest: float = add_up(ascent, origin, n, sum_of_largest)
    share_equally(part, ascent, pairs, n, lowest, step)
    share_rest(part, ascent, pairs, n, lowest, step)
    pay_shares(part, ascent, pairs)
    if is_set(part.stop):
        return LARGE
    lowest = new_theta(ascent, origin, n)
    return lowest


@inlined
def take_marginals(part: Part, ascent: Ascent, pairs: IntArray) -> float:
    """Write what each segment would cost its tree, if the point had to lie there.

    Adds the marginals to the events, as differences. Takes the feature out of the boxes' worths: of
    boxes with a span they go to ``rest``. Returns the sum of each tree's largest marginal.
    """
    lam, box, from_, to = part.lam, part.box, part.from_, part.to
    marginal, worth, rest, events = ascent.marginal, ascent.worth, ascent.rest, ascent.events
    sum_of_largest = 0.0
    for q in pairs:
        t = ascent.tree_of[q]
        a, z = part.segment_start[q], part.segment_start[q + 1]
        lowest = lowest_of(lam, a, z)
        for s in range(a, z):
            marginal[s] = LARGE
        for i in range(part.span_start[q], part.span_start[q + 1]):
            if is_set(part.stop):
                return LARGE
            rest[i] = worth[box[i]] - lowest_of(lam, from_[i], to[i] + 1)
            worth[box[i]] = LARGE
            for s in range(from_[i], to[i] + 1):
                marginal[s] = min(marginal[s], rest[i])
        everywhere = lowest_of(worth, part.tree_start[t], part.tree_start[t + 1])
        if everywhere < LARGE:
            everywhere -= lowest
        before, largest = 0.0, 0.0
        for s in range(a, z):
            marginal[s] = min(marginal[s], everywhere) + lam[s]
            largest = max(largest, abs(marginal[s]))
            events[part.first[s]] += marginal[s] - before
            before = marginal[s]
        sum_of_largest += largest
    return sum_of_largest


@inlined
def add_up(ascent: Ascent, origin: int, n: int, sum_of_largest: float) -> float:
    """Write the sum of all marginals and θ for each place into ``table[0]``; return the lowest."""
    theta, events, table = ascent.theta, ascent.events, ascent.table
    lowest = LARGE
    total, largest = 0.0, 0.0
    for c in range(n):
        largest = max(largest, abs(theta[origin + c]))
        total += events[c]
        table[0, c] = theta[origin + c] + total
        lowest = min(lowest, table[0, c])
        events[c] = 0.0
    ascent.size[0] = max(ascent.size[0], 2.0 * (sum_of_largest + largest))
    return lowest


@inlined
def share_equally(
    part: Part, ascent: Ascent, pairs: IntArray, n: int, lowest: float, step: float
) -> None:
    """Give each tree an equal share of what its segments have to spare at least."""
    share, events, table = ascent.share, ascent.events, ascent.table
    row = np.int64(0)
    fill_minima(table, row, n)
    part_of = 1.0 / pairs.size
    for q in pairs:
        before = 0.0
        for s in range(part.segment_start[q], part.segment_start[q + 1]):
            spare = lowest_between(table, row, part.first[s], part.end[s]) - lowest
            share[s] = np.floor(spare * part_of / step) * step
            events[part.first[s]] += share[s] - before
            before = share[s]


@inlined
def share_rest(
    part: Part, ascent: Ascent, pairs: IntArray, n: int, lowest: float, step: float
) -> None:
    """Raise the shares in proportion where not all is given away."""
    share, events, table = ascent.share, ascent.events, ascent.table
    total = 0.0
    for c in range(n):
        total += events[c]
        table[1, c] = (table[0, c] - lowest) / total if total > 0.0 else LARGE
        events[c] = 0.0
    row = np.int64(1)
    fill_minima(table, row, n)
    for q in pairs:
        before = 0.0
        for s in range(part.segment_start[q], part.segment_start[q + 1]):
            if share[s] > 0.0:
                factor = lowest_between(table, row, part.first[s], part.end[s]) * (1.0 - 1e-12)
                share[s] = np.floor(share[s] * factor / step) * step
            events[part.first[s]] += share[s] - before
            before = share[s]


@inlined
def pay_shares(part: Part, ascent: Ascent, pairs: IntArray) -> None:
    """Set the prices so that marginals become shares, and bring the boxes' worths up to date."""
    lam, box, from_, to = part.lam, part.box, part.from_, part.to
    share, marginal, worth, rest = ascent.share, ascent.marginal, ascent.worth, ascent.rest
    for q in pairs:
        t = ascent.tree_of[q]
        a, z = part.segment_start[q], part.segment_start[q + 1]
        lowest = lowest_of(lam, a, z)
        for s in range(a, z):
            lam[s] += share[s] - marginal[s]
        change = lowest_of(lam, a, z) - lowest
        for i in range(part.tree_start[t], part.tree_start[t + 1]):
            worth[i] += change
        for i in range(part.span_start[q], part.span_start[q + 1]):
            if is_set(part.stop):
                return
            worth[box[i]] = rest[i] + lowest_of(lam, from_[i], to[i] + 1)


@inlined
def new_theta(ascent: Ascent, origin: int, n: int) -> float:
    """Set θ to what is not given away; return the lowest."""
    theta, events, table = ascent.theta, ascent.events, ascent.table
    lowest = LARGE
    total = 0.0
    for c in range(n):
        total += events[c]
        theta[origin + c] = table[0, c] - total
        lowest = min(lowest, theta[origin + c])
    return lowest
