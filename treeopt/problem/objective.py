"""`Objective`: a sense and weighted terms, as a user adds them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from treeopt.arguments import as_float
from treeopt.errors import InputError, shown
from treeopt.model.joint import Inputs, Joint, Model
from treeopt.model.softmax import Softmax
from treeopt.problem.choices import Choices
from treeopt.problem.constraints import Predicted
from treeopt.problem.costs import Change, CostTerm, Price, read_change, read_price
from treeopt.problem.prediction import Prediction
from treeopt.problem.responses import Asked, Response, Responses, title
from treeopt.problem.terms import ModelTerm, Product, ProductTerm, Term, WeightedSum
from treeopt.types import Array, FloatArray

DECLARED = Price | Change | Product | WeightedSum | Predicted
"""What users write instead of a model."""


@dataclass(frozen=True, eq=False)
class Objective:
    """The function to optimize: the sum of weighted terms, added from left to right in float64.

    Attributes
    ----------
    inputs : Ensemble, Difference, Softmax or Joint
        What describes the inputs.
    terms : tuple of ModelTerm, ProductTerm and CostTerm
        The terms.
    sense : float
        1 to minimize, -1 to maximize.
    """

    inputs: Inputs
    terms: tuple[Term, ...]
    sense: float = 1.0

    @cached_property
    def prediction(self) -> Prediction | None:
        """The objective as one sum with a link, for plain problems; None if it is anything else."""
        term = self.terms[0]
        if not self.is_prediction or not isinstance(term, ModelTerm):
            return None
        model = term.response.model
        if isinstance(model, Softmax) or isinstance(self.inputs, Joint):
            return None
        return Prediction(model, term.response.sums, model.link, self.sense, term.response.own)

    @property
    def responses(self) -> tuple[Response, ...]:
        """The predictions in the objective."""
        return tuple(t.response for t in self.terms if isinstance(t, ModelTerm | ProductTerm))

    @property
    def is_prediction(self) -> bool:
        """Whether the value is the prediction of one model, and nothing else."""
        first, *others = self.terms
        return isinstance(first, ModelTerm) and first.weight == 1 and not others

    def weight_of(self, term: Term) -> float:
        """Return the factor of a term; costs are subtracted if the objective is maximized."""
        is_cost = isinstance(term, CostTerm) and term.is_cost
        return term.weight * self.sense if is_cost else term.weight

    def contributions(self, x: FloatArray, predictions: Sequence[float]) -> dict[str, float]:
        """Return what each term adds to the value at a point.

        ``predictions`` are those of `responses`.
        """
        found, at = {}, iter(predictions)
        for label, term in zip(self.labels, self.terms, strict=True):
            if isinstance(term, CostTerm):
                value = term.value(x)
            else:
                value = float(next(at))
                if isinstance(term, ProductTerm):
                    value = (float(x[term.column]) - term.minus) * value
            found[label] = self.weight_of(term) * value + 0.0  # no negative zero
        return found

    @cached_property
    def labels(self) -> list[str]:
        """The names of the terms, made unique."""
        seen: Counter[str] = Counter()
        names = []
        for term in self.terms:
            seen[term.label] += 1
            n = seen[term.label]
            names.append(term.label if n == 1 else f"{term.label} ({n})")
        return names

    def value_at(self, x: FloatArray) -> float:
        """Return the value at a point, by the converted models."""
        predictions = [float(response.predict(x[None, :])[0]) for response in self.responses]
        return added_up(self.contributions(x, predictions))

    def towards(self, sense: float) -> Objective:
        """Return the same objective with another sense."""
        return self if sense == self.sense else replace(self, sense=sense)


def plain_objective(model: Model, own: Callable[[Any], Array] | None = None) -> Objective:
    """Return the objective that is the prediction of one converted model."""
    return Objective(model, (ModelTerm(model.source, 1.0, Response(model, own)),))


def added_up(contributions: Mapping[str, float]) -> float:
    """Return the sum of contributions, from left to right."""
    first, *rest = contributions.values()
    return float(sum(rest, start=first))


def models_in_objective(objective: Any, output: str, class_index: Any) -> Iterator[Asked]:
    """Yield the models of an objective or a cost."""
    if isinstance(objective, WeightedSum):
        for _, term in _pairs(objective):
            yield from models_in_objective(term, "auto", None)
    elif isinstance(objective, Product | Predicted):
        name = f"model of {type(objective).__name__}"
        yield Asked(objective.model, objective.output, objective.class_index, name)
    elif not isinstance(objective, Price | Change):
        yield Asked(objective, output, class_index)


def _pairs(objective: WeightedSum) -> list[tuple[float, Any]]:
    """Return the weights and terms of a weighted sum."""
    terms = objective.terms
    if isinstance(terms, str | Mapping) or not hasattr(terms, "__iter__") or not len(terms):
        raise InputError(
            f"WeightedSum has {shown(terms)}. Pass a list of pairs (weight, model or cost)."
        )
    found = []
    for i, pair in enumerate(terms):
        weight = as_float(pair[0]) if isinstance(pair, tuple | list) and len(pair) == 2 else None
        if weight is None or not np.isfinite(weight):
            raise InputError(
                f"WeightedSum[{i}] is {shown(pair)}. Pass a pair (weight, model or cost) with a "
                "finite weight."
            )
        found.append((weight, pair[1]))
    return found


def costs_of(cost: Any) -> list[Any]:
    """Return the entries of the argument `cost` as a list of terms."""
    if cost is None:
        return []
    entries = list(cost) if isinstance(cost, list | tuple) else [cost]
    found = []
    for entry in entries:
        if isinstance(entry, Mapping) or hasattr(entry, "to_frame"):  # a mapping or a series
            entry = Price(dict(entry))
        if isinstance(entry, WeightedSum) and all(
            isinstance(term, Price | Change) for _, term in _pairs(entry)
        ):
            found += [(weight, term) for weight, term in _pairs(entry)]
        elif isinstance(entry, Price | Change):
            found.append((1.0, entry))
        else:
            verb = "is" if entry is cost else "has"
            raise InputError(
                f"cost {verb} {shown(entry)}. Pass a mapping of prices, treeopt.Price or "
                "treeopt.Change, or a list of these. Add models by treeopt.WeightedSum."
            )
    return found


def read_objective(
    objective: Any,
    cost: Any,
    output: str,
    class_index: Any,
    choices: Choices,
    responses: Responses,
    fixed: Collection[int] = (),
) -> Objective:
    """Return the objective, with costs after all other terms; ``fixed`` are columns."""
    if isinstance(objective, DECLARED) and (output != "auto" or class_index is not None):
        name = type(objective).__name__
        raise InputError(
            f"output and class_index do not apply to {name}. Pass them with the model: "
            "treeopt.Predicted(model, output=..., class_index=...) as a term, or Product(...)."
        )
    choices = choices if not fixed else replace(choices, known_fixed=frozenset(fixed))
    terms = [
        *_terms(objective, 1.0, Asked(objective, output, class_index), choices, responses),
        *(_cost(term, weight, choices, True) for weight, term in costs_of(cost)),
    ]
    return Objective(choices.inputs, tuple(terms))


def _terms(
    objective: Any, weight: float, asked: Asked, choices: Choices, responses: Responses
) -> Iterator[Term]:
    """Yield the terms of an objective, times a weight."""
    if isinstance(objective, WeightedSum):
        for factor, term in _pairs(objective):
            yield from _terms(term, weight * factor, Asked(term), choices, responses)
    elif isinstance(objective, Price | Change):
        yield _cost(objective, weight, choices, False)
    elif isinstance(objective, Product):
        yield _product(objective, weight, choices, responses)
    elif isinstance(objective, Predicted):
        if objective.low is not None or objective.high is not None:
            raise InputError(
                "a term of the objective is Predicted with low or high. Pass limits in constraints."
            )
        response = responses.of(Asked(objective.model, objective.output, objective.class_index))
        yield ModelTerm(title(response, objective.class_index), weight, response)
    else:
        response = responses.of(asked)
        yield ModelTerm(response.model.source, weight, response)


def _cost(term: Price | Change, weight: float, choices: Choices, is_cost: bool) -> CostTerm:
    """Return a price or a change as a term."""
    if isinstance(term, Price):
        return read_price(term.prices, choices, weight, is_cost, choices.known_fixed)
    return read_change(term, choices, weight, is_cost)


def _product(given: Product, weight: float, choices: Choices, responses: Responses) -> ProductTerm:
    """Return a product of a feature and a prediction as a term."""
    response = responses.of(Asked(given.model, given.output, given.class_index))
    ((column, key, _),) = choices.by_feature({given.feature: 0}, "feature of Product")
    if column in choices.inputs.categories:
        raise InputError(
            f"feature of Product is {key!r}, which is a category. Pass a feature with numbers."
        )
    minus = as_float(given.minus)
    if minus is None or not np.isfinite(minus):
        raise InputError(f"minus of Product is {shown(given.minus)}. Pass a finite number.")
    name = f"x[{key}]" if isinstance(key, int) else key
    label = f"{name} x {response.model.source}"
    return ProductTerm(label, weight, response, column, minus)
