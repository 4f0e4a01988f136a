"""From a problem to its `Statement`."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from treeopt.exact.certificate import LINK_ULPS, TermCertificate, extreme_leaves
from treeopt.exact.exact_settings import ExactSettings
from treeopt.exact.general.statement import (
    COUNT,
    COUNTED,
    ENTRY,
    FEATURE,
    HUGE,
    KINK,
    LINK,
    LITERAL,
    OF,
    PART,
    PLACE,
    ROW,
    SOFTMAX,
    STOP,
    SUM,
    Features,
    Logic,
    Rows,
    Statement,
    records,
)
from treeopt.exact.list_leaves import list_sums
from treeopt.model.link import IDENTITY, Link
from treeopt.model.softmax import Softmax
from treeopt.problem.constraints import Clause, Count, Limit, Literal, Row, joined
from treeopt.problem.costs import CostTerm, Kink
from treeopt.problem.leaves import Leaves
from treeopt.problem.problem import Problem
from treeopt.problem.responses import Response
from treeopt.problem.sums import TreeSum
from treeopt.problem.terms import ModelTerm, ProductTerm
from treeopt.run.limits import Limits
from treeopt.types import Array, FloatArray, Int32Array, IntArray

ROUNDING = float(np.finfo(np.float64).eps)
NONE = np.empty(0)


class Contradiction(Exception):
    """Raised if the constraints contradict the bounds in an obvious way."""


@dataclass
class Listed:
    """A sum as it is listed: some sums of trees, each with a factor.

    Attributes
    ----------
    trees : list of (int, float)
        Numbers of sums of the grid, and their factors.
    """

    trees: list[tuple[int, float]]


@dataclass
class _Part:
    """A part before it is an entry of arrays; see `Parts`."""

    kind: int
    sums: list[Listed]
    weight: float = 1.0
    sign: float = 1.0
    link: Link = IDENTITY
    is_product: bool = False
    column: int = -1
    minus: float = 0.0
    limit: float = np.inf
    in_objective: bool = True
    dtype: Any = np.float64


class Stated:
    """A problem as arrays, and the way back from its places to points.

    Parameters
    ----------
    problem : Problem
        The problem.
    limits : Limits
        Limits of the run.
    settings : ExactSettings
        Tuning.

    Attributes
    ----------
    statement : Statement
        The arrays.
    places : Places
        The places of the free features.
    columns : int64 array
        The column of each free feature.
    base : float64 array
        A point with all values that are not free.
    integer : bool array
        Whether each free feature is an integer.
    n_sums : int
        Number of listed sums.
    """

    def __init__(self, problem: Problem, limits: Limits, settings: ExactSettings) -> None:
        self.problem, self.limits, self.settings = problem, limits, settings
        self.objective, self.space = problem.objective, problem.space
        self.rows, self.literal_rows = self._linear_rows(), list[Row]()
        self._choose_places()
        self.columns = problem.grid.columns[self.places.free]
        self.feature_of = {int(column): k for k, column in enumerate(self.columns)}
        self.integer = self.space.integer[self.columns]
        parts = self._parts()
        listed = self._listed = [own for part in parts for own in part.sums]
        leaves, sum_start = list_sums(
            problem, self.places, [own.trees for own in listed], limits, settings
        )
        constant, error = self._constants(listed)
        sums = {
            "start": sum_start[:-1],
            "end": sum_start[1:],
            "constant": constant - error,
            "error": error,
            "spread": _spreads(leaves, sum_start),
        }
        features, offset = self._features()
        logic = self._logic()
        self.statement = Statement(
            leaves=leaves,
            sums=records(SUM, sums, len(listed)),
            parts=self._part_arrays(parts, leaves, sum_start),
            features=features,
            rows=self._row_arrays(),
            logic=logic,
            offset=offset,
        )

    @property
    def is_one_sum(self) -> bool:
        """Whether the problem is to minimize one sum of trees, without constraints and costs."""
        statement = self.statement
        parts, logic = statement.parts, statement.logic
        is_linear = (parts["link"] == 0) & (parts["kind"] == LINK) & (parts["n_sums"] == 1)
        has_costs = statement.features.feature["is_priced"].any()
        has_logic = logic.clause_start.size > 1 or logic.counts.size > 0
        is_alone = parts.size == 1 and bool((is_linear & parts["in_objective"]).all())
        return is_alone and not (has_costs or has_logic or statement.rows.row.size)

    # Features and places

    def _linear_rows(self) -> list[Row]:
        """Return the rows that must hold."""
        conditions = [c for constraint in self.problem.constraints for c in constraint.conditions]
        return [c for c in conditions if isinstance(c, Row)]

    def _involved(self) -> set[int]:
        """Return the columns whose numbers matter, not only their cells."""
        return self.problem.columns_with_costs | self.problem.columns_in_constraints

    def _choose_places(self) -> None:
        """Choose the places, narrowed by rows with one feature, and the free features."""
        grid, space, places = self.problem.grid, self.space, self.problem.places
        involved = self._involved()
        self.low: dict[int, FloatArray] = {}
        self.high: dict[int, FloatArray] = {}
        kept: dict[int, IntArray] = {}
        for j, column in enumerate(grid.columns.tolist()):
            if np.isnan(space.lower[column]):
                continue
            low, high = places.numbers_of(j)
            for row in self.rows:
                if row.columns.size == 1 and int(row.columns[0]) == column:
                    ends = row.interval()
                    low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
            if space.integer[column]:
                low, high = np.ceil(low), np.floor(high)
            fine = low <= high
            if not fine.any():
                raise Contradiction
            kept[j] = places.cells[j][fine]
            self.low[j], self.high[j] = low[fine], high[fine]
        self.rows = joined([row for row in self.rows if row.columns.size > 1])
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

    def _features(self) -> tuple[Features, float]:
        """Return the free features with their costs, and the costs of all other features."""
        objective = self.objective
        unaries: dict[int, list[tuple[float, Any]]] = {}
        offset = 0.0
        for term in objective.terms:
            if not isinstance(term, CostTerm):
                continue
            weight = objective.sense * objective.weight_of(term)
            for column, unary in term.unaries:
                if column in self.feature_of:
                    unaries.setdefault(column, []).append((weight, unary))
                else:
                    offset += weight * unary.at(float(self._value_of(column)))
        stops, kinks, slopes = [], [], []
        columns: dict[str, list[FloatArray]] = {"low": [], "high": [], "table": []}
        has_table = np.zeros(self.columns.size, np.bool_)
        for k, column in enumerate(self.columns.tolist()):
            j = int(self.places.free[k])
            n = self.places.cells[j].size
            own_low = self.low.get(j, np.zeros(n))
            own_high = self.high.get(j, np.zeros(n))
            own = unaries.get(column, [])
            has_table[k] = any(unary.table is not None for _, unary in own)
            costs = np.zeros(n)
            for weight, unary in own:
                if unary.table is not None:
                    costs += weight * np.array([unary.at(v) for v in own_low.tolist()])
            slopes.append(sum(weight * unary.slope for weight, unary in own))
            own_kinks = [
                Kink(kink.at, weight * kink.weight, weight * kink.fee)
                for weight, unary in own
                for kink in unary.kinks
            ]
            kinks.append(own_kinks)
            stops.append(self._stops(own_kinks, own_low, own_high, bool(self.integer[k])))
            columns["low"].append(np.clip(own_low, -HUGE, HUGE))
            columns["high"].append(np.clip(own_high, -HUGE, HUGE))
            columns["table"].append(costs)
        of = self._rows_of()
        features = Features(
            feature=records(
                FEATURE,
                {
                    "slope": slopes,
                    "place_start": self.places.start[:-1],
                    "kink_start": _starts(kinks)[:-1],
                    "kink_end": _starts(kinks)[1:],
                    "stop_start": _starts(stops)[:-1],
                    "stop_end": _starts(stops)[1:],
                    "row_start": _starts(of)[:-1],
                    "row_end": _starts(of)[1:],
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
        return features, offset

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

    def _value_of(self, column: int) -> float:
        """Return the value of a column that is not free."""
        return float(self.base[column])

    # Parts

    def _parts(self) -> list[_Part]:
        """Return the parts of the objective, linear terms first, and those with a limit."""
        self._number = {id(own): k for k, own in enumerate(self.problem.grid.sums)}
        linear = Listed([])
        others: list[_Part] = []
        sense = self.objective.sense
        for term in self.objective.terms:
            if isinstance(term, ProductTerm):
                others.append(self._product(term, sense * term.weight))
            elif isinstance(term, ModelTerm):
                weight, response = sense * term.weight, term.response
                if isinstance(response.model, Softmax) or response.model.link != IDENTITY:
                    others.append(self._function(response, weight))
                else:
                    linear.trees += self._scaled(response, weight)
        parts = [_Part(LINK, [linear])] if linear.trees else []
        for constraint in self.problem.constraints:
            for condition in constraint.conditions:
                if not isinstance(condition, Limit):
                    continue
                for weight, limit in ((1.0, condition.high), (-1.0, -condition.low)):
                    if np.isfinite(limit):
                        part = self._function(condition.response, weight)
                        part.limit, part.in_objective = limit, False
                        others.append(part)
        return [*parts, *others]

    def _scaled(self, response: Response, weight: float) -> list[tuple[int, float]]:
        """Return the sums of a response that is linear in them, times a weight."""
        return [
            (self._number[id(own)], weight * own.weight / own.ensemble.divisor)
            for own in response.sums
        ]

    def _function(self, response: Response, weight: float) -> _Part:
        """Return the part of a prediction times a weight."""
        model = response.model
        dtype = response.sums[0].ensemble.value.dtype
        if isinstance(model, Softmax):
            sign = 1.0 if weight > 0 else -1.0
            others = [k for k in range(len(response.sums)) if k != model.class_index]
            sums = []
            for k in (model.class_index, *others):
                own = response.sums[k]
                side = sign if k == model.class_index else -sign
                sums.append(Listed([(self._number[id(own)], side / own.ensemble.divisor)]))
            return _Part(SOFTMAX, sums, weight, sign, dtype=dtype)
        sign = 1.0 if (weight > 0) == model.link.increasing else -1.0
        return _Part(
            LINK, [Listed(self._scaled(response, sign))], weight, sign, model.link, dtype=dtype
        )

    def _product(self, term: ProductTerm, weight: float) -> _Part:
        """Return the part of a product: the prediction from below, then from above."""
        below, above = (self._function(term.response, side) for side in (1.0, -1.0))
        minus, column = term.minus, term.column
        if column not in self.feature_of:
            minus, column = minus - self._value_of(column), -1
        return replace(
            below,
            sums=[*below.sums, *above.sums],
            weight=weight,
            column=column,
            minus=minus,
            is_product=True,
        )

    def _constants(self, listed: list[Listed]) -> tuple[FloatArray, FloatArray]:
        """Return the constant of each sum, and the maximum error of the models and the search."""
        constants, errors = np.zeros(len(listed)), np.zeros(len(listed))
        for k, own in enumerate(listed):
            size, n_trees = 0.0, 0
            for number, factor in own.trees:
                term = self.problem.grid.sums[number]
                constants[k] += factor * term.ensemble.base
                error, largest = _sum_error(term)
                errors[k] += abs(factor) * error
                size += abs(factor) * largest
                n_trees += term.ensemble.n_trees
            errors[k] += (n_trees + 16) * ROUNDING * size
        return constants, errors

    def _part_arrays(self, parts: list[_Part], leaves: Leaves, sum_start: IntArray) -> Array:
        """Return the parts as arrays."""
        spread = _spreads(leaves, sum_start)
        start = np.cumsum([0, *(len(part.sums) for part in parts)])
        codes = [part.link.code(np.dtype(np.float64)) for part in parts]
        scales = []
        for part, at in zip(parts, start, strict=False):
            scales.append(1.0 if part.kind == SOFTMAX else max(spread[at], 1e-300))
        return records(
            PART,
            {
                "weight": [part.weight for part in parts],
                "sign": [part.sign for part in parts],
                "slope": [float(code[1]) for code in codes],
                "minus": [part.minus for part in parts],
                "limit": [part.limit for part in parts],
                "error": [(LINK_ULPS + 4) * float(np.finfo(part.dtype).eps) for part in parts],
                "scale": scales,
                "start": start[:-1],
                "end": start[1:],
                "n_sums": np.diff(start),
                "link": [code[0] for code in codes],
                "feature": [self.feature_of.get(part.column, -1) for part in parts],
                "kind": [part.kind for part in parts],
                "complement": [bool(code[2]) for code in codes],
                "is_product": [part.is_product for part in parts],
                "in_objective": [part.in_objective for part in parts],
            },
            len(parts),
        )

    # Rows and logic

    def _row_arrays(self) -> Rows:
        """Return the rows that must hold and those of clauses as arrays."""
        rows = [*self.rows, *self.literal_rows]
        table: list[tuple[Any, ...]] = []
        entries: list[tuple[int, float, float]] = []
        for r, row in enumerate(rows):
            offset, size, start = 0.0, row.size, len(entries)
            for column, factor, each in zip(row.columns, row.coefficients, row.sizes, strict=True):
                if int(column) in self.feature_of:
                    entries.append((self.feature_of[int(column)], factor, each))
                else:
                    value = self._value_of(int(column))
                    offset += float(factor) * value
                    size += float(each) * abs(value)
            error = ROUNDING * (16 + 2 * row.columns.size)
            is_literal = r >= len(self.rows)
            limits = row.low - offset, row.high - offset
            table.append((start, len(entries), *limits, size, error, is_literal))
        of = [entry for own in self._rows_of() for entry in own]
        return Rows(np.array(table, ROW), np.array(entries, ENTRY), np.array(of, OF))

    def _rows_of(self) -> list[list[tuple[int, float]]]:
        """Return, for each free feature, the rows that must hold and its coefficients there."""
        of: list[list[tuple[int, float]]] = [[] for _ in self.columns]
        for r, row in enumerate(self.rows):
            for column, factor in zip(row.columns, row.coefficients, strict=True):
                if int(column) in self.feature_of and factor != 0:
                    of[self.feature_of[int(column)]].append((r, float(factor)))
        return of

    def _logic(self) -> Logic:
        """Return the clauses and counts that the other features leave open."""
        self.clauses: list[list[Literal]] = []
        counts: list[tuple[list[tuple[int, int]], int]] = []
        for constraint in self.problem.constraints:
            for condition in constraint.conditions:
                if isinstance(condition, Clause):
                    self._add_clause(condition)
                elif isinstance(condition, Count):
                    counts.append(self._count(condition))
        literals, below = [], [np.empty(0, np.int64)]
        n = 0
        for clause in self.clauses:
            for literal in clause:
                if isinstance(literal, Row):
                    r = len(self.rows) + self.literal_rows.index(literal)
                    literals.append((r, -1, -1))
                    continue
                k = self.feature_of[literal.column]
                inside = literal.admits(self.low[int(self.places.free[k])])
                literals.append((-1, k, n))
                below.append(np.append(0, np.cumsum(inside)))
                n += inside.size + 1
        starts = _starts([own for own, _ in counts]).tolist()
        ends = zip(starts[:-1], starts[1:], (most for _, most in counts), strict=True)
        return Logic(
            clause_start=_starts(self.clauses),
            literal=np.array(literals, LITERAL),
            below=np.concatenate(below),
            counts=np.array(list(ends), COUNT),
            counted=np.array([each for own, _ in counts for each in own], COUNTED),
        )

    def _add_clause(self, clause: Clause) -> None:
        """Add a clause, without the alternatives that fixed features decide."""
        literals: list[Literal] = []
        for literal in clause.literals:
            columns = literal.columns.tolist() if isinstance(literal, Row) else [literal.column]
            if any(column in self.feature_of for column in columns):
                literals.append(literal)
            elif literal.holds(self.base):
                return
        if not literals:
            raise Contradiction
        self.clauses.append(literals)
        self.literal_rows += [each for each in literals if isinstance(each, Row)]

    def _count(self, count: Count) -> tuple[list[tuple[int, int]], int]:
        """Return the free features of a count with the place of 0, and how many may differ."""
        most, free = count.k, []
        for column in count.columns:
            if column not in self.feature_of:
                most -= int(self._value_of(column) != 0)
                continue
            k = self.feature_of[column]
            j = int(self.places.free[k])
            zero = np.flatnonzero((self.low[j] == 0) & (self.high[j] == 0))
            free.append((k, int(zero[0]) if zero.size else -1))
        if most < 0:
            raise Contradiction
        return free, most

    # Points

    def places_at(self, x: FloatArray) -> Int32Array:
        """Return the places of admissible numbers of the free features."""
        found = np.empty(self.columns.size, np.int32)
        for k, value in enumerate(x.tolist()):
            own = self.statement.features.place[slice(*self.places.start[k : k + 2])]
            if self.statement.features.feature["ordered"][k]:
                found[k] = min(int(np.searchsorted(own["high"], value)), own.size - 1)
            else:
                found[k] = int(np.argmax((own["low"] <= value) & (value <= own["high"])))
        return found

    def sums_at(self, x: FloatArray) -> FloatArray:
        """Return all sums at a point of the problem, lowered by their errors."""
        grid, sums = self.problem.grid, self.statement.sums["constant"].copy()
        cells = [grid.cell_of(j, x[[column]])[0] for j, column in enumerate(grid.columns.tolist())]
        for k, own in enumerate(self._listed):
            for number, factor in own.trees:
                points = grid.own_points(number, np.array([cells], np.int64))
                sums[k] += factor * float(grid.sums[number].sums_at(points)[0])
        return sums

    def number_in(self, k: int, place: int) -> float:
        """Return the admissible number of a place that is nearest to 0."""
        own = self.statement.features.place[self.places.start[k] + place]
        return float(min(max(0.0, own["low"]), own["high"]))

    def row_scales(self) -> FloatArray:
        """Return the typical size of a violation of each row: the spread of its terms."""
        rows, features = self.statement.rows, self.statement.features
        scales = np.empty(rows.row.size)
        for r, row in enumerate(rows.row):
            total = 0.0
            for entry in rows.entry[row["start"] : row["end"]]:
                own = features.place[
                    slice(*self.places.start[entry["feature"] : entry["feature"] + 2])
                ]
                width = min(float(own["high"].max()) - float(own["low"].min()), 1e6)
                total += abs(float(entry["factor"])) * width
            scales[r] = total if total > 0 else 1.0
        return scales

    def penalty(self) -> float:
        """Return a first penalty: the spread of the objective."""
        parts, features = self.statement.parts, self.statement.features
        total = 0.0
        for part in parts[parts["in_objective"]]:
            spread = float(self.statement.sums["spread"][part["start"] : part["end"]].sum())
            is_linear = part["kind"] == LINK and part["link"] == 0 and not part["is_product"]
            total += spread if is_linear else abs(float(part["weight"])) * min(spread, 10.0)
        for k, feature in enumerate(features.feature):
            own = features.place[slice(*self.places.start[k : k + 2])]
            width = min(float(own["high"].max()) - float(own["low"].min()), 1e6)
            kinks = features.kink[feature["kink_start"] : feature["kink_end"]]
            slope = abs(float(feature["slope"])) + float(np.abs(kinks["weight"]).sum())
            total += slope * width + float(np.ptp(own["table"]))
        return 0.3 * total if total > 0 else 1.0

    def point(self, x: FloatArray) -> FloatArray:
        """Return a point of the problem from the values of the free features."""
        point = self.base.copy()
        point[self.columns] = x
        return point


def _starts(lists: list[Any]) -> IntArray:
    """Return where each list starts if all are concatenated, followed by the total length."""
    return np.cumsum([0, *(len(own) for own in lists)]).astype(np.int64)


def _spreads(leaves: Leaves, sum_start: IntArray) -> FloatArray:
    """Return the distance of the minimum and maximum of each sum."""
    first, last = leaves.value[leaves.start[:-1]], leaves.value[leaves.start[1:] - 1]
    return np.array([(last[a:b] - first[a:b]).sum() for a, b in pairwise(sum_start.tolist())])


def _sum_error(term: TreeSum) -> tuple[float, float]:
    """Return the maximum rounding error of a model's sum, and the maximum size of its parts."""
    ensemble = term.ensemble
    certificate = TermCertificate(TreeSum(ensemble), extreme_leaves(ensemble, 1.0))
    eps = float(np.finfo(ensemble.value.dtype).eps)
    low, high = certificate.range
    size = float(ensemble.compiled.largest_leaves) + abs(ensemble.base)
    # Two more roundings: the division, and the subtraction of another sum.
    return certificate.error() + 2 * eps * max(abs(low), abs(high)), size
