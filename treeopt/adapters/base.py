"""What the adapters share: gathering trees into one `Ensemble`, and the common refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import getattr_static
from typing import Any, NamedTuple, NoReturn

import numpy as np

from treeopt.errors import ModelFormatError, UnfittedModelError, UnsupportedModelError
from treeopt.model.difference import Difference
from treeopt.model.ensemble import Ensemble
from treeopt.model.joint import Model
from treeopt.model.link import IDENTITY, Link
from treeopt.model.softmax import Softmax
from treeopt.model.validation import MAX_FEATURES
from treeopt.types import Array

MAX_MEMBERS = 2**26
"""Maximum number of members of all sets of categories; models with more are considered damaged."""


class Tree(NamedTuple):
    """One tree, with children counted from its own root and -1 at leaves."""

    feature: Array
    threshold: Array
    left: Array
    right: Array
    value: Array
    default_left: Array
    zero_missing: Array | None = None
    category_set: Array | None = None
    """Index into ``sets``; -1 where the split is by threshold."""
    sets: Sequence[Array] = ()
    """The categories that go left, as indices into those of the feature; -1: all others."""


class Output(NamedTuple):
    """The sum to build: that of one output, perhaps minus that of another, and its link.

    Or the softmax of all sums: ``plus`` is the class, ``n_sums`` the number of sums, and
    ``softmax`` its arithmetic, as in `Softmax`; it is empty otherwise.
    """

    plus: int
    minus: int | None = None
    link: Link = IDENTITY
    softmax: str = ""
    n_sums: int = 1


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
    category_set = np.full(n, -1, np.int32)
    sets: list[Array] = []
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
        if tree.category_set is not None:
            by_set = ~leaf & (tree.category_set >= 0)
            category_set[part] = np.where(by_set, tree.category_set + len(sets), -1)
            sets += tree.sets
    return Ensemble(
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        value=value,
        default_left=default_left,
        zero_missing=zero_missing,
        category_set=category_set,
        set_start=np.cumsum([0, *(s.size for s in sets)]),
        set_member=np.concatenate(sets) if sets else np.empty(0, np.int32),
        tree_start=tree_start,
        **rest,
    )


def build(chosen: Output, sum_of: Callable[[int], tuple[list[Tree], float]], **rest: Any) -> Model:
    """Build the ensemble of the chosen output, the difference of two, or the softmax of all.

    ``sum_of`` returns the trees and the base of an output; ``rest`` are the remaining fields of
    `Ensemble`.
    """

    def ensemble_of(k: int) -> Ensemble:
        trees, base = sum_of(k)
        return assemble(trees, base=base, link=chosen.link, **rest)

    if chosen.softmax:
        sums = tuple(ensemble_of(k) for k in range(chosen.n_sums))
        return Softmax(sums, chosen.plus, chosen.softmax)
    plus = ensemble_of(chosen.plus)
    return plus if chosen.minus is None else Difference(plus, ensemble_of(chosen.minus))


def names_of(model: Any) -> tuple[str, ...] | None:
    """Return the names of the columns that a scikit-learn model was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None and len(names) != model.n_features_in_:
        raise ModelFormatError(f"it has {model.n_features_in_} features and {len(names)} names.")
    return None if names is None else tuple(str(n) for n in names)


def in_order(tree: Tree) -> Tree:
    """Renumber the nodes so that children follow their parent, without those no path reaches.

    XGBoost keeps pruned nodes in its arrays.
    """
    check_children(tree.left, tree.right)
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
    leaf = tree.left[order] < 0
    return tree._replace(
        feature=tree.feature[order],
        threshold=tree.threshold[order],
        left=np.where(leaf, -1, number[tree.left[order]]),
        right=np.where(leaf, -1, number[tree.right[order]]),
        value=tree.value[order],
        default_left=tree.default_left[order],
        category_set=None if tree.category_set is None else tree.category_set[order],
    )


def members_of(bitset: Array) -> Array:
    """Return the numbers whose bits are set, in words of 32 bits."""
    words = np.ascontiguousarray(bitset, "<u4")
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))


def check_features(n: int) -> None:
    """Refuse a number of features that no real model has, before arrays of that size are made."""
    if not 0 <= n <= MAX_FEATURES:
        raise ModelFormatError(f"it claims {n} features.")


def check_members(total: int) -> None:
    """Refuse sets of categories with more members than a real model has."""
    if total > MAX_MEMBERS:
        raise ModelFormatError(f"its sets of categories have more than {MAX_MEMBERS} members.")


def round_down(threshold: Array) -> Array:
    """Return the largest float32 not above each float64.

    ``float32(x) <= threshold`` and ``float32(x) <= round_down(threshold)`` are the same test.
    """
    with np.errstate(over="ignore"):
        nearest = threshold.astype(np.float32)
        lower = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > threshold, lower, nearest)


def normalized(importances: Any) -> Array:
    """Return importances that sum to 1; uniform where all are zero."""
    weights = np.maximum(np.asarray(importances, np.float64), 0.0)
    total = weights.sum()
    if not 0 < total < np.inf:
        return np.full(weights.size, 1.0 / max(weights.size, 1))
    shares: Array = weights / total
    return shares


def check_children(left: Array, right: Array) -> None:
    """Refuse a tree whose children are out of range."""
    inner = left >= 0
    last = left.size - 1
    if not left.size or (left[inner] > last).any() or (right[inner] > last).any():
        raise ModelFormatError("a tree's children are out of range: its arrays are damaged.")
    if (right[inner] < 0).any():
        raise ModelFormatError("a node has one child only: its tree is damaged.")


def refuse(source: str, why: str, remedy: str) -> NoReturn:
    """Raise the error for a model that does not fit: what it is, why not, what to do."""
    raise UnsupportedModelError(f"{source} is not supported: {why}. {remedy}")


def known_class(model: Any, library: str, known: Iterable[str]) -> type | None:
    """Return the class of a library, among those known by name, that a model is an instance of."""
    for base in type(model).__mro__:
        if base.__name__ in known and base.__module__.split(".")[0] == library:
            return base
    return None


def need_own_predict(model: Any, base: type) -> None:
    """Refuse a subclass that overrides a method of prediction."""
    for method in ("predict", "predict_proba", "decision_function"):
        own = getattr_static(type(model), method, None)
        if own is not getattr_static(base, method, None):
            refuse(
                type(model).__name__,
                f"it changes the {method} of {base.__name__}, and may not be a sum of trees",
                f"Pass a {base.__name__}.",
            )


def need_fitted(source: str, fitted: bool, remedy: str = "Call fit first.") -> None:
    """Refuse a model that has not been fitted."""
    if not fitted:
        raise UnfittedModelError(f"model is a {source} that has not been fitted. {remedy}")
