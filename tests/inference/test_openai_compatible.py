"""The OpenAI-compatible endpoint over real HTTP: what it sends, and what it makes of every kind of answer."""

import asyncio
import base64
import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from inference.errors import CallError, Failure
from inference.openai_compatible import OpenAIEndpoint
from inference.request import Completion, Reply, Request, Sampling
from prompts.loader import load_prompt
from schemas.messages import MediaPart
from vision.decode import decode_image
from vision.media import MediaStore

KEY = "sk-secret-0123456789"


@pytest.fixture
def use(tmp_path: Path, endpoint_settings: Callable[..., Any]) -> Callable[..., Any]:
    """Open an endpoint with changed settings, await ``work`` of it, close it."""

    def run(work: Callable[[OpenAIEndpoint], Any], **changes: Any) -> Any:
        async def main() -> Any:
            media = MediaStore(str(tmp_path), str(tmp_path))
            endpoint = OpenAIEndpoint(endpoint_settings(**{"max_retries": 2, **changes}), media, 1)
            try:
                return await work(endpoint)
            finally:
                await endpoint.close()

        return asyncio.run(main())

    return run


@pytest.fixture
def ask(use, text_prompt) -> Callable[..., Reply]:
    def run(n: int = 1, prompt: Any = None, sampling: Sampling | None = None, **changes: Any) -> Reply:
        request = Request(prompt or text_prompt(), sampling or Sampling(n=n), tuple(range(n)))
        return use(lambda endpoint: endpoint.generate(request), **changes)

    return run


@pytest.fixture
def failure(ask) -> Callable[..., CallError]:
    """The error that a call ends with."""

    def run(**arguments: Any) -> CallError:
        with pytest.raises(CallError) as caught:
            ask(**arguments)
        return caught.value

    return run


def texts(reply: Reply) -> list[str]:
    return [completion.text for completion in reply.completions]


def test_body(server, ask, text_prompt) -> None:
    sampling = Sampling(n=3, temperature=0.7, top_p=0.9, max_tokens=99)
    ask(n=3, sampling=sampling)
    (seen,) = server.seen
    assert seen.path == "/v1/chat/completions"
    prompt = text_prompt()
    assert {name: seen.body[name] for name in ("model", "n", "temperature", "top_p", "max_tokens")} == {
        "model": "tiny",
        "n": 3,
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 99,
    }
    assert seen.body["messages"] == [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": [{"type": "text", "text": prompt.user[0].text}]},
    ]


def test_response_format_is_the_reply_schema(server, ask) -> None:
    ask()
    sent = server.seen[0].body["response_format"]
    assert sent["type"] == "json_schema"
    assert (sent["json_schema"]["name"], sent["json_schema"]["strict"]) == ("judge_answer_v1", True)
    assert sent["json_schema"]["schema"]["required"] == ["reason", "same"]


def test_no_response_format_without_schema_or_support(server, ask, text_prompt) -> None:
    ask(prompt=load_prompt("point.v1").render({"original": []}, entity="cat"))
    ask(structured_output=False)
    assert all("response_format" not in seen.body for seen in server.seen)


def test_no_system_message_without_system_text(server, ask) -> None:
    ask(prompt=load_prompt("point.v1").render({"original": []}, entity="cat"))
    assert [message["role"] for message in server.seen[0].body["messages"]] == ["user"]


def picture(path: Path, form: str, orientation: int | None = None) -> bytes:
    """A 6x4 picture, red on its left half; with an EXIF orientation if one is given."""
    image = Image.new("RGB", (6, 4), (0, 0, 255))
    image.paste((255, 0, 0), (0, 0, 3, 4))
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    out = io.BytesIO()
    image.save(out, form, exif=exif, **({"lossless": True} if form == "WEBP" else {}))
    path.write_bytes(out.getvalue())
    return out.getvalue()


