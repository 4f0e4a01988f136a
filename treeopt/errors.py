"""The exceptions treeopt raises.

Each message names the thing that is wrong, what was given, and what to do about it.
"""

from __future__ import annotations


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
