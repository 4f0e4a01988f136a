"""The names that constraints and costs mention: features may have a cost that no model reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from treeopt.errors import InputError
from treeopt.problem.constraints import AtMost, Forbid, Implies
from treeopt.problem.costs import Change, Price
from treeopt.problem.parser import parse
from treeopt.problem.read_constraints import listed_constraints
from treeopt.problem.terms import WeightedSum


def mentioned_names(objective: Any, cost: Any, constraints: Any) -> frozenset[str]:
    """Return the names of features in costs and constraints. What cannot be read is left out."""
    costs = cost if isinstance(cost, list | tuple) else [cost]
    found = [_in_constraint(given) for given in listed_constraints(constraints)]
    found += [_in_cost(term) for term in (objective, *costs)]
    return frozenset(name for names in found for name in names if isinstance(name, str))


def _in_constraint(given: Any) -> Iterable[Any]:
    """Return the names in one constraint."""
    if isinstance(given, str):
        return _in_text(given)
    if isinstance(given, Implies):
        return [*_in_text(given.condition), *_in_text(given.consequence)]
    if isinstance(given, AtMost):
        return [] if isinstance(given.names, str) else _listed(given.names)
    return _keys(given.ranges) if isinstance(given, Forbid) else []


def _in_text(text: Any) -> Iterator[Any]:
    """Yield the names in a condition."""
    try:
        comparisons = parse(text)
    except InputError:
        return  # the reader of constraints says what is wrong
    for comparison in comparisons:
        yield from comparison.references


def _in_cost(term: Any) -> Iterable[Any]:
    """Return the names in a cost, or in the costs of a weighted sum."""
    if isinstance(term, Price):
        return _keys(term.prices)
    if isinstance(term, Change):
        return _keys(term.row)
    if isinstance(term, WeightedSum):
        pairs = [p for p in _listed(term.terms) if isinstance(p, tuple | list) and len(p) == 2]
        return [name for _, each in pairs for name in _in_cost(each)]
    return _keys(term)


def _keys(given: Any) -> Iterable[Any]:
    """Return the names of a mapping, a series or a frame."""
    if isinstance(given, Mapping):
        return given
    if hasattr(given, "columns"):
        return _listed(given.columns)
    return _listed(given.index) if hasattr(given, "to_frame") else []


def _listed(given: Any) -> list[Any]:
    """Return the entries of a list; nothing if it is none."""
    return list(given) if hasattr(given, "__iter__") else []
