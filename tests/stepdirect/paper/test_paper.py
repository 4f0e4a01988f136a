"""StepDIRECT's kernels against the paper: every rule read literally, in plain Python."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treeopt import StepDirectSettings, stepdirect
from treeopt.stepdirect.driver import Driver
from treeopt.stepdirect.paper import rules as r
from treeopt.stepdirect.paper import state as s
from treeopt.stepdirect.paper.algorithm import EXHAUSTED, ITERATION_OVER, advance, record
from treeopt.stepdirect.paper.local_search import draw_directions
from treeopt.stepdirect.paper.partition import rectangle_of
from treeopt.stepdirect.paper.selection import potentially_optimal, select

paper, direct = StepDirectSettings.paper, StepDirectSettings.direct
PRESETS = {
    "default": StepDirectSettings(),
    "default with σ": StepDirectSettings(neighbourhood=2.0, refine=0.5, batch=3),
    "paper": paper(),
    "StepDIRECT-0": paper(local_search=None),
    "sphere": paper(local_search="sphere"),
    "box": paper(search_region="box"),
    "direct": direct(),
}
WITHOUT_SEARCH = ("StepDIRECT-0", "direct")
seeds = st.integers(0, 2**32 - 1)
presets = st.sampled_from(sorted(PRESETS))
every_preset = pytest.mark.parametrize("name", PRESETS)

# Driving the kernels.


def stepwise(seed: int, p: int, failures: float = 0.0) -> Callable:
    """Return a random function with steps: few values, so that ties are common."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.random((p, 4)))
    height = rng.integers(0, 3, (p, 5))

    def f(U):
        cells = [np.searchsorted(cuts[i], U[:, i]) for i in range(p)]
        value = sum(height[i, cells[i]] for i in range(p)).astype(float)
        value[rng.random(len(U)) < failures] = np.inf
        return value

    return f


def moments(preset, weight, f, n, seed=0) -> Iterator[tuple]:
    """Run until ``n`` evaluations; yield state and the paper's rules whenever points are asked for.

    Every preset runs by the same schedule, that of `Driver`.
    """
    weight = preset.weights_for(np.asarray(weight, float))
    driver = Driver.begin(preset.rules_for(weight, 1), weight, seed)
    while True:
        U = driver.propose()
        yield driver.state, driver.rules.paper
        if not len(U) or count(driver.state, "evaluated") >= n:
            return
        driver.record(f(U))


def count(state, name) -> int:
    return int(state.counter[name][0])


def asked_points(state) -> np.ndarray:
    first = count(state, "evaluated")
    return state.u[first : first + count(state, "asked")]


def samples(state, j) -> list[int]:
    """Return the samples of a rectangle."""
    found, at = [], state.rect["head"][j]
    while at != s.NONE:
        found.append(int(at))
        at = state.sample["follower"][at]
    return found


def half_sides(state, j) -> np.ndarray:
    return 0.5 * s.THIRD[state.level[j]]


@st.composite
def runs(draw, names=presets, failures=(0.0, 0.2)) -> tuple:
    """Draw a run, and return it at a random moment after the initialization."""
    p = draw(st.integers(1, 6))
    weight = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 7.5]), min_size=p, max_size=p))
    seed = draw(seeds)
    f = stepwise(seed, p, draw(st.sampled_from(failures)))
    n = draw(st.integers(2 * p + 2, 250))
    for moment in moments(PRESETS[draw(names)], weight, f, n, seed):  # noqa: B007
        pass
    return moment


# The constants.


def test_constants_are_those_of_the_paper():
    c = paper()
    assert (c.neighbourhood, c.sigma_min, c.epsilon) == (2, 1e-8, 1e-4)
    assert (c.delta, c.delta_min, c.delta_max, c.tau) == (1, 0.001, 2.5, 1.5)
    assert (c.n_directions, c.t_max_per_axis, c.local_search) == (5, 1.5, "coordinates")
    assert (c.ties, c.sides, c.weight_floor, c.refine) == ("all", "one", 0, 0)
    assert (c.epsilon_scale, c.search_region, c.grow_on_tie) == ("median", "rectangle", False)
    assert c.rules_for(np.full(10, 0.1), 1).paper.t_max == 15
    assert inspect.signature(stepdirect).parameters["max_evals"].default == 2000


# The partition.


