"""`Response`: what one model predicts, as a function of the columns of a problem.

`Responses` converts each model of a question once, however often it occurs, and joins the columns
of all models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from treeopt.adapters import convert
from treeopt.errors import InputError, TreeoptError, UnsupportedModelError
from treeopt.model.difference import Difference
from treeopt.model.ensemble import Ensemble
from treeopt.model.frames import Columns, columns_of, with_labels
from treeopt.model.joint import Inputs, Joint, Model, join
from treeopt.problem.sums import TreeSum
from treeopt.types import Array, FloatArray, IntArray

MAX_SUM = {np.dtype(np.float32): float(np.finfo(np.float32).max) / 2, np.dtype(np.float64): 1e290}
"""Sums must stay below this value, by precision. Half of the maximum float32 leaves room for
rounding. In float64 the search itself needs room: the prices of the dual bound grow up to 64 times
the maximum sum, and must stay below `exact.dual.LARGE`."""


class Asked(NamedTuple):
    """A model and the output that is wanted of it; see `treeopt.from_model`."""

    model: Any
    output: str = "auto"
    class_index: int | tuple[int, int] | None = None
    name: str = "objective"  # what messages call it

    @property
    def key(self) -> tuple[int, str, str]:
        """The same for the same model and output."""
        return id(self.model), self.output, repr(self.class_index)


@dataclass(frozen=True, eq=False)
class Response:
    """The prediction of one model.

    Attributes
    ----------
    model : Ensemble, Difference or Softmax
        The converted model.
    own : callable or None
        Returns the prediction of the user's own model for a matrix or frame. None if only the
        converted model is available.
    to_column : int64 array or None
        The column of the problem that each column of the model is. None if they are the same.
    """

    model: Model
    own: Callable[[Any], Array] | None = None
    to_column: IntArray | None = None

    @cached_property
    def sums(self) -> tuple[TreeSum, ...]:
        """The sums of trees that the prediction is a function of."""
        if isinstance(self.model, Ensemble):
            return (TreeSum(self.model, 1.0, self.to_column),)
        if isinstance(self.model, Difference):
            plus = TreeSum(self.model.plus, 1.0, self.to_column)
            return plus, TreeSum(self.model.minus, -1.0, self.to_column)
        return tuple(TreeSum(own, 1.0, self.to_column) for own in self.model.sums)

    def own_columns(self, X: Array) -> Array:
        """Return the columns of a matrix of the problem that the model reads, in its order."""
        return X if self.to_column is None else np.ascontiguousarray(X[:, self.to_column])

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the predictions of the converted model for a matrix of the problem."""
        return self.model.predict(self.own_columns(X)).astype(np.float64)


class Responses:
    """The models of a question, each converted once.

    Parameters
    ----------
    asked : iterable of Asked
        The models, in the order in which they occur.

    Attributes
    ----------
    inputs : Ensemble, Difference, Softmax or Joint
        What describes the columns of the problem; set by `join`.
    columns : Columns or None
        The columns of the frame passed as bounds; set by `join`.
    """

    inputs: Inputs
    columns: Columns | None

    def __init__(self, asked: Iterable[Asked]) -> None:
        self._found: dict[tuple[int, str, str], Response] = {}
        self._kept = list(asked)  # keeps the models alive, and so their ids
        for one in self._kept:
            if one.key not in self._found:
                self._found[one.key] = Response(*_converted(one))

    def join(self, bounds: Any, mentioned: Collection[str] = ()) -> None:
        """Join the columns of all models; a frame of bounds gives their types and labels.

        Columns that no model reads are added if they have bounds and are ``mentioned``.
        """
        named = list(map(str, bounds.columns)) if hasattr(bounds, "columns") else None
        if named is None and hasattr(bounds, "keys"):
            named = list(map(str, bounds))
        n_columns = len(named) if named is not None else _n_columns(bounds)
        models = [response.model for response in self._found.values()]
        inputs = join(models, named, n_columns, mentioned)
        self.columns = columns_of(inputs, bounds)
        if not isinstance(inputs, Joint):
            inputs = with_labels(inputs, self.columns)
            self._found = {k: replace(r, model=inputs) for k, r in self._found.items()}
        else:
            self._found = {k: self._placed(r, inputs) for k, r in self._found.items()}
            models = [response.model for response in self._found.values()]
            inputs = join(models, named, n_columns, mentioned)
        self.inputs = inputs
        for response in self._found.values():
            for own in response.sums:
                own.ensemble.compiled.prepare()

    def _placed(self, response: Response, inputs: Joint) -> Response:
        """Return a response with the labels of its columns and their places in the problem."""
        at = next(i for i, model in enumerate(inputs.models) if model is response.model)
        to_column, columns = inputs.to_columns[at], self.columns
        if columns is not None:
            labels, types = ([part[j] for j in to_column] for part in columns)
            columns = Columns(tuple(labels), tuple(types))
        if response.model.unsure_of_labels and columns is None:
            raise InputError(
                f"it is unknown which columns of {response.model.source} have labels. Pass bounds "
                "as a frame like the training frame."
            )
        same = np.array_equal(to_column, np.arange(inputs.n_features))
        labeled = with_labels(response.model, columns)
        return Response(labeled, response.own, None if same else to_column)

    def of(self, asked: Asked) -> Response:
        """Return the response of a model."""
        return self._found[asked.key]


def _converted(asked: Asked) -> tuple[Model, Callable[[Any], Array] | None]:
    """Return a converted model and its own prediction; errors name where it was passed."""
    try:
        return convert(*asked)
    except TreeoptError as error:
        if asked.name == Asked._field_defaults["name"] or asked.name in str(error):
            raise
        raise type(error)(f"{asked.name}: {error}") from error


def title(response: Response, class_index: Any) -> str:
    """Return what results call a prediction: its model and, if it was chosen, its class."""
    more = "" if class_index is None else f", class {class_index}"
    return f"{response.model.source}{more}"


def _n_columns(bounds: Any) -> int | None:
    """Return the number of columns that bounds without names describe; None if unknown."""
    if hasattr(bounds, "lb"):
        return int(max(np.size(bounds.lb), np.size(bounds.ub)))
    try:
        return len(bounds)
    except TypeError:
        return None


def largest_sum(response: Response) -> float:
    """Return an upper bound S on the absolute sums of a model, up to rounding.

    S is the sum over all trees of the maximum ``|value|`` of a leaf, plus the ``|base|`` of each
    sum. If S divided by the divisor is larger, that is returned.
    """
    with np.errstate(over="ignore"):
        ensembles = [own.ensemble for own in response.sums]
        total = sum(own.compiled.largest_leaves + abs(own.base) for own in ensembles)
        return float(max(total, total / ensembles[0].divisor))


def check_sums(response: Response) -> None:
    """Raise an error if a model's own sums may overflow: `largest_sum` must be below `MAX_SUM`.

    An infinite sum, or the difference of two, is not monotone in the values of the leaves. No bound
    would be valid.
    """
    largest, dtype = largest_sum(response), response.sums[0].ensemble.value.dtype
    if not largest < MAX_SUM[dtype]:
        raise UnsupportedModelError(
            f"{response.model.source} may overflow: its sums in {dtype} may reach {largest:.3g}, "
            f"but decisions require sums below {MAX_SUM[dtype]:.3g}. Train the model on a scaled "
            "target, such as y / 1e10."
        )
