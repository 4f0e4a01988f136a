"""Lists of boxes: one per tree, the boxes that a node of the search still meets, best first.

A plunge works on a table of its own: the boxes that its first node meets, copied side by side. Each
level of the plunge has a list of rows of the table for each tree, all in one arena of integers.
From position ``at`` on, a level has the start of each tree's list and the end of the last one, then
the lists themselves. Trees with one box left are folded: their value goes into the node's constant,
and the node's box is intersected with that box.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.kernels.jit import inlined, is_set, kernel

if TYPE_CHECKING:
    from treeopt.problem.leaves import Leaves
    from treeopt.types import BoolArray, FloatArray, Int32Array, IntArray


class Lists(NamedTuple):
    """The table of a plunge and the arena with the lists of its rows."""

    value: FloatArray  # of each row
    box: Int32Array  # of each row: lows, then highs
    arena: Int32Array


class Narrowed(NamedTuple):
    """What `narrow` made of a node's lists.

    Attributes
    ----------
    n_trees : int
        Number of trees that have lists; -1 if a tree has no box left.
    folded : float
        Sum of the values of the trees that were folded.
    bound : float
        Sum of the best values of the other trees.
    end : int
        End of the lists in the arena.
    n_changed : int
        Number of features along which the node's box became narrower.
    """

    n_trees: int
    folded: float
    bound: float
    end: int
    n_changed: int


@kernel
def gather(
    leaves: Leaves, box: Int32Array, cutoff: float, lists: Lists, first: IntArray
) -> tuple[int, int]:
    """Fill the table and its lists with the boxes that meet ``box`` and may lead below a cutoff.

    Returns the number of trees, or -1 if one of them has no box, and the end of the lists in the
    arena. ``first`` is room for one number per tree.
    """
    p, n_trees = box.size // 2, leaves.start.size - 1
    cut = np.empty(p, np.int64)
    n_cut = cut_features(leaves, box, cut)
    if not first_meets(leaves, box, cut, n_cut, first):
        return -1, 0
    bound = leaves.constant
    for t in range(n_trees):
        bound += leaves.value[first[t]]
    slack = cutoff - bound
    end = n_trees + 1
    row = 0
    for t in range(n_trees):
        lists.arena[t] = end
        too_high = leaves.value[first[t]] + slack
        for i in range(first[t], leaves.start[t + 1]):
            if leaves.value[i] >= too_high and i > first[t]:
                break
            if i > first[t] and not meets(leaves, i, box, cut, n_cut):
                continue
            if is_set(leaves.stop):
                return -1, 0
            lists.value[row] = leaves.value[i]
            for k in range(p):
                lists.box[row, k] = leaves.low[k, i]
                lists.box[row, p + k] = leaves.high[k, i]
            lists.arena[end] = row
            row += 1
            end += 1
    lists.arena[n_trees] = end
    return n_trees, end


@kernel
def cut_features(leaves: Leaves, box: Int32Array, cut: IntArray) -> int:
    """Write the features along which a box is narrower than the grid; return their number."""
    p = box.size // 2
    n = 0
    for k in range(p):
        size = leaves.place_start[k + 1] - leaves.place_start[k]
        if box[k] > 0 or box[p + k] < size - 1:
            cut[n] = k
            n += 1
    return n


@kernel
def first_meets(
    leaves: Leaves, box: Int32Array, cut: IntArray, n_cut: int, first: IntArray
) -> bool:
    """Write the best box of each tree that meets a node's box; tell whether all have one."""
    for t in range(leaves.start.size - 1):
        i = leaves.start[t]
        while i < leaves.start[t + 1] and not meets(leaves, i, box, cut, n_cut):
            i += 1
        if i == leaves.start[t + 1] or is_set(leaves.stop):
            return False
        first[t] = i
    return True


@kernel
def meets(leaves: Leaves, i: int, box: Int32Array, cut: IntArray, n_cut: int) -> bool:
    """Tell whether box ``i`` meets a node's box, which is narrower than the grid along ``cut``."""
    p = box.size // 2
    for a in range(n_cut):
        k = cut[a]
        if leaves.low[k, i] > box[p + k] or leaves.high[k, i] < box[k]:
            return False
    return True


@kernel
def narrow(
    lists: Lists,
    source: int,
    n_trees: int,
    target: int,
    box: Int32Array,
    changed: IntArray,
    n_changed: int,
    slack: float,
    stop: IntArray,
) -> Narrowed:
    """Keep the boxes that meet ``box`` and are less than ``slack`` worse than their tree's best.

    The boxes already meet it along all features but those in ``changed``. Folds trees with one box
    left, which may narrow ``box`` further: then ``changed`` holds the features. The lists at
    ``source`` are written to ``target``, which may be the same position; if not, they begin behind
    the positions of the lists. ``stop`` is the flag that ends it.
    """
    value, row_box, arena = lists.value, lists.box, lists.arena
    p, end = box.size // 2, target + n_trees + 1
    folded, bound = 0.0, 0.0
    n = 0
    is_narrower = np.zeros(p, np.bool_)
    for t in range(n_trees):
        begin = end
        too_high = np.inf
        for s in range(arena[source + t], arena[source + t + 1]):
            row = arena[s]
            if value[row] >= too_high:
                break
            meet = True
            for a in range(n_changed):
                k = changed[a]
                if row_box[row, k] > box[p + k] or row_box[row, p + k] < box[k]:
                    meet = False
                    break
            if meet:
                if end == begin:
                    too_high = value[row] + slack
                arena[end] = row
                end += 1
        if end == begin or is_set(stop):
            return Narrowed(-1, folded, bound, end, 0)
        best = arena[begin]
        if end > begin + 1:
            bound += value[best]
            arena[target + n] = begin
            n += 1
            continue
        folded += value[best]
        end = begin
        if not intersect(box, row_box[best], is_narrower):
            return Narrowed(-1, folded, bound, end, 0)
    arena[target + n] = end
    return Narrowed(n, folded, bound, end, note_changes(is_narrower, changed))


@inlined
def intersect(box: Int32Array, other: Int32Array, is_narrower: BoolArray) -> bool:
    """Intersect a box with another one; tell whether they meet and note where it is narrower."""
    p = box.size // 2
    for k in range(p):
        if other[k] > box[k]:
            box[k] = other[k]
            is_narrower[k] = True
        if other[p + k] < box[p + k]:
            box[p + k] = other[p + k]
            is_narrower[k] = True
        if box[k] > box[p + k]:
            return False
    return True


@inlined
def note_changes(is_narrower: BoolArray, changed: IntArray) -> int:
    """Write the features along which the box is narrower; return their number."""
    n = 0
    for k in range(is_narrower.size):
        if is_narrower[k]:
            changed[n] = k
            n += 1
    return n
