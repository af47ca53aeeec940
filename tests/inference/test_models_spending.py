"""What calls cost and are worth, the budget that ends them, and the key that stands in no reply that is kept."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.caller import CallResult
from groundtrace.inference.coordination.spending import Cost
from groundtrace.inference.errors import BudgetUsedUp, CallError, Failure
from groundtrace.inference.models import Models
from groundtrace.inference.request import Sampling
from groundtrace.schemas.usage import Usage

from .asking import ask, call, texts

NAME, KEY = "GROUNDTRACE_TEST_KEY", "sk-secret-0123456789"
PRICES = {"usd_per_million_tokens_in": 1.0, "usd_per_million_tokens_out": 10.0}
USAGE = {"prompt_tokens": 100, "completion_tokens": 50}
USD = (100 * 1 + 50 * 10) / 1e6


def test_cached_replies_cost_nothing_and_are_worth_what_they_cost(server, models_settings, text_prompt) -> None:
    server.say("a", "b", usage=USAGE)
    server.say("c", usage=USAGE)
    first = ask(models_settings(**PRICES), text_prompt(), n=2).call.usage
    again = ask(models_settings(**PRICES), text_prompt(), n=2).call.usage
    more = ask(models_settings(**PRICES), text_prompt(), n=3).call.usage
    assert (first.cost_usd, first.worth_usd) == (pytest.approx(USD), pytest.approx(USD))
    assert (again.cost_usd, again.worth_usd) == (0.0, pytest.approx(USD))
    assert (more.cost_usd, more.worth_usd) == (pytest.approx(USD), pytest.approx(2 * USD))


def test_input_that_the_server_had_cached_has_its_own_price(server, models_settings, text_prompt) -> None:
    server.say("a", usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 80}})
    noted = ask(models_settings(**PRICES, usd_per_million_tokens_cached=0.1), text_prompt()).call.usage
    assert (noted.tokens_in, noted.tokens_cached) == (100, 80)
    assert noted.cost_usd == pytest.approx((20 * 1 + 80 * 0.1 + 50 * 10) / 1e6)


def test_a_failed_call_says_what_it_took(server, models_settings, text_prompt) -> None:
    server.say({"message": {"content": None, "refusal": "I will not"}}, usage=USAGE)
    with pytest.raises(CallError) as caught:
        ask(models_settings(**PRICES), text_prompt())
    noted = caught.value.call.usage
    assert (noted.requests, noted.tokens_in, noted.tokens_out, noted.tokens_wasted) == (1, 100, 50, 150)
    assert noted.cost_usd == pytest.approx(USD)


@pytest.mark.parametrize(
    "unusable",
    [
        {"message": {"content": None, "refusal": "I will not"}},
        {"message": {"content": "half a"}, "finish_reason": "content_filter"},
        {"message": {"content": ""}},
        {"message": {"content": "a"}, "index": 0},
    ],
)
def test_an_unusable_sample_is_asked_for_again_and_wasted(server, models_settings, text_prompt, unusable) -> None:
    server.say("a", unusable, usage=USAGE)
    server.say("b", usage=USAGE)
    answered = ask(models_settings(), text_prompt(), n=2)
    assert (texts(answered), [seen.body["n"] for seen in server.seen]) == (["a", "b"], [2, 1])
    noted = answered.call.usage
    assert (noted.requests, noted.tokens_out, noted.tokens_wasted) == (2, 100, 25)


def test_a_used_up_budget_reaches_the_caller_with_its_call(server, models_settings, text_prompt) -> None:
    with pytest.raises(BudgetUsedUp, match="the budget is used up: 0 of 1 tokens") as caught:
        ask(models_settings(tokens=1), text_prompt(), role="judge", n=2)
    noted = caught.value.call
    assert (noted.role, noted.usage) == ("judge", Usage(calls=1))
    assert server.seen == []


def test_what_is_in_the_cache_is_served_all_the_same(server, models_settings, text_prompt) -> None:
    server.say("a", usage=USAGE)
    ask(models_settings(**PRICES), text_prompt())
    poor = models_settings(tokens=1, **PRICES)

    async def work(models: Models) -> tuple[BudgetUsedUp, list[str]]:
        with pytest.raises(BudgetUsedUp) as caught:
            await models.generate("policy", text_prompt(), Sampling(n=2))
        assert models.budget.exhausted
        return caught.value, texts(await models.generate("policy", text_prompt(), Sampling()))

    error, served = call(poor, work)
    assert (error.call.usage.cached, error.call.usage.requests, served) == (1, 0, ["a"])
    assert error.call.usage.worth_usd == pytest.approx(USD)
    assert len(server.seen) == 1


def test_joined_callers_are_each_told_of_their_own_call(server, models_settings, text_prompt) -> None:
    """While the first call is under way two others wait for one request, which then is refused."""
    server.say("fine", usage={"prompt_tokens": 900})

    async def three(models: Models) -> list[Any]:
        asked = (("teacher", "1"), ("policy", "2"), ("judge", "2"))
        calls = (models.generate(role, text_prompt(predicted), Sampling()) for role, predicted in asked)
        return await asyncio.gather(*calls, return_exceptions=True)

    served, *errors = call(models_settings(tokens=600), three)
    assert texts(served) == ["fine"]
    assert [type(error) for error in errors] == [BudgetUsedUp] * 2
    assert [error.call.role for error in errors] == ["policy", "judge"]


def test_a_budget_ends_between_the_requests_of_one_call(server, models_settings, text_prompt) -> None:
    """The truncated sample stays in the cache; asking for it with a larger budget is one request too many."""
    server.say({"message": {"content": "I se"}, "finish_reason": "length"}, usage={"prompt_tokens": 900})
    with pytest.raises(BudgetUsedUp) as caught:
        ask(models_settings(tokens=901, max_tokens_limit=64), text_prompt(), max_tokens=16)
    assert (caught.value.call.usage.requests, caught.value.call.usage.tokens_in) == (1, 900)
    assert texts(ask(models_settings(), text_prompt(), max_tokens=16)) == ["I se"]


@pytest.mark.parametrize(("limit", "prices"), [({"usd": 0.006}, PRICES), ({"tokens": 1500}, {})])
def test_a_budget_is_spent_and_hardly_exceeded(server, models_settings, text_prompt, limit, prices) -> None:
    """Ten calls fit; how many more go out before the first replies tell their cost depends on the first guess only."""
    for _ in range(40):
        server.say("fine", usage=USAGE)

    async def many(models: Models) -> tuple[list[Any], Cost]:
        calls = (models.generate("policy", text_prompt(str(i)), Sampling()) for i in range(40))
        return await asyncio.gather(*calls, return_exceptions=True), models.budget.spent

    ends, spent = call(models_settings(**limit, **prices), many)
    served = [end for end in ends if isinstance(end, CallResult)]
    assert {type(end) for end in ends} == {CallResult, BudgetUsedUp}
    assert len(server.seen) == len(served)
    assert spent.tokens == 150 * len(served)
    assert spent.usd == pytest.approx(sum(end.call.usage.cost_usd for end in served))
    assert 6 <= len(served) <= 10


def test_replies_that_are_of_no_use_end_with_the_budget_and_are_paid(server, models_settings, text_prompt) -> None:
    for _ in range(9):
        server.say({"message": {"content": ""}}, usage=USAGE)

    async def spend(models: Models) -> tuple[BudgetUsedUp, Cost]:
        with pytest.raises(BudgetUsedUp) as caught:
            await models.generate("policy", text_prompt(), Sampling())
        return caught.value, models.budget.spent

    error, spent = call(models_settings(tokens=700), spend)
    assert error.call is not None
    assert (error.call.usage.requests, error.call.usage.tokens_out) == (len(server.seen), 50 * len(server.seen))
    assert spent.tokens == 150 * len(server.seen)
    assert 1 < len(server.seen) <= 4


def test_a_dollar_budget_does_not_hold_what_costs_nothing(server, models_settings, text_prompt) -> None:
    for number in range(3):
        assert texts(ask(models_settings(usd=0.0), text_prompt(str(number)))) == [f"reply {number + 1}"]


def test_failed_requests_count_against_the_budget(server, models_settings, text_prompt) -> None:
    server.say({"message": {"content": None, "refusal": "no"}}, usage=USAGE)

    async def spend(models: Models) -> Cost:
        with pytest.raises(CallError):
            await models.generate("policy", text_prompt(), Sampling())
        return models.budget.spent

    assert call(models_settings(usd=1.0, **PRICES), spend) == Cost(pytest.approx(USD), 150)


def kept_bytes(folder: Path) -> bytes:
    """All that is on disk under the folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_an_echoed_key_is_in_no_reply_and_in_no_file(
    server, models_settings, text_prompt, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv(NAME, KEY)
    message = {"content": f"key {KEY}", "reasoning_content": f"think {KEY}"}
    server.say({"message": message}, {"message": {"content": None, "refusal": f"not with {KEY}"}})
    server.say({"message": {"content": "cut"}, "finish_reason": KEY})
    answered = ask(models_settings(api_key_env=NAME), text_prompt(), n=2)
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert texts(answered) == ["key ***", "cut"]
    server.fail(401, f"wrong key {KEY}")
    with pytest.raises(CallError, match=r"unauthorised: HTTP 401: wrong key \*\*\*") as caught:
        ask(models_settings(api_key_env=NAME), text_prompt("other"))
    assert caught.value.failure is Failure.UNAUTHORISED
    assert KEY not in f"{caught.value!r} {answered!r} {caught.value.call!r}"
    assert b"key ***" in kept_bytes(tmp_path)
    assert KEY.encode() not in kept_bytes(tmp_path)
