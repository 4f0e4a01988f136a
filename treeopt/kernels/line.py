"""The line oracle: the whole function along one coordinate, in one pass over the trees.

With all other coordinates fixed, a tree is a step function along the line with a few steps. The
pass lists the steps of every tree from left to right, splits the line wherever one of them ends,
and adds the trees on the pieces between: in order, so that the values are those of a full
evaluation, or faster and up to rounding.

`line_by_masks` and `line_by_walk` do all of it in one call from Python; their arguments are flat or
plain tuples, see `arrays`.
"""

from __future__ import annotations

import numpy as np

from treeopt.kernels.arrays import Encoder, Packed, Plain, Slots, Steps
from treeopt.kernels.encode import encode_row, numbers_of
from treeopt.kernels.jit import count_ones, inlined, kernel, trailing_zeros
from treeopt.kernels.masks import intersect, rows_of
from treeopt.kernels.walk import LANES, child_of, encode_lane, layout_of, step
from treeopt.types import Array, FloatArray, Int32Array, IntArray, UInt32Array, UInt64Array

ZERO = np.uint64(0)
ONE = np.uint64(1)
SIX = np.uint64(6)
LOW_SIX = np.uint64(63)


@kernel
def line_by_masks(
    x: Array,
    j: int,
    encoder: Plain,
    numbers: FloatArray,
    table: Array,
    leaf_value: Array,
    leaf_stop: Int32Array,
    all_leaves: Array,
    marks: UInt64Array,
    stop: IntArray,
    value: Array,
) -> int:
    """Write the line through ``x`` along feature ``j`` from leaf masks; return its pieces.

    Parameters
    ----------
    x : array
        The point.
    j : int
        The feature, by its position among those that the model reads.
    encoder, numbers, table, leaf_value
        As in `masks.predict_masks`.
    leaf_stop, all_leaves
        As in `steps_by_masks`.
    marks, stop : arrays
        As in `mark_pieces`. There is room for as many pieces as the feature has ordered cells.
    value : array
        The result: the value of each piece.

    Returns
    -------
    int
        The number of pieces; -1 if the library refuses the point.
    """
    features, grid, cuts, buckets = encoder
    named = numbers_of(numbers)
    cells = np.empty(features.shape[0], np.int64)
    if not encode_row(x, features, grid, cuts, buckets, named, cells):
        return -1
    n_trees = leaf_value.shape[0]
    steps = new_steps(n_trees, leaf_value)
    leaf_mask = np.empty_like(all_leaves)
    rows = np.empty(cells.size + 1, np.int64)
    steps_by_masks(
        j, cells, features, table, leaf_value, leaf_stop, all_leaves, rows, leaf_mask, steps
    )
    n = mark_pieces(stop.size, n_trees, steps, marks, np.empty(marks.size, np.int64), stop)
    add_in_order(n, n_trees, steps, named.base, named.divisor, value)
    return n


@kernel
def line_by_walk(
    x: Array,
    j: int,
    encoder: Plain,
    numbers: FloatArray,
    slots: Plain,
    packed: Plain,
    depth: int,
    marks: UInt64Array,
    stop: IntArray,
    value: Array,
) -> int:
    """Do as `line_by_masks` does by walking packed nodes; no path is longer than ``depth``."""
    sl, nodes, named = Slots(*slots), Packed(*packed), numbers_of(numbers)
    keys = np.empty(sl.start[-1] * LANES, np.uint32)
    if not encode_lane(x, Encoder(*encoder), named, sl, keys, 0):
        return -1
    n_trees = nodes.roots.size
    steps = new_steps(n_trees, nodes.leaf_value)
    stack, stack_stop = np.empty(depth + 1, np.uint64), np.empty(depth + 1, np.int64)
    steps_by_walk(sl.start[j], sl.start[j + 1], stop.size, keys, nodes, stack, stack_stop, steps)
    n = mark_pieces(stop.size, n_trees, steps, marks, np.empty(marks.size, np.int64), stop)
    add_in_order(n, n_trees, steps, named.base, named.divisor, value)
    return n


@inlined
def new_steps(n_trees: int, leaf_value: Array) -> Steps:
    """Return room for as many steps as there are leaves, and one more."""
    return Steps(
        np.empty(n_trees + 1, np.int64),
        np.empty(leaf_value.size + 1, np.int32),
        np.empty(leaf_value.size + 1, leaf_value.dtype),
    )


