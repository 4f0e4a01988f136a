"""Rows of results in a CSV file: written as they come, read again by a run that goes on."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

Row = dict[str, Any]

PACE = 1.0
"""Seconds between two lines of progress."""


class Task(Protocol):
    """A piece of work that makes rows; ``str`` names it."""

    def expected(self) -> list[tuple[Any, ...]]:
        """Return the keys of the rows that `run` returns, as they are read from the file."""

    def run(self) -> list[Row]:
        """Return the rows; an ImportError says that something is not installed."""


class Rows:
    """The rows of a file, each found by the columns of its key."""

    def __init__(self, path: Path, key: Sequence[str], columns: Sequence[str]) -> None:
        self.path, self.key, self.columns = path, tuple(key), tuple(columns)

    def __iter__(self) -> Iterator[Row]:
        """Return the rows that are there; a last line that was cut off is none."""
        if not self.path.exists():
            return iter(())
        with self.path.open(newline="", encoding="utf-8") as file:
            return iter([row for row in csv.DictReader(file) if row[self.columns[-1]]])

    def keys(self) -> set[tuple[str, ...]]:
        return {self.key_of(row) for row in self}

    def key_of(self, row: Row) -> tuple[str, ...]:
        return tuple(str(row[k]) for k in self.key)

    def append(self, rows: Sequence[Row]) -> None:
        self._write(self.path, rows, "a")

    def forget(self, drop: Callable[[Row], bool]) -> None:
        """Take away some rows; the file changes at once or not at all."""
        if self.path.exists():
            unfinished = self.path.with_suffix(".tmp")
            self._write(unfinished, [row for row in self if not drop(row)], "w")
            unfinished.replace(self.path)

    def forget_all(self, tasks: Sequence[Task]) -> None:
        """Take away the rows of some tasks."""
        keys = {_text(key) for task in tasks for key in task.expected()}
        self.forget(lambda row: self.key_of(row) in keys)

    def _write(self, path: Path, rows: Sequence[Row], mode: str) -> None:
        with path.open(mode, newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns)
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(rows)


def complete(todo: Sequence[Task], rows: Rows, jobs: int = 1) -> None:
    """Run the tasks whose rows are not there yet; say how far it is and how long it will take.

    What is not installed is named in the end, and left out.
    """
    rows.forget(lambda row: False)  # a line that was cut off
    done = rows.keys()
    missing = [t for t in todo if not done.issuperset(_text(key) for key in t.expected())]
    if len(missing) < len(todo):
        tell(f"{len(todo) - len(missing)} of {len(todo)} tasks are done already")
    begin, said = time.perf_counter(), 0.0
    absent: dict[str, None] = {}
    for k, (task, made) in enumerate(_results(missing, jobs), 1):
        if isinstance(made, ImportError):
            absent[f"{task} did not run: {made}"] = None
        else:
            rows.append([row for row in made if rows.key_of(row) not in done])
        spent = time.perf_counter() - begin
        if spent >= said + PACE or k == len(missing):
            said, left = spent, spent / k * (len(missing) - k)
            tell(f"{k}/{len(missing)}, {spent:.0f} s, about {left:.0f} s to go: {task}")
    for text in absent:
        tell(text)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _text(key: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(map(str, key))


def _results(todo: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[Row] | ImportError]]:
    if jobs == 1:
        return map(_attempt, todo)
    from joblib import Parallel, delayed

    return Parallel(jobs, return_as="generator_unordered")(delayed(_attempt)(t) for t in todo)


def _attempt(task: Task) -> tuple[Task, list[Row] | ImportError]:
    try:
        return task, task.run()
    except ImportError as missing:
        return task, missing
