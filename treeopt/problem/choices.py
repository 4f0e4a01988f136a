"""Read the allowed inputs from the arguments bounds, integer, categories and fixed.

`read_choices` reads what is the same for every question. `Choices.fix` adds the fixed values of one
question.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.errors import InputError, shown
from treeopt.model.categories import Categories
from treeopt.model.frames import Columns
from treeopt.model.inputs import is_missing, some_numbers
from treeopt.model.joint import Inputs, unread_columns
from treeopt.problem.bounds import (
    bound_name,
    check_given,
    check_order,
    column_of,
    feature_label,
    read_pairs,
)
from treeopt.problem.space import Space, largest_input
from treeopt.types import Array, BoolArray

MAX_CODES = 2**20
"""Maximum number of category codes within the bounds of a feature."""


@dataclass(frozen=True, eq=False)
class Choices:
    """The allowed inputs, before any feature is fixed.

    The value of a feature with categories is always a category that the model or the user lists,
    unless the feature is fixed at another value.

    Attributes
    ----------
    inputs : Inputs
        The model whose inputs are chosen, or what describes the columns of several models.
    columns : Columns or None
        The columns of the frame passed as bounds.
    pairs : float64 matrix
        Lower and upper bound of each feature; NaN if none are given.
    data : float64 matrix or None
        The rows passed as bounds.
    values : mapping from int to array
        The values listed in the argument `categories`, by feature.
    integer : set of int, or None
        The features passed as `integer`. If None, the column types decide.
    known_fixed : set of int
        Features that are fixed from the beginning.
    """

    inputs: Inputs
    columns: Columns | None
    pairs: Array
    data: Array | None
    values: Mapping[int, Array]
    integer: frozenset[int] | None
    known_fixed: frozenset[int] = frozenset()

    def by_feature(self, given: Any, name: str) -> Iterator[tuple[int, Any, Any]]:
        """Yield column, key and value of a mapping by name or number, or of a row of a frame."""
        labels = None if self.columns is None else self.columns.labels
        return _by_feature(given, name, self.inputs, labels)

    def allowed_categories(self, column: int) -> list[float]:
        """Return the numbers of the categories that a feature may take unless it is fixed."""
        if column in self.values:
            numbers = self.values[column]
        elif self.data is not None:
            numbers = np.unique(self.data[:, column])
        else:
            low, high = (
                self.pairs[column] if not np.isnan(self.pairs[column]).any() else (-np.inf, np.inf)
            )
            within = _categories_within(self.inputs, column, low, high)
            numbers = self.inputs.categories[column].value if within is None else within
        return [float(v) for v in numbers if np.isfinite(v)]

    def range_of(self, column: int) -> float:
        """Return the width of a feature in the data or, without data, between its bounds."""
        low, high = self.pairs[column]
        if column in self.values:
            low, high = self.values[column][[0, -1]]
        width = float(high - low)
        if not np.isfinite(width):
            name = feature_label(column, self.inputs)
            raise InputError(
                f"{name} has no finite range, by which a change would be measured. Pass finite "
                "bounds, or `per` of Change."
            )
        return width if width > 0 else 1.0

    def read_fixed(self, fixed: Any) -> dict[int, float]:
        """Return the fixed values by column.

        ``fixed`` is a mapping by name or number, a row of a frame, or None.
        """
        labels = None if self.columns is None else self.columns.labels
        return _fixed_values(self.inputs, fixed, labels)

    def check(self, fixed: Mapping[int, float]) -> None:
        """Raise an error if bounds, categories or fixed values are invalid.

        Features without bounds may be fixed later.
        """
        self.fix(dict.fromkeys(self._without_bounds, np.nan) | dict(fixed))

    @property
    def _without_bounds(self) -> list[int]:
        """The features that have neither bounds nor a list of values."""
        if self.data is not None:
            return []
        without: BoolArray = np.array(np.isnan(self.pairs).any(axis=1))
        for column, known in self.inputs.categories.items():
            is_open = not np.isfinite(self.pairs[column]).all()
            without[column] = is_open and not known.complete
        without[list(self.values)] = False
        return np.flatnonzero(without).tolist()

    def fix(self, fixed: Mapping[int, float]) -> Space:
        """Return the space with some features fixed, given by column."""
        ensemble, data = self.inputs, self.data
        values, with_values = dict(self.values), {*self.values, *ensemble.categories}
        check_order(self.pairs, ensemble)
        optional = {*fixed, *with_values}
        check_given(self.pairs, data is not None, ensemble, optional, ", or its value in fixed")
        pairs = self.pairs.copy()
        pairs[np.isnan(pairs).any(axis=1)] = -np.inf, np.inf
        if data is not None:
            # Fixed values and codes may lie outside the range of the data.
            pairs[[*fixed, *ensemble.categories]] = -np.inf, np.inf
        whole = self._integer_columns(fixed, with_values)
        _choose_categories(ensemble, data, fixed, pairs, values)
        infeasible_because = (
            _narrow_to_values(ensemble, data, fixed, pairs, values)
            or _narrow_to_whole(ensemble, whole, pairs)
            or _beyond_precision(ensemble, fixed, pairs)
        )
        for column, value in fixed.items():
            _check_fixed(ensemble, column, value, pairs[column], values.get(column), whole[column])
            pairs[column] = value
        values = {k: v for k, v in values.items() if v.size > 1 and k not in fixed}
        may_be_missing = np.full(len(pairs), data is None)
        may_be_missing[ensemble.labeled_columns] = True
        may_be_missing[unread_columns(ensemble)] = True
        lower, upper = pairs.T.copy()
        return Space(lower, upper, whole, values, data, may_be_missing, infeasible_because)

    def _integer_columns(self, fixed_at: Collection[int], with_values: Collection[int]) -> Array:
        """Return which features are integers, because they are listed or because of their type."""
        whole = np.zeros(self.inputs.n_features, np.bool_)
        for column, kind in enumerate(() if self.columns is None else self.columns.types):
            # Boolean columns are 0 or 1 even if they are not listed.
            is_whole = getattr(kind, "kind", "O") in ("biu" if self.integer is None else "b")
            whole[column] = is_whole and column not in with_values and column not in fixed_at
        whole[list(self.integer or ())] = True
        return whole


def read_choices(
    ensemble: Inputs,
    bounds: Any,
    integer: Any = "auto",
    categories: Any = None,
    columns: Columns | None = None,
) -> Choices:
    """Return the allowed inputs; the arguments are those of `treeopt.minimize`.

    ``columns`` are the columns of the frame passed as bounds.
    """
    labels = None if columns is None else columns.labels
    values = _listed_values(ensemble, categories, labels)
    with_values = {*values, *ensemble.categories}
    try:
        pairs, data = read_pairs(bounds, ensemble, labels)
    except InputError as refusal:
        names, columns_given = ensemble.feature_names or (), getattr(bounds, "columns", None)
        if columns_given is None or all(name in columns_given for name in names):
            raise
        remedy = "Or pass a mapping of pairs, which may omit fixed features."
        raise InputError(f"{refusal} {remedy}") from None
    if data is None and not isinstance(bounds, Mapping):
        for k in np.flatnonzero(np.isnan(pairs).any(axis=1)):
            name = bound_name(int(k), ensemble)
            raise InputError(f"{name} is ({pairs[k, 0]}, {pairs[k, 1]}). Pass numbers, not NaN.")
    whole = _named_integers(ensemble, integer, with_values, labels)
    return Choices(ensemble, columns, pairs, data, values, whole)


def _choose_categories(
    ensemble: Inputs,
    data: Array | None,
    fixed_at: Mapping[int, float],
    pairs: Array,
    values: dict[int, Array],
) -> None:
    """Move features with categories from ``pairs`` to ``values``: add lists, remove bounds."""
    for column, known in ensemble.categories.items():
        if known.complete and not len(known):
            continue  # the model has no categories to distinguish
        pair, pairs[column] = pairs[column].copy(), (-np.inf, np.inf)
        if column in fixed_at:
            _check_categories(ensemble, column, pair, "fixed has", np.array([fixed_at[column]]))
        elif column in values:
            _check_categories(ensemble, column, pair, "categories lists", values[column])
        elif data is not None:
            occurring = np.unique(data[:, column])
            values[column] = occurring[np.isfinite(occurring)]
        else:
            within = _categories_within(ensemble, column, *pair)
            values[column] = _any_code(ensemble, column) if within is None else within


def _narrow_to_values(
    ensemble: Inputs,
    data: Array | None,
    fixed_at: Mapping[int, float],
    pairs: Array,
    values: Mapping[int, Array],
) -> str:
    """Narrow the pairs to the listed values; return the reason for infeasibility, if any."""
    for column, numbers in values.items():
        low, high = pairs[column]
        outside = numbers[(numbers < low) | (numbers > high)]
        if outside.size and column not in fixed_at:
            raise InputError(
                f"categories lists {outside[0]:g} for {feature_label(column, ensemble)}, outside "
                f"its bounds ({low:g}, {high:g}). Widen the bounds, or remove the value."
            )
        if not numbers.size:
            where = "is within its bounds" if data is None else "occurs in the data"
            known = ensemble.categories[column]
            return f"no known category of {feature_label(column, ensemble)} {where}: {known}"
        pairs[column] = numbers[0], numbers[-1]
    return ""


def _narrow_to_whole(ensemble: Inputs, whole: Array, pairs: Array) -> str:
    """Narrow the pairs to integers; return the reason for infeasibility, if any."""
    for column in np.flatnonzero(whole).tolist():
        low, high = pairs[column]
        if np.ceil(low) > np.floor(high):
            return (
                f"there is no integer between {low:g} and {high:g}, the bounds of "
                f"{feature_label(column, ensemble)}"
            )
        pairs[column] = np.ceil(low), np.floor(high)  # infinite bounds stay infinite
    return ""


def _beyond_precision(ensemble: Inputs, fixed_at: Collection[int], pairs: Array) -> str:
    """Return the reason for infeasibility if a pair exceeds the range of the model's precision."""
    largest = largest_input(ensemble.input_dtype)
    for column, (low, high) in enumerate(pairs):
        if column not in fixed_at and (low > largest or high < -largest):
            name = feature_label(column, ensemble)
            return f"there is no finite {ensemble.input_dtype} within the bounds of {name}"
    return ""


