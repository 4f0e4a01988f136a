"""`StepDirectSampler`: StepDIRECT proposes the trials of an Optuna study."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeopt.arguments import read_count, read_seed
from treeopt.errors import InputError
from treeopt.problem.dimensions import Choice, Dimension, Integer, Real
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
    together; parameters of only some trials are drawn by ``independent_sampler``.

    All information is read from the trials in the storage. A new sampler continues from them, and
    several workers on one storage learn from each other's trials and avoid each other's points.
    With the same seed, and one trial at a time, a study that is continued proposes the same as one
    without a break.

    Parameters
    ----------
    seed : int
        Seed. If there are several workers, pass a different one to each, or None.
    n_trials : int
        Approximate number of trials; it does not end the study. If there are few trials for the
        number of parameters (by default 100 for ten or more), the search follows the rules for
        few evaluations, see ``StepDirectSettings.scarce``. For a long study pass its number of
        trials.
    settings : StepDirectSettings
        How to search.
    independent_sampler : optuna.samplers.BaseSampler
        For parameters outside the common space; by default they are drawn at random.

    Notes
    -----
    Trials that failed or were pruned count as the worst one: intermediate values may be better
    than any final one. The first trial is the center of the space. Points are proposed again only
    if all points of a discrete space are known; of several values of a point the first counts.

    Parameters whose ranges change from trial to trial, and integers beyond 2**53, are drawn
    like those outside the common space.

    Workers that choose at the same moment may sometimes choose the same point. After a break, an
    ``independent_sampler`` with a seed starts its sequence again.

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
        whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if seed is not None and not (whole and seed >= 0):
            raise InputError(f"seed is {seed!r}. Pass an integer of at least 0, or None.")
        if settings is not None and not isinstance(settings, StepDirectSettings):
            raise InputError(f"settings is {settings!r}. Pass StepDirectSettings, or None.")
        if independent_sampler is not None and not isinstance(independent_sampler, BaseSampler):
            raise InputError(
                f"independent_sampler is {independent_sampler!r}. Pass a sampler of Optuna, or "
                "None."
            )
        self._seed = read_seed(seed)
        self._n_trials = read_count(n_trials, "n_trials")
        self._settings = settings
        self._independent = independent_sampler
        self._lock = threading.RLock()
        self._study: tuple[Any, int] | None = None  # its storage, and its number there
        self._common_space = IntersectionSearchSpace()
        self._begin({})

    def _begin(self, space: Mapping[str, BaseDistribution]) -> None:
        """Start again, with a space."""
        self._space = dict(space)
        self._search: StepDirect | None = None
        self._held: dict[int, dict[str, float]] = {}  # pending points by number of the trial
        self._seen: set[int] = set()

    def __getstate__(self) -> dict[str, Any]:
        # In another process the storage is another object: the trials are read from it again.
        return {k: v for k, v in vars(self).items() if k not in ("_lock", "_study")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()
        self._study = None

    def reseed_rng(self) -> None:
        """Start another sequence of random numbers, for workers on copies of a sampler."""
        with self._lock:
            self._seed = read_seed(None)
            if self._independent is not None:
                self._independent.reseed_rng()
            if self._search is not None:
                self._search.reseed(self._seed)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that all trials have in common."""
        with self._lock:
            self._turn_to(study)
            space = self._common_space.calculate(study)
        return {n: d for n, d in space.items() if not d.single() and _dimension(d) is not None}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Propose values for the parameters of ``search_space`` together."""
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        with self._lock:
            self._turn_to(study)
            search = self._search_in(search_space)
            ahead = self._learn(study, search, trial.number)
            # Workers with the same trials choose the same: earlier ones take the first points.
            points = search.ask(1 + ahead)
            search.release(points[:-1])
            if points:
                self._held[trial.number] = points[-1]
        if not points:  # every point is known or pending
            return {n: self._draw(study, trial, n, d) for n, d in search_space.items()}
        return {n: d.to_external_repr(points[-1][n]) for n, d in search_space.items()}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Propose a value for one parameter; in the first trial its center."""
        self._raise_error_if_multi_objective(study)
        dimension = _dimension(param_distribution) if trial.number == 0 else None
        if dimension is None:
            return self._draw(study, trial, param_name, param_distribution)
        center = dimension.value(dimension.codes(np.array([0.5]))[0])
        return param_distribution.to_external_repr(center)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Tell the independent sampler that a trial begins."""
        if self._independent is not None:
            self._independent.before_trial(study, trial)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Tell the independent sampler that a trial has ended."""
        if self._independent is not None:
            self._independent.after_trial(study, trial, state, values)

    def _draw(
        self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
    ) -> Any:
        """Draw a value; by default it depends only on the trial's number and the name."""
        sampler = self._independent
        if sampler is None:
            seed = np.random.SeedSequence([self._seed, trial.number, *name.encode()])
            sampler = RandomSampler(int(seed.generate_state(1)[0]))
        return sampler.sample_independent(study, trial, name, distribution)

    def _turn_to(self, study: Study) -> None:
        """Forget all trials if the study is another one."""
        storage, number = study._storage, study._study_id
        if self._study is None or self._study[0] is not storage or self._study[1] != number:
            self._study = storage, number
            self._common_space = IntersectionSearchSpace()
            self._begin({})

    def _search_in(self, space: Mapping[str, BaseDistribution]) -> StepDirect:
        """Return the search in a space; a new one if the space has changed."""
        if self._search is None or self._space != space:
            self._begin(space)
            self._search = StepDirect(
                {name: _dimension(d) for name, d in space.items()},
                settings=self._settings,
                max_evals=self._n_trials,
                rng=self._seed,
            )
        return self._search

    def _learn(self, study: Study, search: StepDirect, current: int) -> int:
        """Tell the search the results of the trials, and which trials are running.

        For each trial that it has not proposed itself, it is asked before it is told: a new search
        gets to the state of the one that proposed the trials. If the pruner has divided the study,
        as Hyperband does, all of its trials count.

        Returns
        -------
        int
            Number of trials that have started just before the current one and have no point yet. A
            trial whose worker has died counts only for a short time.
        """
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        running, without = 0, []
        for trial in study._storage.get_all_trials(study._study_id, deepcopy=False):
            if trial.number in self._seen or trial.number == current:
                continue
            point, held = self._point(trial), self._held.pop(trial.number, None)
            pending = [] if held is None else [held]
            if trial.state.is_finished():
                self._seen.add(trial.number)
                if trial.params and not pending:
                    pending = search.ask(1)
                if pending != [point]:
                    search.release(pending)
                if point is not None and not search.knows(point):
                    complete = trial.state == TrialState.COMPLETE
                    search.tell(point, sign * trial.values[0] if complete else None)
                continue
            running += trial.state == TrialState.RUNNING
            if point is not None and point != held:
                search.release(pending)
                search.reserve([point])
                held = point
            if held is not None:
                self._held[trial.number] = held
            elif trial.state == TrialState.RUNNING:
                without.append(trial.number)
        return sum(current - running <= number < current for number in without)

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


def _dimension(distribution: BaseDistribution) -> Dimension | None:
    """Return a dimension for Optuna's internal numbers: categories are positions.

    None if numbers are so large that their steps or bounds are not exact.
    """
    try:
        if isinstance(distribution, FloatDistribution):
            return Real(distribution.low, distribution.high, distribution.log, distribution.step)
        if isinstance(distribution, IntDistribution):
            return Integer(distribution.low, distribution.high, distribution.log, distribution.step)
    except InputError:
        return None
    if isinstance(distribution, CategoricalDistribution):
        return Choice(tuple(range(len(distribution.choices))))
    return None
