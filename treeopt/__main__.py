"""``python -m treeopt`` is ``treeopt``."""

from treeopt.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
