"""What may be chosen: the box of a search, and the space of a decision."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.errors import InputError
from treeopt.inputs import is_missing

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
    pairs, _ = _read_pairs(bounds, ensemble, frozenset())
    for k, (low, high) in enumerate(pairs):
        name = _bound_name(k, ensemble)
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InputError(f"{name} is ({low}, {high}). Pass finite numbers.")
        if not abs(high / 2 - low / 2) < np.finfo(float).max / 2:
            raise InputError(f"{name} is ({low}, {high}), too wide for a float. Narrow it.")
    _check_order(pairs, ensemble)
    return Box(pairs[:, 0].copy(), pairs[:, 1].copy())


def _read_pairs(
    bounds: Any, ensemble: Ensemble | None, optional: Collection[int]
) -> tuple[Array, Array | None]:
    """Return one pair per coordinate, NaN where an optional one is not given; and the data."""
    if bounds is None:
        raise InputError("bounds is None. Pass pairs (low, high), a mapping of them, or data.")
    data = None
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = np.broadcast_arrays(*(np.atleast_1d(end) for end in (bounds.lb, bounds.ub)))
        if ensemble is not None and low.size == 1:
            low, high = (np.repeat(end, ensemble.n_features) for end in (low, high))
        pairs: Any = np.column_stack([low, high])
    elif isinstance(bounds, Mapping):
        pairs = _from_mapping(bounds, ensemble, optional)
    elif hasattr(bounds, "columns"):
        pairs, data = _from_data(bounds, ensemble, optional)
    else:
        are_pairs = _are_tuples(bounds)
        pairs = _as_numbers([*map(_open_ended, bounds)] if are_pairs else bounds, "bounds")
        n = None if ensemble is None else ensemble.n_features
        is_data = pairs.ndim == 2 and n is not None and pairs.shape[1] == n
        if is_data and pairs.shape != (n, 2) and not (n == 2 and are_pairs):
            pairs, data = _from_data(pairs, ensemble, optional)
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
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {values!r}, which is not all numbers. Pass pairs (low, high){or_else}."
        ) from None


def _from_mapping(
    bounds: Mapping[Any, Any], ensemble: Ensemble | None, optional: Collection[int]
) -> Array:
    if ensemble is None:
        raise InputError("bounds is a mapping, but fun is no model. Pass a sequence of pairs.")
    pairs = np.full((ensemble.n_features, 2), np.nan)
    given = np.zeros(ensemble.n_features, bool)
    for feature, pair in bounds.items():
        or_else = "; lists of values belong into categories"
        ends = _as_numbers(_open_ended(pair), f"bounds[{feature!r}]", or_else)
        if ends.shape not in ((), (2,)):
            message = "Pass a pair (low, high), or a number to fix it."
            raise InputError(f"bounds[{feature!r}] is {pair!r}. {message}")
        column = _column(feature, "bounds", ensemble)
        if given[column]:
            raise InputError(f"bounds names feature {feature!r} twice. Drop one of them.")
        if np.isnan(ends).any():
            raise InputError(f"bounds[{feature!r}] is {pair!r}. Pass numbers, not NaN.")
        pairs[column], given[column] = ends, True
    missing = [column for column in np.flatnonzero(~given).tolist() if column not in optional]
    if missing:
        raise InputError(
            f"bounds has no pair for {feature_label(missing[0], ensemble)}. "
            "Pass one for each feature; low == high fixes it."
        )
    return pairs


def _from_data(
    data: Any, ensemble: Ensemble | None, optional: Collection[int]
) -> tuple[Array, Array]:
    if ensemble is None:
        raise InputError("bounds is a table of data, but fun is no model. Pass pairs (low, high).")
    try:
        X = ensemble._matrix(data, "bounds").astype(np.float64)
    except InputError as refusal:
        if not optional or not hasattr(data, "columns"):
            raise
        remedy = "Or pass a mapping of pairs, which may leave out what is fixed."
        raise InputError(f"{refusal} {remedy}") from None
    pairs = np.full((ensemble.n_features, 2), np.nan)
    some = np.array(~np.isnan(X).all(axis=0))
    for column in np.flatnonzero(~some).tolist():
        if column not in optional:
            raise InputError(
                f"bounds has no number for {feature_label(column, ensemble)}. Pass pairs "
                "(low, high) instead."
            )
    pairs[some] = np.column_stack([np.nanmin(X[:, some], axis=0), np.nanmax(X[:, some], axis=0)])
    return pairs, X


def _check_order(pairs: Array, ensemble: Ensemble | None) -> None:
    for k in np.flatnonzero(pairs[:, 0] > pairs[:, 1]):
        low, high = pairs[k]
        raise InputError(
            f"{_bound_name(int(k), ensemble)} is ({low}, {high}): the lower end is above the "
            "upper. Swap them."
        )


def _bound_name(k: int, ensemble: Ensemble | None) -> str:
    return f"bounds[{k}]" if ensemble is None else f"the bound of {feature_label(k, ensemble)}"


def _column(feature: Any, name: str, ensemble: Ensemble) -> int:
    """Return the column of a feature that an argument names."""
    try:
        return ensemble.feature_index(feature)
    except InputError as unknown:
        raise InputError(f"{name}: {unknown}") from None


def feature_label(column: int, ensemble: Ensemble) -> str:
    """Return what messages call a feature."""
    names = ensemble.feature_names
    return f"feature {names[column]!r}" if names else f"feature {column}"


@dataclass(frozen=True, eq=False)
class Space:
    """What may be chosen for each feature of a model.

    Attributes
    ----------
    lower, upper : float64 arrays
        Ends as given, both included; they may be infinite, and are NaN for a feature that is fixed
        at a missing value.
    integer : bool array
        Whether only whole numbers count.
    values : mapping from int to array
        The numbers that count, ascending, for features that have a list of them: categories and
        others. There are at least two.
    data : float64 matrix or None
        The rows that the ends were taken from.
    nothing : str
        Why there is no point at all, or nothing.
    """

    lower: Array
    upper: Array
    integer: Array
    values: Mapping[int, Array]
    data: Array | None = None
    nothing: str = ""

    @property
    def fixed(self) -> Array:
        """Whether each feature has only one value."""
        single: Array = (self.lower == self.upper) | np.isnan(self.lower)
        return single


def largest_input(dtype: np.dtype[Any]) -> float:
    """Return the largest finite number that an input may be, in the precision of a model."""
    return float(np.finfo(dtype).max)


def read_space(
    ensemble: Ensemble, bounds: Any, fixed: Any = None, integer: Any = None, categories: Any = None
) -> Space:
    """Return what a user leaves to be chosen; the arguments are those of `treeopt.minimize`.

    A feature with categories is never between two of them, or at one that the model does not know,
    unless it is fixed there.
    """
    values = _listed_values(ensemble, categories)
    fixed_at = _fixed_values(ensemble, fixed)
    pairs, data = _read_pairs(bounds, ensemble, {*fixed_at, *values, *ensemble.categories})
    pairs = pairs.copy()
    is_open = np.isnan(pairs).any(axis=1)
    if data is None and not isinstance(bounds, Mapping):
        for k in np.flatnonzero(is_open):
            name = _bound_name(int(k), ensemble)
            raise InputError(f"{name} is ({pairs[k, 0]}, {pairs[k, 1]}). Pass numbers, not NaN.")
    pairs[is_open] = -np.inf, np.inf
    if data is not None:
        # Codes are no scale: what the data hold of a category says nothing about the others.
        told = {*fixed_at, *values} & set(ensemble.categories)
        pairs[list(told)] = -np.inf, np.inf
    _check_order(pairs, ensemble)
    whole = _integer_features(ensemble, integer, values)

    for column, known in ensemble.categories.items():
        if column in values or column in fixed_at or not len(known):
            continue
        low, high = pairs[column]
        among: Array = np.asarray((low <= known.value) & (known.value <= high))
        if data is not None:
            among &= np.isin(known.value, data[:, column])
        if low < high or among.any():
            values[column] = known.value[among]
    nothing = ""
    for column, numbers in values.items():
        low, high = pairs[column]
        outside = numbers[(numbers < low) | (numbers > high)]
        if outside.size and column not in fixed_at:
            raise InputError(
                f"categories lists {outside[0]:g} for {feature_label(column, ensemble)}, outside "
                f"its bounds ({low:g}, {high:g}). Widen them, or leave it out."
            )
        if not numbers.size:
            nothing = f"no known category of {feature_label(column, ensemble)} is within its bounds"
        else:
            pairs[column] = numbers[0], numbers[-1]
    for column in np.flatnonzero(whole).tolist():
        low, high = pairs[column]
        if np.ceil(low) > np.floor(high):
            nothing = (
                f"no whole number lies between {low:g} and {high:g}, the bounds of "
                f"{feature_label(int(column), ensemble)}"
            )
        else:
            # Infinite ends stay as they are.
            pairs[column] = np.ceil(low), np.floor(high)
    # What the model's precision cannot hold is out of reach.
    largest = largest_input(ensemble.input_dtype)
    for column in range(len(pairs)):
        low, high = pairs[column]
        if column not in fixed_at and (low > largest or high < -largest):
            nothing = (
                f"no finite number lies within the bounds of {feature_label(column, ensemble)}"
            )
    for column, value in fixed_at.items():
        low, high = pairs[column]
        allowed = values.get(column)
        if allowed is not None and value not in allowed and not np.isnan(value):
            raise InputError(
                f"fixed has {value:g} for {feature_label(column, ensemble)}, which is not among "
                "its categories. Fix it at one of them."
            )
        if value < low or value > high:
            raise InputError(
                f"fixed has {value:g} for {feature_label(column, ensemble)}, outside its bounds "
                f"({low:g}, {high:g}). Widen them, or pass bounds as a mapping without it."
            )
        if whole[column] and value != np.round(value) and not np.isnan(value):
            raise InputError(
                f"fixed has {value:g} for {feature_label(column, ensemble)}, which is to be a "
                "whole number. Round it, or leave it out of integer."
            )
        pairs[column] = value
    values = {k: v for k, v in values.items() if v.size > 1 and k not in fixed_at}
    return Space(pairs[:, 0].copy(), pairs[:, 1].copy(), whole, values, data, nothing)


def number_of(value: Any, column: int, ensemble: Ensemble, name: str) -> float:
    """Return the number that stands for a value of a feature, which may be a label."""
    known = ensemble.categories.get(column)
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if known is not None and known.labels and (known.has_numbers or not is_number):
        if isinstance(value, Hashable) and value in known.number_of:
            return known.number_of[value]
        if not is_missing(value):
            raise InputError(f"{name} has {value!r}, which is none of {known!r}. Pass one of them.")
    if is_missing(value):
        return np.nan
    if isinstance(value, bool | np.bool_):
        return float(value)
    if not is_number and ensemble.unsure_of_labels:
        raise InputError(
            f"{name} has {value!r}, but which columns of the model have labels is not sure. Pass "
            "bounds as a frame like the one that it was trained on, or numbers."
        )
    if not is_number:
        raise InputError(f"{name} has {value!r}, which is no number. Pass a number.")
    return float(value)


def _by_feature(given: Any, name: str, ensemble: Ensemble) -> Iterator[tuple[int, Any, Any]]:
    """Yield column, key and value of a mapping by name or number; a series is one too."""
    if getattr(given, "ndim", 0) == 2 and hasattr(given, "iloc") and len(given) == 1:
        given = given.iloc[0]  # a frame of one row
    if hasattr(given, "to_dict"):
        given = given.to_dict()
    if not isinstance(given, Mapping):
        raise InputError(f"{name} is {given!r}. Pass a mapping from names or numbers of features.")
    seen: set[int] = set()
    for key, value in given.items():
        column = _column(key, name, ensemble)
        if column in seen:
            raise InputError(f"{name} names feature {key!r} twice. Drop one of them.")
        seen.add(column)
        yield column, key, value


def _fixed_values(ensemble: Ensemble, fixed: Any) -> dict[int, float]:
    values = {}
    for column, key, given in _by_feature({} if fixed is None else fixed, "fixed", ensemble):
        value = number_of(given, column, ensemble, f"fixed[{key!r}]")
        if np.isnan(value) and not ensemble.accepts_nan:
            raise InputError(
                f"fixed[{key!r}] is missing, which {ensemble.source} refuses. Pass a number."
            )
        with np.errstate(over="ignore"):
            finite = np.isfinite(ensemble.input_dtype.type(value)) or np.isnan(value)
        known = ensemble.categories.get(column)
        if not finite and (not ensemble.accepts_inf or (known is not None and known.finite)):
            raise InputError(
                f"fixed[{key!r}] is {given!r}, which {ensemble.source} refuses. "
                "Pass a finite number."
            )
        values[column] = value
    return values


def _listed_values(ensemble: Ensemble, categories: Any) -> dict[int, Array]:
    values = {}
    given = {} if categories is None else categories
    for column, key, listed_values in _by_feature(given, "categories", ensemble):
        name = f"categories[{key!r}]"
        if isinstance(listed_values, str) or not hasattr(listed_values, "__iter__"):
            raise InputError(f"{name} is {listed_values!r}. Pass a list of the allowed values.")
        numbers = [number_of(v, column, ensemble, name) for v in listed_values]
        array = np.unique(np.array(numbers, np.float64))
        if not array.size:
            raise InputError(f"{name} is empty. List the allowed values.")
        if not np.isfinite(array).all():
            raise InputError(f"{name} has a value that is not finite. Use fixed for missing ones.")
        known = ensemble.categories.get(column)
        if known is not None and not np.isin(array, known.value).all():
            unknown = array[~np.isin(array, known.value)][0]
            raise InputError(f"{name} has {unknown:g}, which is none of {known!r}. Leave it out.")
        values[column] = array
    return values


def _integer_features(ensemble: Ensemble, integer: Any, values: Mapping[int, Array]) -> Array:
    whole = np.zeros(ensemble.n_features, np.bool_)
    if integer is None:
        return whole
    if isinstance(integer, str) or not hasattr(integer, "__iter__"):
        raise InputError(f"integer is {integer!r}. Pass a list of names or numbers of features.")
    for feature in integer:
        column = _column(feature, "integer", ensemble)
        if column in values or column in ensemble.categories:
            raise InputError(
                f"integer names {feature_label(column, ensemble)}, which has categories. Leave it "
                "out; categories lists its values."
            )
        whole[column] = True
    return whole
