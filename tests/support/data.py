"""Data sets that a test needs and that may be missing."""

import pytest

from treeopt.datasets import available


def needs(name: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test if no folder holds the data set; OpenML is not asked."""
    reason = f"the data set {name} is missing: set TREEOPT_DATA to a folder that holds it"
    return pytest.mark.skipif(name not in available(), reason=reason)
