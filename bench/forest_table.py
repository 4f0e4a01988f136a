"""The paper's Tables 1 and 2, and what it could not have: ``python bench/forest_table.py``.

Forests of 100 trees, minimised over the range of their data. First as the paper ran them: 2,000
evaluations for the DIRECT family, the others to their own ends; then all of them with 2,000. Beside
them treeopt's default search with as many evaluations, and what looks inside the model: the local
search, and the proven optimum.

Every method sees the same function and the same box. A run is made with the compiled forest and,
for fewer seeds, with the forest's own ``predict``, one row per call as in the paper (pyswarms
passes its whole swarm): both must find the same value after as many evaluations. Times are by the
clock.

Finished rows are appended to ``bench/results/forest_table.csv``, and a run that was interrupted
goes on where it stopped; ``--redo`` forgets the rows of the chosen methods and problems first. Then
``forest_table.md`` is made; ``--report`` makes only that. It takes about an hour, most of it
waiting for ``predict``; with ``--quick``, which has few seeds and hardly any ``predict``, two
minutes, and the names begin with ``forest_table_quick``.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
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
    STEP,
    STEP_0,
    SWARM,
    report,
)
from machine import machine, versions
from optimizers import OPTIMIZERS, SEEDS
from problems import PAPER, load
from rows import Row

import treeopt

KEY = ("problem", "method", "budget", "seed", "oracle")
COLUMNS = (
    *("problem", "p", "method", "budget", "seed", "oracle", "value", "nfev", "seconds"),
    *("bound", "status", "settings", "versions", "machine", "date"),
)
PACKAGES = ("numpy", "numba", "scikit-learn")

RBFOPT, QUICK_RBFOPT = 300, 60  # evaluations; 300 is RBFOpt's default

BLACK_BOX: list[tuple[str, int]] = [
    ("scipy DIRECT", BUDGET),
    (DIRECT, BUDGET),
    (STEP_0, BUDGET),
    (STEP, BUDGET),
    ("DE (scipy)", OWN_END),
    ("DE (scipy)", BUDGET),
    ("PSO (pyswarms)", SWARM),
    ("PSO (pyswarms)", BUDGET),
    ("RBFOpt", RBFOPT),
    (DEFAULT, BUDGET),
]
"""Every line of the tables that evaluates only: the method and its evaluations."""

INSIDE = {LOCAL: "local", AUTO: "auto"}
"""Those that look inside the model, and their ``method``."""

COMPILED, PREDICT = "compiled", "predict"
PREDICT_SEEDS, SLOW_PREDICT_SEEDS = 3, 2  # slow: many evaluations, or many seconds between them
QUICK_SEEDS = 3
QUICK_BY_PREDICT = (STEP, *INSIDE)


@dataclass(frozen=True)
class Run:
    """One run of a method; ``oracle`` tells who evaluates."""

    problem: str
    method: str
    budget: int
    seed: int
    oracle: str

    def __str__(self) -> str:
        how = f"{self.budget:,} evaluations" if self.budget < OWN_END else "to its own end"
        return f"{self.method}, {how}, {self.problem}, seed {self.seed}, {self.oracle}"

    def expected(self) -> list[tuple[Any, ...]]:
        return [(self.problem, self.method, self.budget, self.seed, self.oracle)]

    def run(self) -> list[Row]:
        row = dict(zip(KEY, self.expected()[0], strict=True)) | {"p": load(self.problem).p}
        row |= self.decide() if self.method in INSIDE else self.minimise()
        row |= {"machine": machine(), "date": datetime.date.today().isoformat()}
        return [row]

    def minimise(self) -> Row:
        warm(self.method)
        problem, optimizer = load(self.problem), OPTIMIZERS[self.method]
        if self.oracle == PREDICT:
            problem = problem.by_predict()
        f = optimizer.minimise(problem, self.budget, self.seed, time.perf_counter)
        if f.nfev == OWN_END:
            raise AssertionError(f"{self}: it did not end by itself")
        value, nfev, seconds = f.after(self.budget)
        row = {"value": value, "nfev": nfev, "seconds": seconds, "settings": optimizer.settings}
        return row | {"versions": versions((*PACKAGES, *optimizer.packages))}

    def decide(self) -> Row:
        """Time a decision, from the model itself or from the converted one."""
        warm(self.method)
        problem, method = load(self.problem), INSIDE[self.method]
        model = problem.ensemble if self.oracle == COMPILED else problem.model
        begin = time.perf_counter()
        found = treeopt.minimize(model, problem.bounds, method=method, rng=self.seed)
        row: Row = {"seconds": time.perf_counter() - begin, "value": found.fun, "nfev": found.nfev}
        if problem.model.predict(np.array(found.x)[None])[0] != found.fun:
            raise AssertionError(f"{self}: {found.fun!r} is not what the model predicts")
        row |= {"bound": found.bound, "status": found.status.name, "versions": versions(PACKAGES)}
        return row | {"settings": f"method={method!r}"}


@cache
def warm(method: str) -> None:
    """Let a method import and compile what it needs before it is timed."""
    problem = load(next(iter(PAPER)))
    if method in INSIDE:
        treeopt.warmup(problem.ensemble)
        return
    for form in (problem, problem.by_predict()):
        OPTIMIZERS[method].minimise(form, 30, 0)


def runs(options: argparse.Namespace) -> list[Run]:
    """Return the runs, the compiled ones first."""
    found = []
    lines = [*BLACK_BOX, (LOCAL, BUDGET), (AUTO, OWN_END)]
    for oracle in (COMPILED, PREDICT):
        for method, budget in lines:
            if method not in options.methods:
                continue
            seeds = range(options.seeds)
            if method in OPTIMIZERS:
                seeds = OPTIMIZERS[method].seeds(options.seeds)
            if method == "RBFOpt" and options.quick:
                seeds, budget = seeds[:1], QUICK_RBFOPT
            if oracle == PREDICT:
                if options.quick and method not in QUICK_BY_PREDICT:
                    continue
                slow = budget == OWN_END or method == "RBFOpt"
                n = 1 if options.quick else SLOW_PREDICT_SEEDS if slow else PREDICT_SEEDS
                seeds = seeds[:n]
            found += [
                Run(problem, method, budget, seed, oracle)
                for problem in options.problems
                for seed in seeds
            ]
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    methods = list(dict.fromkeys([method for method, _ in BLACK_BOX] + list(INSIDE)))
    options = parser(__doc__, "few seeds, hardly any predict", PAPER, methods).parse_args(arguments)
    options.methods = options.methods or methods
    options.problems = options.problems or list(PAPER)
    options.seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    rows = rows_of(options, "forest_table", KEY, COLUMNS)
    carry_out(options, rows, lambda: runs(options))
    print(report(rows.path))


if __name__ == "__main__":
    main()
