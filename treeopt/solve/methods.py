"""The methods that answer a problem.

Their modules need numba, which takes a second to import: so they are imported when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from treeopt.problem.problem import Problem
from treeopt.result.answer import Answer
from treeopt.run.run import UNLIMITED, Run

DEFAULT_EVALS = 2000
"""Maximum number of evaluations of methods that give no bound, unless the user sets it."""


class Method(NamedTuple):
    """A way to answer a problem.

    Attributes
    ----------
    solve : callable
        Takes a `Problem` that has admissible points and a `Run`; returns an `Answer`, and notes in
        the run why it ended.
    max_evals : int
        Maximum number of evaluations, unless the user sets it.
    keeps_constraints : bool
        Whether its answers satisfy the constraints of the problem.
    """

    solve: Callable[[Problem, Run], Answer]
    max_evals: int
    keeps_constraints: bool = False


def _search_and_prove(problem: Problem, run: Run) -> Answer:
    from treeopt.exact.solving import solve_exactly

    return solve_exactly(problem, run)


def _only_prove(problem: Problem, run: Run) -> Answer:
    from treeopt.exact.solving import only_prove

    return only_prove(problem, run)


def _only_search(problem: Problem, run: Run) -> Answer:
    from treeopt.exact.solving import only_search

    return only_search(problem, run)


def _black_box(problem: Problem, run: Run) -> Answer:
    from treeopt.stepdirect.on_problem import search_black_box

    return search_black_box(problem, run)


METHODS = {
    "auto": Method(_search_and_prove, UNLIMITED),
    "exact": Method(_only_prove, UNLIMITED),
    "local": Method(_only_search, DEFAULT_EVALS),
    "stepdirect": Method(_black_box, DEFAULT_EVALS),
}
"""The methods by name. To add one, write a function of a `Problem` and a `Run`, and list it."""
