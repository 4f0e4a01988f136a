"""How a decision ends: limits, gaps, callbacks and Ctrl-C, at any moment with a valid bound."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeopt
from tests.support.decisions import (
    FUZZ,
    SENSES,
    better,
    change_settings,
    check,
    hard,
    hardest,
    random_problem,
    slow,
)
from tests.support.searches import ctrl_c, model
from tests.support.truth import ensembles
from treeopt import DecisionProgress, Status
from treeopt.exact import solver
from treeopt.exact.dual_search import DualSearch
from treeopt.run import limits, watch

each_sense = pytest.mark.parametrize("sense", SENSES)


@pytest.fixture(params=["plain", "by prices"])
def in_small_steps(request, monkeypatch):
    """Let the proof pause after every few nodes."""
    change_settings(monkeypatch, first_work=1, max_work=400, plunge_nodes=3)
    if request.param == "by prices":
        monkeypatch.setattr(solver, "TreeSearch", DualSearch)


def after(n: int, why: BaseException | None = None):
    """Return a callback that raises at its ``n``-th call, and what it has seen."""
    seen: list[DecisionProgress] = []

    def callback(progress):
        seen.append(progress)
        if len(seen) >= n:
            raise why or StopIteration("enough")

    return callback, seen


def stop_at_random(e, seed: int) -> None:
    """Whenever it stops, the optimum by brute force is between value and bound."""
    rng = np.random.default_rng(seed)
    problem = random_problem(e, rng)
    if not all(v.size for v in problem.values):
        return
    every = problem.predictions()
    for sense in SENSES:
        best = float(every.min() if sense == "min" else every.max())
        how = [
            {"callback": after(int(rng.integers(1, 30)))[0]},
            {"max_evals": int(rng.integers(1, 12))},
            {"time_limit": float(rng.choice([1e-9, 1e-4, 1e-3]))},
            {"gap": float(rng.choice([1e-3, 0.1, 3.0]))},
        ][rng.integers(4)]
        res = problem.decide(sense, rng=0, method=str(rng.choice(["auto", "exact"])), **how)
        check(res, sense, best)
        assert res.nfev <= how.get("max_evals", 10**9)
        assert res.success == (res.status in (Status.OPTIMAL, Status.GAP_REACHED))
        if res.status is Status.GAP_REACHED:
            assert res.gap <= how["gap"]


def test_stopped_at_any_moment(in_small_steps):
    @given(ensembles(12), st.integers(0, 2**32 - 1))
    @settings(FUZZ, max_examples=150)
    def run(e, seed):
        stop_at_random(e, seed)

    run()


@slow
def test_stopped_at_any_moment_many_times(in_small_steps):
    @given(ensembles(40), st.integers(0, 2**32 - 1))
    @settings(FUZZ, max_examples=5000)
    def run(e, seed):
        stop_at_random(e, seed)

    run()


@each_sense
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_callback_ends_a_hard_proof(sense, n_jobs, in_small_steps):
    """The bounds on the way are true, and get better."""
    e, X, best = hard(sense)
    bounds = []
    for n in (1, 6, 12):
        callback, seen = after(n)
        res = SENSES[sense](e, X, callback=callback, rng=0, n_jobs=n_jobs)
        check(res, sense, best)
        assert len(seen) == n and res.status is Status.STOPPED and not res.success
        assert res.message == "stopped by the callback: enough"
        for p in seen:
            assert isinstance(p, DecisionProgress) and p.gap == abs(p.fun - p.bound)
            assert not better(best, p.bound, sense) and not better(p.fun, best, sense)
            assert e.predict(np.asarray(p.x, float)[None, :])[0] == p.fun
        assert all(np.diff([p.nfev for p in seen]) >= 0)
        assert all(np.diff([p.nodes for p in seen]) >= 0)
        assert all(np.diff([p.time for p in seen]) >= 0)
        bounds.append(res.bound)
    assert np.isfinite(bounds).all() and better(bounds[0], bounds[-1], sense)


@each_sense
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_callback_ends_a_long_node(sense, n_jobs, monkeypatch):
    """Which goes back to where it was, so that the bound stays true; and nothing is lost."""
    change_settings(monkeypatch, dual_after=-1, slice_visits=1)
    for module in (watch, limits):
        monkeypatch.setattr(module, "POLL_INTERVAL", 1e-4)
    e, X, best = hard(sense)
    for n in (1, 3, 10, 40):
        callback, seen = after(n)
        res = SENSES[sense](e, X, callback=callback, rng=0, n_jobs=n_jobs)
        check(res, sense, best)
        assert res.status is Status.OPTIMAL or len(seen) == n
    callback, seen = after(10**9)
    res = SENSES[sense](e, X, callback=callback, rng=0, n_jobs=n_jobs)
    assert res.fun == res.bound == best and (len(seen) > 30 or n_jobs > 1)


@pytest.mark.parametrize("method", ["auto", "exact", "local"])
def test_a_limit_before_the_search_begins(method, monkeypatch):
    """The best of the points that it would have begun at; the bound is each tree at its best."""
    change_settings(monkeypatch, slice_boxes=1)
    e, X = hardest()
    res = treeopt.minimize(e, X, time_limit=1e-9, method=method, start=X[5], rng=0)
    check(res)
    assert res.status is Status.TIME_LIMIT and "before the search began" in res.message
    assert res.fun <= e.predict(X[5:6])[0]
    if method == "local":
        assert np.isnan(res.bound) and "no bound" in str(res)
    else:
        leaves = np.minimum.reduceat(e.compiled.leaf_value, e.compiled.leaf_start[:-1])
        assert res.bound == pytest.approx((e.base + leaves.sum(dtype=float)) / e.divisor, rel=1e-4)


@each_sense
def test_a_callback_that_only_looks_changes_nothing(sense):
    e, X, best = hard(sense)
    callback, seen = after(10**9)
    res = SENSES[sense](e, X, callback=callback, rng=0)
    quiet = SENSES[sense](e, X, rng=0)
    assert np.array_equal(res.x, quiet.x) and res.nodes == quiet.nodes and res.nfev == quiet.nfev
    assert res.fun == seen[-1].fun == best == res.bound
    assert abs(seen[-1].bound - best) <= res.rounding


def test_other_errors_of_the_callback_are_the_users():
    e, X, _ = hard("min")
    with pytest.raises(ZeroDivisionError):
        treeopt.minimize(e, X, callback=after(2, ZeroDivisionError())[0])


@each_sense
@pytest.mark.parametrize("method", ["auto", "exact", "local", "stepdirect"])
@pytest.mark.parametrize("most", [1, 2, 17])
def test_evaluations_are_limited(sense, method, most):
    e, X = hardest()
    res = SENSES[sense](e, X, max_evals=most, method=method, rng=0)
    check(res, sense)
    assert res.nfev <= most and res.status is Status.EVAL_LIMIT
    assert res.success == (method in ("local", "stepdirect"))
    assert str(most) in res.message and "eval" in res.message


@pytest.mark.parametrize("method", ["auto", "exact", "local", "stepdirect"])
@pytest.mark.parametrize("limit", [1e-9, 0.05])
def test_time_is_limited(method, limit):
    e, X = hardest()
    res = treeopt.minimize(e, X, time_limit=limit, method=method, max_evals=10**9, rng=0)
    check(res)
    assert (res.status, res.success) == (Status.TIME_LIMIT, False)
    assert f"time limit of {limit:g} s" in res.message and limit <= res.time < limit + 0.5
    assert np.isfinite(res.fun)


@slow
def test_compilation_takes_none_of_the_time(tmp_path):
    """At the very first call the time limit is for the search alone."""
    from tests.kernels.test_startup import python

    code = (
        "import numpy as np, treeopt\n"
        "from sklearn.ensemble import RandomForestRegressor\n"
        "X = np.random.default_rng(0).normal(size=(100, 3))\n"
        "model = RandomForestRegressor(5, random_state=0).fit(X, X.sum(axis=1))\n"
        "res = treeopt.minimize(model, X, time_limit=1.0)\n"
        "print(res.status.name, res.time < 1.0)"
    )
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert python(code, **environment).stdout.split() == ["OPTIMAL", "True"]


@each_sense
def test_a_gap_that_is_asked_for_is_enough(sense):
    e, X, best = hard(sense)
    proven = SENSES[sense](e, X, rng=0)
    wide = SENSES[sense](e, X, gap=1e6, rng=0)
    check(wide, sense, best)
    assert wide.status in (Status.GAP_REACHED, Status.OPTIMAL) and wide.success
    assert wide.gap <= 1e6 and wide.nodes <= proven.nodes
    for gap in (0.5, 0.05):
        res = SENSES[sense](e, X, gap=gap, rng=0)
        check(res, sense, best)
        assert res.success and res.gap <= gap


def test_the_message_tells_the_gap(in_small_steps):
    e, X, _ = hard("min")
    res = treeopt.minimize(e, X, gap=0.5, rng=0)
    assert res.status is Status.GAP_REACHED and res.message == "the gap of 0.5 is reached"


@pytest.mark.parametrize("how", [{}, {"n_jobs": 2}, {"method": "local"}, {"method": "stepdirect"}])
def test_ctrl_c_at_any_moment(how):
    e, X = hardest()
    treeopt.minimize(e, X, max_evals=3)  # compiles
    for k in range(3):
        res = treeopt.minimize(e, X, rng=k, max_evals=10**9, callback=ctrl_c(0.01 * k), **how)
        check(res)
        assert (res.status, res.success) == (Status.STOPPED, False)
        assert "interrupted from the keyboard" in res.message
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_the_callback():
    e, X, best = hard("min")
    res = treeopt.minimize(e, X, callback=after(1, KeyboardInterrupt())[0])
    check(res, "min", best)
    assert res.status is Status.STOPPED and "keyboard" in res.message


def test_progress_is_written_to_the_standard_error(capsys):
    e, X = hardest()
    treeopt.minimize(e, X, progress=True, time_limit=0.3)
    out, err = capsys.readouterr()
    assert not out and err.startswith("\rtreeopt: ") and err.endswith("\n")
    assert "best " in err and "bound " in err and "gap " in err and "nodes" in err
    treeopt.minimize(e, X, method="local", progress=True, max_evals=5)
    err = capsys.readouterr().err
    assert "best " in err and "bound" not in err
    treeopt.minimize(e, X, max_evals=5)
    assert capsys.readouterr() == ("", "")


def test_a_model_without_choice_is_proven_at_once():
    made, X, _ = model("forest")
    res = treeopt.minimize(made, X.iloc[:1])
    assert res.status is Status.OPTIMAL and res.fun == made.predict(X.iloc[:1])[0] == res.bound
