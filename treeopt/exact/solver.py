"""Search and proof together: the best point of a grid and a bound on all others.

The two help each other. A good point lets the proof drop most of the grid, and the proof says when
there is nothing left to look for. So they take turns, counted in the work that they do rather than
in seconds: the result does not depend on the speed of the machine unless a limit ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.errors import InputError
from treeopt.exact.certificate import Certificate
from treeopt.exact.descent import LocalSearch
from treeopt.exact.dual_search import DualSearch
from treeopt.exact.tree_search import TreeSearch
from treeopt.model.stand_ins import staircase
from treeopt.problem.leaves import Leaves, restrict
from treeopt.run.limits import LOOK_EVERY, Limits

if TYPE_CHECKING:
    from treeopt.problem.grid import Grid
    from treeopt.types import Array

MS = 1_000_000
"""A millisecond of work: work is counted, in nanoseconds that it takes on a typical machine."""

START_WORK = MS // 2
"""Work of the local search before the proof begins."""

FIRST_WORK, MOST_WORK = MS // 2, 20 * MS
"""Work of the first turn of the proof; each next turn has twice that of the one before, up to the
most. Then limits, signals and the callback get a look."""

SHARE, LATER_SHARE = 0.3, 0.05
"""Work of the local search for each unit of the proof's: at first, and once it is of no use."""

PATIENCE = 100
"""So many descents without success, and the local search is of no use for now."""

DUAL_AFTER = 300 * MS
"""After so much work of the plain tree search, the one with the stronger bound joins in."""

RACE = 1000 * MS
"""After so much work of both, only the one with the better bound goes on."""

SLICE_BOXES = 50_000
"""After so many boxes are listed, the limits get a look."""

LONG_STEPS = 20_000_000
"""Numbers that the longest step without a look may read, or a thread does the steps."""

PASSES = 60
"""Passes over all boxes that a descent makes, about."""

COPIED_AT_ONCE = 1_000_000
"""Numbers that are copied between two looks at the limits."""

MAX_BOXES = 20_000_000
"""More boxes than this are refused: sets of categories along several features multiply."""


def list_leaves(grid: Grid, sign: float, limits: Limits) -> Leaves:
    """Return the boxes of all leaves that the grid leaves reachable."""
    ensemble, compiled = grid.ensemble, grid.ensemble.compiled
    cells = compiled.cells
    n_features = cells.columns.size
    free = np.full(n_features, -1, np.int64)
    free[grid.free] = np.arange(grid.free.size)
    below_start = np.cumsum(np.append(0, cells.n_cells))
    below = np.zeros(int(below_start[-1]), np.int64)
    for j in grid.free:
        if grid.ordered[j]:
            n = int(cells.n_cells[j])
            below[below_start[j] : below_start[j] + n] = _up_to_each(grid.cells[j], n)
            limits.check_long()
    place_cell = np.empty(int(grid.place_start[-1]), np.int64)
    for k, j in enumerate(grid.free):
        if not grid.ordered[j]:
            place_cell[grid.place_start[k] : grid.place_start[k + 1]] = grid.cells[j]
    arguments = (
        ensemble.left,
        ensemble.right,
        cells.node_slot,
        cells.node_rank,
        cells.node_bit,
        compiled.leaves[0],
        compiled.depth,
        cells.slot_feature,
        cells.slot_table,
        cells.lut,
        ensemble.tree_start,
        compiled.leaf_start,
        compiled.leaf_order,
        compiled.leaf_value.astype(np.float64, copy=False),
        sign,
        free,
        np.array([places[0] for places in grid.cells], np.int64),
        np.array([grid.ordered[j] for j in grid.free], np.bool_),
        grid.place_start,
        place_cell,
        below_start,
        below,
    )
    room = ensemble.n_leaves
    while True:
        p = grid.free.size
        value, leaf = np.empty(room), np.empty(room, np.int32)
        low, high = np.empty((p, room), np.int32), np.empty((p, room), np.int32)
        start = np.empty(ensemble.n_trees + 1, np.int64)
        t = n = 0
        boxes = (value, low, high, leaf, start)
        space_for = (
            np.empty((room, 2 * p), np.int32),
            np.empty(ensemble.n_leaves, np.int64),
            np.empty(ensemble.n_leaves, np.int32),
        )
        while t < ensemble.n_trees:
            if t > 0 or limits.watched:
                limits.check()
            most = (n + SLICE_BOXES, MAX_BOXES)
            rest = (t, n, *most, *space_for, limits.flag)
            t, n = limits.call(restrict, *arguments, *boxes, *rest)
            if n > MAX_BOXES:
                raise InputError(
                    f"categories leave so many combinations that the leaves of {ensemble.source} "
                    f"are more than {MAX_BOXES} boxes. List fewer of them in categories, or fix "
                    "some features."
                )
        if n <= room:
            break
        room = n
    limits.check_long()
    constant = sign * ensemble.base
    low, high = _first_columns(low, n, limits), _first_columns(high, n, limits)
    places = grid.place_start
    return Leaves(value[:n], low, high, leaf[:n], start, places, constant, limits.flag)


