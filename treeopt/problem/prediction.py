"""`Prediction`: the prediction of one model as the objective, on which the proof is fastest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treeopt.model.difference import Difference
from treeopt.model.ensemble import Ensemble
from treeopt.model.link import Link
from treeopt.problem.sums import TreeSum
from treeopt.types import Array


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction of one model: ``link(weight_0 * term_0 + weight_1 * term_1 + ...)``.

    Terms are added from left to right, in the precision of the models.

    Attributes
    ----------
    model : Ensemble or Difference
        The converted model. It also describes the inputs: names, categories, missing values.
    terms : tuple of TreeSum
        The terms. They read the same columns, in the same precision, and have the same divisor.
    link : Link
        Maps the sum of the terms to the prediction.
    sense : float
        1 to minimize, -1 to maximize.
    own : callable or None
        Returns the prediction of the user's own model for a matrix or frame. None if only the
        converted model is available.
    """

    model: Ensemble | Difference
    terms: tuple[TreeSum, ...]
    link: Link
    sense: float = 1.0
    own: Callable[[Any], Array] | None = None

    @property
    def sign(self) -> float:
        """1 or -1; this factor times the sum of the terms is to be minimized."""
        return self.sense if self.link.increasing else -self.sense

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision in which the terms are added."""
        return self.terms[0].ensemble.value.dtype

    @property
    def divisor(self) -> float:
        """The common divisor of all terms."""
        return self.terms[0].ensemble.divisor

    @property
    def constant(self) -> float:
        """The sum of the terms without any tree, before the division."""
        return float(sum(term.weight * term.ensemble.base for term in self.terms))

    @property
    def n_trees(self) -> int:
        """Number of trees of all terms."""
        return sum(term.ensemble.n_trees for term in self.terms)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all terms."""
        return sum(term.ensemble.n_leaves for term in self.terms)

    def add(self, totals: list[Any]) -> Any:
        """Return the weighted sum of the terms' totals, in the precision of the models."""
        first, *rest = (
            total if term.weight > 0 else -total
            for term, total in zip(self.terms, totals, strict=True)
        )
        return sum(rest, start=first)

    def value_of(self, margin: Any) -> float:
        """Return the prediction for a margin, the sum of the terms."""
        return float(self.link(np.array([margin], self.dtype))[0])

    def towards(self, sense: float) -> Prediction:
        """Return the same prediction with another sense."""
        return self if sense == self.sense else replace(self, sense=sense)
