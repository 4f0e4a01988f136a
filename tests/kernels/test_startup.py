"""What importing and the first call cost a user: nothing heavy, and one line when compiling."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(code: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def test_import_loads_nothing_heavy():
    heavy = ["numba", "sklearn", "scipy", "pandas", "xgboost", "lightgbm", "matplotlib"]
    result = python(f"import sys, treeopt; print([m for m in {heavy} if m in sys.modules])")
    assert result.stdout.strip() == "[]"


def test_sklearn_models_need_only_the_core():
    """No optional library is imported, and treeopt works where none can be."""
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("xgboost", "lightgbm", "pandas", "matplotlib"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
import numpy as np, treeopt
from sklearn.ensemble import RandomForestRegressor
X = np.random.default_rng(0).random((50, 3))
model = RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])
ensemble = treeopt.from_model(model)
assert (ensemble.predict(X) == model.predict(X)).all()
assert treeopt.check_conversion(model, X).different == 0
ensemble.line(X[0], 0), ensemble.walker(X[0]), ensemble.leaf_boxes()
best = treeopt.maximize(model, X)
assert best.status is treeopt.Status.OPTIMAL and best.fun == model.predict([best.x])[0]
"""
    python(code)


def test_a_cold_compile_says_so_once_and_a_warm_start_is_silent(tmp_path):
    code = """
import numpy as np, treeopt
from sklearn.tree import DecisionTreeRegressor
X = np.arange(6.0).reshape(-1, 1)
ensemble = treeopt.from_model(DecisionTreeRegressor().fit(X, X[:, 0]))
ensemble.predict(X), ensemble.line(X[0], 0)
"""
    cold = python(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert cold.stderr.count("compiling kernels") == 1
    assert len(cold.stderr.strip().splitlines()) == 1
    assert python(code, NUMBA_CACHE_DIR=str(tmp_path)).stderr == ""


def test_a_change_in_any_kernel_source_makes_the_cache_stale(tmp_path):
    """A helper that is compiled into kernels of other files counts too."""
    shutil.copytree(ROOT / "treeopt", tmp_path / "treeopt")
    code = """
import numpy as np, treeopt
from sklearn.tree import DecisionTreeRegressor
X = np.arange(6.0).reshape(-1, 1)
print(treeopt.from_model(DecisionTreeRegressor().fit(X, X[:, 0])).predict(X[:1] + 0.4)[0])
"""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    assert python(code, cwd=tmp_path, **environment).stdout.strip() == "0.0"
    encode = tmp_path / "treeopt" / "kernels" / "encode.py"
    broken = encode.read_text().replace("return np.nan if", "y = y + 1.0\n    return np.nan if")
    assert broken != encode.read_text()
    encode.write_text(broken)
    assert python(code, cwd=tmp_path, **environment).stdout.strip() == "1.0"


def test_functions_without_a_module_still_compile():
    """The notice must not trip over a user's own numba functions."""
    code = """
import treeopt.kernels.walk
from numba import njit
space = {"__name__": None, "njit": njit}
exec("@njit\\ndef f(x): return x + 1", space)
assert space["f"](1) == 2
"""
    python(code)
