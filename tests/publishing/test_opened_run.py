"""A run that is opened is the one that its run.json tells of, to the byte where its rows are read."""

import hashlib
import html
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import groundtrace as gt
from groundtrace.pipelines.commands import cli
from groundtrace.publishing.opened_run import open_run
from groundtrace.publishing.reading import SHARDS, InspectError, read_config
from groundtrace.schemas.safe_files import UnsafeFile

ROWS = 3


NO_TOML = [
    ("[trace]\nn = \n", r"Invalid value \(at line 2, column 5\)"),
    ('a = 1\nb = "\xff"\n', "no UTF-8 at line 2"),
    ("a = " + "[" * 100_000, ".+"),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with three rejected records and no row to train on."""
    files: dict[str, Any] = {}
    for name, schema in SHARDS.items():
        shard = tmp_path / name / "train-00000-of-00001.parquet"
        shard.parent.mkdir()
        rows = ROWS if name == "rejected" else 0
        made = [{"id": str(number), "stage": "difficulty", "reason": "too_easy"} for number in range(rows)]
        pq.write_table(schema.empty_table().from_pylist(made, schema=schema), shard)
        data = shard.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        files[f"{name}/{shard.name}"] = {"size_bytes": len(data), "sha256": digest, "rows": rows}
    summary = {
        "recipe": "grounded_cot",
        "input": "questions",
        "counts": {"input": ROWS, "sft": 0, "rl": 0, "rejected": {"difficulty": {"too_easy": ROWS}}},
        "stages": {},
        "ledger": {},
        "roles": {},
        "self_judged": False,
        "config_sha256": "c0ffee",
        "revision": "abc123",
        "prompts": {},
        "finished": "2026-01-02T03:04:05+00:00",
        "wall_s": 1.0,
        "files": files,
    }
    (tmp_path / "run.json").write_text(json.dumps(summary), "utf-8")
    return tmp_path


def test_its_tables(run: Path) -> None:
    opened = open_run(run)
    assert [opened.table(name).num_rows for name in SHARDS] == [0, 0, ROWS]


@pytest.mark.parametrize("is_kept", [True, False])
def test_an_opened_run_that_a_later_run_replaced_is_refused(run: Path, is_kept: bool) -> None:
    """As in a notebook: run, change the stage's file, run again into the same folder, and compare the two."""
    first = open_run(run)
    if is_kept:
        shutil.copytree(run, run / "previous")
    shard = run / "rejected/train-00000-of-00001.parquet"
    pq.write_table(pq.read_table(shard).slice(1), shard)
    summary = json.loads((run / "run.json").read_text("utf-8"))
    data = shard.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    summary["files"][f"rejected/{shard.name}"] = {"size_bytes": len(data), "sha256": digest, "rows": ROWS - 1}
    summary["counts"] |= {"input": ROWS - 1, "rejected": {"difficulty": {"too_easy": ROWS - 1}}}
    (run / "run.json").write_text(json.dumps(summary | {"finished": "2026-01-03T03:04:05+00:00"}), "utf-8")
    second = open_run(run)
    assert len(second.rejected) == ROWS - 1
    where = rf", and the replaced one with gt\.open_run\('{run}/previous'\)" if is_kept else ""
    reads = (lambda: first.rejected, lambda: first.record("1"), lambda: gt.diff(first, second))
    for read in (*reads, lambda: gt.diff(second, first), lambda: first.dataset("rejected")):
        with pytest.raises(InspectError, match=rf"a later run replaced .* with gt\.open_run\('{run}'\){where}$"):
            read()
    if is_kept:
        assert len(open_run(run / "previous").rejected) == ROWS


def test_a_replaced_run_does_not_show_the_report_and_hints_of_the_later_run(run: Path) -> None:
    (run / "report.html").write_text("<p>of the first run</p>", "utf-8")
    (run / "config.toml").write_text("[difficulty]\nhigh = 0.8\n", "utf-8")
    opened = open_run(run)
    assert "of the first run" in str(opened._repr_html_()) and "difficulty.high=1" in str(opened)
    (run / "report.html").write_text("<p>of the later run</p>", "utf-8")
    summary = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps(summary | {"files": {}}), "utf-8")
    shown = html.unescape(str(opened._repr_html_()))
    assert shown.startswith(f"<p>a later run replaced the run that was opened in {run}: open the present one with ")
    assert "of the later run" not in shown
    assert f"all records were rejected, {ROWS} of {ROWS} as too_easy\n" in f"{opened}\n"


