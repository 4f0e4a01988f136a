"""Small fitted models: the data they learn from, how they are made, and what they are asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone

import treeopt
from tests.support.libraries import LIBRARIES, Library, Training, library_of
from treeopt.model.several_sums import SeveralSums
from treeopt.model.softmax import Softmax

NAMES = ("temp", "flow rate", "pH", "d")

ClassIndex = int | tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model, the data it was trained on, and the output that is asked for.

    ``numbers`` is the data as a matrix, where ``X`` is a frame with labels of categories.
    """

    model: Any
    X: Any
    output: str = "auto"
    class_index: ClassIndex = None
    numbers: np.ndarray | None = None

    def __repr__(self) -> str:
        asked = f"output={self.output!r}, class_index={self.class_index}"
        return f"Case({self.model!r}, {asked}, data of shape {self.matrix.shape})"

    @cached_property
    def library(self) -> Library:
        return library_of(self.model)

    @cached_property
    def ensemble(self) -> treeopt.Ensemble | treeopt.Difference | Softmax:
        return treeopt.from_model(self.model, output=self.output, class_index=self.class_index)

    @property
    def sums(self) -> list[treeopt.Ensemble]:
        """The sums of trees: one, or those of several classes."""
        return sums_of(self.ensemble)

    @property
    def of_one_sum(self) -> list[Case]:
        """This case, or one for each sum of trees of a difference."""
        if not isinstance(self.ensemble, treeopt.Difference):
            return [self]
        parts = [replace(self, class_index=k) for k in self.class_index]
        for part, ensemble in zip(parts, self.sums, strict=True):
            part.__dict__["ensemble"] = ensemble
        return parts

    @cached_property
    def matrix(self) -> np.ndarray:
        """The training data as a float64 matrix."""
        return np.asarray(self.X if self.numbers is None else self.numbers, np.float64)

    @property
    def input_dtype(self) -> type:
        return self.library.input_dtype

    # What the table of supported models shows.

    @property
    def model_name(self) -> str:
        return type(self.model).__name__

    @property
    def class_kind(self) -> str:
        """Which class is asked for: "default", "one" or "difference"."""
        kinds = {type(None): "default", int: "one", tuple: "difference"}
        return kinds[type(self.class_index)]

    @property
    def has_missing(self) -> bool:
        return bool(np.isnan(self.matrix).any())

    @property
    def has_categories(self) -> bool:
        return self.library.categories(self.model).feature.size > 0

    @property
    def engine(self) -> str:
        """How treeopt evaluates it: "masks" or "walk"."""
        return "walk" if self.sums[0].compiled.mask_dtype is None else "masks"

    # What the library says.

    def own(self, X: Any) -> np.ndarray:
        """The library's own prediction: the only judge."""
        return self._ask(X, self.output)

    def own_margin(self, X: Any) -> np.ndarray:
        """The library's own sum before any transformation."""
        has_one = self.class_index == 0 and self.ensemble.link.complement
        return replace(self, class_index=None if has_one else self.class_index)._ask(X, "raw")

    def _ask(self, X: Any, output: str) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = self.library.predict(self.model, X, output)
        return chosen(result, self.class_index)

    def accepts(self, value: float) -> np.ndarray:
        """Tell, per column, whether the library accepts a value there."""
        n = self.matrix.shape[1]
        if self._accepts(value, slice(None)):
            return np.ones(n, bool)
        if not self.has_categories:
            return np.zeros(n, bool)
        return np.array([self._accepts(value, j) for j in range(n)])

    def _accepts(self, value: float, columns: Any) -> bool:
        row = np.nan_to_num(self.matrix[:1])
        row[:, columns] = value
        try:
            self.own(row)
        except ValueError:
            return False
        return True

    @cached_property
    def refuses_nan(self) -> np.ndarray:
        return ~self.accepts(np.nan)

    @cached_property
    def refuses_inf(self) -> np.ndarray:
        return ~self.accepts(np.inf)


def sums_of(model: treeopt.Ensemble | SeveralSums) -> list[treeopt.Ensemble]:
    """Return the sums of trees of a converted model."""
    return list(model.sums) if isinstance(model, SeveralSums) else [model]


def chosen(prediction: np.ndarray, class_index: ClassIndex) -> np.ndarray:
    """Return the class or output that is asked for; by default the last."""
    if isinstance(class_index, tuple):
        a, b = class_index
        return prediction[:, a] - prediction[:, b]
    if prediction.ndim == 1:  # a regressor, or the probability of the second of two classes
        return 1 - prediction if class_index == 0 else prediction
    return np.ascontiguousarray(prediction[:, -1 if class_index is None else class_index])


def _sparse(X: np.ndarray, rng: np.random.Generator, value: float, share: float = 0.3):
    return np.where(rng.random(X.shape) < share, value, X)


def _only_missing(rng: np.random.Generator) -> np.ndarray:
    """Columns whose only information is whether they are missing."""
    return np.where(rng.random((200, 3)) < 0.4, np.nan, 1.0)


