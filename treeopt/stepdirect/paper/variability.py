r"""Local variability σ of a rectangle (Sect. 3.2, Eq. 7).

.. math:: \sigma_j = \max\{|N_j^D| / |N_j|, \epsilon_\sigma\}, \quad
          N_j = \{H_i : \|c_i - c_j\| \le \lambda d_j\}, \quad
          N_j^D = \{H_i \in N_j : f_{H_i} \ne f_{H_j}\}

Both counts are kept up to date while the partition changes: a rectangle that leaves or enters
looks once at all others, so that a division costs O(n p) and not O(n² p), and the counts are exact
at all times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import kernel


@kernel
def squared_distance(a: Any, b: Any) -> Any:
    """Return the squared distance of two points, the same for (a, b) and (b, a)."""
    total = 0.0
    for i in range(a.size):
        total += (a[i] - b[i]) * (a[i] - b[i])
    return total


@kernel
def reach(j: Any, rect: Any, neighbourhood: Any) -> Any:
    """Return the squared radius (λ d_j)² of the neighbourhood of rectangle ``j``."""
    return (neighbourhood * rect[j].radius) ** 2


@kernel
def leave(j: Any, n: Any, rect: Any, centre: Any, neighbourhood: Any) -> None:
    """Take rectangle ``j`` out of the neighbourhoods of the others among the first ``n``."""
    for k in range(n):
        if k != j:
            distance = squared_distance(centre[k], centre[j])
            if distance <= reach(k, rect, neighbourhood):
                rect[k].near -= 1
                rect[k].differ -= np.int64(rect[k].f != rect[j].f)


@kernel
def enter(j: Any, n: Any, rect: Any, centre: Any, neighbourhood: Any) -> None:
    """Put rectangle ``j`` among the first ``n``: into their neighbourhoods, and they into its."""
    rect[j].near = 1
    rect[j].differ = 0
    for k in range(n):
        if k != j:
            distance = squared_distance(centre[k], centre[j])
            different = np.int64(rect[k].f != rect[j].f)
            if distance <= reach(k, rect, neighbourhood):
                rect[k].near += 1
                rect[k].differ += different
            if distance <= reach(j, rect, neighbourhood):
                rect[j].near += 1
                rect[j].differ += different


@kernel
def revalue(j: Any, old: Any, n: Any, rect: Any, centre: Any, neighbourhood: Any) -> None:
    """Count anew after f_H of rectangle ``j``, among the first ``n``, was ``old`` and changed."""
    rect[j].differ = 0
    for k in range(n):
        if k != j:
            distance = squared_distance(centre[k], centre[j])
            different = np.int64(rect[k].f != rect[j].f)
            if distance <= reach(k, rect, neighbourhood):
                rect[k].differ += different - np.int64(rect[k].f != old)
            if distance <= reach(j, rect, neighbourhood):
                rect[j].differ += different
