"""The stream of a cold-start question: by its id alone, in the shares of the ratio, and never both."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.question_text import BOXES, TEXTUAL
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft
from groundtrace.stages.assign_stream import AssignStream, ColdStartSettings, form_of

BOXED = (Box("dog", 1, 2, 30, 40),)
PAPER = ColdStartSettings()


def test_the_shares_are_those_of_the_ratio() -> None:
    forms = [form_of(f"q{number}", PAPER) for number in range(20_000)]
    assert forms.count(TEXTUAL) / len(forms) == pytest.approx(3 / 35, abs=3 * (3 / 35 * 32 / 35 / 20_000) ** 0.5)
    assert set(forms) == {BOXES, TEXTUAL}


def test_another_seed_is_another_assignment() -> None:
    ids = [f"q{number}" for number in range(400)]
    assert [form_of(each, PAPER) for each in ids] != [form_of(each, ColdStartSettings(seed=1)) for each in ids]


@given(st.text(), st.floats(0.01, 100), st.floats(0.01, 100), st.floats(1, 10))
def test_a_heavier_weight_takes_no_question_away(name: str, grounded: float, textual: float, factor: float) -> None:
    before = form_of(name, ColdStartSettings(grounded, textual))
    after = form_of(name, ColdStartSettings(grounded * factor, textual))
    assert before == after or (before, after) == (TEXTUAL, BOXES)


@pytest.mark.parametrize("weights", [(0, 1), (1, 0), (-1, 1)])
def test_both_streams_have_a_weight(weights: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="must be greater than 0"):
        ColdStartSettings(*weights)


def test_each_draft_leaves_with_one_form_or_is_rejected(
    check_stage: Callable[..., None], make_draft: Callable[..., Draft]
) -> None:
    ids = [f"q{number}" for number in range(60)]
    forms = {name: form_of(name, PAPER) for name in ids}
    gold, pseudo, none = ids[:20], ids[20:40], ids[40:]
    drafts = [make_draft(name, gold_boxes=BOXED) for name in gold]
    drafts += [replace(make_draft(name), pseudo_boxes=BOXED) for name in pseudo]
    drafts += [make_draft(name, gold_boxes=() if number % 2 else None) for number, name in enumerate(none)]
    lost = [name for name in none if forms[name] == BOXES]
    assert lost
    check_stage(
        AssignStream(PAPER),
        drafts,
        kept=[(name, forms[name]) for name in ids if name not in lost],
        rejected=[(name, "assign", "no_boxes") for name in lost],
        show=lambda draft: (draft.id, draft.form),
    )
