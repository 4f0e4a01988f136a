"""Hyper-parameter tuning: a search estimator for scikit-learn, a sampler for Optuna.

A space is a mapping from parameters to their values: ``(low, high)``, integers if both ends
are; ``(low, high, "log")``; a ``range``; a list of choices; or `Real`, `Integer`, `Choice`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treeopt.problem.dimensions import Choice, Integer, Real

if TYPE_CHECKING:
    from treeopt.tuning.sampler import StepDirectSampler
    from treeopt.tuning.search_cv import StepDirectSearchCV

__all__ = ["Choice", "Integer", "Real", "StepDirectSampler", "StepDirectSearchCV"]


def __getattr__(name: str) -> Any:
    # Both import large libraries, and Optuna need not be installed.
    if name == "StepDirectSearchCV":
        from treeopt.tuning.search_cv import StepDirectSearchCV

        return StepDirectSearchCV
    if name == "StepDirectSampler":
        from treeopt.tuning.sampler import StepDirectSampler

        return StepDirectSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
