"""The settings of a run as the kernels read them: plain numbers."""

from __future__ import annotations

from typing import NamedTuple

# Where a local search may go.
RECTANGLE, BOX = 0, 1
# How its directions are drawn.
COORDINATES, SPHERE = 0, 1
# What ε is multiplied with.
MEDIAN, LEAST = 0, 1


class Rules(NamedTuple):
    """Numbers for `StepDirectSettings`, which documents them; symbols are the paper's."""

    epsilon: float
    epsilon_scale: int
    neighbourhood: float  # λ; 0: σ is not used
    sigma_min: float
    all_ties: bool
    all_sides: bool
    diagonal: int  # points of the diagonal to begin with; 0: the paper's initialization
    local_search: bool
    directions: int
    n_directions: int
    search_region: int
    delta: float
    delta_min: float
    delta_max: float
    tau: float
    grow_on_tie: bool
    t_max: float
    share: float  # of the evaluations that go to the partition; 1: no refinement
    shift: float
    decades: float
    patience: int
    excursion: int
    batch: int
