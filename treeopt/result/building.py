"""Build a `Decision` from an answer, and check it with the user's own model."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.errors import TreeoptError
from treeopt.model.frames import frame_of, has_pandas, in_types, named, no_frame
from treeopt.model.link import IDENTITY
from treeopt.problem.bounds import feature_label
from treeopt.problem.problem import Problem
from treeopt.problem.region import Region
from treeopt.result.answer import Answer
from treeopt.result.decision import Decision
from treeopt.run.progress import BOUND_HISTORY, gap_between
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.types import FloatArray


def build_decision(problem: Problem, run: Run, answer: Answer) -> Decision:
    """Return the result of a run; its value is the prediction of the user's own model."""
    run.finish()
    objective, columns = problem.objective, problem.columns
    x, fun, region = None, np.nan, None
    if answer.cells is not None:
        x, region = problem.places.region(answer.cells)
        x = in_types(x, region.lower, region.upper, columns)
        fun = _checked_value(problem, x, region, problem.margin_at(answer.cells))
    gap = gap_between(fun, answer.bound)
    ended = run.status is Status.EVAL_LIMIT and bool(np.isnan(answer.bound))
    return Decision(
        x=None if x is None else named(x, objective.model, columns),
        fun=fun,
        bound=float(answer.bound),
        gap=gap,
        rounding=answer.rounding,
        status=run.status,
        success=run.status in (Status.OPTIMAL, Status.GAP_REACHED) or ended,
        message=run.message + _caveat(problem, fun, gap, answer.rounding, run.status),
        region=region,
        nfev=answer.nfev,
        nodes=answer.nodes,
        time=run.limits.time(),
        history=np.array(run.history, BOUND_HISTORY),
        maximized=objective.sense < 0,
        _point=x,
        _ensemble=objective.model,
        _columns=columns,
        _free=frozenset(np.flatnonzero(~problem.space.fixed).tolist()),
    )


def _caveat(problem: Problem, fun: float, gap: float, rounding: float, status: Status) -> str:
    """Return an addition to the message if the value is infinite, or smaller than its rounding.

    A value of 0 with gap 0 is the optimum to the last bit, regardless of rounding.
    """
    if np.isinf(fun):
        link = problem.objective.link.name
        return f"; the prediction is {fun:g}, because {link} of the model's sum overflows"
    if status is Status.OPTIMAL and rounding > abs(fun) and (gap > 0 or fun != 0):
        return (
            f", but the rounding error of the model's own sums, up to {rounding:.3g}, is larger "
            f"than the value {fun:.3g}"
        )
    return ""


def _checked_value(problem: Problem, x: FloatArray, region: Region, margin: Any) -> float:
    """Return the prediction of the user's model at a point; it must be the expected value.

    The model gets the same frame as the user, or an array if there is no frame.
    """
    objective = problem.objective
    model, ours = objective.model, objective.value_of(margin)
    if objective.own is None:
        return ours
    asked: Any = x[None, :]
    if (model.feature_names or problem.columns) and has_pandas() and not no_frame(model):
        asked = frame_of(x, model, region.lower, region.upper, problem.columns)
    try:
        theirs = float(problem.evaluate(asked)[0])
    except Exception as error:  # whatever the library raises
        raise TreeoptError(
            f"{model.source} does not accept the chosen inputs: {error} Pass bounds as a frame "
            "like the training frame."
        ) from error
    if theirs == ours:  # may be infinite
        return theirs
    link = objective.link
    allowed = 0 if link == IDENTITY else 2 * link.last_place(objective.dtype.type(ours))
    if not abs(theirs - ours) <= allowed:
        raise TreeoptError(
            f"{model.source} predicts {theirs!r} where treeopt expects {ours!r}. "
            f"{_misread(problem, x, theirs)}"
        )
    return theirs


def _misread(problem: Problem, x: FloatArray, theirs: float) -> str:
    """Return a possible reason for an unexpected prediction at a point."""
    model = problem.objective.model
    for column, known in model.categories.items():
        for number, label in known.label_of.items():
            other = x.copy()
            other[column] = number
            if float(problem.predict(other[None, :])[0]) == theirs:
                return (
                    f"It seems to read {feature_label(column, model)} of the frame as {label!r}. "
                    "Please report this."
                )
    return "Was the model changed after it was converted? If not, please report this."
