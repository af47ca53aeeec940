"""The page of a training: what it shows, that hostile text stays text, and that it stays small and is whole."""

import base64
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from groundtrace.config.settings import load_config
from groundtrace.rewards.rows.settings import CONFIGS, RewardSettings
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.trainer.checkpoint import STATE
from groundtrace.trainer.settings import ModelSettings, TrainerSettings
from groundtrace.trainer.watching import page
from groundtrace.trainer.watching.page import TrainPage, train_page

HOSTILE = "\"><script>alert(1)</script></style></textarea><img src=x onerror=alert(1)>' {{ 7*7 }} \x00\u202e"
RUN = {
    "command": "grpo",
    "data": "runs/q",
    "model": "tiny",
    "steps": 40,
    "config_sha256": "ab" * 32,
    "revision": "0123456789ab",
    "device": "cpu",
    "started": "2026-11-26T08:00:00+00:00",
}
ENDED = {"finished": "2026-11-26T09:00:00+00:00", "ended": "done"}


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def noise(side: int, seed: int = 0) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def write_training(output: Path, text: str = "plain", images: int = 1, side: int = 64, **run: Any) -> Path:
    """A training of 30 steps with four validations on eight questions; ``text`` is everything that others wrote."""
    output.mkdir(parents=True, exist_ok=True)
    (output / "run.json").write_text(json.dumps(RUN | run), "utf-8")
    lines = [{"step": n, "reward": n / 30, "loss": 1.0, text: n} for n in range(1, 31)]
    write_lines(output / "metrics.jsonl", lines)
    steps = (0, 10, 20, 30)
    lines = [{"step": n, "reward": 0.2, "accuracy": n / 40, "blind_accuracy": 0.3, "questions": 8.0} for n in steps]
    write_lines(output / "validation.jsonl", lines)
    names = [f"image-{number}" for number in range(images)]
    (output / "validation" / "images").mkdir(parents=True)
    for number, name in enumerate(names):
        (output / "validation" / "images" / name).write_bytes(noise(side, number))
    asked = {"stream": "", "question": text, "gold": text, "choices": [text], "images": names}
    questions = [asked | {"id": f"{text}{number}"} for number in range(8)]
    (output / "validation" / "questions.json").write_text(json.dumps(questions), "utf-8")
    written = f'<points x1="10" y1="20" alt="{text}">{text}</points> {text}'
    verdicts = {"outcome": {"value": 1.0, "reason": text}, text: {"value": 0.5, "reason": text}}
    for step in steps:
        answers = [
            {"id": each["id"], "gold": text, "tokens": 3, "reward": 0.5, "text": written, "verdicts": verdicts}
            for each in questions
        ]
        write_lines(output / "validation" / f"step-{step:06d}.jsonl", answers)
    return output


def test_the_page_shows_the_training(tmp_path: Path) -> None:
    html = train_page(write_training(tmp_path / "mine"))
    for said in ("GRPO of", "tiny", "of 40 steps", "0.3 without looking", "after 30 steps", "before the training"):
        assert said in html
    assert "held out 0.75 (never looks 0.3)" in html and 'class="line blind_validation"' in html
    assert html.count("<title>step 30: ") == 2, "reward and accuracy of the last validation"
    assert '<tr class="is-best"><td class="r">30</td>' in html
    assert html.count('<article class="entry">') == 8 and html.count("data:image/") == 8
    assert 'class="point"' in html
    assert '<meta http-equiv="refresh"' in html, "it is running"


def test_the_best_of_equal_validations_has_the_lowest_loss(tmp_path: Path) -> None:
    output = write_training(tmp_path)
    equal = [{"step": step, "accuracy": 0.0, "loss": loss} for step, loss in ((0, 3.0), (10, 1.0), (20, 2.0))]
    write_lines(output / "validation.jsonl", equal)
    assert '<tr class="is-best"><td class="r">10</td>' in train_page(output)


