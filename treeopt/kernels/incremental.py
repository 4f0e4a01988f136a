"""Evaluation that follows a point: after a move of one coordinate, only some trees are walked.

For every tree the walk remembers, per slot, between which keys it would take the same path. A move
changes the keys of one feature's slots; a tree is walked again only if its range is left. Most
small moves leave no range: they stay inside the safe range of the slot, which no tree's range is
smaller than. Where a split is by a set of categories, that range is the key itself. The sum is
redone from the first tree that changed, in order, so it stays bit-equal to a full evaluation.

The functions pass three groups of arrays:

``slots``
    ``slot_start, slot_table, lut``, as in `cells.Cells`;
``nodes``
    ``words, roots, bits, leaf_value``, the packed nodes; inside, with the layout in place of bits;
``state``
    ``low, high`` (keys between which each tree stays, ``[slot, tree]``), ``safe`` (the same for all
    trees at once, ``[2, slot]``), ``path, depth`` (the slots on each tree's path and their number),
    ``value`` (each tree's leaf value) and ``sums`` (the base, then the sum after each tree).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.encode import BASE, DIVISOR, cast, locate, refused
from treeopt.kernels.jit import inlined, kernel
from treeopt.kernels.pack import key_of
from treeopt.kernels.walk import LANES, bit_of, layout_of

TOP = np.int32(np.iinfo(np.int32).max)


@inlined
def enter(t: Any, keys: Any, nodes: Any, state: Any) -> None:
    """Walk tree ``t`` and note its value and the key ranges in which it stays the same."""
    words, roots, layout, leaf_value = nodes
    low, high, safe, path, depth, value, _ = state
    field, child_mask, child_shift, rank_shift = layout[0], layout[1], layout[2], layout[3]
    for k in range(depth[t]):
        low[path[t, k], t] = 0
        high[path[t, k], t] = TOP
    k = 0
    word = words[roots[t]]
    while word & field != np.uint64(0):
        slot = (word & field) // np.uint64(LANES)
        rank = np.int32(word >> rank_shift)
        key = np.int32(keys[word & field])
        bit = bit_of(word, layout)
        child = (word >> child_shift) & child_mask
        if bit > np.uint64(0):
            low[slot, t] = high[slot, t] = key
            safe[0, slot] = max(safe[0, slot], key)
            safe[1, slot] = min(safe[1, slot], key)
            child += (np.uint64(key) >> bit) & np.uint64(1)
        elif key > rank:
            low[slot, t] = max(low[slot, t], rank + np.int32(1))
            safe[0, slot] = max(safe[0, slot], rank + np.int32(1))
            child += np.uint64(1)
        else:
            high[slot, t] = min(high[slot, t], rank)
            safe[1, slot] = min(safe[1, slot], rank)
        path[t, k] = slot
        k += 1
        word = words[child]
    depth[t] = k
    value[t] = leaf_value[word >> rank_shift]


@inlined
def add_up(first: Any, value: Any, sums: Any) -> None:
    """Redo the running sums from tree ``first`` on."""
    total = sums[first]
    for t in range(first, value.size):
        total += value[t]
        sums[t + 1] = total


@kernel
def start(keys: Any, nodes: Any, numbers: Any, state: Any) -> None:
    """Walk every tree for the first time."""
    low, high, safe, _, depth, value, sums = state
    words, roots, bits, leaf_value = nodes
    laid_out = words, roots, layout_of(bits), leaf_value
    low[:] = 0
    high[:] = TOP
    safe[0] = 0
    safe[1] = TOP
    depth[:] = 0
    for t in range(value.size):
        enter(t, keys, laid_out, state)
    sums[0] = numbers[BASE]
    add_up(0, value, sums)


@inlined
def move(cell: Any, j: Any, keys: Any, slots: Any, nodes: Any, state: Any) -> None:
    """Move feature ``j`` to another cell and bring the running sums up to date."""
    slot_start, slot_table, lut = slots
    low, high, safe, _, _, value, sums = state
    n_trees = value.size
    for s in range(slot_start[j], slot_start[j + 1]):
        keys[s * LANES] = key_of(cell, s, slot_table, lut)
    changed = n_trees
    for s in range(slot_start[j], slot_start[j + 1]):
        key = np.int32(keys[s * LANES])
        if safe[0, s] <= key <= safe[1, s]:
            continue
        for t in range(n_trees):
            if key < low[s, t] or key > high[s, t]:
                enter(t, keys, nodes, state)
                changed = min(changed, t)
        largest_low, least_high = np.int32(0), TOP
        for t in range(n_trees):
            largest_low = max(largest_low, low[s, t])
            least_high = min(least_high, high[s, t])
        safe[0, s], safe[1, s] = largest_low, least_high
    if changed < n_trees:
        add_up(changed, value, sums)


@kernel
def run(
    encoder: Any, keys: Any, slots: Any, nodes: Any, state: Any, which: Any, to: Any, out: Any
) -> Any:
    """Make many moves, one coordinate each; return the first that is refused, or -1.

    ``which`` counts features by their position among those that the model reads; -1 is a feature
    that no split reads.
    """
    features, grid, cuts, buckets, numbers = encoder
    sums = state[-1]
    words, roots, bits, leaf_value = nodes
    laid_out = words, roots, layout_of(bits), leaf_value
    divisor = sums.dtype.type(numbers[DIVISOR])
    for k in range(which.size):
        y = cast(to[k], numbers)
        if refused(y, numbers):
            return k
        j = which[k]
        if j >= 0:
            cell = locate(y, j, features, grid, cuts, buckets)
            move(cell, j, keys, slots, laid_out, state)
        out[k] = sums[-1] / divisor
    return -1
