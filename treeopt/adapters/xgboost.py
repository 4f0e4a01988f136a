"""XGBoost: gradient-boosted trees (gbtree, dart) and boosted random forests.

Inputs are cast to float32 and go left if ``x < threshold``; so the canonical cut is the float32
below each threshold. The prediction is a float32 sum that starts from the base score and adds the
trees in order. Missing values follow each node's default direction. At a split by categories those
in the list go right, all others left; a fraction is cut off, and a negative number is no category.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from treeopt.adapters.base import (
    Tree,
    build,
    check_features,
    check_members,
    in_order,
    known_class,
    need_fitted,
    need_own_predict,
    normalized,
    refuse,
)
from treeopt.adapters.outputs import Refusal, SoftmaxOf, Task, boosted_task, choose, pick
from treeopt.errors import ModelFormatError
from treeopt.kernels import link_functions as links
from treeopt.model.categories import Categories, truncated
from treeopt.model.joint import Model
from treeopt.model.link import IDENTITY, Link
from treeopt.types import Array

MODELS = (
    *("XGBRegressor", "XGBClassifier", "XGBRanker", "XGBRFRegressor", "XGBRFClassifier"),
    "Booster",
)
"""The models that are read."""

_RAW = "Pass output='raw' for the sum itself (XGBoost's output_margin=True)."

_SOFTPROB = "Train with objective='multi:softprob', or pass output='raw' for the margin of a class."

OBJECTIVES: dict[str, Link | SoftmaxOf | Refusal] = {
    **dict.fromkeys(
        (
            *("reg:squarederror", "reg:linear", "reg:squaredlogerror", "reg:absoluteerror"),
            *("reg:pseudohubererror", "reg:quantileerror", "binary:logitraw"),
            *("rank:pairwise", "rank:ndcg", "rank:map"),
        ),
        IDENTITY,
    ),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), Link("logistic")),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), Link("exp")),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), SoftmaxOf("xgboost")),
    "binary:hinge": Refusal("its prediction is 0 or 1, a step of the sum and no probability", _RAW),
    "survival:cox": Refusal("its prediction is a hazard ratio, known up to a factor", _RAW),
    "survival:aft": Refusal("its prediction is a survival time of a censored model", _RAW),
}
"""From each objective to its link, or why its prediction is none, and what to do instead."""

LOG_START = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
"""Objectives whose base score is stored before its logarithm is taken."""

LABEL_TYPES = {9: "int8", 10: "uint8", 11: "int16", 13: "int32", 15: "int64"}
"""The types of integers as labels, by XGBoost's numbers for them; others it does not store."""

N_CATEGORIES = 2**24
"""Number of possible categories; larger codes are unknown."""

BELOW_ALL_FINITE = float(np.nextafter(-np.float64(np.finfo(np.float32).max), -np.inf))
"""A cut that every float32 exceeds except -inf."""


class Wrapper(NamedTuple):
    """What the class around a Booster adds to it.

    Attributes
    ----------
    name : str
        The class.
    wrapped : bool
        Whether there is one, or just the Booster.
    missing : float
        One more value that means missing.
    is_classifier : bool
        Whether it predicts labels.
    last : int or None
        The last iteration that it predicts with; None for all.
    """

    name: str = "Booster"
    wrapped: bool = False
    missing: float = np.nan
    is_classifier: bool = False
    last: int | None = None


def convert(model: Any, output: str, class_index: Any) -> Model:
    """Convert an XGBoost model or Booster; see `treeopt.from_model`."""
    source = type(model).__name__
    base = known_class(model, "xgboost", MODELS)
    if base is None:
        refuse(source, "it is not one of the known tree models", f"Supported: {', '.join(MODELS)}.")
    importances = None
    if base.__name__ == "Booster":
        need_fitted(source, _is_trained(model), "Train it with xgboost.train.")
        booster, wrapper = model, Wrapper(source)
    else:
        need_own_predict(model, base)
        need_fitted(source, model.__sklearn_is_fitted__())
        booster = model.get_booster()
        best = booster.attr("best_iteration")
        is_classifier = base.__name__.endswith("Classifier")
        last = None if best is None else int(best)
        wrapper = Wrapper(source, True, model.missing, is_classifier, last)
        if model.booster != "gblinear":
            importances = model.feature_importances_
        if is_classifier and callable(model.objective) and output in ("auto", "proba"):
            refuse(
                f"{source} with an objective of its own",
                "the meaning of its sum is known only to that objective",
                _RAW,
            )
    document = json.loads(bytes(booster.save_raw("json")))
    return read(document, wrapper, output, class_index, importances)