def _categories(*columns: Any, n: int = 200) -> Callable[[np.random.Generator], np.ndarray]:
    """Return a maker of columns: of the given categories, or of numbers where there are none."""

    def make(rng: np.random.Generator) -> np.ndarray:
        parts = []
        for known in columns:
            every = np.resize(known, n) if known is not None else rng.normal(size=n)
            parts.append(rng.permutation(every).astype(np.float64))
        return np.column_stack(parts)

    return make


_mixed = _categories(None, range(8), range(25), None)

DATA: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "plain": lambda rng: rng.normal(size=(200, 4)),
    "nan": lambda rng: _sparse(rng.normal(size=(200, 4)), rng, np.nan),
    "zeros": lambda rng: _sparse(rng.normal(size=(200, 4)), rng, 0.0),
    "zeros-nan": lambda rng: _sparse(_sparse(rng.normal(size=(200, 4)), rng, 0.0), rng, np.nan),
    "-999": lambda rng: _sparse(rng.normal(size=(200, 4)), rng, -999.0),
    "only-missing": _only_missing,
    "integers": lambda rng: rng.integers(-5, 6, (200, 3)).astype(np.float64),
    "tenths": lambda rng: np.round(rng.normal(size=(200, 3)), 1),
    "duplicates": lambda rng: np.round(rng.normal(size=(200, 3)) * 2) / 2,
    # Neighboring float32 numbers: a threshold between two of them is none itself. scikit-learn
    # parts them only from 2 on, LightGBM merges float64 neighbors.
    "float32-steps": lambda rng: 2.0 + 2.0**-22 * rng.integers(0, 9, (200, 3)),
    "float64-steps": lambda rng: 1.0 + 2.0**-50 * rng.integers(0, 9, (200, 3)),
    "tiny": lambda rng: rng.normal(size=(200, 3)) * 1e-40,
    "sliver": lambda rng: rng.normal(size=(200, 3)) * 1e-35,
    "large": lambda rng: rng.normal(size=(200, 3)) * 1e30,
    "largest": lambda rng: rng.uniform(-3.4e38, 3.4e38, (200, 3)),
    "lowest": lambda rng: rng.choice([-3.3e38, -3.0e38], (200, 2)),
    "one": lambda rng: rng.normal(size=(150, 1)),
    "wide": lambda rng: rng.normal(size=(120, 300)),
    "many": lambda rng: rng.normal(size=(500, 4)),
    # From here on with categories, in the columns that `CATEGORICAL` lists.
    "categories": _mixed,
    "categories-nan": lambda rng: _sparse(_mixed(rng), rng, np.nan, 0.2),
    "only-categories": _categories(range(6), range(40)),
    "gaps": _categories(None, (0, 3, 4, 17, 40), (1, 2, 31, 32, 33, 63, 64, 90)),
    "two-or-one": _categories(None, range(2), (0, 0), range(3)),
    "many-categories": _categories(None, range(50), range(3), n=800),
    "odd-categories": _categories(None, (-7, -0.5, -0.0, 2.25, 9), (0.1, 1 / 3, 1e10, -1e300)),
}

CATEGORICAL = {
    **dict.fromkeys(("categories", "categories-nan", "gaps", "odd-categories"), (1, 2)),
    "only-categories": (0, 1),
    "many-categories": (1, 2),
    "two-or-one": (1, 2, 3),
}
"""The columns that hold categories, for each kind of data that has them."""


