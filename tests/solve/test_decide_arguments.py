"""What `minimize` and `maximize` accept, and what they say when they do not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import Bounds
from sklearn.ensemble import HistGradientBoostingRegressor

import treeopt
from tests.support.cases import fitted
from tests.support.decisions import SENSES, change_settings, check, needle, plain, stump, tree_of
from tests.support.messages import says
from tests.support.searches import model
from treeopt import InputError, Status, TreeoptError

MADE, FRAME, _ = model("forest")
BOX = dict(zip("abcd", [(0, 1), (-5, 15), (0, 0.01), (-2, 3)], strict=True))
LABELED = {
    "hist": "HistGradientBoostingRegressor, auto, categories-nan with text labels",
    "xgboost": "XGBRegressor, auto, categories-nan with text labels",
    "lightgbm": "LGBMRegressor, auto, categories-nan with text labels",
}
each_library = pytest.mark.parametrize("library", LABELED)


def case_of(library: str):
    return fitted(library, LABELED[library])


ask = partial(treeopt.minimize, MADE)

REFUSED = {
    "an unknown method": ({"method": "best"}, ("method is 'best'", "'auto'", "'stepdirect'")),
    "no method": ({"method": None}, ("method is None", "'auto'")),
    "a list of methods": ({"method": ["auto"]}, ("method is ['auto']", "'auto'")),
    "a negative gap": ({"gap": -1.0}, ("gap is -1.0", "at least 0")),
    "gap NaN": ({"gap": np.nan}, ("gap is nan", "at least 0")),
    "gap infinite": ({"gap": np.inf}, ("gap is inf", "finite")),
    "gap of text": ({"gap": "1%"}, ("gap is '1%'", "number")),
    "gap True": ({"gap": True}, ("gap is True", "number")),
    "no gap": ({"gap": None}, ("gap is None", "number")),
    "no time": ({"time_limit": 0}, ("time_limit is 0", "above 0")),
    "negative time": ({"time_limit": -1}, ("time_limit is -1", "above 0")),
    "time NaN": ({"time_limit": np.nan}, ("time_limit is nan", "above 0")),
    "time of text": ({"time_limit": "1s"}, ("time_limit is '1s'", "seconds")),
    "no evaluations": ({"max_evals": 0}, ("max_evals is 0", "above 0")),
    "half an evaluation": ({"max_evals": 0.5}, ("max_evals is 0.5", "integer")),
    "evaluations of text": ({"max_evals": "many"}, ("max_evals is 'many'", "integer")),
    "a seed of text": ({"rng": "seed"}, ("rng is 'seed'", "integer or a Generator")),
    "a negative seed": ({"rng": -1}, ("rng is -1", "integer")),
    "a callback of text": ({"callback": "print"}, ("callback is 'print'", "not callable")),
    "no threads": ({"n_jobs": 0}, ("n_jobs is 0", "number of threads")),
    "half a thread": ({"n_jobs": 0.5}, ("n_jobs is 0.5", "number of threads")),
    "fewer threads": ({"n_jobs": -2}, ("n_jobs is -2", "number of threads")),
    "an unknown output": ({"output": "best"}, ("output is 'best'", "'raw'")),
    "unknown to fix": ({"fixed": {"z": 1}}, ("fixed: feature 'z' is unknown", "'a', 'b'")),
    "misspelled": ({"fixed": {"A ": 1}}, ("fixed: feature 'A ' is unknown",)),
    "number to fix": ({"fixed": {4: 1}}, ("feature is 4", "0..3")),
    "a list to fix": ({"fixed": [1, 2]}, ("fixed is [1, 2]", "mapping")),
    "fixed above": ({"fixed": {"a": 7}}, ("fixed has 7 for feature 'a'", "(0, 1)", "Widen")),
    "fixed below": ({"fixed": {0: -7}}, ("fixed has -7 for feature 'a'", "outside", "Widen")),
    "fixed at text": ({"fixed": {"a": "x"}}, ("fixed['a'] has 'x'", "not a number")),
    "fixed at infinity": ({"fixed": {"a": np.inf}}, ("fixed['a'] is inf", "finite")),
    "fixed too large": ({"fixed": {"a": 1e39}}, ("fixed['a'] is 1e+39", "finite")),
    "fixed at a list": ({"fixed": {"a": [1, 2]}}, ("fixed['a'] has [1, 2]", "Pass a number")),
    "fixed twice": ({"fixed": {"a": 0.5, 0: 0.5}}, ("fixed names feature 0 twice",)),
    "unknown integer": ({"integer": ["z"]}, ("feature 'z' is unknown", "'a'")),
    "one unknown integer": ({"integer": "z"}, ("integer: feature 'z' is unknown", "'a'")),
    "a number as integer": ({"integer": 4}, ("integer: feature is 4", "0..3")),
    "half a feature": ({"integer": [0.5]}, ("feature is 0.5", "0..3")),
    "fixed between": (
        {"integer": ["b"], "fixed": {"b": 1.5}},
        ("fixed has 1.5 for feature 'b'", "integer", "Round"),
    ),
    "unknown list": ({"categories": {"z": [1]}}, ("feature 'z' is unknown",)),
    "an empty list": ({"categories": {"a": []}}, ("categories['a'] is empty", "List")),
    "a text as list": ({"categories": {"a": "xy"}}, ("categories['a'] is 'xy'", "list")),
    "a number as list": ({"categories": {"a": 1}}, ("categories['a'] is 1", "list")),
    "a list with NaN": ({"categories": {"a": [1, np.nan]}}, ("categories['a']", "not finite")),
    "a list with infinity": ({"categories": {"a": [1, np.inf]}}, ("categories['a']", "not finite")),
    "a list with text": ({"categories": {"a": ["x"]}}, ("categories['a'] has 'x'", "not a number")),
    "listed outside": (
        {"categories": {"a": [0.5, 7]}},
        ("categories lists 7 for feature 'a'", "outside its bounds (0, 1)", "Widen"),
    ),
    "listed and integer": (
        {"categories": {"a": [0, 1]}, "integer": ["a"]},
        ("integer names feature 'a'", "categories", "Remove it"),
    ),
    "fixed off the list": (
        {"categories": {"a": [0, 1]}, "fixed": {"a": 0.5}},
        ("fixed has 0.5 for feature 'a'", "not among", "Fix it at one"),
    ),
    "a start too short": ({"start": [1, 2]}, ("start", "2")),
    "a start of text": ({"start": "middle"}, ("start",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_argument_is_refused_by_name(name):
    options, parts = REFUSED[name]
    with pytest.raises(InputError, match=says(*parts)):
        ask(BOX, **options)


BAD_BOUNDS = {
    "low above high": ({**BOX, "b": (2, 1)}, ("feature 'b' is (2.0, 1.0)", "Swap")),
    "low above high by number": ([(1, 0), (0, 1), (0, 1), (0, 1)], ("feature 'a'", "Swap")),
    "NaN": ([(0, np.nan), (0, 1), (0, 1), (0, 1)], ("feature 'a' is (0.0, nan)", "NaN")),
    "NaN by name": ({**BOX, "b": (np.nan, 1)}, ("bounds['b'] is (nan, 1)", "NaN")),
    "none": (None, ("bounds is None", "data")),
    "text": ("wide", ("bounds is 'wide'", "pairs")),
    "numbers as text": ({**BOX, "a": ("0", "1")}, ("bounds['a'] is ('0', '1')", "numbers")),
    "a list of labels": ({**BOX, "a": ["x", "y"]}, ("bounds['a']", "categories")),
    "too few": ([(0, 1)] * 3, ("bounds has 3 pairs", "4 features")),
    "triples": ([(0, 1, 2)] * 4, ("bounds has shape (4, 3)", "pair")),
    "an unknown name": ({**BOX, "z": (0, 1)}, ("bounds: feature 'z' is unknown", "'a'")),
    "too many columns": (np.ones((9, 5)), ("bounds has shape (9, 5)", "4 columns")),
    "nothing but NaN": (FRAME.assign(b=np.nan), ("bounds", "'b'")),
    "a name twice": ({**BOX, 0: (0, 1)}, ("bounds names feature 0 twice",)),
    "a name left out": ({"a": (0, 1)}, ("no pair for feature 'b' and 2 more", "fixed")),
    "a triple by name": ({**BOX, "a": (0, 1, 2)}, ("bounds['a'] is (0, 1, 2)", "pair")),
    "a frame that lacks a column": (FRAME[["a", "b", "c"]], ("bounds lacks 'd'",)),
    "a frame without rows": (FRAME.iloc[:0], ("bounds", "rows")),
}


@pytest.mark.parametrize("name", BAD_BOUNDS)
def test_bad_bounds_are_refused_by_name(name):
    bounds, parts = BAD_BOUNDS[name]
    with pytest.raises(InputError, match=says(*parts)):
        ask(bounds)


def test_a_model_of_another_kind_is_refused():
    with pytest.raises(TreeoptError, match=says("objective is function", "scikit-learn")):
        treeopt.minimize(lambda x: x, [(0, 1)])


@pytest.mark.parametrize("end", [np.inf, -np.inf])
def test_stepdirect_needs_finite_bounds(end):
    bounds = {**BOX, "a": (min(end, 0), max(end, 0))}
    parts = ("bounds of feature 'a' are infinite", "stepdirect", "finite")
    with pytest.raises(InputError, match=says(*parts)):
        ask(bounds, method="stepdirect")


def test_open_ends_may_be_none():
    e = tree_of([(0, 0.5, 1.0, 2.0), (1, 0.5, 3.0, 4.0)], 2)
    for bounds in ([(0, None), (None, None)], {0: (0, None), 1: [None, None]}):
        res = treeopt.minimize(e, bounds)
        assert res.fun == 4.0 and res.region.lower.tolist() == [0.0, -np.inf]


def test_a_frame_of_one_row_is_fixed_like_a_row():
    bounds = {name: BOX[name] for name in "cd"}
    row, one = FRAME.iloc[3][["a", "b"]], FRAME.iloc[[3]][["a", "b"]]
    assert ask(bounds, fixed=one, rng=0).fun == ask(bounds, fixed=row, rng=0).fun
    with pytest.raises(InputError, match=says("fixed")):
        ask(bounds, fixed=FRAME[["a", "b"]])


def test_a_frame_without_what_is_fixed_is_told_of_mappings():
    with pytest.raises(InputError, match=says("bounds lacks 'a'", "mapping", "fixed")):
        ask(FRAME[["b", "c", "d"]], fixed={"a": 0.5})


def test_a_name_that_is_nearly_right_is_suggested():
    named = replace(tree_of([(1, 0.5, 1.0, 2.0)], 2), feature_names=("age", "income"))
    with pytest.raises(InputError, match=says("integer: feature 'incme'", "Did you mean 'income'")):
        treeopt.minimize(named, [(0, 1)] * 2, integer=["incme"])


def test_stepdirect_does_not_mind_infinite_bounds_that_no_tree_reads():
    e = tree_of([(1, 0.5, 1.0, 2.0)], 3)
    bounds = [(2, np.inf), (0, 1), (-np.inf, np.inf)]
    res = treeopt.minimize(e, bounds, method="stepdirect", max_evals=20)
    assert res.fun == 1.0 and np.isfinite(res.x).all() and res.x[0] >= 2
    assert res.region.upper[0] == np.inf


def test_pairs_for_two_features_are_not_taken_for_rows():
    e = tree_of([(1, 0.5, 1.0, 2.0)], 2)
    with pytest.raises(InputError, match=says("bounds has 3 pairs", "2 features")):
        treeopt.minimize(e, [(0, 1)] * 3)
    assert treeopt.minimize(e, [[0, 1]] * 3).fun == 2.0
    wide = tree_of([(1, 0.5, 1.0, 2.0)], 3)
    assert treeopt.minimize(wide, [(0.0, 1.0, 2.0), (1.0, 0.0, 5.0)]).fun == 1.0


# Nothing is admissible.

NOTHING = {
    "no integer": (
        {"bounds": {**BOX, "a": (0.2, 0.8)}, "integer": ["a"]},
        ("no integer", "0.2 and 0.8", "feature 'a'"),
    ),
    "no integer at a point": (
        {"bounds": {**BOX, "a": (0.5, 0.5)}, "integer": ["a"]},
        ("no integer", "0.5", "feature 'a'"),
    ),
}


@pytest.mark.parametrize("method", ["auto", "exact", "local", "stepdirect"])
@pytest.mark.parametrize("name", NOTHING)
def test_what_admits_nothing_is_infeasible(name, method):
    options, parts = NOTHING[name]
    for sense in SENSES:
        res = SENSES[sense](MADE, **options, method=method)
        check(res, sense)
        assert res.status is Status.INFEASIBLE and not res.success and res.x is None
        assert all(part in res.message for part in parts) and str(res).count(parts[-1]) == 1
        with pytest.raises(InputError, match="no point"):
            _ = res.frame


@each_library
def test_bounds_on_labels_that_are_text_are_refused(library):
    """Codes are none of the user's business."""
    case = case_of(library)
    box = {"temp": (0, 1), "d": (0, 1)}
    for pair in ((0, 3), (2.2, 2.8), 2, (2, None)):
        for more in ({}, {"fixed": {1: "k01"}}, {"categories": {1: ["k01", "k02"]}}):
            with pytest.raises(
                InputError, match=says("flow", "labels are text", "k00", "categories")
            ):
                treeopt.minimize(case.model, {**box, 1: pair}, **more)
    assert treeopt.minimize(case.model, {**box, 1: (None, None)}).status is Status.OPTIMAL


