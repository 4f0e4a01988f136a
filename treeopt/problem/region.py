"""The region around a point in which the prediction does not change."""

from __future__ import annotations

from typing import NamedTuple

from treeopt.types import Array


class Region(NamedTuple):
    """A box around a point in which every input has the same prediction.

    It is the intersection of the leaves that contain the point. Outside the region the prediction
    may change, but need not.

    Attributes
    ----------
    lower, upper : float64 arrays of shape (n_features,)
        Lower and upper bound of each feature, both included. They lie within the bounds of the
        problem, and are integers for integer features. They apply to inputs as you pass them,
        before the model casts them to its own precision. NaN if the feature is fixed at a missing
        value. For a feature with categories: minimum and maximum of the numbers in its entry of
        `categories`.
    categories : dict from int to tuple
        For each feature with categories, the admissible categories with the same prediction. They
        are labels if the model knows them.
    """

    lower: Array
    upper: Array
    categories: dict[int, tuple[object, ...]]
