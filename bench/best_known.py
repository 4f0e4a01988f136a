"""Minimum known values of the benchmark's models: ``python bench/best_known.py``.

An iterated line search that uses the trees: from a random point, every coordinate in turn moves to
the best piece of its line (`Ensemble.line`) until no coordinate improves. Then some coordinates of
the best point are drawn again, and the search continues from there. It writes
``bench/results/best_known.csv``. The black-box report uses these values if no run has found a lower
one. They are not proven to be optimal.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path

import numpy as np
from problems import PROBLEMS, Array, Problem, load

PATH = Path(__file__).resolve().parent / "results" / "best_known.csv"
KICKS = 2_000
FRESH = 0.1  # share of the starts that are random points instead of kicks


def best_by_lines(problem: Problem, kicks: int, seed: int = 0) -> float:
    """Return the minimum value that an iterated line search finds."""
    rng = np.random.default_rng(seed)
    low, high = problem.bounds.T
    home, least = rng.uniform(low, high), np.inf
    for _ in range(kicks):
        x = rng.uniform(low, high)
        if np.isfinite(least) and rng.random() > FRESH:
            keep = rng.permutation(problem.p)[rng.integers(2, 5) :]
            x[keep] = home[keep]
        value = descend(problem, x, rng)
        if value < least:
            home, least = x, value
    return least


def descend(problem: Problem, x: Array, rng: np.random.Generator) -> float:
    """Move ``x`` along coordinates until no line has a better value; return its value."""
    value, improved = float(problem.fun(x[None])[0]), True
    while improved:
        improved = False
        for i in rng.permutation(problem.p):
            low, high = problem.bounds[i]
            line = problem.ensemble.line(x, int(i))
            begin = np.concatenate([[-np.inf], line.upper[:-1]])
            inside = np.flatnonzero((line.upper >= low) & (begin < high))
            k = inside[np.argmin(line.value[inside])]
            if line.value[k] < value:
                y = x.copy()
                y[i] = min(line.upper[k], high)  # a piece includes its upper bound
                value, improved = float(problem.fun(y[None])[0]), True
                x[:] = y
    return value


def main() -> None:
    names = [name for name in PROBLEMS if load_if_model(name)]
    with PATH.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["problem", "value", "kicks"])
        for name in names:
            begin = time.perf_counter()
            value = best_by_lines(load(name), KICKS)
            writer.writerow([name, value, KICKS])
            print(f"{name}: {value:.6g} ({time.perf_counter() - begin:.0f} s)", flush=True)


def load_if_model(name: str) -> bool:
    return load(name).ensemble is not None


if __name__ == "__main__":
    main()
