"""The refinement: a search around the best point, which the default adds to the paper's algorithm.

It walks from sample to sample through the whole cube, by two kinds of moves:

jump
    One coordinate goes anywhere in [0, 1]: to the next value of its golden-ratio sequence, so that
    a line is covered evenly however many tries it gets. Axes come in shuffled sweeps; at first,
    axes with large weights, and along which the first samples differ, come more often. After an
    improvement along one axis, the next move continues in its direction.
shift
    Each coordinate, with probability one half, takes a step. All steps of a shift have one scale,
    drawn on a logarithmic scale, because the widths of the function's steps are unknown. Steps end
    at the bounds, where optima often are.

A move is kept if it is not worse. After some moves without improvement, a part of the coordinates
is drawn again, a kick: anything from a few of them to all. The walk continues from there, on an
excursion, and returns home if it does not improve.

Every axis is moved in each sweep, and the partition continues beside the walk: every region is
searched in the end. (With ``StepDirectSettings.scarce`` there is no partition, and no guarantee.)
"""

from __future__ import annotations

import math

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.kernels.random import below, choose, normal, uniform
from treeopt.stepdirect.paper.algorithm import collect
from treeopt.stepdirect.paper.partition import rectangle_of, store
from treeopt.stepdirect.paper.state import NONE, State
from treeopt.stepdirect.walk_state import SearchRules, Walk
from treeopt.types import FloatArray, IntArray, UInt64Array

GOLDEN = 0.6180339887498949
"""The golden ratio. Its multiples modulo 1 fill [0, 1) most evenly."""

PREFERRED = 0.7
"""Share of the first jumps that go by preference instead of in sweeps."""

FADE = 20
"""Evaluations per coordinate after which the preference has faded to a third."""


@kernel
def ask_refinement(state: State, walk: Walk, rules: SearchRules) -> int:
    """Propose the next points of the walk; return their number."""
    count, own = state.counter[0], walk.counter[0]
    u, random = state.u, state.random
    if own.at == NONE:
        begin_walk(state, walk, rules)
        arrive(max(count.best, 0), walk, rules)
    home = own.home if own.away else own.at
    if count.best != NONE and state.sample[count.best].f < state.sample[home].f:
        arrive(count.best, walk, rules)  # the partition has found something better
    own.kicked = not own.away and own.stall > own.patience
    for new in range(count.evaluated, count.evaluated + rules.batch):
        x = u[new]
        x[:] = u[own.at]
        if own.kicked:
            kick(x, random)
        elif own.again != NONE and continue_along(x, state, walk):
            own.again = NONE
        elif uniform(random) < rules.shift:
            shift(x, rules.decades, random)
        else:
            jump(x, state, walk)
    return rules.batch


@kernel
def ask_beside(x: FloatArray, state: State, walk: Walk, rules: SearchRules) -> None:
    """Propose one point beside those of the current step, while their values are awaited.

    It is a move of the walk; before the walk begins, any point.
    """
    own, random = walk.counter[0], state.random
    if own.at == NONE:
        for i in range(x.size):
            x[i] = uniform(random)
        return
    x[:] = state.u[own.at]
    if uniform(random) < rules.shift:
        shift(x, rules.decades, random)
    else:
        jump(x, state, walk)


@kernel
def begin_walk(state: State, walk: Walk, rules: SearchRules) -> None:
    """Draw where the golden sequences begin, and weigh the axes.

    The preference is the mean of the given weights and of the effects of the axes: how much the
    samples along each axis, the first of the run, differ from the center.
    """
    sample, p = state.sample, state.weight.size
    total = 0.0
    effect = np.zeros(p)
    for i in range(p):
        walk.golden[i] = uniform(state.random)
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
        walk.preference[i] = reached


@kernel
def continue_along(x: FloatArray, state: State, walk: Walk) -> bool:
    """Step on along the axis of the last improvement; return whether there is room."""
    own = walk.counter[0]
    axis = own.again
    last = x[axis] - state.u[own.before, axis]
    y = clipped(x[axis] + last * 10.0 ** (uniform(state.random) - 0.5))
    moved: bool = y != x[axis]
    x[axis] = y
    return moved


