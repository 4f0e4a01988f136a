"""`stepdirect` as users call it: limits, failures, models, and what it tells them."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

import treeopt
from tests import truth
from tests.messages import says
from treeopt import InputError, Status, StepDirectSettings, stepdirect

paper = StepDirectSettings.paper
PRESETS = {
    "default": StepDirectSettings(),
    "paper": paper(),
    "StepDIRECT-0": paper(local_search=None),
    "sphere": paper(local_search="sphere"),
    "box": paper(search_region="box"),
    "direct": StepDirectSettings.direct(),
}
every_preset = pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS)
BOX = [(-2, 1), (0, 3), (-1, 1)]


def steps(x) -> float:
    """Return a function with steps; its least value is 0."""
    return float(np.floor(7 * np.abs(np.asarray(x) - 0.3)).sum())


class Counted:
    """A function that remembers where it was called."""

    def __init__(self, fun=steps):
        self.fun, self.points = fun, []

    def __call__(self, x):
        self.points.append(x.copy())
        return self.fun(x)


def check(res, calls=None, box=BOX) -> None:
    """Check what holds for every result."""
    assert len(res.points) == len(res.values) == res.nfev
    assert calls is None or np.array_equal(np.reshape(calls, res.points.shape), res.points)
    low, high = np.array(box, float).T
    assert (res.points >= low).all() and (res.points <= high).all()
    assert np.isnan(res.values).sum() == res.nfailed and not np.isinf(res.values).any()
    assert res.time >= 0 and res.nit >= 0 and repr(res)
    history = res.history
    assert (np.diff(history["fun"]) < 0).all() and (np.diff(history["nfev"]) > 0).all()
    assert (np.diff(history["time"]) >= 0).all() and (history["time"] <= res.time).all()
    assert (history["fun"] == res.values[history["nfev"] - 1]).all()
    if res.nfailed == res.nfev:
        assert not res.success and np.isnan(res.fun) and np.isnan(res.x).all()
        assert history.size == 0
    else:
        best = int(np.nanargmin(res.values))
        assert res.fun == res.values[best] == history["fun"][-1]
        assert np.array_equal(res.x, res.points[best]) and history["nfev"][-1] == best + 1


# Budgets, batches and workers.


@every_preset
@pytest.mark.parametrize("batch", [None, 3, 7])
def test_every_evaluation_is_counted_and_the_budget_is_kept(settings, batch):
    for n in (1, 2, 3, 6, 7, 8, 50, 501):
        fun = Counted()
        res = stepdirect(fun, BOX, max_evals=n, settings=replace(settings, batch=batch), rng=0)
        check(res, fun.points)
        assert res.nfev == n and res.success and res.status is Status.EVAL_LIMIT
        assert str(n) in res.message


@every_preset
def test_ways_to_evaluate_give_the_same_points(settings):
    settings = replace(settings, batch=4)
    expected = stepdirect(steps, BOX, max_evals=101, settings=settings, rng=3)
    rows = Counted(lambda X: [steps(x) for x in X])
    single = Counted()
    with ThreadPoolExecutor(2) as pool:
        for fun, how in (
            (rows, {"vectorized": True}),
            (single, {"workers": map}),
            (steps, {"workers": pool.map}),
        ):
            res = stepdirect(fun, BOX, max_evals=101, settings=settings, rng=3, **how)
            check(res)
            assert np.array_equal(res.points, expected.points)
            assert np.array_equal(res.values, expected.values)
    assert np.array_equal(np.concatenate(rows.points), expected.points)
    assert len(single.points) == 101


def steps_with_trace(path, x) -> float:
    with open(path, "a") as file:
        file.write("x")
    return steps(x)


@pytest.mark.parametrize("n", [1, 2, 40])
def test_other_processes(tmp_path, n):
    fun = partial(steps_with_trace, tmp_path / "calls")
    res = stepdirect(fun, BOX, max_evals=n, workers=2, rng=0)
    check(res)
    assert res.nfev == n == len((tmp_path / "calls").read_text())
    settings = StepDirectSettings(batch=2)
    assert np.array_equal(
        res.points, stepdirect(steps, BOX, max_evals=n, settings=settings, rng=0).points
    )


@every_preset
def test_a_seed_repeats_the_search(settings):
    def points(rng):
        return stepdirect(steps, BOX, max_evals=80, settings=settings, rng=rng).points

    assert np.array_equal(points(5), points(5))
    assert np.array_equal(points(np.random.default_rng(5)), points(5))


@every_preset
@pytest.mark.parametrize("fun", [lambda x: 1.0, lambda x: abs(x[0] - 0.123)], ids=["flat", "kink"])
def test_one_dimension_and_many_evaluations(settings, fun):
    """Sides become too short to divide, and the search goes on elsewhere or says so."""
    res = stepdirect(fun, [(0, 1)], max_evals=3000, settings=settings, rng=0)
    check(res, box=[(0, 1)])
    assert res.success and res.status in (Status.EVAL_LIMIT, Status.EXHAUSTED)


def test_the_default_finds_the_optimum():
    res = stepdirect(steps, [(-2, 1)] * 8, rng=0)
    assert res.fun == 0


# Fixed coordinates and weights.


@every_preset
def test_all_fixed_is_one_evaluation(settings):
    fun = Counted()
    res = stepdirect(fun, [(1, 1), (2, 2)], settings=settings)
    check(res, fun.points, box=[(1, 1), (2, 2)])
    assert res.nfev == 1 and res.success and res.status is Status.EXHAUSTED
    assert "fixed" in res.message


@every_preset
def test_fixed_coordinates_are_left_out(settings):
    box, weights = [(-2, 1), (0.7, 0.7), (-1, 1)], [3, 100, 1]
    res = stepdirect(steps, box, max_evals=90, settings=settings, weights=weights, rng=1)
    check(res, box=box)
    less = stepdirect(
        lambda x: steps([x[0], 0.7, x[1]]),
        [box[0], box[2]],
        max_evals=90,
        settings=settings,
        weights=[1.5, 0.5],
        rng=1,
    )
    assert np.array_equal(np.delete(res.points, 1, axis=1), less.points)


@every_preset
def test_weights_count_by_proportion_and_zeros_mean_uniform(settings):
    def points(weights):
        how = {"max_evals": 400, "settings": settings, "rng": 1}
        return stepdirect(steps, BOX, weights=weights, **how).points

    assert np.array_equal(points(None), points([0, 0, 0]))
    assert np.array_equal(points(None), points([4, 4, 4]))
    assert np.array_equal(points([1, 2, 4]), points([0.25, 0.5, 1]))
    assert np.array_equal(points([1e308, 1e308, 0]), points([1, 1, 0]))
    if settings != StepDirectSettings.direct():
        assert not np.array_equal(points(None), points([9, 1, 0]))


# Models.


@cache
def model(kind: str):
    """Return a model, its data and what is asked of it."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 4)) * [1, 20, 0.01, 5] - [0, 5, 0, 2]
    y = np.sin(3 * X[:, 0]) + X[:, 1] / 10 - (X[:, 3] > 0)
    label = (y > y.mean()).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    if kind == "small forest":
        return RandomForestRegressor(20, max_leaf_nodes=30, random_state=0).fit(X, y), X, {}
    if kind == "forest":
        return RandomForestRegressor(20, random_state=0).fit(frame, y), frame, {}
    if kind == "xgboost":
        return xgb.XGBRegressor(n_estimators=30, max_depth=4).fit(X, y), X, {}
    if kind == "xgboost poisson":
        return (
            xgb.XGBRegressor(n_estimators=9, objective="count:poisson").fit(X, y - y.min()),
            X,
            {},
        )
    if kind == "xgboost classifier":
        made = xgb.XGBClassifier(n_estimators=20).fit(X, label)
        return made, X, {"output": "proba", "class_index": 0}
    if kind == "boosting classifier":
        return GradientBoostingClassifier(n_estimators=20).fit(X, label), X, {"output": "proba"}
    return lgb.LGBMRegressor(n_estimators=30, verbose=-1).fit(X, y), X, {}


