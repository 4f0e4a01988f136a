"""Write the page of ``tuning_tables.py`` from its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student
from text import provenance, table
from tuning_data import DATA, SYNTH
from tuning_methods import DEFAULT, GRID, METHODS, PAPER
from tuning_problems import CASES, CLASSES

Frame = pd.DataFrame
CONFIDENCE = 0.95
SAME = 1e-9  # means with a smaller difference are equal

PRINTED = {
    "one-vs-all SVM": {
        "Synth": (74.8, 75.3, 76.8, 75.0),
        "PenDigits": (94.0, 94.2, 95.2, 94.9),
        "MNIST": (91.3, 91.8, 92.2, 92.0),
    },
    "one-vs-all logistic regression": {
        "Synth": (74.5, 75.2, 75.5, 75.5),
        "PenDigits": (94.8, 95.0, 95.3, 95.1),
        "MNIST": (92.0, 92.2, 92.6, 92.3),
    },
    "one-vs-one SVM": {
        "Synth": (78.0, 78.5, 79.5, 78.8),
        "PenDigits": (97.9, 98.2, 98.8, 98.6),
        "MNIST": (91.5, 92.2, 93.0, 93.2),
    },
    "one-vs-one logistic regression": {
        "Synth": (77.5, 77.75, 78.25, 78.5),
        "PenDigits": (96.8, 97.8, 98.4, 97.4),
        "MNIST": (93.3, 93.8, 94.1, 93.7),
    },
    "RBF-SVM": {
        "diabetes": (79.8, 79.2, 81.8, 81.3, 81.2),
        "fourclass": (100.0, 100.0, 100.0, 100.0, 80.9),
        "statlog": (77.5, 80.5, 81.6, 81.0, 78.5),
        "svmguide3": (83.5, 84.3, 84.3, 82.9, 83.9),
        "ijcnn1": (97.6, 94.6, 98.2, 98.3, 98.3),
    },
}
"""Test accuracies in the paper, in %, for random search, DIRECT, StepDIRECT, BO and the grid."""

PRINTED_METHODS = ("random search", "DIRECT", PAPER, "GP-EI (scikit-learn)", GRID)


def read(path: Path) -> Frame:
    """Return the rows in the order of the registries, scores in %."""
    data = pd.read_csv(path).dropna(subset="date")
    data = data.drop_duplicates(["case", "split", "method", "budget"], keep="last")
    for column, order in (("case", CASES), ("method", METHODS)):
        there = set(data[column])
        data[column] = pd.Categorical(data[column], [name for name in order if name in there])
    data[["validation", "test"]] *= 100
    return data.sort_values(["case", "budget", "method", "split"])


def groups(data: Frame) -> Iterator[tuple[str, int, Frame]]:
    """Yield each row of the tables, and its results."""
    for (case, budget), part in data.groupby(["case", "budget"], observed=True):
        yield str(case), int(budget), part


def scores(part: Frame, what: str) -> Frame:
    """Return the scores: splits down (those that all methods have), methods across."""
    return part.pivot(index="split", columns="method", values=what).dropna()


def interval(differences: pd.Series[float]) -> tuple[float, float]:
    """Return the mean of paired differences and half the width of its confidence interval."""
    n = len(differences)
    if n < 2:
        return float(differences.mean()), np.inf
    factor = student.ppf((1 + CONFIDENCE) / 2, n - 1)
    return float(differences.mean()), float(factor * differences.std() / np.sqrt(n))


def against_default(part: Frame, what: str) -> dict[str, tuple[float, float]]:
    """Return the difference of each other method to the default, with its interval."""
    values = scores(part, what)
    if DEFAULT not in values:
        return {}
    return {m: interval(values[m] - values[DEFAULT]) for m in values.columns if m != DEFAULT}


def significant(mean: float, half: float) -> bool:
    return abs(mean) > half + SAME


def score_table(data: Frame, what: str) -> list[str]:
    """Return a table of mean scores, the best bold, with arrows for significant differences."""
    methods = list(data["method"].cat.remove_unused_categories().cat.categories)
    rows = []
    for case, budget, part in groups(data):
        values, sure = scores(part, what), against_default(part, what)
        best, cells = values.mean().max(), []
        for method in methods:
            if method not in values:
                cells.append("–")
                continue
            mean = values[method].mean()
            text = f"{mean:.2f}"
            text = f"**{text}**" if mean >= best - SAME else text
            if method in sure and significant(*sure[method]):
                text += " ↓" if sure[method][0] < 0 else " ↑"
            cells.append(text)
        rows.append([f"{case.split(' ')[0]}, {budget:,}", *cells])
    return table(["data, evaluations", *methods], rows)


def difference_table(data: Frame, what: str) -> list[str]:
    """Return a table of paired differences, method minus default, with their intervals."""
    methods = [m for m in data["method"].cat.categories if m != DEFAULT]
    rows = []
    for case, budget, part in groups(data):
        found = against_default(part, what)
        cells = []
        for method in methods:
            mean, half = found.get(method, (np.nan, np.nan))
            cells.append("–" if mean != mean else f"{mean:+.2f} ± {half:.2f}")
        rows.append([f"{case}, {budget:,}", *cells])
    return table(["case, evaluations", *methods], rows)


def training_table(data: Frame) -> list[str]:
    """Return a table of the mean number of different base classifiers that a run needs."""
    methods = list(data["method"].cat.categories)
    rows = []
    for case, budget, part in groups(data):
        mean = part.groupby("method", observed=True)["trainings"].mean()
        cells = [f"{mean[m]:,.0f}" if m in mean else "–" for m in methods]
        p = int(part["p"].iloc[0])
        full = budget if "RBF" in case else budget * p
        rows.append([f"{case}, {budget:,}", f"{full:,}", *cells])
    return table(["case, evaluations", "at most", *methods], rows)


def verdicts(data: Frame) -> list[str]:
    """Return where the default is best, where it is not, and where nothing is significant."""
    lines, won, open_rows, lost = [], 0, 0, 0
    for case, budget, part in groups(data):
        values, sure = scores(part, "validation"), against_default(part, "validation")
        mean = values.mean()
        leads = (interval(values[mean.idxmax()] - values[m]) for m in mean.index)
        if not any(significant(*lead) for lead in leads):
            open_rows += 1
            continue
        ahead = mean[mean > mean[DEFAULT] + SAME].sort_values(ascending=False)
        if ahead.empty:
            won += 1
            continue
        lost += 1
        names = ", ".join(
            f"{m} by {sure[m][0]:.2f} ± {sure[m][1]:.2f}"
            + ("" if significant(*sure[m]) else " (not significant)")
            for m in ahead.index
        )
        lines.append(f"- {case}, {budget:,} evaluations: ahead of the default are {names}.")
    total = won + open_rows + lost
    head = (
        f"Of {total} rows, {open_rows} have no significant difference. Of the other "
        f"{total - open_rows}, the default has the best mean validation score, alone or shared, "
        f"in {won}"
    )
    return [head + (". The exceptions are:" if lost else "."), "", *lines, *([""] if lines else [])]


def tally(data: Frame, what: str) -> str:
    """Return the number of methods significantly below the default, or above."""
    found = [x for *_, part in groups(data) for x in against_default(part, what).values()]
    below = sum(significant(*x) and x[0] < 0 for x in found)
    above = sum(significant(*x) and x[0] > 0 for x in found)
    return (
        f"On {what} data, in {len(found)} comparisons with the default, the other method is "
        f"significantly below in {below} and above in {above}."
    )


def order_table(data: Frame) -> list[str]:
    """Return a table of the order of methods in the paper and here, by the mean on test data."""
    rows = []
    for kind, printed in PRINTED.items():
        for name, values in printed.items():
            case = f"{name} {kind}"
            here = data[data["case"] == case]
            if here.empty:
                continue
            budget = paper_budget(case)
            part = here[here["budget"] == budget]
            found = scores(part, "test").mean()
            gain = scores(part, "test")
            cells = [", ".join(f"{v:g}" for v in values)]
            names = PRINTED_METHODS[: len(values)]
            cells.append(", ".join(f"{found[m]:.2f}" if m in found else "–" for m in names))
            for other in ("random search", "DIRECT"):
                if PAPER in gain and other in gain:
                    mean, half = interval(gain[PAPER] - gain[other])
                    cells.append(f"{mean:+.2f} ± {half:.2f}")
                else:
                    cells.append("–")
            rows.append([f"{case}, {budget:,}", *cells])
    head = ["case, evaluations", "printed: RS, DIRECT, StepDIRECT, BO (, GS)", "here"]
    return table([*head, "StepDIRECT − RS", "StepDIRECT − DIRECT"], rows)


def order_text(data: Frame) -> str:
    """Return the number of rows, at the paper's budgets, in which its order reproduces."""
    gains: dict[str, list[tuple[float, float]]] = {"random search": [], "DIRECT": []}
    for case, budget, part in groups(data):
        values = scores(part, "test")
        for other, found in gains.items():
            if budget == paper_budget(case) and {PAPER, other} <= set(values):
                found.append(interval(values[PAPER] - values[other]))
    said = []
    for other, found in gains.items():
        above = sum(significant(*x) and x[0] > 0 for x in found)
        below = sum(significant(*x) and x[0] < 0 for x in found)
        said.append(f"{other} in {above} of {len(found)} rows and below it in {below}")
    return f"In test accuracy, StepDIRECT as published is significantly above {'; '.join(said)}."


