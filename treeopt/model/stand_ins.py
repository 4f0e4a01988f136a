"""Small ensembles that stand in for models when kernels are compiled ahead of time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeopt.model.categories import truncated
from treeopt.model.ensemble import Ensemble


def with_categories(ensemble: Ensemble) -> Ensemble:
    """Return an ensemble of the same shape whose splits are by category."""
    inner = np.flatnonzero(ensemble.left >= 0)
    category_set = np.full(ensemble.n_nodes, -1, np.int32)
    category_set[inner] = np.arange(inner.size)
    return replace(
        ensemble,
        category_set=category_set,
        set_start=np.arange(inner.size + 1),
        set_member=np.arange(inner.size, dtype=np.int32),
        categories={0: truncated(range(inner.size), ensemble.input_dtype)},
    )


def staircase(n_leaves: int, value_dtype: type) -> Ensemble:
    """Return an ensemble of one tree that parts a line into ``n_leaves`` intervals."""
    inner = np.arange(n_leaves - 1)
    n = 2 * n_leaves - 1
    feature = np.full(n, -1, np.int32)
    left, right = feature.copy(), feature.copy()
    threshold = np.full(n, np.nan)
    feature[2 * inner] = 0
    threshold[2 * inner] = inner
    left[2 * inner] = 2 * inner + 1
    right[2 * inner] = 2 * inner + 2
    return Ensemble(
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        value=np.where(left < 0, np.arange(n), 0).astype(value_dtype),
        default_left=np.zeros(n, np.bool_),
        zero_missing=np.zeros(n, np.bool_),
        tree_start=np.array([0, n]),
        n_features=1,
        feature_names=None,
        importances=np.ones(1),
        input_dtype=np.dtype(np.float32),
    )
