"""Damaging model files at random, and using whatever can still be read."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import re
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import treeopt
from treeopt import TreeoptError
from treeopt.model.several_sums import SeveralSums

NASTY: list[Any] = [
    *(0, 1, -1, -2, 2, 3, 7, 255, 2**15, 2**24, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**64),
    *(0.5, -0.5, 1e-40, 1e38, 1e39, -1e300, float("nan"), float("inf"), float("-inf")),
    *("", "0", "-1", "1", "nan", "1e9", "c", "a,b", "[]", "[nan]", "[1,2,3]", "\x00", "é"),
    *(None, True, False, [], {}, [[]], [1], [None], ["x"], {"x": 1}, [0, 1, 2]),
]
"""Values that are wrong nearly everywhere."""

WORDS = [*(str(v) for v in NASTY if isinstance(v, int | float)), "", "x", "1 2", "0:1", "=", "\n"]


def load(data: bytes, **options: Any) -> treeopt.Ensemble | SeveralSums:
    """Load a file with these contents."""
    with tempfile.NamedTemporaryFile() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Path(file.name).write_bytes(data)
        return treeopt.load_model(file.name, **options)


def use(data: bytes, **options: Any) -> bool:
    """Load a file and do everything with its model; tell whether there was one.

    Only treeopt's own errors may come of it, whatever the file holds.
    """
    try:
        ensemble = load(data, **options)
    except TreeoptError as error:
        assert len(str(error)) > 10
        return False
    with contextlib.suppress(TreeoptError):
        if isinstance(ensemble, SeveralSums):
            assert ensemble.predict(np.zeros((2, ensemble.n_features))).shape == (2,)
            for part in ensemble.sums:
                _exercise(part)
        else:
            _exercise(ensemble)
    return True


def _exercise(ensemble: treeopt.Ensemble) -> None:
    """Evaluate a model in every way; all ways must agree."""
    n = ensemble.n_features
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, n)) * 3
    X[4:8] = np.round(np.abs(X[4:8]))
    if ensemble.accepts_nan:
        X[8:12][rng.random((4, n)) < 0.5] = np.nan
    finite = any(known.finite for known in ensemble.categories.values())
    if ensemble.accepts_inf and not finite:
        X[12:16][rng.random((4, n)) < 0.5] = np.inf
        X[16][:] = -np.inf
    predicted = ensemble.predict(X)
    assert predicted.shape == (20,)
    if n > 1000:
        return
    assert (ensemble.feature[ensemble.left < 0] == -1).all()
    read = np.unique(ensemble.feature[ensemble.left >= 0])[:5]
    columns = rng.choice(read if read.size else np.arange(max(n, 1)), 12)
    for i in range(20):
        np.testing.assert_array_equal(ensemble.predict(X[[i]]), predicted[[i]])
    walker = ensemble.walker(X[0])
    np.testing.assert_array_equal(walker.value, predicted[0].astype(float))
    x = X[0].copy()
    for i, j in enumerate(columns if n else ()):
        x[j] = X[i, j]
        moved = walker.move(int(j), X[i, j])
        np.testing.assert_array_equal(moved, ensemble.predict(x[None])[0].astype(float))
    for j in columns[:3] if n else ():
        line = ensemble.line(X[1], int(j))
        assert np.isposinf(line.upper[-1])
        assert (np.diff(line.upper) > 0).all()
        rows = np.repeat(X[[1]], line.upper.size, axis=0)
        rows[:, j] = np.where(np.isinf(line.upper), rows[:, j], line.upper)
        np.testing.assert_array_equal(line.value[:-1], ensemble.predict(rows)[:-1])
    if ensemble.n_leaves * max(n, 1) < 10_000 and not ensemble.zero_missing.any():
        boxes = ensemble.leaf_boxes()
        for x in X[:3]:
            assert boxes.containing(x).size == ensemble.n_trees


def truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Change a few bytes."""
    result = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        result[rng.randrange(len(result))] = rng.choice([rng.randrange(256), 0, 255, 0x7F, 48, 57])
    return bytes(result)


def spliced(data: bytes, rng: random.Random) -> bytes:
    """Delete a slice, or repeat it elsewhere."""
    a, size = rng.randrange(len(data)), rng.choice([1, 2, 8, 100, 2000])
    if rng.random() < 0.5:
        return data[:a] + data[a + size :]
    b = rng.randrange(len(data))
    return data[:b] + data[a : a + size] + data[b:]


def renumbered(data: bytes, rng: random.Random) -> bytes:
    """Exchange numbers of a text, or put nasty ones in their place."""
    text = data.decode("latin-1")
    found = [m.span() for m in re.finditer(r"-?\d[\d.e+-]*", text)]
    chosen = sorted(rng.sample(found, min(len(found), rng.choice([1, 1, 2, 6]))), reverse=True)
    for a, b in chosen:
        c, d = rng.choice(found)
        new = text[c:d] if rng.random() < 0.5 else rng.choice(WORDS)
        text = text[:a] + new + text[b:]
    return text.encode("latin-1", "replace")


