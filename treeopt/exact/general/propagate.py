"""Narrow a box of places by rows, clauses and counts.

A row is propagated on the ends of the numbers that a box admits: the minimum of all other terms
leaves a bound for each feature. A clause with one alternative left makes it hold. A count that is
used up makes the other features 0. Rounding errors are on the safe side: no point is lost that
satisfies the constraints as a user computes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeopt.exact.general.bounds import ends
from treeopt.exact.general.statement import HUGE
from treeopt.kernels.jit import lean

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Features, Logic, Rows
    from treeopt.types import Array, Int32Array

MAX_ROUNDS = 12
"""Rounds of propagation; more may gain little each."""


@lean
def all_ends(features: Features, box: Int32Array, now: Array) -> None:
    """Write the minimum and maximum number of each feature in a box."""
    p = box.size // 2
    for k in range(p):
        now[k].low, now[k].high = ends(features, k, box[k], box[p + k])


@lean
def propagate(features: Features, rows: Rows, logic: Logic, box: Int32Array, now: Array) -> bool:
    """Narrow a box; return False if it holds no point that satisfies the constraints.

    ``now`` has the ends of each feature, which are kept up to date. Features along which the box
    became narrower are noted there.
    """
    for _ in range(MAX_ROUNDS):
        changed = False
        for r in range(rows.row.size):
            if rows.row[r].is_literal:
                continue
            state = tighten(features, rows, r, box, now)
            if state < 0:
                return False
            changed |= state > 0
        for i in range(logic.clause_start.size - 1):
            state = settle_clause(features, rows, logic, i, box, now)
            if state < 0:
                return False
            changed |= state > 0
        for i in range(logic.counts.size):
            state = settle_count(logic, i, box, now)
            if state < 0:
                return False
            changed |= state > 0
        if not changed:
            break
    return True


@lean
def activity(rows: Rows, r: int, now: Array, side: float) -> tuple[float, int, float]:
    """Return the minimum of ``side`` times a row without infinite terms, their number, an error."""
    total, n_infinite, size = 0.0, 0, rows.row[r].size
    for i in range(rows.row[r].start, rows.row[r].end):
        k, a = rows.entry[i].feature, side * rows.entry[i].factor
        x = now[k].low if a > 0 else now[k].high
        if abs(x) >= HUGE and a != 0.0:
            n_infinite += 1
        else:
            total += a * x
            size += rows.entry[i].size * (abs(x) if a != 0.0 else max(abs(x), abs(now[k].low)))
    return total, n_infinite, rows.row[r].error * size


@lean
def tighten(
    features: Features,
    rows: Rows,
    r: int,
    box: Int32Array,
    now: Array,
) -> int:
    """Narrow a box by a row; return 1 if it is narrower, -1 if it is empty, else 0."""
    p, state = box.size // 2, 0
    for s in range(2):
        side = 1.0 if s == 0 else -1.0
        limit = rows.row[r].high if s == 0 else -rows.row[r].low
        if limit == np.inf:
            continue
        total, n_infinite, error = activity(rows, r, now, side)
        if n_infinite == 0 and total - error > limit:
            return -1
        if n_infinite > 1:
            continue
        for i in range(rows.row[r].start, rows.row[r].end):
            k, a = rows.entry[i].feature, side * rows.entry[i].factor
            if a == 0.0:
                continue
            x = now[k].low if a > 0 else now[k].high
            is_infinite = abs(x) >= HUGE
            if n_infinite == 1 and not is_infinite:
                continue
            rest = total if is_infinite else total - a * x
            slip = error + rows.row[r].error * (abs(limit) + abs(rest) + abs(total))
            bound = (limit - rest + slip) / a
            # Its own term is not in the error if it is infinite, or cancels in part.
            off = 1e-15 + rows.row[r].error * rows.entry[i].size / abs(a)
            bound += off * abs(bound) * (1.0 if a > 0 else -1.0)
            if a > 0 and bound < now[k].high:
                last = box[p + k]
                while (
                    last >= box[k]
                    and features.place[features.feature[k].place_start + last].low > bound
                ):
                    last -= 1
                if last < box[k]:
                    return -1
                if last < box[p + k]:
                    box[p + k] = last
                    now[k].is_narrower = True
                    state = 1
                    now[k].low, now[k].high = ends(features, k, box[k], box[p + k])
            elif a < 0 and bound > now[k].low:
                first = box[k]
                while (
                    first <= box[p + k]
                    and features.place[features.feature[k].place_start + first].high < bound
                ):
                    first += 1
                if first > box[p + k]:
                    return -1
                if first > box[k]:
                    box[k] = first
                    now[k].is_narrower = True
                    state = 1
                    now[k].low, now[k].high = ends(features, k, box[k], box[p + k])
    return state


@lean
def row_state(rows: Rows, r: int, now: Array) -> int:
    """Return 1 if a row holds in the whole box, -1 if it holds nowhere, else 0."""
    state = 1
    for s in range(2):
        side = 1.0 if s == 0 else -1.0
        limit = rows.row[r].high if s == 0 else -rows.row[r].low
        if limit == np.inf:
            continue
        least, n_infinite, error = activity(rows, r, now, side)
        if n_infinite == 0 and least - error > limit:
            return -1
        most, n_infinite, error = activity(rows, r, now, -side)
        if n_infinite > 0 or -most + error >= limit:
            state = 0
    return state


@lean
def settle_clause(
    features: Features,
    rows: Rows,
    logic: Logic,
    i: int,
    box: Int32Array,
    now: Array,
) -> int:
    """Narrow a box by a clause; return 1 if it is narrower, -1 if it is empty, else 0."""
    p, n_open, open_literal = box.size // 2, 0, -1
    for q in range(logic.clause_start[i], logic.clause_start[i + 1]):
        if logic.literal[q].row >= 0:
            state = row_state(rows, logic.literal[q].row, now)
        else:
            k, origin = logic.literal[q].feature, logic.literal[q].mask
            n = logic.below[origin + box[p + k] + 1] - logic.below[origin + box[k]]
            state = 1 if n == box[p + k] - box[k] + 1 else (0 if n > 0 else -1)
        if state > 0:
            return 0
        if state == 0:
            n_open += 1
            open_literal = q
    if n_open == 0:
        return -1
    if n_open > 1:
        return 0
    if logic.literal[open_literal].row >= 0:
        r = logic.literal[open_literal].row
        return tighten(features, rows, r, box, now)
    k, origin = logic.literal[open_literal].feature, logic.literal[open_literal].mask
    first, last = box[k], box[p + k]
    while logic.below[origin + first + 1] == logic.below[origin + first]:
        first += 1
    while logic.below[origin + last + 1] == logic.below[origin + last]:
        last -= 1
    if first == box[k] and last == box[p + k]:
        return 0
    box[k], box[p + k] = first, last
    now[k].is_narrower = True
    now[k].low, now[k].high = ends(features, k, first, last)
    return 1


@lean
def settle_count(
    logic: Logic,
    i: int,
    box: Int32Array,
    now: Array,
) -> int:
    """Narrow a box by a count; return 1 if it is narrower, -1 if it is empty, else 0."""
    p, n, state = box.size // 2, 0, 0
    for q in range(logic.counts[i].start, logic.counts[i].end):
        k, zero = logic.counted[q].feature, logic.counted[q].zero
        if zero < box[k] or zero > box[p + k]:
            n += 1
    if n > logic.counts[i].most:
        return -1
    if n < logic.counts[i].most:
        return 0
    for q in range(logic.counts[i].start, logic.counts[i].end):
        k, zero = logic.counted[q].feature, logic.counted[q].zero
        if box[k] <= zero <= box[p + k] and box[k] < box[p + k]:
            box[k] = box[p + k] = zero
            now[k].is_narrower = True
            now[k].low = now[k].high = 0.0
            state = 1
    return state
