"""One run of the search: on a Python function, or on a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from treeopt.model.difference import Difference, Model
from treeopt.model.ensemble import Ensemble
from treeopt.problem.dimensions import Dimensions
from treeopt.result.search_result import SearchResult
from treeopt.run.progress import Progress, improvements
from treeopt.run.run import Run
from treeopt.run.status import Status, Stopped
from treeopt.stepdirect.ask_tell import StepDirect
from treeopt.stepdirect.evaluation import Caller, VectorizedCaller
from treeopt.stepdirect.settings import StepDirectSettings
from treeopt.stepdirect.weights import weights_of
from treeopt.types import Array, FloatArray, Point, Points

SLICE = 0.02
"""Seconds between two checks of signals, limits and the callback in a compiled run."""

FIRST_SLICE = 256
"""Number of evaluations of the first slice; later ones go by the time that it took."""

FIRST_STEPS = 2_000_000
"""Maximum number of splits that the first slice passes: for large models it is shorter."""


def search_within(
    run: Run,
    fun: Model | Callable[[FloatArray], Array],
    dimensions: Dimensions,
    *,
    weights: FloatArray | None = None,
    settings: StepDirectSettings | None = None,
    at_once: int | None = None,
    with_points: bool = True,
) -> SearchResult:
    """Search within a run, whose limits may be entered already.

    Parameters
    ----------
    run : Run
        Its ``limits``, ``max_evals``, ``callback`` and ``seed`` are used; the callback gets a
        `Progress`. Its ``status`` and ``message`` are set.
    fun : model or callable
        What to minimize. An ensemble over real dimensions without steps and logarithms runs in
        the compiled loop. A function gets a matrix of numbers, one point per row.
    dimensions : Dimensions
        The space, without names. Points, also those of the result, are rows of `Dimensions.values`.
    weights : array of shape (p,)
        Relative importance of all dimensions; uniform by default.
    settings : StepDirectSettings
        How to search.
    at_once : int
        Maximum number of points that a function gets.
    with_points : bool
        Whether the result has all points that were evaluated.

    Returns
    -------
    SearchResult
        As `stepdirect` returns it.
    """
    settings = StepDirectSettings() if settings is None else settings
    weight = settings.weights_for(weights_of(weights, dimensions))
    search = CubeSearch(run, dimensions, weight, settings)
    if isinstance(fun, Ensemble | Difference):
        search.on_model(fun)
        return search.result(None, with_points)
    caller = VectorizedCaller(fun, run.limits)
    if at_once is not None:
        caller.at_once = at_once
    search.on_function(caller)
    return search.result(caller.error, with_points)


def rows_at_once(model: Model) -> int:
    """Return the number of points that a model may predict between two checks of the limits."""
    if isinstance(model, Difference):
        return min(rows_at_once(model.plus), rows_at_once(model.minus))
    steps = model.n_trees * max(model.compiled.depth, 1)
    return int(min(max(FIRST_STEPS // steps, 1), FIRST_SLICE))


class Search(ABC):
    """A search under way, and its result."""

    def __init__(self, run: Run, dimensions: Dimensions) -> None:
        self.run, self.dimensions = run, dimensions
        self.nfev = 0
        self.ends: list[tuple[int, float]] = []
        run.status = Status.EVAL_LIMIT
        run.message = f"the limit of {run.max_evals} evaluations is reached"

    @property
    @abstractmethod
    def best(self) -> tuple[Point, float] | None:
        """The best point and its value; None if no evaluation has succeeded."""

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """Numbers of failed evaluations, and of iterations of Algorithm 1."""

    @abstractmethod
    def evaluated(self, with_points: bool) -> tuple[Points, FloatArray]:
        """Return all points, or none of them, and all their values; NaN: failed."""

    def repeat(self, step: Callable[[], None]) -> None:
        """Take steps until all evaluations are used up or something stops the run."""
        run = self.run
        with run, run.until_stopped():
            while self.nfev < run.max_evals:
                self.check()
                step()

    def check(self) -> None:
        """Stop the run if its time is over; it makes at least one evaluation."""
        if self.nfev:
            self.run.limits.check()

    def call(self, caller: Caller, points: Points, record: Callable[[FloatArray], None]) -> None:
        """Evaluate points; record the values that there are, also if it is interrupted."""
        caller.made = 0
        try:
            caller(points)
        finally:
            record(caller.values[: caller.made])
            self.count(self.nfev + caller.made)
        self.run.call_back(self.progress)

    def count(self, nfev: int) -> None:
        """Note the number of evaluations so far."""
        self.nfev = nfev
        self.ends.append((nfev, self.run.limits.time()))

    def progress(self) -> Progress:
        """Return where the search stands."""
        x, fun = self.best or (None, np.nan)
        nfailed, nit = self.counts
        return Progress(x, fun, self.nfev, nfailed, nit, self.run.limits.time())

    def result(self, error: str | None, with_points: bool = True) -> SearchResult:
        """Return the result; ``error`` is the first exception of the function, if any."""
        run = self.run
        points, values = self.evaluated(with_points)
        message, found = run.message, self.best is not None
        if not found:
            why = f", the first with {error.rstrip('.')}" if error else ""
            message += f"; every evaluation failed{why}"
        ended = run.status in (Status.EVAL_LIMIT, Status.EXHAUSTED)
        return SearchResult(
            **vars(self.progress()),
            success=ended and found,
            status=run.status,
            message=message,
            points=points,
            values=values,
            history=improvements(values, self.ends),
        )


class CubeSearch(Search):
    """A search that evaluates every point of the unit cube that is proposed."""

    def __init__(
        self,
        run: Run,
        dimensions: Dimensions,
        weight: FloatArray,
        settings: StepDirectSettings,
        batch: int = 1,
    ) -> None:
        from treeopt.stepdirect.driver import Driver  # needs numba, which takes time to import

        super().__init__(run, dimensions)
        self.weight, self.box = weight, dimensions.box
        rules = settings.rules_for(weight, batch, run.max_evals)
        rules = rules._replace(batch=min(rules.batch, run.max_evals))
        self.driver = Driver.begin(rules, weight, run.seed)

    def on_function(self, caller: Caller) -> None:
        """Run on a function of the user."""
        with self.run.limits.pause():
            self.driver.compile()
            self.points(np.empty((0, self.weight.size)))
        self.repeat(lambda: self.step(caller))

    def step(self, caller: Caller) -> None:
        """Evaluate the next points."""
        U = self.driver.propose(self.check)
        if not len(U):
            raise self.exhausted()
        left = self.run.max_evals - self.nfev
        self.call(caller, self.points(U[:left]), self.driver.record)

    def on_model(self, model: Model) -> None:
        """Run on the predictions of a model."""
        limits, p = self.run.limits, self.weight.size
        with limits.pause():  # the conversion of the model, and the compilation of its kernels
            if p:
                # Refuses what the model's library refuses.
                model.predict(self.points(np.stack([np.zeros(p), np.ones(p)])))
            size = rows_at_once(model)
        if isinstance(model, Ensemble):
            return self.on_ensemble(model, size)
        caller = VectorizedCaller(model.predict, limits)
        caller.at_once = size
        return self.on_function(caller)

    def on_ensemble(self, ensemble: Ensemble, size: int) -> None:
        """Run on an ensemble, in the compiled loop if possible; ``size`` points at first."""
        limits, box, p = self.run.limits, self.box, self.weight.size
        long_batches = size < FIRST_SLICE and 2 * p + 1 > 8 * size
        if box is None or not p or ensemble.link.by_numpy or long_batches:
            caller = VectorizedCaller(ensemble.predict, limits)
            caller.at_once = size
            return self.on_function(caller)
        with limits.pause():
            self.driver.spare().run_on(ensemble, box, 1, 1)  # compiles

        def step() -> None:
            nonlocal size
            most, before, begin = self.run.max_evals, self.nfev, limits.time()
            ahead = size if self.run.callback is None else 1
            pause = min(before + ahead, most)
            n, exhausted = self.driver.run_on(ensemble, box, most, pause, self.check)
            if n > before:
                rate = (n - before) / (limits.time() - begin)
                size = int(min(max(rate * SLICE, 1), 2 * size))
                self.count(n)
                self.run.call_back(self.progress)
            if exhausted:
                raise self.exhausted()

        return self.repeat(step)

    def exhausted(self) -> Stopped:
        """Return that there is nothing left to evaluate."""
        some = "no rectangle can be divided any more"
        why = some if self.weight.size else "every coordinate is fixed"
        return Stopped(Status.EXHAUSTED, why)

    def points(self, U: FloatArray) -> FloatArray:
        """Return points of the unit cube as points of the space."""
        if self.box is not None:
            return self.driver.points_in(self.box, U)
        return self.dimensions.values(self.dimensions.codes(U))

    @property
    def best(self) -> tuple[Point, float] | None:
        """The best point and its value; None if no evaluation has succeeded."""
        best = self.driver.best
        return None if best is None else (self.points(best.u[None, :])[0], best.fun)

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of failed evaluations, and of iterations of Algorithm 1."""
        return self.driver.nfailed, self.driver.nit

    def evaluated(self, with_points: bool) -> tuple[Points, FloatArray]:
        """Return all points, or none of them, and all their values; NaN: failed."""
        n = self.nfev if with_points else 0
        return self.points(self.driver.state.u[:n]), self.driver.values(self.nfev)


