"""Random decision problems with constraints and costs, for `tests.support.brute`.

Each is made from a seed. Numbers are such that ties, thin feasible sets and contradictions are
common: cuts, bounds and limits are often multiples of 0.5, limits often equal to what some point
has, leaves often small integers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import xgboost as xgb
from scipy.optimize import Bounds, LinearConstraint
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import treeopt
from tests.support.brute import (
    Cells,
    Column,
    Costs,
    Few,
    Limits,
    Line,
    Logic,
    Matrix,
    Only,
    Part,
    Predicts,
    Question,
    Rows,
    Times,
)
from tests.support.truth import random_tree
from treeopt import Ensemble
from treeopt.adapters import OwnPrediction
from treeopt.model.categories import Categories, truncated
from treeopt.model.link import IDENTITY, Link
from treeopt.model.softmax import Softmax

FEW_CELLS = 300
"""Columns are narrowed until the models alone have no more combinations of cells."""

MOST_CELLS = 2000
"""A random problem is cut down until it has no more combinations of cells."""

NAMES = [("a", "b", "c", "d"), ("fly ash", "w/c", "and", "x"), ("größe", "_1", "x[0]", "a`b")]
FACTORS = (1.0, 1.0, 1.0, 2.0, 0.5, -1.0, 3.0, -0.5, 0.25, 0.1)

OBJECTIVES = ("model", "sum", "price", "change", "product", "mixture")
CONSTRAINTS = ("text", "matrix", "predicted", "at most", "implies", "forbid")


def random_ensemble(
    rng: np.random.Generator,
    names: Sequence[Any] | None,
    categories: dict[int, Categories],
    n_features: int,
    link: Link = IDENTITY,
    dtypes: tuple[Any, Any] | None = None,
    n_trees: int | None = None,
) -> Ensemble:
    """Return a small ensemble with its own cuts."""
    n_trees = int(rng.integers(1, rng.choice([3, 9]))) if n_trees is None else n_trees
    trees = [random_tree(rng, int(rng.integers(1, 7)), n_features) for _ in range(n_trees)]
    sizes = [left.size for left, *_ in trees]
    start = np.cumsum([0, *sizes])
    left, right, feature = (np.concatenate([t[k] for t in trees]) for k in range(3))
    shift, leaf, n = np.repeat(start[:-1], sizes), left < 0, left.size
    if dtypes is None:
        dtypes = tuple(rng.choice([np.float32, np.float64], 2))
    input_dtype, value_dtype = np.dtype(dtypes[0]), dtypes[1]
    threshold = np.where(rng.random(n) < 0.6, rng.integers(0, 20, n) / 2, rng.uniform(0, 10, n))
    threshold = np.where(rng.random(n) < 0.2, np.round(threshold, 1), threshold)
    if input_dtype == np.float32:
        threshold = threshold.astype(np.float32).astype(np.float64)
    by_set = ~leaf & np.isin(feature, list(categories))
    sets = [rng.choice(len(categories[int(j)]), rng.integers(1, 3)) for j in feature[by_set]]
    values = rng.integers(-3, 4, n) if rng.random() < 0.5 else rng.normal(size=n)
    values = values / (2 if link.name == "exp" else 1)
    zeros = rng.random() < 0.15
    return Ensemble(
        feature=feature.astype(np.int32),
        threshold=np.where(leaf, np.nan, threshold),
        left=np.where(leaf, -1, left + shift).astype(np.int32),
        right=np.where(leaf, -1, right + shift).astype(np.int32),
        value=np.where(leaf, values, 0).astype(value_dtype),
        default_left=~leaf & (rng.random(n) < 0.5),
        zero_missing=~leaf & ~by_set & (rng.random(n) < 0.5) & zeros,
        category_set=np.where(by_set, np.cumsum(by_set) - 1, -1).astype(np.int32),
        set_start=np.cumsum([0, *(len(s) for s in sets)]),
        set_member=np.concatenate([[], *sets]).astype(np.int32),
        tree_start=start,
        categories={
            j: replace(truncated(known.value, input_dtype), labels=known.labels, recode="sorted")
            for j, known in categories.items()
        },
        n_features=n_features,
        feature_names=None if names is None else tuple(names),
        importances=np.full(n_features, 1 / n_features),
        input_dtype=input_dtype,
        base=float(value_dtype(rng.choice([0.0, 0.5, rng.normal()]))),
        divisor=float(rng.choice([1.0, 1.0, n_trees])),
        link=link,
    )


def random_link(rng: np.random.Generator) -> Link:
    """Return a link; most often none."""
    links = [
        IDENTITY,
        Link("logistic"),
        Link("exp"),
        Link("logistic", slope=2.0),
        Link("logistic", complement=True),
    ]
    return links[rng.choice(len(links), p=[0.6, 0.15, 0.1, 0.05, 0.1])]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model and the names of its columns."""

    model: Any
    columns: tuple[str, ...]
    output: dict[str, Any]


