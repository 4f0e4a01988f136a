"""What a decision holds: for every library the model's own value, its region, and its words."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

import treeopt
from tests.support.cases import TABLES, fitted
from tests.support.decisions import (
    SENSES,
    better,
    change_settings,
    check,
    hard,
    hardest,
    is_plain,
    plain,
    slow,
    thinned,
    tree_of,
)
from tests.support.models import NAMES, Case
from tests.support.searches import KINDS, model
from treeopt import Status
from treeopt.model.link import Link
from treeopt.result.words import spelled_inside

METHODS = ("auto", "exact", "local", "stepdirect")
each_method = pytest.mark.parametrize("method", METHODS)
each_sense = pytest.mark.parametrize("sense", SENSES)


def decide_over_the_data(case: Case) -> None:
    """The model agrees to the bit, on an array and on the frame; nothing in the box is better."""
    e = case.ensemble
    rng = np.random.default_rng(0)
    low, high = np.nanmin(case.matrix, axis=0), np.nanmax(case.matrix, axis=0)
    share = rng.random((10_000, low.size), np.float32).astype(np.float64)
    X = np.clip(low * (1 - share) + high * share, low, high)
    for j in e.categories:
        known = case.matrix[:, j]
        X[:, j] = rng.choice(known[~np.isnan(known)], len(X))
    every = e.predict(X)
    asked = {"output": case.output, "class_index": case.class_index}
    for sense in SENSES:
        res = SENSES[sense](case.model, case.X, **asked, rng=0)
        assert res.status is Status.OPTIMAL and res.success
        check(res, sense, None, case.own, 0 if is_plain(e) else 2)
        best = float(every.min() if sense == "min" else every.max())
        assert not better(best, res.bound, sense)
        x = res._point
        assert ((low <= x) & (x <= high)).all()
        assert ((low <= res.region.lower) & (res.region.upper <= high)).all()
        check_frame(res, case)


def check_frame(res: treeopt.Decision, case: Case) -> None:
    """The model takes the frame as it takes the one that it was trained on."""
    frame = res.frame
    assert frame.shape == (1, case.matrix.shape[1])
    if isinstance(case.X, pd.DataFrame):
        names = [str(c) for c in frame.columns]
        assert [n.replace("_", " ") for n in names] == list(NAMES[: len(names)])
        kinds = [[hasattr(d, "categories") for d in f.dtypes] for f in (frame, case.X)]
        # HistGradientBoosting may be told of categories in columns of numbers.
        assert kinds[0] == kinds[1] or case.library.name == "hist"
        assert case.own(frame)[0] == res.fun
        assert list(res.x.index) == names and res.x.tolist() == frame.iloc[0].tolist()
    else:
        assert isinstance(res.x, np.ndarray) and np.array_equal(res.x, frame.to_numpy()[0])
        assert case.own(frame.to_numpy())[0] == res.fun


@pytest.mark.parametrize("library", TABLES)
def test_the_model_agrees(library):
    for name in thinned(TABLES[library], 6):
        decide_over_the_data(fitted(library, name))


@slow
@pytest.mark.parametrize("library", TABLES)
def test_every_model_agrees(library):
    for name in TABLES[library]:
        decide_over_the_data(fitted(library, name))


def mixed_frame() -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers of several types, flags, and categories of which one says nothing."""
    rng = np.random.default_rng(0)
    n = 200
    X = pd.DataFrame({"number": rng.normal(size=n), "count": rng.integers(0, 9, n)})
    X["flag"], X["single"] = rng.random(n) < 0.5, rng.normal(size=n).astype(np.float32)
    X["text"] = pd.Categorical(rng.choice(list("abc"), n))
    X["whole"] = pd.Categorical(rng.choice([10, 20, 30], n))
    X["noise"] = pd.Categorical(np.where(rng.random(n) < 0.5, "u", "v"))
    y = X["number"] + 0.1 * X["count"] + X["flag"] + X["single"] + 2.0 * (X["text"] == "a")
    return X, (y + 1.5 * (X["whole"] == 20)).to_numpy()


FRAME_MODELS = {
    "hist": HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype"),
    "xgboost": xgb.XGBRegressor(n_estimators=5, enable_categorical=True),
    "lightgbm": lgb.LGBMRegressor(n_estimators=5, verbose=-1),
}


