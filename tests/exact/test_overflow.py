"""Numbers that are huge, tiny or not finite: leaves, sums, and what links make of them.

The rule: leaves are finite; a model whose sums may overflow predicts, but is not decided on; all
else is decided, and no row beats the bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from threadpoolctl import threadpool_limits

import treeopt
from tests.support.decisions import FUZZ, SENSES, better, hard, random_problem, stump, tree_of
from tests.support.files import FILES, bytes_of, case_of
from tests.support.fuzz import load
from tests.support.truth import ensembles, points
from treeopt import Decision, Ensemble, ModelFormatError, Status, UnsupportedModelError
from treeopt.model.link import IDENTITY, Link
from treeopt.problem.responses import MAX_SUM, Response, largest_sum

METHODS = ("auto", "exact", "local", "stepdirect")
WITHOUT_PROOF = {"local", "stepdirect"}

RNG = np.random.default_rng(5)
X = RNG.normal(size=(120, 3))
Y = X[:, 0] + np.abs(X[:, 1]) + 0.3 * RNG.normal(size=120)


def decide(model: Any, sense: str, method: str, bounds: Any = X, **more: Any) -> Decision:
    """Decide; no warning may come of it."""
    limit = {"max_evals": 100} if method in WITHOUT_PROOF else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return SENSES[sense](model, bounds, method=method, **limit, **more)


def check_rows(res: Decision, sense: str, rows: np.ndarray) -> None:
    """Check a decision against predictions of admissible points: none beats the bound."""
    assert res.fun == float(res._inputs.predict(res._point[None, :])[0])
    assert repr(res) and "report" not in res.message
    best = float(rows.min() if sense == "min" else rows.max())
    assert not better(best, res.bound, sense)
    if res.status is Status.OPTIMAL:
        assert res.success and res.gap <= res.rounding
        assert not better(best, res.fun, sense) or abs(best - res.fun) <= res.rounding
    assert res.gap == 0 if res.fun == res.bound else res.gap != 0
    assert ("overflows" in res.message) == bool(np.isinf(res.fun))


# Leaves, base and divisor that are not finite.

BAD = [np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leaf_that_is_not_finite(bad, dtype):
    with pytest.raises(ModelFormatError, match=f"1 of 3 leaf values are not finite.*{bad}.*scaled"):
        tree_of([(0, 0.5, 1.0, bad), 2.0], 1, dtype=dtype)


@pytest.mark.parametrize("bad", BAD)
def test_start_that_is_not_finite(bad):
    with pytest.raises(ModelFormatError, match=r"base is .*not finite.*scaled target"):
        tree_of([1.0], 1, base=bad)


def test_start_that_is_too_large_for_the_sum():
    assert tree_of([1.0], 1, base=1e39).predict([[0.0]]) == 1e39
    with pytest.raises(ModelFormatError, match="base is inf as float32"):
        tree_of([1.0], 1, base=1e39, dtype=np.float32)


@pytest.mark.parametrize("divisor", [*BAD, 0.0, -0.0, -2.0])
def test_divisor(divisor):
    with pytest.raises(ModelFormatError, match=r"the divisor is .* Pass a positive number"):
        tree_of([1.0], 1, divisor=divisor)


@pytest.mark.parametrize("divisor", [1e39, 1e-50])
def test_divisor_of_another_precision(divisor):
    assert tree_of([1.0], 1, divisor=divisor).predict([[0.0]]) == 1.0 / divisor
    with pytest.raises(ModelFormatError, match=r"the divisor is .* as float32"):
        tree_of([1.0], 1, divisor=divisor, dtype=np.float32)


@FUZZ
@given(ensembles(max_leaves=10), st.integers(0, 2**32 - 1), st.sampled_from(BAD))
def test_any_leaf_that_is_not_finite(e, seed, bad):
    """One such leaf is refused, wherever it is; other nodes have no value to speak of."""
    rng = np.random.default_rng(seed)
    value = e.value.copy()
    value[rng.choice(np.flatnonzero(e.left < 0))] = bad
    with pytest.raises(ModelFormatError, match="not finite"):
        replace(e, value=value)
    inner = replace(e, value=np.where(e.left < 0, e.value, e.value.dtype.type(bad)))
    x = rng.normal(size=(5, e.n_features))
    assert inner.predict(x).tobytes() == e.predict(x).tobytes()
    assert largest_sum(Response(inner)) == largest_sum(Response(e)) < np.inf


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e400"])
def test_file_with_a_leaf_that_is_not_finite(text):
    data = bytes_of(".txt", "regressor").decode()
    first = data.index("leaf_value=") + len("leaf_value=")
    end = data.index(" ", first)
    with pytest.raises(ModelFormatError, match="not finite"):
        load((data[:first] + text + data[end:]).encode())


# Sums that may overflow.


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sense", SENSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_limit_of_the_sums(dtype, sense, method):
    """Just below the limit is decided, at the limit refused; both predict."""
    limit = MAX_SUM[np.dtype(dtype)]
    part = float(np.nextafter(dtype(limit / 4), dtype(0)))
    trees = [(0, 0.0, part, -part), (1, 0.0, -part, part), (0, 0.5, part, -part)]
    bounds = [(-1.0, 1.0)] * 2
    good = tree_of([*trees, (1, 0.5, part, 0.0)], 2, dtype=dtype)
    assert largest_sum(Response(good)) < limit
    rows = good.predict(np.array([[a, b] for a in (-1, 0.2, 1) for b in (-1, 0.2, 1)], float))
    check_rows(decide(good, sense, method, bounds), sense, rows)
    bad = replace(good, base=limit / 1000)
    assert np.isfinite(bad.predict(np.zeros((1, 2)))).all()
    with pytest.raises(UnsupportedModelError, match=r"may overflow: its sums in float.*scaled"):
        decide(bad, sense, method, bounds)


def test_largest_sum():
    """Leaves of each tree and base; divided only if that is larger."""
    trees = [(0, 0.0, -3.0, 1.0), (0, 1.0, 4.0, -5.0), -7.0]
    given = {"base": -1100.0}
    assert largest_sum(Response(tree_of(trees, 1, **given))) == 1115.0
    assert largest_sum(Response(tree_of(trees, 1, divisor=3.0, **given))) == 1115.0
    assert largest_sum(Response(tree_of(trees, 1, divisor=0.5, **given))) == 2230.0
    assert largest_sum(Response(tree_of([1e308, 1e308], 1))) == np.inf


def boosted(y: np.ndarray, **more: Any) -> Any:
    return xgb.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1, **more).fit(X, y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sense", SENSES)
def test_xgboost_on_the_largest_targets(sense, method):
    with pytest.raises(ModelFormatError, match="leaf values are not finite"):
        decide(boosted(np.where(X[:, 0] > 0, 3e38, -3e38)), sense, method)
    model = boosted(np.where(X[:, 0] > 0, 3e38, 1e38))
    assert treeopt.from_model(model).predict(X).tobytes() == model.predict(X).tobytes()
    with pytest.raises(UnsupportedModelError, match="XGBRegressor may overflow: its sums"):
        decide(model, sense, method)


LIGHT = {"n_estimators": 8, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}
FITS: dict[str, Callable[..., Any]] = {
    "XGBoost": boosted,
    "LightGBM": lambda y: lgb.LGBMRegressor(**LIGHT).fit(X, y),
    "hist": lambda y: HistGradientBoostingRegressor(max_iter=8, max_depth=3).fit(X, y),
    "boosting": lambda y: GradientBoostingRegressor(n_estimators=8).fit(X, y),
    "forest": lambda y: RandomForestRegressor(8, max_depth=4, random_state=0).fit(X, y),
}

SCALES = {
    **{f"{s:g}": np.full(len(X), s) for s in (1e30, 1e37, 1e300, 1e-30, 1e-40, 1e-300, 1e-310)},
    "mixed": 10.0 ** RNG.integers(-30, 30, len(X)),
    "few huge": np.where(RNG.random(len(X)) < 0.1, 1e36, 1.0),
    "zero": np.zeros(len(X)),
}


@cache
def scaled_model(library: str, scale: str) -> Any:
    """Fit a model; None where the library itself refuses the target."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        try:
            return FITS[library](Y * SCALES[scale])
        except (ValueError, xgb.core.XGBoostError):
            return None


