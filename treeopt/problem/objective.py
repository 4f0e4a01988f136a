"""The objective: a sense, weighted terms and a link."""

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
"""Sums in each precision must stay below this. Half of the largest float32 leaves room for
rounding. In float64 the search itself needs room: the prices of the stronger bound grow to 64 times
the largest sum, and must stay below `exact.dual.LARGE`."""


@dataclass(frozen=True, eq=False)
class Objective:
    """What is minimised or maximised: ``link(weight_0 * term_0 + weight_1 * term_1 + ...)``.

    Terms are added from left to right, in the precision of the models.

    Attributes
    ----------
    model : Ensemble or Difference
        The converted model; it also describes the inputs: names, categories, missing values.
    terms : tuple of ModelTerm
        The terms. They read the same columns, in the same precision, and have the same divisor.
    link : Link
        From the sum of the terms to the prediction.
    sense : float
        1 to minimise, -1 to maximise.
    own : callable or None
        The prediction of the user's own model, for a matrix or frame; None if it is not at hand.
    """

    model: Model
    terms: tuple[ModelTerm, ...]
    link: Link
    sense: float = 1.0
    own: Callable[[Any], Array] | None = None

    @property
    def sign(self) -> float:
        """Factor of the sum of the terms that makes it something to minimise."""
        return self.sense if self.link.increasing else -self.sense

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision in which the terms are added."""
        return self.terms[0].ensemble.value.dtype

    @property
    def divisor(self) -> float:
        """The divisor that all terms have in common."""
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
        """Return the sum of what the terms come to, in the precision of the models."""
        first, *rest = (
            total if term.weight > 0 else -total
            for term, total in zip(self.terms, totals, strict=True)
        )
        return sum(rest, start=first)

    def value_of(self, margin: Any) -> float:
        """Return the prediction that a sum of terms becomes."""
        return float(self.link(np.array([margin], self.dtype))[0])

    def towards(self, sense: float) -> Objective:
        """Return the same objective with another sense."""
        return self if sense == self.sense else replace(self, sense=sense)


def read_objective(
    model: Model, own: Callable[[Any], Array] | None, bounds: Any
) -> tuple[Objective, Columns | None]:
    """Return the objective that a converted model is, and the columns as the user calls them.

    Parameters
    ----------
    model : Ensemble or Difference
        What is to be optimized.
    own : callable or None
        The prediction of the user's own model, if it is at hand.
    bounds : object
        If the bounds are a frame, it names the columns and may know labels of categories.
    """
    columns = columns_of(model, bounds)
    objective = objective_of(with_labels(model, columns), own)
    for term in objective.terms:
        term.ensemble.compiled.prepare()
    check_sums(objective)
    return objective, columns


def objective_of(model: Model, own: Callable[[Any], Array] | None = None) -> Objective:
    """Return the objective that a converted model is; of a difference, two terms."""
    terms: tuple[ModelTerm, ...]
    if isinstance(model, Difference):
        terms = (ModelTerm(model.plus, 1.0), ModelTerm(model.minus, -1.0))
    else:
        terms = (ModelTerm(model),)
    return Objective(model, terms, model.link, own=own)


def largest_sum(objective: Objective) -> float:
    """Return S, which no sum that the models compute for any input exceeds but by rounding.

    S is the maximum ``|value|`` among the leaves of each tree, added up, plus the ``|base|`` of
    each term; or that divided by the divisor, if this is larger.
    """
    with np.errstate(over="ignore"):
        parts = [t.ensemble.compiled.largest_leaves + abs(t.ensemble.base) for t in objective.terms]
        total = sum(parts)
        return float(max(total, total / objective.divisor))


def check_sums(objective: Objective) -> None:
    """Refuse a model whose own sums may overflow: `largest_sum` must be below `MAX_SUM`.

    An infinite sum, or a difference of two, is no longer monotone in the leaves' values, and no
    bound would hold.
    """
    largest, dtype = largest_sum(objective), objective.dtype
    if not largest < MAX_SUM[dtype]:
        raise UnsupportedModelError(
            f"{objective.model.source} may overflow: its sums in {dtype} may reach {largest:.3g}, "
            f"and decisions need them to stay below {MAX_SUM[dtype]:.3g}. Train the model on a "
            "scaled target, such as y / 1e10."
        )
