"""The leaves of all trees as boxes of the grid: what the search and the proof work on.

Only what the space leaves reachable is listed. A leaf that is a range of places along every feature
is one box. Where the places of a feature have no order (categories, zero or a missing value among
numbers), a leaf may be several runs of places and becomes one box per run. So the search and the
proof only see boxes of integers. In each tree they are sorted by value, the lowest first.

Kernels that may run for long check a flag, ``stop``. Once it is set they return as soon as they
can, and neither their results nor the arrays they worked on may be used: every caller checks the
flag first. It is never cleared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from treeopt.types import FloatArray, Int32Array, IntArray


class Leaves(NamedTuple):
    """Boxes of the grid with their values; smaller is better.

    Attributes
    ----------
    value : float64 array
        What the box adds to the sum.
    low, high : int32 arrays ``[feature, box]``
        First and last place of each box along each free feature.
    leaf : int32 array
        The leaf of the ensemble that the box is, or is a part of.
    start : int64 array
        First box of each tree, and the number of boxes at the end.
    place_start : int64 array
        Number of the first place of each free feature, if all places are numbered consecutively.
    constant : float
        The start of the sum.
    stop : int64 array
        One number: not 0 if the search has to end.
    """

    value: FloatArray
    low: Int32Array
    high: Int32Array
    leaf: Int32Array
    start: IntArray
    place_start: IntArray
    constant: float
    stop: IntArray = np.zeros(1, np.int64)

    @property
    def ends(self) -> tuple[Int32Array, Int32Array]:
        """The leaves with the lowest and the highest value of each tree."""
        return self.leaf[self.start[:-1]], self.leaf[self.start[1:] - 1]