def check_model(model: Any, methods: Any = METHODS) -> None:
    """Predict with a model bit for bit, and decide on it if its sums cannot overflow."""
    e = treeopt.from_model(model)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        rows = model.predict(X)
    assert e.predict(X).tobytes() == rows.tobytes()
    for sense in SENSES:
        for method in methods:
            if largest_sum(Response(e)) < MAX_SUM[e.value.dtype]:
                res = decide(model, sense, method)
                check_rows(res, sense, rows.astype(float))
            else:
                with pytest.raises(UnsupportedModelError, match="may overflow"):
                    decide(model, sense, method)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("library", FITS)
def test_scaled_targets(library, scale):
    model = scaled_model(library, scale)
    if model is not None:
        check_model(model)


LINKED: dict[str, Callable[[float], Any]] = {
    "XGBoost poisson": lambda s: boosted(Y.clip(0), objective="count:poisson", base_score=s),
    "XGBoost gamma": lambda s: boosted(np.abs(Y) * s + s, objective="reg:gamma", learning_rate=1.0),
    "XGBoost tweedie": lambda s: boosted(np.abs(Y) * s, objective="reg:tweedie"),
    "XGBoost logistic": lambda s: boosted(
        (Y > 1) * 1.0, objective="reg:logistic", learning_rate=s, reg_lambda=0
    ),
    "LightGBM poisson": lambda s: lgb.LGBMRegressor(objective="poisson", **LIGHT).fit(
        X, np.abs(Y) * s
    ),
    "LightGBM sqrt": lambda s: lgb.LGBMRegressor(reg_sqrt=True, **LIGHT).fit(X, Y * s),
    "hist poisson": lambda s: HistGradientBoostingRegressor(
        loss="poisson", max_iter=8, max_depth=3
    ).fit(X, np.abs(Y) * s),
}


