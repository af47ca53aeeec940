"""The model interface against a real vLLM server: scored continuations, many samples, replies held to a schema."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from groundtrace.grading.messages import MediaPart, Part, TextPart
from groundtrace.inference.caller import CallResult
from groundtrace.inference.request import Continuation, Sampling
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.vision.hashing import sha256_bytes

from ..inference.asking import call

if TYPE_CHECKING:
    from conftest import VllmServer

pytestmark = pytest.mark.vllm

REFERENCE = Path(__file__).with_name("reference_logprobs.py")
REFERENCE_LIMIT_S = 240.0
TOLERANCE_NATS = 1e-2
QUESTION = "How many red squares are there?"
CONTINUATIONS = {
    "answer-after-reasoning": (1, Continuation("<think>First look at the left.</think><answer>", "B</answer>")),
    "no-picture": (0, Continuation("<think>I count three.</think>", "<answer>3</answer>")),
    "two-pictures": (2, Continuation("Count each: ", "the answer is three.")),
    "whole-reply": (1, Continuation("", "The red square is left of the blue circle, so the answer is three.")),
    "token-across-the-border": (1, Continuation("The ans", "wer is three.")),
    "several-bytes-a-letter": (1, Continuation("é → ", "ü🙂 größer")),
    "line-breaks": (1, Continuation("\nfirst\n", "\n  second\n")),
    "long": (1, Continuation("Count each of them and point at them. " * 40, "<box>[10,20,300,400]</box> " * 20 + "7")),
}
"""By name: how many pictures stand before the question, and what is scored."""


@pytest.fixture
def pictures(tmp_path: Path) -> list[MediaPart]:
    """Two pictures of other sizes and colours, in the folder ``data``."""
    parts = []
    (tmp_path / "data").mkdir()
    for name, size_px, colour in (("red.png", (96, 64), (220, 30, 30)), ("blue.png", (128, 160), (30, 30, 220))):
        pixels = np.full((size_px[1], size_px[0], 3), 128, dtype=np.uint8)
        pixels[16:48, 24:72] = colour
        path = tmp_path / "data" / name
        Image.fromarray(pixels).save(path)
        parts.append(MediaPart(f"input:{name}", sha256_bytes(path.read_bytes())))
    return parts


def prompt(*media: MediaPart, schema: str | None = None) -> RenderedPrompt:
    """A question with ``media`` before it and words in between."""
    parts: list[Part] = [part for medium in media for part in (TextPart("A picture: "), medium)]
    system = "You look at pictures."
    return RenderedPrompt("look.v1", "0" * 64, system, (*parts, TextPart(QUESTION)), schema, ())


Ask = Callable[..., CallResult]


@pytest.fixture
def ask(vllm_server: VllmServer, tmp_path: Path) -> Ask:
    """One call through the models, with the cache in a file that the test's calls of the same ``cache`` share."""

    def run(
        asked: RenderedPrompt,
        sampling: Sampling | None = None,
        *,
        seed: int | None = None,
        cache: str = "replies",
        **changes: Any,
    ) -> CallResult:
        endpoint = EndpointSettings(
            "openai", vllm_server.model, base_url=vllm_server.base_url, logprobs=True, max_retries=0, seed=seed
        )
        settings = ModelsSettings(
            endpoints=(("tiny", endpoint),),
            roles=(("policy", "tiny"),),
            cache_path=str(tmp_path / f"{cache}.sqlite"),
            input_root=str(tmp_path / "data"),
            run_root=str(tmp_path / "run"),
        )
        return call(settings, lambda models: models.generate("policy", asked, sampling or Sampling(), **changes))

    return run


def messages(asked: RenderedPrompt, folder: Path) -> list[dict[str, Any]]:
    """The prompt in transformers' form."""
    content = [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image", "path": str(folder / part.uri.removeprefix("input:"))}
        for part in asked.user
    ]
    system = {"role": "system", "content": [{"type": "text", "text": asked.system}]}
    return [system, {"role": "user", "content": content}]


