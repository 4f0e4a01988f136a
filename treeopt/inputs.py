"""From what a user passes as ``X`` to the matrix that the model's library would see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.errors import InputError

if TYPE_CHECKING:
    from treeopt.ensemble import Array


def as_matrix(
    X: Any, n_features: int, names: Sequence[str] | None, dtype: np.dtype[Any], name: str = "X"
) -> Array:
    """Return ``X`` as a C-contiguous matrix of floats with the model's columns in order.

    Parameters
    ----------
    X : array-like or data frame
        Rows to predict. The columns of a frame are matched by name.
    n_features : int
        Number of columns the model was trained on.
    names : sequence of str or None
        Their names, where the model has them.
    dtype : dtype
        The model's input dtype. Integers are cast to it directly, as the libraries do; float32 and
        float64 are left as they are.
    name : str
        How messages call the argument.

    Raises
    ------
    InputError
        If a column is missing, unknown or not numeric, or the width is wrong.
    """
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        X = _frame_to_array(X, n_features, names, name)
    elif hasattr(X, "toarray"):
        raise InputError(f"{name} is a sparse matrix. Pass {name}.toarray().")
    matrix = np.asarray(X)
    if matrix.dtype.kind not in "fiub":
        raise InputError(
            f"{name} holds values of type {matrix.dtype}: numbers are needed. "
            "Encode text and dates as the model was trained on."
        )
    if matrix.ndim != 2:
        hint = f"Pass {name}.reshape(1, -1) for one row." if matrix.ndim == 1 else ""
        raise InputError(f"{name} has {matrix.ndim} dimensions, 2 are needed. {hint}".rstrip())
    if matrix.shape[1] != n_features:
        raise InputError(
            f"{name} has {matrix.shape[1]} columns, the model was trained on {n_features}. "
            "Pass the training columns in their order, or a data frame with their names."
        )
    if matrix.shape[0] == 0:
        raise InputError(f"{name} has no rows. Pass at least one.")
    wanted = matrix.dtype if matrix.dtype in (np.float32, np.float64) else dtype
    return np.ascontiguousarray(matrix, wanted)


def _frame_to_array(X: Any, n_features: int, names: Sequence[str] | None, name: str) -> Array:
    given = [str(c) for c in X.columns]
    if len(set(given)) != len(given):
        twice = sorted({c for c in given if given.count(c) > 1})
        raise InputError(f"{name} has several columns called {_listed(twice)}. Rename them.")
    if names is not None:
        missing = [c for c in names if c not in given]
        unknown = [c for c in given if c not in names]
        if missing or unknown:
            parts = [f"lacks {_listed(missing)}"] if missing else []
            parts += [f"has unknown {_listed(unknown)}"] if unknown else []
            raise InputError(
                f"{name} {' and '.join(parts)}. Pass exactly the columns that the model was "
                f"trained on: {_listed(names)}."
            )
        X = X[[X.columns[given.index(c)] for c in names]]
    for column, kind in zip(X.columns, X.dtypes, strict=True):
        if getattr(kind, "kind", "O") not in "fiub":
            raise InputError(
                f"column {str(column)!r} of {name} has type {kind}: numbers are needed. "
                "Encode it as the model was trained on."
            )
    return _numbers(X)


def _numbers(X: Any) -> Array:
    """Return the frame's values in one dtype that loses nothing (nullable columns: NaN)."""
    if any(not isinstance(kind, np.dtype) for kind in X.dtypes):
        values: Array = X.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = X.to_numpy()
    return values


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
