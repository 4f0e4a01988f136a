"""Calling the user's function: point by point, a batch at once, or on several workers.

A failed evaluation, one that raises or gives no finite number, has the value NaN and is counted;
the first exception is shown as a warning.
"""

from __future__ import annotations

import os
import pickle
import time
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.errors import InputError
from treeopt.result import Status

if TYPE_CHECKING:
    from treeopt.ensemble import Array


class Stopped(Exception):
    """The search ends before its evaluations are used up."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Clock:
    """Tells how long a search has been running, and stops it when its time is over."""

    def __init__(self, limit: float | None) -> None:
        self.begin = time.perf_counter()
        self.limit = limit

    def time(self) -> float:
        """Return the seconds since the search began."""
        return time.perf_counter() - self.begin

    def check(self) -> None:
        """Stop the search if the time is over."""
        if self.limit is not None and self.time() >= self.limit:
            message = f"the time limit of {self.limit:g} s is reached"
            raise Stopped(Status.TIME_LIMIT, message)


class Guarded:
    """The user's function of one point; an exception becomes a failed evaluation.

    A call returns the value and what went wrong, if anything did. It can be sent to another
    process if the function can.
    """

    def __init__(self, fun: Callable[[Array], Any]) -> None:
        self.fun = fun
        self.calls = 0  # in this process

    def __call__(self, x: Array) -> tuple[float, str | None]:
        """Evaluate one point."""
        self.calls += 1
        try:
            value = np.asarray(self.fun(x))
            if value.size != 1 or value.dtype == object:
                raise InputError(f"fun returned {value!r}. Return one number.")
            return float(value.item()), None
        except Exception as error:
            return np.nan, f"{type(error).__name__}: {error}"


class Caller:
    """Evaluates batches of points, and remembers how far it came if it is interrupted.

    Attributes
    ----------
    values : array
        Values of the current batch.
    made : int
        How many evaluations of the current batch were begun.
    error : str or None
        The first exception of the function.
    """

    def __init__(self, fun: Callable[..., Any], clock: Clock) -> None:
        self.fun = fun
        self.clock = clock
        self.values = np.empty(0)
        self.made = 0
        self.error: str | None = None

    def __call__(self, X: Array) -> None:
        """Evaluate the rows of ``X``."""
        self.values = np.full(len(X), np.nan)
        self.made = 0
        self.evaluate(X)

    def evaluate(self, X: Array) -> None:
        """Fill `values` point by point."""
        guarded = Guarded(self.fun)
        for k, x in enumerate(X):
            if k > 0:
                self.clock.check()
            self.made = k + 1
            self.values[k], error = guarded(x.copy())
            self.note(error, x)

    def note(self, error: str | None, x: Array) -> None:
        """Keep the first exception and warn of it."""
        if error is not None and self.error is None:
            self.error = error
            warnings.warn(
                f"fun failed at {x.tolist()} with {error}. Failed evaluations are counted, and "
                "the search goes on.",
                RuntimeWarning,
                stacklevel=_stack_depth(),
            )

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class VectorizedCaller(Caller):
    """Gives the function a whole batch, one point per row."""

    def evaluate(self, X: Array) -> None:
        """Fill `values` with what the function returns for the matrix."""
        self.made = len(X)
        try:
            values = np.asarray(self.fun(X.copy()), np.float64)
            if values.shape != (len(X),):
                raise InputError(
                    f"fun returned an array of shape {values.shape} for {len(X)} points. With "
                    "vectorized=True it gets one point per row; return one value for each."
                )
            self.values[:] = values
        except Exception as error:
            self.note(f"{type(error).__name__}: {error}", X[0])


class MapCaller(Caller):
    """Gives the points of a batch to a function like ``map``."""

    def __init__(
        self, fun: Callable[..., Any], clock: Clock, map_like: Callable[..., Iterable[Any]]
    ) -> None:
        super().__init__(fun, clock)
        self.map_like = map_like

    def evaluate(self, X: Array) -> None:
        """Fill `values` with the results, which must come in the order of the points."""
        guarded = Guarded(self.fun)
        received = 0
        try:
            for value, error in self.map_like(guarded, list(X.copy())):
                received += 1
                if received <= len(X):
                    self.values[received - 1] = value
                    self.note(error, X[received - 1])
            if received != len(X):
                raise InputError(
                    f"workers returned {received} results for {len(X)} points. Pass a function "
                    "like map, which returns one for each, in order."
                )
        except InputError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise Stopped(Status.STOPPED, f"the workers failed with {why}") from error
        finally:
            self.made = self.made_of(len(X), max(received, guarded.calls))

    def made_of(self, asked: int, seen: int) -> int:
        """Return how many evaluations were begun, of which so many are seen in this process."""
        return min(asked, seen)


class PoolCaller(MapCaller):
    """Gives the points of a batch to other processes."""

    def __init__(self, fun: Callable[..., Any], clock: Clock, n: int) -> None:
        try:
            pickle.dumps(fun)
        except Exception as error:
            raise InputError(
                f"workers is {n}, but fun cannot be sent to another process ({error}). Define it "
                "at the top of a module, or pass workers=ThreadPoolExecutor().map."
            ) from None
        from concurrent.futures import ProcessPoolExecutor

        self.pool = ProcessPoolExecutor(n)
        super().__init__(fun, clock, self.pool.map)

    def made_of(self, asked: int, seen: int) -> int:
        """Return all of them: what other processes have begun cannot be told."""
        return asked

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)


def make_caller(
    fun: Callable[..., Any], clock: Clock, vectorized: bool, workers: Any
) -> tuple[Caller, int]:
    """Return the way to call ``fun``, and how many points at a time it can use."""
    if callable(workers):
        if vectorized:
            raise InputError("vectorized is True and workers a function: pass one of the two.")
        return MapCaller(fun, clock, workers), os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer) or workers == 0:
        raise InputError(f"workers is {workers!r}. Pass a number, -1 for all, or a map function.")
    n = int(workers) if workers > 0 else (os.cpu_count() or 1)
    if n > 1 and vectorized:
        raise InputError(f"vectorized is True and workers is {workers}: pass one of the two.")
    if vectorized:
        return VectorizedCaller(fun, clock), 1
    return (PoolCaller(fun, clock, n), n) if n > 1 else (Caller(fun, clock), 1)


def _stack_depth() -> int:
    """Return the stack level of the first frame outside treeopt, for warnings."""
    import sys

    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("treeopt."):
        frame = frame.f_back
        depth += 1
    return depth
