"""Three steps of SFT and three of GRPO with each paper's reward by name, on rows as its recipe writes them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.question_text import instruction
from groundtrace.grading.responses.response import parse_response
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.rubrics import PLACE
from groundtrace.rewards.rubrics import RUBRICS as COLUMN
from groundtrace.schemas.records import Draft
from groundtrace.trainer import grpo
from groundtrace.trainer.checkpoint import checkpoints, read_checkpoint
from groundtrace.trainer.grpo import train_grpo
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Sampler
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.sft import train_sft

from .paper_rows import (
    IDS,
    JUDGED,
    RUBRICS,
    boxed,
    drafts,
    ivgr_drafts,
    rows_of,
    sail_rl_drafts,
    sail_rl_traces,
    traced,
    worded,
)
from .runs import judged_by, judging, metrics_of, rollout_of, settings_of

pytestmark = pytest.mark.slow

STEPS = 3


@dataclass
class Answers(Sampler):
    """A sampler that takes each prompt's answers from a script, with as many blanks as it was asked times before."""

    vlm: VisionLanguageModel
    texts: Mapping[tuple[str, str], Sequence[str]]
    asked: list[str] = field(default_factory=list)

    def sync(self) -> None:
        """Nothing to load."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        found = []
        for prompt in prompts:
            self.asked.append(self.vlm.tokenizer.decode(prompt.ids))
            sizes = [(image.width, image.height) for image in prompt.images]
            texts = [self.vlm.speech.to_model(text, sizes) for text in self.texts[prompt.id, prompt.stream]]
            assert len(texts) == n
            found.append([rollout_of(self.vlm, text + " " * (seed % 97)) for text in texts])
        return found


@dataclass
class Trained:
    """What three steps left."""

    lines: list[dict[str, Any]]
    prompts: list[str]
    memory: Memory
    judged: list[dict[str, Any]]


Train = Callable[..., Trained]


def settings_for(model: Path, **grpo_changes: Any) -> TrainerSettings:
    return settings_of(
        model,
        batch={"max_tokens": 1200, "tokens": 2400},
        sft={"steps": STEPS, "samples_per_step": 2},
        grpo={"steps": STEPS, "prompts_per_step": 3, "group_size": 4, "dynamic_sampling": False} | grpo_changes,
    )


@pytest.fixture
def sft(folders: Any, tmp_path: Path, write_shards: Callable[..., Path]) -> Callable[..., list[dict[str, Any]]]:
    """Three SFT steps on the rows of drafts."""

    def train(found: Sequence[Draft], recipe: str) -> list[dict[str, Any]]:
        data = write_shards(tmp_path / "sft-run", rows_of(found, "sft", recipe))
        model = train_sft(settings_for(folders["qwen3"]), data, tmp_path / "sft")
        assert (model / "model.safetensors").is_file()
        return metrics_of(tmp_path / "sft")

    return train


@pytest.fixture
def rl(folders: Any, tmp_path: Path, write_shards: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Train:
    """Three GRPO steps on the rows of drafts, with a scripted policy and judge."""

    def train(
        found: Sequence[Draft], recipe: str, reward: str, texts: Any, judge: str, plan: Any = None, **options: Any
    ) -> Trained:
        data = write_shards(tmp_path / "rl-run", rows_of(found, "rl", recipe), "rl")
        if plan:
            (data / "batch_plan.json").write_text(json.dumps(plan), "utf-8")
        made: list[Answers] = []
        monkeypatch.setattr(grpo, "make_sampler", lambda vlm, *_: made.append(Answers(vlm, texts)) or made[-1])
        changes = {"prompts_per_step": 5} if plan else {}
        with judging((200, judge)) as served:
            settings = settings_for(folders["qwen3"], **changes)
            rewarded = replace(judged_by(served.base_url), recipe=reward, options=options)
            train_grpo(replace(settings, reward=rewarded), data, tmp_path / "rl")
        last = read_checkpoint(checkpoints(tmp_path / "rl" / "checkpoints")[-1])["progress"]
        return Trained(metrics_of(tmp_path / "rl"), made[0].asked, Memory.of_plain(last["memory"]), served.bodies)

    return train


def test_sail_rl_sft(sft: Any) -> None:
    """The rows end in a box behind the thinking, which is empty for simple questions alone."""
    found = sail_rl_traces()
    for row, draft in zip(rows_of(found, "sft", "judge_think_answer"), found, strict=True):
        user, said = (turn["content"] for turn in row["messages"])
        assert instruction(draft.question, "judge") in user
        assert "\\boxed{}" in user
        assert said.endswith(f"</think>\\boxed{{{draft.question.answer}}}")
        response = parse_response(said)
        assert response.has_format
        assert response.answer == draft.question.answer
        assert (response.think == "") == (row["complexity"] == "simple")
    lines = sft(found, "judge_think_answer")
    assert len(lines) == STEPS
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_sail_rl_grpo(rl: Train) -> None:
    """Eq. 1: a right answer that thinks where it should earns 1 with a thinking score of 1; a wrong one 0.1."""
    texts = {}
    for draft in sail_rl_drafts():
        is_simple, answer = draft.added(COMPLEXITY) == "simple", draft.question.answer
        right = JUDGED.format("It is said.", "" if is_simple else "I count each.", answer)
        texts[draft.id, ""] = [right, right.replace(answer, "17"), right.replace("</judge>", ""), "17"]
    reply = {"reason": "so it says", "decision": "direct"}
    trained = rl(sail_rl_drafts(), "judge_think_answer", "sail_rl", texts, json.dumps(reply))
    assert all("\\boxed{}" in prompt and "judge" in prompt for prompt in trained.prompts)
    assert [line["outcome"] for line in trained.lines] == [0.5] * STEPS
    assert all(line["format"] == 0.5 and line["reward"] > 0 for line in trained.lines)
    assert all(line["grad_norm"] > 0 for line in trained.lines)


def test_ivgr_sft(sft: Any) -> None:
    """The cold start has rows of both forms, over different questions."""
    first, second, third = drafts(*IDS)
    grounded = [traced(replace(draft, form="boxes"), boxed(draft)) for draft in (first, second)]
    textual = [traced(replace(third, form="textual"), worded(third))]
    rows = rows_of([*grounded, *textual], "sft", "dual_stream")
    assert ["<box" in row["messages"][0]["content"] for row in rows] == [True, True, False]
    assert "without coordinates" in rows[2]["messages"][0]["content"]
    lines = sft([*grounded, *textual], "dual_stream")
    assert lines[-1]["loss"] < lines[0]["loss"]


PLAN = {"parts": [{"streams": ["grounded", "textual"], "share": 0.8}, {"streams": ["textual"], "share": 0.2}]}


def test_ivgr_grpo(rl: Train) -> None:
    """Eq. 1 and 3: half of the answers are right, and the textual ones of dual questions agree with the reference."""
    found = ivgr_drafts()
    texts = {
        (draft.id, stream): [say(draft), say(draft, "17"), say(draft), say(draft, "17")]
        for draft in found
        for stream, say in (("grounded", boxed), ("textual", worded))
    }
    judge = json.dumps({"reason": "the same", "verdict": "identical"})
    trained = rl(found, "dual_stream", "ivgr", texts, judge, PLAN)
    for line in trained.lines:
        assert (line["groups_sampled_grounded"], line["groups_sampled_textual"]) == (2, 3)
        assert line["reward_grounded"] == pytest.approx(1 + 0.5 + line["boxes_grounded"], rel=1e-4)
        assert line["reward_textual"] == pytest.approx((2 * (1 + 0.5 + 1) + 1.5 * (1 + 0.5)) / 3, rel=1e-4)
        assert line["grad_norm"] > 0
    assert set(trained.memory.references) == {draft.id for draft in found[:2]}
    assert sum("without coordinates" in prompt for prompt in trained.prompts) == 3 * STEPS


def test_rucl_grpo(rl: Train) -> None:
    """The easy rubric holds from the first step, so the hard one counts from the second: λ goes 0, 1/2, 1."""
    found = [draft.with_added(COLUMN, RUBRICS) for draft in drafts(*IDS)]
    right = {draft.id: [worded(draft), worded(draft, "17")] * 2 for draft in found}
    met = {"applicable": True, "rationale": "seen"}
    judge = json.dumps(
        {"scores": [{"id": each, **met, "score": score} for each, score in (("e", 1), ("h", 0), (PLACE.id, 1))]}
    )
    texts = {(id, ""): said for id, said in right.items()}
    options = {"ramp_steps": 2, "window": 1, "growth": "linear", "tau": 0.9}
    trained = rl(found, "rubric_curriculum", "rucl", texts, judge, **options)
    rewards = [line["reward"] for line in trained.lines]
    assert rewards == pytest.approx([0.35 + 0.3 * easy for easy in (1.0, 0.5, 0.0)], rel=1e-4)
    curriculum = trained.memory.curriculum
    assert (curriculum.step, curriculum.started_at, curriculum.window) == (STEPS, 1, (1.0,))
