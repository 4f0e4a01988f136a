"""Check that treeopt gives the same results as recorded before, to the last bit.

Fixed decisions and searches are solved and compared with the rows of `results/same_answers.csv`:
value, bound, number of nodes and evaluations, the inputs, and every evaluated point. A refactoring
must not change any of them. With ``--record``, the rows are written instead.

Only the public interface is used, so that versions with different internals can be compared. Models
are fitted here, with fixed seeds and one thread. No run has a time limit, and work is counted
instead of time, so the numbers of nodes are the same on a slow machine.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import optuna
import pandas as pd
import skops.io
import xgboost as xgb
from machine import machine, versions
from problems import bodyfat, boston, diabetes, friedman1, mpg, pima, rastrigin, shipped
from rows import PACE, tell
from scipy.optimize import Bounds
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_friedman1
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from threadpoolctl import threadpool_limits

import treeopt
from treeopt import StepDirect, StepDirectSettings
from treeopt.tuning import Integer, Real, StepDirectSampler, StepDirectSearchCV

PATH = Path(__file__).resolve().parent / "results" / "same_answers.csv"

COLUMNS = ("name", "kind", "model", "status", "fun", "bound", "nodes", "nfev", "x", "region")
COLUMNS += ("points",)
"""The compared columns. The model's predictions for its data, the inputs, the region with its
rounding, and all points with their values are stored as hashes. Numbers are exact: reading the
``repr`` of a float gives the same float."""

WORDS = {"status": "the status", "fun": "the value", "bound": "the bound", "x": "the inputs"}
WORDS |= {"nodes": "the number of nodes", "nfev": "the number of evaluations"}
WORDS |= {"region": "the region", "points": "the points evaluated"}

PACKAGES = ("numpy", "scipy", "pandas", "numba", "scikit-learn", "xgboost", "lightgbm", "optuna")
"""The packages that affect the last bits of the models and the results."""

QUICK = 3
"""With ``--quick``, one of this many cases is solved."""

Row = dict[str, str]


@dataclass(frozen=True)
class Case:
    """A case to solve; it returns a row without name and kind."""

    name: str
    kind: str
    solve: Callable[[], Row]


# The cases ---------------------------------------------------------------------------------------

LOW, HIGH = treeopt.minimize, treeopt.maximize
ONLY_PROOF, ONLY_SEARCH = {"method": "exact"}, {"method": "local"}
BLACK_BOX = {"method": "stepdirect", "max_evals": 500}


def decisions() -> list[Case]:
    """Return the decisions: a model, a note on the case, and the arguments.

    Limits and callbacks are also checked during the steps of the dual search, at intervals of time.
    A gap, a number of evaluations or a callback is therefore suitable for this table only if it is
    reached at the end of a step. Here, the best point is found long before the gap is closed, and
    the last evaluations are those of the local search, which comes last in a step.
    """
    return [
        # Forests and trees of scikit-learn.
        decide(LOW, "boston RF 100"),
        decide(HIGH, "boston RF 100"),
        decide(HIGH, "boston RF 100", "only the proof", **ONLY_PROOF),
        decide(LOW, "boston RF 100", "only the search", **ONLY_SEARCH),
        decide(LOW, "boston RF 100", "black box", **BLACK_BOX),
        decide(LOW, "boston RF 100, converted", "another seed", rng=5),
        decide(HIGH, "boston RF 50, names", "frame"),
        decide(HIGH, "boston RF 50, names", "row fixed", fixed=first_row("crim", "rm", "lstat")),
        decide(LOW, "boston RF 50, names", "mapping", bounds=by_name, integer=["rad", "tax"]),
        decide(LOW, "boston RF 50, names", "pairs without ends", bounds=without_ends),
        decide(LOW, "diabetes RF 100", "both proofs, tree search first"),
        decide(LOW, "diabetes RF 100", "gap", gap=10.0),
        decide(LOW, "diabetes RF 100", "evaluations", max_evals=60),
        decide(HIGH, "diabetes RF 100", "lists", categories={1: [1, 2], 2: [20, 25.5, 30]}),
        decide(LOW, "diabetes RF 200", "tree search wins the race"),
        decide(LOW, "boston ET 50", "scipy bounds", bounds=inner_half, integer=3),
        decide(HIGH, "mpg ET 50", "start", bounds=inner_half, start=middle),
        decide(HIGH, "pima RF 100"),
        decide(HIGH, "iris RF 30", "class 1", bounds=inner_half, class_index=1),
        decide(HIGH, "diabetes tree", "infinite ends", bounds=[(-math.inf, math.inf)] * 10),
        decide(LOW, "wine tree", "class 1", class_index=1, output="proba"),
        decide(LOW, "diabetes bagging"),
        decide(LOW, "targets RF 30", "second target", class_index=1),
        decide(HIGH, "pima RF 30, read"),
        decide(LOW, "gaps RF 50", "missing fixed", fixed={0: math.nan}),
        decide(HIGH, "friedman RF 100", "steps so long that a thread takes them"),
        # Boosting of scikit-learn.
        decide(LOW, "diabetes GB 100"),
        decide(HIGH, "diabetes GB 100", "search from a start", start=middle, **ONLY_SEARCH),
        decide(LOW, "friedman GB 300×4", "dual search first"),
        decide(HIGH, "cancer GB 60", "probability", output="proba"),
        decide(HIGH, "cancer GB 60", "margin", output="raw", bounds=ranges),
        decide(LOW, "wine GB 30", "difference of classes", output="raw", class_index=(0, 2)),
        decide(LOW, "machines HGB"),
        decide(HIGH, "machines HGB", "choices", categories={"kind": ["b", "d"]}, integer=["load"]),
        decide(HIGH, "machines HGB", "missing fixed", fixed={"heat": math.nan, "kind": "a"}),
        decide(LOW, "machines HGB", "black box", **BLACK_BOX),
        decide(HIGH, "machines HGB classes", "margin", output="raw", class_index=1),
        decide(LOW, "orders HGB", "hundreds of nodes"),
        decide(LOW, "coded HGB", "choices of codes", categories={8: [0, 3, 5, 11], 9: [2, 4]}),
        decide(LOW, "counts HGB poisson"),
        decide(HIGH, "german HGB", "probability of the first class", class_index=0),
        # XGBoost.
        decide(LOW, "boston XGB 100×3, read"),
        decide(HIGH, "boston XGB 100×3, read", "pairs", bounds=ranges),
        decide(LOW, "diabetes XGB 100×4", "thousands of nodes"),
        decide(LOW, "diabetes XGB 100×4", "only the proof", **ONLY_PROOF),
        decide(HIGH, "diabetes XGB 100×4", "evaluations", max_evals=100),
        decide(LOW, "diabetes XGB 100×4", "stopped", callback=stop_after_nodes(3000)),
        decide(LOW, "boston XGB 500×3", "dual search first"),
        decide(LOW, "friedman XGB 300×3", "only the proof", **ONLY_PROOF),
        decide(LOW, "friedman XGB 100×5", "dual search first"),
        decide(LOW, "friedman XGB 100×5", "gap", gap=1.0),
        decide(LOW, "friedman XGB 100×6", "dual search wins the race"),
        decide(HIGH, "friedman XGB 1000×3", "dual search wins the race"),
        decide(LOW, "friedman-30 XGB 100×3", "many features"),
        decide(HIGH, "friedman-30 XGB 100×3", "many features, only the proof", **ONLY_PROOF),
        decide(HIGH, "german XGB 200×4", "tree search first"),
        decide(HIGH, "pima XGB 100×4"),
        decide(LOW, "pima XGB 100×4", "margin", output="raw"),
        decide(HIGH, "iris XGB 20", "margin of class 1", output="raw", class_index=1),
        decide(HIGH, "iris XGB 20", "difference of classes", output="raw", class_index=(2, 1)),
        decide(LOW, "machines XGB"),
        decide(HIGH, "machines XGB", "infeasible", bounds=no_whole_number, integer=["load"]),
        decide(HIGH, "machines XGB", "choices", categories={"site": ["s02", "s07"]}, rng=1),
        decide(HIGH, "orders XGB 100×6", "both proofs, tree search first"),
        decide(LOW, "orders XGB classes", "difference", output="raw", class_index=(2, 0)),
        decide(HIGH, "boston XGB DART"),
        decide(LOW, "boston XGB random forest"),
        decide(HIGH, "counts XGB poisson"),
        decide(LOW, "zeros XGB", "zero means missing", bounds=ranges),
        decide(LOW, "coded XGB 60×4", "ranges of codes", bounds=ranges),
        decide(HIGH, "coded XGB 60×4", "black box", **BLACK_BOX),
        decide(HIGH, "targets XGB 30×4", "second target", class_index=1),
        decide(HIGH, "bodyfat XGB 60×5, read"),
        decide(LOW, "bodyfat XGB Booster", "whole numbers", integer=[1, 2]),
        # LightGBM.
        decide(LOW, "diabetes LGBM 100"),
        decide(HIGH, "diabetes LGBM 100", "gap", gap=30.0, method="exact"),
        decide(LOW, "boston LGBM 500"),
        decide(HIGH, "orders LGBM 100"),
        decide(LOW, "many orders LGBM 150", "dual search wins the race"),
        decide(LOW, "friedman-30 LGBM 200", "evaluations", max_evals=3000),
        decide(HIGH, "friedman-30 LGBM 200", "gap", gap=0.5),
        decide(HIGH, "pima LGBM 50", "probability"),
        decide(LOW, "wine LGBM 20", "difference of classes", output="raw", class_index=(1, 0)),
        decide(LOW, "machines LGBM"),
        decide(HIGH, "machines LGBM", "only the proof", **ONLY_PROOF),
        decide(HIGH, "machines LGBM", "black box, one site", fixed={"site": "s03"}, **BLACK_BOX),
        decide(HIGH, "zeros LGBM", "zero means missing"),
        decide(LOW, "zeros LGBM", "missing fixed", fixed={1: 0.0}),
        decide(LOW, "bodyfat LGBM, read", "a whole number", integer=1),
    ]


paper, direct = StepDirectSettings.paper, StepDirectSettings.direct
PRESETS = {
    "default": StepDirectSettings(),
    "paper": paper(),
    "StepDIRECT-0": paper(local_search=None),
    "sphere": paper(local_search="sphere"),
    "whole box": paper(search_region="box", grow_on_tie=True),
    "DIRECT": direct(),
}
BATCHES = StepDirectSettings(batch=6)
BOX, WIDE = [(-2, 1), (0, 3), (-1, 1)], [(-5.12, 4.0)] * 8
MIXED = {
    "rate": (1e-3, 1.0, "log"),
    "depth": (1, 12),
    "leaves": Integer(2, 5000, log=True),
    "share": Real(0.1, 1, step=0.1),
    "kind": ["a", "b", None],
    "shrink": [False, True],
    "seed": (3, 3),
}
FEW = {"n": range(0, 9, 4), "kind": ["a", "b"], "share": Real(0, 1, step=0.5)}
SMALL = "friedman XGB 100×5"
TREE = {"max_depth": (1, 12), "min_samples_leaf": (1, 30, "log"), "criterion": ["gini", "entropy"]}
KERNEL = {"C": (1e-2, 1e3, "log"), "gamma": (1e-4, 1.0, "log")}
PAPER = {"settings": paper(), "weights": [3, 1, 1]}
NEIGHBORS = {"n_neighbors": (1, 150), "weights": ["uniform", "distance"], "p": [1, 2]}
TWO_SCORES = {"scoring": ["accuracy", "neg_log_loss"], "refit": "neg_log_loss"}


def searches() -> list[Case]:
    """Return the searches: of a function or a model, with ask and tell, and for tuning."""
    return [
        # Functions in Python.
        *(search(f"steps, {name}", steps, settings=how) for name, how in PRESETS.items()),
        search("steps, weights", steps, weights=[5, 1, 0.2]),
        search("steps, paper with weights", steps, weights=[5, 1, 0], settings=paper()),
        search("steps, one coordinate fixed", steps, [(-2, 1), (0.7, 0.7), (-1, 1)]),
        search("steps, all fixed", steps, [(0.5, 0.5)] * 3),
        search("steps, callback that stops", steps, callback=stop_after(120)),
        search("steps, map as workers", steps, workers=map, settings=BATCHES),
        search("steps that fail", failing_steps),
        search("steps that fail, paper", failing_steps, settings=paper()),
        search("rastrigin, vectorized", rastrigin, WIDE, 1500, vectorized=True),
        search("rastrigin, batches", rastrigin, WIDE, 900, vectorized=True, settings=BATCHES),
        search("rastrigin, few", rastrigin, WIDE, 60, vectorized=True),
        search("rastrigin, paper", rastrigin, WIDE, 600, vectorized=True, settings=paper()),
        # Models, compiled.
        *(search_model(SMALL, name, settings=how) for name, how in PRESETS.items()),
        search_model("boston RF 50, names", "large trees"),
        search_model("boston RF 50, names", "large trees, paper", settings=paper()),
        search_model("boston RF 50, names", "mapping", bounds=by_name, weights=first_matters),
        search_model("boston RF 50, names", "pairs", bounds=ranges, callback=stop_after(350)),
        search_model("pima XGB 100×4", "probability", output="proba"),
        search_model("counts HGB poisson", "link by numpy", settings=paper()),
        search_model("machines LGBM", "categories as numbers"),
        # Asking and telling.
        ask("box, one by one", BOX, one_by_one),
        ask("box, paper in batches", BOX, in_batches, settings=paper()),
        ask("box, DIRECT as it asks", BOX, as_asked, settings=direct()),
        ask("mixed, one by one", MIXED, one_by_one),
        ask("mixed, in batches", MIXED, in_batches, max_evals=100, weights=dict.fromkeys(MIXED, 1)),
        ask("mixed, few evaluations", MIXED, as_asked, max_evals=20),
        ask("mixed, out of order", MIXED, out_of_order),
        ask("mixed, paper out of order", MIXED, out_of_order, settings=paper()),
        ask("mixed, saved and loaded", MIXED, with_a_break),
        ask("few, until all are known", FEW, one_by_one),
        # Tuning.
        tune("tree on wine", DecisionTreeClassifier(random_state=0), TREE, load_wine),
        tune("tree on wine, paper", DecisionTreeClassifier(random_state=0), TREE, load_wine, PAPER),
        tune("kernel on iris", SVC(), KERNEL, load_iris, {"batch_size": 1}),
        tune("kernel on iris, broken off", SVC(), KERNEL, load_iris, breaks=True),
        # More neighbors than rows are left by the splits: some candidates fail.
        tune("neighbours on iris", KNeighborsClassifier(), NEIGHBORS, load_iris, TWO_SCORES),
        study("steps", suggested_steps),
        study("steps, paper, maximised", negative_steps, direction="maximize", settings=paper()),
        study("whole numbers and choices", suggested_grid, n_trials=40),
        study("branches", suggested_branches),
        study("failed and pruned trials", suggested_faults),
    ]


def models() -> dict[str, tuple[Any, ...]]:
    """Return the data and factories of all models, and their conversion for treeopt, if any."""
    return {
        "boston RF 100": (boston, forest(100)),
        "boston RF 100, converted": (boston, forest(100), treeopt.from_model),
        "boston RF 50, names": (boston_frame, forest(50)),
        "boston ET 50": (boston, forest(50, ExtraTreesRegressor)),
        "boston XGB 100×3, read": (boston, xgboost(100, 3), read_from("model.json")),
        "boston XGB 500×3": (boston, xgboost(500, 3)),
        "boston XGB DART": (boston, xgboost(40, 4, booster="dart", rate_drop=0.3)),
        "boston XGB random forest": (boston, xgboost(40, 6, xgb.XGBRFRegressor)),
        "boston LGBM 500": (boston, lightgbm(500)),
        "bodyfat XGB 60×5, read": (bodyfat, xgboost(60, 5), read_from("model.ubj")),
        "bodyfat XGB Booster": (bodyfat, xgboost_booster(60, 5)),
        "bodyfat LGBM, read": (bodyfat, lightgbm(100, num_leaves=7), read_from("model.txt")),
        "cancer GB 60": (cancer, gradient_boosting(60, GradientBoostingClassifier)),
        "coded HGB": (coded, fit(HistGradientBoostingRegressor(categorical_features=[8, 9]))),
        "coded XGB 60×4": (coded, xgboost(60, 4, enable_categorical=True, feature_types=CODED)),
        "counts HGB poisson": (counts, fit(HistGradientBoostingRegressor(loss="poisson"))),
        "counts XGB poisson": (counts, xgboost(40, 4, objective="count:poisson")),
        "diabetes RF 100": (diabetes, forest(100)),
        "diabetes RF 200": (diabetes, forest(200)),
        "diabetes bagging": (diabetes, fit(BaggingRegressor(n_estimators=30, max_features=0.7))),
        "diabetes tree": (diabetes, fit(DecisionTreeRegressor())),
        "diabetes GB 100": (diabetes, gradient_boosting(100)),
        "diabetes XGB 100×4": (diabetes, xgboost(100, 4)),
        "diabetes LGBM 100": (diabetes, lightgbm(100)),
        "friedman RF 100": (friedman(10, 5_000), forest(100)),
        "friedman GB 300×4": (friedman(10), gradient_boosting(300, max_depth=4)),
        "friedman XGB 100×5": (friedman(10), xgboost(100, 5)),
        "friedman XGB 100×6": (friedman(10), xgboost(100, 6)),
        "friedman XGB 300×3": (friedman(10), xgboost(300, 3)),
        "friedman XGB 1000×3": (friedman(10), xgboost(1000, 3)),
        "friedman-30 XGB 100×3": (friedman(30), xgboost(100, 3)),
        "friedman-30 LGBM 200": (friedman(30), lightgbm(200)),
        "gaps RF 50": (gaps, forest(50)),
        "german HGB": (german, fit(HistGradientBoostingClassifier())),
        "german XGB 200×4": (german, xgboost(200, 4, xgb.XGBClassifier)),
        "iris RF 30": (iris, forest(30, RandomForestClassifier)),
        "iris XGB 20": (iris, xgboost(20, 3, xgb.XGBClassifier)),
        "machines HGB": (machines, fit(HistGradientBoostingRegressor())),
        "machines HGB classes": (
            grades(machines),
            fit(HistGradientBoostingClassifier(max_iter=30)),
        ),
        "machines XGB": (machines, xgboost(60, 5, enable_categorical=True)),
        "machines LGBM": (machines, lightgbm(100)),
        "mpg ET 50": (mpg, forest(50, ExtraTreesRegressor)),
        "orders HGB": (orders(3_000, 12), fit(HistGradientBoostingRegressor(max_iter=80))),
        "orders XGB 100×6": (orders(3_000, 12), xgboost(100, 6, enable_categorical=True)),
        "orders XGB classes": (
            grades(orders(3_000, 12)),
            xgboost(60, 5, xgb.XGBClassifier, enable_categorical=True),
        ),
        "orders LGBM 100": (orders(3_000, 12), lightgbm(100)),
        "many orders LGBM 150": (orders(6_000, 40), lightgbm(150)),
        "pima RF 100": (pima, forest(100, RandomForestClassifier)),
        "pima RF 30, read": (
            pima,
            forest(30, RandomForestClassifier),
            read_from("model.skops"),
        ),
        "pima XGB 100×4": (pima, xgboost(100, 4, xgb.XGBClassifier)),
        "pima LGBM 50": (pima, lightgbm(50, lgb.LGBMClassifier)),
        "targets RF 30": (targets, forest(30)),
        "targets XGB 30×4": (targets, xgboost(30, 4, multi_strategy="multi_output_tree")),
        "wine tree": (wine, fit(DecisionTreeClassifier())),
        "wine GB 30": (wine, gradient_boosting(30, GradientBoostingClassifier)),
        "wine LGBM 20": (wine, lightgbm(20, lgb.LGBMClassifier)),
        "zeros XGB": (zeros, xgboost(60, 4, missing=0.0)),
        "zeros LGBM": (zeros, lightgbm(60, zero_as_missing=True)),
    }


# Data --------------------------------------------------------------------------------------------

Data = Callable[[], tuple[Any, Any]]
Make = Callable[[Any, Any], Any]

cancer, iris, wine = (
    partial(load, return_X_y=True) for load in (load_breast_cancer, load_iris, load_wine)
)


def boston_frame() -> tuple[Any, Any]:
    data = treeopt.datasets.load("boston")
    return data.frame(), data.y


def friedman(p: int, rows: int = 2_000) -> Data:
    return partial(make_friedman1, rows, p, noise=1.0, random_state=0)


def german() -> tuple[Any, Any]:
    X, y = shipped("german_numer")
    return X, (y > 0).astype(int)


def counts() -> tuple[Any, Any]:
    X, y = friedman1(6)
    return X, np.random.default_rng(1).poisson(np.maximum(y, 0) / 4).astype(float)


def zeros() -> tuple[Any, Any]:
    """Five numbers, every third of which is 0; the target is larger there."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(800, 5))
    X[rng.random(X.shape) < 1 / 3] = 0.0
    return X, np.round(X, 1) @ [1.0, -2.0, 0.5, 1.5, 0.0] + (X == 0).sum(axis=1) ** 1.5


