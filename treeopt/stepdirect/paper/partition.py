"""The partition P_k of the unit cube: its rectangles, the samples in them, and their division."""

from __future__ import annotations

import math

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.stepdirect.paper.state import FIRST, MAX_LEVEL, NONE, THIRD, UNSTORED, State
from treeopt.stepdirect.paper.variability import enter, leave, revalue
from treeopt.types import FloatArray, Int8Array, RecordArray


@kernel
def radius_of(level: Int8Array, weight: FloatArray) -> float:
    """Return d, half the diagonal of a rectangle; 0 if it cannot be divided any more.

    Sides are added from the shortest to the longest: equal shapes have equal bits whatever the
    order of their sides.
    """
    sides = np.zeros(MAX_LEVEL + 1, np.int64)
    divisible = False
    for i in range(level.size):
        sides[level[i]] += 1
        divisible |= level[i] < MAX_LEVEL and weight[i] > 0.0
    if not divisible:
        return 0.0
    total = 0.0
    for k in range(MAX_LEVEL, -1, -1):
        total += sides[k] * THIRD[k] * THIRD[k]
    return 0.5 * math.sqrt(total)


@kernel
def add_sample(s: int, j: int, sample: RecordArray, rect: RecordArray) -> None:
    """Add sample ``s`` to rectangle ``j`` and update f_H."""
    sample[s].follower = rect[j].head
    rect[j].head = s
    rect[j].f = min(rect[j].f, sample[s].f)


@kernel
def begin(state: State, neighbourhood: float) -> None:
    """Make the whole cube the first rectangle, with sample 0 at its centre."""
    count, rect, node = state.counter[0], state.rect, state.node
    state.centre[0] = 0.5
    state.level[0] = 0
    rect[0].radius = radius_of(state.level[0], state.weight)
    rect[0].f = np.inf
    rect[0].head = NONE
    rect[0].node = 0
    node[0].child = NONE
    node[0].rect = 0
    count.rectangles = 1
    count.nodes = 1
    add_sample(FIRST, FIRST, state.sample, rect)
    if neighbourhood > 0.0:
        enter(FIRST, count.rectangles, rect, state.centre, neighbourhood)


@kernel
def rectangle_of(u: FloatArray, node: RecordArray) -> int:
    """Return the rectangle that contains a point; a point on a cut belongs to the upper one."""
    k = 0
    while node[k].child != NONE:
        x = u[node[k].axis]
        k = node[k].child + np.int64(x >= node[k].lower) + np.int64(x >= node[k].upper)
    j: int = node[k].rect
    return j


@kernel
def store(s: int, j: int, state: State, neighbourhood: float) -> None:
    """Store sample ``s`` in rectangle ``j``, which contains it (Sect. 3.4, last paragraph)."""
    rect = state.rect
    old = rect[j].f
    add_sample(s, j, state.sample, rect)
    if neighbourhood > 0.0 and rect[j].f != old:
        revalue(j, old, state.counter[0].rectangles, rect, state.centre, neighbourhood)


@kernel
def divide(j: int, axis: int, lower: int, upper: int, state: State, neighbourhood: float) -> None:
    """Divide rectangle ``j`` into thirds along ``axis`` (Alg. 1 step b).

    Samples ``lower`` and ``upper`` are the centres of the outer thirds; the rectangle itself
    becomes the middle one. Stored samples go to the third that contains them (Sect. 3.4).
    """
    sample, rect, centre, level = state.sample, state.rect, state.centre, state.level
    n = state.counter[0].rectangles
    if neighbourhood > 0.0:
        leave(j, n, rect, centre, neighbourhood)
    sixth = THIRD[level[j, axis]] / 6.0
    first_cut, second_cut = centre[j, axis] - sixth, centre[j, axis] + sixth
    level[j, axis] += 1
    rect[j].radius = radius_of(level[j], state.weight)
    for new, s in ((n, lower), (n + 1, upper)):
        centre[new] = state.u[s]
        level[new] = level[j]
        rect[new].radius = rect[j].radius
        rect[new].f = np.inf
        rect[new].head = NONE
    s = rect[j].head
    rect[j].head = NONE
    rect[j].f = np.inf
    while s != NONE:
        follower = sample[s].follower
        x = state.u[s, axis]
        target = n + 1 if x >= second_cut else (j if x >= first_cut else n)
        add_sample(s, target, sample, rect)
        s = follower
    for new, s in ((n, lower), (n + 1, upper)):
        if sample[s].follower == UNSTORED:
            add_sample(s, new, sample, rect)
    grow_tree(j, axis, first_cut, second_cut, state)
    state.counter[0].rectangles = n + 2
    if neighbourhood > 0.0:
        enter(j, n, rect, centre, neighbourhood)
        enter(n, n, rect, centre, neighbourhood)
        enter(n + 1, n + 1, rect, centre, neighbourhood)


@kernel
def grow_tree(j: int, axis: int, lower: float, upper: float, state: State) -> None:
    """Give the leaf of rectangle ``j`` three children: the lower third, ``j``, the upper third."""
    count, rect, node = state.counter[0], state.rect, state.node
    new, child = count.rectangles, count.nodes
    parent = rect[j].node
    node[parent].axis = axis
    node[parent].lower = lower
    node[parent].upper = upper
    node[parent].child = child
    for k, r in enumerate((new, j, new + 1)):
        node[child + k].child = NONE
        node[child + k].rect = r
        rect[r].node = child + k
    count.nodes = child + 3
