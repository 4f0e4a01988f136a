"""XGBoost: gradient-boosted trees and boosted random forests.

Inputs are cast to float32 and go left if ``x < threshold``; so the canonical cut is the float32
below each threshold. The prediction is a float32 sum that starts from the base score and adds the
trees in order. Missing values follow each node's default direction.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from treeopt.adapters.base import (
    Tree,
    assemble,
    choose_output,
    in_order,
    need_fitted,
    need_own_predict,
    normalised,
    pick_output,
    refuse,
    refuse_proba,
    refuse_unknown,
)
from treeopt.ensemble import Array, Ensemble
from treeopt.errors import ModelFormatError

IDENTITY = (
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "reg:quantileerror",
    "reg:linear",
)
"""Objectives whose prediction is the sum of the trees itself."""

BELOW_ALL_FINITE = float(np.nextafter(-np.float64(np.finfo(np.float32).max), -np.inf))
"""A cut that only -inf, as a float32, does not exceed."""


def convert(model: Any, output: str, class_index: int | None) -> Ensemble:
    """Convert an XGBoost regressor or Booster; see `treeopt.from_model`."""
    import xgboost as xgb

    source = type(model).__name__
    if isinstance(model, xgb.XGBRegressor):
        need_own_predict(model, xgb.XGBRegressor)
        need_fitted(source, model.__sklearn_is_fitted__())
        refuse_proba(source, output)
        booster, missing = model.get_booster(), model.missing
        last = _best_iteration(booster)
    elif isinstance(model, xgb.Booster):
        need_fitted(source, _is_trained(model), "Train it with xgboost.train.")
        booster, missing, last = model, np.nan, None
    else:
        refuse_unknown(model, "XGBRegressor, XGBRFRegressor and Booster")
    return _convert(model, booster, output, class_index, missing, last)


def own_prediction(model: Any, output: str, class_index: int | None) -> Callable[[Array], Array]:
    """Return the model's own prediction of one output."""
    import xgboost as xgb

    raw = output == "raw"

    def predict(X: Array) -> Array:
        if isinstance(model, xgb.Booster):
            kind = "margin" if raw else "value"
            return pick_output(model.inplace_predict(X, predict_type=kind), class_index)
        return pick_output(model.predict(X, output_margin=raw), class_index)

    return predict


def _convert(
    model: Any,
    booster: Any,
    output: str,
    class_index: int | None,
    missing: float,
    last: int | None,
) -> Ensemble:
    source = type(model).__name__
    document = json.loads(bytes(booster.save_raw("json")))
    learner = document["learner"]
    kind = learner["gradient_booster"]["name"]
    if kind != "gbtree":
        why = "its trees are weighted" if kind == "dart" else "it is a linear model, not trees"
        refuse(f"{source} with booster={kind!r}", why, "Train with booster='gbtree'.")
    objective = learner["objective"]["name"]
    if objective in IDENTITY:
        refuse_proba(f"{source} with objective {objective!r}", output)
    elif output != "raw":
        refuse(
            f"{source} with objective {objective!r} and output={output!r}",
            "its prediction is a transformed sum",
            "Pass output='raw' for the sum itself (XGBoost's output_margin=True).",
        )
    forest = learner["gradient_booster"]["model"]
    parameters = learner["learner_model_param"]
    n_outputs = max(int(parameters["num_class"]), int(parameters["num_target"]), 1)
    k = choose_output(class_index, n_outputs, source)
    n_trees = len(forest["trees"]) if last is None else forest["iteration_indptr"][last + 1]
    used = slice(0, n_trees)
    trees = [
        _tree(tree, k)
        for tree, owner in zip(forest["trees"][used], forest["tree_info"][used], strict=True)
        if owner == k or int(tree["tree_param"]["size_leaf_vector"]) > 1
    ]
    if not trees:
        raise ModelFormatError(f"{source} holds no trees. Fit it with at least one iteration.")
    n_features = int(parameters["num_feature"])
    names = booster.feature_names
    # A Booster has no importances of its own; the wrapper's default is this gain.
    own = getattr(model, "feature_importances_", None)
    return assemble(
        trees,
        n_features=n_features,
        feature_names=None if names is None else tuple(names),
        importances=normalised(_gain(booster, n_features) if own is None else own),
        input_dtype=np.dtype(np.float32),
        base=_base_margin(document, k),
        missing_value=float(np.float32(missing)),
        source=source,
    )


