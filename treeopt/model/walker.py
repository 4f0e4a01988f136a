"""Evaluating an ensemble one coordinate at a time: after a move, and along a whole line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.errors import InputError
from treeopt.kernels import incremental, walk
from treeopt.kernels import line as kernels
from treeopt.kernels.arrays import State, plain
from treeopt.model.predictor import Predictor
from treeopt.types import Array


@dataclass(frozen=True, eq=False, repr=False)
class Line:
    """A piecewise-constant function of one coordinate.

    Piece ``k`` holds the numbers, after the cast to the ensemble's input dtype, above
    ``upper[k - 1]`` and up to ``upper[k]``; the last bound is infinite. Missing values are not part
    of the line. Each category of a feature is a piece, and so is each interval between two of them.

    Attributes
    ----------
    upper : float64 array
        Upper bound of each piece, ascending.
    value : array
        Prediction on each piece, bit-equal to `Ensemble.predict`.
    """

    upper: Array
    value: Array

    def __repr__(self) -> str:
        low, high = self.value.min(), self.value.max()
        return f"<Line of {self.value.size} pieces, values from {low} to {high}>"


class Walker:
    """Follows a point as it moves one coordinate at a time; see `Ensemble.walker`.

    Its predictions are bit-equal to those of `Ensemble.predict`.
    """

    def __init__(self, ensemble: Predictor, x: Any) -> None:
        self._ensemble = ensemble
        self._x = ensemble._point(x)
        compiled = ensemble.compiled
        n_trees, dtype = ensemble.n_trees, ensemble.value.dtype
        n_slots = int(compiled.cells.slot_start[-1])
        state = State(
            low=np.empty((n_slots, n_trees), np.int32),
            high=np.empty((n_slots, n_trees), np.int32),
            safe=np.empty((2, n_slots), np.int32),
            path=np.empty((n_trees, compiled.depth), np.int32),
            depth=np.empty(n_trees, np.int32),
            value=np.empty(n_trees, dtype),
            sums=np.empty(n_trees + 1, dtype),
        )
        keys = np.zeros(n_slots * walk.LANES, np.uint32)
        self._arguments = (*compiled.walk, keys, plain(state))
        self._sums = state.sums
        if not incremental.start(self._x, *self._arguments):
            ensemble._reject(self._x[None, :], 0, "x")
        # Room for a single move.
        self._one = (np.empty(1, np.int64), np.empty(1), np.empty(1, dtype))

    def __repr__(self) -> str:
        return f"<Walker at {self.x.tolist()}: {self.value}>"

    @property
    def x(self) -> Array:
        """The current point; read-only, since only a move keeps the prediction up to date."""
        view = self._x.view()
        view.flags.writeable = False
        return view

    @property
    def value(self) -> float:
        """The prediction at the current point."""
        e = self._ensemble
        return float(e.link(self._sums[-1:] / self._sums.dtype.type(e.divisor))[0])

    def move(self, feature: int | str, to: float | str) -> float:
        """Set one coordinate and return the prediction at the new point.

        ``to`` is a number, as a matrix has it (of a category, its code), or a label that is text.
        """
        column = self._ensemble.feature_index(feature)
        known = self._ensemble.categories.get(column)
        if isinstance(to, str) and known is not None:
            if known.labels is None:
                raise InputError(
                    f"to is {to!r}, but labels of {feature!r} are not known: pass a number."
                )
            if to not in known.number_of:
                raise InputError(f"to is {to!r}, which is none of {known}. Pass one of them.")
            to = known.number_of[to]
        which, target, out = self._one
        which[0] = self._ensemble.compiled.position[column]
        if not isinstance(to, int | float | np.number):
            raise InputError(f"to is {to!r}: pass a number, NaN if it is missing, or a label.")
        target[0] = to
        self._check_categories([column], target)
        if incremental.run(*self._arguments, which, target, out) >= 0:
            raise InputError(
                f"to is {to}: {self._ensemble.source} refuses such values. Pass a finite number."
            )
        self._x[column] = to
        return float(self._ensemble.link(out)[0])

    def run(self, features: Any, to: Any) -> Array:
        """Set many coordinates one after the other; return the prediction after each move.

        Parameters
        ----------
        features : sequence of int or str
            The feature to change at each move.
        to : sequence of float
            Its new value.
        """
        e = self._ensemble
        try:
            columns, to = np.asarray(features), np.array(to, np.float64)
        except (TypeError, ValueError):
            raise InputError("to must be a sequence of numbers; `move` takes labels.") from None
        if columns.ndim != 1:
            raise InputError(f"features is {features!r}: pass a sequence of features.")
        if columns.dtype.kind not in "iu" or not _all_within(columns, e.n_features):
            columns = np.array([e.feature_index(f) for f in features], np.int64)
        if columns.shape != to.shape:
            raise InputError(
                f"features has length {columns.size} and to has shape {to.shape}: pass two "
                "sequences of the same length."
            )
        self._check_categories(columns, to)
        out = np.empty(to.size, e.value.dtype)
        refused = int(incremental.run(*self._arguments, e.compiled.position[columns], to, out))
        made = to.size if refused < 0 else refused
        self._x[columns[:made]] = to[:made]
        if refused >= 0:
            raise InputError(
                f"to[{made}] is {to[made]}: {e.source} refuses such values. Pass finite numbers. "
                f"The {made} moves before it were made."
            )
        return e.link(out)

    def _check_categories(self, columns: Any, to: Array) -> None:
        """Refuse infinity where a category belongs and the library refuses it, before any move."""
        finite = self._ensemble.finite_columns
        if finite.size and np.isinf(to[np.isin(columns, finite)]).any():
            raise InputError(
                f"to is infinite for a feature with categories: {self._ensemble.source} refuses "
                "such values. Pass a category or a missing value."
            )


def _all_within(columns: Array, n: int) -> bool:
    """Tell whether all indices lie in ``0..n-1``."""
    return bool(((columns >= 0) & (columns < n)).all())


def line(ensemble: Predictor, x: Any, feature: int | str) -> Line:
    """Return the function along one coordinate; see `Ensemble.line`."""
    column = ensemble.feature_index(feature)
    point = ensemble._point(x)
    compiled, cells = ensemble.compiled, ensemble.compiled.cells
    j = int(compiled.position[column])
    if j < 0:
        return Line(np.array([np.inf]), ensemble.predict(point[None, :]))
    cuts = cells.cuts_of(j)
    if cells.has_sets[j]:
        # Each cell for itself: neighboring categories have nothing in common.
        rows = np.repeat(point[None, :], cuts.size + 1, axis=0)
        rows[:, column] = np.append(cuts, _above(cuts, ensemble.input_dtype))
        return Line(np.append(cuts, np.inf), ensemble.predict(rows))
    first, last = compiled.special_cells[j]
    marks = np.zeros(cuts.size // 64 + 1, np.uint64)
    for cell in range(first - 1, last + 1) if first <= last else ():
        marks[cell // 64] |= np.uint64(1 << cell % 64)
    end = np.empty(cuts.size + 1, np.int64)
    value = np.empty(cuts.size + 1, ensemble.value.dtype)
    if compiled.mask_dtype is not None:
        encoder, numbers = plain(compiled.encoder), compiled.numbers
        leaves = (*compiled.masks, compiled.leaf_stop[j], compiled.all_leaves)
        n = kernels.line_by_masks(point, j, encoder, numbers, *leaves, marks, end, value)
    else:
        n = kernels.line_by_walk(point, j, *compiled.walk, compiled.depth, marks, end, value)
    if n < 0:
        ensemble._reject(point[None, :], 0, "x")
    last_cell, value = end[:n] - 1, ensemble.link(value[:n].copy())
    upper = np.full(n, np.inf)
    upper[:-1] = cuts[last_cell[:-1]]
    if first <= last:
        special = (first <= last_cell) & (last_cell <= last)
        rows = np.repeat(point[None, :], np.count_nonzero(special), axis=0)
        rows[:, column] = upper[special]
        value[special] = ensemble.predict(rows)
    return Line(upper, value)


def _above(cuts: Array, dtype: np.dtype[Any]) -> float:
    """Return a number above all cuts; not an integer, unless the cuts are large."""
    with np.errstate(all="ignore"):
        last = cuts[-1:].astype(dtype)
        return float(max([0.0, *(cuts[-1:] + 1.5), *np.nextafter(last, dtype.type(np.inf))]))
