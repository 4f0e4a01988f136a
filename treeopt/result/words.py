"""Text representation of results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

from treeopt.problem.region import Region
from treeopt.run.status import Status

MAX_PLAIN_INTEGER = 1e15
"""Integers below this are written without an exponent."""

DIGITS = 6
"""Minimum number of digits of printed numbers."""

MAX_FEATURES_SHOWN = 40
"""Maximum number of features that are listed when a decision is printed."""


def value_in_words(
    fun: float,
    bound: float,
    gap: float,
    rounding: float,
    status: Status,
    maximized: bool,
    what: str = "prediction",
    is_plain: bool = True,
) -> str:
    """Return a sentence about the value of a decision, called ``what``, and its bound.

    If ``is_plain``, only the model's own sums round.
    """
    best = "maximum" if maximized else "minimum"
    if status is Status.OPTIMAL and gap == 0:
        return f"{fun:.10g} is the {best} {what}, proven to the last bit."
    if status is Status.OPTIMAL:
        errors = (
            "the rounding error of the model's own sums is" if is_plain else "rounding errors are"
        )
        return (
            f"{fun:.10g} is the {best} {what}, proven up to rounding: the gap is {gap:.2g}, "
            f"and {errors} at most {rounding:.2g}."
        )
    found = "highest" if maximized else "lowest"
    if not np.isfinite(bound):
        return f"{fun:.10g} is the {found} {what} found; there is no bound."
    side = "above" if maximized else "below"
    return f"{fun:.10g} is the {found} {what} found; none is {side} {bound:.10g} (gap {gap:.4g})."


def effort_in_words(message: str, time: float, nfev: int, nodes: int) -> str:
    """Return a sentence about the end of a run, its duration and its counts."""
    counts = f"{counted(nfev, 'evaluation')} and {counted(nodes, 'node')}"
    return f"{message[:1].upper()}{message[1:]}, after {time:.3g} s, {counts}."


def terms_in_words(terms: Mapping[str, float]) -> list[str]:
    """Return a line with what each term adds to the value, if there are several."""
    if len(terms) < 2:
        return []
    parts = [f"{_spelled(value, DIGITS)} ({label})" for label, value in terms.items()]
    return [f"The value is the sum of {', '.join(parts[:-1])} and {parts[-1]}."]


def slack_in_words(slack: Mapping[str, float]) -> list[str]:
    """Return a line with the slack of each constraint."""
    if not slack:
        return []
    width = max(map(len, slack))
    lines = [f"  {label:<{width}}   {_spelled(left, DIGITS)}" for label, left in slack.items()]
    return ["The constraints hold, with a slack of:", *lines]


def region_in_words(
    names: Sequence[str],
    values: Sequence[Any],
    region: Region,
    free: Collection[int],
    what: str = "prediction",
) -> list[str]:
    """Return one line per feature: its value, and its range or categories in the region.

    ``what`` is "value" if the objective is more than a prediction.
    """
    what = "The prediction does" if what == "prediction" else "The predictions of the models do"
    lines = [f"{what} not change while:"]
    width = max(len(name) for name in names)
    for column, name in enumerate(names[:MAX_FEATURES_SHOWN]):
        low, high = region.lower[column], region.upper[column]
        value, within = values[column], "fixed"
        if isinstance(value, int | float | np.number):
            if column in free:
                value, low, high = spelled_inside(float(value), low, high)
            else:
                value = _spelled(float(value), DIGITS)
        if column in free and low == high:
            within = "only this value"
        elif column in region.categories:
            within = "one of " + ", ".join(map(str, region.categories[column]))
        elif column in free:
            within = f"from {low} to {high}"
        lines.append(f"  {name:<{width}} = {value!s:<12} {within}")
    if len(names) > MAX_FEATURES_SHOWN:
        lines.append(f"  ... and {len(names) - MAX_FEATURES_SHOWN} more features")
    return lines


def spelled_inside(x: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a point and its interval as text, with as few digits as possible.

    The point lies within the written interval, and this lies within the true interval and covers at
    least 99% of it.
    """
    for digits in range(DIGITS, 18):
        a, b = _rounded(low, digits, ROUND_CEILING), _rounded(high, digits, ROUND_FLOOR)
        at = float(f"{x:.{digits}g}")
        if np.isnan(x) or (a <= at <= b and b - a >= 0.99 * (high - low)):
            break
    return _spelled(x, digits), _spelled(a, digits), _spelled(b, digits)


def _spelled(x: float, digits: int) -> str:
    """Return a number with this many digits; integers below 1e15 have no exponent."""
    rounded = float(f"{x:.{digits}g}")
    if abs(rounded) < MAX_PLAIN_INTEGER and rounded == np.floor(rounded):
        return f"{rounded:.0f}"
    return f"{x:.{digits}g}"


def _rounded(x: float, digits: int, way: str) -> float:
    nearest = float(f"{x:.{digits}g}")
    if nearest == x:
        return nearest
    return float(Context(prec=digits, rounding=way).create_decimal(Decimal(x)))


def counted(n: int, what: str) -> str:
    """Return a number and what it counts, in the singular if it is 1."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
