"""What each cut of a node's box would bring: bounds of both sides of all cuts in one pass.

Without a cut a tree's best box is the first of its list. A cut along a feature that leaves the
first box on one side forces the tree on the other side to the first box that reaches over there.
Walking down the list, each box that reaches further than all before it adds its loss to a range of
cuts; difference arrays collect these ranges from all trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import is_set, kernel

# The places of what `examine` reports as whole numbers and as numbers.
FEATURE, CUT, NARROWED, WORK = range(4)
LEFT, RIGHT = range(2)

SOLVED, BRANCH, NARROW, EMPTY = range(4)

LEAST_GAIN = 1e-6
"""A side that gains nothing counts as gaining this part of the slack."""


@kernel
def examine(
    table_value: Any,
    table_box: Any,
    arena: Any,
    at: Any,
    n_trees: Any,
    box: Any,
    slack: Any,
    place_start: Any,
    loss: Any,
    changed: Any,
    whole: Any,
    real: Any,
    halt: Any,
) -> Any:
    """Look at all cuts of a node.

    ``slack`` is how much worse than the node's bound a point may be. Narrows ``box`` where one side
    of a cut holds no such point, and says along which features in ``changed``. Otherwise finds the
    best cut; or that no cut is needed, because the best boxes of all trees have a point in common.

    ``loss`` has two rows of one number per place; what is in there on entry does not matter.
    ``halt`` is the flag that ends it. Returns SOLVED (``box`` is what they have in common), BRANCH,
    NARROW, or EMPTY if no such point is left.
    """
    p = box.size // 2
    touched = np.zeros(p, np.int64)
    sum_of_losses = np.zeros(p)
    new_low = np.empty(p, np.int32)
    new_high = np.empty(p, np.int32)
    common_low = np.empty(p, np.int32)
    common_high = np.empty(p, np.int32)
    for k in range(p):
        new_low[k] = common_low[k] = box[k]
        new_high[k] = common_high[k] = box[p + k]
    active = np.empty(p, np.int64)
    reach_low = np.empty(p, np.int64)
    reach_high = np.empty(p, np.int64)
    work = 0
    for t in range(n_trees):
        s = arena[at + t]
        stop = arena[at + t + 1]
        row = arena[s]
        best = table_value[row]
        n_active = 0
        for k in range(p):
            low, high = table_box[row, k], table_box[row, p + k]
            if low > box[k] or high < box[p + k]:
                common_low[k] = max(common_low[k], low)
                common_high[k] = min(common_high[k], high)
                active[n_active] = k
                reach_low[n_active] = max(low, box[k])
                reach_high[n_active] = min(high, box[p + k])
                n_active += 1
        s += 1
        while n_active > 0 and s < stop:
            row = arena[s]
            s += 1
            lost = table_value[row] - best
            if lost >= slack:
                break
            if is_set(halt):
                return EMPTY
            a = 0
            work += n_active
            while a < n_active:
                k = active[a]
                low = max(table_box[row, k], box[k])
                high = min(table_box[row, p + k], box[p + k])
                if low < reach_low[a] or high > reach_high[a]:
                    origin = place_start[k]
                    if touched[k] == 0:
                        for c in range(origin + box[k], origin + box[p + k] + 1):
                            loss[0, c] = 0.0
                            loss[1, c] = 0.0
                    touched[k] += 1
                    sum_of_losses[k] += lost
                    if low < reach_low[a]:
                        loss[0, origin + low] += lost
                        loss[0, origin + reach_low[a]] -= lost
                        reach_low[a] = low
                    if high > reach_high[a]:
                        loss[1, origin + reach_high[a]] += lost
                        loss[1, origin + high] -= lost
                        reach_high[a] = high
                    if reach_low[a] == box[k] and reach_high[a] == box[p + k]:
                        n_active -= 1
                        active[a] = active[n_active]
                        reach_low[a] = reach_low[n_active]
                        reach_high[a] = reach_high[n_active]
                        continue
                a += 1
        # Nothing that matters reaches further.
        for a in range(n_active):
            k = active[a]
            new_low[k] = max(new_low[k], reach_low[a])
            new_high[k] = min(new_high[k], reach_high[a])

    least = LEAST_GAIN * slack
    best_score = -1.0
    for k in range(p):
        if touched[k] == 0:
            continue
        # What the sums over the difference arrays may be off by: each event is two additions.
        off = 2.0**-52 * (2 * touched[k] + 2) * sum_of_losses[k]
        safe = slack + off
        origin = place_start[k]
        left, right = 0.0, 0.0
        work += box[p + k] - box[k]
        for c in range(box[k], box[p + k]):
            left += loss[0, origin + c]
            right += loss[1, origin + c]
            if left >= safe:
                new_low[k] = max(new_low[k], c + 1)
            if right >= safe:
                new_high[k] = min(new_high[k], c)
                break
            score = max(left, least) * max(right, least)
            if score > best_score:
                best_score = score
                whole[FEATURE], whole[CUT] = k, c
                real[LEFT], real[RIGHT] = left - off, right - off
    whole[WORK] = work
    n = 0
    for k in range(p):
        if new_low[k] > new_high[k]:
            return EMPTY
        if new_low[k] > box[k] or new_high[k] < box[p + k]:
            box[k], box[p + k] = new_low[k], new_high[k]
            changed[n] = k
            n += 1
    whole[NARROWED] = n
    if n > 0:
        return NARROW
    apart = -1
    for k in range(p):
        if common_low[k] > common_high[k]:
            apart = k
    if apart < 0:
        for k in range(p):
            box[k], box[p + k] = common_low[k], common_high[k]
        return SOLVED
    if best_score <= least * least:
        whole[FEATURE], whole[CUT] = apart, common_high[apart]
        real[LEFT], real[RIGHT] = 0.0, 0.0
    return BRANCH
