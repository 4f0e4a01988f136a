"""Times inside compiled code: one full evaluation, moves of one coordinate, whole lines.

The loops are compiled, so no time is spent in Python between two evaluations. The lines
pass the kernels' arguments as `treeopt.moves.line` does.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from engines import Array, Model
from numba import njit

from treeopt import Ensemble
from treeopt.kernels.encode import encode_row
from treeopt.kernels.line import GROUP, add_steps, steps_by_masks, steps_by_walk
from treeopt.kernels.walk import LANES, encode_lane

N_POINTS = 2_000
N_MOVES = 10_000
N_LINES = 300
N_CHECKED = 20
SMALL_STEP = 0.01  # standard deviation of a small move, in parts of the feature's range

Task = Callable[[], float]  # returns the seconds of one item


@njit(nogil=True)
def one_by_one(kernel: Any, X: Any, arguments: Any, out: Any) -> None:
    """Evaluate each row by a call of its own."""
    for i in range(X.shape[0]):
        kernel(X[i : i + 1], *arguments, out[i : i + 1])


@njit(nogil=True)
def lines_by_masks(
    X: Any, which: Any, encoder: Any, model: Any, by_feature: Any, room: Any, steps: Any, out: Any
) -> None:
    """Compute the line through ``X[q]`` along feature ``which[q]`` for every ``q``."""
    features, grid, cuts, buckets, numbers = encoder
    table, leaf_value, all_leaves = model
    last, leaf_end = by_feature
    marks, marks_before, current, end, value, count = out
    for q in range(which.size):
        j = which[q]
        n = last[j] // 64 + 1
        marks[:n] = 0
        encode_row(X[q], features, grid, cuts, buckets, numbers, room[0])
        steps_by_masks(
            j, room[0], features, table, leaf_value, leaf_end[j], all_leaves, *room[1:], *steps
        )
        counts = (marks[:n], marks_before[:n], current)
        count[q] = add_steps(current.size, *steps, numbers, *counts, end, value)


@njit(nogil=True)
def lines_by_walk(
    X: Any, which: Any, encoder: Any, model: Any, by_feature: Any, room: Any, steps: Any, out: Any
) -> None:
    """Do as `lines_by_masks` does, where trees are too large for masks."""
    features, grid, cuts, buckets, numbers = encoder
    (slot_start, slot_table, lut), nodes = model
    last, on_line = by_feature
    keys = room[0]
    marks, marks_before, current, end, value, count = out
    for q in range(which.size):
        j = which[q]
        n = last[j] // 64 + 1
        marks[:n] = 0
        encode_lane(
            X[q], features, grid, cuts, buckets, numbers, slot_start, slot_table, lut, keys, 0
        )
        steps_by_walk(on_line[j], last[j], keys, *nodes, *room[1:], *steps)
        counts = (marks[:n], marks_before[:n], current)
        count[q] = add_steps(current.size, *steps, numbers, *counts, end, value)


def line_driver(ensemble: Ensemble, X: Array, which: Array) -> tuple[Callable[[slice], Any], Array]:
    """Return a call that computes some of the lines and counts their pieces, and the values."""
    compiled, cells = ensemble.compiled, ensemble.compiled.cells
    last, dtype = np.diff(cells.cut_start), ensemble.value.dtype
    assert not any(first <= end for first, end in map(compiled.special_cells, range(last.size)))
    if compiled.mask_dtype is not None:
        driver, n_features = lines_by_masks, last.size
        model: Any = (*compiled.masks, compiled.all_leaves)
        by_feature = (last, compiled.leaf_end)
        cells_and_rows = (np.empty(n_features, np.int64), np.empty(n_features + 1, np.int64))
        room: Any = (*cells_and_rows, np.empty_like(compiled.all_leaves))
    else:
        driver, depth = lines_by_walk, compiled.depth + 1
        slots = (cells.slot_start, cells.slot_table, cells.lut)
        model = (slots, (*compiled.nodes, compiled.leaf_value))
        by_feature = (last, np.array([cells.slot_feature == j for j in range(last.size)]))
        keys = np.zeros(int(cells.slot_start[-1]) * LANES, np.uint32)
        room = (keys, np.empty(depth, np.uint64), np.empty(depth, np.int64))
    steps = (
        np.empty(ensemble.n_trees + 1, np.int64),
        np.empty(ensemble.n_leaves + 1, np.int32),
        np.empty(ensemble.n_leaves + 1, dtype),
    )
    n_words, n_pieces = int(last.max()) // 64 + 1, int(last.max()) + GROUP
    marks = (np.empty(n_words, np.uint64), np.empty(n_words, np.int64))
    current = np.empty(ensemble.n_trees, np.int64)
    end, value = np.empty(n_pieces, np.int64), np.empty(n_pieces, dtype)

    def run(queries: slice) -> Array:
        count = np.empty(which[queries].size, np.int64)
        out = (*marks, current, end, value, count)
        driver(X[queries], which[queries], compiled.encoder, model, by_feature, room, steps, out)
        return count

    return run, value


def pieces_of(ensemble: Ensemble, x: Array, column: int) -> tuple[Array, Array]:
    """Return one point on each piece of a line, and the line's values there."""
    found = ensemble.line(x, column)
    points = np.repeat(x[None, :], found.upper.size, axis=0)
    points[:-1, column] = found.upper[:-1]
    if found.upper.size > 1:
        beyond = np.array(found.upper[-2], ensemble.input_dtype)
        points[-1, column] = np.nextafter(beyond, np.array(np.inf, ensemble.input_dtype))
    return points, found.value


