"""Find a smallest set of constraints, bounds and fixed values that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treeopt.exact.exact_settings import DEFAULT_SETTINGS
from treeopt.problem.costs import CostTerm
from treeopt.problem.problem import Problem
from treeopt.run.limits import Limits
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.solve.relaxing import Item, bounds_of, constraints_of, fixed_values_of, keep_only

SETTINGS = replace(DEFAULT_SETTINGS, region_programs=200)
"""A set that is too large is better than a long wait for a smallest one."""


def find_conflict(problem: Problem, limits: Limits) -> tuple[list[Item], bool]:
    """Return what contradicts each other, and whether the set is smallest.

    Smallest means that none can be left out: without any one of them, the others can be satisfied.
    The problem must be infeasible. If a limit is reached, the set may contain more than necessary.
    """
    kept, undecided = constraints_of(problem), False
    if _status(problem, kept, limits) is not Status.INFEASIBLE:
        kept += [*bounds_of(problem), *fixed_values_of(problem)]
    for item in list(kept):
        if limits.is_over():
            return kept, False
        without = [each for each in kept if each is not item]
        status = _status(problem, without, limits)
        if status is Status.INFEASIBLE:
            kept = without
        undecided |= status is Status.STOPPED
    return kept, not (undecided or limits.is_over())


def _status(problem: Problem, items: Sequence[Item], limits: Limits) -> Status:
    """Return whether a point satisfies some constraints and bounds; STOPPED if this is open."""
    from treeopt.exact.general.attempt import solve_general

    nothing = replace(problem.objective, terms=(CostTerm("nothing", 1.0, ()),))
    relaxed = keep_only(replace(problem, objective=nothing), items)
    if relaxed.infeasible_because:
        return Status.INFEASIBLE
    run = Run(limits)
    answer = solve_general(relaxed, run, SETTINGS, proof=True, with_local=True)
    if run.status is Status.INFEASIBLE:
        return run.status
    return Status.STOPPED if answer.cells is None else Status.OPTIMAL


def conflict_in_words(items: Sequence[Item], is_smallest: bool) -> str:
    """Return a sentence about a conflict."""
    quoted = [f"the {i.label}" if i.constraint is None else f"'{i.label}'" for i in items]
    if len(quoted) == 1:
        return f"no admissible point satisfies {quoted[0]}"
    listed = f"{', '.join(quoted[:-1])} and {quoted[-1]}"
    more = "" if is_smallest else " (perhaps not all of them are needed)"
    return f"these contradict each other: {listed}{more}"
