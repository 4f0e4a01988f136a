r"""Read linear conditions from text, such as ``"2200 <= cement + slag + water <= 2400"``.

`parse` splits the text into tokens and reads them by recursive descent. Nothing is passed to
Python's `eval`. In the grammar, ``*`` after a bracket means any number of times::

    condition = sum [relation sum] [relation sum]*        relations: <= < >= > == ≤ ≥
    sum       = product [+ product | - product]*
    product   = signed [* signed | / signed]*
    signed    = [+ | -]* operand
    operand   = number | word | `any characters` | x[integer] | (sum)

Every number in the text is a float64.
"""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from treeopt.errors import InputError, shown
from treeopt.types import Array, BoolArray

Reference: TypeAlias = str | int
"""A feature's name, or its number for ``x[3]``."""

Values: TypeAlias = Mapping[Reference, Array | float]
"""The value of each feature at one point, or an array with one value per point."""

Exact: TypeAlias = tuple[dict[Reference, Fraction], Fraction]
"""The coefficients and the constant of a linear function."""

MAX_NESTED = 50
"""Maximum number of nested parentheses."""

MAX_LINE = 100
"""Maximum number of characters that a message shows around the place of an error."""

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
SPELLINGS = {relation: relation for relation in RELATIONS} | {"≤": "<=", "≥": ">="}
"""The relation that each spelling stands for."""


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

    def linear(self) -> tuple[dict[Reference, float], float]:
        """Return the coefficients other than 0, and the constant, each rounded once."""
        return _rounded(self.exact())


@dataclass(frozen=True)
class _Number(Expression):
    value: float

    def evaluate(self, values: Values) -> Array | float:
        return self.value

    def exact(self, absolute: bool = False) -> Exact:
        return {}, Fraction(abs(self.value) if absolute else self.value)


@dataclass(frozen=True)
class _Feature(Expression):
    reference: Reference

    def evaluate(self, values: Values) -> Array | float:
        value: Array | float = np.asarray(values[self.reference], dtype=np.float64)[()]
        return value

    def exact(self, absolute: bool = False) -> Exact:
        return {self.reference: Fraction(1)}, Fraction(0)


@dataclass(frozen=True)
class _Negative(Expression):
    positive: Expression

    def evaluate(self, values: Values) -> Array | float:
        return -self.positive.evaluate(values)

    def exact(self, absolute: bool = False) -> Exact:
        return _scaled(self.positive.exact(absolute), Fraction(1 if absolute else -1))


@dataclass(frozen=True)
class _Operations(Expression):
    """Operations from left to right: additive ones, or multiplications and divisions.

    They are one flat list, so that sums of thousands of features need no deep recursion.
    """

    first: Expression
    steps: tuple[tuple[str, Expression], ...]

    def evaluate(self, values: Values) -> Array | float:
        value = self.first.evaluate(values)
        for symbol, operand in self.steps:
            value = OPERATORS[symbol](value, operand.evaluate(values))
        return value

    def exact(self, absolute: bool = False) -> Exact:
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

    def holds(self, values: Values) -> BoolArray | bool:
        """Return whether the comparison holds as written, in float64."""
        sides = self.left.evaluate(values), self.right.evaluate(values)
        result = RELATIONS[self.relation](*sides)
        return result if isinstance(result, np.ndarray) else bool(result)

    def exact(self, absolute: bool = False) -> Exact:
        """Return the coefficients and the constant of left - right, without rounding."""
        return _Operations(self.left, (("-", self.right),)).exact(absolute)

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


def _overflows(number: Fraction) -> bool:
    """Return whether a number is too large for a float64."""
    try:
        float(number)
    except OverflowError:
        return True
    return False


def parse(text: str, argument: str = "constraints") -> tuple[Comparison, ...]:
    """Read a condition; a chain such as ``1 <= a < 2`` gives several comparisons.

    Parameters
    ----------
    text : str
        The condition. Features are words, names in backticks or ``x[3]``.
    argument : str
        The name of the argument for messages.

    Raises
    ------
    InputError
        If the text is not a linear condition. The message shows the place of the error.

    Examples
    --------
    >>> lower, upper = parse("10 <= 2*a - `fly ash`/4 < 20")
    >>> upper.text
    '2*a - `fly ash`/4 < 20'
    >>> upper.linear()
    ({'a': 2.0, 'fly ash': -0.25}, -20.0)
    >>> upper.holds({"a": 10.0, "fly ash": 2.0})
    True
    """
    remedy = "Pass a condition as text, such as 'a + 2*b <= 3'."
    if not isinstance(text, str):
        raise InputError(f"{argument}: cannot read {shown(text)}: this is not text. {remedy}")
    if not text.strip():
        raise InputError(f"{argument}: cannot read {shown(text)}: the text is empty. {remedy}")
    return _Parser(str(text), argument).condition()


