"""Effect of each idea of StepDIRECT and of treeopt's default: ``python bench/ablation.py``.

The paper's three ideas, local variability σ, importance weights and local search, are turned on and
off in all eight combinations. The choices that the default adds to the paper are undone one at a
time: by a setting if there is one, otherwise by an edit of the source in a copy of the package.
Every variant minimizes 35 forests (seven data sets, five forests each; no choice was made on any of
these forests) with 500 and 2,000 evaluations and five seeds. The result is the regret: 0 is the
proven optimum, 1 is the mean of the function over the box.

Finished rows are appended to ``bench/results/ablation.csv``. An interrupted run continues where it
stopped. Then ``ablation.md`` and ``ablation.png`` are written; ``--report`` writes only these. The
full form takes about 20 minutes, mainly to compile the edited copies. ``--quick`` takes half a
minute: it has two forests and no edits, and file names with ``ablation_quick``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ablation_variants import AVERAGE, OPTIMUM, RANDOM, VARIANTS
from command import carry_out, parser, rows_of
from machine import machine, versions
from optimizers import OPTIMIZERS, Optimizer, stepdirect
from problems import ABLATION, load
from rows import Row, uninterrupted

import treeopt

KEY = ("problem", "variant", "budget", "seed")
COLUMNS = (*KEY, "value", "bound", "settings", "versions", "machine", "date")
PACKAGES = ("numpy", "numba", "scikit-learn")
BUDGETS = (500, 2_000)
SEEDS = 5
QUICK = ("boston 1", "bodyfat 1")
PROOF_LIMIT = 60.0  # seconds

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Run:
    """All seeds of a variant on one forest; for an edit, on all forests, in one copy."""

    variant: str
    problems: tuple[str, ...]
    seeds: int

    @property
    def cost(self) -> float:
        return 1.0 if len(self.problems) == 1 else 150.0  # compiles a copy

    def __str__(self) -> str:
        return f"{self.variant}, {', '.join(self.problems[:1])}{', ...' * (len(self.problems) > 1)}"

    def expected(self) -> list[tuple[Any, ...]]:
        if self.variant in (OPTIMUM, AVERAGE):
            return [(problem, self.variant, 0, 0) for problem in self.problems]
        return list(product(self.problems, [self.variant], BUDGETS, range(self.seeds)))

    def run(self) -> list[Row]:
        if self.variant == OPTIMUM:
            found = [self.prove(problem) for problem in self.problems]
        elif self.variant == AVERAGE:
            found = [{"value": load(problem).average()} for problem in self.problems]
        elif self.variant == RANDOM:
            found = self.minimize(OPTIMIZERS[RANDOM])
        elif VARIANTS[self.variant].edit is None:
            found = self.minimize(optimizer(self.variant))
        else:
            found = self.in_a_copy()
        about = {"versions": versions(PACKAGES), "machine": machine()}
        about |= {"settings": str(VARIANTS.get(self.variant, "defaults"))}
        about["date"] = datetime.date.today().isoformat()
        keys = (dict(zip(KEY, key, strict=True)) for key in self.expected())
        return [key | row | about for key, row in zip(keys, found, strict=True)]

    def minimize(self, method: Optimizer) -> list[Row]:
        return [
            {"value": method.minimize(load(problem), budget, seed).after(budget)[0]}
            for problem, _, budget, seed in self.expected()
        ]

    def prove(self, problem: str) -> Row:
        p = load(problem)
        found = treeopt.minimize(p.ensemble, p.bounds, time_limit=PROOF_LIMIT)
        uninterrupted(found)
        return {"value": found.fun, "bound": found.bound}

    def in_a_copy(self) -> list[Row]:
        """Edit a copy of the package and run this script with it."""
        with tempfile.TemporaryDirectory() as folder:
            make_copy(Path(folder), VARIANTS[self.variant].edit)
            command = [sys.executable, __file__, "--worker", self.variant]
            command += ["--seeds", str(self.seeds), "--problems", *self.problems]
            path = os.pathsep.join([folder, str(HERE)])
            env = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": f"{folder}/cache"}
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)


def optimizer(variant: str) -> Optimizer:
    v = VARIANTS[variant]
    return Optimizer(variant, lambda f, seed: stepdirect(f, seed, v.settings, v.uniform))


def make_copy(folder: Path, edit: tuple[str, str]) -> None:
    """Copy the package and its data, and edit one line."""
    package = Path(treeopt.__file__).parent
    shutil.copytree(package, folder / "treeopt", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(package.parent / "data", folder / "data")
    path = folder / "treeopt" / "stepdirect" / "refinement.py"
    path.write_text(edited(path.read_text(encoding="utf-8"), edit), encoding="utf-8")


def edited(source: str, edit: tuple[str, str]) -> str:
    """Return the source with one line replaced; it must occur exactly once."""
    if source.count(edit[0]) != 1:
        raise ValueError(f"{edit[0].strip()!r} occurs {source.count(edit[0])} times in the source")
    return source.replace(*edit)


def work(options: argparse.Namespace) -> None:
    """Print the values of a variant whose edit is in the imported package."""
    run = Run(options.worker, tuple(options.problems), options.seeds)
    print(json.dumps(run.minimize(optimizer(options.worker))))


def runs(options: argparse.Namespace) -> list[Run]:
    """Return the runs; those with an edited copy come last."""
    plain = [n for n, v in VARIANTS.items() if v.edit is None]
    found = [
        Run(name, (problem,), options.seeds)
        for name in (OPTIMUM, AVERAGE, RANDOM, *plain)
        for problem in options.problems
    ]
    if not options.quick:
        edits = [n for n, v in VARIANTS.items() if v.edit is not None]
        found += [Run(name, tuple(options.problems), options.seeds) for name in edits]
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    found = parser(__doc__, "two forests, no edits", ABLATION)
    found.add_argument("--worker", choices=VARIANTS, help=argparse.SUPPRESS)
    options = found.parse_args(arguments)
    options.problems = options.problems or list(QUICK if options.quick else ABLATION)
    options.seeds = options.seeds or SEEDS
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.worker:
        work(options)
        return
    from ablation_report import report  # not in the workers: slow to load

    rows = rows_of(options, "ablation", KEY, COLUMNS)
    carry_out(options, rows, lambda: runs(options))
    print(report(rows.path))


if __name__ == "__main__":
    main()
