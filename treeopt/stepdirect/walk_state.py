"""State and rules of what the default adds to the paper's algorithm."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treeopt.stepdirect.paper.rules import Rules
from treeopt.stepdirect.paper.state import NONE
from treeopt.types import FloatArray, IntArray, RecordArray

REFINE = 4
"""A value of ``counter.phase`` beside the paper's: the refinement is next, or awaits values."""

WALK_COUNTER = np.dtype(
    [
        ("partitioned", np.int64),  # evaluations that went to the paper's algorithm
        ("at", np.int64),  # the sample where the walk stands; NONE: not begun
        ("before", np.int64),  # where it stood before the last improvement
        ("home", np.int64),  # during an excursion, where it returns to
        ("stall", np.int64),  # moves without improvement
        ("patience", np.int64),  # maximum of these
        ("away", np.int64),  # whether it is on an excursion
        ("kicked", np.int64),  # whether the last batch were kicks
        ("dealt", np.int64),  # axes of the current sweep that are used up
        ("again", np.int64),  # the axis of the last improvement; NONE: several
    ]
)
"""Counters of the schedule and the walk: one record, ``counter[0]``."""


class Walk(NamedTuple):
    """The state of the refinement, a walk from sample to sample."""

    counter: RecordArray
    golden: FloatArray  # the last value that was tried along each axis
    sweep: IntArray  # the order of the axes in the current sweep
    preference: FloatArray  # running sums of the axes' probabilities in the first jumps


class SearchRules(NamedTuple):
    """Numbers of `StepDirectSettings` for the kernels: the paper's, and those of the default."""

    paper: Rules
    diagonal: int  # number of points of the diagonal start; 0: the paper's initialization
    share: float  # of the evaluations that go to the paper's algorithm; 1: no refinement
    shift: float
    decades: float
    patience: int
    excursion: int
    batch: int


def new_walk(p: int) -> Walk:
    """Return the walk before it begins, in p dimensions."""
    counter = np.zeros(1, WALK_COUNTER)
    for name in ("at", "home", "again"):
        counter[name] = NONE
    return Walk(counter, np.full(p, np.nan), np.arange(p), np.zeros(p))
