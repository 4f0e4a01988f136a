"""Constraints: what users write, and the conditions that follow from it.

A `Constraint` is one entry of the argument `constraints`. It consists of conditions: a `Row` bounds
a linear function, a `Limit` the prediction of a model, a `Clause` asks for one of several
alternatives, and a `Count` limits how many features differ from 0. Conditions refer to features by
column. All of them are checked as a user would check them, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np

from treeopt.problem.responses import Response
from treeopt.types import FloatArray, IntArray

EQUALITY_ULPS = 8
"""An equality holds if both sides differ by at most this many units in the last place of the sum of
the absolute values of its terms."""


@dataclass(frozen=True)
class Predicted:
    """A constraint on the prediction of a model, or a term of a weighted sum.

    Parameters
    ----------
    model : estimator, Ensemble or Difference
        Any model that `from_model` accepts.
    low, high : float, optional
        The prediction must be at least ``low`` and at most ``high``.
    output, class_index
        The output of the model, as in `from_model`.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = [[0.0], [1.0], [2.0]]
    >>> strength, weight = (DecisionTreeRegressor().fit(X, y) for y in ([1, 3, 9], [2, 4, 7]))
    >>> light = treeopt.Predicted(weight, high=5)
    >>> treeopt.maximize(strength, X, constraints=[light]).fun
    3.0
    """

    model: Any
    low: float | None = None
    high: float | None = None
    output: str = "auto"
    class_index: Any = None


@dataclass(frozen=True)
class AtMost:
    """A constraint on the number of features that are not 0.

    Parameters
    ----------
    k : int
        Maximum number of features that are not 0.
    names : list of str or int
        Names or numbers of the features.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    >>> model = DecisionTreeRegressor().fit(X, [0.0, 2.0, 3.0, 5.0])
    >>> treeopt.maximize(model, X, constraints=[treeopt.AtMost(1, [0, 1])]).fun
    3.0
    """

    k: int
    names: Sequence[Any]


@dataclass(frozen=True)
class Implies:
    """A constraint that must hold only if a condition does.

    Parameters
    ----------
    condition, consequence : str
        Linear conditions as text, see the argument ``constraints`` of `treeopt.minimize`.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    >>> model = DecisionTreeRegressor().fit(X, [0.0, 2.0, 3.0, 5.0])
    >>> rule = treeopt.Implies("x[0] > 0.2", "x[1] <= 0.4")
    >>> treeopt.maximize(model, X, constraints=[rule]).fun
    3.0
    """

    condition: str
    consequence: str


@dataclass(frozen=True)
class Forbid:
    """A combination that is not allowed.

    Parameters
    ----------
    ranges : mapping
        From feature names or numbers to a pair ``(low, high)``, both included and None if there is
        no bound, to one value, or to a list of values. A point is forbidden if every listed feature
        is in its range.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    >>> model = DecisionTreeRegressor().fit(X, [0.0, 2.0, 3.0, 5.0])
    >>> treeopt.maximize(model, X, constraints=[treeopt.Forbid({0: (0.5, 1), 1: (0.5, 1)})]).fun
    3.0
    """

    ranges: Any


class Written(Protocol):
    """How a user computes a linear condition."""

    def excludes(self, other: Any) -> bool:
        """Return whether both compare the same two numbers, and cannot both hold."""

    def slack(self, x: FloatArray) -> float:
        """Return by how much the condition holds at a point; negative if it does not."""

    def holds(self, x: FloatArray) -> bool:
        """Return whether the condition holds at a point, as written."""


MILD = 16
"""If the terms of a feature are at most so many times larger than their sum, the computed sum is
monotone but for a few last places."""

NEAR_STEPS = 40
"""A number that satisfies a row is sought within ``2**NEAR_STEPS`` last places of an exact end."""


@dataclass(frozen=True, eq=False)
class Row:
    """A linear condition: ``low <= coefficients @ x[columns] <= high``.

    Attributes
    ----------
    columns : int64 array
        The features.
    coefficients : float64 array
        Their coefficients; 0 if the terms of a feature cancel.
    low, high : float
        Bounds, perhaps infinite.
    sizes, size : float64 array and float
        How large the terms of each feature, and the constants, are before any of them cancel. The
        rounding error of the user's own computation is proportional to this.
    written : Written
        The condition as the user computes it.
    is_strict : bool
        Whether the bounds themselves are excluded.
    n_terms : int
        Number of terms that the user adds.
    """

    columns: IntArray
    coefficients: FloatArray
    low: float
    high: float
    sizes: FloatArray
    size: float
    written: Written
    is_strict: bool = False
    n_terms: int = 0

    @property
    def rounding(self) -> float:
        """Maximum rounding error of the computed sum, relative to the size of its terms."""
        n = max(self.columns.size, self.n_terms)
        return (16 + 2 * n) * float(np.finfo(np.float64).eps)

    @property
    def is_equality(self) -> bool:
        """Whether both bounds are the same."""
        return self.low == self.high

    def slack(self, x: FloatArray) -> float:
        """Return by how much the condition holds at a point; negative if it does not."""
        return self.written.slack(x)

    def holds(self, x: FloatArray) -> bool:
        """Return whether the condition holds at a point."""
        return self.written.holds(x)

    @property
    def parts(self) -> tuple[Row, ...]:
        """The rows that were joined; otherwise the row itself."""
        return self.written.rows if isinstance(self.written, _AllOf) else (self,)

    def sorted(self) -> Row:
        """Return the same row with ascending columns and a first coefficient that is positive."""
        order = np.argsort(self.columns, kind="stable")
        columns, coefficients = self.columns[order], self.coefficients[order]
        first = coefficients[coefficients != 0]
        low, high = self.low, self.high
        if first.size and first[0] < 0:
            coefficients, low, high = -coefficients, -high, -low
        return replace(
            self,
            columns=columns,
            coefficients=coefficients + 0.0,
            low=low,
            high=high,
            sizes=self.sizes[order],
        )

    @property
    def cancels(self) -> bool:
        """Whether terms of a feature cancel almost, so that the computed sum is not monotone."""
        return bool((self.sizes > MILD * np.abs(self.coefficients)).any())

    def holds_at(self, value: float) -> bool:
        """Return whether a row with one feature holds at a number."""
        x = np.zeros(int(self.columns[0]) + 1)
        x[-1] = value
        return self.holds(x)

    def interval(self) -> tuple[float, float]:
        """Return the first and last float64 that satisfy a row with one feature, as written.

        The terms of the feature must not cancel. The interval is empty if no number near the exact
        ends satisfies the row.
        """
        (factor,) = self.coefficients
        ends = sorted((self.low / factor, self.high / factor))
        low, high = (
            _last_that_holds(end, side, self.holds_at)
            for end, side in zip(ends, (-1, 1), strict=True)
        )
        return low, high


@dataclass(frozen=True)
class _AllOf:
    """Several rows that must all hold."""

    rows: tuple[Row, ...]

    def excludes(self, other: Any) -> bool:
        """Return whether one of the rows excludes another condition."""
        return any(row.written.excludes(other) for row in self.rows)

    def slack(self, x: FloatArray) -> float:
        """Return the minimum slack."""
        return min(row.slack(x) for row in self.rows)

    def holds(self, x: FloatArray) -> bool:
        """Return whether all rows hold at a point."""
        return all(row.holds(x) for row in self.rows)


def contradict(rows: Iterable[Row], largest: FloatArray) -> bool:
    """Return whether two rows with proportional coefficients cannot both hold.

    ``largest`` is the maximum absolute value of each feature. Limits that are apart by less than
    rounding errors may hold as a user computes them.
    """
    found: dict[tuple[bytes, bytes], list[Row]] = {}
    for row in map(Row.sorted, rows):
        used = row.coefficients[row.coefficients != 0]
        if used.size:
            direction = np.round(row.coefficients / used[0], 12) + 0.0
            found.setdefault((row.columns.tobytes(), direction.tobytes()), []).append(row)
    return any(_exclude(alike, largest) for alike in found.values() if len(alike) > 1)


def _exclude(rows: list[Row], largest: FloatArray) -> bool:
    """Return whether rows with coefficients that are proportional, or almost so, contradict."""
    low, high = np.empty((2, len(rows)))
    for i, row in enumerate(rows):
        scale = float(np.abs(row.coefficients[row.coefficients != 0][0]))
        error = row.rounding * (row.size + float(row.sizes @ largest[row.columns]))
        error = error if error < np.inf else np.inf  # also if it is NaN
        low[i], high[i] = (row.low - error) / scale, (row.high + error) / scale
    i, j = int(low.argmax()), int(high.argmin())
    if low[i] > high[j] and _are_proportional(rows[i], rows[j]):
        return True
    strict = [row for row in rows if row.is_strict]
    return any(one.written.excludes(other.written) for one in strict for other in rows)


def _are_proportional(one: Row, other: Row) -> bool:
    """Return whether the coefficients of rows are proportional, apart from their sign."""
    pairs = list(
        zip(map(Fraction, one.coefficients), map(Fraction, other.coefficients), strict=True)
    )
    first = next((pair for pair in pairs if pair[0]), (Fraction(0), Fraction(0)))
    return all(first) and all(a * first[1] == b * first[0] for a, b in pairs)


def joined(rows: Iterable[Row]) -> list[Row]:
    """Return rows such that those with the same coefficients, apart from the sign, are one row."""
    found: dict[Any, list[Row]] = {}
    for row in map(Row.sorted, rows):
        key = row.columns.tobytes(), row.coefficients.tobytes()
        found.setdefault(key, []).append(row)
    return [row for alike in found.values() for row in _one_row(alike)]


def _one_row(rows: list[Row]) -> list[Row]:
    """Return rows with the same coefficients as one row, unless they contradict each other."""
    low, high = max(row.low for row in rows), min(row.high for row in rows)
    if len(rows) == 1 or low > high:
        return rows
    one = replace(
        rows[0],
        low=low,
        high=high,
        sizes=np.max([row.sizes for row in rows], axis=0),
        size=max(row.size for row in rows),
        written=_AllOf(tuple(rows)),
        n_terms=max(row.n_terms for row in rows),
        is_strict=any(row.is_strict for row in rows),
    )
    return [one]


def _last_that_holds(end: float, side: int, holds: Callable[[float], bool]) -> float:
    """Return the float64 farthest to one side that satisfies a condition, near its exact end.

    If no number near the end satisfies it, an infinity on the other side is returned.
    """
    if np.isinf(end):
        return end
    good = end
    if not holds(end):
        near = (_step(end, way, n) for n in range(NEAR_STEPS) for way in (side, -side))
        good = next((value for value in near if holds(value)), -side * np.inf)
        if np.isinf(good):
            return good
    bad, n = good, 0
    while bad == good or holds(bad):
        good, bad, n = bad, _step(good, side, n), n + 1
        if np.isinf(bad):
            return good
    while (middle := good + (bad - good) / 2) not in (good, bad):
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    # If terms cancel in part, a number further out may hold again.
    for _ in range(4 * MILD):
        bad = float(np.nextafter(bad, side * np.inf))
        good = bad if holds(bad) else good
    return good


def _step(value: float, side: int, n: int) -> float:
    """Return a number ``2**n`` last places to one side."""
    return float(value + side * np.ldexp(np.spacing(abs(value)), n))


@dataclass(frozen=True, eq=False)
class Limit:
    """A bound on what a model predicts.

    Attributes
    ----------
    response : Response
        The prediction.
    low, high : float
        Bounds, both included and perhaps infinite.
    """

    response: Response
    low: float
    high: float

    def slack_of(self, prediction: float) -> float:
        """Return by how much a prediction is within the bounds; negative if it is not."""
        return min(prediction - self.low, self.high - prediction)

    def slack(self, x: FloatArray) -> float:
        """Return by how much the prediction at a point is within the bounds."""
        return self.slack_of(float(self.response.predict(x[None, :])[0]))

    def holds(self, x: FloatArray) -> bool:
        """Return whether the condition holds at a point."""
        return self.slack(x) >= 0


@dataclass(frozen=True, eq=False)
class Within:
    """An alternative of a clause: a feature lies in an interval, or is one of some numbers.

    Attributes
    ----------
    column : int
        The feature.
    low, high : float
        The interval, both ends included and perhaps infinite.
    numbers : frozenset of float, or None
        The numbers, instead of an interval.
    inside : bool
        Whether the feature must be one of the numbers. If False, it must be none of them.
    """

    column: int
    low: float = -np.inf
    high: float = np.inf
    numbers: frozenset[float] | None = None
    inside: bool = True

    def admits(self, values: FloatArray) -> Any:
        """Return whether each value of the feature satisfies the alternative."""
        if self.numbers is None:
            return (self.low <= values) & (values <= self.high)
        return np.isin(values, sorted(self.numbers)) == self.inside

    def slack(self, x: FloatArray) -> float:
        """Return by how much the alternative holds at a point; negative if it does not."""
        value = float(x[self.column])
        if self.numbers is None:
            return min(value - self.low, self.high - value)
        return 0.0 if self.admits(np.array([value]))[0] else -1.0

    def holds(self, x: FloatArray) -> bool:
        """Return whether the alternative holds at a point."""
        return bool(self.admits(x[[self.column]])[0])


Literal: TypeAlias = Row | Within
"""An alternative of a clause."""


@dataclass(frozen=True, eq=False)
class Clause:
    """Alternatives, at least one of which must hold."""

    literals: tuple[Literal, ...]

    def slack(self, x: FloatArray) -> float:
        """Return the largest slack of the alternatives that hold, or of all if none does."""
        held = [literal.slack(x) for literal in self.literals if literal.holds(x)]
        if held:
            return max(*held, 0.0)
        return min(max(literal.slack(x) for literal in self.literals), -np.finfo(float).tiny)

    def holds(self, x: FloatArray) -> bool:
        """Return whether an alternative holds at a point."""
        return any(literal.holds(x) for literal in self.literals)


@dataclass(frozen=True, eq=False)
class Count:
    """A maximum number of features that are not 0."""

    columns: tuple[int, ...]
    k: int

    def slack(self, x: FloatArray) -> float:
        """Return how many more features may differ from 0."""
        return float(self.k - np.count_nonzero(x[list(self.columns)]))

    def holds(self, x: FloatArray) -> bool:
        """Return whether the condition holds at a point."""
        return self.slack(x) >= 0


Condition: TypeAlias = Row | Limit | Clause | Count


@dataclass(frozen=True, eq=False)
class Constraint:
    """One constraint of the user.

    Attributes
    ----------
    label : str
        The constraint as the user wrote it, for results and messages.
    conditions : tuple of Row, Limit, Clause and Count
        What must hold.
    """

    label: str
    conditions: tuple[Condition, ...]

    def slack(self, x: FloatArray) -> float:
        """Return by how much the constraint holds at a point; negative if it does not."""
        return float(min((condition.slack(x) for condition in self.conditions), default=np.inf))

    def holds(self, x: FloatArray) -> bool:
        """Return whether the constraint holds at a point, as a user checks it."""
        return all(condition.holds(x) for condition in self.conditions)

    @property
    def columns(self) -> set[int]:
        """The features of its linear and logical conditions."""
        found: set[int] = set()
        for condition in self.conditions:
            parts: Any = condition.literals if isinstance(condition, Clause) else (condition,)
            for part in parts:
                if isinstance(part, Row | Count):
                    found.update(int(c) for c in part.columns)
                elif isinstance(part, Within):
                    found.add(part.column)
        return found


def unique_labels(constraints: Sequence[Constraint]) -> list[str]:
    """Return the labels of constraints; a number is added to labels that occur before."""
    found: list[str] = []
    for constraint in constraints:
        label, n = constraint.label, 1
        while label in found:
            n += 1
            label = f"{constraint.label} ({n})"
        found.append(label)
    return found
