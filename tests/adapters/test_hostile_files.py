"""Hostile files of XGBoost and LightGBM."""

import contextlib
import json
import re
import struct
from typing import Any

import numpy as np
import pytest

from tests.support.files import (
    FRAME,
    HUGE,
    X,
    assert_refused,
    bytes_of,
    little_memory,
    options_of,
    with_edits,
)
from tests.support.fuzz import load, ubjson, use
from treeopt import ModelFormatError, TreeoptError
from treeopt.adapters.ubjson import loads as read_ubjson

# Hostile files: each entry changes parts of a sound file, given by their paths.

MODEL = "learner/gradient_booster/model/"
ROOT = MODEL + "trees/0/"
LEFT, RIGHT, CUT, FEATURE = (
    ROOT + key for key in ("left_children", "right_children", "split_conditions", "split_indices")
)
PARAM = "learner/learner_model_param/"

XGBOOST_EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "child out of range": ("regressor", {LEFT + "/0": 10**6}),
    "child next to the end": ("regressor", {LEFT + "/0": 15}),
    "child beyond int32": ("regressor", {LEFT + "/0": 2**40}),
    "negative right child": ("regressor", {RIGHT + "/0": -1}),
    "self-loop": ("regressor", {LEFT + "/0": 0}),
    "cycle": ("regressor", {LEFT + "/1": 0}),
    "node reached twice": ("regressor", {LEFT + "/0": 2}),
    "no nodes": ("regressor", {key: [] for key in (LEFT, RIGHT, CUT, FEATURE)}),
    "fewer left children": ("regressor", {LEFT: [1, -1, -1]}),
    "fewer right children": ("regressor", {RIGHT: [2]}),
    "fewer thresholds": ("regressor", {CUT: [0.5]}),
    "fewer features": ("regressor", {FEATURE: [0]}),
    "fewer directions": ("regressor", {ROOT + "default_left": []}),
    "nested children": ("regressor", {LEFT: [[1], [-1]]}),
    "child a fraction": ("regressor", {LEFT + "/0": 1.9}),
    "child NaN": ("regressor", {LEFT + "/0": float("nan")}),
    "feature a fraction": ("regressor", {FEATURE + "/0": 0.7}),
    "direction text": ("regressor", {ROOT + "default_left/0": "no"}),
    "children of text": ("regressor", {LEFT: "1, 2"}),
    "children null": ("regressor", {LEFT: None}),
    "children an object": ("regressor", {LEFT: {"0": 1}}),
    "feature out of range": ("regressor", {FEATURE + "/0": 4}),
    "negative feature": ("regressor", {FEATURE + "/0": -1}),
    "feature 2**62": ("regressor", {FEATURE + "/0": HUGE}),
    "threshold NaN": ("regressor", {CUT + "/0": float("nan")}),
    "threshold text": ("regressor", {CUT + "/0": "x"}),
    "loss_changes short": ("regressor", {ROOT + "loss_changes": [1.0]}),
    "tree null": ("regressor", {MODEL + "trees/0": None}),
    "trees an object": ("regressor", {MODEL + "trees": {"0": {}}}),
    "trees empty": ("regressor", {MODEL + "trees": []}),
    "tree_info short": ("three classes", {MODEL + "tree_info": [0, 1]}),
    "tree_info elsewhere": ("three classes", {MODEL + "tree_info": [7] * 18}),
    "size_leaf_vector huge": ("regressor", {ROOT + "tree_param/size_leaf_vector": str(HUGE)}),
    "size_leaf_vector wrong": ("vector leaves", {ROOT + "tree_param/size_leaf_vector": "3"}),
    "leaf_weights short": ("vector leaves", {ROOT + "leaf_weights": [1.0, 2.0]}),
    "leaf number out of range": ("vector leaves", {RIGHT: [10**6] * 13}),
    "no features": ("regressor", {PARAM + "num_feature": "0"}),
    "negative features": ("regressor", {PARAM + "num_feature": "-4"}),
    "too many features": ("regressor", {PARAM + "num_feature": "30000000"}),
    "2**62 features": ("regressor", {PARAM + "num_feature": str(HUGE)}),
    "features of text": ("regressor", {PARAM + "num_feature": "four"}),
    "features null": ("regressor", {PARAM + "num_feature": None}),
    "features with many digits": ("regressor", {PARAM + "num_feature": "9" * 10_000}),
    "names short": ("named", {"learner/feature_names": ["temp"]}),
    "2**62 classes": ("three classes", {PARAM + "num_class": str(HUGE)}),
    "2**62 targets": ("two outputs", {PARAM + "num_target": str(HUGE)}),
    "base_score text": ("regressor", {PARAM + "base_score": "half"}),
    "base_score empty": ("regressor", {PARAM + "base_score": "[]"}),
    "base_score null": ("regressor", {PARAM + "base_score": None}),
    "base_score for three": ("two outputs", {PARAM + "base_score": "[1,2,3]"}),
    "weight_drop short": ("dart", {"learner/gradient_booster/weight_drop": [1.0]}),
    "weight_drop text": ("dart", {"learner/gradient_booster/weight_drop/0": "x"}),
    "iteration_indptr short": ("early stopping", {MODEL + "iteration_indptr": [0]}),
    "iteration_indptr zero": ("early stopping", {MODEL + "iteration_indptr": [0, 0, 0]}),
    "iteration_indptr text": ("early stopping", {MODEL + "iteration_indptr": "012"}),
    "best_iteration text": ("early stopping", {"learner/attributes/best_iteration": "last"}),
    "best_iteration negative": ("early stopping", {"learner/attributes/best_iteration": "-2"}),
    "best_iteration huge": ("early stopping", {"learner/attributes/best_iteration": str(HUGE)}),
    "scikit_learn not JSON": ("regressor", {"learner/attributes/scikit_learn": "{"}),
    "scikit_learn a list": ("regressor", {"learner/attributes/scikit_learn": "[]"}),
    "booster unknown": ("regressor", {"learner/gradient_booster/name": "gbforest"}),
    "booster a list": ("regressor", {"learner/gradient_booster/name": []}),
    "objective unknown": ("regressor", {"learner/objective/name": "reg:mine"}),
    "objective null": ("regressor", {"learner/objective/name": None}),
    "categories node out of range": ("categories", {ROOT + "categories_nodes/0": 10**6}),
    "categories node negative": ("categories", {ROOT + "categories_nodes/0": -1}),
    "categories segment out of range": ("categories", {ROOT + "categories_segments/0": 10**6}),
    "categories segment negative": ("categories", {ROOT + "categories_segments/0": -1}),
    "categories size huge": ("categories", {ROOT + "categories_sizes/0": HUGE}),
    "categories size negative": ("categories", {ROOT + "categories_sizes/0": -1}),
    "categories sizes short": ("categories", {ROOT + "categories_sizes": []}),
    "categories text": ("categories", {ROOT + "categories": "012"}),
    "categories missing": ("categories", {ROOT + "categories_nodes": []}),
    "categories of a number": ("regressor", {ROOT + "split_type/0": 1}),
    "categories and numbers": ("categories", {FEATURE: [4] * 15}),
    "offsets text": ("categories", {MODEL + "cats/enc/4/offsets": "abc"}),
    "labels text": ("categories", {MODEL + "cats/enc/4/values": ["x"]}),
    "labels null": ("categories", {MODEL + "cats/enc/5/values": [None]}),
    "labels a number": ("categories", {MODEL + "cats/enc/4": 5}),
    "feature_types a number": ("categories", {"learner/feature_types": 5}),
    "feature_types too long": ("codes", {"learner/feature_types": ["c"] * 9}),
    "learner null": ("regressor", {"learner": None}),
    "learner a list": ("regressor", {"learner": []}),
    "attributes null": ("regressor", {"learner/attributes": None}),
}


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
@pytest.mark.parametrize("edit", XGBOOST_EDITS)
def test_hostile_xgboost(edit, suffix):
    name, edits = XGBOOST_EDITS[edit]
    document = with_edits(json.loads(bytes_of(".json", name)), edits)
    data = json.dumps(document).encode() if suffix == ".json" else ubjson(document)
    assert_refused(data, **options_of(suffix, name))


