"""Initialization Step (Sect. 3.1): the centre, then two points along every axis."""

from __future__ import annotations

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.stepdirect.paper.partition import begin, divide, store
from treeopt.stepdirect.paper.rules import Rules
from treeopt.stepdirect.paper.state import FIRST, THIRD, State
from treeopt.types import FloatArray


@kernel
def ask_initial(state: State) -> int:
    """Propose the centre c_1 of the cube and c_1 ± e_i / 3 for every axis; return their number."""
    u, p = state.u, state.weight.size
    u[0] = 0.5
    for i in range(p):
        for k, step in enumerate((-THIRD[1], THIRD[1])):
            u[1 + 2 * i + k] = 0.5
            u[1 + 2 * i + k, i] = 0.5 + step
    return 1 + 2 * p


@kernel
def tell_initial(state: State, rules: Rules) -> None:
    """Divide the cube along the axis with the minimum s_i = min f(c_1 ± e_i / 3).

    Choice: the points of the other axes stay as samples of the middle third. With ``all_sides``
    every axis is divided, in the order of s_i, as DIRECT does.
    """
    begin(state, rules.neighbourhood)
    p = state.weight.size
    sample = state.sample
    s = np.empty(p)
    for i in range(p):
        s[i] = min(sample[1 + 2 * i].f, sample[2 + 2 * i].f)
    order = np.argsort(s, kind="mergesort")
    n = p if rules.all_sides else 1
    for axis in order[:n]:
        divide(FIRST, axis, 1 + 2 * axis, 2 + 2 * axis, state, rules.neighbourhood)
    for axis in order[n:]:
        store(1 + 2 * axis, FIRST, state, rules.neighbourhood)
        store(2 + 2 * axis, FIRST, state, rules.neighbourhood)


@kernel
def known_sample(axis: int, x: float, centre: FloatArray, u: FloatArray) -> int:
    """Return the initial sample at ``centre`` with coordinate ``axis`` set to ``x``; -1 if none."""
    for s in range(1 + 2 * axis, 3 + 2 * axis):
        same = u[s, axis] == x
        for i in range(centre.size):
            same &= i == axis or u[s, i] == centre[i]
        if same:
            return s
    return -1
