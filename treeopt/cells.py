"""The finite grid that an ensemble sees: cells per feature, and every split in terms of them.

Each feature's inputs fall into finitely many cells, and all points of a cell look the same to every
tree. Cell ``k`` of an ordered feature with cuts ``c[0] < c[1] < ...`` is the interval
``(c[k-1], c[k]]``; where the model accepts missing values, one more cell stands for them.

A split asks whether a cell belongs to the right side. For most splits that is a comparison of the
cell's index with the rank of the split's cut. Where it is not (a default direction for missing
values, the zero that LightGBM takes for missing), a *slot* maps the cells of the feature to keys
that make it one. So every split, of every library, is ``key[slot](cell) > rank``; one on a set of
categories would be a slot with two keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from treeopt.ensemble import Array, Ensemble

ZERO_LIMIT = float(np.float32(1e-35))
"""LightGBM's zero: values up to this far from 0 count as zero."""

ZERO_CUTS = (float(np.nextafter(-ZERO_LIMIT, -np.inf)), ZERO_LIMIT)
"""The two cuts that fence LightGBM's zero off from the rest of the line."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of every feature that the ensemble reads, and its splits in terms of them.

    Attributes
    ----------
    columns : int64 array
        The features that at least one split reads, ascending. All other arrays count features by
        their position in this one.
    cuts, cut_start : float64 and int64 arrays
        Sorted cuts of all features one after the other, and where each feature begins.
    missing : bool
        Whether each feature has one more cell, its last, for missing values.
    slot_start : int64 array
        Where the slots of each feature begin. Slot 0 belongs to no feature: its key is always 0.
    slot_feature : int64 array
        The feature of each slot (-1 for slot 0).
    slot_table, lut : int64 and int32 arrays
        Where the slot's keys, one per cell, begin in ``lut``; -1 if the key is the cell itself.
    node_slot, node_rank : int32 arrays
        Slot and rank of each node's split; zero at leaves.
    """

    columns: Array
    cuts: Array
    cut_start: Array
    missing: bool
    slot_start: Array
    slot_feature: Array
    slot_table: Array
    lut: Array
    node_slot: Array
    node_rank: Array

    @property
    def n_cells(self) -> Array:
        """The number of cells of each feature."""
        return np.diff(self.cut_start) + 1 + int(self.missing)

    def cuts_of(self, j: int) -> Array:
        """Return the cuts of feature ``j`` in ascending order."""
        return self.cuts[self.cut_start[j] : self.cut_start[j + 1]]

    def slots_of(self, j: int) -> range:
        """Return the slots of feature ``j``."""
        return range(int(self.slot_start[j]), int(self.slot_start[j + 1]))

    def keys_of(self, slot: int) -> Array:
        """Return the key of every cell of the slot's feature."""
        n = int(self.n_cells[self.slot_feature[slot]])
        at = int(self.slot_table[slot])
        return np.arange(n, dtype=np.int32) if at < 0 else self.lut[at : at + n]

    def is_fenced(self, slot: int) -> bool:
        """Tell whether the slot takes zero for missing: its ordered cells are out of order."""
        if self.slot_table[slot] < 0:
            return False
        keys = self.keys_of(slot)
        ordered = keys[:-1] if self.missing else keys
        return not np.array_equal(ordered, np.arange(ordered.size))

    def zero_cells(self, j: int) -> tuple[int, int]:
        """Return the first and last cell of LightGBM's zero; only where it is fenced off."""
        cuts = self.cuts_of(j)
        below, above = np.searchsorted(cuts, ZERO_CUTS)
        return int(below) + 1, int(above)


def build_cells(ensemble: Ensemble) -> Cells:
    """Find the cells of an ensemble and express its splits in terms of them."""
    inner = np.flatnonzero(ensemble.left >= 0)
    feature = ensemble.feature[inner]
    order = np.argsort(feature, kind="stable")
    columns, first = np.unique(feature[order], return_index=True)
    groups = np.split(inner[order], first[1:]) if columns.size else []

    node_slot = np.zeros(ensemble.n_nodes, np.int32)
    node_rank = np.zeros(ensemble.n_nodes, np.int32)
    all_cuts: list[Array] = []
    slot_start, slot_feature, slot_table = [1], [-1], [-1]
    lut: list[Array] = []
    lut_size = 0
    for j, nodes in enumerate(groups):
        threshold = ensemble.threshold[nodes]
        zero = ensemble.zero_missing[nodes]
        cuts = np.unique(np.append(threshold, ZERO_CUTS) if zero.any() else threshold)
        # A threshold of +inf parts missing from the rest: its rank is that of the last real cell.
        cuts = cuts[cuts < np.inf]
        all_cuts.append(cuts)
        node_rank[nodes] = np.searchsorted(cuts, threshold)
        kind = 2 * zero + ensemble.default_left[nodes]
        for k in np.unique(kind):
            keys = _keys(cuts, bool(k % 2), bool(k // 2), ensemble.accepts_nan)
            node_slot[nodes[kind == k]] = len(slot_feature)
            slot_feature.append(j)
            if keys is None:
                slot_table.append(-1)
            else:
                slot_table.append(lut_size)
                lut.append(keys)
                lut_size += keys.size
        slot_start.append(len(slot_feature))
    return Cells(
        columns=columns.astype(np.int64),
        cuts=np.concatenate(all_cuts) if all_cuts else np.empty(0),
        cut_start=np.cumsum([0, *(c.size for c in all_cuts)]),
        missing=ensemble.accepts_nan,
        slot_start=np.array(slot_start, np.int64),
        slot_feature=np.array(slot_feature, np.int64),
        slot_table=np.array(slot_table, np.int64),
        lut=np.concatenate(lut) if lut else np.empty(0, np.int32),
        node_slot=node_slot,
        node_rank=node_rank,
    )


def _keys(cuts: Array, missing_left: bool, zero_missing: bool, has_missing: bool) -> Array | None:
    """Return the key of each cell, or None where it is the cell itself.

    Key 0 goes left at every split, key ``len(cuts) + 1`` goes right at every split.
    """
    if not missing_left and not zero_missing:
        return None
    side = 0 if missing_left else cuts.size + 1
    keys = np.arange(cuts.size + 1 + int(has_missing), dtype=np.int32)
    if has_missing:
        keys[-1] = side
    if zero_missing:
        below, above = np.searchsorted(cuts, ZERO_CUTS)
        keys[below + 1 : above + 1] = side
    return keys
