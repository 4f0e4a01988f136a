"""Runs of `StepDirectSearchCV`: several jobs, failing fits, interruptions, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from tests.support.messages import says
from treeopt import InputError, StepDirectSettings
from treeopt.tuning import StepDirectSearchCV

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{said}")
    for said in ("One or more of the", "The scoring", "all fits of", "(?s).*fits failed")
]

FITS = {"done": 0, "at": 0, "do": None}
"""How many fits there were, and what to do instead of which of them."""


class Peak(BaseEstimator):
    """Its score is known: the best is at a = 0.3, b = 4, kind = "y". Some settings fail."""

    def __init__(self, a=0.0, b=0, kind="x", fails=None, n_jobs=None):
        self.a, self.b, self.kind, self.fails, self.n_jobs = a, b, kind, fails, n_jobs

    def fit(self, X, y=None, sample_weight=None):
        FITS["done"] += 1
        if FITS["done"] == FITS["at"]:
            FITS["do"]()
        if self.fails is not None and eval(self.fails, vars(self) | {"row": X[0, 0]}):
            raise ValueError("this fails as it should")
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y=None):
        return -abs(self.a - 0.3) - 0.1 * abs(self.b - 4) - (self.kind == "x") + row_mean(X) / 1e3


def row_mean(X):
    return float(X.to_numpy()[:, :1].mean() if hasattr(X, "to_numpy") else X[:, 0].mean())


X, Y = np.arange(30.0).reshape(10, 3), np.arange(10) % 2
SPACE = {"a": (0.0, 1.0), "b": (1, 9), "kind": ["x", "y"]}
N = 18


def search(fails=None, **how):
    how = {"n_evals": N, "batch_size": 4, "cv": KFold(2), "random_state": 0, **how}
    estimator = how.pop("estimator", Peak(fails=fails))
    return StepDirectSearchCV(estimator, how.pop("space", SPACE), **how)


def scores(found):
    """Return all results but the times."""
    return {k: v for k, v in found.cv_results_.items() if not k.endswith("_time")}


def check_same(one, other):
    np.testing.assert_equal(scores(one), scores(other))
    assert one.best_params_ == other.best_params_ and one.best_index_ == other.best_index_


def at_fit(number, do):
    FITS.update(done=0, at=number, do=do)


def interrupt():
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def no_interruptions():
    at_fit(0, None)
    yield
    at_fit(0, None)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.jsonl"


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


# Jobs.


def test_results_do_not_depend_on_jobs():
    expected = search().fit(X, Y)
    check_same(search(n_jobs=2).fit(X, Y), expected)
    check_same(search(n_jobs=2, pre_dispatch=1).fit(X, Y), expected)
    with joblib.parallel_backend("threading"):
        check_same(search(n_jobs=3).fit(X, Y), expected)
    assert len(expected.cv_results_["params"]) == N and expected.best_params_["kind"] == "y"


def test_results_do_not_depend_on_dask():
    distributed = pytest.importorskip("distributed")
    expected = search().fit(X, Y)
    how = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=False, **how) as cluster,
        distributed.Client(cluster),
        joblib.parallel_backend("dask"),
    ):
        check_same(search(n_jobs=-1).fit(X, Y), expected)


def test_candidates_come_in_batches(capsys):
    search(verbose=1, n_jobs=1).fit(X, Y)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Fitting")]
    assert [int(line.split("each of ")[1].split()[0]) for line in said] == [4, 4, 4, 4, 2]


def test_a_batch_is_what_counts():
    """Not how it is evaluated: candidates of a batch do not know each other's scores."""
    one, four = search(batch_size=1).fit(X, Y), search(batch_size=4).fit(X, Y)
    assert one.cv_results_["params"] != four.cv_results_["params"]
    set_there = search(settings=StepDirectSettings(batch=4)).fit(X, Y)
    check_same(set_there, four)


def test_jobs_need_not_know_the_run():
    """They get a copy of the search without it."""
    copies = []

    def score(estimator, X, y):
        copies.append(found.__getstate__().keys())
        return estimator.score(X, y)

    found = search(scoring=score)
    found.fit(X, Y, sample_weight=np.ones(10))
    own = {"_run", "_fit_params"}
    assert len(copies) == 2 * N and not any(own & copy for copy in copies)
    assert not own & vars(found).keys()


