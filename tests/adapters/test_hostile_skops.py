"""Hostile skops files."""

import contextlib
import io
import json
import random
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from tests.support.files import (
    FULL,
    HIST,
    HUGE,
    RNG,
    Y,
    assert_refused,
    bytes_of,
    case_of,
    little_memory,
    options_of,
)
from tests.support.fuzz import load, unzipped, use, zipped
from treeopt import ModelFormatError, TreeoptError, UnsupportedModelError
from treeopt.adapters import skops_files

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
    with pytest.raises(ModelFormatError, match="claims to unpack to 2147483648"):
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


# Small files that would expand to much.

ADDRESS_SPACE = 8 * 2**30
"""What a process that loads such files may take; a failure cannot hurt the machine."""

MODEST = 1200
"""More megabytes than this no such file may take."""

LOAD_ALL = """
import resource, sys, treeopt
treeopt.load_model(sys.argv[1])
for path in sys.argv[2:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        treeopt.load_model(path)
        found = "loaded"
    except treeopt.TreeoptError as error:
        found = "out of memory" if "MemoryError" in str(error) else "refused"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(found, (after - before) // 1024)
"""


def outcomes(files: list[bytes]) -> list[str]:
    """Load files in another process; return what became of them, and check the memory taken."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k}.skops" for k in range(len(files) + 1)]
        for path, data in zip(paths, [bytes_of(".skops", "forest"), *files], strict=True):
            path.write_bytes(data)
        run = [sys.executable, "-W", "ignore", "-c", LOAD_ALL, *map(str, paths)]
        done = subprocess.run(run, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    assert len(found) == len(files)
    assert max(int(megabytes) for _, megabytes in found) < MODEST, found
    return [what for what, _ in found]


def attributes_of_one_array(times: int, size: int) -> bytes:
    """Return a tree with attributes that all are the same array of zeros."""
    archive = Archive("tree")
    archive.files["big.npy"] = npy(np.zeros(size // 8))
    for k in range(times):
        archive[f"a{k}"] = stored("big.npy")
    return archive.data()


def trees_of_one_array(times: int, size: int) -> bytes:
    """Return a forest whose trees all are the same large tree."""
    archive = Archive("forest")
    tree = "estimators_/0/tree_"
    nodes = np.zeros(size // 64, archive.array(f"{tree}/nodes").dtype)
    nodes["left_child"] = 2 * np.arange(nodes.size) + 1
    nodes["right_child"] = nodes["left_child"] + 1
    leaf = nodes["right_child"] >= nodes.size
    for side in ("left_child", "right_child"):
        nodes[side][leaf] = -1
    archive.put(f"{tree}/nodes", nodes)
    archive.put(f"{tree}/values", np.zeros((nodes.size, 1, 1)))
    archive[f"{tree}/node_count"] = constant(nodes.size)
    archive["estimators_"]["content"] = [archive["estimators_/0"]] * times
    return archive.data()


def predictors_of_one_array(times: int, size: int) -> bytes:
    """Return a boosted model whose trees all have the same nodes."""
    archive = Archive("hist")
    nodes = archive.array(HIST_NODES)
    archive.put(HIST_NODES, np.repeat(nodes[-1:], size // nodes.itemsize))
    archive["_predictors"]["content"] = [archive["_predictors/0"]] * times
    return archive.data()


def objects_of_one_array(times: int, size: int) -> bytes:
    """Return an array of objects that all are the same array of numbers."""
    archive = Archive("boosting")
    archive.files["big.npy"] = npy(np.zeros(size, np.int8))
    archive["estimators_"]["content"] = [stored("big.npy")] * times
    shape = part("tuple", "TupleNode", [constant(times), constant(size)])
    archive["estimators_"]["shape"] = shape
    return archive.data()


def claimed_features(times: int, size: int) -> bytes:
    """Return a forest of many trees that claims millions of features."""
    archive = Archive("forest")
    archive["n_features_in_"] = constant(size)
    archive["estimators_/0/tree_"]["__reduce__"]["args"]["content"][0] = constant(size)
    archive["estimators_"]["content"] = [archive["estimators_/0"]] * times
    del archive.schema["content"]["content"]["feature_names_in_"]
    return archive.data()


def schema_of(text: bytes, times: int) -> bytes:
    files = Archive("tree").files
    files["schema.json"] = b'{"content":[' + text * times + b"0]}"
    return zipped(files, zipfile.ZIP_DEFLATED)


def names_of_type(dtype: str, shape: str, content: bytes = b"") -> bytes:
    """Return a forest whose names are an array of some type and shape."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    archive = Archive("forest")
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    archive.put("feature_names_in_", start + header.encode() + content)
    return archive.data()


def false_size(compression: int, size: int) -> bytes:
    """Return an archive whose schema says that it is short, but is not."""
    data = bytearray(zipped({"schema.json": bytes(size)}, compression))
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = struct.pack("<I", 100)
    return bytes(data)


