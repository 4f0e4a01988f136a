"""The result of a decision."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from treeopt.arguments import read_time_limit
from treeopt.errors import InputError
from treeopt.model.frames import Columns, frame_of, labeled
from treeopt.model.joint import Inputs
from treeopt.result.words import (
    effort_in_words,
    region_in_words,
    slack_in_words,
    terms_in_words,
    value_in_words,
)
from treeopt.run.status import Status
from treeopt.types import Array

FindBinding: TypeAlias = Callable[["Decision", float | None], dict[str, float]]
"""Returns the gains of `Decision.binding` for a decision and a time limit."""


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
        sums. In most cases, `rounding` is 0 or a few units in the last place. With constraints or
        costs, it includes the tolerance of linear programs.
    status : Status
        Reason for the end of the run. `Status.OPTIMAL` if `x` is proven to be optimal.
    success : bool
        Whether the run reached its goal. The goal is the proof of the optimum or the requested gap.
        For a method without a bound, it is the maximum number of evaluations.
    message : str
        Reason for the end of the run, in words.
    conflict : tuple of str
        If there is no admissible point: constraints, bounds and fixed values that contradict each
        other. None of them can be left out: the others alone can be satisfied. `message` says so if
        this could not be decided. Empty if there is an admissible point.
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
    _is_prediction: bool = True
    _free: frozenset[int] = frozenset()
    _find_binding: FindBinding | None = None

    @cached_property
    def frame(self) -> Any:
        """The point as a frame with one row, ready for the model; requires pandas."""
        if self._point is None:
            raise InputError(
                f"frame is not available, because there is no point: {self.message}. Relax the "
                "constraints, the bounds or the fixed values."
            )
        return frame_of(self._point, self._inputs, self._columns)

    def binding(self, *, time_limit: float | None = None) -> dict[str, float]:
        """Return the constraints and bounds that bind, and the gain of the optimum without each.

        The problem is solved again without each constraint, and without each bound of a feature
        that is not fixed and has no list of values. The gain is the improvement of the proven
        optimum: the decrease of `fun` for `minimize`, the increase for `maximize`.

        Parameters
        ----------
        time_limit : float, optional
            Maximum time of the whole call in seconds. If None, it is that of the decision, if there
            was one.

        Returns
        -------
        dict
            The gains in the units of `fun`, by constraint (as in `slack`) or bound (such as
            ``"upper bound of cement"``). The largest gain is first. Infinite if the objective is
            unbounded without it. NaN if it is not proven, because of the time limit, Ctrl-C or
            rounding errors; these are last. Constraints and bounds without a gain are left out.

        Raises
        ------
        InputError
            If `status` is neither ``OPTIMAL`` nor ``GAP_REACHED``, or if the result was pickled,
            because a pickled result does not contain the problem.

        Notes
        -----
        A model is a step function. A constraint may therefore bind although its slack is not 0: the
        next step of the model may lie behind it. A constraint with slack 0 need not bind.

        Each constraint is left out alone. If two of them exclude the same points, neither has a
        gain. A chain such as ``"1 <= a <= 2"`` is one constraint. The bounds of a feature with
        ``low == high`` fix it and are not left out.

        The method, the seed, ``gap`` and ``n_jobs`` are those of the decision. With a ``gap``, a
        gain may be wrong by up to ``gap``, and gains that may be 0 are left out.

        Examples
        --------
        >>> import treeopt
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
        >>> model = DecisionTreeRegressor().fit(X, [0.0, 2.0, 3.0, 5.0])
        >>> best = treeopt.maximize(
        ...     model, {0: (0, 1), 1: (0, 0.25)}, constraints=["x[0] + x[1] <= 0.75"]
        ... )
        >>> best.fun, best.binding()
        (2.0, {'upper bound of x[1]': 1.0})
        """
        seconds = read_time_limit(time_limit)
        if self.status not in (Status.OPTIMAL, Status.GAP_REACHED):
            if self.status is Status.INFEASIBLE:
                remedy = "Relax the bounds or the constraints; conflict may name them."
            else:
                remedy = "Solve with method='auto', and with a longer time_limit or a larger gap."
            raise InputError(
                f"binding is not available, because status is {self.status.name}, not OPTIMAL or "
                f"GAP_REACHED: {self.message}. {remedy}"
            )
        if self._find_binding is None:
            raise InputError(
                "binding is not available, because the result was pickled, and a pickled result "
                "does not contain the problem. Call binding() before pickling, or solve again."
            )
        return self._find_binding(self, seconds)

    def __getstate__(self) -> dict[str, Any]:
        # The problem holds the user's models and data, which may be large or not picklable.
        return {**self.__dict__, "_find_binding": None}

    def __copy__(self) -> Decision:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Decision:
        other = object.__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(deepcopy(self.__getstate__(), memo), _find_binding=self._find_binding)
        return other

    def __repr__(self) -> str:
        if self.status is Status.INFEASIBLE:
            return f"There is no admissible point: {self.message}."
        if self._point is None:
            return f"{self.message[:1].upper()}{self.message[1:]}."
        what = "prediction" if self._is_prediction else "value"
        value = (self.fun, self.bound, self.gap, self.rounding, self.status, self.maximized, what)
        is_plain = self._is_prediction and not self.slack
        model = self._inputs
        names = model.feature_names or [f"x[{k}]" for k in range(model.n_features)]
        names = [*map(str, names if self._columns is None else self._columns.labels)]
        lines = [
            value_in_words(*value, is_plain),
            effort_in_words(self.message, self.time, self.nfev, self.nodes),
            *terms_in_words(self.terms),
            *slack_in_words(self.slack),
            *region_in_words(names, labeled(self._point, model), self.region, self._free, what),
        ]
        return "\n".join(lines)
