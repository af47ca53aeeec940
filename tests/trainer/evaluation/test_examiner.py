"""Evaluation with crops: two passes, what is shown in the second, and what is scored."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.schemas.geometry import Box
from groundtrace.stages.route_by_boxes import BOTH, asked_in
from groundtrace.trainer.cli import main
from groundtrace.trainer.evaluation.evaluate import evaluate
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Sampler
from groundtrace.trainer.settings import TrainerSettings

from ..paper_rows import boxed, drafts, rows_of, worded
from ..runs import judged_by, judging, lines_of, records, rollout_of, settings_of, write_records

ONE, THREE = drafts("662-1-0-c0", "662-1-0-c1")
TWO = replace(ONE, question=replace(ONE.question, gold_boxes=(Box("a", 10, 20, 90, 90), Box("b", 120, 20, 190, 60))))


@dataclass
class Passes(Sampler):
    """A sampler that boxes as it is told, and answers right only where it sees more than the image."""

    vlm: VisionLanguageModel
    grounded: str
    seen: list[tuple[str, int, int]] = field(default_factory=list)

    def sync(self) -> None:
        """Nothing to load."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        found = []
        for prompt in prompts:
            self.seen.append((prompt.stream, len(prompt.images), n))
            sizes = [(image.width, image.height) for image in prompt.images]
            text = worded(ONE, "1" if len(prompt.images) > 1 else "9")
            if prompt.stream == "grounded":
                text = self.vlm.speech.to_model(self.grounded, sizes)
            found.append([rollout_of(self.vlm, text)] * n)
        return found


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Passes]]:
    """Have the model answer the grounded pass with a text; gives the samplers that are made."""

    def use(grounded: str) -> list[Passes]:
        made: list[Passes] = []

        def make(vlm: VisionLanguageModel, *_: object) -> Passes:
            made.append(Passes(vlm, grounded))
            return made[-1]

        monkeypatch.setattr("groundtrace.trainer.evaluation.evaluate.make_sampler", make)
        return made

    return use


def settings_for(model: Path, max_tokens: int = 2000, **evaluation: Any) -> TrainerSettings:
    settings = settings_of(
        model,
        batch={"max_tokens": max_tokens, "tokens": 4000},
        eval={"samples": 2, "k": [1], "crops": True} | evaluation,
    )
    return replace(settings, reward=RewardSettings(options={"skip": ["spatial", "counting", "reasoning"]}))


def report_of(settings: TrainerSettings, data: Path, output: Path) -> dict[str, Any]:
    return json.loads(evaluate(settings, data, output).read_text("utf-8"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one record."""
    return write_records(tmp_path / "data", records("662-1-0-c0"))


def test_what_the_second_pass_sees(folders: Any, folder: Path, asking: Any, tmp_path: Path) -> None:
    """The image, a crop of each box, and one around both; without crops the image alone."""
    made = asking(boxed(TWO))
    report = report_of(settings_for(folders["qwen3"]), folder, tmp_path / "out")
    assert made[0].seen == [("grounded", 1, 1), ("textual", 1, 2), ("textual", 4, 2)]
    assert (report["all"]["accuracy"], report["without_crops"]["accuracy"]) == (1.0, 0.0)
    assert report["crops"] == {"questions": 1, "mean": 3.0}
    lines = lines_of(tmp_path / "out" / "responses.jsonl")
    assert [line.get("crops") for line in lines] == [None, None, 3, 3]
    assert "without crops" in (tmp_path / "out" / "eval.html").read_text("utf-8")


WHOLE = replace(ONE, question=replace(ONE.question, gold_boxes=(Box("a", 0, 0, 400, 100),)))


@pytest.mark.parametrize("said", ["<think>nothing here</think><answer>1</answer>", boxed(WHOLE)])
def test_without_usable_boxes_the_image_stands_alone(
    said: str, folders: Any, folder: Path, asking: Any, tmp_path: Path
) -> None:
    made = asking(said)
    report = report_of(settings_for(folders["qwen3"]), folder, tmp_path / "out")
    assert [images for _, images, _ in made[0].seen] == [1, 1, 1]
    assert report["crops"] == {"questions": 0, "mean": None}
    assert [line.get("crops") for line in lines_of(tmp_path / "out" / "responses.jsonl")] == [None, None, 0, 0]


def test_crops_that_make_the_prompt_too_long_are_not_shown(
    folders: Any, folder: Path, asking: Any, tmp_path: Path
) -> None:
    made = asking(boxed(TWO))
    settings = settings_for(folders["qwen3"], max_tokens=250)
    assert report_of(settings, folder, tmp_path / "out")["crops"]["questions"] == 0
    assert [images for _, images, _ in made[0].seen] == [1, 1, 1]


def test_rows_of_shards_are_asked_in_their_own_words_or_in_those_of_a_shard(
    folders: Any, asking: Any, tmp_path: Path, write_shards: Callable[..., Path]
) -> None:
    both = asked_in(ONE, BOTH)
    data = write_shards(tmp_path / "run", rows_of([both, THREE], "rl", "dual_stream"), "rl")
    made = asking(boxed(TWO))
    report = report_of(settings_for(folders["qwen3"]), data, tmp_path / "out")
    assert [images for _, images, _ in made[0].seen] == [1, 1, 1, 1, 4, 4]
    assert (report["all"]["questions"], report["without_crops"]["questions"]) == (2, 2)
    assert report["all"]["accuracy"] == 0.5, "the other question's answer is 3"


def test_the_reward_of_ivgr_has_its_streams_from_the_two_passes(
    folders: Any, folder: Path, asking: Any, tmp_path: Path
) -> None:
    """And no consistency term, since only the second pass is scored: format and outcome, on the scale of three."""
    asking(boxed(TWO))
    settings = settings_for(folders["qwen3"])
    with judging() as judge:
        reward = replace(judged_by(judge.base_url), recipe="ivgr", options={})
        report = report_of(replace(settings, reward=reward), folder, tmp_path / "out")
    assert (report["all"]["reward"], report["without_crops"]["reward"]) == (3.0, 1.5)


def test_the_flag_is_the_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["eval", "--help"])
    assert "--crops" in capsys.readouterr().out
