"""Random numbers for compiled loops: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

The whole state is one integer, ``state[0]``, so that a run is repeated by its seed, whether it is
driven from Python or compiled. A `numpy.random.Generator` would cost 14 µs at each entry, and
numba's own generator is one for the whole thread.
"""

from __future__ import annotations

import math

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.types import FloatArray, UInt64Array


@kernel
def uniform(state: UInt64Array) -> float:
    """Return a number in [0, 1)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@kernel
def below(n: int, state: UInt64Array) -> int:
    """Return an integer in ``0..n-1``."""
    return min(int(uniform(state) * n), n - 1)


@kernel
def normal(state: UInt64Array) -> float:
    """Return a number of the standard normal distribution (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(state)))
    return radius * math.cos(2.0 * math.pi * uniform(state))


@kernel
def choose(cumulative: FloatArray, state: UInt64Array) -> int:
    """Return an index, drawn with the probabilities whose running sums are given."""
    at = uniform(state) * cumulative[-1]
    index: int = min(np.searchsorted(cumulative, at, side="right"), cumulative.size - 1)
    return index
