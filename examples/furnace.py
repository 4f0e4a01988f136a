"""Find the best settings of a furnace, from data to a proven decision.

A furnace turns ore into metal. The yield depends on the ore and the weather, which cannot be
changed, and on three controls: the temperature, the air flow, and the number of bags of flux. A
forest is trained on last year's log. For the current batch, treeopt finds the settings with the
maximum predicted yield, proves that no others are better, and shows how much they may vary without
changing the prediction.

    python examples/furnace.py

Requires pandas.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import treeopt

CONTEXT = ["grade", "moisture", "humidity", "feed"]
LIMITS = {"temperature": (1150, 1350), "air": (40, 90), "bags": (0, 8)}


def last_year(n: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return an artificial log: inputs, settings and yield of each batch."""
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
    # Wet ore needs a hotter furnace, rich ore more air. Too much flux is as bad as too little.
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
    """Return today's batch with its settings, its predicted yield, the decision and the model."""
    log = last_year(seed=seed)
    features = log.drop(columns="yield")
    model = RandomForestRegressor(random_state=0).fit(features, log["yield"])

    today = features.iloc[-1]
    current = float(model.predict(today.to_frame().T)[0])
    best = treeopt.maximize(
        model,
        LIMITS,  # bounds of the features that can be changed
        fixed=today[CONTEXT],  # features that cannot be changed
        integer=["bags"],
        rng=0,
    )
    return today, current, best, model


def main() -> None:
    today, current, best, model = decide()
    print(f"{'':>12} {'today':>10} {'best':>10}   same prediction within")
    for k, name in enumerate(model.feature_names_in_):
        if name in LIMITS:
            low, high = best.region.lower[k], best.region.upper[k]
            print(
                f"{name:>12} {today[name]:>10.2f} {best.x[name]:>10.2f}   {low:.2f} .. {high:.2f}"
            )
    print(f"{'yield':>12} {current:>10.2f} {best.fun:>10.2f}   {best.fun - current:+.2f}")
    print(
        f"\nNo settings within the bounds have a prediction above {best.bound:.2f} "
        f"(gap {best.gap:.2g})."
    )
    print(f"The proof took {best.nodes} nodes and {1000 * best.time:.0f} ms.")
    same = bool(model.predict(best.frame)[0] == best.fun)
    print(f"The forest's own predict returns exactly {best.fun}: {same}")


if __name__ == "__main__":
    main()
