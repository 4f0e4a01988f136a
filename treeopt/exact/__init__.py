"""The proven optimum: search and proof on the boxes of the leaves.

`reduction` leaves out hopeless categories, `leaves` lists the boxes and `local_search` finds good
points. `tree_search` is the branch and bound, with its `lists` and `branching`; `dual_search` is
another, with the stronger bound of `dual`, for problems that take long. `certificate` makes their
bounds true of floating-point predictions, and `solver` runs them all.
"""
