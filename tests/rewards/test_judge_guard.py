"""The question as a judge is shown it, and the verdict of two orders of the same texts."""

import pytest

from groundtrace.rewards.judge_guard import agreed, question_text
from groundtrace.schemas.records import Verdict


def test_the_question_comes_with_its_choices(question) -> None:
    assert question_text(question()) == "How many yellow squares are there?"
    chosen = question(answer_type="mcq", answer="two", choices=("one", "two"))
    assert question_text(chosen) == "How many yellow squares are there?\nA. one\nB. two"


@pytest.mark.parametrize(
    ("straight", "swapped", "max_apart", "value"),
    [
        (1.0, 1.0, 0.0, 1.0),
        (0.7, 1.0, 0.0, None),
        (0.7, 1.0, 0.31, 0.85),
        (0.0, 1.0, 0.31, None),
        (0.0, 1.0, 1.0, 0.5),
        (None, 1.0, 1.0, None),
        (1.0, None, 1.0, None),
    ],
)
def test_a_verdict_that_changes_with_the_order_has_failed(straight, swapped, max_apart, value) -> None:
    verdict = agreed(Verdict("n", straight, "said"), Verdict("n", swapped, "said"), max_apart)
    assert verdict.name == "n"
    assert verdict.value == (None if value is None else pytest.approx(value))
    assert verdict.failed is (value is None)
    assert verdict.reason