KINDS = ("small forest", "forest", "xgboost", "xgboost poisson", "xgboost classifier")
KINDS += ("boosting classifier", "lightgbm")


def as_function(ensemble):
    return lambda x: ensemble.predict(x[None])[0]


def assert_same(a, b) -> None:
    assert a.points.tobytes() == b.points.tobytes()
    assert a.values.tobytes() == b.values.tobytes()
    assert (a.nfev, a.nit, a.nfailed, a.status) == (b.nfev, b.nit, b.nfailed, b.status)
    assert a.message == b.message and a.fun == b.fun


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fixed", [False, True])
def test_a_model_is_searched_as_its_prediction_would_be(kind, fixed):
    fitted, X, asked = model(kind)
    e = treeopt.from_model(fitted, **asked)
    low, high = np.asarray(X).min(axis=0), np.asarray(X).max(axis=0)
    low[0] = high[0] if fixed else low[0]
    box = np.column_stack([low, high])
    bounds = box if fixed else X
    for settings in PRESETS.values():
        how = {"max_evals": 1300, "settings": settings, "rng": 2}
        res = stepdirect(e, bounds, **how)
        check(res, box=box)
        assert_same(res, stepdirect(as_function(e), box, weights=e.importances, **how))
        assert res.fun == e.predict(res.x[None])[0]
    assert_same(res, stepdirect(e, bounds, vectorized=True, **how))
    weighted = {"weights": [1, 2, 3, 4], "max_evals": 60, "rng": 0}
    assert_same(stepdirect(e, bounds, **weighted), stepdirect(as_function(e), box, **weighted))
    if not asked:
        frame = pd.DataFrame([res.x], columns=getattr(X, "columns", None))
        assert res.fun == fitted.predict(frame if isinstance(X, pd.DataFrame) else res.x[None])[0]


