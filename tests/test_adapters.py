"""The adapter contract, for every library and every model of the tables."""

import copy
import dataclasses

import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import treeopt
from tests.cases import LIBRARIES, LIGHTGBM, SKLEARN, XGBOOST, fitted
from tests.contract import AdapterContract, assert_same_bits
from tests.models import Case, dataset
from tests.rows import hard_rows


class TestSklearn(AdapterContract):
    @pytest.fixture(params=SKLEARN)
    def case(self, request):
        return fitted("sklearn", request.param)


class TestXGBoost(AdapterContract):
    @pytest.fixture(params=XGBOOST)
    def case(self, request):
        return fitted("xgboost", request.param)


class TestLightGBM(AdapterContract):
    @pytest.fixture(params=LIGHTGBM)
    def case(self, request):
        return fitted("lightgbm", request.param)


@pytest.mark.parametrize("library", LIBRARIES)
def test_both_engines_are_tested(library):
    """Without this, `test_walking_equals_masks` could compare walking with itself."""
    names = ["stumps", "many leaves"] if library != "sklearn" else ["forest, stumps", "extra tree"]
    few, many = (fitted(library, name).ensemble.compiled for name in names)
    assert few.mask_dtype is not None
    assert many.mask_dtype is None


@pytest.mark.parametrize("name", [name for name in XGBOOST if name.startswith("booster")])
def test_xgboost_predicts_the_same_from_a_dmatrix(name):
    """Two ways through the library: inplace_predict is the judge elsewhere."""
    case = fitted("xgboost", name)
    rows = hard_rows(case)
    with np.errstate(over="ignore"):
        rows = rows[~np.isinf(rows.astype(np.float32)).any(axis=1)]
    own = case.model.predict(xgb.DMatrix(rows, feature_names=case.model.feature_names))
    assert_same_bits(case.ensemble.predict(rows), own, rows)


@pytest.mark.parametrize("forest", [RandomForestRegressor(60), ExtraTreesRegressor(60)])
def test_forests_on_several_threads(forest):
    """With ``n_jobs`` > 1 a forest's own prediction is not a function of its input.

    Each thread adds its tree to the common float64 sum as soon as it is done, so the order of the
    sum, and with it the last bits, change from call to call. No conversion can be bit-equal to
    that. It is bit-equal to the sum in tree order, which is what ``n_jobs=1`` gives, and any other
    order differs by at most ``n_trees * eps`` of the sum (all terms are positive here).
    """
    X, y = dataset("nan", 0)
    threaded = Case(clone(forest).set_params(n_jobs=4, random_state=0).fit(X, y), X)
    sequential = Case(clone(forest).set_params(n_jobs=1, random_state=0).fit(X, y), X)
    rows = hard_rows(sequential)
    ours = threaded.ensemble.predict(rows)
    assert_same_bits(ours, sequential.own(rows), rows)
    bound = 60 * np.finfo(np.float64).eps * np.abs(ours).max()
    for _ in range(5):
        assert np.abs(threaded.own(rows) - ours).max() <= bound
    assert treeopt.check_conversion(threaded.model, X).different == 0


@pytest.mark.parametrize("model", [DecisionTreeRegressor(), RandomForestRegressor(3)])
def test_sign_of_zero(model):
    """A tree returns its leaf, a forest adds it to 0: -0.0 comes out of the one only."""
    case = Case(model.fit([[0.0], [1.0]], [0.0, 0.0]), np.zeros((1, 1)))
    for member in getattr(model, "estimators_", [model]):
        state = copy.deepcopy(member.tree_.__getstate__())
        state["values"][:] = -0.0
        member.tree_.__setstate__(state)
    rows = np.array([[0.0], [1.0]])
    assert np.signbit(case.own(rows)).all() == isinstance(model, DecisionTreeRegressor)
    assert_same_bits(case.ensemble.predict(rows), case.own(rows), rows)


@pytest.mark.parametrize(
    "key", [("sklearn", "forest, nan"), ("xgboost", "booster"), ("lightgbm", "rf")], ids=", ".join
)
@pytest.mark.parametrize("side", [-np.inf, np.inf])
def test_check_conversion_finds_thresholds_that_are_off_by_one_bit(key, side, monkeypatch):
    case = fitted(*key)
    cuts = case.ensemble.threshold.astype(case.input_dtype)
    moved = np.nextafter(cuts, case.input_dtype(side)).astype(np.float64)
    wrong = dataclasses.replace(case.ensemble, threshold=moved)
    monkeypatch.setattr("treeopt.check.from_model", lambda *_, **__: wrong)
    found = treeopt.check_conversion(case.model, case.X)
    assert 0 < found.different < found.compared
    assert found.worst > 0
    assert f"{found.different} differ" in str(found)
