"""The gemini endpoint over real HTTP against a scripted server of its REST form."""

import json
import socket
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.messages import MediaPart, TextPart
from groundtrace.inference.endpoints.gemini import MAX_CANDIDATES, MAX_REQUEST_BYTES, GeminiEndpoint, gemini_reply
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.families.base import Family
from groundtrace.inference.request import Completion, Continuation, Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.schemas.records import MediaRef
from groundtrace.schemas.usage import Usage

from .. import asking
from ..gemini_server import GARBLED, KEY, USAGE, VIDEOS, outcomes_of, picture, prompt_of, running, sent, texts, using


@pytest.fixture
def server() -> Iterator[Any]:
    with running() as script:
        yield script


@pytest.fixture
def endpoint_settings(server, monkeypatch) -> Callable[..., EndpointSettings]:
    monkeypatch.setenv("GROUNDTRACE_TEST_KEY", KEY)

    def build(**changes: Any) -> EndpointSettings:
        fixed = {"kind": "gemini", "model": "tiny", "base_url": server.base_url, "frame": "gemini"}
        return EndpointSettings(**{**fixed, "api_key_env": "GROUNDTRACE_TEST_KEY", **changes})

    return build


@pytest.fixture
def use(tmp_path: Path, endpoint_settings) -> Callable[..., Any]:
    return lambda work, **changes: using(endpoint_settings(**{"max_retries": 2, **changes}), tmp_path, work)


@pytest.fixture
def outcomes(tmp_path: Path, endpoint_settings) -> Callable[..., list[Any]]:
    def run(calls: int | list[RenderedPrompt], **changes: Any) -> list[Any]:
        prompts = [prompt_of(TextPart("a"))] * calls if isinstance(calls, int) else calls
        return outcomes_of(endpoint_settings(**changes), tmp_path, prompts)

    return run


def test_what_is_sent(server, ask, text_prompt) -> None:
    assert texts(ask(n=2, sampling=Sampling(n=2, temperature=0.7, top_p=0.9, max_tokens=99))) == ["reply 1", "reply 2"]
    (seen,), prompt = server.seen, text_prompt()
    assert (seen.path, seen.headers["x-goog-api-key"]) == ("/v1beta/models/tiny:generateContent", KEY)
    assert KEY not in seen.path
    assert [part["text"] for part in seen.body["systemInstruction"]["parts"]] == [prompt.system]
    assert [sent(part) for part in seen.parts] == [prompt.user[0].text]
    config = {"temperature": 0.7, "topP": 0.9, "maxOutputTokens": 99, "candidateCount": 2}
    schema = {"responseMimeType": "application/json", "responseJsonSchema": json.loads(prompt.reply_schema)}
    assert seen.body["generationConfig"] == config | schema


def test_no_schema_without_one_or_without_support(server, ask) -> None:
    ask(prompt=prompt_of(TextPart("a")))
    ask(prompt=prompt_of(TextPart("a"), schema={"type": "object"}), structured_output=False)
    assert not [seen for seen in server.seen if "response" in json.dumps(seen.body)]


def test_text_and_media_keep_their_order(server, ask, tmp_path) -> None:
    files = {name: picture(tmp_path / name, form) for name, form in (("a.png", "PNG"), ("b.jpg", "JPEG"))}
    (tmp_path / "v.mp4").write_bytes(VIDEOS["mp4"][0])
    one, two, film = (MediaPart(f"input:{name}", name) for name in (*files, "v.mp4"))
    film = MediaPart(film.uri, film.sha256, "video")
    ask(prompt=prompt_of(two, TextPart("first"), one, film, TextPart("then"), two), video=True)
    jpeg, png, mp4 = ("image/jpeg", files["b.jpg"]), ("image/png", files["a.png"]), ("video/mp4", VIDEOS["mp4"][0])
    assert [sent(part) for part in server.seen[0].parts] == [jpeg, "first", png, mp4, "then", jpeg]


