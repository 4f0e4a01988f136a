"""The table of methods that solve a problem.

Their modules import numba, which takes a second, so they are imported only when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from treeopt.problem.problem import Problem
from treeopt.result.answer import Answer
from treeopt.run.run import UNLIMITED, Run

DEFAULT_EVALS = 2000
"""Default maximum number of evaluations for methods without a bound."""


class Method(NamedTuple):
    """A method that solves a problem.

    Attributes
    ----------
    solve : callable
        Takes a feasible `Problem` and a `Run`, and returns an `Answer`. It sets the status and the
        message of the run.
    max_evals : int
        Default maximum number of evaluations.
    """

    solve: Callable[[Problem, Run], Answer]
    max_evals: int


def _search_and_prove(problem: Problem, run: Run) -> Answer:
    from treeopt.exact.attempt import solve_exactly

    return solve_exactly(problem, run)


def _only_prove(problem: Problem, run: Run) -> Answer:
    from treeopt.exact.attempt import only_prove

    return only_prove(problem, run)


def _only_search(problem: Problem, run: Run) -> Answer:
    from treeopt.exact.attempt import only_search

    return only_search(problem, run)


def _black_box(problem: Problem, run: Run) -> Answer:
    if problem.is_plain:
        from treeopt.stepdirect.on_problem import search_black_box

        return search_black_box(problem, run)
    from treeopt.exact.general.attempt import finish_general
    from treeopt.stepdirect.on_constrained import search_with_penalty

    return finish_general(problem, run, *search_with_penalty(problem, run))


METHODS = {
    "auto": Method(_search_and_prove, UNLIMITED),
    "exact": Method(_only_prove, UNLIMITED),
    "local": Method(_only_search, DEFAULT_EVALS),
    "stepdirect": Method(_black_box, DEFAULT_EVALS),
}
"""The methods by name. To add a method, write a function of a `Problem` and a `Run`, and add an
entry here."""
