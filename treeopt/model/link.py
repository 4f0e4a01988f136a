"""How a sum of trees becomes the prediction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeopt.types import Array

LINKS = ("identity", "exp", "logistic", "square", "softplus")
"""Names of the known links; all are increasing functions."""


class Link(NamedTuple):
    """A monotone function of the sum.

    ``exp`` is ``e^s``, ``logistic`` is ``1 / (1 + e^(-slope s))``, ``square`` is ``s |s|`` and
    ``softplus`` is ``log(1 + e^s)``, each in the arithmetic of the library that uses it.

    Attributes
    ----------
    name : str
        One of `LINKS`.
    slope : float
        Factor of the sum, for ``logistic``.
    complement : bool
        Whether the prediction is 1 minus the function: the probability of the first of two classes.
    by_numpy : bool
        For ``exp``: whether the library calls NumPy, whose result may differ from that of the
        kernels in the last bits on some processors.
    """

    name: str = "identity"
    slope: float = 1.0
    complement: bool = False
    by_numpy: bool = False

    @property
    def increasing(self) -> bool:
        """Whether a larger sum gives a larger prediction."""
        return not self.complement

    def __call__(self, total: Array) -> Array:
        """Turn an array of sums, in place, into predictions."""
        from treeopt.kernels import link_functions as links

        if self == IDENTITY:
            return total
        if self.by_numpy:
            with np.errstate(all="ignore"):
                exponential: Array = np.exp(total, out=total)
            return exponential
        links.apply(*self.code(total.dtype), total)
        return total

    def last_place(self, value: Any) -> float:
        """Return the unit of the last place that a prediction is computed to."""
        # Of 1 - p it is that of p or of the result, whichever is larger.
        sizes = (value, 1 - value) if self.complement else (value,)
        return max(float(np.spacing(abs(size))) for size in sizes)

    def code(self, dtype: np.dtype[Any]) -> tuple[int, Any, bool]:
        """Return the link as the kernels read it."""
        return LINKS.index(self.name), dtype.type(self.slope), self.complement


IDENTITY = Link()
