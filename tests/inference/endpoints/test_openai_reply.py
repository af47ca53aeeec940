"""From a server's JSON to samples: what is usable, and what the rest cost."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.inference.endpoints.openai_reply import openai_reply
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Completion, Reply
from groundtrace.schemas.usage import Usage

KEY = "sk-secret-0123456789"


def choice(content: Any = "fine", **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content}, "finish_reason": "stop", **fields}


REFUSED = {"message": {"content": None, "refusal": "I will not"}, "finish_reason": "stop"}
FILTERED = choice("half a sent", finish_reason="content_filter")
EMPTY = choice(" \n")
CUT = choice("I see a", finish_reason="length")


def answer(*choices: Any, tokens_in: int = 100, tokens_out: int = 60, **usage: Any) -> dict[str, Any]:
    counted = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, **usage}
    return {"choices": list(choices), "usage": counted}


def texts(reply: Reply) -> list[str]:
    return [completion.text for completion in reply.completions]


def failing(given: Any, n: int = 1) -> CallError:
    with pytest.raises(CallError) as caught:
        openai_reply(given, n, KEY)
    return caught.value


@pytest.mark.parametrize(
    ("choices", "n", "expected", "wasted"),
    [
        ([choice("a"), choice("b"), choice("c")], 3, ["a", "b", "c"], 0),
        ([choice("a"), REFUSED, choice("c")], 3, ["a", "c"], 20),
        ([REFUSED, EMPTY, choice("c")], 3, ["c"], 40),
        ([choice("a"), FILTERED], 2, ["a"], 30),
        ([choice("a"), None], 2, ["a"], 30),
        ([choice("a"), choice(3)], 2, ["a"], 30),
        ([CUT, choice("b")], 2, ["I see a", "b"], 0),
        # more than was asked for
        ([choice("a"), choice("b"), choice("c")], 1, ["a"], 40),
        # one index twice: the second is no sample of its own
        ([choice("a", index=0), choice("a", index=0), choice("c", index=1)], 3, ["a", "c"], 20),
        ([choice("b", index=1), choice("a", index=0)], 2, ["b", "a"], 0),
        ([choice("a", index=None), choice("b", index="1")], 2, ["a", "b"], 0),
    ],
)
def test_unusable_samples_leave_the_others(choices: list[Any], n: int, expected: list[str], wasted: int) -> None:
    reply = openai_reply(answer(*choices), n, KEY)
    assert (texts(reply), reply.usage.tokens_wasted) == (expected, wasted)
    assert (reply.usage.requests, reply.usage.tokens_in, reply.usage.tokens_out) == (1, 100, 60)


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("stop", "stop"),
        ("eos_token", "eos_token"),
        ("tool_calls", "tool_calls"),
        ("a new word", "a new word"),
        (None, "stop"),
        ("", "stop"),
        *((word, "length") for word in ("length", "max_tokens", "MAX_TOKENS", "model_length", "incomplete")),
    ],
)
def test_how_a_sample_ended(reason: str | None, kept: str) -> None:
    assert openai_reply(answer(choice(finish_reason=reason)), 1, KEY).completions == (Completion("fine", "", kept),)


def test_without_a_finish_reason_a_sample_is_complete() -> None:
    """Some servers omit it."""
    assert openai_reply(answer({"message": {"content": "fine"}}), 1, KEY).completions == (Completion("fine"),)


def test_a_failed_choice_leaves_the_others() -> None:
    reply = openai_reply(answer(choice("a", error={"message": "lost"}), choice("b")), 2, KEY)
    assert (texts(reply), reply.usage.tokens_wasted) == (["b"], 30)


@pytest.mark.parametrize("error", [{"code": 502, "message": f"lost {KEY}"}, f"lost {KEY}"])
def test_an_error_of_the_response_counts_whatever_else_it_has(error: Any) -> None:
    """OpenRouter sends one with the status 200, beside the text so far."""
    given = answer(choice("half a sent"))
    for body in ({"error": error}, given | {"error": error}):
        failed = failing(body)
        assert (failed.failure, failed.retryable) == (Failure.SERVER_ERROR, True)
        assert failed.message == "the response has an error: lost ***"
    assert failed.partial == Reply((), Usage(requests=1, tokens_in=100, tokens_out=60, tokens_wasted=160))


@pytest.mark.parametrize("error", [None, {}, "", False])
def test_an_empty_error_is_none(error: Any) -> None:
    assert texts(openai_reply(answer(choice("a", error=error)) | {"error": error}, 1, KEY)) == ["a"]


@pytest.mark.parametrize(
    ("choices", "failure", "said"),
    [
        ([REFUSED, EMPTY], Failure.REFUSED, "the model declined: I will not"),
        ([EMPTY, REFUSED], Failure.EMPTY, "the reply has no text (finish_reason stop)"),
        ([FILTERED], Failure.REFUSED, "the model declined: content_filter"),
        ([choice(None, finish_reason="content_filter")], Failure.REFUSED, "the model declined: content_filter"),
        ([choice([{"type": "text", "text": "fine"}])], Failure.GARBLED, "the response has a choice of an unknown form"),
        (
            [{"message": {"content": "fine"}, "finish_reason": 3}],
            Failure.GARBLED,
            "the response has a choice of an unknown form",
        ),
        ([choice("half a sent", finish_reason="Refusal")], Failure.REFUSED, "the model declined: Refusal"),
        ([choice("half a sent", finish_reason="SAFETY")], Failure.REFUSED, "the model declined: SAFETY"),
        ([choice("half a sent", finish_reason="abort")], Failure.SERVER_ERROR, "the server ended the reply early"),
        ([choice(None, finish_reason="ERROR")], Failure.SERVER_ERROR, "the server ended the reply early"),
        ([choice(error={"code": 502, "message": "lost"})], Failure.SERVER_ERROR, "the response has an error: lost"),
        ([choice(error="lost")], Failure.SERVER_ERROR, "the response has an error: lost"),
        ([choice(error={"code": 502})], Failure.SERVER_ERROR, "the response has an error: {'code': 502}"),
        (
            [{"message": {"content": "fine", "error": {"message": f"for {KEY}"}}}],
            Failure.SERVER_ERROR,
            "the response has an error: for ***",
        ),
        ([choice("", finish_reason="x" * 999)], Failure.EMPTY, "the reply has no text (finish_reason " + "x" * 40),
        ([], Failure.GARBLED, "the server's response has no list 'choices'"),
    ],
)
def test_without_a_usable_sample_all_tokens_are_wasted(choices: list[Any], failure: Failure, said: str) -> None:
    error = failing(answer(*choices))
    assert error.failure is failure
    assert error.message.startswith(said)
    assert len(error.message) <= 200
    assert error.partial == Reply((), Usage(requests=1, tokens_in=100, tokens_out=60, tokens_wasted=160))


def test_no_more_choices_are_looked_at_than_were_asked_for() -> None:
    """A body of six megabytes can hold two million of them."""
    began_s = time.process_time()
    error = failing(answer(*[{}] * 1_000_000), n=4)
    assert (error.failure, time.process_time() - began_s < 2) == (Failure.GARBLED, True)


def test_every_count_of_the_usage() -> None:
    details: dict[str, Any] = {
        "prompt_tokens_details": {"cached_tokens": 80},
        "completion_tokens_details": {"reasoning_tokens": 40},
    }
    reply = openai_reply(answer(choice(), **details), 1, KEY)
    assert reply.usage == Usage(requests=1, tokens_in=100, tokens_cached=80, tokens_out=60, tokens_reasoning=40)


@pytest.mark.parametrize("count", [None, -1, 1.5, "7", True, [], float("nan"), 10**30, 2**63])
def test_what_is_no_count_is_none(count: Any) -> None:
    """A huge one would break the sums of the ledger and the cache's columns."""
    usage = {
        "prompt_tokens_details": {"cached_tokens": count},
        "completion_tokens_details": {"reasoning_tokens": count},
    }
    reply = openai_reply(answer(choice(), tokens_in=count, tokens_out=count, **usage), 1, KEY)
    assert reply.usage == Usage(requests=1)


