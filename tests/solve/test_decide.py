"""Proven optima against brute force over everything that a space admits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeopt
from tests.support.cases import TABLES, fitted
from tests.support.decisions import (
    FUZZ,
    SENSES,
    Problem,
    admitted,
    change_settings,
    check,
    check_admitted,
    is_finite,
    is_plain,
    random_problem,
    scale_of,
    slow,
    stump,
    sums_of,
    thinned,
    thresholds_of,
    tree_of,
)
from tests.support.handmade import (
    flipped_sklearn,
    flipped_xgboost,
    random_lightgbm,
    sklearn_split,
    xgboost_split,
)
from tests.support.models import Case
from tests.support.rows import MAX32
from tests.support.truth import ensembles
from treeopt import Status
from treeopt.exact.dual_search import DualSearch
from treeopt.model.categories import truncated

seeds = st.integers(0, 2**32 - 1)

PACES = {
    "as it is": {},
    "in small steps": {"first_work": 1, "max_work": 400, "plunge_nodes": 3},
    "by prices alone": {"dual_after": 2**62},
    "with fewer cells": {"min_boxes_per_leaf": -1},
    "in a race": {"first_work": 1, "max_work": 400, "dual_after": -1, "race_work": 20_000},
}
"""How the proof is hurried or held up: small problems would not get far into it."""


@pytest.fixture(params=PACES)
def pace(request, monkeypatch) -> str:
    change_settings(monkeypatch, **PACES[request.param])
    if request.param == "by prices alone":
        monkeypatch.setattr("treeopt.exact.solver.TreeSearch", DualSearch)
    return request.param


def solve(problem: Problem, found: Counter, model=None, predict=None, ulps=0, **how) -> None:
    """Minimize and maximize, and compare with brute force; ``found`` counts."""
    feasible = all(v.size for v in problem.values)
    every = problem.predictions() if feasible else None
    for sense in SENSES:
        res = problem.decide(sense, model, rng=0, **how)
        found[res.status] += 1
        if not feasible:
            assert res.status is Status.INFEASIBLE
            check(res, sense)
            continue
        best = float(every.min() if sense == "min" else every.max())
        assert res.status is Status.OPTIMAL
        check(res, sense, best, predict, ulps)
        check_admitted(res, problem.options)
        # A proof by prices counts in steps of 2**-46 of the largest sum, one for each tree.
        small = 4e-12 if sums_of(problem.ensemble)[0].value.dtype == np.float64 else 1e-5
        if is_plain(problem.ensemble):
            assert res.rounding <= small * scale_of(problem.ensemble)
        found["same bits"] += float(problem.ensemble.predict(res._point[None, :])[0]) == best


def mostly_to_the_bit(found: Counter) -> None:
    assert found["same bits"] >= 0.98 * found[Status.OPTIMAL] > 0


def random_ensembles(e, seed, found, how) -> None:
    """Other values that mean missing, and trees that come twice, on top of what is drawn."""
    rng = np.random.default_rng(seed)
    cuts = e.threshold[np.isfinite(e.threshold)]
    if not np.isnan(e.missing_value) and cuts.size:
        e = replace(e, missing_value=float(rng.choice([1.0, 0.0, 0.5, -1.5, *cuts])))
    solve(random_problem(e, rng), found, **how)


def test_random_ensembles(pace):
    found: Counter = Counter()
    how = {"method": "exact"} if pace != "as it is" else {}

    @given(ensembles(12), seeds)
    @settings(FUZZ, max_examples=120)
    def run(e, seed):
        for k in range(3):
            random_ensembles(e, [seed, k], found, how)

    run()
    mostly_to_the_bit(found)


@slow
def test_many_random_ensembles(pace):
    found: Counter = Counter()

    @given(ensembles(40), seeds, st.sampled_from(["auto", "exact"]), st.sampled_from([1, 1, 2]))
    @settings(FUZZ, max_examples=3000)
    def run(e, seed, method, n_jobs):
        for k in range(4):
            random_ensembles(e, [seed, k], found, {"method": method, "n_jobs": n_jobs})

    run()
    mostly_to_the_bit(found)
    assert found[Status.OPTIMAL] > 10_000


# Models of every class.


def narrowed_to_two(case: Case, rng: np.random.Generator, found: Counter) -> None:
    """The model itself is asked, over a space that brute force can look at."""
    e = case.ensemble
    problem = random_problem(e, rng, thresholds_of(case))
    ask = {"output": case.output, "class_index": case.class_index}
    solve(problem, found, case.model, case.own, 0 if is_plain(e) else 2, **ask)


@pytest.mark.parametrize("library", TABLES)
def test_fitted_models(library):
    found: Counter = Counter()
    for k, name in enumerate(thinned(TABLES[library], 4)):
        narrowed_to_two(fitted(library, name), np.random.default_rng(k), found)
    mostly_to_the_bit(found)


@slow
@pytest.mark.parametrize("library", TABLES)
def test_all_fitted_models(library):
    found: Counter = Counter()
    for k, name in enumerate(TABLES[library]):
        for seed in range(6):
            narrowed_to_two(fitted(library, name), np.random.default_rng([k, seed]), found)
    mostly_to_the_bit(found)


@pytest.mark.parametrize("make", [random_lightgbm, flipped_xgboost, flipped_sklearn])
def test_models_with_every_way_to_treat_missing_values(make):
    found: Counter = Counter()
    for seed in range(8):
        for k in range(3):
            narrowed_to_two(make(seed), np.random.default_rng([seed, k]), found)
    mostly_to_the_bit(found)


# Special cases, each by itself.


def whole_space(e, low, high, integer=()) -> Problem:
    bounds = dict.fromkeys(range(e.n_features), (low, high))
    values = [admitted(e, j, low, high, j in integer) for j in range(e.n_features)]
    return Problem(e, {"bounds": bounds, "integer": list(integer)}, values)


def test_a_single_leaf():
    e = tree_of([2.5], n_features=2)
    for sense in SENSES:
        res = SENSES[sense](e, [(0, 1), (-np.inf, np.inf)])
        check(res, sense, 2.5)
        assert (res.fun, res.bound, res.status) == (2.5, 2.5, Status.OPTIMAL)
        assert res.region.lower[0] == 0 and res.region.lower[1] <= -1e300
        assert np.isfinite(res.x).all()


def test_constant_models_and_duplicated_trees():
    found: Counter = Counter()
    tree = stump(0, 0.3, 1.0, 2.0)
    for e in (stump(0, 0.3, 1.5, 1.5), tree_of([(0, 0.3, 1.0, 2.0)] * 7, n_features=1), tree):
        solve(whole_space(e, -1.0, 1.0), found)
    assert found["same bits"] == 6


def test_sums_that_cancel_are_judged_as_the_model_adds_them(pace):
    """The float sum is not monotone in the true one."""
    found: Counter = Counter()
    rng = np.random.default_rng(0)
    for _ in range(30):
        leaves = rng.choice([0.1, 0.2, 0.3, -0.1, -0.2, -0.3, 1e8, -1e8], (6, 2))
        splits = [(int(rng.integers(2)), float(rng.integers(3)), *pair) for pair in leaves]
        for dtype in (np.float32, np.float64):
            e = tree_of(splits, n_features=2, dtype=dtype)
            problem = whole_space(e, -1.0, 4.0)
            every = problem.predictions()
            for sense in SENSES:
                res = problem.decide(sense, rng=0)
                check(res, sense, float(every.min() if sense == "min" else every.max()))
                found["same"] += res.fun in (every.min(), every.max())
    assert found["same"] >= 0.9 * 120


def test_sets_that_meet_in_pairs_but_not_together():
    """Each two of {1, 2}, {2, 3}, {1, 3} have a category in common, all three have none."""
    sets = [[1, 2], [2, 3], [1, 3]]
    e = tree_of([(0, s, 0.0, 1.0) for s in sets], 1, categories={0: truncated(range(5), F64)})
    res = treeopt.minimize(e, {})
    check(res, best=1.0)
    assert res.fun == res.bound == 1.0 and res.x[0] in (1.0, 2.0, 3.0)
    assert treeopt.maximize(e, {}).region.categories == {0: (0.0, 4.0)}
    both = treeopt.minimize(e, {}, categories={0: [0, 4]})
    assert (both.fun, both.region.categories) == (3.0, {0: (0.0, 4.0)})


F64, F32 = np.dtype(np.float64), np.dtype(np.float32)


def test_many_sets_of_three_features_against_brute_force():
    found: Counter = Counter()
    rng = np.random.default_rng(1)
    known = dict.fromkeys(range(3), truncated(range(6), F64))
    for _ in range(30):
        splits = [
            (int(rng.integers(3)), rng.choice(6, 3, replace=False).tolist(), *rng.normal(size=2))
            for _ in range(12)
        ]
        solve(whole_space(tree_of(splits, 3, categories=known), 0, 5), found)
    assert found["same bits"] == 60


# No optimum that is not there.


def test_thresholds_that_collapse_in_float32():
    """Between 1 and 1 + 2**-40 lies no float32, though many float64."""
    above = 1 + 2.0**-40
    low, high = sklearn_split(1.0, True).model, sklearn_split(above, True).model
    e = treeopt.from_model(low)
    assert e.threshold[0] == treeopt.from_model(high).threshold[0] == 1.0
    # Right of the first and left of the second would be worth -1.
    pair = tree_of([(0, 1.0, 0.0, -1.0), (0, 1.0, 0.0, 1.0)], 1, input_dtype=F32)
    for ends in ((0, 2), (1, above), (above, above)):
        res = treeopt.minimize(pair, [ends])
        check(res, best=0.0)
        assert res.fun == 0.0 == res.bound


def test_whole_numbers_between_whose_cuts_none_lies():
    e = tree_of([(0, 0.2, 1.0, 0.0), (0, 0.8, 0.0, 1.0)], 1)
    assert treeopt.minimize(e, [(-3, 3)]).fun == 0.0
    res = treeopt.minimize(e, [(-3, 3)], integer=[0])
    check(res, best=1.0)
    assert res.fun == res.bound == 1.0 and res.x[0] % 1 == 0


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("integer", [False, True], ids=["real", "integer"])
def test_bounds_on_and_next_to_a_cut(dtype, integer):
    found: Counter = Counter()
    for cut in (0.1, 1.0, 3.0, -0.1, 1e-40, 2.0**24 + 1, 0.0):
        cut = float(dtype.type(cut))
        e = tree_of([(0, cut, 0.0, 1.0)], 1, input_dtype=dtype)
        half = cut / 2 + float(np.nextafter(dtype.type(cut), dtype.type(np.inf))) / 2
        edges = np.unique([cut, half, np.nextafter(half, 9e9), np.nextafter(half, -9e9), cut - 2])
        edges = np.unique([*edges, np.nextafter(cut, -np.inf), np.nextafter(cut, np.inf), cut + 2])
        for i, low in enumerate(edges):
            for high in edges[i:]:
                solve(whole_space(e, low, high, (0,) if integer else ()), found)
    assert found["same bits"] == found[Status.OPTIMAL] > 0
    assert bool(found[Status.INFEASIBLE]) == integer


@pytest.mark.parametrize("end", [0.1, 0.7, 1 / 3, 5.3])
@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_that_the_cast_would_move_outside(end, sign):
    """A float32 forest sees float32(end), which may be outside; the point must not be."""
    end *= sign
    single = float(np.float32(end))
    for cut in (single, float(np.nextafter(np.float32(end), np.float32(-9)))):
        e = tree_of([(0, cut, 0.0, 1.0), (1, cut, 1.0, 0.0)], 2, input_dtype=F32)
        for ends in ((end - 1, end), (end, end + 1), (end, end)):
            solve(whole_space(e, *ends), found := Counter())
            assert found["same bits"] == 2


@pytest.mark.parametrize("threshold", [MAX32, -MAX32, 1e38, 0.5])
@pytest.mark.parametrize("split", [xgboost_split, sklearn_split])
@pytest.mark.parametrize("end", [np.inf, 1e300, MAX32])
def test_points_are_finite_in_the_precision_of_the_model(split, threshold, end):
    """What float32 cannot hold, scikit-learn and XGBoost's own matrices refuse."""
    case = split(threshold, True)
    e = case.ensemble
    for low, high in ((-end, end), (0.0, end), (-end, 0.0)):
        every = e.predict(admitted(e, 0, low, high)[:, None])
        for sense in SENSES:
            res = SENSES[sense](case.model, [(low, high)])
            best = float(every.min() if sense == "min" else every.max())
            assert is_finite(e, res._point).all() and low <= res._point[0] <= high
            check(res, sense, best, case.own)
            assert res.fun == best


