"""The state of Algorithm 1, as arrays that the kernels read and write.

The paper's symbols and their names here:

=====================  ==========================================================================
``Ω``, ``p``           the unit cube (Eq. 4) and its dimension
``m``, ``m_max``       ``counter.evaluated``, ``max_evals``
``k``                  ``counter.iteration``
``P_k``, ``H_j``       the first ``counter.rectangles`` rows of ``rect``; row ``j``
``c_j``, ``l``         ``centre[j]``, and the side lengths ``THIRD[level[j]]``
``d_j``                ``rect[j].radius``, the distance from the centre to a vertex
``f_H``                ``rect[j].f``, the minimum of the samples in the rectangle
``σ_j``                ``rect[j].differ / rect[j].near``, at least ε_σ (Eq. 9)
``|N_j|``, ``|N_j^D|``  ``rect[j].near``, ``rect[j].differ``
``f_min``, ``x_min``   value and point of sample ``counter.best``
``S``                  ``task[i].selected`` for ``i < counter.selected``
``w``                  ``weight``
``x``, ``δ`` (Alg. 2)  sample ``task[i].at``, ``task[i].delta``
``t`` (Alg. 2)         ``counter.round * (|D| + 1)``
=====================  ==========================================================================

A rectangle keeps its number when it is divided, as the middle third. The samples in a rectangle
form a linked list. A failed evaluation has the value infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from treeopt.types import Array, FloatArray, Int8Array, RecordArray, UInt64Array

# `counter.phase`: the step of Algorithm 1 that is next, or whose values are awaited.
INITIAL, SELECT, SEARCH, DIVIDE = range(4)

MAX_LEVEL = 32
"""Maximum number of cuts of a side. Further thirds would be lost in the rounding."""

THIRD = 3.0 ** -np.arange(MAX_LEVEL + 2)
"""Length of a side by its number of cuts."""

NONE = -1
"""No sample, no node."""

FIRST: int = np.int64(0)  # type: ignore[assignment]
"""The first sample, the first rectangle; typed, so that kernels are not compiled for it alone."""

UNSTORED = -2
"""The follower of a sample that is not in the list of a rectangle yet."""

START_ROOM = 1024
"""Number of samples that a new state has room for; it grows with the run."""

COUNTER = np.dtype(
    [
        ("phase", np.int64),
        ("asked", np.int64),  # number of points whose values are awaited
        ("evaluated", np.int64),  # m, without those
        ("iteration", np.int64),  # k
        ("best", np.int64),  # the sample x_min; NONE: every evaluation failed
        ("rectangles", np.int64),
        ("nodes", np.int64),
        ("selected", np.int64),  # |S|
        ("divisions", np.int64),  # entries of `task` that describe a division
        ("round", np.int64),  # rounds of the local searches so far
        ("failed", np.int64),
    ]
)
"""Counters of a run: one record, ``counter[0]``."""

SAMPLE = np.dtype([("f", np.float64), ("follower", np.int64)])
"""A point: its value, and the next sample in the same rectangle."""

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
"""A node of the tree that finds the rectangle of a point: two cuts of one coordinate."""

TASK = np.dtype(
    [
        ("selected", np.int64),  # a rectangle of S
        ("at", np.int64),  # the sample where its local search stands
        ("delta", np.float64),  # and its step δ
        ("rect", np.int64),  # a division: the rectangle,
        ("axis", np.int64),  # the coordinate,
        ("lower", np.int64),  # and the samples at the centres of the outer thirds
        ("upper", np.int64),
    ]
)
"""The work of the current iteration: S, its local searches and its divisions."""


class State(NamedTuple):
    """The state of Algorithm 1."""

    counter: RecordArray
    random: UInt64Array
    weight: FloatArray
    u: FloatArray  # all points so far, in the unit cube
    sample: RecordArray
    centre: FloatArray
    level: Int8Array  # number of cuts of each side of a rectangle
    rect: RecordArray
    node: RecordArray
    task: RecordArray


COPIED_AT_ONCE = 2**23
"""Bytes that are copied between two checks of the limits when tables grow."""

GROWING = {"u": 1, "sample": 1, "centre": 1, "level": 1, "rect": 1, "node": 2, "task": 1}
"""The tables that grow with the run, and their rows per sample."""


def new_state(weight: FloatArray, seed: int) -> State:
    """Return the state before the first evaluation."""
    p = weight.size
    n = max(START_ROOM, 2 * p + 1)
    counter = np.zeros(1, COUNTER)
    counter["best"] = NONE
    return State(
        counter=counter,
        random=np.array([seed], np.uint64),
        weight=weight,
        u=np.zeros((n, p)),
        sample=np.zeros(n, SAMPLE),
        centre=np.zeros((n, p)),
        level=np.zeros((n, p), np.int8),
        rect=np.zeros(n, RECT),
        node=np.zeros(2 * n, NODE),
        task=np.zeros(n, TASK),
    )


def grown(state: State, room: int, check: Callable[[], None] = lambda: None) -> State:
    """Return the state with room for at least this many samples, and at least twice as many.

    ``check`` is called now and then; if it raises, the state is unchanged.
    """
    room = max(room, 2 * state.sample.size)
    tables = {}
    for name, rows in GROWING.items():
        old: Array = getattr(state, name)
        tables[name] = np.zeros((rows * room, *old.shape[1:]), old.dtype)
        at_once = max(1, COPIED_AT_ONCE * len(old) // max(old.nbytes, 1))
        for first in range(0, len(old), at_once):
            check()
            some = slice(first, min(first + at_once, len(old)))
            tables[name][some] = old[some]
    return state._replace(**tables)
