"""From the rows of the black-box benchmark to Markdown and a plot."""

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
YARDSTICK = "random search"  # its mean after the least budget has the normalised regret 1
NGOPT = "NGOpt (nevergrad)"
AIMS = {"boston": 0.01, "mpg": 0.01, "bodyfat": 0.01, "diabetes": 0.02}
AIM_BUDGET = 2_000
FORESTS = ("boston", "diabetes", "mpg", "bodyfat", "friedman1-10", "friedman1-30", "pima glucose")
OPTIMA = {"rosenbrock": 11.953125, "ackley": 3.4830760041568, "rastrigin": 7.273157630711}
"""The least values of the quantised functions, by dynamic programming over their levels."""
TUNED = ("boston", "diabetes", "bodyfat", "friedman1-30", "boston XGBoost", "diabetes LightGBM")
TUNED += ("rastrigin", "rosenbrock")
"""The problems on which choices for treeopt's default were made."""

Frame = pd.DataFrame


def read(path: Path) -> Frame:
    """Return the rows; methods and problems in the order of their registries."""
    data = pd.read_csv(path).dropna()
    for column, order in (("method", OPTIMIZERS), ("problem", PROBLEMS)):
        data[column] = pd.Categorical(data[column], [k for k in order if k in set(data[column])])
    key = ["method", "problem", "budget", "seed"]
    return data.drop_duplicates(key, keep="last").sort_values(key)


def summary(data: Frame, what: str) -> Frame:
    """Return a statistic of the values over the seeds: methods down, problems across."""
    return data.pivot_table("value", "method", "problem", what, observed=True)


def ranks(data: Frame) -> pd.Series:
    """Return the mean rank of the methods that ran on every problem; ties share their ranks.

    The default without weights is not ranked: it would share its ranks with the default.
    """
    complete = summary(data, "mean").dropna().drop(index=VARIANT, errors="ignore")
    alike = complete.map(lambda value: float(f"{value:.10g}"))  # means of equal values differ
    return alike.rank(axis=0, method="average").mean(axis=1)


def best_known(data: Frame) -> pd.Series:
    """Return the least value of each problem that was ever seen, or is known otherwise."""
    least = data.groupby("problem", observed=True)["value"].min()
    known = pd.Series(OPTIMA)
    if BY_LINES.exists():
        known = pd.concat([known, pd.read_csv(BY_LINES).set_index("problem")["value"]])
    return least.combine(known.reindex(least.index), np.fmin)


def regret(data: Frame) -> pd.Series:
    """Return the regret of each run, 1 being that of random search after the least budget."""
    start = data[(data["method"] == YARDSTICK) & (data["budget"] == data["budget"].min())]
    best = data["problem"].map(best_known(data)).astype(float)
    unit = data["problem"].map(start.groupby("problem", observed=True)["value"].mean())
    return (data["value"] - best) / (unit.astype(float) - best)


def profile(runs: Frame, tolerances: Sequence[float]) -> Frame:
    """Return the share of runs within each tolerance, all problems counting the same."""
    shares = {}
    for tolerance in tolerances:
        solved = runs.assign(solved=runs["regret"] <= tolerance)
        of_problem = solved.groupby(["method", "problem"], observed=True)["solved"].mean()
        shares[tolerance] = of_problem.groupby("method", observed=True).mean()
    return Frame(shares).T


# Text --------------------------------------------------------------------------------------------


def rank_table(data: Frame) -> list[str]:
    """Mean ranks, the best bold, and the mean CPU time of a run on a forest."""
    budgets = sorted(data["budget"].unique())
    of_budget = {b: ranks(data[data["budget"] == b]) for b in budgets}
    at_aim = data[(data["budget"] == AIM_BUDGET) & data["problem"].isin(FORESTS)]
    cost = at_aim.groupby("method", observed=True)["seconds"].mean()
    seeds = data.groupby("method", observed=True)["seed"].nunique()
    by_rank = of_budget.get(AIM_BUDGET, of_budget[budgets[-1]])
    rows = []
    for method in sorted(seeds.index, key=lambda m: by_rank.get(m, np.inf)):
        found = [of_budget[b].get(method, np.nan) for b in budgets]
        cells = ["–" if np.isnan(rank) else f"{rank:.2f}" for rank in found]
        for k, budget in enumerate(budgets):
            if found[k] == of_budget[budget].min():
                cells[k] = f"**{cells[k]}**"
        ms = cost.get(method, np.nan) * 1000
        rows.append([method, *cells, "–" if np.isnan(ms) else f"{ms:,.0f}", str(seeds[method])])
    header = ["method", *(f"{b:,}" for b in budgets), f"CPU (ms) for {AIM_BUDGET:,}", "seeds"]
    return table(header, rows)


def best_table(data: Frame) -> list[str]:
    """Best known values, and how many methods found them in any run."""
    best = best_known(data)
    rows = []
    for problem, value in best.items():
        here = data[data["problem"] == problem]
        found = here[here["value"] <= value + 1e-9 * abs(value)]
        p, finders = here["p"].iloc[0], found["method"].nunique()
        rows.append([problem, str(p), f"{value:.6g}", str(finders)])
    return table(["problem", "dimensions", "best known", "methods that found it"], rows)


