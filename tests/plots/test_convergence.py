"""The curves of best value and bound: what is drawn, and the drawing itself."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestRegressor

import treeopt
from treeopt.plots import convergence_of, plot_convergence

RNG = np.random.default_rng(1)
X = RNG.random((200, 5))
MODEL = RandomForestRegressor(n_estimators=20, random_state=0).fit(
    X, X @ [1.0, -2.0, 3.0, -1.0, 1.0]
)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    pyplot.close("all")


@pytest.mark.parametrize("verb", ["minimize", "maximize"])
@pytest.mark.parametrize("method", ["auto", "exact", "local", "stepdirect"])
def test_curves_are_the_history_and_last_until_the_end(verb, method):
    result = getattr(treeopt, verb)(MODEL, X, rng=0, method=method)
    drawn = convergence_of(result)
    assert drawn.time[-1] == result.time and (np.diff(drawn.time) >= 0).all()
    assert np.array_equal(drawn.fun[:-1], result.history["fun"]) and drawn.fun[-1] == result.fun
    assert np.array_equal(drawn.bound[-1], result.bound, equal_nan=True)
    assert not np.isinf(drawn.bound).any()
    ax = plot_convergence(result)
    labels = [line.get_label() for line in ax.get_lines()]
    assert labels == ["best found"] + ["bound"] * (method in ("auto", "exact"))
    for line, values in zip(ax.get_lines(), (drawn.fun, drawn.bound), strict=False):
        assert np.array_equal(line.get_ydata(), values, equal_nan=True)


def test_searches_have_no_bound_and_axes_may_be_given():
    result = treeopt.stepdirect(lambda x: float(np.round(x.sum(), 1)), [(0, 1)] * 3, max_evals=50)
    ax = Figure().subplots()
    assert plot_convergence(result, ax=ax) is ax
    assert ax.get_ylabel() == "value" and len(ax.get_lines()) == 1
    assert np.isnan(convergence_of(result).bound).all()


def test_a_run_without_a_point_is_drawn_too():
    result = treeopt.minimize(MODEL, [(0.2, 0.3)] + [(0, 1)] * 4, integer=[0])
    assert result.status is treeopt.Status.INFEASIBLE
    drawn = convergence_of(result)
    assert drawn.time.tolist() == [result.time] and np.isnan(drawn.fun).all()
    assert len(plot_convergence(result).get_lines()) == 1


def test_other_results_are_refused():
    with pytest.raises(treeopt.InputError, match="result is dict"):
        convergence_of({})
