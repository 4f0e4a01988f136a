"""`StepDirectSearchCV` as a search estimator of scikit-learn, which is the oracle.

A grid search over the candidates of a search must give what the search gave.
"""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_blobs, make_classification
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    ElasticNet,
    LinearRegression,
    LogisticRegression,
    Ridge,
    SGDClassifier,
)
from sklearn.metrics import accuracy_score, confusion_matrix, make_scorer, recall_score
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    ParameterGrid,
    RandomizedSearchCV,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.naive_bayes import ComplementNB, GaussianNB
from sklearn.neighbors import KernelDensity, KNeighborsClassifier, LocalOutlierFactor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, SplineTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import get_tags
from sklearn.utils._testing import MinimalClassifier, MinimalRegressor, MinimalTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.support.messages import says
from treeopt import InputError
from treeopt.tuning import Choice, Integer, Real, StepDirectSearchCV

X, Y = make_classification(n_samples=60, n_features=5, flip_y=0.2, random_state=0)
FRAME = pd.DataFrame(X, columns=list("abcde"))
LABELS = np.array(["no", "yes"])[Y]
GROUPS = np.arange(60) % 6
WEIGHTS = np.random.default_rng(0).uniform(0.1, 2, 60)
TREE = DecisionTreeClassifier(random_state=0)
TREE_SPACE = {
    "max_depth": (1, 6),
    "min_impurity_decrease": (1e-4, 0.1, "log"),
    "criterion": ["gini", "entropy"],
    "max_features": [None, "sqrt", 0.5],
}
NB_SPACE = {"var_smoothing": (1e-9, 1.0, "log")}
C_SPACE = {"C": (1e-2, 1.0, "log")}


def search(estimator=TREE, space=None, **how):
    how = {"n_evals": 7, "batch_size": 3, "cv": 3, "random_state": 0, **how}
    return StepDirectSearchCV(estimator, TREE_SPACE if space is None else space, **how)


def scores(found):
    """Return all results but the times."""
    return {k: v for k, v in found.cv_results_.items() if not k.endswith("_time")}


def check_as_grid(found, X, y=None, **fit):
    """Compare a search with scikit-learn's own over the same candidates, in the same order."""
    common = vars(GridSearchCV(None, {}))
    how = {k: v for k, v in found.get_params(deep=False).items() if k in common}
    grid = [{k: [v] for k, v in params.items()} for params in found.cv_results_["params"]]
    assert [*ParameterGrid(grid)] == found.cv_results_["params"]
    grid = GridSearchCV(**how, param_grid=grid).fit(X, y, **fit)
    assert found.cv_results_.keys() == grid.cv_results_.keys()
    np.testing.assert_equal(scores(found), scores(grid))
    for name, values in grid.cv_results_.items():
        if name != "params":
            mine = found.cv_results_[name]
            assert mine.dtype == values.dtype and mine.shape == values.shape, name
            assert type(mine) is type(values), name
        if name.endswith("_time"):
            assert np.isfinite(mine).all()
    for name in ("best_index_", "best_score_", "best_params_", "multimetric_", "n_splits_"):
        assert hasattr(found, name) == hasattr(grid, name)
        assert getattr(found, name, None) == getattr(grid, name, None)
    fitted = {k for k in vars(grid) if k.endswith("_")}
    assert {k for k in vars(found) if k.endswith("_")} == fitted
    if how["refit"]:
        assert str(found.best_estimator_) == str(grid.best_estimator_)
        assert found.refit_time_ >= 0
        if hasattr(grid, "predict"):
            assert np.array_equal(found.predict(X), grid.predict(X))


# The checks of scikit-learn.


@parametrize_with_checks(
    [
        search(TREE, {"max_depth": (2, 9)}, n_evals=3, batch_size=2, cv=2),
        search(LinearSVC(), C_SPACE, n_evals=3, batch_size=2, cv=2),
        search(ElasticNet(), {"alpha": (1e-2, 1.0, "log")}, n_evals=3, batch_size=2, cv=2),
    ]
)
def test_checks(estimator, check):
    with warnings.catch_warnings(action="ignore"):
        check(estimator)


# Results, compared with those of a grid search.


def two_scores(estimator, X, y):
    found = estimator.predict(X)
    return {"recall": recall_score(y, found), "accuracy": accuracy_score(y, found)}


