"""Constraints, costs and several models: every kind and mixture against brute force.

The oracle and what must hold are in `tests.support.brute`, the problems in
`tests.support.questions`. A failure prints the seed; `random_question` makes the problem again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint
from sklearn.ensemble import RandomForestRegressor

import treeopt
from tests.support.brute import Column, Costs, Matrix, Question, Truth, check_general, solve
from tests.support.decisions import FUZZ, change_settings, slow, stump, tree_of
from tests.support.questions import CONSTRAINTS, OBJECTIVES, random_question
from treeopt import (
    AtMost,
    Change,
    Decision,
    Forbid,
    Implies,
    InputError,
    Predicted,
    Price,
    Product,
    Status,
)
from treeopt.model.categories import truncated
from treeopt.model.link import Link

SEEDS = st.integers(0, 2**32 - 1)
FEW = settings(FUZZ, max_examples=8, derandomize=True)
"""The same examples in every run. The slow tests draw new ones."""

MANY = settings(FUZZ, max_examples=1000)


@contextmanager
def telling(question: Question) -> Iterator[None]:
    """Add the question to the message of a failure."""
    try:
        yield
    except Exception as error:
        error.add_note(repr(question))
        raise


def judge(question: Question, ended: bool = True, **more: Any) -> tuple[Decision, Truth]:
    """Ask treeopt and brute force, and compare."""
    with telling(question):
        truth = solve(question)
        res = question.decide(**more)
        check_general(res, question, truth, ended)
    return res, truth


@pytest.mark.parametrize("objective", OBJECTIVES)
@FEW
@given(seed=SEEDS)
def test_objectives(objective: str, seed: int) -> None:
    judge(random_question(seed, objective))


@pytest.mark.parametrize("kind", CONSTRAINTS)
@FEW
@given(seed=SEEDS)
def test_constraints(kind: str, seed: int) -> None:
    judge(random_question(seed, OBJECTIVES[seed % len(OBJECTIVES)], [kind]))


@pytest.mark.parametrize("models", ["softmax", "fitted"])
@FEW
@given(seed=SEEDS)
def test_models(models: str, seed: int) -> None:
    judge(random_question(seed, OBJECTIVES[seed % len(OBJECTIVES)], models=models))


@slow
@pytest.mark.parametrize("models", ["random", "softmax", "fitted"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@MANY
@given(seed=SEEDS)
def test_many_objectives(objective: str, models: str, seed: int) -> None:
    judge(random_question(seed, objective, models=models))


@slow
@pytest.mark.parametrize("kind", CONSTRAINTS)
@MANY
@given(seed=SEEDS)
def test_many_constraints(kind: str, seed: int) -> None:
    judge(random_question(seed, OBJECTIVES[seed % len(OBJECTIVES)], [kind]))


# Stops


def stopping_after(calls: int) -> Callable[[Any], None]:
    """Return a callback that ends the run after some calls."""
    left = iter(range(calls))

    def callback(progress: Any) -> None:
        next(left)  # StopIteration

    return callback


def random_stop(rng: np.random.Generator) -> dict[str, Any]:
    """Return options that end a run at a random moment."""
    options: list[dict[str, Any]] = [
        {"max_evals": int(rng.integers(1, 8))},
        {"time_limit": float(rng.choice([1e-9, 1e-4, 1e-3, 5e-3]))},
        {"callback": stopping_after(int(rng.integers(1, 8)))},
        {"gap": float(rng.choice([0.01, 0.5]))},
    ]
    return options[rng.integers(len(options))]


def judge_stop(seed: int) -> None:
    """Stop at a random moment, with turns so short that there are many moments."""
    rng = np.random.default_rng(seed)
    question = random_question(seed, OBJECTIVES[seed % len(OBJECTIVES)])
    options = random_stop(rng)
    with pytest.MonkeyPatch.context() as patch:
        change_settings(patch, first_work=1, max_work=1)
        res, _ = judge(question, ended=False, **options)
    with telling(question):
        if res.status is Status.GAP_REACHED:
            assert res.success and res.gap <= options["gap"]
        elif res.status not in (Status.OPTIMAL, Status.INFEASIBLE):
            assert not res.success


@settings(FUZZ, max_examples=40, derandomize=True)
@given(seed=SEEDS)
def test_stops(seed: int) -> None:
    judge_stop(seed)


@slow
@settings(FUZZ, max_examples=3000)
@given(seed=SEEDS)
def test_many_stops(seed: int) -> None:
    judge_stop(seed)


# Methods


def judge_method(seed: int, method: str) -> None:
    """Methods without a proof return feasible points, and most often find one."""
    question = random_question(seed, OBJECTIVES[seed % len(OBJECTIVES)])
    open_ends = [c.values is None and np.isinf([c.low, c.high]).any() for c in question.columns]
    if method == "stepdirect" and any(open_ends):
        return  # refused, unless no term reads the feature
    res, _ = judge(question, ended=False, method=method, max_evals=60)
    with telling(question):
        if res.status is not Status.INFEASIBLE:
            assert np.isnan(res.bound)


@pytest.mark.parametrize("method", ["local", "stepdirect"])
@settings(FUZZ, max_examples=10, derandomize=True)
@given(seed=SEEDS)
def test_methods(method: str, seed: int) -> None:
    judge_method(seed, method)


@slow
@pytest.mark.parametrize("method", ["local", "stepdirect"])
@settings(FUZZ, max_examples=500)
@given(seed=SEEDS)
def test_many_methods(method: str, seed: int) -> None:
    judge_method(seed, method)


def test_points_come_soon() -> None:
    found = {True: 0, False: 0}
    for seed in range(40):
        question = random_question(seed, "sum")
        res, truth = judge(question, ended=False, method="local", max_evals=50)
        if truth.feasible:
            found[res.x is not None] += 1
    assert found[True] > 20 and found[False] <= 1


@FEW
@given(seed=SEEDS)
def test_only_proof(seed: int) -> None:
    judge(random_question(seed, OBJECTIVES[seed % len(OBJECTIVES)]), method="exact")


def test_stepdirect_keeps_strict_inequalities_whose_sides_are_equal() -> None:
    """At x = 0, both sides are 0, and so is the size of all terms."""
    res = treeopt.minimize(
        stump(0, 3.0, 0.0, 1.0),
        [(0, 60)],
        integer=[0],
        constraints=["0 < 0.5*x[0] < 1", AtMost(0, [0])],
        method="stepdirect",
        max_evals=20,
    )
    assert res.x is None and "no point that satisfies all constraints" in res.message


def test_start_may_be_infeasible() -> None:
    found = 0
    for seed in range(40):
        question = random_question(seed, "sum", ["text", "implies"])
        if question.columns[0].is_category:
            continue
        start = np.array([c.values[0] if c.values else max(c.low, -9.0) for c in question.columns])
        res, truth = judge(question, start=start)
        found += truth.feasible and not question.holds(start)
    assert found


# Examples that were wrong once

WRONG_ONCE = [
    (300002, "random", CONSTRAINTS),  # numbers of places in the middle of others
    (300021, "random", ["implies"]),  # an equality as an alternative
    (300025, "random", ["implies"]),  # some cells left out, others divided, as many as before
    (300406, "softmax", CONSTRAINTS),  # a product that is 0
    (300436, "softmax", CONSTRAINTS),  # two inequalities that leave no room
    (300468, "softmax", CONSTRAINTS),  # the same by two constraints
    (300530, "random", CONSTRAINTS),  # only rounding makes it feasible
    (500422, "random", CONSTRAINTS),  # a prediction of 0
    (700096, "random", CONSTRAINTS),  # a strict inequality of a product
    (700151, "fitted", CONSTRAINTS),  # a fee where a number is 0 up to rounding
    (700490, "random", CONSTRAINTS),  # two strict inequalities without an integer between them
]


@pytest.mark.parametrize(("seed", "models", "kinds"), WRONG_ONCE)
def test_what_was_wrong_once(seed: int, models: str, kinds: Sequence[str]) -> None:
    judge(random_question(seed, OBJECTIVES[seed % len(OBJECTIVES)], kinds, models))


def test_numbers_are_round_where_possible() -> None:
    price, bounds = Price({"f": 1.0}), {"w": (0, 8), "f": (0, 100)}
    res = treeopt.maximize(price, bounds, constraints="f <= 2*w")
    assert res.fun == 16.0 and res.bound - 16.0 <= 1e-11


def test_listed_values_that_nothing_reads() -> None:
    model = stump(1, 3.0, 0.0, 1.0)
    listed = {0: [2.0, 3.0, -1.5]}
    res = treeopt.minimize(model, [(-9, 9), (0, 9)], categories=listed, cost={1: 1.0})
    assert res.status is Status.OPTIMAL and res.x[0] in listed[0]


COLORS = truncated([0, 1, 2], np.dtype(float), labels=(10, 11, 12), recode="sorted")


def test_one_integer_without_rows() -> None:
    product = Product(0, stump(0, 3.0, 0.5, -0.5), minus=2.5)
    res = treeopt.minimize(product, [(2.25, 3.25)], integer=[0], constraints=AtMost(1, [0]))
    assert res.fun == 0.25 and res.status is Status.OPTIMAL


def test_prices_of_categories_beside_forbidden_ranges() -> None:
    model = replace(tree_of([1.0], 2, categories={1: COLORS}), feature_names=("b", "d"))
    constraints = [Forbid({"b": (5.0, 7.0)}), Predicted(model, low=-100.0)]
    change = Change({"d": 12}, per={"d": 0.5}, fee={"d": 0.5})
    res = treeopt.minimize(change, {"b": (1.0, 11.0)}, constraints=constraints)
    assert res.fun == 0.0 and res.status is Status.OPTIMAL and res.x["d"] == 12


def test_alternatives_with_several_features() -> None:
    rule = Implies("d/2 + b >= 4", "d*3 < 4.866")
    bounds = {"d": (1.0, 9.0), "b": (0.5, 1.5)}
    listed = {"d": [1.75, 5.5, 7.0]}
    res = treeopt.maximize(Price({"d": 2.0}), bounds, categories=listed, constraints=rule)
    assert res.fun == 11.0 and res.x["b"] < 1.25
    rule = Implies("x*0.1 + y <= 9", "y*0.1 + x > 16.4")
    bounds = {"y": (9, 9), "x": (-2, 60)}
    res = treeopt.maximize(Price({"x": -1.0}), bounds, integer=["x"], constraints=rule)
    assert res.fun == -1.0 and res.status is Status.OPTIMAL


def test_an_optimum_of_zero() -> None:
    rows = LinearConstraint([[2, 1], [-0.5, 0]], [0, 0], [1, 1])
    price = Price({"c": -1.0, "a": 1.0})
    res = treeopt.minimize(price, {"c": (-2, 0), "a": (0, 5)}, constraints=rows)
    assert res.status is Status.OPTIMAL and abs(res.fun) <= 1e-9


def test_a_concave_change_and_a_count() -> None:
    rows = ["a - x - f <= -9", "a - x - f >= -9.5"]
    res = treeopt.maximize(
        Change({"a": 0.0}, fee={"a": 1.0}),
        {"a": (0, 1), "x": (0, 10.25), "f": (0, 5)},
        cost={"f": -1.0},
        constraints=[*rows, AtMost(2, ["a", "x", "f"])],
    )
    assert res.fun == pytest.approx(5.0) and res.status is Status.OPTIMAL


def test_a_row_bounds_what_has_no_bound() -> None:
    bounds = {"w": (0, 8), "f": (0, np.inf)}
    res = treeopt.maximize(Price({"f": 1.0}), bounds, constraints="f <= 2*w")
    assert res.status is Status.OPTIMAL and res.fun == pytest.approx(16.0, rel=1e-9)


def test_rows_that_leave_one_number() -> None:
    """0.1 * 3.0 is above 0.3, and 0.1 times the number below 3 is 0.3."""
    res = treeopt.maximize(
        Price({"x": 1.0}),
        {"x": (2.25, 3.25), "y": (-1, 1), "z": (0, 2)},
        fixed={"y": 0.0},
        constraints=["0.1*x + y >= 0.3", "0.1*x - 0.5*y <= 0.3", "z - 0.5*y <= 1"],
    )
    assert res.status is Status.OPTIMAL and res.fun == np.nextafter(3.0, 0.0)


@pytest.mark.parametrize("big", [2e3, 3e6, 1.5e9])
def test_costs_that_cancel(big: float) -> None:
    """What cancels in the slope of a feature does not cancel in the rounding errors of a user."""
    price, cost, rng = Price({0: 0.7, 1: big}), {0: 0.2, 1: -big}, np.random.default_rng(0)
    for low in rng.uniform(0.1, 1, 20):
        bounds = [(low, 2), (0.5, 8.5)]
        res = treeopt.minimize(price, bounds, cost=cost, method="exact")
        for value in rng.uniform(0.5, 8.5, 20):
            one = treeopt.minimize(price, [(low, low), (value, value)], cost=cost)
            assert one.fun >= res.bound and res.status is Status.OPTIMAL


def test_an_equality_on_one_feature_means_the_exact_number() -> None:
    model = stump(0, 0.3, 0.0, 5.0)
    exact = treeopt.maximize(model, [(0, 1)], constraints="x[0] == 0.3")
    assert exact.fun == 0.0 and exact.x[0] == 0.3
    beyond = treeopt.maximize(model, [(0.1 + 0.2, 1)], constraints="x[0] == 0.3")
    assert beyond.fun == 5.0 and beyond.x[0] == 0.1 + 0.2


def test_limits_beyond_the_largest_prediction() -> None:
    """A prediction that may be infinite may exceed any limit."""
    splits = [(j, 1.0, 95.0, 1.0) for j in range(4)]
    model = tree_of(splits, 4, dtype=np.float32, link=Link("exp"))
    price = Price(dict.fromkeys(range(4), 1.0))
    for high in (1e38, 3.5e38, 1e300):
        res = treeopt.minimize(price, [(0, 2)] * 4, constraints=Predicted(model, high=high))
        assert res.status is Status.OPTIMAL and np.isfinite(model.predict([res.x])[0])


def test_products_with_infinite_predictions() -> None:
    model = tree_of([(0, 1.0, 1.0, 95.0)], 2, dtype=np.float32, link=Link("exp"))
    for sense, fun in ((treeopt.minimize, 0.0), (treeopt.maximize, np.inf)):
        res = sense(Product(1, model), [(0, 2), (0, 1)])
        assert res.status is Status.OPTIMAL and res.fun == res.bound == fun


def test_infinite_bounds_are_refused_where_the_cost_has_no_end() -> None:
    data = np.random.default_rng(0).random((50, 2))
    forest = RandomForestRegressor(5, random_state=0).fit(data, data.sum(axis=1))
    bounds = [(0, np.inf), (0, 1)]
    with pytest.raises(InputError, match="the objective is unbounded"):
        treeopt.maximize(forest, bounds, cost={0: -0.1})
    assert treeopt.maximize(forest, bounds, cost={0: 0.1}).status is Status.OPTIMAL


@pytest.mark.parametrize("method", ["auto", "local"])
def test_evaluations_keep_their_limit(method: str) -> None:
    for seed in range(10):
        question = random_question(seed, "sum")
        res = question.decide(method=method, max_evals=15)
        assert res.nfev <= 15 + 2  # the end of the last descent


# Contradictions

NO_POINT: list[tuple[Any, dict[str, Any], list[str]]] = [
    ([(0, 10)] * 2, {}, ["x[0]+x[1]<=10", "x[0]+x[1]>=10.5"]),
    ([(0, 10)] * 2, {}, ["x[0]+x[1]==1", "x[0]+x[1]==2"]),
    (
        [(2, 4), (1, 3.5)],
        {"integer": [0], "categories": {1: [1.0, 1.5, 3.5]}},
        ["-x[0]+2*x[1]==0", "-x[0]+2*x[1]<0"],
    ),
    ([(0, 9)] * 2, {"integer": [0, 1]}, ["2*x[0] + 2*x[1] == 11"]),
    ([(0, 1)] * 2, {}, ["x[0] < x[1]", "x[1] < x[0]"]),
    ([(1, 1), (0, 0)], {}, ["0.1*x[0] + x[1] <= 0.09999999999999998"]),
    ([(0, 1)] * 2, {}, ["x[0] + x[1] < 1", "x[0] + x[1] >= 1"]),
    ([(0, 1)] * 2, {}, ["0.5 < x[0] + x[1] <= 0.5"]),
    ([(0, 1)] * 2, {}, ["x[0] + x[1] == 1", "x[0] + x[1] == 1.0000001"]),
    ([(0, 1)] * 2, {}, ["x[0] + x[1] <= 1", "2*x[0] + 2*x[1] >= 2.0000001"]),
]


def test_fixed_values_that_contradict_a_row_are_named() -> None:
    res = treeopt.maximize(
        Price({"a": 1.0, "b": 2.0}),
        {"a": (0, 1), "b": (0, 1), "c": (0, 1)},
        fixed={"a": 0.8, "b": 0.7, "c": 0.5},
        constraints=["a + b <= 1", "c >= 0.2"],
    )
    assert res.conflict == ("a + b <= 1", "fixed value of a", "fixed value of b")
    assert "'a + b <= 1', the fixed value of a and the fixed value of b" in res.message


@pytest.mark.parametrize(("bounds", "options", "rows"), NO_POINT)
def test_rows_that_contradict_each_other(
    bounds: Any, options: dict[str, Any], rows: list[str]
) -> None:
    res = treeopt.minimize(Price({0: 1.0}), bounds, constraints=rows, **options)
    assert res.status is Status.INFEASIBLE and set(rows) <= set(res.conflict)


def labeled_constraints(question: Question) -> dict[str, Any]:
    """Return the constraints by the labels that treeopt gives them, one for each row of a matrix."""
    given = [c.given for c in question.constraints]
    asked = treeopt.Problem(question.objective, constraints=given, **question.options)
    parts: list[Any] = []
    for constraint in question.constraints:
        parts += constraint.split() if isinstance(constraint, Matrix) else [constraint]
    labels = [constraint.label for constraint in asked._core.constraints]
    return dict(zip(labels, parts, strict=True))


def only(question: Question, kept: Sequence[str], constraints: dict[str, Any]) -> Question:
    """Return the question with some constraints, bounds and fixed values, without all others."""
    columns = []
    for column in question.columns:
        if has_fixed_number(column) and fixed_label(column) not in kept:
            column = Column(column.key)
        elif column.values is None:
            sides = (f"{side} bound of {column.key}" in kept for side in ("lower", "upper"))
            ends = zip((column.low, column.high), sides, (-np.inf, np.inf), strict=True)
            low, high = (end if is_kept else without for end, is_kept, without in ends)
            column = replace(column, low=low, high=high)
        columns.append(column)
    own = [constraint for label, constraint in constraints.items() if label in kept]
    return replace(question, columns=columns, terms=[], constraints=own)


def has_fixed_number(column: Column) -> bool:
    """Return whether a feature without categories is fixed at a number."""
    values = column.values
    is_one = values is not None and len(values) == 1 and not np.isnan(values[0])
    return is_one and not column.is_category


def fixed_label(column: Column) -> str:
    return f"fixed value of {column.key}"


def judge_conflict(seed: int, kinds: Sequence[str]) -> bool:
    """Check a contradiction; return whether there is one."""
    question = random_question(seed, "sum", kinds)
    labels = [str(c.given).strip() for c in question.constraints]
    if isinstance(question.columns[0].key, int) or len(set(labels)) < len(labels):
        return False
    question = replace(
        question, cost=None, terms=[t for t in question.terms if not isinstance(t, Costs)]
    )
    with telling(question):
        truth = solve(question)
        if not truth.infeasible:
            return False
        res = question.decide()
        check_general(res, question, truth)
        constraints, conflict = labeled_constraints(question), res.conflict
        assert isinstance(conflict, tuple) and conflict and len(set(conflict)) == len(conflict)
        bounds = [
            f"{side} bound of {c.key}"
            for c in question.columns
            if c.values is None
            for side in ("lower", "upper")
        ]
        fixed = [fixed_label(column) for column in question.columns if has_fixed_number(column)]
        assert set(conflict) <= {*constraints, *bounds, *fixed}, conflict
        assert all(label in res.message for label in conflict), (res.message, conflict)
        all_of_them = solve(only(question, conflict, constraints))
        assert not all_of_them.feasible, (conflict, all_of_them)
        # Far out, float64 cannot tell the sums of integers apart: an equality may hold there.
        integer = [column.key for column in question.columns if column.integer]
        far = {f"{side} bound of {key}" for key in integer for side in ("lower", "upper")}
        if integer and "perhaps not all of them are needed" in res.message:
            return True
        for label in set(conflict) - far:
            rest = [other for other in conflict if other != label]
            assert not solve(only(question, rest, constraints)).infeasible, (label, conflict)
    return True


def judge_conflicts(kinds: Sequence[str], first: int, wanted: int) -> None:
    """Check the first contradictions from a seed on."""
    seeds = iter(range(first, first + 40 * wanted))
    while wanted:
        wanted -= judge_conflict(next(seeds), kinds)


KINDS = [["text"], ["text", "matrix", "predicted"], ["at most", "implies", "forbid"], CONSTRAINTS]


@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
def test_conflict(kinds: Sequence[str]) -> None:
    judge_conflicts(kinds, first=0, wanted=8)


@slow
@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
def test_many_conflicts(kinds: Sequence[str]) -> None:
    judge_conflicts(kinds, first=10_000, wanted=400)
