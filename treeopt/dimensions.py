"""Spaces beyond the real box: numbers on a line or a logarithmic scale, whole numbers, choices.

A point has three forms. What the user sees: a row of numbers, or a mapping from names to values.
Its codes, one float64 per dimension: the number itself, or the position of a choice; equal points
have equal codes. And its place in the unit cube, where the search works; a dimension with a single
value has none.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from treeopt.errors import InputError
from treeopt.space import read_bounds

if TYPE_CHECKING:
    from treeopt.ensemble import Array

LARGEST_INTEGER = 2**53
"""Whole numbers up to here have a code of their own."""


class Dimension:
    """One parameter: `Real`, `Integer` or `Choice`."""

    kind: ClassVar[str]

    @property
    def n(self) -> int | None:
        """How many values there are; None: a continuum."""
        raise NotImplementedError

    def codes(self, u: Array) -> Array:
        """Return the codes of places in [0, 1]."""
        raise NotImplementedError

    def places(self, codes: Array) -> Array:
        """Return places in [0, 1] that have these codes."""
        raise NotImplementedError

    def value(self, code: float) -> Any:
        """Return the value that a code stands for."""
        raise NotImplementedError

    def code(self, value: Any) -> float:
        """Return the code of a value; a ValueError says what is wrong with it."""
        raise NotImplementedError

    def nth(self, k: int) -> float:
        """Return the code of the k-th of `n` values."""
        raise NotImplementedError


@dataclass(frozen=True)
class Real(Dimension):
    """A number between two ends, which are included.

    Parameters
    ----------
    low, high : float
        The ends.
    log : bool
        Whether the search works with the logarithm; ``low`` must be above 0.
    step : float or None
        Only ``low``, ``low + step`` and so on count.

    Examples
    --------
    >>> from treeopt.tuning import Real
    >>> Real(1e-3, 1e3, log=True)
    Real(low=0.001, high=1000.0, log=True, step=None)
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None
    kind: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        for name in ("low", "high") if self.step is None else ("low", "high", "step"):
            object.__setattr__(self, name, _number(getattr(self, name), name))
        _check_ends(self)
        if self.step is not None and self.log:
            raise InputError("log is True and step is given. Pass one of the two.")
        if self.step is not None and not self.step > 0:
            raise InputError(f"step is {self.step}. Pass a number above 0.")
        if not abs(self.high / 2 - self.low / 2) < np.finfo(float).max / 2:
            raise InputError(f"low..high is {self.low}..{self.high}, too wide. Narrow it.")

    @property
    def n(self) -> int | None:
        """How many values there are."""
        if self.low == self.high:
            return 1
        if self.step is None:
            return None
        return math.floor((self.high - self.low) / self.step * (1 + 1e-12)) + 1

    def codes(self, u: Array) -> Array:
        """Return the numbers at places."""
        if self.step is not None:
            return np.minimum(self.low + self.step * _cell(u, self.n or 1), self.high)
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return np.clip(np.exp(low + u * (high - low)), self.low, self.high)
        return np.clip(self.low + u * (self.high - self.low), self.low, self.high)

    def places(self, codes: Array) -> Array:
        """Return where numbers are; of those with a step, the middle of their share."""
        if self.step is not None:
            return (np.round((codes - self.low) / self.step) + 0.5) / (self.n or 1)
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return np.clip((np.log(codes) - low) / (high - low), 0.0, 1.0)
        return np.clip((codes - self.low) / (self.high - self.low), 0.0, 1.0)

    def value(self, code: float) -> float:
        """Return the number."""
        return float(code)

    def code(self, value: Any) -> float:
        """Return the number; one with a step may be off by a rounding error."""
        number = _real(value)
        if not self.low <= number <= self.high:
            raise ValueError(f"outside {self.low:g}..{self.high:g}")
        if self.step is not None:
            k = round((number - self.low) / self.step)
            nearest = self.nth(k)
            if abs(number - nearest) > 1e-8 * self.step:
                raise ValueError(f"not a multiple of the step {self.step:g} above {self.low:g}")
            number = nearest
        return number + 0.0  # no negative zero

    def nth(self, k: int) -> float:
        """Return the k-th multiple of the step."""
        return min(self.low + (self.step or 0.0) * k, self.high)


