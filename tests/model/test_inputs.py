"""Whatever holds the rows: the library sees the same object and must predict the same."""

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import treeopt
from tests.support.cases import fitted, lightgbm_regressor, xgboost_regressor
from tests.support.contract import assert_same_bits, sample
from tests.support.models import NAMES, Case
from tests.support.rows import acceptable, thresholds

CASES = [
    ("sklearn", "RandomForestRegressor, auto, plain in a frame"),
    ("sklearn", "RandomForestRegressor, auto, nan"),
    ("sklearn", "GradientBoostingRegressor, auto, plain, squared_error"),
    ("sklearn", "BaggingRegressor, auto, nan in a frame, few features"),
    ("sklearn", "GradientBoostingClassifier, auto, plain in a frame, from zero"),
    ("hist", "HistGradientBoostingRegressor, auto, nan in a frame, monotonic"),
    ("hist", "HistGradientBoostingClassifier, proba 0, nan"),
    ("xgboost", "XGBRegressor, auto, nan in a frame"),
    ("xgboost", "XGBClassifier, proba 0, nan"),
    ("xgboost", "Booster, auto, nan"),
    ("lightgbm", "LGBMRegressor, auto, nan in a frame"),
    ("lightgbm", "LGBMClassifier, proba 0, nan"),
    ("lightgbm", "Booster, auto, zeros-nan"),
    ("lightgbm", "Booster, auto, plain in a frame"),
]
NAMED = [key for key in CASES if "frame" in key[1]]

ARRAYS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
}
DTYPES = [np.float64, np.float32, np.float16, np.longdouble, np.int64, np.int32, np.uint8, np.bool_]


@pytest.fixture
def case(request):
    return fitted(*request.param)


