"""The methods of the benchmark of decisions: one small class each, in the table `METHODS`.

A method converts a question once and then searches. The two are timed separately. For the peers,
the conversion builds the whole program, constraints included. For treeopt, it is only `from_model`.
To add a method, write a class with ``cannot``, ``warm``, ``convert`` and ``search``.

Where a library fails on a model that it could express, it gets help, so that it can be compared:

- PySCIPOpt-ML 1.4 cannot read the ``base_score`` of XGBoost 3, and takes that of a classifier for a
  margin. It gets the margin, and a classifier as a regressor of the margin.
- OMLT reads trees from an ONNX graph. It gets a graph with the ensemble's own cuts, because
  converters write XGBoost's splits in a form that OMLT ignores. The cuts are float32, as ONNX
  stores them. It divides by nothing, so the leaves of a forest are divided by the number of trees.
- treecf minimizes only changes. The cheapest point is the smallest change from the cheapest corner
  of the box.

All settings are defaults, except that no gap is allowed.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from decisions_instances import Question
from problems import Array

import treeopt

sys.path.append(str(Path(__file__).resolve().parent.parent))  # for the oracle of the tests

OPTIMAL, TIME, INFEASIBLE, CANNOT = "optimal", "time limit", "infeasible", "cannot express"

NO_SUM = "the objective is not a sum"


@dataclass(frozen=True)
class Answer:
    """The result of a search.

    ``claimed`` is what the method says of its point ``x``, in units of the objective. ``bound`` is
    its bound on all points.
    """

    status: str
    claimed: float = np.nan
    bound: float = np.nan
    x: Array | None = None
    nodes: int = 0


def ensemble_of(model: Any) -> treeopt.Ensemble:
    """Return the trees of a model; their sum is its prediction before the link."""
    return treeopt.from_model(model, output="raw")


def sums_of(model: Any) -> list[treeopt.Ensemble]:
    """Return all sums of trees of a model: one, or one per class if there are several."""
    if getattr(model, "n_classes_", 2) <= 2:
        return [ensemble_of(model)]
    classes = range(model.n_classes_)
    return [treeopt.from_model(model, output="raw", class_index=k) for k in classes]


def margin_limit(question: Question) -> float:
    """Return the lower limit on the prediction before the link."""
    if question.atleast is None:
        return -np.inf
    model, low = question.atleast
    return float(np.log(low / (1 - low))) if hasattr(model, "predict_proba") else low


# treeopt -----------------------------------------------------------------------------------------


class Treeopt:
    """treeopt as a user calls it, on converted models."""

    packages = ("numba",)

    def cannot(self, question: Question) -> str:
        return ""

    def warm(self, question: Question, limit: float) -> None:
        """Load or compile the kernels with ensembles that are not used again."""
        self.search(question, self.convert(question), limit)

    def convert(self, question: Question) -> list[Any]:
        """Return a list of pairs of a model and what stands for it in the call."""
        output = {}
        if question.class_index is not None:
            output = {"output": "proba", "class_index": question.class_index}
        return [(model, treeopt.from_model(model, **output)) for model in question.all_models]

    def search(self, question: Question, converted: list[Any], limit: float) -> Answer:
        call = treeopt.minimize if question.sense == "min" else treeopt.maximize
        result = call(
            self.objective(question, converted),
            question.X,
            time_limit=limit,
            **self.options(question, converted),
        )
        found = {
            treeopt.Status.OPTIMAL: OPTIMAL,
            treeopt.Status.TIME_LIMIT: TIME,
            treeopt.Status.INFEASIBLE: INFEASIBLE,
        }
        status = found.get(result.status, str(result.status))
        x = None if result.x is None else np.array(result.x, np.float64)
        return Answer(status, float(result.fun), float(result.bound), x, int(result.nodes))

    @staticmethod
    def objective(question: Question, converted: list[Any]) -> Any:
        """Return the first argument of the call."""
        if question.product is not None:
            feature, unit_cost = question.product
            return treeopt.Product(feature, converted[0][1], minus=unit_cost)
        if question.row is not None:
            return treeopt.Change(question.row)
        if not question.models:
            return treeopt.Price(priced(question.prices))
        if len(question.models) == 1:
            return converted[0][1]
        pairs = zip(question.models, converted, strict=False)
        return treeopt.WeightedSum([(weight, stand_in) for (weight, _), (_, stand_in) in pairs])

    @staticmethod
    def options(question: Question, converted: list[Any]) -> dict[str, Any]:
        """Return the other arguments that the question needs."""
        from scipy.optimize import LinearConstraint

        found: dict[str, Any] = {}
        constraints: list[Any] = []
        if question.rows is not None:
            r = question.rows
            constraints.append(LinearConstraint(r.matrix, r.low, r.high))
        if question.atleast is not None:
            model, low = question.atleast
            stand_in = next(c for m, c in converted if m is model)
            constraints.append(treeopt.Predicted(stand_in, low=low))
        if constraints:
            found["constraints"] = constraints
        if question.models and question.prices is not None:
            found["cost"] = priced(question.prices)
        return found


def priced(prices: Array | None) -> dict[int, float]:
    """Return the prices that are not zero, by feature."""
    return {} if prices is None else {j: float(p) for j, p in enumerate(prices) if p}


# Mišić and HiGHS ---------------------------------------------------------------------------------


class Misic:
    """Mišić's mixed-integer program with scipy's HiGHS: the oracle of the tests.

    Changes, and prices of features without rows, are costs of its split variables, which makes the
    program stronger than with a variable for each input.
    """

    packages = ("scipy",)

    def cannot(self, question: Question) -> str:
        return "" if question.is_sum else NO_SUM

    def warm(self, question: Question, limit: float) -> None:
        from tests.support import mip  # noqa: F401

    def convert(self, question: Question) -> Any:
        from tests.support import mip

        q, sign = question, question.sign
        models = [mip.Trees(ensemble_of(model), weight) for weight, model in q.models]
        changes = [] if q.row is None else [mip.Change(q.row, sign / q.ranges)]
        rows, limits = [], []
        if q.rows is not None:
            sides = zip(q.rows.matrix, q.rows.low, q.rows.high, strict=True)
            rows = [mip.Row(row, float(low), float(high)) for row, low, high in sides]
        if q.atleast is not None:
            limits = [mip.Limit(mip.Trees(ensemble_of(q.atleast[0])), margin_limit(q))]
        prices = None if q.prices is None else sign * q.prices
        program = mip.Program(
            mip.Question(q.bounds, models, q.sense, prices, changes, rows, limits)
        )
        _ = program.problem
        return program

    def search(self, question: Question, converted: Any, limit: float) -> Answer:
        found = converted.solve(limit)
        return Answer(found.status, found.fun, found.bound, found.x, found.nodes)


# PySCIPOpt-ML ------------------------------------------------------------------------------------


class _Readable:
    """An XGBoost model in the form that PySCIPOpt-ML reads, as a regressor of the margin."""

    def __init__(self, model: Any, base: float) -> None:
        self._Booster = model.get_booster()
        self.n_estimators, self.n_features_in_ = model.n_estimators, model.n_features_in_
        self._base = base

    def get_booster(self) -> _Readable:
        return self

    def save_raw(self, raw_format: str) -> str:
        learned = json.loads(self._Booster.save_raw(raw_format=raw_format))
        learned["learner"]["learner_model_param"]["base_score"] = repr(self._base)
        return json.dumps(learned)

    def predict(self, X: Array) -> Array:
        """Return as many columns as there are outputs; PySCIPOpt-ML does not look at the values."""
        return np.zeros((len(X), 1))


class Scip:
    """PySCIPOpt-ML: a binary variable per leaf, and indicator constraints for its box."""

    packages = ("PySCIPOpt", "PySCIPOpt-ML")

    def cannot(self, question: Question) -> str:
        return "" if question.is_sum else NO_SUM

    def warm(self, question: Question, limit: float) -> None:
        import pyscipopt_ml.sklearn  # noqa: F401  # before its other parts: they import each other

    def convert(self, question: Question) -> Any:
        from pyscipopt import Model, quicksum

        q, sign = question, question.sign
        program = Model()
        program.hideOutput()
        x = [program.addVar(f"x{j}", lb=low, ub=high) for j, (low, high) in enumerate(q.bounds)]
        outputs = {id(model): self._output(program, model, x) for model in q.all_models}
        terms = [weight * outputs[id(model)] for weight, model in q.models]
        if q.prices is not None:
            terms += [sign * p * x[j] for j, p in priced(q.prices).items()]
        if q.row is not None:
            for j, (at, width) in enumerate(zip(q.row, q.ranges, strict=True)):
                d = program.addVar(f"d{j}", lb=0)
                program.addCons(d >= (x[j] - at) / width)
                program.addCons(d >= (at - x[j]) / width)
                terms.append(sign * d)
        if q.rows is not None:
            for row, least, most in zip(q.rows.matrix, q.rows.low, q.rows.high, strict=True):
                activity = quicksum(a * x[j] for j, a in priced(row).items())
                program.addCons(activity >= least)
                program.addCons(activity <= most)
        if q.atleast is not None:
            program.addCons(outputs[id(q.atleast[0])] >= margin_limit(q))
        program.setObjective(quicksum(terms), "minimize" if q.sense == "min" else "maximize")
        return program, x

    @staticmethod
    def _output(program: Any, model: Any, x: list[Any]) -> Any:
        """Add a model, and return the variable of its margin."""
        from pyscipopt_ml.lightgbm import add_lgbregressor_constr
        from pyscipopt_ml.sklearn import add_random_forest_regressor_constr
        from pyscipopt_ml.xgboost import add_xgbregressor_constr

        output = program.addMatrixVar((1, 1), lb=None, ub=None)
        kind = type(model).__module__.split(".")[0]
        add = {
            "sklearn": add_random_forest_regressor_constr,
            "lightgbm": add_lgbregressor_constr,
            "xgboost": add_xgbregressor_constr,
        }[kind]
        readable = _Readable(model, ensemble_of(model).base) if kind == "xgboost" else model
        prefix = f"{kind}_"
        add(program, readable, np.array([x], dtype=object), output, unique_naming_prefix=prefix)
        return output[0, 0]

    def search(self, question: Question, converted: Any, limit: float) -> Answer:
        program, variables = converted
        program.setParam("limits/time", limit)
        program.optimize()
        texts = {"optimal": OPTIMAL, "timelimit": TIME, "infeasible": INFEASIBLE}
        status = texts.get(program.getStatus(), program.getStatus())
        bound, nodes = program.getDualbound(), int(program.getNTotalNodes())
        bound = np.copysign(np.inf, bound) if program.isInfinity(abs(bound)) else bound
        if not program.getNSols():
            return Answer(status, bound=bound, nodes=nodes)
        x = np.array([program.getVal(v) for v in variables])
        return Answer(status, program.getObjVal(), bound, x, nodes)


# OMLT --------------------------------------------------------------------------------------------


def onnx_graph(e: treeopt.Ensemble) -> Any:
    """Return an ONNX model of an ensemble; OMLT adds its leaves without a divisor."""
    from onnx import TensorProto, helper

    leaf, size = e.left < 0, np.diff(e.tree_start)
    tree, first = (np.repeat(a, size) for a in (np.arange(e.n_trees), e.tree_start[:-1]))
    node, at = np.arange(e.n_nodes) - first, np.flatnonzero(leaf)
    attributes = {
        "n_targets": 1,
        "base_values": [e.base / e.divisor],
        "nodes_featureids": np.where(leaf, 0, e.feature).tolist(),
        "nodes_values": np.where(leaf, 0, e.threshold).astype(np.float32).tolist(),
        "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": node.tolist(),
        "nodes_truenodeids": np.where(leaf, 0, e.left - first).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, e.right - first).tolist(),
        "target_nodeids": node[at].tolist(),
        "target_treeids": tree[at].tolist(),
        "target_ids": [0] * at.size,
        "target_weights": (e.value[at].astype(np.float64) / e.divisor).tolist(),
    }
    made = helper.make_node("TreeEnsembleRegressor", ["X"], ["Y"], **attributes)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, n])
        for name, n in (("X", e.n_features), ("Y", 1))
    ]
    return helper.make_model(helper.make_graph([made], "trees", ends[:1], ends[1:]))


class Omlt:
    """OMLT's big-M formulation of Mistry et al. in Pyomo, solved by HiGHS."""

    packages = ("omlt", "pyomo", "highspy")

    def cannot(self, question: Question) -> str:
        return "" if question.is_sum else NO_SUM

    def warm(self, question: Question, limit: float) -> None:
        import highspy  # noqa: F401
        import omlt.gbt  # noqa: F401
        import onnx  # noqa: F401

    def convert(self, question: Question) -> Any:
        import pyomo.environ as pe
        from pyomo.contrib.appsi.solvers.highs import Highs

        logging.getLogger("pyomo.core").setLevel(logging.ERROR)
        q, sign, n = question, question.sign, question.X.shape[1]
        program = pe.ConcreteModel()
        ends = dict(enumerate(map(tuple, q.bounds.tolist())))
        program.x = pe.Var(range(n), bounds=lambda _, j: ends[j])
        program.more = pe.ConstraintList()
        outputs = {}
        for k, model in enumerate(q.all_models):
            block = self._block(ensemble_of(model), ends)
            program.add_component(f"trees{k}", block[0])
            block[0].build_formulation(block[1])
            outputs[id(model)] = block[0].outputs[0]
            for j in range(n):
                program.more.add(block[0].inputs[j] == program.x[j])
        x = program.x
        total = sum(weight * outputs[id(model)] for weight, model in q.models)
        total += sum(sign * p * x[j] for j, p in priced(q.prices).items())
        if q.row is not None:
            program.d = pe.Var(range(n), bounds=(0, None))
            for j, (at, width) in enumerate(zip(q.row.tolist(), q.ranges.tolist(), strict=True)):
                program.more.add(program.d[j] >= (x[j] - at) / width)
                program.more.add(program.d[j] >= (at - x[j]) / width)
            total += sign * sum(program.d[j] for j in range(n))
        if q.rows is not None:
            for row, low, high in zip(q.rows.matrix, q.rows.low, q.rows.high, strict=True):
                activity = sum(a * x[j] for j, a in priced(row).items())
                program.more.add((float(low), activity, float(high)))
        if q.atleast is not None:
            program.more.add(outputs[id(q.atleast[0])] >= margin_limit(q))
        sense = pe.minimize if q.sense == "min" else pe.maximize
        program.objective = pe.Objective(expr=total, sense=sense)
        solver = Highs()
        solver.config.load_solution = False
        solver.highs_options = {"threads": 1, "mip_rel_gap": 0.0}
        solver.set_instance(program)
        return program, solver

    @staticmethod
    def _block(ensemble: treeopt.Ensemble, ends: dict[int, Any]) -> tuple[Any, Any]:
        from omlt import OmltBlock
        from omlt.gbt import GBTBigMFormulation, GradientBoostedTreeModel

        trees = GradientBoostedTreeModel(onnx_graph(ensemble), scaled_input_bounds=ends)
        return OmltBlock(), GBTBigMFormulation(trees)

    def search(self, question: Question, converted: Any, limit: float) -> Answer:
        from pyomo.contrib.appsi.base import TerminationCondition

        program, solver = converted
        solver.config.time_limit = limit
        found = solver.solve(program)
        texts = {
            TerminationCondition.optimal: OPTIMAL,
            TerminationCondition.maxTimeLimit: TIME,
            TerminationCondition.infeasible: INFEASIBLE,
        }
        status = texts.get(found.termination_condition, str(found.termination_condition))
        bound = found.best_objective_bound
        bound = -question.sign * np.inf if bound is None else bound
        if found.best_feasible_objective is None:
            return Answer(status, bound=bound)
        found.solution_loader.load_vars()
        x = np.array([program.x[j].value for j in range(question.X.shape[1])])
        return Answer(status, found.best_feasible_objective, bound, x)


