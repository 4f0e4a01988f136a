"""The command line interface ``treeopt``."""
