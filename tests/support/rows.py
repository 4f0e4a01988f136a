"""Rows on which a wrong conversion shows: on every threshold and category, and at the extremes."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from tests.support.libraries import ZERO, Splits, distinct
from tests.support.models import Case

MAX32 = float(np.finfo(np.float32).max)
MAX64 = float(np.finfo(np.float64).max)
ABOVE_MAX32 = MAX32 + 2.0**103  # the smallest float64 that becomes inf in float32

_POSITIVE = [
    0.0,
    *(np.nextafter(ZERO, 0.0), ZERO, np.nextafter(ZERO, 1.0)),
    *(float(np.nextafter(np.float32(ZERO), np.float32(s))) for s in (0, 1)),
    *(5e-36, 1e-38, float(np.finfo(np.float32).smallest_subnormal), 7e-46, 5e-324),
    *(float(np.finfo(np.float32).tiny), float(np.finfo(np.float64).tiny)),
    *(MAX32, np.nextafter(ABOVE_MAX32, 0.0), ABOVE_MAX32, MAX64, np.inf),
]
SPECIAL = np.array([*_POSITIVE, *(-v for v in _POSITIVE)])
"""Values that any cast, zero limit or overflow may trip over."""

TRIED = 16_000
"""How many training rows are tried, over all splits of a model, to make each split matter."""

NO_CATEGORY = [
    *(-1e300, -(2.0**31), -2.0, -1.5, -1.0, np.nextafter(-1.0, 0.0), -0.5, -0.0, 0.3),
    *(2.0**24 - 1, 2.0**24, 2.0**24 + 2, 2.0**31 - 1, 2.0**31, 2.0**32, 2.0**32 + 1, 2.0**53),
    *(2.0**63, 2.0**64, 1e300, np.inf, -np.inf),
]
"""Numbers that are no category, or only just one, or one after a cast that overflows."""


class Probes(NamedTuple):
    """What to try in one feature each: a value, and two sides on which the model may differ."""

    feature: np.ndarray
    value: np.ndarray
    below: np.ndarray
    above: np.ndarray


def thresholds(case: Case) -> Splits:
    """Return the thresholds of a model exactly as its library stores them."""
    return case.library.thresholds(case.model)


def categories(case: Case, feature: int) -> np.ndarray:
    """Return the categories of a feature: those in the library's sets and those in the data."""
    split = case.library.categories(case.model)
    if feature not in split.feature:
        return np.empty(0)
    data = case.matrix[:, feature]
    return np.unique([*split.value[split.feature == feature], *data[~np.isnan(data)]])


def categorical(case: Case) -> np.ndarray:
    """Return the features that the library splits by categories."""
    return np.unique(case.library.categories(case.model).feature)


def canonical(case: Case) -> Splits:
    """Return the thresholds as treeopt stores them."""
    splits = []
    for e in case.sums:
        inner = (e.left >= 0) & (e.category_set < 0)
        splits.append((e.feature[inner], e.threshold[inner]))
    return distinct(splits)


