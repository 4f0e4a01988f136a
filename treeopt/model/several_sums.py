"""`SeveralSums`: what models that predict from several sums of trees have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.errors import ModelFormatError
from treeopt.model.categories import Categories
from treeopt.model.ensemble import Ensemble
from treeopt.model.link import IDENTITY
from treeopt.types import Array


class SeveralSums:
    """The base of `Difference` and `Softmax`, which are dataclasses.

    Each sum is an ensemble of the same model, without a link. What describes the inputs is that of
    the first sum. What belongs to one sum of trees (``walker``, ``line``, ``leaf_boxes``) is
    available from the sums.
    """

    if TYPE_CHECKING:  # a field of one subclass: at run time it must not find a default here

        @property
        def sums(self) -> tuple[Ensemble, ...]:
            """The sums of trees."""

    def __post_init__(self) -> None:
        first, *others = self.sums
        if any(e.link != IDENTITY for e in self.sums):
            name = type(self).__name__
            raise ModelFormatError(f"{first.source}: a {name} is one of sums, without a link.")
        for other in others:
            for name in ("n_features", "input_dtype", "divisor", "accepts_nan", "accepts_inf"):
                if getattr(first, name) != getattr(other, name):
                    raise ModelFormatError(f"{first.source}: its sums differ in {name}.")
            if first.value.dtype != other.value.dtype:
                raise ModelFormatError(f"{first.source}: its sums differ in precision.")
            if not np.array_equal(first.missing_value, other.missing_value, equal_nan=True):
                raise ModelFormatError(f"{first.source}: its sums differ in missing_value.")
            if set(first.categories) != set(other.categories):
                raise ModelFormatError(f"{first.source}: its sums differ in categories.")

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {self.source}: {self.n_trees} trees, "
            f"{self.n_leaves} leaves, {self.n_features} features>"
        )

    @property
    def n_trees(self) -> int:
        """Number of trees of all sums."""
        return sum(e.n_trees for e in self.sums)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return sum(e.n_nodes for e in self.sums)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return sum(e.n_leaves for e in self.sums)

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.sums[0].n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns where the model has them."""
        return self.sums[0].feature_names

    @property
    def importances(self) -> Array:
        """Importance of each feature to the whole model; sums to 1."""
        return self.sums[0].importances

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """Inputs are cast to this before any comparison."""
        return self.sums[0].input_dtype

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """Arrays that are neither float32 nor float64 become this first."""
        return self.sums[0].array_dtype

    @property
    def categories(self) -> Mapping[int, Categories]:
        """Categories of the features that have them."""
        return self.sums[0].categories

    @property
    def frame_labels(self) -> tuple[tuple[Any, ...], ...] | None:
        """Labels of the ``category`` columns of a frame; see `Ensemble`."""
        return self.sums[0].frame_labels

    @property
    def cast_apart(self) -> str:
        """When the columns of a frame are cast one by one; see `Ensemble`."""
        return self.sums[0].cast_apart

    @property
    def accepts_nan(self) -> bool:
        """Whether the model's own ``predict`` accepts missing values."""
        return self.sums[0].accepts_nan

    @property
    def accepts_inf(self) -> bool:
        """Whether the model's own ``predict`` accepts infinite values."""
        return self.sums[0].accepts_inf

    @property
    def missing_value(self) -> float:
        """One more value that means missing (NaN: none)."""
        return self.sums[0].missing_value

    @property
    def source(self) -> str:
        """Class of the model, for messages."""
        return self.sums[0].source

    @property
    def labeled_columns(self) -> list[int]:
        """Features whose categories have labels."""
        return self.sums[0].labeled_columns

    @property
    def unsure_of_labels(self) -> bool:
        """Whether the labels of categories are known, but not which columns have them."""
        return self.sums[0].unsure_of_labels

    @property
    def finite_columns(self) -> Array:
        """Features with categories in which the library refuses infinity."""
        return self.sums[0].finite_columns

    def reads(self, column: int) -> bool:
        """Tell whether a split of any sum reads a column."""
        return any(e.reads(column) for e in self.sums)

    def feature_index(self, feature: int | str) -> int:
        """Return the column of a feature given by name or index."""
        return self.sums[0].feature_index(feature)

    def _point(self, x: Any, name: str = "x") -> Array:
        """Return one point as a new float64 vector."""
        return self.sums[0]._point(x, name)

    def _matrix(self, X: Any, name: str = "X") -> Array:
        """Return ``X`` as the kernels want it."""
        return self.sums[0]._matrix(X, name)
