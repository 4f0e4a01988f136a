"""Write the page and the plot of ``black_box.py`` from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from best_known import PATH as BY_LINES
from optimizers import OPTIMIZERS
from problems import PROBLEMS
from text import mean_table, table

DEFAULT = "treeopt default"
VARIANT = "treeopt default, no weights"
YARDSTICK = "random search"  # its mean after the minimum budget has the normalized regret 1
NGOPT = "NGOpt (nevergrad)"
TARGETS = {"boston": 0.01, "mpg": 0.01, "bodyfat": 0.01, "diabetes": 0.02}
TARGET_BUDGET = 2_000
FORESTS = ("boston", "diabetes", "mpg", "bodyfat", "friedman1-10", "friedman1-30", "pima glucose")
OPTIMA = {"rosenbrock": 11.953125, "ackley": 3.4830760041568, "rastrigin": 7.273157630711}
"""Minimum values of the quantized functions, by dynamic programming over their levels."""
TUNED = ("boston", "diabetes", "bodyfat", "friedman1-30", "boston XGBoost", "diabetes LightGBM")
TUNED += ("rastrigin", "rosenbrock")
"""The problems on which treeopt's default was tuned."""

Frame = pd.DataFrame


def read(path: Path) -> Frame:
    """Return the rows, with methods and problems in the order of their registries."""
    data = pd.read_csv(path).dropna()
    for column, order in (("method", OPTIMIZERS), ("problem", PROBLEMS)):
        data[column] = pd.Categorical(data[column], [k for k in order if k in set(data[column])])
    key = ["method", "problem", "budget", "seed"]
    return data.drop_duplicates(key, keep="last").sort_values(key)


def summary(data: Frame, what: str) -> Frame:
    """Return a statistic of the values over the seeds: methods down, problems across."""
    return data.pivot_table("value", "method", "problem", what, observed=True)


def ranks(data: Frame) -> pd.Series:
    """Return the mean rank of the methods that ran on every problem; ties have equal ranks.

    The default without weights is not ranked: it would share its ranks with the default.
    """
    complete = summary(data, "mean").dropna().drop(index=VARIANT, errors="ignore")
    alike = complete.map(lambda value: float(f"{value:.10g}"))  # means of equal values differ
    return alike.rank(axis=0, method="average").mean(axis=1)


def best_known(data: Frame) -> pd.Series:
    """Return the minimum value of each problem, over all runs and other known values."""
    least = data.groupby("problem", observed=True)["value"].min()
    known = pd.Series(OPTIMA)
    if BY_LINES.exists():
        known = pd.concat([known, pd.read_csv(BY_LINES).set_index("problem")["value"]])
    return least.combine(known.reindex(least.index), np.fmin)


def regret(data: Frame) -> pd.Series:
    """Return the regret of each run; 1 is that of random search after the minimum budget."""
    start = data[(data["method"] == YARDSTICK) & (data["budget"] == data["budget"].min())]
    best = data["problem"].map(best_known(data)).astype(float)
    unit = data["problem"].map(start.groupby("problem", observed=True)["value"].mean())
    return (data["value"] - best) / (unit.astype(float) - best)


def profile(runs: Frame, tolerances: Sequence[float]) -> Frame:
    """Return the share of runs within each tolerance; all problems have the same weight."""
    shares = {}
    for tolerance in tolerances:
        solved = runs.assign(solved=runs["regret"] <= tolerance)
        of_problem = solved.groupby(["method", "problem"], observed=True)["solved"].mean()
        shares[tolerance] = of_problem.groupby("method", observed=True).mean()
    return Frame(shares).T


# Text --------------------------------------------------------------------------------------------


def rank_table(data: Frame) -> list[str]:
    """Return a table of mean ranks, the best bold, and of the mean CPU time on a forest."""
    budgets = sorted(data["budget"].unique())
    of_budget = {b: ranks(data[data["budget"] == b]) for b in budgets}
    at_target = data[(data["budget"] == TARGET_BUDGET) & data["problem"].isin(FORESTS)]
    cost = at_target.groupby("method", observed=True)["seconds"].mean()
    seeds = data.groupby("method", observed=True)["seed"].nunique()
    by_rank = of_budget.get(TARGET_BUDGET, of_budget[budgets[-1]])
    rows = []
    for method in sorted(seeds.index, key=lambda m: by_rank.get(m, np.inf)):
        found = [of_budget[b].get(method, np.nan) for b in budgets]
        cells = ["–" if np.isnan(rank) else f"{rank:.2f}" for rank in found]
        for k, budget in enumerate(budgets):
            if found[k] == of_budget[budget].min():
                cells[k] = f"**{cells[k]}**"
        ms = cost.get(method, np.nan) * 1000
        rows.append([method, *cells, "–" if np.isnan(ms) else f"{ms:,.0f}", str(seeds[method])])
    header = ["method", *(f"{b:,}" for b in budgets), f"CPU (ms) for {TARGET_BUDGET:,}", "seeds"]
    return table(header, rows)


def best_table(data: Frame) -> list[str]:
    """Return a table of best known values, and of the number of methods that found them."""
    best = best_known(data)
    rows = []
    for problem, value in best.items():
        here = data[data["problem"] == problem]
        found = here[here["value"] <= value + 1e-9 * abs(value)]
        p, finders = here["p"].iloc[0], found["method"].nunique()
        rows.append([problem, str(p), f"{value:.6g}", str(finders)])
    return table(["problem", "dimensions", "best known", "methods that found it"], rows)


