"""An independent oracle for decisions: Mišić's mixed-integer program, solved by scipy's HiGHS.

The program is written from the flat arrays of the ensembles; nothing of treeopt's search is used.
The formulation is that of Mišić (Operations Research 68, 2020):

- The inputs of a feature are divided into *cells*, the intervals between neighboring cuts of all
  ensembles. A cell is a closed interval of float64 numbers: those that the cast to the ensemble's
  precision sends between the two cuts. Cells without a number that is allowed are left out, so
  bounds and integers need no constraint.
- The binary variable ``s[j, b]`` is 1 if feature j lies in one of its first b cells. Hence
  ``s[j, b] <= s[j, b + 1]``.
- The continuous variable ``y[l]`` is 1 if leaf l is reached. Each tree has one leaf. At a node, the
  leaves on the left need ``s = 1``, and those on the right ``s = 0``.
- A feature in a linear row has a continuous (or integer) variable ``x[j]``, which lies between the
  ends of the cell that ``s`` chooses.
- Prices and changes of other features are costs of cells: the minimum of the cost in the cell.

How to compare
--------------
HiGHS accepts points that violate a constraint by 1e-6, after the scaling described below, and ends
at an absolute gap of 1e-6. So the optimum of the program is not exactly that of the question:

- without rows and limits, the two differ by at most ``Solution.tolerance``;
- with them, a point that violates a row by 1e-6 may be much better than all points that do not.
  This is rare. `bracket` solves the question twice, once with relaxed and once with tightened rows
  and limits, and returns an interval that contains the optimum. A test should assert that a proven
  value lies in this interval. If the interval is wider than a few tolerances, a change of the
  constraints by 1e-6 changes the optimum.

Rows are scaled such that no feature changes a row by more than 1 over its range. Limits are scaled
by the range of their sum.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, vstack

from treeopt import Ensemble

Array = np.ndarray[Any, np.dtype[np.float64]]

TOLERANCE = 1e-6
"""HiGHS' tolerance for constraints and integers, and its absolute gap."""

OPTIMAL, TIME_LIMIT, INFEASIBLE = "optimal", "time limit", "infeasible"

SENSES = {"min": 1.0, "max": -1.0}


# The question ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trees:
    """What an ensemble predicts before its link, times a weight.

    Feature k of the ensemble is ``columns[k]`` of the question, by default k.
    """

    ensemble: Ensemble
    weight: float = 1.0
    columns: Sequence[int] | None = None

    def column(self, feature: Any) -> Any:
        return feature if self.columns is None else np.asarray(self.columns)[feature]


@dataclass(frozen=True, eq=False)
class Change:
    """The cost ``weight * |x - row|``, plus ``fee`` for every feature that differs from the row.

    Weights and fees are per feature. They may be negative.
    """

    row: Array
    weight: Array
    fee: Array | None = None


@dataclass(frozen=True, eq=False)
class Row:
    """The linear constraint ``low <= coefficients @ x <= high``."""

    coefficients: Array
    low: float = -np.inf
    high: float = np.inf


@dataclass(frozen=True, eq=False)
class Limit:
    """The constraint ``low <= sum <= high`` on what an ensemble predicts before its link."""

    trees: Trees
    low: float = -np.inf
    high: float = np.inf