@given(runs())
def test_rectangles_tile_the_cube(moment):
    state, _ = moment
    n = count(state, "rectangles")
    level = state.level[:n].astype(int)
    assert sum(Fraction(1, 3 ** int(k)) for k in level.sum(axis=1)) == 1
    # Corners as integers, in units of the shortest side anywhere.
    finest = 3 ** level.max()
    side = finest // 3**level
    lower = np.rint(state.centre[:n] * finest - side / 2).astype(int)
    np.testing.assert_allclose(lower + side / 2, state.centre[:n] * finest, atol=0.1)
    assert (lower % side == 0).all() and (lower >= 0).all() and (lower + side <= finest).all()
    apart = (lower[:, None] + side[:, None] <= lower[None]).any(axis=2)
    assert (apart | apart.T | np.eye(n, dtype=bool)).all()


@given(runs())
def test_every_sample_is_stored_in_the_one_rectangle_that_contains_it(moment):
    state, _ = moment
    seen = []
    for j in range(count(state, "rectangles")):
        inside = samples(state, j)
        seen += inside
        away = np.abs(state.u[inside] - state.centre[j])
        assert (away <= half_sides(state, j) * (1 + 1e-9)).all()
        assert any((state.u[k] == state.centre[j]).all() for k in inside)
        assert state.rect["f"][j] == min(state.sample["f"][inside])
        for k in inside:
            found = rectangle_of(state.u[k], state.node)
            away = np.abs(state.u[k] - state.centre[found])
            assert (away <= half_sides(state, found) * (1 + 1e-9)).all()
            on_a_face = np.isclose(away, half_sides(state, found), rtol=1e-9, atol=0).any()
            assert found == j or on_a_face
    assert sorted(seen) == list(range(count(state, "evaluated")))


@given(runs())
def test_best_sample_and_radius(moment):
    state, _ = moment
    f = state.sample["f"][: count(state, "evaluated")]
    best = count(state, "best")
    assert best == (np.argmin(f) if np.isfinite(f).any() else s.NONE)
    for j in range(count(state, "rectangles")):
        assert math.isclose(state.rect["radius"][j], np.linalg.norm(half_sides(state, j)))


# Local variability σ.

with_sigma = [name for name, preset in PRESETS.items() if preset.neighbourhood]


@given(runs(st.sampled_from(with_sigma)))
def test_variability_is_its_definition(moment):
    state, rules = moment
    n = count(state, "rectangles")
    centre, rect = state.centre[:n], state.rect[:n]
    for j in range(n):
        distance = np.zeros(n)
        for i in range(centre.shape[1]):
            distance += (centre[:, i] - centre[j, i]) ** 2
        near = distance <= (rules.neighbourhood * rect["radius"][j]) ** 2
        assert rect["near"][j] == near.sum()
        assert rect["differ"][j] == (near & (rect["f"] != rect["f"][j])).sum()


# Potentially optimal rectangles.


def definition_2(size, f, f_min, margin) -> tuple[set[int], set[int]]:
    """Return the rectangles for which some K > 0 exists, and those that a rounding could add."""
    sure, maybe = set(), set()
    size, f = [Fraction(v) for v in size], [Fraction(v) for v in f]
    f_min, margin = Fraction(f_min), Fraction(margin)
    kept = [j for j in range(len(f)) if size[j] > 0]
    for j in kept:
        if any(size[i] == size[j] and f[i] < f[j] for i in kept):
            continue
        low = max(
            [Fraction(0)] + [(f[j] - f[i]) / (size[j] - size[i]) for i in kept if size[i] < size[j]]
        )
        above = [(f[i] - f[j]) / (size[i] - size[j]) for i in kept if size[i] > size[j]]
        if not above:
            sure.add(j)
            continue
        K = min(above)
        slack = min(K - low, f_min - margin - f[j] + K * size[j])
        if K > 0 and slack >= 0:
            sure.add(j)
        if K > 0 and slack >= -1e-12 * (1 + K + abs(f_min) + abs(f[j])):
            maybe.add(j)
    return sure, sure | maybe


sizes_and_values = st.lists(
    st.tuples(st.integers(0, 8), st.integers(-4, 6)), min_size=1, max_size=25
).filter(lambda pairs: any(size for size, _ in pairs))


@settings(max_examples=300)
@given(sizes_and_values, st.sampled_from([0, 0.25, 1, 3]), st.sampled_from([0, 1]), st.booleans())
def test_potentially_optimal_is_definition_2(pairs, margin, lower, all_ties):
    size, f = np.array(pairs, float).T.copy()
    f_min = f.min() - lower
    chosen = potentially_optimal(size, f, f_min, float(margin), all_ties).tolist()
    assert len(set(chosen)) == len(chosen)
    assert sorted(size[chosen]) == size[chosen].tolist()
    sure, maybe = definition_2(size, f, f_min, margin)
    if not all_ties:
        sure, maybe = (
            {min(i for i in group if pairs[i] == pairs[j]) for j in group}
            for group in (sure, maybe)
        )
    assert sure <= set(chosen) <= maybe


