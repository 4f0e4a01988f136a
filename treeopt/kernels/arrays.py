"""Arrays that travel together, as the kernels pass them to each other.

Each call from Python pays for every argument: 0.02 µs for an array or for one in a plain tuple,
0.2 µs and more for one in a NamedTuple. So kernels that are called for one row or one move take
flat arrays or plain tuples (`Plain`) and name them inside; all others take these classes.

Inside a kernel a NamedTuple is free only if a function that it is passed to uses all its arrays,
and if these do not share memory: otherwise numba counts references to them at every call.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from treeopt.types import Array, FloatArray, Int32Array, IntArray, UInt64Array

Plain: TypeAlias = tuple[Array, ...]
"""The arrays of a NamedTuple of this module, in its order, as a plain tuple."""


Whole: TypeAlias = int | np.int64
"""An integer; numba makes no difference between the two."""


def plain(arrays: tuple[Array, ...]) -> Plain:
    """Return the arrays of a NamedTuple as a plain tuple."""
    return tuple(arrays)


class Numbers(NamedTuple):
    """The numbers that describe a whole model; in arrays they are in this order."""

    base: float
    """The sum starts here."""
    divisor: float
    """The sum is divided by this."""
    missing: float
    """One more value that means missing (NaN: none)."""
    float32: float
    """1 if inputs are cast to float32 first, else 0 (a float is quicker than a bool)."""
    rejects_nan: float
    """1 if the library refuses NaN, else 0."""
    rejects_inf: float
    """1 if the library refuses infinities (after the cast), else 0."""


class Feature(NamedTuple):
    """One feature that the model reads; in arrays its integers and floats are in this order."""

    column: int
    """Its column of X."""
    first_cut: int
    """Where its cuts begin in `Encoder.cuts`."""
    first_bucket: int
    """Where its bucket table begins in `Encoder.buckets`."""
    n_buckets: int
    """Its number of buckets."""
    nan_cell: int
    """The cell of a missing value."""
    first_row: int
    """Number of its first cell if the cells of all features are numbered consecutively."""
    origin: float
    """Where its first bucket begins."""
    scale: float
    """Number of buckets per unit."""


class Encoder(NamedTuple):
    """What turns values into cells."""

    features: IntArray
    """The integers of each `Feature`, ``[feature, 6]``."""
    grid: FloatArray
    """Origin and scale of each feature, ``[feature, 2]``."""
    cuts: FloatArray
    """Cuts of all features, one feature after the other."""
    buckets: Int32Array
    """For each bucket, the number of cuts of its feature in the buckets before it."""


class Slots(NamedTuple):
    """How the cells of each feature become keys."""

    start: IntArray
    """Where the slots of each feature begin; slot 0 belongs to no feature, its key is always 0."""
    table: IntArray
    """Where the keys of each slot begin in ``lut``; -1 if the key is the cell itself."""
    lut: Int32Array
    """Keys, one per cell, of all slots that have a table."""


class Splits(NamedTuple):
    """The trees as they were converted; all but ``tree_start`` have one entry per node."""

    left: Int32Array
    """Left child; -1 at leaves."""
    right: Int32Array
    """Right child; -1 at leaves."""
    tree_start: IntArray
    """First node of each tree, its root, and the number of nodes at the end."""
    feature: IntArray
    """Feature of the split, by its position among those that the model reads; -1 at leaves."""
    slot: Int32Array
    """Slot whose key the split reads."""
    rank: Int32Array
    """Larger keys go to the right."""
    bit: Int32Array
    """If positive: keys with this bit go to the right, whatever the rank."""
    first_leaf: Int32Array
    """First leaf below the node, see `pack.leaf_ranges`."""
    n_leaves: Int32Array
    """Number of leaves below the node."""


class Packed(NamedTuple):
    """The trees as words of 64 bits, see `pack.pack_nodes`."""

    words: UInt64Array
    """One word per node."""
    roots: UInt64Array
    """Position of each root."""
    bits: UInt64Array
    """Layout of a word, see `walk.layout_of`."""
    leaf_value: Array
    """Value of each leaf."""


class Layout(NamedTuple):
    """Where the parts of a word are; the masks are applied after the shifts."""

    field: np.uint64
    """Mask of ``slot * LANES``, which is in the lowest bits; 0 at leaves."""
    child_mask: np.uint64
    child_shift: np.uint64
    """The position of the left child."""
    rank_shift: np.uint64
    """The rank, or the number of a leaf, in the highest bits."""
    bit_shift: np.uint64
    """The bit that the node tests."""
    has_bits: bool
    """Whether nodes have such a bit."""


class Nodes(NamedTuple):
    """`Packed` with the layout that its ``bits`` stand for."""

    words: UInt64Array
    roots: UInt64Array
    layout: Layout
    leaf_value: Array


class State(NamedTuple):
    """What `incremental` remembers of each tree at the current point."""

    low: Int32Array
    """First key with which the tree stays the same, ``[slot, tree]``."""
    high: Int32Array
    """Last such key."""
    safe: Int32Array
    """First and last key with which all trees stay the same, ``[2, slot]``."""
    path: Int32Array
    """Slots on the tree's path, ``[tree, step]``."""
    depth: Int32Array
    """Number of steps of the path."""
    value: Array
    """Value of the tree's leaf."""
    sums: Array
    """The base, then the sum after each tree."""


class Steps(NamedTuple):
    """The steps of each tree along a line, from left to right."""

    start: IntArray
    """Where the steps of each tree begin, and their number at the end."""
    stop: Int32Array
    """The cell (after `line.mark_pieces`, the piece) after each step."""
    value: Array
    """Value of the tree on each step."""
