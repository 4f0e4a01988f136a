"""`Predictor`: trees with predictions, and the conversion of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from treeopt.arguments import read_n_jobs
from treeopt.errors import InputError
from treeopt.model.inputs import NamedPoint, as_matrix, feature_index
from treeopt.model.link import IDENTITY
from treeopt.model.trees import FLOATS, Trees
from treeopt.model.validation import validate
from treeopt.types import Array

if TYPE_CHECKING:
    from treeopt.model.compiled import Compiled


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Predictor(Trees):
    """Valid trees with predictions: `Ensemble` without moves, lines and boxes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        validate(self)

    @cached_property
    def compiled(self) -> Compiled:
        """The arrays that the kernels run on, built when first needed."""
        from treeopt.model.compiled import Compiled

        return Compiled(self)

    def predict(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Predict as the model's own ``predict`` does, bit for bit.

        Parameters
        ----------
        X : array-like of shape (n, n_features) or data frame
            The columns of a frame are matched by name.
        n_jobs : int
            Number of threads; -1 for one per processor.

        Returns
        -------
        array of shape (n,)
            In the dtype of the model's own prediction.

        Examples
        --------
        >>> import numpy as np, treeopt
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor().fit([[0.0], [1.0]], [2.0, 3.0])
        >>> treeopt.from_model(model).predict(np.array([[0.2], [0.9]]))
        array([2., 3.])
        """
        out = self.margin(X, n_jobs=n_jobs)
        return out if self._is_plain else self.link(out)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether the link changes nothing; asked first, since a call costs time."""
        return self.link == IDENTITY

    def margin(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Return the raw score: the sum of the trees (or their mean), before the link.

        The arguments are those of `predict`.

        Examples
        --------
        >>> import treeopt
        >>> from sklearn.ensemble import GradientBoostingClassifier
        >>> X, y = [[0.0], [1.0]], [0, 1]
        >>> model = GradientBoostingClassifier(n_estimators=5).fit(X, y)
        >>> treeopt.from_model(model).margin(X) == model.decision_function(X)
        array([ True,  True])
        """
        matrix = self._matrix(X)
        out, refused = self.compiled.predict(matrix, 1 if n_jobs == 1 else read_n_jobs(n_jobs))
        if refused >= 0:
            self._reject(matrix, refused)
        return out

    def own_sum(self, leaf: Array) -> Array:
        """Return the base and the sum after each tree, added as the model adds them.

        ``leaf`` is one leaf of each tree. The last entry is the total, not yet divided.
        """
        values = self.compiled.leaf_value[leaf]
        sums: Array = np.add.accumulate(np.append(values.dtype.type(self.base), values))
        return sums

    def reads(self, column: int) -> bool:
        """Tell whether a split reads a column."""
        return bool(self.compiled.position[column] >= 0)

    def feature_index(self, feature: int | str) -> int:
        """Return the column of a feature given by name or index."""
        return feature_index(feature, self.feature_names, self.n_features)

    def _point(self, x: Any, name: str = "x") -> Array:
        """Return one point as a new float64 vector.

        ``x`` is a vector, a series, a mapping from names to values, or a frame or matrix of one
        row.
        """
        if isinstance(x, Mapping):
            if self.feature_names is None:
                raise InputError(f"{name} is a mapping, but the model has no names. Pass a vector.")
            x = NamedPoint(x)
        elif hasattr(x, "to_frame") and self.feature_names is not None:
            labeled = self.categories or self.frame_labels
            x = NamedPoint(x) if labeled else x.to_frame().T.infer_objects()
        elif np.ndim(x) == 1:
            x = np.asarray(x)[None, :]
        matrix = self._matrix(x, name)
        if matrix.shape[0] != 1:
            raise InputError(f"{name} has {matrix.shape[0]} rows: pass one point.")
        point: Array = matrix[0].astype(np.float64)
        return point

    def _matrix(self, X: Any, name: str = "X") -> Array:
        """Return ``X`` as the kernels want it; quick when it already is.

        ``name`` is how messages call it.
        """
        if (
            type(X) is not np.ndarray
            or X.dtype not in FLOATS
            or X.ndim != 2
            or X.shape[1] != self.n_features
            or not X.flags.carray
            or not X.shape[0]
        ):
            with np.errstate(all="ignore"):
                X = as_matrix(X, self, name)
        matrix: Array = X
        for first_refused, columns, numbers in self._strict:
            bad = first_refused(matrix, columns, numbers)
            if bad >= 0:
                self._reject(matrix, int(bad), name, columns)
        return matrix

    @cached_property
    def _signed(self) -> dict[float, Self]:
        """The results of `signed`."""
        return {}

    def signed(self, sign: float) -> Self:
        """Return the ensemble whose prediction is the margin times ``sign``.

        The result is cached. It shares all arrays except for values.
        """
        if sign == 1 and self._is_plain:
            return self
        if sign not in self._signed:
            value, base = sign * self.value, sign * self.base
            signed = replace(self, value=value, base=base, link=IDENTITY)
            signed.compiled.adopt(self.compiled)
            self._signed[sign] = signed
        return self._signed[sign]

    @cached_property
    def _strict(self) -> list[tuple[Callable[..., Any], Array, Array]]:
        """Columns that the library checks and the kernels do not: check, columns and numbers."""
        from treeopt.kernels import encode

        strict = []
        if not (self.accepts_nan and self.accepts_inf):
            unread = np.setdiff1d(np.arange(self.n_features), self.compiled.cells.columns)
            strict.append((encode.acceptable, unread, self.compiled.numbers))
        if self.finite_columns.size:
            finite = np.array(self.compiled.scalars._replace(rejects_inf=1.0), np.float64)
            strict.append((encode.acceptable, self.finite_columns, finite))
        return [rule for rule in strict if rule[1].size]

    def _reject(
        self, X: Array, row: int, name: str = "X", columns: Array | None = None
    ) -> NoReturn:
        """Raise the error for a row that the model's library would not accept.

        ``columns`` are those that it was refused for, if they are known.
        """
        with np.errstate(all="ignore"):
            x = X[row].astype(self.input_dtype)
        too_large = " or too large for float32" if self.input_dtype == np.float32 else ""
        what = f"infinite{too_large}" if self.accepts_nan else "not finite"
        bad = np.isinf(x) if self.accepts_nan else ~np.isfinite(x)
        bad_columns = np.flatnonzero(bad)
        if columns is not None:
            bad_columns = bad_columns[np.isin(bad_columns, columns)]
        column = int(bad_columns[0])
        label = self.feature_names[column] if self.feature_names else column
        raise InputError(
            f"{name}[{row}, {column}] (feature {label!r}) is {X[row, column]}, {what}: "
            f"{self.source} refuses such values, so its prediction is not defined. Remove or "
            "replace them."
        )
