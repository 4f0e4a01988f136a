"""Time and memory of a conversion, each measured in a fresh process.

Run as a script, the module is that process: ``evaluator_startup.py time|memory MODEL.pickle``. The
memory is the maximum increase of the resident set (``VmHWM``, reset before the conversion). The
allocator is set to return large blocks at once. The measurement needs Linux.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

IMPORT = (
    "import time, numpy, sklearn; begin = time.process_time(); import treeopt; "
    "print(time.process_time() - begin)"
)
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def measure_import(runs: int = 5) -> float:
    """Return the minimum CPU seconds of ``import treeopt`` after numpy and sklearn."""
    return min(float(_run([sys.executable, "-c", IMPORT], {})) for _ in range(runs))


def measure_startup(estimator: Any) -> dict[str, float]:
    """Return seconds and bytes of converting a model and predicting one row."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pickle"
        path.write_bytes(pickle.dumps(estimator))
        script = [sys.executable, str(Path(__file__).resolve())]
        found: dict[str, float] = json.loads(_run([*script, "time", str(path)], {}))
        found |= json.loads(_run([*script, "memory", str(path)], GIVE_BACK))
    return found


def _run(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def time_in_this_process(estimator: Any) -> dict[str, float]:
    """Time the first use, with kernels from the disk cache, and a second one."""
    row = np.zeros((1, estimator.n_features_in_))
    marks = [perf_counter()]
    import treeopt

    marks.append(perf_counter())
    for _ in range(2):
        ensemble = treeopt.from_model(estimator)
        marks.append(perf_counter())
        ensemble.predict(row)
        marks.append(perf_counter())
    names = ("import", "fresh_convert", "fresh_predict", "warm_convert", "warm_predict")
    steps = zip(names, np.diff(marks).tolist(), strict=True)
    return {f"{name}_seconds": value for name, value in steps}


def memory_in_this_process(estimator: Any) -> dict[str, float]:
    """Measure the maximum increase of memory after a first conversion has loaded the kernels."""
    import treeopt

    row = np.zeros((1, estimator.n_features_in_))
    treeopt.from_model(estimator).predict(row)
    gc.collect()
    before = _reset_peak()
    ensemble = treeopt.from_model(estimator)
    converted = _status("VmHWM") - before
    ensemble.predict(row)
    arrays = (ensemble.feature, ensemble.threshold, ensemble.left, ensemble.right, ensemble.value)
    flags = (ensemble.default_left, ensemble.zero_missing, ensemble.tree_start)
    sets = (ensemble.category_set, ensemble.set_start, ensemble.set_member)
    return {
        "n_nodes": ensemble.n_nodes,
        "array_bytes": sum(a.nbytes for a in (*arrays, *flags, *sets)),
        "convert_peak_bytes": converted,
        "predict_peak_bytes": _status("VmHWM") - before,
    }


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    """Return a field of this process' memory status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


if __name__ == "__main__":
    what, file = sys.argv[1:]
    fitted = pickle.loads(Path(file).read_bytes())
    if what == "time":
        print(json.dumps(time_in_this_process(fitted)))
    else:
        print(json.dumps(memory_in_this_process(fitted) if sys.platform == "linux" else {}))
