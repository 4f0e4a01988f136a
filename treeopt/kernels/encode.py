"""From an input value to the cell it falls into.

Cell ``k`` of a feature with cuts ``c[0] < c[1] < ...`` is ``(c[k-1], c[k]]``; so the cell of ``x``
is the number of cuts below ``x``. One more cell, the last, stands for a missing value.

The search starts in a table of equal-width buckets. ``(x - origin) * scale`` never decreases with
``x``, not even after rounding, so a cut in a lower bucket is below ``x`` and one in a higher
bucket is not: only the cuts inside the bucket of ``x`` are left to compare, usually one or none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import inlined, kernel

# Columns of the integer table that describes each feature that the model uses.
COLUMN = 0  # the column of X
FIRST_CUT = 1  # where its cuts begin in `cuts`
FIRST_BUCKET = 2  # where its bucket table begins in `buckets`
N_BUCKETS = 3
NAN_CELL = 4  # the cell of a missing value
FIRST_ROW = 5  # where its cells begin when the cells of all features are numbered through
N_COLUMNS = 6

# Positions in the vector of numbers that describe the whole model.
BASE = 0  # the sum starts here
DIVISOR = 1  # and is divided by this
MISSING = 2  # one more value that means missing (NaN: none)
FLOAT32 = 3  # 1: inputs are cast to float32 first
REJECTS_NAN = 4  # 1: the library refuses NaN
REJECTS_INF = 5  # 1: the library refuses infinities (after the cast)
N_NUMBERS = 6


@inlined
def cast(x: Any, numbers: Any) -> Any:
    """Return ``x`` as the model sees it: in its precision, NaN where it counts as missing."""
    y = np.float64(np.float32(x)) if numbers[FLOAT32] == 1.0 else np.float64(x)
    return np.nan if y == numbers[MISSING] else y


@inlined
def refused(y: Any, numbers: Any) -> Any:
    """Tell whether the model's library refuses this (cast) value."""
    rejects_nan, rejects_inf = numbers[REJECTS_NAN] == 1.0, numbers[REJECTS_INF] == 1.0
    return (rejects_nan & np.isnan(y)) | (rejects_inf & np.isinf(y))


@inlined
def locate(y: Any, j: Any, features: Any, grid: Any, cuts: Any, buckets: Any) -> Any:
    """Return the cell of a (cast) value of feature ``j``.

    Parameters
    ----------
    y : float
        The value after `cast`.
    j : int
        The feature.
    features : int64 array
        The table of features, one row each.
    grid : float64 array
        Origin and scale of the buckets of each feature.
    cuts, buckets : arrays
        Cuts and bucket starts of all features, one after the other.
    """
    at = (y - grid[j, 0]) * grid[j, 1]
    at = at if at > 0.0 else 0.0
    at = min(at, np.float64(features[j, N_BUCKETS] - 1))
    bucket = np.uint64(features[j, FIRST_BUCKET] + np.int64(at))
    low = np.int64(buckets[bucket])
    high = np.int64(buckets[bucket + np.uint64(1)])
    first = features[j, FIRST_CUT]
    while low < high:
        middle = (low + high) >> 1
        if y > cuts[np.uint64(first + middle)]:
            low = middle + 1
        else:
            high = middle
    return features[j, NAN_CELL] if np.isnan(y) else low


@inlined
def encode_row(
    x: Any, features: Any, grid: Any, cuts: Any, buckets: Any, numbers: Any, cells: Any
) -> Any:
    """Write the cells of one row; return False if the model's library refuses a value."""
    accepted = True
    for j in range(features.shape[0]):
        y = cast(x[features[j, COLUMN]], numbers)
        accepted &= not refused(y, numbers)
        cells[j] = locate(y, j, features, grid, cuts, buckets)
    return accepted


@kernel
def acceptable(X: Any, columns: Any, numbers: Any) -> Any:
    """Return the first row with a value in these columns that the library refuses, or -1."""
    for i in range(X.shape[0]):
        for k in range(columns.size):
            if refused(cast(X[i, columns[k]], numbers), numbers):
                return i
    return -1
