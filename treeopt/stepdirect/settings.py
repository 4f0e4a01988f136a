"""The settings of StepDIRECT: all constants of the paper, and those of the default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from types import NoneType
from typing import Any, Literal

import numpy as np

from treeopt.errors import InputError
from treeopt.stepdirect.paper import rules
from treeopt.stepdirect.paper.rules import Rules
from treeopt.stepdirect.walk_state import SearchRules
from treeopt.types import FloatArray

DIAGONAL = 6
"""Number of points beside the center in the diagonal start."""

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "epsilon_scale": ("median", "least"),
    "ties": ("all", "one"),
    "sides": ("one", "longest"),
    "local_search": ("coordinates", "sphere", None),
    "search_region": ("rectangle", "box"),
}


@dataclass(frozen=True, kw_only=True)
class StepDirectSettings:
    r"""How StepDIRECT searches.

    `StepDirectSettings()` is the default of treeopt: the paper's algorithm, with most evaluations
    spent on a search around the best point. `paper` is the algorithm as published, `direct` the
    original DIRECT.

    Parameters
    ----------
    epsilon : float
        ε of Definition 2. The paper gives no value; 1e-4 is DIRECT's.
    epsilon_scale : {"median", "least"}
        The factor of ε: \|f_min - f_median\| as in the paper, or \|f_min\| as in DIRECT.
    neighbourhood : float or None
        λ: rectangles whose centers are within λ d_j are neighbors of rectangle j, from which its
        local variability σ_j is estimated. If None, σ = 1: rectangles count by their size alone.
    sigma_min : float
        ε_σ, the minimum of σ.
    ties : {"all", "one"}
        Whether all rectangles of equal size and value are selected, or only the oldest.
    sides : {"one", "longest"}
        Whether the side with the maximum w_i l_i is divided, or, as in DIRECT, all longest sides.
    scarce : float
        With fewer than ``scarce * (2 p + 1)`` evaluations there is no partition: the search starts
        with seven points on the diagonal and refines the best. If 0, or if ``refine`` is 0, never.
    weight_floor : float
        Share of the weights that is spread evenly, so that every coordinate has a positive weight.
        Coordinates of weight 0 are never divided.
    local_search : {"coordinates", "sphere", None}
        Directions of Algorithm 2: axes drawn with the weights as probabilities, or points of the
        unit sphere; None: no local search (StepDIRECT-0).
    search_region : {"rectangle", "box"}
        Whether a local search stays in its rectangle or may go anywhere.
    delta, delta_min, delta_max : float
        δ, δ_min, δ_max: first, minimum and maximum step of a local search, in half sides.
    tau : float
        τ: factor by which the step grows after a failure and shrinks after a success.
    grow_on_tie : bool
        Whether the step also grows if the best new value is equal.
    n_directions : int
        \|D\|, the number of directions per round; at most two for each axis of positive weight.
    t_max_per_axis : float
        t_max / p: a local search ends after t_max evaluations, counted as in the paper.
    refine : float
        Share of the evaluations for the refinement of the best point, which is not in the paper.
        If 0, there is none.
    shift : float
        Share of the refinement's moves that are steps in several coordinates; the others move one
        coordinate anywhere.
    decades : float
        Lengths of steps are between 1 and ``10**-decades``, in parts of the box.
    patience : int
        After ``patience * p`` moves without improvement, some coordinates are drawn again.
    excursion : int
        From there the walk returns after ``excursion * p`` moves without improvement.
    batch : int or None
        Number of points of the refinement that are proposed at a time. If None, one, or one per
        worker.

    Examples
    --------
    >>> from treeopt import StepDirectSettings
    >>> StepDirectSettings.paper().tau
    1.5
    >>> StepDirectSettings.paper(local_search=None).local_search is None
    True
    """

    epsilon: float = 1e-4
    epsilon_scale: Literal["median", "least"] = "median"
    neighbourhood: float | None = None
    sigma_min: float = 1e-8
    ties: Literal["all", "one"] = "one"
    sides: Literal["one", "longest"] = "one"
    scarce: float = 5.0
    weight_floor: float = 0.2
    local_search: Literal["coordinates", "sphere"] | None = None
    search_region: Literal["rectangle", "box"] = "rectangle"
    delta: float = 1.0
    delta_min: float = 0.001
    delta_max: float = 2.5
    tau: float = 1.5
    grow_on_tie: bool = False
    n_directions: int = 5
    t_max_per_axis: float = 1.5
    refine: float = 0.95
    shift: float = 1 / 3
    decades: float = 2.5
    patience: int = 20
    excursion: int = 10
    batch: int | None = None

    @classmethod
    def paper(cls, **changes: Any) -> StepDirectSettings:
        """Return the algorithm as published; ``local_search=None`` makes it StepDIRECT-0."""
        settings = cls(
            neighbourhood=2.0,
            ties="all",
            scarce=0.0,
            weight_floor=0.0,
            local_search="coordinates",
            refine=0.0,
        )
        return replace(settings, **changes)

    @classmethod
    def direct(cls, **changes: Any) -> StepDirectSettings:
        """Return the original DIRECT (Jones, Perttunen and Stuckman 1993); it has no weights."""
        settings = cls(
            epsilon_scale="least",
            ties="all",
            sides="longest",
            scarce=0.0,
            weight_floor=1.0,
            refine=0.0,
        )
        return replace(settings, **changes)

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str | NoneType) or value not in choices:
                accepted = ", ".join(map(repr, choices))
                raise InputError(f"{name} is {value!r}. Pass one of {accepted}.")
        positive = ("sigma_min", "delta", "delta_min", "delta_max", "t_max_per_axis", "decades")
        for name in positive:
            self._check(name, "a number above 0", lambda v: v > 0)
        for name in ("epsilon", "scarce"):
            self._check(name, "a number of at least 0", lambda v: v >= 0)
        self._check("sigma_min", "a number below 1", lambda v: v < 1)
        self._check("tau", "a number above 1", lambda v: v > 1)
        self._check("weight_floor", "a number in 0..1", lambda v: 0 <= v <= 1)
        self._check("refine", "a number of at least 0 and below 1", lambda v: 0 <= v < 1)
        self._check("shift", "a number in 0..1", lambda v: 0 <= v <= 1)
        for name in ("n_directions", "patience", "excursion"):
            self._check(name, "an integer above 0", _is_count)
        if self.batch is not None:
            self._check("batch", "an integer above 0, or None", _is_count)
        if self.neighbourhood is not None:
            self._check("neighbourhood", "a number above 0, or None", lambda v: v > 0)
        if not isinstance(self.grow_on_tie, bool | np.bool_):
            raise InputError(f"grow_on_tie is {self.grow_on_tie!r}. Pass True or False.")
        if not self.delta_min <= self.delta <= self.delta_max:
            raise InputError(
                f"delta is {self.delta}, outside delta_min..delta_max = "
                f"{self.delta_min}..{self.delta_max}. Pass a value between them."
            )

    def _check(self, name: str, accepted: str, holds: Callable[[float], bool]) -> None:
        value = getattr(self, name)
        number = isinstance(value, int | float | np.integer | np.floating)
        if not (number and np.isfinite(value) and holds(value)):
            raise InputError(f"{name} is {value!r}. Pass {accepted}.")

    def weights_for(self, weights: FloatArray) -> FloatArray:
        """Return weights that sum to 1, with the floor applied; uniform if all are zero."""
        p = weights.size
        largest = weights.max(initial=0.0)
        relative = weights / largest if largest > 0 else np.ones(p)
        relative[relative < 1e-200] = 0.0  # products with side lengths must not vanish
        own = (1 - self.weight_floor) * relative / relative.sum()
        floored: FloatArray = own + self.weight_floor / max(p, 1)
        return floored

    def rules_for(self, weight: FloatArray, batch: int, max_evals: float = np.inf) -> SearchRules:
        """Return the settings as the kernels read them, for weights from `weights_for`.

        ``batch`` is the size of a batch of the refinement if the settings have none.
        """
        scarce = self.refine > 0 and max_evals < self.scarce * (2 * weight.size + 1)
        return SearchRules(
            paper=self._paper_rules(weight),
            diagonal=DIAGONAL if scarce else 0,
            share=0.0 if scarce else float(1 - self.refine),
            shift=float(self.shift),
            decades=float(self.decades),
            patience=int(self.patience),
            excursion=int(self.excursion),
            batch=int(self.batch or batch),
        )

    def _paper_rules(self, weight: FloatArray) -> Rules:
        """Return the constants of the paper's algorithms."""
        by_axes = self.local_search == "coordinates"
        n_directions = int(self.n_directions)
        if by_axes:
            n_directions = min(n_directions, 2 * int(np.count_nonzero(weight)))
        return Rules(
            epsilon=float(self.epsilon),
            epsilon_scale=rules.MEDIAN if self.epsilon_scale == "median" else rules.LEAST,
            neighbourhood=float(self.neighbourhood or 0.0),
            sigma_min=float(self.sigma_min),
            all_ties=self.ties == "all",
            all_sides=self.sides == "longest",
            local_search=self.local_search is not None,
            directions=rules.COORDINATES if by_axes else rules.SPHERE,
            n_directions=n_directions,
            search_region=rules.BOX if self.search_region == "box" else rules.RECTANGLE,
            delta=float(self.delta),
            delta_min=float(self.delta_min),
            delta_max=float(self.delta_max),
            tau=float(self.tau),
            grow_on_tie=bool(self.grow_on_tie),
            t_max=float(self.t_max_per_axis * weight.size),
        )

    def __repr__(self) -> str:
        default = StepDirectSettings.__dataclass_fields__
        changed = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if getattr(self, f.name) != default[f.name].default
        ]
        return f"StepDirectSettings({', '.join(changed)})"


def read_settings(settings: StepDirectSettings | None) -> StepDirectSettings:
    """Return the settings that a user passes; the default for None."""
    if settings is None:
        return StepDirectSettings()
    if not isinstance(settings, StepDirectSettings):
        raise InputError(f"settings is {settings!r}. Pass StepDirectSettings, or None.")
    return settings


def _is_count(value: object) -> bool:
    """Tell whether a value is an integer above 0 that the kernels can hold."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        return False
    return 0 < int(value) < 2**31
