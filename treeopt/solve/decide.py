"""`minimize` and `maximize`: a model, a space and a method put together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from treeopt.adapters import from_model, own_prediction
from treeopt.arguments import (
    as_float,
    read_callback,
    read_count,
    read_n_jobs,
    read_seed,
    read_time_limit,
)
from treeopt.arithmetic import quiet
from treeopt.errors import InputError, TreeoptError, shown
from treeopt.model.ensemble import Ensemble
from treeopt.model.frames import (
    Columns,
    columns_of,
    frame_of,
    has_pandas,
    in_types,
    named,
    no_frame,
    with_labels,
)
from treeopt.model.link import IDENTITY
from treeopt.problem.bounds import feature_label
from treeopt.problem.region import Region
from treeopt.problem.space import read_space
from treeopt.result.decision import Decision
from treeopt.run.limits import Limits
from treeopt.run.progress import BOUND_HISTORY, DecisionProgress, Progress, gap_between
from treeopt.run.status import Status, Stopped
from treeopt.stepdirect.minimizer import search_within
from treeopt.stepdirect.search import rows_at_once
from treeopt.types import Array

if TYPE_CHECKING:
    from treeopt.exact.solver import Solver
    from treeopt.problem.grid import Grid

METHODS = ("auto", "exact", "local", "stepdirect")

DEFAULT_EVALS = 2000
"""Evaluations of the methods that end by them, unless told otherwise."""

MOMENT = 0.02
"""Seconds for what is still to be done when a limit is reached before the search has begun."""

N_STARTS = 30
"""The local search begins at so many rows of the data, the best of them first, or at random points
if there are none."""


def minimize(
    model: Any,
    bounds: Any,
    *,
    fixed: Any = None,
    integer: Any = "auto",
    categories: Any = None,
    method: str = "auto",
    time_limit: float | None = None,
    max_evals: int | None = None,
    gap: float = 0.0,
    start: Any = None,
    rng: Any = None,
    callback: Callable[[DecisionProgress], Any] | None = None,
    progress: bool = False,
    n_jobs: int = 1,
    output: str = "auto",
    class_index: int | tuple[int, int] | None = None,
) -> Decision:
    """Find the inputs with the least prediction of a fitted model, and prove it.

    Parameters
    ----------
    model : estimator or Ensemble
        Any model that `from_model` accepts.
    bounds : frame, matrix, mapping, sequence of pairs or scipy Bounds
        Bounds of each feature, both included; infinite ones are fine. Data stand for the range of
        each column, and for the categories that occur in it; what means missing to the model does
        not count. A mapping goes by name or number, and may leave out features that are fixed, or
        have categories that the model lists. A bound on categories is about their labels, if these
        are numbers, or about codes, if the model has no labels.
    fixed : mapping, series or frame of one row
        Features that cannot be changed, and their values; labels for categories, NaN for missing.
        They may lie outside the range of data that are given as bounds.
    integer : name, number, or list of these, default="auto"
        Features that are whole numbers. If "auto", the columns of integer type of a frame that is
        given as bounds. If None, there are none. Boolean columns are always 0 or 1.
    categories : mapping
        For each feature in it, the list of values to choose from: labels of categories as the
        training frame had them, or numbers. Other features with categories may be any that occur in
        the data, or that the model lists and that lie within the bounds.
    method : {"auto", "exact", "local", "stepdirect"}
        ``"auto"`` searches and proves, until the optimum is proven or a limit is reached;
        ``"exact"`` only proves, and finds what it needs on the way; ``"local"`` only searches, and
        gives no bound; ``"stepdirect"`` runs the black-box search of `treeopt.stepdirect` on the
        model, for comparison.
    time_limit : float
        Seconds of search after which the best so far is returned, with its bound. The conversion of
        the model and, at the first call of all, the compilation of the kernels do not count. The
        conversion of a large forest takes seconds: to ask more than once, pass an `Ensemble`, of
        which the first call prepares what all others use.
    max_evals : int
        The same for the number of evaluations, see `Decision`. By default there is no limit for
        methods that prove, and 2,000 for those that do not.
    gap : float
        Stop as soon as the best is proven to be within so much of the optimum; of no use to methods
        without a bound.
    start : point or matrix of points
        Where to begin the local search, in addition to some rows of ``bounds``; moved to the
        nearest admissible cells.
    rng : int or numpy.random.Generator
        Seed of the local search.
    callback : callable
        Called every 20 ms or so with a `DecisionProgress`; ends the run if it raises StopIteration.
    progress : bool
        Whether to write a line to the standard error that tells how things stand.
    n_jobs : int
        Number of threads; -1 for one per processor.
    output, class_index
        What the model predicts, as in `from_model`.

    Returns
    -------
    Decision
        ``x``, ``fun``, ``bound``, ``region`` and more; ``print`` tells the story.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = [[i, j] for i in range(5) for j in range(5)]
    >>> y = [(i - 2) ** 2 + (j - 3) ** 2 for i, j in X]
    >>> model = RandomForestRegressor(n_estimators=20, random_state=0).fit(X, y)
    >>> best = treeopt.minimize(model, X, integer=[0, 1])
    >>> best.x, best.status.name, best.fun == model.predict([best.x])[0]
    (array([2., 3.]), 'OPTIMAL', np.True_)
    """
    return _decide(**locals(), sense=1.0)


def maximize(
    model: Any,
    bounds: Any,
    *,
    fixed: Any = None,
    integer: Any = "auto",
    categories: Any = None,
    method: str = "auto",
    time_limit: float | None = None,
    max_evals: int | None = None,
    gap: float = 0.0,
    start: Any = None,
    rng: Any = None,
    callback: Callable[[DecisionProgress], Any] | None = None,
    progress: bool = False,
    n_jobs: int = 1,
    output: str = "auto",
    class_index: int | tuple[int, int] | None = None,
) -> Decision:
    """Find the inputs with the largest prediction of a fitted model, and prove it.

    All arguments are those of `minimize`.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0.0], [1.0], [3.0]], [2.0, 4.0, 3.0])
    >>> best = treeopt.maximize(model, [(0, 3)])
    >>> best.fun, best.region.lower, best.region.upper
    (4.0, array([0.50000003]), array([2.00000012]))
    """
    return _decide(**locals(), sense=-1.0)


@quiet
def _decide(
    model: Any,
    bounds: Any,
    fixed: Any,
    integer: Any,
    categories: Any,
    method: str,
    time_limit: float | None,
    max_evals: int | None,
    gap: float,
    start: Any,
    rng: Any,
    callback: Callable[[DecisionProgress], Any] | None,
    progress: bool,
    n_jobs: int,
    output: str,
    class_index: Any,
    sense: float,
) -> Decision:
    from treeopt.exact.certificate import check_sums
    from treeopt.exact.solver import compile_once, has_long_steps
    from treeopt.problem.grid import Grid

    if method not in METHODS:
        raise InputError(f"method is {method!r}: pass one of {', '.join(map(repr, METHODS))}.")
    wanted_gap = as_float(gap)
    if wanted_gap is None or not 0 <= wanted_gap < np.inf:
        raise InputError(f"gap is {shown(gap)}. Pass a finite number of at least 0.")
    limits = Limits(read_time_limit(time_limit))
    seed, n_threads, callback = read_seed(rng), read_n_jobs(n_jobs), read_callback(callback)
    if max_evals is None:
        most = 2**62 if method in ("auto", "exact") else DEFAULT_EVALS
    else:
        most = read_count(max_evals, "max_evals")
    ensemble = from_model(model, output=output, class_index=class_index)
    if not isinstance(ensemble, Ensemble):
        raise NotImplementedError("decisions on the difference of two sums")
    own = None if isinstance(model, Ensemble) else own_prediction(model, output, class_index)
    columns = columns_of(ensemble, bounds)
    ensemble = with_labels(ensemble, columns)
    ensemble.compiled.prepare()
    check_sums(ensemble)
    # Here the model is converted. From now on time counts, and Ctrl-C loses nothing.
    with limits:
        space = read_space(ensemble, bounds, fixed, integer, categories, columns)
        grid = Grid(ensemble, space, limits)
        ends = callback, _Bar(progress), wanted_gap, most
        task = _Task(ensemble, own, grid, sense, limits, *ends, columns)
        if grid.infeasible_because:
            return task.infeasible()
        if method == "stepdirect":
            return task.by_stepdirect(seed)
        compile_once(limits)
        limits.watched = has_long_steps(grid)
        starts = _starts(grid, task.sign, start, seed, limits)
        return task.by_boxes(starts, seed, method, n_threads)


@dataclass
class _Task:
    """One decision: what is asked for, its limits, its history, and the way to its result."""

    ensemble: Ensemble
    own: Callable[[Array], Array] | None
    grid: Grid
    sense: float
    limits: Limits
    callback: Callable[[DecisionProgress], Any] | None
    bar: _Bar
    gap: float
    most: int
    columns: Columns | None
    history: list[tuple[int, float, float, float]] = field(default_factory=list)
    known: tuple[Array, Any] | None = None

    @property
    def sign(self) -> float:
        """What the sum of the trees is multiplied by, to be minimised."""
        return self.sense if self.ensemble.link.increasing else -self.sense

    def infeasible(self) -> Decision:
        """Return that there is no admissible point."""
        return self.decision(None, Status.INFEASIBLE, self.grid.infeasible_because)

    def by_boxes(self, starts: Array, seed: int, method: str, n_jobs: int) -> Decision:
        """Search and prove on the boxes of the leaves."""
        from treeopt.exact.reduction import reduced
        from treeopt.exact.solver import Solver

        status, message = Status.OPTIMAL, "the optimum is proven"
        solver = None
        try:
            if self.limits.interrupted or self.limits.watched:
                self.limits.check()
            self.grid, starts = reduced(self.grid, self.sign, starts, self.limits)
            solver = Solver(self.grid, self.sign, starts, seed, self.limits)
            check = partial(self.look_at, solver, method)
            if method == "local":
                solver.improve(self.most, check)
                raise Stopped(Status.EVAL_LIMIT, "there is nothing to choose")
            solver.prove(self.most, check, n_jobs, with_local=method == "auto")
        except Stopped as stop:
            status, message = stop.status, stop.message
        except KeyboardInterrupt:
            if self.limits.insisted:
                raise
            status, message = Status.STOPPED, "interrupted from the keyboard"
        except MemoryError:
            status, message = Status.STOPPED, "memory ran out"
            if solver is not None:
                solver.release()
        if solver is None:
            return self.before_the_search(starts, status, message, method)
        if np.isinf(solver.value):
            solver.best = self.best_start(starts)
        fun, bound = self.standing(solver, final=True)
        if method == "local":
            bound = np.nan
        rounding = self.rounding(solver)
        if solver.proven:
            status, message = Status.OPTIMAL, "the optimum is proven"
            if self.grid.space.fixed.all():
                message = "all features are fixed, so there was nothing to choose"
            if gap_between(fun, bound) > rounding:
                raise TreeoptError(
                    f"the bound {bound!r} is more than the rounding {rounding!r} from the value "
                    f"{fun!r}. This is a mistake in treeopt: please report it."
                )
        counts = solver.evaluations, solver.nodes
        self.note(fun, bound, solver.evaluations)
        return self.decision(solver.best, status, message, bound, rounding, *counts)

    def before_the_search(
        self, starts: Array, status: Status, message: str, method: str
    ) -> Decision:
        """Return the best start; the bound is that of every tree at its best."""
        from treeopt.exact.certificate import Certificate

        best, bound = self.best_start(starts), np.nan
        margin = self.margin_at(best)
        if method != "local":
            certificate = Certificate(self.ensemble, None, self.sign)
            least = min(certificate.margin_of(certificate.least), self.sign * float(margin))
            bound = certificate.prediction_of(least)
        self.note(self.value_of(margin), bound, 0)
        return self.decision(best, status, message + " before the search began", bound)

    def best_start(self, starts: Array) -> Array:
        """Return the best of the points at which the search was to begin.

        Those that cannot be looked at within a moment are left out.
        """
        begin, found = perf_counter(), []
        for point in starts:
            found.append(self.sign * float(self.grid.sum_at(point[None, :])[0]))
            if perf_counter() - begin > MOMENT:
                break
        best: Array = starts[int(np.argmin(found))]
        return best

    def look_at(self, solver: Solver, method: str) -> None:
        """Report how a run stands, and end it if a limit is reached."""
        fun, bound = self.standing(solver, final=False)
        shown = bound if method != "local" else np.nan
        counts = solver.evaluations, solver.nodes
        self.report(solver.best, fun, shown, *counts, self.limits.time())
        if not solver.proven:
            self.check(gap_between(fun, bound), solver.evaluations)

    def by_stepdirect(self, seed: int) -> Decision:
        """Run the black-box search: compiled on real features, else on points that are snapped."""
        e, sign = self.ensemble, self.sign
        snap = _Snap(self.grid)
        unread = e.compiled.position < 0
        snap.lower[unread] = snap.upper[unread] = np.clip(0, snap.lower[unread], snap.upper[unread])
        infinite = np.flatnonzero(np.isinf(snap.lower) | np.isinf(snap.upper))
        if infinite.size:
            name = feature_label(int(infinite[0]), e)
            raise InputError(
                f"the bounds of {name} are infinite, which stepdirect cannot use. Pass finite ones."
            )
        with self.limits.pause():  # the conversion of the model
            signed = e.compiled.signed(sign)
            at_once = rows_at_once(signed)
            if snap.needed:
                signed.predict(snap(snap.lower[None, :]))  # compiles
        fun: Any = signed
        if snap.needed:
            fun = partial(_snapped, signed, snap)

        def tell(now: Progress) -> None:
            places = self.grid.places_of(snap(now.x[None, :]))[0]
            self.report(places, self.value_of(sign * now.fun), np.nan, now.nfev, 0, now.time)

        result = search_within(
            self.limits,
            fun,
            np.column_stack([snap.lower, snap.upper]),
            max_evals=self.most,
            settings=None,
            weights=e.importances,
            rng=seed,
            callback=None if self.callback is None and not self.bar.shown else tell,
            vectorized=snap.needed,
            workers=1,
            at_once=at_once,
            with_points=False,
        )
        self.limits.finish()
        self.history = [
            (row["nfev"], row["time"], self.value_of(sign * row["fun"]), np.nan)
            for row in result.history
        ]
        places = self.grid.places_of(snap(result.x[None, :]))[0]
        status = Status.EVAL_LIMIT if result.status is Status.EXHAUSTED else result.status
        return self.decision(places, status, result.message, np.nan, 0.0, result.nfev)

    def value_of(self, margin: float) -> float:
        """Return the prediction that a margin becomes."""
        return float(self.ensemble.link(np.array([margin], self.ensemble.value.dtype))[0])

    def margin_at(self, places: Array) -> Any:
        """Return the margin at a point of the grid, in the precision of the model."""
        if self.known is None or self.known[0] is not places:
            self.known = places, self.grid.margin_at(places[None, :])[0]
        return self.known[1]

    def standing(self, solver: Solver, final: bool) -> tuple[float, float]:
        """Return the prediction at the best point and the bound on all."""
        margin = self.margin_at(solver.best)
        least = solver.margin_bound(self.sign * float(margin), final)
        if np.isinf(least):
            return self.value_of(margin), self.sense * least
        return self.value_of(margin), solver.certificate.prediction_of(least)

    def rounding(self, solver: Solver) -> float:
        """Return how far apart value and bound of a proven optimum may be."""
        margin = self.margin_at(solver.best)
        value, own = self.value_of(margin), self.sign * float(margin)
        certificate = solver.certificate
        # The last place of a link is coarser at a power of two than just below it.
        bounds = [certificate.prediction_of(own - off) for off in (0.0, certificate.rounding)]
        return max(gap_between(value, bound) for bound in bounds)

    def report(
        self, places: Array, fun: float, bound: float, nfev: int, nodes: int, time: float
    ) -> None:
        """Tell the history, the bar and the callback how things stand."""
        self.note(fun, bound, nfev)
        gap = gap_between(fun, bound)
        self.bar.show(time, fun, bound, gap, nodes)
        if self.callback is None:
            return
        x = named(self.grid.region(places)[0], self.ensemble, self.columns)
        try:
            with self.limits.interruptible():
                self.callback(DecisionProgress(x, fun, bound, gap, nfev, nodes, time))
        except StopIteration as stop:
            why = f": {stop}" if str(stop) else ""
            raise Stopped(Status.STOPPED, f"stopped by the callback{why}") from None

    def note(self, fun: float, bound: float, nfev: int) -> None:
        """Add to the history what has changed."""
        now = (nfev, self.limits.time(), fun, bound)
        if not self.history or repr(self.history[-1][2:]) != repr(now[2:]):
            self.history.append(now)

    def check(self, gap: float, nfev: int) -> None:
        """End the run if a limit is reached."""
        if self.gap and gap <= self.gap:
            raise Stopped(Status.GAP_REACHED, f"the gap of {self.gap:g} is reached")
        self.limits.check()
        if nfev >= self.most:
            raise Stopped(Status.EVAL_LIMIT, f"the limit of {self.most} evaluations is reached")

    def decision(
        self,
        places: Array | None,
        status: Status,
        message: str,
        bound: float = np.nan,
        rounding: float = 0.0,
        nfev: int = 0,
        nodes: int = 0,
    ) -> Decision:
        """Return the result; the value is the model's own."""
        self.limits.finish()
        self.bar.close()
        x, fun = None, np.nan
        nowhere = np.full(self.ensemble.n_features, np.nan)
        region = Region(nowhere, nowhere.copy(), {})
        if places is not None:
            x, region = self.grid.region(places)
            x = in_types(x, region, self.columns)
            fun = self.own_value(x, region, self.value_of(self.margin_at(places)))
        gap = gap_between(fun, bound)
        ended = status is Status.EVAL_LIMIT and np.isnan(bound)
        return Decision(
            x=None if x is None else named(x, self.ensemble, self.columns),
            fun=fun,
            bound=float(bound),
            gap=gap,
            rounding=rounding,
            status=status,
            success=status in (Status.OPTIMAL, Status.GAP_REACHED) or ended,
            message=message + self.caveat(fun, gap, rounding, status),
            region=region,
            nfev=nfev,
            nodes=nodes,
            time=self.limits.time(),
            history=np.array(self.history, BOUND_HISTORY),
            maximized=self.sense < 0,
            _point=x,
            _ensemble=self.ensemble,
            _columns=self.columns,
            _free=frozenset(np.flatnonzero(~self.grid.space.fixed).tolist()),
        )

    def caveat(self, fun: float, gap: float, rounding: float, status: Status) -> str:
        """Return what the message should add: a value that is infinite, or no more than rounding.

        A value of 0 whose gap is 0 is the optimum to the last bit, whatever the rounding.
        """
        if np.isinf(fun):
            link = self.ensemble.link.name
            return f"; the prediction is {fun:g}, because {link} of the model's sum overflows"
        if status is Status.OPTIMAL and rounding > abs(fun) and (gap > 0 or fun != 0):
            return (
                f", but the rounding of the model's own sums, up to {rounding:.3g}, is larger than "
                f"the value {fun:.3g} itself"
            )
        return ""

    def own_value(self, x: Array, region: Region, ours: float) -> float:
        """Return what the model itself predicts, which must be what the ensemble predicts.

        It is asked for the frame that the user gets, or for the array if there is no frame.
        """
        if self.own is None:
            return ours
        e = self.ensemble
        asked: Any = x[None, :]
        if (e.feature_names or self.columns) and has_pandas() and not no_frame(e):
            asked = frame_of(x, e, region, self.columns)
        try:
            theirs = float(self.own(asked)[0])
        except Exception as error:  # whatever the library raises
            raise TreeoptError(
                f"{e.source} does not accept its own answer as input: {error} Pass bounds as a "
                "frame like the one that it was trained on."
            ) from error
        if theirs == ours:  # infinite, perhaps
            return theirs
        allowed = 0 if e.link == IDENTITY else 2 * e.link.last_place(e.value.dtype.type(ours))
        if not abs(theirs - ours) <= allowed:
            raise TreeoptError(
                f"{e.source} predicts {theirs!r} where treeopt expects {ours!r}. "
                f"{self.misread(x, theirs)}"
            )
        return theirs

    def misread(self, x: Array, theirs: float) -> str:
        """Return why a model may predict something else for the frame of a point."""
        e = self.ensemble
        for column, known in e.categories.items():
            for number, label in known.label_of.items():
                other = x.copy()
                other[column] = number
                if float(e.predict(other[None, :])[0]) == theirs:
                    return (
                        f"It seems to read {feature_label(column, e)} of the frame as {label!r}. "
                        "Please report this."
                    )
        return "Was the model changed after it was converted? If not, please report this."