CASES = {
    "choices and numbers": ({}, X, Y),
    "train scores": ({"return_train_score": True}, X, Y),
    "labels": ({}, X, LABELS),
    "frame": ({}, FRAME, pd.Series(LABELS)),
    "lists": ({}, X.tolist(), Y.tolist()),
    "regression": ({"estimator": Ridge(), "space": {"alpha": (1e-3, 1e3, "log")}}, X, X @ range(5)),
    "several outputs": (
        {"estimator": DecisionTreeRegressor(random_state=0), "space": {"max_depth": (1, 4)}},
        X,
        X[:, :2],
    ),
    "pipeline": (
        {
            "estimator": make_pipeline(StandardScaler(), PCA(random_state=0), GaussianNB()),
            "space": {
                "pca__n_components": range(1, 5),
                "pca__whiten": [True, False],
                "gaussiannb__var_smoothing": (1e-9, 1.0, "log"),
            },
        },
        X,
        Y,
    ),
    "objects of dimensions": (
        {
            "space": {
                "max_depth": Integer(1, 64, log=True),
                "min_samples_leaf": Real(0.05, 0.4, step=0.05),
                "class_weight": Choice([None, "balanced", {0: 1, 1: 2}]),
            }
        },
        X,
        Y,
    ),
    "no target": (
        {"estimator": KMeans(random_state=0, n_init=1), "space": {"n_clusters": (2, 5)}},
        X,
        None,
    ),
    "clusters and labels": (
        {
            "estimator": KMeans(random_state=0, n_init=1),
            "space": {"n_clusters": (2, 5)},
            "scoring": ["adjusted_rand_score", "fowlkes_mallows_score"],
            "refit": "fowlkes_mallows_score",
        },
        X,
        Y,
    ),
    "sparse": (
        {"estimator": ComplementNB(), "space": {"alpha": (1e-3, 10, "log"), "norm": [True, False]}},
        sparse.coo_matrix(np.abs(X).round()),
        Y,
    ),
    "precomputed kernel": (
        {"estimator": SVC(kernel="precomputed"), "space": C_SPACE},
        linear_kernel(X),
        Y,
    ),
    "a scorer": ({"scoring": make_scorer(recall_score)}, X, Y),
    "a loss": ({"scoring": "neg_brier_score"}, X, Y),
    "several scores": ({"scoring": ["recall", "accuracy"], "refit": "recall"}, X, Y),
    "scores by name": (
        {
            "scoring": {"r": make_scorer(recall_score), "a": "accuracy"},
            "refit": "a",
            "return_train_score": True,
        },
        X,
        Y,
    ),
    "a function of several scores": ({"scoring": two_scores, "refit": "recall"}, X, Y),
    "no refit": ({"refit": False}, X, Y),
    "no refit of several": (
        {"scoring": two_scores, "refit": False, "objective": "recall"},
        X,
        Y,
    ),
    "splits": ({"cv": [*KFold(3).split(X)]}, X, Y),
    "shuffled splits": ({"cv": StratifiedKFold(4, shuffle=True, random_state=0)}, X, Y),
    "default splits": ({"cv": None}, X, Y),
}


@pytest.mark.filterwarnings("ignore:the space has only")
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_a_grid_search(case):
    how, X, y = CASES[case]
    check_as_grid(search(**how).fit(X, y), X, y)


def test_candidates_are_in_order_of_evaluation_and_all_different():
    evaluated = []

    class Noted(BaseEstimator):
        def __init__(self, a=0, b=0, c=0):
            self.a, self.b, self.c = a, b, c

        def fit(self, X, y):
            evaluated.append({name: getattr(self, name) for name in space})
            return self

        def score(self, X, y):
            return self.a - self.b

    space = {"c": [None, 1, True], "b": (1, 4), "a": (0.0, 1.0)}
    found = search(Noted(), space, cv=2, refit=False, n_evals=20).fit(X, Y)
    params = found.cv_results_["params"]
    assert evaluated == [p for p in params for _ in range(2)] and len(params) == 20
    assert len({tuple(p.values()) for p in params}) == 20
    assert all(list(p) == list(space) for p in params)
    assert not any(found.cv_results_[f"param_{name}"].mask.any() for name in space)


def test_it_finds_the_best():
    """Also where a better score is a smaller loss."""
    target = X @ [1, 2, 3, 4, 5] + np.random.default_rng(0).normal(size=60)
    space = {"alpha": (1e-4, 1e6, "log")}
    how = {"scoring": "neg_mean_absolute_error", "cv": 3}
    found = search(Ridge(), space, **how, n_evals=30).fit(X, target)
    grid = GridSearchCV(Ridge(), {"alpha": np.geomspace(1e-4, 1e6, 100)}, **how).fit(X, target)
    assert found.best_score_ >= grid.best_score_ - 1e-3


@pytest.mark.parametrize(
    "cv", [GroupKFold(3), LeaveOneGroupOut(), GroupShuffleSplit(3, random_state=0)]
)
def test_groups_go_to_the_splitter(cv):
    with pytest.raises(ValueError, match="'groups' parameter should not be None"):
        search(cv=cv).fit(X, Y)
    check_as_grid(search(cv=cv).fit(X, Y, groups=GROUPS), X, Y, groups=GROUPS)


