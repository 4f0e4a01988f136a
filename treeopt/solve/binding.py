"""Find the constraints and bounds that bind, and what the optimum would gain without each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from treeopt.arithmetic import quiet
from treeopt.errors import InputError
from treeopt.problem.constraints import Row
from treeopt.problem.problem import Problem
from treeopt.result.building import build_decision
from treeopt.result.decision import Decision
from treeopt.run.limits import Limits
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.solve.methods import Method
from treeopt.solve.relaxing import Item, bounds_of, constraints_of, leave_out

FAR = 1e6
"""Infinite bounds are replaced by this multiple of the largest number of the problem, to see
whether the objective is unbounded."""


@dataclass(frozen=True, eq=False)
class BindingFinder:
    """A solved problem, with the options of its run; called by `Decision.binding`.

    Attributes
    ----------
    problem : Problem
        The problem, without limits.
    method : Method
        The method that solved it.
    gap, seed, n_jobs
        The options of its run, see `Run`.
    seconds : float or None
        The time limit of its run.
    """

    problem: Problem
    method: Method
    gap: float
    seed: int
    n_jobs: int
    seconds: float | None

    @classmethod
    def of(cls, problem: Problem, method: Method, run: Run) -> BindingFinder:
        """Return the finder for a run. It does not keep what the run has cached."""
        limits = replace(problem, limits=None)
        return cls(limits, method, run.gap, run.seed, run.n_jobs, run.limits.seconds)

    @quiet
    def __call__(self, decision: Decision, seconds: float | None) -> dict[str, float]:
        """Return the gains by label, the largest first; NaN if a limit was reached.

        The time limit is that of the decision unless one is passed.
        """
        session = _Session(self, decision, self.seconds if seconds is None else seconds)
        gains: dict[str, float] = {}
        for item in [*constraints_of(self.problem), *self._free_bounds()]:
            gain = session.gain_without(item)
            if gain != 0:
                gains[item.label] = gain
        # NaN is last. Otherwise the order of the constraints decides between equal gains.
        return dict(sorted(gains.items(), key=lambda pair: -np.nan_to_num(pair[1], nan=-1.0)))

    def _free_bounds(self) -> list[Item]:
        """Return the bounds of the features that bounds do not fix."""
        low, high = self.problem.choices.pairs.T
        return [item for item in bounds_of(self.problem) if low[item.column] < high[item.column]]


class _NotProven(Exception):
    """Raised if a run ends without a proof."""


class _Session:
    """One call of `Decision.binding`: the time that is left, and the runs so far."""

    def __init__(self, asked: BindingFinder, decision: Decision, seconds: float | None) -> None:
        self.asked, self.decision, self.left = asked, decision, seconds
        self.sense = asked.problem.objective.sense
        self.other_columns = asked.problem.columns_in_constraints | asked.problem.columns_with_costs
        self.interrupted = False

    @property
    def is_over(self) -> bool:
        """Whether the time limit is reached or Ctrl-C was pressed."""
        return self.interrupted or (self.left is not None and self.left <= 0)

    def gain_without(self, item: Item) -> float:
        """Return the gain without a constraint or a bound; NaN if it is not proven."""
        if item.constraint is None and self._is_idle(item):
            return 0.0
        if self.is_over:
            return np.nan
        begin = perf_counter()
        relaxed = leave_out(self.asked.problem, item)
        self._spend(perf_counter() - begin)
        try:
            return self._gain(relaxed)
        except _NotProven:
            return np.nan

    def _is_idle(self, item: Item) -> bool:
        """Return whether the only use of a feature is in models that do not split beyond a bound.

        Then the model predicts the same for all numbers beyond the bound as for the bound itself.
        """
        problem, column = self.asked.problem, item.column
        grid, places = problem.grid, problem.places
        if column in self.other_columns or not np.isnan(grid.missing_low):
            return False
        if grid.position[column] < 0:
            return True
        lasts = grid.lasts(int(grid.position[column]))
        end = (places.lower, places.upper)[item.side][column]
        return int(np.searchsorted(lasts, end)) == (0, lasts.size)[item.side]

    def _gain(self, relaxed: Problem) -> float:
        """Return the gain of the optimum of a relaxed problem."""
        found = None
        try:
            found = self._solve(relaxed)
        except (InputError, _NotProven):
            # Infinite bounds are refused if a cost may be unbounded, and may hinder the proof.
            if self.is_over or not np.isinf(relaxed.choices.pairs).any():
                raise
        if found is not None and not self._is_at_end(relaxed, found):
            return self._gain_of(found)
        end = FAR * _largest_number(relaxed, self.decision)
        near, far = (self._solve(_within(relaxed, each)) for each in (end, 2 * end))
        # The optimum is a convex or concave function of the bound once the bound is beyond all
        # steps of the models. So if it does not change here, it does not change further on.
        grows = self.sense * (near.fun - far.fun) > max(near.rounding, far.rounding, self.asked.gap)
        return np.inf if grows else self._gain_of(far)

    def _solve(self, problem: Problem) -> Decision:
        """Solve a problem, starting from the known point; raise an error without a proof."""
        asked = self.asked
        if self.is_over:
            raise _NotProven
        run = Run(
            Limits(self.left),
            gap=asked.gap,
            seed=asked.seed,
            n_jobs=asked.n_jobs,
            start=None if self.decision._point is None else self.decision._point[None, :],
        )
        with run:
            problem = replace(problem, limits=run.limits)
            found = build_decision(problem, run, asked.method.solve(problem, run))
        self._spend(found.time)
        self.interrupted = run.limits.interrupted
        if found.status not in (Status.OPTIMAL, Status.GAP_REACHED):
            raise _NotProven
        return found

    def _spend(self, seconds: float) -> None:
        """Reduce the time that is left."""
        if self.left is not None:
            self.left -= seconds

    def _gain_of(self, found: Decision) -> float:
        """Return the gain of a relaxed optimum; 0 unless it is proven and larger than rounding.

        A value better than the bound of the decision cannot be reached with the constraint.
        """
        decision, sense = self.decision, self.sense
        gain = sense * (decision.fun - found.fun)
        is_proven = sense * (decision.bound - found.fun) > 0
        is_visible = gain > max(decision.rounding, found.rounding)
        return float(gain) if is_proven and is_visible else 0.0

    def _is_at_end(self, problem: Problem, found: Decision) -> bool:
        """Return whether a feature of a cost or a constraint is suspiciously large."""
        x = np.abs(np.asarray(found._point, float)[sorted(self.other_columns)])
        return bool((x > np.sqrt(problem.grid.largest)).any())


def _largest_number(problem: Problem, decision: Decision) -> float:
    """Return the largest number among bounds, cuts, limits of rows and the known point."""
    numbers = [problem.choices.pairs.ravel(), np.asarray(decision._point, float), np.ones(1)]
    numbers += [problem.grid.lasts(j) for j in range(problem.grid.columns.size)]
    for constraint in problem.constraints:
        for row in constraint.conditions:
            if isinstance(row, Row):
                factors = np.abs(row.coefficients[row.coefficients != 0])
                ends = np.array([row.low, row.high])
                numbers.append(ends / min(1.0, factors.min(initial=1.0)))
    every = np.abs(np.concatenate(numbers))
    sane = every[every <= np.sqrt(problem.grid.largest)]  # NaN and infinite numbers are left out
    return float(sane.max())


def _within(problem: Problem, end: float) -> Problem:
    """Return a problem with finite bounds instead of infinite ones."""
    choices = problem.choices
    return problem.without(
        problem.constraints, replace(choices, pairs=np.clip(choices.pairs, -end, end))
    )