def gaps() -> tuple[Any, Any]:
    X, y = zeros()
    return np.where(X == 0, math.nan, X), y


def machines() -> tuple[Any, Any]:
    """Numbers, integers, a flag and two columns of categories; some values are missing."""
    rng = np.random.default_rng(3)
    n = 1_500
    kind, site = rng.integers(0, 5, n), rng.integers(0, 12, n)
    frame = pd.DataFrame(
        {
            "speed": rng.uniform(0, 10, n),
            "heat": rng.normal(60, 15, n),
            "load": rng.integers(1, 40, n),
            "on": rng.random(n) < 0.5,
            "kind": pd.Categorical.from_codes(kind, list("abcde")),
            "site": pd.Categorical.from_codes(site, [f"s{k:02d}" for k in range(12)]),
        }
    )
    y = np.floor(frame["speed"]) % 3 * rng.normal(size=5)[kind] + frame["load"] % 7 * frame["on"]
    y = y + np.abs(frame["heat"] - 60) / 20 * rng.normal(size=12)[site] + rng.normal(size=n) / 5
    frame.loc[rng.random(n) < 0.1, "heat"] = np.nan
    frame.loc[rng.random(n) < 0.1, "kind"] = np.nan
    return frame, y.to_numpy()


def orders(n: int, labels: int) -> Data:
    """Return a factory of eight numbers and two columns with this many categories."""

    def make() -> tuple[Any, Any]:
        rng = np.random.default_rng(5)
        X = rng.normal(size=(n, 8))
        y = X[:, 0] + np.sin(3 * X[:, 1]) * X[:, 2] + np.cos(2 * X[:, 3]) * X[:, 4]
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
        for j in range(2):
            code = rng.integers(0, labels, n)
            frame[f"c{j}"] = pd.Categorical.from_codes(code, [f"k{k:02d}" for k in range(labels)])
            y += rng.normal(size=labels)[code] * (1 + X[:, j + 5] ** 2 / 4)
        return frame, y + rng.normal(size=n) / 2

    return make


