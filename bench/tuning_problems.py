"""The problems of ``tuning_tables.py``: one for each row of the paper's tables, in `CASES`.

Hyperparameters are searched on a grid of 40 values per decade, that is 241 values of C. Each base
classifier is therefore fitted once per split, and an evaluation is a lookup. Fitted results are
cached in ``bench/cache``.
"""

from __future__ import annotations

import os
import warnings
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import sklearn
from joblib import hash as hash_of
from problems import HERE, Array, Problem
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC
from tuning_data import DATA, Data, Part

CACHE = HERE / "cache" / "tuning"
VALIDATION, TEST = 0, 1


def grid(low: int, high: int) -> Array:
    """Return 40 values per decade between two powers of ten, both included."""
    return np.logspace(low, high, 40 * (high - low) + 1)


C_GRID, GAMMA_GRID, WEIGHT_GRID = grid(-3, 3), grid(-6, 0), grid(-2, 2)


@dataclass(frozen=True)
class Case:
    """A row of a table: a data set, a kind of classifier, and the numbers of evaluations."""

    name: str
    data: Data
    kind: type[Oracle]
    learner: str
    budgets: tuple[int, ...]

    def oracle(self, seed: int) -> Oracle:
        return self.kind(self, seed)


@dataclass(frozen=True, eq=False)
class GridProblem(Problem):
    """A problem on a grid; the values of a coordinate have equal shares of the unit interval."""

    shape: tuple[int, ...] = ()

    def place(self, setting: Array) -> Array:
        """Return the middle of a setting's share."""
        return (setting + 0.5) / np.array(self.shape)


class Oracle:
    """The errors of hyperparameter settings on one split; settings are positions on the grids.

    ``shape`` has the number of values of each hyperparameter. ``path`` stores fitted results.
    """

    shape: tuple[int, ...]

    def __init__(self, case: Case, seed: int) -> None:
        self.split, self.learner = case.data.split(seed), case.learner
        name = case.name.replace(" ", "_")
        made_of = hash_of((self.split, sklearn.__version__))
        self.path = CACHE / f"{name}_{seed}_{made_of[:8]}.npz"

    def error(self, setting: Array, part: int) -> float:
        """Return the share of misclassified rows of `VALIDATION` or `TEST`."""
        raise NotImplementedError

    def trainings(self, settings: Array) -> int:
        """Return the number of different base classifiers that some settings need."""
        raise NotImplementedError

    def problem(self, name: str, seen: list[Array]) -> GridProblem:
        """Return the validation error over the unit cube; ``seen`` collects the settings."""
        levels = np.array(self.shape)

        def fun(U: Array) -> Array:
            settings = np.minimum(np.floor(U * levels), levels - 1).astype(np.int64)
            seen.extend(settings)
            return np.array([self.error(setting, VALIDATION) for setting in settings])

        return GridProblem(name, np.tile([0.0, 1.0], (levels.size, 1)), fun, shape=self.shape)

    def close(self) -> None:
        """Store new fitted results."""

    def keep(self, **arrays: Array) -> None:
        """Write the fitted results; the file is replaced atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(f".{os.getpid()}.npz")
        np.savez(unfinished, **arrays)
        unfinished.replace(self.path)


# One C for each base classifier ------------------------------------------------------------------


def svms(X: Array, y: Array) -> list[Any]:
    """Return a linear SVM with the hinge loss for each C."""
    return [LinearSVC(C=C, loss="hinge", random_state=0).fit(X, y) for C in C_GRID]


def logistic_regressions(X: Array, y: Array) -> list[Any]:
    """Return a logistic regression for each C, warm-started from the previous C."""
    solver = "newton-cholesky" if X.shape[1] < 100 else "lbfgs"
    model, fitted = LogisticRegression(solver=solver, warm_start=True, max_iter=1000), []
    for C in C_GRID:
        fitted.append(deepcopy(model.set_params(C=C).fit(X, y)))
    return fitted


LEARNERS = {"SVM": svms, "logistic regression": logistic_regressions}


class MultiClass(Oracle):
    """K classes by several base classifiers, each with its own C."""

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__(case, seed)
        self.n_classes = len(np.unique(self.split.fit.y))
        if not self.path.exists():
            validation, test = zip(*map(self.decisions, self.base_problems()), strict=True)
            self.keep(validation=np.array(validation), test=np.array(test))
        with np.load(self.path) as file:
            self.decided = file["validation"], file["test"]
        self.labels = self.split.validation.y, self.split.test.y
        self.shape = (C_GRID.size,) * len(self.decided[0])

    def base_problems(self) -> list[Part]:
        """Return the training data of each base classifier; its class is 1."""
        raise NotImplementedError

    def decisions(self, problem: Part) -> tuple[Array, Array]:
        """Return the decision of a base classifier for each C and row, for both parts."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # liblinear, where C is large
            fitted = LEARNERS[self.learner](*problem)
        validation, test = (
            np.array([self.decision(model.decision_function(X)) for model in fitted])
            for X in (self.split.validation.X, self.split.test.X)
        )
        return validation, test

    def decision(self, values: Array) -> Array:
        """Return the stored part of w'x + b."""
        raise NotImplementedError

    def votes(self, decisions: Array) -> Array:
        """Return the score of each class, given the decisions of all base classifiers."""
        raise NotImplementedError

    def error(self, setting: Array, part: int) -> float:
        chosen = self.decided[part][np.arange(setting.size), setting]
        return float(np.mean(self.votes(chosen).argmax(axis=0) != self.labels[part]))

    def trainings(self, settings: Array) -> int:
        return sum(len(np.unique(column)) for column in settings.T)