@pytest.mark.parametrize("key", ["trees", "tree_info", "iteration_indptr"])
def test_xgboost_without_a_key(key):
    document = json.loads(bytes_of(".json", "early stopping"))
    del document["learner"]["gradient_booster"]["model"][key]
    assert_refused(json.dumps(document).encode())


def test_xgboost_labels_that_overlap():
    """Text that is read again and again must not become longer than the file."""
    kept = {"offsets": [0, 20_000] * 20_000, "values": [97] * 20_000}
    document = json.loads(bytes_of(".json", "categories"))
    data = json.dumps(with_edits(document, {MODEL + "cats/enc/4": kept})).encode()
    with little_memory():
        use(data)


def test_xgboost_categories_that_overlap():
    document = json.loads(bytes_of(".json", "categories"))
    edits = {
        ROOT + "categories": list(range(100_000)),
        ROOT + "categories_nodes": [0] * 1000,
        ROOT + "categories_segments": [0] * 1000,
        ROOT + "categories_sizes": [100_000] * 1000,
    }
    assert_refused(json.dumps(with_edits(document, edits)).encode())


@pytest.mark.parametrize("seed", range(10))
def test_xgboost_lists_that_overlap_at_random(seed):
    """Whatever part of the lists is read again, memory stays in proportion to the file."""
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(1, 20_000)), int(rng.choice([10, 1000, 50_000]))
    begin = rng.integers(0, size, n)
    sizes = rng.integers(0, size - begin + 1)
    sizes[-1] = rng.choice([sizes[-1], -int(sizes.sum())])
    edits = {
        ROOT + "categories": list(range(size)),
        ROOT + "categories_nodes": [0] * n,
        ROOT + "categories_segments": begin.tolist(),
        ROOT + "categories_sizes": sizes.tolist(),
    }
    document = json.loads(bytes_of(".json", "categories"))
    assert_refused(json.dumps(with_edits(document, edits)).encode())


