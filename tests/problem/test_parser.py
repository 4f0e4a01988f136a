"""Conditions as text: what they mean, and what users are told about wrong ones.

Python's own `eval` of the same text is the judge of values, and fractions are the judge of
coefficients.
"""

from __future__ import annotations

import math
import pickle
import sys
import warnings
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from treeopt.errors import InputError
from treeopt.problem.expressions import RELATIONS, Comparison
from treeopt.problem.parser import MAX_NESTED, parse
from treeopt.problem.parser_messages import MAX_LINE, pointed

# Random conditions. Each token has three forms: what treeopt reads, the same for Python, and the
# same for Python with fractions.

FEATURES = {"a": "a", "water": "water", "größe": "größe", "`fly ash`": "f", "`a.b``c`": "g"}
COLUMNS = {f"x[{k}]": k for k in (0, 3, 12)}
NAMES = {"a": "a", "water": "water", "größe": "größe", "fly ash": "f", "a.b`c": "g"}
REFERENCES = [*NAMES, *COLUMNS.values()]


@dataclass(frozen=True)
class Piece:
    """A piece of text: its tokens, and whether it has features."""

    tokens: tuple[tuple[str, str, str], ...]
    features: bool = False

    def __add__(self, other: Piece) -> Piece:
        return Piece(self.tokens + other.tokens, self.features or other.features)


def symbol(text: str) -> Piece:
    return Piece(((text, text, text),))


def number(text: str) -> Piece:
    return Piece(((text, text, f"F({float(text)!r})"),))


integers = st.integers(0, 2000).map(str)
decimals = st.one_of(
    st.sampled_from(["0.5", ".5", "2.", "1e3", "1E-2", "2.5e+1", "0.1", "0.0", "1e-300", "0.30"]),
    st.floats(0.01, 100).map(repr),
    st.floats(0, 1e6).map(repr),
)


@st.composite
def numbers(draw, with_integers: bool):
    return number(draw(st.one_of(decimals, integers) if with_integers else decimals))


@st.composite
def features(draw):
    text = draw(st.sampled_from([*FEATURES, *COLUMNS]))
    if text in FEATURES:
        return Piece(((text, FEATURES[text], FEATURES[text]),), True)
    parts = ["x", "[", text[2:-1], "]"]
    return Piece(tuple((part, part, part) for part in parts), True)


@st.composite
def sums(draw, depth: int = 2, linear: bool = True, with_integers: bool = True):
    """Draw a sum; without features unless ``linear``."""
    piece = draw(products(depth, linear, with_integers))
    for sign in draw(st.text("+-", max_size=2)):
        piece = piece + symbol(sign) + draw(products(depth, linear, with_integers))
    return piece


@st.composite
def products(draw, depth: int, linear: bool, with_integers: bool):
    piece = draw(operands(depth, linear, with_integers))
    for sign in draw(st.sampled_from(["", "", "*", "/", "**", "*/", "/*"])):
        right = draw(operands(depth, linear and not piece.features and sign == "*", with_integers))
        piece = piece + symbol(sign) + right
    return piece


@st.composite
def operands(draw, depth: int, linear: bool, with_integers: bool):
    signs = draw(st.sampled_from(["", "", "", "-", "+", "--", "-+-"]))
    kinds = ["number"] + ["feature"] * (2 * linear) + ["parentheses"] * (depth > 0)
    kind = draw(st.sampled_from(kinds))
    if kind == "number":
        piece = draw(numbers(with_integers))
    elif kind == "feature":
        piece = draw(features())
    else:
        piece = symbol("(") + draw(sums(depth - 1, linear, with_integers)) + symbol(")")
    for sign in signs:
        piece = symbol(sign) + piece
    return piece


@st.composite
def conditions(draw, **options):
    """Draw both sides, the relation and the text of a condition."""
    left, right = draw(sums(**options)), draw(sums(**options))
    relation = draw(st.sampled_from([*RELATIONS, "≤", "≥"]))
    blanks = st.sampled_from(["", "", " ", "  ", "\t", "\n", "\u00a0"])
    tokens = [text for text, _, _ in (left + symbol(relation) + right).tokens]
    return left, right, relation, draw(blanks) + "".join(token + draw(blanks) for token in tokens)


