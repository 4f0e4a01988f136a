"""Bounds that are valid for the models' floating-point predictions.

The search adds trees in float64 and in any order. A model adds them one by one in its own
precision. Two facts connect these sums:

- Rounded addition is monotone. If the model itself adds each tree's minimum over a box, the result
  is a lower bound on every prediction in the box, without any tolerance.
- The error of each addition is at most half a unit in the last place of its result. The sum that
  the model computes therefore differs from the true sum by at most `Certificate.model_error`.

A part of the grid is discarded without a record only if every true sum in it exceeds the true sum
of the best point by at least twice this error. Then no prediction in it can be better. A part that
is discarded with a smaller difference is a *tie*. Ties are decided by the first fact.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from treeopt.exact.box_lists import cut_features, first_meets
from treeopt.model.ensemble import Ensemble
from treeopt.model.link import IDENTITY
from treeopt.problem.leaves import Leaves
from treeopt.problem.prediction import Prediction
from treeopt.problem.sums import TreeSum
from treeopt.types import Array, FloatArray, Int32Array

LINK_ULPS = 4
"""Maximum error of a link other than the identity, in units in the last place."""

Extremes = tuple[Array, Array]
"""The leaf with the best value and the leaf with the worst value of each tree of a term."""


def extreme_leaves(ensemble: Ensemble, sign: float) -> Extremes:
    """Return the leaves with the best and the worst value of each tree, reachable or not."""
    order, start = ensemble.compiled.leaf_order, ensemble.compiled.leaf_start
    lowest, highest = order[start[:-1]], order[start[1:] - 1]
    return (lowest, highest) if sign > 0 else (highest, lowest)


class TermCertificate:
    """The range and the error of the sums that the model of one term computes.

    Attributes
    ----------
    low, high : arrays
        Minimum and maximum of the model's sum after each tree, including the base.
    """

    def __init__(self, term: TreeSum, extremes: Extremes) -> None:
        self.term, self.extremes = term, extremes
        sums = np.array([term.ensemble.own_sum(leaf) for leaf in extremes])
        self.low, self.high = sums.min(axis=0), sums.max(axis=0)

    @property
    def range(self) -> tuple[float, float]:
        """Minimum and maximum of the term in the prediction, including its weight."""
        low, high = float(self.low[-1]), float(self.high[-1])
        return (low, high) if self.term.weight > 0 else (-high, -low)

    def error(self, low: float = -np.inf, high: float = np.inf, tolerance: float = 0.0) -> float:
        """Return the maximum error of the model's sum, compared to the true sum of the leaves.

        Valid for points at which the weighted term is between ``low`` and ``high``, up to a
        tolerance. The error of each addition is at most half the distance to the next number. The
        range of each partial sum follows from that of the total, because the remaining trees are
        bounded too. With many trees, this range is much smaller than that of all points.
        """
        if np.isinf(low) and np.isinf(high):
            return half_steps(self.low, self.high)
        if self.term.weight < 0:
            low, high = -high, -low
        lowest = np.float64(low) - (self.high[-1] - self.high) - tolerance
        highest = np.float64(high) - (self.low[-1] - self.low) + tolerance
        lowest, highest = np.maximum(self.low, lowest), np.minimum(self.high, highest)
        dtype = self.low.dtype
        return half_steps(lowest.astype(dtype), highest.astype(dtype))


def half_steps(low: Array, high: Array) -> float:
    """Return half the distance to the next number, at the larger bound of each range, summed."""
    far = np.maximum(np.abs(low), np.abs(high))
    return float(np.spacing(far).astype(np.float64).sum() / 2)


class Certificate:
    """Converts bounds on true sums, as the search computes them, to bounds on predictions.

    Parameters
    ----------
    prediction : Prediction
        The function to optimize.
    leaves : Leaves or None
        The boxes of the search. If None, all leaves of the models are used.

    Attributes
    ----------
    search_error : float
        Maximum difference between a bound or value that the search computes and the true sum.
    model_error : float
        Maximum difference between a sum that the models compute and the true sum.
    tie_error : float
        Maximum amount by which a tie can be better than the best point.
    """

    def __init__(self, prediction: Prediction, leaves: Leaves | None) -> None:
        self.prediction, self.leaves, self.sign = prediction, leaves, prediction.sign
        terms = prediction.terms
        extremes = [extreme_leaves(term.ensemble, self.sign * term.weight) for term in terms]
        if leaves is not None:
            best, worst = leaves.extreme_leaves
            extremes = [(best[own], worst[own]) for own in self._trees]
        self.terms = [TermCertificate(term, own) for term, own in zip(terms, extremes, strict=True)]
        self.search_error = self._search_error()
        self._any_error = self.model_error = self._model_error(-np.inf, np.inf, 0.0)
        self.tie_error = self.search_error

    @property
    def _trees(self) -> list[slice]:
        """The trees of each term, if the trees of all terms are numbered consecutively."""
        counts = [term.ensemble.n_trees for term in self.prediction.terms]
        return [slice(a, b) for a, b in pairwise(np.cumsum([0, *counts]).tolist())]

    def _values(self, which: int) -> FloatArray:
        """Return the signed value of the best (0) or the worst (1) leaf of each tree."""
        values = [
            self.sign
            * own.term.weight
            * own.term.ensemble.compiled.leaf_value[own.extremes[which]].astype(np.float64)
            for own in self.terms
        ]
        return np.concatenate(values)

    def _search_error(self) -> float:
        values = np.abs(np.stack([self._values(0), self._values(1)]))
        largest = values.max(axis=0).sum() + abs(self.prediction.constant)
        # One addition per tree and a few more, in any order. The error of each is at most half a
        # unit in the last place of its result.
        n_additions = self.prediction.n_trees + 9
        return float(n_additions * largest * 2.0**-53)

    def _model_error(self, low: float, high: float, tolerance: float) -> float:
        """Return the maximum error of the models' sums at points whose true sum is in a range."""
        ranges = [own.range for own in self.terms]
        total_low, total_high = (sum(ends) for ends in zip(*ranges, strict=True))
        error = 0.0
        for own, (own_low, own_high) in zip(self.terms, ranges, strict=True):
            others_low, others_high = total_low - own_low, total_high - own_high
            error += own.error(low - others_high, high - others_low, tolerance)
        # The addition of the terms. A single term needs none; half a step more is harmless.
        as_dtype = self.prediction.dtype.type
        low, high = max(total_low, low - tolerance), min(total_high, high + tolerance)
        bounds = as_dtype(low), as_dtype(high)
        error += half_steps(*bounds)
        if self._divides_terms:
            # Each division rounds, and so does the addition of the quotients.
            largest = sum(max(map(abs, ends)) for ends in ranges) + float(max(map(abs, bounds)))
            error += largest * float(np.finfo(as_dtype).eps)
        return error

    @property
    def _divides_terms(self) -> bool:
        """Whether there are several terms, each of which is divided before they are added."""
        return len(self.terms) > 1 and self.prediction.divisor != 1

    @property
    def lowest(self) -> float:
        """The signed sum of the best leaves of all trees."""
        return float(self.sign * self.prediction.constant + self._values(0).sum())

    def tighten(self, lowest: float, value: float) -> None:
        """Reduce the errors, given that no signed sum is below ``lowest``.

        ``value`` is the signed sum of the best point. Errors at points that cannot be better than
        the best point are irrelevant.
        """
        off = self.search_error + self.tie_error
        bounds = lowest - off, value + 2 * self._any_error + off
        low, high = sorted(self.sign * bound for bound in bounds)
        self.model_error = self._model_error(low, high, 4 * self._any_error)

    @property
    def tie_tolerance(self) -> float:
        """Parts of the grid whose sums exceed the best one by this or more cannot be better."""
        return 2 * self.model_error + 4 * self.search_error

    @property
    def rounding(self) -> float:
        """Maximum distance between a proven optimum and its bound, in units of the margin."""
        total = self.model_error + self.search_error + self.tie_error
        return 2 * total / self.prediction.divisor

    def margin_of(self, total: float) -> float:
        """Return the minimum margin of points whose true sum is at least ``total``; both signed."""
        dtype = self.prediction.dtype.type
        lowest = total - self.model_error - self.search_error
        if not np.isfinite(lowest):
            return lowest
        if self._divides_terms:
            return float(np.nextafter(lowest / self.prediction.divisor, -np.inf))
        # The sum that the models compute is a number in their own precision.
        rounded = dtype(lowest)
        if float(rounded) < lowest:
            rounded = np.nextafter(rounded, dtype(np.inf))
        return float(rounded / dtype(self.prediction.divisor))

    def margin_of_box(self, box: Int32Array) -> float:
        """Return the signed sum, in the models' arithmetic, of each tree's minimum over a box."""
        if self.leaves is None:
            raise ValueError("the boxes are not listed yet")
        # Bounds must be valid even if the search must end, so the flag is ignored here.
        leaves = self.leaves._replace(stop=np.zeros(1, np.int64))
        cut = np.empty(box.size // 2, np.int64)
        first = np.empty(leaves.start.size - 1, np.int64)
        if not first_meets(leaves, box, cut, cut_features(leaves, box, cut), first):
            return np.inf
        best = leaves.leaf[first]
        totals = [
            term.divided(term.ensemble.own_sum(best[own])[-1])
            for term, own in zip(self.prediction.terms, self._trees, strict=True)
        ]
        return self.sign * float(self.prediction.add(totals))

    def prediction_of(self, margin: float) -> float:
        """Return a bound on the predictions, given a bound on the signed margin."""
        link = self.prediction.link
        value = link(np.array([self.sign * margin], self.prediction.dtype))[0]
        if link == IDENTITY or np.isinf(value):
            return float(value)
        # Weaken the bound by the rounding error of the link.
        return float(value) - self.prediction.sense * LINK_ULPS * link.last_place(value)
