"""`stepdirect` as users call it: budgets, batches, workers and models."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor

import treeopt
from tests.support import truth
from tests.support.searches import (
    BOX,
    KINDS,
    PRESETS,
    Counted,
    as_function,
    assert_same,
    check,
    every_preset,
    model,
    paper,
    steps,
)
from treeopt import InputError, Status, StepDirectSettings, stepdirect

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


def fitted_here(x) -> float:
    rows = np.random.default_rng(0).random((50, 2))
    model = HistGradientBoostingRegressor(max_iter=3, learning_rate=x[0]).fit(rows, rows[:, 0])
    return float(model.predict(rows).mean())


def test_other_processes_do_not_hang_after_a_library_with_threads_was_used():
    fitted_here([0.1])
    res = stepdirect(fitted_here, [(0.01, 1)], max_evals=4, workers=2, rng=0)
    assert res.success and res.nfailed == 0


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


# Models.


CATEGORIES = pytest.mark.filterwarnings("ignore:feature .* has categories")


@CATEGORIES
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


@CATEGORIES
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


# What is printed.


def test_a_result_reads_like_a_sentence():
    res = stepdirect(steps, BOX, max_evals=50, rng=0)
    text = repr(res)
    assert text.startswith(f"fun = {res.fun:g} after 50 evaluations in ")
    assert "the limit of 50 evaluations is reached.\nx = [" in text


def test_settings_show_what_differs_from_the_default():
    assert repr(StepDirectSettings()) == "StepDirectSettings()"
    assert repr(StepDirectSettings(tau=2.0)) == "StepDirectSettings(tau=2.0)"
    again = eval(repr(paper(local_search="sphere")))
    assert again == paper(local_search="sphere")
