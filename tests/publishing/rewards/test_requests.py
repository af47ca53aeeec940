"""What the server reads: any bytes are a request or a refusal, and OpenRLHF's query gives back its response."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.publishing.rewards.requests import BadRequest, ScoreRequest, read_get_reward, read_score, response_in
from groundtrace.schemas.control_text import END_TOKENS

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ITEM = st.fixed_dictionaries(
    {}, optional={name: TEXT | st.none() | st.integers() for name in ("id", "run", "family", "response", "x")}
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda j: st.lists(j) | st.dictionaries(TEXT, j)
)
BODIES = st.binary() | st.one_of(
    JSON,
    st.fixed_dictionaries({"items": st.lists(ITEM | JSON), "is_step": st.booleans() | JSON}),
    st.fixed_dictionaries({name: st.lists(TEXT) | JSON for name in ("query", "prompts", "labels")}),
).map(lambda value: json.dumps(value).encode())


@pytest.mark.parametrize("read", [read_score, read_get_reward])
@given(body=BODIES)
def test_any_bytes_are_a_request_or_a_refusal(read: Any, body: bytes) -> None:
    try:
        found = read(body)
    except BadRequest as refusal:
        assert "\n" not in str(refusal)[:200] or refusal.item is not None
    else:
        assert isinstance(found, ScoreRequest)
        assert found.answers
        assert all(isinstance(answer.text, str) for answer in found.answers)


PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>[]|"), max_size=20)
MARKS = st.sampled_from(["<|image_pad|>", "<image>", "[IMG]", "<IMG_CONTEXT>"])


@given(pieces=st.lists(st.tuples(PLAIN, MARKS, st.integers(1, 9)), max_size=4), end=PLAIN, response=PLAIN)
def test_the_response_in_a_query(pieces: list[tuple[str, str, int]], end: str, response: str) -> None:
    """However often the marks of the images are repeated."""
    prompt = "".join(text + mark for text, mark, _ in pieces) + end
    query = "".join(text + mark * times for text, mark, times in pieces) + end + response
    assert response_in(query, prompt) == response


@pytest.mark.parametrize("mark", END_TOKENS)
def test_the_mark_that_ends_a_response_is_no_part_of_it(mark: str) -> None:
    assert response_in(f"ask: yes{mark}", "ask: ") == "yes"
    assert response_in(f"ask: yes{mark}{mark}", "ask: ") == f"yes{mark}", "one mark ends it, as in our own trainer"


@pytest.mark.parametrize(("query", "prompt"), [("", "a"), ("b", "a"), ("<image>b", "a<image>"), ("ab", "<image>ab")])
def test_a_query_that_begins_otherwise(query: str, prompt: str) -> None:
    assert response_in(query, prompt) is None
