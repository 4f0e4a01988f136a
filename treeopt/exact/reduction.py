"""Exclude categories that cannot lead to the optimum, before leaves are listed as boxes.

A leaf with several runs of categories along several features becomes one box per combination, so
the number of boxes grows with the product. Most categories can be excluded before: for points with
a given category, the sum of the minima of all trees is a lower bound, and needs no boxes. If this
bound is above the value of a known point, the category is excluded. Leaves that no other category
reaches are excluded as well, which raises the bounds of the remaining categories. Cells of numbers
are treated in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from treeopt.exact.certificate import Certificate
from treeopt.exact.exact_settings import DEFAULT_SETTINGS, ExactSettings
from treeopt.model.stand_ins import staircase
from treeopt.problem.places import Places
from treeopt.problem.problem import Problem
from treeopt.run.limits import Limits
from treeopt.types import Array, BoolArray, FloatArray, Int32Array, IntArray


def reduce_places(
    problem: Problem,
    starts: Int32Array,
    limits: Limits,
    settings: ExactSettings = DEFAULT_SETTINGS,
) -> tuple[Places, Int32Array]:
    """Return the places that may lead to the optimum, and the starts as such places.

    If there are few boxes, places and starts are returned unchanged. Otherwise the best point found
    is added as the first start.
    """
    places, prediction = problem.places, problem.prediction
    grid = places.grid
    sets = [int(j) for j in places.free if grid.has_sets[j]]
    enough = settings.min_boxes_per_leaf
    if not sets and enough >= 1:
        return places, starts  # each leaf is one box
    work = _Parts(limits, settings.reduction_slice, settings.reduction_leaves)
    reaches = _reaches(problem, sets, limits)
    if _n_boxes(prediction.n_leaves, reaches, work) <= enough * prediction.n_leaves:
        return places, starts
    starting = starts[: settings.reduction_descents]
    found = [_descend(problem, start, work) for start in starting]
    value, best = min(found, key=lambda pair: pair[0])
    small = [
        int(j)
        for j in places.free
        if prediction.n_leaves * grid.n_cells[j] <= settings.max_reduction_cells and j not in sets
    ]
    reaches |= _reaches(problem, small, limits)
    certificate = Certificate(prediction, None)
    cutoff = value + certificate.tie_tolerance
    smaller = places.keeping(_kept(problem, reaches, cutoff, work))
    return smaller, smaller.of_cells(places.cells_at(np.vstack([best, starts])))


def _reaches(problem: Problem, features: Iterable[int], limits: Limits) -> dict[int, BoolArray]:
    """Return which places of some features lead to each leaf, ``[leaf, place]``."""
    found = {}
    with limits.pause():
        _compile()
    for j in features:
        limits.check()
        found[j] = _reach(problem, j, limits)
    return found


def _reach(problem: Problem, j: int, limits: Limits) -> BoolArray:
    """Return which places of a feature lead to each leaf; leaves of terms are concatenated."""
    grid, places, parts = problem.grid, problem.places, []
    for k, term in enumerate(problem.prediction.terms):
        own = np.flatnonzero(grid.features_of(k) == j).tolist()
        if not own:
            shape = (term.ensemble.n_leaves, places.cells[j].size)
            parts.append(np.ones(shape, np.bool_))
            continue
        cells = grid.own_cells(k, own[0], places.cells[j])
        parts.append(term.ensemble.compiled.reachable_cells(own[0], cells, limits))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@cache
def _compile() -> None:
    """Compile the kernel that only categories need, while the clock is paused."""
    staircase(4, np.float64).compiled.reachable_cells(0)


class _Parts(NamedTuple):
    """The amount of work between two checks of the limits.

    Attributes
    ----------
    limits : Limits
        The limits.
    cells : int
        Leaves times cells.
    leaves : int
        Points times trees whose leaves are looked up.
    """

    limits: Limits
    cells: int
    leaves: int

    def of(self, table: Array) -> Iterator[slice]:
        """Yield the rows of a table in parts; check the limits before each but the first."""
        at_once = max(1, self.cells // max(1, table.shape[1]))
        for first in range(0, len(table), at_once):
            if first:
                self.limits.check()
            yield slice(first, first + at_once)


def _n_boxes(n_leaves: int, reaches: Mapping[int, BoolArray], work: _Parts) -> float:
    """Return the number of boxes of all leaves, as runs of places along some features."""
    boxes = np.ones(n_leaves)
    for reach in reaches.values():
        for rows in work.of(reach):
            there = reach[rows]
            boxes[rows] *= there[:, 0] + (there[:, 1:] & ~there[:, :-1]).sum(axis=1)
    return float(boxes.sum())


def _descend(problem: Problem, start: Int32Array, work: _Parts) -> tuple[float, Int32Array]:
    """Make the best move along each feature in turn; return the final sum and point."""
    point, value = start.copy(), np.inf
    sizes = np.diff(problem.places.start)
    while True:
        before = value
        for k, size in enumerate(sizes):
            sums = _sums_along(problem, point, k, int(size), work)
            at = int(np.argmin(sums))
            if sums[at] < value:
                value = float(sums[at])
                point[k] = at
        if not value < before:
            return value, point


def _sums_along(problem: Problem, point: Int32Array, k: int, size: int, work: _Parts) -> FloatArray:
    """Return the sums at all places of a feature, with the other coordinates fixed at a point."""
    at_once = max(1, work.leaves // problem.prediction.n_trees)
    sums = []
    for first in range(0, size, at_once):
        work.limits.check()
        some = np.arange(first, min(first + at_once, size))
        line = np.repeat(point[None, :], some.size, axis=0)
        line[:, k] = some
        sums.append(problem.sums_at(problem.places.cells_at(line)))
    return np.concatenate(sums)


def _kept(
    problem: Problem, reaches: Mapping[int, BoolArray], cutoff: float, work: _Parts
) -> dict[int, IntArray]:
    """Return the cells of some features whose bound is below the cutoff.

    ``reaches`` has, for each of these features, the places that lead to each leaf.
    """
    places, prediction = problem.places, problem.prediction
    kept = {j: np.arange(places.cells[j].size) for j in reaches}
    value, start = _signed_leaves(problem)
    constant = prediction.sign * prediction.constant
    alive = np.ones(value.size, np.bool_)
    for j, cells in enumerate(places.cells):
        if cells.size == 1:
            work.limits.check()
            alive &= _reach(problem, j, work.limits)[:, 0]
    changed = True
    while changed:
        changed = False
        for j, reach in reaches.items():
            work.limits.check()
            for rows in work.of(reach):
                alive[rows] &= reach[rows][:, kept[j]].any(axis=1)
            bound = constant + _lowest_sums(value, alive, reach, kept[j], start, work)
            good = bound < cutoff
            if not good.all():
                kept[j], changed = kept[j][good], True
    return {j: places.cells[j][own] for j, own in kept.items()}


def _signed_leaves(problem: Problem) -> tuple[FloatArray, IntArray]:
    """Return the signed values of the leaves of all terms, and the first leaf of each tree."""
    sign, terms = problem.prediction.sign, problem.prediction.terms
    values, starts, n = [], [np.zeros(1, np.int64)], 0
    for term in terms:
        compiled = term.ensemble.compiled
        values.append(sign * term.weight * compiled.leaf_value.astype(np.float64))
        starts.append(compiled.leaf_start[1:] + n)
        n += values[-1].size
    return np.concatenate(values), np.concatenate(starts)


def _lowest_sums(
    value: FloatArray,
    alive: BoolArray,
    reach: BoolArray,
    places: IntArray,
    start: IntArray,
    work: _Parts,
) -> FloatArray:
    """Return, for each of some places of a feature, the sum of the minima of all trees."""
    at_once = max(1, work.cells // value.size)
    sums = []
    for i in range(0, places.size, at_once):
        some = places[i : i + at_once]
        lowest = np.empty((start.size - 1, some.size))
        for trees in _groups(start, work.cells // some.size):
            work.limits.check()
            rows = slice(start[trees.start], start[trees.stop])
            there = reach[rows, some] & alive[rows, None]
            worth = np.where(there, value[rows, None], np.inf)
            lowest[trees] = np.minimum.reduceat(worth, start[trees] - rows.start, axis=0)
        sums.append(lowest.sum(axis=0))
    return np.concatenate(sums)


def _groups(start: IntArray, max_leaves: int) -> Iterator[slice]:
    """Yield groups of trees with at most ``max_leaves`` leaves, or of a single tree."""
    begin, n_trees = 0, start.size - 1
    while begin < n_trees:
        end = int(np.searchsorted(start, start[begin] + max_leaves, side="right")) - 1
        end = min(max(end, begin + 1), n_trees)
        yield slice(begin, end)
        begin = end
