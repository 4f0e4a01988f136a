"""List the leaves of trees as boxes of a grid.

Each tree is walked depth first. The walk keeps, for the node where it stands, the box of places
that lead there: a range of places along each ordered feature, and the set of allowed places along
each unordered one. A split whose both sides hold places divides the box; otherwise the walk follows
the only side that does. A leaf is listed once per combination of runs of its allowed places. At the
end of a tree its boxes are copied in ascending order of value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.kernels.jit import inlined, is_set, kernel
from treeopt.kernels.pack import goes_right, key_of

if TYPE_CHECKING:
    from treeopt.types import Array, BoolArray, FloatArray, Index, Int32Array, IntArray

LEFT, RIGHT, BOTH = range(3)
"""Sides of a split on which a box has places."""


class TreesToList(NamedTuple):
    """Trees and their splits, as `Compiled` and `Cells` have them.

    Attributes
    ----------
    left, right, tree_start : arrays
        Children of each node (negative at leaves), and the root of each tree.
    slot, rank, bit : int32 arrays
        The split of each node, see `Cells`.
    slot_feature, slot_table, lut : arrays
        The feature and the keys of each slot, see `Cells`.
    first : int32 array
        Number of the leaf at each node that is one.
    leaf_start, leaf_order : arrays
        Leaves of each tree, in ascending order of value.
    leaf_value : float64 array
        Value of each leaf.
    depth : int
        Length of the longest path to a leaf.
    sign : float
        -1.0 to maximize.
    """

    left: Array
    right: Array
    tree_start: Array
    slot: Int32Array
    rank: Int32Array
    bit: Int32Array
    slot_feature: IntArray
    slot_table: IntArray
    lut: Int32Array
    first: Int32Array
    leaf_start: Array
    leaf_order: Array
    leaf_value: FloatArray
    depth: int
    sign: float


class GridPlaces(NamedTuple):
    """The places of a grid and their cells.

    Attributes
    ----------
    free, cell : int64 arrays
        Number of each feature among the free ones, or -1 and the only cell that it can be in.
    ordered : bool array
        Whether each free feature's places are its cells in ascending order, so that splits cut
        them in two.
    unordered : int64 array
        Numbers of the free features that are not ordered.
    place_start, place_cell : int64 arrays
        First place of each free feature, and the cells of places that are not ordered.
    below_start, below : int64 arrays
        For each ordered feature, the number of its places in cells up to each one.
    """

    free: IntArray
    cell: IntArray
    ordered: BoolArray
    unordered: IntArray
    place_start: IntArray
    place_cell: IntArray
    below_start: IntArray
    below: IntArray


class BoxRoom(NamedTuple):
    """Where boxes are written: the first five are those of `Leaves`, the others are room.

    Attributes
    ----------
    met : int32 array
        Boxes of one tree in the order in which the walk meets them.
    met_start, met_count : arrays
        Where the boxes of each leaf begin in ``met``, and how many there are.
    """

    value: FloatArray
    low: Int32Array
    high: Int32Array
    leaf: Int32Array
    start: IntArray
    met: Int32Array
    met_start: IntArray
    met_count: Int32Array


class Walk(NamedTuple):
    """The path from the root: at each level a box and its allowed places; and waiting nodes."""

    box: Int32Array
    allowed: BoolArray
    waiting: IntArray  # a node and its level
    on_right: BoolArray  # room: the places of an unordered feature that go right at a split


@kernel
def list_boxes(
    trees: TreesToList,
    grid: GridPlaces,
    room: BoxRoom,
    t: int,
    total: int,
    pause_at: int,
    max_boxes: int,
    stop: IntArray,
) -> tuple[int, int]:
    """List the boxes of trees from tree ``t`` on; return the next tree and the number of boxes.

    ``total`` boxes are listed already. Ends with the tree that brings the number to ``pause_at`` or
    more, with the last tree, or as soon as there are more than ``max_boxes``. If there is no room
    for all boxes, only their number is of use.
    """
    depth, p = trees.depth + 2, grid.ordered.size
    walk = Walk(
        np.empty((depth, 2 * p), np.int32),
        np.empty((depth, grid.place_start[-1]), np.bool_),
        np.empty((depth, 2), np.int64),
        np.empty(grid.place_start[-1], np.bool_),
    )
    n_trees = trees.tree_start.size - 1
    while t < n_trees and total < pause_at:
        n = meet_boxes(trees, grid, room, walk, t, max_boxes - total, stop)
        if is_set(stop):
            return t, total
        if total + n > max_boxes:
            return t, total + n
        room.start[t] = total
        if total + n <= room.value.size:
            sort_boxes(trees, room, t, total, stop)
            if is_set(stop):
                return t, total
        total += n
        t += 1
    room.start[t] = total
    return t, total


@inlined
def meet_boxes(
    trees: TreesToList,
    grid: GridPlaces,
    room: BoxRoom,
    walk: Walk,
    t: int,
    max_boxes: int,
    stop: IntArray,
) -> int:
    """Write the boxes of a tree into ``room.met``; return their number, also if there is no room.

    Ends early if there are more than ``max_boxes``.
    """
    p = grid.ordered.size
    for i in range(trees.leaf_start[t], trees.leaf_start[t + 1]):
        room.met_count[i] = 0
    if grid.unordered.size > 0:
        for c in range(grid.place_start[-1]):
            walk.allowed[0, c] = True
    for k in range(p):
        walk.box[0, k] = 0
        walk.box[0, p + k] = grid.place_start[k + 1] - grid.place_start[k] - 1
    n, top = 0, 0
    walk.waiting[0, 0] = trees.tree_start[t]
    walk.waiting[0, 1] = 0
    while top >= 0 and n <= max_boxes and not is_set(stop):
        node, level = walk.waiting[top, 0], walk.waiting[top, 1]
        node, level, top = walk_down(trees, grid, walk, node, level, top - 1)
        leaf = trees.first[node]
        room.met_start[leaf] = n
        n = meet_runs(grid, room, walk, level, n, max_boxes)
        room.met_count[leaf] = n - room.met_start[leaf]
    return n


@inlined
def walk_down(
    trees: TreesToList, grid: GridPlaces, walk: Walk, i: int, d: int, top: int
) -> tuple[int, int, int]:
    """Walk from node ``i`` at level ``d`` down to a leaf, to the left where both sides are open.

    Right children wait. Returns the leaf's node, its level and the top of what waits.
    """
    p, box, allowed, on_right = grid.ordered.size, walk.box, walk.allowed, walk.on_right
    while trees.left[i] >= 0:
        j = trees.slot_feature[trees.slot[i]]
        k = grid.free[j]
        q = 0
        if k < 0:
            key = key_of(grid.cell[j], trees.slot[i], trees.slot_table, trees.lut)
            side = RIGHT if goes_right(key, trees.rank[i], trees.bit[i]) else LEFT
        elif grid.ordered[k]:
            q = grid.below[grid.below_start[j] + trees.rank[i]]
            side = LEFT if box[d, p + k] < q else RIGHT if box[d, k] >= q else BOTH
        else:
            for c in range(grid.place_start[k], grid.place_start[k + 1]):
                key = key_of(grid.place_cell[c], trees.slot[i], trees.slot_table, trees.lut)
                on_right[c] = goes_right(key, trees.rank[i], trees.bit[i])
            side = sides_of(allowed[d], on_right, grid.place_start[k], grid.place_start[k + 1])
        if side == LEFT:
            i = trees.left[i]
        elif side == RIGHT:
            i = trees.right[i]
        else:
            # The right child waits in the place of this box, the left one continues.
            copy_row(box[d], box[d + 1])
            if grid.unordered.size > 0:
                copy_row(allowed[d], allowed[d + 1])
            if grid.ordered[k]:
                box[d, k], box[d + 1, p + k] = q, q - 1
            else:
                for c in range(grid.place_start[k], grid.place_start[k + 1]):
                    allowed[d + 1 if on_right[c] else d, c] = False
            top += 1
            walk.waiting[top, 0], walk.waiting[top, 1] = trees.right[i], d
            d += 1
            i = trees.left[i]
    return i, d, top


@inlined
def sides_of(allowed: BoolArray, on_right: BoolArray, first: int, end: int) -> int:
    """Return the sides of a split on which there are allowed places."""
    to_left, to_right = False, False
    for c in range(first, end):
        to_left |= allowed[c] and not on_right[c]
        to_right |= allowed[c] and on_right[c]
    return (BOTH if to_right else LEFT) if to_left else RIGHT


@inlined
def meet_runs(grid: GridPlaces, room: BoxRoom, walk: Walk, d: int, n: int, max_boxes: int) -> int:
    """Write a box per combination of runs of allowed places at a level; return the new number."""
    p, box = grid.ordered.size, walk.box[d]
    for u in range(grid.unordered.size):
        k = grid.unordered[u]
        box[k], box[p + k] = run_from(walk.allowed[d], grid.place_start, k, np.int64(0))
    more = True
    while more and n <= max_boxes:
        if n < len(room.met):
            copy_row(box, room.met[n])
        n += 1
        more = False
        # The next run of the first feature that has one; features before it start again.
        for u in range(grid.unordered.size):
            k = grid.unordered[u]
            a, b = run_from(walk.allowed[d], grid.place_start, k, np.int64(box[p + k]) + 1)
            more = a <= b
            if not more:
                a, b = run_from(walk.allowed[d], grid.place_start, k, np.int64(0))
            box[k], box[p + k] = a, b
            if more:
                break
    return n


@inlined
def sort_boxes(trees: TreesToList, room: BoxRoom, t: int, total: int, stop: IntArray) -> None:
    """Copy the boxes of a tree, in ascending order of value, behind the ``total`` listed ones."""
    p = len(room.low)
    first, size = trees.leaf_start[t], trees.leaf_start[t + 1] - trees.leaf_start[t]
    for r in range(size):
        at = trees.leaf_order[first + (r if trees.sign > 0 else size - 1 - r)]
        for s in range(room.met_start[at], room.met_start[at] + room.met_count[at]):
            room.value[total] = trees.sign * trees.leaf_value[at]
            room.leaf[total] = at
            for k in range(p):
                # The first use of memory takes long: one check per box is not enough.
                if is_set(stop):
                    return
                room.low[k, total] = room.met[s, k]
                room.high[k, total] = room.met[s, p + k]
            total += 1


@kernel
def copy_row(source: Array, target: Array) -> None:
    """Copy a row; compiles in a fraction of the time that an assignment of slices takes."""
    for i in range(source.size):
        target[i] = source[i]


@kernel
def run_from(allowed: BoolArray, place_start: IntArray, k: int, at: Index) -> tuple[int, int]:
    """Return the first run of allowed places of feature ``k`` at or after place ``at``."""
    begin, end = place_start[k], place_start[k + 1]
    a = begin + at
    while a < end and not allowed[a]:
        a += 1
    b = a
    while b < end and allowed[b]:
        b += 1
    return a - begin, b - begin - 1
