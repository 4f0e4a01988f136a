"""Limits that end a search from outside: the time limit, the callback and Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import numpy as np

from treeopt.run.status import Status, Stopped
from treeopt.types import IntArray

POLL_INTERVAL = 0.02
"""Seconds between two checks of the limits during long steps."""


class _Inside:
    """The context of `Limits.interruptible`; a generator would take five times as long."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def __enter__(self) -> None:
        self.limits.inside = True

    def __exit__(self, *_: object) -> None:
        self.limits.inside = False


class Limits:
    """The time limit of a search, and Ctrl-C.

    Within the context, Ctrl-C interrupts only the user's own code at once. Otherwise it is noted
    and takes effect between two evaluations, so that no evaluation is lost or counted twice.
    Pressing it a second time raises KeyboardInterrupt at once. The context is reentrant.

    Attributes
    ----------
    interrupted, interrupted_twice : bool
        Whether Ctrl-C was pressed, and whether it was pressed again.
    flag : int64 array
        One number; nonzero if the search must end. Compiled code checks it.
    watched : bool
        Whether `call` uses a thread.
    poll : callable or None
        Reports the progress, and returns whether the search must end. Called every 20 ms during
        long steps. If None, `is_over` is called. Reset on exit, so that the search can be freed.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.begin = self.end = time.perf_counter()
        self.running = self.inside = self.interrupted = self.interrupted_twice = False
        self.depth = 0
        self.handler: Any = None
        self.flag: IntArray = np.zeros(1, np.int64)
        self.watched = False
        self.poll: Callable[[], bool] | None = None
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Limits:
        self.depth += 1
        if self.depth > 1:
            return self
        self.begin = time.perf_counter()
        self.running = True
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.handler = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if self.depth > 0:
            return
        self.finish()
        self.poll = None
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        if self.handler is not None:
            signal.signal(signal.SIGINT, self.handler)
            self.handler = None

    def finish(self) -> None:
        """Stop the clock: the search has ended, and its result is being built."""
        if self.running:
            self.end = time.perf_counter()
            self.running = False

    def _on_interrupt(self, *_: object) -> None:
        if self.inside:
            raise KeyboardInterrupt
        if self.interrupted:
            self.interrupted_twice = True
            raise KeyboardInterrupt
        self.interrupted = True

    def interruptible(self) -> _Inside:
        """Return a context for the user's code, which Ctrl-C interrupts at once."""
        return _Inside(self)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause the clock, for instance while kernels are compiled."""
        before = time.perf_counter()
        try:
            yield
        finally:
            self.begin += time.perf_counter() - before

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call compiled code that checks the flag, and return its result.

        If the search is watched, the code runs in a thread, while this thread handles limits,
        signals and the callback. The flag is set as soon as the search must end.
        """
        if not self.watched:
            return function(*arguments)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="treeopt")
        future = self._pool.submit(function, *arguments)
        self.wait_for([future])
        return future.result()

    def wait_for(self, futures: list[Future[Any]]) -> None:
        """Wait until all are done; set the flag as soon as the search must end."""
        try:
            while wait(futures, POLL_INTERVAL).not_done:
                if (self.poll or self.is_over)():
                    self.flag[0] = 1
        except BaseException:
            self.flag[0] = 1
            wait(futures)
            raise

    def time(self) -> float:
        """Return the seconds since the search began."""
        return (time.perf_counter() if self.running else self.end) - self.begin

    def is_over(self) -> bool:
        """Return whether the time limit is reached or Ctrl-C was pressed."""
        out_of_time = self.seconds is not None and self.time() >= self.seconds
        return self.interrupted or out_of_time or bool(self.flag[0])

    def check(self) -> None:
        """Raise an exception if the time limit is reached or Ctrl-C was pressed."""
        over = self.is_over()
        # Checked last, because Ctrl-C may be pressed at any moment.
        if self.interrupted:
            raise KeyboardInterrupt
        if over:
            message = f"the time limit of {self.seconds:g} s is reached"
            raise Stopped(Status.TIME_LIMIT, message)

    def check_long(self) -> None:
        """Do the same if the search is watched. Otherwise the next step is short."""
        if self.watched:
            self.check()
