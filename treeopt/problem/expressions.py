"""Linear conditions as a user computes them in float64, and their coefficients without rounding."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from treeopt.types import Array, BoolArray

Reference: TypeAlias = str | int
"""A feature's name, or its number for ``x[3]``."""

Values: TypeAlias = Mapping[Reference, Array | float]
"""The value of each feature at one point, or an array with one value per point."""

Exact: TypeAlias = tuple[dict[Reference, Fraction], Fraction]
"""The coefficients and the constant of a linear function."""

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
}


class Expression(ABC):
    """A linear function of features."""

    @abstractmethod
    def evaluate(self, values: Values) -> Array | float:
        """Return the value in float64, computed in the order of the text, as Python does."""

    @abstractmethod
    def exact(self, absolute: bool = False) -> Exact:
        """Return the coefficients and the constant, without rounding; some may be 0.

        If ``absolute``, all signs are positive, so that nothing cancels.
        """

    @property
    def n_terms(self) -> int:
        """Number of numbers and features."""
        return 1

    def linear(self) -> tuple[dict[Reference, float], float]:
        """Return the coefficients other than 0, and the constant, each rounded once."""
        return _rounded(self.exact())


@dataclass(frozen=True)
class Number(Expression):
    """A number."""

    value: float

    def evaluate(self, values: Values) -> Array | float:
        """Return the value in float64."""
        return self.value

    def exact(self, absolute: bool = False) -> Exact:
        """Return the coefficients and the constant."""
        return {}, Fraction(abs(self.value) if absolute else self.value)


@dataclass(frozen=True)
class Feature(Expression):
    """A feature."""

    reference: Reference

    def evaluate(self, values: Values) -> Array | float:
        """Return the value in float64."""
        value: Array | float = np.asarray(values[self.reference], dtype=np.float64)[()]
        return value

    def exact(self, absolute: bool = False) -> Exact:
        """Return the coefficients and the constant."""
        return {self.reference: Fraction(1)}, Fraction(0)


@dataclass(frozen=True)
class Negative(Expression):
    """The negative of an expression."""

    positive: Expression

    @property
    def n_terms(self) -> int:
        """Number of numbers and features."""
        return self.positive.n_terms

    def evaluate(self, values: Values) -> Array | float:
        """Return the value in float64."""
        return -self.positive.evaluate(values)

    def exact(self, absolute: bool = False) -> Exact:
        """Return the coefficients and the constant."""
        return _scaled(self.positive.exact(absolute), Fraction(1 if absolute else -1))


@dataclass(frozen=True)
class Operations(Expression):
    """Operations from left to right: additive ones, or multiplications and divisions.

    They are one flat list, so that sums of thousands of features need no deep recursion.
    """

    first: Expression
    steps: tuple[tuple[str, Expression], ...]

    @property
    def n_terms(self) -> int:
        """Number of numbers and features."""
        return self.first.n_terms + sum(operand.n_terms for _, operand in self.steps)

    def evaluate(self, values: Values) -> Array | float:
        """Return the value in float64."""
        value = self.first.evaluate(values)
        for symbol, operand in self.steps:
            value = OPERATORS[symbol](value, operand.evaluate(values))
        return value

    def exact(self, absolute: bool = False) -> Exact:
        """Return the coefficients and the constant."""
        coefficients, constant = self.first.exact(absolute)
        for symbol, operand in self.steps:
            others, number = operand.exact(absolute)
            if symbol in ("+", "-"):
                symbol = "+" if absolute else symbol
                constant = OPERATORS[symbol](constant, number)
                for reference, other in others.items():
                    before = coefficients.get(reference, Fraction(0))
                    coefficients[reference] = OPERATORS[symbol](before, other)
            elif others:  # a number times an expression
                coefficients, constant = _scaled((others, number), constant)
            else:
                factor = number if symbol == "*" else 1 / number
                coefficients, constant = _scaled((coefficients, constant), factor)
        return coefficients, constant


@dataclass(frozen=True)
class Comparison:
    """Two expressions and the relation that must hold between them.

    Attributes
    ----------
    text : str
        The part of the user's text for this comparison.
    left, right : Expression
        Both sides.
    relation : str
        One of ``"<="``, ``"<"``, ``">="``, ``">"`` and ``"=="``.
    references : tuple of str and int
        The features in order of appearance, also those that cancel.
    places : mapping from str or int to int
        Where each feature appears first in this comparison, as a position in the whole text.
    """

    text: str
    left: Expression
    relation: str
    right: Expression
    references: tuple[Reference, ...]
    places: Mapping[Reference, int] = field(compare=False)

    @property
    def n_terms(self) -> int:
        """Number of numbers and features on both sides."""
        return self.left.n_terms + self.right.n_terms

    def holds(self, values: Values) -> BoolArray | bool:
        """Return whether the comparison holds as written, in float64."""
        sides = self.left.evaluate(values), self.right.evaluate(values)
        result = RELATIONS[self.relation](*sides)
        return result if isinstance(result, np.ndarray) else bool(result)

    def exact(self, absolute: bool = False) -> Exact:
        """Return the coefficients and the constant of left - right, without rounding."""
        return Operations(self.left, (("-", self.right),)).exact(absolute)

    def linear(self) -> tuple[dict[Reference, float], float]:
        """Return the coefficients other than 0, and the constant, of left - right."""
        return _rounded(self.exact())

    def sizes(self) -> tuple[dict[Reference, float], float]:
        """Return how large the coefficients and the constant are before any of them cancel."""
        return _rounded(self.exact(absolute=True))


def _scaled(linear: Exact, factor: Fraction) -> Exact:
    """Return the coefficients and the constant times a factor."""
    coefficients, constant = linear
    return {reference: c * factor for reference, c in coefficients.items()}, constant * factor


def _rounded(linear: Exact) -> tuple[dict[Reference, float], float]:
    """Return the coefficients other than 0, and the constant, as floats."""
    coefficients, constant = linear
    floats = {reference: float(c) for reference, c in coefficients.items()}
    return {reference: c for reference, c in floats.items() if c != 0}, float(constant)


def overflows(number: Fraction) -> bool:
    """Return whether a number is too large for a float64."""
    try:
        float(number)
    except OverflowError:
        return True
    return False
