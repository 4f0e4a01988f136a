"""The exceptions that treeopt raises.

Each message names the argument, what was given, what is accepted, and what to do next.
"""

from __future__ import annotations

from typing import Any

MAX_SHOWN = 160
"""Maximum number of characters of a value in a message."""


class TreeoptError(Exception):
    """Base class of every error that treeopt raises on purpose."""


class UnsupportedModelError(TreeoptError, TypeError):
    """The model cannot be written as a sum of piecewise-constant trees."""


class UnfittedModelError(TreeoptError, ValueError):
    """The model has not been fitted yet."""


class ModelFormatError(TreeoptError, ValueError):
    """The model's own data are inconsistent or not valid."""


class InputError(TreeoptError, ValueError):
    """An argument is not valid for the model or the function."""


def shown(value: Any) -> str:
    """Return a value as text for a message, on one line and truncated."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer with more digits than Python converts to text
        return "a number with thousands of digits"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."
