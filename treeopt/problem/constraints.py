"""Constraints: what must hold besides the bounds."""

from __future__ import annotations

from typing import Protocol

from treeopt.types import FloatArray


class Constraint(Protocol):
    """What every constraint offers."""

    def violation(self, X: FloatArray) -> FloatArray:
        """Return by how much each row breaks the constraint; 0 if it holds."""
