"""The loader: shipped files, search order, shapes, and errors that help."""

import csv
import dataclasses
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from treeopt import datasets
from treeopt.datasets import Dataset, DatasetNotFoundError, available, load

SHA256 = {
    "bodyfat": "0110d4968f9068d9a8e93431b3468ac87341d7fc51b9eaca7e0cce02b3d15aa3",
    "boston": "60b25adbead7b9d0bf77f4b8c3b403e3fe82b950f913c5ca1cc5348b857e7654",
    "mpg": "994ac05e05259e692e6d9ccdc9303539f742bbec3b9b721b231213cb2a5898d3",
    "pima_diabetes": "5be40c1ef37dc8e703be2271f2663c74782bcf52642b720a171de74b6c6bf2d1",
}
SHAPES = {
    "bodyfat": (252, 14),
    "boston": (506, 13),
    "mpg": (234, 9),
    "pima_diabetes": (768, 8),
}
MEANS = {
    "bodyfat": 19.1508,
    "boston": 22.5328,
    "mpg": 16.8590,
    "pima_diabetes": 268 / 768,
}
# Data sets that are not shipped: shape and mean of the target.
EXTRA = {
    "a1a": ((32561, 123), None),
    "fourclass": ((862, 2), (307 - 555) / 862),
    "german_numer": ((1000, 24), -0.4),
    "ijcnn1": ((141691, 22), None),
    "pendigits": ((10992, 16), None),
    "sk_diabetes": ((442, 10), 152.1335),
    "svmguide3": ((1284, 22), (337 - 947) / 1284),
}

# The folder given from outside, remembered before the fixture hides it.
OUTSIDE = os.environ.get("TREEOPT_DATA")