def own_prediction(model: Any, output: str, class_index: Any) -> Callable[[Array], Array]:
    """Return the model's own prediction of the chosen output."""
    import xgboost as xgb

    raw = output == "raw"
    if isinstance(model, xgb.Booster) and not raw:
        model = _with_probabilities(model)

    def predict(X: Array) -> Array:
        if not isinstance(model, xgb.Booster):
            labels = hasattr(model, "predict_proba") and not raw
            own = model.predict_proba(X) if labels else model.predict(X, output_margin=raw)
            return pick(own, class_index)
        config = json.loads(model.save_config())["learner"]
        of_two = config["objective"]["name"] == "binary:logistic" and not raw
        if config["gradient_booster"]["name"] == "dart":
            # The two ways differ in the last bits; this is the one called predict.
            how: dict[str, Any] = {"enable_categorical": True}
            if isinstance(X, np.ndarray):
                how = {"feature_names": model.feature_names, "feature_types": model.feature_types}
            matrix = xgb.DMatrix(X, **how)
            return pick(model.predict(matrix, output_margin=raw), class_index, of_two)
        kind = "margin" if raw else "value"
        return pick(model.inplace_predict(X, predict_type=kind), class_index, of_two)

    return predict


def _with_probabilities(booster: Any) -> Any:
    """Return a Booster that predicts probabilities where this one predicts labels."""
    if json.loads(booster.save_config())["learner"]["objective"]["name"] == "multi:softmax":
        booster = booster.copy()
        booster.set_param({"objective": "multi:softprob"})
    return booster


def read(
    document: dict[str, Any],
    wrapper: Wrapper,
    output: str,
    class_index: Any,
    importances: Array | None = None,
) -> Model:
    """Convert the JSON document of a model; without importances, they are the average gain."""
    learner = document["learner"]
    source = wrapper.name
    kind = learner["gradient_booster"]["name"]
    if kind not in ("gbtree", "dart"):
        why = "it is a linear model, not trees"
        refuse(f"{source} with booster={kind!r}", why, "Train with booster='gbtree'.")
    parameters = learner["learner_model_param"]
    n_classes, n_targets = int(parameters["num_class"]), int(parameters.get("num_target", 1))
    n_sums = max(n_classes, n_targets, 1)
    objective = str(learner["objective"]["name"])
    task = _task(wrapper, objective, n_sums, n_classes)
    chosen = choose(task, output, class_index)

    n_features = int(parameters["num_feature"])
    check_features(n_features)
    forest, weights = _forest(learner["gradient_booster"])
    used = list(forest["trees"])
    if wrapper.last is not None:
        used = used[: forest["iteration_indptr"][wrapper.last + 1]]
    if not used:
        raise ModelFormatError(f"{source} holds no trees. Fit it with at least one iteration.")
    categories = _categories(learner.get("feature_types") or [], forest, n_features)
    starts = _starts(parameters["base_score"], objective, n_sums)

    every: list[int] = []
    by_output: dict[int, list[int]] = {}
    for i, tree in enumerate(used):
        if int(tree["tree_param"]["size_leaf_vector"]) > 1:
            every.append(i)
            used[i] = _with_array(tree)
        else:
            by_output.setdefault(forest["tree_info"][i], []).append(i)

    def sum_of(k: int) -> tuple[list[Tree], float]:
        start = np.float32(starts[k])
        trees = []
        for i in sorted(every + by_output.get(k, [])):
            own = _tree(used[i], k, categories)
            trees.append(_weighted(own, weights[i], start, wrapper) if weights else own)
        if not trees:
            raise ModelFormatError(f"{source} holds no trees for output {k}.")
        return trees, float(start)

    names = learner.get("feature_names")
    if importances is None:
        importances = _gain(forest["trees"], n_features)
    return build(
        chosen,
        sum_of,
        n_features=n_features,
        feature_names=tuple(map(str, names)) if names else None,
        importances=normalized(importances),
        input_dtype=np.dtype(np.float32),
        cast_apart="always",
        categories=categories,
        missing_value=float(np.float32(wrapper.missing)),
        source=source,
    )


def _task(wrapper: Wrapper, objective: str, n_sums: int, n_classes: int) -> Task:
    source = f"{wrapper.name} with objective {objective!r}"
    if objective not in OBJECTIVES:
        refuse(
            source,
            "the start of its sum and the function from the sum to the prediction are unknown",
            f"Train with one of {', '.join(OBJECTIVES)}.",
        )
    if n_sums == 1 and objective.startswith("binary:"):
        n_classes = 2
    link = OBJECTIVES[objective]
    labels = objective == "multi:softmax"
    if labels and wrapper.is_classifier:
        link = SoftmaxOf("scipy")
    elif labels and wrapper.wrapped:
        link = Refusal("it predicts labels and has no probabilities", _SOFTPROB)
    return boosted_task(source, link, n_sums, n_classes, wrapper.is_classifier, _RAW, labels)


