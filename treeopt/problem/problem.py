"""`Problem`: the question that every method answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.model.frames import Columns
from treeopt.problem.constraints import Constraint
from treeopt.problem.objective import Objective
from treeopt.problem.places import Places
from treeopt.problem.space import Space
from treeopt.types import Array, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Problem:
    """What may be chosen, what is to be optimized, and what must hold; it does not change.

    Points of the grid are given by their cells, one for each feature that some term reads.

    Attributes
    ----------
    objective : Objective
        Weighted terms, a link and a sense.
    places : Places
        The cells of the common grid that the space leaves.
    constraints : tuple of Constraint
        What must hold besides.
    columns : Columns or None
        The columns as the user's frame calls them.
    """

    objective: Objective
    places: Places
    constraints: tuple[Constraint, ...] = ()
    columns: Columns | None = None

    @property
    def space(self) -> Space:
        """What may be chosen."""
        return self.places.space

    @property
    def infeasible_because(self) -> str:
        """Reason for infeasibility; empty if there are admissible points."""
        return self.places.infeasible_because

    def evaluate(self, X: Any) -> Array:
        """Return what the user's own model predicts for rows; the terms do if it is not at hand."""
        objective = self.objective
        if objective.own is not None:
            return objective.own(X)
        margins = objective.add([term.ensemble.margin(X) for term in objective.terms])
        return objective.link(margins)

    def sums_at(self, cells: IntArray) -> FloatArray:
        """Return the signed sums of the terms at points ``[point, feature]``; smaller is better.

        They are added in float64 and in any order, and are not divided.
        """
        grid, objective = self.places.grid, self.objective
        total: FloatArray = np.zeros(len(cells))
        for k, term in enumerate(objective.terms):
            total = total + term.weight * term.sums_at(grid.own_points(k, cells))
        return objective.sign * total

    def margin_at(self, cells: IntArray) -> Any:
        """Return the sum of the terms at one point, in the arithmetic of the models."""
        grid, terms = self.places.grid, self.objective.terms
        points = [grid.own_points(k, cells[None, :])[0] for k in range(len(terms))]
        totals = [term.total_at(own) for term, own in zip(terms, points, strict=True)]
        return self.objective.add(totals)
