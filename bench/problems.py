"""The problems of the black-box benchmarks: one line each in `PROBLEMS`, `PAPER` or `UNSEEN`.

A problem is a function on a box, to be minimized. For a model, the box is the range of each feature
in its data. To add a problem, write a function that returns a `Problem` and register it.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import (
    fetch_california_housing,
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_regression,
)
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import treeopt

Array = np.ndarray[Any, np.dtype[np.float64]]
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, eq=False)
class Problem:
    """A function to be minimized over a box.

    ``fun`` takes a matrix of points and returns their values. If it is the prediction of a
    ``model``, ``ensemble`` is its compiled form. If ``compiled`` is True, ``fun`` uses the compiled
    form, and treeopt's own search may run without calling ``fun``.
    """

    name: str
    bounds: Array
    fun: Callable[[Array], Array]
    model: Any = None
    ensemble: treeopt.Ensemble | None = None
    compiled: bool = False

    @property
    def p(self) -> int:
        """Number of dimensions."""
        return len(self.bounds)

    @property
    def weights(self) -> Array:
        """Importances of the features; uniform if the function is not a model."""
        return np.full(self.p, 1 / self.p) if self.ensemble is None else self.ensemble.importances

    def by_predict(self) -> Problem:
        """Return the same problem, evaluated with the model's own ``predict``."""
        return replace(self, fun=self.model.predict, compiled=False)

    def average(self, rows: int = 10_000) -> float:
        """Return the mean of the function over the box, estimated from random points."""
        X = np.random.default_rng(0).uniform(*self.bounds.T, size=(rows, self.p))
        return float(self.fun(X).mean())

    def check(self, rows: int = 1000) -> None:
        """Raise an error unless both forms of a model agree to the last bit."""
        X = np.random.default_rng(0).uniform(*self.bounds.T, size=(rows, self.p))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            own = self.model.predict(X)
        if not np.array_equal(self.fun(X), own):
            raise AssertionError(f"{self.name}: the compiled function differs from the model")


# Tree ensembles ----------------------------------------------------------------------------------


def shipped(name: str) -> tuple[Array, Array]:
    data = treeopt.datasets.load(name)
    return data.X, data.y


boston, bodyfat, pima = (partial(shipped, name) for name in ("boston", "bodyfat", "pima_diabetes"))


def diabetes() -> tuple[Array, Array]:
    """The 442 patients of scikit-learn's diabetes data, in their own units."""
    return load_diabetes(return_X_y=True, scaled=False)


def mpg() -> tuple[Array, Array]:
    """City mileage from the other ten columns, text as ordinal codes in alphabetical order."""
    with (HERE.parent / "data" / "mpg.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    columns = dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True))
    y = columns.pop("cty").astype(float)
    return np.column_stack([_numbers(column) for column in columns.values()]), y


def _numbers(column: Any) -> Array:
    try:
        return column.astype(float)
    except ValueError:
        return np.unique(column, return_inverse=True)[1].astype(float)


def glucose() -> tuple[Array, Array]:
    """Glucose from the other columns of the Pima data, including the diagnosis."""
    data = treeopt.datasets.load("pima_diabetes")
    j = data.feature_names.index("glucose")
    return np.column_stack([np.delete(data.X, j, axis=1), data.y]), data.X[:, j]


def friedman1(n_features: int) -> tuple[Array, Array]:
    return make_friedman1(500, n_features, noise=1.0, random_state=0)


def forest(seed: int = 0) -> Any:
    return RandomForestRegressor(n_estimators=100, random_state=seed, n_jobs=1)


def xgboost(seed: int = 0, **options: Any) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(**{"n_estimators": 100, "random_state": seed, "n_jobs": 1} | options)


def lightgbm(seed: int = 0) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=100, num_leaves=31, random_state=seed, n_jobs=1, verbose=-1)


