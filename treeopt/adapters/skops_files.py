"""scikit-learn models in skops files.

A skops file is an archive: a schema in JSON that says of what classes a model and its parts are,
and NumPy arrays. skops itself builds whatever the schema asks for among the types that one trusts,
and scikit-learn's trees believe the numbers that they are built from. Here the schema is read, not
obeyed: only the classes that tree models consist of are made, without calling anything of theirs;
trees only after their parts were found to agree; what is not needed becomes None.

A small file may expand to much: packed zeros, an array that many trees refer to, a schema of
nothing but brackets. So the sizes that the archive states are compared with that of the file before
anything is unpacked, no part may unpack to more than it states, and what all references to arrays
come to is limited: scikit-learn and the conversion copy an array each time.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from importlib import import_module
from inspect import getattr_static
from typing import Any, NoReturn

import numpy as np

from treeopt.adapters.base import refuse
from treeopt.errors import ModelFormatError

PROTOCOL = 2
"""The newest form of these files that is known."""

MAX_BYTES = 2**28
MAX_RATIO = 100
"""Files that unpack to more bytes than this, and to more than this many times their size, are
refused."""

MAX_SCHEMA_BYTES = 2**24
MAX_SCHEMA_RATIO = 32
"""The same for the schema alone: what is parsed takes about 20 times as much memory. In files of
skops the schema has at most 15 times the size of the whole file, which is reached by thousands of
small trees in a compressed file."""

REPEATED_BYTES = 2**26
"""References to arrays may come to so many bytes more than the archive unpacks to. In files of
skops each large array is referred to once."""

MAX_EMPTY = 2**16
"""Maximum length along any axis of an array without elements."""

MAX_DEPTH = 64
"""Maximum depth of nesting."""

_BOTH = ("Regressor", "Classifier")
_HIST = "sklearn.ensemble._hist_gradient_boosting"

CLASSES = {
    "sklearn.tree._classes": [n + k for n in ("DecisionTree", "ExtraTree") for k in _BOTH],
    "sklearn.ensemble._forest": [n + k for n in ("RandomForest", "ExtraTrees") for k in _BOTH],
    "sklearn.ensemble._bagging": ["Bagging" + k for k in _BOTH],
    "sklearn.ensemble._gb": ["GradientBoosting" + k for k in _BOTH],
    f"{_HIST}.gradient_boosting": ["HistGradientBoosting" + k for k in _BOTH],
    f"{_HIST}.binning": ["_BinMapper"],
    f"{_HIST}.predictor": ["TreePredictor"],
    "sklearn.dummy": ["Dummy" + k for k in _BOTH],
    "sklearn._loss.loss": [
        *("HalfSquaredError", "AbsoluteError", "PinballLoss", "HuberLoss", "HalfPoissonLoss"),
        *("HalfGammaLoss", "HalfBinomialLoss", "HalfMultinomialLoss", "ExponentialLoss"),
    ],
    "sklearn._loss.link": [
        *("IdentityLink", "LogLink", "LogitLink", "HalfLogitLink", "MultinomialLogit", "Interval"),
    ],
    "sklearn.preprocessing._label": ["LabelEncoder"],
    "sklearn.preprocessing._encoders": ["OrdinalEncoder"],
    "sklearn.preprocessing._function_transformer": ["FunctionTransformer"],
    "sklearn.compose._column_transformer": ["ColumnTransformer"],
}
"""The classes of which tree models consist, by module."""

IGNORED = {"n_jobs", "verbose"}
"""Settings of the machine that saved the file, which are ignored."""


def load(data: bytes) -> Any:
    """Return the model of a skops file."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            reader = _Reader(archive, len(data))
            schema = json.loads(reader.unpacked("schema.json"))
            if schema.get("protocol", 0) > PROTOCOL:
                raise ModelFormatError(f"it was written by a skops newer than protocol {PROTOCOL}.")
            model = reader.value(schema, 0)
            return _refuse_part(schema) if model is None else model
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelFormatError(f"the archive cannot be unpacked: {error}.") from error
    except KeyError as error:
        raise ModelFormatError(f"the archive lacks a part: {error}.") from error


def _refuse_part(node: dict[str, Any]) -> NoReturn:
    refuse(
        f"a skops file with {node['__module__']}.{node['__class__']}",
        "no scikit-learn tree model has parts of this type",
        "Save the tree model alone; models of other libraries with their own save_model.",
    )


