"""The leaves of all trees as boxes of the grid: what the search and the proof work on.

Only what the space leaves reachable is listed. A leaf that is a range of places along every feature
is one box; where a feature's places have no order (categories, zero or a missing value among
numbers), a leaf may be several runs of them, and becomes one box for each. So all that follows
knows only boxes of whole numbers. In each tree they are sorted by value, the best first.

Kernels that may run for long look at a flag, ``stop``. Once it is set they return as soon as they
can, and neither what they return nor what they were working on is of any use: whoever calls them
looks at the flag first. It is never taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.kernels.jit import is_set, kernel
from treeopt.kernels.pack import goes_right, key_of

if TYPE_CHECKING:
    from treeopt.types import Array


class Leaves(NamedTuple):
    """Boxes of the grid with their values; smaller is better.

    Attributes
    ----------
    value : float64 array
        What the box adds to the sum.
    low, high : int32 arrays ``[feature, box]``
        First and last place of each box along each free feature.
    leaf : int32 array
        The leaf of the ensemble that it is, or is a part of.
    start : int64 array
        First box of each tree, and the number of boxes at the end.
    place_start : int64 array
        Where the places of each free feature begin, if all are numbered through.
    constant : float
        The start of the sum.
    stop : int64 array
        One number: not 0 if the search has to end.
    """

    value: Array
    low: Array
    high: Array
    leaf: Array
    start: Array
    place_start: Array
    constant: float
    stop: Array = np.zeros(1, np.int64)

    @property
    def ends(self) -> tuple[Array, Array]:
        """The leaves with the best and the worst value of each tree."""
        return self.leaf[self.start[:-1]], self.leaf[self.start[1:] - 1]


@kernel
def restrict(
    left: Any,
    right: Any,
    slot: Any,
    rank: Any,
    bit: Any,
    first: Any,
    depth: Any,
    slot_feature: Any,
    slot_table: Any,
    lut: Any,
    tree_start: Any,
    leaf_start: Any,
    order: Any,
    leaf_value: Any,
    sign: Any,
    free: Any,
    cell: Any,
    ordered: Any,
    place_start: Any,
    place_cell: Any,
    below_start: Any,
    below: Any,
    value: Any,
    low: Any,
    high: Any,
    leaf: Any,
    start: Any,
    begin: Any,
    total: Any,
    most: Any,
    too_many: Any,
    met: Any,
    from_: Any,
    count: Any,
    stop: Any,
) -> Any:
    """List the boxes that the grid leaves of trees; return the next tree and the number of boxes.

    Begins with tree ``begin``, when ``total`` boxes are listed, and ends with the tree that brings
    that number to ``most`` or more, or with the last one, or as soon as there are ``too_many``. If
    there is no room for all, nothing but the number is of use.

    Parameters
    ----------
    left, right, slot, rank, bit, first, depth, slot_feature, slot_table, lut, tree_start
        The trees and their splits, as `Compiled` and `Cells` have them.
    leaf_start, order, leaf_value : arrays
        Leaves of each tree, in ascending order of value.
    sign : float
        -1.0 to maximise.
    free, cell : int64 arrays
        Number of each feature among the free ones, or -1 and the only cell that it can be in.
    ordered : bool array
        Whether each free feature's places are its cells in ascending order, and splits cut them
        in two.
    place_start, place_cell : int64 arrays
        The places of each free feature, and their cells if they are not ordered.
    below_start, below : int64 arrays
        For each ordered feature, how many of its places lie in cells up to each one.
    value, low, high, leaf, start : arrays
        The result, see `Leaves`.
    met, from_, count : arrays
        Room: the boxes of a tree in the order in which they are met, and where those of each leaf
        begin and how many they are.
    """
    p = ordered.size
    room = value.size
    n_places = place_start[-1]
    box = np.empty((depth + 2, 2 * p), np.int32)
    allowed = np.empty((depth + 2, n_places), np.bool_)
    stack = np.empty((depth + 2, 2), np.int64)
    loose = np.empty(p, np.int64)
    n_loose = 0
    for k in range(p):
        if not ordered[k]:
            loose[n_loose] = k
            n_loose += 1
    n_trees = tree_start.size - 1
    t = begin
    while t < n_trees and total < most:
        n = 0
        for i in range(leaf_start[t], leaf_start[t + 1]):
            count[i] = 0
        if n_loose > 0:
            for c in range(n_places):
                allowed[0, c] = True
        for k in range(p):
            box[0, k] = 0
            box[0, p + k] = place_start[k + 1] - place_start[k] - 1
        top = 0
        stack[0, 0] = tree_start[t]
        stack[0, 1] = 0
        while top >= 0:
            if is_set(stop):
                return t, total
            i = stack[top, 0]
            d = stack[top, 1]
            top -= 1
            # Box `d` is that of node `i`.
            while left[i] >= 0:
                j = slot_feature[slot[i]]
                k = free[j]
                if k < 0:
                    key = key_of(cell[j], slot[i], slot_table, lut)
                    i = right[i] if goes_right(key, rank[i], bit[i]) else left[i]
                    continue
                if ordered[k]:
                    q = below[below_start[j] + rank[i]]
                    if box[d, p + k] < q:
                        i = left[i]
                    elif box[d, k] >= q:
                        i = right[i]
                    else:
                        # The right child waits in the place of this box, the left one goes on.
                        copy(box[d], box[d + 1])
                        if n_loose > 0:
                            copy(allowed[d], allowed[d + 1])
                        box[d, k] = q
                        top += 1
                        stack[top, 0] = right[i]
                        stack[top, 1] = d
                        d += 1
                        box[d, p + k] = q - 1
                        i = left[i]
                    continue
                to_left, to_right = False, False
                for c in range(place_start[k], place_start[k + 1]):
                    if allowed[d, c]:
                        key = key_of(place_cell[c], slot[i], slot_table, lut)
                        if goes_right(key, rank[i], bit[i]):
                            to_right = True
                        else:
                            to_left = True
                if to_left and to_right:
                    copy(box[d], box[d + 1])
                    copy(allowed[d], allowed[d + 1])
                    for c in range(place_start[k], place_start[k + 1]):
                        key = key_of(place_cell[c], slot[i], slot_table, lut)
                        if goes_right(key, rank[i], bit[i]):
                            allowed[d + 1, c] = False
                        else:
                            allowed[d, c] = False
                    top += 1
                    stack[top, 0] = right[i]
                    stack[top, 1] = d
                    d += 1
                    i = left[i]
                else:
                    i = left[i] if to_left else right[i]
            at = first[i]
            from_[at] = n
            # All combinations of runs of allowed places.
            for u in range(n_loose):
                k = loose[u]
                box[d, k], box[d, p + k] = run_from(allowed[d], place_start, k, np.int64(0))
            while True:
                if total + n > too_many:
                    return t, total + n
                if n < room:
                    for k in range(2 * p):
                        met[n, k] = box[d, k]
                n += 1
                count[at] += 1
                u = 0
                while u < n_loose:
                    k = loose[u]
                    a, b = run_from(allowed[d], place_start, k, np.int64(box[d, p + k]) + 1)
                    if a <= b:
                        box[d, k], box[d, p + k] = a, b
                        break
                    box[d, k], box[d, p + k] = run_from(allowed[d], place_start, k, np.int64(0))
                    u += 1
                if u == n_loose:
                    break
        start[t] = total
        if n <= room and total + n <= room:
            size = leaf_start[t + 1] - leaf_start[t]
            for r in range(size):
                at = order[leaf_start[t] + (r if sign > 0 else size - 1 - r)]
                for s in range(from_[at], from_[at] + count[at]):
                    value[total] = sign * leaf_value[at]
                    leaf[total] = at
                    for k in range(p):
                        # The first use of memory takes long: one look for each box is not enough.
                        if is_set(stop):
                            return t, total
                        low[k, total] = met[s, k]
                        high[k, total] = met[s, p + k]
                    total += 1
        else:
            total += n
        t += 1
    start[t] = total
    return t, total


@kernel
def copy(source: Any, target: Any) -> None:
    """Copy a row; compiles in a fraction of the time that an assignment of slices takes."""
    for i in range(source.size):
        target[i] = source[i]


@kernel
def run_from(allowed: Any, place_start: Any, k: Any, at: Any) -> Any:
    """Return the first run of allowed places of feature ``k`` from place ``at`` on."""
    begin, end = place_start[k], place_start[k + 1]
    a = begin + at
    while a < end and not allowed[a]:
        a += 1
    b = a
    while b < end and allowed[b]:
        b += 1
    return a - begin, b - begin - 1
