"""The categories of a feature, as its model knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from treeopt.types import Array

LARGEST = 2**1023
"""Integers below this can be converted to float64."""


@dataclass(frozen=True, eq=False, repr=False)
class Categories:
    """Which inputs belong to each category of a feature, and what a data frame calls them.

    In a matrix a category is a number. Libraries read numbers differently: to LightGBM 2.7 is
    category 2, to scikit-learn it is unknown. So each category is an interval of inputs, after the
    cast to the ensemble's input dtype; all other inputs are of no known category.

    Attributes
    ----------
    value : float64 array
        The number that stands for each category, ascending.
    lower, upper : float64 arrays
        Inputs with ``lower < x <= upper`` belong to the category.
    labels : tuple or None
        Their labels in a ``category`` column of a frame, perhaps only of the first of them. None if
        the model keeps no labels.
    recode : {"codes", "labels", "sorted", "refused"}
        How a frame's column is read. ``"codes"``: a ``category`` column by its own codes, any other
        as numbers; ``"labels"``: every column by its labels, and one that is not known is missing
        (scikit-learn); ``"sorted"``: a ``category`` column by its labels, and one that is not known
        is taken for the next in sorted order (XGBoost); ``"refused"``: only numbers are read.
        LightGBM has another rule, see `Ensemble.frame_labels`.
    finite : bool
        Whether the library refuses infinity in this column.
    are_codes : bool
        Whether the numbers are codes: whole, from 0 on, with -1 for what is missing.
    complete : bool
        Whether all categories are listed. If the model keeps no list, only the categories of its
        splits are known.
    label_dtype : str or None
        Type of the labels, if the library requires it (XGBoost with integers).
    """

    value: Array
    lower: Array
    upper: Array
    labels: tuple[Any, ...] | None = None
    recode: str = "codes"
    finite: bool = False
    are_codes: bool = False
    complete: bool = True
    label_dtype: str | None = None

    def __post_init__(self) -> None:
        for name in ("value", "lower", "upper"):
            array = np.array(getattr(self, name), np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return int(self.value.size)

    def __str__(self) -> str:
        names = self.labels if self.labels is not None else [f"{v:g}" for v in self.value]
        return ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "")

    def __repr__(self) -> str:
        return f"<Categories: {self}>"

    @cached_property
    def label_of(self) -> dict[float, Any]:
        """The label of each number that has one."""
        return dict(zip(self.value.tolist(), self.labels or (), strict=False))

    @cached_property
    def number_of(self) -> dict[Any, float]:
        """The number that stands for each label."""
        return dict(zip(self.labels or (), self.value.tolist(), strict=False))

    def find(self, label: Any) -> float | None:
        """Return the number that stands for a label; None if it is not known."""
        number = self.number_of.get(label)
        if number is None and isinstance(label, int | np.integer) and abs(int(label)) < LARGEST:
            # Among labels that are floats, scikit-learn looks for the float of an integer.
            near = self.number_of.get(float(label), np.nan)
            number = near if isinstance(self.label_of.get(near), float) else None
        return number

    @cached_property
    def has_numbers(self) -> bool:
        """Whether labels are numbers, so that one might be taken for a code."""
        return any(isinstance(label, int | float) for label in self.labels or ())

    @cached_property
    def label_values(self) -> Array | None:
        """Labels as floats, for bounds; None if some of them are not exactly representable."""
        labels = self.labels or ()
        held = (isinstance(v, int | float) and abs(v) < LARGEST and v == float(v) for v in labels)
        if not labels or not all(held):
            return None
        return np.array([float(label) for label in labels])

    @cached_property
    def are_values(self) -> bool:
        """Whether the labels equal the numbers that stand for the categories."""
        return bool(list(self.labels or ()) == self.value.tolist())

    def index_of(self, x: Array) -> Array:
        """Return the category of (cast) inputs, as an index; -1 where it is none."""
        if not len(self):
            return np.full(x.shape, -1)
        at = np.minimum(np.searchsorted(self.upper, x), len(self) - 1)
        return np.where((self.lower[at] < x) & (x <= self.upper[at]), at, -1)

    def with_labels(self, labels: Sequence[Any], dtype: np.dtype[Any]) -> Categories:
        """Return all categories of a frame's column: a code for each label, in their order.

        Codes that the model knows and the labels do not reach are kept, after those with a label.
        """
        new = np.setdiff1d(np.arange(len(labels)), self.value)
        more = truncated(new, dtype)
        order = np.argsort(np.append(self.value, new))
        return replace(
            self,
            value=np.append(self.value, more.value)[order],
            lower=np.append(self.lower, more.lower)[order],
            upper=np.append(self.upper, more.upper)[order],
            labels=tuple(labels),
            complete=True,
        )


def exact(values: Sequence[float] | Array, **rest: Any) -> Categories:
    """Return categories that are single numbers; ``rest`` are the remaining fields."""
    value = np.asarray(values, np.float64)
    return Categories(value, np.nextafter(value, -np.inf), value, **rest)


def truncated(
    codes: Sequence[int] | Array, dtype: np.dtype[Any], *, zero_from: float = 0.0, **rest: Any
) -> Categories:
    """Return categories that are integers, for libraries that truncate their inputs.

    Category 0 starts at ``zero_from``, excluding it if it is negative.
    """
    value = np.asarray(codes, np.float64)
    lower = np.nextafter(value.astype(dtype), dtype.type(-np.inf)).astype(np.float64)
    upper = np.nextafter((value + 1).astype(dtype), dtype.type(-np.inf)).astype(np.float64)
    if zero_from < 0:
        lower = np.where(value == 0, zero_from, lower)
    return Categories(value, lower, upper, are_codes=True, **rest)
