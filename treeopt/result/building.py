"""Build a `Decision` from an answer, and check it with the user's own model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from treeopt.errors import TreeoptError
from treeopt.model.frames import frame_of, has_pandas, in_types, named, no_frame
from treeopt.model.link import IDENTITY
from treeopt.model.softmax import SOFTMAX_ULPS, Softmax
from treeopt.problem.bounds import feature_label
from treeopt.problem.constraints import Count, Limit, unique_labels
from treeopt.problem.costs import CostTerm
from treeopt.problem.objective import added_up
from treeopt.problem.problem import Problem
from treeopt.problem.region import Region
from treeopt.problem.responses import Response
from treeopt.result.answer import Answer
from treeopt.result.decision import Decision, FindBinding
from treeopt.run.progress import BOUND_HISTORY, gap_between
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.types import FloatArray


def build_decision(
    problem: Problem, run: Run, answer: Answer, find_binding: FindBinding | None = None
) -> Decision:
    """Return the result of a run; its values are those of the user's own models.

    ``find_binding`` is called by `Decision.binding`.
    """
    run.finish()
    objective, columns = problem.objective, problem.columns
    x, region, found = None, None, NOTHING_FOUND
    if answer.cells is not None:
        x, region = problem.places.region(answer.cells)
        middle = in_types(x, region.lower, region.upper, columns)
        x = middle if answer.x is None else _centered(problem, answer.x, middle, region)
        found = _evaluated(problem, x)
    gap = gap_between(found.fun, answer.bound)
    ended = run.status is Status.EVAL_LIMIT and x is not None and bool(np.isnan(answer.bound))
    return Decision(
        x=None if x is None else named(x, problem.inputs, columns),
        fun=found.fun,
        prediction=found.prediction,
        cost=found.cost,
        terms=found.terms,
        slack=found.slack,
        bound=float(answer.bound),
        gap=gap,
        rounding=answer.rounding,
        status=run.status,
        success=run.status in (Status.OPTIMAL, Status.GAP_REACHED) or ended,
        message=run.message + _caveat(problem, found.fun, gap, answer.rounding, run.status),
        conflict=answer.conflict,
        region=region,
        nfev=answer.nfev,
        nodes=answer.nodes,
        time=run.limits.time(),
        history=np.array(run.history, BOUND_HISTORY),
        maximized=objective.sense < 0,
        _point=x,
        _inputs=problem.inputs,
        _columns=columns,
        _is_prediction=objective.is_prediction,
        _free=frozenset(np.flatnonzero(~problem.space.fixed).tolist()),
        _find_binding=find_binding,
    )


def _centered(problem: Problem, x: FloatArray, middle: FloatArray, region: Region) -> FloatArray:
    """Return a point moved to the middle of its region along features for which this is free.

    Predictions are the same in the whole region, so limits hold where they held before.
    """
    before, x = problem.objective.value_at(x), x.copy()
    given = x.copy()
    conditions = problem.input_conditions
    counted = {k for c in conditions if isinstance(c, Count) for k in c.columns}
    for column in np.flatnonzero(~problem.space.fixed).tolist():
        at = x[column]
        to = middle[column]
        can_be_0 = region.lower[column] <= 0 <= region.upper[column]
        if column in counted and can_be_0 and 0 in problem.space.values.get(column, [0]):
            to = 0.0  # a feature that need not differ from 0
        if at == to or column in problem.columns_with_costs:
            continue
        x[column] = to
        if not all(condition.holds(x) for condition in conditions):
            x[column] = at
    return x if problem.objective.value_at(x) == before else given


class Evaluated(NamedTuple):
    """The values of a point, by the user's own models; see `Decision`."""

    fun: float
    prediction: float
    cost: float
    terms: dict[str, float]
    slack: dict[str, float]


NOTHING_FOUND = Evaluated(np.nan, np.nan, np.nan, {}, {})


def _evaluated(problem: Problem, x: FloatArray) -> Evaluated:
    """Return the values of a point; raise an error if a model predicts something unexpected."""
    objective = problem.objective
    values = {id(r): _checked_value(problem, r, x) for r in problem.responses}
    terms = objective.contributions(x, [values[id(r)] for r in objective.responses])
    models = [
        value
        for value, term in zip(terms.values(), objective.terms, strict=True)
        if not isinstance(term, CostTerm)
    ]
    costs = [t for t in objective.terms if isinstance(t, CostTerm)]
    return Evaluated(
        fun=added_up(terms),
        prediction=float(sum(models[1:], start=models[0])) if models else np.nan,
        cost=float(sum(term.weight * term.value(x) for term in costs)),
        terms=terms,
        slack=_slacks(problem, x, values),
    )


