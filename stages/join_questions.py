"""Joins the questions of the input with those that the teacher has written.

In: drafts of both kinds. Out: the same drafts; the column ``question_source`` says of each where its question and
answer come from, so that card, report and rows tell both kinds apart.
"""

from dataclasses import dataclass

from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.stage import DraftStage, Stage, Work
from groundtrace.stages.write_questions import QUESTION_SOURCE, RECORD


def join(draft: Draft) -> Draft:
    """Return the draft with the source of its question."""
    return draft if draft.added(QUESTION_SOURCE) else draft.with_added(QUESTION_SOURCE, RECORD)


STAGE = Stage(
    "join_questions",
    "records that came with a question, and images with a written one, go on together (question_source)",
    adds=(QUESTION_SOURCE,),
    joins=True,
)


@dataclass
class JoinQuestions(DraftStage):
    """Marks where the question of every draft comes from; see the module."""

    stage = STAGE

    def work(self) -> Work:
        """Return :func:`join` as the work on one draft."""
        return join
