"""The methods of the benchmark of proofs: one small class each, in the table `METHODS`.

A method converts a model once and then searches. The two are timed separately, the search from its
call to its result. All methods use the same trees: the peers get them from the compiled ensemble,
with the cuts that the model actually compares with (forests and XGBoost in float32). Veritas' own
converters are not used. They keep a forest's cuts in float64; then there are cells without any
float32, and Veritas reports values that the model never predicts. They also round LightGBM's cuts
to float32, and do not support extra trees. To add a method, write a class with ``convert`` and
``search`` and register it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from problems import Array

import treeopt

OPTIMAL, TIME, MEMORY, ABSTAINS = "optimal", "time limit", "memory", "not given"


class NotGivenError(Exception):
    """The method would give wrong results on this model."""


@dataclass(frozen=True)
class Answer:
    """The result of a search: the value of its best point, a bound on all values, and its status.

    The peers' values are sums of leaves. ``point`` returns the point from the method's solution. It
    is called, and sums are converted to predictions, outside of the measured time.
    """

    status: str
    fun: float = np.nan
    bound: float = np.nan
    nodes: int = 0
    point: Callable[[], Array] | None = None


class Case:
    """A fitted model over the range of each feature in its data.

    ``low`` and ``high`` are the bounds of that range after the cast: an input goes right at a node
    if and only if it is above the node's cut, after the cast.
    """

    def __init__(self, model: Any, X: Array) -> None:
        self.model, self.X = model, X
        self.ensemble = e = treeopt.from_model(model)
        if e.categories or e.zero_missing.any():
            raise ValueError(f"{e.source}: splits by category or around zero are not intervals")
        self.bounds = np.column_stack([X.min(axis=0), X.max(axis=0)])
        self.low, self.high = self.bounds.astype(e.input_dtype).astype(np.float64).T
        self.cuts = [np.unique(e.threshold[e.feature == j]) for j in range(e.n_features)]

    def own(self, x: Array) -> float:
        """Return the model's own prediction."""
        if hasattr(self.model, "predict_proba"):
            return float(self.model.predict_proba(x[None])[0, 1])
        return float(self.model.predict(x[None])[0])

    def prediction(self, total: float) -> float:
        """Return the prediction for a sum of leaves."""
        e = self.ensemble
        return float(e.link(np.array([total / e.divisor]))[0])

    def above(self, cut: Any) -> Any:
        """Return the minimum inputs above cuts, in the model's own precision."""
        dtype = self.ensemble.input_dtype
        return np.nextafter(np.asarray(cut, dtype), dtype.type(np.inf)).astype(np.float64)

    def inside(self, x: Array) -> Array:
        """Restore bounds of the range that the cast has changed."""
        return np.clip(x, *self.bounds.T)

    def leaf_range(self) -> tuple[Array, Array]:
        """Return the minimum and maximum leaf of each tree among those that the box reaches."""
        e = self.ensemble
        least, greatest = np.full(e.n_trees, np.inf), np.full(e.n_trees, -np.inf)
        tree, node = np.arange(e.n_trees), e.tree_start[:-1]
        while node.size:
            leaf = e.left[node] < 0
            np.minimum.at(least, tree[leaf], e.value[node[leaf]])
            np.maximum.at(greatest, tree[leaf], e.value[node[leaf]])
            tree, node = tree[~leaf], node[~leaf]
            feature, cut = e.feature[node], e.threshold[node]
            left, right = self.low[feature] <= cut, self.high[feature] > cut
            tree = np.concatenate([tree[left], tree[right]])
            node = np.concatenate([e.left[node[left]], e.right[node[right]]])
        return least, greatest

    def root(self, sense: str) -> float:
        """Return the bound without a search: the sum of the best leaves of all trees."""
        best = self.leaf_range()[0 if sense == "min" else 1]
        return self.prediction(self.ensemble.base + float(best.sum()))

    def tolerance(self, total: float, slack: float) -> float:
        """Return the maximum difference between a method's value and the prediction.

        The error of a sum of k terms is at most the unit roundoff times the sum of the magnitudes
        of the k partial sums (Higham, Accuracy and Stability of Numerical Algorithms, Sect. 4.2).
        ``slack`` is the tolerance of the method, relative to the ranges of the leaves.
        """
        e, (least, greatest) = self.ensemble, self.leaf_range()
        eps = float(np.finfo(e.value.dtype).eps)
        largest = np.maximum(np.abs(least), np.abs(greatest))
        off = eps * float((abs(e.base) + np.cumsum(largest)).sum())
        off += slack * (1 + float((greatest - least).sum()))
        low, middle, high = (self.prediction(total + shift) for shift in (-off, 0.0, off))
        return max(high - middle, middle - low) + eps * abs(middle)


# treeopt -----------------------------------------------------------------------------------------


