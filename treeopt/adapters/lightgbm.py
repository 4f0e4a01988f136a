"""LightGBM: gradient-boosted trees and random forests.

Inputs are float64, ``x <= threshold`` goes left, sums are float64 in tree order. How a node treats
missing values is part of its ``decision_type``.
"""

from __future__ import annotations

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
)
from treeopt.cells import ZERO_CUTS
from treeopt.ensemble import Array, Ensemble
from treeopt.errors import ModelFormatError

IDENTITY = ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "custom")
"""Objectives whose prediction is the sum of the trees itself."""

CATEGORICAL, DEFAULT_LEFT = 1, 2
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2


def convert(model: Any, output: str, class_index: int | None) -> Ensemble:
    """Convert a LightGBM regressor or Booster; see `treeopt.from_model`."""
    import lightgbm as lgb

    source = type(model).__name__
    if isinstance(model, lgb.LGBMRegressor):
        need_own_predict(model, lgb.LGBMRegressor)
        need_fitted(source, model.__sklearn_is_fitted__())
        refuse_proba(source, output)
        booster, importances = model.booster_, model.feature_importances_
    elif isinstance(model, lgb.Booster):
        booster, importances = model, model.feature_importance("gain")
    else:
        refuse_unknown(model, "LGBMRegressor and Booster")
    header, blocks = _parse(booster.model_to_string())
    _check_kind(source, header, output)
    n_outputs = int(header["num_tree_per_iteration"])
    k = choose_output(class_index, n_outputs, source)
    trees = [_tree(block) for block in blocks[k::n_outputs]]
    if not trees:
        raise ModelFormatError(f"{source} holds no trees. Fit it with at least one iteration.")
    names = tuple(booster.feature_name())
    # A random forest's raw score is the sum of its trees, its prediction their mean.
    averaged = "average_output" in header and output != "raw"
    automatic = names == tuple(f"Column_{i}" for i in range(len(names)))
    return assemble(
        trees,
        n_features=int(header["max_feature_idx"]) + 1,
        feature_names=None if automatic else names,
        importances=normalised(importances),
        input_dtype=np.dtype(np.float64),
        divisor=float(len(trees)) if averaged else 1.0,
        source=source,
    )


def own_prediction(model: Any, output: str, class_index: int | None) -> Callable[[Array], Array]:
    """Return the model's own prediction of one output."""
    booster = getattr(model, "booster_", model)

    def predict(X: Array) -> Array:
        return pick_output(booster.predict(X, raw_score=output == "raw"), class_index)

    return predict


def _parse(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Split LightGBM's model text into its header and one mapping per tree."""
    body = text.partition("\nend of trees")[0]
    header, *blocks = body.split("\nTree=")
    return _fields(header), [_fields(block) for block in blocks]


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if line)
    return {key: value for key, _, value in lines}


def _check_kind(source: str, header: dict[str, str], output: str) -> None:
    objective, *options = header.get("objective", "custom").split()
    if output == "raw":
        return
    if objective in IDENTITY and "sqrt" not in options:
        refuse_proba(f"{source} with objective {objective!r}", output)
    else:
        refuse(
            f"{source} with objective {' '.join([objective, *options])!r} and output={output!r}",
            "its prediction is a transformed sum",
            "Pass output='raw' for the sum itself (LightGBM's raw_score=True).",
        )


def _tree(block: dict[str, str]) -> Tree:
    if block.get("is_linear", "0") != "0":
        refuse(
            "a model with linear_tree=True",
            "its leaves are linear functions, not constants",
            "Train with linear_tree=False.",
        )
    n_leaves = int(block["num_leaves"])
    values = _numbers(block, "leaf_value", np.float64)
    if n_leaves == 1:
        none = np.full(1, -1, np.int32)
        no = np.zeros(1, bool)
        return Tree(none, np.full(1, np.nan), none, none, values, no, no)
    decision = _numbers(block, "decision_type", np.int64)
    if (decision & CATEGORICAL).any():
        refuse(
            "a model with categorical splits",
            "only numeric splits are read",
            "Train without categorical_feature on encoded columns.",
        )
    inner = n_leaves - 1
    threshold = _outside_zero(_numbers(block, "threshold", np.float64))
    missing = decision >> 2
    # Without a missing type, NaN is read as 0.
    default_left = np.where(missing == MISSING_NONE, threshold >= 0, decision & DEFAULT_LEFT)
    leaf = np.full(n_leaves, -1, np.int32)
    return Tree(
        feature=np.append(_numbers(block, "split_feature", np.int32), leaf),
        threshold=np.append(threshold, np.full(n_leaves, np.nan)),
        left=np.append(_children(block, "left_child", inner), leaf),
        right=np.append(_children(block, "right_child", inner), leaf),
        value=np.append(np.zeros(inner), values),
        default_left=np.append(default_left.astype(bool), leaf > 0),
        zero_missing=np.append(missing == MISSING_ZERO, leaf > 0),
    )


def _outside_zero(threshold: Array) -> Array:
    """Move thresholds inside LightGBM's zero to its edge.

    Before anything else LightGBM reads every input within the limit as 0. So a threshold from 0 up
    to the limit parts zero from what is above it, and one below 0 parts it from what is below.
    """
    below, above = ZERO_CUTS
    threshold = np.where((threshold >= 0) & (threshold < above), above, threshold)
    return np.where((below < threshold) & (threshold < 0), below, threshold)


def _children(block: dict[str, str], key: str, inner: int) -> Array:
    """Return child nodes; LightGBM numbers leaf ``k`` as ``-(k + 1)``, here they come last."""
    child = _numbers(block, key, np.int32)
    return np.where(child < 0, inner - 1 - child, child)


def _numbers(block: dict[str, str], key: str, dtype: type) -> Array:
    return np.array(block[key].split(), dtype=dtype)
