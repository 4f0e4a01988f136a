"""What every adapter must keep: subclass a contract and name the library."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

import treeopt
from tests.support.cases import SOFTMAX_TABLES, TABLES, fitted
from tests.support.models import Case, sums_of
from tests.support.rows import (
    acceptable,
    canonical,
    cast,
    categorical,
    found_share,
    hard_rows,
    hard_values,
    thresholds,
)
from treeopt.model import compiled
from treeopt.model.link import IDENTITY
from treeopt.model.softmax import Softmax


def assert_same_bits(ours: np.ndarray, own: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Fail unless dtype and every bit agree; say how many rows differ, and show the first."""
    assert ours.dtype == own.dtype
    assert ours.shape == own.shape
    integer = f"u{ours.itemsize}"
    differ = np.flatnonzero(ours.view(integer) != own.view(integer))
    if differ.size:
        i = int(differ[0])
        at = "" if rows is None else f" at {np.asarray(rows)[i].tolist()}"
        pytest.fail(
            f"{differ.size} of {ours.size} predictions differ; row {i}{at}: "
            f"treeopt {ours[i]!r}, library {own[i]!r}"
        )


def sample(case: Case, n: int, seed: int = 0) -> np.ndarray:
    """Draw hard rows with replacement."""
    rows = hard_rows(case)
    return rows[np.random.default_rng(seed).integers(len(rows), size=n)]


def by_pickle(ensemble: treeopt.Ensemble) -> treeopt.Ensemble:
    return pickle.loads(pickle.dumps(ensemble))


def added(ensemble: treeopt.Ensemble, values: np.ndarray) -> np.ndarray:
    """Add the values of the trees, one row per tree, as the definition of `Ensemble` says."""
    dtype = values.dtype.type
    total = np.full(values.shape[1], ensemble.base, dtype)
    for value in values:
        total += value
    return total / dtype(ensemble.divisor)


class PredictionContract:
    """What holds for every converted model: the model's own library is the only judge.

    A subclass names a table of `tests.support.cases`, or has a ``case`` fixture of its own.
    """

    tables = TABLES
    library = ""

    def pytest_generate_tests(self, metafunc):
        if self.library and "case" in metafunc.fixturenames:
            metafunc.parametrize("case", self.tables[self.library], indirect=True)

    @pytest.fixture
    def case(self, request) -> Case:
        return fitted(self.library, request.param)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_bit_equal_on_hard_rows(self, case, dtype):
        with np.errstate(over="ignore"):
            rows = acceptable(case, hard_rows(case).astype(dtype))
        assert_same_bits(case.ensemble.predict(rows), case.own(rows), rows)

    def test_hard_rows_are_hard(self, case):
        """Of a model with several sums, the thresholds of one class do not matter to another."""
        thresholds_found, categories_found = found_share(case)
        n_sums = case.library.predict(case.model, case.matrix[:1], "raw").size
        assert thresholds_found > 0.35 / n_sums or not np.isfinite(thresholds(case).value).any()
        assert categories_found > 0.2

    def test_number_of_rows_and_threads_do_not_matter(self, case):
        rows = sample(case, 5000)
        own = case.own(rows)
        for n in (1, 2, 5, 6, 8, 31, 257, 5000):
            assert_same_bits(case.ensemble.predict(rows[:n]), own[:n], rows)
            assert_same_bits(case.ensemble.predict(rows[-n:]), own[-n:], rows[-n:])
        for n_jobs in (1, 2, 3):
            assert_same_bits(case.ensemble.predict(rows, n_jobs=n_jobs), own, rows)

    def test_walking_equals_masks(self, case, monkeypatch):
        monkeypatch.setattr(compiled, "MAX_MASK_BYTES", -1)
        walking = copy.deepcopy(case.ensemble)
        rows = hard_rows(case)
        for n in (1, 5, len(rows)):
            assert_same_bits(walking.predict(rows[:n]), case.own(rows[:n]), rows)
        assert all(e.compiled.mask_dtype is None for e in sums_of(walking))

    def test_feature_names(self, case):
        assert case.ensemble.n_features == case.matrix.shape[1]
        framed = isinstance(case.X, pd.DataFrame)
        assert case.ensemble.feature_names == (case.library.names(case.model) if framed else None)

    def test_frame_as_trained_on(self, case):
        assert_same_bits(case.ensemble.predict(case.X), case.own(case.X))
        assert_same_bits(case.ensemble.predict(case.matrix), case.own(case.matrix))

    def test_importances(self, case):
        """XGBoost adds its own up in float32, LightGBM writes six digits of each gain."""
        own = np.asarray(case.library.importances(case.model), np.float64)
        expected = own / own.sum() if own.sum() > 0 else np.full(own.size, 1 / own.size)
        np.testing.assert_allclose(case.ensemble.importances, expected, rtol=1e-5)
        assert case.ensemble.importances.sum() == pytest.approx(1.0, abs=1e-12)

    def test_copies_predict_the_same(self, case):
        """And their arrays are read-only, as those of the original."""
        rows = sample(case, 100)
        own = case.own(rows)
        e = case.ensemble
        for again in (e, by_pickle(e), copy.deepcopy(e), copy.copy(e)):
            assert_same_bits(again.predict(rows), own, rows)
            assert repr(again) == repr(case.ensemble)
            for part in sums_of(again):
                arrays = [getattr(part, f.name) for f in fields(part)]
                arrays = [a for a in arrays if isinstance(a, np.ndarray)]
                assert len(arrays) >= 9
                assert not any(a.flags.writeable for a in arrays)

    def test_check_conversion_finds_no_difference(self, case):
        found = treeopt.check_conversion(
            case.model, case.X, output=case.output, class_index=case.class_index
        )
        finite = np.isfinite(canonical(case).value)
        assert found.compared >= len(case.matrix) + 3 * np.count_nonzero(finite)
        assert (found.different, found.worst) == (0, 0.0)


