"""The page of a loop: what it shows at each time, its links, and that hostile text stays text."""

import html
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.loop.run import run_loop
from groundtrace.pipelines.loop.stop import StepFailed
from groundtrace.pipelines.loop.story import read_story, story_lines, story_page, write_story
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import UnsafeFile

from .loops import Commands, loop_of, png, split, write_input

HOSTILE = "\"><script>alert(1)</script></style><img src=x onerror=alert(1)>' {{ 7*7 }} \x00\u202e"


def divided(folder: Path, word: str = "plain") -> Path:
    images = {f"{number}.png": png(number, 64) for number in range(10)}
    lines = [{"id": f"q{n}", "media": f"{n}.png", "question": f"{word} {n}?", "source": word} for n in range(10)]
    split(folder / "out", write_input(folder / "data", lines, images))
    return folder / "out"


def test_a_finished_loop(tmp_path: Path) -> None:
    out = divided(tmp_path)
    run_loop(loop_of(out), Commands())
    text = (out / "loop.html").read_text("utf-8")
    for link in re.findall(r'<a href="([^#][^"]*)"', text):
        assert (out / link).is_file(), link
    assert {"curate/report.html", "sft/train.html", "eval-grpo/eval.html", "logs/rl.log"} <= set(
        re.findall(r'<a href="([^#][^"]*)"', text)
    )
    assert text.count('<span class="state done">done</span>') == 8
    assert text.count("<svg") == 6, "loss, reward and accuracy of both trainings"
    assert text.count('class="entry"') == 2, "a question that was gained, and one that stayed wrong"
    assert "data:image/" in text and 'http-equiv="refresh"' not in text
    assert "too_hard 4" in text and "GRPO − base" in text
    assert "of accuracies then has Newcombe's interval" in html.unescape(text), "as docs/evaluation.md states"


def test_the_figures(tmp_path: Path) -> None:
    out = divided(tmp_path)
    run_loop(loop_of(out), Commands())
    lines = story_lines(read_story(loop_of(out)))
    assert lines[0].startswith("3 held-out questions")
    assert [line.split(":")[0].strip() for line in lines[1:7]] == [
        *("base", "SFT", "GRPO", "SFT − base", "GRPO − SFT", "GRPO − base"),
    ]
    assert lines[3].endswith("accuracy 0.667 [0.208, 0.939], point F1 0.667")
    assert lines[6].endswith("accuracy +0.667 [+0.000, +1.000], point F1 +0.667")
    assert [line[:45] for line in lines[7:]] == [
        "The comparison has only 3 questions: the 95 %",
        "The comparison has only 3 media groups: with ",
    ]
    assert all(line.endswith("raise its held_out.share, with another --output.") for line in lines[7:])


def test_few_rows_are_named_before_the_training_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = divided(tmp_path)
    run_loop(loop_of(out), Commands(rows={"sft": 2, "rl": 1}))
    note = "The step grpo has only 1 RL row, and one training step needs 3 (grpo.prompts_per_step), so its result is "
    assert read_story(loop_of(out)).notes[2].startswith(note)
    assert note in (out / "loop.html").read_text("utf-8")
    printed = capsys.readouterr().err
    assert printed.index("grpo, GRPO on the questions") < printed.index(note)
    assert printed.count("The step ") == 1, "SFT has as many rows as one of its steps needs"


@pytest.mark.parametrize("name", ["eval-base/eval.json", "steps/sft.json", "questions/split.json"])
def test_a_pipe_is_not_opened(name: str, tmp_path: Path) -> None:
    out = divided(tmp_path)
    run_loop(loop_of(out), Commands())
    (out / name).unlink()
    os.mkfifo(out / name)
    with pytest.raises(UnsafeFile, match=f"{out / name} is not a regular file, but a pipe"):
        read_story(loop_of(out))


def test_without_graded_answers_no_blind_line(tmp_path: Path) -> None:
    """As without a judge for free texts: the page has no accuracy of a policy that never looks, and the loop ends."""
    out = divided(tmp_path)
    loop = loop_of(out)
    run_loop(loop, Commands())
    for name in ("eval-base", "eval-sft", "eval-grpo"):
        file = out / name / "eval.json"
        file.write_text(file.read_text("utf-8").replace("0.4", "null"), "utf-8")
    story = read_story(loop)
    assert story.blind is None and "never looks" not in story_page(loop, story, "")


@pytest.mark.parametrize("stopped_at", ["curate", "sft", "rl", "eval-grpo"])
def test_a_loop_on_its_way(stopped_at: str, tmp_path: Path) -> None:
    out = divided(tmp_path)
    with pytest.raises(StepFailed):
        run_loop(loop_of(out), Commands({stopped_at: 2}))
    write_story(loop_of(out), running=stopped_at)
    text = (out / "loop.html").read_text("utf-8")
    assert text.count('<span class="state running">running</span>') == 1 and 'http-equiv="refresh"' in text
    assert ("Held-out questions</h2>" in text) == (stopped_at != "curate")