def test_weights_go_to_the_estimator():
    found = search().fit(X, Y, sample_weight=WEIGHTS)
    check_as_grid(found, X, Y, sample_weight=WEIGHTS)
    assert not np.array_equal(
        found.cv_results_["mean_test_score"], search().fit(X, Y).cv_results_["mean_test_score"]
    )


def test_parameters_of_fit_are_passed_on():
    """Also such as do not belong to samples."""

    class Asks(GaussianNB):
        def fit(self, X, y, number=None, pair=None, call=None, each=None):
            assert number == 42 and callable(call) and isinstance(pair, tuple)
            assert len(each) == len(X)
            self.number_ = number
            return super().fit(X, y)

    fit = {"number": 42, "pair": (X, Y), "call": len, "each": np.ones(60)}
    found = search(Asks(), NB_SPACE, error_score="raise")
    assert found.fit(X, Y, **fit).best_estimator_.number_ == 42
    with pytest.raises(AssertionError):
        found.fit(X, Y)


def test_data_of_any_shape_go_to_the_estimator():
    class Any(ClassifierMixin, BaseEstimator):
        def __init__(self, a=0):
            self.a = a

        def fit(self, X, y):
            assert X.shape[1:] == (5, 3, 2) and y.shape[1:] == (7, 11)
            return self

        def score(self, X, y):
            return self.a

    deep, target = np.zeros((10, 5, 3, 2)), np.zeros((10, 7, 11))
    found = search(Any(), {"a": (0, 9)}, error_score="raise", cv=KFold(3)).fit(deep, target)
    assert found.best_score_ == found.best_params_["a"] == 9


def test_missing_values_are_left_to_the_estimator():
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    pipe = make_pipeline(SimpleImputer(), GaussianNB())
    space = {"simpleimputer__strategy": ["mean", "median"], "gaussiannb__var_smoothing": (0.1, 1.0)}
    check_as_grid(search(pipe, space).fit(holes, Y), holes, Y)


# Choices of all kinds.


def test_steps_of_a_pipeline_are_chosen_and_left_as_they_are():
    pipe = Pipeline([("scale", StandardScaler()), ("last", LinearRegression())])
    steps = [LinearRegression(), Ridge()]
    space = {"last": steps, "scale": [StandardScaler(), "passthrough", None]}
    found = search(pipe, space, n_evals=6).fit(X, Y)
    check_as_grid(found, X, Y)
    chosen = found.cv_results_["param_last"]
    assert chosen.dtype == object and set(map(id, chosen)) == set(map(id, steps))
    assert not any(hasattr(step, "coef_") for step in steps)
    assert found.best_estimator_["last"] not in steps


def test_parameters_of_a_step_that_is_chosen():
    pipe = Pipeline([("first", MinimalTransformer()), ("last", None)])
    step = LinearSVC(random_state=0)
    found = search(pipe, {"last": [step], "last__C": [0.01]}, n_evals=1, scoring="accuracy")
    assert found.fit(X, Y).best_estimator_["last"].C == 0.01 and step.C == 1.0


def test_choices_that_arrays_do_not_hold_as_they_are():
    class Holds(DecisionTreeClassifier):
        def __init__(self, one=None, two=None, three=None, four=None):
            super().__init__(random_state=0)
            self.one, self.two, self.three, self.four = one, two, three, four

    space = {
        "one": [None, {"a": 1}, {"b": 2}],
        "two": [None, [1, 2]],
        "three": [{"a": 1}],
        "four": ["x", "yy"],
    }
    found = search(Holds(), space).fit(X, Y)
    for name, options in space.items():
        values = found.cv_results_[f"param_{name}"]
        assert values.dtype == object and all(v in options for v in values)


def test_choices_of_tuples():
    words = ["one two", "two three", "three one", "four", "five one", "six two"]
    pipe = Pipeline([("words", TfidfVectorizer()), ("last", ComplementNB())])
    space = {"words__ngram_range": [(1, 1), (1, 2)], "words__norm": ["l1", "l2"]}
    found = search(pipe, space, n_evals=4).fit(words, [0, 1, 0, 1, 0, 1])
    values = found.cv_results_["param_words__ngram_range"]
    assert values.dtype == object and set(values) == {(1, 1), (1, 2)}


