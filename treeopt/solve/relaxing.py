"""Leave out constraints, bounds and fixed values of a problem."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from treeopt.problem.choices import Choices
from treeopt.problem.constraints import Constraint, unique_labels
from treeopt.problem.problem import Problem, make_problem

VALUE = 2
"""In place of a side, a fixed value."""


@dataclass(frozen=True, eq=False)
class Item:
    """A constraint, one bound of a feature, or its fixed value.

    Attributes
    ----------
    label : str
        How results call it.
    constraint : Constraint or None
        The constraint; None for a bound or a value.
    column, side : int
        The feature, and 0 for its lower bound, 1 for its upper bound or `VALUE` for its value.
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
    choices, found = problem.choices, []
    for column, pair in enumerate(choices.pairs):
        if column in problem.fixed or column in {*problem.inputs.categories, *choices.values}:
            continue
        ends = (0.0, 1.0) if _is_boolean(choices, column) else (-np.inf, np.inf)
        for side, kind in enumerate(("lower", "upper")):
            if np.isfinite(pair[side]) and pair[side] != ends[side]:
                label = f"{kind} bound of {_name_of(problem, column)}"
                found.append(Item(label, None, column, side, ends[side]))
    return found


def fixed_values_of(problem: Problem) -> list[Item]:
    """Return the fixed values of features without categories and lists of values."""
    others = {*problem.inputs.categories, *problem.choices.values}
    return [
        Item(f"fixed value of {_name_of(problem, column)}", None, column, VALUE)
        for column, value in problem.fixed.items()
        if column not in others and not np.isnan(value)
    ]


def _name_of(problem: Problem, column: int) -> str:
    """Return the name of a feature."""
    columns, names = problem.choices.columns, problem.inputs.feature_names
    if columns is not None:
        return str(columns.labels[column])
    return names[column] if names else f"x[{column}]"


def _is_boolean(choices: Choices, column: int) -> bool:
    """Return whether a feature is a Boolean column of the frame passed as bounds."""
    kind = None if choices.columns is None else choices.columns.types[column]
    return getattr(kind, "kind", "O") == "b"


def keep_only(problem: Problem, items: Collection[Item]) -> Problem:
    """Return the problem with some of its constraints, bounds and values, on the same grid."""
    kept = {(item.column, item.side) for item in items}
    every = [*bounds_of(problem), *fixed_values_of(problem)]
    dropped = [item for item in every if (item.column, item.side) not in kept]
    free = {item.column for item in dropped if item.side == VALUE}
    constraints = tuple(item.constraint for item in items if item.constraint is not None)
    relaxed = problem.without(constraints, _open(problem.choices, dropped))
    return replace(relaxed, fixed={k: v for k, v in problem.fixed.items() if k not in free})


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
        if item.side == VALUE:
            pairs[item.column] = -np.inf, np.inf
        else:
            pairs[item.column, item.side] = item.open_end
    return replace(choices, pairs=pairs)
