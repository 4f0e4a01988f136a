"""`StepDirectSearchCV`: StepDIRECT in place of scikit-learn's grid or random search."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, get_tags

from treeopt.arguments import read_count
from treeopt.errors import InputError
from treeopt.problem.dimensions import Dimensions, read_dimensions
from treeopt.stepdirect import StepDirect, StepDirectSettings
from treeopt.tuning.checkpoint import Checkpoint, Outcome, describe, describe_estimator


class StepDirectSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Search over hyperparameters with cross-validation, by StepDIRECT.

    It is used like ``GridSearchCV`` and ``RandomizedSearchCV``, has the same base class, and has
    their methods and attributes. The score is maximized.

    Parameters
    ----------
    estimator : estimator
        The estimator to tune; nested parameters are named ``part__name``.
    space : mapping
        From names of parameters to their values: ``(low, high)``, which means integers if both
        are of integer type; ``(low, high, "log")``; a ``range``; a list of choices; or
        `treeopt.tuning` ``Real``, ``Integer`` or ``Choice``.
    n_evals : int
        Number of candidates to evaluate. No candidate is evaluated twice; a small discrete space
        may have fewer.
    batch_size : int
        Number of candidates that are proposed at a time. With ``n_jobs``, up to this many times the
        number of splits run in parallel. The result depends on it, but not on ``n_jobs``. Small
        numbers are better for the search, large ones for many processors.
    settings : StepDirectSettings
        How to search; ``settings.batch`` is ``batch_size`` if it is None.
    weights : mapping from names to float, or sequence
        Relative importance of the parameters.
    objective : str
        With several metrics, the one to search by; by default ``refit``.
    checkpoint : path
        A file to which every batch of results is added. If it exists, the search continues from
        there, as if it had not been interrupted; only an unfinished batch is evaluated again. With
        a larger ``n_evals`` it continues further. The file has text only. A file of other data,
        splits, space, settings or estimator is refused.
    scoring, cv, refit, n_jobs, verbose, pre_dispatch, error_score, return_train_score
        As for ``RandomizedSearchCV``. Splits are made once, also by a splitter without a seed.
    random_state : int, RandomState or None
        Seed of the search.

    Attributes
    ----------
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, \
refit_time_, multimetric_, classes_, n_features_in_, feature_names_in_
        As those of ``RandomizedSearchCV``; candidates are in the order of their evaluation.

    Notes
    -----
    A candidate with a failed fit has the score ``error_score``; if that is NaN, it counts as the
    worst. If all fits of all candidates fail, an error is raised at the end.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from treeopt.tuning import StepDirectSearchCV
    >>> space = {"C": (1e-3, 1e3, "log"), "gamma": (1e-6, 1.0, "log")}
    >>> search = StepDirectSearchCV(SVC(), space, n_evals=30, random_state=0)
    >>> bool(search.fit(*load_iris(return_X_y=True)).best_score_ > 0.97)
    True
    """

    cv: Any

    def __init__(
        self,
        estimator: Any,
        space: Any,
        *,
        n_evals: int = 100,
        batch_size: int = 4,
        settings: StepDirectSettings | None = None,
        weights: Any = None,
        objective: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        scoring: Any = None,
        cv: Any = None,
        refit: Any = True,
        n_jobs: int | None = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
    ) -> None:
        super().__init__(
            estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.space = space
        self.n_evals = n_evals
        self.batch_size = batch_size
        self.settings = settings
        self.weights = weights
        self.objective = objective
        self.checkpoint = checkpoint
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, **params: Any) -> StepDirectSearchCV:
        """Search, then fit the best candidate on all data if ``refit`` says so.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Target; None for unsupervised learning.
        **params : dict
            Passed on to the estimator, the scorer and the splitter, as by ``RandomizedSearchCV``.

        Returns
        -------
        self : StepDirectSearchCV
            The fitted search.
        """
        cv = self.cv
        if isinstance(cv, Iterator):  # it can be read only once
            self.cv = list(cv)
        self._fit_params = params
        try:
            super().fit(X, y, **params)
        finally:
            self.cv = cv
            del self._fit_params
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self.estimator)
        tags.input_tags.allow_nan = own.input_tags.allow_nan
        tags.target_tags.single_output = own.target_tags.single_output
        tags.target_tags.multi_output = own.target_tags.multi_output
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # Jobs get a copy of the search, but do not need its progress.
        under_way = ("_run", "_fit_params")
        return {k: v for k, v in super().__getstate__().items() if k not in under_way}

    def _run_search(self, evaluate_candidates: Any, *, callback_ctx: Any = None) -> None:
        """Propose batches of candidates until ``n_evals`` are evaluated."""
        self._run = run = self._begin()
        context = None  # of scikit-learn's callbacks, where it has them
        if callback_ctx is not None:
            n_batches = -(-run.n_evals // run.batch)
            context = _subtask(self, callback_ctx, "search", n_batches)
        try:
            while candidates := run.next_batch():
                self._evaluate(candidates, evaluate_candidates, context)
            if not run.n_seen:  # scikit-learn needs an evaluation, even if all are known
                self._evaluate([run.a_success()], evaluate_candidates, context)
            results = super()._format_results(run.candidates, run.n_splits, run.outs())
            run.results.update(results)
        finally:
            del self._run
        if context is not None:
            context.call_on_fit_task_end(estimator=self)

    def _evaluate(self, candidates: Any, evaluate_candidates: Any, context: Any) -> None:
        """Evaluate a batch; if all its fits fail, the search continues."""
        options = {}
        if context is not None:
            n_fits = len(candidates) * self.n_splits_
            batch = _subtask(self, context, "batch", n_fits, sequential_subtasks=False)
            options["callback_ctx"] = batch
        try:
            evaluate_candidates(candidates, cv=self._run.splits, **options)
        except ValueError as error:
            if self.error_score == "raise" or "fits failed" not in str(error):
                raise
            self._run.note_failure(error)
        if context is not None:
            batch.call_on_fit_task_end(estimator=self)

    def _format_results(
        self, candidate_params: Any, n_splits: int, out: Any, more_results: Any = None
    ) -> dict[str, Any]:
        """Keep the results of a batch; they are formatted when the search is over."""
        self._run.note(out, n_splits)
        return self._run.results

    def _begin(self) -> Tuning:
        """Check the parameters, and return the search."""
        n_evals = read_count(self.n_evals, "n_evals")
        batch = read_count(self.batch_size, "batch_size")
        if not isinstance(self.space, Mapping):
            raise InputError(
                f"space is {self.space!r}. Pass one mapping from parameters to their values."
            )
        dimensions = read_dimensions(self.space)
        _check_names(self.estimator, self.space)
        if not callable(self.scoring):  # its metrics are known only when it is called
            one = self.scoring is None or isinstance(self.scoring, str)
            self._metric(np.nan if one else dict.fromkeys(self.scoring))
        settings = StepDirectSettings() if self.settings is None else self.settings
        if isinstance(settings, StepDirectSettings) and settings.batch is None:
            settings = replace(settings, batch=batch)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        checkpoint = Checkpoint(
            self.checkpoint,
            self._about(dimensions, settings),
            {"seed": seed, "n_evals": n_evals},
        )
        # Without a seed of its own the one of the file serves.
        if isinstance(self.random_state, Integral) and checkpoint.begun["seed"] != seed:
            raise InputError(
                f"checkpoint is {str(self.checkpoint)!r}, of a search with another seed; now "
                f"random_state is {self.random_state}. Name another file, or leave it out."
            )
        search = StepDirect(
            self.space,
            weights=self.weights,
            settings=settings,
            max_evals=checkpoint.begun["n_evals"],
            rng=checkpoint.begun["seed"],
        )
        splits = Splits(self.cv, is_classifier(self.estimator), checkpoint, self._fit_params)
        error_score = np.nan if self.error_score == "raise" else self.error_score
        return Tuning(search, n_evals, batch, splits, checkpoint, self._metric, error_score)

    def _about(self, dimensions: Dimensions, settings: Any) -> dict[str, str]:
        """Return all that determines the results, except for data and splits, as text."""
        if self.checkpoint is None:
            return {}
        objective = self.refit if self.objective is None else self.objective
        about = {
            "space": dimensions.names,
            **{f"space[{k!r}]": d for k, d in zip(self.space, dimensions.all, strict=True)},
            "batch_size": self.batch_size,
            "settings": settings,
            "weights": self.weights,
            "scoring": self.scoring,
            "objective": objective if isinstance(objective, str) else None,
            "return_train_score": bool(self.return_train_score),
        }
        if self.error_score != "raise":  # then no result has it
            about["error_score"] = float(self.error_score)
        texts = {name: describe(value) for name, value in about.items()}
        return texts | describe_estimator(self.estimator)

    def _metric(self, scores: Any) -> str | None:
        """Return the metric to search by, given the scores of a candidate; None: there is one."""
        if not isinstance(scores, Mapping):
            if self.objective is not None:
                raise InputError(
                    f"objective is {self.objective!r}, but there is one metric only. Leave it out, "
                    "or set scoring to several."
                )
            return None
        name = self.objective if self.objective is not None else self.refit
        if not isinstance(name, str) or name not in scores:
            asked = f"objective is {self.objective!r} and refit is {self.refit!r}"
            raise InputError(
                f"{asked}, but there are several metrics. Set objective to the one to search by: "
                f"{', '.join(scores)}."
            )
        return name


class Tuning:
    """A tuning search in progress: its candidates and their results."""

    def __init__(
        self,
        search: StepDirect,
        n_evals: int,
        batch: int,
        splits: Splits,
        checkpoint: Checkpoint,
        metric: Callable[[Any], str | None],
        error_score: float,
    ) -> None:
        self.search, self.n_evals, self.batch = search, n_evals, batch
        self.splits, self.checkpoint, self.metric = splits, checkpoint, metric
        self.error_score = error_score
        self.candidates: list[dict[str, Any]] = []
        self.outcomes: list[Outcome] = []
        self.results: dict[str, Any] = {}
        self.n_seen = 0  # of the list that scikit-learn keeps
        self.n_splits = 0
        self.failure: ValueError | None = None

    def next_batch(self) -> list[dict[str, Any]]:
        """Return the candidates to evaluate next; an empty list if the search is over."""
        while True:
            begin, end = self.search.nfev, len(self.outcomes)
            values = [self.loss(outcome) for outcome in self.outcomes[begin:end]]
            self.search.tell(self.candidates[begin:end], values)
            wanted = min(self.batch, self.n_evals - end)
            points = self.search.ask(wanted) if wanted else []
            if not points:
                break
            self.candidates += points
            self.outcomes += self.checkpoint.recall(self.candidates[end:], end)
            if fresh := self.candidates[len(self.outcomes) :]:
                return fresh
        if end < self.n_evals:
            warnings.warn(
                f"the space has only {end} candidates, fewer than n_evals, which is "
                f"{self.n_evals}; each was evaluated once.",
                UserWarning,
                stacklevel=2,
            )
        if not any(self.outcomes):
            raise self.failure or InputError(
                f"checkpoint is {str(self.checkpoint.path)!r}, of a search whose fits all failed. "
                "Name another file, or pass a larger n_evals."
            )
        return []

    def note(self, out: list[dict[str, Any]], n_splits: int) -> None:
        """Take the new entries of scikit-learn's list, one for each candidate and split."""
        first, self.n_seen, self.n_splits = self.n_seen, len(out), n_splits
        self._note([out[k : k + n_splits] for k in range(first, len(out), n_splits)])

    def note_failure(self, error: ValueError) -> None:
        """Take the failure of all fits of the current batch."""
        self.failure = error
        missing = len(self.candidates) - len(self.outcomes)
        if not missing:
            raise error
        self._note([None] * missing)
        warnings.warn(
            f"all fits of {missing} candidates failed; the search goes on. The last error: "
            f"{str(error).strip().splitlines()[-1]}",
            FitFailedWarning,
            stacklevel=2,
        )

    def _note(self, outcomes: list[Outcome]) -> None:
        fresh = self.candidates[len(self.outcomes) :]
        outcomes = outcomes[: len(fresh)]
        self.checkpoint.add(fresh, outcomes)
        self.outcomes += outcomes

    def loss(self, outcome: Outcome) -> float:
        """Return the value that the search minimizes; NaN: failed."""
        if not outcome:
            return -float(self.error_score)
        metric = self.metric(outcome[0]["test_scores"])
        scores = [o["test_scores"] if metric is None else o["test_scores"][metric] for o in outcome]
        return -float(np.mean(scores, dtype=np.float64))

    def a_success(self) -> dict[str, Any]:
        """Return the first candidate with a fit that did not fail."""
        return next(c for c, o in zip(self.candidates, self.outcomes, strict=True) if o)

    def outs(self) -> list[dict[str, Any]]:
        """Return the results of all candidates and splits as scikit-learn lists them."""
        like = next(filter(None, self.outcomes))
        failed = [_failed(out, self.error_score) for out in like]
        return [out for outcome in self.outcomes for out in outcome or failed]


class Splits:
    """A splitter that returns the splits of its first call every time."""

    def __init__(
        self, cv: Any, classifier: bool, checkpoint: Checkpoint, fit_params: dict[str, Any]
    ) -> None:
        self.cv, self.classifier = cv, classifier
        self.checkpoint, self.fit_params = checkpoint, fit_params
        self.splits: list[Any] | None = None

    def split(self, X: Any, y: Any = None, **params: Any) -> list[Any]:
        """Return the splits; the first call compares them with those of the checkpoint."""
        if self.splits is None:
            splitter = check_cv(self.cv, y, classifier=self.classifier)
            self.splits = list(splitter.split(X, y, **params))
            self.checkpoint.check_data(X, y, self.splits, self.fit_params)
        return self.splits


def _failed(like: dict[str, Any], error_score: Any) -> dict[str, Any]:
    """Return the result of a fit that failed, with the entries of one that did not."""
    failed = dict.fromkeys(like, np.nan) | {"n_test_samples": like["n_test_samples"]}
    for scores in ("test_scores", "train_scores"):
        if scores in like:
            several = isinstance(like[scores], Mapping)
            failed[scores] = dict.fromkeys(like[scores], error_score) if several else error_score
    return failed


def _subtask(
    search: StepDirectSearchCV, context: Any, name: str, n_subtasks: int, **options: Any
) -> Any:
    """Begin a task of scikit-learn's callbacks."""
    task = context.subcontext(task_name=name, max_subtasks=n_subtasks, **options)
    return task.call_on_fit_task_begin(estimator=search)


def _check_names(estimator: Any, space: Mapping[str, Any]) -> None:
    """Refuse parameters that the estimator does not have, before anything is fitted.

    Parameters of a part that is itself searched cannot be checked.
    """
    names = estimator.get_params(deep=True)
    for name in space:
        parts = name.split("__")
        chosen = any("__".join(parts[:k]) in space for k in range(1, len(parts)))
        if name not in names and not chosen:
            near = difflib.get_close_matches(name, names, n=3) or sorted(names)
            raise InputError(
                f"space names {name!r}, which is no parameter of {type(estimator).__name__}. "
                f"Pass one of its own, such as {', '.join(near[:8])}."
            )
