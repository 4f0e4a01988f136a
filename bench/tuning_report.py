"""From the rows of ``tuning_tables.py`` to Markdown."""

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
SAME = 1e-9  # means that differ by less are the same

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
"""Test accuracies of the paper, in %, of random search, DIRECT, StepDIRECT, BO and the grid."""

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
    """Return the scores: splits that all methods have down, methods across."""
    return part.pivot(index="split", columns="method", values=what).dropna()


def interval(differences: pd.Series[float]) -> tuple[float, float]:
    """Return the mean of paired differences and half the width of its confidence interval."""
    n = len(differences)
    if n < 2:
        return float(differences.mean()), np.inf
    factor = student.ppf((1 + CONFIDENCE) / 2, n - 1)
    return float(differences.mean()), float(factor * differences.std() / np.sqrt(n))


def against_default(part: Frame, what: str) -> dict[str, tuple[float, float]]:
    """Return how far each other method is above the default, with the interval."""
    values = scores(part, what)
    if DEFAULT not in values:
        return {}
    return {m: interval(values[m] - values[DEFAULT]) for m in values.columns if m != DEFAULT}


def significant(mean: float, half: float) -> bool:
    return abs(mean) > half + SAME


def score_table(data: Frame, what: str) -> list[str]:
    """Mean scores: cases and budgets down, methods across; the best bold, arrows for the sure."""
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
    """Paired differences, method less default, with their intervals."""
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
    """How many different base classifiers the settings of a run need, in the mean."""
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
    """Say where the default is the best, where not, and where nothing is sure."""
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
    return [head + ("; it has not in:" if lost else "."), "", *lines, *([""] if lines else [])]


def tally(data: Frame, what: str) -> str:
    """Count how often another method is significantly below the default, or above."""
    found = [x for *_, part in groups(data) for x in against_default(part, what).values()]
    below = sum(significant(*x) and x[0] < 0 for x in found)
    above = sum(significant(*x) and x[0] > 0 for x in found)
    return (
        f"On {what} data, of {len(found)} comparisons of another method with the default, it is "
        f"significantly below in {below} and above in {above}."
    )


def order_table(data: Frame) -> list[str]:
    """Compare the paper's order with the one here, by the mean on test data."""
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
    """Count the rows, at the paper's budgets, in which its order is found again."""
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
    """Return the paper's budget in full evaluations, as it is read here."""
    budgets = CASES[case].budgets
    return budgets[0] if "one-vs-one" in case else budgets[-1]


def about_data(data: Frame) -> list[str]:
    """Return which rows and how many splits there are of each data set."""
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
    """Write the Markdown beside the rows, and return it."""
    data = read(path)
    lines = [
        "# The paper's tables of hyper-parameter tuning",
        "",
        provenance(data),
        "",
        "Accuracy in %, mean over the splits. Splits are 3:1:1 (fit, validation, test), "
        "stratified, and the same for all methods; features are scaled to [0, 1] by the part to "
        "fit. A search maximises the accuracy on the validation part; “test” is what its best "
        "setting, the first one found where several tie, has on the test part. All parameters "
        "are searched on a logarithmic grid of 40 values per decade: 241 of C in [1e-3, 1e3], 241 "
        "of γ in [1e-6, 1], 161 of the weight of the positive (smaller) class in [1e-2, 1e2]. SVMs "
        "are scikit-learn's `LinearSVC` with the hinge loss, which stops after 1,000 passes where "
        "C is large, and `SVC`.",
        "",
        *about_data(data),
        "",
        "**Evaluations.** One evaluation fits all base classifiers, K for one-vs-all and K(K−1)/2 "
        "for one-vs-one. The paper counts in base trainings. Its 100K for one-vs-all, “in terms of "
        "the number of training K base classifiers”, may mean 100K evaluations or 100K trainings, "
        "that is 100 evaluations: both are here. Its 10K(K−1) for one-vs-one are 20 evaluations; "
        "200 are given as well. How many different base classifiers a run needs is counted at the "
        "end.",
        "",
        f"**Noise.** Arrows mark {CONFIDENCE:.0%} confidence: ↓ significantly below "
        f"{DEFAULT} on the same splits, ↑ above, no arrow: within noise (paired differences, "
        "Student's t over the splits; they share rows, so the intervals speak of these data sets "
        "alone, and where there is no real difference about one comparison in twenty has an arrow "
        "all the same). GP-EI ran up to 200 evaluations, as its time grows with their cube.",
        "",
        f"**Fairness.** {DEFAULT} and GP-EI are told of the grid and try no setting twice, as "
        "users would have it; the others see the unit cube, and a setting that they repeat counts "
        "again (the last table shows how many are different). Of settings that tie, the first "
        "counts, which for one C for all and for grid search is the one with the smallest C.",
        "",
        "## Where the default stands",
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
        "Test accuracy as printed and here, at the paper's budget; its BO is another one than "
        "GP-EI. Then what StepDIRECT as published gains here over random search and over DIRECT, "
        f"with the interval. {order_text(data)} In the paper it is above both, or equal, in all.",
        "",
        *order_table(data),
        "## Differences to the default",
        "",
        "Validation accuracy of each method less that of the default, paired by split:",
        "",
        *difference_table(data, "validation"),
        "Test accuracy:",
        "",
        *difference_table(data, "test"),
        "## Base trainings",
        "",
        "Different base classifiers that the settings of a run need, in the mean; “at most” is "
        "what its evaluations would need if no two had one in common. DIRECT and StepDIRECT as "
        "published move few coordinates at a time, to few places, and so need far fewer:",
        "",
        *training_table(data),
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text