def _categories_within(ensemble: Inputs, column: int, low: float, high: float) -> Array | None:
    """Return the categories of a feature within bounds, as numbers.

    The bounds apply to labels if the model has labels, otherwise to codes. Return None if there is
    no bound and the model does not list its categories.
    """
    known, name = ensemble.categories[column], feature_label(column, ensemble)
    given = f"the bound of {name} is ({low:g}, {high:g})"
    is_open = np.isinf(low) and np.isinf(high)
    if known.labels:
        numbers, scale = known.value[: len(known.labels)], known.label_values
        if is_open:
            return numbers
        if scale is None:
            raise InputError(
                f"{given}, but its labels are "
                f"{'numbers that do not fit a float' if known.has_numbers else 'text'}: {known}. "
                "Pass a list of labels as categories, and remove the feature from bounds or pass "
                "(None, None) there."
            )
    elif known.complete:
        numbers = scale = known.value
    elif np.isinf(low) or np.isinf(high):
        return None
    else:
        _refuse_unsure(ensemble, given)
        first, last = np.ceil(low), np.floor(high)
        if first < 0 and low < high:
            raise InputError(
                f"{given}, but its categories are codes, which are integers of at least 0. Pass "
                f"bounds such as (0, {max(high, 0.0):g})."
            )
        if last - first >= MAX_CODES:
            raise InputError(
                f"{given}, which allows more than {MAX_CODES} categories. Pass a list of values as "
                "categories."
            )
        numbers = scale = np.arange(first, last + 1)
    within: Array = numbers[(low <= scale) & (scale <= high)]
    if low == high and not within.size:
        if known.labels and not known.are_values:
            raise InputError(
                f"bounds has {low:g} for {name}, which is not one of {known}. Pass one of these."
            )
        return np.array([low])
    return within


