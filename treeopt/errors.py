"""The exceptions treeopt raises.

Each message names the thing that is wrong, what was given, and what to do about it.
"""

from __future__ import annotations

from typing import Any

SHOWN = 160
"""Messages show at most this many characters of a value."""


class TreeoptError(Exception):
    """Base class of every error that treeopt raises on purpose."""


class UnsupportedModelError(TreeoptError, TypeError):
    """The model cannot be written as a sum of piecewise-constant trees."""


class UnfittedModelError(TreeoptError, ValueError):
    """The model has not been fitted yet."""


class ModelFormatError(TreeoptError, ValueError):
    """The model's own description contradicts itself."""


class InputError(TreeoptError, ValueError):
    """An argument does not fit the model or the function it was given to."""


def shown(value: Any) -> str:
    """Return a value for a message, on one line and cut short."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a whole number with more digits than Python writes
        return "a number with thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
