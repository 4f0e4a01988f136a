"""Proven optima of tree ensembles by treeopt and its peers: ``python bench/exact.py``.

Every method of ``exact_peers.py`` solves every instance of ``exact_instances.py`` with the same
time limit, each in a separate process with limited memory. The reported time is from the call of
the search to its result; the conversion of the model is timed separately. Short searches are
repeated, and the median is reported. A reported value must equal the prediction of the model itself
at the reported point, and no method's bound may contradict a value found by another: a disagreement
is an error.

There are two more parts: ``jobs`` compares two threads with one, in interleaved pairs, on instances
that take treeopt more than a second; ``startup`` times the first calls of a fresh process, with and
without compiled kernels on disk. Finished rows are appended to ``bench/results/exact.csv``,
``exact_jobs.csv`` and ``exact_startup.csv``. An interrupted run continues where it stopped;
``--redo`` first discards the rows of the selected methods and instances. Then the page ``exact.md``
and the plot ``exact.png`` are written; ``--report`` writes only these. ``--quick`` takes less than
two minutes, and its file names begin with ``exact_quick``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from exact_instances import INSTANCES, Instance, fitted
from exact_peers import ABSTAINS, METHODS, OPTIMAL, Answer, Case, NotGivenError, Treeopt
from machine import machine, versions
from rows import Row, Rows, tell

KEY = ("instance", "sense", "method")
COLUMNS = (
    *KEY,
    *("status", "seconds", "runs", "nodes", "fun", "bound", "root", "tolerance", "conversion"),
    *("trees", "leaves", "features", "limit", "versions", "machine", "date"),
)
JOBS_KEY = ("instance", "sense")
JOBS_COLUMNS = (*JOBS_KEY, "pair", "n_jobs", "status", "seconds")
STARTUP_KEY = ("cache", "run")
STARTUP_COLUMNS = (*STARTUP_KEY, "import", "convert", "first call", "second call")
PACKAGES = ("numpy", "scikit-learn", "xgboost", "lightgbm")

LIMIT, QUICK_LIMIT = 60.0, 3.0
QUICK = ("boston RF 100 min", "boston XGB 100×3 min", "mpg LGBM 100 max")
PARTS = ("suite", "jobs", "startup")
REPEATS, REPEAT_SECONDS = 5, 1.0  # searches are repeated until their total time exceeds this
PAIRS = 5
WARM_STARTS = 3
SMALL = "boston RF 100 min"  # instance for the first calls
MEMORY = 6 * 2**30  # maximum address space of a method, in bytes
SETUP, GRACE = (
    900.0,
    30.0,
)  # seconds to load and compile, and to stop in addition to half of the limit


# In the child ------------------------------------------------------------------------------------


def child(pipe: Any, task: Callable[..., Any], path: Path, *arguments: Any) -> None:
    """Run a task on a fitted model; send `None` before the clock starts, then the result."""
    try:
        limit_memory()
        os.dup2(2, 1)  # output of a method is not part of the report
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        case = Case(*pickle.loads(path.read_bytes())[1:])
        pipe.send(task(case, lambda: pipe.send(None), *arguments))
    except ImportError as missing:
        pipe.send(missing)
    except Exception:
        pipe.send(RuntimeError(traceback.format_exc()))


def limit_memory() -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def measure_method(
    case: Case, begin: Callable[[], None], sense: str, name: str, limit: float
) -> Row:
    """Convert and search, repeatedly if that is fast, and check the result."""
    method, e = METHODS[name], case.ensemble
    row = {"trees": e.n_trees, "leaves": e.n_leaves, "features": e.n_features, "limit": limit}
    row["root"] = case.root(sense)
    method.warm(case, sense)
    begin()
    conversions: list[float] = []
    times: list[float] = []
    try:
        while len(times) < REPEATS and sum(times) + max(times, default=0) < REPEAT_SECONDS:
            start = time.perf_counter()
            converted = method.convert(case)
            middle = time.perf_counter()
            answer = method.search(case, converted, sense, limit)
            times.append(time.perf_counter() - middle)
            conversions.append(middle - start)
    except NotGivenError:
        return row | {"status": ABSTAINS}
    row |= {"status": answer.status, "nodes": answer.nodes, "runs": len(times)}
    row |= {"seconds": statistics.median(times), "conversion": statistics.median(conversions)}
    return row | checked(case, name, answer)


def checked(case: Case, name: str, answer: Answer) -> Row:
    """Return value and bound as predictions; the value must equal the model's own prediction."""
    method, e = METHODS[name], case.ensemble
    fun, bound = float(answer.fun), float(answer.bound)
    total = bound
    if answer.point is not None:
        x = answer.point()
        own, total = case.own(x), float(e.margin(x[None])[0]) * e.divisor
        if not ((case.bounds[:, 0] <= x) & (x <= case.bounds[:, 1])).all():
            raise AssertionError(f"{name} returns a point outside of the data's range")
    tolerance = case.tolerance(total, method.slack)
    if not method.exact:
        fun, bound = case.prediction(fun), case.prediction(bound)
    if answer.point is not None:
        last_place = 0.0 if e.link.name == "identity" else np.spacing(e.value.dtype.type(own))
        if not abs(fun - own) <= (last_place if method.exact else tolerance):
            raise AssertionError(f"{name} reports {fun!r} where the model predicts {own!r}")
        fun = own
    return {"fun": fun, "bound": bound, "tolerance": tolerance}


