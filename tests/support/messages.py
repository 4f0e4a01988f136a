"""Matching messages."""

import re


def says(*parts: str) -> str:
    """Return a pattern that matches a message with these parts in order."""
    return "(?s)" + ".*".join(map(re.escape, parts))
