"""The least values that are known of the benchmark's models: ``python bench/best_known.py``.

A search that looks inside: from random points, every coordinate in turn goes to the best piece of
its whole line (`Ensemble.line`) until none improves; then some coordinates are drawn anew, and so
on from the best point. Writes ``bench/results/best_known.csv``, from which the black-box report
takes its gaps where no run has found less. That nothing is less is not proven.
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
    """Return the least value that an iterated line search finds."""
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
    """Move ``x`` along coordinates until no line holds anything better; return its value."""
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
                y[i] = min(line.upper[k], high)  # pieces end at their upper ends
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
