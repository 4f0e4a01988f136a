"""`TreeSum`: a sum of trees, as the grid and the proof see it.

A sum is a step function of the inputs. It provides its cuts, so that all sums of a problem can
share one grid, its value at points of the grid for the search, and the value that the user's model
computes. `exact.certificate` bounds the difference of the two values, which is due to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.model.cells import Cells
from treeopt.model.ensemble import Ensemble
from treeopt.types import Array, BoolArray, FloatArray, Int32Array, IntArray


@dataclass(frozen=True, eq=False)
class TreeSum:
    """The sum of the trees of a model, divided by its divisor.

    Attributes
    ----------
    ensemble : Ensemble
        The model.
    weight : float
        Factor of the sum where it is added to others, 1 or -1.
    to_column : int64 array or None
        The column of the problem that each column of the model is. None if they are the same.
    """

    ensemble: Ensemble
    weight: float = 1.0
    to_column: IntArray | None = None

    def __post_init__(self) -> None:
        if abs(self.weight) != 1:
            raise ValueError(f"weight is {self.weight}. Pass 1 or -1.")

    @property
    def columns(self) -> IntArray:
        """The column of the problem of each feature that a split reads."""
        own = self.cells.columns
        return own if self.to_column is None else self.to_column[own]

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """Precision to which the model casts its inputs."""
        return self.ensemble.input_dtype

    @property
    def missing_value(self) -> float:
        """A number that the model reads as missing; NaN if there is none."""
        return self.ensemble.missing_value

    @property
    def cells(self) -> Cells:
        """The cells of each feature that a split reads, and the splits in terms of them."""
        return self.ensemble.compiled.cells

    @property
    def last_of_cells(self) -> FloatArray:
        """The last float64 of each cell except the last; features are concatenated."""
        return self.ensemble.compiled.last_of_cells

    def leaves_at(self, cells: IntArray) -> Int32Array:
        """Return the leaf of each tree at points ``[point, feature]``."""
        return self.ensemble.compiled.leaves_at(cells)

    def sums_at(self, cells: IntArray) -> FloatArray:
        """Return the sums of the leaves at points ``[point, feature]``."""
        values = self.ensemble.compiled.leaf_value[self.leaves_at(cells)]
        sums: FloatArray = values.sum(axis=1, dtype=np.float64)
        return sums

    def total_at(self, cells: IntArray) -> Any:
        """Return the margin at one point, in the arithmetic of the model."""
        return self.divided(self.ensemble.own_sum(self.leaves_at(cells[None, :])[0])[-1])

    def divided(self, total: Any) -> Any:
        """Return a sum of the trees divided by the divisor, in the arithmetic of the model."""
        return total / self.ensemble.value.dtype.type(self.ensemble.divisor)

    def cells_alike(self, cells: IntArray) -> BoolArray:
        """Return which cells lead to the same leaves as a point does."""
        return self.ensemble.compiled.cells_alike(cells)[1]

    def keys_at(self, i: int, cells: IntArray) -> Array:
        """Return the keys of cells of its ``i``-th feature, ``[cell, slot]``."""
        own = self.cells
        return np.stack([own.keys_of(s)[cells] for s in own.slots_of(i)], axis=1)
