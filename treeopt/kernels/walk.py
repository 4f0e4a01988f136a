"""Batch prediction by walking packed nodes, for trees of any size.

Eight walks advance in lockstep so that the processor waits for eight memory reads at once: eight
rows through one tree (`predict_tiles`), or eight trees for one row (`predict_row`). A walk that has
reached its leaf stays there until the others arrive.
"""

from __future__ import annotations

import numpy as np

from treeopt.kernels.arrays import Encoder, Layout, Numbers, Packed, Slots
from treeopt.kernels.encode import cast, feature_of, locate, numbers_of, refused
from treeopt.kernels.jit import inlined, kernel
from treeopt.kernels.pack import key_of
from treeopt.types import Array, FloatArray, Int32Array, IntArray, UInt32Array, UInt64Array

LANES = 8


@inlined
def encode_lane(
    x: Array, encoder: Encoder, numbers: Numbers, slots: Slots, keys: UInt32Array, lane: int
) -> bool:
    """Write the keys of one row into one lane of a tile; return False if a value is refused."""
    features, grid, cuts, buckets = encoder
    slot_start, slot_table, lut = slots
    accepted = True
    keys[lane] = 0
    for j in range(features.shape[0]):
        feature = feature_of(j, features, grid)
        y = cast(x[feature.column], numbers)
        accepted &= not refused(y, numbers)
        cell = locate(y, feature, cuts, buckets)
        for s in range(slot_start[j], slot_start[j + 1]):
            keys[s * LANES + lane] = key_of(cell, s, slot_table, lut)
    return accepted


@inlined
def layout_of(bits: UInt64Array) -> Layout:
    """Return the layout of a word.

    ``bits`` is two-dimensional if the model has categories. That is part of its type: kernels are
    compiled apart for models without, and those do not pay for the bit.
    """
    b = bits.reshape(-1)
    return Layout(b[0], b[1], b[2], b[3], b[4], bits.ndim == 2)


@inlined
def bit_of(word: np.uint64, layout: Layout) -> np.uint64:
    """Return the bit that the node tests; 0 if it compares with its rank."""
    return (word >> layout.bit_shift) & np.uint64(31) if layout.has_bits else np.uint64(0)


@inlined
def child_of(word: np.uint64, layout: Layout) -> np.uint64:
    """Return the position of the left child; the right one follows it."""
    return (word >> layout.child_shift) & layout.child_mask


@inlined
def step(word: np.uint64, keys: UInt32Array, at: np.uint64, layout: Layout) -> np.uint64:
    """Return the position that follows the node ``word``."""
    key = np.uint64(keys[at + (word & layout.field)])
    bit = bit_of(word, layout)
    # All of the key, or the one bit (bit 0 of a key of sets is never set).
    key &= (np.uint64(1) << bit) | (np.uint64(bit != np.uint64(0)) - np.uint64(1))
    return child_of(word, layout) + np.uint64(key > (word >> layout.rank_shift))


@kernel
def predict_row(packed: Packed, keys: UInt32Array, base: float) -> float:
    """Return the base plus the sum over trees for the row whose keys are in lane 0."""
    words, roots, leaf_value = packed.words, packed.roots, packed.leaf_value
    layout = layout_of(packed.bits)
    field, rank_shift = layout.field, layout.rank_shift
    buffer = np.empty(roots.size, leaf_value.dtype)
    zero = np.uint64(0)
    n_trees = roots.size
    t = 0
    while t + LANES <= n_trees:
        i0, i1, i2, i3 = roots[t], roots[t + 1], roots[t + 2], roots[t + 3]
        i4, i5, i6, i7 = roots[t + 4], roots[t + 5], roots[t + 6], roots[t + 7]
        while True:
            w0, w1, w2, w3 = words[i0], words[i1], words[i2], words[i3]
            w4, w5, w6, w7 = words[i4], words[i5], words[i6], words[i7]
            if (w0 | w1 | w2 | w3 | w4 | w5 | w6 | w7) & field == zero:
                break
            i0 = step(w0, keys, zero, layout)
            i1 = step(w1, keys, zero, layout)
            i2 = step(w2, keys, zero, layout)
            i3 = step(w3, keys, zero, layout)
            i4 = step(w4, keys, zero, layout)
            i5 = step(w5, keys, zero, layout)
            i6 = step(w6, keys, zero, layout)
            i7 = step(w7, keys, zero, layout)
        buffer[t] = leaf_value[w0 >> rank_shift]
        buffer[t + 1] = leaf_value[w1 >> rank_shift]
        buffer[t + 2] = leaf_value[w2 >> rank_shift]
        buffer[t + 3] = leaf_value[w3 >> rank_shift]
        buffer[t + 4] = leaf_value[w4 >> rank_shift]
        buffer[t + 5] = leaf_value[w5 >> rank_shift]
        buffer[t + 6] = leaf_value[w6 >> rank_shift]
        buffer[t + 7] = leaf_value[w7 >> rank_shift]
        t += LANES
    while t < n_trees:
        w0 = words[roots[t]]
        while w0 & field != zero:
            w0 = words[step(w0, keys, zero, layout)]
        buffer[t] = leaf_value[w0 >> rank_shift]
        t += 1
    total = base
    for t in range(n_trees):
        total += buffer[t]
    return total