def _tree(tree: dict[str, Any], k: int) -> Tree:
    if any(tree["split_type"]):
        refuse(
            "a model with categorical splits",
            "only numeric splits are read",
            "Train with enable_categorical=False on encoded columns.",
        )
    threshold = np.array(tree["split_conditions"], np.float32)
    left = np.array(tree["left_children"], np.int32)
    right = np.array(tree["right_children"], np.int32)
    value = threshold
    if int(tree["tree_param"]["size_leaf_vector"]) > 1:
        if "leaf_weights" not in tree:
            refuse(
                "a model with multi_strategy='multi_output_tree' of XGBoost before 3.2",
                "it is stored in another form",
                "Use XGBoost 3.2 or newer, or multi_strategy='one_output_per_tree'.",
            )
        # A leaf's right child is the number of its vector.
        weights = np.array(tree["leaf_weights"], np.float32)
        weights = weights.reshape(-1, int(tree["tree_param"]["size_leaf_vector"]))
        value = np.where(left < 0, weights[np.where(left < 0, right, 0), k], np.float32(0))
    with np.errstate(over="ignore"):
        cut = np.nextafter(threshold, np.float32(-np.inf)).astype(np.float64)
    cut[np.isneginf(cut)] = BELOW_ALL_FINITE
    # No number is below -inf. With the children swapped, no number is above +inf.
    swap = np.isneginf(threshold) & (left >= 0)
    default_left = np.array(tree["default_left"], bool)
    return in_order(
        Tree(
            feature=np.array(tree["split_indices"], np.int32),
            threshold=np.where(swap, np.inf, cut),
            left=np.where(swap, right, left),
            right=np.where(swap, left, right),
            value=value,
            default_left=default_left ^ swap,
        )
    )


def _base_margin(document: dict[str, Any], k: int) -> float:
    """Return where the sum of one output starts: what the model predicts without its trees.

    The base score is stored in the unit of the prediction; only XGBoost's own link takes it back
    to the last bit.
    """
    import xgboost as xgb

    learner = document["learner"]
    booster = learner["gradient_booster"]
    no_trees = {
        **booster["model"],
        "trees": [],
        "tree_info": [],
        "iteration_indptr": [0],
        "gbtree_model_param": {**booster["model"]["gbtree_model_param"], "num_trees": "0"},
    }
    # A model without trees would estimate its start anew, unless told that it is given.
    given = {**learner["learner_model_param"], "boost_from_average": "0"}
    learner = {
        **learner,
        "gradient_booster": {**booster, "model": no_trees},
        "learner_model_param": given,
    }
    empty = xgb.Booster()
    empty.load_model(bytearray(json.dumps({**document, "learner": learner}).encode()))
    row = np.zeros((1, int(learner["learner_model_param"]["num_feature"])), np.float32)
    margins = empty.inplace_predict(row, predict_type="margin", validate_features=False)
    return float(np.ravel(margins)[k])


def _is_trained(booster: Any) -> bool:
    """Tell whether a Booster holds a model: an empty one has nothing to save."""
    import xgboost as xgb

    try:
        return int(booster.num_boosted_rounds()) > 0
    except xgb.core.XGBoostError:
        return False


def _best_iteration(booster: Any) -> int | None:
    """Return the last iteration that the wrapper predicts with, if training stopped early."""
    best = booster.attr("best_iteration")
    return None if best is None else int(best)


def _gain(booster: Any, n_features: int) -> Array:
    """Return the average gain of each feature, XGBoost's own default importance."""
    scores = booster.get_score(importance_type="gain")
    names = booster.feature_names or [f"f{i}" for i in range(n_features)]
    return np.array([float(scores.get(name, 0.0)) for name in names])
