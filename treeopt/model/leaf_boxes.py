"""The leaves of an ensemble as boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from treeopt.model.cells import Cells
from treeopt.model.predictor import Predictor
from treeopt.types import Array


@dataclass(frozen=True, eq=False, repr=False)
class LeafBoxes:
    """One row per leaf: the inputs with ``lower < x <= upper`` in every feature reach it.

    Inputs are compared after the cast to the ensemble's input dtype, which `containing` applies. If
    LightGBM treats zero as missing, the inputs of a leaf may not be an interval. Such a leaf has
    several rows: one for each combination of up to three intervals per feature.

    Attributes
    ----------
    tree : int64 array of shape (n,)
        The tree of each box.
    lower, upper : float64 arrays of shape (n, n_features)
        Bounds of each box, possibly infinite.
    value : array of shape (n,)
        Contribution of the leaf to the sum.
    missing : bool array of shape (n, n_features) or None
        Whether a missing value of this feature reaches the leaf; None if the model does not accept
        missing values. A leaf reached only by missing values has the empty interval (inf, -inf).
    categories : mapping from int to bool array of shape (n, n_categories + 1)
        For each feature that is split by categories, whether each category reaches the leaf; the
        last column is for all other numbers. The bounds of the feature are then infinite.
    ensemble : Ensemble
        The ensemble they come from.
    """

    tree: Array
    lower: Array
    upper: Array
    value: Array
    missing: Array | None
    categories: Mapping[int, Array]
    ensemble: Predictor

    def __repr__(self) -> str:
        return f"<LeafBoxes of {self.ensemble.source}: {self.tree.size} boxes>"

    def containing(self, x: Any) -> Array:
        """Return the indices of the boxes that contain a point, one per tree.

        Parameters
        ----------
        x : array-like, series or mapping
            The point, as `Ensemble.walker` takes it; the cast is done here.
        """
        with np.errstate(all="ignore"):
            x = self.ensemble._point(x).astype(self.ensemble.input_dtype).astype(np.float64)
        x[x == self.ensemble.missing_value] = np.nan
        inside = (self.lower < x) & (x <= self.upper)
        inside |= np.isneginf(x) & np.isneginf(self.lower)
        for column, leads in self.categories.items():
            category = self.ensemble.categories[column].index_of(x[[column]])
            inside[:, column] = leads[:, category[0]] & ~np.isnan(x[column])
        if self.missing is not None:
            inside |= np.isnan(x) & self.missing
        return np.flatnonzero(inside.all(axis=1))


def leaf_boxes(ensemble: Predictor) -> LeafBoxes:
    """Return the boxes of all leaves; see `Ensemble.leaf_boxes`."""
    compiled = ensemble.compiled
    cells = compiled.cells
    low, high = compiled.key_ranges
    begins, ends = compiled.cell_ranges
    shape = (ensemble.n_leaves, ensemble.n_features)
    lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
    missing = np.ones(shape, np.bool_) if cells.missing else None
    pieces: dict[int, list[tuple[Array, Array]]] = {}
    categories: dict[int, Array] = {}
    for j, column in enumerate(cells.columns):
        if cells.has_sets[j]:
            reachable = compiled.reachable_cells(j)
            categories[int(column)] = _by_category(ensemble, int(column), j, reachable)
            if missing is not None:
                missing[:, column] = reachable[:, -1]
            continue
        begin, end = begins[j], ends[j]
        lower[:, column], upper[:, column] = _ends(cells, j, begin, end)
        if missing is not None:
            missing[:, column] = _reaches(cells, j, -1, low, high)
        if any(cells.is_fenced(s) for s in cells.slots_of(j)):
            pieces[int(column)] = _pieces(cells, j, begin, end, low, high)
    tree = np.repeat(np.arange(ensemble.n_trees), np.diff(compiled.leaf_start))
    values = compiled.leaf_value.copy()
    boxes = LeafBoxes(tree, lower, upper, values, missing, categories, ensemble)
    return _split(boxes, pieces) if pieces else boxes


def _by_category(ensemble: Predictor, column: int, j: int, reachable: Array) -> Array:
    """Return which categories lead to each leaf, and in the last column whether others do."""
    known = ensemble.categories[column]
    ends = np.append(ensemble.compiled.cells.cuts_of(j), np.inf)
    category = known.index_of(ends)
    # One cell stands for each category; those of no category all go the same way.
    cell = np.zeros(len(known) + 1, np.int64)
    cell[category] = np.arange(ends.size)
    by_category: Array = reachable[:, cell]
    return by_category


def _reaches(cells: Cells, j: int, cell: int, low: Array, high: Array) -> Array:
    """Tell, per leaf, whether a cell of feature ``j`` leads to it."""
    reaches = np.ones(low.shape[0], np.bool_)
    for s in cells.slots_of(j):
        key = cells.keys_of(s)[cell]
        reaches &= (low[:, s] <= key) & (key <= high[:, s])
    return reaches


def _ends(cells: Cells, j: int, begin: Array, end: Array) -> tuple[Array, Array]:
    """Return the open lower and closed upper end of a range of cells.

    A leaf that no number reaches is empty: its lower end is inf and its upper end -inf.
    """
    cuts = cells.cuts_of(j)
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    empty = begin > end
    lower = np.where(empty, np.inf, edges[np.where(empty, 0, begin)])
    upper = np.where(empty, -np.inf, edges[np.where(empty, 0, end) + 1])
    return lower, upper


def _pieces(
    cells: Cells, j: int, begin: Array, end: Array, low: Array, high: Array
) -> list[tuple[Array, Array]]:
    """Return the intervals below, inside and above LightGBM's zero that reach each leaf.

    Inside zero only whole cells of splits that see zero as a number can be cut off; those splits
    have the identity as their slot, and their range is that of the leaf without the others.
    """
    first, last = cells.zero_cells(j)
    plain = [s for s in cells.slots_of(j) if not cells.is_fenced(s)]
    inner_begin = np.max([np.full(begin.size, first), *(low[:, s] for s in plain)], axis=0)
    inner_end = np.min([np.full(begin.size, last), *(high[:, s] for s in plain)], axis=0)
    for s in cells.slots_of(j):
        if s not in plain:
            key = cells.keys_of(s)[first]
            inner_end[(low[:, s] > key) | (key > high[:, s])] = -1
    return [
        _ends(cells, j, begin, np.minimum(end, first - 1)),
        _ends(cells, j, inner_begin, inner_end),
        _ends(cells, j, np.maximum(begin, last + 1), end),
    ]


def _split(boxes: LeafBoxes, pieces: dict[int, list[tuple[Array, Array]]]) -> LeafBoxes:
    """Give each leaf one row per combination of its pieces.

    Missing belongs to the first piece of a feature only, or a point would lie in two boxes.
    """
    rows: list[int] = []
    lower: list[Array] = []
    upper: list[Array] = []
    first_piece: list[Array] = []
    columns = list(pieces)
    for i in range(boxes.tree.size):
        choices = [_joined([(a[i], b[i]) for a, b in pieces[column]]) for column in columns]
        for choice in product(*(enumerate(parts) for parts in choices)):
            rows.append(i)
            lower.append(np.array([a for _, (a, _) in choice]))
            upper.append(np.array([b for _, (_, b) in choice]))
            first_piece.append(np.array([k == 0 for k, _ in choice]))
    result = LeafBoxes(
        boxes.tree[rows],
        boxes.lower[rows],
        boxes.upper[rows],
        boxes.value[rows],
        None if boxes.missing is None else boxes.missing[rows],
        {column: leads[rows] for column, leads in boxes.categories.items()},
        boxes.ensemble,
    )
    result.lower[:, columns] = lower
    result.upper[:, columns] = upper
    if result.missing is not None:
        result.missing[:, columns] &= first_piece
    return result


def _joined(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Drop empty intervals and join neighbors; an empty one stays if nothing else does."""
    joined: list[tuple[float, float]] = []
    for a, b in intervals:
        if not a < b:
            continue
        if joined and joined[-1][1] == a:
            joined[-1] = (joined[-1][0], b)
        else:
            joined.append((a, b))
    return joined or [intervals[0]]