def target_table(data: Frame) -> list[str]:
    """Return a table of the gap of the default's mean to the best known value, with targets."""
    own = data[(data["method"] == DEFAULT) & (data["budget"] == TARGET_BUDGET)]
    if own.empty:
        return [f"{DEFAULT} has not run.", ""]
    mean, best = own.groupby("problem", observed=True)["value"].mean(), best_known(data)
    rows = []
    for problem, target in TARGETS.items():
        if problem in mean:
            gap = (mean[problem] - best[problem]) / abs(best[problem])
            values = [
                f"{mean[problem]:.5g}",
                f"{best[problem]:.5g}",
                f"{max(gap, 0.0):.2%}",
                f"{target:.0%}",
            ]
            rows.append([problem, *values, "yes" if gap <= target else "✗ no"])
    return table(["problem", "mean", "best known", "gap", "target", "reached"], rows)


def remarks(data: Frame) -> list[str]:
    """Return remarks on methods with fewer seeds, evaluations or problems than the others."""
    seeds = data.groupby(["method", "budget"], observed=True)["seed"].nunique().unstack()
    lines = []
    for method, counts in seeds.iterrows():
        if counts.min() < seeds.max(axis=None) and not OPTIMIZERS[method].deterministic:
            each = " / ".join(f"{n:.0f}" for n in counts.dropna())
            lines.append(f"- {method}: only {each} seed(s)")
    early = data[data["nfev"] < data["budget"]].groupby("method", observed=True)["problem"].unique()
    lines += [f"- {m} stopped before its budget on {', '.join(early[m])}" for m in early.index]
    for budget, part in data.groupby("budget"):
        mean = summary(part, "mean")
        lines += [
            f"- {m} at {budget:,} evaluations: not on {', '.join(mean.columns[mean.loc[m].isna()])}"
            for m in mean.index[mean.isna().any(axis=1)]
        ]
    if NGOPT in seeds.index:
        lines += [f"- {NGOPT}: it chooses COBYLA for 500 evaluations in ten or more dimensions"]
    return lines


def report(path: Path, about: dict[str, Any]) -> str:
    """Write the page and the plot next to the rows, and return the page."""
    data = read(path)
    plot = path.with_suffix(".png")
    draw(data, plot)
    lines = ["# Black-box minimization of stepwise functions", ""]
    lines += [f"{about['machine']}. {about['versions']}. {about['date']}.", ""]
    lines += [
        "Every method minimizes the same compiled function on the same box and is stopped after "
        "exactly the given number of evaluations. The result is the best value of the run. "
        "Methods that stop before are restarted with another seed. Deterministic methods run "
        "once, the others once per seed. The methods of treeopt use a model's importances as "
        "weights, except in the row “no weights”; the other methods do not get them. NGOpt depends "
        "on the budget; the other methods do not.",
        "",
        f"treeopt's default was tuned on {', '.join(TUNED)}. All problems are reported. Best "
        "known values are the minimum of all runs and of a line search that uses the trees "
        "(`best_known.py`).",
        "",
        *remarks(data),
        "",
        "## Mean ranks over all problems, by number of evaluations",
        "",
        *rank_table(data),
        "Methods are ranked by their mean over the seeds on each problem; ties have equal ranks. "
        "Only methods that ran on every problem are ranked. The default without weights is not "
        "ranked, because it would tie with the default. CPU time is that of a run on a forest, "
        "including the evaluations.",
        "",
        f"## {DEFAULT} compared with the best known values, {TARGET_BUDGET:,} evaluations",
        "",
        *target_table(data),
    ]
    for budget, part in data.groupby("budget"):
        lines += [f"## Best value after {budget:,} evaluations, mean ± standard deviation", ""]
        lines += mean_table(part)
    lines += [
        "## Best known values",
        "",
        *best_table(data),
        "These are the minimum values of all runs, or lower values from other sources: for "
        "Rosenbrock, Ackley and Rastrigin the optimum by dynamic programming, for boston, "
        "diabetes, mpg and bodyfat the best value of earlier experiments.",
        "",
        "## Performance profiles",
        "",
        f"![Share of runs within a regret]({plot.name})",
        "",
        "Share of runs whose regret is within a tolerance; all problems have the same weight. The "
        "regret is normalized: 0 is the best known value, 1 is the mean of random search after "
        f"{data['budget'].min():,} evaluations.",
        "",
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


# Plot --------------------------------------------------------------------------------------------


def draw(data: Frame, path: Path) -> None:
    """Draw one panel per budget, with thick lines for treeopt's methods."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    budgets = sorted(data["budget"].unique())
    figure = Figure(figsize=(4.2 * len(budgets) + 2.4, 4.6), layout="constrained")
    panels = figure.subplots(1, len(budgets), sharey=True, squeeze=False)[0]
    methods = list(data["method"].cat.categories)
    peers = [m for m in methods if "treeopt" not in m]
    own = [m for m in methods if "treeopt" in m]
    styles = {m: {"color": mpl.colormaps["tab20"](k % 20), "lw": 1} for k, m in enumerate(peers)}
    dashes = ("-", "--", "-.", ":", (0, (1, 3)))
    styles |= {m: {"color": "black", "lw": 2.2, "ls": dashes[k % 5]} for k, m in enumerate(own)}
    regrets = data.assign(regret=regret(data))
    for panel, budget in zip(panels, budgets, strict=True):
        lines = profile(regrets[regrets["budget"] == budget], np.logspace(-3, 0, 61))
        for method in (m for m in [*own, *peers] if m in lines):
            panel.plot(lines.index, lines[method], label=method, **styles[method])
        panel.set(xscale="log", title=f"{budget:,} evaluations", xlabel="normalized regret")
        panel.grid(alpha=0.3)
    panels[0].set(ylabel="share of runs", ylim=(0, 1))
    handles = {t: h for p in panels for h, t in zip(*p.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=130)