CODED = ["q"] * 8 + ["c"] * 2
"""The types of the columns of coded orders: quantities, then categories."""


def coded() -> tuple[Any, Any]:
    """Return orders as an array, with codes for the categories."""
    frame, y = orders(3_000, 12)()
    codes = [frame[name].cat.codes for name in ("c0", "c1")]
    return np.column_stack([frame.iloc[:, :8], *codes]), y


def targets() -> tuple[Any, Any]:
    """Return two targets for the diabetes data, one of them a column."""
    X, y = diabetes()
    return np.delete(X, 2, axis=1), np.column_stack([y, X[:, 2]])


def grades(data: Data) -> Data:
    """Return a factory of the same data with three classes as target."""

    def make() -> tuple[Any, Any]:
        X, y = data()
        return X, np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y)

    return make


# Models ------------------------------------------------------------------------------------------


def fit(estimator: Any) -> Make:
    """Return a factory of a fitted estimator, with its seed and one thread."""
    known = estimator.get_params()
    fixed = {"random_state": 0, "n_jobs": 1}
    return estimator.set_params(**{k: v for k, v in fixed.items() if k in known}).fit


def forest(trees: int, kind: Any = RandomForestRegressor) -> Make:
    return fit(kind(trees))


def gradient_boosting(trees: int, kind: Any = GradientBoostingRegressor, **more: Any) -> Make:
    return fit(kind(n_estimators=trees, **more))


