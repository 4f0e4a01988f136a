"""Hypothesis profiles, chosen with HYPOTHESIS_PROFILE, Ctrl-C, and the way to the benchmarks."""

import importlib
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

BENCH = Path(__file__).resolve().parent.parent / "bench"

settings.register_profile("ci", deadline=None, derandomize=False, print_blob=True, max_examples=50)
settings.register_profile("dev", deadline=None, print_blob=True, max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure():
    """Let Ctrl-C work where a shell has switched it off: in commands that end with ``&``."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def bench():
    """Return a function that imports a module of the benchmarks."""
    sys.path.insert(0, str(BENCH))
    yield importlib.import_module
    sys.path.remove(str(BENCH))