def test_choices_of_arrays():
    knots = [np.linspace(-3, 3, 5 * n).reshape(n, 5) for n in (4, 5, 6)]
    pipe = make_pipeline(SplineTransformer(), GaussianNB())
    space = {"splinetransformer__knots": knots, "gaussiannb__var_smoothing": (0.1, 1.0)}
    found = search(pipe, space).fit(X, Y)
    assert found.cv_results_["param_splinetransformer__knots"].dtype == object
    assert np.isfinite(found.best_score_)


def test_choices_of_encoders():
    frame = pd.DataFrame({"n": np.arange(12.0), "c": list("abc") * 4})
    encode = ColumnTransformer([("e", OneHotEncoder(), ["c"])], remainder="passthrough")
    space = {"columntransformer__e": [OneHotEncoder(sparse_output=False), OrdinalEncoder()]}
    pipe = make_pipeline(encode, Ridge())
    found = search(pipe, space, n_evals=2).fit(frame, frame["n"])
    assert found.cv_results_["param_columntransformer__e"].dtype == object
    check_as_grid(found, frame, frame["n"])


def test_one_candidate():
    found = search(SVC(), {"C": [1.0], "kernel": ["rbf"], "gamma": (0.1, 0.1)}, n_evals=1).fit(X, Y)
    own = SVC(C=1.0, kernel="rbf", gamma=0.1).fit(X, Y)
    assert np.array_equal(found.best_estimator_.dual_coef_, own.dual_coef_)
    assert found.cv_results_["params"] == [{"C": 1.0, "kernel": "rbf", "gamma": 0.1}]


def test_a_small_space_is_searched_as_a_whole():
    space = {"max_depth": range(1, 4), "criterion": ["gini", "entropy"]}
    with pytest.warns(UserWarning, match=says("only 6 candidates", "n_evals", "20")):
        found = search(space=space, n_evals=20).fit(X, Y)
    evaluated = {tuple(p.values()) for p in found.cv_results_["params"]}
    assert len(evaluated) == len(found.cv_results_["params"]) == 6


# Splits.


def test_splits_are_the_same_for_all_candidates():
    """Also those of a splitter without a seed, and those that can be read only once."""

    class Rows(BaseEstimator):
        def __init__(self, a=0):
            self.a = a

        def fit(self, X, y=None):
            return self

        def score(self, X, y=None):
            return float(X[:, 0] @ 2.0 ** -np.arange(len(X)))

    class Once(KFold):
        def split(self, X, y=None, groups=None):
            assert not hasattr(self, "used")
            self.used = True
            return super().split(X, y)

    rows = np.arange(30.0)[:, None]
    shuffled = ShuffleSplit(3, test_size=5)
    for cv in (shuffled, KFold(3, shuffle=True), shuffled.split(rows), Once(3)):
        results = search(Rows(), {"a": (0, 9)}, cv=cv).fit(rows).cv_results_
        split = np.stack([results[f"split{k}_test_score"] for k in range(3)])
        assert (split == split[:, :1]).all() and len(set(split[:, 0])) == 3


def test_an_iterator_of_splits_is_read():
    cv = KFold(3, shuffle=True, random_state=0)
    found = search(cv=cv.split(X)).fit(X, Y)
    np.testing.assert_equal(scores(found), scores(search(cv=cv).fit(X, Y)))
    with pytest.raises(ValueError, match="Was the CV iterator empty"):
        found.fit(X, Y)


def test_a_splitter_that_contradicts_itself():
    class Broken(KFold):
        def get_n_splits(self, *args, **kw):
            return 1

    with pytest.raises(ValueError, match="Expected 1 splits, got 3"):
        search(cv=Broken(3)).fit(X, Y)


def test_data_of_different_lengths():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        search().fit(X[:50], Y)


# Scores and the best candidate.


def test_refit_as_a_function():
    def worst(results):
        assert results.keys() == plain.cv_results_.keys()
        return results["mean_test_score"].argmin()

    plain = search().fit(X, Y)
    found = search(refit=worst).fit(X, Y)
    assert found.best_index_ == plain.cv_results_["mean_test_score"].argmin()
    assert found.best_params_ == plain.cv_results_["params"][found.best_index_]
    assert not hasattr(found, "best_score_") and found.predict(X).shape == (60,)
    check_as_grid(found, X, Y)


@pytest.mark.parametrize(("index", "error"), [(None, TypeError), (-1, IndexError), (7, IndexError)])
def test_refit_as_a_function_that_is_wrong(index, error):
    with pytest.raises(error, match="best_index_"):
        search(refit=lambda results: index).fit(X, Y)


def test_refit_as_a_function_of_several_scores():
    found = search(
        scoring=["recall", "accuracy"],
        refit=lambda results: results["mean_test_recall"].argmin(),
        objective="accuracy",
    ).fit(X, Y)
    assert found.best_index_ == found.cv_results_["mean_test_recall"].argmin()


