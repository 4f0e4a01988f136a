"""`Difference`: the margin of one class minus that of another, as two sums of trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from treeopt.errors import ModelFormatError
from treeopt.model.categories import Categories
from treeopt.model.ensemble import Ensemble
from treeopt.model.link import IDENTITY, Link
from treeopt.types import Array


@dataclass(frozen=True, eq=False, repr=False)
class Difference:
    """The difference of two ensembles, bit-equal to that of the model's own margins.

    Each ensemble is one sum of trees of the same model, without a link. What describes the inputs
    is that of ``plus``. What belongs to one sum of trees (``walker``, ``line``, ``leaf_boxes``)
    is available from ``plus`` and ``minus``.

    Use `treeopt.from_model` with a pair of classes to make one.

    Attributes
    ----------
    plus : Ensemble
        The margin of the first class.
    minus : Ensemble
        The margin of the second class, which is subtracted.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X = [[0.0], [1.0], [2.0]]
    >>> model = GradientBoostingClassifier(n_estimators=5).fit(X, [0, 1, 2])
    >>> difference = treeopt.from_model(model, output="raw", class_index=(2, 0))
    >>> margin = model.decision_function(X)
    >>> difference.predict(X) == margin[:, 2] - margin[:, 0]
    array([ True,  True,  True])
    """

    plus: Ensemble
    minus: Ensemble

    def __post_init__(self) -> None:
        a, b = self.plus, self.minus
        if a.link != IDENTITY or b.link != IDENTITY:
            raise ModelFormatError(f"{a.source}: a difference is one of sums, without a link.")
        for name in ("n_features", "input_dtype", "divisor", "accepts_nan", "accepts_inf"):
            if getattr(a, name) != getattr(b, name):
                raise ModelFormatError(f"{a.source}: the two sums differ in {name}.")
        if a.value.dtype != b.value.dtype:
            raise ModelFormatError(f"{a.source}: the two sums differ in precision.")
        if not np.array_equal(a.missing_value, b.missing_value, equal_nan=True):
            raise ModelFormatError(f"{a.source}: the two sums differ in missing_value.")
        if set(a.categories) != set(b.categories):
            raise ModelFormatError(f"{a.source}: the two sums differ in categories.")

    def __repr__(self) -> str:
        return (
            f"<Difference of {self.source}: {self.n_trees} trees, {self.n_leaves} leaves, "
            f"{self.n_features} features>"
        )

    def predict(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Return the difference of the two margins, bit for bit.

        Parameters
        ----------
        X : array-like of shape (n, n_features) or data frame
            The columns of a frame are matched by name.
        n_jobs : int
            Number of threads; -1 for one per processor.

        Returns
        -------
        array of shape (n,)
            In the dtype of the model's own margins.
        """
        matrix = self._matrix(X)
        plus, minus = (e.predict(matrix, n_jobs=n_jobs) for e in (self.plus, self.minus))
        with np.errstate(all="ignore"):
            difference: Array = plus - minus
        return difference

    def margin(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Return the same as `predict`: there is no link."""
        return self.predict(X, n_jobs=n_jobs)

    @property
    def link(self) -> Link:
        """How the difference becomes the prediction: it is the prediction."""
        return IDENTITY

    @property
    def n_trees(self) -> int:
        """Number of trees of both sums."""
        return self.plus.n_trees + self.minus.n_trees

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return self.plus.n_nodes + self.minus.n_nodes

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return self.plus.n_leaves + self.minus.n_leaves

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.plus.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns where the model has them."""
        return self.plus.feature_names

    @property
    def importances(self) -> Array:
        """Importance of each feature to the whole model; sums to 1."""
        return self.plus.importances

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """Inputs are cast to this before any comparison."""
        return self.plus.input_dtype

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """Arrays that are neither float32 nor float64 become this first."""
        return self.plus.array_dtype

    @property
    def categories(self) -> Mapping[int, Categories]:
        """Categories of the features that have them."""
        return self.plus.categories

    @property
    def frame_labels(self) -> tuple[tuple[Any, ...], ...] | None:
        """Labels of the ``category`` columns of a frame; see `Ensemble`."""
        return self.plus.frame_labels

    @property
    def cast_apart(self) -> str:
        """When the columns of a frame are cast one by one; see `Ensemble`."""
        return self.plus.cast_apart

    @property
    def accepts_nan(self) -> bool:
        """Whether the model's own ``predict`` accepts missing values."""
        return self.plus.accepts_nan

    @property
    def accepts_inf(self) -> bool:
        """Whether the model's own ``predict`` accepts infinite values."""
        return self.plus.accepts_inf

    @property
    def missing_value(self) -> float:
        """One more value that means missing (NaN: none)."""
        return self.plus.missing_value

    @property
    def source(self) -> str:
        """Class of the model, for messages."""
        return self.plus.source

    @property
    def labeled_columns(self) -> list[int]:
        """Features whose categories have labels."""
        return self.plus.labeled_columns

    @property
    def unsure_of_labels(self) -> bool:
        """Whether the labels of categories are known, but not which columns have them."""
        return self.plus.unsure_of_labels

    @property
    def finite_columns(self) -> Array:
        """Features with categories in which the library refuses infinity."""
        return self.plus.finite_columns

    def reads(self, column: int) -> bool:
        """Tell whether a split of either sum reads a column."""
        return self.plus.reads(column) or self.minus.reads(column)

    def signed(self, sign: float) -> Difference:
        """Return the difference times ``sign``, which is 1 or -1."""
        return self if sign > 0 else Difference(self.minus, self.plus)

    def feature_index(self, feature: int | str) -> int:
        """Return the column of a feature given by name or index."""
        return self.plus.feature_index(feature)

    def _point(self, x: Any, name: str = "x") -> Array:
        """Return one point as a new float64 vector."""
        return self.plus._point(x, name)

    def _matrix(self, X: Any, name: str = "X") -> Array:
        """Return ``X`` as the kernels want it."""
        return self.plus._matrix(X, name)


Model: TypeAlias = Ensemble | Difference
"""A converted model."""
