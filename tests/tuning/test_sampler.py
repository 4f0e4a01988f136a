"""`StepDirectSampler` in studies of Optuna: its contract, and trials of every kind."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import subprocess
from functools import partial
from itertools import combinations

import numpy as np
import optuna
import pytest
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import PartialFixedSampler, RandomSampler
from optuna.storages import InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    FixedSampler,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import TrialState

from tests.kernels.test_startup import python
from tests.support.messages import says
from treeopt import InputError, StepDirectSettings
from treeopt.tuning import StepDirectSampler

SETTINGS = {"default": None, "paper": StepDirectSettings.paper()}


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    yield
    optuna.logging.set_verbosity(before)


class TestContract(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """Optuna's own suites."""

    @pytest.fixture(params=SETTINGS.values(), ids=SETTINGS)
    def sampler(self, request):
        return partial(StepDirectSampler, seed=0, settings=request.param)


# What is tuned.


def steps(trial) -> float:
    x = [trial.suggest_float(f"x{k}", -1, 2) for k in range(5)]
    return float(np.floor(7 * np.abs(np.subtract(x, 0.3))).sum())


def grid(trial) -> float:
    c = trial.suggest_categorical("c", ["u", "v", None])
    return abs(trial.suggest_int("a", 0, 9) - 3) + abs(trial.suggest_int("b", 0, 9) - 7) + (not c)


def branches(trial) -> float:
    x = trial.suggest_float("x", 0, 1)
    if trial.suggest_categorical("branch", ["y", "z"]) == "y":
        return abs(x - 0.7) + abs(trial.suggest_float("y", 0, 1) - 0.2)
    return abs(x - 0.7) + trial.suggest_int("z", 1, 100, log=True) / 50


def faulty(trial) -> float:
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_int("y", 0, 50)
    if y > 40:
        raise ZeroDivisionError
    if y > 30:
        raise optuna.TrialPruned
    return np.nan if x > 0.7 else abs(x - 0.4) + abs(y - 9)


