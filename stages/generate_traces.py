"""Generates traces (Argos §4.2, App. C.2): several samples of the teacher model's grounded reasoning for each question.

The inputs are drafts (questions with their data) that have points and overlays. An overlay is a copy of an image with
the points drawn on it. The outputs are drafts with at most ``n`` traces, whose points are in tags of one fixed form.
Truncated traces are dropped, because no model should learn from an unfinished trace. A draft is rejected if the call
failed or all traces were truncated.

For images, the teacher sees the originals first and then the overlays, which show the points. For a clip, it sees each
frame once: the overlay of the frame if the frame has one, else the frame itself (§4.2). The prompt lists the points
with their coordinates in pixels of the original, and requests that the teacher copies these coordinates. So it does not
matter in which coordinate frame (pixels, 0–1 or 0–1000) the teacher was trained to point.
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
    """Holds the sampling settings of the teacher model's traces (reasoning and answer); the defaults are the values of
    the paper Argos.
    """

    n: Annotated[PositiveInt, "the number of traces for each question"] = 8
    temperature: Annotated[Temperature, "the teacher's sampling temperature"] = 0.6
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a trace"] = 6144

    @property
    def sampling(self) -> Sampling:
        """Return the sampling settings of the traces (the teacher model's responses to one question): their number,
        temperature and maximum length.
        """
        return Sampling(self.n, self.temperature, max_tokens=self.max_tokens)


def listed_points(points: tuple[Point, ...]) -> str:
    """Return the list of points for the teacher model's prompt, with a line ``1. label (x, y)`` for each point.

    Returns "none" if there are no points. A line for a point of the second or a later image also names the image. A
    line for a point of a clip also names the frame.
    """
    lines = []
    for number, point in zip(mark_numbers(points), points, strict=True):
        medium = f" in picture {point.media_index + 1}" if point.media_index else ""
        frame = "" if point.frame is None else f" in {format_moment(point.frame, point.t_s or 0.0)}"
        lines.append(f"{number}. {point.label} ({point.x:.1f}, {point.y:.1f}){medium}{frame}")
    return "\n".join(lines) or "none"


def listed_events(events: tuple[Event, ...]) -> str:
    """Return the list of proposed events for the teacher model's prompt, with one line for each event.

    Returns "none" if there are no events. An event is an action or interaction in a clip. Its line has its description
    and its times.
    """
    lines = [f"- {event.description}, {format_span(event.start_s, event.end_s)}" for event in events]
    return "\n".join(lines) or "none"


def shown_overlays(draft: Draft) -> list[Part]:
    """Return the images of a prompt: for each image or frame its overlay, or the original if it has no overlay.

    An overlay is a copy with the points drawn on it.
    """
    return shown(draft.question.media, {(overlay.media_index, overlay.frame): overlay for overlay in draft.overlays})


def as_traces(completions: Sequence[Completion], media: tuple[MediaRef, ...] = ()) -> tuple[Trace, ...]:
    """Return the teacher model's replies as traces (records of reasoning, answer, points and boxes), in order. Equal
    replies are parsed once.

    ``completions`` are the replies. ``media`` are the media of the question, to which the points and boxes of the
    traces belong.
    """
    read: dict[Completion, Trace] = {}
    for completion in completions:
        if completion not in read:
            read[completion] = as_trace(0, completion, media)
    return tuple(replace(read[completion], index=index) for index, completion in enumerate(completions))


def with_traces(draft: Draft, completions: Sequence[Completion], key: str) -> Draft:
    """Return the draft (a question with its data) with traces (reasoning and answer) made of the teacher model's
    replies that are not truncated.

    ``completions`` are the replies. The index of a trace is the position of its reply in ``completions``. ``key`` is
    the cache key of the first reply; it becomes part of a rejection. Raises :class:`Reject` if all replies are
    truncated; the draft in this rejection has the truncated traces.
    """
    traces = as_traces(completions, draft.question.media)
    kept = tuple(trace for trace in traces if not completions[trace.index].is_truncated)
    if not kept:
        which = "the trace" if len(traces) == 1 else f"each of {len(traces)} traces"
        raise Reject(TRUNCATED, f"{which}: {CUT_OFF}", key, replace(draft, traces=traces))
    return replace(draft, traces=kept)


def as_trace(index: int, completion: Completion, media: tuple[MediaRef, ...] = ()) -> Trace:
    """Return one reply of the teacher model as a trace (a record of reasoning and answer), with its points and boxes in
    tags of one fixed form.

    ``index`` becomes the index of the trace, ``completion`` is the reply, and ``media`` are the media of the question.
    Reasoning that the server returns separately is put into think tags. Media placeholders, such as ``<image>``, are
    removed; inside a sentence, words replace them. End tokens are removed. In an answer section, the tokens that GLM
    models write around a boxed answer are removed, too. All other special tokens stay, so that a later check of the
    form rejects the trace: the text after such a token is not part of the teacher's reply.
    """
    text = completion.text
    if completion.reasoning and "<think>" not in text:
        text = f"<think>{completion.reasoning}</think>{text}"
    return read_trace(index, as_written(text, len(media)), media)


def trace_prompt(draft: Draft) -> RenderedPrompt:
    """Return the prompt with which the teacher model writes traces (reasoning and answer) for a question. ``draft``
    holds the question, its points and its overlays (images with the points drawn on them).
    """
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
    """Let the teacher model write traces (reasoning and answer) for a question, and return the draft (a question with
    its data) with the traces that are not truncated.

    ``session`` makes the call, with the sampling settings in ``settings``. Raises :class:`Reject` if all traces are
    truncated. Also raises it, before the call, if the draft has no entities (things to point at), because its traces
    could not be grounded.
    """
    if not draft.entities:
        key = draft.calls[-1].keys[0] if draft.calls else None
        raise Reject(NO_ENTITIES, "the teacher named no visible object to point at", key)
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
    """Stage (pipeline step) that lets the teacher model write several traces (reasoning and answer) with points for
    every question.

    ``models`` holds the settings of the run's models.
    """

    settings: TraceSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model
        write several traces (reasoning and answer) with points (:func:`trace`).
        """
        return partial(trace, settings=self.settings)
