"""What the adapters share: gathering trees into one `Ensemble`, and the common refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from treeopt.ensemble import Array, Ensemble
from treeopt.errors import (
    InputError,
    ModelFormatError,
    UnfittedModelError,
    UnsupportedModelError,
)


class Tree(NamedTuple):
    """One tree, with children counted from its own root and -1 at leaves."""

    feature: Array
    threshold: Array
    left: Array
    right: Array
    value: Array
    default_left: Array
    zero_missing: Array | None = None


def assemble(trees: Sequence[Tree], **rest: Any) -> Ensemble:
    """Concatenate trees into an ensemble; ``rest`` are the remaining fields of `Ensemble`."""
    sizes = [t.left.size for t in trees]
    tree_start = np.cumsum([0, *sizes])
    n = int(tree_start[-1])
    feature = np.empty(n, np.int32)
    threshold = np.empty(n, np.float64)
    left = np.empty(n, np.int32)
    right = np.empty(n, np.int32)
    value = np.empty(n, trees[0].value.dtype)
    default_left = np.zeros(n, np.bool_)
    zero_missing = np.zeros(n, np.bool_)
    for start, size, tree in zip(tree_start, sizes, trees, strict=False):
        part = slice(int(start), int(start) + size)
        leaf = tree.left < 0
        feature[part] = np.where(leaf, -1, tree.feature)
        threshold[part] = np.where(leaf, np.nan, tree.threshold)
        left[part] = np.where(leaf, -1, tree.left + start)
        right[part] = np.where(leaf, -1, tree.right + start)
        value[part] = np.where(leaf, tree.value, 0)
        default_left[part] = ~leaf & tree.default_left
        if tree.zero_missing is not None:
            zero_missing[part] = ~leaf & tree.zero_missing
    return Ensemble(
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        value=value,
        default_left=default_left,
        zero_missing=zero_missing,
        tree_start=tree_start,
        **rest,
    )


def in_order(tree: Tree) -> Tree:
    """Renumber the nodes so that children follow their parent, without those no path reaches.

    XGBoost keeps pruned nodes in its arrays.
    """
    levels = [np.zeros(1, np.int64)]
    reached = 0
    while levels[-1].size:
        reached += levels[-1].size
        if reached > tree.left.size:
            raise ModelFormatError("a tree's nodes are reached twice: its arrays are damaged.")
        inner = levels[-1][tree.left[levels[-1]] >= 0]
        levels.append(np.column_stack([tree.left[inner], tree.right[inner]]).ravel())
    order = np.concatenate(levels)
    if np.array_equal(order, np.arange(tree.left.size)):
        return tree
    number = np.full(tree.left.size, -1)
    number[order] = np.arange(order.size)
    kept = Tree(*(a[order] for a in tree[:6]))
    leaf = kept.left < 0
    return kept._replace(
        left=np.where(leaf, -1, number[kept.left]), right=np.where(leaf, -1, number[kept.right])
    )


def round_down(threshold: Array) -> Array:
    """Return the largest float32 not above each float64.

    ``float32(x) <= threshold`` and ``float32(x) <= round_down(threshold)`` are the same test.
    """
    nearest = threshold.astype(np.float32)
    with np.errstate(over="ignore"):
        lower = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > threshold, lower, nearest)


def normalised(importances: Any) -> Array:
    """Return importances that sum to 1; uniform where all are zero."""
    weights = np.asarray(importances, np.float64)
    total = weights.sum()
    if not total > 0:
        return np.full(weights.size, 1.0 / max(weights.size, 1))
    shares: Array = weights / total
    return shares


def choose_output(class_index: Any, n_outputs: int, source: str) -> int:
    """Return the output to use; with several, the user has to say which."""
    if class_index is None:
        if n_outputs > 1:
            raise InputError(
                f"{source} has {n_outputs} outputs and one is needed. "
                f"Pass class_index=0..{n_outputs - 1}."
            )
        return 0
    if not isinstance(class_index, int | np.integer) or not 0 <= class_index < n_outputs:
        given = f"class_index is {class_index!r}, but {source} has"
        if n_outputs == 1:
            raise InputError(f"{given} one output. Leave class_index out.")
        raise InputError(f"{given} {n_outputs} outputs. Pass a number in 0..{n_outputs - 1}.")
    return int(class_index)


def refuse_unknown(model: Any, supported: str) -> NoReturn:
    """Refuse a model of a class that no adapter reads."""
    source = type(model).__name__
    why = "it is not one of the known tree models"
    if source.endswith("Classifier"):
        why = "it is a classifier, and only regressors are read"
    refuse(source, why, f"Supported are {supported}.")


def pick_output(prediction: Array, class_index: int | None) -> Array:
    """Return one output of a library's own prediction, as a contiguous vector."""
    if prediction.ndim == 1:
        return prediction
    return np.ascontiguousarray(prediction[:, class_index or 0])


def refuse(source: str, why: str, remedy: str) -> NoReturn:
    """Raise the error for a model that does not fit: what it is, why not, what to do."""
    raise UnsupportedModelError(f"{source} is not supported: {why}. {remedy}")


def refuse_proba(source: str, output: str) -> None:
    """Refuse ``output="proba"`` for a regressor."""
    if output == "proba":
        raise InputError(
            f"output is 'proba', but {source} is a regressor: it has no probabilities. "
            "Pass output='auto'."
        )


def need_own_predict(model: Any, base: type) -> None:
    """Refuse a subclass that predicts in a way of its own."""
    if type(model).predict is not base.predict:  # type: ignore[attr-defined]
        refuse(
            type(model).__name__,
            f"it changes the predict of {base.__name__}, and may not be a sum of trees any more",
            f"Pass a {base.__name__}.",
        )


def need_fitted(source: str, fitted: bool, remedy: str = "Call fit first.") -> None:
    """Refuse a model that has not been fitted."""
    if not fitted:
        raise UnfittedModelError(f"model is a {source} that has not been fitted. {remedy}")