class _Snap:
    """Points of a real box to admissible points: whole numbers, and values from lists.

    A list is searched as the numbers of its values.
    """

    def __init__(self, grid: Grid) -> None:
        self.space = space = grid.space
        self.lower, self.upper = space.lower.copy(), space.upper.copy()
        self.whole = np.flatnonzero(space.integer & ~space.fixed)
        missing = np.isnan(space.lower)
        # Between the bounds there may be a number that means missing, and is no choice.
        self.gap = before, after = grid.gap
        self.around = np.flatnonzero(
            (space.lower < before) & (after < space.upper) & ~space.may_be_missing
        )
        self.needed = bool(self.whole.size or space.values or missing.any() or self.around.size)
        # Each whole number has the same share of the line.
        self.lower[self.whole] -= 0.5
        self.upper[self.whole] += 0.5
        for column, values in space.values.items():
            self.lower[column], self.upper[column] = -0.5, values.size - 0.5
        self.lower[missing] = self.upper[missing] = 0.0

    def __call__(self, X: Array) -> Array:
        """Return the admissible points."""
        space = self.space
        X = X.copy()
        X[:, self.whole] = np.clip(
            np.round(X[:, self.whole]), space.lower[self.whole], space.upper[self.whole]
        )
        for around in self.around:
            means_missing = (X[:, around] >= self.gap[0]) & (X[:, around] <= self.gap[1])
            beside = np.nextafter(self.gap[1], np.inf)
            X[means_missing, around] = np.ceil(beside) if space.integer[around] else beside
        for column, values in space.values.items():
            X[:, column] = values[np.clip(np.round(X[:, column]), 0, values.size - 1).astype(int)]
        X[:, np.isnan(space.lower)] = np.nan
        return X


