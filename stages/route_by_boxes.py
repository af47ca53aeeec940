"""The streams of each RL question: both where it has boxes, else the textual one alone (iVGR §3.2, App. B).

In: drafts of the RL side. Out: ``kept``, those with boxes, to be asked in both streams; ``general``, those without,
textual only, whose difficulty the recipe goes on to measure. Either is one row: the trainer asks it once in each of
its streams. What a draft is stands in its ``domain`` too.

Questions with boxes are not attempted (App. B filters the general ones alone), so what no reward could grade is
rejected here: a gold answer in free text where no judge reads it.
"""

from dataclasses import dataclass, replace
from functools import partial

from rewards.scorers.outcome import needs_judge
from schemas.records import Draft
from stages.attempt_questions import UNGRADABLE
from stages.plumbing.rows import STREAM_FORMS
from stages.plumbing.stage import DraftStage, Reject, Route, Stage, Work

GENERAL = "general"
BOXED = "boxed"
"""The classes of RL rows: those with boxes, and general reasoning without."""
GROUNDED_STREAM, TEXTUAL_STREAM = STREAM_FORMS
BOTH, TEXTUAL_ONLY = (GROUNDED_STREAM, TEXTUAL_STREAM), (TEXTUAL_STREAM,)


def route(draft: Draft, judged: bool = True) -> Draft | Route:
    """The draft with its streams; by the output ``general`` where it has no boxes.

    Raises :class:`Reject` for one that only a judge could grade where not ``judged``.
    """
    if not judged and needs_judge(draft.question):
        raise Reject(UNGRADABLE, "the gold answer is free text, and roles.judge names no endpoint that reads it")
    if draft.reference_boxes:
        return replace(draft, streams=BOTH, domain=BOXED)
    return Route(GENERAL, replace(draft, streams=TEXTUAL_ONLY, domain=GENERAL))


STAGE = Stage(
    "streams",
    "questions with boxes are asked in both streams, grounded and textual; those without in the textual one alone",
    reasons={UNGRADABLE: "only a judge that reads could grade answers to it"},
)


@dataclass
class RouteByBoxes(DraftStage):
    """Parts the RL side; see the module. ``judged`` says whether a judge grades free text."""

    judged: bool = True
    stage = STAGE
    routes = (GENERAL,)

    def work(self) -> Work:
        """See :func:`route`."""
        return partial(route, judged=self.judged)
