"""The problem of a node in the form that the dual bound works on.

A `Part` has no boxes of places. For each pair of a tree and a feature that the tree splits on, the
places of the feature fall into segments between the tree's cuts. A box that does not span the whole
feature has a span there: its first and last segment. `dual` has a table of these words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.kernels.jit import inlined, is_set, kernel

if TYPE_CHECKING:
    from treeopt.problem.leaves import Leaves
    from treeopt.types import Array, FloatArray, Index, Int32Array, IntArray

LARGE = 1e300
"""More than any sum."""

COPIED = 2**16
"""Numbers that are copied between two checks of the flag that ends the search."""


class Part(NamedTuple):
    """What is left of the problem at a node: boxes, segments and prices, without the rest.

    Attributes
    ----------
    place_start : int32 array
        First place of each feature; all places are numbered consecutively.
    place : int32 array
        The number, in the whole grid, of the first place that each of them stands for.
    value, tree_start : float64 and int32 arrays
        The boxes of each tree.
    pair_start, pair_feature : int32 arrays
        The pairs of each tree, and their features.
    segment_start, first, end : int32 arrays
        The segments of each pair, and their places within the feature.
    lam : float64 array
        The price of each segment.
    span_start, box, from_, to : int32 arrays
        The spans of each pair: the box, its first and its last segment.
    stop : int64 array
        Not 0 if the search has to end, see `leaves`.
    """

    place_start: Int32Array
    place: Int32Array
    value: FloatArray
    tree_start: Int32Array
    pair_start: Int32Array
    pair_feature: Int32Array
    segment_start: Int32Array
    first: Int32Array
    end: Int32Array
    lam: FloatArray
    span_start: Int32Array
    box: Int32Array
    from_: Int32Array
    to: Int32Array
    stop: IntArray = np.zeros(1, np.int64)


@kernel
def first_of(x: Array, n: Index, stop: IntArray) -> Array:
    """Return the first ``n`` numbers of an array, which may be very long: a copy if it has more."""
    if n == x.size:
        return x
    copied = np.empty(n, x.dtype)
    for a in range(0, n, COPIED):
        if is_set(stop):
            break
        for i in range(a, min(a + COPIED, n)):
            copied[i] = x[i]
    return copied


@kernel
def trimmed(new: Part, n_places: Index, n_boxes: Index, n_trees: Index) -> Part:
    """Return a part without the unused ends of its arrays.

    The other numbers follow: ``pair_start`` has the number of pairs, and so on.
    """
    n_pairs = np.int64(new.pair_start[n_trees])
    n_segments = np.int64(new.segment_start[n_pairs])
    n_spans = np.int64(new.span_start[n_pairs])
    return Part(
        new.place_start,
        first_of(new.place, n_places, new.stop),
        first_of(new.value, n_boxes, new.stop),
        first_of(new.tree_start, n_trees + 1, new.stop),
        first_of(new.pair_start, n_trees + 1, new.stop),
        first_of(new.pair_feature, n_pairs, new.stop),
        first_of(new.segment_start, n_pairs + 1, new.stop),
        first_of(new.first, n_segments, new.stop),
        first_of(new.end, n_segments, new.stop),
        first_of(new.lam, n_segments, new.stop),
        first_of(new.span_start, n_pairs + 1, new.stop),
        first_of(new.box, n_spans, new.stop),
        first_of(new.from_, n_spans, new.stop),
        first_of(new.to, n_spans, new.stop),
        new.stop,
    )


@kernel
def whole_part(leaves: Leaves, step: float) -> Part:
    """Return the whole problem, with prices of zero and values rounded down to steps."""
    n_trees, p = leaves.start.size - 1, leaves.low.shape[0]
    widest = 1
    for j in range(p):
        widest = max(widest, leaves.place_start[j + 1] - leaves.place_start[j])
    mark = np.zeros(widest + 1, np.int64)
    segment = np.zeros(widest + 1, np.int64)
    part = empty_part(leaves, count_spans(leaves))
    n_pairs, n_segments, n_spans = 0, 0, 0
    for t in range(n_trees):
        for j in range(p):
            if is_set(leaves.stop):
                break
            size = leaves.place_start[j + 1] - leaves.place_start[j]
            low = leaves.low[j, leaves.start[t] : leaves.start[t + 1]]
            high = leaves.high[j, leaves.start[t] : leaves.start[t + 1]]
            if not mark_cuts(low, high, size, mark, t * p + j + 1):
                continue
            first, end, lam = part.first, part.end, part.lam
            n_segments = add_segments(
                first, end, lam, n_segments, size, mark, t * p + j + 1, segment
            )
            for i in range(low.size):
                if low[i] > 0 or high[i] < size - 1:
                    part.box[n_spans] = leaves.start[t] + i
                    part.from_[n_spans], part.to[n_spans] = segment[low[i]], segment[high[i]]
                    n_spans += 1
            part.pair_feature[n_pairs] = j
            n_pairs += 1
            part.segment_start[n_pairs] = n_segments
            part.span_start[n_pairs] = n_spans
        part.pair_start[t + 1] = n_pairs
    round_down(leaves.value, step, part.value, leaves.stop)
    whole: Part = trimmed(part, part.place.size, part.value.size, n_trees)
    return whole


@inlined
def count_spans(leaves: Leaves) -> int:
    """Return the number of sides, over all boxes, that do not span their feature."""
    n = 0
    for j in range(leaves.low.shape[0]):
        if is_set(leaves.stop):
            break
        size = leaves.place_start[j + 1] - leaves.place_start[j]
        for i in range(leaves.value.size):
            if leaves.low[j, i] > 0 or leaves.high[j, i] < size - 1:
                n += 1
    return n


@inlined
def empty_part(leaves: Leaves, n_spans: int) -> Part:
    """Return a part with room for all pairs, segments and spans.

    The largest arrays are not filled: that would take long.
    """
    n_trees, p = leaves.start.size - 1, leaves.low.shape[0]
    n_segments = 2 * n_spans + n_trees * p
    return Part(
        leaves.place_start.astype(np.int32),
        np.arange(leaves.place_start[-1]).astype(np.int32),
        np.empty(leaves.value.size),
        leaves.start.astype(np.int32),
        np.zeros(n_trees + 1, np.int32),
        np.zeros(n_trees * p, np.int32),
        np.zeros(n_trees * p + 1, np.int32),
        np.empty(n_segments, np.int32),
        np.empty(n_segments, np.int32),
        np.empty(n_segments),
        np.zeros(n_trees * p + 1, np.int32),
        np.empty(n_spans, np.int32),
        np.empty(n_spans, np.int32),
        np.empty(n_spans, np.int32),
        leaves.stop,
    )


@inlined
def mark_cuts(low: Int32Array, high: Int32Array, size: int, mark: IntArray, stamp: int) -> bool:
    """Mark the places of a feature where a box of a tree begins or ends; tell if there is a cut."""
    any_cut = False
    for i in range(low.size):
        a, b = low[i], high[i] + 1
        mark[a] = mark[b] = stamp
        any_cut = any_cut or a > 0 or b < size
    return any_cut


@inlined
def add_segments(
    first: Int32Array,
    end: Int32Array,
    lam: FloatArray,
    n: int,
    size: int,
    mark: IntArray,
    stamp: int,
    segment: IntArray,
) -> int:
    """Add the segments between the marked cuts of a feature, and note that of each place.

    Returns the new number of segments.
    """
    first[n] = 0
    for c in range(size):
        if c > 0 and mark[c] == stamp:
            end[n] = c
            lam[n] = 0.0
            n += 1
            first[n] = c
        segment[c] = n
    end[n] = size
    lam[n] = 0.0
    return n + 1


@inlined
def round_down(value: FloatArray, step: float, rounded: FloatArray, stop: IntArray) -> None:
    """Round values down to multiples of a step."""
    for a in range(0, value.size, COPIED):
        if is_set(stop):
            break
        for i in range(a, min(a + COPIED, value.size)):
            rounded[i] = np.floor(value[i] / step) * step
