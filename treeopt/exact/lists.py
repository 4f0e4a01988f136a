"""Lists of boxes: one per tree, the boxes that a node of the search still meets, best first.

A plunge works on a table of its own: the boxes that its first node meets, copied side by side.
Each level of the plunge has a list of rows of the table for each tree, all in one arena of whole
numbers: at `at`, the positions of the lists (one more than there are trees), then the lists.
Trees with one box left are folded into a constant, and the node's box into that box.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import is_set, kernel


@kernel
def gather(
    leaves: Any,
    box: Any,
    threshold: Any,
    table_value: Any,
    table_box: Any,
    arena: Any,
    first: Any,
) -> Any:
    """Fill the table and its lists with the boxes that meet ``box`` and may lead below a threshold.

    Returns the number of trees, or -1 if one of them has no box, and the end of the lists in the
    arena. ``first`` is room for one number per tree.
    """
    p, n_trees = box.size // 2, leaves.start.size - 1
    cut = np.empty(p, np.int64)
    n_cut = cut_features(leaves, box, cut)
    if not first_meets(leaves, box, cut, n_cut, first):
        return np.int64(-1), np.int64(0)
    bound = leaves.constant
    for t in range(n_trees):
        bound += leaves.value[first[t]]
    slack = threshold - bound
    n = np.int64(0)
    end = np.int64(n_trees + 1)
    rows = 0
    for t in range(n_trees):
        begin = end
        limit = leaves.value[first[t]] + slack
        for i in range(first[t], leaves.start[t + 1]):
            if leaves.value[i] >= limit and i > first[t]:
                break
            if i > first[t] and not meets(leaves, i, box, cut, n_cut):
                continue
            if is_set(leaves.stop):
                return np.int64(-1), np.int64(0)
            table_value[rows] = leaves.value[i]
            for k in range(p):
                table_box[rows, k] = leaves.low[k, i]
                table_box[rows, p + k] = leaves.high[k, i]
            arena[end] = rows
            rows += 1
            end += 1
        arena[n] = begin
        n += 1
    arena[n] = end
    return n, end


@kernel
def cut_features(leaves: Any, box: Any, cut: Any) -> Any:
    """Write along which features a node's box is narrower than the grid; return how many."""
    p = box.size // 2
    n = 0
    for k in range(p):
        size = leaves.place_start[k + 1] - leaves.place_start[k]
        if box[k] > 0 or box[p + k] < size - 1:
            cut[n] = k
            n += 1
    return n


@kernel
def first_meets(leaves: Any, box: Any, cut: Any, n_cut: Any, first: Any) -> Any:
    """Write the best box of each tree that meets a node's box; return whether all have one."""
    for t in range(leaves.start.size - 1):
        i = leaves.start[t]
        while i < leaves.start[t + 1] and not meets(leaves, i, box, cut, n_cut):
            i += 1
        if i == leaves.start[t + 1] or is_set(leaves.stop):
            return False
        first[t] = i
    return True


@kernel
def meets(leaves: Any, i: Any, box: Any, cut: Any, n_cut: Any) -> Any:
    """Tell whether box ``i`` meets a node's box, which is narrower than the grid along ``cut``."""
    p = box.size // 2
    for a in range(n_cut):
        k = cut[a]
        if leaves.low[k, i] > box[p + k] or leaves.high[k, i] < box[k]:
            return False
    return True


@kernel
def narrow(
    table_value: Any,
    table_box: Any,
    arena: Any,
    source: Any,
    n_trees: Any,
    target: Any,
    box: Any,
    changed: Any,
    n_changed: Any,
    slack: Any,
    halt: Any,
) -> Any:
    """Keep the boxes that meet ``box`` and are less than ``slack`` worse than their tree's best.

    Along all features but those in ``changed`` they meet it already. Folds trees with one box left,
    which may narrow ``box`` further: then ``changed`` says where. The lists at ``source`` go to
    ``target``, which may be the same place; where it is not, they begin after the positions.

    Returns the number of trees (-1: one has no box left), what was folded, the bound without it,
    the end of the lists, and the number of features changed. ``halt`` is the flag that ends it.
    """
    p = box.size // 2
    end = target + n_trees + 1
    fold = 0.0
    bound = 0.0
    n = np.int64(0)
    narrowed = np.zeros(p, np.bool_)
    for t in range(n_trees):
        begin = end
        limit = np.inf
        stop = arena[source + t + 1]
        for s in range(arena[source + t], stop):
            row = arena[s]
            value = table_value[row]
            if value >= limit:
                break
            meet = True
            for a in range(n_changed):
                k = changed[a]
                if table_box[row, k] > box[p + k] or table_box[row, p + k] < box[k]:
                    meet = False
                    break
            if meet:
                if end == begin:
                    limit = value + slack
                arena[end] = row
                end += 1
        if end == begin or is_set(halt):
            return np.int64(-1), fold, bound, end, np.int64(0)
        best = arena[begin]
        if end == begin + 1:
            fold += table_value[best]
            end = begin
            for k in range(p):
                if table_box[best, k] > box[k]:
                    box[k] = table_box[best, k]
                    narrowed[k] = True
                if table_box[best, p + k] < box[p + k]:
                    box[p + k] = table_box[best, p + k]
                    narrowed[k] = True
                if box[k] > box[p + k]:
                    return np.int64(-1), fold, bound, end, np.int64(0)
        else:
            bound += table_value[best]
            arena[target + n] = begin
            n += 1
    arena[target + n] = end
    n_changed = 0
    for k in range(p):
        if narrowed[k]:
            changed[n_changed] = k
            n_changed += 1
    return n, fold, bound, end, np.int64(n_changed)
