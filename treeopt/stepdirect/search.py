"""One run of StepDIRECT, on a Python function or on a compiled ensemble."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.result.search_result import SearchResult
from treeopt.run.limits import Limits
from treeopt.run.progress import Progress, improvements
from treeopt.run.status import Status, Stopped
from treeopt.stepdirect.evaluation import Caller, VectorizedCaller
from treeopt.stepdirect.paper.rules import Rules
from treeopt.stepdirect.paper.state import ANSWER, BEST, FAILED, ITERATION, NONE, grown, new_state
from treeopt.stepdirect.settings import StepDirectSettings

if TYPE_CHECKING:
    from treeopt.model.ensemble import Ensemble
    from treeopt.problem.bounds import Box
    from treeopt.types import Array

SLICE = 0.02
"""Seconds that a compiled run goes on before signals, limits and the callback are looked at."""

FIRST_SLICE = 256
"""Evaluations of the first slice; later ones go by the time that it took."""

FIRST_STEPS = 2_000_000
"""Splits, at most, that the first slice passes: of a large model it has fewer evaluations."""


def rows_at_once(ensemble: Ensemble) -> int:
    """Return how many points an ensemble may predict between two looks at the limits."""
    steps = ensemble.n_trees * max(ensemble.compiled.depth, 1)
    return int(min(max(FIRST_STEPS // steps, 1), FIRST_SLICE))


class Search:
    """The state of a run, its limits, and why it ended."""

    def __init__(
        self,
        box: Box,
        weight: Array,
        settings: StepDirectSettings,
        seed: int,
        max_evals: int,
        limits: Limits,
        callback: Callable[[Progress], Any] | None,
    ) -> None:
        self.box, self.free, self.weight, self.settings = box, box.free, weight, settings
        self.max_evals, self.limits, self.callback = max_evals, limits, callback
        self.state = new_state(weight, seed)
        self.nfev = 0
        self.ends: list[tuple[int, float]] = []
        self.status = Status.EVAL_LIMIT
        self.message = f"all {max_evals} evaluations are used up"

    def on_function(self, caller: Caller, n_workers: int) -> None:
        """Run on a Python function."""
        from treeopt.stepdirect.paper.algorithm import advance, record

        rules = self.rules(n_workers)
        with self.limits.pause():  # compiles
            if self.free.size:
                advance(new_state(self.weight, 0), rules)
            record(np.empty(0), self.state.counter, self.state.sample)
            self.points(0, 0)

        def step() -> None:
            n = int(advance(self.state, rules)) if self.free.size else 1 - self.nfev
            if n <= 0:
                self.make_room(-n)
                return
            X = self.points(self.nfev, self.nfev + min(n, self.max_evals - self.nfev))
            caller.made = 0
            try:
                caller(X)
            finally:
                record(caller.values[: caller.made], self.state.counter, self.state.sample)
                self.count(self.nfev + caller.made)
            self.report()

        self.repeat(step)

    def on_ensemble(self, ensemble: Ensemble) -> None:
        """Run on a compiled ensemble, slice by slice."""
        from treeopt.stepdirect.on_ensemble import run_masks, run_walk

        compiled = ensemble.compiled
        with self.limits.pause():  # the conversion of the model
            if self.free.size:
                ensemble.predict(np.stack(self.box))  # refuses what the model's library refuses
            size = rows_at_once(ensemble)
        long_batches = size < FIRST_SLICE and 2 * self.free.size + 1 > 8 * size
        if not self.free.size or ensemble.link.by_numpy or long_batches:
            caller = VectorizedCaller(ensemble.predict, self.limits)
            caller.at_once = size
            return self.on_function(caller, 1)
        rules = self.rules(1)
        run = run_walk if compiled.mask_dtype is None else run_masks
        link = ensemble.link.code(ensemble.value.dtype)
        model = ((self.free, *self.box), compiled.oracle, link)
        with self.limits.pause():
            run(new_state(self.weight, 0), rules, *model, 1, 1)  # compiles

        def step() -> None:
            nonlocal size
            ahead = size if self.callback is None else 1
            pause = min(self.nfev + ahead, self.max_evals)
            begin, before = self.limits.time(), self.nfev
            n = int(run(self.state, rules, *model, self.max_evals, pause))
            if n > before:
                rate = (n - before) / (self.limits.time() - begin)
                size = int(min(max(rate * SLICE, 1), 2 * size))
                self.count(n)
                self.report()
            if self.state.counter[ANSWER] <= 0:
                self.make_room(-int(self.state.counter[ANSWER]))

        self.repeat(step)

    def rules(self, batch: int) -> Rules:
        """Return the settings as the kernels read them."""
        rules = self.settings.rules_for(self.weight, batch, self.max_evals)
        return rules._replace(batch=min(rules.batch, self.max_evals))

    def repeat(self, step: Callable[[], None]) -> None:
        """Take steps until the evaluations are used up or something stops them."""
        with self.limits:
            try:
                while self.nfev < self.max_evals:
                    if self.nfev:
                        self.limits.check()
                    step()
            except Stopped as stop:
                self.status, self.message = stop.status, stop.message
            except KeyboardInterrupt:
                if self.limits.insisted:
                    raise
                self.status, self.message = Status.STOPPED, "interrupted from the keyboard"
            except MemoryError:
                self.status, self.message = Status.STOPPED, "memory ran out"

    def make_room(self, room: int) -> None:
        """Grow the state for so many samples; if 0 there is nothing left to do."""
        if room == 0:
            some = "no rectangle can be divided any more"
            raise Stopped(Status.EXHAUSTED, some if self.free.size else "every coordinate is fixed")
        self.state = grown(self.state, room, self.limits.check if self.nfev else lambda: None)

    def count(self, nfev: int) -> None:
        """Note that so many evaluations are made by now."""
        self.nfev = nfev
        self.ends.append((nfev, self.limits.time()))

    def points(self, first: int, last: int) -> Array:
        """Return samples of the unit cube as points of the box."""
        from treeopt.stepdirect.on_ensemble import points_of

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
            time=self.limits.time(),
        )

    def report(self) -> None:
        """Tell the callback, if there is one."""
        if self.callback is None:
            return
        progress = self.progress()
        try:
            with self.limits.interruptible():
                self.callback(progress)
        except StopIteration as stop:
            why = f": {stop}" if str(stop) else ""
            raise Stopped(Status.STOPPED, f"stopped by the callback{why}") from None

    def result(self, error: str | None = None, with_points: bool = True) -> SearchResult:
        """Return the result, with or without all points that were evaluated.

        ``error`` is the first exception of the function, if any.
        """
        values = self.state.sample["f"][: self.nfev].copy()
        values[np.isinf(values)] = np.nan
        message = self.message
        found = bool(self.state.counter[BEST] != NONE)
        if not found:
            message += "; every evaluation failed" + (f", the first with {error}" if error else "")
        ended = self.status in (Status.EVAL_LIMIT, Status.EXHAUSTED)
        return SearchResult(
            **vars(self.progress()),
            success=ended and found,
            status=self.status,
            message=message,
            points=self.points(0, self.nfev if with_points else 0),
            values=values,
            history=improvements(values, self.ends),
        )
