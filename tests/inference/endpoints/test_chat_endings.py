"""The endpoint kind transformers_chat when callers go away, the endpoint is closed, or the process is forked."""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from groundtrace.inference.endpoints import chat_model
from groundtrace.inference.endpoints.chat_model import ChatEndpoint
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.vision.media import MediaStore

ASKED = Request(RenderedPrompt("attempt.v1", "0" * 64, "", (), None, ()), Sampling(1), (0,))
STOPPED = (Failure.STOPPED, "the model was stopped, because the run has ended")


class Gate:
    """A model that is loaded, and writes each reply, only when it may; ``has_begun`` is set when it waits."""

    def __init__(self, is_open: bool) -> None:
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()
        if is_open:
            self.may_go_on.set()

    def wait(self) -> None:
        self.has_begun.set()
        assert self.may_go_on.wait(20)

    def chat(self, *_: object) -> None: ...

    def draw(self, chats: list[None], *_: object) -> list[list[tuple[str, str]]]:
        self.wait()
        return [[("text", "stop")] for _ in chats]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(is_open=False)
    monkeypatch.setattr(chat_model, "_load", lambda _: gate)
    yield gate
    gate.may_go_on.set()


@pytest.fixture
def endpoint() -> ChatEndpoint:
    return ChatEndpoint(EndpointSettings("transformers_chat", "m", max_concurrency=4), MediaStore("a", "b"), 1)


async def within(seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, or its error; also the error that it takes longer."""
    try:
        return await asyncio.wait_for(work, seconds)
    except (CallError, TimeoutError) as error:
        return error


def waits_with_a_loop_that_closes(endpoint: ChatEndpoint) -> None:
    assert isinstance(asyncio.run(within(0.1, endpoint.generate(ASKED))), TimeoutError)


def test_a_request_of_a_closed_loop_does_not_take_the_answers_of_others(endpoint: ChatEndpoint, gate: Gate) -> None:
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(asyncio.run, within(20, endpoint.generate(ASKED)))
        assert gate.has_begun.wait(20)
        waits_with_a_loop_that_closes(endpoint)
        second = threads.submit(asyncio.run, within(20, endpoint.generate(ASKED)))  # of the same batch
        while len(endpoint._waiting) < 2:
            threading.Event().wait(0.01)
        gate.may_go_on.set()
        assert isinstance(first.result(), Reply)
        assert isinstance(second.result(), Reply)
    asyncio.run(endpoint.close())


def test_an_endpoint_with_a_request_of_a_closed_loop_is_closed(endpoint: ChatEndpoint, gate: Gate) -> None:
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(asyncio.run, within(20, endpoint.generate(ASKED)))
        assert gate.has_begun.wait(20)
        waits_with_a_loop_that_closes(endpoint)
        closing = threading.Timer(0.1, gate.may_go_on.set)
        closing.start()
        asyncio.run(endpoint.close())
        assert endpoint._model is None
        assert (first.result().failure, first.result().message) == STOPPED


def test_a_closed_endpoint_answers_nothing_more(endpoint: ChatEndpoint, gate: Gate) -> None:
    """What waits, and what comes later, fails with the same error; closing again does nothing."""

    async def main() -> list[Any]:
        waiting = [asyncio.create_task(within(20, endpoint.generate(ASKED))) for _ in range(2)]
        await asyncio.to_thread(gate.has_begun.wait, 20)
        waiting += [asyncio.create_task(within(20, call)) for call in (endpoint.check(), endpoint.generate(ASKED))]
        await asyncio.sleep(0)
        threading.Timer(0.1, gate.may_go_on.set).start()
        await endpoint.close()
        late = [await within(20, endpoint.generate(ASKED)), await within(20, endpoint.check())]
        await endpoint.close()
        return [*await asyncio.gather(*waiting), *late]

    assert [(each.failure, each.message) for each in asyncio.run(main())] == [STOPPED] * 6


def in_a_fork(endpoint: ChatEndpoint) -> str:
    """What a request, a check and the end of the endpoint are in a forked process."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            calls = [asyncio.run(within(5, call)) for call in (endpoint.generate(ASKED), endpoint.check())]
            asyncio.run(endpoint.close())
            os.write(theirs, "\n".join(map(str, calls)).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as output:
        os.waitpid(child, 0)
        return output.read()


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_model_does_not_answer_in_a_forked_process(endpoint: ChatEndpoint, gate: Gate) -> None:
    gate.may_go_on.set()
    assert in_a_fork(endpoint).startswith("Reply("), "an endpoint that no process has used yet"
    asyncio.run(endpoint.check())
    refused = in_a_fork(endpoint).splitlines()
    assert refused == [refused[0]] * 2
    assert refused[0].startswith("unsupported: m was loaded before this process was forked, and cannot answer in it: ")
    assert isinstance(asyncio.run(within(20, endpoint.generate(ASKED))), Reply)
    asyncio.run(endpoint.close())
