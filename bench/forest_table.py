"""The paper's Tables 1 and 2, extended by proven optima: ``python bench/forest_table.py``.

Forests of 100 trees are minimized over the range of their data. First as in the paper: 2,000
evaluations for the DIRECT family, and the others with their own stopping rules. Then all methods
with 2,000 evaluations. In addition, treeopt's default search with the same number of evaluations,
and two methods that use the trees: the local search and the proof of the optimum.

Every method minimizes the same function on the same box. Each run uses the compiled forest and, for
fewer seeds, the forest's own ``predict``, one row per call as in the paper (pyswarms passes its
whole swarm). Both must find the same value after the same number of evaluations. Times are
wall-clock times.

Finished rows are appended to ``bench/results/forest_table.csv``. An interrupted run continues where
it stopped; ``--redo`` first discards the rows of the selected methods and problems. Then
``forest_table.md`` is written; ``--report`` writes only that. The full form takes about 75 minutes,
most of it in ``predict``. ``--quick`` takes one minute: it has two forests, few seeds and few calls
of ``predict``, and file names begin with ``forest_table_quick``.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from command import carry_out, parser, rows_of
from forest_report import (
    AUTO,
    BUDGET,
    DEFAULT,
    DIRECT,
    LOCAL,
    OWN_END,
    RANDOM,
    STEP,
    STEP_0,
    SWARM,
    report,
)
from machine import machine, versions
from optimizers import OPTIMIZERS, SEEDS
from problems import PAPER, load
from rows import Row, uninterrupted

import treeopt

KEY = ("problem", "method", "budget", "seed", "oracle")
COLUMNS = (
    *("problem", "p", "method", "budget", "seed", "oracle", "value", "nfev", "seconds"),
    *("bound", "status", "settings", "versions", "machine", "date"),
)
PACKAGES = ("numpy", "numba", "scikit-learn")

RBFOPT, QUICK_RBFOPT = 300, 60  # evaluations; 300 is RBFOpt's default

BUDGETS: dict[str, tuple[int, ...]] = {
    RANDOM: (BUDGET,),
    "scipy DIRECT": (BUDGET,),
    DIRECT: (BUDGET,),
    STEP_0: (BUDGET,),
    STEP: (BUDGET,),
    "DE (scipy)": (BUDGET, OWN_END),
    "PSO (pyswarms)": (BUDGET, SWARM),
    "RBFOpt": (RBFOPT,),
    DEFAULT: (BUDGET,),
    LOCAL: (BUDGET,),
    AUTO: (OWN_END,),
}
"""The methods, and the numbers of evaluations after which values are recorded."""

INSIDE = {LOCAL: "local", AUTO: "auto"}
"""The methods that use the trees, and their argument ``method``."""

COMPILED, PREDICT = "compiled", "predict"
PREDICT_SEEDS, SLOW_PREDICT_SEEDS = 3, 2  # slow: many evaluations, or many seconds between them
QUICK_SEEDS, QUICK_PROBLEMS = 3, ("boston", "mpg")
QUICK_BY_PREDICT = (STEP, *INSIDE)


@dataclass(frozen=True)
class Run:
    """One run of a method; ``oracle`` is the evaluator, compiled or ``predict``."""

    problem: str
    method: str
    budgets: tuple[int, ...]
    seed: int
    oracle: str

    @property
    def cost(self) -> float:
        """Approximate duration in seconds."""
        if self.method == "RBFOpt":
            return 40.0
        by_rows = self.oracle == PREDICT and self.method not in INSIDE
        return 0.01 * min(max(self.budgets), 10_000) if by_rows else 0.2

    def __str__(self) -> str:
        ends = (f"{b:,} evaluations" if b < OWN_END else "to its own end" for b in self.budgets)
        return f"{self.method}, {' and '.join(ends)}, {self.problem}, {self.oracle}"

    def expected(self) -> list[tuple[Any, ...]]:
        return [(self.problem, self.method, b, self.seed, self.oracle) for b in self.budgets]

    def run(self) -> list[Row]:
        warm(self.method)
        found = [self.decide()] if self.method in INSIDE else self.minimize()
        about = {"p": load(self.problem).p, "machine": machine()}
        about["date"] = datetime.date.today().isoformat()
        keys = (dict(zip(KEY, key, strict=True)) for key in self.expected())
        return [key | row | about for key, row in zip(keys, found, strict=True)]

    def minimize(self) -> list[Row]:
        problem, optimizer = load(self.problem), OPTIMIZERS[self.method]
        if self.oracle == PREDICT:
            problem = problem.by_predict()
        f = optimizer.minimize(problem, max(self.budgets), self.seed, time.perf_counter)
        if f.nfev == OWN_END:
            raise AssertionError(f"{self}: it did not stop by itself")
        about = {"settings": optimizer.settings}
        about["versions"] = versions((*PACKAGES, *optimizer.packages))
        ends = (f.after(budget) for budget in self.budgets)
        return [{"value": v, "nfev": n, "seconds": s} | about for v, n, s in ends]

    def decide(self) -> Row:
        """Time a decision on the model itself or on the converted model."""
        problem, method = load(self.problem), INSIDE[self.method]
        model = problem.ensemble if self.oracle == COMPILED else problem.model
        begin = time.perf_counter()
        found = treeopt.minimize(model, problem.bounds, method=method, rng=self.seed)
        uninterrupted(found)
        row: Row = {"seconds": time.perf_counter() - begin, "value": found.fun, "nfev": found.nfev}
        if problem.model.predict(np.array(found.x)[None])[0] != found.fun:
            raise AssertionError(f"{self}: {found.fun!r} is not what the model predicts")
        row |= {"bound": found.bound, "status": found.status.name, "versions": versions(PACKAGES)}
        return row | {"settings": f"method={method!r}"}


@cache
def warm(method: str) -> None:
    """Run a method once before it is timed, so that imports and compilation do not count."""
    problem = load(next(iter(PAPER)))
    if method in INSIDE:
        treeopt.warmup(problem.ensemble)
        return
    for form in (problem, problem.by_predict()):
        OPTIMIZERS[method].minimize(form, 30, 0)


def runs(options: argparse.Namespace) -> list[Run]:
    """Return the runs, the compiled ones first."""
    found = []
    for oracle, method in product((COMPILED, PREDICT), options.methods):
        budgets, seeds = BUDGETS[method], range(options.seeds)
        if method in OPTIMIZERS:
            seeds = OPTIMIZERS[method].seeds(options.seeds)
        if method == "RBFOpt" and options.quick:
            budgets, seeds = (QUICK_RBFOPT,), seeds[:1]
        if oracle == PREDICT:
            if options.quick and method not in QUICK_BY_PREDICT:
                continue
            slow = method == "RBFOpt" or (OWN_END in budgets and method not in INSIDE)
            n = 1 if options.quick else SLOW_PREDICT_SEEDS if slow else PREDICT_SEEDS
            seeds = seeds[:n]
        found += [
            Run(problem, method, budgets, seed, oracle)
            for problem in options.problems
            for seed in seeds
        ]
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, "two forests, few seeds", PAPER, BUDGETS).parse_args(arguments)
    options.methods = options.methods or list(BUDGETS)
    options.problems = options.problems or list(QUICK_PROBLEMS if options.quick else PAPER)
    options.seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    rows = rows_of(options, "forest_table", KEY, COLUMNS)
    carry_out(options, rows, lambda: runs(options))
    print(report(rows.path))


if __name__ == "__main__":
    main()
