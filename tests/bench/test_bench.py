"""The benchmarks count fairly, see one function, and go on where they stopped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

METHODS = (
    *("treeopt default", "treeopt default, no weights", "StepDIRECT (treeopt, paper)"),
    *("StepDIRECT-0 (treeopt, paper)", "DIRECT (treeopt)", "random search", "(1+1)"),
    *("scipy DIRECT", "scipy DIRECT_L", "dual annealing (scipy)", "differential evolution (scipy)"),
    *("DE (scipy)", "PSO (pyswarms)"),
)


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
    run = bench("optimizers").OPTIMIZERS[method].minimize(watched, 150, 0)
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


@pytest.mark.parametrize("method", ["StepDIRECT (treeopt, paper)", "treeopt default", "DE (scipy)"])
def test_predict_leads_where_the_compiled_form_does(method, bench):
    problem = bench("problems").load("wine XGBoost 0")
    run = bench("optimizers").OPTIMIZERS[method].minimize
    compiled, own = (run(p, 120, 3) for p in (problem, problem.by_predict()))
    assert np.array_equal(compiled.values, own.values)


def test_a_compiled_form_that_differs_is_found(bench):
    problem = bench("problems").load("friedman1-10")
    shifted = bench("dataclasses").replace(problem, fun=lambda X: problem.fun(X) + 1e-9)
    with pytest.raises(AssertionError, match="friedman1-10: the compiled function differs"):
        shifted.check(10)


def test_times_grow_also_when_values_come_at_once(bench):
    problem = bench("problems").load("rastrigin")
    f = bench("optimizers").Counter(problem, 100)
    f.record(np.zeros(60))
    f.record(np.zeros(40))
    assert (np.diff(f.times) >= 0).all() and f.after(60)[2] <= f.after(100)[2]


# Rows --------------------------------------------------------------------------------------------


@dataclass
class Square:
    """A task that notes when it is run."""

    n: int
    made: list
    cost: float = 1.0

    def expected(self):
        return [(self.n, sign) for sign in "+-"]

    def run(self):
        self.made.append(self.n)
        if self.n == 3:
            raise ImportError("no module named three")
        return [{"n": n, "sign": sign, "square": n * n} for n, sign in self.expected()]


@pytest.fixture
def rows(bench, tmp_path):
    return bench("rows").Rows(tmp_path / "squares.csv", ("n", "sign"), ("n", "sign", "square"))


@pytest.mark.parametrize("cut", [-2, -3, -5])
def test_an_interrupted_run_goes_on_where_it_stopped(cut, rows, bench, capsys):
    complete = bench("rows").complete
    made = []
    complete([Square(n, made) for n in (1, 2)], rows)
    text = rows.path.read_bytes()
    rows.path.write_bytes(text[:cut])  # in the last line
    complete([Square(n, made) for n in (1, 2, 3, 4)], rows)
    assert made == [1, 2, 2, 3, 4]
    found = [(row["n"], row["sign"], row["square"]) for row in rows]
    assert found == [(n, s, str(int(n) ** 2)) for n in "124" for s in "+-"]
    said = capsys.readouterr().err
    assert "1 tasks did not run: no module named three" in said
    assert "1 of 4 tasks are done already" in said


def test_rows_are_forgotten(rows, bench):
    bench("rows").complete([Square(n, []) for n in (1, 2)], rows)
    rows.forget(lambda row: row["n"] == "1")
    assert rows.keys() == {("2", "+"), ("2", "-")}
