"""A question in two streams: what is asked, what is scored together, and training on it with the reward of iVGR."""

import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.rows.shards import Shards
from groundtrace.schemas.records import Draft
from groundtrace.stages.route_by_boxes import asked_in
from groundtrace.trainer import grpo
from groundtrace.trainer.checkpoint import checkpoints, read_checkpoint
from groundtrace.trainer.evaluation.evaluate import evaluate
from groundtrace.trainer.grpo import train_grpo
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Sampler
from groundtrace.trainer.settings import TrainerSettings

from .paper_rows import boxed, ivgr_drafts, rows_of, worded
from .runs import Command, judged_by, judging, lines_of, metrics_of, rollout_of, settings_of

pytestmark = pytest.mark.slow


@dataclass
class Seeded(Sampler):
    """A sampler whose answers are a function of the prompt and the seed, as those of a model are."""

    vlm: VisionLanguageModel
    texts: Mapping[tuple[str, str], Sequence[str]]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def sync(self) -> None:
        """Nothing to load."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        found = []
        for prompt in prompts:
            self.asked.append((prompt.id, prompt.stream))
            chance = random.Random(f"{prompt.id}/{prompt.stream}/{seed}")
            sizes = [(image.width, image.height) for image in prompt.images]
            said = [chance.choice(self.texts[prompt.id, prompt.stream]) + " " * chance.randrange(9) for _ in range(n)]
            found.append([rollout_of(self.vlm, self.vlm.speech.to_model(text, sizes)) for text in said])
        return found


DRAFTS = ivgr_drafts()
TEXTS = {
    (draft.id, stream): [say(draft), say(draft, "17")]
    for draft in DRAFTS
    for stream, say in (("grounded", boxed), ("textual", worded))
}
LEVEL = (200, json.dumps({"reason": "the same things", "verdict": "one_kind"}))
PLAN = {"parts": [{"streams": ["grounded", "textual"], "share": 0.8}, {"streams": ["textual"], "share": 0.2}]}


@pytest.fixture
def data(tmp_path: Path, write_shards: Callable[..., Path]) -> Path:
    """A run with two questions in both streams and one in words alone, and its plan."""
    run = write_shards(tmp_path / "run", rows_of(DRAFTS, "rl", "dual_stream"), "rl")
    (run / "batch_plan.json").write_text(json.dumps(PLAN), "utf-8")
    return run


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch) -> list[Seeded]:
    """The samplers that a run makes."""
    made: list[Seeded] = []

    def make(vlm: VisionLanguageModel, *_: object) -> Seeded:
        made.append(Seeded(vlm, TEXTS))
        return made[-1]

    monkeypatch.setattr(grpo, "make_sampler", make)
    monkeypatch.setattr("groundtrace.trainer.evaluation.evaluate.make_sampler", make)
    return made


def ivgr_settings(model: Path, base_url: str, steps: int = 3, **changes: Any) -> TrainerSettings:
    settings = settings_of(
        model,
        batch={"max_tokens": 900, "tokens": 1800},
        grpo={"steps": steps, "prompts_per_step": 5, "group_size": 4, "dynamic_sampling": False} | changes,
        log={"save_every": 1, "keep": 99, "rollouts_every": 1},
        eval={"samples": 2, "k": [1]},
    )
    return replace(settings, reward=replace(judged_by(base_url), recipe="ivgr", options={}))


def test_grpo_in_two_streams(folders: Any, data: Path, sampler: list[Seeded], tmp_path: Path) -> None:
    """Each stream of a question is a group of its own, and the textual one is held against the best grounded answer."""
    with judging(LEVEL) as judge:
        train_grpo(ivgr_settings(folders["qwen3"], judge.base_url), data, tmp_path / "out")
    first, *_ = metrics_of(tmp_path / "out")
    streams = [stream for _, stream in sampler[0].asked[:5]]
    assert streams.count("grounded") == 2
    assert streams.count("textual") == 3
    assert (first["groups_sampled"], first["groups_sampled_grounded"], first["groups_sampled_textual"]) == (5, 2, 3)
    assert first["boxes_grounded"] == pytest.approx(1.0, abs=0.03)
    assert first["boxes_textual"] is None
    assert first["consistency_grounded"] is None
    assert first["consistency_textual"] == pytest.approx(0.7)
    right = first["outcome_grounded"]
    assert first["reward_grounded"] == pytest.approx(1 + right + first["boxes_grounded"], rel=1e-5)
    progress = read_checkpoint(checkpoints(tmp_path / "out" / "checkpoints")[-1])["progress"]
    archive = Memory.of_plain(progress["memory"]).references
    assert set(archive) == {DRAFTS[0].id, DRAFTS[1].id}
    assert all(reference.box_score > 0.95 for reference in archive.values())
    shown = lines_of(tmp_path / "out" / "rollouts" / "step-000001" / "rollouts.jsonl")
    assert {line["stream"] for line in shown} == {"grounded", "textual"}


def test_without_a_grounded_stream_there_is_no_consistency(
    folders: Any, tmp_path: Path, sampler: list[Seeded], write_shards: Callable[..., Path]
) -> None:
    """App. B: so it is even where the row has boxes; no judge is asked."""
    alone = [asked_in(draft, ("textual",)) for draft in DRAFTS[:2]]
    data = write_shards(tmp_path / "run", rows_of(alone, "rl", "dual_stream"), "rl")
    with judging(LEVEL) as judge:
        settings = ivgr_settings(folders["qwen3"], judge.base_url, steps=1, prompts_per_step=2)
        train_grpo(settings, data, tmp_path / "out")
        assert judge.bodies == []
    (line,) = metrics_of(tmp_path / "out")
    assert line["consistency"] is None
    assert line["reward"] == pytest.approx(1.5 * (1 + line["outcome"]), rel=1e-5)


def test_a_run_cut_in_two_ends_with_the_same_bits(
    folders: Any, data: Path, sampler: list[Seeded], tmp_path: Path
) -> None:
    """Weights, moments, the archive and the place in each part of the plan."""
    with judging(LEVEL) as judge:
        settings = ivgr_settings(folders["qwen3"], judge.base_url, steps=4)
        train_grpo(settings, data, tmp_path / "whole")
        shutil.copytree(tmp_path / "whole", tmp_path / "cut")
        for later in checkpoints(tmp_path / "cut" / "checkpoints")[2:]:
            shutil.rmtree(later)
        shutil.rmtree(tmp_path / "cut" / "model")
        train_grpo(settings, data, tmp_path / "cut")
    assert metrics_of(tmp_path / "cut") == metrics_of(tmp_path / "whole")
    assert len({line["grad_norm"] for line in metrics_of(tmp_path / "whole")} - {None, 0.0}) > 1, "it learns"
    whole, cut = (read_checkpoint(checkpoints(tmp_path / name / "checkpoints")[-1]) for name in ("whole", "cut"))
    for state in (whole, cut):
        del state["progress"]["random"]  # every draw is seeded by its step
    assert cut["progress"] == whole["progress"]
    assert isinstance(whole["progress"]["position"], tuple)
    torch.testing.assert_close(cut["optimiser"], whole["optimiser"], rtol=0, atol=0)
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]


def test_another_plan_is_another_run(run: Command, data: Path, sampler: list[Seeded]) -> None:
    with judging(LEVEL) as judge:
        reward = '[reward]\nrecipe = "ivgr"\n[reward.endpoints.j]\nkind = "openai"\nmodel = "j"\n'
        reward += f'base_url = "{judge.base_url}"\n'
        sets = ("grpo.prompts_per_step=3", "batch.max_tokens=900", "batch.tokens=1800", "reward.roles={judge='j'}")
        assert run("grpo", data, *sets, toml=reward).code == 0
        (data / "batch_plan.json").unlink()
        said = "the batch plan was 'grounded+textual 0.8, textual 0.2' and is now left out"
        run("grpo", data, *sets, toml=reward).check_refused(2, said)
        (data / "batch_plan.json").write_text('{"parts": 3}', "utf-8")
        run("grpo", data, *sets, toml=reward, output="other").check_refused(2, "is not a batch plan", '"parts" must be')


def test_a_step_too_small_for_a_row_is_refused(folders: Any, data: Path, run: Command) -> None:
    ran = run("grpo", data, "grpo.prompts_per_step=1")
    ran.check_refused(
        2, "grpo.prompts_per_step is 1, but a row has 2 prompts, one for each of its streams: ", "at least 2"
    )


def test_boxes_of_a_detector_are_counted(
    folders: Any, tmp_path: Path, sampler: list[Seeded], write_shards: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """They stand for gold boxes, and the log says of how many rows that is so."""

    def pseudo(draft: Draft) -> Draft:
        return replace(draft, question=replace(draft.question, gold_boxes=None), pseudo_boxes=draft.question.gold_boxes)

    data = write_shards(tmp_path / "run", rows_of([pseudo(DRAFTS[0]), DRAFTS[1]], "rl", "dual_stream"), "rl")
    with judging(LEVEL) as judge:
        settings = ivgr_settings(folders["qwen3"], judge.base_url, steps=1, prompts_per_step=4)
        train_grpo(settings, data, tmp_path / "out")
    assert "trainer: 1 row of 2 use a detector's boxes as gold boxes" in capsys.readouterr().err
    assert metrics_of(tmp_path / "out")[0]["boxes_grounded"] > 0.95


@pytest.mark.parametrize("stream", ["grounded", "textual"])
def test_grpo_in_one_stream(folders: Any, data: Path, sampler: list[Seeded], tmp_path: Path, stream: str) -> None:
    """iVGR Table 5, variants (3) and (4): one stream, and no consistency, since nothing else is asked."""
    with judging(LEVEL) as judge:
        settings = ivgr_settings(folders["qwen3"], judge.base_url, 1, streams=[stream], prompts_per_step=3)
        train_grpo(settings, data, tmp_path / "out")
    [line] = metrics_of(tmp_path / "out")
    assert {asked for _, asked in sampler[0].asked} == {stream}
    assert line["groups_sampled"] == line[f"groups_sampled_{stream}"] == 3
    assert line["consistency"] is None and line["has_reference"] is None
    assert judge.bodies == []


def test_epochs_count_the_streams_asked(data: Path, tmp_path: Path) -> None:
    shards = Shards(data, "rl", tmp_path / "rows")
    assert [shards.count_prompts(only) for only in ((), ("textual",), ("grounded",))] == [5, 3, 2]
    assert [question.streams for question in shards.rewarded_questions(("grounded",))] == [("grounded",)] * 2


def test_evaluation_asks_in_each_stream(folders: Any, data: Path, sampler: list[Seeded], tmp_path: Path) -> None:
    with judging(LEVEL) as judge:
        settings = ivgr_settings(folders["qwen3"], judge.base_url)
        report = json.loads(evaluate(settings, data, tmp_path / "eval").read_text("utf-8"))
        words = replace(settings, eval=replace(settings.eval, streams=("textual",)))
        alone = json.loads(evaluate(words, data, tmp_path / "words").read_text("utf-8"))
    assert report["stream"].keys() == {"grounded", "textual"}
    assert report["all"]["answers"] == 10
    assert report["stream"]["grounded"]["answers"] == 4
    assert {line["stream"] for line in lines_of(tmp_path / "eval" / "responses.jsonl")} == {"grounded", "textual"}
    assert (alone["all"]["answers"], "stream" in alone) == (6, True)
    assert {stream for _, stream in sampler[1].asked} == {"textual"}