class Treeopt:
    """treeopt as a user calls it, on an ensemble whose arrays for the kernels are built."""

    packages = ("numba",)
    exact = True  # its values are predictions, equal to the model's own to the last bit
    slack = 0.0

    def __init__(self, **options: Any) -> None:
        self.options = options

    def warm(self, case: Case, sense: str) -> None:
        """Load or compile the kernels with an ensemble that is not used again."""
        self.search(case, treeopt.from_model(case.model), sense, 1.0)

    def convert(self, case: Case) -> treeopt.Ensemble:
        ensemble = treeopt.from_model(case.model)
        _ = ensemble.compiled.leaf_order, ensemble.compiled.depth, ensemble.compiled.position
        _ = ensemble.compiled.cells.n_cells, ensemble.compiled.cells.slot_cuts
        return ensemble

    def search(self, case: Case, converted: treeopt.Ensemble, sense: str, limit: float) -> Answer:
        call = treeopt.minimize if sense == "min" else treeopt.maximize
        result = call(converted, case.X, time_limit=limit, **self.options)
        found = {treeopt.Status.OPTIMAL: OPTIMAL, treeopt.Status.TIME_LIMIT: TIME}
        status = found.get(result.status, str(result.status))
        return Answer(status, result.fun, result.bound, result.nodes, lambda: np.array(result.x))


# Veritas -----------------------------------------------------------------------------------------


class Veritas:
    """Veritas' search for the best output; intervals are half-open, left iff ``x < cut``.

    A bound equal to the value counts as a proof, although Veritas continues through ties.
    """

    packages = ("dtai-veritas",)
    exact = False
    slack = 0.0
    max_cuts = (
        65_535  # per feature; beyond that, a 16-bit index overflows and the results are wrong
    )
    steps = 20  # between two checks of the clock and the bounds

    def __init__(self, **options: Any) -> None:
        self.options = options

    def warm(self, case: Case, sense: str) -> None:
        import veritas  # noqa: F401

    def convert(self, case: Case) -> Any:
        from veritas import AddTree, AddTreeType

        if max(map(len, case.cuts)) >= self.max_cuts:
            raise NotGivenError(f"a feature has more than {self.max_cuts:,} cuts")
        e = case.ensemble
        trees = AddTree(1, AddTreeType.REGR)
        trees.set_base_score(0, e.base)
        lists = (e.feature, case.above(e.threshold), e.left, e.right, e.value.astype(np.float64))
        feature, split, left, right, value = (a.tolist() for a in lists)
        for root in e.tree_start[:-1].tolist():
            tree = trees.add_tree()
            stack = [(root, tree.root())]
            while stack:
                node, place = stack.pop()
                if left[node] < 0:
                    tree.set_leaf_value(place, 0, value[node])
                else:
                    tree.split(place, feature[node], split[node])
                    stack.append((right[node], tree.right(place)))
                    stack.append((left[node], tree.left(place)))
        return trees

    def search(self, case: Case, converted: Any, sense: str, limit: float) -> Answer:
        from veritas import Config, HeuristicType, Interval, StopReason

        begin = time.perf_counter()
        minimizing = sense == "min"
        config = Config(HeuristicType.MIN_OUTPUT if minimizing else HeuristicType.MAX_OUTPUT)
        for name, value in self.options.items():
            setattr(config, name, value)
        ends = zip(case.low.tolist(), case.above(case.high).tolist(), strict=True)
        search = config.get_search(converted, [Interval(low, high) for low, high in ends])
        bound, status = -np.inf if minimizing else np.inf, TIME
        while status == TIME and time.perf_counter() - begin < limit:
            try:
                reason = search.steps(self.steps)
            except MemoryError:
                reason = StopReason.OUT_OF_MEMORY
            if reason == StopReason.OUT_OF_MEMORY:  # a state is lost: keep the last bound
                status = MEMORY
                break
            bounds = search.current_bounds()
            bound, value = bounds.best, bounds.atleast
            met = search.num_solutions() and (bound >= value if minimizing else bound <= value)
            if met or reason in (StopReason.OPTIMAL, StopReason.NO_MORE_OPEN):
                status = OPTIMAL
        nodes = search.stats.num_steps
        if not search.num_solutions():  # then current_bounds().atleast is not a value
            return Answer(status, bound=bound, nodes=nodes)
        solution = search.get_solution(0)
        box = solution.box()

        def point() -> Array:
            """Return the lower bounds of the intervals: above a cut, or the bound of the range."""
            x = case.low.copy()
            for j, interval in box.items():
                x[j] = max(interval.lo, x[j])
            return case.inside(x)

        return Answer(status, solution.output, bound, nodes, point)


# HiGHS -------------------------------------------------------------------------------------------


