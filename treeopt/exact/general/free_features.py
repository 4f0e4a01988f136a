"""The free features of a problem: their places, numbers and costs.

A feature is free if more than one place is left for it, or if its number matters and its place has
more than one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np

from treeopt.errors import InputError
from treeopt.exact.general.bounds import sum_error
from treeopt.exact.general.statement import FEATURE, HUGE, KINK, PLACE, STOP, Features, records
from treeopt.problem.constraints import Row, contradict, joined
from treeopt.problem.costs import CostTerm, Kink, Unary
from treeopt.problem.problem import Problem
from treeopt.types import FloatArray, IntArray

NONE = np.empty(0)


class Contradiction(Exception):
    """Raised if the constraints contradict the bounds in an obvious way."""


class FreeFeatures:
    """The free features of a problem.

    Parameters
    ----------
    problem : Problem
        The problem.

    Attributes
    ----------
    rows : list of Row
        The rows that must hold and have several features. Those with one narrow its places.
    places : Places
        The places of the free features.
    low, high : mappings
        The first and last admissible number of each place, for features of the grid.
    columns : int64 array
        The column of each free feature.
    feature_of : mapping
        The number of the free feature of a column.
    base : float64 array
        A point with all values that are not free.
    integer : bool array
        Whether each free feature is an integer.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.space = problem, problem.space
        self.rows = self._linear_rows()
        self._choose_places()
        self.columns = problem.grid.columns[self.places.free]
        self.feature_of = {int(column): k for k, column in enumerate(self.columns)}
        self.integer = self.space.integer[self.columns]

    def _linear_rows(self) -> list[Row]:
        """Return the rows that must hold."""
        return [c for c in self.problem.input_conditions if isinstance(c, Row)]

    def _choose_places(self) -> None:
        """Choose the places, narrowed by rows with one feature, and the free features."""
        problem, space = self.problem, self.space
        grid, places = problem.grid, problem.places
        involved = problem.columns_with_costs | problem.columns_in_constraints
        self.low: dict[int, FloatArray] = {}
        self.high: dict[int, FloatArray] = {}
        kept: dict[int, IntArray] = {}
        alone = [row for row in self.rows if row.columns.size == 1]
        for j, column in enumerate(grid.columns.tolist()):
            if np.isnan(space.lower[column]):
                continue
            low, high = places.numbers_of(j)
            for row in alone:
                if int(row.columns[0]) == column:
                    low, high = self._narrowed(row, low, high)
            fine = low <= high
            if not fine.any():
                raise Contradiction
            kept[j] = places.cells[j][fine]
            self.low[j], self.high[j] = low[fine], high[fine]
        self.rows = [r for r in self.rows if r not in alone or r.cancels]
        if contradict(self.rows, np.maximum(np.abs(space.lower), np.abs(space.upper))):
            raise Contradiction
        self.rows = joined(self.rows)
        places = places.keeping(kept)
        wide = [
            places.cells[j].size > 1
            or (
                int(grid.columns[j]) in involved
                and j in self.low
                and self.low[j][0] < self.high[j][0]
            )
            for j in range(len(places.cells))
        ]
        self.places = copy(places)
        self.places.free = np.flatnonzero(wide)
        self.places.__dict__.pop("start", None)
        self.base = self._base()

    def _narrowed(
        self, row: Row, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of places, narrowed by a row with one feature."""
        column, space, given = int(row.columns[0]), self.space, (low, high)
        if not row.cancels:
            ends = row.interval()
            low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
            listed = space.integer[column] or space.fixed[column] or column in space.values
            if row.is_equality and not listed:
                # Of the few numbers that hold up to rounding, take the exact one.
                exact = min(max(row.low / float(row.coefficients[0]), ends[0]), ends[1])
                rounded = float(f"{exact:.15g}")
                exact = rounded if ends[0] <= rounded <= ends[1] else exact
                inside = (low <= exact) & (exact <= high)
                if inside.any():
                    low, high = np.where(inside, exact, np.inf), np.where(inside, exact, -np.inf)
            elif space.integer[column]:
                low, high = np.ceil(low), np.floor(high)
        for place in range(low.size):
            # A number alone is judged by the row itself.
            for one in ((low[place], high[place]), (given[0][place], given[1][place])):
                if one[0] == one[1]:
                    holds = row.holds_at(one[0])
                    low[place], high[place] = one if holds else (np.inf, -np.inf)
        return low, high

    def _base(self) -> FloatArray:
        """Return a point with values for all features that are not free."""
        space, grid = self.space, self.problem.grid
        base = np.where(space.fixed, space.lower, np.clip(0.0, space.lower, space.upper))
        for column, numbers in space.values.items():
            if not space.fixed[column]:
                base[column] = numbers[np.argmin(np.abs(numbers))]
        for j, column in enumerate(grid.columns.tolist()):
            if j in self.low and self.low[j].size == 1:
                base[column] = np.clip(0.0, self.low[j][0], self.high[j][0])
        return base

    def value_of(self, column: int) -> float:
        """Return the value of a column that is not free."""
        return float(self.base[column])

    def _costs(self) -> tuple[dict[int, list[tuple[float, Unary]]], list[float]]:
        """Return the weighted costs of the free features by column, and those of all others."""
        objective = self.problem.objective
        unaries: dict[int, list[tuple[float, Unary]]] = {}
        others = []
        for term in objective.terms:
            if not isinstance(term, CostTerm):
                continue
            weight = objective.sense * objective.weight_of(term)
            for column, unary in term.unaries:
                if column in self.feature_of:
                    unaries.setdefault(column, []).append((weight, unary))
                else:
                    others.append(weight * unary.at(self.value_of(column)))
        return unaries, others

    def with_costs(self, rows_of: list[list[tuple[int, float]]]) -> tuple[Features, float]:
        """Return the features as records with their costs, and the costs of all other features.

        ``rows_of`` has the rows that each feature is in, and its coefficients there. What cancels
        has rounding errors in what a user computes; costs are lowered by them.
        """
        unaries, others = self._costs()
        n_costs = len(others) + sum(len(own) for own in unaries.values())
        stops, kinks, slopes, sizes = [], [], [], []
        columns: dict[str, list[FloatArray]] = {"low": [], "high": [], "table": []}
        has_table = np.zeros(self.columns.size, np.bool_)
        for k, column in enumerate(self.columns.tolist()):
            j = int(self.places.free[k])
            n = self.places.cells[j].size
            own_low = self.low.get(j, np.zeros(n))
            own_high = self.high.get(j, np.zeros(n))
            own = unaries.get(column, [])
            has_table[k] = any(unary.table is not None for _, unary in own)
            tables = [
                [weight * unary.at(v) for v in own_low.tolist()]
                for weight, unary in own
                if unary.table is not None
            ]
            costs = np.array([_lowered(each, n_costs) for each in zip(*tables, strict=True)])
            own_slopes = [weight * unary.slope for weight, unary in own]
            slopes.append(sum(own_slopes))
            # Rounding errors grow with the number of terms that are added.
            sizes.append(abs(slopes[-1]) + (1 + n_costs / 8) * _hidden(own_slopes))
            own_kinks = [
                Kink(kink.at, weight * kink.weight, weight * kink.fee)
                for weight, unary in own
                for kink in unary.kinks
            ]
            kinks.append(own_kinks)
            stops.append(self._stops(own_kinks, own_low, own_high, bool(self.integer[k])))
            columns["low"].append(np.clip(own_low, -HUGE, HUGE))
            columns["high"].append(np.clip(own_high, -HUGE, HUGE))
            columns["table"].append(costs if tables else np.zeros(n))
        features = Features(
            feature=records(
                FEATURE,
                {
                    "slope": slopes,
                    "size": sizes,
                    "place_start": self.places.start[:-1],
                    "kink_start": starts_of(kinks)[:-1],
                    "kink_end": starts_of(kinks)[1:],
                    "stop_start": starts_of(stops)[:-1],
                    "stop_end": starts_of(stops)[1:],
                    "row_start": starts_of(rows_of)[:-1],
                    "row_end": starts_of(rows_of)[1:],
                    "ordered": [self.places.ordered[j] for j in self.places.free],
                    "has_table": has_table,
                    "is_integer": self.integer,
                    "is_priced": [column in unaries for column in self.columns.tolist()],
                },
                self.columns.size,
            ),
            place=records(
                PLACE,
                {name: np.concatenate([NONE, *own]) for name, own in columns.items()},
                int(self.places.start[-1]),
            ),
            kink=np.array([tuple(kink) for own in kinks for kink in own], KINK),
            stop=np.array([stop for own in stops for stop in own], STOP),
        )
        return features, _lowered(others, n_costs)

    @staticmethod
    def _stops(
        kinks: list[Kink], low: FloatArray, high: FloatArray, whole: bool
    ) -> list[tuple[float, int]]:
        """Return the admissible numbers next to references, with their places."""
        found = set()
        for kink in kinks:
            for at in {
                kink.at,
                float(np.nextafter(kink.at, -np.inf)),
                float(np.nextafter(kink.at, np.inf)),
            }:
                floor, ceil = (np.floor(at), np.ceil(at)) if whole else (at, at)
                below = np.minimum(high, floor)
                fine = np.flatnonzero(below >= low)
                if fine.size:
                    place = int(fine[np.argmax(below[fine])])
                    found.add((float(below[place]), place))
                above = np.maximum(low, ceil)
                fine = np.flatnonzero(above <= high)
                if fine.size:
                    place = int(fine[np.argmin(above[fine])])
                    found.add((float(above[place]), place))
        return sorted(found)


def _sum(terms: Iterable[float]) -> float:
    """Return the sum of costs, rounded once."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):  # too large, or infinities of both signs
        raise InputError(
            "the costs overflow: terms of one sum exceed the maximum float, 1.8e308. Pass smaller "
            "prices, or smaller fixed values."
        ) from None


def _hidden(terms: Sequence[float]) -> float:
    """Return how much larger the terms of a sum are than the sum."""
    return max(_sum(map(abs, terms)) - abs(_sum(terms)), 0.0)


def _lowered(terms: Sequence[float], n: int) -> float:
    """Return a sum of costs, lowered by the rounding error of what cancels in it.

    ``n`` is the number of terms of the whole sum that a user computes.
    """
    return _sum(terms) - sum_error(_hidden(terms), n)


def starts_of(lists: list[Any]) -> IntArray:
    """Return where each list starts if all are concatenated, followed by the total length."""
    return np.cumsum([0, *(len(own) for own in lists)]).astype(np.int64)
