"""Points as users see them: series and frames with their names, types and labels."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.errors import InputError
from treeopt.model.categories import Categories, truncated
from treeopt.model.difference import Difference
from treeopt.model.ensemble import Ensemble
from treeopt.model.inputs import spelled
from treeopt.model.softmax import Softmax
from treeopt.types import Array

if TYPE_CHECKING:
    from treeopt.model.joint import Inputs, Model


class Columns(NamedTuple):
    """The columns of a frame that a user has passed, in the model's order.

    Attributes
    ----------
    labels : tuple
        What the frame calls them.
    types : tuple
        Their types.
    """

    labels: tuple[Any, ...]
    types: tuple[Any, ...]


def columns_of(ensemble: Inputs, frame: Any) -> Columns | None:
    """Return the columns of a frame; None if it is not a frame or does not fit the model."""
    if not (hasattr(frame, "columns") and hasattr(frame, "iloc")):
        return None
    names = ensemble.feature_names or tuple(map(str, frame.columns))
    found = {
        spelled(str(label), names): (label, kind)
        for label, kind in zip(frame.columns, frame.dtypes, strict=True)
    }
    if set(found) != set(names) or len(frame.columns) != ensemble.n_features:
        return None
    labels, types = zip(*(found[name] for name in names), strict=True)
    return Columns(labels, types)


def with_labels(model: Model, columns: Columns | None) -> Model:
    """Return a model with the labels of its categories, where only a frame can tell them."""
    if isinstance(model, Difference):
        plus, minus = (_with_labels(own, columns) for own in model.sums)
        return replace(model, plus=plus, minus=minus)
    if isinstance(model, Softmax):
        return replace(model, sums=tuple(_with_labels(own, columns) for own in model.sums))
    return _with_labels(model, columns)


def _with_labels(ensemble: Ensemble, columns: Columns | None) -> Ensemble:
    """Return an ensemble with the labels of its categories."""
    found = {} if columns is None else _labels_by_frame(ensemble, columns)
    kept = {j: known.labels for j, known in ensemble.categories.items() if known.labels}
    if not found or found == kept:
        return ensemble
    categories = dict(ensemble.categories)
    for j, known in ensemble.categories.items():
        if ensemble.frame_labels and j not in found:
            categories[j] = replace(known, labels=None, complete=False)
    # Sets count their members among the categories of a feature, of which there may be more now.
    members = ensemble.set_member.copy()
    by_set = ensemble.category_set >= 0
    owner = np.full(ensemble.set_start.size - 1, -1)
    owner[ensemble.category_set[by_set]] = ensemble.feature[by_set]
    owner = np.repeat(owner, np.diff(ensemble.set_start))
    for j, labels in found.items():
        before = categories.get(j, truncated([0], ensemble.input_dtype))
        categories[j] = before.with_labels(labels, ensemble.input_dtype)
        number = np.append(np.searchsorted(categories[j].value, before.value), -1)
        members[owner == j] = number[members[owner == j]]
    return replace(ensemble, categories=categories, set_member=members)


def _labels_by_frame(ensemble: Ensemble, columns: Columns) -> dict[int, tuple[Any, ...]]:
    """Return the labels of columns, where the model does not keep them, or not for which columns.

    LightGBM keeps the labels of all ``category`` columns in their order. Models that were trained
    on arrays of codes, and old files of XGBoost, keep none: these are read by the frame's codes.
    """
    own = {j: kind.categories for j, kind in enumerate(columns.types) if has_labels(kind)}
    if ensemble.frame_labels is not None:
        fits = len(own) == len(ensemble.frame_labels)
        return dict(zip(own, ensemble.frame_labels, strict=True)) if fits else {}
    known = ensemble.categories
    return {
        j: tuple(labels.tolist())
        for j, labels in own.items()
        if j in known and known[j].recode == "codes" and not known[j].labels
    }


def has_labels(kind: Any) -> bool:
    """Tell whether a column of this type holds labels of categories."""
    return hasattr(kind, "categories")


def labeled(point: Array, ensemble: Inputs) -> list[Any]:
    """Return the values of a point, with labels where categories have them."""
    values: list[Any] = point.tolist()
    for column, known in ensemble.categories.items():
        at = known.index_of(point[[column]])[0]
        if known.labels is not None and 0 <= at < len(known.labels):
            values[column] = known.labels[at]
    return values


def named(point: Array, ensemble: Inputs, columns: Columns | None = None) -> Any:
    """Return a point as a series; as an array without column names or without pandas."""
    names = ensemble.feature_names if columns is None else columns.labels
    if names is None:
        return point.copy()
    try:
        import pandas as pd
    except ImportError:
        return point.copy()
    values = labeled(point, ensemble)
    # Beside floats pandas would round labels that are larger integers than they can hold.
    large = any(isinstance(value, int) and value != float(value) for value in values)
    return pd.Series(values, index=pd.Index(names), dtype=object if large else None)


def has_pandas() -> bool:
    """Tell whether pandas is installed."""
    return find_spec("pandas") is not None


def in_types(point: Array, lower: Array, upper: Array, columns: Columns | None) -> Array:
    """Return a point whose numbers the columns of a frame can hold, as far as bounds allow."""
    point = point.copy()
    for j, kind in enumerate(() if columns is None else columns.types):
        own = _in_type(kind, point[j])
        if own is not None and lower[j] <= own <= upper[j]:
            point[j] = own
    return point


def frame_of(point: Array, ensemble: Inputs, columns: Columns | None = None) -> Any:
    """Return a point as a frame of one row that the model's own ``predict`` takes.

    Names and types of its columns are those of the frame that the user has passed; without one,
    those of the model, with the labels that it keeps. A number that its type cannot hold stays
    float64.
    """
    try:
        import pandas as pd
    except ImportError:
        raise InputError(
            "a frame needs pandas, which is not installed. Install it, or use x."
        ) from None
    why_not = no_frame(ensemble)
    if why_not:
        raise InputError(why_not)
    n = ensemble.n_features
    labels, types = columns or Columns(tuple(ensemble.feature_names or range(n)), (None,) * n)
    with_labels = [
        j
        for j, known in ensemble.categories.items()
        # Models that were trained on arrays want numbers, where these are the labels.
        if known.labels and (columns or ensemble.feature_names or not known.are_values)
    ]
    casts = {
        j: kind for j, kind in enumerate(types) if j not in with_labels and _holds(kind, point[j])
    }
    frame = pd.DataFrame(point[None, :], copy=True)
    frame = frame.astype(casts) if casts else frame
    for j, kind in enumerate(types):
        if np.isnan(point[j]) and hasattr(kind, "numpy_dtype") and j not in casts:
            frame.isetitem(j, pd.array([None], dtype=kind))
    values = labeled(point, ensemble)
    for j in with_labels:
        frame.isetitem(j, _label_column(values[j], types[j], ensemble.categories[j]))
    frame.columns = pd.Index(labels)
    return frame


def no_frame(ensemble: Inputs) -> str:
    """Return why the model's own ``predict`` takes no frame; empty if it takes one."""
    if ensemble.unsure_of_labels:
        return (
            f"it is unknown which columns of {ensemble.source} have labels, so no frame can be "
            "made for it. Pass bounds as a frame like the one that it was trained on."
        )
    for column, known in ensemble.categories.items():
        if known.recode == "refused":
            names = ensemble.feature_names or range(ensemble.n_features)
            return (
                f"{ensemble.source} keeps the labels of column {names[column]!r} in a form that "
                "XGBoost itself misreads (they are not ASCII), so it takes no frame. Use x, whose "
                "categories are codes, as an array; or train with labels in ASCII."
            )
    return ""