@hypothesis_settings(max_examples=15)
@given(truth.ensembles(), st.integers(0, 9), st.sampled_from(sorted(PRESETS)))
def test_any_ensemble_is_searched_as_its_prediction_would_be(e, seed, name):
    box = [(-2, 3)] * e.n_features
    how = {"max_evals": 120, "settings": PRESETS[name], "rng": seed}
    res = stepdirect(e, box, **how)
    check(res, box=box)
    assert_same(res, stepdirect(as_function(e), box, weights=e.importances, **how))


@pytest.mark.parametrize("workers", [2, map])
def test_workers_are_of_no_use_to_a_model(workers):
    """Either the same result, or an error that blames the right argument."""
    fitted, X, _ = model("small forest")
    e = treeopt.from_model(fitted)
    with pytest.raises(InputError, match=r"^workers"):
        stepdirect(e, X, workers=workers, max_evals=20)


def test_a_model_of_fixed_features_is_one_evaluation():
    e = treeopt.from_model(model("small forest")[0])
    res = stepdirect(e, [(0.5, 0.5)] * 4)
    assert res.nfev == 1 and res.fun == e.predict([[0.5] * 4])[0] and res.success


# Failed evaluations.


def fail(how: str):
    if how == "raise":
        raise ZeroDivisionError("no luck")
    values = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "none": None, "two": [1, 2]}
    return {**values, "text": "much", "complex": 1 + 2j, "empty": []}[how]


QUIET = ("nan", "inf", "-inf")
FAILURES = (*QUIET, "raise", "none", "two", "text", "complex", "empty")


