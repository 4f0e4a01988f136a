"""The methods that answer a problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from treeopt.exact.solving import only_prove, only_search, solve_exactly
from treeopt.problem.problem import Problem
from treeopt.result.answer import Answer
from treeopt.run.run import UNLIMITED, Run
from treeopt.stepdirect.on_problem import search_black_box

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


METHODS = {
    "auto": Method(solve_exactly, UNLIMITED),
    "exact": Method(only_prove, UNLIMITED),
    "local": Method(only_search, DEFAULT_EVALS),
    "stepdirect": Method(search_black_box, DEFAULT_EVALS),
}
"""The methods by name. To add one, write a function of a `Problem` and a `Run`, and list it."""
