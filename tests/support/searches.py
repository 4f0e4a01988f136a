"""What the tests of `stepdirect` share: presets, a function with steps, models, and a check."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import cache

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

from treeopt import StepDirectSettings

paper = StepDirectSettings.paper
PRESETS = {
    "default": StepDirectSettings(),
    "paper": paper(),
    "StepDIRECT-0": paper(local_search=None),
    "sphere": paper(local_search="sphere"),
    "box": paper(search_region="box"),
    "direct": StepDirectSettings.direct(),
}
every_preset = pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS)
BOX = [(-2, 1), (0, 3), (-1, 1)]


def steps(x) -> float:
    """Return a function with steps; its least value is 0."""
    return float(np.floor(7 * np.abs(np.asarray(x) - 0.3)).sum())


class Counted:
    """A function that remembers where it was called."""

    def __init__(self, fun=steps):
        self.fun, self.points = fun, []

    def __call__(self, x):
        self.points.append(x.copy())
        return self.fun(x)


def check(res, calls=None, box=BOX) -> None:
    """Check what holds for every result."""
    assert len(res.points) == len(res.values) == res.nfev
    assert calls is None or np.array_equal(np.reshape(calls, res.points.shape), res.points)
    low, high = np.array(box, float).T
    assert (res.points >= low).all() and (res.points <= high).all()
    assert np.isnan(res.values).sum() == res.nfailed and not np.isinf(res.values).any()
    assert res.time >= 0 and res.nit >= 0 and repr(res)
    history = res.history
    assert (np.diff(history["fun"]) < 0).all() and (np.diff(history["nfev"]) > 0).all()
    assert (np.diff(history["time"]) >= 0).all() and (history["time"] <= res.time).all()
    assert (history["fun"] == res.values[history["nfev"] - 1]).all()
    if res.nfailed == res.nfev:
        assert not res.success and np.isnan(res.fun) and res.x is None
        assert history.size == 0
    else:
        best = int(np.nanargmin(res.values))
        assert res.fun == res.values[best] == history["fun"][-1]
        assert np.array_equal(res.x, res.points[best]) and history["nfev"][-1] == best + 1


@cache
def model(kind: str):
    """Return a model, its data and what is asked of it."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 4)) * [1, 20, 0.01, 5] - [0, 5, 0, 2]
    y = np.sin(3 * X[:, 0]) + X[:, 1] / 10 - (X[:, 3] > 0)
    label = (y > y.mean()).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    if kind == "small forest":
        return RandomForestRegressor(20, max_leaf_nodes=30, random_state=0).fit(X, y), X, {}
    if kind == "forest":
        return RandomForestRegressor(20, random_state=0).fit(frame, y), frame, {}
    if kind == "xgboost":
        return xgb.XGBRegressor(n_estimators=30, max_depth=4).fit(X, y), X, {}
    if kind == "xgboost poisson":
        return (
            xgb.XGBRegressor(n_estimators=9, objective="count:poisson").fit(X, y - y.min()),
            X,
            {},
        )
    if kind == "xgboost classifier":
        made = xgb.XGBClassifier(n_estimators=20).fit(X, label)
        return made, X, {"output": "proba", "class_index": 0}
    if kind == "boosting classifier":
        return GradientBoostingClassifier(n_estimators=20).fit(X, label), X, {"output": "proba"}
    if kind == "hist poisson":
        made = HistGradientBoostingRegressor(max_iter=20, loss="poisson")
        return made.fit(X, y - y.min()), X, {}
    if kind == "categories":
        X[:, 3] = rng.integers(0, 5, len(X))
        made = HistGradientBoostingRegressor(max_iter=20, categorical_features=[3])
        return made.fit(X, y + X[:, 3] % 2), X, {}
    return lgb.LGBMRegressor(n_estimators=30, verbose=-1).fit(X, y), X, {}


KINDS = ("small forest", "forest", "xgboost", "xgboost poisson", "xgboost classifier")
KINDS += ("boosting classifier", "lightgbm", "categories", "hist poisson")


def as_function(ensemble):
    return lambda x: ensemble.predict(x[None])[0]


def assert_same(a, b) -> None:
    assert a.points.tobytes() == b.points.tobytes()
    assert a.values.tobytes() == b.values.tobytes()
    assert (a.nfev, a.nit, a.nfailed, a.status) == (b.nfev, b.nit, b.nfailed, b.status)
    assert a.message == b.message and a.fun == b.fun


def ctrl_c(seconds: float) -> Callable[[object], None]:
    """Return a callback after whose first call, and some more time, Ctrl-C is pressed."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))

    def callback(_: object) -> None:
        if timer.ident is None:
            timer.start()

    return callback
