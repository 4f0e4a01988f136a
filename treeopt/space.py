"""What may be chosen: the box of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.errors import InputError

if TYPE_CHECKING:
    from treeopt.ensemble import Array, Ensemble


class Box(NamedTuple):
    """Lower and upper end of every coordinate, both included."""

    lower: Array
    upper: Array

    @property
    def free(self) -> Array:
        """The coordinates that are not fixed."""
        return np.flatnonzero(self.lower < self.upper)


def read_bounds(bounds: Any, ensemble: Ensemble | None = None) -> Box:
    """Return the box that a user means.

    Parameters
    ----------
    bounds : sequence of pairs, scipy Bounds, mapping or data
        A pair ``(low, high)`` for each coordinate; ``low == high`` fixes it. For an ensemble also a
        mapping from every feature's name or number to its pair, or to the number that fixes it; or
        data, a frame or a matrix with one column per feature, whose least and largest values are
        the ends. A matrix of ``n_features`` rows and two columns is taken for pairs.
    ensemble : Ensemble
        The model whose inputs are chosen, if there is one.
    """
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = np.broadcast_arrays(*(np.atleast_1d(end) for end in (bounds.lb, bounds.ub)))
        if ensemble is not None and low.size == 1:
            low, high = (np.repeat(end, ensemble.n_features) for end in (low, high))
        pairs: Any = np.column_stack([low, high])
    elif isinstance(bounds, Mapping):
        pairs = _from_mapping(bounds, ensemble)
    elif hasattr(bounds, "columns"):
        pairs = _from_data(bounds, ensemble)
    else:
        pairs = _as_numbers(bounds, "bounds")
        n = None if ensemble is None else ensemble.n_features
        is_data = pairs.ndim == 2 and n is not None and pairs.shape[1] == n
        if is_data and pairs.shape != (n, 2):
            pairs = _from_data(pairs, ensemble)
    pairs = _as_numbers(pairs, "bounds")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise InputError(
            f"bounds has shape {pairs.shape}. Pass one pair (low, high) for each coordinate."
        )
    if ensemble is not None and len(pairs) != ensemble.n_features:
        raise InputError(
            f"bounds has {len(pairs)} pairs, and the model {ensemble.n_features} features. "
            "Pass one pair for each."
        )
    _check_ends(pairs, ensemble)
    return Box(pairs[:, 0].copy(), pairs[:, 1].copy())


def _as_numbers(values: Any, name: str) -> Array:
    try:
        return np.array(values, np.float64)
    except (TypeError, ValueError):
        message = f"{name} is {values!r}, not a table of numbers. Pass pairs (low, high)."
        raise InputError(message) from None


def _from_mapping(bounds: Mapping[Any, Any], ensemble: Ensemble | None) -> Array:
    if ensemble is None:
        raise InputError("bounds is a mapping, but fun is no model. Pass a sequence of pairs.")
    pairs = np.empty((ensemble.n_features, 2))
    given = np.zeros(ensemble.n_features, bool)
    for feature, pair in bounds.items():
        ends = _as_numbers(pair, f"bounds[{feature!r}]")
        if ends.shape not in ((), (2,)):
            message = "Pass a pair (low, high), or a number to fix it."
            raise InputError(f"bounds[{feature!r}] is {pair!r}. {message}")
        column = ensemble.feature_index(feature)
        if given[column]:
            raise InputError(f"bounds names feature {feature!r} twice. Drop one of them.")
        pairs[column], given[column] = ends, True
    missing = np.flatnonzero(~given)
    if missing.size:
        raise InputError(
            f"bounds has no pair for {_label(int(missing[0]), ensemble)}. "
            "Pass one for each feature; low == high fixes it."
        )
    return pairs


def _from_data(data: Any, ensemble: Ensemble | None) -> Array:
    if ensemble is None:
        raise InputError("bounds is a table of data, but fun is no model. Pass pairs (low, high).")
    X = ensemble._matrix(data, "bounds").astype(np.float64)
    if np.isnan(X).all(axis=0).any() or not len(X):
        raise InputError("bounds has a column without numbers. Pass pairs (low, high) instead.")
    return np.column_stack([np.nanmin(X, axis=0), np.nanmax(X, axis=0)])


def _check_ends(pairs: Array, ensemble: Ensemble | None) -> None:
    for k, (low, high) in enumerate(pairs):
        name = f"bounds[{k}]" if ensemble is None else f"the bound of {_label(k, ensemble)}"
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InputError(f"{name} is ({low}, {high}). Pass finite numbers.")
        if not abs(high / 2 - low / 2) < np.finfo(float).max / 2:
            raise InputError(f"{name} is ({low}, {high}), too wide for a float. Narrow it.")
        if low > high:
            raise InputError(
                f"{name} is ({low}, {high}): the lower end is above the upper. Swap them."
            )


def _label(column: int, ensemble: Ensemble) -> str:
    names = ensemble.feature_names
    return f"feature {names[column]!r}" if names else f"feature {column}"
