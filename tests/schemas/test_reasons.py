"""Every reason has a meaning that can be shown to a user."""

import pytest

from groundtrace.schemas.reasons import MEANING, Reason


def test_meanings_are_given_for_the_reasons_and_nothing_else() -> None:
    assert set(MEANING) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_a_meaning_is_one_line_of_its_own(reason: Reason) -> None:
    meaning = MEANING[reason]
    assert meaning == meaning.strip()
    assert len(meaning) > 10
    assert "\n" not in meaning
    assert list(MEANING.values()).count(meaning) == 1


@pytest.mark.parametrize("reason", Reason)
def test_the_value_is_the_name_in_lower_case(reason: Reason) -> None:
    assert reason.value == reason.name.lower()
    assert Reason(reason.value) is reason
