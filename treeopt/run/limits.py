"""What ends a search from outside: a time limit, a callback, Ctrl-C."""

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

LOOK_EVERY = 0.02
"""Seconds between two looks at the limits in the midst of long steps."""


class Limits:
    """What ends a search from outside: its time limit, and Ctrl-C.

    While it is entered, Ctrl-C interrupts only the user's own code; between two evaluations it is
    noted, so that no evaluation is lost or counted twice. Pressed a second time, it raises
    KeyboardInterrupt at once. It may be entered again while it is entered.

    Attributes
    ----------
    interrupted, insisted : bool
        Whether Ctrl-C was pressed, and whether it was pressed again.
    flag : int64 array
        One number, not 0 if the search has to end: compiled code looks at it.
    watched : bool
        Whether `call` uses a thread.
    look : callable or None
        Tells whether the search has to end, and reports; called every 20 ms in the midst of long
        steps. If None, `is_over` is. Forgotten at the end, and with it the search.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.begin = self.end = time.perf_counter()
        self.running = self.inside = self.interrupted = self.insisted = False
        self.depth = 0
        self.handler: Any = None
        self.flag: IntArray = np.zeros(1, np.int64)
        self.watched = False
        self.look: Callable[[], bool] | None = None
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
        self.look = None
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        if self.handler is not None:
            signal.signal(signal.SIGINT, self.handler)
            self.handler = None

    def finish(self) -> None:
        """Stop the clock for good: the search is over, and its result is put together."""
        if self.running:
            self.end = time.perf_counter()
            self.running = False

    def _on_interrupt(self, *_: object) -> None:
        if self.inside:
            raise KeyboardInterrupt
        if self.interrupted:
            self.insisted = True
            raise KeyboardInterrupt
        self.interrupted = True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Run code of the user: Ctrl-C takes effect at once."""
        self.inside = True
        try:
            yield
        finally:
            self.inside = False

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock, while kernels are compiled."""
        before = time.perf_counter()
        try:
            yield
        finally:
            self.begin += time.perf_counter() - before

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call compiled code that looks at the flag; return what it returns.

        If the search is watched, it runs in a thread, and meanwhile limits, signals and the
        callback get a look. As soon as the search has to end, the flag is set.
        """
        if not self.watched:
            return function(*arguments)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="treeopt")
        future = self._pool.submit(function, *arguments)
        self.wait_for([future])
        return future.result()

    def wait_for(self, futures: list[Future[Any]]) -> None:
        """Wait until all are done; set the flag as soon as the search has to end."""
        try:
            while wait(futures, LOOK_EVERY).not_done:
                if (self.look or self.is_over)():
                    self.flag[0] = 1
        except BaseException:
            self.flag[0] = 1
            wait(futures)
            raise

    def time(self) -> float:
        """Return the seconds since the search began."""
        return (time.perf_counter() if self.running else self.end) - self.begin

    def is_over(self) -> bool:
        """Tell whether the time is over or Ctrl-C was pressed."""
        out_of_time = self.seconds is not None and self.time() >= self.seconds
        return self.interrupted or out_of_time or bool(self.flag[0])

    def check(self) -> None:
        """Stop the search if its time is over or Ctrl-C was pressed."""
        over = self.is_over()
        # Looked at last: it may have been pressed a moment ago.
        if self.interrupted:
            raise KeyboardInterrupt
        if over:
            message = f"the time limit of {self.seconds:g} s is reached"
            raise Stopped(Status.TIME_LIMIT, message)

    def check_long(self) -> None:
        """Do the same if the search is watched; otherwise what follows is over soon anyway."""
        if self.watched:
            self.check()
