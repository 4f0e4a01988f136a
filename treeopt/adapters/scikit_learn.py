"""scikit-learn: decision trees, forests, bagging, gradient boosting.

Inputs are cast to float32 and compared with float64 thresholds, ``x <= threshold`` to the left; so
each threshold is rounded down to float32. Missing values follow ``missing_go_to_left``. A
classifier's trees hold the shares of the classes, which forests average; boosted ones hold margins.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from treeopt.adapters.base import (
    Tree,
    assemble,
    build,
    check_children,
    check_features,
    known_class,
    names_of,
    need_fitted,
    need_own_predict,
    normalized,
    refuse,
    round_down,
)
from treeopt.adapters.outputs import SoftmaxOf, Task, choose, pick
from treeopt.errors import ModelFormatError
from treeopt.model.ensemble import Ensemble
from treeopt.model.joint import Model
from treeopt.model.link import IDENTITY, Link
from treeopt.types import Array

_WRAPS = "it wraps another model"
_SEARCH = (_WRAPS, "Pass its best_estimator_.")
_MEDIAN = "it predicts a weighted median of its trees, which is not a sum"
_VOTES = "it counts weighted votes of its trees, not their values"

WHY_NOT = {
    "AdaBoostRegressor": (
        _MEDIAN,
        "Train with RandomForestRegressor or GradientBoostingRegressor instead.",
    ),
    "AdaBoostClassifier": (
        _VOTES,
        "Train with RandomForestClassifier or GradientBoostingClassifier instead.",
    ),
    "IsolationForest": (
        "its score is a function of path lengths, not a sum of leaf values",
        "Train with RandomForestRegressor on the score instead.",
    ),
    "Pipeline": (_WRAPS, "Pass its last step, and inputs as the steps before it leave them."),
    "GridSearchCV": _SEARCH,
    "RandomizedSearchCV": _SEARCH,
    "HalvingGridSearchCV": _SEARCH,
    "HalvingRandomSearchCV": _SEARCH,
    "MultiOutputRegressor": (_WRAPS, "Pass one of its estimators_."),
    "MultiOutputClassifier": (_WRAPS, "Pass one of its estimators_."),
    "CalibratedClassifierCV": (_WRAPS, "Pass the classifier that it calibrates."),
    "TransformedTargetRegressor": (_WRAPS, "Pass its regressor_; it has the inner target."),
}
"""Reason and remedy for models that a user might expect to fit."""

CONSTANT_STARTS = {
    "DummyRegressor": ("mean", "median", "quantile", "constant"),
    "DummyClassifier": ("prior", "most_frequent", "uniform", "constant"),
}
"""The estimators, with their strategies, that predict the same for every input."""


def convert(model: Any, output: str, class_index: Any) -> Model:
    """Convert a scikit-learn model; see `treeopt.from_model`."""
    source = type(model).__name__
    base = known_class(model, "sklearn", MODELS)
    if base is None:
        why_not = known_class(model, "sklearn", WHY_NOT)
        if why_not is not None:
            refuse(source, *WHY_NOT[why_not.__name__])
        refuse(source, "it is not one of the known tree models", f"Supported: {', '.join(MODELS)}.")
    need_own_predict(model, base)
    need_fitted(source, any(hasattr(model, a) for a in ("tree_", "estimators_", "_predictors")))
    check_features(int(model.n_features_in_))
    return MODELS[base.__name__](model, output, class_index)


def own_prediction(model: Any, output: str, class_index: Any) -> Callable[[Array], Array]:
    """Return the model's own prediction of the chosen output, on one thread."""
    if hasattr(model, "_predictors"):
        from treeopt.adapters.hist_gradient_boosting import own_prediction as own_hist

        return own_hist(model, output, class_index)
    sequential = copy.copy(model)
    if hasattr(model, "n_jobs"):
        sequential.n_jobs = 1
    call = "predict"
    if hasattr(model, "predict_proba"):
        has_margin = output == "raw" and hasattr(model, "decision_function")
        call = "decision_function" if has_margin else "predict_proba"
    predict = getattr(sequential, call)

    def own(X: Array) -> Array:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
            return pick(predict(X), class_index)

    return own


def _single(model: Any, output: str, class_index: Any) -> Ensemble:
    _check_tree(model.tree_, model.n_features_in_)
    # Adding to -0.0 leaves every value as it is, the sign of zero included.
    members = [(model, None, None)]
    return _averaged(model, members, model.feature_importances_, output, class_index, -0.0)


