"""The answer of a method: a point of the grid, and a bound on all others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treeopt.types import FloatArray, IntArray


class Answer(NamedTuple):
    """The answer of a method to a problem; the run has the reason for its end.

    Attributes
    ----------
    cells : int64 array or None
        The best point, as cells of the grid; None if there is no admissible point.
    bound : float
        No admissible point has a better value than this; NaN if the method gives no bound.
    x : float64 array or None
        The best point itself, if it is not in the middle of its region.
    conflict : tuple of str
        Constraints and bounds that contradict each other, if there is no admissible point.
    rounding : float
        Maximum distance between value and bound of a proven optimum, due to rounding.
    nfev, nodes : int
        Number of evaluations and of nodes.
    """

    cells: IntArray | None
    bound: float = np.nan
    rounding: float = 0.0
    nfev: int = 0
    nodes: int = 0
    x: FloatArray | None = None
    conflict: tuple[str, ...] = ()
