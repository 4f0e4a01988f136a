"""The result of a black-box search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.errors import shown
from treeopt.run.status import Status
from treeopt.types import FloatArray, RecordArray


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult:
    """The best point that a black-box search has found.

    Attributes
    ----------
    x : array of shape (p,), or dict
        The point; a dict if the parameters have names. None if every evaluation failed.
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
        Number of evaluations that failed: raised, or returned NaN or an infinity.
    nit : int
        Number of iterations of Algorithm 1.
    time : float
        Seconds.
    points : array of shape (nfev, p), or list of dict
        All points that were evaluated, in order.
    values : array of shape (nfev,)
        Their values; NaN where the evaluation failed.
    history : structured array
        The improvements: ``nfev``, ``time`` and ``fun``. Times are those at which the batch, or the
        slice of a compiled run, with the evaluation ended.
    """

    x: FloatArray | dict[str, Any] | None
    fun: float
    success: bool
    status: Status
    message: str
    nfev: int
    nfailed: int
    nit: int
    time: float
    points: FloatArray | list[dict[str, Any]]
    values: FloatArray
    history: RecordArray

    def __repr__(self) -> str:
        place = shown(self.x)
        if isinstance(self.x, np.ndarray):
            place = np.array2string(self.x, precision=6, separator=", ", threshold=20)
        failed = f" ({self.nfailed} failed)" if self.nfailed else ""
        return (
            f"fun = {self.fun:.10g} after {self.nfev} evaluations{failed} in {self.time:.3g} s; "
            f"{self.message}.\nx = {place}"
        )
