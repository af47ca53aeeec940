"""``beam loop`` on the command line: what it refuses, in one line, and how a failed step ends it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.loop import run as module
from groundtrace.pipelines.loop.steps import Step

SAMPLE = Path(__file__).parents[3] / "data/sample"


def loop(tmp_path: Path, *words: str) -> int:
    return main(["loop", "grounded_cot", "--input", str(SAMPLE), "--output", str(tmp_path / "out"), *words])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "tiny", "--config", "none.toml"], "none.toml"),
        (["--model", "tiny", "--set", "held_out.share=2"], "held_out.share"),
        (["--model", "tiny", "--set", "held_outs.share=0.1"], "held_outs"),
        (["--model", "tiny", "--set", "curate.set.traces.n=2"], "traces"),
        (["--model", "Qwen/Qwen3-VL-2B-Instruct"], "trainer.config is not set"),
        (["--model", "tiny", "--set", "trainer.config=none"], "none"),
        (["--model", "tiny", "--set", "rl.set.attempts.k=2"], "attempts"),
        (["--model", "tiny", "--set", "grpo.set.grpo.group=2"], "grpo.group"),
        (["--model", "tiny", "--set", "serve.kind=vllm"], "GROUNDTRACE_VLLM is set to nowhere"),
    ],
)
def test_a_mistake_is_one_line_before_any_step(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GROUNDTRACE_VLLM", "nowhere")
    assert loop(tmp_path, *words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("beam: ") and err.count("\n") == 1 and message in err
    assert not (tmp_path / "out/steps").exists()


def test_another_input_needs_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run_process", lambda *_: 1)
    monkeypatch.setattr(module.run_loop, "__defaults__", (lambda *_: 1,))
    assert loop(tmp_path, "--model", "tiny") == 1
    err = capsys.readouterr().err.splitlines()
    log = tmp_path / "out/logs/curate.log"
    assert err[-1].startswith("beam: the step curate ") and str(log) in err[-1]
    assert "Traceback" not in "\n".join(err)
    assert loop(tmp_path, "--model", "tiny", "--set", "held_out.seed=1") == 2
    assert "with another setting of held_out.seed" in capsys.readouterr().err


LINKS = [
    "logs/curate.log",
    "logs/eval-base.log",
    "logs",
    "steps",
    "steps/sft.json",
    "configs",
    "configs/rl.toml",
    "questions",
    "questions/split.json",
    "questions/train",
    "questions/held",
    "curate",
    "model",
    "sft",
    "rl",
    "grpo",
    "eval-base",
    "earlier",
    "loop.html",
    f".questions.{'0' * 32}.tmp",
]


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_a_link_in_the_folder_of_a_loop_is_refused(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/file").write_text("of the user")
    (tmp_path / "own/folder").mkdir()
    link = tmp_path / "out" / name
    link.parent.mkdir(parents=True)
    if not name.startswith((".", "questions")):
        (tmp_path / "out/questions").mkdir()
    link.symlink_to(tmp_path / "own" / kind)
    assert loop(tmp_path, "--model", "tiny") == 2
    assert (
        f"beam: {link} is a link, but Groundtrace writes and deletes nothing in {tmp_path / 'out'} through"
        in capsys.readouterr().err
    )
    assert sorted(path.name for path in (tmp_path / "own").rglob("*")) == ["file", "folder"]
    assert (tmp_path / "own/file").read_text() == "of the user"


@pytest.mark.parametrize("name", ["questions/split.json", "steps/curate.json", "logs/curate.log"])
def test_a_pipe_in_the_folder_of_a_loop_is_not_opened(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.run_loop, "__defaults__", (lambda *_: 1,))
    assert loop(tmp_path, "--model", "tiny") == 1
    monkeypatch.undo()
    pipe = tmp_path / "out" / name
    pipe.parent.mkdir(exist_ok=True)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    assert loop(tmp_path, "--model", "tiny") == 2
    err = capsys.readouterr().err.splitlines()
    assert err[-1] == f"beam: {pipe} is not a regular file, but a pipe: move it away"


def test_the_folder_of_a_loop_is_locked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from groundtrace.storage.files import locked

    with locked(tmp_path / "out"):
        assert loop(tmp_path, "--model", "tiny") == 2
    assert "another process is writing" in capsys.readouterr().err


def test_the_sample_is_divided_by_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[Step] = []
    monkeypatch.setattr(module, "_do", lambda loop, step, *_: steps.append(step))
    monkeypatch.setattr(module, "write_story", lambda *_: None)
    loop(tmp_path, "--model", "tiny")
    assert [step.name for step in steps][:2] == ["curate", "model"]
    parts = [
        [json.loads(line) for line in (tmp_path / "out/questions" / side / "records.jsonl").open(encoding="utf-8")]
        for side in ("train", "held")
    ]
    media: list[set[Any]] = [{name for each in part for name in each["media"]} for part in parts]
    assert len(parts[0]) > len(parts[1]) > 0 and not media[0] & media[1]
