"""Labels of categories in the odd forms that frames have them in."""

from __future__ import annotations

import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import treeopt
from tests.support.contract import assert_same_bits
from tests.support.messages import says
from treeopt import InputError, UnsupportedModelError

RNG = np.random.default_rng(0)
N = 300
PLAIN = RNG.normal(size=N)


def hist(labels, effect) -> tuple[HistGradientBoostingRegressor, pd.DataFrame]:
    frame = pd.DataFrame({"c": pd.Series(labels, dtype=object), "x": PLAIN})
    model = HistGradientBoostingRegressor(max_iter=10, categorical_features=["c"])
    return model.fit(frame, PLAIN + effect), frame


def picked(*labels) -> np.ndarray:
    pool = np.empty(len(labels), object)
    pool[:] = labels
    return pool[RNG.integers(0, len(labels), N)]


def is_none(labels) -> np.ndarray:
    return 5.0 * np.array([label is None for label in labels])


@pytest.mark.parametrize(
    "pool", [("a", "b", None), ("a", None, np.nan), (1, 2, None)], ids=["text", "nan", "numbers"]
)
def test_none_is_a_category_to_scikit_learn(pool):
    labels = picked(*pool)
    model, frame = hist(labels, is_none(labels))
    e = treeopt.from_model(model)
    assert_same_bits(e.predict(frame), model.predict(frame), frame.to_numpy())
    row = pd.DataFrame({"c": pd.Series([None, np.nan, "zz"], dtype=object), "x": [0.0] * 3})
    assert_same_bits(e.predict(row), model.predict(row), row.to_numpy())
    assert e.walker({"c": None, "x": 0.0}).value == model.predict(row)[0]
    assert treeopt.check_conversion(model, frame).different == 0


def test_timestamps_as_labels():
    labels = picked(*pd.date_range("2020-01-01", periods=4))
    model, frame = hist(labels, np.array([label.day % 3 for label in labels]))
    assert_same_bits(treeopt.from_model(model).predict(frame), model.predict(frame), PLAIN)
    assert treeopt.check_conversion(model, frame).different == 0


def test_text_where_numbers_were():
    model, frame = hist(RNG.integers(0, 4, N), PLAIN)
    text = frame.assign(c="a")
    assert_same_bits(treeopt.from_model(model).predict(text), model.predict(text), PLAIN)


def test_missing_values_of_pandas():
    """A mapping, and a column of strings, may hold pandas.NA."""
    labels = picked("a", "b", "c")
    model, _ = hist(labels, 3.0 * (labels == "b"))
    e = treeopt.from_model(model)
    own = model.predict(pd.DataFrame({"c": pd.Series([np.nan], dtype=object), "x": [0.0]}))[0]
    assert e.walker({"c": pd.NA, "x": 0.0}).value == own
    assert e.walker(pd.Series({"c": pd.NA, "x": 0.0})).value == own
    strings = pd.DataFrame({"c": pd.array(["a", pd.NA], "string"), "x": [0.0, 0.0]})
    assert_same_bits(e.predict(strings), model.predict(strings), strings.to_numpy())


