"""Divide a piece where the point of its linear program is not admissible or not exact."""

from __future__ import annotations

import numpy as np

from treeopt.exact.general.pieces import NO_PIECE, Piece, Pieces
from treeopt.problem.constraints import Row, Within
from treeopt.types import FloatArray


class Divider:
    """Divides pieces by alternatives of clauses, counts, integers, gaps and fees."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces, self.stated, self.p = pieces, pieces.stated, pieces.p
        self.features, self.logic = pieces.features, pieces.logic

    def parts_of(self, piece: Piece, x: FloatArray) -> list[Piece]:
        """Return the parts of a piece, given the point of its program; none if that is exact."""
        return (
            self._at_logic(piece, x)
            or self._at_numbers(piece, x)
            or self._at_fees(piece)
            or self._at_values(piece, x)
        )

    def _at_logic(self, piece: Piece, x: FloatArray) -> list[Piece]:
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
            return children or [NO_PIECE]
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
                return [NO_PIECE]
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

    def _at_numbers(self, piece: Piece, x: FloatArray) -> list[Piece]:
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

    def _at_values(self, piece: Piece, x: FloatArray) -> list[Piece]:
        """Divide a piece at the value of a feature with several values and no others between."""
        f = self.features
        for k in range(self.p):
            first, last, origin = (
                int(piece.first[k]),
                int(piece.last[k]),
                int(f.feature["place_start"][k]),
            )
            own = f.place[origin + first : origin + last + 1]
            low, high = self.pieces.hull(piece, k)
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

    def _at_fees(self, piece: Piece) -> list[Piece]:
        """Divide a piece at a reference with a fee, or at a kink that is not convex."""
        f = self.features
        for k in range(self.p):
            low, high = self.pieces.hull(piece, k)
            for i in range(int(f.feature["kink_start"][k]), int(f.feature["kink_end"][k])):
                at = float(f.kink["at"][i])
                is_exact = f.kink["fee"][i] == 0 and f.kink["weight"][i] >= 0
                if is_exact or not low <= at <= high or low == high:
                    continue
                place = self.stated.place(k, at)
                if f.kink["fee"][i] != 0 and piece.first[k] <= place <= piece.last[k]:
                    if piece.first[k] < piece.last[k]:
                        return self._split_at(piece, k, place)
                elif low < at < high:
                    below, above = at, at
                    if self.stated.integer[k]:
                        below, above = float(np.floor(at)), float(np.ceil(at))
                    return [
                        self._between(piece, k, -np.inf, below),
                        self._between(piece, k, above, np.inf),
                    ]
        return []
