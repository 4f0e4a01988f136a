"""The adapter contract, for every library and every model of the tables."""

import copy
import dataclasses
import itertools

import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import treeopt
from tests.support.cases import SOFTMAX_TABLES, TABLES, fitted
from tests.support.contract import AdapterContract, SoftmaxContract, assert_same_bits
from tests.support.models import Case, chosen, dataset
from tests.support.rows import hard_rows
from treeopt.adapters import lightgbm, scikit_learn, xgboost


class TestScikitLearn(AdapterContract):
    library = "sklearn"


class TestHistGradientBoosting(AdapterContract):
    library = "hist"


class TestXGBoost(AdapterContract):
    library = "xgboost"


class TestLightGBM(AdapterContract):
    library = "lightgbm"


class TestSoftmaxOfScikitLearn(SoftmaxContract):
    library = "sklearn"


class TestSoftmaxOfHistGradientBoosting(SoftmaxContract):
    library = "hist"


class TestSoftmaxOfXGBoost(SoftmaxContract):
    library = "xgboost"


class TestSoftmaxOfLightGBM(SoftmaxContract):
    library = "lightgbm"


WITH_CATEGORIES = ("hist", "xgboost", "lightgbm")
REFUSES_MISSING = ("GradientBoostingRegressor", "GradientBoostingClassifier")


def cases_of(library: str) -> list[Case]:
    return [fitted(library, name) for name in TABLES[library]]


@pytest.mark.parametrize("library", TABLES)
def test_both_engines_are_tested(library):
    """Without this, `test_walking_equals_masks` could compare walking with itself."""
    cases = cases_of(library)
    found = {(case.engine, case.has_categories) for case in cases}
    kinds = (False, True) if library in WITH_CATEGORIES else (False,)
    assert found == set(itertools.product(("masks", "walk"), kinds))


@pytest.mark.parametrize("library", WITH_CATEGORIES)
@pytest.mark.parametrize("engine", ["masks", "walk"])
def test_many_sets_are_tested(library, engine):
    """More sets of one feature than a slot holds, in both engines."""
    cells = [e.compiled.cells for c in cases_of(library) if c.engine == engine for e in c.sums]
    slots = [np.diff(c.slot_start)[c.has_sets].max(initial=0) for c in cells]
    assert max(slots) > 1


@pytest.mark.parametrize(
    ("library", "known"),
    [
        ("sklearn", [name for name in scikit_learn.MODELS if "Hist" not in name]),
        ("hist", [name for name in scikit_learn.MODELS if "Hist" in name]),
        ("xgboost", xgboost.MODELS),
        ("lightgbm", lightgbm.MODELS),
    ],
)
def test_every_class_is_tested(library, known):
    """With missing values, and with categories that may be missing, where the library has them."""
    cases = cases_of(library)
    assert {case.model_name for case in cases} == set(known)
    missing = {case.model_name for case in cases if case.has_missing}
    assert missing == set(known) - set(REFUSES_MISSING)
    both = {case.model_name for case in cases if case.has_missing and case.has_categories}
    assert both == (set(known) if library in WITH_CATEGORIES else set())


@pytest.mark.parametrize("library", TABLES)
def test_every_output_is_tested(library):
    """Each output with each way to choose a class, without and with categories."""
    found = {(c.output, c.class_kind) for c in cases_of(library)}
    assert {("auto", "default"), ("proba", "one"), ("raw", "one"), ("raw", "difference")} <= found
    if library in WITH_CATEGORIES:
        found = {(c.output, c.class_kind) for c in cases_of(library) if c.has_categories}
        assert {("auto", "default"), ("proba", "one"), ("raw", "difference")} <= found


@pytest.mark.parametrize("library", SOFTMAX_TABLES)
def test_every_softmax_is_tested(library):
    """By default and by class, of 3 to 6 classes, in both engines, with categories."""
    cases = [fitted(library, name) for name in SOFTMAX_TABLES[library]]
    found = {(c.output, c.class_kind) for c in cases}
    assert {("auto", "default"), ("auto", "one"), ("proba", "one")} <= found
    assert {3, 4, 5, 6} <= {len(c.sums) for c in cases}
    assert {c.engine for c in cases} == {"masks", "walk"}
    assert {c.has_categories for c in cases} == {False, library in WITH_CATEGORIES}
    assert {c.has_missing for c in cases} == {False, library in WITH_CATEGORIES}
    found = {c.ensemble.arithmetic for c in cases}
    assert (
        found
        == {
            "sklearn": {"sklearn"},
            "hist": {"sklearn_hist"},
            "xgboost": {"xgboost", "scipy"},
            "lightgbm": {"lightgbm"},
        }[library]
    )


BOOSTERS = [n for n in TABLES["xgboost"] if n.startswith("Booster") and "dart" not in n]
BOOSTERS += [n for n in SOFTMAX_TABLES["xgboost"] if n.startswith("Booster") and "softprob" in n]


@pytest.mark.parametrize("name", BOOSTERS)
def test_xgboost_predicts_the_same_from_a_dmatrix(name):
    """Two ways through the library: inplace_predict is the judge elsewhere."""
    case = fitted("xgboost", name)
    rows = hard_rows(case)
    with np.errstate(over="ignore"):
        rows = rows[~np.isinf(rows.astype(np.float32)).any(axis=1)]
    own = case.library.predict_matrix(case.model, rows, case.output == "raw")
    assert_same_bits(case.ensemble.predict(rows), chosen(own, case.class_index), rows)


def test_xgboost_has_two_predictions_of_dart():
    """A bare Booster is equal to its `predict`, a wrapper to its own, which is another sum."""
    case = fitted("xgboost", "XGBRegressor, auto, plain, dart")
    booster = Case(case.model.get_booster(), case.X)
    ours = booster.ensemble.predict(case.X)
    assert_same_bits(ours, booster.model.predict(xgb.DMatrix(case.X)), case.X)
    inplace = booster.model.inplace_predict(case.X)
    assert_same_bits(case.ensemble.predict(case.X), inplace, case.X)
    assert (ours != inplace).any()
    np.testing.assert_allclose(ours, inplace, rtol=1e-5)


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
    "key",
    [
        ("sklearn", "RandomForestRegressor, auto, nan"),
        ("hist", "HistGradientBoostingRegressor, auto, nan, squared_error"),
        ("xgboost", "Booster, auto, nan"),
        ("lightgbm", "LGBMRegressor, auto, plain, rf"),
    ],
    ids=", ".join,
)
@pytest.mark.parametrize("side", [-np.inf, np.inf])
def test_check_conversion_finds_thresholds_that_are_off_by_one_bit(key, side, monkeypatch):
    case = fitted(*key)
    cuts = case.ensemble.threshold.astype(case.input_dtype)
    moved = np.nextafter(cuts, case.input_dtype(side)).astype(np.float64)
    wrong = dataclasses.replace(case.ensemble, threshold=moved)
    monkeypatch.setattr("treeopt.adapters.check.from_model", lambda *_, **__: wrong)
    found = treeopt.check_conversion(case.model, case.X)
    assert 0 < found.different < found.compared
    assert found.worst > 0
    assert f"{found.different} differ" in str(found)
