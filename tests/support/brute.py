"""The optimum of small decisions with constraints and costs, by brute force over all cells.

A `Question` says in plain Python what is asked of treeopt: columns, terms, constraints. `solve`
answers it. It knows nothing of treeopt's grid, places or boxes:

- Of each column it takes all numbers that may matter, with their neighbors. Runs of numbers that no
  split and no condition on this column alone tells apart are *cells*: closed intervals of float64
  numbers. Integers and listed values are cells of their own.
- In a combination of cells, all predictions are constant, and all costs are linear. So the optimum
  is at a vertex, where as many bounds and rows hold with equality as there are columns. All vertices
  are tried.
- Numbers are rounded, so two values are computed. ``Truth.relaxed`` is the optimum if every row may
  be violated by 1e-9 of its size: no point is better. ``Truth.value`` is the best of the points that
  satisfy everything as a user evaluates it, in float64: each of these is checked. The true optimum
  lies between the two. The tolerance for equalities is not used, although answers may use it.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.support.decisions import SENSES, check_history, special_values, turns
from tests.support.truth import predict
from treeopt import Decision, Difference, Ensemble, Status
from treeopt.model.link import IDENTITY

RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
}
OPPOSITE = {"<=": ">", "<": ">=", ">=": "<", ">": "<="}
SIGN = {"<=": 1.0, "<": 1.0, ">=": -1.0, ">": -1.0}

EQUALITY = 8 * 2.0**-52
"""An equality holds if both sides differ by this much of the sum of its absolute terms."""

SHARE = 1e-9
"""By how much rows are relaxed or tightened, relative to the size of their terms."""

MANY = 40
"""More integers than this in a column are not cells of their own."""

FAR = 1e6
"""No vertex of the random problems lies beyond this; cells without a bound end here."""


# What is asked --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """What may be chosen for one column of the problem.

    Attributes
    ----------
    key : str or int
        How the user refers to it, in mappings.
    low, high : float
        Bounds.
    integer : bool
        Whether only integers are allowed.
    values : tuple of float, or None
        The allowed numbers, if they are listed; one number, perhaps NaN, if the column is fixed.
    labels : mapping from float to label
        What the user calls the numbers of a column with categories.
    is_category : bool
        Whether the models split it by sets.
    """

    key: Any
    low: float = -np.inf
    high: float = np.inf
    integer: bool = False
    values: tuple[float, ...] | None = None
    labels: Mapping[float, Any] = field(default_factory=dict)
    is_category: bool = False

    @property
    def width(self) -> float:
        """The range by which changes are measured by default."""
        low, high = (min(self.values), max(self.values)) if self.values else (self.low, self.high)
        return high - low if high > low else 1.0

    def label(self, number: float) -> Any:
        """Return what the user calls a number."""
        return self.labels.get(number, number)


@dataclass(frozen=True, eq=False)
class Part:
    """A model, and the columns of the problem that it reads.

    ``own`` is the user's own prediction for a frame or matrix of its columns; None for models that
    are given converted. ``asked`` is what the user passes.
    """

    model: Any
    columns: tuple[int, ...]
    asked: Any = None
    own: Callable[[Any], np.ndarray] | None = None
    output: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sums(self) -> list[Ensemble]:
        """The sums of trees of the model."""
        if isinstance(self.model, Difference):
            return [self.model.plus, self.model.minus]
        return list(getattr(self.model, "sums", [self.model]))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the predictions at points of the problem; checked by hand at both ends."""
        own = np.ascontiguousarray(X[:, list(self.columns)])
        found = self.model.predict(own)
        if isinstance(self.model, Ensemble) and self.model.link == IDENTITY and len(X) > 1:
            ends = [int(found.argmin()), int(found.argmax())]
            assert predict(self.model, own[ends]).tolist() == found[ends].tolist()
        return found.astype(np.float64)

    def at(self, x: np.ndarray) -> float:
        """Return the prediction at one point."""
        return float(self.predict(x[None, :])[0])


@dataclass(frozen=True, eq=False)
class Predicts:
    """A term: a weighted prediction."""

    weight: float
    part: Part

    def value(self, x: np.ndarray, prediction: float) -> float:
        return prediction


@dataclass(frozen=True, eq=False)
class Times:
    """A term: a weighted product of a column and a prediction."""

    weight: float
    part: Part
    column: int
    minus: float

    def value(self, x: np.ndarray, prediction: float) -> float:
        return (float(x[self.column]) - self.minus) * prediction