def by_python(piece: Piece, values: dict, kind: type = np.float64) -> float:
    """Return the value of a piece as Python computes it."""
    names = {NAMES[key]: kind(values[key]) for key in NAMES}
    names["x"] = {key: kind(values[key]) for key in COLUMNS.values()}
    with np.errstate(all="ignore"):
        return float(eval(" ".join(python for _, python, _ in piece.tokens), names))


def by_fractions(piece: Piece, values: dict) -> Fraction:
    """Return the exact value of a piece."""
    names = {NAMES[key]: Fraction(values[key]) for key in NAMES}
    names["x"] = {key: Fraction(values[key]) for key in COLUMNS.values()}
    return Fraction(eval(" ".join(exact for _, _, exact in piece.tokens), {"F": Fraction, **names}))


def read(left: Piece, right: Piece, text: str) -> Comparison:
    """Return the only comparison of a text; its divisors are not 0 and its numbers are finite."""
    nothing = dict.fromkeys(REFERENCES, 0.0)
    try:
        for piece in (left, right):
            by_python(piece, nothing, float)  # raises, unlike NumPy
            by_fractions(piece, nothing)
    except ZeroDivisionError:
        with pytest.raises(InputError, match=r"division by zero|too large"):
            parse(text)
        assume(False)
    try:
        (comparison,) = parse(text)
    except InputError as error:
        assert "too large" in str(error)
        assume(False)
    return comparison


def bits(value: float) -> bytes:
    return np.float64(value).tobytes()


any_float = st.floats(allow_nan=True, allow_infinity=True)
points = st.fixed_dictionaries({r: any_float | st.floats(-100, 100) for r in REFERENCES})


@given(conditions(with_integers=False), points)
def test_values_are_those_of_python_to_the_last_bit(condition, values):
    left, right, _, text = condition
    comparison = read(left, right, text)
    with np.errstate(all="ignore"):
        results = [side.evaluate(values) for side in (comparison.left, comparison.right)]
        truth = [by_python(side, values) for side in (left, right)]
        for result, true in zip(results, truth, strict=True):
            assert bits(result) == bits(true) or (math.isnan(result) and math.isnan(true))
        holds = comparison.holds(values)
    assert isinstance(holds, bool)
    assert holds == RELATIONS[comparison.relation](*truth)


@given(conditions(), points)
def test_integers_are_numbers_too(condition, values):
    """The sign of 0 may differ: -0 is an integer in Python. No comparison can tell."""
    left, right, _, text = condition
    comparison = read(left, right, text)
    with np.errstate(all="ignore"):
        truth = [by_python(side, values) for side in (left, right)]
        for side, true in zip((comparison.left, comparison.right), truth, strict=True):
            np.testing.assert_equal(side.evaluate(values) + 0.0, true + 0.0)
        assert comparison.holds(values) == RELATIONS[comparison.relation](*truth)


@given(conditions(), st.lists(points, max_size=4))
def test_arrays_give_the_values_of_their_entries(condition, rows):
    left, right, _, text = condition
    comparison = read(left, right, text)
    columns = {key: np.array([row[key] for row in rows]) for key in REFERENCES}
    with np.errstate(all="ignore"):
        result = np.broadcast_to(comparison.left.evaluate(columns), len(rows))
        truth = np.array([comparison.left.evaluate(row) for row in rows], dtype=np.float64)
        np.testing.assert_array_equal(result, truth)
        holds = comparison.holds(columns)
        assert isinstance(holds, np.ndarray if comparison.references else bool)
        truth = np.array([comparison.holds(row) for row in rows], dtype=bool)
        np.testing.assert_array_equal(np.broadcast_to(holds, len(rows)), truth)


