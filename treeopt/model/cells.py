"""The finite grid that an ensemble sees: cells per feature, and every split in terms of them.

Each feature's inputs fall into finitely many cells, and all points of a cell look the same to every
tree. Cell ``k`` of an ordered feature with cuts ``c[0] < c[1] < ...`` is the interval
``(c[k-1], c[k]]``; where the model accepts missing values, one more cell stands for them.

A split asks whether a cell belongs to the right side. For most splits that is a comparison of the
cell's index with the rank of the split's cut. Where it is not (a default direction for missing
values, the zero that LightGBM takes for missing), a *slot* maps the cells of the feature to keys
that make it one. So every split by threshold, of every library, is ``key[slot](cell) > rank``.

Categories are cells too: the intervals of numbers that their library reads as the same category,
and those between that it does not know. A slot of such a feature holds up to `SETS_PER_SLOT` sets,
one per bit: the key of a cell has bit ``b`` set if set ``b`` sends the cell to the right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treeopt.errors import UnsupportedModelError
from treeopt.kernels.arrays import Slots
from treeopt.model.trees import Trees
from treeopt.types import Array

ZERO_LIMIT = float(np.float32(1e-35))
"""LightGBM treats values with at most this magnitude as zero."""

ZERO_CUTS = (float(np.nextafter(-ZERO_LIMIT, -np.inf)), ZERO_LIMIT)
"""The two cuts that fence LightGBM's zero off from the rest of the line."""

MAX_TABLE = 2**27
"""Maximum number of keys for the sets of one feature."""

SETS_PER_SLOT = 30
"""Bits 1 to 30 of a key; bit 0 of a node's split says that it is by threshold."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of every feature that the ensemble reads, and its splits in terms of them.

    Attributes
    ----------
    columns : int64 array
        Features that occur in splits, ascending. All other arrays number features by their position
        in this one.
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
    node_slot, node_rank, node_bit : int32 arrays
        Slot and rank of each node's split; zero at leaves. Where the split is by a set of
        categories, its bit in the key, and rank 0; else bit 0.
    has_sets : bool array
        Whether the splits of each feature are by sets of categories.
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
    node_bit: Array
    has_sets: Array

    @cached_property
    def n_cells(self) -> Array:
        """Number of cells of each feature."""
        sizes: Array = np.diff(self.cut_start) + 1 + int(self.missing)
        return sizes

    @cached_property
    def slots(self) -> Slots:
        """The slots as the kernels read them."""
        return Slots(self.slot_start, self.slot_table, self.lut)

    @cached_property
    def slot_cuts(self) -> Array:
        """Whether each slot keeps the numbers in order, so that its splits cut them in two."""
        cuts = [not (self.has_sets[j] or self.is_fenced(s)) for s, j in self._slots()]
        return np.array([True, *cuts], np.bool_)

    def in_order(self, j: int) -> bool:
        """Tell whether every split of feature ``j`` cuts its numbers in two."""
        return bool(self.slot_cuts[self.slot_start[j] : self.slot_start[j + 1]].all())

    def _slots(self) -> Iterator[tuple[int, int]]:
        """Yield the slots but the first, with their features."""
        yield from ((s, int(j)) for s, j in enumerate(self.slot_feature) if s)

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
        if self.slot_table[slot] < 0 or self.has_sets[self.slot_feature[slot]]:
            return False
        keys = self.keys_of(slot)
        ordered = keys[:-1] if self.missing else keys
        return not np.array_equal(ordered, np.arange(ordered.size))

    def zero_cells(self, j: int) -> tuple[int, int]:
        """Return the first and last cell of LightGBM's zero; only where it is fenced off."""
        cuts = self.cuts_of(j)
        below, above = np.searchsorted(cuts, ZERO_CUTS)
        return int(below) + 1, int(above)


class _Slots:
    """Collects the slots of all features."""

    def __init__(self) -> None:
        self.start, self.feature, self.table = [1], [-1], [-1]
        self.lut: list[Array] = []
        self._size = 0

    def add(self, j: int, keys: Array | None) -> int:
        """Add a slot with these keys (None: the cells themselves); return its number."""
        self.feature.append(j)
        self.table.append(-1 if keys is None else self._size)
        if keys is not None:
            self.lut.append(keys)
            self._size += keys.size
        return len(self.feature) - 1


