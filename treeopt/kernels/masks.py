"""Batch prediction by leaf masks, for trees of at most 64 leaves.

For each tree, the leaves that one feature's cell leaves reachable are a bit mask, stored for every
cell in advance. An input reaches the one leaf whose bit survives the intersection over all
features: no branch, no pointer, contiguous reads over all trees.
"""

from __future__ import annotations

import numpy as np

from treeopt.kernels.encode import FIRST_ROW, encode_row, numbers_of
from treeopt.kernels.jit import inlined, kernel, trailing_zeros
from treeopt.types import Array, FloatArray, Int32Array, IntArray


@inlined
def rows_of(cells: IntArray, features: IntArray, skip: int, rows: IntArray) -> int:
    """Write the table rows of the given cells, without feature ``skip``; return their number.

    The number is even: the last row may occur twice, which does not change an intersection.
    """
    n = 0
    for j in range(features.shape[0]):
        if j != skip:
            rows[n] = features[j, FIRST_ROW] + cells[j]
            n += 1
    rows[n] = rows[max(n - 1, 0)]
    return n + n % 2


@inlined
def intersect(rows: IntArray, n: int, table: Array, leaf_mask: Array) -> None:
    """Write, per tree, the leaves that all of the first ``n`` rows leave reachable; ``n`` > 0."""
    masks = table.reshape(-1)
    width = np.uint64(table.shape[1])
    for k in range(0, n, 2):
        a, b = np.uint64(rows[k]) * width, np.uint64(rows[k + 1]) * width
        if k == 0:
            for t in range(width):
                leaf_mask[t] = masks[a + t] & masks[b + t]
        else:
            for t in range(width):
                leaf_mask[t] &= masks[a + t] & masks[b + t]


@inlined
def add_one(leaf_mask: Array, value: Array, step: np.uint64, n_trees: int, base: float) -> float:
    """Return the base plus the leaves of all trees; ``step`` is the room for a tree."""
    total = base
    first = np.uint64(0)
    for t in range(n_trees):
        total += value[first + np.uint64(trailing_zeros(leaf_mask[t]))]
        first += step
    return total


@inlined
def add_four(
    leaf_mask: Array, value: Array, step: np.uint64, n_trees: int, base: float
) -> tuple[float, float, float, float]:
    """Do the same for four rows side by side.

    Each sum keeps its order, and they do not wait for one another.
    """
    r0, r1, r2, r3 = leaf_mask[0], leaf_mask[1], leaf_mask[2], leaf_mask[3]
    s0 = s1 = s2 = s3 = base
    first = np.uint64(0)
    for t in range(n_trees):
        s0 += value[first + np.uint64(trailing_zeros(r0[t]))]
        s1 += value[first + np.uint64(trailing_zeros(r1[t]))]
        s2 += value[first + np.uint64(trailing_zeros(r2[t]))]
        s3 += value[first + np.uint64(trailing_zeros(r3[t]))]
        first += step
    return s0, s1, s2, s3


@kernel
def predict_masks(
    X: Array,
    features: IntArray,
    grid: FloatArray,
    cuts: FloatArray,
    buckets: Int32Array,
    numbers: FloatArray,
    table: Array,
    leaf_value: Array,
    out: Array,
) -> int:
    """Predict every row of ``X``; return the first row that the library refuses, or -1.

    ``table[cell, tree]`` are the leaf masks; its rows may be longer than there are trees.
    ``leaf_value[tree, leaf]`` are the values. The arguments are flat for the sake of calls with
    one row, see `arrays`.
    """
    named = numbers_of(numbers)
    n = X.shape[0]
    n_trees, width = leaf_value.shape
    value = leaf_value.reshape(-1)
    step = np.uint64(width)
    base = leaf_value.dtype.type(named.base)
    divisor = leaf_value.dtype.type(named.divisor)
    cells = np.empty(features.shape[0], np.int64)
    rows = np.empty(features.shape[0] + 1, np.int64)
    leaf_mask = np.empty((4, table.shape[1]), table.dtype)
    for start in range(0, n, 4):
        group = min(4, n - start)
        for r in range(group):
            if not encode_row(X[start + r], features, grid, cuts, buckets, named, cells):
                return start + r
            n_rows = rows_of(cells, features, -1, rows)
            intersect(rows, n_rows, table, leaf_mask[r])
        if group == 4:
            s0, s1, s2, s3 = add_four(leaf_mask, value, step, n_trees, base)
            out[start] = s0 / divisor
            out[start + 1] = s1 / divisor
            out[start + 2] = s2 / divisor
            out[start + 3] = s3 / divisor
        else:
            for r in range(group):
                out[start + r] = add_one(leaf_mask[r], value, step, n_trees, base) / divisor
    return -1
