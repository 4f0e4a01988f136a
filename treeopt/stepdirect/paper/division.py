"""Dividing potentially optimal hyper-rectangles (Sect. 3.3; Alg. 1 steps b and c)."""

from __future__ import annotations

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.stepdirect.paper.initialization import known_sample
from treeopt.stepdirect.paper.partition import divide
from treeopt.stepdirect.paper.rules import Rules
from treeopt.stepdirect.paper.state import MAX_LEVEL, THIRD, State
from treeopt.types import FloatArray, Int8Array


@kernel
def split_axis(level: Int8Array, weight: FloatArray) -> int:
    """Return the coordinate with the maximum v_i = w_i l_i (Eq. 12).

    Choice: of several, the first. The paper divides one coordinate.
    """
    best, axis = -1.0, -1
    for i in range(level.size):
        v = weight[i] * THIRD[level[i]]
        if weight[i] > 0.0 and level[i] < MAX_LEVEL and v > best:
            best, axis = v, i
    return axis


@kernel
def ask_division(state: State, rules: Rules) -> int:
    """Propose the centres of the outer thirds of every rectangle of S (Alg. 1 steps b, c).

    Returns their number. With ``all_sides`` there are two points along each of the longest sides,
    as in DIRECT.

    Choice: a point that the initialization has evaluated is not proposed again.
    """
    count, task = state.counter[0], state.task
    n = n_points = 0
    for q in range(count.selected):
        j = task[q].selected
        centre, level = state.centre[j], state.level[j]
        axis = split_axis(level, state.weight)
        longest = level.min()
        for i in range(level.size):
            if i == axis or (rules.all_sides and level[i] == longest):
                task[n].rect = j
                task[n].axis = i
                for sign in (-1, 1):
                    x = centre[i] + sign * THIRD[level[i] + 1]
                    s = known_sample(i, x, centre, state.u)
                    if s < 0:
                        s = count.evaluated + n_points
                        state.u[s] = centre
                        state.u[s, i] = x
                        n_points += 1
                    if sign < 0:
                        task[n].lower = s
                    else:
                        task[n].upper = s
                n += 1
    count.divisions = n
    return n_points


@kernel
def tell_division(state: State, rules: Rules) -> None:
    """Divide the rectangles of S (Alg. 1 step b), whose new centres are evaluated (step c).

    Of several sides of one rectangle, the one with the minimum value comes first: it gets the
    largest thirds.
    """
    count, task, sample = state.counter[0], state.task, state.sample
    first = 0
    while first < count.divisions:
        last = first
        while last < count.divisions and task[last].rect == task[first].rect:
            last += 1
        lowest = np.empty(last - first)
        for k in range(first, last):
            lowest[k - first] = min(sample[task[k].lower].f, sample[task[k].upper].f)
        for k in np.argsort(lowest, kind="mergesort"):
            job = task[first + k]
            divide(job.rect, job.axis, job.lower, job.upper, state, rules.neighbourhood)
        first = last
