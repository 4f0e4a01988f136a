"""Numbers and tables as the reports write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def spread(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"


def duration(seconds: float) -> str:
    if seconds != seconds:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:,.0f} s" if seconds >= 1000 else f"{seconds:.3g} s"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table; all columns but the first are numbers."""
    rule = ["---" if k == 0 else "---:" for k in range(len(header))]
    return ["| " + " | ".join(row) + " |" for row in (header, rule, *rows)] + [""]


def mean_table(
    data: pd.DataFrame,
    value: str = "value",
    show: Callable[[float], str] = number,
    bold: bool = True,
) -> list[str]:
    """Mean ± standard deviation over the seeds: methods down, problems across.

    The minimum mean of a problem, and means equal to nine digits, are bold.
    """
    cells = data.groupby(["method", "problem"], observed=True)[value]
    mean, std, count = (cells.agg(what).unstack() for what in ("mean", "std", "count"))
    least = mean.min()
    rows = []
    for method in mean.index:
        row = [method]
        for problem in mean.columns:
            m = mean.loc[method, problem]
            text = "–" if m != m else show(m)
            alone = mean[problem].count() < 2
            if bold and not alone and m <= least[problem] + 1e-9 * abs(least[problem]):
                text = f"**{text}**"
            if count.loc[method, problem] > 1:
                text += f" ± {spread(std.loc[method, problem])}"
            row.append(text)
        rows.append(row)
    return table(["method", *mean.columns], rows)


def provenance(data: pd.DataFrame) -> str:
    """Return the machine, the versions and the date of the rows."""
    versions = dict.fromkeys(part for row in data["versions"].unique() for part in row.split(", "))
    return f"{data['machine'].iloc[-1]}. {', '.join(versions)}. {data['date'].max()}."
