"""Chooses, for each question of the cold start (the SFT before RL), whether its trace (the teacher model's response)
reasons with boxes or in words alone (iVGR §4.1).

These two ways of answering are called streams: a trace of the grounded stream has boxes, and a trace of the textual
stream has words alone. The inputs are drafts (questions with their data) of the SFT side, i.e. of the questions that
become SFT rows. The outputs are the same drafts, in which a field names the form of the trace: with boxes, or in words
alone. A hash of the question's id chooses the stream before the teacher is called. So the teacher is called for each
question in one stream only, and the choice does not depend on other questions. On average, the numbers of questions in
the two streams have the ratio of the config (32 to 3 in the paper, for 35,000 questions).
:class:`groundtrace.stages.keep_ratio.KeepRatio` later makes the ratio exact.

The boxes of a grounded trace are later compared with the question's boxes. Therefore a question without boxes is
rejected if the hash chooses the grounded stream. In the paper, every question of the cold-start set has boxes. Here,
there is one exception: a question without boxes is kept if the hash chooses the textual stream.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from groundtrace.config.settings import PositiveWeight, settings
from groundtrace.grading.question_text import BOXES, TEXTUAL
from groundtrace.schemas.ordering import unit_hash
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, Work

NO_BOXES = "no_boxes"


@settings
class ColdStartSettings:
    """Holds the weights of the two streams (kinds of SFT rows): reasoning with boxes, and reasoning in words alone.

    On average, the numbers of questions in the two streams have the ratio of these weights.
    """

    grounded: Annotated[PositiveWeight, "the weight of traces with boxes"] = 32.0
    textual: Annotated[PositiveWeight, "the weight of traces without boxes"] = 3.0
    seed: Annotated[int, "the seed of the assignment"] = 0

    @property
    def ratio(self) -> dict[str, float]:
        """Return a mapping from each form of the teacher model's reasoning (with boxes, and in words alone) to its
        weight.
        """
        return {BOXES: self.grounded, TEXTUAL: self.textual}


def form_of(question_id: str, settings: ColdStartSettings) -> str:
    """Return the form in which the teacher model writes the trace (reasoning and answer) for a question: with boxes
    (``boxes``) or in words alone (``textual``).

    A hash of ``question_id`` chooses the form, so that on average the numbers of the two forms have the ratio of the
    settings. Equal ids always get the same form.
    """
    share = settings.grounded / (settings.grounded + settings.textual)
    return BOXES if unit_hash(question_id, settings.seed, "stream") < share else TEXTUAL


def assign(draft: Draft, settings: ColdStartSettings) -> Draft:
    """Return the draft (a question with its data) with the form in which the teacher model reasons about it: with
    boxes, or in words alone.

    A hash of the question's id chooses the form, with the weights in ``settings``. Raises :class:`Reject` if the form
    is with boxes but the question has no boxes.
    """
    form = form_of(draft.id, settings)
    if form == BOXES and not draft.reference_boxes:
        raise Reject(
            NO_BOXES, "neither the record nor the detector has boxes, so a grounded trace could not be checked"
        )
    return replace(draft, form=form)


def form_of_draft(draft: Draft) -> str:
    """Return the form in which the teacher model reasons about ``draft`` (a question with its data): with boxes, or in
    words alone. The stage :class:`groundtrace.stages.keep_ratio.KeepRatio` keeps drafts of the forms in a fixed ratio.
    """
    return draft.form


STAGE = Stage(
    "assign",
    "each question of the SFT side gets one stream by a hash of its id: reasoning with boxes, or in words alone",
    reasons={NO_BOXES: "of the grounded stream, but there are no boxes to compare its trace with"},
    settings=ColdStartSettings,
)


@dataclass
class AssignStream(DraftStage):
    """Stage (pipeline step) that assigns each draft (a question with its data) a stream: reasoning with boxes, or in
    words alone.

    A hash of the question's id chooses the stream, with the weights of the settings. A question without boxes is
    rejected if it gets the stream with boxes.
    """

    settings: ColdStartSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function sets whether the trace (the
        teacher model's response) reasons with boxes or in words alone (:func:`assign`).
        """
        return partial(assign, settings=self.settings)
