"""Dimensions of a space: numbers, on a linear or logarithmic scale, integers, choices.

They are the same for decisions, searches and tuning. A point has three forms:

values
    What the user sees: a row of numbers, or a mapping from names to values.
codes
    One float64 per dimension: the number itself, or the index of a choice. Equal points have
    equal codes, bit by bit.
positions
    Its position in the unit cube, where the search works. A dimension with a single value has none.
"""

from __future__ import annotations

import math
import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from treeopt.errors import InputError
from treeopt.problem.bounds import read_bounds
from treeopt.types import Array, FloatArray, IntArray

LARGEST_INTEGER = 2**53
"""Integers up to this one are exact as floats."""

FINEST_STEP = 1e-14
"""Smaller steps, in parts of the numbers, are lost in their rounding."""

ROUNDING = 1e-8
"""Tolerance for multiples of a step, in parts of the step."""


class Dimension(ABC):
    """One parameter: `Real`, `Integer` or `Choice`."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def n(self) -> int | None:
        """Number of values; None: a continuum."""

    @property
    @abstractmethod
    def scale(self) -> tuple[Callable[..., Array], tuple[float, ...]]:
        """The function from positions to codes, and its further arguments."""

    def codes(self, u: Array) -> Array:
        """Return the codes of positions in [0, 1]."""
        function, arguments = self.scale
        return function(u, *arguments)

    @abstractmethod
    def positions(self, codes: Array) -> Array:
        """Return positions in [0, 1] with these codes."""

    @abstractmethod
    def value(self, code: float) -> Any:
        """Return the value of a code."""

    @abstractmethod
    def code(self, value: Any) -> float:
        """Return the code of a value; raise a ValueError if it has none."""

    @abstractmethod
    def nth(self, k: Any) -> Any:
        """Return the code of the k-th value; ``k`` may be an array."""


@dataclass(frozen=True)
class Real(Dimension):
    """A number between two bounds, which are included.

    Parameters
    ----------
    low, high : float
        The bounds.
    log : bool
        Whether the search works with the logarithm; then ``low`` must be above 0.
    step : float or None
        If given, only ``low``, ``low + step`` and so on are values.

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
        if not abs(self.high / 2 - self.low / 2) < np.finfo(float).max / 2:
            raise InputError(f"low..high is {self.low}..{self.high}, too wide. Narrow it.")
        if self.step is not None:
            if not self.step > 0:
                raise InputError(f"step is {self.step}. Pass a number above 0.")
            if self.step < FINEST_STEP * max(abs(self.low), abs(self.high)):
                raise InputError(
                    f"step is {self.step}, too small for low..high, which is "
                    f"{self.low}..{self.high}. Pass a larger one, or None."
                )

    @property
    def n(self) -> int | None:
        """Number of values."""
        if self.low == self.high:
            return 1
        if self.step is None:
            return None
        return math.floor((self.high - self.low) / self.step + ROUNDING) + 1

    @property
    def scale(self) -> tuple[Callable[..., Array], tuple[float, ...]]:
        """A line, a grid, or a logarithmic scale."""
        if self.step is not None:
            return _grid, (self.low, self.high, self.step, self.n or 1)
        if self.log:
            return _curve, (self.low, self.high, math.log(self.low), math.log(self.high))
        return _line, (self.low, self.high)

    def positions(self, codes: Array) -> Array:
        """Return the positions of numbers; with a step, the middles of their intervals."""
        if self.step is not None:
            return (np.round((codes - self.low) / self.step) + 0.5) / (self.n or 1)
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return _within((np.log(codes) - low) / (high - low), 0.0, 1.0)
        return _within((codes - self.low) / (self.high - self.low), 0.0, 1.0)

    def value(self, code: float) -> float:
        """Return the number."""
        return float(code)

    def code(self, value: Any) -> float:
        """Return the number; with a step, rounding errors are allowed."""
        number = _real(value)
        tolerance = ROUNDING * (self.step or 0.0)
        if not self.low - tolerance <= number <= self.high + tolerance:
            raise ValueError(f"outside {self.low:g}..{self.high:g}")
        if self.step is not None:
            k = round((number - self.low) / self.step)
            nearest = self.nth(k)
            if k >= (self.n or 1) or abs(number - nearest) > ROUNDING * self.step:
                raise ValueError(f"not a multiple of the step {self.step:g} above {self.low:g}")
            number = nearest
        return number + 0.0  # no negative zero

    def nth(self, k: Any) -> Any:
        """Return the k-th multiple of the step."""
        return np.minimum(self.low + (self.step or 0.0) * k, self.high)


