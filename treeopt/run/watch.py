"""Looking at the limits in the middle of long steps, and running steps on several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from time import perf_counter
from typing import Any

from treeopt.run.limits import LOOK_EVERY, Limits


class Watch:
    """Checks the limits, and reports, in the middle of long steps.

    What ends the run is kept until the step is left. Only the thread that made it reports.
    """

    def __init__(self, check: Callable[[], None], limits: Limits) -> None:
        self._check, self._limits = check, limits
        self._thread, self._last = get_ident(), perf_counter()
        self._ended: BaseException | None = None
        limits.look = self.is_over

    def is_over(self) -> bool:
        """Tell whether the run has to end."""
        waited = perf_counter() - self._last >= LOOK_EVERY
        if self._ended is None and waited and get_ident() == self._thread:
            self._last = perf_counter()
            try:
                self._check()
            except BaseException as end:
                self._ended = end
        return self._ended is not None or self._limits.is_over()

    def end_if_told(self) -> None:
        """Raise what ends the run, if compiled code was told to end."""
        if self._limits.flag[0]:
            self.check()
            self._limits.check()

    def check(self) -> None:
        """Raise what ends the run."""
        if self._ended is not None:
            ended, self._ended = self._ended, None
            try:
                raise ended
            finally:
                del ended  # or it holds itself, and all arrays of the search, for a while
        self._last = perf_counter()
        self._check()


class Threads:
    """Runs a function for several items, on threads if there is more than one.

    Meanwhile limits, signals and the callback get a look.
    """

    def __init__(self, n: int, limits: Limits | None = None) -> None:
        self.pool = ThreadPoolExecutor(n, thread_name_prefix="treeopt") if n > 1 else None
        self.limits = Limits(None) if limits is None else limits

    def run(self, function: Callable[..., Any], items: Iterable[Any], *rest: Any) -> list[Any]:
        """Return what the function returns for each item and the rest."""
        if self.pool is None:
            return [self.limits.call(function, item, *rest) for item in items]
        futures = [self.pool.submit(function, item, *rest) for item in items]
        self.limits.wait_for(futures)
        return [future.result() for future in futures]

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown()