def _label_column(label: Any, kind: Any, known: Categories) -> Any:
    """Return a column of one label, NaN if it is missing, in the type of the user's frame."""
    import pandas as pd

    is_nan = isinstance(label, float) and np.isnan(label)
    if kind is None and None in (known.labels or ()):
        kind = np.dtype(object)  # which is a label to scikit-learn, but not to pandas
    if kind is not None and not has_labels(kind):
        cannot = is_nan and getattr(kind, "kind", "O") in "biu"
        return pd.Series([label], dtype=np.float64 if cannot else kind)
    if kind is not None and not (is_nan or label in kind.categories):
        # Of large integers, scikit-learn may have kept the floats next to them.
        number = known.number_of.get(label)
        same = [own for own in kind.categories.tolist() if known.find(own) == number]
        label, kind = (same[0], kind) if same else (label, None)
    if kind is None:
        kind = pd.CategoricalDtype(pd.Index(list(known.labels or ()), dtype=known.label_dtype))
    return pd.Series(pd.Categorical([label], dtype=kind))


def _holds(kind: Any, value: float) -> bool:
    """Tell whether a type of numbers other than float64 can hold a value."""
    own = _in_type(kind, value)
    return own is not None and (own == value or np.isnan(own))


def _in_type(kind: Any, value: float) -> float | None:
    """Return a value in a type of numbers; None if it holds no such value, or is float64.

    A type of floats may hold only a number near the value.
    """
    plain = getattr(kind, "numpy_dtype", kind)
    if not isinstance(plain, np.dtype) or plain == np.float64 or plain.kind not in "biuf":
        return None
    if np.isnan(value):
        return value if plain.kind == "f" else None
    with np.errstate(all="ignore"):
        own = float(np.float64(value).astype(plain))
    return own if plain.kind == "f" or own == value else None