@dataclass(frozen=True)
class Integer(Dimension):
    """An integer between two bounds, which are included.

    Parameters
    ----------
    low, high : int
        The bounds.
    log : bool
        Whether the search works with the logarithm; then ``low`` must be at least 1.
    step : int
        Only ``low``, ``low + step`` and so on are values.

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
                raise InputError(f"{name} is {value!r}. Pass an integer up to 2**53.")
            object.__setattr__(self, name, int(value))
        _check_ends(self)
        if self.high - self.low > LARGEST_INTEGER:
            raise InputError(f"low..high is {self.low}..{self.high}, too wide. Narrow it.")
        if self.step < 1:
            raise InputError(f"step is {self.step}. Pass an integer above 0.")
        if self.log and self.step != 1:
            raise InputError(f"log is True and step is {self.step}. Pass one of the two.")

    @property
    def n(self) -> int:
        """Number of values."""
        return (self.high - self.low) // self.step + 1

    @property
    def scale(self) -> tuple[Callable[..., Array], tuple[float, ...]]:
        """A grid, or a rounded logarithmic scale."""
        if self.log:
            ends = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return _rounded_curve, (self.low, self.high, *ends)
        return _grid, (self.low, self.high, self.step, self.n)

    def positions(self, codes: Array) -> Array:
        """Return a position for each integer, inside its interval."""
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return (np.log(codes) - low) / (high - low)
        return ((codes - self.low) / self.step + 0.5) / self.n

    def value(self, code: float) -> int:
        """Return the integer."""
        return int(code)

    def code(self, value: Any) -> float:
        """Return the integer."""
        number = _real(value)
        if not self.low <= value <= self.high:
            raise ValueError(f"outside {self.low}..{self.high}")
        if not number.is_integer():
            raise ValueError("not an integer")
        if (int(number) - self.low) % self.step:
            raise ValueError(f"not a multiple of the step {self.step} above {self.low}")
        return number + 0.0

    def nth(self, k: Any) -> Any:
        """Return the k-th integer."""
        return (self.low + self.step * k) * 1.0


@dataclass(frozen=True, eq=False)
class Choice(Dimension):
    """One of several values of any type; their order has no meaning.

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
    _position: dict[Any, int] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        unordered = isinstance(self.options, str | AbstractSet | Mapping)
        if unordered or not isinstance(self.options, Iterable):
            raise InputError(f"options is {self.options!r}. Pass a list of values.")
        options = self.options.tolist() if hasattr(self.options, "tolist") else self.options
        object.__setattr__(self, "options", tuple(options))
        if not self.options:
            raise InputError("options is empty. Pass at least one value.")
        for k, option in enumerate(self.options):
            if self._find(option, k) is not None:
                raise InputError(f"{option!r} is listed twice. Drop one of them.")
            if _is_plain(option):
                self._position[type(option), option] = k

    @property
    def n(self) -> int:
        """Number of values."""
        return len(self.options)

    @property
    def scale(self) -> tuple[Callable[..., Array], tuple[float, ...]]:
        """The grid of the positions."""
        return _grid, (0, self.n - 1, 1, self.n)

    def positions(self, codes: Array) -> Array:
        """Return the middle of each choice's interval."""
        return (codes + 0.5) / self.n

    def value(self, code: float) -> Any:
        """Return the choice."""
        return self.options[int(code)]

    def code(self, value: Any) -> float:
        """Return the index of a choice of the same type, or else of an equal one."""
        found = self._find(value, self.n)
        if found is None:
            equal = (k for k, option in enumerate(self.options) if _equal(option, value))
            found = next(equal, None)
        if found is None:
            raise ValueError("none of the choices")
        return float(found)

    def _find(self, value: Any, n: int) -> int | None:
        """Return the position of a value among the first n choices."""
        if _is_plain(value) and value == value:
            return self._position.get((type(value), value))
        same = (k for k, option in enumerate(self.options[:n]) if _same(option, value))
        return next(same, None)

    def nth(self, k: Any) -> Any:
        """Return the position itself."""
        return k * 1.0


class RealBox(NamedTuple):
    """A box of real coordinates; those that are not free are fixed at ``lower``."""

    free: IntArray
    lower: FloatArray
    upper: FloatArray


