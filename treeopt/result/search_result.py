"""The result of a black-box search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.errors import shown
from treeopt.result.words import counted
from treeopt.run.status import Status
from treeopt.types import FloatArray, RecordArray


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult:
    """The result of a black-box search.

    Attributes
    ----------
    x : ndarray of shape (n_dims,), dict or None
        The best point found; a dict if the parameters have names. None if every evaluation failed.
    fun : float
        The value at `x`; NaN if every evaluation failed.
    success : bool
        Whether the search ended normally, with at least one successful evaluation.
    status : Status
        Reason for the end of the search.
    message : str
        Reason for the end of the search, in words.
    nfev : int
        Number of evaluations.
    nfailed : int
        Number of failed evaluations: the function raised an exception, or returned NaN or an
        infinity.
    nit : int
        Number of iterations of Algorithm 1.
    time : float
        Duration of the search in seconds.
    points : ndarray of shape (nfev, n_dims), or list of dict
        All evaluated points, in order.
    values : ndarray of shape (nfev,)
        Values at these points; NaN if the evaluation failed.
    history : structured ndarray
        One row per improvement, with the fields ``nfev``, ``time`` and ``fun``. The time is that at
        the end of the batch, or of the slice of a compiled run, that contains the evaluation.
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
        point = shown(self.x)
        if isinstance(self.x, np.ndarray):
            point = np.array2string(self.x, precision=6, separator=", ", threshold=20)
        failed = f" ({self.nfailed} failed)" if self.nfailed else ""
        return (
            f"fun = {self.fun:.10g} after {counted(self.nfev, 'evaluation')}{failed} in "
            f"{self.time:.3g} s; {self.message}.\nx = {point}"
        )
