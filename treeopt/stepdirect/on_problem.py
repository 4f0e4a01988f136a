"""StepDIRECT on a problem: the model as a black box, for comparison with the proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.errors import InputError
from treeopt.model.difference import Model
from treeopt.model.frames import named
from treeopt.problem.bounds import feature_label
from treeopt.problem.dimensions import Choice, Dimension, Dimensions, Integer, Real
from treeopt.problem.problem import Problem
from treeopt.result.answer import Answer
from treeopt.run.progress import DecisionProgress, Progress
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.stepdirect.search import rows_at_once, search_within
from treeopt.types import Array, BoolArray, FloatArray, IntArray


def search_black_box(problem: Problem, run: Run) -> Answer:
    """Search until a limit is reached; there is no bound."""
    objective, places, limits = problem.objective, problem.places, run.limits
    dimensions = Dimensions([dimension_of(problem, j) for j in range(objective.model.n_features)])
    with limits.pause():  # the conversion of the model
        signed = objective.model.signed(objective.sign)
        at_once = min(rows_at_once(term.ensemble) for term in objective.terms)
    beside = _BesideMissing.of(problem, signed)

    def cells_of(x: Any) -> IntArray:
        if x is None:  # nothing was evaluated before the run was stopped
            x = np.full(objective.model.n_features, np.nan)
        cells: IntArray = places.cells_at(places.of_points(beside.snap(x[None, :])))[0]
        return cells

    def tell(now: Progress) -> None:
        value = objective.value_of(objective.sign * now.fun)

        def progress() -> DecisionProgress:
            point = places.region(cells_of(now.x))[0]
            x = named(point, objective.model, problem.columns)
            return DecisionProgress(x, value, np.nan, np.nan, now.nfev, 0, now.time)

        run.report(value, np.nan, now.nfev, 0, progress)

    is_told = run.callback is not None or run.line.shown
    own = Run(limits, run.max_evals, callback=tell if is_told else None, seed=run.seed)
    result = search_within(
        own,
        beside.predict if beside.columns.any() else signed,
        dimensions,
        weights=objective.model.importances,
        at_once=at_once,
        with_points=False,
    )
    limits.finish()
    run.history = [
        (
            int(row["nfev"]),
            float(row["time"]),
            objective.value_of(objective.sign * row["fun"]),
            np.nan,
        )
        for row in result.history
    ]
    run.status = Status.EVAL_LIMIT if result.status is Status.EXHAUSTED else result.status
    run.message = result.message
    return Answer(cells_of(result.x), nfev=result.nfev)


def dimension_of(problem: Problem, column: int) -> Dimension:
    """Return what may be chosen for a feature as a dimension; refuse what is unbounded.

    A feature that no term reads stays at a number near 0.
    """
    space = problem.space
    low, high = float(space.lower[column]), float(space.upper[column])
    if np.isnan(low):
        return Choice((np.nan,))
    if problem.grid.position[column] < 0:
        low = high = float(np.clip(0, low, high))
    name = feature_label(column, problem.objective.model)
    if np.isinf(low) or np.isinf(high):
        raise InputError(
            f"the bounds of {name} are infinite, which stepdirect cannot use. Pass finite ones."
        )
    if column in space.values and low < high:
        return Choice(tuple(space.values[column].tolist()))
    try:
        if space.integer[column] and low < high:
            return Integer(int(low), int(high))
        return Real(low, high)
    except InputError as error:
        raise InputError(f"the bounds of {name} are ({low:g}, {high:g}): {error}") from None


@dataclass(frozen=True, eq=False)
class _BesideMissing:
    """Keeps points away from the number that means missing, where that is no choice.

    Attributes
    ----------
    problem : Problem
        The problem.
    model : Ensemble or Difference
        What is predicted.
    columns : bool array
        The features with such a number between their bounds.
    """

    problem: Problem
    model: Model
    columns: BoolArray

    @classmethod
    def of(cls, problem: Problem, model: Model) -> _BesideMissing:
        space, grid = problem.space, problem.grid
        between = (space.lower < grid.missing_low) & (grid.missing_high < space.upper)
        return cls(problem, model, between & ~space.may_be_missing)

    def snap(self, X: FloatArray) -> FloatArray:
        """Return the points, with numbers that mean missing moved to the next one that does not."""
        grid, integer = self.problem.grid, self.problem.space.integer
        X = X.copy()
        beside = np.nextafter(grid.missing_high, np.inf)
        for column in np.flatnonzero(self.columns):
            means_missing = (X[:, column] >= grid.missing_low) & (X[:, column] <= grid.missing_high)
            X[means_missing, column] = np.ceil(beside) if integer[column] else beside
        return X

    def predict(self, X: FloatArray) -> Array:
        """Return the predictions at these points."""
        return self.model.predict(self.snap(X))