def of_model(
    name: str, data: Callable[[], tuple[Array, Array]], estimator: Callable[[], Any]
) -> Problem:
    """The prediction of a fitted model over the range of its data."""
    X, y = data()
    model = estimator().fit(X, y)
    ensemble = treeopt.from_model(model)
    bounds = np.column_stack([X.min(axis=0), X.max(axis=0)])

    def fun(points: Array) -> Array:
        return ensemble.predict(points).astype(np.float64)

    return Problem(name, bounds, fun, model, ensemble, compiled=True)


# Classical functions made stepwise ---------------------------------------------------------------

LEVELS = 50


def rosenbrock(X: Array) -> Array:
    return np.sum(100 * (X[:, 1:] - X[:, :-1] ** 2) ** 2 + (1 - X[:, :-1]) ** 2, axis=1)


def ackley(X: Array) -> Array:
    root = np.sqrt(np.mean(X**2, axis=1))
    waves = np.mean(np.cos(2 * np.pi * X), axis=1)
    return -20 * np.exp(-0.2 * root) - np.exp(waves) + 20 + np.e


def rastrigin(X: Array) -> Array:
    return 10 * X.shape[1] + np.sum(X**2 - 10 * np.cos(2 * np.pi * X), axis=1)


def quantised(
    name: str, smooth: Callable[[Array], Array], low: float, high: float, shifted: bool
) -> Problem:
    """A function in 10 dimensions, each coordinate rounded to the middle of one of 50 levels.

    If the optimum is in the middle of the box, the first point of every DIRECT, it is shifted to a
    random place.
    """
    p = 10
    width = high - low
    shift = np.random.default_rng(0).uniform(-0.3, 0.3, p) * width if shifted else np.zeros(p)

    def fun(points: Array) -> Array:
        level = np.clip(np.floor((points - low) / width * LEVELS), 0, LEVELS - 1)
        return smooth(low + (level + 0.5) / LEVELS * width - shift)

    return Problem(name, np.tile([low, high], (p, 1)), fun)


# Tuning ------------------------------------------------------------------------------------------

GRID = 61


def svm_digits(name: str) -> Problem:
    """Validation error of an RBF-SVM on scikit-learn's digits over log10 of C and of γ.

    Both are rounded to a grid of 61 values. Their errors are computed once and cached in
    ``bench/cache``.
    """
    bounds = np.array([[-3.0, 3.0], [-6.0, 0.0]])
    path = HERE / "cache" / "svm_digits.npy"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.npy")
        np.save(part, _svm_errors(bounds))
        part.replace(path)
    errors = np.load(path)

    def fun(points: Array) -> Array:
        unit = (points - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
        i, j = np.clip(np.rint(unit * (GRID - 1)).astype(int), 0, GRID - 1).T
        return errors[i, j]

    return Problem(name, bounds, fun)


def _svm_errors(bounds: Array) -> Array:
    from joblib import Parallel, delayed

    X, y = load_digits(return_X_y=True)
    X_fit, X_val, y_fit, y_val = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)

    def error(C: float, gamma: float) -> float:
        return 1 - float(SVC(C=C, gamma=gamma).fit(X_fit, y_fit).score(X_val, y_val))

    axes = [10 ** np.linspace(low, high, GRID) for low, high in bounds]
    jobs = (delayed(error)(C, gamma) for C in axes[0] for gamma in axes[1])
    return np.array(Parallel(n_jobs=-1)(jobs)).reshape(GRID, GRID)


# Registries --------------------------------------------------------------------------------------

shallow = partial(xgboost, max_depth=4)