@every_preset
@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.filterwarnings("ignore:fun failed")
def test_failures_are_counted_and_never_win(settings, how):
    """Where half of the box fails, the optimum of the other half is found."""
    box = [(-1, 1), (-1, 1)]
    fun = Counted(lambda x: fail(how) if x[0] + x[1] > 0.5 else steps(x))
    res = stepdirect(fun, box, max_evals=400, settings=settings, rng=0)
    check(res, fun.points, box)
    bad = res.points.sum(axis=1) > 0.5
    assert (np.isnan(res.values) == bad).all() and res.nfailed == bad.sum() > 0
    assert res.success and res.fun <= 1 and f"{res.nfailed} of them failed" in repr(res)


@every_preset
@pytest.mark.parametrize("how", FAILURES)
def test_if_all_fail_the_message_says_so(settings, how):
    fun = Counted(lambda x: fail(how))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        res = stepdirect(fun, BOX, max_evals=60, settings=settings, rng=0)
    check(res, fun.points)
    assert res.nfev == res.nfailed == 60
    assert "every evaluation failed" in res.message
    if how in QUIET:
        assert not seen
    else:
        assert len(seen) == 1 and seen[0].filename == __file__
        assert seen[0].category is RuntimeWarning and "fun failed at [" in str(seen[0].message)
        assert "the first with" in res.message
    if how == "raise":
        assert "ZeroDivisionError: no luck" in res.message
        assert "ZeroDivisionError: no luck" in str(seen[0].message)


@pytest.mark.parametrize("wrong", [lambda X: 1.0, lambda X: X, lambda X: None, lambda X: X[:1, 0]])
def test_a_vectorized_function_of_wrong_shape_fails(wrong):
    with pytest.warns(RuntimeWarning, match=says("fun failed at", "Failed evaluations")):
        res = stepdirect(wrong, BOX, max_evals=30, vectorized=True)
    check(res)
    # Where a batch is a single point, one value is right.
    assert res.nfev == 30 and res.nfailed >= 6


@pytest.mark.filterwarnings("ignore:fun failed")
def test_failures_in_workers():
    def fun(x):
        return fail("raise") if x[0] > 0 else steps(x)

    alone = stepdirect(fun, BOX, max_evals=60, rng=0, settings=paper())
    with ThreadPoolExecutor(2) as pool:
        res = stepdirect(fun, BOX, max_evals=60, rng=0, settings=paper(), workers=pool.map)
    check(res)
    assert res.nfailed > 0 and np.array_equal(res.values, alone.values, equal_nan=True)


def test_the_function_may_change_its_argument():
    def fun(x):
        value = steps(x)
        x[:] = np.nan
        return value

    expected = stepdirect(steps, BOX, max_evals=50, rng=0)
    for how in ({}, {"workers": map}):
        settings = replace(StepDirectSettings(), batch=1)
        res = stepdirect(fun, BOX, max_evals=50, rng=0, settings=settings, **how)
        assert np.array_equal(res.points, expected.points)


# Ending early.


def stopped_at(n: int, why: BaseException):
    """Return a callback that raises after ``n`` evaluations, and what it has seen."""
    seen = []

    def callback(progress):
        seen.append(progress)
        if progress.nfev >= n:
            raise why

    return callback, seen


def targets() -> list:
    """Return a function, and models of both engines with their data."""
    pairs = [(treeopt.from_model(model(k)[0]), model(k)[1]) for k in ("small forest", "forest")]
    return [(steps, BOX), *pairs]


@every_preset
@pytest.mark.parametrize("target", range(3), ids=["function", "masks", "walk"])
@pytest.mark.parametrize(
    ("why", "says_why"),
    [
        (StopIteration(), "stopped by the callback"),
        (StopIteration("enough"), "stopped by the callback: enough"),
        (KeyboardInterrupt(), "interrupted from the keyboard"),
    ],
    ids=["silent", "reason", "Ctrl-C"],
)
def test_a_callback_ends_the_search(settings, target, why, says_why):
    fun, bounds = targets()[target]
    callback, seen = stopped_at(40, why)
    res = stepdirect(fun, bounds, callback=callback, settings=settings, rng=0)
    check(res, box=BOX if target == 0 else np.column_stack([*map(np.asarray, _ends(bounds))]))
    assert (res.success, res.status, res.message) == (False, Status.STOPPED, says_why)
    assert res.nfev == seen[-1].nfev >= 40 > seen[-2].nfev


