"""Algorithm 1, as a cycle of steps that each ask for values and are told them.

So the same compiled code serves a Python function, which is called between two steps, and a
compiled ensemble, which is evaluated without leaving the loop.

Choice: m is compared with m_max at every evaluation, not once per iteration, so that it is never
exceeded; local searches count.
Choice: the local searches of all rectangles in S come first, side by side, then all their
divisions, in one batch. They do not depend on one another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.kernels.jit import inlined, kernel
from treeopt.stepdirect import refinement
from treeopt.stepdirect.paper import division, initialization, local_search, selection
from treeopt.stepdirect.paper.partition import rectangle_of, store
from treeopt.stepdirect.paper.state import (
    ASKED,
    BEST,
    DIVIDE,
    EVALUATED,
    FAILED,
    INITIAL,
    ITERATION,
    NONE,
    PARTITIONED,
    PHASE,
    REFINE,
    SEARCH,
    SELECT,
    SELECTED,
    UNSTORED,
)


@kernel
def advance(state: Any, rules: Any) -> Any:
    """Use the values of the points that were asked for, and ask for the next ones.

    The values must have been written by `record`.

    Returns
    -------
    int
        The number of points, from sample ``counter[EVALUATED]`` on; 0 if there is nothing left to
        divide; if negative, there must first be room for so many samples.
    """
    count = state.counter
    waiting = count[ASKED] > 0
    while True:
        if waiting:
            _tell(state, rules)
        if count[PHASE] == SELECT:
            selection.select(state, rules)
            if count[SELECTED] == 0:
                return 0
            if rules.local_search:
                local_search.start_search(state, rules)
            count[PHASE] = SEARCH if rules.local_search else DIVIDE
        room = count[EVALUATED] + _largest_batch(state, rules)
        if room > state.sample.size:
            return -room
        count[ASKED] = _ask(state, rules)
        if count[ASKED] > 0:
            return count[ASKED]
        waiting = True  # for nothing: the step is done


@kernel
def adopt(u: Any, values: Any, state: Any, rules: Any) -> None:
    """Take up points that were not asked for; those that were must all have been told.

    There must be room for them, and the initialization must be over or be told by this.
    """
    count = state.counter
    if count[ASKED] > 0:
        _tell(state, rules)
    for k in range(values.size):
        s = count[EVALUATED]
        state.u[s] = u[k]
        record(values[k : k + 1], count, state.sample)
        state.sample[s].follower = UNSTORED
        count[EVALUATED] += 1
        store(s, rectangle_of(state.u[s], state.node), state, rules.neighbourhood)


@kernel
def record(values: Any, count: Any, sample: Any) -> None:
    """Write the values of the points that were asked for, and update f_min and x_min.

    What is not finite has failed, and becomes infinity.
    """
    for k in range(values.size):
        s = count[EVALUATED] + k
        sample[s].f = np.inf
        if not np.isfinite(values[k]):
            count[FAILED] += 1
            continue
        sample[s].f = values[k]
        if count[BEST] == NONE or values[k] < sample[count[BEST]].f:
            count[BEST] = s


@inlined
def _largest_batch(state: Any, rules: Any) -> Any:
    """Return how many points the current step may ask for."""
    p = state.weight.size
    n = max(2 * p + 1, rules.diagonal + 1, rules.batch)
    if state.counter[PHASE] == SEARCH:
        n = state.counter[SELECTED] * rules.n_directions
    elif state.counter[PHASE] == DIVIDE:
        n = state.counter[SELECTED] * 2 * (p if rules.all_sides else 1)
    return n


@inlined
def _ask(state: Any, rules: Any) -> Any:
    """Propose the points of the current step; return their number."""
    phase = state.counter[PHASE]
    if phase == INITIAL:
        n = initialization.ask_initial(state, rules)
    elif phase == SEARCH:
        n = local_search.ask_search(state, rules)
    elif phase == DIVIDE:
        n = division.ask_division(state, rules)
    else:
        n = refinement.ask_refinement(state, rules)
    return n


@inlined
def _tell(state: Any, rules: Any) -> None:
    """Let the current step use its values, and go on to the next one."""
    count = state.counter
    asked = count[ASKED]
    for s in range(count[EVALUATED], count[EVALUATED] + asked):
        state.sample[s].follower = UNSTORED
    count[EVALUATED] += asked
    count[ASKED] = 0
    phase = count[PHASE]
    if phase != REFINE:
        count[PARTITIONED] += asked
    if phase == SEARCH and asked > 0:
        local_search.tell_search(state, rules)
    elif phase == SEARCH:
        count[PHASE] = DIVIDE
    else:
        if phase == INITIAL:
            initialization.tell_initial(state, rules)
        elif phase == DIVIDE:
            division.tell_division(state, rules)
            count[ITERATION] += 1
        else:
            refinement.tell_refinement(asked, state, rules)
        ahead = count[PARTITIONED] > rules.share * count[EVALUATED]
        count[PHASE] = REFINE if ahead else SELECT
