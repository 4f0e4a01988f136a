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
from treeopt.kernels.walk import LANES, layout_of, step

ZERO = np.uint64(0)
ONE = np.uint64(1)
SIX = np.uint64(6)
LOW_SIX = np.uint64(63)


@kernel
def steps_by_walk(
    first_slot: Any,
    end_slot: Any,
    n_cells: Any,
    keys: Any,
    words: Any,
    roots: Any,
    bits: Any,
    leaf_value: Any,
    stack: Any,
    stack_stop: Any,
    step_start: Any,
    step_stop: Any,
    step_value: Any,
) -> None:
    """List each tree's steps along the line: the cell after each step, and its value.

    Parameters
    ----------
    first_slot, end_slot : int
        The slots of the feature along which the line runs.
    n_cells : int
        The number of its ordered cells.
    keys : uint32 array
        Keys of the point, in lane 0.
    words, roots, bits, leaf_value
        Packed nodes.
    stack, stack_stop : arrays
        Room for the longest path.
    step_start, step_stop, step_value : arrays
        The result: where the steps of each tree begin, and the steps.
    """
    layout = layout_of(bits)
    field, child_mask, child_shift, rank_shift = layout[0], layout[1], layout[2], layout[3]
    first = np.uint64(first_slot * LANES)
    span = np.uint64((end_slot - first_slot) * LANES)
    n = 0
    for t in range(roots.size):
        step_start[t] = n
        top = 0
        begin, stop = np.int64(0), np.int64(n_cells)
        word = words[roots[t]]
        while True:
            # To the next split on the line, or to a leaf.
            at = word & field
            while (at != ZERO) & (at - first >= span):
                word = words[step(word, keys, ZERO, layout)]
                at = word & field
            if at != ZERO:
                rank = np.int64(word >> rank_shift)
                child = (word >> child_shift) & child_mask
                if begin > rank:
                    child += ONE
                elif stop > rank + 1:
                    stack[top] = child + ONE
                    stack_stop[top] = stop
                    top += 1
                    stop = rank + 1
                word = words[child]
                continue
            step_stop[n] = stop
            step_value[n] = leaf_value[word >> rank_shift]
            n += 1
            if top == 0:
                break
            top -= 1
            begin = stop
            stop = stack_stop[top]
            word = words[stack[top]]
    step_start[roots.size] = n


@kernel
def steps_by_masks(
    j: Any,
    cells: Any,
    features: Any,
    table: Any,
    leaf_value: Any,
    leaf_stop: Any,
    all_leaves: Any,
    rows: Any,
    reach: Any,
    step_start: Any,
    step_stop: Any,
    step_value: Any,
) -> None:
    """List each tree's steps along feature ``j``, as `steps_by_walk` does, from leaf masks.

    The leaves that all other features leave reachable are the steps, and they are numbered from
    left to right. ``leaf_stop[tree, leaf]`` is the cell after each leaf along the feature, 0 for
    one that no number reaches; ``all_leaves`` are the masks that leave every leaf reachable. The
    loop runs over the leaves of all trees without a branch to guess; the rows of ``table`` are
    longer than there are trees, so that it may read one mask too many.
    """
    n_trees, width = leaf_value.shape
    reach[:] = all_leaves
    n_rows = rows_of(cells, features, j, rows)
    if n_rows > 0:
        intersect(rows, n_rows, table, reach)
    values, stops = leaf_value.reshape(-1), leaf_stop.reshape(-1)
    one = table.dtype.type(1)
    n: Any = np.int64(0)
    t: Any = np.int64(0)
    before = np.int64(0)
    rest = reach[0]
    first = ZERO
    step_start[0] = 0
    while t < n_trees:
        leaf = first + np.uint64(trailing_zeros(rest))
        stop = np.int64(stops[leaf])
        step_stop[n] = stop
        step_value[n] = values[leaf]
        n += np.int64(stop > before)
        before = max(before, stop)
        rest &= rest - one
        done = rest == table.dtype.type(0)
        step_start[t + 1] = n
        t += np.int64(done)
        before = np.int64(0) if done else before
        first = first + np.uint64(width) if done else first
        rest = reach[t] if done else rest


@kernel
def mark_pieces(
    n_cells: Any,
    n_trees: Any,
    step_start: Any,
    step_stop: Any,
    marks: Any,
    marks_before: Any,
    stop: Any,
) -> Any:
    """Part the line wherever a step ends; return the number of pieces.

    From then on ``step_stop`` counts pieces instead of cells.

    Parameters
    ----------
    n_cells : int
        Number of cells of the line.
    n_trees, step_start, step_stop
        The steps of each tree.
    marks, marks_before : arrays
        One bit per cell, and room for one count per word. Where bit ``k`` is set on entry, a piece
        ends with cell ``k`` too; on return all are zero.
    stop : int64 array
        The result: the cell after each piece.
    """
    n_steps = step_start[n_trees]
    for s in range(n_steps):
        at = np.uint64(step_stop[s] - 1)
        marks[at >> SIX] |= ONE << (at & LOW_SIX)
    at = np.uint64(n_cells - 1)
    marks[at >> SIX] |= ONE << (at & LOW_SIX)
    n = 0
    for k in range(marks.size):
        marks_before[k] = n
        rest = marks[k]
        while rest != ZERO:
            stop[n] = k * 64 + np.int64(trailing_zeros(rest)) + 1
            rest &= rest - ONE
            n += 1
    for s in range(n_steps):
        at = np.uint64(step_stop[s] - 1)
        below = marks[at >> SIX] & ((ONE << (at & LOW_SIX)) - ONE)
        step_stop[s] = marks_before[at >> SIX] + np.int64(count_ones(below)) + 1
    marks[:] = ZERO
    return n


@kernel
def add_in_order(
    n: Any,
    n_trees: Any,
    step_start: Any,
    step_stop: Any,
    step_value: Any,
    numbers: Any,
    value: Any,
) -> None:
    """Write the value of each of ``n`` pieces (or cells), exact to the last bit."""
    value[:n] = numbers[BASE]
    for t in range(n_trees):
        k = ZERO
        for s in range(step_start[t], step_start[t + 1]):
            stop, add = np.uint64(step_stop[s]), step_value[s]
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
    step_stop: Any,
    step_value: Any,
    numbers: Any,
    value: Any,
) -> None:
    """Write the value of each of ``n`` pieces (or cells) up to rounding, from one running sum.

    Several times quicker than `add_in_order`, for a search that then evaluates the best one.
    ``value`` has room for one more.
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
            at = np.uint64(step_stop[s])
    total = 0.0
    for i in range(n):
        total += value[i]
        value[i] = total / numbers[DIVISOR]
