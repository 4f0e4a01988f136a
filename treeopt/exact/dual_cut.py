"""Choose the cut to branch on in a search with the dual bound.

Cuts are compared by the plain bound. For each pair whose limits include the tree's best box, the
loss of a segment is how much worse the tree is if the point has to lie there. Difference arrays add
up, over all pairs of a feature, the losses at each place, and those of the left and right side of
each cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.exact.dual_part import LARGE, Part
from treeopt.kernels.jit import inlined, is_set, kernel

if TYPE_CHECKING:
    from treeopt.types import BoolArray, FloatArray


class CutLosses(NamedTuple):
    """Losses as differences, with one entry more than places for each feature.

    Attributes
    ----------
    here : float64 array
        Loss if the point lies at a place.
    left, right : float64 arrays
        Losses of the left and right side of the cut after a place.
    """

    here: FloatArray
    left: FloatArray
    right: FloatArray


@kernel
def choose_cut(part: Part, min_gain: float, cutoff: float, keep: BoolArray) -> tuple[int, int]:
    """Return the cut with the largest product of both sides' gains of the plain bound.

    That is the feature and the last place on the left. A gain counts as at least ``min_gain``.
    Removes places from ``keep`` whose plain bound reaches ``cutoff``, which sometimes excludes more
    than the prices do.
    """
    p = part.place_start.size - 1
    size = part.place_start[p] + p + 1
    losses = CutLosses(np.zeros(size), np.zeros(size), np.zeros(size))
    bound = add_losses(part, losses)
    if is_set(part.stop):
        return -1, -1
    best_score, feature, at = -1.0, -1, -1
    for j in range(p):
        total = bound
        for c in range(part.place_start[j], part.place_start[j + 1]):
            total += losses.here[c + j]
            if total >= cutoff:
                keep[c] = False
        to_left, to_right = 0.0, 0.0
        for c in range(part.place_start[j], part.place_start[j + 1] - 1):
            to_left += losses.left[c + j]
            to_right += losses.right[c + j]
            score = max(to_left, min_gain) * max(to_right, min_gain)
            if score > best_score:
                best_score, feature, at = score, j, c
    return feature, at


@inlined
def add_losses(part: Part, losses: CutLosses) -> float:
    """Add the losses of all pairs; return the plain bound."""
    most = 1
    for q in range(part.pair_feature.size):
        most = max(most, part.segment_start[q + 1] - part.segment_start[q])
    loss = np.empty(most)
    is_limited = np.zeros(part.value.size, np.bool_)
    bound: float = 0.0
    for t in range(part.tree_start.size - 1):
        best = part.tree_start[t]
        for i in range(best, part.tree_start[t + 1]):
            if part.value[i] < part.value[best]:
                best = i
        bound += part.value[best]
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            if is_set(part.stop):
                return bound
            matters = False
            for i in range(part.limit_start[q], part.limit_start[q + 1]):
                matters = matters or part.box[i] == best
            if matters:
                take_losses(part, t, q, part.value[best], loss, is_limited)
                spread_losses(part, q, loss, losses)
    return bound


@inlined
def take_losses(
    part: Part, t: int, q: int, lowest: float, loss: FloatArray, is_limited: BoolArray
) -> None:
    """Write how much worse than ``lowest`` a tree is at each segment of one of its pairs."""
    a = part.segment_start[q]
    n = part.segment_start[q + 1] - a
    for s in range(n):
        loss[s] = LARGE
    for i in range(part.limit_start[q], part.limit_start[q + 1]):
        if is_set(part.stop):
            return
        is_limited[part.box[i]] = True
        for s in range(part.from_[i] - a, part.to[i] - a + 1):
            loss[s] = min(loss[s], part.value[part.box[i]])
    everywhere = LARGE
    for i in range(part.tree_start[t], part.tree_start[t + 1]):
        if is_limited[i]:
            is_limited[i] = False
        else:
            everywhere = min(everywhere, part.value[i])
    for s in range(n):
        loss[s] = min(loss[s], everywhere) - lowest


@inlined
def spread_losses(part: Part, q: int, loss: FloatArray, losses: CutLosses) -> None:
    """Add the losses of a pair's segments to its places and to both sides of its cuts."""
    here, left, right = losses.here, losses.left, losses.right
    j, a = part.pair_feature[q], part.segment_start[q]
    n = part.segment_start[q + 1] - a
    origin = part.place_start[j] + j
    before, so_far, before_left = 0.0, LARGE, 0.0
    for s in range(n):
        here[origin + part.first[a + s]] += loss[s] - before
        before = loss[s]
        so_far = min(so_far, loss[s])
        left[origin + part.first[a + s]] += so_far - before_left
        before_left = so_far
    # A cut after place c leaves what begins behind it.
    so_far = LARGE
    end = part.place_start[j + 1] - part.place_start[j] - 1
    for s in range(n - 1, -1, -1):
        so_far = min(so_far, loss[s])
        begin = max(part.first[a + s] - 1, 0)
        right[origin + begin] += so_far
        right[origin + end] -= so_far
        end = begin
