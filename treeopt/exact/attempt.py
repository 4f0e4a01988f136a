"""Solve a problem by local search and proof on the boxes of the leaves."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from treeopt.errors import TreeoptError
from treeopt.exact.certificate import Certificate
from treeopt.exact.exact_settings import DEFAULT_SETTINGS
from treeopt.exact.list_leaves import has_long_steps
from treeopt.exact.precompile import compile_once
from treeopt.exact.reduction import reduce_places
from treeopt.exact.solver import Solver
from treeopt.exact.starts import best_start, find_starts
from treeopt.model.frames import named
from treeopt.problem.problem import Problem
from treeopt.result.answer import Answer
from treeopt.run.progress import DecisionProgress, gap_between
from treeopt.run.run import Run
from treeopt.run.status import Status, Stopped
from treeopt.types import Int32Array, IntArray

SETTINGS = DEFAULT_SETTINGS
"""The settings of all decisions."""

PROVEN = "the optimum is proven"


def solve_exactly(problem: Problem, run: Run) -> Answer:
    """Run local search and proof, until the optimum is proven or a limit is reached."""
    return _solve(problem, run, proof=True, with_local=True)


def only_prove(problem: Problem, run: Run) -> Answer:
    """Run the proof without the local search; it finds points on the way."""
    return _solve(problem, run, proof=True, with_local=False)


def only_search(problem: Problem, run: Run) -> Answer:
    """Run the local search until a limit is reached, without a bound."""
    return _solve(problem, run, proof=False, with_local=True)


def _solve(problem: Problem, run: Run, proof: bool, with_local: bool) -> Answer:
    """Solve a problem by the way that fits it."""
    if problem.is_plain:
        return _Attempt(problem, run).solve(proof, with_local)
    from treeopt.exact.general.attempt import solve_general

    return solve_general(problem, run, SETTINGS, proof, with_local)


class _Attempt:
    """The solution of one problem: its solver, and the conversion of bounds to predictions."""

    def __init__(self, problem: Problem, run: Run) -> None:
        self.problem, self.prediction, self.run = problem, problem.prediction, run
        self.places = problem.places
        self.solver: Solver | None = None
        self._known: tuple[Int32Array, Any] | None = None

    def solve(self, proof: bool, with_local: bool) -> Answer:
        """Run the local search, the proof or both."""
        run, limits = self.run, self.run.limits
        compile_once(limits)
        limits.watched = has_long_steps(self.problem, SETTINGS)
        starts = find_starts(self.problem, run, SETTINGS)
        run.status, run.message = Status.OPTIMAL, PROVEN
        check = partial(self._report_and_check, proof)
        with run.until_stopped(self._release):
            if limits.interrupted or limits.watched:
                limits.check()
            self.places, starts = reduce_places(self.problem, starts, limits, SETTINGS)
            self.solver = Solver(self.problem, self.places, starts, run, SETTINGS)
            if proof:
                self.solver.prove(check, with_local)
            else:
                self.solver.improve(check)
                raise Stopped(Status.EVAL_LIMIT, "there is nothing to choose")
        if self.solver is None:
            return self._without_search(starts, proof)
        if np.isinf(self.solver.value):
            self.solver.best = best_start(self.problem, self.places, starts, SETTINGS)
        return self._answer(self.solver, proof)

    def _release(self) -> None:
        if self.solver is not None:
            self.solver.release()

    def _without_search(self, starts: Int32Array, proof: bool) -> Answer:
        """Return the best start; the bound is the sum of the best leaves of all trees."""
        best, bound = best_start(self.problem, self.places, starts, SETTINGS), np.nan
        margin = self._margin_at(best)
        if proof:
            certificate = Certificate(self.prediction, None)
            lowest = min(
                certificate.margin_of(certificate.lowest), self.prediction.sign * float(margin)
            )
            bound = certificate.prediction_of(lowest)
        self.run.note(self.prediction.value_of(margin), bound, 0)
        self.run.message += " before the search began"
        return Answer(self._cells_at(best), bound)

    def _answer(self, solver: Solver, proof: bool) -> Answer:
        """Return the final state of the solver as an answer."""
        run = self.run
        fun, bound = self._value_and_bound(solver, final=True)
        bound = bound if proof else np.nan
        rounding = self._rounding(solver)
        if solver.proven:
            run.status, run.message = Status.OPTIMAL, PROVEN
            if self.problem.space.fixed.all():
                run.message = "all features are fixed, so there is nothing to choose"
            if gap_between(fun, bound) > rounding:
                raise TreeoptError(
                    f"the distance between the bound {bound!r} and the value {fun!r} is larger "
                    f"than the rounding {rounding!r}. This is a bug in treeopt. Please report it."
                )
        run.note(fun, bound, solver.evaluations)
        cells = self._cells_at(solver.best)
        return Answer(cells, bound, rounding, solver.evaluations, solver.nodes)

    def _report_and_check(self, proof: bool) -> None:
        """Report the progress of the run, and end it if a limit is reached."""
        solver = self.solver
        if solver is None:
            return
        fun, bound = self._value_and_bound(solver, final=False)
        gap = gap_between(fun, bound)
        shown = bound if proof else np.nan
        counts = solver.evaluations, solver.nodes

        def progress() -> DecisionProgress:
            point = self.places.region(self._cells_at(solver.best))[0]
            x = named(point, self.prediction.model, self.problem.columns)
            shown_gap = gap_between(fun, shown)
            return DecisionProgress(x, fun, shown, shown_gap, *counts, self.run.limits.time())

        self.run.report(fun, shown, *counts, progress)
        if not solver.proven:
            self.run.check(gap if proof else np.inf, solver.evaluations)

    def _cells_at(self, point: Int32Array) -> IntArray:
        """Return the cells of a point given by its places."""
        cells: IntArray = self.places.cells_at(point[None, :])[0]
        return cells

    def _margin_at(self, point: Int32Array) -> Any:
        """Return the margin at a point, in the precision of the models."""
        if self._known is None or self._known[0] is not point:
            self._known = point, self.problem.margin_at(self._cells_at(point))
        return self._known[1]

    def _value_and_bound(self, solver: Solver, final: bool) -> tuple[float, float]:
        """Return the prediction at the best point and the bound on all predictions."""
        margin = self._margin_at(solver.best)
        lowest = solver.margin_bound(self.prediction.sign * float(margin), final)
        fun = self.prediction.value_of(margin)
        if np.isinf(lowest):
            return fun, self.prediction.sense * lowest
        return fun, solver.certificate.prediction_of(lowest)

    def _rounding(self, solver: Solver) -> float:
        """Return the maximum distance between value and bound of a proven optimum."""
        margin, certificate = self._margin_at(solver.best), solver.certificate
        value, signed = self.prediction.value_of(margin), self.prediction.sign * float(margin)
        # The spacing of floats is larger at a power of two than just below it, so try both.
        offsets = (0.0, certificate.rounding)
        return max(gap_between(value, certificate.prediction_of(signed - off)) for off in offsets)
