"""The leaves of all trees as ranges of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import kernel


@kernel
def key_ranges(
    left: Any, right: Any, slot: Any, rank: Any, first: Any, low: Any, high: Any
) -> None:
    """Write, per leaf and slot, the keys ``low..high`` that lead to the leaf.

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
            if child == left[node]:
                high[leaf, s] = min(high[leaf, s], rank[node])
            else:
                low[leaf, s] = max(low[leaf, s], rank[node] + 1)
            child, node = node, parent[node]
