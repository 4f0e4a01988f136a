"""Bounds that are true of the model's floating-point predictions.

The search adds trees in another order and in float64; the model adds them one by one in its own
precision. Two facts connect the two. Rounded addition is monotone: so the model's own sum of each
tree's least value over a box is a bound on every prediction in the box, with no tolerance at all.
And each addition of the model is off by at most half a unit of the last place of its result: so
the sum that the model computes differs from the true one by no more than `model_rounding`.

A part of the grid is given up without a record only if every true sum in it is above that of the
best point by at least twice this margin, so that no prediction there can be better. What is given
up closer than that is a *tie*, and is judged by the model's own sum of least values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from treeopt.errors import UnsupportedModelError
from treeopt.exact.lists import cut_features, first_meets
from treeopt.model.link import IDENTITY

if TYPE_CHECKING:
    from treeopt.model.ensemble import Ensemble
    from treeopt.problem.leaves import Leaves
    from treeopt.types import Array

MAX_SUM = {np.dtype(np.float32): float(np.finfo(np.float32).max) / 2, np.dtype(np.float64): 1e290}
"""Sums of each precision must stay below this. Half the largest float32 leaves room for rounding.
The search itself needs room in float64: prices grow to 64 times the largest sum, and must stay
below `dual.LARGE`."""

LINK_ULPS = 4
"""A link other than the identity is computed to within so many units of the last place."""


def largest_sum(ensemble: Ensemble) -> float:
    """Return S, which no sum that the model computes for any input exceeds but by rounding.

    S is ``|base| + |tail_base|`` plus the largest ``|value|`` among the leaves of each tree; or
    that divided by the divisor, if this is larger.
    """
    e = ensemble
    with np.errstate(over="ignore"):
        total = e.compiled.largest_leaves + abs(e.base) + abs(e.tail_base)
        return float(max(total, total / e.divisor))


def check_sums(ensemble: Ensemble) -> None:
    """Refuse a model whose own sums may overflow: `largest_sum` must be below `MAX_SUM`.

    An infinite sum, or a difference of two, is no longer monotone in the leaves' values, and no
    bound would hold.
    """
    largest, dtype = largest_sum(ensemble), ensemble.value.dtype
    if not largest < MAX_SUM[dtype]:
        raise UnsupportedModelError(
            f"{ensemble.source} may overflow: its sums in {dtype} may reach {largest:.3g}, and "
            f"decisions need them to stay below {MAX_SUM[dtype]:.3g}. Train the model on a scaled "
            "target, such as y / 1e10."
        )


def partial_sums(ensemble: Ensemble, ends: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the least and the largest that each of the model's sums on the way can be.

    ``ends`` are the leaves with the least and the largest value of each tree, in either order. The
    last sum is the total.
    """
    sums = np.array([np.hstack(ensemble.own_sum(leaf)) for leaf in ends])
    return sums.min(axis=0), sums.max(axis=0)


def model_rounding(sums: tuple[Array, Array], low: float = -np.inf, high: float = np.inf) -> float:
    """Return how far the model's sum may be from the true sum of the leaves.

    Meant are all points whose true sum lies between ``low`` and ``high``. Partial sums lie between
    their ends; half the distance to the next number, at the larger of the two, is the most that an
    addition is off by. And what a partial sum lacks of the whole is limited too, so with many trees
    few points come near to these ends.
    """
    least, largest = sums
    off = _half_steps(least, largest)
    if np.isinf(low) and np.isinf(high):
        return off
    # Each of the sums that are combined here, and the result, is off by that much.
    lowest = np.maximum(least, np.float64(low) - (largest[-1] - largest) - 4 * off)
    highest = np.minimum(largest, np.float64(high) - (least[-1] - least) + 4 * off)
    return _half_steps(lowest.astype(least.dtype), highest.astype(least.dtype))


def _half_steps(least: Array, largest: Array) -> float:
    """Return the sum of half the distances to the next number, at the larger ends of ranges."""
    far = np.maximum(np.abs(least), np.abs(largest))
    return float(np.spacing(far).astype(np.float64).sum() / 2)


