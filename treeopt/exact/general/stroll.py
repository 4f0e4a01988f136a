"""Where a descent stands: the point, its sums, and how they change along all lines through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.exact.descent import ONCE, Walk, new_walk
from treeopt.exact.general.statement import LINK, OPEN
from treeopt.kernels.jit import is_set, lean

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Statement
    from treeopt.types import BoolArray, FloatArray, IntArray


class Stroll(NamedTuple):
    """Where a descent stands.

    Attributes
    ----------
    walk : Walk
        Places of the point, and which boxes it is in.
    x : float64 array
        Its numbers.
    sums : float64 array
        Sums there.
    along : float64 array
        Room for the sums at a place of a line.
    change : float64 array ``[sum, place]``
        Room for the changes of all sums along all lines.
    low, high : float64 arrays
        How far each feature may move without leaving the leaves of the point; both are its number
        if it is not flexible.
    row_low, row_high : float64 arrays
        Minimum and maximum of the rows if the features move so far.
    row_scale : float64 array
        Typical size of a violation of each row.
    box : int64 array
        The box of each tree that the point is in.
    rows : float64 array ``[row, column]``
        Room for the rows of a feature, see `treeopt.exact.general.numbers.Axis`.
    corners : float64 array
        Room for the numbers at which the cost or a penalty of a feature has a corner.
    first, last : int64 arrays
        Room for the places that each feature may move to.
    is_curved : bool array
        For each sum, whether the objective is not a multiple of it plus the rest, or it has a
        limit.
    factor : float64 array
        For each sum that is not curved, its factor in the objective.
    """

    walk: Walk
    x: FloatArray
    sums: FloatArray
    along: FloatArray
    change: FloatArray
    low: FloatArray
    high: FloatArray
    row_low: FloatArray
    row_high: FloatArray
    row_scale: FloatArray
    box: IntArray
    rows: FloatArray
    corners: FloatArray
    first: IntArray
    last: IntArray
    is_curved: BoolArray
    factor: FloatArray


def new_stroll(statement: Statement, row_scale: FloatArray) -> Stroll:
    """Return room for a descent."""
    p, n_sums = statement.features.feature.size, statement.sums.size
    n_places, n_rows = int(statement.leaves.place_start[-1]), row_scale.size
    parts = statement.parts
    is_curved, factor = np.ones(n_sums, np.bool_), np.zeros(n_sums)
    for part in parts[parts["in_objective"] & (parts["n_sums"] == 1) & (parts["link"] == 0)]:
        if part["kind"] == LINK and not part["is_product"]:
            is_curved[part["start"]] = False
            factor[part["start"]] = part["weight"] * part["sign"]
    return Stroll(
        walk=new_walk(statement.leaves),
        x=np.zeros(p),
        sums=np.zeros(n_sums),
        along=np.zeros(n_sums),
        change=np.zeros((n_sums, n_places + p)),
        low=np.zeros(p),
        high=np.zeros(p),
        row_low=np.zeros(n_rows),
        row_high=np.zeros(n_rows),
        row_scale=row_scale,
        box=np.zeros(statement.leaves.start.size - 1, np.int64),
        rows=np.empty((n_rows, 6)),
        corners=np.empty(2 + statement.features.kink.size + 2 * n_rows),
        first=np.zeros(p, np.int64),
        last=np.zeros(p, np.int64),
        is_curved=is_curved,
        factor=factor,
    )


@lean
def add_sums(statement: Statement, stroll: Stroll) -> None:
    """Write the sums at the point, and their changes along all lines as differences."""
    leaves, walk, change = statement.leaves, stroll.walk, stroll.change
    outside, near = walk.outside, walk.near
    for s in range(statement.sums.size):
        for c in range(change.shape[1]):
            change[s, c] = 0.0
        total = statement.sums[s].constant
        for t in range(statement.sums[s].start, statement.sums[s].end):
            if is_set(leaves.stop):
                return
            n, here = 0, 0.0
            for i in range(leaves.start[t], leaves.start[t + 1]):
                if outside[i] < 2 * ONCE:
                    near[n] = i
                    n += 1
                    if outside[i] == 0:
                        here = leaves.value[i]
                        stroll.box[t] = i
            total += here
            for a in range(n):
                i = near[a]
                if outside[i] > 0:
                    k = outside[i] - ONCE
                    first = leaves.place_start[k] + k
                    change[s, first + leaves.low[k, i]] += leaves.value[i] - here
                    change[s, first + leaves.high[k, i] + 1] -= leaves.value[i] - here
        stroll.sums[s] = total


@lean
def set_reach(statement: Statement, stroll: Stroll, is_flexible: bool) -> None:
    """Write how far each feature may move, and the minimum and maximum of the rows.

    `add_sums` must have written the boxes that the point is in.
    """
    leaves, features, p = statement.leaves, statement.features, stroll.x.size
    first, last = stroll.first, stroll.last
    for k in range(p):
        first[k], last[k] = 0, leaves.place_start[k + 1] - leaves.place_start[k] - 1
    if is_flexible:
        for i in stroll.box:
            for k in range(p):
                first[k] = max(first[k], leaves.low[k, i])
                last[k] = min(last[k], leaves.high[k, i])
    for k in range(p):
        own, origin = features.feature[k], leaves.place_start[k]
        stroll.low[k] = stroll.high[k] = stroll.x[k]
        if is_flexible and own.ordered and not own.is_priced:
            low = features.place[origin + first[k]].low
            high = features.place[origin + last[k]].high
            if max(abs(low), abs(high)) < OPEN:
                stroll.low[k] = min(stroll.x[k], low)
                stroll.high[k] = max(stroll.x[k], high)
    for r in range(statement.rows.row.size):
        stroll.row_low[r] = stroll.row_high[r] = 0.0
        for i in range(statement.rows.row[r].start, statement.rows.row[r].end):
            k, a = statement.rows.entry[i].feature, statement.rows.entry[i].factor
            one, other = a * stroll.low[k], a * stroll.high[k]
            stroll.row_low[r] += min(one, other)
            stroll.row_high[r] += max(one, other)
