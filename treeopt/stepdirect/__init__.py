"""StepDIRECT: black-box optimization of stepwise functions.

D. T. Phan, H. Liu and L. M. Nguyen, "StepDIRECT - A Derivative-Free Optimization Method for
Stepwise Functions". The subpackage `paper` is the published algorithm, one module per section.

==============================  ================================================================
`paper`                         Algorithm 1; it imports nothing of the other modules
`walk`                          state and rules of what the default adds
`refinement`, `diagonal`        what the default adds: a search around the best point, and a start
                                for few evaluations
`schedule`                      who is next: the paper's algorithm or the refinement
`on_ensemble`                   the compiled loop on an ensemble
`driver`                        the one place where Python drives the kernels
`ask_tell`, `saved`             `StepDirect` and its files
`evaluation`, `search`          calling functions, and a whole run
`minimizer`                     `stepdirect`
`settings`, `weights`           what users set
==============================  ================================================================
"""

from __future__ import annotations

from treeopt.stepdirect.ask_tell import StepDirect
from treeopt.stepdirect.minimizer import stepdirect
from treeopt.stepdirect.settings import StepDirectSettings

__all__ = ["StepDirect", "StepDirectSettings", "stepdirect"]
