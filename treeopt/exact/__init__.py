"""The proven optimum: search and proof on the boxes of the leaves.

`attempt` leads from a problem to an answer. `starts` finds starting points, `reduction` removes
categories that cannot lead to the optimum, `list_leaves` lists the boxes, and `descent` finds good
points. `tree_search` is a branch and bound, with `box_lists` and `branching`; `dual_search` is a
second one, with the stronger bound of `dual`, for problems that take long. `certificate` makes
their bounds valid for floating-point predictions, and `solver` runs them all. `exact_settings` has
every number that tunes them.
"""
