"""A reply is in the cache before another request takes its place: a killed process loses what is under way, no more."""

import asyncio
import threading

from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.models import Models
from groundtrace.inference.request import Completion, Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings

from .asking import call


def in_cache(path: str) -> list[str]:
    """The texts that another process would find."""
    other = ReplyCache(path)
    try:
        return sorted(logged.entry.completion.text for logged in other.entries())
    finally:
        other.close()


def test_samples_that_come_one_by_one_are_each_kept_at_once(server, models_settings, text_prompt) -> None:
    settings, meet = models_settings(), threading.Barrier(2)
    server.say("a")
    server.say("b", meet=meet)

    async def look(models: Models) -> list[str]:
        asking = asyncio.ensure_future(models.generate("policy", text_prompt(), Sampling(n=2)))
        while len(server.seen) < 2:
            await asyncio.sleep(0.01)
        found = in_cache(settings.cache_path)
        await asyncio.to_thread(meet.wait, 10)
        assert [one.text for one in (await asking).completions] == ["a", "b"]
        return found

    assert call(settings, look) == ["a"]
    assert in_cache(settings.cache_path) == ["a", "b"]


def test_a_place_is_given_back_when_the_reply_is_kept(text_prompt) -> None:
    """However slow the keeping is, no further request is under way meanwhile."""
    events = []

    async def send(request: Request, n: int) -> Reply:
        events.append("sent")
        await asyncio.sleep(0)
        return Reply((Completion("a"),))

    async def keep(first: int, part: Reply) -> None:
        await asyncio.sleep(0.01)
        events.append(f"kept {first}")

    async def main() -> None:
        flow = Flow(EndpointSettings("openai", "m", max_concurrency=1))
        request = Request(text_prompt(), Sampling(), (0, 1), arrived=keep)
        await asyncio.gather(flow.collect(request, send), flow.collect(request, send))

    asyncio.run(main())
    assert events[::2] == ["sent"] * 4
    assert sorted(events[1::2]) == ["kept 0", "kept 0", "kept 1", "kept 1"]


def test_of_two_tries_side_by_side_the_first_kept_is_used(server, models_settings, text_prompt) -> None:
    meet = threading.Barrier(2)
    server.say("one", meet=meet)
    server.say("another", meet=meet)
    settings = models_settings(hedge_after_s=0.05)

    async def ask(models: Models) -> str:
        return (await models.generate("policy", text_prompt(), Sampling())).text

    assert [call(settings, ask)] == in_cache(settings.cache_path)