def _snapped(ensemble: Ensemble, snap: _Snap, X: Array) -> Array:
    """Return the predictions at the admissible points next to some."""
    return ensemble.predict(snap(X))


class _Bar:
    """A line on the standard error that tells how things stand, at most five times a second."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown
        self.width, self.last = 0, -np.inf

    def show(self, time: float, fun: float, bound: float, gap: float, nodes: int) -> None:
        """Write the line anew."""
        if not self.shown or time < self.last + 0.2:
            return
        self.last = time
        proof = "" if np.isnan(bound) else f", bound {bound:.6g}, gap {gap:.3g}, {nodes} nodes"
        self._write(f"treeopt: {time:.1f} s, best {fun:.6g}{proof}")

    def _write(self, line: str) -> None:
        print("\r" + line.ljust(self.width), end="", file=sys.stderr, flush=True)
        self.width = len(line)

    def close(self) -> None:
        """End the line."""
        if self.width:
            print(file=sys.stderr)
            self.width = 0


def _starts(grid: Grid, sign: float, start: Any, seed: int, limits: Limits) -> Array:
    """Return where the local search begins: the user's points, the best rows, or any points."""
    e, space = grid.ensemble, grid.space
    rng = np.random.default_rng(seed)
    found = []
    if start is not None:
        is_point = isinstance(start, Mapping) or np.ndim(start) == 1
        X = (
            e._point(start, "start")[None, :]
            if is_point
            else e._matrix(start, "start").astype(np.float64)
        )
        found.append(grid.places_of(X))
    if space.data is not None:
        rows = space.data
        if len(rows) > N_STARTS:
            rows = rows[rng.choice(len(rows), N_STARTS, replace=False)]
        places = grid.places_of(rows)
        order = np.argsort(_signed_sums(grid, sign, places, limits), kind="stable")
        found.append(places[order])
    else:
        sizes = np.diff(grid.place_start)
        found.append(rng.integers(sizes, size=(N_STARTS, sizes.size), dtype=np.int32))
    return np.concatenate(found)


def _signed_sums(grid: Grid, sign: float, places: Array, limits: Limits) -> Array:
    """Return the sums at points times the sign; infinite where the time does not suffice."""
    if not limits.watched:
        return sign * grid.sum_at(places)
    sums = np.full(len(places), np.inf)
    for k in range(len(places)):
        if limits.is_over():
            break
        sums[k] = sign * grid.sum_at(places[k : k + 1])[0]
    return sums
