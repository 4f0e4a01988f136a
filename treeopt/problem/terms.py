"""Terms of an objective: predictions, products and costs, each with a weight.

`WeightedSum` and `Product` are what users write; so are `Price` and `Change` in `costs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from treeopt.problem.costs import CostTerm
from treeopt.problem.responses import Response


@dataclass(frozen=True)
class WeightedSum:
    """A weighted sum of predictions and costs, to be used as the objective.

    Parameters
    ----------
    terms : list of (float, term)
        Pairs of a weight and a term: a fitted model, an `Ensemble`, `Predicted` for one output of a
        model, `Price`, `Change`, `Product`, or another weighted sum.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = [[0.0], [1.0], [2.0]]
    >>> a, b = (DecisionTreeRegressor().fit(X, y) for y in ([1.0, 5.0, 2.0], [3.0, 1.0, 4.0]))
    >>> both = treeopt.WeightedSum([(0.5, a), (0.5, b)])
    >>> best = treeopt.maximize(both, X)
    >>> best.fun, best.terms
    (3.0, {'DecisionTreeRegressor': 2.5, 'DecisionTreeRegressor (2)': 0.5})
    """

    terms: Sequence[tuple[float, Any]]


@dataclass(frozen=True)
class Product:
    """A feature times a prediction, such as price times predicted demand.

    Its value is ``(x[feature] - minus) * prediction``.

    Parameters
    ----------
    feature : str or int
        Name or number of the feature, such as the price.
    model : estimator, Ensemble or Difference
        The model, such as one of the demand.
    minus : float, default=0
        Subtracted from the feature, such as the unit cost.
    output, class_index
        The output of the model, as in `from_model`.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> demand = DecisionTreeRegressor().fit([[1.0], [2.0], [4.0]], [10.0, 8.0, 3.0])
    >>> best = treeopt.maximize(treeopt.Product(0, demand, minus=0.5), [(1, 4)])
    >>> round(float(best.x[0]), 5), round(best.fun, 5)
    (3.0, 20.0)
    """

    feature: Any
    model: Any
    minus: float = 0.0
    output: str = "auto"
    class_index: Any = None


@dataclass(frozen=True, eq=False)
class ModelTerm:
    """A weighted prediction.

    Attributes
    ----------
    label : str
        Name of the term in results.
    weight : float
        Factor of the prediction.
    response : Response
        The prediction.
    """

    label: str
    weight: float
    response: Response


@dataclass(frozen=True, eq=False)
class ProductTerm:
    """A weighted product of a feature and a prediction: ``(x[column] - minus) * prediction``."""

    label: str
    weight: float
    response: Response
    column: int
    minus: float


Term: TypeAlias = ModelTerm | ProductTerm | CostTerm
"""A term of the objective."""
