"""Multipliers that solve equations exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from treeopt.exact.general.exact_multipliers import exact_multipliers


@settings(deadline=None)
@given(
    n_rows=st.integers(2, 5),
    n_equations=st.integers(1, 3),
    seed=st.integers(0, 10**6),
)
def test_nearby_multipliers_are_exact(n_rows: int, n_equations: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = rng.choice([-3.0, -0.5, 0.1, 0.25, 1.0, 2.0, 0.0], (n_equations, n_rows))
    exact = [Fraction(int(v)) for v in rng.integers(1, 9, n_rows)]
    rights = [
        sum((Fraction(a) * v for a, v in zip(row.tolist(), exact, strict=True)), Fraction(0))
        for row in factors
    ]
    noisy = np.array([float(v) for v in exact]) * (1 + 1e-12 * rng.standard_normal(n_rows))
    equations = [
        (dict(enumerate(row.tolist())), right) for row, right in zip(factors, rights, strict=True)
    ]
    found = exact_multipliers(noisy, equations)
    assert found is not None
    for row, right in zip(factors, rights, strict=True):
        size = np.abs(row * found).sum()
        assert abs(row @ found - float(right)) <= 1e-14 * size + 1e-300
    np.testing.assert_allclose(found, noisy, rtol=1e-6)


def test_what_cannot_be_solved_nearby() -> None:
    y = np.array([1.0, 0.0])
    assert exact_multipliers(y, [({0: 1.0, 1: 1.0}, Fraction(2))]) is None
    assert exact_multipliers(y, [({1: 1.0}, Fraction(1))]) is None


def test_rows_without_multipliers_stay_out() -> None:
    y = np.array([1 / 3, 0.0, 1.0])
    found = exact_multipliers(y, [({0: 3.0, 1: 5.0, 2: -1.0}, Fraction(0))])
    assert found is not None and found[1] == 0.0
    np.testing.assert_allclose(found, y)
