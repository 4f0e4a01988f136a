"""`Decision.binding`: what the optimum gains without each constraint and bound."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import treeopt
from tests.support.decisions import SENSES, hardest, tree_of
from tests.support.messages import says
from treeopt import AtMost, Forbid, Implies, InputError, Predicted, Price, Product, Status
from treeopt.model.categories import truncated

INF = np.inf

KINDS = truncated([0, 1, 2], np.dtype(float), labels=("red", "green", "blue"), recode="sorted")
MODEL = replace(
    tree_of([(0, 4.0, 0.0, 2.0), (1, 5.0, 1.0, 0.0), (2, [0, 2], 1.0, 0.0)], 3,
            categories={2: KINDS}),
    feature_names=("cement", "water", "kind"),
)  # fmt: skip
"""2 if cement > 4, plus 1 if water <= 5, plus 1 if the kind is red or blue."""

BOX = {"cement": (0, 10), "water": (0, 8)}
STEPS = tree_of([(0, 1.0, 0.0, 1.0), (0, 2.0, 0.0, 4.0)], 1)
"""0 up to 1, then 1 up to 2, then 5."""


# By hand


def test_nothing_binds() -> None:
    assert treeopt.maximize(MODEL, BOX).binding() == {}
    assert treeopt.maximize(MODEL, BOX, constraints="cement + water <= 17").binding() == {}


def test_a_row_limits_a_price() -> None:
    res = treeopt.maximize(
        Price({"a": 3.0, "b": 1.0}), {"a": (0, 10), "b": (0, 10)}, constraints="a + b <= 12"
    )
    assert res.fun == pytest.approx(32)
    assert res.binding() == pytest.approx({"upper bound of a": 4.0, "a + b <= 12": 8.0}, rel=1e-6)
    assert list(res.binding()) == ["a + b <= 12", "upper bound of a"]


def test_a_constraint_may_bind_although_it_has_slack() -> None:
    res = treeopt.maximize(STEPS, [(0, 9)], constraints="x[0] <= 1.75")
    assert res.fun == 1 and res.slack["x[0] <= 1.75"] > 0
    assert res.binding() == {"x[0] <= 1.75": 4.0}


def test_a_constraint_without_slack_need_not_bind() -> None:
    res = treeopt.minimize(STEPS, [(0, 9)], constraints="x[0] == 0.5")
    assert res.slack["x[0] == 0.5"] == 0 and res.binding() == {}


@pytest.mark.parametrize(
    ("sense", "pair", "gains"),
    [
        ("max", (0, 0.5), {"upper bound of x[0]": 5.0}),
        ("max", (0, 1.5), {"upper bound of x[0]": 4.0}),
        ("max", (0, 2.5), {}),
        ("min", (2.5, 9), {"lower bound of x[0]": 5.0}),
        ("min", (1.5, INF), {"lower bound of x[0]": 1.0}),
        ("min", (0.5, 9), {}),
    ],
)
def test_bounds(sense: str, pair: tuple[float, float], gains: dict[str, float]) -> None:
    assert SENSES[sense](STEPS, [pair]).binding() == gains


def test_bounds_of_integers() -> None:
    # 2 is not above the cut, and 2.5 allows no other integer.
    res = treeopt.maximize(STEPS, [(0, 2.5)], integer=[0])
    assert res.fun == 1 and res.binding() == {"upper bound of x[0]": 4.0}


def test_a_cost_that_a_bound_stops() -> None:
    res = treeopt.minimize(STEPS, [(3, 9)], cost={0: 0.5})
    assert res.fun == 6.5
    assert res.binding() == {"lower bound of x[0]": INF}
    res = treeopt.minimize(STEPS, [(0, 9)], cost={0: 0.5}, constraints="x[0] >= 3")
    assert res.binding() == {"x[0] >= 3": 6.5}


def test_predicted_limits() -> None:
    strong = Predicted(STEPS, low=5)
    res = treeopt.minimize(Price({0: 2.0}), [(0, 9)], constraints=strong)
    assert res.fun == pytest.approx(4)
    ((label, gain),) = res.binding().items()
    assert [label] == list(res.slack) and gain == res.fun
    # The prediction must be at most 1, and without this limit it is 5.
    ((_, gain),) = (
        treeopt.maximize(STEPS, [(0, 9)], constraints=Predicted(STEPS, high=1)).binding().items()
    )
    assert gain == 4


def test_categories_and_names() -> None:
    res = treeopt.maximize(
        MODEL, {**BOX, "cement": (0, 3)}, categories={"kind": ["green"]},
        constraints="water >= 6",
    )  # fmt: skip
    assert res.fun == 0 and res.binding() == {"upper bound of cement": 2.0, "water >= 6": 1.0}
    res = treeopt.maximize(MODEL, BOX, constraints=Forbid({"kind": ["red", "blue"]}))
    assert list(res.binding().values()) == [1.0] and res.binding().keys() == res.slack.keys()


def test_logical_constraints() -> None:
    rules = [AtMost(0, ["cement"]), Implies("cement >= 0", "water >= 6")]
    res = treeopt.maximize(MODEL, BOX, constraints=rules)
    assert res.fun == 1 and dict(zip(res.slack, (2.0, 1.0), strict=True)) == res.binding()


def test_a_product() -> None:
    res = treeopt.maximize(Product(0, STEPS), [(0, 1.5)])
    assert res.fun == 1.5 and res.binding() == {"upper bound of x[0]": INF}


def test_fixed_features_have_no_bounds() -> None:
    assert treeopt.maximize(MODEL, BOX, fixed={"cement": 1}).binding() == {}
    assert treeopt.maximize(MODEL, {**BOX, "cement": 1}).binding() == {}
    problem = treeopt.Problem(MODEL, {**BOX, "cement": (0, 3)})
    assert problem.maximize().binding() == {"upper bound of cement": 2.0}
    assert problem.maximize(fixed={"cement": 1}).binding() == {}


def test_a_boolean_column_stays_one() -> None:
    X = pd.DataFrame({"flag": [True, False] * 4, "a": np.arange(8.0)})
    model = DecisionTreeRegressor(random_state=0).fit(X, X["flag"] + X["a"])
    assert treeopt.maximize(model, X).binding() == {}
    res = treeopt.maximize(model, X, cost={"flag": -10.0})
    assert res.cost == -10 and res.binding() == {}


def test_constraints_that_exclude_the_same_have_no_gain_alone() -> None:
    res = treeopt.maximize(STEPS, [(0, 9)], constraints=["x[0] <= 1.5", "x[0] <= 1.5"])
    assert len(res.slack) == 2 and res.binding() == {}
    res = treeopt.maximize(STEPS, [(0, 1.5)], constraints=["x[0] <= 0.5", "x[0] <= 1.5"])
    assert res.binding() == {"x[0] <= 0.5": 1.0}


# Unbounded without a restriction


@pytest.mark.parametrize("sense", [1, -1])
def test_unbounded_without_a_row(sense: int) -> None:
    decide = treeopt.minimize if sense > 0 else treeopt.maximize
    res = decide(
        Price({"a": -sense}),
        {"a": (0, None), "b": (0, None)},
        constraints=["a <= b", "a + b <= 11"],
    )
    assert res.binding() == pytest.approx({"a + b <= 11": INF, "a <= b": 5.5})


def test_a_model_that_keeps_a_cost_bounded() -> None:
    weak = [Predicted(STEPS, high=1), "x[0] <= 1.25"]
    res = treeopt.maximize(Price({0: 1.0}), [(0, 9)], constraints=weak)
    assert res.binding() == {"x[0] <= 1.25": 0.75}
    # The bound is not needed, because the limit holds only up to 2.
    res = treeopt.maximize(Price({0: 1.0}), [(0, 1.5)], constraints=weak[:1])
    assert res.binding() == {"upper bound of x[0]": 0.5}


# Compared with other calls

LETTERS = list("abcd")


def random_case(seed: int) -> tuple[Any, dict[str, Any], list[Any]]:
    """Return a model, bounds by name, and constraints."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.random((60, 4)), columns=LETTERS)
    X["d"] = rng.integers(0, 5, 60)
    y = np.sin(6 * X["a"] * X["b"]) + X["c"] * X["d"] / 3 + rng.normal(0, 0.1, 60)
    kind = (RandomForestRegressor(5, random_state=0), xgb.XGBRegressor(n_estimators=8, max_depth=3))
    model = kind[seed % 2].fit(X, y)
    ends = {name: np.sort(rng.random(2)) * [0.5, 1.0] for name in "abc"}
    bounds = {name: (float(low), float(high)) for name, (low, high) in ends.items()} | {"d": (1, 3)}
    middle = {name: sum(pair) / 2 for name, pair in bounds.items()}
    constraints: list[Any] = [
        f"a + b <= {middle['a'] + middle['b']:.3f}",
        f"c - a >= {middle['c'] - middle['a'] - 0.1:.3f}",
    ]
    if seed % 3 == 0:
        constraints.append(Implies("d >= 2", f"c <= {middle['c']:.3f}"))
    return model, bounds, constraints


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sense", SENSES)
def test_the_gain_is_the_difference_of_two_calls(sense: str, seed: int) -> None:
    model, bounds, constraints = random_case(seed)
    cost = {"a": 0.3, "c": 0.2} if seed >= 4 else None
    decide, sign = SENSES[sense], 1 if sense == "min" else -1

    def ask(bounds: Any, constraints: Any) -> treeopt.Decision:
        return decide(model, bounds, constraints=constraints, cost=cost, integer=["d"])

    res = ask(bounds, constraints)
    assert res.status is Status.OPTIMAL
    gains, expected = res.binding(), {}
    for label, constraint in zip(res.slack, constraints, strict=True):
        expected[label] = ask(bounds, [each for each in constraints if each is not constraint])
    for name, pair in bounds.items():
        for side, kind in enumerate(("lower", "upper")):
            wide = list(pair)
            wide[side] = (-1e9, 1e9)[side]
            expected[f"{kind} bound of {name}"] = ask({**bounds, name: tuple(wide)}, constraints)
    assert gains.keys() <= expected.keys()
    assert list(gains.values()) == sorted(gains.values(), reverse=True)
    for label, other in expected.items():
        gain = sign * (res.fun - other.fun)
        if gains.get(label) == INF:
            assert gain > 1e8 * 0.2
        else:
            assert gains.get(label, 0.0) == pytest.approx(gain, abs=1e-6)