@dataclass(frozen=True, eq=False)
class Costs:
    """A term: prices per unit, prices per number, and changes from references.

    Attributes
    ----------
    slopes : mapping from column to price
    tables : mapping from column to (mapping from number to price, price of all others)
    kinks : mapping from column to (reference, per, fee)
    is_cost : bool
        Whether it was passed as ``cost``, and is subtracted if the objective is maximized.
    """

    weight: float
    slopes: Mapping[int, float] = field(default_factory=dict)
    tables: Mapping[int, tuple[Mapping[float, float], float]] = field(default_factory=dict)
    kinks: Mapping[int, tuple[float, float, float]] = field(default_factory=dict)
    is_cost: bool = False

    def of(self, column: int, x: float) -> float:
        """Return the cost of one column, without the weight."""
        if column in self.tables:
            table, other = self.tables[column]
            return table.get(x, other)
        total = self.slopes[column] * x if column in self.slopes else 0.0
        if column in self.kinks:
            at, per, fee = self.kinks[column]
            total += per * abs(x - at) + (fee if x != at else 0.0)
        return total

    @property
    def columns(self) -> list[int]:
        return [*self.slopes, *self.tables, *self.kinks]

    def size(self, x: np.ndarray) -> float:
        """Return how large the terms are, and may be near by, before any of them cancel."""
        far = 10 * (np.abs(x) + 1)
        slopes = sum(abs(price) * far[k] for k, price in self.slopes.items())
        kinks = sum(per * (abs(at) + far[k]) for k, (at, per, _) in self.kinks.items())
        return abs(self.weight) * float(slopes + kinks)

    def value(self, x: np.ndarray, prediction: float = np.nan) -> float:
        return sum((self.of(column, float(x[column])) for column in self.columns), 0.0)


@dataclass(frozen=True, eq=False)
class Line:
    """A linear comparison of two sides.

    Attributes
    ----------
    left, right : str
        Both sides as Python code, with ``v[3]`` for column 3.
    relation : str
        One of `RELATIONS`.
    factors, constant : mapping from column to float, and float
        Left minus right.
    negated : bool
        Whether the comparison must not hold.
    sizes : mapping from column to float, or None
        The sum of the absolute factors of each column as written, if it occurs more than once.
    """

    left: str
    relation: str
    right: str
    factors: Mapping[int, float]
    constant: float
    negated: bool = False
    sizes: Mapping[int, float] | None = None

    @cached_property
    def _code(self) -> Any:
        return [compile(side.strip(), "<side>", "eval") for side in (self.left, self.right)]

    def sides(self, x: Any) -> tuple[float, float]:
        """Return both sides as Python computes them."""
        known = {"__builtins__": {}, "v": {j: float(x[j]) for j in self.columns}}
        left, right = (eval(code, known) for code in self._code)
        return left, right

    @property
    def columns(self) -> list[int]:
        return list(self.factors)

    def is_true(self, x: Any) -> bool:
        """Return what Python says of the comparison, which is not negated."""
        return bool(RELATIONS[self.relation](*self.sides(x)))

    def holds(self, x: Any, share: float = EQUALITY) -> bool:
        """Return whether the line holds; an equality up to a share of its terms."""
        if self.relation == "==" and not self.negated:
            left, right = self.sides(x)
            return abs(left - right) <= share * min(self.size(x), 1e300)
        return self.is_true(x) != self.negated

    def certainly_holds(self, x: Any) -> bool:
        """Return whether the line holds without use of the tolerance for equalities.

        With several features, one unit in the last place is not a use of the tolerance.
        """
        return self.holds(x, 2.0**-52 if len(self.factors) > 1 else 0.0)

    def slack(self, x: Any) -> float:
        """Return by how much it holds; only of lines that are not negated."""
        left, right = self.sides(x)
        if self.relation == "==":
            return 0.0 if self.holds(x) else -abs(left - right)
        return SIGN[self.relation] * (right - left)

    def size(self, x: Any) -> float:
        """Return the sum of the absolute terms."""
        sizes = self.factors if self.sizes is None else self.sizes
        return abs(self.constant) + sum(abs(f) * abs(float(x[j])) for j, f in sizes.items())

    def alternatives(self) -> list[tuple[float, bool]]:
        """Return sign and whether it is an equality: ``sign * (left - right) <= 0`` or ``== 0``."""
        if self.relation == "==":
            return [(1.0, False), (-1.0, False)] if self.negated else [(1.0, True)]
        return [(SIGN[OPPOSITE[self.relation] if self.negated else self.relation], False)]


@dataclass(frozen=True, eq=False)
class Only:
    """A condition on one column: it is in an interval or a list, or it is not."""

    column: int
    low: float = -np.inf
    high: float = np.inf
    numbers: frozenset[float] | None = None
    inside: bool = False

    @property
    def columns(self) -> list[int]:
        return [self.column]

    def holds(self, x: Any) -> bool:
        value = float(x[self.column])
        is_in = self.low <= value <= self.high if self.numbers is None else value in self.numbers
        return is_in == self.inside

    @property
    def special(self) -> list[float]:
        return [self.low, self.high] if self.numbers is None else list(self.numbers)


