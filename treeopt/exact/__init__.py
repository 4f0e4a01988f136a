"""The proven optimum: search and proof on the boxes of the leaves.

`leaves` lists the boxes, `local_search` finds good points, `tree_search` is the branch and bound,
with its `lists`, `branching` and `merging`; `certificate` makes its bounds true of floating-point
predictions, and `solver` runs them all.
"""