class AdapterContract(PredictionContract):
    """The predictions of a model on rows where mistakes show, and its moves, lines and boxes."""

    def test_margin(self, case):
        """The sum under the link; a forest of LightGBM averages before its link only."""
        ensemble, rows = case.ensemble, sample(case, 300)
        margin = ensemble.margin(rows)
        assert_same_bits(ensemble.link(margin.copy()), case.own(rows), rows)
        if ensemble.link != IDENTITY:
            own = case.own_margin(rows)
            assert_same_bits(margin, own / own.dtype.type(ensemble.divisor), rows)

    def test_writing_into_results_does_not_change_the_ensemble(self, case):
        for part in case.of_one_sum:
            self.check_writing_into_results_does_not_change_the_ensemble(part)

    def check_writing_into_results_does_not_change_the_ensemble(self, case):
        ensemble = copy.deepcopy(case.ensemble)
        rows = sample(case, 20)
        own = case.own(rows)
        boxes, line = ensemble.leaf_boxes(), ensemble.line(rows[0], 0)
        for array in (boxes.value, boxes.lower, boxes.upper, line.value, line.upper):
            if array.flags.writeable:
                array[:] = 7.0
        assert_same_bits(ensemble.predict(rows), own, rows)
        assert_same_bits(np.array([ensemble.walker(rows[0]).value], own.dtype), own[:1], rows)

    def test_one_box_per_tree_contains_a_point(self, case):
        for part in case.of_one_sum:
            self.check_one_box_per_tree_contains_a_point(part)

    def check_one_box_per_tree_contains_a_point(self, case):
        ensemble = case.ensemble
        boxes = ensemble.leaf_boxes()
        rows = sample(case, 60)
        inside = [boxes.containing(x) for x in rows]
        for found, same in zip(inside, map(boxes.containing, cast(case, rows)), strict=True):
            np.testing.assert_array_equal(boxes.tree[found], np.arange(ensemble.n_trees))
            np.testing.assert_array_equal(found, same)
        sums = added(ensemble, boxes.value[np.array(inside)].T)
        assert_same_bits(ensemble.link(sums), case.own(rows), rows)

    def test_categories_that_lead_to_a_box(self, case):
        """The masks of `LeafBoxes`, read without `LeafBoxes.containing`."""
        for part in case.of_one_sum:
            self.check_categories_that_lead_to_a_box(part)

    def check_categories_that_lead_to_a_box(self, case):
        ensemble, boxes = case.ensemble, case.ensemble.leaf_boxes()
        assert set(boxes.categories) == {int(j) for j in categorical(case) if j in ensemble.feature}
        rng = np.random.default_rng(3)
        rows = sample(case, 40 if boxes.categories else 0)
        which = {}
        for j, leads in boxes.categories.items():
            known = ensemble.categories[j]
            assert leads.shape == (boxes.tree.size, len(known) + 1)
            assert np.isneginf(boxes.lower[:, j]).all() and np.isposinf(boxes.upper[:, j]).all()
            which[j] = rng.integers(len(known), size=len(rows))
            rows[:, j] = known.value[which[j]]
        values = []
        for i, x in enumerate(cast(case, rows)):
            inside = (boxes.lower < x) & (x <= boxes.upper)
            inside |= np.isneginf(boxes.lower) & np.isneginf(x)
            for j, leads in boxes.categories.items():
                inside[:, j] = leads[:, which[j][i]]
            inside = np.where(np.isnan(x), boxes.missing, inside)
            values.append(boxes.value[inside.all(axis=1)])
        if values:
            sums = ensemble.link(added(ensemble, np.array(values).T))
            assert_same_bits(sums, case.own(rows), rows)

    def test_walker(self, case):
        for part in case.of_one_sum:
            self.check_walker(part)

    def check_walker(self, case):
        rng = np.random.default_rng(1)
        n = case.matrix.shape[1]
        features = rng.integers(n, size=1000)
        if n > 20:  # mostly those that splits read
            used = {*thresholds(case).feature, *categorical(case)}
            features = rng.choice([*used, 0, n - 1], size=1000)
        values = {j: hard_values(case, j) for j in np.unique(features)}
        to = np.array([rng.choice(values[j]) for j in features])
        x = sample(case, 1)[0]
        path = np.empty((features.size, n))
        walker = case.ensemble.walker(x)
        for k, (j, value) in enumerate(zip(features, to, strict=True)):
            x[j] = path[k, j] = value
            path[k] = x
        own = case.own(path)
        assert_same_bits(walker.run(features[:900], to[:900]), own[:900], path)
        moved = [walker.move(int(j), v) for j, v in zip(features[900:], to[900:], strict=True)]
        assert_same_bits(np.array(moved, own.dtype), own[900:], path[900:])
        np.testing.assert_array_equal(walker.x, x)
        assert walker.value == own[-1]

    def test_line(self, case):
        for part in case.of_one_sum:
            self.check_line(part)

    def check_line(self, case):
        rng = np.random.default_rng(2)
        used = [*np.unique(thresholds(case).feature), *categorical(case)]
        rows, values = [], []
        some = {*rng.permutation(used)[:4], *categorical(case), rng.integers(case.matrix.shape[1])}
        for j in some:
            for x in sample(case, 2, seed=int(j)):
                line = case.ensemble.line(x, int(j))
                assert (np.diff(line.upper) > 0).all()
                assert line.upper[-1] == np.inf
                points = line_points(case, line.upper, int(j))
                moved = np.repeat(x[None, :], points.size, axis=0)
                moved[:, j] = points
                rows.append(moved)
                piece = np.searchsorted(line.upper, cast(case, points))
                assert np.unique(piece).size >= line.upper.size - 1
                values.append(line.value[piece])
        rows = np.concatenate(rows)
        assert_same_bits(np.concatenate(values), case.own(rows), rows)


