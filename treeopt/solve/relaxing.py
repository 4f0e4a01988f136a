"""Leave out constraints and bounds of a problem."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from treeopt.problem.choices import Choices
from treeopt.problem.constraints import Constraint, unique_labels
from treeopt.problem.problem import Problem, make_problem


@dataclass(frozen=True, eq=False)
class Item:
    """A constraint, or one bound of a feature.

    Attributes
    ----------
    label : str
        How results call it.
    constraint : Constraint or None
        The constraint; None for a bound.
    column, side : int
        The feature of the bound, and 0 for its lower or 1 for its upper bound.
    open_end : float
        The bound of the feature if this one is left out.
    """

    label: str
    constraint: Constraint | None = None
    column: int = -1
    side: int = 0
    open_end: float = np.nan


def constraints_of(problem: Problem) -> list[Item]:
    """Return the constraints of a problem, with the labels of `Decision.slack`."""
    labels = unique_labels(problem.constraints)
    return [Item(*pair) for pair in zip(labels, problem.constraints, strict=True)]


def bounds_of(problem: Problem) -> list[Item]:
    """Return the bounds of all features that are not fixed and have no list of values.

    Infinite bounds are left out, and so are the bounds 0 and 1 of Boolean columns.
    """
    choices, names = problem.choices, problem.inputs.feature_names
    labels = names if choices.columns is None else [*map(str, choices.columns.labels)]
    found = []
    for column, pair in enumerate(choices.pairs):
        if column in problem.fixed or column in {*problem.inputs.categories, *choices.values}:
            continue
        ends = (0.0, 1.0) if _is_boolean(choices, column) else (-np.inf, np.inf)
        for side, kind in enumerate(("lower", "upper")):
            if np.isfinite(pair[side]) and pair[side] != ends[side]:
                name = labels[column] if labels else f"x[{column}]"
                found.append(Item(f"{kind} bound of {name}", None, column, side, ends[side]))
    return found


def _is_boolean(choices: Choices, column: int) -> bool:
    """Return whether a feature is a Boolean column of the frame passed as bounds."""
    kind = None if choices.columns is None else choices.columns.types[column]
    return getattr(kind, "kind", "O") == "b"


def keep_only(problem: Problem, items: Collection[Item]) -> Problem:
    """Return the problem with some of its constraints and bounds, on the same grid."""
    kept = {(item.column, item.side) for item in items}
    dropped = [item for item in bounds_of(problem) if (item.column, item.side) not in kept]
    constraints = tuple(item.constraint for item in items if item.constraint is not None)
    return problem.without(constraints, _open(problem.choices, dropped))


def leave_out(problem: Problem, item: Item) -> Problem:
    """Return the problem without one constraint or bound."""
    if item.constraint is None:
        return problem.without(problem.constraints, _open(problem.choices, [item]))
    kept = tuple(each for each in problem.constraints if each is not item.constraint)
    relaxed = make_problem(problem.objective, problem.choices, kept, problem.fixed)
    return replace(relaxed, limits=problem.limits)


def _open(choices: Choices, dropped: Iterable[Item]) -> Choices:
    """Return the allowed inputs without some bounds."""
    pairs = choices.pairs.copy()
    for item in dropped:
        pairs[item.column, item.side] = item.open_end
    return replace(choices, pairs=pairs)
