"""What users may pass as bounds, and what they are told about wrong ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import Bounds
from sklearn.tree import DecisionTreeRegressor

import treeopt
from tests.support.messages import says
from treeopt.problem.bounds import read_bounds

DATA = np.array([[0.0, 5, 1], [2, 5, -1], [1, 5, 4]])
FRAME = pd.DataFrame(DATA, columns=["temp", "pH", "flow"])
PAIRS = [(0, 2), (5, 5), (-1, 4)]


def ensemble(X=FRAME) -> treeopt.Ensemble:
    return treeopt.from_model(DecisionTreeRegressor(random_state=0).fit(X, DATA[:, 0]))


@pytest.mark.parametrize(
    "bounds",
    [
        PAIRS,
        np.array(PAIRS),
        Bounds([0, 5, -1], [2, 5, 4]),
        {"temp": (0, 2), "flow": [-1, 4], "pH": (5, 5)},
        {0: (0, 2), "pH": (5, 5), np.int64(2): (-1, 4)},
        FRAME,
        FRAME[["flow", "temp", "pH"]],
        FRAME.to_numpy(),
        pd.concat([FRAME, FRAME * np.nan]),
    ],
    ids=lambda bounds: type(bounds).__name__,
)
def test_all_ways_to_say_the_same_box(bounds):
    lower, upper = read_bounds(bounds, ensemble())
    assert lower.tolist() == [0, 5, -1] and upper.tolist() == [2, 5, 4]
    assert lower.dtype == upper.dtype == np.float64


def test_pairs_and_scipy_bounds_need_no_model():
    for bounds in (PAIRS, tuple(PAIRS), np.array(PAIRS), Bounds([0, 5, -1], [2, 5, 4])):
        assert np.column_stack(read_bounds(bounds)).tolist() == np.array(PAIRS).tolist()
    assert read_bounds(Bounds([0, 0], 1))[1].tolist() == [1, 1]


def test_one_scipy_bound_is_for_every_feature():
    lower, upper = read_bounds(Bounds(-1, 1), ensemble())
    assert lower.tolist() == [-1] * 3 and upper.tolist() == [1] * 3


def test_a_square_of_two_features_is_pairs():
    two = ensemble(FRAME[["temp", "flow"]])
    assert read_bounds([[0, 1], [2, 3]], two)[0].tolist() == [0, 2]


def test_bounds_are_copied():
    pairs = np.array(PAIRS, float)
    lower, _ = read_bounds(pairs)
    pairs[:] = 0
    assert lower.tolist() == [0, 5, -1]


@pytest.mark.parametrize(
    ("bounds", "parts"),
    [
        ([], ["bounds has shape (0,)", "pair (low, high)"]),
        (None, ["bounds", "Pass"]),
        (3, ["bounds has shape ()", "pair (low, high)"]),
        ((0, 1), ["bounds has shape (2,)", "pair (low, high)"]),
        ([(0, 1, 2)], ["bounds has shape (1, 3)", "pair (low, high)"]),
        ([(0, 1), (2,)], ["bounds", "(2,)", "Pass pairs"]),
        ([("a", "b")], ["bounds", "'a'", "Pass pairs"]),
        ([(0, 1), (1, 0)], ["bounds[1] is (1.0, 0.0)", "above", "Swap"]),
        ([(0, np.inf)], ["bounds[0] is (0.0, inf)", "finite"]),
        ([(np.nan, 1)], ["bounds[0] is (nan, 1.0)", "finite"]),
        ([(0, None)], ["bounds[0]", "finite"]),
        ({0: (0, 1)}, ["bounds is a mapping", "not a model", "pairs"]),
        (FRAME, ["bounds is a table", "not a model", "pairs"]),
    ],
)
def test_wrong_bounds_of_a_function(bounds, parts):
    with pytest.raises(treeopt.InputError, match=says(*parts)):
        read_bounds(bounds)


@pytest.mark.parametrize(
    ("bounds", "parts"),
    [
        ([(0, 1)], ["bounds has 1 pair", "3 features", "Pass one pair for each"]),
        ({"temp": (0, 1)}, ["bounds has no pair for feature 'pH'", "Pass"]),
        ({**dict.fromkeys(FRAME, (0, 1)), 0: (0, 1)}, ["bounds names feature 0 twice", "Remove"]),
        ({"heat": (0, 1)}, ["'heat' is unknown", "'temp'"]),
        ({7: (0, 1)}, ["7", "0..2"]),
        ({"temp": (3, 4, 5)}, ["bounds['temp'] is (3, 4, 5)", "pair (low, high)"]),
        ({"temp": "hot"}, ["bounds['temp'] is 'hot'", "Pass"]),
        ({**dict.fromkeys(FRAME, (0, 1)), "pH": (9, 7)}, ["feature 'pH' is (9.0, 7.0)", "Swap"]),
        ({**dict.fromkeys(FRAME, (0, 1)), "pH": (0, np.inf)}, ["'pH' is (0.0, inf)", "finite"]),
        (FRAME[["temp"]], ["bounds", "'pH'"]),
        (FRAME[:0], ["bounds has no rows", "Pass"]),
        (FRAME.assign(pH=np.nan), ["bounds has no number for feature 'pH'", "Pass"]),
    ],
)
def test_wrong_bounds_of_a_model(bounds, parts):
    with pytest.raises(treeopt.InputError, match=says(*parts)):
        read_bounds(bounds, ensemble())


def test_features_without_names_are_told_by_number():
    with pytest.raises(treeopt.InputError, match=says("no pair for feature 1")):
        read_bounds({0: (0, 1)}, ensemble(DATA))


def test_only_decisions_offer_to_fix_a_feature():
    missing = {"temp": (0, 1)}
    with pytest.raises(treeopt.InputError, match=says("no pair for feature 'pH'", "in fixed")):
        treeopt.minimize(ensemble(), missing)
    with pytest.raises(treeopt.InputError, match=r"for each feature\.$"):
        treeopt.stepdirect(ensemble(), missing)


@pytest.mark.filterwarnings("error")
def test_a_box_too_wide_for_a_float_is_refused():
    with pytest.raises(treeopt.InputError, match=says("bounds[0] is (-1e+308, 1e+308)")):
        read_bounds([(-1e308, 1e308)])