@given(runs(failures=(0.0, 0.3, 1.0)))
def test_selection_in_a_run_is_definition_2(moment):
    state, rules = moment
    n = count(state, "rectangles")
    values = np.sort(state.sample["f"][: count(state, "evaluated")])
    finite = values[np.isfinite(values)]
    f_min, worst = (finite[0], finite[-1]) if finite.size else (0.0, 0.0)
    f = np.minimum(state.rect["f"][:n], worst)
    size = state.rect["radius"][:n].copy()
    if rules.neighbourhood:
        share = state.rect["differ"][:n] / state.rect["near"][:n]
        size *= np.maximum(share, rules.sigma_min)
    middle = min(np.median(np.minimum(values, 1e300)), worst)
    scale = abs(f_min) if rules.epsilon_scale == r.LEAST else abs(f_min - middle)
    select(state, rules)
    chosen = state.task["selected"][: count(state, "selected")].tolist()
    sure, maybe = definition_2(size, f, f_min, rules.epsilon * scale)
    if not rules.all_ties:
        kinds = {(size[j], f[j]): j for j in sorted(maybe, reverse=True)}
        sure, maybe = (set(kinds.values()) & group for group in (sure, maybe))
    assert sure <= set(chosen) <= maybe
    assert chosen


# Algorithm 1.


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if not preset.refine])
def test_a_preset_without_refinement_is_algorithm_1_alone(name):
    """The schedule that all presets share adds nothing to the paper's own loop."""
    preset, n, f = PRESETS[name], 400, stepwise(2, 3)
    *_, (state, _) = moments(preset, [3, 2, 1], f, n, 7)
    weight = preset.weights_for(np.array([3.0, 2, 1]))
    alone, rules = s.new_state(weight, 7), preset.rules_for(weight, 1).paper
    while count(alone, "evaluated") < n:
        asked = advance(alone, rules)
        assert asked != EXHAUSTED
        if asked < ITERATION_OVER:
            alone = s.grown(alone, -asked)
        elif asked > 0:
            record(f(asked_points(alone)), alone.counter, alone.sample)
    m = min(count(state, "evaluated"), count(alone, "evaluated"))
    assert m >= n and state.u[:m].tobytes() == alone.u[:m].tobytes()
    assert state.sample["f"][:m].tobytes() == alone.sample["f"][:m].tobytes()


# Initialization.


@every_preset
@pytest.mark.parametrize("p", [1, 2, 5])
def test_initialization_is_as_printed(name, p):
    f = stepwise(3, p)
    run = moments(PRESETS[name], np.ones(p), f, 2 * p + 2)
    state, _ = next(run)
    steps = np.kron(np.eye(p), [[-1 / 3], [1 / 3]])
    expected = 0.5 + np.vstack([np.zeros(p), steps])
    np.testing.assert_allclose(asked_points(state), expected, rtol=1e-15)
    state, rules = next(run)
    assert count(state, "evaluated") == 2 * p + 1
    least = f(expected[1:]).reshape(p, 2).min(axis=1)
    axis = int(np.argmin(least))
    if rules.all_sides:
        assert count(state, "rectangles") == 2 * p + 1
    else:
        assert state.level[:3].tolist() == [np.eye(p, dtype=int)[axis].tolist()] * 3
        assert len(samples(state, 0)) == 1 + 2 * (p - 1)
        assert samples(state, 1) == [1 + 2 * axis] and samples(state, 2) == [2 + 2 * axis]


@pytest.mark.parametrize("name", WITHOUT_SEARCH)
@given(seeds, st.integers(1, 5))
def test_no_point_is_evaluated_twice(name, seed, p):
    *_, (state, _) = moments(PRESETS[name], np.ones(p), stepwise(seed, p), 300)
    u = state.u[: count(state, "evaluated")]
    assert len(np.unique(u, axis=0)) == len(u)


# Division.


