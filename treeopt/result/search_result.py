"""What a black-box search returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeopt.run.status import Status
from treeopt.types import Array


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult:
    """The best point that a black-box search has found.

    Attributes
    ----------
    x : array of shape (p,)
        The point; NaN if every evaluation failed.
    fun : float
        Its value; NaN if every evaluation failed.
    success : bool
        Whether the search ended by itself, with at least one value.
    status : Status
        Why it ended.
    message : str
        The same in a sentence.
    nfev : int
        Number of evaluations.
    nfailed : int
        How many of them failed: raised, or returned NaN or an infinity.
    nit : int
        Number of iterations of Algorithm 1.
    time : float
        Seconds.
    points : array of shape (nfev, p)
        All points that were evaluated, in order.
    values : array of shape (nfev,)
        Their values; NaN where the evaluation failed.
    history : structured array
        The improvements: ``nfev``, ``time`` and ``fun``. Times are those at which the batch, or the
        slice of a compiled run, that holds the evaluation ended.
    """

    x: Array
    fun: float
    success: bool
    status: Status
    message: str
    nfev: int
    nfailed: int
    nit: int
    time: float
    points: Array
    values: Array
    history: Array

    def __repr__(self) -> str:
        place = np.array2string(self.x, precision=6, separator=", ", threshold=20)
        failed = f" ({self.nfailed} failed)" if self.nfailed else ""
        return (
            f"fun = {self.fun:.10g} after {self.nfev} evaluations{failed} in {self.time:.3g} s; "
            f"{self.message}.\nx = {place}"
        )
