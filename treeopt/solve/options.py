"""Read the options of a decision: the method and its limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np

from treeopt.arguments import (
    as_float,
    read_callback,
    read_count,
    read_n_jobs,
    read_seed,
    read_time_limit,
)
from treeopt.errors import InputError, shown
from treeopt.run.limits import Limits
from treeopt.run.progress import DecisionProgress, ProgressLine
from treeopt.run.run import Run
from treeopt.solve.methods import METHODS, Method


class Options(TypedDict, total=False):
    """The options of a decision; see `treeopt.minimize`."""

    method: str
    time_limit: float | None
    max_evals: int | None
    gap: float
    start: Any
    rng: Any
    callback: Callable[[DecisionProgress], Any] | None
    progress: bool
    n_jobs: int


def read_options(
    *,
    method: str = "auto",
    time_limit: float | None = None,
    max_evals: int | None = None,
    gap: float = 0.0,
    start: Any = None,
    rng: Any = None,
    callback: Callable[[DecisionProgress], Any] | None = None,
    progress: bool = False,
    n_jobs: int = 1,
) -> tuple[Method, Run]:
    """Return the method and a run with its limits."""
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method is {method!r}. Pass one of {', '.join(map(repr, METHODS))}.")
    chosen = METHODS[method]
    wanted_gap = as_float(gap)
    if wanted_gap is None or not 0 <= wanted_gap < np.inf:
        raise InputError(f"gap is {shown(gap)}. Pass a finite number of at least 0.")
    return chosen, Run(
        limits=Limits(read_time_limit(time_limit)),
        seed=read_seed(rng),
        n_jobs=read_n_jobs(n_jobs),
        callback=read_callback(callback),
        max_evals=chosen.max_evals if max_evals is None else read_count(max_evals, "max_evals"),
        gap=wanted_gap,
        start=start,
        line=ProgressLine(progress),
    )
