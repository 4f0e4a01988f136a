"""Algorithm 1, StepDIRECT.

As printed::

    c_1 = (0.5, ..., 0.5), x_min = c_1, f_min = f(c_1), k = m = 1
    run the Initialization Step to get P_1, f_H, f_min and x_min              (Sect. 3.1)
    while m <= m_max:
        identify the set S of potentially optimal hyper-rectangles in P_k     (Sect. 3.2)
        for j in S:
            a) perform a local search over H_j to get f_Hj                    (Sect. 3.4)
            b) divide H_j into smaller hyper-rectangles, update P_k           (Sect. 3.3)
            c) evaluate f at the centres of the new ones, update f_H
        update m, f_min and x_min from steps a and c
        k = k + 1

==========================================  =======================================================
the paper                                   here
==========================================  =======================================================
Definition 1, stepwise function             an assumption about f; no code depends on it
Initialization Step, s_i (Sect. 3.1)        `initialization.ask_initial`, `tell_initial`
S, Definition 2 (Eq. 7 and 8)               `selection.select`, `potentially_optimal`
Lemma 1 (a), (b), (c)                       commented in `selection.potentially_optimal`
σ_j (Eq. 9), N_j, N_j^D                     `variability.enter`, `leave`, `revalue`
Alg. 1 step a, Algorithm 2                  `local_search.start_search`, `ask_search`,
                                            `draw_directions`, `tell_search`
Alg. 1 step b, v = w l (Eq. 12)             `division.split_axis`, `partition.divide`
Alg. 1 step c                               `division.ask_division`, `partition.store`
m, f_min, x_min                             `record`, `collect`
k = k + 1                                   `tell`
while m <= m_max                            the caller of `advance`
symbols                                     the table in `state`
==========================================  =======================================================

`advance` is the body of the while loop. It returns whenever it needs values, so that the same
compiled code serves a Python function, which is called in between, and a compiled ensemble, which
is evaluated without leaving the compiled loop.

Choice: m is compared with m_max at every evaluation, not once per iteration, so that it is never
exceeded; evaluations of local searches count.
Choice: the local searches of all rectangles of S come first, side by side, then all divisions, in
one batch. They do not depend on each other.
"""

from __future__ import annotations

import numpy as np

from treeopt.kernels.jit import inlined, kernel
from treeopt.stepdirect.paper import division, initialization, local_search, selection
from treeopt.stepdirect.paper.rules import Rules
from treeopt.stepdirect.paper.state import (
    DIVIDE,
    INITIAL,
    NONE,
    SEARCH,
    SELECT,
    UNSTORED,
    State,
)
from treeopt.types import Array, RecordArray

# What `advance` returns if it asks for no points; -n for n > 1 asks for room for n samples.
ITERATION_OVER, EXHAUSTED = 0, -1


@inlined
def advance(state: State, rules: Rules) -> int:
    """Continue the current iteration of Algorithm 1 until it needs values or is over.

    The values of the last points must have been written by `record`.

    Returns
    -------
    int
        The number of points to evaluate next, which are samples ``counter.evaluated`` and
        following; ITERATION_OVER, also after the Initialization Step; EXHAUSTED if S is empty; or
        -n if the state must first grow to n samples.
    """
    count = state.counter[0]
    waiting = count.asked > 0
    while True:
        if waiting:
            tell(state, rules)
            if count.phase == SELECT:
                return ITERATION_OVER
        elif count.phase == SELECT:
            selection.select(state, rules)
            if count.selected == 0:
                return EXHAUSTED
            if rules.local_search:
                local_search.start_search(state, rules)
            count.phase = SEARCH if rules.local_search else DIVIDE
        room: int = count.evaluated + _largest_batch(state, rules)
        if room > state.sample.size:
            return -room
        n: int = _ask(state, rules)
        count.asked = n
        if n > 0:
            return n
        waiting = True  # for nothing: the step is over


@inlined
def _largest_batch(state: State, rules: Rules) -> int:
    """Return the maximum number of points that the current step may ask for."""
    count, p = state.counter[0], state.weight.size
    n = 2 * p + 1
    if count.phase == SEARCH:
        n = count.selected * rules.n_directions
    elif count.phase == DIVIDE:
        n = count.selected * 2 * (p if rules.all_sides else 1)
    return n


@inlined
def _ask(state: State, rules: Rules) -> int:
    """Propose the points of the current step; return their number."""
    phase = state.counter[0].phase
    if phase == INITIAL:
        n: int = initialization.ask_initial(state)
    elif phase == SEARCH:
        n = local_search.ask_search(state, rules)
    else:
        n = division.ask_division(state, rules)
    return n


@inlined
def tell(state: State, rules: Rules) -> None:
    """Let the current step use its values, and go to the next one."""
    count = state.counter[0]
    n = collect(state)
    if count.phase == INITIAL:
        initialization.tell_initial(state, rules)
        count.phase = SELECT
    elif count.phase == DIVIDE:
        division.tell_division(state, rules)
        count.iteration += 1
        count.phase = SELECT
    elif n > 0:
        local_search.tell_search(state, rules)
    else:
        count.phase = DIVIDE


@inlined
def collect(state: State) -> int:
    """Count the points whose values are known now, and return their number."""
    count = state.counter[0]
    n: int = count.asked
    for s in range(count.evaluated, count.evaluated + n):
        state.sample[s].follower = UNSTORED
    count.evaluated += n
    count.asked = 0
    return n


@kernel
def record(values: Array, counter: RecordArray, sample: RecordArray) -> None:
    """Write the values of the points that were asked for, and update f_min and x_min.

    Values that are not finite count as failed, and become infinity.
    """
    count = counter[0]
    for k in range(values.size):
        s = count.evaluated + k
        sample[s].f = np.inf
        if not np.isfinite(values[k]):
            count.failed += 1
            continue
        sample[s].f = values[k]
        if count.best == NONE or values[k] < sample[count.best].f:
            count.best = s
