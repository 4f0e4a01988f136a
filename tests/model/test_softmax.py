"""`Softmax`: the probability of one of several classes. The libraries are the judges.

That it is equal to theirs on rows where mistakes show, is part of the adapter tests.
"""

from __future__ import annotations

import copy
import json
import pickle
import re
from dataclasses import replace
from functools import cache

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

import treeopt
from tests.support.cases import SETS, lightgbm_classifier, xgboost_classifier
from tests.support.contract import assert_same_bits
from tests.support.messages import says
from treeopt import InputError, ModelFormatError
from treeopt.adapters import OwnPrediction, check
from treeopt.model.link import Link
from treeopt.model.softmax import ARITHMETICS, SOFTMAX_ULPS, Softmax

rng = np.random.default_rng(0)
X = rng.random((120, 3))
FRAME = pd.DataFrame(X, columns=["temp", "flow rate", "pH"])
Y = (3 * X[:, 0] + X[:, 1] > [[0.8], [2.2]]).sum(axis=0)


def softmax(model=None, class_index=2) -> Softmax:
    model = HistGradientBoostingClassifier(max_iter=4) if model is None else model
    return treeopt.from_model(model.fit(FRAME, Y), class_index=class_index)


def ulps(ours: np.ndarray, own: np.ndarray) -> int:
    """Return the maximum distance of probabilities in units in the last place."""
    assert ours.dtype == own.dtype
    number = f"i{ours.itemsize}"
    assert np.array_equal(np.isnan(ours), np.isnan(own))
    ours, own = ours[~np.isnan(ours)], own[~np.isnan(own)]
    apart = np.abs(ours.view(number).astype(np.int64) - own.view(number).astype(np.int64))
    return int(apart.max(initial=0))


MODELS = {
    "xgboost": lambda: xgboost_classifier(n_estimators=3),
    "scipy": lambda: xgboost_classifier(n_estimators=3, objective="multi:softmax"),
    "lightgbm": lambda: lightgbm_classifier(n_estimators=3),
    "sklearn": lambda: GradientBoostingClassifier(n_estimators=3),
    "sklearn_hist": lambda: HistGradientBoostingClassifier(max_iter=3),
}


@cache
def of_classes(arithmetic: str, n: int) -> tuple[object, Softmax]:
    """Return a model of n classes, and the softmax of its last class."""
    inputs = np.random.default_rng(n).random((40 * n, 3))
    model = MODELS[arithmetic]().fit(inputs, np.arange(40 * n) % n)
    return model, treeopt.from_model(model)


def with_own_margins(arithmetic: str, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Let a library compute probabilities from given margins; return what margins it used."""
    model, _ = of_classes(arithmetic, margins.shape[1])
    if arithmetic.startswith("sklearn"):
        order = "F" if arithmetic == "sklearn_hist" else "C"
        return margins, model._loss.predict_proba(np.array(margins, order=order))
    if arithmetic == "lightgbm":
        return with_leaves(margins)
    rows = np.zeros((len(margins), 3))
    base = {"base_margin": margins.astype(np.float32)}
    return model.predict(rows, output_margin=True, **base), model.predict_proba(rows, **base)


def with_leaves(margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Write margins into the leaves of a LightGBM model with one tree per class."""
    n_rows, n = margins.shape
    rows = np.arange(n_rows, dtype=np.float64)[:, None]
    few = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 1, "min_data_in_bin": 1}
    few |= {"min_sum_hessian_in_leaf": 0, "num_leaves": n_rows, "max_bin": 2 * n_rows}
    few |= {"objective": "multiclass", "num_class": n}
    text = lgb.train(few, lgb.Dataset(rows, np.arange(n_rows) % n), 1).model_to_string()
    values = iter(margins.T)

    def other(found: re.Match) -> str:
        n_leaves = len(found[1].split())
        return "leaf_value=" + " ".join(map(repr, next(values)[:n_leaves].tolist()))

    text = re.sub("^leaf_value=(.*)$", other, text, flags=re.MULTILINE)
    text = re.sub("^tree_sizes=.*\n", "", text, flags=re.MULTILINE)
    edited = lgb.Booster(model_str=text)
    return edited.predict(rows, raw_score=True), edited.predict(rows)


