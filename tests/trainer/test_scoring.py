"""Sampling and scoring together: groups are scored while others are sampled, and lost responses have no score."""

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.runtime import runtime
from groundtrace.rewards.rows.reward import JudgesDown, Part, Reward, Scored
from groundtrace.trainer.encode import prompt_sample
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.row_sampler import Drawn
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import SamplerError
from groundtrace.trainer.scoring import sample_and_score, score_group

from .test_episodes import echoing, played, row_of
from .turns import Turns

PATIENCE_S = 20.0


def drawn(vlm: VisionLanguageModel, *ids: str) -> list[Drawn]:
    rows = [row_of(each) for each in ids]
    return [(row, prompt_sample(vlm, row)) for row in rows]


class Noting(Reward):
    """A reward that notes which questions it has scored."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.scored_ids, self.is_scored = list[str](), threading.Event()
        self.fails = False

    async def scored(self, part: Part) -> list[list[Scored]]:
        if self.fails:
            raise JudgesDown("no judge")
        found = await super().scored(part)
        self.scored_ids.append(part[0].row.id)
        self.is_scored.set()
        return found


class OneByOne(Turns):
    """Draws the responses to a question only when those to the question before have been scored."""

    reward: Noting

    def stream(self, prompts: Sequence[Sample], n: int, seed: int) -> Iterator[tuple[int, list[Rollout]]]:
        for index, turns in enumerate(self.sample(prompts, n, seed)):
            if index:
                assert self.reward.is_scored.wait(PATIENCE_S), "nothing is scored while responses are sampled"
                self.reward.is_scored.clear()
            yield index, turns


def reward_of(vlm: VisionLanguageModel, folder: Path) -> Noting:
    settings = dataclasses.replace(echoing(vlm).reward, recipe="codedance", options={})
    return Noting(settings, folder)


def test_a_group_is_scored_while_others_are_sampled(qwen3: VisionLanguageModel, tmp_path: Path) -> None:
    said = {name: [["<answer>3</answer>"], [f"<answer>{number}</answer>"]] for number, name in enumerate("abc", 2)}
    sampler, reward = OneByOne(qwen3, said), reward_of(qwen3, tmp_path)
    sampler.reward = reward
    asked = drawn(qwen3, *"abc")
    found = sample_and_score(qwen3, sampler, reward, echoing(qwen3), asked, asked, 2, 0)
    assert reward.scored_ids == ["a", "b", "c"]
    assert [[each.outcome for each in scored] for _, scored in found] == [[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]]
    assert [[rollout.text for rollout in rollouts] for rollouts, _ in found] == [
        [text for [text] in said[name]] for name in "abc"
    ]


def test_judges_that_are_down_and_a_sampler_that_fails(qwen3: VisionLanguageModel, tmp_path: Path) -> None:
    class Failing(Turns):
        def stream(self, prompts: Sequence[Sample], n: int, seed: int) -> Iterator[tuple[int, list[Rollout]]]:
            yield from list(super().stream(prompts, n, seed))[:1]
            raise SamplerError("the server is gone")

    said, asked = {name: [["<answer>3</answer>"]] for name in "ab"}, drawn(qwen3, *"ab")
    reward = reward_of(qwen3, tmp_path)
    with pytest.raises(SamplerError, match="the server is gone"):
        sample_and_score(qwen3, Failing(qwen3, said), reward, echoing(qwen3), asked, asked, 1, 0)
    reward.fails = True
    with pytest.raises(JudgesDown, match="no judge"):
        sample_and_score(qwen3, Turns(qwen3, said), reward, echoing(qwen3), asked, asked, 1, 0)


def test_a_lost_response_is_unscored_and_its_group_is_not(qwen3: VisionLanguageModel, tmp_path: Path) -> None:
    found = played(qwen3, ["call lost!", "3"], ["<answer>3</answer>"], ["<answer>4</answer>"])
    assert [each.lost for each in found] == ["the state is gone", "", ""]
    reward = reward_of(qwen3, tmp_path)

    def scores(rollouts: list[Rollout]) -> list[Scored]:
        return runtime().submit(score_group(reward, qwen3, [reward.ready(row_of())], [rollouts])).result()[0]

    assert [each.outcome for each in scores(found)] == [None, 1.0, 0.0]
    assert [each.reward for each in scores(found)] == [None, 1.0, 0.0]
    assert [each.reward for each in scores(found[:1])] == [None]
