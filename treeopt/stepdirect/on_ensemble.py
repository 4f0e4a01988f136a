"""The compiled loop: a search on an ensemble, with no Python between two evaluations."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from treeopt.kernels import link_functions as links
from treeopt.kernels.jit import inlined, kernel
from treeopt.kernels.masks import predict_masks
from treeopt.kernels.walk import predict_walk
from treeopt.problem.dimensions import RealBox
from treeopt.stepdirect.paper.algorithm import record
from treeopt.stepdirect.paper.state import State
from treeopt.stepdirect.schedule import advance
from treeopt.stepdirect.walk_state import SearchRules, Walk
from treeopt.types import Array, FloatArray

Oracle: TypeAlias = tuple[Array, ...]
"""The arguments of a prediction kernel between ``X`` and ``out``, see `Compiled.oracle`."""

Link: TypeAlias = tuple[int, float, bool]
"""The link function of a model as `link_functions.apply` takes it, see `Link.code`."""


@kernel
def points_of(u: FloatArray, box: RealBox) -> FloatArray:
    """Return points of the box from points of the unit cube, as `Dimensions` of `Real` does."""
    lower, upper = box.lower, box.upper
    X = np.empty((u.shape[0], lower.size))
    for r in range(u.shape[0]):
        X[r] = lower
        for k in range(box.free.size):
            i = box.free[k]
            x = lower[i] + u[r, k] * (upper[i] - lower[i])
            X[r, i] = min(max(x, lower[i]), upper[i])
    return X


@inlined
def _next_points(
    state: State, walk: Walk, rules: SearchRules, box: RealBox, budget: int
) -> tuple[int, FloatArray]:
    """Return the answer of `advance`, and the next points, as many as the budget allows."""
    answer = advance(state, walk, rules)
    first = state.counter[0].evaluated
    n = max(min(answer, budget - first), 0)
    return answer, points_of(state.u[first : first + n], box)


@inlined
def _note_values(out: Array, link: Link, state: State) -> int:
    """Record predictions; return the number of evaluations so far."""
    links.apply(link[0], link[1], link[2], out)
    record(out, state.counter, state.sample)
    n: int = state.counter[0].evaluated + out.size
    return n


@kernel
def run_masks(
    state: State,
    walk: Walk,
    rules: SearchRules,
    box: RealBox,
    oracle: Oracle,
    link: Link,
    budget: int,
    pause: int,
) -> tuple[int, int]:
    """Search until ``pause`` evaluations are made or `advance` proposes no points; by leaf masks.

    Returns the number of evaluations, of which the last batch is recorded but not told yet, and
    the last answer of `advance`.
    """
    while True:
        answer, X = _next_points(state, walk, rules, box, budget)
        out = np.empty(X.shape[0], oracle[-1].dtype)
        if out.size > 0:
            predict_masks(X, *oracle, out)  # type: ignore[call-arg]
        n = _note_values(out, link, state)
        if n >= pause or out.size == 0:
            return n, answer


@kernel
def run_walk(
    state: State,
    walk: Walk,
    rules: SearchRules,
    box: RealBox,
    oracle: Oracle,
    link: Link,
    budget: int,
    pause: int,
) -> tuple[int, int]:
    """Do the same by walking packed nodes."""
    while True:
        answer, X = _next_points(state, walk, rules, box, budget)
        out = np.empty(X.shape[0], oracle[-2].dtype)
        if out.size > 0:
            predict_walk(X, *oracle, out)  # type: ignore[call-arg, arg-type]
        n = _note_values(out, link, state)
        if n >= pause or out.size == 0:
            return n, answer
