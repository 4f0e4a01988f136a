"""A stronger bound: trees trade among each other before their best boxes are added up.

The plain bound lets every tree choose its best box alone. Here each tree t gets, for each feature j
that it splits on, a price λ_tj for every segment of the feature between two of its own cuts, and
what all trees are given is taken back in θ_j(c) = -Σ_t λ_tj(segment of c). Nothing changes at any
point, but the bound

    Σ_t min over boxes l of t ( v_l + Σ_j min over the box of λ_tj ) + Σ_j min_c θ_j(c)

does, and its maximum over λ is that of a linear relaxation. It is raised feature by feature: the
prices of one feature are set so that all trees on it are indifferent, and what is gained is shared
out again. A few sweeps suffice, if a node begins with the prices of its parent.

Everything is a multiple of a step δ, 2^-46 of the largest sum, and stays below 2^52 δ: so all
additions are exact in whatever order they are made, and the bound is true of the values, which are
rounded down to such multiples first. Where prices grow so large that this might fail, the bound is
not used.

=====================  ==========================================================================
``λ``, ``θ``           ``lam``, ``theta``
``pair``               a tree and a feature that it splits on
``segment``            the places of a feature between two cuts of the tree
``limit``              a box that does not span the whole feature, in a pair
=====================  ==========================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.kernels.jit import is_set, kernel

if TYPE_CHECKING:
    from treeopt.types import Array

LARGE = 1e300
"""More than any sum."""

AT_ONCE = 2**16
"""Numbers that are copied between two looks at the flag that ends the search."""

EXACT = 2.0**52
"""So many steps are the most that sums may come to."""


class Part(NamedTuple):
    """What is left of the problem at a node: boxes, segments and prices, without the rest.

    Attributes
    ----------
    place_start : places of each feature, numbered through
    place : the number, in the whole grid, of the first place that each of them stands for
    value, tree_start : the boxes of each tree
    pair_start, pair_feature : the pairs of each tree, and their features
    segment_start, first, end : the segments of each pair, and their places within the feature
    lam : the price of each segment
    limit_start, box, from_, to : the limits of each pair: the box, its first and last segment
    stop : not 0 if the search has to end, see `leaves`
    """

    place_start: Array
    place: Array
    value: Array
    tree_start: Array
    pair_start: Array
    pair_feature: Array
    segment_start: Array
    first: Array
    end: Array
    lam: Array
    limit_start: Array
    box: Array
    from_: Array
    to: Array
    stop: Array = np.zeros(1, np.int64)


@kernel
def first_of(x: Any, n: Any, stop: Any) -> Any:
    """Return a copy of the first ``n`` numbers of an array, which may be very many."""
    copied = np.empty(n, x.dtype)
    for a in range(0, n, AT_ONCE):
        if is_set(stop):
            break
        for i in range(a, min(a + AT_ONCE, n)):
            copied[i] = x[i]
    return copied


@kernel
def zeros(n: Any, stop: Any) -> Any:
    """Return ``n`` zeros, which may be very many."""
    made = np.empty(n)
    for a in range(0, n, AT_ONCE):
        if is_set(stop):
            break
        for i in range(a, min(a + AT_ONCE, n)):
            made[i] = 0.0
    return made


@kernel
def whole_part(leaves: Any, step: Any) -> Any:
    """Return the whole problem, with prices of zero and values rounded down to steps."""
    start, n_trees, p = leaves.start, leaves.start.size - 1, leaves.low.shape[0]
    widest = 1
    for j in range(p):
        widest = max(widest, leaves.place_start[j + 1] - leaves.place_start[j])
    mark = np.zeros(widest + 1, np.int64)
    segment = np.zeros(widest + 1, np.int64)
    room = 0
    for j in range(p):
        if is_set(leaves.stop):
            break
        size = leaves.place_start[j + 1] - leaves.place_start[j]
        for i in range(leaves.value.size):
            if leaves.low[j, i] > 0 or leaves.high[j, i] < size - 1:
                room += 1
    pair_start = np.zeros(n_trees + 1, np.int32)
    pair_feature = np.zeros(n_trees * p, np.int32)
    segment_start = np.zeros(n_trees * p + 1, np.int32)
    limit_start = np.zeros(n_trees * p + 1, np.int32)
    # These may be large: to fill them at once would take long.
    first = np.empty(2 * room + n_trees * p, np.int32)
    end = np.empty(2 * room + n_trees * p, np.int32)
    box = np.empty(room, np.int32)
    from_ = np.empty(room, np.int32)
    to = np.empty(room, np.int32)
    n_pairs, n_segments, n_limits, stamp = 0, 0, 0, 0
    for t in range(n_trees):
        for j in range(p):
            if is_set(leaves.stop):
                break
            size = leaves.place_start[j + 1] - leaves.place_start[j]
            stamp += 1
            any_cut = False
            for i in range(start[t], start[t + 1]):
                a, b = leaves.low[j, i], leaves.high[j, i] + 1
                mark[a] = mark[b] = stamp
                any_cut = any_cut or a > 0 or b < size
            if not any_cut:
                continue
            first[n_segments] = 0
            for c in range(size):
                if c > 0 and mark[c] == stamp:
                    end[n_segments] = c
                    n_segments += 1
                    first[n_segments] = c
                segment[c] = n_segments
            end[n_segments] = size
            n_segments += 1
            for i in range(start[t], start[t + 1]):
                a, b = leaves.low[j, i], leaves.high[j, i]
                if a > 0 or b < size - 1:
                    box[n_limits] = i
                    from_[n_limits], to[n_limits] = segment[a], segment[b]
                    n_limits += 1
            pair_feature[n_pairs] = j
            n_pairs += 1
            segment_start[n_pairs] = n_segments
            limit_start[n_pairs] = n_limits
        pair_start[t + 1] = n_pairs
    value = np.empty(leaves.value.size)
    for a in range(0, value.size, AT_ONCE):
        if is_set(leaves.stop):
            break
        for i in range(a, min(a + AT_ONCE, value.size)):
            value[i] = np.floor(leaves.value[i] / step) * step
    return Part(
        leaves.place_start.astype(np.int32),
        np.arange(leaves.place_start[-1]).astype(np.int32),
        value,
        start.astype(np.int32),
        pair_start,
        pair_feature[:n_pairs].copy(),
        segment_start[: n_pairs + 1].copy(),
        first_of(first, n_segments, leaves.stop),
        first_of(end, n_segments, leaves.stop),
        zeros(n_segments, leaves.stop),
        limit_start[: n_pairs + 1].copy(),
        box,
        from_,
        to,
        leaves.stop,
    )


@kernel
def shrink(part: Any, keep: Any) -> Any:
    """Return what is left of a part if only some places are kept, and the sum of what is settled.

    Boxes that hold no place are dropped; segments that no box tells apart are joined, at the lower
    price; trees with one box are settled, and so are pairs with one segment. If some tree has no
    box left the sum is `LARGE`.
    """
    p, n_trees = part.place_start.size - 1, part.tree_start.size - 1
    n_boxes, n_pairs, n_segments = part.value.size, part.pair_feature.size, part.lam.size
    first, end, lam = part.first, part.end, part.lam
    kept = np.zeros(keep.size + 1, np.int32)
    for c in range(keep.size):
        kept[c + 1] = kept[c] + (1 if keep[c] else 0)
    some = np.empty(n_segments, np.bool_)
    up_to = np.empty(n_segments + 1, np.int32)
    up_to[0] = 0
    for q in range(n_pairs):
        if is_set(part.stop):
            return LARGE, part
        origin = part.place_start[part.pair_feature[q]]
        for s in range(part.segment_start[q], part.segment_start[q + 1]):
            some[s] = kept[origin + end[s]] > kept[origin + first[s]]
            up_to[s + 1] = up_to[s] + (1 if some[s] else 0)
    alive = np.ones(n_boxes, np.bool_)
    for i in range(part.box.size):
        if up_to[part.to[i] + 1] == up_to[part.from_[i]]:
            alive[part.box[i]] = False
    settled = 0.0
    new_value = np.empty(n_boxes)
    new_box = np.full(n_boxes, -1, np.int32)
    new_tree_start = np.zeros(n_trees + 1, np.int32)
    stays = np.zeros(n_trees, np.bool_)
    n, n_new_trees = 0, 0
    for t in range(n_trees):
        count, last = 0, 0
        for i in range(part.tree_start[t], part.tree_start[t + 1]):
            if alive[i]:
                count += 1
                last = i
        if count == 0 or is_set(part.stop):
            settled = LARGE
            break
        if count == 1:
            settled += part.value[last]
            continue
        stays[t] = True
        for i in range(part.tree_start[t], part.tree_start[t + 1]):
            if alive[i]:
                new_box[i] = n
                new_value[n] = part.value[i]
                n += 1
        n_new_trees += 1
        new_tree_start[n_new_trees] = n
    pair_start = np.zeros(n_new_trees + 1, np.int32)
    pair_feature = np.zeros(n_pairs, np.int32)
    segment_start = np.zeros(n_pairs + 1, np.int32)
    new_first, new_end = np.empty(n_segments, np.int32), np.empty(n_segments, np.int32)
    new_lam = np.empty(n_segments)
    limit_start = np.zeros(n_pairs + 1, np.int32)
    box, from_ = np.empty(part.box.size, np.int32), np.empty(part.box.size, np.int32)
    to = np.empty(part.box.size, np.int32)
    begins = np.zeros(keep.size + 1, np.bool_)  # a new place begins here
    becomes = np.empty(n_segments, np.int32)
    is_cut = np.empty(n_segments + 1, np.bool_)
    # The first and last segment of each limit that hold a place.
    begin_at = np.empty(part.box.size, np.int32)
    end_at = np.empty(part.box.size, np.int32)
    n_q, n_s, n_l, tree = 0, 0, 0, 0
    for t in range(n_trees if settled < LARGE else 0):
        if not stays[t]:
            continue
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            a, z = part.segment_start[q], part.segment_start[q + 1] - 1
            while a < z and not some[a]:
                a += 1
            while z > a and not some[z]:
                z -= 1
            if a >= z:
                continue
            for s in range(a, z + 2):
                is_cut[s] = False
            any_cut = False
            for i in range(part.limit_start[q], part.limit_start[q + 1]):
                if new_box[part.box[i]] < 0:
                    continue
                if is_set(part.stop):
                    return LARGE, part
                b, e = part.from_[i], part.to[i]
                while not some[b]:
                    b += 1
                while not some[e]:
                    e -= 1
                begin_at[i], end_at[i] = b, e
                if b > a:
                    is_cut[b] = True
                    any_cut = True
                if e < z:
                    e += 1
                    while not some[e]:
                        e += 1
                    is_cut[e] = True
                    any_cut = True
            if not any_cut:
                continue
            origin = part.place_start[part.pair_feature[q]]
            at = n_s - 1
            for s in range(a, z + 1):
                if some[s]:
                    if s == a or is_cut[s]:
                        at += 1
                        new_lam[at] = lam[s]
                        c = origin + first[s]
                        while not keep[c]:
                            c += 1
                        begins[c] = begins[c] or s > a
                        new_first[at] = c  # in old places, for now
                    elif lam[s] < new_lam[at]:
                        new_lam[at] = lam[s]
                becomes[s] = at
            for i in range(part.limit_start[q], part.limit_start[q + 1]):
                if new_box[part.box[i]] < 0:
                    continue
                b, e = becomes[begin_at[i]], becomes[end_at[i]]
                if b > n_s or e < at:
                    box[n_l] = new_box[part.box[i]]
                    from_[n_l], to[n_l] = b, e
                    n_l += 1
            pair_feature[n_q] = part.pair_feature[q]
            n_q += 1
            n_s = at + 1
            segment_start[n_q] = n_s
            limit_start[n_q] = n_l
        tree += 1
        pair_start[tree] = n_q
    place_start = np.zeros(p + 1, np.int32)
    place = np.zeros(keep.size, np.int32)
    number = np.zeros(keep.size, np.int32)
    n_places = 0
    for j in range(p):
        place_start[j] = n_places
        for c in range(part.place_start[j], part.place_start[j + 1]):
            if keep[c]:
                if n_places == place_start[j] or begins[c]:
                    place[n_places] = part.place[c]
                    n_places += 1
                number[c] = n_places - 1
    place_start[p] = n_places
    for q in range(n_q):
        j = pair_feature[q]
        for s in range(segment_start[q], segment_start[q + 1]):
            is_first = s == segment_start[q]
            new_first[s] = 0 if is_first else number[new_first[s]] - place_start[j]
            if not is_first:
                new_end[s - 1] = new_first[s]
        new_end[segment_start[q + 1] - 1] = place_start[j + 1] - place_start[j]
    return settled, Part(
        place_start,
        place[:n_places].copy(),
        new_value[:n].copy(),
        new_tree_start[: n_new_trees + 1].copy(),
        pair_start,
        pair_feature[:n_q].copy(),
        segment_start[: n_q + 1].copy(),
        first_of(new_first, n_s, part.stop),
        first_of(new_end, n_s, part.stop),
        first_of(new_lam, n_s, part.stop),
        limit_start[: n_q + 1].copy(),
        first_of(box, n_l, part.stop),
        first_of(from_, n_l, part.stop),
        first_of(to, n_l, part.stop),
        part.stop,
    )


@kernel
def least_of(x: Any, a: Any, b: Any) -> Any:
    """Return the least of ``x[a:b]``."""
    least = LARGE
    for i in range(a, b):
        least = min(least, x[i])
    return least


@kernel
def table_of_minima(table: Any, row: Any, n: Any) -> None:
    """Fill the rows below ``row`` with minima over 2, 4, 8, ... neighbours of that row."""
    half = 1
    while 2 * half <= n:
        for c in range(n - 2 * half + 1):
            table[row + 1, c] = min(table[row, c], table[row, c + half])
        row += 1
        half *= 2


@kernel
def least_between(table: Any, row: Any, a: Any, b: Any) -> Any:
    """Return the least of ``table[row, a:b]`` by its table of minima."""
    half = 1
    while 2 * half <= b - a:
        row += 1
        half *= 2
    return min(table[row, a], table[row, b - half])


@kernel
def set_prices(
    part: Any,
    j: Any,
    pairs: Any,
    tree_of: Any,
    step: Any,
    theta: Any,
    worth: Any,
    marginal: Any,
    rest: Any,
    share: Any,
    events: Any,
    table: Any,
    size: Any,
) -> Any:
    """Set the prices of one feature anew; return the least of its new θ.

    ``pairs`` are those of the feature; ``worth`` is, for each box, its value and the least prices
    within it, kept up to date. The sum of the trees' marginals and θ, for each place, is left in
    ``table[0]``. Afterwards the best box of each tree on the feature is worth 0.

    The others are room: ``marginal`` and ``share`` per segment, ``rest`` per limit, ``events`` per
    place, ``table`` with rows for minima. ``size[0]`` is raised to the largest sum.
    """
    lam, first, end, box = part.lam, part.first, part.end, part.box
    origin = part.place_start[j]
    n = part.place_start[j + 1] - origin
    for c in range(n):
        events[c] = 0.0
    sum_of_largest = 0.0
    # What each segment would cost its tree, if the point had to lie there.
    for q in pairs:
        t = tree_of[q]
        a, z = part.segment_start[q], part.segment_start[q + 1]
        lowest = least_of(lam, a, z)
        for s in range(a, z):
            marginal[s] = LARGE
        for i in range(part.limit_start[q], part.limit_start[q + 1]):
            if is_set(part.stop):
                return LARGE
            rest[i] = worth[box[i]] - least_of(lam, part.from_[i], part.to[i] + 1)
            worth[box[i]] = LARGE
            for s in range(part.from_[i], part.to[i] + 1):
                marginal[s] = min(marginal[s], rest[i])
        everywhere = least_of(worth, part.tree_start[t], part.tree_start[t + 1])
        if everywhere < LARGE:
            everywhere -= lowest
        before, largest = 0.0, 0.0
        for s in range(a, z):
            marginal[s] = min(marginal[s], everywhere) + lam[s]
            largest = max(largest, abs(marginal[s]))
            events[first[s]] += marginal[s] - before
            before = marginal[s]
        sum_of_largest += largest
    best = LARGE
    total, largest = 0.0, 0.0
    for c in range(n):
        largest = max(largest, abs(theta[origin + c]))
        total += events[c]
        table[0, c] = theta[origin + c] + total
        best = min(best, table[0, c])
        events[c] = 0.0
    size[0] = max(size[0], 2.0 * (sum_of_largest + largest))
    # Equal shares of what each segment has to spare at least ...
    table_of_minima(table, 0, n)
    part_of = 1.0 / pairs.size
    for q in pairs:
        before = 0.0
        for s in range(part.segment_start[q], part.segment_start[q + 1]):
            spare = least_between(table, 0, first[s], end[s]) - best
            share[s] = np.floor(spare * part_of / step) * step
            events[first[s]] += share[s] - before
            before = share[s]
    # ... and more of them, in proportion, where not all is given away.
    total = 0.0
    for c in range(n):
        total += events[c]
        table[1, c] = (table[0, c] - best) / total if total > 0.0 else LARGE
        events[c] = 0.0
    table_of_minima(table, 1, n)
    for q in pairs:
        t = tree_of[q]
        a, z = part.segment_start[q], part.segment_start[q + 1]
        lowest = least_of(lam, a, z)
        before = 0.0
        for s in range(a, z):
            if share[s] > 0.0:
                factor = least_between(table, 1, first[s], end[s]) * (1.0 - 1e-12)
                share[s] = np.floor(share[s] * factor / step) * step
            events[first[s]] += share[s] - before
            before = share[s]
            lam[s] += share[s] - marginal[s]
        change = least_of(lam, a, z) - lowest
        for i in range(part.tree_start[t], part.tree_start[t + 1]):
            worth[i] += change
        for i in range(part.limit_start[q], part.limit_start[q + 1]):
            if is_set(part.stop):
                return LARGE
            worth[box[i]] = rest[i] + least_of(lam, part.from_[i], part.to[i] + 1)
    least = LARGE
    total = 0.0
    for c in range(n):
        total += events[c]
        theta[origin + c] = table[0, c] - total
        least = min(least, theta[origin + c])
    return least


@kernel
def largest_sum(part: Any, worth: Any, theta: Any) -> Any:
    """Return the most that any sum of the boxes' worths and of θ can come to."""
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


