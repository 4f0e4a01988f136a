"""`Trees`: the arrays and numbers that describe a model, without any way to evaluate them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from treeopt.model.categories import Categories
from treeopt.model.link import IDENTITY, Link
from treeopt.types import Array, BoolArray, FloatArray, Int32Array, IntArray

_DTYPES = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "value": None,
    "default_left": np.bool_,
    "zero_missing": np.bool_,
    "category_set": np.int32,
    "set_start": np.int64,
    "set_member": np.int32,
    "tree_start": np.int64,
    "importances": np.float64,
}
"""The arrays of an ensemble; values keep the precision in which they are added."""

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
"""Precisions of inputs and sums."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Trees:
    """The fields of `Ensemble`, which documents them, and what follows from them directly.

    Modules that `Ensemble` is built from take this class or `predictor.Predictor`, so that none of
    them imports `Ensemble`.
    """

    feature: Int32Array
    threshold: FloatArray
    left: Int32Array
    right: Int32Array
    value: Array
    default_left: BoolArray
    zero_missing: BoolArray
    tree_start: IntArray
    category_set: Int32Array = field(default_factory=lambda: np.zeros(0, np.int32))
    set_start: IntArray = field(default_factory=lambda: np.zeros(1, np.int64))
    set_member: Int32Array = field(default_factory=lambda: np.zeros(0, np.int32))
    n_features: int
    feature_names: tuple[str, ...] | None
    importances: FloatArray
    input_dtype: np.dtype[Any]
    array_dtype: np.dtype[Any] = FLOATS[0]
    base: float = 0.0
    divisor: float = 1.0
    link: Link = IDENTITY
    categories: Mapping[int, Categories] = field(default_factory=dict)
    frame_labels: tuple[tuple[Any, ...], ...] | None = None
    cast_apart: str = "never"
    accepts_nan: bool = True
    accepts_inf: bool = True
    missing_value: float = np.nan
    source: str = "Ensemble"

    def __post_init__(self) -> None:
        if not len(self.category_set):
            object.__setattr__(self, "category_set", np.full(len(self.left), -1, np.int32))
        object.__setattr__(self, "categories", MappingProxyType(dict(self.categories)))
        for name, dtype in _DTYPES.items():
            # A view: the caller's own array stays as it is.
            array = np.ascontiguousarray(getattr(self, name), dtype).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __getstate__(self) -> dict[str, Any]:
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**state, "categories": dict(self.categories)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.tree_start.size - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return int(self.left.size)

    @cached_property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int(np.count_nonzero(self.left < 0))

    @property
    def unsure_of_labels(self) -> bool:
        """Whether the labels of categories are known, but not which columns have them."""
        return bool(self.frame_labels) and not self.labeled_columns

    @cached_property
    def labeled_columns(self) -> list[int]:
        """The features whose categories have labels."""
        return [j for j, known in self.categories.items() if known.labels]

    @cached_property
    def finite_columns(self) -> IntArray:
        """The features with categories in which the library refuses infinity."""
        return np.array([j for j, known in self.categories.items() if known.finite], np.int64)