@pytest.mark.parametrize(("before", "is_within"), [(0.208, True), (0.1, False)])
def test_a_validation_has_its_interval(before: float, is_within: bool, tmp_path: Path) -> None:
    output = write_training(tmp_path)
    last = {"step": 20, "accuracy": 0.225, "accuracy_low": 0.159, "accuracy_high": 0.308}
    earlier = {"step": 10, "accuracy": before, "accuracy_low": 0.1, "accuracy_high": 0.3}
    write_lines(output / "validation.jsonl", [{"step": 0, "accuracy": 0.0}, earlier, last])
    html = train_page(output)
    assert '<th class="r">95 % interval</th>' in html and '<td class="r">0.159 to 0.308</td>' in html
    said = f"The last change of the accuracy, from {before:.3f} to 0.225, is within the 95 % interval of the last"
    assert (said in html) is is_within
    write_lines(output / "validation.jsonl", [{"step": 0, "accuracy": 0.0}, {"step": 10, "accuracy": 0.1}])
    assert "95 %" not in train_page(output), "an earlier version wrote the validations"


def test_what_has_no_curve_is_listed_and_what_is_not_there_has_no_legend(tmp_path: Path) -> None:
    output = write_training(tmp_path)
    assert "never looks at the images" in train_page(output)
    (output / "validation.jsonl").unlink()
    lines = [{"step": n, "loss": 1.0, "outcome": 0.5, "kl": 0.0, HOSTILE: 0.0} for n in (1, 2)]
    write_lines(output / "metrics.jsonl", lines)
    html = train_page(output)
    assert "never looks at the images" not in html
    assert '0 throughout: <span class="t">KL to the reference, ' in html and "<script" not in html
    assert html.count("The accuracy in training is the metric <code>outcome</code>") == 1
    write_lines(output / "metrics.jsonl", [{"step": 1, "loss": 1.0}])
    assert "0 throughout" not in (html := train_page(output)) and "<code>outcome</code>" not in html


@pytest.mark.parametrize("first", [1, 0], ids=["from 1", "from 0, as in earlier versions"])
def test_the_number_of_steps(first: int, tmp_path: Path) -> None:
    output = write_training(tmp_path)
    write_lines(output / "metrics.jsonl", [{"step": first + n, "reward": 0.5} for n in range(30)])
    assert "<b>30</b><span>of 40 steps</span>" in train_page(output)


def test_the_page_of_a_training_that_is_done_does_not_refresh(tmp_path: Path) -> None:
    html = train_page(write_training(tmp_path, **ENDED))
    assert "refresh" not in html and 'role="alert"' not in html


@pytest.mark.parametrize(
    ("ended", "what"),
    [
        ("Overfitted: the reward rose and the accuracy fell", "The training was stopped early"),
        ("Stopped: stopped by SIGINT", "The training was stopped"),
        ("NotFinite: step 3: the loss is nan", "The training ended early"),
    ],
)
def test_an_end_that_is_not_the_last_step_is_at_the_top(ended: str, what: str, tmp_path: Path) -> None:
    html = train_page(write_training(tmp_path, **ENDED | {"ended": ended}))
    assert f'<strong class="what">{what}</strong>' in html
    assert f">{ended.partition(': ')[2]}</p>" in html
    assert "trainer export" not in html, "there is no checkpoint"
    for name in ("checkpoints/step-000020", "best/step-000030"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / STATE).touch()
    html = train_page(tmp_path)
    for name, folder in (("step-000020", "checkpoints"), ("step-000030", "best")):
        assert f"trainer export {tmp_path / folder / name} {tmp_path}-{name} --model tiny</code> makes" in html


@pytest.mark.parametrize(
    ("norm", "run", "is_noted"),
    [
        (0.0, ENDED, True),
        (0.0, {}, False),
        (0.0, ENDED | {"command": "sft"}, False),
        (0.0, ENDED | {"ended": "NothingLearnt: 10 consecutive steps had no gradient"}, False),
        (0.5, ENDED, False),
    ],
    ids=["no gradient", "running", "SFT", "stopped", "a gradient"],
)
def test_a_complete_training_without_a_gradient_has_the_note_of_the_terminal(
    norm: float, run: dict[str, str], is_noted: bool, tmp_path: Path
) -> None:
    output = write_training(tmp_path, **run)
    write_lines(output / "metrics.jsonl", [{"step": 1, "grad_norm": norm, "reward": 0.5, "groups_kept": 0}])
    html = train_page(output, TrainerSettings(model=ModelSettings("tiny")))
    note = "No step had a gradient, so no weight has changed: in 1 of 1 steps, no group has answers with different"
    assert (f'<p class="warn t">{note}' in html) is is_noted


