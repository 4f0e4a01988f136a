"""A stronger bound: trees trade with each other before their best boxes are added up.

The plain bound lets every tree choose its best box alone. Here each tree t gets, for each feature j
that it splits on, a price λ_tj for every segment of the feature between two of its own cuts, and
what all trees are given is taken back in θ_j(c) = -Σ_t λ_tj(segment of c). The sum at any point
does not change, but the bound

    Σ_t min over boxes l of t ( v_l + Σ_j min over the box of λ_tj ) + Σ_j min_c θ_j(c)

does, and its maximum over λ is that of a linear relaxation. It is raised feature by feature: the
prices of one feature are set so that all trees on it are indifferent, and what is gained is shared
out again. A few sweeps suffice if a node begins with the prices of its parent.

All numbers are multiples of a step δ, 2^-46 of the largest sum, and stay below 2^52 δ. So all
additions are exact in whatever order they are made, and the bound is valid for the values, which
are rounded down to such multiples first. Where prices grow so large that this might fail, the bound
is not used.

=====================  ==========================================================================
``λ``, ``θ``           ``lam``, ``theta``
``pair``               a tree and a feature that it splits on
``segment``            the places of a feature between two cuts of the tree
``span``               the segments of a box in a pair, if they are not all of them
=====================  ==========================================================================

`dual_part` has the arrays, `dual_prices` the step for one feature, `dual_shrink` what is left of a
part if places are dropped, and `dual_cut` the choice of the cut to branch on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeopt.exact.dual_part import LARGE, Part
from treeopt.exact.dual_prices import Ascent, lowest_of, set_prices
from treeopt.kernels.jit import inlined, is_set, kernel

if TYPE_CHECKING:
    from treeopt.types import BoolArray, FloatArray

EXACT = 2.0**52
"""Sums below this many steps are exact."""


@kernel
def ascend(
    part: Part,
    begin: int,
    end: int,
    max_visits: int,
    cutoff: float,
    step: float,
    keep: BoolArray,
) -> tuple[float, int]:
    """Raise the bound by sweeps over the features, back and forth; return it and the next turn.

    The turns of features are numbered through all sweeps. Turns ``begin`` to ``end`` are made, or
    fewer if ``max_visits`` boxes, segments and spans were visited. Ends for good as soon as the
    bound reaches ``cutoff``. Places that no point below the cutoff can lie in are removed from
    ``keep``.
    """
    cutoff = np.ceil(cutoff / step) * step
    p = part.place_start.size - 1
    ascent = new_ascent(part)
    bound = add_worth(part, ascent.worth, ascent.best_box)
    bound = add_theta(part, ascent, bound)
    if is_set(part.stop):
        return -LARGE, begin
    size, table, best_box = ascent.size, ascent.table, ascent.best_box
    size[0] = largest_sum(part, ascent.worth, ascent.theta)
    at, visited = begin, 0
    while at < end and visited < max_visits:
        if bound >= cutoff or size[0] >= EXACT * step:
            at = end
            break
        j = at % p if (at // p) % 2 == 0 else p - 1 - at % p
        at += 1
        first, last = ascent.feature_start[j], ascent.feature_start[j + 1]
        n_places = part.place_start[j + 1] - part.place_start[j]
        if first == last or n_places < 2:
            continue
        lowest = set_prices(part, ascent, j, step)
        if is_set(part.stop):
            return -LARGE, begin
        for q in ascent.pairs[first:last]:
            t = ascent.tree_of[q]
            # The best box is worth 0 now.
            bound -= best_box[t]
            best_box[t] = 0.0
            visited += part.tree_start[t + 1] - part.tree_start[t]
            visited += part.span_start[q + 1] - part.span_start[q]
            visited += part.segment_start[q + 1] - part.segment_start[q]
        bound += lowest - ascent.best_place[j]
        ascent.best_place[j] = lowest
        room = cutoff - (bound - lowest)
        for c in range(n_places):
            if table[0, c] >= room and size[0] < EXACT * step:
                keep[part.place_start[j] + c] = False
    if max(size[0], largest_sum(part, ascent.worth, ascent.theta)) >= EXACT * step:
        # Not reliable: start again.
        for s in range(part.lam.size):
            part.lam[s] = 0.0
        return -LARGE, end
    return bound, at


@inlined
def new_ascent(part: Part) -> Ascent:
    """Return the room for an ascent, with the pairs of each feature."""
    p, n_trees, n_pairs = (
        part.place_start.size - 1,
        part.tree_start.size - 1,
        part.pair_feature.size,
    )
    feature_start = np.zeros(p + 1, np.int64)
    for q in range(n_pairs):
        feature_start[part.pair_feature[q] + 1] += 1
    widest = 1
    for j in range(p):
        feature_start[j + 1] += feature_start[j]
        widest = max(widest, part.place_start[j + 1] - part.place_start[j])
    filled = feature_start[:-1].copy()
    pairs, tree_of = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
    for t in range(n_trees):
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            j = part.pair_feature[q]
            tree_of[q] = t
            pairs[filled[j]] = q
            filled[j] += 1
    n_rows = 3
    while 1 << n_rows <= 8 * widest:
        n_rows += 1
    return Ascent(
        feature_start,
        pairs,
        tree_of,
        np.empty(part.value.size),
        np.zeros(part.place_start[p]),
        np.zeros(n_trees),
        np.zeros(p),
        np.zeros(1),
        np.empty(part.lam.size),
        np.empty(part.lam.size),
        np.empty(part.box.size),
        np.zeros(widest),
        np.empty((n_rows, widest)),
    )


@inlined
def add_worth(part: Part, worth: FloatArray, best_box: FloatArray) -> float:
    """Write the worths of all boxes; return the sum of each tree's lowest."""
    lam, box, from_, to = part.lam, part.box, part.from_, part.to
    bound = 0.0
    for t in range(part.tree_start.size - 1):
        a, z = part.tree_start[t], part.tree_start[t + 1]
        for i in range(a, z):
            worth[i] = part.value[i]
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            lowest = lowest_of(lam, part.segment_start[q], part.segment_start[q + 1])
            if is_set(part.stop):
                return -LARGE
            for i in range(a, z):
                worth[i] += lowest
            for i in range(part.span_start[q], part.span_start[q + 1]):
                if is_set(part.stop):
                    return -LARGE
                worth[box[i]] += lowest_of(lam, from_[i], to[i] + 1) - lowest
        best_box[t] = lowest_of(worth, a, z)
        bound += best_box[t]
    return bound


