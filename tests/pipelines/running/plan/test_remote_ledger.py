"""The ledger in a store and its copy here: what either side notes or takes back is seen on the other."""

from pathlib import Path

import pytest

from groundtrace.pipelines.running.account.spending import Spending
from groundtrace.pipelines.running.plan.remote_ledger import RemoteLedger
from groundtrace.storage.remote_path import RemotePath
from groundtrace.storage.uploads import Uploads

LINE = '{{"id": "{id}", "role": "policy", "requests": 1, "tokens_in": 0, "tokens_out": 0, "cost_usd": {usd}}}\n'


@pytest.fixture
def target(bucket: RemotePath) -> RemotePath:
    return bucket / "run"


@pytest.fixture
def ledger(target: RemotePath, tmp_path: Path) -> RemoteLedger:
    return RemoteLedger(target, tmp_path / "run")


def there(target: RemotePath) -> dict[str, bytes]:
    return {str(path.relative_to(target)): path.read_bytes() for path in (target / "ledger").walked()}


def here(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_notes_of_workers_come_here_and_ours_go_there(ledger: RemoteLedger, target: RemotePath, tmp_path: Path) -> None:
    root = tmp_path / "run"
    (target / "ledger/now/paid-1-0.jsonl").write_bytes(b"1")
    (target / "ledger/now/away-x").write_bytes(b"waiting")
    (root / "ledger/now").mkdir(parents=True)
    (root / "ledger/before.json").write_bytes(b"{}")
    ledger.bring()
    ledger.send()
    both = {"ledger/now/paid-1-0.jsonl": b"1", "ledger/now/away-x": b"waiting", "ledger/before.json": b"{}"}
    assert here(root) == there(target) == both
    (target / "ledger/now/away-x").unlink()
    (target / "ledger/now/paid-1-0.jsonl").write_bytes(b"12")
    (root / "ledger/before.json").write_bytes(b"{} ")
    ledger.bring()
    ledger.send()
    assert here(root) == there(target) == {"ledger/now/paid-1-0.jsonl": b"12", "ledger/before.json": b"{} "}


def test_what_is_summed_up_here_is_gone_there(ledger: RemoteLedger, target: RemotePath, tmp_path: Path) -> None:
    spending = Spending(tmp_path / "run", ledger.bring)
    with spending.run() as notes:
        worker = target / f"ledger/{notes.name}/paid-1-0.jsonl"
        worker.write_text(LINE.format(id="1-1", usd=0.5))
        ledger.bring()
        worker.write_text(LINE.format(id="1-1", usd=0.5) + LINE.format(id="1-2", usd=0.25))
    ledger.send()
    assert spending.latest is not None and (spending.latest.usd, spending.latest.requests) == (0.75, 2)
    assert there(target).keys() == {f"ledger/{notes.name}.json"}

    worker.write_text(LINE.format(id="1-3", usd=8))  # of a job that was given up and went on
    ledger.bring()
    later = Spending(tmp_path / "run", ledger.bring)
    assert later.total().usd == 0.75
    with later.run():
        pass
    ledger.send()
    assert later.total().usd == 0.75
    assert f"ledger/{notes.name}/paid-1-0.jsonl" not in there(target)


def test_a_store_that_is_away_at_the_end_leaves_the_notes_to_the_next_run(
    ledger: RemoteLedger, target: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, gone = tmp_path / "run", OSError("away")

    def away() -> None:
        raise gone

    with pytest.raises(OSError, match="away"), Spending(root, away).run() as notes:
        (target / f"ledger/{notes.name}/paid-1-0.jsonl").write_text(LINE.format(id="1-1", usd=0.5))
    assert not (root / f"ledger/{notes.name}.json").exists()
    next_driver = RemoteLedger(target, tmp_path / "another/run")
    next_driver.bring()
    spending = Spending(tmp_path / "another/run", next_driver.bring)
    with spending.run():
        pass
    assert spending.total().usd == 0.5


def test_it_is_copied_all_the_while(
    ledger: RemoteLedger, target: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundtrace.pipelines.running.plan.remote_ledger.Uploads", lambda: Uploads(0.02))
    ledger.begin()
    (target / "ledger/now/paid-1-0.jsonl").write_bytes(b"1")
    while not (tmp_path / "run/ledger/now/paid-1-0.jsonl").exists():
        pass
    ledger.end()
