"""The best value and the bound against time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.errors import InputError
from treeopt.result.decision import Decision
from treeopt.result.search_result import SearchResult
from treeopt.types import FloatArray

BLUE, ORANGE = "#0072B2", "#D55E00"
"""Colors that people with color blindness can tell apart (Okabe and Ito)."""


@dataclass(frozen=True, eq=False)
class Convergence:
    """What `plot_convergence` draws. Both curves are steps: a value holds until the next time.

    Attributes
    ----------
    time : float64 array
        Seconds since the run began; the last entry is the end of the run.
    fun : float64 array
        Best value so far; NaN before the first one.
    bound : float64 array
        Bound so far; NaN where there is none.
    """

    time: FloatArray
    fun: FloatArray
    bound: FloatArray


def convergence_of(result: Decision | SearchResult) -> Convergence:
    """Return what `plot_convergence` draws.

    Parameters
    ----------
    result : Decision or SearchResult
        The result of `minimize`, `maximize`, `stepdirect` or a method of `Problem`.

    Returns
    -------
    Convergence
    """
    if not isinstance(result, Decision | SearchResult):
        raise InputError(
            f"result is {type(result).__name__}. Pass the result of minimize, maximize or "
            "stepdirect."
        )
    history, n = result.history, len(result.history)
    fun, bound = np.full((2, n + 1), np.nan)
    time = np.full(n + 1, result.time)
    time[:n], fun[:n] = history["time"], history["fun"]
    if "bound" in (history.dtype.names or ()):
        bound[:n] = history["bound"]
    if n:
        fun[n], bound[n] = fun[n - 1], bound[n - 1]
    bound[np.isinf(bound)] = np.nan
    return Convergence(time, fun, bound)


def plot_convergence(result: Decision | SearchResult, ax: Any = None) -> Any:
    """Plot the best value and the bound against time; requires matplotlib.

    Parameters
    ----------
    result : Decision or SearchResult
        The result of `minimize`, `maximize`, `stepdirect` or a method of `Problem`.
    ax : matplotlib Axes, optional
        Where to draw. By default, a new figure of pyplot.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import treeopt
    >>> from treeopt.plots import plot_convergence
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0.0], [1.0], [3.0]], [2.0, 4.0, 3.0])
    >>> ax = plot_convergence(treeopt.maximize(model, [(0, 3)]))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('seconds', 'prediction')
    """
    drawn = convergence_of(result)
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError(
                "plots need matplotlib, which is not installed. Install treeopt[plots]."
            ) from None
        ax = pyplot.figure(layout="constrained").subplots()
    marks = {"where": "post", "marker": ".", "markevery": slice(0, -1)}
    ax.step(drawn.time, drawn.fun, color=BLUE, label="best found", **marks)
    if not np.isnan(drawn.bound).all():
        ax.step(drawn.time, drawn.bound, color=ORANGE, linestyle="--", label="bound", **marks)
    ax.set_xlim(left=0)
    ax.set_xlabel("seconds")
    ax.set_ylabel("prediction" if isinstance(result, Decision) else "value")
    ax.legend()
    return ax
