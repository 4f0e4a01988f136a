"""The public functions `minimize` and `maximize`, `Problem`, and the table of methods."""
