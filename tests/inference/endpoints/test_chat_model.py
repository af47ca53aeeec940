"""The endpoint kind transformers_chat: what it draws, beside ``generate`` and the trainer, and what it refuses."""

import asyncio
import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from groundtrace.config.errors import ConfigError
from groundtrace.grading.messages import MediaPart, TextPart, media_part
from groundtrace.inference.endpoint import check_access, open_endpoint
from groundtrace.inference.endpoints import chat_generation
from groundtrace.inference.endpoints.chat_model import ChatEndpoint
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Continuation, Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.records import MediaRef
from groundtrace.trainer.encode import encode_prompt
from groundtrace.trainer.model import VisionLanguageModel, load_model, set_attention
from groundtrace.trainer.settings import ModelSettings
from groundtrace.vision.media import MediaStore

from ...vllm import tiny_qwen3vl
from ..vision_calls import noise

PIXELS = noise(width=96, height=64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("chat") / "qwen3"
    tiny_qwen3vl.write_model(out)
    return out


@pytest.fixture
def picture(medium: Callable[..., MediaRef]) -> MediaPart:
    return media_part(medium(PIXELS))


def prompt(*parts: MediaPart | str, system: str = "") -> RenderedPrompt:
    shown = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
    return RenderedPrompt("attempt.v1", "0" * 64, system, shown, None, ())


def drawn(tmp_path: Path, folder: Path, *requests: Request, **changes: Any) -> list[Reply]:
    """The replies to requests that arrive together; the model runs on one thread."""

    async def main() -> list[Reply]:
        settings = EndpointSettings(**({"kind": "transformers_chat", "model": str(folder)} | changes))
        endpoint = open_endpoint(settings, MediaStore(str(tmp_path / "data"), str(tmp_path / "run")), 2)
        assert isinstance(endpoint, ChatEndpoint)
        try:
            return list(await asyncio.gather(*map(endpoint.generate, requests)))
        finally:
            await endpoint.close()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return asyncio.run(main())
    finally:
        torch.set_num_threads(threads)


def asked(shown: RenderedPrompt, n: int = 1, temperature: float = 1.0, **sampling: Any) -> Request:
    return Request(shown, Sampling(n, temperature, **({"max_tokens": 12} | sampling)), tuple(range(n)))


def texts(reply: Reply) -> list[str]:
    return [each.text for each in reply.completions]


def test_a_batch_draws_what_each_request_draws_alone(tmp_path: Path, folder: Path, picture: MediaPart) -> None:
    """Requests of one and of several images, with and without a system message, and of two samplings."""
    requests = [
        asked(prompt(picture, "How many dots?"), n=3),
        asked(prompt("Which is larger,", picture, "or", picture, "?", system="Look twice."), n=2),
        asked(prompt("No picture at all."), n=1),
        asked(prompt(picture, "How many dots?"), n=1, temperature=0.0),
    ]
    together = drawn(tmp_path, folder, *requests)
    for request, reply in zip(requests, together, strict=True):
        assert texts(drawn(tmp_path, folder, request)[0]) == texts(reply)
    assert len({*texts(together[0])}) == 3
    few = drawn(tmp_path, folder, *requests, max_concurrency=1)
    assert [texts(reply) for reply in few] == [texts(reply) for reply in together]
    second = replace(requests[0], indices=(1,))
    assert texts(drawn(tmp_path, folder, second)[0]) == texts(together[0])[1:2]


def next_logits(vlm: VisionLanguageModel, ids: list[int], pixels: np.ndarray) -> torch.Tensor:
    """The logits after these tokens, without media tokens; the model runs without cache and padding."""
    seen = vlm.processor.image_processor(images=[Image.fromarray(pixels)], return_tensors="pt")
    shown = torch.tensor([ids])
    with torch.inference_mode():
        logits = vlm.model(input_ids=shown, mm_token_type_ids=(shown == vlm.image_id).long(), **seen).logits[0, -1]
    logits = logits.clone()
    logits[list(vlm.never_ids)] = -math.inf
    return logits


@pytest.fixture
def vlm(folder: Path) -> VisionLanguageModel:
    loaded = load_model(ModelSettings(path=str(folder), dtype="float32"), device="cpu")
    set_attention(loaded.model, "sdpa")
    return loaded


@pytest.fixture
def trained_on(vlm: VisionLanguageModel) -> list[int]:
    """The tokens of the prompt in training."""
    image = vlm.encode_image(Image.fromarray(PIXELS), "one")
    return list(encode_prompt(vlm, "q", [{"role": "user", "content": "<image>How many dots?"}], (image,)).ids)


def test_the_best_tokens_after_the_trainer_s_prompt(
    tmp_path: Path, folder: Path, picture: MediaPart, vlm: VisionLanguageModel, trained_on: list[int]
) -> None:
    ids = list(trained_on)
    while len(ids) < len(trained_on) + 12:
        logits = next_logits(vlm, ids, PIXELS)
        if len(ids) == len(trained_on):
            logits[list(vlm.end_ids)] = -math.inf  # a reply has at least one token
        ids.append(int(logits.argmax()))
        if ids[-1] in vlm.end_ids:
            break
    [reply] = drawn(tmp_path, folder, asked(prompt(picture, "How many dots?"), temperature=0.0))
    kept = [token for token in ids[len(trained_on) :] if token not in vlm.end_ids]
    assert texts(reply) == [vlm.tokenizer.decode(kept, skip_special_tokens=True)]


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (1.0, 0.3)])
def test_samples_follow_the_model_s_distribution(
    tmp_path: Path,
    folder: Path,
    picture: MediaPart,
    vlm: VisionLanguageModel,
    trained_on: list[int],
    temperature: float,
    top_p: float,
) -> None:
    """Chi-square of the first tokens of 1,000 samples; the limit is five standard deviations above its mean."""
    logits = next_logits(vlm, trained_on, PIXELS)
    logits[list(vlm.end_ids)] = -math.inf
    ordered = sorted(enumerate((logits / temperature).softmax(0).tolist()), key=lambda each: -each[1])
    before, kept = 0.0, dict[str, float]()
    for token, chance in ordered:
        if before < top_p and chance > 0:
            text = vlm.tokenizer.decode([token], skip_special_tokens=True)
            kept[text] = kept.get(text, 0.0) + chance
        before += chance
    kept = {text: chance / sum(kept.values()) for text, chance in kept.items() if text.strip()}
    request = asked(prompt(picture, "How many dots?"), 1000, temperature, top_p=top_p, max_tokens=1)
    counts = Counter(texts(drawn(tmp_path, folder, request)[0]))
    frequent = {text: 1000 * chance for text, chance in kept.items() if 1000 * chance >= 5}
    assert top_p == 1.0 or not {text for text in counts if text.strip()} - kept.keys()
    chi = sum((counts[text] - wanted) ** 2 / wanted for text, wanted in frequent.items())
    assert len(frequent) > 2 and chi < len(frequent) + 5 * math.sqrt(2 * len(frequent))


