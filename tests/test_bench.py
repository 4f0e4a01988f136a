"""The black-box benchmark counts fairly; the peers that need no extra are tried."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"
METHODS = (
    *("treeopt default", "treeopt default, no weights", "StepDIRECT (treeopt, paper)"),
    *("StepDIRECT-0 (treeopt, paper)", "DIRECT (treeopt)", "random search", "(1+1)"),
    *("scipy DIRECT", "scipy DIRECT_L", "dual annealing (scipy)", "differential evolution (scipy)"),
)


@pytest.fixture(scope="module")
def bench():
    """Return a function that imports a module of the benchmark."""
    sys.path.insert(0, str(BENCH))
    yield importlib.import_module
    sys.path.remove(str(BENCH))


@pytest.fixture(scope="module", params=["friedman1-10", "rastrigin"])
def problem(request, bench):
    return bench("problems").load(request.param)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_spends_its_budget_on_the_right_function(method, problem, bench):
    calls = []

    def counted(X):
        calls.append(len(X))
        return problem.fun(X)

    watched = bench("dataclasses").replace(problem, fun=counted)
    run = bench("optimizers").OPTIMIZERS[method].minimise(watched, 150, 0)
    assert run.nfev == 150
    compiled = "treeopt" in method and problem.ensemble is not None
    assert sum(calls) == (0 if compiled else 150)
    value, nfev, seconds = run.after(100)
    assert nfev == 100 and seconds >= 0 and value == run.values[:100].min()


def test_line_search_finds_no_worse_than_black_box(bench):
    problem = bench("problems").load("friedman1-10")
    best = bench("best_known").best_by_lines(problem, kicks=5)
    values = problem.fun(np.random.default_rng(0).uniform(*problem.bounds.T, (1000, problem.p)))
    assert best < values.min()
