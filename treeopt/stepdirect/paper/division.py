"""Dividing potentially optimal hyper-rectangles (Sect. 3.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.stepdirect.paper.initialization import known_sample
from treeopt.stepdirect.paper.partition import divide
from treeopt.stepdirect.paper.state import EVALUATED, JOBS, MAX_LEVEL, SELECTED, THIRD


@kernel
def split_axis(level: Any, weight: Any) -> Any:
    """Return the coordinate with the largest v_i = w_i l_i.

    Choice: of several, the first. The paper divides one coordinate.
    """
    best, axis = -1.0, -1
    for i in range(level.size):
        v = weight[i] * THIRD[level[i]]
        if weight[i] > 0.0 and level[i] < MAX_LEVEL and v > best:
            best, axis = v, i
    return axis


@kernel
def ask_division(state: Any, rules: Any) -> Any:
    """Propose the centres of the outer thirds of every selected rectangle (Alg. 1 steps b, c).

    Returns their number. A point that the initialization has evaluated is not proposed again. With
    ``all_sides`` there are two points along each of the longest sides, as in DIRECT.
    """
    count, task = state.counter, state.task
    n_jobs = n_points = 0
    for q in range(count[SELECTED]):
        j = task[q].selected
        centre, level = state.centre[j], state.level[j]
        axis = split_axis(level, state.weight)
        longest = level.min()
        for i in range(level.size):
            if i == axis or (rules.all_sides and level[i] == longest):
                task[n_jobs].rect = j
                task[n_jobs].axis = i
                for sign in (-1, 1):
                    x = centre[i] + sign * THIRD[level[i] + 1]
                    s = known_sample(i, x, centre, state.u)
                    if s < 0:
                        s = count[EVALUATED] + n_points
                        state.u[s] = centre
                        state.u[s, i] = x
                        n_points += 1
                    if sign < 0:
                        task[n_jobs].lower = s
                    else:
                        task[n_jobs].upper = s
                n_jobs += 1
    count[JOBS] = n_jobs
    return n_points


@kernel
def tell_division(state: Any, rules: Any) -> None:
    """Divide the selected rectangles now that the values are known.

    Of several sides of one rectangle, that with the least value comes first: it gets the largest
    thirds.
    """
    task, sample = state.task, state.sample
    first = 0
    while first < state.counter[JOBS]:
        last = first
        while last < state.counter[JOBS] and task[last].rect == task[first].rect:
            last += 1
        least = np.empty(last - first)
        for k in range(first, last):
            least[k - first] = min(sample[task[k].lower].f, sample[task[k].upper].f)
        for k in np.argsort(least, kind="mergesort"):
            job = task[first + k]
            divide(job.rect, job.axis, job.lower, job.upper, state, rules.neighbourhood)
        first = last
