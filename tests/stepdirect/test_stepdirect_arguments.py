"""The arguments of `stepdirect`: fixed coordinates, weights, and what is refused."""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import treeopt
from tests.support.messages import says
from tests.support.searches import BOX, Counted, check, every_preset, model, paper, steps
from treeopt import InputError, Status, StepDirectSettings, stepdirect

# Fixed coordinates and weights.


@every_preset
def test_all_fixed_is_one_evaluation(settings):
    fun = Counted()
    res = stepdirect(fun, [(1, 1), (2, 2)], settings=settings)
    check(res, fun.points, box=[(1, 1), (2, 2)])
    assert res.nfev == 1 and res.success and res.status is Status.EXHAUSTED
    assert "fixed" in res.message


@every_preset
def test_fixed_coordinates_are_left_out(settings):
    box, weights = [(-2, 1), (0.7, 0.7), (-1, 1)], [3, 100, 1]
    res = stepdirect(steps, box, max_evals=90, settings=settings, weights=weights, rng=1)
    check(res, box=box)
    less = stepdirect(
        lambda x: steps([x[0], 0.7, x[1]]),
        [box[0], box[2]],
        max_evals=90,
        settings=settings,
        weights=[1.5, 0.5],
        rng=1,
    )
    assert np.array_equal(np.delete(res.points, 1, axis=1), less.points)


@every_preset
def test_weights_count_by_proportion_and_zeros_mean_uniform(settings):
    def points(weights):
        how = {"max_evals": 400, "settings": settings, "rng": 1}
        return stepdirect(steps, BOX, weights=weights, **how).points

    assert np.array_equal(points(None), points([0, 0, 0]))
    assert np.array_equal(points(None), points([4, 4, 4]))
    assert np.array_equal(points([1, 2, 4]), points([0.25, 0.5, 1]))
    assert np.array_equal(points([1e308, 1e308, 0]), points([1, 1, 0]))
    if settings != StepDirectSettings.direct():
        assert not np.array_equal(points(None), points([9, 1, 0]))


@pytest.mark.parametrize("weights", [[1, 1e-322], [1, 5e-324], [1e308, 1e308], [1e-320, 0]])
@every_preset
def test_weights_of_any_size(settings, weights):
    """Such as vanish beside the others, or once they are multiplied with a side, are none."""
    small = replace(settings, epsilon=0.0, neighbourhood=None, ties="one")
    res = stepdirect(steps, BOX[:2], weights=weights, settings=small, max_evals=2000, rng=0)
    check(res, box=BOX[:2])


def test_weights_and_bounds_by_name():
    fitted, frame, _ = model("forest")
    e = treeopt.from_model(fitted)
    low, high = frame.min(), frame.max()
    pairs = {name: (low[name], high[name]) for name in frame}
    by_name = {"d": 1, "c": 2, "b": 3, "a": 4}

    def points(bounds, weights):
        return stepdirect(e, bounds, weights=weights, settings=paper(), max_evals=200, rng=0).points

    expected = points(frame, [4, 3, 2, 1])
    for weights in (by_name, pd.Series(by_name)):
        assert np.array_equal(points(pairs, weights), expected)
    with pytest.raises(InputError, match=says("weights is {'a': 1}", "each")):
        stepdirect(e, frame, weights={"a": 1})
    with pytest.raises(InputError, match=says("weights is", "'much'", "one number")):
        stepdirect(e, frame, weights={**by_name, "a": "much"})
    fixed = points({**pairs, "b": 2.5}, None)
    assert (fixed[:, 1] == 2.5).all()


def test_categories_are_searched_as_numbers_with_a_warning():
    fitted, X, _ = model("categories")
    e = treeopt.from_model(fitted)
    with pytest.warns(UserWarning, match=says("feature 3 has categories", "Fix it")):
        stepdirect(e, X, max_evals=50)
    pairs = np.column_stack([X.min(axis=0), X.max(axis=0)])
    pairs[3] = 2
    with warnings.catch_warnings(action="error"):
        assert (stepdirect(e, pairs, max_evals=50).points[:, 3] == 2).all()


# Wrong arguments.

LOCKED = partial(steps, threading.Lock())


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"fun": 3}, ["fun is int", "from_model"]),
        ({"max_evals": 0}, ["max_evals is 0", "above 0"]),
        ({"max_evals": 1e3}, ["max_evals is 1000.0", "integer"]),
        ({"max_evals": True}, ["max_evals is True", "integer"]),
        ({"time_limit": 0}, ["time_limit is 0", "above 0"]),
        ({"time_limit": np.nan}, ["time_limit is nan", "above 0"]),
        ({"time_limit": "1 h"}, ["time_limit is '1 h'", "above 0"]),
        ({"weights": [1, 2]}, ["weights has shape (2,)", "3"]),
        ({"weights": [1, -1, 0]}, ["weights[1] is -1", "at least 0"]),
        ({"weights": [1, np.nan, 0]}, ["weights[1] is nan", "finite"]),
        ({"weights": "abc"}, ["weights is 'abc'", "Pass"]),
        ({"settings": "paper"}, ["settings is 'paper'", "StepDirectSettings"]),
        ({"callback": 3}, ["callback is 3", "Pass"]),
        ({"rng": "seed"}, ["rng is 'seed'", "Pass"]),
        ({"rng": -1}, ["rng is -1", "Pass"]),
        ({"workers": 0}, ["workers is 0", "Pass"]),
        ({"workers": 1.5}, ["workers is 1.5", "Pass"]),
        ({"workers": True}, ["workers is True", "Pass"]),
        ({"workers": 2, "vectorized": True}, ["vectorized", "workers is 2", "one of the two"]),
        ({"workers": map, "vectorized": True}, ["vectorized", "workers", "one of the two"]),
        ({"workers": 2, "fun": LOCKED}, ["workers is 2", "another process", "ThreadPool"]),
        ({"bounds": [(1, 0)]}, ["bounds[0] is (1.0, 0.0)", "Swap"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_arguments(wrong, parts):
    arguments = {"fun": steps, "bounds": BOX, **wrong}
    with pytest.raises(InputError, match=says(*parts)):
        stepdirect(**arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, value)
            for name in ("delta", "t_max_per_axis", "sigma_min", "delta_min")
            for value in (0, -1)
        ),
        ("delta_max", np.nan),
        ("delta", "far"),
        ("epsilon", -1e-9),
        ("epsilon", np.nan),
        ("epsilon", None),
        ("scarce", -1),
        ("scarce", np.inf),
        ("scarce", None),
        ("neighbourhood", 0),
        ("neighbourhood", "near"),
        ("sigma_min", 1),
        ("tau", 1),
        ("weight_floor", 1.1),
        ("weight_floor", -0.1),
        ("refine", 1),
        ("refine", -0.1),
        ("n_directions", 0),
        ("n_directions", 2.5),
        ("n_directions", None),
        ("batch", 0),
        ("batch", 1.5),
        ("ties", "none"),
        ("sides", "shortest"),
        ("epsilon_scale", None),
        ("local_search", "axes"),
        ("search_region", "cube"),
        ("delta", 3.0),
        ("delta_min", 1.5),
    ],
)
def test_wrong_settings(name, value):
    with pytest.raises(InputError, match=says(name, f"{value!r}".strip("()"), "Pass")):
        StepDirectSettings(**{name: value})