def build_cells(trees: Trees) -> Cells:
    """Find the cells of an ensemble and express its splits in terms of them."""
    inner = np.flatnonzero(trees.left >= 0)
    feature = trees.feature[inner]
    order = np.argsort(feature, kind="stable")
    columns, first = np.unique(feature[order], return_index=True)
    groups = np.split(inner[order], first[1:]) if columns.size else []

    splits = np.zeros((3, trees.n_nodes), np.int32)
    all_cuts: list[Array] = []
    slots = _Slots()
    has_sets = np.array([trees.category_set[nodes[0]] >= 0 for nodes in groups], np.bool_)
    for j, nodes in enumerate(groups):
        add = _add_sets if has_sets[j] else _add_thresholds
        all_cuts.append(add(trees, j, nodes, slots, splits))
        slots.start.append(len(slots.feature))
    node_slot, node_rank, node_bit = splits
    return Cells(
        columns=columns.astype(np.int64),
        cuts=np.concatenate(all_cuts) if all_cuts else np.empty(0),
        cut_start=np.cumsum([0, *(c.size for c in all_cuts)]),
        missing=trees.accepts_nan,
        slot_start=np.array(slots.start, np.int64),
        slot_feature=np.array(slots.feature, np.int64),
        slot_table=np.array(slots.table, np.int64),
        lut=np.concatenate(slots.lut) if slots.lut else np.empty(0, np.int32),
        node_slot=node_slot,
        node_rank=node_rank,
        node_bit=node_bit,
        has_sets=has_sets,
    )


def _add_thresholds(trees: Trees, j: int, nodes: Array, slots: _Slots, splits: Array) -> Array:
    """Add the slots of a feature that is split by thresholds; return its cuts."""
    threshold = trees.threshold[nodes]
    zero = trees.zero_missing[nodes]
    cuts = np.unique(np.append(threshold, ZERO_CUTS) if zero.any() else threshold)
    # A threshold of +inf parts missing from the rest: its rank is that of the last real cell.
    cuts = cuts[cuts < np.inf]
    splits[1, nodes] = np.searchsorted(cuts, threshold)
    kind = 2 * zero + trees.default_left[nodes]
    for k in np.unique(kind):
        keys = _keys(cuts, bool(k % 2), bool(k // 2), trees.accepts_nan)
        splits[0, nodes[kind == k]] = slots.add(j, keys)
    return cuts


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


def _add_sets(trees: Trees, j: int, nodes: Array, slots: _Slots, splits: Array) -> Array:
    """Add the slots of a feature that is split by sets of categories; return its cuts."""
    categories = trees.categories[int(trees.feature[nodes[0]])]
    cuts: Array = np.unique(np.append(categories.lower, categories.upper))
    cuts = cuts[np.isfinite(cuts)]
    category = categories.index_of(np.append(cuts, np.inf))
    # Equal sets with the same default direction share a bit.
    number: dict[tuple[bytes, bool], int] = {}
    which = np.empty(nodes.size, np.int64)
    for i, node in enumerate(nodes):
        k = trees.category_set[node]
        members = trees.set_member[trees.set_start[k] : trees.set_start[k + 1]]
        key = (np.unique(members).tobytes(), bool(trees.default_left[node]))
        which[i] = number.setdefault(key, len(number))
    slot = []
    sets = list(number)
    size = cuts.size * (len(sets) // SETS_PER_SLOT + 1)
    if size > MAX_TABLE:
        raise UnsupportedModelError(
            f"{trees.source} has {len(sets)} sets of {len(categories)} categories on one "
            "feature: too many for a table. Use fewer categories."
        )
    for first in range(0, len(sets), SETS_PER_SLOT):
        keys = np.zeros(cuts.size + 1 + int(trees.accepts_nan), np.int32)
        for bit, (members_bytes, missing_left) in enumerate(sets[first : first + SETS_PER_SLOT], 1):
            # The last entry stands for inputs of no known category, which are -1.
            goes_right = np.ones(len(categories) + 1, np.bool_)
            goes_right[np.frombuffer(members_bytes, np.int32)] = False
            keys[: category.size] |= goes_right[category].astype(np.int32) << bit
            if trees.accepts_nan:
                keys[-1] |= int(not missing_left) << bit
        slot.append(slots.add(j, keys))
    splits[0, nodes] = np.array(slot)[which // SETS_PER_SLOT]
    splits[2, nodes] = which % SETS_PER_SLOT + 1
    return cuts


def last_before(cuts: Array, dtype: np.dtype) -> Array:
    """Return the last float64 that is not above each cut once it is cast to ``dtype``.

    Halfway between a cut and the next number, the cast goes to the even one of the two.
    """
    if dtype == np.float64:
        return cuts
    with np.errstate(over="ignore"):
        below = cuts.astype(np.float32)
        # Not all cuts are float32: zero has two that are not.
        below = np.where(below > cuts, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf))
        half = below.astype(np.float64) / 2 + above.astype(np.float64) / 2
        last = np.where(half.astype(np.float32) <= below, half, np.nextafter(half, -np.inf))
    return np.where(np.isfinite(half), last, cuts)
