"""A written answer serves as gold only if the policy gives it more often than any other answer."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from groundtrace.schemas.records import Attempt, Draft
from groundtrace.stages.confirm_answers import ConfirmAnswers, confirm
from groundtrace.stages.plumbing.stage import Reject
from groundtrace.stages.write_questions import QUESTION_SOURCE, RECORD, TEACHER

CASES = {
    "all agree": ("3333", True),
    "most agree": ("3334", True),
    "more than any other": ("3345", True),
    "as many give another answer": ("3344", False),
    "one of four agrees": ("3444", False),
    "nobody agrees": ("4567", False),
    "ungraded attempts say nothing": ("3---", True),
    "only ungraded attempts": ("----", False),
}


def attempts(answers: str) -> tuple[Attempt, ...]:
    return tuple(Attempt(a, a, None if a == "-" else a == "3", "numeric", "") for a in answers)


@pytest.mark.parametrize(("answers", "confirmed"), CASES.values(), ids=CASES)
def test_what_confirms_a_written_answer(make_draft: Callable[..., Draft], answers: str, confirmed: bool) -> None:
    draft = replace(make_draft("q"), attempts=attempts(answers))
    assert confirm(draft.with_added(QUESTION_SOURCE, RECORD)).attempts == draft.attempts
    written = draft.with_added(QUESTION_SOURCE, TEACHER)
    if confirmed:
        assert confirm(written) == written
    else:
        with pytest.raises(Reject, match="unconfirmed_answer"):
            confirm(written)


def test_the_same_answer_in_other_cases_counts_as_one(make_draft: Callable[..., Draft]) -> None:
    found = attempts("33") + tuple(Attempt(a, a, False, "text", "") for a in ("Four", "four ", "FOUR"))
    with pytest.raises(Reject, match="2 of 5 attempts agree with the written answer, 3 with another one"):
        confirm(replace(make_draft("q"), attempts=found).with_added(QUESTION_SOURCE, TEACHER))


def test_one_number_in_several_forms_counts_as_one_answer(make_draft: Callable[..., Draft]) -> None:
    found = attempts("33") + tuple(Attempt(a, a, False, "numeric", "") for a in ("6", "six", "6.0"))
    with pytest.raises(Reject, match="2 of 5 attempts agree with the written answer, 3 with another one"):
        confirm(replace(make_draft("q", answer="3"), attempts=found).with_added(QUESTION_SOURCE, TEACHER))


def test_the_stage(check_stage: Callable[..., None], make_draft: Callable[..., Draft]) -> None:
    good = replace(make_draft("good"), attempts=attempts("3334")).with_added(QUESTION_SOURCE, TEACHER)
    bad = replace(make_draft("bad"), attempts=attempts("3444")).with_added(QUESTION_SOURCE, TEACHER)
    check_stage(ConfirmAnswers(), [good, bad], ["good"], [("bad", "confirm_answers", "unconfirmed_answer")])
