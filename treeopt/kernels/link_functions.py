"""The links and two of their inverses, in place and in the arithmetic of the libraries.

float32 sums are XGBoost's, float64 sums those of LightGBM and scikit-learn. ``math.exp`` is the
same function of the system's mathematical library that theirs is.
"""

from __future__ import annotations

import math

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.types import Array, Float32Array

IDENTITY, EXP, LOGISTIC, SQUARE, SOFTPLUS = range(5)  # as in treeopt.model.link.LINKS
LARGEST = np.float32(88.7)  # XGBoost's limit, so that exp does not overflow
TINY = np.float32(1e-16)  # and its guard against division by zero
CLOSEST = np.float32(1e-6)  # it keeps a base score so far from 0 and 1


@kernel
def exp(total: Array, slope: float) -> None:
    """Write ``e^s``."""
    for i in range(total.size):
        total[i] = math.exp(total[i])


@kernel
def logistic(total: Array, slope: float) -> None:
    """Write ``1 / (1 + e^(-slope s))``."""
    one = total.dtype.type(1)
    for i in range(total.size):
        x = -slope * total[i]
        if total.itemsize == 4:
            total[i] = one / (math.exp(min(x, LARGEST)) + one + TINY)
        else:
            total[i] = one / (one + math.exp(x))


@kernel
def square(total: Array, slope: float) -> None:
    """Write ``s |s|``."""
    for i in range(total.size):
        total[i] = math.copysign(total[i] * total[i], total[i])


@kernel
def softplus(total: Array, slope: float) -> None:
    """Write ``log(1 + e^s)``."""
    for i in range(total.size):
        total[i] = math.log1p(math.exp(total[i]))


@kernel
def apply(link: int, slope: float, complement: bool, total: Array) -> None:
    """Turn sums into predictions; links count as in `treeopt.model.link.LINKS`."""
    if link == EXP:
        exp(total, slope)
    elif link == LOGISTIC:
        logistic(total, slope)
    elif link == SQUARE:
        square(total, slope)
    elif link == SOFTPLUS:
        softplus(total, slope)
    if complement:
        for i in range(total.size):
            total[i] = total.dtype.type(1) - total[i]


@kernel
def logit(score: Float32Array) -> None:
    """Write where XGBoost's sum starts for a base score that is a probability."""
    one = np.float32(1)
    for i in range(score.size):
        p = min(max(score[i], CLOSEST), one - CLOSEST)
        score[i] = -math.log(one / p - one)


@kernel
def log(score: Float32Array) -> None:
    """Write where XGBoost's sum starts for a base score that is a mean under a log link."""
    for i in range(score.size):
        score[i] = math.log(score[i])
