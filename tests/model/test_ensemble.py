"""`Ensemble` itself: what it refuses to be, how it is told apart, how it travels."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import expit

from tests.support import truth
from treeopt import Categories, Ensemble, InputError, ModelFormatError
from treeopt.model.categories import truncated
from treeopt.model.link import Link


def ensemble(**changes) -> Ensemble:
    """Return two trees on two features, with some fields changed."""
    fields = {
        "feature": np.array([0, -1, 1, -1, -1, -1], np.int32),
        "threshold": np.array([0.5, np.nan, 1.5, np.nan, np.nan, np.nan]),
        "left": np.array([1, -1, 3, -1, -1, -1], np.int32),
        "right": np.array([2, -1, 4, -1, -1, -1], np.int32),
        "value": np.array([0, 1.0, 0, 2.0, 3.0, 10.0]),
        "default_left": np.zeros(6, bool),
        "zero_missing": np.zeros(6, bool),
        "tree_start": np.array([0, 5, 6]),
        "n_features": 2,
        "feature_names": ("a", "b"),
        "importances": np.array([0.5, 0.5]),
        "input_dtype": np.dtype(np.float64),
    }
    return Ensemble(**{**fields, **changes})


THREE = truncated([0, 1, 2], np.dtype(np.float64))
OVERLAPPING = Categories(np.arange(2.0), np.array([-1.0, 0.0]), np.array([0.5, 1.0]))
ONLY_ROOT = np.array([0, -1, -1, -1, -1, -1])
BY_SET = {
    "category_set": np.array([0, -1, 0, -1, -1, -1]),
    "set_start": np.array([0, 2]),
    "set_member": np.array([0, 2]),
    "categories": {0: THREE, 1: THREE},
}


def test_splits_by_category():
    """Categories 0 and 2 go left, all else right, missing values too."""
    e = ensemble(**BY_SET)
    X = np.array([[0.0, 9.0], [1.0, 2.9], [1.0, 1.0], [-1.0, np.nan], [2.0, 0.0]])
    assert e.predict(X).tolist() == [11.0, 12.0, 13.0, 13.0, 11.0]
    assert e.line([1.0, 0.0], "b").value.tolist() == [13.0, 12.0, 13.0, 12.0, 13.0]
    boxes = e.leaf_boxes()
    assert boxes.categories[0].tolist()[0] == [True, False, True, False]
    assert e.walker([1.0, 1.0]).move("b", 2.0) == 12.0


def test_labels_are_moved_to_and_looked_up():
    known = dataclasses.replace(THREE, labels=("red", "green", "blue"), recode="labels")
    e = ensemble(**{**BY_SET, "categories": {0: known, 1: THREE}})
    walker = e.walker({"a": "green", "b": 2.0})
    assert (walker.value, walker.move("a", "blue")) == (12.0, 11.0)
    with pytest.raises(InputError, match=r"to is 'pink', which is none of .*red, green, blue"):
        walker.move("a", "pink")
    assert repr(known) == "<Categories: red, green, blue>"


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (Link(), [-2.0, 0.0, 3.0]),
        (Link("exp"), np.exp([-2.0, 0.0, 3.0])),
        (Link("exp", by_numpy=True), np.exp([-2.0, 0.0, 3.0])),
        (Link("logistic", 2.0), expit([-4.0, 0.0, 6.0])),
        (Link("logistic", complement=True), 1 - expit([-2.0, 0.0, 3.0])),
        (Link("square"), [-4.0, 0.0, 9.0]),
        (Link("softplus"), np.log1p(np.exp([-2.0, 0.0, 3.0]))),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_links(link, expected, dtype):
    value = np.array([0, -2.0, 0, 0.0, 3.0, 0.0], dtype)
    e = ensemble(value=value, link=link, base=-0.0)
    X = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    assert e.margin(X).tolist() == [-2.0, 0.0, 3.0]
    np.testing.assert_allclose(e.predict(X), expected, rtol=4 * np.finfo(dtype).eps)
    assert e.predict(X).dtype == dtype
    assert e.link.increasing == (e.predict(X)[2] > e.predict(X)[0])
    walker = e.walker(X[0])
    assert [walker.value, *walker.run([0, 1], [1.0, 2.0])] == e.predict(X).tolist()
    assert walker.move("a", 0.0) == e.predict([[0.0, 2.0]])[0]
    assert set(e.line(X[1], "b").value) <= set(e.predict(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_minus_a_probability_is_known_to_the_last_place_of_the_probability(dtype):
    link = Link("logistic", complement=True)
    assert link.last_place(dtype(1e-6)) == np.finfo(dtype).epsneg
    assert Link("logistic").last_place(dtype(1e-6)) == np.spacing(dtype(1e-6))


def test_predicts_what_its_arrays_say():
    e = ensemble()
    X = np.array([[0.5, 9.0], [0.6, 1.5], [0.6, 1.6], [np.nan, np.nan]])
    assert e.predict(X).tolist() == [11.0, 12.0, 13.0, 13.0]
    assert truth.same_bits(e.predict(X), truth.predict(e, X))
    assert (e.n_trees, e.n_nodes, e.n_leaves) == (2, 6, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"left": np.array([1, -1, 0, -1, -1, -1], np.int32)},  # a cycle
        {"left": np.array([1, -1, 1, -1, -1, -1], np.int32)},  # two parents
        {"right": np.array([2, -1, 5, -1, -1, -1], np.int32)},  # into the next tree
        {"right": np.array([2, -1, 99, -1, -1, -1], np.int32)},  # out of range
        {"feature": np.array([0, -1, 2, -1, -1, -1], np.int32)},
        {"threshold": np.full(6, np.nan)},
        {"threshold": np.full(6, -np.inf)},
        {"tree_start": np.array([0, 6, 6])},
        {"tree_start": np.array([0])},
        {"value": np.zeros(5)},
        {"importances": np.ones(3)},
        {"feature_names": ("a",)},
        {"n_features": -1},
        {"n_features": 2**62},
        {"link": Link("softmax")},
        {"input_dtype": np.dtype(np.int64)},
        {"category_set": np.array([0, -1, 0, -1, -1, -1])},  # without sets
        {**BY_SET, "category_set": np.array([1, -1, 0, -1, -1, -1])},  # a set that is not there
        {**BY_SET, "category_set": np.array([0, -1, -1])},
        {**BY_SET, "categories": {}},
        {**BY_SET, "categories": {0: THREE}},  # not those of feature 1
        {**BY_SET, "categories": {0: THREE, 1: truncated([0], np.dtype(np.float64))}},
        {**BY_SET, "set_member": np.array([0, 3])},
        {**BY_SET, "set_member": np.array([0, -2])},
        {**BY_SET, "set_start": np.array([0, 3])},
        {**BY_SET, "set_start": np.array([1, 2])},
        {**BY_SET, "zero_missing": np.array([1, 0, 0, 0, 0, 0], bool)},
        {**BY_SET, "categories": {0: THREE, 1: OVERLAPPING}},
        {"categories": {10**9: THREE}},
        {"categories": {-1: THREE}},
        {"categories": {0: Categories(np.arange(2.0), np.arange(3.0), np.arange(1.0, 4.0))}},
        {**BY_SET, "feature": np.array([0, -1, 0, -1, -1, -1]), "category_set": ONLY_ROOT},
    ],
)
def test_contradictory_arrays_are_refused(changes):
    with pytest.raises(ModelFormatError):
        ensemble(**changes)


def test_is_immutable():
    e = ensemble()
    with pytest.raises(dataclasses.FrozenInstanceError):
        e.base = 1.0
    with pytest.raises(ValueError, match="read-only"):
        e.value[0] = 1.0
    e = ensemble(**BY_SET)
    with pytest.raises(TypeError):
        e.categories[5] = THREE
    with pytest.raises(ValueError, match="read-only"):
        e.categories[0].lower[0] = 1.0


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_travels_and_stays_immutable(travel):
    e = ensemble(**BY_SET)
    X = np.random.default_rng(0).random((9, 2))
    expected = e.predict(X)
    other = travel(e)
    assert truth.same_bits(other.predict(X), expected)
    assert not other.value.flags.writeable


def test_can_be_used_from_many_threads_at_once():
    e = ensemble()
    X = np.random.default_rng(0).random((2000, 2)) * 2
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: e.predict(X, n_jobs=2), range(50)))
    assert all(truth.same_bits(r, truth.predict(e, X)) for r in results[:2])
    assert all(truth.same_bits(r, results[0]) for r in results)


def test_features_are_found_by_name_or_index():
    e = ensemble()
    assert e.line([0.0, 0.0], "a").upper.tolist() == e.line([0.0, 0.0], 0).upper.tolist()
    with pytest.raises(InputError, match=r"'c' is unknown.*'a', 'b'"):
        e.line([0.0, 0.0], "c")
    with pytest.raises(InputError, match=r"feature is 2: .*0\.\.1"):
        e.walker([0.0, 0.0]).move(2, 1.0)


def test_moves_say_what_is_wrong_and_keep_what_was_done():
    e = ensemble(accepts_inf=False)
    walker = e.walker([0.0, 0.0])
    with pytest.raises(InputError, match=r"to\[1\] is inf"):
        walker.run([0, 1, 0], [1.0, np.inf, 2.0])
    assert walker.x.tolist() == [1.0, 0.0]
    assert walker.value == e.predict([[1.0, 0.0]])[0]
    with pytest.raises(InputError, match="same length"):
        walker.run([0], [1.0, 2.0])
    with pytest.raises(InputError, match="pass one point"):
        e.walker([[0.0, 0.0], [1.0, 1.0]])


def test_n_jobs_must_be_a_number_of_threads():
    with pytest.raises(InputError, match="n_jobs is 0"):
        ensemble().predict([[0.0, 0.0]], n_jobs=0)


def test_leaves_the_callers_arrays_alone():
    value = np.array([0, 1.0, 0, 2.0, 3.0, 10.0])
    ensemble(value=value)
    value[0] = 1.0


def test_takes_arrays_of_any_layout():
    e = ensemble(value=np.arange(12.0)[::2], left=[1, -1, 3, -1, -1, -1])
    X = np.random.default_rng(0).random((20, 2)) * 2
    assert truth.same_bits(e.predict(X), truth.predict(e, X))


def test_read_only_inputs_need_no_second_compile():
    e = ensemble()
    X = np.random.default_rng(0).random((20, 2))
    expected = e.predict(X)
    kernel = e.compiled._predict[0]
    signatures = len(kernel.signatures)
    X.flags.writeable = False
    assert truth.same_bits(e.predict(X), expected)
    assert len(kernel.signatures) == signatures


@pytest.mark.parametrize("feature", [0.5, None, -1, 2])
def test_a_feature_is_a_name_or_a_whole_number(feature):
    with pytest.raises(InputError, match=r"pass a name, or a number in 0\.\.1"):
        ensemble().line([0.0, 0.0], feature)
    with pytest.raises(InputError, match=r"pass a name, or a number in 0\.\.1"):
        ensemble().walker([0.0, 0.0]).run([feature], [1.0])


def test_a_move_needs_a_number():
    with pytest.raises(InputError, match="to is 'far': pass a number"):
        ensemble().walker([0.0, 0.0]).move(0, "far")


def test_moves_take_names():
    walker = ensemble().walker([0.0, 0.0])
    assert walker.run(["a", 1], [0.6, 1.6])[-1] == 13.0
