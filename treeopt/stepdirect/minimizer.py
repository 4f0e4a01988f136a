"""`stepdirect`: the search on a Python function or on a model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

from treeopt.arguments import read_callback, read_count, read_seed, read_time_limit
from treeopt.errors import InputError
from treeopt.model.difference import Difference, Model
from treeopt.model.ensemble import Ensemble
from treeopt.problem.bounds import read_bounds
from treeopt.problem.dimensions import Dimensions, read_dimensions, real_dimensions
from treeopt.result.search_result import SearchResult
from treeopt.run.limits import Limits
from treeopt.run.progress import Progress
from treeopt.run.run import Run
from treeopt.stepdirect.ask_tell import StepDirect
from treeopt.stepdirect.evaluation import make_caller
from treeopt.stepdirect.search import CubeSearch, SpaceSearch
from treeopt.stepdirect.settings import StepDirectSettings, read_settings
from treeopt.stepdirect.weights import Weights, weights_of
from treeopt.types import Seed


def stepdirect(
    fun: Callable[..., object] | Model,
    bounds: object,
    *,
    max_evals: int = 2000,
    weights: Weights = None,
    settings: StepDirectSettings | None = None,
    rng: Seed = None,
    callback: Callable[[Progress], object] | None = None,
    vectorized: bool = False,
    workers: int | Callable[..., Iterable[object]] = 1,
    time_limit: float | None = None,
) -> SearchResult:
    """Minimize a function without derivatives; made for functions with steps.

    The search only evaluates points. It is StepDIRECT (Phan, Liu and Nguyen), by default with most
    evaluations spent around the best point; see `StepDirectSettings`.

    Parameters
    ----------
    fun : callable or Ensemble
        ``fun(x)`` returns the value at a point: a vector, or a dict if the parameters have names.
        An `Ensemble` is minimized without a call of Python per evaluation, at exactly the same
        points as the function ``ensemble.predict``.
    bounds : sequence of pairs, scipy Bounds, or mapping
        ``(low, high)`` for each coordinate of a real box; if both are equal, the coordinate is
        fixed. Or a mapping from names to ``(low, high)``, which means integers if both are of
        integer type, ``(low, high, "log")``, a ``range``, a list of choices, or `treeopt.tuning`
        ``Real``, ``Integer`` or ``Choice``, as in `StepDirect`; then no point is evaluated twice.
        For an ensemble: pairs, a mapping from names or numbers of all features to pairs (a single
        number fixes the feature), or its training data, whose range is taken.
    max_evals : int
        Maximum number of evaluations, m_max in the paper.
    weights : array-like of shape (p,), or mapping or series by name
        Relative importance w of the coordinates: important ones are divided and moved more often.
        By default an ensemble's importances, otherwise uniform. Fixed coordinates do not count; if
        all others are zero they are uniform. `StepDirectSettings.direct()` ignores them.
    settings : StepDirectSettings
        How to search; `StepDirectSettings.paper()` is the published algorithm.
    rng : int or numpy.random.Generator
        Seed. The same seed gives the same points, for the same ``settings.batch``.
    callback : callable
        Called after every batch of evaluations with a `Progress`: ``x``, ``fun``, ``nfev``,
        ``nfailed``, ``nit`` and ``time``. If it raises StopIteration the search ends.
    vectorized : bool
        Whether ``fun`` takes several points, as rows of a matrix or a list of dicts, and returns
        their values. The default asks for one point at a time unless ``settings.batch`` is larger.
    workers : int or map-like callable
        Number of processes that evaluate a batch (-1: one per processor), or a function to use like
        ``map``. If ``settings.batch`` is None, the default then asks for as many points at a time
        as there are workers (map-like: processors), so that the points depend on their number.
    time_limit : float
        Seconds after which the search ends. A call of ``fun`` is not interrupted, nor is a step of
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
    towards ``max_evals`` and is never the result; for the choice of rectangles it counts as the
    maximum value so far. The first exception is shown as a warning.

    To maximize, minimize the negative: ``lambda X: -ensemble.predict(X)`` with ``vectorized=True``.
    A feature of an ensemble with categories is searched as a real number, with a warning;
    ``ensemble.categories`` has the number of each category.

    Examples
    --------
    >>> import numpy as np, treeopt
    >>> res = treeopt.stepdirect(lambda x: np.floor(9 * np.abs(x)).sum(), [(-2, 1)] * 3, rng=0)
    >>> res.fun, res.nfev, res.success
    (0.0, 2000, True)
    >>> space = {"depth": (1, 12), "rate": (1e-3, 1.0, "log"), "kind": ["a", "b"]}
    >>> res = treeopt.stepdirect(lambda x: abs(x["depth"] - 5) + x["rate"], space, rng=0)
    >>> res.x["depth"], res.fun < 0.002
    (5, True)
    """
    model = fun if isinstance(fun, Ensemble | Difference) else None
    if model is None and not callable(fun):
        raise InputError(
            f"fun is {type(fun).__name__}, which is not callable. Pass a function, or "
            "treeopt.from_model(model) to minimize a model's prediction."
        )
    run = Run(
        Limits(read_time_limit(time_limit)),
        max_evals=read_count(max_evals, "max_evals"),
        callback=read_callback(callback),
    )
    settings = read_settings(settings)
    if model is not None:
        if workers != 1:
            raise InputError(f"workers is {workers!r}, but an Ensemble needs none. Leave it out.")
        run.seed = read_seed(rng)
        return _on_model(model, bounds, weights, settings, run)
    dimensions = read_dimensions(bounds, "bounds")
    caller, n_workers = make_caller(
        cast(Callable[..., object], fun), run.limits, vectorized, workers
    )
    search: CubeSearch | SpaceSearch
    if dimensions.names is None:
        run.seed = read_seed(rng)
        weight = settings.weights_for(weights_of(weights, dimensions))
        search = CubeSearch(run, dimensions, weight, settings, n_workers)
    else:
        settings = replace(settings, batch=settings.batch or n_workers)
        limit = run.max_evals
        search = SpaceSearch(
            run,
            StepDirect(dimensions, weights=weights, settings=settings, max_evals=limit, rng=rng),
        )
    with caller:
        search.on_function(caller)
    return search.result(caller.error)


def _on_model(
    model: Model, bounds: object, weights: Weights, settings: StepDirectSettings, run: Run
) -> SearchResult:
    """Minimize the prediction of a model over a real box."""
    dimensions = real_dimensions(*read_bounds(bounds, model))
    weights = model.importances if weights is None else weights
    weight = settings.weights_for(weights_of(weights, dimensions, model))
    _warn_of_categories(model, dimensions)
    search = CubeSearch(run, dimensions, weight, settings)
    search.on_model(model)
    return search.result(None)


def _warn_of_categories(model: Model, dimensions: Dimensions) -> None:
    """Warn that categories are searched as numbers, if any are."""
    for column in sorted(set(model.categories) & set(dimensions.free.tolist())):
        label = model.feature_names[column] if model.feature_names else column
        warnings.warn(
            f"feature {label!r} has categories, and is searched as a real number, which the model "
            "may take for an unknown category. Fix it (low == high) to avoid that; "
            "ensemble.categories has the number of each category.",
            UserWarning,
            stacklevel=4,
        )