@pytest.fixture(autouse=True)
def no_outside_data(monkeypatch):
    monkeypatch.delenv("TREEOPT_DATA", raising=False)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty folder that TREEOPT_DATA names."""
    monkeypatch.setenv("TREEOPT_DATA", str(tmp_path))
    return tmp_path


# --- the shipped files


@pytest.mark.parametrize("name", sorted(SHA256))
def test_shipped_file_has_the_recorded_hash(name):
    content = (datasets._shipped_folder() / f"{name}.csv").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256[name]


def test_data_readme_states_every_hash():
    text = (datasets._shipped_folder() / "README.md").read_text(encoding="utf-8")
    assert all(digest in text for digest in SHA256.values())


def test_available_without_a_folder():
    assert available() == tuple(sorted(SHA256))


@pytest.mark.parametrize("name", sorted(SHA256))
def test_shape_type_and_mean(name):
    data = load(name)
    assert isinstance(data, Dataset)
    assert data.name == name
    assert data.X.shape == SHAPES[name]
    assert data.y.shape == SHAPES[name][:1]
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert np.isfinite(data.X).all() and np.isfinite(data.y).all()
    assert data.y.mean() == pytest.approx(MEANS[name], abs=5e-5)
    assert len(set(data.feature_names)) == SHAPES[name][1]


@pytest.mark.parametrize("name", ["bodyfat", "boston", "pima_diabetes"])
def test_values_are_those_of_the_file(name):
    path = datasets._shipped_folder() / f"{name}.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    data = load(name)
    np.testing.assert_array_equal(np.column_stack([data.X, data.y]), table)
    header = path.read_text(encoding="utf-8").splitlines()[0].split(",")
    assert (*data.feature_names, "target") == tuple(header)


def test_facts_the_data_readme_tells():
    boston = load("boston")
    assert (boston.y == 50).sum() == 16
    pima = load("pima_diabetes").frame()
    zeros = (pima[["glucose", "pressure", "triceps", "insulin", "mass"]] == 0).sum()
    assert zeros.tolist() == [5, 35, 227, 374, 11]
    bodyfat = load("bodyfat")
    frame = bodyfat.frame()
    assert frame["height"][41] == 29.5
    assert bodyfat.y[181] == 0.0
    gap = np.abs(495 / frame["density"] - 450 - bodyfat.y)
    assert (np.flatnonzero(gap > 0.15) + 1).tolist() == [6, 48, 76, 96, 169, 182, 200]


# --- mpg


def test_mpg_codes_labels_in_sorted_order():
    data = load("mpg")
    with (datasets._shipped_folder() / "mpg.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    levels = {"manufacturer": 15, "model": 38, "trans": 10, "drv": 3, "fl": 5, "class": 7}
    for j, feature in enumerate(data.feature_names):
        column = [row[feature] for row in rows]
        if feature in levels:
            labels = sorted(set(column))
            assert len(labels) == levels[feature]
            assert [labels[int(code)] for code in data.X[:, j]] == column
        else:
            assert data.X[:, j].tolist() == [float(cell) for cell in column]
    assert data.y.tolist() == [float(row["cty"]) for row in rows]
    assert not {"cty", "hwy"} & set(data.feature_names)


# --- the object


def test_frame_is_a_copy_of_x_with_names():
    data = load("bodyfat")
    frame = data.frame()
    assert tuple(frame.columns) == data.feature_names
    np.testing.assert_array_equal(frame.to_numpy(), data.X)
    before = data.X.copy()
    frame.iloc[0, 0] = -1.0
    np.testing.assert_array_equal(data.X, before)


def test_frame_without_pandas_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas\. Install it"):
        load("boston").frame()


def test_dataset_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        load("boston").name = "other"


def test_each_call_reads_anew():
    first = load("boston")
    first.X[:] = 0.0
    assert load("boston").X.any()


# --- the search order


def save_npz(path: Path, value: float) -> None:
    np.savez(path, X=np.full((3, 2), value, dtype=np.float32), y=np.array([0, 1, 2], np.uint8))


def test_npz_from_the_folder(folder):
    save_npz(folder / "tiny.npz", 7.0)
    data = load("tiny")
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.X.tolist() == [[7.0, 7.0]] * 3
    assert data.y.tolist() == [0.0, 1.0, 2.0]
    assert data.feature_names == ("x0", "x1")
    assert available() == tuple(sorted([*SHA256, "tiny"]))


def test_csv_from_the_folder(folder):
    (folder / "tiny.csv").write_text("a,b,target\n1,2.5,0\n3,nan,1\n", encoding="utf-8")
    data = load("tiny")
    np.testing.assert_array_equal(data.X, [[1.0, 2.5], [3.0, np.nan]])
    assert data.y.tolist() == [0.0, 1.0]
    assert data.feature_names == ("a", "b")


def test_shipped_data_come_before_the_folder(folder):
    save_npz(folder / "boston.npz", 7.0)
    (folder / "mpg.csv").write_text("a,target\n1,0\n", encoding="utf-8")
    assert load("boston").X.shape == SHAPES["boston"]
    assert load("mpg").X.shape == SHAPES["mpg"]


def test_csv_comes_before_npz_in_one_folder(folder):
    save_npz(folder / "tiny.npz", 7.0)
    (folder / "tiny.csv").write_text("a,target\n1,0\n", encoding="utf-8")
    assert load("tiny").X.tolist() == [[1.0]]


def test_data_inside_the_package_come_before_data_beside_it(monkeypatch, tmp_path):
    package = tmp_path / "treeopt"
    package.mkdir()
    beside = tmp_path / "data"
    beside.mkdir()
    (beside / "tiny.csv").write_text("a,target\n1,0\n", encoding="utf-8")
    monkeypatch.setattr(datasets, "_PACKAGE", package)
    assert load("tiny").X.tolist() == [[1.0]]
    inside = package / "data"
    inside.mkdir()
    (inside / "tiny.csv").write_text("a,target\n2,0\n", encoding="utf-8")
    assert load("tiny").X.tolist() == [[2.0]]


@pytest.mark.skipif(not OUTSIDE, reason="TREEOPT_DATA is not set")
@pytest.mark.parametrize("name", sorted(EXTRA))
def test_outside_data(monkeypatch, name):
    monkeypatch.setenv("TREEOPT_DATA", OUTSIDE)
    if name not in available():
        pytest.skip(f"TREEOPT_DATA does not hold {name}")
    shape, mean = EXTRA[name]
    data = load(name)
    assert data.X.shape == shape
    assert data.y.shape == shape[:1]
    if mean is not None:
        assert data.y.mean() == pytest.approx(mean, abs=5e-5)


# --- errors


def test_missing_name_without_a_folder():
    with pytest.raises(DatasetNotFoundError) as caught:
        load("pendigits")
    assert isinstance(caught.value, FileNotFoundError)
    assert str(caught.value) == (
        "there is no data set 'pendigits'. "
        "Available: bodyfat, boston, mpg, pima_diabetes. "
        "TREEOPT_DATA is not set. "
        "Set TREEOPT_DATA to a folder holding pendigits.csv or pendigits.npz."
    )


def test_missing_name_with_a_folder(folder):
    with pytest.raises(DatasetNotFoundError, match="which does not hold it"):
        load("pendigits")


def test_missing_name_with_a_wrong_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TREEOPT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetNotFoundError, match="which is not a folder"):
        load("pendigits")
    assert available() == tuple(sorted(SHA256))


@pytest.mark.parametrize("name", ["", "../data/boston", "boston.csv", "BOSTON"])
def test_only_plain_names_are_accepted(name):
    with pytest.raises(DatasetNotFoundError):
        load(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target,a\n1,2\n", "the last column of bad.csv is 'a'"),
        ("a,target\n1,2\nx,3\n", "column 'a' of bad.csv has 'x' in line 3"),
        ("a,target\n1,2\n1\n", "line 3 of bad.csv has 1 fields, the header 2"),
        ("a,target\n", "bad.csv has no rows"),
        ("", "bad.csv has no rows"),
    ],
)
def test_bad_csv(folder, text, message):
    (folder / "bad.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load("bad")


def test_npz_without_a_target(folder):
    np.savez(folder / "bad.npz", X=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="has no array 'y', only"):
        load("bad")


@pytest.mark.parametrize(("shape_x", "shape_y"), [((2,), (2,)), ((2, 2), (3,)), ((2, 2), (2, 1))])
def test_npz_with_wrong_shapes(folder, shape_x, shape_y):
    np.savez(folder / "bad.npz", X=np.zeros(shape_x), y=np.zeros(shape_y))
    with pytest.raises(ValueError, match=r"Store X as \(n, p\)"):
        load("bad")


# --- imports


def test_loading_imports_nothing_heavy():
    # The module alone, so that the package's own imports do not count.
    code = (
        "import sys, importlib.util as u\n"
        f"s = u.spec_from_file_location('datasets', {datasets.__file__!r})\n"
        "m = u.module_from_spec(s); sys.modules['datasets'] = m; s.loader.exec_module(m)\n"
        "m.load('mpg')\n"
        "print(sorted({'pandas', 'sklearn', 'numba', 'scipy'} & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
