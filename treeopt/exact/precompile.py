"""Compile the kernels for decisions on a small problem, while the clock is paused."""

from __future__ import annotations

from functools import cache

import numpy as np

from treeopt.exact.certificate import Certificate
from treeopt.exact.descent import LocalSearch
from treeopt.exact.dual_search import DualSearch
from treeopt.exact.list_leaves import list_leaves
from treeopt.exact.tree_search import TreeSearch
from treeopt.model.stand_ins import staircase
from treeopt.problem.choices import read_choices
from treeopt.problem.leaves import Leaves
from treeopt.problem.objective import plain_objective
from treeopt.problem.problem import Problem, make_problem
from treeopt.run.limits import Limits
from treeopt.run.watch import Threads


def compile_once(limits: Limits) -> None:
    """Compile the kernels that every proof needs, or load them from the disk cache.

    After Ctrl-C, no more kernels are compiled, and there is no proof.
    """
    with limits.pause():
        for step in (_compile_points, _compile_boxes, _compile_descents, _compile_proof):
            if not limits.interrupted:
                step()


def compile_dual(limits: Limits) -> None:
    """Do the same for the kernels that only longer proofs need."""
    with limits.pause():
        for step in (_compile_parts, _compile_prices):
            if not limits.interrupted:
                step()


@cache
def _compile_points() -> None:
    problem, cells = _problem(), np.zeros(1, np.int64)
    problem.places.region(cells)
    problem.margin_at(cells)


@cache
def _compile_boxes() -> None:
    _leaves()


@cache
def _compile_descents() -> None:
    _local_search(_leaves()).step(2)


@cache
def _compile_proof() -> None:
    leaves = _leaves()
    search = TreeSearch(leaves, 0.0, 0.0, 1)
    search.advance(10**6, np.zeros(1, np.int32), np.inf, Threads(1).run)
    Certificate(_problem().prediction, leaves).margin_of_box(np.zeros(2, np.int32))


@cache
def _compile_parts() -> None:
    _dual_search(is_over=True)


@cache
def _compile_prices() -> None:
    _dual_search(is_over=False)


def _dual_search(is_over: bool) -> None:
    """Advance the search with the dual bound by one step."""
    dual = DualSearch(_leaves(), 0.0, 0.0, 1, is_over=lambda: is_over)
    dual.advance(1, np.zeros(1, np.int32), np.inf, Threads(1).run)


def _local_search(leaves: Leaves) -> LocalSearch:
    return LocalSearch(leaves, np.zeros((1, 1), np.int32), 0.0, 0)


def _leaves() -> Leaves:
    """Return the boxes of a small problem."""
    problem = _problem()
    return list_leaves(problem, problem.places, Limits(None))


def _problem() -> Problem:
    """Return a small problem."""
    model = staircase(4, np.float64)
    return make_problem(plain_objective(model), read_choices(model, [(0, 3)]))