@pytest.mark.parametrize("scale", [1e-35, 1e-3, 1e3, 1e30, 1e37])
@pytest.mark.parametrize("name", LINKED)
def test_scaled_targets_with_links(name, scale):
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model = LINKED[name](scale)
    check_model(model, ["auto", "stepdirect"])


def test_xgboost_poisson_that_starts_from_nothing():
    """The logarithm of a base score of 0 is the start of the sum."""
    model = boosted(np.zeros(len(X)), objective="count:poisson", base_score=0.0)
    with pytest.raises(ModelFormatError, match=r"base is -inf.*base_score.* positive"):
        treeopt.from_model(model)


@pytest.mark.parametrize("seed", range(15))
def test_targets_of_random_size(seed):
    rng = np.random.default_rng(seed)
    y = Y * 10.0 ** rng.uniform(-45, 38.4)
    if rng.random() < 0.5:
        y = y * 10.0 ** rng.uniform(-40, 0, len(y))
    library = rng.choice(list(FITS))
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        try:
            model = FITS[library](y.clip(-3.4e38, 3.4e38))
        except (ValueError, xgb.core.XGBoostError):
            return
    check_model(model, [rng.choice(METHODS)])


# Links that overflow or saturate, and sums of all sizes: against brute force.

LINKS = [
    IDENTITY,
    Link("exp"),
    Link("exp", by_numpy=True),
    Link("square"),
    Link("softplus"),
    Link("logistic"),
    Link("logistic", 30.0, complement=True),
    Link("logistic", complement=True),
]


def sized(e: Ensemble, rng: np.random.Generator) -> Ensemble:
    """Return an ensemble with values of other sizes: all alike, of any, in part zero."""
    dtype = e.value.dtype
    info = np.finfo(dtype)
    low, high = np.log10(info.smallest_subnormal), np.log10(info.max)
    kind = rng.choice(["one size", "any size", "zeros", "links", "limit"])
    power = np.full(e.value.size, rng.uniform(low, high - 1))
    if kind == "any size":
        power = rng.uniform(low, high - 2, e.value.size)
    if kind == "links":
        power = np.full(e.value.size, rng.uniform(-2, 4))
    if kind == "limit":
        power = np.full(e.value.size, np.log10(MAX_SUM[dtype]) - rng.uniform(-0.5, 3))
    with np.errstate(all="ignore"):
        value = e.value.astype(np.float64) * 10.0**power
        value = np.where(rng.random(value.size) < rng.choice([0.0, 0.5]), 0.0, value)
        value = np.zeros(value.size) if kind == "zeros" else value
        value = np.clip(value, -float(info.max), float(info.max)).astype(dtype)
        base = float(dtype.type(rng.choice([0.0, e.base, 10.0 ** rng.uniform(low, high - 2)])))
    return replace(e, value=value, base=base, link=LINKS[rng.integers(len(LINKS))])


