"""Small fitted models of every supported kind, and what their own library predicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.base import clone

import treeopt

NAMES = ("temp", "flow rate", "pH", "d")


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model, the data it was trained on, and the output that is asked for."""

    model: Any
    X: Any
    output: str = "auto"
    class_index: int | None = None

    @cached_property
    def ensemble(self) -> treeopt.Ensemble:
        return treeopt.from_model(self.model, output=self.output, class_index=self.class_index)

    @cached_property
    def matrix(self) -> np.ndarray:
        """The training data as a float64 matrix."""
        return np.asarray(self.X, np.float64)

    @property
    def input_dtype(self) -> type:
        """What the library casts inputs to before it compares them."""
        return np.float64 if isinstance(self.model, lgb.LGBMModel | lgb.Booster) else np.float32

    def own(self, X: Any) -> np.ndarray:
        """The library's own prediction: the only judge."""
        raw = self.output == "raw"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(self.model, xgb.Booster):
                kind = "margin" if raw else "value"
                result = self.model.inplace_predict(X, predict_type=kind)
            elif isinstance(self.model, xgb.XGBModel):
                result = self.model.predict(X, output_margin=raw)
            elif isinstance(self.model, lgb.LGBMModel | lgb.Booster):
                result = self.model.predict(X, raw_score=raw, num_threads=1)
            else:
                result = self.model.predict(X)
        return result if result.ndim == 1 else np.ascontiguousarray(result[:, self.class_index])

    @cached_property
    def accepts_nan(self) -> bool:
        return self._accepts(np.nan)

    @cached_property
    def accepts_inf(self) -> bool:
        return self._accepts(np.inf)

    def _accepts(self, value: float) -> bool:
        try:
            self.own(np.full((1, self.matrix.shape[1]), value))
        except ValueError:
            return False
        return True

    @property
    def own_importances(self) -> np.ndarray:
        """The importances that the library itself reports (gain where it offers a choice)."""
        n = self.matrix.shape[1]
        if isinstance(self.model, xgb.Booster):
            gain = self.model.get_score(importance_type="gain")
            names = self.model.feature_names or [f"f{i}" for i in range(n)]
            return np.array([gain.get(name, 0.0) for name in names])
        if isinstance(self.model, lgb.Booster):
            return self.model.feature_importance("gain")
        return self.model.feature_importances_

    @property
    def own_names(self) -> tuple[str, ...] | None:
        """The names that the library keeps for the columns of a frame; None without a frame."""
        if not isinstance(self.X, pd.DataFrame):
            return None
        if isinstance(self.model, xgb.XGBModel):
            return tuple(self.model.get_booster().feature_names)
        if isinstance(self.model, xgb.Booster):
            return tuple(self.model.feature_names)
        if isinstance(self.model, lgb.LGBMModel):
            return tuple(self.model.feature_name_)
        if isinstance(self.model, lgb.Booster):
            return tuple(self.model.feature_name())
        return tuple(self.model.feature_names_in_)


Factory = Callable[[int], Case]


def _sparse(X: np.ndarray, rng: np.random.Generator, value: float, share: float = 0.3):
    return np.where(rng.random(X.shape) < share, value, X)


def _only_missing(rng: np.random.Generator) -> np.ndarray:
    """Columns whose only information is whether they are missing."""
    return np.where(rng.random((200, 3)) < 0.4, np.nan, 1.0)


DATA: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "plain": lambda rng: rng.normal(size=(200, 4)),
    "nan": lambda rng: _sparse(rng.normal(size=(200, 4)), rng, np.nan),
    "zeros": lambda rng: _sparse(rng.normal(size=(200, 4)), rng, 0.0),
    "zeros-nan": lambda rng: _sparse(_sparse(rng.normal(size=(200, 4)), rng, 0.0), rng, np.nan),
    "-999": lambda rng: _sparse(rng.normal(size=(200, 4)), rng, -999.0),
    "only-missing": _only_missing,
    "integers": lambda rng: rng.integers(-5, 6, (200, 3)).astype(np.float64),
    "tenths": lambda rng: np.round(rng.normal(size=(200, 3)), 1),
    "duplicates": lambda rng: np.round(rng.normal(size=(200, 3)) * 2) / 2,
    # Neighbouring float32 numbers: a threshold between two of them is none itself. scikit-learn
    # parts them only from 2 on, LightGBM merges float64 neighbours.
    "float32-steps": lambda rng: 2.0 + 2.0**-22 * rng.integers(0, 9, (200, 3)),
    "float64-steps": lambda rng: 1.0 + 2.0**-50 * rng.integers(0, 9, (200, 3)),
    "tiny": lambda rng: rng.normal(size=(200, 3)) * 1e-40,
    "sliver": lambda rng: rng.normal(size=(200, 3)) * 1e-35,
    "large": lambda rng: rng.normal(size=(200, 3)) * 1e30,
    "largest": lambda rng: rng.uniform(-3.4e38, 3.4e38, (200, 3)),
    "lowest": lambda rng: rng.choice([-3.3e38, -3.0e38], (200, 2)),
    "one": lambda rng: rng.normal(size=(150, 1)),
    "wide": lambda rng: rng.normal(size=(120, 300)),
    "many": lambda rng: rng.normal(size=(500, 4)),
}


