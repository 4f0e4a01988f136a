"""Find the strongest and the cheapest mix of concrete, from data to proven decisions.

A cubic meter of concrete consists of cement, slag, water, gravel and sand. A forest is trained on
the strength of tested mixes. treeopt finds the strongest mix, and the cheapest mix above 50 MPa.
Both weigh between 2200 and 2400 kg in all, and have at most half as much water as cement. `slack`
shows by how much each condition holds, and `binding` what could be gained without it.

    python examples/concrete_mix.py

Requires pandas.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import treeopt

RANGES = {
    "cement": (150, 500),
    "slag": (0, 200),
    "water": (130, 230),
    "gravel": (950, 1150),
    "sand": (750, 950),
}
PRICES = {"cement": 0.12, "slag": 0.06, "water": 0.002, "gravel": 0.015, "sand": 0.012}  # per kg
ROWS = ["2200 <= cement + slag + water + gravel + sand <= 2400", "water <= 0.5*cement"]
STRONG = 50  # MPa


def tested_mixes(n: int = 1000, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Return artificial mixes in kg per cubic meter, and their strength in MPa."""
    rng = np.random.default_rng(seed)
    mixes = pd.DataFrame({name: rng.uniform(*ends, n) for name, ends in RANGES.items()})
    # Water weakens the binder. Slag binds less than cement. Too much sand costs some strength.
    binder = mixes["cement"] + 0.9 * mixes["slag"]
    sandy = mixes["sand"] / (mixes["sand"] + mixes["gravel"])
    strength = 15 * binder / mixes["water"] - 150 * (sandy - 0.42) ** 2 + rng.normal(0, 1, n)
    return mixes, strength.rename("strength")


def decide(seed: int = 0) -> tuple[treeopt.Decision, treeopt.Decision, RandomForestRegressor]:
    """Return the strongest mix, the cheapest strong mix, and the model."""
    mixes, strength = tested_mixes(seed=seed)
    model = RandomForestRegressor(n_estimators=30, min_samples_leaf=5, random_state=0)
    model.fit(mixes, strength)
    strongest = treeopt.maximize(model, RANGES, constraints=ROWS, rng=0)
    cheapest = treeopt.minimize(
        treeopt.Price(PRICES),
        RANGES,
        constraints=[*ROWS, treeopt.Predicted(model, low=STRONG)],
        rng=0,
    )
    return strongest, cheapest, model


def show(title: str, mix: treeopt.Decision, unit: str) -> None:
    """Print a mix, the slack of each condition, and the gain without it."""
    print(f"{title}: {mix.fun:.2f} {unit} ({mix.status.name.lower()})")
    print("  " + ", ".join(f"{name} {kg:.1f} kg" for name, kg in mix.x.items()))
    gains = mix.binding()
    print(f"  {'slack':>8} {'gain without':>14}")
    for label, slack in mix.slack.items():
        print(f"  {slack:>8.2f} {gains.get(label, 0.0):>14.2f}   {label}")
    # The bounds are the range of the tested mixes. The forest knows nothing beyond them.
    others = [label for label in gains if label not in mix.slack]
    print(f"  bounds that bind: {', '.join(others) or 'none'}\n")


def main() -> None:
    strongest, cheapest, model = decide()
    show("Strongest mix", strongest, "MPa")
    show("Cheapest strong mix", cheapest, "per cubic meter")
    same = bool(model.predict(strongest.frame)[0] == strongest.fun)
    strong = bool(model.predict(cheapest.frame)[0] >= STRONG)
    print(
        f"The forest's own predict returns the same, and at least {STRONG} MPa: {same and strong}"
    )


if __name__ == "__main__":
    main()