@given(seeds, st.lists(st.sampled_from([0, 1, 3, 9, 10]), min_size=1, max_size=5), presets)
def test_the_largest_weighted_side_is_divided_into_thirds(seed, weight, name):
    """Among equal w_i l_i it is the first; DIRECT divides all longest sides."""
    p, before, axes = len(weight), np.empty(0), {}
    for state, rules in moments(PRESETS[name], weight, stepwise(seed, p), 200):
        for j in axes:
            assert (state.level[j] == before[j] + np.isin(range(p), axes[j])).all()
        before, axes = state.level.copy(), {}
        if count(state, "phase") != s.DIVIDE:
            continue
        for job in state.task[: count(state, "divisions")]:
            j, i = int(job["rect"]), int(job["axis"])
            axes.setdefault(j, []).append(i)
            for k, sign in ((job["lower"], -1), (job["upper"], 1)):
                third = sign * 2 / 3 * half_sides(state, j) * (np.arange(p) == i)
                np.testing.assert_allclose(state.u[k], state.centre[j] + third, rtol=1e-14)
        assert list(axes) == state.task["selected"][: count(state, "selected")].tolist()
        for j in axes:
            v = state.weight * s.THIRD[state.level[j]]
            longest = np.flatnonzero(state.level[j] == state.level[j].min())
            assert axes[j] == (longest.tolist() if rules.all_sides else [np.argmax(v)])
    # Only the first division goes by the values, and may meet a coordinate of weight 0.
    assert (state.level[: count(state, "rectangles"), state.weight == 0] <= 1).all()


@given(seeds, st.integers(2, 5))
def test_direct_gives_the_best_side_the_largest_thirds(seed, p):
    rng = np.random.default_rng(seed)
    *_, (state, _) = moments(direct(), np.ones(p), lambda U: rng.random(len(U)), 2 * p + 1)
    values = state.sample["f"][1 : 2 * p + 1].reshape(p, 2).min(axis=1)
    for rank, axis in enumerate(np.argsort(values)):
        for j in (1 + 2 * rank, 2 + 2 * rank):
            assert state.centre[j, axis] != 0.5
            assert state.level[j].sum() == rank + 1


# Local search.


def test_axes_are_drawn_with_the_weights_as_probabilities():
    weight = np.array([0.5, 0.0, 0.3, 0.15, 0.05])
    D, random, n = np.empty((5, 5)), np.array([7], np.uint64), 20_000
    first, signs, second = np.zeros(5), 0.0, np.zeros(5)
    for _ in range(n):
        draw_directions(weight, r.COORDINATES, random, D)
        first += np.abs(D[0])
        second += np.abs(D[1])
        signs += D.sum()
        assert len({tuple(d) for d in D}) == 5
        assert (np.abs(D).sum(axis=1) == 1).all() and (D[:, 1] == 0).all()
        assert (np.abs(D[:4]).sum(axis=0) == (weight > 0)).all()
    bound = 4 * np.sqrt(n * weight * (1 - weight)) + 1e-9
    assert (np.abs(first - n * weight) <= bound).all()
    # The second axis is drawn from the rest in proportion to what is left.
    chance = [
        sum(v / (1 - v) for k, v in enumerate(weight) if k != i) * weight[i] for i in range(5)
    ]
    assert (np.abs(second - n * np.array(chance)) <= 4 * np.sqrt(n / 4) * (weight > 0)).all()
    assert abs(signs) <= 4 * np.sqrt(5 * n)


@pytest.mark.parametrize("p", [1, 2, 7])
def test_directions_of_the_sphere_have_length_1_and_no_preference(p):
    D = np.empty((40_000, p))
    draw_directions(np.full(p, 1 / p), r.SPHERE, np.array([1], np.uint64), D)
    np.testing.assert_allclose(np.linalg.norm(D, axis=1), 1)
    np.testing.assert_allclose(D.mean(axis=0), 0, atol=4 / np.sqrt(len(D) * p))
    np.testing.assert_allclose(D.T @ D / len(D), np.eye(p) / p, atol=4 / np.sqrt(len(D)))


def rounds(name, p, f, n, seed=0, **changes) -> Iterator[tuple]:
    """Yield every round of local search: state, rules, first point, and tasks before and after."""
    before = None
    for state, rules in moments(replace(PRESETS[name], **changes), np.ones(p), f, n, seed):
        k, m = count(state, "iteration"), count(state, "evaluated")
        if before is not None and before[0] == k:
            yield state, rules, *before[1:], state.task.copy()
        before = None
        if count(state, "phase") == s.SEARCH:
            before = k, m, state.task[: count(state, "selected")].copy()


searching = pytest.mark.parametrize("name", ["paper", "sphere", "box"])


