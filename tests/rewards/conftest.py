"""Scripted callers, a drawn scene, and the real models of the embedded engine on it."""

import asyncio
import dataclasses
import functools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from groundtrace.grading.responses.response import parse_response
from groundtrace.inference.caller import CallResult
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.families.base import Family
from groundtrace.inference.families.plain import PLAIN
from groundtrace.inference.grounding import encode_mask
from groundtrace.inference.models import Models
from groundtrace.inference.request import Completion, Continuation, Sampling
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.rewards.case import Case
from groundtrace.rewards.locating import ObjectMasks, ServedRoles
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.schemas.records import Call, MediaRef, Question, Verdict

from ..inference.asking import call

NOBODY = ServedRoles()
YELLOW, BLUE, GREY = (255, 255, 0), (0, 0, 255), (211, 211, 211)


@dataclass
class ScriptedCaller:
    """Returns prepared replies in order, by role; an exception among them is raised, a tuple is log-probabilities."""

    replies: dict[str, list[Any]]
    frame: CoordinateFrame = CoordinateFrame.PX
    asked: list[tuple[str, RenderedPrompt, Sampling]] = field(default_factory=list)
    continued: list[Continuation] = field(default_factory=list)

    async def generate(
        self,
        role: str,
        prompt: RenderedPrompt,
        sampling: Sampling,
        *,
        continuation: Continuation | None = None,
        repair: bool = False,
    ) -> CallResult:
        assert not repair
        self.asked.append((role, prompt, sampling))
        reply = self.replies[role].pop(0)
        if isinstance(reply, BaseException):
            raise reply
        if continuation is None:
            completion = Completion(reply)
        else:
            self.continued.append(continuation)
            completion = Completion(continuation.text, logprobs=reply)
        return CallResult((completion,), Call(role, prompt.name, prompt.sha256, "m", ("key",)))

    def repair_attempts(self, role: str) -> int:
        """Each prepared reply is the only one: how bad ones are asked for again is tested with
        groundtrace.inference.role_calls.
        """
        return 0

    def max_tokens_limit(self, role: str) -> int:
        """No prepared reply is cut short."""
        return 0

    def family(self, role: str) -> Family:
        """Every role speaks our own form in the frame."""
        return replace(PLAIN, frame=self.frame)

    def gives_logprobs(self, role: str) -> bool:
        """Whether the prepared replies are log-probabilities."""
        return any(isinstance(reply, tuple) for reply in self.replies.get(role, ()))


@pytest.fixture
def scripted() -> Callable[..., ScriptedCaller]:
    """A caller with these replies by role."""
    return lambda frame=CoordinateFrame.PX, **replies: ScriptedCaller(replies, frame)


@dataclass
class SeeingCaller(ScriptedCaller):
    """A detector and a segmenter that know where the objects of some labels are, and a judge who agrees.

    ``boxes_px`` are the boxes of each label that the detector knows; of any other it says so. Masks fill their boxes.
    """

    boxes_px: Mapping[str, Sequence[tuple[int, int, int, int]]] = field(default_factory=dict)

    async def generate(self, role: str, prompt: RenderedPrompt, sampling: Sampling, **options: Any) -> CallResult:
        self.asked.append((role, prompt, sampling))
        reply = {"detector": self._boxes, "segmenter": self._masks}.get(role, self._agrees)(prompt)
        call = Call(role, prompt.name, prompt.sha256, "m", ("key",))
        return CallResult((Completion(json.dumps(reply)),), call)

    def _boxes(self, prompt: RenderedPrompt) -> dict[str, Any]:
        label = prompt.variable("label")
        if label not in self.boxes_px:
            raise CallError(Failure.UNKNOWN_LABEL, f"the label {label!r:.40} is unknown")
        return {"boxes": self.boxes_px[label]}

    def _masks(self, prompt: RenderedPrompt) -> dict[str, Any]:
        boxes = [map(round, box) for box in json.loads(prompt.variable("boxes"))]
        drawn = ((x1, y1, np.ones((y2 - y1, x2 - x1), bool)) for x1, y1, x2, y2 in boxes)
        return {"masks": [encode_mask(*mask) for mask in drawn]}

    def _agrees(self, _prompt: RenderedPrompt) -> dict[str, Any]:
        return {"reason": "it follows", "supports": "yes"}


@pytest.fixture
def seeing() -> Callable[..., SeeingCaller]:
    """A caller that sees these boxes by label."""
    return lambda boxes_px: SeeingCaller({}, boxes_px=boxes_px)


@pytest.fixture
def run() -> Callable[[Awaitable[Any]], Any]:
    """The result of a coroutine."""
    return lambda work: asyncio.run(work)  # type: ignore[arg-type]


@pytest.fixture
def question() -> Callable[..., Question]:
    """A question about one 400x100 picture, with changes."""
    medium = MediaRef("input:scene.png", "image", "a" * 64, "b" * 64, "0" * 16, 400, 100, 1, 1)
    fields = {"id": "q1", "source": "drawn", "license": "CC0-1.0", "media": (medium,)}
    asked = {"question": "How many yellow squares are there?", "answer": "2", "answer_type": "numeric"}
    return lambda **changes: Question(**{**fields, **asked, **changes})


@pytest.fixture
def case(question: Callable[..., Question]) -> Callable[..., Case]:
    """A response to that question; what is not a field of :class:`Case` changes the question, ``gold`` its answer."""
    own = {field.name for field in dataclasses.fields(Case)} - {"question", "masks"}

    def build(
        text: str = "<answer>2</answer>", caller: Any = None, served: ServedRoles = NOBODY, **changes: Any
    ) -> Case:
        fields = {name: changes.pop(name) for name in own & changes.keys()}
        if "gold" in changes:
            changes["answer"] = changes.pop("gold")
        asked = question(**changes)
        read = {"answer": parse_response(text).answer, "points": (), "boxes": ()} | fields
        return Case(asked, text, masks=ObjectMasks(asked, caller, served), **read)

    return build


@pytest.fixture
def verdicts() -> Callable[..., tuple[Verdict, ...]]:
    """Verdicts by name; None is unscored."""
    return lambda **values: tuple(Verdict(name, value, "said") for name, value in values.items())


@pytest.fixture
def with_models(tmp_path: Path) -> Callable[[Callable[[Models], Awaitable[Any]]], Any]:
    """Await ``work`` of the embedded engine's models; ``scene.png`` holds two yellow squares and a blue one."""
    pixels = np.full((100, 400, 3), GREY, np.uint8)
    pixels[20:50, 30:60] = YELLOW
    pixels[50:80, 200:230] = YELLOW
    pixels[10:40, 320:350] = BLUE
    Image.fromarray(pixels).save(tmp_path / "scene.png")
    names = {"detector": "edges", "segmenter": "edges", "judge": "colour", "policy": "colour", "pointer": "colour"}
    settings = ModelsSettings(
        endpoints=tuple((model, EndpointSettings("classical", model)) for model in ("colour", "edges")),
        roles=tuple(names.items()),
        cache_path=str(tmp_path / "replies.sqlite"),
        input_root=str(tmp_path),
        run_root=str(tmp_path / "run"),
    )

    return functools.partial(call, settings)