# The same space in many forms.


def forms() -> dict[str, dict]:
    low, high = FRAME.min().to_numpy(), FRAME.max().to_numpy()
    pairs = np.column_stack([low, high])
    return {
        "frame": {"bounds": FRAME},
        "frame in another order": {"bounds": FRAME[list("dcba")]},
        "matrix": {"bounds": FRAME.to_numpy()},
        "pairs": {"bounds": pairs},
        "tuples": {"bounds": [tuple(p) for p in pairs.tolist()]},
        "scipy": {"bounds": Bounds(low, high)},
        "names": {"bounds": dict(zip("dcba", pairs[::-1].tolist(), strict=True))},
        "numbers": {"bounds": dict(enumerate(pairs.tolist()))},
    }


@pytest.mark.parametrize("form", forms())
@pytest.mark.parametrize("sense", SENSES)
def test_every_form_of_bounds_means_the_same(form, sense):
    res = SENSES[sense](MADE, **forms()[form], rng=0)
    expected = SENSES[sense](MADE, FRAME, rng=0)
    assert res.fun == expected.fun == MADE.predict(res.frame)[0]
    check(res, sense, expected.fun)


def test_bounds_may_leave_out_what_is_fixed_or_listed():
    res = ask({"a": (0, 1)}, fixed={"b": 3}, categories={"c": [0, 0.005], 3: [-1, 1, 2.5]})
    check(res)
    assert res.x["b"] == 3 and res.x["c"] in (0, 0.005) and res.x["d"] in (-1, 1, 2.5)
    every = pd.DataFrame([(3, c, d) for c in (0, 0.005) for d in (-1, 1, 2.5)], columns=list("bcd"))
    X = every.merge(pd.DataFrame({"a": np.linspace(0, 1, 2001)}), how="cross")[list("abcd")]
    assert res.fun == MADE.predict(X).min()


