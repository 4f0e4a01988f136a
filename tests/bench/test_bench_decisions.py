"""The benchmark of decisions: its questions, its judgement of methods, and its page."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.test_bench_tables import tables

pd = pytest.importorskip("pandas")
pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")

OWN, ORACLE = "treeopt", "Mišić + HiGHS"
FOREST, CHEAPEST = "boston RF 100 rows costs min", "mpg LGBM 100 cheapest"
SUM, FLIP = "mpg RF 100 + XGB 100×4 min", "cancer XGB 100×3 flip 2"
ALONE = ("mpg RF 100 alone min", "mpg XGB 100×4 alone min")


# Questions ---------------------------------------------------------------------------------------


def test_questions_are_those_of_the_aims(bench):
    instances = bench("decisions_instances").INSTANCES
    question = instances[FOREST].ask()
    ((_, forest),) = question.models
    assert len(forest.estimators_) == 100 and forest.max_depth is None
    assert question.rows.matrix.shape == (3, 13) and np.count_nonzero(question.prices) == 2
    for data in ("boston", "mpg"):
        for kind in ("RF 100", "XGB 100×4", "LGBM 100"):
            question = instances[f"{data} {kind} cheapest"].ask()
            model, limit = question.atleast
            assert limit == pytest.approx(np.quantile(model.predict(question.X), 0.9), rel=1e-5)
            assert model.n_estimators == 100 and np.all(question.prices)
    assert model.num_leaves == 31
    for k in (1, 2, 3):
        question = instances[f"cancer XGB 100×3 flip {k}"].ask()
        model, limit = question.atleast
        assert model.predict(question.row[None])[0] == 0 and limit == 0.5
        assert (model.n_estimators, model.max_depth) == (100, 3)


def test_short_form_has_an_instance_of_every_family(bench):
    module = bench("decisions_instances")
    every = {instance.family for instance in module.INSTANCES.values()}
    assert {module.INSTANCES[name].family for name in module.QUICK} == every


# Judging -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def question(bench):
    """A question that every method but treecf can express, on small models."""
    module = bench("decisions_instances")
    X, y = module.mpg()
    forest = module.forest(4, 3)().fit(X, y)
    boosted = module.xgboost(4, 2)().fit(X, y)
    limit = float(module.rounded(np.quantile(boosted.predict(X), 0.6)))
    rows, prices = module.three_rows("mpg", X), module.two_prices("mpg", X, y)
    models = ((0.5, forest), (0.25, boosted))
    return module.Question(X, "min", models, prices, rows=rows, atleast=(boosted, limit))


PACKAGES = {ORACLE: "scipy", "OMLT + HiGHS": "omlt", "PySCIPOpt-ML": "pyscipopt_ml"}


@pytest.mark.parametrize("name", PACKAGES)
def test_peers_answer_the_same_question(name, question, bench):
    pytest.importorskip(PACKAGES[name])
    methods, module = bench("decisions_peers").METHODS, bench("decisions")
    own, peer = (
        method.search(question, method.convert(question), 60.0)
        for method in (methods[OWN], methods[name])
        if not method.warm(question, 1.0)
    )
    assert own.status == peer.status == "optimal"
    assert peer.claimed == pytest.approx(own.claimed, abs=2 * module.tolerance(question))
    assert module.checked(question, own)["remark"] == ""
    assert module.checked(question, peer)["remark"] != module.UNEXPLAINED


def test_treecf_finds_the_same_change(question, bench):
    pytest.importorskip("treecf")
    module = bench("decisions_instances")
    asked = module.Question(
        question.X, "min", row=question.X[0], atleast=(question.models[1][1], 25.0)
    )
    methods = bench("decisions_peers").METHODS
    assert methods["treecf"].cannot(question) and not methods["treecf"].cannot(asked)
    own, peer = (
        methods[name].search(asked, methods[name].convert(asked), 60.0) for name in (OWN, "treecf")
    )
    assert own.status == peer.status == "optimal" and own.claimed > 0
    assert peer.claimed == pytest.approx(own.claimed, abs=1e-5)


def test_a_claim_that_is_not_real_is_found(question, bench):
    peers, module = bench("decisions_peers"), bench("decisions")
    method = peers.METHODS[OWN]
    good = method.search(question, method.convert(question), 60.0)
    assert module.checked(question, good)["value"] == good.claimed
    replace = bench("dataclasses").replace
    lie = replace(good, claimed=good.claimed - 1000)
    assert module.checked(question, lie)["remark"] == module.UNEXPLAINED
    outside = good.x.copy()
    outside[0] = question.bounds[0, 1] + 1
    found = module.checked(question, replace(good, x=outside, claimed=question.value(outside)))
    assert found["bounds off"] > 0 and found["remark"] == module.UNEXPLAINED


def test_a_point_on_a_split_is_explained(question, bench):
    """One tree; the claim is the value on the other side of the split."""
    module, instances = bench("decisions"), bench("decisions_instances")
    X = question.X
    stump = instances.forest(1, 1)().fit(X, instances.mpg()[1])
    tree = stump.estimators_[0].tree_
    x = X.mean(axis=0)
    x[tree.feature[0]] = tree.threshold[0]
    asked = instances.Question(X, "min", ((1.0, stump),))
    here, there = tree.value[1, 0, 0], tree.value[2, 0, 0]
    assert asked.value(x) == here
    answer = bench("decisions_peers").Answer("optimal", there, there, x)
    assert module.checked(asked, answer)["remark"] == f"1 inputs {module.ON_SPLITS}"
    answer = bench("decisions_peers").Answer("optimal", there + 1, there + 1, x)
    assert module.checked(asked, answer)["remark"] == module.UNEXPLAINED


# The page ----------------------------------------------------------------------------------------


def made(bench, tmp_path, change=lambda data: data):
    """Write rows of a known run, and return their path."""
    instances, columns = bench("decisions_instances").INSTANCES, bench("decisions").COLUMNS
    rows = []

    def add(name, method, seconds, value=10.0, **more):
        row = dict.fromkeys(columns, 0) | {"instance": name, "method": method}
        row |= {"family": instances[name].family, "sense": "min", "status": "optimal"}
        row |= {"seconds": seconds, "conversion": 0.01, "tolerance": 1e-6, "limit": 60.0}
        row |= dict.fromkeys(("claimed", "bound", "value"), value) | {"remark": ""}
        row |= {"versions": "treeopt 0", "machine": "none", "date": "2026-01-01"}
        rows.append(row | more)

    add(FOREST, OWN, 0.1)
    add(FOREST, ORACLE, 40.0)
    add(CHEAPEST, OWN, 6.0)
    add(CHEAPEST, ORACLE, 60.0, status="time limit", bound=9.0)
    add(SUM, OWN, 0.4)
    add(ALONE[0], OWN, 0.1)
    add(ALONE[1], OWN, 0.05)
    add(FLIP, OWN, 60.0, status="time limit", bound=9.0)
    add(FLIP, ORACLE, 1.0)
    data = change(pd.DataFrame(rows, columns=columns))
    path = tmp_path / "decisions.csv"
    data.to_csv(path, index=False)
    return path


def at(data, name, method):
    return (data["instance"] == name) & (data["method"] == method)


def test_page_says_which_aims_are_missed(bench, tmp_path):
    path = made(bench, tmp_path)
    page = bench("decisions_report").report(path)
    assert path.with_suffix(".md").read_text(encoding="utf-8") == page
    assert "Disagreements" not in page
    aims = {row[0]: row[1:] for row in tables(page.split("## Aims")[1])[0]}
    assert aims[f"{FOREST} proven"] == ["< 0.2 s", "100 ms", "yes"]
    assert aims["boston RF 100 rows costs max proven"] == ["< 0.2 s", "–", "not run"]
    assert aims[f"{CHEAPEST} proven"] == ["< 5 s", "6 s", "✗ no"]
    assert aims[f"{SUM}, relative to the slower alone"] == ["≤ 5×", "4.00×", "yes"]
    assert aims[f"{FLIP} proven"] == ["< 10 s", "not proven", "✗ no"]
    ratio = aims["faster than the best of all peers, geometric mean"]
    assert ratio == ["≥ 20×", "400.0× (1 instances)", "yes"], "only what both prove counts"
    missed = f"3 of 5 measured aims are reached; missed: {CHEAPEST} proven; {FLIP} proven."
    assert missed in page and "11 aims were not measured." in page
    best = tables(page.split("## Ratios of times to proof")[1])[0][1]
    assert best[:4] == ["best of all peers", "3", "1", "1"]


def test_a_slow_sum_and_a_fast_peer_miss_their_aims(bench, tmp_path):
    def slower(data):
        data.loc[at(data, SUM, OWN), "seconds"] = 0.6
        data.loc[at(data, FOREST, ORACLE), "seconds"] = 1.9
        return data

    report = bench("decisions_report")
    data = report.read(made(bench, tmp_path, slower))
    found = {what: (text, ok) for what, _, text, ok in report.aims(data)}
    assert found[f"{SUM}, relative to the slower alone"] == ("6.00×", False)
    assert found["faster than the best of all peers, geometric mean"] == (
        "19.0× (1 instances)",
        False,
    )


def test_a_wrong_proof_of_a_peer_does_not_count(bench, tmp_path):
    def wrong(data):
        data.loc[at(data, FOREST, ORACLE), ["claimed", "bound"]] = 9.0
        data.loc[at(data, FOREST, ORACLE), "remark"] = "2 inputs on splits"
        return data

    page = bench("decisions_report").report(made(bench, tmp_path, wrong))
    assert "40 s ‡" in page and "“proven”, wrong" in page


WRONG = {
    "a point that nothing explains": (FOREST, ORACLE, {"remark": "unexplained"}),
    "a value of treeopt that is not the model's": (FOREST, OWN, {"value": 10.0 + 1e-7}),
    "a point of treeopt that violates a row": (FOREST, OWN, {"rows off": 1e-12}),
    "a bound of treeopt that a peer's point excludes": (FOREST, ORACLE, {"value": 9.5}),
    "a bound of a peer that treeopt's point excludes": (CHEAPEST, ORACLE, {"bound": 10.5}),
    "no point, where treeopt has one": (
        FOREST,
        ORACLE,
        {"status": "infeasible"}
        | dict.fromkeys(("claimed", "bound", "value"), np.nan)
        | dict.fromkeys(("bounds off", "rows off", "limit off"), np.nan),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_disagreements_fail(what, bench, tmp_path):
    name, method, cells = WRONG[what]

    def spoiled(data):
        data = data.astype({"value": float, "rows off": float})
        for column, value in cells.items():
            data[column] = data[column].where(~at(data, name, method), value)
        return data

    path = made(bench, tmp_path)
    bench("decisions").main(["--report", "--out", str(path.parent)])
    made(bench, tmp_path, spoiled)
    with pytest.raises(SystemExit, match=name.replace("+", r"\+")):
        bench("decisions").main(["--report", "--out", str(path.parent)])
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert f"- {name}: " in page.split("## Disagreements")[1]


# A real run --------------------------------------------------------------------------------------


def test_a_run_agrees_and_resumes(bench, tmp_path, capsys):
    name = "mpg LGBM 100 rows costs min"
    chosen = ["--quick", "--problems", name, "--methods", OWN, ORACLE, "treecf"]
    arguments = [*chosen, "--out", str(tmp_path)]
    bench("decisions").main(arguments)
    path = tmp_path / "decisions_quick.csv"
    before = pd.read_csv(path)
    assert tuple(before.columns) == bench("decisions").COLUMNS
    data = bench("decisions_report").read(path).set_index("method")
    assert data.loc[[OWN, ORACLE], "proven"].all() and data.loc[[OWN, ORACLE], "real"].all()
    assert data.loc["treecf", "status"] == "cannot express"
    assert data.loc[OWN, "value"] == data.loc[OWN, "claimed"]
    assert f"| {name} |" in path.with_suffix(".md").read_text(encoding="utf-8")
    capsys.readouterr()
    bench("decisions").main(arguments)
    assert "3 of 3 tasks are done already" in capsys.readouterr().err
    assert pd.read_csv(path).equals(before)