def test_without_refit():
    found = search(LogisticRegression(), C_SPACE, refit=False).fit(X, Y)
    assert found.best_params_ == found.cv_results_["params"][found.best_index_]
    assert not hasattr(found, "best_estimator_") and not hasattr(found, "classes_")
    for name in ("predict", "predict_proba", "predict_log_proba", "transform", "inverse_transform"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as raised:
            getattr(found, name)(X)
        assert "refit=False" in str(raised.value.__cause__)


def test_an_estimator_is_fitted_anew_each_time():
    class Once(ClassifierMixin, BaseEstimator):
        def __init__(self, a=0):
            self.a = a

        def fit(self, X, y):
            assert not hasattr(self, "fitted_")
            self.fitted_ = True
            return self

        def predict(self, X):
            return np.zeros(len(X), int)

    found = search(Once(), {"a": (0, 9)}, error_score="raise")
    assert found.fit(X, Y).fit(X, Y).best_estimator_.fitted_


def test_the_objective_guides_the_search():
    """And ``refit`` says which candidate is the best, by default the same."""
    scoring = {"more": lambda e, X, y: e.a, "less": lambda e, X, y: -e.a}

    class Anything(BaseEstimator):
        def __init__(self, a=0):
            self.a = a

        def fit(self, X, y):
            return self

    def run(**how):
        space = {"a": (0.0, 1.0)}
        return search(Anything(), space, scoring=scoring, n_evals=30, **how).fit(X, Y)

    more, less = run(refit="more"), run(refit="less")
    assert more.best_params_["a"] > 0.99 and less.best_params_["a"] < 0.01
    np.testing.assert_equal(scores(run(objective="less", refit="more")), scores(less))
    np.testing.assert_equal(scores(run(objective="less", refit=False)), scores(less))
    assert run(objective="less", refit="more").best_params_ != less.best_params_


def test_scores_in_every_form():
    def recall(estimator, X, y):
        return recall_score(y, estimator.predict(X))

    one = search(scoring="recall").fit(X, Y)
    for how in (
        {"scoring": recall},
        {"scoring": ["recall"], "refit": "recall"},
        {"scoring": two_scores, "refit": "recall"},
        {"scoring": ["recall", "accuracy"], "refit": "recall"},
        {"scoring": "recall", "refit": "recall"},
    ):
        other = search(**how).fit(X, Y)
        assert other.cv_results_["params"] == one.cv_results_["params"]
        assert other.best_index_ == one.best_index_ and other.best_score_ == one.best_score_
        assert other.score(X, Y) == one.score(X, Y)


def test_a_function_of_whole_numbers():
    def counts(estimator, X, y):
        return dict(zip("abcd", confusion_matrix(y, estimator.predict(X)).ravel(), strict=True))

    found = search(scoring=counts, refit="b").fit(X, Y)
    assert {f"mean_test_{name}" for name in "abcd"} <= found.cv_results_.keys()
    assert found.score(X, Y) == confusion_matrix(Y, found.predict(X))[0, 1]


def test_score_is_by_the_same_metric():
    by_default, by_accuracy, by_auc = (
        search(scoring=scoring).fit(X, Y) for scoring in (None, "accuracy", "roc_auc")
    )
    assert by_default.score(X, Y) == by_accuracy.score(X, Y) != by_auc.score(X, Y)


def test_an_estimator_without_a_score():
    class Silent(BaseEstimator):
        def __init__(self, max_depth=None):
            self.max_depth = max_depth

        def fit(self, X, y):
            self.tree_ = DecisionTreeClassifier(max_depth=self.max_depth, random_state=0).fit(X, y)
            return self

        def predict(self, X):
            return self.tree_.predict(X)

    space = {"max_depth": (1, 9)}
    silent = search(Silent(), space, scoring="accuracy", cv=KFold(3)).fit(X, Y)
    tree = search(TREE, space, cv=KFold(3)).fit(X, Y)
    assert silent.best_params_ == tree.best_params_ and silent.score(X, Y) == tree.score(X, Y)
    with pytest.raises(TypeError, match="no scoring"):
        search(Silent(), space).fit(X, Y)


def test_an_estimator_without_predict():
    def near(estimator, X):
        return -abs(np.log10(estimator.bandwidth) + 1)

    space = {"bandwidth": (1e-3, 10, "log")}
    found = search(KernelDensity(), space, scoring=near, n_evals=40).fit(X)
    assert found.best_params_["bandwidth"] == pytest.approx(0.1, rel=0.05)
    assert found.best_score_ == near(found.best_estimator_, X)


def test_an_unknown_scoring():
    with pytest.raises(ValueError, match="'scoring' parameter"):
        search(scoring="nonsense").fit(X, Y)


@pytest.mark.parametrize("train", [False, True])
def test_scores_that_are_not_finite(train):
    """They are said, and rank last."""

    def odd(estimator, X, y):
        return np.nan if estimator.max_depth % 2 else 1 / estimator.max_depth

    found = search(space={"max_depth": (1, 12)}, scoring=odd, return_train_score=train)
    with pytest.warns(UserWarning) as said:
        found.fit(X, Y)
    kinds = ["test", "train"] if train else ["test"]
    assert len(said) == len(kinds)
    for kind, warning in zip(kinds, said, strict=True):
        assert f"One or more of the {kind} scores are non-finite" in str(warning.message)
    bad = np.isnan(found.cv_results_["mean_test_score"])
    ranks = found.cv_results_["rank_test_score"]
    assert bad.any() and (ranks[bad] == ranks.max()).all() and (ranks[~bad] < ranks.max()).all()
    assert found.best_params_["max_depth"] % 2 == 0


# Methods and attributes of the best estimator.


@pytest.mark.parametrize(
    ("estimator", "space", "methods"),
    [
        (
            LogisticRegression(),
            C_SPACE,
            "predict predict_proba predict_log_proba decision_function",
        ),
        (
            PCA(random_state=0),
            {"n_components": (1, 2), "whiten": [True, False]},
            "transform score_samples",
        ),
        (LocalOutlierFactor(novelty=True), {"n_neighbors": (2, 9)}, "predict score_samples"),
        (KMeans(2, random_state=0, n_init=1), {"max_iter": (1, 9)}, "predict transform"),
    ],
)
def test_methods_of_the_best_estimator(estimator, space, methods):
    scoring = None if hasattr(estimator, "score") else "accuracy"
    found = search(estimator, space, scoring=scoring, n_evals=3)
    with pytest.raises(NotFittedError):
        found.predict(X) if "predict" in methods else found.transform(X)
    found.fit(X, Y)
    for name in methods.split():
        expected = getattr(found.best_estimator_, name)(X)
        assert np.array_equal(getattr(found, name)(X), expected)
    if hasattr(estimator, "inverse_transform"):
        small = found.transform(X)
        back = found.best_estimator_.inverse_transform(small)
        assert np.array_equal(found.inverse_transform(small), back)
    absent = {"predict", "predict_proba", "decision_function", "transform", "score_samples"}
    for name in absent - {name for name in dir(estimator) if hasattr(estimator, name)}:
        assert not hasattr(found, name)


def test_methods_that_depend_on_what_was_found():
    found = search(SGDClassifier(loss="hinge", random_state=0), {"loss": ["log_loss"]}, n_evals=1)
    assert not hasattr(found, "predict_proba")
    assert found.fit(X, Y).predict_proba(X).shape == (60, 2)
    found.set_params(space={"loss": ["hinge"]}).fit(X, Y)
    assert not hasattr(found, "predict_proba")


def test_attributes_of_the_best_estimator():
    found = search()
    for name in ("classes_", "n_features_in_", "feature_names_in_", "best_params_", "cv_results_"):
        assert not hasattr(found, name)
    found.fit(FRAME, LABELS)
    assert found.classes_.tolist() == ["no", "yes"] and found.n_features_in_ == 5
    assert found.feature_names_in_.tolist() == list("abcde")
    assert found.refit_time_ > 0 and not found.multimetric_ and found.n_splits_ == 3
    regression = search(Ridge(), {"alpha": (0.1, 1.0)}).fit(X, Y)
    assert not hasattr(regression, "classes_") and not hasattr(regression, "feature_names_in_")


def test_tags_are_those_of_the_estimator():
    assert is_classifier(search()) and not is_regressor(search())
    assert is_regressor(search(Ridge())) and not is_classifier(search(Ridge()))
    for metric in ("precomputed", "minkowski"):
        tags = get_tags(search(KNeighborsClassifier(metric=metric)))
        assert tags.input_tags.pairwise == (metric == "precomputed")
    assert get_tags(search()).target_tags.multi_output
    assert not get_tags(search(GaussianNB())).target_tags.multi_output
    assert get_tags(search()).input_tags.allow_nan
    assert not get_tags(search(GaussianNB())).input_tags.allow_nan
    assert get_tags(search(LogisticRegression())).input_tags.sparse


@pytest.mark.parametrize("last", [MinimalClassifier(), MinimalRegressor()])
def test_estimators_from_elsewhere(last):
    """They need no base class of scikit-learn."""
    pipe = Pipeline([("first", MinimalTransformer()), ("last", last)])
    space = {"first__param": [1, 10], "last__param": [1, 10]}
    found = search(pipe, space, n_evals=4, error_score="raise").fit(X, Y)
    assert found.best_params_.keys() == space.keys()
    assert found.score(X, Y) == found.best_estimator_.score(X, Y)


# As a part of something else.


def test_in_cross_validation():
    found = search()
    each = cross_validate(found, X, Y, cv=2, return_estimator=True)
    assert not hasattr(found, "best_params_") and np.isfinite(each["test_score"]).all()
    halves = StratifiedKFold(2).split(X, Y)
    for fitted, (train, test) in zip(each["estimator"], halves, strict=True):
        again = clone(found).fit(X[train], Y[train])
        np.testing.assert_equal(scores(fitted), scores(again))
        assert again.score(X[test], Y[test]) in each["test_score"]
    assert set(cross_val_predict(search(), X, LABELS, cv=2)) == {"no", "yes"}


def test_in_a_pipeline_and_in_other_searches():
    inner = search(GaussianNB(), NB_SPACE, n_evals=3)
    pipe = make_pipeline(StandardScaler(), inner)
    assert pipe.fit(X, Y).score(X, Y) == pipe[-1].score(pipe[0].transform(X), Y)
    grid = GridSearchCV(inner, {"n_evals": [2, 3], "estimator__priors": [None, [0.5, 0.5]]}, cv=2)
    assert grid.fit(X, Y).best_estimator_.best_estimator_.classes_.size == 2
    outer = search(
        pipe,
        {"stepdirectsearchcv__batch_size": (1, 3), "standardscaler__with_mean": [True, False]},
        cv=2,
        n_evals=4,
    ).fit(X, Y)
    check_as_grid(outer, X, Y)
    assert outer.best_estimator_[-1].best_params_.keys() == NB_SPACE.keys()


def test_a_search_is_copied_and_changed_by_its_parameters():
    found = search(n_jobs=1, weights=dict.fromkeys(TREE_SPACE, 1))
    params = found.get_params()
    assert params["estimator__random_state"] == 0 and params["space"] is TREE_SPACE
    copy = clone(found.fit(X, Y))
    assert not hasattr(copy, "cv_results_") and repr(copy) == repr(found)
    assert copy.get_params(deep=False).keys() == found.get_params(deep=False).keys()
    np.testing.assert_equal(scores(copy.fit(X, Y)), scores(found))
    copy.set_params(n_evals=2, estimator__max_leaf_nodes=2).fit(X, Y)
    assert len(copy.cv_results_["params"]) == 2
    assert copy.best_estimator_.max_leaf_nodes == 2 and found.estimator.max_leaf_nodes is None
    assert "n_evals=7" in repr(found) and "TreeClassifier" in repr(found)


def test_fit_leaves_its_parameters_alone():
    space = {name: list(v) if isinstance(v, list) else v for name, v in TREE_SPACE.items()}
    found = search(space=space, cv=(cv := KFold(3).split(X)))
    before = found.get_params(deep=False)
    found.fit(X, Y)
    after = found.get_params(deep=False)
    assert all(after[name] is before[name] for name in before) and found.cv is cv
    assert space == TREE_SPACE and not hasattr(TREE, "tree_")
    assert {k for k in vars(found) if k.startswith("_")} <= {"_checked_cv_orig"}


def test_a_fitted_search_is_pickled():
    found = search().fit(X, Y)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_equal(again.cv_results_, found.cv_results_)
    assert np.array_equal(again.predict(X), found.predict(X))
    assert again.best_params_ == found.best_params_ and again.score(X, Y) == found.score(X, Y)


def test_the_random_state():
    same = [scores(search(random_state=seed).fit(X, Y)) for seed in (3, np.int64(3))]
    np.testing.assert_equal(*same)
    states = [np.random.RandomState(3), np.random.RandomState(3)]
    for _ in range(2):  # the second fit goes on with the state of the first
        first, second = (search(random_state=state).fit(X, Y) for state in states)
        assert first.cv_results_["params"] == second.cv_results_["params"]
    one, other = (search(random_state=seed, n_evals=20).fit(X, Y) for seed in (1, 2))
    assert one.cv_results_["params"] != other.cv_results_["params"]
    assert len(search(random_state=None).fit(X, Y).cv_results_["params"]) == 7
    with pytest.raises(ValueError, match="cannot be used to seed"):
        search(random_state="seed").fit(X, Y)


@pytest.mark.parametrize("train", [False, True])
def test_verbose(capsys, train):
    search(verbose=3, n_evals=2, return_train_score=train).fit(X, Y)
    said = capsys.readouterr().out
    assert "Fitting 3 folds for each of 2 candidates, totalling 6 fits" in said
    assert said.count("score=(train=" if train else "score=0.") == 6


def test_html():
    pipe = Pipeline([("scale", StandardScaler()), ("last", DummyClassifier())])
    found = search(pipe, {"last": [LogisticRegression()]}, n_evals=1)
    with config_context(display="diagram"):
        assert "DummyClassifier" in found._repr_html_()
        assert "LogisticRegression</div>" in found.fit(X, Y)._repr_html_()


def test_callbacks_of_scikit_learn():
    """All tasks that begin end, and there is one for each fit."""
    pytest.importorskip("sklearn.callback")

    class Notes:
        def __init__(self):
            self.begun, self.ended, self.owners = [], [], set()

        def setup(self, estimator, context):
            self.begun, self.ended = [], []

        def on_fit_task_begin(self, estimator, context, **data):
            self.begun.append(context.task_name)
            self.owners.add(id(estimator))

        def on_fit_task_end(self, estimator, context, **data):
            self.ended.append(context.task_name)

        def teardown(self, estimator, context):
            assert sorted(self.begun) == sorted(self.ended)

    found, notes = search(), Notes()
    found.set_callbacks(notes).fit(X, Y)
    count = {name: notes.begun.count(name) for name in notes.begun}
    assert sorted(notes.begun) == sorted(notes.ended) and notes.owners == {id(found)}
    assert count.pop("candidate-split-evaluation") == 21
    assert count.pop("batch") == 3 and count.pop("search") == 1
    assert count.pop("refit-with-best-params") == 1 and list(count.values()) == [1]


# Metadata routing.


def test_metadata_go_to_those_who_ask():
    with config_context(enable_metadata_routing=True):
        tree = clone(TREE).set_fit_request(sample_weight=True)
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight="importance")
        recall = make_scorer(recall_score).set_score_request(sample_weight=False)
        found = search(tree, scoring={"a": scorer, "r": recall}, refit="a", cv=GroupKFold(3))
        fit = {"sample_weight": WEIGHTS, "importance": WEIGHTS[::-1], "groups": GROUPS}
        check_as_grid(found.fit(X, Y, **fit), X, Y, **fit)
        one = search(scoring=scorer).fit(X, Y, importance=WEIGHTS)
        expected = accuracy_score(Y, one.predict(X), sample_weight=WEIGHTS)
        assert one.score(X, Y, importance=WEIGHTS) == expected != accuracy_score(Y, one.predict(X))
        how = {"params": {"importance": WEIGHTS}, "error_score": "raise"}
        assert np.isfinite(cross_val_score(one, X, Y, **how)).all()