@dataclass(frozen=True, eq=False)
class Rows:
    """A constraint: linear comparisons that must all hold. ``given`` is what the user passes."""

    given: Any
    lines: tuple[Line, ...]

    @property
    def clauses(self) -> list[list[Line | Only]]:
        return [[line] for line in self.lines]

    def holds(self, x: np.ndarray) -> bool:
        return all(line.holds(x) for line in self.lines)

    def certainly_holds(self, x: np.ndarray) -> bool:
        return all(line.certainly_holds(x) for line in self.lines)

    def slacks(self, x: np.ndarray) -> list[float]:
        return [min(line.slack(x) for line in self.lines)]


@dataclass(frozen=True, eq=False)
class Matrix:
    """A constraint: a scipy ``LinearConstraint``, as a user checks it, by one product."""

    given: Any
    columns: int

    def split(self) -> list[Matrix]:
        """Return one constraint for each row."""
        return [
            Matrix(LinearConstraint(row, low, high), self.columns)
            for row, low, high in zip(self.matrix, *self.ends, strict=True)
        ]

    @cached_property
    def matrix(self) -> np.ndarray:
        return np.atleast_2d(np.asarray(self.given.A, float))

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        n = len(self.matrix)
        low, high = (
            np.broadcast_to(np.asarray(e, float), n) for e in (self.given.lb, self.given.ub)
        )
        return low, high

    @property
    def clauses(self) -> list[list[Line | Only]]:
        found: list[list[Line | Only]] = []
        for row, low, high in zip(self.matrix, *self.ends, strict=True):
            used = {int(j): float(row[j]) for j in np.flatnonzero(row)}
            code = " + ".join(f"{f!r}*v[{j}]" for j, f in used.items())
            if not used:
                continue
            if low == high:
                found.append([Line(code, "==", repr(float(low)), used, -float(low))])
                continue
            if low > -np.inf:
                found.append([Line(code, ">=", repr(float(low)), used, -float(low))])
            if high < np.inf:
                found.append([Line(code, "<=", repr(float(high)), used, -float(high))])
        return found

    def holds(self, x: np.ndarray) -> bool:
        return min(self.slacks(x)) >= 0

    def certainly_holds(self, x: np.ndarray) -> bool:
        return self.holds(x) and all(line.certainly_holds(x) for (line,) in self.clauses)

    def slacks(self, x: np.ndarray) -> list[float]:
        x = np.where((self.matrix != 0).any(axis=0), x, 0.0)  # a column without factor may be NaN
        values, (low, high) = self.matrix @ x, self.ends
        found = []
        for i, value in enumerate(values):
            slack = min(value - low[i], high[i] - value)
            if low[i] == high[i]:
                size = abs(low[i]) + np.abs(self.matrix[i]) @ np.abs(x)
                slack = 0.0 if abs(slack) <= EQUALITY * size else slack
            found.append(float(slack))
        return found


@dataclass(frozen=True, eq=False)
class Limits:
    """A constraint: a prediction within limits."""

    given: Any
    part: Part
    low: float
    high: float

    clauses: tuple[Any, ...] = ()

    def holds(self, x: np.ndarray) -> bool:
        return self.low <= self.part.at(x) <= self.high

    def slacks(self, x: np.ndarray) -> list[float]:
        value = self.part.at(x)
        return [min(value - self.low, self.high - value)]


@dataclass(frozen=True, eq=False)
class Few:
    """A constraint: at most k columns are not 0."""

    given: Any
    columns: tuple[int, ...]
    k: int

    clauses: tuple[Any, ...] = ()

    def holds(self, x: np.ndarray) -> bool:
        return sum(x[j] != 0 for j in self.columns) <= self.k

    def slacks(self, x: np.ndarray) -> list[float]:
        return [float(self.k - sum(x[j] != 0 for j in self.columns))]


@dataclass(frozen=True, eq=False)
class Logic:
    """A constraint: of each clause, one alternative holds.

    ``test`` is what a user would write; with True, equalities hold without their tolerance.
    """

    given: Any
    clauses: list[list[Line | Only]]
    test: Callable[..., bool]

    def holds(self, x: np.ndarray) -> bool:
        return bool(self.test(x))

    def certainly_holds(self, x: np.ndarray) -> bool:
        return bool(self.test(x, True))

    def slacks(self, x: np.ndarray) -> list[float | None]:
        return [None]


def spelled(constraint: Any) -> str:
    """Return a constraint as text."""
    if isinstance(constraint, Matrix):
        A, (low, high) = constraint.matrix.tolist(), constraint.ends
        return f"LinearConstraint({A}, {low.tolist()}, {high.tolist()})"
    return repr(constraint.given)