@kernel
def ascend(part: Any, begin: Any, end: Any, most: Any, cut: Any, step: Any, keep: Any) -> Any:
    """Raise the bound by sweeps over the features, there and back; return it and where it stands.

    The turns of features are numbered through all sweeps; those from ``begin`` to ``end`` are made,
    or fewer after ``most`` boxes, segments and limits were looked at. Ends for good as soon as the
    bound reaches ``cut``. Places that no point below ``cut`` can lie in are taken out of ``keep``.
    """
    cut = np.ceil(cut / step) * step
    p, n_trees = part.place_start.size - 1, part.tree_start.size - 1
    place_start = part.place_start
    n_pairs = part.pair_feature.size
    # The pairs of each feature.
    feature_start = np.zeros(p + 1, np.int64)
    for q in range(n_pairs):
        feature_start[part.pair_feature[q] + 1] += 1
    for j in range(p):
        feature_start[j + 1] += feature_start[j]
    filled = feature_start[:-1].copy()
    pairs, tree_of = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
    widest = 1
    for j in range(p):
        widest = max(widest, place_start[j + 1] - place_start[j])
    n_rows = 3
    while 1 << n_rows <= 8 * widest:
        n_rows += 1
    worth, rest = np.empty(part.value.size), np.empty(part.box.size)
    marginal, share = np.empty(part.lam.size), np.empty(part.lam.size)
    events, table = np.zeros(widest), np.empty((n_rows, widest))
    theta = np.zeros(place_start[p])
    best_box, best_place, size = np.zeros(n_trees), np.zeros(p), np.zeros(1)
    bound = 0.0
    for t in range(n_trees):
        a, z = part.tree_start[t], part.tree_start[t + 1]
        for i in range(a, z):
            worth[i] = part.value[i]
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            tree_of[q] = t
            j = part.pair_feature[q]
            pairs[filled[j]] = q
            filled[j] += 1
            lowest = least_of(part.lam, part.segment_start[q], part.segment_start[q + 1])
            if is_set(part.stop):
                return -LARGE, begin
            for i in range(a, z):
                worth[i] += lowest
            for i in range(part.limit_start[q], part.limit_start[q + 1]):
                if is_set(part.stop):
                    return -LARGE, begin
                worth[part.box[i]] += least_of(part.lam, part.from_[i], part.to[i] + 1) - lowest
        best_box[t] = least_of(worth, a, z)
        bound += best_box[t]
    for j in range(p):
        for k in range(feature_start[j], feature_start[j + 1]):
            q = pairs[k]
            before = 0.0
            for s in range(part.segment_start[q], part.segment_start[q + 1]):
                theta[place_start[j] + part.first[s]] -= part.lam[s] - before
                before = part.lam[s]
        total = 0.0
        for c in range(place_start[j], place_start[j + 1]):
            total += theta[c]
            theta[c] = total
        if place_start[j] < place_start[j + 1]:
            best_place[j] = least_of(theta, place_start[j], place_start[j + 1])
            bound += best_place[j]
    size[0] = largest_sum(part, worth, theta)
    at = begin
    looked_at = 0
    while at < end and looked_at < most:
        if bound >= cut or size[0] >= EXACT * step:
            at = end
            break
        j = at % p if (at // p) % 2 == 0 else p - 1 - at % p
        at += 1
        own = pairs[feature_start[j] : feature_start[j + 1]]
        if own.size == 0 or place_start[j + 1] - place_start[j] < 2:
            continue
        least = set_prices(
            part,
            j,
            own,
            tree_of,
            step,
            theta,
            worth,
            marginal,
            rest,
            share,
            events,
            table,
            size,
        )
        if is_set(part.stop):
            return -LARGE, begin
        for q in own:
            t = tree_of[q]
            bound -= best_box[t]
            best_box[t] = 0.0
            looked_at += part.tree_start[t + 1] - part.tree_start[t]
            looked_at += part.limit_start[q + 1] - part.limit_start[q]
            looked_at += part.segment_start[q + 1] - part.segment_start[q]
        bound += least - best_place[j]
        best_place[j] = least
        room = cut - (bound - least)
        for c in range(place_start[j + 1] - place_start[j]):
            if table[0, c] >= room and size[0] < EXACT * step:
                keep[place_start[j] + c] = False
    if max(size[0], largest_sum(part, worth, theta)) >= EXACT * step:
        # Not to be relied on: begin anew.
        for s in range(part.lam.size):
            part.lam[s] = 0.0
        return -LARGE, end
    return bound, at


@kernel
def choose_cut(part: Any, least_gain: Any, cut: Any, keep: Any) -> Any:
    """Return the cut with the largest product of both sides' gains of the plain bound.

    That is the feature and the last place on the left. Takes places out of ``keep`` whose plain
    bound reaches ``cut``, which sometimes sees more than the prices do.
    """
    p, n_trees = part.place_start.size - 1, part.tree_start.size - 1
    # Losses by differences, with one entry more than places for each feature.
    size = part.place_start[p] + p + 1
    here, left, right = np.zeros(size), np.zeros(size), np.zeros(size)
    most = 1
    for q in range(part.pair_feature.size):
        most = max(most, part.segment_start[q + 1] - part.segment_start[q])
    least = np.empty(most)
    is_limited = np.zeros(part.value.size, np.bool_)
    bound = 0.0
    for t in range(n_trees):
        first_box, end_box = part.tree_start[t], part.tree_start[t + 1]
        best = first_box
        for i in range(first_box, end_box):
            if part.value[i] < part.value[best]:
                best = i
        lowest = part.value[best]
        bound += lowest
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            if is_set(part.stop):
                return -1, -1
            matters = False
            for i in range(part.limit_start[q], part.limit_start[q + 1]):
                matters = matters or part.box[i] == best
            if not matters:
                continue
            a = part.segment_start[q]
            n = part.segment_start[q + 1] - a
            for s in range(n):
                least[s] = LARGE
            for i in range(part.limit_start[q], part.limit_start[q + 1]):
                if is_set(part.stop):
                    return -1, -1
                is_limited[part.box[i]] = True
                for s in range(part.from_[i] - a, part.to[i] - a + 1):
                    least[s] = min(least[s], part.value[part.box[i]])
            everywhere = LARGE
            for i in range(first_box, end_box):
                if is_limited[i]:
                    is_limited[i] = False
                else:
                    everywhere = min(everywhere, part.value[i])
            j = part.pair_feature[q]
            origin = part.place_start[j] + j
            before = 0.0
            for s in range(n):
                least[s] = min(least[s], everywhere) - lowest
                here[origin + part.first[a + s]] += least[s] - before
                before = least[s]
            so_far, before = LARGE, 0.0
            for s in range(n):
                so_far = min(so_far, least[s])
                left[origin + part.first[a + s]] += so_far - before
                before = so_far
            # A cut after place c leaves what begins behind it.
            so_far = LARGE
            end = part.place_start[j + 1] - part.place_start[j] - 1
            for s in range(n - 1, -1, -1):
                so_far = min(so_far, least[s])
                begin = max(part.first[a + s] - 1, 0)
                right[origin + begin] += so_far
                right[origin + end] -= so_far
                end = begin
    best_score, feature, at = -1.0, -1, -1
    for j in range(p):
        total = bound
        for c in range(part.place_start[j], part.place_start[j + 1]):
            total += here[c + j]
            if total >= cut:
                keep[c] = False
        to_left, to_right = 0.0, 0.0
        for c in range(part.place_start[j], part.place_start[j + 1] - 1):
            to_left += left[c + j]
            to_right += right[c + j]
            score = max(to_left, least_gain) * max(to_right, least_gain)
            if score > best_score:
                best_score, feature, at = score, j, c
    return feature, at
