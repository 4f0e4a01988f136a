"""StepDIRECT on a problem: the model as a black box, for comparison with the proof."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from treeopt.errors import InputError
from treeopt.model.difference import Difference, Model
from treeopt.model.frames import named
from treeopt.problem.bounds import feature_label
from treeopt.problem.places import Places
from treeopt.problem.problem import Problem
from treeopt.result.answer import Answer
from treeopt.run.progress import DecisionProgress, Progress
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.stepdirect.minimizer import search_within
from treeopt.stepdirect.search import rows_at_once
from treeopt.types import Array


def search_black_box(problem: Problem, run: Run) -> Answer:
    """Run the search: compiled on real features, else on points that are snapped."""
    objective, places, limits = problem.objective, problem.places, run.limits
    e, sign = objective.model, objective.sign
    snap = _Snap(places)
    unread = places.grid.position < 0
    snap.lower[unread] = snap.upper[unread] = np.clip(0, snap.lower[unread], snap.upper[unread])
    infinite = np.flatnonzero(np.isinf(snap.lower) | np.isinf(snap.upper))
    if infinite.size:
        name = feature_label(int(infinite[0]), e)
        raise InputError(
            f"the bounds of {name} are infinite, which stepdirect cannot use. Pass finite ones."
        )
    with limits.pause():  # the conversion of the model
        signed = e.signed(sign)
        at_once = min(rows_at_once(term.ensemble) for term in objective.terms)
        by_predict = snap.needed or isinstance(signed, Difference)
        if by_predict:
            signed.predict(snap(snap.lower[None, :]))  # compiles
    fun: Any = partial(_snapped, signed, snap) if by_predict else signed

    def cells_of(x: Array) -> Array:
        point = places.of_points(snap(x[None, :]))
        cells: Array = places.cells_at(point)[0]
        return cells

    def tell(now: Progress) -> None:
        value = objective.value_of(sign * now.fun)

        def progress() -> DecisionProgress:
            point = named(places.region(cells_of(now.x))[0], e, problem.columns)
            return DecisionProgress(point, value, np.nan, np.nan, now.nfev, 0, now.time)

        run.report(value, np.nan, now.nfev, 0, progress)

    result = search_within(
        limits,
        fun,
        np.column_stack([snap.lower, snap.upper]),
        max_evals=run.max_evals,
        settings=None,
        weights=e.importances,
        rng=run.seed,
        callback=None if run.callback is None and not run.line.shown else tell,
        vectorized=by_predict,
        workers=1,
        at_once=at_once,
        with_points=False,
    )
    limits.finish()
    run.history = [
        (row["nfev"], row["time"], objective.value_of(sign * row["fun"]), np.nan)
        for row in result.history
    ]
    run.status = Status.EVAL_LIMIT if result.status is Status.EXHAUSTED else result.status
    run.message = result.message
    return Answer(cells_of(result.x), nfev=result.nfev)


class _Snap:
    """Points of a real box to admissible points: whole numbers, and values from lists.

    A list is searched as the numbers of its values.
    """

    def __init__(self, places: Places) -> None:
        self.space = space = places.space
        self.lower, self.upper = space.lower.copy(), space.upper.copy()
        self.whole = np.flatnonzero(space.integer & ~space.fixed)
        missing = np.isnan(space.lower)
        # Between the bounds there may be a number that means missing, and is no choice.
        self.gap = before, after = places.grid.missing_low, places.grid.missing_high
        self.around = np.flatnonzero(
            (space.lower < before) & (after < space.upper) & ~space.may_be_missing
        )
        self.needed = bool(self.whole.size or space.values or missing.any() or self.around.size)
        # Each whole number has the same share of the line.
        self.lower[self.whole] -= 0.5
        self.upper[self.whole] += 0.5
        for column, values in space.values.items():
            self.lower[column], self.upper[column] = -0.5, values.size - 0.5
        self.lower[missing] = self.upper[missing] = 0.0

    def __call__(self, X: Array) -> Array:
        """Return the admissible points."""
        space = self.space
        X = X.copy()
        X[:, self.whole] = np.clip(
            np.round(X[:, self.whole]), space.lower[self.whole], space.upper[self.whole]
        )
        for around in self.around:
            means_missing = (X[:, around] >= self.gap[0]) & (X[:, around] <= self.gap[1])
            beside = np.nextafter(self.gap[1], np.inf)
            X[means_missing, around] = np.ceil(beside) if space.integer[around] else beside
        for column, values in space.values.items():
            X[:, column] = values[np.clip(np.round(X[:, column]), 0, values.size - 1).astype(int)]
        X[:, np.isnan(space.lower)] = np.nan
        return X


def _snapped(ensemble: Model, snap: _Snap, X: Array) -> Array:
    """Return the predictions at the admissible points next to some."""
    return ensemble.predict(snap(X))
