"""The run on a compiled ensemble: no Python between two evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels import link_functions as links
from treeopt.kernels.jit import inlined, kernel
from treeopt.kernels.masks import predict_masks
from treeopt.kernels.walk import predict_walk
from treeopt.stepdirect.paper.algorithm import advance, record
from treeopt.stepdirect.paper.state import ANSWER, EVALUATED


@kernel
def points_of(u: Any, free: Any, lower: Any, upper: Any) -> Any:
    """Return points of the box: those of the unit cube in its ``free`` coordinates."""
    X = np.empty((u.shape[0], lower.size))
    for r in range(u.shape[0]):
        X[r] = lower
        for k in range(free.size):
            i = free[k]
            x = lower[i] + u[r, k] * (upper[i] - lower[i])
            X[r, i] = min(max(x, lower[i]), upper[i])
    return X


@inlined
def next_points(state: Any, rules: Any, box: Any, budget: Any) -> Any:
    """Return the next points to evaluate, as many as the budget allows; none: see `advance`."""
    count = state.counter
    count[ANSWER] = advance(state, rules)
    first = count[EVALUATED]
    n = max(min(count[ANSWER], budget - first), 0)
    return points_of(state.u[first : first + n], box[0], box[1], box[2])


@inlined
def note_values(out: Any, link: Any, state: Any) -> Any:
    """Record predictions; return how many evaluations are made by now."""
    links.apply(link[0], link[1], link[2], out)
    record(out, state.counter, state.sample)
    return state.counter[EVALUATED] + out.size


@kernel
def run_masks(
    state: Any, rules: Any, box: Any, oracle: Any, link: Any, budget: Any, pause: Any
) -> Any:
    """Run until ``pause`` evaluations are made or `advance` has no points; by leaf masks.

    Returns the number of evaluations; the last batch is still to be told.
    """
    while True:
        X = next_points(state, rules, box, budget)
        out = np.empty(X.shape[0], oracle[-1].dtype)
        if out.size > 0:
            predict_masks(X, *oracle, out)
        n = note_values(out, link, state)
        if n >= pause or out.size == 0:
            return n


@kernel
def run_walk(
    state: Any, rules: Any, box: Any, oracle: Any, link: Any, budget: Any, pause: Any
) -> Any:
    """Do the same by walking packed nodes."""
    while True:
        X = next_points(state, rules, box, budget)
        out = np.empty(X.shape[0], oracle[-2].dtype)
        if out.size > 0:
            predict_walk(X, *oracle, out)
        n = note_values(out, link, state)
        if n >= pause or out.size == 0:
            return n
