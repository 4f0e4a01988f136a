"""Comparing an ensemble with the model it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.adapters import OwnPrediction, from_model
from treeopt.arithmetic import quiet
from treeopt.errors import InputError
from treeopt.model.ensemble import Ensemble
from treeopt.model.joint import Model
from treeopt.model.softmax import SOFTMAX_ULPS, Softmax
from treeopt.types import Array

ROWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Conversion:
    """Result of `check_conversion`.

    A forest that uses several threads is compared with its prediction on one thread.

    Attributes
    ----------
    compared : int
        Number of predictions compared.
    different : int
        Number of predictions that are not bit-equal. Softmax probabilities may differ by one unit
        in the last place.
    worst : float
        Maximum absolute difference.
    """

    compared: int
    different: int
    worst: float

    def __str__(self) -> str:
        if self.different == 0:
            how = "to the last bit" if self.worst == 0 else "but for the last place"
            return f"{self.compared} predictions compared, all equal {how}"
        return (
            f"{self.compared} predictions compared, {self.different} differ, "
            f"by {self.worst:.3g} at most"
        )


@quiet
def check_conversion(
    model: Any, X: Any, *, output: str = "auto", class_index: int | tuple[int, int] | None = None
) -> Conversion:
    """Compare treeopt's predictions with the model's own on rows that reveal errors.

    These are the rows of ``X``; for every threshold of the model, rows of ``X`` moved exactly onto
    it and onto its neighbors in float64 and in float32; the same for the bounds of each category;
    and rows with a missing value, if the model accepts them.

    Parameters
    ----------
    model : estimator
        Any model that `from_model` accepts.
    X : array-like or data frame
        Typical inputs, such as the training data.
    output, class_index
        As in `from_model`.

    Returns
    -------
    Conversion

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = [[0.0], [1.0], [3.0]]
    >>> model = DecisionTreeRegressor().fit(X, [2.0, 3.0, 4.0])
    >>> print(treeopt.check_conversion(model, X))
    16 predictions compared, all equal to the last bit
    """
    if isinstance(model, Model):
        raise InputError(
            f"model is of type {type(model).__name__}, which has nothing to be compared with. Pass "
            "the original model."
        )
    ensemble = from_model(model, output=output, class_index=class_index)
    reference = OwnPrediction(model, output, class_index)
    rows = ensemble._matrix(X)
    compared = different = 0
    worst = 0.0
    for block in _blocks(ensemble, rows):
        ours, theirs = ensemble.predict(block), reference(block)
        compared += ours.size
        # Compare bits: 0.0 and -0.0 differ, NaN and NaN do not.
        unequal = ours.view(f"u{ours.itemsize}") != theirs.view(f"u{theirs.itemsize}")
        unequal &= ~(np.isnan(ours) & np.isnan(theirs))
        if unequal.any():
            distance = np.abs(ours[unequal].astype(np.float64) - theirs[unequal])
            worst = max(worst, float(np.where(np.isnan(distance), np.inf, distance).max()))
            unit = np.spacing(np.minimum(ours, theirs)[unequal])
            allowed = SOFTMAX_ULPS * unit if isinstance(ensemble, Softmax) else np.nan
            different += int(np.count_nonzero(~(distance <= allowed)))
    return Conversion(compared, different, worst)


def _blocks(ensemble: Model, rows: Array) -> Iterator[Array]:
    """Yield the rows themselves, then rows moved onto and next to every cut."""
    for start in range(0, rows.shape[0], ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]
    for column, cuts in _cuts(ensemble).items():
        values = neighbors(cuts)
        if not ensemble.accepts_inf:
            with np.errstate(over="ignore"):
                values = values[np.isfinite(values.astype(ensemble.input_dtype))]
        if column in ensemble.finite_columns:
            values = values[np.isfinite(values)]
        if ensemble.accepts_nan:
            values = np.append(values, np.full(min(len(rows), 20), np.nan))
        for start in range(0, values.size, ROWS_AT_ONCE):
            part = values[start : start + ROWS_AT_ONCE]
            block = rows[np.arange(part.size) % rows.shape[0]].astype(np.float64)
            block[:, column] = part
            yield block


def _cuts(ensemble: Model) -> dict[int, Array]:
    """Return the cuts of each column that the model reads."""
    found: dict[int, Array] = {}
    for e in [ensemble] if isinstance(ensemble, Ensemble) else ensemble.sums:
        cells = e.compiled.cells
        for j, column in enumerate(cells.columns.tolist()):
            found[column] = np.union1d(found.get(column, np.empty(0)), cells.cuts_of(j))
    return found


def neighbors(cuts: Array) -> Array:
    """Return every cut with its two neighbors in float64 and in float32."""
    with np.errstate(over="ignore"):
        single = cuts.astype(np.float32)
        around = [
            cuts,
            np.nextafter(cuts, -np.inf),
            np.nextafter(cuts, np.inf),
            np.nextafter(single, np.float32(-np.inf)).astype(np.float64),
            np.nextafter(single, np.float32(np.inf)).astype(np.float64),
        ]
    return np.column_stack(around).ravel()
