"""A search in a file: arrays of numbers and one text, no pickle.

What a file says is checked before the kernels see it: they trust their indices.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.errors import InputError
from treeopt.stepdirect.paper.rules import Rules
from treeopt.stepdirect.paper.state import (
    AGAIN,
    ASKED,
    AT,
    BEFORE,
    BEST,
    DEALT,
    EVALUATED,
    GROWING,
    HOME,
    INITIAL,
    JOBS,
    MAX_LEVEL,
    NODES,
    NONE,
    PHASE,
    RECTANGLES,
    REFINE,
    SEARCH,
    SELECTED,
    START_ROOM,
    UNSTORED,
    State,
    grown,
    new_state,
)

if TYPE_CHECKING:
    from treeopt.types import Array

FORMAT = 1
"""Version of the files."""

SELECTION = ("selected", "at", "delta")
DIVISION = ("rect", "axis", "lower", "upper")
"""The fields of `TASK` that are in use for each rectangle of S, and for each division."""


def write(path: str | os.PathLike[str], about: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a file; an old one is replaced when the new one is complete."""
    text = json.dumps({"format": FORMAT, **about}, default=lambda number: number.item())
    everything: dict[str, Any] = {"about": np.array(text), **arrays}
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"path is {str(path)!r}, but there is no folder {str(path.parent)!r}. Make it, or name "
            "a file elsewhere."
        )
    unfinished = path.with_name(path.name + ".tmp")
    try:
        with unfinished.open("wb") as file:
            np.savez_compressed(file, **everything)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what `write` has written."""
    with Path(path).open("rb") as file:
        try:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no archive of arrays")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            about = json.loads(str(arrays.pop("about")))
            version = about.pop("format")
        except Exception as error:
            raise damaged(path, error) from None
    if version != FORMAT:
        raise InputError(
            f"path is {str(path)!r}, a file of format {version}; this version of treeopt reads "
            f"format {FORMAT}. Read it with the version that wrote it."
        )
    return about, arrays


def damaged(path: str | os.PathLike[str], error: Exception) -> InputError:
    """Return what to raise for a file that cannot be used."""
    return InputError(
        f"path is {str(path)!r}, which was not written by StepDirect.save, or is damaged "
        f"({type(error).__name__}: {error}). Pass another file, or begin anew."
    )


def arrays_of(state: State) -> dict[str, Array]:
    """Return the arrays of a state, without what is not in use."""
    count, used = state.counter, _used(state.counter)
    arrays = {name: array[: used.get(name)] for name, array in state._asdict().items()}
    task = arrays["task"] = arrays["task"].copy()
    for names, n in ((SELECTION, count[SELECTED]), (DIVISION, count[JOBS])):
        for name in names:
            task[name][n:] = 0
    return {f"state_{name}": array for name, array in arrays.items()}


def state_of(arrays: dict[str, Array], p: int) -> State:
    """Return the state whose arrays are given, if they make sense; else raise a ValueError."""
    state = State(**{name: arrays[f"state_{name}"] for name in State._fields})
    like = new_state(np.ones(p), 0)
    for name, array, expected in zip(State._fields, state, like, strict=True):
        shape = expected.shape
        if name in GROWING:
            shape = (_used(state.counter)[name], *shape[1:])
        if array.dtype != expected.dtype or array.shape != shape:
            raise ValueError(f"{name} has the shape {array.shape} or the type {array.dtype}")
    for what, holds in _checks(state, p):
        if not np.all(holds):
            raise ValueError(f"{what} out of range")
    return grown(state, max(START_ROOM, len(state.u), 2 * p + 1))


def check_step(state: State, rules: Rules, asked: int) -> None:
    """Raise a ValueError if the current step does not ask for so many points."""
    count, p = state.counter, state.weight.size
    sizes = {
        INITIAL: 1 + (rules.diagonal or 2 * p),
        SEARCH: count[SELECTED] * rules.n_directions,
        REFINE: rules.batch,
    }
    if asked != count[ASKED] or asked not in (0, sizes.get(count[PHASE], asked)):
        raise ValueError(f"{asked} points are awaited")


def _used(count: Array) -> dict[str, int]:
    """Return how many rows of the growing tables are in use."""
    rectangles = int(count[RECTANGLES])
    return {
        "u": int(count[EVALUATED] + count[ASKED]),
        "sample": int(count[EVALUATED]),
        "centre": rectangles,
        "level": rectangles,
        "rect": rectangles,
        "node": int(count[NODES]),
        "task": int(max(count[SELECTED], count[JOBS])),
    }


def _checks(state: State, p: int) -> Iterator[tuple[str, Any]]:
    """Yield the names of what could lead the kernels astray, and whether it is as it must be."""
    count, sample, rect, node, task = (
        getattr(state, name) for name in ("counter", "sample", "rect", "node", "task")
    )
    n, n_rect, n_node = len(sample), len(rect), len(node)
    optional = {BEST: n, AT: n, BEFORE: max(n, 1), HOME: n, AGAIN: p}
    for k, value in enumerate(count):
        yield f"counter {k}", _in(value, NONE, optional[k]) if k in optional else value >= 0
    yield "phase", count[PHASE] == INITIAL or (count[PHASE] <= REFINE and n_rect > 0)
    yield "weight", np.isfinite(state.weight) & (state.weight >= 0)
    for name in ("u", "centre"):
        yield name, np.abs(getattr(state, name) - 0.5) < 0.5 + 1e-9
    begun = count[AT] != NONE
    yield "golden", _in(state.golden, 0, 1) if begun else np.isnan(state.golden)
    yield "preference", np.isfinite(state.preference)
    yield "sweep", np.sort(state.sweep) == np.arange(p)
    yield "sweep", count[DEALT] < max(p, 1)
    yield "value", sample["f"] > -np.inf
    yield "value", ~np.isnan(rect["f"])
    yield "radius", np.isfinite(rect["radius"])
    yield "near", (rect["differ"] >= 0) & (rect["differ"] <= rect["near"])
    yield "level", _in(state.level, 0, MAX_LEVEL + 1)
    # A sample is in one list at most, so that no list is a circle.
    links = np.concatenate([sample["follower"], rect["head"]])
    yield "follower", _in(links, UNSTORED, n)
    yield "follower", len(np.unique(links[links >= 0])) == np.sum(links >= 0)
    # Children come after their parents.
    inner = node[node["child"] != NONE]["child"]
    yield "child", _in(inner, np.flatnonzero(node["child"] != NONE) + 1, n_node - 2)
    yield "axis", _in(node["axis"], 0, max(p, 1))
    yield "node", _in(node["rect"], 0, n_rect) & (n_rect > 0)
    yield "node", _in(rect["node"], 0, n_node)
    yield "delta", np.isfinite(task["delta"])
    ends = {"selected": n_rect, "rect": n_rect, "at": n, "axis": p}
    for name, end in {**ends, "lower": len(state.u), "upper": len(state.u)}.items():
        yield name, _in(task[name], NONE, end)


def _in(values: Any, first: Any, end: Any) -> Any:
    return (values >= first) & (values < end)
