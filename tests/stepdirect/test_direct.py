"""The preset `direct()` against an independent DIRECT, and that against scipy's.

scipy's ``direct`` (1.17) keeps rectangles that lie above the convex hull: in its C code the
rejection of a rectangle whose K would have to be both above and below some number stands behind
``if (logfile)``, and there is no log file. The reference below follows either rule. By the textbook
it must give our points, by scipy's rule scipy's points: so the two differ by that rule alone.

Ties: rectangles of equal size and value are all divided; sides are divided in the order of their
least values, equal ones by their index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import treeopt

DIRECT = treeopt.StepDirectSettings.direct()
EPSILON = 1e-4


class Reference:
    """DIRECT in plain Python, one iteration at a time."""

    def __init__(self, fun: Callable[[Any], float], bounds: Any, like_scipy: bool) -> None:
        self.low, high = np.array(bounds, float).T
        self.width = high - self.low
        self.fun, self.like_scipy = fun, like_scipy
        p = self.low.size
        self.centres, self.levels = [np.full(p, 0.5)], [np.zeros(p, int)]
        self.values = [self.value(self.centres[0])]

    def value(self, u: Any) -> float:
        return float(self.fun(self.low + u * self.width))

    def iterate(self) -> None:
        sizes = [round(0.5 * np.sqrt(np.sum(9.0 ** -np.sort(lv))), 12) for lv in self.levels]
        least: dict[float, float] = {}
        for size, value in zip(sizes, self.values, strict=True):
            least[size] = min(value, least.get(size, np.inf))
        chosen = self.choose(least)
        selected = [
            j
            for j, (size, value) in enumerate(zip(sizes, self.values, strict=True))
            if size in chosen and value - least[size] <= 1e-13
        ]
        for j in selected:
            self.divide(j)

    def choose(self, least: dict[float, float]) -> set[float]:
        """Return the sizes whose best rectangles are potentially optimal."""
        f_min = min(least.values())
        chosen: set[float] = set()
        for size in sorted(least):
            f = least[size]
            larger = [(least[s] - f) / (s - size) for s in least if s > size]
            smaller = [
                (f - least[s]) / (size - s)
                for s in least
                if s < size and (s in chosen or not self.like_scipy)
            ]
            at_most, at_least = min(larger, default=np.inf), max([0.0, *smaller])
            if at_most <= 0 or (self.like_scipy and min(smaller, default=1.0) <= 0):
                continue
            if at_least > at_most:
                if self.like_scipy:
                    chosen.add(size)
            elif f - at_most * size <= f_min - EPSILON * abs(f_min):
                chosen.add(size)
        return chosen

    def divide(self, j: int) -> None:
        level = self.levels[j].min()
        pairs = {}
        for i in np.flatnonzero(self.levels[j] == level):
            step = np.eye(self.low.size)[i] * 3.0 ** -(level + 1)
            ends = [self.centres[j] - step, self.centres[j] + step]
            pairs[i] = [(u, self.value(u)) for u in ends]
        for i in sorted(pairs, key=lambda i: min(value for _, value in pairs[i])):
            self.levels[j] = self.levels[j] + np.eye(self.low.size, dtype=int)[i]
            for u, value in pairs[i]:
                self.centres.append(u)
                self.values.append(value)
                self.levels.append(self.levels[j].copy())

    def points(self) -> set[tuple[float, ...]]:
        return rounded(np.array(self.centres))


def iterated(fun: Any, bounds: Any, n: int, like_scipy: bool) -> Reference:
    reference = Reference(fun, bounds, like_scipy)
    for _ in range(n):
        reference.iterate()
    return reference


def rounded(points: Any) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.round(points, 8)}


def branin(x: Any) -> float:
    a = x[1] - 5.1 / (4 * np.pi**2) * x[0] ** 2 + 5 / np.pi * x[0] - 6
    return a**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x[0]) + 10


def wave(x: Any) -> float:
    return np.sin(7 * x[0]) + (x[0] - 0.3) ** 2


def bowl(x: Any) -> float:
    return np.sum((x - [0.3, 0.2, 0.11]) ** 2 * [1, 2, 3])


PROBLEMS = {
    "wave": (wave, [(-1.0, 1.7)], 25),
    "branin": (branin, [(-5.0, 10.0), (0.0, 15.0)], 25),
    "bowl": (bowl, [(-1.0, 1.5)] * 3, 20),
    "rosenbrock": (optimize.rosen, [(-2.0, 2.3)] * 4, 15),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_direct_evaluates_the_points_of_the_textbook(name):
    fun, bounds, n_iterations = PROBLEMS[name]
    reference = iterated(fun, bounds, n_iterations, like_scipy=False)
    n = len(reference.values)
    result = treeopt.stepdirect(fun, bounds, max_evals=n, settings=DIRECT)
    unit = (result.points - reference.low) / reference.width
    assert rounded(unit) == reference.points()
    assert result.fun == pytest.approx(min(reference.values), rel=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_scipy_differs_only_by_keeping_rectangles_above_the_hull(name):
    fun, bounds, n_iterations = PROBLEMS[name]
    reference = iterated(fun, bounds, n_iterations, like_scipy=True)
    points: list[Any] = []

    def noted(x: Any) -> float:
        points.append(np.array(x))
        return fun(x)

    # Its first iteration is counted twice.
    options = {"maxiter": n_iterations + 1, "maxfun": 10**6, "eps": EPSILON}
    optimize.direct(noted, bounds, locally_biased=False, vol_tol=0, len_tol=0, **options)
    unit = (np.array(points) - reference.low) / reference.width
    assert rounded(unit) == reference.points()
