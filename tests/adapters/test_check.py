"""`check_conversion`: it finds what it is there to find."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import treeopt
from treeopt import InputError, UnsupportedModelError
from treeopt.adapters import scikit_learn
from treeopt.adapters.check import neighbors

rng = np.random.default_rng(0)
X = rng.random((60, 3))
y = X[:, 0] + X[:, 1] ** 2


def test_thresholds_rounded_the_wrong_way_are_found(monkeypatch):
    """The mistake that random rows do not show: thresholds rounded to nearest."""
    model = RandomForestRegressor(20, random_state=0).fit(X, y)
    assert treeopt.check_conversion(model, X).different == 0
    monkeypatch.setattr(scikit_learn, "round_down", lambda t: t.astype(np.float32))
    assert np.array_equal(treeopt.from_model(model).predict(X), model.predict(X))
    found = treeopt.check_conversion(model, X)
    assert found.different > 0 and found.worst > 0
    assert "differ, by" in str(found)


def test_counts_rows_five_points_per_cut_and_missing_values():
    model = DecisionTreeRegressor(max_leaf_nodes=4, random_state=0).fit(X, y)
    cells = treeopt.from_model(model).compiled.cells
    missing = 20 * cells.columns.size
    assert treeopt.check_conversion(model, X).compared == len(X) + 5 * cells.cuts.size + missing


def test_neighbors_are_next_to_the_cut_in_both_precisions():
    cut = 0.1
    single = np.float32(cut)
    expected = [cut, np.nextafter(cut, -1), np.nextafter(cut, 1)]
    expected += [float(np.nextafter(single, np.float32(s))) for s in (-1, 1)]
    assert neighbors(np.array([cut])).tolist() == expected


def test_an_ensemble_has_nothing_to_be_compared_with():
    model = DecisionTreeRegressor().fit(X, y)
    with pytest.raises(InputError, match="original model"):
        treeopt.check_conversion(treeopt.from_model(model), X)


def test_flags_beside_numbers_are_numbers():
    """What pandas.get_dummies gives: columns of bool beside columns of float."""
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0.5})
    model = RandomForestRegressor(5, random_state=0).fit(frame, y)
    assert np.array_equal(treeopt.from_model(model).predict(frame), model.predict(frame))


def test_a_subclass_with_its_own_predict_is_refused():
    class MedianForest(RandomForestRegressor):
        def predict(self, X):
            return np.median([tree.predict(X) for tree in self.estimators_], axis=0)

    with pytest.raises(UnsupportedModelError, match=r"MedianForest.*changes the predict"):
        treeopt.from_model(MedianForest(3).fit(X, y))
