"""Sound model files of every kind, what they were made from, and how a damaged one is tried."""

import contextlib
import copy
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost as xgb
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from threadpoolctl import threadpool_limits

import treeopt
from tests.support.fuzz import load
from treeopt import TreeoptError

RNG = np.random.default_rng(7)
N = 160
X = RNG.normal(size=(N, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
FULL = np.nan_to_num(X)
Y = np.abs(FULL[:, 0] + FULL[:, 1] * FULL[:, 2]) + 0.1
BINARY = (np.median(Y) < Y).astype(int)
THREE = np.digitize(Y, np.quantile(Y, [0.4, 0.7]))
COLORS = np.array(["blue", "green", "red", "teal"])[RNG.integers(0, 4, N)]
SIZES = np.array([40, 10, 30, 20])[RNG.integers(0, 4, N)]
MIXED = Y + (COLORS == "red") + (SIZES == 30)
NAMED = pd.DataFrame(X, columns=["temp", "flow", "pH", "d"])
FRAME = NAMED.assign(color=pd.Categorical(COLORS), size=pd.Categorical(SIZES))
CODES = np.column_stack([FULL, FRAME["color"].cat.codes, FRAME["size"].cat.codes])

XGB = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1}
LGB = {"n_estimators": 6, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}
GROUPS = {"min_data_per_group": 5, "cat_smooth": 1.0, "max_cat_to_onehot": 1}
RF = {"bagging_freq": 1, "bagging_fraction": 0.6, "boosting_type": "rf"}
TREE = {"max_depth": 3, "random_state": 0}
SMALL = {"n_estimators": 4, "random_state": 0}
HIST = {"max_iter": 5, "max_depth": 3, "random_state": 0}


class Saved(NamedTuple):
    """A model in a file: how it was fitted, and the output that is asked for."""

    fit: Callable[[], Any]
    data: Any = X
    output: str = "auto"
    class_index: Any = None


def sliced(part: slice) -> Callable[[], Any]:
    return lambda: xgb.train({"max_depth": 3, "nthread": 1}, xgb.DMatrix(NAMED, Y), 6)[part]


def stopped(model: Any, y: Any) -> Callable[[], Any]:
    """Return a fit that ends before its last round."""
    valid = [(X[100:], y[::-1][100:])]
    return lambda: model.fit(X[:100], y[:100], eval_set=valid, verbose=False)


def booster(**params: Any) -> Callable[[], Any]:
    return lambda: xgb.train({"max_depth": 3, "nthread": 1, **params}, xgb.DMatrix(X, BINARY), 6)


def lgb_booster(data: Any, y: Any, **params: Any) -> Callable[[], Any]:
    return lambda: lgb.train(
        {"verbose": -1, "min_data_in_leaf": 5, "num_leaves": 6, "num_threads": 1, **params},
        lgb.Dataset(data, y, params={"verbose": -1}),
        6,
    )


def fitted(model: Any, data: Any, y: Any, **rest: Any) -> Callable[[], Any]:
    return lambda: model.fit(data, y, **rest)


XGBOOST = {
    "regressor": Saved(fitted(xgb.XGBRegressor(**XGB), X, Y)),
    "named": Saved(fitted(xgb.XGBRegressor(**XGB), NAMED, Y), NAMED),
    "gamma": Saved(fitted(xgb.XGBRegressor(objective="reg:gamma", **XGB), X, Y)),
    "dart": Saved(fitted(xgb.XGBRegressor(booster="dart", rate_drop=0.5, **XGB), X, Y)),
    "forest": Saved(fitted(xgb.XGBRFRegressor(**XGB), X, Y)),
    "classifier": Saved(fitted(xgb.XGBClassifier(**XGB), X, BINARY)),
    "class 0": Saved(fitted(xgb.XGBClassifier(**XGB), X, BINARY), class_index=0),
    "margin": Saved(fitted(xgb.XGBClassifier(**XGB), X, BINARY), output="raw"),
    "three classes": Saved(fitted(xgb.XGBClassifier(**XGB), X, THREE), X, "raw", 2),
    "difference": Saved(fitted(xgb.XGBClassifier(**XGB), X, THREE), X, "raw", (0, 2)),
    "softmax": Saved(fitted(xgb.XGBClassifier(**XGB), X, THREE)),
    "softmax of labels": Saved(
        fitted(xgb.XGBClassifier(objective="multi:softmax", **XGB), X, THREE), class_index=0
    ),
    "softmax, vector leaves": Saved(
        fitted(xgb.XGBClassifier(multi_strategy="multi_output_tree", **XGB), X, THREE)
    ),
    "ranker": Saved(fitted(xgb.XGBRanker(**XGB), X, THREE, group=[N // 2, N // 2])),
    "two outputs": Saved(
        fitted(xgb.XGBRegressor(**XGB), X, np.column_stack([Y, -Y])), class_index=1
    ),
    "vector leaves": Saved(
        fitted(
            xgb.XGBRegressor(multi_strategy="multi_output_tree", **XGB), X, np.column_stack([Y, -Y])
        ),
        class_index=1,
    ),
    "categories": Saved(
        fitted(xgb.XGBRegressor(enable_categorical=True, **XGB), FRAME, MIXED), FRAME
    ),
    "codes": Saved(fitted(xgb.XGBRegressor(feature_types=[*"qqqqcc"], **XGB), CODES, MIXED), CODES),
    "early stopping": Saved(stopped(xgb.XGBRegressor(early_stopping_rounds=1, **XGB), Y)),
    "stopped classifier": Saved(
        stopped(xgb.XGBClassifier(early_stopping_rounds=1, **XGB), THREE), X, "raw", 1
    ),
    "booster": Saved(booster()),
    "booster, probability": Saved(booster(objective="binary:logistic")),
    "booster, dart": Saved(booster(booster="dart", rate_drop=0.5)),
    "booster, slice": Saved(sliced(slice(1, 4)), NAMED),
}

LIGHTGBM = {
    "regressor": Saved(fitted(lgb.LGBMRegressor(**LGB), X, Y)),
    "named": Saved(fitted(lgb.LGBMRegressor(**LGB), NAMED, Y), NAMED),
    "poisson": Saved(fitted(lgb.LGBMRegressor(objective="poisson", **LGB), X, Y)),
    "zero is missing": Saved(fitted(lgb.LGBMRegressor(zero_as_missing=True, **LGB), FULL, Y)),
    "forest": Saved(fitted(lgb.LGBMRegressor(**{**LGB, **RF}), X, Y)),
    "dart": Saved(fitted(lgb.LGBMRegressor(**{**LGB, "boosting_type": "dart"}), X, Y)),
    "classifier": Saved(fitted(lgb.LGBMClassifier(**LGB), X, BINARY)),
    "class 0": Saved(fitted(lgb.LGBMClassifier(**LGB), X, BINARY), class_index=0),
    "margin": Saved(fitted(lgb.LGBMClassifier(**LGB), X, BINARY), output="raw"),
    "three classes": Saved(fitted(lgb.LGBMClassifier(**LGB), X, THREE), X, "raw", 2),
    "difference": Saved(fitted(lgb.LGBMClassifier(**LGB), X, THREE), X, "raw", (0, 2)),
    "softmax": Saved(fitted(lgb.LGBMClassifier(**LGB), X, THREE)),
    "softmax of a forest": Saved(fitted(lgb.LGBMClassifier(**{**LGB, **RF}), X, THREE)),
    "categories": Saved(fitted(lgb.LGBMRegressor(**LGB, **GROUPS), FRAME, MIXED), FRAME),
    "codes": Saved(
        fitted(lgb.LGBMRegressor(**LGB, **GROUPS), CODES, MIXED, categorical_feature=[4, 5]), CODES
    ),
    "booster": Saved(lgb_booster(X, Y)),
    "booster, categories": Saved(lgb_booster(FRAME, MIXED, **GROUPS), FRAME),
}

SCIKIT_LEARN = {
    "tree": Saved(fitted(DecisionTreeRegressor(**TREE), X, Y)),
    "tree classifier": Saved(fitted(DecisionTreeClassifier(**TREE), X, THREE), class_index=1),
    "forest": Saved(fitted(RandomForestRegressor(max_depth=3, **SMALL), NAMED, Y), NAMED),
    "forest classifier": Saved(fitted(RandomForestClassifier(max_depth=3, **SMALL), X, THREE)),
    "two outputs": Saved(
        fitted(ExtraTreesRegressor(max_depth=3, **SMALL), FULL, np.column_stack([Y, -Y])),
        FULL,
        class_index=1,
    ),
    "boosting": Saved(fitted(GradientBoostingRegressor(**SMALL), FULL, Y), FULL),
    "boosting classifier": Saved(fitted(GradientBoostingClassifier(**SMALL), FULL, BINARY), FULL),
    "boosted classes": Saved(
        fitted(GradientBoostingClassifier(**SMALL), FULL, THREE), FULL, "raw", (2, 0)
    ),
    "boosted softmax": Saved(fitted(GradientBoostingClassifier(**SMALL), FULL, THREE), FULL),
    "bagging": Saved(
        fitted(BaggingRegressor(DecisionTreeRegressor(**TREE), max_features=0.5, **SMALL), X, Y)
    ),
    "bagging classifier": Saved(
        fitted(BaggingClassifier(DecisionTreeClassifier(**TREE), **SMALL), X, THREE)
    ),
    "hist": Saved(fitted(HistGradientBoostingRegressor(**HIST), NAMED, Y), NAMED),
    "hist classifier": Saved(fitted(HistGradientBoostingClassifier(**HIST), X, BINARY)),
    "hist softmax": Saved(fitted(HistGradientBoostingClassifier(**HIST), X, THREE), class_index=1),
    "hist categories": Saved(fitted(HistGradientBoostingRegressor(**HIST), FRAME, MIXED), FRAME),
    "hist poisson": Saved(fitted(HistGradientBoostingRegressor(loss="poisson", **HIST), X, Y)),
}

LIBRARIES = {"XGBoost": XGBOOST, "LightGBM": LIGHTGBM, "scikit-learn": SCIKIT_LEARN}


@cache
def model_of(library: str, name: str) -> Any:
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return LIBRARIES[library][name].fit()


@cache
def bytes_of(suffix: str, name: str) -> bytes:
    """Return the contents of a file of this kind."""
    if suffix == ".txt":
        model = model_of("LightGBM", name)
        return getattr(model, "booster_", model).model_to_string().encode()
    if suffix == ".skops":
        return skops.io.dumps(model_of("scikit-learn", name))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{suffix}"
        model_of("XGBoost", name).save_model(path)
        return path.read_bytes()


SUFFIXES = {".json": "XGBoost", ".ubj": "XGBoost", ".txt": "LightGBM", ".skops": "scikit-learn"}
FILES = [(suffix, name) for suffix, library in SUFFIXES.items() for name in LIBRARIES[library]]


def case_of(suffix: str, name: str) -> Saved:
    return LIBRARIES[SUFFIXES[suffix]][name]


def own_prediction(model: Any, case: Saved, X: Any) -> np.ndarray:
    """Return what the library itself predicts."""
    raw, k = case.output == "raw", case.class_index
    if isinstance(model, xgb.Booster):
        names = model.feature_names
        return model.predict(xgb.DMatrix(X, feature_names=names), output_margin=raw)
    if isinstance(model, xgb.XGBModel):
        proba = isinstance(model, xgb.XGBClassifier) and not raw
        own = model.predict_proba(X) if proba else model.predict(X, output_margin=raw)
    elif isinstance(model, lgb.LGBMModel | lgb.Booster):
        proba = isinstance(model, lgb.LGBMClassifier) and not raw
        own = (model.predict_proba if proba else model.predict)(X, raw_score=raw)
    else:
        proba = "predict_proba" if not raw else "decision_function"
        own = getattr(model, proba, model.predict)(X)
    if isinstance(k, tuple):
        return own[:, k[0]] - own[:, k[1]]
    return own if own.ndim == 1 else own[:, -1 if k is None else k]


def own_names(model: Any, case: Saved) -> tuple[str, ...] | None:
    return tuple(case.data.columns) if isinstance(case.data, pd.DataFrame) else None


def assert_reads(case: Saved, model: Any, ensemble: treeopt.Ensemble) -> None:
    expected = own_prediction(model, case, case.data)
    predicted = ensemble.predict(case.data)
    assert predicted.dtype == expected.dtype
    assert predicted.tobytes() == expected.tobytes()
    assert ensemble.feature_names == own_names(model, case)
    like = treeopt.from_model(model, output=case.output, class_index=case.class_index)
    own = getattr(model, "feature_importances_", like.importances)
    if isinstance(model, lgb.LGBMModel):
        own = model.booster_.feature_importance("gain")  # all that a file of LightGBM tells
    np.testing.assert_allclose(ensemble.importances, own / own.sum(), rtol=1e-5)
    assert {j: c.labels for j, c in ensemble.categories.items()} == {
        j: c.labels for j, c in like.categories.items()
    }


HUGE = 2**62
"""A number that nothing has room for."""


def with_edits(document: Any, edits: dict[str, Any]) -> Any:
    """Return a copy of a document in which the parts at these paths are others."""
    document = copy.deepcopy(document)
    for path, value in edits.items():
        part, keys = document, [int(k) if k.isdigit() else k for k in path.split("/")]
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value
    return document


@contextlib.contextmanager
def little_memory(limit: int = 2**28):
    """Fail if more memory than this is taken in the meantime."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak} bytes of memory were taken"


def assert_refused(data: bytes, limit: int = 2**28, **options: Any) -> None:
    with little_memory(limit), pytest.raises(TreeoptError) as caught:
        load(data, **options)
    assert len(str(caught.value)) > 20


def options_of(suffix: str, name: str) -> dict[str, Any]:
    case = case_of(suffix, name)
    return {"output": case.output, "class_index": case.class_index}