def _forest(model: Any, output: str, class_index: Any) -> Ensemble:
    members = [(member, None, None) for member in model.estimators_]
    for member in model.estimators_:
        _check_tree(member.tree_, model.n_features_in_)
    importances = _importances(model.estimators_, model.n_features_in_, normalize=True)
    return _averaged(model, members, importances, output, class_index)


def _bagging(model: Any, output: str, class_index: Any) -> Ensemble:
    source = type(model).__name__
    for member in model.estimators_:
        tree = known_class(member, "sklearn", ("DecisionTreeRegressor", "DecisionTreeClassifier"))
        if tree is not None:
            need_own_predict(member, tree)
        else:
            kind = type(member).__name__
            refuse(
                f"{source} of {kind}",
                "only decision trees are read inside it",
                "Train it with estimator=DecisionTreeRegressor() or DecisionTreeClassifier().",
            )
    total = np.zeros(model.n_features_in_)
    members = []
    used = model.estimators_[: model.n_estimators]
    subsets = [np.asarray(columns, np.int64) for columns in model.estimators_features_]
    for member, columns in zip(used, subsets, strict=False):
        _check_tree(member.tree_, columns.size)
        np.add.at(total, columns, member.feature_importances_)
        # A member knows only the classes of its own sample, numbered as the whole knows them.
        members.append((member, columns, getattr(member, "classes_", None)))
    return _averaged(model, members, total, output, class_index)


def _averaged(
    model: Any,
    members: Sequence[tuple[Any, Array | None, Array | None]],
    importances: Array,
    output: str,
    class_index: Any,
    base: float = 0.0,
) -> Ensemble:
    """Convert the mean of trees, each with its columns and classes (None: all)."""
    first = members[0][0]
    task = _averaged_task(model, first)
    k = choose(task, output, class_index).plus
    accepts_nan = bool(first._support_missing_values(np.empty((0, model.n_features_in_))))
    trees = []
    for member, columns, classes in members:
        if task.n_classes:
            tree = _tree(member.tree_, 0, k if classes is None else _position(k, classes))
        else:
            tree = _tree(member.tree_, k, 0)
        if not accepts_nan:
            tree = tree._replace(default_left=np.zeros_like(tree.default_left))
        if columns is not None:
            tree = tree._replace(feature=columns[np.maximum(tree.feature, 0)])
        trees.append(tree)
    return assemble(
        trees,
        base=base,
        divisor=float(len(members)),
        accepts_nan=accepts_nan,
        importances=normalized(importances),
        **_common(model),
    )


def _importances(members: Iterable[Any], n_features: int, normalize: bool) -> Array:
    """Return ``feature_importances_`` of a forest or of boosted trees, bit for bit.

    scikit-learn's own property first lists those of all members: one number per tree and feature,
    which is too much where a file claims millions of features.
    """
    total, count = np.zeros(n_features), 0
    for member in members:
        if member.tree_.node_count > 1:
            total += member.tree_.compute_feature_importances(normalize=normalize)
            count += 1
    mean = total / max(count, 1)
    importances: Array = mean / (np.sum(mean) if count else 1.0)
    return importances


def _averaged_task(model: Any, member: Any) -> Task:
    """Return what a mean of trees predicts."""
    source = type(model).__name__
    n_outputs = int(member.n_outputs_)
    if not hasattr(model, "classes_"):
        return Task(source, IDENTITY, n_outputs)
    if n_outputs > 1:
        refuse(
            f"{source} with {n_outputs} outputs",
            "its probabilities are a table per output",
            "Train one classifier for each output.",
        )
    n = int(model.n_classes_)
    return Task(source, IDENTITY, n, n, labels=True)


def _position(k: int, classes: Array) -> int | None:
    """Return where class ``k`` stands among the classes of one member; None if it has not."""
    found = np.flatnonzero(np.asarray(classes) == k)
    return int(found[0]) if found.size else None


def _boosted(model: Any, output: str, class_index: Any) -> Model:
    chosen = choose(_boosted_task(model), output, class_index)
    start = _start(model)
    for stage in model.estimators_.ravel():
        _check_tree(stage.tree_, model.n_features_in_)
    return build(
        chosen,
        lambda k: (_stages(model, k), float(start[k])),
        accepts_nan=False,
        importances=normalized(
            _importances(model.estimators_.ravel(), model.n_features_in_, normalize=False)
        ),
        **_common(model),
    )


