"""Read bounds given as pairs, mappings or data, for a search or a decision."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.errors import InputError, shown
from treeopt.model.inputs import listed, spelled
from treeopt.model.joint import unread_columns

if TYPE_CHECKING:
    from treeopt.model.joint import Inputs
    from treeopt.types import Array


def read_bounds(bounds: Any, ensemble: Inputs | None = None) -> tuple[Array, Array]:
    """Return the lower and upper bounds of all coordinates, both included.

    Parameters
    ----------
    bounds : sequence of pairs, scipy Bounds, mapping or data
        One pair ``(low, high)`` per coordinate; ``low == high`` fixes it. For an ensemble, a
        mapping or data are accepted as well. A mapping takes each feature's name or number to its
        pair, or to the number that fixes it. Data are a frame or a matrix with one column per
        feature; the bounds are the minimum and maximum of each column. A matrix of ``n_features``
        rows and two columns is read as pairs.
    ensemble : Ensemble or Difference, optional
        The model whose inputs are chosen.
    """
    pairs, data = read_pairs(bounds, ensemble)
    if data is not None or isinstance(bounds, Mapping):
        check_given(pairs, data is not None, ensemble)
    for k, (low, high) in enumerate(pairs):
        name = bound_name(k, ensemble)
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InputError(f"{name} is ({low}, {high}). Pass finite numbers.")
        if not abs(high / 2 - low / 2) < np.finfo(float).max / 2:
            raise InputError(f"{name} is ({low}, {high}), too wide for a float. Narrow it.")
    check_order(pairs, ensemble)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def read_pairs(
    bounds: Any,
    ensemble: Inputs | None,
    labels: Sequence[Any] | None = None,
) -> tuple[Array, Array | None]:
    """Return one pair per coordinate, NaN if none is given, and the data, if there are any.

    Parameters
    ----------
    bounds, ensemble
        As in `read_bounds`.
    labels : sequence, optional
        Column names of the user's frame, see `column_of`.
    """
    if bounds is None:
        raise InputError("bounds is None. Pass pairs (low, high), a mapping of them, or data.")
    data = None
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = np.broadcast_arrays(*(np.atleast_1d(side) for side in (bounds.lb, bounds.ub)))
        if ensemble is not None and low.size == 1:
            low, high = (np.repeat(side, ensemble.n_features) for side in (low, high))
        pairs: Any = np.column_stack([low, high])
    elif isinstance(bounds, Mapping):
        pairs = _from_mapping(bounds, ensemble, labels)
    elif hasattr(bounds, "columns"):
        pairs, data = _from_data(bounds, ensemble)
    else:
        are_pairs = _are_tuples(bounds)
        pairs = _as_numbers([*map(_none_to_inf, bounds)] if are_pairs else bounds, "bounds")
        n = None if ensemble is None else ensemble.n_features
        is_data = pairs.ndim == 2 and n is not None and pairs.shape[1] == n
        if is_data and pairs.shape != (n, 2) and not (n == 2 and are_pairs):
            pairs, data = _from_data(pairs, ensemble)
    pairs = _as_numbers(pairs, "bounds")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        data_or = "" if ensemble is None else f", or data with {ensemble.n_features} columns"
        raise InputError(
            f"bounds has shape {pairs.shape}. Pass one pair (low, high) per coordinate{data_or}."
        )
    if ensemble is not None and len(pairs) != ensemble.n_features:
        given = "1 pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
        raise InputError(
            f"bounds has {given}, but the model has {ensemble.n_features} features. "
            "Pass one pair for each feature."
        )
    return pairs, data


def _are_tuples(bounds: Any) -> bool:
    """Return whether bounds are tuples: pairs, not rows of data of a model with two features."""
    return isinstance(bounds, Sequence) and all(isinstance(pair, tuple) for pair in bounds)


def _none_to_inf(pair: Any) -> Any:
    """Return a pair with None replaced by an infinite bound."""
    if isinstance(pair, tuple | list) and len(pair) == 2:
        low, high = pair
        return -np.inf if low is None else low, np.inf if high is None else high
    return pair


def _as_numbers(values: Any, name: str, or_else: str = "") -> Array:
    try:
        if np.asarray(values).dtype.kind in "US":
            raise ValueError
        return np.array(values, np.float64)
    except OverflowError:
        raise InputError(
            f"{name} has a number beyond {np.finfo(float).max:g}, the maximum float. Pass inf or "
            "None if there is no bound."
        ) from None
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {shown(values)}. Pass pairs (low, high) of numbers{or_else}."
        ) from None


def _from_mapping(
    bounds: Mapping[Any, Any], ensemble: Inputs | None, labels: Sequence[Any] | None
) -> Array:
    if ensemble is None:
        raise InputError("bounds is a mapping, but fun is not a model. Pass a sequence of pairs.")
    pairs = np.full((ensemble.n_features, 2), np.nan)
    given = np.zeros(ensemble.n_features, bool)
    for feature, pair in bounds.items():
        or_else = ", or pass a list of values as categories"
        numbers = _as_numbers(_none_to_inf(pair), f"bounds[{feature!r}]", or_else)
        if numbers.shape not in ((), (2,)):
            message = "Pass a pair (low, high), or one number to fix the feature."
            raise InputError(f"bounds[{feature!r}] is {shown(pair)}. {message}")
        column = column_of(feature, "bounds", ensemble, labels)
        if given[column]:
            raise InputError(f"bounds names feature {feature!r} twice. Remove one entry.")
        if np.isnan(numbers).any():
            raise InputError(f"bounds[{feature!r}] is {shown(pair)}. Pass numbers, not NaN.")
        pairs[column], given[column] = numbers, True
    return pairs


def _from_data(data: Any, ensemble: Inputs | None) -> tuple[Array, Array]:
    if ensemble is None:
        raise InputError(
            "bounds is a table of data, but fun is not a model. Pass pairs (low, high)."
        )
    _refuse_summary(data)
    X = ensemble._matrix(data, "bounds").astype(np.float64)
    _mask_missing(X, ensemble)
    pairs = np.full((ensemble.n_features, 2), np.nan)
    some = np.array(~np.isnan(X).all(axis=0))
    pairs[some] = np.column_stack([np.nanmin(X[:, some], axis=0), np.nanmax(X[:, some], axis=0)])
    return pairs, X


def _mask_missing(X: Array, ensemble: Inputs) -> None:
    """Replace missing values by NaN: the model's own missing value, and -1 among codes.

    A label is never missing, even if its code equals the model's missing value.
    """
    with np.errstate(over="ignore"):
        missing = X.astype(ensemble.input_dtype) == ensemble.missing_value
    missing[:, ensemble.labeled_columns] = False
    missing[:, unread_columns(ensemble)] = False
    X[missing] = np.nan
    for column, known in ensemble.categories.items():
        own = X[:, column]
        is_code = (own >= -1) & (own == np.trunc(own))
        # LightGBM may treat a column of other numbers as categories. Then -1 is a value like any.
        if known.are_codes and (is_code | np.isnan(own)).all():
            own[own == -1] = np.nan


def _refuse_summary(data: Any) -> None:
    """Raise an error for the summary that ``DataFrame.describe`` returns: its rows are not data."""
    rows = {str(row) for row in getattr(data, "index", ())[:20]} if hasattr(data, "iloc") else set()
    if {"count", "mean", "min", "max"} <= rows:
        raise InputError(
            "bounds is a summary returned by describe(), with rows such as 'count' and 'mean', "
            "not data. Pass the frame itself. If all columns are numeric, you can also pass only "
            "the rows 'min' and 'max': bounds.loc[['min', 'max']]."
        )


def check_given(
    pairs: Array,
    is_data: bool,
    ensemble: Inputs | None,
    optional: Collection[int] = (),
    or_else: str = "",
) -> None:
    """Raise an error if a feature has no bounds and is not optional.

    ``or_else`` is what else the user can do, for the message.
    """
    without = [k for k in np.flatnonzero(np.isnan(pairs).any(axis=1)) if k not in optional]
    if ensemble is None or not without:
        return
    name = feature_label(int(without[0]), ensemble)
    if is_data:
        raise InputError(f"bounds has no number for {name}. Pass pairs (low, high) instead.")
    more = f" and {len(without) - 1} more" if len(without) > 1 else ""
    raise InputError(
        f"bounds has no pair for {name}{more}. Pass a pair (low, high) for each feature{or_else}."
    )


def check_order(pairs: Array, ensemble: Inputs | None) -> None:
    """Raise an error if a lower bound is above its upper bound."""
    for k in np.flatnonzero(pairs[:, 0] > pairs[:, 1]):
        low, high = pairs[k]
        raise InputError(
            f"{bound_name(int(k), ensemble)} is ({low}, {high}): the lower bound is above the "
            "upper bound. Swap them."
        )


def bound_name(k: int, ensemble: Inputs | None) -> str:
    """Return the name of a coordinate's bound for messages."""
    return f"bounds[{k}]" if ensemble is None else f"the bound of {feature_label(k, ensemble)}"


