"""Delay after a time limit: seconds that `minimize` takes beyond its limit, on large models.

Each model is converted, and its kernels are compiled, before the timing. Some limits are shorter
than the preparation of the model, some than the first steps of the search, and some than the proof.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from command import carry_out, parser, rows_of
from lightgbm import LGBMRegressor
from machine import machine, versions
from rows import Row
from sklearn.ensemble import RandomForestRegressor
from text import provenance, table

import treeopt

COLUMNS = ("problem", "method", "n_jobs", "limit", "leaves", "features", "seconds", "time")
COLUMNS += ("status", "value", "bound", "versions", "machine", "date")
KEY = ("problem", "method", "n_jobs", "limit")
METHODS = ("auto", "exact", "local", "stepdirect")
LIMITS = (0.01, 0.1, 0.5, 1.0, 3.0, 8.0)
QUICK_LIMITS = (0.01, 0.1, 0.5)

Data = tuple[Any, Any]


def numbers(rng: np.random.Generator, n: int, p: int) -> Data:
    """Return a sum of steps and waves of all columns, and noise."""
    X = rng.normal(size=(n, p))
    return X, X[:, ::2].sum(axis=1) + np.sin(3 * X[:, 1::2]).sum(axis=1) + rng.normal(size=n)


def with_categories(rng: np.random.Generator, n: int, k: int) -> Data:
    """Return ten numbers and three columns of ``k`` categories, each with an effect."""
    X = pd.DataFrame(rng.normal(size=(n, 10)), columns=[f"x{j}" for j in range(10)])
    y = X["x0"] + np.sin(3 * X["x1"])
    for j in range(3):
        codes = rng.integers(0, k, n)
        X[f"c{j}"] = pd.Categorical(codes)
        y = y + rng.normal(size=k)[codes] * (1 + X[f"x{j}"] ** 2 / 4)
    return X, y + rng.normal(size=n)


def forest(n_trees: int, **settings: Any) -> RandomForestRegressor:
    return RandomForestRegressor(n_trees, random_state=0, n_jobs=-1, **settings)


def boosted(n_trees: int) -> LGBMRegressor:
    sets = {"cat_smooth": 1, "min_data_per_group": 5, "max_cat_threshold": 150}
    return LGBMRegressor(n_estimators=n_trees, num_leaves=127, n_jobs=1, verbose=-1, **sets)


PROBLEMS: dict[str, Callable[[np.random.Generator, bool], tuple[Any, Data]]] = {
    "200 features": lambda rng, quick: (
        forest(40 if quick else 200, max_features=0.3),
        numbers(rng, 1000 if quick else 3000, 200),
    ),
    "100,000 cuts": lambda rng, quick: (
        forest(10 if quick else 30),
        numbers(rng, 20_000 if quick else 160_000, 2),
    ),
    "1,000 trees": lambda rng, quick: (
        forest(200 if quick else 1000, max_features=0.4),
        numbers(rng, 4000 if quick else 20_000, 8),
    ),
    "categories": lambda rng, quick: (
        boosted(40 if quick else 200),
        with_categories(rng, 5000 if quick else 20_000, 50 if quick else 200),
    ),
}


@lru_cache(maxsize=1)
def load(problem: str, quick: bool) -> tuple[treeopt.Ensemble, Any]:
    """Return a converted model with its compiled arrays, and its data."""
    model, (X, y) = PROBLEMS[problem](np.random.default_rng(0), quick)
    ensemble = treeopt.from_model(model.fit(X, y))
    treeopt.warmup(ensemble)
    for method in ("auto", "stepdirect"):
        treeopt.minimize(ensemble, X, method=method, time_limit=0.01)
    return ensemble, X


@dataclass(frozen=True)
class Run:
    """One decision within a limit."""

    problem: str
    method: str
    n_jobs: int
    limit: float
    quick: bool

    @property
    def cost(self) -> float:
        return 0.5 + self.limit

    def __str__(self) -> str:
        return f"{self.problem}, {self.method}, {self.n_jobs} threads, {self.limit:g} s"

    def expected(self) -> list[tuple[Any, ...]]:
        return [(self.problem, self.method, self.n_jobs, self.limit)]

    def run(self) -> list[Row]:
        ensemble, X = load(self.problem, self.quick)
        options = {"method": self.method, "n_jobs": self.n_jobs, "max_evals": 10**9, "rng": 0}
        begin = time.perf_counter()
        res = treeopt.minimize(ensemble, X, time_limit=self.limit, **options)
        seconds = time.perf_counter() - begin
        row = {"problem": self.problem, "method": self.method, "n_jobs": self.n_jobs}
        row |= {"limit": self.limit, "leaves": ensemble.n_leaves, "features": ensemble.n_features}
        row |= {"seconds": seconds, "time": res.time, "status": res.status.name}
        row |= {"value": res.fun, "bound": res.bound}
        row |= {"versions": versions(("numpy", "numba", "scikit-learn")), "machine": machine()}
        return [row | {"date": datetime.date.today().isoformat()}]


def report(path: Path) -> str:
    """Write the page next to the rows, and return it."""
    data = pd.read_csv(path)
    struck = data[data["status"] == "TIME_LIMIT"]
    beyond = struck["seconds"] - struck["limit"]
    limits = sorted(data["limit"].unique())
    rows = []
    for (problem, method, n_jobs), part in data.groupby(list(KEY[:3]), sort=False):
        seconds = part.set_index("limit")["seconds"].reindex(limits)
        name = f"{problem}, {method}" + (f", {n_jobs} threads" if n_jobs > 1 else "")
        cells = ("–" if s != s else f"{s:.2f}" for s in seconds)
        rows.append([name, f"{part['leaves'].max():,}", *cells])
    lines = [
        "# Delay after a time limit",
        "",
        provenance(data),
        "",
        "Total seconds of `minimize` on a converted model, by its time limit. In the "
        f"{len(struck)} runs that the limit ended, the delay has a median of "
        f"{beyond.median():.3f} s and a maximum of {beyond.max():.3f} s.",
        "",
        *table(["model, method", "leaves", *(f"{limit:g} s" for limit in limits)], rows),
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    quick = "smaller models, one thread, limits of up to half a second"
    options = parser(__doc__, quick, PROBLEMS, METHODS).parse_args(arguments)
    rows = rows_of(options, "time_limits", KEY, COLUMNS)
    tasks = [
        Run(problem, method, n_jobs, limit, options.quick)
        for problem in options.problems or PROBLEMS
        for method in options.methods or METHODS
        for n_jobs in ((1, 2) if method in ("auto", "exact") and not options.quick else (1,))
        for limit in (QUICK_LIMITS if options.quick else LIMITS)
    ]
    carry_out(options, rows, lambda: tasks)
    print(report(rows.path))


if __name__ == "__main__":
    main()
