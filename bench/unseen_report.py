"""Write the page and the plot of ``unseen.py`` from its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from forest_report import AUTO, DEFAULT, LOCAL
from optimizers import OPTIMIZERS
from problems import UNSEEN, UNSEEN_DATA, UNSEEN_MODELS
from text import duration, number, provenance, table

UNWEIGHTED = "treeopt default, no weights"
AVERAGE = "mean over the box"
CLOSE = (0.001, 0.01)  # regrets
SAME = 1e-9  # regrets with a smaller difference are equal

Frame = pd.DataFrame


def read(path: Path) -> Frame:
    """Return the rows with data set, model and regret; the last row of a key is used."""
    data = pd.read_csv(path).dropna(subset="date")
    average = data[data["method"] == AVERAGE].set_index("problem")["value"]
    data = data[data["method"] != AVERAGE].copy()
    order = [*OPTIMIZERS, LOCAL, AUTO]
    data["method"] = pd.Categorical(data["method"], [m for m in order if m in set(data["method"])])
    data["problem"] = pd.Categorical(
        data["problem"], [p for p in UNSEEN if p in set(data["problem"])]
    )
    key = ["method", "problem", "seed"]
    data = data.drop_duplicates(key, keep="last").sort_values(key)
    parts = data["problem"].astype(str).str.rsplit(" ", n=2, expand=True)
    data["data"], data["model"] = parts[0], parts[1]
    best = data["problem"].map(data.groupby("problem", observed=True)["value"].min()).astype(float)
    data["regret"] = (data["value"] - best) / (data["problem"].map(average).astype(float) - best)
    return data


def black_box(data: Frame) -> Frame:
    return data[~data["method"].isin([LOCAL, AUTO])]


def regrets(data: Frame, by: list[str]) -> Frame:
    """Return mean regrets: methods down, groups of problems across."""
    groups = dict.fromkeys(["method", *by, "problem"])
    problems = data.groupby(list(groups), observed=True, as_index=False)["regret"].mean()
    return problems.groupby(["method", *by], observed=True)["regret"].mean().unstack(by)


def rank_table(data: Frame) -> list[str]:
    """Return a table of mean ranks by kind of model, and of shares of small regrets."""
    mean = regrets(black_box(data), ["problem"]).dropna()
    ranked = mean.drop(index=UNWEIGHTED, errors="ignore").round(9).rank(axis=0)
    kinds = [k for k in UNSEEN_MODELS if k in set(data["model"])]
    of_kind = {k: [p for p in mean.columns if f" {k} " in p] for k in kinds}
    overall = ranked.mean(axis=1).sort_values()
    wins = (ranked == ranked.min()).sum(axis=1)
    rows = []
    for method in overall.index:
        ranks = [ranked.loc[method, of_kind[k]].mean() for k in kinds]
        cells = [f"{overall[method]:.2f}", *(f"{r:.2f}" for r in ranks)]
        cells += [str(wins[method]), *(f"{(mean.loc[method] <= t).mean():.0%}" for t in CLOSE)]
        seeds = data[data["method"] == method]["seed"].nunique()
        milliseconds = 1000 * data[data["method"] == method]["seconds"].mean()
        rows.append([method, *cells, f"{milliseconds:,.0f}", str(seeds)])
    close = [f"regret ≤ {t:.1%}" for t in CLOSE]
    head = ["method", "mean rank", *kinds, "best on", *close, "ms", "seeds"]
    return table(head, rows)


def regret_table(data: Frame, kind: str) -> list[str]:
    """Return a table of mean regrets on one kind of model, the minimum per column bold."""
    part = data[(data["model"] == kind) & (data["method"] != AUTO)]
    mean = regrets(part, ["data"])
    mean = mean[[d for d in UNSEEN_DATA if d in mean.columns]]
    least = mean.drop(index=LOCAL, errors="ignore").min()
    rows = []
    for method in mean.index:
        cells = []
        for name in mean.columns:
            value = mean.loc[method, name]
            text = "–" if np.isnan(value) else f"{100 * value:.2f}"
            best = method != LOCAL and value <= least[name] + SAME
            cells.append(f"**{text}**" if best else text)
        rows.append([f"*{method}*" if method == LOCAL else method, *cells])
    return table([kind, *mean.columns], rows)


def beaten(data: Frame) -> list[str]:
    """Return where a peer's mean is below the default's; the variant without weights is none."""
    mean = regrets(black_box(data), ["data", "model"]).drop(index=UNWEIGHTED, errors="ignore")
    if DEFAULT not in mean.index:
        return [f"- {DEFAULT} has not run"]
    lines = []
    for data_set in (d for d in UNSEEN_DATA if d in mean.columns.get_level_values(0)):
        for model in (m for m in UNSEEN_MODELS if (data_set, m) in mean.columns):
            column = mean[data_set, model]
            peers = column[column < column[DEFAULT] - SAME].sort_values()
            if len(peers):
                names = ", ".join(f"{m} {100 * r:.3g} %" for m, r in peers.items())
                lines.append(f"- {data_set}, {model} ({100 * column[DEFAULT]:.3g} %): {names}")
    shared = sum(
        (column.drop(DEFAULT) <= column[DEFAULT] + SAME).any() for _, column in mean.items()
    )
    text = f"- of {mean.shape[1]} groups, lost: {len(lines)}, shared: {shared - len(lines)}, "
    return [*lines, text + f"best alone: {mean.shape[1] - shared}"]


def proof_table(data: Frame) -> list[str]:
    """Return a table of the proofs of ``method="auto"`` and their times, by group of models."""
    auto = data[data["method"] == AUTO]
    local = data[data["method"] == LOCAL]
    rows = []
    for data_set in (d for d in UNSEEN_DATA if d in set(auto["data"])):
        for model in (m for m in UNSEEN_MODELS if m in set(auto["model"])):
            runs = auto[(auto["data"] == data_set) & (auto["model"] == model)]
            if runs.empty:
                continue
            proven = runs["status"] == "OPTIMAL"
            gap = (runs["value"] - runs["bound"]).abs()
            mine = local[(local["data"] == data_set) & (local["model"] == model)]
            cells = [str(runs["p"].iloc[0]), f"{proven.sum()} of {len(runs)}"]
            cells += [duration(runs["seconds"][proven].median()) if proven.any() else "–"]
            open_gaps = ", ".join(number(g) for g in gap[~proven])
            cells += [open_gaps or "–", f"{100 * mine['regret'].mean():.2f}"]
            rows.append([f"{data_set}, {model}", *cells])
    head = ["models", "features", "proven", "median time of a proof", "gaps where not"]
    return table([*head, "regret of local, %"], rows)


def draw(data: Frame, path: Path) -> None:
    """Draw the share of problems on which a method's mean regret is within a tolerance."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mean = regrets(data[data["method"] != AUTO], ["problem"]).dropna()
    figure = Figure(figsize=(8.5, 4.6), layout="constrained")
    panel = figure.subplots()
    tolerances = np.logspace(-4, 0, 121)
    peers = [m for m in mean.index if "treeopt" not in m]
    colors = {m: mpl.colormaps["tab20"](k % 20) for k, m in enumerate(peers)}
    dashes = iter(("-", "--", "-.", ":", (0, (1, 3)), (0, (5, 1, 1, 1))))
    for method in mean.index:
        share = [(mean.loc[method] <= t).mean() for t in tolerances]
        style = {"color": colors[method], "lw": 1} if method in colors else {}
        style = style or {"color": "black", "lw": 2, "ls": next(dashes)}
        panel.plot(tolerances, share, label=method, **style)
    panel.set(xscale="log", xlabel="mean regret", ylabel="share of the problems", ylim=(0, 1.02))
    panel.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=120)