@pytest.mark.parametrize("kind", FRAME_MODELS)
@pytest.mark.parametrize("flag", [False, True], ids=["without flags", "with flags"])
def test_a_frame_of_many_types_is_ready_to_predict(kind, flag):
    """LightGBM tells columns of categories by their types alone."""
    X, y = mixed_frame()
    X = X if flag else X.drop(columns="flag")
    made = clone(FRAME_MODELS[kind]).fit(X, y)
    for sense in SENSES:
        res = SENSES[sense](made, X, integer=["count"], rng=0)
        assert made.predict(res.frame)[0] == res.fun and res.x["text"] in list("abc")
        fixed = SENSES[sense](made, X, fixed={"text": "b", "noise": "u", "whole": 30})
        assert made.predict(fixed.frame)[0] == fixed.fun
        assert (fixed.x["text"], fixed.x["noise"], fixed.x["whole"]) == ("b", "u", 30)


@pytest.mark.parametrize("kind", FRAME_MODELS)
def test_a_frame_has_the_types_of_the_data(kind):
    X, y = mixed_frame()
    made = clone(FRAME_MODELS[kind]).fit(X, y)
    best = treeopt.minimize(made, X, integer=["count", "flag"], rng=0)
    assert best.frame.dtypes.tolist() == X.dtypes.tolist()
    # A half is no flag, and no count.
    half = treeopt.minimize(made, X, fixed={"flag": 0.5, "count": 1.5}).frame
    assert half[["flag", "count"]].to_numpy().tolist() == [[0.5, 1.5]]
    assert made.predict(half)[0] == made.predict(half.astype({"single": float}))[0]


# Every method.


@each_method
@each_sense
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_decides(method, sense, kind):
    made, X, asked = model(kind)
    res = SENSES[sense](made, X, method=method, rng=0, max_evals=400, **asked)
    e = treeopt.from_model(made, **asked)
    check(res, sense, ulps=0 if is_plain(e) else 2)
    low, high = np.asarray(X).min(axis=0), np.asarray(X).max(axis=0)
    assert ((low <= res._point) & (res._point <= high)).all()
    proves = method in ("auto", "exact")
    assert np.isnan(res.bound) != proves and np.isnan(res.gap) != proves and res.success
    assert (res.nodes > 0) == proves
    best = SENSES[sense](made, X, rng=0, **asked).fun
    assert not better(res.fun, best, sense)


@each_method
def test_every_method_knows_whole_numbers_lists_and_fixed_ones(method):
    made, X, _ = model("forest")
    lists = {"c": [0.001, 0.004, 0.009]}
    how = {"integer": ["b"], "categories": lists, "fixed": {"d": 0.75}}
    for sense in SENSES:
        res = SENSES[sense](made, X, method=method, rng=0, max_evals=300, **how)
        check(res, sense)
        assert res.x["b"] % 1 == 0 and res.x["c"] in lists["c"] and res.x["d"] == 0.75
        assert made.predict(res.frame)[0] == res.fun
        assert not better(res.fun, SENSES[sense](made, X, **how).fun, sense)


@each_method
def test_every_method_knows_categories(method):
    made, X, _ = model("categories")
    for sense in SENSES:
        res = SENSES[sense](made, X, method=method, rng=0, max_evals=300, categories={3: [1, 2, 4]})
        check(res, sense)
        assert res.x[3] in (1, 2, 4) and set(res.region.categories[3]) <= {1, 2, 4}
        assert made.predict(res.x[None, :])[0] == res.fun


@each_method
def test_the_same_seed_gives_the_same_point(method):
    e, X, _ = hard("min")
    how = {"method": method, "max_evals": 300}
    runs = [treeopt.minimize(e, X, rng=7, **how) for _ in range(2)]
    runs.append(treeopt.minimize(e, X, rng=np.random.default_rng(7), **how))
    for a in runs[1:]:
        assert np.array_equal(a.x, runs[0].x) and a.nfev == runs[0].nfev
        assert (a.nodes, a.fun, a.status) == (runs[0].nodes, runs[0].fun, runs[0].status)
        assert np.array_equal(a.history[["nfev", "fun"]], runs[0].history[["nfev", "fun"]])


def test_another_seed_gives_another_search():
    e, X = hardest()
    how = {"method": "local", "max_evals": 40}
    assert len({treeopt.minimize(e, X, rng=seed, **how).fun for seed in range(4)}) > 1


@each_sense
@pytest.mark.parametrize("method", ["auto", "exact"])
@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_threads_prove_the_same(sense, method, n_jobs):
    e, X, best = hard(sense)
    for seed in range(3):
        res = SENSES[sense](e, X, method=method, n_jobs=n_jobs, rng=seed)
        check(res, sense, best)
        assert res.fun == best and res.status is Status.OPTIMAL


