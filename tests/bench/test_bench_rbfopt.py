"""The stand-in for RBFOpt's solvers, and RBFOpt with it."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

pyomo = pytest.importorskip("pyomo.environ", reason="RBFOpt comes with the extra test")
opt = pytest.importorskip("pyomo.opt")


@pytest.fixture
def rbfopt_ipopt(bench):
    return bench("rbfopt_ipopt")


def small():
    """The nearest point to (1, 2) in a triangle is (1/2, 3/2)."""
    model = pyomo.ConcreteModel()
    model.x = pyomo.Var(bounds=(0, 3), initialize=0.0)
    model.y = pyomo.Var(bounds=(0, 3), initialize=0.0)
    model.cost = pyomo.Objective(expr=(model.x - 1) ** 2 + (model.y - 2) ** 2)
    model.sum = pyomo.Constraint(expr=model.x + model.y <= 2)
    return model


def test_known_answer(rbfopt_ipopt):
    model = small()
    with rbfopt_ipopt.solvers() as ipopt:
        answer = opt.SolverFactory("ipopt", executable="ipopt").solve(model)
    model.solutions.load_from(answer)
    assert answer.solver.status == opt.SolverStatus.ok
    assert answer.solver.termination_condition == opt.TerminationCondition.optimal
    assert (model.x.value, model.y.value) == pytest.approx((0.5, 1.5), abs=1e-6)
    assert (ipopt.problems, ipopt.runs, ipopt.successes) == (1, 1, 1)


def test_maximum(rbfopt_ipopt):
    model = small()
    model.cost.sense = pyomo.maximize  # the farthest point is (2, 0)
    ipopt = rbfopt_ipopt.Ipopt()
    ipopt.options = {"bonmin.num_resolve_at_root": 10, "bonmin.random_generator_seed": 1}
    assert ipopt.solve(model).solver.status == opt.SolverStatus.ok
    assert (model.x.value, model.y.value) == pytest.approx((2, 0), abs=1e-6)
    assert (ipopt.problems, ipopt.runs, ipopt.successes) == (1, 11, 11)


def test_infeasible(rbfopt_ipopt):
    model = small()
    model.other = pyomo.Constraint(expr=model.x + model.y >= 3)
    answer = rbfopt_ipopt.Ipopt().solve(model)
    assert answer.solver.status != opt.SolverStatus.ok
    assert answer.solver.termination_condition == opt.TerminationCondition.infeasible
    assert model.x.value == 0


def test_integers_are_reported_at_the_end(rbfopt_ipopt):
    model = small()
    model.x.domain = pyomo.Integers
    error = pytest.raises(NotImplementedError, match="integers")
    with error, rbfopt_ipopt.solvers() as ipopt, suppress(Exception):  # as RBFOpt does
        ipopt.solve(model)


def test_run_spends_its_budget_and_follows_its_seed(bench, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def steps(X):
        return np.square(np.floor(30 * X) - [10, 20]).sum(axis=1)

    problem = bench("problems").Problem("steps", np.array([[0.0, 1.0]] * 2), steps)
    runs = [bench("optimizers").OPTIMIZERS["RBFOpt"].minimize(problem, 40, s) for s in (1, 1, 2)]
    assert [run.nfev for run in runs] == [40, 40, 40]
    assert np.array_equal(runs[0].values, runs[1].values)
    assert not np.array_equal(runs[0].values, runs[2].values)
    assert runs[0].values.min() == 0
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