@cache
def fitted_models() -> list[Fitted]:
    """Return small models of the libraries, fitted on some of the columns a, b, c, d."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.round(rng.uniform(0, 10, (60, 4)), 1), columns=list("abcd"))
    y = X["a"] * (X["b"] > 4) - X["c"] + 3 * (X["d"] > X["a"])
    three = np.digitize(y, [-1.0, 4.0])
    few = {"n_estimators": 3, "max_depth": 2, "random_state": 0}
    made = [
        (RandomForestRegressor(**few), ["a", "b"], y, {}),
        (GradientBoostingRegressor(**few), ["b", "c"], y, {}),
        (xgb.XGBRegressor(**few), ["d", "a", "c"], y, {}),
        (RandomForestClassifier(**few), ["b", "d"], three, {"class_index": 1}),
        (xgb.XGBClassifier(**few), ["a", "c"], y > 2, {}),
        (GradientBoostingClassifier(**few), ["c", "b"], three, {"output": "raw", "class_index": 0}),
    ]
    return [Fitted(m.fit(X[c], t), tuple(c), output) for m, c, t, output in made]


@cache
def fitted_softmax() -> list[Fitted]:
    """Return small boosted classifiers of three classes."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(np.round(rng.uniform(0, 10, (60, 4)), 1), columns=list("abcd"))
    three = np.digitize(X["a"] - X["b"] + (X["c"] > 5), [-2.0, 2.0])
    few = {"n_estimators": 2, "max_depth": 2, "random_state": 0}
    made = [
        (GradientBoostingClassifier(**few), ["a", "b", "c"]),
        (xgb.XGBClassifier(**few), ["b", "a"]),
    ]
    return [
        Fitted(m.fit(X[c], three), tuple(c), {"output": "proba", "class_index": k})
        for m, c in made
        for k in (0, 2)
    ]


