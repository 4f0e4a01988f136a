"""`stepdirect` in spaces of named parameters, and `search_within` for decisions."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import treeopt
from tests.support.searches import PRESETS, every_preset, model
from treeopt import InputError, Status, StepDirect, StepDirectSettings, stepdirect
from treeopt.arguments import read_seed
from treeopt.problem.dimensions import Choice, Dimensions, Integer, Real, real_dimensions
from treeopt.run.limits import Limits
from treeopt.run.run import Run
from treeopt.stepdirect.search import search_within

SPACE = {
    "depth": (1, 12),
    "rate": (1e-3, 1.0, "log"),
    "n": range(0, 30, 3),
    "kind": ["a", "b", None],
    "k": Integer(1, 500, log=True),
    "z": (0.0, 2.0),
}


def value(x) -> float:
    assert isinstance(x, dict) and list(x) == list(SPACE)
    assert type(x["depth"]) is int and type(x["z"]) is float
    return abs(x["depth"] - 5) + abs(np.log10(x["rate"])) + (x["kind"] == "b") + x["z"]


@every_preset
def test_it_proposes_what_ask_and_tell_propose(settings):
    settings = replace(settings, batch=1)
    res = stepdirect(value, SPACE, max_evals=150, settings=settings, rng=3)
    opt = StepDirect(SPACE, max_evals=150, settings=settings, rng=3)
    while opt.nfev < 150:
        points = opt.ask()[: 150 - opt.nfev]
        opt.tell(points, [value(x) for x in points])
    assert res.points == opt.points and res.values.tobytes() == opt.values.tobytes()
    assert (res.x, res.fun) == tuple(opt.best) and res.nfev == 150
    assert res.success and res.status is Status.EVAL_LIMIT
    assert len({tuple(x.values()) for x in res.points}) == 150
    assert (res.history["fun"] == res.values[res.history["nfev"] - 1]).all()
    assert str(res.x["depth"]) in repr(res)


@pytest.mark.parametrize("how", [{"vectorized": True}, {"workers": map}, {"workers": 2}], ids=str)
def test_vectorized_and_on_workers(how):
    settings = StepDirectSettings(batch=4)
    expected = stepdirect(value, SPACE, max_evals=60, settings=settings, rng=0)
    fun = value
    if "vectorized" in how:

        def fun(points):
            assert isinstance(points, list)
            return [value(x) for x in points]

    res = stepdirect(fun, SPACE, max_evals=60, settings=settings, rng=0, **how)
    assert res.points == expected.points and (res.values == expected.values).all()


def test_more_workers_get_larger_batches():
    sizes = []

    def like_map(f, points):
        sizes.append(len(points))
        return map(f, points)

    stepdirect(value, SPACE, max_evals=60, workers=like_map, rng=0)
    assert sizes[-2] == (__import__("os").cpu_count() or 1)


def test_a_finite_space_is_evaluated_once_each():
    seen = []
    res = stepdirect(lambda x: seen.append(x) or x["a"] * x["b"], {"a": [1, 2, 3], "b": (0, 4)})
    assert (res.nfev, res.status, res.success) == (15, Status.EXHAUSTED, True)
    assert len({tuple(x.values()) for x in seen}) == 15 and res.fun == 0
    assert "every point" in res.message
    fixed = stepdirect(lambda x: x["a"], {"a": (2, 2), "b": ["only"]})
    assert (fixed.x, fixed.fun, fixed.nfev) == ({"a": 2, "b": "only"}, 2, 1)


def test_if_all_fail_there_is_no_point():
    seen = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = stepdirect(lambda x: 1 / 0, SPACE, max_evals=30, rng=0, callback=seen.append)
    assert res.x is None and np.isnan(res.fun) and not res.success and res.nfailed == 30
    assert all(progress.x is None for progress in seen) and "x = None" in repr(res)
    assert len(caught) == 1 and "'depth': " in str(caught[0].message)
    assert "every evaluation failed, the first with ZeroDivisionError" in res.message


def test_the_function_may_change_its_argument():
    def fun(x):
        found = value(x)
        x.clear()
        return found

    expected = stepdirect(value, SPACE, max_evals=40, rng=0)
    assert stepdirect(fun, SPACE, max_evals=40, rng=0).points == expected.points


def test_callbacks_and_interrupts():
    seen = []

    def callback(progress):
        seen.append(progress)
        if progress.nfev >= 30:
            raise StopIteration("enough")

    res = stepdirect(value, SPACE, rng=0, callback=callback)
    assert res.status is Status.STOPPED and res.message == "stopped by the callback: enough"
    assert res.nfev == seen[-1].nfev and res.x == seen[-1].x
    calls = []

    def interrupted(x):
        calls.append(x)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return value(x)

    res = stepdirect(interrupted, SPACE, rng=0)
    assert res.status is Status.STOPPED and res.nfev == 20 and np.isnan(res.values[-1])
    assert res.points == calls


def test_weights_by_name():
    weights = {name: k + 1 for k, name in enumerate(SPACE)}
    how = {"settings": PRESETS["paper"], "max_evals": 100, "rng": 0}
    by_name = stepdirect(value, SPACE, weights=weights, **how)
    listed = stepdirect(value, SPACE, weights=list(weights.values()), **how)
    assert by_name.points == listed.points
    with pytest.raises(InputError, match="weights is"):
        stepdirect(value, SPACE, weights={"depth": 1})


@pytest.mark.parametrize(
    "wrong", [{"a": (1, 0)}, {"a": "x"}, {"a": []}, {}, {1: (0, 1)}, [Real(0, 1)]], ids=str
)
def test_wrong_spaces(wrong):
    with pytest.raises(InputError, match="bounds"):
        stepdirect(value, wrong)


# For decisions.

DIMENSIONS = [Integer(0, 9), Choice([0.5, -2.0, 7.0]), Real(0.0, 1.0), Choice([np.nan])]


def test_search_within_evaluates_numbers():
    seen = []

    def fun(X):
        seen.append(X)
        return np.abs(X[:, 0] - 4) + X[:, 1] + X[:, 2]

    run = Run(Limits(None), max_evals=300, seed=5)
    res = search_within(run, fun, Dimensions(DIMENSIONS), at_once=16)
    X = np.concatenate(seen)
    assert X.tobytes() == res.points.tobytes() and max(map(len, seen)) <= 16
    assert set(X[:, 0]) <= set(range(10)) and set(X[:, 1]) <= {0.5, -2.0, 7.0}
    assert np.isnan(X[:, 3]).all()
    assert res.x[:2].tolist() == [4.0, -2.0] and res.nfev == 300 and run.status is res.status


def test_search_within_on_an_ensemble():
    """On real dimensions in the compiled loop, else by its prediction; the same as `stepdirect`."""
    fitted, X, _ = model("small forest")
    e = treeopt.from_model(fitted)
    lower, upper = X.min(axis=0), X.max(axis=0)
    run = Run(Limits(None), max_evals=200, seed=read_seed(3))
    res = search_within(run, e, real_dimensions(lower, upper), weights=e.importances)
    expected = stepdirect(e, X, max_evals=200, rng=3)
    assert res.points.tobytes() == expected.points.tobytes()
    space = Dimensions([Real(lower[0], upper[0]), Integer(-5, 15), *DIMENSIONS[1:3]])
    results = [
        search_within(Run(Limits(None), max_evals=200, seed=3), fun, space)
        for fun in (e, e.predict)
    ]
    assert results[0].points.tobytes() == results[1].points.tobytes()
    assert (e.predict(results[0].points) == results[0].values).all()
    short = search_within(Run(Limits(None), max_evals=50), e, space, with_points=False)
    assert len(short.points) == 0 and len(short.values) == 50
