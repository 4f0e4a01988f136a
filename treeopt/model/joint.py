"""`Joint`: the inputs of several models, or of none, as one table of columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from treeopt.errors import InputError
from treeopt.model.categories import Categories
from treeopt.model.difference import Difference
from treeopt.model.ensemble import Ensemble
from treeopt.model.inputs import NamedPoint, as_matrix, feature_index, listed, spelled
from treeopt.model.softmax import Softmax
from treeopt.model.trees import FLOATS
from treeopt.types import Array, IntArray

Model: TypeAlias = Ensemble | Difference | Softmax
"""A converted model."""


@dataclass(frozen=True, eq=False, repr=False)
class Joint:
    """The columns that several models read, or that have bounds if there is no model.

    It describes inputs as a model does: names, categories, missing values.

    Attributes
    ----------
    n_features : int
        Number of columns.
    feature_names : tuple of str or None
        Names of the columns; None if they have none.
    models : tuple of Ensemble, Difference or Softmax
        The models.
    to_columns : tuple of int64 arrays
        For each model, the column that each of its own columns is.
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    models: tuple[Model, ...] = ()
    to_columns: tuple[IntArray, ...] = ()

    @property
    def unsure_of_labels(self) -> bool:
        """Whether the labels of categories are known, but not which columns have them."""
        return False

    @property
    def frame_labels(self) -> None:
        """Labels of the ``category`` columns of a frame: the models know them by column."""

    @property
    def cast_apart(self) -> str:
        """When the columns of a frame are cast one by one; see `Ensemble`."""
        return "always"

    @property
    def source(self) -> str:
        """The models, for messages."""
        sources = list(dict.fromkeys(model.source for model in self.models))
        return " and ".join(sources) or "the problem"

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """The lowest precision of all models."""
        return min(
            (m.input_dtype for m in self.models), default=FLOATS[1], key=lambda d: d.itemsize
        )

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """Arrays that are neither float32 nor float64 become this first."""
        return FLOATS[1]

    @cached_property
    def categories(self) -> Mapping[int, Categories]:
        """Categories of the features that have them in a model."""
        found: dict[int, Categories] = {}
        for model, to_column in zip(self.models, self.to_columns, strict=True):
            for column, known in model.categories.items():
                found.setdefault(int(to_column[column]), known)
        return found

    @property
    def accepts_nan(self) -> bool:
        """Whether all models accept missing values."""
        return all(model.accepts_nan for model in self.models) and bool(self.models)

    @property
    def accepts_inf(self) -> bool:
        """Whether all models accept infinite values."""
        return all(model.accepts_inf for model in self.models) and bool(self.models)

    @property
    def missing_value(self) -> float:
        """One more value that means missing; NaN if there is none."""
        return next(
            (m.missing_value for m in self.models if m.missing_value == m.missing_value), np.nan
        )

    @property
    def labeled_columns(self) -> list[int]:
        """The features whose categories have labels."""
        return [j for j, known in self.categories.items() if known.labels]

    @property
    def importances(self) -> Array:
        """Importance of each feature, averaged over the models; sums to 1."""
        total = np.zeros(self.n_features)
        for model, to_column in zip(self.models, self.to_columns, strict=True):
            total[to_column] += model.importances
        return total / total.sum() if total.sum() > 0 else np.full(total.size, 1 / total.size)

    def reads(self, column: int) -> bool:
        """Return whether a split of any model reads a column."""
        return any(
            model.reads(int(own))
            for model, to_column in zip(self.models, self.to_columns, strict=True)
            for own in np.flatnonzero(to_column == column)
        )

    def feature_index(self, feature: int | str) -> int:
        """Return the column of a feature given by name or index."""
        return feature_index(feature, self.feature_names, self.n_features)

    def _point(self, x: Any, name: str = "x") -> Array:
        """Return one point as a new float64 vector."""
        if isinstance(x, Mapping) or hasattr(x, "to_frame"):
            if self.feature_names is None:
                raise InputError(f"{name} has names, but the columns have none. Pass a vector.")
            x = NamedPoint(x)
        elif np.ndim(x) == 1:
            x = np.asarray(x)[None, :]
        matrix = self._matrix(x, name)
        if matrix.shape[0] != 1:
            raise InputError(f"{name} has {matrix.shape[0]} rows: pass one point.")
        point: Array = matrix[0].astype(np.float64)
        return point

    def _matrix(self, X: Any, name: str = "X") -> Array:
        """Return ``X`` as a matrix of numbers; each model reads its own columns of a frame."""
        if not (self.models and hasattr(X, "columns")):
            matrix = as_matrix(X, self, name)
            for model, to_column in zip(self.models, self.to_columns, strict=True):
                model._matrix(np.ascontiguousarray(matrix[:, to_column]), name)
            return matrix
        known = self.feature_names or tuple(map(str, range(self.n_features)))
        given = {spelled(str(c), known): c for c in X.columns}
        missing = [c for c in known if c not in given]
        unknown = [str(c) for c in given if c not in known]
        if missing or unknown or len(given) != len(X.columns):
            wrong = f"lacks {listed(missing)}" if missing else f"has the unknown {listed(unknown)}"
            raise InputError(
                f"{name} {wrong}. Pass exactly the columns of the models: {listed(known)}."
            )
        matrix = np.full((1 if isinstance(X, NamedPoint) else len(X), self.n_features), np.nan)
        for model, to_column in zip(self.models, self.to_columns, strict=True):
            own = model._matrix(X[[given[known[column]] for column in to_column]], name)
            matrix[:, to_column] = own
        unread = unread_columns(self)
        if unread.size:
            names = tuple(known[column] for column in unread)
            own = as_matrix(X[[given[n] for n in names]], Joint(unread.size, names), name)
            matrix[:, unread] = own
        return matrix