def measure_pairs(case: Case, begin: Callable[[], None], sense: str, limit: float) -> list[Row]:
    """Search with one thread and with two threads alternately."""
    methods = {n: Treeopt(n_jobs=n) for n in (1, 2)}
    for method in methods.values():
        method.warm(case, sense)
    begin()
    rows = []
    for pair in range(PAIRS):
        for n, method in methods.items():
            converted = method.convert(case)
            start = time.perf_counter()
            answer = method.search(case, converted, sense, limit)
            seconds = time.perf_counter() - start
            rows.append({"pair": pair, "n_jobs": n, "status": answer.status, "seconds": seconds})
    return rows


STARTUP = """
import json, pickle, sys, time
_, model, X = pickle.load(open(sys.argv[1], "rb"))
marks = [time.perf_counter()]
import treeopt
marks.append(time.perf_counter())
ensemble = treeopt.from_model(model)
for _ in range(2):
    marks.append(time.perf_counter())
    treeopt.minimize(ensemble, X)
marks.append(time.perf_counter())
print(json.dumps(marks))
"""


# In the parent -----------------------------------------------------------------------------------


def key_of(instance: Instance, method: str) -> tuple[str, ...]:
    return (instance.name, instance.sense, method)


def in_child(task: Callable[..., Any], instance: Instance, patience: float, *rest: Any) -> Any:
    """Return the result of a task, or the exit code if the process crashed or was killed."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    arguments = (theirs, task, fitted(instance), instance.sense, *rest)
    process = context.Process(target=child, args=arguments, daemon=True)
    process.start()
    theirs.close()
    try:
        for wait in (SETUP, patience):
            if not ours.poll(wait):
                process.kill()
            found = ours.recv()
            if found is not None:
                break
    except EOFError:
        process.join()
        return process.exitcode
    process.join(GRACE)
    process.kill()
    return found


def run_suite(suite: Rows, options: argparse.Namespace) -> list[str]:
    """Run the missing tasks; return the failures."""
    done = {
        suite.key_of(row)
        for row in suite
        if row["status"] in (OPTIMAL, ABSTAINS) or float(row["limit"]) >= options.limit
    }
    todo = [(label, name) for label in options.instances for name in options.methods]
    todo = [(label, name) for label, name in todo if key_of(INSTANCES[label], name) not in done]
    wrong = []
    for k, (label, name) in enumerate(todo, 1):
        instance, method = INSTANCES[label], METHODS[name]
        patience = 1.5 * options.limit + GRACE
        row = in_child(measure_method, instance, patience, name, options.limit)
        if isinstance(row, Exception):
            wrong.append(f"{label}, {name}: {row}")
            tell(f"{k}/{len(todo)} {wrong[-1]}")
            continue
        if not isinstance(row, dict):
            row = {"status": f"exit code {row}", "seconds": options.limit}
            row |= {"limit": options.limit}
        row |= dict(zip(KEY, key_of(instance, name), strict=True))
        row |= {"versions": versions((*method.packages, *PACKAGES)), "machine": machine()}
        row["date"] = datetime.date.today().isoformat()
        suite.append([row])
        found = f"{row.get('fun', np.nan):.7g}, bound {row.get('bound', np.nan):.7g}"
        text = f"{label}, {name}: {row['status']} after {row.get('seconds', 0):.4g} s, {found}"
        tell(f"{k}/{len(todo)} {text}")
    return wrong


def run_jobs(jobs: Rows, suite: Rows, options: argparse.Namespace) -> list[str]:
    """Run the pairs for instances whose proof took treeopt more than a second."""
    done, wrong = jobs.keys(), []
    for row in suite:
        here = jobs.key_of(row)
        slow = row["status"] == OPTIMAL and row["method"] == "treeopt" and float(row["seconds"]) > 1
        if not slow or here in done or (label := " ".join(here)) not in options.instances:
            continue
        done.add(here)
        limit = 2 * options.limit
        rows = in_child(measure_pairs, INSTANCES[label], 2 * PAIRS * limit + GRACE, limit)
        if not isinstance(rows, list):
            wrong.append(f"{label}, two threads: {rows}")
            continue
        jobs.append([dict(zip(JOBS_KEY, here, strict=True)) | r for r in rows])
        tell(f"{label}: two threads against one, {PAIRS} pairs")
    return wrong


def run_startup(startup: Rows) -> list[str]:
    """Time the first calls of fresh processes; the first process has no compiled kernels."""
    if startup.keys():
        return []
    model = fitted(INSTANCES[SMALL])
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for run in range(1 + WARM_STARTS):
            command = [sys.executable, "-c", STARTUP, str(model)]
            env = {**os.environ, "NUMBA_CACHE_DIR": cache}
            found = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
            if found.returncode:
                return [f"the first call in a fresh process ended with {found.returncode}"]
            times = np.diff(json.loads(found.stdout)).tolist()
            head = {"cache": "warm" if run else "cold", "run": run}
            rows.append(head | dict(zip(STARTUP_COLUMNS[2:], times, strict=True)))
            tell(f"first calls of a fresh process, {head['cache']} cache")
    startup.append(rows)
    return []


# Command line ------------------------------------------------------------------------------------


def matching(patterns: Sequence[str]) -> Iterator[str]:
    """Return the instances that match any pattern; every pattern must match an instance."""
    for pattern in patterns:
        if not any(fnmatchcase(label, pattern) for label in INSTANCES):
            raise SystemExit(f"no instance matches {pattern!r}. There are: {', '.join(INSTANCES)}")
    return (label for label in INSTANCES if any(fnmatchcase(label, p) for p in patterns))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"few instances, {QUICK_LIMIT:g} s")
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD")
    parser.add_argument("--peers", action="store_true", help="all methods but treeopt")
    parser.add_argument("--instances", nargs="+", metavar="PATTERN", help="as 'boston RF* min'")
    parser.add_argument("--parts", nargs="+", choices=PARTS)
    parser.add_argument(
        "--limit", type=float, help=f"time limit of a search in seconds, by default {LIMIT:g}"
    )
    parser.add_argument(
        "--redo", action="store_true", help="first discard the rows of these methods"
    )
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--list", action="store_true", help="print the instances and stop")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    options.instances = list(matching(options.instances or (QUICK if options.quick else ["*"])))
    options.limit = options.limit or (QUICK_LIMIT if options.quick else LIMIT)
    own = () if options.peers else ("treeopt",)
    peers = [name for name in METHODS if name != "treeopt"]
    options.methods = options.methods or [*own, *peers]
    options.parts = options.parts or (PARTS[:1] if options.quick or options.peers else PARTS)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.list:
        print(*INSTANCES, sep="\n")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    stem = "exact_quick" if options.quick else "exact"
    suite = Rows(options.out / f"{stem}.csv", KEY, COLUMNS)
    jobs = Rows(options.out / f"{stem}_jobs.csv", JOBS_KEY, JOBS_COLUMNS)
    startup = Rows(options.out / f"{stem}_startup.csv", STARTUP_KEY, STARTUP_COLUMNS)
    wrong: list[str] = []
    if options.redo and not options.report:
        labels = set(options.instances)
        if "suite" in options.parts:
            chosen = {key_of(INSTANCES[label], m) for label in labels for m in options.methods}
            suite.forget(lambda row: suite.key_of(row) in chosen)
        if "jobs" in options.parts:
            jobs.forget(lambda row: f"{row['instance']} {row['sense']}" in labels)
        if "startup" in options.parts:
            startup.path.unlink(missing_ok=True)
    if not options.report:
        if "suite" in options.parts:
            wrong += run_suite(suite, options)
        if "jobs" in options.parts:
            wrong += run_jobs(jobs, suite, options)
        if "startup" in options.parts:
            wrong += run_startup(startup)
    if suite.path.exists():
        from exact_report import disagreements, read, report  # not in the children: slow to load

        print(report(suite.path, jobs.path, startup.path))
        wrong += disagreements(read(suite.path))
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
