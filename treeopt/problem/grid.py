"""The grid of cells that all terms of a problem share.

Every term is constant within a cell of the grid. Along each feature, the grid has the cuts of all
terms. Cuts are float64 numbers; each one is the last number of the cell below it. Models that read
inputs in different precisions therefore share one rule: the cell of ``x`` is the number of cuts
below ``x``. If a model accepts missing values, the last cell represents them.

The grid depends only on the terms and is built once. `Places` are the cells that a space allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import nextafter
from typing import Any

import numpy as np

from treeopt.model.cells import last_before
from treeopt.problem.space import largest_input
from treeopt.problem.terms import Term
from treeopt.types import Array, BoolArray, FloatArray, IntArray


class Grid:
    """The cells of every feature that at least one term reads.

    Only these features are numbered, in ascending order of their columns.

    Attributes
    ----------
    terms : tuple of Term
        The terms that share the grid.
    columns : int64 array
        The column of each feature.
    position : int64 array
        The feature of each column; -1 if no term reads it.
    n_cells : int64 array
        Number of cells of each feature, including the cell for missing values.
    has_sets : bool array
        Whether at least one term splits the feature by sets of categories.
    missing_low, missing_high : float
        First and last float64 that a model reads as missing; NaN if there is none.
    largest : float
        Maximum finite input of all models.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = tuple(terms)
        first = self.terms[0]
        cells = first.cells
        self.largest = min(largest_input(term.input_dtype) for term in self.terms)
        self.missing_low, self.missing_high = _preimage(first.missing_value, first.input_dtype)
        self._own_feature: list[IntArray] = []
        self._own_cell: list[list[IntArray]] = []
        self.columns: IntArray = cells.columns
        self.n_cells: IntArray = cells.n_cells
        self.has_sets: BoolArray = cells.has_sets
        self._last: FloatArray = first.last_of_cells
        self._start: IntArray = cells.cut_start
        if len(self.terms) > 1:
            self._join()
        self.position: IntArray = self._features_at(self.columns)

    def _features_at(self, columns: IntArray) -> IntArray:
        """Return the position of each column of the input in a list of columns; -1 if missing."""
        position = np.full(self.terms[0].n_columns, -1, np.int64)
        position[columns] = np.arange(columns.size)
        return position

    def _join(self) -> None:
        """Merge the cuts of several terms, and map the merged cells to the cells of each term."""
        found = [term.cells.columns for term in self.terms]
        self.columns = np.unique(np.concatenate(found))
        position = self._features_at(self.columns)
        cuts: list[list[FloatArray]] = [[] for _ in self.columns]
        self.has_sets = np.zeros(self.columns.size, np.bool_)
        for term, columns in zip(self.terms, found, strict=True):
            features = position[columns]
            for i, j in enumerate(features):
                cuts[j].append(_lasts_of(term, i))
                self.has_sets[j] |= term.cells.has_sets[i]
            self._own_feature.append(features)
        joined = [np.unique(np.concatenate(own)) for own in cuts]
        self._start = np.cumsum([0, *(last.size for last in joined)])
        self._last = np.concatenate(joined) if joined else np.empty(0)
        missing = int(any(term.cells.missing for term in self.terms))
        self.n_cells = np.diff(self._start) + 1 + missing
        for term, features in zip(self.terms, self._own_feature, strict=True):
            n_own = term.cells.n_cells
            self._own_cell.append([])
            for i, j in enumerate(features):
                ends = np.append(self.lasts(j), np.inf)
                own = np.searchsorted(_lasts_of(term, i), ends)
                self._own_cell[-1].append(np.append(own, n_own[i] - 1)[: self.n_cells[j]])

    def _readers(self, j: int) -> list[tuple[int, Term, int]]:
        """Return the terms that read a feature: number, term, and feature number in the term."""
        if not self._own_feature:
            return [(0, self.terms[0], j)]
        return [
            (k, term, int(np.searchsorted(features, j)))
            for k, (term, features) in enumerate(zip(self.terms, self._own_feature, strict=True))
            if j in features
        ]

    def features_of(self, k: int) -> IntArray:
        """Return the features that term ``k`` reads."""
        return self._own_feature[k] if self._own_feature else np.arange(self.columns.size)

    def own_cells(self, k: int, i: int, cells: IntArray) -> IntArray:
        """Return cells of the ``i``-th feature of term ``k`` in the term's own numbering."""
        return self._own_cell[k][i][cells] if self._own_cell else cells

    def own_points(self, k: int, cells: IntArray) -> IntArray:
        """Return points, cells ``[point, feature]``, in the numbering of term ``k``."""
        if not self._own_cell:
            return cells
        own = np.empty((len(cells), self._own_feature[k].size), np.int64)
        for i, j in enumerate(self._own_feature[k]):
            own[:, i] = self._own_cell[k][i][cells[:, j]]
        return own

    def cells_alike(self, cells: IntArray) -> list[BoolArray]:
        """Return, for each feature, the cells that all terms treat like the cell of a point."""
        if not self._own_cell:
            own = self.terms[0].cells_alike(cells)
            ends = np.cumsum(self.n_cells).tolist()
            return [own[begin:end] for begin, end in pairwise([0, *ends])]
        alike = [np.ones(n, np.bool_) for n in self.n_cells]
        for k, term in enumerate(self.terms):
            own = term.cells_alike(self.own_points(k, cells[None, :])[0])
            ends = np.cumsum(term.cells.n_cells)
            for i, j in enumerate(self.features_of(k)):
                same = own[ends[i] - term.cells.n_cells[i] : ends[i]]
                alike[j] &= same[self.own_cells(k, i, np.arange(self.n_cells[j]))]
        return alike

    def n_numbers(self, j: int) -> int:
        """Return the number of cells of feature ``j`` that are numbers, not missing."""
        return int(self._start[j + 1] - self._start[j]) + 1

    def in_order(self, j: int) -> bool:
        """Return whether every split on feature ``j`` is a comparison with one number."""
        return all(term.cells.in_order(i) for _, term, i in self._readers(j))

    def keys(self, j: int, cells: IntArray) -> Array:
        """Return the keys of cells of feature ``j``, ``[cell, slot]``, with slots of all terms."""
        readers = self._readers(j)
        found = [term.keys_at(i, self.own_cells(k, i, cells)) for k, term, i in readers]
        return np.concatenate(found, axis=1)

    def cell_of(self, j: int, values: FloatArray) -> IntArray:
        """Return the cell of feature ``j`` that holds each value; values may be missing."""
        cells: IntArray = np.searchsorted(self.lasts(j), values)
        missing = (self.missing_low <= values) & (values <= self.missing_high)
        cells[np.isnan(values) | missing] = self.n_cells[j] - 1
        return cells

    def lasts(self, j: int) -> FloatArray:
        """Return the last float64 of each cell of feature ``j`` except the last cell."""
        return self._last[self._start[j] : self._start[j + 1]]

    def intervals(self, j: int) -> tuple[FloatArray, FloatArray]:
        """Return the first and last float64 of each cell of feature ``j`` that holds numbers."""
        last = self.lasts(j)
        return np.append(-np.inf, np.nextafter(last, np.inf)), np.append(last, np.inf)

    def interval(self, j: int, first: int, last: int) -> tuple[float, float]:
        """Return the first and last float64 of the cells ``first..last`` of feature ``j``."""
        lasts = self.lasts(j)
        low = nextafter(lasts[first - 1], np.inf) if first > 0 else -np.inf
        return low, float(lasts[last]) if last < lasts.size else np.inf

    def half_range(self, j: int) -> float:
        """Return half the distance between the first and the last cut of feature ``j``."""
        readers = self._readers(j)
        joined = np.concatenate([term.cells.cuts_of(i) for _, term, i in readers])
        return float(joined.max() / 2 - joined.min() / 2) if joined.size > 1 else 0.0


def _lasts_of(term: Term, i: int) -> FloatArray:
    """Return the last float64 of each cell of the ``i``-th feature of a term except the last."""
    start, end = term.cells.cut_start[i : i + 2]
    return term.last_of_cells[start:end]


def _preimage(value: float, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the first and last float64 that the cast turns into a value; NaN if there is none."""
    before = np.array([np.nextafter(dtype.type(value), dtype.type(-np.inf)), value])
    last = last_before(before.astype(np.float64), dtype)
    return float(np.nextafter(last[0], np.inf)), float(last[1])
