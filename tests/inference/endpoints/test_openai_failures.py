"""The OpenAI-compatible endpoint over real HTTP: errors, broken responses and what is sent again."""

from typing import Any

import pytest

from groundtrace.inference.errors import Failure
from groundtrace.inference.request import Completion, Reply, estimated_tokens


def texts(reply: Reply) -> list[str]:
    return [completion.text for completion in reply.completions]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_errors_are_sent_again(server, ask, status) -> None:
    server.fail(status, retry_after="0.01")
    server.fail(status, retry_after="0.01")
    server.say("fine")
    reply = ask()
    assert texts(reply) == ["fine"]
    assert (reply.usage.requests, reply.usage.retries) == (3, 2)


@pytest.mark.parametrize(
    ("status", "expected", "requests"),
    [
        (429, Failure.RATE_LIMITED, 3),
        (500, Failure.SERVER_ERROR, 3),
        (502, Failure.SERVER_ERROR, 3),
        (503, Failure.OVERLOADED, 3),
        (504, Failure.OVERLOADED, 3),
        (529, Failure.OVERLOADED, 3),
        (408, Failure.TIMEOUT, 3),
        (400, Failure.BAD_REQUEST, 1),
        (404, Failure.BAD_REQUEST, 1),
        (422, Failure.BAD_REQUEST, 1),
        (401, Failure.UNAUTHORISED, 1),
        (403, Failure.UNAUTHORISED, 1),
    ],
)
def test_lasting_errors_are_typed_and_bounded(server, failure, status, expected, requests) -> None:
    for _ in range(5):
        server.fail(status, f"said {status}", retry_after="0.01")
    error = failure()
    assert (error.failure, error.tries, len(server.seen)) == (expected, requests, requests)
    assert (error.partial.usage.requests, error.partial.usage.retries) == (requests, requests - 1)
    assert f"HTTP {status}" in str(error)
    assert f"said {status}" in str(error)


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        ("2", 2.0),
        ("0.01", 0.01),
        ("0", 0.0),
        ("soon", None),
        ("-1", None),
        ("1.2.3", None),
        ("", None),
        ("\N{SUPERSCRIPT TWO}", None),
    ],
)
def test_retry_after(server, failure, wait, expected) -> None:
    server.fail(429, retry_after=wait)
    assert failure(max_retries=0).retry_after_s == expected


def test_retry_after_as_a_date_in_the_past_means_now(server, failure) -> None:
    server.fail(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")
    assert failure(max_retries=0).retry_after_s == 0.0


def test_429_without_retry_after_is_sent_again(server, ask) -> None:
    server.fail(429)
    server.say("fine")
    assert texts(ask()) == ["fine"]


def message(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **fields}}]}


GARBLED: dict[str, object] = {
    "cut JSON": b'{"choices": [{"index": 0, "mess',
    "no JSON": b"<html>gateway</html>",
    "nothing": b"",
    "null": None,
    "a list": [],
    "a string": "fine",
    "no choices": {"id": "x"},
    "empty choices": {"choices": []},
    "choices null": {"choices": None},
    "choices no list": {"choices": "fine"},
    "choice null": {"choices": [None]},
    "choice empty": {"choices": [{}]},
    "message null": {"choices": [{"message": None}]},
    "message a string": {"choices": [{"message": "fine"}]},
    "content a number": message(content=3),
    "a page that says 200": b"<!DOCTYPE html><title>Sign in</title>",
    "nested beyond reading": b'{"choices": ' + b"[" * 100_000,
    "content a list of parts": message(content=[{"type": "text", "text": "fine"}]),
}


@pytest.mark.parametrize("case", GARBLED)
def test_a_garbled_response_is_typed(server, failure, case) -> None:
    server.raw(GARBLED[case])
    assert failure(max_retries=0).failure in {Failure.GARBLED, Failure.EMPTY}


def test_a_garbled_response_is_sent_again(server, ask) -> None:
    server.raw(GARBLED["cut JSON"])
    server.say("fine")
    assert texts(ask()) == ["fine"]


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 3}, {"prompt_tokens": None, "completion_tokens": None}])
def test_missing_usage_is_estimated_and_told_of_once(server, ask, usage, text_prompt, caplog) -> None:
    """Limits and budgets would take such a server's replies for free."""
    caplog.set_level("WARNING")
    for text in ("fine, thank you", "well"):
        server.raw({**message(content=text), "usage": usage})
    reply = ask(n=2, samples_per_request=1)
    assert sorted(texts(reply)) == ["fine, thank you", "well"]  # both requests are sent at once
    tokens_in = (usage or {}).get("prompt_tokens") or estimated_tokens(text_prompt())
    assert (reply.usage.tokens_in, reply.usage.tokens_out) == (2 * tokens_in, 4 + 1)
    assert [record.message.partition(" does not report")[1] for record in caplog.records] == [" does not report"]


@pytest.mark.parametrize("content", ["", "  \n", None])
def test_empty_content_is_a_failure(server, failure, content) -> None:
    server.say({"message": {"content": content}})
    assert failure(max_retries=0).failure is Failure.EMPTY


def test_empty_content_is_sent_again(server, ask) -> None:
    server.say("")
    server.say("fine")
    assert texts(ask()) == ["fine"]


def test_a_budget_spent_on_reasoning_is_a_truncated_sample(server, ask) -> None:
    server.say({"message": {"content": None, "reasoning_content": "hm"}, "finish_reason": "length"})
    assert ask().completions == (Completion("", "hm", "length"),)


def test_a_refusal_is_not_sent_again(server, failure) -> None:
    server.say({"message": {"content": None, "refusal": "I cannot help with that"}})
    error = failure()
    assert (error.failure, len(server.seen)) == (Failure.REFUSED, 1)
    assert "I cannot help" in str(error)
