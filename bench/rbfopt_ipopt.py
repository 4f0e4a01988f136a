"""RBFOpt with the Ipopt of PyPI's CasADi in place of the executables ``bonmin`` and ``ipopt``.

RBFOpt asks Pyomo for one of these executables by name. `solvers` returns `Ipopt` instead, which
runs in the same process: Pyomo writes the model as ``.nl``, CasADi reads it and calls Ipopt.
Problems with integers raise an error. On other problems, Bonmin runs Ipopt from several random
starting points. This module uses the same number of points, but different ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import casadi
import numpy as np
from problems import Array
from pyomo.opt import SolverResults, SolverStatus, TerminationCondition
from pyomo.repn.plugins.nl_writer import NLWriter

RADIUS = 1e5  # Bonmin's max_random_point_radius, for variables without bounds
QUIET = {"print_time": False, "show_eval_warnings": False}


class Ipopt:
    """A solver of Pyomo as RBFOpt uses it; it counts problems, runs of Ipopt and successes."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.problems = self.runs = self.successes = 0
        self.error: Exception | None = None

    def __call__(self, *_: Any, **__: Any) -> Ipopt:
        """Replace Pyomo's SolverFactory."""
        self.options = {}
        return self

    def available(self) -> bool:
        return True

    def solve(self, model: Any, **_: Any) -> SolverResults:
        """Store the solution, if there is one, in the variables, and return the status."""
        variables, nlp = read(model)
        if any(nlp.discrete):
            self.error = NotImplementedError("Ipopt cannot solve problems with integers")
            raise self.error
        # The time limit is ignored, so that results do not depend on the machine; max_iter is used.
        own = {k: v for k, v in self.options.items() if "." not in k and k != "max_cpu_time"}
        options = {"ipopt": {**own, "print_level": 0, "sb": "yes"}, "expand": True, **QUIET}
        function = {"x": casadi.vertcat(*nlp.x), "f": nlp.f, "g": casadi.vertcat(*nlp.g)}
        solver = casadi.nlpsol("solver", "ipopt", function, options)
        limits = {"lbx": nlp.x_lb, "ubx": nlp.x_ub, "lbg": nlp.g_lb, "ubg": nlp.g_ub}

        def run(x0: Array) -> tuple[str, float, Array]:
            """Return Ipopt's status, the value (infinity without success), and the point."""
            found = solver(x0=x0, **limits)
            stats = solver.stats()
            self.runs += 1
            self.successes += stats["success"]
            value = float(found["f"]) if stats["success"] else np.inf
            return stats["return_status"], value, found["x"].full().ravel()

        self.problems += 1
        status, value, x = run(nlp.x_init)
        unsolved = value == np.inf
        for x0 in self._random_points(nlp, unsolved):
            if unsolved and value < np.inf:
                break
            value, x = min((value, x), run(x0)[1:], key=lambda pair: pair[0])
        if value < np.inf:
            for variable, coordinate in zip(variables, x, strict=True):
                variable.set_value(coordinate, skip_validation=True)
        return results(value < np.inf, status)

    def _random_points(self, nlp: Any, unsolved: bool) -> Array:
        """Return Bonmin's further starts: for a better solution, or for any if there is none."""
        option = "num_retry_unsolved_random_point" if unsolved else "num_resolve_at_root"
        n = self.options.get(f"bonmin.{option}", 0)
        rng = np.random.default_rng(self.options.get("bonmin.random_generator_seed", 0))
        low, high = np.clip(nlp.x_lb, -RADIUS, None), np.clip(nlp.x_ub, None, RADIUS)
        return rng.uniform(low, high, (n, len(low)))


def read(model: Any) -> tuple[list[Any], Any]:
    """Return the variables of a Pyomo model and, in their order, its problem for CasADi."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.nl")
        with path.open("w") as file:
            variables = NLWriter().write(model, file, linear_presolve=False).variables
        nlp = casadi.NlpBuilder()
        nlp.import_nl(str(path))
    return variables, nlp


def results(solved: bool, status: str) -> SolverResults:
    """Return the result of a Pyomo solver; the variables already have the solution."""
    condition = TerminationCondition.optimal if solved else TerminationCondition.error
    if not solved and status == "Infeasible_Problem_Detected":
        condition = TerminationCondition.infeasible
    answer = SolverResults()
    answer.solver.status = SolverStatus.ok if solved else SolverStatus.warning
    answer.solver.termination_condition = condition
    answer.solver.message = status
    return answer


@contextmanager
def solvers() -> Iterator[Ipopt]:
    """Make RBFOpt use Ipopt for every solver name.

    RBFOpt treats an exception in a solver as a failure and continues. A problem with integers is
    therefore reported at the end.
    """
    ipopt = Ipopt()
    with mock.patch("pyomo.opt.SolverFactory", ipopt):
        try:
            yield ipopt
        finally:
            if ipopt.error is not None:
                raise ipopt.error
