"""Time per proposal of `StepDirect` and `StepDirectSampler`, and of Optuna's own samplers.

It is the time to propose a point in 10 dimensions and to store its value, after 1,000 evaluations.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
from command import carry_out, parser, rows_of
from machine import machine, versions
from rows import Row
from text import provenance, table

import treeopt
from treeopt.tuning import StepDirectSampler

COLUMNS = ("method", "space", "known", "median", "high", "versions", "machine", "date")
P, KNOWN, TIMED = 10, 1_000, 200
QUICK_KNOWN = 100

REAL: dict[str, Any] = {f"x{k}": (0.0, 1.0) for k in range(P)}
MIXED = {f"x{k}": (1e-3, 1e3, "log") for k in range(4)} | {f"n{k}": (1, 500) for k in range(3)}
MIXED |= {f"c{k}": ["a", "b", "c", "d"] for k in range(3)}
SPACES = {"real": REAL, "mixed": MIXED}


def steps(point: dict[str, Any]) -> float:
    """Return the value of a step function of numbers and letters."""
    codes = (ord(v) - 97.0 if isinstance(v, str) else float(v) for v in point.values())
    return float(sum(np.floor(9 * abs(code - 0.3)) for code in codes))


def ask_and_tell(space: dict[str, Any], settings: Any) -> Iterator[None]:
    """Run a search; between two yields there is one proposal and its value."""
    search = treeopt.StepDirect(space, settings=settings, rng=0)
    while True:
        (point,) = search.ask(1)
        search.tell(point, steps(point))
        yield


def in_a_study(space: dict[str, Any], sampler: Callable[[], Any]) -> Iterator[None]:
    """Run a study in memory; its time includes that of Optuna itself."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=sampler())
    while True:
        trial = study.ask()
        study.tell(trial, steps({name: suggest(trial, name, s) for name, s in space.items()}))
        yield


def suggest(trial: Any, name: str, spec: Any) -> Any:
    if isinstance(spec, list):
        return trial.suggest_categorical(name, spec)
    if isinstance(spec[0], int):
        return trial.suggest_int(name, *spec)
    return trial.suggest_float(name, *spec[:2], log=len(spec) == 3)


METHODS: dict[str, Callable[[dict[str, Any]], Iterator[None]]] = {
    "StepDirect (default)": partial(ask_and_tell, settings=treeopt.StepDirectSettings()),
    "StepDirect (paper)": partial(ask_and_tell, settings=treeopt.StepDirectSettings.paper()),
    "StepDirectSampler": partial(in_a_study, sampler=lambda: StepDirectSampler(seed=0)),
    "RandomSampler": partial(in_a_study, sampler=lambda: optuna.samplers.RandomSampler(seed=0)),
    "TPESampler": partial(in_a_study, sampler=lambda: optuna.samplers.TPESampler(seed=0)),
}


@dataclass(frozen=True)
class Run:
    """One method on one space."""

    method: str
    space: str
    known: int
    cost = 1.0

    def __str__(self) -> str:
        return f"{self.method}, {self.space}"

    def expected(self) -> list[tuple[Any, ...]]:
        return [(self.method, self.space)]

    def run(self) -> list[Row]:
        search = METHODS[self.method](SPACES[self.space])
        for _ in range(self.known):
            next(search)
        times = []
        for _ in range(TIMED):
            begin = time.perf_counter()
            next(search)
            times.append(1000 * (time.perf_counter() - begin))
        row = {"method": self.method, "space": self.space, "known": self.known}
        row |= {"median": np.median(times), "high": np.quantile(times, 0.95)}
        row |= {"versions": versions(("numpy", "numba", "optuna")), "machine": machine()}
        return [row | {"date": datetime.date.today().isoformat()}]


def report(path: Path) -> str:
    """Write the page next to the rows, and return it."""
    data = pd.read_csv(path)
    rows = []
    for method, part in data.groupby("method", sort=False):
        times = part.set_index("space").reindex(SPACES)
        rows.append([str(method), *(f"{ms:.3g}" for ms in times[["median", "high"]].stack())])
    head = [f"{space}, {what}" for space in SPACES for what in ("median", "95 %")]
    lines = [
        "# Time per proposal",
        "",
        provenance(data),
        "",
        f"Milliseconds to propose one point in {P} dimensions and to store its value, after "
        f"{data['known'].max():,} evaluations ({TIMED} times), for a real box and for a space of "
        "four logarithmic numbers, three integers and three choices. For samplers, this includes "
        "the time of the study, in memory; compare with `RandomSampler`.",
        "",
        *table(["method", *head], rows),
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, "after 100 evaluations", SPACES, METHODS).parse_args(arguments)
    rows = rows_of(options, "tuning_cost", ("method", "space"), COLUMNS)
    known = QUICK_KNOWN if options.quick else KNOWN
    tasks = [
        Run(method, space, known)
        for method in options.methods or METHODS
        for space in options.problems or SPACES
    ]
    carry_out(options, rows, lambda: tasks)
    print(report(rows.path))


if __name__ == "__main__":
    main()