def extreme_margins(n: int, n_rows: int = 400) -> np.ndarray:
    """Return margins near each other and far apart, tiny and huge, and equal."""
    r = np.random.default_rng(n)
    scale = 10.0 ** r.uniform(-9, 4, (n_rows, 1))
    margins = r.normal(size=(n_rows, n)) * scale + r.choice([0.0, 1e3, -1e3], (n_rows, 1))
    margins[0], margins[1], margins[2] = 0.0, 1e30, -1e30
    margins[3, 0], margins[4, 0], margins[4, 1] = 1e30, -1e30, 1e-30
    margins[5:50, -1] -= np.linspace(60, 120, 45)  # powers that float32 can hardly hold
    margins[50:100, -1] -= np.linspace(690, 760, 50)  # and float64
    return margins


@pytest.mark.parametrize("n", [3, 4, 5, 6, 7, 8, 13, 40])
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_extreme_margins(arithmetic, n):
    margins, own = with_own_margins(arithmetic, extreme_margins(n))
    _, model = of_classes(arithmetic, n)
    assert model.arithmetic == arithmetic
    for k in range(n):
        column = np.ascontiguousarray(own[:, k])
        ours = replace(model, class_index=k).probability(margins)
        assert ulps(ours, column) <= SOFTMAX_ULPS
        assert_same_bits(ours, column, margins)
    assert (own == 0).any() and (own == 1).any()
    tiny = np.finfo(own.dtype).tiny
    assert ((own > 0) & (own < tiny)).any()


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_margins_that_are_not_finite(arithmetic):
    """Sums may overflow; then the libraries predict NaN, or are sure."""
    _, model = of_classes(arithmetic, 3)
    rows = [[np.inf, 0, 0], [-np.inf, 0, 0], [np.nan, 0, 0], [0, np.nan, 0], [-np.inf] * 3]
    dtype = model.sums[0].value.dtype
    for k, expected in (
        (0, [np.nan, 0, np.nan, np.nan, np.nan]),
        (1, [np.nan, 0.5] + [np.nan] * 3),
    ):
        found = replace(model, class_index=k).probability(np.array(rows, dtype))
        np.testing.assert_array_equal(found, np.array(expected, dtype))


@pytest.mark.parametrize("rate", [3.0, 30.0])
@pytest.mark.parametrize("n", [3, 6])
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_saturated_models(arithmetic, n, rate):
    """With a learning rate so large that most probabilities are 0 or 1."""
    inputs = np.random.default_rng(n).random((300, 3))
    target = np.arange(n).searchsorted(n * inputs[:, 0] - 0.5).clip(0, n - 1)
    model = MODELS[arithmetic]().set_params(learning_rate=rate).fit(inputs, target)
    rows = np.random.default_rng(1).random((3000, 3))
    own = model.predict_proba(rows)
    assert np.isin(own, (0, 1)).any() or rate < 10
    for k in range(n):
        ours = treeopt.from_model(model, class_index=k).predict(rows)
        column = np.ascontiguousarray(own[:, k])
        assert ulps(ours, column) <= SOFTMAX_ULPS
        assert_same_bits(ours, column, rows)
    assert treeopt.check_conversion(model, inputs).different == 0


@pytest.mark.parametrize("n", [3, 7, 12])
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_rows_one_by_one(arithmetic, n):
    """With eight classes or more, HistGradientBoosting adds those of one row in another order."""
    model, ours = of_classes(arithmetic, n)
    rows = np.random.default_rng(2).random((60, 3))
    alone = np.concatenate([ours.predict(row[None]) for row in rows])
    own = np.concatenate([model.predict_proba(row[None])[:, -1] for row in rows])
    assert_same_bits(alone, own, rows)
    together = ours.predict(rows)
    assert_same_bits(together, np.ascontiguousarray(model.predict_proba(rows)[:, -1]), rows)
    assert ulps(alone, together) <= (n if arithmetic == "sklearn_hist" and n > 7 else 0)


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_number_of_threads(n_jobs):
    s = softmax()
    rows = np.random.default_rng(3).random((20_000, 3))
    assert s.predict(rows, n_jobs=n_jobs).tobytes() == s.predict(rows).tobytes()


