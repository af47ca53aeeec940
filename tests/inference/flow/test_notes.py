"""What the processes of one run note for each other."""

from pathlib import Path

import pytest

from groundtrace.inference.flow.notes import RunNotes, waiting

NAMES = ["far", "x" * 300, "模型" * 40, "../../far", "a/b", ".", "a\nb\0", "\ud800", "far:answered"]


@pytest.mark.parametrize("name", NAMES)
def test_an_endpoint_of_any_name(name: str, tmp_path: Path) -> None:
    first, second = RunNotes(str(tmp_path / "notes")), RunNotes(str(tmp_path / "notes"))
    assert not first.was_reached(name)
    first.reached(name)
    assert [each for each in NAMES if second.was_reached(each)] == [name]
    first.begin_wait(name, "waiting for it")
    second.begin_wait(name, "waiting for it")
    assert waiting(str(tmp_path / "notes")) == ["waiting for it"]
    first.end_wait(name)
    second.end_wait(name)
    assert waiting(str(tmp_path / "notes")) == []
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {tmp_path / "notes"}
