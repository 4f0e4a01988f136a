"""Write the page of ``decisions.py`` from its rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
from decisions_instances import CHANGE, CHEAPEST, INSTANCES, SUM, SUMMED
from decisions_peers import CANNOT, INFEASIBLE, METHODS, OPTIMAL
from text import duration, provenance, table

OWN, ORACLE = "treeopt", "Mišić + HiGHS"
PEERS = [name for name in METHODS if name != OWN]
BEST = "best of all peers"

FOREST, FOREST_LIMIT = "boston RF 100 rows costs", 0.2
CHEAPEST_LIMIT, FLIP_LIMIT, SUM_RATIO, RATIO = 5.0, 10.0, 5.0, 20.0

SMALL = 1e-6
"""Violations up to this size come from the tolerances of solvers."""

UNEXPLAINED = "unexplained"
OFF = ("bounds off", "rows off", "limit off")

Frame = pd.DataFrame
Series = pd.Series


def read(path: Path) -> Frame:
    """Return the rows, in the order of the registries; the last duplicate is kept.

    Four columns are added. ``optimum`` is the proven value of treeopt, or else of the oracle.
    ``proven``: the method claims a proof, and of the right value. ``wrong``: it claims a proof of
    another value. ``real``: its point has the claimed value and satisfies the constraints.
    """
    data = pd.read_csv(path, dtype={"remark": str}).dropna(subset="date")
    data["remark"] = data["remark"].fillna("")
    for column, order in (("method", METHODS), ("instance", INSTANCES)):
        data = data[data[column].isin(list(order))]
        data[column] = pd.Categorical(data[column], [k for k in order if k in set(data[column])])
    data = data.drop_duplicates(["instance", "method"], keep="last")
    data = data.sort_values(["instance", "method"]).reset_index(drop=True)
    data["sign"] = np.where(data["sense"] == "min", 1.0, -1.0)
    claims = data[data["status"] == OPTIMAL].set_index("instance")
    known = pd.Series(np.nan, data["instance"].cat.categories)
    for method in (ORACLE, OWN):  # the last one has priority
        known.update(claims[claims["method"] == method]["claimed"])
    data["optimum"] = data["instance"].map(known).astype(float)
    right = (data["claimed"] - data["optimum"]).abs() <= 2 * data["tolerance"]
    done = data["status"] == OPTIMAL
    data["proven"] = done & (right | data["optimum"].isna())
    data["wrong"] = done & ~data["proven"]
    off = data[list(OFF)].max(axis=1)
    same = (data["value"] - data["claimed"]).abs() <= data["tolerance"]
    data["real"] = same & (off <= SMALL)
    return data


def disagreements(data: Frame) -> list[str]:
    """Return what must not be.

    - A point is not what its method claims, and splits do not explain it.
    - treeopt's point does not have the claimed value, or violates a constraint.
    - A method's bound excludes a point that another method has found, with its real value.
    - A method finds no point, and claims that there is none, but another method has found one.
    """
    found = []
    for row in data[data["remark"] == UNEXPLAINED].to_dict("records"):
        found.append(
            f"{row['instance']}: {row['method']} claims {row['claimed']!r}, but the models give "
            f"{row['value']!r}, with a violation of {max(row[what] for what in OFF):.3g}"
        )
    for row in data[(data["method"] == OWN) & data["value"].notna()].to_dict("records"):
        if max(row[what] for what in OFF) > 0:
            found.append(f"{row['instance']}: treeopt's point violates a constraint")
        if not abs(row["value"] - row["claimed"]) <= 1e-9 * max(1, abs(row["value"])):
            found.append(
                f"{row['instance']}: treeopt reports {row['claimed']!r}, but the models give "
                f"{row['value']!r}"
            )
    for name, part in data.groupby("instance", observed=True):
        for a, b in permutations(part.to_dict("records"), 2):
            if not max(b[what] for what in OFF) <= 1e-9:  # NaN where there is no point
                continue
            if a["status"] == INFEASIBLE:
                found.append(
                    f"{name}: {a['method']} claims that there is no point, "
                    f"but {b['method']} has found {b['value']!r}"
                )
            excess = a["sign"] * (a["bound"] - b["value"])
            if excess > a["tolerance"] + b["tolerance"]:
                verb = "proves" if a["status"] == OPTIMAL else "claims the bound"
                found.append(
                    f"{name}: {a['method']} {verb} {a['bound']!r}, "
                    f"but {b['method']} has found {b['value']!r}"
                )
    return found


def times(data: Frame, honest: bool = False) -> Frame:
    """Return seconds to proof, NaN if there is none: instances down, methods across.

    If ``honest``, a proof counts only if its point is real.
    """
    rows = data[data["proven"] & (data["real"] | (not honest))]
    found = rows.pivot_table("seconds", "instance", "method", observed=False)
    found = found.reindex(index=data["instance"].cat.categories, columns=list(METHODS))
    found[BEST] = found[PEERS].min(axis=1)
    return found


def mean_ratio(ratios: Series) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else np.nan


# Aims --------------------------------------------------------------------------------------------


def aims(data: Frame) -> Iterator[tuple[str, str, str, bool | None]]:
    """Yield each aim: name, required value, measured value, and whether it is reached.

    The last is None if the instances have not run.
    """
    proofs = times(data)
    ran = set(data[data["method"] == OWN]["instance"])

    def within(name: str, limit: float) -> tuple[str, str, str, bool | None]:
        what, required = f"{name} proven", f"< {limit:g} s"
        if name not in ran:
            return what, required, "–", None
        seconds = proofs.loc[name, OWN]
        text = "not proven" if np.isnan(seconds) else duration(seconds)
        return what, required, text, bool(seconds < limit)

    for sense in ("min", "max"):
        yield within(f"{FOREST} {sense}", FOREST_LIMIT)
    for name, instance in INSTANCES.items():
        if instance.family == CHEAPEST:
            yield within(name, CHEAPEST_LIMIT)
    for name, instance in INSTANCES.items():
        if instance.family == SUM and not instance.own_only:
            data_name, sense = name.split()[0], name.split()[-1]
            alone = [f"{data_name} {kind} alone {sense}" for kind in SUMMED]
            what, required = f"{name}, relative to the slower alone", f"≤ {SUM_RATIO:g}×"
            if not ran.issuperset([name, *alone]):
                yield what, required, "–", None
                continue
            ratio = proofs.loc[name, OWN] / proofs.loc[alone, OWN].max(skipna=False)
            text = "not proven" if np.isnan(ratio) else f"{ratio:.2f}×"
            yield what, required, text, bool(ratio <= SUM_RATIO)
    for name, instance in INSTANCES.items():
        if instance.family == CHANGE:
            yield within(name, FLIP_LIMIT)
    both = proofs[[OWN, BEST]].dropna()
    mean = mean_ratio(both[BEST] / both[OWN])
    text = f"{mean:.1f}× ({len(both)} instances)" if len(both) else "–"
    ok = bool(mean >= RATIO) if len(both) else None
    yield f"faster than the {BEST}, geometric mean", f"≥ {RATIO:g}×", text, ok


def aim_table(data: Frame) -> list[str]:
    words = {True: "yes", False: "✗ no", None: "not run"}
    found = list(aims(data))
    rows = [[what, target, text, words[ok]] for what, target, text, ok in found]
    ran = [ok for *_, ok in found if ok is not None]
    missed = [what for what, *_, ok in found if ok is False]
    summary = f"{sum(ran)} of {len(ran)} measured aims are reached"
    summary += f"; missed: {'; '.join(missed)}." if missed else "."
    if len(ran) < len(found):
        summary += f" {len(found) - len(ran)} aims were not measured."
    return [summary, "", *table(["aim", "required", "measured", "reached"], rows)]


# Tables ------------------------------------------------------------------------------------------


def ratio_table(data: Frame) -> list[str]:
    """Return a table that compares treeopt with each peer."""
    proofs, honest, rows = times(data), times(data, honest=True), []
    asked = data[data["status"] != CANNOT].groupby("method", observed=False)["instance"].agg(set)
    own = proofs[OWN]
    for peer in [BEST, *PEERS]:
        labels = set().union(*(asked.get(m, set()) for m in (PEERS if peer == BEST else [peer])))
        labels = [name for name in own.index if name in labels & asked.get(OWN, set())]
        if not labels:
            continue
        cells = []
        for seconds in (proofs, honest):
            both = seconds.loc[labels, [OWN, peer]].dropna()
            ratios = both[peer] / both[OWN]
            cells.append(f"{mean_ratio(ratios):.1f}× ({len(ratios)})" if len(ratios) else "–")
            if seconds is proofs:
                least = f"{ratios.min():.2g}× ({ratios.idxmin()})" if len(ratios) else "–"
        theirs = proofs.loc[labels, peer].notna()
        ours = own[labels].notna()
        only = [str((ours & ~theirs).sum()), str((theirs & ~ours).sum())]
        rows.append([peer, str(len(labels)), *only, *cells, least])
    header = ["peer", "asked", "only treeopt proves", "only the peer"]
    return table([*header, "treeopt faster", "the same, real points only", "least ratio"], rows)


def family_ratio_table(data: Frame) -> list[str]:
    """Return a table of the ratio to the best peer, and how often each peer is the best."""
    proofs, rows = times(data), []
    families = data.groupby("family", sort=False)["instance"].agg(lambda names: list(set(names)))
    for family, names in families.items():
        both = proofs.loc[names].dropna(subset=[OWN, BEST])
        if len(both):
            ratios = both[BEST] / both[OWN]
            counts = both[PEERS].idxmin(axis=1).value_counts().reindex(PEERS, fill_value=0)
            cells = [f"{mean_ratio(ratios):.1f}× ({len(both)})", f"{ratios.min():.2g}×"]
            rows.append([str(family), *cells, *map(str, counts)])
    return table(["family", "treeopt faster", "least ratio", *PEERS], rows)


def time_cell(row: Series) -> str:
    """Return the time to proof, or how far the method came."""
    if row["status"] == CANNOT:
        return "–"
    if row["status"] == OPTIMAL:
        text = duration(row["seconds"])
        if row["wrong"]:
            return f"{text} ‡"
        return text if row["real"] else f"{text} †"
    end = "" if row["status"] == "time limit" else f" ({row['status']})"
    if np.isnan(row["claimed"]):
        return f"no point{end}"
    mark = "" if row["real"] else " †"
    gap = abs(row["claimed"] - row["bound"])
    return f"gap {gap:.2g}{end}{mark}" if np.isfinite(gap) else f"no bound{end}{mark}"


def time_table(data: Frame) -> list[str]:
    """Return a table of the seconds of each method, the shortest proof bold."""
    methods, rows = [m for m in METHODS if m in set(data["method"])], []
    for name, part in data.groupby("instance", observed=True, sort=False):
        of = part.set_index("method")
        fastest = of["seconds"].where(of["proven"]).min()
        cells = []
        for method in methods:
            text = time_cell(of.loc[method]) if method in of.index else "–"
            won = method in of.index and of.loc[method, "proven"]
            won = won and of.loc[method, "seconds"] == fastest
            cells.append(f"**{text}**" if won else text)
        rows.append([str(name), f"{of['leaves'].max():,.0f}", *cells])
    return table(["instance", "leaves", *methods], rows)


def value_table(data: Frame) -> list[str]:
    """Return a table of what each method claims, and what the models say at its point."""
    rows = []
    for row in data[data["value"].notna()].to_dict("records"):
        off = {what.split()[0]: row[what] for what in OFF}
        what, amount = max(off.items(), key=lambda item: item[1])
        violation = f"{what} {amount:.2g}" if amount > 0 else "0"
        ending = "proven" if row["status"] == OPTIMAL else row["status"]
        if row["wrong"]:
            ending = "“proven”, wrong"
        values = [f"{row[name]:.7g}" for name in ("claimed", "value")]
        cells = [str(row["instance"]), row["method"], *values, violation, ending, row["remark"]]
        rows.append(cells)
    header = ["instance", "method", "claims", "models give", "violation", "status", "remark"]
    return table(header, rows)


def conversion_table(data: Frame) -> list[str]:
    part = data.pivot_table("conversion", "family", "method", "median", observed=True, sort=False)
    rows = [[str(f), *map(duration, row)] for f, row in zip(part.index, part.values, strict=True)]
    return table(["family, median", *map(str, part.columns)], rows)


EXPRESSED = [
    ["rows", "yes", "yes", "yes", "two features only"],
    ["prices", "yes", "yes", "yes", "alone, as a change"],
    ["limit on a prediction", "yes", "yes", "yes", "one model"],
    ["several models", "yes", "yes", "yes", "no"],
    ["change", "yes", "yes", "yes", "yes"],
    ["softmax, product", "no", "no", "no", "no"],
    ["strict side of a split", "yes", "no", "no", "yes"],
    ["XGBoost 3", "yes", "with help", "with help", "yes"],
]
"""What each of `PEERS` can express."""


# Report ------------------------------------------------------------------------------------------


def report(path: Path) -> str:
    """Write the page next to the rows, and return it."""
    data = read(path)
    lines = [
        "# Decisions with constraints, costs and several models",
        "",
        provenance(data),
        "",
        f"{data['instance'].nunique()} instances, at most {data['limit'].max():g} s each, one run, "
        "one thread. Time is measured from the call of the search to its result. The conversion is "
        "separate: for treeopt `from_model`, for the peers building their whole program. Every "
        "search is over the range of the data. Peers run with default settings and no gap.",
        "",
    ]
    if wrong := disagreements(data):
        lines += ["## Disagreements", "", *(f"- {line}" for line in wrong), ""]
    lines += ["## Aims", "", *aim_table(data)]
    if OWN in set(data["method"]):
        lines += ["## Ratios of times to proof", "", *ratio_table(data)]
        lines += [
            "Geometric means over what both prove; the number of instances is in parentheses. A "
            "peer's proof counts if the claimed value is right. Many of their points do not have "
            "this value; the second mean leaves these out. By family, compared with the best peer, "
            "and how often each peer is the best:",
            "",
            *family_ratio_table(data),
        ]
    lines += ["## Seconds", ""]
    lines += [
        "The shortest time to proof is bold. Without proof, the table has the distance between the "
        "claimed value and the bound. † The point does not have the claimed value, or violates a "
        "constraint. ‡ The claimed optimum is wrong. – The method cannot express the question, "
        "or is not asked.",
        "",
    ]
    for family, part in data.groupby("family", sort=False):
        lines += [f"### {str(family)[0].upper()}{str(family)[1:]}", "", *time_table(part)]
    lines += ["## Conversion", "", *conversion_table(data)]
    lines += ["## What the peers can express", "", *table(["", *PEERS], EXPRESSED)]
    lines += [
        "PySCIPOpt-ML and OMLT put points exactly on splits, where the model may go to the other "
        "side: that is their default. Their help is described in `bench/decisions_peers.py`.",
        "",
        "## Values",
        "",
        "What each method claims of its point, and what the models' own `predict` gives there. "
        "Violations of bounds are in ranges, of rows in sums of absolute terms, of limits in units "
        "of the prediction.",
        "",
        *value_table(data),
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text