def test_inputs_of_other_types_are_computed_in_float64():
    (comparison,) = parse("a + b <= 16777217")
    values = {"a": np.array([2**24], dtype=np.float32), "b": np.array([1], dtype=np.int8)}
    result = comparison.left.evaluate(values)
    assert result.dtype == np.float64 and result.tolist() == [16777217.0]
    assert comparison.holds({"a": 2**24, "b": 2}) is False


@given(conditions(), st.lists(st.fractions(-5, 5), min_size=8, max_size=8))
def test_coefficients_are_exact_and_rounded_once(condition, point):
    left, right, _, text = condition
    comparison = read(left, right, text)
    nothing = dict.fromkeys(REFERENCES, Fraction(0))
    values = dict(zip(REFERENCES, point, strict=True))

    def difference(values: dict) -> Fraction:
        return by_fractions(left, values) - by_fractions(right, values)

    for function, part in (
        (lambda values: by_fractions(left, values), comparison.left),
        (lambda values: by_fractions(right, values), comparison.right),
        (difference, comparison),
    ):
        exact, constant = part.exact()
        assert sum((c * values[k] for k, c in exact.items()), constant) == function(values)
        constant = function(nothing)
        unit = {k: function(nothing | {k: Fraction(1)}) - constant for k in REFERENCES}
        truth = {k: float(c) for k, c in unit.items() if float(c) != 0}
        assert part.linear() == (truth, float(constant))


@given(conditions())
def test_references_places_and_text(condition):
    left, right, relation, text = condition
    comparison = read(left, right, text)
    assert comparison.relation == {"≤": "<=", "≥": ">="}.get(relation, relation)
    assert comparison.text == text.strip()
    assert comparison.references == tuple(comparison.places)
    assert [*comparison.places.values()] == sorted(comparison.places.values())
    used = {token for token, _, _ in left.tokens + right.tokens}
    assert {k for k in comparison.references if isinstance(k, str)} == {
        key for key, name in NAMES.items() for text in used if FEATURES.get(text) == name
    }
    assert set(comparison.linear()[0]) <= set(comparison.references)
    for reference, at in comparison.places.items():
        assert text[at] in (("x",) if isinstance(reference, int) else ("`", reference[0]))


# Examples.


@pytest.mark.parametrize(
    ("text", "relation", "coefficients", "constant"),
    [
        ("water <= 0.5*cement", "<=", {"water": 1, "cement": -0.5}, 0),
        ("a + b == 100", "==", {"a": 1, "b": 1}, -100),
        ("`fly ash` >= 2", ">=", {"fly ash": 1}, -2),
        ("x[3] + 2*x[0] <= 4", "<=", {3: 1, 0: 2}, -4),
        ("x [ 3 ]+x<4", "<", {3: 1, "x": 1}, -4),
        ("-(a - 2*b)/4 < 3", "<", {"a": -0.25, "b": 0.5}, -3),
        ("a≤.5", "<=", {"a": 1}, -0.5),
        ("1e3>=a", ">=", {"a": -1}, 1000),
        ("`a``b` > `3`", ">", {"a`b": 1, "3": -1}, 0),
        ("`<= 3` > x[003]", ">", {"<= 3": 1, 3: -1}, 0),
        ("a + b - a <= b", "<=", {}, 0),
        ("0*a <= 3", "<=", {}, -3),
        ("3*(2 - (a + 1)) <= 2*3", "<=", {"a": -3}, -3),
        ("a/3 <= 1/3", "<=", {"a": 1 / 3}, -1 / 3),
        ("0.1*a + 0.2*a <= 0", "<=", {"a": float(Fraction(0.1) + Fraction(0.2))}, 0),
        ("`True` + `and` + in + _ <= 0", "<=", {"True": 1, "and": 1, "in": 1, "_": 1}, 0),
        ("水 + 泥2 <= 1", "<=", {"水": 1, "泥2": 1}, -1),
        ("1 <= 2", "<=", {}, -1),
        ("5e-324*a/2 <= 0", "<=", {}, 0),
        ("1e308*a*10/10 <= 1e308", "<=", {"a": 1e308}, -1e308),
    ],
)
def test_conditions_as_users_write_them(text, relation, coefficients, constant):
    (comparison,) = parse(text)
    assert comparison.text == text
    assert comparison.relation == relation
    assert comparison.linear() == (coefficients, constant)


