"""Questions alike: what is one kind, and how many of it stay."""

from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.cap_alike import AlikeSettings, CapAlike, kind_of, template_of


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("Are there 3 cups?", "are there # cups"),
        ("Are there THREE  cups", "are there # cups"),
        ("Is it 1,200.5 or 7?", "is it # or #"),
        ("", ""),
    ],
)
def test_templates(text: str, template: str) -> None:
    assert template_of(text) == template


@given(st.text(max_size=80))
def test_a_template_is_its_own_template(text: str) -> None:
    assert template_of(template_of(text).replace("#", "7")) == template_of(text)


def test_kinds(make_draft: Callable[..., Draft]) -> None:
    one = make_draft("a", question="Are there 3 cups?", answer="yes").question
    assert kind_of(one) == kind_of(make_draft("b", question="are there four cups", answer="Yes").question)
    assert kind_of(one) != kind_of(make_draft("b", question="Are there 3 cups?", answer="no").question)
    assert kind_of(one) != kind_of(make_draft("b", question="Are there 3 jugs?", answer="yes").question)


@pytest.mark.parametrize("order", list(permutations(range(3)))[::2])
def test_the_stage(order: tuple[int, ...], make_draft: Callable[..., Draft], check_stage: Callable[..., None]) -> None:
    alike = [make_draft(f"a{number}", question=f"Are there {number} cups?", answer="yes") for number in range(5)]
    parts = [alike[:2], [make_draft("b", question="Who is it?", answer="yes")], alike[2:]]
    first = sorted((draft.id for draft in alike), key=order_key)
    rejected = [(name, "alike", "over_quota") for name in first[2:]]
    drafts = [draft for place in order for draft in parts[place]]
    check_stage(CapAlike(AlikeSettings(2)), drafts, kept=[*first[:2], "b"], rejected=rejected)
