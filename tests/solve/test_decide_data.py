"""The data as oracle: no row beats a proven bound, and the model predicts `fun` for `frame`."""

from __future__ import annotations

import json
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import treeopt
from tests.support.decisions import FUZZ, SENSES, slow
from tests.support.messages import says
from tests.support.tables import WHOLE, Table, random_table
from treeopt import InputError, Status, TreeoptError

HIST = (HistGradientBoostingRegressor, HistGradientBoostingClassifier)
LIBRARIES = ("xgboost", "lightgbm", "hist")
each_library = pytest.mark.parametrize("library", LIBRARIES)
each_sense = pytest.mark.parametrize("sense", SENSES)
seeds = st.integers(0, 2**32 - 1)


# Random tables.


def decide_on(table: Table, seed: int) -> None:
    """Ask over the data, beside a row, and over labels, codes and numbers by name."""
    rng = np.random.default_rng([seed, 1])
    sense = str(rng.choice(list(SENSES)))
    if not table.complete().any():
        return
    res = SENSES[sense](table.model, table.X, rng=0)
    table.check(res, sense)
    if isinstance(table.X, pd.DataFrame):
        assert res.frame.dtypes.tolist() == table.X.dtypes.tolist()
        assert res.frame.columns.tolist() == table.X.columns.tolist()
        beside_a_row(table, sense, rng)
        by_name(table, sense, rng)
    else:
        by_number(table, sense, rng)


def beside_a_row(table: Table, sense: str, rng: np.random.Generator) -> None:
    """Fix some columns as a row of the frame has them."""
    X = table.X
    i = int(rng.integers(len(X)))
    some = [c for c in X if rng.random() < 0.5]
    wide = [c for c in some if isinstance(X[c].dtype, pd.CategoricalDtype) and is_large(X[c])]
    row = X.iloc[i][some]
    if rng.random() < 0.5 or (wide and row.dtype != object):  # in which pandas has rounded labels
        row = X.iloc[[i]][some]
    res = SENSES[sense](table.model, X, fixed=row, rng=0)
    same = np.ones(len(X), bool)
    for c in some:
        own = X[c].iloc[i]
        same &= (X[c].isna() if pd.isna(own) else X[c] == own).to_numpy(bool)
        shown = res.frame[c].iloc[0]
        # scikit-learn may keep one float for several large labels.
        assert shown == own or (pd.isna(shown) and pd.isna(own)) or c in wide
    table.check(res, sense, same & table.complete(but=some))


def is_large(column: pd.Series) -> bool:
    """Tell whether labels are integers that a float cannot hold."""
    known = column.cat.categories
    return known.dtype.kind in "iu" and bool((np.abs(known.to_numpy()) > 2**53).any())


def by_name(table: Table, sense: str, rng: np.random.Generator) -> None:
    """Bounds on labels that are numbers, lists of labels, and bounds on numbers."""
    X, e = table.X, treeopt.from_model(table.model)
    bounds: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    inside = table.complete()
    for c in X:
        if not isinstance(X[c].dtype, pd.CategoricalDtype):
            bounds[str(c)] = (float(X[c].min()), float(X[c].max()))
            continue
        known = X[c].cat.categories.tolist()
        is_number = isinstance(known[0], int | float) and known[0] < 2**53
        if is_number and rng.random() < 0.6:
            low, high = sorted(rng.choice(known, 2).tolist())
            bounds[str(c)] = (low, high)
            inside &= X[c].astype(float).between(low, high).to_numpy()
        elif rng.random() < 0.6:
            used = X[c].dropna().unique().tolist()  # scikit-learn knows no others
            lists[str(c)] = used[: int(rng.integers(1, len(used) + 1))]
            inside &= X[c].isin(lists[str(c)]).to_numpy()
    try:
        res = SENSES[sense](table.model, bounds, categories=lists, rng=0)
    except InputError as refused:
        # LightGBM does not always keep which columns its labels belong to, and may take a column
        # that is called by a number for another one. scikit-learn forgets labels that do not occur.
        numbered = not all(isinstance(c, str) for c in X)
        is_hist = isinstance(table.model, HIST)
        assert e.unsure_of_labels or numbered or (is_hist and "is not one of" in str(refused))
        return
    if res.status is Status.INFEASIBLE:
        assert not inside.any() and "no known category" in res.message
    elif not e.unsure_of_labels:
        table.check(res, sense, inside)