def test_features_that_cancel_are_still_named():
    (comparison,) = parse("a + b - a <= b + 0*x[1]")
    assert comparison.references == ("a", "b", 1)
    assert comparison.places == {"a": 0, "b": 4, 1: 19}
    assert comparison.left.linear() == ({"b": 1.0}, 0.0)


def test_a_chain_compares_all_neighbours():
    first, second = parse(" 2200 <= cement + slag+water  < 2400 ")
    assert (first.text, first.relation) == ("2200 <= cement + slag+water", "<=")
    assert (second.text, second.relation) == ("cement + slag+water  < 2400", "<")
    assert first.references == second.references == ("cement", "slag", "water")
    assert first.places == second.places == {"cement": 9, "slag": 18, "water": 23}
    assert first.linear() == ({"cement": -1, "slag": -1, "water": -1}, 2200)
    assert second.linear() == ({"cement": 1, "slag": 1, "water": 1}, -2400)


@pytest.mark.parametrize(
    "text", ["a == b == c", "1 < a <= b ≤ 3", "3 > a >= b ≥ c", "a <= b == c < 2", "a == b >= c"]
)
def test_chains_in_one_direction_are_accepted(text):
    comparisons = parse(text)
    values = {"a": 2.0, "b": 2.0, "c": 2.0}
    for part in comparisons:
        assert text[text.index(part.text) :].startswith(part.text)
    python = text.replace("≤", "<=").replace("≥", ">=")
    assert all(part.holds(values) for part in comparisons) == eval(python, values.copy())


def test_places_are_those_of_the_comparison_in_the_whole_text():
    assert [part.places for part in parse("a <= b <= a")] == [{"a": 0, "b": 5}, {"b": 5, "a": 10}]


def test_missing_values_satisfy_nothing():
    for relation in RELATIONS:
        (comparison,) = parse(f"a {relation} a")
        assert comparison.holds({"a": math.nan}) is False


def test_long_sums_need_no_recursion():
    names = [f"f{k}" for k in range(3 * sys.getrecursionlimit())]
    (comparison,) = parse(" + ".join(names) + " <= " + "-" * 5000 + "1")
    assert comparison.linear() == (dict.fromkeys(names, 1.0), -1.0)
    assert comparison.left.evaluate(dict.fromkeys(names, 1.0)) == len(names)
    (comparison,) = parse("a" + "*1" * 5000 + " <= 2")
    assert comparison.linear() == ({"a": 1.0}, -2.0)


def test_parentheses_may_be_nested_and_repeated():
    deep = "(" * MAX_NESTED + "a" + ")" * MAX_NESTED
    (comparison,) = parse(" + ".join([deep] * 100) + " <= 1")
    assert comparison.linear() == ({"a": 100.0}, -1.0)


def test_comparisons_are_values():
    one, two = parse("a + 1 <= `b c`")[0], parse("a + 1 <= `b c`")[0]
    assert one == two and hash(one) == hash(two) and one != parse("a + 1 < `b c`")[0]
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.text = "a"


def test_strings_of_numpy_are_strings():
    assert parse(np.str_("a <= 3")) == parse("a <= 3")


# Errors: the text, the place, and parts of the message.