def paper_budget(case: str) -> int:
    """Return the paper's budget in full evaluations, as interpreted here."""
    budgets = CASES[case].budgets
    return budgets[0] if "one-vs-one" in case else budgets[-1]


def about_data(data: Frame) -> list[str]:
    """Return the rows and the number of splits of each data set."""
    lines = []
    for name, spec in DATA.items():
        part = data[data["case"].astype(str).str.startswith(f"{name} ")]
        if part.empty:
            continue
        drawn = "all rows" if spec.rows is None else f"{spec.rows:,} rows drawn for each split"
        if spec.file is None:
            settings = ", ".join(f"{k}={v}" for k, v in SYNTH.items())
            drawn = f"`make_classification({settings})`, in place of a generator without parameters"
        classes = f", K = {CLASSES[name]}" if name in CLASSES else ""
        lines.append(f"- {name}{classes}: {drawn}; {part['split'].nunique()} splits")
    return lines


def report(path: Path) -> str:
    """Write the page next to the rows, and return it."""
    data = read(path)
    lines = [
        "# The paper's tables of hyperparameter tuning",
        "",
        provenance(data),
        "",
        "Accuracy in %, mean over the splits. Splits are 3:1:1 (training, validation, test), "
        "stratified, and the same for all methods. Features are scaled to [0, 1] on the training "
        "part. A search maximizes the accuracy on the validation part. “Test” is the accuracy of "
        "its best setting on the test part; if several settings tie, it is the first one found. "
        "All parameters are searched on a logarithmic grid of 40 values per decade: 241 of C in "
        "[1e-3, 1e3], 241 of γ in [1e-6, 1], 161 of the weight of the positive (smaller) class in "
        "[1e-2, 1e2]. SVMs are scikit-learn's `LinearSVC` with the hinge loss, which stops after "
        "1,000 passes if C is large, and `SVC`.",
        "",
        *about_data(data),
        "",
        "**Evaluations.** One evaluation fits all base classifiers, K for one-vs-all and K(K−1)/2 "
        "for one-vs-one. The paper counts base trainings. Its 100K for one-vs-all, “in terms of "
        "the number of training K base classifiers”, may mean 100K evaluations or 100K trainings, "
        "that is 100 evaluations; both are shown. Its 10K(K−1) for one-vs-one are 20 evaluations; "
        "200 are shown as well. The last table has the number of different base classifiers of a "
        "run.",
        "",
        f"**Noise.** Arrows mark {CONFIDENCE:.0%} confidence: ↓ is significantly below "
        f"{DEFAULT} on the same splits, ↑ is above, and no arrow is within noise. Intervals are "
        "from paired differences, with Student's t over the splits. The splits share rows, so the "
        "intervals are valid only for these data sets. Without a real difference, about one "
        "comparison in twenty has an arrow. GP-EI has at most 200 evaluations, because its time "
        "grows with their cube.",
        "",
        f"**Fairness.** {DEFAULT} and GP-EI know the grid and try no setting twice, as users "
        "would do. The others search the unit cube, and repeated settings count again (the last "
        "table shows how many are different). Of tied settings, the first is used; for one C for "
        "all and for grid search, this is the one with the minimum C.",
        "",
        "## Results of the default",
        "",
        *verdicts(data),
        tally(data, "validation"),
        tally(data, "test"),
        "",
    ]
    for kind in PRINTED:
        part = data[data["case"].astype(str).str.endswith(f" {kind}")]
        if part.empty:
            continue
        part = part.assign(case=part["case"].cat.remove_unused_categories())
        lines += [f"## {kind[0].upper()}{kind[1:]}", "", "On validation data:", ""]
        lines += score_table(part, "validation")
        lines += ["On test data:", "", *score_table(part, "test")]
    lines += [
        "## The paper's order",
        "",
        "Test accuracy in the paper and here, at the paper's budget; its BO differs from GP-EI. "
        "The last columns are the gain of StepDIRECT as published over random search and over "
        f"DIRECT, with the interval. {order_text(data)} In the paper it is above or equal to both "
        "in all rows.",
        "",
        *order_table(data),
        "## Differences to the default",
        "",
        "Validation accuracy of each method minus that of the default, paired by split:",
        "",
        *difference_table(data, "validation"),
        "Test accuracy:",
        "",
        *difference_table(data, "test"),
        "## Base trainings",
        "",
        "Mean number of different base classifiers that the settings of a run need. “At most” is "
        "the number if no two evaluations share one. DIRECT and StepDIRECT as published move few "
        "coordinates at a time, to few values, and so need far fewer:",
        "",
        *training_table(data),
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text