def test_fixed_may_be_a_series_and_beat_the_data():
    row = FRAME.iloc[7]
    res = ask(FRAME, fixed=row[["a", "b"]])
    assert res.x["a"] == row["a"] and res.x["b"] == row["b"]
    everything = ask(FRAME, fixed=row)
    assert (
        everything.fun == MADE.predict(FRAME.iloc[[7]])[0]
        and everything.region.lower[0] == row["a"]
    )


def test_a_number_in_a_mapping_of_bounds_fixes():
    res = ask({**BOX, "a": 0.25})
    assert res.x["a"] == 0.25 == res.region.lower[0] == res.region.upper[0]


def test_fixed_at_missing():
    """Where the model accepts it; the rest is the best beside it."""
    made, X, _ = model("lightgbm")
    res = treeopt.minimize(made, X, fixed={1: np.nan})
    rows = X.copy()
    rows[:, 1] = np.nan
    check(res)
    assert (
        np.isnan(res.x[1])
        and res.fun == made.predict(res.x[None, :])[0] <= made.predict(rows).min()
    )
    assert np.isnan(res.region.lower[1]) and np.isnan(res.region.upper[1])
    for missing in (None, pd.NA, pd.NaT):
        assert treeopt.minimize(made, X, fixed={1: missing}).fun == res.fun