def test_continuations_are_scored_as_transformers_does(
    ask: Ask, pictures: list[MediaPart], vllm_python: Path, tiny_qwen3vl_dir: Path, tmp_path: Path
) -> None:
    asked = {name: prompt(*pictures[:count]) for name, (count, _) in CONTINUATIONS.items()}
    cases = [
        {"messages": messages(asked[name], tmp_path / "data"), "given": scored.given, "text": scored.text}
        for name, (_, scored) in CONTINUATIONS.items()
    ]
    reference = subprocess.run(
        [vllm_python, REFERENCE, tiny_qwen3vl_dir],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=REFERENCE_LIMIT_S,
        check=False,
    )
    assert reference.returncode == 0, reference.stderr
    for (name, (_, scored)), expected in zip(CONTINUATIONS.items(), json.loads(reference.stdout), strict=True):
        answered = ask(asked[name], continuation=scored)
        logprobs = answered.completions[0].logprobs
        assert answered.text == scored.text
        assert len(logprobs) == len(expected) > 0, name
        largest = max(abs(ours - theirs) for ours, theirs in zip(logprobs, expected, strict=True))
        print(f"{name}: {len(logprobs)} tokens, largest difference {largest:.1e} nats")
        assert largest < TOLERANCE_NATS, name
        assert answered.call.usage.tokens_in > len(logprobs)
        again = ask(asked[name], continuation=scored)
        assert again.completions == answered.completions
        assert (answered.call.usage.requests, again.call.usage.requests) == (1, 0)


def test_the_picture_and_the_reasoning_change_the_score(ask: Ask, pictures: list[MediaPart]) -> None:
    def total(picture: MediaPart, given: str) -> float:
        return sum(ask(prompt(picture), continuation=Continuation(given, "three.")).completions[0].logprobs)

    red, blue = pictures
    scores = [total(red, "Count. "), total(blue, "Count. "), total(red, "Point. ")]
    assert min(abs(a - b) for a in scores for b in scores if a is not b) > TOLERANCE_NATS


def test_eight_samples_come_with_one_request_and_differ(ask: Ask, pictures: list[MediaPart]) -> None:
    sampling = Sampling(n=8, temperature=1.0, max_tokens=24)
    answered = ask(prompt(pictures[0]), sampling)
    assert len(answered.completions) == 8
    assert len({completion.text for completion in answered.completions}) > 4
    assert answered.call.usage.tokens_out > 8
    again = ask(prompt(pictures[0]), sampling)
    assert again.completions == answered.completions
    assert (again.call.usage.requests, again.call.usage.cached) == (0, 8)


def test_eight_samples_come_again_with_their_seeds(ask: Ask, pictures: list[MediaPart]) -> None:
    """Into empty caches, so that the server draws each time; a sample's seed is the endpoint's plus its number."""
    asked, sampling = prompt(pictures[0]), Sampling(n=8, temperature=1.0, max_tokens=24)
    first, again, shifted = (
        [completion.text for completion in ask(asked, sampling, seed=seed, cache=cache).completions]
        for seed, cache in ((7, "first"), (7, "again"), (8, "shifted"))
    )
    assert len(set(first)) > 4
    assert again == first
    assert shifted[:-1] == first[1:]
    assert shifted != first


def test_a_truncated_reply_stands_where_the_context_has_no_room_for_more(ask: Ask, pictures: list[MediaPart]) -> None:
    first = ask(prompt(pictures[0]), Sampling(max_tokens=4))
    assert first.completions[0].finish_reason == "length"
    beyond = [ask(prompt(pictures[0]), Sampling(max_tokens=20_000)) for _ in range(2)]
    assert [answered.completions for answered in beyond] == [first.completions] * 2
    assert [answered.call.usage.requests for answered in beyond] == [1, 0]


def test_samples_follow_a_bundled_prompts_schema(ask: Ask, pictures: list[MediaPart]) -> None:
    bundled = load_prompt("judge_answer.v1").render(question=QUESTION, gold="3", predicted="three")
    assert bundled.reply_schema is not None
    asked = prompt(pictures[0], schema=bundled.reply_schema)
    answered = ask(asked, Sampling(n=8, temperature=1.0, max_tokens=400))
    schema = json.loads(bundled.reply_schema)
    for completion in answered.completions:
        assert completion.finish_reason == "stop"
        reply = json.loads(completion.text, strict=False)
        assert set(schema["required"]) <= set(reply) <= set(schema["properties"])
