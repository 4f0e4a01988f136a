"""Figures of the searches: ``python bench/forest_figures.py``.

``forest_selection.png`` is the paper's Figure 2 from real runs: the rectangles of DIRECT and of
StepDIRECT by size and value, with the potentially optimal ones marked. ``forest_partition.png``
shows the partition of a forest with two features over its true landscape.
``forest_convergence.png`` shows the best value so far of every method on the forests of
``forest_table.py``, against evaluations and against time, from the rows of
``forest_convergence.csv``. Rows are written as soon as they are available, and an interrupted run
continues where it stopped.

``forest_figures.md`` contains all three. ``--report`` draws from existing rows. The full form takes
ten minutes, nearly all of it for RBFOpt. ``--quick`` takes half a minute: it has fewer problems and
seeds, and file names with ``_quick``.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from command import carry_out, parser, rows_of
from forest_report import AUTO, DEFAULT, DIRECT, LOCAL, STEP, STEP_0, colors_of
from forest_table import BUDGET, INSIDE, PACKAGES, RBFOPT, warm
from machine import machine, versions
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from optimizers import OPTIMIZERS
from problems import PAPER, Array, Problem, boston, forest, load, of_model
from rows import Row, Rows, uninterrupted
from text import number, provenance, table

import treeopt
from treeopt.arguments import read_seed
from treeopt.stepdirect.driver import Driver
from treeopt.stepdirect.paper.state import THIRD, State

S = treeopt.StepDirectSettings
DIRECT_SETTINGS, PAPER_SETTINGS = S.direct(), S.paper()
SELECTING = {"DIRECT": DIRECT_SETTINGS, "StepDIRECT-0": S.paper(local_search=None)}
SELECTING |= {"StepDIRECT": PAPER_SETTINGS}
DIVIDING = {"DIRECT": DIRECT_SETTINGS, "StepDIRECT": PAPER_SETTINGS, "treeopt's default": S()}

SELECTION_AT, PARTITION_AT = 1_000, 250  # evaluations
PAIR = ("rm", "lstat")  # of boston, for the landscape
PIXELS = 500
SEED = 0

SEEDS, SLOW_SEEDS, QUICK_SEEDS = 10, 3, 3
QUICK_PROBLEMS = ("mpg",)
CHECKPOINTS = np.unique(np.geomspace(1, BUDGET, 40).astype(int))
EARLY_AT = tuple(int(n) for n in CHECKPOINTS if 40 <= n <= 300)[::3]  # evaluations, for a table
METHODS = ("scipy DIRECT", DIRECT, STEP_0, STEP, "DE (scipy)", "PSO (pyswarms)", "RBFOpt")
METHODS += (DEFAULT, LOCAL, AUTO)
KEY = ("problem", "method", "seed")
COLUMNS = (*KEY, "nfev", "seconds", "value", "bound", "settings", "versions", "machine", "date")


# A run, step by step -----------------------------------------------------------------------------


def iterations(problem: Problem, settings: Any, max_evals: int) -> Iterator[State]:
    """Run a search and yield its state after each selection of rectangles."""
    weight = settings.weights_for(problem.weights.copy())
    driver = Driver.begin(settings.rules_for(weight, 1), weight, read_seed(SEED))
    low, high = problem.bounds.T
    seen = -1
    while True:
        U = driver.propose()
        count = driver.state.counter[0]
        if count["selected"] and count["iteration"] > seen:
            seen = int(count["iteration"])
            yield driver.state
        if not len(U) or count["evaluated"] + len(U) > max_evals:
            return
        driver.record(problem.fun(low + (high - low) * U))


def state_after(problem: Problem, settings: Any, evaluations: int) -> State:
    """Return the state at the last selection within a number of evaluations."""
    *_, state = iterations(problem, settings, evaluations)
    return state


def rectangles(state: State) -> tuple[Array, Array]:
    """Return the lower corners and the sides of all rectangles, in the unit cube."""
    n = state.counter["rectangles"][0]
    sides = THIRD[state.level[:n]]
    return state.centre[:n] - sides / 2, sides


def size_and_value(state: State, settings: Any) -> tuple[Array, Array]:
    """Return d σ and f_H of all rectangles."""
    rect = state.rect[: state.counter["rectangles"][0]]
    sigma = 1.0
    if settings.neighbourhood is not None:
        sigma = np.maximum(rect["differ"] / rect["near"], settings.sigma_min)
    return rect["radius"] * sigma, rect["f"]


# Figures -----------------------------------------------------------------------------------------


def draw_selection(path: Path) -> str:
    """Draw the paper's Figure 2, size against value with the lower right hull; return the σ."""
    problem = load("boston")
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    panels = figure.subplots(1, len(SELECTING), sharey=True)
    sigmas = []
    for panel, (name, settings) in zip(panels, SELECTING.items(), strict=True):
        state = state_after(problem, settings, SELECTION_AT)
        size, value = size_and_value(state, settings)
        chosen = state.task["selected"][: state.counter["selected"][0]]
        hull = chosen[np.unique(size[chosen], return_index=True)[1]]
        n = state.counter["evaluated"][0]
        values = state.sample["f"][:n]
        f_min = values[state.counter["best"][0]]
        scale = abs(f_min - np.median(values)) if settings.neighbourhood else abs(f_min)
        goal = f_min - settings.epsilon * scale
        panel.scatter(size, value, s=12, color="0.6", label="rectangles")
        panel.plot([0, size[hull[0]]], [goal, value[hull[0]]], ":", color="tab:red", lw=1)
        panel.plot(size[hull], value[hull], "-", color="tab:red", lw=1)
        panel.scatter(size[chosen], value[chosen], s=28, color="tab:red", label="selected")
        panel.set_title(f"{name}: {len(size)} rectangles after {n} evaluations", fontsize=10)
        panel.set_xlabel("d σ" if settings.neighbourhood else "d, from the centre to a corner")
        width = size.max() - size.min()
        panel.set_xlim(size.min() - 0.1 * width, size.max() + 0.1 * width)
        panel.legend(loc="upper left", fontsize=8)
        if settings.neighbourhood:
            sigma = size / state.rect["radius"][: len(size)]
            sigmas.append(f"from {sigma.min():.2f} to {sigma.max():.2f} in {name}")
    panels[0].set_ylabel("minimum value in the rectangle")
    figure.savefig(path, dpi=120)
    return " and ".join(sigmas)


