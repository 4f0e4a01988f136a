"""Decisions on real models against an independent mixed-integer program.

Brute force needs tiny ensembles. Here the models are fitted to the shipped data, and the judge is
`tests.support.mip`. Every question is written twice: as a user writes it, and for the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import LinearConstraint
from sklearn.ensemble import RandomForestRegressor

import treeopt
from tests.support import mip
from tests.support.decisions import slow
from treeopt import Change, Predicted, Price, Status, WeightedSum

pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")

LIMIT = 120.0
"""Maximum seconds of the oracle. A question that takes it longer is too large for these tests."""

WIDTH = 20.0
"""Maximum width of the oracle's interval, in its tolerances. At least 2 cannot be avoided."""

Array = np.ndarray[Any, np.dtype[np.float64]]
SMALL, LARGE = 0, 1


# Data and models ---------------------------------------------------------------------------------


@cache
def data(name: str) -> tuple[Any, Array]:
    """Return a frame of float64 with names x0, x1, ..., and the target."""
    found = treeopt.datasets.load(name)
    X = np.asarray(found.X, np.float64)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), np.asarray(found.y)


@cache
def fitted(name: str, kind: str, size: int) -> Any:
    """Return a model of the data."""
    trees, depth = ((10, 4), (30, 5))[size]
    model = {
        "forest": RandomForestRegressor(trees, max_depth=depth, random_state=0),
        "xgboost": xgboost.XGBRegressor(
            n_estimators=trees, max_depth=depth - 1, random_state=0, n_jobs=1
        ),
        "lightgbm": lightgbm.LGBMRegressor(
            n_estimators=trees, num_leaves=2 * depth, random_state=0, n_jobs=1, verbose=-1
        ),
    }[kind]
    return model.fit(*data(name))


KINDS = ("forest", "xgboost", "lightgbm")


# Questions ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Asked:
    """A question, as a user asks it and as a user checks it.

    ``models`` are the models of the objective with their weights. ``value`` is the objective of a
    row, given the weighted sum of their predictions. ``holds`` has the constraints as a user writes
    them in Python: functions of a row of float64. ``limits`` are models with limits on their
    predictions. ``oracle`` is the question without the sense, the models and their limits.
    """

    name: str
    sense: str
    objective: Any
    models: Sequence[tuple[float, Any]] = ()
    options: dict[str, Any] | None = None
    cost: Callable[[Array], float] = lambda x: 0.0
    holds: Sequence[Callable[[Array], bool]] = ()
    limits: Sequence[tuple[Any, float, float]] = ()
    oracle: dict[str, Any] | None = None

    @property
    def sign(self) -> float:
        return 1.0 if self.sense == "min" else -1.0

    def program(self, X: Any) -> mip.Question:
        """Return the question for the oracle."""
        bounds = np.column_stack([X.to_numpy().min(axis=0), X.to_numpy().max(axis=0)])
        trees = [mip.Trees(treeopt.from_model(model), w) for w, model in self.models]
        limits = [
            mip.Limit(mip.Trees(treeopt.from_model(model)), low, high)
            for model, low, high in self.limits
        ]
        return mip.Question(bounds, trees, self.sense, limits=limits, **(self.oracle or {}))

    def admits(self, X: Any) -> Array:
        """Return which rows satisfy all constraints, in float64 as written."""
        integer = list((self.oracle or {}).get("integer", ()))
        rows = X.to_numpy()
        found = np.array([all(rule(x) for rule in self.holds) for x in rows])
        found &= (rows[:, integer] == np.round(rows[:, integer])).all(axis=1)
        for model, low, high in self.limits:
            predicted = model.predict(X).astype(np.float64)
            found &= (low <= predicted) & (predicted <= high)
        return found

    def values(self, X: Any) -> Array:
        """Return the objective of each row, from the models' own predictions."""
        total = np.array([self.sign * self.cost(x) for x in X.to_numpy()])
        for weight, model in self.models:
            total += weight * model.predict(X).astype(np.float64)
        return total


