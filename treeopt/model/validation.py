"""Checks of the arrays of a model; kernels index them without looking."""

from __future__ import annotations

import numpy as np

from treeopt.errors import ModelFormatError
from treeopt.model.inputs import listed
from treeopt.model.link import LINKS
from treeopt.model.trees import FLOATS, Trees
from treeopt.types import Array

MAX_FEATURES = 10_000_000
"""Maximum number of columns; models with more are considered damaged."""


def validate(e: Trees) -> None:
    """Raise ModelFormatError unless the arrays describe proper trees."""
    _require(e, e.link.name in LINKS, f"the link {e.link.name!r} is not one of {listed(LINKS)}")
    is_float = e.value.dtype in FLOATS and e.input_dtype in FLOATS
    _require(e, is_float, "values and inputs must be float32 or float64")
    _require(e, 0 <= e.n_features <= MAX_FEATURES, f"it claims {e.n_features} features")
    _require(e, e.importances.shape == (e.n_features,), "there must be one importance per feature")
    named = e.feature_names is None or len(e.feature_names) == e.n_features
    _require(e, named, "there must be one name per feature")
    n = e.left.size
    per_node = (e.feature, e.threshold, e.right, e.value, e.default_left, e.zero_missing)
    same = all(a.shape == (n,) for a in (*per_node, e.category_set))
    _require(e, same, "the node arrays differ in length")
    start = e.tree_start
    whole = (
        start.size >= 2 and start[0] == 0 and start[-1] == n and bool((np.diff(start) > 0).all())
    )
    _require(e, whole, "there are no trees, or a tree has no nodes")
    inner = np.flatnonzero(e.left >= 0)
    children = np.concatenate([e.left[inner], e.right[inner]]).astype(np.int64)
    parents = np.concatenate([inner, inner])
    tree = np.repeat(np.arange(start.size - 1), np.diff(start))
    in_order = (
        bool(((children > parents) & (children < n)).all())
        and children.size == n - (start.size - 1)
        and np.bincount(children, minlength=n).max(initial=0) <= 1
        and bool((tree[children] == tree[parents]).all())
    )
    _require(e, in_order, "the children of a node are not a tree in order")
    feature, threshold = e.feature[inner], e.threshold[inner]
    known = bool(((feature >= 0) & (feature < e.n_features)).all())
    _require(e, known, "a split reads a feature that is not there")
    by_set = e.category_set[inner] >= 0
    ordered = ~(np.isnan(threshold) | np.isneginf(threshold))
    _require(e, bool((ordered | by_set).all()), "a threshold is NaN or -inf")
    _validate_numbers(e)
    _validate_sets(e, inner[by_set], np.unique(feature[~by_set]))


def _validate_numbers(e: Trees) -> None:
    """Check that all numbers which are added are finite in the precision of the sum.

    Values of inner nodes are ignored.
    """
    remedy = "Train the model on a scaled target, such as y / 1e10"
    leaf_value = e.value[e.left < 0]
    bad = leaf_value[~np.isfinite(leaf_value)].tolist()
    share = f"{len(bad)} of {leaf_value.size} leaf values are not finite, the first is"
    _require(e, not bad, f"{share} {[*bad, 0][0]}. {remedy}")
    with np.errstate(all="ignore"):
        base, divisor = np.array([e.base, e.divisor]).astype(e.value.dtype)
    start = f"base is {base} as {base.dtype}, not finite. {remedy}"
    is_finite = bool(np.isfinite(base))
    _require(e, is_finite, f"{start}; if it has a base_score, with one that is positive")
    positive = bool(0 < divisor < np.inf)
    _require(e, positive, f"the divisor is {divisor} as {divisor.dtype}. Pass a positive number")


def _validate_sets(e: Trees, nodes: Array, ordered: Array) -> None:
    """Check the sets of categories; ``nodes`` split by them, ``ordered`` are other features."""
    start, member = e.set_start, e.set_member
    whole = start.size >= 1 and start[0] == 0 and start[-1] == member.size
    _require(e, whole and bool((np.diff(start) >= 0).all()), "the sets of categories are damaged")
    used = np.unique(e.feature[nodes])
    apart = not np.isin(used, ordered).any()
    _require(e, apart, "a feature is split both by threshold and by category")
    listed_all = all(int(j) in e.categories for j in used)
    _require(e, listed_all, "a feature is split by categories that are not given")
    _require(e, not e.zero_missing[nodes].any(), "zero cannot be missing among categories")
    n_sets = start.size - 1
    _require(e, bool((e.category_set < n_sets).all()), "a split reads a set that is not there")
    largest = np.full(n_sets, np.iinfo(np.int32).max)
    for j in used:
        sets = e.category_set[nodes[e.feature[nodes] == j]]
        np.minimum.at(largest, sets, len(e.categories[int(j)]) - 1)
    within = (member >= -1) & (member <= np.repeat(largest, np.diff(start)))
    _require(e, bool(within.all()), "a set holds a category that is not there")
    for j, categories in e.categories.items():
        _require(e, 0 <= j < e.n_features, f"feature {j}, which has categories, is not there")
        shapes = {a.shape for a in (categories.value, categories.lower, categories.upper)}
        _require(e, shapes == {(len(categories),)}, "categories differ in length")
        ends = np.column_stack([categories.lower, categories.upper]).ravel()
        rising = bool((np.diff(ends) >= 0).all() and (categories.lower < categories.upper).all())
        _require(e, rising and not np.isnan(ends).any(), "categories overlap or are out of order")


def _require(e: Trees, holds: bool, otherwise: str) -> None:
    if not holds:
        raise ModelFormatError(f"{e.source}: {otherwise}.")
