"""``treeopt demo``: convert, check and time a forest on the shipped data, and maximize it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

import treeopt
from treeopt import datasets
from treeopt.types import Array

T = TypeVar("T")


def run(n_trees: int = 100) -> None:
    """Run the demonstration and print the results."""
    from sklearn.ensemble import RandomForestRegressor

    data = datasets.load("boston")
    print(f"Data:   boston, {data.X.shape[0]} rows, {data.X.shape[1]} features (house prices)")
    model = RandomForestRegressor(n_trees, random_state=0).fit(data.X, data.y)
    print(f"Model:  RandomForestRegressor({n_trees}) with default settings")

    ensemble, seconds = _timed(lambda: treeopt.from_model(model, output="raw"))
    print(f"Result: {ensemble}, converted in {seconds:.2f} s")
    treeopt.warmup(ensemble)
    print(f"Check:  {treeopt.check_conversion(model, data.X)}")

    print("\nTime per row, one thread        scikit-learn     treeopt    ratio")
    for n in (1, 32, 1000):
        rows = np.resize(data.X, (n, data.X.shape[1])).astype(np.float32)
        theirs = _per_row(model.predict, rows)
        ours = _per_row(ensemble.predict, rows)
        label = f"{n} row{'s' if n > 1 else ''} at once"
        print(f"  {label:<28} {theirs:>10.2f} µs {ours:>8.2f} µs {theirs / ours:>7.0f}x")
    _moves(ensemble, data)
    _decide(model, replace(ensemble, feature_names=tuple(data.feature_names)), data)


def _moves(ensemble: treeopt.Ensemble, data: datasets.Dataset) -> None:
    """Time the main steps of a search: a change of one feature, and all values along a feature."""
    X, rng = data.X, np.random.default_rng(0)
    house, rm = X[0], data.feature_names.index("rm")
    features = rng.integers(0, X.shape[1], 20_000)
    to = house[features] + 0.05 * X.std(axis=0)[features] * rng.standard_normal(features.size)
    walker = ensemble.walker(house)
    _, seconds = _timed(lambda: walker.run(features, to))
    print(f"\nSmall change of one feature: {1e6 * seconds / features.size:.2f} µs per evaluation")

    line, seconds = _timed(lambda: ensemble.line(house, rm))
    best = int(np.argmax(line.value))
    lower = -np.inf if best == 0 else line.upper[best - 1]
    print(
        f"The first house has rm = {house[rm]:.3f} rooms. Its prediction is "
        f"{ensemble.predict(house[None, :])[0]:.2f}.\n"
        f"As a function of rm alone, the prediction has {line.value.size} steps, found in "
        f"{1e6 * seconds:.0f} µs.\nIts maximum is {line.value[best]:.2f}, for "
        f"{lower:.3f} < rm <= {line.upper[best]:.3f}."
    )


def _decide(model: Any, ensemble: treeopt.Ensemble, data: datasets.Dataset) -> None:
    """Find and prove the maximum, and check its region with the forest's own ``predict``."""
    treeopt.maximize(ensemble, data.X, max_evals=1)  # compiles
    best = treeopt.maximize(ensemble, data.X, integer=["chas", "rad"], rng=0)
    print(f"\nThe house with the maximum prediction within the range of the data:\n\n{best}")
    same = "the same" if model.predict(np.array([best.x]))[0] == best.fun else "another value"
    print(f"\nThe forest's own predict gives {same}, to the last bit.")
    low, high = best.region.lower, best.region.upper
    rows = np.random.default_rng(0).uniform(low, high, (1000, low.size))
    alike = (model.predict(np.vstack([rows, low, high])) == best.fun).all()
    print(
        "Predictions at 1,000 random points of the region and two corners: "
        f"{'all' if alike else 'NOT all'} equal."
    )


def _timed(function: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def _per_row(predict: Callable[[Array], Array], rows: Array, repeats: int = 5) -> float:
    """Return the best time per row in microseconds."""
    predict(rows)
    best = min(_timed(lambda: predict(rows))[1] for _ in range(repeats))
    return 1e6 * best / len(rows)
