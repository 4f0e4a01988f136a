"""Commands: what ``treeopt`` does in a terminal."""
