"""The scripts that make the paper's tables and figures: their rows, their reports, their claims."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import treeopt
from tests.support.decisions import slow

pd = pytest.importorskip("pandas")


def tables(text):
    """Return the tables of a Markdown text: a list of rows of cells each, the header first."""
    found, lines = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            lines.append([cell.strip() for cell in line.strip("|").split("|")])
        elif lines:
            found.append([lines[0], *lines[2:]])
            lines = []
    return found


# The paper's table -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forest_run(bench, tmp_path_factory):
    """Run the quick form on one data set, and return its folder and its text."""
    folder = tmp_path_factory.mktemp("forest")
    arguments = ["--quick", "--problems", "mpg", "--seeds", "2", "--out", str(folder)]
    bench("forest_table").main(arguments)
    return folder, (folder / "forest_table_quick.md").read_text(encoding="utf-8")


def test_forest_table_has_every_row(forest_run, bench):
    folder, text = forest_run
    data = pd.read_csv(folder / "forest_table_quick.csv")
    module = bench("forest_table")
    assert tuple(data.columns) == module.COLUMNS
    always = ["value", "nfev", "seconds", "settings", "versions", "machine", "date"]
    assert data[always].notna().all(axis=None)
    compiled = data[data["oracle"] == "compiled"]
    assert set(compiled["method"]) == set(module.BUDGETS)
    assert (data["nfev"] <= data["budget"]).all()
    family = data[data["method"].isin(bench("forest_report").FAMILY)]
    assert (family["nfev"] == 2000).all()
    ends = compiled[compiled["method"] == "DE (scipy)"]["nfev"]
    assert ends.max() > 2000, "DE goes to its own end in one block"
    assert not (data.duplicated(list(module.KEY))).any()
    as_published, evaluations, *_ = tables(text)[1:]
    assert as_published[0] == ["method", "mpg"] == ["method", *evaluations[0][1:]]
    names = [row[0] for row in as_published[1:]]
    assert names == [row[0] for row in evaluations[1:]]
    report = bench("forest_report")
    assert names == [m for m in report.METHODS if m in (*report.NAMES, "scipy DIRECT")]


def test_forest_table_proves_the_optimum(forest_run, bench):
    data = pd.read_csv(forest_run[0] / "forest_table_quick.csv")
    auto = data[data["method"] == "treeopt auto"]
    problem = bench("problems").load("mpg")
    assert set(auto["status"]) == {"OPTIMAL"} and auto["value"].nunique() == 1
    assert np.allclose(auto["bound"], auto["value"], rtol=1e-12, atol=0)
    assert auto["value"].iloc[0] == bench("best_known").best_by_lines(problem, kicks=50)
    assert (data["value"] >= auto["bound"].min()).all()


def test_forest_table_is_reproducible_and_resumes(forest_run, bench, capsys):
    folder, _ = forest_run
    path = folder / "forest_table_quick.csv"
    before = pd.read_csv(path)
    arguments = ["--quick", "--problems", "mpg", "--seeds", "2", "--out", str(folder)]
    bench("forest_table").main(arguments)
    assert pd.read_csv(path).equals(before), "a second run has nothing to do"
    chosen = ["--methods", "PSO (pyswarms)", "treeopt default"]
    bench("forest_table").main([*arguments, *chosen, "--redo"])
    after = pd.read_csv(path)
    key = list(bench("forest_table").KEY)
    both = before.merge(after, on=key, suffixes=("", "_again"))
    assert len(both) == len(before) == len(after)
    assert (both["value"] == both["value_again"]).all() and (
        both["nfev"] == both["nfev_again"]
    ).all()


def test_forest_table_refuses_oracles_that_differ(forest_run, bench, tmp_path):
    data = pd.read_csv(forest_run[0] / "forest_table_quick.csv")
    own = data["oracle"] == "predict"
    data.loc[own & data["method"].str.startswith("StepDIRECT"), "value"] += 1e-12
    data.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(AssertionError, match=r"give different results: StepDIRECT .*mpg"):
        bench("forest_report").report(tmp_path / "bad.csv")


def test_claims_of_the_paper_are_read_from_its_numbers(forest_run, bench):
    """As printed, StepDIRECT is the best but for mpg, and faster than DE but for bodyfat."""
    rows = {
        row[0]: row[1:]
        for row in tables(
            "\n".join(
                bench("forest_report").claims(
                    bench("forest_report").read(forest_run[0] / "forest_table_quick.csv")
                )
            )
        )[0]
    }
    assert rows["StepDIRECT ends lowest of all"][0] == "boston, diabetes, bodyfat"
    assert rows["StepDIRECT takes less time than DE"][0] == "boston, diabetes, mpg"
    assert rows["StepDIRECT-0 ends lower than DIRECT"][1] == "mpg"
    assert rows["StepDIRECT takes less time than PSO (20 rows a call)"][1] == "not measured"


def handmade(bench):
    """Two problems; on the second one StepDIRECT-0 has not run, and a peer beats the default."""
    report = bench("forest_report")
    rows = []

    def add(method, value, problem="boston", budget=2000, seeds=2, seconds=1.0, **more):
        for seed in range(seeds):
            for oracle in ("compiled", "predict"):
                row = {"problem": problem, "method": method, "budget": budget, "seed": seed}
                row |= {"oracle": oracle, "value": value, "nfev": min(budget, 5000)}
                slow = 100.0 if oracle == "predict" else 1.0
                rows.append(row | {"seconds": seconds * slow, "date": "2026"} | more)

    for problem in ("boston", "mpg"):
        add(report.STEP, 3.0, problem)
        add("DE (scipy)", 4.0 if problem == "boston" else 1.5, problem)
        add("DE (scipy)", 1.0, problem, report.OWN_END, seconds=5.0)
        add(report.DEFAULT, 2.0, problem)
        add(report.AUTO, 1.0, problem, report.OWN_END, seconds=0.01, bound=1.0, status="OPTIMAL")
    add(report.STEP_0, 0.1 + 0.2 + 2.7, seeds=1)
    add(report.DIRECT, 5.0, seeds=1)
    data = pd.DataFrame(rows)
    for column, order in (("method", report.METHODS), ("problem", ("boston", "mpg"))):
        data[column] = pd.Categorical(data[column], order).remove_unused_categories()
    return report, data


def test_blocks_and_statements_of_a_table_that_is_known(bench):
    report, data = handmade(bench)
    assert not report.disagreements(data)
    de = report.as_published(report.compiled(data)).query("method == 'DE (scipy)'")
    assert set(de["value"]) == {1.0} and set(de["nfev"]) == {5000}
    assert report.capped(data)["budget"].max() == 2000
    assert not report.capped(data)["method"].isin([report.AUTO]).any()
    claims = {row[0]: row[2] for row in tables("\n".join(report.claims(data)))[0]}
    assert claims["StepDIRECT-0 ends lower than DIRECT"] == "boston"
    assert claims["StepDIRECT ends lower than StepDIRECT-0"] == "nowhere", "3.0 is not below 3.0"
    assert claims["StepDIRECT takes less time than DE"] == "boston, mpg"
    assert claims["StepDIRECT takes less time than PSO (20 rows a call)"] == "not measured"
    faster, far_faster, best = report.targets(data)
    assert faster[1:] == ["100× (boston) to 100×", "yes"] and far_faster[1:] == ["on 2 of 2", "yes"]
    assert best[1:] == ["not on mpg", "✗ no"]
    peers = report.better_peers(data)
    assert peers[0].startswith("- DE (scipy) on mpg: 1.5 after 2,000 evaluations")
    assert [line.split(":")[0] for line in peers[1:]] == [
        "- DE (scipy) on boston",
        "- DE (scipy) on mpg",
    ]
    (gaps,) = tables("\n".join(report.gap_table(data)))
    by_name = {row[0]: row[1:] for row in gaps}
    assert by_name[report.DEFAULT] == ["100.00%", "100.00%"]
    assert by_name[report.STEP_0] == ["200.00%", "–"]
    (times,) = tables("\n".join(report.time_table(data)))
    own_end = next(row for row in times if row[0] == "DE (scipy), to its own end")
    assert own_end[1:] == ["predict", "500 s ± 0%", "500 s ± 0%"]


def test_what_did_not_run_meets_no_aim(bench):
    report, data = handmade(bench)
    for method in (report.AUTO, report.DEFAULT):
        part = data[~((data["problem"] == "mpg") & (data["method"] == method))]
        assert any("mpg" in target[1] and target[2] == "✗ no" for target in report.targets(part))


def test_a_method_more_is_shown(bench, tmp_path):
    """As the guide says: a registered method with a line in `BUDGETS` is in the tables."""
    optimizers, table = bench("optimizers"), bench("forest_table")

    @optimizers.register("stochastic hill climbing", packages=("numpy",))
    def hill_climbing(f, seed):
        rng = np.random.default_rng(seed)
        x = rng.random(f.p)
        best = f.one(x)
        while True:
            y = np.clip(x + 0.1 * rng.standard_normal(f.p), 0, 1)
            if (value := f.one(y)) <= best:
                x, best = y, value

    table.BUDGETS["stochastic hill climbing"] = (2000,)
    try:
        arguments = ["--quick", "--problems", "mpg", "--out", str(tmp_path), "--seeds", "2"]
        table.main([*arguments, "--methods", "stochastic hill climbing", "treeopt auto"])
    finally:
        del table.BUDGETS["stochastic hill climbing"]
        del optimizers.OPTIMIZERS["stochastic hill climbing"]
    text = (tmp_path / "forest_table_quick.md").read_text(encoding="utf-8")
    gaps = next(t for t in tables(text) if t[-1][0] == "**proven optimum**")
    assert gaps[1][0] == "stochastic hill climbing"
    assert "Missing: random search" in text


def test_ctrl_c_leaves_no_row(bench, tmp_path, monkeypatch):
    """A search that Ctrl-C has ended returns the best so far, which is no result of a benchmark."""
    problem = bench("problems").load("mpg")
    stopped = treeopt.stepdirect(problem.ensemble, problem.bounds, callback=stop, rng=0)
    monkeypatch.setattr(treeopt, "stepdirect", lambda *a, **k: stopped)
    arguments = ["--quick", "--problems", "mpg", "--methods", "treeopt default"]
    with pytest.raises(SystemExit, match="continues where it stopped"):
        bench("forest_table").main([*arguments, "--out", str(tmp_path)])
    assert not list(tmp_path.glob("*.csv"))


def stop(progress):
    raise StopIteration


# Figures -----------------------------------------------------------------------------------------


def test_figures_show_the_very_run(bench):
    figures = bench("forest_figures")
    problem = bench("problems").load("mpg")
    for settings in figures.SELECTING.values():
        state = figures.state_after(problem, settings, 300)
        n = state.counter["evaluated"][0]
        run = treeopt.stepdirect(problem.ensemble, problem.bounds, settings=settings, rng=0)
        assert np.array_equal(run.values[:n], state.sample["f"][:n])
        lower, sides = figures.rectangles(state)
        assert sides.prod(axis=1).sum() == pytest.approx(1)
        assert (lower > -1e-12).all() and (lower + sides < 1 + 1e-12).all()


def test_selected_rectangles_are_on_the_lower_right_hull(bench):
    figures = bench("forest_figures")
    problem = bench("problems").load("mpg")
    for settings in figures.SELECTING.values():
        state = figures.state_after(problem, settings, 500)
        size, value = figures.size_and_value(state, settings)
        chosen = state.task["selected"][: state.counter["selected"][0]]
        assert len(chosen) and size.max() in size[chosen]
        for j in chosen:  # some K > 0 makes it the least of f - K d σ
            smaller, larger = size < size[j], size > size[j]
            least = ((value[j] - value[smaller]) / (size[j] - size[smaller])).max(initial=0.0)
            most = ((value[larger] - value[j]) / (size[larger] - size[j])).min(initial=np.inf)
            assert least <= most + 1e-12 and most > 0
            assert value[j] <= value[size == size[j]].min()


def test_figures_are_drawn(bench, tmp_path):
    bench("forest_figures").main(["--quick", "--seeds", "1", "--out", str(tmp_path)])
    text = (tmp_path / "forest_figures_quick.md").read_text(encoding="utf-8")
    for name in ("selection", "partition", "convergence"):
        image = tmp_path / f"forest_{name}_quick.png"
        assert image.stat().st_size > 10_000 and image.name in text
    data = pd.read_csv(tmp_path / "forest_convergence_quick.csv")
    for _, run in data.groupby(["method", "seed"]):
        assert run["value"].is_monotonic_decreasing and run["seconds"].is_monotonic_increasing
    bound = data[data["method"] == "treeopt auto"]["bound"]
    assert bound.is_monotonic_increasing and bound.max() <= data["value"].min()


# Ablation ----------------------------------------------------------------------------------------


def edits(bench):
    return {n: v.edit for n, v in bench("ablation_variants").VARIANTS.items() if v.edit is not None}


def test_edits_fit_the_source(bench):
    source = Path(treeopt.__file__).parent / "stepdirect" / "refinement.py"
    text = source.read_text(encoding="utf-8")
    for name, edit in edits(bench).items():
        changed = bench("ablation").edited(text, edit)
        assert changed != text, name
        ast.parse(changed)
    with pytest.raises(ValueError, match="occurs 0 times"):
        bench("ablation").edited(text, ("no such line\n", "\n"))


def test_combinations_leave_out_what_they_say(bench):
    paper = bench("ablation_variants").PAPER
    assert len(paper) == 9
    for name, variant in paper.items():
        if name != "DIRECT":
            without = name.partition(" without ")[2].split(", ")
            assert (variant.settings.neighbourhood is None) == ("σ" in without)
            assert variant.uniform == ("weights" in without)
            assert (variant.settings.local_search is None) == ("local search" in without)


def test_ablation_reports_regrets(bench, tmp_path):
    problems = ["bodyfat 1", "bodyfat 2", "mpg 2"]
    arguments = ["--quick", "--seeds", "1", "--problems", *problems, "--out", str(tmp_path)]
    bench("ablation").main(arguments)
    regrets = bench("ablation_report").read(tmp_path / "ablation_quick.csv")
    assert list(regrets) == [500, 2000]
    for regret in regrets.values():
        assert (regret >= 0).all(axis=None) and (regret["random search"] < 1).all()
        assert set(regret.index) == set(problems)
    assert (regrets[2000]["default"] <= regrets[2000]["StepDIRECT"]).all()
    assert 0.1 < regrets[2000]["DIRECT"]["mpg 2"] < 1
    ideas, against_direct, combinations, choices, by_data = tables(
        (tmp_path / "ablation_quick.md").read_text(encoding="utf-8")
    )
    assert [row[0] for row in ideas[1:]] == ["σ", "weights", "local search"]
    plain = [n for n, v in bench("ablation_variants").UNDO.items() if v.edit is None]
    assert [row[0] for row in choices[1:]] == plain
    assert [row[0] for row in against_direct[1:]] == ["StepDIRECT without local search"]
    assert len(combinations) == 10 and by_data[0][1:] == ["bodyfat", "mpg"]


def test_bootstrap_keeps_to_the_data_sets(bench):
    report = bench("ablation_report")
    index = [f"{name} {k}" for name in "ab" for k in range(4)]
    regret = pd.DataFrame({"base": 0.0, "same": 0.0, "worse": [1.0] * 4 + [3.0] * 4}, index)
    assert report.change(regret, "same", "base") == (0, 0, 0)
    assert report.change(regret, "worse", "base") == (2, 1, 3), "ends go over the data sets"
    assert report.change(regret.iloc[:6], "worse", "base")[0] == 2, "data sets count the same"
    for few in (regret.iloc[:5], regret.iloc[:4]):
        assert np.isnan(report.change(few, "worse", "base")[1]), "one forest has no ends"


@slow
def test_an_edited_copy_runs(bench):
    """Jumps to random places end elsewhere than golden sequences."""
    run = bench("ablation").Run("jumps to random places", ("diabetes 1",), 1)
    plain = bench("ablation").Run("default", ("diabetes 1",), 1)
    values = [row["value"] for row in run.run()]
    assert len(values) == 2 and values != [row["value"] for row in plain.run()]


# Unseen problems ---------------------------------------------------------------------------------


def test_unseen_models_differ_by_their_seeds(bench):
    for name in ("friedman3 LightGBM", "wine XGBoost", "wine forest"):
        a, b = (bench("problems").load(f"{name} {seed}") for seed in (0, 1))
        X = np.random.default_rng(0).uniform(*a.bounds.T, (200, a.p))
        assert not np.array_equal(a.fun(X), b.fun(X))


def test_data_that_cannot_be_had_are_left_out(bench, monkeypatch, capsys):
    def offline(seed):
        raise OSError("no network")

    monkeypatch.setitem(bench("unseen").UNSEEN_DATA, "california", offline)
    problems = bench("unseen").at_hand()
    assert len(problems) == 63 and not any(p.startswith("california") for p in problems)
    assert "california is omitted" in capsys.readouterr().err


def test_unseen_reports_ranks_and_proofs(bench, tmp_path):
    methods = ["treeopt default", "random search", "(1+1)", "treeopt local", "treeopt auto"]
    problems = ["wine LightGBM 0", "friedman2 forest 0"]
    arguments = ["--quick", "--problems", *problems, "--methods", *methods]
    bench("unseen").main([*arguments, "--out", str(tmp_path)])
    data = bench("unseen_report").read(tmp_path / "unseen_quick.csv")
    assert (data["regret"] >= 0).all()
    auto = data[data["method"] == "treeopt auto"]
    assert (auto["regret"] < 1e-9).all() and set(auto["status"]) == {"OPTIMAL"}
    ranks, *_, proofs = tables((tmp_path / "unseen_quick.md").read_text(encoding="utf-8"))
    assert {row[0] for row in ranks[1:]} == set(methods[:3]) and ranks[-1][0] == "random search"
    average = bench("problems").load(problems[0]).average()
    one = data[(data["problem"] == problems[0]) & (data["method"] == "random search")].iloc[0]
    best = auto.set_index("problem")["value"][problems[0]]
    assert one["regret"] == pytest.approx((one["value"] - best) / (average - best))
    assert [row[0] for row in proofs[1:]] == ["friedman2, forest", "wine, LightGBM"]
    assert all(row[2] == "1 of 1" for row in proofs[1:])


def test_unseen_reports_what_there_is(bench, tmp_path):
    """A run of few methods is no error, and claims nothing about the others."""
    chosen = ["--problems", "wine LightGBM 0", "--methods", "(1+1)"]
    bench("unseen").main(["--quick", *chosen, "--out", str(tmp_path)])
    text = (tmp_path / "unseen_quick.md").read_text(encoding="utf-8")
    assert "treeopt default has not run" in text and "1 of each" in text
    with pytest.raises(SystemExit, match="Run without --report first"):
        bench("ablation").main(["--report", "--out", str(tmp_path)])


def test_proofs_are_reported_also_without_peers(bench, tmp_path):
    """Ratios are given for the peers that ran, and only for these."""
    results = Path(treeopt.__file__).parent.parent / "bench" / "results"
    rows = pd.read_csv(results / "exact.csv")
    none = tmp_path / "none.csv"
    for methods in (["treeopt"], ["treeopt", "HiGHS"]):
        rows[rows["method"].isin(methods)].to_csv(tmp_path / "exact.csv", index=False)
        page = bench("exact_report").report(tmp_path / "exact.csv", none, none)
        ratios = tables(page.split("## Ratios of times to proof")[1])[0]
        assert [row[0] for row in ratios] == ["peer", *methods[1:]]


# README ------------------------------------------------------------------------------------------


def test_readme_shows_what_was_measured(bench):
    """The table of the README is the second block of the paper's table."""
    root = Path(treeopt.__file__).parent.parent
    report, text = bench("forest_report"), bench("text")
    everything = report.read(root / "bench" / "results" / "forest_table.csv")
    data = report.compiled(everything)
    means = report.means(report.capped(data))
    section = (root / "README.md").read_text(encoding="utf-8").split("## The paper, reproduced")[1]
    header, *rows = tables(section)[0]
    names = {"DIRECT": report.DIRECT, "StepDIRECT-0 (no local search)": report.STEP_0}
    names |= {
        "StepDIRECT, as published": report.STEP,
        "**treeopt, default search**": report.DEFAULT,
    }
    for name, *cells in rows[:8]:
        assert cells == [text.number(means.loc[names.get(name, name), p]) for p in header[1:]], name
    best = report.optima(data)
    assert rows[8][1:] == [text.number(best[p]) for p in header[1:]]
    seconds = report.means(everything[everything["oracle"] == "predict"], "seconds")
    for row, method in ((rows[9], report.AUTO), (rows[10], report.STEP)):
        assert row[1:] == [text.duration(seconds.loc[method, p]) for p in header[1:]]
