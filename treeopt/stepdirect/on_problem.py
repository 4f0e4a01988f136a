"""StepDIRECT on a problem: the model as a black box, for comparison with the proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.arguments import read_seed
from treeopt.errors import InputError
from treeopt.model.difference import Model
from treeopt.model.frames import named
from treeopt.problem.bounds import feature_label
from treeopt.problem.dimensions import (
    LARGEST_INTEGER,
    Choice,
    Dimension,
    Dimensions,
    Integer,
    Real,
)
from treeopt.problem.problem import Problem
from treeopt.result.answer import Answer
from treeopt.run.progress import DecisionProgress, Progress
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.stepdirect.search import rows_at_once, search_within
from treeopt.types import Array, BoolArray, FloatArray, IntArray


def search_black_box(problem: Problem, run: Run) -> Answer:
    """Search until a limit is reached; there is no bound."""
    prediction, places, limits = problem.prediction, problem.places, run.limits
    dimensions = Dimensions([dimension_of(problem, j) for j in range(prediction.model.n_features)])
    with limits.pause():  # the conversion of the model, and the compilation of its kernels
        signed = prediction.model.signed(prediction.sign)
        snap = _Snap.of(problem, signed)
        corner = dimensions.values(dimensions.codes(np.zeros((1, dimensions.free.size))))
        snap.predict(corner)

    def cells_of(x: Any) -> IntArray:
        if x is None:  # the run was stopped before the first evaluation
            x = corner[0]
        cells: IntArray = places.cells_at(places.of_points(snap(x[None, :])))[0]
        return cells

    def tell(now: Progress) -> None:
        value = prediction.value_of(prediction.sign * now.fun)

        def progress() -> DecisionProgress:
            point = places.region(cells_of(now.x))[0]
            x = named(point, prediction.model, problem.columns)
            return DecisionProgress(x, value, np.nan, np.nan, now.nfev, 0, now.time)

        run.report(value, np.nan, now.nfev, 0, progress)

    is_told = run.callback is not None or run.line.shown
    seed = read_seed(run.seed)  # as `treeopt.stepdirect` reads rng=run.seed
    own = Run(limits, run.max_evals, callback=tell if is_told else None, seed=seed)
    result = search_within(
        own,
        snap.predict if snap.is_needed else signed,
        dimensions,
        weights=prediction.model.importances,
        at_once=rows_at_once(signed),
        with_points=False,
    )
    limits.finish()
    run.history = [
        (
            int(row["nfev"]),
            float(row["time"]),
            prediction.value_of(prediction.sign * row["fun"]),
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
    name = feature_label(column, problem.inputs)
    if np.isinf(low) or np.isinf(high):
        raise InputError(
            f"the bounds of {name} are infinite, which stepdirect cannot use. Pass finite ones."
        )
    if column in space.values and low < high:
        return Choice(tuple(space.values[column].tolist()))
    try:
        if space.integer[column] and low < high and max(-low, high) <= LARGEST_INTEGER:
            return Integer(int(low), int(high))
        return Real(low, high)
    except InputError as error:
        raise InputError(f"the bounds of {name} are ({low:g}, {high:g}): {error}") from None


@dataclass(frozen=True, eq=False)
class _Snap:
    """What dimensions cannot express: numbers that mean missing, and very large integers.

    Attributes
    ----------
    problem : Problem
        The problem.
    model : Ensemble or Difference
        What is predicted.
    beside_missing : bool array
        Features with a number between their bounds that means missing and may not be chosen.
    rounded : bool array
        Integer features with bounds beyond the integers that a dimension can count.
    """

    problem: Problem
    model: Model
    beside_missing: BoolArray
    rounded: BoolArray

    @classmethod
    def of(cls, problem: Problem, model: Model) -> _Snap:
        """Return what a problem needs."""
        space, grid = problem.space, problem.grid
        between = (space.lower < grid.missing_low) & (grid.missing_high < space.upper)
        large = np.maximum(-space.lower, space.upper) > LARGEST_INTEGER
        rounded = space.integer & large & ~space.fixed
        return cls(problem, model, between & ~space.may_be_missing, rounded)

    @property
    def is_needed(self) -> bool:
        """Whether any point may be changed."""
        return bool(self.beside_missing.any() or self.rounded.any())

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return admissible points; a number that means missing becomes the next one."""
        grid, space = self.problem.grid, self.problem.space
        X = X.copy()
        rounded = self.rounded
        X[:, rounded] = np.clip(np.round(X[:, rounded]), space.lower[rounded], space.upper[rounded])
        beside = np.nextafter(grid.missing_high, np.inf)
        for column in np.flatnonzero(self.beside_missing):
            means_missing = (X[:, column] >= grid.missing_low) & (X[:, column] <= grid.missing_high)
            X[means_missing, column] = np.ceil(beside) if space.integer[column] else beside
        return X

    def predict(self, X: FloatArray) -> Array:
        """Return the predictions at the admissible points."""
        return self.model.predict(self(X))