def test_threads_prove_the_same_in_small_steps(monkeypatch):
    """Nodes go back and forth between them."""
    change_settings(monkeypatch, first_work=1, max_work=2000, plunge_nodes=2)
    for sense in SENSES:
        e, X, best = hard(sense)
        for n_jobs in (1, 2, 3):
            res = SENSES[sense](e, X, method="exact", n_jobs=n_jobs, rng=0)
            check(res, sense, best)
            assert res.fun == best == res.bound


def test_methods_without_a_bound_end_after_two_thousand_evaluations():
    e, X, _ = hard("min")
    for method in ("local", "stepdirect"):
        res = treeopt.minimize(e, X, method=method, rng=0)
        assert res.nfev == 2000 and res.success and res.status is Status.EVAL_LIMIT


# Words and copies.


def test_a_proof_in_words():
    made, X, _ = model("forest")
    res = treeopt.minimize(made, X, fixed={"b": 2.0}, rng=0)
    text = str(res)
    assert text == repr(res)
    assert text.startswith(f"{res.fun:.10g} is the minimum prediction, proven to the last bit.")
    assert "The optimum is proven, after " in text
    assert f"{res.nfev} evaluations and {res.nodes} node" in text
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[-4:]] == list("abcd")
    assert "from " in lines[-4] and " to " in lines[-4] and lines[-3].endswith("fixed")
    assert "maximum prediction" in str(treeopt.maximize(made, X))


@given(st.floats(-1e9, 1e9), st.floats(0, 1), st.integers(-12, 3))
@example(1e-35, 0.0, 0)
def test_written_ends_lie_inside(low, share, size):
    """However narrow the interval is; and few digits serve where it is wide."""
    high = low + 10.0**size
    x = low + share * (high - low)
    at, a, b = spelled_inside(x, low, high)
    assume(low < high)
    assert low <= float(a) <= float(at) <= float(b) <= high
    assert float(b) - float(a) >= 0.9 * (high - low)
    assert len(at) <= 24


def test_a_whole_number_has_whole_ends():
    """The cell of 6 ends just below 7, which rounds to 7."""
    e = tree_of([(0, np.nextafter(7.0, 0.0), 1.0, 0.0), (0, 5.5, 0.0, 1.0)], 2)
    res = treeopt.maximize(e, [(0, 9), (0, np.inf)], integer=[0])
    assert (res.region.lower[0], res.x[0], res.region.upper[0]) == (6.0, 6.0, 6.0)
    assert "x[0] = 6            only this value" in str(res) and "from 0 to inf" in str(res)
    real = str(treeopt.maximize(e, [(0, 9), (0, 1)]))
    assert "to 6.99999" in real and "to 7" not in real


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("link", ["exp", "logistic", "softplus", "square"])
def test_links_at_powers_of_two(link, dtype):
    """Where the last place of the prediction changes, the rounding that is told covers both."""
    splits = [(0, 0.5, 1.0, 2.0), (1, 0.5, -1.0, 3.0)]
    for complement in (False, True):
        e = tree_of(splits, 2, dtype=dtype, link=Link(link, complement=complement))
        for sense in SENSES.values():
            res = sense(e, [(0, 1)] * 2)
            assert res.status is Status.OPTIMAL
            assert res.gap <= res.rounding < 1e-5 * max(1.0, abs(res.fun))


def test_a_bound_beyond_all_numbers_is_infinite():
    e = tree_of([(0, 0.5, 90.0, 0.0), (0, 0.5, -90.0, 0.0)], 1, dtype=np.float32, link=Link("exp"))
    res = treeopt.maximize(e, [(0, 1)], max_evals=1, method="exact")
    assert not np.isnan(res.bound) and res.bound >= 1.0


def test_nothing_to_choose_in_words():
    res = treeopt.minimize(tree_of([(0, 0.5, 1.0, 2.0)], 1), [(0, 1)], fixed={0: 1.0})
    assert res.fun == 2.0 and "nothing to choose" in str(res)


def test_one_node_is_no_nodes():
    """Numbers and nouns agree."""
    made, X, _ = model("forest")
    res = treeopt.minimize(made, X.iloc[:1])
    assert res.nodes == 1 and res.nfev == 1
    assert "1 nodes" not in str(res) and "1 evaluations" not in str(res)


def test_a_stop_in_words():
    e, X = hardest()
    low = str(treeopt.minimize(e, X, time_limit=0.05))
    assert "is the lowest prediction found; none is below " in low and "(gap " in low
    assert "The time limit of 0.05 s is reached, after " in low
    assert "none is above" in str(treeopt.maximize(e, X, time_limit=0.05))
    local = str(treeopt.minimize(e, X, method="local", max_evals=5))
    assert "there is no bound" in local and "nan" not in local
    unproven = str(treeopt.minimize(e, X, max_evals=1))
    assert "inf" not in unproven


