"""`stepdirect`: the search on a Python function or on a compiled ensemble."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from treeopt.ensemble import Ensemble
from treeopt.errors import InputError
from treeopt.result import Progress, SearchResult, Status, improvements
from treeopt.space import Box, read_bounds
from treeopt.stepdirect.evaluation import Caller, Clock, Stopped, VectorizedCaller, make_caller
from treeopt.stepdirect.rules import Rules
from treeopt.stepdirect.settings import StepDirectSettings
from treeopt.stepdirect.state import ANSWER, BEST, FAILED, ITERATION, NONE, grown, new_state

if TYPE_CHECKING:
    from treeopt.ensemble import Array

SLICE = 0.02
"""Seconds that a compiled run goes on before signals, limits and the callback are looked at."""

FIRST_SLICE = 256
"""Evaluations of the first slice; later ones go by the time that it took."""


def stepdirect(
    fun: Callable[..., Any] | Ensemble,
    bounds: Any,
    *,
    max_evals: int = 2000,
    weights: Any = None,
    settings: StepDirectSettings | None = None,
    rng: Any = None,
    callback: Callable[[Progress], Any] | None = None,
    vectorized: bool = False,
    workers: Any = 1,
    time_limit: float | None = None,
) -> SearchResult:
    """Minimise a function over a box without derivatives; made for functions with steps.

    The search evaluates points, nothing else. It is StepDIRECT (Phan, Liu and Nguyen), by default
    with most evaluations spent around the best point; see `StepDirectSettings`.

    Parameters
    ----------
    fun : callable or Ensemble
        ``fun(x)`` returns the value at a vector. An `Ensemble` is minimised without a call of
        Python per evaluation, and gives the very points that ``ensemble.predict`` would.
    bounds : sequence of pairs, scipy Bounds, mapping or data
        ``(low, high)`` for each coordinate; where they are equal, the coordinate is fixed. For an
        ensemble also a mapping from names or numbers to pairs, or its training data, whose range is
        taken.
    max_evals : int
        The search ends after so many evaluations, m_max in the paper.
    weights : array-like of shape (p,)
        Relative importance w of the coordinates: those with more are divided and moved more often.
        By default an ensemble's importances, otherwise uniform. Fixed coordinates do not count; if
        all others are zero they are uniform.
    settings : StepDirectSettings
        How to search; `StepDirectSettings.paper()` is the published algorithm.
    rng : int or numpy.random.Generator
        Seed. The same seed gives the same points.
    callback : callable
        Called after every batch of evaluations with a `Progress`: ``x``, ``fun``, ``nfev``,
        ``nfailed``, ``nit`` and ``time``. If it raises StopIteration the search ends.
    vectorized : bool
        Whether ``fun`` takes a matrix of points, one per row, and returns their values.
    workers : int or map-like callable
        Number of processes that evaluate a batch (-1: one per processor), or a function to use like
        ``map``. Batches of the refinement are then as large; other batches are larger anyway.
    time_limit : float
        Seconds after which the search ends; a call of ``fun`` is not cut short.

    Returns
    -------
    SearchResult
        ``x``, ``fun``, ``nfev``, all ``points`` and ``values``, and more. ``success`` is False if
        the time limit, the callback or Ctrl-C ended the search, or if every evaluation failed.

    Notes
    -----
    An evaluation fails if ``fun`` raises an exception or returns NaN or an infinity. It counts
    towards ``max_evals`` and is never the result; to choose rectangles it counts as the worst value
    seen. The first exception is shown as a warning.

    Examples
    --------
    >>> import numpy as np, treeopt
    >>> res = treeopt.stepdirect(lambda x: np.floor(9 * np.abs(x)).sum(), [(-2, 1)] * 3, rng=0)
    >>> res.fun, res.nfev, res.success
    (0.0, 2000, True)
    """
    ensemble = fun if isinstance(fun, Ensemble) else None
    if ensemble is None and not callable(fun):
        raise InputError(
            f"fun is {type(fun).__name__}, which is no function. Pass treeopt.from_model(model) to "
            "minimise a model's prediction."
        )
    whole = isinstance(max_evals, int | np.integer) and not isinstance(max_evals, bool)
    if not whole or not 0 < max_evals < 2**62:
        raise InputError(f"max_evals is {max_evals!r}. Pass a whole number above 0.")
    number = isinstance(time_limit, int | float | np.integer | np.floating)
    if time_limit is not None and not (number and time_limit > 0):
        raise InputError(f"time_limit is {time_limit!r}. Pass a number of seconds above 0.")
    if callback is not None and not callable(callback):
        raise InputError(f"callback is {callback!r}, which is no function. Pass one, or None.")
    settings = StepDirectSettings() if settings is None else settings
    if not isinstance(settings, StepDirectSettings):
        raise InputError(f"settings is {settings!r}. Pass StepDirectSettings, or None.")
    try:
        seed = int(np.random.default_rng(rng).integers(2**63))
    except (TypeError, ValueError) as error:
        raise InputError(f"rng is {rng!r}: {error}. Pass a whole number or a Generator.") from None
    box = read_bounds(bounds, ensemble)
    if weights is None and ensemble is not None:
        weights = ensemble.importances
    weight = settings.weights_for(read_weights(weights, box))
    search = Search(box, weight, settings, seed, int(max_evals), time_limit, callback)
    if ensemble is not None:
        if workers != 1:
            raise InputError(f"workers is {workers!r}, but an Ensemble needs none. Leave it out.")
        search.on_ensemble(ensemble)
        return search.result()
    caller, n_workers = make_caller(cast(Any, fun), search.clock, vectorized, workers)
    with caller:
        search.on_function(caller, n_workers)
    return search.result(caller.error)


def read_weights(weights: Any, box: Box) -> Array:
    """Return the weights of the free coordinates."""
    n = box.lower.size
    if weights is None:
        return np.ones(box.free.size)
    try:
        array = np.array(weights, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"weights is {weights!r}. Pass one number per coordinate.") from None
    if array.shape != (n,):
        raise InputError(f"weights has shape {array.shape}. Pass one number for each of {n}.")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise InputError(
            f"weights[{bad[0]}] is {array[bad[0]]}. Pass finite numbers of at least 0."
        )
    return array[box.free]


class Search:
    """One run: its state, its limits, and why it ended."""

    def __init__(
        self,
        box: Box,
        weight: Array,
        settings: StepDirectSettings,
        seed: int,
        max_evals: int,
        time_limit: float | None,
        callback: Callable[[Progress], Any] | None,
    ) -> None:
        self.clock = Clock(time_limit)
        self.box, self.free, self.weight, self.settings = box, box.free, weight, settings
        self.max_evals, self.callback = max_evals, callback
        self.state = new_state(weight, seed)
        self.nfev = 0
        self.ends: list[tuple[int, float]] = []
        self.status = Status.EVAL_LIMIT
        self.message = f"all {max_evals} evaluations are used up"

    def on_function(self, caller: Caller, n_workers: int) -> None:
        """Run on a Python function."""
        from treeopt.stepdirect.algorithm import advance, record

        rules = self.rules(n_workers)

        def step() -> None:
            if self.nfev:
                self.clock.check()
            n = int(advance(self.state, rules)) if self.free.size else 1 - self.nfev
            if n <= 0:
                self.make_room(-n)
                return
            n = min(n, self.max_evals - self.nfev)
            try:
                caller(self.points(self.nfev, self.nfev + n))
            finally:
                values = caller.values[: caller.made]
                record(values, self.state.counter, self.state.sample)
                self.count(self.nfev + values.size)
            self.report()

        self.repeat(step)

    def on_ensemble(self, ensemble: Ensemble) -> None:
        """Run on a compiled ensemble, slice by slice."""
        from treeopt.stepdirect.compiled import run_masks, run_walk

        if not self.free.size:
            caller = VectorizedCaller(ensemble.predict, self.clock)
            return self.on_function(caller, 1)
        ensemble.predict(np.stack(self.box))  # refuses what the model's library refuses
        rules = self.rules(1)
        oracle = ensemble.compiled.oracle
        run = run_walk if ensemble.compiled.mask_dtype is None else run_masks
        link = ensemble.link.code(ensemble.value.dtype)
        box = (self.free, *self.box)
        size = FIRST_SLICE

        def step() -> None:
            nonlocal size
            if self.nfev:
                self.clock.check()
            ahead = size if self.callback is None else 1
            pause = min(self.nfev + ahead, self.max_evals)
            begin, before = self.clock.time(), self.nfev
            n = int(run(self.state, rules, box, oracle, link, self.max_evals, pause))
            if n > before:
                self.count(n)
                self.report()
            if self.state.counter[ANSWER] <= 0:
                self.make_room(-int(self.state.counter[ANSWER]))
            rate = (n - before) / (self.clock.time() - begin)
            size = int(min(max(rate * SLICE, 1), 2 * size))

        self.repeat(step)

    def rules(self, batch: int) -> Rules:
        """Return the settings as the kernels read them."""
        rules = self.settings.rules_for(self.weight, batch)
        return rules._replace(batch=min(rules.batch, self.max_evals))

    def repeat(self, step: Callable[[], None]) -> None:
        """Take steps until the evaluations are used up or something stops them."""
        try:
            while self.nfev < self.max_evals:
                step()
        except Stopped as stop:
            self.status, self.message = stop.status, stop.message
        except KeyboardInterrupt:
            self.status, self.message = Status.STOPPED, "interrupted from the keyboard"

    def make_room(self, room: int) -> None:
        """Grow the state for so many samples; if 0 there is nothing left to do."""
        if room == 0:
            what = "no rectangle can be divided any more" if self.free.size else _NO_CHOICE
            raise Stopped(Status.EXHAUSTED, what)
        self.state = grown(self.state, room)

    def count(self, nfev: int) -> None:
        """Note that so many evaluations are made by now."""
        self.nfev = nfev
        self.ends.append((nfev, self.clock.time()))

    def points(self, first: int, last: int) -> Array:
        """Return samples of the unit cube as points of the box."""
        from treeopt.stepdirect.compiled import points_of

        points: Array = points_of(self.state.u[first:last], self.free, *self.box)
        return points

    def progress(self) -> Progress:
        """Return where the search stands."""
        best = int(self.state.counter[BEST])
        found = best != NONE
        return Progress(
            x=self.points(best, best + 1)[0] if found else self.box.lower * np.nan,
            fun=float(self.state.sample["f"][best]) if found else np.nan,
            nfev=self.nfev,
            nfailed=int(self.state.counter[FAILED]),
            nit=int(self.state.counter[ITERATION]),
            time=self.clock.time(),
        )

    def report(self) -> None:
        """Tell the callback, if there is one."""
        if self.callback is not None:
            try:
                self.callback(self.progress())
            except StopIteration as stop:
                why = f": {stop}" if str(stop) else ""
                raise Stopped(Status.STOPPED, f"stopped by the callback{why}") from None

    def result(self, error: str | None = None) -> SearchResult:
        """Return the result; ``error`` is the first exception of the function, if any."""
        values = self.state.sample["f"][: self.nfev].copy()
        values[np.isinf(values)] = np.nan
        message = self.message
        found = self.state.counter[BEST] != NONE
        if not found:
            message += "; every evaluation failed" + (f", the first with {error}" if error else "")
        ended = self.status in (Status.EVAL_LIMIT, Status.EXHAUSTED)
        return SearchResult(
            **vars(self.progress()),
            success=ended and bool(found),
            status=self.status,
            message=message,
            points=self.points(0, self.nfev),
            values=values,
            history=improvements(values, self.ends),
        )


_NO_CHOICE = "every coordinate is fixed"
