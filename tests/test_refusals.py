"""What is refused: by name, with the reason and what to do instead."""

import re

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost as xgb
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

import treeopt
from tests.cases import (
    TRANSFORMED_LIGHTGBM,
    TRANSFORMED_XGBOOST,
    fitted,
    is_large,
    lightgbm_regressor,
    xgboost_regressor,
)
from tests.contract import assert_same_bits
from tests.models import NAMES, Case, dataset, train_xgboost
from tests.rows import ABOVE_MAX32, MAX32
from treeopt import InputError, UnfittedModelError, UnsupportedModelError

X, Y = dataset("plain", 0)
LABELS = is_large(Y).astype(int)
GROUPS = pd.DataFrame(X).assign(group=pd.Categorical(list("abcdefgh") * 25))


def says(*parts: str) -> str:
    """Return a pattern that matches a message with these parts in order."""
    return "(?s)" + ".*".join(map(re.escape, parts))


UNFITTED = [
    DecisionTreeRegressor(),
    ExtraTreeRegressor(),
    RandomForestRegressor(),
    ExtraTreesRegressor(),
    GradientBoostingRegressor(),
    xgb.XGBRegressor(),
    xgb.XGBRegressor(booster="gblinear"),
    xgb.XGBRFRegressor(),
    lgb.LGBMRegressor(),
]


@pytest.mark.parametrize("model", UNFITTED, ids=lambda m: type(m).__name__)
def test_unfitted_model(model):
    with pytest.raises(
        UnfittedModelError, match=says(type(model).__name__, "not been fitted", "fit first")
    ):
        treeopt.from_model(model)


def test_unfitted_booster():
    with pytest.raises(UnfittedModelError, match=says("Booster", "xgboost.train")):
        treeopt.from_model(xgb.Booster())


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor,
        xgb.XGBRegressor,
        lgb.LGBMRegressor,
        xgb.Booster,
        None,
        "model.json",
        X,
    ],
    ids=lambda m: getattr(m, "__name__", type(m).__name__),
)
def test_not_a_model(model):
    name = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    with pytest.raises(UnsupportedModelError, match=says(name, "Pass a fitted estimator")):
        treeopt.from_model(model)


def gbdt(**params) -> lgb.LGBMRegressor:
    return lightgbm_regressor(n_estimators=3, **params)


UNSUPPORTED = {
    "AdaBoost": (
        lambda: AdaBoostRegressor(n_estimators=2).fit(X, Y),
        "AdaBoostRegressor",
        "median",
    ),
    "linear regression": (lambda: LinearRegression().fit(X, Y), "LinearRegression", "not one of"),
    "gblinear": (lambda: xgboost_regressor(booster="gblinear").fit(X, Y), "gblinear", "linear"),
    "gblinear booster": (lambda: train_xgboost(booster="gblinear")(0).model, "gblinear", "linear"),
    "dart": (lambda: xgboost_regressor(booster="dart").fit(X, Y), "dart", "weighted"),
    "linear trees": (lambda: gbdt(linear_tree=True).fit(X, Y), "linear_tree", "linear functions"),
    "init estimator": (
        lambda: GradientBoostingRegressor(init=LinearRegression(), n_estimators=2).fit(X, Y),
        "GradientBoostingRegressor",
        "starts from the predictions of LinearRegression",
    ),
    # Not yet.
    "XGBoost categories": (
        lambda: xgboost_regressor(enable_categorical=True).fit(
            GROUPS, GROUPS["group"].cat.codes % 2
        ),
        "categorical splits",
        "numeric",
    ),
    "LightGBM categories": (
        lambda: gbdt().fit(GROUPS, GROUPS["group"].cat.codes % 2),
        "categorical splits",
        "numeric",
    ),
    **{
        type(m).__name__: (lambda m=m: m.fit(X, LABELS), type(m).__name__, "it is a classifier")
        for m in (
            DecisionTreeClassifier(),
            RandomForestClassifier(n_estimators=2),
            GradientBoostingClassifier(n_estimators=2),
            xgb.XGBClassifier(n_estimators=2),
            lgb.LGBMClassifier(n_estimators=2, verbose=-1),
        )
    },
}


@pytest.mark.parametrize(("make", "name", "reason"), UNSUPPORTED.values(), ids=UNSUPPORTED)
@pytest.mark.filterwarnings("ignore")
def test_unsupported_model(make, name, reason):
    with pytest.raises(UnsupportedModelError, match=says(name, reason)) as caught:
        treeopt.from_model(make())
    assert re.search(r"\. (Supported are|Train with|Train without|Fit with) ", str(caught.value))