@kernel
def steps_by_walk(
    first_slot: int,
    end_slot: int,
    n_cells: int,
    keys: UInt32Array,
    packed: Packed,
    stack: UInt64Array,
    stack_stop: IntArray,
    steps: Steps,
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
    packed : Packed
        The trees.
    stack, stack_stop : arrays
        Room for the longest path.
    steps : Steps
        The result.
    """
    words, roots, leaf_value = packed.words, packed.roots, packed.leaf_value
    layout = layout_of(packed.bits)
    field, rank_shift = layout.field, layout.rank_shift
    first = np.uint64(first_slot * LANES)
    span = np.uint64((end_slot - first_slot) * LANES)
    n = 0
    for t in range(roots.size):
        steps.start[t] = n
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
                child = child_of(word, layout)
                if begin > rank:
                    child += ONE
                elif stop > rank + 1:
                    stack[top] = child + ONE
                    stack_stop[top] = stop
                    top += 1
                    stop = rank + 1
                word = words[child]
                continue
            steps.stop[n] = stop
            steps.value[n] = leaf_value[word >> rank_shift]
            n += 1
            if top == 0:
                break
            top -= 1
            begin = stop
            stop = stack_stop[top]
            word = words[stack[top]]
    steps.start[roots.size] = n


@kernel
def steps_by_masks(
    j: int,
    cells: IntArray,
    features: IntArray,
    table: Array,
    leaf_value: Array,
    leaf_stop: Int32Array,
    all_leaves: Array,
    rows: IntArray,
    leaf_mask: Array,
    steps: Steps,
) -> None:
    """List each tree's steps along feature ``j``, as `steps_by_walk` does, from leaf masks.

    The leaves that all other features leave reachable are the steps, and they are numbered from
    left to right. ``leaf_stop[tree, leaf]`` is the cell after each leaf along the feature, 0 for
    one that no number reaches; ``all_leaves`` are the masks that leave every leaf reachable. The
    loop over the leaves of all trees has no branches. It reads one mask after the last tree: the
    rows of ``table`` must be longer than the number of trees.
    """
    n_trees, width = leaf_value.shape
    leaf_mask[:] = all_leaves
    n_rows = rows_of(cells, features, j, rows)
    if n_rows > 0:
        intersect(rows, n_rows, table, leaf_mask)
    values, stops = leaf_value.reshape(-1), leaf_stop.reshape(-1)
    one = table.dtype.type(1)
    n = np.int64(0)
    t = np.int64(0)
    before = np.int64(0)
    rest = leaf_mask[0]
    first = ZERO
    steps.start[0] = 0
    while t < n_trees:
        leaf = first + np.uint64(trailing_zeros(rest))
        stop = np.int64(stops[leaf])
        steps.stop[n] = stop
        steps.value[n] = values[leaf]
        n += np.int64(stop > before)
        before = max(before, stop)
        rest &= rest - one
        done = rest == table.dtype.type(0)
        steps.start[t + 1] = n
        t += np.int64(done)
        before = np.int64(0) if done else before
        first = first + np.uint64(width) if done else first
        rest = leaf_mask[t] if done else rest


@kernel
def mark_pieces(
    n_cells: int,
    n_trees: int,
    steps: Steps,
    marks: UInt64Array,
    marks_before: IntArray,
    stop: IntArray,
) -> int:
    """Split the line wherever a step ends; return the number of pieces.

    From then on ``steps.stop`` counts pieces instead of cells.

    Parameters
    ----------
    n_cells : int
        Number of cells of the line.
    n_trees, steps
        The steps of each tree.
    marks, marks_before : arrays
        One bit per cell, and room for one count per word. Where bit ``k`` is set on entry, a piece
        ends with cell ``k`` too; on return all are zero.
    stop : int64 array
        The result: the cell after each piece.
    """
    n_steps = steps.start[n_trees]
    for s in range(n_steps):
        at = np.uint64(steps.stop[s] - 1)
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
        at = np.uint64(steps.stop[s] - 1)
        below = marks[at >> SIX] & ((ONE << (at & LOW_SIX)) - ONE)
        steps.stop[s] = marks_before[at >> SIX] + np.int64(count_ones(below)) + 1
    marks[:] = ZERO
    return n


@kernel
def add_in_order(
    n: int, n_trees: int, steps: Steps, base: float, divisor: float, value: Array
) -> None:
    """Write the value of each of ``n`` pieces (or cells), exact to the last bit."""
    value[:n] = base
    for t in range(n_trees):
        k = ZERO
        for s in range(steps.start[t], steps.start[t + 1]):
            stop, add = np.uint64(steps.stop[s]), steps.value[s]
            for i in range(k, stop):
                value[i] += add
            k = stop
    own_divisor = value.dtype.type(divisor)
    for i in range(n):
        value[i] /= own_divisor


@kernel
def add_differences(
    n: int, n_trees: int, steps: Steps, base: float, divisor: float, value: Array
) -> None:
    """Write the value of each of ``n`` pieces (or cells) up to rounding, from one running sum.

    Several times faster than `add_in_order`, for a search that then evaluates the best piece.
    ``value`` must have room for one more.
    """
    value[: n + 1] = 0.0
    value[0] = base
    for t in range(n_trees):
        at = ZERO
        before = 0.0
        for s in range(steps.start[t], steps.start[t + 1]):
            add = np.float64(steps.value[s])
            value[at] += add - before
            before = add
            at = np.uint64(steps.stop[s])
    total = 0.0
    for i in range(n):
        total += value[i]
        value[i] = total / divisor