def by_number(table: Table, sense: str, rng: np.random.Generator) -> None:
    """Bounds and lists of codes, as mappings and as pairs."""
    X, e = table.X, treeopt.from_model(table.model)
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    for bounds in (np.column_stack([low, high]), dict(enumerate(zip(low, high, strict=True)))):
        table.check(SENSES[sense](table.model, bounds, rng=0), sense)
    lists = {
        j: rng.permutation(np.unique(X[:, j]))[: int(rng.integers(1, 9))] for j in e.categories
    }
    inside = table.complete() & np.all([np.isin(X[:, j], lists[j]) for j in lists], axis=0)
    table.check(SENSES[sense](table.model, X, categories=lists, rng=0), sense, inside)
    i = int(rng.integers(len(X)))
    fixed = {j: X[i, j] for j in range(X.shape[1]) if rng.random() < 0.5}
    same = np.ones(len(X), bool)
    for j, value in fixed.items():
        same &= np.isnan(X[:, j]) if np.isnan(value) else X[:, j] == value
    same &= table.complete(but=list(fixed))
    table.check(SENSES[sense](table.model, X, fixed=fixed, rng=0), sense, same)


@each_library
@pytest.mark.parametrize("as_frame", [True, False], ids=["frames", "arrays"])
def test_no_row_beats_the_bound(library, as_frame):
    @given(seeds)
    @settings(FUZZ, max_examples=40)
    def run(seed):
        decide_on(random_table(seed, library, as_frame), seed)

    run()


@slow
@each_library
@pytest.mark.parametrize("as_frame", [True, False], ids=["frames", "arrays"])
def test_no_row_of_many_tables_beats_the_bound(library, as_frame):
    for seed in range(1500):
        decide_on(random_table(seed, library, as_frame), seed)


# Categories that occur in the data, but in no split.


def named_by_no_split() -> tuple[xgb.XGBRegressor, np.ndarray]:
    X = np.array([[0.0], [1.0], [2.0]] * 20)
    model = xgb.XGBRegressor(
        n_estimators=1, max_depth=1, enable_categorical=True, feature_types=["c"]
    )
    return model.fit(X, [5.0, 0.0, 1.0] * 20), X


def test_a_category_that_no_split_names_counts():
    model, X = named_by_no_split()
    best = float(model.predict(X).min())
    for bounds in (X, [(0, 2)], {0: (0, 2)}, pd.DataFrame(X)):
        assert treeopt.minimize(model, bounds).fun == best
    listed = treeopt.minimize(model, {}, categories={0: [0, 1, 2]})
    assert listed.fun == best and set(listed.region.categories[0]) == {1.0, 2.0}
    assert treeopt.minimize(model, {0: 2}).x[0] == 2.0


def test_without_data_or_labels_codes_have_to_be_told():
    """A bound over categories that nobody has listed would prove nothing."""
    model, _ = named_by_no_split()
    for bounds in ({}, [(None, None)], [(0, None)]):
        with pytest.raises(InputError, match=says("categories of feature 0 are unknown", "data")):
            treeopt.minimize(model, bounds)
    with pytest.raises(InputError, match=says("categories[0] has 1.5", "integer")):
        treeopt.minimize(model, {}, categories={0: [1, 1.5]})
    with pytest.raises(InputError, match=says("feature 0", "more than", "categories")):
        treeopt.minimize(model, {0: (0, 1e9)})
    for low in (-1, -3.5):
        with pytest.raises(InputError, match=says("feature 0", "at least 0", "(0, 2)")):
            treeopt.minimize(model, {0: (low, 2)})
    assert treeopt.minimize(model, {0: -1}).fun == model.predict([[-1.0]])[0]