@dataclass(frozen=True, eq=False)
class Question:
    """Optimize the sum of models, prices and changes over a box, subject to rows and limits.

    The objective is the plain sum, for both senses. To maximize a prediction minus a cost, pass
    negative prices and negative weights of changes.
    """

    bounds: Array
    models: Sequence[Trees] = ()
    sense: str = "min"
    prices: Array | None = None
    changes: Sequence[Change] = ()
    rows: Sequence[Row] = ()
    limits: Sequence[Limit] = ()
    integer: Sequence[int] = ()

    @property
    def n(self) -> int:
        """Number of features."""
        return len(self.bounds)

    def value(self, x: Array) -> float:
        """Return the objective at a point; sums are added in float64."""
        total = sum(margin(trees, x) for trees in self.models)
        total += 0.0 if self.prices is None else float(self.prices @ x)
        for change in self.changes:
            total += float(change.weight @ np.abs(x - change.row))
            total += 0.0 if change.fee is None else float(change.fee @ (x != change.row))
        return float(total)

    def violation(self, x: Array) -> float:
        """Return the maximum violation of bounds, rows and limits, in their own units."""
        low, high = self.bounds.T
        found = [0.0, float((low - x).max()), float((x - high).max())]
        for row in self.rows:
            activity = float(row.coefficients @ x)
            found += [row.low - activity, activity - row.high]
        for limit in self.limits:
            total = margin(limit.trees, x)
            found += [limit.low - total, total - limit.high]
        return max(found)


def margin(trees: Trees, x: Array) -> float:
    """Walk all trees of an ensemble, and return the weighted sum in float64."""
    e = trees.ensemble
    seen = np.asarray(x, np.float64)[trees.column(np.arange(e.n_features))]
    seen = seen.astype(e.input_dtype).astype(np.float64)
    node = e.tree_start[:-1].astype(np.int64)
    while (inner := e.left[node] >= 0).any():
        at = node[inner]
        right = seen[e.feature[at]] > e.threshold[at]
        node[inner] = np.where(right, e.right[at], e.left[at])
    return trees.weight * (e.base + float(e.value[node].astype(np.float64).sum())) / e.divisor


# Cells -------------------------------------------------------------------------------------------


def last_below(cut: float, dtype: np.dtype[Any]) -> float:
    """Return the last float64 that is not above a cut after the cast to ``dtype``."""
    if dtype == np.float64 or not np.isfinite(cut):
        return float(cut)
    below = dtype.type(cut)
    if float(below) > cut:
        below = np.nextafter(below, dtype.type(-np.inf))
    above = np.nextafter(below, dtype.type(np.inf))
    if not np.isfinite(above):
        return float(cut)
    last = (float(below) + float(above)) / 2  # exact in float64; the cast rounds it to even
    if float(dtype.type(last)) > cut:
        last = float(np.nextafter(last, -np.inf))
    assert float(dtype.type(last)) <= cut < float(dtype.type(np.nextafter(last, np.inf)))
    return last


class Axis:
    """The cells of one feature that hold an allowed value.

    Cell c is the closed interval from ``lower[c]`` to ``upper[c]``. For integer features, both are
    integers.
    """

    def __init__(self, low: float, high: float, lasts: Sequence[float], integer: bool) -> None:
        lasts = np.unique([v for v in lasts if np.isfinite(v)])
        lower = np.maximum(low, np.concatenate([[-np.inf], np.nextafter(lasts, np.inf)]))
        upper = np.minimum(high, np.concatenate([lasts, [np.inf]]))
        if integer:
            lower, upper = np.ceil(lower), np.floor(upper)
        there = lower <= upper
        self.lower, self.upper = lower[there], upper[there]
        self.integer = integer

    @property
    def n_cells(self) -> int:
        return self.lower.size

    @property
    def span(self) -> float:
        return float(self.upper[-1] - self.lower[0])

    def cells_below(self, lasts: Any) -> Any:
        """Return the number of cells at or below each of the last values of a cell."""
        return np.searchsorted(self.upper, lasts, side="right")

    def costs(self, price: float, changes: Sequence[tuple[float, float, float]]) -> Array:
        """Return the cost at both ends of each cell.

        In between, the cost is linear, because all rows of changes are cells of their own.
        """
        ends = np.stack([self.lower, self.upper])
        total = price * ends
        for row, weight, fee in changes:
            total += weight * np.abs(ends - row) + fee * (ends != row)
        return total