@pytest.mark.parametrize("bounds", [(1e39, 1e300), (np.inf, np.inf), (-np.inf, -np.inf)], ids=str)
def test_bounds_without_a_finite_number_admit_nothing(bounds):
    """Either they are refused by name, or nothing is feasible; the library never complains."""
    model = sklearn_split(0.5, True).model
    try:
        res = treeopt.minimize(model, [bounds])
    except treeopt.InputError as error:
        assert "bound" in str(error)
    else:
        assert res.status is Status.INFEASIBLE


# A number that means missing.


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("missing", [0.0, 0.5, 0.7, 1.0, -3.0])
def test_a_number_that_means_missing(dtype, missing):
    """It is admissible itself, and its neighbors are not like it."""
    missing = float(dtype.type(missing))
    found: Counter = Counter()
    for cuts in ((0.05, 1.2), (0.5, 0.7), (-4.0, 4.0), (missing, 2.0)):
        for left in (True, False):
            splits = [(0, float(dtype.type(c)), v, 0.3) for c, v in zip(cuts, (1, -1), strict=True)]
            e = tree_of(splits, 1, input_dtype=dtype, missing_value=missing, default_left=left)
            for integer in ((), (0,)):
                for ends in ((0, 3), (0.1, 3), (-1, 1), (0.9, 1.1), (-5, 5), (missing, missing)):
                    solve(whole_space(e, *ends, integer), found)
    assert found["same bits"] == found[Status.OPTIMAL] > 50


