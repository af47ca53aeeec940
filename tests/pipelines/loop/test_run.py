"""The order of the steps, what is not repeated, and how a loop ends when a step fails or is interrupted."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.loop import run as module
from groundtrace.pipelines.loop.records import read_record
from groundtrace.pipelines.loop.run import make_loop, run_loop
from groundtrace.pipelines.loop.settings import LoopSettings, load_loop
from groundtrace.pipelines.loop.steps import Loop, make_steps
from groundtrace.pipelines.loop.stop import StepFailed
from groundtrace.schemas.errors import UserError
from groundtrace.storage.files import locked

from .loops import Commands, loop_of, png, split, write_input

ALL = ["curate", "model", "eval-base", "sft", "eval-sft", "rl", "grpo", "eval-grpo"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder with divided questions: seven to train on and three held out."""
    images = {f"{number}.png": png(number) for number in range(10)}
    data = write_input(tmp_path / "data", [{"id": f"q{n}", "media": f"{n}.png"} for n in range(10)], images)
    split(tmp_path / "out", data)
    return tmp_path / "out"


def test_all_steps_in_order_and_once(out: Path) -> None:
    commands = Commands()
    page = run_loop(loop_of(out), commands)
    assert commands.ran == ALL and page == out / "loop.html"
    assert run_loop(loop_of(out), commands) == page
    assert commands.ran == ALL


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("end", "code"), [(1, 1), (2, 2), (3, 3), (-9, 3), (143, 143)])
def test_a_step_fails_and_the_same_command_goes_on(name: str, end: int, code: int, out: Path) -> None:
    commands = Commands({name: end})
    with pytest.raises(StepFailed) as caught:
        run_loop(loop_of(out), commands)
    assert caught.value.code == code
    message = str(caught.value)
    assert "\n" not in message and f"the step {name} " in message and str(out / "logs" / f"{name}.log") in message
    assert ("SIGKILL" if end == -9 else f"code {end}") in message
    failed = out.joinpath("loop.html").read_text("utf-8")
    assert '<span class="state failed">failed</span>' in failed
    run_loop(loop_of(out), commands)
    place = ALL.index(name)
    assert commands.ran == [*ALL[: place + 1], *ALL[place:]]
    assert "failed</span>" not in out.joinpath("loop.html").read_text("utf-8")


