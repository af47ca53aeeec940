"""The OpenAI-compatible endpoint and a network that breaks, hangs, lies or redirects; and where the key goes."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from groundtrace.inference.endpoints import wire
from groundtrace.inference.endpoints.openai_compatible import OpenAIEndpoint
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Continuation, Reply, Request, Sampling
from groundtrace.vision.media import MediaStore

NAME = "GROUNDTRACE_TEST_KEY"
KEY = "sk-secret-0123456789"
FOREVER_S = 3600.0


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Settings of an endpoint with a key, without retries."""
    monkeypatch.setenv(NAME, KEY)
    return {"api_key_env": NAME, "max_retries": 0}


def texts(reply: Reply) -> list[str]:
    return [completion.text for completion in reply.completions]


def check_clean(error: CallError) -> None:
    """The key is in nothing that the error says, nor in what it was raised from."""
    said: BaseException | None = error
    while said is not None:
        assert KEY[:12] not in f"{said} {said!r}"
        said = said.__cause__


def test_a_reset_connection_is_sent_again(server, ask) -> None:
    server.reset()
    server.say("fine")
    reply = ask()
    assert (texts(reply), reply.usage.requests, reply.usage.retries) == (["fine"], 2, 1)


def test_a_lasting_reset_is_a_connection_failure(server, failure) -> None:
    server.reset()
    error = failure(max_retries=0)
    assert (error.failure, error.tries) == (Failure.CONNECTION, 1)


def test_nobody_listening_is_a_connection_failure(failure) -> None:
    assert failure(max_retries=0, base_url="http://127.0.0.1:9/v1").failure is Failure.CONNECTION


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_body_that_ends_early_is_sent_again(server, ask, cut, reset) -> None:
    server.say("lost", cut=cut, reset=reset)
    server.say("fine")
    reply = ask()
    assert (texts(reply), reply.usage.retries) == (["fine"], 1)


@pytest.mark.parametrize("reset", [False, True])
def test_a_body_that_always_ends_early_is_a_connection_failure(server, failure, reset) -> None:
    server.say("lost", cut=20, reset=reset)
    assert failure(max_retries=0).failure is Failure.CONNECTION


def test_an_error_whose_body_ends_early_is_one_too(server, failure) -> None:
    server.raw({"error": {"message": "no"}}, status=500, cut=5)
    assert failure(max_retries=0).failure is Failure.CONNECTION


@pytest.mark.parametrize(("status", "body"), [(201, b""), (201, b"<html>"), (202, b"{}"), (204, b""), (206, b"{}")])
def test_another_success_is_no_reply(server, failure, status, body) -> None:
    server.raw(body, status=status)
    error = failure(max_retries=0)
    assert (error.failure, f"HTTP {status}" in str(error)) == (Failure.GARBLED, True)


def test_a_page_is_no_reply(server, failure) -> None:
    server.raw(b"<html><body>Welcome to the hotel's network", headers=(("content-type", "text/html"),))
    error = failure(max_retries=0)
    assert error.failure is Failure.GARBLED
    assert "Welcome to the hotel" in str(error)


def test_silence_ends_with_the_read_timeout(server, failure) -> None:
    server.say("never", byte_s=FOREVER_S)
    started_s = time.monotonic()
    error = failure(max_retries=0, read_timeout_s=0.1, timeout_s=60.0)
    assert (error.failure, error.message.startswith("the server did not reply in time")) == (Failure.TIMEOUT, True)
    assert 0.1 <= time.monotonic() - started_s < 30


def test_a_reply_that_trickles_ends_with_the_whole_timeout(server, failure) -> None:
    server.say("never", byte_s=0.02)
    error = failure(max_retries=0, read_timeout_s=60.0, timeout_s=0.2)
    message = "the reply was not complete within 0.2 s: increase timeout_s"
    assert (error.failure, error.message) == (Failure.TIMEOUT, message)


def test_a_reply_that_trickles_in_time_is_read(server, ask) -> None:
    server.say("fine", byte_s=0.0005)
    assert texts(ask(read_timeout_s=30.0, timeout_s=60.0)) == ["fine"]


@pytest.mark.parametrize("status", [200, 500])
def test_a_body_beyond_the_limit_is_not_read(server, failure, monkeypatch, status) -> None:
    monkeypatch.setattr(wire, "MAX_REPLY_BYTES", 1000)
    server.raw(b" " * 100_000, status=status)
    error = failure(max_retries=0)
    assert (error.failure, error.message) == (Failure.GARBLED, "the server sent a reply of more than 1000 bytes")


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("part", [b"{},", b"[],"])
def test_a_body_of_more_parts_than_any_reply_is_not_parsed(server, failure, monkeypatch, part, status) -> None:
    monkeypatch.setattr(wire, "MAX_REPLY_PARTS", 1000)
    server.raw(b'{"choices": [' + part * 1000 + b"{}]}", status=status)
    error = failure(max_retries=0)
    assert (error.failure, error.message) == (Failure.GARBLED, "the reply holds more than 1000 objects and lists")


@pytest.mark.parametrize("depth", [100, 900, 940, 960, 980, 990, 1000, 100_000])
@pytest.mark.parametrize("status", [200, 400])
def test_nesting_of_any_depth_is_a_typed_failure(server, failure, depth, status) -> None:
    server.raw(b'{"choices": [' + b"[" * depth + b"]" * depth + b"]}", status=status)
    expected = Failure.GARBLED if status == 200 else Failure.BAD_REQUEST
    assert failure(max_retries=0).failure is expected


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server, failure, keyed, status) -> None:
    """Neither the key nor the question and its pictures go where a server points."""
    port = server.base_url.split(":")[2].split("/")[0]
    elsewhere = f"http://localhost:{port}/elsewhere/{KEY}"
    server.raw(b"moved", status=status, headers=(("location", elsewhere),))
    error = failure(**keyed)
    assert (error.failure, f"HTTP {status}" in str(error)) == (Failure.GARBLED, True)
    assert [seen.path for seen in server.seen] == ["/v1/chat/completions"]
    check_clean(error)


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503, 204])
def test_the_key_is_never_in_an_error(server, failure, keyed, status) -> None:
    server.fail(status, f"Incorrect API key provided: {KEY}. Header: Bearer {KEY}")
    error = failure(**keyed)
    check_clean(error)
    assert KEY not in error.message