def test_xgboost_base_score_nan():
    """A start that is no number is the model's own: so is the prediction."""
    document = json.loads(bytes_of(".json", "regressor"))
    data = json.dumps(with_edits(document, {PARAM + "base_score": "nan"})).encode()
    with contextlib.suppress(TreeoptError):
        assert np.isnan(load(data).predict(X)).all()


NESTED = {
    "JSON arrays": b'{"learner":' + b"[" * 200_000,
    "JSON objects": b'{"learner":' * 200_000,
    "closed": b'{"learner":' + b"[" * 90_000 + b"]" * 90_000 + b"}",
    "UBJSON arrays": b"{L" + struct.pack(">q", 7) + b"learner" + b"[" * 200_000,
    "UBJSON counted": b"{i\x07learner" + b"[#i\x01" * 100_000,
    "UBJSON objects": b"{i\x01a" * 100_000,
}


@pytest.mark.parametrize("name", NESTED)
def test_deep_nesting(name):
    assert_refused(NESTED[name])


def entry(value: bytes) -> bytes:
    return b"{i\x07learner" + value + b"}"


UBJSON_EDITS = {
    "string longer than the file": entry(b"SL" + struct.pack(">q", HUGE)),
    "string of negative length": entry(b"SL" + struct.pack(">q", -1)),
    "array longer than the file": entry(b"[$L#L" + struct.pack(">q", HUGE)),
    "array of negative length": entry(b"[$l#i\xff"),
    "array of 2**61 - 1": entry(b"[$D#L" + struct.pack(">q", 2**61 - 1)),
    "nulls without end": entry(b"[#L" + struct.pack(">q", HUGE) + b"Z" * 1000),
    "array of typed nulls": entry(b"[$Z#L" + struct.pack(">q", HUGE)),
    "array of strings": entry(b"[$S#i\x01"),
    "type without count": entry(b"[$l"),
    "length that is no integer": entry(b"SD" + struct.pack(">d", 1.0)),
    "unknown marker": entry(b"Q"),
    "huge number": entry(b"H"),
    "no-op": entry(b"N"),
    "typed object": entry(b"{$i#i\x00"),
    "key without value": b"{i\x07learner}",
    "no end": b"{i\x07learnerZ",
    "just a brace": b"{i",
}