@each_sense
@pytest.mark.parametrize("form", ["json", "ubj"])
def test_labels_that_are_not_ascii(form, sense, tmp_path):
    """XGBoost misreads them in frames; it keeps how many there are, and arrays are fine."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 4, 300)
    names = ["ä", "b", "ö", "d"]
    X = pd.DataFrame({"c": pd.Categorical.from_codes(code, names), "x": rng.random(300)})
    y = np.array([5.0, 0.0, 1.0, 7.0])[code] + X["x"]
    model = xgb.XGBRegressor(n_estimators=2, max_depth=1, enable_categorical=True).fit(X, y)
    rows = np.column_stack([code, X["x"]])
    best = getattr(model.predict(rows), sense)()
    for asked in (model, treeopt.from_model(model)):  # as arrays go
        res = SENSES[sense](asked, {"x": (0, 1)})
        assert res.fun == model.predict(res._point[None, :])[0]
        assert not (res.bound > best if sense == "min" else res.bound < best)
    with pytest.raises(InputError, match=says("'c'", "not ASCII", "array")):
        _ = SENSES[sense](model, {"x": (0, 1)}).frame
    model.save_model(path := tmp_path / f"model.{form}")
    assert SENSES[sense](treeopt.load_model(path), {"x": (0, 1)}).fun == res.fun


@each_sense
def test_files_of_older_versions_keep_no_labels(sense):
    """Their frames go by codes, so a frame as bounds tells the labels."""
    rng = np.random.default_rng(1)
    code = rng.choice(6, 300, p=[0.01, 0.4, 0.3, 0.2, 0.08, 0.01])
    X = pd.DataFrame({"c": pd.Categorical.from_codes(code, list("fedcba")), "x": rng.random(300)})
    y = np.array([5.0, 0.0, 1.0, 7.0, 3.0, -4.0])[code] + X["x"]
    new = xgb.XGBRegressor(n_estimators=5, max_depth=2, enable_categorical=True).fit(X, y)
    document = json.loads(bytes(new.get_booster().save_raw("json")))
    del document["learner"]["gradient_booster"]["model"]["cats"]
    old = xgb.XGBRegressor(enable_categorical=True)
    old.load_model(bytearray(json.dumps(document).encode()))
    expected = SENSES[sense](new, X)
    res = SENSES[sense](old, X)
    assert (res.fun, res.x["c"]) == (expected.fun, expected.x["c"])
    assert old.predict(res.frame)[0] == res.fun and res.frame.dtypes.equals(X.dtypes)
    assert SENSES[sense](old, X, fixed={"c": "a"}).x["c"] == "a"
    assert SENSES[sense](old, {"c": (0, 5), "x": (X["x"].min(), X["x"].max())}).fun == res.fun
    with pytest.raises(InputError, match=says("categories of feature 'c' are unknown")):
        SENSES[sense](old, {"x": (0, 1)})


@pytest.mark.parametrize("marker", [0, 2, -1])
def test_a_label_whose_code_means_missing_is_a_choice(marker):
    """XGBoost reads it as missing, but the user sees a label."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 4, 200)
    X = pd.DataFrame({"c": pd.Categorical.from_codes(code, list("abcd")), "x": rng.random(200) + 5})
    y = np.array([9.0, 1.0, -9.0, 3.0])[code]
    model = xgb.XGBRegressor(n_estimators=5, missing=marker, enable_categorical=True).fit(X, y)
    for sense in SENSES:
        res = SENSES[sense](model, X)
        assert res.fun == getattr(model.predict(X), sense)() == model.predict(res.frame)[0]
        assert SENSES[sense](model, {"x": (5, 6)}).fun == res.fun


# Labels.


def dropped_in_training() -> tuple[pd.DataFrame, np.ndarray]:
    """One label occurs once, and LightGBM drops it; a column of numbers might have the labels."""
    n = 400
    c = np.array([k for k in range(8) if k != 2])[np.arange(n) % 7]
    c[0] = 2
    numbers = np.random.default_rng(0).integers(0, 6, n)
    X = pd.DataFrame({"c": pd.Categorical.from_codes(c, list("abcdefgh")), "n": numbers})
    return X, np.array([0.0, 1, 2, 3, 4, -9, 6, 7])[c] + 0.01 * numbers


def test_labels_do_not_shift_when_one_is_dropped():
    X, y = dropped_in_training()
    model = lgb.LGBMRegressor(n_estimators=50, verbose=-1).fit(X, y)
    best = treeopt.minimize(model, X)
    assert best.x["c"] == "f" and model.predict(best.frame)[0] == best.fun
    rare = treeopt.minimize(model, X, fixed={"c": "c"})
    assert rare.x["c"] == "c" and model.predict(rare.frame)[0] == rare.fun


def test_a_frame_that_the_model_reads_otherwise_is_an_error(monkeypatch):
    """It names the column, and no decision is returned."""
    X, y = dropped_in_training()
    model = lgb.LGBMRegressor(n_estimators=50, verbose=-1).fit(X, y)
    shift = dict(zip("abcdefgh", "bcdefgha", strict=True))
    made = treeopt.result.building.frame_of
    monkeypatch.setattr(
        "treeopt.result.building.frame_of",
        lambda *a: made(*a).assign(c=lambda f: f["c"].map(shift).astype(X["c"].dtype)),
    )
    with pytest.raises(TreeoptError, match=says("LGBMRegressor predicts", "'c'", "'g'")):
        treeopt.minimize(model, X)


