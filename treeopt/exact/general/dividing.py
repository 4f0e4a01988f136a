"""Where a node is divided: how much each sum and the costs gain on both sides of each cut.

Along a feature, few cuts differ from the one before them. So the gains of trees are kept as
differences, and cuts between which nothing changes are looked at together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from treeopt.exact.box_lists import Lists
from treeopt.exact.branching import CutRoom, add_losses, mark, start_from, take_event
from treeopt.exact.general.bounds import UNIT, lowest_cost
from treeopt.exact.general.multipliers import is_linear
from treeopt.exact.general.propagate import all_ends
from treeopt.kernels.jit import is_set, kernel, lean

if TYPE_CHECKING:
    from treeopt.exact.general.search_state import General, Room
    from treeopt.exact.general.statement import Features, Statement
    from treeopt.types import Array, FloatArray, Int32Array, IntArray

NARROWER, EMPTY = -1, -2
"""What `examine_all` returns instead of a feature."""


class Cut(NamedTuple):
    """Where a node is divided: feature, last place on the left, gains, and which side is better.

    Instead of a feature, NARROWER says that the box has become narrower, and EMPTY that it holds no
    point of interest.
    """

    feature: int
    place: int
    left: float
    right: float
    is_left_better: bool


@lean
def examine_all(
    statement: Statement, search: General, at: int, box: Int32Array, to_gain: float, min_gain: float
) -> Cut:
    """Examine all cuts of a node by all sums and costs; return the best.

    ``to_gain`` is the distance of the bound of the node from the best value.
    """
    state, room, parts = search.state[0], search.room, statement.parts
    place_start, stop = statement.leaves.place_start, statement.leaves.stop
    begin_cuts(box, room.feature)
    scale = 0.0
    for i in range(parts.size):
        # At most one part is such a sum.
        is_plain = parts[i].in_objective and parts[i].link == 0 and parts[i].n_sums == 1
        for s in range(parts[i].start, parts[i].end):
            own = search.level_sum[at, s]
            if own.n_trees == 0:
                continue
            unit = min(room.slack[s], statement.sums[s].spread)
            target = room.score
            if is_plain:
                scale += statement.sums[s].spread
                unit, target = 1.0, room.gain
            state.spent += examine_sum(
                search.lists, own, box, room.slack[s], unit, place_start, room, target, stop
            )
            if is_set(stop):
                return Cut(EMPTY, -1, 0.0, 0.0, True)
            take_ends(room.cut, room.feature, parts[i].in_objective)
    scale += examine_costs(statement.features, box, room)
    scale = max(min(to_gain, scale), 1e-300)
    found = best_cut(statement.features, box, room, to_gain, scale, min_gain)
    for k in range(room.feature.size):
        if room.feature[k].new_low > room.feature[k].new_high:
            return Cut(EMPTY, -1, 0.0, 0.0, True)
    if take_over(statement.features, box, room.feature):
        return Cut(NARROWER, -1, 0.0, 0.0, True)
    return found if found.feature != EMPTY else any_cut(search.lists, search.level_sum[at], box)


@lean
def begin_cuts(box: Int32Array, now: Array) -> None:
    """Prepare the room for the cuts of a box."""
    p = box.size // 2
    for k in range(p):
        now[k].new_low = now[k].common_low = box[k]
        now[k].new_high = now[k].common_high = box[p + k]
        now[k].is_cut = now[k].has_table = False
        now[k].slope = 0.0


@lean
def take_ends(cut: CutRoom, now: Array, in_objective: bool) -> None:
    """Narrow what is left of the box, and what the best leaves have in common."""
    for k in range(now.size):
        now[k].new_low = max(now[k].new_low, cut.low[k])
        now[k].new_high = min(now[k].new_high, cut.high[k])
        if in_objective:
            now[k].common_low = max(now[k].common_low, cut.common_low[k])
            now[k].common_high = min(now[k].common_high, cut.common_high[k])


@kernel  # `add_losses` creates arrays
def examine_sum(
    lists: Lists,
    own: Any,
    box: Int32Array,
    slack: float,
    unit: float,
    place_start: IntArray,
    room: Room,
    target: FloatArray,
    stop: IntArray,
) -> int:
    """Add the losses of one sum, in some unit, to the differences of all cuts; return the work.

    Where a side of a cut is of no interest, the room for the cuts is narrowed.
    """
    p, unit, cut = box.size // 2, max(unit, 1e-300), room.cut
    start_from(box, cut)
    work: int = add_losses(lists, own.at, own.n_trees, box, slack, place_start, cut, stop)
    for k in range(p):
        if cut.touched[k] > 0:
            room.feature[k].is_cut = True
            add_differences(cut, box, k, slack, unit, place_start[k], target, room.event)
    return work


@lean
def add_differences(
    cut: CutRoom,
    box: Int32Array,
    k: int,
    slack: float,
    unit: float,
    origin: int,
    target: FloatArray,
    event: IntArray,
) -> None:
    """Move the losses along a feature to the differences of its cuts, less their rounding error."""
    first, end, loss = origin + box[k], origin + box[box.size // 2 + k], cut.loss
    off = 2.0**-52 * (2 * cut.touched[k] + 2) * cut.sum_of_losses[k]
    safe, left, right, last, is_over = slack + off, 0.0, 0.0, end, False
    target[0, first] -= off / unit
    target[1, first] -= off / unit
    mark(event, first)
    i = take_event(cut.event, first, end)
    while i <= end:
        less, more = loss[0, i], loss[1, i]
        loss[0, i] = loss[1, i] = 0.0
        if i < end and not is_over:
            if left >= safe:  # before this cut
                cut.low[k] = max(cut.low[k], i - origin)
            left += less
            right += more
            target[0, i] += less / unit
            target[1, i] += more / unit
            mark(event, i)
            if right >= safe:
                cut.high[k] = min(cut.high[k], i - origin)
                last, is_over = i + 1, True
        i = take_event(cut.event, i + 1, end)
    if left >= safe:
        cut.low[k] = max(cut.low[k], last - origin)


@lean
def examine_costs(features: Features, box: Int32Array, room: Room) -> float:
    """Prepare the gains of the costs at all cuts; return their spread."""
    p, spread, now = box.size // 2, 0.0, room.feature
    for k in range(p):
        own = now[k]
        if box[k] == box[p + k] or not (features.feature[k].is_priced or own.tilt != 0.0):
            continue
        own.is_cut = True
        if is_linear(features, k):
            own.slope = features.feature[k].slope + own.tilt
            first, last = sloped(features, own, k, box[k]), sloped(features, own, k, box[p + k] - 1)
            spread += max(first[0], last[1])
            continue
        own.has_table, widest, origin = True, 0.0, features.feature[k].place_start
        for c in range(box[k], box[p + k]):
            left = lowest_cost(features, k, box[k], c, own.tilt)[0] - own.cost
            right = lowest_cost(features, k, c + 1, box[p + k], own.tilt)[0] - own.cost
            size = UNIT * (abs(own.cost) + max(left, right))
            room.cost[0, origin + c] = max(left - size, 0.0)
            room.cost[1, origin + c] = max(right - size, 0.0)
            widest = max(widest, max(left, right))
        spread += widest
    return spread


@lean
def sloped(features: Features, own: Any, k: int, c: int) -> tuple[float, float]:
    """Return what the cost of a feature gains on both sides of a cut if it has a slope alone."""
    steepness = features.feature[k].size + abs(own.tilt)
    i = features.feature[k].place_start + c
    before, after = features.place[i].high, features.place[i + 1].low
    left = max(-own.slope, 0.0) * (own.high - before)
    right = max(own.slope, 0.0) * (after - own.low)
    size = abs(own.cost) + max(left, right) + steepness * max(abs(before), abs(after))
    return max(left - UNIT * size, 0.0), max(right - UNIT * size, 0.0)


@lean
def best_cut(
    features: Features,
    box: Int32Array,
    room: Room,
    to_gain: float,
    scale: float,
    min_gain: float,
) -> Cut:
    """Return the cut with the largest product of both scores; note what is left of the box.

    Sides that gain as much as ``to_gain`` are of no interest. Gains count relative to ``scale``.
    If no cut gains anything, the feature is EMPTY.
    """
    now, score, gain, cost = room.feature, room.score, room.gain, room.cost
    best, found = 0.0, Cut(EMPTY, -1, 0.0, 0.0, True)
    for k in range(now.size):
        own = now[k]
        if not own.is_cut:
            continue
        origin = features.feature[k].place_start
        end, is_over = origin + box[box.size // 2 + k], False
        gains, scores = (0.0, 0.0), (0.0, 0.0)
        i = origin + box[k]
        while i <= end:
            gains = gains[0] + gain[0, i], gains[1] + gain[1, i]
            scores = scores[0] + score[0, i], scores[1] + score[1, i]
            gain[0, i] = gain[1, i] = score[0, i] = score[1, i] = 0.0
            after = i + 1 if own.has_table else take_event(room.event, i + 1, end)
            # The trees gain the same at all cuts from ``c`` to before ``last``.
            c, last = i - origin, min(min(after, end) - origin, own.new_high)
            left, right = gains
            if own.has_table:
                left += cost[0, i]
                right += cost[1, i]
            i = after
            if is_over or c >= last:
                continue  # only to clear the differences
            safe = to_gain + UNIT * (abs(left) + abs(right) + abs(to_gain))
            if own.slope > 0.0:
                last = crossing(features, own, k, c, last, right, safe)
                is_over = last < min(min(after, end) - origin, own.new_high)
                own.new_high = last if is_over else own.new_high
            elif own.slope < 0.0:
                begin = crossing(features, own, k, c, last, left, safe)
                if begin > c:
                    own.new_low = max(own.new_low, begin)
            if left >= safe:
                own.new_low = max(own.new_low, last)
            if right >= safe:
                own.new_high = min(own.new_high, c)
                is_over = True
            place = last - 1 if own.slope > 0.0 else max(c, own.new_low)
            if right >= safe or not max(c, own.new_low) <= place < last:
                continue
            if own.slope != 0.0:
                one, other = sloped(features, own, k, place)
                left, right = left + one, right + other
            one = max(scores[0] + left / scale, min_gain)
            other = max(scores[1] + right / scale, min_gain)
            if one * other > best and max(one, other) > min_gain:
                best, found = one * other, Cut(k, place, left, right, one <= other)
        if own.has_table:
            while take_event(room.event, origin + box[k], end) <= end:
                pass
        else:
            take_event(room.event, origin + box[k], origin + box[k])
    return found


@lean
def crossing(
    features: Features, own: Any, k: int, first: int, last: int, gain: float, safe: float
) -> int:
    """Return where the gain of a side that follows the slope crosses a limit, or ``last``.

    The right side gains the more, the later the cut, if the slope is positive; else the left side
    gains the less. ``gain`` is what the trees gain.
    """
    side = 1 if own.slope > 0.0 else 0
    while first < last:
        middle = (first + last) // 2
        value = gain + sloped(features, own, k, middle)[side]
        is_reached = value - UNIT * abs(value) >= safe
        if is_reached == (side == 1):
            last = middle
        else:
            first = middle + 1
    return last


@lean
def take_over(features: Features, box: Int32Array, now: Array) -> bool:
    """Make a box as narrow as noted; return whether it has changed."""
    p, any_changed = box.size // 2, False
    for k in range(p):
        now[k].is_changed = now[k].new_low > box[k] or now[k].new_high < box[p + k]
        any_changed |= now[k].is_changed
        box[k], box[p + k] = now[k].new_low, now[k].new_high
    if any_changed:
        all_ends(features, box, now)
    return any_changed


@lean
def any_cut(lists: Lists, level_sums: Array, box: Int32Array) -> Cut:
    """Return a cut that separates the best leaf of a tree from others."""
    p = box.size // 2
    for s in range(level_sums.size):
        own = level_sums[s]
        for t in range(own.n_trees):
            row = lists.arena[lists.arena[own.at + t]]
            for k in range(p):
                if lists.box[row, k] > box[k]:
                    return Cut(k, lists.box[row, k] - 1, 0.0, 0.0, True)
                if lists.box[row, p + k] < box[p + k]:
                    place = lists.box[row, p + k] + 0  # as int64
                    return Cut(k, place, 0.0, 0.0, True)
    return Cut(EMPTY, -1, 0.0, 0.0, True)
