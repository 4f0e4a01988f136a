"""What a search and a decision return."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.errors import InputError

if TYPE_CHECKING:
    from treeopt.model.ensemble import Ensemble
    from treeopt.model.frames import Columns
    from treeopt.types import Array

HISTORY = np.dtype([("nfev", np.int64), ("time", np.float64), ("fun", np.float64)])
"""An improvement: after how many evaluations, after how many seconds, to which value."""

BOUND_HISTORY = np.dtype(
    [("time", np.float64), ("nfev", np.int64), ("fun", np.float64), ("bound", np.float64)]
)
"""An improvement of a decision or of its bound."""


class Status(Enum):
    """Why a search ended."""

    OPTIMAL = "optimal"
    GAP_REACHED = "gap reached"
    INFEASIBLE = "infeasible"
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


class Region(NamedTuple):
    """A box around a point in which every input gives the same prediction.

    It is what the leaves that hold the point have in common. Beyond it the prediction may change,
    but need not.

    Attributes
    ----------
    lower, upper : float64 arrays
        Ends of each feature, both included, as inputs before the cast, cut to the bounds, and whole
        numbers where only these are admissible; NaN where the feature is fixed at a missing value.
        For a feature with categories, the least and the largest number among those that are
        allowed.
    categories : dict from int to tuple
        Which of the admissible categories give the same prediction, as labels where the model
        knows them; for the features that have categories.
    """

    lower: Array
    upper: Array
    categories: dict[int, tuple[object, ...]]


@dataclass(frozen=True, eq=False)
class DecisionProgress:
    """Where a decision stands, for a callback; see `Decision` for the attributes."""

    x: Array
    fun: float
    bound: float
    gap: float
    nfev: int
    nodes: int
    time: float


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """The best inputs of a model, and what is known about all others.

    Attributes
    ----------
    x : Series or array of shape (n_features,)
        The inputs, in the middle of `region`; by name where the model has names and pandas is
        installed, with labels for categories. None if there is no admissible point.
    frame : DataFrame
        The same as one row, ready for the model's own ``predict``: with labels, and with the names
        and types of the columns of ``bounds`` where that was a frame.
    fun : float
        What the model itself predicts for this frame, or for `x` if it was trained without names.
    bound : float
        No admissible point is better than this; NaN if the method gives no bound.
    gap : float
        ``abs(fun - bound)``; 0 if both are the same infinity.
    rounding : float
        How large `gap` may be at most for an optimum that is proven, because of the rounding in the
        model's own sums; mostly it is 0 or a few units of the last place.
    status : Status
        Why it ended: `Status.OPTIMAL` if nothing better is left.
    success : bool
        Whether what was asked for is reached: the proof, the gap, or for a method without a bound
        the end of its evaluations.
    message : str
        The same in a sentence.
    region : Region
        The box around `x` in which every input gives the same prediction: ``lower`` and ``upper``,
        both included, cut to the bounds, and the ``categories``. NaN if there is no point.
    nfev : int
        Number of evaluations. For StepDIRECT they are predictions; otherwise points at which the
        whole function along all axes was looked at.
    nodes : int
        Number of boxes that the proof looked at.
    time : float
        Seconds.
    history : structured array
        Improvements of the two: ``time``, ``nfev``, ``fun``, ``bound``.
    maximized : bool
        Whether larger is better.
    """

    x: Any
    fun: float
    bound: float
    gap: float
    rounding: float
    status: Status
    success: bool
    message: str
    region: Region
    nfev: int
    nodes: int
    time: float
    history: Array
    maximized: bool
    _point: Array | None
    _ensemble: Ensemble
    _columns: Columns | None = None
    _free: frozenset[int] = frozenset()

    @cached_property
    def frame(self) -> Any:
        """One row with the training columns and labels, ready for the model; needs pandas."""
        from treeopt.model.frames import frame_of

        if self._point is None:
            raise InputError(f"there is no point to make a frame of: {self.message}.")
        return frame_of(self._point, self._ensemble, self.region, self._columns)

    def __repr__(self) -> str:
        from treeopt.model.frames import described

        return described(self)


def gap_between(fun: float, bound: float) -> float:
    """Return the distance of a value and its bound, which is 0 for the same infinity."""
    return 0.0 if fun == bound else abs(fun - bound)


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