def growing(trial) -> float:
    """Report values that grow: those of pruned trials are better than any final one."""
    value = steps(trial) + 1
    for step in range(1, 10):
        trial.report(value * step / 9, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return value


def negative(objective):
    return lambda trial: -objective(trial)


def run(objective, n, sampler=None, **how):
    study = optuna.create_study(sampler=sampler or StepDirectSampler(seed=0), **how)
    study.optimize(objective, n, catch=ZeroDivisionError)
    return study


def points(study) -> list[dict]:
    return [trial.params for trial in study.trials]


def distinct(points) -> int:
    return len({tuple(sorted(p.items(), key=lambda item: item[0])) for p in points})


# The search.


def test_it_beats_random_search():
    def bests(sampler):
        return [run(steps, 80, sampler(seed=seed)).best_value for seed in range(5)]

    ours, random = bests(StepDirectSampler), bests(RandomSampler)
    assert max(ours) < min(random) and np.median(ours) < np.median(random) / 4


@pytest.mark.parametrize("objective", [steps, grid, faulty])
def test_to_maximize_is_to_minimize_the_negative(objective):
    least = run(objective, 40)
    largest = run(negative(objective), 40, direction="maximize")
    assert points(least) == points(largest) and least.best_value == -largest.best_value


@pytest.mark.filterwarnings("ignore:The distribution is", "ignore:Choices for a")
def test_parameters_of_every_kind():
    choices = [None, True, "a", 2.5, math.nan, (1, 2)]

    def objective(trial):
        values = (
            trial.suggest_float("real", -1, 3),
            trial.suggest_float("log", 1e-4, 1e4, log=True),
            trial.suggest_float("steps", 0.1, 1.0, step=0.2),
            trial.suggest_int("whole", -3, 5),
            trial.suggest_int("log whole", 1, 10**6, log=True),
            trial.suggest_int("whole steps", 0, 10, step=3),
            trial.suggest_categorical("choice", choices),
        )
        assert [type(v) for v in values[:6]] == [float] * 3 + [int] * 3
        trial.suggest_float("single", 2, 2)
        trial.suggest_int("huge", 0, 2**60)
        real, log, steps, whole, log_whole, whole_steps, choice = values
        return (
            abs(real - 1.3)
            + abs(math.log10(log) - 2)
            + abs(steps - 0.7)
            + abs(whole + 1)
            + abs(math.log10(log_whole) - 3)
            + abs(whole_steps - 6)
            + (choice != (1, 2))
        )

    study = run(objective, 200)
    first = study.trials[0].params
    assert first["real"] == 1 and first["log"] == pytest.approx(1) and first["whole"] == 1
    assert first["steps"] == pytest.approx(0.5) and first["log whole"] in range(700, 715)
    assert all(t.state == TrialState.COMPLETE for t in study.trials)
    tried = [p["choice"] for p in points(study)]
    assert all(any(t is c or t == c for t in tried) for c in choices)
    assert len({p["huge"] for p in points(study)}) > 150
    assert study.best_params["choice"] == (1, 2) and study.best_value < 1.5


def test_a_discrete_space_is_tried_point_by_point():
    def objective(trial):
        return trial.suggest_int("a", 0, 4) + (trial.suggest_categorical("b", "uvw") == "u")

    study = run(objective, 20)
    assert distinct(points(study)[:15]) == 15  # all there are
    assert distinct(points(run(grid, 250))) == 250


def test_settings_and_the_number_of_trials_decide_how_it_begins():
    def objective(trial):
        return sum(trial.suggest_float(f"x{k}", 0, 1) ** 2 for k in range(10))

    def begin(**how):
        return np.array([list(p.values()) for p in points(run(objective, 7, **how))])

    few = begin(sampler=StepDirectSampler(0))
    assert (few == few[:, :1]).all() and len(np.unique(few)) == 7  # on the diagonal
    many = begin(sampler=StepDirectSampler(0, n_trials=1000))
    assert ((many != 0.5).sum(axis=1) == [0, 1, 1, 1, 1, 1, 1]).all()  # along the axes
    other = StepDirectSampler(0, settings=StepDirectSettings(scarce=0))
    assert np.array_equal(begin(sampler=other), many)


def test_ranges_may_change():
    def objective(high, trial):
        return trial.suggest_float("x", 0, high) + trial.suggest_float("y", -1, 1) ** 2

    study = run(partial(objective, 10), 10)
    study.optimize(partial(objective, 5), 30)
    assert all(p["x"] <= 5 for p in points(study)[10:])
    assert min(abs(p["y"]) for p in points(study)[11:]) < 0.1


# Trials that others have chosen, and parameters outside the common space.


def test_it_goes_on_from_trials_of_others():
    study = run(steps, 50, RandomSampler(seed=0))
    before = study.best_value
    study.sampler = StepDirectSampler(seed=0)
    study.optimize(steps, 50)
    assert study.best_value < before / 2
    assert distinct(points(study)) == 100


def test_it_learns_from_trials_of_another_study():
    """Some lack a parameter, or have another range."""
    known, study = run(grid, 30), optuna.create_study(sampler=StepDirectSampler(seed=0))
    study.add_trials(known.trials)
    space = known.trials[0].distributions | {"a": optuna.distributions.IntDistribution(0, 99)}
    params = {"a": 99, "b": 0, "c": "u"}
    odd = optuna.create_trial(params=params, distributions=space, state=TrialState.PRUNED)
    study.add_trial(odd)
    del params["b"], space["b"]
    study.add_trial(optuna.create_trial(params=params, distributions=space, state=TrialState.FAIL))
    study.optimize(grid, 30)
    valid = points(study)[:30] + points(study)[32:]
    assert distinct(valid) == 60 and study.best_value == 0


def test_enqueued_trials_are_learnt_from():
    good = {f"x{k}": 0.28 for k in range(5)}
    study = optuna.create_study(sampler=StepDirectSampler(seed=0))
    study.optimize(steps, 3)
    study.enqueue_trial(good)
    study.enqueue_trial({"x0": 1.5})
    study.optimize(steps, 22)
    assert points(study)[3] == good and points(study)[4]["x0"] == 1.5
    moved = [sum(p[name] != good[name] for name in good) for p in points(study)[12:]]
    assert moved.count(1) > len(moved) / 3  # jumps from there
    assert distinct(points(study)) == 25


def test_fixed_parameters():
    study = run(steps, 5)
    with pytest.warns(ExperimentalWarning):
        study.sampler = PartialFixedSampler({"x1": 0.5}, study.sampler)
    study.optimize(steps, 40)
    assert all(p["x1"] == 0.5 for p in points(study)[5:])
    assert study.best_value <= 4


def test_branches():
    study = run(branches, 100)
    drawn = [p["y"] for p in points(study) if "y" in p]
    assert len(set(drawn)) == len(drawn) > 5
    assert abs(study.best_params["x"] - 0.7) < 0.1


class Recorded(RandomSampler):
    """A random sampler that remembers when trials begin and end."""

    def __init__(self, seed):
        super().__init__(seed)
        self.calls = []

    def before_trial(self, study, trial):
        self.calls.append("before")

    def after_trial(self, study, trial, state, values):
        self.calls.append("after")


def test_another_sampler_for_what_is_not_common():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        return abs(x - 0.7) + (trial.suggest_float("y", 0, 1) if trial.number % 2 else 1)

    def drawn(sampler):
        own = StepDirectSampler(0, independent_sampler=sampler)
        return [p["y"] for p in points(run(objective, 30, own)) if "y" in p]

    assert drawn(FixedSampler({}, {}, 0.25)) == [0.25] * 15
    sampler = Recorded(seed=0)
    assert drawn(sampler) == list(np.random.RandomState(0).uniform(size=15))
    assert sampler.calls == ["before", "after"] * 30
    sampler = RandomSampler(seed=0)
    StepDirectSampler(independent_sampler=sampler).reseed_rng()
    assert drawn(sampler) != drawn(RandomSampler(seed=0))


# Trials that fail or are pruned.


def test_failed_trials_are_not_repeated():
    study = run(faulty, 100)
    states = [t.state for t in study.trials]
    assert {TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED} == set(states)
    assert states.count(TrialState.COMPLETE) > 50
    assert distinct(points(study)) == 100 and study.best_value < 0.1


def test_all_trials_may_fail():
    def objective(trial):
        value = grid(trial)
        return np.nan if trial.number else value

    study = run(objective, 60)
    assert distinct(points(study)) == 60 and study.best_trial.number == 0
    assert distinct(points(run(lambda trial: grid(trial) * np.nan, 20))) > 15


@pytest.mark.parametrize(
    "pruner",
    [MedianPruner(), SuccessiveHalvingPruner(), HyperbandPruner(max_resource=9)],
    ids=lambda pruner: type(pruner).__name__,
)
def test_pruned_trials_do_not_mislead(pruner):
    study = run(growing, 100, pruner=pruner, study_name="pruned")
    assert sum(t.state == TrialState.PRUNED for t in study.trials) > 15
    assert distinct(points(study)) == 100
    everything = run(growing, 100, pruner=NopPruner())
    assert study.best_value <= everything.best_value + 1


# Seeds, copies, breaks.


@pytest.mark.parametrize("objective", [steps, grid, branches, faulty])
def test_a_seed_repeats_the_study(objective):
    first, same = (points(run(objective, 60)) for _ in range(2))
    assert first == same
    assert first != points(run(objective, 60, StepDirectSampler(seed=1)))


@pytest.mark.parametrize("n", [1, 2, 25, 80])
@pytest.mark.parametrize("objective", [steps, grid, branches, faulty, growing])
def test_a_new_sampler_goes_on_as_the_old_one_would(objective, n):
    how = {"pruner": HyperbandPruner(max_resource=9), "study_name": "broken off"}
    expected = points(run(objective, 110, **how))
    study = run(objective, n, **how)
    for more in (20, 90 - n):
        study.sampler = StepDirectSampler(seed=0)
        study.optimize(objective, more, catch=ZeroDivisionError)
    assert points(study) == expected


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_a_study_resumes_from_its_storage(kind, tmp_path):
    how = {"study_name": "resumed", "direction": "maximize", "load_if_exists": True}
    for _ in range(3):
        study = run(negative(grid), 10, storage=storage(kind, tmp_path / "file"), **how)
    assert points(study) == points(run(negative(grid), 30, direction="maximize"))


def test_a_pickled_sampler_goes_on():
    study = run(grid, 30)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))
    study.optimize(grid, 30)
    assert points(study) == points(run(grid, 60))


