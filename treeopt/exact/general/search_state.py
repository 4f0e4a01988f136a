"""The state of a search: open nodes, the levels of a plunge, and room for the steps at a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treeopt.exact.box_lists import Lists
from treeopt.exact.branching import CutRoom, new_cut_room, new_events
from treeopt.exact.exact_settings import ExactSettings
from treeopt.exact.tree_search import Heap, push

if TYPE_CHECKING:
    from treeopt.exact.general.statement import Statement
    from treeopt.types import Array, FloatArray, Int32Array, IntArray

GENERAL_STATE = np.dtype(
    [
        ("n_open", np.int64),  # open nodes on the heap
        ("n_unused", np.int64),  # unused rows of the pool
        ("level", np.int64),  # level of the plunge; -1: none
        ("nodes", np.int64),  # nodes so far
        ("plunged", np.int64),  # nodes of this plunge
        ("plunge_nodes", np.int64),  # maximum number of nodes of a plunge
        ("spent", np.int64),  # work so far, in boxes visited
        ("n_rays", np.int64),  # rays that are kept
        ("wait", np.int64),  # plunges before the next linear program
        ("asked", np.int64),  # what the caller has to do: NOTHING, POINT, BOX or ROWS
        ("best", np.float64),  # value of the best point
        ("tolerance", np.float64),  # nodes that are less than this below the best are closed
        ("tie_bound", np.float64),  # lowest bound of the nodes that were closed so
        ("asked_bound", np.float64),  # bound of the node that is asked about
        ("asked_level", np.int64),  # level of that node
    ]
)
"""State of a search, as one record."""

NOTHING, POINT, BOX, ROWS = range(4)
"""What a caller has to do: nothing; check a point; solve a box in which no tree is left; solve the
linear program of a node."""

MAX_RAYS = 16
"""Number of rays that are kept: combinations of rows that have shown that a node is empty."""

LEVEL = np.dtype(
    [
        ("bound", np.float64),
        ("pending", np.int64),  # how many of the two children are still to be visited
        ("feature", np.int64),  # the cut: feature, last place on the left
        ("cut", np.int64),
        ("first_side", np.int64),  # the side that is visited first
        ("left_bound", np.float64),  # bounds of the children
        ("right_bound", np.float64),
        ("end", np.int64),  # end of its lists in the arena
    ]
)
"""The node at a level of the plunge, as a record."""

LEVEL_SUM = np.dtype(
    [
        ("constant", np.float64),  # the constant and the value of folded trees
        ("bound", np.float64),  # lower bound of the sum
        ("n_trees", np.int64),  # trees that have lists
        ("at", np.int64),  # position of the lists in the arena
        ("end", np.int64),
    ]
)
"""A sum at a level, as a record."""


FEATURE_ROOM = np.dtype(
    [
        ("low", np.float64),  # ends of its numbers in a box
        ("high", np.float64),
        ("cost", np.float64),  # lowest cost in a box
        ("tilt", np.float64),  # what the multipliers of the rows add to its cost per unit
        ("at", np.float64),  # number of the lowest cost
        ("slope", np.float64),  # cost per unit with multipliers, unless the gains are listed
        ("point_place", np.int64),  # place of the point that is asked about
        ("new_low", np.int64),  # what is left of a box
        ("new_high", np.int64),
        ("common_low", np.int64),  # what the best leaves of the objective have in common
        ("common_high", np.int64),
        ("has_moved", np.bool_),  # to its other end, as a multiplier grows
        ("is_changed", np.bool_),  # whether a box is narrower than its lists
        ("is_narrower", np.bool_),  # whether it has become narrower since
        ("is_cut", np.bool_),  # whether its cuts have scores and gains
        ("has_table", np.bool_),  # whether the gains of its costs are listed cut by cut
    ],
    align=True,
)
"""Room for one feature at a node, as a record."""


class Room(NamedTuple):
    """Room for the steps at a node; scores, gains and events are 0 on entry."""

    cut: CutRoom
    feature: Array  # records of `FEATURE_ROOM`
    point: FloatArray  # the point that is asked about
    sums: FloatArray  # lower bounds of all sums
    slack: FloatArray  # by how much each sum may grow
    trial: FloatArray  # sums at a point
    changed: IntArray
    event: IntArray  # a bit for each place: whether scores or gains differ from those before
    score: FloatArray  # [side, place]: gains relative to the slacks, as differences
    gain: FloatArray  # [side, place]: gains of the objective's trees, as differences
    cost: FloatArray  # [side, place]: gains of costs that are not proportional to the number


class General(NamedTuple):
    """The whole state of a search."""

    state: Array  # one record of `GENERAL_STATE`
    heap: Heap
    lists: Lists
    level: Array  # records of `LEVEL`
    level_box: Int32Array
    level_y: FloatArray  # multipliers of the rows at each level
    level_sum: Array  # records of `LEVEL_SUM`, [level, sum]
    root_y: FloatArray  # multipliers that a plunge starts with
    rays: FloatArray  # [ray, row]: multipliers that have shown that a node is empty
    room: Room


def new_general(statement: Statement, settings: ExactSettings) -> General:
    """Return a search whose root is open."""
    leaves = statement.leaves
    p, n_boxes = leaves.low.shape[0], leaves.value.size
    n_trees, n_sums = leaves.start.size - 1, statement.sums.size
    levels, room, n_rows = settings.max_levels, settings.heap_nodes, statement.rows.row.size
    n_places = int(leaves.place_start[-1])
    state = np.zeros(1, GENERAL_STATE)
    state["level"], state["n_unused"] = -1, room
    state["plunge_nodes"] = settings.general_plunge_nodes
    state["best"] = state["tie_bound"] = np.inf
    search = General(
        state=state,
        heap=Heap(
            bound=np.empty(room),
            node=np.empty(room, np.int64),
            pool=np.empty((room, 2 * p), np.int32),
            unused=np.arange(room)[::-1].copy(),
        ),
        lists=Lists(
            value=np.empty(n_boxes),
            box=np.empty((n_boxes, 2 * p), np.int32),
            arena=np.empty(8 * (n_boxes + n_trees + 2 * n_sums + 2), np.int32),
        ),
        level=np.zeros(levels, LEVEL),
        level_box=np.empty((levels, 2 * p), np.int32),
        level_y=np.zeros((levels, n_rows)),
        level_sum=np.zeros((levels, max(n_sums, 1)), LEVEL_SUM),
        root_y=np.zeros(n_rows),
        rays=np.zeros((MAX_RAYS, n_rows)),
        room=_new_room(p, n_places, n_sums),
    )
    root = np.append(np.zeros(p), np.diff(leaves.place_start) - 1).astype(np.int32)
    push(search.state, search.heap, root, -np.inf)
    return search


def _new_room(p: int, n_places: int, n_sums: int) -> Room:
    """Return room for the steps at a node."""
    return Room(
        cut=new_cut_room(p, n_places),
        feature=np.zeros(p, FEATURE_ROOM),
        point=np.zeros(p),
        sums=np.zeros(n_sums),
        slack=np.zeros(n_sums),
        trial=np.zeros(n_sums),
        changed=np.zeros(p, np.int64),
        event=new_events(n_places),
        score=np.zeros((2, n_places)),
        gain=np.zeros((2, n_places)),
        cost=np.zeros((2, n_places)),
    )
