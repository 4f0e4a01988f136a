"""The answer: results, and their words."""
