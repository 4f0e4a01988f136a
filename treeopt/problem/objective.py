"""The objective: sense, weighted terms and link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treeopt.errors import UnsupportedModelError
from treeopt.model.difference import Difference, Model
from treeopt.model.frames import Columns, columns_of, with_labels
from treeopt.model.link import Link
from treeopt.problem.terms import ModelTerm
from treeopt.types import Array

MAX_SUM = {np.dtype(np.float32): float(np.finfo(np.float32).max) / 2, np.dtype(np.float64): 1e290}
"""Sums must stay below this value, by precision. Half of the maximum float32 leaves room for
rounding. In float64 the search itself needs room: the prices of the dual bound grow up to 64 times
the maximum sum, and must stay below `exact.dual.LARGE`."""


@dataclass(frozen=True, eq=False)
class Objective:
    """The function to optimize: ``link(weight_0 * term_0 + weight_1 * term_1 + ...)``.

    Terms are added from left to right, in the precision of the models.

    Attributes
    ----------
    model : Ensemble or Difference
        The converted model. It also describes the inputs: names, categories, missing values.
    terms : tuple of ModelTerm
        The terms. They read the same columns, in the same precision, and have the same divisor.
    link : Link
        Maps the sum of the terms to the prediction.
    sense : float
        1 to minimize, -1 to maximize.
    own : callable or None
        Returns the prediction of the user's own model for a matrix or frame. None if only the
        converted model is available.
    """

    model: Model
    terms: tuple[ModelTerm, ...]
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

    def towards(self, sense: float) -> Objective:
        """Return the same objective with another sense."""
        return self if sense == self.sense else replace(self, sense=sense)


def read_objective(
    model: Model, own: Callable[[Any], Array] | None, bounds: Any
) -> tuple[Objective, Columns | None]:
    """Return the objective for a converted model, and the columns of the user's frame.

    Parameters
    ----------
    model : Ensemble or Difference
        The model to optimize.
    own : callable or None
        The prediction of the user's own model, if it is available.
    bounds : object
        The bounds. If they are a frame, it provides column names and labels of categories.
    """
    columns = columns_of(model, bounds)
    objective = objective_of(with_labels(model, columns), own)
    for term in objective.terms:
        term.ensemble.compiled.prepare()
    check_sums(objective)
    return objective, columns


def objective_of(model: Model, own: Callable[[Any], Array] | None = None) -> Objective:
    """Return the objective for a converted model; a difference has two terms."""
    terms: tuple[ModelTerm, ...]
    if isinstance(model, Difference):
        terms = (ModelTerm(model.plus, 1.0), ModelTerm(model.minus, -1.0))
    else:
        terms = (ModelTerm(model),)
    return Objective(model, terms, model.link, own=own)


def largest_sum(objective: Objective) -> float:
    """Return an upper bound S on the absolute sums of the models, up to rounding.

    S is the sum over all trees of the maximum ``|value|`` of a leaf, plus the ``|base|`` of each
    term. If S divided by the divisor is larger, that is returned.
    """
    with np.errstate(over="ignore"):
        parts = [t.ensemble.compiled.largest_leaves + abs(t.ensemble.base) for t in objective.terms]
        total = sum(parts)
        return float(max(total, total / objective.divisor))


def check_sums(objective: Objective) -> None:
    """Raise an error if the model's own sums may overflow: `largest_sum` must be below `MAX_SUM`.

    An infinite sum, or the difference of two, is not monotone in the values of the leaves. No bound
    would be valid.
    """
    largest, dtype = largest_sum(objective), objective.dtype
    if not largest < MAX_SUM[dtype]:
        raise UnsupportedModelError(
            f"{objective.model.source} may overflow: its sums in {dtype} may reach {largest:.3g}, "
            f"but decisions require sums below {MAX_SUM[dtype]:.3g}. Train the model on a scaled "
            "target, such as y / 1e10."
        )
