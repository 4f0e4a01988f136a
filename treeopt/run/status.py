"""The status of a run that has ended."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """Reason for the end of a run.

    Attributes
    ----------
    OPTIMAL
        The optimum is proven.
    GAP_REACHED
        The distance of value and bound is at most the requested gap.
    INFEASIBLE
        There is no admissible point.
    EVAL_LIMIT
        The maximum number of evaluations is reached.
    TIME_LIMIT
        The time limit is reached.
    STOPPED
        The callback or Ctrl-C ended the run, memory ran out, or rounding errors leave a gap.
    EXHAUSTED
        There are no more points to evaluate.
    """

    OPTIMAL = "optimal"
    GAP_REACHED = "gap reached"
    INFEASIBLE = "infeasible"
    EVAL_LIMIT = "evaluation limit"
    TIME_LIMIT = "time limit"
    STOPPED = "stopped"
    EXHAUSTED = "exhausted"


class Stopped(Exception):
    """Raised to end a run early; results found so far are kept."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
