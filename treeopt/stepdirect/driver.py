"""`Driver`: the one place where Python drives the compiled search."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from treeopt.kernels.random import below
from treeopt.model.ensemble import Ensemble
from treeopt.problem.dimensions import RealBox
from treeopt.stepdirect.on_ensemble import points_of, run_masks, run_walk
from treeopt.stepdirect.paper.algorithm import record
from treeopt.stepdirect.paper.state import NONE, State, grown, new_state
from treeopt.stepdirect.refinement import ask_beside
from treeopt.stepdirect.schedule import adopt, advance
from treeopt.stepdirect.walk_state import SearchRules, Walk, new_walk
from treeopt.types import Array, FloatArray


class Best(NamedTuple):
    """The best sample: its number, its position in the unit cube, and its value."""

    sample: int
    u: FloatArray
    fun: float


class Driver:
    """Propose points of the unit cube and take their values.

    The calls alternate: `propose`, `record`, and, if there are further points, `adopt`. `run_on`
    does the same for a compiled ensemble without coming back to Python for each batch.

    Parameters
    ----------
    rules : SearchRules
        How to search.
    state : State
        Where the search stands.
    walk : Walk
        Where its refinement stands.
    """

    def __init__(self, rules: SearchRules, state: State, walk: Walk) -> None:
        self.rules, self.state, self.walk = rules, state, walk
        self.room = 0  # number of samples that the compiled loop needs room for, if not 0

    @classmethod
    def begin(cls, rules: SearchRules, weight: FloatArray, seed: int) -> Driver:
        """Return a driver before the first evaluation, for weights of the free coordinates."""
        return cls(rules, new_state(weight, seed), new_walk(weight.size))

    def propose(self, check: Callable[[], None] = lambda: None) -> FloatArray:
        """Return the points to evaluate next, one per row; none if the search is exhausted.

        The values of the last ones must have been recorded. ``check`` is called while tables grow,
        and may raise.
        """
        state = self.state
        if not state.weight.size:  # there is one point, to be evaluated once
            n = int(state.counter["asked"][0] == 0)
            state.counter["asked"] = 1
            return state.u[:n]
        n = int(advance(state, self.walk, self.rules))
        while n < 0:
            self.state = state = grown(state, -n, check)
            n = int(advance(state, self.walk, self.rules))
        first = int(state.counter["evaluated"][0])
        return state.u[first : first + n]

    def record(self, values: FloatArray) -> None:
        """Take the values of the points from `propose`; those that are not finite have failed."""
        record(values, self.state.counter, self.state.sample)

    def adopt(self, U: FloatArray, values: FloatArray) -> None:
        """Take points of others and their values, after the last proposed ones are recorded."""
        room = self.samples + len(U)
        if room > self.state.sample.size:
            self.state = grown(self.state, room)
        adopt(U, values, self.state, self.walk, self.rules)

    def propose_beside(self) -> FloatArray:
        """Return one more point, as a matrix, while values of others are awaited."""
        u = np.empty((1, self.state.weight.size))
        ask_beside(u[0], self.state, self.walk, self.rules)
        return u

    def draw_below(self, n: int) -> int:
        """Return a random integer in ``0..n-1``."""
        return int(below(n, self.state.random))

    def run_on(
        self,
        ensemble: Ensemble,
        box: RealBox,
        max_evals: int,
        pause: int,
        check: Callable[[], None] = lambda: None,
    ) -> tuple[int, bool]:
        """Search on a compiled ensemble until ``pause`` evaluations are made.

        There may be a few more, but no more than ``max_evals``; or fewer, if tables have to grow
        first. The next call does that. ``check`` is called meanwhile, and may raise.

        Returns
        -------
        int, bool
            The number of evaluations so far, and whether the search is exhausted.
        """
        compiled = ensemble.compiled
        run = run_walk if compiled.mask_dtype is None else run_masks
        link = ensemble.link.code(ensemble.value.dtype)
        if self.room:
            self.state = grown(self.state, self.room, check)
        own = (self.state, self.walk, self.rules)
        n, answer = run(*own, box, compiled.oracle, link, max_evals, pause)
        self.room = max(-int(answer), 0)
        return int(n), bool(answer == 0)

    def points_in(self, box: RealBox, U: FloatArray) -> FloatArray:
        """Return points of a box from points of the unit cube, as the compiled loop does."""
        points: FloatArray = points_of(U, box)
        return points

    def spare(self) -> Driver:
        """Return another driver of the same search, to compile the kernels with."""
        return Driver.begin(self.rules, self.state.weight, 0)

    def compile(self) -> None:
        """Compile what `propose` and `record` need."""
        spare = self.spare()
        spare.propose()
        spare.record(np.empty(0))

    @property
    def samples(self) -> int:
        """Number of points that were proposed or adopted."""
        return int(self.state.counter["evaluated"][0] + self.state.counter["asked"][0])

    @property
    def best(self) -> Best | None:
        """The best sample; None if no evaluation has succeeded."""
        s = int(self.state.counter["best"][0])
        if s == NONE:
            return None
        return Best(s, self.state.u[s], float(self.state.sample["f"][s]))

    @property
    def nfailed(self) -> int:
        """Number of failed evaluations."""
        return int(self.state.counter["failed"][0])

    @property
    def nit(self) -> int:
        """Number of iterations of Algorithm 1."""
        return int(self.state.counter["iteration"][0])

    def values(self, n: int) -> Array:
        """Return the values of the first n samples; NaN: failed."""
        values = self.state.sample["f"][:n].copy()
        values[np.isinf(values)] = np.nan
        return values
