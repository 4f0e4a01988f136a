"""`Problem`: converted and compiled once, asked many times; and the signature that all share."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

import treeopt
from tests.support.decisions import check, problem_for
from treeopt import InputError, Status
from treeopt.model.compiled import Compiled

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.random((200, 4)), columns=list("abcd"))
Y = (X["a"] - 0.3) ** 2 + X["b"] * X["c"] - X["d"]


@pytest.fixture(scope="module")
def model():
    return RandomForestRegressor(n_estimators=15, max_depth=5, random_state=0).fit(X, Y)


def same(one: treeopt.Decision, other: treeopt.Decision) -> bool:
    keys = ("fun", "bound", "status", "nodes", "nfev", "message")
    assert all(repr(getattr(one, key)) == repr(getattr(other, key)) for key in keys)
    return one.frame.equals(other.frame) and np.array_equal(one.region[:2], other.region[:2])


@pytest.mark.parametrize("verb", ["minimize", "maximize"])
def test_it_answers_as_the_functions_do(model, verb):
    problem = treeopt.Problem(model, X)
    for fixed in (None, {"a": 0.2}, {"a": 0.9, "d": 0.5}, X.iloc[3]):
        one = getattr(problem, verb)(fixed=fixed, rng=0)
        assert same(one, getattr(treeopt, verb)(model, X, fixed=fixed, rng=0))
        assert model.predict(one.frame)[0] == one.fun


def test_fixed_values_of_a_question_add_to_those_of_the_problem(model):
    problem = treeopt.Problem(model, X, fixed={"a": 0.2, "b": 0.4})
    assert same(
        problem.minimize(rng=0), treeopt.minimize(model, X, fixed={"a": 0.2, "b": 0.4}, rng=0)
    )
    both = {"a": 0.2, "b": 0.8, "c": 0.1}
    asked = problem.minimize(fixed={"b": 0.8, "c": 0.1}, rng=0)
    assert same(asked, treeopt.minimize(model, X, fixed=both, rng=0))


def test_bounds_may_leave_out_what_every_question_fixes(model):
    problem = treeopt.Problem(model, {"a": (0, 1), "b": (0, 1)})
    asked = problem.maximize(fixed={"c": 0.5, "d": 0.1}, rng=0)
    bounds = {"a": (0, 1), "b": (0, 1)}
    assert same(asked, treeopt.maximize(model, bounds, fixed={"c": 0.5, "d": 0.1}, rng=0))
    with pytest.raises(InputError, match="no pair for feature 'd'"):
        problem.maximize(fixed={"c": 0.5})


def test_the_model_is_converted_once(model, monkeypatch):
    calls = []
    prepare = Compiled.prepare
    monkeypatch.setattr(Compiled, "prepare", lambda self: (calls.append(1), prepare(self))[1])
    problem = treeopt.Problem(model, X)
    for value in (0.1, 0.5, 0.9):
        problem.maximize(fixed={"a": value})
        problem.minimize(fixed={"a": value}, method="local", max_evals=5)
    assert len(calls) == 1


def test_it_does_not_change(model):
    problem = treeopt.Problem(model, X)
    with pytest.raises(FrozenInstanceError):
        problem._core = None
    first = problem.minimize(rng=0)
    problem.maximize(fixed={"a": 0.1}, rng=3)
    assert same(first, problem.minimize(rng=0))


def test_options_of_the_problem_are_the_defaults_of_questions(model):
    problem = treeopt.Problem(model, X, method="local", max_evals=7, rng=0)
    asked = problem.minimize()
    assert asked.nfev == 7 and asked.status is Status.EVAL_LIMIT
    assert same(asked, treeopt.minimize(model, X, method="local", max_evals=7, rng=0))
    proven = problem.minimize(method="auto", max_evals=None)
    assert same(proven, treeopt.minimize(model, X, rng=0))


def test_it_can_be_pickled(model):
    problem = treeopt.Problem(model, X, fixed={"a": 0.2}, rng=0)
    problem.minimize()
    copy = pickle.loads(pickle.dumps(problem))
    assert same(copy.maximize(), problem.maximize())
    assert np.array_equal(copy.evaluate(X), model.predict(X))
    assert repr(copy) == repr(problem)


@pytest.mark.parametrize(
    ("bounds", "arguments", "message"),
    [
        (X, {"fixed": {"q": 1}}, "feature 'q' is unknown"),
        (X, {"fixed": {"a": "red"}}, "fixed.'a'. has 'red', which is not a number"),
        (X, {"integer": "e"}, "'e' is unknown"),
        (X, {"categories": {"a": []}}, "categories.'a'. is empty"),
        (X, {"gap": -1}, "gap is -1"),
        (X, {"start": {"q": 3}}, "start"),
        (X, {"start": [1, 2]}, "start"),
        ({"b": (0, 1)}, {"categories": {"b": [5]}}, "categories lists 5 for feature 'b', outside"),
        (X, {"method": "magic"}, "method is 'magic'"),
        (X[["a", "b"]], {}, "bounds lacks 'c', 'd'"),
        ({"a": (1, 0)}, {}, "the lower bound is above the upper bound"),
        ({"a": (0, 1)}, {"fixed": {"a": 2}}, "fixed has 2 for feature 'a', outside its bounds"),
        ({"a": (0, 9)}, {"fixed": {"a": 2.5}, "integer": "a"}, "must be an integer"),
        ({"a": (0, 9)}, {"fixed": {"a": 2}, "categories": {"a": [1, 3]}}, "not among its"),
        (dict.fromkeys("abcd", (0, 1)), {"fixed": {"a": 2}}, "outside its bounds"),
    ],
)
def test_bad_arguments_are_refused_at_once(model, bounds, arguments, message):
    """Not when the first question is asked."""
    with pytest.raises(InputError, match=message):
        treeopt.Problem(model, bounds, **arguments)


def test_later_changes_of_arguments_have_no_effect(model):
    fixed, start, rng = {"a": 0.2}, X.iloc[[3]].copy(), np.random.default_rng(5)
    problem = treeopt.Problem(
        model, X, fixed=fixed, start=start, rng=rng, method="stepdirect", max_evals=30
    )
    expected = treeopt.minimize(
        model, X, fixed={"a": 0.2}, method="stepdirect", max_evals=30, rng=np.random.default_rng(5)
    )
    fixed["a"] = 0.9
    start.iloc[0] = 0.0
    assert rng.random() == np.random.default_rng(5).random()  # nothing was drawn
    for _ in range(2):
        assert same(problem.minimize(), expected)


def module_level_callback(progress):
    """Can be pickled."""


def test_callbacks_can_be_pickled_too(model):
    problem = treeopt.Problem(model, X, callback=module_level_callback)
    assert pickle.loads(pickle.dumps(problem)).minimize(rng=0).status is Status.OPTIMAL


def test_it_shows_what_a_user_needs(model):
    problem = treeopt.Problem(model, X)
    public = [name for name in dir(problem) if not name.startswith("_")]
    assert public == ["evaluate", "maximize", "minimize"]
    assert repr(problem) == "<Problem of RandomForestRegressor: 4 features, 15 trees>"


def test_a_pair_of_classes_is_two_terms():
    labels = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
    made = GradientBoostingClassifier(n_estimators=8, random_state=0).fit(X, labels)
    problem = treeopt.Problem(made, X, output="raw", class_index=(2, 0))
    assert [term.weight for term in problem._core.prediction.terms] == [1.0, -1.0]
    margin = made.decision_function(X)
    for verb, sense in (("minimize", "min"), ("maximize", "max")):
        res = getattr(problem, verb)(rng=0)
        check(res, sense)
        own = made.decision_function(res.frame)[0]
        assert res.status is Status.OPTIMAL and res.fun == own[2] - own[0]
        rows = margin[:, 2] - margin[:, 0]
        assert res.bound <= rows.min() if sense == "min" else res.bound >= rows.max()


def test_it_evaluates_points_as_a_user_does(model):
    problem = treeopt.Problem(model, X)
    assert np.array_equal(problem.evaluate(X), model.predict(X))
    converted = problem_for(treeopt.from_model(model), X)
    assert np.array_equal(converted.evaluate(X), model.predict(X))


def test_constraints_and_costs_are_part_of_the_question(model):
    name = X.columns[0]
    limit = float(X[name].median())
    problem = treeopt.Problem(model, X, constraints=f"`{name}` <= {limit!r}", cost={name: 2.0})
    for res in (problem.minimize(), problem.maximize(), problem.minimize(method="local")):
        assert res.x[name] <= limit and list(res.slack) == [f"`{name}` <= {limit!r}"]
        sign = -1 if res.maximized else 1
        own = float(model.predict(res.frame)[0])
        assert (res.prediction, res.cost) == (own, 2.0 * res.x[name])
        assert res.fun == own + sign * res.cost


# The signature.


def test_minimize_and_maximize_share_one_signature():
    assert inspect.signature(treeopt.minimize) == inspect.signature(treeopt.maximize)
    own = inspect.signature(treeopt.Problem).parameters
    assert own == inspect.signature(treeopt.minimize).parameters
    methods = treeopt.Problem.minimize, treeopt.Problem.maximize
    assert inspect.signature(methods[0]) == inspect.signature(methods[1])
    names = list(inspect.signature(treeopt.minimize).parameters)
    assert names[:2] == ["objective", "bounds"] and "options" not in names
    shared = {*inspect.signature(methods[0]).parameters} - {"self"}
    assert shared < {*names}


@pytest.mark.parametrize("verb", [treeopt.minimize, treeopt.Problem.minimize])
def test_every_parameter_is_documented(verb):
    for name in [*inspect.signature(verb).parameters][1:]:
        assert name in verb.__doc__


@pytest.mark.parametrize("verb", ["minimize", "maximize"])
def test_unknown_arguments_are_named(model, verb):
    with pytest.raises(TypeError, match=rf"{verb}\(\) got an unexpected keyword argument 'metod'"):
        getattr(treeopt, verb)(model, X, metod="auto")
    with pytest.raises(TypeError, match=rf"{verb}\(\) got an unexpected keyword argument 'bounds'"):
        getattr(treeopt.Problem(model, X), verb)(bounds=X)
    with pytest.raises(TypeError, match=rf"{verb}\(\) missing a required argument: 'bounds'"):
        getattr(treeopt, verb)(model)