Inputs: TypeAlias = Ensemble | Difference | Softmax | Joint
"""What describes the inputs of a problem: its model, or all of its models."""


def unread_columns(inputs: Inputs) -> IntArray:
    """Return the columns that no model has."""
    if not isinstance(inputs, Joint) or not inputs.models:
        return np.empty(0, np.int64)
    return np.setdiff1d(np.arange(inputs.n_features), np.concatenate(inputs.to_columns))


def join(
    models: Sequence[Model],
    names: Sequence[str] | None,
    n_columns: int | None,
    mentioned: Collection[str] = (),
) -> Inputs:
    """Return the inputs of some models.

    Parameters
    ----------
    models : sequence of Ensemble, Difference or Softmax
        The models.
    names : sequence of str or None
        Names of the columns that the bounds list.
    n_columns : int or None
        Number of columns that the bounds list; used if there is no model.
    mentioned : collection of str
        Names in constraints and costs. Listed columns with these names are added if no model reads
        them.
    """
    distinct = list({id(model): model for model in models}.values())
    named = [model for model in distinct if model.feature_names]
    read = {name for model in named for name in model.feature_names or ()}
    more = [n for n in names or () if named and n in mentioned and spelled(n, read) not in read]
    if len(distinct) == 1 and not more:
        return distinct[0]
    if not distinct:
        if n_columns is None:
            raise InputError(
                "bounds do not tell the columns of the problem, which has no model. Pass a frame, "
                "or a mapping from names to pairs (low, high)."
            )
        return Joint(n_columns, None if names is None else tuple(names))
    all_names: list[str] = []
    for model in named:
        for name in _as_listed(model, names, read):
            if spelled(name, all_names) not in all_names:
                all_names.append(name)
    n = len(all_names) if named else distinct[0].n_features
    to_columns = []
    for model in distinct:
        if model.feature_names:
            own_names = _as_listed(model, names, read)
            own = [all_names.index(spelled(name, all_names)) for name in own_names]
        elif model.n_features != n:
            raise InputError(
                f"{model.source} has {model.n_features} features without names, but the other "
                f"models have {n}. Train it on a frame, so that its columns have names."
            )
        else:
            own = list(range(n))
        to_columns.append(np.array(own, np.int64))
    joint = Joint(
        n + len(more), (*all_names, *more) if named else None, tuple(distinct), tuple(to_columns)
    )
    _check_agreement(joint)
    return joint


def _as_listed(model: Model, names: Sequence[str] | None, read: Collection[str]) -> list[str]:
    """Return the names of a model's columns, as the bounds spell them where they list them.

    Other names are spelled as another model does that has blanks in them. ``read`` has the names of
    all models.
    """
    own = model.feature_names or ()
    found = {spelled(name, own): name for name in read if " " in name}
    found |= {spelled(name, own): name for name in names or ()}
    found |= {name: name for name in names or () if name in own}
    return [found.get(name, name) for name in own]


def _check_agreement(joint: Joint) -> None:
    """Raise an error if models read a column in ways that cannot be combined."""
    if len({repr(model.missing_value) for model in joint.models}) > 1:
        raise InputError(
            f"{joint.source} differ in the number that means missing. Train them with the same "
            "`missing`, or with NaN."
        )
    dtypes = {model.input_dtype for model in joint.models}
    if not np.isnan(joint.models[0].missing_value) and len(dtypes) > 1:
        raise InputError(
            f"{joint.source} read numbers in different precisions, so that different numbers mean "
            "missing. Train them with `missing=NaN`."
        )
    for model, to_column in zip(joint.models, joint.to_columns, strict=True):
        if model.unsure_of_labels:
            raise InputError(
                f"it is unknown which columns of {model.source} have labels. Pass bounds as a "
                "frame like the training frame."
            )
        for own, column in enumerate(to_column):
            first, known = joint.categories.get(int(column)), model.categories.get(own)
            if first is known or first is None:
                continue
            name = joint.feature_names[column] if joint.feature_names else column
            if known is None and first.labels and not first.are_values:
                raise InputError(
                    f"feature {name!r} is a category with labels in one model and a number in "
                    f"{model.source}. Train the models on columns of the same types."
                )
            if known is not None and known.number_of != first.number_of:
                raise InputError(
                    f"the models number the labels of feature {name!r} differently: {first} and "
                    f"{known}. Train them on a column whose categories are the same and sorted, "
                    f"such as X[{name!r}].cat.reorder_categories(sorted(...))."
                )
