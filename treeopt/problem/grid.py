"""The grid of cells that all sums of a problem share.

Every sum is constant within a cell of the grid. Along each feature, the grid has the cuts of all
sums, and those that constraints and costs ask for. Cuts are float64 numbers; each one is the last
number of the cell below it. Models that read inputs in different precisions therefore share one
rule: the cell of ``x`` is the number of cuts below ``x``. If a model accepts missing values, the
last cell represents them.

The grid is built once. `Places` are the cells that a space allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import nextafter
from typing import Any

import numpy as np

from treeopt.model.cells import last_before
from treeopt.problem.space import largest_input
from treeopt.problem.sums import TreeSum
from treeopt.types import Array, BoolArray, FloatArray, IntArray


class Grid:
    """The cells of every feature that a sum reads or that has cuts of its own.

    Only these features are numbered, in ascending order of their columns.

    Parameters
    ----------
    sums : sequence of TreeSum
        The sums that share the grid.
    n_columns : int, optional
        Number of columns of the input. By default, that of the first model.
    cuts : mapping from int to float64 array, optional
        More cuts by column: the last numbers of cells. A column without cuts is one cell.

    Attributes
    ----------
    sums : tuple of TreeSum
        The sums that share the grid.
    columns : int64 array
        The column of each feature.
    position : int64 array
        The feature of each column; -1 if it has none.
    n_cells : int64 array
        Number of cells of each feature, including the cell for missing values.
    has_sets : bool array
        Whether at least one sum splits the feature by sets of categories.
    missing_low, missing_high : float
        First and last float64 that a model reads as missing; NaN if there is none.
    largest : float
        Maximum finite input of all models.
    """

    def __init__(
        self,
        sums: Sequence[TreeSum],
        n_columns: int | None = None,
        cuts: Mapping[int, FloatArray] | None = None,
    ) -> None:
        self.sums = tuple(sums)
        self._n_columns = self.sums[0].ensemble.n_features if n_columns is None else n_columns
        dtypes = [own.input_dtype for own in self.sums] or [np.dtype(np.float64)]
        self.largest = min(map(largest_input, dtypes))
        self.missing_low, self.missing_high = np.nan, np.nan
        for own in self.sums:
            if not np.isnan(own.missing_value):
                self.missing_low, self.missing_high = _preimage(own.missing_value, own.input_dtype)
        self._own_feature: list[IntArray] = []
        self._own_cell: list[list[IntArray]] = []
        self.columns: IntArray
        self.n_cells: IntArray
        self.has_sets: BoolArray
        self._last: FloatArray
        self._start: IntArray
        if len(self.sums) == 1 and not cuts and self.sums[0].to_column is None:
            cells = self.sums[0].cells
            self.columns, self.n_cells, self.has_sets = cells.columns, cells.n_cells, cells.has_sets
            self._last, self._start = self.sums[0].last_of_cells, cells.cut_start
        else:
            self._join({} if cuts is None else cuts)
        self.position: IntArray = self._features_at(self.columns)

    @property
    def _is_single(self) -> bool:
        """Whether the cells are those of the only sum."""
        return not self._own_feature and bool(self.sums)

    def _features_at(self, columns: IntArray) -> IntArray:
        """Return the position of each column of the input in a list of columns; -1 if missing."""
        position = np.full(self._n_columns, -1, np.int64)
        position[columns] = np.arange(columns.size)
        return position

    def _join(self, more: Mapping[int, FloatArray]) -> None:
        """Merge the cuts of all sums and more, and map the cells to those of each sum."""
        found = [own.columns for own in self.sums]
        self.columns = np.unique(np.concatenate([*found, np.array([*more], np.int64)]))
        position = self._features_at(self.columns)
        cuts: list[list[FloatArray]] = [[more.get(int(c), np.empty(0))] for c in self.columns]
        if not np.isnan(self.missing_low):
            # What means missing is not inside a cell of numbers.
            apart = np.array([nextafter(self.missing_low, -np.inf), self.missing_high])
            for column in more:
                cuts[position[column]].append(apart)
        self.has_sets = np.zeros(self.columns.size, np.bool_)
        for own, columns in zip(self.sums, found, strict=True):
            features = position[columns]
            for i, j in enumerate(features):
                cuts[j].append(_lasts_of(own, i))
                self.has_sets[j] |= own.cells.has_sets[i]
            self._own_feature.append(features)
        joined = [np.unique(np.concatenate(lasts)) for lasts in cuts]
        self._start = np.cumsum([0, *(last.size for last in joined)])
        self._last = np.concatenate(joined) if joined else np.empty(0)
        missing = int(any(own.cells.missing for own in self.sums))
        self.n_cells = np.diff(self._start) + 1 + missing
        for own, features in zip(self.sums, self._own_feature, strict=True):
            n_own = own.cells.n_cells
            self._own_cell.append([])
            for i, j in enumerate(features):
                ends = np.append(self.lasts(j), np.inf)
                cells = np.searchsorted(_lasts_of(own, i), ends)
                self._own_cell[-1].append(np.append(cells, n_own[i] - 1)[: self.n_cells[j]])

    def _readers(self, j: int) -> list[tuple[int, TreeSum, int]]:
        """Return the sums that read a feature: number, sum, and feature number in the sum."""
        if self._is_single:
            return [(0, self.sums[0], j)]
        return [
            (k, own, int(np.flatnonzero(features == j)[0]))
            for k, (own, features) in enumerate(zip(self.sums, self._own_feature, strict=True))
            if j in features
        ]

    def features_of(self, k: int) -> IntArray:
        """Return the features that sum ``k`` reads."""
        return np.arange(self.columns.size) if self._is_single else self._own_feature[k]

    def own_cells(self, k: int, i: int, cells: IntArray) -> IntArray:
        """Return cells of the ``i``-th feature of sum ``k`` in its own numbering."""
        return cells if self._is_single else self._own_cell[k][i][cells]

    def own_points(self, k: int, cells: IntArray) -> IntArray:
        """Return points, cells ``[point, feature]``, in the numbering of sum ``k``."""
        if self._is_single:
            return cells
        own = np.empty((len(cells), self._own_feature[k].size), np.int64)
        for i, j in enumerate(self._own_feature[k]):
            own[:, i] = self._own_cell[k][i][cells[:, j]]
        return own

    def cells_alike(self, cells: IntArray) -> list[BoolArray]:
        """Return, for each feature, the cells that all sums treat like the cell of a point."""
        if self._is_single:
            alone = self.sums[0].cells_alike(cells)
            ends = np.cumsum(self.n_cells).tolist()
            return [alone[begin:end] for begin, end in pairwise([0, *ends])]
        alike = [np.ones(n, np.bool_) for n in self.n_cells]
        for k, own in enumerate(self.sums):
            same = own.cells_alike(self.own_points(k, cells[None, :])[0])
            ends = np.cumsum(own.cells.n_cells)
            for i, j in enumerate(self.features_of(k)):
                like = same[ends[i] - own.cells.n_cells[i] : ends[i]]
                alike[j] &= like[self.own_cells(k, i, np.arange(self.n_cells[j]))]
        return alike

    def n_numbers(self, j: int) -> int:
        """Return the number of cells of feature ``j`` that are numbers, not missing."""
        return int(self._start[j + 1] - self._start[j]) + 1

    def in_order(self, j: int) -> bool:
        """Return whether every split on feature ``j`` is a comparison with one number."""
        return all(own.cells.in_order(i) for _, own, i in self._readers(j))

    def keys(self, j: int, cells: IntArray) -> Array:
        """Return the keys of cells of feature ``j``, ``[cell, slot]``, with slots of all sums."""
        readers = self._readers(j)
        found = [own.keys_at(i, self.own_cells(k, i, cells)) for k, own, i in readers]
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
        joined = np.concatenate([np.empty(0), *(own.cells.cuts_of(i) for _, own, i in readers)])
        return float(joined.max() / 2 - joined.min() / 2) if joined.size > 1 else 0.0


def _lasts_of(own: TreeSum, i: int) -> FloatArray:
    """Return the last float64 of each cell of the ``i``-th feature of a sum except the last."""
    start, end = own.cells.cut_start[i : i + 2]
    return own.last_of_cells[start:end]


def _preimage(value: float, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the first and last float64 that the cast turns into a value; NaN if there is none."""
    before = np.array([np.nextafter(dtype.type(value), dtype.type(-np.inf)), value])
    last = last_before(before.astype(np.float64), dtype)
    return float(np.nextafter(last[0], np.inf)), float(last[1])