@searching
@given(seed=seeds, p=st.integers(1, 5), grow_on_tie=st.booleans())
def test_a_round_moves_and_adapts_its_step_as_algorithm_2(name, seed, p, grow_on_tie):
    f = stepwise(seed, p, 0.1)
    for state, rules, first, tasks, after in rounds(name, p, f, 150, seed, grow_on_tie=grow_on_tie):
        points = first + np.arange(len(tasks) * rules.n_directions).reshape(len(tasks), -1)
        for k, task in enumerate(tasks):
            values, current = state.sample["f"][points[k]], state.sample["f"][task["at"]]
            assert after[k]["at"] in points[k][values == values.min()]
            delta = task["delta"]
            if values.min() > current or (grow_on_tie and values.min() == current):
                delta = min(delta * 1.5, 2.5)
            elif values.min() < current:
                delta = max(delta / 1.5, 0.001)
            assert after[k]["delta"] == delta


@searching
@given(seed=seeds, p=st.integers(1, 5))
def test_steps_are_δ_half_sides_and_stay_in_the_region(name, seed, p):
    for state, rules in moments(PRESETS[name], np.ones(p), stepwise(seed, p), 150, seed):
        if count(state, "phase") != s.SEARCH:
            continue
        tasks = state.task[: count(state, "selected")]
        points = asked_points(state).reshape(len(tasks), rules.n_directions, p)
        for task, X in zip(tasks, points, strict=True):
            j, x = task["selected"], state.u[task["at"]]
            if count(state, "round") == 0:
                assert state.sample["f"][task["at"]] == state.rect["f"][j]
                assert task["delta"] == 1
            middle, half = state.centre[j], half_sides(state, j)
            if name == "box":
                middle, half = np.full(p, 0.5), np.full(p, 0.5)
            assert (np.abs(X - middle) <= half * (1 + 1e-9)).all()
            if name == "sphere":
                continue
            moved = x != X
            assert (moved.sum(axis=1) <= 1).all()
            for k, i in zip(*np.nonzero(moved), strict=True):
                # A step that leaves the region may end anywhere inside.
                ahead = x[i] + task["delta"] * half[i] * np.array([-1, 1])
                free = np.abs(ahead - middle[i]) < half[i] * (1 - 1e-9)
                assert X[k, i] in ahead or not free.all()


@searching
@pytest.mark.parametrize("p", [1, 3, 4, 5, 10])
def test_a_search_ends_after_t_max_evaluations(name, p):
    """Each round counts |D| + 1; there are at most 2 p signed axes."""
    n_directions = 5 if name == "sphere" else min(5, 2 * p)
    expected = math.ceil(1.5 * p / (n_directions + 1))
    made = {}
    for state, rules in moments(PRESETS[name], np.ones(p), stepwise(0, p), 400):
        assert rules.n_directions == n_directions
        k = int(count(state, "iteration"))
        made[k] = made.get(k, 0) + (count(state, "phase") == s.SEARCH)
    assert set(list(made.values())[1:-1]) == {expected}


def test_the_next_point_is_any_of_the_best():
    chosen = np.zeros(5)
    for _, _, first, tasks, after in rounds("paper", 6, lambda U: np.zeros(len(U)), 4000):
        for k in range(len(tasks)):
            chosen[after[k]["at"] - first - 5 * k] += 1
    n = chosen.sum()
    assert n > 500 and (np.abs(chosen - n / 5) < 4 * np.sqrt(n * 0.2 * 0.8)).all()


# Convergence and repetition.


WHERE_DENSE = [(name, flat) for name in PRESETS for flat in (True, False)]
WHERE_DENSE = [
    (name, flat) for name, flat in WHERE_DENSE if flat or not PRESETS[name].neighbourhood
]


@pytest.mark.parametrize(("name", "flat"), WHERE_DENSE)
def test_samples_become_dense(name, flat):
    """The largest rectangle shrinks while every weight is positive.

    With σ only where f is constant: elsewhere a large flat rectangle waits until all others are
    smaller by ε_σ.
    """
    f = (lambda U: np.zeros(len(U))) if flat else stepwise(5, 2)
    largest = []
    for n in (300, 6000):
        *_, (state, _) = moments(PRESETS[name], [0.9, 0.1], f, n)
        largest.append(state.rect["radius"][: count(state, "rectangles")].max())
    assert largest[1] < 0.2 and largest[1] < 0.6 * largest[0]
    assert (state.level[: count(state, "rectangles")] > 0).all()


@every_preset
def test_a_seed_repeats_a_run(name):
    def points(seed):
        *_, (state, _) = moments(PRESETS[name], [3, 2, 1], stepwise(1, 3), 200, seed)
        return state.u[:200].tobytes()

    assert points(1) == points(1)
    assert (points(1) == points(2)) == (name in WITHOUT_SEARCH)
