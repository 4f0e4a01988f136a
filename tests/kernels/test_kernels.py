"""Kernels against plain Python on random ensembles that no library has to be able to train."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import treeopt
from tests.support import truth
from treeopt.kernels import encode, pack
from treeopt.kernels.arrays import Feature
from treeopt.kernels.jit import count_ones, trailing_zeros
from treeopt.model import compiled

seeds = st.integers(0, 2**32 - 1)


def walking(monkeypatch_context) -> None:
    """Make every ensemble use packed nodes."""
    monkeypatch_context.setattr(compiled, "MAX_MASK_BYTES", -1)


@given(truth.ensembles(), seeds)
def test_predict_equals_truth_with_both_engines(e, seed):
    X = truth.points(e, np.random.default_rng(seed), 30)
    expected = truth.predict(e, X)
    with pytest.MonkeyPatch.context() as patch:
        assert truth.same_bits(e.predict(X), expected)
        walking(patch)
        again = e.__class__.__new__(e.__class__)
        again.__setstate__(e.__getstate__())
        assert truth.same_bits(again.predict(X), expected)
        for n in (1, 5, 6, 8, 9):
            assert truth.same_bits(again.predict(X[:n]), expected[:n])


@given(truth.ensembles(), seeds, st.booleans())
def test_line_equals_truth_at_every_cell(e, seed, walk):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        if walk:
            walking(patch)
        for x in truth.points(e, rng, 4):
            j = int(rng.integers(e.n_features))
            line = e.line(x, j)
            ends = np.where(np.isinf(line.upper), np.inf, line.upper)
            assert (np.diff(line.upper) > 0).all() and line.upper[-1] == np.inf
            cuts = e.threshold[(e.feature == j) & np.isfinite(e.threshold)]
            known = e.categories[j].value if j in e.categories else []
            for v in np.concatenate([ends, cuts, known, truth.POOL, [-np.inf]]):
                y = float(e.input_dtype.type(v))
                if y == e.missing_value:
                    continue
                row = x.copy()
                row[j] = v
                k = int(np.searchsorted(line.upper, y))
                assert truth.same_bits(line.value[k : k + 1], truth.predict(e, row[None, :]))


@given(truth.ensembles(), seeds)
def test_walker_equals_truth_over_a_walk(e, seed):
    rng = np.random.default_rng(seed)
    x = truth.points(e, rng, 1)[0]
    walker = e.walker(x)
    features = rng.integers(0, e.n_features, 40)
    values = truth.points(e, rng, 40)[:, 0]
    result = walker.run(features, values)
    rows = np.empty((40, e.n_features))
    for k in range(40):
        x[features[k]] = values[k]
        rows[k] = x
    assert truth.same_bits(result, truth.predict(e, rows))
    assert walker.value == result[-1]
    np.testing.assert_array_equal(walker.x, x)


@given(truth.ensembles(max_leaves=12), seeds)
def test_leaf_boxes_part_the_space(e, seed):
    boxes = e.leaf_boxes()
    for x in truth.points(e, np.random.default_rng(seed), 20):
        with np.errstate(over="ignore"):
            cast = x.astype(e.input_dtype).astype(np.float64)
        cast[cast == e.missing_value] = np.nan
        inside = boxes.containing(cast)
        assert boxes.tree[inside].tolist() == list(range(e.n_trees))
        leaves = [truth.leaf_of(e, t, x) for t in range(e.n_trees)]
        assert boxes.value[inside].tolist() == e.value[leaves].tolist()


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=0, max_size=200),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=50),
)
def test_locate_counts_the_cuts_below(cuts, values):
    cuts = np.unique(np.array(cuts, np.float64))
    table, origin, scale = compiled._buckets(cuts)
    feature = Feature(0, 0, 0, table.size - 1, -1, 0, origin, scale)
    inputs = np.concatenate([values, cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)])
    found = [encode.locate(v, feature, cuts, table) for v in inputs]
    assert found == np.searchsorted(cuts, inputs, side="left").tolist()


@njit
def _bits(x):
    return trailing_zeros(x), count_ones(x)


@given(st.integers(1, 2**64 - 1))
def test_bit_operations(x):
    zeros, ones = _bits(np.uint64(x))
    assert (zeros, ones) == ((x & -x).bit_length() - 1, x.bit_count())


@given(truth.ensembles())
def test_packed_words_hold_the_trees(e):
    words, roots, bits, _ = e.compiled.packed
    field, child_mask, child_shift, rank_shift, bit_shift = (int(b) for b in bits.ravel())
    has_sets = bool((e.category_set >= 0).any())
    assert bits.ndim == 1 + has_sets
    cells = e.compiled.cells
    first, count = pack.leaf_ranges(e.left, e.right, e.tree_start)
    seen = 0
    for t in range(e.n_trees):
        todo = [(int(e.tree_start[t]), int(roots[t]))]
        while todo:
            node, at = todo.pop()
            seen += 1
            word = int(words[at])
            child = word >> child_shift & child_mask
            if e.left[node] < 0:
                assert word & field == 0 and child == at and word >> rank_shift == first[node]
            else:
                assert word & field == 8 * cells.node_slot[node]
                assert word >> rank_shift == cells.node_rank[node]
                assert not has_sets or word >> bit_shift & 31 == cells.node_bit[node]
                assert count[node] == count[e.left[node]] + count[e.right[node]]
                todo += [(int(e.left[node]), child), (int(e.right[node]), child + 1)]
    assert seen == e.n_nodes


def test_warmup_without_a_model_runs_every_engine():
    treeopt.warmup()
