"""From flat trees to the two forms that are evaluated: packed nodes and leaf masks.

All functions expect nodes of a tree to be contiguous and children to come after their parent.
Leaves of a tree are numbered from left to right, so the leaves below a node are a range.
"""

from __future__ import annotations

import numpy as np

from treeopt.kernels.arrays import Slots, Splits, Whole
from treeopt.kernels.jit import inlined, kernel
from treeopt.types import Array, Int32Array, IntArray, UInt64Array


@inlined
def key_of(cell: Whole, slot: int, slot_table: IntArray, lut: Int32Array) -> Whole:
    """Return the key that a slot gives to a cell of its feature."""
    return cell if slot_table[slot] < 0 else np.int64(lut[slot_table[slot] + cell])


@inlined
def goes_right(key: Whole, rank: int, bit: int) -> bool | np.bool_:
    """Tell whether a split sends a key to the right: by its rank, or by its bit if it has one."""
    return (key >> bit) & 1 > 0 if bit > 0 else key > rank


@kernel
def leaf_ranges(
    left: Int32Array, right: Int32Array, tree_start: IntArray
) -> tuple[Int32Array, Int32Array]:
    """Return, per node, the first leaf below it and the number of leaves below it.

    Leaves are numbered consecutively over all trees, in each tree from left to right.
    """
    n = left.size
    first = np.zeros(n, np.int32)
    count = np.ones(n, np.int32)
    for i in range(n - 1, -1, -1):
        if left[i] >= 0:
            count[i] = count[left[i]] + count[right[i]]
    total = 0
    for t in range(tree_start.size - 1):
        root = tree_start[t]
        first[root] = total
        total += count[root]
        for i in range(root, tree_start[t + 1]):
            if left[i] >= 0:
                first[left[i]] = first[i]
                first[right[i]] = first[i] + count[left[i]]
    return first, count


@kernel
def longest_path(left: Int32Array, right: Int32Array) -> int:
    """Return the number of splits on the longest path from a root to a leaf."""
    depth = np.zeros(left.size, np.int32)
    longest = 0
    for i in range(left.size):
        if left[i] >= 0:
            depth[left[i]] = depth[right[i]] = depth[i] + 1
        else:
            longest = max(longest, depth[i])
    return longest


@kernel
def pack_nodes(
    splits: Splits, field_bits: int, bit_bits: int, child_bits: int, lanes: int
) -> tuple[UInt64Array, UInt64Array]:
    """Pack each node into one 64-bit word and return the words and the position of each root.

    A word holds, from high to low, ``rank | child | bit | slot * lanes``. Models without categories
    have no bit (``bit_bits`` is 0). The right child follows the left one. The children of the child
    with more leaves follow next, so that the usual paths need few cache lines. A leaf points to
    itself, reads slot 0 (whose key is always 0, so that the walk stays) and holds its number in
    place of the rank.
    """
    left, right, tree_start, count = splits.left, splits.right, splits.tree_start, splits.n_leaves
    n = left.size
    words = np.empty(n, np.uint64)
    roots = np.empty(tree_start.size - 1, np.uint64)
    bit_shift = np.uint64(field_bits)
    shift = np.uint64(field_bits + bit_bits)
    high = np.uint64(field_bits + bit_bits + child_bits)
    stack = np.empty(n + 1, np.int64)
    address = np.empty(n, np.int64)
    unused = 0
    for t in range(tree_start.size - 1):
        top = 1
        stack[0] = tree_start[t]
        address[stack[0]] = unused
        roots[t] = np.uint64(unused)
        unused += 1
        while top > 0:
            top -= 1
            i = stack[top]
            at = address[i]
            if left[i] < 0:
                words[at] = (np.uint64(splits.first_leaf[i]) << high) | (np.uint64(at) << shift)
                continue
            a, b = left[i], right[i]
            words[at] = (
                (np.uint64(splits.rank[i]) << high)
                | (np.uint64(unused) << shift)
                | (np.uint64(splits.bit[i]) << bit_shift)
                | np.uint64(splits.slot[i] * lanes)
            )
            address[a] = unused
            address[b] = unused + 1
            unused += 2
            heavy_left = count[a] >= count[b]
            stack[top] = b if heavy_left else a
            stack[top + 1] = a if heavy_left else b
            top += 2
    return words, roots


@kernel
def leaf_masks(splits: Splits, slots: Slots, row_start: IntArray, table: Array) -> None:
    """Fill ``table[cell, tree]`` with the leaves of the tree that an input in this cell can reach.

    The cells of all features are numbered consecutively, those of a feature from ``row_start`` on.
    The leaf that an input reaches is the one bit left in the intersection over all features.
    """
    left, right, first, count = splits.left, splits.right, splits.first_leaf, splits.n_leaves
    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    column = np.empty(row_start[-1], np.uint64)
    for t in range(splits.tree_start.size - 1):
        root = splits.tree_start[t]
        column[:] = full >> np.uint64(64 - count[root])
        for i in range(root, splits.tree_start[t + 1]):
            if left[i] < 0:
                continue
            a, b = left[i], right[i]
            ones_a = full >> np.uint64(64 - count[a])
            ones_b = full >> np.uint64(64 - count[b])
            keep_right = ~(ones_a << np.uint64(first[a] - first[root]))
            keep_left = ~(ones_b << np.uint64(first[b] - first[root]))
            s = splits.slot[i]
            j = splits.feature[i]
            for cell in range(row_start[j + 1] - row_start[j]):
                key = key_of(cell, s, slots.table, slots.lut)
                right_side = goes_right(key, splits.rank[i], splits.bit[i])
                column[row_start[j] + cell] &= keep_right if right_side else keep_left
        for c in range(column.size):
            table[c, t] = column[c]
