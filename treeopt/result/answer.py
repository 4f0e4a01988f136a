"""What a method returns: a point of the grid and what is known about all others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treeopt.types import IntArray


class Answer(NamedTuple):
    """The answer of a method to a problem; why it ended is noted in the run.

    Attributes
    ----------
    cells : int64 array or None
        The best point, as cells of the grid; None if there is no admissible point.
    bound : float
        No admissible point has a better value; NaN if the method gives no bound.
    rounding : float
        Maximum distance of value and bound of a proven optimum.
    nfev, nodes : int
        Number of evaluations and of nodes.
    """

    cells: IntArray | None
    bound: float = np.nan
    rounding: float = 0.0
    nfev: int = 0
    nodes: int = 0
