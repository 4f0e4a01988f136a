"""The constants of the paper as the kernels read them: plain numbers."""

from __future__ import annotations

from typing import NamedTuple

# `Rules.search_region`: where a local search may go.
RECTANGLE, BOX = 0, 1
# `Rules.directions`: how its directions are drawn, options (a) and (b) of Sect. 3.4.
COORDINATES, SPHERE = 0, 1
# `Rules.epsilon_scale`: the factor of ε in Eq. 8.
MEDIAN, LEAST = 0, 1


class Rules(NamedTuple):
    """Constants of Algorithms 1 and 2; `StepDirectSettings` documents them.

    Some values are not in the paper, and `StepDirectSettings.paper` does not use them:
    ``all_sides`` and ``epsilon_scale`` LEAST are those of DIRECT, False for ``all_ties`` serves
    the default, and ``search_region`` BOX and ``grow_on_tie`` are variants for experiments.
    """

    epsilon: float  # ε
    epsilon_scale: int
    neighbourhood: float  # λ; 0: σ = 1 everywhere
    sigma_min: float  # ε_σ
    all_ties: bool
    all_sides: bool
    local_search: bool  # False: StepDIRECT-0
    directions: int
    n_directions: int  # |D|
    search_region: int
    delta: float  # δ
    delta_min: float
    delta_max: float
    tau: float  # τ
    grow_on_tie: bool
    t_max: float
