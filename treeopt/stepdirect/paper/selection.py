r"""Potentially optimal hyper-rectangles (Sect. 3.2).

Definition 2: rectangle j is potentially optimal if there is a K > 0 with

.. math:: f_{H_j} - K d_j \sigma_j &\le f_{H_i} - K d_i \sigma_i \quad \forall i \qquad
              &\text{(Eq. 7)} \\
          f_{H_j} - K d_j \sigma_j &\le f_{min} - \epsilon |f_{min} - f_{median}| \qquad
              &\text{(Eq. 8)}

By Lemma 1 these are points of the lower right convex hull of the (d σ, f_H), from the minimum
value to the maximum d σ:

============  =====================================================================================
Lemma 1 (a)   of rectangles with equal d σ only those with the minimum f_H: `potentially_optimal`
Lemma 1 (b)   the hull: `_is_above` drops what lies above it
Lemma 1 (c)   Eq. 8 with the maximum K that (b) allows (Eq. 10 and 11): `potentially_optimal`
============  =====================================================================================

Choice: where I_b is empty (the maximum d σ), K is unbounded and Eq. 8 holds. Part (c) of the Lemma
leaves that open, and for f_median = f_min would admit K = 0; the Definition wants K > 0.
"""

from __future__ import annotations

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.stepdirect.paper.rules import MEDIAN, Rules
from treeopt.stepdirect.paper.state import NONE, State
from treeopt.types import FloatArray, IntArray

BUCKET_SHIFT = np.int64(47)
"""Positive floats with equal leading bits share a bucket: 32 buckets per power of two."""


@kernel
def select(state: State, rules: Rules) -> None:
    """Write the set S of Algorithm 1 into ``task[i].selected``."""
    count, rect = state.counter[0], state.rect
    values = state.sample["f"][: count.evaluated].copy()
    f_min = values[count.best] if count.best != NONE else 0.0
    worst = worst_of(values, f_min)
    n = count.rectangles
    size, f = np.empty(n), np.empty(n)
    for j in range(n):
        sigma = 1.0
        if rules.neighbourhood > 0.0:
            sigma = max(rect[j].differ / rect[j].near, rules.sigma_min)  # Eq. 9
        size[j] = rect[j].radius * sigma
        f[j] = min(rect[j].f, worst)
    if rules.epsilon_scale == MEDIAN:
        scale = abs(f_min - min(np.median(values), worst))
    else:
        scale = abs(f_min)
    chosen = potentially_optimal(size, f, f_min, rules.epsilon * scale, rules.all_ties)
    for k in range(chosen.size):
        state.task[k].selected = chosen[k]
    count.selected = chosen.size


@kernel
def worst_of(values: FloatArray, start: float) -> float:
    """Return the maximum finite value, at least ``start``. Failed evaluations count as this."""
    worst = start
    for value in values:
        if value < np.inf:
            worst = max(worst, value)
    return worst


@kernel
def potentially_optimal(
    size: FloatArray, f: FloatArray, f_min: float, decrease: float, all_ties: bool
) -> IntArray:
    """Return the potentially optimal rectangles, in ascending order of ``size``.

    ``size`` is d σ, ``decrease`` is ε |f_min - f_median|. Without ``all_ties``, of rectangles that
    are equal in both only the oldest is returned. Rectangles of size 0 are left out.
    """
    candidates = undominated(size, f)
    # Ascending size, then f, then age.
    candidates = candidates[np.argsort(f[candidates], kind="mergesort")]
    candidates = candidates[np.argsort(size[candidates], kind="mergesort")]
    n = candidates.size
    # The hull starts at the minimum value; of several, at the largest rectangle.
    hull = np.empty(n, np.int64)
    n_hull = 0
    start = 0
    for k in range(n):
        if f[candidates[k]] <= f[candidates[start]] and (
            k == 0 or size[candidates[k]] > size[candidates[k - 1]]
        ):
            start = k
    for k in range(start, n):
        c = candidates[k]
        if k > start and size[c] == size[candidates[k - 1]]:
            continue  # Lemma 1 (a): the first of its size has the minimum value
        while n_hull > 1 and _is_above(hull[n_hull - 2], hull[n_hull - 1], c, size, f):
            n_hull -= 1  # Lemma 1 (b)
        hull[n_hull] = c
        n_hull += 1
    chosen = np.empty(n, np.int64)
    n_chosen = 0
    k = start
    for h in range(n_hull):
        c = hull[h]
        if h + 1 < n_hull:  # Lemma 1 (c), with the maximum K that (b) allows
            after = hull[h + 1]
            K = (f[after] - f[c]) / (size[after] - size[c])
            if f[c] - K * size[c] > f_min - decrease:
                continue
        while candidates[k] != c:
            k += 1
        while k < n and size[candidates[k]] == size[c] and f[candidates[k]] == f[c]:
            chosen[n_chosen] = candidates[k]
            n_chosen += 1
            k += 1
            if not all_ties:
                break
    return chosen[:n_chosen]


@kernel
def _is_above(a: int, b: int, c: int, size: FloatArray, f: FloatArray) -> bool:
    """Tell whether b lies above the line from a to c."""
    above: bool = (f[b] - f[a]) * (size[c] - size[a]) > (f[c] - f[a]) * (size[b] - size[a])
    return above


@kernel
def undominated(size: FloatArray, f: FloatArray) -> IntArray:
    """Return the rectangles not dominated by a larger one with a lower or equal value.

    The others have no K > 0 and need not be sorted. Sizes are compared by their leading bits, so
    that a few dominated rectangles may stay.
    """
    bucket = size.view(np.int64) >> BUCKET_SHIFT
    first, last = bucket.min(), bucket.max()
    lowest = np.full(last - first + 2, np.inf)
    for j in range(size.size):
        k = bucket[j] - first
        lowest[k] = min(lowest[k], f[j])
    for k in range(lowest.size - 2, -1, -1):
        lowest[k] = min(lowest[k], lowest[k + 1])
    kept = np.empty(size.size, np.int64)
    n = 0
    for j in range(size.size):
        if size[j] > 0.0 and f[j] < lowest[bucket[j] - first + 1]:
            kept[n] = j
            n += 1
    return kept[:n]