@dataclass(eq=False)
class Question:
    """A decision problem.

    Attributes
    ----------
    columns : list of Column
        The columns of the problem, in treeopt's order.
    terms : list of Predicts, Times and Costs
        The objective, in the order in which it is added.
    constraints : list of constraints
        See above.
    sense : {"min", "max"}
    objective, cost : objects
        The objective as the user passes it.
    options : dict
        bounds, fixed, integer and categories, as the user passes them.
    note : str
        How to make the question again.
    """

    columns: list[Column]
    terms: list[Any]
    constraints: list[Any]
    sense: str
    objective: Any
    cost: Any
    options: dict[str, Any]
    note: str = ""

    def __repr__(self) -> str:
        rows = "\n  ".join(map(spelled, self.constraints))
        return (
            f"{self.note}: {self.sense} {self.objective!r}, cost={self.cost!r},\n  {self.options}"
            f"\n  {rows}"
        )

    @property
    def sign(self) -> float:
        """1 to minimize, -1 to maximize."""
        return 1.0 if self.sense == "min" else -1.0

    @property
    def parts(self) -> list[Part]:
        """The models in the objective and the constraints, without repetition."""
        found = [t.part for t in self.terms if not isinstance(t, Costs)]
        found += [c.part for c in self.constraints if isinstance(c, Limits)]
        return list({id(part): part for part in found}.values())

    def decide(self, **more: Any) -> Decision:
        """Ask treeopt."""
        given = [c.given for c in self.constraints]
        asked = {"constraints": given, "cost": self.cost, **self.options, **more}
        return SENSES[self.sense](self.objective, **asked)

    def weight(self, term: Any) -> float:
        """Return the factor of a term."""
        return term.weight * self.sign if getattr(term, "is_cost", False) else term.weight

    def contributions(self, x: np.ndarray, predictions: Mapping[int, float]) -> list[float]:
        """Return what each term adds; predictions by the id of their part."""
        return [
            self.weight(term) * term.value(x, predictions.get(id(getattr(term, "part", None)), 0.0))
            for term in self.terms
        ]

    def value(self, x: np.ndarray) -> float:
        """Return the value of a point, added from left to right."""
        predictions = {id(part): part.at(x) for part in self.parts}
        return sum(self.contributions(x, predictions))

    def holds(self, x: np.ndarray) -> bool:
        """Return whether a point satisfies all constraints as a user checks them."""
        return all(constraint.holds(x) for constraint in self.constraints)

    def certainly_holds(self, x: np.ndarray) -> bool:
        """Return whether a point satisfies all constraints without use of tolerances."""
        own = (getattr(c, "certainly_holds", c.holds) for c in self.constraints)
        return all(holds(x) for holds in own)

    def admits(self, x: np.ndarray) -> bool:
        """Return whether all columns have allowed values."""
        for value, column in zip(x, self.columns, strict=True):
            if column.values is not None:
                if not any(np.array_equal(value, v, equal_nan=True) for v in column.values):
                    return False
            elif not column.low <= value <= column.high or (
                column.integer and value != np.round(value)
            ):
                return False
        return True


# Cells ----------------------------------------------------------------------------------------


