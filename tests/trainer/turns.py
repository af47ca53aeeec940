"""What the tests of responses in several turns share: an environment without a sandbox, and a scripted policy."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from groundtrace.config.settings import settings
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.trajectory import Execution, Trajectory
from groundtrace.trainer.environments.base import Environment, EnvironmentLost, Pixels, StepResult
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Sampler

ECHO = "tests.trainer.turns:Echo"


def shown(width: int, height: int, seed: int = 0) -> Pixels:
    return np.random.default_rng((seed, width, height)).integers(0, 256, (height, width, 3), np.uint8)


@settings
class EchoSettings:
    """``first`` is the first state; ``wait_s`` is how long each step takes."""

    first: str = ""
    wait_s: float = 0.0


@dataclass
class Echo(Environment):
    """Answers ``call TEXT!`` with TEXT: ``image`` shows an image, ``fail`` is a failed call, ``lost`` loses the state,
    ``raise`` is a defect; other turns end the response.
    """

    Settings: ClassVar[type] = EchoSettings
    stops: ClassVar[tuple[str, ...]] = ("!",)
    gives_trajectory: ClassVar[bool] = True
    log: ClassVar[list[str]] = []

    settings: EchoSettings
    turns: list[Execution | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own_log = Echo.log  # a response of an earlier test may end late

    async def reset(self, row: TrainingRow) -> StepResult:
        self.own_log.append(f"reset {row.id}")
        return StepResult(self.settings.first)

    async def step(self, text: str) -> StepResult:
        await asyncio.sleep(self.settings.wait_s)
        if "call" not in text:
            self.turns.append(None)
            return StepResult(is_done=True)
        called = text.partition("call ")[2].rstrip("!")
        if called == "lost":
            raise EnvironmentLost("the state is gone")
        if called == "raise":
            raise ValueError("a defect")
        self.turns.append(Execution(called != "fail"))
        images = tuple(shown(64, 64, seed) for seed in range(called.count("image")))
        return StepResult(f"saw {called}" + "<image>" * len(images), images, role="tool")

    async def result(self) -> Trajectory:
        return Trajectory(tuple(self.turns))

    async def close(self) -> None:
        self.own_log.append("close")


@dataclass
class Turns(Sampler):
    """A scripted policy: the turns of each response to a question, by the question's id and the response's number."""

    vlm: VisionLanguageModel
    script: Mapping[str, Sequence[Sequence[str]]]
    prompts: list[Sample] = field(default_factory=list)

    def sync(self) -> None:
        """Nothing to load."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        self.prompts += prompts
        found = []
        for prompt in prompts:
            texts = [self.next_turn(prompt, number if n > 1 else None) for number in range(n)]
            found.append([drawn(self.vlm, text) for text in texts])
        return found

    def next_turn(self, prompt: Sample, number: int | None) -> str:
        """The turn of response ``number``; None: that of the response which begins like the prompt."""
        responses = self.script[prompt.id]
        if number is not None:
            return responses[number][0]
        said = [self.vlm.text_of(prompt.ids[each.start : each.end].tolist()) for each in prompt.turns if each.is_ours]
        [*found] = [each[len(said)] for each in responses if [*each[: len(said)]] == said and len(each) > len(said)]
        return found[0]


def drawn(vlm: VisionLanguageModel, text: str) -> Rollout:
    """A turn as a sampler draws it: a call ends it, and otherwise the end token; each token has a log-probability."""
    ids = vlm.tokenizer(text, add_special_tokens=False).input_ids
    ids += [] if text.endswith(("!", "</code>", "</tool_call>")) else [vlm.tokenizer.eos_token_id]
    return Rollout(tuple(ids), False, tuple(-0.1 * (place + 1) for place in range(len(ids))))
