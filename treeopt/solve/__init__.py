"""From arguments to answers: `minimize`, `maximize` and the table of methods."""