def many_categories(n: int) -> bytes:
    """Return a boosted model in which a feature has very many categories."""
    archive = Archive("hist categories")
    encoder = archive["_preprocessor"]["content"]["content"]["transformers_"]["content"][0]
    kept = encoder["content"][1]["content"]["content"]["categories_"]["content"]
    archive.files["labels.npy"] = npy(np.arange(n))
    kept[0] = kept[1] = stored("labels.npy")
    return archive.data()


MB = 2**20
EXPANDING: dict[str, Callable[[], bytes]] = {
    "one array, 400 attributes": lambda: attributes_of_one_array(400, 8 * MB),
    "one array, 400 trees": lambda: trees_of_one_array(400, 8 * MB),
    "one array, 60 trees": lambda: trees_of_one_array(60, 6 * MB),
    "one array, 400 stages": lambda: predictors_of_one_array(400, 8 * MB),
    "one array, 8 objects": lambda: objects_of_one_array(8, 8 * MB),
    "200 MB of zeros": lambda: attributes_of_one_array(1, 200 * MB),
    "400 MB of zeros": lambda: attributes_of_one_array(1, 400 * MB),
    "100 trees of 10 million features": lambda: claimed_features(100, 10**7),
    "schema of lists": lambda: schema_of(b"[],", 40 * MB),
    "schema of objects": lambda: schema_of(b'{"":0},', 8 * MB),
    "names of no bytes": lambda: names_of_type("|S0", "(100000000000,)"),
    "names without elements": lambda: names_of_type("|S1", "(10000000000, 0)"),
    "names, far too many": lambda: names_of_type("|S1", f"({100 * MB},)", bytes(100 * MB)),
    "false size, deflate": lambda: false_size(zipfile.ZIP_DEFLATED, 300 * MB),
    "false size, bzip2": lambda: false_size(zipfile.ZIP_BZIP2, 300 * MB),
    "many categories": lambda: many_categories(300_000),
}
"""Files of less than a megabyte that used to take gigabytes, or might."""


def test_files_that_expand():
    """They are refused before what they ask for is built."""
    files = [make() for make in EXPANDING.values()]
    assert max(map(len, files)) < MB
    found = dict(zip(EXPANDING, outcomes(files), strict=True))
    loaded = {"200 MB of zeros", "100 trees of 10 million features"}
    assert found == {name: "loaded" if name in loaded else "refused" for name in EXPANDING}


def expanding(seed: int) -> bytes:
    """Return some file of that kind."""
    rng = random.Random(seed)
    times, size = rng.choice([2, 10, 50, 300]), rng.choice([1000, MB, 3 * MB, 20 * MB])
    makes: list[Callable[[], bytes]] = [
        lambda: attributes_of_one_array(times, size),
        lambda: trees_of_one_array(times, size),
        lambda: predictors_of_one_array(times, size),
        lambda: objects_of_one_array(times, size),
        lambda: claimed_features(times, size),
        lambda: schema_of(rng.choice([b"[],", b"{},", b'"",', b'{"":{}},', b"9,"]), size),
        lambda: names_of_type(
            rng.choice(["|S0", "<U0", "|V0", "|S1", "|b1"]),
            rng.choice([f"({size},)", f"({size}, 0)", f"(0, {size})", f"({size}, {2**40}, 0)"]),
            rng.choice([b"", bytes(size)]),
        ),
        lambda: false_size(rng.choice([8, 12, 14]), size),
        lambda: many_categories(size // 8),
    ]
    return rng.choice(makes)()


@pytest.mark.parametrize("block", range(2))
def test_random_files_that_expand(block):
    found = outcomes([expanding(seed) for seed in range(20 * block, 20 * block + 20)])
    assert set(found) <= {"loaded", "refused"}


HONEST = {
    "forest": RandomForestRegressor(300, max_depth=1),
    "bagging": BaggingRegressor(DecisionTreeRegressor(max_depth=1), 300),
    "boosting": GradientBoostingRegressor(n_estimators=300, max_depth=1),
    "hist": HistGradientBoostingRegressor(max_iter=300, max_leaf_nodes=2),
}
"""Many small trees: their schema is large, and there is little else."""


@cache
def honest(name: str) -> Any:
    with threadpool_limits(1):
        return HONEST[name].fit(FULL, Y)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("name", HONEST)
def test_limits_leave_honest_files_alone(name, compression, monkeypatch):
    """Without any allowance for small files, they are far from each limit."""
    model = honest(name)
    data = skops.io.dumps(model, compression=compression)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    assert sizes["schema.json"] < skops_files.MAX_SCHEMA_RATIO * len(data) / 2
    monkeypatch.setattr(skops_files, "MAX_BYTES", 0)
    monkeypatch.setattr(skops_files, "MAX_SCHEMA_BYTES", 0)
    monkeypatch.setattr(skops_files, "REPEATED_BYTES", 0)
    with threadpool_limits(1):
        expected = model.predict(FULL)
    assert load(data).predict(FULL).tobytes() == expected.tobytes()


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(compression):
    data = skops.io.dumps(honest("forest"), compression=compression)
    with pytest.raises(UnsupportedModelError, match="ZIP_DEFLATED"):
        load(data)
