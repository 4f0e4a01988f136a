"""Find a smallest set of constraints and bounds that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treeopt.problem.costs import CostTerm
from treeopt.problem.problem import Problem
from treeopt.run.limits import Limits
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.solve.methods import METHODS
from treeopt.solve.relaxing import Item, bounds_of, constraints_of, keep_only


def find_conflict(problem: Problem, limits: Limits) -> tuple[tuple[str, ...], bool]:
    """Return the labels of contradicting constraints and bounds, and whether the set is smallest.

    Smallest means that the problem is feasible if any one of them is left out. The problem must be
    infeasible. If a limit is reached, the set may contain more than necessary.
    """
    kept, bounds = constraints_of(problem), bounds_of(problem)
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


def _is_feasible(problem: Problem, items: Sequence[Item], limits: Limits) -> bool:
    """Return whether a point satisfies some constraints and bounds; True if a limit is reached."""
    nothing = replace(problem.objective, terms=(CostTerm("nothing", 1.0, ()),))
    relaxed = keep_only(replace(problem, objective=nothing), items)
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
