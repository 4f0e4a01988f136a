"""Models that no training would give: every way to treat missing values, put there by hand."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from tests.models import Case, dataset
from tests.rows import MAX32, ZERO

NONE, AS_ZERO, AS_NAN = 0, 1, 2
"""LightGBM's missing types."""

AROUND_ZERO = {
    "below": -1.5,
    "just below": float(np.nextafter(-ZERO, -1.0)),
    "at the lower limit": -ZERO,
    "in the lower half": -5e-36,
    "at -0": -0.0,
    "at 0": 0.0,
    "in the upper half": 5e-36,
    "at the upper limit": ZERO,
    "just above": float(np.nextafter(ZERO, 1.0)),
    "above": 1.5,
}
"""Thresholds in and around what LightGBM takes for zero."""

EXTREME = {
    "the lowest float32": -MAX32,
    "between float32 numbers": 0.1,
    "below all subnormals": 1e-46,
    "above all negative ones": -1e-46,
    "a subnormal": 1e-45,
    "at -0": -0.0,
    "at 0": 0.0,
    "the largest float32": MAX32,
    "inf": np.inf,
}
"""Thresholds where float32 ends or has a gap."""


class Split(NamedTuple):
    """A split of a hand-made LightGBM tree; children are splits or leaf values."""

    feature: int
    threshold: float
    missing: int
    default_left: bool
    left: Split | float
    right: Split | float


def lightgbm_booster(trees: list[Split | float], n_features: int, extra: str = "") -> lgb.Booster:
    """Load trees into LightGBM through its own model text."""
    names = " ".join(f"Column_{i}" for i in range(n_features))
    header = f"""tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx={n_features - 1}
objective=regression
feature_names={names}
feature_infos={" ".join(["[-1e300:1e300]"] * n_features)}
{extra}
"""
    text = "\n".join([header, *(_tree_text(k, t) for k, t in enumerate(trees)), "end of trees\n"])
    return lgb.Booster(model_str=text)


def _tree_text(number: int, root: Split | float) -> str:
    splits: list[Split] = []
    leaves: list[float] = []
    children: list[list[int]] = []

    def place(node: Split | float) -> int:
        if not isinstance(node, Split):
            leaves.append(node)
            return -len(leaves)
        at = len(splits)
        splits.append(node)
        children.append([0, 0])
        children[at][:] = place(node.left), place(node.right)
        return at

    place(root)
    fields: dict[str, Any] = {"Tree": [number], "num_leaves": [len(leaves)], "num_cat": [0]}
    if splits:
        fields |= {
            "split_feature": [s.feature for s in splits],
            "split_gain": [1 + s.feature for s in splits],
            "threshold": [repr(s.threshold) for s in splits],
            "decision_type": [4 * s.missing + 2 * s.default_left for s in splits],
            "left_child": [left for left, _ in children],
            "right_child": [right for _, right in children],
        }
    fields["leaf_value"] = [repr(v) for v in leaves]
    if splits:
        fields["leaf_weight"] = fields["leaf_count"] = [1] * len(leaves)
        for name in ("internal_value", "internal_weight", "internal_count"):
            fields[name] = [0] * len(splits)
    fields |= {"is_linear": [0], "shrinkage": [1]}
    return "\n".join(f"{k}={' '.join(map(str, v))}" for k, v in fields.items()) + "\n\n"


@cache
def _one_split(library: str) -> Any:
    """Train a model of one split, for others to edit."""
    X, y = [[0.0], [1.0]], [1.0, 2.0]
    if library == "sklearn":
        return DecisionTreeRegressor().fit(X, y)
    params = {"max_depth": 1, "min_child_weight": 0, "lambda": 0, "eta": 1, "nthread": 1}
    return json.loads(bytes(xgb.train(params, xgb.DMatrix(X, y), 1).save_raw("json")))


def xgboost_split(threshold: float, default_left: bool) -> Case:
    """One XGBoost split with the given threshold and default direction."""
    content = copy.deepcopy(_one_split("xgboost"))
    (tree,) = content["learner"]["gradient_booster"]["model"]["trees"]
    tree["split_conditions"][0] = threshold
    tree["default_left"][0] = int(default_left)
    edited = xgb.Booster({"nthread": 1})
    edited.load_model(bytearray(json.dumps(content).encode()))
    return Case(edited, np.zeros((1, 1)))


def sklearn_split(threshold: float, default_left: bool) -> Case:
    """One scikit-learn split with the given threshold and direction of missing values."""
    model = copy.deepcopy(_one_split("sklearn"))
    state = copy.deepcopy(model.tree_.__getstate__())
    state["nodes"]["threshold"][0] = threshold
    state["nodes"]["missing_go_to_left"][0] = default_left
    model.tree_.__setstate__(state)
    return Case(model, np.zeros((1, 1)))


@cache
def random_lightgbm(seed: int) -> Case:
    """Trees of several levels that mix all missing types, directions and thresholds."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 4))
    pool = [*AROUND_ZERO.values(), *rng.normal(size=5), 1e-300, 1e300, np.inf]

    def grow(depth: int) -> Split | float:
        if depth == 0 or rng.random() < 0.1:
            return float(rng.choice([rng.normal(), -0.0, 1e-300]))
        return Split(
            int(rng.integers(n_features)),
            float(rng.choice(pool)),
            int(rng.integers(3)),
            bool(rng.integers(2)),
            grow(depth - 1),
            grow(depth - 1),
        )

    depth = 4 if seed % 2 else 7  # 7: more than 64 leaves
    trees = [grow(depth) for _ in range(8)]
    extra = "average_output" if seed % 3 == 0 else ""
    X = rng.choice([*rng.normal(size=20), 0.0, 5e-36, -5e-36, np.nan], (200, n_features))
    return Case(lightgbm_booster(trees, n_features, extra), X)


@cache
def flipped_xgboost(seed: int) -> Case:
    """A trained model in which every default direction is drawn anew."""
    rng = np.random.default_rng(seed)
    X, y = dataset("nan", seed)
    params = {"max_depth": 5, "nthread": 1, "tree_method": ("hist", "exact")[seed % 2]}
    booster = xgb.train(params, xgb.DMatrix(X, y), 8)
    content = json.loads(bytes(booster.save_raw("json")))
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        tree["default_left"] = rng.integers(2, size=len(tree["default_left"])).tolist()
    edited = xgb.Booster({"nthread": 1})
    edited.load_model(bytearray(json.dumps(content).encode()))
    return Case(edited, X)


@cache
def flipped_sklearn(seed: int) -> Case:
    """A trained forest in which every direction of missing values is drawn anew."""
    rng = np.random.default_rng(seed)
    X, y = dataset("nan", seed)
    forest = RandomForestRegressor(6, max_leaf_nodes=30 if seed % 2 else None, random_state=seed)
    forest.fit(X, y)
    for member in forest.estimators_:
        state = copy.deepcopy(member.tree_.__getstate__())
        inner = state["nodes"]["left_child"] >= 0
        state["nodes"]["missing_go_to_left"] = inner & (rng.random(inner.size) < 0.5)
        member.tree_.__setstate__(state)
    return Case(forest, X)