@inlined
def add_theta(part: Part, ascent: Ascent, bound: float) -> float:
    """Write θ of all places; return the bound plus the lowest of each feature."""
    theta, place_start, first, lam = ascent.theta, part.place_start, part.first, part.lam
    for j in range(place_start.size - 1):
        for k in range(ascent.feature_start[j], ascent.feature_start[j + 1]):
            q = ascent.pairs[k]
            before = 0.0
            for s in range(part.segment_start[q], part.segment_start[q + 1]):
                theta[place_start[j] + first[s]] -= lam[s] - before
                before = lam[s]
        total = 0.0
        for c in range(place_start[j], place_start[j + 1]):
            total += theta[c]
            theta[c] = total
        if place_start[j] < place_start[j + 1]:
            ascent.best_place[j] = lowest_of(theta, place_start[j], place_start[j + 1])
            bound += ascent.best_place[j]
    return bound


@kernel
def largest_sum(part: Part, worth: FloatArray, theta: FloatArray) -> float:
    """Return the maximum that any sum of the boxes' worths and of θ can come to."""
    total = 0.0
    for t in range(part.tree_start.size - 1):
        largest = 0.0
        for i in range(part.tree_start[t], part.tree_start[t + 1]):
            largest = max(largest, abs(worth[i]))
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            for s in range(part.segment_start[q], part.segment_start[q + 1]):
                largest = max(largest, abs(part.lam[s]))
        total += largest
    for j in range(part.place_start.size - 1):
        largest = 0.0
        for c in range(part.place_start[j], part.place_start[j + 1]):
            largest = max(largest, abs(theta[c]))
        total += largest
    return 2.0 * total
