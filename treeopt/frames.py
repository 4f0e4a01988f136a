"""Points as users see them: series and frames with names and labels, and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.categories import truncated
from treeopt.errors import InputError
from treeopt.inputs import spelled

if TYPE_CHECKING:
    from treeopt.ensemble import Array, Ensemble
    from treeopt.result import Decision, Region


SHOWN = 40
"""So many features are listed when a decision is printed."""


def with_labels(ensemble: Ensemble, frame: Any) -> Ensemble:
    """Return the ensemble with the labels of its categories, where only a frame can tell them.

    LightGBM keeps the labels of all columns with categories, but not always which these are.
    """
    if not ensemble.unsure_of_labels or not hasattr(frame, "columns"):
        return ensemble
    ensemble._matrix(frame, "bounds")  # refuses a frame whose columns do not fit
    names = ensemble.feature_names
    frame = frame if names is None else frame.rename(columns=lambda c: spelled(str(c), names))
    kinds = frame.dtypes if names is None else frame[list(names)].dtypes
    columns = [j for j, kind in enumerate(kinds) if hasattr(kind, "categories")]
    categories = dict(ensemble.categories)
    for column, labels in zip(columns, ensemble.frame_labels or (), strict=True):
        known = categories.get(column, truncated(range(len(labels)), ensemble.input_dtype))
        categories[column] = replace(known, labels=labels)
    return replace(ensemble, categories=categories)


def labelled(point: Array, ensemble: Ensemble) -> list[Any]:
    """Return the values of a point, with labels where categories have them."""
    values: list[Any] = point.tolist()
    for column, known in ensemble.categories.items():
        at = known.index_of(point[[column]])[0]
        if known.labels is not None and 0 <= at < len(known.labels):
            values[column] = known.labels[at]
    return values


def named(point: Array, ensemble: Ensemble) -> Any:
    """Return a point as a series where the model has names and pandas is there; else as it is."""
    if ensemble.feature_names is None:
        return point.copy()
    try:
        import pandas as pd
    except ImportError:
        return point.copy()
    return pd.Series(labelled(point, ensemble), index=list(ensemble.feature_names))


def column_types(ensemble: Ensemble, frame: Any) -> tuple[Any, ...]:
    """Return the types of a frame's columns in the model's order; nothing if it is no frame."""
    if not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        return ()
    names = ensemble.feature_names
    if names is None:
        return tuple(frame.dtypes)
    by_name = {spelled(str(c), names): kind for c, kind in frame.dtypes.items()}
    return tuple(by_name[name] for name in names)


def frame_of(point: Array, ensemble: Ensemble, region: Region, types: Sequence[Any] = ()) -> Any:
    """Return a point as a frame of one row that the model's own ``predict`` takes.

    Columns have the types of the training frame as far as these are known: labels from the model,
    ``types`` from a frame that the user has passed. A number that its type cannot hold without
    leaving the region stays float64.
    """
    try:
        import pandas as pd
    except ImportError:
        raise InputError(
            "a frame needs pandas, which is not installed. Install it, or use x."
        ) from None
    if ensemble.unsure_of_labels:
        raise InputError(
            f"which columns of {ensemble.source} have labels is not sure, so no frame is known "
            "that it would take. Pass bounds as a frame like the one that it was trained on."
        )
    names = ensemble.feature_names or range(ensemble.n_features)
    columns: dict[Any, Any] = {}
    values = labelled(point, ensemble)
    for column, name in enumerate(names):
        known = ensemble.categories.get(column)
        if known is not None and known.labels is not None:
            missing = np.isnan(point[column])
            value = [None if missing else values[column]]
            columns[name] = pd.Categorical(value, categories=list(known.labels))
        else:
            columns[name] = [float(point[column])]
    frame = pd.DataFrame(columns)
    for column, kind in enumerate(types):
        if getattr(kind, "kind", "O") in "biuf" and column not in ensemble.categories:
            with np.errstate(all="ignore"):
                own = float(np.float64(point[column]).astype(getattr(kind, "numpy_dtype", kind)))
            inside = region.lower[column] <= own <= region.upper[column]
            whole = kind.kind == "f" or own == point[column]
            if inside and whole:
                frame[frame.columns[column]] = frame.iloc[:, column].astype(kind)
    return frame


def spelled_inside(x: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a point and its interval in as few digits as do not mislead.

    The ends that are written down lie within the interval and leave little of it out.
    """
    for digits in range(6, 18):
        a, b = _rounded(low, digits, ROUND_CEILING), _rounded(high, digits, ROUND_FLOOR)
        at = float(f"{x:.{digits}g}")
        if (a <= at <= b and b - a >= 0.99 * (high - low)) or not low < high:
            break
    return f"{x:.{digits}g}", f"{a:.{digits}g}", f"{b:.{digits}g}"


def _rounded(x: float, digits: int, way: str) -> float:
    nearest = float(f"{x:.{digits}g}")
    if nearest == x:
        return nearest
    return float(Context(prec=digits, rounding=way).create_decimal(Decimal(x)))


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def described(decision: Decision) -> str:
    """Return a decision in words."""
    best = "largest" if decision.maximized else "least"
    if decision._point is None:
        return f"There is no admissible point: {decision.message}."
    lines = []
    if decision.status.name == "OPTIMAL":
        exact = (
            "to the last bit"
            if decision.gap == 0
            else f"up to rounding: the bound is {decision.gap:.2g} away, and the model's own sums "
            f"may be off by {decision.rounding:.2g}"
        )
        lines.append(f"{decision.fun:.10g} is the {best} prediction, {exact}.")
    elif not np.isfinite(decision.bound):
        lines.append(f"{decision.fun:.10g} is the {best} prediction found; there is no bound.")
    else:
        side = "above" if decision.maximized else "below"
        lines.append(
            f"{decision.fun:.10g} is the {best} prediction found; none is {side} "
            f"{decision.bound:.10g} (gap {decision.gap:.4g})."
        )
    lines.append(
        f"{decision.message[:1].upper()}{decision.message[1:]}, after {decision.time:.3g} s, "
        f"{_counted(decision.nfev, 'evaluation')} and {_counted(decision.nodes, 'node')}."
    )
    lines.append("It stays the same at least as long as")
    ensemble, region = decision._ensemble, decision.region
    names = ensemble.feature_names or [f"x[{k}]" for k in range(ensemble.n_features)]
    width = max(len(name) for name in names)
    values = labelled(decision._point, ensemble)
    for column, name in enumerate(names[:SHOWN]):
        low, high = region.lower[column], region.upper[column]
        value, within = values[column], "fixed"
        if isinstance(value, int | float | np.number):
            value, low, high = spelled_inside(float(value), low, high)
        if column in region.categories:
            within = "one of " + ", ".join(map(str, region.categories[column]))
        elif column in decision._free:
            within = f"from {low} to {high}" if low != high else "only this"
        lines.append(f"  {name:<{width}} = {value!s:<12} {within}")
    if len(names) > SHOWN:
        lines.append(f"  ... and {len(names) - SHOWN} more features")
    return "\n".join(lines)
