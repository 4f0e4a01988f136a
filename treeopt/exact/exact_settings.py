"""The settings of the exact solver: every number that tunes it, in one place."""

from __future__ import annotations

from dataclasses import dataclass

MS = 1_000_000
"""One millisecond of work. Work is counted in nanoseconds on a typical machine."""


@dataclass(frozen=True, kw_only=True)
class ExactSettings:
    """Tuning of the exact solver: how the work is divided, and how much memory it may take.

    No setting changes what is proven, only how long it takes. Work is an estimate that is counted,
    not measured: a unit is about one nanosecond on a typical machine. So the result of a run does
    not depend on the speed of the machine unless a limit ends it.

    Parameters
    ----------
    start_work : int
        Work of the local search before the proof begins. More finds better first points, which
        lets the proof discard more; wasted on easy problems.
    first_work, max_work : int
        Work of the first turn of the proof, and the maximum of later turns; each turn has twice the
        work of the previous one. Limits and the callback are checked between turns.
    first_search_work, first_failures : int
        Work of the local search after the first turn of a proof with constraints, or after the
        third turn of one with costs or several models alone, and number of descents in a row
        without a better point that end it earlier.
    region_programs : int
        Maximum number of linear programs for a region of the proof.
    local_programs : int
        Maximum number of linear programs for the region in which a descent with constraints ends.
    max_wait : int
        Maximum number of plunges without a linear program, after programs that were of no use.
    search_share, late_search_share : float
        Work of the local search per unit of work of the proof: at first, and after
        ``max_failures`` descents in a row have found nothing better. Problems with constraints,
        costs or several models have the second share after ``first_search_work``.
    max_failures : int
        Number of descents without improvement after which the local search slows down.
    dual_after : int
        Work of the plain tree search after which the search with the dual bound starts beside it.
    race_work : int
        Work of both searches together after which only the one with the better bound continues.
    slice_boxes : int
        Number of boxes that are listed between two checks of the limits.
    long_step : int
        If one step may read more numbers than this between two checks of the limits, the steps run
        in a thread of their own.
    descent_passes : int
        Expected number of passes over all boxes per descent. Only used to recognize long steps.
    copied_numbers : int
        Numbers that are copied between two checks of the limits after boxes were listed.
    max_boxes : int
        Maximum number of boxes. Beyond it the problem is refused: sets of categories along several
        features multiply.

    reduction_descents : int
        Number of starts from which the reduction of categories descends to find a good point.
    min_boxes_per_leaf : int
        The reduction is skipped if there are not more boxes per leaf than this.
    max_reduction_cells : int
        The reduction includes numeric features whose leaves times cells do not exceed this.
    reduction_slice : int
        Leaves times cells that the reduction handles between two checks of the limits.
    reduction_leaves : int
        Points times trees whose leaves the reduction looks up between two checks of the limits.

    n_starts : int
        Number of rows of the data from which the local search starts, or of random points if
        there are no data.
    grace_seconds : float
        Maximum time to evaluate starting points if a limit is reached before the search begins.
    n_elite : int
        Number of different local minima that the local search keeps to start from again.
    crossover_share : float
        Share of the descents that start from a mixture of two kept minima. The others start near
        one of them.
    min_penalty : float
        Minimum share of the first penalty of violated constraints with which a descent begins.
    min_mutations, max_mutations : int
        Number of coordinates that are set at random in a start near a kept minimum.
    pass_work : float
        Work per box of one pass of the local search, or of one move.
    descent_work : int
        Work per descent beside its passes and moves.
    stroll_work, place_work, axis_work : float
        For problems with constraints or costs: work per box of one pass, and how many boxes a
        place and a feature count for.

    heap_nodes : int
        Number of open nodes for which the tree search has room at first.
    plunge_nodes : int
        Number of nodes after which a plunge of the tree search ends and the best open node is taken
        instead. More is faster per node, but visits nodes with worse bounds.
    general_plunge_nodes : int
        The same for problems with constraints, costs or several models, where a plunge takes longer
        to begin.
    max_levels : int
        Maximum depth of a plunge.
    tree_min_gain : float
        A side of a cut that gains nothing counts as if it gained this fraction of the slack, so
        that cuts which gain on one side only are still compared.
    tree_bytes : int
        Memory for open nodes of the tree search, over all threads. Beyond it a plunge continues
        until nothing below it is open.
    copied_bytes : int
        Bytes that are copied between two checks of the limits while the pool of nodes grows.
    box_work : int
        Work of the tree search per box that it visits.
    max_ties : int
        Maximum number of ties that are kept with their boxes; only the lowest bound of the others
        is known.

    step_bits : int
        Sums of the dual bound are multiples of a step this many bits below the largest sum. More
        bits round less, but leave less room for exact additions (52 bits in all).
    sweeps : int
        Sweeps of price updates over all features at each node. More raise the bound of a node
        further and take longer.
    root_rounds : int
        Number of times that the root gets its sweeps before it is divided.
    dual_bytes : int
        Memory for open nodes of the search with the dual bound. Beyond it the search goes deep
        first.
    shrink_ratio : int
        If more than one place in this many was excluded, the node is shrunk and its bound raised
        again.
    dual_min_gain : float
        A side of a cut that gains nothing counts as if it gained this fraction of what is missing
        to the cutoff, divided by the number of trees.
    slice_visits : int
        Number of boxes, segments and spans that the dual bound visits between two checks of the
        time.
    span_work : int
        Work per span or box of one sweep of the dual bound.
    """

    start_work: int = MS // 2
    first_work: int = MS // 2
    max_work: int = 20 * MS
    first_search_work: int = 50 * MS
    first_failures: int = 8
    region_programs: int = 2000
    local_programs: int = 20
    max_wait: int = 15
    search_share: float = 0.3
    late_search_share: float = 0.05
    max_failures: int = 100
    dual_after: int = 300 * MS
    race_work: int = 1000 * MS
    slice_boxes: int = 50_000
    long_step: int = 20_000_000
    descent_passes: int = 60
    copied_numbers: int = 1_000_000
    max_boxes: int = 20_000_000

    reduction_descents: int = 3
    min_boxes_per_leaf: int = 4
    max_reduction_cells: int = 20_000_000
    reduction_slice: int = 2_000_000
    reduction_leaves: int = 200_000

    n_starts: int = 30
    grace_seconds: float = 0.02
    n_elite: int = 20
    crossover_share: float = 0.5
    min_penalty: float = 0.01
    min_mutations: int = 2
    max_mutations: int = 4
    pass_work: float = 2.5
    descent_work: int = 50_000
    stroll_work: float = 1.0
    place_work: float = 1.5
    axis_work: float = 700.0

    heap_nodes: int = 2**12
    plunge_nodes: int = 100
    general_plunge_nodes: int = 400
    max_levels: int = 256
    tree_min_gain: float = 1e-6
    tree_bytes: int = 2**30
    copied_bytes: int = 2**23
    box_work: int = 15
    max_ties: int = 64

    step_bits: int = 46
    sweeps: int = 3
    root_rounds: int = 8
    dual_bytes: int = 2**31
    shrink_ratio: int = 20
    dual_min_gain: float = 1e-3
    slice_visits: int = 500_000
    span_work: int = 50


DEFAULT_SETTINGS = ExactSettings()
"""What is used where no settings are given."""