def _any_code(ensemble: Inputs, column: int) -> Array:
    """Return an arbitrary code if no split reads the feature; otherwise raise an error."""
    known, name = ensemble.categories[column], feature_label(column, ensemble)
    if not ensemble.reads(column):
        return np.zeros(1)
    _refuse_unsure(ensemble, f"bounds has none for {name}", is_number=False)
    raise InputError(
        f"the categories of {name} are unknown: {ensemble.source} stores no list of them, and its "
        f"splits name only some: {known}. Pass a list of codes as categories, or pass finite "
        "bounds or data as bounds."
    )


def _check_categories(
    ensemble: Inputs, column: int, pair: Array, argument: str, given: Array
) -> None:
    """Raise an error if a fixed or listed category is outside the bounds."""
    low, high = pair
    within = _categories_within(ensemble, column, low, high)
    if within is None or (np.isinf(low) and np.isinf(high)):
        return
    for number in given[~np.isnan(given) & ~np.isin(given, within)]:
        label = ensemble.categories[column].label_of.get(number, f"{number:g}")
        raise InputError(
            f"{argument} {label} for {feature_label(column, ensemble)}, outside its bounds "
            f"({low:g}, {high:g}). Widen the bounds, or remove the value."
        )


def _check_fixed(
    ensemble: Inputs,
    column: int,
    value: float,
    pair: Array,
    listed_values: Array | None,
    whole: bool,
) -> None:
    """Raise an error if a fixed value contradicts another argument."""
    name, (low, high) = feature_label(column, ensemble), pair
    if listed_values is not None and value not in listed_values and not np.isnan(value):
        raise InputError(
            f"fixed has {value:g} for {name}, which is not among its categories. "
            "Fix it at one of these."
        )
    if value < low or value > high:
        raise InputError(
            f"fixed has {value:g} for {name}, outside its bounds ({low:g}, {high:g}). "
            "Widen the bounds, or leave the feature out of bounds or out of fixed."
        )
    if whole and value != np.round(value) and not np.isnan(value):
        raise InputError(
            f"fixed has {value:g} for {name}, which must be an integer. "
            "Round the value, or remove the feature from integer."
        )


