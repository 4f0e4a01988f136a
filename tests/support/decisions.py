"""Decision problems with their truth by brute force, and what must hold for every decision.

The truth knows nothing of grids or boxes: of each feature it tries every threshold with both its
neighbors, and much else that is special, keeps what the space admits, drops what all splits treat
like a value that is kept already, and predicts all combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import HealthCheck, Phase, settings

import treeopt
from tests.support.models import Case
from tests.support.rows import MAX32, neighbors, thresholds
from tests.support.truth import predict
from treeopt import Decision, Difference, Ensemble, Status
from treeopt.exact import attempt
from treeopt.model.categories import Categories
from treeopt.model.cells import ZERO_LIMIT
from treeopt.model.link import IDENTITY
from treeopt.problem import problem as problems
from treeopt.problem.choices import read_choices
from treeopt.problem.objective import plain_objective
from treeopt.run.limits import Limits

SENSES = {"min": treeopt.minimize, "max": treeopt.maximize}

FUZZ = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
"""Many examples; none is made smaller, since that takes minutes."""

MOST_POINTS = 3000
"""A random problem is cut down until it has no more combinations."""


@dataclass
class Problem:
    """A space over an ensemble, as arguments of `minimize` and as lists of what it admits.

    ``values`` has for each feature one value of every kind that the splits tell apart.
    """

    ensemble: Ensemble
    options: dict[str, Any]
    values: list[np.ndarray] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Problem({self.ensemble!r}, {self.options})"

    def points(self) -> np.ndarray:
        """Return all combinations."""
        mesh = np.meshgrid(*self.values, indexing="ij")
        return np.ascontiguousarray(np.stack([m.ravel() for m in mesh], axis=1))

    def predictions(self) -> np.ndarray:
        """Return what the ensemble predicts at all of them; checked by hand at both ends."""
        X = self.points()
        found = self.ensemble.predict(X)
        if is_plain(self.ensemble):
            ends = [int(found.argmin()), int(found.argmax())]
            first, *rest = (predict(part, X[ends]) for part in sums_of(self.ensemble))
            assert (first - rest[0] if rest else first).tolist() == found[ends].tolist()
        return found.astype(np.float64)

    def decide(self, sense: str, model: Any = None, **more: Any) -> Decision:
        """Ask treeopt; categories are told by their labels, where they have them."""
        e, told = self.ensemble, dict(self.options)
        for name, listed in (("fixed", False), ("categories", True)):
            given = told.get(name, {})
            told[name] = {
                j: [label(e, j, v) for v in value] if listed else label(e, j, value)
                for j, value in given.items()
            }
        return SENSES[sense](e if model is None else model, **told, **more)


def label(e: Ensemble, column: int, value: float) -> Any:
    """Return what a user calls a value of a feature."""
    known = e.categories.get(column)
    labels = {} if known is None else {v: k for k, v in known.number_of.items()}
    return labels.get(value, value)


def seen(e: Ensemble, values: np.ndarray) -> np.ndarray:
    """Return values as the splits see them."""
    with np.errstate(over="ignore"):
        cast = np.asarray(values, np.float64).astype(e.input_dtype).astype(np.float64)
    return np.where(cast == e.missing_value, np.nan, cast)


def is_finite(e: Ensemble, values: np.ndarray) -> np.ndarray:
    """Tell which values are finite for the model."""
    with np.errstate(over="ignore"):
        return np.isfinite(values.astype(e.input_dtype))


def sums_of(e: Ensemble | Difference) -> list[Ensemble]:
    """Return the sums of trees that a model is."""
    return [e.plus, e.minus] if isinstance(e, Difference) else [e]


def turns(e: Ensemble | Difference, column: int, values: np.ndarray) -> np.ndarray:
    """Tell of each value and each split of a feature whether it goes to the left."""
    if isinstance(e, Difference):
        return np.hstack([turns(part, column, values) for part in sums_of(e)])
    v = seen(e, values)
    category = np.full(v.size, -1)
    if column in e.categories:
        known = e.categories[column]
        for c in range(len(known)):
            category[(known.lower[c] < v) & (v <= known.upper[c])] = c
    nodes = np.flatnonzero(e.feature == column)
    left = np.empty((v.size, nodes.size), bool)
    for k, i in enumerate(nodes):
        missing = np.isnan(v) | (e.zero_missing[i] & (np.abs(v) <= ZERO_LIMIT))
        if e.category_set[i] >= 0:
            a, b = e.set_start[e.category_set[i] : e.category_set[i] + 2]
            goes = np.isin(category, e.set_member[a:b])
        else:
            goes = v <= e.threshold[i]
        left[:, k] = np.where(missing, e.default_left[i], goes)
    return left


def distinct_values(e: Ensemble, column: int, values: np.ndarray) -> np.ndarray:
    """Return one of all values that no split tells apart."""
    values = np.unique(values)
    if not values.size:
        return values
    first = np.unique(turns(e, column, values), axis=0, return_index=True)[1]
    return values[np.sort(first)]


def special_values(e: Ensemble, column: int, more: Any = ()) -> np.ndarray:
    """Return finite values at, next to, between and beyond all that splits compare with."""
    cuts = [
        cut
        for part in sums_of(e)
        for cut in part.threshold[(part.feature == column) & np.isfinite(part.threshold)]
    ]
    known = e.categories.get(column)
    named = [] if known is None else [*known.value, *known.lower, *known.upper]
    at = np.unique([*cuts, *named, *more, 0.0, -ZERO_LIMIT, ZERO_LIMIT, e.missing_value, 1.0])
    at = at[np.isfinite(at)]
    around = np.unique(neighbors(at))
    between = np.concatenate([at[:-1] / 2 + at[1:] / 2, [at[0] - 1, at[-1] + 1]])
    values = np.concatenate([around, between, 1.5 * at[[0, -1]] / 1.1, [-MAX32, MAX32]])
    return np.unique(values[is_finite(e, values)])


def admitted(
    e: Ensemble, column: int, low: float, high: float, integer: bool = False, more: Any = ()
) -> np.ndarray:
    """Return special values between bounds: integers, or known categories if there are any."""
    ends = [v for v in (low, high) if np.isfinite(v)]
    known = e.categories.get(column)
    if known is not None and (len(known) or not known.complete):
        numbers, scale = known.value, scale_of_labels(known)
        if not known.complete:
            numbers = scale = np.arange(np.ceil(low), np.floor(high) + 1)
        inside = numbers[(low <= scale) & (scale <= high)]
        return np.array([low]) if low == high and not inside.size else inside
    values = special_values(e, column, [*ends, *more])
    if integer:
        values = np.concatenate([np.floor(values) + step for step in (-1, 0, 1)])
        values = np.concatenate([values, np.ceil(ends), np.floor(ends)])
    values = np.unique(np.append(values, ends)) if not integer else np.unique(values)
    values = values[(low <= values) & (values <= high) & is_finite(e, values)]
    return distinct_values(e, column, values)


def scale_of_labels(known: Categories) -> np.ndarray:
    """Return what bounds on categories compare: labels that are numbers, else codes."""
    return np.array(known.labels, float) if known.has_numbers else known.value


def random_problem(e: Ensemble, rng: np.random.Generator, more: Any = None) -> Problem:
    """Draw a space of every kind: bounds on cuts, single points, integers, lists, missing.

    ``more`` has further special values of each feature.
    """
    bounds: dict[int, Any] = {}
    fixed: dict[int, float] = {}
    lists: dict[int, list[float]] = {}
    integer: list[int] = []
    values: list[np.ndarray] = []
    for column in range(e.n_features):
        also = () if more is None else more[column]
        pool = special_values(e, column, also)
        known = e.categories.get(column)
        if known is not None and known.labels:  # a number is a label, and must be one
            pool = np.array(list(known.number_of.values()))
        kind = rng.choice(
            ["box", "integer", "list", "fixed", "wide"], p=[0.4, 0.2, 0.15, 0.1, 0.15]
        )
        if kind == "list" and (known is None or len(known)):
            source = pool if known is None or known.has_numbers else known.value
            chosen = rng.choice(source, rng.integers(1, 6))
            lists[column] = chosen.tolist()
            values.append(distinct_values(e, column, chosen))
            continue
        if kind == "fixed":
            value = rng.choice(np.append(pool, np.nan) if e.accepts_nan else pool)
            fixed[column] = float(value)
            values.append(np.array([value]))
            continue
        if known is not None and len(known) and (known.labels or rng.random() < 0.8):
            pool = scale_of_labels(known)
        low, high = np.sort(rng.choice(pool, 2))
        is_text = known is not None and known.labels and not known.has_numbers
        if is_text or (kind == "wide" and (known is None or known.complete)):
            low, high = (low, high) if not is_text else (-np.inf, np.inf)
            ends = [(-np.inf, np.inf), (low, np.inf), (-np.inf, high)]
            low, high = ends[rng.integers(3)]
        elif known is not None and not known.complete:
            low, high = np.clip([low, high], 0, 200)
        elif rng.random() < 0.1:
            low = high
        whole = bool(kind == "integer" and known is None)
        bounds[column] = (float(low), float(high))
        integer += [column] * whole
        values.append(admitted(e, column, low, high, whole, also))
    while np.prod([v.size for v in values]) > MOST_POINTS:
        column = int(np.argmax([v.size for v in values]))
        value = rng.choice(values[column])
        bounds.pop(column, None), lists.pop(column, None)
        integer = [k for k in integer if k != column]
        fixed[column] = float(value)
        values[column] = np.array([value])
    options = {"bounds": bounds, "fixed": fixed, "integer": integer, "categories": lists}
    return Problem(e, options, values)


def change_settings(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Change settings of the exact solver, on top of those that are changed already."""
    monkeypatch.setattr(attempt, "SETTINGS", replace(attempt.SETTINGS, **changes))


