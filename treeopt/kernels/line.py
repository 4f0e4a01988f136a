"""The line oracle: the whole function along one coordinate, in one pass over the trees.

With all other coordinates fixed, a tree is a staircase along the line with a few steps. The pass
lists the steps of every tree from left to right, marks the cells where any of them ends, and then
adds the trees, in order, on the pieces between the marks: each piece has exactly the value that a
full evaluation gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.encode import BASE, DIVISOR
from treeopt.kernels.jit import count_ones, kernel, trailing_zeros
from treeopt.kernels.pack import key_of
from treeopt.kernels.walk import LANES, predict_row

ONE = np.uint64(1)
WORD = np.uint64(63)


@kernel
def steps_of_trees(
    on_line: Any,
    last: Any,
    keys: Any,
    words: Any,
    roots: Any,
    bits: Any,
    leaf_value: Any,
    step_start: Any,
    step_end: Any,
    step_value: Any,
    marks: Any,
    stack: Any,
    stack_end: Any,
) -> None:
    """List each tree's steps along the line: the last cell of each step, and its value."""
    field, child_mask, child_shift, rank_shift = bits[0], bits[1], bits[2], bits[3]
    n = 0
    for t in range(roots.size):
        step_start[t] = n
        top = 0
        begin, end = np.int64(0), last
        word = words[roots[t]]
        while True:
            while word & field != np.uint64(0):
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
            marks[np.uint64(end) >> np.uint64(6)] |= ONE << (np.uint64(end) & WORD)
            top -= 1
            begin = end + 1
            end = stack_end[top]
            word = words[stack[top]]
    step_start[roots.size] = n


@kernel
def line(
    j: Any,
    last: Any,
    special: Any,
    on_line: Any,
    slot_start: Any,
    slot_table: Any,
    lut: Any,
    numbers: Any,
    keys: Any,
    words: Any,
    roots: Any,
    bits: Any,
    leaf_value: Any,
    step_start: Any,
    step_end: Any,
    step_value: Any,
    stack: Any,
    stack_end: Any,
    marks: Any,
    before: Any,
    end: Any,
    value: Any,
) -> Any:
    """Write the last cell and the value of each piece of the line; return how many there are.

    Parameters
    ----------
    j : int
        The feature along which to go.
    last : int
        Its last ordered cell.
    special : pair of int
        First and last cell of those that a slot orders differently (first > last: none). They are
        evaluated one by one.
    on_line : bool array
        Per slot, whether it belongs to the feature.
    keys : uint32 array
        Keys of the point, in lane 0; those of the feature are overwritten where there are special
        cells.
    """
    marks[:] = 0
    if special[0] <= special[1]:
        for cell in range(special[0] - 1, special[1] + 1):
            marks[np.uint64(cell) >> np.uint64(6)] |= ONE << (np.uint64(cell) & WORD)
    steps_of_trees(
        on_line,
        last,
        keys,
        words,
        roots,
        bits,
        leaf_value,
        step_start,
        step_end,
        step_value,
        marks,
        stack,
        stack_end,
    )
    n = 0
    for k in range(marks.size):
        before[k] = n
        rest = marks[k]
        while rest != np.uint64(0):
            end[n] = k * 64 + np.int64(trailing_zeros(rest))
            rest &= rest - ONE
            n += 1
    end[n] = last
    n += 1
    base = leaf_value.dtype.type(numbers[BASE])
    divisor = leaf_value.dtype.type(numbers[DIVISOR])
    for k in range(n):
        value[k] = base
    for t in range(roots.size):
        k = 0
        for s in range(step_start[t], step_start[t + 1] - 1):
            at = np.uint64(step_end[s])
            below = marks[at >> np.uint64(6)] & ((ONE << (at & WORD)) - ONE)
            stop = before[at >> np.uint64(6)] + np.int64(count_ones(below)) + 1
            for i in range(k, stop):
                value[i] += step_value[s]
            k = stop
        rest_value = step_value[step_start[t + 1] - 1]
        for i in range(k, n):
            value[i] += rest_value
    for k in range(n):
        value[k] /= divisor
        if special[0] <= end[k] <= special[1]:
            for s in range(slot_start[j], slot_start[j + 1]):
                keys[s * LANES] = key_of(end[k], s, slot_table, lut)
            value[k] = predict_row(words, roots, keys, bits, leaf_value, base) / divisor
    return n
