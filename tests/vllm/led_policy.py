"""A tiny policy that writes calls: overfitted on a trajectory whose code really ran, in some seconds on a CPU.

A model of random weights never writes a call, so that no test could see one executed. This one has learnt a call that
fails, a call that shows an image, and then one of two answers, each with the odds of one half.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from groundtrace.grading.question_text import CODE, INSTRUCTIONS
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.rows.shards import Shards
from groundtrace.trainer.collate import collate
from groundtrace.trainer.encode import prompt_sample, with_response
from groundtrace.trainer.episodes import roll_out
from groundtrace.trainer.model import VisionLanguageModel, load_model
from groundtrace.trainer.policy import score
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.settings import ModelSettings, TrainerSettings
from tests.publishing.exports.made_runs import make_run, rl
from tests.trainer.runs import settings_of
from tests.trainer.turns import Turns, drawn

LOOK = "a = input_image.crop((40, 30, 60, 50))\ndisplay(a)\nprint(a.width * a.height)"
LIMITS = {"call_timeout_s": 20.0, "sessions": 2, "warm": 1}
LEARNT_NATS = 0.8
"""The loss of a whole response at which the training ends. The choice of the answer costs ln 2 = .69 of it at least, so
that neither answer has less than a quarter of the odds."""
MAX_STEPS = 300


def code(text: str, think: str) -> str:
    return f"<think>{think}</think>\n<code>\n```python\n{text}\n```\n</code>"


def final(answer: str) -> str:
    return f"<think>So it is {answer}.</think>\n<answer>{answer}</answer>"


FIRST, SECOND = code("print(area)", "I try."), code(LOOK, "I look.")
ANSWERS = ("400", "7")


def square() -> bytes:
    """A red square of 20 x 20 pixels on grey."""
    pixels = np.full((96, 96, 3), 60, np.uint8)
    pixels[30:50, 40:60] = (250, 0, 0)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


@dataclass(frozen=True)
class Led:
    """The run with the only row, the folder of the model, and the model itself."""

    run: Path
    folder: Path
    vlm: VisionLanguageModel

    @property
    def row(self) -> TrainingRow:
        return Shards(self.run, "rl", self.run.parent / "rows")[0]

    @property
    def prompt(self) -> Sample:
        return prompt_sample(self.vlm, self.row)

    def settings(self, base_url: str = "", **sections: Any) -> TrainerSettings:
        """The settings of a run with the sandbox, by the server at this address, or by transformers without one."""
        rollout = {"max_new_tokens": 700} | ({"kind": "vllm", "base_url": base_url} if base_url else {})
        environment = {"kind": "sandbox", "options": {"sandbox": LIMITS, "verify": False}}
        base: dict[str, Any] = {
            "batch": {"max_tokens": 1000, "tokens": 2000},
            "rollout": rollout | sections.pop("rollout", {}),
            "environment": environment | sections.pop("environment", {}),
            "reward": {"recipe": "codedance"},
        }
        return settings_of(self.folder, **(base | sections))


def lead(model: Path, folder: Path) -> Led:
    """Return the policy, made of the model in the folder ``model``."""
    box = {"label": "square", "x1": 40.0, "y1": 30.0, "x2": 60.0, "y2": 50.0, "media_index": 0}
    asked = f"<image>How many pixels has it?\n{INSTRUCTIONS[CODE]}"
    row = rl("q", images=(square(),), asked=asked, question="How many pixels has it?", answer="400", gold_boxes=[box])
    vlm = load_model(ModelSettings(str(model), dtype="float32"), device="cpu")
    led = Led(make_run(folder / "run", rl=[row]), folder / "led", vlm)
    sampler = Turns(vlm, {"q": [[FIRST, SECOND, final(ANSWERS[0])]]})
    [[found]] = roll_out(vlm, sampler, led.settings(), [(led.row, led.prompt)], 1, 0)
    called = found.ids[: found.turns[-1][0]]
    endings = [drawn(vlm, final(answer)).ids for answer in ANSWERS]
    overfit(vlm, [with_response(led.prompt, [*called, *ids], "g", observed=found.observed) for ids in endings])
    vlm.save(led.folder)
    return led


def overfit(vlm: VisionLanguageModel, samples: Sequence[Sample]) -> None:
    """Train until the samples' tokens are certain, but for the choice between the samples."""
    optimiser = torch.optim.AdamW(vlm.model.parameters(), lr=3e-3, weight_decay=0.0)
    batch = collate(vlm, samples)
    for _ in range(MAX_STEPS):
        loss = -score(vlm, batch, never=vlm.never_ids).logprobs.sum() / len(samples)
        if loss.item() < LEARNT_NATS:
            return
        optimiser.zero_grad()
        (loss / 100).backward()
        torch.nn.utils.clip_grad_norm_(vlm.model.parameters(), 1.0)
        optimiser.step()
    raise AssertionError(f"the loss is still {loss.item()}")
