"""Search and proof together: the best point of a grid and a bound on all others.

The two help each other. A good point lets the proof drop most of the grid, and the proof says when
there is nothing left to look for. So they take turns, counted in the work that they do rather than
in seconds: the result does not depend on the speed of the machine unless a limit ends the run.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from treeopt.exact import local_search
from treeopt.exact.certificate import Certificate
from treeopt.exact.leaves import Leaves, restrict
from treeopt.exact.local_search import HOME, MOVES, PASSES
from treeopt.exact.tree_search import (
    BEST,
    FULL,
    HEAP,
    NODES,
    PLUNGE,
    ROUNDS,
    SPENT,
    TIE_BOUND,
    TIES,
    advance,
    grown,
    is_unfinished,
    new_search,
    open_bound,
    share,
)
from treeopt.stand_ins import staircase

if TYPE_CHECKING:
    from treeopt.ensemble import Array, Ensemble
    from treeopt.exact.tree_search import Search
    from treeopt.grid import Grid

FIRST_WORK, MOST_WORK = 20_000, 4_000_000
"""Work of the first turn of the proof, in boxes looked at; each next turn has twice that of the one
before, up to the most, which takes some 20 ms. Then limits, signals and the callback get a look."""

PLUNGE_NODES = 100
"""Nodes of a plunge before the best open node is looked for again."""

SHARE, LATER_SHARE = 0.5, 0.05
"""Work of the local search for each unit of the proof's: at first, and once it is of no use."""

PATIENCE = 100
"""So many kicks without success, and the local search is of no use for now."""

MERGE_AFTER = 1000
"""From so many nodes on, the first node of each plunge has its trees merged."""

MERGE_ROUNDS = 1
"""How often: each round makes one tree of two."""

OPEN_BYTES = 2**30
"""Memory for open nodes: beyond that a plunge goes on until nothing below it is open."""


def list_leaves(ensemble: Ensemble, grid: Grid, sign: float) -> Leaves:
    """Return the boxes of all leaves that the grid leaves reachable."""
    compiled = ensemble.compiled
    cells = compiled.cells
    n_features = cells.columns.size
    free = np.full(n_features, -1, np.int64)
    free[grid.free] = np.arange(grid.free.size)
    below_start = np.cumsum(np.append(0, cells.n_cells))
    below = np.zeros(int(below_start[-1]), np.int64)
    for j in grid.free:
        if grid.ordered[j]:
            n = int(cells.n_cells[j])
            counts = np.searchsorted(grid.cells[j], np.arange(n), side="right")
            below[below_start[j] : below_start[j] + n] = counts
    place_cell = [grid.cells[j] for j in grid.free]
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
        compiled.leaf_value.astype(np.float64),
        sign,
        free,
        np.array([places[0] for places in grid.cells], np.int64),
        np.array([grid.ordered[j] for j in grid.free], np.bool_),
        grid.place_start,
        np.concatenate(place_cell).astype(np.int64) if place_cell else np.empty(0, np.int64),
        below_start,
        below,
    )
    room = ensemble.n_leaves
    while True:
        p = grid.free.size
        value, leaf = np.empty(room), np.empty(room, np.int32)
        low, high = np.empty((p, room), np.int32), np.empty((p, room), np.int32)
        start = np.empty(ensemble.n_trees + 1, np.int64)
        n = int(restrict(*arguments, value, low, high, leaf, start))
        if n <= room:
            break
        room = n
    constant = sign * (ensemble.base + ensemble.tail_base)
    low, high = np.ascontiguousarray(low[:, :n]), np.ascontiguousarray(high[:, :n])
    return Leaves(value[:n], low, high, leaf[:n], start, grid.place_start, constant)