def row(name: str, value: str, default: str) -> str:
    cells = f'<td class="t key-value">{value}</td><td class="t muted key-value">{default}</td>'
    return f'<code class="t">{name}</code></td>{cells}'


def test_the_settings_of_the_reward(tmp_path: Path) -> None:
    """Those that differ from their defaults are visible at once, and the others are folded."""
    output = write_training(tmp_path)
    reward = RewardSettings(options={"tau": 0.25}, synthetic_sources=(HOSTILE,))
    changed = train_page(output, TrainerSettings(ModelSettings("m"), reward=reward))
    section = changed.partition('<section id="reward">')[2]
    visible, _, folded = section.partition("<details>")
    assert (
        '<code class="t">options.tau</code></td><td class="t key-value">0.25</td><td class="t muted key-value">1</td>'
        in visible
    )
    assert "options.weights.spatial" in folded and "options.tau" not in folded
    assert "<script" not in changed and 'href="#reward"' in changed
    assert "All have their defaults." in train_page(output, TrainerSettings(ModelSettings("m")))
    assert "reward" not in train_page(output).partition("<nav>")[2].partition("</nav>")[0].lower()


def test_the_settings_of_the_training(tmp_path: Path) -> None:
    output = write_training(tmp_path, command="sft")
    html = train_page(output, TrainerSettings(ModelSettings(HOSTILE, lora_rank=8), seed=3))
    assert 'href="#settings"' in html and 'id="reward"' not in html and "<script" not in html
    visible, _, folded = html.partition('<section id="settings">')[2].partition("<details>")
    assert (
        '<code class="t">seed</code></td><td class="t key-value">3</td><td class="t muted key-value">0</td>' in visible
    )
    assert (
        '<code class="t">model.lora_rank</code></td><td class="t key-value">8</td><td class="t muted key-value">0</td>'
        in visible
    )
    assert "sft.optimiser.lr" in folded and "grpo." not in folded and "rollout." not in folded


def test_the_settings_of_a_training_with_a_bundled_config(tmp_path: Path) -> None:
    """Visible is what the user changed; a name that no bundled config has is not used."""
    settings = load_config(TrainerSettings, str(CONFIGS / "tiny.toml"), ["sft.epochs=6"], CONFIGS)
    html = train_page(write_training(tmp_path, command="sft", bundled_config="tiny"), settings)
    visible, _, folded = html.partition('<section id="settings">')[2].partition("<details>")
    assert 'differ from the bundled config <code class="t">tiny</code>' in visible
    cells = [f'<td class="t{each} key-value">' for each in ("", " muted")]
    assert visible.count('<code class="t">sft.epochs') == 1 and f"{cells[0]}6</td>{cells[1]}10</td>" in visible
    assert visible.count('<td class="key-name">') == 1 and "sft.optimiser.lr" in folded
    (tmp_path / "run.json").write_text(json.dumps(RUN | {"command": "sft", "bundled_config": "../tiny"}), "utf-8")
    assert "differ from their defaults" in train_page(tmp_path, settings)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    hostile = {"model": HOSTILE, "data": HOSTILE, "device": HOSTILE, "ended": f"OSError: {HOSTILE}"}
    html = train_page(write_training(tmp_path / "out", HOSTILE, **ENDED | hostile))
    assert "<script" not in html and "<img src=x" not in html
    assert html.count("</style>") == 1 and html.count("&lt;script&gt;alert(1)") > 8 * 6
    assert (
        "49" not in html.replace("&#49", "").split("<article", 1)[1].split("</article")[0].replace("base64", "")[:200]
    )


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    html = train_page(write_training(tmp_path))
    assert "http:" not in html and "https:" not in html and "<script" not in html and "@import" not in html
    assert "default-src 'none'" in html


@pytest.mark.slow
def test_the_page_stays_small(tmp_path: Path) -> None:
    """Large pictures, long texts and many steps."""
    output = write_training(tmp_path, "long " * 20_000, images=3, side=700)
    names = {f"metric-{number}": 1.25 for number in range(200)}
    write_lines(output / "metrics.jsonl", [{"step": n, "reward": n / 3000} | names for n in range(1, 3001)])
    lines = [{"step": n, "reward": 0.2, "accuracy": 0.1, "questions": 8.0} for n in range(2000)]
    write_lines(output / "validation.jsonl", [*lines, {"step": 3000, "reward": 0.2, "accuracy": 0.1}])
    (output / "validation" / "step-003000.jsonl").write_bytes(
        (output / "validation" / "step-000030.jsonl").read_bytes()
    )
    html = train_page(output)
    assert len(html.encode()) < 5_000_000
    assert html.count("data:image/") >= 8