@FUZZ
@given(
    ensembles(max_leaves=8),
    st.integers(0, 2**32 - 1),
    st.sampled_from(list(SENSES)),
    st.sampled_from(METHODS),
)
def test_sums_of_any_size(e, seed, sense, method):
    rng = np.random.default_rng(seed)
    problem = random_problem(sized(e, rng), rng)
    e = problem.ensemble
    if not largest_sum(Response(e)) < MAX_SUM[e.value.dtype]:
        e.predict(rng.normal(size=(3, e.n_features)))
        with pytest.raises(UnsupportedModelError, match="may overflow"):
            problem.decide(sense, method=method)
        return
    limit = {"max_evals": 50} if method in WITHOUT_PROOF else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            res = problem.decide(sense, method=method, **limit)
    except treeopt.InputError as error:
        assert "infinite" in str(error) and method == "stepdirect"
        return
    if res.status is not Status.INFEASIBLE:
        check_rows(res, sense, problem.predictions())


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("dtype", "power"), [("f4", -100), ("f4", 110), ("f8", -900), ("f8", 940)])
@pytest.mark.parametrize("sense", SENSES)
def test_scaled_by_a_power_of_two(sense, dtype, power, n_jobs):
    """A proof of some hundred nodes: nothing but the scale changes, and no bound is lost."""
    e, data, _ = hard(sense)
    e = replace(e, value=e.value.astype(dtype))
    larger = replace(e, value=e.value * e.value.dtype.type(2.0**power), base=e.base * 2.0**power)
    before, after = (decide(m, sense, "auto", data, rng=0, n_jobs=n_jobs) for m in (e, larger))
    check_rows(after, sense, larger.predict(data))
    assert after.status is Status.OPTIMAL
    assert abs(after.fun - before.fun * 2.0**power) <= after.rounding
    if n_jobs == 1:
        assert after.fun == before.fun * 2.0**power
        assert after.rounding == before.rounding * 2.0**power


@pytest.mark.parametrize("power", [-1040, -1060, -1074])
@pytest.mark.parametrize("sense", SENSES)
def test_scaled_until_digits_are_lost(sense, power):
    """Leaves below the smallest normal number keep few digits, but the bound stays true."""
    e, data, _ = hard(sense)
    tiny = replace(e, value=np.ldexp(e.value.astype(float), power), base=np.ldexp(e.base, power))
    res = decide(tiny, sense, "auto", data, time_limit=5)
    check_rows(res, sense, tiny.predict(data))


OVERFLOWS = [
    (Link("exp"), 1000.0, np.inf),
    (Link("exp", by_numpy=True), 1000.0, np.inf),
    (Link("softplus"), 1000.0, np.inf),
    (Link("square"), 1e200, np.inf),
    (Link("exp"), -1000.0, 0.0),
    (Link("logistic"), 1000.0, 1.0),
    (Link("logistic"), -1000.0, 0.0),
    (Link("logistic", complement=True), 1000.0, 0.0),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sense", SENSES)
@pytest.mark.parametrize(("link", "value", "expected"), OVERFLOWS)
def test_links_at_their_ends(link, value, expected, sense, method):
    """All predictions are beyond the link's range, or only the best ones are."""
    for other in (0.9 * value, 0.0, -value):
        e = replace(stump(0, 0.5, value, other), link=link)
        rows = e.predict(np.array([[0.0], [1.0]]))
        assert rows[0] == expected
        res = decide(e, sense, method, [(0.0, 1.0)])
        check_rows(res, sense, rows)
        if method not in WITHOUT_PROOF:
            assert res.status is Status.OPTIMAL
        if np.isinf(res.fun) and method not in WITHOUT_PROOF:
            assert (res.gap, res.rounding) == (0.0, 0.0) or not np.isfinite(res.rounding)
            assert f"prediction is {res.fun}, because {link.name} of" in res.message


@pytest.mark.parametrize("method", ["auto", "exact"])
@pytest.mark.parametrize("value", [5e-324, 1e-320, 2.3e-308, 1e-300])
def test_tiny_leaves(value, method):
    e = tree_of([(0, 0.5, value, 2 * value), (1, 0.5, 3 * value, value), 0.0], 2)
    corners = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)])
    for sense, best in (("min", 2 * value), ("max", 5 * value)):
        res = decide(e, sense, method, [(0.0, 1.0)] * 2)
        check_rows(res, sense, e.predict(corners))
        assert res.fun == pytest.approx(best, rel=1e-15, abs=0)


@pytest.mark.parametrize("method", METHODS)
def test_leaves_of_zero(method):
    for zero in (0.0, -0.0):
        e = tree_of([(0, 0.5, zero, zero), zero], 1)
        for sense in SENSES:
            res = decide(e, sense, method, [(0.0, 1.0)])
            check_rows(res, sense, np.zeros(1))
            assert res.fun == 0.0


# What the message says about a value that is no more than rounding.


