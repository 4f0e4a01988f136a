"""Times inside compiled code: full evaluations, moves of one coordinate, and lines.

The loops are compiled, so no time is spent in Python between two evaluations. The lines pass the
kernels' arguments as `treeopt.kernels.line` does. Categories change only in large moves, and no
line is along them. Links are excluded from the times, but not from the comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from engines import Array, Model
from numba import njit

from treeopt import Ensemble
from treeopt.kernels.arrays import Steps
from treeopt.kernels.encode import encode_row, numbers_of
from treeopt.kernels.line import (
    add_differences,
    add_in_order,
    mark_pieces,
    steps_by_masks,
    steps_by_walk,
)
from treeopt.kernels.walk import LANES, encode_lane

N_POINTS = 2_000
N_MOVES = 10_000
N_LINES = 300
N_CHECKED = 20
SMALL_STEP = 0.01  # standard deviation of a small move, relative to the feature's range

Task = Callable[[], float]  # returns the seconds of one item


@njit(nogil=True)
def one_by_one(kernel: Any, X: Any, arguments: Any, out: Any) -> None:
    """Evaluate each row in a separate call."""
    for i in range(X.shape[0]):
        kernel(X[i : i + 1], *arguments, out[i : i + 1])


@njit(nogil=True)
def lines_by_masks(
    add: Any,
    by_pieces: Any,
    X: Any,
    which: Any,
    encoder: Any,
    numbers: Any,
    model: Any,
    by_feature: Any,
    room: Any,
    out: Any,
) -> None:
    """Compute the line through ``X[q]`` along feature ``which[q]`` for every ``q``."""
    features, grid, cuts, buckets = encoder
    named = numbers_of(numbers)
    table, leaf_value, all_leaves = model
    n_cells, leaf_stop = by_feature
    (cells, rows, reach), steps = room
    marks, counts, end, value, pieces = out
    n_trees = steps.start.size - 1
    for q in range(which.size):
        j = which[q]
        k = (n_cells[j] + 63) // 64
        encode_row(X[q], features, grid, cuts, buckets, named, cells)
        steps_by_masks(
            *(j, cells, features, table, leaf_value, leaf_stop[j], all_leaves, rows, reach, steps)
        )
        if by_pieces:
            n = mark_pieces(n_cells[j], n_trees, steps, marks[:k], counts[:k], end)
        else:
            n = n_cells[j]
        add(n, n_trees, steps, named.base, named.divisor, value)
        pieces[q] = n


@njit(nogil=True)
def lines_by_walk(
    add: Any,
    by_pieces: Any,
    X: Any,
    which: Any,
    encoder: Any,
    numbers: Any,
    model: Any,
    by_feature: Any,
    room: Any,
    out: Any,
) -> None:
    """Do the same as `lines_by_masks` for trees that are too large for masks."""
    named = numbers_of(numbers)
    slots, packed = model
    n_cells = by_feature
    (keys, stack, stack_stop), steps = room
    marks, counts, end, value, pieces = out
    n_trees = steps.start.size - 1
    for q in range(which.size):
        j = which[q]
        k = (n_cells[j] + 63) // 64
        encode_lane(X[q], encoder, named, slots, keys, 0)
        first, stop = slots.start[j], slots.start[j + 1]
        steps_by_walk(first, stop, n_cells[j], keys, packed, stack, stack_stop, steps)
        if by_pieces:
            n = mark_pieces(n_cells[j], n_trees, steps, marks[:k], counts[:k], end)
        else:
            n = n_cells[j]
        add(n, n_trees, steps, named.base, named.divisor, value)
        pieces[q] = n


@dataclass
class Lines:
    """Some lines of an ensemble, and the buffers to compute them in."""

    ensemble: Ensemble
    X: Array
    which: Array  # the feature of each line, among those that the model reads

    def __post_init__(self) -> None:
        e, compiled, cells = self.ensemble, self.ensemble.compiled, self.ensemble.compiled.cells
        n_cells, integers = np.diff(cells.cut_start) + 1, partial(np.empty, dtype=np.int64)
        special = compiled.special_cells
        assert all(first > end for first, end in special), "the driver has no cells out of order"
        stop, step_value = (
            np.empty(e.n_leaves + 1, np.int32),
            np.empty(e.n_leaves + 1, e.value.dtype),
        )
        steps = Steps(integers(e.n_trees + 1), stop, step_value)
        self.by_masks = compiled.mask_dtype is not None
        if self.by_masks:
            self.model: Any = (*compiled.masks, compiled.all_leaves)
            self.by_feature: Any = (n_cells, compiled.leaf_stop)
            rows = (integers(n_cells.size), integers(n_cells.size + 1))
            self.room: Any = ((*rows, np.empty_like(compiled.all_leaves)), steps)
        else:
            self.model = (cells.slots, compiled.packed)
            self.by_feature = n_cells
            keys = np.zeros(int(cells.slot_start[-1]) * LANES, np.uint32)
            depth = compiled.depth + 1
            self.room = ((keys, np.empty(depth, np.uint64), integers(depth)), steps)
        most = int(n_cells.max())
        n_words = (most + 63) // 64
        self.marks = (
            np.zeros(n_words, np.uint64),
            integers(n_words),
            integers(most + 1),
        )

    def run(
        self, add: Any, dtype: Any, queries: slice, by_pieces: bool = True
    ) -> tuple[Array, Array]:
        """Compute lines; return their numbers of pieces (or cells), and the last one's values."""
        X, which = self.X[queries], self.which[queries]
        value, pieces = np.empty(self.marks[-1].size, dtype), np.empty(which.size, np.int64)
        driver = lines_by_masks if self.by_masks else lines_by_walk
        compiled, out = self.ensemble.compiled, (*self.marks, value, pieces)
        encoder, room = (compiled.encoder, compiled.numbers), (self.room, out)
        driver(add, by_pieces, X, which, *encoder, self.model, self.by_feature, *room)
        return pieces, value[: pieces[-1]]


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
    x, drawn = model.draw(rng, 1)[0], model.draw(rng, N_MOVES)
    features = rng.integers(model.n_numbers if small else width.size, size=N_MOVES)
    to, points = np.empty(N_MOVES), np.empty((N_MOVES, width.size))
    start = x.copy()
    for k, j in enumerate(features):
        if small:
            step = SMALL_STEP * width[j] * rng.standard_normal()
            x[j] = np.clip(x[j] + step, model.low[j], model.high[j])
        else:
            x[j] = drawn[k, j]
        to[k], points[k] = x[j], x
    return start, features, to, points


