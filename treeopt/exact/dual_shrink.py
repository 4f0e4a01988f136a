"""What is left of a part of the problem when only some places are kept.

`shrink` works in steps: which segments and boxes still hold a place; which trees have one box left
and are settled; where the spans of the remaining boxes cut each pair; segments without a cut
between them are joined; and at last places without a cut between them become one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.exact.dual_part import LARGE, Part, trimmed
from treeopt.kernels.jit import inlined, is_set, kernel

if TYPE_CHECKING:
    from treeopt.types import BoolArray, Int32Array


class Remains(NamedTuple):
    """What is left of the boxes, segments and spans of a part.

    Attributes
    ----------
    some : bool array
        Whether each segment holds a place.
    stays : bool array
        Whether each tree has more than one box.
    new_box : int32 array
        New number of each box, or -1.
    first_some, last_some : int32 arrays
        First and last segment of each pair that holds a place; -1 if the pair is settled.
    from_some, to_some : int32 arrays
        First and last segment of each span that holds a place.
    is_cut : bool array
        Whether a span of a remaining box begins at a segment, or ends just before it.
    joined : int32 array
        New number of each segment.
    begins : bool array
        Whether a new segment begins at each place.
    """

    some: BoolArray
    stays: BoolArray
    new_box: Int32Array
    first_some: Int32Array
    last_some: Int32Array
    from_some: Int32Array
    to_some: Int32Array
    is_cut: BoolArray
    joined: Int32Array
    begins: BoolArray


@kernel
def shrink(part: Part, keep: BoolArray) -> tuple[float, Part]:
    """Return the sum of what is settled, and what is left if only some places are kept.

    Boxes that hold no place are dropped. Segments that no box distinguishes are joined, at the
    lower price. Trees with one box are settled, and so are pairs with one segment. If some tree has
    no box left the sum is `LARGE`.
    """
    left, new = new_remains(part, keep.size), new_part(part, keep.size)
    alive = find_alive(part, keep, left.some)
    settled, n_boxes, n_trees = settle_trees(part, alive, left, new)
    if settled >= LARGE:
        return LARGE, part
    cut_pairs(part, left)
    if is_set(part.stop):
        return LARGE, part
    join_segments(part, keep, left, new)
    copy_spans(part, left, new)
    n_places = number_places(part, keep, left.begins, new, n_trees)
    # As int64 from the start: else numba compiles the function for the literal 0, too.
    return settled, trimmed(new, np.int64(n_places), np.int64(n_boxes), np.int64(n_trees))


@inlined
def new_remains(part: Part, n_places: int) -> Remains:
    """Return room for what is left of a part."""
    n_segments, n_pairs, n_spans = part.lam.size, part.pair_feature.size, part.box.size
    return Remains(
        np.empty(n_segments, np.bool_),
        np.zeros(part.tree_start.size - 1, np.bool_),
        np.full(part.value.size, -1, np.int32),
        np.empty(n_pairs, np.int32),
        np.empty(n_pairs, np.int32),
        np.empty(n_spans, np.int32),
        np.empty(n_spans, np.int32),
        np.zeros(n_segments + 1, np.bool_),
        np.empty(n_segments, np.int32),
        np.zeros(n_places + 1, np.bool_),
    )


@inlined
def new_part(part: Part, n_places: int) -> Part:
    """Return a part with room for all that another one has."""
    n_segments, n_pairs, n_spans = part.lam.size, part.pair_feature.size, part.box.size
    return Part(
        np.zeros(part.place_start.size, np.int32),
        np.zeros(n_places, np.int32),
        np.empty(part.value.size),
        np.zeros(part.tree_start.size, np.int32),
        np.zeros(part.tree_start.size, np.int32),
        np.zeros(n_pairs, np.int32),
        np.zeros(n_pairs + 1, np.int32),
        np.empty(n_segments, np.int32),
        np.empty(n_segments, np.int32),
        np.empty(n_segments),
        np.zeros(n_pairs + 1, np.int32),
        np.empty(n_spans, np.int32),
        np.empty(n_spans, np.int32),
        np.empty(n_spans, np.int32),
        part.stop,
    )


@inlined
def find_alive(part: Part, keep: BoolArray, some: BoolArray) -> BoolArray:
    """Return which boxes hold a place that is kept; note the same for segments in ``some``."""
    kept = np.zeros(keep.size + 1, np.int32)  # number of places kept before each one
    for c in range(keep.size):
        kept[c + 1] = kept[c] + (1 if keep[c] else 0)
    up_to = np.empty(some.size + 1, np.int32)  # number of segments with places before each one
    up_to[0] = 0
    for q in range(part.pair_feature.size):
        if is_set(part.stop):
            break
        origin = part.place_start[part.pair_feature[q]]
        for s in range(part.segment_start[q], part.segment_start[q + 1]):
            some[s] = kept[origin + part.end[s]] > kept[origin + part.first[s]]
            up_to[s + 1] = up_to[s] + (1 if some[s] else 0)
    alive = np.ones(part.value.size, np.bool_)
    for i in range(part.box.size):
        if up_to[part.to[i] + 1] == up_to[part.from_[i]]:
            alive[part.box[i]] = False
    return alive


@inlined
def settle_trees(part: Part, alive: BoolArray, left: Remains, new: Part) -> tuple[float, int, int]:
    """Settle trees with one box, and number the boxes of the others.

    Returns the sum of the settled trees, or `LARGE` if a tree has no box, and the numbers of boxes
    and trees that are left.
    """
    settled = 0.0
    n, n_trees = 0, 0
    for t in range(part.tree_start.size - 1):
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
        left.stays[t] = True
        for i in range(part.tree_start[t], part.tree_start[t + 1]):
            if alive[i]:
                left.new_box[i] = n
                new.value[n] = part.value[i]
                n += 1
        n_trees += 1
        new.tree_start[n_trees] = n
    return settled, n, n_trees


@inlined
def cut_pairs(part: Part, left: Remains) -> None:
    """Mark where the spans of remaining boxes cut their pairs; settle pairs without a cut."""
    some, is_cut, new_box = left.some, left.is_cut, left.new_box
    from_some, to_some = left.from_some, left.to_some
    for q in range(part.pair_feature.size):
        a, z = part.segment_start[q], part.segment_start[q + 1] - 1
        while a < z and not some[a]:
            a += 1
        while z > a and not some[z]:
            z -= 1
        any_cut = False
        end = part.span_start[q + 1] if a < z else part.span_start[q]
        for i in range(part.span_start[q], end):
            if new_box[part.box[i]] < 0:
                continue
            if is_set(part.stop):
                return
            b, e = part.from_[i], part.to[i]
            while not some[b]:
                b += 1
            while not some[e]:
                e -= 1
            from_some[i], to_some[i] = b, e
            if b > a:
                is_cut[b] = True
                any_cut = True
            if e < z:
                e += 1
                while not some[e]:
                    e += 1
                is_cut[e] = True
                any_cut = True
        left.first_some[q] = a if any_cut else -1
        left.last_some[q] = z


@inlined
def join_segments(part: Part, keep: BoolArray, left: Remains, new: Part) -> None:
    """Write the new pairs and their segments: those without a cut between them become one.

    The first place of each is an old place, for now.
    """
    some, is_cut, joined, begins = left.some, left.is_cut, left.joined, left.begins
    lam, new_lam, new_first = part.lam, new.lam, new.first
    n_pairs, at, tree = 0, -1, 0
    for t in range(part.tree_start.size - 1):
        if not left.stays[t]:
            continue
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            a = left.first_some[q]
            if a < 0:
                continue
            j = part.pair_feature[q]
            for s in range(a, left.last_some[q] + 1):
                if some[s]:
                    if s == a or is_cut[s]:
                        at += 1
                        new_lam[at] = lam[s]
                        c = part.place_start[j] + part.first[s]
                        while not keep[c]:
                            c += 1
                        begins[c] = begins[c] or s > a
                        new_first[at] = c
                    elif lam[s] < new_lam[at]:
                        new_lam[at] = lam[s]
                joined[s] = at
            new.pair_feature[n_pairs] = j
            n_pairs += 1
            new.segment_start[n_pairs] = at + 1
        tree += 1
        new.pair_start[tree] = n_pairs


@inlined
def copy_spans(part: Part, left: Remains, new: Part) -> None:
    """Write the spans of the new pairs: of boxes that do not cover all segments."""
    joined, from_some, to_some, new_box = left.joined, left.from_some, left.to_some, left.new_box
    n_pairs, n = 0, 0
    for q in range(part.pair_feature.size):
        if left.first_some[q] < 0:
            continue
        first, last = new.segment_start[n_pairs], new.segment_start[n_pairs + 1] - 1
        for i in range(part.span_start[q], part.span_start[q + 1]):
            box = new_box[part.box[i]]
            if box < 0:
                continue
            b, e = joined[from_some[i]], joined[to_some[i]]
            if b > first or e < last:
                new.box[n] = box
                new.from_[n], new.to[n] = b, e
                n += 1
        n_pairs += 1
        new.span_start[n_pairs] = n


@inlined
def number_places(part: Part, keep: BoolArray, begins: BoolArray, new: Part, n_trees: int) -> int:
    """Renumber the places and let the new segments refer to them; return the number of places."""
    number = np.zeros(keep.size, np.int32)
    n = 0
    for j in range(part.place_start.size - 1):
        new.place_start[j] = n
        for c in range(part.place_start[j], part.place_start[j + 1]):
            if keep[c]:
                if n == new.place_start[j] or begins[c]:
                    new.place[n] = part.place[c]
                    n += 1
                number[c] = n - 1
    new.place_start[part.place_start.size - 1] = n
    for q in range(new.pair_start[n_trees]):
        j = new.pair_feature[q]
        for s in range(new.segment_start[q], new.segment_start[q + 1]):
            is_first = s == new.segment_start[q]
            new.first[s] = 0 if is_first else number[new.first[s]] - new.place_start[j]
            if not is_first:
                new.end[s - 1] = new.first[s]
        new.end[new.segment_start[q + 1] - 1] = new.place_start[j + 1] - new.place_start[j]
    return n
