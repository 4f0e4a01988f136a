"""Which output is meant: `output=`, `class_index=`, and the link from the sum to the prediction."""

import pickle

import numpy as np
import pytest

import treeopt
from tests.support.cases import TABLES, fitted
from tests.support.contract import assert_same_bits, sample
from tests.support.messages import says
from tests.support.models import Case
from treeopt import InputError
from treeopt.adapters import OwnPrediction
from treeopt.model.link import IDENTITY, LINKS, Link
from treeopt.model.softmax import Softmax

TWO_CLASSES = [
    ("sklearn", "GradientBoostingClassifier, auto, plain, log_loss"),
    ("sklearn", "GradientBoostingClassifier, auto, plain, exponential"),
    ("hist", "HistGradientBoostingClassifier, auto, categories-nan"),
    ("xgboost", "XGBClassifier, auto, categories-nan"),
    ("xgboost", "XGBRFClassifier, auto, nan"),
    ("xgboost", "Booster, auto, plain, binary:logistic, base_score=None"),
    ("lightgbm", "LGBMClassifier, auto, categories-nan"),
    ("lightgbm", "Booster, auto, plain, binary"),
]
THREE_CLASSES = [
    ("sklearn", "GradientBoostingClassifier, raw 0, plain"),
    ("hist", "HistGradientBoostingClassifier, raw 0, nan"),
    ("xgboost", "XGBClassifier, raw 0, nan"),
    ("xgboost", "Booster, raw 0, plain, multi:softprob"),
    ("xgboost", "Booster, raw 1, plain, multi:softmax"),
    ("xgboost", "XGBRFClassifier, raw 2, categories"),
    ("lightgbm", "LGBMClassifier, raw 0, nan"),
    ("lightgbm", "Booster, raw 0, plain, multiclass"),
]
FORESTS = [
    ("sklearn", f"{name}, auto, nan")
    for name in (
        *("DecisionTreeClassifier", "ExtraTreeClassifier", "BaggingClassifier"),
        *("RandomForestClassifier", "ExtraTreesClassifier"),
    )
]
LABELS = [key for key in [*TWO_CLASSES, *THREE_CLASSES, *FORESTS] if "Booster" not in key[1]]


def ask(case: Case, output: str = "auto", class_index=None) -> Case:
    return Case(case.model, case.X, output, class_index, case.numbers)


@pytest.fixture
def case(request):
    return fitted(*request.param)


@pytest.mark.parametrize("case", TWO_CLASSES, ids=", ".join, indirect=True)
class TestTwoClasses:
    def test_the_second_class_is_the_default(self, case):
        rows = sample(case, 100)
        expected = ask(case, "proba", 1).own(rows)
        for choice in (ask(case), ask(case, "proba"), ask(case, "auto", 1), ask(case, "proba", 1)):
            assert_same_bits(choice.ensemble.predict(rows), expected, rows)

    def test_the_first_class_is_the_complement(self, case):
        rows = sample(case, 100)
        first, second = (ask(case, "proba", k).ensemble for k in (0, 1))
        assert first.link.complement and not second.link.complement
        assert second.link.increasing and not first.link.increasing
        p = second.predict(rows)
        assert_same_bits(first.predict(rows), p.dtype.type(1) - p, rows)

    def test_the_margin(self, case):
        rows = sample(case, 100)
        raw = ask(case, "raw")
        assert raw.ensemble.link == IDENTITY
        for choice in (raw, ask(case, "raw", 1)):
            assert_same_bits(choice.ensemble.predict(rows), raw.own(rows), rows)
        assert_same_bits(ask(case).ensemble.margin(rows), raw.own(rows), rows)
        assert_same_bits(ask(case, "proba", 0).ensemble.margin(rows), raw.own(rows), rows)

    def test_the_margin_is_that_of_the_second_class(self, case):
        with pytest.raises(InputError, match=says("class_index is 0", "class 1", "Leave")):
            treeopt.from_model(case.model, output="raw", class_index=0)

    @pytest.mark.parametrize("class_index", [2, -1, True, 0.0, "1"])
    def test_there_are_two(self, case, class_index):
        with pytest.raises(InputError, match=says(f"class_index is {class_index!r}", "0..1")):
            treeopt.from_model(case.model, class_index=class_index)

    @pytest.mark.parametrize("output", ["raw", "proba", "auto"])
    def test_there_is_no_difference(self, case, output):
        with pytest.raises(InputError, match=says("class_index is (1, 0)", "three or more")):
            treeopt.from_model(case.model, output=output, class_index=(1, 0))


