"""`Difference`: the margin of one class minus that of another, as two sums of trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from treeopt.model.ensemble import Ensemble
from treeopt.model.link import IDENTITY, Link
from treeopt.model.several_sums import SeveralSums
from treeopt.types import Array


@dataclass(frozen=True, eq=False, repr=False)
class Difference(SeveralSums):
    """The difference of two ensembles, bit-equal to that of the model's own margins.

    Each ensemble is one sum of trees of the same model, without a link. What describes the inputs
    is that of ``plus``. What belongs to one sum of trees (``walker``, ``line``, ``leaf_boxes``)
    is available from ``plus`` and ``minus``.

    Use `treeopt.from_model` with a pair of classes to make one.

    Attributes
    ----------
    plus : Ensemble
        The margin of the first class.
    minus : Ensemble
        The margin of the second class, which is subtracted.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X = [[0.0], [1.0], [2.0]]
    >>> model = GradientBoostingClassifier(n_estimators=5).fit(X, [0, 1, 2])
    >>> difference = treeopt.from_model(model, output="raw", class_index=(2, 0))
    >>> margin = model.decision_function(X)
    >>> difference.predict(X) == margin[:, 2] - margin[:, 0]
    array([ True,  True,  True])
    """

    plus: Ensemble
    minus: Ensemble

    @property
    def sums(self) -> tuple[Ensemble, ...]:
        """The two sums of trees."""
        return self.plus, self.minus

    def predict(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Return the difference of the two margins, bit for bit.

        Parameters
        ----------
        X : array-like of shape (n, n_features) or data frame
            The columns of a frame are matched by name.
        n_jobs : int
            Number of threads; -1 for one per processor.

        Returns
        -------
        array of shape (n,)
            In the dtype of the model's own margins.
        """
        matrix = self._matrix(X)
        plus, minus = (e.predict(matrix, n_jobs=n_jobs) for e in (self.plus, self.minus))
        with np.errstate(all="ignore"):
            difference: Array = plus - minus
        return difference

    def margin(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Return the same as `predict`: there is no link."""
        return self.predict(X, n_jobs=n_jobs)

    @property
    def link(self) -> Link:
        """How the difference becomes the prediction: it is the prediction."""
        return IDENTITY

    def signed(self, sign: float) -> Difference:
        """Return the difference times ``sign``, which is 1 or -1."""
        return self if sign > 0 else Difference(self.minus, self.plus)


Model: TypeAlias = Ensemble | Difference
"""A converted model."""
