"""What every adapter must keep: subclass `AdapterContract` and give it a ``case`` fixture."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields

import numpy as np
import pytest

import treeopt
from tests.models import Case
from tests.rows import acceptable, canonical, cast, hard_rows, hard_values, reaching, thresholds
from treeopt import compiled


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


class AdapterContract:
    """The model's own library is the only judge, on rows where mistakes show."""

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_bit_equal_on_hard_rows(self, case, dtype):
        with np.errstate(over="ignore"):
            rows = acceptable(case, hard_rows(case).astype(dtype))
        assert_same_bits(case.ensemble.predict(rows), case.own(rows), rows)

    def test_hard_rows_are_hard(self, case):
        splits = thresholds(case)
        _, found = reaching(case, splits)
        assert np.isfinite(splits.threshold).sum() == 0 or found.mean() > 0.35

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
        assert walking.compiled.mask_dtype is None

    def test_feature_names(self, case):
        assert case.ensemble.n_features == case.matrix.shape[1]
        assert case.ensemble.feature_names == case.own_names

    def test_frame_as_trained_on(self, case):
        assert_same_bits(case.ensemble.predict(case.X), case.own(case.X))

    def test_importances(self, case):
        own = np.asarray(case.own_importances, np.float64)
        expected = own / own.sum() if own.sum() > 0 else np.full(own.size, 1 / own.size)
        np.testing.assert_allclose(case.ensemble.importances, expected, rtol=1e-12)
        assert case.ensemble.importances.sum() == pytest.approx(1.0, abs=1e-12)

    @pytest.mark.parametrize(
        "duplicate", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy, copy.copy]
    )
    def test_copies_predict_the_same(self, case, duplicate):
        again = duplicate(case.ensemble)
        rows = sample(case, 100)
        assert_same_bits(again.predict(rows), case.own(rows), rows)
        assert repr(again) == repr(case.ensemble)
        self._assert_read_only(again)

    def test_arrays_are_read_only(self, case):
        self._assert_read_only(case.ensemble)

    @staticmethod
    def _assert_read_only(ensemble):
        arrays = [getattr(ensemble, f.name) for f in fields(ensemble)]
        arrays = [a for a in arrays if isinstance(a, np.ndarray)]
        assert len(arrays) >= 9
        assert not any(a.flags.writeable for a in arrays)

    def test_writing_into_results_does_not_change_the_ensemble(self, case):
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
        ensemble = case.ensemble
        boxes = ensemble.leaf_boxes()
        rows = sample(case, 60)
        sums = np.full(len(rows), ensemble.base, ensemble.value.dtype)
        for i, x in enumerate(cast(case, rows)):
            inside = boxes.containing(x)
            np.testing.assert_array_equal(boxes.tree[inside], np.arange(ensemble.n_trees))
            for value in boxes.value[inside]:
                sums[i] += value
        assert_same_bits(sums / sums.dtype.type(ensemble.divisor), case.own(rows), rows)

    def test_walker(self, case):
        rng = np.random.default_rng(1)
        n = case.matrix.shape[1]
        features = rng.integers(n, size=1000)
        if n > 20:  # mostly those that splits read
            features = rng.choice([*np.unique(thresholds(case).feature), 0, n - 1], size=1000)
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
        rng = np.random.default_rng(2)
        used = np.unique(thresholds(case).feature)
        rows, values = [], []
        for j in {*rng.permutation(used)[:4], int(rng.integers(case.matrix.shape[1]))}:
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

    def test_check_conversion_finds_no_difference(self, case):
        found = treeopt.check_conversion(
            case.model, case.X, output=case.output, class_index=case.class_index
        )
        finite = np.isfinite(canonical(case).threshold)
        assert found.compared >= len(case.matrix) + 3 * np.count_nonzero(finite)
        assert (found.different, found.worst) == (0, 0.0)


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