def report(path: Path) -> str:
    """Write the page and the plot next to the rows, and return the page."""
    data = read(path)
    plot = path.with_suffix(".png")
    draw(data, plot)
    each = data.groupby(["data", "model"])["problem"].nunique().max()
    absent = [d for d in UNSEEN_DATA if d not in set(data["data"])]
    proven = data[(data["method"] == AUTO) & (data["status"] == "OPTIMAL")]["problem"].nunique()
    lines = [
        "# Problems not used for design choices",
        "",
        provenance(data),
        "",
        f"{data['problem'].nunique()} models: forests, XGBoost and LightGBM with 100 trees and "
        f"default settings, {each} of each on every data set. Generated data (500 rows, noise 1) "
        "are drawn again for each model. Of real data, each model has a different four fifths, at "
        "most 2,000 rows. Classes are used as numbers. The models are minimized over the range of "
        "the data, with 2,000 evaluations." + (f" Missing: {', '.join(absent)}." if absent else ""),
        "",
        "Regret 0 is the minimum value found by any method (the proven optimum for "
        f"{proven} of the models), and regret 1 is the mean of the model over the box. treeopt's "
        "methods use the importances of the model's features, except in the row “no weights”, "
        "which is not ranked. RBFOpt and TPE are omitted, because 2,000 evaluations would take "
        "too long.",
        "",
        "## Ranks",
        "",
        *rank_table(data),
        "Methods are ranked by their mean over the seeds on each model; ties have equal ranks. "
        "“Best on” counts models, including ties. The next columns are the shares of models with "
        "a small mean regret. Times are wall-clock times.",
        "",
        f"![Share of problems within a regret]({plot.name})",
        "",
        "## Peers that beat the default",
        "",
        "By the mean over models and seeds, with the default's regret in parentheses:",
        "",
        *beaten(data),
        "",
        "## Regrets",
        "",
        "Means over models and seeds, in %. The method of the last row uses the trees.",
        "",
    ]
    for kind in (k for k in UNSEEN_MODELS if k in set(data["model"])):
        lines += regret_table(data, kind)
    limits = data[data["method"] == AUTO]["settings"].unique()
    lines += [
        "## Proven optima",
        "",
        f'`method="auto"` with {" or ".join(limits) or "nothing yet"} (seconds), and '
        '`method="local"` with 2,000 evaluations:',
        "",
        *proof_table(data),
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text