def dataset(data: str, seed: int, n_targets: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs of the given kind and a target that depends on all of them."""
    rng = np.random.default_rng([seed, list(DATA).index(data)])
    X = DATA[data](rng)
    low, high = np.nanmin(X), np.nanmax(X)
    Z = np.nan_to_num((X / 2 - low / 2) / max(high / 2 - low / 2, 5e-324), nan=1.3)[:, :5]
    y = np.column_stack(
        [np.sin((k + 2) * Z * np.arange(2, Z.shape[1] + 2)).sum(axis=1) for k in range(n_targets)]
    )
    y = np.abs(y + rng.normal(size=y.shape) * 0.1)
    return X, y if n_targets > 1 else y[:, 0]


def named(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list(NAMES[: X.shape[1]]))


def fit(
    estimator: Any,
    data: str = "plain",
    *,
    frame: bool = False,
    n_targets: int = 1,
    constant: bool = False,
    early_stopping: bool = False,
    **case: Any,
) -> Factory:
    """Return a factory that fits a scikit-learn style estimator; the argument is the seed."""

    def make(seed: int) -> Case:
        X, y = dataset(data, seed, n_targets)
        X = named(X) if frame else X
        y = np.full_like(y, 3.0) if constant else y
        model = clone(estimator).set_params(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not early_stopping:
                model.fit(X, y)
            elif isinstance(model, lgb.LGBMModel):
                stop = lgb.early_stopping(2, verbose=False)
                model.fit(X[:100], y[:100], eval_set=[(X[100:], y[100:])], callbacks=[stop])
            else:
                model.fit(X[:100], y[:100], eval_set=[(X[100:], y[100:])], verbose=False)
        return Case(model, X, **case)

    return make


def train_xgboost(
    data: str = "plain",
    rounds: int = 8,
    *,
    frame: bool = False,
    part: slice | None = None,
    stop: bool = False,
    target: Callable[[np.ndarray], np.ndarray] = np.positive,
    output: str = "auto",
    class_index: int | None = None,
    **params: Any,
) -> Factory:
    """Return a factory of bare Boosters; ``part`` slices the trained one."""

    def make(seed: int) -> Case:
        X, y = dataset(data, seed)
        X, y = named(X) if frame else X, target(y)
        train, valid = xgb.DMatrix(X[:100], y[:100]), xgb.DMatrix(X[100:], y[100:])
        booster = xgb.train(
            {"seed": seed, "max_depth": 4, "nthread": 1, **params},
            train,
            rounds,
            evals=[(valid, "valid")],
            early_stopping_rounds=2 if stop else None,
            verbose_eval=False,
        )
        return Case(booster if part is None else booster[part], X, output, class_index)

    return make


def prune_xgboost(seed: int) -> Case:
    """A Booster whose trees were pruned later: its node arrays keep the deleted nodes."""
    case = train_xgboost(rounds=4)(seed)
    train = xgb.DMatrix(*dataset("plain", seed))
    update = {"process_type": "update", "updater": "prune", "gamma": 1.0, "nthread": 1}
    with warnings.catch_warnings():  # XGBoost warns whoever names an updater
        warnings.simplefilter("ignore")
        return Case(xgb.train(update, train, 4, xgb_model=case.model), case.X)


LGB = {"verbose": -1, "min_data_in_leaf": 2, "min_data_in_bin": 1, "num_threads": 1}


def train_lightgbm(
    data: str = "plain",
    rounds: int = 8,
    *,
    frame: bool = False,
    stop: bool = False,
    output: str = "auto",
    class_index: int | None = None,
    target: Callable[[np.ndarray], np.ndarray] = np.positive,
    **params: Any,
) -> Factory:
    """Return a factory of bare Boosters; with ``stop``, trees after the best one are kept."""

    def make(seed: int) -> Case:
        X, y = dataset(data, seed)
        X, y = named(X) if frame else X, target(y)
        train = lgb.Dataset(X[:100], y[:100])
        callbacks = [lgb.early_stopping(4, verbose=False)] if stop else []
        booster = lgb.train(
            {**LGB, "seed": seed, **params},
            train,
            rounds,
            valid_sets=[lgb.Dataset(X[100:], y[100:], reference=train)],
            callbacks=callbacks,
            keep_training_booster=stop,
        )
        return Case(booster, X, output, class_index)

    return make
