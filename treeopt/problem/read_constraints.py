"""Read the argument `constraints`: from what users write to conditions on columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from treeopt.arguments import as_float
from treeopt.errors import InputError, shown
from treeopt.problem.bounds import column_of, feature_label
from treeopt.problem.choices import Choices, number_of
from treeopt.problem.constraints import (
    EQUALITY_ULPS,
    AtMost,
    Clause,
    Condition,
    Constraint,
    Count,
    Forbid,
    Implies,
    Limit,
    Literal,
    Predicted,
    Row,
    Within,
)
from treeopt.problem.expressions import Comparison, Reference
from treeopt.problem.parser import parse
from treeopt.problem.parser_messages import pointed
from treeopt.problem.responses import Asked, Responses, title
from treeopt.types import BoolArray, FloatArray

OPPOSITE = {"<=": ">", "<": ">=", ">=": "<", ">": "<="}
"""The relation that holds if another does not."""

ACCEPTED = (
    "Pass text such as 'a + b <= 3', a scipy LinearConstraint, or treeopt.Predicted, AtMost, "
    "Implies or Forbid."
)


def listed_constraints(constraints: Any) -> list[Any]:
    """Return the entries of the argument; one entry need not be in a list."""
    if constraints is None:
        return []
    single = isinstance(constraints, str | Predicted | AtMost | Implies | Forbid)
    if single or hasattr(constraints, "A") or not isinstance(constraints, Sequence):
        return [constraints]
    return list(constraints)


def models_in_constraints(constraints: Any) -> Iterator[Asked]:
    """Yield the models of the constraints."""
    for i, given in enumerate(listed_constraints(constraints)):
        if isinstance(given, Predicted):
            name = f"model of constraints[{i}]"
            yield Asked(given.model, given.output, given.class_index, name)


def read_constraints(
    constraints: Any, choices: Choices, responses: Responses
) -> tuple[Constraint, ...]:
    """Return the constraints; a matrix of linear constraints gives one for each row."""
    found: list[Constraint] = []
    for i, given in enumerate(listed_constraints(constraints)):
        name = f"constraints[{i}]"
        if isinstance(given, str):
            found.append(_from_text(given, name, choices))
        elif isinstance(given, Predicted):
            found.append(_from_predicted(given, name, responses))
        elif isinstance(given, AtMost):
            found.append(_from_at_most(given, name, choices))
        elif isinstance(given, Implies):
            found.append(_from_implies(given, name, choices))
        elif isinstance(given, Forbid):
            found.append(_from_forbid(given, name, choices))
        elif hasattr(given, "A") and hasattr(given, "lb") and hasattr(given, "ub"):
            found += _from_matrix(given, name, choices)
        else:
            raise InputError(f"{name} is {shown(given)}. {ACCEPTED}")
    return tuple(found)


MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
"""The relation that holds if both sides are exchanged."""

EXCLUSIVE = {("<", ">"), ("<", ">="), ("<=", ">"), (">", "<"), (">=", "<"), (">", "<=")}
"""Pairs of relations of which at most one holds. An equality also holds up to rounding errors."""


@dataclass(frozen=True)
class _Text:
    """A comparison as the user computes it; ``columns`` are those of its references."""

    comparison: Comparison
    columns: Mapping[Reference, int]

    def excludes(self, other: Any) -> bool:
        """Return whether both compare the same two numbers, and cannot both hold."""
        if not isinstance(other, _Text):
            return False
        one, two = self.comparison, other.comparison
        relation = two.relation
        if (one.left, one.right) == (two.right, two.left):
            relation = MIRRORED[relation]
        elif (one.left, one.right) != (two.left, two.right):
            return False
        return (one.relation, relation) in EXCLUSIVE

    def _values(self, x: FloatArray) -> dict[Reference, float]:
        """Return the values of the references; 0 beyond the end of the point."""
        columns = self.columns.items()
        return {reference: x[k] if k < x.size else 0.0 for reference, k in columns}

    def holds(self, x: FloatArray) -> bool:
        """Return whether the comparison holds; an equality up to `EQUALITY_ULPS`."""
        if self.comparison.relation == "==":
            return self.slack(x) >= 0
        return bool(self.comparison.holds(self._values(x)))

    def slack(self, x: FloatArray) -> float:
        """Return by how much the comparison holds; 0 for an equality that holds."""
        values = self._values(x)
        left, right = self.comparison.left.evaluate(values), self.comparison.right.evaluate(values)
        if self.comparison.relation in ("<=", "<"):
            return float(right - left)
        if self.comparison.relation in (">=", ">"):
            return float(left - right)
        sizes, size = self.comparison.sizes()
        scale = size + sum(each * abs(values[reference]) for reference, each in sizes.items())
        return _equality_slack(float(left - right), scale)


@dataclass(frozen=True)
class _MatrixRow:
    """A row of a matrix as the user computes it, ``low <= matrix @ x <= high``.

    The last bits of a product depend on how it is computed, so several ways are tried.
    """

    matrix: FloatArray
    number: int
    low: float
    high: float

    def excludes(self, other: Any) -> bool:
        """Return False, as the bounds of a row of a matrix are included."""
        return False

    @cached_property
    def _is_used(self) -> BoolArray:
        """Whether any row of the matrix reads each feature."""
        used: BoolArray = (self.matrix != 0).any(axis=0)
        return used

    def holds(self, x: FloatArray) -> bool:
        """Return whether the row holds; an equality up to `EQUALITY_ULPS`."""
        return self.slack(x) >= 0

    def slack(self, x: FloatArray) -> float:
        """Return by how much the row holds; 0 for an equality that holds."""
        row = self.matrix[self.number]
        x = np.append(x, np.zeros(max(row.size - x.size, 0)))
        x = np.where(self._is_used, x, 0.0)  # other values may be missing
        terms = row * x
        values = (float((self.matrix @ x)[self.number]), float(row @ x), float(terms.sum()))
        if self.low == self.high:
            scale = abs(self.low) + float(np.abs(terms).sum())
            return min(_equality_slack(value - self.low, scale) for value in values)
        return min(min(value - self.low, self.high - value) for value in values)


def _equality_slack(difference: float, scale: float) -> float:
    """Return 0 if a difference is due to rounding, otherwise its negative absolute value."""
    near = abs(difference) <= EQUALITY_ULPS * np.finfo(float).eps * scale
    return 0.0 if near else -abs(difference)


def _comparisons(text: str, name: str, choices: Choices) -> list[tuple[Comparison, _Text]]:
    """Return the comparisons of a text, with the columns of their features."""
    inputs = choices.inputs
    labels = None if choices.columns is None else choices.columns.labels
    found = []
    for comparison in parse(text, name):
        columns = {}
        for reference in comparison.references:
            at = comparison.places[reference]
            try:
                column = column_of(reference, "constraints", inputs, labels)
            except InputError as unknown:
                what = str(unknown).removeprefix("constraints: ")
                problem, _, remedy = what.removesuffix(".").partition(". ")
                remedy = f"{remedy}." if remedy else "Correct the number."
                raise InputError(pointed(text, at, name, problem, remedy)) from None
            if column in inputs.categories:
                raise InputError(
                    pointed(
                        text,
                        at,
                        name,
                        f"{feature_label(column, inputs)} is a category, which has no order",
                        "Use treeopt.Forbid to exclude combinations, or the argument categories "
                        "to restrict its values.",
                    )
                )
            columns[reference] = column
        found.append((comparison, _Text(comparison, columns)))
    return found


def _row(comparison: Comparison, written: _Text) -> Row | bool:
    """Return a comparison as a row; True or False if no feature is left in it."""
    coefficients, constant = comparison.linear()
    sizes, size = comparison.sizes()
    by_column: dict[int, list[float]] = {}
    for reference, each in sizes.items():
        entry = by_column.setdefault(written.columns[reference], [0.0, 0.0])
        entry[0] += coefficients.get(reference, 0.0)
        entry[1] += each
    low = -constant if comparison.relation in (">=", ">", "==") else -np.inf
    high = -constant if comparison.relation in ("<=", "<", "==") else np.inf
    if not any(factor for factor, _ in by_column.values()):
        return written.holds(np.zeros(max(written.columns.values(), default=0) + 1))
    factors, each = np.array(list(by_column.values())).T
    return Row(
        columns=np.array(list(by_column), np.int64),
        coefficients=factors.copy(),
        low=low,
        high=high,
        sizes=each.copy(),
        size=size,
        written=written,
        is_strict=comparison.relation in ("<", ">"),
        n_terms=comparison.n_terms,
    )


def _from_text(text: str, name: str, choices: Choices) -> Constraint:
    """Return the rows of a comparison or a chain of them."""
    rows: list[Condition] = []
    for comparison, written in _comparisons(text, name, choices):
        row = _row(comparison, written)
        if row is False:
            raise InputError(
                f"{name}: no point satisfies {shown(text)}: {comparison.text!r} is false for all "
                "values. Correct or remove it."
            )
        if isinstance(row, Row):
            rows.append(row)
    _refuse_impossible(text, name, rows)
    return Constraint(text.strip(), tuple(rows))


def _refuse_impossible(text: str, name: str, rows: Sequence[Condition]) -> None:
    """Raise an error if the rows of a chain contradict each other for all points."""
    bounds: dict[tuple[Any, ...], tuple[float, float]] = {}
    for row in rows:
        if not isinstance(row, Row):
            continue
        order = np.argsort(row.columns)
        factors = row.coefficients[order]
        scale = float(factors[np.flatnonzero(factors)[0]])
        low, high = sorted((row.low / scale, row.high / scale))
        key = (*row.columns[order].tolist(), *(factors / scale).tolist())
        before = bounds.get(key, (-np.inf, np.inf))
        bounds[key] = low, high = max(low, before[0]), min(high, before[1])
        if low > high:
            raise InputError(
                f"{name}: no point satisfies {shown(text)}: its lower bound is above its upper "
                "bound. Swap or correct them."
            )


def _from_matrix(given: Any, name: str, choices: Choices) -> list[Constraint]:
    """Return the rows of a scipy LinearConstraint."""
    inputs, n = choices.inputs, choices.inputs.n_features
    A = given.A.toarray() if hasattr(given.A, "toarray") else given.A
    A = np.array(np.atleast_2d(A), np.float64)
    if A.shape[1] != n or not np.isfinite(A).all():
        raise InputError(
            f"{name} has a matrix of shape {A.shape}. Pass finite numbers, with one column for "
            f"each of the {n} features."
        )
    low, high = (np.broadcast_to(np.asarray(side, float), len(A)) for side in (given.lb, given.ub))
    found = []
    for i, row in enumerate(A):
        label = name if len(A) == 1 else f"{name}, row {i}"
        if np.isnan(low[i]) or np.isnan(high[i]) or low[i] > high[i]:
            raise InputError(
                f"{label} has the bounds ({low[i]}, {high[i]}), which no point satisfies. Swap or "
                "correct them."
            )
        used = np.flatnonzero(row)
        for column in used:
            if int(column) in inputs.categories:
                raise InputError(
                    f"{label} has a coefficient for {feature_label(int(column), inputs)}, which is "
                    "a category. Use treeopt.Forbid, or the argument categories."
                )
        written = _MatrixRow(A, i, float(low[i]), float(high[i]))
        if not used.size:
            if not written.holds(np.zeros(n)):
                raise InputError(
                    f"{label} has only zeros, but its bounds are ({low[i]}, {high[i]}). No point "
                    "satisfies it. Correct or remove it."
                )
            found.append(Constraint(label, ()))
            continue
        ends = [abs(end) for end in (low[i], high[i]) if np.isfinite(end)]
        condition = Row(
            columns=used.astype(np.int64),
            coefficients=row[used].copy(),
            low=float(low[i]),
            high=float(high[i]),
            sizes=np.abs(row[used]),
            size=max(ends, default=0.0),
            written=written,
        )
        found.append(Constraint(label, (condition,)))
    return found


def _from_predicted(given: Predicted, name: str, responses: Responses) -> Constraint:
    """Return the limit on a prediction."""
    ends = []
    for side, value, default in (("low", given.low, -np.inf), ("high", given.high, np.inf)):
        number = default if value is None else as_float(value)
        if number is None or np.isnan(number) or number == -default:
            raise InputError(f"{name} has {side}={shown(value)}. Pass a finite number or None.")
        ends.append(number)
    low, high = ends
    if np.isinf(low) and np.isinf(high):
        raise InputError(f"{name} has neither low nor high. Pass at least one of them.")
    if low > high:
        raise InputError(
            f"{name} has low={low:g} above high={high:g}, which no point satisfies. Swap them."
        )
    response = responses.of(Asked(given.model, given.output, given.class_index))
    source = title(response, given.class_index)
    label = f"{source} >= {low:.10g}" if np.isinf(high) else f"{source} <= {high:.10g}"
    if np.isfinite(low) and np.isfinite(high):
        label = f"{low:.10g} <= {source} <= {high:.10g}"
    return Constraint(label, (Limit(response, low, high),))


def _numeric_column(feature: Any, name: str, choices: Choices) -> int:
    """Return the column of a feature that must not be a category."""
    labels = None if choices.columns is None else choices.columns.labels
    column = column_of(feature, name, choices.inputs, labels)
    if column in choices.inputs.categories:
        raise InputError(
            f"{name} names {feature_label(column, choices.inputs)}, which is a category and has no "
            "0. Use treeopt.Forbid."
        )
    return column


def _from_at_most(given: AtMost, name: str, choices: Choices) -> Constraint:
    """Return the count of features that may differ from 0."""
    whole = isinstance(given.k, int | np.integer) and not isinstance(given.k, bool)
    if not whole or given.k < 0:
        raise InputError(f"{name} has k={shown(given.k)}. Pass an integer of at least 0.")
    if isinstance(given.names, str) or not hasattr(given.names, "__iter__"):
        raise InputError(f"{name} has names={shown(given.names)}. Pass a list of feature names.")
    columns = [_numeric_column(feature, name, choices) for feature in given.names]
    if not columns:
        raise InputError(f"{name} names no feature. List the features that it counts.")
    if len(set(columns)) != len(columns):
        raise InputError(f"{name} names a feature twice. Remove one.")
    names = ", ".join(f"x[{k}]" if isinstance(k, int) else str(k) for k in given.names)
    label = f"at most {given.k} of {names} not 0"
    return Constraint(label, (Count(tuple(columns), int(given.k)),))


def _literals(comparison: Comparison, written: _Text) -> list[Literal] | bool:
    """Return alternatives, one of which holds if and only if the comparison does."""
    row = _row(comparison, written)
    if isinstance(row, bool):
        return row
    if row.columns.size > 1 or row.cancels:
        return [row]
    return [Within(int(row.columns[0]), *row.interval())]


def _negated(comparison: Comparison, written: _Text) -> list[Literal] | bool:
    """Return alternatives, one of which holds if and only if the comparison does not."""
    relations = [OPPOSITE[comparison.relation]] if comparison.relation != "==" else ["<", ">"]
    found: list[Literal] = []
    for relation in relations:
        other = replace(comparison, relation=relation)
        literals = _literals(other, replace(written, comparison=other))
        if literals is True:
            return True
        found += literals or []
    return found or False


def _from_implies(given: Implies, name: str, choices: Choices) -> Constraint:
    """Return one clause for each comparison of the consequence."""
    unless: list[Literal] = []
    label = f"if {given.condition} then {given.consequence}"
    for comparison, written in _comparisons(given.condition, f"{name}, condition", choices):
        negated = _negated(comparison, written)
        if negated is True:
            return Constraint(label, ())
        unless += negated or []
    clauses: list[Condition] = []
    for comparison, written in _comparisons(given.consequence, f"{name}, consequence", choices):
        then = _literals(comparison, written)
        if then is True:
            continue
        literals = (*unless, *(then or []))
        if not literals:
            raise InputError(
                f"{name}: no point satisfies {label!r}: the condition always holds, the "
                "consequence never. Correct or remove it."
            )
        clauses.append(Clause(literals))
    return Constraint(label, tuple(clauses))


def _from_forbid(given: Forbid, name: str, choices: Choices) -> Constraint:
    """Return the clause that one of the features is outside its range."""
    if not isinstance(given.ranges, Mapping) or not given.ranges:
        raise InputError(
            f"{name} has ranges={shown(given.ranges)}. Pass a mapping from feature names to ranges."
        )
    literals: list[Literal] = []
    parts = []
    for column, key, value in choices.by_feature(given.ranges, name):
        literals += _outside(column, key, value, name, choices)
        parts.append(
            f"{key} in {value!r}" if isinstance(value, tuple | list) else f"{key} = {value!r}"
        )
    label = f"not ({' and '.join(parts)})"
    if not literals:
        raise InputError(
            f"{name}: {label} forbids every point, because all its ranges are unbounded. Bound at "
            "least one of them."
        )
    return Constraint(label, (Clause(tuple(literals)),))


def _outside(column: int, key: Any, value: Any, name: str, choices: Choices) -> list[Literal]:
    """Return alternatives, one of which holds if a feature is outside a range or a list."""
    what = f"{name}[{key!r}]"
    is_category = column in choices.inputs.categories
    if isinstance(value, tuple) and len(value) == 2 and not is_category:
        ends = [
            d if v is None else as_float(v) for v, d in zip(value, (-np.inf, np.inf), strict=True)
        ]
        low, high = ends
        if low is None or high is None or np.isnan(low) or np.isnan(high) or low > high:
            raise InputError(f"{what} is {shown(value)}. Pass a pair (low, high) of numbers.")
        found: list[Literal] = []
        if low > -np.inf:
            found.append(Within(column, -np.inf, float(np.nextafter(low, -np.inf))))
        if high < np.inf:
            found.append(Within(column, float(np.nextafter(high, np.inf)), np.inf))
        return found
    known = choices.inputs.categories[column] if is_category else None
    is_range = isinstance(value, tuple) and not any(isinstance(v, str) for v in value)
    if known is not None and not known.has_numbers and is_range:
        raise InputError(
            f"{what} is {shown(value)}, but a category has no ranges. Pass a list of labels."
        )
    many = isinstance(value, tuple | list | set | frozenset | np.ndarray)
    if many and not len(value):
        raise InputError(f"{what} is empty. List the values that are forbidden.")
    numbers = [number_of(v, column, choices.inputs, what) for v in (value if many else [value])]
    if np.isnan(numbers).any():
        raise InputError(f"{what} has a missing value. Pass numbers or labels.")
    return [Within(column, numbers=frozenset(numbers), inside=False)]
