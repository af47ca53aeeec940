"""The ceiling on answers that pay without a look: what may stay, and which."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.geometry import Point
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.cap_answers import MIN_KEPT, AnswerSettings, CapAnswers, key_of, quotas_of

YES, NO, NO_DOG = ("bool", "yes", False), ("bool", "no", False), ("bool", "no", True)
OPEN, OPEN_ABSENT = ("", "", False), ("", "", True)


@pytest.mark.parametrize(
    ("counts", "settings", "quotas"),
    [
        ({YES: 6, NO: 4}, AnswerSettings(), {}),
        ({YES: 60, NO: 40}, AnswerSettings(max_same_answer=0.5), {YES: 40}),
        ({YES: 100, NO: 10}, AnswerSettings(), {YES: 15}),
        ({YES: 100}, AnswerSettings(), {YES: MIN_KEPT}),
        ({YES: MIN_KEPT, NO_DOG: 1}, AnswerSettings(), {}),
        ({YES: 100}, AnswerSettings(max_same_answer=1), {}),
        ({OPEN: 90, OPEN_ABSENT: 10}, AnswerSettings(), {}),
        ({OPEN: 90, OPEN_ABSENT: 30}, AnswerSettings(), {OPEN_ABSENT: 10}),
        ({OPEN_ABSENT: 30}, AnswerSettings(), {OPEN_ABSENT: MIN_KEPT}),
        ({OPEN_ABSENT: 30}, AnswerSettings(max_absent=1), {}),
        # what has nothing to look at goes first: 60 % of 100 are 60
        ({YES: 40, NO: 55, NO_DOG: 10}, AnswerSettings(max_absent=0.2), {NO_DOG: 5}),
        ({OPEN: 500}, AnswerSettings(), {}),
        ({}, AnswerSettings(), {}),
    ],
)
def test_how_many_may_stay(counts, settings, quotas) -> None:
    assert quotas_of(counts, settings) == quotas


keys = st.tuples(st.sampled_from(["", "bool", "mcq", "count"]), st.sampled_from("abc"), st.booleans())
shares = st.builds(AnswerSettings, st.floats(0, 1), st.floats(0.5, 1))


@given(st.dictionaries(keys, st.integers(1, 80)), shares)
def test_what_stays_keeps_to_the_ceilings(counts, settings) -> None:
    counts = {(kind, answer if kind else "", absent): number for (kind, answer, absent), number in counts.items()}
    left = {**counts, **quotas_of(counts, settings)}
    assert all(0 <= left[key] <= counts[key] for key in counts)
    absent = sum(number for key, number in left.items() if key[2])
    assert absent <= max(MIN_KEPT, settings.max_absent * sum(left.values()) + 1e-6)
    kinds: dict[str, Counter[str]] = {}
    for (kind, answer, _), number in left.items():
        kinds.setdefault(kind, Counter())[answer] += number
    for kind, answers in kinds.items():
        most = max(MIN_KEPT, settings.max_same_answer * answers.total() + 1e-6)
        assert not kind or max(answers.values()) <= most


def test_what_is_looked_at(make_draft: Callable[..., Draft]) -> None:
    draft = make_draft("a", question="Is there a dog?", answer="no", answer_type="bool")
    assert key_of(draft) == NO
    assert key_of(replace(draft, entities=("dog",))) == NO_DOG
    assert key_of(replace(draft, entities=("dog",), points=(Point("dog", 1, 1),))) == NO
    counted = make_draft("a", question="How many dogs are there?", answer="0", answer_type="numeric")
    assert key_of(replace(counted, entities=("dog",), points=(Point("dog", 1, 1),))) == ("count", "0", True)
    assert key_of(make_draft("a", question="What is it?", answer="a dog", answer_type="text")) == OPEN


@pytest.mark.parametrize("order", list(permutations(range(3)))[::2])
def test_the_stage(order: tuple[int, ...], make_draft: Callable[..., Draft], check_stage: Callable[..., None]) -> None:
    yes = [make_draft(f"y{n}", question=f"Is it {n}?", answer="yes", answer_type="bool") for n in range(9)]
    no = [make_draft(f"n{n}", question=f"Is it {n}?", answer="no", answer_type="bool") for n in range(3)]
    parts = [yes[:3], no, yes[3:]]
    first = sorted((draft.id for draft in yes), key=order_key)
    drafts = [draft for place in order for draft in parts[place]]
    rejected = [(name, "cap_answers", "over_quota") for name in first[MIN_KEPT:]]
    check_stage(CapAnswers(AnswerSettings()), drafts, kept=[*first[:MIN_KEPT], "n0", "n1", "n2"], rejected=rejected)