def xgboost(trees: int, depth: int, kind: Any = xgb.XGBRegressor, **more: Any) -> Make:
    return fit(kind(n_estimators=trees, max_depth=depth, tree_method="hist", **more))


def xgboost_booster(trees: int, depth: int) -> Make:
    how = {"max_depth": depth, "nthread": 1, "seed": 0, "tree_method": "hist"}
    return lambda X, y: xgb.train(how, xgb.DMatrix(X, y, nthread=1), trees)


def lightgbm(trees: int, kind: Any = lgb.LGBMRegressor, **more: Any) -> Make:
    # By default, LightGBM times two ways to build trees and uses the faster one.
    always = {"deterministic": True, "force_col_wise": True, "verbose": -1}
    return fit(kind(n_estimators=trees, **always, **more))


def read_from(name: str) -> Callable[[Any], treeopt.Ensemble]:
    """Return a function that writes a model to a file and reads it with treeopt."""

    def read(model: Any) -> treeopt.Ensemble:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / name)
            if name.endswith("skops"):
                skops.io.dump(model, path)
            else:
                getattr(model, "booster_", model).save_model(path)
            return treeopt.load_model(path)

    return read


@cache
def fitted(name: str) -> tuple[Any, Any, str]:
    """Return a model, its data, and a hash of its own predictions for them."""
    data, make, *changes = models()[name]
    X, y = data()
    model = make(X, y)
    ask = getattr(model, "inplace_predict", model.predict)
    own = short_hash(getattr(model, "predict_proba", ask)(X))
    return changes[0](model) if changes else model, X, own


