"""The cheapest point of a box in which all predictions are constant.

Without rows and logic, each feature is chosen alone. Otherwise a small branch and bound runs on
linear programs: it branches on alternatives of clauses, on features that must be 0, on fees and on
integers. The linear program gives the multipliers of the rows and a point; the bound follows from
the multipliers by weak duality, with rounding errors on the safe side, and not from the solver's
word. The point is checked as a user would check it.
"""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from itertools import count, product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from treeopt.exact.general.statement import HUGE, OPEN
from treeopt.exact.general.stating import Stated
from treeopt.problem.constraints import Limit, Row, Within
from treeopt.types import FloatArray, IntArray

UNIT = 2.0**-50
NO_PLACES, NO_NUMBERS = np.empty(0, np.int64), np.empty(0)
ROUNDS = 3
"""Rounds of propagation of the rows of a piece."""

MAX_POINTS = 4096
"""Maximum number of points that are tried one by one."""

DIGITS, FEW_DIGITS = 13, 9
"""Significant digits of the numbers that are tried first, and if nothing else is feasible."""

NEIGHBORS = 4
"""Number of float64 numbers on each side of a number that are tried in equalities."""

TIGHTEN = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
"""Rows are tightened by this share of their size, so that the point satisfies them as computed."""


class Solved(NamedTuple):
    """The solution of a box.

    Attributes
    ----------
    x : float64 array or None
        The cheapest point, as values of the free features; None if none was found.
    bound : float
        Lower bound on the costs of all points of the box; infinite if there is none.
    """

    x: FloatArray | None
    bound: float


class Piece(NamedTuple):
    """A part of a box: places of each feature, bounds on their numbers, and rows that must hold."""

    first: IntArray
    last: IntArray
    low: FloatArray
    high: FloatArray
    rows: tuple[int, ...]


EMPTY = Piece(NO_PLACES, NO_PLACES, NO_NUMBERS, NO_NUMBERS, ())
"""A piece without points."""