def test_a_booster_of_one_class_is_sure():
    given = {"objective": "multi:softprob", "num_class": 1, "nthread": 1}
    booster = xgb.train(given, xgb.DMatrix(X, np.zeros(len(X))), 2)
    found = treeopt.from_model(booster)
    assert_same_bits(found.predict(X), booster.inplace_predict(X), X)
    assert (len(found.sums), found.class_index) == (1, 0)


def test_labels_of_a_booster_are_not_changed():
    """The probabilities of such a Booster are those of a copy with another objective."""
    given = {"objective": "multi:softmax", "num_class": 3, "nthread": 1}
    booster = xgb.train(given, xgb.DMatrix(X, Y), 3)
    before = booster.predict(xgb.DMatrix(X))
    own = OwnPrediction(booster)(X)
    assert_same_bits(treeopt.from_model(booster).predict(X), own, X)
    assert 0 < own.min() < own.max() < 1
    assert booster.predict(xgb.DMatrix(X)).tobytes() == before.tobytes()
    assert json.loads(booster.save_config())["learner"]["objective"]["name"] == "multi:softmax"


def test_is_the_softmax_of_its_sums():
    s = softmax()
    margins = np.column_stack([e.predict(X) for e in s.sums])
    assert s.margins(X).tobytes() == margins.tobytes()
    assert s.margins(FRAME[::-1]).tobytes() == margins[::-1].tobytes()
    powers = np.exp(margins)
    np.testing.assert_allclose(s.predict(X), powers[:, 2] / powers.sum(axis=1), rtol=1e-14)
    assert s.predict(FRAME).tobytes() == s.predict(X).tobytes()


def test_describes_the_inputs_of_the_model():
    s = softmax()
    margin = treeopt.from_model(
        HistGradientBoostingClassifier(max_iter=4).fit(FRAME, Y), output="raw", class_index=0
    )
    assert s.feature_names == margin.feature_names == ("temp", "flow rate", "pH")
    assert s.importances.tolist() == margin.importances.tolist()
    assert (s.n_features, s.feature_index("pH"), s.source) == (3, 2, margin.source)
    assert (s.input_dtype, s.array_dtype) == (np.float64, np.float64)
    assert (s.accepts_nan, s.accepts_inf, s.cast_apart) == (True, True, "never")
    assert np.isnan(s.missing_value)
    assert (dict(s.categories), s.frame_labels, s.labeled_columns) == ({}, None, [])
    assert (s.unsure_of_labels, s.finite_columns.size) == (False, 0)
    assert s._point(FRAME.iloc[1]).tolist() == X[1].tolist()
    assert s._matrix(FRAME[::-1]).tolist() == X[::-1].tolist()
    assert [s.reads(j) for j in range(3)] == [any(e.reads(j) for e in s.sums) for j in range(3)]


def test_counts_all_sums():
    s = softmax()
    assert s.n_trees == 12
    assert s.n_leaves == sum(e.n_leaves for e in s.sums)
    assert s.n_nodes == 2 * s.n_leaves - 12
    assert repr(s).startswith("<Softmax of HistGradientBoostingClassifier: class 2 of 0..2, 12 tre")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_predict_the_same(copied):
    s = softmax(class_index=0)
    again = copied(s)
    assert again.predict(X).tobytes() == s.predict(X).tobytes()
    assert (again.class_index, again.arithmetic) == (0, "sklearn_hist")
    with pytest.raises(AttributeError):
        again.class_index = 1


