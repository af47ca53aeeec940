"""Evaluations of models of SAIL-RL and RuCL on questions without complexity and rubrics."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.question_text import INSTRUCTIONS, user_text
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.trainer.evaluation import evaluate as module
from groundtrace.trainer.evaluation.evaluate import evaluate
from groundtrace.trainer.evaluation.without_columns import CHECKED_FORMS, form_asked
from groundtrace.trainer.settings import TrainerSettings

from ..paper_rows import drafts, rows_of
from ..runs import Said, lines_of, records, rl_row, settings_of, write_records

ID = "662-1-0-c0"
POINT = '<points x1="42" y1="560" alt="blue triangle">blue triangle</points>'
BOX = '<box alt="blue triangle">[17, 460, 68, 660]</box>'
DIRECT = "<judge>This is a simple question.</judge><think></think>\\boxed{1}"
WORDS = "<think>There is one.</think> <answer>1</answer>"
POINTING = f"<think>Here is one: {POINT}</think> <answer>1</answer>"
BOXING = f"<think>Here is one: {BOX}</think> <answer>1</answer>"
NO_COMPLEXITY = "no row of the data has the complexity of each question, simple or complex"
NO_RUBRICS = "no row of the data has the rubrics that responses are judged by"


def settings(folders: Any, recipe: str, form: str, **options: Any) -> TrainerSettings:
    """A reward with no endpoint at all, and two answers to each question."""
    reward = RewardSettings(recipe=recipe, options=options, roles={})
    return replace(settings_of(folders["qwen3"], eval={"samples": 2, "form": form}), reward=reward)


@pytest.fixture
def asked(
    folders: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[TrainerSettings, Path, tuple[str, str]], dict[str, Any]]:
    """Evaluate two scripted answers to each question, and return the report."""

    def report(settings: TrainerSettings, data: Path, texts: tuple[str, str]) -> dict[str, Any]:
        rounds = {f"nlvr-dev-{id}": [texts] for id in (ID, "662-1-0-c1")}
        monkeypatch.setattr(module, "make_sampler", lambda vlm, *_: Said(vlm, rounds))
        return json.loads(evaluate(settings, data, tmp_path / f"out of {data.name}").read_text("utf-8"))

    return report


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_records(tmp_path / "data", records(ID))


def test_sail_rl_on_a_folder(
    folders: Any, folder: Path, asked: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a judge: the outcome and the form are scored, and all else is null with its reason."""
    report = asked(settings(folders, "sail_rl", "judge"), folder, (DIRECT, WORDS))
    found = report["all"]
    assert (found["accuracy"], found["unscored"], found["pass_at_k"]) == (1.0, 0, {"1": 1.0, "2": 1.0})
    assert found["verdicts"] == {"format": 0.5, "judging": None, "thinking": None}
    assert found["reward"] is None
    assert report["not_applicable"] == dict.fromkeys(("reward", "judging", "thinking"), NO_COMPLEXITY)
    for line in lines_of(tmp_path / f"out of {folder.name}" / "responses.jsonl"):
        assert line["reward"] is None
        assert line["verdicts"]["thinking"] == {"value": None, "reason": NO_COMPLEXITY}
    said = f"trainer: {NO_COMPLEXITY}, which reward.recipe = 'sail_rl' needs, so these are not applicable: reward, "
    assert f"{said}judging, thinking\n" in capsys.readouterr().err
    assert NO_COMPLEXITY in (tmp_path / f"out of {folder.name}" / "eval.html").read_text("utf-8")


def test_rucl_on_a_folder(folders: Any, folder: Path, asked: Any) -> None:
    """Points are compared with the gold boxes of the folder, though this reward does not look at them."""
    report = asked(settings(folders, "rucl", "plain", ramp_steps=9), folder, (POINTING, "<answer>1</answer>"))
    found = report["all"]
    assert (found["accuracy"], found["points_in_gold_boxes"], found["exact_points"]) == (1.0, 1.0, 0.5)
    assert found["verdicts"] == {"format": 0.5, "rubrics": None}
    assert report["not_applicable"] == dict.fromkeys(("reward", "rubrics"), NO_RUBRICS)