def lightgbm(frame: pd.DataFrame, y, **fit) -> tuple[treeopt.Ensemble, lgb.LGBMRegressor]:
    few = {"n_estimators": 8, "min_child_samples": 2, "n_jobs": 1, "verbose": -1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lgb.LGBMRegressor(min_data_per_group=1, cat_smooth=1, **few).fit(frame, y, **fit)
    return treeopt.from_model(model), model


NUMBERS = pd.Categorical(RNG.choice([10, 20, 30], N))


def test_points_with_numbers_as_labels():
    """Those of an ordered column, too, whose splits are by threshold."""
    for ordered in (False, True):
        c = NUMBERS.set_categories([30, 10, 20], ordered=ordered)
        frame = pd.DataFrame({"c": c, "x": PLAIN})
        e, model = lightgbm(frame, PLAIN + 2.0 * (c.codes == 1))
        for i in range(5):
            own = model.predict(frame.iloc[[i]])[0]
            assert e.predict(frame.iloc[[i]])[0] == own
            assert e.walker(frame.iloc[i].to_dict()).value == own
            assert e.walker(frame.iloc[i]).value == own


def test_labels_whose_column_is_not_sure():
    """Category column A is read as numbers, integers B as categories: who has the labels?"""
    a = pd.Categorical(RNG.integers(0, 4, N), categories=[3, 2, 1, 0])
    frame = pd.DataFrame({"A": a, "B": RNG.integers(0, 4, N), "x": PLAIN})
    e, model = lightgbm(frame, PLAIN + 3 * a.codes + frame.B % 2, categorical_feature=["B"])
    assert_same_bits(e.predict(frame), model.predict(frame), PLAIN)
    assert all(known.labels is None for known in e.categories.values())
    with pytest.raises(InputError, match=says("x['A']", "unknown which", "frame of one row")):
        e.walker(frame.iloc[0].to_dict())
    with pytest.raises(InputError, match=says("'b'", "labels of 'B' are not known")):
        e.walker(e._matrix(frame)[0]).move("B", "b")


def test_labels_beside_columns_of_few_whole_numbers():
    """The columns that the model was told to take for categories are written down, too."""
    town = pd.Categorical(RNG.choice(["Rome", "Oslo", "Bern"], N))
    kind = pd.Categorical(RNG.choice(["a", "b", "c", "d"], N))
    frame = pd.DataFrame({"flag": RNG.integers(0, 2, N), "town": town, "x": PLAIN, "kind": kind})
    frame["last"] = RNG.integers(0, 2, N)
    e, model = lightgbm(
        frame, PLAIN + (town == "Oslo") + (kind == "c") * frame.flag + frame["last"]
    )
    assert {j: known.labels for j, known in e.categories.items()} == {
        1: ("Bern", "Oslo", "Rome"),
        3: ("a", "b", "c", "d"),
    }
    best = treeopt.maximize(model, {"x": (-1, 1)}, fixed={"town": "Rome", "flag": 1, "last": 0})
    assert best.x["town"] == "Rome" and model.predict(best.frame)[0] == best.fun


def test_labels_that_stay_unsure_are_asked_for_as_a_frame():
    """Column B has the codes of the labels, and A may have them as numbers."""
    town = pd.Categorical(RNG.choice(["Rome", "Oslo"], N))
    frame = pd.DataFrame({"A": RNG.integers(0, 2, N), "B": town, "x": PLAIN})
    _, model = lightgbm(frame, PLAIN + frame.A + (town == "Oslo"))
    parts = ("fixed['B'] has 'Oslo'", "not sure", "frame")
    with pytest.raises(InputError, match=says(*parts)):
        treeopt.maximize(model, {"A": (0, 1), "x": (-1, 1)}, fixed={"B": "Oslo"})
    with pytest.raises(InputError, match=says("feature 'B'", "not sure", "frame")):
        treeopt.maximize(model, {"A": (0, 1), "x": (-1, 1)})
    best = treeopt.maximize(model, {"A": (0, 1), "B": (0, 1), "x": (-1, 1)})
    with pytest.raises(InputError, match=says("unknown which", "LGBM", "Pass bounds as a frame")):
        _ = best.frame
    best = treeopt.maximize(model, frame, fixed={"B": "Oslo"})
    assert best.x["B"] == "Oslo" and model.predict(best.frame)[0] == best.fun


def test_labels_that_lightgbm_cannot_write():
    """It fails itself, unless the Booster is kept in training."""
    train = lgb.Dataset(pd.DataFrame({"c": pd.cut(PLAIN, 4), "x": PLAIN}), PLAIN)
    params = {"verbose": -1, "num_threads": 1}
    booster = lgb.train(params, train, 2, keep_training_booster=True)
    with pytest.raises(UnsupportedModelError, match=says("cannot write", "text or numbers")):
        treeopt.from_model(booster)


def test_slope_that_is_not_the_objectives():
    y = (PLAIN > 0).astype(float)
    train = lgb.Dataset(PLAIN[:, None], y)
    for objective in ("cross_entropy", "binary"):
        params = {"objective": objective, "sigmoid": 1 / 3, "verbose": -1, "num_threads": 1}
        booster = lgb.train(params, train, 3, keep_training_booster=True)
        rows = PLAIN[:, None]
        assert_same_bits(treeopt.from_model(booster).predict(rows), booster.predict(rows), rows)


def test_columns_of_the_same_spelling():
    frame = pd.DataFrame({"a b": PLAIN, "x": PLAIN})
    e, _ = lightgbm(frame, PLAIN)
    twice = frame.assign(a_b=1.0)
    with pytest.raises(InputError, match="several columns called 'a_b'"):
        e.predict(twice)


def test_the_refused_column_is_named():
    model, _ = hist(RNG.integers(0, 4, N).astype(float), PLAIN)
    with pytest.raises(InputError, match=says("X[0, 0]", "'c'", "inf")):
        treeopt.from_model(model).predict(np.array([[np.inf, np.inf]]))
