"""What a run folder in a store holds while it is delivered: the old set or the new one, or no finished run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.pipelines.running.plan.freshness import begin_fresh, fresh_since
from groundtrace.pipelines.running.plan.local_run import RunFolderError
from groundtrace.pipelines.running.plan.store_run import StoreRun
from groundtrace.storage.lease import Lost
from groundtrace.storage.remote_path import RemotePath

pytestmark = pytest.mark.slow

OLD = {
    "run.json": b"{}",
    "sft/a.parquet": b"old a",
    "sft/b.parquet": b"old b",
    "README.md": b"old",
    "rubrics.json": b"[]",
}
NEW = {"run.json": b'{"new": 1}', "sft/a.parquet": b"new a", "rl/c.parquet": b"new c", "README.md": b"new"}


@pytest.fixture
def target(bucket: RemotePath) -> RemotePath:
    for name, data in {**OLD, "input.json": b"{}", "media/1.png": b"1", "cache/segments/x": b"x"}.items():
        (bucket / "run" / name).write_bytes(data)
    return bucket / "run"


def work(run: StoreRun) -> None:
    """What a run leaves in its folder on this machine."""
    for name in OLD:
        (run.root / name).unlink(missing_ok=True)
    for name, data in {**NEW, "media/2.png": b"2", ".staging/x": b"", "logs/x": b"", "media/.x.tmp": b""}.items():
        (run.root / name).parent.mkdir(parents=True, exist_ok=True)
        (run.root / name).write_bytes(data)


def held(target: RemotePath, below: str = "") -> dict[str, bytes]:
    found = {str(path.relative_to(target)): path for path in target.walked()}
    left_out = ("media", "cache", ".lease", "ledger", "previous", "input.json")
    return {
        name.removeprefix(below): path.read_bytes()
        for name, path in found.items()
        if name.startswith(below) and (below or not name.startswith(left_out))
    }


def test_new_outputs_take_the_place_of_the_old(target: RemotePath) -> None:
    run = StoreRun(target)
    assert (run.root / "run.json").is_file() and not (run.root / "sft").exists()
    with run.locked():
        work(run)
        run.deliver(keep_previous=True)
    assert held(target) == NEW
    assert held(target, "previous/") == OLD | {"input.json": b"{}"}
    assert {path.name for path in (target / "media").iterdir()} == {"1.png", "2.png"}
    again = StoreRun(target)
    with again.locked():
        work(again)
        again.deliver(keep_previous=False)
    assert held(target, "previous/") == OLD | {"input.json": b"{}"}, "equal outputs do not drive out what is kept"


def test_a_delivery_that_stops_leaves_no_finished_run(target: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    upload, sent = RemotePath.upload, []

    def stops(self: RemotePath, file: Path) -> None:
        if self.name == "c.parquet":
            raise OSError("no more")
        sent.append(self.name)
        upload(self, file)

    run = StoreRun(target)
    with monkeypatch.context() as broken:
        broken.setattr(RemotePath, "upload", stops)
        with pytest.raises(OSError, match="no more"), run.locked():
            work(run)
            run.deliver(keep_previous=True)
    assert not (target / "run.json").exists()
    assert held(target, "previous/") == OLD | {"input.json": b"{}"}
    again = StoreRun(target)
    with again.locked():
        work(again)
        again.deliver(keep_previous=False)
    assert held(target) == NEW


def test_one_whose_lease_is_lost_changes_nothing(target: RemotePath) -> None:
    run = StoreRun(target)
    with run.locked():
        work(run)
        (target / ".lease/99.json").write_bytes(b"{}")
        with pytest.raises(Lost):
            run.deliver(keep_previous=True)
    assert held(target) == OLD


def test_one_that_lost_it_leaves_the_ledger_and_the_pages_of_the_other(target: RemotePath) -> None:
    run = StoreRun(target)
    with run.locked():
        work(run)
        (target / ".lease/99.json").write_bytes(b"{}")
        (target / "ledger/others.json").write_bytes(b"paid by another")
        (run.root / "failed.html").write_bytes(b"lost")
        (run.root / "ledger").mkdir(exist_ok=True)
        (run.root / "ledger/mine.json").write_bytes(b"{}")
    assert {path.name for path in (target / "ledger").walked()} == {"others.json"}
    assert not (target / "failed.html").exists()


def test_one_that_loses_it_in_the_middle_stops_there(target: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = RemotePath.upload

    def stopped_meanwhile(self: RemotePath, file: Path) -> None:
        upload(self, file)
        if self.name == "c.parquet":  # here the process sleeps for longer than its lease lasts, and another delivers
            (target / ".lease/99.json").write_bytes(b"{}")
            for name in NEW:
                (target / name).write_bytes(b"of the other run")

    monkeypatch.setattr(RemotePath, "upload", stopped_meanwhile)
    run = StoreRun(target)
    with pytest.raises(Lost), run.locked():
        work(run)
        run.deliver(keep_previous=True)
    assert {held(target)[name] for name in NEW} == {b"of the other run"}


def test_what_another_wrote_before_it_was_held_is_seen(target: RemotePath) -> None:
    run = StoreRun(target)
    (target / "ledger/others.json").write_bytes(b"paid by another")
    (target / "run.json").write_bytes(b"of another")
    with (
        pytest.raises(RunFolderError, match=r"wrote into .+/run while this process started: run the same"),
        run.locked(),
    ):
        work(run)
    assert (target / "ledger/others.json").read_bytes() == b"paid by another"


def test_a_file_that_the_user_puts_there_meanwhile_stays(target: RemotePath) -> None:
    run = StoreRun(target)
    with run.locked():
        work(run)
        (target / "notes.txt").write_bytes(b"mine")
        run.deliver(keep_previous=False)
    assert held(target) == NEW | {"notes.txt": b"mine"}


def test_the_ledger_is_kept_in_the_store(target: RemotePath) -> None:
    (target / "ledger/killed/paid-1.jsonl").write_bytes(b"1")
    run = StoreRun(target)
    assert (run.root / "ledger/killed/paid-1.jsonl").read_bytes() == b"1"
    with run.locked():
        (run.root / "ledger/killed/paid-1.jsonl").unlink()
        (run.root / "ledger/killed.json").write_bytes(b"{}")
    assert {str(path.relative_to(target)) for path in (target / "ledger").walked()} == {"ledger/killed.json"}


def test_since_when_replies_count_is_in_the_store_before_any_is_asked_for(target: RemotePath) -> None:
    """Another machine goes on with the same command."""
    run = StoreRun(target)
    with run.locked():
        begin_fresh(run.root)
        run.begin()
        since = fresh_since(run.root)
        assert fresh_since(StoreRun(target).root) == since != ""
        work(run)
        run.deliver(keep_previous=True)
    assert fresh_since(StoreRun(target).root) == since, "it stays with the run's outputs"


@pytest.mark.parametrize("name", ["sft/a.jpg", "media/a.jpg", "logs/a.txt"])
def test_a_folder_of_something_else(new_bucket: Callable[..., RemotePath], name: str) -> None:
    target = new_bucket("gs") / "photos"
    (target / name).write_bytes(b"")
    with pytest.raises(RunFolderError, match="not empty and not a run folder"):
        StoreRun(target)
