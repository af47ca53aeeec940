"""Writes the traces of the cold start (the SFT before RL): the teacher model's reasoning with boxes, or in words alone
(iVGR §3.2, §4.1, App. A).

The inputs are drafts (questions with their data) in which an earlier stage chose the form of the trace: reasoning with
boxes, or in words alone. The outputs are drafts with at most ``n`` traces of this form. A draft is rejected if the call
failed or all traces were truncated. The teacher sees the question and the original image without drawn points or boxes.
So it writes boxes only of things that it has found itself. It writes them in the coordinate frame of its model family,
such as pixels, 0–1 or 0–1000, and this stage converts them to pixels of the original image. If a box is outside of the
coordinate frame, this stage makes the tag of the box unreadable. The trace then fails the check of its form.

Deviation: the paper takes the traces with boxes unchanged from an annotated set, and generates one trace in words alone
for each question. Here several traces of the chosen form are sampled for each question, and verification keeps the best
trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from groundtrace.grading.messages import shown
from groundtrace.grading.question_text import BOXES, answer_format, image_hints, lettered_choices
from groundtrace.grading.responses.speech import Speech
from groundtrace.inference.families.base import Family
from groundtrace.inference.request import Completion
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.schemas.coordinates import QWEN25_IMAGE, CoordinateFrame
from groundtrace.schemas.records import Draft, MediaRef, Question
from groundtrace.stages.generate_traces import TraceSettings, with_traces
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Stage

BOXES_PROMPT, TEXTUAL_PROMPT = "trace_boxes.v1", "trace_textual.v1"

_FULL_SCALE = {
    CoordinateFrame.MOLMO100: "100",
    CoordinateFrame.MOLMO1000: "1000",
    CoordinateFrame.NORM1000: "1000",
    CoordinateFrame.GEMINI: "1000",
    CoordinateFrame.UNIT: "1",
}


def speech_of(family: Family) -> Speech:
    """Return how the models of a family, such as Qwen3-VL, write coordinates: the coordinate frame, the decimals and
    the resizing of images.
    """
    return Speech(family.frame, family.decimals, family.resize or QWEN25_IMAGE)


def scale(frame: CoordinateFrame, media: Sequence[MediaRef]) -> str:
    """Return the sentence of the prompt that states the unit of box coordinates, such as pixels or 0 to 1000.

    ``frame`` is the coordinate frame of the model. ``media`` are the media of the question, whose sizes the sentence
    may state.
    """
    if frame in _FULL_SCALE:
        return f"Coordinates run from 0 to {_FULL_SCALE[frame]} over the width and over the height of the picture."
    if frame is not CoordinateFrame.PX:
        return "Coordinates are pixels of the picture as you see it."
    sizes = [f"{medium.width} wide and {medium.height} high" for medium in media]
    if len(sizes) == 1:
        return f"Coordinates are pixels of the picture, which is {sizes[0]}."
    listed = ", ".join(f"picture {number} {size}" for number, size in enumerate(sizes, 1))
    return f"Coordinates are pixels of the picture that the thing is in: {listed}."


def trace_prompt(question: Question, form: str, family: Family) -> RenderedPrompt:
    """Return the prompt with which the teacher model writes a trace (reasoning and answer) for a question.

    ``form`` is the form of the trace: with boxes, or in words alone. ``family`` is the teacher's model family, such as
    Qwen3-VL, which determines the unit and the order of box coordinates in the prompt.
    """
    asked = {
        "question": question.question,
        "choices": lettered_choices(question),
        "answer_format": answer_format(question),
    }
    media = {"original": shown(question.media)}
    if form != BOXES:
        return load_prompt(TEXTUAL_PROMPT).render(media, **asked)
    is_y_first = family.frame is CoordinateFrame.GEMINI
    return load_prompt(BOXES_PROMPT).render(
        media,
        hints="\n".join(image_hints(question)),
        box_order="[y1,x1,y2,x2]" if is_y_first else "[x1,y1,x2,y2]",
        scale=scale(family.frame, question.media),
        **asked,
    )


def in_pixels(completion: Completion, media: Sequence[MediaRef], family: Family) -> Completion:
    """Return a reply of the teacher model with its boxes in pixels of the original images.

    ``completion`` is the reply, with boxes in the coordinate frame of the model's ``family`` (pixels, 0–1 or 0–1000).
    ``media`` are the media of the question.
    """
    speech, sizes = speech_of(family), [(medium.width, medium.height) for medium in media]
    return replace(
        completion,
        text=speech.to_pixels(completion.text, sizes),
        reasoning=completion.reasoning and speech.to_pixels(completion.reasoning, sizes),
    )


async def trace(draft: Draft, session: Session, settings: TraceSettings) -> Draft:
    """Let the teacher model write traces (reasoning and answer) in the form that the draft names: with boxes, or in
    words alone. Returns the draft (a question with its data) with the traces.

    ``session`` makes the call, with the sampling settings in ``settings``. Raises
    :class:`groundtrace.stages.plumbing.stage.Reject` if all traces are truncated
    (:func:`groundtrace.stages.generate_traces.with_traces`).
    """
    question, family = draft.question, session.family("teacher")
    answered = await session.generate("teacher", trace_prompt(question, draft.form, family), settings.sampling)
    completions = [in_pixels(each, question.media, family) for each in answered.completions]
    return with_traces(draft, completions, answered.call.keys[0])


STAGE = Stage(
    "trace",
    "the teacher reasons with boxes or in words alone, as the question's stream asks",
    asks=(Asks("teacher", (BOXES_PROMPT, TEXTUAL_PROMPT)),),
    settings=TraceSettings,
)


@dataclass
class WriteStreamTraces(CallingStage):
    """Stage (pipeline step) that lets the teacher model write traces (reasoning and answer) for every draft (a question
    with its data): with boxes, or in words alone.

    ``models`` holds the settings of the run's models.
    """

    settings: TraceSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model
        write traces (reasoning and answer) with boxes, or in words alone (:func:`trace`).
        """
        return partial(trace, settings=self.settings)
