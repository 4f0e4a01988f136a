"""From what a user passes as ``X`` to the matrix that the model's library would see."""

from __future__ import annotations

import warnings
from bisect import bisect
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np

from treeopt.errors import InputError
from treeopt.model.categories import Categories
from treeopt.types import Array

EXACT = 2.0**53
"""Integers up to this magnitude are exact in float64."""


class Described(Protocol):
    """What describes the columns of a matrix; `Ensemble` documents the attributes."""

    @property
    def n_features(self) -> int: ...  # noqa: D102
    @property
    def feature_names(self) -> tuple[str, ...] | None: ...  # noqa: D102
    @property
    def categories(self) -> Mapping[int, Categories]: ...  # noqa: D102
    @property
    def frame_labels(self) -> tuple[tuple[Any, ...], ...] | None: ...  # noqa: D102
    @property
    def unsure_of_labels(self) -> bool: ...  # noqa: D102
    @property
    def cast_apart(self) -> str: ...  # noqa: D102
    @property
    def input_dtype(self) -> np.dtype[Any]: ...  # noqa: D102
    @property
    def array_dtype(self) -> np.dtype[Any]: ...  # noqa: D102


def as_matrix(X: Any, ensemble: Described, name: str = "X") -> Array:
    """Return ``X`` as a C-contiguous matrix of floats with the model's columns in order.

    It is writable, because kernels are compiled separately for read-only arrays.

    Parameters
    ----------
    X : array-like or data frame
        Rows to predict. The columns of a frame are matched by name, labels become numbers.
    ensemble : Described
        The model's columns.
    name : str
        How messages call the argument.

    Raises
    ------
    InputError
        If a column is missing, unknown or not numeric, or the width is wrong.
    """
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        X = _frame_to_array(X, ensemble, name)
        X = X if X.dtype.kind not in "iub" else X.astype(ensemble.input_dtype)
    elif hasattr(X, "toarray"):
        raise InputError(f"{name} is a sparse matrix. Pass {name}.toarray().")
    try:
        matrix = np.asarray(X)
    except ValueError as error:
        text = str(error).rstrip(".")
        raise InputError(f"{name} is not a matrix: {text}. Make all rows equally long.") from None
    if X is None or isinstance(X, Mapping):
        raise InputError(f"{name} is {type(X).__name__}: pass a matrix of numbers or a frame.")
    if matrix.dtype.kind not in "fiub":
        raise InputError(
            f"{name} holds values of type {matrix.dtype}: real numbers are needed. "
            "Encode text and dates as the model was trained on."
        )
    if matrix.ndim != 2:
        one_row = "to_frame().T" if hasattr(X, "to_frame") else "reshape(1, -1)"
        hint = f" For one row, pass {name}.{one_row}." if matrix.ndim == 1 else ""
        raise InputError(f"{name} is {matrix.ndim}-dimensional: a matrix is needed.{hint}")
    if matrix.shape[1] != ensemble.n_features:
        raise InputError(
            f"{name} has {matrix.shape[1]} columns, the model was trained on "
            f"{ensemble.n_features}. "
            "Pass the training columns in their order, or a data frame with their names."
        )
    if matrix.shape[0] == 0:
        raise InputError(f"{name} has no rows. Pass at least one.")
    is_float = matrix.dtype in (np.float32, np.float64)
    with np.errstate(over="ignore"):
        return np.require(matrix, matrix.dtype if is_float else ensemble.array_dtype, ["C", "W"])


class NamedPoint:
    """A mapping from names to values, as a frame of one row."""

    def __init__(self, values: Any) -> None:
        self._values = dict(values)
        self.columns = list(self._values)

    def __getitem__(self, columns: list[str]) -> NamedPoint:
        return NamedPoint({c: self._values[c] for c in columns})

    def to_numpy(self, ensemble: Described, name: str) -> Array:
        """Return the values, labels of categories as numbers, as a matrix of one row."""
        row = list(self._values.values())
        unsure = ensemble.unsure_of_labels
        for j, value in enumerate(row):
            known = ensemble.categories.get(j)
            is_number = isinstance(value, int | float | np.number)
            # Where labels are text, a number can only be a code.
            if known is not None and known.labels and (known.has_numbers or not is_number):
                row[j] = _number(value, known, self.columns[j], name)
            elif is_missing(value):
                row[j] = np.nan
            elif unsure and (not is_number or some_numbers(ensemble.frame_labels)):
                raise InputError(
                    f"{name}[{self.columns[j]!r}] is {value!r}, but it is unknown which columns "
                    f"of the model have labels. Pass {name} as a frame of one row, or as a vector."
                )
        return np.array([row])


