"""The examples run as a user would run them, and say what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import treeopt

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_runs_as_a_script(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip().endswith("True")


def test_the_furnace_gains_and_keeps_its_context():
    furnace = runpy.run_path(str(EXAMPLES / "furnace.py"))
    today, current, best, model = furnace["decide"]()
    assert best.status is treeopt.Status.OPTIMAL and best.gap <= best.rounding
    assert best.fun > current
    assert best.x[furnace["CONTEXT"]].tolist() == today[furnace["CONTEXT"]].tolist()
    for name, (low, high) in furnace["LIMITS"].items():
        assert low <= best.x[name] <= high
    assert best.x["bags"] == int(best.x["bags"])
    # No setting on a fine grid does better.
    rng = np.random.default_rng(0)
    trial = best.frame.loc[best.frame.index.repeat(3000)].reset_index(drop=True)
    for name, (low, high) in furnace["LIMITS"].items():
        trial[name] = rng.uniform(low, high, len(trial))
    trial["bags"] = trial["bags"].round()
    assert model.predict(trial).max() <= best.bound


def test_the_mixes_keep_their_conditions_and_nothing_tested_is_better():
    concrete = runpy.run_path(str(EXAMPLES / "concrete_mix.py"))
    strongest, cheapest, model = concrete["decide"]()
    mixes, _ = concrete["tested_mixes"](20_000, seed=1)
    total = mixes.sum(axis=1)
    allowed = mixes[total.between(2200, 2400) & (mixes["water"] <= 0.5 * mixes["cement"])]
    assert len(allowed) > 500
    for mix in (strongest, cheapest):
        assert mix.status is treeopt.Status.OPTIMAL and min(mix.slack.values()) >= 0
        assert 2200 <= mix.frame.to_numpy().sum() <= 2400
        assert mix.x["water"] <= 0.5 * mix.x["cement"]
        for name, (low, high) in concrete["RANGES"].items():
            assert low <= mix.x[name] <= high
    predicted = model.predict(allowed)
    assert predicted.max() <= strongest.bound
    strong = allowed[predicted >= concrete["STRONG"]]
    assert model.predict(cheapest.frame)[0] >= concrete["STRONG"] and len(strong)
    assert sum(strong[name] * price for name, price in concrete["PRICES"].items()).min() >= (
        cheapest.bound
    )
    # The total limits the strength, the strength the price.
    assert next(iter(strongest.binding())) == concrete["ROWS"][0]
    assert cheapest.binding()["RandomForestRegressor >= 50"] > 1