def relined(data: bytes, rng: random.Random) -> bytes:
    """Drop, repeat or exchange lines and words of a text."""
    lines = data.decode("latin-1").split("\n")
    for _ in range(rng.choice([1, 1, 2])):
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        kind = rng.randrange(4)
        if kind == 0:
            del lines[i]
        elif kind == 1:
            lines.insert(i, lines[j])
        elif kind == 2:
            lines[i], lines[j] = lines[j], lines[i]
        else:
            key, sign, words = lines[i].partition("=")
            parts = words.split(" ")
            k = rng.randrange(len(parts))
            parts[k : k + rng.randrange(2)] = [rng.choice(WORDS)]
            lines[i] = key + sign + " ".join(parts)
    return "\n".join(lines).encode("latin-1", "replace")


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return the container and the key of every part of a document, in order."""
    found, todo = [], [value]
    while todo:
        part = todo.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part))
        for key in keys:
            found.append((part, key))
            if isinstance(part[key], dict | list):
                todo.append(part[key])
    return found


def edited(document: Any, rng: random.Random) -> Any:
    """Change a few parts of a document: replace, delete, repeat, exchange, shorten."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        # First the kind of place, since most places are numbers in long lists.
        found = places(document)
        named = [place for place in found if isinstance(place[1], str)]
        if not named:
            break
        part, key = rng.choice(named if rng.random() < 0.6 else found)
        kind = rng.randrange(8)
        if kind == 0:
            del part[key]
        elif kind == 1 and isinstance(part[key], list):
            part[key] = part[key] * 2 if rng.random() < 0.5 else part[key][:-1]
        elif kind == 2:
            other, name = rng.choice(found)
            with contextlib.suppress(LookupError):
                part[key] = copy.deepcopy(other[name])
        elif isinstance(part[key], list) and part[key] and kind < 6:
            part[key][rng.randrange(len(part[key]))] = copy.deepcopy(rng.choice(NASTY))
        elif isinstance(part[key], str) and kind < 6:
            part[key] = str(rng.choice(WORDS))
        else:
            part[key] = copy.deepcopy(rng.choice(NASTY))
    return document


def edited_json(data: bytes, rng: random.Random) -> bytes:
    return json.dumps(edited(json.loads(data), rng)).encode()


def edited_ubjson(data: bytes, rng: random.Random) -> bytes:
    from treeopt.adapters.ubjson import loads

    return ubjson(edited(loads(data), rng))


def ubjson(value: Any) -> bytes:
    """Write UBJSON, numbers of a list in one of the typed forms that XGBoost uses."""
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int):
        return b"L" + struct.pack(">q", (value + 2**63) % 2**64 - 2**63)
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"S" + _named(value)
    if isinstance(value, dict):
        return b"{" + b"".join(_named(str(k)) + ubjson(v) for k, v in value.items()) + b"}"
    kinds = {type(v) for v in value}
    if kinds == {int} and all(abs(v) < 2**31 for v in value):
        return b"[$l#" + ubjson(len(value)) + np.array(value, ">i4").tobytes()
    if kinds == {float}:
        return b"[$d#" + ubjson(len(value)) + np.array(value).astype(">f4").tobytes()
    return b"[#" + ubjson(len(value)) + b"".join(map(ubjson, value))


def _named(text: str) -> bytes:
    encoded = text.encode("utf-8", "replace")
    return ubjson(len(encoded)) + encoded


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def edited_schema(data: bytes, rng: random.Random) -> bytes:
    files = unzipped(data)
    return zipped({**files, "schema.json": edited_json(files["schema.json"], rng)})


def edited_array(data: bytes, rng: random.Random) -> bytes:
    """Put nasty numbers into the arrays of an archive, or give them another shape or type."""
    files = unzipped(data)
    for _ in range(rng.choice([1, 1, 2, 3])):
        name = rng.choice([n for n in files if n.endswith(".npy")])
        array = np.load(io.BytesIO(files[name])).copy()
        kind = rng.randrange(8)
        if kind == 0:
            array = array[:-1] if array.ndim else array
        elif kind == 1:
            array = array.reshape(*array.shape, 1)
        elif kind == 2 and not array.dtype.names:
            array = array.astype(rng.choice(["f4", "i4", "u1", "U3"]), casting="unsafe")
        elif kind == 3 and array.dtype.names:
            array = array[list(array.dtype.names)[: rng.randrange(1, 9)]]
        elif array.size:
            for _ in range(rng.choice([1, 3])):
                flat = array.reshape(-1)
                part = flat[rng.choice(array.dtype.names)] if array.dtype.names else flat
                with contextlib.suppress(OverflowError, ValueError), np.errstate(all="ignore"):
                    part[rng.randrange(part.size)] = rng.choice([v for v in NASTY if v == v][:24])
        buffer = io.BytesIO()
        with contextlib.suppress(ValueError):
            np.save(buffer, array, allow_pickle=False)
            files[name] = buffer.getvalue()
    return zipped(files)


Damage = Callable[[bytes, random.Random], bytes]

DAMAGES: dict[str, tuple[Damage, ...]] = {
    ".json": (truncated, flipped, spliced, renumbered, edited_json, edited_json, edited_json),
    ".ubj": (truncated, flipped, flipped, spliced, edited_ubjson),
    ".txt": (truncated, flipped, spliced, renumbered, relined, relined),
    ".skops": (truncated, flipped, spliced, edited_schema, edited_schema, edited_array),
}
"""The kinds of damage that are done to each kind of file."""


def damaged(data: bytes, suffix: str, seed: int) -> bytes:
    rng = random.Random(seed)
    return rng.choice(DAMAGES[suffix])(data, rng)
