"""The instances of the benchmark of decisions: questions with constraints, costs or several models.

A `Question` says what is optimized over the range of the data, in terms of fitted models and plain
arrays. It knows nothing of treeopt or its peers. It also computes what a user would check: the
value of a point from the models' own predictions, and by how much it violates each constraint.
Models are fitted once with ``random_state=0`` and cached in ``bench/cache``. To add an instance,
add it to `INSTANCES`.

All coefficients, prices and limits are rounded to six digits, so that every method gets the same
numbers. Constraints really cut: the limits of a row are quantiles of the row's own values on the
data, and the unconstrained optimum of each model violates at least one of them.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from exact_instances import BINARY, CACHE, FITTED_BY, Data, Model, forest, lightgbm, xgboost
from machine import versions
from problems import Array, boston, mpg
from sklearn.datasets import load_breast_cancer, load_wine

SEED = 0
ROWS, CHEAPEST, SUM, CHANGE, OTHER = (
    "rows and costs",
    "cheapest point",
    "weighted sum",
    "smallest change",
    "softmax and product",
)
"""The families of instances."""


def rounded(values: Any) -> Array:
    """Round to six significant digits."""
    return np.vectorize(lambda v: float(f"{v:.6g}"), otypes=[float])(values)


# Questions ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Linear:
    """The linear constraints ``low <= matrix @ x <= high``."""

    matrix: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Question:
    """What is optimized, over the range of each column of the data ``X``.

    The objective is the weighted sum of the predictions of ``models``. A cost of ``prices @ x`` is
    added if it is minimized, and subtracted if it is maximized. If ``row`` is given, the cost of a
    change is ``|x - row|`` in ranges of the data. The matrix of ``rows`` and ``atleast``, a model
    and a lower limit on its prediction, are constraints.

    Two kinds of questions are not sums. With ``class_index``, the prediction is the probability of
    this class of a multi-class model. With ``product``, a feature and a unit cost, the objective is
    ``(x[feature] - unit cost)`` times the prediction.
    """

    X: Array
    sense: str
    models: tuple[tuple[float, Any], ...] = ()
    prices: Array | None = None
    row: Array | None = None
    rows: Linear | None = None
    atleast: tuple[Any, float] | None = None
    class_index: int | None = None
    product: tuple[int, float] | None = None

    @property
    def sign(self) -> float:
        return 1.0 if self.sense == "min" else -1.0

    @property
    def bounds(self) -> Array:
        return np.column_stack([self.X.min(axis=0), self.X.max(axis=0)])

    @property
    def ranges(self) -> Array:
        return np.ptp(self.X, axis=0)

    @property
    def is_sum(self) -> bool:
        """Whether the objective is a weighted sum."""
        return self.class_index is None and self.product is None

    @property
    def all_models(self) -> list[Any]:
        """The models of the objective and of the constraint, each once."""
        found = [model for _, model in self.models]
        if self.atleast is not None and not any(m is self.atleast[0] for m in found):
            found.append(self.atleast[0])
        return found

    def value(self, x: Array) -> float:
        """Return the objective at a point, from the models' own predictions."""
        total = sum(weight * own(model, x, self.class_index) for weight, model in self.models)
        if self.product is not None:
            feature, unit_cost = self.product
            total *= x[feature] - unit_cost
        if self.prices is not None:
            total += self.sign * float(self.prices @ x)
        if self.row is not None:
            total += self.sign * float((np.abs(x - self.row) / self.ranges).sum())
        return float(total)

    def violations(self, x: Array) -> dict[str, float]:
        """Return the violations of bounds, rows and limit; 0 if satisfied.

        Those of bounds are in ranges of the data, those of rows in sums of absolute terms.
        """
        low, high = self.bounds.T
        outside = np.maximum(low - x, x - high) / self.ranges
        found = {"bounds": float(outside.max()), "rows": 0.0, "limit": 0.0}
        if self.rows is not None:
            activity = self.rows.matrix @ x
            size = np.abs(self.rows.matrix) @ np.abs(x)
            off = np.maximum(self.rows.low - activity, activity - self.rows.high) / size
            found["rows"] = float(off.max())
        if self.atleast is not None:
            model, low_limit = self.atleast
            found["limit"] = low_limit - own(model, x)
        return {name: max(0.0, value) for name, value in found.items()}


