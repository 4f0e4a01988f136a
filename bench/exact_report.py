"""Write the page and the plot of ``exact.py`` from its rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
from exact_instances import INSTANCES, SWEEPS, UNLIMITED
from exact_peers import ABSTAINS, METHODS, OPTIMAL
from text import table

OWN = "treeopt"
VERITAS = [name for name in METHODS if name.startswith("Veritas")]
FASTER = "Veritas, the faster of both"
SLOW = 1.0  # instances with a longer time are not easy, in seconds

RATIO, SLOW_RATIO, EXTRA = 5.0, 25.0, 0.005
FORESTS = {"boston": 0.1, "diabetes": 1.0, "mpg": 0.1, "bodyfat": 0.1}
WITHIN_A_MINUTE = "friedman XGB 500×6 min"
HARD, CLOSED, MINUTE = ("friedman-30 XGB 100×6 min", "friedman-30 XGB 100×6 max"), 0.8, 60.0

Frame = pd.DataFrame
Series = pd.Series


def read(path: Path) -> Frame:
    """Return the rows with labels, in the order of the registries; the last duplicate is kept."""
    data = pd.read_csv(path).dropna(subset="date")
    data["label"] = data["instance"] + " " + data["sense"]
    data = data[data["label"].isin(INSTANCES)]
    for column, order in (("method", METHODS), ("label", INSTANCES)):
        data[column] = pd.Categorical(data[column], [k for k in order if k in set(data[column])])
    data["family"] = [INSTANCES[label].family for label in data["label"]]
    data["proven"] = data["status"] == OPTIMAL
    data["sign"] = np.where(data["sense"] == "min", 1.0, -1.0)
    key = ["label", "method"]
    return data.drop_duplicates(key, keep="last").sort_values(key)


def disagreements(data: Frame) -> list[str]:
    """Return contradictions between one method's bound and a value found by another method.

    The bound of a proof is its optimum, so two different proofs are a contradiction as well.
    """
    found = []
    for label, rows in data.groupby("label", observed=True):
        for a, b in permutations(rows.to_dict("records"), 2):
            excess = a["sign"] * (a["bound"] - b["fun"])  # NaN where there is no value
            if excess > a["tolerance"] + b["tolerance"]:
                verb = "proves" if a["proven"] else "claims the bound"
                found.append(
                    f"{label}: {a['method']} {verb} {a['bound']!r}, "
                    f"but {b['method']} has found {b['fun']!r}"
                )
    return found


def best_known(data: Frame) -> Series:
    """Return the best value of each instance over all methods."""
    least = (data["sign"] * data["fun"]).groupby(data["label"], observed=True).min()
    return least * data.groupby("label", observed=True)["sign"].first()


def root_gap(data: Frame) -> Series:
    """Return, for each row, the distance from the root's bound to the best known value."""
    return (data["label"].map(best_known(data)).astype(float) - data["root"]).abs()


def closed(data: Frame) -> Series:
    """Return, for each row, the share of the root gap closed by its bound."""
    return ((data["bound"] - data["root"]) * data["sign"] / root_gap(data)).clip(0, 1)


def times(data: Frame) -> Frame:
    """Return seconds to proof, NaN if there is none: instances down, methods across."""
    proofs = data[data["proven"]].pivot_table("seconds", "label", "method", observed=False)
    proofs = proofs.reindex(columns=list(METHODS))
    proofs[FASTER] = proofs[VERITAS].min(axis=1)
    return proofs.reindex([label for label in INSTANCES if label in set(data["label"])])


def mean_ratio(ratios: Series) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else np.nan


# Targets -----------------------------------------------------------------------------------------