class _Reader:
    """Reads the parts of an archive."""

    def __init__(self, archive: zipfile.ZipFile, packed: int) -> None:
        unpacked = sum(info.file_size for info in archive.infolist())
        _check_size("it", unpacked, packed, MAX_BYTES, MAX_RATIO)
        schema = archive.getinfo("schema.json").file_size
        _check_size("its schema", schema, packed, MAX_SCHEMA_BYTES, MAX_SCHEMA_RATIO)
        self.archive = archive
        self.arrays: dict[str, Any] = {}
        self.limit = unpacked + REPEATED_BYTES
        self.referred = 0

    def unpacked(self, name: str) -> bytes:
        """Return a part of the archive, of at most the size that it states."""
        info = self.archive.getinfo(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            refuse(
                "a skops file compressed by bzip2 or LZMA",
                "Python's zipfile unpacks such data at once, however much they come to",
                "Save it with compression=zipfile.ZIP_DEFLATED, or without compression.",
            )
        with self.archive.open(info) as file:
            return file.read(info.file_size)

    def value(self, node: dict[str, Any], depth: int) -> Any:
        """Return what a part of the schema describes; None where it is not needed."""
        if depth > MAX_DEPTH:
            raise ModelFormatError(f"values are nested more than {MAX_DEPTH} deep.")
        kind = node["__loader__"]
        if kind == "JsonNode":
            return json.loads(node["content"])
        if kind == "DictNode":
            return {key: self.value(v, depth + 1) for key, v in node["content"].items()}
        if kind in ("ListNode", "TupleNode"):
            items = [self.value(v, depth + 1) for v in node["content"]]
            return items if kind == "ListNode" else tuple(items)
        if kind == "NdArrayNode":
            return self._array(node, depth)
        if kind == "ObjectNode":
            return self._object(node, depth)
        if kind == "TreeNode":
            return self._tree(node, depth)
        return None

    def _array(self, node: dict[str, Any], depth: int) -> Any:
        if node["type"] == "numpy":
            array = self._numbers(str(node["file"]))
            return array if node["__class__"] == "ndarray" else array[()]
        items = [self.value(v, depth + 1) for v in node["content"]]
        shape = self.value(node["shape"], depth + 1)
        for _ in shape[1:]:
            if not all(type(row) is list for row in items):
                raise ModelFormatError(f"an array of the shape {shape} is not a list of lists.")
            items = [item for row in items for item in row]
        array = np.empty(len(items), object)
        for i, item in enumerate(items):  # an assignment at once would take arrays apart
            array[i] = item
        _check_shape(shape, "of objects")
        return array.reshape(shape)

    def _numbers(self, name: str) -> Any:
        """Return an array of numbers; made once, but counted as often as it is referred to."""
        if name not in self.arrays:
            self.arrays[name] = _read_array(name, self.unpacked(name))
        array = self.arrays[name]
        self.referred += array.nbytes
        if self.referred > self.limit:
            raise ModelFormatError(
                f"its parts refer to more than {self.limit} bytes of arrays, many times to the "
                f"same ones (such as {name})."
            )
        return array

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        module, name = str(node["__module__"]), str(node["__class__"])
        if name not in CLASSES.get(module, ()):
            _refuse_part(node)
        known = getattr(import_module(module), name)
        result = known.__new__(known)
        attributes = self.value(node["content"], depth + 1) if "content" in node else None
        for attribute, value in (attributes or {}).items():
            # An attribute could take the place of a method, which would then be called.
            if attribute.startswith("__") or getattr_static(known, attribute, None) is not None:
                raise ModelFormatError(f"a {name} has no attribute {attribute!r} of its own.")
            result.__dict__[attribute] = None if attribute in IGNORED else value
        return result

    def _tree(self, node: dict[str, Any], depth: int) -> Any:
        from sklearn.tree._tree import Tree

        n_features, n_classes, n_outputs = self.value(node["__reduce__"]["args"], depth + 1)
        state = self.value(node["content"], depth + 1)
        nodes, count = np.asarray(state["nodes"]), state["node_count"]
        # scikit-learn would read past the end of what does not agree.
        sound = (
            isinstance(n_classes, np.ndarray)
            and n_classes.ndim == nodes.ndim == 1
            and n_classes.dtype == np.intp
            and type(n_outputs) is type(n_features) is type(count) is int
            and n_outputs == n_classes.size >= 1
            and bool((n_classes >= 1).all())
            and count == nodes.size >= 1
        )
        if not sound:
            raise ModelFormatError("the parts of a tree do not agree.")
        tree = Tree(n_features, n_classes, n_outputs)
        tree.__setstate__(state)
        return tree


def _check_size(what: str, size: int, packed: int, max_bytes: int, ratio: int) -> None:
    """Refuse what unpacks to more than ``max_bytes`` and to more than ``ratio`` times the file."""
    if size > max_bytes and size > ratio * packed:
        raise ModelFormatError(
            f"it has {packed} bytes, and {what} claims to unpack to {size}, more than {ratio} "
            "times as many. If it is sound, save it without compression."
        )


def _read_array(name: str, data: bytes) -> Any:
    """Return the array that a file in NumPy's format holds."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_2_0
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0
        shape, _, dtype = header(file)
        _check_shape(shape, name)
        sound = math.prod(shape) * dtype.itemsize == len(data) - file.tell()
        if dtype.hasobject or not dtype.itemsize or not sound:
            raise ModelFormatError(f"the array {name} is not as long as it says.")
        return np.load(io.BytesIO(data), allow_pickle=False)
    except ModelFormatError:
        raise
    except Exception as error:  # whatever NumPy's parser of headers ends in
        raise ModelFormatError(f"the array {name} is damaged: {error}.") from error


def _check_shape(shape: Any, name: str) -> None:
    """Refuse an array that claims a length although it has no elements."""
    if not math.prod(shape) and max(shape) > MAX_EMPTY:
        raise ModelFormatError(f"the array {name} claims the shape {shape}, but has no elements.")