def judge(asked: Asked, X: Any) -> None:
    """Ask treeopt and the oracle, and compare."""
    question = asked.program(X)
    call = treeopt.minimize if asked.sense == "min" else treeopt.maximize
    res = call(asked.objective, X, rng=0, **(asked.options or {}))
    assert res.status is Status.OPTIMAL, res.message
    check_point(asked, X, res)
    check_data(asked, X, res)
    low, high = interval(question)
    assert low <= res.fun <= high, (res.fun, low, high)


def interval(question: mip.Question) -> tuple[float, float]:
    """Return an interval that contains the optimum, a few tolerances wide."""
    found = mip.solve(question, LIMIT)
    assert found.status == mip.OPTIMAL, found.status
    low, high = mip.bracket(question, LIMIT)
    assert high - low <= WIDTH * found.tolerance, "choose a question that is less sensitive"
    free = mip.solve(replace(question, rows=(), limits=()), LIMIT)
    assert not low <= free.fun <= high, "choose constraints that exclude the free optimum"
    return low, high


def check_point(asked: Asked, X: Any, res: Any) -> None:
    """The point is within the bounds, satisfies all constraints, and has the reported value."""
    frame, x = res.frame, res.frame.to_numpy(np.float64)[0]
    assert (frame.columns == X.columns).all()
    assert (X.min() <= x).all() and (x <= X.max()).all()
    assert asked.admits(frame.astype(np.float64)).all(), x
    predicted = [w * float(model.predict(frame)[0]) for w, model in asked.models]
    cost = asked.cost(x)
    if predicted:
        assert res.prediction == sum(predicted)
    assert res.cost == pytest.approx(cost, rel=1e-12, abs=1e-12)
    assert list(res.terms.values())[: len(predicted)] == predicted
    assert sum(res.terms.values()) == res.fun
    assert res.fun == pytest.approx(sum(predicted) + asked.sign * cost, rel=1e-12, abs=1e-12)
    assert all(slack >= 0 for slack in res.slack.values())


def check_data(asked: Asked, X: Any, res: Any) -> None:
    """No row of the data that satisfies the constraints is beyond the bound."""
    admitted = asked.admits(X)
    if admitted.any():
        values = asked.sign * asked.values(X[admitted])
        room = 1e-12 * (1 + abs(res.bound))  # costs are added in another order
        assert values.min() >= asked.sign * res.bound - room
    assert asked.sign * (res.fun - res.bound) >= 0 and res.gap <= res.rounding


# The questions -----------------------------------------------------------------------------------


def one(name: str, kind: str, size: int) -> tuple[Any, Any, Array]:
    """Return data, model and the rows of the data as a matrix."""
    X, _ = data(name)
    return X, fitted(name, kind, size), X.to_numpy()


def unit(n: int, **entries: float) -> Array:
    """Return a vector with some entries, named x0, x1, ..."""
    found = np.zeros(n)
    for name, value in entries.items():
        found[int(name[1:])] = value
    return found


def _with(asked: Asked, **more: Any) -> Asked:
    """Add what only the oracle needs, and limits and conditions."""
    own = {key: more.pop(key) for key in ("holds", "limits") if key in more}
    return replace(asked, oracle=more, **own)


def linear_text(kind: str, size: int, sense: str) -> tuple[Asked, Any]:
    """Three inequalities as text; the last has two sides. The first excludes the best values."""
    X, model, rows = one("boston", kind, size)
    is_min, n = sense == "min", rows.shape[1]
    first = "x5 >= 0.1*x12 + 6" if is_min else "x5 <= 0.1*x12 + 5"
    texts = [first, "x7 + 2*x4 >= 4.5", "8.5 <= x5 + 0.2*x10 <= 9.25"]
    oracle_rows = [
        mip.Row(unit(n, x5=1, x12=-0.1), **({"low": 6} if is_min else {"high": 5})),
        mip.Row(unit(n, x7=1, x4=2), low=4.5),
        mip.Row(unit(n, x5=1, x10=0.2), 8.5, 9.25),
    ]
    holds = [
        lambda x: x[5] >= 0.1 * x[12] + 6 if is_min else x[5] <= 0.1 * x[12] + 5,
        lambda x: x[7] + 2 * x[4] >= 4.5,
        lambda x: 8.5 <= x[5] + 0.2 * x[10] <= 9.25,
    ]
    asked = Asked("text", sense, model, [(1.0, model)], {"constraints": texts}, holds=holds)
    return _with(asked, rows=oracle_rows), X