@kernel
def jump(x: FloatArray, state: State, walk: Walk) -> None:
    """Move one coordinate to the next value of its sequence."""
    own, random, p = walk.counter[0], state.random, x.size
    if uniform(random) < PREFERRED * math.exp(-state.counter[0].evaluated / (FADE * p)):
        axis = choose(walk.preference, random)
    else:
        if own.dealt == 0:
            shuffle(walk.sweep, random)
        axis = walk.sweep[own.dealt]
        own.dealt = (own.dealt + 1) % p
    walk.golden[axis] = (walk.golden[axis] + GOLDEN) % 1.0
    x[axis] = walk.golden[axis]


@kernel
def shift(x: FloatArray, decades: float, random: UInt64Array) -> None:
    """Step in about half of the coordinates, at least one, by one common scale."""
    scale = 10.0 ** (-decades * uniform(random))
    surely = below(x.size, random)
    for i in range(x.size):
        if uniform(random) < 0.5 or i == surely:
            x[i] = clipped(x[i] + scale * normal(random))


@kernel
def kick(x: FloatArray, random: UInt64Array) -> None:
    """Draw each coordinate again, with a probability that is itself drawn."""
    share = uniform(random)
    surely = below(x.size, random)
    for i in range(x.size):
        if uniform(random) < share or i == surely:
            x[i] = uniform(random)


@kernel
def shuffle(order: IntArray, random: UInt64Array) -> None:
    """Put numbers into a random order (Fisher and Yates)."""
    for k in range(order.size - 1, 0, -1):
        other = below(k + 1, random)
        order[k], order[other] = order[other], order[k]


@kernel
def clipped(x: float) -> float:
    """Return the nearest number in [0, 1]."""
    return min(max(x, 0.0), 1.0)


@kernel
def tell_refinement(state: State, walk: Walk, rules: SearchRules) -> None:
    """Move on, given the values of the last points."""
    own, sample, u = walk.counter[0], state.sample, state.u
    start, asked = own.at, collect(state)
    m = state.counter[0].evaluated
    for s in range(m - asked, m):
        store(s, rectangle_of(u[s], state.node), state, rules.paper.neighbourhood)
        if sample[s].f < sample[own.at].f:
            if not own.away or sample[s].f < sample[own.home].f:
                arrive(s, walk, rules)
            else:
                own.at, own.stall = s, 0
            own.before, own.again = start, only_difference(u[start], u[s])
        elif own.kicked:
            if not own.away:
                leave_home(s, walk, rules)
        else:
            own.stall += 1
            if sample[s].f == sample[own.at].f:
                own.at, own.again = s, NONE
            if own.away and own.stall > own.patience:
                return_home(state, walk, rules)


@kernel
def only_difference(x: FloatArray, y: FloatArray) -> int:
    """Return the coordinate in which two points differ; NONE if there are several."""
    axis, n = NONE, 0
    for i in range(x.size):
        if x[i] != y[i]:
            axis = i
            n += 1
    return axis if n == 1 else NONE


@kernel
def arrive(s: int, walk: Walk, rules: SearchRules) -> None:
    """Make a sample, better than all before, the new home."""
    own = walk.counter[0]
    own.at, own.away, own.stall, own.kicked, own.again = s, False, 0, False, NONE
    own.patience = rules.patience * walk.golden.size


@kernel
def leave_home(s: int, walk: Walk, rules: SearchRules) -> None:
    """Continue from a kick, whatever its value."""
    own = walk.counter[0]
    own.home, own.at, own.away, own.stall = own.at, s, True, 0
    own.again = NONE
    own.patience = rules.excursion * walk.golden.size


@kernel
def return_home(state: State, walk: Walk, rules: SearchRules) -> None:
    """End an excursion that has not improved; if it is as good as home, it is the new home."""
    own, sample = walk.counter[0], state.sample
    if sample[own.at].f > sample[own.home].f:
        own.at = own.home
    own.away, own.stall, own.again = False, 0, NONE
    own.patience = rules.excursion * walk.golden.size
