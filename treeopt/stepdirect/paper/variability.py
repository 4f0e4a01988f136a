r"""Local variability σ of a rectangle (Sect. 3.2, Eq. 9).

.. math:: \sigma_j = \max\{|N_j^D| / |N_j|, \epsilon_\sigma\}, \quad
          N_j = \{H_i : \|c_i - c_j\| \le \lambda d_j\}, \quad
          N_j^D = \{H_i \in N_j : f_{H_i} \ne f_{H_j}\}

Both counts are updated while the partition changes: a rectangle that leaves or enters is compared
once with all others. A division costs O(n p), not O(n² p), and the counts are always exact.
"""

from __future__ import annotations

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.types import FloatArray, RecordArray


@kernel
def squared_distance(a: FloatArray, b: FloatArray) -> float:
    """Return the squared distance of two points, the same for (a, b) and (b, a)."""
    total = 0.0
    for i in range(a.size):
        total += (a[i] - b[i]) * (a[i] - b[i])
    return total


@kernel
def squared_radius(j: int, rect: RecordArray, neighbourhood: float) -> float:
    """Return (λ d_j)², the squared radius of the neighbourhood of rectangle ``j``."""
    squared: float = (neighbourhood * rect[j].radius) ** 2
    return squared


@kernel
def leave(j: int, n: int, rect: RecordArray, centre: FloatArray, neighbourhood: float) -> None:
    """Remove rectangle ``j`` from N_i and N_i^D of the others among the first ``n``."""
    for k in range(n):
        if k != j:
            distance = squared_distance(centre[k], centre[j])
            if distance <= squared_radius(k, rect, neighbourhood):
                rect[k].near -= 1
                rect[k].differ -= np.int64(rect[k].f != rect[j].f)


@kernel
def enter(j: int, n: int, rect: RecordArray, centre: FloatArray, neighbourhood: float) -> None:
    """Add rectangle ``j`` to N_i and N_i^D of the first ``n``, and these to N_j and N_j^D."""
    rect[j].near = 1
    rect[j].differ = 0
    for k in range(n):
        if k != j:
            distance = squared_distance(centre[k], centre[j])
            different = np.int64(rect[k].f != rect[j].f)
            if distance <= squared_radius(k, rect, neighbourhood):
                rect[k].near += 1
                rect[k].differ += different
            if distance <= squared_radius(j, rect, neighbourhood):
                rect[j].near += 1
                rect[j].differ += different


@kernel
def revalue(
    j: int, old: float, n: int, rect: RecordArray, centre: FloatArray, neighbourhood: float
) -> None:
    """Update N_i^D of the first ``n`` rectangles after f_H of ``j`` changed from ``old``."""
    rect[j].differ = 0
    for k in range(n):
        if k != j:
            distance = squared_distance(centre[k], centre[j])
            different = np.int64(rect[k].f != rect[j].f)
            if distance <= squared_radius(k, rect, neighbourhood):
                rect[k].differ += different - np.int64(rect[k].f != old)
            if distance <= squared_radius(j, rect, neighbourhood):
                rect[j].differ += different
