"""Who is there: alone nothing is written, a second process waits for the first, and what killed ones held is free."""

import contextlib
import errno
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from groundtrace.inference.cache.locks import locked_now
from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.coordination import peers as module
from groundtrace.inference.coordination import presence
from groundtrace.inference.coordination.claims import Claims
from groundtrace.inference.coordination.peers import Peers
from groundtrace.inference.coordination.peers_file import stopped_by
from groundtrace.inference.coordination.presence import lives
from groundtrace.inference.errors import RunStopped
from groundtrace.schemas.safe_files import UnsafeFile

CHILD = """
import os, sys, time
from pathlib import Path
from groundtrace.inference.coordination.peers import Peers
from groundtrace.inference.coordination.presence import lives
peers = Peers(Path(sys.argv[1]))
while not peers.join():
    time.sleep(0.01)
if "fork" in sys.argv and not os.fork():
    os.close(1)
    time.sleep(60)
print(os.getpid(), flush=True)
time.sleep(60)
"""


class Recorded:
    """A state that notes what is done with it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def publish(self, db: sqlite3.Connection) -> None:
        self.done.append("publish")

    def withdraw(self, db: sqlite3.Connection) -> None:
        self.done.append("withdraw")

    def changed(self) -> None:
        self.done.append("changed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "coordination"


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[[], Peers]]:
    """Another process's view; all leave at the end."""
    every: list[Peers] = []

    def build() -> Peers:
        every.append(Peers(folder))
        return every[-1]

    yield build
    for peers in every:
        peers.close()


