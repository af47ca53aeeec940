"""Traces (Argos §4.2, App. C.2): the teacher's grounded reasoning, several rollouts a question.

In: drafts with points and overlays. Out: drafts with up to ``n`` traces in canonical tags, or a rejection if the call
failed or all traces were truncated: a trace without an end must not be learnt from. The original is shown first, the
overlay after it as a reference; of a clip only the frames are shown, with their overlays if there are any (§4.2).
Coordinates are original pixels: the prompt lists the marks in them and asks for copies, so that no frame has to be
guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import Part, shown
from groundtrace.grading.question_text import answer_format, image_hints, lettered_choices
from groundtrace.grading.responses.placeholders import as_written
from groundtrace.grading.responses.times import format_moment, format_span
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.request import Completion, Sampling, Temperature
from groundtrace.inference.role_calls import CUT_OFF, Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import Draft, Event, MediaRef, Trace
from groundtrace.stages.draw_overlays import mark_numbers
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import TRUNCATED, Reject, Stage

NO_ENTITIES = "no_entities"
PROMPT, CLIP_PROMPT = "trace.v1", "trace_video.v1"


@settings
class TraceSettings:
    """How the teacher's traces are sampled; the defaults are the paper's values."""

    n: Annotated[PositiveInt, "the number of traces for each question"] = 8
    temperature: Annotated[Temperature, "the teacher's sampling temperature"] = 0.6
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a trace"] = 6144

    @property
    def sampling(self) -> Sampling:
        """How the traces are sampled."""
        return Sampling(self.n, self.temperature, max_tokens=self.max_tokens)


def listed_points(points: tuple[Point, ...]) -> str:
    """The marks as the prompt lists them: ``1. label (x, y)`` on each line.

    A line also names the medium if it is not the first, and the frame of a clip.
    """
    lines = []
    for number, point in zip(mark_numbers(points), points, strict=True):
        medium = f" in picture {point.media_index + 1}" if point.media_index else ""
        frame = "" if point.frame is None else f" in {format_moment(point.frame, point.t_s or 0.0)}"
        lines.append(f"{number}. {point.label} ({point.x:.1f}, {point.y:.1f}){medium}{frame}")
    return "\n".join(lines) or "none"


def listed_events(events: tuple[Event, ...]) -> str:
    """The proposed events as the prompt lists them, one a line."""
    lines = [f"- {event.description}, {format_span(event.start_s, event.end_s)}" for event in events]
    return "\n".join(lines) or "none"


def shown_overlays(draft: Draft) -> list[Part]:
    """The overlay of each image or frame, or the image itself if nothing is marked on it."""
    return shown(draft.question.media, {(overlay.media_index, overlay.frame): overlay for overlay in draft.overlays})


def as_traces(completions: Sequence[Completion], media: tuple[MediaRef, ...] = ()) -> tuple[Trace, ...]:
    """The completions as traces, in order; equal ones are read once."""
    read: dict[Completion, Trace] = {}
    for completion in completions:
        if completion not in read:
            read[completion] = as_trace(0, completion, media)
    return tuple(replace(read[completion], index=index) for index, completion in enumerate(completions))


def with_traces(draft: Draft, completions: Sequence[Completion], key: str) -> Draft:
    """The draft with the complete completions as traces; each has the number of its sample.

    If all are truncated, raises :class:`Reject`, with all of them in its draft. ``key`` is that of the first.
    """
    traces = as_traces(completions, draft.question.media)
    kept = tuple(trace for trace in traces if not completions[trace.index].is_truncated)
    if not kept:
        which = "the trace" if len(traces) == 1 else f"each of {len(traces)} traces"
        raise Reject(TRUNCATED, f"{which}: {CUT_OFF}", key, replace(draft, traces=traces))
    return replace(draft, traces=kept)


def as_trace(index: int, completion: Completion, media: tuple[MediaRef, ...] = ()) -> Trace:
    """The completion as a trace in canonical tags. Reasoning that a server returns apart goes back into think tags.

    Media placeholders are put into words. End tokens are removed; other special tokens stay, so that the form check
    rejects them: the text behind one is not part of the teacher's reply.
    """
    text = completion.text
    if completion.reasoning and "<think>" not in text:
        text = f"<think>{completion.reasoning}</think>{text}"
    return read_trace(index, as_written(text, len(media)), media)


def trace_prompt(draft: Draft) -> RenderedPrompt:
    """The teacher's prompt."""
    question = draft.question
    asked = {
        "question": question.question,
        "choices": lettered_choices(question),
        "points": "\n".join([listed_points(draft.points), *image_hints(question)]),
        "answer_format": answer_format(question),
    }
    overlays = shown_overlays(draft)
    if any(medium.frames for medium in question.media):
        return load_prompt(CLIP_PROMPT).render({"frames": overlays}, events=listed_events(draft.events), **asked)
    return load_prompt(PROMPT).render({"original": shown(question.media), "overlay": overlays}, **asked)


async def trace(draft: Draft, session: Session, settings: TraceSettings) -> Draft:
    """Returns the draft with the teacher's traces (:func:`with_traces`).

    Raises :class:`Reject` also if there is nothing to point at, since a trace could not be grounded.
    """
    if not draft.entities:
        key = draft.calls[-1].keys[0] if draft.calls else None
        raise Reject(NO_ENTITIES, "the teacher named no visible thing", key)
    answered = await session.generate("teacher", trace_prompt(draft), settings.sampling)
    return with_traces(draft, answered.completions, answered.call.keys[0])


STAGE = Stage(
    "trace",
    "the teacher reasons over the marked image, citing points",
    reasons={NO_ENTITIES: "the teacher named nothing that could be pointed at"},
    asks=(Asks("teacher", (PROMPT,)), Asks("teacher", (CLIP_PROMPT,), clips=True)),
    settings=TraceSettings,
)


@dataclass
class GenerateTraces(CallingStage):
    """Writes the traces of every draft; see the module."""

    settings: TraceSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """See :func:`trace`."""
        return partial(trace, settings=self.settings)
