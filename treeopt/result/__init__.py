"""Results, and their text representation."""
