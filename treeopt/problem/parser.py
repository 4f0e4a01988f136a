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
import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from treeopt.errors import InputError, shown
from treeopt.problem.expressions import (
    OPERATORS,
    RELATIONS,
    Comparison,
    Expression,
    Feature,
    Negative,
    Number,
    Operations,
    Reference,
    overflows,
)
from treeopt.problem.parser_messages import (
    FUNCTIONS,
    LISTED,
    MAX_LINE,
    ONE_EACH,
    RESERVED,
    SMALLER,
    SYMBOLS,
    on_one_line,
    pointed,
)

MAX_NESTED = 50
"""Maximum number of nested parentheses."""

SPELLINGS = {relation: relation for relation in RELATIONS} | {"≤": "<=", "≥": ">="}
"""The relation that each spelling stands for."""


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
            raise self.error(self.token.at, f"there is no relation; {LISTED}", remedy)
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
            if overflows(constant):
                problem = "the sum of the numbers is too large for a float64"
                raise self.error(left.start, problem, SMALLER)
            for reference, coefficient in coefficients.items():
                if overflows(coefficient):
                    problem = "the factor of this feature is too large for a float64"
                    raise self.error(places[reference], problem, SMALLER)
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
        return _Part(Operations(first.expression, tuple(steps)), constant) if steps else first

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
            raise self.error(symbol.at, "the result is too large for a float64", SMALLER)
        return value

    def signed(self) -> _Part:
        """Read an operand with any number of signs before it."""
        negative = False
        while self.token.text in ("+", "-"):
            negative ^= self.advance().text == "-"
        expression, constant = self.operand()
        if not negative:
            return _Part(expression, constant)
        return _Part(Negative(expression), None if constant is None else -constant)

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
            raise self.error(token.at, "the number is too large for a float64", SMALLER)
        return _Part(Number(value), value)

    def feature(self, token: _Token, reference: Reference) -> _Part:
        """Return a feature and note its place."""
        if reference == "":
            problem = "there is no name between the backticks"
            raise self.error(token.at, problem, "Write the name between two single backticks.")
        self.places.append((reference, token.at))
        return _Part(Feature(reference), None)

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
            raise self.error(self.token.at, problem, f"Remove the parentheses. {ONE_EACH}")
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
        name = on_one_line(self.text[before.at : end])
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
