"""Lets the policy model reason once with boxes around the things that it relies on (iVGR §3.4, first step: grounded
pass).

The inputs are drafts (questions with their data). The outputs are drafts whose only trace (record of reasoning and
answer) is this reasoning, with its boxes in pixels of the originals. A draft is rejected if the call failed. A box with
coordinates outside the range of the model's coordinate frame (such as 0–1000) is not read as a box. For a clip no call
is made, because a box has no field for the clip's frame. So the draft of a clip gets no trace.

Deviation: sampling is greedy here; the paper does not say how it samples.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import shown
from groundtrace.grading.question_text import BOXES, TEXTUAL, answer_format, instruction, lettered_choices
from groundtrace.grading.responses.speech import Speech
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.request import Sampling, Temperature
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.schemas.coordinates import QWEN25_IMAGE
from groundtrace.schemas.records import Draft, Question
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Stage

PROMPT = "attempt_with_boxes.v1"


@settings
class GroundSettings:
    """Holds the settings for sampling responses of the policy model that contain reasoning with boxes."""

    temperature: Annotated[Temperature, "the policy's sampling temperature"] = 0.0
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of the reasoning"] = 4096


def ground_prompt(question: Question) -> RenderedPrompt:
    """Return the prompt with which the policy (the model to be trained) answers a question by reasoning with boxes."""
    return load_prompt(PROMPT).render(
        {"original": shown(question.media)},
        question=question.question,
        choices=lettered_choices(question),
        instruction=instruction(question, BOXES),
        answer_format=answer_format(question),
    )


async def ground(draft: Draft, session: Session, settings: GroundSettings) -> Draft:
    """Let the policy model reason with boxes about a question, and return the draft (a question with its data) with
    this reasoning as its only trace (record of reasoning and answer).

    The boxes of the trace are in pixels of the original images. ``session`` makes the call, with the sampling settings
    in ``settings``. The draft of a clip is returned without a trace.
    """
    question = draft.question
    if any(medium.frames for medium in question.media):
        return replace(draft, form=TEXTUAL)
    sampling = Sampling(1, settings.temperature, max_tokens=settings.max_tokens)
    answered = await session.generate("policy", ground_prompt(question), sampling)
    family = session.family("policy")
    speech = Speech(family.frame, family.decimals, family.resize or QWEN25_IMAGE)
    sizes = [(medium.width, medium.height) for medium in question.media]
    text = answered.completions[0].text
    trace = read_trace(0, speech.to_pixels(text, sizes) if sizes else text, question.media)
    return replace(draft, form=TEXTUAL, traces=(trace,))


STAGE = Stage(
    "ground",
    "the policy reasons once with boxes around what it relies on",
    asks=(Asks("policy", (PROMPT,)),),
    settings=GroundSettings,
)


@dataclass
class GroundQuestions(CallingStage):
    """Stage (pipeline step) that lets the policy model reason with boxes about every question.

    ``models`` holds the settings of the run's models.
    """

    settings: GroundSettings
    models: ModelsSettings
    stage = STAGE
    spread = False

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the policy model
        reason about the question with boxes (:func:`ground`).
        """
        return partial(ground, settings=self.settings)
