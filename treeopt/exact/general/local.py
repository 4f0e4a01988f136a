"""Local search for problems with constraints and costs: descents from many points."""

from __future__ import annotations

import numpy as np

from treeopt.exact.descent import Call
from treeopt.exact.descent import descend as plain_descend
from treeopt.exact.exact_settings import ExactSettings
from treeopt.exact.general.stating import Stated
from treeopt.exact.general.stroll import new_stroll
from treeopt.exact.general.walk import descend
from treeopt.types import FloatArray, Int32Array


class GeneralLocalSearch:
    """Descents from given points, then from mixtures and neighbors of the best ends.

    Parameters
    ----------
    stated : Stated
        The problem as arrays.
    starts : list of float64 arrays
        Points to start from, as values of the free features.
    seed : int
        Seed of the random starts.
    call : callable
        Calls descents, which may take long.
    settings : ExactSettings
        Tuning.
    """

    def __init__(
        self,
        stated: Stated,
        starts: list[FloatArray],
        seed: int,
        call: Call,
        settings: ExactSettings,
    ) -> None:
        self.stated, self.starts, self.call, self.settings = stated, starts, call, settings
        self.stroll = new_stroll(stated.statement, stated.row_scales())
        self.is_one_sum = stated.is_one_sum
        self.rng = np.random.default_rng(seed)
        self.elite: list[tuple[float, Int32Array, FloatArray]] = []
        self.penalty = stated.penalty()
        self.descents = self.failures = 0

    @property
    def passes(self) -> int:
        """The number of points at which all lines were scanned."""
        return int(self.stroll.walk.state["passes"][0])

    @property
    def work(self) -> int:
        """The work so far."""
        settings, leaves = self.settings, self.stated.statement.leaves
        per_pass = leaves.value.size + settings.place_work * int(leaves.place_start[-1])
        per_pass += settings.axis_work * self.stated.columns.size
        work = int(settings.stroll_work * self.passes * per_pass)
        return work + settings.descent_work * self.descents

    def step(self, max_passes: int) -> tuple[float, Int32Array, FloatArray]:
        """Descend from the next point; return the merit, places and numbers of its end."""
        if self.starts:
            x = self.starts.pop(0)
            places = self.stated.places_at(x)
        else:
            places, x = self._new_start()
        return self.descend_from(places, x, max_passes)

    def descend_from(
        self, places: Int32Array, x: FloatArray, max_passes: int
    ) -> tuple[float, Int32Array, FloatArray]:
        """Descend from a point, and keep the end if it is a good one.

        Some descents begin with a low penalty, so that they can cross what is not feasible. Most
        are flexible: where they end, each row alone can be made to hold, but perhaps not all.
        """
        statement, stroll, penalty = self.stated.statement, self.stroll, self.penalty
        if self.is_one_sum:
            merit = self._descend_plainly(places, max_passes)
            return self._keep(merit)
        if self.descents % 3 == 2:
            penalty *= self.settings.min_penalty ** self.rng.random()
        is_flexible = self.descents % 4 != 2
        arguments = statement, stroll, places, x, penalty, is_flexible, max_passes
        return self._keep(float(self.call(descend, *arguments)))

    def _descend_plainly(self, places: Int32Array, max_passes: int) -> float:
        """Descend on one sum alone, which needs no penalties; return the sum at the end."""
        stated, stroll = self.stated, self.stroll
        own = stated.statement.sums[0]
        leaves, error = stated.statement.leaves, float(own["error"])
        merit = float(self.call(plain_descend, leaves, stroll.walk, places, error, max_passes))
        for k, place in enumerate(stroll.walk.at.tolist()):
            stroll.x[k] = stated.number_in(k, place)
        stroll.sums[0] = merit + float(own["constant"])
        return float(stroll.sums[0])

    def _keep(self, merit: float) -> tuple[float, Int32Array, FloatArray]:
        """Count a descent, and keep its end if it is a good one."""
        stroll = self.stroll
        self.descents += 1
        self.failures += 1
        end = merit, stroll.walk.at.copy(), stroll.x.copy()
        if all(abs(merit - known) > 1e-9 * abs(merit) for known, _, _ in self.elite):
            self.elite.append(end)
            self.elite.sort(key=lambda each: each[0])
            del self.elite[self.settings.n_elite :]
        return end

    def _new_start(self) -> tuple[Int32Array, FloatArray]:
        """Return a mixture of two good ends, or one of them with some features set at random."""
        rng, settings = self.rng, self.settings
        if len(self.elite) > 1 and rng.random() < settings.crossover_share:
            places_size = self.stated.columns.size
            one, other = rng.choice(len(self.elite), 2, replace=False)
            which = rng.random(places_size) < 0.5
            places = np.where(which, self.elite[one][1], self.elite[other][1]).astype(np.int32)
            return places, np.where(which, self.elite[one][2], self.elite[other][2])
        _, places, x = self.elite[rng.integers(len(self.elite))]
        places, x = places.copy(), x.copy()
        n = rng.integers(settings.min_mutations, settings.max_mutations + 1)
        for k in rng.integers(places.size, size=n).tolist():
            n_places = int(np.diff(self.stated.places.start[k : k + 2])[0])
            places[k] = rng.integers(n_places)
            x[k] = self.stated.number_in(k, int(places[k]))
        return places, x

    def box_around(self) -> Int32Array:
        """Return the places around the end of the last descent that lead to the same leaves."""
        leaves, walk = self.stated.statement.leaves, self.stroll.walk
        inside = walk.outside == 0
        sizes = np.diff(leaves.place_start)
        low = leaves.low[:, inside].max(axis=1, initial=0)
        high = np.minimum(
            leaves.high[:, inside].min(axis=1, initial=np.iinfo(np.int32).max), sizes - 1
        )
        return np.concatenate([low, high]).astype(np.int32)