def problem_for(
    e: Ensemble | Difference, bounds: Any, fixed: Any = None, sense: float = 1.0, **choices: Any
) -> problems.Problem:
    """Return the question that methods get."""
    whole = problems.make_problem(plain_objective(e), read_choices(e, bounds, **choices))
    return whole.asked(sense, fixed, Limits(None))


def better(a: float, b: float, sense: str) -> bool:
    """Tell whether ``a`` is strictly better than ``b``."""
    return a < b if sense == "min" else a > b


def scale_of(e: Ensemble | Difference) -> float:
    """Return the sum of the largest magnitudes of all trees, after the division."""
    if isinstance(e, Difference):
        return sum(map(scale_of, sums_of(e)))
    ends = zip(e.tree_start[:-1], e.tree_start[1:], strict=True)
    total = sum(float(np.abs(e.value[a:b]).max()) for a, b in ends)
    return (total + abs(e.base)) / e.divisor


def check(
    res: Decision,
    sense: str = "min",
    best: float | None = None,
    predict: Callable[[Any], np.ndarray] | None = None,
    ulps: int = 0,
) -> None:
    """Check what holds for every decision; ``best`` is the optimum by brute force."""
    assert res.maximized == (sense == "max")
    assert res.time >= 0 and res.nfev >= 0 and res.nodes >= 0 and repr(res) and res.message
    e = res._inputs
    if res.status is Status.INFEASIBLE:
        assert best is None and not res.success
        assert res.x is None and np.isnan(res.fun) and np.isnan(res.bound) and np.isnan(res.gap)
        return
    x = res._point
    gap = 0.0 if res.fun == res.bound else abs(res.fun - res.bound)
    assert np.array_equal(res.gap, gap, equal_nan=True)
    ours = float(e.predict(x[None, :])[0])
    assert abs(ours - res.fun) <= ulps * np.spacing(sums_of(e)[0].value.dtype.type(abs(ours)))
    if predict is not None:
        assert float(predict(x[None, :])[0]) == res.fun
    check_history(res, sense)
    check_region(res)
    if res.status is Status.OPTIMAL:
        assert res.success and res.gap <= res.rounding
        assert "proven" in res.message or "nothing to choose" in res.message
    if best is not None:
        # No point is better than brute force says, and none is better than the bound.
        assert not better(ours, best, sense)
        assert not better(best, res.bound, sense)
        if res.status is Status.OPTIMAL:
            assert abs(ours - best) <= res.rounding


