r"""Local search for stepwise functions (Sect. 3.4, Algorithm 2), in a box B.

====================================================  ==================================
Algorithm 2                                           here
====================================================  ==================================
starting point x in B, δ, t = 0                       `start_search`
while t < t_max                                       `ask_search`, which ends it
randomly generate search directions D                 `draw_directions`
f(x + δ d) for d in D, x + δ d in B                   the points of `ask_search`
d* at random of those with the minimum; f*            `tell_search`, first half
f* > f_cur: δ = min(τ δ, δ_max)                       `tell_search`, second half
f* < f_cur: δ = max(δ / τ, δ_min)                     the same
x = x + δ d*, t = t + \|D\| + 1                         the same
f_min and x_min of B                                  `store`, which updates f_H
====================================================  ==================================

The searches of all rectangles of S run side by side: they do not depend on each other, and their
points make one batch.

Choice: δ is measured in half sides of B. In the unit cube the printed δ = 1, δ_max = 2.5 would
leave B from every point inside it. A coordinate that leaves B is drawn again, uniformly inside B;
the paper has no rule for it.
Choice: the search moves to the point that was evaluated. As printed, x + δ d* with the new δ would
be another one.
Choice: f(x) of a known point is not evaluated again; t advances as printed, by \|D\| + 1.
Choice: if f* = f_cur, δ stays; the paper has no rule for it. With ``grow_on_tie`` it grows.
Choice: B is H_j, as printed. With ``search_region`` BOX it is the unit cube, and each point counts
for the rectangle that it lies in.
"""

from __future__ import annotations

import math

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.kernels.random import below, normal, uniform
from treeopt.stepdirect.paper.partition import rectangle_of, store
from treeopt.stepdirect.paper.rules import BOX, COORDINATES, RECTANGLE, Rules
from treeopt.stepdirect.paper.state import NONE, THIRD, State
from treeopt.types import FloatArray, UInt64Array

ROUNDING = 1e-12
"""A step that ends outside B by less than this, in parts of a side, ends on the boundary."""


@kernel
def start_search(state: State, rules: Rules) -> None:
    """Start in every rectangle of S at its best known point.

    Choice: the paper says "given starting point"; f_H is the value of this one.
    """
    sample, task = state.sample, state.task
    state.counter[0].round = 0
    for k in range(state.counter[0].selected):
        s = best = state.rect[task[k].selected].head
        while s != NONE:
            if sample[s].f < sample[best].f:
                best = s
            s = sample[s].follower
        task[k].at = best
        task[k].delta = rules.delta


@kernel
def draw_directions(weight: FloatArray, strategy: int, random: UInt64Array, D: FloatArray) -> None:
    """Draw the set D of search directions, one per row (Sect. 3.4, options a and b).

    By coordinates (a): signed axes, drawn one after the other with the probabilities w. Or from
    the unit sphere (b).

    Choice: D has distinct directions, on distinct axes while there are any. The paper's "each axis
    with probability w_i" gives two directions on average, and often none.
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
def ask_search(state: State, rules: Rules) -> int:
    """Propose the points x + δ d of one round of every search; 0 when t has reached t_max."""
    count, task, u = state.counter[0], state.task, state.u
    if count.round * (rules.n_directions + 1) >= rules.t_max:
        return 0
    p = state.weight.size
    D = np.empty((rules.n_directions, p))
    new = count.evaluated
    for k in range(count.selected):
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
    n: int = new - count.evaluated
    return n


@kernel
def tell_search(state: State, rules: Rules) -> None:
    """Move every search to the best point of its round and adapt its step δ."""
    count, task, sample = state.counter[0], state.task, state.sample
    count.round += 1
    first = count.evaluated - count.selected * rules.n_directions
    for k in range(count.selected):
        last = first + rules.n_directions
        chosen, ties = first, 0
        for s in range(first, last):  # d* is any of the best directions
            if sample[s].f < sample[chosen].f:
                chosen, ties = s, 1
            elif sample[s].f == sample[chosen].f:
                ties += 1
                if below(ties, state.random) == 0:
                    chosen = s
        f, f_cur = sample[chosen].f, sample[task[k].at].f
        if f > f_cur or (rules.grow_on_tie and f == f_cur):
            task[k].delta = min(rules.tau * task[k].delta, rules.delta_max)
        elif f < f_cur:
            task[k].delta = max(task[k].delta / rules.tau, rules.delta_min)
        task[k].at = chosen
        for s in range(first, last):
            j = task[k].selected
            if rules.search_region == BOX:
                j = rectangle_of(state.u[s], state.node)
            store(s, j, state, rules.neighbourhood)
        first = last
