"""The progress of a run: arguments of callbacks, the progress line, and the history."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.types import FloatArray

HISTORY = np.dtype([("nfev", np.int64), ("time", np.float64), ("fun", np.float64)])
"""An improvement: number of evaluations, seconds, and the new best value."""

BOUND_HISTORY = np.dtype([*HISTORY.descr, ("bound", np.float64)])
"""The same for a run that also has a bound."""

UPDATE_INTERVAL = 0.2
"""Minimum number of seconds between two updates of the progress line."""


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a search, passed to the callback; see `SearchResult` for the attributes."""

    x: Any
    fun: float
    nfev: int
    nfailed: int
    nit: int
    time: float


@dataclass(frozen=True, eq=False)
class DecisionProgress:
    """The state of a decision, passed to the callback; see `Decision` for the attributes."""

    x: Any
    fun: float
    bound: float
    gap: float
    nfev: int
    nodes: int
    time: float


class ProgressLine:
    """A line on standard error that shows the progress of a run."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown
        self._width, self._last = 0, -np.inf

    def show(self, time: float, fun: float, bound: float, gap: float, nodes: int) -> None:
        """Update the line, at most five times per second."""
        if not self.shown or time < self._last + UPDATE_INTERVAL:
            return
        self._last = time
        proof = "" if np.isnan(bound) else f", bound {bound:.6g}, gap {gap:.3g}, {nodes} nodes"
        line = f"treeopt: {time:.1f} s, best {fun:.6g}{proof}"
        print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(line)

    def close(self) -> None:
        """End the line."""
        if self._width:
            print(file=sys.stderr)
            self._width = 0


def gap_between(fun: float, bound: float) -> float:
    """Return the distance between a value and its bound; 0 if both are the same infinity."""
    return 0.0 if fun == bound else abs(fun - bound)


def improvements(values: FloatArray, ends: list[tuple[int, float]]) -> Any:
    """Return the history of a search from all its values.

    Parameters
    ----------
    values : array
        The value of each evaluation; NaN if it failed.
    ends : list of (int, float)
        Numbers of evaluations, in ascending order, and the times at which they were reached. The
        last entry is the total number.
    """
    lowest = np.fmin.accumulate(values)
    before = np.append(np.nan, lowest)[:-1]
    at = np.flatnonzero((lowest < before) | (np.isnan(before) & ~np.isnan(lowest)))
    history = np.empty(at.size, HISTORY)
    history["nfev"] = at + 1
    history["fun"] = lowest[at]
    counts = np.array([count for count, _ in ends])
    times = np.array([time for _, time in ends])
    history["time"] = times[np.searchsorted(counts, at + 1)] if at.size else 0.0
    return history