ERRORS = [
    ("a + b", "     ^", "there is no relation", "<=, <, >=, > and =="),
    ("a + b  ", "     ^", "there is no relation"),
    ("a = 3", "  ^", "= is not a relation", "Write == for equality."),
    ("a === 3", "    ^", "= is not a relation", "Write == for equality."),
    ("a =< 3", "  ^", "=< is not a relation", "Write <=."),
    ("a => 3", "  ^", "=> is not a relation", "Write >=.", "treeopt.Implies"),
    ("a < = 3", "    ^", "blank within <=", "Remove"),
    ("a != 3", "  ^", "not equal", "treeopt.Forbid"),
    ("a <> 3", "  ^", "not equal", "treeopt.Forbid"),
    ("a ≠ 3", "  ^", "not equal", "treeopt.Forbid"),
    ("a * b <= 3", "  ^", "product of two features is not linear", "by numbers only"),
    ("2*a*3*`b c` <= 3", "     ^", "product of two features"),
    ("1 <= (a - a)*(b + 1)", "            ^", "product of two features"),
    ("a/b <= 3", " ^", "division by a feature", "a <= 2*b"),
    ("1/(2 + x[1]) <= 3", " ^", "division by a feature"),
    ("a/0 <= 3", " ^", "division by zero", "another number"),
    ("a/(2 - 2.0) <= 3", " ^", "division by zero"),
    ("a/(1/49*49 - 1) <= 3", " ^", "division by zero"),
    ("a/(1e16 + 1 - 1e16) <= 3", " ^", "division by zero"),
    ("a/1e-400 <= 3", " ^", "division by zero"),
    ("a**2 <= 3", " ^", "powers are not supported", "not linear"),
    ("3 >= a ^ 2", "       ^", "powers are not supported"),
    ("a² <= 3", " ^", "powers are not supported"),
    ("a//2 <= 3", " ^", "rounding down"),
    ("a % 2 <= 3", "  ^", "% has no meaning"),
    ("max(a, b) <= 3", "^", "functions are not supported", "one constraint per feature"),
    ("3 >= abs (a - b)", "     ^", "functions are not supported", "-3 <= a <= 3"),
    ("log(a) <= 3", "^", "functions are not supported", "linear"),
    ("1 + Cement (kg) <= 3", "    ^", "functions", "parentheses in backticks"),
    ("a <= 3 and b <= 2", "       ^", "joined by and", "of its own", "treeopt.Implies"),
    ("a <= 3 AND b <= 2", "       ^", "joined by and", "of its own"),
    ("a <= 3 & b <= 2", "       ^", "joined by and", "of its own"),
    ("a <= 3 && b <= 2", "       ^", "joined by and", "of its own"),
    ("a <= 3 or b <= 2", "       ^", "joined by or", "treeopt.Implies or treeopt.Forbid"),
    ("a <= 3 | b <= 2", "       ^", "joined by or", "treeopt.Implies or treeopt.Forbid"),
    ("a <= 3 || b <= 2", "       ^", "joined by or"),
    ("a <= 3 if b <= 2", "       ^", "if is not supported", "treeopt.Implies"),
    ("and <= 3", "^", "neither a number nor a feature", "backticks"),
    ("a <= or", "     ^", "neither a number nor a feature", "`or`"),
    ("not a <= 3", "^", "not is not supported", "opposite relation"),
    ("(a <= 3) & (b <= 2)", "   ^", "inside parentheses", "of its own"),
    ("(a + 2 <= 3", "^", "parenthesis is not closed"),
    ("((a + 2) <= (3)", "^", "parenthesis is not closed"),
    ("a <= (3 + (b)", "     ^", "parenthesis is not closed"),
    ("a) <= 3", " ^", "never opened"),
    ("a <= 3)", "      ^", "never opened"),
    ("a <= ()", "      ^", "missing before ')'"),
    ("`fly ash <= 3", "^", "backtick is not closed"),
    ("a + `b``c <= 3", "    ^", "backtick is not closed"),
    ("`` <= 3", "^", "no name between the backticks"),
    ("a <=", "    ^", "missing after '<='", "Complete"),
    ("a <= 3 +  ", "        ^", "missing after '+'", "Complete"),
    ("a +", "   ^", "missing after '+'"),
    ("a <= -", "      ^", "missing after '-'"),
    ("(", " ^", "missing after '('"),
    ("<= 3", "^", "missing before '<='"),
    ("a + <= 3", "    ^", "missing before '<='"),
    ("a + * 2 <= 3", "    ^", "missing before '*'"),
    ("a < > 3", "    ^", "missing before '>'"),
    ("fly ash <= 3", "    ^", "no operator between", "`fly ash`"),
    ("3 <= fly ash 2 or b", "         ^", "no operator between", "`fly ash 2`"),
    ("2cement <= 3", " ^", "no operator between", "Write 2*cement for a product", "`2cement`"),
    ("water <= 0.5 fly ash", "             ^", "Write 0.5*fly for a product", "`0.5 fly ash`"),
    ("1 2 <= a", "  ^", "no operator between"),
    ("0x10 <= a", " ^", "no operator between"),
    ("1.2.3 <= a", "   ^", "no operator between"),
    ("2(a + b) <= 3", " ^", "no operator before this", "*"),
    ("(a)(2) <= 3", "   ^", "no operator before this"),
    ("(a b) <= 3", "   ^", "no operator between", "`a b`"),
    ("x[1] a <= 3", "     ^", "no operator before this"),
    ("`a` `b` <= 3", "    ^", "no operator before this"),
    ("a.b <= 3", " ^", "name with a point", "`a.b`"),
    ("3 >= a.b.c1 + 2", "      ^", "name with a point", "`a.b.c1`"),
    ("a.5 <= 3", " ^", "no operator between", "`a.5`"),
    ("a $ b", "  ^", "'$' has no meaning", "backticks"),
    ("? <= b", "^", "'?' has no meaning", "backticks"),
    ("a\u200b <= b", " ^", r"'\u200b' has no meaning"),
    ("a − b <= 3", "  ^", "not a minus sign", "Write -."),
    ("2 × b <= 3", "  ^", "not an operator", "Write *."),
    ("a <= 0,5", "      ^", "comma", "Write 0.5"),
    ("a <= 1; b <= 2", "      ^", "semicolon", "of its own"),
    ("mode == 'fast'", "        ^", "quoted text", "treeopt.Forbid({...})", "categories"),
    ('"fly ash" <= 2', "^", "quoted text", "backticks"),
    ("mode in ['a']", "     ^", "in is not supported", "categories"),
    ("x[1.5] <= 2", "  ^", "is an integer", "x[3]"),
    ("x[-1] <= 2", "  ^", "never negative", "x[0]"),
    ("x[a] <= 2", "  ^", "is an integer", "only its name"),
    ("x['a'] <= 2", "  ^", "is an integer", "only its name"),
    ("x[] <= 2", "  ^", "is an integer"),
    ("x[1_0] <= 2", "  ^", "is an integer"),
    ("x[" + "9" * 5000 + "] <= 2", "  ^", "is an integer"),
    ("x[", " ^", "bracket is not closed"),
    ("x[3 <= 2", " ^", "bracket is not closed"),
    ("x[3, 4] <= 2", " ^", "bracket is not closed"),
    ("1 + y[3] <= 2", "     ^", "brackets are only for", "backticks"),
    ("[a] <= 2", "^", "brackets are only for"),
    ("a <= b >= c", "       ^", "different directions", "two constraints"),
    ("a > b == c ≤ d", "           ^", "different directions", "two constraints"),
    ("a <= 1e400", "     ^", "too large for a float64"),
    ("a <= " + "9" * 5000, "     ^", "too large for a float64"),
    ("a <= 1e308*10", "          ^", "too large for a float64"),
    ("1 - a*1e308*10 <= 1", "    ^", "factor of this feature is too large"),
    ("b <= 1e308*(a + a)", "            ^", "factor of this feature is too large"),
    ("1e308*a <= -1e308*a", "      ^", "factor of this feature is too large"),
    ("1e308 + a + 1e308 <= 1", "^", "sum of the numbers is too large"),
    ("a == True", "     ^", "neither a number nor a feature", "Write 1."),
    ("False <= a", "^", "neither a number nor a feature", "Write 0."),
    ("a <= None", "     ^", "neither a number nor a feature", "Write a number."),
    ("a <= 1_000", "      ^", "underscore", "Write 1000"),
    ("(" * 60 + "a <= 3", " " * MAX_NESTED + "^", "nested"),
    ("a\n+ b\n$ 2", "      ^", "'$' has no meaning"),
    ("水 + 泥 $ 3", "        ^", "'$' has no meaning"),
    ("e\u0301 $ 3", "  ^", "'$' has no meaning"),
]


