"""The cells that a space leaves of an ensemble's grid, and the points in them.

A *place* is an admissible cell of a feature: one in which at least one value lies that the space
allows. Where the cells of a feature have an order that splits respect, so do its places. Where they
have none (categories, zero or a missing value among numbers), neighbouring places are those that
most splits treat alike, so that leaves are few runs of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cached_property
from math import nextafter
from typing import TYPE_CHECKING

import numpy as np

from treeopt.kernels import reach
from treeopt.model.cells import last_before
from treeopt.problem.bounds import feature_label
from treeopt.problem.region import Region
from treeopt.problem.space import largest_input

if TYPE_CHECKING:
    from treeopt.model.ensemble import Ensemble
    from treeopt.problem.space import Space
    from treeopt.run.limits import Limits
    from treeopt.types import Array


MOST_SORTED = 1000
"""More categories than this stay in their own order."""

SLOTS_AT_ONCE = 32
"""Slots whose keys are compared between two looks at the limits."""


class Grid:
    """The admissible cells of each feature that the ensemble reads.

    Attributes
    ----------
    cells : list of int64 arrays
        The admissible cells of each feature, in the order of its places.
    ordered : list of bool
        Whether every split cuts the places of the feature in two.
    free : int64 array
        The features with more than one place.
    infeasible_because : str
        Reason for infeasibility; empty if feasible.
    """

    def __init__(self, ensemble: Ensemble, space: Space, limits: Limits | None = None) -> None:
        self.ensemble, self.space, self._limits = ensemble, space, limits
        # What the model's precision cannot hold is out of reach.
        self.largest = largest_input(ensemble.input_dtype)
        self.lower = np.where(space.fixed, space.lower, np.maximum(space.lower, -self.largest))
        self.upper = np.where(space.fixed, space.upper, np.minimum(space.upper, self.largest))
        self.gap = self._preimage(ensemble.missing_value)
        self._cast_ends = self._cast(np.stack([self.lower, self.upper]))
        self._last = ensemble.compiled.last_of_cells
        self.cells: list[Array] = []
        self.ordered: list[bool] = []
        self.infeasible_because = space.infeasible_because
        for j, column in enumerate(ensemble.compiled.cells.columns):
            places, ordered = self._places(j)
            self.cells.append(places)
            self.ordered.append(ordered)
            if not places.size and not self.infeasible_because:
                self.infeasible_because = (
                    f"{feature_label(int(column), ensemble)} has no admissible value"
                )
        self.free = np.flatnonzero([places.size > 1 for places in self.cells])

    def keeping(self, cells: Mapping[int, Array]) -> Grid:
        """Return the grid with only these of some features' admissible cells."""
        smaller = copy(self)
        smaller.cells = [cells.get(j, places) for j, places in enumerate(self.cells)]
        smaller.free = np.flatnonzero([places.size > 1 for places in smaller.cells])
        smaller.__dict__.pop("place_start", None)
        return smaller

    def _places(self, j: int) -> tuple[Array, bool]:
        """Return the admissible cells of a feature, and whether they are in order."""
        cells, space = self.ensemble.compiled.cells, self.space
        column = int(cells.columns[j])
        low, high = self.lower[column], self.upper[column]
        n_ordered = cells.cuts_of(j).size + 1
        if column in space.values:
            places = np.unique(self.cell_of(j, space.values[column]))
        elif low == high or np.isnan(low):
            places = self.cell_of(j, np.array([low]))
        else:
            first, last = np.searchsorted(cells.cuts_of(j), self._cast_ends[:, column])
            places = np.arange(first, last + 1)
            if space.integer[column] or (self.gap[0] <= high and self.gap[1] >= low):
                places = self._without_empty(j, places, low, high)
        if places.size > 1 and (not cells.in_order(j) or places[-1] == n_ordered):
            return self._neighbours(j, places), False
        return places, True

    def _without_empty(self, j: int, places: Array, low: float, high: float) -> Array:
        """Drop cells that hold no admissible number; add the missing one if a number means it."""
        column = self.ensemble.compiled.cells.columns[j]
        whole, missing = self.space.integer[column], self.ensemble.missing_value
        begin, end = self.spans(j)
        lower, upper = np.maximum(begin[places], low), np.minimum(end[places], high)
        if whole:
            lower, upper = np.ceil(lower), np.floor(upper)
        some = lower <= upper
        with np.errstate(over="ignore"):
            ends = np.stack([lower, upper]).astype(self.ensemble.input_dtype)
        places = places[some & ~(ends == missing).all(axis=0)]
        return np.append(places, begin.size) if self._may_be_missing(column) else places

    def _may_be_missing(self, column: int) -> bool:
        """Tell whether an admissible number of a feature means missing."""
        if not self.space.may_be_missing[column]:
            return False
        low, high = max(self.lower[column], self.gap[0]), min(self.upper[column], self.gap[1])
        if self.space.integer[column]:
            low, high = np.ceil(low), np.floor(high)
        return bool(low <= high) and not np.isnan(self.gap[0])

    def _neighbours(self, j: int, places: Array) -> Array:
        """Return unordered places so that those which splits treat alike stand together.

        Each is followed by the nearest of the rest, counted in splits that part the two. If the
        time is over, they stay as they are: any order will do.
        """
        cells = self.ensemble.compiled.cells
        if not cells.has_sets[j] or places.size > MOST_SORTED:
            return places
        keys = np.stack([cells.keys_of(s)[places] for s in cells.slots_of(j)], axis=1)
        apart = np.zeros((places.size, places.size), np.float32)
        for first in range(0, keys.shape[1], SLOTS_AT_ONCE):
            if self._limits is not None and self._limits.is_over():
                return places
            some = np.ascontiguousarray(keys[:, first : first + SLOTS_AT_ONCE]).view(np.uint8)
            bits = np.unpackbits(some, axis=1).astype(np.float32)
            ones = bits.sum(axis=1)
            # Whole numbers below 2^24: these sums are exact.
            apart += ones[:, None] + ones - 2 * (bits @ bits.T)
        order = [0]
        apart[:, 0] = np.inf
        while len(order) < places.size:
            order.append(int(np.argmin(apart[order[-1]])))
            apart[:, order[-1]] = np.inf
        return places[order]

    def cell_of(self, j: int, values: Array) -> Array:
        """Return the cell of feature ``j`` that each value falls into, missing values included."""
        return self._cell_of(j, self._cast(values))

    def _cast(self, values: Array) -> Array:
        """Return numbers as the model sees them."""
        with np.errstate(over="ignore"):
            cast: Array = values.astype(self.ensemble.input_dtype).astype(np.float64)
        return cast

    def _cell_of(self, j: int, cast: Array) -> Array:
        cells = self.ensemble.compiled.cells
        at = np.searchsorted(cells.cuts_of(j), cast)
        at[np.isnan(cast) | (cast == self.ensemble.missing_value)] = cells.n_cells[j] - 1
        return at

    def spans(self, j: int) -> tuple[Array, Array]:
        """Return the first and last float64 that falls into each ordered cell of a feature."""
        last = self._lasts(j)
        return np.append(-np.inf, np.nextafter(last, np.inf)), np.append(last, np.inf)

    def _ends(self, j: int, first: int, last: int) -> tuple[float, float]:
        """Return the first and last float64 that falls into a range of ordered cells."""
        lasts = self._lasts(j)
        low = nextafter(lasts[first - 1], np.inf) if first > 0 else -np.inf
        return low, float(lasts[last]) if last < lasts.size else np.inf

    def _lasts(self, j: int) -> Array:
        """Return the last float64 that is not above each cut of a feature."""
        cells = self.ensemble.compiled.cells
        return self._last[cells.cut_start[j] : cells.cut_start[j + 1]]

    @cached_property
    def place_start(self) -> Array:
        """Where the places of each free feature begin, if all are numbered through."""
        return np.cumsum([0, *(self.cells[j].size for j in self.free)])

    def places_of(self, X: Array) -> Array:
        """Return the places of points; where a cell is not admissible, the nearest that is."""
        cells = np.zeros((len(X), len(self.cells)), np.int64)
        cast = self._cast(X)
        for j in self.free:
            cells[:, j] = self._cell_of(int(j), cast[:, self.ensemble.compiled.cells.columns[j]])
        return self.places_at(cells)

    def places_at(self, cells: Array) -> Array:
        """Return the places of cells, ``[point, feature]``, or the nearest that are admissible."""
        out = np.empty((len(cells), self.free.size), np.int32)
        for k, j in enumerate(self.free):
            places, cell = self.cells[j], cells[:, j]
            if places[-1] - places[0] == places.size - 1 and self.ordered[j]:
                out[:, k] = np.clip(cell, places[0], places[-1]) - places[0]
                continue
            order = np.argsort(places)
            at = np.clip(np.searchsorted(places[order], cell), 0, places.size - 1)
            before = np.maximum(at - 1, 0)
            nearer = np.abs(places[order[before]] - cell) < np.abs(places[order[at]] - cell)
            out[:, k] = order[np.where(nearer, before, at)]
        return out

    def cells_at(self, places: Array) -> Array:
        """Return the cells of every feature that the ensemble reads, ``[point, feature]``."""
        at = np.empty((len(places), len(self.cells)), np.int64)
        at[:] = [cells[0] for cells in self.cells]
        for k, j in enumerate(self.free):
            at[:, j] = self.cells[j][places[:, k]]
        return at

    def sum_at(self, places: Array) -> Array:
        """Return the sums of the leaves at points of the grid, in float64 and any order."""
        e = self.ensemble
        leaf = e.compiled.leaves_at(self.cells_at(places))
        sums: Array = e.compiled.leaf_value[leaf].sum(axis=1, dtype=np.float64)
        return sums + (e.base + e.tail_base)

    def margin_at(self, places: Array) -> Array:
        """Return what the model adds up to at points of the grid, before its link."""
        e = self.ensemble
        leaf = e.compiled.leaves_at(self.cells_at(places))
        totals = np.array([e.own_sum(row)[-1] for row in leaf])
        margins: Array = totals / e.value.dtype.type(e.divisor)
        return margins

    def region(self, places: Array) -> tuple[Array, Region]:
        """Return an interior point of the region that a point of the grid lies in, and the region.

        The region is what the leaves that hold the point have in common.
        """
        e, space = self.ensemble, self.space
        compiled, cells = e.compiled, e.compiled.cells
        at = self.cells_at(places[None, :])[0]
        start = np.cumsum(np.append(0, cells.n_cells))
        alike = np.ones(int(start[-1]), np.bool_)
        splits = (cells.node_slot, cells.node_rank, cells.node_bit)
        slots = (cells.slot_feature, cells.slot_table, cells.lut, cells.slot_cuts)
        numbers = np.diff(cells.cut_start) + 1
        reach.cells_alike(e.left, e.right, e.tree_start, *splits, *slots, numbers, at, start, alike)
        lower, upper, x = self.lower.copy(), self.upper.copy(), self.lower.copy()
        categories: dict[int, tuple[object, ...]] = {}
        for column in range(e.n_features):
            j = int(compiled.position[column])
            if space.fixed[column]:
                continue
            low, high = lower[column], upper[column]
            numbers = space.values.get(column, np.empty(0))
            if j >= 0 and at[j] == cells.cuts_of(j).size + 1:
                # What means missing.
                low, high = max(self.gap[0], low), min(self.gap[1], high)
                if space.integer[column]:
                    low, high = np.ceil(low), np.floor(high)
                numbers = numbers[(low <= numbers) & (numbers <= high)]
                x[column] = numbers[0] if numbers.size else min(max(e.missing_value, low), high)
                lower[column], upper[column] = low, high
                continue
            if j >= 0:
                same = alike[start[j] : start[j + 1]]
                numbers = numbers[same[self.cell_of(j, numbers)]]
                if not cells.has_sets[j] or column not in space.values:
                    low, high = self._run(j, int(at[j]), same, low, high)
            elif not space.may_be_missing[column]:
                low, high = self._beside_missing(column, (low, high), (low, high))
            if column in e.categories and numbers.size:
                low, high = numbers[0], numbers[-1]
                labels = e.categories[column].label_of
                categories[column] = tuple(labels.get(v, v) for v in numbers.tolist())
            numbers = numbers[(low <= numbers) & (numbers <= high)]
            if space.integer[column]:
                low, high = np.ceil(low), np.floor(high)
            x[column] = self._middle(j, low, high, numbers, bool(space.integer[column]))
            lower[column], upper[column] = low, high
        lower[(lower == -self.largest) & np.isneginf(space.lower)] = -np.inf
        upper[(upper == self.largest) & np.isposinf(space.upper)] = np.inf
        return x, Region(lower, upper, categories)

    def _run(self, j: int, cell: int, same: Array, low: float, high: float) -> tuple[float, float]:
        """Return the float64 ends of the run of like cells around one, within bounds.

        It does not reach over a number that means missing.
        """
        n = self.ensemble.compiled.cells.cuts_of(j).size + 1
        unlike = np.flatnonzero(~same[:n])
        at = np.searchsorted(unlike, cell)
        first = int(unlike[at - 1]) + 1 if at > 0 else 0
        last = int(unlike[at]) - 1 if at < unlike.size else n - 1
        begin, end = self._ends(j, first, last)
        lower, upper = max(begin, low), min(end, high)
        begin, end = self._ends(j, cell, cell)
        column = int(self.ensemble.compiled.cells.columns[j])
        return self._beside_missing(column, (lower, upper), (max(begin, low), min(end, high)))

    def _beside_missing(
        self, column: int, run: tuple[float, float], cell: tuple[float, float]
    ) -> tuple[float, float]:
        """Return the part of an interval on one side of the number that means missing.

        It is the side on which the cell has an admissible number, the wider one if both have.
        """
        (lower, upper), gap = run, self.gap
        if not (gap[0] <= upper and gap[1] >= lower):
            return run
        before, after = float(np.nextafter(gap[0], -np.inf)), float(np.nextafter(gap[1], np.inf))
        if self._room(column, cell[0], before) >= self._room(column, after, cell[1]):
            return lower, before
        return after, upper

    def _room(self, column: int, low: float, high: float) -> float:
        """Return how wide an interval is, -1 if it has no admissible number."""
        if column in self.space.values:
            numbers = self.space.values[column]
            return float(np.count_nonzero((low <= numbers) & (numbers <= high)) or -1)
        if self.space.integer[column]:
            low, high = float(np.ceil(low)), float(np.floor(high))
        return high / 2 - low / 2 if low <= high else -1.0

    def _preimage(self, value: float) -> tuple[float, float]:
        """Return the first and last float64 that is cast to a value; NaN if there is none."""
        dtype = self.ensemble.input_dtype
        before = np.array([np.nextafter(dtype.type(value), dtype.type(-np.inf)), value])
        last = last_before(before.astype(np.float64), dtype)
        return float(np.nextafter(last[0], np.inf)), float(last[1])

    def _middle(self, j: int, low: float, high: float, numbers: Array, whole: bool) -> float:
        """Return an admissible number in the middle of an interval.

        Where the interval has no end of its own, it is near the cuts of the feature.
        """
        if numbers.size:
            return float(numbers[(numbers.size - 1) // 2])
        largest = self.largest
        cuts = self.ensemble.compiled.cells.cuts_of(j) if j >= 0 else np.empty(0)
        reach = 0.1 * float(cuts[-1] / 2 - cuts[0] / 2) if cuts.size > 1 else 0.0
        middle = low / 2 + high / 2
        if low == -largest and high == largest:
            middle = 0.0
        elif high == largest:
            middle = low + max(reach, 1e-3 * abs(low), 1.0)
        elif low == -largest:
            middle = high - max(reach, 1e-3 * abs(high), 1.0)
        if whole:
            middle = float(np.floor(middle))
        return float(min(max(middle, low), high))