ERROR = "trainer: 9 weights\nTraceback\ntrainer: model.path is <b>wrong</b>: correct it\n(the report is r.html)\n"
"""The output of a command that fails. The line of the error is the last one that begins with the program's name."""


@pytest.mark.parametrize(
    ("end", "log", "state", "reason", "remedy"),
    [
        (KeyboardInterrupt(), "", "stopped", "interrupted", "Run the same command again to continue."),
        (
            2,
            ERROR,
            "failed",
            "the command ended with code 2: model.path is &lt;b&gt;wrong&lt;/b&gt;: correct it",
            "Correct",
        ),
        (1, "a line\nno room\n\n", "failed", "the command ended with code 1: no room", "Correct the error."),
        (1, "", "failed", "the command ended with code 1", "Correct the error."),
        (-9, ERROR, "failed", "the command was ended by SIGKILL", "Run the same command again to continue."),
    ],
)
def test_a_stopped_loop(end: Any, log: str, state: str, reason: str, remedy: str, tmp_path: Path) -> None:
    out = divided(tmp_path)
    with pytest.raises((StepFailed, KeyboardInterrupt)):
        run_loop(loop_of(out), Commands({"sft": end}, outputs={"sft": log}))
    text = (out / "loop.html").read_text("utf-8")
    assert f'<span class="state {state}">{state}</span>' in text and "state running" not in text
    [said] = re.findall(r'<p class="stop">.*</p>', text)
    assert f'<code>sft</code>: <span class="t">{reason}</span><br>{remedy}' in said
    assert 'http-equiv="refresh"' not in text
    run_loop(loop_of(out), Commands())
    assert '<p class="stop">' not in (out / "loop.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("changes", "stopped_at", "current", "shown"),
    [
        ({"sft": {"set": {"sft": {"steps": 5}}}}, "sft", ["curate", "model", "eval-base"], ["base"]),
        (
            {"grpo": {"set": {"grpo": {"steps": 5}}}},
            "grpo",
            ["curate", "model", "eval-base", "sft", "eval-sft", "rl"],
            ["base", "SFT", "SFT − base"],
        ),
        ({"model": "m4", "trainer": {"config": "tiny"}}, "eval-base", ["curate"], []),
        ({"model": "m4", "trainer": {"config": "tiny"}}, "sft", ["curate", "eval-base"], ["base"]),
    ],
)
def test_results_of_other_settings_are_not_shown(
    changes: dict[str, Any], stopped_at: str, current: list[str], shown: list[str], tmp_path: Path
) -> None:
    """A finished loop is repeated with other settings or another base model, and is stopped on its way."""
    out = divided(tmp_path)
    run_loop(loop_of(out), Commands())
    loop = loop_of(out, **changes)
    with pytest.raises(KeyboardInterrupt):
        run_loop(loop, Commands({stopped_at: KeyboardInterrupt()}))
    story = read_story(loop)
    assert [step.name for step in story.steps if step.state == "done"] == current
    assert [line.split(":")[0].strip() for line in story_lines(story)[1:] if line.startswith("  ")] == shown
    waiting = [step for step in story.steps if step.name not in (*current, stopped_at)]
    assert {(step.state, step.note, step.took, step.report, step.log) for step in waiting} == {
        ("waiting", "an earlier result is out of date", "", "", "")
    }
    assert [title for title, _ in story.curves] == [name.upper() for name in ("sft", "grpo") if name in current]


def test_a_loop_that_stopped_before_a_step(tmp_path: Path) -> None:
    out = divided(tmp_path)
    with pytest.raises(UserError):
        run_loop(loop_of(out), Commands(rows={"sft": 2, "rl": 0}))
    text = (out / "loop.html").read_text("utf-8")
    assert text.count("state done") == 6 and text.count("state stopped") == 1 and text.count("state waiting") == 1
    assert "<code>grpo</code>: " in text and "add --set rl.set.difficulty.low=0" in text


def test_before_the_first_step(tmp_path: Path) -> None:
    out = divided(tmp_path)
    write_story(loop_of(out))
    assert (out / "loop.html").read_text("utf-8").count("state waiting") == 8


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    out = divided(tmp_path, HOSTILE.replace("\x00", "").replace("\u202e", ""))
    loop = loop_of(out, model="tiny")
    run_loop(loop, Commands())
    for name in ("eval-base", "eval-grpo"):
        path = out / name / "responses.jsonl"
        lines = [json.loads(line) | {"text": HOSTILE} for line in path.read_text("utf-8").splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    write_story(loop)
    text = (out / "loop.html").read_text("utf-8")
    assert "<script" not in text and "<img src=x" not in text and "{{ 7*7 }}" in text and ">49<" not in text
