"""The server that the other vLLM tests stand on does what Groundtrace asks of an endpoint."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import openai
import pytest
from PIL import Image

if TYPE_CHECKING:
    from conftest import VllmServer

pytestmark = pytest.mark.vllm

RED, BLUE = (220, 30, 30), (30, 30, 220)
ANSWERS = ("yes", "no", "cannot read")
REPLY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "enum": list(ANSWERS)},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "labels": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"type": "string", "maxLength": 12},
        },
    },
    "required": ["answer", "count", "labels"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def client(vllm_server: VllmServer) -> Iterator[openai.OpenAI]:
    # A proxy named in the environment can't reach this machine's loopback.
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=vllm_server.base_url, api_key="unused", max_retries=0, timeout=120, http_client=http
    ) as made:
        yield made


def square(colour: tuple[int, int, int], width_px: int = 96, height_px: int = 64) -> dict[str, Any]:
    """An ``image_url`` part: a PNG data URI of a square of ``colour`` on grey."""
    pixels = np.full((height_px, width_px, 3), 128, dtype=np.uint8)
    pixels[height_px // 4 : 3 * height_px // 4, width_px // 4 : 3 * width_px // 4] = colour
    png = io.BytesIO()
    Image.fromarray(pixels).save(png, "PNG")
    uri = "data:image/png;base64," + base64.b64encode(png.getvalue()).decode("ascii")
    return {"type": "image_url", "image_url": {"url": uri}}


def ask(client: openai.OpenAI, server: VllmServer, *parts: dict[str, Any], **settings: Any) -> Any:
    """One chat completion of the question with ``parts`` before it; at most 24 tokens unless told."""
    content = [*parts, {"type": "text", "text": "Which square is on the left?"}]
    messages: Any = [{"role": "user", "content": content}]
    chosen: dict[str, Any] = {"max_tokens": 24, "seed": 7} | settings
    return client.chat.completions.create(model=server.model, messages=messages, **chosen)


def first_logprobs(reply: Any) -> dict[str, float]:
    """The likeliest first tokens of a reply and their log-probabilities."""
    return {entry.token: entry.logprob for entry in reply.choices[0].logprobs.content[0].top_logprobs}


def test_the_model_is_listed_with_its_context(client: openai.OpenAI, vllm_server: VllmServer) -> None:
    (listed,) = client.models.list().data
    assert listed.id == vllm_server.model
    assert getattr(listed, "max_model_len", None) == 8192


def test_text_chat(client: openai.OpenAI, vllm_server: VllmServer) -> None:
    reply = ask(client, vllm_server, extra_body={"min_tokens": 4})
    (choice,) = reply.choices
    assert choice.message.content
    assert choice.finish_reason in {"stop", "length"}
    assert 4 <= reply.usage.completion_tokens <= 24


@pytest.mark.parametrize(
    ("sizes_px", "image_tokens"),
    [
        ([(96, 64)], 3 * 2),
        ([(96, 64), (64, 64)], 3 * 2 + 2 * 2),
        ([(1024, 512)], 22 * 11),
    ],
    ids=["one", "two", "one-too-large"],
)
def test_images_take_one_token_per_32_px_square(
    client: openai.OpenAI, vllm_server: VllmServer, sizes_px: list[tuple[int, int]], image_tokens: int
) -> None:
    images = [square(RED, *size_px) for size_px in sizes_px]
    without = ask(client, vllm_server).usage.prompt_tokens
    reply = ask(client, vllm_server, *images)
    assert reply.usage.completion_tokens >= 1
    start_and_end = 2 * len(images)
    assert reply.usage.prompt_tokens - without == image_tokens + start_and_end


def test_pixels_change_the_reply(client: openai.OpenAI, vllm_server: VllmServer) -> None:
    red, blue = (
        first_logprobs(ask(client, vllm_server, square(colour), max_tokens=1, logprobs=True, top_logprobs=5))
        for colour in (RED, BLUE)
    )
    shared = red.keys() & blue.keys()
    assert red.keys() != blue.keys() or max(abs(red[token] - blue[token]) for token in shared) > 0.05


def test_n_gives_that_many_choices(client: openai.OpenAI, vllm_server: VllmServer) -> None:
    reply = ask(client, vllm_server, square(RED), n=4, temperature=1.0)
    assert sorted(choice.index for choice in reply.choices) == [0, 1, 2, 3]
    assert len({choice.message.content for choice in reply.choices}) > 1


def test_a_seed_repeats_the_reply(client: openai.OpenAI, vllm_server: VllmServer) -> None:
    first, again, other = (
        ask(client, vllm_server, square(BLUE), temperature=1.0, seed=seed).choices[0].message.content
        for seed in (11, 11, 12)
    )
    assert first == again
    assert first != other


def test_structured_output_follows_the_schema(client: openai.OpenAI, vllm_server: VllmServer) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "reply", "schema": REPLY_SCHEMA, "strict": True}}
    reply = ask(client, vllm_server, square(RED), response_format=schema, max_tokens=400, n=4)
    assert [choice.finish_reason for choice in reply.choices] == ["stop"] * 4
    for choice in reply.choices:
        # Where a string has a length limit, the server's grammar lets raw control characters into it.
        record = json.loads(choice.message.content, strict=False)
        assert list(record) == ["answer", "count", "labels"]
        assert record["answer"] in ANSWERS
        assert type(record["count"]) is int
        assert 0 <= record["count"] <= 99
        assert 1 <= len(record["labels"]) <= 3
        assert all(len(label) <= 12 for label in record["labels"])


def test_the_token_limit_cuts_the_reply(client: openai.OpenAI, vllm_server: VllmServer) -> None:
    reply = ask(client, vllm_server, max_tokens=5, extra_body={"ignore_eos": True})
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.completion_tokens == 5


def test_replies_also_end_by_themselves(client: openai.OpenAI, vllm_server: VllmServer) -> None:
    reply = ask(client, vllm_server, max_tokens=1000, n=8)
    assert "stop" in {choice.finish_reason for choice in reply.choices}


def test_logprobs_of_a_given_continuation(client: openai.OpenAI, vllm_server: VllmServer) -> None:
    messages: Any = [
        {"role": "user", "content": [square(RED), {"type": "text", "text": "Which square is on the left?"}]},
        {"role": "assistant", "content": "The red square."},
    ]
    scoring = {"prompt_logprobs": 0, "add_generation_prompt": False, "continue_final_message": True}
    reply = client.chat.completions.create(model=vllm_server.model, messages=messages, max_tokens=1, extra_body=scoring)
    positions = getattr(reply, "prompt_logprobs", None)
    assert positions is not None
    assert positions[0] is None
    continuation = [next(iter(position.values())) for position in positions[-3:]]
    assert "".join(token["decoded_token"] for token in continuation).endswith("square.")
    assert all(math.isfinite(token["logprob"]) and token["logprob"] < 0 for token in continuation)


@pytest.mark.parametrize(
    ("parts", "question_words"), [([], 9000), ([square(RED)] * 9, 1)], ids=["too-long", "too-many-images"]
)
def test_what_does_not_fit_is_a_bad_request(
    client: openai.OpenAI, vllm_server: VllmServer, parts: list[dict[str, Any]], question_words: int
) -> None:
    filler = {"type": "text", "text": "how many? " * question_words}
    with pytest.raises(openai.BadRequestError):
        ask(client, vllm_server, *parts, filler)
