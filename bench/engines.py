"""The engines of the evaluator benchmark: one class each, with the same four steps.

``require`` imports the engine's packages, the constructor converts a model, ``bind`` sets the
number of threads, and ``time`` runs the engine over prepared batches. `Unavailable` has the reason
if an engine cannot be used.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Timer
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

UNSEEN = 0.03  # share of the values of each category column that are unknown to the model
HERE = Path(__file__).resolve().parent
LLEAVES_SECONDS = 300  # maximum time to compile a model
LLEAVES_VENV = HERE / ".lleaves-venv"
LLEAVES_NEEDS = ("lleaves", "llvmlite<0.45")

Array = NDArray[Any]
Predict = Callable[[Array], Array]


class Unavailable(Exception):
    """The engine is not installed, or cannot evaluate this model."""


@dataclass(frozen=True)
class Model:
    """A fitted model and the box from which its inputs are drawn.

    The last columns are codes of categories; ``categories`` has the number of each column's.
    """

    name: str
    library: str  # "scikit-learn", "XGBoost" or "LightGBM"
    estimator: Any
    low: Array
    high: Array
    categories: tuple[int, ...] = ()

    @property
    def is_hist(self) -> bool:
        return type(self.estimator).__name__.startswith("HistGradientBoosting")

    @property
    def is_classifier(self) -> bool:
        return hasattr(self.estimator, "predict_proba")

    @property
    def n_numbers(self) -> int:
        """Number of columns without categories, which come first."""
        return self.low.size - len(self.categories)

    @property
    def dtype(self) -> type:
        """The precision in which the model's library compares its inputs."""
        return np.float64 if self.library == "LightGBM" or self.is_hist else np.float32

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Return random points of the box; a few categories are unknown to the model."""
        X = rng.uniform(self.low, self.high, (n, self.low.size))
        for column, size in enumerate(self.categories, self.n_numbers):
            X[:, column] = np.where(rng.random(n) < UNSEEN, size, rng.integers(size, size=n))
        return X

    def one_row(self, dtype: type) -> Array:
        return ((self.low + self.high) / 2).astype(dtype)[None, :]


class Engine:
    """One way to evaluate a model."""

    name: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()
    note: ClassVar[str] = ""
    rest: ClassVar[float] = 0.01
    """Seconds for which its idle threads may spin and disturb the next engine."""

    def __init__(self, model: Model) -> None:
        """Convert the model."""
        self.model = model
        self.dtype: type = model.dtype
        self.predict: Predict

    @classmethod
    def require(cls, model: Model) -> None:
        """Import all packages, so that only the conversion is timed."""
        for module in cls.modules:
            try:
                import_module(module)
            except ImportError as error:
                raise Unavailable(f"not installed ({error})") from error

    def bind(self, threads: int) -> None:
        """Set ``predict`` to the fastest call that predicts with this number of threads."""
        raise NotImplementedError

    def time(self, batches: Sequence[Array], start: int, calls: int) -> float:
        """Return the seconds of ``calls`` calls, cycling through the batches from ``start``."""
        inputs = [batches[(start + k) % len(batches)] for k in range(calls)]
        predict = self.predict
        begin = perf_counter()
        for X in inputs:
            predict(X)
        return perf_counter() - begin

    def close(self) -> None:
        """Release resources outside of the object."""


class Own(Engine):
    """The library that trained the model."""

    name = "own"

    def bind(self, threads: int) -> None:
        estimator = self.model.estimator
        if self.model.library == "XGBoost":
            booster = estimator.get_booster()
            booster.set_param({"nthread": threads})
            self.predict = booster.inplace_predict
        elif self.model.library == "LightGBM":
            self.predict = partial(estimator.booster_.predict, num_threads=threads)
        else:
            if self.model.is_hist:
                threadpool_limits(threads, user_api="openmp")
            elif hasattr(estimator, "n_jobs"):  # boosting has one thread only
                estimator.set_params(n_jobs=threads)
            is_classifier = self.model.is_classifier
            self.predict = estimator.predict_proba if is_classifier else estimator.predict


class Onnx(Engine):
    """onnxruntime, after skl2onnx or onnxmltools."""

    name = "onnxruntime"
    modules = ("onnxruntime", "skl2onnx", "onnxmltools")
    note = "float32 inputs, thresholds and sums"
    rest = 0.06

    @classmethod
    def require(cls, model: Model) -> None:
        super().require(model)
        if model.library == "XGBoost" and model.categories:
            raise Unavailable("onnxmltools does not return from a model with categories")

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.dtype = np.float32
        self.graph: bytes = self._convert(model).SerializeToString()

    @staticmethod
    def _convert(model: Model) -> Any:
        if model.library == "scikit-learn":
            from skl2onnx import to_onnx

            options = {"zipmap": False} if model.is_classifier else None
            return to_onnx(model.estimator, model.one_row(np.float32), options=options)
        from onnxmltools import convert_lightgbm, convert_xgboost
        from onnxmltools.convert.common.data_types import FloatTensorType

        convert = convert_xgboost if model.library == "XGBoost" else convert_lightgbm
        kind = FloatTensorType([None, model.low.size])
        return convert(model.estimator, initial_types=[("X", kind)])

    def bind(self, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            self.graph, options, providers=["CPUExecutionProvider"]
        )
        # A classifier's first output is the label.
        run, wanted = session.run, [session.get_outputs()[-1].name]
        self.predict = lambda X: run(wanted, {"X": X})[0]


class Treelite(Engine):
    """Treelite's own interpreter, GTIL."""

    name = "treelite"
    modules = ("treelite", "treelite.gtil", "treelite.sklearn")
    note = "GTIL"

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.converted = to_treelite(model)
        self.dtype = np.dtype(self.converted.input_type).type

    def bind(self, threads: int) -> None:
        import treelite

        self.predict = partial(treelite.gtil.predict, self.converted, nthread=threads)


