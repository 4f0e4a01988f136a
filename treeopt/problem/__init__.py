"""The question: what may be chosen, what is to be minimised, and the grid that both share."""