def test_fixed_at_missing_where_the_model_refuses_it():
    made, X, ask_for = model("boosting classifier")
    with pytest.raises(
        InputError, match=says("fixed[1] is missing", "not accept", "Pass a number")
    ):
        treeopt.minimize(made, X, fixed={1: np.nan}, **ask_for)


@each_library
def test_categories_go_by_their_labels(library):
    """Wherever values are given, and wherever they come back."""
    case = case_of(library)
    few = {"flow rate": ["k01", "k05", "k03"]}
    box = {"temp": (-1, 1), "d": (-1, 1)}
    res = treeopt.minimize(case.model, box, categories=few, fixed={"pH": "k07"})
    check(res)
    name = next(k for k in res.x.index if k.startswith("flow"))
    assert res.x[name] in few["flow rate"] and res.x["pH"] == "k07"
    assert set(res.region.categories[1]) <= set(few["flow rate"])
    assert str(res.frame[name].iloc[0]) == res.x[name]
    assert case.own(res.frame)[0] == res.fun
    missing = treeopt.minimize(case.model, box, fixed={"flow rate": None, "pH": "k07"})
    assert pd.isna(missing.frame[name].iloc[0]) and case.own(missing.frame)[0] == missing.fun


@each_library
def test_unknown_labels_are_refused(library):
    case = case_of(library)
    with pytest.raises(InputError, match=says("categories['pH'] has 'k99'", "not one of", "k00")):
        treeopt.minimize(case.model, case.X, categories={"pH": ["k01", "k99"]})
    with pytest.raises(InputError, match=says("fixed['pH'] has 'k99'", "not one of", "k00")):
        treeopt.minimize(case.model, case.X, fixed={"pH": "k99"})


