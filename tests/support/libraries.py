"""What the tests must know about each model library: one small object per family.

A new library is one more subclass of `Library`, one table in `tests/support/cases.py` and one
subclass of `tests.support.contract.AdapterContract`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

# Small models on few cores: threads that wait for each other would take most of the time.
threadpool_limits(1, user_api="openmp")

ZERO = float(np.float32(1e-35))
"""LightGBM's kZeroThreshold."""


class Splits(NamedTuple):
    """Distinct pairs of a feature and a number: a threshold, or a category."""

    feature: np.ndarray
    value: np.ndarray


def distinct(pairs: Iterable[tuple[Any, Any]]) -> Splits:
    """Gather pairs of a feature (or many) and its numbers; drop what comes twice."""
    table = [np.column_stack(np.broadcast_arrays(f, np.asarray(v, float))) for f, v in pairs]
    table = np.unique(np.concatenate([np.empty((0, 2)), *table]), axis=0)
    return Splits(table[:, 0].astype(int), table[:, 1])


class Training(NamedTuple):
    """What a bare Booster is trained with; it may stop early."""

    params: dict[str, Any]
    X: Any
    y: Any
    rounds: int
    categorical: tuple[int, ...]
    stop: bool


class Library:
    """How to train, ask and read the models of one library, without treeopt."""

    name: str
    classes: tuple[type, ...]
    """The classes of its models."""
    input_dtype: type = np.float32
    """What it casts inputs to before it compares them."""
    labels_are_numbers = False
    """Whether a matrix holds a numeric label itself where others hold its code."""

    def fit(self, model: Any, X: Any, y: Any, categorical: tuple[int, ...] = (), **more: Any):
        """Fit an estimator; columns with categories are given by their indices."""
        return model.fit(X, y, **more)

    def train(self, given: Training) -> Any:
        """Train a bare Booster, where the library has one, on the first hundred rows."""
        raise NotImplementedError

    def predict(self, model: Any, X: Any, output: str) -> np.ndarray:
        """Return the library's own prediction: a vector, or a column per output or class."""
        raise NotImplementedError

    def thresholds(self, model: Any) -> Splits:
        """Return the thresholds exactly as the library stores them."""
        raise NotImplementedError

    def categories(self, model: Any) -> Splits:
        """Return the categories in the sets that splits hold."""
        return distinct([])

    def importances(self, model: Any) -> np.ndarray:
        """Return the importances that the library itself reports; gain where it has a choice."""
        return model.feature_importances_

    def names(self, model: Any) -> tuple[str, ...]:
        """Return the names that the library keeps for the columns of a frame."""
        return tuple(model.feature_names_in_)

    def cast(self, model: Any, rows: np.ndarray) -> np.ndarray:
        """Return rows as the library sees them, NaN where a value counts as missing everywhere."""
        with np.errstate(over="ignore"):
            return rows.astype(self.input_dtype).astype(np.float64)


class ScikitLearn(Library):
    """Trees, forests, bagging and GradientBoosting."""

    name = "sklearn"
    classes = (BaseEstimator,)

    def predict(self, model: Any, X: Any, output: str) -> np.ndarray:
        if output == "raw" and hasattr(model, "decision_function"):
            return model.decision_function(X)
        return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)

    def _members(self, model: Any) -> list[tuple[Any, np.ndarray]]:
        """Return the trees, each with the columns that it was given."""
        members = np.ravel(getattr(model, "estimators_", [model]))
        every = [np.arange(model.n_features_in_)] * len(members)
        return list(zip(members, getattr(model, "estimators_features_", every), strict=True))

    def thresholds(self, model: Any) -> Splits:
        pairs = []
        for member, columns in self._members(model):
            inner = member.tree_.feature >= 0
            pairs.append((columns[member.tree_.feature[inner]], member.tree_.threshold[inner]))
        return distinct(pairs)

    def importances(self, model: Any) -> np.ndarray:
        if hasattr(model, "feature_importances_"):
            return model.feature_importances_
        total = np.zeros(model.n_features_in_)  # bagging has none: those of its trees
        for member, columns in self._members(model):
            np.add.at(total, columns, member.feature_importances_)
        return total