def seconds(call: Callable[[], Any]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin


def full_task(ensemble: Ensemble, X: Array) -> Task:
    """Time full evaluations, one row at a time."""
    kernel, arguments = ensemble.compiled._predict[:2]
    X = X.astype(ensemble.input_dtype)
    out = np.empty(X.shape[0], ensemble.value.dtype)
    one_by_one(kernel, X, arguments, out)
    assert np.array_equal(out, ensemble.margin(X)), "the compiled loop differs from predict"
    return lambda: seconds(lambda: one_by_one(kernel, X, arguments, out)) / X.shape[0]


def move_tasks(
    model: Model, ensemble: Ensemble, rng: np.random.Generator, small: bool
) -> tuple[Task, Task]:
    """Time moves of one coordinate, and full evaluations of the same points."""
    start, features, to, points = trajectory(model, rng, small)
    moved = ensemble.walker(start).run(features, to)
    assert np.array_equal(moved, ensemble.predict(points)), "moves differ from predict"

    def walk() -> float:
        walker = ensemble.walker(start)
        return seconds(lambda: walker.run(features, to)) / N_MOVES

    return walk, full_task(ensemble, points)


def line_tasks(
    ensemble: Ensemble, X: Array, rng: np.random.Generator
) -> tuple[Task, Task, Task, float]:
    """Time exact lines, lines up to rounding, and lines by batch prediction; count the pieces."""
    columns, has_sets = ensemble.compiled.cells.columns, ensemble.compiled.cells.has_sets
    lines = Lines(ensemble, X[:N_LINES], rng.choice(np.flatnonzero(~has_sets), N_LINES))
    exact = partial(lines.run, add_in_order, ensemble.value.dtype)
    # A few cells are summed one by one; of many cells, only the pieces between steps.
    few = int(ensemble.compiled.cells.n_cells.max()) <= 1024
    rounded = partial(lines.run, add_differences, np.float64, by_pieces=not few)
    checked: list[Array] = []
    for q in range(N_CHECKED):
        points, values = pieces_of(ensemble, X[q], int(columns[lines.which[q]]))
        one = slice(q, q + 1)
        assert np.array_equal(values, ensemble.predict(points)), "a line differs from predict"
        found = ensemble.link(exact(one)[1])
        assert np.array_equal(values, found), "the compiled line differs"
        last_cells = lines.marks[-1][: values.size] - 1
        close = ensemble.link(rounded(one)[1])
        close = close[last_cells] if few else close
        assert np.allclose(values, close, rtol=1e-5), "the rounded line is far off"
        checked.append(points.astype(ensemble.input_dtype))
    n_points = sum(len(points) for points in checked)
    every = slice(None)
    return (
        lambda: seconds(lambda: exact(every)) / N_LINES,
        lambda: seconds(lambda: rounded(every)) / N_LINES,
        lambda: seconds(lambda: [ensemble.predict(points) for points in checked]) / n_points,
        float(exact(every)[0].mean()),
    )


def measure_moves(
    model: Model, ensemble: Ensemble, rng: np.random.Generator, reps: int
) -> list[dict[str, Any]]:
    """Return one row per task: its microseconds, and those of a full evaluation of its points.

    All results are compared with `Ensemble.predict` before the timing.
    """
    X = model.draw(rng, N_POINTS)
    small = move_tasks(model, ensemble, rng, small=True)
    large = move_tasks(model, ensemble, rng, small=False)
    *lines, pieces = line_tasks(ensemble, X, rng)
    tasks = (full_task(ensemble, X), *small, *large, *lines)
    best = np.min([[task() * 1e6 for task in tasks] for _ in range(reps)], axis=0).tolist()
    full = best[0]
    return [
        {"task": "full evaluation", "us": full, "full_us": full},
        {"task": "small move", "us": best[1], "full_us": best[2]},
        {"task": "large move", "us": best[3], "full_us": best[4]},
        {"task": "line", "us": best[5], "full_us": full, "pieces": pieces},
        {"task": "line up to rounding", "us": best[6], "full_us": full, "pieces": pieces},
        {"task": "line by batches", "us": best[7] * pieces, "full_us": full, "pieces": pieces},
    ]
