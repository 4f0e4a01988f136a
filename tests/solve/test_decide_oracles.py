"""Proven optima against other provers: Veritas, a mixed-integer program, and a plain scan."""

from __future__ import annotations

from functools import cache
from itertools import product

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from scipy.optimize import Bounds, LinearConstraint, milp
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import treeopt
from tests.support.decisions import SENSES, check, scale_of
from treeopt import Ensemble, Status, datasets

each_sense = pytest.mark.parametrize("sense", SENSES)


@cache
def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    loaded = datasets.load(name)
    return loaded.X, loaded.y


MODELS = {
    "forest": RandomForestRegressor(30, random_state=0),
    "shallow forest": RandomForestRegressor(40, max_depth=5, random_state=0),
    "extra trees": ExtraTreesRegressor(20, max_depth=8, random_state=0),
    "xgboost": xgb.XGBRegressor(n_estimators=40, max_depth=4, random_state=0),
    "lightgbm": lgb.LGBMRegressor(n_estimators=40, random_state=0, verbose=-1),
}
SMALL = {
    "forest": RandomForestRegressor(6, max_leaf_nodes=30, random_state=0),
    "xgboost": xgb.XGBRegressor(n_estimators=12, max_depth=3, random_state=0),
    "lightgbm": lgb.LGBMRegressor(n_estimators=10, num_leaves=12, random_state=0, verbose=-1),
}


@cache
def fitted(models: str, kind: str, name: str):
    return {"large": MODELS, "small": SMALL}[models][kind].fit(*data(name))


def box_of(e: Ensemble, X: np.ndarray) -> np.ndarray:
    """Return the range of each column as the trees see it, after the cast."""
    ends = np.stack([X.min(axis=0), X.max(axis=0)])
    return ends.astype(e.input_dtype).astype(np.float64)


def by_veritas(e: Ensemble, X: np.ndarray, sense: str) -> float:
    """Return the best sum of leaves; Veritas goes left iff ``x < cut``, so cuts move up by one."""
    veritas = pytest.importorskip("veritas", reason="dtai-veritas is not installed")
    infinity = e.input_dtype.type(np.inf)

    def above(cut):
        return float(np.nextafter(e.input_dtype.type(cut), infinity))

    trees = veritas.AddTree(1, veritas.AddTreeType.REGR)
    trees.set_base_score(0, e.base)
    for root in e.tree_start[:-1].tolist():
        tree = trees.add_tree()
        stack = [(root, tree.root())]
        while stack:
            node, place = stack.pop()
            if e.left[node] < 0:
                tree.set_leaf_value(place, 0, float(e.value[node]))
                continue
            tree.split(place, int(e.feature[node]), above(e.threshold[node]))
            stack.append((int(e.left[node]), tree.left(place)))
            stack.append((int(e.right[node]), tree.right(place)))
    kind = veritas.HeuristicType.MIN_OUTPUT if sense == "min" else veritas.HeuristicType.MAX_OUTPUT
    config = veritas.Config(kind)
    config.focal_eps = 1.0
    low, high = box_of(e, X)
    box = [veritas.Interval(a, above(b)) for a, b in zip(low, high, strict=True)]
    search = config.get_search(trees, box)
    ended = (veritas.StopReason.OPTIMAL, veritas.StopReason.NO_MORE_OPEN)
    for _ in range(2000):
        if search.steps(100) in ended:
            return search.get_solution(0).output
        bounds = search.current_bounds()
        if search.num_solutions() and bounds.best == bounds.atleast:
            return bounds.atleast
    pytest.fail("Veritas takes too long")


