"""Model files: what is read, what is refused, and no damage that does harm."""

import io
import json
import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import joblib
import lightgbm as lgb
import numpy as np
import pytest
import skops.io
import xgboost as xgb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

import treeopt
from tests.support.files import (
    FILES,
    FULL,
    LGB,
    LIBRARIES,
    SUFFIXES,
    X,
    Y,
    assert_reads,
    bytes_of,
    case_of,
    model_of,
    options_of,
    own_prediction,
)
from tests.support.fuzz import damaged, load, use, zipped
from treeopt import InputError, ModelFormatError, UnsupportedModelError


@pytest.mark.parametrize(("suffix", "name"), FILES)
def test_round_trip(suffix, name):
    case, model = case_of(suffix, name), model_of(SUFFIXES[suffix], name)
    data = bytes_of(suffix, name)
    # The text of a classifier does not say that it was one, nor is it needed: it knows one class.
    options = {"output": case.output, "class_index": case.class_index}
    assert_reads(case, model, load(data, **options))


PICKLED = [("XGBoost", "categories"), ("LightGBM", "categories"), ("scikit-learn", "hist")]
WAYS = {
    "pickle": lambda model, path: path.write_bytes(pickle.dumps(model)),
    "joblib": joblib.dump,
    **{
        kind: lambda model, path, kind=kind: joblib.dump(model, path, compress=(kind, 3))
        for kind in ("zlib", "gzip", "bz2", "xz", "lzma")
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("library", "name"), PICKLED)
def test_pickles_of_ones_own(library, name, way, tmp_path):
    path, case, model = tmp_path / "model", LIBRARIES[library][name], model_of(library, name)
    WAYS[way](model, path)
    with pytest.raises(InputError, match=r"pickle.*trusted=True"):
        treeopt.load_model(path)
    ensemble = treeopt.load_model(path, trusted=True)
    assert ensemble.predict(case.data).tobytes() == own_prediction(model, case, case.data).tobytes()


@pytest.mark.parametrize("way", WAYS)
def test_damaged_pickle(way, tmp_path):
    path = tmp_path / "model"
    WAYS[way](model_of("scikit-learn", "tree"), path)
    data = path.read_bytes()
    for size in (3, 20, len(data) // 2):
        assert not use(data[:size], trusted=True)
    if way not in ("pickle", "joblib"):
        half = len(data) // 2
        assert not use(data[:half] + b"\x07\x00\xff" + data[half + 3 :], trusted=True)


def test_files_need_no_library():
    """Reading the files of XGBoost and LightGBM does not import these libraries."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".json", ".ubj", ".txt"):
            Path(folder, f"model{suffix}").write_bytes(bytes_of(suffix, "categories"))
        code = (
            "import sys; sys.modules.update(xgboost=None, lightgbm=None, skops=None, pandas=None)\n"
            "import pathlib, numpy, treeopt\n"
            "for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
            "    print(treeopt.load_model(path).predict(numpy.ones((1, 6)))[0].item().hex())\n"
        )
        run = [sys.executable, "-c", code, folder]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
    # In the order of their names: JSON, text, UBJSON.
    loaded = [load(bytes_of(suffix, "categories")) for suffix in (".json", ".txt", ".ubj")]
    assert done.stdout.split() == [e.predict(np.ones((1, 6)))[0].item().hex() for e in loaded]


def saved(model: Any, suffix: str, data: Any = X, y: Any = Y) -> bytes:
    """Return the file of a model that is fitted here."""
    model.fit(data, y)
    if suffix == ".txt":
        return model.booster_.model_to_string().encode()
    return bytes(model.get_booster().save_raw("json"))


def pickled() -> bytes:
    return pickle.dumps(model_of("scikit-learn", "tree"))


def joblib_gzip() -> bytes:
    buffer = io.BytesIO()
    joblib.dump(model_of("scikit-learn", "tree"), buffer, compress=("gzip", 3))
    return buffer.getvalue()


def dump_model() -> bytes:
    return json.dumps(model_of("LightGBM", "booster").dump_model()).encode()


def empty_booster() -> bytes:
    return saved(xgb.XGBRegressor(n_estimators=0), ".json")


REFUSED = {
    "pickle": (pickled, InputError, "trusted=True"),
    "compressed pickle": (joblib_gzip, InputError, "trusted=True"),
    "pickle of protocol 0": (
        lambda: pickle.dumps({"a": 1}, protocol=0),
        InputError,
        "neither an XGBoost",
    ),
    "dump_model": (dump_model, InputError, "dump_model JSON, which lacks digits"),
    "empty": (lambda: b"", InputError, "neither an XGBoost"),
    "text": (lambda: b"a letter\n", InputError, "neither an XGBoost"),
    "a list": (lambda: b"[1, 2]", InputError, "neither an XGBoost"),
    "an object": (lambda: b"{}", ModelFormatError, "damaged"),
    "another object": (lambda: b'{"learner": 1}', ModelFormatError, "damaged"),
    "ONNX": (lambda: b"\x08\x08\x12\x08skl2onnx", InputError, "neither an XGBoost"),
    "an archive": (lambda: zipped({"a.txt": b"a"}), ModelFormatError, "schema.json"),
    "half an archive": (lambda: b"PK\x03\x04", ModelFormatError, "cannot be unpacked"),
    "no trees": (empty_booster, ModelFormatError, "no trees"),
    "gblinear": (
        lambda: saved(xgb.XGBRegressor(booster="gblinear", n_jobs=1), ".json", FULL),
        UnsupportedModelError,
        "linear model",
    ),
    "linear trees": (
        lambda: saved(lgb.LGBMRegressor(linear_tree=True, **LGB), ".txt"),
        UnsupportedModelError,
        "linear_tree=False",
    ),
    "one of several": (
        lambda: bytes_of(".ubj", "two outputs"),
        InputError,
        "Pass class_index=0..1",
    ),
    "XGBoost in skops": (
        lambda: skops.io.dumps(model_of("XGBoost", "regressor")),
        UnsupportedModelError,
        "save_model",
    ),
    "KMeans in skops": (
        lambda: skops.io.dumps(KMeans(2, n_init=1).fit(FULL)),
        UnsupportedModelError,
        "KMeans",
    ),
    "a function in skops": (
        lambda: skops.io.dumps(np.median),
        UnsupportedModelError,
        "numpy.median",
    ),
    "a list in skops": (lambda: skops.io.dumps([1, 2]), UnsupportedModelError, "list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    make, error, message = REFUSED[name]
    with pytest.raises(error, match=re.escape(message)):
        load(make())


@pytest.mark.parametrize("name", ["", "missing.json"])
def test_no_file(name, tmp_path):
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        treeopt.load_model(tmp_path / name)


def test_options_are_checked_first():
    with pytest.raises(InputError, match="output is 'margin'"):
        treeopt.load_model("missing.json", output="margin")


@pytest.mark.parametrize(("suffix", "name"), FILES)
def test_cut_off(suffix, name):
    data = bytes_of(suffix, name)
    for size in (len(data) // 3, len(data) // 2, len(data) - 30):
        assert not use(data[:size], **options_of(suffix, name)) or suffix == ".txt"


FUZZED = [(suffix, name) for suffix, name in FILES if name not in ("class 0", "margin")]


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_damage(suffix, data):
    """No damage whatsoever leads to anything but treeopt's own errors."""
    name = data.draw(st.sampled_from([name for kind, name in FUZZED if kind == suffix]))
    seed = data.draw(st.integers(0, 2**32))
    use(damaged(bytes_of(suffix, name), suffix, seed), **options_of(suffix, name))