def test_the_log_probabilities_of_a_continuation(
    tmp_path: Path, folder: Path, picture: MediaPart, vlm: VisionLanguageModel, trained_on: list[int]
) -> None:
    tokens = vlm.tokenizer("dots are two", add_special_tokens=False).input_ids
    expected = []
    for place, token in enumerate(tokens):
        seen = vlm.processor.image_processor(images=[Image.fromarray(PIXELS)], return_tensors="pt")
        ids = torch.tensor([[*trained_on, *tokens[:place]]])
        with torch.inference_mode():
            logits = vlm.model(input_ids=ids, mm_token_type_ids=(ids == vlm.image_id).long(), **seen).logits[0, -1]
        expected.append(float(logits.log_softmax(0)[token]))
    request = Request(prompt(picture, "How many dots?"), Sampling(), (0,), Continuation("", "dots are two"))
    [reply] = drawn(tmp_path, folder, request)
    assert reply.completions[0].logprobs == pytest.approx(expected, abs=1e-4)


def test_a_reply_that_is_cut_off_says_so(tmp_path: Path, folder: Path) -> None:
    [reply] = drawn(tmp_path, folder, asked(prompt("Go on."), n=8, max_tokens=2))
    assert {each.finish_reason for each in reply.completions} <= {"stop", "length"}
    assert any(each.is_truncated for each in reply.completions)


