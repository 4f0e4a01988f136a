"""Reading model files, which are not trusted, into an `Ensemble`."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any, TypeAlias

from treeopt.adapters import check_output, from_model
from treeopt.arithmetic import quiet
from treeopt.errors import InputError, ModelFormatError, TreeoptError
from treeopt.model.joint import Model

ClassIndex: TypeAlias = int | tuple[int, int] | None

WRAPPERS = {"classifier": "XGBClassifier", "regressor": "XGBRegressor", "ranker": "XGBRanker"}

COMPRESSED = (
    *(b"\x1f\x8b", b"BZ", b"\xfd7zXZ", b"]\x00", b"\x04\x22\x4d\x18"),
    *(b"x\x01", b"x\x5e", b"x\x9c", b"x\xda"),
)
"""First bytes of compressed pickles of joblib."""


@quiet
def load_model(
    path: str | os.PathLike[str],
    *,
    output: str = "auto",
    class_index: ClassIndex = None,
    trusted: bool = False,
) -> Model:
    """Read a saved model into an `Ensemble`.

    XGBoost and LightGBM need not be installed. The format is detected from the first bytes: JSON or
    UBJSON of XGBoost, text of LightGBM, or a skops file of scikit-learn. An XGBoost file is read as
    the kind of model that it was saved from (Booster, regressor, classifier or ranker), a LightGBM
    file as a Booster.

    Parameters
    ----------
    path : path-like
        The file.
    output, class_index
        As in `from_model`.
    trusted : bool
        Whether to load a pickle (also of joblib). Loading a pickle runs any code that it contains:
        use it only for files that you made yourself.

    Raises
    ------
    ModelFormatError
        If the file is damaged.
    InputError
        If it is not a model file, or a pickle without ``trusted=True``.

    Examples
    --------
    >>> import pathlib, tempfile, joblib, treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0.0], [1.0]], [2.0, 3.0])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.joblib"
    >>> _ = joblib.dump(model, path)
    >>> treeopt.load_model(path, trusted=True).predict([[1.0]])
    array([3.])
    """
    check_output(output)
    data = Path(path).read_bytes()
    read = _reader(data)
    if read is None:
        raise InputError(
            f"path is {str(path)!r}: neither an XGBoost model (JSON, UBJSON), nor one of LightGBM "
            "(text), nor a skops file. Save the model with its save_model, or with skops."
        )
    if read is _pickle and not trusted:
        raise InputError(
            f"path is {str(path)!r}, which begins like a pickle: loading one runs whatever code is "
            "in it. Pass trusted=True if you made it yourself; save other models uncompressed."
        )
    try:
        ensemble: Model = read(data, output, class_index)
        return ensemble
    except TreeoptError as error:
        if isinstance(error, ModelFormatError):
            raise ModelFormatError(f"{str(path)!r} is damaged: {error} Save it anew.") from error
        raise
    except _DAMAGE as error:
        what = f"{type(error).__name__}: {error}"
        raise ModelFormatError(f"{str(path)!r} is damaged ({what}). Save it anew.") from error


_DAMAGE = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError),
    *(TypeError, ValueError, EOFError),
)
"""Exceptions that reading a damaged file may raise."""


def _reader(data: bytes) -> Any:
    """Return the reader for data with these first bytes; None if the format is unknown."""
    if data.startswith(b"tree\n") or data.startswith(b"tree\r\n"):
        return _lightgbm
    if data.startswith(b"PK\x03\x04"):
        return _skops
    if data.startswith((b"{L", b"{l", b"{i", b"{U", b"{I")):
        return _ubjson
    if data.lstrip().startswith(b"{"):
        return _json
    if data[:1] == b"\x80" or data.startswith(COMPRESSED):
        return _pickle
    return None


def _json(data: bytes, output: str, class_index: ClassIndex) -> Model:
    return _xgboost(json.loads(data), output, class_index)


def _ubjson(data: bytes, output: str, class_index: ClassIndex) -> Model:
    from treeopt.adapters.ubjson import loads

    return _xgboost(loads(data), output, class_index)


def _xgboost(document: Any, output: str, class_index: ClassIndex) -> Model:
    from treeopt.adapters.xgboost import Wrapper, read

    if "tree_info" in document:
        raise InputError(
            "path is LightGBM's dump_model JSON, which lacks digits. Save the model with "
            "booster.save_model('model.txt')."
        )
    if "learner" not in document and "Model" in document:
        document = document["Model"]  # the pickled form, with its configuration
    attributes = document["learner"].get("attributes", {})
    wrapper = Wrapper()
    if "scikit_learn" in attributes:
        kind = json.loads(attributes["scikit_learn"]).get("_estimator_type")
        best = attributes.get("best_iteration")
        last = None if best is None else int(best)
        if last is not None and last < 0:
            raise ModelFormatError(f"best_iteration is {last}.")
        name = WRAPPERS.get(kind, "XGBModel")
        wrapper = Wrapper(name, True, is_classifier=kind == "classifier", last=last)
    return read(document, wrapper, output, class_index)


def _lightgbm(data: bytes, output: str, class_index: ClassIndex) -> Model:
    from treeopt.adapters.lightgbm import read

    text = data.decode("utf-8").replace("\r\n", "\n")
    if "\nend of trees" not in text:
        raise ModelFormatError("it ends before its trees do.")
    return read(text, "Booster", output, class_index)


def _skops(data: bytes, output: str, class_index: ClassIndex) -> Model:
    from treeopt.adapters.skops_files import load

    return from_model(load(data), output=output, class_index=class_index)


def _pickle(data: bytes, output: str, class_index: ClassIndex) -> Model:
    import joblib

    try:
        model = joblib.load(io.BytesIO(data))
    except ImportError:
        raise
    except Exception as error:  # whatever the code in the pickle ends in
        raise ModelFormatError(f"{type(error).__name__}: {error}.") from error
    return from_model(model, output=output, class_index=class_index)
