"""The variants of ``ablation.py``: one entry each in `PAPER` or `UNDO`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from treeopt import StepDirectSettings as S

OPTIMUM, AVERAGE, RANDOM = "proven optimum", "mean over the box", "random search"
"""References for the regret of the variants."""


@dataclass(frozen=True)
class Variant:
    """A variant: settings, optionally uniform weights, and optionally an edited line.

    ``edit`` is a line of ``treeopt/stepdirect/refinement.py`` and its replacement.
    """

    settings: S = S()  # noqa: RUF009 (it is frozen)
    uniform: bool = False
    edit: tuple[str, str] | None = None

    def __str__(self) -> str:
        text = repr(self.settings) + (", uniform weights" if self.uniform else "")
        return text if self.edit is None else f"{text}, {self.edit[1].strip()}"


PAPER_IDEAS = ("σ", "weights", "local search")
PAPER_BASE, DEFAULT_BASE = "StepDIRECT", "default"


def combination(sigma: bool, weights: bool, local_search: bool) -> Variant:
    changes: dict[str, Any] = {} if sigma else {"neighbourhood": None}
    changes |= {} if local_search else {"local_search": None}
    return Variant(S.paper(**changes), uniform=not weights)


def combination_name(*has: bool) -> str:
    without = [idea for idea, on in zip(PAPER_IDEAS, has, strict=True) if not on]
    return PAPER_BASE + (f" without {', '.join(without)}" if without else "")


PAPER: dict[str, Variant] = {
    combination_name(*has): combination(*has) for has in product((True, False), repeat=3)
} | {"DIRECT": Variant(S.direct())}
"""The paper's algorithm without none, one, two or all three of its ideas."""

UNDO: dict[str, Variant] = {
    DEFAULT_BASE: Variant(),
    "no walk, the partition alone": Variant(S(refine=0.0)),
    "half of the evaluations for the walk": Variant(S(refine=0.5)),
    "no partition, the walk alone": Variant(S(refine=0.9999)),
    "with σ": Variant(S(neighbourhood=2.0)),
    "all ties selected": Variant(S(ties="all")),
    "with the paper's local search": Variant(S(local_search="coordinates")),
    "weights without a floor": Variant(S(weight_floor=0.0)),
    "no weights": Variant(uniform=True),
    "no shifts, jumps alone": Variant(S(shift=0.0)),
    "no jumps, shifts alone": Variant(S(shift=1.0)),
    "shifts down to a tenth only": Variant(S(decades=1.0)),
    "shifts down to 10⁻⁵": Variant(S(decades=5.0)),
    "no kicks": Variant(S(patience=10**6)),
    "kicks four times as early": Variant(S(patience=5)),
    "excursions cut short": Variant(S(excursion=1)),
    "jumps to random places": Variant(
        edit=(
            "    walk.golden[axis] = (walk.golden[axis] + GOLDEN) % 1.0\n",
            "    walk.golden[axis] = uniform(random)\n",
        )
    ),
    "axes at random, not in sweeps": Variant(
        edit=("axis = walk.sweep[own.dealt]\n", "axis = below(p, random)\n")
    ),
    "no preferred axes at first": Variant(edit=("PREFERRED = 0.7\n", "PREFERRED = 0.0\n")),
    "no second step after a success": Variant(
        edit=(
            "        elif own.again != NONE and continue_along(x, state, walk):\n",
            "        elif False:\n",
        )
    ),
    "ties are not kept": Variant(
        edit=("            if sample[s].f == sample[own.at].f:\n", "            if False:\n")
    ),
    "shifts of all coordinates": Variant(
        edit=("        if uniform(random) < 0.5 or i == surely:\n", "        if True:\n")
    ),
    "kicks of all coordinates": Variant(
        edit=("    share = uniform(random)\n", "    share = 1.0\n")
    ),
}
"""treeopt's default, and the default without one of its choices each."""

VARIANTS = PAPER | UNDO
