"""Solve a problem with constraints, costs or several predictions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np

from treeopt.exact.exact_settings import DEFAULT_SETTINGS, ExactSettings
from treeopt.exact.general.free_features import Contradiction
from treeopt.exact.general.solver import GeneralSolver
from treeopt.exact.list_leaves import has_long_steps
from treeopt.model.frames import named
from treeopt.model.stand_ins import staircase
from treeopt.problem.choices import read_choices
from treeopt.problem.constraints import Implies
from treeopt.problem.costs import read_price
from treeopt.problem.objective import plain_objective
from treeopt.problem.problem import Problem, make_problem
from treeopt.problem.read_constraints import read_constraints
from treeopt.problem.responses import Responses
from treeopt.result.answer import Answer
from treeopt.run.limits import Limits
from treeopt.run.progress import DecisionProgress, gap_between
from treeopt.run.run import Run
from treeopt.run.status import Status, Stopped
from treeopt.types import FloatArray, IntArray

PROVEN = "the optimum is proven"


def compile_general(limits: Limits) -> None:
    """Compile the kernels, if this has not been done, while the clock is paused."""
    with limits.pause():
        _compile()


@cache
def _compile() -> None:
    """Solve a small problem with rows, costs and logic, and one sum alone."""
    model = staircase(4, np.float64)
    choices, objective = read_choices(model, [(0, 3)]), plain_objective(model)
    costs = read_price({0: 0.1}, choices, 1.0, True)
    constraints = read_constraints([Implies("x[0] > 1", "x[0] >= 2")], choices, Responses([]))
    with_costs = replace(objective, terms=(*objective.terms, costs))
    for problem in (
        make_problem(with_costs, choices, constraints),
        make_problem(replace(objective, terms=2 * objective.terms), choices),
    ):
        solver = GeneralSolver(problem, Run(Limits(None)), DEFAULT_SETTINGS)
        solver.begin_local_search([np.zeros(1)])
        solver.prove(lambda: None)


def solve_general(
    problem: Problem, run: Run, settings: ExactSettings, proof: bool, with_local: bool
) -> Answer:
    """Run the local search, the proof or both."""
    return _Attempt(problem, run, settings).solve(proof, with_local)


def finish_general(
    problem: Problem, run: Run, x: FloatArray, is_feasible: bool, nfev: int
) -> Answer:
    """Return the point of another method as an answer; repair it if it is not feasible.

    A repair is one descent with a growing penalty.
    """
    if not is_feasible:
        compile_general(run.limits)
        found = None
        with run.until_stopped():
            found = _repaired(problem, run, x)
        if found is None:
            run.message += ", and no point that satisfies all constraints was found"
            return Answer(None, nfev=nfev)
        x = found
    run.note(problem.objective.value_at(x), np.nan, nfev)
    return Answer(_cells_at(problem, x), nfev=nfev, x=x)


def _repaired(problem: Problem, run: Run, x: FloatArray) -> FloatArray | None:
    """Return a feasible point at the end of a descent; None if it is not feasible."""
    try:
        solver = GeneralSolver(problem, run, DEFAULT_SETTINGS)
    except Contradiction:
        return None
    solver.begin_local_search([])
    solver.descend_from(solver.admissible(x[None, :])[0])
    return solver.best


def _cells_at(problem: Problem, x: FloatArray) -> IntArray:
    """Return the cells of a point."""
    grid, columns = problem.grid, problem.grid.columns.tolist()
    cells = [int(grid.cell_of(j, x[[column]])[0]) for j, column in enumerate(columns)]
    return np.array(cells, np.int64)


class _Attempt:
    """The solution of one problem."""

    def __init__(self, problem: Problem, run: Run, settings: ExactSettings) -> None:
        self.problem, self.run, self.settings = problem, run, settings
        self.solver: GeneralSolver | None = None

    def solve(self, proof: bool, with_local: bool) -> Answer:
        """Run the local search, the proof or both."""
        run = self.run
        compile_general(run.limits)
        run.limits.watched = has_long_steps(self.problem, self.settings)
        run.status, run.message = Status.OPTIMAL, PROVEN
        check = partial(self._report_and_check, proof)
        with run.until_stopped():
            try:
                solver = self.solver = GeneralSolver(self.problem, run, self.settings)
            except Contradiction:
                run.status = Status.INFEASIBLE
                return Answer(None)
            starts = self._starts(solver)
            # Where every point is feasible, the descents find better ones at once.
            n_offers = run.max_evals // 4 if solver.is_constrained or not with_local else 1
            for x in starts[: max(n_offers, 1)]:
                solver.offer(x)
            if with_local:
                solver.begin_local_search(starts)
            if proof:
                solver.prove(check)
            else:
                solver.improve(check)
                raise Stopped(Status.EVAL_LIMIT, "there is nothing to choose")
        if self.solver is None:
            run.message += " before the search began, and no point was found"
            return Answer(None, -self.problem.objective.sense * np.inf if proof else np.nan)
        return self._answer(self.solver, proof)

    def _starts(self, solver: GeneralSolver) -> list[FloatArray]:
        """Return the user's starting points, the cheapest point, and rows of the data."""
        problem, space = self.problem, self.problem.space
        rng = np.random.default_rng(self.run.seed)
        rows = [] if self.run.start is None else list(problem.read_start(self.run.start))
        if space.data is not None:
            data = space.data
            if len(data) > self.settings.n_starts:
                data = data[rng.choice(len(data), self.settings.n_starts, replace=False)]
            rows += list(data)
        starts = list(solver.admissible(np.array(rows))) if rows else []
        sizes = np.diff(solver.stated.places.start)
        for _ in range(max(self.settings.n_starts - len(starts), 1)):
            places = rng.integers(sizes)
            numbers = [solver.stated.number_in(k, int(c)) for k, c in enumerate(places)]
            starts.append(solver.stated.point(np.array(numbers)))
        return starts

    def _answer(self, solver: GeneralSolver, proof: bool) -> Answer:
        """Return the final state of the solver as an answer."""
        run, sense = self.run, self.problem.objective.sense
        if solver.best is None and solver.proven and solver.lowest == np.inf:
            run.status = Status.INFEASIBLE
            return Answer(None, nfev=solver.evaluations, nodes=solver.nodes)
        bound = sense * min(solver.lowest, solver.value) if proof else np.nan
        rounding = solver.rounding
        fun = sense * solver.value if solver.best is not None else np.nan
        if solver.best is None:
            if solver.proven:
                run.status, run.message = Status.STOPPED, self._what_is_left(solver)
            run.message += ", and no point that satisfies all constraints was found"
            return Answer(None, bound, rounding, solver.evaluations, solver.nodes)
        if solver.proven:
            if not gap_between(fun, bound) <= rounding:
                run.status, run.message = Status.STOPPED, self._what_is_left(solver)
            else:
                run.status, run.message = Status.OPTIMAL, PROVEN
        run.note(fun, bound, solver.evaluations)
        x = solver.best
        return Answer(
            _cells_at(self.problem, x), bound, rounding, solver.evaluations, solver.nodes, x
        )

    @staticmethod
    def _what_is_left(solver: GeneralSolver) -> str:
        """Return why a search ended without a proof."""
        if solver.regions.gave_up:
            return "the search ended, but too many linear programs would decide the rest"
        return "the search ended, but rounding errors leave a gap"

    def _report_and_check(self, proof: bool) -> None:
        """Report the progress of the run, and end it if a limit is reached."""
        solver = self.solver
        if solver is None:
            return
        sense = self.problem.objective.sense
        fun = sense * solver.value if solver.best is not None else np.nan
        bound = sense * min(solver.lowest, solver.value) if proof else np.nan
        counts = solver.evaluations, solver.nodes

        def progress() -> DecisionProgress:
            best = solver.best
            x = None if best is None else named(best, self.problem.inputs, self.problem.columns)
            gap = gap_between(fun, bound)
            return DecisionProgress(x, fun, bound, gap, *counts, self.run.limits.time())

        self.run.report(fun, bound, *counts, progress)
        if not solver.proven:
            gap = gap_between(fun, bound) if proof else np.inf
            self.run.check(gap, solver.evaluations)