def test_without_gold_boxes_there_is_no_grounding(folders: Any, tmp_path: Path, asked: Any) -> None:
    (record,) = records(ID)
    data = write_records(tmp_path / "data", [record | {"boxes": None}])
    found = asked(settings(folders, "rucl", "plain", ramp_steps=9), data, (POINTING, BOXING))["all"]
    assert (found["accuracy"], found["points_in_gold_boxes"], found["iou"]) == (1.0, None, None)


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        ("points", POINTING, BOXING),
        ("boxes", BOXING, POINTING),
        ("textual", WORDS, BOXING),
        ("plain", BOXING, DIRECT),
        ("judge", DIRECT, WORDS),
    ],
)
def test_the_form_is_the_one_asked_for(
    form: str, right: str, wrong: str, folders: Any, folder: Path, asked: Any
) -> None:
    assert asked(settings(folders, "sail_rl", form), folder, (right, right))["all"]["verdicts"]["format"] == 1.0
    assert asked(settings(folders, "sail_rl", form), folder, (wrong, wrong))["all"]["verdicts"]["format"] == 0.0


def test_a_form_that_is_not_checked(folders: Any, folder: Path, asked: Any) -> None:
    report = asked(settings(folders, "sail_rl", "code"), folder, (WORDS, WORDS))
    assert "format" not in report["all"]["verdicts"]
    assert report["not_applicable"]["format"] == "the prompts request a form that is not checked"


def test_shards_without_the_column(folders: Any, asked: Any, tmp_path: Path, write_shards: Callable[..., Path]) -> None:
    """The form is that of the prompts, if they have the wording of shards."""
    (draft,) = drafts(ID)
    data = write_shards(tmp_path / "points", rows_of([draft], "rl", "grounded_cot"), "rl")
    report = asked(settings(folders, "sail_rl", "judge"), data, (POINTING, DIRECT))
    assert (report["all"]["accuracy"], report["all"]["verdicts"]["format"]) == (1.0, 0.5)
    data = write_shards(tmp_path / "foreign", [rl_row(record) for record in records(ID)], "rl")
    report = asked(settings(folders, "sail_rl", "judge"), data, (POINTING, DIRECT))
    assert "format" in report["not_applicable"]


def test_with_the_column_the_reward_is_computed(
    folders: Any, asked: Any, tmp_path: Path, write_shards: Callable[..., Path]
) -> None:
    """RuCL's Vanilla GRPO needs the column, and asks no judge."""
    rubrics = [
        {"id": "e", "description": "d", "criteria": "c", "applicability": 1.0, "pass_rate": 0.5, "stratum": "easy"}
    ]
    rows = [rl_row(record, rubrics=rubrics) for record in records(ID)]
    data = write_shards(tmp_path / "run", rows, "rl")
    chosen = settings(folders, "rucl", "plain", ramp_steps=9, alpha=1.0)
    chosen = replace(chosen, reward=replace(chosen.reward, roles={"judge": "colour"}))
    report = asked(chosen, data, (POINTING, "<answer>2</answer>"))
    assert report["all"]["reward"] == 0.5
    assert "not_applicable" not in report


@pytest.mark.parametrize("form", INSTRUCTIONS)
def test_form_asked(form: str) -> None:
    question = drafts(ID)[0].question
    turns = ({"role": "user", "content": user_text(question, form)},)
    assert form_asked(TrainingRow(ID, "drawn", turns, (), question)) == form
    assert form_asked(TrainingRow(ID, "drawn", ({"role": "user", "content": question.question},), (), question)) is None


def test_every_form_with_an_instruction_is_checked_but_code() -> None:
    assert set(INSTRUCTIONS) - set(CHECKED_FORMS) == {"code"}
