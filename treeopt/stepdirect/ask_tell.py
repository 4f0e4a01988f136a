"""`StepDirect`: the search as an object with `ask` and `tell`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from treeopt.arguments import read_count, read_seed
from treeopt.errors import InputError
from treeopt.problem.dimensions import (
    LARGEST_INTEGER,
    Dimensions,
    as_text,
    from_text,
    read_dimensions,
)
from treeopt.result.words import counted
from treeopt.stepdirect import saved
from treeopt.stepdirect.paper.state import State, new_state
from treeopt.stepdirect.settings import StepDirectSettings, read_settings
from treeopt.stepdirect.walk_state import Walk, new_walk
from treeopt.stepdirect.weights import Weights, weights_of
from treeopt.types import Array, Point, Seed

if TYPE_CHECKING:
    import pandas as pd

REMEMBERED = 64
"""Maximum number of steps in a row whose points are all known; then a new point is drawn."""

BLOCK = 64
"""Number of points of a discrete space that are searched for a new one at a time."""

REPEATED = 16
"""Maximum number of samples per point that was told. It is reached only in spaces with few points,
where the algorithm would repeat what is known; then it pauses."""

OVERDUE = 8
"""Awaited points count as failed for now after this many others, and twice the number of pending
ones, were told since the last of them was asked for."""


class Best(NamedTuple):
    """The best point so far.

    Attributes
    ----------
    x : array or dict
        The point, None if no evaluation has succeeded.
    fun : float
        Its value, NaN if there is none.
    """

    x: Point | None
    fun: float


class StepDirect:
    """StepDIRECT as an optimizer with `ask` and `tell`.

    It minimizes. Points may be told in any order, one or several at a time, while others are
    pending; also points that it has not asked for. No point is asked for twice.

    Parameters
    ----------
    space : mapping, sequence of pairs or scipy Bounds
        ``(low, high)`` for each coordinate of a real box; or a mapping from names to
        ``(low, high)``, which means integers if both are of integer type, ``(low, high, "log")``,
        a ``range``, a list of choices, or `treeopt.tuning` ``Real``, ``Integer`` or ``Choice``.
    weights : array-like of shape (p,), or mapping by name
        Relative importance of the coordinates; uniform by default.
    settings : StepDirectSettings
        How to search; `StepDirectSettings.paper()` is the published algorithm.
    max_evals : int
        Number of evaluations that are planned, if known. With few, the default starts in another
        way, see ``StepDirectSettings.scarce``. It does not end the search.
    rng : int or numpy.random.Generator
        Seed. The same seed, values and order of calls give the same points.

    Attributes
    ----------
    best : Best
        The best point ``x`` and its value ``fun``.
    points, values : array or list of dict, array
        All points whose values are known, in the order in which they were told; NaN: failed.
    pending : array or list of dict
        Points that were asked for and not told yet.
    nfev, nfailed : int
        Number of points that were told, and of those that failed.

    See Also
    --------
    stepdirect : the same search as a function that calls yours.

    Examples
    --------
    >>> import treeopt
    >>> opt = treeopt.StepDirect({"depth": (1, 12), "rate": (1e-3, 1.0, "log")}, rng=0)
    >>> for _ in range(60):
    ...     points = opt.ask()
    ...     opt.tell(points, [abs(x["depth"] - 5) + abs(x["rate"] - 0.1) for x in points])
    >>> opt.best.x["depth"], opt.best.fun < 0.1
    (5, True)
    """

    def __init__(
        self,
        space: object,
        *,
        weights: Weights = None,
        settings: StepDirectSettings | None = None,
        max_evals: int | None = None,
        rng: Seed = None,
    ) -> None:
        settings = read_settings(settings)
        if max_evals is not None:
            max_evals = read_count(max_evals, "max_evals")
        dimensions = read_dimensions(space)
        weight = settings.weights_for(weights_of(weights, dimensions))
        search = new_state(weight, read_seed(rng)), new_walk(weight.size)
        self._begin(dimensions, settings, max_evals, *search)

    def _begin(
        self,
        dimensions: Dimensions,
        settings: StepDirectSettings,
        max_evals: int | None,
        state: State,
        walk: Walk,
    ) -> None:
        from treeopt.stepdirect.driver import Driver  # needs numba, which takes time to import

        self._dimensions, self._settings, self._max_evals = dimensions, settings, max_evals
        limit = np.inf if max_evals is None else max_evals
        self._driver = Driver(settings.rules_for(state.weight, 1, limit), state, walk)
        # Points are identified by the bytes of their codes.
        self._known: dict[bytes, float] = {}
        self._best: bytes | None = None
        self._nfailed = 0
        self._pending: dict[bytes, None] = {}
        # The points that the algorithm awaits, their values, and those that are not known yet.
        self._keys: list[bytes] = []
        self._values = np.empty(0)
        self._open: dict[bytes, list[int]] = {}
        # Other points, in the order in which they were asked for or told. Once they have values,
        # the algorithm adopts them.
        self._beside: dict[bytes, None] = {}
        # Number of these that were told since the last awaited point was asked for.
        self._waited = 0

    def ask(self, n: int | None = None) -> Any:
        """Return points to evaluate.

        Parameters
        ----------
        n : int
            Number of points. By default as many as the algorithm can use at once: two for each
            coordinate and one in the beginning, usually one later. If there are not enough of
            these, or while they are pending, moves around the best point are added.

        Returns
        -------
        array of shape (n, p), or list of dict
            Points that were not asked for or told before. There are fewer than ``n``, or none,
            only if every point of a discrete space is known or pending.
        """
        if n is not None:
            n = read_count(n, "n")
        keys: list[bytes] = []
        while n is None or len(keys) < n:
            new = self._awaited(None if n is None else n - len(keys))
            if not new and (n is not None or not keys):
                new = self._drawn()
            if not new:
                break
            self._pending.update(dict.fromkeys(new))
            keys += new
        return self._dimensions.points(self._codes(keys))

    def tell(self, points: object, values: object) -> None:
        """Take the values of some points, in any order.

        Parameters
        ----------
        points : as `ask` returns them
            Or a single point, with a single value. They need not have been asked for.
        values : float, or array-like of float
            One for each point. NaN, an infinity or None: the evaluation failed. It is never the
            best, and counts as the maximum value so far. A point that has failed may be told a
            value later; otherwise a point has one value.
        """
        keys = self._keys_of(points)
        numbers = _read_values(values, len(keys))
        told: dict[bytes, float] = {}
        for k, (key, value) in enumerate(zip(keys, numbers, strict=True)):
            before = told.get(key, self._known.get(key, value))
            if not (before == value or math.isnan(before)):
                raise InputError(
                    f"points[{k}] was told before, with {before}; values[{k}] is {value}. Tell one "
                    "value for each point."
                )
            told[key] = value
        for key, value in told.items():
            if key not in self._known or (math.isnan(self._known[key]) and not math.isnan(value)):
                self._take(key, value)

    def reserve(self, points: object) -> None:
        """Mark points as pending that are evaluated elsewhere, so that they are not asked for.

        Parameters
        ----------
        points : as `ask` returns them
        """
        for key in self._keys_of(points):
            if key not in self._known:
                self._pending[key] = None

    def release(self, points: object) -> None:
        """Give up pending points that will not be evaluated; they may be asked for again.

        Parameters
        ----------
        points : as `ask` returns them
        """
        for key in self._keys_of(points):
            if key in self._pending:
                del self._pending[key]
                self._beside.pop(key, None)

    def knows(self, point: object) -> bool:
        """Tell whether the value of a point is known; a failed evaluation has none."""
        return not math.isnan(self._known.get(self._keys_of([point])[0], math.nan))

    def reseed(self, rng: Seed = None) -> None:
        """Start another sequence of random numbers.

        Parameters
        ----------
        rng : int or numpy.random.Generator
            The new seed.
        """
        self._driver.state.random[0] = read_seed(rng)

    def _take(self, key: bytes, value: float) -> None:
        """Take the value of a point."""
        if key not in self._pending and not self._open:
            self._advance()  # perhaps the algorithm asks for this point next
        slots = self._open.pop(key, None)
        if key in self._known:  # it had failed
            slots = [k for k, awaited in enumerate(self._keys) if awaited == key] or None
        self._note(key, value)
        self._pending.pop(key, None)
        if slots is None:
            self._beside.setdefault(key)
            self._waited += 1
        else:
            self._values[slots] = value
            self._beside.pop(key, None)

    def _note(self, key: bytes, value: float) -> None:
        self._nfailed += math.isnan(value) - math.isnan(self._known.pop(key, 0.0))
        self._known[key] = value
        if value < (math.inf if self._best is None else self._known[self._best]):
            self._best = key

    def _awaited(self, n: int | None) -> list[bytes]:
        """Return up to n awaited points that are not pending yet.

        Steps whose points are all known are answered from memory on the way.
        """
        new = self._unasked(n)
        for _ in range(REMEMBERED):
            overdue = self._waited > OVERDUE + 2 * len(self._pending)
            if new or (self._open and not overdue) or not self._advance():
                break
            new = self._unasked(n)
        if new:
            self._waited = 0
        return new

    def _unasked(self, n: int | None) -> list[bytes]:
        return list(islice((key for key in self._open if key not in self._pending), n))

    def _advance(self) -> bool:
        """Let the algorithm use its values and propose new points; return whether it did.

        Values that are missing count as failed; if they are told later, they are adopted then.
        """
        driver, p = self._driver, self._dimensions.free.size
        enough = REPEATED * (self.nfev + 2 * p + 1)
        if not p or driver.samples > enough:
            return False
        if self._keys:
            driver.record(self._values)
            if told := [key for key in self._beside if key in self._known]:
                values = np.array([self._known[key] for key in told])
                driver.adopt(self._dimensions.positions(self._codes(told)), values)
                for key in told:
                    del self._beside[key]
                self._waited = 0
        codes = self._dimensions.codes(driver.propose())
        self._wait_for([row.tobytes() for row in codes])
        return len(codes) > 0

    def _wait_for(self, keys: list[bytes]) -> None:
        """Await points, except for those whose values are known."""
        self._keys, self._open = keys, {}
        self._values = np.array([self._known.get(key, np.nan) for key in keys])
        for slot, key in enumerate(keys):
            if key not in self._known:
                self._open.setdefault(key, []).append(slot)

    def _drawn(self) -> list[bytes]:
        """Return a new point beside those that the algorithm awaits, if there is one."""
        dimensions, size = self._dimensions, self._dimensions.size
        if size is not None and len(self._known) + len(self._pending) >= size:
            return []
        key = None
        if dimensions.free.size:
            for _ in range(REMEMBERED):
                key = self._first_new(dimensions.codes(self._driver.propose_beside()))
                if key is not None:
                    break
        if key is None and size is not None:
            key = self._any_new(min(size, LARGEST_INTEGER))
        if key is None:
            return []
        self._beside[key] = None
        return [key]

    def _any_new(self, size: int) -> bytes | None:
        """Return the first new point after a random one, among the first ``size`` of the space."""
        begin = self._driver.draw_below(size)
        for first in range(begin, begin + size, BLOCK):
            numbers = np.arange(first, first + BLOCK) % size
            key = self._first_new(self._dimensions.nth(numbers))
            if key is not None:
                return key
        return None

    def _first_new(self, codes: Array) -> bytes | None:
        """Return the first point that is neither known nor pending."""
        for row in codes:
            key: bytes = row.tobytes()
            if key not in self._known and key not in self._pending:
                return key
        return None

    def _keys_of(self, points: object) -> list[bytes]:
        return [row.tobytes() for row in self._dimensions.codes_of(points)]

    def _codes(self, keys: Sequence[bytes]) -> Array:
        codes: Array = np.frombuffer(b"".join(keys))
        return codes.reshape(len(keys), len(self._dimensions.all))

    @property
    def best(self) -> Best:
        """The best point and its value."""
        if self._best is None:
            return Best(None, np.nan)
        return Best(self._dimensions.points(self._codes([self._best]))[0], self._known[self._best])

    @property
    def points(self) -> Any:
        """All points whose values are known."""
        return self._dimensions.points(self._codes(list(self._known)))

    @property
    def values(self) -> Array:
        """Their values; NaN: failed."""
        return np.array(list(self._known.values()), np.float64)

    @property
    def pending(self) -> Any:
        """Points that were asked for and not told yet."""
        return self._dimensions.points(self._codes(list(self._pending)))

    @property
    def nfev(self) -> int:
        """Number of points that were told."""
        return len(self._known)

    @property
    def nfailed(self) -> int:
        """Number of those that failed."""
        return self._nfailed

    @property
    def frame(self) -> pd.DataFrame:
        """The points and their values as a data frame, with the values in column ``value``."""
        import pandas as pd

        names = self._dimensions.names or [f"x{k}" for k in range(len(self._dimensions.all))]
        frame = pd.DataFrame(self.points, columns=list(names))
        label = "value"
        while label in names:
            label += "_"
        return frame.assign(**{label: self.values})

    def __repr__(self) -> str:
        best = self.best
        failed = f" ({self.nfailed} failed)" if self.nfailed else ""
        pending = f", {len(self._pending)} pending" if self._pending else ""
        fun = "no value yet" if best.x is None else f"fun = {best.fun:.10g}"
        return f"StepDirect: {fun} after {counted(self.nfev, 'point')}{failed}{pending}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole search to a file, which `load` reads.

        The file is replaced completely or not at all. It has numbers and text only, no pickle.

        Parameters
        ----------
        path : path
            Name of the file, usually with the suffix ``.npz``.
        """
        about = {
            "space": as_text(self._dimensions),
            "settings": asdict(self._settings),
            "max_evals": self._max_evals,
            "waited": self._waited,
        }
        arrays = {
            "known": self._codes(list(self._known)),
            "values": self.values,
            "pending": self._codes(list(self._pending)),
            "awaited": self._codes(self._keys),
            "beside": self._codes(list(self._beside)),
        }
        saved.write(path, about, arrays | saved.arrays_of(self._driver.state, self._driver.walk))

    @classmethod
    def load(cls, path: str | os.PathLike[str], space: object = None) -> StepDirect:
        """Return the search that `save` has written; it continues as if it had not stopped.

        Parameters
        ----------
        path : path
            The file.
        space : mapping, sequence of pairs or scipy Bounds
            The space, as it was given; needed only if it has choices other than numbers, text,
            True, False and None.
        """
        about, arrays = saved.read(path)
        try:
            described = about["space"]
            dimensions = from_text(described) if space is None else read_dimensions(space)
            same = json.dumps(as_text(dimensions)) == json.dumps(described)
        except InputError:
            raise
        except Exception as error:
            raise saved.damaged(path, error) from None
        if not same:
            raise InputError(
                f"space is {space!r}, which is not that of {str(path)!r}. Pass the same, or leave "
                "it out."
            )
        try:
            return cls._resumed(dimensions, about, arrays)
        except Exception as error:
            raise saved.damaged(path, error) from None

    @classmethod
    def _resumed(
        cls, dimensions: Dimensions, about: saved.Json, arrays: dict[str, Array]
    ) -> StepDirect:
        """Return the search of a file; raise an exception if something is wrong with it."""
        settings, max_evals = StepDirectSettings(**about["settings"]), about["max_evals"]
        if max_evals is not None:
            max_evals = read_count(max_evals, "max_evals")
        search = cls.__new__(cls)
        state, walk = saved.search_of(arrays, dimensions.free.size)
        search._begin(dimensions, settings, max_evals, state, walk)
        known, pending, awaited, beside = (
            search._keys_of(dimensions.points(arrays[name]))
            for name in ("known", "pending", "awaited", "beside")
        )
        saved.check_step(state, search._driver.rules, len(awaited))
        for key, value in zip(known, _read_values(arrays["values"], len(known)), strict=True):
            search._note(key, value)
        search._pending = dict.fromkeys(pending)
        search._beside = dict.fromkeys(beside)
        search._waited = int(about["waited"])
        search._wait_for(awaited)
        return search


def _read_values(values: object, n: int) -> list[float]:
    """Return n values; those that are not finite are NaN."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    single = not isinstance(values, Iterable) or isinstance(values, str)
    if isinstance(values, np.ndarray):
        single = values.ndim == 0
    given = [values] if single else list(cast(Iterable[object], values))
    if len(given) != n:
        raise InputError(f"values has {len(given)} numbers for {n} points. Pass one for each.")
    return [_read_value(value, f"values[{k}]") for k, value in enumerate(given)]


def _read_value(value: Any, name: str) -> float:
    """Return a value; NaN if it is not finite."""
    try:
        if isinstance(value, str | bytes) or np.ndim(value):
            raise TypeError
        number = math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {value!r}. Pass a number, or None if it failed.") from None
    return number if math.isfinite(number) else math.nan
