"""StepDIRECT: black-box optimization of stepwise functions.

D. T. Phan, H. Liu and L. M. Nguyen, "StepDIRECT - A Derivative-Free Optimization Method for
Stepwise Functions". One module per section of the paper: `initialization` (3.1), `selection` with
`variability` (3.2), `division` of the `partition` (3.3), `local_search` (3.4); `algorithm` is
Algorithm 1, and `refinement` what the default adds.
"""

from __future__ import annotations

from treeopt.stepdirect.ask_tell import StepDirect
from treeopt.stepdirect.minimizer import stepdirect
from treeopt.stepdirect.settings import StepDirectSettings

__all__ = ["StepDirect", "StepDirectSettings", "stepdirect"]
