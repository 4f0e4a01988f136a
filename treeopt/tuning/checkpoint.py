"""A search's results in a file: one line of JSON each, so that what is written stays readable.

The first line says what the search is about. A last line that was cut off is none.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from treeopt.errors import InputError

Outcome = list[dict[str, Any]] | None
"""What scikit-learn says of each split of a candidate; None: all its fits failed."""

FORMAT = "treeopt search 1"


class Checkpoint:
    """The file of a search, or none.

    Parameters
    ----------
    path : path or None
        The file; None: nothing is written.
    about : dict
        What the search is about; a file that is about something else is refused.
    begun : dict
        How it begins, if the file does not tell; else what the file tells is in `begun`.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, about: dict[str, Any], begun: dict[str, Any]
    ) -> None:
        self.path = None if path is None else Path(path)
        self.about: dict[str, Any] = json.loads(json.dumps(about))
        self.begun = begun
        self.data: str | None = None
        self.known: list[dict[str, Any]] = []
        if self.path is not None and self.path.exists():
            self._read()

    def _read(self) -> None:
        assert self.path is not None
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
            if lines and lines[0]["format"] != FORMAT:
                raise ValueError(lines[0]["format"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"checkpoint is {str(self.path)!r}, which is not a file of a search. Name another "
                "one, or remove it."
            ) from None
        if not lines:
            return
        head, *self.known = lines
        for name, value in self.about.items():
            if name in head["about"] and head["about"][name] != value:
                raise InputError(
                    f"checkpoint is {str(self.path)!r}, of a search whose {name} is "
                    f"{head['about'][name]!r}; now it is {value!r}. Name another file, or search "
                    "for the same."
                )
        self.begun, self.data = head["begun"], head["data"]
        if whole != text:  # take away the line that was cut off
            unfinished = self.path.with_name(self.path.name + ".tmp")
            unfinished.write_text(whole, encoding="utf-8")
            unfinished.replace(self.path)

    def check_data(self, X: Any, y: Any, splits: list[Any]) -> None:
        """Begin the file, or refuse it if the data or the splits are others than its own."""
        if self.path is None:
            return
        from joblib import hash as hash_of

        data = hash_of((X, y, splits))
        if self.data is None:
            self.data = data
            head = {"format": FORMAT, "about": self.about, "begun": self.begun, "data": data}
            self._append(head)
        elif self.data != data:
            raise InputError(
                f"checkpoint is {str(self.path)!r}, of a search on other data or splits. Name "
                "another file; if cv draws the splits at random, give it a random_state."
            )

    def recall(self, candidates: list[dict[str, Any]], first: int) -> list[Outcome]:
        """Return what is known of candidates, of which the first one has this number."""
        outcomes: list[Outcome] = []
        for k, candidate in enumerate(candidates[: max(len(self.known) - first, 0)], first):
            if self.known[k]["params"] != describe(candidate):
                raise InputError(
                    f"checkpoint is {str(self.path)!r}, whose candidate {k} is "
                    f"{self.known[k]['params']}; this search proposes {describe(candidate)}. It "
                    "was written by another version of treeopt: name another file."
                )
            outcomes.append(self.known[k]["outs"])
        return outcomes

    def add(self, candidate: dict[str, Any], outcome: Outcome) -> None:
        """Write what has become of a candidate."""
        self._append({"params": describe(candidate), "outs": outcome})

    def _append(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, default=_plain) + "\n")


def describe(thing: Any) -> str:
    """Return the ``repr`` of something without the places in memory that it may name."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))


def _plain(value: Any) -> Any:
    """Return a NumPy number as one that JSON can hold."""
    return value.item()