# What depends on the data: functions of them that give bounds, points and weights -----------------


def ranges(X: Any) -> Any:
    """Return the range of each column, as pairs."""
    X = np.asarray(X)
    return list(zip(X.min(axis=0).tolist(), X.max(axis=0).tolist(), strict=True))


def by_name(X: Any) -> Any:
    return dict(zip(X.columns, ranges(X), strict=True))


def inner_half(X: Any) -> Any:
    return Bounds(*np.quantile(X, [0.25, 0.75], axis=0))


def without_ends(X: Any) -> Any:
    """Return pairs that have no lower bound and no upper bound alternately."""
    pairs = ranges(X)
    pairs[::2] = [(-math.inf, high) for _, high in pairs[::2]]
    pairs[1::2] = [(low, math.inf) for low, _ in pairs[1::2]]
    return pairs


def no_whole_number(X: Any) -> Any:
    """Return bounds without an admissible value of an integer column."""
    return X.assign(load=4.5)


def middle(X: Any) -> Any:
    return np.median(X, axis=0)


def first_row(*columns: str) -> Callable[[Any], Any]:
    return lambda X: X[list(columns)].iloc[0]


def first_matters(X: Any) -> Any:
    return {name: 1 + 9 * (k == 0) for k, name in enumerate(X.columns)}