def rated(library: str, dtype: str = "int64") -> Table:
    """Return ratings from 1 to 5 as labels; 4 is best for the least, 5 for the largest."""
    rng = np.random.default_rng(3)
    rating = rng.integers(1, 6, 400)
    X = pd.DataFrame({"z": rng.random(400)})
    X.insert(0, "rating", pd.Categorical.from_codes(rating - 1, pd.Index(range(1, 6), dtype=dtype)))
    y = np.array([0.0, 3.0, -1.0, 2.0, -5.0, 4.0])[rating] + X["z"]
    models = {
        "xgboost": xgb.XGBRegressor(n_estimators=20, enable_categorical=True),
        "lightgbm": lgb.LGBMRegressor(n_estimators=20, verbose=-1),
        "hist": HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype"),
    }
    model = models[library].fit(X, y)
    return Table(model, X, model.predict, y.to_numpy())


@each_library
def test_bounds_on_labels_that_are_numbers(library):
    model, z = rated(library).model, (0, 1)
    assert treeopt.minimize(model, {"rating": (1, 3), "z": z}).x["rating"] == 2
    assert treeopt.maximize(model, {"rating": (2, 4), "z": z}).x["rating"] == 3
    assert treeopt.minimize(model, {"rating": (None, 3), "z": z}).x["rating"] == 2
    assert treeopt.minimize(model, [(1, 3), (0, 1)]).x["rating"] == 2
    for asked in ({"bounds": {"rating": 2, "z": z}}, {"bounds": {"z": z}, "fixed": {"rating": 2}}):
        assert treeopt.minimize(model, **asked).x["rating"] == 2
    res = treeopt.minimize(model, {"rating": (2.5, 2.9), "z": z})
    assert res.status is Status.INFEASIBLE and "no known category" in res.message
    both = {"rating": (1, 3), "z": z}
    with pytest.raises(InputError, match=says("fixed has 5", "'rating'", "outside", "(1, 3)")):
        treeopt.minimize(model, both, fixed={"rating": 5})
    with pytest.raises(InputError, match=says("categories lists 4", "'rating'", "outside")):
        treeopt.minimize(model, both, categories={"rating": [2, 4]})


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_bound_that_is_no_label_is_refused(library):
    model = rated(library).model
    with pytest.raises(InputError, match=says("bounds has 9", "'rating'", "not one of", "1, 2")):
        treeopt.minimize(model, {"rating": 9, "z": (0, 1)})


def test_where_labels_are_not_sure_a_number_may_be_a_label():
    """LightGBM keeps the ratings, but a column of numbers might be the one that they belong to."""
    table = rated("lightgbm")
    X = table.X.assign(z=np.random.default_rng(0).integers(0, 5, 400))
    model = lgb.LGBMRegressor(n_estimators=5, verbose=-1, min_child_samples=2)
    model = model.fit(X, table.y + 0.1 * X["z"])
    assert treeopt.from_model(model).unsure_of_labels
    z = {"z": (0, 4)}
    for asked in (
        {"bounds": {**z, "rating": (1, 3)}},
        {"bounds": z, "fixed": {"rating": 2}},
        {"bounds": z, "categories": {"rating": [2]}},
    ):
        with pytest.raises(InputError, match=says("not sure", "frame")):
            treeopt.minimize(model, **asked)
    assert treeopt.minimize(model, X, fixed={"rating": 2}).x["rating"] == 2


@each_sense
@pytest.mark.parametrize("dtype", WHOLE)
def test_labels_have_the_type_that_they_had(dtype, sense):
    """XGBoost refuses them in any other type."""
    table = rated("xgboost", dtype)
    for bounds in (table.X, {"z": (0, 1)}):
        res = SENSES[sense](table.model, bounds)
        table.check(res, sense)
        assert res.frame["rating"].dtype.categories.dtype == dtype