@pytest.mark.parametrize("case", THREE_CLASSES, ids=", ".join, indirect=True)
class TestThreeClasses:
    def test_every_margin_and_every_difference(self, case):
        rows = sample(case, 200)
        own = case.library.predict(case.model, rows, "raw")
        assert own.shape[1] == 3
        for a in range(3):
            margin = ask(case, "raw", a).ensemble
            assert_same_bits(margin.predict(rows), np.ascontiguousarray(own[:, a]), rows)
            for b in {0, 1, 2} - {a}:
                for pair in ((a, b), [a, b]):
                    difference = treeopt.from_model(case.model, output="raw", class_index=pair)
                    assert_same_bits(difference.predict(rows), own[:, a] - own[:, b], rows)

    @pytest.mark.parametrize("output", ["auto", "proba"])
    def test_every_probability(self, case, output):
        rows = sample(case, 200)
        own = case.library.predict(case.model, rows, "proba")
        assert own.shape[1] == 3
        for k in (0, 1, 2, None):
            expected = np.ascontiguousarray(own[:, -1 if k is None else k])
            softmax = ask(case, output, k).ensemble
            assert isinstance(softmax, Softmax)
            assert (len(softmax.sums), softmax.class_index) == (3, 2 if k is None else k)
            assert_same_bits(softmax.predict(rows), expected, rows)
            given = OwnPrediction(case.model, output, k)
            for own_of_model in (given, pickle.loads(pickle.dumps(given))):
                assert_same_bits(own_of_model(rows), expected, rows)

    @pytest.mark.parametrize("output", ["auto", "proba"])
    def test_there_is_no_difference_of_probabilities(self, case, output):
        with pytest.raises(InputError, match=says("class_index is (0, 1)", "output='raw'")):
            treeopt.from_model(case.model, output=output, class_index=(0, 1))

    @pytest.mark.parametrize("class_index", [3, -1, True, 0.0, "1"])
    def test_there_are_three(self, case, class_index):
        with pytest.raises(InputError, match=says(f"class_index is {class_index!r}", "0..2")):
            treeopt.from_model(case.model, class_index=class_index)

    def test_a_class_is_needed(self, case):
        with pytest.raises(InputError, match=says("3 classes", "class_index=0..2")):
            treeopt.from_model(case.model, output="raw")

    @pytest.mark.parametrize("pair", [(0, 3), (-1, 0), (0, 1.0), (0, None)])
    def test_classes_that_are_not_there(self, case, pair):
        with pytest.raises(InputError, match=says("class_index", "0..2")):
            treeopt.from_model(case.model, output="raw", class_index=pair)

    @pytest.mark.parametrize("pair", [(1, 1), (0,), (0, 1, 2), ()])
    def test_a_pair_is_two_different_classes(self, case, pair):
        with pytest.raises(InputError, match=says("class_index is", repr(pair))):
            treeopt.from_model(case.model, output="raw", class_index=pair)


@pytest.mark.parametrize("case", FORESTS, ids=", ".join, indirect=True)
class TestForests:
    def test_every_class(self, case):
        """A forest averages probabilities: they are its sums, and the last class the default."""
        rows = sample(case, 100)
        own = case.model.predict_proba(rows)
        for k in (0, 1, 2, None):
            expected = np.ascontiguousarray(own[:, -1 if k is None else k])
            for output in ("auto", "proba", "raw"):
                ensemble = ask(case, output, k).ensemble
                assert ensemble.link == IDENTITY
                assert_same_bits(ensemble.predict(rows), expected, rows)

    def test_there_is_no_difference(self, case):
        with pytest.raises(InputError, match=says("class_index is (0, 1)", "boosted")):
            treeopt.from_model(case.model, output="raw", class_index=(0, 1))


@pytest.mark.parametrize("case", LABELS, ids=", ".join, indirect=True)
def test_labels_are_not_predicted(case):
    with pytest.raises(InputError, match=says("'predict'", case.model_name, "labels", "'proba'")):
        treeopt.from_model(case.model, output="predict")


