"""The command line: ``treeopt demo``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from treeopt import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="treeopt", description="Choose the inputs of a trained tree ensemble."
    )
    parser.add_argument("--version", action="version", version=f"treeopt {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo", help="convert a forest on the shipped data, check it, time it and maximize it"
    )
    demo.add_argument("--trees", type=int, default=100, metavar="N", help="number of trees")
    arguments = parser.parse_args(argv)
    if arguments.trees < 1:
        demo.error(f"--trees is {arguments.trees}. Pass an integer of at least 1.")
    from treeopt.cli.demo import run

    run(n_trees=arguments.trees)
    return 0
