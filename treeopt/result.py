"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from treeopt.ensemble import Array

HISTORY = np.dtype([("nfev", np.int64), ("time", np.float64), ("fun", np.float64)])
"""An improvement: after how many evaluations, after how many seconds, to which value."""


class Status(Enum):
    """Why a search ended."""

    EVAL_LIMIT = "evaluation limit"
    TIME_LIMIT = "time limit"
    STOPPED = "stopped"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a search stands, for a callback; see `SearchResult` for the attributes."""

    x: Array
    fun: float
    nfev: int
    nfailed: int
    nit: int
    time: float


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


def improvements(values: Array, ends: list[tuple[int, float]]) -> Any:
    """Return the history of a run.

    ``values`` are NaN where an evaluation failed; ``ends`` tells the time at some numbers of
    evaluations, the last one included.
    """
    least = np.fmin.accumulate(values)
    before = np.append(np.nan, least)[:-1]
    at = np.flatnonzero((least < before) | (np.isnan(before) & ~np.isnan(least)))
    history = np.empty(at.size, HISTORY)
    history["nfev"] = at + 1
    history["fun"] = least[at]
    counts = np.array([count for count, _ in ends])
    times = np.array([time for _, time in ends])
    history["time"] = times[np.searchsorted(counts, at + 1)] if at.size else 0.0
    return history