def by_milp(e: Ensemble, X: np.ndarray, sense: str) -> float:
    """Return the best sum of leaves by Mišić's program (Operations Research 68, 2020).

    ``x[j, c]`` tells whether feature j is at most its cut c, ``y[l]`` whether leaf l is reached.
    """
    low, high = box_of(e, X)
    cuts = [np.unique(e.threshold[e.feature == j]) for j in range(e.n_features)]
    start = np.cumsum([0, *map(len, cuts)])
    n_x = int(start[-1])
    leaves = np.flatnonzero(e.left < 0)
    y_of = {int(leaf): n_x + k for k, leaf in enumerate(leaves)}
    n = n_x + leaves.size
    lower, upper = np.zeros(n), np.ones(n)
    rows, least, most = [], [], []

    def add(row, a, b):
        rows.append(row)
        least.append(a)
        most.append(b)

    for j, own in enumerate(cuts):
        upper[start[j] : start[j + 1]][own < low[j]] = 0
        lower[start[j] : start[j + 1]][own >= high[j]] = 1
        for k in range(len(own) - 1):
            add({start[j] + k: 1, start[j] + k + 1: -1}, -np.inf, 0)

    def below(node: int) -> list[int]:
        if e.left[node] < 0:
            return [y_of[node]]
        left, right = below(int(e.left[node])), below(int(e.right[node]))
        j = e.feature[node]
        x = int(start[j] + np.searchsorted(cuts[j], e.threshold[node]))
        add({**dict.fromkeys(left, 1), x: -1}, -np.inf, 0)
        add({**dict.fromkeys(right, 1), x: 1}, -np.inf, 1)
        return left + right

    for root in e.tree_start[:-1]:
        add(dict.fromkeys(below(int(root)), 1), 1, 1)
    matrix = np.zeros((len(rows), n))
    for i, row in enumerate(rows):
        matrix[i, list(row)] = list(row.values())
    sign = 1 if sense == "min" else -1
    cost = np.zeros(n)
    cost[n_x:] = sign * e.value[leaves]
    found = milp(
        cost,
        integrality=np.arange(n) < n_x,
        bounds=Bounds(lower, upper),
        constraints=LinearConstraint(matrix, least, most),
        options={"mip_rel_gap": 0.0, "time_limit": 120},
    )
    assert found.status == 0
    return e.base + sign * found.fun


def compare(model, X, sense: str, best: float, slack: float) -> None:
    """Both agree up to the rounding of the sums, and the other's tolerance."""
    e = treeopt.from_model(model)
    res = SENSES[sense](model, X, rng=0)
    check(res, sense)
    assert res.status is Status.OPTIMAL
    off = (1e-6 if e.value.dtype == np.float32 else 1e-12) + slack
    assert abs(res.fun - best / e.divisor) <= off * scale_of(e)


NAMES = ["boston", "diabetes", "mpg", "bodyfat"]
TOO_HARD = {("forest", "diabetes"), ("extra trees", "diabetes")}
"""What Veritas does not prove in minutes."""


@each_sense
@pytest.mark.parametrize(
    ("kind", "name"), [pair for pair in product(MODELS, NAMES) if pair not in TOO_HARD]
)
def test_veritas_finds_the_same(kind, name, sense):
    X, _ = data(name)
    model = fitted("large", kind, name)
    compare(model, X, sense, by_veritas(treeopt.from_model(model), X, sense), 0.0)


@each_sense
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", SMALL)
def test_a_mixed_integer_program_finds_the_same(kind, name, sense):
    X, _ = data(name)
    model = fitted("small", kind, name)
    compare(model, X, sense, by_milp(treeopt.from_model(model), X, sense), 1e-6)


# More cuts on one feature than 16 bits can count.


@cache
def finely_cut():
    """Two trees with more than 65,535 cuts each on feature 0, and a second feature."""
    rng = np.random.default_rng(0)
    n = 80_000
    X = np.column_stack([np.arange(n), rng.integers(0, 3, n)]).astype(np.float64)
    y = np.sin(X[:, 0] / 3000) + 0.3 * rng.normal(size=n) + 0.2 * X[:, 1]
    y[70_123], y[70_456] = -9.0, 9.0  # beyond the 65,536th cut, both
    trees = [DecisionTreeRegressor(splitter=s, random_state=0) for s in ("best", "random")]
    forest = RandomForestRegressor(2, bootstrap=False).fit(X[:10], y[:10])
    forest.estimators_ = [tree.fit(X, y) for tree in trees]
    return forest, X


@each_sense
@pytest.mark.parametrize("other", [0.0, 1.0, 2.0, None])
def test_more_than_65535_cuts_on_one_feature(other, sense):
    model, X = finely_cut()
    e = treeopt.from_model(model)
    cuts = np.unique(e.threshold[e.feature == 0])
    assert cuts.size > 65_535
    fixed = {} if other is None else {1: other}
    res = SENSES[sense](model, X, fixed=fixed, rng=0)
    check(res, sense)
    at = np.unique(np.concatenate([cuts, np.nextafter(cuts.astype("f4"), np.float32(9e9)), [0.0]]))
    at = at[(at >= 0) & (at <= X[:, 0].max())]
    second = [other] if fixed else [0.0, 1.0, 2.0]
    scan = np.concatenate([model.predict(np.column_stack([at, at * 0 + v])) for v in second])
    assert res.status is Status.OPTIMAL
    assert res.fun == (scan.min() if sense == "min" else scan.max()) == res.bound
