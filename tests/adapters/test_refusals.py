"""What is refused: by name, with the reason and what to do instead."""

import copy
import re
from functools import cache

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost as xgb
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

import treeopt
from tests.support.cases import (
    fitted,
    lightgbm_classifier,
    lightgbm_regressor,
    xgboost_classifier,
    xgboost_regressor,
)
from tests.support.contract import assert_same_bits
from tests.support.handmade import document
from tests.support.messages import says
from tests.support.models import NAMES, Case, dataset, is_large, third, train
from tests.support.rows import ABOVE_MAX32, MAX32
from treeopt import InputError, UnfittedModelError, UnsupportedModelError
from treeopt.adapters import lightgbm, xgboost

X, Y = dataset("plain", 0)
LABELS, THIRDS = is_large(Y), third(Y)
TWO = np.column_stack([LABELS, THIRDS])

UNFITTED = [
    *(DecisionTreeRegressor(), ExtraTreeRegressor(), RandomForestRegressor()),
    *(ExtraTreesRegressor(), GradientBoostingRegressor(), BaggingRegressor()),
    *(DecisionTreeClassifier(), ExtraTreeClassifier(), RandomForestClassifier()),
    *(ExtraTreesClassifier(), GradientBoostingClassifier(), BaggingClassifier()),
    *(HistGradientBoostingRegressor(), HistGradientBoostingClassifier()),
    *(xgb.XGBRegressor(), xgb.XGBRegressor(booster="gblinear"), xgb.XGBRFRegressor()),
    *(xgb.XGBClassifier(), xgb.XGBRFClassifier(), xgb.XGBRanker()),
    *(lgb.LGBMRegressor(), lgb.LGBMClassifier(), lgb.LGBMRanker()),
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


def tree() -> DecisionTreeRegressor:
    return DecisionTreeRegressor(max_depth=2)


def tree_classifier() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=2)


def forest() -> RandomForestRegressor:
    return RandomForestRegressor(2, max_depth=2)


def boosted(name: str, **params):
    """Train a bare Booster with an objective that needs labels of two or three classes."""
    target = third if "num_class" in params else is_large
    return train(name, rounds=2, target=target, **params).make(0).model


def survival() -> xgb.Booster:
    """Train on times of which each is known up to a range."""
    matrix = xgb.DMatrix(X)
    matrix.set_float_info("label_lower_bound", Y + 0.1)
    matrix.set_float_info("label_upper_bound", Y + 0.2)
    return xgb.train({"objective": "survival:aft", "nthread": 1}, matrix, 2)


class DoubledTree(DecisionTreeRegressor):
    def predict(self, X, check_input=True):
        return 2 * super().predict(X, check_input)


class Doubled(RandomForestRegressor):
    def predict(self, X):
        return 2 * super().predict(X)


class DoubledXGB(xgb.XGBRegressor):
    def predict(self, X, **rest):
        return 2 * super().predict(X, **rest)


class DoubledLGBM(lgb.LGBMClassifier):
    def predict_proba(self, X, **rest):
        return 2 * super().predict_proba(X, **rest)


def squared_error(y, prediction):
    return prediction - y, np.ones_like(y, dtype=np.float64)


def logistic_loss(y, margin):
    p = 1 / (1 + np.exp(-margin))
    return p - y, p * (1 - p)


def edited_lightgbm(output: str):
    """Read a LightGBM text whose objective is not known."""
    text = boosted("lightgbm", objective="binary").model_to_string()
    text = re.sub("^objective=.*$", "objective=foo", text, flags=re.MULTILINE)
    return lightgbm.read(text, "Booster", output, None)


def edited_xgboost(output: str):
    """Read an XGBoost document whose objective is not known."""
    content = document(boosted("xgboost", objective="binary:logistic"))
    content["learner"]["objective"]["name"] = "reg:foo"
    return xgboost.read(content, xgboost.Wrapper(), output, None)


def as_is(make):
    return lambda output: treeopt.from_model(make(), output=output)