def number_of(value: Any, column: int, ensemble: Inputs, name: str) -> float:
    """Return the number that represents a value of a feature; the value may be a label."""
    known = ensemble.categories.get(column)
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if known is not None and known.labels:
        number = known.find(value) if isinstance(value, Hashable) else None
        if number is not None:
            return number
        # If all labels are text, a number can only be a code.
        is_code = is_number and not known.has_numbers and value in known.label_of
        if not is_code and not is_missing(value):
            raise InputError(
                f"{name} has {shown(value)}, which is not one of {known}. Pass one of these."
            )
    if is_missing(value):
        return np.nan
    if isinstance(value, bool | np.bool_):
        return float(value)
    if known is not None or not is_number:
        _refuse_unsure(ensemble, f"{name} has {shown(value)}", is_number)
    if not is_number:
        raise InputError(f"{name} has {shown(value)}, which is not a number. Pass a number.")
    try:
        return float(value)
    except OverflowError:
        largest = largest_input(ensemble.input_dtype)
        raise InputError(
            f"{name} has a number beyond {largest:g}, the maximum that {ensemble.source} reads. "
            "Pass a smaller number."
        ) from None


def _refuse_unsure(ensemble: Inputs, what: str, is_number: bool = True) -> None:
    """Raise an error if a value may be a label or a code and the model does not tell which.

    If all labels are text, a number can only be a code.
    """
    if ensemble.unsure_of_labels and (not is_number or some_numbers(ensemble.frame_labels)):
        raise InputError(
            f"{what}, but it is not sure which columns of {ensemble.source} have labels: LightGBM "
            "stores the labels without the columns. Pass a frame like the training frame as "
            "bounds. To restrict the choice, drop rows, or pass lists of labels as categories."
        )


def _by_feature(
    given: Any, name: str, ensemble: Inputs, labels: Sequence[Any] | None
) -> Iterator[tuple[int, Any, Any]]:
    """Yield column, key and value of a mapping by name or number, or of a row of a frame."""
    is_row = hasattr(given, "iloc")
    if is_row and given.ndim == 2 and len(given) == 1:
        # Column by column: pandas would round large integers in a row of mixed types.
        given = {label: given.iloc[0, j] for j, label in enumerate(given.columns)}
    elif is_row and given.ndim == 1:
        given = given.to_dict()
    if not isinstance(given, Mapping):
        rows = f"has {len(given)} rows" if is_row else f"is {shown(given)}"
        accepted = "to lists of values" if name == "categories" else "to values, or one row"
        raise InputError(f"{name} {rows}. Pass a mapping from feature names or numbers {accepted}.")
    if is_row and not labels and not ensemble.feature_names:
        given = _row_without_names(given, name, ensemble.n_features)
    seen: set[int] = set()
    for key, value in given.items():
        column = column_of(key, name, ensemble, labels, by_label=is_row)
        if column in seen:
            raise InputError(f"{name} names feature {key!r} twice. Remove one entry.")
        seen.add(column)
        yield column, key, value


