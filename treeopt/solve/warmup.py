"""Compile kernels ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treeopt.adapters import from_model
from treeopt.model.ensemble import Ensemble
from treeopt.model.joint import Model
from treeopt.model.link import LINKS, Link
from treeopt.model.stand_ins import staircase, with_categories
from treeopt.run.limits import Limits
from treeopt.stepdirect import stepdirect


def warmup(model: Any = None, *, search: bool = False) -> None:
    """Compile the kernels for predictions and decisions, or load them from the disk cache.

    Parameters
    ----------
    model : estimator or Ensemble, optional
        The model to be used later. If `from_model` needs ``output`` or ``class_index`` for it, pass
        the `Ensemble` that `from_model` returns. If None, the kernels for all kinds of models are
        compiled.
    search : bool, default=False
        If True, also compile `stepdirect`, which takes longer.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0.0], [1.0]], [2.0, 3.0])
    >>> treeopt.warmup(model)
    """
    from treeopt.exact.precompile import compile_dual, compile_once

    limits = Limits(None)
    compile_once(limits)
    compile_dual(limits)
    for ensemble in _stand_ins() if model is None else _sums_of(from_model(model)):
        x = np.zeros((1, ensemble.n_features))
        many = np.zeros((8, ensemble.n_features))
        for dtype in (np.float32, np.float64):
            ensemble.predict(x.astype(dtype))
            ensemble.predict(many.astype(dtype))
        ensemble.walker(x[0]).move(0, 1.0)
        ensemble.line(x[0], 0)
        ensemble.leaf_boxes()
        if search:
            stepdirect(ensemble, [(0, 1)] * ensemble.n_features, max_evals=1)
    if search:
        stepdirect(lambda x: 0.0, [(0, 1)], max_evals=1)
    if model is None:
        for dtype in (np.float32, np.float64):
            for name in LINKS:
                Link(name)(np.zeros(1, dtype))


def _sums_of(model: Model) -> Sequence[Ensemble]:
    """Return the sums of trees of a model."""
    return [model] if isinstance(model, Ensemble) else model.sums


def _stand_ins() -> list[Ensemble]:
    """Return one small ensemble per summation type and kind of evaluation."""
    sizes, dtypes = (8, 16, 32, 64, 65), (np.float64, np.float32)
    kinds = [staircase(n_leaves, dtype) for n_leaves in sizes for dtype in dtypes]
    return kinds + [with_categories(kind) for kind in kinds[-2:]]
