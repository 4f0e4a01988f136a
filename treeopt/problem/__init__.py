"""The question: the inputs to choose, the prediction, and the grid that both share."""
