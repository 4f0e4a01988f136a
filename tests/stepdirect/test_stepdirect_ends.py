"""How a search ends: failed evaluations, limits, callbacks and Ctrl-C."""

from __future__ import annotations

import importlib
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import treeopt
from tests.support.messages import says
from tests.support.searches import (
    BOX,
    PRESETS,
    Counted,
    as_function,
    assert_same,
    check,
    ctrl_c,
    every_preset,
    model,
    paper,
    steps,
)
from treeopt import Status, StepDirectSettings, stepdirect
from treeopt.run.status import Stopped

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
    assert res.success and res.fun <= 1 and f"({res.nfailed} failed)" in repr(res)


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
    assert seen[0].nfev == 2 * len(res.x) + 1 and seen[-1].nfev == 1500
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


@pytest.mark.parametrize("target", range(3), ids=["function", "masks", "walk"])
def test_ctrl_c_at_any_moment(target):
    fun, bounds = targets()[target]
    counted = Counted(fun) if target == 0 else fun
    stepdirect(fun, bounds, max_evals=1)  # compiles
    for k in range(12):
        if target == 0:
            counted.points.clear()
        res = stepdirect(counted, bounds, max_evals=10**7, rng=k, callback=ctrl_c(0.003 * k))
        assert not res.success and "interrupted from the keyboard" in res.message
        if target == 0:
            # The last call may have been cut short before the function's first line.
            reached = len(counted.points)
            assert reached == res.nfev or (reached == res.nfev - 1 and np.isnan(res.values[-1]))
            assert np.array_equal(counted.points, res.points[:reached])
            check(res)
        else:
            assert np.array_equal(fun.predict(res.points), res.values)
            assert res.fun == res.values.min()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("how", [{"workers": map}, {"vectorized": True}, {}], ids=str)
def test_a_time_limit_is_looked_at_within_large_batches(how):
    def slow(x):
        time.sleep(0.002 * len(np.atleast_2d(x)))
        return np.zeros(len(x)) if how.get("vectorized") else 0.0

    settings = StepDirectSettings.paper()
    res = stepdirect(slow, [(0, 1)] * 10, time_limit=0.3, max_evals=10**6, settings=settings, **how)
    assert res.status is Status.TIME_LIMIT and res.nfev < 3000


@pytest.mark.parametrize("target", range(3), ids=["function", "masks", "walk"])
def test_a_limit_that_strikes_while_tables_grow_loses_no_evaluation(target, monkeypatch):
    driver = importlib.import_module("treeopt.stepdirect.driver")
    grown = driver.grown

    def limited(state, room, look):
        if room > 3000:
            raise Stopped(Status.TIME_LIMIT, "no time to grow")
        return grown(state, room, look)

    monkeypatch.setattr(driver, "grown", limited)
    fun, bounds = targets()[target]
    counted = Counted(fun) if target == 0 else fun
    res = stepdirect(counted, bounds, max_evals=10**5, rng=0)
    assert res.status is Status.TIME_LIMIT and res.nfev > 1000
    assert res.fun == np.nanmin(res.values) == res.history["fun"][-1]
    if target == 0:
        check(res, counted.points)
    else:
        assert np.array_equal(fun.predict(res.points), res.values)