# Functions to search -----------------------------------------------------------------------------


def steps(x: Any) -> float:
    """Return a step function; its minimum is 0."""
    return float(np.floor(7 * np.abs(np.asarray(x) - 0.3)).sum())


def failing_steps(x: Any) -> float:
    """Return the same, except for a part of the box without a value and a part that raises."""
    if x[1] > 2:
        raise ZeroDivisionError
    return math.nan if x[0] > 0.5 else steps(x)


def cost(point: Any) -> float:
    """Return the value of a point of any space."""
    if not isinstance(point, Mapping):
        return steps(point)
    numbers = [v for v in point.values() if isinstance(v, float | int)]
    off = sum(math.floor(9 * abs(math.log1p(v) - 0.7)) for v in numbers)
    return off + 5.0 * (point["kind"] != "b")


def stop_after(nfev: int) -> Callable[[treeopt.Progress], None]:
    def callback(now: treeopt.Progress) -> None:
        if now.nfev >= nfev:
            raise StopIteration

    return callback


def stop_after_nodes(nodes: int) -> Callable[[treeopt.DecisionProgress], None]:
    def callback(now: treeopt.DecisionProgress) -> None:
        if now.nodes >= nodes:
            raise StopIteration

    return callback


def suggested_steps(trial: Any) -> float:
    return steps([trial.suggest_float(f"x{k}", -1, 2) for k in range(4)])


def negative_steps(trial: Any) -> float:
    return -suggested_steps(trial)


def suggested_grid(trial: Any) -> float:
    a, b = trial.suggest_int("a", 0, 9), trial.suggest_int("b", 1, 100, log=True)
    return abs(a - 3) + abs(b - 7) + (trial.suggest_categorical("c", ["u", "v", None]) is None)


def suggested_branches(trial: Any) -> float:
    x = trial.suggest_float("x", 0, 1)
    if trial.suggest_categorical("branch", ["y", "z"]) == "y":
        return abs(x - 0.7) + abs(trial.suggest_float("y", 0, 1) - 0.2)
    return abs(x - 0.7) + trial.suggest_int("z", 1, 100, log=True) / 50


def suggested_faults(trial: Any) -> float:
    x, y = trial.suggest_float("x", 1e-3, 1, log=True), trial.suggest_int("y", 0, 50, step=5)
    if y > 40:
        raise optuna.TrialPruned
    return math.nan if x > 0.7 else abs(x - 0.4) + abs(y - 9)


# Ways to ask and tell ----------------------------------------------------------------------------


def one_by_one(opt: StepDirect, n: int = 120, size: int | None = 1) -> StepDirect:
    """Ask for points and tell their values until enough are known, or there are no more."""
    while opt.nfev < n and len(points := opt.ask(size)):
        opt.tell(points, [cost(x) for x in points])
    return opt


in_batches, as_asked = partial(one_by_one, size=5), partial(one_by_one, size=None)