@pytest.mark.parametrize("cached", [101, 10**9])
def test_no_more_input_tokens_are_cached_than_there_are(cached: int) -> None:
    """Else a request would cost less than nothing."""
    reply = openai_reply(answer(choice(), prompt_tokens_details={"cached_tokens": cached}), 1, KEY)
    assert (reply.usage.tokens_in, reply.usage.tokens_cached) == (100, 100)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("gpt-x", ""),
        ("gpt-x-2026-01-01", "gpt-x-2026-01-01"),
        ("/models/x\ud83d", "/models/x\ufffd"),
        ("m" * 1000, "m" * 200),
        (f"echo {KEY}", "echo ***"),
        ("", ""),
        (None, ""),
        (3, ""),
        (["gpt-y"], ""),
    ],
)
def test_another_model_than_the_one_asked_for_is_noted(named: Any, told: str) -> None:
    reply = openai_reply(answer(choice("a"), choice("b")) | {"model": named}, 2, KEY, "gpt-x")
    assert [each.answered_by for each in reply.completions] == [told, told]


def test_half_characters_are_unreadable() -> None:
    """No row or file can hold a lone surrogate, wherever the server puts it. Its escape would be readable text."""
    message = {"content": "\ud83d here", "reasoning_content": "\ud83d there"}
    reply = openai_reply(answer({"message": message, "finish_reason": "\ud83d"}), 1, KEY)
    assert reply.completions == (Completion("\ufffd here", "\ufffd there", "\ufffd"),)


@pytest.mark.parametrize("bad", [{"content": None, "refusal": "\ud83d"}, {"content": ["\ud83d"]}])
def test_no_half_character_stands_in_a_failure(bad: dict[str, Any]) -> None:
    assert str(failing(answer({"message": bad, "finish_reason": "stop"}))).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "refusal", "index", "finish_reason", "usage", "error"])
            | st.sampled_from(["prompt_tokens", "completion_tokens", "reasoning", "prompt_tokens_details"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(JSON | st.builds(lambda choices, usage: {"choices": choices, "usage": usage}, st.lists(JSON), JSON))
def test_json_of_any_form_is_a_reply_or_a_typed_failure(given: Any) -> None:
    try:
        reply = openai_reply(given, 2, KEY)
    except CallError as error:
        reply = error.partial
        assert error.failure in {Failure.GARBLED, Failure.EMPTY, Failure.REFUSED, Failure.SERVER_ERROR}
    else:
        assert 1 <= len(reply.completions) <= 2
        assert all(one.text.strip() or one.finish_reason == "length" for one in reply.completions)
    assert 0 <= reply.usage.tokens_wasted <= reply.usage.tokens_in + reply.usage.tokens_out


def test_nesting_that_can_be_read_can_be_named() -> None:
    """Reading and naming it both stop at a depth: whatever is read must end as a typed failure."""
    for depth in range(850, 1000, 2):
        try:
            read = json.loads('{"choices": [{"message": ' + "[" * depth + "]" * depth + "}]}")
        except RecursionError:
            return
        assert failing(read).failure is Failure.GARBLED