class HistGradientBoosting(Library):
    """scikit-learn's HistGradientBoosting, which reads categories and float64."""

    name = "hist"
    classes = (HistGradientBoostingRegressor, HistGradientBoostingClassifier)
    input_dtype = np.float64
    labels_are_numbers = True

    def fit(self, model: Any, X: Any, y: Any, categorical: tuple[int, ...] = (), **more: Any):
        if categorical and not isinstance(X, pd.DataFrame):
            model.set_params(categorical_features=list(categorical))
        return model.fit(X, y, **more)

    def predict(self, model: Any, X: Any, output: str) -> np.ndarray:
        X = self._with_labels(model, X) if isinstance(X, np.ndarray) else X
        if not hasattr(model, "predict_proba"):
            return model._raw_predict(X).ravel() if output == "raw" else model.predict(X)
        return model.decision_function(X) if output == "raw" else model.predict_proba(X)

    def _with_labels(self, model: Any, X: np.ndarray) -> Any:
        """Return a matrix with the labels of categories, where a number can be none."""
        text = {j: k for j, k in self._known(model).items() if isinstance(k[0], str)}
        matrix = X.astype(object) if text else X
        for j, known in text.items():
            if np.isinf(X[:, j]).any():
                raise ValueError("infinity stands for no label")
            number = {float(k): label for k, label in enumerate(known)}
            labels = [np.nan if np.isnan(v) else number.get(v, "unheard of") for v in X[:, j]]
            matrix[:, j] = labels
        return matrix

    def _columns(self, model: Any) -> np.ndarray:
        """Return the columns in the order in which the trees number them: categories first."""
        flags = model.is_categorical_
        flags = np.zeros(model.n_features_in_, bool) if flags is None else flags
        return np.argsort(~flags, kind="stable")

    def _known(self, model: Any) -> Mapping[int, list]:
        """Return the categories of each column that has them, in the order of their codes."""
        if model.is_categorical_ is None:
            return {}
        encoder = model._preprocessor.named_transformers_["encoder"]
        known = [[v for v in c.tolist() if v == v] for c in encoder.categories_]
        return dict(zip(np.flatnonzero(model.is_categorical_), known, strict=True))

    def _nodes(self, model: Any) -> np.ndarray:
        nodes = [p.nodes for stage in model._predictors for p in stage]
        nodes = np.concatenate(nodes)
        return nodes[nodes["is_leaf"] == 0]

    def thresholds(self, model: Any) -> Splits:
        nodes = self._nodes(model)
        nodes = nodes[nodes["is_categorical"] == 0]
        return distinct([(self._columns(model)[nodes["feature_idx"]], nodes["num_threshold"])])

    def categories(self, model: Any) -> Splits:
        nodes = self._nodes(model)
        split = self._columns(model)[nodes["feature_idx"][nodes["is_categorical"] != 0]]
        known = {j: k for j, k in self._known(model).items() if j in split}
        codes = {j: range(len(k)) if isinstance(k[0], str) else k for j, k in known.items()}
        return distinct(codes.items())

    def importances(self, model: Any) -> np.ndarray:
        nodes = self._nodes(model)  # the library has none: the gain
        gain = np.zeros(model.n_features_in_)
        np.add.at(gain, self._columns(model)[nodes["feature_idx"]], nodes["gain"])
        return gain


