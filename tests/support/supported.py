"""The table of supported models.

``python -m tests.support.supported`` writes ``docs/supported.md``.

What is listed comes from the registry of adapters, what is said of it from the cases that the
adapter tests run.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from tests.adapters.test_refusals import REFUSED
from tests.support.cases import TABLES, fitted
from tests.support.models import Case
from treeopt import TreeoptError
from treeopt.adapters import ADAPTERS, hist_gradient_boosting
from treeopt.adapters.outputs import Refusal
from treeopt.model.link import Link

PATH = Path(__file__).parents[2] / "docs" / "supported.md"
TITLES = {"sklearn": "scikit-learn", "xgboost": "XGBoost", "lightgbm": "LightGBM"}
PREDICTIONS = {
    "identity": "the sum",
    "exp": "e^sum",
    "logistic": "1 / (1 + e^-sum)",
    "square": "sum · |sum|",
    "softplus": "log(1 + e^sum)",
}

HEAD = """\
# What is supported

Made by `python -m tests.support.supported` from the registry of adapters and the cases of the
adapter tests; a test compares it with both.

## Models

Each case is a fitted model whose predictions are compared, to the last bit, with those of its own
library: on its training data, on every threshold and both its neighbours in float32 and float64, on
every category, known or not, on missing and extreme values; and so are its moves, lines and leaf
boxes. `(k, j)` is the difference of two classes' margins; its moves, lines and leaf boxes are those
of its two sums.
"""

OBJECTIVES = """\
## Objectives

What `output="auto"` and `"predict"` give; `output="raw"` is the sum, of any of them. For
classifiers it is the probability.
"""

REFUSALS = """\
## What is refused

Each is an error that says why and what to do instead; the tests have one case for every line.
"""


def every_case() -> list[Case]:
    """Return all cases of the adapter tests."""
    return [fitted(library, name) for library, names in TABLES.items() for name in names]


def registry() -> list[tuple[str, str]]:
    """Return library and class of every model that an adapter reads."""
    pairs = ((library, import_module(module).MODELS) for library, module in ADAPTERS.items())
    return [(library, name) for library, names in pairs for name in names]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def models() -> str:
    header = ("library", "model", "outputs", "missing values", "categories", "cases")
    return markdown(header, [row(*pair) for pair in registry()])


def row(library: str, name: str) -> list[str]:
    """Return what the cases of one class show."""
    cases = [
        case
        for case in every_case()
        if case.model_name == name and type(case.model).__module__.split(".")[0] == library
    ]
    outputs = {case.output for case in cases}
    if any(case.class_kind == "difference" for case in cases):
        outputs.add("raw (k, j)")
    kinds = [outputs, {case.has_missing for case in cases}, {case.has_categories for case in cases}]
    shown = ", ".join(f"`{o}`" for o in sorted(kinds[0]))
    yes_no = ["yes" if True in kind else "no" for kind in kinds[1:]]
    return [TITLES[library], f"`{name}`", shown, *yes_no, str(len(cases))]


def objectives() -> str:
    rows = []
    for library, module in ADAPTERS.items():
        table = getattr(import_module(module), "OBJECTIVES", {})
        for objective, link in table.items():
            rows.append([TITLES[library], f"`{objective}`", meaning(link)])
    for loss, link in hist_gradient_boosting.LINKS.items():
        rows.append(["HistGradientBoostingRegressor", f"`{loss}`", meaning(link)])
    return markdown(("library", "objective", "prediction"), rows)


def meaning(link: Link | Refusal) -> str:
    return PREDICTIONS[link.name] if isinstance(link, Link) else f"none: {link.why}"


def refusals() -> str:
    return markdown(("model", "error"), [(name, refusal(name)) for name in REFUSED])


def refusal(name: str) -> str:
    make, outputs, *_ = REFUSED[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(outputs[0])
    except TreeoptError as error:
        return str(error).replace("|", "\\|")
    raise AssertionError(f"{name} is not refused")


def text() -> str:
    parts = (HEAD, models(), OBJECTIVES, objectives(), REFUSALS, refusals())
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text(), encoding="utf-8")
