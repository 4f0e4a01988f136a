"""Search and proof for problems with constraints, costs, or more than one prediction.

Start with `statement`, which says what is minimized, and `tree`, which proves it.
"""