def _ends(X):
    return np.asarray(X).min(axis=0), np.asarray(X).max(axis=0)


@every_preset
@pytest.mark.parametrize("target", range(3), ids=["function", "masks", "walk"])
def test_the_callback_sees_where_the_search_stands(settings, target):
    fun, bounds = targets()[target]
    callback, seen = stopped_at(10**9, StopIteration())
    res = stepdirect(fun, bounds, callback=callback, settings=settings, rng=0, max_evals=1500)
    quiet = stepdirect(fun, bounds, settings=settings, rng=0, max_evals=1500)
    assert_same(res, quiet)
    assert (np.diff([p.nfev for p in seen]) > 0).all()
    assert (np.diff([p.nit for p in seen]) >= 0).all()
    assert (np.diff([p.time for p in seen]) >= 0).all()
    assert seen[0].nfev == 1 and seen[-1].nfev == 1500
    for p in seen:
        best = np.argmin(res.values[: p.nfev])
        assert p.fun == res.values[best] and np.array_equal(p.x, res.points[best])
        assert p.nfailed == 0


def test_a_model_calls_back_after_the_same_batches_as_its_prediction():
    e, X = targets()[1]
    box = np.column_stack(_ends(X))
    for settings in PRESETS.values():
        counts = []
        for fun in (e, as_function(e)):
            callback, seen = stopped_at(10**9, StopIteration())
            how = {"weights": e.importances, "settings": settings, "rng": 0}
            stepdirect(fun, box, max_evals=3000, callback=callback, **how)
            counts.append([(p.nfev, p.nit) for p in seen])
        assert counts[0] == counts[1]


@every_preset
@pytest.mark.parametrize("how", [{}, {"vectorized": True}, {"workers": map}], ids=str)
def test_ctrl_c_in_the_function(settings, how):
    """The interrupted call counts; it has no value."""
    calls = []

    def fun(x):
        calls.append(np.atleast_2d(x))
        if sum(map(len, calls)) >= 30:
            raise KeyboardInterrupt
        return [steps(row) for row in x] if "vectorized" in how else steps(x)

    res = stepdirect(fun, BOX, settings=settings, rng=0, **how)
    check(res, np.concatenate(calls))
    assert (res.success, res.status) == (False, Status.STOPPED)
    assert "keyboard" in res.message and np.isnan(res.values[-1]) and np.isfinite(res.fun)


@every_preset
def test_time_limit(settings):
    import time

    calls = Counted(lambda x: time.sleep(0.002) or steps(x))
    res = stepdirect(calls, BOX, max_evals=10**6, settings=settings, time_limit=0.1, rng=0)
    check(res, calls.points)
    assert (res.success, res.status) == (False, Status.TIME_LIMIT)
    assert "time limit of 0.1 s" in res.message and 0.1 <= res.time < 1


@pytest.mark.parametrize("target", [1, 2], ids=["masks", "walk"])
def test_time_limit_of_a_model(target):
    e, X = targets()[target]
    res = stepdirect(e, X, max_evals=10**8, time_limit=0.2, rng=0)
    assert (res.success, res.status) == (False, Status.TIME_LIMIT) and res.nfev > 256
    assert 0.2 <= res.time < 1


def test_a_search_that_is_complete_did_not_run_out_of_time():
    e, X = targets()[1]
    stepdirect(e, X, max_evals=200, rng=0)
    res = stepdirect(e, X, max_evals=200, time_limit=1e-9, rng=0)
    assert (res.status is Status.EVAL_LIMIT) == (res.nfev == 200)


