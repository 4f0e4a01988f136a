"""The instances of the benchmark of proofs: one line each in `SUITE`.

An instance is a fitted model, to be minimized or maximized over the range of each feature in its
data. Models are fitted once with ``random_state=0`` and cached in ``bench/cache``. To add an
instance, add a line; a line with two senses is two instances.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from machine import versions
from problems import Array, bodyfat, boston, diabetes, mpg, pima
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

CACHE = Path(__file__).resolve().parent / "cache"
FITTED_BY = ("numpy", "scikit-learn", "xgboost", "lightgbm")

Data = Callable[[], tuple[Array, Array]]
Model = Callable[[], Any]


@dataclass(frozen=True)
class Instance:
    """A model to be minimized or maximized; ``sense`` is ``"min"`` or ``"max"``."""

    name: str
    family: str
    data: Data
    model: Model
    sense: str

    @property
    def label(self) -> str:
        return f"{self.name} {self.sense}"


# Data --------------------------------------------------------------------------------------------


def friedman(p: int = 10, rows: int = 5_000) -> Data:
    """Return data of Friedman's first function of five features; the other features are noise."""
    return partial(make_friedman1, rows, p, noise=1.0, random_state=0)


# Models ------------------------------------------------------------------------------------------


def forest(trees: int = 100, depth: int | None = None, kind: Any = RandomForestRegressor) -> Model:
    return partial(kind, trees, max_depth=depth, random_state=0, n_jobs=1)


def xgboost(trees: int, depth: int, rate: float = 0.3, kind: str = "XGBRegressor") -> Model:
    options = {"n_estimators": trees, "max_depth": depth, "learning_rate": rate}
    return partial(_of, "xgboost", kind, **options)


def lightgbm(trees: int, leaves: int = 31) -> Model:
    options = {"n_estimators": trees, "num_leaves": leaves, "verbose": -1}
    return partial(_of, "lightgbm", "LGBMRegressor", **options)


def _of(module: str, kind: str, **options: Any) -> Any:
    return getattr(__import__(module), kind)(random_state=0, n_jobs=1, **options)


# The suite ---------------------------------------------------------------------------------------

BOTH = "min max"
BINARY = "XGBClassifier"  # its probability, through the logistic link
ROWS = 2_000  # of the sweeps

SUITE: list[tuple[str, str, Data, Model, str]] = [
    ("boston RF 100", "forests", boston, forest(), BOTH),
    ("diabetes RF 100", "forests", diabetes, forest(), BOTH),
    ("mpg RF 100", "forests", mpg, forest(), BOTH),
    ("bodyfat RF 100", "forests", bodyfat, forest(), BOTH),
    ("pima RF 100", "forests", pima, forest(kind=RandomForestClassifier), BOTH),
    ("boston ET 100", "forests", boston, forest(kind=ExtraTreesRegressor), "min"),
    ("boston RF 500", "forests", boston, forest(500), BOTH),
    ("friedman RF 100×8", "forests", friedman(), forest(100, 8), "min"),
    ("friedman RF 100", "forests", friedman(), forest(), "max"),
    ("boston XGB 100×3", "XGBoost", boston, xgboost(100, 3), BOTH),
    ("boston XGB 100×6", "XGBoost", boston, xgboost(100, 6), BOTH),
    ("diabetes XGB 100×4", "XGBoost", diabetes, xgboost(100, 4), BOTH),
    ("mpg XGB 100×6", "XGBoost", mpg, xgboost(100, 6), "min"),
    ("bodyfat XGB 100×6", "XGBoost", bodyfat, xgboost(100, 6), "max"),
    ("pima XGB 100×4", "XGBoost", pima, xgboost(100, 4, kind=BINARY), "max"),
    ("boston XGB 500×3", "XGBoost", boston, xgboost(500, 3), BOTH),
    ("boston XGB 1000×4", "XGBoost", boston, xgboost(1000, 4, 0.05), "max"),
    ("mpg XGB 2000×3", "XGBoost", mpg, xgboost(2000, 3, 0.02), "min"),
    ("friedman XGB 500×6", "XGBoost", friedman(), xgboost(500, 6), "min"),
    ("friedman-30 XGB 100×6", "XGBoost", friedman(30, 10_000), xgboost(100, 6), BOTH),
    ("boston LGBM 100", "LightGBM", boston, lightgbm(100), BOTH),
    ("diabetes LGBM 100", "LightGBM", diabetes, lightgbm(100), BOTH),
    ("mpg LGBM 100", "LightGBM", mpg, lightgbm(100), "max"),
    ("bodyfat LGBM 200×7", "LightGBM", bodyfat, lightgbm(200, 7), "min"),
    ("boston LGBM 500", "LightGBM", boston, lightgbm(500), "min"),
    ("friedman LGBM 100", "LightGBM", friedman(), lightgbm(100), "min"),
]
SUITE += [
    (f"diabetes RF {n}", "sweep: trees", diabetes, forest(n), "min") for n in (10, 20, 50, 200, 500)
]
SUITE += [
    (f"friedman2k XGB {n}×3", "sweep: trees", friedman(10, ROWS), xgboost(n, 3), "min")
    for n in (10, 30, 100, 300, 1000)
]
SUITE += [(f"boston RF 100×{d}", "sweep: depth", boston, forest(100, d), "min") for d in (3, 5, 8)]
SUITE += [
    (f"friedman2k XGB 100×{d}", "sweep: depth", friedman(10, ROWS), xgboost(100, d), "min")
    for d in (2, 4, 5, 6)
]
SUITE += [
    (f"friedman2k-{p} XGB 100×3", "sweep: features", friedman(p, ROWS), xgboost(100, 3), "min")
    for p in (5, 15, 20, 30)
]
"""Name, family, data, model and senses."""

INSTANCES = {
    instance.label: instance
    for *line, senses in SUITE
    for instance in (Instance(*line, sense) for sense in senses.split())
}
"""Every instance by its label."""

UNLIMITED = 16  # position of an unlimited depth in plots

SWEEPS: dict[str, dict[str, dict[float, str]]] = {
    "trees": {
        "forest, diabetes": {n: f"diabetes RF {n} min" for n in (10, 20, 50, 100, 200, 500)},
        "XGBoost depth 3, friedman": {
            n: f"friedman2k XGB {n}×3 min" for n in (10, 30, 100, 300, 1000)
        },
    },
    "depth": {
        "forest of 100, boston": {d: f"boston RF 100×{d} min" for d in (3, 5, 8)}
        | {UNLIMITED: "boston RF 100 min"},
        "XGBoost 100, friedman": {d: f"friedman2k XGB 100×{d} min" for d in (2, 3, 4, 5, 6)},
    },
    "features": {
        "XGBoost 100 × depth 3, friedman": {
            p: f"friedman2k{'' if p == 10 else f'-{p}'} XGB 100×3 min" for p in (5, 10, 15, 20, 30)
        },
    },
}
"""The curves of the plots: axis, curve, and the instance at each value."""


@cache
def fitted(instance: Instance) -> Path:
    """Return the file with the versions, the fitted model and its data; fit it if necessary."""
    path = CACHE / f"exact {instance.name}.pickle"
    stamp = versions(FITTED_BY)
    if not path.exists() or pickle.loads(path.read_bytes())[0] != stamp:
        X, y = instance.data()
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps((stamp, instance.model().fit(X, y), X)))
        part.replace(path)
    return path
