"""Finds boxes around the objects that the teacher model's questions are about (CodeDance §7.2, Table 6).

The inputs are drafts, i.e. questions with their data. An earlier stage let the teacher write each question and name the
object that the question is about. The outputs are the same drafts with the boxes of the entire objects, in pixels of
the upright original. A draft is rejected if the teacher finds no box around its object, or too many boxes. Later stages
use these boxes as gold boxes, and the column ``boxes_source`` of every row marks them as boxes of a model. Coordinates
in prompts and replies have the form and the frame (pixels, 0–1 or 0–1000) that the config sets for the teacher's
endpoint.

A box over nearly the whole image is left out, because it would contain the boxes of every response, right or wrong. A
box with a side of less than one pixel is left out, too. A repeated box is used once.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import media_part
from groundtrace.inference.errors import CallError
from groundtrace.inference.families.base import OBJECT_PROMPT
from groundtrace.inference.pointing import objects_of
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.locating import MAX_COVER, is_of_label
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage
from groundtrace.stages.write_questions import OBJECT

NOT_FOUND, TOO_MANY = "object_not_found", "too_many_objects"


@settings
class GroundObjectSettings:
    """Holds two limits for the requests in which the teacher model finds boxes around the object of a question, e.g.
    around a "red car".

    If the images show several such objects, each of them gets a box. The limits are the maximum number of boxes for one
    question, and the maximum length of a reply in tokens.
    """

    max_boxes: Annotated[PositiveInt, "a question about more objects is rejected"] = 32
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a reply"] = 4096


async def ground(draft: Draft, session: Session, settings: GroundObjectSettings) -> Draft:
    """Let the teacher model find boxes around the object of a question that the teacher wrote, and return the draft (a
    question with its data) with these boxes.

    ``session`` makes the calls, one for each image. Raises :class:`Reject` if no box, or more than
    ``settings.max_boxes`` boxes, are found.
    """
    question, label = draft.question, draft.added(OBJECT) or ""
    boxes = list[Box]()
    for index, medium in enumerate(question.media):
        image, sampling = media_part(medium), Sampling(max_tokens=settings.max_tokens)
        try:
            found = await objects_of(session, "teacher", label, question.question, image, medium, index, sampling)
        except CallError as error:
            if not is_of_label(error):
                raise
            continue
        whole_px = MAX_COVER * medium.width * medium.height
        once = dict.fromkeys(found.found)
        boxes += [box for box in once if min(box.width, box.height) >= 1 and box.width * box.height <= whole_px]
    key = next((key for call in reversed(session.calls) for key in call.keys), None)
    if not boxes:
        raise Reject(
            NOT_FOUND,
            f"the teacher gave no box around {label!r} that is larger than a pixel and smaller than the image",
            key,
        )
    if len(boxes) > settings.max_boxes:
        detail = f"{len(boxes)} boxes around {label!r}, but ground_objects.max_boxes is {settings.max_boxes}"
        raise Reject(TOO_MANY, detail, key)
    return replace(draft, pseudo_boxes=tuple(boxes))


STAGE = Stage(
    "ground_objects",
    "the teacher boxes the entire object that a written question is about",
    reasons={
        NOT_FOUND: "the teacher does not find the object that its question is about",
        TOO_MANY: "the question is about more objects than ground_objects.max_boxes",
    },
    asks=(Asks("teacher", (OBJECT_PROMPT,), all_media=False),),
    settings=GroundObjectSettings,
)


@dataclass
class GroundObjects(CallingStage):
    """Stage (pipeline step) that lets the teacher model find boxes around the object of each question that the teacher
    wrote.

    ``models`` holds the settings of the run's models. A question is rejected if the teacher finds no box around its
    object, or more than ``settings.max_boxes`` boxes.
    """

    settings: GroundObjectSettings
    models: ModelsSettings
    stage = STAGE
    spread = False

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model find
        boxes around the object that the question is about (:func:`ground`).
        """
        return partial(ground, settings=self.settings)