class SoftmaxContract(PredictionContract):
    """The probability of one of several classes, from the margins of all."""

    tables = SOFTMAX_TABLES

    def test_margins(self, case):
        """A forest of LightGBM averages before its softmax only."""
        softmax, rows = case.ensemble, sample(case, 300)
        assert isinstance(softmax, Softmax)
        margins = softmax.margins(rows)
        own = case.library.predict(case.model, rows, "raw")
        own = own / own.dtype.type(softmax.sums[0].divisor)
        for j in range(own.shape[1]):
            assert_same_bits(np.ascontiguousarray(margins[:, j]), np.ascontiguousarray(own[:, j]))
        for given in (margins, np.asfortranarray(margins), np.repeat(margins, 2, axis=1)[:, ::2]):
            before = given.copy()
            assert_same_bits(softmax.probability(given), case.own(rows), rows)
            assert (given == before).all()

    def test_probabilities_add_up_to_one(self, case):
        rows = sample(case, 200)
        n = len(case.sums)
        last = n - 1 if case.class_index is None else case.class_index
        assert case.ensemble.class_index == last
        every = [replace(case.ensemble, class_index=k).predict(rows) for k in range(n)]
        np.testing.assert_allclose(np.sum(every, axis=0), 1.0, rtol=1e-6)


def line_points(case: Case, upper: np.ndarray, feature: int) -> np.ndarray:
    """Return points of every piece of a line: both ends, inside, and what the cast moves there."""
    largest = np.finfo(case.input_dtype).max
    ends = np.clip(np.append(-np.inf, upper), -largest, largest).astype(case.input_dtype)
    with np.errstate(over="ignore"):
        starts = np.nextafter(ends[:-1], case.input_dtype(np.inf))
        points = np.concatenate([starts, starts / 2 + ends[1:] / 2, ends]).astype(np.float64)
        casting = [np.nextafter(points, np.inf), np.nextafter(points, -np.inf)]
    extremes = [-np.inf, np.inf]
    points = np.concatenate([points, *casting, extremes, hard_values(case, feature)])
    points = acceptable(case, points[:, None])[:, 0]
    return points[~np.isnan(cast(case, points))]