@each_library
@each_sense
def test_labels_beyond_all_floats(library, sense):
    """Neighbors of 2**60 are one float, but labels of their own."""
    code = np.random.default_rng(0).integers(0, 5, 300)
    large = pd.Index(2**60 + 1 + np.arange(5))
    X = pd.DataFrame({"c": pd.Categorical.from_codes(code, large), "x": code * 0.0})
    y = np.array([0.0, 3.0, -5.0, 9.0, 1.0])[code]
    models = {
        "xgboost": xgb.XGBRegressor(n_estimators=9, enable_categorical=True),
        "lightgbm": lgb.LGBMRegressor(n_estimators=9, verbose=-1),
        "hist": HistGradientBoostingRegressor(categorical_features="from_dtype"),
    }
    model = models[library].fit(X, y)
    res = SENSES[sense](model, X)
    Table(model, X, model.predict, y).check(res, sense)
    if library != "hist":  # scikit-learn takes them all for one
        best = large[2 if sense == "min" else 3]
        assert res.x["c"] == best == res.frame["c"].iloc[0]
        for label in large.tolist():
            assert SENSES[sense](model, X, fixed={"c": label}).x["c"] == label
        assert SENSES[sense](model, X, categories={"c": large[:2].tolist()}).x["c"] in large[:2]
        assert SENSES[sense](model, X, fixed=X.iloc[[9]]).x["c"] == X["c"].iloc[9]
        with pytest.raises(InputError, match=says("fixed['c'] has", "not one of")):
            SENSES[sense](model, X, fixed={"c": 2**60})
        for pair in (large[1], (large[3], large[4])):
            with pytest.raises(InputError, match=says("'c'", "float", "categories")):
                SENSES[sense](model, {"c": pair, "x": (0, 1)})


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64"])
def test_large_whole_numbers_are_cast_once(kind):
    """Beside a column of floats, too; XGBoost casts each column by itself."""
    rng = np.random.default_rng(0)
    low, high = 2**60, 2**60 + 2**37
    number = np.where(rng.random(200) < 0.5, low, high)
    X = pd.DataFrame({"i": pd.Series(number).astype(kind), "x": rng.random(200)})
    model = xgb.XGBRegressor(n_estimators=3).fit(X, 10.0 * (number == high))
    e = treeopt.from_model(model)
    between = [low + 2**36 + k for k in (-257, -129, -1, 0, 1, 127, 129, 257)]
    more = rng.integers(2**53, 2**62, 500).tolist()
    halfway = [int(np.float32(v)) + 2**36 + k for v in more[:50] for k in (-1, 0, 1)]
    for values in (between, more, halfway, [-v for v in more] if kind != "uint64" else more):
        rows = pd.DataFrame({"i": pd.Series(values).astype(kind), "x": 0.5})
        assert e.predict(rows).tobytes() == model.predict(rows).tobytes()
    for sense in SENSES.values():
        res = sense(model, X)
        assert model.predict(res.frame)[0] == res.fun and res.frame["i"].dtype == kind


# Columns that are called by numbers.


def numbered() -> tuple[pd.DataFrame, np.ndarray]:
    X = pd.DataFrame(np.random.default_rng(0).random((200, 3)), columns=[0, 2, 3])
    return X, (X[0] + 2 * X[2] - X[3]).to_numpy()


NUMBERED = {
    "xgboost": xgb.XGBRegressor(n_estimators=5),
    "lightgbm": lgb.LGBMRegressor(n_estimators=5, verbose=-1),
    "forest": RandomForestRegressor(5, random_state=0),
}


@pytest.mark.parametrize("library", NUMBERED)
def test_rows_go_by_label(library):
    X, y = numbered()
    model = NUMBERED[library].fit(X, y)
    row = X.iloc[7]
    for fixed in (row[[2]], X.iloc[[7]][[2]], row[[3, 2]]):
        res = treeopt.minimize(model, X, fixed=fixed)
        assert res.frame[2].iloc[0] == row[2] and model.predict(res.frame)[0] == res.fun
        assert res.frame.columns.tolist() == [0, 2, 3]
        assert (res.frame[3].iloc[0] == row[3]) == (3 in fixed)
    whole = treeopt.minimize(model, X, fixed=row)
    assert whole.frame.iloc[0].tolist() == row.tolist()
    with pytest.raises(InputError, match=says("fixed", "feature 1 is unknown")):
        treeopt.minimize(model, X, fixed=pd.Series({1: 0.5}))


@pytest.mark.parametrize("library", NUMBERED)
def test_a_number_that_is_a_name_and_another_position_is_refused(library):
    """In a mapping it may be either; as text it is the name."""
    X, y = numbered()
    model = NUMBERED[library].fit(X, y)
    for argument in ({"fixed": {2: 0.5}}, {"integer": [2]}, {"categories": {2: [0.5, 0.6]}}):
        with pytest.raises(InputError, match=says("2 may mean", "name", "column number 2")):
            treeopt.minimize(model, X, **argument)
    assert treeopt.minimize(model, X, fixed={0: 0.5}).frame[0].iloc[0] == 0.5
    assert treeopt.minimize(model, X, fixed={3: 0.5}).frame[3].iloc[0] == 0.5  # no such position
    res = treeopt.minimize(model, X, fixed={"2": 0.5})
    assert res.x[2] == 0.5 == res.frame[2].iloc[0]


