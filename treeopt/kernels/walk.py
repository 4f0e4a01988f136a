"""Batch prediction by walking packed nodes, for trees of any size.

Eight walks advance in lockstep so that the processor waits for eight memory reads at once: eight
rows through one tree (`predict_tiles`), or eight trees for one row (`predict_row`). A walk that has
reached its leaf stays there until the others arrive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.encode import BASE, COLUMN, DIVISOR, cast, locate, refused
from treeopt.kernels.jit import inlined, kernel
from treeopt.kernels.pack import key_of

LANES = 8


@inlined
def encode_lane(
    x: Any,
    features: Any,
    grid: Any,
    cuts: Any,
    buckets: Any,
    numbers: Any,
    slot_start: Any,
    slot_table: Any,
    lut: Any,
    keys: Any,
    lane: Any,
) -> Any:
    """Write the keys of one row into one lane of a tile; False if a value is refused.

    Feature ``j`` owns the slots from ``slot_start[j]`` on; ``slot_table`` says where each slot's
    lookup table begins in ``lut`` (negative: the key is the cell).
    """
    accepted = True
    keys[lane] = 0
    for j in range(features.shape[0]):
        y = cast(x[features[j, COLUMN]], numbers)
        accepted &= not refused(y, numbers)
        cell = locate(y, j, features, grid, cuts, buckets)
        for s in range(slot_start[j], slot_start[j + 1]):
            keys[s * LANES + lane] = key_of(cell, s, slot_table, lut)
    return accepted


@inlined
def layout_of(bits: Any) -> Any:
    """Return the layout of a word: two masks, three shifts, and whether nodes have a bit.

    ``bits`` is two-dimensional if the model has categories. That is part of its type: kernels are
    compiled apart for models without, and those do not pay for the bit.
    """
    b = bits.reshape(-1)
    return b[0], b[1], b[2], b[3], b[4], bits.ndim == 2


@inlined
def bit_of(word: Any, layout: Any) -> Any:
    """Return the bit that the node tests; 0 if it compares with its rank."""
    _, _, _, _, bit_shift, has_bits = layout
    return (word >> bit_shift) & np.uint64(31) if has_bits else np.uint64(0)


@inlined
def step(word: Any, keys: Any, at: Any, layout: Any) -> Any:
    """Return the position that follows the node ``word``."""
    field, child_mask, child_shift, rank_shift, _, _ = layout
    key = np.uint64(keys[at + (word & field)])
    bit = bit_of(word, layout)
    # All of the key, or the one bit (bit 0 of a key of sets is never set).
    key &= (np.uint64(1) << bit) | (np.uint64(bit != np.uint64(0)) - np.uint64(1))
    return ((word >> child_shift) & child_mask) + np.uint64(key > (word >> rank_shift))


@kernel
def predict_row(words: Any, roots: Any, keys: Any, bits: Any, leaf_value: Any, numbers: Any) -> Any:
    """Return the sum over trees for the row whose keys are in lane 0."""
    layout = layout_of(bits)
    field, rank_shift = layout[0], layout[3]
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
    total = leaf_value.dtype.type(numbers[BASE])
    for t in range(n_trees):
        total += buffer[t]
    return total


@kernel
def predict_tiles(
    words: Any, roots: Any, keys: Any, tile: Any, bits: Any, leaf_value: Any, out: Any
) -> None:
    """Add every tree to the sums in ``out``, tile by tile of eight rows.

    ``tile`` is the number of keys per tile. Tree by tree over all tiles: a tree stays in the cache
    while the rows pass.
    """
    layout = layout_of(bits)
    field, rank_shift = layout[0], layout[3]
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
    X: Any,
    features: Any,
    grid: Any,
    cuts: Any,
    buckets: Any,
    numbers: Any,
    slot_start: Any,
    slot_table: Any,
    lut: Any,
    words: Any,
    roots: Any,
    bits: Any,
    leaf_value: Any,
    block: Any,
    out: Any,
) -> Any:
    """Predict every row of ``X``; return the first row that the library refuses, or -1.

    ``bits`` is the layout of a word: field mask, child mask, child shift, rank shift, bit shift
    (two-dimensional if nodes have a bit). ``block`` is
    the number of rows, a multiple of eight, that pass through a tree before the next tree is
    fetched. Up to five rows are walked one by one.
    """
    n = X.shape[0]
    base = leaf_value.dtype.type(numbers[BASE])
    divisor = leaf_value.dtype.type(numbers[DIVISOR])
    tile = slot_start[-1] * LANES
    if n <= 5:
        keys = np.empty(tile, np.uint32)
        for i in range(n):
            if not encode_lane(
                X[i], features, grid, cuts, buckets, numbers, slot_start, slot_table, lut, keys, 0
            ):
                return i
            out[i] = predict_row(words, roots, keys, bits, leaf_value, numbers) / divisor
        return -1
    block = min(block, (n + LANES - 1) // LANES * LANES)
    keys = np.zeros(block // LANES * tile, np.uint32)
    sums = np.empty(block, leaf_value.dtype)
    for start in range(0, n, block):
        rows = min(block, n - start)
        for r in range(rows):
            if not encode_lane(
                X[start + r],
                features,
                grid,
                cuts,
                buckets,
                numbers,
                slot_start,
                slot_table,
                lut,
                keys[r // LANES * tile :],
                r % LANES,
            ):
                return start + r
        padded = (rows + LANES - 1) // LANES * LANES
        size = np.uint64(tile)
        sums[:] = base
        predict_tiles(words, roots, keys, size, bits, leaf_value, sums[:padded])
        for r in range(rows):
            out[start + r] = sums[r] / divisor
    return -1
