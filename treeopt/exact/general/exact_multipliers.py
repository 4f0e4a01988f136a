"""Change multipliers of rows slightly, so that they cancel the cost of features without bounds.

A feature without bounds leaves a finite bound only if its cost per unit is exactly 0. A linear
program returns multipliers that are rounded, and its sum is then some 1e-17 instead. Multipliers
nearby solve the equations exactly, in rational arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from treeopt.types import FloatArray

NEAR = Fraction(1, 10**6)
"""Maximum change of a multiplier, relative to it."""

Equation = tuple[Mapping[int, float], Fraction]
"""The coefficients by row, and what the sum of the products must be."""


def exact_multipliers(y: FloatArray, equations: Sequence[Equation]) -> FloatArray | None:
    """Return multipliers near ``y`` that solve some equations, rounded; None if there are none.

    Multipliers that are 0 stay 0.
    """
    support = np.flatnonzero(y).tolist()
    # From the smallest multiplier on: those are determined by the others, which keep their values.
    support.sort(key=lambda r: abs(float(y[r])))
    solved: dict[int, tuple[dict[int, Fraction], Fraction]] = {}
    for coefficients, right in equations:
        row = {r: Fraction(a) for r, a in coefficients.items() if a and y[r]}
        for pivot, (other, value) in solved.items():
            if pivot in row:
                row, right = _minus(row, right, row[pivot], other, value)
        if not row:
            if right:
                return None
            continue
        pivot = next(r for r in support if r in row)
        factor = row[pivot]
        row, right = {r: a / factor for r, a in row.items()}, right / factor
        for known, (other, value) in solved.items():
            if pivot in other:
                solved[known] = _minus(other, value, other[pivot], row, right)
        solved[pivot] = row, right
    exact = {r: Fraction(float(y[r])) for r in support}
    for pivot, (row, right) in solved.items():
        rest = sum((a * exact[r] for r, a in row.items() if r != pivot), Fraction(0))
        value, before = right - rest, Fraction(float(y[pivot]))
        if abs(value - before) > NEAR * abs(before):
            return None
        exact[pivot] = value
    found = np.zeros_like(y)
    found[support] = [float(exact[r]) for r in support]
    return found


def _minus(
    row: Mapping[int, Fraction],
    right: Fraction,
    factor: Fraction,
    other: Mapping[int, Fraction],
    value: Fraction,
) -> tuple[dict[int, Fraction], Fraction]:
    """Return an equation minus a multiple of another one."""
    left = {
        r: row.get(r, Fraction(0)) - factor * other.get(r, Fraction(0)) for r in {**row, **other}
    }
    return {r: a for r, a in left.items() if a}, right - factor * value