# Options and ends


def test_the_gap_is_kept() -> None:
    res = treeopt.maximize(STEPS, [(0, 9)], constraints="x[0] <= 1.5", gap=0.5)
    assert res.binding() == {"x[0] <= 1.5": 4.0}


def test_what_is_not_proven_in_time_is_nan() -> None:
    # With the first constraint, there is one point. Without it, the proof takes very long.
    constraints = [AtMost(0, range(20)), "x[0] + x[1] <= 1"]
    res = treeopt.maximize(hardest()[0], [(0, 1)] * 20, constraints=constraints)
    assert res.status is Status.OPTIMAL
    begin = perf_counter()
    gains = res.binding(time_limit=1)
    assert perf_counter() - begin < 20
    assert np.isnan(gains[next(iter(res.slack))])
    # Proven gains come first.
    order = [*map(np.isnan, gains.values())]
    assert order == sorted(order)
    with pytest.raises(InputError, match=says("time_limit is -1")):
        res.binding(time_limit=-1)


def test_the_time_limit_is_that_of_the_decision() -> None:
    """The decision ends at once; without its constraint, the proof takes very long."""
    constraint = AtMost(0, range(20))
    res = treeopt.maximize(hardest()[0], [(0, 1)] * 20, constraints=constraint, time_limit=2)
    assert res.status is Status.OPTIMAL
    begin = perf_counter()
    assert np.isnan(res.binding()[next(iter(res.slack))])
    assert perf_counter() - begin < 60


def test_results_without_a_proof() -> None:
    res = treeopt.maximize(MODEL, BOX, constraints=["cement >= 11"])
    with pytest.raises(InputError, match=says("binding is not available", "INFEASIBLE", "Relax")):
        res.binding()
    res = treeopt.maximize(MODEL, BOX, method="local")
    with pytest.raises(InputError, match=says("binding is not available", "method='auto'")):
        res.binding()


def test_pickles_do_not_hold_the_problem_but_copies_do() -> None:
    model, bounds, constraints = random_case(0)
    res = treeopt.maximize(model, bounds, constraints=constraints)
    gains = res.binding()
    stored = pickle.dumps(res)
    assert b"RandomForestRegressor\x94\x93" not in stored
    again = pickle.loads(stored)
    assert again.fun == res.fun and again.slack == res.slack and str(again) == str(res)
    with pytest.raises(InputError, match=says("pickled", "before pickling", "solve again")):
        again.binding()
    assert copy.copy(res).binding() == gains
    deep = copy.deepcopy(res)
    assert deep.binding() == gains and deep.slack is not res.slack and deep.x.equals(res.x)
