"""Read arguments that several functions share."""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from treeopt.errors import InputError, shown

P = ParamSpec("P")
R = TypeVar("R")


def takes_arguments_of(
    function: Callable[Concatenate[Any, P], Any], options: Callable[..., Any]
) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Return a decorator that gives a function the signature of another without its first argument.

    If ``function`` takes ``**options``, the signature has the parameters of ``options`` instead. A
    signature is thus written once, and is shown and checked wherever it is used.
    """
    return lambda other: _with_arguments(other, _shared(function, options))


def method_takes_arguments_of(
    function: Callable[Concatenate[Any, P], Any], options: Callable[..., Any]
) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Return a decorator as `takes_arguments_of` does, for a method, which takes ``self`` first."""
    own = Parameter("self", Parameter.POSITIONAL_ONLY)
    return lambda other: _with_arguments(other, [own, *_shared(function, options)])


def _shared(function: Callable[..., Any], options: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function and of its options, without the first one."""
    parameters: list[Parameter] = []
    for parameter in list(signature(function).parameters.values())[1:]:
        if parameter.kind is Parameter.VAR_KEYWORD:
            parameters += signature(options).parameters.values()
        else:
            parameters.append(parameter)
    return parameters


def _with_arguments(other: Callable[..., R], parameters: list[Parameter]) -> Callable[..., R]:
    """Return a function that checks its arguments first."""
    own = signature(other)
    shared = Signature(parameters, return_annotation=own.return_annotation)
    keywords = {each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY}
    n_others = len(parameters) - len(keywords)

    @wraps(other)
    def checked(*args: Any, **kwargs: Any) -> R:
        # Binding takes 20 µs: only if something may be wrong.
        if len(args) != n_others or not kwargs.keys() <= keywords:
            try:
                shared.bind(*args, **kwargs)
            except TypeError as error:
                name = other.__qualname__.removesuffix(".__init__")
                remedy = _remedy(shared, args, kwargs)
                raise TypeError(f"{name}() {error}.{remedy}") from None
        return other(*args, **kwargs)

    checked.__signature__ = shared  # type: ignore[attr-defined]
    return checked


def _remedy(shared: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return what to do if arguments do not fit a signature."""
    names = [name for name in shared.parameters if name != "self"]
    for unknown in kwargs.keys() - names:
        meant = "".join(f" Did you mean {n!r}?" for n in get_close_matches(unknown, names, 1))
        return f"{meant} The arguments are: {', '.join(names)}."
    positional = [n for n in names if shared.parameters[n].kind is not Parameter.KEYWORD_ONLY]
    if len(args) > len(shared.parameters) - len(names) + len(positional):
        after = f" after {', '.join(positional)}" if positional else ""
        return f" Pass all arguments{after} by name."
    return ""


def read_seed(rng: Any) -> int:
    """Return a seed from an integer, a Generator or None."""
    try:
        return int(np.random.default_rng(rng).integers(2**63))
    except (TypeError, ValueError) as error:
        raise InputError(f"rng is {rng!r}: {error}. Pass an integer or a Generator.") from None


def read_time_limit(time_limit: Any) -> float | None:
    """Return a number of seconds, or None."""
    if time_limit is None:
        return None
    seconds = as_float(time_limit)
    if seconds is None or not seconds > 0:
        raise InputError(f"time_limit is {shown(time_limit)}. Pass a number of seconds above 0.")
    return seconds


def as_float(value: Any) -> float | None:
    """Return a number as a float; None if it is not a number or does not fit a float."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    try:
        return float(value) if is_number else None
    except OverflowError:
        return None


def read_count(value: Any, name: str) -> int:
    """Return an integer above 0."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not 0 < value < 2**62:
        raise InputError(f"{name} is {value!r}. Pass an integer above 0.")
    return int(value)


def read_weights(weights: Any, n: int) -> NDArray[np.float64]:
    """Return n weights from a list of numbers."""
    try:
        array = np.array(weights, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"weights is {weights!r}. Pass one number per coordinate.") from None
    if array.shape != (n,):
        raise InputError(
            f"weights has shape {array.shape}. Pass one number for each of {n} coordinates."
        )
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise InputError(
            f"weights[{bad[0]}] is {array[bad[0]]}. Pass finite numbers of at least 0."
        )
    return array


def read_callback(callback: Any) -> Any:
    """Return a function or None."""
    if callback is not None and not callable(callback):
        raise InputError(
            f"callback is {callback!r}, which is not callable. Pass a function or None."
        )
    return callback


def read_n_jobs(n_jobs: Any) -> int:
    """Return the number of threads for ``n_jobs``, with scikit-learn's meaning of -1 and None."""
    if n_jobs is None:
        return 1
    whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if not whole or n_jobs == 0 or n_jobs < -1:
        raise InputError(
            f"n_jobs is {n_jobs!r}. Pass the number of threads, or -1 for one per processor."
        )
    return (os.cpu_count() or 1) if n_jobs == -1 else int(n_jobs)
