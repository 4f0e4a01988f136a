"""Starting points of the local search: the user's points, rows of the data, or random points."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from treeopt.exact.exact_settings import DEFAULT_SETTINGS, ExactSettings
from treeopt.problem.places import Places
from treeopt.problem.problem import Problem
from treeopt.run.run import Run
from treeopt.types import FloatArray, Int32Array


def find_starts(
    problem: Problem, run: Run, settings: ExactSettings = DEFAULT_SETTINGS
) -> Int32Array:
    """Return the starting points of the local search, as places."""
    places, space = problem.places, problem.space
    rng = np.random.default_rng(run.seed)
    found = []
    if run.start is not None:
        found.append(places.of_points(problem.read_start(run.start)))
    if space.data is not None:
        rows = space.data
        if len(rows) > settings.n_starts:
            rows = rows[rng.choice(len(rows), settings.n_starts, replace=False)]
        data = places.of_points(rows)
        found.append(data[np.argsort(_sums(problem, data, run), kind="stable")])
    else:
        sizes = np.diff(places.start)
        found.append(rng.integers(sizes, size=(settings.n_starts, sizes.size), dtype=np.int32))
    return np.concatenate(found)


def best_start(
    problem: Problem,
    places: Places,
    starts: Int32Array,
    settings: ExactSettings = DEFAULT_SETTINGS,
) -> Int32Array:
    """Return the best of the starting points that can be evaluated within ``grace_seconds``."""
    begin, found = perf_counter(), []
    for point in starts:
        found.append(float(problem.sums_at(places.cells_at(point[None, :]))[0]))
        if perf_counter() - begin > settings.grace_seconds:
            break
    best: Int32Array = starts[int(np.argmin(found))]
    return best


def _sums(problem: Problem, points: Int32Array, run: Run) -> FloatArray:
    """Return the sums at points; infinity for points that the time limit leaves out."""
    cells = problem.places.cells_at(points)
    if not run.limits.watched:
        return problem.sums_at(cells)
    sums = np.full(len(points), np.inf)
    for k in range(len(points)):
        if run.limits.is_over():
            break
        sums[k] = problem.sums_at(cells[k : k + 1])[0]
    return sums