def _up_to_each(cells: Array, n: int) -> Array:
    """Return how many of some ascending cells are not above each of ``n`` numbers."""
    numbers = np.arange(n)
    if cells[-1] - cells[0] == cells.size - 1:
        counts: Array = np.clip(numbers - cells[0] + 1, 0, cells.size)
        return counts
    return np.searchsorted(cells, numbers, side="right")


def _first_columns(table: Array, n: int, limits: Limits) -> Array:
    """Return the first columns of a table, side by side in memory."""
    if n == table.shape[1] or table.shape[0] * n <= COPIED_AT_ONCE:
        return np.ascontiguousarray(table[:, :n])
    copied = np.empty((table.shape[0], n), table.dtype)
    for k, row in enumerate(table):
        limits.check_long()
        copied[k] = row[:n]
    return copied


def has_long_steps(grid: Grid) -> bool:
    """Tell whether single steps of the search may take longer than a look at the limits can wait.

    A descent passes all boxes, once along each feature and then for each move. Other steps look at
    all places for each tree or, where these have no order, for each leaf.
    """
    e, p = grid.ensemble, grid.free.size
    places = int(grid.place_start[-1])
    in_order = all(grid.ordered[j] for j in grid.free)
    lines = e.n_trees if in_order else e.n_leaves
    return bool(e.n_leaves * (p + PASSES) + lines * places > LONG_STEPS)


