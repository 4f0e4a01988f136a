"""Which models the adapters are tested with: one table per library."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from tests.models import (
    DATA,
    Case,
    Factory,
    fit,
    prune_xgboost,
    train_lightgbm,
    train_xgboost,
)


def is_large(y: np.ndarray) -> np.ndarray:
    return (y > np.median(y)).astype(np.float64)


def share(y: np.ndarray) -> np.ndarray:
    return y / y.max()


def third(y: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y).astype(np.float64)


BAGGED = {"bagging_freq": 1, "bagging_fraction": 0.6}


def _forest(**params: Any) -> RandomForestRegressor:
    with warnings.catch_warnings():  # friedman_mse is on its way out
        warnings.simplefilter("ignore", FutureWarning)
        return RandomForestRegressor(**{"n_estimators": 9, "max_leaf_nodes": 20, **params})


def _boosting(**params: Any) -> GradientBoostingRegressor:
    return GradientBoostingRegressor(**{"n_estimators": 9, "learning_rate": 0.3, **params})


def xgboost_regressor(**params: Any) -> xgb.XGBRegressor:
    return xgb.XGBRegressor(**{"n_estimators": 9, "max_depth": 4, "n_jobs": 1, **params})


def lightgbm_regressor(**params: Any) -> lgb.LGBMRegressor:
    few = {"n_estimators": 9, "num_leaves": 15, "min_child_samples": 2, "min_data_in_bin": 1}
    return lgb.LGBMRegressor(**{**few, "n_jobs": 1, "verbose": -1, **params})


# Trees of more than 64 leaves are evaluated by another engine.
SKLEARN: dict[str, Factory] = {
    "tree": fit(DecisionTreeRegressor(max_leaf_nodes=40)),
    "tree, many leaves": fit(DecisionTreeRegressor()),
    "tree, random splitter": fit(DecisionTreeRegressor(splitter="random"), "nan"),
    "tree, pruned": fit(DecisionTreeRegressor(ccp_alpha=0.02), "nan"),
    "tree, constant": fit(DecisionTreeRegressor(), constant=True),
    "extra tree": fit(ExtraTreeRegressor()),
    "forest, frame": fit(_forest(), frame=True),
    "forest, many leaves": fit(_forest(n_estimators=4, max_leaf_nodes=None), "many"),
    "forest, stumps": fit(_forest(n_estimators=30, max_depth=1)),
    "forest, constant": fit(_forest(), constant=True),
    "forest, output 0": fit(_forest(), n_targets=2, class_index=0),
    "forest, output 1": fit(_forest(max_leaf_nodes=None), n_targets=2, class_index=1),
    "forest, monotonic": fit(_forest(monotonic_cst=[1, 0, -1, 0])),
    **{
        f"forest, {criterion}, {data}": fit(_forest(criterion=criterion), data)
        for criterion in ("absolute_error", "poisson", "friedman_mse")
        for data in ("plain", "nan")
    },
    **{
        f"forest, {data}": fit(_forest(), data)
        for data in DATA
        if data not in ("plain", "lowest", "many", "float64-steps")
    },
    "extra trees": fit(ExtraTreesRegressor(n_estimators=9, max_leaf_nodes=30)),
    "extra trees, nan": fit(ExtraTreesRegressor(n_estimators=9), "nan"),
    "extra trees, float32-steps": fit(ExtraTreesRegressor(n_estimators=9), "float32-steps"),
    **{
        f"boosting, {loss}": fit(_boosting(loss=loss, max_depth=2))
        for loss in ("squared_error", "absolute_error", "huber", "quantile")
    },
    "boosting, from zero": fit(_boosting(init="zero"), frame=True),
    "boosting, from a median": fit(_boosting(init=DummyRegressor(strategy="median"))),
    "boosting, stumps": fit(_boosting(max_depth=1, n_estimators=40, subsample=0.5)),
    "boosting, many leaves": fit(_boosting(n_estimators=3, max_depth=None), "many"),
    "boosting, constant": fit(_boosting(), constant=True),
    "boosting, early stopping": fit(_boosting(n_iter_no_change=1, learning_rate=1.0)),
    **{
        f"boosting, {data}": fit(_boosting(), data)
        for data in ("integers", "float32-steps", "tiny", "large", "one", "wide")
    },
}

XGBOOST: dict[str, Factory] = {
    **{
        f"{method}, {data}": fit(xgboost_regressor(tree_method=method), data)
        for method in ("hist", "exact")
        for data in DATA
        if data not in ("zeros", "zeros-nan", "-999", "many", "float64-steps")
    },
    "approx": fit(xgboost_regressor(tree_method="approx"), "nan"),
    "frame": fit(xgboost_regressor(), "nan", frame=True),
    "many leaves": fit(
        xgboost_regressor(max_depth=0, max_leaves=150, grow_policy="lossguide", min_child_weight=0),
        "many",
    ),
    "stumps": fit(xgboost_regressor(max_depth=1, n_estimators=40)),
    "constant": fit(xgboost_regressor(), constant=True),
    "pruned by gamma": fit(xgboost_regressor(tree_method="exact", gamma=1.0, max_depth=6)),
    "pruned later": prune_xgboost,
    "early stopping": fit(
        xgboost_regressor(n_estimators=60, learning_rate=1.0, early_stopping_rounds=2),
        early_stopping=True,
    ),
    "early stopping, forests": fit(
        xgboost_regressor(
            n_estimators=60,
            learning_rate=1.0,
            subsample=0.5,
            num_parallel_tree=3,
            early_stopping_rounds=2,
        ),
        early_stopping=True,
    ),
    "base score": fit(xgboost_regressor(base_score=0.1)),
    "raw": fit(xgboost_regressor(), output="raw"),
    **{
        f"missing={missing}": fit(xgboost_regressor(missing=missing), data)
        for missing, data in ((0.0, "zeros"), (-999.0, "-999"), (0.1, "tenths"))
    },
    **{
        f"{strategy}, output {k}": fit(
            xgboost_regressor(multi_strategy=strategy), n_targets=3, class_index=k
        )
        for strategy in ("one_output_per_tree", "multi_output_tree")
        for k in (0, 2)
    },
    **{
        objective: fit(xgboost_regressor(objective=objective))
        for objective in ("reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")
    },
    "reg:quantileerror": fit(xgboost_regressor(objective="reg:quantileerror", quantile_alpha=0.3)),
    "reg:quantileerror, output 1": fit(
        xgboost_regressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9]),
        class_index=1,
    ),
    "forest": fit(xgb.XGBRFRegressor(n_estimators=9, max_depth=5, n_jobs=1)),
    "forest, many leaves": fit(
        xgb.XGBRFRegressor(n_estimators=5, max_depth=9, n_jobs=1, min_child_weight=0), "many"
    ),
    "booster": train_xgboost("nan"),
    "booster, frame": train_xgboost(frame=True),
    "booster, early stopping": train_xgboost(rounds=60, stop=True, eta=1.0),
    "booster, slice": train_xgboost(part=slice(2, 6)),
}

LIGHTGBM: dict[str, Factory] = {
    **{
        f"{boosting}, {data}, use_missing={use}, zero_as_missing={zero}": fit(
            lightgbm_regressor(
                boosting_type=boosting,
                use_missing=use,
                zero_as_missing=zero,
                bagging_freq=1,
                bagging_fraction=0.7,
            ),
            data,
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
        )
    },
    **{
        f"gbdt, {data}": fit(lightgbm_regressor(), data)
        for data in DATA
        if data not in ("nan", "zeros", "zeros-nan", "many", "lowest", "-999")
    },
    "frame": fit(lightgbm_regressor(), "nan", frame=True),
    "many leaves": fit(lightgbm_regressor(num_leaves=120), "many"),
    "many leaves, zero_as_missing": fit(
        lightgbm_regressor(num_leaves=120, zero_as_missing=True), "many"
    ),
    "stumps": fit(lightgbm_regressor(num_leaves=2, n_estimators=40)),
    "constant": fit(lightgbm_regressor(), constant=True),
    "goss": fit(lightgbm_regressor(data_sample_strategy="goss")),
    "early stopping": fit(
        lightgbm_regressor(n_estimators=60, learning_rate=1.0), early_stopping=True
    ),
    **{
        objective: fit(lightgbm_regressor(objective=objective))
        for objective in ("regression_l1", "huber", "fair", "quantile", "mape")
    },
    "rf": fit(lightgbm_regressor(boosting_type="rf", **BAGGED)),
    "rf, raw": fit(lightgbm_regressor(boosting_type="rf", **BAGGED), output="raw"),
    "booster": train_lightgbm("zeros-nan"),
    "booster, frame": train_lightgbm(frame=True),
    "booster, early stopping": train_lightgbm(rounds=60, stop=True, learning_rate=1.0),
    "booster, rf": train_lightgbm(boosting="rf", **BAGGED),
}

# Two base scores whose logarithm XGBoost does not round to the nearest float32.
ODD_MEAN, ODD_SHARE = 0.851875901222229, 0.4300196170806885

TRANSFORMED_XGBOOST: dict[str, Factory] = {
    f"raw {objective}, base_score={base}": train_xgboost(
        objective=objective, base_score=base, target=target, output="raw"
    )
    for objective, target, odd in (
        ("count:poisson", np.round, ODD_MEAN),
        ("reg:gamma", lambda y: y + 0.1, ODD_MEAN),
        ("reg:tweedie", np.positive, ODD_MEAN),
        ("reg:logistic", share, ODD_SHARE),
        ("binary:logistic", is_large, ODD_SHARE),
        ("binary:logitraw", is_large, ODD_SHARE),
    )
    for base in (None, odd)
}
TRANSFORMED_XGBOOST["raw multi:softprob"] = train_xgboost(
    objective="multi:softprob", num_class=3, target=third, output="raw", class_index=1
)

TRANSFORMED_LIGHTGBM: dict[str, Factory] = {
    f"raw {objective}": train_lightgbm(objective=objective, target=target, output="raw")
    for objective, target in {
        "poisson": np.positive,
        "gamma": lambda y: y + 0.1,
        "tweedie": np.positive,
        "binary": is_large,
        "cross_entropy": share,
    }.items()
}
TRANSFORMED_LIGHTGBM |= {
    "raw reg_sqrt": train_lightgbm(reg_sqrt=True, output="raw"),
    "raw multiclass": train_lightgbm(
        objective="multiclass", num_class=3, target=third, output="raw", class_index=2
    ),
    "raw binary rf": train_lightgbm(
        objective="binary", boosting="rf", target=is_large, output="raw", **BAGGED
    ),
}

XGBOOST |= TRANSFORMED_XGBOOST
LIGHTGBM |= TRANSFORMED_LIGHTGBM

LIBRARIES = {"sklearn": SKLEARN, "xgboost": XGBOOST, "lightgbm": LIGHTGBM}


@cache
def fitted(library: str, name: str, seed: int = 0) -> Case:
    """Fit a model of the tables above, once per session."""
    return LIBRARIES[library][name](seed)