def test_other_errors_of_the_callback_are_the_users():
    callback, _ = stopped_at(5, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        stepdirect(steps, BOX, callback=callback)


# What is printed.


def test_a_result_reads_like_a_sentence():
    res = stepdirect(steps, BOX, max_evals=50, rng=0)
    text = repr(res)
    assert text.startswith(f"fun = {res.fun:g} after 50 evaluations in ")
    assert "all 50 evaluations are used up.\nx = [" in text


def test_settings_show_what_differs_from_the_default():
    assert repr(StepDirectSettings()) == "StepDirectSettings()"
    assert repr(StepDirectSettings(tau=2.0)) == "StepDirectSettings(tau=2.0)"
    again = eval(repr(paper(local_search="sphere")))
    assert again == paper(local_search="sphere")


# Wrong arguments.


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"fun": 3}, ["fun is int", "from_model"]),
        ({"max_evals": 0}, ["max_evals is 0", "above 0"]),
        ({"max_evals": 1e3}, ["max_evals is 1000.0", "whole number"]),
        ({"max_evals": True}, ["max_evals is True", "whole number"]),
        ({"time_limit": 0}, ["time_limit is 0", "above 0"]),
        ({"time_limit": np.nan}, ["time_limit is nan", "above 0"]),
        ({"time_limit": "1 h"}, ["time_limit is '1 h'", "above 0"]),
        ({"weights": [1, 2]}, ["weights has shape (2,)", "3"]),
        ({"weights": [1, -1, 0]}, ["weights[1] is -1", "at least 0"]),
        ({"weights": [1, np.nan, 0]}, ["weights[1] is nan", "finite"]),
        ({"weights": "abc"}, ["weights is 'abc'", "Pass"]),
        ({"settings": "paper"}, ["settings is 'paper'", "StepDirectSettings"]),
        ({"callback": 3}, ["callback is 3", "Pass"]),
        ({"rng": "seed"}, ["rng is 'seed'", "Pass"]),
        ({"rng": -1}, ["rng is -1", "Pass"]),
        ({"workers": 0}, ["workers is 0", "Pass"]),
        ({"workers": 1.5}, ["workers is 1.5", "Pass"]),
        ({"workers": True}, ["workers is True", "Pass"]),
        ({"workers": 2, "vectorized": True}, ["vectorized", "workers is 2", "one of the two"]),
        ({"workers": map, "vectorized": True}, ["vectorized", "workers", "one of the two"]),
        ({"workers": 2, "fun": lambda x: 0.0}, ["workers is 2", "another process", "ThreadPool"]),
        ({"bounds": [(1, 0)]}, ["bounds[0] is (1.0, 0.0)", "Swap"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_arguments(wrong, parts):
    arguments = {"fun": steps, "bounds": BOX, **wrong}
    with pytest.raises(InputError, match=says(*parts)):
        stepdirect(**arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, value)
            for name in ("delta", "rounds", "sigma_min", "delta_min")
            for value in (0, -1)
        ),
        ("delta_max", np.nan),
        ("delta", "far"),
        ("epsilon", -1e-9),
        ("epsilon", np.nan),
        ("epsilon", None),
        ("neighbourhood", 0),
        ("neighbourhood", "near"),
        ("sigma_min", 1),
        ("tau", 1),
        ("weight_floor", 1.1),
        ("weight_floor", -0.1),
        ("refine", 1),
        ("refine", -0.1),
        ("n_directions", 0),
        ("n_directions", 2.5),
        ("n_directions", None),
        ("batch", 0),
        ("batch", 1.5),
        ("ties", "none"),
        ("sides", "shortest"),
        ("epsilon_scale", None),
        ("local_search", "axes"),
        ("search_region", "cube"),
        ("delta", 3.0),
        ("delta_min", 1.5),
    ],
)
def test_wrong_settings(name, value):
    with pytest.raises(InputError, match=says(name, f"{value!r}".strip("()"), "Pass")):
        StepDirectSettings(**{name: value})
