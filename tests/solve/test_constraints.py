"""The arguments `constraints` and `cost`, and terms as objectives: what is accepted, what is said."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import treeopt
from tests.support.decisions import stump, tree_of
from tests.support.messages import says
from treeopt import (
    AtMost,
    Change,
    Forbid,
    Implies,
    InputError,
    Predicted,
    Price,
    Product,
    Status,
    UnsupportedModelError,
    WeightedSum,
)
from treeopt.model.categories import truncated

KINDS = truncated([0, 1, 2], np.dtype(float), labels=("red", "green", "blue"), recode="sorted")
NAMES = ("cement", "water", "fly ash", "kind")
MODEL = replace(
    tree_of([(0, 4.0, 0.0, 2.0), (1, 5.0, 1.0, 0.0), (2, 1.0, 0.0, 0.5), (3, [0, 2], 1.0, 0.0)], 4,
            categories={3: KINDS}),
    feature_names=NAMES,
)  # fmt: skip
BOX = {"cement": (0, 10), "water": (0, 8), "fly ash": (0, 5)}
PLAIN = tree_of([(0, 4.0, 0.0, 2.0), (1, 5.0, 1.0, 0.0)], 2)
ask = partial(treeopt.maximize, MODEL, BOX)


def pointed_at(message: str) -> str:
    """Return the text from the place on that a message points at."""
    *_, quoted, caret = message.splitlines()
    assert set(caret) == {" ", "^"}
    return quoted[caret.index("^") :]


# Text

WRONG_TEXT = {
    "no number": ("water + <= 3", "<= 3", ("a number or a feature is missing before '<='",)),
    "an end": ("water + cement <=", "", ("is missing after '<='", "Complete")),
    "an unknown name": ("water + steam <= 3", "steam <= 3", ("'steam'", "cement", "water")),
    "a misspelled name": ("Water <= 3", "Water <= 3", ("'Water'", "water")),
    "an unknown number": ("x[9] <= 3", "x[9] <= 3", ("9", "0..3")),
    "a product": ("2*water*cement <= 3", "*cement <= 3", ("a product of two features", "linear")),
    "a quotient": ("water/cement <= 0.5", "/cement <= 0.5", ("division by a feature", "a <= 2*b")),
    "a category": ("water + kind <= 1", "kind <= 1", ("'kind'", "category", "Forbid")),
    "a category by number": ("x[3] <= 1", "x[3] <= 1", ("'kind'", "category", "Forbid")),
    "a label": ("kind == 'red'", "'red'", ("quoted", "Forbid")),
    "one =": ("water = 3", "= 3", ("= is not a relation", "==")),
    "not equal": ("water != 3", "!= 3", ("not equal",)),
    "and": ("water <= 3 and cement <= 2", "and cement", ("joined by and", "of its own")),
    "no relation": ("water + cement", "", ("no relation", "<=")),
    "two directions": ("1 <= water >= cement", ">= cement", ("different directions", "two")),
    "no backticks": ("fly ash <= 3", "ash <= 3", ("`fly ash`",)),
    "an open backtick": ("`fly ash <= 3", "`fly ash <= 3", ("not closed",)),
    "a function": ("abs(water) <= 3", "abs(water)", ("functions", "-3 <= a <= 3")),
    "a power": ("water**2 <= 3", "**2 <= 3", ("powers",)),
    "an open parenthesis": ("2*(water + cement <= 3", "(water", ("not closed", ")")),
    "a large number": ("1e999*water <= 3", "1e999", ("too large",)),
}


@pytest.mark.parametrize("case", WRONG_TEXT)
@pytest.mark.parametrize("make", ["text", "condition", "consequence"])
def test_wrong_text_is_quoted_and_pointed_at(case: str, make: str) -> None:
    text, place, parts = WRONG_TEXT[case]
    wrong: Any = {
        "text": text,
        "condition": Implies(text, "water <= 1"),
        "consequence": Implies("water <= 1", text),
    }[make]
    name = "constraints[1]" + ("" if make == "text" else f", {make}")
    with pytest.raises(InputError, match=says(f"{name}: cannot read", *parts)) as error:
        ask(constraints=["cement <= 3", wrong])
    assert repr(text) in str(error.value)
    first = str(error.value).splitlines()[0]
    assert ".. " not in first and not first.endswith(" ")
    assert pointed_at(str(error.value)).startswith(place)


IMPOSSIBLE = {
    "numbers": "1 <= 0",
    "features that cancel": "water - water >= 1",
    "factors that cancel": "2*water <= water + water - 1",
    "a chain": "3 <= water <= 2",
    "a chain of sums": "3 <= 2*water + cement <= 2",
    "a chain downwards": "2 >= water + cement >= 3",
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_text_that_no_point_satisfies(case: str) -> None:
    text = IMPOSSIBLE[case]
    with pytest.raises(InputError, match=says("constraints[0]: no point satisfies", text)):
        ask(constraints=text)


def test_what_only_the_bounds_exclude_is_an_answer_and_no_error() -> None:
    res = ask(constraints="water >= 9")
    assert res.status is Status.INFEASIBLE and res.x is None and not res.success


@pytest.mark.parametrize(
    "text", ["1 <= 2", "water <= water", "water - water <= 3", "2*water <= water + water"]
)
def test_text_that_every_point_satisfies(text: str) -> None:
    res = ask(constraints=text)
    assert res.fun == 4.5 and res.status is Status.OPTIMAL and res.slack[text] >= 0


def test_features_that_cancel() -> None:
    res = ask(constraints=" water + cement <= water + 3 ")
    assert res.fun == 2.5 and res.x["cement"] <= 3
    assert list(res.slack) == ["water + cement <= water + 3"]
    assert res.x["water"] + res.x["cement"] <= res.x["water"] + 3


# Ways to name features


@pytest.mark.parametrize(
    "text",
    ["cement<=3", "x[0] <= 3", "`cement` <= 3", "3 >= cement", "cement/2 <= 1.5", "cement ≤ 3"],
)
def test_names_numbers_and_backticks(text: str) -> None:
    res = ask(constraints=[text])
    assert res.fun == 2.5 and res.x["cement"] <= 3 and list(res.slack) == [text]
    assert res.slack[text] >= 0


def test_a_feature_by_name_and_number_is_one() -> None:
    res = ask(constraints="cement + x[0] <= 6")
    assert res.fun == 2.5 and 2 * res.x["cement"] <= 6


def test_odd_names_of_frames() -> None:
    X = pd.DataFrame(
        np.random.default_rng(0).random((30, 4)), columns=["a b", "x[1]", "a`b", "and"]
    )
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, X.sum(axis=1))
    text = "`a b` + `x[1]` + `a``b` + `and` <= 1.5"
    res = treeopt.maximize(model, X, constraints=[text, "x[1] >= 0.25"])
    assert res.status is Status.OPTIMAL and res.frame.sum(axis=1).iloc[0] <= 1.5
    assert res.x["x[1]"] >= 0.25 and model.predict(res.frame)[0] == res.fun
    # Without backticks it is the number of a column.
    res = treeopt.maximize(model, X, constraints=["x[0] <= 0.25"])
    assert res.x["a b"] <= 0.25


def test_columns_called_by_numbers() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((30, 2)), columns=[10, 20])
    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X.to_numpy(), X.sum(axis=1))
    res = treeopt.maximize(model, X, constraints="`10` + `20` <= 1", cost={10: 0.25})
    assert res.frame[10].iloc[0] + res.frame[20].iloc[0] <= 1
    assert res.cost == 0.25 * res.frame[10].iloc[0]


def test_features_without_names() -> None:
    res = treeopt.maximize(PLAIN, [(0, 10), (0, 8)], constraints="x[0] + x[1] <= 4")
    assert res.fun == 1.0 and res.x.sum() <= 4
    with pytest.raises(InputError, match=says("cannot read 'water <= 3'", "'water'")) as error:
        treeopt.maximize(PLAIN, [(0, 10), (0, 8)], constraints="water <= 3")
    assert pointed_at(str(error.value)) == "water <= 3"


UNNAMED = {
    "bounds": {"bounds": {"a": (0, 10), "b": (0, 8)}},
    "bounds in part": {"bounds": {0: (0, 10), "b": (0, 8)}},
    "cost": {"cost": {"b": 1}},
    "fixed": {"fixed": {"b": 1}},
    "integer": {"integer": ["b"]},
    "constraints": {"constraints": "b <= 3"},
}


@pytest.mark.parametrize("case", UNNAMED)
@pytest.mark.parametrize("objective", [PLAIN, Price({}), Price({0: 1})])
def test_names_for_a_model_without_names(case: str, objective: Any) -> None:
    asked = {"bounds": [(0, 10), (0, 8)], "constraints": [], **UNNAMED[case]}
    limits = [Predicted(PLAIN, low=1)]
    asked["constraints"] = [*np.atleast_1d(asked["constraints"]).tolist(), *limits]
    with pytest.raises(
        InputError, match=says(case.split()[0], "no feature names", "0..1", "frame")
    ):
        treeopt.minimize(objective, **asked)
    # A frame gives the columns names.
    frame = pd.DataFrame({"a": [0.0, 10.0], "b": [0.0, 8.0]})
    named = {**asked, "bounds": frame}
    res = treeopt.minimize(objective, **named)
    assert res.status is Status.OPTIMAL and list(res.x.index) == ["a", "b"]


def test_numbers_for_a_model_without_names() -> None:
    step = stump(0, 4.0, 0.0, 2.0)
    open_ended, limit = (-np.inf, np.inf), Predicted(step, low=1)
    with pytest.raises(InputError, match=says("bounds: feature 'b'", "0..0", "frame")):
        treeopt.minimize(Price({}), {"b": open_ended}, constraints=[limit])
    res = treeopt.minimize(Price({}), {0: open_ended}, constraints=[limit])
    assert res.status is Status.OPTIMAL and res.x[0] > 4


# Ways to pass constraints

SINGLE = {
    "text": "cement <= 3",
    "matrix": LinearConstraint([1, 0, 0, 0], -np.inf, 3),
    "predicted": Predicted(MODEL, high=2.5),
    "at most": AtMost(0, ["cement"]),
    "implies": Implies("water >= 0", "cement <= 3"),
    "forbid": Forbid({"cement": (3, None)}),
}


@pytest.mark.parametrize("case", SINGLE)
def test_a_single_constraint_needs_no_list(case: str) -> None:
    one, many = ask(constraints=SINGLE[case]), ask(constraints=[SINGLE[case]])
    assert (
        one.fun == many.fun == 2.5 and len(one.slack) == 1 and one.slack.keys() == many.slack.keys()
    )
    assert ask(constraints=(SINGLE[case],)).fun == 2.5


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_no_constraints(nothing: Any) -> None:
    res = ask(constraints=nothing)
    assert res.fun == 4.5 and res.slack == {}


def test_the_same_constraint_twice_has_two_slacks() -> None:
    res = ask(constraints=["cement <= 3", "cement <= 3"])
    assert list(res.slack) == ["cement <= 3", "cement <= 3 (2)"]


@pytest.mark.parametrize("bad", [5, 3.0, {"cement": 3}, lambda x: x, MODEL, np.zeros(3)])
def test_what_is_no_constraint(bad: Any) -> None:
    with pytest.raises(InputError, match=says("constraints[0] is", "Pass text", "Predicted")):
        ask(constraints=[bad])


def test_problems_keep_constraints_and_costs() -> None:
    problem = treeopt.Problem(MODEL, BOX, constraints="cement + water <= 6", cost={"cement": 0.25})
    best = problem.maximize()
    assert best.fun == ask(constraints="cement + water <= 6", cost={"cement": 0.25}).fun
    fixed = problem.maximize(fixed={"cement": 6})
    assert fixed.x["water"] == 0 and fixed.cost == 1.5
    worst = problem.minimize()
    assert worst.fun == worst.prediction + worst.cost and best.fun == best.prediction - best.cost


# Matrices


@pytest.mark.parametrize(
    "A",
    [
        [1.0, 0.5, 0, 0],
        [[1.0, 0.5, 0, 0]],
        np.array([1.0, 0.5, 0, 0]),
        csr_array([[1.0, 0.5, 0, 0]]),
    ],
)
def test_forms_of_matrices(A: Any) -> None:
    res = ask(constraints=LinearConstraint(A, -np.inf, 6), cost={"cement": 0.0, "water": -0.5})
    assert res.x["cement"] + 0.5 * res.x["water"] <= 6
    assert list(res.slack) == ["constraints[0]"]


def test_rows_of_a_matrix_have_their_own_slacks() -> None:
    A = [[1, 0, 0, 0], [1, 1, 0, 0]]
    res = ask(constraints=["water <= 7", LinearConstraint(A, [0, 3], 9.0)])
    assert list(res.slack) == ["water <= 7", "constraints[1], row 0", "constraints[1], row 1"]


WRONG_MATRIX = {
    "too narrow": (LinearConstraint([1, 1], 0, 1), ("constraints[0]", "(1, 2)", "4 features")),
    "NaN": (LinearConstraint([np.nan, 0, 0, 0], 0, 1), ("constraints[0]", "finite")),
    "infinite": (LinearConstraint([np.inf, 0, 0, 0], 0, 1), ("constraints[0]", "finite")),
    "no point": (LinearConstraint([1, 0, 0, 0], 2, 1), ("constraints[0]", "(2.0, 1.0)", "no point")),
    "NaN as bound": (LinearConstraint([1, 0, 0, 0], np.nan, 1), ("constraints[0]", "nan")),
    "a category": (LinearConstraint([1, 0, 0, 2], 0, 1), ("constraints[0]", "'kind'", "category")),
    "zeros": (LinearConstraint([0, 0, 0, 0], 1, 2), ("constraints[0]", "zeros", "No point")),
    "a later row": (
        LinearConstraint([[1, 0, 0, 0], [1, 0, 0, 0]], [0, 3], [1, 2]),
        ("constraints[0], row 1", "(3.0, 2.0)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_MATRIX)
def test_wrong_matrices(case: str) -> None:
    wrong, parts = WRONG_MATRIX[case]
    with pytest.raises(InputError, match=says(*parts)):
        ask(constraints=wrong)


# Other constraints

WRONG_LOGIC = {
    "no limits": (Predicted(MODEL), ("constraints[0]", "neither low nor high")),
    "no finite limits": (Predicted(MODEL, -np.inf, np.inf), ("constraints[0]", "neither low nor high")),
    "low above high": (Predicted(MODEL, 3, 1), ("constraints[0]", "low=3", "high=1", "no point")),
    "low NaN": (Predicted(MODEL, np.nan), ("constraints[0]", "low=nan", "number")),
    "high of text": (Predicted(MODEL, high="2"), ("constraints[0]", "high='2'", "number")),
    "k negative": (AtMost(-1, ["water"]), ("constraints[0]", "k=-1", "at least 0")),
    "k of text": (AtMost("2", ["water"]), ("constraints[0]", "k='2'", "integer")),
    "k broken": (AtMost(1.5, ["water"]), ("constraints[0]", "k=1.5", "integer")),
    "k True": (AtMost(True, ["water"]), ("constraints[0]", "k=True", "integer")),
    "one name": (AtMost(1, "water"), ("constraints[0]", "names='water'", "list")),
    "an unknown name": (AtMost(1, ["water", "steam"]), ("constraints[0]", "'steam'")),
    "a name twice": (AtMost(1, ["water", "water"]), ("constraints[0]", "twice")),
    "a name and its number": (AtMost(1, ["water", 1]), ("constraints[0]", "twice")),
    "a category": (AtMost(1, ["kind"]), ("constraints[0]", "'kind'", "category", "Forbid")),
    "a condition of another type": (Implies(3, "water <= 1"), ("constraints[0], condition", "3")),
    "no consequence": (Implies("water <= 1", ""), ("constraints[0], consequence", "empty")),
    "never": (Implies("1 <= 2", "2 <= 1"), ("constraints[0]", "no point satisfies", "never")),
    "no ranges": (Forbid({}), ("constraints[0]", "{}", "mapping")),
    "no mapping": (Forbid([("water", (1, 2))]), ("constraints[0]", "mapping")),
    "everything": (Forbid({"water": (None, None)}), ("constraints[0]", "water", "every point")),
    "a range of nothing": (Forbid({"water": (2, 1)}), ("constraints[0]", "'water'", "(2, 1)", "low")),
    "a range of text": (Forbid({"water": ("a", "b")}), ("constraints[0]", "'water'", "pair")),
    "a range with NaN": (Forbid({"water": (np.nan, 1)}), ("constraints[0]", "'water'", "pair")),
    "an unknown feature": (Forbid({"steam": (0, 1)}), ("constraints[0]", "'steam'")),
    "a value of text": (Forbid({"water": "much"}), ("constraints[0]", "'water'", "'much'", "number")),
    "an unknown label": (Forbid({"kind": "pink"}), ("constraints[0]", "'pink'", "red, green, blue")),
    "an unknown label in a list": (Forbid({"kind": ["red", "pink"]}), ("constraints[0]", "'pink'")),
    "NaN": (Forbid({"water": np.nan}), ("constraints[0]", "'water'")),
    "an empty list": (Forbid({"water": []}), ("constraints[0]", "'water'")),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_LOGIC)
def test_wrong_constraints(case: str) -> None:
    wrong, parts = WRONG_LOGIC[case]
    with pytest.raises(InputError, match=says(*parts)):
        ask(constraints=[wrong])


def test_unsupported_models_in_constraints() -> None:
    linear = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(UnsupportedModelError, match="LinearRegression"):
        ask(constraints=Predicted(linear, low=1))
    with pytest.raises(UnsupportedModelError, match=says("model of constraints[0] is str")):
        ask(constraints=Predicted("model", low=1))
    with pytest.raises(UnsupportedModelError, match=says("model of Product is int")):
        treeopt.maximize(Product("water", 3), BOX)
    with pytest.raises(UnsupportedModelError, match=says("objective is str")):
        treeopt.maximize(WeightedSum([(1.0, "model")]), BOX)


def test_forbidden_values_and_labels() -> None:
    assert ask(constraints=Forbid({"kind": ["red", "blue"]})).x["kind"] == "green"
    assert ask(constraints=Forbid({"kind": "red"})).x["kind"] == "blue"
    res = ask(constraints=[Forbid({"kind": "red", "cement": (4, None)}), Forbid({"kind": "blue"})])
    assert res.fun == 3.5
    res = treeopt.minimize(Price({0: 1.0}), [(0, 3)], integer=[0], constraints=Forbid({0: [0, 1]}))
    assert res.fun == 2.0


def test_outputs_of_classifiers() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((60, 2)), columns=["a", "b"])
    y = np.digitize(X["a"] + X["b"], [0.7, 1.3])
    forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(X, y)
    boosted = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    limits = [
        Predicted(forest, low=0.75, class_index=0),
        Predicted(boosted, high=0.5, class_index=2, output="proba"),
        Predicted(boosted, low=-5.0, class_index=1, output="raw"),
    ]
    res = treeopt.minimize(Change({"a": 1.0, "b": 1.0}), X, constraints=limits)
    assert res.status is Status.OPTIMAL
    assert forest.predict_proba(res.frame)[0, 0] >= 0.75
    assert boosted.predict_proba(res.frame)[0, 2] <= 0.5
    assert boosted.decision_function(res.frame)[0, 1] >= -5.0
    assert np.isnan(res.prediction) and res.fun == res.cost == res.terms["change"]
    res = treeopt.maximize(boosted, X, class_index=1, constraints=limits[:1])
    assert res.fun == boosted.predict_proba(res.frame)[0, 1]


# Costs and objectives

WRONG_COSTS = {
    "a model": (MODEL, ("cost is", "Ensemble", "WeightedSum")),
    "a fitted model": (DecisionTreeRegressor().fit([[0.0]], [1.0]), ("cost is", "WeightedSum")),
    "a number": (3.0, ("cost is 3.0", "mapping of prices")),
    "text": ("cement", ("cost is 'cement'", "mapping of prices")),
    "a list with a model": ([{"water": 1.0}, MODEL], ("cost has", "Ensemble")),
    "a product": (Product("water", MODEL), ("cost is", "Product")),
    "a sum with a model": (WeightedSum([(1.0, MODEL)]), ("cost is", "WeightedSum")),
    "prices in a list": (Price([1.0]), ("price is [1.0]", "mapping")),
    "an unknown feature": ({"steam": 1.0}, ("cost", "'steam'")),
    "a feature twice": ({"water": 1.0, 1: 2.0}, ("cost", "twice")),
    "a price of text": ({"water": "1"}, ("price of feature 'water'", "'1'", "number")),
    "a price NaN": ({"water": np.nan}, ("price of feature 'water'", "nan", "finite")),
    "a price infinite": ({"water": np.inf}, ("price of feature 'water'", "inf", "finite")),
    "a price of a category": ({"kind": 2.0}, ("price of feature 'kind'", "2.0", "category", "label")),
    "an unknown label": ({"kind": {"pink": 1.0}}, ("price of feature 'kind'", "'pink'", "red")),
    "a missing label": ({"kind": {"red": 1.0, "blue": 2.0}}, ("'kind'", "lacks", "'green'")),
    "a price of a label NaN": (
        {"kind": {"red": np.nan, "blue": 2.0, "green": 1.0}}, ("'red'", "'kind'", "finite")
    ),
    "labels of numbers": ({"water": {"red": 1.0}}, ("price of feature 'water'", "number")),
    "a change from a number": (Change(3.0), ("Change", "3.0")),
    "a change from a short vector": (Change([1.0, 2.0]), ("row of Change", "2", "4")),
    "a change of an unknown feature": (Change({"steam": 1.0}), ("row of Change", "'steam'")),
    "a change from NaN": (Change({"water": np.nan}), ("Change", "nan", "'water'")),
    "a change from text": (Change({"water": "much"}), ("row of Change", "'much'")),
    "a change from an unknown label": (Change({"kind": "pink"}), ("row of Change", "'pink'", "red")),
    "per negative": (Change({"water": 1.0}, per=-1.0), ("per of Change", "-1.0", "at least 0")),
    "per of text": (Change({"water": 1.0}, per="1"), ("per of Change", "'1'", "number")),
    "per of an unknown feature": (Change({"water": 1.0}, per={"steam": 1}), ("per of Change", "'steam'")),
    "fee NaN": (Change({"water": 1.0}, fee=np.nan), ("fee of Change", "nan", "at least 0")),
    "fee negative": (Change({"water": 1.0}, fee={"water": -1}), ("fee of Change", "-1", "'water'")),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_COSTS)
def test_wrong_costs(case: str) -> None:
    wrong, parts = WRONG_COSTS[case]
    with pytest.raises(InputError, match=says(*parts)):
        ask(cost=wrong)


WRONG_TERMS = {
    "nothing": (WeightedSum([]), ("WeightedSum has []", "pairs")),
    "a model": (WeightedSum(MODEL), ("WeightedSum has", "pairs")),
    "text": (WeightedSum("ab"), ("WeightedSum has 'ab'", "pairs")),
    "a mapping": (WeightedSum({"a": 1.0}), ("WeightedSum has", "pairs")),
    "models without weights": (WeightedSum([MODEL, MODEL]), ("WeightedSum[0]", "pair")),
    "triples": (WeightedSum([(1.0, MODEL), (1.0, MODEL, 2)]), ("WeightedSum[1]", "pair")),
    "swapped": (WeightedSum([(MODEL, 1.0)]), ("WeightedSum[0]", "weight")),
    "a weight of text": (WeightedSum([("1", MODEL)]), ("WeightedSum[0]", "weight")),
    "a weight NaN": (WeightedSum([(np.nan, MODEL)]), ("WeightedSum[0]", "finite")),
    "a weight infinite": (WeightedSum([(np.inf, MODEL)]), ("WeightedSum[0]", "finite")),
    "limits": (WeightedSum([(1.0, Predicted(MODEL, low=1))]), ("Predicted", "constraints")),
    "limits alone": (Predicted(MODEL, low=1), ("Predicted", "constraints")),
    "an unknown factor": (Product("steam", MODEL), ("feature of Product", "'steam'")),
    "a category as factor": (Product("kind", MODEL), ("feature of Product", "'kind'", "category")),
    "minus NaN": (Product("water", MODEL, minus=np.nan), ("minus of Product", "nan", "finite")),
    "minus of text": (Product("water", MODEL, minus="1"), ("minus of Product", "'1'", "number")),
}


@pytest.mark.parametrize("case", WRONG_TERMS)
def test_wrong_terms(case: str) -> None:
    wrong, parts = WRONG_TERMS[case]
    with pytest.raises(InputError, match=says(*parts)):
        treeopt.maximize(wrong, BOX)


def test_terms_that_are_no_model() -> None:
    for wrong in (WeightedSum([(1.0, "model")]), WeightedSum([(1.0, {"water": 1.0})])):
        with pytest.raises((InputError, UnsupportedModelError), match="Pass"):
            treeopt.maximize(wrong, BOX)


def test_outputs_do_not_fit_terms() -> None:
    # `output` is about a model as objective. For others, each term has its own.
    for objective in (Price({"water": 1.0}), Product("water", MODEL), WeightedSum([(1.0, MODEL)])):
        with pytest.raises(InputError, match=says("output", "Predicted")):
            treeopt.maximize(objective, BOX, output="raw")


def test_nested_sums_are_one_sum() -> None:
    inner = WeightedSum([(2.0, MODEL), (1.0, Price({"cement": -0.5}))])
    res = treeopt.maximize(WeightedSum([(0.5, inner), (1.0, MODEL)]), BOX)
    assert list(res.terms) == ["Ensemble", "price", "Ensemble (2)"]
    assert sum(res.terms.values()) == res.fun
    assert res.terms["Ensemble"] == res.terms["Ensemble (2)"] == 4.5


def test_costs_are_subtracted_or_added() -> None:
    costs = [{"cement": 0.1}, Price({"kind": {"red": 1.0, "green": 0.0, "blue": 0.5}})]
    best = treeopt.maximize(MODEL, BOX, cost=costs)
    assert best.fun == sum(best.terms.values()) and best.cost > 0
    assert best.prediction - best.cost == pytest.approx(best.fun)
    low = treeopt.minimize(MODEL, BOX, cost=costs)
    assert low.prediction + low.cost == pytest.approx(low.fun)
    assert list(low.terms) == ["Ensemble", "price", "price (2)"]


def test_changes_are_measured_by_ranges() -> None:
    X = pd.DataFrame({"a": [0.0, 4.0, 1.0], "b": [1.0, 1.0, 1.0]})
    model = DecisionTreeRegressor().fit(X, [0.0, 1.0, 3.0])
    res = treeopt.maximize(Change({"a": 1.0, "b": 5.0}), X, constraints=Predicted(model, low=1.0))
    assert res.x["a"] == 4.0 and res.fun == 3 / 4 + 4.0  # a range of 0 counts as 1


def test_rows_of_changes() -> None:
    rows = [[5.0, 1.0, 2.0, 0.0], pd.Series([5.0, 1.0, 2.0, "red"], index=NAMES), {"cement": 5.0}]
    for row in [*rows, pd.DataFrame([[5.0, 1.0, 2.0, "red"]], columns=NAMES)]:
        res = treeopt.minimize(Change(row), BOX, constraints=Predicted(MODEL, low=4.0))
        assert res.fun == 0.0 and res.x["cement"] == 5.0


# Infinite bounds


OPEN = {"cement": (-np.inf, np.inf), "water": (0, 8), "fly ash": (0, np.inf)}


@pytest.mark.parametrize(
    ("sense", "objective", "cost", "name"),
    [
        ("minimize", Price({"cement": 1.0}), None, "cement"),
        ("maximize", Price({"fly ash": 0.5}), None, "fly ash"),
        ("maximize", MODEL, {"fly ash": -0.5}, "fly ash"),
        ("minimize", MODEL, {"water": 1.0, "cement": 0.5}, "cement"),
        ("maximize", Change({"fly ash": 1.0}, per=1.0), None, "fly ash"),
        ("maximize", Product("fly ash", MODEL), None, "fly ash"),
        ("minimize", Product("cement", MODEL, minus=1.0), None, "cement"),
        ("minimize", WeightedSum([(1.0, MODEL), (-1.0, Price({"fly ash": 2.0}))]), None, "fly ash"),
    ],
)
def test_unbounded_objectives_are_refused(sense: str, objective: Any, cost: Any, name: str) -> None:
    # The models are in the constraints too, so that names and categories are known.
    constraints = [Predicted(MODEL, low=-9.0)]
    with pytest.raises(InputError, match=says(f"'{name}'", "bound")):
        getattr(treeopt, sense)(objective, OPEN, cost=cost, constraints=constraints)


def test_infinite_bounds_on_the_other_side() -> None:
    known = [Predicted(MODEL, low=-9.0)]
    res = treeopt.minimize(Price({"fly ash": 1.0}), OPEN, constraints=known)
    assert res.fun == 0.0 and res.status is Status.OPTIMAL
    res = treeopt.minimize(
        Change({"cement": 3.0}, per=2.0), OPEN, constraints=[*known, "cement >= 4"]
    )
    assert res.fun == 2.0 and res.x["cement"] == 4.0


def test_rows_may_bound_an_objective() -> None:
    known = [Predicted(MODEL, low=-9.0)]
    res = treeopt.minimize(
        Price({"cement": 1.0}), OPEN, constraints=[*known, "cement + water >= 10"]
    )
    assert res.fun == pytest.approx(2.0) and res.status is Status.OPTIMAL
    res = treeopt.maximize(
        Price({"fly ash": 1.0}), OPEN, constraints=[*known, "`fly ash` <= 2*water"]
    )
    assert res.fun == pytest.approx(16.0)


def test_change_needs_a_range() -> None:
    with pytest.raises(InputError, match=says("'cement'", "no finite range", "per")):
        treeopt.minimize(MODEL, OPEN, cost=Change({"cement": 1.0}))


# Missing values


@pytest.mark.parametrize(
    "more",
    [
        {"constraints": "cement + water <= 3"},
        {"constraints": LinearConstraint([1, 1, 0, 0], 0, 3)},
        {"constraints": AtMost(1, ["water", "cement"])},
        {"constraints": Implies("water <= 3", "cement >= 1")},
        {"constraints": Forbid({"water": (1, 2)})},
        {"cost": {"water": 1.0}},
        {"cost": Change({"water": 1.0})},
    ],
)
def test_missing_values_in_conditions(more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=says("'water'", "fixed at a missing value", "number")):
        ask(fixed={"water": np.nan}, **more)
    assert ask(fixed={"cement": 1.0}, **more).status is Status.OPTIMAL


def test_missing_values_elsewhere() -> None:
    res = ask(fixed={"water": np.nan}, constraints="cement <= 3", cost={"fly ash": 0.25})
    assert np.isnan(res.x["water"]) and res.x["cement"] <= 3 and res.status is Status.OPTIMAL
    product = Product("water", MODEL)
    with pytest.raises(InputError, match=says("'water'", "missing")):
        treeopt.maximize(product, BOX, fixed={"water": np.nan})


# Several models


def test_models_read_their_own_columns() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((50, 3)), columns=["a", "b", "c"])
    first = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X[["b", "a"]], X["a"] - X["b"])
    second = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X[["c", "b"]], X["c"] + X["b"])
    both = WeightedSum([(1.0, first), (-2.0, second)])
    for bounds in (X, {"a": (0, 1), "b": (0, 1), "c": (0, 1)}, X[["c", "a", "b"]]):
        res = treeopt.maximize(both, bounds, constraints="a + b + c <= 2")
        ours = first.predict(res.frame[["b", "a"]])[0], second.predict(res.frame[["c", "b"]])[0]
        assert list(res.terms.values()) == [ours[0], -2.0 * ours[1]]
        assert res.status is Status.OPTIMAL and set(res.x.index) == set("abc")


def test_models_that_do_not_fit_together() -> None:
    with pytest.raises(InputError, match=says("features without names", "frame")):
        treeopt.maximize(MODEL, BOX, constraints=Predicted(stump(0, 1.0, 0.0, 1.0), low=1))
    others = truncated([0, 1], np.dtype(float), labels=("low", "high"), recode="sorted")
    other = replace(tree_of([1.0], 1, categories={0: others}), feature_names=("kind",))
    with pytest.raises(InputError, match=says("labels of feature 'kind'")):
        treeopt.maximize(WeightedSum([(1.0, MODEL), (1.0, other)]), BOX)


def test_problems_without_a_model() -> None:
    res = treeopt.minimize(
        Price({"a": 1.0, "b": 2.0}), {"a": (0, 3), "b": (0, 3)}, constraints="a + b >= 4"
    )
    assert res.fun == 5.0 and res.x["a"] == 3.0 and res.x["b"] == 1.0
    assert np.isnan(res.prediction) and res.cost == 5.0
    for bounds in ([(0, 3), (0, 3)], Bounds([0, 0], [3, 3]), np.array([[0, 3], [0, 3]])):
        res = treeopt.minimize(Price({0: 1.0, 1: 2.0}), bounds, constraints="x[0] + x[1] >= 4")
        assert res.fun == 5.0 and res.x.tolist() == [3.0, 1.0]
    with pytest.raises(InputError, match=says("'c'")):
        treeopt.minimize(Price({"c": 1.0}), {"a": (0, 3)})


def test_messages_have_no_traces_of_code() -> None:
    for wrong in ("water <=", "steam <= 3", "kind <= 3"):
        with pytest.raises(InputError) as error:
            ask(constraints=wrong)
        assert not re.search(r"<treeopt|Traceback|object at 0x", str(error.value))


# Columns

FRAME = pd.DataFrame(np.random.default_rng(0).uniform(0, 10, (200, 3)), columns=["a", "b c", "k"])
TARGET = FRAME["a"] + FRAME["b c"] - FRAME["k"]
FILLER = FRAME.assign(filler=np.linspace(0, 5, 200), unused=1.0)


def test_features_that_no_model_reads() -> None:
    forest = RandomForestRegressor(10, random_state=0).fit(FRAME, TARGET)
    X = FILLER[["a", "b c", "k", "filler"]]
    for bounds in (X, dict.fromkeys(X, (0.0, 10.0))):
        mix = treeopt.maximize(
            forest,
            bounds,
            constraints=["a + `b c` + filler == 12", "filler >= 1"],
            cost={"filler": 0.5},
        )
        assert mix.status is Status.OPTIMAL and mix.x["filler"] == 1.0
        assert abs(mix.x["a"] + mix.x["b c"] + mix.x["filler"] - 12) < 1e-12
        assert forest.predict(mix.frame[list(FRAME)])[0] == mix.prediction
    cheap = treeopt.minimize(Price({"filler": 1.0}), X, constraints="a + filler >= 11")
    assert cheap.fun == pytest.approx(11 - FRAME["a"].max())


def test_features_that_nothing_mentions_are_refused() -> None:
    forest = RandomForestRegressor(10, random_state=0).fit(FRAME, TARGET)
    with pytest.raises(InputError, match="bounds has the unknown 'unused'"):
        treeopt.maximize(forest, FILLER, constraints="filler <= 2")
    with pytest.raises(InputError, match="bounds has the unknown 'filler'"):
        treeopt.maximize(forest, FILLER[["a", "b c", "k", "filler"]], constraints="a <= 2")


def test_names_that_libraries_spell_in_their_own_way() -> None:
    """LightGBM keeps 'b c' as 'b_c', whatever the order of the models."""
    forest = RandomForestRegressor(10, random_state=0).fit(FRAME, TARGET)
    light = lgb.LGBMRegressor(n_estimators=10, verbose=-1).fit(FRAME, TARGET)
    part = lgb.LGBMRegressor(n_estimators=10, verbose=-1).fit(FRAME[["b c"]], TARGET)
    funs = [
        treeopt.maximize(WeightedSum([(0.5, one), (0.5, other)]), FRAME).fun
        for one, other in ((forest, light), (light, forest))
    ]
    assert funs[0] == pytest.approx(funs[1], rel=1e-12)
    limits = [Predicted(light, high=5), Predicted(part, high=5)]
    res = treeopt.maximize(forest, FRAME, constraints=[*limits, "`b c` <= 9"])
    assert light.predict(res.frame)[0] <= 5 and part.predict(res.frame[["b c"]])[0] <= 5


def test_frames_of_single_precision_hold_the_point_itself() -> None:
    X = FRAME.astype(np.float32)
    forest = RandomForestRegressor(10, random_state=0).fit(X, TARGET)
    for least in np.linspace(5.0, 12.0, 8).round(2):
        res = treeopt.minimize(forest, X, constraints=f"a + k >= {least}", cost={"a": 0.3})
        row = res.frame.astype(np.float64).iloc[0]
        assert (row == res.x).all() and row["a"] + row["k"] >= least
        assert forest.predict(res.frame)[0] == res.prediction


def test_small_mistakes_are_errors() -> None:
    forest = RandomForestRegressor(10, random_state=0).fit(FRAME, TARGET)
    cases = [
        (AtMost(1, []), "names no feature"),
        (Predicted(forest, low=np.inf), "low=inf"),
        (Predicted(forest, low=1, class_index=7), r"model of constraints\[0\]: class_index"),
    ]
    for wrong, message in cases:
        with pytest.raises(InputError, match=message):
            treeopt.maximize(forest, FRAME, constraints=wrong)
    with pytest.raises(UnsupportedModelError, match=r"model of constraints\[0\]: LinearRegression"):
        line = LinearRegression().fit(FRAME, TARGET)
        treeopt.maximize(forest, FRAME, constraints=Predicted(line, low=1))
    with pytest.raises(InputError, match="per of Change has 'k', but the row has no such feature"):
        treeopt.minimize(Change({"a": 3.0}, per={"k": 1.0}), FRAME)


def test_costs_that_overflow() -> None:
    bounds = {"a": (0.0, 1e308), "b": (0.0, 1e308), "c": (0.0, 1.0)}
    price = Price({"a": 10.0, "b": -10.0, "c": 1.0})
    with pytest.raises(InputError, match="the costs overflow"):
        treeopt.minimize(price, bounds, fixed={"a": 1e308, "b": 1e308})
    with pytest.raises(InputError, match="the costs overflow"):
        treeopt.minimize(Price({"c": 1e308}), bounds, cost=[{"c": 1e308}, {"c": -1e308}])


def test_prices_as_a_series() -> None:
    forest = RandomForestRegressor(10, random_state=0).fit(FRAME, TARGET)
    series = treeopt.maximize(forest, FRAME, cost=pd.Series({"a": 0.5}), rng=0)
    assert series.fun == treeopt.maximize(forest, FRAME, cost={"a": 0.5}, rng=0).fun


def test_terms_of_classes_are_called_by_their_class() -> None:
    forest = RandomForestClassifier(10, random_state=0).fit(FRAME, TARGET > 5)
    terms = [(1.0, Predicted(forest, class_index=k)) for k in (0, 1)]
    res = treeopt.maximize(WeightedSum(terms), FRAME)
    assert list(res.terms) == [f"RandomForestClassifier, class {k}" for k in (0, 1)]


def test_features_that_no_model_reads_come_last_and_are_never_missing() -> None:
    """Models without names keep their columns; `missing` of a model is no value of others."""
    array = DecisionTreeRegressor(max_depth=4).fit(FRAME.to_numpy(), TARGET)
    part = RandomForestRegressor(5, random_state=0).fit(FRAME[["b c", "k"]], TARGET)
    both = WeightedSum([(1.0, array), (1.0, part)])
    with pytest.raises(InputError, match="3 features without names, but the other models have 2"):
        treeopt.maximize(both, FRAME, constraints="a + k <= 4")

    X = FILLER[["a", "b c"]].assign(z=np.arange(200) % 3)
    boosted = xgb.XGBRegressor(n_estimators=10, missing=0.0).fit(X[["a", "b c"]], TARGET)
    res = treeopt.maximize(boosted, X, constraints="a + z <= 30", cost={"z": 1.0})
    assert res.x["z"] == 0 and res.cost == 0.0


def test_infinite_bounds_and_costs_that_do_not_fall() -> None:
    forest = RandomForestRegressor(5, random_state=0).fit(FRAME, TARGET)
    bounds = {"a": (0.0, np.inf), "b c": (0.0, 10.0), "k": (0.0, 9.0)}
    product = treeopt.Product("a", forest)
    assert treeopt.maximize(product, bounds, constraints="a <= 5").x["a"] == 5.0
    for cost in ([{"a": -1.0}, Change({"a": 3.0}, per={"a": 1.0})], {"a": 1.0}):
        assert treeopt.maximize(forest, bounds, cost=cost).status is Status.OPTIMAL
    limited = treeopt.maximize(
        forest, bounds, cost={"a": -1.0}, constraints=Forbid({"a": (5, None)})
    )
    assert limited.x["a"] == np.nextafter(5.0, 0.0)


def test_many_rows_in_one_direction() -> None:
    """Rows in one direction are compared by their limits, not pair by pair."""
    forest = RandomForestRegressor(5, random_state=0).fit(FRAME.to_numpy(), TARGET)
    limits = np.linspace(5, 20, 1000)
    rows = LinearConstraint(np.ones((1000, 3)), -np.inf, limits)
    res = treeopt.maximize(forest, [(0, 10)] * 3, constraints=rows)
    assert res.x.sum() <= 5 and len(res.slack) == 1000