def check_history(res: Decision, sense: str) -> None:
    """Values and bounds only get better; the last entry is the result."""
    history = res.history
    assert history.size and (np.diff(history["time"]) >= 0).all()
    assert (history["time"] <= res.time).all()
    assert (np.diff(history["nfev"]) >= 0).all() and history["nfev"][-1] <= res.nfev
    sign = 1 if sense == "min" else -1
    fun = history["fun"][np.isfinite(history["fun"])]  # NaN before the first feasible point
    off = res.rounding + 1e-9 * np.abs(fun).max(initial=0) * (res._inputs.input_dtype == "f4")
    assert (np.diff(sign * fun) <= off).all()
    bound = sign * history["bound"]
    bound = bound[np.isfinite(bound)]
    assert (np.diff(bound) >= -off).all()
    assert abs(history["fun"][-1] - res.fun) <= 1e-6 * max(1, abs(res.fun))
    assert np.array_equal(history["bound"][-1], res.bound, equal_nan=True)


def check_region(res: Decision, n: int = 20) -> None:
    """Its corners and random points in it predict the same, and so do all its categories."""
    e, region, x = res._inputs, res.region, res._point
    rng = np.random.default_rng(0)
    missing = np.isnan(x)
    assert np.array_equal(missing, np.isnan(region.lower))
    assert np.array_equal(missing, np.isnan(region.upper))
    assert ((region.lower <= x) & (x <= region.upper) | missing).all()
    low = np.clip(region.lower, -np.finfo(e.input_dtype).max, None).astype(np.float64)
    high = np.clip(region.upper, None, np.finfo(e.input_dtype).max).astype(np.float64)
    share = rng.random((n, x.size))
    inner = np.clip(low * (1 - share) + high * share, low, high)
    X = np.concatenate([[x, low, high], inner, np.where(rng.random(inner.shape) < 0.5, low, high)])
    for column, labels in region.categories.items():
        known = e.categories[column]
        numbers = [known.number_of.get(v, v) if known.labels else v for v in labels]
        X[:, column] = rng.choice(numbers, len(X))
        X[0, column] = x[column]
        assert x[column] in numbers
        assert (min(numbers), max(numbers)) == (region.lower[column], region.upper[column])
    assert set(e.predict(np.ascontiguousarray(X)).tolist()) == {e.predict(x[None, :])[0].item()}