@pytest.mark.parametrize(
    ("library", "name"),
    [
        *(("xgboost", n) for n in TRANSFORMED_XGBOOST),
        *(("lightgbm", n) for n in TRANSFORMED_LIGHTGBM),
    ],
)
@pytest.mark.parametrize("output", ["auto", "predict"])
def test_transformed_output(library, name, output):
    """That output='raw' works, and is bit-equal, is part of the adapter contract."""
    case = fitted(library, name)
    objective = re.sub("raw (reg_)?|,.*| rf", "", name)
    with pytest.raises(UnsupportedModelError, match=says(objective, "transformed", "output='raw'")):
        treeopt.from_model(case.model, output=output, class_index=case.class_index)


ONE_OUTPUT = [
    ("sklearn", "tree"),
    ("sklearn", "boosting, huber"),
    ("xgboost", "booster"),
    ("lightgbm", "rf"),
]
MANY_OUTPUTS = {
    ("sklearn", "forest, output 0"): 2,
    ("xgboost", "one_output_per_tree, output 0"): 3,
    ("xgboost", "multi_output_tree, output 0"): 3,
    ("xgboost", "raw multi:softprob"): 3,
    ("lightgbm", "raw multiclass"): 3,
}


@pytest.mark.parametrize("key", [*ONE_OUTPUT, *MANY_OUTPUTS], ids=", ".join)
@pytest.mark.parametrize("class_index", [-1, 3, 0.5, "1"])
def test_wrong_class_index(key, class_index):
    case = fitted(*key)
    n_outputs = MANY_OUTPUTS.get(key, 1)
    remedy = "Leave class_index out" if n_outputs == 1 else f"0..{n_outputs - 1}"
    with pytest.raises(InputError, match=says("class_index is", str(class_index), remedy)):
        treeopt.from_model(case.model, output=case.output, class_index=class_index)


@pytest.mark.parametrize(
    ("key", "n_outputs"), MANY_OUTPUTS.items(), ids=map(", ".join, MANY_OUTPUTS)
)
def test_class_index_is_needed(key, n_outputs):
    case = fitted(*key)
    with pytest.raises(
        InputError, match=says(f"{n_outputs} outputs", f"class_index=0..{n_outputs - 1}")
    ):
        treeopt.from_model(case.model, output=case.output)


@pytest.mark.parametrize(
    "key",
    [*ONE_OUTPUT, ("xgboost", "frame"), ("xgboost", "forest"), ("lightgbm", "booster")],
    ids=", ".join,
)
def test_probability_of_a_regressor(key):
    model = fitted(*key).model
    with pytest.raises(
        InputError, match=says("'proba'", type(model).__name__, "Pass output='auto'")
    ):
        treeopt.from_model(model, output="proba")


@pytest.mark.parametrize("output", ["margin", "", None, 1])
def test_unknown_output(output):
    with pytest.raises(InputError, match=says(f"output is {output!r}", "'auto'", "'raw'")):
        treeopt.from_model(fitted("sklearn", "tree").model, output=output)


@pytest.mark.parametrize("choice", [{"output": "raw"}, {"class_index": 0}])
def test_an_ensemble_has_one_output(choice):
    with pytest.raises(InputError, match=says("Ensemble", "original model")):
        treeopt.from_model(fitted("sklearn", "tree").ensemble, **choice)


FRAME = pd.DataFrame(X, columns=list(NAMES))
WRONG_INPUTS = {
    "too narrow": (X[:, :3], ("3 columns", "4")),
    "too wide": (np.hstack([X, X]), ("8 columns", "4")),
    "one row": (X[0], ("1-dimensional", "reshape(1, -1)")),
    "three dimensions": (X[None], ("3-dimensional",)),
    "a number": (1.0, ("0-dimensional",)),
    "no rows": (X[:0], ("no rows", "at least one")),
    "no rows, frame": (FRAME.iloc[:0], ("no rows", "at least one")),
    "sparse matrix": (scipy.sparse.csr_matrix(X), ("sparse", "toarray()")),
    "sparse array": (scipy.sparse.coo_array(X), ("sparse", "toarray()")),
    "objects": (X.astype(object), ("object", "numbers", "Encode")),
    "text": (X.astype(str), ("numbers", "Encode")),
    "complex numbers": (X.astype(complex), ("complex128", "real numbers")),
    "rows of different lengths": ([[1.0, 2.0, 3.0, 4.0], [1.0]], ("X",)),
    "text column": (FRAME.assign(pH="acid"), ("'pH'", "numbers", "Encode")),
    "date column": (FRAME.assign(pH=pd.Timestamp("2020-02-02")), ("'pH'", "datetime64", "Encode")),
    "category column": (
        FRAME.assign(pH=pd.Categorical(["a"] * 200)),
        ("'pH'", "category", "Encode"),
    ),
    "object column": (FRAME.astype({"d": object}), ("'d'", "object", "Encode")),
    "column missing": (FRAME.drop(columns="pH"), ("lacks", "'pH'", "'temp'")),
    "column unknown": (FRAME.assign(speed=1.0), ("unknown", "'speed'", "'temp'")),
    "column renamed": (FRAME.rename(columns={"d": "D"}), ("lacks", "'d'", "unknown", "'D'")),
    "column twice": (pd.concat([FRAME, FRAME[["d"]]], axis=1), ("several columns", "Rename")),
    "names missing": (pd.DataFrame(X), ("lacks 'temp'", "unknown '0'")),
}


