"""`stepdirect`: the search on a Python function or on a compiled ensemble."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from treeopt.arguments import read_callback, read_count, read_seed, read_time_limit, read_weights
from treeopt.errors import InputError
from treeopt.model.ensemble import Ensemble
from treeopt.problem.bounds import Box, read_bounds
from treeopt.result.search_result import SearchResult
from treeopt.run.limits import Limits
from treeopt.run.progress import Progress
from treeopt.stepdirect.evaluation import make_caller
from treeopt.stepdirect.search import Search
from treeopt.stepdirect.settings import StepDirectSettings

if TYPE_CHECKING:
    from treeopt.types import Array


def stepdirect(
    fun: Callable[..., Any] | Ensemble,
    bounds: Any,
    *,
    max_evals: int = 2000,
    weights: Any = None,
    settings: StepDirectSettings | None = None,
    rng: Any = None,
    callback: Callable[[Progress], Any] | None = None,
    vectorized: bool = False,
    workers: Any = 1,
    time_limit: float | None = None,
) -> SearchResult:
    """Minimise a function over a box without derivatives; made for functions with steps.

    The search evaluates points, nothing else. It is StepDIRECT (Phan, Liu and Nguyen), by default
    with most evaluations spent around the best point; see `StepDirectSettings`.

    Parameters
    ----------
    fun : callable or Ensemble
        ``fun(x)`` returns the value at a vector. An `Ensemble` is minimised without a call of
        Python per evaluation, and gives the very points that ``ensemble.predict`` would.
    bounds : sequence of pairs, scipy Bounds, mapping or data
        ``(low, high)`` for each coordinate; where they are equal, the coordinate is fixed. For an
        ensemble also a mapping from names or numbers to pairs (a number alone fixes the feature),
        or its training data, whose range is taken.
    max_evals : int
        The search ends after so many evaluations, m_max in the paper.
    weights : array-like of shape (p,), or for a model mapping or series by name
        Relative importance w of the coordinates: those with more are divided and moved more often.
        By default an ensemble's importances, otherwise uniform. Fixed coordinates do not count; if
        all others are zero they are uniform. `StepDirectSettings.direct()` has no use for them.
    settings : StepDirectSettings
        How to search; `StepDirectSettings.paper()` is the published algorithm.
    rng : int or numpy.random.Generator
        Seed. The same seed gives the same points, for the same ``settings.batch``.
    callback : callable
        Called after every batch of evaluations with a `Progress`: ``x``, ``fun``, ``nfev``,
        ``nfailed``, ``nit`` and ``time``. If it raises StopIteration the search ends.
    vectorized : bool
        Whether ``fun`` takes a matrix of points, one per row, and returns their values. The default
        asks for one point at a time unless ``settings.batch`` is more.
    workers : int or map-like callable
        Number of processes that evaluate a batch (-1: one per processor), or a function to use like
        ``map``. Unless ``settings.batch`` tells, the default then asks for as many points at a time
        as there are workers (map-like: processors), so that the points depend on their number.
    time_limit : float
        Seconds after which the search ends; a call of ``fun`` is not cut short, nor is a step of
        the search, which takes long only where σ is computed for many rectangles. The compilation
        of the kernels, at the first call of all, does not count.

    Returns
    -------
    SearchResult
        ``x``, ``fun``, ``nfev``, all ``points`` and ``values``, and more. ``success`` is False if
        the time limit, the callback or Ctrl-C ended the search, or if every evaluation failed.

    Notes
    -----
    An evaluation fails if ``fun`` raises an exception or returns NaN or an infinity. It counts
    towards ``max_evals`` and is never the result; to choose rectangles it counts as the worst value
    seen. The first exception is shown as a warning.

    To maximise, minimise the negative: ``lambda X: -ensemble.predict(X)`` with ``vectorized=True``.
    A feature with categories is searched as the numbers that stand for them and all between, with
    a warning; ``ensemble.categories`` tells which number is which category.

    Examples
    --------
    >>> import numpy as np, treeopt
    >>> res = treeopt.stepdirect(lambda x: np.floor(9 * np.abs(x)).sum(), [(-2, 1)] * 3, rng=0)
    >>> res.fun, res.nfev, res.success
    (0.0, 2000, True)
    """
    limits = Limits(read_time_limit(time_limit))
    options = (max_evals, settings, weights, rng, callback, vectorized, workers)
    return search_within(limits, fun, bounds, *options)


def search_within(
    limits: Limits,
    fun: Callable[..., Any] | Ensemble,
    bounds: Any,
    max_evals: int,
    settings: StepDirectSettings | None,
    weights: Any,
    rng: Any,
    callback: Callable[[Progress], Any] | None,
    vectorized: bool,
    workers: Any,
    at_once: int | None = None,
    with_points: bool = True,
) -> SearchResult:
    """Do what `stepdirect` does within limits that may have been entered before.

    ``at_once`` is the number of points that a vectorized function gets at most; ``with_points``
    tells whether the result has all that were evaluated.
    """
    ensemble = fun if isinstance(fun, Ensemble) else None
    if ensemble is None and not callable(fun):
        raise InputError(
            f"fun is {type(fun).__name__}, which is no function. Pass treeopt.from_model(model) to "
            "minimise a model's prediction."
        )
    max_evals = read_count(max_evals, "max_evals")
    read_callback(callback)
    settings = StepDirectSettings() if settings is None else settings
    if not isinstance(settings, StepDirectSettings):
        raise InputError(f"settings is {settings!r}. Pass StepDirectSettings, or None.")
    seed = read_seed(rng)
    box = read_bounds(bounds, ensemble)
    if weights is None and ensemble is not None:
        weights = ensemble.importances
    if ensemble is not None:
        warn_of_categories(ensemble, box)
    weight = settings.weights_for(weights_in(weights, box, ensemble))
    search = Search(box, weight, settings, seed, max_evals, limits, callback)
    if ensemble is not None:
        if workers != 1:
            raise InputError(f"workers is {workers!r}, but an Ensemble needs none. Leave it out.")
        search.on_ensemble(ensemble)
        return search.result(with_points=with_points)
    caller, n_workers = make_caller(cast(Any, fun), limits, vectorized, workers)
    if at_once is not None:
        caller.at_once = at_once
    with caller:
        search.on_function(caller, n_workers)
    return search.result(caller.error, with_points)


def warn_of_categories(ensemble: Ensemble, box: Box) -> None:
    """Say that categories are searched as numbers, if any are."""
    for column in sorted(set(ensemble.categories) & set(box.free.tolist())):
        label = ensemble.feature_names[column] if ensemble.feature_names else column
        warnings.warn(
            f"feature {label!r} has categories, and is searched as the numbers that stand for "
            "them and all between, which the model may take for unknown ones. Fix it "
            "(low == high) to rule that out; ensemble.categories tells the numbers.",
            UserWarning,
            stacklevel=4,
        )


def weights_in(weights: Any, box: Box, ensemble: Ensemble | None) -> Array:
    """Return the weights of the free coordinates; for a model they may go by name."""
    n = box.lower.size
    if weights is None:
        return np.ones(box.free.size)
    if hasattr(weights, "to_dict") and ensemble is not None and ensemble.feature_names:
        weights = weights.to_dict()
    if isinstance(weights, Mapping):
        if ensemble is None:
            raise InputError("weights is a mapping, but fun is no model. Pass one number each.")
        by_column = {ensemble.feature_index(feature): w for feature, w in weights.items()}
        weights = [by_column.get(column, np.nan) for column in range(n)]
    return read_weights(weights, n)[box.free]