class Solver:
    """One run: where search and proof stand.

    Attributes
    ----------
    best : int32 array
        The places of the best point.
    value : float
        The sum of its leaves; smaller is better.
    proven : bool
        Whether nothing better is left.
    """

    def __init__(self, grid: Grid, sign: float, starts: Array, seed: int, limits: Limits) -> None:
        self.grid, self.limits = grid, limits
        self.leaves = list_leaves(grid, sign, limits)
        limits.check_long()
        self.certificate = Certificate(grid.ensemble, self.leaves, sign)
        self.noise = self.certificate.noise
        self.local = LocalSearch(self.leaves, starts, self.noise, seed, limits.call)
        self.best, self.value = self.local.best, np.inf
        self.proofs: list[TreeSearch | DualSearch] = []
        self.dropped_nodes = 0
        # Every tree at its best.
        self.least = float(self.leaves.constant + self.leaves.value[self.leaves.start[:-1]].sum())
        self.proven = False

    @property
    def nodes(self) -> int:
        """The number of nodes so far."""
        return self.dropped_nodes + sum(proof.nodes for proof in self.proofs)

    @property
    def evaluations(self) -> int:
        """The number of points so far at which all lines were looked at."""
        return self.local.passes

    def improve(self, most: int, check: Callable[[], None]) -> None:
        """Search until ``check`` raises an exception, or there is nothing to choose."""
        watch = Watch(check, self.limits)
        while True:
            self.local.step(most)
            self._take(self.local.best, self.local.value)
            watch.check()
            if not self.best.size:
                return

    def prove(self, most: int, check: Callable[[], None], n_jobs: int, with_local: bool) -> None:
        """Prove the optimum, unless ``check`` raises an exception first."""
        watch = Watch(check, self.limits)
        self.local.step(most)
        while with_local and self.best.size and self.local.starts:
            enough = self.local.work >= START_WORK or self.local.passes >= most
            if enough or self.limits.flag[0]:
                break
            self.local.step(most)
        self._take(self.local.best, self.local.value)
        watch.end_if_told()
        self.certificate.tighten(-np.inf, self.value)
        margin = 2 * self.certificate.margin + 4 * self.noise
        self.proofs = [TreeSearch(self.leaves, self.noise, margin, n_jobs, self.limits.is_over)]
        work, joined = FIRST_WORK, False
        with Threads(n_jobs, self.limits) as threads:
            while not self.proven:
                if self.proofs[0].spent > DUAL_AFTER and not joined:
                    joined = True
                    compile_dual(self.limits)
                    if self.limits.interrupted:
                        self.limits.check()
                    setting = (self.noise, margin, n_jobs, watch.is_over)
                    dual = self.limits.call(DualSearch, self.leaves, *setting)
                    watch.end_if_told()
                    self.proofs.append(dual)
                self._turn(work, most, with_local, threads, watch)
                watch.check()
                work = min(2 * work, MOST_WORK)

    def _turn(self, work: int, most: int, with_local: bool, threads: Threads, watch: Watch) -> None:
        """Let all go on for a while, and take over what they find.

        If they were told to end in the midst of it, their bounds are of no use.
        """
        for proof in self.proofs:
            if proof is not self.proofs[0] and self.limits.is_over():
                break
            for point in proof.advance(work, self.best, self.value, threads.run):
                total = float(self.grid.sum_at(point[None, :])[0])
                self._take(point, self.certificate.sign * total)
                if self.local.passes < most and not self.limits.flag[0]:
                    self.local.descend_from(point, most)
            self._take(self.local.best, self.local.value)
            watch.end_if_told()
        if with_local and not self.limits.is_over():
            self._search_for_a_while(most)
            self._take(self.local.best, self.local.value)
            watch.end_if_told()
        for proof in self.proofs:
            ties = [bound for bound, _ in proof.ties]
            self.least = max(self.least, min([proof.bound, proof.tie_bound, self.value, *ties]))
        finished = [proof for proof in self.proofs if not proof.is_open]
        if finished:
            self._drop_all_but(finished[0])
            self.proven = True
        elif len(self.proofs) > 1 and sum(proof.spent for proof in self.proofs) > RACE:
            self._drop_all_but(max(self.proofs, key=lambda proof: proof.bound))

    def release(self) -> None:
        """Give memory back: the proofs go on no more. What is known stays."""
        self.dropped_nodes, self.proofs = self.nodes, []

    def _drop_all_but(self, proof: TreeSearch | DualSearch) -> None:
        """Go on with one proof alone."""
        self.certificate.extra = proof.noise
        self.dropped_nodes = self.nodes - proof.nodes
        self.proofs = [proof]

    def _search_for_a_while(self, most: int) -> None:
        """Give the local search its share of the work."""
        local = self.local
        share = SHARE if local.in_vain < PATIENCE else LATER_SHARE
        spent = sum(proof.spent for proof in self.proofs)
        stop = min(share * spent, local.work + MOST_WORK)
        while self.best.size and local.work < stop and local.passes < most:
            local.step(most)
            if self.limits.is_over():
                return

    def _take(self, point: Array, value: float) -> None:
        """Note a point if it is better than the best."""
        if value < self.value:
            self.value, self.best = value, point.copy()

    def margin_bound(self, best: float, final: bool) -> float:
        """Return the least margin that a point can have; ``best`` is that of the best point.

        Both have the sign of the search. In the end, ties are judged by the model's own sums.
        """
        certificate = self.certificate
        if self.proven or final:
            certificate.tighten(self.least, self.value)
        if not self.proven or not final:
            return min(best, certificate.margin_of(self.least))
        proof = self.proofs[0]
        bounds = [best, certificate.margin_of(proof.tie_bound)]
        for bound, box in proof.ties:
            least = certificate.margin_of(bound)
            if least < best and not self.limits.is_over():
                least = max(least, certificate.margin_of_box(box))
            bounds.append(least)
        return min(bounds)