def _row_without_names(row: Mapping[Any, Any], name: str, n: int) -> Mapping[Any, Any]:
    """Return a row of a frame by position, for a model and bounds without column names."""
    if len(row) != n or (set(row) == set(range(n)) and list(row) != list(range(n))):
        raise InputError(
            f"{name} is a row, but the model has no names to match with its labels. "
            "Pass bounds as a frame with these columns, or a mapping by position."
        )
    return dict(enumerate(row.values()))


def _fixed_values(ensemble: Inputs, fixed: Any, labels: Sequence[Any] | None) -> dict[int, float]:
    values = {}
    given = {} if fixed is None else fixed
    for column, key, own in _by_feature(given, "fixed", ensemble, labels):
        value = number_of(own, column, ensemble, f"fixed[{key!r}]")
        if np.isnan(value) and not ensemble.accepts_nan:
            raise InputError(
                f"fixed[{key!r}] is missing, which {ensemble.source} does not accept. Pass a "
                "number."
            )
        with np.errstate(over="ignore"):
            finite = np.isfinite(ensemble.input_dtype.type(value)) or np.isnan(value)
        known = ensemble.categories.get(column)
        if not finite and (not ensemble.accepts_inf or (known is not None and known.finite)):
            raise InputError(
                f"fixed[{key!r}] is {own!r}, which {ensemble.source} does not accept. Pass a "
                "finite number."
            )
        values[column] = value
    return values


def _listed_values(
    ensemble: Inputs, categories: Any, labels: Sequence[Any] | None
) -> dict[int, Array]:
    values = {}
    given = {} if categories is None else categories
    for column, key, own in _by_feature(given, "categories", ensemble, labels):
        name = f"categories[{key!r}]"
        is_list = hasattr(own, "__iter__") and getattr(own, "ndim", 1) == 1
        if not is_list or isinstance(own, str | Mapping):
            raise InputError(f"{name} is {shown(own)}. Pass a list of the allowed values.")
        numbers = [number_of(v, column, ensemble, name) for v in own]
        array = np.unique(np.array(numbers, np.float64))
        if not array.size:
            raise InputError(f"{name} is empty. List the allowed values.")
        if not np.isfinite(array).all():
            raise InputError(
                f"{name} has a value that is not finite. Remove it. To fix a feature at a missing "
                "value, use fixed."
            )
        beyond = array[np.abs(array) > largest_input(ensemble.input_dtype)]
        if beyond.size:
            raise InputError(
                f"{name} has {beyond[0]:g}, which is infinite for {ensemble.source}: it reads "
                f"inputs as {ensemble.input_dtype}. Remove it."
            )
        _check_known(array, ensemble.categories.get(column), name)
        values[column] = array
    return values


def _check_known(numbers: Array, known: Categories | None, name: str) -> None:
    """Raise an error if a feature has categories and a number is not one of them."""
    if known is None:
        return
    fine = np.isin(numbers, known.value)
    if not known.complete:
        fine |= (numbers >= 0) & (numbers == np.round(numbers))
    for unknown in numbers[~fine]:
        which = "one of" if known.complete else "a code, an integer of at least 0:"
        raise InputError(f"{name} has {unknown:g}, which is not {which} {known}. Remove it.")


def _named_integers(
    ensemble: Inputs, integer: Any, with_values: Collection[int], labels: Sequence[Any] | None
) -> frozenset[int] | None:
    """Return the features passed as ``integer``; None for "auto".

    Features in ``with_values`` have a list of values.
    """
    if isinstance(integer, str) and integer == "auto":
        return None
    many = hasattr(integer, "__iter__") and getattr(integer, "ndim", 1) > 0
    one = isinstance(integer, str) or not many
    named = []
    for feature in () if integer is None else [integer] if one else integer:
        column = column_of(feature, "integer", ensemble, labels)
        if column in with_values:
            raise InputError(
                f"integer names {feature_label(column, ensemble)}, which has categories. Remove "
                "it. To restrict its values, pass a list of them as categories."
            )
        named.append(column)
    return frozenset(named)
