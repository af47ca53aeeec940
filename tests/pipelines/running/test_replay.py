"""Replays of records of real runs: as the run ended, with the prompts of the stored replies, and without a request."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest

from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.running.plan.freshness import begin_fresh
from groundtrace.pipelines.running.plan.loading import forget_user_code
from groundtrace.pipelines.running.replay import replay
from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.replies import read_replies
from groundtrace.schemas.errors import UserError

from ...pipelines.clip_server import ClipWorld, serving, write_clip

RECIPE = "grounded_cot"
SAMPLE = Path(__file__).resolve().parents[3] / "data/sample"


def rows_of(run: Path, name: str) -> list[dict]:
    return [row for file in sorted((run / name).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def files_of(folder: Path) -> dict[Path, str]:
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def run(demo: Path) -> Path:
    return demo / "runs/demo"


@pytest.mark.slow
def test_a_kept_row_has_all_its_traces_and_prompts(run: Path) -> None:
    before, row = files_of(run), rows_of(run, "sft")[0]
    done = replay(run, row["id"])
    assert (done.set, done.stage, done.reason) == ("sft", "", "")
    kept = row["messages"][-1]["content"]
    assert done.traces[0]["sha256"] == hashlib.sha256(kept.encode()).hexdigest()
    assert sum(trace["count"] for trace in done.traces) == 8 and all(trace["verdicts"] for trace in done.traces)
    assert len({trace["sha256"] for trace in done.traces}) == len(done.traces)
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


@pytest.mark.slow
def test_a_run_with_its_replies_in_a_named_cache(run: Path, tmp_path: Path) -> None:
    bare, elsewhere = tmp_path / "run", tmp_path / "replies"
    shutil.copytree(run, bare, ignore=shutil.ignore_patterns("previous"))
    shutil.move(bare / "cache", elsewhere)
    row = rows_of(run, "sft")[0]
    assert replay(bare, row["id"], cache=elsewhere) == replay(run, row["id"])


@pytest.mark.slow
def test_the_masks_of_the_check_hold_the_points_of_the_trace(run: Path) -> None:
    row = rows_of(run, "sft")[0]
    done = replay(run, row["id"])
    assert {each["role"] for each in done.marks} == {"detector", "pointer", "segmenter"} and done.notes == []
    keys = {key for each in done.requests for key in each["stored"]}
    assert {each["key"] for each in done.marks} <= keys and not any("variables" in each for each in done.requests)
    for point in row["points"]:
        rings = [
            np.array(ring, np.float32).reshape(-1, 1, 2)
            for each in done.marks
            if (each["kind"], each["label"], each["places"]) == ("mask", point["label"], ((0, None),))
            for ring in each["rings"]
        ]
        assert any(cv2.pointPolygonTest(ring, (point["x"], point["y"]), measureDist=False) >= 0 for ring in rings)


@pytest.mark.slow
def test_each_kind_of_end_is_repeated(run: Path) -> None:
    ends = {(row["stage"], row["reason"]): row for row in rows_of(run, "rejected")}
    assert len(ends) >= 2
    for (stage, reason), row in ends.items():
        done = replay(run, row["id"])
        assert (done.set, done.stage, done.reason, done.detail) == ("rejected", stage, reason, row["detail"])
        assert done.passed and stage not in done.passed
    done = replay(run, rows_of(run, "rl")[0]["id"])
    assert (done.set, done.traces) == ("rl", [])
    assert {each["stage"] for each in done.requests} <= set(done.passed), "no calls of a stage that reads a sample"


def test_a_question_that_is_too_hard_has_the_replies_of_the_policy(run: Path) -> None:
    """Its row names no reply, because its pass rate was measured with several."""
    row = next(row for row in rows_of(run, "rejected") if row["reason"] in ("too_hard", "too_easy"))
    assert row["cache_key"] is None
    [attempt] = [each for each in replay(run, row["id"]).requests if each["stage"] == "attempt"]
    assert [each["key"] for each in attempt["replies"]] == attempt["stored"]
    assert [each["text"] for each in attempt["replies"]] == [each["text"] for each in row["attempts"]]
    assert {each["role"] for each in attempt["replies"]} == {"policy"}


def copied(run: Path, to: Path) -> Path:
    """A copy of the run, with a cache that holds no reply."""
    shutil.copytree(run, to, ignore=shutil.ignore_patterns("cache"))
    ReplyCache(str(to / "cache/replies.sqlite")).close()
    return to


@pytest.mark.slow
def test_a_reply_that_is_gone_is_not_requested(run: Path, tmp_path: Path) -> None:
    done = replay(copied(run, tmp_path / "run"), rows_of(run, "sft")[0]["id"])
    assert (done.set, done.stage) == ("rejected", "attempt")
    assert "a replay sends no requests" in done.detail
    assert [each["stored"] for each in done.requests] == [[]]
    assert done.marks == done.notes == []


@pytest.mark.parametrize("damage", ["no cache", "a damaged cache"])
def test_a_cache_that_cannot_be_read_is_an_error_and_stays_as_it_is(run: Path, tmp_path: Path, damage: str) -> None:
    copy = copied(run, tmp_path / "run")
    if damage == "no cache":
        shutil.rmtree(copy / "cache")
    else:
        (copy / "cache/replies.sqlite").write_bytes(b"no database" * 100)
    before = files_of(copy)
    with pytest.raises(InspectError, match="replies"):
        replay(copy, rows_of(run, "sft")[0]["id"])
    assert files_of(copy) == before and (copy / "cache").exists() == (damage != "no cache")


@pytest.mark.slow
def test_a_later_fresh_that_did_not_finish_does_not_hide_the_replies(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    begin_fresh(copy)
    done = replay(copy, rows_of(run, "sft")[0]["id"])
    assert done.set == "sft" and done.requests[0]["stored"]


def test_mistakes_are_one_line(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InspectError, match="has no record 'nobody' any more"):
        replay(run, "nobody")
    for id in ("nobody#1", "line#1", "a#99999999999999999999", "\x00", "x" * 200_000):
        with pytest.raises(InspectError, match="any more"):
            replay(run, id)
    copy = copied(run, tmp_path / "run")
    summary = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(summary | {"input": str(tmp_path / "gone")}))
    with pytest.raises(UserError, match="gone"):
        replay(copy, "x")


def test_a_file_that_only_the_run_names_is_not_executed(run: Path, tmp_path: Path) -> None:
    copy, planted = copied(run, tmp_path / "run"), tmp_path / "planted.py"
    planted.write_text(
        f"open({str(tmp_path / 'executed')!r}, 'w')\nfrom groundtrace.pipelines.grounded_cot import RECIPE\n"
    )
    summary = json.loads((copy / "run.json").read_text())
    for changes, message in (
        (
            {"recipe": str(planted)},
            r"the file of this pipeline: start the view again with `beam view \S+ --pipeline FILE`",
        ),
        (
            {"recipe_file": str(planted)},
            rf"without your permission: to permit it, .* `beam view \S+ --pipeline {planted}`",
        ),
        ({"recipe": "mine", "recipe_file": "a\n; rm b.py"}, r"`beam view \S+ --pipeline 'a\\n; rm b\.py'`"),
    ):
        (copy / "run.json").write_text(json.dumps(summary | changes))
        with pytest.raises(InspectError, match=message):
            replay(copy, "x")
    assert not (tmp_path / "executed").exists()
    assert replay(copy, rows_of(run, "sft")[0]["id"], str(planted)).passed, "a file that the user names is executed"


ON_REQUEST = (
    r"with(out)? your permission: to permit it, start the view again with `beam view \S+ --pipeline grounded_cot`"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[plugins]\n", '[plugins]\nscorers.own = "own_parts:OWN"\n'),
        ("[plugins]\n", '[plugins]\nscorers.model = "own_parts:OWN"\n'),
        ('kind = "classical"', 'kind = "own_parts:OWN"'),
        ("[endpoints.coarse]", '[endpoints.model]\nmodel = "m"\nkind = "own_parts:OWN"\n[endpoints.coarse]'),
        (
            "[endpoints.coarse]",
            '[endpoints.revision]\nkind = "openai"\nmodel = "m"\nfamily = "own_parts:OWN"\n[endpoints.coarse]',
        ),
        ("[verify.scorers]\n", '[verify.scorers]\n"own_parts:OWN" = {}\n'),
        ('shape = "rows"', 'shape = "subprocess:run"'),
        ("allow_self_judging", 'extends = "more.toml"\nallow_self_judging'),
    ],
)
def test_code_that_only_the_config_names_is_not_executed(
    run: Path, tmp_path: Path, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_user_code()  # the module of the case before
    copy = copied(run, tmp_path / "run")
    text = (copy / "config.toml").read_text()
    assert old in text
    (copy / "config.toml").write_text(text.replace(old, new, 1))
    (copy / "more.toml").write_text('[plugins]\nscorers.own = "own_parts:OWN"\n')
    (copy / "own_parts.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\nOWN = 1\n")
    monkeypatch.chdir(copy)
    with pytest.raises(UserError, match=ON_REQUEST):
        replay(copy, rows_of(run, "sft")[0]["id"])
    assert not (tmp_path / "executed").exists()
    with pytest.raises(UserError) as refused:
        replay(copy, rows_of(run, "sft")[0]["id"], "grounded_cot")
    assert "permission" not in str(refused.value), "the user has named the pipeline"


@pytest.mark.parametrize(
    ("given", "old", "new"),
    [
        ("s3://bucket/x.csv", "", ""),
        ("gs://bucket/x.csv", "", ""),
        ("hf://datasets/x/y", "", ""),
        ("somebody/questions", "", ""),
        ("", 'endpoint_url = ""', 'endpoint_url = "http://127.0.0.1:9"'),
        ("", 'benchmark = ""', 'benchmark = "s3://bucket/test"'),
    ],
)
def test_places_elsewhere_that_only_the_run_names_are_not_contacted(
    run: Path, tmp_path: Path, given: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copied(run, tmp_path / "run")
    summary = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(summary | ({"input": given} if given else {})))
    text = (copy / "config.toml").read_text()
    assert old in text
    (copy / "config.toml").write_text(text.replace(old, new, 1))
    contacted: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: contacted.append(address))
    with pytest.raises(
        InspectError,
        match=f"is not a file or a folder of this machine. `beam view` looks for data elsewhere only {ON_REQUEST}",
    ):
        replay(copy, rows_of(run, "sft")[0]["id"])
    assert contacted == []


def test_a_model_with_a_tag_is_not_code(run: Path, tmp_path: Path) -> None:
    copy = copied(run, tmp_path / "run")
    text = (copy / "config.toml").read_text()
    assert 'model = "colour"' in text
    (copy / "config.toml").write_text(text.replace('model = "colour"', 'model = "gemma:latest"', 1))
    with pytest.raises(UserError) as refused:
        replay(copy, rows_of(run, "sft")[0]["id"])
    assert "code of Groundtrace" not in str(refused.value) and "gemma:latest" in str(refused.value)


def test_a_run_of_a_bundled_pipeline_names_no_file(run: Path) -> None:
    assert json.loads((run / "run.json").read_text())["recipe_file"] == ""


@pytest.mark.slow
def test_a_run_of_an_own_pipeline_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")
    (tmp_path / "real/own_pipeline.py").write_text("from tests.pipelines.short_recipe import RECIPE\n")
    words = ["--input", str(SAMPLE), "--output", str(tmp_path / "run"), "--limit", "1", "--set", "max_failed=1"]
    main(["run", str(tmp_path / "linked/own_pipeline.py"), *words])
    file = tmp_path / "real/own_pipeline.py"
    assert json.loads((tmp_path / "run/run.json").read_text())["recipe_file"] == str(file)
    with pytest.raises(InspectError, match=rf"is the file {file}, .* `beam view \S+ --pipeline {file}`"):
        replay(tmp_path / "run", "x")


@pytest.mark.slow
def test_line_separators_in_a_question_do_not_end_a_line(tmp_path: Path) -> None:
    line = json.loads((SAMPLE / "records.jsonl").read_text("utf-8").splitlines()[0])
    line["question"] += " Look\u2028twice or\u2029more."
    (tmp_path / "data" / Path(line["media"][0]).parent).mkdir(parents=True)
    shutil.copy(SAMPLE / line["media"][0], tmp_path / "data" / line["media"][0])
    (tmp_path / "data/records.jsonl").write_text(json.dumps(line, ensure_ascii=False), "utf-8")
    main(["run", RECIPE, "--input", str(tmp_path / "data"), "--output", str(tmp_path / "run"), "--set", "max_failed=1"])
    assert replay(tmp_path / "run", line["id"]).requests


def test_a_run_over_a_file_of_another_name(tmp_path: Path) -> None:
    line = json.loads((SAMPLE / "records.jsonl").read_text("utf-8").splitlines()[0])
    (tmp_path / "data" / Path(line["media"][0]).parent).mkdir(parents=True)
    shutil.copy(SAMPLE / line["media"][0], tmp_path / "data" / line["media"][0])
    data = tmp_path / "data/mine.jsonl"
    data.write_text(json.dumps(line), "utf-8")
    main(["run", RECIPE, "--input", str(data), "--output", str(tmp_path / "run"), "--set", "max_failed=1"])
    assert replay(tmp_path / "run", line["id"]).requests


@pytest.mark.slow
def test_records_with_one_id_are_replayed_as_the_run_chose(run: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()[:6]]
    doubled = [line | {"id": f"q{number // 2}"} for number, line in enumerate(lines)] + [lines[0] | {"id": ""}]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in doubled), "utf-8")
    for line in lines:
        for name in line["media"]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SAMPLE / name, folder / name)
    out = tmp_path / "out"
    assert main(["run", RECIPE, "--input", str(folder), "--output", str(out), "--replace"]) == 0
    rows = {
        row["id"]: (name, row.get("reason") or "") for name in ("sft", "rl", "rejected") for row in rows_of(out, name)
    }
    assert len(rows) == 7 and sum("#" in each for each in rows) == 4
    doubles = [each for each in rows if "#" in each]
    for row_id in (*doubles[:2], next(each for each in rows if each not in doubles)):
        name, reason = rows[row_id]
        done = replay(out, row_id)
        assert (done.set, done.reason) == (name, reason), row_id
        is_kept = row_id not in doubles
        assert bool(done.requests) == is_kept, "the calls are those for the record that kept the id"


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


def asked(run: Path, folder: Path, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """The process of a replay, whose temporary folder is ``folder``."""
    folder.mkdir()
    command = [sys.executable, "-P", "-m", "groundtrace.pipelines.running.replay"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)}, cwd=cwd
    )


def question(run: Path, record_id: str, folder: Path, view: int = 0) -> bytes:
    """What the view writes to the process."""
    given = {
        "run": str(run),
        "id": record_id,
        "pipeline": "",
        "cache": "",
        "view": view or os.getpid(),
        "folder": str(folder),
    }
    return json.dumps(given).encode()


@pytest.mark.slow
def test_neither_the_server_nor_its_key_is_needed(clip_run: Path, tmp_path: Path) -> None:
    process = asked(clip_run, tmp_path / "temp", cwd=tmp_path)
    _, said = process.communicate(question(clip_run, "clip", tmp_path / "temp"))
    done = json.loads((tmp_path / "temp/answer.json").read_text("utf-8"))
    assert process.returncode == 0 and done["set"] == "sft", said[-2000:]
    assert {each["role"] for each in done["requests"]} >= {"policy", "teacher", "pointer", "detector", "judge"}
    assert all(each["stored"] == each["keys"] for each in done["requests"])
    assert {each["role"] for each in done["marks"]} == {"detector", "pointer"} and done["notes"] == []
    frames = {(each["media_index"], each["frame"]) for each in rows_of(clip_run, "sft")[0]["frames"]}
    found = {(index, frame) for each in done["marks"] for index, frame in each["places"]}
    assert len(found) > 1 and found <= frames, "marks are in the frames of the clip"
    assert [each.name for each in tmp_path.iterdir()] == ["temp"]
    assert [each.name for each in (tmp_path / "temp").iterdir()] == ["answer.json"]


@pytest.mark.faults
def test_sigterm_ends_it_and_removes_its_files(run: Path, tmp_path: Path) -> None:
    process = asked(run, tmp_path / "temp")
    assert process.stdin is not None
    process.stdin.write(question(run, rows_of(run, "sft")[0]["id"], tmp_path / "temp"))
    process.stdin.close()
    limit_s = time.monotonic() + 60
    while not list((tmp_path / "temp").glob("groundtrace-replay-*")):
        assert time.monotonic() < limit_s and process.poll() is None
        time.sleep(0.01)
    process.terminate()
    assert process.wait(20) == 1
    assert not (tmp_path / "temp").exists()


@pytest.mark.slow
def test_it_ends_with_the_view(run: Path, tmp_path: Path) -> None:
    process = asked(run, tmp_path / "temp")
    process.communicate(question(run, rows_of(run, "sft")[0]["id"], tmp_path / "temp", view=1), timeout=60)
    assert process.returncode == 1 and not (tmp_path / "temp").exists()
