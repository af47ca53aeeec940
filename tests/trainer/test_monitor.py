"""What a run records of itself: run.json, the resolved config, metrics that go on where a resumed run does."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.settings import config_sha256, load_config
from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.records import Question, Verdict
from groundtrace.trainer.group import Group
from groundtrace.trainer.monitor import LINE_EVERY, Monitor, as_line, overlay_png, save_rollouts
from groundtrace.trainer.sample import Rollout
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.vision.decode import decode_image

from .runs import lines_of, settings_of


@pytest.fixture
def settings() -> TrainerSettings:
    return settings_of(Path("tiny"))


@pytest.fixture
def monitor(tmp_path: Path, settings: TrainerSettings) -> Monitor:
    return Monitor(tmp_path / "out", "sft", settings, "data", 25)


def run_of(tmp_path: Path) -> dict[str, Any]:
    return json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))


def test_a_run_from_beginning_to_end(tmp_path: Path, monitor: Monitor, settings: TrainerSettings) -> None:
    begun = run_of(tmp_path)
    assert (begun["command"], begun["data"]) == ("sft", "data")
    assert "ended" not in begun
    with monitor:
        monitor.leave_out("row 3", "q3: image 1 does not decode")
    ended = run_of(tmp_path)
    assert (ended["ended"], ended["rows_left_out"]) == ("done", 1)
    assert ended["finished"] >= ended["started"] == begun["started"]
    assert lines_of(tmp_path / "out" / "left_out.jsonl") == [{"row": "row 3", "reason": "q3: image 1 does not decode"}]


@pytest.mark.parametrize("command", ["sft", "grpo"])
def test_the_page_of_grpo_has_the_settings_of_the_reward(
    command: str, tmp_path: Path, settings: TrainerSettings
) -> None:
    with Monitor(tmp_path, command, settings, "data", 25):
        pass
    assert ("options.tau" in (tmp_path / "train.html").read_text("utf-8")) == (command == "grpo")


def test_the_revision_is_that_of_the_code(tmp_path: Path, monitor: Monitor) -> None:
    assert re.match(r"[0-9a-f]{7,40}", run_of(tmp_path)["revision"])


def test_an_error_is_recorded_and_goes_on_its_way(tmp_path: Path, monitor: Monitor) -> None:
    with pytest.raises(RuntimeError), monitor:
        raise RuntimeError("the loss is nan")
    assert run_of(tmp_path)["ended"] == "RuntimeError: the loss is nan"


def test_the_resolved_config_can_be_used_again(tmp_path: Path, monitor: Monitor, settings: TrainerSettings) -> None:
    again = load_config(TrainerSettings, str(tmp_path / "out" / "config.toml"))
    complete = replace(settings, reward=settings.reward.complete())
    assert again == complete
    assert config_sha256(again) == config_sha256(complete) == run_of(tmp_path)["config_sha256"]
    options = again.reward.options
    assert options["weights"] == {"outcome": 1.0, "spatial": 1.0, "reasoning": 1.0}
    assert (options["tau"], options["skip"], options["pointing"]["wrong_cost"]) == (1.0, [], 0.1)


def test_another_config_has_another_digest(settings: TrainerSettings) -> None:
    others = [
        settings_of(Path("other")),
        settings_of(Path("tiny"), seed=1),
        settings_of(Path("tiny"), sft={"steps": 3}),
    ]
    assert len({config_sha256(each) for each in [settings, *others]}) == 4


def test_metrics(tmp_path: Path, monitor: Monitor) -> None:
    """Rounded to six places; null is a metric without a value, one that is no number is left out."""
    with monitor:
        monitor.log(1, {"loss": 1.23456789, "spatial": None, "entropy": math.nan, "grad_norm": math.inf}, ("loss",))
        monitor.log(2, {"loss": 1.0}, ("loss",))
    text = (tmp_path / "out" / "metrics.jsonl").read_text("utf-8")
    assert [json.loads(line) for line in text.splitlines()] == [
        {"step": 1, "loss": 1.23456789, "spatial": None},
        {"step": 2, "loss": 1.0},
    ]


def test_small_figures_are_kept(tmp_path: Path, monitor: Monitor) -> None:
    """A divergence or a gradient of a ten-millionth is not 0."""
    with monitor:
        monitor.log(1, {"kl": 3.2e-8}, ())
    assert lines_of(tmp_path / "out" / "metrics.jsonl")[0]["kl"] == pytest.approx(3.2e-8, rel=1e-3)


@pytest.mark.parametrize("done", [0, 1, 2, 4])
@pytest.mark.parametrize("first", [1, 0], ids=["from 1", "from 0, as in earlier versions"])
def test_resumed_metrics(done: int, first: int, tmp_path: Path, monitor: Monitor, settings: TrainerSettings) -> None:
    """No step is there twice, and none is missing, whatever the number of the first step in an existing file is."""
    with monitor:
        for place in range(4):
            monitor.log(first + place, {"loss": float(place)}, ())
    for _ in range(2):  # the second command is killed before its first step, and the third one continues
        with Monitor(tmp_path / "out", "sft", settings, "data", 25) as again:
            again.resume_at(done)
    with Monitor(tmp_path / "out", "sft", settings, "data", 25) as again:
        again.resume_at(done)
        again.log(done + 1, {"loss": 20.0}, ())
    expected = [{"step": place + 1, "loss": float(place)} for place in range(done)] + [{"step": done + 1, "loss": 20.0}]
    assert lines_of(tmp_path / "out" / "metrics.jsonl") == expected


START, END = "2026-11-26T08:00:00+00:00", "2026-11-26T09:00:00+00:00"
STOPPED = "Stopped: stopped by SIGTERM"


@pytest.mark.parametrize(
    ("done", "ended", "keeps"),
    [
        (25, "done", (True, True)),
        (20, "done", (True, False)),
        (20, STOPPED, (True, False)),
        (25, STOPPED, (True, False)),
        (25, None, (True, False)),
        (0, STOPPED, (False, False)),
    ],
    ids=["finished", "more steps", "stopped", "stopped after its last step", "killed after its last step", "anew"],
)
def test_the_times_of_an_earlier_command(
    done: int, ended: str | None, keeps: tuple[bool, bool], tmp_path: Path, settings: TrainerSettings
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    times = {"started": START} | ({} if ended is None else {"finished": END, "ended": ended})
    (out / "run.json").write_text(json.dumps({"command": "sft", **times}), "utf-8")
    with Monitor(out, "sft", settings, "data", 25, done) as monitor:
        assert "ended" not in run_of(tmp_path)
        monitor.resume_at(done)
    run = run_of(tmp_path)
    assert ((run["started"] == START), (run["finished"] == END)) == keeps
    assert run["ended"] == "done"


@pytest.mark.parametrize("text", ["", '{"comm', "[]", "{}"])
def test_an_earlier_record_that_is_damaged(text: str, tmp_path: Path, settings: TrainerSettings) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text(text, "utf-8")
    with Monitor(tmp_path / "out", "sft", settings, "data", 25, 25):
        assert run_of(tmp_path)["started"] > START
    assert run_of(tmp_path)["finished"] > END


def test_an_error_after_the_last_step_has_its_own_time(tmp_path: Path, settings: TrainerSettings) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "run.json").write_text(json.dumps({"started": START, "finished": END, "ended": "done"}), "utf-8")
    with pytest.raises(OSError, match="full"), Monitor(out, "sft", settings, "data", 25, 25):
        raise OSError("the disk is full")
    assert run_of(tmp_path)["finished"] > END


def test_nothing_to_resume(tmp_path: Path, monitor: Monitor) -> None:
    with monitor:
        monitor.resume_at(0)
    assert not (tmp_path / "out" / "metrics.jsonl").exists()


def test_lines_where_there_is_no_terminal(monitor: Monitor, capsys: pytest.CaptureFixture[str]) -> None:
    with monitor:
        for step in range(1, 26):
            monitor.log(step, {"loss": 0.5, "other": 1.0}, ("loss", "spatial"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"step {step}/25: loss 0.5" for step in range(1, 25, LINE_EVERY)] + ["step 25/25: loss 0.5"]


def test_a_note_is_always_shown(monitor: Monitor, capsys: pytest.CaptureFixture[str]) -> None:
    with monitor:
        monitor.log(4, {"loss": 0.5}, ("loss",), "nothing learnt")
        monitor.log(5, {"loss": 0.5}, ("loss",))
    assert capsys.readouterr().err.splitlines() == ["step 4/25: loss 0.5, nothing learnt"]


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = settings_of(Path("tiny"), log={"tensorboard": True})
    with Monitor(tmp_path / "out", "grpo", settings, "data", 2) as monitor:
        monitor.resume_at(0)
        monitor.log(1, {"reward": 0.25, "spatial": None}, ())
        monitor.log(2, {"reward": 0.5}, ())
    events = EventAccumulator(str(tmp_path / "out" / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["reward"]
    assert [(event.step, event.value) for event in events.Scalars("reward")] == [(1, 0.25), (2, 0.5)]


POINT = '<points x1="20" y1="30" alt="red">red</points>'
BOX = "<box>[10,10,40,50]</box>"


@pytest.fixture
def row_of(png: Callable[..., bytes]) -> Callable[..., TrainingRow]:
    def made(id: str = "q", pictures: int = 1) -> TrainingRow:
        images = tuple((png(64, 64, seed), f"{seed}.png") for seed in range(pictures))
        return TrainingRow(id, "drawn", (), images, Question(id, "drawn", "", (), "How many?", "3", "numeric"))

    return made


def scored(text: str, reward: float | None = 1.0) -> Scored:
    return Scored(reward, reward, text, (Verdict("outcome", reward, "numeric: same"), Verdict("spatial", None, "none")))


@pytest.mark.parametrize("text", [POINT, BOX, f"{POINT} in {BOX}"])
def test_marks_are_drawn(text: str, row_of: Any) -> None:
    drawn = overlay_png(row_of(), text)
    assert drawn is not None
    pixels = decode_image(drawn).pixels
    original = decode_image(row_of().images[0][0]).pixels
    times = pixels.shape[0] // original.shape[0]  # a picture this small is enlarged, so that figures can be read
    enlarged = original.repeat(times, axis=0).repeat(times, axis=1)
    assert pixels.shape == enlarged.shape
    around = (slice(22 * times, 38 * times), slice(6 * times, 44 * times))
    assert (pixels[around] != enlarged[around]).any(), "something is drawn where the marks are"


@pytest.mark.parametrize("text", ["", "no marks", '<points x1="20" alt="red">red</points>'])
def test_nothing_to_draw(text: str, row_of: Any) -> None:
    assert overlay_png(row_of(), text) is None


def test_no_picture(row_of: Any) -> None:
    assert overlay_png(row_of(pictures=0), POINT) is None


def test_the_first_of_several_pictures(row_of: Any) -> None:
    assert overlay_png(row_of(pictures=2), POINT) == overlay_png(row_of(), POINT)


def test_a_line_of_plain_fields() -> None:
    assert as_line(scored("text", None)) == {
        "reward": None,
        "text": "text",
        "verdicts": {
            "outcome": {"value": None, "reason": "numeric: same"},
            "spatial": {"value": None, "reason": "none"},
        },
    }


def test_the_first_rollouts_of_the_first_groups(row_of: Any, tmp_path: Path) -> None:
    texts = (POINT, "ünmarked ‹line›\n", BOX)
    rollouts = (Rollout((1, 2), False),) * 3
    groups = [
        Group(row_of(f"q{number}"), None, rollouts, tuple(map(scored, texts)))  # type: ignore[arg-type]
        for number in range(3)
    ]
    save_rollouts(tmp_path / "a" / "b", groups, 4)
    lines = lines_of(tmp_path / "a" / "b" / "rollouts.jsonl")
    assert [(line["id"], line["text"], line["overlay"]) for line in lines] == [
        ("q0", POINT, "0-0.png"),
        ("q0", "ünmarked ‹line›\n", None),
        ("q1", POINT, "1-0.png"),
        ("q1", "ünmarked ‹line›\n", None),
    ]
    assert all((line["gold"], line["reward"]) == ("3", 1.0) for line in lines)
    files = {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert files == {"rollouts.jsonl", "0.png", "0-0.png", "1.png", "1-0.png"}


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, ["q1 2"]),
        (4, ["q0 0", "q0 1", "q1 0", "q1 2"]),
        (7, ["q0 0", "q0 1", "q0 2", "q1 0", "q1 1", "q1 2", "q1 3"]),
        (99, [f"q{group} {number}" for group in (0, 1) for number in range(4)]),
    ],
)
def test_right_responses_are_among_the_saved_ones(count: int, expected: list[str], row_of: Any, tmp_path: Path) -> None:
    def group(name: str, right: set[int]) -> Group:
        texts = [f"{name} {number}" for number in range(4)]
        answers = tuple(scored(text, float(number in right)) for number, text in enumerate(texts))
        return Group(row_of(name), None, (Rollout((1, 2), False),) * 4, answers)  # type: ignore[arg-type]

    save_rollouts(tmp_path, [group("q0", set()), group("q1", {2, 3})], count)
    assert [line["text"] for line in lines_of(tmp_path / "rollouts.jsonl")] == expected


def test_a_step_without_groups(tmp_path: Path) -> None:
    save_rollouts(tmp_path / "step", [], 4)
    assert (tmp_path / "step" / "rollouts.jsonl").read_text("utf-8") == ""
