"""Ignore NumPy's floating-point errors within treeopt, but not in the user's callbacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function without NumPy's floating-point warnings and errors.

    treeopt relies on casts that overflow, so the user's `numpy.seterr` must not affect it. The
    keyword argument ``callback`` is called with the caller's setting.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        callback = kwargs.get("callback")
        if callable(callback):
            kwargs["callback"] = _with_setting(callback, np.geterr())
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return run


def _with_setting(callback: Callable[..., Any], setting: Any) -> Callable[..., Any]:
    """Return a callback that runs with a setting of `numpy.seterr`."""

    def run(*args: Any) -> Any:
        with np.errstate(**setting):
            return callback(*args)

    return run