def draw_partition(path: Path) -> None:
    """Draw the partition of two-feature runs over the forest's landscape."""
    names = treeopt.datasets.load("boston").feature_names
    X, y = boston()
    columns = [names.index(name) for name in PAIR]
    problem = of_model("boston, two features", lambda: (X[:, columns], y), forest)
    low, high = problem.bounds.T
    grid = np.meshgrid(*((np.arange(PIXELS) + 0.5) / PIXELS for _ in PAIR))
    unit = np.column_stack([axis.ravel() for axis in grid])
    landscape = problem.fun(low + (high - low) * unit).reshape(PIXELS, PIXELS)
    best = treeopt.minimize(problem.ensemble, problem.bounds)
    centre = (best.x - low) / (high - low)
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    panels = figure.subplots(1, len(DIVIDING), sharey=True)
    for panel, (name, settings) in zip(panels, DIVIDING.items(), strict=True):
        state = state_after(problem, settings, PARTITION_AT)
        n = state.counter["evaluated"][0]
        found = state.sample["f"][state.counter["best"][0]]
        image = panel.imshow(landscape, "viridis", "log", origin="lower", extent=(0, 1, 0, 1))
        for lower, sides in zip(*rectangles(state), strict=True):
            panel.add_patch(Rectangle(lower, *sides, fill=False, color="white", lw=0.5))
        panel.plot(*state.u[:n].T, ".", color="black", ms=2)
        panel.plot(*centre, "o", mfc="none", color="red", ms=14, mew=1.5)
        panel.plot(*state.u[state.counter["best"][0]], "*", color="red", ms=8)
        panel.set_title(f"{name}: {found:.3f} after {n} evaluations", fontsize=10)
        for k, axis in enumerate((panel.xaxis, panel.yaxis)):
            ticks = np.linspace(0, 1, 5)
            axis.set_ticks(ticks, [f"{low[k] + t * (high[k] - low[k]):.3g}" for t in ticks])
        panel.set_xlabel(PAIR[0])
    panels[0].set_ylabel(PAIR[1])
    bar = figure.colorbar(image, ax=panels, label="prediction", shrink=0.9)
    bar.set_ticks(ticks := [8, 10, 15, 20, 30, 40], labels=map(str, ticks), minor=False)
    bar.minorticks_off()
    figure.suptitle(f"circle: the proven optimum, {best.fun:.3f}", fontsize=10)
    figure.savefig(path, dpi=120)