def linear_matrix(kind: str, size: int, sense: str) -> tuple[Asked, Any]:
    """A `LinearConstraint` with two rows, dense, on all features of boston."""
    X, model, rows = one("boston", kind, size)
    weights = np.array([float(f"{1 / span:.4g}") for span in np.ptp(rows, axis=0)])
    matrix = np.stack([weights, weights * unit(weights.size, x5=1, x12=-1, x7=0.5)])
    activity = rows @ matrix.T
    ends = (0.8, 0.9) if sense == "min" else (0.45, 0.55)
    low, high = (np.round(np.quantile(activity, q, axis=0), 3) for q in ends)
    constraint = LinearConstraint(matrix, low, high)

    def holds(x: Array) -> bool:
        return bool((low <= matrix @ x).all() and (matrix @ x <= high).all())

    asked = Asked("matrix", sense, model, [(1.0, model)], {"constraints": constraint})
    sides = zip(matrix, low.tolist(), high.tolist(), strict=True)
    return _with(asked, holds=[holds], rows=[mip.Row(*side) for side in sides]), X


def equality(kind: str, size: int, sense: str) -> tuple[Asked, Any]:
    """Integers that add up to a number, and a row of integers and a continuous feature."""
    X, model, rows = one("mpg", kind, size)
    n, integer = rows.shape[1], [0, 1, 3, 4, 5, 6, 7, 8]
    options = {
        "constraints": ["2*x4 + x8 == 17", "2*x2 >= x4 + 0.5"],
        "integer": [f"x{j}" for j in integer],
    }
    oracle_rows = [mip.Row(unit(n, x4=2, x8=1), 17, 17), mip.Row(unit(n, x2=2, x4=-1), low=0.5)]
    holds = [lambda x: 2 * x[4] + x[8] == 17, lambda x: 2 * x[2] >= x[4] + 0.5]
    asked = Asked("equality", sense, model, [(1.0, model)], options, holds=holds)
    return _with(asked, rows=oracle_rows, integer=integer), X


def priced(kind: str, size: int, sense: str) -> tuple[Asked, Any]:
    """Prices of three features, one of them in a row."""
    X, model, rows = one("boston", kind, size)
    n, prices = rows.shape[1], {"x5": 1.25, "x12": -0.2, "x7": 0.4}
    vector = unit(n, **prices)
    options = {"cost": Price(prices), "constraints": "5 <= x5 - 0.1*x12 <= 5.25"}
    sign = 1.0 if sense == "min" else -1.0
    asked = Asked(
        *("prices", sense, model, [(1.0, model)], options),
        cost=lambda x: float(vector @ x),
        holds=[lambda x: 5 <= x[5] - 0.1 * x[12] <= 5.25],
    )
    return _with(asked, prices=sign * vector, rows=[mip.Row(unit(n, x5=1, x12=-0.1), 5, 5.25)]), X


