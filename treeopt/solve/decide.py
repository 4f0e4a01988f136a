"""The public functions `minimize` and `maximize`, and the public class `Problem`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Unpack

from treeopt.arguments import method_takes_arguments_of, takes_arguments_of
from treeopt.arithmetic import quiet
from treeopt.problem import problem as core
from treeopt.problem.choices import read_choices
from treeopt.problem.mentioned import mentioned_names
from treeopt.problem.objective import models_in_objective, read_objective
from treeopt.problem.read_constraints import models_in_constraints, read_constraints
from treeopt.problem.responses import Responses
from treeopt.result.answer import Answer
from treeopt.result.building import build_decision
from treeopt.result.decision import Decision
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.solve.binding import BindingFinder
from treeopt.solve.conflict import conflict_in_words, find_conflict
from treeopt.solve.methods import Method
from treeopt.solve.options import Options, read_options
from treeopt.types import Array


def _read(
    on_converted: Callable[[Run], object],
    objective: Any,
    bounds: Any,
    *,
    fixed: Any = None,
    integer: Any = "auto",
    categories: Any = None,
    constraints: Any = (),
    cost: Any = None,
    output: str = "auto",
    class_index: int | tuple[int, int] | None = None,
    **options: Unpack[Options],
) -> tuple[core.Problem, Method, Run]:
    """Read the arguments of a decision.

    `minimize`, `maximize` and `Problem` share this signature, without the first argument. It is
    called with the run as soon as the models are converted.
    """
    method, run = read_options(**options)
    asked = models_in_objective(objective, output, class_index)
    responses = Responses([*asked, *models_in_constraints(constraints)])
    responses.join(bounds, mentioned_names(objective, cost, constraints))
    on_converted(run)
    choices = read_choices(responses.inputs, bounds, integer, categories, responses.columns)
    values = choices.read_fixed(fixed)
    goal = read_objective(objective, cost, output, class_index, choices, responses, values)
    restrictions = read_constraints(constraints, choices, responses)
    problem = core.make_problem(goal, choices, restrictions, values)
    return problem, method, run


@quiet
def _decide(sense: float, *args: Any, **kwargs: Any) -> Decision:
    """Read the arguments, and solve the problem."""
    with ExitStack() as stack:
        # When the model is converted, the time begins to count, and Ctrl-C loses no results.
        problem, method, run = _read(stack.enter_context, *args, **kwargs)
        return _answer(problem.asked(sense, None, run.limits), method, run)


def _answer(problem: core.Problem, method: Method, run: Run) -> Decision:
    """Solve a problem with a method."""
    if problem.infeasible_because:
        run.status, run.message = Status.INFEASIBLE, problem.infeasible_because
        return build_decision(problem, run, Answer(None))
    answer = method.solve(problem, run)
    if run.status is Status.INFEASIBLE:
        conflict, is_smallest = find_conflict(problem, run.limits)
        run.message = conflict_in_words(conflict, is_smallest)
        answer = answer._replace(conflict=tuple(item.label for item in conflict))
    return build_decision(problem, run, answer, BindingFinder.of(problem, method, run))


@takes_arguments_of(_read, read_options)
def minimize(*args: Any, **kwargs: Any) -> Decision:
    """Minimize the prediction of a fitted tree ensemble, or another objective, over its inputs.

    The result is a proven global minimum unless a limit ends the run first. In that case, the
    result is the best point found and a bound on the minimum.

    Parameters
    ----------
    objective : estimator, Ensemble, Difference, Softmax or term
        The fitted model to minimize: any model that `from_model` accepts. Or a term: a
        `WeightedSum` of models and costs, a `Product` of a feature and a prediction, or a cost
        alone, `Price` or `Change`.
    bounds : DataFrame, array-like, mapping, sequence of pairs or scipy.optimize.Bounds
        Lower and upper bound of each feature, both included. They may be infinite.

        - Data, as a frame or a matrix with one column per feature: the bounds are the minimum and
          maximum of each column. A feature with categories may take the categories that occur in
          its column. Missing values are ignored.
        - A mapping from feature names or numbers to pairs ``(low, high)``, or to one number, which
          fixes the feature. It may omit features that are fixed, and features with categories that
          the model lists.
        - A sequence with one pair ``(low, high)`` per feature, or a ``scipy.optimize.Bounds``.

        A frame or a mapping may have features that no model reads, if constraints or costs mention
        them by name.

        For a feature with categories, a pair applies to the labels if these are numbers, or to the
        codes if the model has no labels.
    fixed : mapping, Series or DataFrame with one row, optional
        Values of the features that cannot be changed. Pass labels for categories, and NaN for a
        missing value. If ``bounds`` are data, fixed values may lie outside their range.
    integer : str, int or list of these, default="auto"
        Names or numbers of the features that only take integer values. If "auto", these are the
        columns of integer type if ``bounds`` is a frame. If None, there are none. The chosen value
        of a Boolean column is always 0 or 1.
    categories : mapping, optional
        Allowed values of some features: a mapping from feature names or numbers to lists. The
        values are labels, as in the training frame, or numbers. Other features with categories may
        take every category that occurs in the data or, if ``bounds`` are not data, every category
        that the model lists within the bounds.
    constraints : constraint or list of constraints, optional
        What must hold besides the bounds.

        - Text: a linear condition such as ``"water <= 0.5*cement"``, ``"a + b == 100"`` or
          ``"2200 <= cement + slag + water <= 2400"``. Names with other characters than letters,
          digits and underscores are written in backticks; ``x[3]`` is the feature with number 3.
        - ``scipy.optimize.LinearConstraint``, with one column per feature.
        - `Predicted`: limits on what a model predicts.
        - `AtMost`, `Implies` and `Forbid`: logical conditions.

        The result satisfies inequalities exactly, as you evaluate them in float64. Both sides of an
        equality may differ by 8 units in the last place of the sum of its absolute terms. An
        equality on one feature means the exact number, if the bounds allow it.
    cost : mapping, Price, Change or list of these, optional
        Costs of the inputs, which are added to the objective if it is minimized, and subtracted if
        it is maximized. A mapping takes feature names or numbers to prices per unit.
    output : {"auto", "raw", "predict", "proba"}, default="auto"
        The output to optimize, as in `from_model`. Only if the objective is a model.
    class_index : int or pair of int, optional
        The class or output to optimize, as in `from_model`.
    method : {"auto", "exact", "local", "stepdirect"}, default="auto"
        Method of optimization.

        - ``"auto"``: local search and proof, until the optimum is proven or a limit is reached.
        - ``"exact"``: only the proof, which finds points on the way.
        - ``"local"``: only the local search, without a bound.
        - ``"stepdirect"``: the black-box search `treeopt.stepdirect`, without a bound, for
          comparison.
    time_limit : float, optional
        Maximum time of the search in seconds. The conversion of the model does not count, nor does
        the compilation of the kernels at the first call. The conversion of a large forest takes
        seconds. To optimize a model repeatedly, convert it once with `from_model` or use `Problem`.
    max_evals : int, optional
        Maximum number of evaluations, see `Decision.nfev`. By default, there is no limit for
        ``"auto"`` and ``"exact"``; the limit for ``"local"`` and ``"stepdirect"`` is 2,000. With
        constraints or costs, the last step of the search may add a few.
    gap : float, default=0.0
        Stop as soon as ``abs(fun - bound)`` is at most this value. If 0, stop when the optimum is
        proven. Methods without a bound ignore it.
    start : array-like of shape (n_features,) or (n_points, n_features), or mapping, optional
        Starting points of the local search, in addition to rows of ``bounds`` or random points.
        Points that are not admissible are moved to the nearest admissible cells. They may violate
        constraints.
    rng : int or numpy.random.Generator, optional
        Seed of the local search.
    callback : callable, optional
        Called about every 20 ms with a `DecisionProgress`. To end the run, raise StopIteration.
    progress : bool, default=False
        If True, show the progress in a line on standard error.
    n_jobs : int or None, default=1
        Number of threads; -1 for one thread per processor. None means 1.

    Returns
    -------
    Decision
        The best point ``x``, its prediction ``fun``, the ``bound`` on all predictions, the
        ``region`` around ``x`` with the same prediction, and more. ``print`` shows a summary.

    See Also
    --------
    maximize : Maximize the prediction.
    Problem : Optimize the same model repeatedly.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = [[i, j] for i in range(5) for j in range(5)]
    >>> y = [(i - 2) ** 2 + (j - 3) ** 2 for i, j in X]
    >>> model = RandomForestRegressor(n_estimators=20, random_state=0).fit(X, y)
    >>> best = treeopt.minimize(model, X, integer=[0, 1])
    >>> best.x, best.status.name, best.fun == model.predict([best.x])[0]
    (array([2., 3.]), 'OPTIMAL', np.True_)

    With a constraint and a price:

    >>> best = treeopt.minimize(
    ...     model, X, integer=[0, 1], constraints=["x[0] + x[1] <= 3"], cost={1: 0.5}
    ... )
    >>> best.x, best.slack
    (array([1., 2.]), {'x[0] + x[1] <= 3': 0.0})
    """
    return _decide(1.0, *args, **kwargs)


@takes_arguments_of(_read, read_options)
def maximize(*args: Any, **kwargs: Any) -> Decision:
    """Maximize the prediction of a fitted tree ensemble over its inputs.

    The result is a proven global maximum unless a limit ends the run first. The parameters are
    those of `minimize`.

    Returns
    -------
    Decision
        The best point ``x``, its prediction ``fun``, the ``bound`` on all predictions, the
        ``region`` around ``x`` with the same prediction, and more. ``print`` shows a summary.

    See Also
    --------
    minimize : Minimize the prediction; describes all parameters.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0.0], [1.0], [3.0]], [2.0, 4.0, 3.0])
    >>> best = treeopt.maximize(model, [(0, 3)])
    >>> best.fun, best.region.lower, best.region.upper
    (4.0, array([0.50000003]), array([2.00000012]))
    """
    return _decide(-1.0, *args, **kwargs)


@quiet
def _pose(*args: Any, **kwargs: Any) -> core.Problem:
    """Read and check all arguments of a problem."""
    kwargs["rng"] = deepcopy(kwargs.get("rng"))  # only checked: nothing is drawn from the user's
    problem, _, run = _read(lambda run: None, *args, **kwargs)
    problem.check()
    if run.start is not None:
        problem.read_start(run.start)
    return problem


@quiet
def _ask(
    asked: tuple[float, core.Problem], *, fixed: Any = None, **options: Unpack[Options]
) -> Decision:
    """Solve a problem towards a sense, with more fixed values.

    The methods of `Problem` share this signature, without the first argument.
    """
    sense, problem = asked
    method, run = read_options(**options)
    with run:
        return _answer(problem.asked(sense, fixed, run.limits), method, run)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    """A model and the restrictions on its inputs, to be optimized repeatedly.

    The model is converted and prepared once. This saves time if you optimize the same model with
    different fixed values, minimize and maximize it, or compare methods. A problem is immutable.

    Parameters
    ----------
    objective, bounds, fixed, integer, categories, constraints, cost, output, class_index
        As in `minimize`. A mapping passed as ``bounds`` may omit features that are fixed in every
        call of the methods.
    method, time_limit, max_evals, gap, start, rng, callback, progress, n_jobs
        As in `minimize`; the defaults of the methods. A Generator is copied, and every call starts
        with the same seed.

    Examples
    --------
    >>> import treeopt
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> model = DecisionTreeRegressor().fit(X, [1.0, 4.0, 3.0, 2.0])
    >>> problem = treeopt.Problem(model, X)
    >>> [problem.maximize(fixed={0: value}).fun for value in (0, 1)]
    [4.0, 3.0]
    """

    _core: core.Problem
    _options: dict[str, Any]

    @method_takes_arguments_of(_read, read_options)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = {name: kwargs[name] for name in Options.__annotations__ if name in kwargs}
        # Copies: what the user changes later has no effect.
        start, rng = deepcopy(options.get("start")), deepcopy(options.get("rng"))
        options |= {"start": start, "rng": rng}
        self.__dict__.update(_core=_pose(*args, **kwargs), _options=options)

    def _with_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a call. A Generator is copied, so that calls are independent."""
        return {**self._options, "rng": deepcopy(self._options["rng"]), **options}

    def __repr__(self) -> str:
        return repr(self._core)

    @method_takes_arguments_of(_ask, read_options)
    def minimize(self, **kwargs: Any) -> Decision:
        """Minimize the prediction, as `treeopt.minimize` does.

        Parameters
        ----------
        fixed : mapping, Series or DataFrame with one row, optional
            Values of more features that cannot be changed in this call. They override those of the
            problem.
        method, time_limit, max_evals, gap, start, rng, callback, progress, n_jobs
            As in `treeopt.minimize`. The default is the value passed to `Problem`.

        Returns
        -------
        Decision
        """
        return _ask((1.0, self._core), **self._with_defaults(kwargs))

    @method_takes_arguments_of(_ask, read_options)
    def maximize(self, **kwargs: Any) -> Decision:
        """Maximize the prediction; the parameters are those of the method `minimize`.

        Returns
        -------
        Decision
        """
        return _ask((-1.0, self._core), **self._with_defaults(kwargs))

    @quiet
    def evaluate(self, X: Any) -> Array:
        """Return what the model itself predicts.

        Parameters
        ----------
        X : data frame or array-like of shape (n, n_features)
            The inputs, one point per row.

        Returns
        -------
        array of shape (n,)
            The predictions of the fitted model, or of the `Ensemble` if the objective is one.
        """
        return self._core.evaluate(X)
