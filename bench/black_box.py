"""Minimisation of stepwise functions, treeopt and its peers: ``python bench/black_box.py``.

Every method of ``optimizers.py`` minimises every problem of ``problems.py`` with the same numbers
of evaluations, all through the same compiled function, once per seed. Before a model is used, its
compiled function must be bit-equal to the prediction of the model itself.

Finished rows are appended to ``bench/results/black_box.csv``, and a run that was interrupted goes
on where it stopped; ``--redo`` forgets the rows of the chosen methods and problems first. Then the
report and the plot are made, ``black_box.md`` and ``black_box.png``; ``--report`` makes only these.
With ``--quick`` the names begin with ``black_box_quick``, and very slow methods run only if named.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from black_box_report import report
from machine import machine, versions
from optimizers import OPTIMIZERS, SEEDS
from problems import PROBLEMS, Problem, load

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

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One run of a method, and the budgets it answers for."""

    method: str
    problem: str
    seed: int
    budgets: tuple[int, ...]

    def keys(self) -> list[tuple[Any, ...]]:
        return [(self.problem, self.method, budget, self.seed) for budget in self.budgets]

    def run(self) -> list[Row]:
        problem = checked(self.problem)
        warm(self.method, self.problem)
        f = OPTIMIZERS[self.method].minimise(problem, max(self.budgets), self.seed)
        rows = []
        for key, budget in zip(self.keys(), self.budgets, strict=True):
            value, nfev, seconds = f.after(budget)
            row = {"p": problem.p, "value": value, "nfev": nfev, "seconds": round(seconds, 5)}
            rows.append(dict(zip(KEY, key, strict=True)) | row)
        return rows


@cache
def checked(name: str) -> Problem:
    """Load a problem. A model's compiled function must predict as the model itself, refitted."""
    problem = load(name)
    recipe = getattr(PROBLEMS[name], "keywords", {})
    if "estimator" in recipe:
        model = recipe["estimator"]().fit(*recipe["data"]())
        X = np.random.default_rng(0).uniform(*problem.bounds.T, size=(1000, problem.p))
        X = X.astype(np.float32).astype(np.float64)  # what every library reads alike
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            own = model.predict(X)
        if not np.array_equal(problem.fun(X), own):
            raise AssertionError(f"{name}: the compiled function differs from the model")
    return problem


@cache
def warm(method: str, problem: str) -> None:
    """Let a method import and compile what it needs before it is timed."""
    OPTIMIZERS[method].minimise(checked(problem), 30, 0)


def tasks(options: argparse.Namespace) -> list[Task]:
    """Return the runs, method by method, seed by seed: one that is cut short has all problems."""
    return [
        Task(method, problem, seed, budgets)
        for method in options.methods
        for budgets in OPTIMIZERS[method].runs(options.budgets)
        for seed in OPTIMIZERS[method].seeds(options.seeds)
        for problem in options.problems
    ]


def finished(path: Path) -> list[Row]:
    """Return the rows that are there; a last line that was cut off is none."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["seconds"]]
    return [row | {"budget": int(row["budget"]), "seed": int(row["seed"])} for row in rows]


def key(row: Row) -> tuple[Any, ...]:
    return tuple(row[k] for k in KEY)


def write(path: Path, rows: list[Row], mode: str = "a") -> None:
    with path.open(mode, newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if file.tell() == 0:
            writer.writeheader()
        writer.writerows(rows)


def forget(path: Path, options: argparse.Namespace) -> None:
    rows = finished(path)
    kept = [
        row
        for row in rows
        if row["method"] not in options.methods or row["problem"] not in options.problems
    ]
    unfinished = path.with_suffix(".tmp")
    write(unfinished, kept, "w")
    unfinished.replace(path)


def attempt(task: Task) -> tuple[Task, list[Row] | ImportError]:
    try:
        return task, task.run()
    except ImportError as missing:
        return task, missing


def results(todo: list[Task], jobs: int) -> Iterator[tuple[Task, list[Row] | ImportError]]:
    if jobs == 1:
        return map(attempt, todo)
    from joblib import Parallel, delayed

    return Parallel(jobs, return_as="generator_unordered")(delayed(attempt)(t) for t in todo)


def measure(path: Path, options: argparse.Namespace) -> None:
    """Run what is not there yet, and say how far it is."""
    done = {key(row) for row in finished(path)}
    todo = [task for task in tasks(options) if not done.issuperset(task.keys())]
    begin = time.perf_counter()
    absent: dict[str, ImportError] = {}
    for k, (task, rows) in enumerate(results(todo, options.jobs), 1):
        if isinstance(rows, ImportError):
            absent[task.method] = rows
            continue
        write(path, [row for row in rows if key(row) not in done])
        text = f"{k}/{len(todo)} {task.method}, {task.problem}, seed {task.seed}"
        last = rows[-1]
        text += f": {last['value']:.6g} after {last['nfev']:,} in {last['seconds']:.2f} s"
        print(f"[{time.perf_counter() - begin:6.0f} s] {text}", file=sys.stderr, flush=True)
    for method, missing in absent.items():
        print(f"{method} did not run: {missing}", file=sys.stderr)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="four problems, three seeds")
    parser.add_argument("--methods", nargs="+", choices=OPTIMIZERS, metavar="METHOD")
    parser.add_argument("--peers", action="store_true", help="all methods but treeopt's")
    parser.add_argument("--own", action="store_true", help="treeopt's methods only")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, metavar="PROBLEM")
    parser.add_argument("--budgets", nargs="+", type=int)
    parser.add_argument("--seeds", type=int, help="20, with --quick 3; fewer for slow methods")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--redo", action="store_true", help="forget the rows of these methods")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    options.problems = options.problems or list(QUICK_PROBLEMS if options.quick else PROBLEMS)
    options.budgets = tuple(options.budgets or (QUICK_BUDGETS if options.quick else BUDGETS))
    options.seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    options.methods = options.methods or [
        name
        for name in OPTIMIZERS
        if not (options.quick and name in TOO_SLOW_FOR_QUICK)
        and not (options.peers and "treeopt" in name)
        and not (options.own and "treeopt" not in name)
    ]
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / ("black_box_quick.csv" if options.quick else "black_box.csv")
    about = path.with_suffix(".json")
    if not options.report:
        if options.redo:
            forget(path, options)
        facts = {"machine": machine(), "versions": versions(PACKAGES)}
        facts["date"] = datetime.date.today().isoformat()
        about.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        measure(path, options)
    print(report(path, json.loads(about.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
