"""Find a smallest set of constraints, bounds and fixed values that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treeopt.problem.costs import CostTerm
from treeopt.problem.problem import Problem
from treeopt.run.limits import Limits
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.solve.methods import METHODS
from treeopt.solve.relaxing import Item, bounds_of, constraints_of, fixed_values_of, keep_only


def find_conflict(problem: Problem, limits: Limits) -> tuple[tuple[str, ...], bool]:
    """Return the labels of what contradicts each other, and whether the set is smallest.

    Smallest means that the problem is feasible if any one of them is left out. The problem must be
    infeasible. If a limit is reached, the set may contain more than necessary.
    """
    kept, undecided = constraints_of(problem), False
    if _status(problem, kept, limits) is not Status.INFEASIBLE:
        kept += [*bounds_of(problem), *fixed_values_of(problem)]
    for item in list(kept):
        if limits.is_over():
            return tuple(each.label for each in kept), False
        without = [each for each in kept if each is not item]
        status = _status(problem, without, limits)
        if status is Status.INFEASIBLE:
            kept = without
        undecided |= status is Status.STOPPED
    return tuple(each.label for each in kept), not (undecided or limits.is_over())


def _status(problem: Problem, items: Sequence[Item], limits: Limits) -> Status:
    """Return whether a point satisfies some constraints and bounds; STOPPED if this is open."""
    nothing = replace(problem.objective, terms=(CostTerm("nothing", 1.0, ()),))
    relaxed = keep_only(replace(problem, objective=nothing), items)
    if relaxed.infeasible_because:
        return Status.INFEASIBLE
    run = Run(limits)
    answer = METHODS["auto"].solve(relaxed, run)
    if run.status is Status.INFEASIBLE:
        return run.status
    return Status.STOPPED if answer.cells is None else Status.OPTIMAL


def conflict_in_words(labels: Sequence[str], is_smallest: bool) -> str:
    """Return a sentence about a conflict."""
    parts = " bound of ", "fixed value of "
    quoted = [f"the {each}" if any(p in each for p in parts) else f"'{each}'" for each in labels]
    if len(quoted) == 1:
        return f"no admissible point satisfies {quoted[0]}"
    listed = f"{', '.join(quoted[:-1])} and {quoted[-1]}"
    more = "" if is_smallest else " (perhaps not all of them are needed; the search was ended)"
    return f"these contradict each other: {listed}{more}"
