"""The leaves of all trees as ranges of keys and as sets of cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import kernel
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
    reachable: Any,
) -> None:
    """Write, per leaf and cell of feature ``j``, whether the cell leads to the leaf.

    On entry ``reachable`` is True everywhere.
    """
    for i in range(left.size):
        if left[i] < 0 or slot_feature[slot[i]] != j:
            continue
        for cell in range(reachable.shape[1]):
            key = key_of(cell, slot[i], slot_table, lut)
            out = left[i] if goes_right(key, rank[i], bit[i]) else right[i]
            for leaf in range(first[out], first[out] + count[out]):
                reachable[leaf, cell] = False
