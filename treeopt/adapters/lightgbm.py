"""LightGBM: gradient-boosted trees (gbdt, dart) and random forests.

Inputs are float64, ``x <= threshold`` goes left, sums are float64 in tree order. How a node treats
missing values is part of its ``decision_type``. At a split by categories those in the set go left,
all others and missing values right; a fraction is cut off, so that -0.5 is category 0.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from treeopt.adapters.base import (
    Tree,
    build,
    check_features,
    check_members,
    known_class,
    members_of,
    need_fitted,
    need_own_predict,
    normalized,
    refuse,
)
from treeopt.adapters.outputs import Refusal, SoftmaxOf, Task, boosted_task, choose, pick
from treeopt.errors import ModelFormatError
from treeopt.model.categories import Categories, truncated
from treeopt.model.cells import ZERO_CUTS
from treeopt.model.joint import Model
from treeopt.model.link import IDENTITY, Link
from treeopt.types import Array

MODELS = ("LGBMRegressor", "LGBMClassifier", "LGBMRanker", "Booster")
"""The models that are read."""

OBJECTIVES: dict[str, Link | SoftmaxOf | Refusal] = {
    **dict.fromkeys(
        (
            *("regression", "regression_l1", "huber", "fair", "quantile", "mape"),
            *("lambdarank", "rank_xendcg", "custom"),
        ),
        IDENTITY,
    ),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), Link("exp")),
    **dict.fromkeys(("binary", "cross_entropy", "multiclassova"), Link("logistic")),
    "cross_entropy_lambda": Link("softplus"),
    "multiclass": SoftmaxOf("lightgbm"),
}
"""From each objective to its link, or why its prediction is none, and what to do instead."""

_RAW = "Pass output='raw' for the sum itself (LightGBM's raw_score=True)."

CATEGORICAL, DEFAULT_LEFT = 1, 2
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2


def convert(model: Any, output: str, class_index: Any) -> Model:
    """Convert a LightGBM model or Booster; see `treeopt.from_model`."""
    source = type(model).__name__
    base = known_class(model, "lightgbm", MODELS)
    if base is None:
        refuse(source, "it is not one of the known tree models", f"Supported: {', '.join(MODELS)}.")
    booster = model
    if base.__name__ != "Booster":
        need_own_predict(model, base)
        need_fitted(source, model.__sklearn_is_fitted__())
        booster, importances = model.booster_, model.feature_importances_
        if model.get_params().get("pred_early_stop"):
            refuse(
                f"{source} with pred_early_stop=True",
                "it stops adding trees once the sum is large",
                "Set pred_early_stop=False.",
            )
    else:
        importances = model.feature_importance("gain")
    is_classifier = base.__name__ == "LGBMClassifier"
    try:
        text = booster.model_to_string()
    except (TypeError, ValueError) as error:
        refuse(
            f"{source} with categories whose labels LightGBM cannot write ({error})",
            "the model cannot be saved",
            "Use text or numbers as labels.",
        )
    # The text rounds the slope; only a Booster that is still in training uses it as given.
    in_training = getattr(booster, "train_set", None) is not None
    exact = booster.params.get("sigmoid") if in_training else None
    return read(text, source, output, class_index, is_classifier, importances, exact)


def own_prediction(model: Any, output: str, class_index: Any) -> Callable[[Array], Array]:
    """Return the model's own prediction of the chosen output."""
    raw = output == "raw"
    call = getattr(model, "predict_proba", model.predict)
    of_two = not raw and "\nobjective=binary" in getattr(model, "booster_", model).model_to_string()

    def predict(X: Array) -> Array:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
            return pick(call(X, raw_score=raw), class_index, of_two)

    return predict


