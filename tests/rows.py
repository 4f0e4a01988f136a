"""Rows on which a wrong conversion shows: on every threshold, next to it, and at the extremes."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import NamedTuple

import lightgbm as lgb
import numpy as np
import xgboost as xgb

from tests.models import Case

ZERO = float(np.float32(1e-35))  # LightGBM's kZeroThreshold
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


class Splits(NamedTuple):
    """Distinct pairs of a feature and a threshold."""

    feature: np.ndarray
    threshold: np.ndarray


def thresholds(case: Case) -> Splits:
    """Return the splits of a model exactly as its library stores them."""
    model = case.model
    if isinstance(model, xgb.XGBModel | xgb.Booster):
        pairs = _of_xgboost(model)
    elif isinstance(model, lgb.LGBMModel | lgb.Booster):
        pairs = _of_lightgbm(model)
    else:
        pairs = _of_sklearn(model)
    return _distinct([f for f, _ in pairs], [t for _, t in pairs])


def _of_sklearn(model) -> list[tuple[np.ndarray, np.ndarray]]:
    members = np.ravel(getattr(model, "estimators_", [model]))
    trees = [m.tree_ for m in members]
    return [(t.feature[t.feature >= 0], t.threshold[t.feature >= 0]) for t in trees]


def _of_xgboost(model) -> list[tuple[np.ndarray, np.ndarray]]:
    booster = model if isinstance(model, xgb.Booster) else model.get_booster()
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    trees = learner["gradient_booster"]["model"]["trees"]
    inner = [np.array(t["left_children"]) >= 0 for t in trees]
    return [
        (np.array(t["split_indices"])[i], np.array(t["split_conditions"], np.float64)[i])
        for t, i in zip(trees, inner, strict=True)
    ]


def _of_lightgbm(model) -> list[tuple[np.ndarray, np.ndarray]]:
    booster = model if isinstance(model, lgb.Booster) else model.booster_
    text = booster.model_to_string()
    features = re.findall(r"^split_feature=(.+)$", text, re.MULTILINE)
    values = re.findall(r"^threshold=(.+)$", text, re.MULTILINE)
    return [
        (np.array(f.split(), int), np.array(v.split(), float))
        for f, v in zip(features, values, strict=True)
    ]


def canonical(case: Case) -> Splits:
    """Return the splits as treeopt stores them."""
    e = case.ensemble
    inner = e.left >= 0
    return _distinct([e.feature[inner]], [e.threshold[inner]])


def _distinct(features: list[np.ndarray], values: list[np.ndarray]) -> Splits:
    pairs = np.column_stack([np.concatenate([[], *features]), np.concatenate([[], *values])])
    pairs = np.unique(pairs, axis=0)
    return Splits(pairs[:, 0].astype(int), pairs[:, 1])


def neighbours(values: np.ndarray) -> np.ndarray:
    """Return each value with both neighbours in float64 and in float32, one row per kind."""
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


def acceptable(case: Case, rows: np.ndarray) -> np.ndarray:
    """Return the rows that the library does not refuse."""
    bad = np.zeros(rows.shape, bool)
    if not case.accepts_nan:
        bad |= np.isnan(rows)
    if not case.accepts_inf:
        with np.errstate(over="ignore"):
            bad |= np.isinf(rows.astype(case.input_dtype))
    return rows[~bad.any(axis=1)]


def reaching(case: Case, splits: Splits) -> tuple[np.ndarray, np.ndarray]:
    """Find, per split, a training row for which the split matters.

    The library itself is asked: its predictions on both sides of the threshold differ.

    Returns
    -------
    rows : array of shape (n_splits, n_features)
        One training row per split.
    found : bool array of shape (n_splits,)
    """
    n = splits.threshold.size
    training = acceptable(case, case.matrix)
    if n == 0:
        return np.empty((0, training.shape[1])), np.zeros(0, bool)
    apart = np.abs(training[:, splits.feature].T / 2 - splits.threshold[:, None] / 2)
    rows = training[np.argsort(apart, axis=1)[:, : max(TRIED // n, 20)]]
    largest = MAX32 if case.input_dtype is np.float32 else MAX64
    below, above = np.clip(neighbours(splits.threshold)[[4, 5]], -largest, largest)
    sides = []
    for value in (below, above):
        moved = rows.copy()
        moved[np.arange(n), :, splits.feature] = value[:, None]
        sides.append(case.own(moved.reshape(-1, training.shape[1])).reshape(n, -1))
    matters = sides[0] != sides[1]
    return rows[np.arange(n), matters.argmax(axis=1)], matters.any(axis=1)


@cache
def hard_rows(case: Case) -> np.ndarray:
    """Return float64 rows that the library accepts and that are hard to predict equally.

    On every threshold, as stored by the library and by treeopt, and on its neighbours in float64
    and float32, in a row for which the split matters; the same rows with the value missing; every
    special value in every feature; missing values everywhere; training rows; random rows.
    """
    rng = np.random.default_rng(0)
    X = case.matrix
    blocks = [X, _random(X, rng, 100), np.full((1, X.shape[1]), np.nan)]
    own, ours = thresholds(case), canonical(case)
    splits = _distinct([own.feature, ours.feature], [own.threshold, ours.threshold])
    rows, _ = reaching(case, splits)
    for values in (*neighbours(splits.threshold), np.full(splits.threshold.size, np.nan)):
        moved = rows.copy()
        moved[np.arange(len(rows)), splits.feature] = values
        blocks.append(moved)
    some = [*np.unique(splits.feature)[:12], *rng.integers(X.shape[1], size=1)]
    for j in some:
        for value in (*SPECIAL, np.nan):
            moved = X[rng.integers(X.shape[0], size=3)]
            moved[:, j] = value
            blocks.append(moved)
    mixed = rng.choice([*SPECIAL, *splits.threshold, np.nan], (200, X.shape[1]))
    return acceptable(case, np.concatenate([*blocks, mixed]))


def hard_values(case: Case, feature: int) -> np.ndarray:
    """Return the values of one feature that are hard, whatever the other features are."""
    own, ours = thresholds(case), canonical(case)
    values = [s.threshold[s.feature == feature] for s in (own, ours)]
    values = np.concatenate([neighbours(np.concatenate(values)).ravel(), SPECIAL, [np.nan]])
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
    with np.errstate(over="ignore"):
        seen = rows.astype(case.input_dtype).astype(np.float64)
    missing = getattr(case.model, "missing", np.nan)
    if isinstance(case.model, xgb.XGBModel) and not np.isnan(missing):
        seen[seen == np.float64(np.float32(missing))] = np.nan
    if case.input_dtype is np.float64:
        # LightGBM drops what is within its zero limit before any tree sees it.
        seen[np.abs(seen) <= ZERO] = 0.0
    return seen