def test_a_video_goes_with_the_type_of_its_container(server, outcomes, tmp_path) -> None:
    for name, (data, _) in VIDEOS.items():
        (tmp_path / name).write_bytes(data)
    outcomes([prompt_of(MediaPart(f"input:{name}", name, "video")) for name in VIDEOS], video=True)
    assert [sent(seen.parts[0]) for seen in server.seen] == [(mime, data) for data, mime in VIDEOS.values()]


def test_what_cannot_be_served_is_not_sent(server, failure, tmp_path) -> None:
    picture(tmp_path / "a.png", "PNG")
    one, film = MediaPart("input:a.png", "a"), MediaPart("input:clip", "c", "video")
    mp4, mkv = VIDEOS["mp4"][0], VIDEOS["webm"][0].replace(b"\x84webm", b"\x88matroska")
    limit = f"accepts at most {MAX_REQUEST_BYTES}"
    for parts, clip, changes, says in (
        ([film], mp4, {}, "videos"),
        ([one, one], b"", {"multi_image": False}, "several images or videos"),
        ([film], mkv, {"video": True}, "x-matroska"),
        ([film], mp4 + bytes(MAX_REQUEST_BYTES * 3 // 4), {"video": True}, limit),
        ([film, film], mp4 + bytes(MAX_REQUEST_BYTES // 2), {"video": True}, limit),
    ):
        (tmp_path / "clip").write_bytes(clip)
        error = failure(prompt=prompt_of(*parts), **changes)
        assert (error.failure, error.partial.usage.requests, server.seen) == (Failure.UNSUPPORTED, 0, [])
        assert says in error.message


def test_a_continuation_is_not_sent(server, use) -> None:
    request = Request(prompt_of(TextPart("a")), Sampling(), (0,), Continuation("b", "c"))
    with pytest.raises(CallError, match="unsupported: tiny cannot score a continuation"):
        use(lambda endpoint: endpoint.generate(request), logprobs=True)
    assert server.seen == []


def test_usage_and_thoughts(server, ask) -> None:
    spent = {"thoughtsTokenCount": 7, "cachedContentTokenCount": 4}
    parts = [{"text": "one, ", "thought": True}, {"text": "two", "thought": True}, {"text": "2"}, {"text": "!"}]
    server.say(parts, usage={**USAGE, **spent})
    assert ask() == Reply(
        (Completion("2!", "one, two", "stop"),),
        Usage(requests=1, tokens_in=10, tokens_out=12, tokens_reasoning=7, tokens_cached=4),
    )


def test_fewer_and_more_candidates_than_asked(server, ask) -> None:
    server.say("a", {"content": {"parts": [{"text": "x"}]}, "finishReason": "SAFETY"})
    server.say("b", {"content": {"parts": [{"text": "twice"}]}, "index": 0})
    server.say("c", "one too many")
    reply = ask(n=3)
    assert (texts(reply), reply.usage.tokens_wasted) == (["a", "b", "c"], 0)
    counts = [seen.body["generationConfig"]["candidateCount"] for seen in server.seen]
    assert (counts, len({seen.body.get("seed") for seen in server.seen})) == ([3, 2, 1], 1)


def test_no_more_candidates_than_the_api_gives(server, ask) -> None:
    assert len(set(texts(ask(n=MAX_CANDIDATES + 2)))) == MAX_CANDIDATES + 2
    assert [seen.body["generationConfig"]["candidateCount"] for seen in server.seen] == [MAX_CANDIDATES, 2]


def test_a_truncated_sample_is_kept(server, outcomes) -> None:
    for parts in ([{"text": "I see"}], [], [{"text": "hm", "thought": True}]):
        server.say({"content": {"parts": parts}, "finishReason": "MAX_TOKENS"})
    expected = [Completion("I see", "", "length"), Completion("", "", "length"), Completion("", "hm", "length")]
    assert [reply.completions for reply in outcomes(3)] == [(one,) for one in expected]


def test_a_blocked_candidate_is_a_refusal(server, outcomes) -> None:
    reasons = ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII"]
    for reason in reasons:
        server.say({"finishReason": reason, "finishMessage": f"as {KEY}", "content": {"parts": [{"text": "I"}]}})
    errors = outcomes(len(reasons))
    assert [error.message for error in errors] == [
        f"the model ended the reply with the finish reason {reason} as ***" for reason in reasons
    ]
    assert {(error.failure, error.partial.usage.tokens_wasted) for error in errors} == {(Failure.REFUSED, 15)}
    assert len(server.seen) == len(reasons)


def test_a_candidate_that_was_broken_off_is_sent_again(server, outcomes) -> None:
    """Its text is no short reply."""
    reasons = ["OTHER", "MALFORMED_FUNCTION_CALL", "FINISH_REASON_UNSPECIFIED", "error"]
    for reason in reasons:
        server.say({"finishReason": reason, "content": {"parts": [{"text": "I"}]}})
    errors = outcomes(len(reasons), max_retries=0)
    assert [error.message for error in errors] == [
        f"the model ended the reply with the finish reason {reason}" for reason in reasons
    ]
    assert {(error.failure, error.retryable) for error in errors} == {(Failure.SERVER_ERROR, True)}


def test_a_blocked_prompt_is_a_refusal(server, failure) -> None:
    server.raw({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 10}})
    error = failure()
    assert (error.failure, len(server.seen), error.partial.usage.tokens_wasted) == (Failure.REFUSED, 1, 10)
    assert error.message == "the prompt was blocked: PROHIBITED_CONTENT"


def test_how_long_to_wait(server, outcomes) -> None:
    later = {"retry_after": "9"}
    table = [("0.25s", {}, 0.25), ("3s", later, 3.0), ("soon", later, 9.0), (None, later, 9.0)]
    table += [("-1s", {}, None), (7, {}, None), (None, {}, None)]
    for delay, header, _ in table:
        info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
        server.fail(429, "quota", ({"@type": "x"}, info), **header)
    errors = outcomes(len(table), max_retries=0)
    assert [error.retry_after_s for error in errors] == [expected for _, _, expected in table]
    assert {(error.failure, error.message) for error in errors} == {(Failure.RATE_LIMITED, "HTTP 429: quota")}


def test_passing_faults_are_sent_again_by_one_layer_only(server, ask) -> None:
    server.fail(429)
    server.reset()
    server.say("lost", cut=20)
    server.raw(GARBLED["cut JSON"])
    server.fail(500, retry_after="0.01")
    server.fail(429, "quota", ({"retryDelay": "0.01s"},))
    server.say("fine")
    reply = ask(max_retries=6)
    assert (texts(reply), reply.usage.requests, reply.usage.retries, len(server.seen)) == (["fine"], 7, 6, 7)


def test_a_status_counts_whatever_the_body(server, outcomes) -> None:
    expected = {400: "bad_request", 403: "unauthorised", 404: "bad_request", 408: "timeout", 500: "server_error"}
    expected |= {504: "overloaded", 302: "garbled_response"}
    bodies = ({"error": {"message": "said so"}}, b"<html>said so", b'{"error": "said so')
    table = [(status, body) for status in expected for body in bodies]
    for status, body in table:
        server.raw(body, status=status, headers=(("location", server.base_url + "/other"),))
    errors = outcomes(len(table), max_retries=0)
    assert [error.failure for error in errors] == [expected[status] for status, _ in table]
    assert all("said so" in error.message for error in errors)
    assert len(server.seen) == len(table)


def test_silence_is_a_timeout_and_nobody_a_lost_connection(server, failure) -> None:
    server.keep_silent()
    assert failure(max_retries=0, read_timeout_s=0.1).failure is Failure.TIMEOUT
    assert failure(max_retries=0, base_url="http://127.0.0.1:9").failure is Failure.CONNECTION
    assert len(server.seen) == 1


def test_a_server_that_takes_no_connection_is_a_timeout(failure) -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for one in (first, second):  # the queue of connections is full: a third gets no answer
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        assert failure(max_retries=0, connect_timeout_s=0.2, base_url=url).failure is Failure.TIMEOUT


def test_a_garbled_response_is_typed(server, outcomes) -> None:
    for body in GARBLED.values():
        server.raw(body)
    errors = dict(zip(GARBLED, outcomes(len(GARBLED), max_retries=0), strict=True))
    assert {case: error.failure for case, error in errors.items()} == dict.fromkeys(GARBLED, Failure.GARBLED)
    assert [case for case, error in errors.items() if KEY in "".join(traceback.format_exception(error))] == []
    assert max(len(error.message) for error in errors.values()) <= 300


def test_empty_content_is_sent_again(server, outcomes) -> None:
    empty = ([], [{"text": ""}], [{"text": " \n"}], [{"text": "hm", "thought": True}], [{}])
    for parts in (*empty, []):
        server.say(parts)
    assert {error.failure for error in outcomes(len(empty), max_retries=0)} == {Failure.EMPTY}
    assert texts(outcomes(1)[0]) == ["reply 1"]


def test_the_key_is_never_in_an_error(server, outcomes) -> None:
    for status in (400, 401, 429, 500):
        server.fail(status, f"{'x' * 280} {{the key}} is wrong", ({"reason": "API_KEY_INVALID"},))
    for error in outcomes(4, max_retries=0):
        assert KEY[:6] not in "".join(traceback.format_exception(error)) + repr(error)
        assert (len(error.message) <= 300, error.failure) == (True, Failure.UNAUTHORISED)


def test_an_echoed_key_is_not_kept(server, ask) -> None:
    server.say([{"text": "{the key} a"}, {"text": "{the key} b", "thought": True}])
    assert ask().completions == (Completion("*** a", "*** b"),)


def test_a_key_is_needed_for_the_public_server(use) -> None:
    with pytest.raises(ValueError, match="has no API key: set api_key_env or api_key_file, or the base_url"):
        use(lambda endpoint: endpoint.check(), base_url="", api_key_env="")


def test_check(server, use) -> None:
    server.raw({"name": "models/tiny", "displayName": "Tiny"})
    assert use(lambda endpoint: endpoint.check()) == "serves tiny"
    assert (server.seen[0].method, server.seen[0].path) == ("GET", "/v1beta/models/tiny")
    server.fail(404, "no such model {the key}")
    with pytest.raises(CallError, match=r"bad_request: HTTP 404: no such model \*\*\*"):
        use(lambda endpoint: endpoint.check())
    server.raw({})
    with pytest.raises(CallError, match="has no name"):
        use(lambda endpoint: endpoint.check())


def test_connections_are_kept_and_then_closed(server, use) -> None:
    async def two(endpoint: GeminiEndpoint) -> int:
        for index in range(2):
            await endpoint.generate(Request(prompt_of(TextPart("a")), Sampling(), (index,)))
        return server.connections

    assert use(two) == 1
    assert server.gone.wait(5)


def test_boxes_land_at_the_right_pixels(server, ask) -> None:
    server.say('{"boxes": [[100, 200, 500, 900]]}')
    text = ask(prompt=load_prompt("detect.v1").render({"original": []}, label="cat")).completions[0].text
    medium = MediaRef("input:a.png", "image", "a", "a", "0" * 16, 400, 200, 1, 1)
    (box,) = Family("own", CoordinateFrame.GEMINI).boxes(text, "cat", medium, 0).found
    assert (box.x1, box.y1, box.x2, box.y2) == (80.0, 20.0, 360.0, 100.0)


def test_a_repeated_call_sends_nothing(server, models_settings, text_prompt) -> None:
    first, again = (asking.ask(models_settings(), text_prompt(), n=2) for _ in range(2))
    assert [one.text for one in first.completions] == ["reply 1", "reply 2"]
    assert (again.completions, len(server.seen)) == (first.completions, 1)
    assert (first.call.usage.requests, again.call.usage.requests, again.call.usage.cached) == (1, 0, 2)


@pytest.mark.parametrize(("asked", "named"), [("tiny", ""), ("models/tiny", ""), ("tiny-latest", "tiny")])
def test_another_model_than_the_one_asked_for_is_noted(asked: str, named: str) -> None:
    candidate = {"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}
    reply = gemini_reply({"candidates": [candidate], "modelVersion": "tiny"}, 1, "", asked)
    assert reply.completions == (Completion("a", answered_by=named),)
