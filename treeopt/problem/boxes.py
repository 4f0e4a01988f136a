"""Listing the leaves of all terms as boxes of places: the way from a problem to `exact`."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.errors import InputError
from treeopt.problem.leaves import Leaves, restrict
from treeopt.problem.places import Places
from treeopt.problem.problem import Problem
from treeopt.problem.terms import ModelTerm
from treeopt.run.limits import Limits
from treeopt.types import Array, IntArray

BOXES_AT_ONCE = 50_000
"""Number of boxes that are listed between two checks of the limits."""

MAX_BOXES = 20_000_000
"""Maximum number of boxes: sets of categories along several features multiply."""

COPIED_AT_ONCE = 1_000_000
"""Number of numbers that are copied between two checks of the limits."""


def list_leaves(problem: Problem, places: Places, limits: Limits) -> Leaves:
    """Return the boxes of all leaves that the places leave reachable.

    The terms follow one after the other; values are signed so that smaller is better.
    """
    sign = problem.objective.sign
    listed = [_list_term(k, term, sign, places, limits) for k, term in enumerate(places.grid.terms)]
    if len(listed) == 1:
        value, low, high, leaf, start = listed[0]
    else:
        value, leaf = (np.concatenate([part[i] for part in listed]) for i in (0, 3))
        low, high = (np.concatenate([part[i] for part in listed], axis=1) for i in (1, 2))
        offsets = np.cumsum([0, *(part[0].size for part in listed)])
        starts = [part[4][:-1] + offset for part, offset in zip(listed, offsets, strict=False)]
        start = np.concatenate([*starts, offsets[-1:]])
    limits.check_long()
    constant = sign * problem.objective.constant
    return Leaves(value, low, high, leaf, start, places.start, constant, limits.flag)


def _list_term(
    k: int, term: ModelTerm, sign: float, places: Places, limits: Limits
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the boxes of one term: value, low, high, leaf, and where each tree begins."""
    ensemble = term.ensemble
    arguments = _kernel_arguments(k, term, sign * term.weight, places, limits)
    room, p = ensemble.n_leaves, places.free.size
    while True:
        value, leaf = np.empty(room), np.empty(room, np.int32)
        low, high = np.empty((p, room), np.int32), np.empty((p, room), np.int32)
        start = np.empty(ensemble.n_trees + 1, np.int64)
        rooms = (
            np.empty((room, 2 * p), np.int32),
            np.empty(ensemble.n_leaves, np.int64),
            np.empty(ensemble.n_leaves, np.int32),
        )
        t = n = 0
        while t < ensemble.n_trees:
            if t > 0 or limits.watched:
                limits.check()
            rest = (t, n, n + BOXES_AT_ONCE, MAX_BOXES, *rooms, limits.flag)
            t, n = limits.call(restrict, *arguments, value, low, high, leaf, start, *rest)
            if n > MAX_BOXES:
                raise InputError(
                    f"categories leave so many combinations that the leaves of {ensemble.source} "
                    f"are more than {MAX_BOXES} boxes. List fewer of them in categories, or fix "
                    "some features."
                )
        if n <= room:
            break
        room = n
    limits.check_long()
    low, high = _first_columns(low, n, limits), _first_columns(high, n, limits)
    return value[:n], low, high, leaf[:n], start


def _kernel_arguments(
    k: int, term: ModelTerm, sign: float, places: Places, limits: Limits
) -> tuple[Any, ...]:
    """Return a term's trees, and the places as the term counts cells, for the kernel."""
    ensemble, compiled, grid = term.ensemble, term.ensemble.compiled, places.grid
    cells, features = compiled.cells, grid.features_of(k)
    free = np.full(len(places.cells), -1, np.int64)
    free[places.free] = np.arange(places.free.size)
    below_start = np.cumsum(np.append(0, cells.n_cells))
    below = np.zeros(int(below_start[-1]), np.int64)
    only_cell = np.zeros(features.size, np.int64)
    place_cell = np.empty(int(places.start[-1]), np.int64)
    for i, j in enumerate(features):
        own = grid.own_cells(k, i, places.cells[j])
        only_cell[i] = own[0]
        if free[j] < 0:
            continue
        if places.ordered[j]:
            n = int(cells.n_cells[i])
            in_sequence = own[-1] - own[0] == own.size - 1 and own is places.cells[j]
            below[below_start[i] : below_start[i] + n] = _count_up_to(own, n, in_sequence)
            limits.check_long()
        else:
            place_cell[places.start[free[j]] : places.start[free[j] + 1]] = own
    return (
        ensemble.left,
        ensemble.right,
        cells.node_slot,
        cells.node_rank,
        cells.node_bit,
        compiled.leaves[0],
        compiled.depth,
        cells.slot_feature,
        cells.slot_table,
        cells.lut,
        ensemble.tree_start,
        compiled.leaf_start,
        compiled.leaf_order,
        compiled.leaf_value.astype(np.float64, copy=False),
        sign,
        free[features],
        only_cell,
        np.array([places.ordered[j] for j in places.free], np.bool_),
        places.start,
        place_cell,
        below_start,
        below,
    )


def _count_up_to(cells: IntArray, n: int, in_sequence: bool) -> IntArray:
    """Return how many of some ascending cells are not above each of ``0..n-1``."""
    numbers = np.arange(n)
    if in_sequence:
        counts: IntArray = np.clip(numbers - cells[0] + 1, 0, cells.size)
        return counts
    return np.searchsorted(cells, numbers, side="right")


def _first_columns(table: Array, n: int, limits: Limits) -> Array:
    """Return the first columns of a table, side by side in memory."""
    if n == table.shape[1] or table.shape[0] * n <= COPIED_AT_ONCE:
        return np.ascontiguousarray(table[:, :n])
    copied = np.empty((table.shape[0], n), table.dtype)
    for k, row in enumerate(table):
        limits.check_long()
        copied[k] = row[:n]
    return copied
