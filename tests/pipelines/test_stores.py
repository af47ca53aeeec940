"""Whole runs with input, media and cache in a store: the same shards as on a disk, and what goes wrong there."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.publishing.opened_run import open_run
from groundtrace.rewards.rows.shards import Shards
from groundtrace.storage.lease import leased
from groundtrace.storage.mirror import local_copy
from groundtrace.storage.places import Place, RemotePath, StorageError

from ..stores.faults import between
from .far_server import asking, right, serving
from .shipping.cluster import Cluster, cluster

pytestmark = pytest.mark.stores

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data/sample"
RECORDS = 6


def run(source: object, output: object, *more: str, command: str = "run") -> int:
    words = [command, str(ROOT / "pipelines/grounded_cot.py"), "--input", str(source)]
    return cli.main([*words, "--output", str(output), "--set", "difficulty.include_high=true", *more])


def digests(output: Place) -> dict[str, str]:
    files = [*(output / "sft").iterdir(), *(output / "rl").iterdir()]
    return {f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}


def sent(output: Place) -> int:
    return sum(role["requests"] for role in json.loads((output / "run.json").read_text("utf-8"))["ledger"].values())


def copied(source: Path, target: RemotePath) -> RemotePath:
    for file in source.rglob("*"):
        if file.is_file():
            (target / file.relative_to(source).as_posix()).write_bytes(file.read_bytes())
    return target


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of the sample's records and their images, in a folder."""
    folder = tmp_path_factory.mktemp("data")
    lines = (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()[:RECORDS]
    (folder / "records.jsonl").write_text("".join(line + "\n" for line in lines), "utf-8")
    for line in lines:
        for name in json.loads(line)["media"]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((SAMPLE / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def on_disk(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of it on the disk."""
    folder = tmp_path_factory.mktemp("on_disk") / "run"
    assert run(data, folder) == 0
    return folder


def test_input_and_cache_in_a_store(
    bucket: RemotePath, data: Path, on_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = copied(data, bucket / "data")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one machine"))
    assert run(source, tmp_path / "first", "--cache", f"{bucket}/cache") == 0
    assert digests(tmp_path / "first") == digests(on_disk)
    assert sent(tmp_path / "first") > 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    assert run(f"{source}/records.jsonl", tmp_path / "second", "--cache", f"{bucket}/cache") == 0
    assert digests(tmp_path / "second") == digests(on_disk)
    assert sent(tmp_path / "second") == 0


def test_settings_reach_worker_processes(
    new_bucket: Callable[..., RemotePath],
    s3_url: str,
    data: Path,
    on_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = copied(data, new_bucket("s3") / "data")
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("OUR_ID", "our-id")
    monkeypatch.setenv("OUR_KEY", "our-very-own-key")
    config = tmp_path / "config.toml"
    config.write_text(
        f'[storage]\nendpoint_url = "{s3_url}"\nregion = "us-east-1"\n'
        'access_key_id_env = "OUR_ID"\nsecret_access_key_env = "OUR_KEY"\n',
        "utf-8",
    )
    workers = ("--", "--direct_num_workers=2", "--direct_running_mode=multi_processing")
    assert run(source, tmp_path / "run", "--config", str(config), *workers) == 0
    assert digests(tmp_path / "run") == digests(on_disk)
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"our-very-own-key" not in written


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_five_seconds_without_the_store_lose_nothing(
    scheme: str,
    request: pytest.FixtureRequest,
    new_bucket: Callable[..., RemotePath],
    data: Path,
    on_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "machine"))
    with between(request.getfixturevalue(f"{scheme}_url")) as (url, faults):
        bucket = new_bucket(scheme, url)
        source = copied(data, bucket / "data")
        faults.fail_after(40, seconds=5)
        assert run(source, bucket / "run") == 0
        assert faults.failed > 0
        faults.fail_after(60, seconds=600)
        assert run(source, bucket / "run", "--set", "storage.retry_s=0.5") == 3
        faults.fail_for(0)
        assert digests(bucket / "run") == digests(on_disk)


@pytest.mark.parametrize(
    ("workers", "served", "how", "code", "why"),
    [
        (1, 3, 503, 3, "does not serve requests"),
        (1, 35, 503, 3, "does not serve requests"),
        (2, 35, 403, 2, "access is denied"),
    ],
)
def test_a_store_that_stays_away_stops_the_run(
    how: int,
    code: int,
    why: str,
    workers: int,
    served: int,
    s3_url: str,
    new_bucket: Callable[..., RemotePath],
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with between(s3_url) as (url, faults):
        source = copied(data, new_bucket("s3", url) / "data")
        faults.fail_after(served, seconds=600, how=how)
        mode = ("--", f"--direct_num_workers={workers}", "--direct_running_mode=multi_processing")
        assert run(source, tmp_path / "run", "--set", "storage.retry_s=1", *(mode if workers > 1 else ())) == code
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("beam: ")]
    assert str(source) in line and why in line and "while running" not in line


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("s3://no-such-bucket-at-all/data", "there is no bucket no-such-bucket-at-all"),
        ("s3:///data", "has no bucket"),
        ("{bucket}/nothing", "no .csv or .tsv file, no records.jsonl, no .parquet file, and "),
    ],
)
def test_mistakes(
    source: str, why: str, new_bucket: Callable[..., RemotePath], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = new_bucket("s3")
    assert run(source.format(bucket=bucket), tmp_path / "run") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("beam: ") and why in line
    assert not (tmp_path / "run").exists()


def test_a_finished_run_is_read_at_its_url(
    bucket: RemotePath,
    on_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    run_url = copied(on_disk, bucket / "runs/first")

    def said(*words: str) -> str:
        capsys.readouterr()
        assert cli.main([*words]) == 0
        return capsys.readouterr().out

    assert said("inspect", str(run_url)) == said("inspect", str(on_disk))
    assert said("diff", str(run_url), str(on_disk)) == said("diff", str(on_disk), str(on_disk)).replace(
        str(on_disk), str(local_copy(str(run_url))), 1
    )
    for name, source in (("here", on_disk), ("there", run_url)):
        said("export", str(source), "--format", "jsonl", "--family", "qwen3-vl", "--output", str(tmp_path / name))
    exported = [
        {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.jsonl")} for name in ("here", "there")
    ]
    assert exported[0] and exported[0] == exported[1]
    assert open_run(str(run_url)).sft == open_run(on_disk).sft
    copy = local_copy(str(run_url))
    assert Shards(copy, "sft", tmp_path / "rows").sha256 == Shards(on_disk, "sft", tmp_path / "rows").sha256
    assert not (copy / "cache").exists() and not (copy / "media").exists()


def test_a_copy_follows_its_run(bucket: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run_url = bucket / "run"
    for name in ("input.json", "run.json", "sft/a.parquet", "sft/b.parquet", "cache/segments/x", ".lease/1"):
        (run_url / name).write_bytes(name.encode())
    copy = local_copy(str(run_url))
    files = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert files == {"input.json", "run.json", "sft/a.parquet", "sft/b.parquet"}
    (run_url / "sft/a.parquet").write_bytes(b"SFT/A.PARQUET")
    (run_url / "sft/b.parquet").unlink()
    before = (copy / "run.json").stat().st_ino
    assert local_copy(str(run_url)) == copy
    assert (copy / "sft/a.parquet").read_bytes() == b"SFT/A.PARQUET"
    assert not (copy / "sft/b.parquet").exists()
    assert (copy / "run.json").stat().st_ino == before, "fetched again though it had not changed"
    with pytest.raises(StorageError, match="is empty or does not exist"):
        local_copy(f"{bucket}/no run")
    with pytest.raises(StorageError, match="there is no bucket"):
        local_copy(f"{bucket}x/run")
    assert local_copy("~/x") == Path("~/x").expanduser()


def test_output_in_a_store(
    bucket: RemotePath,
    data: Path,
    on_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one machine"))
    source, target = copied(data, bucket / "data"), bucket / "runs/mine"
    assert run(source, target) == 0
    assert f"report: {target}/report.html" in capsys.readouterr().out
    assert digests(target) == digests(on_disk)
    names = {str(path.relative_to(target)) for path in target.walked()}
    assert {"README.md", "report.html", "config.toml", "input.json", "run.json", "rubrics.json"} <= names
    assert {name.partition("/")[0] for name in names if "/" in name} == {
        "sft", "rl", "rejected", "media", "cache", "ledger", ".lease",
    }  # fmt: skip
    drawn = {path.name for path in (on_disk / "media").iterdir()}
    assert {path.name for path in (target / "media").iterdir()} == drawn
    assert sent(target) > 0

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    assert run(source, target, "--set", "write.max_group_rows=2") == 0
    assert sent(target) == 0
    assert digests(target) != digests(on_disk)
    assert digests(target / "previous") == digests(on_disk)
    assert "replaced the run of" in capsys.readouterr().out
    assert run(source, target) == 0
    assert (digests(target), sent(target)) == (digests(on_disk), 0)
    assert cli.main(["inspect", str(target)]) == 0


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    home = str(tmp_path_factory.mktemp("workers"))
    with cluster(tmp_path_factory.mktemp("cluster"), XDG_CACHE_HOME=home, **keys) as running:
        yield running


def test_output_in_a_store_by_workers_elsewhere(
    bucket: RemotePath, data: Path, on_disk: Path, workers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They know where the store is from the settings alone, and write into it alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    source, target = copied(data, bucket / "data"), bucket / "run"
    url = bucket.storage.endpoint_url or bucket.storage.gs_endpoint_url
    key = "endpoint_url" if bucket.storage.endpoint_url else "gs_endpoint_url"
    reached = ["--set", f"storage.{key}={url}", "--set", "write.max_group_rows=100", "--", *workers.options]
    assert run(source, target, *reached) == 0
    assert digests(target) == digests(on_disk)
    names = {str(path.relative_to(target)) for path in target.walked()}
    assert {name.partition("/")[0] for name in names if "/" in name} == {
        "sft", "rl", "rejected", "media", "cache", "ledger", ".lease",
    }  # fmt: skip
    drawn = {path.name for path in (on_disk / "media").iterdir()}
    assert {path.name for path in (target / "media").iterdir()} == drawn
    here, there = (json.loads((folder / "run.json").read_text("utf-8")) for folder in (on_disk, target))
    for told in (here, there):
        for role in told["ledger"].values():
            role.pop("latency_s", None)
    assert (there["counts"], there["ledger"]) == (here["counts"], here["ledger"])
    assert len([name for name in names if name.startswith("ledger/")]) == 1, "the notes are summed up"
    assert cli.main(["inspect", str(target)]) == 0

    assert run(source, target, *reached) == 0
    assert (digests(target), sent(target)) == (digests(on_disk), 0)


def test_a_store_that_is_away_from_workers_elsewhere(
    s3_url: str,
    new_bucket: Callable[..., RemotePath],
    data: Path,
    on_disk: Path,
    workers: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For 5 s in the middle of the job nothing is lost; for good, the command says so, and given again it finishes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    with between(s3_url) as (url, faults):
        bucket = new_bucket("s3", url)
        source, target = copied(data, bucket / "data"), bucket / "run"
        settings = ["--set", f"storage.endpoint_url={url}"]
        faults.fail_after(60, seconds=5)
        assert run(source, target, *settings, "--", *workers.options) == 0
        assert faults.failed > 0
        assert digests(target) == digests(on_disk)

        capsys.readouterr()
        before = (target / "run.json").read_bytes()
        faults.fail_after(60, seconds=600)
        code = run(source, target, *settings, "--set", "storage.retry_s=1", "--", *workers.options)
        line = capsys.readouterr().err.splitlines()[-1]
        faults.fail_for(0)
        assert code == 3 and line.startswith("beam: s3://") and "the store does not serve requests" in line
        assert (target / "run.json").read_bytes() == before and digests(target) == digests(on_disk)
        for lease in (target / ".lease").iterdir():  # which could not be given back, and would run out in a minute
            lease.unlink()
        assert run(source, target, *settings, "--", *workers.options) == 0
        assert digests(target) == digests(on_disk)


def test_a_budget_over_workers_elsewhere(
    s3_url: str,
    new_bucket: Callable[..., RemotePath],
    data: Path,
    workers: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each record takes a request of 2,000 tokens, one at a time; there are tokens for three and a bit."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    bucket = new_bucket("s3")
    source, target = copied(data, bucket / "data"), bucket / "run"
    with serving(right) as server:
        limits = ["--budget-tokens", "6500", "--set", f"storage.endpoint_url={s3_url}"]
        limits += asking(server.url, max_concurrency=1)
        assert run(source, target, *limits, "--", *workers.options) == 2, "nobody says how many machines there are"
        limits += ["--set", "workers=1"]
        assert run(source, target, *limits, "--", *workers.options) == 0
        requests = len(server.seen)
    told = json.loads((target / "run.json").read_text("utf-8"))
    assert told["budget"]["used_up"] and told["counts"]["rejected"]["attempt"]["budget"] == RECORDS - 3
    assert (requests, told["budget"]["spent_tokens"]) == (3, 3 * 2000)
    assert "the budget was used up after" in capsys.readouterr().out


def test_a_second_submitter_is_refused(
    new_bucket: Callable[..., RemotePath], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = new_bucket("s3") / "run"
    with leased(target):
        assert run(data, target) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"beam: another process (process {os.getpid()} on ")
    assert f"is writing {target}: wait until it ends" in line
    assert not (target / "run.json").exists()


def test_what_failed_is_told_and_what_stood_there_stays(
    new_bucket: Callable[..., RemotePath],
    data: Path,
    on_disk: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    target = copied(on_disk, new_bucket("s3") / "run")
    broken = tmp_path / "broken"
    shutil.copytree(data, broken)
    (broken / "images").rename(broken / "elsewhere")
    assert run(broken, target) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert f"report: {target}/failed.html" in line
    assert re.search(b"all records of .* were rejected, .* as ", (target / "failed.html").read_bytes())
    assert digests(target) == digests(on_disk)
    assert run(data, target) == 0
    assert not (target / "failed.html").exists()


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (["thesis.doc"], "is not empty and not a run folder"),
        (["input.json"], "is not a run folder, because its input.json is damaged or from another program"),
    ],
)
def test_folders_that_are_no_runs(
    files: list[str],
    why: str,
    new_bucket: Callable[..., RemotePath],
    data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = new_bucket("s3") / "folder"
    for name in files:
        (target / name).write_bytes(b"{}")
    before = target.walked()
    assert run(data, target) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{target} {why}" in line
    assert target.walked() == before


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_run_that_keeps_nothing_leaves_the_rows_in_the_store(
    scheme: str,
    new_bucket: Callable[..., RemotePath],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "machine"))
    output = new_bucket(scheme) / "run"
    assert run(data, output) == 0
    before, empty_band = digests(output), ("--set", "difficulty.low=1.0", "--set", "difficulty.include_high=false")
    for _ in range(2):
        assert run(data, output, *empty_band) == 2
        assert "this run kept no rows" in capsys.readouterr().err
        assert digests(output) == before and (output / "run.json").exists()
        assert "this run kept no rows" in (output / "failed.html").read_text("utf-8")
        assert not (output / "previous/run.json").exists()
    assert run(data, output, *empty_band, "--replace") == 0
    assert digests(output / "previous") == before and not (output / "failed.html").exists()
    assert run(data, output, *empty_band, "--set", "split.seed=1") == 0
    assert digests(output / "previous") == before
