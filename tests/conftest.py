"""Hypothesis profiles; choose one with HYPOTHESIS_PROFILE."""

import os

from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=False, print_blob=True, max_examples=50)
settings.register_profile("dev", deadline=None, print_blob=True, max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
