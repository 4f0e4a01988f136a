"""What each cut of a node's box would gain: bounds of both sides of all cuts in one pass.

Without a cut a tree's best box is the first of its list. A cut along a feature that leaves the
first box on one side forces the tree, on the other side, to the first box that reaches over there.
Walking down the list, each box that reaches further than all before it adds its loss to a range of
cuts; difference arrays collect these ranges from all trees, and bits say where they are not 0.
Their sums are the gains of the left and right side of every cut. If a side gains as much as the
slack, no point of interest lies there and the box gets narrower. Otherwise the cut with the largest
product of both gains is chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.kernels.jit import inlined, is_set, kernel, lean, trailing_zeros

if TYPE_CHECKING:
    from treeopt.exact.box_lists import Lists
    from treeopt.types import FloatArray, Int32Array, IntArray

SOLVED, BRANCH, NARROW, EMPTY = range(4)
"""Outcomes of `examine`: the box is solved, is to be cut, became narrower, holds no point."""


class Examined(NamedTuple):
    """What `examine` found.

    Attributes
    ----------
    outcome : int
        SOLVED, BRANCH, NARROW or EMPTY.
    feature, cut : int
        The best cut: its feature and the last place on the left.
    left, right : float
        How much the bounds of both sides are above that of the node.
    n_changed : int
        Number of features along which the box became narrower.
    work : int
        Number of boxes and cuts visited.
    """

    outcome: int
    feature: int
    cut: int
    left: float
    right: float
    n_changed: int
    work: int


class CutRoom(NamedTuple):
    """Room for `examine`. Losses and events are 0 on entry, unless the search was ended.

    Attributes
    ----------
    loss : float64 array
        Differences of the gains of the left and of the right side, per place.
    event : int64 array
        A bit for each place: whether it has a difference.
    touched, sum_of_losses : arrays
        Number and sum of the losses that were added, per feature.
    low, high : int32 arrays
        What is left of the box.
    common_low, common_high : int32 arrays
        What the best boxes of all trees have in common.
    """

    loss: FloatArray
    event: IntArray
    touched: IntArray
    sum_of_losses: FloatArray
    low: Int32Array
    high: Int32Array
    common_low: Int32Array
    common_high: Int32Array


def new_events(n_places: int) -> IntArray:
    """Return one bit for each place, all 0."""
    return np.zeros(n_places // 64 + 1, np.int64)


@lean
def mark(event: IntArray, i: int) -> None:
    """Set a bit."""
    event[i >> 6] |= np.int64(1) << (i & 63)


@lean
def take_event(event: IntArray, i: int, last: int) -> int:
    """Return the first bit from ``i`` to ``last`` that is set, and clear it; else ``last + 1``."""
    word = i >> 6
    bits = event[word] & (np.int64(-1) << (i & 63))
    while bits == 0:
        word += 1
        if word << 6 > last:
            return last + 1
        bits = event[word]
    found = (word << 6) + trailing_zeros(bits)
    if found > last:
        return last + 1
    event[word] &= ~(np.int64(1) << (found & 63))
    return int(found)


def new_cut_room(p: int, n_places: int) -> CutRoom:
    """Return room for a grid of ``p`` features."""
    low, high, common_low, common_high = (np.empty(p, np.int32) for _ in range(4))
    return CutRoom(
        loss=np.zeros((2, n_places)),
        event=new_events(n_places),
        touched=np.empty(p, np.int64),
        sum_of_losses=np.empty(p),
        low=low,
        high=high,
        common_low=common_low,
        common_high=common_high,
    )


@kernel
def examine(
    lists: Lists,
    at: int,
    n_trees: int,
    box: Int32Array,
    slack: float,
    min_gain: float,
    place_start: IntArray,
    room: CutRoom,
    changed: IntArray,
    stop: IntArray,
) -> Examined:
    """Examine all cuts of a node.

    Points that are worse than the node's bound by ``slack`` or more are of no interest. Narrows
    ``box`` where one side of a cut holds only such points, and writes the features into
    ``changed``. Otherwise finds the best cut; or that no cut is needed, because the best boxes of
    all trees have a point in common: then ``box`` becomes what they have in common.

    A gain counts as at least ``min_gain`` times the slack. ``stop`` is the flag that ends it.
    """
    start_from(box, room)
    work = add_losses(lists, at, n_trees, box, slack, place_start, room, stop)
    if is_set(stop):
        return Examined(EMPTY, -1, -1, 0.0, 0.0, 0, work)
    gain_floor = min_gain * slack
    score, feature, cut, left, right, scanned = best_cut(box, slack, gain_floor, place_start, room)
    work += scanned
    n = take_over(box, room, changed)
    if n != 0:
        outcome = NARROW if n > 0 else EMPTY
        return Examined(outcome, feature, cut, left, right, n, work)
    apart = feature_apart(room)
    if apart < 0:
        for k in range(room.low.size):
            box[k], box[room.low.size + k] = room.common_low[k], room.common_high[k]
        return Examined(SOLVED, feature, cut, left, right, 0, work)
    if score <= gain_floor * gain_floor:
        # No cut gains anything: separate the best boxes of two trees.
        feature, cut, left, right = apart, room.common_high[apart], 0.0, 0.0
    return Examined(BRANCH, feature, cut, left, right, 0, work)


@inlined
def start_from(box: Int32Array, room: CutRoom) -> None:
    """Prepare the room for a node's box."""
    p = box.size // 2
    for k in range(p):
        room.touched[k] = 0
        room.sum_of_losses[k] = 0.0
        room.low[k] = room.common_low[k] = box[k]
        room.high[k] = room.common_high[k] = box[p + k]