class Highs:
    """Mišić's mixed-integer program (Operations Research 68, 2020), solved by scipy's HiGHS.

    The binary variable ``x[j, c]`` is 1 if feature j is at most its cut c. The continuous variable
    ``y[l]`` is 1 if leaf l is reached. Each tree has one leaf. At a node, the leaves on the left
    need ``x = 1``, and those on the right ``x = 0``. The cuts of a feature are ordered.
    """

    packages = ("scipy",)
    exact = False
    slack = 1e-6  # its feasibility and gap tolerances

    def warm(self, case: Case, sense: str) -> None:
        import scipy.optimize  # noqa: F401

    def convert(self, case: Case) -> dict[str, Any]:
        from scipy.optimize import Bounds, LinearConstraint
        from scipy.sparse import block_array

        e = case.ensemble
        first, count = _leaf_intervals(e)
        leaves, split = np.flatnonzero(e.left < 0), np.flatnonzero(e.left >= 0)
        roots, left, right = e.tree_start[:-1], e.left[split], e.right[split]
        start = np.cumsum([0, *map(len, case.cuts)])  # of each feature's variables
        n_y, n_x = leaves.size, int(start[-1])
        variable = np.empty(split.size, np.int64)
        least, most = np.zeros(n_y + n_x), np.ones(n_y + n_x)
        for j, cuts in enumerate(case.cuts):
            at = e.feature[split] == j
            variable[at] = start[j] + np.searchsorted(cuts, e.threshold[split[at]])
            here = slice(n_y + start[j], n_y + start[j + 1])
            most[here][cuts < case.low[j]] = 0.0
            least[here][cuts >= case.high[j]] = 1.0
        before = np.setdiff1d(np.arange(n_x), start[1:] - 1)  # all but the last cut of a feature

        tree, on_left, on_right = (_ones(first[k], count[k], n_y) for k in (roots, left, right))
        x = _ones(variable, np.ones_like(variable), n_x)
        one = np.ones_like(before)
        order = _ones(before, one, n_x) - _ones(before + 1, one, n_x)
        blocks = [[tree, None], [on_left, -x], [on_right, x], [None, order]]
        sizes = [roots.size, split.size, split.size, before.size]
        upper = np.repeat([1.0, 0.0, 1.0, 0.0], sizes)
        lower = np.where(np.arange(upper.size) < roots.size, 1.0, -np.inf)
        cost = np.zeros(n_y + n_x)
        cost[first[leaves]] = e.value[leaves]
        return {
            "c": cost,
            "integrality": np.repeat([0, 1], [n_y, n_x]),
            "bounds": Bounds(least, most),
            "constraints": LinearConstraint(block_array(blocks, format="csr"), lower, upper),
        }

    def search(self, case: Case, converted: Any, sense: str, limit: float) -> Answer:
        from scipy.optimize import milp

        sign = 1.0 if sense == "min" else -1.0
        problem = converted | {"c": sign * converted["c"]}
        try:
            result = milp(**problem, options={"time_limit": limit, "mip_rel_gap": 0.0})
        except MemoryError:
            return Answer(MEMORY, bound=-sign * np.inf)
        status = {0: OPTIMAL, 1: TIME}.get(result.status, f"{result.status}: {result.message}")
        base, nodes = case.ensemble.base, int(result.mip_node_count or 0)
        bound = -np.inf if result.mip_dual_bound is None else result.mip_dual_bound
        bound = base + sign * bound
        if result.x is None:
            return Answer(status, bound=bound, nodes=nodes)

        def point() -> Array:
            """Return the minimum input above the last cut that is exceeded."""
            x, begin = case.low.copy(), np.count_nonzero(converted["integrality"] == 0)
            for j, cuts in enumerate(case.cuts):
                exceeded = np.count_nonzero(result.x[begin : begin + len(cuts)] < 0.5)
                if exceeded:
                    x[j] = max(x[j], float(case.above(cuts[exceeded - 1])))
                begin += len(cuts)
            return case.inside(x)

        return Answer(status, base + sign * result.fun, bound, nodes, point)


def _leaf_intervals(e: treeopt.Ensemble) -> tuple[Array, Array]:
    """Return the first leaf and the number of leaves below each node, leaves from left to right."""
    left, right = e.left.tolist(), e.right.tolist()
    count = [1] * e.n_nodes
    for node in range(e.n_nodes - 1, -1, -1):  # children come after their parent
        if left[node] >= 0:
            count[node] = count[left[node]] + count[right[node]]
    first, done = [0] * e.n_nodes, 0
    for root in e.tree_start[:-1].tolist():
        first[root] = done
        done += count[root]
    for node in range(e.n_nodes):
        if left[node] >= 0:
            first[left[node]] = first[node]
            first[right[node]] = first[node] + count[left[node]]
    return np.array(first), np.array(count)


def _ones(first: Array, count: Array, width: int) -> Any:
    """Return a matrix with one run of ones per row, given its first columns and lengths."""
    from scipy.sparse import csr_array

    end = np.concatenate([[0], np.cumsum(count)])
    column = np.arange(end[-1]) + np.repeat(first - end[:-1], count)
    return csr_array((np.ones(end[-1]), column, end), shape=(first.size, width))


METHODS: dict[str, Any] = {
    "treeopt": Treeopt(),
    "Veritas": Veritas(),
    "Veritas, focal_eps=1": Veritas(focal_eps=1.0),
    "HiGHS": Highs(),
}
"""Every method by its name."""
