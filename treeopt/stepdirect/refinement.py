"""The search around the best point, which the default adds to the paper's algorithm.

It walks from sample to sample through the whole cube, by two kinds of moves:

jump
    One coordinate goes anywhere in [0, 1]: to the next value of its golden-ratio sequence, so that
    a line is covered evenly however many tries it gets. Axes come in shuffled sweeps; at first,
    those with large weights, and along which the first samples differ, come more often. After an
    improvement along one axis, the next step goes on in its direction.
shift
    Each coordinate, with probability one half, takes a step. All steps of a shift have one scale,
    drawn on a logarithmic scale, because the widths of the function's steps are not known. They end
    at the bounds, where optima often are.

A move is kept if it is not worse. When nothing has improved for a while, a part of the coordinates
is drawn anew, a kick: anything from a few of them to all. The walk goes on from there, away from
home, and returns when it fails to improve.

Every axis is moved in each sweep, and the partition goes on beside the walk: every region is
searched in the end. (With ``StepDirectSettings.scarce`` there is no partition, and only chance.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.kernels.random import below, choose, normal, uniform
from treeopt.stepdirect.paper.initialization import GOLDEN
from treeopt.stepdirect.paper.partition import rectangle_of, store
from treeopt.stepdirect.paper.state import (
    AGAIN,
    AT,
    AWAY,
    BEFORE,
    BEST,
    DEALT,
    EVALUATED,
    HOME,
    KICKED,
    NONE,
    PATIENCE,
    STALL,
)

PREFERRED = 0.7
"""Share of the first jumps that go by preference instead of in sweeps."""

FADE = 20
"""After so many evaluations per coordinate the preference has faded to a third."""


@kernel
def ask_refinement(state: Any, rules: Any) -> Any:
    """Propose the next points of the walk; return their number."""
    count, u, random = state.counter, state.u, state.random
    if count[AT] == NONE:
        begin_walk(state, rules)
        arrive(max(count[BEST], 0), state, rules)
    home = count[HOME] if count[AWAY] else count[AT]
    if count[BEST] != NONE and state.sample[count[BEST]].f < state.sample[home].f:
        arrive(count[BEST], state, rules)  # the partition has found something better
    count[KICKED] = not count[AWAY] and count[STALL] > count[PATIENCE]
    for new in range(count[EVALUATED], count[EVALUATED] + rules.batch):
        x = u[new]
        x[:] = u[count[AT]]
        if count[KICKED]:
            kick(x, random)
        elif count[AGAIN] != NONE and go_on(x, state):
            count[AGAIN] = NONE
        elif uniform(random) < rules.shift:
            shift(x, rules.decades, random)
        else:
            jump(x, state)
    return rules.batch


@kernel
def ask_beside(x: Any, state: Any, rules: Any) -> None:
    """Propose one point beside those of the current step, while their values are awaited.

    It is a move of the walk, or before that begins any point.
    """
    random = state.random
    if state.counter[AT] == NONE:
        for i in range(x.size):
            x[i] = uniform(random)
        return
    x[:] = state.u[state.counter[AT]]
    if uniform(random) < rules.shift:
        shift(x, rules.decades, random)
    else:
        jump(x, state)


@kernel
def begin_walk(state: Any, rules: Any) -> None:
    """Draw where the golden sequences begin, and weigh the axes.

    The preference is the mean of the given weights and of what the samples along each axis, the
    first of the run, say, if there are any: their differences from the centre.
    """
    sample, p = state.sample, state.weight.size
    total = 0.0
    effect = np.zeros(p)
    for i in range(p):
        state.golden[i] = uniform(state.random)
        for s in (1 + 2 * i, 2 + 2 * i):
            if rules.diagonal > 0:
                break
            difference = abs(sample[s].f - sample[0].f)
            if difference < np.inf:
                effect[i] += difference
        total += effect[i]
    reached = 0.0
    for i in range(p):
        share = effect[i] / total if total > 0.0 else state.weight[i]
        reached += 0.5 * (share + state.weight[i])
        state.preference[i] = reached


@kernel
def go_on(x: Any, state: Any) -> Any:
    """Step on along the axis of the last improvement; return whether there is room."""
    axis = state.counter[AGAIN]
    last = x[axis] - state.u[state.counter[BEFORE], axis]
    y = clipped(x[axis] + last * 10.0 ** (uniform(state.random) - 0.5))
    moved = y != x[axis]
    x[axis] = y
    return moved


@kernel
def jump(x: Any, state: Any) -> None:
    """Move one coordinate to the next value of its sequence."""
    count, random, p = state.counter, state.random, x.size
    if uniform(random) < PREFERRED * math.exp(-count[EVALUATED] / (FADE * p)):
        axis = choose(state.preference, random)
    else:
        if count[DEALT] == 0:
            shuffle(state.sweep, random)
        axis = state.sweep[count[DEALT]]
        count[DEALT] = (count[DEALT] + 1) % p
    state.golden[axis] = (state.golden[axis] + GOLDEN) % 1.0
    x[axis] = state.golden[axis]


@kernel
def shift(x: Any, decades: Any, random: Any) -> None:
    """Step in about half of the coordinates, at least one, by one common scale."""
    scale = 10.0 ** (-decades * uniform(random))
    surely = below(x.size, random)
    for i in range(x.size):
        if uniform(random) < 0.5 or i == surely:
            x[i] = clipped(x[i] + scale * normal(random))


@kernel
def kick(x: Any, random: Any) -> None:
    """Draw anew each coordinate with a probability that is itself drawn."""
    share = uniform(random)
    surely = below(x.size, random)
    for i in range(x.size):
        if uniform(random) < share or i == surely:
            x[i] = uniform(random)


@kernel
def shuffle(order: Any, random: Any) -> None:
    """Bring numbers into a random order (Fisher and Yates)."""
    for k in range(order.size - 1, 0, -1):
        other = below(k + 1, random)
        order[k], order[other] = order[other], order[k]


@kernel
def clipped(x: Any) -> Any:
    """Return the nearest number in [0, 1]."""
    return min(max(x, 0.0), 1.0)


@kernel
def tell_refinement(asked: Any, state: Any, rules: Any) -> None:
    """Walk on, given the values of the last points."""
    count, sample, u = state.counter, state.sample, state.u
    start = count[AT]
    for s in range(count[EVALUATED] - asked, count[EVALUATED]):
        store(s, rectangle_of(u[s], state.node), state, rules.neighbourhood)
        if sample[s].f < sample[count[AT]].f:
            if not count[AWAY] or sample[s].f < sample[count[HOME]].f:
                arrive(s, state, rules)
            else:
                count[AT], count[STALL] = s, 0
            count[BEFORE], count[AGAIN] = start, only_difference(u[start], u[s])
        elif count[KICKED]:
            if not count[AWAY]:
                leave_home(s, state, rules)
        else:
            count[STALL] += 1
            if sample[s].f == sample[count[AT]].f:
                count[AT], count[AGAIN] = s, NONE
            if count[AWAY] and count[STALL] > count[PATIENCE]:
                return_home(state, rules)


@kernel
def only_difference(x: Any, y: Any) -> Any:
    """Return the coordinate in which two points differ, NONE if there are several."""
    axis, n = NONE, 0
    for i in range(x.size):
        if x[i] != y[i]:
            axis = i
            n += 1
    return axis if n == 1 else NONE


@kernel
def arrive(s: Any, state: Any, rules: Any) -> None:
    """Make a sample, better than all before, the new home."""
    count = state.counter
    count[AT], count[AWAY], count[STALL], count[KICKED], count[AGAIN] = s, False, 0, False, NONE
    count[PATIENCE] = rules.patience * state.weight.size


@kernel
def leave_home(s: Any, state: Any, rules: Any) -> None:
    """Go on from a kick, whatever its value."""
    count = state.counter
    count[HOME], count[AT], count[AWAY], count[STALL] = count[AT], s, True, 0
    count[AGAIN] = NONE
    count[PATIENCE] = rules.excursion * state.weight.size


@kernel
def return_home(state: Any, rules: Any) -> None:
    """End an excursion that has found nothing better; if it is as good, it is the new home."""
    count, sample = state.counter, state.sample
    if sample[count[AT]].f > sample[count[HOME]].f:
        count[AT] = count[HOME]
    count[AWAY], count[STALL], count[AGAIN] = False, 0, NONE
    count[PATIENCE] = rules.excursion * state.weight.size