@inlined
def add_losses(
    lists: Lists,
    at: int,
    n_trees: int,
    box: Int32Array,
    slack: float,
    place_start: IntArray,
    room: CutRoom,
    stop: IntArray,
) -> int:
    """Add the losses of all trees to the cuts; return the work.

    Each list is walked down until its boxes reach through the node's box along all features, or are
    of no interest. Where they never do, the node's box becomes as narrow as they reach.
    """
    value, row_box, arena = lists.value, lists.box, lists.arena
    p, work = box.size // 2, 0
    # Features along which the boxes of a tree so far do not reach through the node's box, and how
    # far they reach. Local arrays are faster than fields of ``room``.
    active = np.empty(p, np.int64)
    reach_low = np.empty(p, np.int64)
    reach_high = np.empty(p, np.int64)
    loss, event, touched, sum_of_losses = room.loss, room.event, room.touched, room.sum_of_losses
    new_low, new_high = room.low, room.high
    common_low, common_high = room.common_low, room.common_high
    for t in range(n_trees):
        s, end = arena[at + t], arena[at + t + 1]
        row = arena[s]
        best = value[row]
        n_active = 0
        for k in range(p):
            low, high = row_box[row, k], row_box[row, p + k]
            if low > box[k] or high < box[p + k]:
                common_low[k] = max(common_low[k], low)
                common_high[k] = min(common_high[k], high)
                active[n_active] = k
                reach_low[n_active] = max(low, box[k])
                reach_high[n_active] = min(high, box[p + k])
                n_active += 1
        # Each box that reaches further adds its loss to the cuts in between.
        s += 1
        while n_active > 0 and s < end:
            row = arena[s]
            s += 1
            lost = value[row] - best
            if lost >= slack or is_set(stop):
                break
            a = 0
            work += n_active
            while a < n_active:
                k = active[a]
                low = max(row_box[row, k], box[k])
                high = min(row_box[row, p + k], box[p + k])
                if low < reach_low[a] or high > reach_high[a]:
                    origin = place_start[k]
                    touched[k] += 1
                    sum_of_losses[k] += lost
                    if low < reach_low[a]:
                        lose_between(loss, event, 0, origin + low, origin + reach_low[a], lost)
                        reach_low[a] = low
                    if high > reach_high[a]:
                        lose_between(loss, event, 1, origin + reach_high[a], origin + high, lost)
                        reach_high[a] = high
                    if reach_low[a] == box[k] and reach_high[a] == box[p + k]:
                        n_active -= 1
                        active[a] = active[n_active]
                        reach_low[a] = reach_low[n_active]
                        reach_high[a] = reach_high[n_active]
                        continue
                a += 1
        # No box of interest reaches further.
        for a in range(n_active):
            k = active[a]
            new_low[k] = max(new_low[k], reach_low[a])
            new_high[k] = min(new_high[k], reach_high[a])
    return work


@inlined
def lose_between(
    loss: FloatArray, event: IntArray, side: int, begin: int, end: int, lost: float
) -> None:
    """Add a loss on one side to the cuts after the places from ``begin`` to before ``end``."""
    loss[side, begin] += lost
    loss[side, end] -= lost
    mark(event, begin)
    mark(event, end)


@inlined
def best_cut(
    box: Int32Array, slack: float, gain_floor: float, place_start: IntArray, room: CutRoom
) -> tuple[float, int, int, float, float, int]:
    """Sum up the losses; narrow what is left of the box, and find the best cut.

    Returns its score, feature, last place on the left, the gains of both sides, and the work. A
    gain counts as at least ``gain_floor``.
    """
    p = box.size // 2
    best_score, feature, cut, left_gain, right_gain = -1.0, -1, -1, 0.0, 0.0
    work = 0
    for k in range(p):
        if room.touched[k] == 0:
            continue
        # Rounding error of the sums over the difference arrays: each event is two additions.
        off = 2.0**-52 * (2 * room.touched[k] + 2) * room.sum_of_losses[k]
        safe = slack + off
        origin = place_start[k]
        left, right, is_over = 0.0, 0.0, False
        work += box[p + k] - box[k]
        end = origin + box[p + k]
        i = take_event(room.event, origin + box[k], end)
        while i <= end:
            left += room.loss[0, i]
            right += room.loss[1, i]
            room.loss[0, i] = room.loss[1, i] = 0.0
            after = take_event(room.event, i + 1, end)
            # All cuts from ``i`` to before the next event gain the same.
            if i < end and not is_over:
                c = i - origin
                if right >= safe:
                    room.high[k] = min(room.high[k], c)
                    is_over = True
                if left >= safe:
                    room.low[k] = max(room.low[k], c + 1 if is_over else min(after, end) - origin)
                score = max(left, gain_floor) * max(right, gain_floor)
                if score > best_score and not is_over:
                    best_score, feature, cut = score, k, c
                    left_gain, right_gain = left - off, right - off
            i = after
    return best_score, feature, cut, left_gain, right_gain, work


@inlined
def take_over(box: Int32Array, room: CutRoom, changed: IntArray) -> int:
    """Narrow a node's box to what is left of it; return the number of features, -1 if empty."""
    p = box.size // 2
    n = 0
    for k in range(p):
        if room.low[k] > room.high[k]:
            return -1
        if room.low[k] > box[k] or room.high[k] < box[p + k]:
            box[k], box[p + k] = room.low[k], room.high[k]
            changed[n] = k
            n += 1
    return n


@inlined
def feature_apart(room: CutRoom) -> int:
    """Return the last feature along which the best boxes have nothing in common, or -1."""
    apart = -1
    for k in range(room.low.size):
        if room.common_low[k] > room.common_high[k]:
            apart = k
    return apart
