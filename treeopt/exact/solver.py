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
from treeopt.exact.listing import list_leaves
from treeopt.exact.settings import DEFAULT_SETTINGS, ExactSettings
from treeopt.exact.tree_search import TreeSearch
from treeopt.problem.places import Places
from treeopt.problem.problem import Problem
from treeopt.run.run import Run
from treeopt.run.watch import Threads, Watch
from treeopt.types import Int32Array


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

    def __init__(
        self,
        problem: Problem,
        places: Places,
        starts: Int32Array,
        run: Run,
        settings: ExactSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.problem, self.places, self.run, self.limits = problem, places, run, run.limits
        self.settings = settings
        self.leaves = list_leaves(problem, places, self.limits, settings)
        self.limits.check_long()
        self.certificate = Certificate(problem.objective, self.leaves)
        error = self.certificate.search_error
        self.local = LocalSearch(self.leaves, starts, error, run.seed, self.limits.call, settings)
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
    def _spent(self) -> int:
        """Work of the proofs that go on."""
        return sum(proof.spent for proof in self.proofs)

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
        certificate, settings, n_jobs = self.certificate, self.settings, self.run.n_jobs
        certificate.tighten(-np.inf, self.value)
        error = certificate.search_error
        common = (self.leaves, error, 2 * certificate.model_error + 4 * error, n_jobs)
        self.proofs = [TreeSearch(*common, self.limits.is_over, settings)]
        work, joined = settings.first_work, False
        with Threads(n_jobs, self.limits) as threads:
            while not self.proven:
                if self.proofs[0].spent > settings.dual_after and not joined:
                    joined = True
                    compile_dual(self.limits)
                    if self.limits.interrupted:
                        self.limits.check()
                    dual = self.limits.call(DualSearch, *common, watch.is_over, settings)
                    watch.end_if_told()
                    self.proofs.append(dual)
                self._turn(work, with_local, threads, watch)
                watch.check()
                work = min(2 * work, settings.max_work)

    def _search_at_first(self, with_local: bool) -> None:
        """Descend from the first start; with the local search, for a while from the others."""
        max_evals, local = self.run.max_evals, self.local
        local.step(max_evals)
        while with_local and self.best.size and local.starts:
            enough = local.work >= self.settings.start_work or local.passes >= max_evals
            if enough or self.limits.flag[0]:
                break
            local.step(max_evals)
        self._take(local.best, local.value)

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
        elif (
            len(self.proofs) > 1
            and sum(proof.spent for proof in self.proofs) > self.settings.race_work
        ):
            self._drop_all_but(max(self.proofs, key=lambda proof: proof.bound))

    def release(self) -> None:
        """Free memory: the proofs go on no more. What is known stays."""
        self.dropped_nodes, self.proofs = self.nodes, []

    def _drop_all_but(self, proof: TreeSearch | DualSearch) -> None:
        """Go on with one proof alone."""
        self.certificate.tie_error = proof.search_error
        self.dropped_nodes = self.nodes - proof.nodes
        self.proofs = [proof]

    def _search_for_a_while(self) -> None:
        """Give the local search its share of the work."""
        local, max_evals = self.local, self.run.max_evals
        settings, fruitful = self.settings, local.failures < self.settings.max_failures
        share = settings.search_share if fruitful else settings.late_search_share
        stop = min(share * self._spent, local.work + settings.max_work)
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