@pytest.fixture
def child(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A process that has joined; all are killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD, str(folder), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        assert process.stdout is not None and int(process.stdout.readline()) == process.pid
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with its forked child
        process.communicate()


Opened = Callable[[], Peers]
Child = Callable[..., subprocess.Popen[str]]


def until(happened: Callable[[], object], within_s: float = 90.0) -> None:
    end_s = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def pipes(peers: Peers) -> list[Path]:
    assert peers._folder is not None
    return list(peers._folder.glob("*.pipe"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_alone_it_may_send_at_once_and_shares_nothing(opened: Opened) -> None:
    part, peers = Recorded(), opened()
    peers.add(part)
    assert peers.join() and peers.join() and not peers.has_peers
    late = Recorded()
    peers.add(late)
    assert part.done == late.done == ["withdraw"]


def test_a_second_one_waits_until_the_first_has_written_its_state(opened: Opened) -> None:
    first, second, part = opened(), opened(), Recorded()
    first.add(part)
    assert first.join()
    with first.lock:  # it is busy
        assert not second.join()
        time.sleep(0.1)
        assert not second.join() and part.done == ["withdraw"]
    until(second.join)
    assert part.done[:2] == ["withdraw", "publish"] and first.has_peers and second.has_peers
    until(lambda: part.done[2:] == ["changed"])
    third = opened()
    assert third.join()  # the others have written theirs


def test_the_last_one_takes_its_state_back(opened: Opened, folder: Path) -> None:
    first, second, part = opened(), opened(), Recorded()
    first.add(part)
    first.join()
    until(second.join)
    second.close()
    until(lambda: part.done == ["withdraw", "publish", "changed", "withdraw", "changed"])
    assert not first.has_peers and first.had_peers
    first.close()
    assert part.done[-1] == "publish"  # for later processes
    assert names(folder) == [".lock", "peers.sqlite"]
    assert first.join() and not first.has_peers


def test_two_that_begin_together(opened: Opened) -> None:
    both = [opened(), opened()]
    until(lambda: all(peers.join() for peers in both))
    until(lambda: all(peers.has_peers for peers in both))


@pytest.mark.faults
@pytest.mark.parametrize("fork", [(), ("fork",)], ids=["alone", "with a forked child that lives on"])
def test_a_killed_process_is_gone_at_once(opened: Opened, child: Child, folder: Path, fork: tuple[str, ...]) -> None:
    killed, peers = child(*fork), opened()
    until(peers.join)
    assert peers.has_peers
    killed.kill()
    killed.wait()
    until(lambda: not peers.has_peers, within_s=3 * module.LOOK_S)
    later = opened()
    until(later.join)


@pytest.mark.faults
def test_a_process_that_was_killed_alone_leaves_nothing(opened: Opened, child: Child, folder: Path) -> None:
    killed = child()
    killed.kill()
    killed.wait()
    peers = opened()
    assert peers.join() and not peers.has_peers
    assert len([name for name in names(folder) if name.endswith(".pipe")]) == 1


@pytest.mark.faults
@pytest.mark.parametrize("has_met", [True, False], ids=["met before", "suspended alone"])
def test_a_suspended_process_is_waited_for_then_lost_and_comes_back(
    opened: Opened,
    child: Child,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    has_met: bool,
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.1)
    monkeypatch.setattr(
        module, "LOST_LOOKS", 10**6
    )  # on a slow host, some seconds can pass between two lines of a test
    suspended, peers, part = child(), opened(), Recorded()
    peers.add(part)
    if has_met:
        until(peers.join)
    with closing(sqlite3.connect(folder / "peers.sqlite", timeout=60)) as db:
        db.execute("BEGIN IMMEDIATE")  # one that is suspended within a transaction stops all others: a case of its own
        suspended.send_signal(signal.SIGSTOP)
    assert peers.join() is has_met and peers.has_peers
    time.sleep(0.5)
    assert peers.join() is has_met and peers.has_peers
    monkeypatch.setattr(module, "LOST_LOOKS", 20)
    until(lambda: not peers.has_peers)
    assert peers.join()
    assert [record.getMessage() for record in caplog.records] == [
        f"process {suspended.pid}, which uses the same reply cache, does not respond: continue it (kill -CONT "
        f"{suspended.pid}) or end it; others wait a minute for its requests, and then send them again"
    ]
    suspended.send_signal(signal.SIGCONT)
    if not has_met:
        assert lives(next(pipe for pipe in pipes(peers) if pipe.name.startswith(f"{suspended.pid}-")), wake=True)
    until(lambda: peers.has_peers)
    assert peers.join() and part.done[-2:] == ["publish", "changed"]


def test_one_that_counted_as_lost_publishes_what_it_holds(opened: Opened) -> None:
    one, two, part = opened(), opened(), Recorded()
    one.add(part)
    one.join()
    until(two.join)
    until(lambda: "changed" in part.done)
    part.done.clear()
    with two.lock, two.transaction() as db:
        db.execute("DELETE FROM processes WHERE id = ?", (one.me,))
    with one.lock, one.transaction():
        assert part.done in (["publish"], ["publish", "changed"])
    until(one.join)


def test_a_damaged_file_is_begun_anew_by_one_that_is_alone(opened: Opened, folder: Path) -> None:
    folder.mkdir()
    (folder / "peers.sqlite").write_bytes(b"[" * 5000)
    assert opened().join()
    until(opened().join)


def test_a_file_of_another_version_is_begun_anew_by_one_that_is_alone(opened: Opened, folder: Path) -> None:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "peers.sqlite")) as db, db:
        db.execute("CREATE TABLE processes (id TEXT)")
    one = opened()
    assert one.join()
    until(opened().join)
    one.close()
    with closing(sqlite3.connect(folder / "peers.sqlite")) as db, db:
        db.execute("INSERT INTO rates VALUES ('e', 0, 0, 0, 0)")
    until(opened().join)
    with closing(sqlite3.connect(folder / "peers.sqlite")) as db:
        assert db.execute("SELECT endpoint FROM rates").fetchall() == [("e",)]


def test_a_process_that_holds_the_lock_is_waited_for_and_named(
    opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process may be suspended while it registers. The wait blocks nothing, and ends."""
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    with locked_now(folder / ".lock") as lock:
        assert lock is not None
        lock.write("12")
        lock.flush()
        peers = opened()
        assert not peers.join() and not peers.has_joined
        time.sleep(0.15)
        assert not peers.join() and not peers.join()
        held = f"process 12 holds the lock {folder / '.lock'}"
        line = f"{held} and does not respond: continue that process (kill -CONT) or end it"
        assert [record.getMessage() for record in caplog.records] == [line]
        time.sleep(0.6)
        with pytest.raises(RunStopped) as caught:
            peers.join()
        message = (
            f"no request can be sent, because {line}. As soon as that process responds or has ended, repeat the command"
        )
        assert (caught.value.message, caught.value.resumable) == (message, True)
    assert peers.join() and (folder / ".lock").read_text() == str(os.getpid())


def test_a_wait_begins_anew_after_a_gap(opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was suspended while it waited does not blame the one that it waits for."""
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "MAX_GAP_S", 0.5)
    with locked_now(folder / ".lock"):
        peers = opened()
        assert not peers.join()
        time.sleep(0.7)
        assert not peers.join()


def test_a_file_that_another_process_locks_ends_the_run_with_the_remedy(opened: Opened, folder: Path) -> None:
    one, two = opened(), opened()
    one.join()
    until(two.join)
    with closing(sqlite3.connect(folder / "peers.sqlite", isolation_level=None)) as suspended:
        suspended.execute("BEGIN IMMEDIATE")
        with one.lock:
            assert one._db is not None
            one._db.execute("PRAGMA busy_timeout = 10")
            why = r"locked.*a process .* does not respond: .*, then repeat the command"
            with pytest.raises(RunStopped, match=why) as caught, one.transaction():
                raise AssertionError
        suspended.execute("ROLLBACK")
    assert caught.value.resumable


@pytest.mark.parametrize(
    ("error", "message", "resumable"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "make room, then repeat the command", True),
        (OSError(errno.EACCES, "Permission denied"), "choose another --cache", False),
        (
            sqlite3.OperationalError("x"),
            "end all runs that use this cache, delete that folder, and repeat the command",
            False,
        ),
    ],
)
def test_the_remedy_fits_the_error(error: OSError | sqlite3.Error, message: str, resumable: bool) -> None:
    found = stopped_by(error, Path("there"))
    assert (
        found.message
        == f"the processes of this reply cache cannot coordinate through the folder there ({error}): {message}"
    )
    assert found.resumable is resumable


