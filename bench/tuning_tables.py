"""The paper's tables of hyperparameter tuning: StepDIRECT, treeopt's default and their peers.

One-vs-all and one-vs-one classifiers with one C per base classifier, and an SVM with the Gaussian
kernel and three parameters. All methods have the same splits and the same number of evaluations.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from command import carry_out, parser, rows_of
from machine import machine, versions
from rows import Row, tell
from tuning_methods import METHODS, methods_for
from tuning_problems import CASES, TEST, VALIDATION
from tuning_report import report

KEY = ("case", "split", "method", "budget")
COLUMNS = (*KEY, "p", "nfev", "validation", "test", "trainings")
COLUMNS += ("settings", "versions", "machine", "date")
PACKAGES = ("numpy", "scikit-learn")
QUICK = ("Synth one-vs-all logistic regression", "Synth one-vs-one logistic regression")
QUICK += ("diabetes RBF-SVM",)
QUICK_SEEDS = 3


@dataclass(frozen=True)
class Run:
    """Some methods on one split of a case."""

    case: str
    split: int
    methods: tuple[str, ...]

    @property
    def cost(self) -> float:
        heavy = "PenDigits" in self.case or "MNIST" in self.case or "ijcnn1" in self.case
        return 5.0 if heavy else 1.0

    def __str__(self) -> str:
        return f"{self.case}, split {self.split}"

    def expected(self) -> list[tuple[Any, ...]]:
        return [
            (self.case, self.split, name, budget)
            for name in self.methods
            for budgets in METHODS[name].runs(CASES[self.case].budgets)
            for budget in budgets
        ]

    def run(self) -> list[Row]:
        case = CASES[self.case]
        oracle = case.oracle(self.split)
        about = {"p": len(oracle.shape), "machine": machine()}
        about["date"] = datetime.date.today().isoformat()
        rows = []
        for name in self.methods:
            method = METHODS[name]
            packages = tuple(dict.fromkeys((*PACKAGES, *method.packages)))
            about |= {"settings": method.settings, "versions": versions(packages)}
            for budgets in method.runs(case.budgets):
                seen: list[Any] = []
                f = method.minimize(oracle.problem(self.case, seen), max(budgets), self.split)
                for budget in budgets:
                    key = (self.case, self.split, name, budget)
                    values, settings = f.values[: min(budget, f.nfev)], np.array(seen[:budget])
                    best = int(np.argmin(values))
                    if oracle.error(settings[best], VALIDATION) != values[best]:
                        raise AssertionError(f"{name} has evaluated more settings than it counted")
                    found = {
                        "nfev": len(values),
                        "validation": 1 - values[best],
                        "test": 1 - oracle.error(settings[best], TEST),
                        "trainings": oracle.trainings(settings),
                    }
                    rows.append(dict(zip(KEY, key, strict=True)) | about | found)
        oracle.close()
        return rows


def runs(options: argparse.Namespace) -> list[Run]:
    """Return the runs, split by split, so that partial results are balanced."""
    cases = at_hand(options.problems or (QUICK if options.quick else CASES))
    if not cases:
        raise SystemExit("there is nothing to run")
    most = options.seeds or (QUICK_SEEDS if options.quick else max_splits())
    found = []
    for split in range(most):
        for name in cases:
            methods = [m for m in methods_for(CASES[name]) if m in (options.methods or METHODS)]
            if split < CASES[name].data.splits:
                found.append(Run(name, split, tuple(methods)))
    return found


def at_hand(cases: Iterable[str]) -> list[str]:
    """Return the cases whose data are available; name the others, and how to get the data."""
    found = list(cases)
    for data in {CASES[name].data for name in found}:
        try:
            data.split(0)
        except FileNotFoundError as error:
            found = [name for name in found if CASES[name].data != data]
            tell(f"omitted: {error}")
    return found


def max_splits() -> int:
    return max(case.data.splits for case in CASES.values())


def main(arguments: Sequence[str] | None = None) -> None:
    line = parser(__doc__, "three cases, three splits", CASES, METHODS)
    line.add_argument(
        "--jobs", type=int, default=-1, help="number of processes, by default one per processor"
    )
    options = line.parse_args(arguments)
    rows = rows_of(options, "tuning_tables", KEY, COLUMNS)
    carry_out(options, rows, lambda: runs(options), options.jobs)
    print(report(rows.path))


if __name__ == "__main__":
    main()