def ordinal(values: Any) -> np.ndarray:
    """Return integers in the order of floats, neighbors apart by one."""
    bits = np.atleast_1d(np.asarray(values, np.float64) + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def from_ordinal(numbers: np.ndarray) -> np.ndarray:
    """Return the floats of integers made by `ordinal`."""
    return np.where(numbers >= 0, numbers, np.int64(-(2**63)) - numbers).view(np.float64)


class Axis:
    """The cells of one column: closed intervals ``low[c] <= x <= high[c]``."""

    def __init__(self, question: Question, j: int) -> None:
        self.column, self.j = question.columns[j], j
        self.parts = [(p, p.columns.index(j)) for p in question.parts if j in p.columns]
        self.kinks = [
            t.kinks[j][0] for t in question.terms if isinstance(t, Costs) and j in t.kinks
        ]
        self.counted = any(isinstance(c, Few) and j in c.columns for c in question.constraints)
        self.single = [
            literal
            for constraint in question.constraints
            for clause in constraint.clauses
            for literal in clause
            if literal.columns == [j]
        ]
        own, largest = self.column, np.finfo(np.float64).max
        for part, _ in self.parts:
            largest = min(largest, float(np.finfo(part.model.input_dtype).max))
        low, high = max(own.low, -largest), min(own.high, largest)
        if own.values is not None:
            low_ends = high_ends = np.unique(own.values)
        elif own.integer and high / 2 - low / 2 <= MANY / 2:
            low_ends = high_ends = np.arange(np.ceil(low), np.floor(high) + 1)
        else:
            low_ends, high_ends = self._runs(low, high)
            if own.integer:
                low_ends, high_ends = np.ceil(low_ends), np.floor(high_ends)
                some = low_ends <= high_ends
                low_ends, high_ends = low_ends[some], high_ends[some]
        self.low, self.high = low_ends, high_ends
        self.wide_integer = bool(own.integer and (high_ends > low_ends).any())

    def __len__(self) -> int:
        return int(self.low.size)

    def _signature(self, values: np.ndarray) -> np.ndarray:
        """Return what the splits and conditions make of each value, one row per value."""
        found = [turns(e, own, values) for part, own in self.parts for e in part.sums]
        marks = [*self.kinks, *([0.0] if self.counted else [])]
        found += [np.stack([values < at, values == at], axis=1) for at in marks]
        for literal in self.single:
            found.append(np.array([[literal.holds({self.j: v})] for v in values]))
            if isinstance(literal, Line):
                found.append(np.array([[literal.is_true({self.j: v})] for v in values]))
        return np.hstack([np.zeros((values.size, 1), bool), *found])

    def _runs(self, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        """Return first and last numbers of runs that are alike."""
        marks = [*self.kinks, 0.0]
        for literal in self.single:
            if isinstance(literal, Only):
                marks += literal.special
            else:
                ((_, factor),) = literal.factors.items()
                marks.append(-literal.constant / factor)
        marks = [v for v in marks if np.isfinite(v)]
        near = [np.nextafter(v, s * np.inf) for v in marks for s in (-1, 1)]
        values = [low, high, *marks, *near]
        for part, own in self.parts:
            for e in part.sums:
                values += special_values(e, own, marks).tolist()
        at = np.unique(np.clip(np.array(values) + 0.0, low, high))
        while True:
            signature = self._signature(at)
            differ = (signature[1:] != signature[:-1]).any(axis=1)
            apart = differ & (np.diff(ordinal(at)) > 1)
            if not apart.any():
                break
            # Halve all gaps in which something changes, until the change is between neighbors.
            first, last = ordinal(at[:-1][apart]), ordinal(at[1:][apart])
            at = np.unique(np.append(at, from_ordinal((first & last) + ((first ^ last) >> 1))))
        starts = np.flatnonzero(np.append(True, differ))
        ends = np.append(starts[1:] - 1, at.size - 1)
        return at[starts], at[ends]


# The optimum ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """The optimum of a question lies between two values; see the module.

    Both are infinite, in the direction of the worse, if there is no such point. ``x`` is a point
    with the value ``value``.
    """

    relaxed: float
    value: float
    x: np.ndarray | None

    @property
    def infeasible(self) -> bool:
        """Whether there is certainly no point."""
        return bool(np.isinf(self.relaxed))

    @property
    def is_decided(self) -> bool:
        """Whether it is known up to rounding: no row holds only if it is relaxed."""
        near = abs(self.value - self.relaxed) <= 1e-5 * (1 + abs(self.value))
        return self.infeasible or (self.feasible and near)

    @property
    def feasible(self) -> bool:
        """Whether there certainly is a point."""
        return self.x is not None


class Cells:
    """All combinations of cells of a question."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.axes = [Axis(question, j) for j in range(len(question.columns))]
        self.n = int(np.prod([len(axis) for axis in self.axes]))

    def solve(self) -> Truth:
        """Return the optimum."""
        self._enumerate()
        sign = self.question.sign
        relaxed, best, x = np.inf, np.inf, None
        for n in np.argsort(self.optimistic, kind="stable"):
            if self.optimistic[n] > best or not np.isfinite(self.optimistic[n]):
                break
            for rows in self._choices_of_rows(n):
                found = self._optimum(n, rows, SHARE)
                if found is None:
                    continue
                relaxed = min(relaxed, found[0])
                for witness in self._witnesses(n, rows):
                    if has_extremes(witness):
                        continue
                    if self.question.admits(witness) and self.question.certainly_holds(witness):
                        value = sign * self.question.value(witness)
                        if value < best:
                            best, x = value, witness
                        break
        return Truth(sign * min(relaxed, best), sign * best, x)

    def _enumerate(self) -> None:
        """Compute, for all combinations: predictions, slopes, and the best value in the box."""
        question, sign = self.question, self.question.sign
        mesh = np.meshgrid(*[np.arange(len(axis)) for axis in self.axes], indexing="ij")
        index = np.stack([m.ravel() for m in mesh], axis=1).reshape(-1, len(self.axes))
        self.low = np.stack([a.low[i] for a, i in zip(self.axes, index.T, strict=True)], axis=1)
        self.high = np.stack([a.high[i] for a, i in zip(self.axes, index.T, strict=True)], axis=1)
        predictions = {id(part): part.predict(self.low) for part in question.parts}
        for part in question.parts:
            assert np.array_equal(part.predict(self.high), predictions[id(part)])
        alive = np.ones(len(index), bool)
        for constraint in question.constraints:
            if isinstance(constraint, Limits):
                own = predictions[id(constraint.part)]
                alive &= (constraint.low <= own) & (own <= constraint.high)
            elif isinstance(constraint, Few):
                columns = list(constraint.columns)
                alive &= (self.low[:, columns] != 0).sum(axis=1) <= constraint.k
        self.open_clauses: list[tuple[list[Line], np.ndarray]] = []
        for constraint in question.constraints:
            for clause in constraint.clauses:
                satisfied = np.zeros(len(index), bool)
                lines = []
                for literal in clause:
                    if len(literal.columns) > 1:
                        lines.append(literal)
                        continue
                    (j,) = literal.columns
                    truth = np.array([literal.holds({j: v}) for v in self.axes[j].low])
                    satisfied |= truth[index[:, j]]
                possible = satisfied.copy()
                for line in lines:
                    for alternative in line.alternatives():
                        possible |= self._possible(line, *alternative)
                alive &= possible
                if lines:
                    self.open_clauses.append((lines, satisfied))
        # The value at the low ends, and slopes from there.
        self.slopes = np.zeros(self.low.shape)
        self.constant = np.zeros(len(index))
        for term in question.terms:
            weight = sign * question.weight(term)
            if isinstance(term, Costs):
                for j in term.columns:
                    costs = np.array([term.of(j, v) for v in self.axes[j].low.tolist()])
                    self.constant += weight * costs[index[:, j]]
                    slope = np.full(len(self.axes[j]), term.slopes.get(j, 0.0))
                    if j in term.kinks:
                        at, per, _ = term.kinks[j]
                        slope += np.where(self.axes[j].low >= at, per, -per)
                    self.slopes[:, j] += weight * slope[index[:, j]]
                continue
            own = predictions[id(term.part)]
            factor = 1.0
            if isinstance(term, Times):
                factor = self.low[:, term.column] - term.minus
                self.slopes[:, term.column] += weight * own
            self.constant += weight * factor * own
        with np.errstate(all="ignore"):
            fall = np.where(self.slopes < 0, self.slopes * (self.high - self.low), 0.0)
        fall[np.isnan(self.low)] = 0.0
        self.optimistic = np.where(alive, self.constant + fall.sum(axis=1), np.inf)

    def _ends(self, line: Line) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return minimum, maximum and size of left minus right, in all combinations."""
        low = np.full(self.low.shape[0], line.constant)
        high, size = low.copy(), np.abs(low)
        with np.errstate(all="ignore"):
            for j, factor in line.factors.items():
                ends = np.stack([factor * self.low[:, j], factor * self.high[:, j]])
                low, high = low + ends.min(axis=0), high + ends.max(axis=0)
                size = size + np.minimum(np.abs(ends).max(axis=0), abs(factor) * FAR)
        return low, high, SHARE * (1 + size)

    def _possible(self, line: Line, side: float, is_equality: bool) -> np.ndarray:
        """Return in which combinations an alternative may hold, up to `SHARE`."""
        low, high, share = self._ends(line)
        if is_equality:
            return (low <= share) & (high >= -share)
        return low <= share if side > 0 else -high <= share

    def _choices_of_rows(self, n: int) -> Any:
        """Yield rows that must hold in a combination: one alternative of each open clause."""
        choices = []
        for lines, satisfied in self.open_clauses:
            if satisfied[n]:
                continue
            own = []
            for line in lines:
                if (self.low[n, line.columns] == self.high[n, line.columns]).all():
                    if line.holds(self.low[n]):  # nothing is left to choose
                        own = [None]
                        break
                    continue
                own += [(line, *alternative) for alternative in line.alternatives()]
            if own == [None]:
                continue
            choices.append(own)
        return itertools.product(*choices)

    def _optimum(
        self, n: int, rows: Sequence[tuple[Line, float, bool]], share: float
    ) -> tuple[float, np.ndarray] | None:
        """Return the optimum in a combination with some rows; None if there is no point.

        ``share`` relaxes the rows; if it is negative, it tightens them, but equalities.
        """
        low, high, slopes = self.low[n], self.high[n], self.slopes[n]
        x = np.where(slopes < 0, high, low)
        used = sorted({j for line, _, _ in rows for j in line.columns})
        free = [j for j in used if low[j] < high[j]]
        upper, limit, equal = [], [], []
        for line, side, is_equality in rows:
            own = np.array([line.factors.get(j, 0.0) for j in free])
            rest = line.constant + sum(
                f * low[j] for j, f in line.factors.items() if low[j] == high[j]
            )
            size = (
                1
                + abs(line.constant)
                + sum(
                    abs(f) * min(max(abs(low[j]), abs(high[j])), FAR)
                    for j, f in line.factors.items()
                )
            )
            upper.append(side * own)
            limit.append(-side * rest + share * size * (not is_equality or share > 0))
            equal.append(is_equality)
            if is_equality:
                upper.append(-own)
                limit.append(rest + share * size * (share > 0))
                equal.append(is_equality)
        ends = low[free], high[free]
        A, b = np.array(upper).reshape(len(limit), len(free)), np.array(limit)
        if free:
            if any(self.axes[j].wide_integer for j in free):
                whole = [self.axes[j].wide_integer for j in free]
                found = by_milp(slopes[free], A, b, *ends, whole)
            else:
                found = by_vertices(slopes[free], A, b, *ends)
            if found is None:
                return None
            x[free] = found
        elif (b < 0).any():
            return None
        fixed = np.isnan(low) | (slopes == 0)
        moved = np.where(fixed, 0.0, np.where(fixed, 0.0, x) - np.where(fixed, 0.0, low))
        return float(self.constant[n] + slopes @ moved), x

    def _witnesses(self, n: int, rows: Sequence[tuple[Line, float, bool]]) -> Any:
        """Yield points that may satisfy everything exactly, the best first."""
        for share in (0.0, -SHARE):
            found = self._optimum(n, rows, share)
            if found is None:
                continue
            x = np.clip(found[1], self.low[n], self.high[n])
            yield x
            for digits in (12, 9):
                with np.errstate(over="ignore"):  # numbers near the maximum stay as they are
                    rounded = np.round(x, digits)
                yield np.clip(rounded, self.low[n], self.high[n])


def has_extremes(x: np.ndarray) -> bool:
    """Return whether products may become 0 or infinite, so that a row only seems to hold."""
    size = np.abs(x[x != 0])
    return bool(((size < 1e-300) | (size > 1e300)).any())


def by_vertices(
    slopes: np.ndarray, A: np.ndarray, b: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """Return the minimum of ``slopes @ x`` with ``A @ x <= b`` in a box; None if there is none.

    All vertices are tried.
    """
    k = slopes.size
    low, high = np.maximum(low, -FAR), np.minimum(high, FAR)
    eye = np.eye(k)
    G, h = np.concatenate([A, -eye, eye]), np.concatenate([b, -low, high])
    size = np.abs(G).max(axis=1) * max(1.0, float(np.abs([low, high]).max())) + np.abs(h)
    which = np.array(list(itertools.combinations(range(len(G)), k)))
    matrices = G[which]
    regular = np.abs(np.linalg.det(matrices)) > 1e-9
    which, matrices = which[regular], matrices[regular]
    if not which.size:
        return None
    points = np.linalg.solve(matrices, h[which][:, :, None])[:, :, 0]
    for ends in (low, high):
        points = np.where(np.abs(points - ends) <= 1e-13 * (1 + np.abs(ends)), ends, points)
    fine = (points @ G.T <= h + 1e-13 * size).all(axis=1)
    points = points[fine]
    return None if not len(points) else points[np.argmin(points @ slopes)]


def by_milp(
    slopes: np.ndarray,
    A: np.ndarray,
    b: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    whole: list[bool],
) -> np.ndarray | None:
    """Return the same with integers, by HiGHS, whose tolerances are those of its documentation."""
    found = milp(
        slopes,
        constraints=LinearConstraint(A, -np.inf, b),
        bounds=Bounds(np.maximum(low, -FAR), np.minimum(high, FAR)),
        integrality=np.array(whole, int),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    return np.where(whole, np.round(found.x), found.x)


def solve(question: Question) -> Truth:
    """Return the optimum of a question."""
    return Cells(question).solve()


# What must hold -------------------------------------------------------------------------------


def point_of(res: Decision, question: Question) -> np.ndarray:
    """Return the point of a decision as numbers, in the order of the question.

    The frame that users pass to their models must have the same numbers.
    """
    x = res._point
    assert x is not None and x.dtype == np.float64
    names = res._inputs.feature_names
    assert names is None or list(names) == [str(c.key) for c in question.columns]
    frame = res.frame
    for j, column in enumerate(question.columns):
        given, own = frame.iloc[0, j] if names is None else frame[column.key].iloc[0], x[j]
        if column.labels:
            given = {label: number for number, label in column.labels.items()}[given]
        assert np.array_equal(float(given), own, equal_nan=True), (column.key, given, own)
        told = res.x[column.key]
        told = {label: number for number, label in column.labels.items()}.get(told, told)
        assert np.array_equal(float(told), own, equal_nan=True), (column.key, told, own)
    return x


def predictions_of(res: Decision, question: Question, x: np.ndarray) -> dict[int, float]:
    """Return what the user's own models predict for the frame."""
    found = {}
    for part in question.parts:
        value = part.at(x)
        if part.model.feature_names:
            frame = res.frame[[question.columns[j].key for j in part.columns]]
            own = part.own if part.own is not None else part.model.predict
            theirs = float(own(frame)[0])
            assert theirs == value or part.own is not None, (theirs, value)
            value = theirs
        found[id(part)] = value
    return found


def check_general(
    res: Decision, question: Question, truth: Truth | None = None, ended: bool = True
) -> None:
    """Check what holds for every decision with constraints and costs.

    Parameters
    ----------
    res : Decision
    question : Question
    truth : Truth
        The optimum; None if it is not known.
    ended : bool
        Whether no limit can have ended the run.
    """
    sign, scale = question.sign, 1.0
    assert res.maximized == (question.sense == "max")
    assert res.time >= 0 and res.nfev >= 0 and res.nodes >= 0 and repr(res) and res.message
    # Where rounding errors decide, neither the truth nor treeopt may know.
    ended &= truth is None or truth.is_decided
    if ended:
        assert res.status in (Status.OPTIMAL, Status.INFEASIBLE), (res.status, res.message)
    if res.status is Status.INFEASIBLE:
        assert truth is None or not truth.feasible, f"feasible: {truth}"
        assert res.x is None and not res.success and res.region is None
        assert np.isnan([res.fun, res.bound, res.gap, res.prediction, res.cost]).all()
        return
    if res.x is None:
        assert not ended and not res.success and np.isnan(res.fun) and res.region is None
        assert truth is None or not truth.feasible or not sign * truth.value < sign * res.bound
        return
    x = point_of(res, question)
    check_point(res, question, x)
    check_region_of(res, question, x)
    check_values(res, question, x)
    check_history(res, question.sense)
    gap = 0.0 if res.fun == res.bound else abs(res.fun - res.bound)
    assert np.array_equal(res.gap, gap, equal_nan=True)
    assert not sign * res.bound > sign * res.fun, (res.bound, res.fun)
    scale += sum(map(abs, res.terms.values()))
    singles = any(e.value.dtype == np.float32 for part in question.parts for e in part.sums)
    # Linear programs have a tolerance relative to the size of the costs.
    size = sum(term.size(x) for term in question.terms if isinstance(term, Costs))
    allowed = (1e-3 if singles else 1e-7) * scale + 1e-8 * size
    assert 0 <= res.rounding <= allowed, (res.rounding, allowed)
    if res.status is Status.OPTIMAL:
        assert res.success and res.gap <= res.rounding
    if truth is None:
        return
    assert not truth.infeasible, "a point, although the truth has none"
    assert sign * res.fun >= sign * truth.relaxed - 1e-7 * scale, (res.fun, truth)
    if truth.feasible:
        assert not sign * truth.value < sign * res.bound, (res.bound, truth)
        if res.status is Status.OPTIMAL:
            assert sign * res.fun <= sign * truth.value + res.rounding, (res.fun, truth)


def check_point(res: Decision, question: Question, x: np.ndarray) -> None:
    """The point is allowed and satisfies every constraint as a user checks it."""
    assert question.admits(x), x
    for constraint in question.constraints:
        assert constraint.holds(x), (constraint.given, x)


def check_values(res: Decision, question: Question, x: np.ndarray) -> None:
    """Values, terms and slacks are those that a user computes from the models' predictions."""
    predictions = predictions_of(res, question, x)
    expected = question.contributions(x, predictions)
    assert list(res.terms.values()) == expected, (res.terms, expected)
    assert sum(res.terms.values()) == res.fun
    models = [v for v, t in zip(expected, question.terms, strict=True) if not isinstance(t, Costs)]
    assert np.array_equal(res.prediction, sum(models) if models else np.nan, equal_nan=True)
    costs = [t for t in question.terms if isinstance(t, Costs)]
    cost = sum((t.weight * t.value(x) for t in costs), 0.0)
    assert np.isclose(res.cost, cost, rtol=1e-12, atol=1e-12)
    slacks = [s for constraint in question.constraints for s in constraint.slacks(x)]
    assert len(res.slack) == len(slacks), (res.slack, slacks)
    for (label, found), slack in zip(res.slack.items(), slacks, strict=True):
        assert isinstance(label, str) and found >= 0
        assert slack is None or np.isclose(found, slack, rtol=1e-9, atol=1e-9), (label, slack)


def check_region_of(res: Decision, question: Question, x: np.ndarray, n: int = 12) -> None:
    """All models predict the same at the corners of the region and at random points in it."""
    region, rng = res.region, np.random.default_rng(0)
    fixed = np.isnan(x)
    assert ((region.lower <= x) & (x <= region.upper) | fixed).all()
    X = np.empty((n, x.size))
    for j, column in enumerate(question.columns):
        low, high = region.lower[j], region.upper[j]
        if column.values is None:
            assert column.low <= low <= high <= column.high
        for part in question.parts:
            largest = float(np.finfo(part.model.input_dtype).max)
            low, high = max(low, -largest), min(high, largest)
        share = rng.random(n)
        with np.errstate(all="ignore"):
            X[:, j] = np.clip(np.nan_to_num(low * (1 - share) + high * share), low, high)
        ends = rng.random(n) < 0.6
        X[ends, j] = rng.choice([low, high], int(ends.sum()))
        if column.is_category and j in region.categories:
            number = {column.label(v): v for v in column.values or ()}
            X[:, j] = rng.choice([number[label] for label in region.categories[j]], n)
            assert column.label(x[j]) in region.categories[j]
        elif fixed[j] or column.values is not None:
            X[:, j] = x[j]
    for part in question.parts:
        assert set(part.predict(X).tolist()) == {part.at(x)}
