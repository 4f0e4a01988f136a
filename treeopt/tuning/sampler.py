"""`StepDirectSampler`: StepDIRECT proposes the trials of an Optuna study."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeopt.arguments import read_count
from treeopt.dimensions import Choice, Dimension, Integer, Real
from treeopt.errors import InputError
from treeopt.stepdirect import StepDirect, StepDirectSettings

try:
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.search_space import IntersectionSearchSpace
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise ImportError(
        "StepDirectSampler needs Optuna. Install it with: pip install 'treeopt[tuning]'"
    ) from error


class StepDirectSampler(BaseSampler):
    """Let StepDIRECT propose the trials of an Optuna study.

    It works for studies with one objective. Parameters that all trials have in common are searched
    together; what is suggested only in some trials is drawn by ``independent_sampler``.

    The trials in the storage are all that it needs to know: a sampler that is made anew goes on
    from them, and several workers on one storage learn from each other's trials and leave alone
    what others are at. With the same seed, and one trial at a time, a study that goes on proposes
    what it would have without the break.

    Parameters
    ----------
    seed : int
        Seed. Give each of several workers another one, or none.
    n_trials : int
        How many trials there will be, roughly. With many parameters for so few trials the search
        begins otherwise, see ``StepDirectSettings.scarce``; it does not end by this.
    settings : StepDirectSettings
        How to search.
    independent_sampler : optuna.samplers.BaseSampler
        For parameters outside the common space; ``RandomSampler`` by default.

    Notes
    -----
    Trials that failed or were pruned count as bad as the worst one. The first trial is the centre
    of the space. Only when all points of a discrete space are known are some proposed again.

    Examples
    --------
    >>> import optuna, treeopt
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=treeopt.tuning.StepDirectSampler(seed=0))
    >>> study.optimize(lambda t: abs(t.suggest_float("x", 0, 9) - t.suggest_int("n", 1, 5)), 60)
    >>> study.best_value < 0.1
    True
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        n_trials: int = 100,
        settings: StepDirectSettings | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        if settings is not None and not isinstance(settings, StepDirectSettings):
            raise InputError(f"settings is {settings!r}. Pass StepDirectSettings, or None.")
        self._n_trials = read_count(n_trials, "n_trials")
        self._settings = settings
        self._rng = np.random.default_rng(seed)
        self._seed = int(self._rng.integers(2**63))
        self._independent = independent_sampler or RandomSampler(int(self._rng.integers(2**32)))
        self._common_space = IntersectionSearchSpace()
        self._forget()
        self._lock = threading.RLock()

    def _forget(self) -> None:
        self._study: str | None = None
        self._space: dict[str, BaseDistribution] = {}
        self._search: StepDirect | None = None
        self._asked: dict[int, dict[str, float]] = {}  # by the numbers of the trials
        self._seen: set[int] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def reseed_rng(self) -> None:
        """Begin another sequence of random numbers, as workers on copies of a sampler need it."""
        with self._lock:
            self._independent.reseed_rng()
            self._rng = np.random.default_rng()
            if self._search is not None:
                self._search.reseed(self._rng)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that all trials have in common."""
        with self._lock:
            space = self._common_space.calculate(study)
        return {name: d for name, d in space.items() if not d.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Propose values for the parameters of ``search_space`` together."""
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        with self._lock:
            search = self._search_of(study, search_space)
            self._learn(study, search, trial.number)
            points = search.ask(1)
            if not points:  # every point is known
                return {
                    name: self._independent.sample_independent(study, trial, name, d)
                    for name, d in search_space.items()
                }
            self._asked[trial.number] = points[0]
        return {n: d.to_external_repr(points[0][n]) for n, d in search_space.items()}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Propose a value for one parameter; in the first trial its centre."""
        self._raise_error_if_multi_objective(study)
        if trial.number == 0:
            dimension = _dimension(param_distribution)
            centre = dimension.value(dimension.codes(np.array([0.5]))[0])
            return param_distribution.to_external_repr(centre)
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Tell the independent sampler that a trial begins."""
        self._independent.before_trial(study, trial)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Tell the independent sampler that a trial has ended."""
        self._independent.after_trial(study, trial, state, values)

    def _search_of(self, study: Study, space: Mapping[str, BaseDistribution]) -> StepDirect:
        """Return the search over a space; a new one if the space or the study is another."""
        if self._search is None or self._study != study.study_name or self._space != space:
            self._forget()
            self._study, self._space = study.study_name, dict(space)
            self._search = StepDirect(
                {name: _dimension(d) for name, d in space.items()},
                settings=self._settings,
                max_evals=self._n_trials,
                rng=self._seed,
            )
        return self._search

    def _learn(self, study: Study, search: StepDirect, current: int) -> None:
        """Tell the search what has become of the trials, and which are under way."""
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        for trial in study.get_trials(deepcopy=False):
            if trial.number in self._seen or trial.number == current:
                continue
            point = self._point(trial)
            if not trial.state.is_finished():
                if point is not None and trial.number not in self._asked:
                    search.reserve([point])
                continue
            self._seen.add(trial.number)
            asked = self._asked.pop(trial.number, None)
            if asked is not None and asked != point:
                search.release([asked])
            if point is not None and not search.knows(point):
                complete = trial.state == TrialState.COMPLETE
                search.tell(point, sign * trial.values[0] if complete else None)

    def _point(self, trial: FrozenTrial) -> dict[str, float] | None:
        """Return a trial's point of the space in Optuna's internal numbers, if it has one."""
        point = {}
        for name, distribution in self._space.items():
            if name not in trial.params:
                return None
            try:
                internal = distribution.to_internal_repr(trial.params[name])
            except ValueError:
                return None
            if not distribution._contains(internal):
                return None
            point[name] = internal
        return point


def _dimension(distribution: BaseDistribution) -> Dimension:
    """Return a dimension for Optuna's internal numbers: those of categories are positions."""
    if isinstance(distribution, FloatDistribution):
        return Real(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, IntDistribution):
        return Integer(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, CategoricalDistribution):
        return Choice(tuple(range(len(distribution.choices))))
    raise InputError(
        f"the distribution is {distribution!r}. StepDirectSampler knows those of suggest_float, "
        "suggest_int and suggest_categorical."
    )