@dataclass(frozen=True)
class Integer(Dimension):
    """A whole number between two ends, which are included.

    Parameters
    ----------
    low, high : int
        The ends.
    log : bool
        Whether the search works with the logarithm; ``low`` must be at least 1.
    step : int
        Only ``low``, ``low + step`` and so on count.

    Examples
    --------
    >>> from treeopt.tuning import Integer
    >>> Integer(10, 1000, log=True).n
    991
    """

    low: int
    high: int
    log: bool = False
    step: int = 1
    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            if not _is_whole(value) or abs(value) > LARGEST_INTEGER:
                raise InputError(f"{name} is {value!r}. Pass a whole number up to 2**53.")
            object.__setattr__(self, name, int(value))
        _check_ends(self)
        if self.step < 1:
            raise InputError(f"step is {self.step}. Pass a whole number above 0.")
        if self.log and self.step != 1:
            raise InputError(f"log is True and step is {self.step}. Pass one of the two.")

    @property
    def n(self) -> int:
        """How many values there are."""
        return (self.high - self.low) // self.step + 1

    def codes(self, u: Array) -> Array:
        """Return the whole numbers at places."""
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return np.clip(np.round(np.exp(low + u * (high - low))), self.low, self.high)
        return self.low + self.step * _cell(u, self.n)

    def places(self, codes: Array) -> Array:
        """Return a place for each whole number, on its share of the line."""
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return (np.log(codes) - low) / (high - low)
        return ((codes - self.low) / self.step + 0.5) / self.n

    def value(self, code: float) -> int:
        """Return the whole number."""
        return int(code)

    def code(self, value: Any) -> float:
        """Return the whole number."""
        number = _real(value)
        if number != round(number):
            raise ValueError("not a whole number")
        if not self.low <= number <= self.high:
            raise ValueError(f"outside {self.low}..{self.high}")
        if (int(number) - self.low) % self.step:
            raise ValueError(f"not a multiple of the step {self.step} above {self.low}")
        return number + 0.0

    def nth(self, k: int) -> float:
        """Return the k-th whole number."""
        return float(self.low + self.step * k)


@dataclass(frozen=True, eq=False)
class Choice(Dimension):
    """One of several values, of any type; their order says nothing.

    Parameters
    ----------
    options : sequence
        The values.

    Examples
    --------
    >>> from treeopt.tuning import Choice
    >>> Choice(["gini", "entropy"]).n
    2
    """

    options: tuple[Any, ...]
    kind: ClassVar[str] = "choice"

    def __post_init__(self) -> None:
        if isinstance(self.options, str) or not isinstance(self.options, Iterable):
            raise InputError(f"options is {self.options!r}. Pass a list of values.")
        options = self.options.tolist() if hasattr(self.options, "tolist") else self.options
        object.__setattr__(self, "options", tuple(options))
        if not self.options:
            raise InputError("there is nothing to choose from. List at least one value.")
        for k, option in enumerate(self.options):
            if any(_same(option, other) for other in self.options[:k]):
                raise InputError(f"{option!r} is listed twice. Drop one of them.")

    @property
    def n(self) -> int:
        """How many values there are."""
        return len(self.options)

    def codes(self, u: Array) -> Array:
        """Return the positions of the choices at places."""
        return _cell(u, self.n)

    def places(self, codes: Array) -> Array:
        """Return the middle of each choice's share."""
        return (codes + 0.5) / self.n

    def value(self, code: float) -> Any:
        """Return the choice."""
        return self.options[int(code)]

    def code(self, value: Any) -> float:
        """Return the position of a choice."""
        for like in (_same, _equal):
            for k, option in enumerate(self.options):
                if like(option, value):
                    return float(k)
        raise ValueError("none of the choices")

    def nth(self, k: int) -> float:
        """Return the position itself."""
        return float(k)


