"""Minimization of stepwise functions by treeopt and its peers: ``python bench/black_box.py``.

Every method of ``optimizers.py`` minimizes every problem of ``problems.PROBLEMS`` with the same
numbers of evaluations, through the same compiled function, once per seed. Before a model is used,
its compiled function must equal the prediction of the model itself to the last bit.

Finished rows are appended to ``bench/results/black_box.csv``. An interrupted run continues where it
stopped; ``--redo`` first discards the rows of the selected methods and problems. Then the page
``black_box.md`` and the plot ``black_box.png`` are written; ``--report`` writes only these. With
``--quick``, file names begin with ``black_box_quick``, and very slow methods run only if named.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from black_box_report import report
from command import carry_out, parser, rows_of
from machine import machine, versions
from optimizers import OPTIMIZERS, SEEDS
from problems import PROBLEMS, load
from rows import Row

COLUMNS = ("problem", "p", "method", "budget", "seed", "value", "nfev", "seconds")
KEY = ("problem", "method", "budget", "seed")
BUDGETS = (500, 2_000, 10_000)
QUICK_BUDGETS = (500, 2_000)
QUICK_SEEDS = 3
QUICK_PROBLEMS = ("boston", "bodyfat", "diabetes XGBoost", "rastrigin")
TOO_SLOW_FOR_QUICK = ("TwoPointsDE (nevergrad)", "TPE (optuna)", "NGOpt (nevergrad)")
PACKAGES = (
    *("numpy", "numba", "scikit-learn", "xgboost", "lightgbm"),
    *("scipy", "nlopt", "pyswarms", "cma", "nevergrad", "optuna"),
)


@dataclass(frozen=True)
class Run:
    """One run of a method, and the budgets for which it gives results."""

    method: str
    problem: str
    seed: int
    budgets: tuple[int, ...]

    @property
    def cost(self) -> float:
        return max(self.budgets) * (100 if self.method in TOO_SLOW_FOR_QUICK else 1)

    def __str__(self) -> str:
        return f"{self.method}, {self.problem}, seed {self.seed}"

    def expected(self) -> list[tuple[Any, ...]]:
        return [(self.problem, self.method, budget, self.seed) for budget in self.budgets]

    def run(self) -> list[Row]:
        warm(self.method, self.problem)
        problem = load(self.problem)
        f = OPTIMIZERS[self.method].minimize(problem, max(self.budgets), self.seed)
        rows = []
        for key, budget in zip(self.expected(), self.budgets, strict=True):
            value, nfev, seconds = f.after(budget)
            row = {"p": problem.p, "value": value, "nfev": nfev, "seconds": round(seconds, 5)}
            rows.append(dict(zip(KEY, key, strict=True)) | row)
        return rows


@cache
def warm(method: str, problem: str) -> None:
    """Run a method once before it is timed, so that imports and compilation do not count."""
    OPTIMIZERS[method].minimize(load(problem), 30, 0)


def runs(options: argparse.Namespace) -> list[Run]:
    """Return the runs by method and seed, so that a partial result covers all problems."""
    return [
        Run(method, problem, seed, budgets)
        for method in options.methods
        for budgets in OPTIMIZERS[method].runs(options.budgets)
        for seed in OPTIMIZERS[method].seeds(options.seeds)
        for problem in options.problems
    ]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    found = parser(__doc__, "four problems, three seeds", PROBLEMS, OPTIMIZERS)
    found.add_argument("--peers", action="store_true", help="all methods but treeopt's")
    found.add_argument("--own", action="store_true", help="treeopt's methods only")
    found.add_argument("--budgets", nargs="+", type=int)
    options = found.parse_args(arguments)
    options.problems = options.problems or list(QUICK_PROBLEMS if options.quick else PROBLEMS)
    options.budgets = tuple(options.budgets or (QUICK_BUDGETS if options.quick else BUDGETS))
    options.seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    options.methods = options.methods or [
        name
        for name, optimizer in OPTIMIZERS.items()
        if not optimizer.own_end
        and not (options.quick and name in TOO_SLOW_FOR_QUICK)
        and not (options.peers and "treeopt" in name)
        and not (options.own and "treeopt" not in name)
    ]
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    rows = rows_of(options, "black_box", KEY, COLUMNS)
    about = rows.path.with_suffix(".json")
    if not options.report:
        facts = {"machine": machine(), "versions": versions(PACKAGES)}
        facts["date"] = datetime.date.today().isoformat()
        about.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    carry_out(options, rows, lambda: runs(options))
    print(report(rows.path, json.loads(about.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
