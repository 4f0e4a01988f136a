"""Write the page of ``evaluator.py`` from its rows, and list the missed targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

SINGLE_ROW = 3.0  # times faster than the fastest peer
FIVE_ROWS = {"scikit-learn": 2.0, "XGBoost": 2.0, "LightGBM": 1.2}
ELSEWHERE = 1.0
WITH_CATEGORIES = 1.0  # times faster than the own library; there is no target for peers
BIG_FOREST = ("forest-20000", 100_000, 3.0)  # model, rows, times faster than scikit-learn
SMALL_MOVE = 10.0  # times faster than a full evaluation
LINE = 4.0  # maximum time, in full evaluations


def target(library: str, rows: int, categories: int) -> float:
    """Return the target: how many times faster than the fastest peer treeopt should be."""
    if categories:
        return 0.0
    if rows == 1:
        return SINGLE_ROW
    return FIVE_ROWS[library] if rows == 5 else ELSEWHERE


def cells(predictions: Sequence[Row]) -> list[Row]:
    """Compare treeopt with its fastest peer for every model, number of threads and of rows."""
    timed = [row for row in predictions if "us_per_row" in row]
    found = []
    for own in (row for row in timed if row["engine"] == "treeopt"):
        key = ("model", "threads", "rows")
        same = [row for row in timed if all(row[k] == own[k] for k in key) and row is not own]
        peer = min(same, key=lambda row: float(row["us_per_row"]))
        library = next(row for row in same if row["engine"] == own["library"])
        cell = {k: own[k] for k in key} | {"library": own["library"], "peer": peer["engine"]}
        cell["ratio"] = peer["us_per_row"] / own["us_per_row"]
        cell["own_ratio"] = library["us_per_row"] / own["us_per_row"]
        cell["target"] = target(own["library"], own["rows"], own["categories"])
        cell["own_target"] = WITH_CATEGORIES if own["categories"] else 0.0
        if (own["model"], own["rows"]) == BIG_FOREST[:2]:
            cell["own_target"] = BIG_FOREST[2]
        found.append(cell)
    return found


def missed(predictions: Sequence[Row], moves: Sequence[Row]) -> list[str]:
    """Return a line for every missed target."""
    lines = []
    for c in cells(predictions):
        where = f"{c['model']}, {c['threads']} thread(s), {c['rows']:,} row(s)"
        if c["ratio"] < c["target"]:
            lines.append(f"{where}: {c['ratio']:.2f} × {c['peer']}, target {c['target']:g} ×")
        if c["own_ratio"] < c["own_target"]:
            lines.append(
                f"{where}: {c['own_ratio']:.2f} × {c['library']}, target {c['own_target']:g} ×"
            )
    for m in moves:
        speedup = m["full_us"] / m["us"]
        if m["task"] == "small move" and speedup < SMALL_MOVE:
            lines.append(
                f"{m['model']}, small move: {speedup:.1f} × faster, target {SMALL_MOVE:g} ×"
            )
        if m["task"] in ("line", "line up to rounding") and 1 / speedup > LINE:
            lines.append(
                f"{m['model']}, {m['task']}: {1 / speedup:.1f} evaluations, target at most {LINE:g}"
            )
    return lines


def number(value: Any) -> str:
    """Return a number with three significant digits; empty if it was not measured."""
    if value is None:
        return "–"
    if value == 0 or 0.001 <= abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:.1e}" if abs(value) < 0.001 else f"{value:,.0f}"


def marked(ratio: float, target: float) -> str:
    """Return a ratio: bold if it reaches its target, with ✗ if not, plain without a target."""
    if not target:
        return number(ratio)
    return f"**{number(ratio)}**" if ratio >= target else f"✗ {number(ratio)}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table; all columns but the first two are numbers."""
    rule = ["---" if k < 2 else "---:" for k in range(len(header))]
    return ["| " + " | ".join(row) + " |" for row in (header, rule, *rows)] + [""]


def prediction_table(predictions: Sequence[Row], threads: int) -> list[str]:
    """Return a table: one line per model and engine, one column per number of rows, ratios."""
    timed = [row for row in predictions if row.get("threads") == threads]
    compared = [c for c in cells(predictions) if c["threads"] == threads]
    sizes = list(dict.fromkeys(row["rows"] for row in timed))
    lines = []
    for name in dict.fromkeys(row["model"] for row in timed):
        of_model = [row for row in timed if row["model"] == name]
        for engine in dict.fromkeys(row["engine"] for row in of_model):
            mine = {row["rows"]: row for row in of_model if row["engine"] == engine}
            times = [number(mine[n]["us_per_row"]) for n in sizes]
            any_row = mine[sizes[0]]
            extra = [any_row[k] for k in ("convert_seconds", "worst_difference")]
            disagreeing = str(any_row["disagreeing_rows"])
            lines.append([name, engine, *times, *map(number, extra), disagreeing])
        ratios = {c["rows"]: c for c in compared if c["model"] == name}
        marks = [marked(r["ratio"], r["target"]) for r in (ratios[n] for n in sizes)]
        lines.append([name, "*fastest peer / treeopt*", *marks, "", "", ""])
        if of_model[0]["categories"]:
            marks = [marked(r["own_ratio"], r["own_target"]) for r in (ratios[n] for n in sizes)]
            lines.append([name, f"*{of_model[0]['library']} / treeopt*", *marks, "", "", ""])
    extra_columns = ("convert (s)", "worst difference", "rows beyond tolerance")
    return table(["model", "engine", *(f"{n:,}" for n in sizes), *extra_columns], lines)


