"""The leaves of all trees as ranges of keys and as sets of cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import is_set, kernel
from treeopt.kernels.pack import goes_right, key_of


@kernel
def key_ranges(
    left: Any, right: Any, slot: Any, rank: Any, bit: Any, first: Any, low: Any, high: Any
) -> None:
    """Write, per leaf and slot, the keys ``low..high`` that lead to the leaf.

    Splits by sets of categories do not count: see `reachable_cells`.

    ``first`` is the leaf number of each leaf (`pack.leaf_ranges`). On entry ``low`` is 0 and
    ``high`` the largest key everywhere.
    """
    n = left.size
    parent = np.full(n, -1, np.int64)
    for i in range(n):
        if left[i] >= 0:
            parent[left[i]] = i
            parent[right[i]] = i
    for i in range(n):
        if left[i] >= 0:
            continue
        leaf = first[i]
        child, node = i, parent[i]
        while node >= 0:
            s = slot[node]
            if bit[node] > 0:
                pass
            elif child == left[node]:
                high[leaf, s] = min(high[leaf, s], rank[node])
            else:
                low[leaf, s] = max(low[leaf, s], rank[node] + 1)
            child, node = node, parent[node]


@kernel
def reachable_cells(
    j: Any,
    left: Any,
    right: Any,
    slot: Any,
    rank: Any,
    bit: Any,
    first: Any,
    count: Any,
    slot_feature: Any,
    slot_table: Any,
    lut: Any,
    cells: Any,
    reachable: Any,
    stop: Any,
) -> None:
    """Write, per leaf and each of some cells of feature ``j``, whether the cell leads to the leaf.

    Ends before that, without a result, as soon as the flag ``stop`` is set.
    """
    for leaf in range(reachable.shape[0]):
        if is_set(stop):
            return
        for c in range(cells.size):
            reachable[leaf, c] = True
    for i in range(left.size):
        if left[i] < 0 or slot_feature[slot[i]] != j:
            continue
        for c in range(cells.size):
            if is_set(stop):
                return
            key = key_of(cells[c], slot[i], slot_table, lut)
            out = left[i] if goes_right(key, rank[i], bit[i]) else right[i]
            for leaf in range(first[out], first[out] + count[out]):
                reachable[leaf, c] = False


@kernel
def leaves_at(
    left: Any,
    right: Any,
    tree_start: Any,
    slot: Any,
    rank: Any,
    bit: Any,
    first: Any,
    slot_feature: Any,
    slot_table: Any,
    lut: Any,
    cells: Any,
    out: Any,
) -> None:
    """Write the leaf of each tree that points reach, ``[point, tree]``.

    ``cells`` are the points' cells, ``[point, feature]``. Slower than the prediction kernels and
    much quicker to compile.
    """
    for r in range(cells.shape[0]):
        for t in range(tree_start.size - 1):
            i = np.int64(tree_start[t])
            while left[i] >= 0:
                s = slot[i]
                key = key_of(cells[r, slot_feature[s]], s, slot_table, lut)
                i = np.int64(right[i] if goes_right(key, rank[i], bit[i]) else left[i])
            out[r, t] = first[i]


@kernel
def cells_alike(
    left: Any,
    right: Any,
    tree_start: Any,
    slot: Any,
    rank: Any,
    bit: Any,
    slot_feature: Any,
    slot_table: Any,
    lut: Any,
    slot_cuts: Any,
    n_numbers: Any,
    at: Any,
    cell_start: Any,
    alike: Any,
) -> None:
    """Write which cells of each feature lead to the same leaves as the point does.

    ``slot_cuts`` says whether the splits of a slot cut the numbers in two, and ``n_numbers`` how
    many cells of each feature are numbers; ``at`` is the point's cell of each feature. Cells of
    all features are numbered through, from ``cell_start`` on. On entry ``alike`` is True.
    """
    low = np.zeros(at.size, np.int64)
    high = n_numbers - 1
    for t in range(tree_start.size - 1):
        i = np.int64(tree_start[t])
        while left[i] >= 0:
            s = slot[i]
            j = slot_feature[s]
            is_right = goes_right(key_of(at[j], s, slot_table, lut), rank[i], bit[i])
            cell: Any = np.int64(0)
            if slot_cuts[s]:
                # Numbers narrow a range; what is left to look at is the missing cell.
                cell = n_numbers[j]
                if is_right:
                    low[j] = max(low[j], rank[i] + 1)
                else:
                    high[j] = min(high[j], rank[i])
            while cell < cell_start[j + 1] - cell_start[j]:
                key = key_of(cell, s, slot_table, lut)
                if goes_right(key, rank[i], bit[i]) != is_right:
                    alike[cell_start[j] + cell] = False
                cell += 1
            i = np.int64(right[i] if is_right else left[i])
    for j in range(at.size):
        for cell in range(n_numbers[j]):
            if cell < low[j] or cell > high[j]:
                alike[cell_start[j] + cell] = False
