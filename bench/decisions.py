"""Decisions with constraints, costs and several models, by treeopt and its peers.

Every question of ``decisions_instances.py`` goes to each method of ``decisions_peers.py`` that can
express it, with the same time limit, in a separate process with limited memory and one thread. The
reported time is one run, from the call of the search to its result. The conversion is timed
separately: for treeopt `from_model`, for the peers building their whole program. Before the timing,
treeopt is called once, so that its kernels are compiled, and the peers are imported.

At each returned point, the models' own ``predict`` gives the real value, and the constraints are
checked as a user would. What a method claims must be the real value within its tolerance. If it is
not, the point must lie on splits of the trees, where a rounding error decides: then the table says
so. Anything else is a disagreement and an error, as is a bound that another method's point
contradicts. See ``decisions_report.disagreements``.

Rows are appended to ``bench/results/decisions.csv``. An interrupted run continues where it stopped.
Then the page ``decisions.md`` is written. ``--quick`` runs seven instances with a limit of 10 s.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from command import carry_out, parser, rows_of
from decisions_instances import INSTANCES, QUICK, SEED, Question
from decisions_peers import CANNOT, METHODS, TIME, Answer, ensemble_of, margin_limit, sums_of
from machine import machine, versions
from problems import Array
from rows import Row

KEY = ("instance", "method")
COLUMNS = (
    *KEY,
    *("family", "sense", "status", "seconds", "conversion", "claimed", "bound", "value"),
    *("bounds off", "rows off", "limit off", "tolerance", "remark", "nodes"),
    *("trees", "leaves", "features", "limit", "seed", "versions", "machine", "date"),
)
PACKAGES = ("numpy", "scikit-learn", "xgboost", "lightgbm")

LIMIT, QUICK_LIMIT = 60.0, 10.0
WARM = 2.0  # time limit of the call that compiles, in seconds
SETUP, BUILD, GRACE = 900.0, 120.0, 30.0
"""Seconds to load and compile, to convert, and to stop after the time limit."""
MEMORY = 8 * 2**30  # maximum address space of a method, in bytes
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")

SLACK = 1e-6
"""Tolerance of the peers' solvers, relative to the ranges of leaves and features."""

ON_SPLITS, UNEXPLAINED = "on splits", "unexplained"


# In the child ------------------------------------------------------------------------------------


def child(pipe: Any, name: str, method_name: str, limit: float) -> None:
    """Warm up, convert and search; send `None` after each of the first two, then the row."""
    try:
        limit_memory()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what methods print is not part of the report
        question, method = INSTANCES[name].ask(), METHODS[method_name]
        method.warm(question, WARM)
        pipe.send(None)
        start = time.perf_counter()
        converted = method.convert(question)
        conversion = time.perf_counter() - start
        pipe.send(None)
        start = time.perf_counter()
        answer = method.search(question, converted, limit)
        seconds = time.perf_counter() - start
        pipe.send({"seconds": seconds, "conversion": conversion} | checked(question, answer))
    except ImportError as missing:
        pipe.send(missing)
    except Exception:
        pipe.send(RuntimeError(traceback.format_exc()))


def limit_memory() -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def checked(question: Question, answer: Answer) -> Row:
    """Return what a method claims and what the models say at its point."""
    row = {"status": answer.status, "claimed": answer.claimed, "bound": answer.bound}
    row |= {"nodes": answer.nodes, "tolerance": tolerance(question), "remark": ""}
    if answer.x is None:
        return row
    off = question.violations(answer.x)
    row |= {"value": question.value(answer.x)}
    row |= {f"{what} off": amount for what, amount in off.items()}
    is_real = abs(row["value"] - answer.claimed) <= row["tolerance"]
    if not is_real or max(off.values()) > SLACK:
        row["remark"] = remark(question, answer, row["tolerance"])
    return row


def tolerance(question: Question) -> float:
    """Return the maximum difference between a claimed value and the real one.

    The error of a sum of k terms is at most the unit roundoff times the sum of the magnitudes of
    the k partial sums. Some peers store leaves in float32. The tolerances of solvers are added.
    """
    if not question.is_sum:
        return 1e-12
    low, high = question.bounds.T
    off = SLACK
    for weight, model in question.models:
        least, greatest = reach(ensemble_of(model), low, high)
        largest = np.maximum(np.abs(least), np.abs(greatest))
        e = ensemble_of(model)
        size = float((abs(e.base) + np.cumsum(largest)).sum())
        off += weight * float(np.finfo(np.float32).eps) * size / e.divisor
        off += weight * SLACK * float((greatest - least).sum()) / e.divisor
    if question.prices is not None:
        off += SLACK * float((np.abs(question.prices) * question.ranges).sum())
    return off


