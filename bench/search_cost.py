"""Overhead of the search: ``python bench/search_cost.py``.

The script measures seconds in addition to the function, and memory, by the number of evaluations,
for every preset of `stepdirect` in 10 dimensions, on a step function and on a smooth one. It also
measures the total time of 2,000 evaluations of a compiled forest, compared with nlopt's DIRECT on
the same forest. It writes ``bench/results/search_cost.md`` and takes about three minutes.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
from machine import machine, versions
from problems import Array, load, rosenbrock

import treeopt

PATH = Path(__file__).resolve().parent / "results" / "search_cost.md"
P = 10
SIZES = (2_000, 10_000, 20_000, 50_000, 100_000)
SLOWEST = 60.0  # a preset stops if the next size may take longer, in seconds
REPETITIONS = 15

S = treeopt.StepDirectSettings
PRESETS = {
    "default": S(),
    "DIRECT": S.direct(),
    "StepDIRECT (paper)": S.paper(),
    "StepDIRECT-0 (paper)": S.paper(local_search=None),
}


def stairs(X: Array) -> Array:
    """Many ties."""
    return np.floor(50 * np.abs(X - 0.3)).sum(axis=1)


def smooth(X: Array) -> Array:
    """No ties."""
    return rosenbrock(4 * X - 1.7)


def cost(fun: object, settings: treeopt.StepDirectSettings, n: int) -> tuple[float, float]:
    """Return the seconds in addition to the function, and the megabytes, of one search."""
    inside = 0.0

    def timed(X: Array) -> Array:
        nonlocal inside
        begin = time.perf_counter()
        values = fun(X)
        inside += time.perf_counter() - begin
        return values

    def search() -> None:
        options = {"max_evals": n, "settings": settings, "vectorized": True, "rng": 0}
        treeopt.stepdirect(timed, [(0, 1)] * P, **options)

    begin = time.perf_counter()
    search()
    seconds = time.perf_counter() - begin - inside
    tracemalloc.start()
    if seconds < SLOWEST / 10:
        search()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return seconds, peak if seconds < SLOWEST / 10 else np.nan


def costs() -> list[str]:
    lines = [
        "| preset | function | " + " | ".join(f"{n:,}" for n in SIZES) + " | memory (MB) |",
        "|---|---|" + "---:|" * (len(SIZES) + 1),
    ]
    for name, settings in PRESETS.items():
        for fun in (stairs, smooth):
            cost(fun, settings, 500)  # compiles
            cells, seconds, memory = [], 0.0, np.nan
            for before, n in zip((1, *SIZES), SIZES, strict=False):
                if seconds * (n / before) ** 2 > SLOWEST:
                    cells.append("–")
                    continue
                seconds, peak = cost(fun, settings, n)
                cells.append(f"{seconds:.2f}")
                memory = np.fmax(memory, peak)
            lines.append(f"| {name} | {fun.__name__} | {' | '.join(cells)} | {memory:.0f} |")
            print(lines[-1], flush=True)
    return lines


def beside_nlopt() -> str:
    """Compare complete runs, alternately."""
    import nlopt

    problem = load("boston")
    low, high = problem.bounds.T

    def own() -> None:
        treeopt.stepdirect(problem.ensemble, problem.bounds, rng=0)

    def peer() -> None:
        optimizer = nlopt.opt(nlopt.GN_DIRECT, problem.p)
        optimizer.set_lower_bounds(low)
        optimizer.set_upper_bounds(high)
        predict = problem.ensemble.predict
        optimizer.set_min_objective(lambda x, _: float(predict(x[None])[0]))
        optimizer.set_maxeval(2_000)
        optimizer.optimize((low + high) / 2)

    times = []
    for _ in range(REPETITIONS + 1):
        begin = time.perf_counter()
        own()
        middle = time.perf_counter()
        peer()
        times.append((middle - begin, time.perf_counter() - middle))
    a, b = np.median(times[1:], axis=0) * 1000
    return (
        f"2,000 evaluations of the compiled boston forest (100 trees): the default takes {a:.1f} "
        f"ms, and nlopt's GN_DIRECT on the same compiled forest takes {b:.1f} ms, {b / a:.1f} "
        f"times as long (medians of {REPETITIONS} alternating runs)."
    )


def main() -> None:
    lines = [
        "# Overhead of the search",
        "",
        f"{machine()}. {versions(('numpy', 'numba', 'nlopt'))}.",
        "",
        f"Seconds in addition to the function in {P} dimensions, by the number of evaluations of a "
        "Python function. The last column is the maximum memory of these runs.",
        "",
        *costs(),
        "",
        "The σ of the paper is exact: each division visits every rectangle, so the cost grows "
        "with the square of their number. The default and DIRECT do not use σ.",
        "",
        beside_nlopt(),
        "",
    ]
    PATH.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