@pytest.mark.parametrize(("given", "message"), WRONG_INPUTS.values(), ids=WRONG_INPUTS)
@pytest.mark.parametrize(
    "key",
    [("sklearn", "forest, frame"), ("xgboost", "frame"), ("lightgbm", "frame")],
    ids=", ".join,
)
def test_wrong_input(key, given, message):
    with pytest.raises(InputError, match=says(*message)):
        fitted(*key).ensemble.predict(given)


BAD_VALUES = [np.nan, np.inf, -np.inf, ABOVE_MAX32, -ABOVE_MAX32, 1e300]
SKLEARN_MODELS = {
    "tree": DecisionTreeRegressor(),
    "extra tree": ExtraTreeRegressor(),
    "forest": RandomForestRegressor(3, max_leaf_nodes=20),
    "forest, absolute_error": RandomForestRegressor(3, criterion="absolute_error"),
    "forest, monotonic": RandomForestRegressor(3, monotonic_cst=[1, 0, 0, 0]),
    "extra trees": ExtraTreesRegressor(3),
    "boosting": GradientBoostingRegressor(n_estimators=3),
}


@pytest.mark.parametrize("model", SKLEARN_MODELS.values(), ids=SKLEARN_MODELS)
class TestValuesThatScikitLearnRefuses:
    """Also in column 2, which no split reads."""

    @staticmethod
    def fit(model) -> Case:
        data = FRAME.assign(pH=0.5)
        case = Case(model.set_params(random_state=0).fit(data, Y), data)
        assert 2 not in case.ensemble.feature
        assert 1 in case.ensemble.feature
        return case

    @pytest.mark.parametrize("n_jobs", [1, 2])
    @pytest.mark.parametrize("n_rows", [1, 4, 9, 2000])
    @pytest.mark.parametrize("column", [1, 2])
    @pytest.mark.parametrize("value", BAD_VALUES)
    def test_predict(self, model, value, column, n_rows, n_jobs):
        case = self.fit(model)
        rows = case.matrix[np.arange(n_rows) % len(X)]
        bad = n_rows * 3 // 4
        rows[bad, column] = value
        if n_rows > bad + 1:
            rows[-1, 0] = value  # the first one counts
        try:
            own = case.own(rows)
        except ValueError:
            name = NAMES[column]
            with pytest.raises(
                InputError, match=says(f"X[{bad}, {column}]", repr(name), "replace")
            ):
                case.ensemble.predict(rows, n_jobs=n_jobs)
        else:
            assert np.isnan(value)
            assert_same_bits(case.ensemble.predict(rows, n_jobs=n_jobs), own, rows)

    @pytest.mark.parametrize("column", [1, 2])
    @pytest.mark.parametrize("value", BAD_VALUES[1:])
    def test_points_and_moves(self, model, value, column):
        ensemble = self.fit(model).ensemble
        x = X[0].copy()
        walker = ensemble.walker(x)
        before = walker.value
        with pytest.raises(InputError, match=says(f"{value}", type(model).__name__)):
            walker.move(column, value)
        assert walker.value == before
        x[column] = value
        for use in (ensemble.walker, lambda x: ensemble.line(x, 0)):
            with pytest.raises(InputError, match=says(repr(NAMES[column]), "replace")):
                use(x)

    @pytest.mark.parametrize("column", [1, 2])
    def test_the_largest_values_are_accepted(self, model, column):
        case = self.fit(model)
        rows = np.repeat(case.matrix[:1], 4, axis=0)
        rows[:, column] = [
            MAX32,
            -MAX32,
            np.nextafter(ABOVE_MAX32, 0),
            -np.nextafter(ABOVE_MAX32, 0),
        ]
        assert_same_bits(case.ensemble.predict(rows), case.own(rows), rows)