class Watch:
    """Looks at the limits, and reports, in the midst of long steps.

    What ends the run is kept until the step is left. Only the thread that made it reports.
    """

    def __init__(self, check: Callable[[], None], limits: Limits) -> None:
        self._check, self._limits = check, limits
        self._thread, self._last = get_ident(), perf_counter()
        self._ended: BaseException | None = None
        limits.look = self.is_over

    def is_over(self) -> bool:
        """Tell whether the run has to end."""
        waited = perf_counter() - self._last >= LOOK_EVERY
        if self._ended is None and waited and get_ident() == self._thread:
            self._last = perf_counter()
            try:
                self._check()
            except BaseException as end:
                self._ended = end
        return self._ended is not None or self._limits.is_over()

    def end_if_told(self) -> None:
        """Raise what ends the run, if compiled code was told to end."""
        if self._limits.flag[0]:
            self.check()
            self._limits.check()

    def check(self) -> None:
        """Raise what ends the run."""
        if self._ended is not None:
            ended, self._ended = self._ended, None
            try:
                raise ended
            finally:
                del ended  # or it holds itself, and all arrays of the search, for a while
        self._last = perf_counter()
        self._check()


class Threads:
    """Runs a function for several items, on threads if there are any.

    Meanwhile limits, signals and the callback get a look.
    """

    def __init__(self, n: int, limits: Limits | None = None) -> None:
        self.pool = ThreadPoolExecutor(n, thread_name_prefix="treeopt") if n > 1 else None
        self.limits = Limits(None) if limits is None else limits

    def run(self, function: Callable[..., Any], items: Iterable[Any], *rest: Any) -> list[Any]:
        """Return what the function returns for each item and the rest."""
        if self.pool is None:
            return [self.limits.call(function, item, *rest) for item in items]
        futures = [self.pool.submit(function, item, *rest) for item in items]
        self.limits.wait_for(futures)
        return [future.result() for future in futures]

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown()


def compile_once(limits: Limits) -> None:
    """Compile, or load from the disk cache, what every proof needs: no time limit covers it.

    After Ctrl-C, what is not compiled yet is left: then there is no proof.
    """
    with limits.pause():
        for step in (_compile_points, _compile_boxes, _compile_descents, _compile_proof):
            if not limits.interrupted:
                step()


def compile_dual(limits: Limits) -> None:
    """Do the same for what only longer proofs need."""
    with limits.pause():
        for step in (_compile_parts, _compile_prices):
            if not limits.interrupted:
                step()


@cache
def _compile_points() -> None:
    grid, point = _stand_in(), np.zeros((1, 1), np.int32)
    grid.region(point[0])
    grid.margin_at(point)


@cache
def _compile_boxes() -> None:
    list_leaves(_stand_in(), 1.0, Limits(None))


@cache
def _compile_descents() -> None:
    _solver().local.step(2)


@cache
def _compile_proof() -> None:
    solver = _solver()
    solver.prove(2, lambda: None, 1, with_local=True)
    solver.margin_bound(0.0, final=True)


@cache
def _compile_parts() -> None:
    dual = DualSearch(_solver().leaves, 0.0, 0.0, 1, is_over=lambda: True)
    dual.advance(1, np.zeros(1, np.int32), np.inf, Threads(1).run)


@cache
def _compile_prices() -> None:
    dual = DualSearch(_solver().leaves, 0.0, 0.0, 1)
    dual.advance(1, np.zeros(1, np.int32), np.inf, Threads(1).run)


def _solver() -> Solver:
    """Return a solver for a small problem."""
    return Solver(_stand_in(), 1.0, np.zeros((1, 1), np.int32), 0, Limits(None))


def _stand_in() -> Grid:
    """Return the grid of a small problem."""
    from treeopt.problem.grid import Grid
    from treeopt.problem.space import read_space

    ensemble = staircase(4, np.float64)
    return Grid(ensemble, read_space(ensemble, [(0, 3)]))
