"""Plain Python truth that the kernels are compared with, and random ensembles to try it on."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from treeopt import Ensemble
from treeopt.model.categories import exact, truncated
from treeopt.model.cells import ZERO_LIMIT


def leaf_of(e: Ensemble, t: int, x: np.ndarray) -> int:
    """Walk one tree as the definition of `Ensemble` says."""
    i = int(e.tree_start[t])
    while e.left[i] >= 0:
        with np.errstate(over="ignore"):
            v = float(e.input_dtype.type(x[e.feature[i]]))
        if math.isnan(v) or v == e.missing_value or (e.zero_missing[i] and abs(v) <= ZERO_LIMIT):
            goes_left = bool(e.default_left[i])
        elif e.category_set[i] >= 0:
            k = e.category_set[i]
            known = e.categories[int(e.feature[i])]
            of = [c for c in range(len(known)) if known.lower[c] < v <= known.upper[c]] or [-1]
            goes_left = of[0] in e.set_member[e.set_start[k] : e.set_start[k + 1]]
        else:
            goes_left = v <= e.threshold[i]
        i = int(e.left[i] if goes_left else e.right[i])
    return i


def predict(e: Ensemble, X: np.ndarray) -> np.ndarray:
    """Predict row by row, adding the trees in order."""
    dtype = e.value.dtype.type
    out = np.empty(len(X), e.value.dtype)
    for r, x in enumerate(X):
        total = dtype(e.base)
        for t in range(e.n_trees):
            total = dtype(total + e.value[leaf_of(e, t, x)])
        out[r] = total / dtype(e.divisor)
    return out


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Compare to the last bit, the sign of zero included."""
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


# Thresholds and inputs from a small pool, so that they often coincide.
POOL = [-1e30, -2.5, -1.0, -ZERO_LIMIT, -0.0, 0.0, ZERO_LIMIT, 0.1, 1.0, 1.5, 3.0, 1e30]


@st.composite
def ensembles(draw: st.DrawFn, max_leaves: int = 90) -> Ensemble:
    """Draw an ensemble of random trees, of any shape, with every way to treat missing values."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_features = draw(st.integers(1, 5))
    input_dtype = np.dtype(draw(st.sampled_from([np.float32, np.float64])))
    value_dtype = draw(st.sampled_from([np.float32, np.float64]))
    zeros = draw(st.booleans())
    trees = [
        random_tree(rng, int(rng.integers(1, draw(st.integers(1, max_leaves)) + 1)), n_features)
        for _ in range(draw(st.integers(1, 20)))
    ]
    sizes = [left.size for left, *_ in trees]
    start = np.cumsum([0, *sizes])
    left, right, feature = (np.concatenate([t[k] for t in trees]) for k in range(3))
    shift = np.repeat(start[:-1], sizes)
    leaf = left < 0
    n = left.size
    pool = np.array([*POOL, *rng.normal(size=20)])
    # +inf parts nothing but missing from the rest; -inf cannot be a threshold.
    threshold = rng.choice(np.append(pool, np.inf), n)
    if input_dtype == np.float32:
        threshold = threshold.astype(np.float32).astype(np.float64)
    categories = {
        j: draw(any_categories(input_dtype)) for j in range(n_features) if draw(st.booleans())
    }
    by_set = ~leaf & np.isin(feature, list(categories))
    sets = [
        rng.choice(len(categories[int(j)]) + 1, rng.integers(0, 5)) - 1 for j in feature[by_set]
    ]
    return Ensemble(
        feature=feature.astype(np.int32),
        threshold=np.where(leaf, np.nan, threshold),
        left=np.where(leaf, -1, left + shift).astype(np.int32),
        right=np.where(leaf, -1, right + shift).astype(np.int32),
        value=np.where(leaf, rng.normal(size=n), 0).astype(value_dtype),
        default_left=~leaf & (rng.random(n) < 0.5),
        zero_missing=~leaf & ~by_set & (rng.random(n) < 0.5) & zeros,
        category_set=np.where(by_set, np.cumsum(by_set) - 1, -1).astype(np.int32),
        set_start=np.cumsum([0, *(len(s) for s in sets)]),
        set_member=np.concatenate([[], *sets]).astype(np.int32),
        tree_start=start,
        categories=categories,
        n_features=n_features,
        feature_names=None,
        importances=np.full(n_features, 1 / n_features),
        input_dtype=input_dtype,
        base=float(value_dtype(rng.normal())),
        divisor=draw(st.sampled_from([1.0, float(len(trees))])),
        missing_value=draw(st.sampled_from([np.nan, 1.0])),
    )


def any_categories(dtype: np.dtype) -> st.SearchStrategy:
    """Draw categories of any of the three libraries' kinds."""
    codes = st.sets(st.integers(0, 100), max_size=40).map(sorted)
    values = st.sets(st.sampled_from([*POOL[1:-1], 2.0, 7.0, -3.0]), max_size=8).map(sorted)
    kinds = [
        codes.map(lambda c: truncated(c, dtype)),
        codes.map(lambda c: truncated(c, dtype, zero_from=-1.0)),
    ]
    if dtype == np.float64:
        kinds.append(values.map(exact))
    return st.one_of(kinds)


def random_tree(rng: np.random.Generator, n_leaves: int, n_features: int) -> tuple:
    """Return left, right and feature of a tree grown by splitting random leaves."""
    n = 2 * n_leaves - 1
    left, right, feature = np.full(n, -1), np.full(n, -1), np.full(n, -1)
    leaves = [0]
    for child in range(1, n, 2):
        node = leaves.pop(int(rng.integers(len(leaves))))
        left[node], right[node] = child, child + 1
        feature[node] = rng.integers(n_features)
        leaves += [child, child + 1]
    return left, right, feature


def points(e: Ensemble, rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw points on, next to and far from thresholds, with missing and infinite values."""
    cuts = e.threshold[np.isfinite(e.threshold)]
    special = [*POOL, np.nan, np.inf, -np.inf, 1.7e308, 5e-324]
    around = np.concatenate([cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)])
    known = [v for c in e.categories.values() for v in (*c.value, *c.lower, *c.upper)]
    pool = np.concatenate([special, rng.normal(size=10), around, known, np.array(known) + 0.5])
    return rng.choice(pool, (n, e.n_features))