def aim_table(data: Frame) -> list[str]:
    """Gap of the default's mean to the best known value, for the problems that have an aim."""
    own = data[(data["method"] == DEFAULT) & (data["budget"] == AIM_BUDGET)]
    if own.empty:
        return [f"{DEFAULT} has not run.", ""]
    mean, best = own.groupby("problem", observed=True)["value"].mean(), best_known(data)
    rows = []
    for problem, aim in AIMS.items():
        if problem in mean:
            gap = (mean[problem] - best[problem]) / abs(best[problem])
            values = [
                f"{mean[problem]:.5g}",
                f"{best[problem]:.5g}",
                f"{max(gap, 0.0):.2%}",
                f"{aim:.0%}",
            ]
            rows.append([problem, *values, "yes" if gap <= aim else "✗ no"])
    return table(["problem", "mean", "best known", "gap", "aim", "reached"], rows)


def remarks(data: Frame) -> list[str]:
    """Say who ran with fewer seeds or evaluations than the others, or not on every problem."""
    seeds = data.groupby(["method", "budget"], observed=True)["seed"].nunique().unstack()
    lines = []
    for method, counts in seeds.iterrows():
        if counts.min() < seeds.max(axis=None) and not OPTIMIZERS[method].deterministic:
            each = " / ".join(f"{n:.0f}" for n in counts.dropna())
            lines.append(f"- {method}: {each} seed(s) only")
    early = data[data["nfev"] < data["budget"]].groupby("method", observed=True)["problem"].unique()
    lines += [
        f"- {m} stopped by itself before the budget on {', '.join(early[m])}" for m in early.index
    ]
    for budget, part in data.groupby("budget"):
        mean = summary(part, "mean")
        lines += [
            f"- {m} at {budget:,} evaluations: not on {', '.join(mean.columns[mean.loc[m].isna()])}"
            for m in mean.index[mean.isna().any(axis=1)]
        ]
    if NGOPT in seeds.index:
        lines += [f"- {NGOPT}: for 500 evaluations in ten or more dimensions it chooses COBYLA"]
    return lines


def report(path: Path, about: dict[str, Any]) -> str:
    """Write the Markdown and the plot beside the rows, and return the Markdown."""
    data = read(path)
    plot = path.with_suffix(".png")
    draw(data, plot)
    lines = ["# Black-box minimisation of stepwise functions", ""]
    lines += [f"{about['machine']}. {about['versions']}. {about['date']}.", ""]
    lines += [
        "Every method minimises the same compiled function in the same box and is stopped after "
        "exactly the given number of evaluations; what counts is the best value it has seen. "
        "Methods that stop before are started again with another seed. Deterministic methods run "
        "once, the others once per seed. The methods of treeopt take a model's importances as "
        "weights, which no other method is given, except in the row “no weights”. NGOpt goes by "
        "the budget that it is told; what the others do does not depend on it.",
        "",
        f"Choices for treeopt's default were made on {', '.join(TUNED)}; all "
        "problems are reported. Best known values are the least of all runs and of a line search "
        "that looks inside the models (`best_known.py`).",
        "",
        *remarks(data),
        "",
        "## Mean ranks over all problems, by number of evaluations",
        "",
        *rank_table(data),
        "Ranks are of the means over the seeds, per problem; ties share their ranks. A method is "
        "ranked where it ran on every problem; the default without weights is left out, as it "
        "would share its ranks with the default. CPU time is of a run on a forest, the "
        "evaluations included.",
        "",
        f"## {DEFAULT} against the best known values, {AIM_BUDGET:,} evaluations",
        "",
        *aim_table(data),
    ]
    for budget, part in data.groupby("budget"):
        lines += [f"## Best value after {budget:,} evaluations, mean ± standard deviation", ""]
        lines += mean_table(part)
    lines += [
        "## Best known values",
        "",
        *best_table(data),
        "The least value of all runs or, where it is lower, one that is known otherwise: for "
        "Rosenbrock, Ackley and Rastrigin the optimum by dynamic programming, for boston, "
        "diabetes, mpg and bodyfat the best of earlier experiments.",
        "",
        "## Performance profiles",
        "",
        f"![Share of runs within a regret]({plot.name})",
        "",
        "Share of runs whose regret is within a tolerance, all problems counting the same. Regret "
        "is normalised: 0 is the best known value, 1 the mean of random search after "
        f"{data['budget'].min():,} evaluations.",
        "",
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


# Plot --------------------------------------------------------------------------------------------


def draw(data: Frame, path: Path) -> None:
    """One panel per budget; treeopt's methods are the thick lines."""
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
        panel.set(xscale="log", title=f"{budget:,} evaluations", xlabel="normalised regret")
        panel.grid(alpha=0.3)
    panels[0].set(ylabel="share of runs", ylim=(0, 1))
    handles = {t: h for p in panels for h, t in zip(*p.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=130)
