"""What a decision returns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from treeopt.errors import InputError
from treeopt.model.difference import Model
from treeopt.model.frames import Columns, frame_of, labelled
from treeopt.result.words import effort_in_words, region_in_words, value_in_words
from treeopt.run.status import Status
from treeopt.types import Array


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
    region: Any
    nfev: int
    nodes: int
    time: float
    history: Array
    maximized: bool
    _point: Array | None
    _ensemble: Model
    _columns: Columns | None = None
    _free: frozenset[int] = frozenset()

    @cached_property
    def frame(self) -> Any:
        """One row with the training columns and labels, ready for the model; needs pandas."""
        if self._point is None or self.region is None:
            raise InputError(f"there is no point to make a frame of: {self.message}.")
        region = self.region
        region = self.region
        return frame_of(self._point, self._ensemble, region.lower, region.upper, self._columns)

    def __repr__(self) -> str:
        if self._point is None or self.region is None:
            return f"There is no admissible point: {self.message}."
        value = (self.fun, self.bound, self.gap, self.rounding, self.status, self.maximized)
        model = self._ensemble
        names = model.feature_names or [f"x[{k}]" for k in range(model.n_features)]
        names = [*map(str, names if self._columns is None else self._columns.labels)]
        lines = [
            value_in_words(*value),
            effort_in_words(self.message, self.time, self.nfev, self.nodes),
            *region_in_words(names, labelled(self._point, model), self.region, self._free),
        ]
        return "\n".join(lines)
