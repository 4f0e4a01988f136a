"""The adapter contract on models that hypothesis thinks up: any class, data and settings."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from tests.support.contract import AdapterContract
from tests.support.libraries import library_of
from tests.support.models import Case

EXAMPLES = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

COLUMNS = {
    "numbers": lambda rng, n: rng.normal(size=n),
    "integers": lambda rng, n: rng.integers(-4, 5, n).astype(np.float64),
    "binary": lambda rng, n: rng.integers(0, 2, n).astype(np.float64),
    "mostly zero": lambda rng, n: np.where(rng.random(n) < 0.7, 0.0, rng.normal(size=n)),
    "constant": lambda rng, n: np.full(n, 1.5),
    "large and small": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-38, 38, n),
    "float32 steps": lambda rng, n: 2.0 + 2.0**-22 * rng.integers(0, 9, n),
    "around the zero limit": lambda rng, n: rng.normal(size=n) * 1e-35,
}


CATEGORIES = {
    "few": lambda rng, n: rng.integers(0, 4, n).astype(np.float64),
    "many": lambda rng, n: rng.integers(0, 60, n).astype(np.float64),
    "with gaps": lambda rng, n: rng.choice([0.0, 2.0, 31.0, 33.0, 64.0, 90.0], n),
}


@st.composite
def matrices(draw: st.DrawFn, missing: bool, categories: bool) -> tuple[np.ndarray, list[int]]:
    """Draw a matrix whose columns differ in kind, and which of them hold categories.

    Some values are missing where that is allowed.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pool = COLUMNS | (CATEGORIES if categories else {})
    kinds = draw(st.lists(st.sampled_from(sorted(pool)), min_size=1, max_size=6))
    n = draw(st.sampled_from([30, 100, 250]))
    X = np.column_stack([pool[kind](rng, n) for kind in kinds])
    if missing and draw(st.booleans()):
        X[rng.random(X.shape) < 0.2] = np.nan
    return X, [j for j, kind in enumerate(kinds) if kind in CATEGORIES]


def targets(X: np.ndarray, categorical: list[int], seed: int) -> np.ndarray:
    """Return targets that depend on the order of every column and on what is missing."""
    rng = np.random.default_rng(seed)
    ranks = np.argsort(np.argsort(X, axis=0), axis=0) / len(X)
    for j in categorical:  # no order: an effect per category
        known, which = np.unique(X[:, j], return_inverse=True)
        ranks[:, j] = rng.permutation(known.size)[which] / known.size
    y = np.sin(5 * ranks * rng.normal(size=X.shape[1])).sum(axis=1) + np.isnan(X).sum(axis=1)
    return y + 0.2 * rng.normal(size=len(X))


def classes(y: np.ndarray, n: int) -> np.ndarray:
    """Turn numbers into so many classes, each of which occurs; 0 leaves them as they are."""
    return y if n == 0 else np.argsort(np.argsort(y)) * n // y.size


class Drawn(NamedTuple):
    """An estimator that is not fitted yet, and how many classes it is for; 0 for a regressor."""

    model: Any
    n_classes: int


N_CLASSES = st.sampled_from([0, 0, 2, 3])