class Dimensions:
    """A space: its dimensions in order, and their names, if they have any.

    Parameters
    ----------
    dimensions : sequence of Dimension
        The dimensions.
    names : sequence of str or None
        Their names. None: points are rows of a matrix.

    Attributes
    ----------
    free : array of int
        The dimensions with more than one value, which are those of the unit cube.
    size : int or None
        The number of points; None: a continuum.
    """

    def __init__(self, dimensions: Sequence[Dimension], names: Sequence[str] | None = None) -> None:
        self.all = tuple(dimensions)
        self.names = None if names is None else tuple(names)
        self.free = np.array([k for k, d in enumerate(self.all) if d.n != 1], np.int64)
        counts = [d.n for d in self.all]
        self.size = None if None in counts else math.prod(n for n in counts if n is not None)
        self._choices = [k for k, d in enumerate(self.all) if isinstance(d, Choice)]
        self._fixed = np.array([d.nth(0) if d.n == 1 else np.nan for d in self.all])
        # Dimensions with the same kind of scale are computed together.
        columns: dict[Callable[..., Array], list[int]] = {}
        for column, k in enumerate(self.free):
            columns.setdefault(self.all[k].scale[0], []).append(column)
        self._scales = []
        for function, alike in columns.items():
            which = self.free[alike]
            arguments = np.array([self.all[k].scale[1] for k in which], np.float64).T
            self._scales.append((function, np.array(alike), which, arguments))
        self._all_alike = len(self._scales) == 1 and self.free.size == len(self.all)

    @property
    def box(self) -> RealBox | None:
        """The space as a box; None if a dimension is not a `Real` without log and step."""
        ends = []
        for dimension in self.all:
            if not isinstance(dimension, Real) or dimension.log or dimension.step is not None:
                return None
            ends.append((dimension.low, dimension.high))
        lower, upper = np.array(ends, np.float64).reshape(-1, 2).T.copy()
        return RealBox(self.free, lower, upper)

    def values(self, codes: FloatArray) -> FloatArray:
        """Return the values of codes as a matrix; the options of a `Choice` must be numbers."""
        if not self._choices:
            return codes
        values = codes.copy()
        for k in self._choices:
            options = np.array(self.all[k].options, np.float64)  # type: ignore[attr-defined]
            values[:, k] = options[codes[:, k].astype(np.int64)]
        return values

    def codes(self, U: Array) -> Array:
        """Return the codes of points of the unit cube, one row each."""
        if self._all_alike:
            function, _, _, arguments = self._scales[0]
            return function(U, *arguments) + 0.0
        codes = np.empty((len(U), len(self.all)))
        codes[:] = self._fixed
        for function, columns, which, arguments in self._scales:
            codes[:, which] = function(U[:, columns], *arguments)
        return codes + 0.0  # no negative zeros: equal points have equal bits

    def positions(self, codes: Array) -> Array:
        """Return points of the unit cube with these codes."""
        U = np.empty((len(codes), self.free.size))
        for column, k in enumerate(self.free):
            U[:, column] = self.all[k].positions(codes[:, k])
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
            rows: Any = _matrix(points, len(self.all)).tolist()
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

    def nth(self, k: Array) -> Array:
        """Return the codes of the k-th of all `size` points, one row for each entry of ``k``."""
        codes = np.empty((len(k), len(self.all)))
        for i, dimension in enumerate(self.all):
            k, index = np.divmod(k, dimension.n or 1)
            codes[:, i] = dimension.nth(index)
        return codes + 0.0

    def label(self, k: int) -> str:
        """Return the name of a dimension for messages."""
        return f"coordinate {k}" if self.names is None else repr(self.names[k])

    def _row(self, point: Mapping[str, Any], k: int) -> list[Any]:
        names = self.names or ()
        for name in (*names, *point):
            if name not in point or name not in names:
                has = "has" if name in point else "lacks"
                raise InputError(f"points[{k}] {has} {name!r}. Pass {', '.join(names)}.")
        return [point[name] for name in names]


def real_dimensions(lower: FloatArray, upper: FloatArray) -> Dimensions:
    """Return the dimensions of a real box."""
    return Dimensions([Real(low, high) for low, high in zip(lower, upper, strict=True)])


def read_dimensions(space: Any, name: str = "space") -> Dimensions:
    """Return the space that a user means.

    Parameters
    ----------
    space : mapping, or what `read_bounds` takes
        A mapping from names to dimensions: ``(low, high)``, integers if both ends are;
        ``(low, high, "log")``; a ``range``; a list of choices; or a `Dimension`. Else the pairs of
        a real box. `Dimensions` are returned as they are.
    name : str
        Name of the argument for messages.
    """
    if isinstance(space, Dimensions):
        return space
    if not isinstance(space, Mapping):
        if isinstance(space, Sequence) and any(isinstance(s, Dimension | range) for s in space):
            raise InputError(
                f"{name} lists dimensions without names. Pass a mapping from names to dimensions."
            )
        return real_dimensions(*read_bounds(space))
    if not space:
        raise InputError(f"{name} is empty. Pass at least one parameter.")
    for key in space:
        if not isinstance(key, str):
            raise InputError(f"{name} has the key {key!r}. Name parameters by strings.")
    return Dimensions([read_dimension(s, f"{name}[{k!r}]") for k, s in space.items()], list(space))


