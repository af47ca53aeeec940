"""Domains by source, else by rule."""

from collections.abc import Callable

import pytest

from groundtrace.schemas.records import Draft
from groundtrace.stages.assign_domain import DOMAIN, DomainSettings, assign, domain_of


@pytest.mark.parametrize(
    ("fields", "domain"),
    [
        ({"question": "How many cups are there?", "answer": "3", "answer_type": "numeric"}, "stem"),
        ({"question": "What is the area of the figure?", "answer": "b²", "answer_type": "text"}, "stem"),
        ({"question": "Find ∠ABC.", "answer": "x", "answer_type": "text"}, "stem"),
        (
            {"question": "Which organism eats algae?", "answer": "a", "answer_type": "mcq", "choices": ("a", "b")},
            "stem",
        ),
        ({"question": "Is there a cat?", "answer": "yes", "answer_type": "bool"}, "general"),
        ({"question": "Who painted this?", "answer": "Vermeer", "answer_type": "text"}, "general"),
        ({"question": "Is the cellar open?", "answer": "yes", "answer_type": "bool"}, "general"),
    ],
)
def test_the_rule(make_draft: Callable[..., Draft], fields: dict[str, object], domain: str) -> None:
    assert domain_of(make_draft("q", **fields).question, DomainSettings()) == domain


def test_a_listed_source_goes_first(make_draft: Callable[..., Draft]) -> None:
    draft = make_draft("q")
    assert domain_of(draft.question, DomainSettings({"drawn": "general"})) == "general"
    assert domain_of(draft.question, DomainSettings({"other": "general"})) == "stem"
    route = assign(draft, DomainSettings({"drawn": "general"}))
    assert (route.output, route.draft.added(DOMAIN)) == ("general", "general")