@st.composite
def scikit_learn(draw: st.DrawFn) -> Drawn:
    n_classes = draw(N_CLASSES)
    boosted = draw(st.booleans())
    shape = {
        "max_depth": draw(st.sampled_from([1, 3, 8, None])),
        "min_samples_leaf": draw(st.sampled_from([1, 5])),
        "max_leaf_nodes": draw(st.sampled_from([None, 8, 70])),
        "max_features": draw(st.sampled_from([1, None])),
        "random_state": draw(st.integers(0, 100)),
    }
    if boosted:
        losses = ["squared_error", "absolute_error", "huber", "quantile"]
        if n_classes:
            losses = ["log_loss", "exponential"][: 4 - n_classes]
        kind = GradientBoostingClassifier if n_classes else GradientBoostingRegressor
        model = kind(
            loss=draw(st.sampled_from(losses)),
            init=draw(st.sampled_from([None, "zero"])),
            learning_rate=draw(st.sampled_from([0.1, 1 / 3, 1.0])),
            subsample=draw(st.sampled_from([0.5, 1.0])),
            n_estimators=draw(st.integers(1, 20 // max(n_classes, 1))),
            **shape,
        )
        return Drawn(model, n_classes)
    kinds = [DecisionTreeRegressor, ExtraTreeRegressor, RandomForestRegressor, ExtraTreesRegressor]
    criteria = ["squared_error", "absolute_error"]
    if n_classes:
        kinds = [DecisionTreeClassifier, ExtraTreeClassifier]
        kinds += [RandomForestClassifier, ExtraTreesClassifier]
        criteria = ["gini", "entropy"]
    kind = draw(st.sampled_from(kinds))
    shape["criterion"] = draw(st.sampled_from(criteria))
    if kind in kinds[2:]:
        shape |= {"n_estimators": draw(st.integers(1, 20)), "bootstrap": draw(st.booleans())}
        return Drawn(kind(**shape), n_classes)
    if draw(st.booleans()):
        return Drawn(kind(**shape), n_classes)
    bagging = BaggingClassifier if n_classes else BaggingRegressor
    model = bagging(
        kind(**shape),
        n_estimators=draw(st.integers(1, 20)),
        max_samples=draw(st.sampled_from([0.3, 1.0])),
        max_features=draw(st.sampled_from([0.5, 1.0])),
        bootstrap_features=draw(st.booleans()),
        random_state=draw(st.integers(0, 100)),
    )
    return Drawn(model, n_classes)


@st.composite
def hist_gradient_boosting(draw: st.DrawFn) -> Drawn:
    n_classes = draw(N_CLASSES)
    shape = {
        "max_iter": draw(st.integers(1, 12)),
        "learning_rate": draw(st.sampled_from([0.1, 1 / 3, 1.0])),
        "max_leaf_nodes": draw(st.sampled_from([3, 15, None])),
        "min_samples_leaf": draw(st.sampled_from([1, 5])),
        "max_bins": draw(st.sampled_from([70, 255])),
        "random_state": draw(st.integers(0, 100)),
    }
    if n_classes:
        return Drawn(HistGradientBoostingClassifier(**shape), n_classes)
    loss = draw(st.sampled_from(["squared_error", "absolute_error"]))
    return Drawn(HistGradientBoostingRegressor(loss=loss, **shape), 0)


@st.composite
def xgboost(draw: st.DrawFn) -> Drawn:
    n_classes = draw(N_CLASSES)
    kinds = [xgb.XGBRegressor, xgb.XGBRFRegressor]
    objectives = ["reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror"]
    scores = [None, 0.1, -3.7]
    if n_classes:
        kinds = [xgb.XGBClassifier, xgb.XGBRFClassifier]
        objectives = ["binary:logistic" if n_classes == 2 else "multi:softprob"]
        scores = [None, 0.1]
    kind = draw(st.sampled_from(kinds))
    dart = {"booster": "dart", "rate_drop": 0.5} if draw(st.booleans()) else {}
    model = kind(
        n_estimators=draw(st.integers(1, 20)),
        objective=draw(st.sampled_from(objectives)),
        tree_method=draw(st.sampled_from(["hist", "exact", "approx"])),
        max_depth=draw(st.sampled_from([1, 3, 8])),
        max_cat_to_onehot=draw(st.sampled_from([1, 5, 100])),
        gamma=draw(st.sampled_from([0.0, 0.5])),
        min_child_weight=draw(st.sampled_from([0, 1, 5])),
        subsample=draw(st.sampled_from([0.6, 1.0])),
        colsample_bynode=1.0,  # the forests would sample, which exact does not do
        base_score=draw(st.sampled_from(scores)),
        missing=draw(st.sampled_from([np.nan, np.nan, 0.0, 1.5, -2.0])),
        random_state=draw(st.integers(0, 100)),
        n_jobs=1,
        **(dart if "RF" not in kind.__name__ else {}),
    )
    return Drawn(model, n_classes)


@st.composite
def lightgbm(draw: st.DrawFn) -> Drawn:
    n_classes = draw(N_CLASSES)
    objectives = ["regression", "regression_l1", "huber", "quantile"]
    if n_classes:
        objectives = ["binary"] if n_classes == 2 else ["multiclass", "multiclassova"]
    kind = lgb.LGBMClassifier if n_classes else lgb.LGBMRegressor
    model = kind(
        boosting_type=draw(st.sampled_from(["gbdt", "rf", "dart"])),
        n_estimators=draw(st.integers(1, 20)),
        objective=draw(st.sampled_from(objectives)),
        num_leaves=draw(st.sampled_from([2, 15, 100])),
        min_child_samples=draw(st.sampled_from([1, 5])),
        min_data_in_bin=1,
        min_data_per_group=draw(st.sampled_from([1, 20])),
        max_cat_to_onehot=draw(st.sampled_from([1, 100])),
        cat_smooth=0.5,
        use_missing=draw(st.booleans()),
        zero_as_missing=draw(st.booleans()),
        subsample=0.7,
        subsample_freq=1,
        random_state=draw(st.integers(0, 100)),
        n_jobs=1,
        verbose=-1,
    )
    return Drawn(model, n_classes)


@st.composite
def outputs(draw: st.DrawFn, model: Any, n_classes: int) -> tuple[str, Any]:
    """Draw an output that the model has."""
    if n_classes == 0:
        return draw(st.sampled_from(["auto", "raw", "predict"])), None
    ova = getattr(model, "objective", "") == "multiclassova"
    averaged = library_of(model).name == "sklearn" and not hasattr(model, "decision_function")
    if n_classes == 2 and not averaged:
        return draw(st.sampled_from([("auto", None), ("proba", 0), ("raw", None)]))
    if averaged or ova:
        names, indices = st.sampled_from(["auto", "raw", "proba"]), st.integers(0, n_classes - 1)
        return draw(names), draw(st.one_of(st.none(), indices))
    pairs = st.permutations(range(3)).map(lambda order: (order[0], order[1]))
    return "raw", draw(st.one_of(st.integers(0, 2), pairs))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a fitted model of any supported class, as an estimator or a Booster."""
    estimators = st.one_of(scikit_learn(), hist_gradient_boosting(), xgboost(), lightgbm())
    model, n_classes = draw(estimators)
    library = library_of(model)
    by_hand = getattr(model, "tree_method", "") == "exact"  # which knows no categories
    missing = not isinstance(model, GradientBoostingRegressor | GradientBoostingClassifier)
    X, categorical = draw(matrices(missing, library.name != "sklearn" and not by_hand))
    y = classes(targets(X, categorical, draw(st.integers(0, 100))), n_classes)
    output, class_index = draw(outputs(model, n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.fit(model, X, y, tuple(categorical))
    if isinstance(model, xgb.XGBModel) and np.isnan(model.missing) and draw(st.booleans()):
        model = model.get_booster()
    if isinstance(model, lgb.LGBMModel) and draw(st.booleans()):
        model = model.booster_
    return Case(model, X, output, class_index)


contract = AdapterContract()


@given(cases())
@EXAMPLES
def test_predictions(case):
    for dtype in (np.float64, np.float32):
        contract.test_bit_equal_on_hard_rows(case, dtype)
    contract.test_margin(case)
    contract.test_importances(case)
    contract.test_check_conversion_finds_no_difference(case)


@given(cases())
@EXAMPLES
def test_moves_lines_and_boxes(case):
    contract.test_walker(case)
    contract.test_line(case)
    contract.test_one_box_per_tree_contains_a_point(case)