def trajectory(
    model: Model, rng: np.random.Generator, small: bool
) -> tuple[Array, Array, Array, Array]:
    """Return a start, the feature and value of each move, and the point after each of them."""
    width = model.high - model.low
    x = model.low + width * rng.random(width.size)
    features = rng.integers(width.size, size=N_MOVES)
    to, points = np.empty(N_MOVES), np.empty((N_MOVES, width.size))
    start = x.copy()
    for k, j in enumerate(features):
        if small:
            step = SMALL_STEP * width[j] * rng.standard_normal()
            x[j] = np.clip(x[j] + step, model.low[j], model.high[j])
        else:
            x[j] = model.low[j] + width[j] * rng.random()
        to[k], points[k] = x[j], x
    return start, features, to, points


def seconds(call: Callable[[], Any]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin


def full_task(ensemble: Ensemble, X: Array) -> Task:
    """Full evaluation, one row at a time."""
    kernel, arguments = ensemble.compiled._predict
    X = X.astype(ensemble.input_dtype)
    out = np.empty(X.shape[0], ensemble.value.dtype)
    one_by_one(kernel, X, arguments, out)
    assert np.array_equal(out, ensemble.predict(X)), "the compiled loop differs from predict"
    return lambda: seconds(lambda: one_by_one(kernel, X, arguments, out)) / X.shape[0]


def move_tasks(
    model: Model, ensemble: Ensemble, rng: np.random.Generator, small: bool
) -> tuple[Task, Task]:
    """Moves of one coordinate, and full evaluation of the same points."""
    start, features, to, points = trajectory(model, rng, small)
    moved = ensemble.walker(start).run(features, to)
    assert np.array_equal(moved, ensemble.predict(points)), "moves differ from predict"

    def walk() -> float:
        walker = ensemble.walker(start)
        return seconds(lambda: walker.run(features, to)) / N_MOVES

    return walk, full_task(ensemble, points)


def line_tasks(ensemble: Ensemble, X: Array, rng: np.random.Generator) -> tuple[Task, Task, float]:
    """Whole lines, batch prediction of one piece of a line, and the mean number of pieces."""
    columns = ensemble.compiled.cells.columns
    which = rng.integers(columns.size, size=N_LINES)
    run, line_values = line_driver(ensemble, X[:N_LINES], which)
    checked: list[Array] = []
    for q in range(N_CHECKED):
        points, values = pieces_of(ensemble, X[q], int(columns[which[q]]))
        assert np.array_equal(values, ensemble.predict(points)), "a line differs from predict"
        n = int(run(slice(q, q + 1))[0])
        assert np.array_equal(line_values[:n], values), "the compiled line differs"
        checked.append(points.astype(ensemble.input_dtype))
    n_points = sum(len(points) for points in checked)

    def by_batch() -> float:
        return seconds(lambda: [ensemble.predict(points) for points in checked]) / n_points

    pieces = float(run(slice(None)).mean())
    return lambda: seconds(lambda: run(slice(None))) / N_LINES, by_batch, pieces


def measure_moves(
    model: Model, ensemble: Ensemble, rng: np.random.Generator, reps: int
) -> list[dict[str, Any]]:
    """Return one row per task: microseconds each, and those of a full evaluation there.

    Everything is compared with `Ensemble.predict` before it is timed.
    """
    X = rng.uniform(model.low, model.high, (N_POINTS, model.low.size))
    small, small_full = move_tasks(model, ensemble, rng, small=True)
    large, large_full = move_tasks(model, ensemble, rng, small=False)
    line, by_batch, pieces = line_tasks(ensemble, X, rng)
    tasks = (full_task(ensemble, X), small, small_full, large, large_full, line, by_batch)
    rounds = [[task() * 1e6 for task in tasks] for _ in range(reps)]
    full_us, small_us, small_full_us, large_us, large_full_us, line_us, piece_us = np.min(
        rounds, axis=0
    ).tolist()
    return [
        {"task": "full evaluation", "us": full_us, "full_us": full_us},
        {"task": "small move", "us": small_us, "full_us": small_full_us},
        {"task": "large move", "us": large_us, "full_us": large_full_us},
        {"task": "line", "us": line_us, "full_us": full_us, "pieces": pieces},
        {"task": "line by batches", "us": piece_us * pieces, "full_us": full_us, "pieces": pieces},
    ]
