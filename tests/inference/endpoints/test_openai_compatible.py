"""The OpenAI-compatible endpoint over real HTTP: what it sends, and what it makes of a good answer."""

import asyncio
import base64
import io
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from groundtrace.grading.messages import MediaPart
from groundtrace.inference.endpoints.openai_compatible import OpenAIEndpoint
from groundtrace.inference.errors import CallError
from groundtrace.inference.request import Completion, Reply, Request, Sampling
from groundtrace.prompts.loader import load_prompt
from groundtrace.vision.decode import decode_image

KEY = "sk-secret-0123456789"


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
    assert (reply.usage.requests, reply.usage.retries, reply.usage.tokens_in, reply.usage.tokens_out) == (2, 0, 20, 10)


def test_more_choices_than_asked_are_dropped(server, ask) -> None:
    server.say("a", "b", "c")
    assert texts(ask(n=2)) == ["a", "b"]


def test_no_more_samples_per_request_than_the_settings_allow(server, ask) -> None:
    assert len(texts(ask(n=5, samples_per_request=2))) == 5
    assert sorted(seen.body["n"] for seen in server.seen) == [1, 2, 2]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart(server, ask, field) -> None:
    server.say({"message": {"role": "assistant", "content": "3", field: "one, two, three"}})
    assert ask().completions == (Completion("3", "one, two, three", "stop"),)


def test_a_truncated_sample_is_marked(server, ask) -> None:
    server.say({"message": {"content": "I see"}, "finish_reason": "length"})
    assert ask().completions == (Completion("I see", "", "length"),)


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


def test_a_base_url_is_needed(ask) -> None:
    with pytest.raises(ValueError, match="has no base_url"):
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


@pytest.mark.parametrize(
    ("body", "status", "base", "said"),
    [
        (
            b'{"detail": "Not Found"}',
            404,
            "",
            r"HTTP 404: Not Found \(most servers have their API under /v1: is base_url http",
        ),
        (b"<html>", 200, "", "not JSON: '<html>' .*under /v1"),
        (b"{}", 200, "/api", "(?s)has no list of models.*under /v1"),
        (b'{"detail": "Not Found"}', 404, "/v1", "HTTP 404: Not Found$"),
        (b'{"error": "no"}', 401, "", "unauthorised: HTTP 401: no$"),
    ],
)
def test_check_of_a_url_without_v1_says_so(server, use, body, status, base, said) -> None:
    server.raw(body, status=status)
    with pytest.raises(CallError, match=said):
        use(lambda endpoint: endpoint.check(), base_url=server.base_url.removesuffix("/v1") + base)


def test_no_more_requests_at_once_than_max_concurrency(server, use, text_prompt) -> None:
    async def many(endpoint: OpenAIEndpoint) -> int:
        calls = (endpoint.generate(Request(text_prompt(str(i)), Sampling(), (0,))) for i in range(12))
        return len(await asyncio.gather(*calls))

    three = threading.Barrier(3)
    for _ in range(12):
        server.say("fine", meet=three)
    assert use(many, max_concurrency=3) == 12
    assert server.most_at_once == 3
