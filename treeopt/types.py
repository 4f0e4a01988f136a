"""Names for the arrays that modules pass to each other."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""An array of any type: an input of the user, or values in the precision of a model."""

FloatArray: TypeAlias = NDArray[np.float64]
Float32Array: TypeAlias = NDArray[np.float32]
IntArray: TypeAlias = NDArray[np.int64]
Int32Array: TypeAlias = NDArray[np.int32]
Int8Array: TypeAlias = NDArray[np.int8]
UInt64Array: TypeAlias = NDArray[np.uint64]
UInt32Array: TypeAlias = NDArray[np.uint32]
BoolArray: TypeAlias = NDArray[np.bool_]
RecordArray: TypeAlias = NDArray[np.void]
"""An array of records: a structured dtype with named fields."""

Point: TypeAlias = FloatArray | dict[str, Any]
"""A point of a search as the user sees it: a vector, or a mapping from names to values."""

Points: TypeAlias = FloatArray | list[dict[str, Any]]
"""Several points: the rows of a matrix, or a list of mappings."""

Seed: TypeAlias = int | np.random.Generator | None
"""What `treeopt.arguments.read_seed` reads."""

Index: TypeAlias = int | np.int64
"""An integer in a kernel, where numba needs to be told its type."""
