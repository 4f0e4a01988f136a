"""treeopt and its peers on problems not used for design choices: ``python bench/unseen.py``.

The problems are models of three libraries with default settings, on seven data sets (eight with
California housing, if available), three models each. The methods of ``optimizers.py`` minimize them
with 2,000 evaluations and five seeds each, through the same compiled function. For comparison there
are treeopt's local search, which uses the trees, and the optimum, proven or bounded within half a
minute. None of these problems was used in the development of treeopt.

Finished rows are appended to ``bench/results/unseen.csv``. An interrupted run continues where it
stopped; ``--redo`` first discards the rows of the selected methods and problems. Then ``unseen.md``
and ``unseen.png`` are written; ``--report`` writes only these. The full form takes half an hour.
``--quick`` takes one minute: it has four small problems, the fast methods, and file names with
``unseen_quick``.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from black_box import TOO_SLOW_FOR_QUICK
from command import carry_out, parser, rows_of
from machine import machine, versions
from optimizers import OPTIMIZERS
from problems import UNSEEN, UNSEEN_DATA, load
from rows import Row, tell, uninterrupted
from unseen_report import AUTO, AVERAGE, LOCAL, report

import treeopt

KEY = ("problem", "method", "seed")
COLUMNS = (
    *("problem", "p", "method", "seed", "value", "nfev", "seconds", "bound", "status"),
    *("settings", "versions", "machine", "date"),
)
PACKAGES = ("numpy", "scikit-learn", "xgboost", "lightgbm")
BUDGET = 2_000
SEEDS, QUICK_SEEDS = 5, 2
PROOF_LIMIT, QUICK_PROOF_LIMIT = 30.0, 5.0
METHODS = [
    *(n for n, o in OPTIMIZERS.items() if not o.own_end and (o.max_budget or BUDGET) >= BUDGET),
    *(LOCAL, AUTO),
]
ONE_SEED = ("NGOpt (nevergrad)", AUTO, AVERAGE)
QUICK = ("friedman2 forest 0", "friedman2 LightGBM 0", "wine forest 0", "wine LightGBM 0")


@dataclass(frozen=True)
class Run:
    """All seeds of a method on one problem."""

    problem: str
    method: str
    seeds: int
    limit: float

    @property
    def cost(self) -> float:
        return 50.0 if self.method in (*TOO_SLOW_FOR_QUICK, LOCAL, AUTO) else 1.0

    def __str__(self) -> str:
        return f"{self.method}, {self.problem}"

    def expected(self) -> list[tuple[Any, ...]]:
        seeds = range(1 if self.method in ONE_SEED else self.seeds)
        if self.method in OPTIMIZERS:
            seeds = OPTIMIZERS[self.method].seeds(len(seeds))
        return [(self.problem, self.method, seed) for seed in seeds]

    def run(self) -> list[Row]:
        about = {"p": load(self.problem).p, "machine": machine()}
        about["date"] = datetime.date.today().isoformat()
        return [
            dict(zip(KEY, key, strict=True)) | about | self.made(key[-1]) for key in self.expected()
        ]

    def made(self, seed: int) -> Row:
        if self.method == AVERAGE:
            return {"value": load(self.problem).average(), "versions": versions(PACKAGES)}
        warm(self.method, self.problem)
        return self.minimize(seed) if self.method in OPTIMIZERS else self.decide(seed)

    def minimize(self, seed: int) -> Row:
        optimizer = OPTIMIZERS[self.method]
        f = optimizer.minimize(load(self.problem), BUDGET, seed, time.perf_counter)
        value, nfev, seconds = f.after(BUDGET)
        row = {"value": value, "nfev": nfev, "seconds": round(seconds, 5)}
        row |= {"settings": optimizer.settings}
        return row | {"versions": versions((*PACKAGES, *optimizer.packages))}

    def decide(self, seed: int) -> Row:
        problem, method = load(self.problem), self.method.removeprefix("treeopt ")
        limits = {"time_limit": self.limit} if self.method == AUTO else {"max_evals": BUDGET}
        found = treeopt.minimize(
            problem.ensemble, problem.bounds, method=method, rng=seed, **limits
        )
        uninterrupted(found)
        row = {"value": found.fun, "nfev": found.nfev, "seconds": round(found.time, 5)}
        row |= {"bound": found.bound, "status": found.status.name, "versions": versions(PACKAGES)}
        return row | {"settings": ", ".join(f"{k}={v}" for k, v in limits.items())}


@cache
def warm(method: str, problem: str) -> None:
    """Run a method once before it is timed, so that imports and compilation do not count."""
    if method in OPTIMIZERS:
        OPTIMIZERS[method].minimize(load(problem), 30, 0)
    else:
        treeopt.warmup(load(problem).ensemble)


def runs(options: argparse.Namespace) -> list[Run]:
    """Return the runs by method; the means over the box, which the regrets need, come first."""
    problems = options.problems or at_hand()
    return [
        Run(problem, method, options.seeds, options.limit)
        for method in (AVERAGE, *options.methods)
        for problem in problems
    ]


def at_hand() -> list[str]:
    """Return the problems whose data are available; name the others."""
    found = list(UNSEEN)
    for name, data in UNSEEN_DATA.items():
        try:
            data(0)
        except OSError as error:
            tell(
                f"{name} is omitted, because its data are not available: {error}. With a network "
                "connection, scikit-learn downloads them to its data home."
            )
            found = [problem for problem in found if not problem.startswith(f"{name} ")]
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, "four problems, fast methods", UNSEEN, METHODS).parse_args(arguments)
    options.seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    options.limit = QUICK_PROOF_LIMIT if options.quick else PROOF_LIMIT
    slow = TOO_SLOW_FOR_QUICK if options.quick else ()
    options.methods = options.methods or [name for name in METHODS if name not in slow]
    options.problems = options.problems or (list(QUICK) if options.quick else None)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    rows = rows_of(options, "unseen", KEY, COLUMNS)
    carry_out(options, rows, lambda: runs(options))
    print(report(rows.path))


if __name__ == "__main__":
    main()
