"""The linear program of a piece: its point, its multipliers, and proofs that it has no point."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from treeopt.exact.general.pieces import Hulls, Piece, Pieces
from treeopt.exact.general.statement import HUGE
from treeopt.types import FloatArray


class Program:
    """The linear program of a piece: features of rows, and distances from references."""

    def __init__(
        self,
        pieces: Pieces,
        piece: Piece,
        slopes: FloatArray,
        hulls: Hulls,
        tighten: float = 0.0,
        near: FloatArray | None = None,
    ) -> None:
        f, rows = pieces.features, pieces.rows
        self.p, self.n_rows = pieces.p, rows.row.size
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
