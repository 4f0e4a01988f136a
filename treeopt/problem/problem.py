"""`Problem`: objective, allowed inputs and constraints, as every method takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from treeopt.model.frames import Columns
from treeopt.problem.choices import Choices
from treeopt.problem.constraints import Constraint
from treeopt.problem.grid import Grid
from treeopt.problem.objective import Objective
from treeopt.problem.places import Places
from treeopt.problem.space import Space
from treeopt.run.limits import Limits
from treeopt.types import Array, FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """The objective, the allowed inputs and the constraints. Problems are immutable.

    The models are converted and the grid is built once. Problems with other fixed values or another
    sense share both, see `asked`.

    Points of the grid are given by their cells, one per feature that at least one term reads.

    Attributes
    ----------
    objective : Objective
        Weighted terms, a link and a sense.
    choices : Choices
        The allowed inputs, before any feature is fixed.
    grid : Grid
        The cells that all terms share.
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
        model = self.objective.model
        return f"<Problem of {model.source}: {model.n_features} features, {model.n_trees} trees>"

    def asked(self, sense: float, fixed: Any, limits: Limits) -> Problem:
        """Return the problem with another sense, more fixed values and limits."""
        objective = self.objective.towards(sense)
        everything = {**self.fixed, **self.choices.read_fixed(fixed)}
        return Problem(objective, self.choices, self.grid, everything, self.constraints, limits)

    def check(self) -> None:
        """Raise an error if the bounds or the fixed values are invalid."""
        self.choices.check(self.fixed)

    def read_start(self, start: Any) -> FloatArray:
        """Return the user's starting points, one per row."""
        model = self.objective.model
        if isinstance(start, Mapping) or np.ndim(start) == 1:
            return model._point(start, "start")[None, :]
        return model._matrix(start, "start").astype(np.float64)

    @cached_property
    def space(self) -> Space:
        """The allowed inputs, with all fixed values."""
        return self.choices.fix(self.fixed)

    @cached_property
    def places(self) -> Places:
        """The cells of the grid that the space allows."""
        return Places(self.grid, self.space, self.objective.model, self.limits)

    @property
    def columns(self) -> Columns | None:
        """The columns of the user's frame, if there is one."""
        return self.choices.columns

    @property
    def infeasible_because(self) -> str:
        """Reason for infeasibility; empty if feasible."""
        return self.places.infeasible_because

    def evaluate(self, X: Any) -> Array:
        """Return the predictions of the user's own model, or else of the converted model."""
        own = self.objective.own
        return self.predict(X) if own is None else own(X)

    def predict(self, X: Any) -> Array:
        """Return the predictions of the converted model."""
        return self.objective.model.predict(X)

    def violations(self, X: FloatArray) -> FloatArray:
        """Return by how much rows break each constraint, ``[row, constraint]``."""
        found = [constraint.violation(X) for constraint in self.constraints]
        return np.column_stack([np.empty((len(X), 0)), *found])

    def sums_at(self, cells: IntArray) -> FloatArray:
        """Return the signed sums of the terms at points ``[point, feature]``; smaller is better.

        They are added in float64, in any order, and are not divided by the divisor.
        """
        total: FloatArray = np.zeros(len(cells))
        for k, term in enumerate(self.objective.terms):
            total = total + term.weight * term.sums_at(self.grid.own_points(k, cells))
        return self.objective.sign * (total + self.objective.constant)

    def margin_at(self, cells: IntArray) -> Any:
        """Return the sum of the terms at one point, in the arithmetic of the models."""
        terms = self.objective.terms
        points = [self.grid.own_points(k, cells[None, :])[0] for k in range(len(terms))]
        totals = [term.total_at(own) for term, own in zip(terms, points, strict=True)]
        return self.objective.add(totals)