class XGBoost(Library):
    """The wrappers, and bare Boosters."""

    name = "xgboost"
    classes = (xgb.XGBModel, xgb.Booster)

    @staticmethod
    def _kinds(X: Any, categorical: tuple[int, ...]) -> list[str] | None:
        if not categorical or isinstance(X, pd.DataFrame):
            return None
        return ["c" if j in categorical else "q" for j in range(X.shape[1])]

    def fit(self, model: Any, X: Any, y: Any, categorical: tuple[int, ...] = (), **more: Any):
        if categorical:
            model.set_params(enable_categorical=True, feature_types=self._kinds(X, categorical))
        if more.pop("stop", False):
            return model.fit(X[:100], y[:100], eval_set=[(X[100:], y[100:])], verbose=False)
        return model.fit(X, y, **more)

    def train(self, given: Training) -> xgb.Booster:
        kinds = self._kinds(given.X, given.categorical)
        train, valid = (
            xgb.DMatrix(given.X[part], given.y[part], feature_types=kinds, enable_categorical=True)
            for part in (slice(100), slice(100, None))
        )
        return xgb.train(
            {"max_depth": 4, "nthread": 1, **given.params},
            train,
            given.rounds,
            evals=[(valid, "valid")],
            early_stopping_rounds=2 if given.stop else None,
            verbose_eval=False,
        )

    def predict(self, model: Any, X: Any, output: str) -> np.ndarray:
        raw = output == "raw"
        if isinstance(model, xgb.Booster):
            learner = self._learner(model)
            if learner["objective"]["name"] == "multi:softmax" and not raw:
                model = model.copy()  # it has labels only
                model.set_param({"objective": "multi:softprob"})
            if learner["gradient_booster"]["name"] == "dart":
                return self.predict_matrix(model, X, raw)
            return model.inplace_predict(X, predict_type="margin" if raw else "value")
        if hasattr(model, "predict_proba") and not raw:
            return model.predict_proba(X)
        return model.predict(X, output_margin=raw)

    @staticmethod
    def predict_matrix(booster: xgb.Booster, X: Any, raw: bool) -> np.ndarray:
        """Predict through a DMatrix: for dart its sum is another one than the inplace one."""
        framed = isinstance(X, pd.DataFrame)
        names, kinds = booster.feature_names, booster.feature_types
        known = {} if framed else {"feature_names": names, "feature_types": kinds}
        return booster.predict(xgb.DMatrix(X, enable_categorical=True, **known), output_margin=raw)

    @staticmethod
    def _booster(model: Any) -> xgb.Booster:
        return model if isinstance(model, xgb.Booster) else model.get_booster()

    def _learner(self, model: Any) -> dict[str, Any]:
        return json.loads(bytes(self._booster(model).save_raw("json")))["learner"]

    def _trees(self, model: Any) -> list[dict[str, Any]]:
        booster = self._learner(model)["gradient_booster"]
        return booster.get("gbtree", booster)["model"]["trees"]

    def thresholds(self, model: Any) -> Splits:
        pairs = []
        for tree in self._trees(model):
            inner = (np.array(tree["left_children"]) >= 0) & (np.array(tree["split_type"]) == 0)
            column, cut = tree["split_indices"], tree["split_conditions"]
            pairs.append((np.array(column)[inner], np.array(cut, np.float64)[inner]))
        return distinct(pairs)

    def categories(self, model: Any) -> Splits:
        pairs = []
        for tree in self._trees(model):
            nodes, starts = tree["categories_nodes"], tree["categories_segments"]
            for node, start, size in zip(nodes, starts, tree["categories_sizes"], strict=True):
                members = tree["categories"][start : start + size]
                pairs.append((tree["split_indices"][node], members))
        return distinct(pairs)

    def importances(self, model: Any) -> np.ndarray:
        if not isinstance(model, xgb.Booster):
            return model.feature_importances_
        gain = model.get_score(importance_type="gain")
        names = model.feature_names or [f"f{i}" for i in range(model.num_features())]
        return np.array([gain.get(name, 0.0) for name in names])

    def names(self, model: Any) -> tuple[str, ...]:
        return tuple(self._booster(model).feature_names)

    def cast(self, model: Any, rows: np.ndarray) -> np.ndarray:
        seen = super().cast(model, rows)
        missing = getattr(model, "missing", np.nan)
        seen[seen == np.float64(np.float32(missing))] = np.nan
        return seen


