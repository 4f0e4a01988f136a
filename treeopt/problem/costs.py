"""Costs: functions of single features that are added up.

`Price` and `Change` are what users write. `Unary` is the cost of one feature, as the search sees
it: linear pieces, with a kink where a feature is compared with a reference, or a table for
categories.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from treeopt.arguments import as_float
from treeopt.errors import InputError, shown
from treeopt.problem.bounds import feature_label
from treeopt.problem.choices import Choices, number_of
from treeopt.types import FloatArray


@dataclass(frozen=True)
class Price:
    """A linear cost: the sum of price times value over some features.

    Parameters
    ----------
    prices : mapping
        From feature names or numbers to the price per unit. For a feature with categories, a
        mapping from labels to prices.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0.0], [2.0]], [1.0, 4.0])
    >>> best = treeopt.maximize(model, [(0, 2)], cost=treeopt.Price({0: 2.0}))
    >>> best.prediction, round(best.cost, 5)
    (4.0, 2.0)
    """

    prices: Mapping[Any, Any]


@dataclass(frozen=True)
class Change:
    """The cost of moving away from a row: weight times distance, and a fee, per feature.

    Parameters
    ----------
    row : mapping, Series, frame with one row or vector
        The reference, such as today's settings. A mapping may omit features, which then cost
        nothing.
    per : float or mapping, optional
        Cost per unit of distance. By default 1 divided by the range of the feature in the data or,
        without data, by the range of its bounds. A change of category counts as a distance of 1,
        with weight 1 by default. Features that a mapping leaves out have the default.
    fee : float or mapping, optional
        Cost of changing the feature at all; 0 by default.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0.0], [2.0]], [1.0, 4.0])
    >>> change = treeopt.Change({0: 0.5}, per=1.0, fee=0.25)
    >>> best = treeopt.minimize(change, [(0, 2)], constraints=[treeopt.Predicted(model, low=3)])
    >>> round(float(best.x[0]), 5), round(best.fun, 5)
    (1.0, 0.75)
    """

    row: Any
    per: Any = None
    fee: Any = None


class Kink(NamedTuple):
    """A part of a cost: ``weight * |x - at|``, and a fee if x differs from ``at``."""

    at: float
    weight: float
    fee: float


@dataclass(frozen=True)
class Unary:
    """The cost of one feature: ``slope * x`` plus kinks, or a table.

    Attributes
    ----------
    slope : float
        Cost per unit.
    kinks : tuple of Kink
        Costs of moving away from references.
    table : mapping from float to float, or None
        For a feature with categories: the cost of each number that stands for a category.
    other : float or None
        Cost of all other numbers, for a table. None if they have no price.
    """

    slope: float = 0.0
    kinks: tuple[Kink, ...] = ()
    table: Mapping[float, float] | None = None
    other: float | None = None

    def at(self, x: float) -> float:
        """Return the cost at a value."""
        if self.table is not None:
            cost = self.table.get(x, self.other)
            if cost is None:
                raise InputError(
                    f"a category is fixed at {x:g}, for which there is no price. Add a price for "
                    "its label."
                )
            return cost
        cost = self.slope * x if self.slope else 0.0
        for kink in self.kinks:
            cost += kink.weight * abs(x - kink.at) + (kink.fee if x != kink.at else 0.0)
        return cost


@dataclass(frozen=True, eq=False)
class CostTerm:
    """A cost as a term of the objective.

    Attributes
    ----------
    label : str
        Name of the term in results.
    weight : float
        Factor of the term.
    unaries : tuple of (column, Unary)
        The costs of single features, in the order in which they are added.
    is_cost : bool
        Whether the term is subtracted if the objective is maximized.
    """

    label: str
    weight: float
    unaries: tuple[tuple[int, Unary], ...]
    is_cost: bool = field(default=False)

    def value(self, x: FloatArray) -> float:
        """Return the cost of a point, without the weight."""
        total = 0.0
        for column, unary in self.unaries:
            total += unary.at(float(x[column]))
        return total


def read_price(
    prices: Any, choices: Choices, weight: float, is_cost: bool, fixed: Collection[int] = ()
) -> CostTerm:
    """Return the term of a mapping from features to prices."""
    if not isinstance(prices, Mapping):
        raise InputError(
            f"a price is {shown(prices)}. Pass a mapping from feature names to prices per unit."
        )
    unaries: list[tuple[int, Unary]] = []
    for column, key, price in choices.by_feature(prices, "cost"):
        unaries.append((column, _priced(column, key, price, choices, column in fixed)))
    return CostTerm("price", weight, tuple(unaries), is_cost)


def _priced(column: int, key: Any, price: Any, choices: Choices, is_fixed: bool) -> Unary:
    """Return the cost of a feature with a price per unit or per label."""
    name, known = feature_label(column, choices.inputs), choices.inputs.categories.get(column)
    if known is None:
        slope = as_float(price)
        if slope is None or not np.isfinite(slope):
            raise InputError(f"the price of {name} is {shown(price)}. Pass a finite number.")
        return Unary(slope)
    allowed = [] if is_fixed else choices.allowed_categories(column)
    if not isinstance(price, Mapping):
        first = _label(known, float(known.value[0])) if len(known) else "label"
        raise InputError(
            f"the price of {name} is {shown(price)}, but it is a category: {known}. Pass a mapping "
            f"with a price for each label, such as {{{key!r}: {{{first!r}: 1.0, ...}}}}."
        )
    table = {}
    for label, each in price.items():
        cost = as_float(each)
        if cost is None or not np.isfinite(cost):
            raise InputError(
                f"the price of {label!r} of {name} is {shown(each)}. Pass a finite number."
            )
        table[number_of(label, column, choices.inputs, f"the price of {name}")] = cost
    for number in allowed:
        if number not in table:
            raise InputError(
                f"the price of {name} lacks the label {_label(known, number)!r}. Pass a price for "
                "each allowed label, or restrict them with the argument categories."
            )
    return Unary(table=table)


def _label(known: Any, number: float) -> Any:
    """Return the label of a category, or its number."""
    return known.label_of.get(number, number)


def read_change(change: Change, choices: Choices, weight: float, is_cost: bool) -> CostTerm:
    """Return the term of a change from a row."""
    inputs = choices.inputs
    if isinstance(change.row, Mapping) or hasattr(change.row, "iloc"):
        given = choices.by_feature(change.row, "row of Change")
        row = {
            column: number_of(value, column, inputs, f"row of Change[{key!r}]")
            for column, key, value in given
        }
    elif np.ndim(change.row) == 1 and not isinstance(change.row, str):
        row = dict(enumerate(inputs._point(change.row, "row of Change").tolist()))
    else:
        raise InputError(
            f"row of Change is {shown(change.row)}. Pass one row: a mapping from feature names to "
            f"values, or a vector of {inputs.n_features} numbers."
        )
    per = _by_column(change.per, "per", choices, row)
    fee = _by_column(change.fee, "fee", choices, row)
    unaries = []
    for column, at in row.items():
        name = feature_label(column, inputs)
        if not np.isfinite(at):
            raise InputError(
                f"the row of Change has {at} for {name}. Leave the feature out of the row, as a "
                "mapping, and fix it if it cannot change."
            )
        own_fee = fee.get(column, 0.0)
        if column in inputs.categories:
            differs = per.get(column, 1.0) + own_fee
            unaries.append((column, Unary(table={at: 0.0}, other=differs)))
            continue
        own_per = per[column] if column in per else 1.0 / choices.range_of(column)
        unaries.append((column, Unary(kinks=(Kink(at, own_per, own_fee),))))
    return CostTerm("change", weight, tuple(unaries), is_cost)


def _by_column(
    given: Any, name: str, choices: Choices, row: Mapping[int, float]
) -> dict[int, float]:
    """Return numbers by column, from one number for all features of a row or a mapping."""
    if given is None:
        return {}
    one = as_float(given)
    if one is None and not isinstance(given, Mapping):
        raise InputError(f"{name} of Change is {shown(given)}. Pass a number or a mapping of them.")
    values = dict.fromkeys(row, given)
    if one is None:
        values = {}
        for column, key, value in choices.by_feature(given, f"{name} of Change"):
            if column not in row:
                raise InputError(
                    f"{name} of Change has {key!r}, but the row has no such feature. Add its value "
                    f"to the row, or remove it from {name}."
                )
            values[column] = value
    found = {}
    for column, value in values.items():
        number = as_float(value)
        if number is None or not 0 <= number < np.inf:
            raise InputError(
                f"{name} of Change is {shown(value)} for {feature_label(column, choices.inputs)}. "
                "Pass a finite number of at least 0."
            )
        found[column] = number
    return found
