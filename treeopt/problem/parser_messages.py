"""What the parser of conditions says of text that it cannot read, with the remedy."""

from __future__ import annotations

import unicodedata

from treeopt.errors import shown

MAX_LINE = 100
"""Maximum number of characters that a message shows around the place of an error."""


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
    before = ("... " if start else "") + on_one_line(text[start:at])
    after = on_one_line(text[at:end]) + (" ..." if end < len(text) else "")
    blanks = " " * sum(map(_width, before))
    message = f"{argument}: cannot read {shown(text)}: {problem}. {remedy}"
    return f"{message}\n    {before}{after}\n    {blanks}^"


def on_one_line(text: str) -> str:
    """Return a text with blanks in place of line breaks and the like."""
    return "".join(c if c.isprintable() else " " for c in text)


def _width(character: str) -> int:
    """Return the number of columns of a character in a terminal."""
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


LISTED = "the relations are <=, <, >=, > and =="
SMALLER = "Write the condition with smaller numbers."
ONE_EACH = "Pass each condition as a constraint of its own."
DEPENDS = "For conditions that depend on others, use treeopt.Implies or treeopt.Forbid."
_AND = ("conditions cannot be joined by and", f"{ONE_EACH} {DEPENDS}")
_OR = ("conditions cannot be joined by or", DEPENDS)
_UNEQUAL = (
    f"'not equal' is not supported; {LISTED}",
    "Exclude values by bounds, by the argument categories or by treeopt.Forbid.",
)
_POWER = (
    "powers are not supported",
    "A power of a feature is not linear. Write a power of a number as a number.",
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
    "=": (f"= is not a relation; {LISTED}", "Write == for equality."),
    "=<": (f"=< is not a relation; {LISTED}", "Write <=."),
    "=>": (f"=> is not a relation; {LISTED}", f"Write >=. {DEPENDS}"),
    "//": ("rounding down is not linear", "Write / for a division."),
    "%": ("% has no meaning here", "Write 0.5*a for 50 % of a."),
    ",": ("a comma has no meaning here", f"Write 0.5, not 0,5. {ONE_EACH}"),
    ";": ("a semicolon has no meaning here", ONE_EACH),
    "`": ("this backtick is not closed", "Add a backtick at the end of the name."),
    "if": ("if is not supported", DEPENDS),
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
    "and": ONE_EACH,
    "or": DEPENDS,
}
"""The remedy for words that are features only in backticks."""

FUNCTIONS = {
    "abs": "Write -3 <= a <= 3 instead of abs(a) <= 3.",
    "max": "Write one constraint per feature instead of max(a, b) <= 3.",
    "min": "Write one constraint per feature instead of min(a, b) >= 3.",
    "sum": "Write a + b instead of sum(a, b).",
}
"""The remedy for some functions."""
