"""The kernels of search and proof against plain Python, on small random trees."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from math import fsum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

import treeopt
from tests.support.decisions import FUZZ, problem_for, random_problem
from tests.support.truth import ensembles, leaf_of
from treeopt import Difference, Ensemble
from treeopt.exact import descent, dual, reduction, tree_search
from treeopt.exact.box_lists import Lists, gather, narrow
from treeopt.exact.branching import BRANCH, EMPTY, NARROW, SOLVED, examine, new_cut_room
from treeopt.exact.certificate import Certificate
from treeopt.exact.descent import LocalSearch
from treeopt.exact.dual_cut import choose_cut
from treeopt.exact.dual_part import LARGE, Part, whole_part
from treeopt.exact.dual_search import DualSearch
from treeopt.exact.dual_shrink import shrink
from treeopt.exact.exact_settings import ExactSettings
from treeopt.exact.list_leaves import _cells_of_places, list_leaves
from treeopt.exact.tree_search import TreeSearch
from treeopt.problem.leaves import Leaves
from treeopt.problem.places import Places
from treeopt.problem.problem import Problem
from treeopt.run.limits import Limits
from treeopt.run.watch import Threads

seeds = st.integers(0, 2**32 - 1)
signs = st.sampled_from([1.0, -1.0])


def problem_of(e, rng, sign=1.0) -> Problem | None:
    """Return a random question about a model; None if there is no admissible point."""
    drawn = random_problem(e, rng)
    if not all(v.size for v in drawn.values):
        return None
    return problem_for(e, **drawn.options, sense=sign)


def leaves_of(problem: Problem, places: Places | None = None, **settings) -> Leaves:
    where = problem.places if places is None else places
    return list_leaves(problem, where, Limits(None), ExactSettings(**settings))


def margins_at(problem: Problem, points: np.ndarray, places: Places | None = None) -> np.ndarray:
    """Return what the models add up to at points, which are given by their places."""
    where = problem.places if places is None else places
    return np.array([problem.margin_at(cells) for cells in where.cells_at(points)])


def shuffled(e: Ensemble, rng: np.random.Generator) -> Ensemble:
    """Return an ensemble with the same trees but other values."""
    return replace(e, value=rng.permutation(e.value), base=float(e.base) / 2)


def points_of(leaves: Leaves) -> np.ndarray:
    """Return all points of the grid."""
    sizes = np.diff(leaves.place_start)
    every = list(itertools.product(*map(range, sizes)))
    return np.array(every, np.int32).reshape(len(every), sizes.size)


def inside(leaves: Leaves, point: np.ndarray) -> np.ndarray:
    """Return the boxes that hold a point."""
    within = (leaves.low <= point[:, None]) & (point[:, None] <= leaves.high)
    return np.flatnonzero(within.all(axis=0))


def value_at(leaves: Leaves, point: np.ndarray) -> float:
    return leaves.constant + leaves.value[inside(leaves, point)].sum()


def random_leaves(seed: int, p: int = 3, n_trees: int = 4, most: int = 6, size: int = 5) -> Leaves:
    """Cut the grid into boxes at random, once for each tree."""
    rng = np.random.default_rng(seed)
    rows, start = [], [0]
    for _ in range(n_trees):
        boxes = [(np.zeros(p, int), np.full(p, size - 1))]
        for _ in range(int(rng.integers(0, most))):
            low, high = boxes.pop(int(rng.integers(len(boxes))))
            k = int(rng.integers(p))
            if low[k] == high[k]:
                boxes.append((low, high))
                continue
            cut = int(rng.integers(low[k], high[k]))
            left, right = (low, high.copy()), (low.copy(), high)
            left[1][k], right[0][k] = cut, cut + 1
            boxes += [left, right]
        values = np.sort(np.round(rng.normal(size=len(boxes)), 1))
        rows += list(zip(values, boxes, strict=True))
        start.append(len(rows))
    return Leaves(
        value=np.array([v for v, _ in rows]),
        low=np.array([b[0] for _, b in rows], np.int32).T.copy(),
        high=np.array([b[1] for _, b in rows], np.int32).T.copy(),
        leaf=np.arange(len(rows), dtype=np.int32),
        start=np.array(start),
        place_start=np.arange(0, size * p + 1, size),
        constant=0.5,
    )


# The boxes of leaves.


@given(ensembles(12), seeds, signs)
@settings(FUZZ, max_examples=60)
def test_every_point_lies_in_one_box_of_each_tree(e, seed, sign):
    """The one whose leaf the walk down the tree reaches."""
    rng = np.random.default_rng(seed)
    problem = problem_of(e, rng, sign)
    if problem is None:
        return
    leaves = leaves_of(problem)
    assert (np.diff(leaves.start) > 0).all() and leaves.start.size == e.n_trees + 1
    tree = np.repeat(np.arange(e.n_trees), np.diff(leaves.start))
    assert (np.diff(leaves.value)[np.diff(tree) == 0] >= 0).all()
    number = e.compiled.leaves[0]  # of each leaf, from left to right
    every = points_of(leaves)
    for point in every[rng.choice(len(every), min(len(every), 8), replace=False)]:
        held = inside(leaves, point)
        assert tree[held].tolist() == list(range(e.n_trees))
        x = representative(e, problem.places, point)
        nodes = [leaf_of(e, t, x) for t in range(e.n_trees)]
        assert leaves.leaf[held].tolist() == number[nodes].tolist()
        assert leaves.value[held].tolist() == (sign * e.value[nodes].astype(float)).tolist()


def representative(e, places: Places, point: np.ndarray) -> np.ndarray:
    """Return inputs in the cells of a point, without `Places.region`: the last of each cell."""
    space = places.space
    x = np.where(np.isinf(space.lower), 0.0, space.lower)
    cells = e.compiled.cells
    kind = e.input_dtype.type
    at = places.cells_at(point[None, :])[0]
    for j, column in enumerate(cells.columns):
        cuts = cells.cuts_of(j)
        if at[j] == cuts.size + 1:
            x[column] = np.nan
        elif at[j] == cuts.size:
            x[column] = np.nextafter(kind(cuts[-1] if cuts.size else 0), kind(np.inf))
        else:
            last = kind(cuts[at[j]])
            x[column] = last if last <= cuts[at[j]] else np.nextafter(last, kind(-np.inf))
        if x[column] == e.missing_value:
            x[column] = np.nextafter(kind(x[column]), kind(-np.inf))
    return x


def test_random_leaves_are_what_they_should_be():
    for seed in range(20):
        leaves = random_leaves(seed)
        for point in points_of(leaves):
            assert inside(leaves, point).size == 4


# All lines through a point.


@given(seeds)
@settings(FUZZ, max_examples=60)
def test_one_pass_sees_all_lines(seed):
    leaves = random_leaves(seed)
    rng = np.random.default_rng(seed)
    walk = descent.new_walk(leaves)
    for _ in range(4):
        point = rng.integers(0, 5, 3).astype(np.int32)
        descent.go_to(leaves, walk, point)
        total, least, k, first, last = descent.scan_lines(leaves, walk)
        assert total == pytest.approx(value_at(leaves, point), abs=1e-12)
        lines = np.empty((3, 5))
        for axis, c in itertools.product(range(3), range(5)):
            moved = point.copy()
            moved[axis] = c
            lines[axis, c] = value_at(leaves, moved) - total
        assert least == pytest.approx(min(lines.min(), 0.0), abs=1e-12)
        if least < -1e-9:
            assert np.allclose(lines[k, first : last + 1], least, atol=1e-12)
        assert not walk.change.any()


@given(seeds)
@settings(FUZZ, max_examples=60)
def test_descents_end_in_local_minima(seed):
    leaves = random_leaves(seed)
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, 5, (2, 3)).astype(np.int32)
    search = LocalSearch(leaves, starts, 1e-12, seed)
    for _ in range(6):
        before = search.value
        search.step(2**62)
        here = value_at(leaves, search.walk.at)
        for k, c in itertools.product(range(3), range(5)):
            moved = search.walk.at.copy()
            moved[k] = c
            assert value_at(leaves, moved) >= here - 1e-9
        assert search.value == pytest.approx(min(before, here), abs=1e-12)
        assert search.value == pytest.approx(value_at(leaves, search.best), abs=1e-12)


def test_a_local_search_makes_no_more_passes_than_it_may():
    leaves = random_leaves(3, n_trees=12, most=20)
    for most in (1, 2, 3, 10):
        search = LocalSearch(leaves, np.zeros((1, 3), np.int32), 1e-12, 0)
        while search.passes < most:
            search.step(most)
        assert search.passes == most


# Lists of boxes, and what each cut of a node brings.


class Node:
    """The lists of a node whose box is given, as a plunge has them."""

    def __init__(self, leaves: Leaves, box: np.ndarray, cutoff: float = np.inf, room: int = 5000):
        self.leaves, self.box = leaves, box
        self.value, self.boxes = np.empty(room), np.empty((room, box.size), np.int32)
        self.arena = np.zeros(4 * room, np.int32)
        self.table = Lists(self.value, self.boxes, self.arena)
        first = np.empty(leaves.start.size, np.int64)
        self.constant = leaves.constant
        self.n, self.end = gather(leaves, box, cutoff, self.table, first)
        self.at = 0

    def lists(self) -> list[list[int]]:
        at = self.arena[self.at : self.at + self.n + 1]
        return [self.arena[a:b].tolist() for a, b in itertools.pairwise(at)]

    def bound(self, low=None, high=None) -> float:
        """Return the sum of the best boxes that meet one, or infinity."""
        p = self.box.size // 2
        low = self.box[:p] if low is None else low
        high = self.box[p:] if high is None else high
        total = self.constant
        for rows in self.lists():
            meets = [
                self.value[r]
                for r in rows
                if (self.boxes[r, :p] <= high).all() and (self.boxes[r, p:] >= low).all()
            ]
            total += min(meets, default=np.inf)
        return total

    def least(self) -> float:
        """Return the least value of any point in the box, or infinity."""
        p = self.box.size // 2
        ranges = [range(a, b + 1) for a, b in zip(self.box[:p], self.box[p:], strict=True)]
        points = (np.array(point) for point in itertools.product(*ranges))
        return min((self.bound(x, x) for x in points), default=np.inf)


def node_of(seed: int, cutoff: float = np.inf, **shape) -> Node:
    leaves = random_leaves(seed, **shape)
    rng = np.random.default_rng(seed)
    p, size = leaves.low.shape[0], int(leaves.place_start[1])
    ends = np.sort(rng.integers(0, size, (2, p)), axis=0)
    ends[:, rng.random(p) < 0.5] = [[0], [size - 1]]
    return Node(leaves, ends.ravel().astype(np.int32), cutoff)


@given(seeds)
@settings(FUZZ, max_examples=60)
def test_a_node_has_the_boxes_that_meet_it(seed):
    node = node_of(seed)
    p = 3
    low, high = node.box[:p], node.box[p:]
    leaves = node.leaves
    meets = (leaves.low <= high[:, None]) & (leaves.high >= low[:, None])
    kept = [row for rows in node.lists() for row in rows]
    assert sorted(node.value[kept]) == sorted(leaves.value[meets.all(axis=0)])
    assert node.constant == leaves.constant and node.n == 4
    best = min(
        value_at(leaves, np.array(x))
        for x in itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
    )
    assert node.least() == pytest.approx(best, abs=1e-12)


@given(seeds, st.floats(0.1, 3.0))
@settings(FUZZ, max_examples=80)
def test_filtering_loses_no_point_below_the_cutoff(seed, slack):
    node = node_of(seed)
    least, bound = node.least(), node.bound()
    kept = Node(node.leaves, node.box.copy(), bound + slack)
    if least < bound + slack - 1e-9:
        assert kept.least() == pytest.approx(least, abs=1e-12)
    box, changed = node.box.copy(), np.zeros(3, np.int64)
    rest = (node.end, box, changed, 0, slack, node.leaves.stop)
    n, folded, left, _, _ = narrow(node.table, 0, node.n, *rest)
    if n < 0:
        assert least >= bound + slack - 1e-9
        return
    node.at, node.n, node.constant, node.box = node.end, n, node.constant + folded, box
    assert node.bound() == pytest.approx(bound, abs=1e-12) or node.bound() > bound
    assert node.constant + left == pytest.approx(
        node.constant + sum(node.value[rows[0]] for rows in node.lists()), abs=1e-12
    )
    if least < bound + slack - 1e-9:
        assert node.least() == pytest.approx(least, abs=1e-12)


@given(seeds, st.sampled_from([np.inf, 2.0, 0.7, 0.2]))
@settings(FUZZ, max_examples=150)
def test_the_bounds_of_both_sides_of_a_cut(seed, slack):
    node = node_of(seed)
    p = 3
    bound, least, before = node.bound(), node.least(), node.box.copy()
    changed = np.zeros(p, np.int64)
    place_start = node.leaves.place_start
    room = new_cut_room(p, int(place_start[-1]))
    for name, array in room._asdict().items():
        if name not in ("loss", "event"):  # these are 0 on entry
            array.fill(-1)
    finite = slack if np.isfinite(slack) else 50.0
    rest = (finite, 1e-6, place_start, room, changed, node.leaves.stop)
    found = examine(node.table, 0, node.n, node.box, *rest)
    outcome = found.outcome
    better = least < bound + finite - 1e-9
    if outcome == EMPTY:
        assert not better
        return
    if outcome == NARROW:
        features = changed[: found.n_changed]
        assert features.size and (node.box != before).any()
        if better:
            assert node.least() == pytest.approx(least, abs=1e-12)
        return
    if outcome == SOLVED:
        assert node.least() == pytest.approx(bound, abs=1e-12) == least
        point = node.box[:p]
        assert node.bound(point, point) == pytest.approx(bound, abs=1e-12)
        return
    assert outcome == BRANCH
    k, cut = found.feature, found.cut
    assert before[k] <= cut < before[p + k] and (node.box == before).all()
    left, right = before.copy(), before.copy()
    left[p + k], right[k] = cut, cut + 1
    gains = (found.left, found.right)
    for gain, box in zip(gains, (left, right), strict=True):
        true = node.bound(box[:p], box[p:]) - bound
        assert gain <= true + 1e-12
        assert gain >= min(true, finite) - 1e-9 or not any(gains)  # no cut gains at all


# The stronger bound.


def steps_of(leaves: Leaves) -> float:
    return DualSearch(leaves, 0.0, 0.0, 1).step


def values_at(part: Part, place: tuple[int, ...]) -> list[float]:
    """Return the values of the boxes of each tree that hold a point: one each."""
    values = []
    for t in range(part.tree_start.size - 1):
        holds = np.ones(part.value.size, bool)
        for q in range(part.pair_start[t], part.pair_start[t + 1]):
            own = range(part.segment_start[q], part.segment_start[q + 1])
            at = place[part.pair_feature[q]]
            segment = next(s for s in own if part.first[s] <= at < part.end[s])
            for i in range(part.span_start[q], part.span_start[q + 1]):
                holds[part.box[i]] &= part.from_[i] <= segment <= part.to[i]
        (held,) = np.flatnonzero(holds[part.tree_start[t] : part.tree_start[t + 1]])
        values.append(float(part.value[part.tree_start[t] + held]))
    return values


def sums_of(part: Part) -> dict[tuple[int, ...], float]:
    """Return the sum at each point of a part, by the places of the whole grid."""
    sizes = np.diff(part.place_start)
    sums = {}
    for place in itertools.product(*map(range, sizes)):
        at = tuple(int(part.place[part.place_start[j] + c]) for j, c in enumerate(place))
        sums[at] = sum(values_at(part, place))
    return sums


def kept_at_random(part: Part, rng: np.random.Generator) -> np.ndarray:
    keep = rng.random(part.place.size) < 0.6
    for a, b in itertools.pairwise(part.place_start):
        keep[rng.integers(a, b)] = True
    return keep


def ascended(part: Part, sweeps: int, cutoff: float, step: float, keep: np.ndarray) -> float:
    """Return the bound after some sweeps, one feature after the other."""
    at, end = 0, sweeps * (part.place_start.size - 1)
    bound, at = dual.ascend(part, at, end, 0, cutoff, step, keep)
    while at < end:
        bound, at = dual.ascend(part, at, end, 1, cutoff, step, keep)
    return bound


def priced(seed: int, sweeps: int = 2) -> tuple[Part, float]:
    """Return a part with prices that are not zero."""
    leaves = random_leaves(seed, n_trees=6, most=8)
    step = steps_of(leaves)
    part = whole_part(leaves, step)
    ascended(part, sweeps, 1e9, step, np.ones(part.place.size, bool))
    return part, step


@given(seeds)
@settings(FUZZ, max_examples=30)
def test_the_whole_part_is_the_whole_problem(seed):
    leaves = random_leaves(seed)
    part = whole_part(leaves, steps_of(leaves))
    for place in points_of(leaves):
        held = values_at(part, tuple(place))
        true = leaves.value[inside(leaves, place)]
        assert (np.array(held) <= true).all() and np.allclose(held, true, atol=1e-12)


@given(seeds, st.integers(0, 3))
@settings(FUZZ, max_examples=40)
def test_a_smaller_part_keeps_the_sums(seed, sweeps):
    """At each point that is left they are those of the whole; joined places are alike."""
    part, _ = priced(seed, sweeps)
    keep = kept_at_random(part, np.random.default_rng(seed))
    settled, small = shrink(part, keep)
    before = {at: v for at, v in sums_of(part).items() if keep[list(at)].all()}
    after = sums_of(small)
    assert all(before[at] == settled + v for at, v in after.items())
    assert min(before.values()) == settled + min(after.values())
    assert len(set(before.values())) == len({settled + v for v in after.values()})


@given(seeds, st.integers(0, 6), st.integers(0, 2))
@settings(FUZZ, max_examples=80)
def test_prices_raise_the_bound_and_keep_it_true(seed, sweeps, before):
    part, step = priced(seed, before)
    least = min(sums_of(part).values())
    plain = sum(part.value[a:b].min() for a, b in itertools.pairwise(part.tree_start))
    keep = np.ones(part.place.size, bool)
    bounds = [ascended(part, n, 1e9, step, keep) for n in (0, sweeps, sweeps)]
    assert keep.all()
    assert plain <= bounds[0] <= bounds[1] <= bounds[2] <= least


@given(seeds, st.integers(1, 4), st.floats(-0.5, 2.0))
@settings(FUZZ, max_examples=80)
def test_no_place_of_a_better_point_is_left_out(seed, sweeps, above):
    part, step = priced(seed, 1)
    sums = sums_of(part)
    cutoff = min(sums.values()) + above
    keep = np.ones(part.place.size, bool)
    bound = ascended(part, sweeps, cutoff, step, keep)
    assert bound <= min(sums.values())
    feature, at = choose_cut(part, 1e-6, cutoff, keep)
    for places, value in sums.items():
        if value < cutoff - step:  # which is no multiple of it
            assert keep[list(places)].all()
    if feature >= 0:
        assert part.place_start[feature] <= at < part.place_start[feature + 1] - 1


@given(seeds, st.floats(-0.5, 2.0))
@settings(FUZZ, max_examples=80)
def test_a_node_of_the_stronger_bound(seed, above):
    leaves = random_leaves(seed, n_trees=6, most=8)
    part, step = priced(seed, 1)
    keep = kept_at_random(part, np.random.default_rng(seed))
    every = {at: v for at, v in sums_of(part).items() if keep[list(at)].all()}
    least = min(every.values())
    cutoff = least + above
    node = DualSearch(leaves, 0.0, 0.0, 1)._bounded(part, keep, 0.0, cutoff).node
    if node is None:
        assert least >= cutoff - step
        return
    left = {at: v + node.settled for at, v in sums_of(node.part).items()}
    assert min(node.bound, cutoff) <= least + step and all(every[at] == v for at, v in left.items())
    if least < cutoff - step:
        assert min(left.values()) == least
    if not node.part.value.size:
        assert node.bound == node.settled
    elif least < cutoff - step:
        both = [{at: v for at, v in left.items() if kept(node, side, at)} for side in (0, 1)]
        assert min(v for half in both for v in half.values()) == least
        assert not set(both[0]) & set(both[1])


def kept(node, side: int, at: tuple[int, ...]) -> bool:
    """Tell whether a child keeps a point, by its places in the whole grid."""
    number = {int(place): i for i, place in enumerate(node.part.place)}
    return bool(node.child(side)[[number[place] for place in at]].all())


def test_prices_that_grow_too_large_are_not_relied_on():
    leaves = random_leaves(5, n_trees=6)
    part = whole_part(leaves, steps_of(leaves))
    part.lam[:] = 2.0**60 * steps_of(leaves)
    keep = np.ones(part.place.size, bool)
    bound = ascended(part, 2, 1e9, steps_of(leaves), keep)
    assert bound == -LARGE and keep.all() and not part.lam.any()


# Whole searches.


def least_of(leaves: Leaves) -> float:
    return min(value_at(leaves, x) for x in points_of(leaves))


both = pytest.mark.parametrize("kind", [TreeSearch, DualSearch])
ERROR = 1e-12


def prove(kind, leaves: Leaves, work: int, n_jobs: int, value: float, **tuning) -> None:
    """Stop again and again: the bound is true, and in the end it meets the best value."""
    least, noise = least_of(leaves), 1e-10
    search = kind(leaves, ERROR, 8 * ERROR, n_jobs, settings=ExactSettings(**tuning))
    best = np.zeros(leaves.low.shape[0], np.int32)
    bounds = []
    with Threads(n_jobs) as threads:
        for _ in range(100_000):
            for point in search.advance(work, best, value, threads.run):
                assert value_at(leaves, point) >= least - noise
                if value_at(leaves, point) < value:
                    best, value = point, value_at(leaves, point)
            ties = [bound for bound, _ in search.ties]
            bounds.append(min([search.bound, search.tie_bound, value, *ties]))
            assert bounds[-1] <= least + noise
            if not search.is_open:
                break
    assert not search.is_open and value == pytest.approx(least, abs=noise)
    assert bounds[-1] == pytest.approx(least, abs=noise)
    assert all(after >= before - noise for before, after in itertools.pairwise(bounds))


@both
@given(seeds, st.integers(1, 4000), st.integers(1, 20), st.booleans(), st.sampled_from([1, 3]))
@settings(FUZZ, max_examples=60)
def test_searches_stop_anywhere_with_a_true_bound(kind, seed, work, plunge, is_given, n_jobs):
    """Without a point from outside they find the lowest value and prove it."""
    leaves = random_leaves(seed, n_trees=8, most=14)
    value = least_of(leaves) if is_given else np.inf
    prove(kind, leaves, work, n_jobs, value, plunge_nodes=plunge)


@both
def test_searches_that_run_out_of_memory_go_deep(kind):
    for seed in range(3):
        leaves = random_leaves(seed, p=4, n_trees=12, most=20, size=6)
        prove(kind, leaves, 500, 1, np.inf, tree_bytes=0, dual_bytes=0)


@pytest.mark.parametrize("bytes_allowed", [2**20, 0])
def test_a_pool_without_room_grows(monkeypatch, bytes_allowed):
    """The first nodes fill it, or there is no room for lists: nothing is lost, and it ends."""
    tuning = {"plunge_nodes": 1, "tree_bytes": bytes_allowed}
    small = tree_search.new_search

    def new_search(leaves, *arguments):
        search = small(leaves, *arguments, room=2 * ExactSettings().max_levels + 3)
        size = leaves.value.size + leaves.start.size + 2
        lists = search.lists._replace(arena=np.empty(2 * size, np.int32))
        return search._replace(lists=lists)

    monkeypatch.setattr(tree_search, "new_search", new_search)
    full = []
    grow = tree_search.grown

    def grown(search, more, *rest):
        full.append(more)
        return grow(search, more, *rest)

    monkeypatch.setattr(tree_search, "grown", grown)
    for seed in range(3):
        leaves = random_leaves(seed, p=4, n_trees=14, most=25, size=6)
        prove(TreeSearch, leaves, 3000, 1, np.inf, **tuning)
    assert full


@given(seeds, st.sampled_from([1, 3]))
@settings(FUZZ, max_examples=40)
def test_nodes_that_were_interrupted_are_not_lost(seed, n_jobs):
    rng = np.random.default_rng(seed)
    interrupted = partial(DualSearch, is_over=lambda: bool(rng.random() < 0.3))
    prove(interrupted, random_leaves(seed, n_trees=8, most=10), 1000, n_jobs, np.inf)


def test_arrays_have_the_types_that_are_compiled_whatever_the_trees():
    """Another type would compile the kernel again, within the time limit."""
    constant = DecisionTreeRegressor().fit([[0.0], [1.0]], [2.0, 2.0])
    split = DecisionTreeRegressor().fit([[0.0], [1.0]], [2.0, 3.0])
    kinds = set()
    for tree in (constant, split):
        problem = problem_for(treeopt.from_model(tree), [(0, 1)])
        arrays = _cells_of_places(0, problem.prediction.terms[0], problem.places, Limits(None))
        kinds.add(tuple(array.dtype for array in arrays))
    assert len(kinds) == 1
    assert treeopt.minimize(constant, [(0, 1)]).bound == 2.0


@given(ensembles(12), seeds, signs)
@settings(FUZZ, max_examples=20)
def test_leaves_that_are_listed_in_slices(e, seed, sign):
    problem = problem_of(e, np.random.default_rng(seed), sign)
    if problem is None:
        return
    whole, sliced = leaves_of(problem), leaves_of(problem, slice_boxes=3)
    assert all(np.array_equal(a, b) for a, b in zip(whole, sliced, strict=True))


# Fewer cells.


@given(ensembles(12), seeds, signs, st.booleans())
@settings(FUZZ, max_examples=60)
def test_fewer_places_keep_all_that_is_as_good_as_the_best(e, seed, sign, pair):
    rng = np.random.default_rng(seed)
    problem = problem_of(Difference(e, shuffled(e, rng)) if pair else e, rng, sign)
    if problem is None:
        return
    places, every = problem.places, points_of(leaves_of(problem))
    sums = problem.sums_at(places.cells_at(every))
    starts = every[rng.choice(len(every), 3)].astype(np.int32)
    always = ExactSettings(min_boxes_per_leaf=-1)
    smaller, inside = reduction.reduce_places(problem, starts, Limits(None), always)
    known = problem.sums_at(smaller.cells_at(inside[:1]))[0]
    assert known <= problem.sums_at(places.cells_at(starts)).min()
    # As the model adds them up, others may be better than they really are.
    own = sign * margins_at(problem, every)
    best = sign * margins_at(problem, inside[:1], smaller)[0]
    at = places.cells_at(every[(sums <= known) | (own <= best)])
    for j, cells in enumerate(smaller.cells):
        assert np.isin(at[:, j], cells).all() and np.isin(cells, places.cells[j]).all()


def test_many_categories_are_few_boxes():
    """Sums of effects: nearly all of the categories are out of the question."""
    rng = np.random.default_rng(0)
    k, n = 80, 3000
    X = np.column_stack([rng.integers(0, k, n), rng.integers(0, k, n), rng.random(n)])
    effects = rng.normal(size=(2, k))
    y = effects[0, X[:, 0].astype(int)] + effects[1, X[:, 1].astype(int)] * X[:, 2]
    model = HistGradientBoostingRegressor(categorical_features=[0, 1], random_state=0).fit(X, y)
    e = treeopt.from_model(model)
    problem = problem_for(e, X)
    starts = np.zeros((1, problem.places.free.size), np.int32)
    smaller, _ = reduction.reduce_places(problem, starts, Limits(None))
    boxes = [leaves_of(problem, places).value.size for places in (problem.places, smaller)]
    assert boxes[0] > 4 * e.n_leaves and boxes[1] < e.n_leaves
    best = treeopt.minimize(model, X)
    every = np.column_stack([g.ravel() for g in np.meshgrid(range(k), range(k), [0.01, 0.5, 0.99])])
    assert best.status is treeopt.Status.OPTIMAL and best.fun <= model.predict(every).min()


# Rounding.


@given(ensembles(12), seeds, signs, st.booleans())
@settings(FUZZ, max_examples=60)
def test_errors_cover_the_rounding_of_the_models_sums(e, seed, sign, pair):
    """And the models' own sum of minima is below every prediction in a box."""
    rng = np.random.default_rng(seed)
    model = Difference(e, shuffled(e, rng)) if pair else e
    problem = problem_of(model, rng, sign)
    if problem is None:
        return
    leaves, own = leaves_of(problem), problem.prediction
    certificate = Certificate(own, leaves)
    model_error = certificate.model_error
    every = points_of(leaves)
    chosen = every[rng.choice(len(every), min(len(every), 10), replace=False)]
    sizes = np.diff(leaves.place_start)
    predictions, totals = margins_at(problem, chosen), []
    for point, prediction in zip(chosen, predictions, strict=True):
        held = leaves.value[inside(leaves, point)]
        bases = [sign * term.weight * term.ensemble.base for term in own.terms]
        true = fsum([*held, *bases])
        undivided = sign * float(prediction) * e.divisor
        slack = np.spacing(abs(undivided)) + abs(undivided) * float(np.finfo(e.value.dtype).eps)
        totals.append((sign * true, abs(undivided - true) - slack))
        assert abs(undivided - true) <= model_error + slack
        assert abs(leaves.constant + held.sum() - true) <= certificate.search_error
        assert certificate.margin_of(true) <= sign * float(prediction)
        low = np.array([rng.integers(0, c + 1) for c in point])
        high = np.array([rng.integers(c, n) for c, n in zip(point, sizes, strict=True)])
        box = np.concatenate([low, high]).astype(np.int32)
        assert certificate.margin_of_box(box) <= sign * float(prediction)
    # What cannot be better than some point, as the model adds, does not matter.
    trues = [sign * true for true, _ in totals]
    certificate.tighten(min(trues), trues[0])
    owns = sign * predictions
    for (_, off), own in zip(totals, owns, strict=True):
        assert own > owns[0] or off <= certificate.model_error
    ends = sorted(true for true, _ in totals)
    for low, high in itertools.combinations_with_replacement(ends, 2):
        between = certificate._model_error(low, high, 4 * model_error)
        assert between <= model_error
        assert all(off <= between for true, off in totals if low <= true <= high)


def test_few_sums_are_off_by_as_much_as_all_might_be():
    """Many trees whose best leaves lie apart: partial sums of good points are never large."""
    rng = np.random.default_rng(0)
    X, n = rng.random((300, 8)), 600
    settings = {"n_estimators": n, "max_depth": 3, "learning_rate": 0.3, "random_state": 0}
    model = GradientBoostingRegressor(**settings).fit(X, rng.normal(size=300))
    e = treeopt.from_model(model)
    problem = problem_for(e, X)
    certificate = Certificate(problem.prediction, leaves_of(problem))
    plain = certificate.model_error
    lowest = float(e.margin(X).min())
    certificate.tighten(lowest, lowest)
    assert certificate.model_error < plain / 3