def pointed(text: str, at: int, argument: str, problem: str, remedy: str) -> str:
    """Return a message that quotes a text and points at a place in it.

    Parameters
    ----------
    text : str
        The user's text.
    at : int
        The position of the place.
    argument : str
        The name of the argument.
    problem : str
        What is wrong, without a period at the end.
    remedy : str
        What to do: whole sentences.

    Examples
    --------
    >>> print(pointed("a <= c", 5, "constraints", "there is no feature 'c'", "Write 'b'."))
    constraints: cannot read 'a <= c': there is no feature 'c'. Write 'b'.
        a <= c
             ^
    """
    start = max(0, min(at - MAX_LINE // 2, len(text) - MAX_LINE))
    end = start + MAX_LINE
    before = ("... " if start else "") + _on_one_line(text[start:at])
    after = _on_one_line(text[at:end]) + (" ..." if end < len(text) else "")
    blanks = " " * sum(map(_width, before))
    message = f"{argument}: cannot read {shown(text)}: {problem}. {remedy}"
    return f"{message}\n    {before}{after}\n    {blanks}^"


def _on_one_line(text: str) -> str:
    """Return a text with blanks in place of line breaks and the like."""
    return "".join(c if c.isprintable() else " " for c in text)


def _width(character: str) -> int:
    """Return the number of columns of a character in a terminal."""
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# Messages.

_LISTED = "the relations are <=, <, >=, > and =="
_SMALLER = "Write the condition with smaller numbers."
_ONE_EACH = "Pass each condition as a constraint of its own."
_DEPENDS = "For conditions that depend on others, use treeopt.Implies or treeopt.Forbid."
_AND = ("conditions cannot be joined by and", f"{_ONE_EACH} {_DEPENDS}")
_OR = ("conditions cannot be joined by or", _DEPENDS)
_UNEQUAL = (
    f"'not equal' is not supported; {_LISTED}",
    "Exclude values by bounds, by the argument categories or by treeopt.Forbid.",
)
_POWER = (
    "powers are not supported",
    "Write 9 instead of 3**2. A power of a feature is not linear.",
)
_QUOTE = (
    "a quoted text is neither a number nor a feature",
    "For conditions on categories, use treeopt.Forbid({...}) or the argument categories. "
    "Put the name of a feature in backticks.",
)
_BRACKET = (
    "brackets are only for the number of a column, as in x[3]",
    "Use parentheses in calculations. Put a name with brackets in backticks.",
)
SYMBOLS: dict[str, tuple[str, str]] = {
    "=": (f"= is not a relation; {_LISTED}", "Write == for equality."),
    "=<": (f"=< is not a relation; {_LISTED}", "Write <=."),
    "=>": (f"=> is not a relation; {_LISTED}", f"Write >=. {_DEPENDS}"),
    "//": ("rounding down is not linear", "Write / for a division."),
    "%": ("% has no meaning here", "Write 0.5*a for 50 % of a."),
    ",": ("a comma has no meaning here", f"Write 0.5, not 0,5. {_ONE_EACH}"),
    ";": ("a semicolon has no meaning here", _ONE_EACH),
    "`": ("this backtick is not closed", "Add a backtick at the end of the name."),
    "if": ("if is not supported", _DEPENDS),
    "in": ("in is not supported", "Use bounds or the argument categories."),
    **dict.fromkeys(["and", "&", "&&"], _AND),
    **dict.fromkeys(["or", "|", "||"], _OR),
    **dict.fromkeys(["!=", "<>", "≠"], _UNEQUAL),
    **dict.fromkeys(["**", "^", *"⁰¹²³⁴⁵⁶⁷⁸⁹"], _POWER),
    **dict.fromkeys("'\"‘’“”„«»", _QUOTE),
    **dict.fromkeys("[]{}", _BRACKET),
    **{c: (f"the character {c} is not a minus sign", "Write -.") for c in "−–—"},
    **{c: (f"the character {c} is not an operator", "Write *.") for c in "×·⋅∙•"},
    **{c: (f"the character {c} is not an operator", "Write /.") for c in "÷∕"},
}
"""The problem and the remedy for symbols, and for words in place of an operator."""

RESERVED = {
    "True": "Write 1.",
    "False": "Write 0.",
    "None": "Write a number.",
    "and": _ONE_EACH,
    "or": _DEPENDS,
}
"""The remedy for words that are features only in backticks."""

FUNCTIONS = {
    "abs": "Write -3 <= a <= 3 instead of abs(a) <= 3.",
    "max": "Write one constraint per feature instead of max(a, b) <= 3.",
    "min": "Write one constraint per feature instead of min(a, b) >= 3.",
    "sum": "Write a + b instead of sum(a, b).",
}
"""The remedy for some functions."""

# The parser.

_NUMBER = re.compile(r"(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?")
_NAME = re.compile(r"`(?:[^`]|``)*+`")
_SYMBOL = re.compile(r"<=|>=|==|!=|<>|=<|=>|\*\*|//|&&|\|\||\S")


class _Token(NamedTuple):
    """A piece of the text. The kinds are number, word, name (in backticks), symbol and end."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    @property
    def is_word(self) -> bool:
        return self.kind in ("word", "number")


def _tokens(text: str) -> list[_Token]:
    """Split a text. Unknown characters and a backtick that is not closed become symbols."""
    tokens = []
    at = 0
    while at < len(text):
        end = at + 1
        if text[at].isidentifier():
            while end < len(text) and f"a{text[end]}".isidentifier():
                end += 1
            tokens.append(_Token("word", text[at:end], at))
        elif not text[at].isspace():
            kinds = {"number": _NUMBER, "name": _NAME, "symbol": _SYMBOL}
            found = ((kind, pattern.match(text, at)) for kind, pattern in kinds.items())
            kind, match = next((kind, match) for kind, match in found if match)
            end = match.end()
            tokens.append(_Token(kind, match[0], at))
        at = end
    return [*tokens, _Token("end", "", tokens[-1].end)]


class _Part(NamedTuple):
    """An expression, and its value in float64 if it has no features."""

    expression: Expression
    constant: float | None


class _Side(NamedTuple):
    """One side of a relation: its range in the text, and the places of its features."""

    expression: Expression
    start: int
    end: int
    places: list[tuple[Reference, int]]


class _Parser:
    """Reads the tokens of one text from left to right."""

    def __init__(self, text: str, argument: str) -> None:
        self.text = text
        self.argument = argument
        self.tokens = _tokens(text)
        self.index = 0
        self.nested = 0
        self.places: list[tuple[Reference, int]] = []

    @property
    def token(self) -> _Token:
        """The next token."""
        return self.tokens[self.index]

    @property
    def before(self) -> _Token:
        """The token before the next one."""
        return self.tokens[self.index - 1]

    def advance(self) -> _Token:
        """Return the next token and go on to the one after it."""
        token = self.token
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def error(self, at: int, problem: str, remedy: str) -> InputError:
        """Return the error that points at a place."""
        return InputError(pointed(self.text, at, self.argument, problem, remedy))

    def condition(self) -> tuple[Comparison, ...]:
        """Read the whole text."""
        sides = [self.side()]
        relations: list[_Token] = []
        while self.token.text in SPELLINGS:
            relations.append(self.advance())
            sides.append(self.side())
        if self.token.kind != "end":
            raise self.no_operator()
        if not relations:
            remedy = "Add a relation and the other side, such as <= 3."
            raise self.error(self.token.at, f"there is no relation; {_LISTED}", remedy)
        directed = [token for token in relations if token.text != "=="]
        for first, second in pairwise(directed):
            if SPELLINGS[first.text][0] != SPELLINGS[second.text][0]:
                problem = f"{first.text} and {second.text} point in different directions"
                raise self.error(second.at, problem, "Write two constraints.")
        return tuple(
            self.comparison(left, SPELLINGS[token.text], right)
            for (left, right), token in zip(pairwise(sides), relations, strict=True)
        )

    def side(self) -> _Side:
        """Read one side of a relation."""
        self.places = []
        start = self.token.at
        expression = self.sum().expression
        return _Side(expression, start, self.before.end, self.places)

    def comparison(self, left: _Side, relation: str, right: _Side) -> Comparison:
        """Return a comparison, after a check that its coefficients are finite."""
        places: dict[Reference, int] = {}
        for reference, at in left.places + right.places:
            places.setdefault(reference, at)
        text = self.text[left.start : right.end]
        sides = left.expression, right.expression
        made = Comparison(text, sides[0], relation, sides[1], tuple(places), places)
        for part in (*sides, made):
            coefficients, constant = part.exact()
            if _overflows(constant):
                problem = "the sum of the numbers is too large for a float64"
                raise self.error(left.start, problem, _SMALLER)
            for reference, coefficient in coefficients.items():
                if _overflows(coefficient):
                    problem = "the factor of this feature is too large for a float64"
                    raise self.error(places[reference], problem, _SMALLER)
        return made

    def sum(self) -> _Part:
        """Read products with + and - between them."""
        return self.operations(("+", "-"), self.product)

    def product(self) -> _Part:
        """Read operands with * and / between them."""
        return self.operations(("*", "/"), self.signed)

    def operations(self, symbols: tuple[str, ...], read: Callable[[], _Part]) -> _Part:
        """Read operands with some of these symbols between them."""
        first = read()
        constant = first.constant
        steps = []
        while self.token.text in symbols:
            symbol = self.advance()
            right = read()
            constant = self.constant(symbol, constant, right)
            steps.append((symbol.text, right.expression))
        return _Part(_Operations(first.expression, tuple(steps)), constant) if steps else first

    def constant(self, symbol: _Token, left: float | None, right: _Part) -> float | None:
        """Return the result of an operation on numbers; None if there are features."""
        if symbol.text == "*" and left is None and right.constant is None:
            problem = "a product of two features is not linear"
            raise self.error(symbol.at, problem, "Multiply features by numbers only.")
        if symbol.text == "/":
            if right.constant is None:
                problem = "a division by a feature is not linear"
                remedy = "Multiply both sides by it: write a <= 2*b instead of a/b <= 2."
                raise self.error(symbol.at, problem, remedy)
            if right.constant == 0 or right.expression.exact()[1] == 0:
                problem = "a division by zero has no result"
                raise self.error(symbol.at, problem, "Divide by another number.")
        if left is None or right.constant is None:
            return None
        value: float = OPERATORS[symbol.text](left, right.constant)
        if not math.isfinite(value):
            raise self.error(symbol.at, "the result is too large for a float64", _SMALLER)
        return value

    def signed(self) -> _Part:
        """Read an operand with any number of signs before it."""
        negative = False
        while self.token.text in ("+", "-"):
            negative ^= self.advance().text == "-"
        expression, constant = self.operand()
        if not negative:
            return _Part(expression, constant)
        return _Part(_Negative(expression), None if constant is None else -constant)

    def operand(self) -> _Part:
        """Read a number, a feature or a sum in parentheses."""
        before, token = self.before, self.advance()
        if token.kind == "number":
            return self.number(token)
        if token.kind == "word":
            return self.word(token)
        if token.kind == "name":
            return self.feature(token, token.text[1:-1].replace("``", "`"))
        if token.text == "(":
            return self.parentheses(token)
        missing = "a number or a feature is missing"
        if token.kind == "end":
            problem = f"{missing} after {shown(before.text)}"
            raise self.error(token.at, problem, "Complete the condition.")
        if token.text in OPERATORS or token.text in SPELLINGS or token.text == ")":
            raise self.error(token.at, f"{missing} before {shown(token.text)}", "Add it.")
        if token.text == "=" and before.text in ("<", ">"):
            problem = f"there is a blank within {before.text}="
            raise self.error(token.at, problem, "Remove the blank.")
        raise self.unknown(token)

    def number(self, token: _Token) -> _Part:
        """Return the value of a number."""
        if "_" in token.text:
            at = token.at + token.text.index("_")
            remedy = "Write 1000, not 1_000. Put a name that begins with a digit in backticks."
            raise self.error(at, "a number has no underscore", remedy)
        value = float(token.text)
        if not math.isfinite(value):
            raise self.error(token.at, "the number is too large for a float64", _SMALLER)
        return _Part(_Number(value), value)

    def feature(self, token: _Token, reference: Reference) -> _Part:
        """Return a feature and note its place."""
        if reference == "":
            problem = "there is no name between the backticks"
            raise self.error(token.at, problem, "Write the name between two single backticks.")
        self.places.append((reference, token.at))
        return _Part(_Feature(reference), None)

    def word(self, token: _Token) -> _Part:
        """Read what begins with a word."""
        if token.text in RESERVED:
            problem = f"{token.text} is neither a number nor a feature"
            remedy = f"{RESERVED[token.text]} For a feature, write `{token.text}` in backticks."
            raise self.error(token.at, problem, remedy)
        if self.token.text == "(":
            remedy = FUNCTIONS.get(token.text, "Write * for a product.")
            remedy += " Put a name with parentheses in backticks."
            problem = "functions are not supported, because conditions are linear"
            raise self.error(token.at, problem, remedy)
        if token.text == "x" and self.token.text == "[":
            return self.feature(token, self.column())
        return self.feature(token, token.text)

    def column(self) -> int:
        """Read the number of a column in brackets."""
        opening, number = self.advance(), self.advance()
        remedy = "Write x[3] for column 3; the first column is x[0]."
        if number.text == "-":
            raise self.error(number.at, "the number of a column is never negative", remedy)
        if number.kind == "end":
            raise self.error(opening.at, "this bracket is not closed", remedy)
        if not re.fullmatch("[0-9]{1,18}", number.text):
            remedy += " For a feature by name, write only its name."
            raise self.error(number.at, "the number of a column is an integer", remedy)
        if self.token.text != "]":
            raise self.error(opening.at, "this bracket is not closed after the number", remedy)
        self.advance()
        return int(number.text)

    def parentheses(self, opening: _Token) -> _Part:
        """Read a sum and the closing parenthesis."""
        self.nested += 1
        if self.nested > MAX_NESTED:
            problem = f"more than {MAX_NESTED} parentheses are nested here"
            raise self.error(opening.at, problem, "Write the condition with fewer parentheses.")
        part = self.sum()
        if self.token.kind == "end" or (self.token.text in SPELLINGS and not self.is_closed()):
            raise self.error(opening.at, "this parenthesis is not closed", "Add ')'.")
        if self.token.text in SPELLINGS:
            problem = f"the relation {self.token.text} is inside parentheses"
            raise self.error(self.token.at, problem, f"Remove the parentheses. {_ONE_EACH}")
        if self.token.text != ")":
            raise self.no_operator()
        self.advance()
        self.nested -= 1
        return part

    def is_closed(self) -> bool:
        """Return whether the innermost open parenthesis is closed later on."""
        depth = 1
        for token in self.tokens[self.index :]:
            depth += (token.text == "(") - (token.text == ")")
            if not depth:
                return True
        return False

    def no_operator(self) -> InputError:
        """Return the error about the next token, which stands in place of an operator."""
        before, token = self.before, self.token
        if token.text == ")":
            return self.error(token.at, "this parenthesis was never opened", "Remove it.")
        if token.text.lower() in SYMBOLS:
            return self.unknown(token)
        if before.is_word and (token.is_word or token.text == "."):
            return self.two_words(before, token)
        if token.kind == "symbol" and token.text != "(":
            return self.unknown(token)
        remedy = "Write * for a product, or another operator."
        return self.error(token.at, "there is no operator before this", remedy)

    def two_words(self, before: _Token, token: _Token) -> InputError:
        """Return the error about a name that lacks backticks, or a product that lacks ``*``."""
        if before.text == "not":
            return self.error(before.at, "not is not supported", "Write the opposite relation.")
        end = token.end
        for following in self.tokens[self.index + 1 :]:
            is_part = following.is_word or following.text == "."
            if not is_part or following.text.lower() in SYMBOLS:
                break
            end = following.end
        name = _on_one_line(self.text[before.at : end])
        name = f"`{name}`" if len(name) <= MAX_LINE else "`fly ash`"
        problem = "there is no operator between two names or numbers"
        if token.text == ".":
            problem = "a name with a point needs backticks"
        remedy = f"Put a name with blanks or points in backticks: {name}."
        if before.kind == "number":
            remedy = f"Write {before.text}*{token.text} for a product, or {name} for a name."
        return self.error(token.at, problem, remedy)

    def unknown(self, token: _Token) -> InputError:
        """Return the error about a symbol without a meaning."""
        problem = f"the character {shown(token.text)} has no meaning here"
        remedy = "Put a name with special characters in backticks, such as `fly-ash`."
        return self.error(token.at, *SYMBOLS.get(token.text.lower(), (problem, remedy)))