def some_numbers(lists: tuple[tuple[Any, ...], ...] | None) -> bool:
    """Tell whether some labels of some columns are numbers."""
    return any(isinstance(label, int | float) for labels in lists or () for label in labels)


def is_missing(value: Any) -> bool:
    """Tell whether a value of a frame or a point is missing: None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither true nor false
        return True
    except ValueError:  # an array is many values
        return False


def spelled(name: str, names: Container[str]) -> str:
    """Return a column's name as the model spells it: LightGBM writes ``_`` for a blank."""
    return name if name in names else name.replace(" ", "_")


def _frame_to_array(X: Any, ensemble: Described, name: str) -> Array:
    """Return the values of a data frame, its columns in the model's order."""
    names = ensemble.feature_names
    known = set(names or ())
    given = {spelled(str(c), known): c for c in X.columns}
    if len(given) != len(X.columns):
        names_given = Counter(spelled(str(c), known) for c in X.columns)
        twice = [c for c, n in names_given.items() if n > 1]
        raise InputError(f"{name} has several columns called {listed(twice)}. Rename or drop them.")
    if names is not None:
        missing = [c for c in names if c not in given]
        unknown = [str(c) for own, c in given.items() if own not in known]
        if missing or unknown:
            parts = [f"lacks {listed(missing)}"] if missing else []
            parts += [f"has the unknown {listed(unknown)}"] if unknown else []
            raise InputError(
                f"{name} {' and '.join(parts)}. Pass exactly the columns that the model was "
                f"trained on: {listed(names)}."
            )
        X = X[[given[c] for c in names]]
    if isinstance(X, NamedPoint):
        return X.to_numpy(ensemble, name)
    if not hasattr(X, "iloc"):
        return np.asarray(X.to_numpy())
    recoded = _recoded_columns(X, ensemble, name)
    for j, (column, kind) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        if j not in recoded and getattr(kind, "kind", "O") not in "fiub":
            raise InputError(
                f"column {str(column)!r} of {name} has type {kind}: numbers are needed. "
                "Encode it as the model was trained on."
            )
    if recoded:
        matrix = np.empty(X.shape)
        for j in range(X.shape[1]):
            own = X.iloc[:, j]
            numbers = recoded[j] if j in recoded else own.to_numpy(np.float64, na_value=np.nan)
            matrix[:, j] = numbers
        return _cast_apart(matrix, X, ensemble)
    values = np.asarray(X)
    if values.dtype == object and all(str(kind) in ("int64", "bool") for kind in X.dtypes):
        values = np.asarray(X.to_numpy(dtype=np.int64))
    elif values.dtype == object:  # nullable columns, or flags beside numbers
        values = np.asarray(X.to_numpy(dtype=np.float64, na_value=np.nan))
    return _cast_apart(values, X, ensemble)


def _cast_apart(matrix: Array, X: Any, ensemble: Described) -> Array:
    """Return the matrix of a frame, with large integers cast as the library casts them.

    float64 does not hold all integers, so casting them to it first would round them twice.
    """
    early = any(
        getattr(kind, "kind", "O") == "b" or hasattr(kind, "numpy_dtype") for kind in X.dtypes
    )
    apart = ensemble.cast_apart == "always" or (ensemble.cast_apart == "nullable" and early)
    if not apart or matrix.dtype != np.float64:
        return matrix
    for j, kind in enumerate(X.dtypes):
        if getattr(kind, "kind", "O") in "iu" and (np.abs(matrix[:, j]) > EXACT).any():
            large = np.abs(matrix[:, j]) > EXACT
            matrix = np.array(matrix)
            own = X.iloc[:, j].to_numpy(ensemble.input_dtype, na_value=np.nan)
            matrix[large, j] = own[large]
    return matrix