def out_of_order(opt: StepDirect) -> StepDirect:
    """Tell points in reverse: some as failed, some late, some never, and some not asked for."""
    own = {"rate": 0.5, "depth": 2, "leaves": 900, "share": 0.3, "kind": "a", "shrink": True}
    opt.tell([own | {"seed": 3}], [40.0])
    opt.reserve([own | {"seed": 3, "depth": 4}])
    late: list[Any] = []
    for k in range(20):
        *others, failed, later, given_up = opt.ask(6)
        if k == 5:
            others.pop(0)
        opt.tell(others[::-1], [cost(x) for x in others[::-1]])
        opt.tell([failed, *late], [None, *map(cost, late)])
        opt.release([given_up])
        late = [later]
        if k == 10:
            opt.reseed(9)
    return opt


def with_a_break(opt: StepDirect) -> StepDirect:
    """Save the search while points are pending, and continue with the loaded search."""
    one_by_one(opt, 50)
    opt.ask(3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "search.npz"
        opt.save(path)
        return one_by_one(StepDirect.load(path), 100, 2)


# Cases -------------------------------------------------------------------------------------------

OF_DATA = ("bounds", "fixed", "start", "weights")
"""Arguments that may be functions of the data."""


def given_for(X: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments for a model with these data, whose ranges are the bounds by default."""
    given = {"bounds": X, "rng": 0} | options
    return {k: v(X) if k in OF_DATA and callable(v) else v for k, v in given.items()}


def decide(solver: Any, model: str, note: str = "", **options: Any) -> Case:
    """Return a decision of a model."""

    def solve() -> Row:
        made, X, own = fitted(model)
        found = solver(made, **given_for(X, options), n_jobs=1)
        row = {"model": own, "status": found.status.name}
        row |= {"fun": repr(float(found.fun)), "bound": repr(float(found.bound))}
        row |= {"nodes": str(found.nodes), "nfev": str(found.nfev)}
        frame = None if found.x is None else found.frame
        region = [] if found.x is None else [*found.region, found.rounding]
        return row | {"x": short_hash([found.x, frame]), "region": short_hash(region)}

    kind = solver.__name__
    return Case(", ".join(filter(None, [f"{kind} {model}", note])), kind, solve)


def search(name: str, fun: Any, bounds: Any = BOX, max_evals: int = 300, /, **options: Any) -> Case:
    """Return a search of a function."""

    def solve() -> Row:
        return search_row(treeopt.stepdirect(fun, bounds, max_evals=max_evals, rng=0, **options))

    return Case(f"search {name}", "stepdirect", solve)


def search_model(model: str, note: str, output: str = "auto", **options: Any) -> Case:
    """Return a search of a model that is compiled."""

    def solve() -> Row:
        made, X, own = fitted(model)
        ensemble = treeopt.from_model(made, output=output)
        found = treeopt.stepdirect(ensemble, max_evals=800, **given_for(X, options))
        return {"model": own} | search_row(found)

    return Case(f"search {model}, {note}", "stepdirect", solve)


def search_row(found: treeopt.SearchResult) -> Row:
    improvements = found.history[["nfev", "fun"]].tolist()
    points = [found.points, found.values, found.nit, found.nfailed, improvements]
    row = {"status": found.status.name, "fun": repr(float(found.fun)), "nfev": str(found.nfev)}
    return row | {"x": short_hash(found.x), "points": short_hash(points)}


def ask(name: str, space: Any, play: Callable[[StepDirect], StepDirect], **options: Any) -> Case:
    """Return a search with ask and tell."""

    def solve() -> Row:
        opt = play(StepDirect(space, rng=0, **options))
        points = [opt.points, opt.values, opt.pending, opt.nfailed, opt.ask(3)]
        row = {"fun": repr(float(opt.best.fun)), "nfev": str(opt.nfev)}
        return row | {"x": short_hash(opt.best.x), "points": short_hash(points)}

    return Case(f"ask {name}", "StepDirect", solve)


def tune(
    name: str,
    estimator: Any,
    space: Any,
    load: Any,
    options: Mapping[str, Any] | None = None,
    breaks: bool = False,
) -> Case:
    """Return a search of hyperparameters by cross-validation, optionally interrupted."""

    def solve() -> Row:
        how = {"cv": KFold(3, shuffle=True, random_state=0), "random_state": 0, "n_jobs": 1}
        how |= options or {}
        with tempfile.TemporaryDirectory() as folder:
            if breaks:
                how["checkpoint"] = Path(folder) / "checkpoint.jsonl"
                StepDirectSearchCV(estimator, space, n_evals=18, **how).fit(*load(return_X_y=True))
            found = StepDirectSearchCV(estimator, space, n_evals=40, **how)
            return tuning_row(found.fit(*load(return_X_y=True)))

    return Case(f"tune {name}", "StepDirectSearchCV", solve)


def tuning_row(found: StepDirectSearchCV) -> Row:
    results = found.cv_results_
    scores = {k: results[k] for k in sorted(results) if k.startswith("mean_test")}
    row = {"fun": repr(float(found.best_score_)), "nfev": str(len(results["params"]))}
    points = [results["params"], scores]
    return row | {"x": short_hash(found.best_params_), "points": short_hash(points)}


def study(
    name: str, objective: Any, n_trials: int = 60, direction: str = "minimize", **options: Any
) -> Case:
    """Return a study of Optuna."""

    def solve() -> Row:
        sampler = StepDirectSampler(seed=0, n_trials=n_trials, **options)
        found = optuna.create_study(sampler=sampler, direction=direction)
        found.optimize(objective, n_trials)
        points = [(t.params, t.value, t.state.name) for t in found.trials]
        row = {"fun": repr(float(found.best_value)), "nfev": str(len(points))}
        return row | {"x": short_hash(found.best_params), "points": short_hash(points)}

    return Case(f"study {name}", "StepDirectSampler", solve)


def short_hash(thing: Any) -> str:
    return hashlib.sha256(exact_text(thing).encode()).hexdigest()[:12]


def exact_text(thing: Any) -> str:
    """Return a text that is unique for equal values, regardless of array and number types."""
    if isinstance(thing, pd.DataFrame):
        thing = [thing.to_dict("list"), list(map(str, thing.dtypes))]
    if isinstance(thing, pd.Series):
        thing = thing.to_dict()
    if isinstance(thing, Mapping):
        return "{" + ", ".join(f"{k!r}: {exact_text(v)}" for k, v in thing.items()) + "}"
    if isinstance(thing, np.ndarray | np.generic):
        thing = thing.tolist()
    if isinstance(thing, list | tuple):
        return "[" + ", ".join(map(exact_text, thing)) + "]"
    return thing.hex() if isinstance(thing, float) else repr(thing)


# The command -------------------------------------------------------------------------------------


def row_of(case: Case) -> Row:
    return dict.fromkeys(COLUMNS, "") | {"name": case.name, "kind": case.kind} | case.solve()


def one_after_the_other(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield the cases, and show the progress."""
    begin, said = time.perf_counter(), 0.0
    for k, case in enumerate(cases, 1):
        yield case
        spent = time.perf_counter() - begin
        if spent >= said + PACE or k == len(cases):
            said = spent
            tell(f"{k}/{len(cases)}, {spent:.0f} s: {case.name}")


def record(path: Path, cases: Sequence[Case]) -> None:
    """Write the rows of all cases; the file is replaced atomically."""
    text = io.StringIO(newline="")
    text.write(f"# {made_with()}\n# {machine()}\n")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(row_of, one_after_the_other(cases)))
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(text.getvalue(), encoding="utf-8")
    unfinished.replace(path)


def made_with() -> str:
    """Return the versions of all packages except treeopt."""
    return versions(PACKAGES).partition(", ")[2]


def recorded(path: Path) -> tuple[list[str], dict[str, Row]]:
    """Return packages and machine of the recorded rows, and the rows by name."""
    if not path.exists():
        raise SystemExit(f"there are no rows in {path} yet. Run with --record first.")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    about = [line[1:].strip() for line in lines if line.startswith("#")]
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return about, {row["name"]: row for row in rows}


def warn_of_others(about: Sequence[str]) -> None:
    """Warn if the rows were recorded with other packages, or on another machine."""
    for before, now in zip(about, (made_with(), machine()), strict=True):
        if before != now:
            tell(f"warning: recorded with {before}; now {now}. The last bits of models may differ.")


def differences(case: Case, before: Row | None) -> list[str]:
    """Solve a case, and return the differences as text."""
    if before is None:
        return ["it is not recorded"]
    try:
        now = row_of(case)
    except Exception as error:  # any exception is a difference
        return [f"it ended with {type(error).__name__}: {error}"]
    if before["model"] != now["model"]:
        return ["the model itself has other predictions, so the results cannot be compared"]
    changed = [column for column in COLUMNS if before[column] != now[column]]
    return [f"{WORDS.get(c, c)} was {before[c] or 'none'}, is {now[c] or 'none'}" for c in changed]


def compare(path: Path, cases: Sequence[Case]) -> int:
    """Solve cases, print the differences to the rows, and return the number of such cases."""
    about, rows = recorded(path)
    warn_of_others(about)
    n = 0
    for case in one_after_the_other(cases):
        found = differences(case, rows.get(case.name))
        n += bool(found)
        for difference in found:
            print(f"{case.name}: {difference}", flush=True)
    return n


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--record", action="store_true", help="write the rows of all cases")
    options.add_argument("--quick", action="store_true", help="compare about a third of the cases")
    options.add_argument(
        "--only", default="", metavar="TEXT", help="only cases with this text in their names"
    )
    options.add_argument("--path", type=Path, default=PATH, help="the file, by default in results/")
    given = options.parse_args(arguments)
    if given.record and (given.quick or given.only):
        options.error("--record writes all cases. Remove --quick and --only.")
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    cases = [*decisions(), *searches()]
    assert len({case.name for case in cases}) == len(cases), "two cases of the same name"
    cases = [case for case in cases[:: QUICK if given.quick else 1] if given.only in case.name]
    if not cases:
        raise SystemExit(f"no case has {given.only!r} in its name")
    tell(f"{len(cases)} cases, solved by {Path(treeopt.__file__).parent}")
    with threadpool_limits(1):
        if given.record:
            record(given.path, cases)
            return
        n = compare(given.path, cases)
    if n:
        raise SystemExit(f"{n} of {len(cases)} answers differ")
    print(f"all {len(cases)} answers are equal")


if __name__ == "__main__":
    main()
