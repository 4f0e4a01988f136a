"""The methods of ``tuning_tables.py``, by their names in its tables.

Most are from `optimizers`. They search the unit cube and do not know the grid. treeopt's default
searches the grid as integers, as a user would do, and so tries no setting twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
from optimizers import OPTIMIZERS, Counter, Optimizer
from tuning_problems import Case, RbfSvm

import treeopt

SHARED, GRID, DEFAULT = "one C for all", "grid search", "StepDIRECT (default)"
PAPER = "StepDIRECT (paper)"


def grid_search(f: Counter, seed: int) -> None:
    """Try five values of each parameter, including its bounds."""
    axes = [np.linspace(0, n - 1, 5).round() for n in f.problem.shape]
    for setting in product(*axes):
        f.one(f.problem.place(np.array(setting)))


def one_for_all(f: Counter, seed: int) -> None:
    """Try evenly spaced values, one per evaluation, the same for all base classifiers."""
    n = min(f.problem.shape)
    for value in np.linspace(0, n - 1, min(f.budget, n)).round():
        f.one(f.problem.place(np.full(f.p, value)))


def default(f: Counter, seed: int) -> None:
    """Run `treeopt.StepDirect` on the integers of the grid, one point at a time."""
    space = {f"x{k}": range(n) for k, n in enumerate(f.problem.shape)}
    search = treeopt.StepDirect(space, max_evals=f.budget, rng=seed)
    while True:
        for point in search.ask(1):
            search.tell(point, f.one(f.problem.place(np.array(list(point.values())))))


def own(name: str, function: Callable[[Counter, int], None], deterministic: bool) -> Optimizer:
    return Optimizer(
        name, function, function.__doc__ or "", deterministic=deterministic, per_budget=True
    )


METHODS: dict[str, Optimizer] = {
    "random search": OPTIMIZERS["random search"],
    GRID: own(GRID, grid_search, deterministic=True),
    SHARED: own(SHARED, one_for_all, deterministic=True),
    "DIRECT": OPTIMIZERS["DIRECT (treeopt)"],
    "(1+1)": OPTIMIZERS["(1+1)"],
    "TPE (optuna)": replace(OPTIMIZERS["TPE (optuna)"], max_budget=None),
    "GP-EI (scikit-learn)": OPTIMIZERS["GP-EI (scikit-learn)"],
    PAPER: OPTIMIZERS["StepDIRECT (treeopt, paper)"],
    DEFAULT: own(DEFAULT, default, deterministic=False),
}


def methods_for(case: Case) -> list[str]:
    """Return the methods that are applicable to a case."""
    absent = SHARED if case.kind is RbfSvm else GRID
    return [name for name in METHODS if name != absent]
