"""StepDIRECT on a problem with constraints or costs: a black box with a penalty.

The search minimizes the objective plus a penalty for violated constraints. The best feasible point
is kept. If there is none, the point with the lowest penalty is returned, and the caller may repair
it.
"""

from __future__ import annotations

import numpy as np

from treeopt.arguments import read_seed
from treeopt.model.frames import named
from treeopt.problem.constraints import Condition, Count, Limit, Row
from treeopt.problem.dimensions import Dimensions
from treeopt.problem.problem import Problem
from treeopt.run.progress import DecisionProgress, Progress
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.stepdirect.on_problem import dimension_of
from treeopt.stepdirect.search import search_within
from treeopt.types import FloatArray

MIN_VIOLATION = 1e-12
"""Violation of a strict inequality whose two sides are equal."""


class _Penalized:
    """The objective with a penalty, as a function of points; keeps the best feasible point.

    Attributes
    ----------
    best : float64 array or None
        The best feasible point.
    value : float
        Its value times the sense.
    nearest : float64 array
        The point with the lowest penalty.
    """

    def __init__(self, problem: Problem, start: FloatArray) -> None:
        self.problem, self.sense = problem, problem.objective.sense
        self.best: FloatArray | None = None
        self.value, self.nearest, self._distance = np.inf, start, np.inf
        self._values: list[float] = []

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the penalized values of points, one per row."""
        return np.array([self._one(x) for x in X])

    def _one(self, x: FloatArray) -> float:
        """Return the penalized value of a point."""
        value = self.sense * self.problem.objective.value_at(x)
        violation = sum(
            _violation(condition, x)
            for constraint in self.problem.constraints
            for condition in constraint.conditions
        )
        if violation == 0 and value < self.value:
            self.best, self.value = x.copy(), value
        if violation < self._distance:
            self.nearest, self._distance = x.copy(), violation
        self._values.append(value)
        scale = np.ptp(self._values) or 1.0
        return float(value + 3.0 * scale * violation)


def _violation(condition: Condition, x: FloatArray) -> float:
    """Return by how much a condition is violated, relative to the size of its terms."""
    if condition.holds(x):
        return 0.0
    if isinstance(condition, Row):
        scale = condition.size + float(condition.sizes @ np.abs(x[condition.columns]))
        return max(-condition.slack(x) / max(scale, 1e-300), MIN_VIOLATION)
    if isinstance(condition, Limit):
        ends = [abs(end) for end in (condition.low, condition.high) if np.isfinite(end)]
        return -condition.slack(x) / max(*ends, 1e-12)
    return -condition.slack(x) if isinstance(condition, Count) else 1.0


def search_with_penalty(problem: Problem, run: Run) -> tuple[FloatArray, bool, int]:
    """Search until a limit is reached.

    Returns the best feasible point, or else the one with the lowest penalty; whether it is
    feasible; and the number of evaluations.
    """
    inputs, limits, sense = problem.inputs, run.limits, problem.objective.sense
    dimensions = Dimensions([dimension_of(problem, j) for j in range(inputs.n_features)])
    corner = dimensions.values(dimensions.codes(np.zeros((1, dimensions.free.size))))[0]
    function = _Penalized(problem, corner)

    def tell(now: Progress) -> None:
        fun = sense * function.value if function.best is not None else np.nan

        def progress() -> DecisionProgress:
            x = function.best
            shown = None if x is None else named(x, inputs, problem.columns)
            return DecisionProgress(shown, fun, np.nan, np.nan, now.nfev, 0, now.time)

        run.report(fun, np.nan, now.nfev, 0, progress)

    is_told = run.callback is not None or run.line.shown
    own = Run(
        limits,
        run.max_evals,
        callback=tell if is_told else None,
        seed=read_seed(run.seed),
    )
    result = search_within(own, function, dimensions, weights=inputs.importances, with_points=False)
    run.status = Status.EVAL_LIMIT if result.status is Status.EXHAUSTED else result.status
    run.message = result.message
    x = function.nearest if function.best is None else function.best
    return x, function.best is not None, result.nfev
