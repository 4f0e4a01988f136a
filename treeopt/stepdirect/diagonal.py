"""The start with few evaluations: points on the diagonal of the cube.

Where there are too few evaluations for two points along every axis, the default starts on the
diagonal instead. Parameters of one kind, which most are when there are many, need about the same
value.
"""

from __future__ import annotations

from treeopt.kernels.jit import inlined
from treeopt.stepdirect.paper.algorithm import collect
from treeopt.stepdirect.paper.partition import begin, store
from treeopt.stepdirect.paper.state import FIRST, State
from treeopt.stepdirect.refinement import GOLDEN
from treeopt.stepdirect.walk_state import SearchRules


@inlined
def ask_diagonal(state: State, rules: SearchRules) -> int:
    """Propose the center and ``rules.diagonal`` points with equal coordinates."""
    state.u[0] = 0.5
    for k in range(1, 1 + rules.diagonal):
        state.u[k] = (0.5 + k * GOLDEN) % 1.0
    return 1 + rules.diagonal


@inlined
def tell_diagonal(state: State, rules: SearchRules) -> None:
    """Store the points in the whole cube, which is not divided."""
    collect(state)
    begin(state, rules.paper.neighbourhood)
    for k in range(1, state.counter[0].evaluated):
        store(k, FIRST, state, rules.paper.neighbourhood)