def own(model: Any, x: Array, class_index: int | None = None) -> float:
    """Return the model's own prediction; for classifiers, the probability of the last class."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        if hasattr(model, "predict_proba"):
            return float(
                model.predict_proba(x[None])[0, -1 if class_index is None else class_index]
            )
        return float(model.predict(x[None])[0])


# Models ------------------------------------------------------------------------------------------


def cancer() -> tuple[Array, Array]:
    """Return scikit-learn's breast cancer data; class 1 is benign."""
    return load_breast_cancer(return_X_y=True)


def wine() -> tuple[Array, Array]:
    return load_wine(return_X_y=True)


def demand(rows: int = 1_000) -> tuple[Array, Array]:
    """Return made-up sales of a product: price, a competitor's price, season, and three others."""
    rng = np.random.default_rng(SEED)
    X = np.round(np.column_stack([rng.uniform(1, 10, (rows, 2)), rng.random((rows, 4))]), 3)
    price, other, season = X[:, 0], X[:, 1], X[:, 2]
    level = 3.5 - 0.35 * price + 0.1 * other + 0.5 * np.sin(6 * season) + 0.3 * X[:, 3] * X[:, 4]
    return X, np.round(np.exp(level) + rng.normal(0, 1, rows), 2)


KINDS: dict[str, Model] = {
    "RF 100": forest(),
    "XGB 100×4": xgboost(100, 4),
    "LGBM 100": lightgbm(100),
}
"""The regressors, fitted to each of `DATA`."""

DATA: dict[str, Data] = {"boston": boston, "mpg": mpg}

MODELS: dict[str, tuple[Data, Model]] = {
    **{f"{d} {k}": (data, model) for d, data in DATA.items() for k, model in KINDS.items()},
    "cancer XGB 100×3": (cancer, xgboost(100, 3, kind=BINARY)),
    "wine XGB 50×3": (wine, xgboost(50, 3, kind=BINARY)),
    "demand XGB 100×4": (demand, xgboost(100, 4, 0.1)),
}
"""The data and the kind of every model."""


@cache
def fitted(name: str) -> tuple[Any, Array]:
    """Return a fitted model and its data, from the cache if it is there."""
    data, kind = MODELS[name]
    path, stamp = CACHE / f"decisions {name}.pickle", versions(FITTED_BY)
    if not path.exists() or pickle.loads(path.read_bytes())[0] != stamp:
        X, y = data()
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps((stamp, kind().fit(X, y), X)))
        part.replace(path)
    _, model, X = pickle.loads(path.read_bytes())
    return model, X


# The instances -----------------------------------------------------------------------------------

IMPORTANT = {"boston": (5, 12, 7, 0, 4), "mpg": (7, 2, 4, 0, 1)}
"""Five important features of each data set. The first two have opposite effects."""


def three_rows(name: str, X: Array) -> Linear:
    """Return constraints on features in units of their ranges.

    The first limits the total of all features, the second the difference of two important features,
    the third the total of three others. Each must be near its median on the data.
    """
    a, b, *others = IMPORTANT[name]
    unit = rounded(1 / np.ptp(X, axis=0))
    pattern = np.zeros((3, X.shape[1]))
    pattern[0] = 1.0
    pattern[1, [a, b]] = 1.0, -1.0
    pattern[2, others] = 1.0
    matrix = pattern * unit
    quantiles = np.quantile(X @ matrix.T, [[0.4, 0.25, 0.4], [0.6, 0.75, 0.6]], axis=0)
    low, high = (np.diagonal(side) for side in quantiles)
    return Linear(matrix, rounded(low), rounded(high))


def two_prices(name: str, X: Array, y: Array) -> Array:
    """Return prices of two important features; a whole range costs one standard deviation of y."""
    prices = np.zeros(X.shape[1])
    for j in IMPORTANT[name][:3:2]:
        prices[j] = y.std() / np.ptp(X[:, j])
    return rounded(prices)