# Failing fits.


def test_candidates_that_fail():
    """They are said, have the score that was asked for, and the search goes on."""
    for error_score in (-7.0, np.nan):
        with pytest.warns(FitFailedWarning) as said:
            found = search(fails="b > 5", error_score=error_score).fit(X, Y)
        assert "fails as it should" in str(said[0].message)
        failed = np.array([p["b"] > 5 for p in found.cv_results_["params"]])
        assert failed.any() and not failed.all() and len(failed) == N
        for name in ("split0_test_score", "split1_test_score", "mean_test_score"):
            values = found.cv_results_[name]
            np.testing.assert_equal(values[failed], error_score)
            assert (values[~failed] > -2).all()
        ranks = found.cv_results_["rank_test_score"]
        assert ranks[failed].min() > ranks[~failed].max() and found.best_params_["b"] <= 5


@pytest.mark.parametrize("error_score", [-7.0, np.nan])
def test_batches_that_fail(error_score):
    """The centre of the space is the first batch."""
    with pytest.warns(
        FitFailedWarning, match=says("all fits of 1 candidates", "goes on", "should")
    ):
        found = search(
            fails="b > 3", batch_size=1, error_score=error_score, return_train_score=True
        ).fit(X, Y)
    assert found.cv_results_["params"][0]["b"] > 3
    for name in ("split0_test_score", "mean_test_score", "mean_train_score"):
        np.testing.assert_equal(found.cv_results_[name][0], error_score)
    assert found.best_params_["b"] <= 3 and len(found.cv_results_["params"]) == N


def test_failures_count_the_same_alone_and_with_others():
    """As if the estimator had had the score itself."""

    class Bad(Peak):
        def score(self, X, y=None):
            return -0.4 if self.b > 3 else super().score(X, y)

    for batch_size in (1, 4):
        how = {"batch_size": batch_size, "refit": False}
        failed = search(fails="b > 3", error_score=-0.4, **how).fit(X, Y)
        check_same(failed, search(estimator=Bad(), **how).fit(X, Y))


def test_some_splits_that_fail():
    with pytest.warns(FitFailedWarning, match="1 fits failed"):
        found = search(fails="b > 5 and row == 0").fit(X, Y)
    failed = np.array([p["b"] > 5 for p in found.cv_results_["params"]])
    means = [found.cv_results_[f"{name}_test_score"] for name in ("split0", "split1", "mean")]
    assert not np.isnan(means[0]).any()
    assert np.array_equal(np.isnan(means[1]), failed) and np.array_equal(np.isnan(means[2]), failed)


def test_all_fits_fail():
    for how in ({}, {"error_score": 0.0}, {"batch_size": N}, {"n_jobs": 2}):
        with pytest.raises(ValueError, match=says("All the", "fits failed", "fails as it should")):
            search(fails="True", **how).fit(X, Y)


def test_errors_are_raised_if_that_is_asked_for():
    for fails in ("b > 5", "True"):
        with pytest.raises(ValueError, match=r"^this fails as it should$"):
            search(fails=fails, error_score="raise").fit(X, Y)


def several(estimator, X, y):
    score = estimator.score(X, y)
    return {"one": score, "two": -score}


