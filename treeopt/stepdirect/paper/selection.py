r"""Potentially optimal hyper-rectangles (Sect. 3.2).

Definition 2: rectangle j is potentially optimal if some K > 0 has

.. math:: f_{H_j} - K d_j \sigma_j \le f_{H_i} - K d_i \sigma_i \quad \forall i, \qquad
          f_{H_j} - K d_j \sigma_j \le f_{min} - \epsilon |f_{min} - f_{median}|.

By Lemma 1 these are points of the lower right convex hull of the (d σ, f_H), from the least value
to the largest d σ.

Choice: where I_b is empty (the largest d σ), K is unbounded and the second condition holds. The
Lemma's part (c) leaves that open, and for f_median = f_min would admit K = 0; the Definition wants
K > 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import kernel
from treeopt.stepdirect.paper.rules import MEDIAN
from treeopt.stepdirect.paper.state import BEST, EVALUATED, NONE, RECTANGLES, SELECTED

BUCKET_SHIFT = np.int64(47)
"""Positive floats of equal leading bits share a bucket: 32 buckets per power of two."""


@kernel
def select(state: Any, rules: Any) -> None:
    """Write the set S of Algorithm 1 into ``task[k].selected``."""
    count, rect = state.counter, state.rect
    values = state.sample.f[: count[EVALUATED]].copy()
    best = count[BEST]
    f_min = values[best] if best != NONE else 0.0
    worst = worst_of(values, f_min)
    n = count[RECTANGLES]
    size, f = np.empty(n), np.empty(n)
    for j in range(n):
        sigma = 1.0
        if rules.neighbourhood > 0.0:
            sigma = max(rect[j].differ / rect[j].near, rules.sigma_min)
        size[j] = rect[j].radius * sigma
        f[j] = min(rect[j].f, worst)
    if rules.epsilon_scale == MEDIAN:
        scale = abs(f_min - min(np.median(values), worst))
    else:
        scale = abs(f_min)
    chosen = potentially_optimal(size, f, f_min, rules.epsilon * scale, rules.all_ties)
    for k in range(chosen.size):
        state.task[k].selected = chosen[k]
    count[SELECTED] = chosen.size


@kernel
def worst_of(values: Any, start: Any) -> Any:
    """Return the largest value that is finite, which failed evaluations count as here."""
    worst = start
    for value in values:
        if value < np.inf:
            worst = max(worst, value)
    return worst


@kernel
def potentially_optimal(size: Any, f: Any, f_min: Any, margin: Any, all_ties: Any) -> Any:
    """Return the rectangles that Definition 2 admits, from the smallest ``size`` to the largest.

    ``size`` is d σ, ``margin`` is ε |f_min - f_median|. Without ``all_ties`` there is one
    rectangle, the oldest, of those that are equal in both. Rectangles of size 0 are left out.
    """
    candidates = undominated(size, f)
    # Ascending size, then f, then age.
    candidates = candidates[np.argsort(f[candidates], kind="mergesort")]
    candidates = candidates[np.argsort(size[candidates], kind="mergesort")]
    n = candidates.size
    # The hull starts at the least value; of several, at the largest.
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
            continue  # condition (a): the first of its size has the least value
        while n_hull > 1 and _is_above(hull[n_hull - 2], hull[n_hull - 1], c, size, f):
            n_hull -= 1
        hull[n_hull] = c
        n_hull += 1
    chosen = np.empty(n, np.int64)
    n_chosen = 0
    k = start
    for h in range(n_hull):
        c = hull[h]
        if h + 1 < n_hull:  # the largest K that condition (b) allows
            after = hull[h + 1]
            K = (f[after] - f[c]) / (size[after] - size[c])
            if f[c] - K * size[c] > f_min - margin:
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
def _is_above(a: Any, b: Any, c: Any, size: Any, f: Any) -> Any:
    """Tell whether b lies above the line from a to c."""
    return (f[b] - f[a]) * (size[c] - size[a]) > (f[c] - f[a]) * (size[b] - size[a])


@kernel
def undominated(size: Any, f: Any) -> Any:
    """Return the rectangles than which all that are clearly larger have higher values.

    Others have no K > 0, and need not be sorted. Sizes are compared by their leading bits, which
    grow with the number.
    """
    bucket = size.view(np.int64) >> BUCKET_SHIFT
    first, last = bucket.min(), bucket.max()
    least = np.full(last - first + 2, np.inf)
    for j in range(size.size):
        k = bucket[j] - first
        least[k] = min(least[k], f[j])
    for k in range(least.size - 2, -1, -1):
        least[k] = min(least[k], least[k + 1])
    kept = np.empty(size.size, np.int64)
    n = 0
    for j in range(size.size):
        if size[j] > 0.0 and f[j] < least[bucket[j] - first + 1]:
            kept[n] = j
            n += 1
    return kept[:n]
