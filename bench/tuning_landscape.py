"""The paper's Figure 1: validation accuracy of l1-regularized logistic regression on a1a against C.

It is a step function: a validation set of n rows allows n + 1 values of the accuracy.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from command import carry_out, parser, rows_of
from machine import machine, versions
from rows import Row
from sklearn.linear_model import LogisticRegression
from text import provenance
from tuning_data import Data

COLUMNS = ("C", "validation", "n_rows", "n_nonzero", "versions", "machine", "date")
DECADES = (-3, 3)
PER_DECADE, QUICK_PER_DECADE = 200, 20
TRAINING_ROWS = 1_605
"""The rows of a1a; those that follow in the file are its test set, which is not used."""


class Landscape:
    """All fits, as one task."""

    cost = 1.0

    def __init__(self, per_decade: int) -> None:
        low, high = DECADES
        self.C = np.logspace(low, high, (high - low) * per_decade + 1)

    def __str__(self) -> str:
        return f"{self.C.size} values of C"

    def expected(self) -> list[tuple[float]]:
        return [(C,) for C in self.C]

    def run(self) -> list[Row]:
        split = Data("a1a", first=TRAINING_ROWS).split(0)
        rows = []
        for C in self.C:
            model = LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear", random_state=0)
            model.fit(*split.fit)
            row = {"C": C, "validation": model.score(*split.validation)}
            row |= {"n_rows": len(split.validation.y), "n_nonzero": np.count_nonzero(model.coef_)}
            row |= {"versions": versions(("numpy", "scikit-learn")), "machine": machine()}
            rows.append(row | {"date": datetime.date.today().isoformat()})
        return rows


def report(path: Path) -> str:
    """Write the figure and the page next to the rows, and return the page."""
    data = pd.read_csv(path).sort_values("C")
    accuracy, n = data["validation"].to_numpy(), int(data["n_rows"].iloc[0])
    steps = accuracy[np.concatenate([[True], np.diff(accuracy) != 0])]
    peaks = np.diff(np.sign(np.diff(steps, prepend=-1, append=-1))) < 0
    best = data.loc[data["validation"].idxmax()]
    plot = path.with_suffix(".png")
    draw(data, plot)
    lines = [
        "# The landscape of tuning: the paper's Figure 1",
        "",
        provenance(data),
        "",
        "l1-regularized logistic regression (scikit-learn, liblinear) on a1a. Its 1,605 training "
        f"rows are split 3:1:1. The figure shows the accuracy on the {n} rows of the validation "
        f"part for {len(data):,} values of C. The accuracy has {len(np.unique(accuracy))} "
        f"different values, changes {steps.size - 1} times along the axis and has "
        f"{int(peaks.sum())} local maxima. The maximum, {100 * best['validation']:.2f} %, is at "
        f"C = {best['C']:.3g}, with {best['n_nonzero']:.0f} nonzero coefficients.",
        "",
        f"![Validation accuracy against C]({plot.name})",
        "",
    ]
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


def draw(data: pd.DataFrame, path: Path) -> None:
    """The whole axis, and half a decade around the best value."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    whole, near = figure.subplots(1, 2, sharey=False)
    best = data.loc[data["validation"].idxmax(), "C"]
    close = data[np.abs(np.log10(data["C"] / best)) <= 0.25]
    for panel, part in ((whole, data), (near, close)):
        panel.step(part["C"], 100 * part["validation"], where="mid", lw=1.2, color="tab:blue")
        panel.set(xscale="log", xlabel="C")
        panel.grid(alpha=0.3)
    whole.axvspan(close["C"].min(), close["C"].max(), color="tab:orange", alpha=0.2, lw=0)
    whole.set(ylabel="validation accuracy, %", title="all of it")
    near.set(title="around the best")
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, "20 values of C per decade instead of 200", ("a1a",)).parse_args(
        arguments
    )
    rows = rows_of(options, "tuning_landscape", ("C",), COLUMNS)
    per_decade = QUICK_PER_DECADE if options.quick else PER_DECADE
    carry_out(options, rows, lambda: [Landscape(per_decade)])
    print(report(rows.path))


if __name__ == "__main__":
    main()
