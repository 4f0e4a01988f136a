"""From a problem to its `Statement`, and back from places to points."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from treeopt.exact.exact_settings import ExactSettings
from treeopt.exact.general.conditions import Conditions
from treeopt.exact.general.free_features import FreeFeatures
from treeopt.exact.general.parts import Parts
from treeopt.exact.general.statement import LINK, OPEN, Statement
from treeopt.exact.list_leaves import list_sums
from treeopt.problem.problem import Problem
from treeopt.run.limits import Limits
from treeopt.types import FloatArray, Int32Array


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
    feature_of : mapping
        The number of the free feature of a column.
    rows, literal_rows : lists of Row
        The rows that must hold, and those that are alternatives of clauses.
    clauses : list of lists
        The alternatives of each clause.
    """

    def __init__(self, problem: Problem, limits: Limits, settings: ExactSettings) -> None:
        self.problem, self.limits = problem, limits
        free = FreeFeatures(problem)
        self.places, self.columns, self.feature_of = free.places, free.columns, free.feature_of
        self.base, self.integer = free.base, free.integer
        conditions = Conditions(problem, free)
        self.rows, self.literal_rows = conditions.rows, conditions.literal_rows
        self.clauses = conditions.clauses
        parts = Parts(problem, free)
        self._listed = parts.listed
        leaves, sum_start = list_sums(problem, free.places, parts.listed, limits, settings)
        sums = parts.sums(leaves, sum_start)
        features, offset = free.with_costs(conditions.rows_of)
        self.statement = Statement(
            leaves=leaves,
            sums=sums,
            parts=parts.as_records(sums["spread"]),
            features=features,
            rows=conditions.row_records(),
            logic=conditions.logic_records(),
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

    def places_at(self, x: FloatArray) -> Int32Array:
        """Return the places of admissible numbers of the free features."""
        places = [self.place(k, value) for k, value in enumerate(x.tolist())]
        for k in np.flatnonzero(np.array(places) < 0).tolist():  # next to a place, or beyond all
            high = self._numbers[k][1]
            places[k] = min(int(high.searchsorted(x[k])), high.size - 1)
        return np.array(places, np.int32)

    def place(self, k: int, x: float) -> int:
        """Return the place of a number of a free feature; -1 if it is not admissible."""
        low, high, is_ordered = self._numbers[k]
        if is_ordered:
            c = int(high.searchsorted(x))
            return c if c < high.size and low[c] <= x else -1
        inside = np.flatnonzero((low <= x) & (x <= high))
        return int(inside[0]) if inside.size else -1

    @cached_property
    def _numbers(self) -> list[tuple[FloatArray, FloatArray, bool]]:
        """The first and last number of the places of each feature, and whether these ascend."""
        features, start = self.statement.features, self.places.start.tolist()
        low, high = (features.place[side].copy() for side in ("low", "high"))
        ordered = features.feature["ordered"].tolist()
        return [
            (low[begin:end], high[begin:end], is_ordered)
            for (begin, end), is_ordered in zip(pairwise(start), ordered, strict=True)
        ]

    def sums_at(self, x: FloatArray) -> FloatArray:
        """Return all sums at a point of the problem, lowered by their errors."""
        grid, sums = self.problem.grid, self.statement.sums["constant"].copy()
        cells = [grid.cell_of(j, x[[column]])[0] for j, column in enumerate(grid.columns.tolist())]
        for k, own in enumerate(self._listed):
            for number, factor in own:
                points = grid.own_points(number, np.array([cells], np.int64))
                sums[k] += factor * float(grid.sums[number].sums_at(points)[0])
        return sums

    def reach(self) -> FloatArray:
        """Return the maximum absolute number of each feature; 0 if it is infinite."""
        far = [max(float(high.max()), -float(low.min())) for low, high, _ in self._numbers]
        return np.array([each if each < OPEN else 0.0 for each in far])

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
