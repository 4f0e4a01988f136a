"""`Problem`: objective, allowed inputs and constraints, as every method takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from treeopt.errors import InputError
from treeopt.model.frames import Columns
from treeopt.model.joint import Inputs
from treeopt.problem.bounds import feature_label
from treeopt.problem.choices import Choices
from treeopt.problem.constraints import Clause, Constraint, Count, Limit, Row
from treeopt.problem.costs import CostTerm
from treeopt.problem.cuts import cuts_of
from treeopt.problem.grid import Grid
from treeopt.problem.objective import Objective
from treeopt.problem.places import Places
from treeopt.problem.prediction import Prediction
from treeopt.problem.responses import Response, check_sums
from treeopt.problem.space import Space
from treeopt.problem.terms import ProductTerm
from treeopt.run.limits import Limits
from treeopt.types import Array, FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """The objective, the allowed inputs and the constraints. Problems are immutable.

    The models are converted and the grid is built once. Problems with other fixed values or another
    sense share both, see `asked`.

    Points of the grid are given by their cells, one per feature of the grid.

    Attributes
    ----------
    objective : Objective
        Weighted terms and a sense.
    choices : Choices
        The allowed inputs, before any feature is fixed.
    grid : Grid
        The cells that all sums share.
    fixed : mapping
        Fixed values by column.
    constraints : tuple of Constraint
        Constraints besides the bounds.
    limits : Limits or None
        Limits of the run, if there is one.
    """

    objective: Objective
    choices: Choices
    grid: Grid
    fixed: Mapping[int, float] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    limits: Limits | None = None

    def __repr__(self) -> str:
        inputs, n_trees = self.inputs, sum(own.ensemble.n_trees for own in self.grid.sums)
        more = f", {len(self.constraints)} constraints" if self.constraints else ""
        return f"<Problem of {inputs.source}: {inputs.n_features} features, {n_trees} trees{more}>"

    def asked(self, sense: float, fixed: Any, limits: Limits) -> Problem:
        """Return the problem with another sense, more fixed values and limits."""
        everything = {**self.fixed, **self.choices.read_fixed(fixed)}
        self._check_fixed(everything)
        return replace(
            self, objective=self.objective.towards(sense), fixed=everything, limits=limits
        )

    def without(self, constraints: tuple[Constraint, ...], choices: Choices) -> Problem:
        """Return the problem with other constraints and other bounds, on the same grid."""
        return replace(self, constraints=constraints, choices=choices)

    def check(self) -> None:
        """Raise an error if the bounds or the fixed values are invalid."""
        self.choices.check(self.fixed)
        self._check_fixed(self.fixed)

    def _check_fixed(self, fixed: Mapping[int, float]) -> None:
        """Raise an error if a constraint or a cost needs a number where a value is missing."""
        missing = [column for column, value in fixed.items() if np.isnan(value)]
        for column in missing:
            users = [c.label for c in self.constraints if column in c.columns]
            for term in self.objective.terms:
                priced = isinstance(term, CostTerm) and column in dict(term.unaries)
                if priced or (isinstance(term, ProductTerm) and term.column == column):
                    users.append(term.label)
            if users:
                raise InputError(
                    f"{feature_label(column, self.inputs)} is fixed at a missing value, but "
                    f"{users[0]!r} needs a number. Fix it at a number, or remove "
                    f"{users[0]!r}."
                )

    def read_start(self, start: Any) -> FloatArray:
        """Return the user's starting points, one per row."""
        if isinstance(start, Mapping) or np.ndim(start) == 1:
            return self.inputs._point(start, "start")[None, :]
        return self.inputs._matrix(start, "start").astype(np.float64)

    @property
    def inputs(self) -> Inputs:
        """What describes the inputs: names, categories, missing values."""
        return self.objective.inputs

    @property
    def prediction(self) -> Prediction:
        """The objective of a plain problem: the prediction of one model."""
        found = self.objective.prediction
        if found is None:
            raise ValueError("the objective is more than the prediction of one model")
        return found

    @property
    def is_plain(self) -> bool:
        """Whether one model is optimized without constraints and costs."""
        return not self.constraints and self.objective.prediction is not None

    @cached_property
    def space(self) -> Space:
        """The allowed inputs, with all fixed values."""
        return self.choices.fix(self.fixed)

    @cached_property
    def places(self) -> Places:
        """The cells of the grid that the space allows."""
        return Places(self.grid, self.space, self.inputs, self.limits)

    @property
    def columns(self) -> Columns | None:
        """The columns of the user's frame, if there is one."""
        return self.choices.columns

    @property
    def infeasible_because(self) -> str:
        """Reason for infeasibility; empty if feasible."""
        return self.places.infeasible_because

    @property
    def responses(self) -> tuple[Response, ...]:
        """The predictions in the objective and in the constraints, without repetition."""
        limits = (limit.response for limit in self.prediction_limits)
        found = [*self.objective.responses, *limits]
        return tuple({id(response): response for response in found}.values())

    @property
    def prediction_limits(self) -> list[Limit]:
        """The conditions of the constraints on predictions."""
        conditions = [c for constraint in self.constraints for c in constraint.conditions]
        return [c for c in conditions if isinstance(c, Limit)]

    @property
    def input_conditions(self) -> list[Row | Clause | Count]:
        """The conditions of the constraints on the inputs alone."""
        conditions = [c for constraint in self.constraints for c in constraint.conditions]
        return [c for c in conditions if not isinstance(c, Limit)]

    @property
    def columns_with_costs(self) -> set[int]:
        """The features that have a cost or are a factor of a product."""
        found: set[int] = set()
        for term in self.objective.terms:
            if isinstance(term, CostTerm):
                found |= {column for column, _ in term.unaries}
            elif isinstance(term, ProductTerm):
                found.add(term.column)
        return found

    @property
    def columns_in_constraints(self) -> set[int]:
        """The features of linear and logical constraints."""
        return set().union(*(constraint.columns for constraint in self.constraints))

    def evaluate(self, X: Any) -> Array:
        """Return the values of the objective; for one model, what the model itself predicts."""
        if self.objective.prediction is not None:
            own = self.objective.prediction.own
            return self.prediction.model.predict(X) if own is None else own(X)
        matrix = np.ascontiguousarray(self.inputs._matrix(X), np.float64)
        return np.array([self.objective.value_at(x) for x in matrix])

    def holds(self, x: FloatArray) -> bool:
        """Return whether a point satisfies all constraints, by the converted models."""
        return all(constraint.holds(x) for constraint in self.constraints)

    def sums_at(self, cells: IntArray) -> FloatArray:
        """Return the signed sums of the terms at points ``[point, feature]``; smaller is better.

        They are added in float64, in any order, and are not divided by the divisor.
        """
        total: FloatArray = np.zeros(len(cells))
        for k, term in enumerate(self.prediction.terms):
            total = total + term.weight * term.sums_at(self.grid.own_points(k, cells))
        return self.prediction.sign * (total + self.prediction.constant)

    def margin_at(self, cells: IntArray) -> Any:
        """Return the sum of the terms at one point, in the arithmetic of the models."""
        terms = self.prediction.terms
        points = [self.grid.own_points(k, cells[None, :])[0] for k in range(len(terms))]
        totals = [term.total_at(own) for term, own in zip(terms, points, strict=True)]
        return self.prediction.add(totals)


def make_problem(
    objective: Objective,
    choices: Choices,
    constraints: tuple[Constraint, ...] = (),
    fixed: Mapping[int, float] | None = None,
) -> Problem:
    """Return a problem with its grid."""
    limits = [c for each in constraints for c in each.conditions if isinstance(c, Limit)]
    responses = [*objective.responses, *(limit.response for limit in limits)]
    sums = [own for r in {id(r): r for r in responses}.values() for own in r.sums]
    for response in responses:
        check_sums(response)
    if objective.prediction is not None and not constraints:
        grid = Grid(sums)
    else:
        cuts = cuts_of(objective.terms, constraints, choices, sums)
        grid = Grid(sums, objective.inputs.n_features, cuts)
    return Problem(objective, choices, grid, {} if fixed is None else fixed, constraints)