def _forest(booster: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
    """Return the trees with what belongs to them, and their weights, which only dart has."""
    is_dart = booster["name"] == "dart"
    forest = (booster["gbtree"] if is_dart else booster)["model"]
    weights = booster["weight_drop"] if is_dart else []
    claimed, n = int(forest["gbtree_model_param"]["num_trees"]), len(forest["trees"])
    if not claimed == n == len(forest["tree_info"]) or len(weights) != n * is_dart:
        raise ModelFormatError(f"it claims {claimed} trees and has {n}.")
    return forest, weights


def _weighted(tree: Tree, weight: float, start: Any, wrapper: Wrapper) -> Tree:
    """Return a tree of dart; the wrappers weigh start and leaf and take the start off again."""
    value = (start + tree.value) - start if wrapper.wrapped else tree.value
    return tree._replace(value=value * np.float32(weight))


def _starts(stored: str, objective: str, n_sums: int) -> Array:
    """Return where the sum of each output starts.

    The base score is stored in the unit of the prediction.
    """
    scores = np.array([float(v) for v in str(stored).strip("[] ").split(",")], np.float32)
    if scores.size not in (1, n_sums):
        raise ModelFormatError(f"base_score has {scores.size} values for {n_sums} outputs.")
    if OBJECTIVES[objective] == Link("logistic"):
        links.logit(scores)
    elif objective in LOG_START:
        links.log(scores)
    return np.broadcast_to(scores, (n_sums,)) if scores.size == 1 else scores


def _tree(tree: dict[str, Any], k: int, categories: dict[int, Categories]) -> Tree:
    n = len(tree["left_children"])
    left = _column(tree, "left_children", np.int32, n)
    right = _column(tree, "right_children", np.int32, n)
    threshold = _column(tree, "split_conditions", np.float32, n)
    feature = _column(tree, "split_indices", np.int32, n)
    default_left = _column(tree, "default_left", np.bool_, n)
    leaf = left < 0
    value = threshold
    width = int(tree["tree_param"]["size_leaf_vector"])
    if width > 1:
        # The right child of a leaf is its number.
        vectors = tree["leaf_weights"].reshape(-1, width)
        value = np.where(leaf, vectors[np.where(leaf, right, 0), k], np.float32(0))
    with np.errstate(over="ignore"):
        cut = np.nextafter(threshold, np.float32(-np.inf)).astype(np.float64)
    cut[np.isneginf(cut)] = BELOW_ALL_FINITE
    # No number is below -inf. With the children swapped, no number is above +inf.
    swap = np.isneginf(threshold) & ~leaf
    cut[swap] = np.inf
    category_set, sets = _sets(tree, feature, categories)
    if sets:
        # What is in the list goes right here, left there.
        swap = np.where(category_set >= 0, ~leaf, swap)
    return in_order(
        Tree(
            feature=np.where(leaf, -1, feature),
            threshold=cut,
            left=np.where(swap, right, left),
            right=np.where(swap, left, right),
            value=value,
            default_left=default_left ^ swap,
            category_set=category_set if sets else None,
            sets=sets,
        )
    )


def _with_array(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a tree whose leaves hold one value per output; these are read once for all outputs."""
    if "leaf_weights" not in tree:
        refuse(
            "a model with multi_strategy='multi_output_tree' of XGBoost before 3.2",
            "it is stored in another form",
            "Use XGBoost 3.2 or newer, or multi_strategy='one_output_per_tree'.",
        )
    return {**tree, "leaf_weights": np.array(tree["leaf_weights"], np.float32)}


def _column(tree: dict[str, Any], key: str, dtype: type, n: int) -> Array:
    """Return one value per node."""
    column = np.asarray(tree[key])
    if column.shape != (n,):
        raise ModelFormatError(f"a tree has {n} nodes, but {column.size} of {key}.")
    is_whole = column.dtype.kind in "iub"
    if dtype is np.int32 and is_whole:
        is_whole = bool((column == column.astype(np.int32)).all())
    if not is_whole and (dtype is not np.float32 or column.dtype.kind != "f"):
        raise ModelFormatError(f"a tree has {key} of a wrong type.")
    with np.errstate(over="ignore"):
        return column.astype(dtype)


def _lists(tree: dict[str, Any]) -> list[tuple[int, Array]]:
    """Return the nodes that split by categories, each with its list."""
    nodes = tree.get("categories_nodes", [])
    members = np.array(tree.get("categories", []), np.int64)
    parts = zip(nodes, tree["categories_segments"], tree["categories_sizes"], strict=True)
    # Lists that are read again and again would come to more than the file holds.
    if nodes and sum(map(abs, tree["categories_sizes"])) > members.size:
        raise ModelFormatError("lists of categories overlap.")
    lists = []
    for node, begin, size in parts if nodes else ():
        if not 0 <= begin <= begin + size <= members.size:
            raise ModelFormatError("a list of categories is out of range.")
        chosen = members[begin : begin + size]
        lists.append((int(node), chosen[(chosen >= 0) & (chosen < N_CATEGORIES)]))
    return lists


def _sets(
    tree: dict[str, Any], feature: Array, categories: dict[int, Categories]
) -> tuple[Array, list[Array]]:
    """Return the set of each node, -1 where it has none, and the sets."""
    category_set = np.full(feature.size, -1, np.int32)
    sets: list[Array] = []
    for node, members in _lists(tree):
        if not 0 <= node < feature.size:
            raise ModelFormatError("a list of categories belongs to no node.")
        known = categories[int(feature[node])].value
        category_set[node] = len(sets)
        sets.append(np.searchsorted(known, members).astype(np.int32))
    if np.count_nonzero(tree.get("split_type", [])) != len(sets):
        raise ModelFormatError("a split by categories has no list of them.")
    return category_set, sets


def _categories(kinds: list[str], forest: dict[str, Any], n_features: int) -> dict[int, Categories]:
    """Return the categories of every feature that has them, with their labels if they are kept."""
    listed: dict[int, list[Array]] = {j: [] for j, kind in enumerate(kinds) if kind == "c"}
    total = 0
    for tree in forest["trees"]:
        for node, members in _lists(tree):
            listed.setdefault(int(tree["split_indices"][node]), []).append(members)
            total += members.size
            check_members(total)
    encoded = forest.get("cats", {}).get("enc", [])
    found = {}
    for j, lists in listed.items():
        if not 0 <= j < n_features:
            raise ModelFormatError("a split reads a feature that is not there.")
        kept = encoded[j] if j < len(encoded) else {}
        labels = _labels(kept)
        n_kept = len(kept["offsets"][1:] if "offsets" in kept else kept.get("values", ()))
        recode = "codes" if not kept.get("values") else "refused" if labels is None else "sorted"
        found[j] = truncated(
            np.unique(np.concatenate([np.arange(n_kept), *lists])),
            np.dtype(np.float32),
            labels=None if labels is None else tuple(labels),
            recode=recode,
            complete=n_kept > 0,
            label_dtype=LABEL_TYPES.get(kept.get("type", -1)),
        )
    return found


def _labels(kept: dict[str, Any]) -> list[Any] | None:
    """Return the labels of the categories, in the order of their codes.

    None where there are none, or where they are not ASCII: those XGBoost stores with wrong lengths.
    """
    values = kept.get("values") or []
    if "offsets" not in kept:
        return [int(v) for v in values] or None
    text = bytes(int(v) % 256 for v in values)
    if not text.isascii() or not values:
        return None
    ends = [int(v) for v in kept["offsets"]]
    if sorted(ends) != ends or ends[:1] != [0] or ends[-1] != len(text):
        raise ModelFormatError("the labels of the categories are out of order.")
    return [text[a:b].decode("ascii") for a, b in pairwise(ends)]


def _gain(trees: list[dict[str, Any]], n_features: int) -> Array:
    """Return the average gain of each feature, XGBoost's own default importance."""
    total, count = np.zeros(n_features), np.zeros(n_features)
    for tree in trees:
        feature = np.array(tree["split_indices"], np.int64)
        gain = np.array(tree["loss_changes"], np.float64)
        # Deleted nodes have a feature that is none.
        split = (np.array(tree["left_children"]) >= 0) & (feature >= 0) & (feature < n_features)
        np.add.at(total, feature[split], gain[split])
        np.add.at(count, feature[split], 1)
    average: Array = total / np.maximum(count, 1)
    return average


def _is_trained(booster: Any) -> bool:
    """Tell whether a Booster holds a model: an empty one has nothing to save."""
    import xgboost as xgb

    try:
        return int(booster.num_boosted_rounds()) > 0
    except xgb.core.XGBoostError:
        return False