def test_rows_of_a_model_without_names():
    """Without a frame nobody knows what its columns are called; whole rows go by their order."""
    X, y = numbered()
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    box = [(0, 1)] * 3
    assert treeopt.minimize(model, box, fixed=X.iloc[7]).x.tolist() == X.iloc[7].tolist()
    for row in (X.iloc[7][[2]], X.iloc[7].set_axis([1, 0, 2])):
        with pytest.raises(InputError, match=says("fixed is a row", "no names", "by position")):
            treeopt.minimize(model, box, fixed=row)


def test_labels_of_a_model_without_names():
    """scikit-learn keeps no names that are numbers; the frame tells them."""
    X, y = numbered()
    X[2] = pd.Categorical(np.where(X[2] > 0.5, "high", "low"))
    made = HistGradientBoostingRegressor(categorical_features="from_dtype").fit(X, y)
    res = treeopt.maximize(made, X)
    assert res.x[2] in ("high", "low") and res.x.index.tolist() == [0, 2, 3]
    assert f"2 = {res.x[2]}" in str(res) and made.predict(res.frame)[0] == res.fun


@pytest.mark.parametrize("kind", ["float32", "float16", "Float32"])
def test_the_point_is_the_frame(kind):
    """Numbers are such that the types of the columns hold them, where the region allows it."""
    X, y = numbered()
    X = X.set_axis(list("abc"), axis=1).astype(kind)
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    for sense in SENSES.values():
        res = sense(model, X)
        assert res.x.tolist() == res.frame.iloc[0].astype(float).tolist()
        assert model.predict(res.frame)[0] == res.fun


# What means missing.


@given(seeds, st.sampled_from([-999.0, 0.0, -1.0, 0.25, 1e30]), st.booleans())
@settings(FUZZ, max_examples=40)
def test_what_means_missing_is_no_choice(seed, marker, whole):
    """It is as missing as NaN where it is data, whether inside or outside the range of the rest."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 2)).round(1)
    if whole:
        X = rng.integers(-4, 5, (120, 2)).astype(float)
    y = X[:, 0] - X[:, 1] + np.where(rng.random(120) < 0.1, 9.0, 0.0)
    X[rng.random(X.shape) < 0.2] = marker
    model = xgb.XGBRegressor(n_estimators=8, max_depth=3, missing=marker, n_jobs=1).fit(X, y)
    known = np.where(np.equal(X, marker), np.nan, X)
    rows = X[~np.isnan(known).any(axis=1)]
    asked = {"integer": [0, 1]} if whole else {}
    for method in ("auto", "stepdirect"):
        for sense in SENSES:
            res = SENSES[sense](model, X, method=method, max_evals=200, rng=0, **asked)
            assert (res.x != marker).all() and model.predict(res.x[None, :])[0] == res.fun
            assert (np.nanmin(known, axis=0) <= res.x).all()
            assert (res.x <= np.nanmax(known, axis=0)).all()
            if method == "auto":
                own = model.predict(rows)
                assert own.min() >= res.bound if sense == "min" else own.max() <= res.bound
            if whole:
                ends = np.concatenate([res.region.lower, res.region.upper, res.x])
                assert (ends == np.round(ends)).all()


@given(seeds, st.sampled_from([0.0, 3.0]))
@settings(FUZZ, max_examples=30)
def test_whole_numbers_that_mean_missing_have_whole_ends(seed, marker):
    """Explicit bounds include the number that means missing."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-4, 5, (150, 2)).astype(float)
    y = rng.normal(size=150) + 5 * (X[:, 0] == marker)
    model = xgb.XGBRegressor(n_estimators=8, max_depth=3, missing=marker, n_jobs=1).fit(X, y)
    box = np.stack(np.meshgrid(np.arange(-4, 5), np.arange(-4, 5)), -1).reshape(-1, 2)
    every = model.predict(box.astype(float))
    for sense in SENSES:
        res = SENSES[sense](model, [(-4, 4)] * 2, integer=[0, 1])
        assert res.fun == getattr(every, sense)()
        for ends in (res.region.lower, res.region.upper, res.x):
            assert (ends == np.round(ends)).all()


