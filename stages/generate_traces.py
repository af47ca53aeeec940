"""Traces (Argos §4.2, App. C.2): the teacher's grounded reasoning, several rollouts a question.

In: drafts with points and overlays. Out: drafts with ``n`` traces in canonical tags, or a rejection when the call
failed. The original stands first, the overlay after it as a reference. Coordinates are original pixels: the prompt
gives the marks in them and asks for copies, so that no frame has to be guessed.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from inference.request import Completion, Sampling
from inference.settings import ModelsSettings
from prompts.loader import load_prompt
from schemas.geometry import Point
from schemas.messages import MediaPart, media_part
from schemas.records import Draft, Trace
from schemas.response import normalise, parse_response
from stages.answer_format import answer_format, lettered_choices
from stages.calling import CallModels, Session, split, with_calls
from stages.spreading import SpreadDrafts

STAGE = "trace"
PROMPT = "trace.v1"


@dataclass(frozen=True)
class TraceSettings:
    """The paper's values: 8 rollouts at temperature 0.6 with at most 6,144 new tokens."""

    n: int = 8
    temperature: float = 0.6
    max_tokens: int = 6144

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError("trace.n must be at least 1")


def listed_points(points: tuple[Point, ...]) -> str:
    """The marks as the prompt lists them: ``1. label (x, y)`` a line, with the medium where it is not the first."""
    lines = []
    for number, point in enumerate(points, 1):
        medium = f" in picture {point.media_index + 1}" if point.media_index else ""
        lines.append(f"{number}. {point.label} ({point.x:.1f}, {point.y:.1f}){medium}")
    return "\n".join(lines) or "none"


def shown_overlays(draft: Draft) -> list[MediaPart]:
    """For each medium its overlay, or the medium itself where nothing is marked on it."""
    drawn = {overlay.media_index: overlay for overlay in draft.overlays}
    return [media_part(drawn.get(index, medium)) for index, medium in enumerate(draft.question.media)]


def as_trace(index: int, completion: Completion) -> Trace:
    """The trace in canonical tags. Reasoning that a server returns apart goes back into think tags."""
    text = completion.text
    if completion.reasoning and "<think>" not in text:
        text = f"<think>{completion.reasoning}</think>{text}"
    text = normalise(text)
    response = parse_response(text)
    return Trace(index, text, response.answer, response.points, response.boxes)


async def trace(draft: Draft, session: Session, settings: TraceSettings) -> Draft:
    """Ask the teacher for ``n`` traces."""
    question = draft.question
    prompt = load_prompt(PROMPT).render(
        {"original": [media_part(medium) for medium in question.media], "overlay": shown_overlays(draft)},
        question=question.question,
        choices=lettered_choices(question),
        points=listed_points(draft.points),
        answer_format=answer_format(question),
    )
    sampling = Sampling(settings.n, settings.temperature, max_tokens=settings.max_tokens)
    answered = await session.generate("teacher", prompt, sampling)
    traces = tuple(as_trace(index, completion) for index, completion in enumerate(answered.completions))
    return with_calls(draft, session, traces=traces)


@dataclass
class GenerateTraces(beam.PTransform):
    """Write the traces of every draft; see the module."""

    settings: TraceSettings
    models: ModelsSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts and ``rejected``."""
        calls = CallModels(STAGE, partial(trace, settings=self.settings), self.models)
        return split(drafts | SpreadDrafts(), "Call", calls)