def check_admitted(res: Decision, options: Mapping[str, Any]) -> None:
    """Check that a point is one that was allowed; bounds are a mapping by number."""
    x, region = res._point, res.region
    for column, (low, high) in options["bounds"].items():
        known = res._inputs.categories.get(column)
        if known is not None and known.labels:
            own = known.label_of.get(x[column], x[column])
            same = region.categories.get(column, (own,))
            assert own in same
            assert not known.has_numbers or all(low <= label <= high for label in same)
            continue
        assert low <= x[column] <= high
        assert low <= region.lower[column] <= region.upper[column] <= high
    for column in options.get("integer", ()):
        assert x[column] == np.round(x[column])
    for column, listed in options.get("categories", {}).items():
        assert x[column] in listed
    for column, value in options.get("fixed", {}).items():
        assert np.array_equal(x[column], value, equal_nan=True)
    assert np.isfinite(x[[c for c in range(x.size) if c not in options.get("fixed", {})]]).all()


def is_plain(e: Ensemble) -> bool:
    """Tell whether the prediction is the sum itself."""
    return e.link == IDENTITY


def thresholds_of(case: Case) -> list[np.ndarray]:
    """Return the thresholds of each feature as the model's library stores them."""
    found = thresholds(case)
    return [found.value[found.feature == j] for j in range(case.matrix.shape[1])]


def thinned(table: Mapping[str, Any], step: int) -> list[str]:
    """Return every so manieth name."""
    return list(table)[::step]