def test_a_video_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(CallError, match=r"accepts only images, but the prompt attempt\.v1 has a video"):
        drawn(tmp_path, folder, asked(prompt(MediaPart("x.mp4", "0" * 64, "video"), "What happens?")))


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path, folder: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare)
    for file in bare.glob("*chat_template*"):
        file.unlink()
    for name in ("tokenizer_config.json", "processor_config.json"):
        file = bare / name
        if file.exists():
            content = json.loads(file.read_text("utf-8"))
            content.pop("chat_template", None)
            file.write_text(json.dumps(content), "utf-8")
    with pytest.raises(CallError, match="has no chat template"):
        drawn(tmp_path, bare, asked(prompt("Hello.")))


def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CallError) as caught:
        drawn(tmp_path, tmp_path / "empty", asked(prompt("Hello.")))
    assert "cannot be loaded" in str(caught.value) and "\n" not in str(caught.value)


def test_as_a_pointer_it_needs_a_family() -> None:
    endpoint = EndpointSettings(kind="transformers_chat", model="m")
    with pytest.raises((ValueError, ConfigError), match=r"endpoints\.own\.family is not set"):
        check_access({"own": endpoint}, {"pointer": "own"})
    check_access({"own": replace(endpoint, family="qwen3-vl")}, {"pointer": "own"})


ENDING = """
import asyncio, sys, threading, time
from groundtrace.inference.endpoints import chat_model
from groundtrace.inference.request import Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt

class Slow:
    def chat(self, *_):
        return None
    def draw(self, chats, indices, sampling, must_end):
        print("drawn", flush=True)
        time.sleep(0.5)
        return [[("text", "stop")] for _ in chats]

chat_model.of_library = lambda *_: Slow()
endpoint = chat_model.ChatEndpoint(EndpointSettings("transformers_chat", "m", max_concurrency=1), None, 1)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
prompt = RenderedPrompt("attempt.v1", "0" * 64, "", (), None, ())
for _ in range(100):
    asyncio.run_coroutine_threadsafe(endpoint.generate(Request(prompt, Sampling(1), (0,))), loop)
time.sleep(0.8)
sys.exit(130)
"""


def test_a_process_that_ends_does_not_answer_what_waits() -> None:
    """Ctrl-C ends a run at once, although hundreds of requests wait for the model."""
    ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=40, check=False)
    assert ended.returncode == 130, ended.stderr
    assert 1 <= ended.stdout.count("drawn") <= 5


def test_a_closed_endpoint_stops_a_long_reply(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model never writes the end token, so this reply would take minutes."""
    monkeypatch.setattr(chat_generation, "_end_ids", lambda model, _: [model.config.video_token_id])

    async def main() -> list[BaseException | Reply]:
        settings = EndpointSettings("transformers_chat", str(folder))
        endpoint = open_endpoint(settings, MediaStore(str(tmp_path / "data"), str(tmp_path / "run")), 2)
        await endpoint.check()
        requests = [asked(prompt("Why?"), max_tokens=4000), asked(prompt("How?"), max_tokens=3000)]
        waiting = [asyncio.ensure_future(endpoint.generate(each)) for each in requests]
        await asyncio.sleep(1)
        await endpoint.close()
        return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)

    for found in asyncio.run(main()):
        assert isinstance(found, CallError)
        assert (found.failure, found.message) == (Failure.STOPPED, "the model was stopped, because the run has ended")
