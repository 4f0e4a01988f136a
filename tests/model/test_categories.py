"""Categories: every rule of every library, one split at a time and in frames with labels."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

from tests.support.cases import TABLES, fitted
from tests.support.contract import assert_same_bits
from tests.support.handmade import (
    AS_NAN,
    AS_ZERO,
    NONE,
    lightgbm_categories,
    xgboost_categories,
)
from tests.support.models import NAMES, Case
from tests.support.rows import SPECIAL, around_categories, cast, categorical
from treeopt import InputError

SETS = {
    "the first": {0},
    "not the first": {1, 2},
    "with gaps": {0, 3, 17, 40},
    "where a word ends": {31, 32, 63, 64},
    "every other": set(range(0, 64, 2)),
}
SPLITS = {
    **{
        f"LightGBM, {name}, {missing}, {'left' if left else 'right'}": (
            lightgbm_categories,
            (frozenset(members), kind, left),
        )
        for (name, members), (missing, kind), left in itertools.product(
            SETS.items(), {"none": NONE, "zero": AS_ZERO, "nan": AS_NAN}.items(), (True, False)
        )
    },
    **{
        f"XGBoost, {name}, {'left' if left else 'right'}": (
            xgboost_categories,
            (frozenset(members), left),
        )
        for (name, members), left in itertools.product(SETS.items(), (True, False))
    },
}


@pytest.mark.parametrize(("make", "arguments"), SPLITS.values(), ids=SPLITS)
class TestOneSplit:
    """Numbers on, next to and far from categories: the library says which of them is which."""

    @staticmethod
    def rows(case: Case, members: frozenset[int]) -> np.ndarray:
        known = np.array([*members, *range(6), 100.0])
        return np.array([*around_categories(known), *SPECIAL, np.nan])[:, None]

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_predict(self, make, arguments, dtype):
        case = make(*arguments)
        with np.errstate(over="ignore"):
            rows = self.rows(case, arguments[0]).astype(dtype)
        own = case.own(rows)
        assert set(own) == {1.0, 2.0}
        assert_same_bits(case.ensemble.predict(rows), own, rows)

    def test_moves(self, make, arguments):
        case = make(*arguments)
        rows = self.rows(case, arguments[0])
        ours = case.ensemble.walker([0.0]).run(np.zeros(len(rows), int), rows[:, 0])
        assert_same_bits(ours, case.own(rows), rows)

    def test_line(self, make, arguments):
        """Its pieces are the cells: one per category, and what lies between."""
        case = make(*arguments)
        rows = self.rows(case, arguments[0])
        rows = rows[~np.isnan(rows[:, 0])]
        line = case.ensemble.line([0.0], 0)
        piece = np.searchsorted(line.upper, cast(case, rows)[:, 0])
        assert_same_bits(line.value[piece], case.own(rows), rows)
        assert line.upper.size >= len(arguments[0])

    def test_boxes(self, make, arguments):
        """One mask per leaf; the two do not overlap, and all numbers are in one of them."""
        case = make(*arguments)
        boxes = case.ensemble.leaf_boxes()
        leads = boxes.categories[0]
        assert (leads.sum(axis=0) == 1).all()
        assert boxes.missing.sum() == 1
        value = {float(v): boxes.value[leads[:, k]][0] for k, v in enumerate(known_of(case, 0))}
        own = case.own(np.array([[v] for v in value]))
        base = own.dtype.type(case.ensemble.base)
        assert [base + v for v in value.values()] == own.tolist()


def known_of(case: Case, feature: int) -> np.ndarray:
    return case.ensemble.categories[feature].value


def labeled_cases(*libraries: str) -> list[tuple[str, str]]:
    tables = [(lib, name, recipe) for lib in libraries for name, recipe in TABLES[lib].items()]
    return [(lib, name) for lib, name, recipe in tables if "labels" in recipe.data]


LABELED = labeled_cases("hist", "xgboost", "lightgbm")


@pytest.fixture
def case(request):
    return fitted(*request.param)


def label_columns(frame: pd.DataFrame) -> list[str]:
    return [c for c in frame if isinstance(frame[c].dtype, pd.CategoricalDtype)]


def change(frame: pd.DataFrame, how) -> pd.DataFrame:
    """Return a frame whose category columns are changed."""
    return frame.assign(**{c: how(frame[c]) for c in label_columns(frame)})


def unheard_of(column: pd.Series, after: int) -> pd.Series:
    """Give every fifth row a label that the model does not know, above a known one."""
    known = column.cat.categories
    label = known[after]
    new = label + "a" if isinstance(label, str) else label + 1
    changed = column.cat.add_categories([new])
    changed.iloc[::5] = new
    return changed


FORMS = {
    "as trained": lambda c: c,
    # A list: XGBoost 3.2 misreads labels with negative strides.
    "other order": lambda c: c.cat.reorder_categories([*c.cat.categories[::-1]], ordered=False),
    "ordered": lambda c: c.cat.as_ordered(),
    "missing values": lambda c: c.where(np.arange(len(c)) % 3 > 0),
    "only missing values": lambda c: c.where(np.zeros(len(c), bool)),
    "fewer categories": lambda c: c.where(c.cat.codes % 2 == 0).cat.remove_unused_categories(),
    "unused categories": lambda c: c.where(c.cat.codes % 2 == 0),
    "unheard of, in between": lambda c: unheard_of(c, 2),
    "unheard of, first": lambda c: unheard_of(c, 0),
    "unheard of, last": lambda c: unheard_of(c, -1),
    "other labels": lambda c: c.cat.rename_categories([f"z{k}" for k in c.cat.categories]),
    "objects": lambda c: c.astype(object),
    "codes": lambda c: c.cat.codes,
    "float codes": lambda c: c.cat.codes.astype(float),
}


@pytest.mark.parametrize("how", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("case", LABELED, ids=", ".join, indirect=True)
@pytest.mark.filterwarnings("ignore:column .* has the label")
def test_frames(case, how):
    """As the library treats them; what it refuses is an InputError."""
    frame = change(case.X, how)
    try:
        own = case.own(frame)
    except Exception:
        with pytest.raises(InputError):
            case.ensemble.predict(frame)
    else:
        assert_same_bits(case.ensemble.predict(frame), own, frame)


@pytest.mark.parametrize("case", LABELED, ids=", ".join, indirect=True)
def test_one_row_of_a_frame(case):
    for i in (0, 7, 150):
        row = case.X.iloc[[i]]
        assert_same_bits(case.ensemble.predict(row), case.own(row), row)


@pytest.mark.parametrize("case", labeled_cases("xgboost"), ids=", ".join, indirect=True)
def test_xgboost_takes_an_unknown_label_for_the_next(case):
    frame = change(case.X, lambda c: unheard_of(c, 2))
    with pytest.warns(UserWarning, match=r"column 'flow rate' of X .* takes it for"):
        ours = case.ensemble.predict(frame)
    assert_same_bits(ours, case.own(frame), frame)
    known = change(case.X, lambda c: c)
    for name in label_columns(known):
        known.loc[::5, name] = known[name].cat.categories[3]
    assert_same_bits(ours, case.ensemble.predict(known), known)


@pytest.mark.parametrize("case", LABELED, ids=", ".join, indirect=True)
def test_columns_are_matched_by_name(case):
    shuffled = case.X[list(case.X.columns)[::-1]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = case.ensemble.predict(shuffled)
    assert_same_bits(ours, case.own(case.X), case.X)


@pytest.mark.parametrize("case", LABELED, ids=", ".join, indirect=True)
def test_points_with_labels(case):
    """As a mapping, a series, or a frame of one row; and the number that stands for the label."""
    complete = np.flatnonzero(~case.X.isna().any(axis=1))[:4]
    for part, i in itertools.product(case.of_one_sum, complete):
        own = part.own(case.X.iloc[[i]])[0]
        series = case.X.iloc[i]
        for x in (series.to_dict(), series, series.iloc[::-1], case.X.iloc[[i]], case.matrix[i]):
            walker = part.ensemble.walker(x)
            assert walker.value == own
            np.testing.assert_array_equal(walker.x, case.matrix[i])
            for j in categorical(case):
                line = part.ensemble.line(x, int(j))
                assert line.value[np.searchsorted(line.upper, case.matrix[i, j])] == own


@pytest.mark.parametrize("case", LABELED, ids=", ".join, indirect=True)
def test_a_missing_label_in_a_point(case):
    row = case.X.iloc[[3]].copy()
    name = label_columns(row)[0]
    row[name] = row[name].where([False])
    for part, missing in itertools.product(case.of_one_sum, (np.nan, None)):
        point = {**case.X.iloc[3].to_dict(), name: missing}
        assert part.ensemble.walker(point).value == part.own(row)[0]


@pytest.mark.parametrize("case", LABELED, ids=", ".join, indirect=True)
def test_labels_are_kept(case):
    """Each with the number that stands for it in a matrix."""
    ordered = [NAMES.index(c) for c in label_columns(case.X) if case.X[c].cat.ordered]
    for j in ordered or categorical(case):
        column = case.X[NAMES[j]]
        known = case.ensemble.categories[int(j)]
        used = column.cat.remove_unused_categories().cat.categories
        assert set(used) <= set(known.labels)
        for label, number in known.number_of.items():
            assert (case.matrix[(column == label).to_numpy(), j] == number).all()
        assert str(known.labels[0]) in repr(known)


@pytest.mark.parametrize("case", labeled_cases("lightgbm"), ids=", ".join, indirect=True)
def test_lightgbm_needs_as_many_category_columns(case):
    name = label_columns(case.X)[0]
    for frame in (
        case.X.assign(**{name: case.X[name].cat.codes}),
        case.X.assign(**{"temp": pd.Categorical(["a"] * len(case.X))}),
    ):
        with pytest.raises(Exception, match="categorical"):
            case.own(frame)
        with pytest.raises(InputError, match="category columns"):
            case.ensemble.predict(frame)


FINITE = [(lib, n) for lib, n in LABELED if lib == "hist"] + [
    ("hist", "HistGradientBoostingRegressor, auto, categories-nan"),
    ("hist", "HistGradientBoostingClassifier, proba 0, categories-nan"),
]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("case", FINITE, ids=", ".join, indirect=True)
def test_hist_refuses_infinity_among_categories_only(case, value):
    for part in case.of_one_sum:
        check_infinity_is_refused(part, value)
    row = np.nan_to_num(case.matrix[:1])
    row[:, categorical(case)[0]] = value
    with pytest.raises(InputError, match="inf"):
        case.ensemble.predict(row)


def check_infinity_is_refused(case, value):
    x = np.nan_to_num(case.matrix[0])
    walker = case.ensemble.walker(x)
    before = walker.value
    for j in categorical(case):
        row = x.copy()
        row[j] = value
        for use in (
            lambda row=row: case.ensemble.predict(row[None, :]),
            lambda row=row: case.ensemble.walker(row),
            lambda row=row: case.ensemble.line(row, 0),
            lambda j=j: walker.move(int(j), value),
            lambda j=j: walker.run([0, int(j)], [x[0], value]),
        ):
            with pytest.raises(InputError, match="inf"):
                use()
    assert walker.value == before
    x[0] = value
    assert_same_bits(case.ensemble.predict(x[None, :]), case.own(x[None, :]))
    assert walker.move(0, value) == case.own(x[None, :])[0]


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("hist", "HistGradientBoostingRegressor, auto, odd-categories in a frame"),
        ("hist", "HistGradientBoostingRegressor, auto, categories with whole labels"),
    ],
)
@pytest.mark.parametrize(
    "form", [lambda c: c.astype(float), lambda c: c.astype("category"), lambda c: c.astype(object)]
)
def test_hist_reads_numbers_whatever_their_type(library, name, form):
    case = fitted(library, name)
    frame = case.X.assign(**{c: form(case.X[c]) for c in ("flow rate", "pH")})
    assert_same_bits(case.ensemble.predict(frame), case.own(frame), frame)
    unknown = frame.astype({"pH": float, "flow rate": float})
    unknown.loc[::4, "pH"] = 2.5
    assert_same_bits(case.ensemble.predict(unknown), case.own(unknown), unknown)