def remark(question: Question, answer: Answer, allowed: float) -> str:
    """Explain why a point is not what its method claims.

    In a tiny box around the point, an input may fall on either side of a split. If the claim lies
    within what the trees can give there, the point is on splits.
    """
    x, low, high = answer.x, *question.bounds.T
    width = 2 * SLACK * question.ranges + np.finfo(np.float32).eps * np.abs(x)
    box = np.clip(x - width, low, high), np.clip(x + width, low, high)
    split = np.zeros(x.size, bool)
    least = greatest = question.value(x) - sum(
        weight * float(ensemble_of(model).margin(x[None])[0]) for weight, model in question.models
    )
    for weight, model in question.models:
        e = ensemble_of(model)
        ends = (weight * (e.base + leaves.sum()) / e.divisor for leaves in reach(e, *box))
        least, greatest = (a + b for a, b in zip((least, greatest), ends, strict=True))
    explained = least - allowed <= answer.claimed <= greatest + allowed
    if question.atleast is not None:
        e = ensemble_of(question.atleast[0])
        most = (e.base + reach(e, *box)[1].sum()) / e.divisor
        explained &= bool(most >= margin_limit(question) - allowed)
    off = question.violations(x)
    explained &= max(off["bounds"], off["rows"]) <= 2 * SLACK
    for model in question.all_models:
        e = ensemble_of(model)
        inner = e.left >= 0
        feature, cut = e.feature[inner], e.threshold[inner]
        split[feature[(box[0][feature] <= cut) & (cut < box[1][feature])]] = True
    if not explained or not split.any():
        return UNEXPLAINED
    return f"{split.sum()} inputs {ON_SPLITS}"


def reach(e: Any, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the minimum and maximum leaf of each tree among those that a box reaches."""
    low, high = (end.astype(e.input_dtype).astype(np.float64) for end in (low, high))
    least, greatest = np.full(e.n_trees, np.inf), np.full(e.n_trees, -np.inf)
    tree, node = np.arange(e.n_trees), e.tree_start[:-1]
    while node.size:
        leaf = e.left[node] < 0
        np.minimum.at(least, tree[leaf], e.value[node[leaf]])
        np.maximum.at(greatest, tree[leaf], e.value[node[leaf]])
        tree, node = tree[~leaf], node[~leaf]
        feature, cut = e.feature[node], e.threshold[node]
        left, right = low[feature] <= cut, high[feature] > cut
        tree = np.concatenate([tree[left], tree[right]])
        node = np.concatenate([e.left[node[left]], e.right[node[right]]])
    return least, greatest


# In the parent -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One method on one instance."""

    instance: str
    method: str
    limit: float
    failures: list[str] = field(compare=False)

    @property
    def cost(self) -> float:
        return 1.0

    def __str__(self) -> str:
        return f"{self.instance}, {self.method}"

    def expected(self) -> list[tuple[Any, ...]]:
        return [(self.instance, self.method)]

    def run(self) -> list[Row]:
        """Return the row; note the failure and return nothing if the method raised an error."""
        instance = INSTANCES[self.instance]
        question = instance.ask()
        ensembles = [e for model in question.all_models for e in sums_of(model)]
        row: Row = {"instance": self.instance, "method": self.method, "family": instance.family}
        row |= {"sense": question.sense, "features": question.X.shape[1], "limit": self.limit}
        row |= {"trees": sum(e.n_trees for e in ensembles)}
        row |= {"leaves": sum(e.n_leaves for e in ensembles), "seed": SEED}
        row |= {"versions": versions((*METHODS[self.method].packages, *PACKAGES))}
        row |= {"machine": machine(), "date": datetime.date.today().isoformat()}
        if reason := METHODS[self.method].cannot(question):
            return [row | {"status": CANNOT, "remark": reason}]
        found = in_child(self.instance, self.method, self.limit)
        if isinstance(found, ImportError):
            raise found
        if isinstance(found, Exception):
            self.failures.append(f"{self}: {found}")
            return []
        return [row | found]


def in_child(name: str, method: str, limit: float) -> Row | Exception:
    """Return the row of a method, or the exception that it raised."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    process = context.Process(target=child, args=(theirs, name, method, limit), daemon=True)
    process.start()
    theirs.close()
    steps = {"setup": SETUP, "conversion": BUILD, "search": limit + GRACE}
    try:
        for step, patience in steps.items():
            if not ours.poll(patience):
                process.kill()
                late = f"{step} ended after {patience:g} s"
                return {"status": TIME if step == "search" else late, "remark": late}
            found = ours.recv()
            if found is not None:
                break
    except EOFError:
        process.join()
        return {"status": f"exit code {process.exitcode}"}
    finally:
        process.join(GRACE)
        process.kill()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    quick = f"few instances, {QUICK_LIMIT:g} s each"
    made = parser(__doc__, quick, INSTANCES, METHODS)
    made.add_argument("--limit", type=float, help=f"seconds per search, by default {LIMIT:g}")
    options = made.parse_args(arguments)
    limit = options.limit or (QUICK_LIMIT if options.quick else LIMIT)
    rows = rows_of(options, "decisions", KEY, COLUMNS)
    failures: list[str] = []
    tasks = [
        Run(name, method, limit, failures)
        for name in options.problems or (QUICK if options.quick else INSTANCES)
        for method in options.methods or METHODS
        if method == "treeopt" or not INSTANCES[name].own_only
    ]
    carry_out(options, rows, lambda: tasks)
    if rows.path.exists():
        from decisions_report import (
            disagreements,
            read,
            report,
        )  # not in the children: slow to load

        print(report(rows.path))
        failures += disagreements(read(rows.path))
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
