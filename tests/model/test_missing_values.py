"""Every way to treat missing values and zeros, enumerated in hand-made models."""

import itertools

import numpy as np
import pytest

from tests.support.contract import AdapterContract, assert_same_bits
from tests.support.handmade import (
    AROUND_ZERO,
    AS_NAN,
    AS_ZERO,
    EXTREME,
    NONE,
    Split,
    flipped_sklearn,
    flipped_xgboost,
    lightgbm_booster,
    random_lightgbm,
    sklearn_split,
    xgboost_split,
)
from tests.support.models import Case
from tests.support.rows import MAX32, SPECIAL, acceptable, cast, neighbors

MISSING = {"none": NONE, "zero": AS_ZERO, "nan": AS_NAN}
DIRECTIONS = {"left": True, "right": False}


def rows_around(thresholds: list[float]) -> np.ndarray:
    """Return one-column rows on and next to thresholds, special values, and a missing one."""
    around = neighbors(np.array(thresholds)).ravel()
    return np.array([*SPECIAL, *around, np.nan, -1.0, 1.0])[:, None]


def assert_boxes(case, rows, own):
    """Fail unless each row lies in one box per tree, and the boxes' values add up."""
    ensemble = case.ensemble
    boxes = ensemble.leaf_boxes()
    inside = [boxes.containing(x) for x in cast(case, rows)]
    assert all(boxes.tree[i].tolist() == list(range(ensemble.n_trees)) for i in inside)
    sums = [own.dtype.type(ensemble.base) + boxes.value[i].sum() for i in inside]
    assert_same_bits(np.array(sums), own, rows)


def assert_line(case, rows, own):
    """Fail unless the line has the value of every row that is a number."""
    line = case.ensemble.line([0.5], 0)
    numbers = ~np.isnan(rows[:, 0])
    piece = np.searchsorted(line.upper, cast(case, rows[numbers, 0]))
    assert_same_bits(line.value[piece], own[numbers], rows[numbers])


@pytest.mark.parametrize("default_left", DIRECTIONS.values(), ids=DIRECTIONS)
@pytest.mark.parametrize("missing", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("threshold", AROUND_ZERO.values(), ids=AROUND_ZERO)
class TestLightGBMSplit:
    """Missing type x default direction x threshold in and around zero."""

    def test_alone(self, threshold, missing, default_left):
        split = Split(0, threshold, missing, default_left, 1.0, 2.0)
        case = Case(lightgbm_booster([split], 1), np.zeros((1, 1)))
        rows = rows_around([threshold])
        own = case.own(rows)
        assert set(own) == {1.0, 2.0}
        assert_same_bits(case.ensemble.predict(rows), own, rows)

    def test_above_every_other_split(self, threshold, missing, default_left):
        """One hexadecimal digit per tree: the sum tells which leaf each tree gave."""
        others = list(itertools.product(AROUND_ZERO.values(), MISSING.values(), (True, False)))
        rows = rows_around([threshold, *AROUND_ZERO.values()])
        for start in range(0, len(others), 12):
            trees = []
            for k, other in enumerate(others[start : start + 12]):
                digit = 16.0**k
                left = Split(0, *other, digit, 2 * digit)
                right = Split(0, *other, 4 * digit, 8 * digit)
                trees.append(Split(0, threshold, missing, default_left, left, right))
            case = Case(lightgbm_booster(trees, 1), np.zeros((1, 1)))
            own = case.own(rows)
            assert_same_bits(case.ensemble.predict(rows), own, rows)
            assert_boxes(case, rows, own)
            assert_line(case, rows, own)


@pytest.mark.parametrize("thresholds", [(-1.5e308, 1.5e308), (-1.7e308, 0.0, 1.7e308)])
def test_cuts_farther_apart_than_the_largest_float(thresholds):
    tree = 0.0
    for k, threshold in enumerate(thresholds):
        tree = Split(0, threshold, AS_NAN, False, tree, 1.0 + k)
    case = Case(lightgbm_booster([tree], 1), np.zeros((1, 1)))
    rows = rows_around(list(thresholds))
    assert_same_bits(case.ensemble.predict(rows), case.own(rows), rows)


EXTREMES = {
    **{("sklearn", name): (sklearn_split, value) for name, value in EXTREME.items()},
    **{("xgboost", name): (xgboost_split, value) for name, value in EXTREME.items()},
    ("xgboost", "-inf"): (xgboost_split, -np.inf),
}


@pytest.mark.parametrize("default_left", DIRECTIONS.values(), ids=DIRECTIONS)
@pytest.mark.parametrize(("make", "threshold"), EXTREMES.values(), ids=map(", ".join, EXTREMES))
def test_split_where_float32_ends(make, threshold, default_left):
    case = make(threshold, default_left)
    rows = acceptable(case, rows_around([threshold]))
    own = case.own(rows)
    assert np.unique(own).size == 2 or threshold in (-np.inf, np.inf, MAX32)
    assert case.own(np.array([[np.nan]])) == (1.0 if default_left else 2.0)
    assert_same_bits(case.ensemble.predict(rows), own, rows)
    assert_boxes(case, rows, own)
    assert_line(case, rows, own)


class TestSeveralLevels(AdapterContract):
    """The whole contract, for trees of several levels that mix everything above."""

    @pytest.fixture(params=range(8))
    def case(self, request):
        return random_lightgbm(request.param)


class TestDefaultDirections(AdapterContract):
    """Default directions of missing values as no training would choose them."""

    @pytest.fixture(params=itertools.product((flipped_xgboost, flipped_sklearn), (0, 1)))
    def case(self, request):
        make, seed = request.param
        return make(seed)