class RegionSolver:
    """Finds the cheapest points of boxes of one problem.

    Parameters
    ----------
    stated : Stated
        The problem as arrays.
    max_pieces : int
        Maximum number of linear programs per box.

    Attributes
    ----------
    gave_up : bool
        Whether this number did not suffice for a box of the proof.
    """

    def __init__(self, stated: Stated, max_pieces: int) -> None:
        self.stated, self.max_pieces = stated, max_pieces
        statement = stated.statement
        self.features, self.rows, self.logic = statement.features, statement.rows, statement.logic
        self.p = stated.columns.size
        self.must = tuple(np.flatnonzero(~self.rows.row["is_literal"]).tolist())
        self.is_simple = not (
            self.must or self.logic.clause_start.size > 1 or self.logic.counts.size > 0
        )
        self.written = [*stated.rows, *stated.literal_rows]
        self.programs, self.gave_up = 0, False
        self.conditions = [
            condition
            for constraint in stated.problem.constraints
            for condition in constraint.conditions
            if not isinstance(condition, Limit)
        ]

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
        return float(abs(f.feature["slope"][k] * x) + terms.sum())

    def _candidates(self, piece: Piece, k: int) -> list[tuple[float, int]]:
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
        for x, c in self._candidates(piece, k):
            value = self.cost(k, x, c, slope + tilt)
            if value < best or (value == best and abs(x) < abs(at)):
                best, at, place = value, x, c
        return best, at, place

    # The search

    def solve(
        self,
        box: Any,
        slopes: FloatArray | None = None,
        tolerance: float = 0.0,
        max_pieces: int | None = None,
    ) -> Solved:
        """Return the cheapest point of a box.

        Parameters
        ----------
        box : int32 array
            First places of all features, then last places.
        slopes : float64 array, optional
            More cost per unit of each feature.
        tolerance : float
            The bound may be this far below the cost of the point.
        max_pieces : int, optional
            Maximum number of linear programs; by default that of the solver.
        """
        p = self.p
        slopes = np.zeros(p) if slopes is None else slopes
        first, last = box[:p].astype(np.int64), box[p:].astype(np.int64)
        whole = Piece(first, last, np.full(p, -np.inf), np.full(p, np.inf), self.must)
        if self.is_simple or not p:
            found = [self.lowest(whole, k, 0.0, slopes[k]) for k in range(p)]
            x = np.array([at for _, at, _ in found])
            total = sum(value for value, _, _ in found)
            size = sum(abs(value) for value, _, _ in found)
            return Solved(x, float(total - UNIT * size * (p + 4)))
        return self._search(whole, slopes, tolerance, max_pieces or self.max_pieces)

    def _holds(self, x: FloatArray) -> bool:
        """Return whether a point is admissible and satisfies the constraints but limits."""
        if any(self._place(k, value) < 0 for k, value in enumerate(x.tolist())):
            return False
        point = self.stated.point(x)
        return all(condition.holds(point) for condition in self.conditions)

    def relax(self, box: Any) -> tuple[FloatArray | None, FloatArray, bool]:
        """Return point and multipliers of the linear program of a box.

        If it is infeasible, there is no point, and the multipliers show it if the last entry is
        True.
        """
        p = self.p
        first, last = box[:p].astype(np.int64), box[p:].astype(np.int64)
        piece = Piece(first, last, np.full(p, -np.inf), np.full(p, np.inf), self.must)
        hulls = [self._hull(piece, k) for k in range(p)]
        program = _Program(self, piece, np.zeros(p), hulls)
        self.programs += 1
        x, y = program.solve()
        if x is not None:
            return x, y, False
        ray = program.ray()
        if ray is None:
            return None, y, False
        return None, ray, self._dual(piece, np.zeros(p), ray, costs=False) > 0

    def is_contradictory(self, box: Any) -> bool:
        """Return whether one row alone shows that a box has no point."""
        p = self.p
        first, last = box[:p].astype(np.int64), box[p:].astype(np.int64)
        piece = Piece(first, last, np.full(p, -np.inf), np.full(p, np.inf), self.must)
        return self._is_empty(piece, [self._hull(piece, k) for k in range(p)])

    def is_bounded(self, box: Any, features: list[int]) -> bool:
        """Return whether rows bound the costs of a box from below, and features from both sides."""
        p = self.p
        first, last = box[:p].astype(np.int64), box[p:].astype(np.int64)
        piece = Piece(first, last, np.full(p, -np.inf), np.full(p, np.inf), self.must)
        program = _Program(self, piece, np.zeros(p), [self._hull(piece, k) for k in range(p)])
        if program.is_unbounded():
            return False
        for k in features:
            for side in (1.0, -1.0):
                program.cost = [0.0] * len(program.cost)
                program.cost[k] = side
                if program.is_unbounded():
                    return False
        return True

    def _search(
        self, whole: Piece, slopes: FloatArray, tolerance: float, max_pieces: int
    ) -> Solved:
        """Branch and bound on linear programs, best bound first."""
        number, best, value, left_open = count(), None, np.inf, np.inf
        heap: list[tuple[float, int, Piece]] = [(-np.inf, next(number), whole)]
        done = 0
        while heap:
            bound, _, piece = heapq.heappop(heap)
            if bound >= value - tolerance:
                left_open = min(left_open, bound)
                continue
            done += 1
            if done > max_pieces or self.stated.limits.is_over():
                self.gave_up |= max_pieces == self.max_pieces
                left_open = min(left_open, bound)
                continue
            bound, x = self._relaxation(piece, slopes, bound)
            if x is None:  # no point, or none that the solver finds
                if bound < np.inf:
                    left_open = min(left_open, bound)
                continue
            point = self._polished(piece, slopes, x)
            if point is not None:
                cost = self.cost_of(point, slopes)
                if cost < value:
                    best, value = point, cost
                if cost - bound <= tolerance:
                    left_open = min(left_open, bound)
                    continue
            if bound >= value - tolerance:
                left_open = min(left_open, bound)
                continue
            children = self._branch(piece, x)
            if not children:
                all_points = None if point is not None else self._all_points(piece, slopes)
                if all_points is None:
                    left_open = min(left_open, bound)
                for point in all_points or ():
                    if self._holds(point) and (cost := self.cost_of(point, slopes)) < value:
                        best, value = point, cost
            for child in children:
                if child is not EMPTY:
                    heapq.heappush(heap, (bound, next(number), child))
        return Solved(best, float(min(left_open, value) if best is not None else left_open))

    def cost_of(self, x: FloatArray, slopes: FloatArray) -> float:
        """Return the cost of a point."""
        return sum(
            self.cost(k, float(x[k]), self._place(k, float(x[k])), float(slopes[k]))
            for k in range(self.p)
        )

    def _place(self, k: int, x: float) -> int:
        """Return the place of a number; -1 if it is not admissible."""
        f = self.features
        origin, end = self.stated.places.start[k : k + 2]
        inside = np.flatnonzero(
            (f.place["low"][origin:end] <= x) & (x <= f.place["high"][origin:end])
        )
        return int(inside[0]) if inside.size else -1

    # Linear programs

    def _hull(self, piece: Piece, k: int) -> tuple[float, float]:
        """Return the minimum and maximum number of a feature in a piece."""
        f, origin = self.features, int(self.features.feature["place_start"][k])
        places = slice(origin + int(piece.first[k]), origin + int(piece.last[k]) + 1)
        low = max(float(f.place["low"][places].min()), float(piece.low[k]))
        high = min(float(f.place["high"][places].max()), float(piece.high[k]))
        return low, high

    def _relaxation(
        self, piece: Piece, slopes: FloatArray, known: float
    ) -> tuple[float, FloatArray | None]:
        """Return a bound on a piece, and the point of its linear program."""
        piece, hulls = self._narrowed(piece)
        if any(low > high for low, high in hulls) or self._is_empty(piece, hulls):
            return np.inf, None
        program = _Program(self, piece, slopes, hulls)
        self.programs += 1
        x, y = program.solve()
        if x is None:
            ray = program.ray()
            if ray is not None and self._dual(piece, np.zeros(self.p), ray, costs=False) > 0:
                return np.inf, None
            return max(known, self._dual(piece, slopes, np.zeros(self.rows.row.size))), None
        return max(known, self._dual(piece, slopes, y)), self._with_tables(piece, x, slopes)

    def _narrowed(self, piece: Piece) -> tuple[Piece, list[tuple[float, float]]]:
        """Return a piece narrowed by its rows, and the ends of its features."""
        hulls = [self._hull(piece, k) for k in range(self.p)]
        for _ in range(ROUNDS):
            for r in piece.rows:
                if all(low <= high for low, high in hulls):
                    self._narrow_hulls(r, hulls)
        low, high = (np.array(ends) for ends in zip(*hulls, strict=True))
        return piece._replace(low=low, high=high), hulls

    def _is_empty(self, piece: Piece, hulls: list[tuple[float, float]]) -> bool:
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

    def _skips_multiples(self, r: int, hulls: list[tuple[float, float]]) -> bool:
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

    def _holds_at_best(self, r: int, hulls: list[tuple[float, float]]) -> bool:
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

    def _dual(self, piece: Piece, slopes: FloatArray, y: FloatArray, costs: bool = True) -> float:
        """Return the bound on the costs that multipliers of the rows give."""
        rows, tilt = self.rows, np.zeros(self.p)
        total = size = 0.0
        for r in np.flatnonzero(y).tolist():
            a, b = int(rows.row["start"][r]), int(rows.row["end"][r])
            tilt[rows.entry["feature"][a:b]] += y[r] * rows.entry["factor"][a:b]
        reach = np.zeros(self.p)
        for k in range(self.p):
            if costs:
                value, at, _ = self.lowest(piece, k, float(tilt[k]), float(slopes[k]))
            else:
                found = [(tilt[k] * x, x) for x, _ in self._candidates(piece, k)]
                value, at = min(found) if found else (np.inf, 0.0)
            if value == 0.0:  # perhaps all numbers cost the same
                low, high = self._hull(piece, k)
                at = min(max(0.0, low), high)
            total += value
            size += abs(value)
            # The rounding error of a row is that at any number of the piece.
            far = max(map(abs, self._hull(piece, k)))
            reach[k] = far if far < OPEN else abs(at)
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

    # Points

    def _polished(self, piece: Piece, slopes: FloatArray, x: FloatArray) -> FloatArray | None:
        """Return an admissible point near that of the linear program; None if there is none."""
        hulls = [self._hull(piece, k) for k in range(self.p)]
        point = self._at_round_numbers(piece, slopes, x, DIGITS, hulls)
        if point is not None:
            return point
        for share in TIGHTEN:
            near: FloatArray | None = x
            if share:
                near, _ = _Program(self, piece, slopes, hulls, share, x).solve()
                self.programs += 1
            if near is None:
                continue
            point = self._snapped(piece, self._with_tables(piece, near, slopes), hulls)
            if point is None:
                return None
            point = self._balanced(piece, point, hulls)
            if self._holds(point):
                return point
            point = self._jiggled(piece, point, hulls)
            if self._holds(point):
                return point
            point = self._nudged(piece, point, hulls)
            if self._holds(point):
                return point
            if self._rows_hold(piece, point):
                return None  # it is the logic that does not hold, which no tighter row changes
        return self._at_round_numbers(piece, slopes, x, FEW_DIGITS, hulls)

    def _at_round_numbers(
        self,
        piece: Piece,
        slopes: FloatArray,
        x: FloatArray,
        digits: int,
        hulls: list[tuple[float, float]],
    ) -> FloatArray | None:
        """Return a point with all numbers rounded to some digits; None if it is not feasible."""
        largest = [max(map(abs, hull)) for hull in hulls]
        small = [10.0**-digits * each if each < OPEN else 0.0 for each in largest]
        numbers = [0.0 if abs(v) <= tiny else v for v, tiny in zip(x, small, strict=True)]
        rounded = np.array([float(f"{value:.{digits}g}") for value in numbers])
        point = self._snapped(piece, self._with_tables(piece, rounded, slopes), hulls)
        return point if point is not None and self._holds(point) else None

    def _rows_hold(self, piece: Piece, x: FloatArray) -> bool:
        """Return whether the rows of a piece hold as a user checks them."""
        point = self.stated.point(x)
        return all(self.written[r].holds(point) for r in piece.rows)

    def _jiggled(self, piece: Piece, x: FloatArray, hulls: list[tuple[float, float]]) -> FloatArray:
        """Return a point moved by a few last bits, so that rows without width hold as computed."""
        rows, x = self.rows, x.copy()
        for r in piece.rows:
            if rows.row["low"][r] < rows.row["high"][r]:
                continue
            own = rows.entry[int(rows.row["start"][r]) : int(rows.row["end"][r])]
            for k in own["feature"][own["factor"] != 0].tolist():
                if self.stated.integer[k] or hulls[k][0] == hulls[k][1]:
                    continue
                before = float(x[k])
                for to in _neighbors(before):
                    if hulls[k][0] <= to <= hulls[k][1] and self._place(k, to) >= 0:
                        x[k] = to
                        if self.written[r].holds(self.stated.point(x)):
                            break
                else:
                    x[k] = before
        return x

    def _nudged(self, piece: Piece, x: FloatArray, hulls: list[tuple[float, float]]) -> FloatArray:
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
                if self._place(k, to) >= 0:
                    value += a * (to - float(x[k]))
                    x[k] = to
        return x

    def _with_tables(self, piece: Piece, x: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return a point with the cheapest category of each feature that has a table of costs."""
        x = x.copy()
        for k in np.flatnonzero(self.features.feature["has_table"]).tolist():
            x[k] = self.lowest(piece, k, 0.0, float(slopes[k]))[1]
        return x

    def _snapped(
        self, piece: Piece, x: FloatArray, hulls: list[tuple[float, float]]
    ) -> FloatArray | None:
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
            if self._place(k, value) < 0:
                near = sorted(self._candidates(piece, k), key=lambda each: abs(each[0] - value))
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

    def _balanced(
        self, piece: Piece, x: FloatArray, hulls: list[tuple[float, float]]
    ) -> FloatArray:
        """Return a point whose equalities hold to the last bits, as far as possible."""
        rows, x = self.rows, x.copy()
        equal = [r for r in piece.rows if rows.row["low"][r] == rows.row["high"][r]]
        for _ in range(4 if equal else 0):
            for r in equal:
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
                to = (float(rows.row["low"][r]) - rest) / float(rows.entry["factor"][i])
                if hulls[k][0] <= to <= hulls[k][1] and self._place(k, to) >= 0:
                    x[k] = to
        return x

    def _all_points(self, piece: Piece, slopes: FloatArray) -> list[FloatArray] | None:
        """Return all points of a piece that rows leave, if these are few; else None.

        Features that are in no row are at their cheapest number.
        """
        rows, logic = self.rows, self.logic
        _, hulls = self._narrowed(piece)
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
                choices.append([self.lowest(piece, k, 0.0, float(slopes[k]))[1]])
                continue
            is_integer = bool(self.stated.integer[k])
            numbers = [math.ceil(low) + 0.0 if is_integer and abs(low) < HUGE else low]
            while numbers[-1] < high and len(numbers) <= MAX_POINTS:
                above = numbers[-1] + 1 if is_integer else float(np.nextafter(numbers[-1], np.inf))
                numbers.append(above)
            if math.prod(map(len, choices)) * len(numbers) > MAX_POINTS:
                return None
            places = [self._place(k, x) for x in numbers]
            inside = [piece.first[k] <= c <= piece.last[k] for c in places]
            choices.append([x for x, is_in in zip(numbers, inside, strict=True) if is_in])
        return [np.array(x) for x in product(*choices)]

    def _narrow_hulls(self, r: int, hulls: list[tuple[float, float]]) -> None:
        """Narrow the ends of the features of a row by those of the others."""
        row, entries = self.rows.row[r], self.rows.entry
        own = range(int(row["start"]), int(row["end"]))
        terms = [(int(entries["feature"][i]), float(entries["factor"][i])) for i in own]
        sizes = [
            float(entries["size"][i]) * max(map(abs, hulls[k]))
            for i, (k, _) in zip(own, terms, strict=True)
        ]
        for at, (k, a) in enumerate(terms):
            size = sum(sizes) if sizes[at] < HUGE else sum(sizes[:at] + sizes[at + 1 :])
            if a == 0 or not size < HUGE:
                continue
            rest = [sorted((b * hulls[i][0], b * hulls[i][1])) for i, b in terms if i != k]
            low, high = (math.fsum(end[side] for end in rest) for side in (0, 1))
            least, most = float(row["low"]) - high, float(row["high"]) - low
            slip = 2 * float(row["error"]) * (float(row["size"]) + size)
            least, most = least - slip, most + slip
            begin, end = (least / a, most / a) if a > 0 else (most / a, least / a)
            begin, end = (
                max(hulls[k][0], begin - UNIT * abs(begin)),
                min(hulls[k][1], end + UNIT * abs(end)),
            )
            if self.stated.integer[k]:
                begin, end = float(np.ceil(begin)), float(np.floor(end))
            hulls[k] = begin, end

    # Branching

    def _branch(self, piece: Piece, x: FloatArray) -> list[Piece]:
        """Divide a piece where the point of its linear program is not admissible or not exact."""
        return (
            self._branch_on_logic(piece, x)
            or self._branch_on_numbers(piece, x)
            or self._branch_on_fees(piece)
            or self._branch_on_values(piece, x)
        )

    def _branch_on_logic(self, piece: Piece, x: FloatArray) -> list[Piece]:
        """Divide a piece by a clause or a count that the point violates."""
        logic = self.logic
        point = self.stated.point(x)
        for clause in self.stated.clauses:
            rows = [self._number(literal) for literal in clause if isinstance(literal, Row)]
            if any(literal.holds(point) for literal in clause) or set(rows) & set(piece.rows):
                continue
            children = [piece._replace(rows=(*piece.rows, r)) for r in rows]
            for literal in clause:
                if isinstance(literal, Within):
                    children += self._within(piece, literal)
            return children or [EMPTY]
        for i in range(logic.counts.size):
            entries = range(int(logic.counts["start"][i]), int(logic.counts["end"][i]))
            own = [
                (int(logic.counted["feature"][q]), int(logic.counted["zero"][q])) for q in entries
            ]
            apart = [(k, zero) for k, zero in own if x[k] != 0]
            if len(apart) <= logic.counts["most"][i]:
                continue
            open_ = [(k, z) for k, z in apart if piece.first[k] <= z <= piece.last[k]]
            if not open_:
                return [EMPTY]
            k, zero = min(open_, key=lambda each: abs(x[each[0]]))
            return self._split_at(piece, k, zero)
        return []

    def _number(self, literal: Row) -> int:
        """Return the number of a row that is an alternative of a clause."""
        return len(self.stated.rows) + self.stated.literal_rows.index(literal)

    def _within(self, piece: Piece, literal: Within) -> list[Piece]:
        """Return the parts of a piece in which a feature is in a set, as runs of places."""
        k, f = self.stated.feature_of[literal.column], self.features
        origin = int(f.feature["place_start"][k])
        first, last = int(piece.first[k]), int(piece.last[k])
        inside = literal.admits(f.place["low"][origin + first : origin + last + 1])
        edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(int), [0]])))
        return [
            self._restricted(piece, k, first + a, first + b - 1)
            for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        ]

    def _restricted(self, piece: Piece, k: int, first: int, last: int) -> Piece:
        """Return a piece with other places of a feature."""
        new_first, new_last = piece.first.copy(), piece.last.copy()
        new_first[k], new_last[k] = first, last
        return piece._replace(first=new_first, last=new_last)

    def _split_at(self, piece: Piece, k: int, place: int) -> list[Piece]:
        """Return a piece at one place of a feature, and at the places before and after it."""
        first, last = int(piece.first[k]), int(piece.last[k])
        runs = [(place, place), (first, place - 1), (place + 1, last)]
        return [self._restricted(piece, k, a, b) for a, b in runs if a <= b]

    def _branch_on_numbers(self, piece: Piece, x: FloatArray) -> list[Piece]:
        """Divide a piece at a number that is not admissible: not an integer, or in a gap."""
        f = self.features
        for k in range(self.p):
            value, origin = float(x[k]), int(f.feature["place_start"][k])
            first, last = int(piece.first[k]), int(piece.last[k])
            if not f.feature["ordered"][k]:
                if last > first:
                    middle = (first + last) // 2
                    return [
                        self._restricted(piece, k, first, middle),
                        self._restricted(piece, k, middle + 1, last),
                    ]
                continue
            own = f.place[origin + first : origin + last + 1]
            lows, highs = own["low"], own["high"]
            inside = bool(((lows <= value) & (value <= highs)).any())
            whole = bool(self.stated.integer[k])
            if inside and not (whole and abs(value - np.round(value)) > 1e-9):
                continue
            if whole and inside:
                below, above = float(np.floor(value)), float(np.ceil(value))
            else:
                before, after = highs[highs < value], lows[lows > value]
                if not (before.size and after.size):
                    continue
                below, above = float(before.max()), float(after.min())
            if min(abs(value - below), abs(above - value)) <= 1e-9 * max(1.0, abs(value)):
                continue
            high, low = piece.high.copy(), piece.low.copy()
            high[k], low[k] = min(high[k], below), max(low[k], above)
            return [piece._replace(high=high), piece._replace(low=low)]
        return []

    def _branch_on_values(self, piece: Piece, x: FloatArray) -> list[Piece]:
        """Divide a piece at the value of a feature with several values and no others between."""
        f = self.features
        for k in range(self.p):
            first, last, origin = (
                int(piece.first[k]),
                int(piece.last[k]),
                int(f.feature["place_start"][k]),
            )
            own = f.place[origin + first : origin + last + 1]
            low, high = self._hull(piece, k)
            if self.stated.integer[k] and low < high:
                value = float(np.clip(np.round(x[k]), low, high))
                pieces = [(value, value), (low, value - 1), (value + 1, high)]
                return [self._between(piece, k, a, b) for a, b in pieces if a <= b]
            if first < last and (own["low"] == own["high"]).all():
                return self._split_at(piece, k, first + int(np.argmin(np.abs(own["low"] - x[k]))))
        return []

    def _between(self, piece: Piece, k: int, low: float, high: float) -> Piece:
        """Return a piece with other bounds on the numbers of a feature."""
        new_low, new_high = piece.low.copy(), piece.high.copy()
        new_low[k], new_high[k] = max(new_low[k], low), min(new_high[k], high)
        return piece._replace(low=new_low, high=new_high)

    def _branch_on_fees(self, piece: Piece) -> list[Piece]:
        """Divide a piece at a reference with a fee, or at a kink that is not convex."""
        f = self.features
        for k in range(self.p):
            low, high = self._hull(piece, k)
            for i in range(int(f.feature["kink_start"][k]), int(f.feature["kink_end"][k])):
                at = float(f.kink["at"][i])
                is_exact = f.kink["fee"][i] == 0 and f.kink["weight"][i] >= 0
                if is_exact or not low <= at <= high or low == high:
                    continue
                place = self._place(k, at)
                if f.kink["fee"][i] != 0 and piece.first[k] <= place <= piece.last[k]:
                    if piece.first[k] < piece.last[k]:
                        return self._split_at(piece, k, place)
                elif low < at < high:
                    new_high, new_low = piece.high.copy(), piece.low.copy()
                    new_high[k] = new_low[k] = at
                    return [piece._replace(high=new_high), piece._replace(low=new_low)]
        return []


def _neighbors(x: float) -> list[float]:
    """Return the nearest float64 numbers on both sides of a number."""
    found, below, above = [x], x, x
    for _ in range(NEIGHBORS):
        below, above = float(np.nextafter(below, -np.inf)), float(np.nextafter(above, np.inf))
        found += [below, above]
    return found


class _Program:
    """The linear program of a piece: features of rows, and distances from references."""

    def __init__(
        self,
        solver: RegionSolver,
        piece: Piece,
        slopes: FloatArray,
        hulls: list[tuple[float, float]],
        tighten: float = 0.0,
        near: FloatArray | None = None,
    ) -> None:
        f, rows = solver.features, solver.rows
        self.solver, self.piece, self.hulls = solver, piece, hulls
        self.p, self.n_rows = solver.p, rows.row.size
        cost = [0.0] * self.p
        bounds = [tuple(v if abs(v) < HUGE else None for v in hull) for hull in hulls]
        upper: list[tuple[dict[int, float], float, int, float]] = []
        equal: list[tuple[dict[int, float], float, int]] = []
        for k in range(self.p):
            if f.feature["has_table"][k]:
                continue
            cost[k] += float(f.feature["slope"][k] + slopes[k])
            low, high = hulls[k]
            for i in range(int(f.feature["kink_start"][k]), int(f.feature["kink_end"][k])):
                weight, at = float(f.kink["weight"][i]), float(f.kink["at"][i])
                if weight == 0:
                    continue
                if at <= low or at >= high or weight < 0:
                    if weight < 0 and low < at < high and low > -HUGE and high < HUGE:
                        rise = (abs(high - at) - abs(low - at)) / (high - low)
                        cost[k] += weight * rise
                    else:
                        cost[k] += weight if at <= low else -weight
                    continue
                t = len(cost)
                cost.append(weight)
                bounds.append((0.0, None))
                upper.append(({k: 1.0, t: -1.0}, at, -1, 0.0))
                upper.append(({k: -1.0, t: -1.0}, -at, -1, 0.0))
        for r in piece.rows:
            entries = range(int(rows.row["start"][r]), int(rows.row["end"][r]))
            terms = {int(rows.entry["feature"][i]): float(rows.entry["factor"][i]) for i in entries}
            size = float(rows.row["size"][r])
            if near is not None:
                size += sum(abs(a * float(near[k])) for k, a in terms.items())
            low, high = float(rows.row["low"][r]), float(rows.row["high"][r])
            if low == high:
                equal.append((terms, low, r))
                continue
            if high < np.inf:
                upper.append((terms, high - tighten * size, r, 1.0))
            if low > -np.inf:
                negative = {k: -a for k, a in terms.items()}
                upper.append((negative, -low - tighten * size, r, -1.0))
        self.cost, self.bounds, self.upper, self.equal = cost, bounds, upper, equal

    def _matrix(self, entries: list[dict[int, float]], n: int) -> FloatArray:
        matrix = np.zeros((len(entries), n))
        for i, terms in enumerate(entries):
            for k, a in terms.items():
                matrix[i, k] = a
        return matrix

    def solve(self) -> tuple[FloatArray | None, FloatArray]:
        """Return the point and the multipliers of the rows; no point if it is infeasible."""
        n = len(self.cost)
        result = linprog(
            self.cost,
            A_ub=self._matrix([u[0] for u in self.upper], n) if self.upper else None,
            b_ub=[u[1] for u in self.upper] if self.upper else None,
            A_eq=self._matrix([e[0] for e in self.equal], n) if self.equal else None,
            b_eq=[e[1] for e in self.equal] if self.equal else None,
            bounds=self.bounds,
            method="highs",
        )
        y = np.zeros(self.n_rows)
        if result.status != 0:
            return None, y
        if self.upper:
            for (_, _, r, sign), marginal in zip(self.upper, result.ineqlin.marginals, strict=True):
                if r >= 0:
                    y[r] -= sign * marginal
        if self.equal:
            for (_, _, r), marginal in zip(self.equal, result.eqlin.marginals, strict=True):
                y[r] -= marginal
        return result.x[: self.p].copy(), y

    def is_unbounded(self) -> bool:
        """Return whether there are points of any low cost."""
        costs = self.cost
        if self.solve()[0] is not None:
            return False
        self.cost = [0.0] * len(costs)
        return self.solve()[0] is not None

    def ray(self) -> FloatArray | None:
        """Return multipliers that prove that the rows contradict each other; None if not found.

        They are those of the program that minimizes the sum of all violations.
        """
        rows = [(t, b, r, s) for t, b, r, s in self.upper if r >= 0]
        equal = [(e[0], e[1], e[2], 0.0) for e in self.equal]
        n = self.p + len(rows) + 2 * len(equal)
        cost = [0.0] * self.p + [1.0] * (n - self.p)
        bounds = [*self.bounds[: self.p], *[(0.0, None)] * (n - self.p)]
        upper = [{**t, self.p + i: -1.0} for i, (t, _, _, _) in enumerate(rows)]
        at = self.p + len(rows)
        balance = [{**e[0], at + 2 * i: 1.0, at + 2 * i + 1: -1.0} for i, e in enumerate(equal)]
        result = linprog(
            cost,
            A_ub=self._matrix(upper, n) if upper else None,
            b_ub=[b for _, b, _, _ in rows] if upper else None,
            A_eq=self._matrix(balance, n) if balance else None,
            b_eq=[e[1] for e in equal] if balance else None,
            bounds=bounds,
            method="highs",
        )
        if result.status != 0:
            return None
        y = np.zeros(self.n_rows)
        if upper:
            for (_, _, r, sign), marginal in zip(rows, result.ineqlin.marginals, strict=True):
                y[r] -= sign * marginal
        if balance:
            for (_, _, r, _), marginal in zip(equal, result.eqlin.marginals, strict=True):
                y[r] -= marginal
        return y