@pytest.mark.parametrize(
    ("text", "caret", "parts"), [pytest.param(t, c, p, id=t[:20]) for t, c, *p in ERRORS]
)
def test_errors_show_the_place_and_the_remedy(text, caret, parts):
    with pytest.raises(InputError) as caught:
        parse(text, "limits")
    message, line, pointer = str(caught.value).split("\n")
    assert message.startswith("limits: cannot read ")
    for part in parts:
        assert part in message
    assert message.endswith(".") and ".." not in message.replace("...", "")
    assert pointer == "    " + caret
    assert line.startswith("    " + text.replace("\n", " ").replace("\u200b", " ")[:MAX_LINE])


def test_a_whole_message():
    with pytest.raises(InputError) as caught:
        parse("a * b <= 3")
    assert str(caught.value) == (
        "constraints: cannot read 'a * b <= 3': a product of two features is not linear. "
        "Multiply features by numbers only.\n"
        "    a * b <= 3\n"
        "      ^"
    )


@pytest.mark.parametrize(
    "text", [None, 3, b"a <= 3", ["a <= 3"], 10**5000], ids=lambda x: type(x).__name__
)
def test_what_is_not_text_is_refused(text):
    with pytest.raises(InputError, match=r"^limits: cannot read .*: this is not text\. Pass"):
        parse(text, "limits")


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_empty_text_is_refused(text):
    with pytest.raises(InputError, match=r"^limits: cannot read ' ?.*': the text is empty\. Pass"):
        parse(text, "limits")