def _boosted_task(model: Any) -> Task:
    source = type(model).__name__
    if not hasattr(model, "classes_"):
        return Task(source, IDENTITY)
    n = int(model.n_classes_)
    if n > 2:
        return Task(source, SoftmaxOf("sklearn"), n, n, labels=True)
    # The exponential loss has half the margin of the logistic one.
    slope = 2.0 if model.loss == "exponential" else 1.0
    return Task(source, Link("logistic", slope), 1, 2, labels=True)


def _stages(model: Any, k: int) -> list[Tree]:
    stages = [_tree(stage.tree_, 0, 0) for stage in model.estimators_[:, k]]
    return [
        t._replace(value=model.learning_rate * t.value, default_left=np.zeros_like(t.default_left))
        for t in stages
    ]


def _start(model: Any) -> Array:
    """Return the constants that boosting starts from, one per sum."""
    init = model.init_
    kind = type(init).__name__
    if init != "zero" and getattr(init, "strategy", None) not in CONSTANT_STARTS.get(kind, ()):
        refuse(
            type(model).__name__,
            f"it starts from the predictions of {kind}, which are not a sum of trees",
            "Fit with init=None or init='zero'.",
        )
    n_sums = model.estimators_.shape[1]
    n_classes = getattr(init, "n_classes_", n_sums)
    if model.n_trees_per_iteration_ != n_sums or n_classes not in (n_sums, n_sums + 1):
        raise ModelFormatError("it starts from another number of outputs than it has.")
    row = np.zeros((1, model.n_features_in_), np.float32)
    start: Array = model._raw_predict_init(row)[0]
    return start


def _check_tree(tree: Any, n_features: int) -> None:
    """Refuse a tree whose arrays are damaged, before scikit-learn follows them itself."""
    if not 0 < tree.node_count <= tree.capacity:
        raise ModelFormatError(
            f"a tree claims {tree.node_count} nodes and has {tree.capacity}: it is damaged."
        )
    left = tree.children_left
    check_children(left, tree.children_right)
    feature = tree.feature[left >= 0]
    if (
        tree.n_features != n_features
        or (left < -1).any()
        or (feature < 0).any()
        or (feature >= n_features).any()
    ):
        raise ModelFormatError("a tree reads features or children that are not there.")


def _tree(tree: Any, row: int, column: int | None) -> Tree:
    """Read one tree; its values are those of an output and a class (None: zero)."""
    values = tree.value
    own = np.zeros(len(values)) if column is None else values[:, row, column]
    return Tree(
        feature=tree.feature,
        threshold=round_down(tree.threshold),
        left=tree.children_left,
        right=tree.children_right,
        value=np.ascontiguousarray(own),
        default_left=tree.missing_go_to_left.astype(bool),
    )


def _common(model: Any) -> dict[str, Any]:
    is_bagging = hasattr(model, "estimators_features_")  # which hands arrays to its trees
    return {
        "n_features": int(model.n_features_in_),
        "feature_names": names_of(model),
        "input_dtype": np.dtype(np.float32),
        "cast_apart": "never" if is_bagging else "nullable",
        "accepts_inf": False,
        "source": type(model).__name__,
    }


def _hist_boosted(model: Any, output: str, class_index: Any) -> Model:
    from treeopt.adapters.hist_gradient_boosting import convert as convert_hist

    return convert_hist(model, output, class_index)


MODELS: dict[str, Callable[[Any, str, Any], Model]] = {
    "DecisionTreeRegressor": _single,
    "DecisionTreeClassifier": _single,
    "ExtraTreeRegressor": _single,
    "ExtraTreeClassifier": _single,
    "RandomForestRegressor": _forest,
    "RandomForestClassifier": _forest,
    "ExtraTreesRegressor": _forest,
    "ExtraTreesClassifier": _forest,
    "BaggingRegressor": _bagging,
    "BaggingClassifier": _bagging,
    "GradientBoostingRegressor": _boosted,
    "GradientBoostingClassifier": _boosted,
    "HistGradientBoostingRegressor": _hist_boosted,
    "HistGradientBoostingClassifier": _hist_boosted,
}
"""The models that are read, and how."""