def test_a_code_that_means_missing_is_no_choice():
    """LightGBM takes negative codes for missing; -1 is what pandas calls so."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(-1, 5, 300), rng.random(300)])
    y = np.array([0.0, 1.0, 2.0, 3.0, 4.0, -9.0])[X[:, 0].astype(int)] + X[:, 1]
    model = lgb.LGBMRegressor(n_estimators=20, verbose=-1).fit(X, y, categorical_feature=[0])
    assert treeopt.minimize(model, X).x[0] in (0.0, 1.0)
    assert treeopt.minimize(model, X, fixed={0: -1}).fun < treeopt.minimize(model, X).fun


# Frames as bounds.


def test_a_summary_is_no_data():
    X, y = numbered()
    model = xgb.XGBRegressor(n_estimators=2).fit(X, y)
    with pytest.raises(InputError, match=says("bounds", "describe()", "['min', 'max']")):
        treeopt.minimize(model, X.describe())
    summary = treeopt.minimize(model, X.describe().loc[["min", "max"]])
    assert summary.fun == treeopt.minimize(model, X).fun


@each_sense
def test_a_context_may_lie_outside_the_data(sense):
    X, y = numbered()
    X.columns = list("abc")
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    res = SENSES[sense](model, X, fixed={"a": 7.5, "b": -3})
    assert (res.x["a"], res.x["b"]) == (7.5, -3.0) and res.region.upper[0] == 7.5
    assert model.predict(res.frame)[0] == res.fun


def counted() -> tuple[pd.DataFrame, RandomForestRegressor]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.integers(0, 40, 300), "flag": rng.random(300) < 0.5})
    X["nullable"] = pd.array(rng.integers(-5, 6, 300), "Int64")
    X["small"] = rng.integers(0, 9, 300).astype("uint8")
    X["real"] = rng.random(300)
    y = np.sin(X["size"]) + X["flag"] + X["nullable"].astype(float) * X["real"] - X["small"]
    return X, RandomForestRegressor(20, random_state=0).fit(X, y)


@each_sense
def test_whole_columns_of_a_frame_stay_whole(sense):
    X, model = counted()
    res = SENSES[sense](model, X)
    assert (res.frame.dtypes == X.dtypes).all() and model.predict(res.frame)[0] == res.fun
    whole = ["size", "flag", "nullable", "small"]
    assert all(res.x[c] == round(res.x[c]) for c in whole)
    named = SENSES[sense](model, X, integer=whole)
    assert named.fun == res.fun
    assert res.region.upper[0] == round(res.region.upper[0])
    assert SENSES[sense](model, X, integer="auto").fun == res.fun


def test_whole_numbers_by_name_or_not_at_all():
    X, model = counted()
    box = dict.fromkeys(X, (0.3, 8.6))
    for one in ("size", ["size"], {"size"}, 0, [0], np.int64(0)):
        res = treeopt.minimize(model, box, integer=one)
        assert res.x["size"] % 1 == 0 and res.x["real"] % 1
    for none in (None, [], "auto"):
        assert treeopt.minimize(model, box, integer=none).x["size"] % 1
    assert treeopt.minimize(model, X, fixed={"size": 2.5}).x["size"] == 2.5


def test_flags_are_true_or_false_whatever_is_listed():
    X, model = counted()
    for integer in ("size", [], None):
        for sense in SENSES.values():
            res = sense(model, X, integer=integer)
            assert res.frame["flag"].dtype == bool and model.predict(res.frame)[0] == res.fun


def test_a_missing_value_stays_in_its_column():
    X, model = counted()
    X = X.astype({"real": "float32"})
    model = xgb.XGBRegressor(n_estimators=3).fit(X, X["size"])
    res = treeopt.minimize(model, X, fixed={"nullable": None, "real": np.nan})
    assert res.frame.dtypes.equals(X.dtypes) and model.predict(res.frame)[0] == res.fun
    assert res.frame[["nullable", "real"]].isna().all(axis=None)


def test_messages_are_short():
    X, model = counted()
    for bounds in (X.to_dict("list"), {**dict.fromkeys(X, (0, 1)), "size": 10**5000}):
        with pytest.raises(InputError) as refused:
            treeopt.minimize(model, bounds)
        assert len(str(refused.value)) < 500 and "\n" not in str(refused.value)
    with pytest.raises(InputError, match=says("gap is a number with thousands of digits")):
        treeopt.minimize(model, X, gap=10**5000)


@given(seeds)
@settings(FUZZ, max_examples=25)
def test_random_frames_as_bounds(seed):
    """Whole columns stay whole, contexts may lie anywhere, and a summary is refused."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["int64", "uint8", "Int64", "bool", "float64", "float32"], 4)
    X = pd.DataFrame({c: rng.integers(0, 7, 80) for c in "abcd"})
    X = X.astype({c: kind for c, kind in zip("abcd", kinds, strict=True) if kind != "float64"})
    y = rng.normal(size=80) + X.astype(float).sum(axis=1)
    model = RandomForestRegressor(4, random_state=0).fit(X, y)
    context = {c: float(rng.normal() * 100) for c in "abcd" if rng.random() < 0.3}
    for sense in SENSES:
        res = SENSES[sense](model, X, fixed=context)
        assert model.predict(res.frame)[0] == res.fun
        for c, kind in zip("abcd", kinds, strict=True):
            if c in context:
                assert res.frame[c].iloc[0] == context[c]
            else:
                assert res.frame[c].dtype == kind or kind == "float64"
        own = model.predict(X)
        if not context:
            assert own.min() >= res.bound if sense == "min" else own.max() <= res.bound
    with pytest.raises(InputError, match=says("bounds", "describe()")):
        treeopt.minimize(model, X.astype(float).describe())


