"""The cheapest point of a box in which all predictions are constant.

Without rows and logic, each feature is chosen alone. Otherwise a small branch and bound runs on
linear programs: it branches on alternatives of clauses, on features that must be 0, on fees and on
integers. The linear program gives the multipliers of the rows and a point; the bound follows from
the multipliers, and not from the solver's word. The point is checked as a user would check it.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from treeopt.exact.general.bounds import UNIT
from treeopt.exact.general.divider import Divider
from treeopt.exact.general.pieces import NO_PIECE, Piece, Pieces
from treeopt.exact.general.points import Points
from treeopt.exact.general.program import Program
from treeopt.exact.general.stating import Stated
from treeopt.types import FloatArray


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
    is_without_logic, is_simple : bool
        Whether there are no clauses and counts; and no rows either.
    """

    def __init__(self, stated: Stated, max_pieces: int) -> None:
        self.stated, self.max_pieces = stated, max_pieces
        self.pieces = pieces = Pieces(stated)
        self.points, self.divider = Points(pieces), Divider(pieces)
        self.p, self.gave_up = pieces.p, False
        logic = pieces.logic
        self.is_without_logic = not (logic.clause_start.size > 1 or logic.counts.size > 0)
        self.is_simple = self.is_without_logic and not pieces.must

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
        whole = self.pieces.whole(box)
        if self.is_simple or not p:
            found = [self.pieces.lowest(whole, k, 0.0, slopes[k]) for k in range(p)]
            x = np.array([at for _, at, _ in found])
            if not p and not self.pieces.holds(whole, x):
                return Solved(None, np.inf)
            total = sum(value for value, _, _ in found)
            reach = np.array([max(map(abs, hull)) for hull in self.pieces.hulls(whole)])
            hidden = self.pieces.hidden(slopes)
            size = sum(abs(value) for value, _, _ in found)
            size += float((hidden * reach)[hidden > 0].sum())
            return Solved(x, float(total - UNIT * size * (p + 4)))
        return self._search(whole, slopes, tolerance, max_pieces or self.max_pieces)

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
            point = self.points.near(piece, slopes, x)
            if point is not None:
                cost = self.pieces.cost_of(point, slopes)
                if cost < value:
                    best, value = point, cost
                if cost - bound <= tolerance:
                    left_open = min(left_open, bound)
                    continue
            if bound >= value - tolerance:
                left_open = min(left_open, bound)
                continue
            children = self.divider.parts_of(piece, x)
            if not children:
                all_points = None if point is not None else self.points.all_of(piece, slopes)
                if all_points is None:
                    left_open = min(left_open, bound)
                for point in all_points or ():
                    if (
                        self.pieces.holds(piece, point)
                        and (cost := self.pieces.cost_of(point, slopes)) < value
                    ):
                        best, value = point, cost
            for child in children:
                if child is not NO_PIECE:
                    heapq.heappush(heap, (bound, next(number), child))
        return Solved(best, float(min(left_open, value) if best is not None else left_open))

    def _relaxation(
        self, piece: Piece, slopes: FloatArray, known: float
    ) -> tuple[float, FloatArray | None]:
        """Return a bound on a piece, and the point of its linear program."""
        piece, hulls = self.pieces.narrowed(piece)
        if any(low > high for low, high in hulls) or self.pieces.is_empty(piece, hulls):
            return np.inf, None
        program = Program(self.pieces, piece, slopes, hulls)
        x, y = program.solve()
        if x is None:
            ray = program.ray()
            if ray is not None and self.pieces.dual(piece, np.zeros(self.p), ray, costs=False) > 0:
                return np.inf, None
        else:
            # The solver's tolerances hide numbers next to an end that is not admissible.
            x = np.clip(self.pieces.with_tables(piece, x, slopes), *np.array(hulls).T)
        return max(known, self.pieces.dual(piece, slopes, y)), x

    def relax(self, box: Any) -> tuple[FloatArray | None, FloatArray, bool]:
        """Return point and multipliers of the linear program of a box.

        If it is infeasible, there is no point, and the multipliers show it if the last entry is
        True.
        """
        piece, no_slopes = self.pieces.whole(box), np.zeros(self.p)
        program = Program(self.pieces, piece, no_slopes, self.pieces.hulls(piece))
        x, y = program.solve()
        if x is not None:
            return x, y, False
        ray = program.ray()
        if ray is None:
            return None, y, False
        return None, ray, self.pieces.dual(piece, no_slopes, ray, costs=False) > 0

    def is_contradictory(self, box: Any) -> bool:
        """Return whether one row alone shows that a box has no point."""
        piece = self.pieces.whole(box)
        return self.pieces.is_empty(piece, self.pieces.hulls(piece))

    def is_bounded(self, box: Any, features: list[int]) -> bool:
        """Return whether rows bound the costs of a box from below, and features from both sides."""
        piece = self.pieces.whole(box)
        program = Program(self.pieces, piece, np.zeros(self.p), self.pieces.hulls(piece))
        if program.is_unbounded():
            return False
        for k in features:
            for side in (1.0, -1.0):
                program.cost = [0.0] * len(program.cost)
                program.cost[k] = side
                if program.is_unbounded():
                    return False
        return True
