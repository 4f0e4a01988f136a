"""Files of searches: arrays of numbers and one text, no pickle.

The content of a file is checked before the kernels see it: they do not check their indices.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from treeopt.errors import InputError
from treeopt.stepdirect.paper.state import (
    GROWING,
    INITIAL,
    MAX_LEVEL,
    NONE,
    SEARCH,
    START_ROOM,
    UNSTORED,
    State,
    grown,
    new_state,
)
from treeopt.stepdirect.walk_state import REFINE, SearchRules, Walk, new_walk
from treeopt.types import Array, BoolArray, IntArray, RecordArray

FORMAT = 1
"""Version of the files."""

Json: TypeAlias = dict[str, Any]
"""What a file says about a search beside its arrays."""

SELECTION = ("selected", "at", "delta")
DIVISION = ("rect", "axis", "lower", "upper")
"""The fields of `TASK` that are in use for each rectangle of S, and for each division."""

UNUSED = "unused"
COUNTERS: tuple[str, ...] = (
    *("phase", "asked", "evaluated", "iteration", "best", "rectangles", "nodes", "selected"),
    *("divisions", "round", "partitioned", UNUSED, "failed", "at", "before", "home", "stall"),
    *("patience", "away", "kicked", "dealt", "again"),
)
"""The counters of `State` and `Walk` in the order of the files, which have them in one vector."""


def write(path: str | os.PathLike[str], about: Json, arrays: dict[str, Array]) -> None:
    """Write a file; an old one is replaced once the new one is complete."""
    text = json.dumps({"format": FORMAT, **about}, default=lambda number: number.item())
    everything: Json = {"about": np.array(text), **arrays}
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


def read(path: str | os.PathLike[str]) -> tuple[Json, dict[str, Array]]:
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
    """Return the exception for a file that cannot be used."""
    return InputError(
        f"path is {str(path)!r}, which was not written by StepDirect.save, or is damaged "
        f"({type(error).__name__}: {error}). Pass another file, or start a new search."
    )


def arrays_of(state: State, walk: Walk) -> dict[str, Array]:
    """Return the arrays of a search, without the rows that are not in use."""
    count, used = state.counter[0], _used(state.counter)
    arrays = {name: array[: used.get(name)] for name, array in state._asdict().items()}
    arrays |= {name: array for name, array in walk._asdict().items() if name != "counter"}
    arrays["counter"] = _counters_of(state, walk)
    task = arrays["task"] = arrays["task"].copy()
    for names, n in ((SELECTION, count["selected"]), (DIVISION, count["divisions"])):
        for name in names:
            task[name][n:] = 0
    return {f"state_{name}": array for name, array in arrays.items()}


def search_of(arrays: dict[str, Array], p: int) -> tuple[State, Walk]:
    """Return the search whose arrays are given, if they make sense; else raise a ValueError."""
    like, like_walk = new_state(np.ones(p), 0), new_walk(p)
    counters = arrays["state_counter"]
    _check_array("counter", counters, (len(COUNTERS),), np.dtype(np.int64))
    for name, value in zip(COUNTERS, counters, strict=True):
        for record in (like.counter, like_walk.counter):
            if name in (record.dtype.names or ()):
                record[name] = value
    given = {name: arrays[f"state_{name}"] for name in State._fields if name != "counter"}
    state = State(counter=like.counter, **given)
    own = {name: arrays[f"state_{name}"] for name in Walk._fields if name != "counter"}
    walk = Walk(counter=like_walk.counter, **own)
    used = _used(state.counter)
    for name, expected in [*like._asdict().items(), *list(like_walk._asdict().items())[1:]]:
        array = getattr(state if hasattr(state, name) else walk, name)
        shape = (used[name], *expected.shape[1:]) if name in GROWING else expected.shape
        _check_array(name, array, shape, expected.dtype)
    for what, holds in _checks(state, walk, counters, p):
        if not np.all(holds):
            raise ValueError(f"{what} out of range")
    return grown(state, max(START_ROOM, len(state.u), 2 * p + 1)), walk


def check_step(state: State, rules: SearchRules, asked: int) -> None:
    """Raise a ValueError if the current step does not ask for this many points."""
    count, p = state.counter[0], state.weight.size
    sizes = {
        INITIAL: 1 + (rules.diagonal or 2 * p),
        SEARCH: int(count["selected"]) * rules.paper.n_directions,
        REFINE: rules.batch,
    }
    if asked != count["asked"] or asked not in (0, sizes.get(int(count["phase"]), asked)):
        raise ValueError(f"{asked} points are awaited")


def _counters_of(state: State, walk: Walk) -> IntArray:
    """Return all counters in the order of the files."""
    found = {UNUSED: 0}
    for record in (state.counter, walk.counter):
        found |= {name: record[name][0] for name in record.dtype.names or ()}
    return np.array([found[name] for name in COUNTERS], np.int64)


def _check_array(
    name: str, array: Array, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape} or the type {array.dtype}")


def _used(counter: RecordArray) -> dict[str, int]:
    """Return the number of rows in use of the growing tables."""
    count = counter[0]
    rectangles = int(count["rectangles"])
    return {
        "u": int(count["evaluated"] + count["asked"]),
        "sample": int(count["evaluated"]),
        "centre": rectangles,
        "level": rectangles,
        "rect": rectangles,
        "node": int(count["nodes"]),
        "task": int(max(count["selected"], count["divisions"])),
    }


def _checks(
    state: State, walk: Walk, counters: IntArray, p: int
) -> Iterator[tuple[str, BoolArray | bool]]:
    """Yield the names of all that could mislead the kernels, and whether it is in range."""
    count, own = state.counter[0], walk.counter[0]
    sample, rect, node, task = state.sample, state.rect, state.node, state.task
    n, n_rect, n_node = len(sample), len(rect), len(node)
    optional = {"best": n, "at": n, "before": max(n, 1), "home": n, "again": p}
    for name, value in zip(COUNTERS, counters, strict=True):
        yield name, _in(value, NONE, optional[name]) if name in optional else value >= 0
    yield "phase", count["phase"] == INITIAL or (count["phase"] <= REFINE and n_rect > 0)
    yield "weight", np.isfinite(state.weight) & (state.weight >= 0)
    for name in ("u", "centre"):
        yield name, np.abs(getattr(state, name) - 0.5) < 0.5 + 1e-9
    begun = own["at"] != NONE
    yield "golden", _in(walk.golden, 0, 1) if begun else np.isnan(walk.golden)
    yield "preference", np.isfinite(walk.preference)
    yield "sweep", np.sort(walk.sweep) == np.arange(p)
    yield "sweep", own["dealt"] < max(p, 1)
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


def _in(values: Array, first: int | IntArray, end: int) -> BoolArray:
    inside: BoolArray = (values >= first) & (values < end)
    return inside
