"""Check the limits during long steps, and run steps on several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from time import perf_counter
from typing import Any

from treeopt.run.limits import POLL_INTERVAL, Limits


class Watch:
    """Checks the limits and reports progress during long steps.

    An exception that ends the run is kept until the step returns. Only the thread that created the
    watch reports progress.
    """

    def __init__(self, check: Callable[[], None], limits: Limits) -> None:
        self._check, self._limits = check, limits
        self._thread, self._last = get_ident(), perf_counter()
        self._ended: BaseException | None = None
        limits.poll = self.is_over

    def is_over(self) -> bool:
        """Return whether the run must end."""
        waited = perf_counter() - self._last >= POLL_INTERVAL
        if self._ended is None and waited and get_ident() == self._thread:
            self._last = perf_counter()
            try:
                self._check()
            except BaseException as end:
                self._ended = end
        return self._ended is not None or self._limits.is_over()

    def raise_if_stopped(self) -> None:
        """Raise the exception that ends the run if the flag was set."""
        if self._limits.flag[0]:
            self.check()
            self._limits.check()

    def check(self) -> None:
        """Raise the exception that ends the run, if there is one."""
        if self._ended is not None:
            ended, self._ended = self._ended, None
            try:
                raise ended
            finally:
                del ended  # avoids a reference cycle that would keep the arrays of the search
        self._last = perf_counter()
        self._check()


class Threads:
    """Runs a function for several items, in threads if ``n`` is larger than 1.

    Limits, signals and the callback are handled meanwhile.
    """

    def __init__(self, n: int, limits: Limits | None = None) -> None:
        self.pool = ThreadPoolExecutor(n, thread_name_prefix="treeopt") if n > 1 else None
        self.limits = Limits(None) if limits is None else limits

    def run(self, function: Callable[..., Any], items: Iterable[Any], *rest: Any) -> list[Any]:
        """Return a list with the result of ``function(item, *rest)`` for each item."""
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