@each_library
def test_data_stand_for_the_categories_that_occur(library):
    case = case_of(library)
    some = case.X[case.X["flow rate"].isin(["k02", "k06"])]
    for sense in SENSES:
        res = SENSES[sense](case.model, some)
        assert res.x.iloc[1] in ("k02", "k06")
        every = SENSES[sense](case.model, some, categories={"flow rate": ["k02", "k06"]})
        assert res.fun == every.fun


def test_integer_features_are_whole():
    res = ask(BOX, integer=["b", "d"], rng=0)
    check(res)
    assert res.x["b"] % 1 == 0 and res.x["d"] % 1 == 0 and res.x["a"] % 1 > 0
    whole = np.stack(np.meshgrid([0.5], np.arange(-5, 16), [0.005], np.arange(-2, 4)), -1)
    X = pd.DataFrame(whole.reshape(-1, 4), columns=list("abcd"))
    fixed = ask(BOX, integer=["b", 3], fixed={"a": 0.5, "c": 0.005})
    assert fixed.fun == MADE.predict(X).min()


def test_infinite_bounds_give_finite_points():
    for sense in SENSES:
        wide = SENSES[sense](MADE, [(-np.inf, np.inf)] * 4)
        check(wide, sense)
        assert np.isfinite(plain(wide.x)).all()
        assert MADE.predict(wide.frame)[0] == wide.fun
        far = SENSES[sense](MADE, [(-1e6, 1e6)] * 4)
        assert far.fun == wide.fun


def test_features_that_no_tree_reads_may_be_anything():
    e = tree_of([(1, 0.0, 1.0, 2.0)], 4)
    res = treeopt.minimize(
        e, {0: (-np.inf, np.inf), 1: (-1, 1), 2: (0.2, 3)}, integer=[2], categories={3: [4, 6, 9]}
    )
    check(res)
    assert np.isfinite(res.x).all() and res.x[2] in (1, 2, 3) and res.x[3] in (4, 6, 9)
    assert res.region.lower[0] <= -1e300 and res.region.upper[0] >= 1e300


def test_what_is_not_read_may_still_be_infeasible():
    e = tree_of([(1, 0.0, 1.0, 2.0)], 2)
    res = treeopt.minimize(e, [(0.2, 0.8), (0, 1)], integer=[0])
    assert res.status is Status.INFEASIBLE and "feature 0" in res.message


def test_start_may_be_a_point_or_many():
    e, corner = needle()
    box = [(0.0, 1.0)] * corner.size
    blind = treeopt.minimize(e, box, method="local", max_evals=30, rng=0)
    starts = [
        corner,
        corner.tolist(),
        np.stack([np.zeros(corner.size), corner]),
        pd.DataFrame([corner]),
    ]
    for start in starts:
        res = treeopt.minimize(e, box, method="local", max_evals=30, rng=0, start=start)
        assert res.fun == -50.0 < blind.fun
    assert treeopt.minimize(e, box, rng=0).fun == -50.0


def test_start_by_name():
    best = ask(BOX, rng=0)
    for start in (best.x, best.x.to_dict(), best.frame):
        res = ask(BOX, start=start, method="local", max_evals=1, rng=0)
        check(res)


