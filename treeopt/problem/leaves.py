"""The leaves of all trees as boxes of the grid, for the search and the proof.

Only leaves that the space can reach are listed. A leaf that is a range of places along every
feature is one box. If the places of a feature have no order (categories, or zero or a missing value
among numbers), a leaf may consist of several runs of places; it becomes one box per run. The search
and the proof therefore see only boxes of integers. In each tree, boxes are sorted by ascending
value.

Kernels that may run for long check a flag, ``stop``. Once it is set, they return as soon as
possible. Their results and the arrays they worked on are then invalid, so every caller checks the
flag first. The flag is never cleared.
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
        Value that the box contributes to the sum.
    low, high : int32 arrays ``[feature, box]``
        First and last place of each box along each free feature.
    leaf : int32 array
        The leaf of the ensemble that contains the box.
    start : int64 array
        First box of each tree, followed by the number of boxes.
    place_start : int64 array
        Number of the first place of each free feature, if all places are numbered consecutively.
    constant : float
        Initial value of the sum.
    stop : int64 array
        One number; nonzero if the search must end.
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
    def extreme_leaves(self) -> tuple[Int32Array, Int32Array]:
        """The leaf with the minimum value and the leaf with the maximum value of each tree."""
        return self.leaf[self.start[:-1]], self.leaf[self.start[1:] - 1]
