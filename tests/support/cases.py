"""Which models the adapters are tested with: one table per library.

Every line names a class, the output that is asked for, the data, and what else is special. Trees of
more than 64 leaves are evaluated by another engine.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from tests.support.libraries import LIBRARIES
from tests.support.models import (
    DATA,
    Case,
    ClassIndex,
    Fitted,
    Recipe,
    constant,
    dataset,
    fit,
    is_large,
    large_or_small,
    parts,
    positive,
    several,
    share,
    table,
    third,
    train,
)

BAGGED = {"bagging_freq": 1, "bagging_fraction": 0.6}
CATEGORY_DATA = ("categories", "categories-nan", "only-categories", "gaps", "two-or-one")

Asked = list[tuple[str, ClassIndex]]
TWO: Asked = [("auto", None), ("proba", 0), ("proba", 1), ("raw", None)]
"""What can be asked of a boosted model of two classes."""
MARGINS: Asked = [("raw", 0), ("raw", 2), ("raw", (2, 0)), ("raw", (0, 1))]
"""What can be asked of a boosted model of three classes."""
SOFT: Asked = [("auto", None), ("proba", 0), ("auto", 1)]
"""And of the softmax of its margins."""
SHARES: Asked = [("auto", None), ("proba", 0), ("auto", 1), ("raw", 2)]
"""What can be asked of a forest of three classes."""
LINKED: Asked = [("auto", None), ("raw", None)]


def asked(recipe: Recipe, choices: Asked) -> list[Recipe]:
    """Return one recipe per output; they share the fitted model."""
    return [recipe.ask(*choice) for choice in choices]


def _of_three(library: str, objective: str, note: str = "", **params: Any) -> Recipe:
    """Return a bare Booster of three classes."""
    params = {"objective": objective, "num_class": 3, **params}
    return train(library, note=note or objective, target=third, **params)


def _of_classes(library: str, n: int, objective: str, data: str, **params: Any) -> Recipe:
    """Return a bare Booster of several classes."""
    params = {"objective": objective, "num_class": n, **params}
    return train(library, data, f"{n} classes, {objective}", target=parts(n), **params)


def _forest(**params: Any) -> RandomForestRegressor:
    with warnings.catch_warnings():  # friedman_mse is on its way out
        warnings.simplefilter("ignore", FutureWarning)
        return RandomForestRegressor(**{"n_estimators": 9, "max_leaf_nodes": 20, **params})


def _boosting(**params: Any) -> GradientBoostingRegressor:
    return GradientBoostingRegressor(**{"n_estimators": 9, "learning_rate": 0.3, **params})


def _bagging(**params: Any) -> BaggingRegressor:
    tree = DecisionTreeRegressor(max_leaf_nodes=20)
    return BaggingRegressor(**{"estimator": tree, "n_estimators": 9, **params})


FEW_FEATURES = {"max_features": 0.5, "bootstrap_features": True}
TREES = (
    DecisionTreeClassifier(max_leaf_nodes=40),
    ExtraTreeClassifier(),
    RandomForestClassifier(9, max_leaf_nodes=20),
    ExtraTreesClassifier(9, max_leaf_nodes=20),
    BaggingClassifier(DecisionTreeClassifier(max_leaf_nodes=20), 9, **FEW_FEATURES),
)

SKLEARN = table(
    fit(DecisionTreeRegressor(max_leaf_nodes=40)),
    fit(DecisionTreeRegressor(), note="many leaves"),
    fit(DecisionTreeRegressor(splitter="random"), "nan", "random splitter"),
    fit(DecisionTreeRegressor(ccp_alpha=0.02), "nan", "pruned"),
    fit(DecisionTreeRegressor(), note="constant", target=constant),
    fit(ExtraTreeRegressor()),
    fit(ExtraTreeRegressor(max_leaf_nodes=40), "nan"),
    fit(_forest(), frame=True),
    fit(_forest(n_estimators=4, max_leaf_nodes=None), "many", "many leaves"),
    fit(_forest(n_estimators=30, max_depth=1), note="stumps"),
    fit(_forest(), note="constant", target=constant),
    fit(_forest(), note="two outputs", n_targets=2, class_index=0),
    fit(_forest(max_leaf_nodes=None), note="two outputs", n_targets=2, class_index=1),
    fit(_forest(monotonic_cst=[1, 0, -1, 0]), note="monotonic"),
    fit(_forest(), "nan").ask("predict"),
    fit(_forest(), "nan").ask("raw"),
    *(
        fit(_forest(criterion=criterion), data, criterion)
        for criterion in ("absolute_error", "poisson", "friedman_mse")
        for data in ("plain", "nan")
    ),
    *(
        fit(_forest(), data)
        for data in list(DATA)[: list(DATA).index("categories")]
        if data not in ("plain", "lowest", "many", "float64-steps")
    ),
    fit(ExtraTreesRegressor(n_estimators=9, max_leaf_nodes=30)),
    fit(ExtraTreesRegressor(n_estimators=9), "nan"),
    fit(ExtraTreesRegressor(n_estimators=9), "float32-steps"),
    *(
        fit(_boosting(loss=loss, max_depth=2), note=loss)
        for loss in ("squared_error", "absolute_error", "huber", "quantile")
    ),
    fit(_boosting(init="zero"), note="from zero", frame=True),
    fit(_boosting(init=DummyRegressor(strategy="median")), note="from a median"),
    fit(_boosting(max_depth=1, n_estimators=40, subsample=0.5), note="stumps"),
    fit(_boosting(n_estimators=3, max_depth=None), "many", "many leaves"),
    fit(_boosting(), note="constant", target=constant),
    fit(_boosting(n_iter_no_change=1, learning_rate=1.0), note="early stopping"),
    fit(_boosting()).ask("raw"),
    *(
        fit(_boosting(), data)
        for data in ("integers", "float32-steps", "tiny", "large", "one", "wide")
    ),
    fit(_bagging(), "nan"),
    fit(_bagging(bootstrap=False, **FEW_FEATURES), "nan", "few features", frame=True),
    fit(_bagging(max_features=1), note="one feature each"),
    fit(_bagging(estimator=None), "many", "many leaves"),
    fit(_bagging(estimator=ExtraTreeRegressor(max_leaf_nodes=20), **FEW_FEATURES), "wide"),
    fit(_bagging(), note="two outputs", n_targets=2, class_index=1),
    *(
        recipe
        for tree in TREES
        for data in ("plain", "nan")
        for recipe in asked(fit(tree, data, target=third), SHARES)
    ),
    *asked(fit(TREES[2], "plain", "two classes of text", target=large_or_small), SHARES[:3]),
    fit(TREES[2], note="one class", target=lambda y: 0 * third(y)),
    fit(RandomForestClassifier(3), "many", "many leaves", target=third, class_index=0),
    fit(
        RandomForestClassifier(9, class_weight="balanced", criterion="log_loss"),
        "tenths",
        "weighted",
        target=is_large,
    ),
    # Most members have not seen the rare class at all.
    fit(
        BaggingClassifier(DecisionTreeClassifier(), 9, max_samples=0.1),
        note="a rare class",
        target=lambda y: np.where(y > np.quantile(y, 0.97), 2, is_large(y)),
    ),
    fit(
        BaggingClassifier(DecisionTreeClassifier(), 9, max_samples=0.1),
        note="a rare class",
        target=lambda y: np.where(y > np.quantile(y, 0.97), 2, is_large(y)),
        class_index=0,
    ),
    *(
        recipe
        for loss in ("log_loss", "exponential")
        for recipe in asked(
            fit(GradientBoostingClassifier(n_estimators=9, loss=loss), note=loss, target=is_large),
            TWO,
        )
    ),
    fit(
        GradientBoostingClassifier(n_estimators=3, max_depth=None, subsample=0.9),
        "many",
        "many leaves",
        target=large_or_small,
    ),
    fit(
        GradientBoostingClassifier(n_estimators=5, init="zero"),
        note="from zero",
        target=is_large,
        frame=True,
    ),
    fit(
        GradientBoostingClassifier(n_estimators=5, init=DummyClassifier(strategy="uniform")),
        note="from even chances",
        target=is_large,
    ),
    *asked(fit(GradientBoostingClassifier(n_estimators=5), target=third), MARGINS),
    fit(
        GradientBoostingClassifier(n_estimators=5, init="zero", max_depth=1),
        note="stumps from zero",
        target=third,
    ).ask("raw", (1, 2)),
)


def _hist(kind: type = HistGradientBoostingRegressor, **params: Any) -> Any:
    few = {"max_iter": 9, "min_samples_leaf": 3, "max_leaf_nodes": 15, "learning_rate": 0.3}
    return kind(**{**few, **params})


MANY_SETS = {"max_iter": 40, "min_samples_leaf": 1, "learning_rate": 0.5}

HIST = table(
    *(
        fit(_hist(), data)
        for data in DATA
        if data not in ("zeros", "zeros-nan", "-999", "many", "lowest", "only-missing")
    ),
    *(
        recipe
        for loss, target in (
            *(("squared_error", np.positive), ("absolute_error", np.positive)),
            *(("poisson", np.positive), ("gamma", positive)),
        )
        for recipe in asked(fit(_hist(loss=loss), "nan", loss, target=target), LINKED)
    ),
    fit(_hist(loss="quantile", quantile=0.3), "categories-nan", "quantile"),
    fit(_hist(loss="poisson"), "categories-nan", "poisson"),
    fit(_hist(loss="gamma"), "gaps", "gamma", target=positive),
    fit(_hist(early_stopping=True, n_iter_no_change=1), note="early stopping"),
    fit(_hist(max_leaf_nodes=None), "many", "many leaves"),
    fit(_hist(max_leaf_nodes=None, **MANY_SETS), "many-categories", "many leaves"),
    fit(_hist(max_leaf_nodes=None, **MANY_SETS), "categories-nan", "many leaves"),
    fit(_hist(**MANY_SETS), "many-categories", "many sets"),
    fit(_hist(max_depth=1, max_iter=40), note="stumps"),
    fit(_hist(), note="constant", target=constant),
    fit(_hist(monotonic_cst=[1, 0, -1, 0]), "nan", "monotonic", frame=True),
    fit(_hist(), "categories-nan", labels="text"),
    fit(_hist(), "categories", labels="whole"),
    fit(_hist(), "many-categories", labels="text"),
    fit(_hist(categorical_features=["flow rate", "pH"]), "odd-categories", frame=True),
    *(
        recipe
        for data in ("nan", "categories-nan")
        for recipe in asked(fit(_hist(HistGradientBoostingClassifier), data, target=is_large), TWO)
    ),
    *asked(
        fit(_hist(HistGradientBoostingClassifier), "categories", labels="text", target=third),
        MARGINS,
    ),
    *asked(fit(_hist(HistGradientBoostingClassifier), "nan", target=third), MARGINS),
    fit(
        _hist(HistGradientBoostingClassifier, max_leaf_nodes=None),
        "many",
        "many leaves",
        target=large_or_small,
    ),
)


def _xgboost(kind: type, **params: Any) -> Any:
    return kind(**{"n_estimators": 9, "max_depth": 4, "n_jobs": 1, **params})


def xgboost_regressor(**params: Any) -> xgb.XGBRegressor:
    return _xgboost(xgb.XGBRegressor, **params)


def xgboost_classifier(**params: Any) -> xgb.XGBClassifier:
    return _xgboost(xgb.XGBClassifier, **params)


DEEP = {"max_depth": 0, "max_leaves": 150, "grow_policy": "lossguide", "min_child_weight": 0}
ONE_HOT, PARTITION = {"max_cat_to_onehot": 1000}, {"max_cat_to_onehot": 1}
DART = {"booster": "dart", "rate_drop": 0.4}
QUERIES = np.repeat(np.arange(10), 20)

# Two base scores whose logarithm XGBoost does not round to the nearest float32.
ODD_MEAN, ODD_SHARE = 0.851875901222229, 0.4300196170806885


@cache
def _pruned_later(seed: int) -> Fitted:
    """A Booster whose trees were pruned later: its node arrays keep the deleted nodes."""
    booster, X, numbers = train("xgboost", rounds=4).make(seed)
    update = {"process_type": "update", "updater": "prune", "gamma": 1.0, "nthread": 1}
    with warnings.catch_warnings():  # XGBoost warns whoever names an updater
        warnings.simplefilter("ignore")
        matrix = xgb.DMatrix(*dataset("plain", seed))
        return Fitted(xgb.train(update, matrix, 4, xgb_model=booster), X, numbers)


XGBOOST = table(
    *(
        fit(xgboost_regressor(tree_method=method), data, method)
        for method in ("hist", "exact")
        for data in list(DATA)[: list(DATA).index("categories")]
        if data not in ("zeros", "zeros-nan", "-999", "many", "float64-steps")
    ),
    *(
        fit(xgboost_regressor(**style), data, note)
        for note, style in (("one-hot", ONE_HOT), ("partition", PARTITION))
        for data in CATEGORY_DATA
    ),
    fit(xgboost_regressor(tree_method="approx"), "nan", "approx"),
    fit(xgboost_regressor(tree_method="approx", **PARTITION), "categories-nan", "approx"),
    fit(xgboost_regressor(), "nan", frame=True),
    fit(xgboost_regressor(**DEEP), "many", "many leaves"),
    fit(xgboost_regressor(**DEEP, **PARTITION), "many-categories", "many leaves"),
    fit(xgboost_regressor(**DEEP, **ONE_HOT), "categories-nan", "many leaves"),
    fit(xgboost_regressor(n_estimators=20, **PARTITION), "many-categories", "many sets"),
    fit(xgboost_regressor(**PARTITION), "categories-nan", labels="text"),
    fit(xgboost_regressor(**ONE_HOT), "categories", labels="whole"),
    fit(xgboost_regressor(**PARTITION, missing=3.0), "categories", "missing=3"),
    fit(xgboost_regressor(**PARTITION, missing=0.0), "gaps", "missing=0"),
    fit(xgboost_regressor(max_depth=1, n_estimators=40), note="stumps"),
    fit(xgboost_regressor(), note="constant", target=constant),
    fit(xgboost_regressor(tree_method="exact", gamma=1.0, max_depth=6), note="pruned by gamma"),
    Recipe("Booster", "plain", "pruned later", _pruned_later),
    fit(
        xgboost_regressor(n_estimators=60, learning_rate=1.0, early_stopping_rounds=2),
        note="early stopping",
        stop=True,
    ),
    fit(
        xgboost_regressor(
            n_estimators=60,
            learning_rate=1.0,
            subsample=0.5,
            num_parallel_tree=3,
            early_stopping_rounds=2,
        ),
        note="early stopping of forests",
        stop=True,
    ),
    fit(xgboost_regressor(base_score=0.1), note="base score"),
    fit(xgboost_regressor()).ask("raw"),
    *(
        fit(xgboost_regressor(missing=missing), data, f"missing={missing}")
        for missing, data in ((0.0, "zeros"), (-999.0, "-999"), (0.1, "tenths"))
    ),
    *(
        recipe
        for strategy in ("one_output_per_tree", "multi_output_tree")
        for recipe in asked(
            fit(xgboost_regressor(multi_strategy=strategy), note=strategy, n_targets=3),
            [("auto", 0), ("predict", 2)],
        )
    ),
    *(
        fit(xgboost_regressor(objective=objective), note=objective)
        for objective in ("reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")
    ),
    fit(
        xgboost_regressor(objective="reg:quantileerror", quantile_alpha=0.3),
        note="reg:quantileerror",
    ),
    fit(
        xgboost_regressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9]),
        note="three quantiles",
        class_index=1,
    ),
    *(
        recipe
        for objective, target in (
            *(("count:poisson", np.round), ("reg:gamma", positive)),
            *(("reg:tweedie", np.positive), ("reg:logistic", share)),
        )
        for recipe in asked(
            fit(xgboost_regressor(objective=objective), "categories-nan", objective, target=target),
            LINKED,
        )
    ),
    *(
        recipe
        for objective, target, odd in (
            ("count:poisson", np.round, ODD_MEAN),
            ("reg:gamma", positive, ODD_MEAN),
            ("reg:tweedie", np.positive, ODD_MEAN),
            ("reg:logistic", share, ODD_SHARE),
            ("binary:logitraw", is_large, ODD_SHARE),
        )
        for base in (None, odd)
        for recipe in asked(
            train(
                "xgboost",
                note=f"{objective}, base_score={base}",
                objective=objective,
                base_score=base,
                target=target,
            ),
            LINKED,
        )
    ),
    *(
        recipe
        for base in (None, ODD_SHARE)
        for recipe in asked(
            train(
                "xgboost",
                note=f"binary:logistic, base_score={base}",
                objective="binary:logistic",
                base_score=base,
                target=is_large,
            ),
            [*TWO, ("predict", None)],
        )
    ),
    *(
        train("xgboost", note=objective, objective=objective, target=target).ask("raw")
        for objective, target in (*(("binary:hinge", is_large), ("survival:cox", positive)),)
    ),
    fit(_xgboost(xgb.XGBRFRegressor, max_depth=5)),
    fit(
        _xgboost(xgb.XGBRFRegressor, n_estimators=5, max_depth=9, min_child_weight=0),
        "many",
        "many leaves",
    ),
    fit(_xgboost(xgb.XGBRFRegressor, max_depth=5, **PARTITION), "categories-nan"),
    *(
        recipe
        for data in ("nan", "categories-nan")
        for recipe in asked(fit(xgboost_classifier(**PARTITION), data, target=is_large), TWO)
    ),
    *asked(fit(xgboost_classifier(**ONE_HOT), "categories", labels="text", target=third), MARGINS),
    *asked(fit(xgboost_classifier(), "nan", target=third), MARGINS),
    *asked(fit(xgboost_classifier(), note="multi-label", n_targets=3, target=several), SHARES),
    fit(
        xgboost_classifier(n_estimators=60, learning_rate=1.0, early_stopping_rounds=2),
        note="early stopping",
        target=is_large,
        stop=True,
    ),
    fit(
        xgboost_classifier(n_estimators=60, learning_rate=1.0, early_stopping_rounds=2),
        note="early stopping",
        target=third,
        stop=True,
    ).ask("raw", (0, 2)),
    fit(xgboost_classifier(**DEEP), "many", "many leaves", target=is_large),
    fit(
        xgboost_classifier(objective="binary:logitraw"), note="binary:logitraw", target=is_large
    ).ask("raw"),
    *asked(fit(_xgboost(xgb.XGBRFClassifier), "nan", target=is_large), TWO),
    fit(_xgboost(xgb.XGBRFClassifier, **ONE_HOT), "categories-nan", target=is_large),
    *asked(fit(_xgboost(xgb.XGBRFClassifier), "categories", target=third), MARGINS[1:3]),
    *(
        fit(
            _xgboost(xgb.XGBRanker, objective=f"rank:{metric}", **PARTITION),
            data,
            f"rank:{metric}",
            target=target,
            qid=QUERIES,
        )
        for metric, target in (("pairwise", third), ("ndcg", third), ("map", is_large))
        for data in ("nan", "categories-nan")
    ),
    *(
        fit(xgboost_regressor(**DART, **PARTITION), data, "dart")
        for data in ("plain", "nan", "categories-nan")
    ),
    fit(xgboost_regressor(**DART, one_drop=True, normalize_type="forest"), note="dart, forest"),
    fit(xgboost_regressor(**DART, **DEEP), "many", "dart, many leaves"),
    *asked(
        fit(xgboost_regressor(**DART, objective="reg:tweedie"), note="dart, reg:tweedie"), LINKED
    ),
    *asked(fit(xgboost_classifier(**DART), "nan", "dart", target=is_large), TWO),
    *asked(fit(xgboost_classifier(**DART), "nan", "dart", target=third), MARGINS),
    *(train("xgboost", data, "dart", **DART) for data in ("plain", "nan", "categories-nan")),
    *asked(
        train("xgboost", "nan", "dart", objective="binary:logistic", target=is_large, **DART), TWO
    )[1:],
    *asked(_of_three("xgboost", "multi:softprob", note="dart", **DART), MARGINS),
    *asked(_of_three("xgboost", "multi:softprob"), MARGINS),
    _of_three("xgboost", "multi:softmax").ask("raw", 1),
    train("xgboost", "nan"),
    train("xgboost", frame=True),
    train("xgboost", "categories-nan", **PARTITION),
    train("xgboost", "categories", labels="text", **ONE_HOT),
    train("xgboost", "categories-nan", labels="whole", **PARTITION),
    train("xgboost", note="early stopping", rounds=60, stop=True, eta=1.0),
    train("xgboost", note="slice", part=slice(2, 6)),
)


def _lightgbm(kind: type, **params: Any) -> Any:
    few = {"n_estimators": 9, "num_leaves": 15, "min_child_samples": 2, "min_data_in_bin": 1}
    return kind(**{**few, "n_jobs": 1, "verbose": -1, **params})


def lightgbm_regressor(**params: Any) -> lgb.LGBMRegressor:
    return _lightgbm(lgb.LGBMRegressor, **params)


def lightgbm_classifier(**params: Any) -> lgb.LGBMClassifier:
    return _lightgbm(lgb.LGBMClassifier, **params)


SETS = {"max_cat_to_onehot": 1, "min_data_per_group": 1, "cat_smooth": 0.1, "cat_l2": 0.0}
ONE_BY_ONE = {"max_cat_to_onehot": 1000, "min_data_per_group": 1, "cat_l2": 0.0}
GROUPS = [20] * 10

LIGHTGBM = table(
    *(
        fit(
            lightgbm_regressor(
                boosting_type=boosting,
                use_missing=use,
                zero_as_missing=zero,
                bagging_freq=1,
                bagging_fraction=0.7,
                **SETS,
            ),
            data,
            f"{boosting}, use_missing={use}, zero_as_missing={zero}",
        )
        for boosting, data, use, zero in (
            ("gbdt", "plain", True, True),
            ("gbdt", "nan", True, False),
            ("gbdt", "nan", False, False),
            ("gbdt", "zeros", True, False),
            ("gbdt", "zeros", True, True),
            ("gbdt", "zeros-nan", True, True),
            ("gbdt", "zeros-nan", True, False),
            ("gbdt", "zeros-nan", False, True),
            ("gbdt", "sliver", True, True),
            ("rf", "zeros-nan", True, True),
            ("rf", "zeros-nan", True, False),
            ("gbdt", "categories-nan", True, True),
            ("gbdt", "categories-nan", False, False),
            ("gbdt", "categories-nan", False, True),
            ("rf", "categories-nan", True, True),
        )
    ),
    *(
        fit(lightgbm_regressor(), data)
        for data in list(DATA)[: list(DATA).index("categories")]
        if data not in ("nan", "zeros", "zeros-nan", "many", "lowest", "-999")
    ),
    *(
        fit(lightgbm_regressor(**style), data, note)
        for note, style in (("one by one", ONE_BY_ONE), ("sets", SETS))
        for data in CATEGORY_DATA
    ),
    fit(lightgbm_regressor(), "nan", frame=True),
    fit(lightgbm_regressor(num_leaves=120), "many", "many leaves"),
    fit(
        lightgbm_regressor(num_leaves=120, zero_as_missing=True),
        "many",
        "many leaves, zero_as_missing",
    ),
    fit(lightgbm_regressor(num_leaves=120, **SETS), "many-categories", "many leaves"),
    fit(lightgbm_regressor(num_leaves=120, **ONE_BY_ONE), "categories-nan", "many leaves"),
    fit(lightgbm_regressor(n_estimators=20, **SETS), "many-categories", "many sets"),
    fit(lightgbm_regressor(**SETS), "categories-nan", labels="text"),
    fit(lightgbm_regressor(**SETS), "categories", labels="whole"),
    fit(lightgbm_regressor(**SETS), "categories", labels="ordered text"),
    fit(lightgbm_regressor(num_leaves=2, n_estimators=40), note="stumps"),
    fit(lightgbm_regressor(), note="constant", target=constant),
    fit(lightgbm_regressor(data_sample_strategy="goss"), note="goss"),
    fit(lightgbm_regressor(n_estimators=60, learning_rate=1.0), note="early stopping", stop=True),
    *(
        fit(lightgbm_regressor(objective=objective), note=objective)
        for objective in ("regression_l1", "huber", "fair", "quantile", "mape")
    ),
    *(
        recipe
        for objective, target in (
            *(("poisson", np.positive), ("gamma", positive), ("tweedie", np.positive)),
            *(("cross_entropy", share), ("cross_entropy_lambda", share)),
        )
        for recipe in asked(
            fit(
                lightgbm_regressor(objective=objective, **SETS),
                "categories-nan",
                objective,
                target=target,
            ),
            LINKED,
        )
    ),
    *asked(fit(lightgbm_regressor(reg_sqrt=True), "nan", "reg_sqrt"), LINKED),
    fit(lightgbm_regressor(objective="huber", reg_sqrt=True), "nan", "huber, reg_sqrt"),
    *asked(fit(lightgbm_regressor(boosting_type="rf", **BAGGED), note="rf"), LINKED),
    *(
        fit(lightgbm_regressor(boosting_type="dart", drop_rate=0.5, **SETS), data, "dart")
        for data in ("plain", "nan", "categories-nan")
    ),
    *(
        recipe
        for data in ("nan", "categories-nan")
        for recipe in asked(fit(lightgbm_classifier(**SETS), data, target=is_large), TWO)
    ),
    *asked(fit(lightgbm_classifier(sigmoid=0.3), note="sigmoid", target=is_large), TWO),
    *asked(fit(lightgbm_classifier(**SETS), "categories", labels="text", target=third), MARGINS),
    *asked(fit(lightgbm_classifier(), "nan", target=third), MARGINS),
    *asked(
        fit(lightgbm_classifier(objective="multiclassova"), "nan", "multiclassova", target=third),
        SHARES,
    ),
    fit(lightgbm_classifier(num_leaves=120), "many", "many leaves", target=is_large),
    fit(
        lightgbm_classifier(n_estimators=60, learning_rate=1.0),
        note="early stopping",
        target=large_or_small,
        stop=True,
    ),
    *asked(fit(lightgbm_classifier(boosting_type="rf", **BAGGED), note="rf", target=is_large), TWO),
    *asked(fit(lightgbm_classifier(boosting_type="dart"), note="dart", target=is_large), TWO[:2]),
    *(
        fit(
            _lightgbm(lgb.LGBMRanker, objective=objective, **SETS),
            data,
            objective,
            target=third,
            group=GROUPS,
        )
        for objective in ("lambdarank", "rank_xendcg")
        for data in ("nan", "categories-nan")
    ),
    train("lightgbm", "zeros-nan"),
    train("lightgbm", frame=True),
    train("lightgbm", "categories-nan", **SETS),
    train("lightgbm", "categories", labels="text", **SETS),
    train("lightgbm", "categories-nan", labels="whole", **ONE_BY_ONE),
    train("lightgbm", note="early stopping", rounds=60, stop=True, learning_rate=1.0),
    train("lightgbm", note="rf", boosting="rf", **BAGGED),
    *(
        recipe
        for objective, target in (
            *(("poisson", np.positive), ("gamma", positive), ("tweedie", np.positive)),
            *(("cross_entropy", share), ("cross_entropy_lambda", share)),
        )
        for recipe in asked(
            train("lightgbm", note=objective, objective=objective, target=target), LINKED
        )
    ),
    *asked(train("lightgbm", note="reg_sqrt", reg_sqrt=True), LINKED),
    *(
        recipe
        for note, params in (("", {}), ("sigmoid", {"sigmoid": 1.7}), ("rf", {"boosting": "rf"}))
        for recipe in asked(
            train(
                "lightgbm",
                note=f"binary {note}".strip(),
                objective="binary",
                target=is_large,
                **BAGGED,
                **params,
            ),
            [*TWO, ("predict", None)],
        )
    ),
    *asked(_of_three("lightgbm", "multiclass"), MARGINS),
    *asked(_of_three("lightgbm", "multiclassova", sigmoid=0.7), SHARES),
)

TABLES = {"sklearn": SKLEARN, "hist": HIST, "xgboost": XGBOOST, "lightgbm": LIGHTGBM}
assert set(TABLES) == set(LIBRARIES)


def softmax_table(*recipes: Recipe) -> dict[str, Recipe]:
    """Return recipes by names that tell them from those of other outputs."""
    notes = [", ".join(filter(None, [recipe.note, "softmax"])) for recipe in recipes]
    return table(*(replace(r, note=note) for r, note in zip(recipes, notes, strict=True)))


SOFTMAX_TABLES = {
    "sklearn": softmax_table(
        *asked(fit(GradientBoostingClassifier(n_estimators=5), target=third), SOFT),
        fit(
            GradientBoostingClassifier(n_estimators=5, init="zero", max_depth=1),
            note="stumps from zero, 5 classes",
            target=parts(5),
            class_index=3,
        ),
        fit(
            GradientBoostingClassifier(n_estimators=3, init=DummyClassifier(strategy="uniform")),
            note="from even chances, 6 classes",
            target=parts(6),
            frame=True,
        ),
        fit(
            GradientBoostingClassifier(n_estimators=2, max_depth=None, subsample=0.9),
            "many",
            "many leaves, 4 classes",
            target=parts(4),
        ),
    ),
    "hist": softmax_table(
        *asked(fit(_hist(HistGradientBoostingClassifier), "nan", target=third), SOFT),
        fit(
            _hist(HistGradientBoostingClassifier),
            "categories-nan",
            "4 classes",
            target=parts(4),
            class_index=0,
        ),
        fit(_hist(HistGradientBoostingClassifier), "categories", labels="text", target=parts(5)),
        fit(_hist(HistGradientBoostingClassifier), "categories", labels="whole", target=third),
        fit(
            _hist(HistGradientBoostingClassifier, max_leaf_nodes=None, max_iter=3),
            "many",
            "many leaves, 6 classes",
            target=parts(6),
            frame=True,
        ),
    ),
    "xgboost": softmax_table(
        *asked(fit(xgboost_classifier(), "nan", target=third), SOFT),
        fit(
            xgboost_classifier(**PARTITION),
            "categories-nan",
            "4 classes",
            target=parts(4),
            class_index=0,
        ),
        fit(xgboost_classifier(**ONE_HOT), "categories", labels="text", target=parts(5)),
        fit(xgboost_classifier(**DEEP), "many", "many leaves, 6 classes", target=parts(6)),
        fit(
            xgboost_classifier(missing=-999.0, n_estimators=4), "-999", "missing=-999", target=third
        ),
        fit(
            xgboost_classifier(n_estimators=60, learning_rate=1.0, early_stopping_rounds=2),
            note="early stopping",
            target=third,
            stop=True,
        ),
        fit(
            xgboost_classifier(multi_strategy="multi_output_tree"),
            "nan",
            "multi_output_tree, 4 classes",
            target=parts(4),
        ),
        *asked(
            fit(xgboost_classifier(objective="multi:softmax"), "nan", "labels", target=parts(6)),
            SOFT,
        ),
        fit(xgboost_classifier(**DART), "nan", "dart", target=third),
        fit(_xgboost(xgb.XGBRFClassifier, **ONE_HOT), "categories-nan", target=third),
        *asked(_of_classes("xgboost", 3, "multi:softprob", "nan"), [*SOFT, ("predict", 0)]),
        *asked(_of_classes("xgboost", 5, "multi:softmax", "nan"), SOFT),
        _of_classes("xgboost", 3, "multi:softmax", "categories-nan", **DART, **PARTITION),
        _of_classes("xgboost", 4, "multi:softprob", "categories", labels="text", **ONE_HOT),
        _of_classes("xgboost", 2, "multi:softprob", "plain", frame=True),
    ),
    "lightgbm": softmax_table(
        *asked(fit(lightgbm_classifier(), "nan", target=third), SOFT),
        fit(
            lightgbm_classifier(**SETS),
            "categories-nan",
            "4 classes",
            target=parts(4),
            class_index=0,
        ),
        fit(lightgbm_classifier(**SETS), "categories", labels="text", target=parts(5)),
        fit(lightgbm_classifier(**SETS), "categories", labels="whole", target=third),
        fit(lightgbm_classifier(num_leaves=120), "many", "many leaves, 6 classes", target=parts(6)),
        fit(
            lightgbm_classifier(zero_as_missing=True), "zeros-nan", "zero_as_missing", target=third
        ),
        fit(
            lightgbm_classifier(n_estimators=60, learning_rate=1.0),
            note="early stopping",
            target=third,
            stop=True,
        ),
        *asked(
            fit(lightgbm_classifier(boosting_type="rf", **BAGGED), note="rf", target=third), SOFT
        ),
        fit(lightgbm_classifier(boosting_type="dart"), note="dart", target=third),
        *asked(_of_classes("lightgbm", 3, "multiclass", "nan"), [*SOFT, ("predict", 0)]),
        _of_classes("lightgbm", 5, "multiclass", "categories-nan", **SETS),
        _of_classes("lightgbm", 4, "multiclass", "categories", labels="text", **SETS),
        _of_classes("lightgbm", 6, "multiclass", "plain", frame=True),
    ),
}
"""Models that predict the softmax of their margins."""
assert not any(set(TABLES[library]) & set(names) for library, names in SOFTMAX_TABLES.items())


@cache
def fitted(library: str, name: str, seed: int = 0) -> Case:
    """Fit a model of the tables above, once per session."""
    return {**TABLES[library], **SOFTMAX_TABLES[library]}[name](seed)