class Dimensions:
    """What may be chosen: the dimensions, in order, and the names they have, if any."""

    def __init__(self, dimensions: Sequence[Dimension], names: Sequence[str] | None) -> None:
        self.all = tuple(dimensions)
        self.names = None if names is None else tuple(names)
        self.free = np.array([k for k, d in enumerate(self.all) if d.n != 1], np.int64)
        counts = [d.n for d in self.all]
        self.size = None if None in counts else math.prod(n for n in counts if n is not None)
        self._fixed = np.array([d.nth(0) if d.n == 1 else np.nan for d in self.all])

    def codes(self, U: Array) -> Array:
        """Return the codes of points of the unit cube, one row each."""
        codes = np.empty((len(U), len(self.all)))
        codes[:] = self._fixed
        for column, k in enumerate(self.free):
            codes[:, k] = self.all[k].codes(U[:, column])
        return codes + 0.0  # no negative zeros: equal points have equal bits

    def places(self, codes: Array) -> Array:
        """Return points of the unit cube that have these codes."""
        U = np.empty((len(codes), self.free.size))
        for column, k in enumerate(self.free):
            U[:, column] = self.all[k].places(codes[:, k])
        return U

    def points(self, codes: Array) -> Any:
        """Return points as the user sees them: a matrix, or a list of mappings."""
        if self.names is None:
            return codes.copy()
        return [
            {n: d.value(c) for n, d, c in zip(self.names, self.all, row, strict=True)}
            for row in codes
        ]

    def codes_of(self, points: Any) -> Array:
        """Return the codes of points as the user sees them, one row each."""
        if self.names is None:
            rows: Any = _matrix(points, len(self.all))
        else:
            rows = [self._row(point, k) for k, point in enumerate(_mappings(points))]
        codes = np.empty((len(rows), len(self.all)))
        for r, row in enumerate(rows):
            for k, (dimension, value) in enumerate(zip(self.all, row, strict=True)):
                try:
                    codes[r, k] = dimension.code(value)
                except ValueError as error:
                    raise InputError(
                        f"points[{r}] has {value!r} for {self.label(k)}, which is {error}. Pass a "
                        "point of the space."
                    ) from None
        return codes

    def nth(self, k: int) -> Array:
        """Return the codes of the k-th of all `size` points."""
        codes = np.empty(len(self.all))
        for i, dimension in enumerate(self.all):
            k, place = divmod(k, dimension.n or 1)
            codes[i] = dimension.nth(place)
        return codes

    def label(self, k: int) -> str:
        """Return what messages call a dimension."""
        return f"coordinate {k}" if self.names is None else repr(self.names[k])

    def _row(self, point: Mapping[str, Any], k: int) -> list[Any]:
        names = self.names or ()
        for name in (*names, *point):
            if name not in point or name not in names:
                has = "has" if name in point else "lacks"
                raise InputError(f"points[{k}] {has} {name!r}. Pass {', '.join(names)}.")
        return [point[name] for name in names]


def read_dimensions(space: Any, name: str = "space") -> Dimensions:
    """Return the space that a user means.

    Parameters
    ----------
    space : mapping, or what `read_bounds` takes
        A mapping from names to dimensions: ``(low, high)``, whole numbers if both ends are;
        ``(low, high, "log")``; a ``range``; a list of choices; or a `Dimension`. Else the pairs of
        a real box.
    name : str
        What messages call it.
    """
    if not isinstance(space, Mapping):
        if isinstance(space, Sequence) and any(isinstance(s, Dimension | range) for s in space):
            raise InputError(
                f"{name} lists dimensions without names. Pass a mapping from names to dimensions."
            )
        box = read_bounds(space)
        return Dimensions([Real(low, high) for low, high in zip(*box, strict=True)], None)
    if not space:
        raise InputError(f"{name} is empty. Pass at least one parameter.")
    for key in space:
        if not isinstance(key, str):
            raise InputError(f"{name} has the key {key!r}. Name parameters by strings.")
    return Dimensions([read_dimension(s, f"{name}[{k!r}]") for k, s in space.items()], list(space))