@pytest.mark.parametrize("pad", range(96, 124, 3))
def test_no_part_of_a_key_is_left_where_a_message_is_cut(server, failure, keyed, pad) -> None:
    server.raw(b"x" * pad + KEY.encode() + b"y" * 300)
    check_clean(failure(**keyed))


@pytest.mark.parametrize("pad", [0, 275, 285, 3985, 3990])
def test_no_part_of_a_key_is_left_in_a_long_error(server, failure, keyed, pad) -> None:
    server.raw(b"x" * pad + KEY.encode() + b"y" * 300, status=400)
    check_clean(failure(**keyed))


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": None, "refusal": f"not for {KEY}"}},
        {"message": {"content": [KEY]}},
        {"message": {"content": ""}, "finish_reason": KEY},
        {"message": {"content": None, "refusal": "x" * 190 + KEY}},
    ],
)
def test_the_key_is_in_no_failure_of_a_choice(server, failure, keyed, choice) -> None:
    server.say(choice)
    check_clean(failure(**keyed))


def test_the_key_is_scrubbed_from_a_reply(server, ask, keyed) -> None:
    message = {"content": f"I am {KEY}", "reasoning_content": f"hm, {KEY}"}
    server.say({"message": message, "finish_reason": KEY})
    reply = ask(**keyed)
    assert KEY not in repr(reply)
    assert texts(reply) == ["I am ***"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_check_follows_no_redirect(server, use, keyed, status) -> None:
    port = server.base_url.split(":")[2].split("/")[0]
    server.raw(b"moved", status=status, headers=(("location", f"http://localhost:{port}/elsewhere"),))
    with pytest.raises(CallError, match=f"HTTP {status}: moved"):
        use(lambda endpoint: endpoint.check(), **keyed)
    assert [seen.path for seen in server.seen] == ["/v1/models"]


@pytest.mark.parametrize("pad", range(60, 120, 7))
def test_the_key_is_in_no_failed_continuation(server, use, keyed, text_prompt, pad) -> None:
    """Its messages quote the server, and are cut where the key may stand."""
    server.raw({"tokens": ["x" * pad + KEY * 20]})
    request = Request(text_prompt(), Sampling(), (0,), Continuation("", "three"))
    with pytest.raises(CallError) as caught:
        use(lambda endpoint: endpoint.generate(request), logprobs=True, **keyed)
    check_clean(caught.value)


def test_the_key_is_in_no_failed_check(server, use, keyed) -> None:
    server.fail(401, f"Incorrect API key provided: {KEY}")
    with pytest.raises(CallError) as caught:
        use(lambda endpoint: endpoint.check(), **keyed)
    check_clean(caught.value)


@pytest.fixture(params=["its models", "a reply"])
def asked_for(request: pytest.FixtureRequest, text_prompt) -> Callable[[OpenAIEndpoint], Awaitable[Any]]:
    """The two things that a server is asked for."""
    sent = Request(text_prompt(), Sampling(), (0,))
    return (lambda endpoint: endpoint.check()) if request.param == "its models" else lambda e: e.generate(sent)


def test_a_closed_port_is_a_server_that_cannot_be_reached(use, asked_for) -> None:
    with socket.socket() as closed:  # bound, so that nobody else gets the port, and not listening
        closed.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        with pytest.raises(CallError) as caught:
            use(asked_for, base_url=base_url, max_retries=0)
    assert (caught.value.failure, caught.value.unreachable) == (Failure.CONNECTION, True)


def test_a_port_where_nobody_picks_up_is_a_server_that_cannot_be_reached(use, asked_for) -> None:
    """A full queue of connections that nobody accepts: the system leaves the next one without an answer."""
    with socket.socket() as busy, socket.socket() as first:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        first.connect(busy.getsockname())
        base_url = f"http://127.0.0.1:{busy.getsockname()[1]}/v1"
        with pytest.raises(CallError) as caught:
            use(asked_for, base_url=base_url, connect_timeout_s=0.2, max_retries=0)
    assert (caught.value.failure, caught.value.unreachable) == (Failure.TIMEOUT, True)


def test_a_server_that_says_nothing_has_been_reached(server, use, asked_for) -> None:
    server.takes_s = 30.0
    with pytest.raises(CallError) as caught:
        use(asked_for, read_timeout_s=0.1, timeout_s=60.0, max_retries=0)
    assert (caught.value.failure, caught.value.unreachable) == (Failure.TIMEOUT, False)


def test_an_endpoint_made_on_no_loop_works_on_the_one_it_is_used_on(server, endpoint_settings, text_prompt) -> None:
    """Stages open endpoints from their own threads; two of them in turn share nothing."""
    for answer in ("a", "b"):
        endpoint = OpenAIEndpoint(endpoint_settings(), MediaStore("", ""), 1)
        server.say(answer)

        async def main(endpoint: OpenAIEndpoint = endpoint) -> Reply:
            try:
                return await endpoint.generate(Request(text_prompt(), Sampling(), (0,)))
            finally:
                await endpoint.close()

        assert texts(asyncio.run(main())) == [answer]