@pytest.mark.parametrize("name", ALL)
def test_an_interrupted_step_goes_on(name: str, out: Path) -> None:
    commands = Commands({name: KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        run_loop(loop_of(out), commands)
    run_loop(loop_of(out), commands)
    place = ALL.index(name)
    assert commands.ran == [*ALL[: place + 1], *ALL[place:]]
    assert not (out / "earlier").exists(), "the folder of the same step is kept"


def test_a_tiny_model_that_was_made_before_a_kill_is_made_again(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = Commands({"model": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        run_loop(loop_of(out), commands)
    (out / "model").mkdir()
    (out / "model/config.json").write_text("{}")
    run_loop(loop_of(out), commands)
    assert (out / "earlier/model-1/config.json").exists() and commands.ran.count("model") == 2
    printed = capsys.readouterr().err
    assert f"{out / 'model'} is of an attempt that did not finish: moved to" in printed
    assert "other settings" not in printed


def test_changed_settings_repeat_a_step_and_what_follows(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = Commands()
    run_loop(loop_of(out), commands)
    revision = json_of(out / "configs/rl.toml")
    run_loop(loop_of(out, sft={"set": {"sft": {"steps": 5}}}), commands)
    assert commands.ran == [*ALL, "sft", "eval-sft", "rl", "grpo", "eval-grpo"]
    moved = sorted(path.name for path in (out / "earlier").iterdir())
    assert moved == ["eval-grpo-1", "eval-sft-1", "grpo-1", "sft-1"]
    assert capsys.readouterr().err.count("is of other settings, inputs or code: moved to") == len(moved)
    assert json_of(out / "configs/rl.toml") != revision, "the model that was trained again is asked again"


def json_of(path: Path) -> str:
    [line] = [line for line in path.read_text("utf-8").splitlines() if line.startswith("revision")]
    assert len(line) > len('revision = ""')
    return line


@pytest.mark.parametrize(
    ("rows", "step", "message"),
    [
        (
            {"sft": 0, "rl": 3},
            "sft",
            "made no SFT rows, which the step sft needs.*too_hard 4.*to keep the too_hard questions, add "
            "--set curate.set.difficulty.low=0 --set curate.set.difficulty.include_low=true$",
        ),
        (
            {"sft": 2, "rl": 0},
            "grpo",
            "made no RL rows, which the step grpo needs.*too_hard 4.*to keep the too_hard questions, add "
            "--set rl.set.difficulty.low=0 --set rl.set.difficulty.include_low=true$",
        ),
    ],
)
def test_a_run_without_rows_ends_the_loop(rows: dict[str, int], step: str, message: str, out: Path) -> None:
    commands = Commands(rows=rows)
    with pytest.raises(UserError, match=message):
        run_loop(loop_of(out), commands)
    assert commands.ran == ALL[: ALL.index(step)]


def test_a_run_without_rows_for_a_reason_without_a_setting(out: Path) -> None:
    commands = Commands(rows={"sft": 2, "rl": 0}, reason="ungradable")
    with pytest.raises(UserError, match=r"ungradable 4.*change the settings of this run in rl\.set, and run the same"):
        run_loop(loop_of(out), commands)


def test_a_lost_result_is_made_again(out: Path) -> None:
    commands = Commands()
    run_loop(loop_of(out), commands)
    (out / "eval-sft/eval.json").unlink()
    run_loop(loop_of(out), commands)
    assert commands.ran == [*ALL, "eval-sft"]


def test_a_step_waits_for_the_process_of_a_killed_loop(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "FREE_TICK_S", 0.02)
    held, done = locked(out / "curate"), threading.Event()
    with held:
        thread = threading.Thread(target=lambda: (run_loop(loop_of(out), Commands()), done.set()))
        thread.start()
        assert not done.wait(0.3)
    assert done.wait(20)
    thread.join()
    assert capsys.readouterr().err.count("waiting for the process that still writes") == 1
    with locked(out / "grpo"):
        monkeypatch.setattr(module, "FREE_LIMIT_S", 0.1)
        loop = loop_of(out, grpo={"set": {"grpo": {"steps": 9}}})
        with pytest.raises(UserError, match="another process is writing"):
            run_loop(loop, Commands())


def test_a_page_that_cannot_be_written_stops_nothing(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(module, "write_story", broken)
    commands = Commands()
    run_loop(loop_of(out), commands)
    assert commands.ran == ALL
    assert f"beam: {out / 'loop.html'} cannot be written: OSError: no room" in capsys.readouterr().err


def test_records_say_when_and_how_long(out: Path) -> None:
    with pytest.raises(StepFailed):
        run_loop(loop_of(out), Commands({"sft": 2}))
    failed = read_record(out, "sft")
    assert failed is not None and (failed.exit_code, failed.finished) == (2, "")
    run_loop(loop_of(out), Commands())
    record = read_record(out, "sft")
    assert record is not None and record.exit_code == 0 and record.begun == failed.begun <= record.finished
    (out / "steps/sft.json").write_text("{")
    assert read_record(out, "sft") is None


def made(tmp_path: Path, settings: LoopSettings, **changes: Any) -> Loop:
    images = {f"{number}.png": png(number) for number in range(6)}
    lines = [{"id": f"q{n}", "query": "How many?", "question": None, "media": f"{n}.png"} for n in range(6)]
    write_input(tmp_path / "data", lines, images)
    given = {"recipe": "grounded_cot", "data": str(tmp_path / "data"), "model": "tiny", "output": tmp_path / "out"}
    return make_loop(**(given | changes), settings=settings)[0]


def test_a_loop_is_made_of_the_configs_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "curate.toml").write_text('[input.columns]\nquestion = "query"\n[trace]\nn = 2\n')
    (tmp_path / "loop.toml").write_text('[curate]\nconfig = "curate.toml"\n[curate.set.trace]\nn = 3\n')
    loop = made(tmp_path, load_loop(str(tmp_path / "loop.toml")))
    assert loop.curation == {"trace": {"n": 3}}, "the column map was applied to the questions"
    assert {"attempt", "split", "difficulty"} <= loop.sections
    [rl] = [step.config for step in make_steps(loop) if step.name == "rl"]
    assert rl is not None and rl["attempt"]["max_tokens"] == 128, "the tiny model's attempts are short"
    assert (loop.out, loop.base) == (tmp_path / "out", str(tmp_path / "out/model"))
    assert len(loop.recipe_sha256) == len(loop.trainer_sha256) == 64
    lines = (tmp_path / "out/questions/train/records.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["question"] for line in lines} == {"How many?"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[held_out]\nshare = 1.5", "held_out.share"),
        ("[held_out]\nshares = 0.5", "held_out.shares"),
        ('[serve]\nkind = "openai"', "serve.kind"),
        ('[serve.endpoint]\nmodel = "m"', "serve.endpoint has the key 'model', which `beam loop` sets"),
        ("[serve.endpoint]\nmax_concurrency = 0", "max_concurrency"),
        ('[curate]\nconfig = "none.toml"', "curate.config: there is no file none.toml"),
    ],
)
def test_a_wrong_config_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "loop.toml").write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        load_loop(str(tmp_path / "loop.toml"))
    assert "\n" not in str(caught.value)


def test_paths_of_a_config_are_relative_to_it_and_those_of_set_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    for folder in (tmp_path, tmp_path / "there"):
        (folder / "c.toml").write_text("")
    (tmp_path / "there/loop.toml").write_text('[curate]\nconfig = "c.toml"\n[trainer]\nconfig = "argos"\n')
    monkeypatch.chdir(tmp_path)
    settings = load_loop("there/loop.toml")
    assert (settings.curate.config, settings.trainer.config) == ("there/c.toml", "argos")
    (tmp_path / "d.toml").write_text("")
    assert load_loop("there/loop.toml", ("curate.config=d.toml",)).curate.config == "d.toml"


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.tex").write_text("")
    with pytest.raises(UserError, match="not empty and was not made by `beam loop`"):
        made(tmp_path, LoopSettings())


def test_a_file_is_refused_as_output(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UserError, match="out is a file, but `beam loop` needs a folder"):
        made(tmp_path, LoopSettings())
