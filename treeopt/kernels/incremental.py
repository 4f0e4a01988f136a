"""Evaluation that follows a point: after a move of one coordinate, only some trees are walked.

For every tree the walk remembers, per slot, between which keys it would take the same path. A move
changes the keys of one feature's slots; a tree is walked again only if its range is left. Most
small moves leave no range: they stay inside the safe range of the slot, which no tree's range is
smaller than. Where a split is by a set of categories, that range is the key itself. The sum is
redone from the first tree that changed, in order, so it stays bit-equal to a full evaluation.

`start` and `run` are called for every walk and every move: they take plain tuples, see `arrays`.
"""

from __future__ import annotations

import numpy as np

from treeopt.kernels.arrays import Encoder, Nodes, Plain, Slots, State, Whole
from treeopt.kernels.encode import cast, feature_of, locate, numbers_of, refused
from treeopt.kernels.jit import inlined, kernel
from treeopt.kernels.pack import key_of
from treeopt.kernels.walk import LANES, bit_of, child_of, encode_lane, layout_of
from treeopt.types import Array, FloatArray, IntArray, UInt32Array

TOP = np.int32(np.iinfo(np.int32).max)


@inlined
def enter(t: int, keys: UInt32Array, nodes: Nodes, state: State) -> None:
    """Walk tree ``t`` and note its value and the key ranges in which it stays the same."""
    words, roots, layout, leaf_value = nodes
    low, high, safe, path, depth, value, _ = state
    for k in range(depth[t]):
        low[path[t, k], t] = 0
        high[path[t, k], t] = TOP
    k = 0
    word = words[roots[t]]
    while word & layout.field != np.uint64(0):
        slot = (word & layout.field) // np.uint64(LANES)
        rank = np.int32(word >> layout.rank_shift)
        key = np.int32(keys[word & layout.field])
        bit = bit_of(word, layout)
        child = child_of(word, layout)
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
    value[t] = leaf_value[word >> layout.rank_shift]


@inlined
def add_up(first: int, value: Array, sums: Array) -> None:
    """Redo the running sums from tree ``first`` on."""
    total = sums[first]
    for t in range(first, value.size):
        total += value[t]
        sums[t + 1] = total


@kernel
def start(
    x: Array,
    encoder: Plain,
    numbers: FloatArray,
    slots: Plain,
    packed: Plain,
    keys: UInt32Array,
    state: Plain,
) -> bool:
    """Walk every tree for the first time; return False if the library refuses the point."""
    words, roots, bits, leaf_value = packed
    nodes = Nodes(words, roots, layout_of(bits), leaf_value)
    named, s = numbers_of(numbers), State(*state)
    if not encode_lane(x, Encoder(*encoder), named, Slots(*slots), keys, 0):
        return False
    s.low[:] = 0
    s.high[:] = TOP
    s.safe[0] = 0
    s.safe[1] = TOP
    s.depth[:] = 0
    for t in range(s.value.size):
        enter(t, keys, nodes, s)
    s.sums[0] = named.base
    add_up(0, s.value, s.sums)
    return True


@inlined
def move(cell: Whole, j: int, slots: Slots, nodes: Nodes, keys: UInt32Array, state: State) -> None:
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
    encoder: Plain,
    numbers: FloatArray,
    slots: Plain,
    packed: Plain,
    keys: UInt32Array,
    state: Plain,
    which: IntArray,
    to: FloatArray,
    out: Array,
) -> int:
    """Make many moves, one coordinate each; return the first that is refused, or -1.

    ``which`` counts features by their position among those that the model reads; -1 is a feature
    that no split reads.
    """
    features, grid, cuts, buckets = encoder
    words, roots, bits, leaf_value = packed
    nodes = Nodes(words, roots, layout_of(bits), leaf_value)
    named, sl, s = numbers_of(numbers), Slots(*slots), State(*state)
    sums = s.sums
    divisor = sums.dtype.type(named.divisor)
    for k in range(which.size):
        y = cast(to[k], named)
        if refused(y, named):
            return k
        j = which[k]
        if j >= 0:
            cell = locate(y, feature_of(j, features, grid), cuts, buckets)
            move(cell, j, sl, nodes, keys, s)
        out[k] = sums[-1] / divisor
    return -1
