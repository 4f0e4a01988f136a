"""Find a smallest set of constraints and bounds that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treeopt.problem.constraints import Constraint
from treeopt.problem.costs import CostTerm
from treeopt.problem.problem import Problem
from treeopt.run.limits import Limits
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.solve.methods import METHODS


@dataclass(frozen=True, eq=False)
class Item:
    """A constraint, or one bound of a feature: ``column`` and ``side``, 0 for the lower one."""

    label: str
    constraint: Constraint | None = None
    column: int = -1
    side: int = 0


def find_conflict(problem: Problem, limits: Limits) -> tuple[tuple[str, ...], bool]:
    """Return the labels of contradicting constraints and bounds, and whether the set is smallest.

    Smallest means that the problem is feasible if any one of them is left out. The problem must be
    infeasible. If a limit is reached, the set may contain more than necessary.
    """
    kept = [Item(each.label, each) for each in problem.constraints]
    bounds = _bounds(problem)
    if not _is_feasible(problem, kept, limits):
        bounds = []
    kept += bounds
    for item in list(kept):
        if limits.is_over():
            return tuple(each.label for each in kept), False
        without = [each for each in kept if each is not item]
        if not _is_feasible(problem, without, limits):
            kept = without
    return tuple(each.label for each in kept), not limits.is_over()


def _bounds(problem: Problem) -> list[Item]:
    """Return the finite bounds of all features that are not fixed and have no list of values."""
    choices, names = problem.choices, problem.inputs.feature_names
    labels = names if choices.columns is None else [*map(str, choices.columns.labels)]
    found = []
    for column, pair in enumerate(choices.pairs):
        if column in problem.fixed or column in problem.inputs.categories:
            continue
        for side, kind in enumerate(("lower", "upper")):
            if np.isfinite(pair[side]) and column not in choices.values:
                name = labels[column] if labels else f"x[{column}]"
                found.append(Item(f"{kind} bound of {name}", None, column, side))
    return found


def _is_feasible(problem: Problem, items: Sequence[Item], limits: Limits) -> bool:
    """Return whether a point satisfies some constraints and bounds; True if a limit is reached."""
    pairs = problem.choices.pairs.copy()
    kept = {(item.column, item.side) for item in items}
    for item in _bounds(problem):
        if (item.column, item.side) not in kept:
            pairs[item.column, item.side] = -np.inf if item.side == 0 else np.inf
    choices = replace(problem.choices, pairs=pairs)
    constraints = tuple(item.constraint for item in items if item.constraint is not None)
    nothing = replace(problem.objective, terms=(CostTerm("nothing", 1.0, ()),))
    relaxed = replace(problem, objective=nothing, choices=choices, constraints=constraints)
    if relaxed.infeasible_because:
        return False
    run = Run(limits)
    METHODS["auto"].solve(relaxed, run)
    return run.status is not Status.INFEASIBLE


def conflict_in_words(labels: Sequence[str], is_smallest: bool) -> str:
    """Return a sentence about a conflict."""
    quoted = [f"the {each}" if " bound of " in each else f"'{each}'" for each in labels]
    if len(quoted) == 1:
        return f"no admissible point satisfies {quoted[0]}"
    listed = f"{', '.join(quoted[:-1])} and {quoted[-1]}"
    more = "" if is_smallest else " (the limit was reached before the smallest set was found)"
    return f"these contradict each other: {listed}{more}"
