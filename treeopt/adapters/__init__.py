"""From a fitted model to an `Ensemble`: one module per library, imported only when needed.

The registry maps the package that a model's class comes from to the adapter module that knows it.
An adapter offers ``MODELS``, the names of the classes it reads, ``convert(model, output,
class_index)``, which returns an `Ensemble`, a `Difference` or a `Softmax`, and
``own_prediction(model, output, class_index)``, the library's own prediction of the same output.
`files` reads saved models.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, overload

from treeopt.arithmetic import quiet
from treeopt.errors import InputError, UnsupportedModelError
from treeopt.model.difference import Difference
from treeopt.model.ensemble import Ensemble
from treeopt.model.joint import Model
from treeopt.model.softmax import Softmax
from treeopt.types import Array

ADAPTERS = {
    "sklearn": "treeopt.adapters.scikit_learn",
    "xgboost": "treeopt.adapters.xgboost",
    "lightgbm": "treeopt.adapters.lightgbm",
}

OUTPUTS = ("auto", "raw", "proba", "predict")


@overload
def from_model(
    model: Any, *, output: Literal["raw"], class_index: int | None = ...
) -> Ensemble: ...


@overload
def from_model(
    model: Any, *, output: str = ..., class_index: int | None = ...
) -> Ensemble | Softmax: ...


@overload
def from_model(model: Any, *, output: str = ..., class_index: tuple[int, int]) -> Difference: ...


@overload
def from_model(
    model: Any, *, output: str = ..., class_index: int | tuple[int, int] | None = ...
) -> Ensemble | Difference | Softmax: ...


@quiet
def from_model(
    model: Any, *, output: str = "auto", class_index: int | tuple[int, int] | None = None
) -> Model:
    """Turn a fitted model into an `Ensemble` that predicts the same, bit for bit.

    Parameters
    ----------
    model : estimator
        A fitted scikit-learn, XGBoost or LightGBM model, or an XGBoost or LightGBM ``Booster``. An
        `Ensemble`, a `Difference` or a `Softmax` is returned unchanged.
    output : {"auto", "raw", "predict", "proba"}
        What to predict: ``"raw"`` is the sum of the trees before any transformation (the margin),
        ``"proba"`` the probability of a class, ``"predict"`` what ``model.predict`` returns.
        ``"auto"`` is the probability for classifiers, else what ``model.predict`` returns.
    class_index : int or pair of int, optional
        Class of a classifier, or output of a model with several. By default the last class, if the
        prediction is a probability; required for margins of several classes and for outputs. A pair
        ``(a, b)``, with ``output="raw"`` and a boosted model of three or more classes, means the
        margin of class ``a`` minus that of class ``b``.

    Returns
    -------
    Ensemble, Difference or Softmax
        A `Difference` if ``class_index`` is a pair. A `Softmax` for the probability of a boosted
        model of three or more classes: it depends on one sum of trees per class, and is within one
        unit in the last place of the model's own.

    Raises
    ------
    UnsupportedModelError
        If the model is not a sum of piecewise-constant trees, or not of a known kind.
    UnfittedModelError
        If the model has not been fitted.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [1.0, 2.0, 4.0]
    >>> model = RandomForestRegressor(n_estimators=3, random_state=0).fit(X, y)
    >>> ensemble = treeopt.from_model(model)
    >>> ensemble.n_trees, ensemble.n_features
    (3, 2)
    """
    check_output(output)
    if isinstance(model, Model):
        if output != "auto" or class_index is not None:
            kind = "an Ensemble" if isinstance(model, Ensemble) else f"a {type(model).__name__}"
            raise InputError(
                f"model is {kind}: its output is settled. Call from_model on the original "
                "model with output= and class_index=."
            )
        return model
    ensemble: Model = _adapter(model).convert(model, output, class_index)
    return ensemble


def check_output(output: Any) -> None:
    """Refuse an unknown output."""
    if output not in OUTPUTS:
        raise InputError(f"output is {output!r}: pass one of {', '.join(map(repr, OUTPUTS))}.")


class OwnPrediction:
    """The library's own prediction of the chosen output, as a function of a matrix or frame.

    Forests that would sum on several threads are summed in order. It can be pickled if the model
    can.
    """

    def __init__(
        self, model: Any, output: str = "auto", class_index: int | tuple[int, int] | None = None
    ) -> None:
        self._arguments = (model, output, class_index)
        self._predict: Callable[[Any], Array] = _adapter(model).own_prediction(*self._arguments)

    def __call__(self, X: Any) -> Array:
        """Return the predictions for the rows of X."""
        return self._predict(X)

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnPrediction, self._arguments


def convert(
    model: Any, output: str, class_index: int | tuple[int, int] | None, name: str
) -> tuple[Model, OwnPrediction | None]:
    """Return a model as `from_model` does, and its own prediction; None if it is converted.

    Messages call an unknown kind of model ``name``.
    """
    is_converted = isinstance(model, Model)
    if not is_converted:
        _adapter(model, name)
    converted: Model = from_model(model, output=output, class_index=class_index)
    return converted, None if is_converted else OwnPrediction(model, output, class_index)


def _adapter(model: Any, name: str = "model") -> ModuleType:
    """Return the adapter module for a model, by the package that its class comes from.

    ``name`` is what the argument is called.
    """
    for base in type(model).__mro__:
        library = base.__module__.split(".")[0]
        if library in ADAPTERS:
            return import_module(ADAPTERS[library])
    given = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    raise UnsupportedModelError(
        f"{name} is {given}: not a scikit-learn, XGBoost or LightGBM tree model. "
        "Pass a fitted estimator, a Booster or an Ensemble."
    )
