"""Prediction speed of treeopt and its peers: ``python bench/evaluator.py [--quick]``.

Every engine gets the same C-contiguous inputs in its preferred dtype. They are drawn uniformly from
the box of the training data and rounded to float32. Categories are codes, some of them unknown to
the model. Before the timing, treeopt must equal the model's own library to the last bit on every
row and in every batch size. The differences of the peers are recorded; a peer that differs on more
than a few rows is excluded. Classifiers predict probabilities. Repetitions alternate between the
engines, and the minimum time is reported. Small batches differ from call to call, because the
branch predictor learns repeated rows.

The script writes ``evaluator.csv``, ``evaluator_moves.csv``, ``evaluator_startup.csv`` and
``evaluator.md`` to ``bench/results`` (with ``--quick``: ``evaluator_quick...``).
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from engines import ENGINES, Array, Engine, Lleaves, Model, Own, Treeopt, Unavailable, convert
from evaluator_moves import measure_moves
from evaluator_report import report
from evaluator_startup import measure_import, measure_startup
from machine import machine, versions
from threadpoolctl import threadpool_limits

SEED = 0
TOLERANCE = 1e-4  # allowed difference, relative to max(1, |prediction|)
TOO_MANY = 0.01  # share of rows beyond the tolerance that excludes an engine
MANY_ROWS = 4096  # minimum number of rows that a batch size cycles through
SHORTEST = 0.005  # minimum seconds of a repetition
SLOW_CALL = 1.0  # a call that takes longer than this, and ...
SLOW_FACTOR = 4.0  # ... this many times longer than the fastest, is timed SLOW_REPS times, ...
SLOW_REPS = 2  # ... including the first call
PACKAGES = (
    *("numpy", "numba", "scikit-learn", "xgboost", "lightgbm", "onnxruntime"),
    *("skl2onnx", "onnxmltools", "treelite", "scikit-learn-intelex"),
)

Row = dict[str, Any]
Log = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """How to fit a model: its class, and its data, Boston or rows of Friedman's first function.

    One column is appended per entry of ``categories``, its number of categories. Each category has
    its own effect. A classifier learns whether the target is above its median.
    """

    title: str
    library: str
    kind: str
    settings: dict[str, Any]
    friedman_rows: int | None = 5_000
    categories: tuple[int, ...] = ()
    fit_settings: dict[str, Any] = field(default_factory=dict)

    def fit(self, name: str) -> Model:
        X, y = self._data()
        if self.kind.endswith("Classifier"):
            y = (y > np.median(y)).astype(int)
        module, kind = self.kind.rsplit(".", 1)
        estimator = getattr(import_module(module), kind)(random_state=SEED, **self.settings)
        with threadpool_limits(1, user_api="openmp"):
            estimator.fit(X, y, **self.fit_settings)
        return Model(name, self.library, estimator, X.min(axis=0), X.max(axis=0), self.categories)

    def _data(self) -> tuple[Array, Array]:
        from sklearn.datasets import make_friedman1

        from treeopt.datasets import load

        if self.friedman_rows is None:
            data = load("boston")
            return data.X, data.y
        n = self.friedman_rows
        X, y = make_friedman1(n, n_features=N_NUMBERS, noise=1.0, random_state=SEED)
        rng = np.random.default_rng(SEED)
        for size in self.categories:
            codes = rng.integers(size, size=n)
            X, y = np.column_stack([X, codes]), y + 3.0 * rng.standard_normal(size)[codes]
        return X, y


N_NUMBERS = 10
CATEGORIES = (8, 40, 200)
COLUMNS = [N_NUMBERS + k for k in range(len(CATEGORIES))]
WITH_CATEGORIES = "Friedman 1 and 3 columns of 8, 40 and 200 categories"
HIST = ("scikit-learn", "sklearn.ensemble.HistGradientBoostingRegressor")
FOREST = ("scikit-learn", "sklearn.ensemble.RandomForestRegressor", {"n_jobs": -1})
MODELS = {
    "forest-boston": Recipe("scikit-learn forest, 100 full trees, Boston", *FOREST, None),
    "xgboost": Recipe(
        "XGBoost, 300 trees of depth 6, Friedman 1",
        "XGBoost",
        "xgboost.XGBRegressor",
        {"n_estimators": 300, "max_depth": 6, "n_jobs": 1},
    ),
    "lightgbm": Recipe(
        "LightGBM, 300 trees of 31 leaves, Friedman 1",
        "LightGBM",
        "lightgbm.LGBMRegressor",
        {"n_estimators": 300, "num_leaves": 31, "n_jobs": 1, "verbose": -1},
    ),
    "forest-20000": Recipe(
        "scikit-learn forest, 100 full trees, Friedman 1 with 20,000 rows", *FOREST, 20_000
    ),
    "boosting": Recipe(
        "scikit-learn boosting, 300 trees of depth 3, Friedman 1",
        "scikit-learn",
        "sklearn.ensemble.GradientBoostingRegressor",
        {"n_estimators": 300, "max_depth": 3},
    ),
    "hist": Recipe(
        "scikit-learn HistGradientBoosting, 300 trees of 31 leaves, Friedman 1",
        *HIST,
        {"max_iter": 300},
    ),
    "forest-classes": Recipe(
        "scikit-learn forest classifier, 100 full trees, Friedman 1 above its median",
        "scikit-learn",
        "sklearn.ensemble.RandomForestClassifier",
        {"n_jobs": -1},
    ),
    "xgboost-classes": Recipe(
        "XGBoost classifier, 300 trees of depth 6, Friedman 1 above its median",
        "XGBoost",
        "xgboost.XGBClassifier",
        {"n_estimators": 300, "max_depth": 6, "n_jobs": 1},
    ),
    "xgboost-categories": Recipe(
        f"XGBoost, 300 trees of depth 6, {WITH_CATEGORIES} (one-hot up to 8, else by sets)",
        "XGBoost",
        "xgboost.XGBRegressor",
        {"n_estimators": 300, "max_depth": 6, "n_jobs": 1, "max_cat_to_onehot": 9}
        | {"enable_categorical": True, "feature_types": ["q"] * N_NUMBERS + ["c"] * len(COLUMNS)},
        categories=CATEGORIES,
    ),
    "lightgbm-categories": Recipe(
        f"LightGBM, 300 trees of 31 leaves, {WITH_CATEGORIES}",
        "LightGBM",
        "lightgbm.LGBMRegressor",
        {"n_estimators": 300, "num_leaves": 31, "n_jobs": 1, "verbose": -1},
        categories=CATEGORIES,
        fit_settings={"categorical_feature": COLUMNS},
    ),
    "lightgbm-127-categories": Recipe(
        f"LightGBM, 300 trees of 127 leaves, {WITH_CATEGORIES}, 20,000 rows",
        "LightGBM",
        "lightgbm.LGBMRegressor",
        {"n_estimators": 300, "num_leaves": 127, "n_jobs": 1, "verbose": -1},
        20_000,
        categories=CATEGORIES,
        fit_settings={"categorical_feature": COLUMNS},
    ),
    "hist-categories": Recipe(
        f"scikit-learn HistGradientBoosting, 300 trees of 31 leaves, {WITH_CATEGORIES}",
        *HIST,
        {"max_iter": 300, "categorical_features": COLUMNS},
        categories=CATEGORIES,
    ),
}
QUICK = ("forest-boston", "xgboost")


@dataclass
class Entry:
    """An engine in the comparison, and its results before the timing."""

    engine: Engine
    convert_seconds: float | None
    worst: float = 0.0
    disagreeing: int = 0


def inputs(model: Model, n: int) -> Array:
    """Return random points of the model's box, exact in float32 and in float64."""
    return model.draw(np.random.default_rng(SEED), n).astype(np.float32)