PROBLEMS: dict[str, Callable[[str], Problem]] = {
    "boston": partial(of_model, data=boston, estimator=forest),
    "diabetes": partial(of_model, data=diabetes, estimator=forest),
    "mpg": partial(of_model, data=mpg, estimator=forest),
    "bodyfat": partial(of_model, data=bodyfat, estimator=forest),
    "boston XGBoost": partial(of_model, data=boston, estimator=shallow),
    "diabetes XGBoost": partial(of_model, data=diabetes, estimator=shallow),
    "boston LightGBM": partial(of_model, data=boston, estimator=lightgbm),
    "diabetes LightGBM": partial(of_model, data=diabetes, estimator=lightgbm),
    "friedman1-10": partial(of_model, data=partial(friedman1, 10), estimator=forest),
    "friedman1-30": partial(of_model, data=partial(friedman1, 30), estimator=forest),
    "pima glucose": partial(of_model, data=glucose, estimator=forest),
    "rosenbrock": partial(quantised, smooth=rosenbrock, low=-5.0, high=10.0, shifted=False),
    "ackley": partial(quantised, smooth=ackley, low=-32.768, high=32.768, shifted=True),
    "rastrigin": partial(quantised, smooth=rastrigin, low=-5.12, high=5.12, shifted=True),
    "svm digits": svm_digits,
}
"""The problems of ``black_box.py``, by name."""

PAPER: dict[str, Callable[[str], Problem]] = {
    "boston": PROBLEMS["boston"],
    "diabetes (Pima)": partial(of_model, data=pima, estimator=forest),
    "diabetes (sklearn)": PROBLEMS["diabetes"],
    "mpg": PROBLEMS["mpg"],
    "bodyfat": PROBLEMS["bodyfat"],
}
"""The forests of the paper's Table 2."""


def sampled(load: Callable[..., Any], seed: int) -> tuple[Array, Array]:
    """Four fifths of the rows, at most 2,000, drawn with the seed; classes are used as numbers."""
    X, y = load(return_X_y=True)
    chosen = np.random.default_rng(seed).permutation(len(y))[: min(len(y) * 4 // 5, 2_000)]
    return X[chosen], y[chosen].astype(np.float64)


def generated(make: Callable[..., Any], seed: int, **options: Any) -> tuple[Array, Array]:
    return make(500, noise=1.0, random_state=seed, **options)


UNSEEN_DATA: dict[str, Callable[[int], tuple[Array, Array]]] = {
    "friedman2": partial(generated, make_friedman2),
    "friedman3": partial(generated, make_friedman3),
    "regression-15": partial(generated, make_regression, n_features=15),
    "regression-25": partial(generated, make_regression, n_features=25),
    "wine": partial(sampled, load_wine),
    "breast cancer": partial(sampled, load_breast_cancer),
    "digits": partial(sampled, load_digits),
    "california": partial(sampled, fetch_california_housing),
}
"""Data that were not used for design choices, by name; the argument is the seed of the rows."""

UNSEEN_MODELS = {"forest": forest, "XGBoost": xgboost, "LightGBM": lightgbm}
"""Models with the default settings of their libraries."""

UNSEEN_SEEDS = 3

UNSEEN: dict[str, Callable[[str], Problem]] = {
    f"{data} {model} {seed}": partial(
        of_model,
        data=partial(UNSEEN_DATA[data], seed),
        estimator=partial(UNSEEN_MODELS[model], seed),
    )
    for data in UNSEEN_DATA
    for model in UNSEEN_MODELS
    for seed in range(UNSEEN_SEEDS)
}
"""The problems of ``unseen.py``, by name."""

ABLATION: dict[str, Callable[[str], Problem]] = {
    f"{name} {seed}": partial(of_model, data=data, estimator=partial(forest, seed))
    for name, data in {
        "boston": boston,
        "diabetes": diabetes,
        "mpg": mpg,
        "bodyfat": bodyfat,
        "friedman1-10": partial(friedman1, 10),
        "friedman1-30": partial(friedman1, 30),
        "pima glucose": glucose,
    }.items()
    for seed in range(1, 6)
}
"""The forests of ``ablation.py``; choices were made on other forests (seed 0)."""


@cache
def load(name: str) -> Problem:
    """Return a problem by its name; a model is compared with its compiled form."""
    problem = (PROBLEMS | PAPER | UNSEEN | ABLATION)[name](name)
    if problem.model is not None:
        problem.check()
    return problem
