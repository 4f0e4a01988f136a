"""scikit-learn's HistGradientBoosting.

Inputs are float64, ``x <= threshold`` goes left, sums are float64 in tree order. Categorical
columns are encoded first and moved to the front. At a split by categories, those in the set go
left, other known ones right; what is unknown follows the missing values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from treeopt.adapters.base import (
    Tree,
    build,
    check_children,
    members_of,
    names_of,
    normalized,
    refuse,
)
from treeopt.adapters.outputs import SoftmaxOf, Task, choose, pick
from treeopt.errors import ModelFormatError
from treeopt.model.categories import Categories, exact
from treeopt.model.joint import Model
from treeopt.model.link import IDENTITY, Link
from treeopt.types import Array

LINKS = {
    "squared_error": IDENTITY,
    "absolute_error": IDENTITY,
    "quantile": IDENTITY,
    "gamma": Link("exp", by_numpy=True),
    "poisson": Link("exp", by_numpy=True),
}
"""From each loss of the regressor to its link."""

FIELDS = (
    *("value", "feature_idx", "num_threshold", "missing_go_to_left", "left", "right"),
    *("is_leaf", "is_categorical", "bitset_idx", "gain"),
)
"""The fields of a node that are read; they are not public."""

MAX_CATEGORIES = 256
"""scikit-learn's limit on the categories of a feature, one of which stands for missing values."""


def convert(model: Any, output: str, class_index: Any) -> Model:
    """Convert a HistGradientBoosting model; see `treeopt.from_model`."""
    chosen = choose(_task(model), output, class_index)
    columns, categories = _columns(model)
    known = _known_codes(model)
    start = np.ravel(model._baseline_prediction)

    def sum_of(k: int) -> tuple[list[Tree], float]:
        stages = [_tree(stage[k], columns, categories, known) for stage in model._predictors]
        return stages, float(start[k])

    n_features = int(model.n_features_in_)
    gain = np.zeros(n_features)
    for stage in model._predictors:
        for predictor in stage:
            inner = predictor.nodes[predictor.nodes["is_leaf"] == 0]
            np.add.at(gain, columns[inner["feature_idx"]], inner["gain"])
    return build(
        chosen,
        sum_of,
        categories=categories,
        n_features=n_features,
        feature_names=names_of(model),
        importances=normalized(gain),
        input_dtype=np.dtype(np.float64),
        array_dtype=np.dtype(np.float64),
        source=type(model).__name__,
    )


def own_prediction(model: Any, output: str, class_index: Any) -> Callable[[Array], Array]:
    """Return the model's own prediction of the chosen output."""
    if output == "raw":
        predict = getattr(model, "decision_function", lambda X: model._raw_predict(X).ravel())
    else:
        predict = getattr(model, "predict_proba", model.predict)

    def own(X: Array) -> Array:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
            given = _with_labels(model, X) if isinstance(X, np.ndarray) else X
            return pick(predict(given), class_index)

    return own


def _with_labels(model: Any, X: Array) -> Array:
    """Return a matrix of numbers with the labels, where the model knows others than numbers."""
    labeled = {j: known for j, known in _columns(model)[1].items() if not known.are_values}
    if not labeled:
        return X
    matrix = X.astype(object)
    for j, known in labeled.items():
        values = X[:, j].astype(np.float64)
        names = known.labels or ()
        unknown = "?" * (1 + max((len(str(v)) for v in names), default=0))
        labels = np.empty(len(names) + 1, object)
        labels[:] = [*names, unknown]
        matrix[:, j] = labels[known.index_of(values)]
        matrix[np.isnan(values), j] = np.nan
    return matrix


def _task(model: Any) -> Task:
    source = type(model).__name__
    if not hasattr(model, "classes_"):
        if model.loss not in LINKS:
            refuse(
                f"{source} with loss={model.loss!r}",
                "the function from its sum to its prediction is unknown",
                f"Train with one of {', '.join(LINKS)}.",
            )
        return Task(source, LINKS[model.loss])
    n = len(model.classes_)
    if n > 2:
        return Task(source, SoftmaxOf("sklearn_hist"), n, n, labels=True)
    return Task(source, Link("logistic"), 1, 2, labels=True)