@given(seeds, st.integers(39, 700), st.booleans())
@settings(FUZZ, max_examples=40)
def test_random_numbers_out_of_range(seed, digits, negative):
    """Beyond float32 in lists and as fixed values, beyond float64 everywhere: never a raw error."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(4, 10)) * 10**digits * (-1 if negative else 1)
    X, y = numbered()
    X.columns = list("abc")
    model = RandomForestRegressor(2, random_state=0).fit(X, y)
    feature = str(rng.choice(list("abc")))
    for asked in ({"categories": {feature: [0.5, number]}}, {"fixed": {feature: number}}):
        with pytest.raises(InputError, match=says(f"{next(iter(asked))}[{feature!r}]")):
            treeopt.minimize(model, X, **asked)
    bounds = {**dict.fromkeys("abc", (0, 1)), feature: tuple(sorted((0, number)))}
    if digits < 308:
        assert treeopt.minimize(model, bounds).status is Status.OPTIMAL
    else:
        with pytest.raises(InputError, match=says(f"bounds[{feature!r}] has a number beyond")):
            treeopt.minimize(model, bounds)


# Numbers that are none.


@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["large", "small"])
@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (lambda v: {"bounds": {"a": (0, v) if v > 0 else (v, 0), "b": (0, 1)}}, ("bounds['a']",)),
        (lambda v: {"bounds": [(0, 1), (v, v)]}, ("bounds has a number", "inf")),
        (lambda v: {"fixed": {"a": v}}, ("fixed['a'] has a number", "smaller")),
        (lambda v: {"categories": {"a": [1, v]}}, ("categories['a'] has a number",)),
        (lambda v: {"gap": abs(v)}, ("gap is 1000",)),
        (lambda v: {"time_limit": abs(v)}, ("time_limit is 1000",)),
    ],
)
def test_numbers_beyond_all_floats_are_refused(number, arguments, parts):
    X, y = numbered()
    X = X[[0, 2]].set_axis(["a", "b"], axis=1)
    model = xgb.XGBRegressor(n_estimators=2).fit(X, y)
    with pytest.raises(InputError, match=says(*parts)):
        treeopt.minimize(model, **{"bounds": X, **arguments(number)})


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (np.ones((2, 2)), ("categories['a'] is array", "list of the allowed values")),
        ([[1, 2], [3, 4]], ("categories['a'] has [1, 2]", "number")),
        ([np.ones(2), 1.0], ("categories['a'] has array", "number")),
        ({0.5: 1}, ("categories['a'] is {0.5: 1}", "list of the allowed values")),
        (np.array(3.0), ("categories['a'] is array", "list of the allowed values")),
        ([0.0, 1e39], ("categories['a'] has 1e+39", "float32", "Remove it")),
        ([0.0, -1e39], ("categories['a'] has -1e+39", "float32")),
    ],
)
def test_lists_of_what_is_no_value_are_refused(values, parts):
    X, y = numbered()
    X.columns = list("abc")
    model = xgb.XGBRegressor(n_estimators=2).fit(X, y)
    with pytest.raises(InputError, match=says(*parts)):
        treeopt.minimize(model, X, categories={"a": values})
    with pytest.raises(InputError, match=says("fixed['a'] has", "number")):
        treeopt.minimize(model, X, fixed={"a": np.ones(2)})
    with pytest.raises(InputError, match=says("categories has 200 rows", "mapping")):
        treeopt.minimize(model, X, categories=X[["a"]])


# Words.


@given(st.integers(-(10**9), 10**9), st.integers(0, 3))
def test_one_point_is_written_as_one_point(x, decimals):
    value = float(x) / 10**decimals
    at, low, high = treeopt.result.words.spelled_inside(value, value, value)
    assert at == low == high and float(at) == value
    assert decimals or at == str(x)


def test_a_region_of_one_whole_number_in_words():
    X = pd.DataFrame({"a": np.arange(1234560, 1234580), "b": np.arange(20) % 3})
    model = RandomForestRegressor(10, random_state=0).fit(X, (X["a"] - 1234567) ** 2)
    text = str(treeopt.minimize(model, X))
    assert "= 1234567 " in text and "e+06" not in text
