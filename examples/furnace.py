"""What should the operator set? A first prescriptive job, from data to a decision with proof.

A furnace turns ore into metal. The yield depends on the ore and the weather, which nobody can
change, and on three controls: the temperature, the air flow, and the number of bags of flux. A
forest is trained on last year's log. For the batch that waits now, treeopt says what to set, proves
that the model knows nothing better, and tells how exactly the settings have to be kept.

    python examples/furnace.py

Needs pandas.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import treeopt

CONTEXT = ["grade", "moisture", "humidity", "feed"]
LIMITS = {"temperature": (1150, 1350), "air": (40, 90), "bags": (0, 8)}


def last_year(n: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return a made-up log: what came in, what was set, and what came out."""
    rng = np.random.default_rng(seed)
    log = pd.DataFrame(
        {
            "grade": rng.normal(0.6, 0.08, n).clip(0.35, 0.85),
            "moisture": rng.uniform(2, 12, n),
            "humidity": rng.uniform(20, 95, n),
            "feed": rng.normal(30, 4, n),
            "temperature": rng.normal(1240, 40, n).clip(*LIMITS["temperature"]),
            "air": rng.normal(62, 9, n).clip(*LIMITS["air"]),
            "bags": rng.integers(0, 9, n),
        }
    )
    # Wet ore wants a hotter furnace, rich ore more air; too much flux is as bad as too little.
    hot = 1220 + 9 * (log["moisture"] - 7)
    airy = 45 + 40 * log["grade"]
    flux = 1 + 0.08 * log["feed"] + 0.02 * log["humidity"]
    log["yield"] = (
        100 * log["grade"]
        - 0.0018 * (log["temperature"] - hot) ** 2
        - 0.03 * (log["air"] - airy) ** 2
        - 0.9 * (log["bags"] - flux) ** 2
        + rng.normal(0, 1.5, n)
    )
    return log


def decide(seed: int = 0) -> tuple[pd.Series, float, treeopt.Decision, RandomForestRegressor]:
    """Return today's batch with its settings, what it would yield, the decision and the model."""
    log = last_year(seed=seed)
    features = log.drop(columns="yield")
    model = RandomForestRegressor(random_state=0).fit(features, log["yield"])

    today = features.iloc[-1]
    as_it_is = float(model.predict(today.to_frame().T)[0])
    best = treeopt.maximize(
        model,
        LIMITS,  # what can be changed, and how far
        fixed=today[CONTEXT],  # what cannot
        integer=["bags"],
        rng=0,
    )
    return today, as_it_is, best, model


def main() -> None:
    today, as_it_is, best, model = decide()
    print(f"{'':>12} {'today':>10} {'better':>10}   stays the same within")
    for k, name in enumerate(model.feature_names_in_):
        if name in LIMITS:
            low, high = best.region.lower[k], best.region.upper[k]
            print(
                f"{name:>12} {today[name]:>10.2f} {best.x[name]:>10.2f}   {low:.2f} .. {high:.2f}"
            )
    print(f"{'yield':>12} {as_it_is:>10.2f} {best.fun:>10.2f}   {best.fun - as_it_is:+.2f}")
    print(
        f"\nNo setting within the limits is predicted above {best.bound:.2f} (gap {best.gap:.2g})."
    )
    print(
        f"{best.nodes} nodes, {1000 * best.time:.0f} ms; the forest says {best.fun} itself:",
        end=" ",
    )
    print(bool(model.predict(best.frame)[0] == best.fun))


if __name__ == "__main__":
    main()