@dataclass(frozen=True)
class Trace:
    """The best value so far of one run, after some numbers of evaluations."""

    problem: str
    method: str
    seed: int

    @property
    def cost(self) -> float:
        return 200.0 if self.method == "RBFOpt" else 1.0

    def __str__(self) -> str:
        return f"{self.method}, {self.problem}, seed {self.seed}"

    def expected(self) -> list[tuple[Any, ...]]:
        return [(self.problem, self.method, self.seed)]

    def run(self) -> list[Row]:
        warm(self.method)
        packages, settings = PACKAGES, "defaults"
        if self.method in INSIDE:
            found = list(self.decide())
        else:
            packages += OPTIMIZERS[self.method].packages
            settings = OPTIMIZERS[self.method].settings
            found = list(self.minimize())
        head = dict(zip(KEY, self.expected()[0], strict=True))
        end = {"settings": settings, "versions": versions(packages), "machine": machine()}
        end["date"] = datetime.date.today().isoformat()
        return [head | row | end for row in found]

    def minimize(self) -> Iterator[Row]:
        budget = RBFOPT if self.method == "RBFOpt" else BUDGET
        optimizer = OPTIMIZERS[self.method]
        f = optimizer.minimize(load(self.problem), budget, self.seed, time.perf_counter)
        for n in sorted({*CHECKPOINTS[f.nfev >= CHECKPOINTS], f.nfev}):
            value, nfev, seconds = f.after(int(n))
            yield {"nfev": nfev, "seconds": round(seconds, 6), "value": value}

    def decide(self) -> Iterator[Row]:
        problem, method = load(self.problem), INSIDE[self.method]
        found = treeopt.minimize(problem.ensemble, problem.bounds, method=method, rng=self.seed)
        uninterrupted(found)
        end = (found.nfev, found.time, found.fun, found.bound)
        for nfev, seconds, value, bound in [*found.history.tolist(), end]:
            if np.isfinite(value):
                row = {"nfev": nfev, "seconds": round(seconds, 6)}
                yield row | {"value": value, "bound": bound}


def traces(options: argparse.Namespace) -> list[Trace]:
    found = []
    for method in METHODS:
        n = SLOW_SEEDS if method == "RBFOpt" else options.seeds
        seeds = range(1 if method == AUTO else n)
        if method in OPTIMIZERS:
            seeds = OPTIMIZERS[method].seeds(n)
        if options.quick and method == "RBFOpt":
            continue
        found += [Trace(p, method, seed) for p in options.problems for seed in seeds]
    return found


def curves(runs: pd.DataFrame, axis: str, points: Array, centre: Any = np.median) -> Array:
    """Return the median over the seeds of the best value so far at some evaluations or times."""
    values = []
    for _, run in runs.groupby("seed"):
        place = np.searchsorted(run[axis].to_numpy(), points, side="right") - 1
        least = run["value"].cummin().to_numpy()
        values.append(np.where(place >= 0, least[np.maximum(place, 0)], np.nan))
    found = np.array(values)
    found[:, points > runs[axis].max()] = np.nan
    complete_columns = ~np.isnan(found).any(axis=0)
    return np.where(complete_columns, centre(found, axis=0), np.nan)


