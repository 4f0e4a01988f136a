"""The leaves of all trees as ranges of keys and as sets of cells."""

from __future__ import annotations

import numpy as np

from treeopt.kernels.arrays import Slots, Splits
from treeopt.kernels.jit import is_set, kernel
from treeopt.kernels.pack import goes_right, key_of
from treeopt.types import BoolArray, Int32Array, IntArray


@kernel
def key_ranges(splits: Splits, low: Int32Array, high: Int32Array) -> None:
    """Write, per leaf and slot, the keys ``low..high`` that lead to the leaf.

    Splits by sets of categories are ignored: see `reachable_cells`. On entry ``low`` must be 0 and
    ``high`` the maximum key everywhere.
    """
    left, right = splits.left, splits.right
    n = left.size
    parent = np.full(n, -1, np.int64)
    for i in range(n):
        if left[i] >= 0:
            parent[left[i]] = i
            parent[right[i]] = i
    for i in range(n):
        if left[i] >= 0:
            continue
        leaf = splits.first_leaf[i]
        child, node = i, parent[i]
        while node >= 0:
            s, rank = splits.slot[node], splits.rank[node]
            if splits.bit[node] > 0:
                pass
            elif child == left[node]:
                high[leaf, s] = min(high[leaf, s], rank)
            else:
                low[leaf, s] = max(low[leaf, s], rank + 1)
            child, node = node, parent[node]


@kernel
def reachable_cells(
    j: int, splits: Splits, slots: Slots, cells: IntArray, reachable: BoolArray, stop: IntArray
) -> None:
    """Write, per leaf and each of some cells of feature ``j``, whether the cell leads to the leaf.

    Stop without a result as soon as the flag ``stop`` is set.
    """
    left, right, slot, first = splits.left, splits.right, splits.slot, splits.first_leaf
    for leaf in range(reachable.shape[0]):
        if is_set(stop):
            return
        for c in range(cells.size):
            reachable[leaf, c] = True
    for i in range(left.size):
        if left[i] < 0 or splits.feature[i] != j:
            continue
        for c in range(cells.size):
            if is_set(stop):
                return
            key = key_of(cells[c], slot[i], slots.table, slots.lut)
            out = left[i] if goes_right(key, splits.rank[i], splits.bit[i]) else right[i]
            for leaf in range(first[out], first[out] + splits.n_leaves[out]):
                reachable[leaf, c] = False


@kernel
def leaves_at(splits: Splits, slots: Slots, cells: IntArray, out: Int32Array) -> None:
    """Write the leaf of each tree that points reach, ``[point, tree]``.

    ``cells`` are the points' cells, ``[point, feature]``. Slower than the prediction kernels and
    much quicker to compile.
    """
    left, right = splits.left, splits.right
    for r in range(cells.shape[0]):
        for t in range(splits.tree_start.size - 1):
            i = np.int64(splits.tree_start[t])
            while left[i] >= 0:
                s = splits.slot[i]
                key = key_of(cells[r, splits.feature[i]], s, slots.table, slots.lut)
                is_right = goes_right(key, splits.rank[i], splits.bit[i])
                i = np.int64(right[i] if is_right else left[i])
            out[r, t] = splits.first_leaf[i]


@kernel
def cells_alike(
    splits: Splits,
    slots: Slots,
    slot_cuts: BoolArray,
    n_numbers: IntArray,
    at: IntArray,
    cell_start: IntArray,
    alike: BoolArray,
) -> None:
    """Write which cells of each feature lead to the same leaves as the point does.

    ``slot_cuts`` says whether the splits of each slot are by threshold among numbers, ``n_numbers``
    is the number of cells of each feature that are numbers, ``at`` the cells of the point. The
    cells of all features are numbered consecutively, those of a feature from ``cell_start`` on. On
    entry ``alike`` must be True everywhere.
    """
    left, right = splits.left, splits.right
    low = np.zeros(at.size, np.int64)
    high = n_numbers - 1
    for t in range(splits.tree_start.size - 1):
        i = np.int64(splits.tree_start[t])
        while left[i] >= 0:
            s, rank, bit = splits.slot[i], splits.rank[i], splits.bit[i]
            j = splits.feature[i]
            is_right = goes_right(key_of(at[j], s, slots.table, slots.lut), rank, bit)
            cell = 0
            if slot_cuts[s]:
                # Numbers narrow a range; what is left to look at is the missing cell.
                cell = n_numbers[j]
                if is_right:
                    low[j] = max(low[j], rank + 1)
                else:
                    high[j] = min(high[j], rank)
            while cell < cell_start[j + 1] - cell_start[j]:
                key = key_of(cell, s, slots.table, slots.lut)
                if goes_right(key, rank, bit) != is_right:
                    alike[cell_start[j] + cell] = False
                cell += 1
            i = np.int64(right[i] if is_right else left[i])
    for j in range(at.size):
        for cell in range(n_numbers[j]):
            if cell < low[j] or cell > high[j]:
                alike[cell_start[j] + cell] = False
