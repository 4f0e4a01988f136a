"""What ends a run and what reports it: limits, signals, callback, progress, history."""
