"""A problem with constraints and costs as arrays for the kernels.

Everything is oriented so that smaller is better. The problem is to minimize

    Σ parts of the objective + Σ_k φ_k(x_k)

subject to the rows, the limits of the other parts, the clauses and the counts. A *part* is a
function of sums of trees: a link, a softmax, or a product with a feature. It grows with each of its
sums, because a sum is listed with the sign that makes it so; some sums are listed with both signs.
φ_k is the cost of feature k.

Bounds are valid for the numbers that a user computes: the constant of every sum is lowered by the
rounding errors of the model and of the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from treeopt.problem.leaves import Leaves
from treeopt.types import Array, IntArray

HUGE = 1e60
"""Bounds beyond this count as infinite."""

OPEN = 1e30
"""Numbers beyond this are not used to choose multipliers or to estimate rounding errors; bounds of
models in single precision end before `HUGE`."""

LINK, SOFTMAX = range(2)
"""Kinds of parts."""


FEATURE = np.dtype(
    [
        ("slope", np.float64),  # cost per unit
        ("size", np.float64),  # the same before terms cancel, to which rounding errors are relative
        ("place_start", np.int64),  # number of its first place among all places
        ("kink_start", np.int64),  # its kinks
        ("kink_end", np.int64),
        ("stop_start", np.int64),  # its stops
        ("stop_end", np.int64),
        ("row_start", np.int64),  # the rows that it is in and that must hold
        ("row_end", np.int64),
        ("ordered", np.bool_),  # whether its places ascend
        ("has_table", np.bool_),  # whether it has categories, whose costs are those of places
        ("is_priced", np.bool_),  # whether it has any cost
        ("is_integer", np.bool_),
    ],
    align=True,
)
"""A free feature."""

PLACE = np.dtype([("low", np.float64), ("high", np.float64), ("table", np.float64)])
"""A place: its first and last admissible number and, for categories, its cost."""

KINK = np.dtype([("at", np.float64), ("weight", np.float64), ("fee", np.float64)])
"""A cost of moving away from a reference, see `treeopt.problem.costs.Kink`."""

STOP = np.dtype([("at", np.float64), ("place", np.int64)])
"""An admissible number next to a reference, and its place.

With the ends of a range, the stops include the minimum of the cost of a feature."""


class Features(NamedTuple):
    """The free features: their numbers and their costs, as records."""

    feature: Array  # `FEATURE`
    place: Array  # `PLACE`
    kink: Array  # `KINK`
    stop: Array  # `STOP`


ROW = np.dtype(
    [
        ("start", np.int64),  # its entries
        ("end", np.int64),
        ("low", np.float64),
        ("high", np.float64),
        ("size", np.float64),  # of its constants
        ("error", np.float64),  # relative rounding error, as the user computes it
        ("is_literal", np.bool_),  # whether it is an alternative of a clause
    ],
    align=True,
)
"""A linear function of the free features with its bounds."""

ENTRY = np.dtype([("feature", np.int64), ("factor", np.float64), ("size", np.float64)])
"""A feature of a row, its coefficient, and how large the coefficient is before terms cancel."""

OF = np.dtype([("row", np.int64), ("factor", np.float64)])
"""A row that a feature is in, and its coefficient."""


class Rows(NamedTuple):
    """Linear constraints, and rows of clauses, as records."""

    row: Array  # `ROW`
    entry: Array  # `ENTRY`
    of: Array  # `OF`


PART = np.dtype(
    [
        ("weight", np.float64),  # factor of the function
        ("sign", np.float64),  # sign with which the first sum is listed
        ("slope", np.float64),  # of the link
        ("minus", np.float64),  # subtracted from the feature of a product
        ("limit", np.float64),  # upper limit; infinite for parts of the objective
        ("error", np.float64),  # relative rounding error of the function
        ("scale", np.float64),  # typical size of a violation of the limit
        ("largest", np.float64),  # predictions beyond this may be infinite
        ("start", np.int64),  # its sums
        ("end", np.int64),
        ("n_sums", np.int64),
        ("link", np.int64),  # see `treeopt.kernels.link_functions`
        ("feature", np.int64),  # of a product: the free feature; -1 if it is fixed
        ("kind", np.int64),  # LINK or SOFTMAX
        ("complement", np.bool_),
        ("is_product", np.bool_),  # whether the function is multiplied by a feature
        ("in_objective", np.bool_),  # whether the part is added to the objective
    ],
    align=True,
)
"""A function of sums, in the objective or with a limit.

For SOFTMAX, the class in question comes first. A product has its sums twice: for the minimum and
for the maximum of its prediction."""

LITERAL = np.dtype([("row", np.int64), ("feature", np.int64), ("mask", np.int64)])
"""An alternative: a row, or a set of places of a feature with its position in ``below``; or -1."""

COUNT = np.dtype([("start", np.int64), ("end", np.int64), ("most", np.int64)])
"""A maximum number of features that are not 0."""

COUNTED = np.dtype([("feature", np.int64), ("zero", np.int64)])
"""A feature of a count, and its place that is 0; -1 if 0 is not admissible."""


class Logic(NamedTuple):
    """Clauses and counts.

    Attributes
    ----------
    clause_start : int64 array
        First literal of each clause.
    literal, counts, counted : records
        See `LITERAL`, `COUNT` and `COUNTED`.
    below : int64 array
        For each set of places: number of places in the set before each place, and in all.
    """

    clause_start: IntArray
    literal: Array
    below: IntArray
    counts: Array
    counted: Array


SUM = np.dtype(
    [
        ("start", np.int64),  # its trees
        ("end", np.int64),
        ("constant", np.float64),  # without its trees, lowered by its error
        ("error", np.float64),  # rounding error of the model and the search
        ("spread", np.float64),  # distance of minimum and maximum if trees were independent
    ]
)
"""A sum of trees."""


class Statement(NamedTuple):
    """A whole problem.

    Attributes
    ----------
    leaves : Leaves
        The boxes of all sums, with their signs and weights.
    sums, parts : records
        See `SUM` and `PART`.
    features, rows, logic
        See there.
    offset : float
        Constant of the objective: costs of features that are not free.
    """

    leaves: Leaves
    sums: Array
    parts: Array
    features: Features
    rows: Rows
    logic: Logic
    offset: float


def records(dtype: np.dtype[Any], columns: Mapping[str, Any], n: int) -> Array:
    """Return ``n`` records from one column per field."""
    table = np.zeros(n, dtype)
    for name, column in columns.items():
        table[name] = column
    return table