def test_a_run_that_was_repeated_with_the_same_rows_stays_open(run: Path) -> None:
    opened = open_run(run)
    summary = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps(summary | {"wall_s": 2.0}), "utf-8")
    assert len(opened.rejected) == ROWS


def test_a_set_that_no_run_has_is_one_line(run: Path) -> None:
    opened = open_run(run)
    for read in (opened.table, opened.rows, opened.dataset):
        with pytest.raises(InspectError, match="'train' is not a set of rows: choose one of sft, rl, rejected"):
            read("train")


def test_a_shard_of_the_same_size_with_other_bytes_is_refused(run: Path) -> None:
    shard = run / "rejected/train-00000-of-00001.parquet"
    data = shard.read_bytes()
    shard.write_bytes(data.replace(b"too_easy", b"too_hard"))
    opened = open_run(run)
    assert opened.sft.num_rows == 0, "what is not read is not looked through"
    with pytest.raises(InspectError, match=r"differs from the file that run.json lists"):
        _ = opened.rejected
    with pytest.raises(InspectError, match="differs from the file"):
        opened.dataset("rejected")


@pytest.mark.parametrize(
    "change",
    [
        lambda counts: counts.update(sft=999),
        lambda counts: counts.update(rl=1),
        lambda counts: counts.update(sft="many"),
        lambda counts: counts["rejected"]["difficulty"].update(too_easy=2),
        lambda counts: counts["rejected"]["difficulty"].update(too_easy="2"),
        lambda counts: counts.update(rejected=[]),
    ],
)
def test_counts_that_are_not_those_of_the_shards_are_refused(
    run: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    told = json.loads((run / "run.json").read_text("utf-8"))
    change(told["counts"])
    (run / "run.json").write_text(json.dumps(told), "utf-8")
    with pytest.raises(InspectError, match=r"run\.json is damaged \(.+\): repeat the run"):
        open_run(run)


@pytest.mark.parametrize("command", ["inspect", "diff", "export", "publish"])
def test_every_command_refuses_a_shard_of_the_same_size_with_other_bytes(
    run: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    shard = run / "rejected/train-00000-of-00001.parquet"
    shard.write_bytes(shard.read_bytes().replace(b"too_easy", b"too_hard"))
    target = str(tmp_path_factory.mktemp("export") / "rows")
    more = {"diff": [str(run)], "export": ["--format", "trl", "--output", target], "publish": ["--repo", "a/b"]}
    assert cli.main([command, str(run), *more.get(command, [])]) == 2
    said = f"beam: the folder {run} has changed since its run ended: {shard.parent.name}/{shard.name} differs from "
    assert capsys.readouterr().err == f"{said}the file that run.json lists: repeat the run\n"


@pytest.mark.parametrize("command", ["inspect", "diff"])
def test_a_shard_that_cannot_be_read_is_one_line(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "the shard")

    monkeypatch.setattr("groundtrace.schemas.run_files.hashlib.file_digest", fails)
    assert cli.main([command, *[str(run)] * (1 + (command == "diff"))]) == 2
    assert capsys.readouterr().err == "beam: cannot read the shard: Permission denied: make the file readable\n"


@pytest.mark.parametrize(("text", "wrong"), NO_TOML)
def test_a_damaged_config_is_named_with_its_line(run: Path, text: str, wrong: str) -> None:
    assert read_config(run) == {}, "a run of earlier code has none"
    file = run / "config.toml"
    file.write_text("k = 1\n", "utf-8")
    assert read_config(run) == {"k": 1}
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InspectError, match=rf"config\.toml is damaged \({wrong}\): move it away, and repeat"):
        read_config(run)


@pytest.mark.parametrize(
    ("config", "hint"),
    [
        (None, ""),
        ("[trace", ""),
        ("#" * 2**20 + "\n", ""),
        ("difficulty = 1\n", ""),
        (
            "[difficulty]\nhigh = 0.8\ninclude_high = false\n",
            ": to see traces all the same, add --set difficulty.high=1 --set difficulty.include_high=true",
        ),
        ("[difficulty]\nhigh = 0.8\n", ": to see traces all the same, add --set difficulty.high=1"),
        ("[difficulty]\nhigh = 1.0\ninclude_high = true\n", ""),
    ],
)
def test_the_printed_text_has_the_hints_of_the_config_that_it_finds(run: Path, config: str | None, hint: str) -> None:
    if config is not None:
        (run / "config.toml").write_text(config, "utf-8")
    lines = str(open_run(run)).splitlines()
    assert lines[0] == f"{ROWS} records: 0 sft, 0 rl, {ROWS} rejected"
    assert f"no rows: all records were rejected, {ROWS} of {ROWS} as too_easy{hint}" in lines


def test_a_large_config_of_a_run_is_not_read(run: Path) -> None:
    (run / "config.toml").write_bytes(b"#" * 2**20 + b"\n")
    with pytest.raises(UnsafeFile, match=r"config\.toml has more than 1048576 bytes"):
        read_config(run)


@pytest.mark.parametrize("command", [["diff"], ["publish", "--repo", "a/b"]])
def test_the_commands_that_read_the_config_refuse_a_damaged_one(
    run: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (run / "config.toml").write_text("[trace", "utf-8")
    name, *more = command
    assert cli.main([name, str(run), *([str(run)] if name == "diff" else []), *more]) == 2
    assert f"beam: {run}/config.toml is damaged (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("run.json", ["inspect", "diff", "export", "publish", "view"]),
        ("rejected", ["inspect", "diff", "export", "publish", "view"]),
        ("rejected/train-00000-of-00001.parquet", ["inspect", "diff", "export", "publish", "view"]),
        ("config.toml", ["diff", "publish"]),
        ("input.json", ["diff"]),
        ("ledger", ["inspect"]),
        ("ledger/20260101T000000-0123abcd.json", ["inspect"]),
    ],
)
def test_no_command_reads_through_a_link_out_of_the_run(
    run: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    name: str,
    commands: list[str],
) -> None:
    """A stranger may have sent the run, in which a name is a link to private data. Its run.json names no files."""
    summary = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps({key: summary[key] for key in summary if key != "files"}), "utf-8")
    private, target = tmp_path_factory.mktemp("private"), tmp_path_factory.mktemp("out")
    (run / name).parent.mkdir(exist_ok=True)
    if (run / name).exists():
        (run / name).rename(private / "data")
    else:
        (private / "data").write_text('{"fingerprint": "secret"}', "utf-8")
    (run / name).symlink_to(private / "data")
    more = {
        "diff": [str(run)],
        "export": ["--format", "trl", "--output", str(target / "rows")],
        "publish": ["--repo", "a/b"],
        "view": ["--export", str(target / "copy")],
    }
    for command in commands:
        assert cli.main([command, str(run), *more.get(command, [])]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"beam: {run / name} is a link to a place outside {run}") and said.count("\n") == 1
    assert not any(target.iterdir())


def test_a_run_with_links_out_is_not_opened_or_shown(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    private = tmp_path_factory.mktemp("private")
    (private / "report.html").write_text("<p>secret</p>", "utf-8")
    (run / "report.html").symlink_to(private / "report.html")
    opened = open_run(run)
    with pytest.raises(UnsafeFile, match=r"report\.html is a link to a place outside"):
        opened._repr_html_()
    (run / "report.html").unlink()
    assert opened._repr_html_() is None
    (run / "rejected").rename(private / "rejected")
    (run / "rejected").symlink_to(private / "rejected")
    for read in (lambda: open_run(run), lambda: opened.table("rejected"), lambda: opened.record("0")):
        with pytest.raises(UnsafeFile, match=r"rejected is a link to a place outside"):
            read()
