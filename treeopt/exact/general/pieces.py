"""Parts of a box, and what is known of them without a linear program.

A box in which all predictions are constant is a `Piece` at first, and is divided into smaller ones.
Here are the costs of the features of a piece, its rows, and the bound that multipliers give. That
bound follows by weak duality, with rounding errors on the safe side.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from treeopt.exact.general.bounds import UNIT
from treeopt.exact.general.exact_multipliers import exact_multipliers
from treeopt.exact.general.statement import HUGE, OPEN
from treeopt.exact.general.stating import Stated
from treeopt.types import FloatArray, IntArray

NO_PLACES, NO_NUMBERS = np.empty(0, np.int64), np.empty(0)
NOISE = 1e-9
"""Relative size of what multipliers leave of a cost if this is only rounding."""

ROUNDS = 3
"""Rounds of propagation of the rows of a piece."""


class Piece(NamedTuple):
    """A part of a box: places of each feature, bounds on their numbers, and rows that must hold."""

    first: IntArray
    last: IntArray
    low: FloatArray
    high: FloatArray
    rows: tuple[int, ...]


NO_PIECE = Piece(NO_PLACES, NO_PLACES, NO_NUMBERS, NO_NUMBERS, ())
"""A piece without points."""

Hulls = list[tuple[float, float]]
"""The minimum and maximum number of each feature in a piece."""


class Pieces:
    """What is known of the pieces of one problem.

    Parameters
    ----------
    stated : Stated
        The problem as arrays.
    """

    def __init__(self, stated: Stated) -> None:
        self.stated, statement = stated, stated.statement
        self.features, self.rows, self.logic = statement.features, statement.rows, statement.logic
        self.p = stated.columns.size
        self.must = tuple(np.flatnonzero(~self.rows.row["is_literal"]).tolist())
        self.written = [*stated.rows, *stated.literal_rows]
        self.conditions = stated.problem.input_conditions

    def whole(self, box: Any) -> Piece:
        """Return a box as a piece: first places of all features, then last places."""
        p = self.p
        first, last = box[:p].astype(np.int64), box[p:].astype(np.int64)
        return Piece(first, last, np.full(p, -np.inf), np.full(p, np.inf), self.must)

    def hulls(self, piece: Piece) -> Hulls:
        """Return the minimum and maximum number of each feature in a piece."""
        return [self.hull(piece, k) for k in range(self.p)]

    # Costs

    def cost(self, k: int, x: float, place: int, slope: float = 0.0) -> float:
        """Return the cost of a feature at a number, plus ``slope * x``."""
        f = self.features
        if f.feature["has_table"][k]:
            return float(f.place["table"][f.feature["place_start"][k] + place])
        total = (f.feature["slope"][k] + slope) * x
        for i in range(f.feature["kink_start"][k], f.feature["kink_end"][k]):
            total += f.kink["weight"][i] * abs(x - f.kink["at"][i])
            total += f.kink["fee"][i] if x != f.kink["at"][i] else 0.0
        return float(total)

    def cost_size(self, k: int, x: float, place: int) -> float:
        """Return the sum of the absolute terms of the cost of a feature at a number."""
        f = self.features
        if f.feature["has_table"][k]:
            return abs(self.cost(k, x, place))
        own = f.kink[int(f.feature["kink_start"][k]) : int(f.feature["kink_end"][k])]
        terms = np.abs(own["weight"]) * (abs(x) + np.abs(own["at"])) + np.abs(own["fee"])
        return float(f.feature["size"][k] * abs(x) + terms.sum())

    def hidden(self, slopes: FloatArray) -> FloatArray:
        """Return what cancels in the cost per unit of each feature; ``slopes`` are added to it."""
        own = self.features.feature
        hidden: FloatArray = own["size"] + np.abs(slopes) - np.abs(own["slope"] + slopes)
        return np.maximum(hidden, 0.0)

    def candidates(self, piece: Piece, k: int) -> list[tuple[float, int]]:
        """Return numbers among which a cost is minimal, with their places."""
        f, first, last = self.features, int(piece.first[k]), int(piece.last[k])
        origin, found = int(f.feature["place_start"][k]), []
        # The numbers of ordered places are taken together; the gaps between them do no harm.
        together = f.feature["ordered"][k] and not f.feature["has_table"][k]
        for a, b in [(first, last)] if together else [(c, c) for c in range(first, last + 1)]:
            low = max(float(f.place["low"][origin + a]), float(piece.low[k]))
            high = min(float(f.place["high"][origin + b]), float(piece.high[k]))
            found += [(low, a), (high, b)] if low <= high else []
        for i in range(int(f.feature["stop_start"][k]), int(f.feature["stop_end"][k])):
            at, c = float(f.stop["at"][i]), int(f.stop["place"][i])
            if first <= c <= last and piece.low[k] <= at <= piece.high[k]:
                found.append((at, c))
        return found

    def lowest(self, piece: Piece, k: int, tilt: float, slope: float) -> tuple[float, float, int]:
        """Return the minimum cost plus ``tilt * x`` of a feature, where it is, and its place."""
        best, at, place = np.inf, 0.0, int(piece.first[k])
        for x, c in self.candidates(piece, k):
            value = self.cost(k, x, c, slope + tilt)
            if value < best or (value == best and abs(x) < abs(at)):
                best, at, place = value, x, c
        return best, at, place

    def cost_of(self, x: FloatArray, slopes: FloatArray) -> float:
        """Return the cost of a point."""
        return sum(
            self.cost(k, float(x[k]), self.stated.place(k, float(x[k])), float(slopes[k]))
            for k in range(self.p)
        )

    # Numbers

    def hull(self, piece: Piece, k: int) -> tuple[float, float]:
        """Return the minimum and maximum number of a feature in a piece."""
        f, origin = self.features, int(self.features.feature["place_start"][k])
        places = slice(origin + int(piece.first[k]), origin + int(piece.last[k]) + 1)
        low = max(float(f.place["low"][places].min()), float(piece.low[k]))
        high = min(float(f.place["high"][places].max()), float(piece.high[k]))
        return low, high

    # Rows

    def narrowed(self, piece: Piece) -> tuple[Piece, Hulls]:
        """Return a piece narrowed by its rows, and the ends of its features."""
        hulls = self.hulls(piece)
        for _ in range(ROUNDS):
            for r in piece.rows:
                if all(low <= high for low, high in hulls):
                    self._narrow_hulls(r, hulls)
        low, high = (np.array(ends) for ends in zip(*hulls, strict=True))
        return piece._replace(low=low, high=high), hulls

    def _narrow_hulls(self, r: int, hulls: Hulls) -> None:
        """Narrow the ends of the features of a row by those of the others."""
        row, entries = self.rows.row[r], self.rows.entry
        own = range(int(row["start"]), int(row["end"]))
        terms = [(int(entries["feature"][i]), float(entries["factor"][i])) for i in own]
        factors = [float(entries["size"][i]) for i in own]
        sizes = [
            factor * max(map(abs, hulls[k])) for factor, (k, _) in zip(factors, terms, strict=True)
        ]
        error = 2 * float(row["error"])
        for at, (k, a) in enumerate(terms):
            size = sum(sizes[:at] + sizes[at + 1 :])
            if a == 0 or not size < OPEN:
                continue
            rest = [sorted((b * hulls[i][0], b * hulls[i][1])) for i, b in terms if i != k]
            low, high = (math.fsum(end[side] for end in rest) for side in (0, 1))
            slip = error * (float(row["size"]) + size)
            least, most = float(row["low"]) - high - slip, float(row["high"]) - low + slip
            begin, end = (least / a, most / a) if a > 0 else (most / a, least / a)
            # The rounding error of the feature's own term is relative to its number.
            own_error = UNIT + error * factors[at] / abs(a)
            begin, end = begin - own_error * abs(begin), end + own_error * abs(end)
            begin, end = max(hulls[k][0], begin), min(hulls[k][1], end)
            if self.stated.integer[k]:
                begin, end = float(np.ceil(begin)), float(np.floor(end))
            hulls[k] = begin, end

    def is_empty(self, piece: Piece, hulls: Hulls) -> bool:
        """Return whether a row cannot hold by the ends of its features alone."""
        rows = self.rows
        for r in piece.rows:
            entries = range(int(rows.row["start"][r]), int(rows.row["end"][r]))
            low = high = 0.0
            size = float(rows.row["size"][r])
            for i in entries:
                k, a = int(rows.entry["feature"][i]), float(rows.entry["factor"][i])
                ends = sorted((a * hulls[k][0], a * hulls[k][1]))
                low, high = low + ends[0], high + ends[1]
                size += float(rows.entry["size"][i]) * max(abs(hulls[k][0]), abs(hulls[k][1]))
            slip = float(rows.row["error"][r]) * size
            top, bottom = rows.row["high"][r], rows.row["low"][r]
            if size < HUGE and (low - slip > top or high + slip < bottom):
                return True
            if size < HUGE and not self._holds_at_best(r, hulls):
                return True
            if self._skips_multiples(r, hulls):
                return True
        return False

    def _skips_multiples(self, r: int, hulls: Hulls) -> bool:
        """Return whether no sum of a row lies within its limits, because it has only integers.

        Such a sum is a multiple of the greatest common divisor of the coefficients, apart from the
        features that have one number left.
        """
        row, entries = self.rows.row[r], self.rows.entry
        low, high, step = float(row["low"]), float(row["high"]), Fraction(0)
        if not -np.inf < low <= high < np.inf:
            return False
        size, offset = float(row["size"]), Fraction(0)
        for i in range(int(row["start"]), int(row["end"])):
            k, factor = int(entries["feature"][i]), Fraction(float(entries["factor"][i]))
            size += float(entries["size"][i]) * max(abs(hulls[k][0]), abs(hulls[k][1]))
            if hulls[k][0] == hulls[k][1]:
                offset += factor * Fraction(hulls[k][0])
            elif self.stated.integer[k]:
                step = Fraction(
                    math.gcd(
                        step.numerator * factor.denominator, factor.numerator * step.denominator
                    ),
                    step.denominator * factor.denominator,
                )
            elif factor:
                return False
        if not step or size >= HUGE:
            return False
        slip = Fraction(2 * float(row["error"]) * size)
        next_multiple = math.ceil((Fraction(low) - offset - slip) / step) * step
        return next_multiple > Fraction(high) - offset + slip

    def _holds_at_best(self, r: int, hulls: Hulls) -> bool:
        """Return whether a row holds at the corner of a box that is best for it, as written.

        The rounded result is monotone in each feature, unless a feature occurs several times. So if
        the row does not hold there, it holds nowhere.
        """
        for row in self.written[r].parts:
            is_one_sided = np.isinf(row.low) or np.isinf(row.high)
            if not is_one_sided or (row.sizes != np.abs(row.coefficients)).any():
                continue
            x = self.stated.base.copy()
            side = 1.0 if np.isinf(row.high) else -1.0
            for column, a in zip(row.columns.tolist(), row.coefficients.tolist(), strict=True):
                if column in self.stated.feature_of:
                    low, high = hulls[self.stated.feature_of[column]]
                    x[column] = high if side * a > 0 else low
            if not row.holds(x):
                return False
        return True

    # Bounds and points

    def dual(self, piece: Piece, slopes: FloatArray, y: FloatArray, costs: bool = True) -> float:
        """Return the bound on the costs that multipliers of the rows give."""
        rows, total, size = self.rows, 0.0, 0.0
        y, tilt = self._cancelled(piece, slopes, y, costs)
        reach, hidden = np.zeros(self.p), self.hidden(slopes)
        for k in range(self.p):
            if costs:
                value, at, _ = self.lowest(piece, k, float(tilt[k]), float(slopes[k]))
            else:
                found = [(tilt[k] * x, x) for x, _ in self.candidates(piece, k)]
                value, at = min(found) if found else (np.inf, 0.0)
            if value == 0.0:  # perhaps all numbers cost the same
                low, high = self.hull(piece, k)
                at = min(max(0.0, low), high)
            total += value
            size += abs(value)
            # The rounding error of a row is that at any number of the piece.
            far = max(map(abs, self.hull(piece, k)))
            reach[k] = far if far < OPEN else abs(at)
            size += hidden[k] * reach[k] if costs else 0.0
        for r in np.flatnonzero(y).tolist():
            a, b = int(rows.row["start"][r]), int(rows.row["end"][r])
            limit = rows.row["high"][r] if y[r] > 0 else rows.row["low"][r]
            if np.isinf(limit):
                return -np.inf
            slip = rows.row["error"][r] * (
                rows.row["size"][r] + rows.entry["size"][a:b] @ reach[rows.entry["feature"][a:b]]
            )
            total -= y[r] * limit + abs(y[r]) * slip
            size += abs(y[r] * limit)
        return float(total - UNIT * size * (self.p + 4))

    def _tilt(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what multipliers add to the cost per unit of each feature, and its size."""
        rows, (tilt, size) = self.rows, np.zeros((2, self.p))
        for r in np.flatnonzero(y).tolist():
            own = rows.entry[int(rows.row["start"][r]) : int(rows.row["end"][r])]
            tilt[own["feature"]] += y[r] * own["factor"]
            size[own["feature"]] += np.abs(y[r] * own["factor"])
        return tilt, size

    def _cancelled(
        self, piece: Piece, slopes: FloatArray, y: FloatArray, costs: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return multipliers and what they add to the cost per unit of each feature.

        Where ``y`` cancels the cost of a feature without bounds but for rounding errors, the
        multipliers returned cancel it exactly.
        """
        tilt, size = self._tilt(y)
        slope = self.features.feature["slope"] + slopes if costs else np.zeros(self.p)
        off = np.abs(tilt + slope)
        cancelled = [
            k
            for k in np.flatnonzero((size > 0) & (off <= NOISE * size)).tolist()
            if max(map(abs, self.hull(piece, k))) >= OPEN
        ]
        if not cancelled:
            return y, tilt
        equations = [(self._factors(y, k), -Fraction(float(slope[k]))) for k in cancelled]
        exact = exact_multipliers(y, equations)
        if exact is None:
            return y, tilt
        tilt = self._tilt(exact)[0]
        tilt[cancelled] = -slope[cancelled]
        return exact, tilt

    def _factors(self, y: FloatArray, k: int) -> dict[int, float]:
        """Return the coefficients of a feature in the rows with multipliers."""
        row, entry = self.rows.row, self.rows.entry
        return {
            r: float(entry["factor"][i])
            for r in np.flatnonzero(y).tolist()
            for i in range(int(row["start"][r]), int(row["end"][r]))
            if entry["feature"][i] == k
        }

    def holds(self, piece: Piece, x: FloatArray) -> bool:
        """Return whether a point is in a piece and satisfies the constraints but limits."""
        for k, value in enumerate(x.tolist()):
            if not piece.first[k] <= self.stated.place(k, value) <= piece.last[k]:
                return False
        point = self.stated.point(x)
        return all(condition.holds(point) for condition in self.conditions)

    def with_tables(self, piece: Piece, x: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return a point with the cheapest category of each feature that has a table of costs."""
        x = x.copy()
        for k in np.flatnonzero(self.features.feature["has_table"]).tolist():
            x[k] = self.lowest(piece, k, 0.0, float(slopes[k]))[1]
        return x