class LightGBM(Library):
    """The wrappers, and bare Boosters."""

    name = "lightgbm"
    classes = (lgb.LGBMModel, lgb.Booster)
    input_dtype = np.float64

    @staticmethod
    def _columns(X: Any, categorical: tuple[int, ...]) -> Any:
        return list(categorical) if categorical and not isinstance(X, pd.DataFrame) else "auto"

    def fit(self, model: Any, X: Any, y: Any, categorical: tuple[int, ...] = (), **more: Any):
        if more.pop("stop", False):
            more |= {
                "eval_set": [(X[100:], y[100:])],
                "callbacks": [lgb.early_stopping(2, verbose=False)],
            }
            X, y = X[:100], y[:100]
        return model.fit(X, y, categorical_feature=self._columns(X, categorical), **more)

    def train(self, given: Training) -> lgb.Booster:
        """With ``stop``, trees after the best one are kept."""
        X, y = given.X, given.y
        few = {"verbose": -1, "min_data_in_leaf": 2, "min_data_in_bin": 1, "num_threads": 1}
        columns = self._columns(X, given.categorical)
        train = lgb.Dataset(X[:100], y[:100], categorical_feature=columns)
        return lgb.train(
            {**few, **given.params},
            train,
            given.rounds,
            valid_sets=[lgb.Dataset(X[100:], y[100:], reference=train)],
            callbacks=[lgb.early_stopping(4, verbose=False)] if given.stop else [],
            keep_training_booster=given.stop,
        )

    def predict(self, model: Any, X: Any, output: str) -> np.ndarray:
        ask = getattr(model, "predict_proba", model.predict)
        return ask(X, raw_score=output == "raw", num_threads=1)

    def _trees(self, model: Any) -> list[dict[str, list[str]]]:
        """Return the fields of each tree that has splits, as the model text has them."""
        booster = model if isinstance(model, lgb.Booster) else model.booster_
        text = booster.model_to_string().partition("\nend of trees")[0]
        trees = [dict(re.findall(r"^(\w+)=(.*)$", t, re.M)) for t in text.split("\nTree=")[1:]]
        return [{k: v.split() for k, v in t.items()} for t in trees if "split_feature" in t]

    def _nodes(self, tree: dict[str, list[str]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each split's feature, threshold, and whether it is by categories."""
        by_set = np.array(tree["decision_type"], int) % 2 == 1
        return np.array(tree["split_feature"], int), np.array(tree["threshold"], float), by_set

    def thresholds(self, model: Any) -> Splits:
        nodes = map(self._nodes, self._trees(model))
        return distinct((feature[~s], cut[~s]) for feature, cut, s in nodes)

    def categories(self, model: Any) -> Splits:
        pairs = []
        for tree in self._trees(model):
            feature, cut, by_set = self._nodes(tree)
            for j, k in zip(feature[by_set], cut[by_set].astype(int), strict=True):
                start, stop = np.array(tree["cat_boundaries"], int)[[k, k + 1]]
                bits = [int(word) for word in tree["cat_threshold"][start:stop]]
                pairs.append((j, [c for c in range(32 * len(bits)) if bits[c // 32] >> c % 32 & 1]))
        return distinct(pairs)

    def importances(self, model: Any) -> np.ndarray:
        if isinstance(model, lgb.Booster):
            return model.feature_importance("gain")
        return model.feature_importances_

    def names(self, model: Any) -> tuple[str, ...]:
        is_booster = isinstance(model, lgb.Booster)
        return tuple(model.feature_name() if is_booster else model.feature_name_)

    def cast(self, model: Any, rows: np.ndarray) -> np.ndarray:
        seen = super().cast(model, rows)
        # What is within the zero limit is dropped before any tree sees it.
        seen[np.abs(seen) <= ZERO] = 0.0
        return seen


LIBRARIES = {
    library.name: library
    for library in (XGBoost(), LightGBM(), HistGradientBoosting(), ScikitLearn())
}
"""By name; the last is for all other scikit-learn estimators."""


def library_of(model: Any) -> Library:
    """Return the first library that has the model's class."""
    return next(library for library in LIBRARIES.values() if isinstance(model, library.classes))
