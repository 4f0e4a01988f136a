"""Rows of results in a CSV file, written as soon as available and reused by later runs."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from treeopt import Status

Row = dict[str, Any]

PACE = 1.0
"""Seconds between two lines of progress."""

EARLY = 0.1
"""Share of the work before the remaining time is shown, because kernels are compiled first."""


class Task(Protocol):
    """A task that produces rows; ``str`` returns its name."""

    @property
    def cost(self) -> float:
        """Approximate duration, relative to other tasks."""

    def expected(self) -> list[tuple[Any, ...]]:
        """Return the keys of the rows that `run` returns."""

    def run(self) -> list[Row]:
        """Return the rows; raise ImportError if a package is not installed."""


class Rows:
    """The rows of a file, identified by the columns of their key.

    Rows of one task are written at once. An incomplete last line is ignored.
    """

    def __init__(self, path: Path, key: Sequence[str], columns: Sequence[str]) -> None:
        self.path, self.key, self.columns = path, tuple(key), tuple(columns)

    def __iter__(self) -> Iterator[Row]:
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        return csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline=""))

    def keys(self) -> set[tuple[str, ...]]:
        return {self.key_of(row) for row in self}

    def key_of(self, row: Row) -> tuple[str, ...]:
        return tuple(str(row[k]) for k in self.key)

    def append(self, rows: Sequence[Row]) -> None:
        if self.path.exists() and not self.path.read_bytes().endswith(b"\n"):
            self.forget(lambda row: False)  # removes the incomplete line
        self._write(self.path, rows, "ab")

    def forget(self, drop: Callable[[Row], bool]) -> None:
        """Remove some rows; the file is replaced atomically."""
        if self.path.exists():
            unfinished = self.path.with_suffix(".tmp")
            self._write(unfinished, [row for row in self if not drop(row)], "wb")
            unfinished.replace(self.path)

    def forget_all(self, tasks: Sequence[Task]) -> None:
        """Remove the rows of some tasks."""
        keys = {_text(key) for task in tasks for key in task.expected()}
        self.forget(lambda row: self.key_of(row) in keys)

    def _write(self, path: Path, rows: Sequence[Row], mode: str) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.columns)
        with path.open(mode, buffering=0) as file:
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(rows)
            file.write(text.getvalue().encode())


def complete(todo: Sequence[Task], rows: Rows, jobs: int = 1) -> None:
    """Run the tasks whose rows are missing; show the progress and the remaining time.

    Tasks whose packages are not installed are skipped and named at the end. With several ``jobs``,
    tasks run in parallel processes; do not use this for timed tasks.
    """
    done = rows.keys()
    missing = [t for t in todo if not done.issuperset(_text(key) for key in t.expected())]
    if len(missing) < len(todo):
        tell(f"{len(todo) - len(missing)} of {len(todo)} tasks are done already")
    begin, said = time.perf_counter(), 0.0
    cost, spent_cost = sum(task.cost for task in missing), 0.0
    absent: Counter[str] = Counter()
    for k, (task, found) in enumerate(_results(missing, jobs), 1):
        if isinstance(found, ImportError):
            absent[str(found)] += 1
        else:
            rows.append([row for row in found if rows.key_of(row) not in done])
        spent = time.perf_counter() - begin
        spent_cost += task.cost
        if spent >= said + PACE or k == len(missing):
            said, left = spent, spent * (cost / spent_cost - 1)
            ahead = f", about {left:.0f} s left" if spent_cost > EARLY * cost else ""
            tell(f"{k}/{len(missing)}, {spent:.0f} s{ahead}: {task}")
    for error, n in absent.items():
        tell(f"{n} tasks did not run: {error}. Install the package, and run the command again.")


def _results(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[Row] | ImportError]]:
    """Run tasks, and yield their rows as soon as available."""
    if jobs == 1:
        yield from map(_result, tasks)
        return
    from joblib import Parallel, delayed

    pool = Parallel(
        n_jobs=jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1
    )
    yield from pool(delayed(_result)(task) for task in tasks)


def _result(task: Task) -> tuple[Task, list[Row] | ImportError]:
    try:
        return task, task.run()
    except ImportError as error:
        return task, error


def uninterrupted(result: Any) -> Any:
    """Return the result of a search of treeopt; raise an exception if Ctrl-C ended it."""
    if result.status is Status.STOPPED:
        raise KeyboardInterrupt
    return result


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _text(key: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(map(str, key))
