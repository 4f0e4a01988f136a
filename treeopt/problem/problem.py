"""`Problem`: the question that every method answers."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be optimized, what may be chosen, and what must hold; it does not change.

    The models are converted and the grid is made once. Asking again with other fixed values or
    another sense shares both, see `asked`.

    Points of the grid are given by their cells, one for each feature that some term reads.

    Attributes
    ----------
    objective : Objective
        Weighted terms, a link and a sense.
    choices : Choices
        What may be chosen, before anything is fixed.
    grid : Grid
        The cells that all terms have in common.
    fixed : tuple
        What is fixed, as the user passes it; of several entries, later ones win.
    constraints : tuple of Constraint
        What must hold besides.
    limits : Limits or None
        Limits of the run, if there is one.
    """

    objective: Objective
    choices: Choices
    grid: Grid
    fixed: tuple[Any, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    limits: Limits | None = None

    def asked(self, sense: float, fixed: Any, limits: Limits) -> Problem:
        """Return the question for one sense and context, to be answered within limits."""
        objective, everything = self.objective.towards(sense), (*self.fixed, fixed)
        return Problem(objective, self.choices, self.grid, everything, self.constraints, limits)

    @cached_property
    def space(self) -> Space:
        """What may be chosen."""
        return self.choices.fix(*self.fixed)

    @cached_property
    def places(self) -> Places:
        """The cells of the grid that the space leaves."""
        return Places(self.grid, self.space, self.limits)

    @property
    def columns(self) -> Columns | None:
        """The columns as the user's frame calls them, if there is one."""
        return self.choices.columns

    @property
    def infeasible_because(self) -> str:
        """Reason for infeasibility; empty if there are admissible points."""
        return self.places.infeasible_because

    def evaluate(self, X: Any) -> Array:
        """Return what the user's own model predicts for rows; see `predict` if it is not here."""
        own = self.objective.own
        return self.predict(X) if own is None else own(X)

    def predict(self, X: Any) -> Array:
        """Return what the converted model predicts for rows."""
        return self.objective.model.predict(X)

    def violations(self, X: FloatArray) -> FloatArray:
        """Return by how much rows break each constraint, ``[row, constraint]``."""
        found = [constraint.violation(X) for constraint in self.constraints]
        return np.column_stack([np.empty((len(X), 0)), *found])

    def sums_at(self, cells: IntArray) -> FloatArray:
        """Return the signed sums of the terms at points ``[point, feature]``; smaller is better.

        They are added in float64 and in any order, and are not divided.
        """
        total: FloatArray = np.zeros(len(cells))
        for k, term in enumerate(self.objective.terms):
            total = total + term.weight * term.sums_at(self.grid.own_points(k, cells))
        return self.objective.sign * total

    def margin_at(self, cells: IntArray) -> Any:
        """Return the sum of the terms at one point, in the arithmetic of the models."""
        terms = self.objective.terms
        points = [self.grid.own_points(k, cells[None, :])[0] for k in range(len(terms))]
        totals = [term.total_at(own) for term, own in zip(terms, points, strict=True)]
        return self.objective.add(totals)
