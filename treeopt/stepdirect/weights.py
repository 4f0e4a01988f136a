"""Reading the relative importance of the coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from treeopt.arguments import read_weights
from treeopt.errors import InputError, shown
from treeopt.model.difference import Model
from treeopt.problem.dimensions import Dimensions
from treeopt.types import FloatArray

Weights: TypeAlias = ArrayLike | Mapping[str, float] | None
"""One number of at least 0 for each coordinate, in order or by name; None: all equal."""


def weights_of(
    weights: Weights, dimensions: Dimensions, ensemble: Model | None = None
) -> FloatArray:
    """Return the weights of the free coordinates, as they are given; ones if there are none.

    Parameters
    ----------
    weights : array-like of shape (p,), mapping or series by name
        One number of at least 0 for each coordinate.
    dimensions : Dimensions
        The space. Its names are those of the weights, unless there is a model.
    ensemble : Ensemble
        The model whose features, by name or number, the weights are about.
    """
    if weights is None:
        return np.ones(dimensions.free.size)
    n, names = len(dimensions.all), dimensions.names
    if ensemble is not None:
        names = ensemble.feature_names
    if hasattr(weights, "to_dict") and names:
        weights = weights.to_dict()
    if isinstance(weights, Mapping):
        if ensemble is not None:
            column = {name: ensemble.feature_index(name) for name in weights}
        else:
            column = {name: k for k, name in enumerate(names or ())}
        by_column = {column.get(name): weight for name, weight in weights.items()}
        if set(by_column) != set(range(n)):
            raise InputError(
                f"weights is {shown(weights)}. Pass a number for each parameter, by its name or as "
                f"a list of {n}."
            )
        weights = [by_column[k] for k in range(n)]
    return read_weights(weights, n)[dimensions.free]
