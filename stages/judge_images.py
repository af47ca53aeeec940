"""Judges whether images are suitable for questions that need a close look (CodeDance §7.2, Table 5).

The inputs are drafts, i.e. records with their images, most of them without a question. The outputs are the drafts whose
images meet all four conditions. All other drafts are rejected with the first condition that they do not meet:

A. The image shows enough objects: four kinds, or six single objects.
B. At least one object is not hidden, covers less than 30 % of the image, and is not one of many that look the same.
C. A detail becomes clearer when it is enlarged.
D. A question that needs a close look can be asked.

A question that comes with its answer does not need this check. So recipes give drafts with a question to this stage
only if the setting ``apply_to`` is ``all``. For a draft without a question, later stages call the teacher (a model).
The teacher writes a question, and places a box around the object of this question. Boxes are impossible in two cases:
the draft has a clip, or the settings of the teacher's endpoint lack the form in which the teacher writes boxes. In
these cases, a draft without a question is rejected before any call.

Deviation: in the paper, one True or False covers all four conditions. Here the judge model gives a True or False for
each condition, so that the rejection names the fault.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import shown
from groundtrace.inference.caller import CallResult
from groundtrace.inference.endpoint import check_boxes
from groundtrace.inference.families.base import after_thinking
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks, ask_for
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards.judge import reason_of
from groundtrace.schemas.records import Draft, MediaRef
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage

PROMPT = "judge_image.v1"
FEW_OBJECTS, NO_CLEAR_OBJECT, NO_DETAIL, UNFIT = "few_objects", "no_clear_object", "no_detail", "unfit_for_questions"
IS_CLIP, CANNOT_BOX = "is_clip", "cannot_box"
CONDITIONS = {"A": FEW_OBJECTS, "B": NO_CLEAR_OBJECT, "C": NO_DETAIL, "D": UNFIT}
"""Maps the letter of each condition to the reason of rejection, in the order in which the conditions are checked."""
WITHOUT_QUESTION, ALL = "without_question", "all"


@settings
class ImageSettings:
    """Holds the settings of this stage: which records are judged, and which conditions their images must meet.

    The default limits, such as four kinds of objects, are those of the paper CodeDance (§7.2, Table 5).
    """

    apply_to: Annotated[
        Literal["without_question", "all"], "judge the images of records without a question, or those of all records"
    ] = WITHOUT_QUESTION
    min_kinds: Annotated[PositiveInt, "condition A: the image has this many kinds of objects or more"] = 4
    min_objects: Annotated[PositiveInt, "condition A is also met by this many single objects or more"] = 6
    max_percent: Annotated[
        float, Field(gt=0, le=100), "condition B: an object that is not hidden covers less of the image, in percent"
    ] = 30.0
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a reply"] = 2048


def read_conditions(reply: CallResult) -> tuple[tuple[str, ...], str]:
    """Read the judge model's reply about an image, and return the failed conditions and the judge's reason.

    The failed conditions are those that the judge finds false, as letters in order, e.g. ``("A", "C")``. Raises
    BadReply if the reply lacks true or false for one of the four conditions.
    """
    fields = json_object(after_thinking(reply.text))
    for letter in CONDITIONS:
        if not isinstance(held := fields.get(letter), bool):
            raise BadReply(f"the reply's field {letter!r} must be true or false, got {held!r:.80}")
    return tuple(letter for letter in CONDITIONS if not fields[letter]), reason_of(fields)


def check_askable(media: Sequence[MediaRef], models: ModelsSettings) -> None:
    """Check that the teacher can place boxes around objects in these media. Raises :class:`Reject` otherwise.

    The teacher (a model) cannot place boxes in two cases: a medium is a clip, or the settings of the teacher's endpoint
    in ``models`` lack the form in which the teacher writes boxes.
    """
    if any(medium.frames for medium in media):
        raise Reject(IS_CLIP, "the medium is a clip, but objects are boxed in images only")
    try:
        check_boxes("teacher", models.endpoint_name("teacher"), models.endpoint("teacher"))
    except ValueError as error:
        raise Reject(CANNOT_BOX, str(error)) from error


async def judge_image(draft: Draft, session: Session, settings: ImageSettings, models: ModelsSettings) -> Draft:
    """Let the judge model check the images of a draft (a question with its data), and return the draft if they meet all
    conditions.

    ``session`` makes the call, and ``models`` holds the settings of the run's models. ``settings`` holds the limits of
    the conditions, such as the number of kinds of objects. Raises :class:`Reject` for the first condition that the
    images do not meet.
    """
    media = draft.question.media
    if not draft.question.is_asked:
        check_askable(media, models)
    prompt = load_prompt(PROMPT).render(
        {"original": shown(media)},
        min_kinds=str(settings.min_kinds),
        min_objects=str(settings.min_objects),
        max_percent=f"{settings.max_percent:g}",
    )
    sampling = Sampling(max_tokens=settings.max_tokens)
    (failed, reason), answered = await ask_for(session, "judge", prompt, sampling, read_conditions)
    if failed:
        raise Reject(
            CONDITIONS[failed[0]],
            f"the judge reports {', '.join(CONDITIONS[each] for each in failed)}: {reason}",
            answered.call.keys[0],
        )
    return draft


STAGE = Stage(
    "judge_images",
    "images are used for written questions if they show enough objects and a detail that needs a close look",
    reasons={
        FEW_OBJECTS: "A: the image shows too few objects",
        NO_CLEAR_OBJECT: "B: no object is unhidden, small enough and unlike the others",
        NO_DETAIL: "C: no detail gains by being enlarged",
        UNFIT: "D: no question that needs a close look can be asked",
        IS_CLIP: "the medium is a clip",
        CANNOT_BOX: "the teacher's endpoint does not declare how its model writes boxes",
    },
    asks=(Asks("judge", (PROMPT,)),),
    settings=ImageSettings,
    failures=(CANNOT_BOX,),
    joins=True,
)


@dataclass
class JudgeImages(CallingStage):
    """Stage (pipeline step) that keeps the drafts (questions with their data) whose images are suitable for questions
    that need a close look.

    ``models`` holds the settings of the run's models. An image is suitable if it shows enough objects, and one of them
    clearly. In addition, a detail of the image must become clearer when it is enlarged, and the image must allow a
    question that needs a close look.
    """

    settings: ImageSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function rejects the draft if the
        judge model finds its images unsuitable (:func:`judge_image`).
        """
        return partial(judge_image, settings=self.settings, models=self.models)
