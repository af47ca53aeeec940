"""``beam sandbox check``: the layers, and the programs that it runs."""

from typing import Any

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.sandbox import trial


@pytest.mark.sandbox
def test_all_are_contained(capsys: Any) -> None:
    assert main(["sandbox", "check"]) == 0
    seen = capsys.readouterr().out
    assert seen.count("contained (") == len(trial.PROGRAMS) and "NOT CONTAINED" not in seen


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("program", "escaped"),
    [
        (f"print('{trial.ESCAPED}')", "it got what it wanted"),
        ("kept = 0", "it changed the state of the trajectory"),
    ],
)
def test_one_that_is_not_is_reported(program: str, escaped: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "PROGRAMS", {"a way out": program})
    assert main(["sandbox", "check"]) == 1
    seen = capsys.readouterr()
    assert f"NOT CONTAINED: {escaped}" in seen.out
    assert "beam: 1 programs were not contained: run no model-written code on this machine" in seen.err
