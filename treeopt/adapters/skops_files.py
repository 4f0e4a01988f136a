"""scikit-learn models in skops files.

skops builds only objects of types that are trusted, but scikit-learn's own trees believe the
numbers they are built from. So the archive is looked through first: it may hold only the types that
a tree model consists of, arrays that are as long as they say, and trees whose parts agree.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from treeopt.adapters.base import refuse
from treeopt.errors import ModelFormatError

MAX_BYTES = 2**30
MAX_RATIO = 100
"""A file that unpacks to more bytes than this, and to so many times its size, is refused."""

_TREES = ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees", "Bagging", "Dummy")
_BOOSTING = ("GradientBoosting", "HistGradientBoosting")
_LOSSES = (
    *("HalfSquaredError", "AbsoluteError", "PinballLoss", "HuberLoss", "HalfPoissonLoss"),
    *("HalfGammaLoss", "HalfBinomialLoss", "HalfMultinomialLoss", "ExponentialLoss"),
)
_LINKS = ("IdentityLink", "LogLink", "LogitLink", "HalfLogitLink", "MultinomialLogit", "Interval")

ALLOWED = {
    "builtins": {"dict", "list", "tuple", "set", "str", "int", "float", "bool", "slice"},
    "numpy": {"ndarray", "dtype", "int64", "int32", "uint64", "float64", "float32", "str_", "bool"},
    "functools": {"partial"},
    "sklearn": {
        *(name + kind for name in (*_TREES, *_BOOSTING) for kind in ("Regressor", "Classifier")),
        *_LOSSES,
        *(f"Cy{name}" for name in _LOSSES),
        *_LINKS,
        *("Tree", "TreePredictor", "_BinMapper", "LabelEncoder", "OrdinalEncoder"),
        *("ColumnTransformer", "FunctionTransformer", "check_array"),
    },
}
"""The types that a tree model consists of, by package."""

RANDOM = {"RandomState", "Generator"}
"""Generators of random numbers, in packages of numpy.random."""


def load(data: bytes) -> Any:
    """Return the model of a skops file."""
    try:
        from skops import io as skops_io
    except ImportError:
        raise ImportError(
            "skops files need the package skops. Install it with: pip install skops"
        ) from None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check(archive, len(data))
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelFormatError(f"the archive is damaged: {error}.") from error
    untrusted = skops_io.get_untrusted_types(data=data)
    return skops_io.loads(data, trusted=untrusted)


def _check(archive: zipfile.ZipFile, packed: int) -> None:
    """Refuse an archive that holds anything else than a sound tree model."""
    unpacked = sum(info.file_size for info in archive.infolist())
    if unpacked > MAX_BYTES and unpacked > MAX_RATIO * packed:
        raise ModelFormatError(f"{packed} bytes claim to unpack to {unpacked}.")
    names = set(archive.namelist())
    if "schema.json" not in names:
        raise ModelFormatError("the archive has no schema.json: it is not a skops file.")
    for name in names:
        if name.endswith(".npy"):
            _check_array(archive, name)
    for node in _nodes(json.loads(archive.read("schema.json"))):
        module, kind = str(node.get("__module__")), str(node.get("__class__"))
        package = module.split(".")[0]
        known = kind in ALLOWED.get(package, ())
        if not known and not (module.startswith("numpy.random.") and kind in RANDOM):
            refuse(
                f"a skops file with {module}.{kind}",
                "no part of a scikit-learn tree model is of this type",
                "Save XGBoost and LightGBM models with their own save_model.",
            )
        if (package, kind) == ("sklearn", "Tree"):
            _check_tree(archive, node)


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every part of a schema that describes an object."""
    todo = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if "__class__" in part or "__module__" in part:
                yield part
            todo += part.values()
        elif isinstance(part, list):
            todo += part


def _check_array(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse an array that is not as long as it says."""
    size = archive.getinfo(name).file_size
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != size - file.tell():
            raise ModelFormatError(f"the array {name} is not as long as it says.")


def _check_tree(archive: zipfile.ZipFile, node: dict[str, Any]) -> None:
    """Refuse a tree whose parts do not agree; scikit-learn would read past their ends."""
    _, classes, outputs = node["__reduce__"]["args"]["content"]
    state = node["content"]["content"]
    n_classes = np.load(io.BytesIO(archive.read(classes["file"])), allow_pickle=False)
    nodes = np.load(io.BytesIO(archive.read(state["nodes"]["file"])), allow_pickle=False)
    n_outputs, count = json.loads(outputs["content"]), json.loads(state["node_count"]["content"])
    sound = (
        n_classes.ndim == 1
        and n_classes.dtype == np.intp
        and isinstance(n_outputs, int)
        and n_outputs == n_classes.size >= 1
        and bool((n_classes >= 1).all())
        and isinstance(count, int)
        and count == nodes.size >= 1
    )
    if not sound:
        raise ModelFormatError("the parts of a tree do not agree.")