@pytest.mark.parametrize("n", [0, 1, 30])
@pytest.mark.parametrize("objective", [steps, branches])
def test_copies_that_are_reseeded_part(objective, n):
    study = run(objective, n, study_name="copied")
    ways = []
    for _ in range(2):
        sampler = pickle.loads(pickle.dumps(study.sampler))
        copy = optuna.create_study(sampler=sampler, study_name="copied")
        copy.add_trials(study.trials)
        copy.sampler.reseed_rng()
        copy.optimize(objective, 30)
        ways.append(points(copy))
    assert ways[0] != ways[1]


def test_one_sampler_may_serve_several_studies():
    sampler = StepDirectSampler(seed=0)
    assert points(run(grid, 30, sampler)) == points(run(grid, 30))
    assert points(run(steps, 30, sampler)) == points(run(steps, 30))
    assert str(sampler) == "StepDirectSampler"


# Several workers.


def workers(n, objective):
    """Return studies on one storage, each with its own sampler; a trial is done."""
    how = {"study_name": "shared", "storage": InMemoryStorage(), "load_if_exists": True}
    studies = [optuna.create_study(sampler=StepDirectSampler(k), **how) for k in range(n)]
    studies[0].optimize(objective, 1)
    return studies


def test_workers_leave_alone_what_others_are_at():
    studies = workers(4, grid)
    for _ in range(15):
        trials = [study.ask() for study in studies]
        values = [grid(trial) for trial in trials]
        for study, trial, value in zip(studies, trials, values, strict=True):
            study.tell(trial, value)
    assert distinct(points(studies[0])) == 61 and studies[0].best_value <= 1


