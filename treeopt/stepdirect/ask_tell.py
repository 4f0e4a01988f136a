"""`StepDirect`: the search as an object that is asked for points and told their values."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treeopt.arguments import read_count, read_seed, read_weights
from treeopt.dimensions import Dimensions, as_text, from_text, read_dimensions
from treeopt.errors import InputError
from treeopt.stepdirect.settings import StepDirectSettings
from treeopt.stepdirect.state import ASKED, EVALUATED, GROWING, State, grown, new_state

if TYPE_CHECKING:
    import pandas as pd

    from treeopt.ensemble import Array

FORMAT = 1
"""Version of the files that `StepDirect.save` writes."""

REMEMBERED = 64
"""After so many steps whose points are all known already, a new point is drawn instead."""

OVERDUE = 8
"""Points that are awaited longer than this, and twice the pending ones, have failed for now."""


class Best(NamedTuple):
    """The best point so far.

    Attributes
    ----------
    x : array or dict
        The point, None if no evaluation has succeeded.
    fun : float
        Its value, NaN if there is none.
    """

    x: Any
    fun: float


class StepDirect:
    """StepDIRECT as an optimizer that is asked for points and told their values.

    It minimises. Points may be told in any order, one or several at a time, while others are
    pending; those that it has not asked for are welcome too. No point is asked for twice.

    Parameters
    ----------
    space : mapping, sequence of pairs or scipy Bounds
        ``(low, high)`` for each coordinate of a real box; or a mapping from names to
        ``(low, high)``, with whole numbers between if both ends are whole, ``(low, high, "log")``,
        a ``range``, a list of choices, or `treeopt.tuning` ``Real``, ``Integer`` or ``Choice``.
    weights : array-like of shape (p,), or mapping by name
        Relative importance of the coordinates; uniform by default.
    settings : StepDirectSettings
        How to search; `StepDirectSettings.paper()` is the published algorithm.
    max_evals : int
        How many evaluations there will be, if that is known: with few, the default begins
        otherwise, see ``StepDirectSettings.scarce``. It does not end the search.
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
        How many points were told, and how many of them as failed.

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
        space: Any,
        *,
        weights: Any = None,
        settings: StepDirectSettings | None = None,
        max_evals: int | None = None,
        rng: Any = None,
    ) -> None:
        settings = StepDirectSettings() if settings is None else settings
        if not isinstance(settings, StepDirectSettings):
            raise InputError(f"settings is {settings!r}. Pass StepDirectSettings, or None.")
        if max_evals is not None:
            max_evals = read_count(max_evals, "max_evals")
        dimensions = read_dimensions(space)
        weight = settings.weights_for(_weights_in(weights, dimensions))
        self._begin(dimensions, settings, max_evals, new_state(weight, read_seed(rng)))

    def _begin(
        self,
        dimensions: Dimensions,
        settings: StepDirectSettings,
        max_evals: int | None,
        state: State,
    ) -> None:
        self._dimensions, self._settings, self._max_evals = dimensions, settings, max_evals
        self._state = state
        limit = np.inf if max_evals is None else max_evals
        self._rules = settings.rules_for(state.weight, 1, limit)
        # Points are known by the bytes of their codes.
        self._known: dict[bytes, float] = {}
        self._pending: dict[bytes, None] = {}
        # The points that the algorithm waits for, their values, and which are not known yet.
        self._keys: list[bytes] = []
        self._values = np.empty(0)
        self._open: dict[bytes, list[int]] = {}
        # Points that were told although the algorithm does not wait for them.
        self._beside: list[bytes] = []

    def ask(self, n: int | None = None) -> Any:
        """Return points to evaluate.

        Parameters
        ----------
        n : int
            How many. By default as many as the algorithm can use at once: some for each coordinate
            in the beginning, mostly one later. If more are wanted than that, or while others are
            pending, moves around the best point are added.

        Returns
        -------
        array of shape (n, p), or list of dict
            Points that were never asked for or told before. There are fewer than ``n``, or none,
            only when every point of a discrete space is known or pending.
        """
        if n is not None:
            n = read_count(n, "n")
        keys: list[bytes] = []
        while n is None or len(keys) < n:
            key = self._awaited()
            if key is None and n is None and keys:
                break
            key = key or self._drawn()
            if key is None:
                break
            self._pending[key] = None
            keys.append(key)
        return self._dimensions.points(self._codes(keys))

    def tell(self, points: Any, values: Any) -> None:
        """Take the values of points, all that were asked for or some, in any order.

        Parameters
        ----------
        points : as `ask` returns them
            Also a single point, with a single value. They need not have been asked for.
        values : float, or array-like of float
            One for each point. NaN, an infinity or None says that the evaluation failed; it is
            never the best, and counts as the worst value seen.
        """
        keys = self._keys_of(points)
        numbers = _read_values(values, len(keys))
        for k, (key, value) in enumerate(zip(keys, numbers, strict=True)):
            before = self._known.get(key, value) if key not in keys[:k] else np.nan
            if key in keys[:k] or not (before == value or (before != before and value != value)):
                told = "is there twice" if key in keys[:k] else f"was told before, with {before}"
                raise InputError(
                    f"points[{k}] {told}, values[{k}] is {value}. Tell one value for each point."
                )
        for key, value in zip(keys, numbers, strict=True):
            if key not in self._known:
                self._take(key, value)

    def reserve(self, points: Any) -> None:
        """Note that points are evaluated elsewhere: they are pending, and not asked for.

        Parameters
        ----------
        points : as `ask` returns them
        """
        for key in self._keys_of(points):
            if key not in self._known:
                self._pending[key] = None

    def release(self, points: Any) -> None:
        """Note that pending points will not be evaluated after all; they may be asked for again.

        Parameters
        ----------
        points : as `ask` returns them
        """
        for key in self._keys_of(points):
            self._pending.pop(key, None)

    def knows(self, point: Any) -> bool:
        """Tell whether the value of a point was told."""
        return self._keys_of([point])[0] in self._known

    def reseed(self, rng: Any = None) -> None:
        """Begin another sequence of random numbers.

        Parameters
        ----------
        rng : int or numpy.random.Generator
            The new seed.
        """
        self._state.random[0] = read_seed(rng)

    def _take(self, key: bytes, value: float) -> None:
        """Note the value of a point."""
        if key not in self._pending and not self._open:
            self._advance()  # perhaps the algorithm wants just this point next
        self._known[key] = value
        self._pending.pop(key, None)
        slots = self._open.pop(key, None)
        if slots is None:
            self._beside.append(key)
        else:
            self._values[slots] = value

    def _awaited(self) -> bytes | None:
        """Return a point that the algorithm waits for and nobody has yet; None: there is none.

        What is known already is answered from memory on the way.
        """
        for _ in range(REMEMBERED):
            overdue = len(self._beside) > OVERDUE + 2 * len(self._pending)
            if (not self._open or overdue) and not self._advance():
                return None
            for key in self._open:
                if key not in self._pending:
                    return key
            if self._open:
                return None
        return None

    def _advance(self) -> bool:
        """Let the algorithm use its values and ask for new ones; return whether it did.

        What is not known counts as failed; if it is told later, it is taken up then.
        """
        from treeopt.stepdirect.algorithm import adopt, advance, record

        if not self._dimensions.free.size:
            return False
        state, count = self._state, self._state.counter
        if self._keys:
            record(self._values, count, state.sample)
            if self._beside:
                codes = self._codes(self._beside)
                values = np.array([self._known[key] for key in self._beside])
                room = int(count[EVALUATED] + count[ASKED]) + len(codes)
                if room > state.sample.size:
                    state = grown(state, room)
                adopt(self._dimensions.places(codes), values, state, self._rules)
                self._beside = []
        n = int(advance(state, self._rules))
        if n < 0:
            state = grown(state, -n)
            n = int(advance(state, self._rules))
        self._state = state
        first = int(count[EVALUATED])
        codes = self._dimensions.codes(state.u[first : first + n])
        self._wait_for([row.tobytes() for row in codes])
        return n > 0

    def _wait_for(self, keys: list[bytes]) -> None:
        """Note the points that the algorithm asks for; values that are known are used."""
        self._keys, self._open = keys, {}
        self._values = np.array([self._known.get(key, np.nan) for key in keys])
        for slot, key in enumerate(keys):
            if key not in self._known:
                self._open.setdefault(key, []).append(slot)

    def _drawn(self) -> bytes | None:
        """Return a new point beside those that the algorithm waits for; None: there is none."""
        from treeopt.kernels.random import below
        from treeopt.stepdirect.refinement import ask_beside

        dimensions, size = self._dimensions, self._dimensions.size
        taken = len(self._known) + len(self._pending)
        if size is not None and taken >= size:
            return None
        if dimensions.free.size:
            u = np.empty((1, dimensions.free.size))
            for _ in range(REMEMBERED):
                ask_beside(u[0], self._state, self._rules)
                key: bytes = dimensions.codes(u).tobytes()
                if key not in self._known and key not in self._pending:
                    return key
        if size is None:
            return None
        k = int(below(min(size, 2**53), self._state.random))
        while True:
            key = dimensions.nth(k % size).tobytes()
            if key not in self._known and key not in self._pending:
                return key
            k += 1

    def _keys_of(self, points: Any) -> list[bytes]:
        return [row.tobytes() for row in self._dimensions.codes_of(points)]

    def _codes(self, keys: Sequence[bytes]) -> Array:
        codes: Array = np.frombuffer(b"".join(keys))
        return codes.reshape(len(keys), len(self._dimensions.all))

    @property
    def best(self) -> Best:
        """The best point and its value."""
        values = self.values
        if np.isnan(values).all():
            return Best(None, np.nan)
        best = int(np.nanargmin(values))
        key = list(self._known)[best]
        return Best(self._dimensions.points(self._codes([key]))[0], float(values[best]))

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
        """How many points were told."""
        return len(self._known)

    @property
    def nfailed(self) -> int:
        """How many of them failed."""
        return int(np.isnan(self.values).sum())

    @property
    def frame(self) -> pd.DataFrame:
        """The points and their values as a data frame; the column of the values is ``value``."""
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
        return f"StepDirect: fun = {best.fun:.10g} after {self.nfev} points{failed}{pending}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole search to a file, which `load` reads.

        The file is replaced at once or not at all. It holds numbers and text only, no pickle.

        Parameters
        ----------
        path : path
            The file's name, usually with the ending ``.npz``.
        """
        state = self._state
        used = int(state.counter[EVALUATED] + state.counter[ASKED])
        arrays = {f"state_{k}": v for k, v in state._asdict().items()}
        for name, rows in GROWING.items():
            arrays[f"state_{name}"] = arrays[f"state_{name}"][: rows * used]
        about = {
            "format": FORMAT,
            "space": as_text(self._dimensions),
            "settings": asdict(self._settings),
            "max_evals": self._max_evals,
        }
        arrays |= {
            "about": np.array(json.dumps(about)),
            "known": self._codes(list(self._known)),
            "values": self.values,
            "pending": self._codes(list(self._pending)),
            "awaited": self._codes(self._keys),
            "beside": self._codes(self._beside),
        }
        path = Path(path)
        unfinished = path.with_name(path.name + ".tmp")
        with unfinished.open("wb") as file:
            np.savez_compressed(file, **arrays)
        unfinished.replace(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], space: Any = None) -> StepDirect:
        """Return the search that `save` has written; it goes on as if it had never stopped.

        Parameters
        ----------
        path : path
            The file.
        space : mapping, sequence of pairs or scipy Bounds
            The space, as it was given; needed only if it has choices other than numbers, text,
            True, False and None.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = json.loads(str(arrays["about"]))
            if about["format"] != FORMAT:
                raise InputError(
                    f"path is {str(path)!r}, a file of format {about['format']}; this version of "
                    f"treeopt reads format {FORMAT}. Read it with the version that wrote it."
                )
            state = State(**{name: arrays[f"state_{name}"] for name in State._fields})
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            if isinstance(error, InputError | FileNotFoundError):
                raise
            raise InputError(
                f"path is {str(path)!r}, which is no file of StepDirect.save ({error})."
            ) from None
        if space is None:
            dimensions = from_text(about["space"])
        else:
            dimensions = read_dimensions(space)
            if json.loads(json.dumps(as_text(dimensions))) != about["space"]:
                raise InputError("space is not that of the file. Pass the same, or leave it out.")
        search = cls.__new__(cls)
        search._begin(
            dimensions, StepDirectSettings(**about["settings"]), about["max_evals"], state
        )
        points = ("known", "pending", "awaited", "beside")
        keys = {name: [row.tobytes() for row in arrays[name]] for name in points}
        search._known = dict(zip(keys["known"], arrays["values"].tolist(), strict=True))
        search._pending = dict.fromkeys(keys["pending"])
        search._beside = keys["beside"]
        search._wait_for(keys["awaited"])
        return search


def _weights_in(weights: Any, dimensions: Dimensions) -> Array:
    """Return the weights of the free coordinates."""
    names, n = dimensions.names, len(dimensions.all)
    if weights is None:
        return np.ones(dimensions.free.size)
    if isinstance(weights, Mapping):
        if names is None or set(weights) != set(names):
            raise InputError(
                f"weights is {weights!r}. Pass a number for each parameter by its name, or a list."
            )
        weights = [weights[name] for name in names]
    return read_weights(weights, n)[dimensions.free]


def _read_values(values: Any, n: int) -> list[float]:
    """Return n values; what is not finite is NaN."""
    given = values if isinstance(values, Sequence | np.ndarray) and np.ndim(values) else [values]
    if hasattr(values, "to_numpy"):
        given = values.to_numpy()
    if len(given) != n:
        raise InputError(f"values has {len(given)} numbers for {n} points. Pass one for each.")
    numbers = []
    for k, value in enumerate(given):
        try:
            number = np.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise InputError(f"values[{k}] is {value!r}. Pass a number, or None.") from None
        numbers.append(number if np.isfinite(number) else np.nan)
    return numbers
