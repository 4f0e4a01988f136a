"""Categories that no good point has are left out, before leaves are listed as boxes.

A leaf that takes several runs of categories along several features becomes a box for each
combination, so their number grows with the product. But most categories can be ruled out early:
the sum of what each tree has to add at least, if the point has this category, is a bound on all
such points, and it takes no boxes. If it is above the value of a known point, the category goes,
and with it leaves that nothing else reaches, so that the bounds of others rise. Cells of numbers
are looked at in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from treeopt.exact.certificate import model_rounding, partial_sums, search_rounding

if TYPE_CHECKING:
    from treeopt.ensemble import Array
    from treeopt.grid import Grid
    from treeopt.limits import Limits

N_DESCENTS = 3
"""So many starts are descended from for the known point."""

MANY = 4
"""Fewer boxes for each leaf are listed as they are."""

MOST_CELLS = 20_000_000
"""Features without categories are looked at if leaves times cells are not more than this."""

MOST_AT_ONCE = 2_000_000
"""Leaves times cells that are looked at in one go."""


def reduced(grid: Grid, sign: float, starts: Array, limits: Limits) -> tuple[Grid, Array]:
    """Return the grid without cells that cannot lead to the least sum, and the starts in it.

    If boxes are few it stays as it is. Otherwise the first start is the best point that was found.
    """
    e = grid.ensemble
    sets = [int(j) for j in grid.free if e.compiled.cells.has_sets[j]]
    reaches = _reaches(grid, sets, limits)
    if _n_boxes(grid, reaches) <= MANY * e.n_leaves:
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
    """Return which cells of some features lead to each leaf."""
    found = {}
    for j in features:
        limits.check()
        found[j] = grid.ensemble.compiled.reachable_cells(j)
    return found


def _n_boxes(grid: Grid, reaches: Mapping[int, Array]) -> float:
    """Return how many boxes the leaves are, as runs of places along some features."""
    boxes = np.ones(grid.ensemble.n_leaves)
    for j, reach in reaches.items():
        there = reach[:, grid.cells[j]]
        boxes *= there[:, 0] + (there[:, 1:] & ~there[:, :-1]).sum(axis=1)
    return float(boxes.sum())


def _descend(grid: Grid, sign: float, start: Array, limits: Limits) -> tuple[float, Array]:
    """Make the best moves along one feature after the other; return the sum and where it is."""
    point, value = start.copy(), np.inf
    sizes = np.diff(grid.place_start)
    while True:
        before = value
        for k, size in enumerate(sizes):
            limits.check()
            line = np.repeat(point[None, :], size, axis=0)
            line[:, k] = np.arange(size)
            sums = sign * grid.sum_at(line)
            at = int(np.argmin(sums))
            if sums[at] < value:
                point, value = line[at], float(sums[at])
        if not value < before:
            return value, point


def _kept(
    grid: Grid, sign: float, reaches: Mapping[int, Array], threshold: float, limits: Limits
) -> dict[int, Array]:
    """Return the cells of some features whose bound is below the threshold.

    For each feature it is given which cells lead to each leaf.
    """
    e = grid.ensemble
    compiled = e.compiled
    kept = {j: grid.cells[j] for j in reaches}
    value = sign * compiled.leaf_value.astype(np.float64)
    constant = sign * (e.base + e.tail_base)
    alive = np.ones(e.n_leaves, np.bool_)
    for j, cells in enumerate(grid.cells):
        if cells.size == 1:
            limits.check()
            alive &= compiled.reachable_cells(j)[:, cells[0]]
    changed = True
    while changed:
        changed = False
        for j, reach in reaches.items():
            limits.check()
            alive &= reach[:, kept[j]].any(axis=1)
            bound = constant + _least_sums(value, alive, reach, kept[j], compiled.leaf_start)
            good = bound < threshold
            if not good.all():
                kept[j], changed = kept[j][good], True
    return kept


def _least_sums(value: Array, alive: Array, reaches: Array, cells: Array, start: Array) -> Array:
    """Return, for some cells of a feature, the sum of what each tree adds at least there."""
    at_once = max(1, MOST_AT_ONCE // value.size)
    sums = []
    for i in range(0, cells.size, at_once):
        there = reaches[:, cells[i : i + at_once]] & alive[:, None]
        worth = np.where(there, value[:, None], np.inf)
        sums.append(np.minimum.reduceat(worth, start[:-1], axis=0).sum(axis=0))
    return np.concatenate(sums)
