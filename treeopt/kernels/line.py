"""The line oracle: the whole function along one coordinate, in one pass over the trees.

With all other coordinates fixed, a tree is a staircase along the line with a few steps. The pass
lists the steps of every tree from left to right, parts the line wherever one of them ends, and
adds the trees on the pieces between: in order, so that each piece has exactly the value that a full
evaluation gives, or quicker and up to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.encode import BASE, DIVISOR
from treeopt.kernels.jit import count_ones, kernel, trailing_zeros
from treeopt.kernels.masks import intersect, rows_of
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
    rows: Any,
    reach: Any,
    step_start: Any,
    step_end: Any,
    step_value: Any,
) -> None:
    """List each tree's steps along feature ``j``, as `steps_by_walk` does, from leaf masks.

    The leaves that all other features leave reachable are the steps, and they are numbered from
    left to right. ``leaf_end[tree, leaf]`` is the last cell of each leaf along the feature, -1 for
    one that no number reaches; ``all_leaves`` are the masks that leave every leaf reachable. The
    loop runs over the leaves of all trees without a branch to guess; the rows of ``table`` are
    longer than there are trees, so that it may read one mask too many.
    """
    n_trees, width = leaf_value.shape
    reach[:] = all_leaves
    n_rows = rows_of(cells, features, j, rows)
    if n_rows > 0:
        intersect(rows, n_rows, table, reach)
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
def mark_pieces(
    last: Any,
    n_trees: Any,
    step_start: Any,
    step_end: Any,
    marks: Any,
    marks_before: Any,
    end: Any,
) -> Any:
    """Part the line wherever a step ends; return the number of pieces and write their last cells.

    In ``step_end``, the last cell of each step becomes the number of pieces up to its end.

    Parameters
    ----------
    last : int
        Last cell of the line.
    n_trees, step_start, step_end
        The steps of each tree.
    marks, marks_before : arrays
        One bit per cell, and room for one count per word. Bits that are set on entry end a piece
        too; on return all are zero.
    end : int64 array
        The last cell of each piece.
    """
    n_steps = step_start[n_trees]
    for s in range(n_steps):
        at = np.uint64(step_end[s])
        marks[at >> SIX] |= ONE << (at & LOW_SIX)
    marks[np.uint64(last) >> SIX] |= ONE << (np.uint64(last) & LOW_SIX)
    n = 0
    for k in range(marks.size):
        marks_before[k] = n
        rest = marks[k]
        while rest != ZERO:
            end[n] = k * 64 + np.int64(trailing_zeros(rest))
            rest &= rest - ONE
            n += 1
    for s in range(n_steps):
        at = np.uint64(step_end[s])
        below = marks[at >> SIX] & ((ONE << (at & LOW_SIX)) - ONE)
        step_end[s] = marks_before[at >> SIX] + np.int64(count_ones(below)) + 1
    marks[:] = ZERO
    return n


@kernel
def add_in_order(
    n: Any,
    n_trees: Any,
    step_start: Any,
    step_end: Any,
    step_value: Any,
    numbers: Any,
    value: Any,
) -> None:
    """Write the value of each of ``n`` pieces, adding the trees in order: exact to the last bit."""
    value[:n] = numbers[BASE]
    for t in range(n_trees):
        k = ZERO
        for s in range(step_start[t], step_start[t + 1]):
            stop, add = np.uint64(step_end[s]), step_value[s]
            for i in range(k, stop):
                value[i] += add
            k = stop
    divisor = value.dtype.type(numbers[DIVISOR])
    for i in range(n):
        value[i] /= divisor


@kernel
def add_differences(
    n: Any,
    n_trees: Any,
    step_start: Any,
    step_end: Any,
    step_value: Any,
    numbers: Any,
    value: Any,
) -> None:
    """Write the value of each of ``n`` pieces up to rounding, from one running sum.

    Several times quicker than `add_in_order`, for a search that then evaluates the best piece.
    """
    value[: n + 1] = 0.0
    value[0] = numbers[BASE]
    for t in range(n_trees):
        at = ZERO
        before = 0.0
        for s in range(step_start[t], step_start[t + 1]):
            add = np.float64(step_value[s])
            value[at] += add - before
            before = add
            at = np.uint64(step_end[s])
    total = 0.0
    for i in range(n):
        total += value[i]
        value[i] = total / numbers[DIVISOR]