def read_dimension(spec: Any, name: str) -> Dimension:
    """Return one dimension, as `read_dimensions` describes it; ``name`` is for messages."""
    remedy = 'pass (low, high), (low, high, "log"), a range or a list of choices.'
    try:
        if isinstance(spec, Dimension):
            return spec
        if isinstance(spec, range):
            if not spec:
                raise InputError("the range is empty. Widen it.")
            first, last = sorted((spec[0], spec[-1]))
            return Integer(first, last, step=abs(spec.step))
        if isinstance(spec, tuple):
            numeric = all(_is_number(end) for end in spec[:2])
            if not numeric or len(spec) not in (2, 3) or spec[2:] not in ((), ("log",)):
                raise InputError(remedy)
            low, high, log = *spec[:2], len(spec) == 3
            if _is_whole(low) and _is_whole(high):
                return Integer(low, high, log)
            return Real(low, high, log)
        if isinstance(spec, list | np.ndarray):
            return Choice(spec)  # type: ignore[arg-type]
        if hasattr(spec, "rvs"):
            remedy = f"distributions are not searched; {remedy}"
        raise InputError(remedy)
    except InputError as error:
        raise InputError(f"{name} is {spec!r}: {error}") from None


def as_text(dimensions: Dimensions) -> list[dict[str, Any]]:
    """Return the dimensions for JSON; options that JSON does not have, by their ``repr``."""
    described = []
    for k, dimension in enumerate(dimensions.all):
        text: dict[str, Any] = {"kind": dimension.kind}
        if dimensions.names is not None:
            text["name"] = dimensions.names[k]
        if isinstance(dimension, Choice):
            text["options"] = [
                {"value": o} if _is_plain(o) else {"repr": _described(o)} for o in dimension.options
            ]
        else:
            text |= {f.name: getattr(dimension, f.name) for f in fields(dimension)}  # type: ignore[arg-type]
        described.append(text)
    return described


def from_text(described: Sequence[Mapping[str, Any]]) -> Dimensions:
    """Return the dimensions from the result of `as_text`."""
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


def _line(u: Array, low: Any, high: Any) -> Array:
    """Return the numbers at positions between two bounds."""
    return _within(low + u * (high - low), low, high)


def _curve(u: Array, low: Any, high: Any, begin: Any, end: Any) -> Array:
    """Return the numbers at positions between the logarithms of the bounds."""
    return _within(np.exp(begin + u * (end - begin)), low, high)


def _rounded_curve(u: Array, low: Any, high: Any, begin: Any, end: Any) -> Array:
    """Return the integers at positions between the logarithms."""
    return _within(np.round(np.exp(begin + u * (end - begin))), low, high)


def _grid(u: Array, low: Any, high: Any, step: Any, n: Any) -> Array:
    """Return multiples of the step; each has one of n equal intervals of [0, 1]."""
    return _within(low + step * np.minimum(np.floor(u * n), n - 1), low, high)


def _within(x: Array, low: Any, high: Any) -> Array:
    within: Array = np.minimum(np.maximum(x, low), high)
    return within


def _check_ends(dimension: Any) -> None:
    if dimension.low > dimension.high:
        raise InputError(
            f"low is {dimension.low} and high is {dimension.high}: low is larger. Swap them."
        )
    if dimension.log and not dimension.low > 0:
        raise InputError(f"low is {dimension.low}, which has no logarithm. Pass a number above 0.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _number(value: Any, name: str) -> float:
    try:
        number = _real(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name} is {value!r}. Pass a finite number.")
    return number


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _real(value: Any) -> float:
    if not _is_number(value):
        raise ValueError("not a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("too large") from None


def _same(a: Any, b: Any) -> bool:
    """Tell whether two choices are the same; 1, 1.0 and True are different."""
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return type(a) is type(b) and _equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    try:
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return np.array_equal(a, b)
        return bool(a == b)
    except (TypeError, ValueError):  # frames and the like
        return False


def _described(value: Any) -> str:
    """Return the ``repr`` of a value without memory addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _is_plain(value: Any) -> bool:
    """Tell whether a value is unchanged by writing it to JSON and reading it."""
    return value is None or type(value) in (bool, int, float, str)


def _matrix(points: Any, n: int) -> Array:
    try:
        matrix = np.array(points, np.float64, ndmin=2)
    except (TypeError, ValueError):
        raise InputError(f"points is {points!r}. Pass one row of numbers for each.") from None
    if matrix.shape == (1, 0):  # an empty list
        return np.empty((0, n))
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
