"""What may be chosen for each feature: the space of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.types import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Space:
    """What may be chosen for each feature.

    Attributes
    ----------
    lower, upper : float64 arrays
        Bounds, both included. They may be infinite, and are NaN for a feature that is fixed at a
        missing value.
    integer : bool array
        Whether only whole numbers may be chosen.
    values : mapping from int to array
        For features with a list of values, categories and others: the numbers that may be chosen,
        in ascending order, at least two.
    data : float64 matrix or None
        The rows that the bounds were taken from.
    may_be_missing : bool array
        Whether the number that means missing to the model may be chosen, if it is within the
        bounds. It may not if these are the range of the data, in which it is a missing value; but
        it may be the code of a label.
    infeasible_because : str
        Reason for infeasibility; empty if feasible.
    """

    lower: FloatArray
    upper: FloatArray
    integer: BoolArray
    values: Mapping[int, FloatArray]
    data: FloatArray | None
    may_be_missing: BoolArray
    infeasible_because: str = ""

    @property
    def fixed(self) -> BoolArray:
        """Whether each feature has only one value."""
        single: BoolArray = (self.lower == self.upper) | np.isnan(self.lower)
        return single


def largest_input(dtype: np.dtype[Any]) -> float:
    """Return the largest finite number that an input may be, in the precision of a model."""
    return float(np.finfo(dtype).max)