def _recoded_columns(X: Any, ensemble: Described, name: str) -> dict[int, Array]:
    """Return the numbers of the columns whose categories are read by labels or codes."""
    with_labels = [j for j, kind in enumerate(X.dtypes) if hasattr(kind, "categories")]
    if ensemble.frame_labels is None:
        wanted = {j: known for j, known in ensemble.categories.items() if known.recode != "codes"}
        wanted |= {j: ensemble.categories[j] for j in with_labels if j in ensemble.categories}
        return {j: _recoded(X.iloc[:, j], known, name) for j, known in wanted.items()}
    if len(with_labels) != len(ensemble.frame_labels):
        given = listed([str(X.columns[j]) for j in with_labels]) or "none"
        raise InputError(
            f"the category columns of {name} are {given}, but the frame that the model was trained "
            f"on had {len(ensemble.frame_labels)}. Give the columns the types that they had."
        )
    recoded = {}
    for j, labels in zip(with_labels, ensemble.frame_labels, strict=True):
        code = {label: float(k) for k, label in enumerate(labels)}
        own = X.iloc[:, j].cat
        table = np.array([*(code.get(label, np.nan) for label in own.categories), np.nan])
        recoded[j] = table[np.asarray(own.codes)]
    return recoded


def _recoded(column: Any, known: Categories, name: str) -> Array:
    """Return the numbers that stand for the categories of a frame's column."""
    label = str(column.name)
    has_labels = hasattr(column.dtype, "categories")
    if has_labels and known.recode == "refused":
        raise InputError(
            f"column {label!r} of {name} is a category column, but the model keeps no labels that "
            "it could be matched with. Pass an array of the codes that the model was trained on."
        )
    if not has_labels and known.recode == "sorted":
        raise InputError(
            f"column {label!r} of {name} has type {column.dtype}, but the model was trained on a "
            f"category column: {known}. Pass one with these labels, or an array of codes."
        )
    if not has_labels:
        is_number = getattr(column.dtype, "kind", "O") in "fiub"
        if is_number and (known.recode == "refused" or known.are_values):
            return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
        if is_number and not known.has_numbers:
            raise InputError(
                f"column {label!r} of {name} has type {column.dtype}, but the model was trained on "
                f"labels: {known}. Pass a column with these labels."
            )
        return np.array([_number(v, known, label, name) for v in column], np.float64)
    codes = np.asarray(column.cat.codes)
    if known.recode == "codes":
        return np.where(codes < 0, np.nan, codes)
    table = np.array([*(_number(v, known, label, name) for v in column.cat.categories), np.nan])
    recoded: Array = table[codes]
    return recoded


def _number(value: Any, known: Categories, column: str, name: str) -> float:
    """Return the number that stands for a label; NaN if it is missing or not known."""
    number = None if value is not None and is_missing(value) else known.find(value)
    if number is not None or is_missing(value) or known.recode != "sorted":
        return np.nan if number is None else number
    # XGBoost looks an unknown label up in sorted order and takes what it finds.
    labels = sorted(known.number_of)
    at = bisect(labels, value) if type(value) is type(labels[0]) else len(labels)
    if at >= len(labels):
        raise InputError(
            f"column {column!r} of {name} has the label {value!r}, which the model does not know: "
            f"{known}. XGBoost refuses it. Pass a known label or a missing value."
        )
    warnings.warn(
        f"column {column!r} of {name} has the label {value!r}, which the model does not know: "
        f"XGBoost takes it for {labels[at]!r}, and so does treeopt.",
        stacklevel=2,
    )
    return known.number_of[labels[at]]


def feature_index(feature: int | str, names: Sequence[str] | None, n: int) -> int:
    """Return the column of a feature given by name or index."""
    if isinstance(feature, str):
        names = names or ()
        if spelled(feature, names) in names:
            return names.index(spelled(feature, names))
        known = listed(names) or f"none. Pass a number in 0..{n - 1}"
        meant = "".join(f" Did you mean {n!r}?" for n in get_close_matches(feature, names, 1))
        raise InputError(f"feature {feature!r} is unknown.{meant} Known names: {known}.")
    whole = isinstance(feature, int | np.integer) and not isinstance(feature, bool)
    if not whole or not 0 <= feature < n:
        raise InputError(f"feature is {feature!r}: pass a name, or a number in 0..{n - 1}.")
    return int(feature)


def listed(names: Sequence[str]) -> str:
    """Return the first few names, quoted, for a message."""
    shown = ", ".join(repr(n) for n in names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
