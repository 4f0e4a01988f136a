"""scikit-learn: decision trees, forests, gradient boosting.

Inputs are cast to float32 and compared with float64 thresholds, ``x <= threshold`` to the left; so
each threshold is rounded down to float32. Missing values follow ``missing_go_to_left``.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from treeopt.adapters.base import (
    Tree,
    assemble,
    choose_output,
    need_fitted,
    need_own_predict,
    normalised,
    pick_output,
    refuse,
    refuse_proba,
    refuse_unknown,
    round_down,
)
from treeopt.ensemble import Array, Ensemble

_WRAPS = "it wraps another model"
_SEARCH = (_WRAPS, "Pass its best_estimator_.")

WHY_NOT = {
    "AdaBoostRegressor": (
        "it predicts a weighted median of its trees, which is not a sum",
        "Train with RandomForestRegressor or GradientBoostingRegressor instead.",
    ),
    "HistGradientBoostingRegressor": (
        "its binned trees are not read",
        "Train with GradientBoostingRegressor or LGBMRegressor instead.",
    ),
    "BaggingRegressor": (_WRAPS, "Train with RandomForestRegressor(max_features=1.0) instead."),
    "Pipeline": (_WRAPS, "Pass its last step, and inputs as the steps before it leave them."),
    "GridSearchCV": _SEARCH,
    "RandomizedSearchCV": _SEARCH,
    "HalvingGridSearchCV": _SEARCH,
    "HalvingRandomSearchCV": _SEARCH,
    "MultiOutputRegressor": (_WRAPS, "Pass one of its estimators_."),
    "TransformedTargetRegressor": (_WRAPS, "Pass its regressor_; it has the inner target."),
}
"""Reason and remedy for models that a user might expect to fit."""


def convert(model: Any, output: str, class_index: int | None) -> Ensemble:
    """Convert a scikit-learn regressor; see `treeopt.from_model`."""
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.ensemble._forest import ForestRegressor
    from sklearn.tree import DecisionTreeRegressor

    source = type(model).__name__
    for base, convert_kind in (
        (DecisionTreeRegressor, _single),
        (ForestRegressor, _forest),
        (GradientBoostingRegressor, _boosted),
    ):
        if isinstance(model, base):
            need_own_predict(model, base)
            fitted = hasattr(model, "tree_") or hasattr(model, "estimators_")
            need_fitted(source, fitted)
            refuse_proba(source, output)
            return convert_kind(model, class_index)
    supported = "DecisionTree, ExtraTree, RandomForest, ExtraTrees and GradientBoosting regressors"
    if source in WHY_NOT:
        refuse(source, *WHY_NOT[source])
    refuse_unknown(model, supported)


def own_prediction(model: Any, output: str, class_index: int | None) -> Callable[[Array], Array]:
    """Return ``model.predict`` of one output, on one thread."""
    sequential = copy.copy(model)
    if hasattr(model, "n_jobs"):
        sequential.n_jobs = 1

    def predict(X: Array) -> Array:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return pick_output(sequential.predict(X), class_index)

    return predict


def _single(model: Any, class_index: int | None) -> Ensemble:
    # Adding to -0.0 leaves every value as it is, the sign of zero included.
    return _averaged(model, [model], class_index, base=-0.0)


def _forest(model: Any, class_index: int | None) -> Ensemble:
    return _averaged(model, model.estimators_, class_index, base=0.0)


def _averaged(model: Any, members: list[Any], class_index: int | None, base: float) -> Ensemble:
    k = choose_output(class_index, model.n_outputs_, type(model).__name__)
    accepts_nan = bool(members[0]._support_missing_values(np.empty((0, model.n_features_in_))))
    return assemble(
        [_tree(m.tree_, k, accepts_nan) for m in members],
        divisor=float(len(members)),
        base=base,
        accepts_nan=accepts_nan,
        **_common(model),
    )


def _boosted(model: Any, class_index: int | None) -> Ensemble:
    choose_output(class_index, 1, type(model).__name__)
    trees = []
    for stage in model.estimators_[:, 0]:
        tree = _tree(stage.tree_, 0, accepts_nan=False)
        trees.append(tree._replace(value=model.learning_rate * tree.value))
    return assemble(trees, base=_start(model), accepts_nan=False, **_common(model))


def _start(model: Any) -> float:
    """Return the constant that boosting starts from."""
    from sklearn.dummy import DummyRegressor

    init = model.init_
    if isinstance(init, str) and init == "zero":
        return 0.0
    if isinstance(init, DummyRegressor):
        return float(np.ravel(init.constant_)[0])
    refuse(
        type(model).__name__,
        f"it starts from the predictions of {type(init).__name__}, which are not a sum of trees",
        "Fit with init=None or init='zero'.",
    )


def _tree(tree: Any, k: int, accepts_nan: bool) -> Tree:
    missing_left = tree.missing_go_to_left.astype(bool)
    return Tree(
        feature=tree.feature,
        threshold=round_down(tree.threshold),
        left=tree.children_left,
        right=tree.children_right,
        value=np.ascontiguousarray(tree.value[:, k, 0]),
        default_left=missing_left if accepts_nan else np.zeros_like(missing_left),
    )


def _common(model: Any) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    return {
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else tuple(str(n) for n in names),
        "importances": normalised(model.feature_importances_),
        "input_dtype": np.dtype(np.float32),
        "accepts_inf": False,
        "source": type(model).__name__,
    }
