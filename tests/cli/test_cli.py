"""The command line, as a user calls it."""

from __future__ import annotations

import pytest

from treeopt.cli.main import main


def test_demo_checks_the_forest_against_the_library(capsys):
    assert main(["demo", "--trees", "10"]) == 0
    out = capsys.readouterr().out
    assert "all equal to the last bit" in out
    assert "RandomForestRegressor(10)" in out
    assert "own predict gives the same" in out and ": all equal." in out


@pytest.mark.parametrize("argv", [["demo", "--trees", "0"], [], ["fly"]])
def test_wrong_use_is_refused_with_a_usage_message(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "usage: treeopt" in capsys.readouterr().err