def read(
    text: str,
    source: str,
    output: str,
    class_index: Any,
    is_classifier: bool = False,
    importances: Array | None = None,
    slope: float | None = None,
) -> Model:
    """Convert the text of a model; without importances, they are the total gain.

    ``slope`` is that of a logistic link, where it is known better than from the text.
    """
    header, blocks, labels = _parse(text)
    task = _task(source, header, is_classifier, slope)
    chosen = choose(task, output, class_index)
    claimed = len(header.get("tree_sizes", "0 " * len(blocks)).split())
    if claimed != len(blocks) or len(blocks) % task.n_sums:
        raise ModelFormatError(f"it claims {claimed} trees and has {len(blocks)}.")
    if not blocks:
        raise ModelFormatError(f"{source} holds no trees. Fit it with at least one iteration.")
    n_features = int(header["max_feature_idx"]) + 1
    check_features(n_features)
    infos = header["feature_infos"].split()
    names = tuple(header["feature_names"].split(" "))
    # A column that is called by a number LightGBM takes for the one in that position.
    declared = [] if any(name.isdecimal() for name in names) else _declared(text)
    categories = _categories(infos, blocks, labels, declared, n_features)

    def sum_of(k: int) -> tuple[list[Tree], float]:
        return [_tree(block, categories) for block in blocks[k :: task.n_sums]], 0.0

    # A random forest's raw score is the sum of its trees, its prediction their mean.
    is_mean = "average_output" in header and output != "raw"
    automatic = names == tuple(f"Column_{i}" for i in range(len(names)))
    return build(
        chosen,
        sum_of,
        n_features=n_features,
        feature_names=None if automatic else names,
        importances=normalized(_gain(blocks, n_features) if importances is None else importances),
        input_dtype=np.dtype(np.float64),
        divisor=len(blocks) / task.n_sums if is_mean else 1.0,
        categories=categories,
        frame_labels=None if labels is None else tuple(tuple(known) for known in labels),
        source=source,
    )


def _parse(text: str) -> tuple[dict[str, str], list[dict[str, str]], list[list[Any]] | None]:
    """Return the header of a model text, one mapping per tree, and the labels of categories.

    The labels are those of the ``category`` columns of the training frame, in their order; None if
    the model was not trained on a frame.
    """
    body, _, rest = text.partition("\nend of trees")
    if "\nparameters:" in rest and "\nend of parameters" not in rest:
        raise ModelFormatError("it ends before its parameters do.")
    header, *blocks = body.split("\nTree=")
    last = rest.rpartition("\npandas_categorical:")[2].strip()
    labels = json.loads(last) if "\npandas_categorical:" in rest else None
    if labels is not None and not (isinstance(labels, list) and all(map(_are_labels, labels))):
        raise ModelFormatError("pandas_categorical is not a list of labels for each column.")
    return _fields(header), [_fields(block) for block in blocks], labels


def _are_labels(known: Any) -> bool:
    return isinstance(known, list) and all(isinstance(v, str | int | float) for v in known)


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if line)
    return {key: value for key, _, value in lines}


def _task(source: str, header: dict[str, str], is_classifier: bool, slope: float | None) -> Task:
    objective, *options = header.get("objective", "custom").split() or ["custom"]
    source = f"{source} with objective {' '.join([objective, *options])!r}"
    unknown = Refusal("the function from its sum to its prediction is unknown", _RAW)
    link = OBJECTIVES.get(objective, unknown)
    given = dict(option.partition(":")[::2] for option in options)
    if link == Link("logistic"):
        exact = slope if "sigmoid" in given else None
        link = Link("logistic", float(exact or given.get("sigmoid") or 1.0))
    if "sqrt" in given and objective != "huber":
        link = Link("square")
    n_sums = int(header["num_tree_per_iteration"])
    if n_sums < 1:
        raise ModelFormatError(f"num_tree_per_iteration is {n_sums}.")
    n_classes = n_sums if objective.startswith("multiclass") else 2 * (objective == "binary")
    return boosted_task(source, link, n_sums, n_classes, is_classifier, _RAW)


