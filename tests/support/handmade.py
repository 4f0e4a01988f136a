"""Models that no training would give: every way to treat missing values, put there by hand."""

from __future__ import annotations

import copy
import itertools
import json
from functools import cache
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from tests.support.models import Case, dataset
from tests.support.rows import MAX32, ZERO

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
    """A split of a hand-made LightGBM tree; children are splits or leaf values.

    The threshold is a set of categories where the split is by them.
    """

    feature: int
    threshold: float | frozenset[int]
    missing: int
    default_left: bool
    left: Split | float
    right: Split | float

    @property
    def by_set(self) -> bool:
        return isinstance(self.threshold, frozenset)


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
    sets = [s.threshold for s in splits if s.by_set]
    cuts = [sets.index(s.threshold) if s.by_set else repr(s.threshold) for s in splits]
    kinds = [4 * s.missing + 2 * s.default_left + s.by_set for s in splits]
    fields: dict[str, Any] = {"Tree": [number], "num_leaves": [len(leaves)], "num_cat": [len(sets)]}
    if splits:
        fields |= {
            "split_feature": [s.feature for s in splits],
            "split_gain": [1 + s.feature for s in splits],
            "threshold": cuts,
            "decision_type": kinds,
            "left_child": [left for left, _ in children],
            "right_child": [right for _, right in children],
        }
    if sets:
        words = [bit_words(members) for members in sets]
        fields["cat_boundaries"] = np.cumsum([0, *map(len, words)]).tolist()
        fields["cat_threshold"] = list(itertools.chain(*words))
    fields["leaf_value"] = [repr(v) for v in leaves]
    if splits:
        fields["leaf_weight"] = fields["leaf_count"] = [1] * len(leaves)
        for name in ("internal_value", "internal_weight", "internal_count"):
            fields[name] = [0] * len(splits)
    fields |= {"is_linear": [0], "shrinkage": [1]}
    return "\n".join(f"{k}={' '.join(map(str, v))}" for k, v in fields.items()) + "\n\n"


def bit_words(members: frozenset[int]) -> list[int]:
    """Return a set of numbers as bits in words of 32."""
    words = [0] * (max(members, default=0) // 32 + 1)
    for k in members:
        words[k // 32] |= 1 << k % 32
    return words


@cache
def _one_split(library: str) -> Any:
    """Train a model of one split, for others to edit."""
    X, y = [[0.0], [1.0]], [1.0, 2.0]
    if library == "sklearn":
        return DecisionTreeRegressor().fit(X, y)
    kinds = ["c"] if library == "xgboost categories" else ["q"]
    params = {"max_depth": 1, "min_child_weight": 0, "lambda": 0, "eta": 1, "nthread": 1}
    matrix = xgb.DMatrix(X, y, feature_types=kinds, enable_categorical=True)
    return document(xgb.train(params, matrix, 1))


def document(booster: xgb.Booster) -> dict[str, Any]:
    """Return XGBoost's own description of a model."""
    return json.loads(bytes(booster.save_raw("json")))


def xgboost_booster(content: dict[str, Any]) -> xgb.Booster:
    """Load an edited description into XGBoost."""
    edited = xgb.Booster({"nthread": 1})
    edited.load_model(bytearray(json.dumps(content).encode()))
    return edited


def _xgboost_case(kind: str, default_left: bool, **changes: Any) -> Case:
    """Return a case of one split whose tree is changed."""
    content = copy.deepcopy(_one_split(kind))
    (tree,) = content["learner"]["gradient_booster"]["model"]["trees"]
    tree["default_left"][0] = int(default_left)
    tree["split_conditions"][0] = changes.pop("threshold", 0.0)
    tree |= changes
    return Case(xgboost_booster(content), np.zeros((1, 1)))


def xgboost_split(threshold: float, default_left: bool) -> Case:
    """One XGBoost split with the given threshold and default direction."""
    return _xgboost_case("xgboost", default_left, threshold=threshold)


def xgboost_categories(members: frozenset[int], default_left: bool) -> Case:
    """One XGBoost split that sends the given categories to the right."""
    chosen = {"categories": sorted(members), "categories_sizes": [len(members)]}
    return _xgboost_case("xgboost categories", default_left, **chosen)


def lightgbm_categories(members: frozenset[int], missing: int, default_left: bool) -> Case:
    """One LightGBM split that sends the given categories to the left."""
    split = Split(0, members, missing, default_left, 1.0, 2.0)
    return Case(lightgbm_booster([split], 1), np.zeros((1, 1)))


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
    """Trees of several levels that mix all missing types, directions, thresholds and sets."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 4))
    pool = [*AROUND_ZERO.values(), *rng.normal(size=5), 1e-300, 1e300, np.inf]
    by_sets = n_features - 1 if seed % 4 > 1 else n_features

    def grow(depth: int) -> Split | float:
        if depth == 0 or rng.random() < 0.1:
            return float(rng.choice([rng.normal(), -0.0, 1e-300]))
        feature = int(rng.integers(n_features))
        members = frozenset(rng.choice(70, rng.integers(1, 40)).tolist())
        return Split(
            feature,
            members if feature >= by_sets else float(rng.choice(pool)),
            int(rng.integers(3)),
            bool(rng.integers(2)),
            grow(depth - 1),
            grow(depth - 1),
        )

    depth = 4 if seed % 2 else 7  # 7: more than 64 leaves
    trees = [grow(depth) for _ in range(8)]
    extra = "average_output" if seed % 3 == 0 else ""
    X = rng.choice([*rng.normal(size=20), 0.0, 5e-36, -5e-36, np.nan], (200, n_features))
    X[:, by_sets:] = rng.integers(0, 75, (200, n_features - by_sets))
    return Case(lightgbm_booster(trees, n_features, extra), X)


@cache
def flipped_xgboost(seed: int) -> Case:
    """A trained model in which every default direction is drawn anew."""
    rng = np.random.default_rng(seed)
    X, y = dataset("nan", seed)
    params = {"max_depth": 5, "nthread": 1, "tree_method": ("hist", "exact")[seed % 2]}
    booster = xgb.train(params, xgb.DMatrix(X, y), 8)
    content = document(booster)
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        tree["default_left"] = rng.integers(2, size=len(tree["default_left"])).tolist()
    return Case(xgboost_booster(content), X)


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
