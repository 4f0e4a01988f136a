"""The schedule of the search: the paper's algorithm and, in turn, the refinement.

After every iteration of Algorithm 1 and every batch of the refinement, the one that has had less
than its share of the evaluations is next. With a share of 1 for the paper's algorithm this is
Algorithm 1 alone.
"""

from __future__ import annotations

from treeopt.kernels.jit import inlined, kernel
from treeopt.stepdirect.diagonal import ask_diagonal, tell_diagonal
from treeopt.stepdirect.paper import algorithm
from treeopt.stepdirect.paper.algorithm import EXHAUSTED, ITERATION_OVER, record
from treeopt.stepdirect.paper.partition import rectangle_of, store
from treeopt.stepdirect.paper.state import INITIAL, SELECT, UNSTORED, State
from treeopt.stepdirect.refinement import ask_refinement, tell_refinement
from treeopt.stepdirect.walk_state import REFINE, SearchRules, Walk
from treeopt.types import FloatArray


@kernel
def advance(state: State, walk: Walk, rules: SearchRules) -> int:
    """Use the values of the last points, and propose the next ones.

    The values must have been written by `record`.

    Returns
    -------
    int
        The number of points, which are samples ``counter.evaluated`` and following; 0 if no
        rectangle can be divided any more; -n if the state must first grow to n samples.
    """
    count = state.counter[0]
    waiting = count.asked > 0
    while True:
        if waiting and _is_ours(state, rules):
            _tell_ours(state, walk, rules)
            n: int = ITERATION_OVER
        elif _is_ours(state, rules):
            n = _ask_ours(state, walk, rules)
        else:
            walk.counter[0].partitioned += count.asked
            n = algorithm.advance(state, rules.paper)
        if n == EXHAUSTED:
            return 0
        if n != ITERATION_OVER:
            return n
        _take_turns(state, walk, rules)
        waiting = False


@kernel
def adopt(u: FloatArray, values: FloatArray, state: State, walk: Walk, rules: SearchRules) -> None:
    """Add points that were not proposed. The values of those that were must have been recorded.

    The state must have room, and the initialization must be over or have its values.
    """
    count = state.counter[0]
    if count.asked > 0:
        if _is_ours(state, rules):
            _tell_ours(state, walk, rules)
            _take_turns(state, walk, rules)
        else:
            walk.counter[0].partitioned += count.asked
            algorithm.tell(state, rules.paper)
            if count.phase == SELECT:
                _take_turns(state, walk, rules)
    for k in range(values.size):
        s = count.evaluated
        state.u[s] = u[k]
        record(values[k : k + 1], state.counter, state.sample)
        state.sample[s].follower = UNSTORED
        count.evaluated += 1
        store(s, rectangle_of(state.u[s], state.node), state, rules.paper.neighbourhood)


@inlined
def _is_ours(state: State, rules: SearchRules) -> bool:
    """Tell whether the current step is not one of the paper."""
    phase: int = state.counter[0].phase
    return phase == REFINE or (phase == INITIAL and rules.diagonal > 0)


@inlined
def _ask_ours(state: State, walk: Walk, rules: SearchRules) -> int:
    """Propose points of the current step, as `advance` returns them."""
    count = state.counter[0]
    room: int = count.evaluated + max(rules.diagonal + 1, rules.batch)
    n = -room
    if room <= state.sample.size:
        if count.phase == REFINE:
            n = ask_refinement(state, walk, rules)
        else:
            n = ask_diagonal(state, rules)
        count.asked = n
    return n


@inlined
def _tell_ours(state: State, walk: Walk, rules: SearchRules) -> None:
    """Let the current step use its values."""
    if state.counter[0].phase == REFINE:
        tell_refinement(state, walk, rules)
    else:
        walk.counter[0].partitioned += state.counter[0].asked
        tell_diagonal(state, rules)


@inlined
def _take_turns(state: State, walk: Walk, rules: SearchRules) -> None:
    """Decide what is next, by the evaluations so far."""
    count = state.counter[0]
    ahead = walk.counter[0].partitioned > rules.share * count.evaluated
    count.phase = REFINE if ahead else SELECT
