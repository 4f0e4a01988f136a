"""The command line that the benchmarks share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from rows import Rows, Task, complete


def parser(
    doc: str, quick: str, problems: Iterable[str], methods: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """Return a parser of the common options; ``quick`` describes the short form."""
    found = argparse.ArgumentParser(description=doc.splitlines()[0])
    found.add_argument("--quick", action="store_true", help=quick)
    if methods:
        found.add_argument("--methods", nargs="+", choices=list(methods), metavar="METHOD")
    found.add_argument("--problems", nargs="+", choices=list(problems), metavar="PROBLEM")
    found.add_argument("--seeds", type=int, help="number of seeds")
    redo = "first discard the selected rows in the folder --out"
    found.add_argument("--redo", action="store_true", help=redo)
    found.add_argument(
        "--report", action="store_true", help="only write the page, from existing rows"
    )
    here = Path(__file__).resolve().parent / "results"
    found.add_argument(
        "--out", type=Path, default=here, help="output folder, by default bench/results"
    )
    return found


def rows_of(
    options: argparse.Namespace, name: str, key: Iterable[str], columns: Iterable[str]
) -> Rows:
    """Return the rows of a file in the chosen folder."""
    end = "_quick" if options.quick else ""
    return Rows(options.out / f"{name}{end}.csv", tuple(key), tuple(columns))


def carry_out(
    options: argparse.Namespace, rows: Rows, tasks: Callable[[], list[Task]], jobs: int = 1
) -> None:
    """Run the missing tasks, ``jobs`` at a time, unless only the page is requested."""
    if options.report:
        if not rows.path.exists():
            raise SystemExit(f"there are no rows in {rows.path} yet. Run without --report first.")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    todo = tasks()
    if options.redo:
        rows.forget_all(todo)
    try:
        complete(todo, rows, jobs)
    except KeyboardInterrupt:
        raise SystemExit("Interrupted. The same command continues where it stopped.") from None