def test_value_smaller_than_the_rounding():
    """Large terms cancel: what is left is rounding, and the message says so."""
    rng = np.random.default_rng(0)
    large = (1e16 * rng.normal(size=30)).tolist()
    trees = [(k % 3, 0.1 * k - 1.0, v, v + 1.0) for k, v in enumerate([*large, -sum(large)])]
    said = []
    for sense in SENSES:
        for shift in np.linspace(-40, 40, 9):
            res = decide(tree_of([*trees, float(shift)], 3), sense, "auto", [(-1.0, 1.0)] * 3)
            small = res.rounding > abs(res.fun) and (res.gap > 0 or res.fun != 0)
            said.append(f"up to {res.rounding:.3g}, is larger than the value" in res.message)
            assert res.status is Status.OPTIMAL and said[-1] == small
    assert any(said)


def test_value_that_is_proven_to_the_last_bit():
    res = decide(stump(0, 0.5, 0.0, 1.0), "min", "auto", [(0.0, 1.0)])
    assert (res.gap, res.message) == (0.0, "the optimum is proven")


# NumPy's errors for floating-point arithmetic may be on.


@pytest.fixture
def strict():
    """Let every floating-point error of NumPy raise."""
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def quietly(function: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Call a library's own function, which may not be up to it."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **more)


@pytest.mark.parametrize(("suffix", "name"), FILES)
def test_errors_of_numpy_on_files(suffix, name, strict):
    case = quietly(case_of, suffix, name)
    data = quietly(bytes_of, suffix, name)
    options = {"output": case.output, "class_index": case.class_index}
    predicted = load(data, **options).predict(case.data)
    assert predicted.tobytes() == quietly(load, data, **options).predict(case.data).tobytes()


@pytest.mark.parametrize("scale", ["1e+37", "1e-40", "1e-310", "mixed"])
@pytest.mark.parametrize("library", FITS)
def test_errors_of_numpy_on_models(library, scale, strict):
    model = quietly(scaled_model, library, scale)
    e = treeopt.from_model(model)
    assert e.predict(X).tobytes() == quietly(model.predict, X).tobytes()
    huge = np.where(np.arange(3) == 1, 1e300, X)
    if library not in ("boosting", "forest"):
        assert e.predict(huge).tobytes() == quietly(model.predict, huge).tobytes()
    assert treeopt.check_conversion(model, X).different == 0
    for sense in SENSES:
        for method in METHODS:
            res = decide(model, sense, method, rng=0)
            assert res.fun == quietly(decide, model, sense, method, rng=0).fun


@FUZZ
@given(ensembles(max_leaves=8), st.integers(0, 2**32 - 1), st.sampled_from(list(SENSES)))
def test_errors_of_numpy_on_any_ensemble(e, seed, sense):
    rng = np.random.default_rng(seed)
    problem = random_problem(sized(e, rng), rng)
    if largest_sum(Response(problem.ensemble)) < MAX_SUM[e.value.dtype]:
        expected = problem.decide(sense, rng=0)
        X = rng.normal(size=(4, e.n_features)) * 10.0 ** rng.uniform(-320, 307, e.n_features)
        fresh = replace(problem.ensemble)
        with np.errstate(all="raise"):
            predicted = fresh.predict(X)
            problem.ensemble = replace(problem.ensemble)
            found = problem.decide(sense, rng=0)
        assert predicted.tobytes() == expected._inputs.predict(X).tobytes()
        assert repr((found.fun, found.bound)) == repr((expected.fun, expected.bound))


@FUZZ
@given(ensembles(max_leaves=8), st.integers(0, 2**32 - 1))
def test_errors_of_numpy_on_other_ways_to_evaluate(e, seed):
    rng = np.random.default_rng(seed)
    e = sized(e, rng)
    x = points(e, rng, 4)
    with np.errstate(all="raise"):
        walker = e.walker(x[0])
        moved = [walker.move(0, v) for v in x[:, 0]]
        line = e.line(x[0], 0)
        if not e.zero_missing.any():
            e.leaf_boxes().containing(x[0])
    assert len(moved) == 4 and line.value.size


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("setting", ["raise", "warn", "ignore"])
def test_callbacks_see_the_setting_of_the_caller(method, setting):
    seen = []
    model = scaled_model("XGBoost", "mixed")
    with np.errstate(all=setting):
        expected = np.geterr()
        decide(model, "min", method, callback=lambda now: seen.append(np.geterr()))
        assert np.geterr() == expected
    assert seen and all(found == expected for found in seen)
