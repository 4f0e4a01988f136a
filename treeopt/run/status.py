"""Why a run ended."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """Why a run ended."""

    OPTIMAL = "optimal"
    GAP_REACHED = "gap reached"
    INFEASIBLE = "infeasible"
    EVAL_LIMIT = "evaluation limit"
    TIME_LIMIT = "time limit"
    STOPPED = "stopped"
    EXHAUSTED = "exhausted"


class Stopped(Exception):
    """Raised to end a run early; what was found so far is kept."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
