"""Constraints besides the bounds."""

from __future__ import annotations

from typing import Protocol

from treeopt.types import FloatArray


class Constraint(Protocol):
    """The interface of a constraint."""

    def violation(self, X: FloatArray) -> FloatArray:
        """Return the violation of the constraint at each row; 0 if it is satisfied."""