def targets(data: Frame) -> Iterator[tuple[str, str, str, bool | None]]:
    """Yield each target: name, required value, measured value, and whether it is reached.

    The last is None if the instances have not run.
    """
    proofs, ran = times(data), data.set_index(["label", "method"])
    measured = [label for label in proofs.index if (label, OWN) in ran.index]
    proofs = proofs.loc[measured]
    own, peer = proofs[OWN], proofs[FASTER]
    theirs, both = peer.notna(), peer.notna() & own.notna()
    missed = list(proofs.index[theirs & own.isna()])
    text = f"{both.sum()} of {theirs.sum()}" + (f", not {', '.join(missed)}" if missed else "")
    ok = not missed if theirs.any() else None
    yield "instances that Veritas proves, proven by treeopt", "all", text, ok
    ratios = peer[both] / own[both]
    for what, part, target in (
        ("faster than Veritas, geometric mean", ratios, RATIO),
        (f"the same where Veritas takes over {SLOW:g} s", ratios[peer[both] > SLOW], SLOW_RATIO),
    ):
        mean = mean_ratio(part)
        ok = bool(mean >= target) if len(part) else None
        yield what, f"≥ {target:g}×", f"{mean:.1f}× ({len(part)} instances)", ok
    worst = (own - peer)[both]
    text = f"{worst.max() * 1000:+.1f} ms ({worst.idxmax()})" if len(worst) else "–"
    ok = bool(worst.max() <= EXTRA) if len(worst) else None
    yield "slower than Veritas on any", f"≤ {EXTRA * 1000:g} ms", text, ok
    limits = {
        f"{name} RF 100 {sense}": limit
        for name, limit in FORESTS.items()
        for sense in ("min", "max")
    }
    for label, limit in [*limits.items(), (WITHIN_A_MINUTE, MINUTE)]:
        if label in measured:
            seconds = own[label]
            text = "not proven" if np.isnan(seconds) else f"{seconds:.3g} s"
            yield f"{label} proven", f"< {limit:g} s", text, bool(seconds < limit)
        else:
            yield f"{label} proven", f"< {limit:g} s", "–", None
    shares = data.assign(closed=closed(data)).set_index(["label", "method"])
    for label in HARD:
        what, target = f"{label}, root gap closed in {MINUTE:g} s", f"≥ {CLOSED:.0%}"
        if label in measured and (own[label] < MINUTE or ran.loc[label, OWN]["limit"] <= MINUTE):
            share = shares.loc[(label, OWN), "closed"]
            yield what, target, f"{share:.1%}", bool(share >= CLOSED)
        else:
            yield what, target, "–", None


def target_table(data: Frame) -> list[str]:
    words = {True: "yes", False: "✗ no", None: "not run"}
    rows = [[what, target, text, words[ok]] for what, target, text, ok in targets(data)]
    return table(["target", "required", "measured", "reached"], rows)


# Tables ------------------------------------------------------------------------------------------