def column_of(
    feature: Any,
    name: str,
    ensemble: Inputs,
    labels: Sequence[Any] | None = None,
    *,
    by_label: bool = False,
) -> int:
    """Return the column of the feature that an argument names.

    Parameters
    ----------
    feature : str, int or label
        Name or number of the feature.
    name : str
        Name of the argument for messages.
    ensemble : Ensemble or Difference
        The model.
    labels : sequence, optional
        Column names of the user's frame. A name may be a number that is not the column's position.
    by_label : bool
        If True, match names only, not positions, as for a row of a frame.
    """
    names: Sequence[Any] = ensemble.feature_names or ()
    by_name = _column_called(feature, labels or (), names)
    try:
        by_position = ensemble.feature_index(feature)
    except InputError as unknown:
        if by_name is not None:
            return by_name
        if isinstance(feature, str) and not (labels or names):
            raise InputError(
                f"{name}: feature {feature!r} is unknown, because {ensemble.source} has no feature "
                f"names. Pass a number in 0..{ensemble.n_features - 1} instead of the name (x[0] "
                "in the text of a constraint). Or pass bounds as a frame with one column per "
                "feature, in the order of training, and use its names."
            ) from None
        raise InputError(f"{name}: {unknown}") from None
    if by_name is None and by_label and (labels or names):
        known = listed(labels or names)
        raise InputError(f"{name}: feature {feature!r} is unknown. Known names: {known}.")
    if by_name is None or by_label or isinstance(feature, str):
        return by_position if by_name is None else by_name
    if by_name != by_position:
        called = (labels or names)[by_position]
        raise InputError(
            f"{name}: {feature!r} may mean the column of that name, or column number "
            f"{by_position}, whose name is {called!r}. Pass names as strings: {str(feature)!r}."
        )
    return by_position


def _column_called(feature: Any, labels: Sequence[Any], names: Sequence[Any]) -> int | None:
    """Return the column with this name in the frame or the model; None if there is none."""
    if not (labels or names) or not isinstance(feature, Hashable):
        return None
    for same in (lambda label: label == feature, lambda label: str(label) == feature):
        for j, label in enumerate(labels):
            if same(label):
                return j
    spelling = spelled(str(feature), names)
    return names.index(spelling) if spelling in names else None


def feature_label(column: int, ensemble: Inputs) -> str:
    """Return the name of a feature for messages."""
    names = ensemble.feature_names
    return f"feature {names[column]!r}" if names else f"feature {column}"
