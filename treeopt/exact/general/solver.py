"""Combine the parts of the general solver: the tree search, answers to its questions, the bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treeopt.errors import InputError
from treeopt.exact.exact_settings import ExactSettings
from treeopt.exact.general.bounds import UNIT, lowest_cost, part_value
from treeopt.exact.general.free_features import Contradiction
from treeopt.exact.general.local import GeneralLocalSearch
from treeopt.exact.general.nodes import breaks_limit, objective_bound
from treeopt.exact.general.region_solver import RegionSolver
from treeopt.exact.general.search_state import BOX, MAX_RAYS, POINT, ROWS, new_general
from treeopt.exact.general.statement import HUGE, OPEN
from treeopt.exact.general.stating import Stated
from treeopt.exact.general.tree import ASKED, DONE, FULL, advance
from treeopt.exact.tree_search import ENDLESS, larger_heap
from treeopt.problem.bounds import feature_label
from treeopt.problem.problem import Problem
from treeopt.problem.terms import ProductTerm
from treeopt.run.run import Run
from treeopt.run.watch import Watch
from treeopt.types import FloatArray, Int32Array

WIDTH_SHARE = 1e-2
"""Share of the range of a feature that counts in the tolerance of a linear program."""

LP_TOLERANCE = 1e-9
"""Relative distance of a cost and its bound at which a linear program counts as solved."""


class GeneralSolver:
    """The state of search and proof of one problem.

    Attributes
    ----------
    best : float64 array or None
        The best point, as a point of the problem; None if there is none yet.
    value : float
        Its value times the sense; smaller is better.
    lowest : float
        Lower bound on the values of all points, times the sense.
    proven : bool
        Whether no better point exists, up to rounding.
    slip : float
        Maximum rounding error of nodes that were closed although they may have better points.
    """

    def __init__(self, problem: Problem, run: Run, settings: ExactSettings) -> None:
        self.problem, self.run, self.limits, self.settings = problem, run, run.limits, settings
        self.stated = Stated(problem, run.limits, settings)
        self.regions = RegionSolver(self.stated, settings.region_programs)
        self.search = new_general(self.stated.statement, settings)
        self.best: FloatArray | None = None
        self.value, self.lowest = np.inf, -np.inf
        self.proven = False
        self.n_offers = self.n_rays = 0
        self.slip, self.wait = 0.0, 0
        parts = self.stated.statement.parts
        self.is_constrained = not (self.regions.is_simple and parts["in_objective"].all())
        self.local: GeneralLocalSearch | None = None
        self._known: tuple[FloatArray, float] | None = None
        self._explored: set[bytes] = set()  # regions of ends of descents that were solved
        if self.regions.is_contradictory(self.search.heap.pool[self.search.heap.node[0]]):
            raise Contradiction
        self._refuse_unbounded()

    def _refuse_unbounded(self) -> None:
        """Raise an error if the objective has no finite optimum, because bounds are infinite."""
        statement, stated = self.stated.statement, self.stated
        p = stated.columns.size
        open_ends = [k for k in range(p) if self._has_open_end(k)]
        if not open_ends:
            return
        if self.regions.pieces.must:
            box = np.append(np.zeros(p), np.diff(stated.places.start) - 1).astype(np.int32)
            factors = [k for k in open_ends if (statement.parts["feature"] == k).any()]
            if self.regions.is_bounded(box, factors):
                return
        name = feature_label(int(stated.columns[open_ends[0]]), self.problem.inputs)
        raise InputError(
            f"the objective is unbounded: the bounds of {name} are infinite, and its cost has no "
            "minimum between them. Pass finite bounds, or a constraint that bounds it."
        )

    def _has_open_end(self, k: int) -> bool:
        """Return whether a feature has an infinite bound in whose direction its cost falls."""
        statement, stated = self.stated.statement, self.stated
        own, place = statement.features.feature[k], statement.features.place
        places = place[slice(*stated.places.start[k : k + 2])]
        low, high = float(places["low"].min()), float(places["high"].max())
        if (statement.parts["feature"] == k).any():
            return max(-low, high) >= HUGE
        # Logic may exclude the far end, which models in single precision bound.
        infinite = OPEN if self.regions.is_without_logic else HUGE
        kinks = statement.features.kink[own["kink_start"] : own["kink_end"]]
        steepness, noise = float(kinks["weight"].sum()), UNIT * float(own["size"])
        falls = own["slope"] + steepness < -noise, own["slope"] - steepness > noise
        return bool((high >= infinite and falls[0]) or (low <= -infinite and falls[1]))

    @property
    def nodes(self) -> int:
        """Number of nodes so far."""
        return int(self.search.state["nodes"][0])

    @property
    def evaluations(self) -> int:
        """Number of points so far at which the objective was examined."""
        return self.n_offers + (0 if self.local is None else self.local.passes)

    @property
    def _max_passes(self) -> int:
        """Maximum number of passes of the local search, so that `evaluations` keeps its limit."""
        return max(self.run.max_evals - self.n_offers, 0)

    # Points

    def offer(self, x: FloatArray) -> float:
        """Return the signed value of a point; keep it if it is feasible and the best so far.

        The value is infinite if the point is not feasible.
        """
        self.n_offers += 1
        if not self.problem.holds(x):
            return np.inf
        value = self.problem.objective.sense * self.problem.objective.value_at(x)
        if np.isnan(value):  # 0 times an infinite prediction
            return np.inf
        if value < self.value or self.best is None:
            if self.search.state["tie_bound"][0] < np.inf:
                self.slip = max(self.slip, self.tolerance)
            self.value, self.best = value, x.copy()
            self.search.state["best"] = value
        return value

    def admissible(self, X: FloatArray) -> FloatArray:
        """Return points moved to the nearest admissible numbers, feature by feature."""
        stated, place = self.stated, self.stated.statement.features.place
        points, rows = np.tile(stated.base, (len(X), 1)), np.arange(len(X))
        for k, column in enumerate(stated.columns.tolist()):
            own = place[slice(*stated.places.start[k : k + 2])]
            x = X[:, column]
            near = np.clip(x[:, None], own["low"], own["high"])
            values = near[rows, np.argmin(np.abs(near - x[:, None]), axis=1)]
            if stated.integer[k]:
                values = np.round(values)
            values[np.isnan(values)] = np.clip(0.0, own["low"][0], own["high"][0])
            points[:, column] = values
        return points

    @property
    def tolerance(self) -> float:
        """How far the value of a solved node may be above its bound, due to rounding."""
        if self.best is None or not np.isfinite(self.value):
            return 0.0
        if self._known is None or self._known[0] is not self.best:
            programs = 0.0 if self.regions.is_simple else LP_TOLERANCE * self._cost_size(self.best)
            self._known = self.best, self._rounding_at(self.best) + programs
        return self._known[1]

    @property
    def rounding(self) -> float:
        """How far a proven optimum may be from its bound, due to rounding."""
        return 2 * (self.tolerance + self.slip)

    def _rounding_at(self, x: FloatArray) -> float:
        """Return how far the value of a point near this one may be above its bound."""
        objective, statement = self.problem.objective, self.stated.statement
        features, parts, sums = statement.features, statement.parts, self.stated.sums_at(x)
        own = x[self.stated.columns]
        bound, size = statement.offset, abs(statement.offset)
        for i in np.flatnonzero(parts["in_objective"]).tolist():
            k = int(parts["feature"][i])
            at = float(own[k]) if k >= 0 else 0.0
            minus = float(parts["minus"][i])
            far = abs(at) + abs(minus) + minus  # what is added to the size does not cancel
            bound += part_value(parts, i, sums, at, at)
            size += abs(part_value(parts, i, sums, far, far))
        places = self.stated.places_at(own)
        for k in np.flatnonzero(features.feature["is_priced"]).tolist():
            at = float(own[k])
            bound += self.regions.pieces.cost(k, at, int(places[k]))
            size += self.regions.pieces.cost_size(k, at, int(places[k]))
        # What cancels may be larger at other points.
        hidden = self.regions.pieces.hidden(self._slopes(x))
        size += float((hidden * self.stated.reach())[hidden > 0].sum())
        value = objective.sense * objective.value_at(x)
        if not np.isfinite(value):
            return 0.0
        return float(2 * max(value - bound, 0.0) + 1e-13 * size)

    def _cost_size(self, x: FloatArray) -> float:
        """Return the sum of the absolute costs at a point and of their possible changes."""
        features, stated = self.stated.statement.features, self.stated
        total, slopes = 0.0, self._slopes(x)
        for k in np.flatnonzero(features.feature["is_priced"] | (slopes != 0)).tolist():
            own = features.place[slice(*stated.places.start[k : k + 2])]
            at = abs(float(x[stated.columns[k]]))
            width = min(float(own["high"].max()) - float(own["low"].min()), 1e3 * (at + 1))
            kinks = features.kink[slice(*features.feature[["kink_start", "kink_end"]][k])]
            slope = float(features.feature["size"][k]) + abs(float(slopes[k]))
            slope += float(np.abs(kinks["weight"]).sum())
            total += slope * (at + WIDTH_SHARE * width)
        return total

    # Local search

    def begin_local_search(self, starts: list[FloatArray]) -> None:
        """Prepare the local search from some points of the problem."""
        columns = self.stated.columns
        self.local = GeneralLocalSearch(
            self.stated,
            [x[columns] for x in starts],
            self.run.seed,
            self.limits.call,
            self.settings,
        )

    def descend_from(self, x: FloatArray) -> None:
        """Descend from a point of the problem."""
        local, own = self.local, x[self.stated.columns]
        if local is not None and local.passes < self._max_passes:
            local.descend_from(self.stated.places_at(own), own, self._max_passes)
            self._offer_end(local)

    def search_locally(self, until: float, max_failures: float = np.inf) -> None:
        """Descend from more points until some work is done, or some descents in a row fail."""
        local = self.local
        while local is not None and local.work < until and local.passes < self._max_passes:
            if local.failures >= max_failures:
                return
            if not (local.starts or local.elite) or self.limits.is_over():
                return
            if local.descents and not self.stated.columns.size:
                return  # there is only one point
            local.step(self._max_passes)
            self._offer_end(local)

    def _offer_end(self, local: GeneralLocalSearch) -> None:
        """Offer the cheapest point of the region in which a descent ended."""
        if self.limits.flag[0]:
            return
        before = self.value
        x = self.stated.point(local.stroll.x)
        value = self.offer(x)
        if value == self.value or np.isinf(value):
            box = local.box_around()
            if box.tobytes() not in self._explored and self._is_promising(box, local.stroll.sums):
                self._explored.add(box.tobytes())
                slopes, tolerance = self._slopes(x), self._lp_tolerance()
                solved = self.regions.solve(box, slopes, tolerance, self.settings.local_programs)
                if solved.x is not None:
                    self.offer(self.stated.point(solved.x))
        if self.value < before:
            local.failures = 0

    def _is_promising(self, box: Int32Array, sums: FloatArray) -> bool:
        """Return whether a box with constant predictions may have a better point than the best."""
        statement, p = self.stated.statement, self.stated.columns.size
        features, parts = statement.features, statement.parts
        if breaks_limit(features, parts, box, sums):
            return False
        costs = statement.offset
        for k in np.flatnonzero(features.feature["is_priced"]).tolist():
            costs += lowest_cost(features, k, box[k], box[p + k], 0.0)[0]
        return bool(objective_bound(features, parts, box, costs, sums) < self.value)

    # Proof

    def prove(self, check: Callable[[], None]) -> None:
        """Prove the optimum, unless ``check`` raises an exception first."""
        watch = Watch(check, self.limits)
        work, settings, turns = self.settings.first_work, self.settings, 0
        self.search_locally(settings.start_work)
        watch.raise_if_stopped()
        while not self.proven:
            outcome = self._turn(work, watch)
            watch.raise_if_stopped()
            self._update_bound()
            self.proven = outcome == DONE
            turns += 1
            if not self.proven:
                # A good point saves most of the nodes. Without constraints, easy problems are
                # solved before the search would find it.
                if turns == (1 if self.is_constrained else 3):
                    self.search_locally(settings.first_search_work, settings.first_failures)
                self._local_turn()
                watch.raise_if_stopped()
            watch.check()
            work = min(2 * work, settings.max_work)

    def improve(self, check: Callable[[], None]) -> None:
        """Search until ``check`` raises an exception, or if there is only one point."""
        watch = Watch(check, self.limits)
        local = self.local
        while local is not None and (local.starts or local.elite):
            self.search_locally(local.work + 1)
            watch.check()
            if not self.stated.columns.size:
                return

    def _local_turn(self) -> None:
        """Run the local search for its share of the work."""
        local, settings = self.local, self.settings
        if local is None:
            return
        spent = settings.box_work * int(self.search.state["spent"][0])
        work = settings.late_search_share * spent
        self.search_locally(min(work, local.work + settings.max_work))

    def _turn(self, work: int, watch: Watch) -> int:
        """Continue the tree search for some work, and answer its questions."""
        settings, statement = self.settings, self.stated.statement
        end = int(self.search.state["spent"][0]) + max(work // settings.box_work, 1)
        while True:
            boxes = max(end - int(self.search.state["spent"][0]), 1)
            self.search.state["tolerance"] = self.tolerance
            outcome: int = self.limits.call(
                advance, statement, self.search, settings.tree_min_gain, boxes
            )
            if outcome == ASKED:
                self._answer()
                if watch.is_over() or self.evaluations >= self.run.max_evals:
                    return outcome
                continue
            if outcome == FULL:
                self._make_room()
                continue
            return outcome

    def _make_room(self) -> None:
        """Make room for more open nodes, or plunge as deep as possible if memory is scarce."""
        search, settings = self.search, self.settings
        more = search.heap.bound.size
        if 2 * search.heap.pool.nbytes > settings.tree_bytes:
            if search.state["plunge_nodes"][0] < ENDLESS:
                search.state["plunge_nodes"] = ENDLESS
                return
            more = 4 * settings.max_levels
        heap = larger_heap(
            search.state, search.heap, more, self.limits.is_over, settings.copied_bytes
        )
        self.search = search._replace(heap=heap)

    def _answer(self) -> None:
        """Answer what the tree search asks: the value of a point, or the solution of a box.

        If this finds a better point, descend from it.
        """
        state, room, before = self.search.state, self.search.room, self.value
        asked, at = int(state["asked"][0]), int(state["asked_level"][0])
        bound = float(state["asked_bound"][0])
        if asked == POINT:
            value = self.offer(self.stated.point(room.point.copy()))
            if value - bound <= self.tolerance:
                self.search.level[at]["pending"] = 0
                self._note_tie(bound)
        elif asked == BOX:
            self._solve_box(self.search.level_box[at].copy(), bound)
        elif asked == ROWS:
            self._solve_rows(at)
        if self.best is not None and self.value < before:
            self.descend_from(self.best)

    def _solve_rows(self, at: int) -> None:
        """Solve the linear program of a node: multipliers, a point, or a proof that it is empty."""
        search, before = self.search, self.value
        x, y, is_empty = self.regions.relax(search.level_box[at])
        if x is not None:
            search.level_y[at, : y.size] = y
            search.root_y[:] = y
            point = self.admissible(self.stated.point(x)[None, :])[0]
            if np.isinf(self.offer(point)) and self.local is not None:
                self.descend_from(point)
        elif is_empty:
            search.level[at]["pending"] = 0
            search.rays[self.n_rays % MAX_RAYS] = y / np.abs(y).max()
            self.n_rays += 1
            search.state["n_rays"] = min(self.n_rays, MAX_RAYS)
        is_useful = is_empty or self.value < before
        self.wait = 0 if is_useful else min(2 * self.wait + 1, self.settings.max_wait)
        search.state["wait"] = self.wait

    def _note_tie(self, bound: float) -> None:
        """Note the bound of a node that is closed although it may be better than the best point."""
        if bound < self.value:
            state = self.search.state
            state["tie_bound"] = min(float(state["tie_bound"][0]), bound)

    def _solve_box(self, box: Int32Array, bound: float) -> None:
        """Solve a box in which all predictions are constant, and close it."""
        stated = self.stated
        middle = self._any_point(box)
        predictions = {id(r): float(r.predict(middle[None, :])[0]) for r in self.problem.responses}
        for limit in self.problem.prediction_limits:
            if limit.slack_of(predictions[id(limit.response)]) < 0:
                return
        slopes = self._slopes(middle)
        solved = self.regions.solve(box, slopes, tolerance=self._lp_tolerance())
        if solved.x is not None:
            self.offer(stated.point(solved.x))
        if solved.bound == np.inf:
            return
        # The predictions are the same in the whole box, so only the costs differ.
        x = middle if solved.x is None else stated.point(solved.x)
        cost = self.regions.pieces.cost_of(x[stated.columns], slopes)
        value = self.problem.objective.sense * self.problem.objective.value_at(x)
        rounding = self._rounding_at(x)
        bound = max(bound, value - cost + solved.bound - rounding)
        if bound < self.value:
            self.slip = max(self.slip, rounding)
        self._note_tie(bound)

    def _slopes(self, x: FloatArray) -> FloatArray:
        """Return what products add to the cost per unit where predictions are as at a point."""
        stated, objective = self.stated, self.problem.objective
        slopes = np.zeros(stated.columns.size)
        for term in objective.terms:
            if isinstance(term, ProductTerm) and term.column in stated.feature_of:
                prediction = float(term.response.predict(x[None, :])[0])
                factor = objective.sense * term.weight * prediction
                slopes[stated.feature_of[term.column]] += factor
        return slopes

    def _lp_tolerance(self) -> float:
        """Return how close to its bound a cost must be."""
        return max(self.tolerance, 1e-300)

    def _any_point(self, box: Int32Array) -> FloatArray:
        """Return a point of a box, whether it satisfies the rows or not."""
        features, first = self.stated.statement.features, box[: self.stated.columns.size]
        at = features.feature["place_start"] + first
        low, high = features.place["low"][at], features.place["high"][at]
        return self.stated.point(np.clip(0.0, low, high))

    def _update_bound(self) -> None:
        """Raise the bound to the lowest of all open nodes and ties."""
        state, search = self.search.state, self.search
        bounds = [float(state["tie_bound"][0]), self.value]
        if state["n_open"][0]:
            bounds.append(float(search.heap.bound[0]))
        for level in search.level[: int(state["level"][0]) + 1]:
            both = float(level["left_bound"]), float(level["right_bound"])
            second = both[1 - int(level["first_side"])]
            bounds.extend({0: (), 1: (second,), 2: both}[int(level["pending"])])
        self.lowest = max(self.lowest, min(bounds))