@pytest.mark.parametrize("name", UBJSON_EDITS)
def test_hostile_ubjson(name):
    assert_refused(UBJSON_EDITS[name])


@pytest.mark.parametrize("rest", [b"\x00", b"}", b"Z"])
def test_trailing_bytes(rest):
    assert_refused(bytes_of(".ubj", "regressor") + rest)
    assert_refused(bytes_of(".json", "regressor") + rest)


def test_duplicate_keys():
    """The last one counts, as in XGBoost; it is checked as any other."""
    text = bytes_of(".json", "regressor").decode()
    document = json.loads(text)
    false = json.dumps(
        [99]
        * len(
            with_edits(document, {})["learner"]["gradient_booster"]["model"]["trees"][0][
                "left_children"
            ]
        )
    )
    use(text.replace('"left_children":', f'"left_children":{false},"left_children":').encode())
    assert_refused(
        text.replace('"right_children":', f'"left_children":{false},"right_children":').encode()
    )


def test_ubjson_is_read_as_written():
    document = json.loads(bytes_of(".json", "categories"))
    assert read_ubjson(ubjson(document)).keys() == document.keys()
    a, b = load(ubjson(document)), load(bytes_of(".json", "categories"))
    assert a.predict(FRAME).tobytes() == b.predict(FRAME).tobytes()


TreeEdit = tuple[str, str, str]

LIGHTGBM_EDITS: dict[str, TreeEdit] = {
    "leaves too many": ("regressor", "num_leaves", "7"),
    "leaves huge": ("regressor", "num_leaves", str(HUGE)),
    "leaves none": ("regressor", "num_leaves", "0"),
    "leaves negative": ("regressor", "num_leaves", "-1"),
    "leaves text": ("regressor", "num_leaves", "six"),
    "leaves empty": ("regressor", "num_leaves", ""),
    "leaves one": ("regressor", "num_leaves", "1"),
    "self-loop": ("regressor", "left_child", "0 -1 4 -4 -2"),
    "cycle": ("regressor", "left_child", "1 0 4 -4 -2"),
    "child out of range": ("regressor", "left_child", "99 -1 4 -4 -2"),
    "child huge": ("regressor", "left_child", f"{HUGE} -1 4 -4 -2"),
    "leaf out of range": ("regressor", "left_child", "1 -99 4 -4 -2"),
    "leaf huge": ("regressor", "right_child", f"2 {-HUGE} 3 -5 -6"),
    "leaf reached twice": ("regressor", "right_child", "2 -1 3 -5 -6"),
    "children short": ("regressor", "right_child", "2 -3"),
    "children fractions": ("regressor", "right_child", "2.5 -3 3 -5 -6"),
    "children NaN": ("regressor", "right_child", "nan -3 3 -5 -6"),
    "feature out of range": ("regressor", "split_feature", "4 0 0 0 0"),
    "feature negative": ("regressor", "split_feature", "-1 0 0 0 0"),
    "feature huge": ("regressor", "split_feature", f"{HUGE} 0 0 0 0"),
    "features short": ("regressor", "split_feature", "0"),
    "threshold NaN": ("regressor", "threshold", "nan 0 0 0 0"),
    "threshold -inf": ("regressor", "threshold", "-inf 0 0 0 0"),
    "thresholds short": ("regressor", "threshold", "0"),
    "threshold text": ("regressor", "threshold", "a 0 0 0 0"),
    "gain short": ("regressor", "split_gain", "1"),
    "values short": ("regressor", "leaf_value", "1 2"),
    "values none": ("regressor", "leaf_value", ""),
    "decisions short": ("regressor", "decision_type", "8"),
    "decisions text": ("regressor", "decision_type", "a b c d e"),
    "categories without sets": ("regressor", "decision_type", "9 8 8 8 8"),
    "max_feature_idx huge": ("regressor", "max_feature_idx", str(HUGE)),
    "max_feature_idx negative": ("regressor", "max_feature_idx", "-2"),
    "max_feature_idx none": ("regressor", "max_feature_idx", "-1"),
    "max_feature_idx text": ("regressor", "max_feature_idx", "x"),
    "feature_infos short": ("regressor", "feature_infos", "[0:1]"),
    "feature_infos none": ("regressor", "feature_infos", ""),
    "feature_infos text": ("regressor", "feature_infos", "a b c d"),
    "feature_infos huge": ("regressor", "feature_infos", f"[0:1] [0:1] [0:1] {2**70}"),
    "feature_names short": ("regressor", "feature_names", "a"),
    "sums none": ("regressor", "num_tree_per_iteration", "0"),
    "sums negative": ("regressor", "num_tree_per_iteration", "-1"),
    "sums huge": ("regressor", "num_tree_per_iteration", str(HUGE)),
    "sums text": ("regressor", "num_tree_per_iteration", "one"),
    "objective unknown": ("regressor", "objective", "mine"),
    "objective without its number": ("classifier", "objective", "binary sigmoid:x"),
    "num_cat text": ("categories", "num_cat", "x"),
    "sets short": ("categories", "cat_boundaries", "0"),
    "sets out of range": ("categories", "cat_boundaries", "0 99 100"),
    "sets descending": ("categories", "cat_boundaries", "1 0 0"),
    "sets negative": ("categories", "cat_boundaries", "-1 1 1"),
    "sets huge": ("categories", "cat_boundaries", f"0 {HUGE} {HUGE}"),
    "words none": ("categories", "cat_threshold", ""),
    "words huge": ("categories", "cat_threshold", str(HUGE)),
    "words negative": ("categories", "cat_threshold", "-1"),
    "is_linear": ("regressor", "is_linear", "1"),
}