def read_dimension(spec: Any, name: str) -> Dimension:
    """Return one dimension from what `read_dimensions` lists; ``name`` is for messages."""
    remedy = 'Pass (low, high), (low, high, "log"), a range or a list of choices.'
    try:
        if isinstance(spec, Dimension):
            return spec
        if isinstance(spec, range):
            if not spec:
                raise InputError("the range is empty. Widen it.")
            first, last = sorted((spec[0], spec[-1]))
            return Integer(first, last, step=abs(spec.step))
        if isinstance(spec, tuple):
            if len(spec) not in (2, 3) or (len(spec) == 3 and spec[2] != "log"):
                raise InputError(remedy)
            low, high, log = *spec[:2], len(spec) == 3
            if _is_whole(low) and _is_whole(high):
                return Integer(low, high, log)
            return Real(low, high, log)
        if isinstance(spec, list | np.ndarray):
            return Choice(spec)  # type: ignore[arg-type]
        if hasattr(spec, "rvs"):
            remedy = f"Distributions are not searched: {remedy[0].lower()}{remedy[1:]}"
        raise InputError(remedy)
    except InputError as error:
        raise InputError(f"{name} is {spec!r}: {error}") from None


def as_text(dimensions: Dimensions) -> list[dict[str, Any]]:
    """Return the dimensions as what JSON can hold; of a choice that it cannot, its ``repr``."""
    described = []
    for k, dimension in enumerate(dimensions.all):
        text: dict[str, Any] = {"kind": dimension.kind}
        if dimensions.names is not None:
            text["name"] = dimensions.names[k]
        if isinstance(dimension, Choice):
            text["options"] = [
                {"value": o} if _is_plain(o) else {"repr": repr(o)} for o in dimension.options
            ]
        else:
            text |= {f.name: getattr(dimension, f.name) for f in fields(dimension)}  # type: ignore[arg-type]
        described.append(text)
    return described


def from_text(described: Sequence[Mapping[str, Any]]) -> Dimensions:
    """Return the dimensions that `as_text` has described."""
    kinds = {"real": Real, "integer": Integer}
    found: list[Dimension] = []
    names = [text.get("name") for text in described]
    for text in described:
        if text["kind"] == "choice":
            for option in text["options"]:
                if "value" not in option:
                    raise InputError(
                        f"the choice {option['repr']} of {text.get('name')!r} cannot be read from "
                        "a file. Pass the space as well."
                    )
            found.append(Choice(tuple(option["value"] for option in text["options"])))
        else:
            ends = {k: v for k, v in text.items() if k not in ("kind", "name")}
            found.append(kinds[text["kind"]](**ends))
    return Dimensions(found, None if names[0] is None else [str(name) for name in names])


def _cell(u: Array, n: int) -> Array:
    """Return which of n equal parts of [0, 1] holds each place."""
    cell: Array = np.minimum(np.floor(u * n), n - 1)
    return cell


def _check_ends(dimension: Any) -> None:
    if dimension.low > dimension.high:
        raise InputError(
            f"low is {dimension.low}, above high, which is {dimension.high}. Swap them."
        )
    if dimension.log and not dimension.low > 0:
        raise InputError(f"low is {dimension.low}, which has no logarithm. Pass a number above 0.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)


def _number(value: Any, name: str) -> float:
    try:
        number = _real(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name} is {value!r}. Pass a finite number.")
    return number


def _real(value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise ValueError("not a number")
    return float(value)


def _same(a: Any, b: Any) -> bool:
    """Tell whether two choices are one; 1, 1.0 and True are different."""
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return type(a) is type(b) and _equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except (TypeError, ValueError):  # arrays and the like
        return False


def _is_plain(value: Any) -> bool:
    """Tell whether JSON gives a value back as it was."""
    return value is None or type(value) in (bool, int, float, str)


def _matrix(points: Any, n: int) -> Array:
    try:
        matrix = np.array(points, np.float64, ndmin=2)
    except (TypeError, ValueError):
        raise InputError(f"points is {points!r}. Pass one row of numbers for each.") from None
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise InputError(f"points has shape {matrix.shape}. Pass rows of {n} numbers.")
    return matrix


def _mappings(points: Any) -> list[Mapping[str, Any]]:
    if isinstance(points, Mapping):
        points = [points]
    if isinstance(points, str) or not isinstance(points, Iterable):
        raise InputError(f"points is {points!r}. Pass mappings from names to values.")
    found = []
    for k, point in enumerate(points):
        if not isinstance(point, Mapping):
            raise InputError(f"points[{k}] is {point!r}. Pass a mapping from names to values.")
        found.append(point)
    return found