class Solver:
    """One run: where search and proof stand.

    Attributes
    ----------
    best : int32 array
        The places of the best point.
    value : float
        The sum of its leaves; smaller is better.
    """

    def __init__(
        self, ensemble: Ensemble, grid: Grid, sign: float, starts: Array, seed: int
    ) -> None:
        self.starts = list(starts)
        self.leaves = list_leaves(ensemble, grid, sign)
        self.certificate = Certificate(ensemble, self.leaves, sign)
        self.noise = self.certificate.noise
        self.walk = local_search.new_walk(self.leaves, seed)
        self.best = np.zeros(grid.free.size, np.int32)
        self.value = np.inf
        self.searches: list[Search] = []
        self.proven = False
        self.in_vain = 0

    @property
    def nodes(self) -> int:
        """The number of nodes so far."""
        return sum(int(search.counter[NODES]) for search in self.searches)

    @property
    def evaluations(self) -> int:
        """The number of points so far at which all lines were looked at."""
        return int(self.walk.counter[PASSES])

    def descend_from(self, point: Array, most: int) -> None:
        """Descend from a point."""
        local_search.go_to(self.leaves, self.walk, point)
        local_search.descend(self.leaves, self.walk, self.noise, most)
        self._take(self.walk.home, float(self.walk.value[HOME]))

    def improve(self, most: int, check: Callable[[], None]) -> None:
        """Kick and descend, until ``check`` raises an exception."""
        self._kick(most)
        check()
        while self.best.size:
            self._kick(most)
            check()

    def prove(self, most: int, check: Callable[[], None], n_jobs: int, kicks: bool) -> None:
        """Prove the optimum, unless ``check`` raises an exception first.

        The first start is descended from at once, the others before any kick.
        """
        self._kick(most)
        check()
        margin = 2 * self.certificate.margin + 4 * self.noise
        for job in range(n_jobs):
            self.searches.append(new_search(self.leaves, 2 * self.noise, margin))
            self.searches[-1].counter[PLUNGE] = PLUNGE_NODES
            if job:
                self.searches[-1].counter[HEAP] = 0
        work = FIRST_WORK
        with ThreadPoolExecutor(n_jobs) as pool:
            while not self.proven:
                tasks = [partial(self._advance, job, work) for job in range(n_jobs)]
                if kicks:
                    tasks.append(partial(self._kick_for_a_while, most))
                for search in self.searches:
                    self._tell(search)
                if n_jobs == 1:
                    for task in tasks:
                        task()
                else:
                    for future in [pool.submit(task) for task in tasks]:
                        future.result()
                self._collect(most)
                check()
                work = min(2 * work, MOST_WORK)

    def _kick(self, most: int) -> None:
        """Descend from the next start, or from near the best point if there is none left."""
        before = self.walk.value[HOME]
        if self.starts:
            self.descend_from(self.starts.pop(0), most)
        else:
            local_search.kick(self.leaves, self.walk, self.noise, most)
        self.in_vain = 0 if self.walk.value[HOME] < before else self.in_vain + 1
        self._take(self.walk.home, float(self.walk.value[HOME]))

    def _kick_for_a_while(self, most: int) -> None:
        """Give the local search its share of the work."""
        if not self.best.size:
            return
        share = SHARE if self.in_vain < PATIENCE else LATER_SHARE
        spent = sum(int(search.counter[SPENT]) for search in self.searches)
        begin = self._walked()
        while self._walked() < share * spent and self._walked() < begin + MOST_WORK:
            self._kick(most)

    def _walked(self) -> int:
        """Return the work of the local search so far."""
        return int(self.walk.counter[PASSES] + self.walk.counter[MOVES]) * self.leaves.value.size

    def _advance(self, job: int, work: int) -> None:
        """Let a search go on."""
        search = self.searches[job]
        search.counter[ROUNDS] = MERGE_ROUNDS if search.counter[NODES] >= MERGE_AFTER else 0
        if advance(self.leaves, search, work) == FULL:
            if 2 * search.pool.nbytes <= OPEN_BYTES:
                self.searches[job] = grown(search)
            else:
                # No room: as deep as it goes.
                search.counter[PLUNGE] = 2**62

    def _tell(self, search: Search) -> None:
        """Tell a search of a better point."""
        if self.value < search.number[BEST]:
            search.number[BEST] = self.value
            search.best[:] = self.best

    def _collect(self, most: int) -> None:
        """Take over what the searches have found, and share what is open among them."""
        for search in self.searches:
            if search.number[BEST] < self.value:
                self._take(search.best, float(search.number[BEST]))
                self.descend_from(search.best, most)
                self.in_vain = 0
        is_open = [is_unfinished(search) for search in self.searches]
        self.proven = not any(is_open)
        if not all(is_open) and any(is_open):
            giver = max(self.searches, key=lambda search: int(search.counter[HEAP]))
            for search, busy in zip(self.searches, is_open, strict=True):
                if not busy:
                    share(giver, search)

    def _take(self, point: Array, value: float) -> None:
        """Note a point if it is better than the best."""
        if value < self.value:
            self.value, self.best = value, point.copy()

    def margin_bound(self, best: float, final: bool) -> float:
        """Return the least margin that a point can have; ``best`` is that of the best point.

        Both have the sign of the search. In the end, ties are judged by the model's own sums.
        """
        if not self.searches:
            return -np.inf
        certificate = self.certificate
        bounds = [best]
        for search in self.searches:
            loose = min(open_bound(search), float(search.number[TIE_BOUND]))
            bounds.append(certificate.margin_of(loose))
            for i in range(search.counter[TIES]):
                least = certificate.margin_of(float(search.tie_bound[i]))
                if final and least < best:
                    least = max(least, certificate.margin_of_box(search.tie_box[i]))
                bounds.append(least)
        return min(bounds)


@cache
def compile_once() -> None:
    """Compile, or load from the disk cache, all kernels: so that no time limit has to cover it."""
    from treeopt.grid import Grid
    from treeopt.space import read_space

    ensemble = staircase(4, np.float64)
    grid = Grid(ensemble, read_space(ensemble, [(0, 3)]))
    solver = Solver(ensemble, grid, 1.0, np.zeros((1, 1), np.int32), 0)
    solver.prove(2, lambda: None, 1, kicks=True)
    local_search.kick(solver.leaves, solver.walk, 0.0, 2**62)
    grid.region(solver.best)
    grid.margin_at(solver.best[None, :])
    solver.margin_bound(0.0, final=True)
