"""TensorBoard, W&B and trackio: what is sent, what never is, and no step twice after an interruption."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from groundtrace.schemas.errors import UserError
from groundtrace.trainer.monitor import Monitor
from groundtrace.trainer.settings import TrainerSettings

from ..runs import Command, settings_of


@dataclass
class Service:
    """Has the functions that W&B and trackio have alike, and notes their calls."""

    started: list[dict[str, Any]] = field(default_factory=list)
    sent: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    finished: int = 0

    def init(self, **named: Any) -> None:
        self.started.append(named)

    def log(self, values: dict[str, float], step: int) -> None:
        self.sent.append((step, values))

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture(params=["wandb", "trackio"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def service(name: str, monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service()
    functions = {each: getattr(made, each) for each in ("init", "log", "finish")}
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(__spec__=object(), **functions))
    return made


def settings_with(**log: Any) -> TrainerSettings:
    judge = {"kind": "openai", "model": "j", "base_url": "http://secret-host/v1", "api_key_env": "MY_KEY"}
    return settings_of(Path("tiny"), log=log, reward={"endpoints": {"judge": judge}, "roles": {"judge": "judge"}})


def watched(output: Path, settings: TrainerSettings, start: int, end: int, validated: Callable[[int], bool]) -> None:
    """A training from one step to another, as the loop makes it."""
    with Monitor(output, "grpo", settings, "data", 9) as monitor:
        monitor.resume_at(start)
        for step in range(start, end + 1):
            if validated(step) and all(line["step"] != step for line in monitor.validations):
                monitor.validated(step, {"accuracy": step / 10, "iou": None}, ())
            if step < end:
                monitor.log(step + 1, {"reward": float(step + 1), "kl": None}, ())


def twice(output: Path, settings: TrainerSettings) -> None:
    """It dies after five steps, and goes on from a checkpoint after three."""
    watched(output, settings, 0, 5, lambda step: step % 2 == 0)
    watched(output, settings, 3, 6, lambda step: step % 2 == 0)


def test_a_tracker_gets_each_step_once(name: str, service: Service, tmp_path: Path) -> None:
    twice(tmp_path / "mine", settings_with(tracker=name, project="p"))
    sent = [(step, {key: value}) for step, values in service.sent for key, value in values.items()]
    rewards = [(step, values["reward"]) for step, values in sent if "reward" in values]
    assert rewards == [(step, float(step)) for step in range(1, 7)]
    validations = [(step, values["validation/accuracy"]) for step, values in sent if "validation/accuracy" in values]
    assert validations == [(0, 0.0), (2, 0.2), (4, 0.4), (6, 0.6)]
    assert {key for _, values in sent for key in values} == {"reward", "validation/accuracy"}
    first, second = service.started
    assert first["name"] == second["name"] and first["name"].startswith("mine-")
    assert (first["project"], first["resume"], service.finished) == ("p", "allow", 2)


def test_a_training_that_starts_anew_is_another_run(name: str, service: Service, tmp_path: Path) -> None:
    """It died before its first checkpoint; its config may have been changed since."""
    settings = settings_with(tracker=name)
    watched(tmp_path, settings, 0, 2, lambda step: False)
    watched(tmp_path, settings, 0, 2, lambda step: False)
    first, second = service.started
    assert first["name"] != second["name"] and len(service.sent) == 4


def test_a_tracker_gets_no_addresses_and_no_keys(name: str, service: Service, tmp_path: Path) -> None:
    watched(tmp_path, settings_with(tracker=name), 0, 1, lambda step: True)
    text = json.dumps(service.started, default=str)
    assert "secret-host" not in text and "MY_KEY" not in text and "base_url" not in text
    assert service.started[0]["config"]["grpo"]["group_size"] == 4


def test_a_tracker_that_refuses(name: str, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(**_: Any) -> None:
        raise RuntimeError("api_key not configured\n(no-tty)")

    monkeypatch.setattr(sys.modules[name], "init", refuses)
    said = (
        f"the tracker '{name}' cannot start \\(api_key not configured \\(no-tty\\)\\): log in to this tracker, "
        f"{'set WANDB_MODE=offline, ' if name == 'wandb' else ''}or set log.tracker"
    )
    with pytest.raises(UserError, match=said):
        watched(tmp_path, settings_with(tracker=name), 0, 1, lambda step: False)


def test_a_tracker_that_fails_ends_no_training(
    name: str, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ConnectionError("the service\nis away")

    monkeypatch.setattr(sys.modules[name], "log", fails)
    watched(tmp_path, settings_with(tracker=name), 0, 4, lambda step: False)
    assert len((tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()) == 4
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("trainer: ")]
    assert said == ["trainer: Tracker gets no more metrics: the service is away"]


def test_a_tracker_that_is_not_installed(
    name: str, run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    said = f"log.tracker {name} needs the extra {name}: pip install 'groundtrace[{name}]' (the module {name} is "
    said += "not installed)"
    run("sft", sft_data, f"log.tracker={name}").check_refused(2, said)


def test_tensorboard_has_each_step_once(tmp_path: Path) -> None:
    twice(tmp_path, settings_with(tensorboard=True))
    board = EventAccumulator(str(tmp_path / "tensorboard"), purge_orphaned_data=True)
    board.Reload()
    rewards = [(each.step, each.value) for each in board.Scalars("reward")]
    assert rewards == [(step, float(step)) for step in range(1, 7)]
    validations = [(each.step, pytest.approx(each.value)) for each in board.Scalars("validation/accuracy")]
    assert validations == [(0, 0.0), (2, 0.2), (4, 0.4), (6, 0.6)]


def test_the_page_is_there_from_the_first_step(tmp_path: Path) -> None:
    with Monitor(tmp_path, "grpo", settings_with(), "data", 9) as monitor:
        monitor.resume_at(0)
        monitor.log(1, {"reward": 0.5}, ())
        assert "of 9 steps" in (tmp_path / "train.html").read_text("utf-8")
    assert "refresh" not in (tmp_path / "train.html").read_text("utf-8")


def test_an_evaluation_has_no_page_of_a_training(tmp_path: Path) -> None:
    with Monitor(tmp_path, "eval", settings_with(), "data", 9) as monitor:
        monitor.resume_at(0)
        monitor.log(1, {"accuracy": 0.5}, ())
    assert not (tmp_path / "train.html").exists()
