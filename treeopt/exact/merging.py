"""Merging trees inside a node: two trees become one, whose boxes are the meets of theirs.

The bound of a node adds up the best boxes of all trees, whether they meet or not. Of a merged tree
the best box is the best meet of two, so the bound gains what the two could not have together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import kernel


@kernel
def gain_of(table_value: Any, table_box: Any, arena: Any, a: Any, b: Any, p: Any, most: Any) -> Any:
    """Return how much worse the best meet of two trees is than their best boxes; at most ``most``.

    ``a`` and ``b`` are where their positions stand in the arena.
    """
    gain = most
    first_a, first_b = arena[a], arena[b]
    best_a, best_b = table_value[arena[first_a]], table_value[arena[first_b]]
    for s in range(first_a, arena[a + 1]):
        row = arena[s]
        lost = table_value[row] - best_a
        if lost >= gain:
            break
        for r in range(first_b, arena[b + 1]):
            other = arena[r]
            both = lost + (table_value[other] - best_b)
            if both >= gain:
                break
            if meet(table_box, row, other, p):
                gain = both
                break
    return gain


@kernel
def meet(table_box: Any, row: Any, other: Any, p: Any) -> Any:
    """Tell whether two boxes meet."""
    for k in range(p):
        if (
            table_box[row, k] > table_box[other, p + k]
            or table_box[other, k] > table_box[row, p + k]
        ):
            return False
    return True


@kernel
def merge(
    table_value: Any,
    table_box: Any,
    used: Any,
    arena: Any,
    at: Any,
    n_trees: Any,
    target: Any,
    slack: Any,
    largest: Any,
    partner: Any,
    gain: Any,
) -> Any:
    """Merge pairs of trees, those with the largest gain first.

    New boxes go to the table from row ``used`` on, the new lists to ``target`` in the arena. A pair
    with more than ``largest`` meets stays as it is.

    Returns the number of trees (-1: two of them cannot meet), the number of rows used, and the end
    of the lists.
    """
    p = table_box.shape[1] // 2
    for a in range(n_trees):
        partner[a] = -1
        gain[a, a] = 0.0
        for b in range(a + 1, n_trees):
            gain[a, b] = gain_of(table_value, table_box, arena, at + a, at + b, p, slack)
            gain[b, a] = gain[a, b]
            if gain[a, b] >= slack:
                return np.int64(-1), used, target
    # Pairs that are the best for both; again with the rest, until no gain is left.
    favourite = np.empty(n_trees, np.int64)
    while True:
        for a in range(n_trees):
            favourite[a] = -1
            if partner[a] < 0:
                most = 0.0
                for b in range(n_trees):
                    if partner[b] < 0 and gain[a, b] > most:
                        most = gain[a, b]
                        favourite[a] = b
        n_pairs = 0
        for a in range(n_trees):
            b = favourite[a]
            if b > a and favourite[b] == a:
                partner[a], partner[b] = b, a
                n_pairs += 1
        if n_pairs == 0:
            break
    n = np.int64(0)
    end = target + n_trees + 1
    for a in range(n_trees):
        b = partner[a]
        if 0 <= b < a:
            continue
        begin = end
        if b > a:
            limit = table_value[arena[arena[at + a]]] + table_value[arena[arena[at + b]]] + slack
            row = meets_of(table_value, table_box, used, arena, at + a, at + b, limit, largest)
            if row < 0:
                # Too many: both stay as they are.
                arena[target + n] = begin
                n += 1
                for s in range(arena[at + a], arena[at + a + 1]):
                    arena[end] = arena[s]
                    end += 1
                a, begin = b, end
                b = -1
            else:
                for i in range(used, row):
                    arena[end] = i
                    end += 1
                sort(arena, begin, end, table_value)
                used = row
        if b < 0:
            for s in range(arena[at + a], arena[at + a + 1]):
                arena[end] = arena[s]
                end += 1
        arena[target + n] = begin
        n += 1
    arena[target + n] = end
    return n, used, end


@kernel
def meets_of(
    table_value: Any,
    table_box: Any,
    row: Any,
    arena: Any,
    a: Any,
    b: Any,
    limit: Any,
    largest: Any,
) -> Any:
    """Write the meets of two trees that are below a limit into the table; return its new end.

    If there are more than ``largest`` or than there is room for, return -1.
    """
    p = table_box.shape[1] // 2
    stop = min(row + largest, table_value.size)
    for s in range(arena[a], arena[a + 1]):
        i = arena[s]
        if table_value[i] + table_value[arena[arena[b]]] >= limit:
            break
        for r in range(arena[b], arena[b + 1]):
            j = arena[r]
            value = table_value[i] + table_value[j]
            if value >= limit:
                break
            if meet(table_box, i, j, p):
                if row == stop:
                    return np.int64(-1)
                table_value[row] = value
                for k in range(p):
                    table_box[row, k] = max(table_box[i, k], table_box[j, k])
                    table_box[row, p + k] = min(table_box[i, p + k], table_box[j, p + k])
                row += 1
    return row


@kernel
def sort(arena: Any, begin: Any, end: Any, table_value: Any) -> None:
    """Sort a list of rows by value (Shell sort: few are out of place, and it is short)."""
    n = end - begin
    step = 1
    while step < n // 3:
        step = 3 * step + 1
    while step > 0:
        for i in range(begin + step, end):
            row = arena[i]
            value = table_value[row]
            j = i
            while j >= begin + step and table_value[arena[j - step]] > value:
                arena[j] = arena[j - step]
                j -= step
            arena[j] = row
        step //= 3
