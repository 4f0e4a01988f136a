"""The parts of a problem: functions of sums of trees, in the objective or with a limit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from treeopt.exact.certificate import LINK_ULPS, TermCertificate, extreme_leaves
from treeopt.exact.general.free_features import FreeFeatures
from treeopt.exact.general.statement import LINK, PART, SOFTMAX, SUM, records
from treeopt.model.link import IDENTITY, Link
from treeopt.model.softmax import Softmax
from treeopt.problem.leaves import Leaves
from treeopt.problem.problem import Problem
from treeopt.problem.responses import Response
from treeopt.problem.sums import TreeSum
from treeopt.problem.terms import ModelTerm, ProductTerm
from treeopt.types import Array, FloatArray, IntArray

ROUNDING = float(np.finfo(np.float64).eps)

Listed = list[tuple[int, float]]
"""A sum as it is listed: the numbers of some sums of the grid, and their factors."""


@dataclass(frozen=True)
class Part:
    """A part before it is a record, see `treeopt.exact.general.statement.PART`."""

    kind: int
    sums: list[Listed]
    weight: float = 1.0
    sign: float = 1.0
    link: Link = IDENTITY
    is_product: bool = False
    column: int = -1
    minus: float = 0.0
    limit: float = np.inf
    in_objective: bool = True
    dtype: Any = np.float64


class Parts:
    """The parts of a problem.

    Parameters
    ----------
    problem : Problem
        The problem.
    free : FreeFeatures
        Its free features.

    Attributes
    ----------
    parts : list of Part
        The parts of the objective, linear terms first, and those with a limit.
    listed : list of Listed
        The sums of all parts.
    """

    def __init__(self, problem: Problem, free: FreeFeatures) -> None:
        self.problem, self.free = problem, free
        self.number = {id(own): k for k, own in enumerate(problem.grid.sums)}
        self.parts = [*self._in_objective(), *self._with_limit()]
        self.listed = [own for part in self.parts for own in part.sums]

    def _in_objective(self) -> list[Part]:
        """Return the parts of the objective."""
        linear: Listed = []
        others: list[Part] = []
        sense = self.problem.objective.sense
        for term in self.problem.objective.terms:
            if isinstance(term, ProductTerm):
                others.append(self._product(term, sense * term.weight))
            elif isinstance(term, ModelTerm):
                weight, response = sense * term.weight, term.response
                if isinstance(response.model, Softmax) or response.model.link != IDENTITY:
                    others.append(self._function(response, weight))
                else:
                    linear += self._scaled(response, weight)
        return [Part(LINK, [linear]), *others] if linear else others

    def _with_limit(self) -> list[Part]:
        """Return a part for each limit of a prediction."""
        found = []
        for limit in self.problem.prediction_limits:
            for weight, end in ((1.0, limit.high), (-1.0, -limit.low)):
                if np.isfinite(end):
                    part = self._function(limit.response, weight)
                    found.append(replace(part, limit=end, in_objective=False))
        return found

    def _scaled(self, response: Response, weight: float) -> Listed:
        """Return the sums of a response that is linear in them, times a weight."""
        return [
            (self.number[id(own)], weight * own.weight / own.ensemble.divisor)
            for own in response.sums
        ]

    def _function(self, response: Response, weight: float) -> Part:
        """Return the part of a prediction times a weight."""
        model = response.model
        dtype = response.sums[0].ensemble.value.dtype
        if isinstance(model, Softmax):
            sign = 1.0 if weight > 0 else -1.0
            others = [k for k in range(len(response.sums)) if k != model.class_index]
            sums = []
            for k in (model.class_index, *others):
                own = response.sums[k]
                side = sign if k == model.class_index else -sign
                sums.append([(self.number[id(own)], side / own.ensemble.divisor)])
            return Part(SOFTMAX, sums, weight, sign, dtype=dtype)
        sign = 1.0 if (weight > 0) == model.link.increasing else -1.0
        return Part(LINK, [self._scaled(response, sign)], weight, sign, model.link, dtype=dtype)

    def _product(self, term: ProductTerm, weight: float) -> Part:
        """Return the part of a product: the prediction from below, then from above."""
        below, above = (self._function(term.response, side) for side in (1.0, -1.0))
        minus, column = term.minus, term.column
        if column not in self.free.feature_of:
            minus, column = minus - self.free.value_of(column), -1
        return replace(
            below,
            sums=[*below.sums, *above.sums],
            weight=weight,
            column=column,
            minus=minus,
            is_product=True,
        )

    def sums(self, leaves: Leaves, start: IntArray) -> Array:
        """Return the sums as records; ``start`` has the first tree of each."""
        constant, error = self._constants()
        sums = {
            "start": start[:-1],
            "end": start[1:],
            "constant": constant - error,
            "error": error,
            "spread": _spreads(leaves, start),
        }
        return records(SUM, sums, len(self.listed))

    def _constants(self) -> tuple[FloatArray, FloatArray]:
        """Return the constant of each sum, and the maximum error of the models and the search."""
        constants, errors = np.zeros(len(self.listed)), np.zeros(len(self.listed))
        for k, own in enumerate(self.listed):
            size, n_trees = 0.0, 0
            for number, factor in own:
                term = self.problem.grid.sums[number]
                constants[k] += factor * term.ensemble.base
                error, largest = _sum_error(term)
                errors[k] += abs(factor) * error
                size += abs(factor) * largest
                n_trees += term.ensemble.n_trees
            errors[k] += (n_trees + 16) * ROUNDING * size
        return constants, errors

    def as_records(self, spread: FloatArray) -> Array:
        """Return the parts as records; ``spread`` is that of each sum."""
        parts = self.parts
        start = np.cumsum([0, *(len(part.sums) for part in parts)])
        codes = [part.link.code(np.dtype(np.float64)) for part in parts]
        scales = []
        for part, at in zip(parts, start, strict=False):
            scales.append(1.0 if part.kind == SOFTMAX else max(spread[at], 1e-300))
        return records(
            PART,
            {
                "weight": [part.weight for part in parts],
                "sign": [part.sign for part in parts],
                "slope": [float(code[1]) for code in codes],
                "minus": [part.minus for part in parts],
                "limit": [part.limit for part in parts],
                "error": [(LINK_ULPS + 4) * float(np.finfo(part.dtype).eps) for part in parts],
                "scale": scales,
                "largest": [float(np.finfo(part.dtype).max) * (1 - 1e-6) for part in parts],
                "start": start[:-1],
                "end": start[1:],
                "n_sums": np.diff(start),
                "link": [code[0] for code in codes],
                "feature": [self.free.feature_of.get(part.column, -1) for part in parts],
                "kind": [part.kind for part in parts],
                "complement": [bool(code[2]) for code in codes],
                "is_product": [part.is_product for part in parts],
                "in_objective": [part.in_objective for part in parts],
            },
            len(parts),
        )


def _spreads(leaves: Leaves, sum_start: IntArray) -> FloatArray:
    """Return the distance of the minimum and maximum of each sum."""
    first, last = leaves.value[leaves.start[:-1]], leaves.value[leaves.start[1:] - 1]
    return np.array([(last[a:b] - first[a:b]).sum() for a, b in pairwise(sum_start.tolist())])


def _sum_error(term: TreeSum) -> tuple[float, float]:
    """Return the maximum rounding error of a model's sum, and the maximum size of its parts."""
    ensemble = term.ensemble
    certificate = TermCertificate(TreeSum(ensemble), extreme_leaves(ensemble, 1.0))
    eps = float(np.finfo(ensemble.value.dtype).eps)
    low, high = certificate.range
    size = float(ensemble.compiled.largest_leaves) + abs(ensemble.base)
    # Two more roundings: the division, and the subtraction of another sum.
    return certificate.error() + 2 * eps * max(abs(low), abs(high)), size
