"""Models by role over a real HTTP server: cache first, identical calls joined, every call accounted for."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.caller import CallResult
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.models import Models
from groundtrace.inference.request import Sampling
from groundtrace.schemas.usage import Usage

from .asking import ask, call, texts


def test_a_repeated_call_sends_nothing(server, models_settings, text_prompt) -> None:
    server.say("a", "b")
    first = ask(models_settings(), text_prompt(), n=2)
    again = ask(models_settings(), text_prompt(), n=2)
    assert texts(first) == texts(again) == ["a", "b"]
    assert len(server.seen) == 1
    assert (first.call.usage.requests, first.call.usage.cached) == (1, 0)
    assert again.call.usage == Usage(calls=1, cached=2)
    assert again.call.keys == first.call.keys


def test_the_call_says_what_it_cost(server, models_settings, text_prompt) -> None:
    details = {"reasoning_tokens": 400}
    server.fail(503, retry_after="0")
    server.say("a", usage={"prompt_tokens": 2000, "completion_tokens": 500, "completion_tokens_details": details})
    priced = models_settings(usd_per_million_tokens_in=1.0, usd_per_million_tokens_out=8.0)
    noted = ask(priced, text_prompt(), role="judge").call
    assert (noted.role, noted.prompt, noted.model) == ("judge", "judge_answer.v1", "tiny")
    assert noted.prompt_sha256 == text_prompt().sha256
    assert (noted.usage.requests, noted.usage.retries, noted.usage.cached) == (2, 1, 0)
    assert (noted.usage.tokens_in, noted.usage.tokens_out, noted.usage.tokens_reasoning) == (2000, 500, 400)
    assert noted.usage.cost_usd == pytest.approx((2000 * 1 + 500 * 8) / 1e6)


def test_more_samples_send_only_the_new_ones(server, models_settings, text_prompt) -> None:
    server.say("a", "b")
    server.say("c", "d", "e")
    ask(models_settings(), text_prompt(), n=2)
    answered = ask(models_settings(), text_prompt(), n=5)
    assert texts(answered) == ["a", "b", "c", "d", "e"]
    assert [seen.body["n"] for seen in server.seen] == [2, 3]
    assert answered.call.usage.cached == 2


def test_settings_that_cannot_change_a_reply_send_nothing(server, models_settings, text_prompt) -> None:
    ask(models_settings(), text_prompt())
    changed = models_settings(frame="norm1000", max_retries=1, timeout_s=9.0, usd_per_million_tokens_in=2.0)
    ask(changed, text_prompt(), role="teacher", max_tokens=7)
    assert len(server.seen) == 1


@pytest.mark.parametrize("changes", [{"revision": "2"}, {"model": "another"}])
def test_another_model_is_asked_anew(server, models_settings, text_prompt, changes) -> None:
    ask(models_settings(), text_prompt())
    ask(models_settings(**changes), text_prompt())
    assert len(server.seen) == 2


def test_a_truncated_reply_is_asked_again_with_a_larger_budget_only(server, models_settings, text_prompt) -> None:
    server.say("whole", {"message": {"content": "cut o"}, "finish_reason": "length"})
    server.say("cut off no more")
    assert texts(ask(models_settings(), text_prompt(), n=2, max_tokens=16)) == ["whole", "cut o"]
    assert texts(ask(models_settings(), text_prompt(), n=2, max_tokens=16)) == ["whole", "cut o"]
    assert len(server.seen) == 1
    assert texts(ask(models_settings(), text_prompt(), n=2, max_tokens=64)) == ["whole", "cut off no more"]
    assert [seen.body["n"] for seen in server.seen] == [2, 1]


def test_identical_calls_in_flight_are_joined(server, models_settings, text_prompt) -> None:
    server.say("a", "b")

    async def both(models: Models) -> list[CallResult]:
        calls = (models.generate(role, text_prompt(), Sampling(n=2)) for role in ("policy", "judge"))
        return await asyncio.gather(*calls)

    first, joined = call(models_settings(), both)
    assert texts(first) == texts(joined) == ["a", "b"]
    assert len(server.seen) == 1
    assert (first.call.usage.requests, first.call.usage.cached, first.call.usage.tokens_in) == (1, 0, 10)
    assert (joined.call.usage.requests, joined.call.usage.cached, joined.call.usage.tokens_in) == (0, 2, 0)


async def both_workers(settings: Any, work: Callable[[Models], Any]) -> list[Any]:
    """What two processes' models do at once, or raise."""
    workers = [Models(settings) for _ in range(2)]
    try:
        return await asyncio.gather(*map(work, workers), return_exceptions=True)
    finally:
        for each in workers:
            await each.close()