def neighbors(values: np.ndarray) -> np.ndarray:
    """Return each value with both neighbors in float64 and in float32, one row per kind."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
        below, above = (np.nextafter(single, np.float32(s * np.inf)) for s in (-1, 1))
    return np.stack(
        [
            values,
            np.nextafter(values, -np.inf),
            np.nextafter(values, np.inf),
            single.astype(np.float64),
            below.astype(np.float64),
            above.astype(np.float64),
        ]
    )


def around_categories(known: np.ndarray) -> np.ndarray:
    """Return categories, what is next to and between them, and what is far from them."""
    inside = [known, known + 0.5, -known, known + 1, known - 1]
    edges = neighbors(np.concatenate([known, known + 1])).ravel()
    return np.concatenate([*inside, edges, NO_CATEGORY])


def acceptable(case: Case, rows: np.ndarray) -> np.ndarray:
    """Return the rows that the library does not refuse."""
    with np.errstate(over="ignore"):
        bad = np.isinf(rows.astype(case.input_dtype)) & case.refuses_inf
    bad |= np.isnan(rows) & case.refuses_nan
    return rows[~bad.any(axis=1)]


def _probes(case: Case, splits: Splits) -> Probes:
    """Return both sides of every threshold, and every category with its neighbor."""
    largest = MAX32 if case.input_dtype is np.float32 else MAX64
    below, above = np.clip(neighbors(splits.value)[[4, 5]], -largest, largest)
    parts = [Probes(*splits, below, above)]
    for j in categorical(case):
        known = categories(case, int(j))
        parts.append(Probes(np.full(known.size, j), known, known, np.roll(known, 1)))
    return Probes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def reaching(case: Case, probes: Probes) -> tuple[np.ndarray, np.ndarray]:
    """Find, per probe, a training row for which it matters.

    The library itself is asked: its predictions on both sides differ.

    Returns
    -------
    rows : array of shape (n_probes, n_features)
        One training row per probe.
    found : bool array of shape (n_probes,)
    """
    n = probes.value.size
    training = acceptable(case, case.matrix)
    if n == 0:
        return np.empty((0, training.shape[1])), np.zeros(0, bool)
    apart = np.abs(training[:, probes.feature].T / 2 - probes.value[:, None] / 2)
    rows = training[np.argsort(apart, axis=1)[:, : max(TRIED // n, 20)]]
    sides = []
    for value in (probes.below, probes.above):
        moved = rows.copy()
        moved[np.arange(n), :, probes.feature] = value[:, None]
        sides.append(case.own(moved.reshape(-1, training.shape[1])).reshape(n, -1))
    matters = sides[0] != sides[1]
    return rows[np.arange(n), matters.argmax(axis=1)], matters.any(axis=1)


def found_share(case: Case) -> tuple[float, float]:
    """Return for which share of the thresholds, and of the data's categories, some row matters."""
    probes = _probes(case, thresholds(case))
    _, found = reaching(case, probes)
    by_set = np.isin(probes.feature, categorical(case))
    seen = np.array([v in case.matrix[:, j] for j, v in zip(*probes[:2], strict=True)], bool)
    shares = (found[part].mean() if part.any() else 1.0 for part in (~by_set, by_set & seen))
    return tuple(shares)


@cache
def hard_rows(case: Case) -> np.ndarray:
    """Return float64 rows that the library accepts and that are hard to predict equally.

    On every threshold, as stored by the library and by treeopt, and on its neighbors in float64
    and float32, in a row for which the split matters; the same rows with the value missing; every
    category, with fractions, neighbors and what is none, likewise; every special value in every
    feature; missing values everywhere; training rows; random rows.
    """
    rng = np.random.default_rng(0)
    X = case.matrix
    blocks = [X, _random(X, rng, 100), np.full((1, X.shape[1]), np.nan)]
    splits = distinct([thresholds(case), canonical(case)])
    probes = _probes(case, splits)
    rows, _ = reaching(case, probes)
    for values in (*neighbors(probes.value), np.full(len(rows), np.nan), probes.value + 0.5):
        moved = rows.copy()
        moved[np.arange(len(rows)), probes.feature] = values
        blocks.append(moved)
    for j in categorical(case):
        values = around_categories(categories(case, int(j)))
        moved = rows[rng.choice(np.flatnonzero(probes.feature == j), values.size)]
        moved[:, j] = values
        blocks.append(moved)
    some = [*np.unique(probes.feature)[:12], *rng.integers(X.shape[1], size=1)]
    for j in some:
        for value in (*SPECIAL, np.nan):
            moved = X[rng.integers(X.shape[0], size=3)]
            moved[:, j] = value
            blocks.append(moved)
    mixed = rng.choice([*SPECIAL, *NO_CATEGORY, *probes.value, np.nan], (200, X.shape[1]))
    return acceptable(case, np.concatenate([*blocks, mixed]))


def hard_values(case: Case, feature: int) -> np.ndarray:
    """Return the values of one feature that are hard, whatever the other features are."""
    cuts = [s.value[s.feature == feature] for s in (thresholds(case), canonical(case))]
    known = categories(case, feature)
    values = [neighbors(np.concatenate(cuts)).ravel(), SPECIAL, [np.nan]]
    values = np.concatenate([*values, around_categories(known) if known.size else []])
    X = np.repeat(acceptable(case, case.matrix)[:1], values.size, axis=0)
    X[:, feature] = values
    return acceptable(case, X)[:, feature]


def _random(X: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw rows from the box of the data, a little enlarged."""
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    at = rng.uniform(-0.1, 1.1, (n, X.shape[1]))
    return low * (1 - at) + high * at


def cast(case: Case, rows: np.ndarray) -> np.ndarray:
    """Return rows as the library sees them, NaN where a value counts as missing everywhere."""
    return case.library.cast(case.model, rows)