def with_line(text: str, key: str, value: str | None) -> str:
    """Change (None: drop) the first line with a key."""
    line = "" if value is None else f"{key}={value}\n"
    return re.sub(rf"(?m)^{key}=.*\n", lambda _: line, text, count=1)


def first_with_sets(text: str) -> str:
    """Return a model of the first tree that splits by categories, and its header."""
    header, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    tree = next(t for t in trees if "\nnum_cat=0\n" not in t)
    rest = text[text.index("\nend of trees") :]
    return f"{header}\nTree={tree}{rest}"


@pytest.mark.parametrize("edit", LIGHTGBM_EDITS)
def test_hostile_lightgbm(edit):
    name, key, value = LIGHTGBM_EDITS[edit]
    text = bytes_of(".txt", name).decode()
    text = first_with_sets(text) if name == "categories" else text
    changed = with_line(text, key, value)
    assert changed != text
    assert_refused(changed.encode())


LIGHTGBM_KEYS = [
    *("num_tree_per_iteration", "max_feature_idx", "feature_names", "feature_infos"),
    *("num_leaves", "split_feature", "split_gain", "threshold", "decision_type"),
    *("left_child", "right_child", "leaf_value"),
]


@pytest.mark.parametrize("key", LIGHTGBM_KEYS)
def test_lightgbm_without_a_key(key):
    assert_refused(with_line(bytes_of(".txt", "regressor").decode(), key, None).encode())


@pytest.mark.parametrize("labels", ["[", "5", "[5, 6]", "null]", "[null, null]", "[[1], 2]"])
def test_lightgbm_labels(labels):
    text = bytes_of(".txt", "categories").decode()
    assert_refused(re.sub("pandas_categorical:.*", f"pandas_categorical:{labels}", text).encode())


@pytest.mark.parametrize("labels", ["{}", '{"a": 1, "b": 2}', '["ab", "cd"]', '[{"a": 1}, [[]]]'])
def test_lightgbm_labels_that_are_no_lists(labels):
    """Strings and objects are no lists of labels, nor are lists labels."""
    text = bytes_of(".txt", "categories").decode()
    assert_refused(re.sub("pandas_categorical:.*", f"pandas_categorical:{labels}", text).encode())