def slow(test: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a test that runs only with ``-m slow``."""
    asked = pytest.mark.skipif("'slow' not in config.option.markexpr", reason="run with -m slow")
    return pytest.mark.slow(asked(test))


Split = tuple[int, Any, float, float]


def tree_of(
    trees: list[Split | float],
    n_features: int,
    *,
    dtype: Any = np.float64,
    default_left: bool = False,
    **rest: Any,
) -> Ensemble:
    """Return an ensemble of stumps and leaves.

    A stump is feature, threshold or list of categories, and the values on the left and right.
    """
    nodes: list[tuple[Any, ...]] = []
    start, sets = [0], []
    for tree in trees:
        at = len(nodes)
        if isinstance(tree, tuple):
            feature, cut, left, right = tree
            by_set = isinstance(cut, list)
            sets += [cut] if by_set else []
            of = len(sets) - 1 if by_set else -1
            nodes.append((feature, np.nan if by_set else cut, at + 1, at + 2, 0.0, of))
            nodes += [(-1, np.nan, -1, -1, value, -1) for value in (left, right)]
        else:
            nodes.append((-1, np.nan, -1, -1, tree, -1))
        start.append(len(nodes))
    feature, threshold, left, right, value, of = zip(*nodes, strict=True)
    inner = np.array(left) >= 0
    return Ensemble(
        feature=np.array(feature),
        threshold=np.array(threshold, float),
        left=np.array(left),
        right=np.array(right),
        value=np.array(value, dtype),
        default_left=inner & default_left,
        zero_missing=np.zeros(inner.size, bool),
        tree_start=np.array(start),
        category_set=np.array(of),
        set_start=np.cumsum([0, *map(len, sets)]),
        set_member=np.concatenate([[], *sets]).astype(np.int32),
        n_features=n_features,
        feature_names=None,
        importances=np.full(n_features, 1 / n_features),
        **{"input_dtype": np.dtype(np.float64), **rest},
    )


def stump(*split: Any) -> Ensemble:
    """Return an ensemble of one stump."""
    return tree_of([split], split[0] + 1)


def needle() -> tuple[Ensemble, np.ndarray]:
    """Return a function that leads away from its optimum, -50, and a point where it is reached.

    Every coordinate above 0.9 costs 1 but in the corner where all are: each descent ends at 0.
    """
    p = 12
    inner = list(range(p))
    corner = Ensemble(
        feature=np.array([*inner, *[-1] * (p + 1)]),
        threshold=np.array([*[0.9] * p, *[np.nan] * (p + 1)]),
        left=np.array([*(p + 1 + k for k in inner), *[-1] * (p + 1)]),
        right=np.array([*(k + 1 for k in inner), *[-1] * (p + 1)]),
        value=np.array([*[0.0] * p, -50.0 - p, *[0.0] * p]),
        default_left=np.zeros(2 * p + 1, bool),
        zero_missing=np.zeros(2 * p + 1, bool),
        tree_start=np.array([0, 2 * p + 1]),
        n_features=p,
        feature_names=None,
        importances=np.full(p, 1 / p),
        input_dtype=np.dtype(np.float64),
    )
    costs = tree_of([(k, 0.9, 0.0, 1.0) for k in inner], p)
    names = ("feature", "threshold", "value", "default_left", "zero_missing")
    both = {k: np.concatenate([getattr(corner, k), getattr(costs, k)]) for k in names}
    n = corner.n_nodes
    for side in ("left", "right"):
        own = getattr(costs, side)
        both[side] = np.concatenate([getattr(corner, side), np.where(own < 0, own, own + n)])
    start = np.append(0, n + costs.tree_start)
    return replace(corner, **both, tree_start=start, category_set=[]), np.full(p, 0.95)


@cache
def hard(sense: str) -> tuple[Ensemble, np.ndarray, float]:
    """Return a boosted model that takes some hundred nodes, its data, and the optimum.

    The optimum is that of a proof at full speed; it is compared with other provers elsewhere.
    """
    rng = np.random.default_rng(3)
    X = rng.random((400, 5))
    y = np.sin(9 * X[:, 0] * X[:, 1]) + np.cos(7 * X[:, 2] - 5 * X[:, 3]) + X[:, 4] * X[:, 0]
    made = xgb.XGBRegressor(n_estimators=60, max_depth=4, learning_rate=0.3, random_state=0)
    e = treeopt.from_model(made.fit(X, y + 0.3 * rng.normal(size=400)))
    return e, X, SENSES[sense](e, X).fun


@cache
def hardest() -> tuple[Ensemble, np.ndarray]:
    """Return a model whose proof takes far longer than any test, and its data."""
    rng = np.random.default_rng(4)
    X = rng.random((1500, 20))
    y = sum(np.sin(6 * X[:, j] * X[:, j + 1] + j) for j in range(19))
    made = xgb.XGBRegressor(n_estimators=120, max_depth=6, random_state=0)
    return treeopt.from_model(made.fit(X, y + rng.normal(size=1500))), X


def plain(x: Any) -> np.ndarray:
    """Return a point without names."""
    return x.to_numpy() if isinstance(x, pd.Series) else x
