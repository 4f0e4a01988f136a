"""`Run`: the options, limits, reports and history of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from treeopt.run.limits import Limits
from treeopt.run.progress import ProgressLine, gap_between
from treeopt.run.status import Status, Stopped

UNLIMITED = 2**62
"""Maximum number of evaluations of a run without a limit."""


@dataclass(eq=False)
class Run:
    """One run of a method, for decisions and searches.

    Attributes
    ----------
    limits : Limits
        The time limit and Ctrl-C.
    max_evals : int
        Maximum number of evaluations.
    gap : float
        The run ends as soon as the distance of value and bound is at most this; 0 to prove the
        optimum.
    callback : callable or None
        Called with the progress of the run. It raises StopIteration to end the run.
    line : ProgressLine
        The line on standard error.
    seed : int
        Seed of all random numbers.
    n_jobs : int
        Number of threads.
    start : point, matrix of points, or None
        Starting points of the user.
    history : list of (nfev, time, fun, bound)
        The improvements.
    status, message : Status and str
        Reason for the end of the run; set by `until_stopped`.
    """

    limits: Limits
    max_evals: int = UNLIMITED
    gap: float = 0.0
    callback: Callable[[Any], Any] | None = None
    line: ProgressLine = field(default_factory=lambda: ProgressLine(False))
    seed: int = 0
    n_jobs: int = 1
    start: Any = None
    history: list[tuple[int, float, float, float]] = field(default_factory=list)
    status: Status = Status.EVAL_LIMIT
    message: str = ""

    @contextmanager
    def until_stopped(self, release: Callable[[], None] | None = None) -> Iterator[None]:
        """Run a block, and record the reason if it ends early.

        Limits, callbacks, Ctrl-C and a lack of memory end the block without losing any results.
        Pressing Ctrl-C a second time raises KeyboardInterrupt.

        Parameters
        ----------
        release : callable
            Called if memory runs out, to free memory.
        """
        try:
            yield
        except Stopped as stop:
            self.status, self.message = stop.status, stop.message
        except KeyboardInterrupt:
            if self.limits.interrupted_twice:
                raise
            self.status, self.message = Status.STOPPED, "interrupted from the keyboard"
        except MemoryError:
            self.status, self.message = Status.STOPPED, "memory ran out"
            if release is not None:
                release()

    def report(
        self,
        fun: float,
        bound: float,
        nfev: int,
        nodes: int,
        progress: Callable[[], Any],
    ) -> None:
        """Update the history and the progress line, and call the callback.

        Parameters
        ----------
        fun, bound : float
            The best value and the bound; NaN if there is none.
        nfev, nodes : int
            Number of evaluations and of nodes so far.
        progress : callable
            Returns the argument of the callback; called only if there is a callback.
        """
        self.note(fun, bound, nfev)
        self.line.show(self.limits.time(), fun, bound, gap_between(fun, bound), nodes)
        self.call_back(progress)

    def call_back(self, progress: Callable[[], Any]) -> None:
        """Call the callback, if there is one; see `report`."""
        if self.callback is None:
            return
        now = progress()
        try:
            with self.limits.interruptible():
                self.callback(now)
        except StopIteration as stop:
            why = f": {stop}" if str(stop) else ""
            raise Stopped(Status.STOPPED, f"stopped by the callback{why}") from None

    def note(self, fun: float, bound: float, nfev: int) -> None:
        """Add a row to the history if the value or the bound has changed."""
        now = (nfev, self.limits.time(), fun, bound)
        if not self.history or repr(self.history[-1][2:]) != repr(now[2:]):
            self.history.append(now)

    def check(self, gap: float, nfev: int) -> None:
        """Raise `Stopped` if a limit is reached."""
        if self.gap and gap <= self.gap:
            raise Stopped(Status.GAP_REACHED, f"the gap of {self.gap:g} is reached")
        self.limits.check()
        if nfev >= self.max_evals:
            message = f"the limit of {self.max_evals} evaluations is reached"
            raise Stopped(Status.EVAL_LIMIT, message)

    def finish(self) -> None:
        """Stop the clock and finish the progress line."""
        self.limits.finish()
        self.line.close()

    def __enter__(self) -> Run:
        self.limits.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.limits.__exit__(*exception)
