"""Random tables with categories of every kind, models of them, and the data as oracle.

Categories are rare, unused, dropped in training, in no split, called by text or by integers of
any type; columns are called by text or by numbers that are not their positions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from treeopt import Decision, Status

WHOLE = ("int64", "int32", "int16", "int8", "uint8")
LABELS = {
    "xgboost": ("text", *WHOLE, "negative", "large", "gaps"),
    "lightgbm": ("text", "umlauts", *WHOLE, "negative", "large", "gaps", "halves", "flags"),
    "hist": ("text", "umlauts", *WHOLE, "negative", "large", "gaps", "halves"),
}


@dataclass
class Table:
    """A fitted model, its data, and its own prediction."""

    model: Any
    X: Any
    own: Callable[[Any], np.ndarray]
    y: np.ndarray
    marker: float = np.nan

    def complete(self, but: Sequence[Any] = ()) -> np.ndarray:
        """Return which rows have no missing value, but in some columns; no label is missing."""
        X = pd.DataFrame(self.X).drop(columns=list(but))
        missing = X.isna()
        for c in X:
            if not isinstance(X[c].dtype, pd.CategoricalDtype):
                missing[c] |= X[c] == self.marker
        return ~missing.any(axis=1).to_numpy()

    def check(self, res: Decision, sense: str, allowed: np.ndarray | None = None) -> None:
        """The model predicts the value for the frame, and no (allowed) row beats the bound."""
        assert res.status is Status.OPTIMAL
        is_frame = isinstance(self.X, pd.DataFrame)
        asked = res.frame if is_frame else res._point[None, :]
        assert float(self.own(asked)[0]) == res.fun
        rows = self.X[self.complete() if allowed is None else allowed]
        if len(rows):
            values = self.own(rows).astype(np.float64)
            assert values.min() >= res.bound if sense == "min" else values.max() <= res.bound


def labels(rng: np.random.Generator, kind: str, k: int) -> pd.Index:
    """Return k labels of a kind."""
    if kind in WHOLE:
        return pd.Index(np.arange(1, k + 1), dtype=kind)
    made = {
        "text": [f"k{i:02d}" for i in range(k)],
        "umlauts": [f"ä{i}" for i in range(k)],
        "negative": np.arange(k) - k // 2,
        "large": 2**60 + 1 + np.arange(k),
        "gaps": np.sort(rng.choice(1000, k, replace=False)),
        "halves": np.arange(k) + 0.5,
        "flags": [False, True],
    }
    return pd.Index(made[kind])


def codes(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """Return codes of which some are rare, or do not occur."""
    share = rng.dirichlet(np.full(k, rng.choice([0.1, 0.5, 3.0])))
    drawn = rng.choice(k, n, p=share)
    if rng.random() < 0.5:
        drawn[: rng.integers(1, 4)] = rng.integers(k)
    return drawn


def numbers(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a column of numbers of any type."""
    kind = rng.choice(["float", "single", "whole", "flags", "like codes", "missing"])
    column = rng.normal(size=n)
    if kind == "missing":
        column[rng.random(n) < 0.2] = np.nan
    made = {
        "single": column.astype(np.float32),
        "whole": rng.integers(-3, 9, n),
        "flags": column > 0,
        "like codes": rng.integers(0, 6, n),
    }
    return made.get(kind, column)


