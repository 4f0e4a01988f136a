"""Calling the user's function: point by point, in batches, or on several workers.

A failed evaluation, one that raises or returns no finite number, has the value NaN and is counted.
The first exception is shown as a warning.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from treeopt.errors import InputError, shown
from treeopt.run.limits import Limits
from treeopt.run.status import Status, Stopped
from treeopt.types import Point, Points

Outcome: TypeAlias = tuple[float, str | None]
"""The value of a point, and what went wrong, if anything did."""

_HINT = (
    " If fun takes a matrix of points, pass vectorized=True; to minimize a model's prediction, "
    "pass treeopt.from_model(model)."
)


class Guarded:
    """The user's function of one point; an exception becomes a failed evaluation.

    It can be sent to another process if the function can.
    """

    def __init__(self, fun: Callable[..., object]) -> None:
        self.fun = fun
        self.calls: list[None] = []  # one entry for each call in this process

    def __call__(self, x: Point) -> Outcome:
        """Evaluate one point."""
        self.calls.append(None)
        try:
            value = np.asarray(self.fun(x))
            if value.size != 1 or value.dtype == object:
                raise InputError(f"fun returned {value!r}. Return one number.")
            return float(value.item()), None
        except Exception as error:
            return np.nan, f"{type(error).__name__}: {error}"


class Caller:
    """Evaluates batches of points one by one, and keeps count if interrupted.

    Attributes
    ----------
    values : array
        Values of the current batch.
    made : int
        Number of evaluations of the current batch that were begun.
    error : str or None
        The first exception of the function.
    """

    at_once = 1
    """Number of points that are evaluated between two checks of the limits."""

    def __init__(self, fun: Callable[..., object], limits: Limits) -> None:
        self.fun = fun
        self.limits = limits
        self.values = np.empty(0)
        self.made = 0
        self.begun = False
        self.error: str | None = None

    def __call__(self, points: Points) -> None:
        """Evaluate the points."""
        self.made = 0
        self.values = np.full(len(points), np.nan)
        for first in range(0, len(points), self.at_once):
            if first:
                self.limits.check()
            some = points[first : first + self.at_once]
            errors = self.evaluate(first, _copied(some))
            if self.error is None and any(errors):
                self.warn(some, errors)
            self.begun = True

    def warn(self, points: Points, errors: list[str | None]) -> None:
        """Show the first exception of the function as a warning."""
        x, error = next(pair for pair in zip(points, errors, strict=False) if pair[1])
        self.error = error
        warnings.warn(
            f"fun failed at {point_text(x)} with {str(error).rstrip('.')}. Failed evaluations are "
            f"counted, and the search goes on.{'' if self.begun else _HINT}",
            RuntimeWarning,
            stacklevel=_stack_depth(),
        )

    def evaluate(self, first: int, points: Points) -> list[str | None]:
        """Fill `values` from ``first`` on; return what went wrong at the points."""
        guarded = Guarded(self.fun)
        with self.limits.interruptible():
            self.made = first + 1
            self.values[first], error = guarded(points[0])
        return [error]

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class VectorizedCaller(Caller):
    """Passes a whole batch to the function: a matrix with one point per row, or a list."""

    at_once = 1024

    def evaluate(self, first: int, points: Points) -> list[str | None]:
        """Fill `values` with what the function returns for all points."""
        n = len(points)
        try:
            with self.limits.interruptible():
                self.made = first + n
                values = np.asarray(self.fun(points), np.float64)
            if values.shape != (n,):
                raise InputError(
                    f"fun returned an array of shape {values.shape} for {n} points. With "
                    "vectorized=True it gets all points at once; return one value for each."
                )
            self.values[first : first + n] = values
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
        return []


class MapCaller(Caller):
    """Passes the points of a batch to a function like ``map``."""

    def __init__(
        self,
        fun: Callable[..., object],
        limits: Limits,
        map_like: Callable[..., Iterable[Outcome]],
        n_workers: int,
    ) -> None:
        super().__init__(fun, limits)
        self.map_like = map_like
        self.at_once = 16 * n_workers

    def evaluate(self, first: int, points: Points) -> list[str | None]:
        """Fill `values` with the results, which must come in the order of the points."""
        guarded, n = Guarded(self.fun), len(points)
        results: list[Outcome] = []
        try:
            with self.limits.interruptible():
                for result in self.map_like(guarded, list(points)):
                    results.append(result)
        except InputError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise Stopped(Status.STOPPED, f"the workers failed with {why}") from error
        finally:
            # Calls in other processes are not known: then all count.
            self.made = first + min(len(guarded.calls) or n, n)
            for k, (value, _) in enumerate(results[:n]):
                self.values[first + k] = value
        if len(results) != n:
            raise InputError(
                f"workers returned {len(results)} results for {n} points. Pass a function like "
                "map, which returns one for each, in order."
            )
        return [error for _, error in results]


class PoolCaller(MapCaller):
    """Passes the points of a batch to other processes, by joblib, which scikit-learn needs too.

    Its processes are not forked: after a library has used threads here, a fork could hang. They
    share the processors among them.
    """

    def __init__(self, fun: Callable[..., object], limits: Limits, n: int) -> None:
        from joblib import Parallel

        self.pool = Parallel(n_jobs=n, backend="loky")
        super().__init__(fun, limits, self.send, n)

    def send(self, function: Callable[..., Outcome], points: list[Point]) -> Iterable[Outcome]:
        """Evaluate the points in the other processes."""
        from joblib import delayed

        try:
            results: Iterable[Outcome] = self.pool(delayed(function)(x) for x in points)
        except pickle.PicklingError as error:
            raise InputError(
                f"workers is {self.pool.n_jobs}, but fun cannot be sent to another process "
                f"({error.__cause__ or error}). Define it without open files, locks and the like, "
                "or pass workers=ThreadPoolExecutor().map."
            ) from None
        return results

    def __enter__(self) -> Caller:
        self.pool.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.pool.__exit__(*exception)


def make_caller(
    fun: Callable[..., object], limits: Limits, vectorized: bool, workers: object
) -> tuple[Caller, int]:
    """Return the way to call ``fun``, and the number of points it can use at a time."""
    if callable(workers):
        if vectorized:
            raise InputError("vectorized is True and workers a function: pass one of the two.")
        n = os.cpu_count() or 1
        return MapCaller(fun, limits, workers, n), n
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer) or workers == 0:
        raise InputError(f"workers is {workers!r}. Pass a number, -1 for all, or a map function.")
    n = int(workers) if workers > 0 else (os.cpu_count() or 1)
    if n > 1 and vectorized:
        raise InputError(f"vectorized is True and workers is {workers}: pass one of the two.")
    if vectorized:
        return VectorizedCaller(fun, limits), 1
    return (PoolCaller(fun, limits, n), n) if n > 1 else (Caller(fun, limits), 1)


def point_text(x: Point) -> str:
    """Return a point for messages."""
    if isinstance(x, dict):
        return shown(x)
    return np.array2string(x, precision=6, separator=", ", threshold=20)


def _copied(points: Points) -> Points:
    """Return points that the user's function may change."""
    return [dict(point) for point in points] if isinstance(points, list) else points.copy()


def _stack_depth() -> int:
    """Return the stack level of the first frame outside treeopt, for warnings."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("treeopt."):
        frame = frame.f_back
        depth += 1
    return depth