def ask_rows(name: str, kind: str, sense: str, costs: bool) -> Question:
    model, X = fitted(f"{name} {kind}")
    prices = two_prices(name, X, DATA[name]()[1]) if costs else None
    return Question(X, sense, ((1.0, model),), prices, rows=three_rows(name, X))


def ask_cheapest(name: str, kind: str) -> Question:
    """Return the question for the cheapest point among those with a high prediction.

    The whole range of each feature costs 1. The expensive end is the one with higher targets;
    otherwise, the cheapest corner of the box might have a high prediction already.
    """
    model, X = fitted(f"{name} {kind}")
    y = DATA[name]()[1]
    better = np.sign((X - X.mean(axis=0)).T @ (y - y.mean()))
    limit = float(rounded(np.quantile(model.predict(X), 0.9)))
    return Question(X, "min", prices=rounded(better / np.ptp(X, axis=0)), atleast=(model, limit))


def ask_sum(name: str, kinds: tuple[str, ...], sense: str) -> Question:
    models = tuple((1 / len(kinds), fitted(f"{name} {kind}")[0]) for kind in kinds)
    return Question(fitted(f"{name} {kinds[0]}")[1], sense, models)


def ask_change(rank: float) -> Question:
    """Return the question for the smallest change that turns a malignant case into a benign one.

    ``rank`` is the place of the case among those that the model takes for malignant: 0 is the least
    certain of them, 1 the most certain.
    """
    model, X = fitted("cancer XGB 100×3")
    margin = model.predict(X, output_margin=True)
    malignant = np.flatnonzero(margin < 0)
    malignant = malignant[np.argsort(-margin[malignant], kind="stable")]
    row = X[malignant[int(rank * (malignant.size - 1))]]
    return Question(X, "min", row=row, atleast=(model, 0.5))


def ask_class(index: int) -> Question:
    model, X = fitted("wine XGB 50×3")
    return Question(X, "max", ((1.0, model),), class_index=index)


def ask_product(unit_cost: float) -> Question:
    model, X = fitted("demand XGB 100×4")
    return Question(X, "max", ((1.0, model),), product=(0, unit_cost))


@dataclass(frozen=True)
class Instance:
    """A question by name. If ``own_only``, only treeopt is asked."""

    name: str
    family: str
    ask: Callable[[], Question]
    own_only: bool = False


def _instances() -> list[Instance]:
    senses = ("min", "max")
    found = [
        Instance(
            f"{name} {kind} rows{' costs' * costs} {sense}",
            ROWS,
            partial(ask_rows, name, kind, sense, costs),
        )
        for name in DATA
        for kind in KINDS
        for costs in (False, True)
        for sense in senses
    ]
    found += [
        Instance(f"{name} {kind} cheapest", CHEAPEST, partial(ask_cheapest, name, kind))
        for name in DATA
        for kind in KINDS
    ]
    for name in DATA:
        for sense in senses:
            for kinds in (SUMMED, *((kind,) for kind in SUMMED)):
                label = f"{name} {' + '.join(kinds)}{' alone' * (len(kinds) == 1)} {sense}"
                ask = partial(ask_sum, name, kinds, sense)
                found.append(Instance(label, SUM, ask, own_only=len(kinds) == 1))
    found += [
        Instance(f"cancer XGB 100×3 flip {k}", CHANGE, partial(ask_change, rank))
        for k, rank in enumerate((0.1, 0.5, 0.9), 1)
    ]
    found += [
        Instance(f"wine XGB 50×3 class {k}", OTHER, partial(ask_class, k), own_only=True)
        for k in range(3)
    ]
    return [
        *found,
        Instance("demand XGB 100×4 profit", OTHER, partial(ask_product, 2.0), own_only=True),
    ]


SUMMED = ("RF 100", "XGB 100×4")
"""The models of the weighted sums."""

INSTANCES = {instance.name: instance for instance in _instances()}
"""Every instance by its name."""

QUICK = (
    "mpg LGBM 100 rows costs min",
    "mpg LGBM 100 cheapest",
    "mpg RF 100 + XGB 100×4 min",
    "mpg RF 100 alone min",
    "mpg XGB 100×4 alone min",
    "cancer XGB 100×3 flip 1",
    "demand XGB 100×4 profit",
)
"""The instances of the short form."""
