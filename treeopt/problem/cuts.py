"""Cuts that constraints and costs add to the grid.

Costs and linear constraints need the features that they mention in the grid, even if no model reads
them. Logical conditions and fees distinguish single numbers, which become cells of their own; so do
listed values, because costs differ within a cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from treeopt.problem.choices import Choices
from treeopt.problem.constraints import Clause, Constraint, Count, Within
from treeopt.problem.costs import CostTerm
from treeopt.problem.sums import TreeSum
from treeopt.problem.terms import ProductTerm, Term
from treeopt.types import FloatArray


def cuts_of(
    terms: Sequence[Term],
    constraints: Iterable[Constraint],
    choices: Choices,
    sums: Iterable[TreeSum],
) -> dict[int, FloatArray]:
    """Return the last numbers of cells, by column, for all columns of the grid."""
    cuts: dict[int, list[float]] = {int(c): [] for own in sums for c in own.columns}
    for term in terms:
        if isinstance(term, ProductTerm):
            cuts.setdefault(term.column, [])
        elif isinstance(term, CostTerm):
            for column, unary in term.unaries:
                own = cuts.setdefault(column, [])
                own += _around(kink.at for kink in unary.kinks if kink.fee)
                own += list(unary.table or ())
    for constraint in constraints:
        for column in constraint.columns:
            cuts.setdefault(column, [])
        for condition in constraint.conditions:
            if isinstance(condition, Count):
                for column in condition.columns:
                    cuts[column] += _around([0.0])
            elif isinstance(condition, Clause):
                for literal in condition.literals:
                    if isinstance(literal, Within):
                        cuts[literal.column] += _ends(literal)
    for column, own in cuts.items():
        own += choices.values.get(column, np.empty(0)).tolist()
        if column in choices.inputs.categories:
            own += choices.allowed_categories(column)
    return {column: np.unique([c for c in own if np.isfinite(c)]) for column, own in cuts.items()}


def _around(numbers: Iterable[float]) -> list[float]:
    """Return cuts that make each number a cell of its own."""
    return [cut for v in numbers for cut in (float(np.nextafter(v, -np.inf)), v)]


def _ends(literal: Within) -> list[float]:
    """Return cuts such that no cell is partly inside an alternative."""
    if literal.numbers is not None:
        return _around(literal.numbers)
    return [float(np.nextafter(literal.low, -np.inf)), literal.high]