def test_workers_that_ask_the_same_at_once_send_one_request(server, models_settings, text_prompt) -> None:
    server.takes_s = 0.1
    asking = both_workers(models_settings(), lambda models: models.generate("policy", text_prompt(), Sampling()))
    one, other = asyncio.run(asking)
    assert len(server.seen) == 1
    assert one.text == other.text == "reply 1"
    assert sorted((each.call.usage.requests, each.call.usage.cached) for each in (one, other)) == [(0, 1), (1, 0)]


def test_what_fails_for_one_worker_is_asked_for_by_the_other(server, models_settings, text_prompt) -> None:
    server.takes_s = 0.1
    server.fail(400)
    asking = both_workers(models_settings(), lambda models: models.generate("policy", text_prompt(), Sampling()))
    ends = asyncio.run(asking)
    assert len(server.seen) == 2
    assert sorted(type(end).__name__ for end in ends) == ["CallError", "CallResult"]


def test_a_worker_sends_for_the_samples_that_no_other_asks_for(server, models_settings, text_prompt) -> None:
    server.takes_s = 0.1
    sizes = iter((1, 3))
    asking = both_workers(
        models_settings(), lambda models: models.generate("policy", text_prompt(), Sampling(n=next(sizes)))
    )
    small, large = asyncio.run(asking)
    assert sorted(seen.body["n"] for seen in server.seen) == [1, 2]
    assert texts(large)[:1] == texts(small)


def test_a_larger_call_joins_what_is_in_flight_and_asks_for_the_rest(server, models_settings, text_prompt) -> None:
    async def both(models: Models) -> list[CallResult]:
        return await asyncio.gather(*(models.generate("policy", text_prompt(), Sampling(n=n)) for n in (1, 3)))

    small, large = call(models_settings(), both)
    assert sorted(seen.body["n"] for seen in server.seen) == [1, 2]
    assert texts(small) == texts(large)[:1]
    assert sorted(texts(large)) == ["reply 1", "reply 2", "reply 3"]
    assert (large.call.usage.requests, large.call.usage.cached) == (1, 1)


def test_different_prompts_are_not_joined(server, models_settings, text_prompt) -> None:
    async def both(models: Models) -> None:
        await asyncio.gather(*(models.generate("policy", text_prompt(p), Sampling()) for p in ("1", "2")))

    call(models_settings(), both)
    assert len(server.seen) == 2


def test_a_failing_call_reaches_joined_callers(server, models_settings, text_prompt) -> None:
    server.fail(400, "too long")

    async def both(models: Models) -> list[Any]:
        calls = (models.generate("policy", text_prompt(), Sampling()) for _ in range(3))
        return await asyncio.gather(*calls, return_exceptions=True)

    errors = call(models_settings(), both)
    assert len(server.seen) == 1
    assert [type(error) for error in errors] == [CallError] * 3
    assert {error.failure for error in errors} == {Failure.BAD_REQUEST}
    assert {error.status for error in errors} == {400}, "the status decides whether the server is at fault"
    assert {error.key for error in errors} == {errors[0].key}


def test_after_a_failure_the_call_can_be_made_again(server, models_settings, text_prompt) -> None:
    server.fail(400)
    server.say("fine")

    async def twice(models: Models) -> CallResult:
        with pytest.raises(CallError):
            await models.generate("policy", text_prompt(), Sampling())
        return await models.generate("policy", text_prompt(), Sampling())

    assert texts(call(models_settings(), twice)) == ["fine"]


