"""The arrays that the kernels run on, built from `Trees` when they are first needed.

Two forms give the same predictions, bit for bit. *Leaf masks* (`kernels.masks`) are several times
faster where they apply: trees of at most 64 leaves, not too many features, a table that fits a
processor's cache. *Packed nodes* (`kernels.walk`) serve all others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from treeopt.errors import UnsupportedModelError
from treeopt.kernels import masks, pack, reach, walk
from treeopt.kernels.arrays import Encoder, Feature, Numbers, Packed, Plain, Splits, plain
from treeopt.model.cells import SETS_PER_SLOT, Cells, build_cells, last_before
from treeopt.model.trees import Trees
from treeopt.run.limits import Limits
from treeopt.types import Array, BoolArray, FloatArray, Int32Array, IntArray

MAX_MASK_BYTES = 32 * 2**20
"""Maximum size of a leaf-mask table. Larger tables do not fit the cache, and walking is as fast."""

MAX_MASK_WIDTH = 512
"""Maximum number of mask bytes per row and tree; with more, walking is faster."""

MASK_ROW_BYTES = 128
"""Rows of masks are padded to a multiple of this, so that vectorized loops have no remainder."""

KEY_BYTES = 4 * 2**20
"""Memory for the keys of the rows that pass through one tree of a large model."""

SORTED_AT_ONCE = 500
"""Trees with more leaves than this on average are sorted one by one, which is faster."""

ROWS_PER_THREAD = 256
"""Minimum number of rows per thread."""


class Compiled:
    """Kernel-ready form of an ensemble."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def prepare(self) -> None:
        """Build the arrays that every decision needs, before the search starts."""
        _ = self.leaf_order, self.depth, self.position, self.cells.slot_cuts, self.last_of_cells
        _ = self._trees.n_leaves

    @cached_property
    def last_of_cells(self) -> Array:
        """The last float64 that is not above each cut once it is cast as the model casts it."""
        return last_before(self.cells.cuts, self._trees.input_dtype)

    @cached_property
    def cells(self) -> Cells:
        """The grid of cells and the splits in terms of it."""
        return build_cells(self._trees)

    @cached_property
    def scalars(self) -> Numbers:
        """The numbers that the kernels read."""
        trees = self._trees
        return Numbers(
            base=trees.base,
            divisor=trees.divisor,
            missing=trees.missing_value,
            float32=float(trees.input_dtype == np.float32),
            rejects_nan=float(not trees.accepts_nan),
            rejects_inf=float(not trees.accepts_inf),
        )

    @cached_property
    def numbers(self) -> FloatArray:
        """`scalars` as a vector."""
        return np.array(self.scalars, np.float64)

    @cached_property
    def encoder(self) -> Encoder:
        """What turns values into cells."""
        cells = self.cells
        features: list[tuple[int, ...]] = []
        grid: list[tuple[float, ...]] = []
        tables: list[Int32Array] = []
        n_buckets = n_rows = 0
        for j, column in enumerate(cells.columns.tolist()):
            table, origin, scale = _buckets(cells.cuts_of(j))
            feature = Feature(
                column=column,
                first_cut=int(cells.cut_start[j]),
                first_bucket=n_buckets,
                n_buckets=table.size - 1,
                nan_cell=int(cells.n_cells[j]) - 1,
                first_row=n_rows,
                origin=origin,
                scale=scale,
            )
            features.append(feature[:6])
            grid.append(feature[6:])
            tables.append(table)
            n_buckets += table.size
            n_rows += int(cells.n_cells[j])
        return Encoder(
            np.array(features, np.int64).reshape(-1, 6),
            np.array(grid, np.float64).reshape(-1, 2),
            cells.cuts,
            np.concatenate(tables) if tables else np.zeros(1, np.int32),
        )

    @cached_property
    def leaves(self) -> tuple[Array, Array]:
        """First leaf and number of leaves below each node; leaves count from left to right."""
        e = self._trees
        first, count = pack.leaf_ranges(e.left, e.right, e.tree_start)
        return first, count

    @cached_property
    def splits(self) -> Splits:
        """The trees as the kernels of `pack` and `reach` read them."""
        e, cells = self._trees, self.cells
        feature = cells.slot_feature[cells.node_slot]
        splits = (cells.node_slot, cells.node_rank, cells.node_bit)
        return Splits(e.left, e.right, e.tree_start, feature, *splits, *self.leaves)

    @cached_property
    def leaf_value(self) -> Array:
        """Value of each leaf, tree by tree, from left to right."""
        e = self._trees
        nodes = np.flatnonzero(e.left < 0)
        values = np.empty(nodes.size, e.value.dtype)
        values[self.leaves[0][nodes]] = e.value[nodes]
        return values

    @cached_property
    def leaf_start(self) -> Array:
        """Number of the first leaf of each tree, and the number of leaves at the end."""
        first, _ = self.leaves
        start: Array = np.append(first[self._trees.tree_start[:-1]], self.leaf_value.size)
        return start.astype(np.int64)

    @cached_property
    def leaf_order(self) -> Array:
        """The leaves of each tree in ascending order of value."""
        sizes = np.diff(self.leaf_start)
        if sizes.mean() > SORTED_AT_ONCE:
            parts = pairwise(self.leaf_start.tolist())
            orders = [a + np.argsort(self.leaf_value[a:b], kind="stable") for a, b in parts]
            return np.concatenate(orders)
        order: Array = np.lexsort((self.leaf_value, np.repeat(np.arange(sizes.size), sizes)))
        return order

    @cached_property
    def largest_leaves(self) -> float:
        """Sum over trees of the maximum absolute leaf value; infinite if it overflows."""
        last = self.leaf_start[1:] - 1
        ends = self.leaf_order[np.stack([self.leaf_start[:-1], last])]
        with np.errstate(over="ignore"):
            return float(np.abs(self.leaf_value[ends].astype(np.float64)).max(axis=0).sum())

    @cached_property
    def depth(self) -> int:
        """Number of splits on the longest path from a root to a leaf."""
        e = self._trees
        return int(pack.longest_path(e.left, e.right))

    @cached_property
    def position(self) -> Array:
        """Position of each column among those that the model reads; -1 if it does not read it."""
        position = np.full(self._trees.n_features, -1, np.int64)
        position[self.cells.columns] = np.arange(self.cells.columns.size)
        return position

    @cached_property
    def packed(self) -> Packed:
        """The trees as words, with their layout (masks and shifts) and the values of leaves."""
        e, cells = self._trees, self.cells
        largest_rank = max(int(cells.node_rank.max(initial=0)), self.leaf_value.size)
        rank_bits = largest_rank.bit_length()
        child_bits = e.n_nodes.bit_length()
        field_bits = (int(cells.slot_start[-1]) * walk.LANES).bit_length()
        has_sets = bool(cells.has_sets.any())
        bit_bits = SETS_PER_SLOT.bit_length() if has_sets else 0
        needed = rank_bits + child_bits + bit_bits + field_bits
        if needed > 64:
            raise UnsupportedModelError(
                f"{e.source} has {e.n_nodes} nodes on {cells.columns.size} features: a node would "
                f"need {needed} bits and has 64. Use fewer trees."
            )
        words, roots = pack.pack_nodes(self.splits, field_bits, bit_bits, child_bits, walk.LANES)
        low_bits = field_bits + bit_bits
        shifts = [low_bits, low_bits + child_bits, field_bits]
        bits = np.array([2**field_bits - 1, 2**child_bits - 1, *shifts], np.uint64)
        layout = bits[None, :] if has_sets else bits
        return Packed(words, roots, layout, self.leaf_value)

    @cached_property
    def mask_dtype(self) -> type[np.unsignedinteger[Any]] | None:
        """Integer type of a leaf mask; None if the model is evaluated by walking."""
        leaves_per_tree = int(np.diff(self.leaf_start).max())
        n_features = self.cells.columns.size
        for bits, dtype in ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64)):
            if leaves_per_tree <= bits:
                size = int(self.cells.n_cells.sum()) * self._trees.n_trees * bits // 8
                width = n_features * bits // 8
                fits = n_features > 0 and size <= MAX_MASK_BYTES and width <= MAX_MASK_WIDTH
                return dtype if fits else None
        return None

    @cached_property
    def masks(self) -> tuple[Array, Array]:
        """Leaf masks ``[cell, tree]`` and leaf values ``[tree, leaf]``.

        Rows of masks are padded to whole `MASK_ROW_BYTES`, with at least one mask too many.
        """
        e, cells = self._trees, self.cells
        row_start = np.cumsum(np.append(0, cells.n_cells))
        per_line = MASK_ROW_BYTES // np.dtype(self.mask_dtype).itemsize
        width = (e.n_trees // per_line + 1) * per_line
        table = np.zeros((row_start[-1], width), self.mask_dtype)
        pack.leaf_masks(self.splits, cells.slots, row_start, table)
        return table, self._leaf_table

    @cached_property
    def _leaf_table(self) -> Array:
        """Leaf values ``[tree, leaf]``."""
        e, sizes = self._trees, np.diff(self.leaf_start)
        values = np.zeros((e.n_trees, int(sizes.max())), e.value.dtype)
        values[np.arange(values.shape[1]) < sizes[:, None]] = self.leaf_value
        return values

    @cached_property
    def all_leaves(self) -> Array:
        """The mask of all leaves of each tree, padded as the rows of `masks`."""
        sizes = np.diff(self.leaf_start).astype(np.uint64)
        full = np.uint64(2**64 - 1) >> (np.uint64(64) - sizes)
        masks = np.zeros(self.masks[0].shape[1], self.mask_dtype)
        masks[: sizes.size] = full.astype(self.mask_dtype)
        return masks

    @cached_property
    def leaf_stop(self) -> Array:
        """The cell after each leaf, ``[feature, tree, leaf]``; 0 if the leaf holds no number."""
        begin, end = self.cell_ranges
        sizes = np.diff(self.leaf_start)
        inside = np.arange(int(sizes.max())) < sizes[:, None]
        stops = np.zeros((self.cells.columns.size, *inside.shape), np.int32)
        for j in range(self.cells.columns.size):
            stops[j][inside] = np.where(begin[j] <= end[j], end[j] + 1, 0)
        return stops

    @cached_property
    def key_ranges(self) -> tuple[Array, Array]:
        """First and last key ``[leaf, slot]`` that lead to each leaf."""
        cells = self.cells
        shape = (self.leaf_value.size, int(cells.slot_start[-1]))
        low = np.zeros(shape, np.int32)
        high = np.full(shape, np.iinfo(np.int32).max, np.int32)
        reach.key_ranges(self.splits, low, high)
        return low, high

    def reachable_cells(
        self, j: int, some: Array | None = None, limits: Limits | None = None
    ) -> Array:
        """Return whether some cells of feature ``j`` lead to each leaf, ``[leaf, cell]``.

        If ``some`` is None, all its cells; if ``limits`` is None, without limits.
        """
        cells = self.cells
        some = np.arange(cells.n_cells[j]) if some is None else some.astype(np.int64)
        limits = Limits(None) if limits is None else limits
        reachable = np.empty((self.leaf_value.size, some.size), np.bool_)
        arguments = (j, self.splits, cells.slots, some, reachable, limits.flag)
        limits.call(reach.reachable_cells, *arguments)
        limits.check_long()
        return reachable

    def leaves_at(self, cells: Array) -> Array:
        """Return the leaf of each tree that points reach; ``cells`` is ``[point, feature]``."""
        out = np.empty((len(cells), self._trees.n_trees), np.int32)
        reach.leaves_at(self.splits, self.cells.slots, cells, out)
        return out

    def cells_alike(self, at: IntArray) -> tuple[IntArray, BoolArray]:
        """Return which cells lead to the same leaves as a point, whose cells are given.

        Cells of all features are numbered through. The first array says where each feature begins.
        """
        cells = self.cells
        start = np.cumsum(np.append(0, cells.n_cells))
        alike = np.ones(int(start[-1]), np.bool_)
        n_numbers = np.diff(cells.cut_start) + 1
        reach.cells_alike(self.splits, cells.slots, cells.slot_cuts, n_numbers, at, start, alike)
        return start, alike

    @cached_property
    def cell_ranges(self) -> tuple[Array, Array]:
        """First and last ordered cell ``[feature, leaf]`` of each leaf (first > last: none).

        Where zero counts as missing, its cells do not count here; nor do sets of categories.
        """
        low, high = self.key_ranges
        cells = self.cells
        slots = cells.slot_start
        begin = np.maximum.reduceat(low.T, slots[:-1]) if slots.size > 1 else low.T[:0]
        end = np.minimum.reduceat(high.T, slots[:-1]) if slots.size > 1 else high.T[:0]
        return begin, np.minimum(end, np.diff(cells.cut_start)[:, None])

    @cached_property
    def block(self) -> int:
        """Rows that pass through one tree before the next is fetched, a multiple of eight.

        Few while the whole model fits a processor's cache. Many when each tree has to be fetched
        anew, as long as their keys do not crowd it out.
        """
        if self._trees.n_nodes < 2**17:
            return 1024
        bytes_per_row = 4 * int(self.cells.slot_start[-1])
        return max(1024, min(2**15, KEY_BYTES // bytes_per_row // walk.LANES * walk.LANES))

    @cached_property
    def oracle(self) -> tuple[Any, ...]:
        """The arguments of the prediction kernel between ``X`` and ``out``."""
        if self.mask_dtype is not None:
            return (*self.encoder, self.numbers, *self.masks)
        return (*self.encoder, self.numbers, *self.cells.slots, *self.packed, self.block)

    @cached_property
    def walk(self) -> tuple[Plain, FloatArray, Plain, Plain]:
        """Encoder, numbers, slots and packed nodes, as the kernels of moves and lines take them."""
        slots, packed = plain(self.cells.slots), plain(self.packed)
        return plain(self.encoder), self.numbers, slots, packed

    @cached_property
    def _predict(self) -> tuple[Any, tuple[Any, ...], Any]:
        """The kernel for this model, its arguments between ``X`` and ``out``, and the dtype."""
        with np.errstate(all="ignore"):
            kernel = walk.predict_walk if self.mask_dtype is None else masks.predict_masks
            return kernel, self.oracle, self._trees.value.dtype

    @cached_property
    def special_cells(self) -> list[tuple[int, int]]:
        """First and last cell, per feature, of those that some slot takes out of order.

        They are the cells of LightGBM's zero; ``(1, 0)`` where there are none. The missing cell
        does not count.
        """
        cells = self.cells
        fenced = [any(map(cells.is_fenced, cells.slots_of(j))) for j in range(cells.columns.size)]
        return [cells.zero_cells(j) if yes else (1, 0) for j, yes in enumerate(fenced)]

    def adopt(self, other: Compiled) -> None:
        """Share the arrays of an ensemble that differs only in its values."""
        names = ["cells", "leaves", "splits", "leaf_start"]
        names += ["encoder", "depth", "position", "mask_dtype", "block"]
        if other.mask_dtype is None:
            self.__dict__["packed"] = other.packed._replace(leaf_value=self.leaf_value)
        else:
            self.__dict__["masks"] = (other.masks[0], self._leaf_table)
        for name in names:
            self.__dict__[name] = getattr(other, name)

    def predict(self, X: Array, n_jobs: int = 1) -> tuple[Array, int]:
        """Return the predictions, and the first row that the library refuses (-1: none).

        ``X`` is a C-contiguous float32 or float64 matrix.
        """
        kernel, arguments, dtype = self._predict
        out = np.empty(len(X), dtype)
        if n_jobs > 1 and len(X) >= 2 * ROWS_PER_THREAD:
            return out, _in_parts(kernel, X, arguments, out, n_jobs)
        return out, kernel(X, *arguments, out)


def _in_parts(
    kernel: Callable[..., int], X: Array, arguments: tuple[Any, ...], out: Array, n_jobs: int
) -> int:
    """Run a prediction kernel on several threads; return the first refused row, or -1."""
    n_parts = min(n_jobs, len(X) // ROWS_PER_THREAD)
    ends = [len(X) * k // n_parts for k in range(n_parts + 1)]
    futures = [_pool().submit(kernel, X[a:b], *arguments, out[a:b]) for a, b in pairwise(ends)]
    found = [future.result() for future in futures]
    return min((a + row for a, row in zip(ends, found, strict=False) if row >= 0), default=-1)


def _buckets(cuts: FloatArray) -> tuple[Int32Array, float, float]:
    """Return the bucket table of one feature: its starts, and the origin and scale of the grid."""
    n = 1 << (2 * cuts.size).bit_length()
    origin, scale = 0.0, 0.0
    if cuts.size > 1:
        origin = float(cuts[0])
        with np.errstate(all="ignore"):
            scale = float(n / (cuts[-1] - cuts[0]))
    if not 0 < scale < np.inf:
        n, scale = 1, 0.0
    with np.errstate(all="ignore"):
        at = np.nan_to_num((cuts - origin) * scale, nan=0.0)
    at = np.clip(at, 0, n - 1).astype(np.int64)
    starts = np.searchsorted(at, np.arange(n + 1)).astype(np.int32)
    starts[-1] = cuts.size
    return starts, origin, scale


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Threads shared by all predictions; the kernels run without the GIL."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="treeopt")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