def sent_images(body: dict[str, Any]) -> list[tuple[str, bytes]]:
    """MIME type and bytes of every data URI of the user message, in order."""
    urls = [part["image_url"]["url"] for part in body["messages"][-1]["content"] if part["type"] == "image_url"]
    heads_and_data = [url.removeprefix("data:").split(";base64,") for url in urls]
    return [(mime, base64.b64decode(data, validate=True)) for mime, data in heads_and_data]


def test_text_and_images_keep_their_order(server, ask, tmp_path) -> None:
    files = {name: picture(tmp_path / name, "PNG" if name.endswith("png") else "JPEG") for name in ("a.png", "b.jpg")}
    original, drawn = (MediaPart(f"input:{name}", name) for name in files)
    prompt = load_prompt("trace.v1").render(
        {"original": [original], "overlay": [drawn]}, question="q", choices="", points="p", answer_format=""
    )
    ask(prompt=prompt)
    content = server.seen[0].body["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "text", "image_url", "text"]
    assert [part["text"] for part in content if part["type"] == "text"] == [
        part.text for part in prompt.user if not isinstance(part, MediaPart)
    ]
    assert sent_images(server.seen[0].body) == [("image/png", files["a.png"]), ("image/jpeg", files["b.jpg"])]


@pytest.mark.parametrize(
    ("form", "orientation", "upright"),
    [("JPEG", 6, False), ("PNG", 6, False), ("JPEG", 3, False), ("WEBP", None, True), ("BMP", None, True)],
)
def test_other_images_are_reencoded_upright(server, ask, tmp_path, form, orientation, upright) -> None:
    original = picture(tmp_path / "p", form, orientation)
    part = MediaPart("input:p", "p", upright=upright)
    ask(prompt=load_prompt("point.v1").render({"original": [part]}, entity="cat"))
    ((mime, data),) = sent_images(server.seen[0].body)
    shown = Image.open(io.BytesIO(data))
    assert (mime, shown.format, shown.getexif().get(0x0112)) == ("image/png", "PNG", None)
    assert np.array_equal(np.asarray(shown), decode_image(original).pixels)
    assert shown.size == ((4, 6) if orientation == 6 else (6, 4))


def test_fewer_choices_than_asked_are_asked_for_again(server, ask) -> None:
    server.say("a", "b")
    server.say("c")
    reply = ask(n=3)
    assert texts(reply) == ["a", "b", "c"]
    assert [seen.body["n"] for seen in server.seen] == [3, 1]
    assert (reply.requests, reply.retries, reply.tokens_in, reply.tokens_out) == (2, 0, 20, 10)


def test_more_choices_than_asked_are_dropped(server, ask) -> None:
    server.say("a", "b", "c")
    assert texts(ask(n=2)) == ["a", "b"]


def test_no_more_samples_per_request_than_the_settings_allow(server, ask) -> None:
    assert len(texts(ask(n=5, samples_per_request=2))) == 5
    assert [seen.body["n"] for seen in server.seen] == [2, 2, 1]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart(server, ask, field) -> None:
    server.say({"message": {"role": "assistant", "content": "3", field: "one, two, three"}})
    assert ask().completions == (Completion("3", "one, two, three", "stop"),)


def test_a_truncated_sample_is_marked(server, ask) -> None:
    server.say({"message": {"content": "I see"}, "finish_reason": "length"})
    assert ask().completions == (Completion("I see", "", "length"),)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_errors_are_sent_again(server, ask, status) -> None:
    server.fail(status, retry_after="0.01")
    server.fail(status, retry_after="0.01")
    server.say("fine")
    reply = ask()
    assert texts(reply) == ["fine"]
    assert (reply.requests, reply.retries) == (3, 2)


@pytest.mark.parametrize(
    ("status", "expected", "requests"),
    [
        (429, Failure.RATE_LIMITED, 3),
        (500, Failure.SERVER_ERROR, 3),
        (503, Failure.SERVER_ERROR, 3),
        (529, Failure.SERVER_ERROR, 3),
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
    assert (error.failure, error.requests, len(server.seen)) == (expected, requests, requests)
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


def test_a_reset_connection_is_sent_again(server, ask) -> None:
    server.reset()
    server.say("fine")
    assert texts(ask()) == ["fine"]


def test_a_lasting_reset_is_a_connection_failure(server, failure) -> None:
    server.reset()
    error = failure(max_retries=0)
    assert (error.failure, error.requests) == (Failure.CONNECTION, 1)


def test_nobody_listening_is_a_connection_failure(failure) -> None:
    assert failure(max_retries=0, base_url="http://127.0.0.1:9/v1").failure is Failure.CONNECTION


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


def test_a_body_that_ends_early_is_sent_again(server, ask) -> None:
    server.say("lost", cut=20)
    server.say("fine")
    reply = ask()
    assert (texts(reply), reply.retries) == (["fine"], 1)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 3}, {"prompt_tokens": None, "completion_tokens": None}])