def test_workers_that_begin_at_once_choose_differently():
    """Each has chosen before it sees the parameters of any other."""
    studies = workers(4, steps)
    for _ in range(3):
        trials = [study.ask() for study in studies]
        for trial in trials:
            trial.suggest_float("x0", -1, 2)
        for study, trial in zip(studies, trials, strict=True):
            study.tell(trial, steps(trial))
    assert distinct(points(studies[0])) == 13


def test_dead_workers_do_not_hold_up_the_others():
    """Some die before they have chosen, some after."""
    study, dying = workers(2, steps)
    for _ in range(3):
        dying.ask()
    study.optimize(steps, 10)
    tried, alone = [p for p in points(study) if p], points(run(steps, 11))
    assert len(tried) == 11 and all(p in alone for p in tried)
    for _ in range(3):
        steps(dying.ask())
    study.optimize(steps, 80)
    tried = [p for p in points(study) if p]
    assert len(tried) == distinct(tried) == 94 and study.best_value <= 3


def test_a_sampler_for_a_study_of_the_same_name_begins_anew():
    sampler = StepDirectSampler(seed=0)
    run(steps, 40, sampler, study_name="name")
    again = run(steps, 40, sampler, study_name="name")
    assert points(again) == points(run(steps, 40, StepDirectSampler(seed=0)))


def test_threads():
    study = run(steps, 1)
    study.optimize(steps, 60, n_jobs=2)
    assert all(t.state == TrialState.COMPLETE for t in study.trials)
    assert distinct(points(study)) == 61


def storage(kind, path):
    if kind == "sqlite":
        return f"sqlite:///{path}"
    return JournalStorage(JournalFileBackend(str(path)))


def work(path, ready) -> None:
    """Do a share of the trials in another process."""
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    study = optuna.load_study(
        study_name="shared", storage=storage("journal", path), sampler=StepDirectSampler()
    )
    ready.wait()
    study.optimize(grid, 20)


def test_processes_on_one_storage(tmp_path):
    study = run(grid, 1, study_name="shared", storage=storage("journal", tmp_path / "file"))
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(2, timeout=60)
    processes = [spawn.Process(target=work, args=(tmp_path / "file", ready)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    trials = study.trials
    assert len(trials) == 41 and all(t.state == TrialState.COMPLETE for t in trials)
    for one, other in combinations(trials, 2):
        apart = one.datetime_complete < other.datetime_start
        assert not apart or one.params != other.params
    assert study.best_value <= 3


# What is refused, and what is not imported.


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"seed": "a"}, ["seed is 'a'", "integer"]),
        ({"seed": -1}, ["seed is -1", "at least 0"]),
        ({"seed": 1.0}, ["seed is 1.0", "integer"]),
        ({"n_trials": 0}, ["n_trials is 0", "above 0"]),
        ({"settings": "paper"}, ["settings is 'paper'", "StepDirectSettings"]),
        ({"independent_sampler": "random"}, ["independent_sampler is 'random'", "Pass"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_arguments(wrong, parts):
    with pytest.raises(InputError, match=says(*parts)):
        StepDirectSampler(**wrong)


def test_several_objectives_are_refused():
    study = optuna.create_study(directions=["minimize"] * 2, sampler=StepDirectSampler())
    with pytest.raises(ValueError, match=says("multi-objective", "StepDirectSampler")):
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 0), 1)


def test_only_the_sampler_imports_optuna():
    code = "import sys, treeopt.tuning; print('optuna' in sys.modules)"
    assert python(code).stdout.strip() == "False"


def test_without_optuna_it_says_what_to_install():
    code = """
import sys
sys.modules["optuna"] = None
import treeopt.tuning
treeopt.tuning.StepDirectSampler
"""
    with pytest.raises(subprocess.CalledProcessError) as raised:
        python(code)
    last = raised.value.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: StepDirectSampler needs Optuna") and "[tuning]" in last
