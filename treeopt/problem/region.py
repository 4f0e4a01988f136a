"""The region around a point in which the prediction does not change."""

from __future__ import annotations

from typing import NamedTuple

from treeopt.types import Array


class Region(NamedTuple):
    """A box around a point in which every input gives the same prediction.

    It is what the leaves that hold the point have in common. Beyond it the prediction may change,
    but need not.

    Attributes
    ----------
    lower, upper : float64 arrays
        Ends of each feature, both included, as inputs before the cast, cut to the bounds, and whole
        numbers where only these are admissible; NaN where the feature is fixed at a missing value.
        For a feature with categories, the least and the largest number among those that are
        allowed.
    categories : dict from int to tuple
        Which of the admissible categories give the same prediction, as labels where the model
        knows them; for the features that have categories.
    """

    lower: Array
    upper: Array
    categories: dict[int, tuple[object, ...]]