def _categories(
    infos: list[str],
    blocks: list[dict[str, str]],
    labels: list[list[Any]] | None,
    declared: list[int],
    n_features: int,
) -> dict[int, Categories]:
    """Return the categories of each categorical feature, with their labels if these are certain."""
    if len(infos) != n_features:
        raise ModelFormatError(f"there are {len(infos)} feature_infos for {n_features} features.")
    # Numeric features have a range "[low:high]" here, those of one value "none".
    listed = {j: [_codes(info)] for j, info in enumerate(infos) if info[0] not in "[n"}
    total = 0
    for block in blocks:
        for _, feature, members in _sets(block):
            listed.setdefault(feature, []).append(members)
            total += members.size
            check_members(total)
    owners = dict(zip(_owners(labels or [], infos, declared), labels or [], strict=False))
    found = {}
    for j in sorted({*listed, *owners}):
        if not 0 <= j < n_features:
            raise ModelFormatError("a split reads a feature that is not there.")
        # Of what is rare, LightGBM keeps only the label. Code 0 reaches further than the others.
        own = owners.get(j, [])
        codes = np.unique(np.concatenate([np.arange(max(len(own), 1)), *listed.get(j, [])]))
        names = tuple(own) if own else None
        known = {"labels": names, "complete": bool(own)}
        found[j] = truncated(codes, np.dtype(np.float64), zero_from=-1.0, **known)
    return found


def _declared(text: str) -> list[int]:
    """Return the columns that the model was trained to take for categories."""
    _, _, rest = text.partition("\n[categorical_feature: ")
    numbers = rest.partition("]")[0].split(",")
    return sorted(int(number) for number in numbers if number.isdecimal())


def _owners(labels: list[list[Any]], infos: list[str], declared: list[int]) -> list[int]:
    """Return the column of each list of labels; an empty list if it is uncertain.

    Only their order is stored. So the first and the last possible choice must be the same. Or there
    are as many columns with categories as lists, each has just the codes of its labels, and no
    column of numbers has: a category may be read as a number.
    """
    columns = range(len(infos))
    first = _next_to_fit(labels, infos, columns)
    last = _next_to_fit(labels[::-1], infos, columns[::-1])[::-1]
    if first == last and -1 not in first:
        return first
    if len(declared) != len(labels) or max(declared, default=-1) >= len(infos):
        return []
    codes = [info if info[0] in "[n" else set(_codes(info).tolist()) for info in infos]
    exact = all(codes[j] == set(range(len(own))) for j, own in zip(declared, labels, strict=True))
    rivals = any(f"[0:{len(own) - 1}]" in codes for own in labels)
    return declared if exact and not rivals else []


def _next_to_fit(labels: list[list[Any]], infos: list[str], columns: range) -> list[int]:
    """Return the next column that fits, for each list of labels in turn; -1 if there is none."""
    rest = iter(columns)
    return [next((j for j in rest if _fits(own, infos[j])), -1) for own in labels]


def _fits(labels: list[Any], info: str) -> bool:
    """Tell whether a column may hold the codes of these labels."""
    if info == "none":
        return True
    if info[0] != "[":
        return bool(_codes(info).max(initial=0) < len(labels))
    low, high = (float(v) for v in info[1:-1].split(":"))
    return low >= 0 and high < len(labels) and low.is_integer() and high.is_integer()


def _codes(info: str) -> Array:
    codes = np.array(info.split(":"), np.int64)
    return codes[codes >= 0]