@kernel
def predict_tiles(packed: Packed, keys: UInt32Array, tile: np.uint64, out: Array) -> None:
    """Add every tree to the sums in ``out``, tile by tile of eight rows.

    ``tile`` is the number of keys per tile. The outer loop is over trees: a tree stays in the cache
    for all rows.
    """
    words, roots, leaf_value = packed.words, packed.roots, packed.leaf_value
    layout = layout_of(packed.bits)
    field, rank_shift = layout.field, layout.rank_shift
    zero = np.uint64(0)
    k1, k2, k3, k4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    k5, k6, k7 = np.uint64(5), np.uint64(6), np.uint64(7)
    n_tiles = out.size // LANES
    for t in range(roots.size):
        at = zero
        for b in range(n_tiles):
            i0 = i1 = i2 = i3 = i4 = i5 = i6 = i7 = roots[t]
            while True:
                w0, w1, w2, w3 = words[i0], words[i1], words[i2], words[i3]
                w4, w5, w6, w7 = words[i4], words[i5], words[i6], words[i7]
                if (w0 | w1 | w2 | w3 | w4 | w5 | w6 | w7) & field == zero:
                    break
                i0 = step(w0, keys, at, layout)
                i1 = step(w1, keys, at + k1, layout)
                i2 = step(w2, keys, at + k2, layout)
                i3 = step(w3, keys, at + k3, layout)
                i4 = step(w4, keys, at + k4, layout)
                i5 = step(w5, keys, at + k5, layout)
                i6 = step(w6, keys, at + k6, layout)
                i7 = step(w7, keys, at + k7, layout)
            o = b * LANES
            out[o] += leaf_value[w0 >> rank_shift]
            out[o + 1] += leaf_value[w1 >> rank_shift]
            out[o + 2] += leaf_value[w2 >> rank_shift]
            out[o + 3] += leaf_value[w3 >> rank_shift]
            out[o + 4] += leaf_value[w4 >> rank_shift]
            out[o + 5] += leaf_value[w5 >> rank_shift]
            out[o + 6] += leaf_value[w6 >> rank_shift]
            out[o + 7] += leaf_value[w7 >> rank_shift]
            at += tile


@kernel
def predict_walk(
    X: Array,
    features: IntArray,
    grid: FloatArray,
    cuts: FloatArray,
    buckets: Int32Array,
    numbers: FloatArray,
    slot_start: IntArray,
    slot_table: IntArray,
    lut: Int32Array,
    words: UInt64Array,
    roots: UInt64Array,
    bits: UInt64Array,
    leaf_value: Array,
    block: int,
    out: Array,
) -> int:
    """Predict every row of ``X``; return the first row that the library refuses, or -1.

    ``block`` is the number of rows, a multiple of eight, that pass through a tree before the next
    tree is fetched. Up to five rows are walked one by one. The arguments are flat for the sake of
    calls with one row, see `arrays`.
    """
    encoder, named = Encoder(features, grid, cuts, buckets), numbers_of(numbers)
    slots = Slots(slot_start, slot_table, lut)
    packed = Packed(words, roots, bits, leaf_value)
    n = X.shape[0]
    base = leaf_value.dtype.type(named.base)
    divisor = leaf_value.dtype.type(named.divisor)
    tile = slot_start[-1] * LANES
    if n <= 5:
        keys = np.empty(tile, np.uint32)
        for i in range(n):
            if not encode_lane(X[i], encoder, named, slots, keys, 0):
                return i
            out[i] = predict_row(packed, keys, base) / divisor
        return -1
    block = min(block, (n + LANES - 1) // LANES * LANES)
    keys = np.zeros(block // LANES * tile, np.uint32)
    sums = np.empty(block, leaf_value.dtype)
    for start in range(0, n, block):
        rows = min(block, n - start)
        for r in range(rows):
            lanes = keys[r // LANES * tile :]
            if not encode_lane(X[start + r], encoder, named, slots, lanes, r % LANES):
                return start + r
        padded = (rows + LANES - 1) // LANES * LANES
        sums[:] = base
        predict_tiles(packed, keys, np.uint64(tile), sums[:padded])
        for r in range(rows):
            out[start + r] = sums[r] / divisor
    return -1
