r"""Stochastic local search in a box B (Sect. 3.4, Algorithm 2).

The searches of all selected rectangles go on side by side: they do not depend on one another, and
their points make one batch.

Choice: δ is measured in half sides of B. In the unit cube the printed δ = 1, δ_max = 2.5 would
leave B from every point inside it. A coordinate that a step takes out of B is drawn anew, uniformly
inside B; the paper has no rule for it.
Choice: the search moves to the point that was evaluated. As printed, x + δ d* with the new δ would
be another one.
Choice: f(x) of a known point is not evaluated again; t advances as printed, by \|D\| + 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.kernels.random import below, normal, uniform
from treeopt.stepdirect.paper.partition import rectangle_of, store
from treeopt.stepdirect.paper.rules import BOX, COORDINATES, RECTANGLE
from treeopt.stepdirect.paper.state import EVALUATED, NONE, ROUND, SELECTED, THIRD

ROUNDING = 1e-12
"""A step that ends outside by less, in parts of a side, ends on the side."""


@kernel
def start_search(state: Any, rules: Any) -> None:
    """Start in every selected rectangle at the best known point (Sect. 4.1)."""
    sample, task = state.sample, state.task
    state.counter[ROUND] = 0
    for k in range(state.counter[SELECTED]):
        s = best = state.rect[task[k].selected].head
        while s != NONE:
            if sample[s].f < sample[best].f:
                best = s
            s = sample[s].follower
        task[k].at = best
        task[k].delta = rules.delta


@kernel
def draw_directions(weight: Any, strategy: Any, random: Any, D: Any) -> None:
    """Draw the set D of search directions, one per row.

    By coordinates: signed axes, drawn one after the other with the probabilities w. Or from the
    unit sphere.

    Choice: D holds different directions, on different axes as long as there are any. The
    paper's "each axis with probability w_i" gives two directions on average, and often none.
    """
    D[:] = 0.0
    if strategy == COORDINATES:
        # The order of a draw without replacement (Efraimidis and Spirakis 2006).
        key = np.empty(weight.size)
        n = 0
        for i in range(weight.size):
            key[i] = np.inf
            if weight[i] > 0.0:
                key[i] = -math.log(1.0 - uniform(random)) / weight[i]
                n += 1
        order = np.argsort(key, kind="mergesort")
        for k in range(D.shape[0]):
            axis = order[k % n]
            if k < n:
                D[k, axis] = 1.0 if uniform(random) < 0.5 else -1.0
            else:
                D[k, axis] = -D[k - n, axis]
        return
    for k in range(D.shape[0]):
        total = 0.0
        for i in range(D.shape[1]):
            D[k, i] = normal(random)
            total += D[k, i] * D[k, i]
        for i in range(D.shape[1]):
            D[k, i] /= math.sqrt(total)


@kernel
def ask_search(state: Any, rules: Any) -> Any:
    """Propose the points x + δ d of one round of every search; 0 when t has reached t_max."""
    if state.counter[ROUND] * (rules.n_directions + 1) >= rules.t_max:
        return 0
    count, task, u = state.counter, state.task, state.u
    p = state.weight.size
    D = np.empty((rules.n_directions, p))
    new = count[EVALUATED]
    for k in range(count[SELECTED]):
        j, x = task[k].selected, u[task[k].at]
        draw_directions(state.weight, rules.directions, state.random, D)
        for d in D:
            for i in range(p):
                middle, half = 0.5, 0.5
                if rules.search_region == RECTANGLE:
                    middle, half = state.centre[j, i], 0.5 * THIRD[state.level[j, i]]
                y = x[i]
                if d[i] != 0.0:
                    y += task[k].delta * half * d[i]
                    if abs(y - middle) > half * (1.0 + ROUNDING):
                        y = middle + half * (2.0 * uniform(state.random) - 1.0)
                    y = min(max(y, middle - half), middle + half)
                u[new, i] = y
            new += 1
    return new - count[EVALUATED]


@kernel
def tell_search(state: Any, rules: Any) -> None:
    """Move every search to the best point of its round and adapt its step."""
    count, task, sample = state.counter, state.task, state.sample
    count[ROUND] += 1
    first = count[EVALUATED] - count[SELECTED] * rules.n_directions
    for k in range(count[SELECTED]):
        last = first + rules.n_directions
        chosen, ties = first, 0
        for s in range(first, last):  # d* is any of the best directions
            if sample[s].f < sample[chosen].f:
                chosen, ties = s, 1
            elif sample[s].f == sample[chosen].f:
                ties += 1
                if below(ties, state.random) == 0:
                    chosen = s
        least, current = sample[chosen].f, sample[task[k].at].f
        if least > current or (rules.grow_on_tie and least == current):
            task[k].delta = min(rules.tau * task[k].delta, rules.delta_max)
        elif least < current:
            task[k].delta = max(task[k].delta / rules.tau, rules.delta_min)
        task[k].at = chosen
        for s in range(first, last):
            j = task[k].selected
            if rules.search_region == BOX:
                j = rectangle_of(state.u[s], state.node)
            store(s, j, state, rules.neighbourhood)
        first = last
