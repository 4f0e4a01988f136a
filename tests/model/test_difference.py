"""`Difference`: two sums of trees of one model."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

import treeopt
from treeopt import Difference, InputError, ModelFormatError
from treeopt.model.link import IDENTITY, Link

rng = np.random.default_rng(0)
X = rng.random((80, 3))
FRAME = pd.DataFrame(X, columns=["temp", "flow rate", "pH"])
Y = (3 * X[:, 0] + X[:, 1] > [[0.8], [2.2]]).sum(axis=0)


def difference(model=None, **more) -> Difference:
    model = HistGradientBoostingClassifier(max_iter=4, **more) if model is None else model
    return treeopt.from_model(model.fit(FRAME, Y), output="raw", class_index=(2, 0))


def test_is_the_difference_of_its_sums():
    d = difference()
    expected = d.plus.predict(X) - d.minus.predict(X)
    for n_jobs in (1, 2):
        assert d.predict(X, n_jobs=n_jobs).tobytes() == expected.tobytes()
        assert d.margin(FRAME[::-1], n_jobs=n_jobs).tobytes() == expected[::-1].tobytes()


def test_describes_the_inputs_of_the_model():
    d = difference()
    plus = treeopt.from_model(
        HistGradientBoostingClassifier(max_iter=4).fit(FRAME, Y), output="raw", class_index=2
    )
    assert d.feature_names == plus.feature_names == ("temp", "flow rate", "pH")
    assert d.importances.tolist() == plus.importances.tolist()
    assert (d.n_features, d.feature_index("pH"), d.source) == (3, 2, plus.source)
    assert (d.input_dtype, d.accepts_nan, d.accepts_inf) == (np.float64, True, True)
    assert d._point(FRAME.iloc[1]).tolist() == X[1].tolist()
    assert d.link == IDENTITY


def test_counts_both_sums():
    d = difference()
    assert d.n_trees == d.plus.n_trees + d.minus.n_trees == 8
    assert d.n_leaves == d.plus.n_leaves + d.minus.n_leaves
    assert d.n_nodes == 2 * d.n_leaves - 8
    assert repr(d).startswith("<Difference of HistGradientBoostingClassifier: 8 trees")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))]
)
def test_copies_predict_the_same(copied):
    d = difference()
    assert copied(d).predict(X).tobytes() == d.predict(X).tobytes()


def test_from_model_returns_it_unchanged():
    d = difference()
    assert treeopt.from_model(d) is d
    with pytest.raises(InputError, match=r"a Difference.*original model"):
        treeopt.from_model(d, output="raw")
    with pytest.raises(InputError, match=r"Difference.*original model"):
        treeopt.check_conversion(d, X)


def test_refuses_what_either_sum_refuses():
    d = difference(GradientBoostingClassifier(n_estimators=2, max_depth=1))
    read = [set(e.compiled.cells.columns.tolist()) for e in (d.plus, d.minus)]
    assert read[0] | read[1] != {0, 1, 2}
    for column in range(3):
        bad = X[:3].copy()
        bad[1, column] = np.inf
        with pytest.raises(InputError, match=rf"X\[1, {column}\]"):
            d.predict(bad)


def test_sums_that_do_not_fit_together():
    d = difference()
    with pytest.raises(ModelFormatError, match="link"):
        replace(d, minus=replace(d.minus, link=Link("exp")))
    with pytest.raises(ModelFormatError, match="precision"):
        replace(d, minus=replace(d.minus, value=d.minus.value.astype(np.float32)))
