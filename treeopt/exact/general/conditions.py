"""Rows, clauses and counts of a problem as records, without what fixed features decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.exact.general.free_features import Contradiction, FreeFeatures, starts_of
from treeopt.exact.general.statement import COUNT, COUNTED, ENTRY, LITERAL, OF, ROW, Logic, Rows
from treeopt.problem.constraints import Clause, Count, Literal, Row
from treeopt.problem.problem import Problem


class Conditions:
    """Rows, clauses and counts of a problem.

    Parameters
    ----------
    problem : Problem
        The problem.
    free : FreeFeatures
        Its free features.

    Attributes
    ----------
    rows, literal_rows : lists of Row
        The rows that must hold, and those that are alternatives of clauses.
    clauses : list of lists
        The alternatives of each clause.
    rows_of : list of lists
        For each free feature, the rows that must hold and its coefficients there.
    """

    def __init__(self, problem: Problem, free: FreeFeatures) -> None:
        self.free, self.rows = free, free.rows
        self.literal_rows: list[Row] = []
        self.clauses: list[list[Literal]] = []
        self._counts: list[tuple[list[tuple[int, int]], int]] = []
        self.rows_of = self._rows_of()
        for condition in problem.input_conditions:
            if isinstance(condition, Clause):
                self._add_clause(condition)
            elif isinstance(condition, Count):
                self._counts.append(self._count(condition))

    def _rows_of(self) -> list[list[tuple[int, float]]]:
        """Return the rows of each free feature."""
        free = self.free
        of: list[list[tuple[int, float]]] = [[] for _ in free.columns]
        for r, row in enumerate(self.rows):
            for column, factor in zip(row.columns, row.coefficients, strict=True):
                if int(column) in free.feature_of and factor != 0:
                    of[free.feature_of[int(column)]].append((r, float(factor)))
        return of

    def _add_clause(self, clause: Clause) -> None:
        """Add a clause, without the alternatives that fixed features decide."""
        free = self.free
        literals: list[Literal] = []
        for literal in clause.literals:
            columns = literal.columns.tolist() if isinstance(literal, Row) else [literal.column]
            if any(column in free.feature_of for column in columns):
                literals.append(literal)
            elif literal.holds(free.base):
                return
        if not literals:
            raise Contradiction
        self.clauses.append(literals)
        self.literal_rows += [each for each in literals if isinstance(each, Row)]

    def _count(self, count: Count) -> tuple[list[tuple[int, int]], int]:
        """Return the free features of a count with the place of 0, and how many may differ."""
        free, most = self.free, count.k
        counted: list[tuple[int, int]] = []
        for column in count.columns:
            if column not in free.feature_of:
                most -= int(free.value_of(column) != 0)
                continue
            k = free.feature_of[column]
            j = int(free.places.free[k])
            zero = np.flatnonzero((free.low[j] == 0) & (free.high[j] == 0))
            counted.append((k, int(zero[0]) if zero.size else -1))
        if most < 0:
            raise Contradiction
        return counted, most

    def row_records(self) -> Rows:
        """Return the rows that must hold and those of clauses as records."""
        free = self.free
        rows = [*self.rows, *self.literal_rows]
        table: list[tuple[Any, ...]] = []
        entries: list[tuple[int, float, float]] = []
        for r, row in enumerate(rows):
            offset, size, start = 0.0, row.size, len(entries)
            for column, factor, each in zip(row.columns, row.coefficients, row.sizes, strict=True):
                if int(column) in free.feature_of:
                    entries.append((free.feature_of[int(column)], factor, each))
                else:
                    value = free.value_of(int(column))
                    offset += float(factor) * value
                    size += float(each) * abs(value)
            is_literal = r >= len(self.rows)
            limits = row.low - offset, row.high - offset
            table.append((start, len(entries), *limits, size, row.rounding, is_literal))
        of = [entry for own in self.rows_of for entry in own]
        return Rows(np.array(table, ROW), np.array(entries, ENTRY), np.array(of, OF))

    def logic_records(self) -> Logic:
        """Return the clauses and counts that the other features leave open."""
        free = self.free
        literals, below = [], [np.empty(0, np.int64)]
        n = 0
        for clause in self.clauses:
            for literal in clause:
                if isinstance(literal, Row):
                    r = len(self.rows) + self.literal_rows.index(literal)
                    literals.append((r, -1, -1))
                    continue
                k = free.feature_of[literal.column]
                inside = literal.admits(free.low[int(free.places.free[k])])
                literals.append((-1, k, n))
                below.append(np.append(0, np.cumsum(inside)))
                n += inside.size + 1
        starts = starts_of([own for own, _ in self._counts]).tolist()
        ends = zip(starts[:-1], starts[1:], (most for _, most in self._counts), strict=True)
        return Logic(
            clause_start=starts_of(self.clauses),
            literal=np.array(literals, LITERAL),
            below=np.concatenate(below),
            counts=np.array(list(ends), COUNT),
            counted=np.array([each for own, _ in self._counts for each in own], COUNTED),
        )