def dataset(data: str, seed: int, n_targets: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs of the given kind and a target that depends on all of them."""
    rng = np.random.default_rng([seed, list(DATA).index(data)])
    X = DATA[data](rng)
    Z = X.copy()
    for j in CATEGORICAL.get(data, ()):  # each category has an effect of its own
        known, which = np.unique(X[:, j], return_inverse=True)
        Z[:, j] = rng.normal(size=known.size)[which]
    low, high = np.nanmin(Z), np.nanmax(Z)
    Z = np.nan_to_num((Z / 2 - low / 2) / max(high / 2 - low / 2, 5e-324), nan=1.3)[:, :5]
    y = np.column_stack(
        [np.sin((k + 2) * Z * np.arange(2, Z.shape[1] + 2)).sum(axis=1) for k in range(n_targets)]
    )
    y = np.abs(y + rng.normal(size=y.shape) * 0.1)
    return X, y if n_targets > 1 else y[:, 0]


LABELS: dict[str, Callable[[int], list[Any]]] = {
    "text": lambda n: [f"k{k:02d}" for k in range(n)],
    "whole": lambda n: [10 * k - 30 for k in range(n)],
}
"""The labels of the categories in frames, ascending."""


def named(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list(NAMES[: X.shape[1]]))


def labeled(
    X: np.ndarray, columns: tuple[int, ...], labels: str, ordered: bool = False
) -> pd.DataFrame:
    """Return a frame in which these columns are of type category; X holds their codes."""
    frame = named(X)
    for j in columns:
        codes = np.nan_to_num(X[:, j], nan=-1).astype(int)
        known = LABELS[labels](int(codes.max()) + 1)
        frame[NAMES[j]] = pd.Categorical.from_codes(codes, known, ordered=ordered)
    return frame


class Fitted(NamedTuple):
    """A model, and the data it was trained on as its library and as a matrix have it."""

    model: Any
    X: Any
    numbers: np.ndarray


@dataclass(frozen=True)
class Recipe:
    """How to make a case: a line of the tables in `tests.support.cases`.

    Attributes
    ----------
    model : str
        The class of the model.
    data : str
        What it is trained on: a name in `DATA`, and how it is passed.
    note : str
        What else is special about it.
    make : callable
        From a seed to the fitted model; recipes that ask it for other outputs share it.
    """

    model: str
    data: str
    note: str
    make: Callable[[int], Fitted]
    output: str = "auto"
    class_index: ClassIndex = None

    @property
    def name(self) -> str:
        which = "" if self.class_index is None else f" {self.class_index}"
        return ", ".join(filter(None, [self.model, self.output + which, self.data, self.note]))

    def ask(self, output: str, class_index: ClassIndex = None) -> Recipe:
        """Return a recipe for another output of the same model."""
        return replace(self, output=output, class_index=class_index)

    def __call__(self, seed: int) -> Case:
        model, X, numbers = self.make(seed)
        return Case(model, X, self.output, self.class_index, numbers)


def _training_data(
    library: Library, data: str, seed: int, frame: bool, labels: str, n_targets: int = 1
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the data in the form that is asked for, as a matrix, and the target."""
    numbers, y = dataset(data, seed, n_targets)
    columns = CATEGORICAL.get(data, ())
    if not labels:
        return named(numbers) if frame else numbers, numbers, y
    X = labeled(numbers, columns, labels.split()[-1], ordered=labels.startswith("ordered"))
    if library.labels_are_numbers and labels.endswith("whole"):
        numbers = numbers.copy()
        numbers[:, columns] = 10 * numbers[:, columns] - 30
    return X, numbers, y


def _told(data: str, frame: bool, labels: str) -> str:
    """Return how a name tells what the data are."""
    if labels:
        return f"{data} with {labels} labels"
    return f"{data} in a frame" if frame else data


Target = Callable[[np.ndarray], np.ndarray]


def fit(
    estimator: Any,
    data: str = "plain",
    note: str = "",
    *,
    output: str = "auto",
    class_index: ClassIndex = None,
    frame: bool = False,
    labels: str = "",
    n_targets: int = 1,
    target: Target = np.positive,
    **more: Any,
) -> Recipe:
    """Return a recipe that fits a scikit-learn style estimator; ``more`` is for its ``fit``."""
    library = library_of(estimator)

    @cache
    def make(seed: int) -> Fitted:
        X, numbers, y = _training_data(library, data, seed, frame, labels, n_targets)
        model = clone(estimator).set_params(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.fit(model, X, target(y), CATEGORICAL.get(data, ()), **more)
        return Fitted(model, X, numbers)

    told = _told(data, frame, labels)
    return Recipe(type(estimator).__name__, told, note, make, output, class_index)


def train(
    name: str,
    data: str = "plain",
    note: str = "",
    *,
    rounds: int = 8,
    output: str = "auto",
    class_index: ClassIndex = None,
    frame: bool = False,
    labels: str = "",
    target: Target = np.positive,
    stop: bool = False,
    part: slice | None = None,
    **params: Any,
) -> Recipe:
    """Return a recipe of a bare Booster of the named library; ``part`` slices the trained one."""
    library = LIBRARIES[name]

    @cache
    def make(seed: int) -> Fitted:
        X, numbers, y = _training_data(library, data, seed, frame, labels)
        columns = CATEGORICAL.get(data, ())
        given = Training({"seed": seed, **params}, X, target(y), rounds, columns, stop)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            booster = library.train(given)
        return Fitted(booster if part is None else booster[part], X, numbers)

    return Recipe("Booster", _told(data, frame, labels), note, make, output, class_index)


def table(*recipes: Recipe) -> dict[str, Recipe]:
    """Return recipes by their names, which must differ."""
    found = {recipe.name: recipe for recipe in recipes}
    assert len(found) == len(recipes), "two recipes of the same name"
    return found


def constant(y: np.ndarray) -> np.ndarray:
    return np.full_like(y, 3.0)


def is_large(y: np.ndarray) -> np.ndarray:
    return (y > np.median(y)).astype(int)


def large_or_small(y: np.ndarray) -> np.ndarray:
    return np.where(y > np.median(y), "large", "small")


def share(y: np.ndarray) -> np.ndarray:
    return y / y.max()


def positive(y: np.ndarray) -> np.ndarray:
    return y + 0.1


def third(y: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y)


def parts(n: int) -> Target:
    """Return a target of ``n`` classes of about the same size."""
    return lambda y: np.searchsorted(np.quantile(y, np.arange(1, n) / n), y)


def several(y: np.ndarray) -> np.ndarray:
    """Return three labels that are independent of each other."""
    return (y > np.median(y, axis=0)).astype(int)