def _slacks(problem: Problem, x: FloatArray, values: Mapping[int, float]) -> dict[str, float]:
    """Return the slack of each constraint at a point; all must hold."""
    found: dict[str, float] = {}
    for label, constraint in zip(
        unique_labels(problem.constraints), problem.constraints, strict=True
    ):
        slacks = [
            c.slack_of(values[id(c.response)]) if isinstance(c, Limit) else c.slack(x)
            for c in constraint.conditions
        ]
        holds = all(
            slack >= 0 if isinstance(c, Limit) else c.holds(x)
            for c, slack in zip(constraint.conditions, slacks, strict=True)
        )
        if not holds:
            raise TreeoptError(
                f"the point found violates {constraint.label!r}. This is a bug in treeopt. Please "
                "report it."
            )
        found[label] = float(min(slacks, default=np.inf))
    return found


def _caveat(problem: Problem, fun: float, gap: float, rounding: float, status: Status) -> str:
    """Return an addition to the message if the value is infinite, or smaller than its rounding.

    A value of 0 with gap 0 is the optimum to the last bit, regardless of rounding.
    """
    if np.isinf(fun):
        models = [r.model for r in problem.responses]
        links = [model.link.name for model in models if not isinstance(model, Softmax)]
        link = next((name for name in links if name != IDENTITY.name), "the weight")
        return f"; the prediction is {fun:g}, because {link} of the model's sum overflows"
    if status is Status.OPTIMAL and rounding > abs(fun) and (gap > 0 or fun != 0):
        errors = "the rounding error of the model's own sums" if problem.is_plain else "rounding"
        return f", but {errors}, up to {rounding:.3g}, is larger than the value {fun:.3g}"
    return ""


def _checked_value(problem: Problem, response: Response, x: FloatArray) -> float:
    """Return the prediction of the user's model at a point; it must be the expected value.

    The model gets the same frame as the user, or an array if there is no frame.
    """
    model = response.model
    ours = float(response.predict(x[None, :])[0])
    if response.own is None:
        return ours
    asked = _as_asked(problem, response, x)
    try:
        theirs = float(response.own(asked)[0])
    except Exception as error:  # whatever the library raises
        raise TreeoptError(
            f"{model.source} does not accept the chosen inputs: {error} Pass bounds as a frame "
            "like the training frame."
        ) from error
    if theirs == ours:  # may be infinite
        return theirs
    allowed = 2 * _last_place(response, ours)
    if not abs(theirs - ours) <= allowed:
        raise TreeoptError(
            f"{model.source} predicts {theirs!r} where treeopt expects {ours!r}. "
            f"{_misread(problem, response, x, theirs)}"
        )
    return theirs


def _last_place(response: Response, value: float) -> float:
    """Return the unit in the last place of a prediction with a link; 0 without one."""
    model, dtype = response.model, response.sums[0].ensemble.value.dtype
    if isinstance(model, Softmax):
        return float(np.spacing(dtype.type(abs(value)))) * SOFTMAX_ULPS
    return 0.0 if model.link == IDENTITY else model.link.last_place(dtype.type(value))


def _as_asked(problem: Problem, response: Response, x: FloatArray) -> Any:
    """Return a point as the user would pass it to one of the models."""
    inputs, columns = problem.inputs, problem.columns
    has_names = bool(response.model.feature_names or columns)
    if not has_names or not has_pandas() or no_frame(inputs):
        return response.own_columns(x[None, :])
    frame = frame_of(x, inputs, columns)
    if response.to_column is None:
        return frame
    frame = frame.iloc[:, response.to_column.tolist()]
    return frame if response.model.feature_names else frame.to_numpy()


def _misread(problem: Problem, response: Response, x: FloatArray, theirs: float) -> str:
    """Return a possible reason for an unexpected prediction at a point."""
    inputs = problem.inputs
    for column, known in inputs.categories.items():
        for number, label in known.label_of.items():
            other = x.copy()
            other[column] = number
            if float(response.predict(other[None, :])[0]) == theirs:
                return (
                    f"It seems to read {feature_label(column, inputs)} of the frame as {label!r}. "
                    "Please report this."
                )
    return "Was the model changed after it was converted? If not, please report this."
