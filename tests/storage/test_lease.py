"""A lease on a folder of a store: one holder at a time, whoever dies; one that is cut off knows it."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from groundtrace.storage.errors import StorageError
from groundtrace.storage.lease import FOLDER, Held, Lost, leased
from groundtrace.storage.object_store import StorageSettings
from groundtrace.storage.remote_path import RemotePath

from ..stores.faults import between


def test_one_holds_it_at_a_time(bucket: RemotePath) -> None:
    folder = bucket / "run"
    with leased(folder) as lease:
        lease.check()
        with (
            pytest.raises(Held, match=r"another process \(process \d+ on .+\) is writing .+/run: wait"),
            leased(folder),
        ):
            pass
    for _ in range(3):
        with leased(folder) as lease:
            lease.check()
    assert len(list((folder / FOLDER).iterdir())) <= 2, "leases pile up"


def test_one_of_several_takes_it(bucket: RemotePath) -> None:
    def take(_: int) -> bool:
        try:
            with leased(bucket / "run"):
                time.sleep(1)
                return True
        except Held:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(take, range(4))) == 1


def test_a_store_that_lets_two_in_is_refused(s3_url: str, new_bucket: Callable[..., RemotePath]) -> None:
    with between(s3_url) as (url, faults):
        folder = new_bucket("s3", through=url) / "runs/mine"
        faults.ignored_header = "if-none-match"
        with (
            pytest.raises(StorageError, match=r"overwrites an existing object .*If-None-Match.*another store"),
            leased(folder),
        ):
            pass


def test_a_holder_that_lives_keeps_it(bucket: RemotePath) -> None:
    with leased(bucket / "run", lasts_s=0.5, renew_s=0.1) as lease:
        time.sleep(1.2)
        with pytest.raises(Held), leased(bucket / "run", lasts_s=0.5, renew_s=0.1):
            pass
        lease.check()


@pytest.mark.parametrize("clock_ahead_s", [0, 3600])
def test_one_that_died_lets_it_go(new_bucket: Callable[..., RemotePath], clock_ahead_s: int) -> None:
    """A lease of a dead holder whose clock was right; and of a living one that seems to have run out."""
    folder = new_bucket("s3") / "run"
    dead = {"holder": "x", "host": "h", "pid": 1, "until_s": time.time() - 1}
    (folder / FOLDER / "7.json").write_bytes(json.dumps(dead).encode())
    if clock_ahead_s:
        with ThreadPoolExecutor(1) as pool:
            signs = pool.submit(_sign_twice, folder / FOLDER / "7.json", dead)
            with pytest.raises(Held, match="process 1 on h"), leased(folder, renew_s=0.4):
                pass
            signs.result()
        return
    with leased(folder, renew_s=0.1) as lease:
        lease.check()
        assert (folder / FOLDER / "8.json").exists()


def _sign_twice(path: RemotePath, told: dict) -> None:
    for number in range(2):
        time.sleep(0.2)
        path.write_bytes(json.dumps(told | {"until_s": told["until_s"] + number + 1}).encode())


def test_one_that_was_cut_off_knows_it(s3_url: str, new_bucket: Callable[..., RemotePath]) -> None:
    with between(s3_url) as (url, faults):
        through = RemotePath(new_bucket("s3", url).url, StorageSettings(endpoint_url=url, retry_s=0.2))
        direct = RemotePath(through.url, StorageSettings(endpoint_url=s3_url))
        with leased(through / "run", lasts_s=0.6, renew_s=0.1) as lease:
            lease.check()
            faults.fail_for(2)
            time.sleep(1)
            with leased(direct / "run", lasts_s=0.6, renew_s=0.1) as other:
                faults.fail_for(0)
                with pytest.raises(Lost, match="so it has lost its lock"):
                    lease.check()
                other.check()


def test_a_dead_holder_whose_clock_was_ahead_lets_it_go(new_bucket: Callable[..., RemotePath]) -> None:
    folder = new_bucket("s3") / "run"
    dead = {"holder": "x", "host": "h", "pid": 1, "until_s": time.time() + 86_400}
    (folder / FOLDER / "7.json").write_bytes(json.dumps(dead).encode())
    with leased(folder, renew_s=0.1) as lease:
        lease.check()


@pytest.mark.parametrize("told", [b"[no json", b"[" * 100_000, b'{"until_s": "soon"}', b'{"until_s": 1e999}', b"\xff"])
def test_what_is_no_lease_is_passed_over(new_bucket: Callable[..., RemotePath], told: bytes) -> None:
    folder = new_bucket("s3") / "run"
    (folder / FOLDER / "notes.txt").write_bytes(b"")
    (folder / FOLDER / "3.json").write_bytes(told)
    with leased(folder, renew_s=0.05) as lease:
        lease.check()
