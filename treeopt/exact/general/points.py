"""Points of a piece that satisfy all rows as a user computes them.

The point of a linear program misses rows by rounding errors. It is moved to admissible numbers, to
round numbers, or by a few last bits; or the program is solved again with tighter rows.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from treeopt.exact.general.pieces import Hulls, Piece, Pieces
from treeopt.exact.general.program import Program
from treeopt.exact.general.statement import HUGE, OPEN
from treeopt.types import FloatArray

MAX_POINTS = 4096
"""Maximum number of points that are tried one by one."""

DIGITS, FEW_DIGITS = 13, 9
"""Significant digits of the numbers that are tried first, and if nothing else is feasible."""

NEAR_MISS = 8
"""A row is missed by rounding if it is by at most so many times its rounding error."""

NEIGHBORS = 4
"""Number of float64 numbers on each side of a number that are tried for rows missed by rounding."""

TIGHTEN = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
"""Rows are tightened by this share of their size, so that the point satisfies them as computed."""


class Points:
    """Finds points of the pieces of one problem."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces, self.stated = pieces, pieces.stated
        self.features, self.rows, self.logic = pieces.features, pieces.rows, pieces.logic
        self.p, self.written = pieces.p, pieces.written

    def near(self, piece: Piece, slopes: FloatArray, x: FloatArray) -> FloatArray | None:
        """Return an admissible point near that of the linear program; None if there is none."""
        hulls = self.pieces.hulls(piece)
        point = self._at_round_numbers(piece, slopes, x, DIGITS, hulls)
        if point is not None:
            return point
        for share in TIGHTEN:
            near: FloatArray | None = x
            if share:
                near, _ = Program(self.pieces, piece, slopes, hulls, share, x).solve()
            if near is None:
                continue
            point = self._snapped(piece, self.pieces.with_tables(piece, near, slopes), hulls)
            if point is None:
                return None
            point = self._balanced(piece, point, hulls)
            if self.pieces.holds(piece, point):
                return point
            point = self._jiggled(piece, point, hulls)
            if self.pieces.holds(piece, point):
                return point
            point = self._nudged(piece, point, hulls)
            if self.pieces.holds(piece, point):
                return point
            if not self._missed(piece, point):
                return None  # it is the logic that does not hold, which no tighter row changes
        return self._at_round_numbers(piece, slopes, x, FEW_DIGITS, hulls)

    def _at_round_numbers(
        self,
        piece: Piece,
        slopes: FloatArray,
        x: FloatArray,
        digits: int,
        hulls: Hulls,
    ) -> FloatArray | None:
        """Return a point with all numbers rounded to some digits; None if it is not feasible.

        A few last bits may differ, if rows hold only so.
        """
        largest = [max(map(abs, hull)) for hull in hulls]
        small = [10.0**-digits * each if each < OPEN else 0.0 for each in largest]
        numbers = [0.0 if abs(v) <= tiny else v for v, tiny in zip(x, small, strict=True)]
        rounded = np.array([float(f"{value:.{digits}g}") for value in numbers])
        point = self._snapped(piece, self.pieces.with_tables(piece, rounded, slopes), hulls)
        if point is not None and not self.pieces.holds(piece, point):
            point = self._jiggled(piece, point, hulls)
        return point if point is not None and self.pieces.holds(piece, point) else None

    def _missed(self, piece: Piece, x: FloatArray) -> list[int]:
        """Return the rows of a piece that do not hold as a user checks them."""
        point = self.stated.point(x)
        return [r for r in piece.rows if not self.written[r].holds(point)]

    def _terms(self, r: int, x: FloatArray) -> FloatArray:
        """Return the terms of a row at a point."""
        own = self.rows.entry[int(self.rows.row["start"][r]) : int(self.rows.row["end"][r])]
        terms: FloatArray = own["factor"] * x[own["feature"]]
        return terms

    def _miss(self, r: int, x: FloatArray) -> tuple[float, float]:
        """Return by how much a row is missed, and its rounding error."""
        row, terms = self.rows.row[r], self._terms(r, x)
        value, size = math.fsum(terms), float(row["size"]) + float(np.abs(terms).sum())
        off = max(float(row["low"]) - value, value - float(row["high"]))
        return off, float(row["error"]) * size

    def _is_near(self, r: int, x: FloatArray) -> bool:
        """Return whether a row holds up to some rounding errors."""
        off, error = self._miss(r, x)
        return off <= NEAR_MISS * error

    def _jiggled(self, piece: Piece, x: FloatArray, hulls: Hulls) -> FloatArray:
        """Return a point moved by a few last bits, so that more rows hold as computed."""
        rows, x = self.rows, x.copy()
        missed = self._missed(piece, x)
        if not all(self._is_near(r, x) for r in missed):
            return x
        for r in list(missed):
            own = rows.entry[int(rows.row["start"][r]) : int(rows.row["end"][r])]
            off, error = self._miss(r, x)
            for k, factor in zip(own["feature"].tolist(), own["factor"].tolist(), strict=True):
                if r not in missed:
                    break
                if factor == 0 or self.stated.integer[k] or hulls[k][0] == hulls[k][1]:
                    continue
                best = before = float(x[k])
                if not abs(factor) * NEIGHBORS * np.spacing(abs(before)) >= off - error:
                    continue
                for to in _neighbors(before):
                    if hulls[k][0] <= to <= hulls[k][1] and self.stated.place(k, to) >= 0:
                        x[k] = to
                        if self.written[r].holds(self.stated.point(x)):
                            now = self._missed(piece, x)
                            if len(now) < len(missed):
                                missed, best = now, to
                x[k] = best
        return x

    def _nudged(self, piece: Piece, x: FloatArray, hulls: Hulls) -> FloatArray:
        """Return a point moved across the limits of rows that it misses by rounding errors."""
        rows, x = self.rows, x.copy()
        for r in piece.rows:
            entries = range(int(rows.row["start"][r]), int(rows.row["end"][r]))
            terms = [
                (int(rows.entry["feature"][i]), float(rows.entry["factor"][i])) for i in entries
            ]
            value = math.fsum(a * float(x[k]) for k, a in terms)
            size = float(rows.row["size"][r]) + sum(abs(a * float(x[k])) for k, a in terms)
            slip = float(rows.row["error"][r]) * size
            if self.written[r].is_strict:
                slip = max(slip, 1e-15)
            low, high = float(rows.row["low"][r]) + slip, float(rows.row["high"][r]) - slip
            if low > high:
                continue  # an equality
            for k, a in terms:
                missing = low - value if value < low else high - value if value > high else 0.0
                if a == 0 or self.stated.integer[k] or not missing:
                    continue
                to = min(max(float(x[k]) + missing / a, hulls[k][0]), hulls[k][1])
                if self.stated.place(k, to) >= 0:
                    value += a * (to - float(x[k]))
                    x[k] = to
        return x

    def _snapped(self, piece: Piece, x: FloatArray, hulls: Hulls) -> FloatArray | None:
        """Return a point moved to admissible numbers next to it; None if one is far from any."""
        f, out = self.features, x.copy()
        for k in range(self.p):
            low, high = hulls[k]
            value = min(max(float(x[k]), low), high)
            if self.stated.integer[k]:
                nearest = float(np.round(value))
                if abs(nearest - value) > 1e-6:
                    return None
                value = nearest
            if self.stated.place(k, value) < 0:
                near = sorted(
                    self.pieces.candidates(piece, k), key=lambda each: abs(each[0] - value)
                )
                origin = int(f.feature["place_start"][k])
                places = slice(origin + int(piece.first[k]), origin + int(piece.last[k]) + 1)
                ends = np.concatenate(
                    [f.place["low"][places], f.place["high"][places], [v for v, _ in near]]
                )
                value_near = float(ends[np.argmin(np.abs(ends - value))])
                if abs(value_near - value) > 1e-9 * max(1.0, abs(value)):
                    return None
                value = value_near
            out[k] = value
        return out

    def _balanced(self, piece: Piece, x: FloatArray, hulls: Hulls) -> FloatArray:
        """Return a point whose equalities hold to the last bits, as far as possible.

        So do the limits of other rows that are missed by rounding errors.
        """
        rows, x = self.rows, x.copy()
        limits = self._limits_reached(piece, x)
        for _ in range(4 if limits else 0):
            for r, limit in limits.items():
                entries = np.arange(rows.row["start"][r], rows.row["end"][r])
                own = rows.entry["feature"][entries]
                free = [
                    (min(x[k] - hulls[k][0], hulls[k][1] - x[k]) * abs(rows.entry["factor"][i]), i)
                    for k, i in zip(own.tolist(), entries.tolist(), strict=True)
                    if rows.entry["factor"][i] != 0
                    and not self.stated.integer[k]
                    and hulls[k][0] < x[k] < hulls[k][1]
                ]
                if not free:
                    continue
                terms = [
                    float(rows.entry["factor"][i]) * float(x[rows.entry["feature"][i]])
                    for i in entries
                ]
                _, i = max(free)
                k = int(rows.entry["feature"][i])
                rest = math.fsum(t for t, e in zip(terms, entries, strict=True) if e != i)
                to = (limit - rest) / float(rows.entry["factor"][i])
                if hulls[k][0] <= to <= hulls[k][1] and self.stated.place(k, to) >= 0:
                    x[k] = to
        return x

    def _limits_reached(self, piece: Piece, x: FloatArray) -> dict[int, float]:
        """Return the limits of equalities, and of rows that are missed by rounding errors."""
        found, missed = {}, self._missed(piece, x)
        for r in piece.rows:
            low, high = float(self.rows.row["low"][r]), float(self.rows.row["high"][r])
            if low == high:
                found[r] = low
            elif r in missed and self._is_near(r, x):
                value = math.fsum(self._terms(r, x))
                found[r] = low if abs(value - low) < abs(value - high) else high
        return found

    def all_of(self, piece: Piece, slopes: FloatArray) -> list[FloatArray] | None:
        """Return all points of a piece that rows leave, if these are few; else None.

        Features that are in no row are at their cheapest number.
        """
        rows, logic = self.rows, self.logic
        _, hulls = self.pieces.narrowed(piece)
        if any(low > high for low, high in hulls):
            return []
        used = {
            int(k)
            for r in piece.rows
            for k in rows.entry["feature"][rows.row["start"][r] : rows.row["end"][r]]
        }
        in_logic = {*logic.literal["feature"].tolist(), *logic.counted["feature"].tolist()}
        for row in rows.row[rows.row["is_literal"]]:
            in_logic.update(rows.entry["feature"][row["start"] : row["end"]].tolist())
        choices = []
        for k, (low, high) in enumerate(hulls):
            if k not in used:
                if k in in_logic and low < high:
                    return None
                choices.append([self.pieces.lowest(piece, k, 0.0, float(slopes[k]))[1]])
                continue
            is_integer = bool(self.stated.integer[k])
            numbers = [math.ceil(low) + 0.0 if is_integer and abs(low) < HUGE else low]
            while numbers[-1] < high and len(numbers) <= MAX_POINTS:
                above = numbers[-1] + 1 if is_integer else float(np.nextafter(numbers[-1], np.inf))
                numbers.append(above)
            if math.prod(map(len, choices)) * len(numbers) > MAX_POINTS:
                return None
            places = [self.stated.place(k, x) for x in numbers]
            inside = [piece.first[k] <= c <= piece.last[k] for c in places]
            choices.append([x for x, is_in in zip(numbers, inside, strict=True) if is_in])
        return [np.array(x) for x in product(*choices)]


def _neighbors(x: float) -> list[float]:
    """Return the nearest float64 numbers on both sides of a number."""
    found, below, above = [x], x, x
    for _ in range(NEIGHBORS):
        below, above = float(np.nextafter(below, -np.inf)), float(np.nextafter(above, np.inf))
        found += [below, above]
    return found