def lightgbm_sets(boundaries: list[int], sets: list[int], words: int) -> bytes:
    """Return a model of one tree whose splits read these sets of a feature."""
    n = len(sets)
    tree = {
        "num_leaves": n + 1,
        "num_cat": len(boundaries) - 1,
        "split_feature": " ".join(["0"] * n),
        "split_gain": " ".join(["1"] * n),
        "threshold": " ".join(map(str, sets)),
        "decision_type": " ".join(["1"] * n),
        "left_child": " ".join(str(-k - 1) for k in range(n)),
        "right_child": " ".join([*map(str, range(1, n)), str(-n - 1)]),
        "leaf_value": " ".join(["1"] * (n + 1)),
        "cat_boundaries": " ".join(map(str, boundaries)),
        "cat_threshold": " ".join(["4294967295"] * words),
    }
    text = with_line(bytes_of(".txt", "regressor").decode(), "tree_sizes", "1")
    start, end = text.index("\nTree=0"), text.index("\nend of trees")
    block = "\nTree=0\n" + "".join(f"{k}={v}\n" for k, v in tree.items())
    return (text[:start] + block + text[end:]).encode()


def test_lightgbm_sets_that_overlap():
    """Sets that are read again and again do not fill the memory."""
    assert_refused(lightgbm_sets([0, 20_000], [0] * 200, 20_000))
    assert_refused(lightgbm_sets([0, 20_000] * 200, list(range(0, 400, 2)), 20_000))
    assert use(lightgbm_sets([0, 1, 3, 3], [2, 0, 1], 3))


@pytest.mark.parametrize("seed", range(10))
def test_lightgbm_sets_at_random(seed):
    """Sets of any order are read or refused, with memory in proportion to the file."""
    rng = np.random.default_rng(seed)
    n, words = int(rng.integers(1, 200)), int(rng.choice([3, 100, 2000]))
    boundaries = rng.integers(0, words + 1, n + 1)
    if rng.random() < 0.5:
        boundaries.sort()
    sets = rng.permutation(n) if rng.random() < 0.5 else rng.integers(0, n, n)
    sound = (np.diff(boundaries) >= 0).all() and np.unique(sets).size == n
    with little_memory():
        assert use(lightgbm_sets(boundaries.tolist(), sets.tolist(), words)) == sound


def test_lightgbm_noise():
    data = bytes_of(".txt", "regressor")
    for broken in (
        data[:200] + bytes(range(256)) + data[200:],
        data.replace(b"threshold=", b"threshold=\xff\xfe"),
        data.replace(b"end of trees", b"end of"),
        data.replace(b"\n", b"\r"),
        b"tree\n" + bytes(1000),
        b"tree\n\nend of trees",
        b"tree\n\nTree=0\nend of trees",
    ):
        assert_refused(broken)
    assert use(data.replace(b"\n", b"\r\n"))


@pytest.mark.parametrize("kind", [".txt", ".json"])
def test_number_of_trees(kind):
    """One tree more or less than the file claims: of which class the next ones are, is not sure."""
    if kind == ".txt":
        text = bytes_of(".txt", "regressor").decode()
        start, end = text.index("\nTree=1"), text.index("\nTree=2")
        wrong = [text[:end] + text[start:end] + text[end:], text[:start] + text[end:]]
    else:
        document = json.loads(bytes_of(".json", "regressor"))
        trees = document["learner"]["gradient_booster"]["model"]["trees"]
        trees.append(trees[0])
        wrong = [json.dumps(document)]
    for text in wrong:
        with pytest.raises(ModelFormatError, match="trees and has"):
            load(text.encode())


def test_lightgbm_that_ends_in_its_parameters():
    """What follows them are the labels of categories, which would be lost."""
    text = bytes_of(".txt", "regressor").decode()
    with pytest.raises(ModelFormatError, match="parameters"):
        load(text[: text.index("\nend of parameters")].encode())