class Maker:
    """Draws one random question.

    Parameters
    ----------
    rng : Generator
    objective : str
        One of `OBJECTIVES`.
    kinds : sequence of str
        Some of `CONSTRAINTS`.
    models : {"random", "fitted", "softmax"}
        Random ensembles, models of the libraries, or probabilities of several classes first.
    """

    def __init__(
        self, rng: np.random.Generator, objective: str, kinds: Sequence[str], models: str
    ) -> None:
        self.rng, self.goal, self.kinds = rng, objective, list(kinds)
        self.sense = str(rng.choice(["min", "max"]))
        self.categories: dict[int, Categories] = {}
        no_model = objective in ("price", "change") and rng.random() < 0.3
        n_parts = 0 if no_model else int(rng.choice([1, 2, 3], p=[0.5, 0.3, 0.2]))
        self.names: tuple[Any, ...] | None
        if models == "fitted":
            self._draw_fitted(max(n_parts, 1))
        else:
            self._draw_random(n_parts, models == "softmax")
        self.used = 0
        self.given = self.columns()
        self._narrow()
        is_open = [c.values is None and np.isinf([c.low, c.high]).any() for c in self.given]
        self.as_frame = self.names is not None and not any(is_open) and rng.random() < 0.25
        if self.as_frame:  # the range of the data is that of integers
            self.given = [
                replace(c, low=float(np.ceil(c.low)), high=float(np.floor(c.high)))
                if c.integer
                else c
                for c in self.given
            ]

    def _draw_random(self, n_parts: int, softmax: bool) -> None:
        rng = self.rng
        self.p = p = int(rng.integers(1, 5))
        names = NAMES[rng.choice(len(NAMES), p=[0.6, 0.25, 0.15])]
        self.names = tuple(rng.permutation(names)[:p].tolist()) if rng.random() < 0.65 else None
        if rng.random() < 0.25 and n_parts:
            self._draw_category(int(rng.integers(p)))
        self.parts = []
        seen = 0  # columns are numbered in the order in which the models name them
        for i in range(n_parts):
            columns = list(range(p))
            if self.names is not None:
                new = int(rng.integers(0 if seen else 1, p - seen + 1))
                new = p - seen if i == n_parts - 1 else new
                old = rng.permutation(seen)[: rng.integers(0 if new else 1, seen + 1)].tolist()
                columns = [*old, *range(seen, seen + new)]
                seen += new
            is_softmax = (softmax and i == 0) or rng.random() < 0.05
            self.parts.append(self._random_part(columns, is_softmax))

    def _draw_fitted(self, n_parts: int) -> None:
        pool = [*fitted_models(), *fitted_softmax()]
        chosen = [pool[i] for i in self.rng.choice(len(pool), n_parts, replace=False)]
        names = tuple(dict.fromkeys(name for fitted in chosen for name in fitted.columns))
        self.p, self.names, self.parts = len(names), names, []
        for fitted in chosen:
            columns = tuple(names.index(c) for c in fitted.columns)
            own = OwnPrediction(fitted.model, **fitted.output)
            model = treeopt.from_model(fitted.model, **fitted.output)
            self.parts.append(Part(model, columns, fitted.model, own, fitted.output))

    # Columns

    def _draw_category(self, j: int) -> None:
        k = int(self.rng.integers(2, 5))
        labels: Any = None
        if self.names is not None:  # frames have labels, and need names
            labels = ("red", "green", "blue", "gray")[:k]
            if self.rng.random() < 0.3:
                labels = tuple(range(10, 10 + k))
        self.categories[j] = truncated(np.arange(k), np.dtype(np.float64), labels=labels)

    def _key(self, j: int) -> Any:
        return j if self.names is None else self.names[j]

    def columns(self) -> list[Column]:
        """Draw what may be chosen."""
        return [
            self._category(j) if j in self.categories else self._numbers(j) for j in range(self.p)
        ]

    def _category(self, j: int) -> Column:
        rng, known = self.rng, self.categories[j]
        numbers = known.value.tolist()
        if rng.random() < 0.3:
            some = rng.choice(numbers, rng.integers(1, len(numbers) + 1), replace=False)
            numbers = sorted(some.tolist())
        labels = known.label_of
        return Column(self._key(j), values=tuple(numbers), labels=labels, is_category=True)

    def _numbers(self, j: int) -> Column:
        rng = self.rng
        kind = rng.choice(
            ["box", "integer", "list", "fixed", "point", "open", "wide integer"],
            p=[0.48, 0.18, 0.12, 0.08, 0.04, 0.06, 0.04],
        )
        low = float(rng.choice([0, 0, 0, -2, 1, 0.5, 2.25, np.round(rng.uniform(0, 4), 2)]))
        high = low + float(rng.choice([1, 2, 4, 5, 8, 10, rng.uniform(0, 10)]))
        made = Column(self._key(j), low, high)
        if kind == "integer":
            return replace(made, high=float(max(high, np.ceil(low))), integer=True)
        if kind == "wide integer":
            return replace(made, high=float(rng.choice([60, 1000])), integer=True)
        if kind == "list":
            pool = np.concatenate([np.arange(0, 10, 0.5), rng.uniform(0, 10, 3)])
            values = np.unique(rng.choice(pool, rng.integers(2, 5)))
            return Column(made.key, values=tuple(values.tolist()))
        if kind == "fixed":
            return Column(made.key, values=(low,))
        if kind == "point":
            return replace(made, high=low)
        if kind == "open":
            return Column(
                made.key, *[(low, np.inf), (-np.inf, high), (-np.inf, np.inf)][rng.integers(3)]
            )
        return made

    def _narrow(self) -> None:
        """Narrow the columns until the models have few combinations of cells."""
        rng = self.rng
        while True:
            terms = [Predicts(1.0, part) for part in self.parts]
            cells = Cells(Question(self.given, terms, [], "min", None, None, {}))
            if cells.n <= FEW_CELLS:
                return
            j = int(np.argmax([len(axis) for axis in cells.axes]))
            axis, column = cells.axes[j], self.given[j]
            if column.values is not None:
                keep = rng.choice(column.values, len(column.values) // 2, replace=False)
                self.given[j] = replace(column, values=tuple(sorted(keep.tolist())))
                continue
            i = int(rng.integers(len(axis)))
            k = min(i + len(axis) // 2, len(axis) - 1)
            low = float(axis.low[i]) if i else column.low
            high = float(axis.high[k]) if k < len(axis) - 1 else column.high
            self.given[j] = replace(column, low=low, high=high)

    # Models

    def _random_part(self, columns: list[int], softmax: bool) -> Part:
        rng = self.rng
        names = None if self.names is None else [self.names[j] for j in columns]
        categories = {i: self.categories[j] for i, j in enumerate(columns) if j in self.categories}
        if not softmax:
            e: Any = random_ensemble(rng, names, categories, len(columns), random_link(rng))
            return Part(e, tuple(columns), e)
        dtypes = tuple(rng.choice([np.float32, np.float64], 2))
        sums = [
            random_ensemble(rng, names, categories, len(columns), IDENTITY, dtypes, 2)
            for _ in range(rng.integers(2, 4))
        ]
        sums = [replace(e, divisor=sums[0].divisor) for e in sums]
        arithmetic = str(rng.choice(["xgboost", "sklearn"]))
        e = Softmax(tuple(sums), int(rng.integers(len(sums))), arithmetic)
        return Part(e, tuple(columns), e)

    def part(self) -> Part | None:
        """Return the next model, or any after the last; None if there is none."""
        if not self.parts:
            return None
        i = self.used if self.used < len(self.parts) else int(self.rng.integers(len(self.parts)))
        self.used += 1
        return self.parts[i]

    # Terms

    def numeric(self, finite: bool = False) -> list[int]:
        """Return the columns with numbers; only those with finite bounds."""
        return [
            j
            for j, c in enumerate(self.given)
            if not c.is_category
            and not (finite and c.values is None and not np.isfinite([c.low, c.high]).all())
        ]

    def some(self, pool: Sequence[int]) -> list[int]:
        """Return at least one of some columns, if there are any."""
        return (
            self.rng.permutation(pool)[: self.rng.integers(1, len(pool) + 1)].tolist()
            if pool
            else []
        )

    def price(self, weight: float, is_cost: bool) -> tuple[Any, Any]:
        """Return prices."""
        rng, prices = self.rng, {}
        slopes: dict[int, float] = {}
        tables: dict[int, tuple[dict[float, float], float]] = {}
        # In the order of `Costs.columns`, so that sums are added in one order.
        for j in sorted(self.some([*self.numeric(finite=True), *self.categories])):
            column = self.given[j]
            if not column.is_category:
                slopes[j] = float(rng.choice([1, 0.5, -1, 0.1, 2, rng.normal()]))
                continue
            table = {v: float(np.round(rng.normal(), 1)) for v in self.categories[j].value.tolist()}
            tables[j] = (table, np.nan)
        prices = {self._key(j): slope for j, slope in slopes.items()}
        for j, (table, _) in tables.items():
            prices[self._key(j)] = {self.given[j].label(v): price for v, price in table.items()}
        return treeopt.Price(prices), Costs(weight, slopes, tables, is_cost=is_cost)

    def change(self, weight: float, is_cost: bool) -> tuple[Any, Any]:
        """Return changes from a row."""
        rng, row = self.rng, {}
        tables: dict[int, tuple[dict[float, float], float]] = {}
        kinks: dict[int, tuple[float, float, float]] = {}
        per: dict[Any, float] = {}
        fee: dict[Any, float] = {}
        with_per, with_fee = (rng.random(2) < 0.6).tolist()
        for j in sorted(self.some([*self.categories, *self.numeric(finite=True)])):
            column = self.given[j]
            own_per = float(rng.choice([1, 0.5, 2, 0.0, abs(rng.normal())]))
            own_fee = float(rng.choice([0, 0.5, 1, 2])) if with_fee else 0.0
            is_fixed = column.values is not None and len(column.values) == 1
            if with_per or is_fixed:
                per[column.key] = own_per
            else:
                own_per = 1.0 if column.is_category else 1.0 / column.width
            if with_fee:
                fee[column.key] = own_fee
            if column.is_category:
                at = float(rng.choice(self.categories[j].value))
                tables[j] = ({at: 0.0}, own_per + own_fee)
            else:
                near = [0.0, 1.0, 2.5, *np.clip([column.low, column.high], -5, 15)]
                at = float(rng.choice([*near, np.round(rng.uniform(0, 8), 1)]))
                kinks[j] = (at, own_per, own_fee)
        row = {self._key(j): self.given[j].label(next(iter(t))) for j, (t, _) in tables.items()}
        row |= {self._key(j): at for j, (at, _, _) in kinks.items()}
        given = treeopt.Change(row, per or None, fee or None)
        return given, Costs(weight, {}, tables, kinks, is_cost=is_cost)

    def term(self, kind: str, weight: float) -> tuple[Any, Any]:
        """Return a term as the user passes it and as it is."""
        if kind == "change":
            return self.change(weight, False)
        if kind == "price" or not self.parts:
            return self.price(weight, False)
        part = self.part()
        assert part is not None
        pool = self.numeric(finite=True)
        if kind == "product" and pool:
            j = int(self.rng.choice(pool))
            minus = float(self.rng.choice([0.0, 1.0, 2.5]))
            given = treeopt.Product(self._key(j), part.asked, minus, **part.output)
            return given, Times(weight, part, j, minus)
        asked = treeopt.Predicted(part.asked, **part.output) if part.output else part.asked
        return asked, Predicts(weight, part)

    def objective(self) -> tuple[Any, list[Any]]:
        """Return the objective and its terms."""
        rng = self.rng
        kinds = ["model"] * int(rng.integers(1, 4))
        if self.goal == "mixture":
            mixed = ["model", "price", "change", "product"]
            kinds = rng.choice(mixed, rng.integers(2, 4)).tolist()
        elif self.goal != "sum":
            given, term = self.term(self.goal, 1.0)
            return given, [term]
        pairs, terms = [], []
        for kind in kinds:
            weight = float(rng.choice([1.0, -1.0, 0.5, -0.25, 2.0, 0.7]))
            given, term = self.term(kind, weight)
            pairs.append((weight, given))
            terms.append(term)
        return treeopt.WeightedSum(pairs), terms

    def cost(self) -> tuple[Any, list[Any]]:
        """Return the argument cost and its terms."""
        rng = self.rng
        if rng.random() < 0.5:
            return None, []
        found = [
            (self.price if rng.random() < 0.5 else self.change)(1.0, True)
            for _ in range(int(rng.integers(1, 3)))
        ]
        given = [
            dict(g.prices) if isinstance(g, treeopt.Price) and rng.random() < 0.5 else g
            for g, _ in found
        ]
        return given[0] if len(given) == 1 else given, [term for _, term in found]

    # Constraints

    def point(self) -> np.ndarray:
        """Draw an allowed point."""
        rng, found = self.rng, []
        for column in self.given:
            if column.values is not None:
                found.append(rng.choice(column.values))
                continue
            low, high = np.clip(
                [column.low, column.high], min(column.high, -5), max(column.low, 15)
            )
            value = rng.choice([low, high, *rng.uniform(low, high, 2)])
            value = np.clip(np.round(value, int(rng.integers(0, 3))), low, high)
            if column.integer:
                value = np.clip(np.round(value), np.ceil(low), np.floor(high))
            found.append(value)
        return np.array(found, float)

    def refer(self, j: int) -> str:
        """Return a column as the user writes it in text."""
        if self.names is None or self.rng.random() < 0.1:
            return f"x[{j}]"
        name = self.names[j]
        plain = re.fullmatch(r"[^\W\d]\w*", name) and name != "and"
        return name if plain and self.rng.random() < 0.9 else f"`{name.replace('`', '``')}`"

    def side(self, terms: Sequence[tuple[int, float]], constant: float | None = None) -> str:
        """Return a sum as text, with ``{3}`` for column 3."""
        rng, found = self.rng, ""
        for j, factor in terms:
            size = abs(factor)
            ways = [f"{size!r}*{{{j}}}", f"{{{j}}} * {size:g}", f"{{{j}}}/{1 / size!r}"]
            own = f"{{{j}}}" if size == 1 else ways[rng.integers(2 if size == 0.1 else 3)]
            sign = "-" if factor < 0 else "+" if found else ""
            found += f" {sign} {own}" if found else f"{sign}{own}"
        if not found:
            return repr(constant)
        if constant:
            found += f" - {-constant!r}" if constant < 0 else f" + {constant!r}"
        return found

    def comparison(self, most: int = 3) -> Rows | None:
        """Return a condition as text: one comparison or a chain."""
        rng, pool = self.rng, self.numeric()
        if not pool:
            return None
        own = rng.choice(pool, min(int(rng.integers(1, most + 1)), len(pool)), replace=False)
        terms = [(int(j), float(rng.choice(FACTORS))) for j in own]
        x = self.point()
        total = sum(f * x[j] for j, f in terms) + rng.choice([0, 0, 0, 0.5, -0.5, 2, -2])
        limit = float(np.round(total, rng.integers(0, 4))) + 0.0
        relation = str(rng.choice(["<=", ">=", "<", ">", "=="], p=[0.35, 0.3, 0.1, 0.1, 0.15]))
        if rng.random() < 0.25 and relation != "==":
            return self.chain(terms, limit, relation)
        left, right = terms, []
        if rng.random() < 0.3:
            left, right = terms[:1], [(j, -f) for j, f in terms[1:]]
        if rng.random() < 0.1 and terms[0][1] != 2:  # a feature on both sides
            right, limit = [*right, (terms[0][0], 2.0)], limit - 2 * float(x[terms[0][0]])
        texts = self.side(left), self.side(right, limit)
        factor = 1.0
        if rng.random() < 0.15:
            texts, factor = (f"({texts[0]})*2", texts[1]), 2.0
        factors = dict.fromkeys((j for j, _ in (*left, *right)), 0.0)
        sizes = dict(factors)
        for j, f in (*((j, factor * f) for j, f in left), *((j, -f) for j, f in right)):
            factors[j] += f
            sizes[j] += abs(f)
        if 0.0 in factors.values():
            return None
        made = self.rows([(texts[0], relation, texts[1], factors, -limit)])
        return replace(made, lines=tuple(replace(line, sizes=sizes) for line in made.lines))

    def chain(self, terms: list[tuple[int, float]], limit: float, relation: str) -> Rows:
        """Return a chain of two comparisons."""
        rng = self.rng
        width = float(rng.choice([0.0, 0.5, 1.0, 3.0]))
        width = 0.5 if relation in ("<", ">") and width == 0 else width
        end = limit + (width if relation in ("<=", "<") else -width)
        if rng.random() < 0.3 and len(terms) > 1:  # such as a <= b <= 3
            first, *others = terms
            sides, middle = dict([first]), dict(others)
            text = self.side(others)
            parts = [
                (self.side([first]), relation, text, {**sides, **{j: -f for j, f in others}}, 0.0),
                (text, relation, repr(end), middle, -end),
            ]
            return self.rows(parts)
        text = self.side(terms)
        return self.rows(
            [
                (repr(limit), relation, text, {j: -f for j, f in terms}, limit),
                (text, relation, repr(end), dict(terms), -end),
            ]
        )

    def rows(self, parts: list[tuple[str, str, str, dict[int, float], float]]) -> Rows:
        """Return the constraint of a text; a part is left, relation, right, factors, constant."""
        names = [self.refer(j) for j in range(self.p)]
        code = [f"v[{j}]" for j in range(self.p)]
        blank = " " * int(self.rng.integers(0, 3))
        text = parts[0][0]
        for _, relation, right, _, _ in parts:
            text += f"{blank}{relation}{blank}{right}"
        lines = tuple(
            Line(left.format(*code), relation, right.format(*code), factors, constant)
            for left, relation, right, factors, constant in parts
        )
        return Rows(text.format(*names), lines)

    def matrix(self) -> Matrix | None:
        """Return a matrix of one or two rows."""
        rng, pool = self.rng, self.numeric()
        if not pool:
            return None
        n = int(rng.integers(1, 3))
        A = np.zeros((n, self.p))
        for i in range(n):
            own = self.some(pool)
            A[i, own] = rng.choice(FACTORS, len(own))
        middle = np.round(A @ self.point(), int(rng.integers(0, 3)))
        low = middle - rng.choice([0.0, 0.5, np.inf], n)
        high = middle + rng.choice([0.0, 1.0, np.inf], n)
        if n == 1 and rng.random() < 0.5:
            return Matrix(LinearConstraint(A[0], low[0], high[0]), self.p)
        return Matrix(LinearConstraint(A, low, high), self.p)

    def predicted(self) -> Limits | None:
        """Return limits on a prediction, often equal to one that occurs."""
        rng, part = self.rng, self.part()
        if part is None:
            return None
        values = part.predict(np.array([self.point() for _ in range(8)]))
        value = float(rng.choice(values))
        if rng.random() < 0.3:
            value = float(rng.choice([np.quantile(values, 0.7), np.round(value, 1)]))
        ends: tuple[float | None, float | None] = (value, None)
        if rng.random() < 0.5:
            ends = None, value
        if rng.random() < 0.25:
            low, high = sorted([value, value + float(rng.choice([0.0, 0.5, -1.0]))])
            ends = low, high
        return self.limits(part, *ends)

    def limits(self, part: Part, low: float | None, high: float | None) -> Limits:
        """Return limits on a prediction."""
        given = treeopt.Predicted(part.asked, low, high, **part.output)
        ends = (-np.inf if low is None else low, np.inf if high is None else high)
        return Limits(given, part, *ends)

    def at_most(self) -> Few | None:
        """Return a maximum number of columns that are not 0."""
        own = self.some(self.numeric())
        k = int(self.rng.integers(0, len(own) + 1))
        return Few(treeopt.AtMost(k, [*map(self._key, own)]), tuple(own), k) if own else None

    def implies(self) -> Logic | None:
        """Return a condition and its consequence."""
        one, other = (self.rng.random(2) < 0.6).tolist()
        condition, consequence = (
            self.comparison(1 if one else 3),
            self.comparison(1 if other else 3),
        )
        if condition is None or consequence is None:
            return None
        unless = [replace(line, negated=True) for line in condition.lines]
        clauses = [[*unless, line] for line in consequence.lines]

        def test(x: np.ndarray, certainly: bool = False) -> bool:
            applies = all(line.is_true(x) for line in condition.lines)
            holds = consequence.certainly_holds if certainly else consequence.holds
            return not applies or holds(x)

        return Logic(treeopt.Implies(condition.given, consequence.given), clauses, test)

    def forbid(self) -> Logic:
        """Return a forbidden combination."""
        rng, ranges = self.rng, {}
        outside: list[Only] = []
        for j in self.some(range(self.p))[:3]:
            column = self.given[j]
            if column.is_category:
                numbers = np.unique(
                    rng.choice(self.categories[j].value, rng.integers(1, 3))
                ).tolist()
                labels = [column.label(v) for v in numbers]
                ranges[column.key] = labels if len(labels) > 1 else labels[0]
                outside.append(Only(j, numbers=frozenset(numbers)))
                continue
            low, high = sorted([float(self.point()[j]), float(self.point()[j])])
            kind = rng.choice(["range", "below", "above", "value", "list"])
            made = {
                "range": ((low, high), Only(j, low, high)),
                "below": ((None, high), Only(j, high=high)),
                "above": ((low, None), Only(j, low=low)),
                "value": (low, Only(j, numbers=frozenset([low]))),
                "list": ([low, high], Only(j, numbers=frozenset([low, high]))),
            }
            ranges[column.key], literal = made[kind]
            outside.append(literal)

        def test(x: np.ndarray, certainly: bool = False) -> bool:
            return any(literal.holds(x) for literal in outside)

        return Logic(treeopt.Forbid(ranges), [outside], test)

    # All together

    def options(self) -> dict[str, Any]:
        """Return bounds, fixed, integer and categories as the user passes them."""
        rng, columns = self.rng, self.given
        fixed = {c.key: c.label(c.values[0]) for c in columns if _is_fixed(c)}
        listed = {
            c.key: [c.label(v) for v in c.values]
            for c in columns
            if c.values is not None and not _is_fixed(c)
        }
        integer = [c.key for c in columns if c.integer]
        rest: dict[str, Any] = {"fixed": fixed, "integer": integer, "categories": listed}
        rest = {k: v for k, v in rest.items() if v or rng.random() < 0.1}
        if self.as_frame:
            if rng.random() < 0.5:
                rest.pop("integer", None)
            return {"bounds": self.frame(), **rest}
        pairs: dict[Any, Any] = {}
        for column in columns:
            if column.values is None:
                pairs[column.key] = (column.low, column.high)
            elif not column.is_category:
                pairs[column.key] = (min(column.values) - 1, max(column.values) + 1)
        if (
            self.names is None
            and len(pairs) == len(columns)
            and (not self.parts or rng.random() < 0.5)
        ):
            ends = np.array([pairs[c.key] for c in columns])
            pairs = [tuple(pair) for pair in ends.tolist()]
            as_object = rng.random() < 0.5 and (self.parts or self.p > 1)
            return {"bounds": Bounds(*ends.T) if as_object else pairs, **rest}
        if self.parts and rng.random() < 0.7:  # what is fixed or listed needs no bounds
            pairs = {c.key: pairs[c.key] for c in columns if c.values is None}
        return {"bounds": pairs, **rest}

    def frame(self) -> pd.DataFrame:
        """Return data with the range of each column."""
        rng, n, data = self.rng, 6, {}
        for column in self.given:
            if column.is_category:
                assert column.values is not None
                drawn = [column.label(v) for v in np.resize(column.values, n)]
                data[column.key] = pd.Categorical(drawn, [*column.labels.values()])
                continue
            low, high = column.low, column.high
            if column.values is not None:
                low, high = min(column.values), max(column.values)
            values = np.append([low, high], rng.uniform(low, high, n - 2))
            if column.integer:
                values = np.floor(values).astype(np.int64)
            data[column.key] = values
        order = rng.permutation(self.p) if self.parts else range(self.p)
        return pd.DataFrame({self._key(j): data[self._key(j)] for j in order})

    def make(self) -> Question | None:
        """Return the question; None if it is too large."""
        objective, terms = self.objective()
        cost, costs = self.cost()
        drawn = self.rng.choice(self.kinds, self.rng.integers(0, 5)).tolist() if self.kinds else []
        make = {
            "text": self.comparison,
            "matrix": self.matrix,
            "predicted": self.predicted,
            "at most": self.at_most,
            "implies": self.implies,
            "forbid": self.forbid,
        }
        constraints = [c for c in (make[kind]() for kind in drawn) if c is not None]
        for part in self.parts[self.used :]:  # so that all columns are part of the problem
            constraints.append(self.limits(part, -100.0, None))
        question = Question(
            self.given, [*terms, *costs], constraints, self.sense, objective, cost, self.options()
        )
        return question if Cells(question).n <= MOST_CELLS else None


def _is_fixed(column: Column) -> bool:
    return column.values is not None and len(column.values) == 1


def random_question(
    seed: int,
    objective: str = "mixture",
    kinds: Sequence[str] = CONSTRAINTS,
    models: str = "random",
) -> Question:
    """Return the question of a seed; see `Maker`."""
    rng = np.random.default_rng(seed)
    while True:
        question = Maker(rng, objective, kinds, models).make()
        if question is not None:
            question.note = f"random_question({seed}, {objective!r}, {list(kinds)}, {models!r})"
            return question
