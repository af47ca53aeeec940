"""Replays of records of real runs: as the run ended, with the prompts of the stored replies, and without a request."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.running.replay import main as replay_main
from groundtrace.pipelines.running.replay import replay
from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.replies import read_replies
from groundtrace.schemas.errors import UserError

from ...pipelines.clip_server import ClipWorld, serving, write_clip

RECIPE = "grounded_cot"


def rows_of(run: Path, name: str) -> list[dict]:
    return [row for file in sorted((run / name).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def files_of(folder: Path) -> dict[Path, str]:
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def run(demo: Path) -> Path:
    return demo / "runs/demo"


def test_a_kept_row_has_all_its_traces_and_prompts(run: Path) -> None:
    before, row = files_of(run), rows_of(run, "sft")[0]
    done = replay(run, row["id"], RECIPE)
    assert (done.set, done.stage, done.reason) == ("sft", "", "")
    kept = row["messages"][-1]["content"]
    assert done.traces[0]["sha256"] == hashlib.sha256(kept.encode()).hexdigest()
    assert len(done.traces) == 8 and all(trace["verdicts"] for trace in done.traces[1:])
    assert done.passed[:2] == ["ingest", "clean"] and done.passed[-1] == "leak"
    assert all(each["stored"] == each["keys"] for each in done.requests)
    sent = {key for each in done.requests for key in each["keys"]}
    assert sent >= set(row["lineage"]["cache_keys"])
    replies = {each["key"]: each for each in read_replies(run, sorted(sent))}
    assert all(replies[key]["prompt"] == each["prompt"] for each in done.requests for key in each["keys"])
    [attempt] = [each for each in done.requests if each["stage"] == "attempt"]
    assert any(row["question"] in part.get("text", "") for part in attempt["user"])
    assert any("media" in part for part in attempt["user"])
    assert files_of(run) == before, "a replay only reads the run folder"


def test_each_kind_of_end_is_repeated(run: Path) -> None:
    ends = {(row["stage"], row["reason"]): row for row in rows_of(run, "rejected")}
    assert len(ends) >= 2
    for (stage, reason), row in ends.items():
        done = replay(run, row["id"], RECIPE)
        assert (done.set, done.stage, done.reason, done.detail) == ("rejected", stage, reason, row["detail"])
        assert done.passed and stage not in done.passed
    done = replay(run, rows_of(run, "rl")[0]["id"], RECIPE)
    assert (done.set, done.traces) == ("rl", [])
    assert {each["stage"] for each in done.requests} <= set(done.passed), "no calls of a stage that reads a sample"


def test_a_reply_that_is_gone_is_not_requested(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("cache"))
    done = replay(tmp_path / "run", rows_of(run, "sft")[0]["id"], RECIPE)
    assert (done.set, done.stage) == ("rejected", "attempt")
    assert "a replay sends no requests" in done.detail
    assert [each["stored"] for each in done.requests] == [[]]


def test_mistakes_are_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InspectError, match="has no record 'nobody' any more"):
        replay(run, "nobody", RECIPE)
    with pytest.raises(UserError, match="there is no pipeline mine"):
        replay(run, "nobody", "mine")
    copy = tmp_path / "run"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("cache"))
    summary = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(summary | {"input": str(tmp_path / "gone")}))
    capsys.readouterr()
    assert replay_main([str(copy), "x", RECIPE]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["error"] and "gone" in answer["error"] and "\n" not in answer["error"]


@pytest.fixture(scope="module")
def clip_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of a clip with a server that needed a key; server and key are gone when the test begins."""
    home = tmp_path_factory.mktemp("clip")
    (home / "data").mkdir()
    write_clip(home / "data" / "moving.mp4")
    record = {"id": "clip", "question": "Does the red square move to the right?", "answer": "yes"}
    record |= {"answer_type": "bool", "media": ["moving.mp4"], "source": "drawn", "license": "CC0-1.0"}
    (home / "data" / "records.jsonl").write_text(json.dumps(record) + "\n", "utf-8")
    os.environ["REPLAYED_KEY"] = "sk-replayed-0123456789"
    with serving(ClipWorld()) as url:
        endpoint = f'[endpoints.seeing]\nkind = "openai"\nbase_url = "{url}"\nmodel = "seeing"\nfamily = "plain"\n'
        roles = "".join(f'{role} = "seeing"\n' for role in ("policy", "teacher", "pointer", "judge", "detector"))
        config = f'allow_self_judging = true\n{endpoint}api_key_env = "REPLAYED_KEY"\n[roles]\n{roles}segmenter = ""\n'
        (home / "config.toml").write_text(config, "utf-8")
        command = ["run", RECIPE, "--input", str(home / "data"), "--output", str(home / "run")]
        settings = ("trace.n=3", "split.sft_ratio=1.0", "dedup.near=false", "video.max_frames=8", "leak.ask=none")
        sets = [word for setting in settings for word in ("--set", setting)]
        assert main([*command, "--config", str(home / "config.toml"), *sets]) == 0
    del os.environ["REPLAYED_KEY"]
    yield home / "run"


def test_neither_the_server_nor_its_key_is_needed(clip_run: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "groundtrace.pipelines.running.replay", str(clip_run), "clip", RECIPE]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    done = json.loads(ran.stdout.strip().splitlines()[-1])
    assert ran.returncode == 0 and done["set"] == "sft", ran.stderr[-2000:]
    assert {each["role"] for each in done["requests"]} >= {"policy", "teacher", "pointer", "detector", "judge"}
    assert all(each["stored"] == each["keys"] for each in done["requests"])
    assert list(tmp_path.iterdir()) == []
