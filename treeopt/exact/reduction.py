"""Categories that no good point has are left out, before leaves are listed as boxes.

A leaf that takes several runs of categories along several features becomes a box for each
combination, so their number grows with the product. But most categories can be ruled out early:
the sum of what each tree has to add at least, if the point has this category, is a bound on all
such points, and it takes no boxes. If it is above the value of a known point, the category goes,
and with it leaves that nothing else reaches, so that the bounds of others rise. Cells of numbers
are looked at in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from treeopt.exact.certificate import model_rounding, partial_sums, search_rounding
from treeopt.model.stand_ins import staircase

if TYPE_CHECKING:
    from treeopt.problem.grid import Grid
    from treeopt.run.limits import Limits
    from treeopt.types import Array

N_DESCENTS = 3
"""So many starts are descended from for the known point."""

MANY = 4
"""Fewer boxes for each leaf are listed as they are."""

MOST_CELLS = 20_000_000
"""Features without categories are looked at if leaves times cells are not more than this."""

MOST_AT_ONCE = 2_000_000
"""Leaves times cells that are looked at in one go."""

LEAVES_AT_ONCE = 200_000
"""Points times trees whose leaves are looked up in one go."""


def reduced(grid: Grid, sign: float, starts: Array, limits: Limits) -> tuple[Grid, Array]:
    """Return the grid without cells that cannot lead to the least sum, and the starts in it.

    If boxes are few it stays as it is. Otherwise the first start is the best point that was found.
    """
    e = grid.ensemble
    sets = [int(j) for j in grid.free if e.compiled.cells.has_sets[j]]
    if not sets and MANY >= 1:
        return grid, starts  # each leaf is one box
    reaches = _reaches(grid, sets, limits)
    if _n_boxes(grid, reaches, limits) <= MANY * e.n_leaves:
        return grid, starts
    found = [_descend(grid, sign, start, limits) for start in starts[:N_DESCENTS]]
    value, best = min(found, key=lambda pair: pair[0])
    n_cells = e.compiled.cells.n_cells
    small = [int(j) for j in grid.free if e.n_leaves * n_cells[j] <= MOST_CELLS and j not in sets]
    reaches |= _reaches(grid, small, limits)
    order, start = e.compiled.leaf_order, e.compiled.leaf_start
    ends = order[start[:-1]], order[start[1:] - 1]
    slack = 2 * model_rounding(partial_sums(e, ends)) + 4 * search_rounding(e, ends)
    smaller = grid.keeping(_kept(grid, sign, reaches, value + slack, limits))
    return smaller, smaller.places_at(grid.cells_at(np.vstack([best, starts])))


def _reaches(grid: Grid, features: Iterable[int], limits: Limits) -> dict[int, Array]:
    """Return which places of some features lead to each leaf."""
    found = {}
    with limits.pause():
        _compile()
    for j in features:
        limits.check()
        found[j] = grid.ensemble.compiled.reachable_cells(j, grid.cells[j], limits)
    return found


@cache
def _compile() -> None:
    """Compile what is needed for categories alone: no time limit covers it."""
    staircase(4, np.float64).compiled.reachable_cells(0)


def _in_parts(table: Array, limits: Limits) -> Iterator[slice]:
    """Yield the rows of a table in parts, and look at the limits before each but the first."""
    at_once = max(1, MOST_AT_ONCE // max(1, table.shape[1]))
    for first in range(0, len(table), at_once):
        if first:
            limits.check()
        yield slice(first, first + at_once)


def _n_boxes(grid: Grid, reaches: Mapping[int, Array], limits: Limits) -> float:
    """Return how many boxes the leaves are, as runs of places along some features."""
    boxes = np.ones(grid.ensemble.n_leaves)
    for reach in reaches.values():
        for rows in _in_parts(reach, limits):
            there = reach[rows]
            boxes[rows] *= there[:, 0] + (there[:, 1:] & ~there[:, :-1]).sum(axis=1)
    return float(boxes.sum())


def _descend(grid: Grid, sign: float, start: Array, limits: Limits) -> tuple[float, Array]:
    """Make the best moves along one feature after the other; return the sum and where it is."""
    point, value = start.copy(), np.inf
    sizes = np.diff(grid.place_start)
    while True:
        before = value
        for k, size in enumerate(sizes):
            sums = sign * _sums_along(grid, point, k, int(size), limits)
            at = int(np.argmin(sums))
            if sums[at] < value:
                value = float(sums[at])
                point[k] = at
        if not value < before:
            return value, point


def _sums_along(grid: Grid, point: Array, k: int, size: int, limits: Limits) -> Array:
    """Return the sums at all places of a feature, the others being those of a point."""
    at_once = max(1, LEAVES_AT_ONCE // grid.ensemble.n_trees)
    sums = []
    for first in range(0, size, at_once):
        limits.check()
        places = np.arange(first, min(first + at_once, size))
        line = np.repeat(point[None, :], places.size, axis=0)
        line[:, k] = places
        sums.append(grid.sum_at(line))
    return np.concatenate(sums)


def _kept(
    grid: Grid, sign: float, reaches: Mapping[int, Array], threshold: float, limits: Limits
) -> dict[int, Array]:
    """Return the cells of some features whose bound is below the threshold.

    For each feature it is given which places lead to each leaf.
    """
    e = grid.ensemble
    compiled = e.compiled
    kept = {j: np.arange(grid.cells[j].size) for j in reaches}
    value = sign * compiled.leaf_value.astype(np.float64)
    constant = sign * (e.base + e.tail_base)
    alive = np.ones(e.n_leaves, np.bool_)
    for j, cells in enumerate(grid.cells):
        if cells.size == 1:
            limits.check()
            alive &= compiled.reachable_cells(j, cells, limits)[:, 0]
    changed = True
    while changed:
        changed = False
        for j, reach in reaches.items():
            limits.check()
            for rows in _in_parts(reach, limits):
                alive[rows] &= reach[rows][:, kept[j]].any(axis=1)
            start = compiled.leaf_start
            bound = constant + _least_sums(value, alive, reach, kept[j], start, limits)
            good = bound < threshold
            if not good.all():
                kept[j], changed = kept[j][good], True
    return {j: grid.cells[j][places] for j, places in kept.items()}


def _least_sums(
    value: Array, alive: Array, reaches: Array, places: Array, start: Array, limits: Limits
) -> Array:
    """Return, for some places of a feature, the sum of what each tree adds at least there."""
    at_once = max(1, MOST_AT_ONCE // value.size)
    sums = []
    for i in range(0, places.size, at_once):
        some = places[i : i + at_once]
        least = np.empty((start.size - 1, some.size))
        for trees in _groups(start, MOST_AT_ONCE // some.size):
            limits.check()
            rows = slice(start[trees.start], start[trees.stop])
            there = reaches[rows, some] & alive[rows, None]
            worth = np.where(there, value[rows, None], np.inf)
            least[trees] = np.minimum.reduceat(worth, start[trees] - rows.start, axis=0)
        sums.append(least.sum(axis=0))
    return np.concatenate(sums)


def _groups(start: Array, most: int) -> Iterator[slice]:
    """Yield the trees in groups of at most so many leaves, or of one tree."""
    begin, n_trees = 0, start.size - 1
    while begin < n_trees:
        end = int(np.searchsorted(start, start[begin] + most, side="right")) - 1
        end = min(max(end, begin + 1), n_trees)
        yield slice(begin, end)
        begin = end