def draw_convergence(data: pd.DataFrame, path: Path) -> None:
    """Draw one column of panels per problem: against evaluations, and below against time."""
    problems = [p for p in PAPER if p in set(data["problem"])]
    methods = [m for m in METHODS if m in set(data["method"])]
    colors = colors_of(METHODS)
    figure = Figure(figsize=(3.2 * len(problems) + 2.4, 6.4), layout="constrained")
    panels = figure.subplots(2, len(problems), squeeze=False)
    seconds = np.geomspace(1e-4, data["seconds"].max(), 200)
    for column, problem in enumerate(problems):
        here = data[data["problem"] == problem]
        bound = here[here["method"] == AUTO].dropna(subset="bound")
        optimum = here["value"].min()
        for axis, points, panel in (
            ("nfev", CHECKPOINTS, panels[0, column]),
            ("seconds", seconds, panels[1, column]),
        ):
            for method in methods:
                runs = here[here["method"] == method]
                if runs.empty or (axis == "nfev" and method in INSIDE):
                    continue
                width = 2.2 if "treeopt " in method else 1.2
                line = curves(runs, axis, points)
                panel.plot(points, line, color=colors[method], lw=width, label=method)
            panel.axhline(optimum, color="0.5", ls="--", lw=0.8)
            panel.set_xscale("log")
            panel.grid(alpha=0.3)
        if len(bound) and (end := bound.iloc[-1])["bound"] == end["value"]:
            panels[1, column].plot(end["seconds"], end["value"], "*", color=colors[AUTO], ms=9)
        finite = bound[np.isfinite(bound["bound"])]
        panels[1, column].step(
            finite["seconds"], finite["bound"], where="post", ls=":", color=colors[AUTO]
        )
        start = here[here["nfev"] == 1].groupby("method")["value"].median().median()
        reach = start - optimum
        panels[0, column].set(title=problem, xlabel="evaluations")
        panels[0, column].set_ylim(optimum - 0.05 * reach, optimum + 0.8 * reach)
        panels[1, column].set(xlabel="seconds")
        panels[1, column].set_ylim(optimum - 0.15 * reach, optimum + 0.8 * reach)
    for row in panels:
        row[0].set_ylabel("best value so far, median")
    handles = {
        t: h for p in panels.flat for h, t in zip(*p.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=110)


def early_tables(data: pd.DataFrame) -> list[str]:
    """Return a table of mean best values after few evaluations, the minimum per column bold."""
    problems = [p for p in PAPER if p in set(data["problem"])]
    methods = [m for m in METHODS if m not in INSIDE and m in set(data["method"])]
    lines = []
    for n in EARLY_AT:
        means = pd.DataFrame(np.nan, methods, problems)
        for (method, problem), runs in data.groupby(["method", "problem"]):
            if method in methods:
                means.loc[method, problem] = curves(runs, "nfev", np.array([n]), np.mean)[0]
        least = means.min()
        rows = [
            [m, *(f"**{number(v)}**" if v == least[p] else number(v) for p, v in row.items())]
            for m, row in means.iterrows()
        ]
        lines += table([f"after {n} evaluations", *problems], rows)
    return lines


def report(rows: Rows, end: str) -> str:
    """Draw all figures, and write the page that shows them."""
    folder = rows.path.parent
    data = pd.read_csv(rows.path)
    sigmas = draw_selection(folder / f"forest_selection{end}.png")
    draw_partition(folder / f"forest_partition{end}.png")
    draw_convergence(data, folder / f"forest_convergence{end}.png")
    seeds = data.groupby("method", sort=False)["seed"].nunique()
    lines = [
        "# Figures of the searches",
        "",
        provenance(data),
        "",
        "## Potentially optimal rectangles",
        "",
        f"![Size and value of all rectangles](forest_selection{end}.png)",
        "",
        "The paper's Figure 2 from real runs on the boston forest. Every rectangle is a point: its "
        "size, which StepDIRECT multiplies by the local variability σ, and its value. Rectangles "
        "on the lower right hull are selected. The dotted line ends at the value that the next one "
        f"should beat. σ is {sigmas}.",
        "",
        "## Partitions",
        "",
        f"![Partitions of a two-feature forest](forest_partition{end}.png)",
        "",
        f"A forest on {PAIR[0]} and {PAIR[1]} of the boston data, with the partitions and the "
        "evaluated points (dots) of three searches. The star is the best point, the circle the "
        "proven optimum.",
        "",
        "## Convergence",
        "",
        f"![Best value so far](forest_convergence{end}.png)",
        "",
        "Medians over the seeds ("
        + ", ".join(f"{m} {n}" for m, n in seeds.items())
        + "), all with the compiled forest. treeopt's own searches run without Python calls, and "
        "their times are spread evenly over the run. The dashed line is the minimum value. The "
        "dotted line is the bound of `treeopt auto`. It rises until it reaches the best value and "
        "thus proves it (star).",
        "",
        "## Few evaluations",
        "",
        "Means over the same seeds after few evaluations. A model of the function, such as that of "
        "RBFOpt, helps if there are few evaluations:",
        "",
        *early_tables(data),
    ]
    text = "\n".join(lines)
    (folder / f"forest_figures{end}.md").write_text(text, encoding="utf-8")
    return text


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, "one problem, three seeds, no RBFOpt", PAPER).parse_args(arguments)
    options.problems = options.problems or (QUICK_PROBLEMS if options.quick else list(PAPER))
    options.seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    rows = rows_of(options, "forest_convergence", KEY, COLUMNS)
    carry_out(options, rows, lambda: traces(options))
    print(report(rows, "_quick" if options.quick else ""))


if __name__ == "__main__":
    main()