def _columns(model: Any) -> tuple[Array, dict[int, Categories]]:
    """Return the input column of each encoded one, and the categories of those that have them."""
    n = int(model.n_features_in_)
    if model._preprocessor is None:
        return np.arange(n), {}
    is_categorical = np.asarray(model.is_categorical_, bool)
    if is_categorical.shape != (n,):
        raise ModelFormatError(f"{is_categorical.size} of {n} features are or are not categorical.")
    columns = np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)])
    encoder = model._preprocessor.named_transformers_["encoder"]
    categories = {}
    for column, labels in zip(columns, encoder.categories_, strict=False):
        # To scikit-learn None is a category, and only NaN is missing.
        if len(labels) > MAX_CATEGORIES:
            raise ModelFormatError(f"a feature has {len(labels)} categories.")
        known = [v for v in labels.tolist() if v is None or v == v]
        numbers = all(isinstance(v, int | float) and v == float(v) for v in known)
        values = known if numbers else range(len(known))
        categories[int(column)] = exact(values, labels=tuple(known), recode="labels", finite=True)
    return columns, categories


def _known_codes(model: Any) -> dict[int, Array]:
    """Return the encoded categories, per encoded column, that the splits know."""
    bitsets, row = model._bin_mapper.make_known_categories_bitsets()
    if model.is_categorical_ is None:
        return {}
    encoded = np.flatnonzero(model._is_categorical_remapped)
    return {int(j): members_of(bitsets[row[j]]) for j in encoded}


def _tree(
    predictor: Any, columns: Array, categories: dict[int, Categories], known: dict[int, Array]
) -> Tree:
    nodes = predictor.nodes
    if any(name not in (nodes.dtype.names or ()) for name in FIELDS):
        raise ModelFormatError(
            "the nodes of this scikit-learn's HistGradientBoosting have other fields than known: "
            f"{nodes.dtype.names}. Use scikit-learn 1.6 to 1.9."
        )
    if nodes.ndim != 1:
        raise ModelFormatError("the nodes of a tree are not a list.")
    leaf = nodes["is_leaf"] != 0
    feature = np.where(leaf, 0, nodes["feature_idx"])
    if (feature < 0).any() or (feature >= columns.size).any():
        raise ModelFormatError("a split reads a feature that is not there.")
    left = np.where(leaf, -1, nodes["left"].astype(np.int64))
    right = np.where(leaf, -1, nodes["right"].astype(np.int64))
    check_children(left, right)
    missing_left = nodes["missing_go_to_left"] != 0
    by_set = np.flatnonzero(~leaf & (nodes["is_categorical"] != 0))
    category_set = np.full(leaf.size, -1)
    category_set[by_set] = np.arange(by_set.size)
    sets = []
    for node in by_set:
        column = int(columns[feature[node]])
        at = int(nodes["bitset_idx"][node])
        if column not in categories or at >= len(predictor.raw_left_cat_bitsets):
            raise ModelFormatError("a split reads categories that are not there.")
        if 32 * predictor.raw_left_cat_bitsets.shape[1] > MAX_CATEGORIES:
            raise ModelFormatError("a split reads more categories than a feature can have.")
        members = members_of(predictor.raw_left_cat_bitsets[at])
        everything = np.arange(-1, len(categories[column]))
        unknown = np.setdiff1d(everything, known[int(feature[node])])
        goes_left = members[members < len(categories[column])]
        if missing_left[node]:
            goes_left = np.union1d(goes_left, unknown)
        sets.append(goes_left.astype(np.int32))
    return Tree(
        feature=columns[feature],
        threshold=nodes["num_threshold"],
        left=left,
        right=right,
        value=np.ascontiguousarray(nodes["value"]),
        default_left=missing_left,
        category_set=category_set if sets else None,
        sets=sets,
    )
