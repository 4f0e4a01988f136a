"""Batch prediction by leaf masks, for trees of at most 64 leaves.

For each tree, the leaves that one feature's cell leaves reachable are a bit mask, stored for every
cell in advance. An input reaches the one leaf whose bit survives the intersection over all
features: no branch, no pointer, contiguous reads over all trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.encode import BASE, DIVISOR, FIRST_ROW, encode_row
from treeopt.kernels.jit import kernel, trailing_zeros


@kernel
def intersect(cells: Any, features: Any, table: Any, reach: Any) -> None:
    """Write, per tree, the leaves that are reachable in the given cell of every feature."""
    n_trees = reach.size
    n = features.shape[0]
    if n % 2:
        a = table[features[0, FIRST_ROW] + cells[0]]
        for t in range(n_trees):
            reach[t] = a[t]
    else:
        a = table[features[0, FIRST_ROW] + cells[0]]
        b = table[features[1, FIRST_ROW] + cells[1]]
        for t in range(n_trees):
            reach[t] = a[t] & b[t]
    for j in range(2 - n % 2, n, 2):
        a = table[features[j, FIRST_ROW] + cells[j]]
        b = table[features[j + 1, FIRST_ROW] + cells[j + 1]]
        for t in range(n_trees):
            reach[t] &= a[t] & b[t]


@kernel
def predict_masks(
    X: Any,
    features: Any,
    grid: Any,
    cuts: Any,
    buckets: Any,
    numbers: Any,
    table: Any,
    leaf_value: Any,
    out: Any,
) -> Any:
    """Predict every row of ``X``; return the first row that the library refuses, or -1.

    Four rows are summed side by side: each sum keeps its order, and they do not wait for one
    another.
    """
    n = X.shape[0]
    n_trees, width = leaf_value.shape
    value = leaf_value.reshape(-1)
    step = np.uint64(width)
    base = leaf_value.dtype.type(numbers[BASE])
    divisor = leaf_value.dtype.type(numbers[DIVISOR])
    cells = np.empty(features.shape[0], np.int64)
    reach = np.empty((4, n_trees), table.dtype)
    for start in range(0, n, 4):
        rows = min(4, n - start)
        for r in range(rows):
            if not encode_row(X[start + r], features, grid, cuts, buckets, numbers, cells):
                return start + r
            intersect(cells, features, table, reach[r])
        first = np.uint64(0)
        if rows == 4:
            r0, r1, r2, r3 = reach[0], reach[1], reach[2], reach[3]
            s0 = s1 = s2 = s3 = base
            for t in range(n_trees):
                s0 += value[first + np.uint64(trailing_zeros(r0[t]))]
                s1 += value[first + np.uint64(trailing_zeros(r1[t]))]
                s2 += value[first + np.uint64(trailing_zeros(r2[t]))]
                s3 += value[first + np.uint64(trailing_zeros(r3[t]))]
                first += step
            out[start] = s0 / divisor
            out[start + 1] = s1 / divisor
            out[start + 2] = s2 / divisor
            out[start + 3] = s3 / divisor
        else:
            for r in range(rows):
                r0 = reach[r]
                s0 = base
                first = np.uint64(0)
                for t in range(n_trees):
                    s0 += value[first + np.uint64(trailing_zeros(r0[t]))]
                    first += step
                out[start + r] = s0 / divisor
    return -1
