"""Bounds that are true of the models' floating-point predictions.

The search adds trees in another order and in float64; a model adds them one by one in its own
precision. Two facts connect the two. Rounded addition is monotone: so the model's own sum of each
tree's minimum over a box is a bound on every prediction in the box, without any tolerance. And each
addition of the model is off by at most half a unit in the last place of its result: so the sum that
the model computes differs from the true one by at most `Certificate.model_error`.

A part of the grid is dropped without a record only if every true sum in it exceeds that of the best
point by at least twice this error, so that no prediction there can be better. What is dropped
closer than that is a *tie*, and is judged by the model's own sum of minima.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from treeopt.exact.lists import cut_features, first_meets
from treeopt.model.ensemble import Ensemble
from treeopt.model.link import IDENTITY
from treeopt.problem.leaves import Leaves
from treeopt.problem.objective import Objective
from treeopt.problem.terms import ModelTerm
from treeopt.types import Array, FloatArray, Int32Array

LINK_ULPS = 4
"""A link other than the identity is computed to within this many units in the last place."""

Ends = tuple[Array, Array]
"""The leaves with the best and the worst value of each tree of a term."""


def ends_of(ensemble: Ensemble, sign: float) -> Ends:
    """Return the leaves with the best and the worst value of each tree, reachable or not."""
    order, start = ensemble.compiled.leaf_order, ensemble.compiled.leaf_start
    lowest, highest = order[start[:-1]], order[start[1:] - 1]
    return (lowest, highest) if sign > 0 else (highest, lowest)


class TermCertificate:
    """What one term's own sums may be, and how far they may be from the true ones.

    Attributes
    ----------
    low, high : arrays
        Minimum and maximum of the model's sum after each tree, the base included.
    """

    def __init__(self, term: ModelTerm, ends: Ends) -> None:
        self.term, self.ends = term, ends
        sums = np.array([term.ensemble.own_sum(leaf) for leaf in ends])
        self.low, self.high = sums.min(axis=0), sums.max(axis=0)

    @property
    def range(self) -> tuple[float, float]:
        """The minimum and maximum of what the term adds to the objective."""
        low, high = float(self.low[-1]), float(self.high[-1])
        return (low, high) if self.term.weight > 0 else (-high, -low)

    def error(self, low: float = -np.inf, high: float = np.inf, slack: float = 0.0) -> float:
        """Return how far the model's sum may be from the true sum of the leaves.

        Valid for points at which the term adds something between ``low`` and ``high``, give or
        take ``slack``. Each addition is off by at most half the distance to the next number. With
        many trees, few points come near the ends of the partial sums: what a partial sum lacks of
        the whole is limited too.
        """
        if np.isinf(low) and np.isinf(high):
            return half_steps(self.low, self.high)
        if self.term.weight < 0:
            low, high = -high, -low
        lowest = np.float64(low) - (self.high[-1] - self.high) - slack
        highest = np.float64(high) - (self.low[-1] - self.low) + slack
        lowest, highest = np.maximum(self.low, lowest), np.minimum(self.high, highest)
        dtype = self.low.dtype
        return half_steps(lowest.astype(dtype), highest.astype(dtype))


def half_steps(low: Array, high: Array) -> float:
    """Return the sum of half the distances to the next number, at the larger ends of ranges."""
    far = np.maximum(np.abs(low), np.abs(high))
    return float(np.spacing(far).astype(np.float64).sum() / 2)


class Certificate:
    """Turns true sums, as the search has them, into bounds on predictions.

    Parameters
    ----------
    objective : Objective
        What is optimized.
    leaves : Leaves or None
        The boxes of the search. If None, all leaves of the models count.

    Attributes
    ----------
    search_error : float
        How far a bound or value that the search computes may be from the true sum.
    model_error : float
        How far a sum that the models compute may be from the true one.
    tie_error : float
        How much better than the best point a tie may be.
    """

    def __init__(self, objective: Objective, leaves: Leaves | None) -> None:
        self.objective, self.leaves, self.sign = objective, leaves, objective.sign
        terms = objective.terms
        ends = [ends_of(term.ensemble, self.sign * term.weight) for term in terms]
        if leaves is not None:
            best, worst = leaves.ends
            ends = [(best[own], worst[own]) for own in self._trees]
        self.terms = [TermCertificate(term, own) for term, own in zip(terms, ends, strict=True)]
        self.search_error = self._search_error()
        self._any_error = self.model_error = self._model_error(-np.inf, np.inf, 0.0)
        self.tie_error = self.search_error

    @property
    def _trees(self) -> list[slice]:
        """The trees of each term, if those of all terms are numbered through."""
        counts = [term.ensemble.n_trees for term in self.objective.terms]
        return [slice(a, b) for a, b in pairwise(np.cumsum([0, *counts]).tolist())]

    def _values(self, end: int) -> FloatArray:
        """Return the signed values of the best (0) or the worst (1) leaf of each tree."""
        values = [
            self.sign
            * own.term.weight
            * own.term.ensemble.compiled.leaf_value[own.ends[end]].astype(np.float64)
            for own in self.terms
        ]
        return np.concatenate(values)

    def _search_error(self) -> float:
        values = np.abs(np.stack([self._values(0), self._values(1)]))
        largest = values.max(axis=0).sum() + abs(self.objective.constant)
        # One addition per tree and a few more, in any order; each is off by half a unit in the last
        # place of its result.
        n_additions = self.objective.n_trees + 9
        return float(n_additions * largest * 2.0**-53)

    def _model_error(self, low: float, high: float, slack: float) -> float:
        """Return the error of the models' sums at points whose true sum is in a range."""
        ranges = np.array([own.range for own in self.terms])
        total_low, total_high = ranges.sum(axis=0)
        error = 0.0
        for own, (own_low, own_high) in zip(self.terms, ranges, strict=True):
            others_low, others_high = total_low - own_low, total_high - own_high
            error += own.error(low - others_high, high - others_low, slack)
        # The addition of the terms: of a single one, half a step more than there is.
        ends = np.array([max(total_low, low - slack), min(total_high, high + slack)])
        ends = ends.astype(self.objective.dtype)
        error += half_steps(ends[:1], ends[1:])
        if self._divides_terms:
            # Each term is divided by itself, and so is what is left of their sum.
            largest = np.abs(ranges).max(axis=1).sum() + np.abs(ends).max()
            error += float(largest) * float(np.finfo(self.objective.dtype).eps)
        return error

    @property
    def _divides_terms(self) -> bool:
        """Whether several terms are divided one by one before they are added."""
        return len(self.terms) > 1 and self.objective.divisor != 1

    @property
    def lowest(self) -> float:
        """The signed sum if every tree is at its best."""
        return float(self.sign * self.objective.constant + self._values(0).sum())

    def tighten(self, lowest: float, value: float) -> None:
        """Use that no signed sum is below ``lowest``, and that of the best point is ``value``.

        Errors at points that cannot be better than the best one do not matter.
        """
        off = self.search_error + self.tie_error
        ends = lowest - off, value + 2 * self._any_error + off
        low, high = sorted(self.sign * end for end in ends)
        self.model_error = self._model_error(low, high, 4 * self._any_error)

    @property
    def rounding(self) -> float:
        """The maximum distance of a proven optimum and its bound, in units of the margin."""
        total = self.model_error + self.search_error + self.tie_error
        return 2 * total / self.objective.divisor

    def margin_of(self, total: float) -> float:
        """Return the minimum margin of points whose true sum is at least ``total``; both signed."""
        dtype = self.objective.dtype.type
        lowest = total - self.model_error - self.search_error
        if not np.isfinite(lowest):
            return lowest
        if self._divides_terms:
            return float(np.nextafter(lowest / self.objective.divisor, -np.inf))
        # The sum that the models compute is a number of their own precision.
        rounded = dtype(lowest)
        if float(rounded) < lowest:
            rounded = np.nextafter(rounded, dtype(np.inf))
        return float(rounded / dtype(self.objective.divisor))

    def margin_of_box(self, box: Int32Array) -> float:
        """Return the models' own signed sum of each tree's minimum over a box of places."""
        if self.leaves is None:
            raise ValueError("the boxes are not listed yet")
        # Bounds must be right even if the search has to end, so the flag does not count here.
        leaves = self.leaves._replace(stop=np.zeros(1, np.int64))
        cut = np.empty(box.size // 2, np.int64)
        first = np.empty(leaves.start.size - 1, np.int64)
        if not first_meets(leaves, box, cut, cut_features(leaves, box, cut), first):
            return np.inf
        best = leaves.leaf[first]
        totals = [
            term.divided(term.ensemble.own_sum(best[own])[-1])
            for term, own in zip(self.objective.terms, self._trees, strict=True)
        ]
        return self.sign * float(self.objective.add(totals))

    def prediction_of(self, margin: float) -> float:
        """Return a bound on predictions from one on the signed margin."""
        link = self.objective.link
        value = link(np.array([self.sign * margin], self.objective.dtype))[0]
        if link == IDENTITY or np.isinf(value):
            return float(value)
        # Whichever way is worse for the user, by the rounding of the link.
        return float(value) - self.objective.sense * LINK_ULPS * link.last_place(value)
