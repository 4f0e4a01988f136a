"""The space of a decision: the allowed values of each feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.types import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Space:
    """The allowed values of each feature.

    Attributes
    ----------
    lower, upper : float64 arrays
        Bounds, both included. They may be infinite. NaN if the feature is fixed at a missing value.
    integer : bool array
        Whether only integers are allowed.
    values : mapping from int to array
        For features with a list of values, such as categories: the allowed numbers, in ascending
        order, at least two.
    data : float64 matrix or None
        The rows passed as bounds.
    may_be_missing : bool array
        Whether the number that the model reads as missing is allowed, if it is within the bounds.
        False if the bounds are the range of data, where this number is a missing value. True if the
        number can be the code of a label.
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
        """Whether each feature has only one allowed value."""
        single: BoolArray = (self.lower == self.upper) | np.isnan(self.lower)
        return single


def largest_input(dtype: np.dtype[Any]) -> float:
    """Return the maximum finite input of a model that reads inputs in this precision."""
    return float(np.finfo(dtype).max)