def to_treelite(model: Model) -> Any:
    import treelite

    if model.library == "XGBoost":
        return treelite.frontend.from_xgboost(model.estimator.get_booster())
    if model.library == "LightGBM":
        return treelite.frontend.from_lightgbm(model.estimator.booster_)
    return treelite.sklearn.import_model(model.estimator)


class Daal(Engine):
    """daal4py of scikit-learn-intelex; scikit-learn's models reach it through Treelite."""

    name = "daal4py"
    modules = ("daal4py", "daal4py.mb", "treelite", "treelite.sklearn")
    note = "float32 thresholds; scikit-learn models by way of Treelite"

    def __init__(self, model: Model) -> None:
        from daal4py.mb import convert_model

        super().__init__(model)
        by_treelite = model.library == "scikit-learn"
        self.converted = convert_model(to_treelite(model) if by_treelite else model.estimator)

    def bind(self, threads: int) -> None:
        import daal4py

        daal4py.daalinit(threads)
        is_classifier = self.model.is_classifier
        self.predict = self.converted.predict_proba if is_classifier else self.converted.predict


class Lleaves(Engine):
    """lleaves needs an older llvmlite, so a worker in a separate environment times it."""

    name = "lleaves"
    note = "in a process of its own"
    python: ClassVar[Path | None] = None
    version: ClassVar[str] = ""

    @classmethod
    def require(cls, model: Model) -> None:
        if model.library != "LightGBM":
            raise Unavailable("compiles LightGBM models only")
        if cls.python is None:
            cls.python = make_lleaves_venv()

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.folder = tempfile.TemporaryDirectory()
        self.batches: Sequence[Array] | None = None
        text = Path(self.folder.name) / "model.txt"
        model.estimator.booster_.save_model(text)
        self.worker = subprocess.Popen(
            [str(self.python), str(HERE / "lleaves_worker.py"), str(text)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        timer = Timer(LLEAVES_SECONDS, self.worker.kill)
        timer.daemon = True
        timer.start()
        try:
            type(self).version = self._answer()
        except Unavailable as error:
            late = f"does not compile the model within {LLEAVES_SECONDS} seconds"
            raise (error if timer.is_alive() else Unavailable(late)) from None
        timer.cancel()

    def bind(self, threads: int) -> None:
        self._ask("threads", threads)
        self.predict = self._predict_by_file

    def time(self, batches: Sequence[Array], start: int, calls: int) -> float:
        if batches is not self.batches:
            self.batches = batches
            self._ask("inputs", self._save(np.concatenate(batches)), len(batches))
        return float(self._ask("time", start, calls))

    def close(self) -> None:
        self.worker.communicate()
        self.folder.cleanup()

    def _predict_by_file(self, X: Array) -> Array:
        result: Array = np.load(self._ask("predict", self._save(X)))
        return result

    def _save(self, X: Array) -> str:
        path = Path(self.folder.name) / "inputs.npy"
        np.save(path, X)
        return str(path)

    def _ask(self, *command: Any) -> Any:
        assert self.worker.stdin is not None
        print(json.dumps(command), file=self.worker.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self.worker.stdout is not None
        line = self.worker.stdout.readline()
        if not line:
            raise Unavailable(f"the worker ended with code {self.worker.wait()}")
        return json.loads(line)


def make_lleaves_venv() -> Path:
    """Return the Python of the environment with lleaves; create it the first time."""
    python = LLEAVES_VENV / "bin" / "python"
    ready = LLEAVES_VENV / ".ready"
    if not ready.exists():
        print(f"making {LLEAVES_VENV.relative_to(HERE.parent)}", file=sys.stderr)
        install = (str(python), "-m", "pip", "install", "--quiet", *LLEAVES_NEEDS)
        for command in ((sys.executable, "-m", "venv", "--clear", str(LLEAVES_VENV)), install):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise Unavailable(f"its environment could not be made ({last})")
        ready.touch()
    return python


class Treeopt(Engine):
    """This library. The first prediction is part of the conversion, because it builds tables."""

    name = "treeopt"
    modules = ("treeopt",)

    @classmethod
    def require(cls, model: Model) -> None:
        import treeopt

        treeopt.warmup(model.estimator)

    def __init__(self, model: Model) -> None:
        import treeopt

        super().__init__(model)
        self.ensemble = treeopt.from_model(model.estimator)
        self.ensemble.predict(model.one_row(self.dtype))

    def bind(self, threads: int) -> None:
        self.predict = partial(self.ensemble.predict, n_jobs=threads)


ENGINES: tuple[type[Engine], ...] = (Own, Onnx, Treelite, Daal, Lleaves, Treeopt)


def convert(kind: type[Engine], model: Model) -> tuple[Engine, float]:
    """Return the engine for a model and the seconds that the conversion took."""
    try:
        kind.require(model)
        begin = perf_counter()
        engine = kind(model)
    except Unavailable:
        raise
    except Exception as error:  # a converter may raise any exception
        reason = (str(error).splitlines() or [""])[0]
        raise Unavailable(f"cannot convert the model ({type(error).__name__}: {reason})") from error
    return engine, perf_counter() - begin
