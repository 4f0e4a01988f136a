"""Hostile skops files."""

import contextlib
import io
import json
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.files import (
    HIST,
    HUGE,
    RNG,
    assert_refused,
    bytes_of,
    case_of,
    little_memory,
    options_of,
)
from tests.fuzz import load, unzipped, use, zipped
from treeopt import ModelFormatError, TreeoptError

# skops: an archive of arrays, and a schema that says which objects they belong to.


def part(kind: str, loader: str, content: Any, module: str = "builtins") -> dict[str, Any]:
    names = {"__class__": kind, "__module__": module, "__loader__": loader}
    return {**names, "content": content}


def constant(value: Any) -> dict[str, Any]:
    return part("str", "JsonNode", json.dumps(value))


def attributes(values: dict[str, Any]) -> dict[str, Any]:
    kinds = [part("str", "TypeNode", None) for _ in values]
    return {**part("dict", "DictNode", values), "key_types": part("list", "ListNode", kinds)}


def stored(file: str) -> dict[str, Any]:
    return {**part("ndarray", "NdArrayNode", None, "numpy"), "type": "numpy", "file": file}


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


class Archive:
    """The parts of a skops file, to be changed."""

    def __init__(self, name: str) -> None:
        self.files = unzipped(bytes_of(".skops", name))
        self.schema = json.loads(self.files["schema.json"])

    def __setitem__(self, path: str, value: Any) -> None:
        """Set an attribute by its path, as in ``estimators_/0/tree_``."""
        *parents, last = path.split("/")
        holder = self._holder(parents)
        if isinstance(holder["content"], dict) and last not in holder["content"]:
            holder["key_types"]["content"].append(part("str", "TypeNode", None))
        holder["content"][int(last) if last.isdigit() else last] = value

    def __getitem__(self, path: str) -> Any:
        *parents, last = path.split("/")
        return self._holder(parents)["content"][int(last) if last.isdigit() else last]

    def _holder(self, parents: list[str]) -> Any:
        holder = self.schema["content"]
        for key in parents:
            holder = holder["content"][int(key) if key.isdigit() else key]
            while holder["__loader__"] in ("ObjectNode", "TreeNode"):
                holder = holder["content"]
        return holder

    def put(self, path: str, array: Any) -> None:
        """Set an attribute to an array."""
        name = f"new{len(self.files)}.npy"
        self.files[name] = array if isinstance(array, bytes) else npy(array)
        self[path] = stored(name)

    def array(self, path: str) -> np.ndarray:
        return np.load(io.BytesIO(self.files[self[path]["file"]])).copy()

    def data(self, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
        schema = json.dumps(self.schema).encode()
        return zipped({**self.files, "schema.json": schema}, compression)


def node(path: str, field: str, value: Any, at: int = 0) -> Callable[[Archive], None]:
    """Return an edit of one field of one node of a tree."""

    def edit(archive: Archive) -> None:
        nodes = archive.array(path)
        nodes[field][at] = value
        archive.put(path, nodes)

    return edit


def array(path: str, change: Callable[[np.ndarray], Any]) -> Callable[[Archive], None]:
    return lambda archive: archive.put(path, change(archive.array(path)))


def value(path: str, new: Any) -> Callable[[Archive], None]:
    return lambda archive: archive.__setitem__(path, constant(new))


def tree_argument(at: int, new: Any) -> Callable[[Archive], None]:
    """Return an edit of what a tree is built from: features, classes, outputs."""

    def edit(archive: Archive) -> None:
        archive.files["argument.npy"] = npy(new)
        arguments = archive["tree_"]["__reduce__"]["args"]["content"]
        arguments[at] = stored("argument.npy") if at == 1 else constant(new)

    return edit


def lie_about_shape(archive: Archive) -> None:
    data = archive.files[archive["tree_/nodes"]["file"]]
    archive.put("tree_/nodes", data.replace(b"(9,), } ", b"(99,), }"))


def break_header(archive: Archive) -> None:
    data = archive.files[archive["tree_/nodes"]["file"]]
    archive.put("tree_/nodes", data.replace(b"'fortran_order'", b"(((((((_order'"))


def claim_other_class(archive: Archive) -> None:
    """Build a tree under another name, with more outputs than its array of classes has."""
    archive["tree_"].update(__class__="dict", __module__="builtins")
    tree_argument(2, 10**8)(archive)


def pretend_array(archive: Archive) -> None:
    """Put an object where numbers belong that sends NumPy to any address."""
    numbers = {
        "version": constant(3),
        "typestr": constant("<f8"),
        "shape": part("tuple", "TupleNode", [constant(8)]),
        "data": part("tuple", "TupleNode", [constant(4096), constant(True)]),
    }
    content = attributes({"__array_interface__": attributes(numbers)})
    kind = ("DecisionTreeRegressor", "ObjectNode", content, "sklearn.tree._classes")
    archive["_baseline_prediction"] = part(*kind)


def call_method(archive: Archive) -> None:
    """Put the method of another object in the place of one that is called."""
    empty = part("DecisionTreeRegressor", "ObjectNode", attributes({}), "sklearn.tree._classes")
    bound = {"func": "get_n_leaves", "obj": empty}
    method = part("DecisionTreeRegressor", "MethodNode", bound, "sklearn.tree._classes")
    archive["_support_missing_values"] = method


NODES = "tree_/nodes"
HIST_NODES = "_predictors/0/0/nodes"


def by_category(field: str, new: Any) -> Callable[[Archive], None]:
    """Return an edit of the first node that splits by categories, in whatever tree it is."""

    def edit(archive: Archive) -> None:
        for k in range(HIST["max_iter"]):
            path = f"_predictors/{k}/0/nodes"
            found = np.flatnonzero(archive.array(path)["is_categorical"])
            if found.size:
                return node(path, field, new, int(found[0]))(archive)
        raise AssertionError("no split by categories")

    return edit


SKOPS_EDITS: dict[str, tuple[str, Callable[[Archive], Any]]] = {
    "node_count too large": ("tree", value("tree_/node_count", 10**6)),
    "node_count negative": ("tree", value("tree_/node_count", -1)),
    "node_count text": ("tree", value("tree_/node_count", "15")),
    "child out of range": ("tree", node(NODES, "left_child", 10**6)),
    "child -2": ("tree", node(NODES, "left_child", -2)),
    "right child -2": ("tree", node(NODES, "right_child", -2)),
    "self-loop": ("tree", node(NODES, "left_child", 0)),
    "cycle": ("tree", node(NODES, "right_child", 0, 2)),
    "feature out of range": ("tree", node(NODES, "feature", 4)),
    "feature -2": ("tree", node(NODES, "feature", -2)),
    "feature huge": ("tree", node(NODES, "feature", HUGE)),
    "threshold NaN": ("tree", node(NODES, "threshold", np.nan)),
    "nodes short": ("tree", array(NODES, lambda a: a[:-1])),
    "nodes none": ("tree", array(NODES, lambda a: a[:0])),
    "nodes of two dimensions": ("tree", array(NODES, lambda a: a[None])),
    "nodes of numbers": ("tree", array(NODES, lambda a: a["threshold"])),
    "nodes with fewer fields": ("tree", array(NODES, lambda a: a[["left_child", "feature"]])),
    "nodes lie about their shape": ("tree", lie_about_shape),
    "nodes with a broken header": ("tree", break_header),
    "nodes not NPY": ("tree", lambda a: a.put(NODES, b"nodes")),
    "nodes text": ("tree", value(NODES, "nodes")),
    "values short": ("tree", array("tree_/values", lambda a: a[:-1])),
    "values flat": ("tree", array("tree_/values", np.ravel)),
    "values wide": ("tree", array("tree_/values", lambda a: np.repeat(a, 3, 2))),
    "values whole": ("tree", array("tree_/values", lambda a: a.astype(int))),
    "n_features negative": ("tree", tree_argument(0, -1)),
    "n_features 2": ("tree", tree_argument(0, 2)),
    "n_features 2**62": ("tree", tree_argument(0, HUGE)),
    "n_features too many": ("tree", tree_argument(0, 3 * 10**7)),
    "n_classes none": ("tree", tree_argument(1, np.zeros(0, np.intp))),
    "n_classes zero": ("tree", tree_argument(1, np.zeros(1, np.intp))),
    "n_classes negative": ("tree", tree_argument(1, np.array([-1]))),
    "n_classes huge": ("tree", tree_argument(1, np.array([HUGE]))),
    "n_classes fraction": ("tree", tree_argument(1, np.array([1.0]))),
    "n_outputs": ("tree", tree_argument(2, 2)),
    "n_outputs huge": ("tree", tree_argument(2, HUGE)),
    "n_outputs negative": ("tree", tree_argument(2, -1)),
    "n_features_in_": ("tree", value("n_features_in_", 1)),
    "n_features_in_ huge": ("tree", value("n_features_in_", HUGE)),
    "too many features": ("bagging", value("n_features_in_", 3 * 10**7)),
    "hist, too many features": ("hist classifier", value("n_features_in_", 3 * 10**7)),
    "n_features_in_ text": ("tree", value("n_features_in_", "4")),
    "tree_ text": ("tree", value("tree_", "tree")),
    "tree_ null": ("tree", value("tree_", None)),
    "tree of another class": ("tree", claim_other_class),
    "a method": ("tree", call_method),
    "an array that is none": ("hist classifier", pretend_array),
    "module unknown": ("tree", lambda a: a.schema.update(__module__="sklearn.nowhere")),
    "module relative": ("tree", lambda a: a.schema.update(__module__="sklearn..tree")),
    "class null": ("tree", lambda a: a.schema.update(__class__=None)),
    "class a dict": ("tree", lambda a: a.schema.update(__class__="dict", __module__="builtins")),
    "loader unknown": ("tree", lambda a: a.schema.update(__loader__="AnyNode")),
    "protocol 99": ("tree", lambda a: a.schema.update(protocol=99)),
    "estimators_ of text": ("forest", value("estimators_", ["a", "b"])),
    "estimators_ text": ("forest", value("estimators_", "ab")),
    "estimators_ empty": ("forest", value("estimators_", [])),
    "estimators_ null": ("forest", value("estimators_", None)),
    "estimator a number": ("forest", value("estimators_/0", 5)),
    "feature_names_in_ short": ("forest", value("feature_names_in_", ["a"])),
    "stages of text": ("boosting", value("estimators_", [["a"]])),
    "learning_rate text": ("boosting", value("learning_rate", "x")),
    "init_ text": ("boosting", value("init_", "one")),
    "columns out of range": (
        "bagging",
        lambda a: a.put("estimators_features_/0", np.array([0, 99])),
    ),
    "columns short": ("bagging", lambda a: a.put("estimators_features_/0", np.array([0]))),
    "columns negative": ("bagging", lambda a: a.put("estimators_features_/0", np.array([0, -5]))),
    "hist, left out of range": ("hist", node(HIST_NODES, "left", 10**6)),
    "hist, right out of range": ("hist", node(HIST_NODES, "right", 2**32 - 1)),
    "hist, self-loop": ("hist", node(HIST_NODES, "left", 0)),
    "hist, feature out of range": ("hist", node(HIST_NODES, "feature_idx", 4)),
    "hist, feature negative": ("hist", node(HIST_NODES, "feature_idx", -1)),
    "hist, feature huge": ("hist", node(HIST_NODES, "feature_idx", HUGE)),
    "hist, threshold NaN": ("hist", node(HIST_NODES, "num_threshold", np.nan)),
    "hist, categories of a number": ("hist", node(HIST_NODES, "is_categorical", 1)),
    "hist, bitset out of range": ("hist categories", by_category("bitset_idx", 10**6)),
    "hist, bitset next to the end": ("hist categories", by_category("bitset_idx", 99)),
    "hist, category as number": ("hist categories", by_category("is_categorical", 0)),
    "hist, nodes of numbers": ("hist", array(HIST_NODES, lambda a: a["value"])),
    "hist, nodes none": ("hist", array(HIST_NODES, lambda a: a[:0])),
    "hist, nodes of two dimensions": ("hist", array(HIST_NODES, lambda a: a[None])),
    "hist, no predictors": ("hist", value("_predictors", [])),
    "hist, predictors text": ("hist", value("_predictors", "abc")),
    "hist, baseline none": ("hist", lambda a: a.put("_baseline_prediction", np.zeros(0))),
    "hist, baseline text": ("hist", value("_baseline_prediction", "x")),
    "hist, loss": ("hist", value("loss", "mine")),
    "hist, is_categorical_": ("hist categories", lambda a: a.put("is_categorical_", np.ones(9))),
}


@pytest.mark.parametrize("edit", SKOPS_EDITS)
def test_hostile_skops(edit):
    name, change = SKOPS_EDITS[edit]
    archive = Archive(name)
    change(archive)
    data = archive.data()
    if edit == "an array that is none":
        return assert_refused_elsewhere(data)
    assert_refused(data, **options_of(".skops", name))


def assert_refused_elsewhere(data: bytes) -> None:
    """Check a file that might end the process, in another one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        path.write_bytes(data)
        code = (
            "import sys, treeopt\ntry:\n    treeopt.load_model(sys.argv[1])\n"
            "except treeopt.TreeoptError:\n    print('refused')\n"
        )
        run = [sys.executable, "-W", "ignore", "-c", code, str(path)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "refused")


def test_skops_unchanged():
    """Taking a file apart and putting it together again changes nothing."""
    for name in ("tree", "hist categories"):
        data = case_of(".skops", name).data
        a, b = load(Archive(name).data()), load(bytes_of(".skops", name))
        assert a.predict(data).tobytes() == b.predict(data).tobytes()


def test_skops_columns_of_bytes():
    """The type of the columns does not matter, and leaves read none."""
    archive = Archive("bagging")
    archive.put("estimators_features_/0", archive.array("estimators_features_/0").astype(np.uint8))
    assert use(archive.data())


SCHEMAS = {
    "missing": None,
    "empty": b"",
    "text": b"schema",
    "a list": b"[]",
    "null": b"null",
    "not UTF-8": b"\xff\xfe\xfd",
    "nested arrays": b"[" * 200_000,
    "nested objects": b'{"content":' * 200_000,
    "nested and closed": b'{"content":' * 20_000 + b"1" + b"}" * 20_000,
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema(name):
    files = Archive("tree").files
    files.pop("schema.json")
    if SCHEMAS[name] is not None:
        files["schema.json"] = SCHEMAS[name]
    assert_refused(zipped(files))


def test_skops_array_that_is_used_again_and_again():
    """What a file says many times does not fill the memory."""
    archive = Archive("tree")
    archive.files["big.npy"] = npy(np.zeros(2**20))
    for k in range(50):
        archive[f"a{k}"] = stored("big.npy")
    data = archive.data()
    with little_memory():
        use(data)


def test_skops_zip_bomb():
    """An archive is believed when it says that it is too large."""
    data = bytearray(zipped({"big.npy": bytes(2**20)}, zipfile.ZIP_DEFLATED))
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = struct.pack("<I", 2**31)
    with pytest.raises(ModelFormatError, match="claim to unpack to 2147483648"):
        load(bytes(data))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("at", [0.3, 0.7])
def test_skops_damaged_array(compression, at):
    """Damage inside an array is noticed, however long the array is."""
    archive = Archive("hist classifier")
    archive.files["big.npy"] = npy(RNG.integers(0, 9, 40_000))
    archive["big"] = stored("big.npy")
    data = archive.data(compression)
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        big = opened.getinfo("big.npy")
    place = big.header_offset + 200 + int(at * big.compress_size)
    assert_refused(data[:place] + b"\xff\x00\xff" + data[place + 3 :])


def test_skops_calls_nothing(tmp_path):
    """No function that a file names is called: this one would empty another file."""
    other = tmp_path / "other.txt"
    other.write_text("precious")
    kind = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "TypeNode"}
    method = part("ndarray", "MethodNode", {"func": "tofile", "obj": kind}, "numpy")
    call = {
        "func": method,
        "args": part("tuple", "TupleNode", []),
        "kwds": attributes({"file": constant(str(other))}),
        "namespace": constant(None),
    }
    archive = Archive("tree")
    archive["_support_missing_values"] = part("partial", "PartialNode", call, "functools")
    with contextlib.suppress(TreeoptError):
        load(archive.data())
    assert other.read_text() == "precious"
    assert_refused(archive.data())


def test_skops_nested_values():
    archive = Archive("tree")
    deep = constant(1)
    for _ in range(400):
        deep = part("tuple", "TupleNode", [deep])
    archive["deep"] = deep
    assert_refused(archive.data())


def test_n_jobs_of_a_file_are_not_taken():
    archive = Archive("forest")
    archive["n_jobs"] = constant(300)
    started = []
    threading.settrace(lambda *_: started.append(threading.current_thread()))
    try:
        load(archive.data())
    finally:
        threading.settrace(None)
    assert len(set(started)) < 100
