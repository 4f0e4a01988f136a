"""From an input value to the cell it falls into.

Cell ``k`` of a feature with cuts ``c[0] < c[1] < ...`` is ``(c[k-1], c[k]]``; so the cell of ``x``
is the number of cuts below ``x``. One more cell, the last, stands for a missing value.

The search starts in a table of equal-width buckets. ``(x - origin) * scale`` never decreases with
``x``, not even after rounding, so a cut in a lower bucket is below ``x`` and one in a higher
bucket is not: only the cuts inside the bucket of ``x`` are left to compare, usually one or none.
"""

from __future__ import annotations

import numpy as np

from treeopt.kernels.arrays import Feature, Numbers, Whole
from treeopt.kernels.jit import inlined, kernel
from treeopt.types import Array, FloatArray, Int32Array, IntArray

FIRST_ROW = Feature._fields.index("first_row")


@inlined
def numbers_of(vector: FloatArray) -> Numbers:
    """Name the numbers of a vector."""
    return Numbers(vector[0], vector[1], vector[2], vector[3], vector[4], vector[5])


@inlined
def feature_of(j: int, features: IntArray, grid: FloatArray) -> Feature:
    """Name the numbers that describe feature ``j``."""
    return Feature(
        features[j, 0],
        features[j, 1],
        features[j, 2],
        features[j, 3],
        features[j, 4],
        features[j, 5],
        grid[j, 0],
        grid[j, 1],
    )


@inlined
def cast(x: float, numbers: Numbers) -> float:
    """Return ``x`` as the model sees it: in its precision, NaN where it counts as missing."""
    y = np.float64(np.float32(x)) if numbers.float32 == 1.0 else np.float64(x)
    return np.nan if y == numbers.missing else y


@inlined
def refused(y: float, numbers: Numbers) -> bool:
    """Tell whether the model's library refuses this (cast) value."""
    rejects_nan, rejects_inf = numbers.rejects_nan == 1.0, numbers.rejects_inf == 1.0
    is_refused: bool = (rejects_nan & np.isnan(y)) | (rejects_inf & np.isinf(y))
    return is_refused


@inlined
def locate(y: float, feature: Feature, cuts: FloatArray, buckets: Int32Array) -> Whole:
    """Return the cell of a (cast) value of a feature."""
    at = (y - feature.origin) * feature.scale
    at = at if at > 0.0 else 0.0
    at = min(at, np.float64(feature.n_buckets - 1))
    bucket = np.uint64(feature.first_bucket + np.int64(at))
    low = np.int64(buckets[bucket])
    high = np.int64(buckets[bucket + np.uint64(1)])
    while low < high:
        middle = (low + high) >> 1
        if y > cuts[np.uint64(feature.first_cut + middle)]:
            low = middle + 1
        else:
            high = middle
    return feature.nan_cell if np.isnan(y) else low


@inlined
def encode_row(
    x: Array,
    features: IntArray,
    grid: FloatArray,
    cuts: FloatArray,
    buckets: Int32Array,
    numbers: Numbers,
    cells: IntArray,
) -> bool:
    """Write the cells of one row; return False if the model's library refuses a value."""
    accepted = True
    for j in range(features.shape[0]):
        feature = feature_of(j, features, grid)
        y = cast(x[feature.column], numbers)
        accepted &= not refused(y, numbers)
        cells[j] = locate(y, feature, cuts, buckets)
    return accepted


@kernel
def acceptable(X: Array, columns: IntArray, numbers: FloatArray) -> int:
    """Return the first row with a value in these columns that the library refuses, or -1."""
    named = numbers_of(numbers)
    for i in range(X.shape[0]):
        for k in range(columns.size):
            if refused(cast(X[i, columns[k]], named), named):
                return i
    return -1