def _sets(block: dict[str, str]) -> list[tuple[int, int, Array]]:
    """Return the nodes that split by categories, each with its feature and its set."""
    kinds = np.array(block.get("decision_type", "").split(), np.int64)
    if int(block.get("num_cat", "0")) == 0:
        if (kinds & CATEGORICAL).any():
            raise ModelFormatError("a split is by categories, but its tree has no sets of them.")
        return []
    threshold = _numbers(block, "threshold", np.float64)
    feature = _numbers(block, "split_feature", np.int64)
    start = _numbers(block, "cat_boundaries", np.int64)
    words = _numbers(block, "cat_threshold", np.uint32)
    by_set = np.flatnonzero(kinds & CATEGORICAL)
    # Sets that are read again and again would come to more than the file holds.
    if (np.diff(start) < 0).any() or np.unique(threshold[by_set]).size < by_set.size:
        raise ModelFormatError("sets of categories overlap, or two splits share one.")
    sets = []
    for node in by_set:
        k = int(threshold[node])
        if not 0 <= k < start.size - 1 or not 0 <= start[k] <= start[k + 1] <= words.size:
            raise ModelFormatError("a split reads a set of categories that is not there.")
        sets.append((int(node), int(feature[node]), members_of(words[start[k] : start[k + 1]])))
    return sets


def _tree(block: dict[str, str], categories: dict[int, Categories]) -> Tree:
    if block.get("is_linear", "0") != "0":
        refuse(
            "a model with linear_tree=True",
            "its leaves are linear functions, not constants",
            "Train with linear_tree=False.",
        )
    values = _numbers(block, "leaf_value", np.float64)
    n_leaves = values.size
    if int(block["num_leaves"]) != n_leaves or not n_leaves:
        raise ModelFormatError(f"a tree has {block['num_leaves']} leaves, but {n_leaves} values.")
    inner = n_leaves - 1
    leaf = np.full(n_leaves, -1, np.int32)
    if not inner:
        no = np.zeros(1, bool)
        return Tree(leaf, np.full(1, np.nan), leaf, leaf, values, no, no)
    columns = [
        _numbers(block, "split_feature", np.int32),
        _numbers(block, "threshold", np.float64),
        _numbers(block, "decision_type", np.int64),
        _children(block, "left_child", inner),
        _children(block, "right_child", inner),
    ]
    if any(column.shape != (inner,) for column in columns):
        raise ModelFormatError(f"a tree of {n_leaves} leaves does not have {inner} splits.")
    feature, threshold, decision, left, right = columns
    threshold = _outside_zero(threshold)
    missing = decision >> 2
    # Without a missing type, NaN is read as 0.
    default_left = np.where(missing == MISSING_NONE, threshold >= 0, decision & DEFAULT_LEFT) != 0
    zero_missing = missing == MISSING_ZERO
    by_set = _sets(block)
    category_set = np.full(inner, -1, np.int32)
    sets: list[Array] = []
    for node, column, members in by_set:
        category_set[node] = len(sets)
        default_left[node] = zero_missing[node] = False
        sets.append(np.searchsorted(categories[column].value, members).astype(np.int32))
    return Tree(
        feature=np.append(feature, leaf),
        threshold=np.append(threshold, np.full(n_leaves, np.nan)),
        left=np.append(left, leaf),
        right=np.append(right, leaf),
        value=np.append(np.zeros(inner), values),
        default_left=np.append(default_left, leaf > 0),
        zero_missing=np.append(zero_missing, leaf > 0),
        category_set=np.append(category_set, leaf) if sets else None,
        sets=sets,
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
    child = _numbers(block, key, np.int64)
    return np.where(child < 0, inner - 1 - child, child)


def _gain(blocks: list[dict[str, str]], n_features: int) -> Array:
    """Return the total gain of each feature."""
    gain = np.zeros(n_features)
    for block in blocks:
        if int(block["num_leaves"]) > 1:
            feature = _numbers(block, "split_feature", np.int64)
            if (feature < 0).any() or (feature >= n_features).any():
                raise ModelFormatError("a split reads a feature that is not there.")
            own = _numbers(block, "split_gain", np.float64)
            if own.shape != feature.shape:
                raise ModelFormatError(f"{feature.size} splits have {own.size} gains.")
            np.add.at(gain, feature, own)
    return gain


def _numbers(block: dict[str, str], key: str, dtype: type) -> Array:
    return np.array(block[key].split(), dtype=dtype)
