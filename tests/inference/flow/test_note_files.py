"""Where a process's notes go: what stands in a store after a while, after a flush, and after a store was away."""

import threading
import time

import pytest

from groundtrace.inference.flow import note_files
from groundtrace.inference.flow.note_files import NoteFiles
from groundtrace.inference.flow.notes import RunNotes, paid_in
from groundtrace.schemas.usage import Usage
from groundtrace.storage.mirror import local_copy
from groundtrace.storage.places import STANDARD
from groundtrace.storage.remote_path import RemotePath
from groundtrace.storage.uploads import Uploads


def lines(folder: RemotePath) -> list[str]:
    return [line for path in folder.walked() for line in path.read_text().splitlines()]


def test_lines_are_sent_when_flushed(bucket: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_files, "OBJECT_BYTES", 12)
    notes = NoteFiles(f"{bucket}/notes", "me", bucket.storage)
    for number in range(5):
        notes.append("paid", f"line {number}\n".encode())
    notes.append("failed", b"no\n")
    assert lines(bucket / "notes") == []
    notes.flush()
    assert {path.name for path in (bucket / "notes").walked()} == {
        "paid-me-0.jsonl", "paid-me-1.jsonl", "paid-me-2.jsonl", "failed-me-0.jsonl",
    }  # fmt: skip
    assert sorted(lines(bucket / "notes")) == [*(f"line {number}" for number in range(5)), "no"]
    notes.append("paid", b"line 5\n")
    notes.close()
    assert sorted(lines(bucket / "notes")) == [*(f"line {number}" for number in range(6)), "no"]


def test_lines_are_sent_after_a_while(bucket: RemotePath) -> None:
    uploads = Uploads(0.05)
    notes = NoteFiles(f"{bucket}/notes", "me", bucket.storage, uploads)
    notes.append("paid", b"line\n")
    until = time.monotonic() + 20
    while not lines(bucket / "notes"):
        assert time.monotonic() < until
        time.sleep(0.05)
    uploads.close()
    notes.close()


def test_what_could_not_be_sent_is_sent_later(bucket: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = NoteFiles(f"{bucket}/notes", "me", bucket.storage)
    notes.append("failed", b"1\n")
    notes.append("paid", b"2\n")
    with monkeypatch.context() as broken:
        broken.setattr(RemotePath, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError("away")))
        with pytest.raises(OSError, match="away"):
            notes.flush()
    notes.append("paid", b"3\n")
    notes.flush()
    assert sorted(lines(bucket / "notes")) == ["1", "2", "3"]
    notes.close()


def test_a_line_that_fills_an_object_while_it_is_sent(bucket: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_files, "OBJECT_BYTES", 8)
    notes = NoteFiles(f"{bucket}/notes", "me", bucket.storage)
    notes.append("paid", b"1\n")
    write = RemotePath.write_bytes

    def written_meanwhile(path: RemotePath, data: bytes) -> None:
        notes.append("paid", b"second\n")
        monkeypatch.setattr(RemotePath, "write_bytes", write)
        write(path, data)

    monkeypatch.setattr(RemotePath, "write_bytes", written_meanwhile)
    notes.flush()
    notes.close()
    assert lines(bucket / "notes") == ["1", "second"]


def test_lines_of_many_threads(bucket: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_files, "OBJECT_BYTES", 100)
    notes = NoteFiles(f"{bucket}/notes", "me", bucket.storage)

    def work(name: int) -> None:
        for number in range(50):
            notes.append("paid", f"{name}-{number}\n".encode())
            if number % 20 == 0:
                notes.flush()

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    notes.close()
    assert sorted(lines(bucket / "notes")) == sorted(f"{name}-{number}" for name in range(4) for number in range(50))


def test_what_was_paid_is_read_from_a_copy(
    bucket: RemotePath, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = (RunNotes(f"{bucket}/notes", bucket.storage) for _ in range(2))
    first.paid("policy", 1, Usage(requests=1, cost_usd=0.5))
    second.paid("policy", 1, Usage(requests=1, cost_usd=0.25))
    first.flush()
    second.close()
    second.paid("policy", 1, Usage(requests=1, cost_usd=8))
    assert sum(paid.cost_usd for paid in paid_in(local_copy(f"{bucket}/notes", bucket.storage))) == 0.75
    first.reached("far")
    assert second.was_reached("far") and not second.was_reached("near")
    first.begin_wait("far", "waiting")
    assert len([path for path in (bucket / "notes").walked() if path.name.startswith("away-")]) == 1
    first.end_wait("far")
    assert not [path for path in (bucket / "notes").walked() if path.name.startswith("away-")]


def test_on_a_disk_lines_are_there_at_once(tmp_path) -> None:
    notes = NoteFiles(str(tmp_path / "notes"), "me", STANDARD)
    notes.append("paid", b"1\n")
    notes.append("paid", b"2\n")
    assert (tmp_path / "notes/paid-me.jsonl").read_bytes() == b"1\n2\n"
    notes.flush()
    notes.close()
    notes.close()