def test_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN), "utf-8")
    html = train_page(tmp_path)
    assert "No step is complete yet." in html and "of 40 steps" in html


def test_saved_rollouts_are_shown_without_a_validation(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN), "utf-8")
    write_lines(tmp_path / "metrics.jsonl", [{"step": 1, "reward": 0.5}])
    folder = tmp_path / "rollouts" / "step-000021"
    line = {"id": "q1", "question": "How many?", "gold": "3", "reward": 0.25, "text": "<answer>2</answer>"}
    line |= {"verdicts": {"outcome": {"value": 0.0, "reason": ""}}, "image": "0.png", "overlay": None}
    write_lines(folder / "rollouts.jsonl", [line, line | {"text": "<answer>3</answer>"}])
    (folder / "0.png").write_bytes(noise(40))
    html = train_page(tmp_path)
    assert html.count('<article class="entry">') == 1 and html.count("in step 21: <b>wrong</b>, reward 0.25") == 2
    encoded = html.split(";base64,")[1].split('"')[0]
    assert Image.open(io.BytesIO(base64.b64decode(encoded))).size == (40, 40)


def test_a_missing_image_is_said_to_be_missing(tmp_path: Path) -> None:
    output = write_training(tmp_path)
    (output / "validation" / "images" / "image-0").unlink()
    assert "no image" in train_page(output)


@pytest.mark.parametrize("kind", ["path", "absolute", "link"])
def test_the_page_shows_no_image_outside_the_folder(kind: str, tmp_path: Path) -> None:
    """A stranger may have sent the folder, and would get the page with a private image."""
    output, private = write_training(tmp_path / "out"), tmp_path / "private.png"
    (output / "validation/images/image-0").rename(private)
    if kind == "link":
        (output / "validation/images/image-0").symlink_to(private)
    else:
        name = str(private) if kind == "absolute" else "../../../private.png"
        file = output / "validation/questions.json"
        file.write_text(file.read_text("utf-8").replace('"image-0"', json.dumps(name)), "utf-8")
        assert name in file.read_text("utf-8")
    assert "no image" in train_page(output)


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl", "validation.jsonl", "validation/questions.json"])
def test_a_pipe_in_the_folder(name: str, tmp_path: Path) -> None:
    output = write_training(tmp_path)
    (output / name).unlink()
    os.mkfifo(output / name)
    with pytest.raises(UnsafeFile, match=f"{name} is not a regular file, but a pipe: move it away"):
        train_page(output)


def test_the_page_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader sees the old or the new page: a process that dies while writing leaves the old one."""
    output = write_training(tmp_path)
    TrainPage(output).write()
    before = (output / "train.html").read_text("utf-8")

    def dies(*_: object) -> None:
        raise OSError("no space")

    write_training_again = json.dumps(RUN | ENDED)
    (output / "run.json").write_text(write_training_again, "utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dies)
        patch.setattr(Path, "replace", dies)
        TrainPage(output).write()
    assert (output / "train.html").read_text("utf-8") == before


def test_a_page_that_cannot_be_made_is_said_once_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = TrainPage(tmp_path / "missing")
    own.write()
    own.write()
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("trainer: ") and "train.html cannot be written: FileNotFoundError" in line


def test_refreshing_takes_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that takes 10 s is made again after 500 s, or at once after a validation."""
    clock, made = [0.0], []

    def slow(_: Path, settings: TrainerSettings | None) -> str:
        made.append(clock[0])
        clock[0] += 10
        return "page"

    monkeypatch.setattr(page.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(page, "train_page", slow)
    own = TrainPage(tmp_path)
    for at in (0.0, 100.0, 499.0, 501.0):
        clock[0] = at
        own.refresh()
    clock[0] = 520.0
    own.refresh(at_once=True)
    assert made == [0.0, 501.0, 520.0]
