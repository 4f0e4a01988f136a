"""`Softmax`: the probability of one of several classes, from the margins of all of them.

Each library computes the softmax of its margins in its own way. `ARITHMETICS` has these ways:

- XGBoost and LightGBM take ``e^(margin - largest)`` from the system's mathematical library, in the
  precision of the margins, and add the powers up in float64, one class after the other.
- scikit-learn calls its own ``softmax``, which is made of NumPy's functions. The order in which
  NumPy adds eight or more classes depends on the layout of the margins: GradientBoosting has the
  margins of a row side by side, HistGradientBoosting those of a class.
- XGBClassifier calls SciPy's ``softmax`` if its objective is ``multi:softmax``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.errors import InputError, ModelFormatError
from treeopt.model.ensemble import Ensemble
from treeopt.model.link import Link
from treeopt.model.several_sums import SeveralSums
from treeopt.types import Array

SOFTMAX_ULPS = 1
"""By how many units in the last place a probability may differ from that of the library.

None of those that the tests compare differs at all (XGBoost 3.2, LightGBM 4.7, scikit-learn 1.9,
SciPy 1.17, x86-64). The unit is for systems where a library brings its own exponential function.
"""

EXP = Link("exp")


@dataclass(frozen=True, eq=False, repr=False)
class Softmax(SeveralSums):
    """The probability of a class, as the model's own ``predict_proba`` gives it.

    It is ``e^s_k / (e^s_0 + e^s_1 + ...)``, where ``s_j`` is the margin of class ``j`` and ``k`` is
    ``class_index``. Each margin is one sum of trees, without a link. What belongs to one sum of
    trees (``walker``, ``line``, ``leaf_boxes``) is available from ``sums``.

    Use `treeopt.from_model` with a boosted classifier of three or more classes to make one.

    Attributes
    ----------
    sums : tuple of Ensemble
        The margin of each class.
    class_index : int
        The class whose probability is predicted.
    arithmetic : str
        How the library computes the probability: a name in `ARITHMETICS`.

    Notes
    -----
    HistGradientBoosting has different probabilities of one row alone and of the same row among
    others, if there are eight or more classes: up to 6 units in the last place for 20 classes, and
    17 for 100. `predict` and `probability` follow it, so the number of rows has to be the same.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X = [[0.0], [1.0], [2.0]]
    >>> model = GradientBoostingClassifier(n_estimators=5).fit(X, [0, 1, 2])
    >>> softmax = treeopt.from_model(model, class_index=1)
    >>> softmax.predict(X) == model.predict_proba(X)[:, 1]
    array([ True,  True,  True])
    """

    sums: tuple[Ensemble, ...]
    class_index: int
    arithmetic: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "sums", tuple(self.sums))
        if not self.sums or not 0 <= self.class_index < len(self.sums):
            raise ModelFormatError(
                f"class_index is {self.class_index}, but there are {len(self.sums)} sums."
            )
        if self.arithmetic not in ARITHMETICS:
            raise ModelFormatError(
                f"arithmetic is {self.arithmetic!r}: use one of {', '.join(ARITHMETICS)}."
            )
        super().__post_init__()

    def __repr__(self) -> str:
        of_class = f"class {self.class_index} of 0..{len(self.sums) - 1}"
        return (
            f"<Softmax of {self.source}: {of_class}, {self.n_trees} trees, "
            f"{self.n_leaves} leaves, {self.n_features} features>"
        )

    def predict(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Return the probability of the class, within `SOFTMAX_ULPS` of the model's own.

        Parameters
        ----------
        X : array-like of shape (n, n_features) or data frame
            The columns of a frame are matched by name.
        n_jobs : int
            Number of threads; -1 for one per processor.

        Returns
        -------
        array of shape (n,)
            In the dtype of the model's own probabilities.
        """
        return self.probability(self.margins(X, n_jobs=n_jobs))

    def margins(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Return the margins of all classes, bit for bit.

        The arguments are those of `predict`.

        Returns
        -------
        array of shape (n, n_classes)
        """
        matrix = self._matrix(X)
        return np.column_stack([e.predict(matrix, n_jobs=n_jobs) for e in self.sums])

    def probability(self, margins: Array) -> Array:
        """Return the probability of the class from the margins of all classes.

        Parameters
        ----------
        margins : array of shape (n, n_classes)
            In the dtype of the sums: that of ``sums[0].value``. They are not changed.

        Returns
        -------
        array of shape (n,)
            In the same dtype.
        """
        given = np.asarray(margins, self.sums[0].value.dtype)
        if given.ndim != 2 or given.shape[1] != len(self.sums):
            raise InputError(
                f"margins has shape {given.shape}: pass one row per point and one column for each "
                f"of the {len(self.sums)} classes."
            )
        with np.errstate(all="ignore"):
            return ARITHMETICS[self.arithmetic](given, self.class_index)


def _by_powers(margins: Array, k: int) -> Array:
    """Add powers of the mathematical library up in float64, as XGBoost and LightGBM do."""
    by_class = np.ascontiguousarray(margins.T)
    by_class = by_class - by_class.max(axis=0)
    powers = EXP(by_class.ravel()).reshape(by_class.shape)
    total = np.zeros(len(margins))
    for power in powers:
        total += power
    probability: Array = powers[k] / total.astype(powers.dtype)
    return probability


def _by_rows(margins: Array, k: int) -> Array:
    """Call the softmax of scikit-learn on margins that are stored row by row."""
    from sklearn.utils.extmath import softmax

    return np.ascontiguousarray(softmax(np.ascontiguousarray(margins))[:, k])


def _by_columns(margins: Array, k: int) -> Array:
    """Call the softmax of scikit-learn on margins that are stored class by class."""
    from sklearn.utils.extmath import softmax

    return np.ascontiguousarray(softmax(np.asfortranarray(margins))[:, k])


def _by_scipy(margins: Array, k: int) -> Array:
    """Call the softmax of SciPy on margins that are stored row by row."""
    from scipy.special import softmax

    return np.ascontiguousarray(softmax(np.ascontiguousarray(margins), axis=1)[:, k])


ARITHMETICS: dict[str, Callable[[Array, int], Array]] = {
    "xgboost": _by_powers,
    "lightgbm": _by_powers,
    "sklearn": _by_rows,
    "sklearn_hist": _by_columns,
    "scipy": _by_scipy,
}
"""From margins of shape (n, n_classes) and a class to its probabilities, for each library."""