def test_a_deleted_pipe_is_made_anew(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the others take the process for dead, and use its slots."""
    monkeypatch.setattr(presence, "CHECK_S", 0.05)
    one = opened()
    one.join()
    lives(one._pipe(one.me), wake=True)  # its thread waits for the shorter time from now on
    for pipe in pipes(one):
        pipe.unlink()
    until(lambda: lives(one._pipe(one.me)))
    two = opened()
    until(two.join)
    until(lambda: one.has_peers and two.has_peers)
    one._pipe(one.me).unlink()
    until(lambda: lives(one._pipe(one.me)))
    until(lambda: one.has_peers and two.has_peers)


def test_one_that_was_taken_for_dead_ends_without_an_error(
    opened: Opened, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = opened()
    claims = Claims(one, ReplyCache(str(tmp_path / "replies.sqlite")))
    one.join()
    assert claims._take(["a"])
    with closing(sqlite3.connect(folder / "peers.sqlite")) as db, db:
        until(lambda: db.execute("SELECT looks FROM processes").fetchone() == (1,))  # its thread has looked once
        db.execute("DELETE FROM processes")
    one.close()
    assert not caplog.records


def test_a_folder_that_cannot_be_used_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "coordination").write_text("", "utf-8")
    with pytest.raises(RunStopped, match=r"cannot coordinate through the folder .*coordination .*: choose another"):
        Peers(tmp_path / "coordination").join()


def test_without_a_folder_there_are_no_peers() -> None:
    peers = Peers(None)
    assert peers.join() and not peers.has_peers
    peers.close()


def test_a_lock_file_that_is_a_link_is_refused(opened: Opened, folder: Path, tmp_path: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "letter").write_text("precious")
    (folder / ".lock").symlink_to(tmp_path / "letter")
    with pytest.raises(UnsafeFile, match="is a link"):
        opened().join()
    assert (tmp_path / "letter").read_text() == "precious"