def test_categories_in_words():
    name = "LGBMRegressor, auto, categories-nan with text labels"
    case = fitted("lightgbm", name)
    single = several = 0
    for k in range(10):
        res = treeopt.minimize(case.model, case.X, fixed={0: case.X.iloc[k, 0]})
        lines = [line for line in str(res).splitlines() if " = " in line]
        for column, alike in res.region.categories.items():
            assert str(res.x.iloc[column]) in lines[column] and res.x.iloc[column] in alike
            end = "only this value" if len(alike) == 1 else "one of " + ", ".join(alike)
            assert lines[column].endswith(end)
            single, several = single + (len(alike) == 1), several + (len(alike) > 1)
    assert single and several


def test_constraints_and_costs_in_words():
    made, X, _ = model("forest")
    rows = ["a + b <= 1e9", treeopt.Predicted(made, low=-1e9)]
    res = treeopt.maximize(made, X, constraints=rows, cost={"a": 0.5})
    lines = str(res).splitlines()
    assert "is the maximum value" in lines[0]
    parts = [f"{value:.6g} ({label})" for label, value in res.terms.items()]
    assert lines[2] == f"The value is the sum of {parts[0]} and {parts[1]}."
    assert lines[3] == "The constraints hold, with a slack of:"
    for line, (label, slack) in zip(lines[4:6], res.slack.items(), strict=True):
        assert line.startswith(f"  {label} ")
        assert float(line[2 + len(label) :]) == pytest.approx(slack)
    assert lines[6] == "The predictions of the models do not change while:"


def test_only_predictions_are_called_so():
    made, X, _ = model("forest")
    whole = treeopt.WeightedSum([(0.5, made), (0.5, made)])
    for objective in (whole, treeopt.Product("a", made), treeopt.Price({"a": 1.0})):
        assert "is the minimum value" in str(treeopt.minimize(objective, X))
    limit = treeopt.Predicted(made, low=-1e9)
    assert "is the minimum prediction" in str(treeopt.minimize(made, X, constraints=limit))


def test_many_features_are_cut_short():
    case = fitted("sklearn", "RandomForestRegressor, auto, wide")
    text = str(treeopt.minimize(case.model, case.X))
    assert "... and 260 more features" in text and len(text.splitlines()) < 50


def test_nothing_in_words():
    made, _, _ = model("forest")
    res = treeopt.minimize(made, {**dict.fromkeys("abc", (0, 1)), "d": (0.1, 0.2)}, integer=["d"])
    assert str(res).startswith("There is no admissible point: there is no integer")


def test_a_decision_is_frozen_and_can_be_pickled():
    made, X, _ = model("forest")
    res = treeopt.minimize(made, X)
    with pytest.raises(FrozenInstanceError):
        res.fun = 0.0
    copy = pickle.loads(pickle.dumps(res))
    assert (copy.fun, copy.bound, copy.status, copy.message) == (
        res.fun,
        res.bound,
        res.status,
        res.message,
    )
    assert copy.x.equals(res.x) and copy.frame.equals(res.frame) and str(copy) == str(res)
    assert np.array_equal(copy.region.lower, res.region.lower)
    assert np.array_equal(copy.history, res.history)
    assert made.predict(copy.frame)[0] == res.fun


def test_an_infeasible_decision_can_be_pickled():
    made, _, _ = model("forest")
    res = treeopt.minimize(made, [(0.1, 0.2)] * 4, integer=[0])
    assert pickle.loads(pickle.dumps(res)).status is Status.INFEASIBLE


def test_results_do_not_share_the_users_arrays():
    made, X, _ = model("small forest")
    res = treeopt.minimize(made, X)
    before = res._point.copy()
    plain(res.x)[:] = 0
    assert (
        np.array_equal(res._point, before) and res.frame.to_numpy()[0].tolist() == before.tolist()
    )


def test_the_history_tells_how_it_went():
    e, X = hardest()
    for sense in SENSES:
        res = SENSES[sense](e, X, time_limit=0.3, rng=0)
        check(res, sense)
        assert res.history.dtype.names == ("nfev", "time", "fun", "bound")
        assert res.history.size > 3 and np.isfinite(res.bound)
        assert res.history["fun"][-1] == res.fun and res.history["bound"][-1] == res.bound
        assert len(np.unique(res.history[["fun", "bound"]])) == res.history.size
