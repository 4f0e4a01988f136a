"""From what a user passes as ``X`` to the matrix that the model's library would see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.errors import InputError

if TYPE_CHECKING:
    from treeopt.ensemble import Array


def as_matrix(
    X: Any, n_features: int, names: Sequence[str] | None, dtype: np.dtype[Any], name: str = "X"
) -> Array:
    """Return ``X`` as a C-contiguous matrix of floats with the model's columns in order.

    It is writable, since kernels are compiled apart for arrays that are not.

    Parameters
    ----------
    X : array-like or data frame
        Rows to predict. The columns of a frame are matched by name.
    n_features : int
        Number of columns the model was trained on.
    names : sequence of str or None
        Their names, where the model has them.
    dtype : dtype
        The model's input dtype.
    name : str
        How messages call the argument.

    Raises
    ------
    InputError
        If a column is missing, unknown or not numeric, or the width is wrong.
    """
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        X = _frame_to_array(X, names, name)
        X = X if X.dtype.kind not in "iub" else X.astype(dtype)
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
    if matrix.shape[1] != n_features:
        raise InputError(
            f"{name} has {matrix.shape[1]} columns, the model was trained on {n_features}. "
            "Pass the training columns in their order, or a data frame with their names."
        )
    if matrix.shape[0] == 0:
        raise InputError(f"{name} has no rows. Pass at least one.")
    # All three libraries cast an array that is not float32 or float64 to float32.
    is_float = matrix.dtype in (np.float32, np.float64)
    with np.errstate(over="ignore"):
        return np.require(matrix, matrix.dtype if is_float else np.float32, ["C", "W"])


class NamedPoint:
    """A mapping from names to values, as a frame of one row."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self._values = values
        self.columns = list(values)

    def __getitem__(self, columns: list[str]) -> NamedPoint:
        return NamedPoint({c: self._values[c] for c in columns})

    def to_numpy(self) -> Array:
        """Return the values as a matrix of one row."""
        return np.array([list(self._values.values())])


def spelled(name: str, names: Container[str]) -> str:
    """Return a column's name as the model spells it: LightGBM writes ``_`` for a blank."""
    return name if name in names else name.replace(" ", "_")


def _frame_to_array(X: Any, names: Sequence[str] | None, name: str) -> Array:
    """Return the values of a data frame, its columns in the model's order."""
    known = set(names or ())
    given = {spelled(str(c), known): c for c in X.columns}
    if len(given) != len(X.columns):
        twice = [c for c, n in Counter(map(str, X.columns)).items() if n > 1]
        raise InputError(f"{name} has several columns called {listed(twice)}. Rename or drop them.")
    if names is not None:
        missing = [c for c in names if c not in given]
        unknown = [c for c in given if c not in known]
        if missing or unknown:
            parts = [f"lacks {listed(missing)}"] if missing else []
            parts += [f"has the unknown {listed(unknown)}"] if unknown else []
            raise InputError(
                f"{name} {' and '.join(parts)}. Pass exactly the columns that the model was "
                f"trained on: {listed(names)}."
            )
        X = X[[given[c] for c in names]]
    if not hasattr(X, "iloc"):
        return np.asarray(X.to_numpy())
    for column, kind in zip(X.columns, X.dtypes, strict=True):
        if getattr(kind, "kind", "O") not in "fiub":
            raise InputError(
                f"column {str(column)!r} of {name} has type {kind}: numbers are needed. "
                "Encode it as the model was trained on."
            )
    values = np.asarray(X)
    if values.dtype == object:  # nullable columns, or flags beside numbers
        values = np.asarray(X.to_numpy(dtype=np.float64, na_value=np.nan))
    return values


def listed(names: Sequence[str]) -> str:
    """Return the first few names, quoted, for a message."""
    shown = ", ".join(repr(n) for n in names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
