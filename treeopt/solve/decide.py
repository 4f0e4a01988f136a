"""`minimize`, `maximize` and `Problem`: a question, a method and an answer put together."""

from __future__ import annotations

from typing import Any, Unpack

from treeopt.adapters import convert
from treeopt.arguments import takes_arguments_of
from treeopt.arithmetic import quiet
from treeopt.errors import InputError
from treeopt.problem import problem as core
from treeopt.problem.choices import read_choices
from treeopt.problem.grid import Grid
from treeopt.problem.objective import read_objective
from treeopt.result.answer import Answer
from treeopt.result.building import build_decision
from treeopt.result.decision import Decision
from treeopt.run.run import Run
from treeopt.run.status import Status
from treeopt.solve.methods import Method
from treeopt.solve.options import Options, read_options


@quiet
def _decide(
    sense: float,
    objective: Any,
    bounds: Any,
    *,
    fixed: Any = None,
    integer: Any = "auto",
    categories: Any = None,
    output: str = "auto",
    class_index: int | tuple[int, int] | None = None,
    **options: Unpack[Options],
) -> Decision:
    """Read a question, and answer it."""
    method, run = read_options(**options)
    model, own = convert(objective, output, class_index)
    goal, columns = read_objective(model, own, bounds)
    # Here the model is converted. From now on time counts, and Ctrl-C loses nothing.
    with run:
        partly = fixed is not None
        choices = read_choices(goal.model, bounds, integer, categories, columns, partly=partly)
        problem = core.Problem(goal, choices, Grid(goal.terms))
        return _answer(problem.asked(sense, fixed, run.limits), method, run)


def _answer(problem: core.Problem, method: Method, run: Run) -> Decision:
    """Let a method answer a question."""
    if problem.constraints and not method.keeps_constraints:
        raise InputError(
            f"the problem has {len(problem.constraints)} constraints, which this method does not "
            "keep. Choose another method."
        )
    if problem.infeasible_because:
        run.status, run.message = Status.INFEASIBLE, problem.infeasible_because
        return build_decision(problem, run, Answer(None))
    return build_decision(problem, run, method.solve(problem, run))


@takes_arguments_of(_decide, read_options)
def minimize(*args: Any, **kwargs: Any) -> Decision:
    """Find the inputs with the minimum prediction of a fitted model, and prove it.

    Parameters
    ----------
    model : estimator or Ensemble
        Any model that `from_model` accepts.
    bounds : frame, matrix, mapping, sequence of pairs or scipy Bounds
        Bounds of each feature, both included; infinite ones are fine. Data stand for the range of
        each column, and for the categories that occur in it; what means missing to the model does
        not count. A mapping goes by name or number, and may leave out features that are fixed, or
        have categories that the model lists. A bound on categories is about their labels, if these
        are numbers, or about codes, if the model has no labels.
    fixed : mapping, series or frame of one row
        Features that cannot be changed, and their values; labels for categories, NaN for missing.
        They may lie outside the range of data that are given as bounds.
    integer : name, number, or list of these, default="auto"
        Features that are whole numbers. If "auto", the columns of integer type of a frame that is
        given as bounds. If None, there are none. Boolean columns are always 0 or 1.
    categories : mapping
        For each feature in it, the list of values to choose from: labels of categories as the
        training frame had them, or numbers. Other features with categories may be any that occur in
        the data, or that the model lists and that lie within the bounds.
    method : {"auto", "exact", "local", "stepdirect"}
        ``"auto"`` searches and proves, until the optimum is proven or a limit is reached;
        ``"exact"`` only proves, and finds what it needs on the way; ``"local"`` only searches, and
        gives no bound; ``"stepdirect"`` runs the black-box search of `treeopt.stepdirect` on the
        model, for comparison.
    time_limit : float
        Seconds of search after which the best so far is returned, with its bound. The conversion of
        the model and, at the first call of all, the compilation of the kernels do not count. The
        conversion of a large forest takes seconds: to ask more than once, pass an `Ensemble`, of
        which the first call prepares what all others use.
    max_evals : int
        The same for the number of evaluations, see `Decision`. By default there is no limit for
        methods that prove, and 2,000 for those that do not.
    gap : float
        Stop as soon as the best is proven to be within so much of the optimum; of no use to methods
        without a bound.
    start : point or matrix of points
        Where to begin the local search, in addition to some rows of ``bounds``; moved to the
        nearest admissible cells.
    rng : int or numpy.random.Generator
        Seed of the local search.
    callback : callable
        Called every 20 ms or so with a `DecisionProgress`; ends the run if it raises StopIteration.
    progress : bool
        Whether to write a line to the standard error that tells how things stand.
    n_jobs : int
        Number of threads; -1 for one per processor.
    output, class_index
        What the model predicts, as in `from_model`.

    Returns
    -------
    Decision
        ``x``, ``fun``, ``bound``, ``region`` and more; ``print`` tells the story.

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
    """
    return _decide(1.0, *args, **kwargs)


@takes_arguments_of(_decide, read_options)
def maximize(*args: Any, **kwargs: Any) -> Decision:
    """Find the inputs with the maximum prediction of a fitted model, and prove it.

    All arguments are those of `minimize`.

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
def _ask(
    sense: float, problem: Problem, *, fixed: Any = None, **options: Unpack[Options]
) -> Decision:
    """Answer a question to a problem that is kept."""
    method, run = read_options(**options)
    with run:
        return _answer(problem.asked(sense, fixed, run.limits), method, run)


class Problem(core.Problem):
    """A question that is asked many times: converted and compiled once.

    It does not change, and is worth it wherever one model is asked again: with other fixed values,
    to minimise and to maximise, by several methods.

    Parameters
    ----------
    objective, bounds, fixed, integer, categories, output, class_index
        As in `minimize`. ``bounds`` may leave out features that every question fixes.

    Attributes
    ----------
    objective : Objective
        What is to be optimized.
    choices : Choices
        What may be chosen.

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

    @quiet
    def __init__(
        self,
        objective: Any,
        bounds: Any,
        *,
        fixed: Any = None,
        integer: Any = "auto",
        categories: Any = None,
        output: str = "auto",
        class_index: int | tuple[int, int] | None = None,
    ) -> None:
        goal, columns = read_objective(*convert(objective, output, class_index), bounds)
        choices = read_choices(goal.model, bounds, integer, categories, columns, partly=True)
        super().__init__(goal, choices, Grid(goal.terms), (fixed,))

    @takes_arguments_of(_ask, read_options)
    def minimize(self, **kwargs: Any) -> Decision:
        """Find the inputs with the minimum prediction, as `treeopt.minimize` does.

        Parameters
        ----------
        fixed : mapping, series or frame of one row
            Features that cannot be changed in this question, besides those of the problem.
        method, time_limit, max_evals, gap, start, rng, callback, progress, n_jobs
            As in `treeopt.minimize`.
        """
        return _ask(1.0, self, **kwargs)

    @takes_arguments_of(_ask, read_options)
    def maximize(self, **kwargs: Any) -> Decision:
        """Find the inputs with the maximum prediction; see `minimize`."""
        return _ask(-1.0, self, **kwargs)