def seconds_text(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def cell(row: Series) -> str:
    """Return the time to proof, or the final gap relative to the root gap."""
    if row["proven"]:
        return seconds_text(row["seconds"])
    if row["status"] == ABSTAINS:
        return "not given"
    if np.isnan(row["fun"]):
        left = f"no value, bound {1 - row['closed']:.0%} off" if row["closed"] >= 0 else "no value"
    elif row["own_gap"] > 1:
        left = "gap > 100%"
    else:
        left = f"gap {row['own_gap']:.{0 if row['own_gap'] > 0.1 else 2}%}"
    return left if row["status"] == "time limit" else f"{left} ({row['status']})"


def family_table(data: Frame) -> list[str]:
    """Return a table of the time to proof of each method, the shortest bold."""
    methods = [m for m in METHODS if m in set(data["method"])]
    rows = []
    for label, part in data.groupby("label", observed=True):
        of = part.set_index("method")
        fastest = of["seconds"].where(of["proven"]).min()
        size = [f"{of[what].max():,.0f}" for what in ("trees", "leaves", "features")]
        cells = []
        for method in methods:
            text = cell(of.loc[method]) if method in of.index else "–"
            won = method in of.index and of.loc[method, "proven"]
            won = won and of.loc[method, "seconds"] == fastest
            cells.append(f"**{text}**" if won else text)
        rows.append([label, *size, *cells])
    return table(["instance", "trees", "leaves", "features", *methods], rows)


def ratio_table(data: Frame) -> list[str]:
    """Return a table that compares treeopt with each peer."""
    proofs, rows = times(data), []
    own = proofs[OWN]
    ran = data.groupby("method", observed=False)["label"].agg(set)
    for peer in [FASTER, *(m for m in METHODS if m != OWN and m in ran.index)]:
        theirs, both = proofs[peer], proofs[peer].notna() & own.notna()
        members = VERITAS if peer == FASTER else [peer]
        labels = set().union(*(ran[m] for m in members if m in ran.index))
        shared = [label for label in labels & ran[OWN] if label in proofs.index]
        if not shared:
            continue
        ratios, slow = theirs[both] / own[both], theirs[both] > SLOW
        only = [proofs.loc[shared, a].notna() & proofs.loc[shared, b].isna()
                for a, b in ((OWN, peer), (peer, OWN))]  # fmt: skip
        least = f"{ratios.min():.2g}× ({ratios.idxmin()})" if len(ratios) else "–"
        worst = f"{(own - theirs)[both].max() * 1000:+.1f} ms" if len(ratios) else "–"
        means = [
            f"{mean_ratio(part):.1f}× ({len(part)})" if len(part) else "–"
            for part in (ratios, ratios[~slow], ratios[slow])
        ]
        rows.append([peer, *(str(x.sum()) for x in only), *means, least, worst])
    header = ["peer", "only treeopt proves", "only the peer", "faster, all", f"up to {SLOW:g} s"]
    return table([*header, f"above {SLOW:g} s", "least ratio", "largest difference"], rows)


def conversion_table(data: Frame) -> list[str]:
    part = data.pivot_table("conversion", "family", "method", "median", observed=True, sort=False)
    header = ["family, median", *part.columns]
    return table(header, [[f, *("–" if np.isnan(v) else seconds_text(v) for v in row)]
                          for f, row in zip(part.index, part.to_numpy(), strict=True)])  # fmt: skip


def jobs_section(path: Path) -> list[str]:
    if not path.exists():
        return []
    data = pd.read_csv(path)
    data["label"] = data["instance"] + " " + data["sense"]
    rows, ratios = [], []
    for label, part in data.groupby("label", sort=False):
        pairs = part.pivot_table("seconds", "pair", "n_jobs")
        ratio = (pairs[1] / pairs[2]).median()
        ratios.append(ratio)
        rows.append([label, *(f"{pairs[n].median():.2f} s" for n in (1, 2)), f"{ratio:.2f}×"])
    count = data["pair"].max() + 1
    return [
        "## Two threads compared with one",
        "",
        f"Instances that take treeopt more than a second. Medians of {count} interleaved pairs. "
        f"Geometric mean of the ratios: {mean_ratio(Series(ratios)):.2f}×.",
        "",
        *table(["instance", "n_jobs=1", "n_jobs=2", "ratio"], rows),
    ]


def startup_section(path: Path) -> list[str]:
    if not path.exists():
        return []
    data = pd.read_csv(path)
    steps = [column for column in data.columns if column not in ("cache", "run")]
    medians = data.groupby("cache")[steps].median()
    rows = [[f"{cache} cache", *map(seconds_text, row)] for cache, row in zip(
        medians.index, medians.to_numpy(), strict=True)]  # fmt: skip
    return [
        "## First calls of a fresh process",
        "",
        "A forest on boston with default settings. The cold cache has no compiled kernels.",
        "",
        *table(["", *steps], rows),
    ]


# Report ------------------------------------------------------------------------------------------


def report(path: Path, jobs: Path, startup: Path) -> str:
    """Write the page and the plot next to the rows, and return the page."""
    data = read(path)
    data["closed"] = closed(data)
    data["own_gap"] = (data["fun"] - data["bound"]).abs() / root_gap(data)
    plot, limit = path.with_suffix(".png"), data["limit"].max()
    draw(data, plot)
    about = sorted({v for text in data["versions"] for v in text.split(", ")})
    places = "; ".join(dict.fromkeys(data["machine"]))
    dates = sorted({data["date"].min(), data["date"].max()})
    lines = [
        "# Proven optima of tree ensembles",
        "",
        f"{places}. {', '.join(about)}. {' to '.join(dates)}.",
        "",
        f"{data['label'].nunique()} instances, at most {limit:g} s each. Time is measured from the "
        "call of the search to its result, including the local search; the conversion of the model "
        "is separate. Each run is a separate process with 6 GB of memory. Short searches are "
        "repeated up to five times, and the median is reported. Every search is over the range of "
        "the data. All methods use the same trees, with the cuts that the model actually compares "
        "with. HiGHS is scipy's, with Mišić's formulation and a relative gap of zero.",
        "",
        "Every value is the prediction of the model itself at the reported point. The root gap is "
        "the distance from the sum of each tree's best leaf in the box to the best known value. A "
        "gap in a table is the final distance between value and bound, relative to the root gap.",
        "",
    ]
    if wrong := disagreements(data):
        lines += ["## Disagreements", "", *(f"- {line}" for line in wrong), ""]
    if OWN in set(data["method"]):
        lines += ["## Targets", "", *target_table(data)]
        lines += ["“Veritas” is the faster of its two settings on each instance.", ""]
        lines += ["## Ratios of times to proof", "", *ratio_table(data)]
        lines += [
            "Geometric means over the instances that both prove; their number is in parentheses."
        ]
        lines += ["The largest difference is treeopt's time minus the peer's.", ""]
    for family, part in data.groupby("family", sort=False):
        lines += [f"## {family[0].upper()}{family[1:]}", "", *family_table(part)]
    lines += ["## Growth", "", f"![Time to proof]({plot.name})", ""]
    lines += ["Hollow markers are not proven within the limit.", ""]
    lines += jobs_section(jobs) + startup_section(startup)
    lines += ["## Conversion", "", *conversion_table(data)]
    lines += [
        "For treeopt, this is `from_model` and the arrays for its kernels; for Veritas, its "
        "`AddTree`; for HiGHS, its matrices. The latter two are built from treeopt's arrays.",
        "",
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


def curve(data: Frame, method: str, places: dict[float, str]) -> Frame:
    """Return the times along a sweep; an unproven instance has its running time."""
    rows = data[data["method"] == method].set_index("label")
    there = {value: label for value, label in places.items() if label in rows.index}
    found = rows.loc[list(there.values()), ["seconds", "proven"]]
    return found.set_axis(pd.Index(list(there)), axis=0).dropna()


def draw(data: Frame, path: Path) -> None:
    """Draw one panel per sweep, and the number of instances proven within a time."""
    from matplotlib.figure import Figure

    sweeps = [(axis, name, at) for axis, of in SWEEPS.items() for name, at in of.items()]
    figure = Figure(figsize=(13, 7.5), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    colors = dict(zip(METHODS, ("black", "tab:orange", "tab:red", "tab:blue"), strict=True))
    for panel, (axis, name, places) in zip(panels, sweeps, strict=False):
        for method, color in colors.items():
            rows = curve(data, method, places)
            panel.plot(rows.index, rows["seconds"], color=color, lw=1)
            for proven, face in ((True, color), (False, "white")):
                part = rows[rows["proven"] == proven]["seconds"]
                panel.plot(part.index, part, "o", color=color, mfc=face, ms=5)
        panel.set(xlabel=axis, title=name, ylabel="seconds to proof")
        shown = ["unlimited" if value == UNLIMITED else f"{value:,}" for value in places]
        if axis == "trees":
            panel.set_xscale("log")
            panel.minorticks_off()
        panel.set_xticks(list(places), shown)
        if panel.dataLim.height > 0:  # there is something to show
            panel.set_yscale("log")
        panel.grid(alpha=0.3)
    last, proofs = panels[-1], times(data)
    for method, color in colors.items():
        ordered = np.sort(proofs[method].dropna())
        last.step(ordered, np.arange(1, ordered.size + 1), color=color, where="post", label=method)
    title = f"all {data['label'].nunique()} instances"
    last.set(xlabel="seconds", ylabel="instances proven", title=title)
    if last.dataLim.width > 0:
        last.set_xscale("log")
    last.grid(alpha=0.3)
    last.legend(fontsize=8)
    figure.savefig(path, dpi=130)
