"""List the leaves of all terms of a problem as boxes of places."""

from __future__ import annotations

import numpy as np

from treeopt.errors import InputError
from treeopt.exact.exact_settings import DEFAULT_SETTINGS, ExactSettings
from treeopt.kernels.list_boxes import BoxRoom, GridPlaces, TreesToList, list_boxes
from treeopt.problem.leaves import Leaves
from treeopt.problem.places import Places
from treeopt.problem.problem import Problem
from treeopt.problem.sums import TreeSum
from treeopt.run.limits import Limits
from treeopt.types import Array, IntArray


def list_leaves(
    problem: Problem,
    places: Places,
    limits: Limits,
    settings: ExactSettings = DEFAULT_SETTINGS,
) -> Leaves:
    """Return the boxes of all leaves of a plain problem that the places can reach.

    The boxes of the terms are concatenated. Values are signed so that smaller is better.
    """
    prediction = problem.prediction
    sign, terms = prediction.sign, enumerate(prediction.terms)
    one_sum = [(k, sign * term.weight) for k, term in terms]
    leaves, _ = list_sums(problem, places, [one_sum], limits, settings)
    return leaves._replace(constant=sign * prediction.constant)


def list_sums(
    problem: Problem,
    places: Places,
    sums: list[list[tuple[int, float]]],
    limits: Limits,
    settings: ExactSettings = DEFAULT_SETTINGS,
) -> tuple[Leaves, IntArray]:
    """Return the boxes of several sums, concatenated, and the first tree of each sum.

    A sum is a list of sums of the grid with factors, by which their values are multiplied.
    """
    grid, parts, n_trees = problem.grid, [], [0]
    for own in sums:
        for k, factor in own:
            parts.append(_list_term(k, grid.sums[k], factor, places, limits, settings))
        n_trees.append(n_trees[-1] + sum(grid.sums[k].ensemble.n_trees for k, _ in own))
    if len(parts) == 1:
        value, low, high, leaf, start = parts[0]
    elif not parts:
        value, leaf = np.empty(0), np.empty(0, np.int32)
        low = high = np.empty((places.free.size, 0), np.int32)
        start = np.zeros(1, np.int64)
    else:
        value, leaf = (np.concatenate([part[i] for part in parts]) for i in (0, 3))
        low, high = (np.concatenate([part[i] for part in parts], axis=1) for i in (1, 2))
        offsets = np.cumsum([0, *(part[0].size for part in parts)])
        starts = [part[4][:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
        start = np.concatenate([*starts, offsets[-1:]])
    limits.check_long()
    leaves = Leaves(value, low, high, leaf, start, places.start, 0.0, limits.flag)
    return leaves, np.array(n_trees, np.int64)


def _list_term(
    k: int,
    term: TreeSum,
    factor: float,
    places: Places,
    limits: Limits,
    settings: ExactSettings,
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the boxes of one term: value, low, high, leaf, and the first box of each tree."""
    ensemble, p = term.ensemble, places.free.size
    trees = _trees_to_list(term, factor)
    cells = _cells_of_places(k, term, places, limits)
    size = ensemble.n_leaves
    while True:
        room = BoxRoom(
            value=np.empty(size),
            low=np.empty((p, size), np.int32),
            high=np.empty((p, size), np.int32),
            leaf=np.empty(size, np.int32),
            start=np.empty(ensemble.n_trees + 1, np.int64),
            met=np.empty((size, 2 * p), np.int32),
            met_start=np.empty(ensemble.n_leaves, np.int64),
            met_count=np.empty(ensemble.n_leaves, np.int32),
        )
        t = n = 0
        while t < ensemble.n_trees:
            if t > 0 or limits.watched:
                limits.check()
            max_n = (n + settings.slice_boxes, settings.max_boxes)
            t, n = limits.call(list_boxes, trees, cells, room, t, n, *max_n, limits.flag)
            if n > settings.max_boxes:
                raise InputError(
                    f"categories allow too many combinations: the leaves of {ensemble.source} are "
                    f"more than {settings.max_boxes} boxes. List fewer values in categories, or "
                    "fix some features."
                )
        if n <= size:
            break
        size = n
    limits.check_long()
    low, high = (
        _first_columns(table, n, limits, settings.copied_numbers) for table in (room.low, room.high)
    )
    return room.value[:n], low, high, room.leaf[:n], room.start


def _trees_to_list(term: TreeSum, sign: float) -> TreesToList:
    """Return the trees of a term as the argument of the kernel."""
    ensemble, compiled = term.ensemble, term.ensemble.compiled
    cells = compiled.cells
    return TreesToList(
        left=ensemble.left,
        right=ensemble.right,
        tree_start=ensemble.tree_start,
        slot=cells.node_slot,
        rank=cells.node_rank,
        bit=cells.node_bit,
        slot_feature=cells.slot_feature,
        slot_table=cells.slot_table,
        lut=cells.lut,
        first=compiled.leaves[0],
        leaf_start=compiled.leaf_start,
        leaf_order=compiled.leaf_order,
        leaf_value=compiled.leaf_value.astype(np.float64, copy=False),
        depth=compiled.depth,
        sign=sign,
    )


def _cells_of_places(k: int, term: TreeSum, places: Places, limits: Limits) -> GridPlaces:
    """Return the places with their cells in the numbering of term ``k``."""
    cells, grid = term.ensemble.compiled.cells, places.grid
    features = grid.features_of(k)
    free = np.full(len(places.cells), -1, np.int64)
    free[places.free] = np.arange(places.free.size)
    own_cells = [grid.own_cells(k, i, places.cells[j]) for i, j in enumerate(features)]
    first = np.array([own[0] for own in own_cells], np.int64)
    below_start = np.cumsum(np.append(0, cells.n_cells))
    n_places = np.array([own.size for own in own_cells], np.int64)
    below = _count_up_to_each(cells.n_cells, first, n_places)
    place_cell = np.empty(int(places.start[-1]), np.int64)
    for i, (j, own) in enumerate(zip(features, own_cells, strict=True)):
        if free[j] < 0:
            continue
        if not places.ordered[j]:
            place_cell[places.start[free[j]] : places.start[free[j] + 1]] = own
        elif (own[1:] - own[:-1] != 1).any():
            # Some cells are left out, or several places lie in one cell.
            all_cells = np.arange(cells.n_cells[i])
            counts = np.searchsorted(own, all_cells, side="right")
            below[below_start[i] : below_start[i + 1]] = counts
            limits.check_long()
    ordered = np.array([places.ordered[j] for j in places.free], np.bool_)
    return GridPlaces(
        free=free[features],
        cell=first,
        ordered=ordered,
        unordered=np.flatnonzero(~ordered),
        place_start=places.start,
        place_cell=place_cell,
        below_start=below_start,
        below=below,
    )


def _count_up_to_each(n_cells: IntArray, first: IntArray, n_places: IntArray) -> IntArray:
    """Return, for each cell of each feature, the number of places in the cells up to it.

    Feature ``i`` has places in ``n_places[i]`` consecutive cells from ``first[i]`` on.
    """
    origin = np.cumsum(n_cells) - n_cells + first - 1
    counts = np.arange(n_cells.sum()) - np.repeat(origin, n_cells)
    counted: IntArray = np.minimum(np.maximum(counts, 0), np.repeat(n_places, n_cells))
    return counted


def _first_columns(table: Array, n: int, limits: Limits, at_once: int) -> Array:
    """Return the first ``n`` columns of a table as a contiguous array."""
    if n == table.shape[1] or table.shape[0] * n <= at_once:
        return np.ascontiguousarray(table[:, :n])
    copied = np.empty((table.shape[0], n), table.dtype)
    for k, row in enumerate(table):
        limits.check_long()
        copied[k] = row[:n]
    return copied


def has_long_steps(problem: Problem, settings: ExactSettings) -> bool:
    """Return whether single steps may take too long between two checks of the limits.

    A descent passes over all boxes once per feature and then once per move. Other steps visit all
    places for each tree or, if places have no order, for each leaf.
    """
    places = problem.places
    n_trees, n_leaves = (
        sum(getattr(own.ensemble, name) for own in problem.grid.sums)
        for name in ("n_trees", "n_leaves")
    )
    in_order = all(places.ordered[j] for j in places.free)
    lines = n_trees if in_order else n_leaves
    passes = n_leaves * (places.free.size + settings.descent_passes)
    return bool(passes + lines * int(places.start[-1]) > settings.long_step)
