"""The scripts of the paper's second half: splits, errors by look-up, rows, reports and claims."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from tests.bench.test_bench_tables import tables
from tests.support.data import needs

pd = pytest.importorskip("pandas")

LOGISTIC = "Synth one-vs-all logistic regression"


@pytest.fixture(scope="module")
def problems(bench, tmp_path_factory):
    """Return the module of the problems, with a cache of its own."""
    module = bench("tuning_problems")
    patch = pytest.MonkeyPatch()
    patch.setattr(module, "CACHE", tmp_path_factory.mktemp("cache"))
    yield module
    patch.undo()


# Data and errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["Synth", "diabetes", "statlog", pytest.param("PenDigits", marks=needs("pendigits"))],
)
def test_splits_are_3_1_1_scaled_and_disjoint(name, bench):
    data = bench("tuning_data").DATA[name]
    split, again, other = (data.split(seed) for seed in (3, 3, 4))
    sizes = np.array([len(part.y) for part in split])
    assert np.abs(sizes / sizes.sum() - [0.6, 0.2, 0.2]).max() < 0.002
    assert split.fit.X.min() == 0 and split.fit.X.max() == 1
    shares = [np.bincount(part.y) / len(part.y) for part in split]
    assert np.ptp(shares, axis=0).max() < 0.01, "classes are spread evenly"
    assert all(np.array_equal(a.X, b.X) for a, b in zip(split, again, strict=True))
    assert not np.array_equal(split.fit.X, other.fit.X)
    rows = [{row.tobytes() for row in part.X} for part in split]
    whole = len(set().union(*rows))
    repeated = sum(map(len, rows)) - whole
    assert repeated <= 0.02 * whole, "no row is in two parts, but for those the data repeat"


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@pytest.mark.parametrize("learner", ["SVM", "logistic regression"])
@pytest.mark.parametrize("scheme", ["one-vs-all", "one-vs-one"])
def test_errors_are_those_of_classifiers_fitted_anew(scheme, learner, problems):
    oracle = problems.CASES[f"Synth {scheme} {learner}"].oracle(0)
    setting = np.array([60, 120, 150])
    (X, y), parts = oracle.split.fit, (oracle.split.validation, oracle.split.test)

    def fitted(C, X, y):
        if learner == "SVM":
            return LinearSVC(C=C, loss="hinge", random_state=0).fit(X, y)
        return LogisticRegression(C=C, solver="newton-cholesky").fit(X, y)

    assert oracle.shape == (241, 241, 241)
    C = 10.0 ** (setting / 40 - 3)
    for which, part in enumerate(parts):
        votes = np.zeros((len(part.y), 3))
        if scheme == "one-vs-all":
            for k in range(3):
                votes[:, k] = fitted(C[k], X, y == k).decision_function(part.X)
        else:
            for c, (i, j) in zip(C, combinations(range(3), 2), strict=True):
                rows = (y == i) | (y == j)
                first = fitted(c, X[rows], y[rows] == i).predict(part.X)
                votes[first, i] += 1
                votes[~first, j] += 1
        wrong = np.mean(votes.argmax(axis=1) != part.y)
        assert oracle.error(setting, which) == pytest.approx(wrong, abs=1.5 / len(part.y))


def test_errors_of_the_gaussian_kernel_are_kept(problems):
    case = problems.CASES["diabetes RBF-SVM"]
    oracle, setting = case.oracle(1), np.array([130, 140, 90])
    weights = {0: 1, 1: 10 ** (90 / 40 - 2)}
    model = SVC(C=10 ** (130 / 40 - 3), gamma=10 ** (140 / 40 - 6), class_weight=weights)
    score = model.fit(*oracle.split.fit).score(*oracle.split.validation)
    assert oracle.error(setting, problems.VALIDATION) == 1 - score
    oracle.close()
    assert case.oracle(1).known == oracle.known and len(oracle.known) == 1


def test_trainings_are_counted_once(problems):
    oracle = problems.CASES[LOGISTIC].oracle(0)
    assert oracle.trainings(np.array([[1, 2, 3], [1, 2, 4], [1, 5, 3]])) == 1 + 2 + 2
    rbf = problems.RbfSvm
    assert rbf.trainings(oracle, np.array([[1, 2, 3], [1, 2, 3], [1, 5, 3]])) == 2


def test_all_values_have_equal_shares(problems):
    oracle, seen = problems.CASES[LOGISTIC].oracle(0), []
    problem = oracle.problem("name", seen)
    U = np.array([[0.0, 0.5, 1.0], [1 / 241, 240 / 241, 0.999]])
    values = problem.fun(U)
    assert np.array_equal(seen, [[0, 120, 240], [1, 240, 240]])
    assert list(values) == [oracle.error(s, problems.VALIDATION) for s in seen]
    assert problem.fun(problem.place(np.array(seen))).tolist() == values.tolist()


# The tables --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuning_run(bench, problems, tmp_path_factory):
    """Run two cases on two splits with the fast methods; return the folder, arguments, text."""
    folder = tmp_path_factory.mktemp("tuning")
    arguments = ["--quick", "--seeds", "2", "--jobs", "1", "--out", str(folder)]
    arguments += ["--problems", LOGISTIC, "diabetes RBF-SVM", "--methods", "random search"]
    arguments += ["grid search", "one C for all", "DIRECT", "GP-EI (scikit-learn)"]
    arguments += ["StepDIRECT (paper)", "StepDIRECT (default)"]
    bench("tuning_tables").main(arguments)
    return folder, arguments, (folder / "tuning_tables_quick.md").read_text(encoding="utf-8")


def test_tuning_tables_have_every_row(tuning_run, bench):
    folder, _, text = tuning_run
    data = pd.read_csv(folder / "tuning_tables_quick.csv")
    assert tuple(data.columns) == bench("tuning_tables").COLUMNS
    assert (
        data.notna().all(axis=None)
        and not data.duplicated(["case", "split", "method", "budget"]).any()
    )
    several = data[data["case"] == LOGISTIC]
    assert set(several["budget"]) == {100, 300} and set(several["split"]) == {0, 1}
    assert "grid search" not in set(several["method"]) and "one C for all" in set(several["method"])
    ends = np.where(data["method"] == "one C for all", 241, 10**9)
    assert (data["nfev"] == np.minimum(data["budget"], ends)).all()
    assert (data["trainings"] <= data["nfev"] * data["p"]).all()
    ours = data[data["method"] == "StepDIRECT (default)"]
    assert (ours[ours["case"] != LOGISTIC]["trainings"] == 125).all(), "no setting is tried twice"
    wide = several.pivot_table(index=["split", "method"], columns="budget", values="validation")
    same = wide.drop(index=["GP-EI (scikit-learn)"], level="method").dropna()
    assert (same[300] >= same[100]).loc[:, ["random search", "DIRECT"], :].all()
    for heading in ("## Results of the default", "## Base trainings", "## The paper's order"):
        assert heading in text


def test_tuning_tables_resume(tuning_run, bench):
    folder, arguments, text = tuning_run
    path = folder / "tuning_tables_quick.csv"
    whole = path.read_text(encoding="utf-8")
    lines = whole.splitlines(keepends=True)
    path.write_text("".join(lines[:-3]) + lines[-3][:20], encoding="utf-8")
    bench("tuning_tables").main(arguments)
    assert sorted(path.read_text(encoding="utf-8").splitlines()) == sorted(whole.splitlines())
    assert (folder / "tuning_tables_quick.md").read_text(encoding="utf-8") == text


def test_tuning_report_says_what_the_rows_say(tuning_run):
    folder, _, text = tuning_run
    data = pd.read_csv(folder / "tuning_tables_quick.csv")
    found = {row[0]: row for t in tables(text) for row in t if row[0] == "diabetes, 125"}
    part = data[(data["case"] == "diabetes RBF-SVM") & (data["method"] == "StepDIRECT (default)")]
    assert f"{100 * part['test'].mean():.2f}" in found["diabetes, 125"][-1]


@pytest.mark.parametrize("gain, verdict", [(0.0, "best mean"), (0.05, "ahead of the default")])
def test_verdicts_tell_when_a_peer_is_ahead(gain, verdict, bench):
    report, rng = bench("tuning_report"), np.random.default_rng(0)
    base = 0.8 + 0.01 * rng.random(20)
    scores = {"StepDIRECT (default)": base, "DIRECT": base - 0.02, "(1+1)": base + gain - 1e-3}
    rows = [
        {"case": "diabetes RBF-SVM", "budget": 125, "split": s, "method": m, "validation": v[s]}
        for m, v in scores.items()
        for s in range(20)
    ]
    data = pd.DataFrame(rows)
    text = "\n".join(report.verdicts(data.assign(method=data["method"].astype("category"))))
    assert verdict in text
    assert ("in 0. The exceptions are:" in text) == ("(1+1)" in text) == (gain > 0)


def test_intervals_are_student_s(bench):
    from scipy.stats import ttest_1samp

    x = pd.Series([0.3, -0.1, 0.4, 0.2])
    mean, half = bench("tuning_report").interval(x)
    low, high = ttest_1samp(x, 0).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((low, high))


def test_missing_data_are_named_and_left_out(bench, monkeypatch, tmp_path, capsys):
    for variable in ("TREEOPT_DATA", "SCIKIT_LEARN_DATA"):
        monkeypatch.setenv(variable, str(tmp_path))
    cases = ["Synth one-vs-one SVM", "fourclass RBF-SVM", "statlog RBF-SVM"]
    assert bench("tuning_tables").at_hand(cases) == [cases[0], cases[2]]
    assert "omitted" in (text := capsys.readouterr().err) and "fourclass" in text


# The landscape and the cost ----------------------------------------------------------------------


def test_the_landscape_has_steps(bench, tmp_path):
    bench("tuning_landscape").main(["--quick", "--out", str(tmp_path)])
    data = pd.read_csv(tmp_path / "tuning_landscape_quick.csv")
    assert len(data) == 121 and data["C"].min() == 1e-3 and data["C"].max() == 1e3
    steps = data["validation"] * data["n_rows"]
    assert np.allclose(steps, steps.round()) and data["validation"].nunique() < 40
    assert (tmp_path / "tuning_landscape_quick.png").stat().st_size > 10_000


def test_the_cost_of_a_proposal_is_reported(bench, tmp_path):
    bench("tuning_cost").main(["--quick", "--problems", "mixed", "--out", str(tmp_path)])
    data = pd.read_csv(tmp_path / "tuning_cost_quick.csv")
    assert set(data["method"]) == set(bench("tuning_cost").METHODS)
    assert (data["median"] > 0).all() and (data["known"] == 100).all()
