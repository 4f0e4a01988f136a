"""What ends a search from outside: a time limit, a callback, Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from treeopt.result import Status


class Stopped(Exception):
    """The search ends before its evaluations are used up."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Limits:
    """What ends a search from outside: its time limit, and Ctrl-C.

    While it is entered, Ctrl-C interrupts only the user's own code; between two evaluations it is
    noted, so that no evaluation is lost or counted twice.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.begin = self.end = time.perf_counter()
        self.running = self.inside = self.interrupted = False
        self.handler: Any = None

    def __enter__(self) -> Limits:
        self.begin = time.perf_counter()
        self.running = True
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.handler = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self.handler is not None:
            signal.signal(signal.SIGINT, self.handler)
        self.end = time.perf_counter()
        self.running = False

    def _on_interrupt(self, *_: object) -> None:
        if self.inside:
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

    def time(self) -> float:
        """Return the seconds since the search began."""
        return (time.perf_counter() if self.running else self.end) - self.begin

    def is_over(self) -> bool:
        """Tell whether the time is over or Ctrl-C was pressed."""
        out_of_time = self.seconds is not None and self.time() >= self.seconds
        return self.interrupted or out_of_time

    def check(self) -> None:
        """Stop the search if its time is over or Ctrl-C was pressed."""
        if self.interrupted:
            raise KeyboardInterrupt
        if self.is_over():
            message = f"the time limit of {self.seconds:g} s is reached"
            raise Stopped(Status.TIME_LIMIT, message)
