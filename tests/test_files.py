"""Model files: what is saved is what is read, and no file whatsoever does harm."""

import contextlib
import copy
import io
import json
import pickle
import re
import struct
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost as xgb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
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
from tests.fuzz import damaged, load, ubjson, unzipped, use, zipped
from treeopt import InputError, ModelFormatError, TreeoptError, UnsupportedModelError
from treeopt.adapters.ubjson import loads as read_ubjson

RNG = np.random.default_rng(7)
N = 160
X = RNG.normal(size=(N, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
FULL = np.nan_to_num(X)
Y = np.abs(FULL[:, 0] + FULL[:, 1] * FULL[:, 2]) + 0.1
BINARY = (np.median(Y) < Y).astype(int)
THREE = np.digitize(Y, np.quantile(Y, [0.4, 0.7]))
COLOURS = np.array(["blue", "green", "red", "teal"])[RNG.integers(0, 4, N)]
SIZES = np.array([40, 10, 30, 20])[RNG.integers(0, 4, N)]
MIXED = Y + (COLOURS == "red") + (SIZES == 30)
NAMED = pd.DataFrame(X, columns=["temp", "flow", "pH", "d"])
FRAME = NAMED.assign(colour=pd.Categorical(COLOURS), size=pd.Categorical(SIZES))
CODES = np.column_stack([FULL, FRAME["colour"].cat.codes, FRAME["size"].cat.codes])

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
    "bagging": Saved(
        fitted(BaggingRegressor(DecisionTreeRegressor(**TREE), max_features=0.5, **SMALL), X, Y)
    ),
    "bagging classifier": Saved(
        fitted(BaggingClassifier(DecisionTreeClassifier(**TREE), **SMALL), X, THREE)
    ),
    "hist": Saved(fitted(HistGradientBoostingRegressor(**HIST), NAMED, Y), NAMED),
    "hist classifier": Saved(fitted(HistGradientBoostingClassifier(**HIST), X, BINARY)),
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


@pytest.mark.parametrize(("suffix", "name"), FILES)
def test_round_trip(suffix, name):
    case, model = case_of(suffix, name), model_of(SUFFIXES[suffix], name)
    data = bytes_of(suffix, name)
    # The text of a classifier does not say that it was one, nor is it needed: it knows one class.
    options = {"output": case.output, "class_index": case.class_index}
    assert_reads(case, model, load(data, **options))


PICKLED = [("XGBoost", "categories"), ("LightGBM", "categories"), ("scikit-learn", "hist")]
WAYS = {
    "pickle": lambda model, path: path.write_bytes(pickle.dumps(model)),
    "joblib": joblib.dump,
    **{
        kind: lambda model, path, kind=kind: joblib.dump(model, path, compress=(kind, 3))
        for kind in ("zlib", "gzip", "bz2", "xz", "lzma")
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("library", "name"), PICKLED)
def test_pickles_of_ones_own(library, name, way, tmp_path):
    path, case, model = tmp_path / "model", LIBRARIES[library][name], model_of(library, name)
    WAYS[way](model, path)
    with pytest.raises(InputError, match=r"pickle.*trusted=True"):
        treeopt.load_model(path)
    ensemble = treeopt.load_model(path, trusted=True)
    assert ensemble.predict(case.data).tobytes() == own_prediction(model, case, case.data).tobytes()


@pytest.mark.parametrize("way", WAYS)
def test_damaged_pickle(way, tmp_path):
    path = tmp_path / "model"
    WAYS[way](model_of("scikit-learn", "tree"), path)
    data = path.read_bytes()
    for size in (3, 20, len(data) // 2):
        assert not use(data[:size], trusted=True)
    if way not in ("pickle", "joblib"):
        half = len(data) // 2
        assert not use(data[:half] + b"\x07\x00\xff" + data[half + 3 :], trusted=True)


def test_files_need_no_library():
    """Reading the files of XGBoost and LightGBM does not import these libraries."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".json", ".ubj", ".txt"):
            Path(folder, f"model{suffix}").write_bytes(bytes_of(suffix, "categories"))
        code = (
            "import sys; sys.modules.update(xgboost=None, lightgbm=None, skops=None, pandas=None)\n"
            "import pathlib, numpy, treeopt\n"
            "for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
            "    print(treeopt.load_model(path).predict(numpy.ones((1, 6)))[0].item().hex())\n"
        )
        run = [sys.executable, "-c", code, folder]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
    # In the order of their names: JSON, text, UBJSON.
    loaded = [load(bytes_of(suffix, "categories")) for suffix in (".json", ".txt", ".ubj")]
    assert done.stdout.split() == [e.predict(np.ones((1, 6)))[0].item().hex() for e in loaded]


def saved(model: Any, suffix: str, data: Any = X, y: Any = Y) -> bytes:
    """Return the file of a model that is fitted here."""
    model.fit(data, y)
    if suffix == ".txt":
        return model.booster_.model_to_string().encode()
    return bytes(model.get_booster().save_raw("json"))


def pickled() -> bytes:
    return pickle.dumps(model_of("scikit-learn", "tree"))


def joblib_gzip() -> bytes:
    buffer = io.BytesIO()
    joblib.dump(model_of("scikit-learn", "tree"), buffer, compress=("gzip", 3))
    return buffer.getvalue()


def dump_model() -> bytes:
    return json.dumps(model_of("LightGBM", "booster").dump_model()).encode()


def empty_booster() -> bytes:
    return saved(xgb.XGBRegressor(n_estimators=0), ".json")


REFUSED = {
    "pickle": (pickled, InputError, "trusted=True"),
    "compressed pickle": (joblib_gzip, InputError, "trusted=True"),
    "pickle of protocol 0": (
        lambda: pickle.dumps({"a": 1}, protocol=0),
        InputError,
        "neither an XGBoost",
    ),
    "dump_model": (dump_model, InputError, "dump_model JSON, which lacks digits"),
    "empty": (lambda: b"", InputError, "neither an XGBoost"),
    "text": (lambda: b"a letter\n", InputError, "neither an XGBoost"),
    "a list": (lambda: b"[1, 2]", InputError, "neither an XGBoost"),
    "an object": (lambda: b"{}", ModelFormatError, "damaged"),
    "another object": (lambda: b'{"learner": 1}', ModelFormatError, "damaged"),
    "ONNX": (lambda: b"\x08\x08\x12\x08skl2onnx", InputError, "neither an XGBoost"),
    "an archive": (lambda: zipped({"a.txt": b"a"}), ModelFormatError, "schema.json"),
    "half an archive": (lambda: b"PK\x03\x04", ModelFormatError, "cannot be unpacked"),
    "no trees": (empty_booster, ModelFormatError, "no trees"),
    "gblinear": (
        lambda: saved(xgb.XGBRegressor(booster="gblinear", n_jobs=1), ".json", FULL),
        UnsupportedModelError,
        "linear model",
    ),
    "linear trees": (
        lambda: saved(lgb.LGBMRegressor(linear_tree=True, **LGB), ".txt"),
        UnsupportedModelError,
        "linear_tree=False",
    ),
    "softmax": (
        lambda: bytes_of(".json", "three classes"),
        UnsupportedModelError,
        "Pass output='raw'",
    ),
    "one of several": (
        lambda: bytes_of(".ubj", "two outputs"),
        InputError,
        "Pass class_index=0..1",
    ),
    "XGBoost in skops": (
        lambda: skops.io.dumps(model_of("XGBoost", "regressor")),
        UnsupportedModelError,
        "save_model",
    ),
    "KMeans in skops": (
        lambda: skops.io.dumps(KMeans(2, n_init=1).fit(FULL)),
        UnsupportedModelError,
        "KMeans",
    ),
    "a function in skops": (
        lambda: skops.io.dumps(np.median),
        UnsupportedModelError,
        "numpy.median",
    ),
    "a list in skops": (lambda: skops.io.dumps([1, 2]), UnsupportedModelError, "list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    make, error, message = REFUSED[name]
    with pytest.raises(error, match=re.escape(message)):
        load(make())


@pytest.mark.parametrize("name", ["", "missing.json"])
def test_no_file(name, tmp_path):
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        treeopt.load_model(tmp_path / name)


def test_options_are_checked_first():
    with pytest.raises(InputError, match="output is 'margin'"):
        treeopt.load_model("missing.json", output="margin")


# Hostile files: each entry changes parts of a sound file, given by their paths.

MODEL = "learner/gradient_booster/model/"
ROOT = MODEL + "trees/0/"
LEFT, RIGHT, CUT, FEATURE = (
    ROOT + key for key in ("left_children", "right_children", "split_conditions", "split_indices")
)
PARAM = "learner/learner_model_param/"
HUGE = 2**62

XGBOOST_EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "child out of range": ("regressor", {LEFT + "/0": 10**6}),
    "child next to the end": ("regressor", {LEFT + "/0": 15}),
    "child beyond int32": ("regressor", {LEFT + "/0": 2**40}),
    "negative right child": ("regressor", {RIGHT + "/0": -1}),
    "self-loop": ("regressor", {LEFT + "/0": 0}),
    "cycle": ("regressor", {LEFT + "/1": 0}),
    "node reached twice": ("regressor", {LEFT + "/0": 2}),
    "no nodes": ("regressor", {key: [] for key in (LEFT, RIGHT, CUT, FEATURE)}),
    "fewer left children": ("regressor", {LEFT: [1, -1, -1]}),
    "fewer right children": ("regressor", {RIGHT: [2]}),
    "fewer thresholds": ("regressor", {CUT: [0.5]}),
    "fewer features": ("regressor", {FEATURE: [0]}),
    "fewer directions": ("regressor", {ROOT + "default_left": []}),
    "nested children": ("regressor", {LEFT: [[1], [-1]]}),
    "child a fraction": ("regressor", {LEFT + "/0": 1.9}),
    "child NaN": ("regressor", {LEFT + "/0": float("nan")}),
    "feature a fraction": ("regressor", {FEATURE + "/0": 0.7}),
    "direction text": ("regressor", {ROOT + "default_left/0": "no"}),
    "children of text": ("regressor", {LEFT: "1, 2"}),
    "children null": ("regressor", {LEFT: None}),
    "children an object": ("regressor", {LEFT: {"0": 1}}),
    "feature out of range": ("regressor", {FEATURE + "/0": 4}),
    "negative feature": ("regressor", {FEATURE + "/0": -1}),
    "feature 2**62": ("regressor", {FEATURE + "/0": HUGE}),
    "threshold NaN": ("regressor", {CUT + "/0": float("nan")}),
    "threshold text": ("regressor", {CUT + "/0": "x"}),
    "loss_changes short": ("regressor", {ROOT + "loss_changes": [1.0]}),
    "tree null": ("regressor", {MODEL + "trees/0": None}),
    "trees an object": ("regressor", {MODEL + "trees": {"0": {}}}),
    "trees empty": ("regressor", {MODEL + "trees": []}),
    "tree_info short": ("three classes", {MODEL + "tree_info": [0, 1]}),
    "tree_info elsewhere": ("three classes", {MODEL + "tree_info": [7] * 18}),
    "size_leaf_vector huge": ("regressor", {ROOT + "tree_param/size_leaf_vector": str(HUGE)}),
    "size_leaf_vector wrong": ("vector leaves", {ROOT + "tree_param/size_leaf_vector": "3"}),
    "leaf_weights short": ("vector leaves", {ROOT + "leaf_weights": [1.0, 2.0]}),
    "leaf number out of range": ("vector leaves", {RIGHT: [10**6] * 13}),
    "no features": ("regressor", {PARAM + "num_feature": "0"}),
    "negative features": ("regressor", {PARAM + "num_feature": "-4"}),
    "too many features": ("regressor", {PARAM + "num_feature": "30000000"}),
    "2**62 features": ("regressor", {PARAM + "num_feature": str(HUGE)}),
    "features of text": ("regressor", {PARAM + "num_feature": "four"}),
    "features null": ("regressor", {PARAM + "num_feature": None}),
    "features with many digits": ("regressor", {PARAM + "num_feature": "9" * 10_000}),
    "names short": ("named", {"learner/feature_names": ["temp"]}),
    "2**62 classes": ("three classes", {PARAM + "num_class": str(HUGE)}),
    "2**62 targets": ("two outputs", {PARAM + "num_target": str(HUGE)}),
    "base_score text": ("regressor", {PARAM + "base_score": "half"}),
    "base_score empty": ("regressor", {PARAM + "base_score": "[]"}),
    "base_score null": ("regressor", {PARAM + "base_score": None}),
    "base_score for three": ("two outputs", {PARAM + "base_score": "[1,2,3]"}),
    "weight_drop short": ("dart", {"learner/gradient_booster/weight_drop": [1.0]}),
    "weight_drop text": ("dart", {"learner/gradient_booster/weight_drop/0": "x"}),
    "iteration_indptr short": ("early stopping", {MODEL + "iteration_indptr": [0]}),
    "iteration_indptr zero": ("early stopping", {MODEL + "iteration_indptr": [0, 0, 0]}),
    "iteration_indptr text": ("early stopping", {MODEL + "iteration_indptr": "012"}),
    "best_iteration text": ("early stopping", {"learner/attributes/best_iteration": "last"}),
    "best_iteration negative": ("early stopping", {"learner/attributes/best_iteration": "-2"}),
    "best_iteration huge": ("early stopping", {"learner/attributes/best_iteration": str(HUGE)}),
    "scikit_learn not JSON": ("regressor", {"learner/attributes/scikit_learn": "{"}),
    "scikit_learn a list": ("regressor", {"learner/attributes/scikit_learn": "[]"}),
    "booster unknown": ("regressor", {"learner/gradient_booster/name": "gbforest"}),
    "booster a list": ("regressor", {"learner/gradient_booster/name": []}),
    "objective unknown": ("regressor", {"learner/objective/name": "reg:mine"}),
    "objective null": ("regressor", {"learner/objective/name": None}),
    "categories node out of range": ("categories", {ROOT + "categories_nodes/0": 10**6}),
    "categories node negative": ("categories", {ROOT + "categories_nodes/0": -1}),
    "categories segment out of range": ("categories", {ROOT + "categories_segments/0": 10**6}),
    "categories segment negative": ("categories", {ROOT + "categories_segments/0": -1}),
    "categories size huge": ("categories", {ROOT + "categories_sizes/0": HUGE}),
    "categories size negative": ("categories", {ROOT + "categories_sizes/0": -1}),
    "categories sizes short": ("categories", {ROOT + "categories_sizes": []}),
    "categories text": ("categories", {ROOT + "categories": "012"}),
    "categories missing": ("categories", {ROOT + "categories_nodes": []}),
    "categories of a number": ("regressor", {ROOT + "split_type/0": 1}),
    "categories and numbers": ("categories", {FEATURE: [4] * 15}),
    "offsets text": ("categories", {MODEL + "cats/enc/4/offsets": "abc"}),
    "labels text": ("categories", {MODEL + "cats/enc/4/values": ["x"]}),
    "labels null": ("categories", {MODEL + "cats/enc/5/values": [None]}),
    "labels a number": ("categories", {MODEL + "cats/enc/4": 5}),
    "feature_types a number": ("categories", {"learner/feature_types": 5}),
    "feature_types too long": ("codes", {"learner/feature_types": ["c"] * 9}),
    "learner null": ("regressor", {"learner": None}),
    "learner a list": ("regressor", {"learner": []}),
    "attributes null": ("regressor", {"learner/attributes": None}),
}


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


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
@pytest.mark.parametrize("edit", XGBOOST_EDITS)
def test_hostile_xgboost(edit, suffix):
    name, edits = XGBOOST_EDITS[edit]
    document = with_edits(json.loads(bytes_of(".json", name)), edits)
    data = json.dumps(document).encode() if suffix == ".json" else ubjson(document)
    assert_refused(data, **options_of(suffix, name))


@pytest.mark.parametrize("key", ["trees", "tree_info", "iteration_indptr"])
def test_xgboost_without_a_key(key):
    document = json.loads(bytes_of(".json", "early stopping"))
    del document["learner"]["gradient_booster"]["model"][key]
    assert_refused(json.dumps(document).encode())


def test_xgboost_labels_that_overlap():
    """Text that is read again and again must not become longer than the file."""
    kept = {"offsets": [0, 20_000] * 20_000, "values": [97] * 20_000}
    document = json.loads(bytes_of(".json", "categories"))
    data = json.dumps(with_edits(document, {MODEL + "cats/enc/4": kept})).encode()
    with little_memory():
        use(data)


def test_xgboost_categories_that_overlap():
    document = json.loads(bytes_of(".json", "categories"))
    edits = {
        ROOT + "categories": list(range(100_000)),
        ROOT + "categories_nodes": [0] * 1000,
        ROOT + "categories_segments": [0] * 1000,
        ROOT + "categories_sizes": [100_000] * 1000,
    }
    assert_refused(json.dumps(with_edits(document, edits)).encode(), 2**30)


def test_xgboost_base_score_nan():
    """A start that is no number is the model's own: so is the prediction."""
    document = json.loads(bytes_of(".json", "regressor"))
    data = json.dumps(with_edits(document, {PARAM + "base_score": "nan"})).encode()
    with contextlib.suppress(TreeoptError):
        assert np.isnan(load(data).predict(X)).all()


NESTED = {
    "JSON arrays": b'{"learner":' + b"[" * 200_000,
    "JSON objects": b'{"learner":' * 200_000,
    "closed": b'{"learner":' + b"[" * 90_000 + b"]" * 90_000 + b"}",
    "UBJSON arrays": b"{L" + struct.pack(">q", 7) + b"learner" + b"[" * 200_000,
    "UBJSON counted": b"{i\x07learner" + b"[#i\x01" * 100_000,
    "UBJSON objects": b"{i\x01a" * 100_000,
}


@pytest.mark.parametrize("name", NESTED)
def test_deep_nesting(name):
    assert_refused(NESTED[name])


def entry(value: bytes) -> bytes:
    return b"{i\x07learner" + value + b"}"


UBJSON_EDITS = {
    "string longer than the file": entry(b"SL" + struct.pack(">q", HUGE)),
    "string of negative length": entry(b"SL" + struct.pack(">q", -1)),
    "array longer than the file": entry(b"[$L#L" + struct.pack(">q", HUGE)),
    "array of negative length": entry(b"[$l#i\xff"),
    "array of 2**61 - 1": entry(b"[$D#L" + struct.pack(">q", 2**61 - 1)),
    "nulls without end": entry(b"[#L" + struct.pack(">q", HUGE) + b"Z" * 1000),
    "array of typed nulls": entry(b"[$Z#L" + struct.pack(">q", HUGE)),
    "array of strings": entry(b"[$S#i\x01"),
    "type without count": entry(b"[$l"),
    "length that is no integer": entry(b"SD" + struct.pack(">d", 1.0)),
    "unknown marker": entry(b"Q"),
    "huge number": entry(b"H"),
    "no-op": entry(b"N"),
    "typed object": entry(b"{$i#i\x00"),
    "key without value": b"{i\x07learner}",
    "no end": b"{i\x07learnerZ",
    "just a brace": b"{i",
}


@pytest.mark.parametrize("name", UBJSON_EDITS)
def test_hostile_ubjson(name):
    assert_refused(UBJSON_EDITS[name])


@pytest.mark.parametrize("rest", [b"\x00", b"}", b"Z"])
def test_trailing_bytes(rest):
    assert_refused(bytes_of(".ubj", "regressor") + rest)
    assert_refused(bytes_of(".json", "regressor") + rest)


def test_duplicate_keys():
    """The last one counts, as in XGBoost; it is checked as any other."""
    text = bytes_of(".json", "regressor").decode()
    document = json.loads(text)
    false = json.dumps(
        [99]
        * len(
            with_edits(document, {})["learner"]["gradient_booster"]["model"]["trees"][0][
                "left_children"
            ]
        )
    )
    use(text.replace('"left_children":', f'"left_children":{false},"left_children":').encode())
    assert_refused(
        text.replace('"right_children":', f'"left_children":{false},"right_children":').encode()
    )


def test_ubjson_is_read_as_written():
    document = json.loads(bytes_of(".json", "categories"))
    assert read_ubjson(ubjson(document)).keys() == document.keys()
    a, b = load(ubjson(document)), load(bytes_of(".json", "categories"))
    assert a.predict(FRAME).tobytes() == b.predict(FRAME).tobytes()


TreeEdit = tuple[str, str, str]

LIGHTGBM_EDITS: dict[str, TreeEdit] = {
    "leaves too many": ("regressor", "num_leaves", "7"),
    "leaves huge": ("regressor", "num_leaves", str(HUGE)),
    "leaves none": ("regressor", "num_leaves", "0"),
    "leaves negative": ("regressor", "num_leaves", "-1"),
    "leaves text": ("regressor", "num_leaves", "six"),
    "leaves empty": ("regressor", "num_leaves", ""),
    "leaves one": ("regressor", "num_leaves", "1"),
    "self-loop": ("regressor", "left_child", "0 -1 4 -4 -2"),
    "cycle": ("regressor", "left_child", "1 0 4 -4 -2"),
    "child out of range": ("regressor", "left_child", "99 -1 4 -4 -2"),
    "child huge": ("regressor", "left_child", f"{HUGE} -1 4 -4 -2"),
    "leaf out of range": ("regressor", "left_child", "1 -99 4 -4 -2"),
    "leaf huge": ("regressor", "right_child", f"2 {-HUGE} 3 -5 -6"),
    "leaf reached twice": ("regressor", "right_child", "2 -1 3 -5 -6"),
    "children short": ("regressor", "right_child", "2 -3"),
    "children fractions": ("regressor", "right_child", "2.5 -3 3 -5 -6"),
    "children NaN": ("regressor", "right_child", "nan -3 3 -5 -6"),
    "feature out of range": ("regressor", "split_feature", "4 0 0 0 0"),
    "feature negative": ("regressor", "split_feature", "-1 0 0 0 0"),
    "feature huge": ("regressor", "split_feature", f"{HUGE} 0 0 0 0"),
    "features short": ("regressor", "split_feature", "0"),
    "threshold NaN": ("regressor", "threshold", "nan 0 0 0 0"),
    "threshold -inf": ("regressor", "threshold", "-inf 0 0 0 0"),
    "thresholds short": ("regressor", "threshold", "0"),
    "threshold text": ("regressor", "threshold", "a 0 0 0 0"),
    "gain short": ("regressor", "split_gain", "1"),
    "values short": ("regressor", "leaf_value", "1 2"),
    "values none": ("regressor", "leaf_value", ""),
    "decisions short": ("regressor", "decision_type", "8"),
    "decisions text": ("regressor", "decision_type", "a b c d e"),
    "categories without sets": ("regressor", "decision_type", "9 8 8 8 8"),
    "max_feature_idx huge": ("regressor", "max_feature_idx", str(HUGE)),
    "max_feature_idx negative": ("regressor", "max_feature_idx", "-2"),
    "max_feature_idx none": ("regressor", "max_feature_idx", "-1"),
    "max_feature_idx text": ("regressor", "max_feature_idx", "x"),
    "feature_infos short": ("regressor", "feature_infos", "[0:1]"),
    "feature_infos none": ("regressor", "feature_infos", ""),
    "feature_infos text": ("regressor", "feature_infos", "a b c d"),
    "feature_infos huge": ("regressor", "feature_infos", f"[0:1] [0:1] [0:1] {2**70}"),
    "feature_names short": ("regressor", "feature_names", "a"),
    "sums none": ("regressor", "num_tree_per_iteration", "0"),
    "sums negative": ("regressor", "num_tree_per_iteration", "-1"),
    "sums huge": ("regressor", "num_tree_per_iteration", str(HUGE)),
    "sums text": ("regressor", "num_tree_per_iteration", "one"),
    "objective unknown": ("regressor", "objective", "mine"),
    "objective without its number": ("classifier", "objective", "binary sigmoid:x"),
    "num_cat text": ("categories", "num_cat", "x"),
    "sets short": ("categories", "cat_boundaries", "0"),
    "sets out of range": ("categories", "cat_boundaries", "0 99 100"),
    "sets descending": ("categories", "cat_boundaries", "1 0 0"),
    "sets negative": ("categories", "cat_boundaries", "-1 1 1"),
    "sets huge": ("categories", "cat_boundaries", f"0 {HUGE} {HUGE}"),
    "words none": ("categories", "cat_threshold", ""),
    "words huge": ("categories", "cat_threshold", str(HUGE)),
    "words negative": ("categories", "cat_threshold", "-1"),
    "is_linear": ("regressor", "is_linear", "1"),
}


def with_line(text: str, key: str, value: str | None) -> str:
    """Change (None: drop) the first line with a key."""
    line = "" if value is None else f"{key}={value}\n"
    return re.sub(rf"(?m)^{key}=.*\n", lambda _: line, text, count=1)


def first_with_sets(text: str) -> str:
    """Return a model of the first tree that splits by categories, and its header."""
    header, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    tree = next(t for t in trees if "\nnum_cat=0\n" not in t)
    rest = text[text.index("\nend of trees") :]
    return f"{header}\nTree={tree}{rest}"


@pytest.mark.parametrize("edit", LIGHTGBM_EDITS)
def test_hostile_lightgbm(edit):
    name, key, value = LIGHTGBM_EDITS[edit]
    text = bytes_of(".txt", name).decode()
    text = first_with_sets(text) if name == "categories" else text
    changed = with_line(text, key, value)
    assert changed != text
    assert_refused(changed.encode())


LIGHTGBM_KEYS = [
    *("num_tree_per_iteration", "max_feature_idx", "feature_names", "feature_infos"),
    *("num_leaves", "split_feature", "split_gain", "threshold", "decision_type"),
    *("left_child", "right_child", "leaf_value"),
]


@pytest.mark.parametrize("key", LIGHTGBM_KEYS)
def test_lightgbm_without_a_key(key):
    assert_refused(with_line(bytes_of(".txt", "regressor").decode(), key, None).encode())


@pytest.mark.parametrize("labels", ["[", "5", "[5, 6]", "null]", "[null, null]", "[[1], 2]"])
def test_lightgbm_labels(labels):
    text = bytes_of(".txt", "categories").decode()
    assert_refused(re.sub("pandas_categorical:.*", f"pandas_categorical:{labels}", text).encode())


@pytest.mark.parametrize("labels", ["{}", '{"a": 1, "b": 2}', '["ab", "cd"]', '[{"a": 1}, [[]]]'])
def test_lightgbm_labels_that_are_no_lists(labels):
    """Strings and objects are no lists of labels, nor are lists labels."""
    text = bytes_of(".txt", "categories").decode()
    assert_refused(re.sub("pandas_categorical:.*", f"pandas_categorical:{labels}", text).encode())


def test_lightgbm_sets_that_overlap():
    """Sets that are read again and again do not fill the memory."""
    n, words = 200, 20_000
    tree = {
        "num_leaves": n + 1,
        "num_cat": 1,
        "split_feature": " ".join(["0"] * n),
        "split_gain": " ".join(["1"] * n),
        "threshold": " ".join(["0"] * n),
        "decision_type": " ".join(["1"] * n),
        "left_child": " ".join(str(-k - 1) for k in range(n)),
        "right_child": " ".join([*map(str, range(1, n)), str(-n - 1)]),
        "leaf_value": " ".join(["1"] * (n + 1)),
        "cat_boundaries": f"0 {words}",
        "cat_threshold": " ".join(["4294967295"] * words),
    }
    text = bytes_of(".txt", "regressor").decode()
    start, end = text.index("\nTree=0"), text.index("\nend of trees")
    block = "\nTree=0\n" + "".join(f"{k}={v}\n" for k, v in tree.items())
    with little_memory(2**31):
        use((text[:start] + block + text[end:]).encode())


def test_lightgbm_noise():
    data = bytes_of(".txt", "regressor")
    for broken in (
        data[:200] + bytes(range(256)) + data[200:],
        data.replace(b"threshold=", b"threshold=\xff\xfe"),
        data.replace(b"end of trees", b"end of"),
        data.replace(b"\n", b"\r"),
        b"tree\n" + bytes(1000),
        b"tree\n\nend of trees",
        b"tree\n\nTree=0\nend of trees",
    ):
        assert_refused(broken)
    assert use(data.replace(b"\n", b"\r\n"))


@pytest.mark.parametrize("kind", [".txt", ".json"])
def test_number_of_trees(kind):
    """One tree more or less than the file claims: of which class the next ones are, is not sure."""
    if kind == ".txt":
        text = bytes_of(".txt", "regressor").decode()
        start, end = text.index("\nTree=1"), text.index("\nTree=2")
        wrong = [text[:end] + text[start:end] + text[end:], text[:start] + text[end:]]
    else:
        document = json.loads(bytes_of(".json", "regressor"))
        trees = document["learner"]["gradient_booster"]["model"]["trees"]
        trees.append(trees[0])
        wrong = [json.dumps(document)]
    for text in wrong:
        with pytest.raises(ModelFormatError, match="trees and has"):
            load(text.encode())


def test_lightgbm_that_ends_in_its_parameters():
    """What follows them are the labels of categories, which would be lost."""
    text = bytes_of(".txt", "regressor").decode()
    with pytest.raises(ModelFormatError, match="parameters"):
        load(text[: text.index("\nend of parameters")].encode())


# skops: an archive of arrays, and a schema that says which objects they belong to.


def part(kind: str, loader: str, content: Any, module: str = "builtins") -> dict[str, Any]:
    names = {"__class__": kind, "__module__": module, "__loader__": loader}
    return {**names, "content": content}


def constant(value: Any) -> dict[str, Any]:
    return part("str", "JsonNode", json.dumps(value))


def attributes(values: dict[str, Any]) -> dict[str, Any]:
    kinds = [part("str", "TypeNode", None) for _ in values]
    return {**part("dict", "DictNode", values), "key_types": part("list", "ListNode", kinds)}


def stored(file: str) -> dict[str, Any]:
    return {**part("ndarray", "NdArrayNode", None, "numpy"), "type": "numpy", "file": file}


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


class Archive:
    """The parts of a skops file, to be changed."""

    def __init__(self, name: str) -> None:
        self.files = unzipped(bytes_of(".skops", name))
        self.schema = json.loads(self.files["schema.json"])

    def __setitem__(self, path: str, value: Any) -> None:
        """Set an attribute by its path, as in ``estimators_/0/tree_``."""
        *parents, last = path.split("/")
        holder = self._holder(parents)
        if isinstance(holder["content"], dict) and last not in holder["content"]:
            holder["key_types"]["content"].append(part("str", "TypeNode", None))
        holder["content"][int(last) if last.isdigit() else last] = value

    def __getitem__(self, path: str) -> Any:
        *parents, last = path.split("/")
        return self._holder(parents)["content"][int(last) if last.isdigit() else last]

    def _holder(self, parents: list[str]) -> Any:
        holder = self.schema["content"]
        for key in parents:
            holder = holder["content"][int(key) if key.isdigit() else key]
            while holder["__loader__"] in ("ObjectNode", "TreeNode"):
                holder = holder["content"]
        return holder

    def put(self, path: str, array: Any) -> None:
        """Set an attribute to an array."""
        name = f"new{len(self.files)}.npy"
        self.files[name] = array if isinstance(array, bytes) else npy(array)
        self[path] = stored(name)

    def array(self, path: str) -> np.ndarray:
        return np.load(io.BytesIO(self.files[self[path]["file"]])).copy()

    def data(self, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
        schema = json.dumps(self.schema).encode()
        return zipped({**self.files, "schema.json": schema}, compression)


def node(path: str, field: str, value: Any, at: int = 0) -> Callable[[Archive], None]:
    """Return an edit of one field of one node of a tree."""

    def edit(archive: Archive) -> None:
        nodes = archive.array(path)
        nodes[field][at] = value
        archive.put(path, nodes)

    return edit


def array(path: str, change: Callable[[np.ndarray], Any]) -> Callable[[Archive], None]:
    return lambda archive: archive.put(path, change(archive.array(path)))


def value(path: str, new: Any) -> Callable[[Archive], None]:
    return lambda archive: archive.__setitem__(path, constant(new))


def tree_argument(at: int, new: Any) -> Callable[[Archive], None]:
    """Return an edit of what a tree is built from: features, classes, outputs."""

    def edit(archive: Archive) -> None:
        archive.files["argument.npy"] = npy(new)
        arguments = archive["tree_"]["__reduce__"]["args"]["content"]
        arguments[at] = stored("argument.npy") if at == 1 else constant(new)

    return edit


def lie_about_shape(archive: Archive) -> None:
    data = archive.files[archive["tree_/nodes"]["file"]]
    archive.put("tree_/nodes", data.replace(b"(9,), } ", b"(99,), }"))


def break_header(archive: Archive) -> None:
    data = archive.files[archive["tree_/nodes"]["file"]]
    archive.put("tree_/nodes", data.replace(b"'fortran_order'", b"(((((((_order'"))


def claim_other_class(archive: Archive) -> None:
    """Build a tree under another name, with more outputs than its array of classes has."""
    archive["tree_"].update(__class__="dict", __module__="builtins")
    tree_argument(2, 10**8)(archive)


def pretend_array(archive: Archive) -> None:
    """Put an object where numbers belong that sends NumPy to any address."""
    numbers = {
        "version": constant(3),
        "typestr": constant("<f8"),
        "shape": part("tuple", "TupleNode", [constant(8)]),
        "data": part("tuple", "TupleNode", [constant(4096), constant(True)]),
    }
    content = attributes({"__array_interface__": attributes(numbers)})
    kind = ("DecisionTreeRegressor", "ObjectNode", content, "sklearn.tree._classes")
    archive["_baseline_prediction"] = part(*kind)


def call_method(archive: Archive) -> None:
    """Put the method of another object in the place of one that is called."""
    empty = part("DecisionTreeRegressor", "ObjectNode", attributes({}), "sklearn.tree._classes")
    bound = {"func": "get_n_leaves", "obj": empty}
    method = part("DecisionTreeRegressor", "MethodNode", bound, "sklearn.tree._classes")
    archive["_support_missing_values"] = method


NODES = "tree_/nodes"
HIST_NODES = "_predictors/0/0/nodes"


def by_category(field: str, new: Any) -> Callable[[Archive], None]:
    """Return an edit of the first node that splits by categories, in whatever tree it is."""

    def edit(archive: Archive) -> None:
        for k in range(HIST["max_iter"]):
            path = f"_predictors/{k}/0/nodes"
            found = np.flatnonzero(archive.array(path)["is_categorical"])
            if found.size:
                return node(path, field, new, int(found[0]))(archive)
        raise AssertionError("no split by categories")

    return edit


SKOPS_EDITS: dict[str, tuple[str, Callable[[Archive], Any]]] = {
    "node_count too large": ("tree", value("tree_/node_count", 10**6)),
    "node_count negative": ("tree", value("tree_/node_count", -1)),
    "node_count text": ("tree", value("tree_/node_count", "15")),
    "child out of range": ("tree", node(NODES, "left_child", 10**6)),
    "child -2": ("tree", node(NODES, "left_child", -2)),
    "right child -2": ("tree", node(NODES, "right_child", -2)),
    "self-loop": ("tree", node(NODES, "left_child", 0)),
    "cycle": ("tree", node(NODES, "right_child", 0, 2)),
    "feature out of range": ("tree", node(NODES, "feature", 4)),
    "feature -2": ("tree", node(NODES, "feature", -2)),
    "feature huge": ("tree", node(NODES, "feature", HUGE)),
    "threshold NaN": ("tree", node(NODES, "threshold", np.nan)),
    "nodes short": ("tree", array(NODES, lambda a: a[:-1])),
    "nodes none": ("tree", array(NODES, lambda a: a[:0])),
    "nodes of two dimensions": ("tree", array(NODES, lambda a: a[None])),
    "nodes of numbers": ("tree", array(NODES, lambda a: a["threshold"])),
    "nodes with fewer fields": ("tree", array(NODES, lambda a: a[["left_child", "feature"]])),
    "nodes lie about their shape": ("tree", lie_about_shape),
    "nodes with a broken header": ("tree", break_header),
    "nodes not NPY": ("tree", lambda a: a.put(NODES, b"nodes")),
    "nodes text": ("tree", value(NODES, "nodes")),
    "values short": ("tree", array("tree_/values", lambda a: a[:-1])),
    "values flat": ("tree", array("tree_/values", np.ravel)),
    "values wide": ("tree", array("tree_/values", lambda a: np.repeat(a, 3, 2))),
    "values whole": ("tree", array("tree_/values", lambda a: a.astype(int))),
    "n_features negative": ("tree", tree_argument(0, -1)),
    "n_features 2": ("tree", tree_argument(0, 2)),
    "n_features 2**62": ("tree", tree_argument(0, HUGE)),
    "n_features too many": ("tree", tree_argument(0, 3 * 10**7)),
    "n_classes none": ("tree", tree_argument(1, np.zeros(0, np.intp))),
    "n_classes zero": ("tree", tree_argument(1, np.zeros(1, np.intp))),
    "n_classes negative": ("tree", tree_argument(1, np.array([-1]))),
    "n_classes huge": ("tree", tree_argument(1, np.array([HUGE]))),
    "n_classes fraction": ("tree", tree_argument(1, np.array([1.0]))),
    "n_outputs": ("tree", tree_argument(2, 2)),
    "n_outputs huge": ("tree", tree_argument(2, HUGE)),
    "n_outputs negative": ("tree", tree_argument(2, -1)),
    "n_features_in_": ("tree", value("n_features_in_", 1)),
    "n_features_in_ huge": ("tree", value("n_features_in_", HUGE)),
    "too many features": ("bagging", value("n_features_in_", 3 * 10**7)),
    "hist, too many features": ("hist classifier", value("n_features_in_", 3 * 10**7)),
    "n_features_in_ text": ("tree", value("n_features_in_", "4")),
    "tree_ text": ("tree", value("tree_", "tree")),
    "tree_ null": ("tree", value("tree_", None)),
    "tree of another class": ("tree", claim_other_class),
    "a method": ("tree", call_method),
    "an array that is none": ("hist classifier", pretend_array),
    "module unknown": ("tree", lambda a: a.schema.update(__module__="sklearn.nowhere")),
    "module relative": ("tree", lambda a: a.schema.update(__module__="sklearn..tree")),
    "class null": ("tree", lambda a: a.schema.update(__class__=None)),
    "class a dict": ("tree", lambda a: a.schema.update(__class__="dict", __module__="builtins")),
    "loader unknown": ("tree", lambda a: a.schema.update(__loader__="AnyNode")),
    "protocol 99": ("tree", lambda a: a.schema.update(protocol=99)),
    "estimators_ of text": ("forest", value("estimators_", ["a", "b"])),
    "estimators_ text": ("forest", value("estimators_", "ab")),
    "estimators_ empty": ("forest", value("estimators_", [])),
    "estimators_ null": ("forest", value("estimators_", None)),
    "estimator a number": ("forest", value("estimators_/0", 5)),
    "feature_names_in_ short": ("forest", value("feature_names_in_", ["a"])),
    "stages of text": ("boosting", value("estimators_", [["a"]])),
    "learning_rate text": ("boosting", value("learning_rate", "x")),
    "init_ text": ("boosting", value("init_", "one")),
    "columns out of range": (
        "bagging",
        lambda a: a.put("estimators_features_/0", np.array([0, 99])),
    ),
    "columns short": ("bagging", lambda a: a.put("estimators_features_/0", np.array([0]))),
    "columns negative": ("bagging", lambda a: a.put("estimators_features_/0", np.array([0, -5]))),
    "hist, left out of range": ("hist", node(HIST_NODES, "left", 10**6)),
    "hist, right out of range": ("hist", node(HIST_NODES, "right", 2**32 - 1)),
    "hist, self-loop": ("hist", node(HIST_NODES, "left", 0)),
    "hist, feature out of range": ("hist", node(HIST_NODES, "feature_idx", 4)),
    "hist, feature negative": ("hist", node(HIST_NODES, "feature_idx", -1)),
    "hist, feature huge": ("hist", node(HIST_NODES, "feature_idx", HUGE)),
    "hist, threshold NaN": ("hist", node(HIST_NODES, "num_threshold", np.nan)),
    "hist, categories of a number": ("hist", node(HIST_NODES, "is_categorical", 1)),
    "hist, bitset out of range": ("hist categories", by_category("bitset_idx", 10**6)),
    "hist, bitset next to the end": ("hist categories", by_category("bitset_idx", 99)),
    "hist, category as number": ("hist categories", by_category("is_categorical", 0)),
    "hist, nodes of numbers": ("hist", array(HIST_NODES, lambda a: a["value"])),
    "hist, nodes none": ("hist", array(HIST_NODES, lambda a: a[:0])),
    "hist, nodes of two dimensions": ("hist", array(HIST_NODES, lambda a: a[None])),
    "hist, no predictors": ("hist", value("_predictors", [])),
    "hist, predictors text": ("hist", value("_predictors", "abc")),
    "hist, baseline none": ("hist", lambda a: a.put("_baseline_prediction", np.zeros(0))),
    "hist, baseline text": ("hist", value("_baseline_prediction", "x")),
    "hist, loss": ("hist", value("loss", "mine")),
    "hist, is_categorical_": ("hist categories", lambda a: a.put("is_categorical_", np.ones(9))),
}


@pytest.mark.parametrize("edit", SKOPS_EDITS)
def test_hostile_skops(edit):
    name, change = SKOPS_EDITS[edit]
    archive = Archive(name)
    change(archive)
    data = archive.data()
    if edit == "an array that is none":
        return assert_refused_elsewhere(data)
    assert_refused(data, **options_of(".skops", name))


def assert_refused_elsewhere(data: bytes) -> None:
    """Check a file that might end the process, in another one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        path.write_bytes(data)
        code = (
            "import sys, treeopt\ntry:\n    treeopt.load_model(sys.argv[1])\n"
            "except treeopt.TreeoptError:\n    print('refused')\n"
        )
        run = [sys.executable, "-W", "ignore", "-c", code, str(path)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "refused")


def test_skops_unchanged():
    """Taking a file apart and putting it together again changes nothing."""
    for name in ("tree", "hist categories"):
        data = case_of(".skops", name).data
        a, b = load(Archive(name).data()), load(bytes_of(".skops", name))
        assert a.predict(data).tobytes() == b.predict(data).tobytes()


def test_skops_columns_of_bytes():
    """The type of the columns does not matter, and leaves read none."""
    archive = Archive("bagging")
    archive.put("estimators_features_/0", archive.array("estimators_features_/0").astype(np.uint8))
    assert use(archive.data())


SCHEMAS = {
    "missing": None,
    "empty": b"",
    "text": b"schema",
    "a list": b"[]",
    "null": b"null",
    "not UTF-8": b"\xff\xfe\xfd",
    "nested arrays": b"[" * 200_000,
    "nested objects": b'{"content":' * 200_000,
    "nested and closed": b'{"content":' * 20_000 + b"1" + b"}" * 20_000,
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema(name):
    files = Archive("tree").files
    files.pop("schema.json")
    if SCHEMAS[name] is not None:
        files["schema.json"] = SCHEMAS[name]
    assert_refused(zipped(files))


def test_skops_array_that_is_used_again_and_again():
    """What a file says many times does not fill the memory."""
    archive = Archive("tree")
    archive.files["big.npy"] = npy(np.zeros(2**20))
    for k in range(50):
        archive[f"a{k}"] = stored("big.npy")
    data = archive.data()
    with little_memory():
        use(data)


def test_skops_zip_bomb():
    """An archive is believed when it says that it is too large."""
    data = bytearray(zipped({"big.npy": bytes(2**20)}, zipfile.ZIP_DEFLATED))
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = struct.pack("<I", 2**31)
    with pytest.raises(ModelFormatError, match="claim to unpack to 2147483648"):
        load(bytes(data))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("at", [0.3, 0.7])
def test_skops_damaged_array(compression, at):
    """Damage inside an array is noticed, however long the array is."""
    archive = Archive("hist classifier")
    archive.files["big.npy"] = npy(RNG.integers(0, 9, 40_000))
    archive["big"] = stored("big.npy")
    data = archive.data(compression)
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        big = opened.getinfo("big.npy")
    place = big.header_offset + 200 + int(at * big.compress_size)
    assert_refused(data[:place] + b"\xff\x00\xff" + data[place + 3 :])


def test_skops_calls_nothing(tmp_path):
    """No function that a file names is called: this one would empty another file."""
    other = tmp_path / "other.txt"
    other.write_text("precious")
    kind = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "TypeNode"}
    method = part("ndarray", "MethodNode", {"func": "tofile", "obj": kind}, "numpy")
    call = {
        "func": method,
        "args": part("tuple", "TupleNode", []),
        "kwds": attributes({"file": constant(str(other))}),
        "namespace": constant(None),
    }
    archive = Archive("tree")
    archive["_support_missing_values"] = part("partial", "PartialNode", call, "functools")
    with contextlib.suppress(TreeoptError):
        load(archive.data())
    assert other.read_text() == "precious"
    assert_refused(archive.data())


def test_skops_nested_values():
    archive = Archive("tree")
    deep = constant(1)
    for _ in range(400):
        deep = part("tuple", "TupleNode", [deep])
    archive["deep"] = deep
    with contextlib.suppress(TreeoptError):
        load(archive.data())


def test_n_jobs_of_a_file_are_not_taken():
    archive = Archive("forest")
    archive["n_jobs"] = constant(300)
    started = []
    threading.settrace(lambda *_: started.append(threading.current_thread()))
    try:
        load(archive.data())
    finally:
        threading.settrace(None)
    assert len(set(started)) < 100


@pytest.mark.parametrize(("suffix", "name"), FILES)
def test_cut_off(suffix, name):
    data = bytes_of(suffix, name)
    for size in (len(data) // 3, len(data) // 2, len(data) - 30):
        assert not use(data[:size], **options_of(suffix, name)) or suffix == ".txt"


FUZZED = [(suffix, name) for suffix, name in FILES if name not in ("class 0", "margin")]


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_damage(suffix, data):
    """No damage whatsoever leads to anything but treeopt's own errors."""
    name = data.draw(st.sampled_from([name for kind, name in FUZZED if kind == suffix]))
    seed = data.draw(st.integers(0, 2**32))
    use(damaged(bytes_of(suffix, name), suffix, seed), **options_of(suffix, name))