def search_rounding(ensemble: Ensemble, ends: tuple[Array, Array]) -> float:
    """Return how far a bound or a value that the search computes may be from the true sum."""
    values = np.abs(ensemble.compiled.leaf_value[np.array(ends)].astype(np.float64))
    largest = values.max(axis=0).sum() + abs(ensemble.base + ensemble.tail_base)
    # One addition per tree and a few more, in any order; each is off by half a unit of the last
    # place of its result.
    n_additions = ensemble.n_trees + 9
    return float(n_additions * largest * 2.0**-53)


def ends_of(ensemble: Ensemble, sign: float) -> tuple[Array, Array]:
    """Return the leaves with the best and the worst value of each tree, reachable or not."""
    order, start = ensemble.compiled.leaf_order, ensemble.compiled.leaf_start
    least, largest = order[start[:-1]], order[start[1:] - 1]
    return (least, largest) if sign > 0 else (largest, least)


class Certificate:
    """Turns true sums, as the search has them, into bounds on predictions.

    If boxes are not listed yet, all leaves count.
    """

    def __init__(self, ensemble: Ensemble, leaves: Leaves | None, sign: float) -> None:
        self.ensemble, self.leaves, self.sign = ensemble, leaves, sign
        self.ends = ends_of(ensemble, sign) if leaves is None else leaves.ends
        self.noise = search_rounding(ensemble, self.ends)
        self.sums = partial_sums(ensemble, self.ends)
        self.plain = self.margin = model_rounding(self.sums)
        self.extra = self.noise  # what ties of the search may be better by

    @property
    def least(self) -> float:
        """The sum if every tree is at its best, with the sign of the search."""
        e = self.ensemble
        values = e.compiled.leaf_value[self.ends[0]].astype(np.float64)
        return float(self.sign * (e.base + e.tail_base) + (self.sign * values).sum())

    def tighten(self, least: float, value: float) -> None:
        """Use that no sum is below ``least``, and that the best point's is ``value``.

        What may be off at points that cannot be better than the best one does not matter.
        """
        noise = self.noise + self.extra
        ends = least - noise, value + 2 * self.plain + noise
        self.margin = model_rounding(self.sums, *sorted(self.sign * end for end in ends))

    @property
    def rounding(self) -> float:
        """The most that a proven optimum and its bound can differ by, in units of the margin."""
        return 2 * (self.margin + self.noise + self.extra) / self.ensemble.divisor

    def margin_of(self, total: float) -> float:
        """Return the least margin of the model whose true sum is no better than ``total``.

        ``total`` has the sign of the search, and so has the result.
        """
        dtype = self.ensemble.value.dtype.type
        least = total - self.margin - self.noise
        if not np.isfinite(least):
            return least
        # The model's sum is a number of its own precision.
        rounded = dtype(least)
        if float(rounded) < least:
            rounded = np.nextafter(rounded, dtype(np.inf))
        return float(rounded / dtype(self.ensemble.divisor))

    def margin_of_box(self, box: Array) -> float:
        """Return the model's own sum of each tree's least value over a box of places."""
        # Bounds are wanted, and must be right, when the search has to end.
        leaves = cast("Leaves", self.leaves)._replace(stop=np.zeros(1, np.int64))
        cut = np.empty(box.size // 2, np.int64)
        first = np.empty(leaves.start.size - 1, np.int64)
        if not first_meets(leaves, box, cut, cut_features(leaves, box, cut), first):
            return np.inf
        total = self.ensemble.own_sum(leaves.leaf[first])[2]
        return self.sign * float(total / self.ensemble.value.dtype.type(self.ensemble.divisor))

    def prediction_of(self, margin: float) -> float:
        """Return a bound on predictions from one on the margin, which has the search's sign."""
        e = self.ensemble
        value = e.link(np.array([self.sign * margin], e.value.dtype))[0]
        if e.link == IDENTITY or np.isinf(value):
            return float(value)
        # Whichever way is worse for the user, by the rounding of the link.
        sense = self.sign if e.link.increasing else -self.sign
        return float(value) - sense * LINK_ULPS * e.link.last_place(value)
