"""Combine local search and proof: the best point of a problem and a bound on all others.

A good point allows the proof to discard most of the grid, and the proof shows when no better point
exists. Therefore the two alternate. Their turns are measured in counted work, not in seconds: the
result does not depend on the speed of the machine unless a limit ends the run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treeopt.exact.certificate import Certificate
from treeopt.exact.descent import LocalSearch
from treeopt.exact.dual_search import DualSearch
from treeopt.exact.exact_settings import DEFAULT_SETTINGS, ExactSettings
from treeopt.exact.list_leaves import list_leaves
from treeopt.exact.precompile import compile_dual
from treeopt.exact.tree_search import TreeSearch
from treeopt.problem.places import Places
from treeopt.problem.problem import Problem
from treeopt.run.run import Run
from treeopt.run.watch import Threads, Watch
from treeopt.types import Int32Array


class Solver:
    """The state of search and proof in one run.

    Attributes
    ----------
    places : Places
        The places that the search works on.
    best : int32 array
        The best point, as places.
    value : float
        The signed sum of its leaves; smaller is better.
    lowest : float
        Lower bound on all signed sums.
    proven : bool
        Whether no better point exists.
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
        self.certificate = Certificate(problem.prediction, self.leaves)
        error = self.certificate.search_error
        self.local = LocalSearch(self.leaves, starts, error, run.seed, self.limits.call, settings)
        self.best, self.value = self.local.best, np.inf
        self.proofs: list[TreeSearch | DualSearch] = []
        self.dropped_nodes = 0
        # The sum of the best leaves of all trees.
        self.lowest = float(self.leaves.constant + self.leaves.value[self.leaves.start[:-1]].sum())
        self.proven = False

    @property
    def nodes(self) -> int:
        """Number of nodes so far."""
        return self.dropped_nodes + sum(proof.nodes for proof in self.proofs)

    @property
    def _spent(self) -> int:
        """Work of the active proofs."""
        return sum(proof.spent for proof in self.proofs)

    @property
    def evaluations(self) -> int:
        """Number of points so far from which all lines were examined."""
        return self.local.passes

    def improve(self, check: Callable[[], None]) -> None:
        """Search until ``check`` raises an exception, or if there is only one point."""
        watch = Watch(check, self.limits)
        while True:
            self.local.step(self.run.max_evals)
            self._update_best(self.local.best, self.local.value)
            watch.check()
            if not self.best.size:
                return

    def prove(self, check: Callable[[], None], with_local: bool) -> None:
        """Prove the optimum, unless ``check`` raises an exception first."""
        watch = Watch(check, self.limits)
        self._initial_search(with_local)
        watch.raise_if_stopped()
        certificate, settings, n_jobs = self.certificate, self.settings, self.run.n_jobs
        certificate.tighten(-np.inf, self.value)
        error = certificate.search_error
        common = (self.leaves, error, certificate.tie_tolerance, n_jobs)
        self.proofs = [TreeSearch(*common, self.limits.is_over, settings)]
        work, dual_started = settings.first_work, False
        with Threads(n_jobs, self.limits) as threads:
            while not self.proven:
                if self.proofs[0].spent > settings.dual_after and not dual_started:
                    dual_started = True
                    compile_dual(self.limits)
                    if self.limits.interrupted:
                        self.limits.check()
                    dual = self.limits.call(DualSearch, *common, watch.is_over, settings)
                    watch.raise_if_stopped()
                    self.proofs.append(dual)
                self._take_turns(work, with_local, threads, watch)
                watch.check()
                work = min(2 * work, settings.max_work)

    def _initial_search(self, with_local: bool) -> None:
        """Descend from the first start; if ``with_local``, also from others, with limited work."""
        max_evals, local = self.run.max_evals, self.local
        local.step(max_evals)
        while with_local and self.best.size and local.starts:
            enough = local.work >= self.settings.start_work or local.passes >= max_evals
            if enough or self.limits.flag[0]:
                break
            local.step(max_evals)
        self._update_best(local.best, local.value)

    def _take_turns(self, work: int, with_local: bool, threads: Threads, watch: Watch) -> None:
        """Advance each proof and the local search by one turn, and collect the results.

        If the flag is set during a turn, the bounds of that turn are invalid.
        """
        for proof in self.proofs:
            if proof is not self.proofs[0] and self.limits.is_over():
                break
            for point in proof.advance(work, self.best, self.value, threads.run):
                cells = self.places.cells_at(point[None, :])
                self._update_best(point, float(self.problem.sums_at(cells)[0]))
                if self.local.passes < self.run.max_evals and not self.limits.flag[0]:
                    self.local.descend_from(point, self.run.max_evals)
            self._update_best(self.local.best, self.local.value)
            watch.raise_if_stopped()
        if with_local and not self.limits.is_over():
            self._local_turn()
            self._update_best(self.local.best, self.local.value)
            watch.raise_if_stopped()
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
        """Free memory: discard the proofs, but keep their results."""
        self.dropped_nodes, self.proofs = self.nodes, []

    def _drop_all_but(self, proof: TreeSearch | DualSearch) -> None:
        """Continue with one proof alone."""
        self.certificate.tie_error = proof.search_error
        self.dropped_nodes = self.nodes - proof.nodes
        self.proofs = [proof]

    def _local_turn(self) -> None:
        """Run the local search for its share of the work."""
        local, max_evals = self.local, self.run.max_evals
        settings, fruitful = self.settings, local.failures < self.settings.max_failures
        share = settings.search_share if fruitful else settings.late_search_share
        stop = min(share * self._spent, local.work + settings.max_work)
        while self.best.size and local.work < stop and local.passes < max_evals:
            local.step(max_evals)
            if self.limits.is_over():
                return

    def _update_best(self, point: Int32Array, value: float) -> None:
        """Store a point if it is better than the best."""
        if value < self.value:
            self.value, self.best = value, point.copy()

    def margin_bound(self, best: float, final: bool) -> float:
        """Return a lower bound on the signed margin of all points.

        ``best`` is the signed margin of the best point. If ``final``, ties are decided by the
        models' own sums.
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
