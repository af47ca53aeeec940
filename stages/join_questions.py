"""Joins the questions of the input with the questions that the teacher model has written.

The inputs are two collections of drafts (questions with their data): those with questions of the input, and those with
questions of the teacher. The outputs are the same drafts. The column ``question_source`` holds the source of each
draft's question and answer. So data card, report and rows can show which questions come from the input and which from
the teacher.
"""

from dataclasses import dataclass

from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.stage import DraftStage, Stage, Work
from groundtrace.stages.write_questions import QUESTION_SOURCE, RECORD


def join(draft: Draft) -> Draft:
    """Return the draft (a question with its data) with the source of its question in the column ``question_source``.

    The source is ``teacher`` if the teacher model wrote the question, else ``record``.
    """
    return draft if draft.added(QUESTION_SOURCE) else draft.with_added(QUESTION_SOURCE, RECORD)


STAGE = Stage(
    "join_questions",
    "records that came with a question, and images with a written one, go on together (question_source)",
    adds=(QUESTION_SOURCE,),
    joins=True,
)


@dataclass
class JoinQuestions(DraftStage):
    """Stage (pipeline step) that records, for every draft (a question with its data), whether its question comes from
    the input or from the teacher model.
    """

    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function records whether the
        question comes from the input or from the teacher model (:func:`join`).
        """
        return join
