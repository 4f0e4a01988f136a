"""Numbers at the edge: last places, missing values, infinities, limits before the search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgboost as xgb

import treeopt
from tests.support.decisions import SENSES, change_settings, tree_of
from treeopt import AtMost, Implies, Price, Status
from treeopt.model.link import Link

LADDER = tree_of([(0, float(k), 0.0, 1.0) for k in range(9)], 2)
"""The number of integers from 0 to 8 that are below feature 0."""

METHODS = ["auto", "exact"]


# Rows with one feature


@pytest.mark.parametrize("options", [{"integer": [0]}, {"categories": {0: [1, 3, 7]}}, {}])
@pytest.mark.parametrize(
    "row",
    [
        "0.1*x[0] == 0.3",
        "0.7*x[0] == 2.1",
        "0.1*x[0] + 0.2*x[0] == 0.9",
        "0*x[1] + x[0]*1 == 3",
        "x[0] + 10000000000 == 10000000003",
        Implies("x[0] >= 0", "0.1*x[0] == 0.3"),
    ],
    ids=str,
)
def test_equalities_on_one_feature(row: Any, options: dict[str, Any]) -> None:
    res = treeopt.maximize(LADDER, [(0, 9), (0, 1)], constraints=row, **options)
    assert res.status is Status.OPTIMAL
    # A consequence holds up to a few last places, and there is a cut at 3.
    assert res.fun == 3.0 or (isinstance(row, Implies) and not options)
    assert res.x[0] == pytest.approx(3.0, rel=1e-15)


def test_an_equality_and_a_fixed_value() -> None:
    res = treeopt.maximize(
        LADDER, [(0, 9), (0, 1)], fixed={0: 3}, constraints=["0.1*x[0] == 0.3", "x[0] == 3"]
    )
    assert res.status is Status.OPTIMAL and res.x[0] == 3


def test_terms_that_cancel() -> None:
    """The computed sum is not monotone: it is below 5 at one number, and above it before."""
    number = 5.000000000057727
    res = treeopt.maximize(
        LADDER,
        [(0, 9), (0, 1)],
        categories={0: [number, number + 1]},
        constraints="100000*x[0] - 99999*x[0] <= 5",
    )
    assert 100000 * number - 99999 * number <= 5
    assert res.status is Status.OPTIMAL and res.x[0] == number


@pytest.mark.parametrize("method", METHODS)
def test_terms_that_cancel_beside_others(method: str) -> None:
    number, values = 5.000000000057727, [0.0, 1.0, 2.0]
    res = treeopt.maximize(
        tree_of([(0, 1.0, 0.0, 50.0), (1, 0.5, 0.0, 1.0), (2, 0.5, 0.0, 1.0)], 3),
        [(0, 9)] * 3,
        categories={0: [0.0, number], 1: values, 2: values},
        constraints="100000*x[0] - 99999*x[0] + x[1] + x[2] <= 5",
        method=method,
    )
    assert res.status is Status.OPTIMAL and res.fun == 50.0


# Missing values


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [["x[0] + x[1] == 1"], ["x[0] + x[1] <= 1", "x[0] >= x[1] - 1"]])
def test_a_point_does_not_leave_its_box_for_the_missing_one(rows: list[str], method: str) -> None:
    """0 means missing and costs 10. Its neighbors do not."""
    model = tree_of([(0, 100.0, 0.0, 10.0)], 2, missing_value=0.0)
    assert model.predict([[0.0, 1.0], [1e-30, 1.0]]).tolist() == [10.0, 0.0]
    res = treeopt.minimize(
        model, [(-5, 5), (0, 1)], constraints=rows, cost={1: -1.0}, method=method
    )
    assert res.status is Status.OPTIMAL and res.fun == pytest.approx(-1.0, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("row", ["x[0] + x[1] > 4", "x[0] > 1", "x[0] + x[1] >= 4"])
def test_numbers_that_round_to_the_missing_one(row: str, method: str) -> None:
    """XGBoost reads 1.00000001 in single precision, where it is 1."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(1, 2, 400), rng.uniform(0, 3, 400)])
    X[:200, 0] = 1.0
    y = np.where(X[:, 0] == 1.0, -5.0, 0.0) + 0.1 * X[:, 1]
    model = xgb.XGBRegressor(n_estimators=20, max_depth=2, missing=1.0).fit(X, y)
    near = np.array([[1.00000001, 3.0]])
    res = treeopt.minimize(model, [(1, 2), (0, 3)], constraints=row, integer=[1], method=method)
    assert res.status is Status.OPTIMAL
    assert res.bound <= res.fun <= model.predict(near)[0] + res.rounding


# Infinite predictions


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sense", SENSES)
@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(np.float64, 709.1, 709.7), (np.float32, 88.1, 89.7)]
)
def test_exponentials_near_overflow(
    dtype: Any, low: float, high: float, sense: str, method: str
) -> None:
    leaves = np.linspace(low, high, 8)
    steps = [(0, float(k), *(leaves[[k - 1, k]] - leaves[[0, 0]])) for k in range(1, 8)]
    model = tree_of(
        [(0, 0.5, leaves[0], leaves[0]), *((k, c, 0.0, b - a) for k, c, a, b in steps)],
        2,
        dtype=dtype,
        link=Link("exp"),
    )
    X = np.column_stack([np.linspace(0.25, 7.25, 29), np.zeros(29)])
    with np.errstate(over="ignore"):
        known = model.predict(X[X[:, 0] <= 6])
        res = SENSES[sense](model, [(0, 8), (0, 1)], constraints="x[0] + x[1] <= 6", method=method)
    assert res.status is not Status.INFEASIBLE and res.x is not None
    if sense == "min":
        assert res.fun <= known.min() * (1 + 1e-5) and res.bound <= known.min()
    else:
        assert res.fun >= known.max() * (1 - 1e-5) and res.bound >= known.max()


def test_only_infinite_predictions() -> None:
    model = tree_of([(0, 1.0, 90.0, 91.0)], 2, dtype=np.float32, link=Link("exp"))
    with np.errstate(over="ignore"):
        res = treeopt.minimize(model, [(0, 4), (0, 1)], constraints="x[0] + x[1] <= 3")
    assert res.fun == np.inf and res.x is not None and "overflows" in res.message


# Limits, and points in the middle


@pytest.mark.parametrize("method", ["auto", "local", "stepdirect"])
def test_a_limit_before_the_search(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    change_settings(monkeypatch, long_step=0)
    res = treeopt.minimize(
        LADDER, [(0, 9), (0, 1)], constraints="x[0] + x[1] >= 1", time_limit=1e-9, method=method
    )
    assert res.status is Status.TIME_LIMIT and not res.success
    assert not res.bound > 1.0


def test_what_is_not_needed_is_0() -> None:
    res = treeopt.maximize(
        tree_of([(0, 5.0, 0.0, 1.0)], 4), [(0, 10)] * 4, constraints=AtMost(3, range(4))
    )
    assert np.count_nonzero(res.x) == 1


def test_contradictions_of_integers_come_soon() -> None:
    """Without a bound, too many integers would have to be tried."""
    res = treeopt.minimize(
        Price({0: 1.0}),
        [(0, 6)] * 3,
        integer=[0, 1, 2],
        constraints="0.1*x[0] + 0.3333333333333333*x[1] == 1.666666666667",
    )
    assert res.status is Status.INFEASIBLE and "0.1*x[0]" in res.conflict[0]