LINKED = {
    ("hist", "HistGradientBoostingRegressor, auto, nan, squared_error"): IDENTITY,
    ("hist", "HistGradientBoostingRegressor, auto, nan, poisson"): Link("exp", by_numpy=True),
    ("hist", "HistGradientBoostingRegressor, auto, nan, gamma"): Link("exp", by_numpy=True),
    ("hist", "HistGradientBoostingClassifier, auto, nan"): Link("logistic"),
    ("sklearn", "GradientBoostingClassifier, auto, plain, log_loss"): Link("logistic"),
    ("sklearn", "GradientBoostingClassifier, auto, plain, exponential"): Link("logistic", 2.0),
    ("xgboost", "XGBRegressor, auto, categories-nan, count:poisson"): Link("exp"),
    ("xgboost", "XGBRegressor, auto, categories-nan, reg:gamma"): Link("exp"),
    ("xgboost", "XGBRegressor, auto, categories-nan, reg:tweedie"): Link("exp"),
    ("xgboost", "XGBRegressor, auto, categories-nan, reg:logistic"): Link("logistic"),
    ("xgboost", "XGBRanker, auto, nan, rank:ndcg"): IDENTITY,
    ("xgboost", "Booster, auto, plain, binary:logitraw, base_score=None"): IDENTITY,
    ("xgboost", "XGBClassifier, auto 1, plain, multi-label"): Link("logistic"),
    ("lightgbm", "Booster, auto, plain, poisson"): Link("exp"),
    ("lightgbm", "Booster, auto, plain, gamma"): Link("exp"),
    ("lightgbm", "Booster, auto, plain, tweedie"): Link("exp"),
    ("lightgbm", "Booster, auto, plain, cross_entropy"): Link("logistic"),
    ("lightgbm", "Booster, auto, plain, cross_entropy_lambda"): Link("softplus"),
    ("lightgbm", "Booster, auto, plain, reg_sqrt"): Link("square"),
    ("lightgbm", "LGBMRegressor, auto, nan, huber, reg_sqrt"): IDENTITY,
    ("lightgbm", "Booster, auto, plain, binary sigmoid"): Link("logistic", 1.7),
    ("lightgbm", "LGBMClassifier, auto, plain, sigmoid"): Link("logistic", 0.3),
    ("lightgbm", "Booster, auto 1, plain, multiclassova"): Link("logistic", 0.7),
    ("lightgbm", "LGBMRanker, auto, nan, lambdarank"): IDENTITY,
}


@pytest.mark.parametrize(("key", "link"), LINKED.items(), ids=map(", ".join, LINKED))
def test_link(key, link):
    """That the prediction under it is bit-equal, is part of the contract."""
    case = fitted(*key)
    assert case.ensemble.link == link
    assert ask(case, "raw", case.class_index).ensemble.link == IDENTITY
    rows = sample(case, 100)
    order = np.argsort(case.ensemble.margin(rows), kind="stable")
    assert (np.diff(case.ensemble.predict(rows)[order]) >= 0).all()


def test_every_link_is_tested():
    cases = [fitted(lib, name) for lib, names in TABLES.items() for name in names]
    assert {case.ensemble.link.name for case in cases} == set(LINKS)


ONE_OUTPUT = [
    ("sklearn", "DecisionTreeRegressor, auto, plain"),
    ("sklearn", "GradientBoostingRegressor, auto, plain, huber"),
    ("sklearn", "BaggingRegressor, auto, nan"),
    ("hist", "HistGradientBoostingRegressor, auto, nan, poisson"),
    ("xgboost", "Booster, auto, nan"),
    ("xgboost", "XGBRanker, auto, nan, rank:map"),
    ("lightgbm", "LGBMRegressor, auto, plain, rf"),
    ("lightgbm", "LGBMRanker, auto, nan, lambdarank"),
]
MANY_OUTPUTS = {
    ("sklearn", "RandomForestRegressor, auto 0, plain, two outputs"): 2,
    ("sklearn", "BaggingRegressor, auto 1, plain, two outputs"): 2,
    ("xgboost", "XGBRegressor, auto 0, plain, one_output_per_tree"): 3,
    ("xgboost", "XGBRegressor, auto 0, plain, multi_output_tree"): 3,
    ("xgboost", "XGBRegressor, auto 1, plain, three quantiles"): 3,
}


@pytest.mark.parametrize("key", [*ONE_OUTPUT, *MANY_OUTPUTS], ids=", ".join)
@pytest.mark.parametrize("class_index", [-1, 3, 0.5, "1", True])
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


@pytest.mark.parametrize("key", [*ONE_OUTPUT, *MANY_OUTPUTS], ids=", ".join)
def test_probability_of_a_regressor(key):
    model = fitted(*key).model
    with pytest.raises(
        InputError, match=says("'proba'", type(model).__name__, "Pass output='auto'")
    ):
        treeopt.from_model(model, output="proba")


@pytest.mark.parametrize("key", ONE_OUTPUT, ids=", ".join)
def test_a_regressor_predicts_what_it_predicts(key):
    case = fitted(*key)
    rows = sample(case, 50)
    for output in ("auto", "predict"):
        assert_same_bits(ask(case, output).ensemble.predict(rows), case.own(rows), rows)


@pytest.mark.parametrize("output", ["margin", "", None, 1])
def test_unknown_output(output):
    with pytest.raises(InputError, match=says(f"output is {output!r}", "'auto'", "'raw'")):
        treeopt.from_model(fitted(*ONE_OUTPUT[0]).model, output=output)


@pytest.mark.parametrize("choice", [{"output": "raw"}, {"class_index": 0}])
def test_an_ensemble_has_one_output(choice):
    with pytest.raises(InputError, match=says("Ensemble", "original model")):
        treeopt.from_model(fitted(*ONE_OUTPUT[0]).ensemble, **choice)
