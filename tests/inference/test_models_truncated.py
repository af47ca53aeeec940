"""Truncated samples are asked for again with twice the budget: only they, up to the limit, and only once for all."""

import asyncio
from typing import Any

import pytest

from groundtrace.inference.caller import CallResult
from groundtrace.inference.models import Models
from groundtrace.inference.request import Sampling

from .asking import ask, call, texts


def cut(text: str) -> dict[str, Any]:
    return {"message": {"content": text}, "finish_reason": "length"}


def sent(server: Any) -> list[tuple[int, int]]:
    """How many samples were asked for with which budget, in order."""
    return [(seen.body["n"], seen.body["max_tokens"]) for seen in server.seen]


def test_only_the_truncated_sample_is_asked_for_with_twice_the_budget(server, models_settings, text_prompt) -> None:
    server.say("whole", cut("I se"), "too", usage={"prompt_tokens": 10, "completion_tokens": 30})
    server.say(cut("I see a d"), usage={"prompt_tokens": 10, "completion_tokens": 32})
    server.say("I see a dog", usage={"prompt_tokens": 10, "completion_tokens": 40})
    answered = ask(models_settings(max_tokens_limit=64), text_prompt(), n=3, max_tokens=16)
    assert texts(answered) == ["whole", "I see a dog", "too"]
    assert sent(server) == [(3, 16), (1, 32), (1, 64)]
    noted = answered.call
    assert (noted.usage.requests, noted.usage.cached, noted.usage.retries) == (3, 0, 0)
    assert (noted.usage.tokens_in, noted.usage.tokens_out) == (30, 102)
    assert noted.usage.tokens_wasted == 10 + 32  # the truncated one's third of the first reply, and the second


def test_a_second_run_sends_nothing(server, models_settings, text_prompt) -> None:
    server.say("whole", cut("I se"))
    server.say("I see")
    settings = models_settings(max_tokens_limit=64)
    first, again = (ask(settings, text_prompt(), n=2, max_tokens=16) for _ in range(2))
    assert texts(first) == texts(again) == ["whole", "I see"]
    assert (again.call.usage.requests, again.call.usage.cached, len(server.seen)) == (0, 2, 2)


@pytest.mark.parametrize(
    ("limit", "budgets"),
    [(0, [16]), (8, [16]), (16, [16]), (17, [16, 17]), (32, [16, 32]), (50, [16, 32, 50]), (64, [16, 32, 64])],
)
def test_the_budget_grows_up_to_the_limit_and_not_again(server, models_settings, text_prompt, limit, budgets) -> None:
    for _ in range(5):
        server.say(cut("I se"))
    settings = models_settings(max_tokens_limit=limit)
    for _ in range(2):
        answered = ask(settings, text_prompt(), max_tokens=16)
        assert (texts(answered), answered.completions[0].finish_reason) == (["I se"], "length")
    assert [budget for _, budget in sent(server)] == budgets


def test_a_raised_limit_asks_for_the_truncated_sample_only(server, models_settings, text_prompt) -> None:
    server.say("whole", cut("I se"), usage={"prompt_tokens": 10, "completion_tokens": 20})
    ask(models_settings(), text_prompt(), n=2, max_tokens=16)
    server.say("I see")
    answered = ask(models_settings(max_tokens_limit=64), text_prompt(), n=2, max_tokens=16)
    assert texts(answered) == ["whole", "I see"]
    assert sent(server) == [(2, 16), (1, 32)]
    assert (answered.call.usage.requests, answered.call.usage.cached, answered.call.usage.tokens_wasted) == (1, 1, 10)


def test_what_a_larger_budget_left_truncated_is_asked_for_with_twice_that(server, models_settings, text_prompt) -> None:
    server.say(cut("I se"))
    server.say("I see")
    ask(models_settings(), text_prompt(), max_tokens=64)
    assert texts(ask(models_settings(max_tokens_limit=256), text_prompt(), max_tokens=16)) == ["I see"]
    assert sent(server) == [(1, 64), (1, 128)]


def test_a_failure_of_the_larger_request_keeps_the_truncated_sample(server, models_settings, text_prompt) -> None:
    server.say(cut("I se"))
    server.fail(500, "out of memory")
    settings = models_settings(max_tokens_limit=64, max_retries=0)
    with pytest.raises(Exception, match="out of memory") as caught:
        ask(settings, text_prompt(), max_tokens=16)
    assert (caught.value.call.usage.requests, caught.value.call.usage.tokens_out) == (2, 5)
    assert texts(ask(models_settings(), text_prompt(), max_tokens=16)) == ["I se"]
    assert len(server.seen) == 2


def test_a_truncated_sample_stands_where_the_server_has_no_room_for_more(server, models_settings, text_prompt) -> None:
    server.say(cut("I se"), "whole")
    for _ in range(2):
        server.fail(400, "too many tokens")
    settings = models_settings(max_tokens_limit=64)
    first, again = (ask(settings, text_prompt(), n=2, max_tokens=16) for _ in range(2))
    assert texts(first) == texts(again) == ["I se", "whole"]
    assert first.completions[0].finish_reason == "length"
    assert sent(server) == [(2, 16), (1, 32), (1, 64)]
    assert (first.call.usage.requests, again.call.usage.requests) == (3, 0)


def test_a_refusal_of_what_was_never_answered_is_a_failure(server, models_settings, text_prompt) -> None:
    server.fail(400, "too many tokens")
    with pytest.raises(Exception, match="too many tokens"):
        ask(models_settings(max_tokens_limit=64), text_prompt(), max_tokens=16)


def test_calls_in_flight_share_the_larger_request_too(server, models_settings, text_prompt) -> None:
    server.say(cut("I se"))
    server.say("I see")

    async def both(models: Models) -> list[CallResult]:
        calls = (models.generate(role, text_prompt(), Sampling(max_tokens=16)) for role in ("policy", "judge"))
        return await asyncio.gather(*calls)

    first, joined = call(models_settings(max_tokens_limit=64), both)
    assert texts(first) == texts(joined) == ["I see"]
    assert sent(server) == [(1, 16), (1, 32)]
    assert first.call.usage.requests + joined.call.usage.requests == 2