@pytest.mark.parametrize("values", [[-9, 0.1], [-0.1, 9], [-1, 0, 1], [0, 5], [-5, 5]], ids=str)
def test_listed_values_on_both_sides_of_the_number_that_means_missing(values):
    e = tree_of([(0, -7.0, 1.0, 0.0), (0, 7.0, 0.0, 1.0)], 1, missing_value=0.0)
    for sense in SENSES:
        res = SENSES[sense](e, {}, categories={0: values})
        every = e.predict(np.array(values, float)[:, None])
        check(res, sense, every.min() if sense == "min" else every.max())
        assert res.x[0] in values


@pytest.mark.parametrize("missing", [0.0, 0.1, -2.5])
def test_bounds_that_the_cast_moves_onto_the_number_that_means_missing(missing):
    """The end is not that number, but to the model it is."""
    missing = float(np.float32(missing))
    found: Counter = Counter()
    e = tree_of([(0, -5.0, 1.0, 2.0)], 1, input_dtype=F32, missing_value=missing, default_left=True)
    for end in (np.nextafter(missing, -np.inf), np.nextafter(missing, np.inf)):
        for ends in ((missing - 1, end), (end, missing + 1), (end, end)):
            solve(whole_space(e, *ends), found)
    assert found["same bits"] == 12