def changed(kind: str, size: int, sense: str) -> tuple[Asked, Any]:
    """The cost of a change with fees, one feature of which is in a row."""
    X, model, rows = one("mpg", kind, size)
    n, row = rows.shape[1], rows[7]
    per, fee = 2 / np.ptp(rows, axis=0), np.where(np.arange(n) % 2, 0.5, 0.25)
    names = list(X.columns)
    change = Change(
        X.iloc[7],
        per=dict(zip(names, per.tolist(), strict=True)),
        fee=dict(zip(names, fee.tolist(), strict=True)),
    )
    sign = 1.0 if sense == "min" else -1.0
    asked = Asked(
        *("change", sense, model, [(1.0, model)]),
        {"cost": change, "constraints": "0.5 <= x4 - 2*x2 <= 0.75"},
        cost=lambda x: float(per @ np.abs(x - row) + fee @ (x != row)),
        holds=[lambda x: 0.5 <= x[4] - 2 * x[2] <= 0.75],
    )
    oracle = mip.Change(row, sign * per, sign * fee)
    return _with(asked, changes=[oracle], rows=[mip.Row(unit(n, x4=1, x2=-2), 0.5, 0.75)]), X


def summed(kind: str, size: int, sense: str) -> tuple[Asked, Any]:
    """A forest and a boosted model, or both boosted models, with a row."""
    X, _, rows = one("boston", "forest", size)
    first = "lightgbm" if kind == "forest" else "forest"
    models = [(0.25, fitted("boston", first, size)), (0.75, fitted("boston", kind, size))]
    low = 6.5 if sense == "min" else 4.5
    options = {"constraints": f"{low} <= x5 - 0.1*x12 <= {low + 0.5}"}
    asked = Asked(
        *("sum", sense, WeightedSum(models), models, options),
        holds=[lambda x: low <= x[5] - 0.1 * x[12] <= low + 0.5],
    )
    return _with(asked, rows=[mip.Row(unit(rows.shape[1], x5=1, x12=-0.1), low, low + 0.5)]), X


def predicted(kind: str, size: int, sense: str) -> tuple[Asked, Any]:
    """A limit on another model's prediction; the objective is a model."""
    X, model, _ = one("mpg", kind, size)
    other = fitted("mpg", "forest" if kind == "xgboost" else "xgboost", size)
    ends = (0.8, 0.9) if sense == "min" else (0.1, 0.2)
    low, high = (float(np.quantile(other.predict(X), q)) for q in ends)
    options = {"constraints": Predicted(other, low=low, high=high)}
    asked = Asked("predicted", sense, model, [(1.0, model)], options)
    return _with(asked, limits=[(other, low, high)]), X


def cheapest(kind: str, size: int, sense: str = "min") -> tuple[Asked, Any]:
    """The smallest change for a high prediction; no model in the objective."""
    X, model, rows = one("mpg", kind, size)
    low = float(np.quantile(model.predict(X), 0.9))
    worst = int(np.argmin(model.predict(X)))
    row, per = rows[worst], 1 / np.ptp(rows, axis=0)
    options = {"constraints": [Predicted(model, low=low), "x2 >= 0.4*x4"]}
    asked = Asked(
        *("cheapest", "min", Change(X.iloc[worst]), (), options),
        cost=lambda x: float(per @ np.abs(x - row)),
        holds=[lambda x: x[2] >= 0.4 * x[4]],
    )
    n = rows.shape[1]
    return _with(
        asked,
        limits=[(model, low, np.inf)],
        changes=[mip.Change(row, per)],
        rows=[mip.Row(unit(n, x2=1, x4=-0.4), low=0)],
    ), X


QUESTIONS = [
    (ask, sense)
    for ask in (linear_text, linear_matrix, equality, priced, changed, summed, predicted)
    for sense in ("min", "max")
]
QUESTIONS.append((cheapest, "min"))
every_question = pytest.mark.parametrize(
    ("ask", "sense"), QUESTIONS, ids=[f"{ask.__name__}-{sense}" for ask, sense in QUESTIONS]
)


@pytest.mark.parametrize("kind", KINDS)
@every_question
def test_optimum_is_that_of_the_program(ask: Callable[..., Any], sense: str, kind: str) -> None:
    judge(*ask(kind, SMALL, sense))


@slow
@pytest.mark.parametrize("kind", KINDS)
@every_question
def test_optimum_of_larger_models(ask: Callable[..., Any], sense: str, kind: str) -> None:
    judge(*ask(kind, LARGE, sense))