def test_from_model_returns_it_unchanged():
    s = softmax()
    assert treeopt.from_model(s) is s
    with pytest.raises(InputError, match=r"a Softmax.*original model"):
        treeopt.from_model(s, class_index=1)
    with pytest.raises(InputError, match=r"Softmax.*original model"):
        treeopt.check_conversion(s, X)


def test_refuses_what_any_sum_refuses():
    s = softmax(GradientBoostingClassifier(n_estimators=1, max_depth=1))
    assert not all(e.reads(j) for e in s.sums for j in range(3))
    for column in range(3):
        bad = X[:3].copy()
        bad[1, column] = np.inf
        with pytest.raises(InputError, match=rf"X\[1, {column}\]"):
            s.predict(bad)


def test_sums_that_do_not_fit_together():
    s = softmax()
    first = s.sums[0]
    with pytest.raises(ModelFormatError, match="link"):
        replace(s, sums=(*s.sums[:2], replace(first, link=Link("exp"))))
    with pytest.raises(ModelFormatError, match="precision"):
        replace(s, sums=(*s.sums[:2], replace(first, value=first.value.astype(np.float32))))
    for wrong in ({"class_index": 3}, {"class_index": -1}, {"sums": ()}):
        with pytest.raises(ModelFormatError, match="class_index"):
            replace(s, **wrong)
    with pytest.raises(ModelFormatError, match="arithmetic is 'exact'"):
        replace(s, arithmetic="exact")


@pytest.mark.parametrize("shape", [(3,), (5, 2), (5, 4), (1, 5, 3), ()])
def test_margins_of_a_wrong_shape(shape):
    with pytest.raises(InputError, match=says("margins has shape", "3 classes")):
        softmax().probability(np.zeros(shape))


LABELED = FRAME.assign(kind=pd.Categorical(np.array(["a", "b", "c", "d"])[np.arange(120) % 4]))
BY_KIND = (Y + np.arange(120) % 4) % 4


@pytest.mark.parametrize("arithmetic", [name for name in MODELS if name != "sklearn"])
def test_labels_of_a_frame(arithmetic):
    model = MODELS[arithmetic]()
    if arithmetic in ("xgboost", "scipy"):
        model.set_params(enable_categorical=True)
    elif arithmetic == "lightgbm":
        model.set_params(**SETS)
    model.fit(LABELED, BY_KIND)
    found = treeopt.from_model(model, class_index=1)
    assert found.reads(3) and found.labeled_columns == [3]
    frame = LABELED.assign(kind=LABELED["kind"].cat.reorder_categories(list("dbca")))
    own = np.ascontiguousarray(model.predict_proba(LABELED)[:, 1])
    for given in (LABELED, frame[[*frame][::-1]]):
        assert_same_bits(found.predict(given), own)
    assert treeopt.check_conversion(model, LABELED, class_index=1).different == 0


class Off(Softmax):
    """A softmax whose probabilities are some units in the last place too large."""

    by = 0

    def probability(self, margins):
        exact = super().probability(margins)
        return (exact.view(f"i{exact.itemsize}") + self.by).view(exact.dtype)


@pytest.mark.parametrize("arithmetic", ["xgboost", "sklearn"])
@pytest.mark.parametrize("by", [SOFTMAX_ULPS, -SOFTMAX_ULPS, SOFTMAX_ULPS + 1, -SOFTMAX_ULPS - 1])
def test_check_conversion_allows_the_last_place(arithmetic, by, monkeypatch):
    model, exact = of_classes(arithmetic, 3)
    wrong = Off(exact.sums, exact.class_index, exact.arithmetic)
    monkeypatch.setattr(Off, "by", by)
    monkeypatch.setattr(check, "from_model", lambda *_, **__: wrong)
    found = treeopt.check_conversion(model, X)
    assert found.worst > 0
    if abs(by) <= SOFTMAX_ULPS:
        assert found.different == 0
        assert "equal but for the last place" in str(found)
    else:
        assert found.different == found.compared
