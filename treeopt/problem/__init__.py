"""The question: the inputs to choose, the objective, and the grid that both share."""