def move_table(moves: Sequence[Row]) -> list[str]:
    header = ["model", "task", "µs", "full evaluation (µs)", "full / task", "task / full", "pieces"]
    lines = [
        [m["model"], m["task"]]
        + [
            number(v)
            for v in (m["us"], m["full_us"], m["full_us"] / m["us"], m["us"] / m["full_us"])
        ]
        + [number(m.get("pieces"))]
        for m in moves
    ]
    return table(header, lines)


def startup_table(startup: Sequence[Row]) -> list[str]:
    """Return a table of the time and memory of the conversion, one line per model."""
    lines = []
    for row in (row for row in startup if row["model"]):
        flat = row.get("array_bytes")
        peaks = [row.get(k) for k in ("convert_peak_bytes", "predict_peak_bytes")]
        fresh = sum(row[f"{k}_seconds"] for k in ("import", "fresh_convert", "fresh_predict"))
        seconds = [row[f"{k}_seconds"] for k in ("warm_convert", "warm_predict")]
        memory = [flat / 2**20 if flat else None, *(p and flat and p / flat for p in peaks)]
        nodes = f"{int(row['n_nodes']):,}" if flat else "–"
        lines.append([row["model"], nodes, *map(number, (fresh, *seconds, *memory))])
    header = ["model", "nodes", "fresh process (s)", "convert (s)", "first predict (s)"]
    header += ["flat arrays (MiB)", "peak, convert", "peak, convert and predict"]
    cpu = next(row["import_cpu_seconds"] for row in startup if not row["model"])
    about = f"`import treeopt` after numpy and sklearn: {cpu:.3f} s of CPU time."
    return [*table(header, lines), about, ""]


def report(
    predictions: Sequence[Row],
    moves: Sequence[Row],
    startup: Sequence[Row],
    titles: dict[str, str],
    tolerance: float,
    about: Row,
) -> str:
    """Return the whole report as Markdown."""
    lines = ["# Prediction speed of treeopt and its peers", ""]
    lines += [
        f"{about['machine']}. {about['versions']}. Seed {about['seed']}, {about['date']}.",
        "",
    ]
    names = dict.fromkeys(row["model"] for row in predictions)
    lines += [*(f"- {name}: {titles[name]}" for name in names), ""]
    notes = {row["engine"]: row["note"] for row in predictions if "us_per_row" in row}
    lines += [*(f"- {engine}: {note}" for engine, note in notes.items() if note), ""]
    for threads in sorted({row["threads"] for row in predictions if "us_per_row" in row}):
        lines += [f"## Microseconds per row, {threads} thread(s), by number of rows", ""]
        lines += prediction_table(predictions, threads)
    lines += [
        "Differences are measured from the sequential prediction of the model's own library. A row "
        f"is beyond the tolerance if it differs by more than {tolerance:g} · max(1, |prediction|). "
        "✗ marks a ratio below its target.",
        "",
    ]
    reps = max(row["reps"] for row in predictions if "reps" in row)
    few = sorted({row["engine"] for row in predictions if row.get("reps", reps) < reps})
    if few:
        lines += [
            f"Minimum of {reps} repetitions; of two if a call takes more than a second and four "
            f"times longer than that of the fastest engine ({', '.join(few)}).",
            "",
        ]
    absent = [row for row in predictions if "us_per_row" not in row]
    lines += ["## Not measured", ""]
    reasons = [f"{a['engine']} on {a['model']}: {a['note']}" for a in absent]
    lines += [*(f"- {reason}" for reason in reasons or ["none"]), ""]
    lines += ["## Inside compiled code", "", *move_table(moves)]
    lines += ["## Conversion and start", "", *startup_table(startup)]
    lines += [
        "“Fresh process” is import, conversion and first prediction with kernels from numba's disk "
        "cache. The other times are those of a second conversion in that process. The peak is the "
        "maximum increase of the resident set, in multiples of the flat arrays.",
        "",
    ]
    bad = missed(predictions, moves)
    lines += ["## Missed targets", "", *(f"- {line}" for line in bad or ["none"]), ""]
    return "\n".join(lines)