# treecf ------------------------------------------------------------------------------------------


class Treecf:
    """treecf's exact search for the smallest change, with bounds as ranges."""

    packages = ("treecf",)
    nodes = 10**15  # more than it can visit, so that only the time limits it

    def cannot(self, question: Question) -> str:
        if question.models or not question.is_sum:
            return "it minimizes only changes"
        if question.rows is not None:
            return "its exact search has only rows of two features"
        return ""

    def warm(self, question: Question, limit: float) -> None:
        import treecf  # noqa: F401

    def convert(self, question: Question) -> Any:
        from treecf import Explainer, Range, Target
        from treecf.ir.parsers import parse_model

        model, low = question.atleast
        trees = parse_model(model)
        weights = 1 / question.ranges if question.prices is None else np.abs(question.prices)
        ends = zip(trees.feature_names, question.bounds.tolist(), strict=True)
        explainer = Explainer(
            trees,
            normalizers=1 / weights,
            constraints=[Range(name, *low_high) for name, low_high in ends],
        )
        proba = hasattr(model, "predict_proba")
        target = Target.probability((low, 1.0)) if proba else Target.raw((low, np.inf))
        return explainer, target

    def search(self, question: Question, converted: Any, limit: float) -> Answer:
        explainer, target = converted
        row, constant = question.row, 0.0
        if question.prices is not None:
            row = np.where(question.prices > 0, *question.bounds.T)
            constant = float(question.prices @ row)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = explainer.explain(
                row, target, backend="exact", time_budget_s=limit, node_budget=self.nodes, seed=0
            )
        stats = found.solver_stats
        nodes = int(stats.get("nodes_expanded", 0))
        if not hasattr(found, "x_cf"):
            return Answer(INFEASIBLE if found.proof == "certified" else TIME, nodes=nodes)
        value = constant + found.distance
        if found.proof == "optimal":
            return Answer(OPTIMAL, value, value, found.x_cf, nodes)
        bound = constant + float(stats.get("lower_bound", -np.inf))
        return Answer(TIME, value, bound, found.x_cf, nodes)


METHODS: dict[str, Any] = {
    "treeopt": Treeopt(),
    "Mišić + HiGHS": Misic(),
    "OMLT + HiGHS": Omlt(),
    "PySCIPOpt-ML": Scip(),
    "treecf": Treecf(),
}
"""Every method by its name."""
