"""Choose the cut to branch on in a search with the dual bound.

Cuts are compared by the plain bound. For each pair whose spans include the tree's best box, the
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
    loss = np.empty(part.lam.size)
    matters = np.zeros(part.pair_feature.size, np.bool_)
    bound = take_losses(part, loss, matters)
    if is_set(part.stop):
        return -1, -1
    spread_losses(part, loss, matters, losses)
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
def take_losses(part: Part, loss: FloatArray, matters: BoolArray) -> float:
    """Write how much worse a tree is at each segment of its pairs; return the plain bound.

    Only pairs with a span of the tree's best box matter; others have no losses.
    """
    value, box, from_, to = part.value, part.box, part.from_, part.to
    has_span = np.zeros(value.size, np.bool_)
    bound: float = 0.0
    for t in range(part.tree_start.size - 1):
        first_box, end_box = part.tree_start[t], part.tree_start[t + 1]
        best = first_box
        for i in range(first_box, end_box):
            if value[i] < value[best]:
                best = i
        bound += value[best]
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            if is_set(part.stop):
                return bound
            first_span, end_span = part.span_start[q], part.span_start[q + 1]
            for i in range(first_span, end_span):
                matters[q] = matters[q] or box[i] == best
            if not matters[q]:
                continue
            a, z = part.segment_start[q], part.segment_start[q + 1]
            for s in range(a, z):
                loss[s] = LARGE
            for i in range(first_span, end_span):
                if is_set(part.stop):
                    return bound
                has_span[box[i]] = True
                for s in range(from_[i], to[i] + 1):
                    loss[s] = min(loss[s], value[box[i]])
            everywhere = LARGE
            for i in range(first_box, end_box):
                if has_span[i]:
                    has_span[i] = False
                else:
                    everywhere = min(everywhere, value[i])
            for s in range(a, z):
                loss[s] = min(loss[s], everywhere) - value[best]
    return bound


@inlined
def spread_losses(part: Part, loss: FloatArray, matters: BoolArray, losses: CutLosses) -> None:
    """Add the losses of segments to their places and to both sides of the cuts."""
    here, left, right, first = losses.here, losses.left, losses.right, part.first
    for q in range(matters.size):
        if not matters[q]:
            continue
        j, a, z = part.pair_feature[q], part.segment_start[q], part.segment_start[q + 1]
        origin = part.place_start[j] + j
        before, so_far, so_far_before = 0.0, LARGE, 0.0
        for s in range(a, z):
            here[origin + first[s]] += loss[s] - before
            before = loss[s]
            so_far = min(so_far, loss[s])
            left[origin + first[s]] += so_far - so_far_before
            so_far_before = so_far
        # A cut after place c leaves what begins behind it.
        so_far = LARGE
        end = part.place_start[j + 1] - part.place_start[j] - 1
        for s in range(z - 1, a - 1, -1):
            so_far = min(so_far, loss[s])
            begin = max(first[s] - 1, 0)
            right[origin + begin] += so_far
            right[origin + end] -= so_far
            end = begin
