"""Checkpoints of a tuning search: a file with one line of JSON per result.

The first line describes the search. A last line that was cut off is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from treeopt.errors import InputError

Outcome = list[dict[str, Any]] | None
"""The results of scikit-learn for each split of a candidate; None: all its fits failed."""

FORMAT = "treeopt search 1"

LONG = 500
"""Maximum length of a description; longer ones are cut, and distinguished by a digest."""


class Checkpoint:
    """The file of a tuning search.

    Parameters
    ----------
    path : path or None
        The file. If None, nothing is written.
    about : dict
        Description of the search; a file with another one is refused.
    begun : dict
        Seed and number of evaluations of a new file. If the file exists, its own replace these.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, about: dict[str, str], begun: dict[str, Any]
    ) -> None:
        self.path = None if path is None else _read_path(path)
        self.about = about
        self.begun = begun
        self.data: str | None = None
        self.known: list[dict[str, Any]] = []
        self.size = 0  # bytes that this search has read and written
        if self.path is not None and self.path.exists():
            self._read()

    def _read(self) -> None:
        assert self.path is not None
        content = self.path.read_bytes()
        if not content:
            return
        whole = content[: content.rfind(b"\n") + 1]
        lines = [_read_line(line) for line in whole.splitlines()]
        if not lines or lines[0].get("format") != FORMAT:
            raise InputError(
                f"checkpoint is {str(self.path)!r}, which is not a file of a search, or of another "
                "version of treeopt. Name another one."
            )
        head, *self.known = lines
        whole_head = {"about", "begun", "data"} <= head.keys()
        if not whole_head or not {"seed", "n_evals"} <= set(head["begun"]):
            raise InputError(
                f"checkpoint is {str(self.path)!r}, whose first line is damaged. Name another file."
            )
        for k, line in enumerate(self.known, 2):
            if not {"params", "outs"} <= line.keys():
                raise InputError(
                    f"checkpoint is {str(self.path)!r}, whose line {k} is damaged. Remove this "
                    "line and all below it to go on from what is above, or name another file."
                )
        for name, value in self.about.items():
            if head["about"].get(name, value) != value:
                raise InputError(
                    f"checkpoint is {str(self.path)!r}, of a search whose {name} is "
                    f"{head['about'][name]}; now it is {value}. Name another file, or search for "
                    "the same."
                )
        self.begun, self.data = head["begun"], head["data"]
        self.size = len(whole)
        if whole != content:  # take away the line that was cut off
            self._replace(whole)

    def check_data(self, X: Any, y: Any, splits: list[Any], fit_params: dict[str, Any]) -> None:
        """Start the file, or refuse it if the data or the splits differ from its own."""
        if self.path is None:
            return
        data = _digest((X, y, splits, {name: _digest(v) for name, v in fit_params.items()}))
        if self.data is None:
            self.data = data
            head = {"format": FORMAT, "about": self.about, "begun": self.begun, "data": data}
            self._replace(_as_line(head))
        elif self.data != data:
            raise InputError(
                f"checkpoint is {str(self.path)!r}, of a search on other data or splits. Name "
                "another file; if cv draws the splits at random, give it a random_state."
            )

    def recall(self, candidates: list[dict[str, Any]], first: int) -> list[Outcome]:
        """Return the known results of candidates number ``first`` and following."""
        outcomes: list[Outcome] = []
        for k, candidate in enumerate(candidates[: max(len(self.known) - first, 0)], first):
            if self.known[k]["params"] != describe(candidate):
                raise InputError(
                    f"checkpoint is {str(self.path)!r}, whose candidate {k} is "
                    f"{self.known[k]['params']}; this search proposes {describe(candidate)}. It "
                    "was written by two searches at once, or another version of treeopt: name "
                    "another file."
                )
            outcomes.append(self.known[k]["outs"])
        return outcomes

    def add(self, candidates: list[dict[str, Any]], outcomes: list[Outcome]) -> None:
        """Write the results of candidates."""
        if self.path is None:
            return
        with self.path.open("ab") as file:
            if file.tell() != self.size:
                raise InputError(
                    f"checkpoint is {str(self.path)!r}, to which another search writes as well. "
                    "Name another file for one of them."
                )
            for candidate, outcome in zip(candidates, outcomes, strict=True):
                file.write(_as_line({"params": describe(candidate), "outs": outcome}))
            _make_durable(file)
            self.size = file.tell()

    def _replace(self, content: bytes) -> None:
        """Write the whole file, completely or not at all."""
        assert self.path is not None
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                _make_durable(file)
            unfinished.replace(self.path)
        finally:
            unfinished.unlink(missing_ok=True)
        self.size = len(content)


def describe(thing: Any) -> str:
    """Return the ``repr`` of something without memory addresses.

    Functions are distinguished by their code.
    """
    if isinstance(thing, set | frozenset):  # their order is another in another process
        thing = sorted(thing, key=repr)
    if isinstance(thing, Mapping) and any(map(callable, thing.values())):
        return "{" + ", ".join(f"{k!r}: {describe(v)}" for k, v in thing.items()) + "}"
    if isinstance(thing, FunctionType):
        code = thing.__code__
        constants = re.sub(r" at 0x[0-9a-fA-F]+", "", repr((code.co_consts, code.co_names)))
        digest = hashlib.sha256(code.co_code + constants.encode()).hexdigest()[:16]
        return f"{thing.__module__}.{thing.__qualname__} ({digest})"
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        text = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))
    if len(text) <= LONG:
        return text
    return f"{text[:LONG]}... ({hashlib.sha256(text.encode()).hexdigest()[:16]})"


def describe_estimator(estimator: Any) -> dict[str, str]:
    """Return descriptions of an estimator's class and parameters, nested parameters first.

    Parameters that do not change results, ``n_jobs`` and ``verbose``, are left out.
    """
    from sklearn.base import clone

    plain = clone(estimator)
    aside = [k for k in plain.get_params() if k.split("__")[-1] in ("n_jobs", "verbose")]
    plain.set_params(**dict.fromkeys(aside))
    params = sorted(plain.get_params().items(), key=lambda item: -item[0].count("__"))
    about = {f"estimator__{name}": describe(value) for name, value in params}
    return {"estimator": type(plain).__name__} | about


def _digest(thing: Any) -> str:
    """Return a hash of data, or a description if they cannot be pickled."""
    from joblib import hash as hash_of

    try:
        return str(hash_of(thing, coerce_mmap=True))
    except (pickle.PicklingError, TypeError, AttributeError):
        return describe(thing)


def _read_path(path: Any) -> Path:
    try:
        found = Path(path)
    except TypeError:
        raise InputError(f"checkpoint is {path!r}. Pass the name of a file, or None.") from None
    if found.is_dir():
        raise InputError(f"checkpoint is {str(path)!r}, a folder. Name a file in it.")
    if not found.parent.is_dir():
        raise InputError(
            f"checkpoint is {str(path)!r}, but there is no folder {str(found.parent)!r}. Make it, "
            "or name a file elsewhere."
        )
    return found


def _read_line(line: bytes) -> dict[str, Any]:
    """Return the content of a line; an empty dict if it is damaged."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _as_line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, default=float).encode() + b"\n"


def _make_durable(file: Any) -> None:
    """Make sure that the content is on the disk."""
    file.flush()
    os.fsync(file.fileno())