def test_method_auto_proves_what_local_search_misses():
    e, corner = needle()
    for seed in range(3):
        local = treeopt.minimize(e, [(0, 1)] * corner.size, method="local", max_evals=10, rng=seed)
        for method in ("auto", "exact"):
            res = treeopt.minimize(e, [(0, 1)] * corner.size, method=method, rng=seed)
            check(res, best=-50.0)
            assert res.fun == res.bound == -50.0 < local.fun and res.status is Status.OPTIMAL


def test_an_output_of_a_classifier():
    made, X, _ = model("xgboost classifier")
    for class_index in (0, 1):
        low = treeopt.minimize(made, X, output="proba", class_index=class_index)
        high = treeopt.maximize(made, X, output="proba", class_index=1 - class_index)
        assert made.predict_proba(low.x[None, :])[0, class_index] == low.fun
        assert np.isclose(low.fun, 1 - high.fun, atol=1e-6)
    raw = treeopt.maximize(made, X, output="raw")
    assert made.predict(raw.x[None, :], output_margin=True)[0] == raw.fun


def test_an_ensemble_is_as_good_as_its_model():
    e = treeopt.from_model(MADE)
    for sense in SENSES:
        a, b = SENSES[sense](MADE, FRAME, rng=0), SENSES[sense](e, FRAME, rng=0)
        assert a.fun == b.fun and np.array_equal(plain(a.x), plain(b.x)) and a.bound == b.bound


def test_the_model_and_the_bounds_are_left_as_they_are():
    before = FRAME.copy()
    bounds = {**BOX}
    ask(bounds, fixed=(fixed := {"a": 0.5}), integer=(whole := ["b"]))
    ask(FRAME)
    assert bounds == BOX and fixed == {"a": 0.5} and whole == ["b"] and FRAME.equals(before)


def test_one_point_left():
    e = stump(0, 0.5, 1.0, 2.0)
    for low, expected in ((0.5, 1.0), (0.75, 2.0)):
        for method in ("auto", "exact", "local", "stepdirect"):
            res = treeopt.maximize(e, [(low, low)], method=method)
            assert res.fun == expected and res.x[0] == low


# Categories, and what is said about them.


def three_labels() -> tuple[HistGradientBoostingRegressor, pd.DataFrame]:
    X = pd.DataFrame({"a": np.arange(60.0), "c": pd.Categorical(list("xyz") * 20)})
    y = X["a"] + 9.0 * (X["c"] == "x")
    made = HistGradientBoostingRegressor(categorical_features="from_dtype", min_samples_leaf=5)
    return made.fit(X, y), X


def test_a_label_that_the_data_lack_may_be_asked_for():
    """The codes of categories are no scale on which it could lie outside."""
    made, X = three_labels()
    rows = X[X["c"] != "x"]
    assert treeopt.maximize(made, rows).x["c"] in ("y", "z")
    assert treeopt.maximize(made, rows, fixed={"c": "x"}).x["c"] == "x"
    assert treeopt.maximize(made, rows, categories={"c": ["x", "y"]}).x["c"] == "x"


def test_a_list_is_no_label():
    made, X = three_labels()
    with pytest.raises(InputError, match=r"fixed\['c'\] has \['x'\]"):
        treeopt.minimize(made, X, fixed={"c": ["x"]})


def test_a_missing_value_is_no_fraction():
    made, X = three_labels()
    assert np.isnan(treeopt.minimize(made, X, fixed={"a": np.nan}, integer=["a"]).x["a"])


def test_stepdirect_sees_what_is_missing():
    made, X = three_labels()
    best = treeopt.minimize(made, X, fixed={"a": np.nan}, method="stepdirect", max_evals=50)
    assert best.history["fun"][-1] == best.fun == made.predict(best.frame)[0]


def test_labels_of_any_type_are_printed():
    X = pd.DataFrame({"a": np.arange(60.0)})
    X["c"] = pd.cut(X["a"] % 7, 3)
    made = HistGradientBoostingRegressor(categorical_features="from_dtype", min_samples_leaf=5)
    best = treeopt.minimize(made.fit(X, X["a"] % 7), X)
    assert str(best.x["c"]) in str(best)


def test_too_many_combinations_of_categories_are_refused(monkeypatch):
    change_settings(monkeypatch, max_boxes=3)
    made, X = three_labels()
    with pytest.raises(InputError, match="more than 3 boxes"):
        treeopt.minimize(made, X)
