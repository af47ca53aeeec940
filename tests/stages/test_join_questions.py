"""Both kinds of questions go on together, and each says where it comes from."""

from collections.abc import Callable

from groundtrace.schemas.records import Draft
from groundtrace.stages.join_questions import JoinQuestions
from groundtrace.stages.write_questions import QUESTION_SOURCE


def test_questions_of_the_record_are_marked(check_stage: Callable[..., None], make_draft: Callable[..., Draft]) -> None:
    drafts = [make_draft("r"), make_draft("t").with_added(QUESTION_SOURCE, "teacher")]
    kept = [("r", "record"), ("t", "teacher")]
    check_stage(JoinQuestions(), drafts, kept, [], show=lambda draft: (draft.id, draft.added(QUESTION_SOURCE)))
