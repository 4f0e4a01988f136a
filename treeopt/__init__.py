"""treeopt: choose the inputs of a trained tree ensemble.

>>> import treeopt
>>> from sklearn.ensemble import RandomForestRegressor
>>> X, y = [[0.0], [1.0], [2.0]], [1.0, 3.0, 2.0]
>>> model = RandomForestRegressor(n_estimators=5, random_state=0).fit(X, y)
>>> treeopt.from_model(model).predict([[1.0]]) == model.predict([[1.0]])
array([ True])
"""

from __future__ import annotations

from treeopt import datasets, tuning
from treeopt.adapters import from_model
from treeopt.adapters.check import Conversion, check_conversion
from treeopt.adapters.files import load_model
from treeopt.errors import (
    InputError,
    ModelFormatError,
    TreeoptError,
    UnfittedModelError,
    UnsupportedModelError,
)
from treeopt.model.categories import Categories
from treeopt.model.difference import Difference
from treeopt.model.ensemble import Ensemble
from treeopt.problem.constraints import AtMost, Forbid, Implies, Predicted
from treeopt.problem.costs import Change, Price
from treeopt.problem.region import Region
from treeopt.problem.terms import Product, WeightedSum
from treeopt.result.decision import Decision
from treeopt.result.search_result import SearchResult
from treeopt.run.progress import DecisionProgress, Progress
from treeopt.run.status import Status
from treeopt.solve.decide import Problem, maximize, minimize
from treeopt.solve.warmup import warmup
from treeopt.stepdirect import StepDirect, StepDirectSettings, stepdirect

__version__ = "0.1.0"

__all__ = [
    "AtMost",
    "Categories",
    "Change",
    "Conversion",
    "Decision",
    "DecisionProgress",
    "Difference",
    "Ensemble",
    "Forbid",
    "Implies",
    "InputError",
    "ModelFormatError",
    "Predicted",
    "Price",
    "Problem",
    "Product",
    "Progress",
    "Region",
    "SearchResult",
    "Status",
    "StepDirect",
    "StepDirectSettings",
    "TreeoptError",
    "UnfittedModelError",
    "UnsupportedModelError",
    "WeightedSum",
    "check_conversion",
    "datasets",
    "from_model",
    "load_model",
    "maximize",
    "minimize",
    "stepdirect",
    "tuning",
    "warmup",
]
