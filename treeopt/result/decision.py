"""The result of a decision."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from treeopt.errors import InputError
from treeopt.model.frames import Columns, frame_of, labeled
from treeopt.model.joint import Inputs
from treeopt.result.words import effort_in_words, region_in_words, value_in_words
from treeopt.run.status import Status
from treeopt.types import Array


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """The result of `treeopt.minimize` or `treeopt.maximize`.

    An *admissible point* satisfies all restrictions of the problem: bounds, fixed values, integers
    and categories. ``print(decision)`` shows a summary.

    Attributes
    ----------
    x : Series or ndarray of shape (n_features,), or None
        The best admissible point found, in the middle of `region`. A pandas Series if the model has
        feature names and pandas is installed. Categories are given by their labels. None if there
        is no admissible point.
    frame : DataFrame
        The same point as a frame with one row, ready for the model's own ``predict``. If ``bounds``
        was a frame, it has the same column names and types. Requires pandas.
    fun : float
        The value of the objective: the prediction of the model itself for `frame`, or for `x` if
        the model was trained without feature names, plus or minus the costs. NaN if there is no
        admissible point.
    prediction : float
        The part of `fun` that comes from models, without costs. NaN if the objective has no model.
    cost : float
        The costs at `x`; 0 if there are none.
    terms : dict
        What each term adds to `fun`. The values add up to `fun`, from left to right.
    slack : dict
        For each constraint, by how much it holds, in the units of its left and right side. 0 if it
        is just satisfied.
    bound : float
        Bound on the predictions at all admissible points: none is below it for `minimize`, or
        above it for `maximize`. NaN if the method gives no bound.
    gap : float
        ``abs(fun - bound)``; 0 if both are the same infinity.
    rounding : float
        Maximum `gap` of a proven optimum. The gap may be nonzero because the model rounds its own
        sums. In most cases, `rounding` is 0 or a few units in the last place.
    status : Status
        Reason for the end of the run. `Status.OPTIMAL` if `x` is proven to be optimal.
    success : bool
        Whether the run reached its goal. The goal is the proof of the optimum or the requested gap.
        For a method without a bound, it is the maximum number of evaluations.
    message : str
        Reason for the end of the run, in words.
    conflict : tuple of str
        If there is no admissible point: a smallest set of constraints and bounds that contradict
        each other. The problem is feasible if any one of them is left out. Empty otherwise.
    region : Region or None
        The box around `x` in which every input has the same prediction, with the attributes
        ``lower``, ``upper`` and ``categories``. It lies within the bounds. None if there is no
        admissible point.
    nfev : int
        Number of evaluations. For the method ``"stepdirect"``, an evaluation is one prediction.
        For the other methods, it is a point from which the model was examined along every feature.
    nodes : int
        Number of boxes that the proof examined.
    time : float
        Duration of the run in seconds.
    history : structured ndarray
        One row per improvement of `fun` or `bound`, with the fields ``nfev``, ``time``, ``fun`` and
        ``bound``.
    maximized : bool
        True if the decision was made by `maximize`.
    """

    x: Any
    fun: float
    prediction: float
    cost: float
    terms: dict[str, float]
    slack: dict[str, float]
    bound: float
    gap: float
    rounding: float
    status: Status
    success: bool
    message: str
    conflict: tuple[str, ...]
    region: Any
    nfev: int
    nodes: int
    time: float
    history: Array
    maximized: bool
    _point: Array | None
    _inputs: Inputs
    _columns: Columns | None = None
    _free: frozenset[int] = frozenset()

    @cached_property
    def frame(self) -> Any:
        """The point as a frame with one row, ready for the model; requires pandas."""
        if self._point is None or self.region is None:
            raise InputError(
                f"frame is not available, because there is no point: {self.message}. Relax the "
                "bounds or the fixed values."
            )
        region = self.region
        return frame_of(self._point, self._inputs, region.lower, region.upper, self._columns)

    def __repr__(self) -> str:
        if self._point is None or self.region is None:
            return f"There is no admissible point: {self.message}."
        value = (self.fun, self.bound, self.gap, self.rounding, self.status, self.maximized)
        model = self._inputs
        names = model.feature_names or [f"x[{k}]" for k in range(model.n_features)]
        names = [*map(str, names if self._columns is None else self._columns.labels)]
        lines = [
            value_in_words(*value),
            effort_in_words(self.message, self.time, self.nfev, self.nodes),
            *region_in_words(names, labeled(self._point, model), self.region, self._free),
        ]
        return "\n".join(lines)
