"""Reading bounds: pairs, mappings and data, for a search and for a decision."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.errors import InputError, shown
from treeopt.model.inputs import listed, spelled

if TYPE_CHECKING:
    from treeopt.model.difference import Model
    from treeopt.types import Array


class Box(NamedTuple):
    """Lower and upper end of every coordinate, both included."""

    lower: Array
    upper: Array

    @property
    def free(self) -> Array:
        """The coordinates that are not fixed."""
        return np.flatnonzero(self.lower < self.upper)


def read_bounds(bounds: Any, ensemble: Model | None = None) -> Box:
    """Return the box that a user means.

    Parameters
    ----------
    bounds : sequence of pairs, scipy Bounds, mapping or data
        A pair ``(low, high)`` for each coordinate; ``low == high`` fixes it. For an ensemble also a
        mapping from every feature's name or number to its pair, or to the number that fixes it; or
        data, a frame or a matrix with one column per feature, whose least and largest values are
        the ends. A matrix of ``n_features`` rows and two columns is taken for pairs.
    ensemble : Ensemble or Difference
        The model whose inputs are chosen, if there is one.
    """
    pairs, data = read_pairs(bounds, ensemble)
    if data is not None or isinstance(bounds, Mapping):
        check_given(pairs, data is not None, (), ensemble)
    for k, (low, high) in enumerate(pairs):
        name = bound_name(k, ensemble)
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InputError(f"{name} is ({low}, {high}). Pass finite numbers.")
        if not abs(high / 2 - low / 2) < np.finfo(float).max / 2:
            raise InputError(f"{name} is ({low}, {high}), too wide for a float. Narrow it.")
    check_order(pairs, ensemble)
    return Box(pairs[:, 0].copy(), pairs[:, 1].copy())


def read_pairs(
    bounds: Any,
    ensemble: Model | None,
    labels: Sequence[Any] | None = None,
    partly: bool = False,
) -> tuple[Array, Array | None]:
    """Return one pair per coordinate, NaN where none is given; and the data.

    ``labels`` are what a frame calls the columns of the model, see `column_of`; ``partly`` tells
    whether some features may be left out, for the messages.
    """
    if bounds is None:
        raise InputError("bounds is None. Pass pairs (low, high), a mapping of them, or data.")
    data = None
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = np.broadcast_arrays(*(np.atleast_1d(end) for end in (bounds.lb, bounds.ub)))
        if ensemble is not None and low.size == 1:
            low, high = (np.repeat(end, ensemble.n_features) for end in (low, high))
        pairs: Any = np.column_stack([low, high])
    elif isinstance(bounds, Mapping):
        pairs = _from_mapping(bounds, ensemble, labels)
    elif hasattr(bounds, "columns"):
        pairs, data = _from_data(bounds, ensemble, partly)
    else:
        are_pairs = _are_tuples(bounds)
        pairs = _as_numbers([*map(_open_ended, bounds)] if are_pairs else bounds, "bounds")
        n = None if ensemble is None else ensemble.n_features
        is_data = pairs.ndim == 2 and n is not None and pairs.shape[1] == n
        if is_data and pairs.shape != (n, 2) and not (n == 2 and are_pairs):
            pairs, data = _from_data(pairs, ensemble, partly)
    pairs = _as_numbers(pairs, "bounds")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        data_or = "" if ensemble is None else f", or data with {ensemble.n_features} columns"
        raise InputError(
            f"bounds has shape {pairs.shape}. Pass one pair (low, high) for each coordinate"
            f"{data_or}."
        )
    if ensemble is not None and len(pairs) != ensemble.n_features:
        raise InputError(
            f"bounds has {len(pairs)} pairs, and the model {ensemble.n_features} features. "
            "Pass one pair for each."
        )
    return pairs, data


def _are_tuples(bounds: Any) -> bool:
    """Tell pairs from rows of a model with two features."""
    return isinstance(bounds, Sequence) and all(isinstance(pair, tuple) for pair in bounds)


def _open_ended(pair: Any) -> Any:
    """Return a pair with infinite ends for those that are None."""
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
            f"{name} has a number beyond {np.finfo(float).max:g}, the largest float. Pass inf, or "
            "None, where there is no bound."
        ) from None
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {shown(values)}, which is not all numbers. Pass pairs (low, high){or_else}."
        ) from None


def _from_mapping(
    bounds: Mapping[Any, Any], ensemble: Model | None, labels: Sequence[Any] | None
) -> Array:
    if ensemble is None:
        raise InputError("bounds is a mapping, but fun is no model. Pass a sequence of pairs.")
    pairs = np.full((ensemble.n_features, 2), np.nan)
    given = np.zeros(ensemble.n_features, bool)
    for feature, pair in bounds.items():
        or_else = ", or a list of values as categories"
        ends = _as_numbers(_open_ended(pair), f"bounds[{feature!r}]", or_else)
        if ends.shape not in ((), (2,)):
            message = "Pass a pair (low, high), or a number to fix it."
            raise InputError(f"bounds[{feature!r}] is {shown(pair)}. {message}")
        column = column_of(feature, "bounds", ensemble, labels)
        if given[column]:
            raise InputError(f"bounds names feature {feature!r} twice. Drop one of them.")
        if np.isnan(ends).any():
            raise InputError(f"bounds[{feature!r}] is {shown(pair)}. Pass numbers, not NaN.")
        pairs[column], given[column] = ends, True
    return pairs


def _from_data(data: Any, ensemble: Model | None, partly: bool) -> tuple[Array, Array]:
    if ensemble is None:
        raise InputError("bounds is a table of data, but fun is no model. Pass pairs (low, high).")
    _refuse_summary(data)
    try:
        X = ensemble._matrix(data, "bounds").astype(np.float64)
    except InputError as refusal:
        if not partly or not hasattr(data, "columns"):
            raise
        remedy = "Or pass a mapping of pairs, which may leave out what is fixed."
        raise InputError(f"{refusal} {remedy}") from None
    _forget_missing(X, ensemble)
    pairs = np.full((ensemble.n_features, 2), np.nan)
    some = np.array(~np.isnan(X).all(axis=0))
    pairs[some] = np.column_stack([np.nanmin(X[:, some], axis=0), np.nanmax(X[:, some], axis=0)])
    return pairs, X


def _forget_missing(X: Array, ensemble: Model) -> None:
    """Write NaN wherever data mean missing: the model's own number for it, and -1 among codes.

    A label is not missing, even if its code is the number that means so to the model.
    """
    with np.errstate(over="ignore"):
        missing = X.astype(ensemble.input_dtype) == ensemble.missing_value
    missing[:, ensemble.labelled_columns] = False
    X[missing] = np.nan
    for column, known in ensemble.categories.items():
        own = X[:, column]
        is_code = (own >= -1) & (own == np.trunc(own))
        # LightGBM may take a column of other numbers for categories: all of them count.
        if known.are_codes and (is_code | np.isnan(own)).all():
            own[own == -1] = np.nan


def _refuse_summary(data: Any) -> None:
    """Refuse the summary that ``describe`` makes of a frame: its rows are no data."""
    rows = {str(row) for row in getattr(data, "index", ())[:20]} if hasattr(data, "iloc") else set()
    if {"count", "mean", "min", "max"} <= rows:
        raise InputError(
            "bounds is a summary as describe() returns it, with rows such as 'count' and 'mean', "
            "not data. Pass the frame itself; or, if all its columns are numbers, the rows 'min' "
            "and 'max' alone: bounds.loc[['min', 'max']]."
        )


def check_given(
    pairs: Array, is_data: bool, optional: Collection[int], ensemble: Model | None
) -> None:
    """Refuse bounds that lack a feature, unless it is optional."""
    for column in np.flatnonzero(np.isnan(pairs).any(axis=1)).tolist():
        if ensemble is None or column in optional:
            continue
        name = feature_label(column, ensemble)
        if is_data:
            raise InputError(f"bounds has no number for {name}. Pass pairs (low, high) instead.")
        raise InputError(
            f"bounds has no pair for {name}. Pass one for each feature; low == high fixes it."
        )


def check_order(pairs: Array, ensemble: Model | None) -> None:
    """Refuse pairs whose lower bound is above the upper one."""
    for k in np.flatnonzero(pairs[:, 0] > pairs[:, 1]):
        low, high = pairs[k]
        raise InputError(
            f"{bound_name(int(k), ensemble)} is ({low}, {high}): the lower end is above the "
            "upper. Swap them."
        )


def bound_name(k: int, ensemble: Model | None) -> str:
    """Return what messages call the bound of a coordinate."""
    return f"bounds[{k}]" if ensemble is None else f"the bound of {feature_label(k, ensemble)}"


def column_of(
    feature: Any,
    name: str,
    ensemble: Model,
    labels: Sequence[Any] | None = None,
    *,
    by_label: bool = False,
) -> int:
    """Return the column of a feature that an argument names.

    Parameters
    ----------
    feature : str, int or label
        Name or number of the feature.
    name : str
        How messages call the argument.
    ensemble : Ensemble or Difference
        The model.
    labels : sequence
        What the user's frame calls the columns of the model, if there is one. Columns may be called
        by numbers that are not their positions.
    by_label : bool
        Whether only labels count, as in a row of a frame.
    """
    names: Sequence[Any] = ensemble.feature_names or ()
    by_name = _called(feature, labels or (), names)
    try:
        by_position = ensemble.feature_index(feature)
    except InputError as unknown:
        if by_name is None:
            raise InputError(f"{name}: {unknown}") from None
        return by_name
    if by_name is None and by_label and (labels or names):
        known = listed(labels or names)
        raise InputError(f"{name}: feature {feature!r} is unknown. Known names: {known}.")
    if by_name is None or by_label or isinstance(feature, str):
        return by_position if by_name is None else by_name
    if by_name != by_position:
        called = (labels or names)[by_position]
        raise InputError(
            f"{name}: {feature!r} may mean the column of that name, or column number "
            f"{by_position}, whose name is {called!r}. Pass names as text: {str(feature)!r}."
        )
    return by_position


def _called(feature: Any, labels: Sequence[Any], names: Sequence[Any]) -> int | None:
    """Return the column that is called so by a frame or by the model; None if there is none."""
    if not (labels or names) or not isinstance(feature, Hashable):
        return None
    for same in (lambda label: label == feature, lambda label: str(label) == feature):
        for j, label in enumerate(labels):
            if same(label):
                return j
    spelling = spelled(str(feature), names)
    return names.index(spelling) if spelling in names else None


def feature_label(column: int, ensemble: Model) -> str:
    """Return what messages call a feature."""
    names = ensemble.feature_names
    return f"feature {names[column]!r}" if names else f"feature {column}"