# The program -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer of the oracle.

    Attributes
    ----------
    status : str
        "optimal", "infeasible", "time limit", or what HiGHS says.
    fun, bound : float
        Optimum of the program and HiGHS' bound on it. Without a point, ``fun`` is NaN. ``bound``
        may be infinite; it is NaN if the program is infeasible.
    x : array or None
        The point, in the cells that the program chose. It may violate rows and limits by about 1e-6
        after scaling.
    value, violation : float
        The objective and the maximum violation at ``x``, from the arrays of the ensembles.
    tolerance : float
        Maximum difference of ``fun`` and ``bound`` from the true objective at the chosen cells.
    seconds : float
        Time of the solver, without building the program.
    nodes : int
        Nodes of HiGHS' branch and bound.
    """

    status: str
    fun: float
    bound: float
    x: Array | None
    value: float
    violation: float
    tolerance: float
    seconds: float
    nodes: int


@dataclass(eq=False)
class _Rows:
    """Collects the rows of a sparse matrix with their sides."""

    matrices: list[tuple[Array, Array, Array, int]] = field(default_factory=list)
    low: list[Array] = field(default_factory=list)
    high: list[Array] = field(default_factory=list)

    def add(self, row: Any, column: Any, entry: Any, low: Any, high: Any) -> None:
        """Add a block of rows; ``row`` counts from 0 within the block."""
        self.low.append(np.atleast_1d(np.asarray(low, float)))
        self.high.append(np.atleast_1d(np.asarray(high, float)))
        parts = (np.asarray(row), np.asarray(column), np.asarray(entry, float))
        self.matrices.append((*parts, self.low[-1].size))

    def constraint(self, width: int) -> list[LinearConstraint]:
        made = [
            csr_array((entry, (row, column)), shape=(n, width))
            for row, column, entry, n in self.matrices
            if n
        ]
        if not made:
            return []
        low, high = np.concatenate(self.low), np.concatenate(self.high)
        return [LinearConstraint(vstack(made, format="csr"), low, high)]


class Program:
    """The mixed-integer program of a question.

    ``shift`` tightens all rows and limits, or relaxes them if it is negative. It is in scaled
    units. The sides of equalities are not tightened.
    """

    def __init__(self, question: Question, shift: float = 0.0) -> None:
        self.question, self.shift = question, shift
        self.sign = SENSES[question.sense]
        self.groups = [*question.models, *(limit.trees for limit in question.limits)]
        for trees in self.groups:
            e = trees.ensemble
            if e.categories or e.zero_missing.any():
                raise ValueError(f"{e.source}: splits by category or around zero are not intervals")
        self.axes = self._axes()
        self.empty = any(axis.n_cells == 0 for axis in self.axes)
        if not self.empty:
            self._build()

    # Building

    def _axes(self) -> list[Axis]:
        q = self.question
        lasts: list[list[float]] = [[] for _ in range(q.n)]
        for trees in self.groups:
            e = trees.ensemble
            inner = e.left >= 0
            for k in np.unique(e.feature[inner]):
                cuts = np.unique(e.threshold[inner & (e.feature == k)])
                lasts[trees.column(int(k))] += [last_below(c, e.input_dtype) for c in cuts]
        for j in range(q.n):
            for row, _, _ in self._changes(j):  # the row itself becomes a cell
                lasts[j] += [float(np.nextafter(row, -np.inf)), row]
        ends = zip(q.bounds.tolist(), lasts, strict=True)
        return [Axis(*low_high, cuts, j in q.integer) for j, (low_high, cuts) in enumerate(ends)]

    def _changes(self, j: int) -> list[tuple[float, float, float]]:
        """Return row, weight and fee of all changes of a feature, signed."""
        found = []
        for change in self.question.changes:
            weight = self.sign * float(change.weight[j])
            fee = 0.0 if change.fee is None else self.sign * float(change.fee[j])
            if weight or fee:
                found.append((float(change.row[j]), weight, fee))
        return found

    def _price(self, j: int) -> float:
        prices = self.question.prices
        return 0.0 if prices is None else self.sign * float(prices[j])

    def _build(self) -> None:
        q = self.question
        self.cost: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.integrality: list[int] = []
        self.constant = self.scale = 0.0
        self.rows = _Rows()

        # s[j, b] for b = 1, ..., n_cells - 1; its column is start[j] + b - 1.
        counts = [axis.n_cells - 1 for axis in self.axes]
        self.start = np.concatenate([[0], np.cumsum(counts)])
        self._variables(int(self.start[-1]), 0.0, 1.0, integer=True)
        for j, count in enumerate(counts):
            first = self.start[j] + np.arange(max(count - 1, 0))
            k = np.arange(first.size)
            ones = np.ones(first.size)
            self.rows.add(
                np.tile(k, 2),
                np.concatenate([first, first + 1]),
                np.concatenate([ones, -ones]),
                np.full(k.size, -np.inf),
                np.zeros(k.size),
            )

        self.linked: dict[int, int] = {}  # column of x[j] of features in rows
        for j in range(q.n):
            if any(row.coefficients[j] for row in q.rows):
                self._link(j)
            self._costs(j)
        for trees in q.models:
            self._objective(trees)
        for limit in q.limits:
            self._limit(limit)
        for row in q.rows:
            self._row(row)

    def _variables(self, n: int, low: Any, high: Any, integer: bool = False) -> Array:
        """Add variables, and return their columns."""
        begin = len(self.cost)
        self.cost += [0.0] * n
        self.low += np.broadcast_to(low, n).tolist()
        self.high += np.broadcast_to(high, n).tolist()
        self.integrality += [int(integer)] * n
        return np.arange(begin, begin + n)

    def _steps(self, j: int, values: Array) -> tuple[float, Array, Array]:
        """Write the value of the chosen cell as constant + coefficients @ s of feature j."""
        steps = np.diff(values)  # the value of cell 0, plus the step at each s that is 0
        return float(values[0] + steps.sum()), self.start[j] + np.arange(steps.size), -steps

    def _link(self, j: int) -> None:
        """Add x[j], scaled to 0..1 unless it is an integer, between the ends of its cell."""
        axis = self.axes[j]
        scale = 1.0 if axis.integer or axis.span == 0 else axis.span
        lower, upper = ((end - axis.lower[0]) / scale for end in (axis.lower, axis.upper))
        column = int(self._variables(1, lower[0], upper[-1], axis.integer)[0])
        self.linked[j] = column
        upper = -relaxed(-upper[::-1])[::-1]
        for ends, side in ((relaxed(lower), 1.0), (upper, -1.0)):
            constant, columns, entries = self._steps(j, ends)  # side * (x - end) >= 0
            self.rows.add(
                np.zeros(columns.size + 1, int),
                np.append(columns, column),
                side * np.append(-entries, 1.0),
                side * constant,
                np.inf,
            )

    def _x(self, j: int) -> tuple[float, float]:
        """Return offset and scale of x[j]: the input is offset + scale * x[j]."""
        axis = self.axes[j]
        return float(axis.lower[0]), 1.0 if axis.integer or axis.span == 0 else axis.span

    def _costs(self, j: int) -> None:
        """Add the price and the changes of a feature."""
        axis, changes, price = self.axes[j], self._changes(j), self._price(j)
        self.scale += abs(price) * axis.span
        self.scale += sum(abs(weight) * axis.span + abs(fee) for _, weight, fee in changes)
        if j not in self.linked:
            self._cell_costs(j, axis.costs(price, changes).min(axis=0))
            return
        column = self.linked[j]
        offset, scale = self._x(j)
        self.constant += price * offset
        self.cost[column] += price * scale
        for row, weight, fee in changes:
            fees = fee * ((axis.lower != row) | (axis.upper != row))
            self._cell_costs(j, fees)
            if weight:
                self._distance(j, row, weight)

    def _cell_costs(self, j: int, costs: Array) -> None:
        constant, columns, entries = self._steps(j, costs)
        self.constant += constant
        for column, entry in zip(columns, entries, strict=True):
            self.cost[column] += entry

    def _distance(self, j: int, row: float, weight: float) -> None:
        """Add a variable d = |x[j] - row| in the scale of x[j]."""
        axis, column = self.axes[j], self.linked[j]
        offset, scale = self._x(j)
        at = (row - offset) / scale
        far = np.abs((np.stack([axis.lower, axis.upper]) - row) / scale)
        d = int(self._variables(1, 0.0, far.max())[0])
        self.cost[d] += weight * scale
        if weight > 0:
            # d >= x - row, d >= row - x, and d >= the minimum distance of the chosen cell
            for side in (1.0, -1.0):
                self.rows.add([0, 0], [d, column], [1.0, -side], -side * at, np.inf)
            constant, columns, entries = self._steps(j, far.min(axis=0))
            index = np.zeros(columns.size + 1, int)
            entries = np.append(-entries, 1.0)
            self.rows.add(index, np.append(columns, d), entries, constant, np.inf)
            return
        # A reward. The cell tells the side: d <= (x - row) + 2 far below, and so on.
        below = np.where(axis.upper < row, 2 * far.max(), 0.0)
        above = np.where(axis.lower > row, 2 * far.max(), 0.0)
        for side, free in ((1.0, below), (-1.0, above)):
            constant, columns, entries = self._steps(j, free)  # d - side * (x - at) <= free
            index = np.zeros(columns.size + 2, int)
            entries = np.concatenate([-entries, [1.0, -side]])
            columns = np.concatenate([columns, [d, column]])
            self.rows.add(index, columns, entries, -np.inf, constant - side * at)

    def _leaves(self, trees: Trees) -> tuple[Array, Array]:
        """Add the leaves of an ensemble, and return their columns and their weighted values."""
        e = trees.ensemble
        first, count = leaf_intervals(e)
        leaf, split = np.flatnonzero(e.left < 0), np.flatnonzero(e.left >= 0)
        column = self._variables(leaf.size, 0.0, 1.0)
        begin = int(column[0])
        value = np.empty(leaf.size)
        value[first[leaf]] = e.value[leaf].astype(np.float64) * (trees.weight / e.divisor)

        roots = e.tree_start[:-1]
        self.rows.add(*_runs(begin + first[roots], count[roots]), *np.ones((2, roots.size)))
        boundary = np.zeros(split.size, np.int64)
        variable = np.zeros(split.size, np.int64)
        n_cells = np.zeros(split.size, np.int64)
        for k in np.unique(e.feature[split]):
            at = e.feature[split] == k
            j = int(trees.column(int(k)))
            lasts = [last_below(cut, e.input_dtype) for cut in e.threshold[split[at]]]
            boundary[at] = self.axes[j].cells_below(lasts)
            variable[at] = self.start[j] + boundary[at] - 1
            n_cells[at] = self.axes[j].n_cells
        for child, side, wrong in (
            (e.left[split], 1.0, boundary == 0),
            (e.right[split], -1.0, boundary == n_cells),
        ):
            for node in child[wrong]:  # no allowed value goes there
                here = slice(begin + first[node], begin + first[node] + count[node])
                self.high[here] = [0.0] * int(count[node])
            free = (boundary > 0) & (boundary < n_cells)
            node = child[free]  # leaves - s <= 0 on the left, leaves + s <= 1 on the right
            index, columns, ones = _runs(begin + first[node], count[node])
            self.rows.add(
                np.concatenate([index, np.arange(node.size)]),
                np.concatenate([columns, variable[free]]),
                np.concatenate([ones, np.full(node.size, -side)]),
                np.full(node.size, -np.inf),
                np.full(node.size, 0.0 if side > 0 else 1.0),
            )
        return column, value

    @staticmethod
    def _range(trees: Trees, value: Array) -> float:
        """Return the sum of the ranges of all trees."""
        e = trees.ensemble
        begin = np.cumsum([0, *np.add.reduceat(e.left < 0, e.tree_start[:-1])])[:-1]
        return float((np.maximum.reduceat(value, begin) - np.minimum.reduceat(value, begin)).sum())

    def _objective(self, trees: Trees) -> None:
        column, value = self._leaves(trees)
        for at, entry in zip(column.tolist(), value.tolist(), strict=True):
            self.cost[at] += self.sign * entry
        self.constant += self.sign * trees.weight * trees.ensemble.base / trees.ensemble.divisor
        self.scale += self._range(trees, value)

    def _limit(self, limit: Limit) -> None:
        column, value = self._leaves(limit.trees)
        e = limit.trees.ensemble
        base = limit.trees.weight * e.base / e.divisor
        scale = self._range(limit.trees, value) or 1.0
        sides = ((limit.low - base) / scale, (limit.high - base) / scale)
        index = np.zeros(column.size, int)
        self.rows.add(index, column, value / scale, *self._shifted(*sides))

    def _row(self, row: Row) -> None:
        used = [j for j in range(self.question.n) if row.coefficients[j]]
        ends = [self._x(j) for j in used]
        entries = np.array([row.coefficients[j] * s for j, (_, s) in zip(used, ends, strict=True)])
        offset = sum(row.coefficients[j] * o for j, (o, _) in zip(used, ends, strict=True))
        reach = np.array([abs(row.coefficients[j]) * self.axes[j].span for j in used])
        scale = reach.max(initial=0.0) or 1.0
        sides = ((row.low - offset) / scale, (row.high - offset) / scale)
        columns = [self.linked[j] for j in used]
        self.rows.add(np.zeros(len(used), int), columns, entries / scale, *self._shifted(*sides))

    def _shifted(self, low: float, high: float) -> tuple[float, float]:
        low_high = (low + self.shift, high - self.shift)
        return (low, high) if low_high[0] > low_high[1] else low_high

    # Solving

    @cached_property
    def problem(self) -> dict[str, Any]:
        """The arguments of `scipy.optimize.milp`."""
        return {
            "c": np.array(self.cost),
            "integrality": np.array(self.integrality),
            "bounds": Bounds(np.array(self.low), np.array(self.high)),
            "constraints": self.rows.constraint(len(self.cost)),
        }

    def solve(self, time_limit: float | None = None) -> Solution:
        """Solve the program; the gap is closed up to HiGHS' absolute gap.

        On programs with tens of thousands of leaves, HiGHS 1.12 may exceed the time limit by
        minutes.
        """
        if self.empty:
            return Solution(INFEASIBLE, np.nan, np.nan, None, np.nan, np.nan, 0.0, 0.0, 0)
        options = {"mip_rel_gap": 0.0}
        if time_limit is not None:
            options["time_limit"] = time_limit
        problem = self.problem
        begin = time.perf_counter()
        if not self.cost:  # one cell per feature, and nothing depends on it
            found: Any = None
        else:
            found = milp(**problem, options=options)
        seconds = time.perf_counter() - begin
        tolerance = TOLERANCE * (1 + self.scale)
        if found is None:
            fun = bound = self.sign * self.constant
            x = self._point(np.zeros(0))
            rest = (self.question.value(x), self.question.violation(x), tolerance, seconds, 0)
            return Solution(OPTIMAL, fun, bound, x, *rest)
        texts = {0: OPTIMAL, 1: TIME_LIMIT, 2: INFEASIBLE}
        status = texts.get(found.status, f"{found.status}: {found.message}")
        nodes = int(found.mip_node_count or 0)
        lowest = found.mip_dual_bound
        if lowest is None:  # always so in a program without integers
            lowest = found.fun if status == OPTIMAL else -np.inf
        bound = np.nan if status == INFEASIBLE else self.sign * (self.constant + lowest)
        if found.x is None:
            return Solution(status, np.nan, bound, None, np.nan, np.nan, tolerance, seconds, nodes)
        fun = self.sign * (self.constant + float(found.fun))
        x = self._point(found.x)
        rest = (self.question.value(x), self.question.violation(x), tolerance, seconds, nodes)
        return Solution(status, fun, bound, x, *rest)

    def _point(self, found: Array) -> Array:
        """Return a point in the chosen cells: the cheapest, or else the middle."""
        x = np.empty(self.question.n)
        for j, axis in enumerate(self.axes):
            cell = int(np.count_nonzero(found[self.start[j] : self.start[j + 1]] < 0.5))
            low, high = axis.lower[cell], axis.upper[cell]
            changes, price = self._changes(j), self._price(j)
            if j in self.linked:
                offset, scale = self._x(j)
                at = offset + scale * found[self.linked[j]]
                x[j] = np.clip(np.round(at) if axis.integer else at, low, high)
            elif changes or price:
                x[j] = (low, high)[int(axis.costs(price, changes)[:, cell].argmin())]
            else:
                x[j] = low if axis.integer else low / 2 + high / 2
                x[j] = min(max(x[j], low), high)
        return x


def relaxed(lower: Array) -> Array:
    """Lower some of the ascending numbers such that no step between them is tiny.

    HiGHS' presolve has claimed wrong optima of programs with coefficients of 6e-8.
    """
    found = lower.copy()
    for k in range(1, found.size):
        if found[k] - found[k - 1] < TOLERANCE:
            found[k] = found[k - 1]
    return found


def leaf_intervals(e: Ensemble) -> tuple[Array, Array]:
    """Return the first leaf and the number of leaves below each node, leaves from left to right."""
    left, right = e.left.tolist(), e.right.tolist()
    first, count = np.zeros(e.n_nodes, np.int64), np.zeros(e.n_nodes, np.int64)
    done = 0
    for root in e.tree_start[:-1].tolist():
        stack = [(root, False)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                count[node] = done - first[node]
                continue
            first[node] = done
            if left[node] < 0:
                done += 1
                count[node] = 1
            else:
                stack += [(node, True), (right[node], False), (left[node], False)]
    return first, count


def _runs(first: Array, count: Array) -> tuple[Array, Array, Array]:
    """Return rows with one run of ones each, given the first columns and lengths of the runs."""
    row = np.repeat(np.arange(count.size), count)
    begin = np.cumsum(count) - count
    column = np.arange(row.size) + np.repeat(first - begin, count)
    return row, column, np.ones(row.size)


# Entry points ------------------------------------------------------------------------------------


def solve(question: Question, time_limit: float | None = None, shift: float = 0.0) -> Solution:
    """Build and solve the program of a question; see `Program` for ``shift``."""
    return Program(question, shift).solve(time_limit)


def bracket(
    question: Question, time_limit: float | None = None, shift: float = 10 * TOLERANCE
) -> tuple[float, float]:
    """Return an interval that contains the optimum of a question.

    One end is the bound of the question with relaxed rows and limits. The other end is the value of
    a point that satisfies tightened ones. It is infinite if there is no such point within the time
    limit; both are NaN if even the relaxed question has none.
    """
    loose, tight = (solve(question, time_limit, side * shift) for side in (-1.0, 1.0))
    sign = SENSES[question.sense]
    if loose.status == INFEASIBLE:
        return np.nan, np.nan
    best = sign * loose.bound - loose.tolerance
    worst = np.inf if np.isnan(tight.fun) else sign * tight.fun + tight.tolerance
    ends = (sign * best, sign * worst)
    return min(ends), max(ends)
