"""Write the page of ``ablation.py`` from its rows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, product
from pathlib import Path

import numpy as np
import pandas as pd
from ablation_variants import (
    AVERAGE,
    DEFAULT_BASE,
    OPTIMUM,
    PAPER,
    PAPER_BASE,
    PAPER_IDEAS,
    UNDO,
    combination_name,
)
from text import provenance, table

DRAWS = 10_000  # of the bootstrap
STEP_0 = combination_name(True, True, False)

Frame = pd.DataFrame


def read(path: Path) -> dict[int, Frame]:
    """Return, by budget, the mean regret of every variant (across) on every forest (down)."""
    data = pd.read_csv(path).dropna(subset="date")
    data = data.drop_duplicates(["problem", "variant", "budget", "seed"], keep="last")
    optimum, average = (
        data[data["variant"] == name].set_index("problem")["value"] for name in (OPTIMUM, AVERAGE)
    )
    found = {}
    for budget, part in data[~data["variant"].isin([OPTIMUM, AVERAGE])].groupby("budget"):
        mean = part.pivot_table("value", "problem", "variant", "mean", sort=False)
        found[budget] = mean.sub(optimum, axis=0).div(average - optimum, axis=0)
    return found


def unproven(path: Path) -> list[str]:
    """Return the forests whose optimum is not proven up to rounding."""
    data = pd.read_csv(path)
    data = data[data["variant"] == OPTIMUM]
    gap = (data["value"] - data["bound"]).abs()
    return list(data["problem"][gap > 1e-9 * data["value"].abs()])


def data_set(problem: str) -> str:
    return problem.rsplit(" ", 1)[0]


def change(regret: Frame, variant: str, base: str) -> tuple[float, float, float]:
    """Return the mean change of the regret and its 95 % bootstrap interval.

    The bootstrap draws data sets, and forests within each. With only one of either, the bounds of
    the interval are NaN.
    """
    difference = regret[variant] - regret[base]
    rng = np.random.default_rng(0)
    draws = np.zeros(DRAWS)
    groups = [part.to_numpy() for _, part in difference.groupby(data_set)]
    for _ in groups:
        drawn = rng.integers(len(groups), size=DRAWS)
        for k, part in enumerate(groups):
            here = np.flatnonzero(drawn == k)
            draws[here] += part[rng.integers(part.size, size=(here.size, part.size))].mean(axis=1)
    low, high = np.quantile(draws / len(groups), [0.025, 0.975])
    if len(groups) < 2 or min(part.size for part in groups) < 2:
        low = high = np.nan
    return float(np.mean([part.mean() for part in groups])), float(low), float(high)


def effects(regrets: dict[int, Frame]) -> list[str]:
    """Return the effect of each idea of the paper, averaged over the settings of the others."""
    rows = []
    for idea in PAPER_IDEAS:
        rows.append([idea])
        with_it = [has for has in product((True, False), repeat=3) if has[PAPER_IDEAS.index(idea)]]
        for regret in regrets.values():
            on, off = [], []
            for has in with_it:
                on.append(combination_name(*has))
                without = (h and i != idea for h, i in zip(has, PAPER_IDEAS, strict=True))
                off.append(combination_name(*without))
            both = Frame({"on": regret[on].mean(axis=1), "off": regret[off].mean(axis=1)})
            rows[-1] += shown(both, "on", "off")
    return table(["idea", *header(regrets)], rows)


def header(regrets: dict[int, Frame]) -> list[str]:
    return [f"{what} {b:,}" for b in regrets for what in ("change at", "95 %,", "forests,")]


def shown(regret: Frame, variant: str, base: str) -> list[str]:
    """Return the change, bold if significant, its interval, and the counts of forests."""
    mean, low, high = change(regret, variant, base)
    difference = (regret[variant] - regret[base]).round(9)
    counts = [int(sum(difference < 0)), int(sum(difference == 0)), int(sum(difference > 0))]
    text = f"{100 * mean:+.2f}"
    if low > 0 or high < 0:
        text = f"**{text}**"
    interval = "–" if np.isnan(low) else f"{100 * low:+.2f} to {100 * high:+.2f}"
    return [text, interval, " / ".join(map(str, counts))]


def variant_table(regrets: dict[int, Frame], variants: Iterable[str], base: str) -> list[str]:
    rows = []
    for name in variants:
        row = [name]
        for regret in regrets.values():
            if name not in regret:
                break
            row.append(f"{100 * regret[name].groupby(data_set).mean().mean():.2f}")
            row += ["", "", ""] if name == base else shown(regret, name, base)
        else:
            rows.append(row)
    columns = iter(header(regrets))
    titles = [t for b in regrets for t in (f"regret at {b:,}", *islice(columns, 3))]
    return table(["variant", *titles], rows)


def in_short(regrets: dict[int, Frame], variants: Iterable[str], base: str) -> list[str]:
    """Group the variants by whether they are significantly worse or better at any budget."""
    sorted_in: dict[str, list[str]] = {
        "significantly worse, and never significantly better": [],
        "significantly better, and never significantly worse": [],
        "worse with some numbers of evaluations, better with others": [],
        "no significant difference": [],
    }
    if np.isnan(change(regrets[max(regrets)], base, base)[1]):
        return ["- one data set, or one forest of each, is too few for a statement", ""]
    for name in variants:
        if name == base or any(name not in regret for regret in regrets.values()):
            continue
        intervals = [change(regret, name, base)[1:] for regret in regrets.values()]
        worse, better = any(low > 0 for low, _ in intervals), any(high < 0 for _, high in intervals)
        place = (0 if not better else 2) if worse else (1 if better else 3)
        list(sorted_in.values())[place].append(name)
    return [*(f"- {what}: {'; '.join(names)}" for what, names in sorted_in.items() if names), ""]


def set_table(regret: Frame) -> list[str]:
    sets = regret.groupby(data_set, sort=False).mean()
    rows = [[name, *(f"{100 * r:.2f}" for r in sets[name])] for name in sets]
    return table(["mean regret, %", *sets.index], rows)


def draw(regrets: dict[int, Frame], path: Path) -> None:
    """Draw the change of the regret for each variant and budget, with its interval."""
    from matplotlib.figure import Figure

    regret = regrets[max(regrets)]
    parts = [(PAPER, PAPER_BASE), (UNDO, DEFAULT_BASE)]
    names = [[n for n in variants if n != base and n in regret] for variants, base in parts]
    figure = Figure(figsize=(8.5, 0.26 * sum(map(len, names)) + 1.6), layout="constrained")
    heights = [len(n) for n in names]
    panels = figure.subplots(2, 1, gridspec_kw={"height_ratios": heights})
    for panel, variants, (_, base) in zip(panels, names, parts, strict=True):
        for k, name in enumerate(reversed(variants)):
            for budget, up, mark in zip(regrets, (0.18, -0.18), ("o", "s"), strict=True):
                mean, low, high = (100 * x for x in change(regrets[budget], name, base))
                clear = low > 0 or high < 0
                color = "0.6" if not clear else "tab:red" if mean > 0 else "tab:green"
                panel.plot([low, high], [k + up, k + up], "-", color=color)
                label = f"{budget:,} evaluations" if k == 0 else None
                panel.plot(mean, k + up, mark, color=color, ms=4, label=label)
        panel.set_yticks(range(len(variants)), list(reversed(variants)), fontsize=8)
        panel.axvline(0, color="0.3", lw=0.8)
        panel.set_title(f"change of the regret against “{base}”, in % (right: worse)", fontsize=9)
        panel.set_xscale("symlog", linthresh=0.2)
        panel.grid(alpha=0.3, axis="x")
        panel.legend(fontsize=7)
    figure.savefig(path, dpi=120)


def report(path: Path) -> str:
    """Write the page and the plot next to the rows, and return the page."""
    data = pd.read_csv(path)
    regrets = read(path)
    regret = regrets[max(regrets)]
    plot = path.with_suffix(".png")
    draw(regrets, plot)
    open_proofs = unproven(path)
    of_sets = regret[DEFAULT_BASE].groupby(data_set).mean()
    hardest, share = of_sets.idxmax(), of_sets.max() / max(of_sets.sum(), 1e-300)
    lines = [
        "# Ablation: the effect of each idea",
        "",
        provenance(data),
        "",
        f"{len(regret)} forests of 100 trees with scikit-learn's default settings, on "
        f"{', '.join(dict.fromkeys(map(data_set, regret.index)))}; "
        f"{' and '.join(f'{b:,}' for b in regrets)} evaluations, {data['seed'].nunique()} seeds "
        "each. The regret is 0 at the proven optimum"
        + (f" (best known for {', '.join(open_proofs)})" if open_proofs else "")
        + " and 1 at the mean of the function over the box. It is given in %. All data sets have "
        "the same weight. "
        "The interval contains the mean change in 95 % of bootstrap samples of data sets and of "
        "their forests. A change is bold if its interval excludes 0. The last number is the count "
        "of forests on which the variant is better / the same / worse, by its mean over the seeds. "
        "One in twenty bold changes is expected by chance, and the bootstrap interval is too "
        "narrow with few data sets. Design choices were made on some of these data sets, but on "
        "other forests.",
        "",
        f"{share:.0%} of the default's regret is due to {hardest}.",
        "",
        f"![Change of the regret by every variant]({plot.name})",
        "",
        "## The paper's three ideas",
        "",
        "Effect of turning each idea on, averaged over the four combinations of the other two:",
        "",
        *effects(regrets),
        "StepDIRECT-0 (“without local search”) compared with DIRECT:",
        "",
        *table(
            ["variant", *header(regrets)],
            [[STEP_0, *(c for r in regrets.values() for c in shown(r, STEP_0, "DIRECT"))]],
        ),
        "All combinations, compared with the algorithm as published:",
        "",
        *variant_table(regrets, PAPER, PAPER_BASE),
        "Summary, compared with the algorithm as published:",
        "",
        *in_short(regrets, PAPER, PAPER_BASE),
        "## The choices of the default",
        "",
        "One choice undone at a time, compared with the default:",
        "",
        *variant_table(regrets, UNDO, DEFAULT_BASE),
        "Summary, compared with the default:",
        "",
        *in_short(regrets, UNDO, DEFAULT_BASE),
        f"## By data set, {max(regrets):,} evaluations",
        "",
        *set_table(regret),
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text