class OneVsAll(MultiClass):
    """Each class against all others; the maximum w'x + b decides."""

    def base_problems(self) -> list[Part]:
        X, y = self.split.fit
        return [Part(X, (y == k).astype(int)) for k in range(self.n_classes)]

    def decision(self, values: Array) -> Array:
        return values.astype(np.float32)

    def votes(self, decisions: Array) -> Array:
        return decisions


class OneVsOne(MultiClass):
    """Each class against each other class, with one vote each; of tied classes, the first wins."""

    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.n_classes), 2))

    def base_problems(self) -> list[Part]:
        X, y = self.split.fit
        chosen = [(i, (y == i) | (y == j)) for i, j in self.pairs()]
        return [Part(X[rows], (y[rows] == i).astype(int)) for i, rows in chosen]

    def decision(self, values: Array) -> Array:
        return values > 0

    def votes(self, decisions: Array) -> Array:
        """Return the votes of each class; each pair votes for its first or its second class."""
        gain = np.zeros((self.n_classes, len(decisions)), np.float32)
        for pair, (i, j) in enumerate(self.pairs()):
            gain[i, pair], gain[j, pair] = 1, -1
        seconds = (gain < 0).sum(axis=1, keepdims=True)
        return gain @ decisions.astype(np.float32) + seconds


# C, γ and the weight of the positive class -------------------------------------------------------


class RbfSvm(Oracle):
    """Two classes by an SVM with the Gaussian kernel; the positive class is the smaller one."""

    shape = (C_GRID.size, GAMMA_GRID.size, WEIGHT_GRID.size)

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__(case, seed)
        self.known: dict[tuple[int, ...], tuple[float, float]] = {}
        if self.path.exists():
            with np.load(self.path) as file:
                keys, errors = file["settings"].tolist(), file["errors"].tolist()
            self.known = dict(zip(map(tuple, keys), map(tuple, errors), strict=True))

    def error(self, setting: Array, part: int) -> float:
        key = tuple(setting.tolist())
        if key not in self.known:
            self.known[key] = self.errors(*key)
        return self.known[key][part]

    def errors(self, i: int, j: int, k: int) -> tuple[float, float]:
        weights = {0: 1.0, 1: WEIGHT_GRID[k]}
        model = SVC(C=C_GRID[i], gamma=GAMMA_GRID[j], class_weight=weights, cache_size=500)
        model.fit(*self.split.fit)
        return 1 - model.score(*self.split.validation), 1 - model.score(*self.split.test)

    def trainings(self, settings: Array) -> int:
        return len(np.unique(settings, axis=0))

    def close(self) -> None:
        self.keep(settings=np.array(list(self.known)), errors=np.array(list(self.known.values())))


# Registry ----------------------------------------------------------------------------------------

CLASSES = {"Synth": 3, "PenDigits": 10, "MNIST": 10}
CASES: dict[str, Case] = {}
"""The rows of the paper's tables, by name."""


def _register() -> None:
    for learner in LEARNERS:
        for data, K in CLASSES.items():
            name = f"{data} one-vs-all {learner}"
            CASES[name] = Case(name, DATA[data], OneVsAll, learner, (100, 100 * K))
    for learner in LEARNERS:
        for data in CLASSES:
            name = f"{data} one-vs-one {learner}"
            CASES[name] = Case(name, DATA[data], OneVsOne, learner, (20, 200))
    for data in ("diabetes", "fourclass", "statlog", "svmguide3", "ijcnn1"):
        name = f"{data} RBF-SVM"
        CASES[name] = Case(name, DATA[data], RbfSvm, "SVM", (125,))


_register()