def rows_of(case: Case, dtype: type) -> np.ndarray:
    """Return hard rows in a dtype, without what overflows there."""
    rows = sample(case, 300)
    if np.issubdtype(dtype, np.inexact):
        with np.errstate(over="ignore"):
            return acceptable(case, rows.astype(dtype))
    info = np.iinfo(np.uint8 if dtype is np.bool_ else dtype)
    rows = np.nan_to_num(rows, posinf=0, neginf=0)
    return (3 * rows.clip(info.min / 4, info.max / 4)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("case", CASES, ids=", ".join, indirect=True)
def test_arrays(case, layout, dtype):
    """The library gets the rows in order: XGBoost 3.2 crashes on negative strides."""
    rows = rows_of(case, dtype)
    assert_same_bits(case.ensemble.predict(layout(rows)), case.own(rows), rows)


@pytest.mark.parametrize("dtype", [">f8", ">f4"])
@pytest.mark.parametrize("case", CASES, ids=", ".join, indirect=True)
def test_bytes_in_the_other_order(case, dtype):
    """XGBoost misreads such an array: there the numbers count."""
    native = rows_of(case, np.dtype(dtype).newbyteorder("=").type)
    rows = native.astype(dtype)
    judged = native if isinstance(case.model, xgb.XGBModel | xgb.Booster) else rows
    assert_same_bits(case.ensemble.predict(rows), case.own(judged), rows)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize("case", CASES, ids=", ".join, indirect=True)
def test_lists(case, dtype):
    rows = rows_of(case, dtype).tolist()
    assert_same_bits(case.ensemble.predict(rows), case.own(rows), rows)


def test_the_matrix_is_not_changed():
    case = fitted("lightgbm", "Booster, auto, zeros-nan")
    rows = sample(case, 50)
    before = rows.copy()
    case.ensemble.predict(rows)
    np.testing.assert_array_equal(rows, before)
    assert rows.flags.writeable


FRAMES = {
    "float64": lambda F: F,
    "float32": lambda F: F.astype(np.float32),
    "mixed floats": lambda F: F.astype({F.columns[0]: np.float32}),
    "nullable": lambda F: F.astype("Float64"),
    "integers": lambda F: F.fillna(0).clip(-1000, 1000).astype(np.int64),
    "mixed numbers": lambda F: F.fillna(0).clip(-1000, 1000).astype({F.columns[-1]: np.int64}),
    "nullable integers": lambda F: F.clip(-1000, 1000).round().astype("Int64"),
    "bool": lambda F: F > 0,
    "other index": lambda F: F.set_axis(np.arange(len(F))[::-1] * 3, axis=0),
}


@pytest.mark.parametrize("form", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("case", CASES, ids=", ".join, indirect=True)
def test_frames(case, form):
    columns = case.X.columns if isinstance(case.X, pd.DataFrame) else None
    with np.errstate(over="ignore"):
        rows = acceptable(case, sample(case, 300).astype(np.float32)).astype(np.float64)
    frame = form(pd.DataFrame(rows, columns=columns))
    assert_same_bits(case.ensemble.predict(frame), case.own(frame), frame)


@pytest.mark.parametrize("case", NAMED, ids=", ".join, indirect=True)
class TestNames:
    def test_columns_are_matched_by_name(self, case):
        frame = pd.DataFrame(sample(case, 100), columns=list(NAMES))
        shuffled = frame[[NAMES[2], NAMES[0], NAMES[3], NAMES[1]]]
        assert_same_bits(case.ensemble.predict(shuffled), case.own(frame), frame)

    def test_points_are_matched_by_name(self, case):
        x = case.X.iloc[3]
        own = case.own(case.X.iloc[[3]])
        walker = case.ensemble.walker(x.iloc[::-1])
        assert walker.value == own[0]
        np.testing.assert_array_equal(walker.x, x.to_numpy())
        name = case.ensemble.feature_names[1]
        assert walker.move(name, 0.25) == case.own(case.X.iloc[[3]].assign(**{NAMES[1]: 0.25}))[0]
        line = case.ensemble.line(x.iloc[::-1], name)
        assert line.value[np.searchsorted(line.upper, x.iloc[1])] == own[0]


def whole_numbers(rng: np.random.Generator) -> np.ndarray:
    """Return integers where float32 (2**24) and float64 (2**53) end, and where both round."""
    starts_and_steps = [(2**24 - 20, 1), (2**53 - 20, 1), (2**60, 2**36), (-(2**60), 2**36)]
    columns = [a + step * rng.integers(0, 40, 300) for a, step in starts_and_steps]
    return np.column_stack(columns)


def whole_rows(case: Case, rng: np.random.Generator) -> np.ndarray:
    """Return integers next to thresholds and next to the middle of two float32 numbers."""
    rows = []
    data = np.asarray(case.X).astype(np.int64)
    for j, threshold in zip(*thresholds(case), strict=True):
        single = np.float32(threshold)
        around = [np.nextafter(single, np.float32(s * np.inf)) for s in (-1, 1)]
        middles = [(int(single) + int(v)) // 2 for v in around]
        for value in {int(np.floor(threshold)), int(single), *map(int, around), *middles}:
            block = data[rng.integers(len(data), size=5)]
            block[:, j] = value + np.arange(-2, 3)
            rows.append(block)
    return np.concatenate(rows)


WHOLE = {
    "forest": RandomForestRegressor(3, random_state=0),
    "bagging": BaggingRegressor(n_estimators=3, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=5, random_state=0),
    "hist boosting": HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3),
    "xgboost exact": xgboost_regressor(tree_method="exact"),
    "xgboost hist": xgboost_regressor(),
    "lightgbm": lightgbm_regressor(),
}


@pytest.mark.parametrize("model", WHOLE.values(), ids=WHOLE)
class TestWholeNumbers:
    @staticmethod
    def fit(model, framed: bool) -> tuple[Case, np.ndarray]:
        rng = np.random.default_rng(0)
        X = whole_numbers(rng)
        y = X[:, 0] % 2 + X[:, 1] % 3 + X[:, 2] // 2**36 % 2 + X[:, 3] // 2**37 % 2
        X = pd.DataFrame(X, columns=list("abcd")) if framed else X.astype(np.float64)
        case = Case(model.fit(X, y), X)
        return case, whole_rows(case, rng)

    @pytest.mark.parametrize("layout", ARRAYS.values(), ids=ARRAYS)
    @pytest.mark.parametrize("dtype", [np.int64, np.uint64])
    def test_arrays(self, model, layout, dtype):
        case, rows = self.fit(model, framed=False)
        rows = np.abs(rows).astype(dtype) if dtype is np.uint64 else rows
        assert_same_bits(case.ensemble.predict(layout(rows)), case.own(rows), rows)

    def test_frames(self, model):
        case, rows = self.fit(model, framed=True)
        frame = pd.DataFrame(rows, columns=list("abcd"))
        assert_same_bits(case.ensemble.predict(frame), case.own(frame), frame)

    @pytest.mark.parametrize(
        "kinds",
        [{"a": np.float64}, {"a": bool}, {"b": "Int64"}, dict.fromkeys("abcd", "Int64")],
    )
    def test_frames_of_several_dtypes(self, model, kinds):
        """Beyond 2**53 XGBoost rounds once, the others to float64 first where types differ."""
        case, rows = self.fit(model, framed=True)
        frame = pd.DataFrame(rows, columns=list("abcd")).astype(kinds)
        assert_same_bits(case.ensemble.predict(frame), case.own(frame), frame)

    def test_lists(self, model):
        """scikit-learn rounds Python's integers to float64 first, the others do not."""
        case, rows = self.fit(model, framed=False)
        exact = rows.copy()
        exact[:, 2:] = 2**60
        assert_same_bits(case.ensemble.predict(exact.tolist()), case.own(exact.tolist()), exact)
        assert_same_bits(case.ensemble.predict(rows.tolist()), case.own(rows), rows)


def test_an_ensemble_is_converted_to_itself():
    ensemble = fitted("sklearn", "DecisionTreeRegressor, auto, plain").ensemble
    assert treeopt.from_model(ensemble) is ensemble