class SpaceSearch(Search):
    """A search in a space of named parameters, of which no point is evaluated twice."""

    def __init__(self, run: Run, optimizer: StepDirect) -> None:
        super().__init__(run, optimizer._dimensions)
        self.optimizer = optimizer

    def on_function(self, caller: Caller) -> None:
        """Run on a function of the user."""
        with self.run.limits.pause():
            self.optimizer._driver.compile()
        self.repeat(lambda: self.step(caller))

    def step(self, caller: Caller) -> None:
        """Evaluate the next points."""
        points: Points = self.optimizer.ask()[: self.run.max_evals - self.nfev]
        if not len(points):
            raise Stopped(Status.EXHAUSTED, "every point of the space is evaluated")
        self.call(caller, points, lambda v: self.optimizer.tell(points[: len(v)], v))

    @property
    def best(self) -> tuple[Point, float] | None:
        """The best point and its value; None if no evaluation has succeeded."""
        best = self.optimizer.best
        return None if best.x is None else (best.x, best.fun)

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of failed evaluations, and of iterations of Algorithm 1."""
        return self.optimizer.nfailed, self.optimizer._driver.nit

    def evaluated(self, with_points: bool) -> tuple[Points, FloatArray]:
        """Return all points, or none of them, and all their values; NaN: failed."""
        return self.optimizer.points if with_points else [], self.optimizer.values