@pytest.mark.parametrize("fails", ["b > 5", "b > 3"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_failures_with_several_metrics(batch_size, fails):
    how = {"refit": "one", "error_score": -7.0, "batch_size": batch_size}
    found = search(fails, scoring=several, **how).fit(X, Y)
    failed = np.array([eval(fails, {}, p) for p in found.cv_results_["params"]])
    for name in ("one", "two"):
        assert np.array_equal(found.cv_results_[f"mean_test_{name}"] == -7, failed)
    by_name = {
        "one": lambda e, X, y: e.score(X, y),
        "two": lambda e, X, y: -e.score(X, y),
    }
    check_same(search(fails, scoring=by_name, **how).fit(X, Y), found)


def test_a_score_that_fails():
    def score(estimator, X, y):
        if estimator.b > 5:
            raise RuntimeError("no score")
        return estimator.score(X, y)

    with pytest.warns(UserWarning, match="Scoring failed"):
        found = search(scoring=score).fit(X, Y)
    failed = np.array([p["b"] > 5 for p in found.cv_results_["params"]])
    assert np.array_equal(np.isnan(found.cv_results_["mean_test_score"]), failed)
    with pytest.raises(RuntimeError, match="no score"):
        search(scoring=score, error_score="raise").fit(X, Y)


# Runs that go on.


def test_a_file_changes_no_result(file):
    found = search(checkpoint=file).fit(X, Y)
    check_same(found, search().fit(X, Y))
    head, *lines = lines_of(file)
    assert head["format"].startswith("treeopt") and len(lines) == N
    assert [line["params"] for line in lines] == [repr(p) for p in found.cv_results_["params"]]
    assert [p.name for p in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("fit", [1, 2, 8, 9, 20, 2 * N, 2 * N + 1])
def test_an_interrupted_run_goes_on(file, fit):
    at_fit(fit, interrupt)
    with pytest.raises(KeyboardInterrupt):
        search(checkpoint=file).fit(X, Y)
    written = lines_of(file)[1:]
    assert len(written) == (N if fit > 2 * N else (fit - 1) // 8 * 4)
    at_fit(0, None)
    found = search(checkpoint=file).fit(X, Y)
    fits = 2 * (N - len(written)) if len(written) < N else 2  # scikit-learn wants some
    assert FITS["done"] == fits + 1
    check_same(found, search().fit(X, Y))
    for k, line in enumerate(written):  # times as well
        for name in ("fit_time", "score_time"):
            times = [out[name] for out in line["outs"]]
            assert found.cv_results_[f"mean_{name}"][k] == np.mean(times)


def test_a_run_that_is_interrupted_again_and_again(file):
    for interruptions in range(99):
        at_fit(10, interrupt)
        try:
            found = search(checkpoint=file, n_jobs=1).fit(X, Y)
            break
        except KeyboardInterrupt:
            assert len(lines_of(file)) == 1 + 4 * (interruptions + 1)
    assert interruptions == 4
    at_fit(0, None)
    check_same(found, search().fit(X, Y))


KILLED = """
import os
from tests.tuning.test_search_cv_runs import at_fit, data_of, search
at_fit(11, lambda: os._exit(9))
search(checkpoint={file!r}).fit(*data_of({kind!r}))
"""


def data_of(kind):
    frame = pd.DataFrame({"n": np.arange(10.0), "word": list("abcde") * 2})
    frame["kind"] = frame["word"].astype("category")
    return {
        "array": (X, Y),
        "frame": (frame, frame["word"]),
        "sparse": (sparse.csr_matrix(X), Y),
    }[kind]


@pytest.mark.parametrize("kind", ["array", "frame", "sparse"])
def test_a_killed_run_goes_on(file, kind):
    """In another process, with the same data."""
    code = KILLED.format(file=str(file), kind=kind)
    env = os.environ | {"PYTHONHASHSEED": "1"}
    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", code], cwd=root, env=env, capture_output=True)
    assert ended.returncode == 9, ended.stderr
    assert len(lines_of(file)) == 5
    data = data_of(kind)
    check_same(search(checkpoint=file).fit(*data), search().fit(*data))
    assert FITS["done"] == 2 * (N - 4) + 1 + 2 * N + 1
    assert len(search(checkpoint=file).fit(*data).cv_results_["params"]) == N


def test_a_last_line_that_was_cut_off(file):
    expected = search(checkpoint=file).fit(X, Y)
    content = file.read_bytes()
    head = content.index(b"\n") + 1
    for size in (head, head + 1, head + 50, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        with warnings.catch_warnings(action="error"):
            check_same(search(checkpoint=file).fit(X, Y), expected)
        assert file.read_bytes().count(b"\n") == N + 1 and len(lines_of(file)) == N + 1


def test_a_larger_number_goes_beyond(file):
    """And a smaller one takes what is asked for; a number below a batch is no obstacle."""
    first = search(checkpoint=file).fit(X, Y)
    more = search(checkpoint=file, n_evals=2 * N + 1).fit(X, Y)
    assert FITS["done"] == 2 * (2 * N + 1) + 2
    assert more.cv_results_["params"][:N] == first.cv_results_["params"]
    assert len(more.cv_results_["params"]) == 2 * N + 1 and more.best_score_ >= first.best_score_
    less = search(checkpoint=file, n_evals=3).fit(X, Y)
    assert less.cv_results_["params"] == first.cv_results_["params"][:3]
    again = search(checkpoint=file).fit(X, Y)
    check_same(again, first)
    assert len(lines_of(file)) == 2 * N + 2


@pytest.mark.filterwarnings("ignore:the space has only")
def test_a_small_space_that_is_known(file):
    how = {"space": {"b": (1, 5)}, "checkpoint": file}
    first = search(**how).fit(X, Y)
    check_same(
        search(
            **how,
        ).fit(X, Y),
        first,
    )
    check_same(search(**how | {"n_evals": 2 * N}).fit(X, Y), first)
    assert len(lines_of(file)) == 6


@pytest.mark.parametrize("error_score", [np.nan, -7.0])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_failures_are_remembered(file, error_score, batch_size):
    how = {"fails": "b > 3", "error_score": error_score, "batch_size": batch_size}
    for fit in (5, 11):
        at_fit(fit, interrupt)
        with pytest.raises(KeyboardInterrupt):
            search(**how, checkpoint=file).fit(X, Y)
    at_fit(0, None)
    check_same(search(**how, checkpoint=file).fit(X, Y), search(**how).fit(X, Y))


def test_a_run_whose_fits_all_failed(file):
    """Is over, but not lost: where others work, it goes on."""
    fails = "not (kind == 'y' and a < 0.2)"
    with pytest.raises(ValueError, match="fits failed"):
        search(fails, checkpoint=file, n_evals=1).fit(X, Y)
    with pytest.raises(InputError, match=says("run.jsonl", "all failed", "larger n_evals")):
        search(fails, checkpoint=file, n_evals=1).fit(X, Y)
    more = search(fails, checkpoint=file, n_evals=2 * N).fit(X, Y)
    assert np.isnan(more.cv_results_["mean_test_score"][0]) and more.best_params_["kind"] == "y"


def test_an_error_that_is_raised_loses_nothing(file):
    """The run goes on, also with another ``error_score``."""

    def fail():
        raise ValueError("this fails as it should")

    at_fit(11, fail)
    with pytest.raises(ValueError, match=r"^this fails as it should$"):
        search(checkpoint=file, error_score="raise").fit(X, Y)
    assert len(lines_of(file)) == 5
    at_fit(0, None)
    for error_score in (np.nan, "raise"):
        found = search(checkpoint=file, error_score=error_score).fit(X, Y)
        check_same(found, search().fit(X, Y))


def single(estimator, X, y):
    return np.float32(estimator.score(X, y))


def whole(estimator, X, y):
    return np.int64(-10 * abs(estimator.b - 4))


def endless(estimator, X, y):
    return -np.inf if estimator.b > 5 else estimator.score(X, y)


@pytest.mark.filterwarnings("ignore:One or more", "ignore:invalid value")
@pytest.mark.parametrize("scoring", [single, whole, endless, several])
def test_scores_are_read_as_they_were(file, scoring):
    how = {"scoring": scoring, "refit": "one" if scoring is several else True}
    at_fit(30, interrupt)
    with pytest.raises(KeyboardInterrupt):
        search(**how, return_train_score=True, checkpoint=file).fit(X, Y)
    at_fit(0, None)
    found = search(**how, return_train_score=True, checkpoint=file).fit(X, Y)
    check_same(found, search(**how, return_train_score=True).fit(X, Y))


def test_without_a_seed_the_one_of_the_file_serves(file):
    at_fit(2 * N - 1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        search(checkpoint=file, random_state=None).fit(X, Y)
    known = [line["params"] for line in lines_of(file)[1:]]
    at_fit(0, None)
    for seed in (None, np.random.RandomState(1)):
        found = search(checkpoint=file, random_state=seed).fit(X, Y)
        assert [repr(p) for p in found.cv_results_["params"]][: len(known)] == known
    with pytest.raises(InputError, match=says("run.jsonl", "another seed", "random_state is 3")):
        search(checkpoint=file, random_state=3).fit(X, Y)


@pytest.mark.parametrize(
    "other",
    [
        {"refit": False},
        {"n_jobs": 2},
        {"verbose": 1},
        {"pre_dispatch": "all"},
        {"estimator": Peak(n_jobs=3)},
        {"error_score": "raise"},
        {"cv": [*KFold(2).split(X)]},
        {"random_state": np.int64(0)},
    ],
)
def test_what_may_be_otherwise(file, other):
    expected = search(checkpoint=file).fit(X, Y)
    check_same(search(checkpoint=str(file), **other).fit(X, Y), expected)
    assert FITS["done"] <= 2 * N + 1 + 3


# What is refused.


def length(estimator, X, y):
    return float(len(X))


@pytest.mark.parametrize(
    ("other", "parts"),
    [
        ({"space": {**SPACE, "a": (0.0, 2.0)}}, ["space['a'] is Real(", "1.0", "now", "2.0"]),
        ({"space": {**SPACE, "b": (1.0, 9.0)}}, ["space['b'] is Integer(", "now", "Real("]),
        ({"space": {**SPACE, "kind": ["y", "x"]}}, ["space['kind']", "'x', 'y'", "'y', 'x'"]),
        ({"space": {"a": (0.0, 1.0)}}, ["space is ('a', 'b', 'kind')", "now it is ('a',)"]),
        ({"settings": StepDirectSettings.paper()}, ["settings is", "now it is"]),
        ({"weights": [1, 2, 3]}, ["weights is None", "[1, 2, 3]"]),
        ({"batch_size": 3}, ["batch_size is 4", "now it is 3"]),
        ({"estimator": Peak(a=0.5)}, ["estimator__a is 0.0", "now it is 0.5"]),
        ({"estimator": SVC(), "space": SPACE}, ["no parameter of SVC"]),
        ({"scoring": length}, ["scoring is None", "length"]),
        ({"scoring": several, "refit": "one"}, ["scoring is None", "several"]),
        ({"error_score": 0.0}, ["error_score is nan", "0.0"]),
        ({"return_train_score": True}, ["return_train_score is False", "True"]),
        ({"random_state": 1}, ["another seed", "random_state is 1"]),
        ({"cv": KFold(5)}, ["other data or splits", "Name another file"]),
        ({"cv": ShuffleSplit(2)}, ["other data or splits", "random_state"]),
    ],
)
def test_another_search(file, other, parts):
    search(checkpoint=file, n_evals=4).fit(X, Y)
    content = file.read_bytes()
    with pytest.raises(InputError, match=says(*parts)):
        search(checkpoint=file, **other).fit(X, Y)
    assert file.read_bytes() == content and FITS["done"] == 9


def test_other_data(file):
    search(checkpoint=file, n_evals=4).fit(X, Y)
    bumped = X.copy()
    bumped[3, 1] += 1e-9
    for wrong in ((bumped, Y), (X, 1 - Y), (X, None), (X[:8], Y[:8])):
        with pytest.raises(InputError, match=says("run.jsonl", "other data", "another file")):
            search(checkpoint=file).fit(*wrong)
    with pytest.raises(InputError, match="other data"):
        search(checkpoint=file).fit(X, Y, sample_weight=np.ones(10))
    assert FITS["done"] == 9


def test_estimators_that_differ_only_in_small_print(file):
    """They are told apart however long their description is."""

    def run(smoothing=1e-9, middle=0.5):
        line = np.linspace(0, 1, 2000)
        line[1000] = middle
        steps = [(f"step{k}", StandardScaler()) for k in range(40)]
        steps += [("array", FunctionTransformer(inv_kw_args={"line": line}))]
        pipe = Pipeline([*steps, ("last", GaussianNB(var_smoothing=smoothing))])
        how = {"n_evals": 4, "checkpoint": file, "scoring": length}
        return search(estimator=pipe, space={"step0__with_mean": [True, False]}, **how).fit(X, Y)

    with pytest.warns(UserWarning, match="only 2 candidates"):
        run()
    for other, name in {"smoothing": "last__var_smoothing", "middle": "array__inv_kw_args"}.items():
        with pytest.raises(InputError, match=says(f"search whose estimator__{name} is", "now")):
            run(**{other: 0.25})


def test_functions_are_known_by_their_names(file):
    """Not by their places in memory, which are others in another process."""

    def made():
        def squared(X):
            return X**2

        return squared

    for function in (made(), made()):
        pipe = make_pipeline(FunctionTransformer(function), GaussianNB())
        space = {
            "functiontransformer__func": [function, None],
            "gaussiannb__var_smoothing": (0.1, 1.0),
        }
        search(estimator=pipe, space=space, checkpoint=file, n_evals=4, scoring=length).fit(X, Y)
    assert len(lines_of(file)) == 5


def test_parameters_of_fit_that_cannot_be_pickled(file):
    class Asks(Peak):
        def fit(self, X, y, call=None, row=None):
            return super().fit(X, y)

    def run(**params):
        return search(estimator=Asks(), checkpoint=file, n_evals=4).fit(X, Y, **params)

    check_same(run(call=lambda: 1), run(call=lambda: 1))
    with pytest.raises(InputError, match="other data"):
        run(call=max)
    assert len(lines_of(file)) == 5


def test_sets_have_no_order(file):
    search(estimator=Peak(kind={"z", "y", "x"}), checkpoint=file, n_evals=1).fit(X, Y)
    assert lines_of(file)[0]["about"]["estimator__kind"] == "['x', 'y', 'z']"


@pytest.mark.parametrize(
    "content", [b"mine", b"mine\n", b"{}\n", b"[1]\n", b'{"format": 3}\n', b"\x80\x04K\x01.\n\xff"]
)
def test_files_that_are_none_of_a_search(file, content):
    file.write_bytes(content)
    with pytest.raises(
        InputError, match=says("checkpoint is", "run.jsonl", "not a file", "another")
    ):
        search(checkpoint=file).fit(X, Y)
    assert file.read_bytes() == content and not FITS["done"]


def test_an_empty_file_is_begun(file):
    file.touch()
    check_same(search(checkpoint=file).fit(X, Y), search().fit(X, Y))
    assert len(lines_of(file)) == N + 1


def test_a_damaged_file(file):
    expected = search(checkpoint=file).fit(X, Y)
    lines = file.read_bytes().splitlines(keepends=True)
    for damage in (b"\n", b"{}\n", b'{"params": "\n', b"\xff\xfe\n"):
        file.write_bytes(b"".join([*lines[:5], damage, *lines[6:]]))
        with pytest.raises(InputError, match=says("run.jsonl", "line 6 is damaged", "Remove")):
            search(checkpoint=file).fit(X, Y)
    file.write_bytes(b"".join(lines[:5]))  # as the message says
    check_same(search(checkpoint=file).fit(X, Y), expected)


@pytest.mark.parametrize("lacks", ["about", "begun", "data", "seed"])
def test_a_damaged_first_line(lacks, file):
    search(checkpoint=file).fit(X, Y)
    first, rest = file.read_bytes().split(b"\n", 1)
    head = json.loads(first)
    (head["begun"] if lacks == "seed" else head).pop(lacks)
    file.write_bytes(json.dumps(head).encode() + b"\n" + rest)
    with pytest.raises(InputError, match=says("run.jsonl", "first line is damaged", "another")):
        search(checkpoint=file).fit(X, Y)


def test_two_searches_do_not_share_a_file(file):
    at_fit(2 * N - 4, lambda: file.write_bytes(file.read_bytes() + b"{}\n"))
    with pytest.raises(InputError, match=says("run.jsonl", "another search writes", "another")):
        search(checkpoint=file).fit(X, Y)


@pytest.mark.parametrize("several", [False, True])
def test_another_function_is_another_scoring(several, file):
    def by(score):
        return {"scoring": {"s": score}, "refit": "s"} if several else {"scoring": score}

    search(checkpoint=file, **by(lambda e, X, y: e.score(X, y))).fit(X, Y)
    search(checkpoint=file, **by(lambda e, X, y: e.score(X, y))).fit(X, Y)
    with pytest.raises(InputError, match=says("run.jsonl", "scoring is", "now it is")):
        search(checkpoint=file, **by(lambda e, X, y: -e.score(X, y))).fit(X, Y)


def test_a_file_with_other_candidates(file):
    search(checkpoint=file).fit(X, Y)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:4], lines[3], *lines[4:]]))  # one line twice
    with pytest.raises(
        InputError, match=says("run.jsonl", "candidate 3 is", "proposes", "another")
    ):
        search(checkpoint=file).fit(X, Y)


def test_places_where_no_file_can_be(tmp_path):
    for path, parts in {
        tmp_path / "no" / "run.jsonl": ["no folder", "Make it"],
        tmp_path: ["a folder", "Name a file"],
        3: ["3", "name of a file"],
    }.items():
        with pytest.raises(InputError, match=says("checkpoint is", *parts)):
            search(checkpoint=path).fit(X, Y)
    assert not FITS["done"]


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"space": [SPACE]}, ["space is [", "one mapping"]),
        ({"space": {}}, ["space is empty", "at least one"]),
        ({"space": {3: (0, 1)}}, ["space has the key 3", "strings"]),
        ({"space": {"a": (0.0, 1.0, "log")}}, ["space['a']", "no logarithm", "above 0"]),
        ({"space": {"a": (2.0, 1.0)}}, ["space['a']", "low is larger", "Swap"]),
        ({"space": {"a": (0.0, np.inf)}}, ["space['a']", "high is inf", "finite"]),
        ({"space": {"kind": []}}, ["space['kind'] is []", "options is empty"]),
        ({"space": {"b": range(3, 3)}}, ["space['b']", "empty"]),
        ({"space": {"a": 1}}, ["space['a'] is 1", "(low, high)"]),
        ({"space": {"kind": "x,y"}}, ["space['kind'] is 'x,y'", "list of choices"]),
        ({"space": {"bb": (0, 1)}}, ["space names 'bb'", "no parameter of Peak", "b"]),
        ({"space": {"a__b": (0, 1)}}, ["space names 'a__b'", "no parameter of Peak"]),
        ({"n_evals": 0}, ["n_evals is 0", "above 0"]),
        ({"n_evals": 1e3}, ["n_evals is 1000.0", "integer"]),
        ({"batch_size": 0}, ["batch_size is 0", "above 0"]),
        ({"batch_size": "auto"}, ["batch_size is 'auto'", "integer"]),
        ({"settings": "paper"}, ["settings is 'paper'", "StepDirectSettings"]),
        ({"weights": [1, 2]}, ["weights has shape (2,)", "3"]),
        ({"weights": {"a": 1}}, ["weights is", "each parameter"]),
        ({"objective": "auc"}, ["objective is 'auc'", "one metric"]),
        ({"estimator": 3}, ["estimator", "fit"]),
        ({"error_score": "nonsense"}, ["error_score", "'raise'"]),
        ({"cv": "nonsense"}, ["cv"]),
        (
            {"refit": "nonsense", "scoring": ["r2", "neg_mean_squared_error"]},
            ["refit", "scorer key"],
        ),
    ],
)
def test_wrong_arguments(wrong, parts):
    """They are refused before anything is fitted."""
    with pytest.raises(ValueError, match=says(*parts)):
        search(**wrong).fit(X, Y)
    assert not FITS["done"]


def test_names_of_parts():
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    wrong = {"logisticregression__c": (0.1, 1.0)}
    with pytest.raises(InputError, match=says("logisticregression__c", "logisticregression__C")):
        search(estimator=pipe, space=wrong).fit(X, Y)
    steps = {"standardscaler": ["passthrough", StandardScaler()]}
    known_later = {**steps, "standardscaler__nonsense": [True]}
    with pytest.raises(ValueError, match="nonsense"):
        search(estimator=pipe, space=known_later).fit(X, Y)
