"""The limits of a run and its progress reports: time limit, signals, callback, history."""
