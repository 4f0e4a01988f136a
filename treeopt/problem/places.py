"""Places: the cells of a grid that a space allows.

A *place* is an admissible cell of a feature: a cell with at least one value that the space allows.
If every split compares with one number, places are ordered as numbers. Otherwise (categories, or
zero or a missing value among numbers), places that most splits treat alike are neighbors, so that a
leaf consists of few runs of places.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cached_property

import numpy as np

from treeopt.model.joint import Inputs
from treeopt.problem.bounds import feature_label
from treeopt.problem.grid import Grid
from treeopt.problem.region import Region
from treeopt.problem.space import Space
from treeopt.run.limits import Limits
from treeopt.types import FloatArray, Int32Array, IntArray

MAX_SORTED = 1000
"""Maximum number of categories of a feature that are reordered."""

SLOTS_AT_ONCE = 32
"""Number of slots whose keys are compared between two checks of the limits."""


NO_NUMBERS: FloatArray = np.empty(0)
"""The listed values of a feature that has none."""


class Places:
    """The admissible cells of each feature of a grid.

    Parameters
    ----------
    grid : Grid
        The grid.
    space : Space
        The allowed inputs.
    model : Ensemble or Difference
        The model that describes the inputs: names, categories, missing values.
    limits : Limits, optional
        If the time limit is reached, unordered places are not reordered.

    Attributes
    ----------
    cells : list of int64 arrays
        The admissible cells of each feature, in the order of its places.
    ordered : list of bool
        Whether every split divides the places of the feature into two runs.
    free : int64 array
        The features with more than one place.
    infeasible_because : str
        Reason for infeasibility; empty if feasible.
    """

    def __init__(
        self, grid: Grid, space: Space, model: Inputs, limits: Limits | None = None
    ) -> None:
        self.grid, self.space, self.model, self._limits = grid, space, model, limits
        # Inputs beyond the range of the model's precision are excluded.
        largest = grid.largest
        self.lower = np.where(space.fixed, space.lower, np.maximum(space.lower, -largest))
        self.upper = np.where(space.fixed, space.upper, np.minimum(space.upper, largest))
        self.cells: list[IntArray] = []
        self.ordered: list[bool] = []
        self.infeasible_because = space.infeasible_because
        for j, column in enumerate(grid.columns):
            cells, ordered = self._admissible(j)
            self.cells.append(cells)
            self.ordered.append(ordered)
            if not cells.size and not self.infeasible_because:
                name = feature_label(int(column), self.model)
                self.infeasible_because = f"{name} has no admissible value"
        self.free: IntArray = np.flatnonzero([cells.size > 1 for cells in self.cells])

    def keeping(self, cells: Mapping[int, IntArray]) -> Places:
        """Return the places with the admissible cells of some features replaced by a subset."""
        smaller = copy(self)
        smaller.cells = [cells.get(j, own) for j, own in enumerate(self.cells)]
        smaller.free = np.flatnonzero([own.size > 1 for own in smaller.cells])
        smaller.__dict__.pop("start", None)
        return smaller

    def _admissible(self, j: int) -> tuple[IntArray, bool]:
        """Return the admissible cells of a feature, and whether they are ordered."""
        grid, space = self.grid, self.space
        column = int(grid.columns[j])
        low, high = self.lower[column], self.upper[column]
        if column in space.values:
            cells = np.unique(grid.cell_of(j, space.values[column]))
        elif low == high or np.isnan(low):
            cells = grid.cell_of(j, np.array([low]))
        else:
            first, last = np.searchsorted(grid.lasts(j), [low, high])
            cells = np.arange(first, last + 1)
            if space.integer[column] or (grid.missing_low <= high and grid.missing_high >= low):
                cells = self._without_empty(j, cells, low, high)
        if cells.size > 1 and (cells[-1] == grid.n_numbers(j) or not grid.in_order(j)):
            return self._group_alike(j, cells), False
        return cells, True

    def _without_empty(self, j: int, cells: IntArray, low: float, high: float) -> IntArray:
        """Drop cells without an admissible number; add the cell for missing values if needed."""
        grid, column = self.grid, int(self.grid.columns[j])
        begin, end = grid.intervals(j)
        lower, upper = np.maximum(begin[cells], low), np.minimum(end[cells], high)
        if self.space.integer[column]:
            lower, upper = np.ceil(lower), np.floor(upper)
        missing = (grid.missing_low <= lower) & (upper <= grid.missing_high)
        cells = cells[(lower <= upper) & ~missing]
        return np.append(cells, begin.size) if self._may_be_missing(column) else cells

    def _may_be_missing(self, column: int) -> bool:
        """Return whether an admissible number of a feature means missing."""
        grid = self.grid
        if not self.space.may_be_missing[column]:
            return False
        low = max(self.lower[column], grid.missing_low)
        high = min(self.upper[column], grid.missing_high)
        if self.space.integer[column]:
            low, high = np.ceil(low), np.floor(high)
        return bool(low <= high) and not np.isnan(grid.missing_low)

    def _group_alike(self, j: int, cells: IntArray) -> IntArray:
        """Return unordered cells, sorted so that cells that splits treat alike are neighbors.

        Each cell is followed by the nearest of the remaining cells. The distance of two cells is
        the number of splits that separate them. Every order is valid, so if the time limit is
        reached, the cells are returned as they are.
        """
        grid = self.grid
        if not grid.has_sets[j] or cells.size > MAX_SORTED:
            return cells
        keys = grid.keys(j, cells)
        apart = np.zeros((cells.size, cells.size), np.float32)
        for first in range(0, keys.shape[1], SLOTS_AT_ONCE):
            if self._limits is not None and self._limits.is_over():
                return cells
            some = np.ascontiguousarray(keys[:, first : first + SLOTS_AT_ONCE]).view(np.uint8)
            bits = np.unpackbits(some, axis=1).astype(np.float32)
            ones = bits.sum(axis=1)
            # Integers below 2^24: these sums are exact.
            apart += ones[:, None] + ones - 2 * (bits @ bits.T)
        order = [0]
        apart[:, 0] = np.inf
        while len(order) < cells.size:
            order.append(int(np.argmin(apart[order[-1]])))
            apart[:, order[-1]] = np.inf
        return cells[order]

    @cached_property
    def start(self) -> IntArray:
        """First place of each free feature, if all places are numbered consecutively."""
        return np.cumsum([0, *(self.cells[j].size for j in self.free)])

    def of_points(self, X: FloatArray) -> Int32Array:
        """Return the places of points; a cell that is not admissible is replaced by the nearest."""
        cells = np.zeros((len(X), len(self.cells)), np.int64)
        for j in self.free:
            cells[:, j] = self.grid.cell_of(int(j), X[:, self.grid.columns[j]])
        return self.of_cells(cells)

    def of_cells(self, cells: IntArray) -> Int32Array:
        """Return the places of cells ``[point, feature]``, or the nearest admissible places."""
        out = np.empty((len(cells), self.free.size), np.int32)
        for k, j in enumerate(self.free):
            own, cell = self.cells[j], cells[:, j]
            if own[-1] - own[0] == own.size - 1 and self.ordered[j]:
                out[:, k] = np.clip(cell, own[0], own[-1]) - own[0]
                continue
            order = np.argsort(own)
            at = np.clip(np.searchsorted(own[order], cell), 0, own.size - 1)
            before = np.maximum(at - 1, 0)
            nearer = np.abs(own[order[before]] - cell) < np.abs(own[order[at]] - cell)
            out[:, k] = order[np.where(nearer, before, at)]
        return out

    def cells_at(self, places: Int32Array) -> IntArray:
        """Return the cells of every feature of the grid at points ``[point, feature]``."""
        at = np.empty((len(places), len(self.cells)), np.int64)
        at[:] = [cells[0] for cells in self.cells]
        for k, j in enumerate(self.free):
            at[:, j] = self.cells[j][places[:, k]]
        return at

    def numbers_of(self, j: int) -> tuple[FloatArray, FloatArray]:
        """Return the first and last admissible number of each place of feature ``j``.

        Between them, all numbers of the feature's kind are admissible and lead to the same cell, if
        listed values and numbers that mean missing have cells of their own.
        """
        grid, column, cells = self.grid, int(self.grid.columns[j]), self.cells[j]
        begin, end = grid.intervals(j)
        missing = cells == begin.size
        number = np.where(missing, 0, cells)
        low = np.maximum(begin[number], self.lower[column])
        high = np.minimum(end[number], self.upper[column])
        listed = self.space.values.get(column, NO_NUMBERS)
        if listed.size:
            at = {cell: i for i, cell in enumerate(cells.tolist())}
            owner = np.array([at[cell] for cell in grid.cell_of(j, listed).tolist()])
            low, high = np.full(cells.size, np.inf), np.full(cells.size, -np.inf)
            np.minimum.at(low, owner, listed)
            np.maximum.at(high, owner, listed)
        if self.space.integer[column]:
            low, high = np.ceil(low), np.floor(high)
        if missing.any():
            _, low[missing], high[missing] = self._missing(column, listed)
        return low, high

    def region(self, cells: IntArray) -> tuple[FloatArray, Region]:
        """Return the region that contains the cells of a point, preceded by a point in its middle.

        The region is the intersection of the leaves that contain the point.
        """
        grid, space = self.grid, self.space
        alike = grid.cells_alike(cells)
        lower, upper, x = self.lower.copy(), self.upper.copy(), self.lower.copy()
        categories: dict[int, tuple[object, ...]] = {}
        for column in range(x.size):
            j = int(grid.position[column])
            if space.fixed[column]:
                continue
            low, high = lower[column], upper[column]
            numbers = space.values.get(column, NO_NUMBERS)
            if j >= 0 and cells[j] == grid.n_numbers(j):
                x[column], lower[column], upper[column] = self._missing(column, numbers)
                continue
            if j >= 0:
                if numbers.size:
                    numbers = numbers[alike[j][grid.cell_of(j, numbers)]]
                if not grid.has_sets[j] or column not in space.values:
                    low, high = self._run(j, int(cells[j]), np.flatnonzero(~alike[j]), low, high)
            elif not space.may_be_missing[column]:
                low, high = self._beside_missing(column, (low, high), (low, high))
            if column in self.model.categories and numbers.size:
                low, high = numbers[0], numbers[-1]
                labels = self.model.categories[column].label_of
                categories[column] = tuple(labels.get(v, v) for v in numbers.tolist())
            if numbers.size:
                numbers = numbers[(low <= numbers) & (numbers <= high)]
            if space.integer[column]:
                low, high = np.ceil(low), np.floor(high)
            x[column] = self._middle(j, low, high, numbers, bool(space.integer[column]))
            lower[column], upper[column] = low, high
        lower[(lower == -grid.largest) & np.isneginf(space.lower)] = -np.inf
        upper[(upper == grid.largest) & np.isposinf(space.upper)] = np.inf
        return x, Region(lower, upper, categories)

    def _missing(self, column: int, numbers: FloatArray) -> tuple[float, float, float]:
        """Return an admissible number that means missing, and the bounds of all such numbers."""
        low = max(self.grid.missing_low, self.lower[column])
        high = min(self.grid.missing_high, self.upper[column])
        if self.space.integer[column]:
            low, high = np.ceil(low), np.floor(high)
        if numbers.size:
            numbers = numbers[(low <= numbers) & (numbers <= high)]
            return float(numbers[0]), float(numbers[0]), float(numbers[-1])
        return float(min(max(self.model.missing_value, low), high)), low, high

    def _run(
        self, j: int, cell: int, unlike: IntArray, low: float, high: float
    ) -> tuple[float, float]:
        """Return the bounds, as float64, of the run of cells around ``cell`` that are alike.

        The run does not extend across a number that means missing.
        """
        grid = self.grid
        unlike = unlike[unlike < grid.n_numbers(j)]
        at = np.searchsorted(unlike, cell)
        first = int(unlike[at - 1]) + 1 if at > 0 else 0
        last = int(unlike[at]) - 1 if at < unlike.size else grid.n_numbers(j) - 1
        begin, end = grid.interval(j, first, last)
        lower, upper = max(begin, low), min(end, high)
        begin, end = grid.interval(j, cell, cell)
        column = int(grid.columns[j])
        return self._beside_missing(column, (lower, upper), (max(begin, low), min(end, high)))

    def _beside_missing(
        self, column: int, run: tuple[float, float], cell: tuple[float, float]
    ) -> tuple[float, float]:
        """Return the part of an interval on one side of the number that means missing.

        The cell has an admissible number on this side. If it has one on both sides, the wider side
        is returned.
        """
        (lower, upper), low, high = run, self.grid.missing_low, self.grid.missing_high
        if not (low <= upper and high >= lower):
            return run
        before, after = float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf))
        if self._width(column, cell[0], before) >= self._width(column, after, cell[1]):
            return lower, before
        return after, upper

    def _width(self, column: int, low: float, high: float) -> float:
        """Return the size of an interval; -1 if it has no admissible number."""
        if column in self.space.values:
            numbers = self.space.values[column]
            return float(np.count_nonzero((low <= numbers) & (numbers <= high)) or -1)
        if self.space.integer[column]:
            low, high = float(np.ceil(low)), float(np.floor(high))
        return high / 2 - low / 2 if low <= high else -1.0

    def _middle(self, j: int, low: float, high: float, numbers: FloatArray, whole: bool) -> float:
        """Return an admissible number in the middle of an interval.

        If the interval is unbounded, return a number near the cuts of the feature.
        """
        if numbers.size:
            return float(numbers[(numbers.size - 1) // 2])
        largest = self.grid.largest
        middle = low / 2 + high / 2
        if low == -largest and high == largest:
            middle = 0.0
        elif high == largest:
            middle = low + max(self._beyond_cuts(j), 1e-3 * abs(low), 1.0)
        elif low == -largest:
            middle = high - max(self._beyond_cuts(j), 1e-3 * abs(high), 1.0)
        if whole:
            middle = float(np.floor(middle))
        return float(min(max(middle, low), high))

    def _beyond_cuts(self, j: int) -> float:
        """Return a tenth of half the distance between the first and last cut of a feature."""
        return 0.1 * self.grid.half_range(j) if j >= 0 else 0.0
