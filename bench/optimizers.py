"""The methods of the black-box benchmarks: one short function each, registered in `OPTIMIZERS`.

Every method evaluates the same function through a `Counter` on the unit cube. The counter counts
evaluations and ends the run after exactly the budget. Methods that stop before are restarted with
another seed, unless they are deterministic. A method may evaluate many points at once; every point
counts. Methods have the default settings of their libraries unless stated otherwise. To add a
method, write a function and register it.
"""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any
from unittest import mock

import numpy as np
from problems import Array, Problem
from rows import uninterrupted

SEEDS = 20
SLOW_SEEDS = 3  # for methods that need several milliseconds per evaluation
SCIPY = ("scipy",)
GLOBAL, LOCAL = (f"locally_biased={x}, tolerances 0" for x in (False, True))


class Spent(Exception):
    """Raised when the budget is used up."""


class Counter:
    """The function of a problem on the unit cube, with a budget; it records values and times."""

    def __init__(
        self, problem: Problem, budget: int, clock: Callable[[], float] = time.process_time
    ) -> None:
        self.problem = problem
        self.p = problem.p
        self.budget = budget
        self.nfev = 0
        self.values = np.empty(budget)
        self.times = np.empty(budget)
        self._low = problem.bounds[:, 0]
        self._width = problem.bounds[:, 1] - problem.bounds[:, 0]
        self._clock = clock
        self._start = clock()

    def one(self, u: Array, *_: Any) -> float:
        """Return the value of one point."""
        value = float(self.problem.fun((self._low + self._width * u)[None])[0])
        n = self.nfev
        self.values[n] = value
        self.times[n] = self._clock() - self._start
        self.nfev = n + 1
        if self.nfev == self.budget:
            raise Spent
        return value

    def many(self, U: Array) -> Array:
        """Return the values of the rows of a matrix."""
        U = U[: self.budget - self.nfev]
        values = self.problem.fun(self._low + self._width * U)
        self.record(values)
        if self.nfev == self.budget:
            raise Spent
        return values

    def record(self, values: Array) -> None:
        """Record evaluations, in order; their times are spread evenly since the last one."""
        n, size = self.nfev, len(values)
        if n + size > self.budget:
            raise ValueError(f"{n + size} evaluations of {self.budget}")
        self.values[n : n + size] = values
        before = self.times[n - 1] if n else 0.0
        now = self._clock() - self._start
        self.times[n : n + size] = np.linspace(before, now, size + 1)[1:]
        self.nfev = n + size

    def after(self, budget: int) -> tuple[float, int, float]:
        """Return the minimum of the first values, their number, and their duration in seconds."""
        n = min(budget, self.nfev)
        return float(self.values[:n].min()), n, float(self.times[n - 1])


