"""Initialization (Sect. 3.1): the centre, then two points along every axis.

Where there are too few evaluations for that, the default begins on the diagonal instead: parameters
of one kind, which is what many of them mostly are, want about the same value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.stepdirect.paper.partition import begin, divide, store
from treeopt.stepdirect.paper.state import EVALUATED, FIRST, THIRD

GOLDEN = 0.6180339887498949
"""The golden ratio: multiples of it fill [0, 1), modulo 1, most evenly."""


@kernel
def ask_initial(state: Any, rules: Any) -> Any:
    """Propose the centre c_1 of the cube and c_1 ± e_i / 3 for every axis; return their number.

    With ``rules.diagonal``, the centre and so many points more whose coordinates are all equal.
    """
    u, p = state.u, state.weight.size
    u[0] = 0.5
    if rules.diagonal > 0:
        for k in range(1, 1 + rules.diagonal):
            u[k] = (0.5 + k * GOLDEN) % 1.0
        return 1 + rules.diagonal
    for i in range(p):
        for k, step in enumerate((-THIRD[1], THIRD[1])):
            u[1 + 2 * i + k] = 0.5
            u[1 + 2 * i + k, i] = 0.5 + step
    return 1 + 2 * p


@kernel
def tell_initial(state: Any, rules: Any) -> None:
    """Divide the cube along the axis with the least s_i = min f(c_1 ± e_i / 3).

    Choice: the points of the other axes stay as samples of the middle third. With ``all_sides``
    every axis is divided, the one with the least s_i first, as DIRECT does it.
    """
    begin(state, rules.neighbourhood)
    if rules.diagonal > 0:
        for k in range(1, state.counter[EVALUATED]):
            store(k, FIRST, state, rules.neighbourhood)
        return
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
def known_sample(axis: Any, x: Any, centre: Any, u: Any) -> Any:
    """Return the initial sample at ``centre`` with coordinate ``axis`` set to ``x``; -1 if none."""
    for s in range(1 + 2 * axis, 3 + 2 * axis):
        same = u[s, axis] == x
        for i in range(centre.size):
            same &= i == axis or u[s, i] == centre[i]
        if same:
            return s
    return -1
