"""What a run folder in a store holds while it is delivered: the old set or the new one, or no finished run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.pipelines.running.delivery import Delivery, DeliveryError
from groundtrace.pipelines.running.freshness import begin_fresh, fresh_since
from groundtrace.storage.lease import Lost
from groundtrace.storage.remote_path import RemotePath

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


def work(delivery: Delivery) -> None:
    """What a run leaves in its folder on this machine."""
    for name in OLD:
        (delivery.root / name).unlink(missing_ok=True)
    for name, data in {**NEW, "media/2.png": b"2", ".staging/x": b"", "logs/x": b"", "media/.x.tmp": b""}.items():
        (delivery.root / name).parent.mkdir(parents=True, exist_ok=True)
        (delivery.root / name).write_bytes(data)


def held(target: RemotePath, below: str = "") -> dict[str, bytes]:
    found = {str(path.relative_to(target)): path for path in target.walked()}
    left_out = ("media", "cache", ".lease", "ledger", "previous", "input.json")
    return {
        name.removeprefix(below): path.read_bytes()
        for name, path in found.items()
        if name.startswith(below) and (below or not name.startswith(left_out))
    }


def test_new_outputs_take_the_place_of_the_old(target: RemotePath) -> None:
    delivery = Delivery(target)
    assert (delivery.root / "run.json").is_file() and not (delivery.root / "sft").exists()
    with delivery.held():
        work(delivery)
        delivery.deliver(keep_previous=True)
    assert held(target) == NEW
    assert held(target, "previous/") == OLD | {"input.json": b"{}"}
    assert {path.name for path in (target / "media").iterdir()} == {"1.png", "2.png"}
    again = Delivery(target)
    with again.held():
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

    delivery = Delivery(target)
    with monkeypatch.context() as broken:
        broken.setattr(RemotePath, "upload", stops)
        with pytest.raises(OSError, match="no more"), delivery.held():
            work(delivery)
            delivery.deliver(keep_previous=True)
    assert not (target / "run.json").exists()
    assert held(target, "previous/") == OLD | {"input.json": b"{}"}
    again = Delivery(target)
    with again.held():
        work(again)
        again.deliver(keep_previous=False)
    assert held(target) == NEW


def test_one_whose_lease_is_lost_changes_nothing(target: RemotePath) -> None:
    delivery = Delivery(target)
    with delivery.held():
        work(delivery)
        (target / ".lease/99.json").write_bytes(b"{}")
        with pytest.raises(Lost):
            delivery.deliver(keep_previous=True)
    assert held(target) == OLD


def test_one_that_lost_it_leaves_the_ledger_and_the_pages_of_the_other(target: RemotePath) -> None:
    delivery = Delivery(target)
    with delivery.held():
        work(delivery)
        (target / ".lease/99.json").write_bytes(b"{}")
        (target / "ledger/others.json").write_bytes(b"paid by another")
        (delivery.root / "failed.html").write_bytes(b"lost")
        (delivery.root / "ledger").mkdir(exist_ok=True)
        (delivery.root / "ledger/mine.json").write_bytes(b"{}")
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
    delivery = Delivery(target)
    with pytest.raises(Lost), delivery.held():
        work(delivery)
        delivery.deliver(keep_previous=True)
    assert {held(target)[name] for name in NEW} == {b"of the other run"}


def test_what_another_wrote_before_it_was_held_is_seen(target: RemotePath) -> None:
    delivery = Delivery(target)
    (target / "ledger/others.json").write_bytes(b"paid by another")
    (target / "run.json").write_bytes(b"of another")
    with pytest.raises(DeliveryError, match=r"wrote .+/run while this one started: run the same"), delivery.held():
        work(delivery)
    assert (target / "ledger/others.json").read_bytes() == b"paid by another"


def test_a_file_that_the_user_puts_there_meanwhile_stays(target: RemotePath) -> None:
    delivery = Delivery(target)
    with delivery.held():
        work(delivery)
        (target / "notes.txt").write_bytes(b"mine")
        delivery.deliver(keep_previous=False)
    assert held(target) == NEW | {"notes.txt": b"mine"}


def test_the_ledger_is_kept_in_the_store(target: RemotePath) -> None:
    (target / "ledger/killed/paid-1.jsonl").write_bytes(b"1")
    delivery = Delivery(target)
    assert (delivery.root / "ledger/killed/paid-1.jsonl").read_bytes() == b"1"
    with delivery.held():
        (delivery.root / "ledger/killed/paid-1.jsonl").unlink()
        (delivery.root / "ledger/killed.json").write_bytes(b"{}")
    assert {str(path.relative_to(target)) for path in (target / "ledger").walked()} == {"ledger/killed.json"}


def test_since_when_replies_count_is_in_the_store_before_any_is_asked_for(target: RemotePath) -> None:
    """Another machine goes on with the same command."""
    delivery = Delivery(target)
    with delivery.held():
        begin_fresh(delivery.root)
        delivery.begin()
        since = fresh_since(delivery.root)
        assert fresh_since(Delivery(target).root) == since != ""
        work(delivery)
        delivery.deliver(keep_previous=True)
    assert fresh_since(Delivery(target).root) == since, "it stays with the run's outputs"


@pytest.mark.parametrize("name", ["sft/a.jpg", "media/a.jpg", "logs/a.txt"])
def test_a_folder_of_something_else(new_bucket: Callable[..., RemotePath], name: str) -> None:
    target = new_bucket("gs") / "photos"
    (target / name).write_bytes(b"")
    with pytest.raises(DeliveryError, match="not empty and not a run folder"):
        Delivery(target)