ALL = ("auto", "raw", "predict", "proba")
LINEAR = "linear model"
REFUSED = {
    "linear trees": (
        as_is(lambda: lightgbm_regressor(n_estimators=2, linear_tree=True).fit(X, Y)),
        *(("auto", "raw"), "linear_tree", "linear functions", "linear_tree=False"),
    ),
    "linear trees, Booster": (
        as_is(lambda: boosted("lightgbm", linear_tree=True, objective="regression")),
        *(("auto", "raw"), "linear_tree", "linear functions", "linear_tree=False"),
    ),
    "AdaBoostRegressor": (
        as_is(lambda: AdaBoostRegressor(tree(), n_estimators=2).fit(X, Y)),
        *(ALL, "AdaBoostRegressor", "weighted median", "RandomForestRegressor"),
    ),
    "AdaBoostClassifier": (
        as_is(lambda: AdaBoostClassifier(tree_classifier(), n_estimators=2).fit(X, LABELS)),
        *(ALL, "AdaBoostClassifier", "weighted votes", "RandomForestClassifier"),
    ),
    "IsolationForest": (
        as_is(lambda: IsolationForest(n_estimators=2).fit(X)),
        *(ALL, "IsolationForest", "path lengths", "RandomForestRegressor"),
    ),
    "LinearRegression": (
        as_is(lambda: LinearRegression().fit(X, Y)),
        *(ALL, "LinearRegression", "not one of the known tree models", "Supported: "),
    ),
    "gblinear": (
        as_is(lambda: xgboost_regressor(booster="gblinear").fit(X, Y)),
        *(("auto", "raw"), "gblinear", LINEAR, "booster='gbtree'"),
    ),
    "gblinear, classifier": (
        as_is(lambda: xgboost_classifier(booster="gblinear").fit(X, LABELS)),
        *(("auto", "raw", "proba"), "gblinear", LINEAR, "booster='gbtree'"),
    ),
    "gblinear, Booster": (
        as_is(lambda: train("xgboost", booster="gblinear", max_depth=None).make(0).model),
        *(("auto", "raw"), "gblinear", LINEAR, "booster='gbtree'"),
    ),
    "labels of an XGBRegressor": (
        as_is(lambda: xgboost_regressor(objective="multi:softmax", num_class=3).fit(X, THIRDS)),
        *(("auto", "proba"), "XGBRegressor", "no probabilities", "objective='multi:softprob'"),
    ),
    "binary:hinge": (
        as_is(lambda: boosted("xgboost", objective="binary:hinge")),
        *(("auto", "predict", "proba"), "binary:hinge", "0 or 1", "output='raw'"),
    ),
    "binary:hinge, XGBClassifier": (
        as_is(lambda: xgboost_classifier(objective="binary:hinge").fit(X, LABELS)),
        *(("auto", "proba"), "binary:hinge", "0 or 1", "output='raw'"),
    ),
    "binary:logitraw, XGBClassifier": (
        as_is(lambda: xgboost_classifier(objective="binary:logitraw").fit(X, LABELS)),
        *(("auto", "proba"), "binary:logitraw", "not a probability", "output='raw'"),
    ),
    "binary:logitraw, Booster": (
        as_is(lambda: boosted("xgboost", objective="binary:logitraw")),
        *(("proba",), "binary:logitraw", "not a probability", "output='raw'"),
    ),
    "survival:cox": (
        as_is(lambda: boosted("xgboost", objective="survival:cox")),
        *(("auto", "predict"), "survival:cox", "hazard ratio", "output='raw'"),
    ),
    "survival:aft": (
        as_is(survival),
        *(("auto", "predict"), "survival:aft", "survival time", "output='raw'"),
    ),
    "init estimator": (
        as_is(lambda: GradientBoostingRegressor(init=tree(), n_estimators=2).fit(X, Y)),
        *(("auto", "raw"), "GradientBoostingRegressor", "DecisionTreeRegressor", "init='zero'"),
    ),
    "init classifier": (
        as_is(
            lambda: GradientBoostingClassifier(init=LogisticRegression(), n_estimators=2).fit(
                X, LABELS
            )
        ),
        *(("auto", "raw"), "GradientBoostingClassifier", "LogisticRegression", "init='zero'"),
    ),
    "init by chance": (
        as_is(
            lambda: GradientBoostingClassifier(
                init=DummyClassifier(strategy="stratified"), n_estimators=2
            ).fit(X, LABELS)
        ),
        *(("auto", "raw"), "GradientBoostingClassifier", "DummyClassifier", "init=None"),
    ),
    "unknown objective, LightGBM": (
        edited_lightgbm,
        *(("auto", "predict"), "foo", "unknown", "output='raw'"),
    ),
    "unknown objective, XGBoost": (
        edited_xgboost,
        *(("auto", "predict", "raw"), "reg:foo", "unknown", "Train with one of"),
    ),
    "two outputs, tree": (
        as_is(lambda: tree_classifier().fit(X, TWO)),
        *(("auto", "proba", "raw"), "DecisionTreeClassifier", "table per output", "Train one"),
    ),
    "two outputs, forest": (
        as_is(lambda: ExtraTreesClassifier(2).fit(X, TWO)),
        *(("auto", "proba", "raw"), "ExtraTreesClassifier", "table per output", "Train one"),
    ),
    "bagging of lines": (
        as_is(lambda: BaggingRegressor(LinearRegression(), 2).fit(X, Y)),
        *(("auto", "raw"), "BaggingRegressor", "only decision trees", "DecisionTreeRegressor"),
    ),
    "bagging of classifiers": (
        as_is(lambda: BaggingClassifier(LogisticRegression(), 2).fit(X, LABELS)),
        *(("auto", "proba"), "BaggingClassifier", "only decision trees", "DecisionTreeClassifier"),
    ),
    "bagging of forests": (
        as_is(lambda: BaggingRegressor(forest(), 2).fit(X, Y)),
        *(("auto", "raw"), "BaggingRegressor", "only decision trees", "DecisionTreeRegressor"),
    ),
    "bagging of trees with an own predict": (
        as_is(lambda: BaggingRegressor(DoubledTree(), 2).fit(X, Y)),
        *(("auto", "raw"), "DoubledTree", "changes the predict", "Pass a DecisionTreeRegressor"),
    ),
    "own objective, XGBClassifier": (
        as_is(lambda: xgboost_classifier(objective=logistic_loss).fit(X, LABELS)),
        *(("auto", "proba"), "an objective of its own", "only to that objective", "output='raw'"),
    ),
    "own objective, LGBMClassifier": (
        as_is(lambda: lightgbm_classifier(objective=logistic_loss).fit(X, LABELS)),
        *(("auto", "proba"), "LGBMClassifier", "not a probability", "output='raw'"),
    ),
    "pred_early_stop": (
        as_is(lambda: lightgbm_classifier(n_estimators=2, pred_early_stop=True).fit(X, LABELS)),
        *(("auto", "raw", "proba"), "pred_early_stop", "stops adding", "pred_early_stop=False"),
    ),
    "own predict": (
        as_is(lambda: Doubled(2, max_depth=2).fit(X, Y)),
        *(("auto", "raw"), "Doubled", "changes the predict", "Pass a RandomForestRegressor"),
    ),
    "own predict, XGBoost": (
        as_is(lambda: DoubledXGB(n_estimators=2, n_jobs=1).fit(X, Y)),
        *(("auto", "raw"), "DoubledXGB", "changes the predict", "Pass a XGBRegressor"),
    ),
    "own predict_proba, LightGBM": (
        as_is(lambda: DoubledLGBM(n_estimators=2, verbose=-1, n_jobs=1).fit(X, LABELS)),
        *(("auto", "proba"), "DoubledLGBM", "changes the predict_proba", "Pass a LGBMClassifier"),
    ),
    **{
        type(model).__name__: (
            as_is(lambda model=model, y=y: model.fit(X, y)),
            *(("auto", "raw", "predict", "proba"), type(model).__name__, reason, remedy),
        )
        for model, y, reason, remedy in (
            (make_pipeline(StandardScaler(), tree()), Y, "wraps", "its last step"),
            (GridSearchCV(tree(), {"max_depth": [1, 2]}, cv=2), Y, "wraps", "best_estimator_"),
            (
                RandomizedSearchCV(tree(), {"max_depth": [1, 2]}, cv=2, n_iter=2),
                *(Y, "wraps", "best_estimator_"),
            ),
            (MultiOutputRegressor(tree()), TWO, "wraps", "estimators_"),
            (MultiOutputClassifier(tree_classifier()), TWO, "wraps", "estimators_"),
            (CalibratedClassifierCV(tree_classifier(), cv=2), LABELS, "wraps", "calibrates"),
            (TransformedTargetRegressor(tree()), Y, "wraps", "regressor_"),
            (VotingRegressor([("a", tree())]), Y, "not one of the known", "Supported: "),
            (StackingRegressor([("a", tree())], cv=2), Y, "not one of the known", "Supported: "),
        )
    },
}
EACH = [
    pytest.param(make, output, *rest, id=f"{name}, {output}")
    for name, (make, outputs, *rest) in REFUSED.items()
    for output in outputs
]


