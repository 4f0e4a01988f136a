"""Long steps, memory and Ctrl-C: a decision ends soon, with a valid bound, wherever it is."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pytest

import treeopt
from tests.exact.test_exact import problem_of, random_leaves, value_at
from tests.solve.test_decide_ends import after
from tests.support.decisions import (
    SENSES,
    change_settings,
    check,
    hard,
    hardest,
    problem_for,
)
from tests.support.searches import model
from treeopt import Status
from treeopt.exact import (
    attempt,
    dual_search,
    list_leaves,
    precompile,
    reduction,
    solver,
    tree_search,
)
from treeopt.exact.descent import LocalSearch
from treeopt.exact.dual_search import DualSearch
from treeopt.exact.exact_settings import ExactSettings
from treeopt.exact.tree_search import TreeSearch
from treeopt.model.compiled import Compiled
from treeopt.problem import places as places_module
from treeopt.problem.choices import Choices
from treeopt.problem.places import Places
from treeopt.run import limits, watch
from treeopt.run.limits import Limits
from treeopt.run.status import Stopped
from treeopt.run.watch import Threads
from treeopt.solve import decide
from treeopt.stepdirect import driver as stepdirect_driver

each_sense = pytest.mark.parametrize("sense", SENSES)


@pytest.fixture(autouse=True, scope="module")
def compiled():
    """Compile all kernels: a Ctrl-C in these tests is not to wait for them."""
    treeopt.warmup(hardest()[0])


@pytest.fixture
def watched(monkeypatch):
    """Let a thread do all steps, of small problems too, and look often."""
    change_settings(monkeypatch, long_step=-1)
    for module in (watch, limits):
        monkeypatch.setattr(module, "POLL_INTERVAL", 1e-4)


def at_call(n, then, original):
    """Return a function that does something at its ``n``-th call, and what it did before."""
    calls = count(1)

    def called(*arguments, **options):
        if next(calls) == n:
            then()
        return original(*arguments, **options)

    return called


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def no_memory() -> None:
    raise MemoryError


# Steps that a thread does.


@each_sense
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("dual", [False, True])
def test_a_thread_that_does_the_steps_changes_nothing(sense, n_jobs, dual, monkeypatch):
    change_settings(monkeypatch, dual_after=-1 if dual else 10**18)
    e, X, best = hard(sense)
    plain = SENSES[sense](e, X, rng=0, n_jobs=n_jobs)
    change_settings(monkeypatch, long_step=-1)
    res = SENSES[sense](e, X, rng=0, n_jobs=n_jobs)
    assert res.fun == res.bound == plain.fun == plain.bound == best
    assert (res.nodes, res.nfev) == (plain.nodes, plain.nfev)
    assert np.array_equal(res.x, plain.x)


@each_sense
@pytest.mark.parametrize("method", ["auto", "exact", "local"])
@pytest.mark.parametrize("dual", [False, True])
def test_long_steps_end_at_any_moment(sense, method, dual, watched, monkeypatch):
    if dual:
        change_settings(monkeypatch, dual_after=-1)
    e, X, best = hard(sense)
    for n in (1, 2, 5, 20, 60):
        callback, _ = after(n)
        res = SENSES[sense](e, X, callback=callback, rng=0, method=method)
        if method == "local":
            assert np.isnan(res.bound) and np.isfinite(res.fun)
        else:
            check(res, sense, best)
        assert res.status in (Status.STOPPED, Status.OPTIMAL, Status.EVAL_LIMIT)


@each_sense
@pytest.mark.parametrize("seconds", [1e-9, 1e-3, 1e-2])
def test_long_steps_end_by_the_clock(sense, seconds, watched):
    e, X, best = hard(sense)
    check(SENSES[sense](e, X, time_limit=seconds, rng=0), sense, best)
    res = SENSES[sense](hardest()[0], hardest()[1], time_limit=seconds, rng=0)
    check(res, sense)
    assert res.status is Status.TIME_LIMIT and np.isfinite(res.bound)


def test_the_flag_is_set_when_the_time_is_over(monkeypatch):
    """By a clock that goes on by a second whenever it is looked at."""
    ticks = count()
    monkeypatch.setattr(limits.time, "perf_counter", lambda: float(next(ticks)))
    found = Limits(5)
    found.watched = True

    def spin() -> str:
        while not found.flag[0]:
            pass
        return "ended"

    with found:
        assert found.call(spin) == "ended"
        assert found.is_over()
        with pytest.raises(Stopped, match="time limit of 5 s"):
            found.check()


def test_what_a_look_raises_ends_the_thread(monkeypatch):
    found = Limits(None)
    found.watched = True
    found.poll = no_memory

    def spin() -> None:
        while not found.flag[0]:
            pass

    with found, pytest.raises(MemoryError):
        found.call(spin)


def test_limits_are_entered_twice():
    found = Limits(None)
    with found:
        with found:
            pass
        assert found.running
        assert signal.getsignal(signal.SIGINT) == found._on_interrupt
        found.finish()
        end = found.time()
    assert found.time() == end and signal.getsignal(signal.SIGINT) is signal.default_int_handler


# What compiled code leaves behind once it is told to end.


def test_a_descent_that_was_stopped_keeps_the_best_point():
    leaves = random_leaves(3, n_trees=12, most=20)._replace(stop=np.zeros(1, np.int64))
    search = LocalSearch(leaves, np.zeros((2, 3), np.int32), 1e-12, 0)

    def interrupted(function, *arguments):
        value = function(*arguments)
        search.walk.state["lowest"][0] -= 1.0  # as if it had been better on the way
        leaves.stop[0] = 1
        return value

    search.step(2**62)
    before = search.value
    assert before == pytest.approx(value_at(leaves, search.best))
    search.call = interrupted
    search.step(2**62)
    assert search.value == before - 1.0 and search.descents == 1


@pytest.mark.parametrize("kind", [TreeSearch, DualSearch])
def test_kernels_that_are_told_to_end_do_next_to_nothing(kind):
    leaves = random_leaves(0, n_trees=12, most=20)._replace(stop=np.zeros(1, np.int64))
    proof = kind(leaves, 0.0, 0.0, 1)
    leaves.stop[0] = 1
    point = np.zeros(3, np.int32)
    found = proof.advance(10**12, point, np.inf, Threads(1).run)
    assert found == [] and proof.nodes == 0


def test_bounds_of_stopped_proofs_do_not_count(monkeypatch):
    """A proof that ends in the midst of a node has lost it: it looks as if nothing were open."""
    e, X, best = hard("min")

    def lose(self, *_):
        self.searches[0].state["n_open"] = 0
        self.leaves.stop[0] = 1
        return []

    monkeypatch.setattr(TreeSearch, "advance", lose)
    res = treeopt.minimize(e, X, time_limit=1e6, rng=0)
    check(res, "min", best)
    assert res.status is Status.TIME_LIMIT and res.bound < best


def test_heaps_are_shared_as_if_nodes_were_pushed():
    levels = ExactSettings().max_levels
    for n, room in ((2, 2**12), (7, 2**12), (2000, 2**12), (1500, 2 * levels + 100)):
        made = []
        for _ in range(2):
            rng = np.random.default_rng(n)
            giver = tree_search.new_search(random_leaves(0), 0.0, 0.0)
            taker = tree_search.new_search(random_leaves(0), 0.0, 0.0, room=room)
            for bound in rng.integers(0, n // 2 + 1, n):
                tree_search.push(giver.state, giver.heap, np.full(6, bound, np.int32), bound)
            made.append((giver, taker))
        tree_search.share(*made[0])
        _push_one_by_one(*made[1])
        for one, other in zip(*made, strict=True):
            m = int(one.state["n_open"][0])
            assert np.array_equal(one.state, other.state)
            assert np.array_equal(one.heap.bound[:m], other.heap.bound[:m])
            assert np.array_equal(one.heap.node[:m], other.heap.node[:m])
            nodes = one.heap.node[:m]
            assert np.array_equal(one.heap.pool[nodes], other.heap.pool[nodes])
            unused = slice(0, int(one.state["n_unused"][0]))
            assert np.array_equal(one.heap.unused[unused], other.heap.unused[unused])


def _push_one_by_one(giver, taker) -> None:
    n = int(giver.state["n_open"][0])
    order = np.argsort(giver.heap.bound[:n], kind="stable")
    bounds, boxes = giver.heap.bound[order], giver.heap.pool[giver.heap.node[order]]
    for search in (giver, taker):
        room = search.heap.bound.size
        search.state["n_open"], search.state["n_unused"] = 0, room
        search.heap.unused[:] = np.arange(room)
    room = taker.heap.bound.size - 2 * taker.level.size
    for i in range(n):
        to = taker if i % 2 == 1 and i // 2 < room else giver
        tree_search.push(to.state, to.heap, boxes[i], bounds[i])


def test_a_pool_that_has_no_time_to_grow_stays_as_it_is():
    search = tree_search.new_search(random_leaves(0), 0.0, 0.0)
    assert tree_search.grown(search, 10, lambda: True) is search
    looks = []
    larger = tree_search.grown(search, 10, lambda: bool(looks.append(1)), copied_bytes=100)
    assert len(looks) > search.heap.pool.nbytes // 100 and ExactSettings().copied_bytes > 10**6
    assert np.array_equal(larger.heap.pool[: len(search.heap.pool)], search.heap.pool)
    assert larger.state["n_unused"][0] == larger.heap.bound.size


# Categories.


@pytest.mark.parametrize("seed", range(4))
def test_categories_are_left_out_in_parts(seed, monkeypatch):
    """The limits are looked at in between, and the result is the same."""
    made, _, _ = model("categories")
    e = treeopt.from_model(made)
    rng = np.random.default_rng(seed)
    problem = problem_of(e, rng)
    if problem is None:
        return
    starts = rng.integers(
        np.diff(problem.places.start), size=(3, problem.places.free.size), dtype=np.int32
    )
    always = ExactSettings(min_boxes_per_leaf=-1)
    whole = reduction.reduce_places(problem, starts, Limits(None), always)
    looks = []
    found = Limits(None)
    monkeypatch.setattr(found, "check", lambda: looks.append(1))
    small = replace(always, reduction_slice=50, reduction_leaves=3)
    parts = reduction.reduce_places(problem, starts, found, small)
    assert np.array_equal(whole[1], parts[1]) and len(looks) > 20
    assert all(map(np.array_equal, whole[0].cells, parts[0].cells))


def test_places_are_ordered_by_the_nearest(monkeypatch):
    made, X, _ = model("categories")
    e = treeopt.from_model(made)
    cells = e.compiled.cells
    (j, *_) = np.flatnonzero(cells.has_sets)
    found = problem_for(e, bounds=X).places
    places = np.sort(found.cells[j])
    keys = np.stack([cells.keys_of(s)[places] for s in cells.slots_of(int(j))], axis=1)
    bits = np.unpackbits(np.ascontiguousarray(keys).view(np.uint8), axis=1)
    order, rest = [0], list(range(1, places.size))
    while rest:
        apart = [(bits[k] != bits[order[-1]]).sum() for k in rest]
        order.append(rest.pop(int(np.argmin(apart))))
    assert found.cells[j].tolist() == places[order].tolist()
    monkeypatch.setattr(places_module, "SLOTS_AT_ONCE", 1)
    assert np.array_equal(found._group_alike(int(j), places), places[order])
    found._limits = Limits(1e-9)
    with found._limits:
        assert np.array_equal(found._group_alike(int(j), places), places)


# Memory.


@each_sense
@pytest.mark.parametrize(
    ("where", "what", "n"),
    [
        (list_leaves, "list_boxes", 1),
        (solver, "Certificate", 1),
        (LocalSearch, "__init__", 1),
        (LocalSearch, "descend_from", 1),
        (LocalSearch, "descend_from", 3),
        (tree_search, "new_search", 1),
        (tree_search, "advance", 1),
        (tree_search, "advance", 3),
        (tree_search, "grown", 1),
        (dual_search, "whole_part", 1),
        (dual_search, "shrink", 4),
        (dual_search, "ascend", 9),
        (dual_search.DualSearch, "_put", 5),
    ],
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_memory_runs_out(sense, where, what, n, n_jobs, monkeypatch):
    e, X, best = hard(sense)
    change_settings(monkeypatch, first_work=1, max_work=400)
    if where in (dual_search, DualSearch):
        change_settings(monkeypatch, dual_after=-1)
    if what == "grown":
        small = partial(tree_search.new_search, room=2 * ExactSettings().max_levels + 3)
        monkeypatch.setattr(tree_search, "new_search", small)
        change_settings(monkeypatch, plunge_nodes=3)
    monkeypatch.setattr(where, what, at_call(n, no_memory, getattr(where, what)))
    res = SENSES[sense](e, X, rng=0, n_jobs=n_jobs)
    check(res, sense, best)
    assert res.status is Status.STOPPED and not res.success and np.isfinite(res.bound)
    assert res.message.startswith("memory ran out")


def test_memory_runs_out_in_stepdirect(monkeypatch):
    e, X = hardest()
    monkeypatch.setattr(stepdirect_driver, "grown", at_call(2, no_memory, stepdirect_driver.grown))
    res = treeopt.minimize(e, X, method="stepdirect", max_evals=10**6, rng=0)
    check(res)
    assert (res.status, res.message) == (Status.STOPPED, "memory ran out") and res.nfev > 100


# Ctrl-C.

PHASES = [
    (decide, "read_choices"),
    (Choices, "fix"),
    (Places, "_admissible"),
    (attempt, "compile_once"),
    (attempt, "find_starts"),
    (attempt, "reduce_places"),
    (solver, "list_leaves"),
    (list_leaves, "list_boxes"),
    (solver, "Certificate"),
    (LocalSearch, "descend_from"),
    (TreeSearch, "advance"),
]


@each_sense
@pytest.mark.parametrize(("where", "what"), PHASES)
@pytest.mark.parametrize("long", [False, True])
def test_ctrl_c_in_any_phase(sense, where, what, long, monkeypatch):
    if long:
        change_settings(monkeypatch, long_step=-1)
    monkeypatch.setattr(where, what, at_call(1, press, getattr(where, what)))
    e, X = hardest()
    res = SENSES[sense](e, X, rng=0)
    check(res, sense)
    assert res.status is Status.STOPPED and np.isfinite(res.bound)
    assert res.message.startswith("interrupted from the keyboard")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("where", "what"), PHASES)
def test_ctrl_c_twice_in_any_phase(where, what, monkeypatch):
    def twice() -> None:
        press()
        press()

    monkeypatch.setattr(where, what, at_call(1, twice, getattr(where, what)))
    e, X = hardest()
    with pytest.raises(KeyboardInterrupt):
        treeopt.minimize(e, X, rng=0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_the_result_is_put_together(monkeypatch):
    """It is complete by then."""
    e, X, best = hard("min")
    monkeypatch.setattr(Places, "region", at_call(1, press, Places.region))
    res = treeopt.minimize(e, X, rng=0)
    assert res.status is Status.OPTIMAL and res.fun == best


def test_ctrl_c_during_conversion_is_raised(monkeypatch):
    monkeypatch.setattr(Compiled, "prepare", at_call(1, press, Compiled.prepare))
    e, X = hardest()
    with pytest.raises(KeyboardInterrupt):
        treeopt.minimize(e, X, rng=0)


@pytest.mark.parametrize("step", ["_compile_points", "_compile_boxes", "_compile_descents"])
def test_ctrl_c_during_compilation_leaves_the_rest(step, monkeypatch):
    def too_much() -> None:
        raise AssertionError

    monkeypatch.setattr(precompile, step, press)
    monkeypatch.setattr(precompile, "_compile_proof", too_much)
    e, X = hardest()
    res = treeopt.minimize(e, X, rng=0)
    check(res)
    assert res.status is Status.STOPPED and "before the search began" in res.message


def test_ctrl_c_during_compilation_of_the_dual(monkeypatch):
    change_settings(monkeypatch, dual_after=-1)
    monkeypatch.setattr(precompile, "_compile_parts", press)
    e, X = hardest()
    res = treeopt.minimize(e, X, rng=0)
    check(res)
    assert res.status is Status.STOPPED and len(res.history)


@pytest.mark.parametrize(
    ("where", "what"), [(decide, "read_choices"), (Choices, "fix"), (Places, "_admissible")]
)
def test_ctrl_c_before_stepdirect(where, what, monkeypatch):
    monkeypatch.setattr(where, what, at_call(1, press, getattr(where, what)))
    e, X = hardest()
    res = treeopt.minimize(e, X, method="stepdirect", max_evals=10**9, rng=0)
    check(res)
    assert res.status is Status.STOPPED and "keyboard" in res.message


# What is kept between two calls.


@pytest.mark.parametrize("n", [1, 20, 10**9])
@pytest.mark.parametrize("long", [False, True])
def test_nothing_holds_the_search_when_it_is_over(n, long, monkeypatch):
    """Its arrays are large: they do not wait for the garbage collector."""
    if long:
        change_settings(monkeypatch, long_step=-1)
        monkeypatch.setattr(limits, "POLL_INTERVAL", 1e-4)
    made = []
    init = solver.Solver.__init__

    def noted(self, *arguments):
        made.append(weakref.ref(self))
        init(self, *arguments)

    monkeypatch.setattr(solver.Solver, "__init__", noted)
    e, X, _ = hard("min")
    gc.disable()
    try:
        treeopt.minimize(e, X, rng=0, callback=after(n)[0])
        assert made and made[-1]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("kind", ["forest", "boosting classifier", "lightgbm"])
def test_a_signed_ensemble_is_the_margin(kind, sign):
    made, X, _ = model(kind)
    e = treeopt.from_model(made)
    signed = e.signed(sign)
    assert signed is e.signed(sign) and signed.compiled.cells is e.compiled.cells
    assert np.array_equal(signed.predict(X), sign * e.margin(X))