def test_metadata_that_nobody_has_asked_for():
    with config_context(enable_metadata_routing=True):
        with pytest.raises(ValueError, match="not explicitly set as requested or not requested"):
            search().fit(X, Y, sample_weight=WEIGHTS)
        with pytest.raises(TypeError, match="unexpected argument"):
            search().fit(X, Y, nonsense=WEIGHTS)


def test_score_takes_metadata_only_with_routing():
    with pytest.raises(ValueError, match="is only supported if"):
        search().fit(X, Y).score(X, Y, metadata=1)


# The same as other searches where it is used like them.


def test_it_takes_the_place_of_a_random_search():
    blobs, labels = make_blobs(60, random_state=0)
    how = {"cv": 3, "random_state": 0, "scoring": "accuracy", "return_train_score": True}
    forest = RandomForestClassifier(5, random_state=0)
    depth = {"max_depth": range(1, 4)}
    own = StepDirectSearchCV(forest, depth, n_evals=3, **how).fit(blobs, labels)
    other = RandomizedSearchCV(forest, depth, n_iter=3, **how).fit(blobs, labels)
    assert own.cv_results_.keys() == other.cv_results_.keys()
    assert own.best_score_ == other.best_score_
    public = {name for name in dir(other) if not name.startswith("_")}
    assert public - set(dir(own)) == {"param_distributions", "n_iter"}


def test_several_metrics_need_one_to_go_by():
    several = {"scoring": ["recall", "accuracy"]}
    with pytest.raises(ValueError, match="refit must be set to a scorer key"):
        search(**several).fit(X, Y)
    for how in ({"refit": False}, {"refit": len}, {"refit": "recall", "objective": "auc"}):
        with pytest.raises(InputError, match=says("objective", "several", "recall, accuracy")):
            search(**several, **how).fit(X, Y)
    with pytest.raises(InputError, match=says("refit is 'auc'", "recall, accuracy")):
        search(scoring=two_scores, refit="auc").fit(X, Y)
    for scoring in (None, "recall", lambda e, X, y: 1.0):
        with pytest.raises(InputError, match=says("objective is 'recall'", "one metric")):
            search(scoring=scoring, objective="recall").fit(X, Y)