def test_a_failure_names_the_key_of_the_first_missing_sample(server, models_settings, text_prompt) -> None:
    known = ask(models_settings(), text_prompt(), n=1)
    server.fail(400)
    with pytest.raises(CallError) as caught:
        ask(models_settings(), text_prompt(), n=2)
    server.say("b")
    assert caught.value.key == ask(models_settings(), text_prompt(), n=2).call.keys[1] != known.call.keys[0]


def test_replies_are_kept_before_they_are_used(server, models_settings, text_prompt) -> None:
    settings = models_settings()

    async def look(models: Models) -> tuple[CallResult, int]:
        answered = await models.generate("policy", text_prompt(), Sampling(n=2))
        other = ReplyCache(settings.cache_path)
        try:
            return answered, len(other.get(answered.call.keys))
        finally:
            other.close()

    assert call(settings, look)[1] == 2


def test_samples_that_arrived_before_a_failure_stay_cached(server, models_settings, text_prompt) -> None:
    server.say("a")
    server.fail(400)
    with pytest.raises(CallError):
        ask(models_settings(), text_prompt(), n=2)
    server.say("b")
    answered = ask(models_settings(), text_prompt(), n=2)
    assert [seen.body["n"] for seen in server.seen] == [2, 1, 1]
    assert texts(answered) == ["a", "b"]


def test_a_refused_sample_does_not_lose_the_others(server, models_settings, text_prompt) -> None:
    server.say("a", {"message": {"content": None, "refusal": "I will not"}}, "c")
    server.say({"message": {"content": None, "refusal": "I will not"}})
    with pytest.raises(CallError, match="refused"):
        ask(models_settings(), text_prompt(), n=3)
    assert texts(ask(models_settings(), text_prompt(), n=2)) == ["a", "c"]
    assert [seen.body["n"] for seen in server.seen] == [3, 1]


def test_a_call_with_a_larger_budget_does_not_join_a_smaller_one(server, models_settings, text_prompt) -> None:
    async def both(models: Models) -> list[CallResult]:
        calls = (models.generate("policy", text_prompt(), Sampling(max_tokens=budget)) for budget in (16, 4096))
        return await asyncio.gather(*calls)

    call(models_settings(), both)
    assert sorted(seen.body["max_tokens"] for seen in server.seen) == [16, 4096]


def test_without_a_cache_nothing_is_written(server, models_settings, text_prompt, tmp_path: Path) -> None:
    async def twice() -> None:
        models = Models(models_settings(), cached=False)
        for _ in range(2):
            await models.generate("policy", text_prompt(), Sampling())
        await models.close()

    asyncio.run(twice())
    assert len(server.seen) == 1
    assert not (tmp_path / "replies.sqlite").exists()


def test_a_role_without_an_endpoint_is_named(models_settings, text_prompt) -> None:
    with pytest.raises(ValueError, match=r"role 'segmenter'.*roles\.segmenter"):
        ask(models_settings(), text_prompt(), role="segmenter")


def test_an_unknown_kind_is_named(models_settings, text_prompt) -> None:
    with pytest.raises(ValueError, match=r"'openia': did you mean openai\?"):
        ask(models_settings(kind="openia"), text_prompt())


def test_with_a_seed_each_sample_has_its_own(server, models_settings, text_prompt) -> None:
    settings = models_settings(seed=100)
    ask(settings, text_prompt(), n=2)
    answered = ask(settings, text_prompt(), n=4)
    assert sorted((seen.body["seed"], seen.body["n"]) for seen in server.seen) == [(100 + i, 1) for i in range(4)]
    assert (answered.call.usage.cached, answered.call.usage.requests) == (2, 2)


def test_a_seed_is_part_of_the_key(server, models_settings, text_prompt) -> None:
    for seed in (1, 1, 2, None):
        ask(models_settings(seed=seed), text_prompt())
    assert [seen.body.get("seed") for seen in server.seen] == [1, 2, None]
