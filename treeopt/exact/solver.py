"""Search and proof together: the best point of a problem and a bound on all others.

The two help each other. A good point lets the proof drop most of the grid, and the proof says when
there is nothing left to look for. So they take turns, counted in the work that they do rather than
in seconds: the result does not depend on the speed of the machine unless a limit ends the run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treeopt.exact.certificate import Certificate
from treeopt.exact.compiling import compile_dual
from treeopt.exact.descent import LocalSearch
from treeopt.exact.dual_search import DualSearch
from treeopt.exact.tree_search import TreeSearch
from treeopt.problem.boxes import list_leaves
from treeopt.problem.places import Places
from treeopt.problem.problem import Problem
from treeopt.run.run import Run
from treeopt.run.watch import Threads, Watch
from treeopt.types import Int32Array

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
"""After this many descents without success, the local search is of no use for now."""

DUAL_AFTER = 300 * MS
"""After so much work of the plain tree search, the one with the stronger bound joins in."""

RACE = 1000 * MS
"""After so much work of both, only the one with the better bound goes on."""


class Solver:
    """One run: how search and proof stand.

    Attributes
    ----------
    places : Places
        The places that the search works on.
    best : int32 array
        The best point, as places.
    value : float
        The signed sum of its leaves; smaller is better.
    lowest : float
        No signed sum is below this.
    proven : bool
        Whether nothing better is left.
    """

    def __init__(self, problem: Problem, places: Places, starts: Int32Array, run: Run) -> None:
        self.problem, self.places, self.run, self.limits = problem, places, run, run.limits
        self.leaves = list_leaves(problem, places, self.limits)
        self.limits.check_long()
        self.certificate = Certificate(problem.objective, self.leaves)
        error = self.certificate.search_error
        self.local = LocalSearch(self.leaves, starts, error, run.seed, self.limits.call)
        self.best, self.value = self.local.best, np.inf
        self.proofs: list[TreeSearch | DualSearch] = []
        self.dropped_nodes = 0
        # Every tree at its best.
        self.lowest = float(self.leaves.constant + self.leaves.value[self.leaves.start[:-1]].sum())
        self.proven = False

    @property
    def nodes(self) -> int:
        """Number of nodes so far."""
        return self.dropped_nodes + sum(proof.nodes for proof in self.proofs)

    @property
    def evaluations(self) -> int:
        """Number of points so far at which all lines were looked at."""
        return self.local.passes

    def improve(self, check: Callable[[], None]) -> None:
        """Search until ``check`` raises an exception, or there is nothing to choose."""
        watch = Watch(check, self.limits)
        while True:
            self.local.step(self.run.max_evals)
            self._take(self.local.best, self.local.value)
            watch.check()
            if not self.best.size:
                return

    def prove(self, check: Callable[[], None], with_local: bool) -> None:
        """Prove the optimum, unless ``check`` raises an exception first."""
        watch = Watch(check, self.limits)
        self._search_at_first(with_local)
        watch.end_if_told()
        certificate, n_jobs = self.certificate, self.run.n_jobs
        certificate.tighten(-np.inf, self.value)
        error = certificate.search_error
        tolerance = 2 * certificate.model_error + 4 * error
        self.proofs = [TreeSearch(self.leaves, error, tolerance, n_jobs, self.limits.is_over)]
        work, joined = FIRST_WORK, False
        with Threads(n_jobs, self.limits) as threads:
            while not self.proven:
                if self.proofs[0].spent > DUAL_AFTER and not joined:
                    joined = True
                    self._let_dual_join(tolerance, watch)
                self._turn(work, with_local, threads, watch)
                watch.check()
                work = min(2 * work, MOST_WORK)

    def _search_at_first(self, with_local: bool) -> None:
        """Descend from the first start; with the local search, for a while from the others."""
        max_evals, local = self.run.max_evals, self.local
        local.step(max_evals)
        while with_local and self.best.size and local.starts:
            enough = local.work >= START_WORK or local.passes >= max_evals
            if enough or self.limits.flag[0]:
                break
            local.step(max_evals)
        self._take(local.best, local.value)

    def _let_dual_join(self, tolerance: float, watch: Watch) -> None:
        """Begin the proof with the stronger bound."""
        compile_dual(self.limits)
        if self.limits.interrupted:
            self.limits.check()
        setting = (self.certificate.search_error, tolerance, self.run.n_jobs, watch.is_over)
        dual = self.limits.call(DualSearch, self.leaves, *setting)
        watch.end_if_told()
        self.proofs.append(dual)

    def _turn(self, work: int, with_local: bool, threads: Threads, watch: Watch) -> None:
        """Let all go on for a while, and take over what they find.

        If they were told to end in the middle of it, their bounds are of no use.
        """
        for proof in self.proofs:
            if proof is not self.proofs[0] and self.limits.is_over():
                break
            for point in proof.advance(work, self.best, self.value, threads.run):
                cells = self.places.cells_at(point[None, :])
                self._take(point, float(self.problem.sums_at(cells)[0]))
                if self.local.passes < self.run.max_evals and not self.limits.flag[0]:
                    self.local.descend_from(point, self.run.max_evals)
            self._take(self.local.best, self.local.value)
            watch.end_if_told()
        if with_local and not self.limits.is_over():
            self._search_for_a_while()
            self._take(self.local.best, self.local.value)
            watch.end_if_told()
        for proof in self.proofs:
            ties = [bound for bound, _ in proof.ties]
            self.lowest = max(self.lowest, min([proof.bound, proof.tie_bound, self.value, *ties]))
        finished = [proof for proof in self.proofs if not proof.is_open]
        if finished:
            self._drop_all_but(finished[0])
            self.proven = True
        elif len(self.proofs) > 1 and sum(proof.spent for proof in self.proofs) > RACE:
            self._drop_all_but(max(self.proofs, key=lambda proof: proof.bound))

    def release(self) -> None:
        """Free memory: the proofs go on no more. What is known stays."""
        self.dropped_nodes, self.proofs = self.nodes, []

    def _drop_all_but(self, proof: TreeSearch | DualSearch) -> None:
        """Go on with one proof alone."""
        self.certificate.tie_error = proof.noise
        self.dropped_nodes = self.nodes - proof.nodes
        self.proofs = [proof]

    def _search_for_a_while(self) -> None:
        """Give the local search its share of the work."""
        local, max_evals = self.local, self.run.max_evals
        share = SHARE if local.in_vain < PATIENCE else LATER_SHARE
        spent = sum(proof.spent for proof in self.proofs)
        stop = min(share * spent, local.work + MOST_WORK)
        while self.best.size and local.work < stop and local.passes < max_evals:
            local.step(max_evals)
            if self.limits.is_over():
                return

    def _take(self, point: Int32Array, value: float) -> None:
        """Note a point if it is better than the best."""
        if value < self.value:
            self.value, self.best = value, point.copy()

    def margin_bound(self, best: float, final: bool) -> float:
        """Return the minimum margin that a point can have; ``best`` is that of the best point.

        Both are signed. In the end, ties are judged by the models' own sums.
        """
        certificate = self.certificate
        if self.proven or final:
            certificate.tighten(self.lowest, self.value)
        if not self.proven or not final:
            return min(best, certificate.margin_of(self.lowest))
        proof = self.proofs[0]
        bounds = [best, certificate.margin_of(proof.tie_bound)]
        for bound, box in proof.ties:
            lowest = certificate.margin_of(bound)
            if lowest < best and not self.limits.is_over():
                lowest = max(lowest, certificate.margin_of_box(box))
            bounds.append(lowest)
        return min(bounds)