@dataclass(frozen=True)
class Optimizer:
    """A method: ``function(counter, seed)`` minimizes until `Spent` is raised, or returns before.

    If the behavior depends on the budget (``per_budget``), every budget is a separate run;
    otherwise the longest run gives the results for all budgets. A method with an ``own_end`` is not
    restarted when it stops; only ``forest_table.py`` uses it. ``settings`` and ``packages``
    document the run.
    """

    name: str
    function: Callable[[Counter, int], None]
    settings: str = "defaults"
    packages: tuple[str, ...] = ()
    deterministic: bool = False
    per_budget: bool = False
    own_end: bool = False
    max_budget: int | None = None
    max_seeds: int = SEEDS

    def seeds(self, wanted: int) -> range:
        return range(1 if self.deterministic else min(wanted, self.max_seeds))

    def runs(self, budgets: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the budgets of each run."""
        allowed = tuple(b for b in budgets if self.max_budget is None or b <= self.max_budget)
        if self.per_budget:
            return [(b,) for b in allowed]
        return [allowed] if allowed else []

    def minimize(
        self,
        problem: Problem,
        budget: int,
        seed: int,
        clock: Callable[[], float] = time.process_time,
    ) -> Counter:
        f = Counter(problem, budget, clock)
        try:
            for restart in count():
                before = f.nfev
                self.function(f, seed + 1000 * restart)
                if self.deterministic or self.own_end or f.nfev in (before, budget):
                    break
        except Spent:
            pass
        return f


OPTIMIZERS: dict[str, Optimizer] = {}
"""Every method by its name, the fast ones first."""


def register(name: str, **options: Any) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        OPTIMIZERS[name] = Optimizer(name, function, **options)
        return function

    return add


# treeopt -----------------------------------------------------------------------------------------


def stepdirect(f: Counter, seed: int, settings: Any, uniform: bool = False) -> None:
    """Run treeopt's search; on a compiled model without Python calls, weighted by importances."""
    import treeopt

    problem = f.problem
    result = treeopt.stepdirect(
        problem.ensemble if problem.compiled else lambda x: problem.fun(x[None])[0],
        problem.bounds,
        max_evals=f.budget,
        weights=np.ones(f.p) if uniform else problem.weights,
        settings=settings,
        rng=seed,
    )
    f.record(uninterrupted(result).values)


@register("treeopt default", settings="StepDirectSettings()", per_budget=True)
def treeopt_default(f: Counter, seed: int) -> None:
    from treeopt import StepDirectSettings

    stepdirect(f, seed, StepDirectSettings())


@register("treeopt default, no weights", settings="uniform weights", per_budget=True)
def treeopt_uniform(f: Counter, seed: int) -> None:
    from treeopt import StepDirectSettings

    stepdirect(f, seed, StepDirectSettings(), uniform=True)


@register("StepDIRECT (treeopt, paper)", settings="paper()", per_budget=True)
def treeopt_paper(f: Counter, seed: int) -> None:
    from treeopt import StepDirectSettings

    stepdirect(f, seed, StepDirectSettings.paper())


@register(
    "StepDIRECT-0 (treeopt, paper)",
    settings="paper(local_search=None)",
    deterministic=True,
    per_budget=True,
)
def treeopt_paper_0(f: Counter, seed: int) -> None:
    from treeopt import StepDirectSettings

    stepdirect(f, seed, StepDirectSettings.paper(local_search=None))


@register("DIRECT (treeopt)", settings="direct()", deterministic=True, per_budget=True)
def treeopt_direct(f: Counter, seed: int) -> None:
    from treeopt import StepDirectSettings

    stepdirect(f, seed, StepDirectSettings.direct())


# Peers -------------------------------------------------------------------------------------------


@register("random search")
def random_search(f: Counter, seed: int) -> None:
    rng = np.random.default_rng(seed)
    while True:
        f.many(rng.random((500, f.p)))


def scipy_direct(f: Counter, locally_biased: bool) -> None:
    """Run scipy's DIRECT with all tolerances turned off."""
    from scipy.optimize import direct

    limits = {"maxfun": 2 * f.budget, "maxiter": f.budget, "vol_tol": 0, "len_tol": 0}
    direct(f.one, [(0, 1)] * f.p, locally_biased=locally_biased, **limits)


@register("scipy DIRECT", settings=GLOBAL, packages=SCIPY, deterministic=True)
def scipy_direct_global(f: Counter, seed: int) -> None:
    scipy_direct(f, locally_biased=False)


@register("scipy DIRECT_L", settings=LOCAL, packages=SCIPY, deterministic=True)
def scipy_direct_local(f: Counter, seed: int) -> None:
    scipy_direct(f, locally_biased=True)


def run_nlopt(f: Counter, seed: int, algorithm: str) -> None:
    """Run an algorithm of nlopt; if it needs a first point, from the middle of the cube."""
    import nlopt

    nlopt.srand(seed + 1)
    optimizer = nlopt.opt(getattr(nlopt, algorithm), f.p)
    optimizer.set_min_objective(f.one)
    optimizer.set_lower_bounds(np.zeros(f.p))
    optimizer.set_upper_bounds(np.ones(f.p))
    optimizer.optimize(np.full(f.p, 0.5))


@register("nlopt GN_DIRECT", packages=("nlopt",), deterministic=True)
def nlopt_direct(f: Counter, seed: int) -> None:
    run_nlopt(f, seed, "GN_DIRECT")


@register("nlopt GN_DIRECT_L", packages=("nlopt",), deterministic=True)
def nlopt_direct_l(f: Counter, seed: int) -> None:
    run_nlopt(f, seed, "GN_DIRECT_L")


@register("(1+1)")
def one_plus_one(f: Counter, seed: int) -> None:
    """Resample each coordinate with probability 1/p, at least one; move if it is not worse."""
    rng = np.random.default_rng(seed)
    x = rng.random(f.p)
    best = f.one(x)
    while True:
        chosen = rng.random((1000, f.p)) < 1 / f.p
        chosen[np.arange(1000), rng.integers(f.p, size=1000)] |= ~chosen.any(axis=1)
        for mask, new in zip(chosen, rng.random((1000, f.p)), strict=True):
            y = np.where(mask, new, x)
            value = f.one(y)
            if value <= best:
                x, best = y, value


@register("differential evolution (scipy)", settings="polish=False, deferred", packages=SCIPY)
def differential_evolution(f: Counter, seed: int) -> None:
    """Run without the final polishing by gradients, which are zero here."""
    from scipy.optimize import differential_evolution

    options = {"polish": False, "vectorized": True, "updating": "deferred"}
    differential_evolution(lambda X: f.many(X.T), [(0, 1)] * f.p, rng=seed, **options)


@register("DE (scipy)", packages=SCIPY, own_end=True)
def differential_evolution_defaults(f: Counter, seed: int) -> None:
    """Run with default settings, point by point, until it stops for lack of progress."""
    from scipy.optimize import differential_evolution

    differential_evolution(f.one, [(0, 1)] * f.p, rng=seed)


@register("PSO (pyswarms)", settings="20 particles, c1=0.5, c2=0.3, w=0.9", packages=("pyswarms",))
def pso(f: Counter, seed: int) -> None:
    """Run with the coefficients of the documentation's first example; there are no defaults."""
    np.random.seed(seed)  # noqa: NPY002 (its only source of randomness)
    options = {"c1": 0.5, "c2": 0.3, "w": 0.9}
    with mock.patch(
        "logging.config.dictConfig"
    ):  # otherwise it writes a log file to the current directory
        from pyswarms.single import GlobalBestPSO

        swarm = GlobalBestPSO(20, f.p, options, bounds=(np.zeros(f.p), np.ones(f.p)))
    swarm.optimize(f.many, f.budget // 20 + 1, verbose=False)


@register("nlopt CRS2", packages=("nlopt",))
def nlopt_crs2(f: Counter, seed: int) -> None:
    run_nlopt(f, seed, "GN_CRS2_LM")


@register("nlopt ESCH", packages=("nlopt",))
def nlopt_esch(f: Counter, seed: int) -> None:
    run_nlopt(f, seed, "GN_ESCH")


@register("dual annealing (scipy)", packages=SCIPY)
def dual_annealing(f: Counter, seed: int) -> None:
    from scipy.optimize import dual_annealing

    dual_annealing(f.one, [(0, 1)] * f.p, rng=seed)


@register("CMA-ES (cma)", settings="sigma 0.3, restarts with IPOP", packages=("cma",))
def cma_es(f: Counter, seed: int) -> None:
    """Start from the middle; restart from random points with twice the population (IPOP)."""
    import cma

    rng = np.random.default_rng(seed)
    start, options = np.full(f.p, 0.5), {"bounds": [0, 1], "verbose": -9}
    for restart in count():
        options["seed"] = 1 + seed + 1000 * restart  # 0 would seed from the clock
        strategy = cma.CMAEvolutionStrategy(start, 0.3, options)
        while not strategy.stop():
            points = strategy.ask()
            strategy.tell(points, list(f.many(np.array(points))))
        start = rng.random(f.p)
        options["popsize"] = 2 * strategy.popsize


def run_nevergrad(f: Counter, seed: int, name: str) -> None:
    import nevergrad

    # nevergrad 1.0.12 relies on float(array of one value), which is an error in NumPy 2.4.
    nevergrad.optimization.metamodel.float = lambda value: np.asarray(value).item()
    cube = nevergrad.p.Array(shape=(f.p,), lower=0.0, upper=1.0)
    cube.random_state.seed(seed)
    optimizer = nevergrad.optimizers.registry[name](cube, budget=f.budget)
    with warnings.catch_warnings(action="ignore"):  # of its parts, about flat functions
        while True:
            candidate = optimizer.ask()
            optimizer.tell(candidate, f.one(candidate.value))


@register("TwoPointsDE (nevergrad)", packages=("nevergrad",), max_seeds=SLOW_SEEDS)
def two_points_de(f: Counter, seed: int) -> None:
    """Run without dependence on the budget, which the code does not use."""
    run_nevergrad(f, seed, "TwoPointsDE")


@register("TPE (optuna)", packages=("optuna",), max_budget=500, max_seeds=SLOW_SEEDS)
def tpe(f: Counter, seed: int) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    while True:
        trial = study.ask()
        point = np.array([trial.suggest_float(f"x{j}", 0, 1) for j in range(f.p)])
        study.tell(trial, f.one(point))


@register(
    "GP-EI (scikit-learn)",
    settings="Matérn 5/2, expected improvement, 10 Sobol points first",
    packages=("scikit-learn", "scipy"),
    max_budget=200,
)
def gaussian_process(f: Counter, seed: int) -> None:
    """Bayesian optimization: the maximum expected improvement among random points and moves.

    The kernel has one length scale per coordinate for up to ten coordinates, and a common one for
    more. The length scales are fitted again whenever the number of points has grown by a tenth. If
    the problem has a grid, candidates are points of the grid that were not tried before.
    """
    from scipy.stats import norm, qmc
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    rng = np.random.default_rng(seed)
    lengths = np.full(f.p, 0.5) if f.p <= 10 else 0.5
    kernel = ConstantKernel() * Matern(lengths, (0.02, 20.0), nu=2.5) + WhiteKernel(1e-3)
    points = list(snapped(f, qmc.Sobol(f.p, rng=rng).random(16)[:10]))
    values = [f.one(u) for u in points]
    fitted = 0.0
    while True:
        again = len(values) >= 1.1 * fitted
        model = GaussianProcessRegressor(
            kernel, optimizer="fmin_l_bfgs_b" if again else None, normalize_y=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length scale at its bound
            model.fit(points, values)
        if again:
            kernel, fitted = model.kernel_, len(values)
        moved = rng.random((1000, f.p)) < rng.random((1000, 1))
        near = points[int(np.argmin(values))] + moved * rng.normal(0, 0.1, (1000, f.p))
        candidates = snapped(f, np.vstack([rng.random((1000, f.p)), np.clip(near, 0, 1)]))
        known = {u.tobytes() for u in points}
        candidates = np.array([u for u in candidates if u.tobytes() not in known])
        mean, std = model.predict(candidates, return_std=True)
        noise = model.kernel_.k2.noise_level * np.var(values)  # of values, not of the function
        std = np.sqrt(np.maximum(std**2 - noise, 1e-18))
        z = (min(values) - mean) / std
        points.append(candidates[np.argmax(std * (z * norm.cdf(z) + norm.pdf(z)))])
        values.append(f.one(points[-1]))


def snapped(f: Counter, U: Array) -> Array:
    """Return the middles of the grid cells that contain points, if the problem has a grid."""
    shape = getattr(f.problem, "shape", None)
    if shape is None:
        return U
    levels = np.array(shape)
    return (np.minimum(np.floor(U * levels), levels - 1) + 0.5) / levels


@register("NGOpt (nevergrad)", packages=("nevergrad",), per_budget=True, max_seeds=SLOW_SEEDS)
def ngopt(f: Counter, seed: int) -> None:
    run_nevergrad(f, seed, "NGOpt")


@register(
    "RBFOpt",
    settings="CasADi's Ipopt in place of Bonmin, no limit but the evaluations",
    packages=("rbfopt", "casadi"),
    per_budget=True,
    max_budget=300,
    max_seeds=5,
)
def rbfopt(f: Counter, seed: int) -> None:
    """Run until the evaluations are used up: other limits are too large to be reached."""
    from rbfopt import RbfoptAlgorithm, RbfoptSettings, RbfoptUserBlackBox
    from rbfopt_ipopt import solvers

    box = RbfoptUserBlackBox(f.p, np.zeros(f.p), np.ones(f.p), np.full(f.p, "R"), f.one)
    limits = {"max_iterations": 100 * f.budget, "max_cycles": 100 * f.budget}
    settings = RbfoptSettings(max_evaluations=f.budget, rand_seed=seed, **limits)
    with solvers():
        algorithm = RbfoptAlgorithm(settings, box)
        algorithm.set_output_stream(io.StringIO())
        algorithm.optimize()