@pytest.mark.parametrize("n_before", [0, 30, 1000])
@pytest.mark.parametrize("n_after", [0, 30, 1000])
def test_messages_about_long_texts_show_the_place_only(n_before, n_after):
    text = "a + " * n_before + "$" + " + b" * n_after
    with pytest.raises(InputError) as caught:
        parse(text)
    message, line, pointer = str(caught.value).split("\n")
    assert line[len(pointer) - 1] == "$"
    assert len(line) <= MAX_LINE + 12 and len(message) < 400
    assert line.startswith("    ... ") == (n_before > 0 and len(text) > MAX_LINE)
    assert line.endswith(" ...") == (n_after > 0 and len(text) > MAX_LINE)


def test_other_modules_point_too():
    assert pointed("a <= 3", 0, "constraints[1]", "no feature is called 'a'", "Write x[0].") == (
        "constraints[1]: cannot read 'a <= 3': no feature is called 'a'. Write x[0].\n"
        "    a <= 3\n"
        "    ^"
    )


# Any text at all.

SNIPPETS = [
    *["a", "x", "x[1]", "`b c`", "1", "0.5", ".", "1e3", "1e400", "1_0", "max", "and", "True"],
    *["(", ")", "[", "]", "`", "'", "+", "-", "*", "/", "**", "//", "=", "==", "<=", "<", ">"],
    *["!=", "&", "|", ",", " ", "\n", "²", "é", "\u0301", "水", "\ud800", "\x00", "0", "1e308"],
    *["≤", "not", "in"],
]


@given(
    st.one_of(
        st.text(),
        st.text("abx[]()+-*/<>=!0123456789._`'\"&|^,≤≥ eE"),
        st.lists(st.sampled_from(SNIPPETS), max_size=12).map("".join),
        st.lists(st.sampled_from(SNIPPETS), max_size=12).map(" ".join),
    )
)
@example("a/(1e-200*1e-200) <= 1")
@example("1/5e-324 <= a")
def test_any_text_is_read_or_refused(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            comparisons = parse(text)
        except InputError as error:
            assert len(str(error).split("\n")) == (3 if text.strip() else 1)
            return
        assert comparisons
        for comparison in comparisons:
            assert comparison.text in text
            coefficients, constant = comparison.linear()
            assert all(map(math.isfinite, [*coefficients.values(), constant]))
            with np.errstate(all="ignore"):
                assert isinstance(comparison.holds(dict.fromkeys(comparison.references, 1.0)), bool)