@pytest.mark.parametrize(("make", "output", "name", "reason", "remedy"), EACH)
@pytest.mark.filterwarnings("ignore")
def test_unsupported_model(make, output, name, reason, remedy):
    """Each by its name, with the reason and then what to do instead."""
    with pytest.raises(UnsupportedModelError, match=says(name, "not supported", reason)) as caught:
        make(output)
    assert re.search(rf"\. (?=[A-Z]).*{re.escape(remedy)}.*\.$", str(caught.value))


SUPPORTED_RAW = ["binary:hinge", "binary:hinge, XGBClassifier", "survival:cox", "survival:aft"]
SUPPORTED_RAW += ["unknown objective, LightGBM", "own objective, XGBClassifier"]
SUPPORTED_RAW += ["own objective, LGBMClassifier", "binary:logitraw, XGBClassifier"]


@pytest.mark.parametrize("name", SUPPORTED_RAW)
@pytest.mark.filterwarnings("ignore")
def test_what_the_remedy_says_works(name):
    make, *_ = REFUSED[name]
    assert make("raw").predict(X).shape == (len(X),)


@pytest.mark.parametrize(
    "model",
    [xgboost_regressor(objective=squared_error), lightgbm_regressor(objective=squared_error)],
)
def test_an_objective_of_ones_own_is_fine_for_a_regressor(model):
    case = Case(copy.deepcopy(model).fit(X, Y), X)
    assert_same_bits(case.ensemble.predict(X), case.own(X), X)


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
        ("category",),
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
    [
        ("sklearn", "RandomForestRegressor, auto, plain in a frame"),
        ("hist", "HistGradientBoostingRegressor, auto, nan in a frame, monotonic"),
        ("xgboost", "XGBRegressor, auto, nan in a frame"),
        ("lightgbm", "LGBMRegressor, auto, nan in a frame"),
    ],
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
    "bagging": BaggingRegressor(DecisionTreeRegressor(), 3),
    "forest classifier": RandomForestClassifier(3, max_leaf_nodes=20),
    "boosting classifier": GradientBoostingClassifier(n_estimators=3),
}


@pytest.mark.parametrize("model", SKLEARN_MODELS.values(), ids=SKLEARN_MODELS)
class TestValuesThatScikitLearnRefuses:
    """Also in column 2, which no split reads."""

    @staticmethod
    @cache
    def fit(model) -> Case:
        data = FRAME.assign(pH=0.5)
        target = LABELS if is_classifier(model) else Y
        case = Case(model.set_params(random_state=0).fit(data, target), data)
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