def frame(rng: np.random.Generator, library: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a random frame and target."""
    n = int(rng.integers(20, 300))
    y = rng.normal(size=n) * rng.choice([0.0, 0.3])
    columns: list[tuple[str, Any]] = []
    for j in range(rng.integers(1, 4)):
        names = labels(rng, rng.choice(LABELS[library]), int(rng.integers(2, 12)))
        own = codes(rng, len(names), n)
        if rng.random() < 0.2:
            own = np.where(rng.random(n) < 0.1, -1, own)
        columns.append((f"c{j}", pd.Categorical.from_codes(own, names)))
        if rng.random() < 0.8:
            y += 3 * rng.normal(size=len(names) + 1)[own]
    for j in range(rng.integers(0, 3)):
        columns.append((f"x {j}", numbers(rng, n)))
        y += 0.7 * np.nan_to_num(np.asarray(columns[-1][1], float))
    order = rng.permutation(len(columns))
    made = pd.DataFrame({columns[k][0]: columns[k][1] for k in order})
    if rng.random() < 0.25 and library != "hist":  # to which only text is a name
        made.columns = rng.choice(20, len(columns), replace=False)
    return made, y


def array(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return a random matrix with columns of codes, a target, and which columns these are."""
    n, p = int(rng.integers(20, 300)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, p))
    coded = [j for j in range(p) if rng.random() < 0.7] or [0]
    y = np.nansum(X, axis=1) + rng.normal(size=n) * rng.choice([0.0, 0.3])
    for j in coded:
        k = int(rng.integers(2, 12))
        X[:, j] = codes(rng, k, n)
        y += 3 * rng.normal(size=k)[X[:, j].astype(int)]
    for j in set(range(p)) - set(coded):
        X[rng.random(n) < 0.1, j] = np.nan
    return X, y, coded


def fit(rng: np.random.Generator, library: str, X: Any, y: np.ndarray, coded: Any) -> Table:
    """Return a random model of a table; ``coded`` are the columns of an array that are codes."""
    n = int(rng.integers(1, 25))
    is_class = bool(rng.random() < 0.25 and np.unique(y > np.median(y)).size == 2)
    target = (y > np.median(y)).astype(int) if is_class else y
    is_frame = isinstance(X, pd.DataFrame)
    is_bare = library != "hist" and rng.random() < 0.3
    marker = np.nan
    if library == "xgboost" and not is_bare and rng.random() < 0.3:
        marker = float(rng.choice([0.0, 2.0, -1.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library == "xgboost":
            kinds = None if is_frame else ["c" if j in coded else "q" for j in range(X.shape[1])]
            model = (xgb.XGBClassifier if is_class else xgb.XGBRegressor)(
                n_estimators=n,
                max_depth=int(rng.integers(1, 6)),
                max_cat_to_onehot=int(rng.choice([1, 4, 20])),
                enable_categorical=True,
                feature_types=kinds,
                missing=marker,
                n_jobs=1,
            ).fit(X, target)
        elif library == "lightgbm":
            model = (lgb.LGBMClassifier if is_class else lgb.LGBMRegressor)(
                n_estimators=n,
                num_leaves=int(rng.integers(2, 20)),
                min_child_samples=int(rng.choice([1, 5, 20])),
                min_data_per_group=int(rng.choice([1, 10, 100])),
                cat_smooth=float(rng.choice([1, 10])),
                max_cat_to_onehot=int(rng.choice([1, 4, 20])),
                n_jobs=1,
                verbose=-1,
            ).fit(X, target, categorical_feature="auto" if is_frame else coded)
        else:
            kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
            model = kind(
                max_iter=n,
                categorical_features="from_dtype" if is_frame else coded,
                min_samples_leaf=int(rng.choice([1, 5, 20])),
            ).fit(X, target)
    own = model.predict
    if is_class:
        own = lambda rows: model.predict_proba(rows)[:, 1]  # noqa: E731
    if is_bare:
        model, own = bare(library, model)
    return Table(model, X, quiet(own), y, marker)


def bare(library: str, model: Any) -> tuple[Any, Callable[[Any], np.ndarray]]:
    """Return the Booster of a model, and how a user predicts with it."""
    if library == "lightgbm":
        return model.booster_, model.booster_.predict
    booster = model.get_booster()

    def predict(rows: Any) -> np.ndarray:
        kinds = {} if hasattr(rows, "columns") else {"feature_types": booster.feature_types}
        return booster.predict(xgb.DMatrix(rows, enable_categorical=True, **kinds))

    return booster, predict


def quiet(own: Callable[[Any], np.ndarray]) -> Callable[[Any], np.ndarray]:
    """Return a prediction without the library's warnings about names."""

    def predict(rows: Any) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return own(rows)

    return predict


def random_table(seed: Any, library: str, as_frame: bool) -> Table:
    """Return a random table with its model."""
    rng = np.random.default_rng(seed)
    X, y, *coded = frame(rng, library) if as_frame else array(rng)
    return fit(rng, library, X, y, *coded or [None])
