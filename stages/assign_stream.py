"""The stream of each cold-start question: reasoning with boxes, or in words alone (iVGR §4.1).

In: drafts of the SFT side. Out: drafts with the form of their stream, or a rejection. A hash of the id decides before
the teacher is asked: no question is paid for in both streams, and the decision does not depend on other questions. The
shares are those of the ratio (32 to 3 in the paper, of 35,000), which :class:`groundtrace.stages.keep_ratio.KeepRatio`
then meets exactly.

A grounded trace is compared with boxes; a question of that stream without boxes is rejected, since the boxes of its
trace could not be checked. The textual stream takes its share of the questions without boxes, and the rest is used on
the RL side only, as in the paper, whose cold-start set has boxes throughout.
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
    """The ratio of the two streams among SFT rows."""

    grounded: Annotated[PositiveWeight, "the weight of traces with boxes"] = 32.0
    textual: Annotated[PositiveWeight, "the weight of traces without boxes"] = 3.0
    seed: Annotated[int, "the seed of the assignment"] = 0

    @property
    def ratio(self) -> dict[str, float]:
        """The weights by the form of a row."""
        return {BOXES: self.grounded, TEXTUAL: self.textual}


def form_of(question_id: str, settings: ColdStartSettings) -> str:
    """The form of the teacher's trace for a question."""
    share = settings.grounded / (settings.grounded + settings.textual)
    return BOXES if unit_hash(question_id, settings.seed, "stream") < share else TEXTUAL


def assign(draft: Draft, settings: ColdStartSettings) -> Draft:
    """The draft with its form. Raises :class:`Reject` for a grounded one without boxes."""
    form = form_of(draft.id, settings)
    if form == BOXES and not draft.reference_boxes:
        raise Reject(NO_BOXES, "neither the record nor the detector has boxes to hold a grounded trace against")
    return replace(draft, form=form)


def form_of_draft(draft: Draft) -> str:
    """The class of a draft, for the ratio."""
    return draft.form


STAGE = Stage(
    "assign",
    "each question of the SFT side gets one stream by a hash of its id: reasoning with boxes, or in words alone",
    reasons={NO_BOXES: "of the grounded stream, and nobody has boxes to hold its trace against"},
    settings=ColdStartSettings,
)


@dataclass
class AssignStream(DraftStage):
    """Assigns the streams; see the module."""

    settings: ColdStartSettings
    stage = STAGE

    def work(self) -> Work:
        """See :func:`assign`."""
        return partial(assign, settings=self.settings)
