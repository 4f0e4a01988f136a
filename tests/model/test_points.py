"""One point, given in every way a user has it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import treeopt
from treeopt import InputError

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.random((80, 3)), columns=["a", "b", "c"])
MODEL = RandomForestRegressor(20, random_state=0).fit(FRAME, FRAME["a"] + FRAME["b"] ** 2)
ENSEMBLE = treeopt.from_model(MODEL)
POINT = FRAME.iloc[7]
VALUE = MODEL.predict(FRAME.iloc[[7]])[0]

FORMS = {
    "vector": POINT.to_numpy(),
    "list": POINT.tolist(),
    "series": POINT,
    "series in another order": POINT[["c", "a", "b"]],
    "series of objects": POINT.astype(object),
    "mapping": dict(POINT),
    "mapping in another order": {k: POINT[k] for k in "cba"},
    "frame": FRAME.iloc[[7]],
    "matrix": POINT.to_numpy()[None, :],
}


@pytest.mark.parametrize("x", FORMS.values(), ids=FORMS)
def test_every_form_is_the_same_point(x):
    assert ENSEMBLE.walker(x).value == VALUE
    line = ENSEMBLE.line(x, "b")
    k = int(np.searchsorted(line.upper, np.float32(POINT["b"])))
    assert line.value[k] == VALUE
    boxes = ENSEMBLE.leaf_boxes()
    inside = boxes.containing(x)
    assert boxes.tree[inside].tolist() == list(range(20))
    assert sum(boxes.value[inside]) / 20 == VALUE


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (None, "x is NoneType"),
        ({"a": 1.0, "b": 2.0}, "x lacks 'c'"),
        ({"a": 1.0, "b": 2.0, "d": 3.0}, "x lacks 'c' and has the unknown 'd'"),
        ([1.0, 2.0], "x has 2 columns"),
        (["a", "b", "c"], "real numbers are needed"),
        (FRAME, "x has 80 rows: pass one point"),
    ],
)
def test_what_is_no_point_is_refused(x, says):
    for use in (ENSEMBLE.walker, lambda x: ENSEMBLE.line(x, 0), ENSEMBLE.leaf_boxes().containing):
        with pytest.raises(InputError, match=says):
            use(x)


def test_a_mapping_needs_names():
    nameless = treeopt.from_model(RandomForestRegressor(2).fit(FRAME.to_numpy(), FRAME["a"]))
    with pytest.raises(InputError, match="the model has no names"):
        nameless.walker({"a": 1.0})


def test_only_moves_change_the_walkers_point():
    walker = ENSEMBLE.walker(POINT)
    with pytest.raises(ValueError, match="read-only"):
        walker.x[0] = 1.0
    with pytest.raises(AttributeError):
        walker.x = POINT.to_numpy()
    walker.move("a", 0.5)
    assert walker.x.tolist() == [0.5, POINT["b"], POINT["c"]]


@pytest.mark.parametrize("to", [None, "7", [1.0]])
def test_a_move_goes_to_a_number(to):
    with pytest.raises(InputError, match="pass a number"):
        ENSEMBLE.walker(POINT).move("a", to)


@pytest.mark.parametrize(
    ("features", "to"), [(None, None), (["a"], ["x"]), ("a", [1.0]), (["a"], [[1.0]])]
)
def test_a_run_needs_two_sequences(features, to):
    with pytest.raises(InputError):
        ENSEMBLE.walker(POINT).run(features, to)


def test_all_processors_at_once():
    X = np.resize(FRAME.to_numpy(), (3000, 3))
    for n_jobs in (None, -1, 2):
        assert np.array_equal(ENSEMBLE.predict(X, n_jobs=n_jobs), MODEL.predict(X))
    with pytest.raises(InputError, match="n_jobs is -2"):
        ENSEMBLE.predict(X, n_jobs=-2)