def test_missing_usage_counts_as_nothing(server, ask, usage) -> None:
    server.raw({**message(content="fine"), "usage": usage})
    reply = ask()
    assert texts(reply) == ["fine"]
    assert (reply.tokens_in, reply.tokens_out) == ((usage or {}).get("prompt_tokens") or 0, 0)


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


def test_the_key_comes_from_the_environment(server, ask, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-this-one")
    monkeypatch.setenv("GROUNDTRACE_TEST_KEY", KEY)
    ask(api_key_env="GROUNDTRACE_TEST_KEY")
    ask()
    assert [seen.headers["authorization"] for seen in server.seen] == [f"Bearer {KEY}", "Bearer none"]


@pytest.mark.parametrize("value", [None, ""])
def test_a_key_that_is_not_set_is_named(ask, monkeypatch, value) -> None:
    monkeypatch.delenv("GROUNDTRACE_TEST_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("GROUNDTRACE_TEST_KEY", value)
    with pytest.raises(ValueError, match="environment variable GROUNDTRACE_TEST_KEY is not set"):
        ask(api_key_env="GROUNDTRACE_TEST_KEY")


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_the_key_is_never_in_an_error(server, failure, monkeypatch, status) -> None:
    monkeypatch.setenv("GROUNDTRACE_TEST_KEY", KEY)
    server.fail(status, f"Incorrect API key provided: {KEY}. Header: Bearer {KEY}")
    error = failure(api_key_env="GROUNDTRACE_TEST_KEY", max_retries=0)
    assert KEY not in str(error)
    assert KEY not in repr(error)
    assert KEY not in error.message


def test_a_base_url_is_needed(ask) -> None:
    with pytest.raises(ValueError, match="needs a base_url"):
        ask(base_url="")


def test_check_finds_the_model(server, use) -> None:
    server.raw({"object": "list", "data": [{"id": "other", "object": "model"}, {"id": "tiny", "object": "model"}]})
    assert use(lambda endpoint: endpoint.check()) == "serves tiny"
    assert server.seen[0].path == "/v1/models"


def test_check_names_the_models_served(server, use) -> None:
    server.raw({"object": "list", "data": [{"id": "other", "object": "model"}]})
    with pytest.raises(CallError, match=r"serves \['other'\], not 'tiny'"):
        use(lambda endpoint: endpoint.check())


def test_check_of_a_server_that_refuses(server, use) -> None:
    server.fail(401)
    with pytest.raises(CallError, match="unauthorised"):
        use(lambda endpoint: endpoint.check())


def test_no_more_requests_at_once_than_max_concurrency(server, use, text_prompt) -> None:
    async def many(endpoint: OpenAIEndpoint) -> int:
        calls = (endpoint.generate(Request(text_prompt(str(i)), Sampling(), (0,))) for i in range(12))
        return len(await asyncio.gather(*calls))

    three = threading.Barrier(3)
    for _ in range(12):
        server.say("fine", meet=three)
    assert use(many, max_concurrency=3) == 12
    assert server.most_at_once == 3