def vector(prediction: Array, rows: int) -> Array:
    """Return one number per row: the last, which is the probability of the second class."""
    return np.asarray(prediction).reshape(rows, -1)[:, -1]


def batches_of(X: Array, rows: int) -> list[Array]:
    """Divide the inputs into batches of ``rows`` rows."""
    n = max(1, min(MANY_ROWS, X.shape[0]) // rows)
    return [X[k * rows : (k + 1) * rows] for k in range(n)]


def enter(
    kinds: Sequence[type[Engine]], model: Model, X: Array, sizes: Sequence[int], log: Log
) -> tuple[list[Entry], list[Row]]:
    """Convert the model for every engine and check it; also return excluded engines and reasons."""
    own = Own(model)
    own.bind(1)
    reference = vector(own.predict(X.astype(own.dtype)), len(X))
    entries, absent = [], []
    for kind in kinds:
        log(f"{model.name}: {kind.name}")
        try:
            engine, seconds = convert(kind, model)
            worst, disagreeing = differences(engine, X, reference)
            if disagreeing > TOO_MANY * len(X):
                engine.close()
                raise Unavailable(f"{disagreeing} of {len(X)} rows are beyond the tolerance")
        except Unavailable as reason:
            if kind in (Own, Treeopt):
                raise
            absent.append({"model": model.name, "engine": kind.name, "note": str(reason)})
            continue
        if isinstance(engine, Treeopt):
            check_bits(engine, X, reference, sizes)
        entries.append(Entry(engine, None if kind is Own else seconds, worst, disagreeing))
    return entries, absent


def differences(engine: Engine, X: Array, reference: Array) -> tuple[float, int]:
    """Return the maximum difference to the reference and the number of rows above tolerance."""
    try:
        engine.bind(os.cpu_count() or 1)
        found = vector(engine.predict(X.astype(engine.dtype)), len(X))
    except Exception as error:  # a peer may raise any exception
        raise Unavailable(f"cannot predict ({type(error).__name__}: {error})") from error
    difference = np.abs(found.astype(np.float64) - reference)
    beyond = difference > TOLERANCE * np.maximum(1.0, np.abs(reference))
    return float(difference.max()), int(np.count_nonzero(beyond))


def check_bits(engine: Engine, X: Array, reference: Array, sizes: Sequence[int]) -> None:
    """Assert that an engine equals the reference exactly, in every batch size."""
    X = X.astype(engine.dtype)
    for threads in (1, os.cpu_count() or 1):
        engine.bind(threads)
        for rows in (X.shape[0], *sizes):
            found = np.concatenate([engine.predict(batch) for batch in batches_of(X, rows)])
            same = found.dtype == reference.dtype and np.array_equal(found, reference[: found.size])
            if not same:
                raise AssertionError(f"{engine.model.name}: not bit-equal in batches of {rows}")


def calibrate(engine: Engine, batches: Sequence[Array]) -> tuple[int, float]:
    """Return the calls per repetition, after one untimed call, and the seconds of one call."""
    seconds = engine.time(batches, 0, 1)
    calls = 1
    while seconds < SLOW_CALL:
        seconds = engine.time(batches, 0, calls)
        if seconds >= SHORTEST:
            break
        calls *= 4
    return calls, seconds / calls


def measure(
    engines: Sequence[Engine], inputs: dict[type, list[Array]], threads: int, reps: int
) -> list[tuple[float, int]]:
    """Return, for each engine, the minimum seconds of one call and the number of repetitions."""
    plans = []
    for engine in engines:
        engine.bind(threads)
        plans.append(calibrate(engine, inputs[engine.dtype]))
        pause(engine, threads)
    limit = max(SLOW_CALL, SLOW_FACTOR * min(seconds for _, seconds in plans))
    slow = [seconds > limit for _, seconds in plans]
    best = [plan[1] if is_slow else np.inf for plan, is_slow in zip(plans, slow, strict=True)]
    for rep in range(reps):
        for k, engine in enumerate(engines):
            if not slow[k] or rep < SLOW_REPS - 1:
                calls = plans[k][0]
                spent = engine.time(inputs[engine.dtype], 1 + rep * calls, calls)
                best[k] = min(best[k], spent / calls)
                pause(engine, threads)
    return [(b, SLOW_REPS if is_slow else reps) for b, is_slow in zip(best, slow, strict=True)]


def pause(engine: Engine, threads: int) -> None:
    """Wait until the idle threads of an engine have stopped spinning."""
    if threads > 1:
        time.sleep(engine.rest)


def measure_predictions(
    model: Model, entries: list[Entry], X: Array, options: argparse.Namespace, log: Log
) -> list[Row]:
    """Time the engines for every number of threads and rows."""
    dtypes: set[type] = {e.engine.dtype for e in entries}
    table = []
    for threads in options.threads:
        for rows in options.rows:
            log(f"{model.name}: {threads} thread(s), {rows} row(s)")
            cut = {dtype: batches_of(X.astype(dtype), rows) for dtype in dtypes}
            times = measure([e.engine for e in entries], cut, threads, options.reps)
            for entry, (seconds, reps) in zip(entries, times, strict=True):
                row = {"threads": threads, "rows": rows, "us_per_row": seconds / rows * 1e6}
                table.append(describe(model, entry) | row | {"reps": reps})
    return table


def describe(model: Model, entry: Entry) -> Row:
    """Return the columns of an engine that do not depend on the number of rows."""
    engine = entry.engine
    return {
        "model": model.name,
        "library": model.library,
        "categories": len(model.categories),
        "engine": model.library if engine.name == "own" else engine.name,
        "convert_seconds": entry.convert_seconds,
        "worst_difference": entry.worst,
        "disagreeing_rows": entry.disagreeing,
        "note": engine.note,
    }


def measure_model(name: str, options: argparse.Namespace, log: Log) -> tuple[list[Row], ...]:
    """Return the rows of one model: predictions, moves, start-up."""
    log(f"{name}: fitting")
    model = MODELS[name].fit(name)
    wanted = {*options.engines, "own", "treeopt"}
    kinds = [kind for kind in ENGINES if kind.name in wanted]
    X = inputs(model, max(MANY_ROWS, *options.rows))
    entries, absent = enter(kinds, model, X, options.rows, log)
    predictions = measure_predictions(model, entries, X, options, log) + absent
    log(f"{name}: moves and lines")
    ensemble = next(e.engine.ensemble for e in entries if isinstance(e.engine, Treeopt))
    rows = measure_moves(model, ensemble, np.random.default_rng(SEED), options.reps)
    moves = [{"model": name, **row, "reps": options.reps} for row in rows]
    log(f"{name}: start-up")
    startup = [{"model": name, **measure_startup(model.estimator)}]
    for entry in entries:
        entry.engine.close()
    return predictions, moves, startup


def write_csv(path: Path, rows: list[Row], about: Row) -> None:
    columns = list(dict.fromkeys(column for row in rows for column in row)) + list(about)
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({**row, **about} for row in rows)
    unfinished.replace(path)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [k.name for k in ENGINES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    quick = "two models, up to 1,000 rows, one thread"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--models", nargs="+", choices=MODELS)
    parser.add_argument("--engines", nargs="+", choices=names, default=names)
    parser.add_argument("--rows", nargs="+", type=int)
    parser.add_argument("--threads", nargs="+", type=int)
    parser.add_argument("--reps", type=int, help="repetitions: 9, with --quick 7")
    parser.add_argument("--lleaves-python", type=Path, help="a Python that has lleaves")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    options.models = options.models or list(QUICK if options.quick else MODELS)
    options.rows = options.rows or [1, 5, 32, 1_000, *([] if options.quick else [100_000])]
    options.threads = options.threads or ([1] if options.quick else [1, 2])
    options.reps = options.reps or (7 if options.quick else 9)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    warnings.filterwarnings("ignore", "X does not have valid feature names")
    Lleaves.python = options.lleaves_python
    begin = time.perf_counter()

    def log(text: str) -> None:
        print(f"[{time.perf_counter() - begin:6.1f} s] {text}", file=sys.stderr, flush=True)

    parts = [measure_model(name, options, log) for name in options.models]
    predictions, moves, startup = (
        [r for rows in table for r in rows] for table in zip(*parts, strict=True)
    )
    startup.append({"model": "", "import_cpu_seconds": measure_import()})
    about = {
        "versions": f"{versions(PACKAGES)}, lleaves {Lleaves.version or '(not used)'}",
        "machine": machine(),
        "seed": SEED,
        "date": datetime.date.today().isoformat(),
    }
    stem = "evaluator_quick" if options.quick else "evaluator"
    options.out.mkdir(parents=True, exist_ok=True)
    write_csv(options.out / f"{stem}.csv", predictions, about)
    write_csv(options.out / f"{stem}_moves.csv", moves, about)
    write_csv(options.out / f"{stem}_startup.csv", startup, about)
    titles = {name: recipe.title for name, recipe in MODELS.items()}
    text = report(predictions, moves, startup, titles, TOLERANCE, about)
    (options.out / f"{stem}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
