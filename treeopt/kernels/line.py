"""The line oracle: the whole function along one coordinate, in one pass over the trees.

With all other coordinates fixed, a tree is a staircase along the line with a few steps. The pass
lists the steps of every tree from left to right, marks the cells where any of them ends, and then
adds the trees, in order, on the pieces between the marks: each piece has exactly the value that a
full evaluation gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.encode import BASE, DIVISOR, FIRST_ROW
from treeopt.kernels.jit import count_ones, kernel, trailing_zeros
from treeopt.kernels.walk import LANES

ZERO = np.uint64(0)
ONE = np.uint64(1)
SIX = np.uint64(6)
LOW_SIX = np.uint64(63)


@kernel
def steps_by_walk(
    on_line: Any,
    last: Any,
    keys: Any,
    words: Any,
    roots: Any,
    bits: Any,
    leaf_value: Any,
    stack: Any,
    stack_end: Any,
    step_start: Any,
    step_end: Any,
    step_value: Any,
) -> None:
    """List each tree's steps along the line: the last cell of each step, and its value.

    Parameters
    ----------
    on_line : bool array
        Per slot, whether it belongs to the feature along which the line runs.
    last : int
        The feature's last ordered cell.
    keys : uint32 array
        Keys of the point, in lane 0.
    words, roots, bits, leaf_value
        Packed nodes.
    stack, stack_end : arrays
        Room for the longest path.
    step_start, step_end, step_value : arrays
        The result: where the steps of each tree begin, and the steps.
    """
    field, child_mask, child_shift, rank_shift = bits[0], bits[1], bits[2], bits[3]
    n = 0
    for t in range(roots.size):
        step_start[t] = n
        top = 0
        begin, end = np.int64(0), np.int64(last)
        word = words[roots[t]]
        while True:
            while word & field != ZERO:
                rank = np.int64(word >> rank_shift)
                child = (word >> child_shift) & child_mask
                if on_line[(word & field) // np.uint64(LANES)]:
                    if begin > rank:
                        child += ONE
                    elif end > rank:
                        stack[top] = child + ONE
                        stack_end[top] = end
                        top += 1
                        end = rank
                else:
                    child += np.uint64(np.int64(keys[word & field]) > rank)
                word = words[child]
            step_end[n] = end
            step_value[n] = leaf_value[word >> rank_shift]
            n += 1
            if top == 0:
                break
            top -= 1
            begin = end + 1
            end = stack_end[top]
            word = words[stack[top]]
    step_start[roots.size] = n


@kernel
def steps_by_masks(
    j: Any,
    cells: Any,
    features: Any,
    table: Any,
    leaf_value: Any,
    leaf_end: Any,
    all_leaves: Any,
    reach: Any,
    step_start: Any,
    step_end: Any,
    step_value: Any,
) -> None:
    """List each tree's steps along feature ``j``, as `steps_by_walk` does, from leaf masks.

    The leaves that all other features leave reachable are the steps, and they are numbered from
    left to right. ``leaf_end[tree, leaf]`` is the last cell of each leaf along the feature, -1 for
    one that no number reaches; ``all_leaves`` are the masks that leave every leaf reachable. The
    loop runs over the leaves of all trees without a branch to guess; ``all_leaves`` and ``reach``
    have one entry more than there are trees.
    """
    n_trees, width = leaf_value.shape
    reach[:] = all_leaves
    for f in range(features.shape[0]):
        if f != j:
            masks = table[features[f, FIRST_ROW] + cells[f]]
            for t in range(n_trees):
                reach[t] &= masks[t]
    values, ends = leaf_value.reshape(-1), leaf_end.reshape(-1)
    one = table.dtype.type(1)
    n: Any = np.int64(0)
    t: Any = np.int64(0)
    before = np.int64(-1)
    rest = reach[0]
    first = ZERO
    step_start[0] = 0
    while t < n_trees:
        leaf = first + np.uint64(trailing_zeros(rest))
        end = np.int64(ends[leaf])
        step_end[n] = end
        step_value[n] = values[leaf]
        n += np.int64(end > before)
        before = max(before, end)
        rest &= rest - one
        done = rest == table.dtype.type(0)
        step_start[t + 1] = n
        t += np.int64(done)
        before = np.int64(-1) if done else before
        first = first + np.uint64(width) if done else first
        rest = reach[t] if done else rest


@kernel
def add_steps(
    n_trees: Any,
    step_start: Any,
    step_end: Any,
    step_value: Any,
    numbers: Any,
    marks: Any,
    marks_before: Any,
    end: Any,
    value: Any,
) -> Any:
    """Write the last cell and the value of each piece of the line; return how many there are.

    ``marks`` has one bit per cell; bits that are set on entry end a piece too.
    """
    for s in range(step_start[n_trees]):
        at = np.uint64(step_end[s])
        marks[at >> SIX] |= ONE << (at & LOW_SIX)
    n = 0
    for k in range(marks.size):
        marks_before[k] = n
        rest = marks[k]
        while rest != ZERO:
            end[n] = k * 64 + np.int64(trailing_zeros(rest))
            rest &= rest - ONE
            n += 1
    base = value.dtype.type(numbers[BASE])
    divisor = value.dtype.type(numbers[DIVISOR])
    for k in range(n):
        value[k] = base
    for t in range(n_trees):
        k = 0
        for s in range(step_start[t], step_start[t + 1]):
            at = np.uint64(step_end[s])
            below = marks[at >> SIX] & ((ONE << (at & LOW_SIX)) - ONE)
            stop = marks_before[at >> SIX] + np.int64(count_ones(below)) + 1
            for i in range(k, stop):
                value[i] += step_value[s]
            k = stop
    for k in range(n):
        value[k] /= divisor
    return n
