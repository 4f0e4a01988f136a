"""What a run knows, as arrays that the kernels read and write.

The paper's symbols and their names here:

=====================  ==========================================================================
``Ω``, ``p``           the unit cube and its dimension
``m``, ``m_max``       ``counter[EVALUATED]``, ``max_evals``
``k``                  ``counter[ITERATION]``
``P_k``, ``H_j``       the first ``counter[RECTANGLES]`` rows of ``rect``; row ``j``
``c_j``, ``l_j``       ``centre[j]``, and side lengths ``THIRD[level[j]]``
``d_j``                ``rect[j].radius``, the distance from the centre to a vertex
``f_H``                ``rect[j].f``, the least value of the samples inside the rectangle
``σ_j``                ``rect[j].differ / rect[j].near``, or ε_σ if that is more
``N_j``, ``N_j^D``     counted in ``rect[j].near`` and ``rect[j].differ``
``f_min``, ``x_min``   value and place of sample ``counter[BEST]``
``S``                  ``task[k].selected`` for ``k < counter[SELECTED]``
``w``                  ``weight``
=====================  ==========================================================================

A rectangle keeps its number when it is divided, as the middle third. Samples inside a rectangle
are a linked list. A failed evaluation has the value infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from treeopt.types import Array

# The places of `State.counter`.
PHASE, ASKED, EVALUATED, ITERATION, BEST, RECTANGLES, NODES, SELECTED, JOBS = range(9)
ROUND, PARTITIONED, ANSWER, FAILED = range(9, 13)
# Those of the refinement: the samples where it stands, stood before, and has its home; how long it
# has not improved and may not; whether it is away from home; whether its last batch were kicks; how
# far it is in its sweep over the axes; and along which axis it has just improved.
AT, BEFORE, HOME, STALL, PATIENCE, AWAY, KICKED, DEALT, AGAIN = range(13, 22)
N_COUNTS = 22

# The steps of Algorithm 1, in `counter[PHASE]`.
INITIAL, SELECT, SEARCH, DIVIDE, REFINE = range(5)

MAX_LEVEL = 32
"""A side is not cut more often: its thirds would be lost in the rounding of the coordinates."""

THIRD = 3.0 ** -np.arange(MAX_LEVEL + 2)
"""Length of a side after so many cuts."""

NONE = -1
"""No sample, no node."""

FIRST = np.int64(0)
"""The first sample, the first rectangle; typed, so that kernels are not compiled for it alone."""

UNSTORED = -2
"""The follower of a sample that is in no rectangle's list yet."""

START_ROOM = 1024
"""Room for so many samples at first; it grows with the run."""


SAMPLE = np.dtype([("f", np.float64), ("follower", np.int64)])
"""A point that was asked for: its value, and the next sample in the same rectangle."""

RECT = np.dtype(
    [
        ("radius", np.float64),
        ("f", np.float64),
        ("head", np.int64),  # its first sample
        ("near", np.int64),
        ("differ", np.int64),
        ("node", np.int64),  # its leaf in the tree
    ]
)
"""A hyper-rectangle."""

NODE = np.dtype(
    [
        ("axis", np.int64),
        ("lower", np.float64),
        ("upper", np.float64),
        ("child", np.int64),  # the first of three; NONE: a leaf
        ("rect", np.int64),
    ]
)
"""A node of the tree that tells which rectangle holds a point: two cuts of one coordinate."""

TASK = np.dtype(
    [
        ("selected", np.int64),  # a rectangle of S
        ("at", np.int64),  # the sample where its local search stands
        ("delta", np.float64),  # and its step δ
        ("rect", np.int64),  # a division under way: which rectangle,
        ("axis", np.int64),  # along which axis,
        ("lower", np.int64),  # and the samples in the centres of the outer thirds
        ("upper", np.int64),
    ]
)
"""What the current iteration is about: S, its local searches and its divisions."""


class State(NamedTuple):
    """A whole run."""

    counter: Array
    random: Array
    weight: Array
    u: Array  # every point that was asked for, in the unit cube
    sample: Array
    centre: Array
    level: Array  # how often each side of a rectangle was cut
    rect: Array
    node: Array
    task: Array
    golden: Array  # refinement: the last value that was tried along each axis,
    sweep: Array  # the order of the axes in the current sweep,
    preference: Array  # and running sums of how much they are preferred at first


COPIED_AT_ONCE = 2**23
"""Bytes that are copied between two looks when tables grow."""

GROWING = {"u": 1, "sample": 1, "centre": 1, "level": 1, "rect": 1, "node": 2, "task": 1}
"""The tables that grow with the run, and their rows per sample."""


def new_state(weight: Array, seed: int) -> State:
    """Return the state before the first evaluation."""
    p = weight.size
    n = max(START_ROOM, 2 * p + 1)
    count = np.zeros(N_COUNTS, np.int64)
    count[[BEST, AT, HOME, AGAIN]] = NONE
    return State(
        counter=count,
        random=np.array([seed], np.uint64),
        weight=weight,
        u=np.zeros((n, p)),
        sample=np.zeros(n, SAMPLE),
        centre=np.zeros((n, p)),
        level=np.zeros((n, p), np.int8),
        rect=np.zeros(n, RECT),
        node=np.zeros(2 * n, NODE),
        task=np.zeros(n, TASK),
        golden=np.full(p, np.nan),
        sweep=np.arange(p),
        preference=np.zeros(p),
    )


def grown(state: State, room: int, look: Callable[[], None] = lambda: None) -> State:
    """Return the state with room for at least so many samples, and at least twice what it had.

    ``look`` is called every now and then; what it raises leaves the state as it is.
    """
    room = max(room, 2 * state.sample.size)
    tables = {}
    for name, rows in GROWING.items():
        old: Array = getattr(state, name)
        tables[name] = np.zeros((rows * room, *old.shape[1:]), old.dtype)
        at_once = max(1, COPIED_AT_ONCE * len(old) // max(old.nbytes, 1))
        for first in range(0, len(old), at_once):
            look()
            some = slice(first, min(first + at_once, len(old)))
            tables[name][some] = old[some]
    return state._replace(**tables)
