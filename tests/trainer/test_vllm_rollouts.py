"""What the sampler asks a vLLM server for, and what it makes of servers that fail: a server that plays a script."""

import asyncio
import base64
import json
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgpack
import pytest
import torch

from groundtrace.inference.flow import retry
from groundtrace.trainer.encode import encode_prompt, with_response
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.rollouts import make_sampler
from groundtrace.trainer.sample import EncodedImage, Rollout, Sample
from groundtrace.trainer.sampler import Place, SamplerError, turn_length
from groundtrace.trainer.settings import RolloutSettings
from groundtrace.trainer.vllm_rollouts import GENERATE, MAX_RETRIES, VllmSampler, packed_image
from groundtrace.trainer.watching.sampled import CountingSampler

END, OTHER = 2, 40
DROP, HANG = "drop", "hang"
Reply = tuple[int, Any] | str


class Scripted(ThreadingHTTPServer):
    """Answers each path with its replies in turn, the last one for ever; keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: dict[str, list[Reply]] = defaultdict(lambda: [(200, None)])
        self.replies["/server_info"] = [(200, info())]
        self.asked: list[tuple[str, Any, str | None]] = []
        self.over = threading.Event()
        self._lock = threading.Lock()

    def take(self, path: str, body: Any, key: str | None) -> Reply:
        """Note a request and give its reply; requests come in several threads at once."""
        with self._lock:
            self.asked.append((path, body, key))
            replies = self.replies[path.partition("?")[0]]
            return replies.pop(0) if len(replies) > 1 else replies[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.asked]


class Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        reply = self.server.take(self.path, json.loads(body or b"null"), self.headers.get("authorization"))
        if reply == HANG:
            self.server.over.wait()
        if isinstance(reply, str):
            self.close_connection = True
            return
        status, value = reply
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def info(mode: str = "processed_logprobs", tokens: int = 4096, **media: Any) -> dict[str, Any]:
    model = {"logprobs_mode": mode, "multimodal_config": media, "max_model_len": tokens}
    return {"vllm_config": {"model_config": model}}


def choice(ids: tuple[int, ...], reason: str = "stop", index: int = 0, logprob: float = -0.5) -> dict[str, Any]:
    content = [{"token_id": token, "logprob": logprob} for token in ids]
    return {"index": index, "finish_reason": reason, "token_ids": list(ids), "logprobs": {"content": content}}


def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send again at once."""
    for name in ("FIRST_WAIT_S", "FIRST_WAIT_AFTER_FAULT_S"):
        monkeypatch.setattr(retry, name, 0.0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    without_waits(monkeypatch)
    scripted = Scripted()
    thread = threading.Thread(target=scripted.serve_forever, args=(0.01,))
    thread.start()
    yield scripted
    scripted.over.set()
    scripted.shutdown()
    thread.join()
    scripted.server_close()


@pytest.fixture
def sampler(qwen3: VisionLanguageModel, server: Scripted, tmp_path: Path) -> VllmSampler:
    settings = RolloutSettings(kind="vllm", base_url=f"{server.url}/v1")
    made = make_sampler(qwen3, settings, str(tmp_path / "weights"), max_tokens=4096)
    assert isinstance(made, VllmSampler)
    return made


@pytest.fixture
def prompt(qwen3: VisionLanguageModel) -> Sample:
    return encode_prompt(qwen3, "q", [{"role": "user", "content": "How many?"}], [])


def answer(prompt: Sample, *choices: dict[str, Any]) -> tuple[int, Any]:
    return 200, {"prompt_token_ids": prompt.ids.tolist(), "choices": list(choices)}


def test_answers_come_in_order_with_their_tokens_and_log_probabilities(
    sampler: VllmSampler, server: Scripted, prompt: Sample
) -> None:
    server.replies[GENERATE] = [answer(prompt, choice((OTHER,), "length", 1, -2.0), choice((OTHER, END)))]
    kept = [Rollout((OTHER, END), False, (-0.5, -0.5)), Rollout((OTHER,), True, (-2.0,))]
    assert sampler.sample([prompt, prompt], 2, seed=0) == [kept, kept]


def test_complete_responses_are_counted(sampler: VllmSampler, server: Scripted, prompt: Sample) -> None:
    server.replies[GENERATE] = [answer(prompt, choice((OTHER, END)), choice((OTHER, END), index=1))]
    counting = CountingSampler(sampler)

    async def take(place: Place, turn: Rollout) -> Sample | None:
        return None

    counting.play([prompt, prompt], 2, 0, take)
    assert (counting.responses, counting.wanted) == (4, 4)


def test_the_request(qwen3: VisionLanguageModel, picture: Callable[..., EncodedImage]) -> None:
    settings = RolloutSettings(kind="vllm", temperature=0.7, max_new_tokens=9, served_name="tiny")
    shown = [picture(qwen3, 96, 64), picture(qwen3, 64, 64)]
    turns = [{"role": "user", "content": "<image>and<image>?"}]
    asked = VllmSampler(qwen3, settings, "w").request(encode_prompt(qwen3, "q", turns, shown), 3, 5)
    ids = asked["token_ids"]
    assert asked["model"] == "tiny"
    assert asked["sampling_params"] == {
        "n": 3,
        "seed": 5,
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "min_tokens": 0,
        "max_tokens": 9,
        "stop_token_ids": list(qwen3.end_ids),
        "logit_bias": {str(token): -1e9 for token in qwen3.banned_ids},
        "logprobs": 0,
        "detokenize": False,
        "skip_special_tokens": False,
    }
    # 96x64 px are 6x4 patches of 16 px, merged by 2: 6 tokens; 64x64 px are 4 of them.
    first, second = asked["features"]["mm_placeholders"]["image"]
    assert (first["length"], second["length"]) == (6, 4)
    assert ids[first["offset"] :][:6] == [qwen3.image_id] * 6
    assert ids[second["offset"] :][:4] == [qwen3.image_id] * 4
    assert ids.count(qwen3.image_id) == 10
    assert asked["features"]["mm_hashes"]["image"] == ["96x64-0-1-4-6", "64x64-0-1-4-4"]
    assert asked["features"]["kwargs_data"]["image"] == [packed_image(one) for one in shown]


def test_a_packed_picture_holds_patches_and_grid_bit_for_bit() -> None:
    patches = torch.tensor([[0.1, -2.5]])
    packed = msgpack.unpackb(base64.b64decode(packed_image(EncodedImage("k", patches, (1, 1, 1), 1, 1, 1))))
    values, grid = packed["pixel_values"]["data"], packed["image_grid_thw"]["data"]
    assert values == ["float32", [1, 2], msgpack.ExtType(3, struct.pack("<2f", 0.1, -2.5))]
    assert grid == ["int64", [3], msgpack.ExtType(3, struct.pack("<3q", 1, 1, 1))]


def test_prompts_of_a_call_are_drawn_with_seeds_of_their_own(
    sampler: VllmSampler, server: Scripted, prompt: Sample
) -> None:
    server.replies[GENERATE] = [answer(prompt, choice((END,)))]
    for seed in (0, 0, 1):
        sampler.sample([prompt, prompt], 1, seed)
    seeds = [body["sampling_params"]["seed"] for path, body, _ in server.asked if path == GENERATE]
    assert sorted(seeds[:2]) == sorted(seeds[2:4])
    assert len(set(seeds)) == 4


class Playing(Scripted):
    """Answers each prompt with turns that go on behind a call."""

    def __init__(self, prompt_ids: list[int], turn: tuple[int, ...]) -> None:
        super().__init__()
        self.prompt_ids, self.turn = prompt_ids, turn

    def take(self, path: str, body: Any, key: str | None) -> Reply:
        reply = super().take(path, body, key)
        if path != GENERATE:
            return reply
        choices = [choice(self.turn, index=index) for index in range(body["sampling_params"]["n"])]
        return 200, {"prompt_token_ids": body["token_ids"], "choices": choices}


def test_each_response_goes_on_by_itself(qwen3: VisionLanguageModel, prompt: Sample) -> None:
    """Two turns of four responses; a slow observation holds up no other response."""
    text = tuple(qwen3.tokenizer("b! c", add_special_tokens=False).input_ids)
    cut, _ = turn_length(qwen3, text, ("!",))
    playing, order, others_ended = Playing(prompt.ids.tolist(), text), list[tuple[Place, int]](), asyncio.Event()
    thread = threading.Thread(target=playing.serve_forever, args=(0.01,))
    thread.start()

    async def follow(place: Place, turn: Rollout) -> Sample | None:
        order.append((place, len(turn.ids)))
        times = sum(before == place for before, _ in order)
        if (place, times) == ((0, 0), 1):
            await asyncio.wait_for(others_ended.wait(), 60)
        if len(order) == 7:
            others_ended.set()
        return None if times == 2 else with_response(prompt, [*turn.ids, OTHER], "g")

    try:
        settings = RolloutSettings(kind="vllm", base_url=playing.url, max_new_tokens=50)
        VllmSampler(qwen3, settings, "w", ("!",)).play([prompt, prompt], 2, 7, follow)
    finally:
        playing.shutdown()
        thread.join()
        playing.server_close()
    assert cut < len(text)
    assert [length for _, length in order] == [cut] * 8, "what is behind the call is dropped"
    assert order[-1][0] == (0, 0)
    asked = [body["sampling_params"] for path, body, _ in playing.asked if path == GENERATE]
    asked.sort(key=lambda each: -each["n"])  # a prompt's turns do not wait for the other's, so any may come first
    assert [each["n"] for each in asked] == [2, 2, 1, 1, 1, 1]
    assert [each["max_tokens"] for each in asked] == [50, 50] + [50 - cut - 1] * 4
    assert len({each["seed"] for each in asked}) == 6
    assert (asked[0]["stop"], asked[0]["detokenize"], asked[0]["include_stop_str_in_output"]) == (["!"], True, True)


@pytest.mark.parametrize("fault", [(503, b"busy"), (429, b"slow down"), DROP])
def test_a_passing_fault_is_asked_again(fault: Reply, sampler: VllmSampler, server: Scripted, prompt: Sample) -> None:
    server.replies[GENERATE] = [fault, fault, answer(prompt, choice((END,)))]
    assert sampler.sample([prompt], 1, 0) == [[Rollout((END,), False, (-0.5,))]]
    assert server.paths().count(GENERATE) == 3


@pytest.mark.parametrize(
    ("fault", "tries", "says"),
    [
        ((503, b"busy"), MAX_RETRIES + 1, "status 503: busy"),
        (DROP, MAX_RETRIES + 1, "ServerDisconnected"),
        ((400, b"too\nlong"), 1, "status 400: too long"),
        ((500, b"dead"), 1, "status 500: dead"),
        ((404, b"no such model"), 1, "status 404: no such model"),
        ((200, b"<html>"), 1, "not JSON"),
    ],
)
def test_a_lasting_fault_is_one_line_that_names_server_and_cause(
    fault: Reply, tries: int, says: str, sampler: VllmSampler, server: Scripted, prompt: Sample
) -> None:
    server.replies[GENERATE] = [fault]
    with pytest.raises(SamplerError, match=says) as caught:
        sampler.sample([prompt], 1, 0)
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert server.paths().count(GENERATE) == tries


def test_a_server_that_does_not_answer(qwen3: VisionLanguageModel, server: Scripted, prompt: Sample) -> None:
    server.replies[GENERATE] = [HANG]
    settings = RolloutSettings(kind="vllm", base_url=server.url, timeout_s=0.2)
    with pytest.raises(SamplerError, match=r"sent no answer in rollout\.timeout_s = 0\.2 s"):
        VllmSampler(qwen3, settings, "w").sample([prompt], 1, 0)


def test_a_server_that_is_not_there(
    qwen3: VisionLanguageModel, prompt: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_waits(monkeypatch)
    closed = Scripted()
    closed.server_close()
    settings = RolloutSettings(kind="vllm", base_url=f"{closed.url}/v1")
    with pytest.raises(SamplerError, match="ClientConnectorError"):
        VllmSampler(qwen3, settings, "w").sample([prompt], 1, 0)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"prompt_token_ids": [1, 2]}, "another prompt"),
        ({"prompt_token_ids": None}, "another prompt"),
        ({"choices": []}, "0 answers instead of 1"),
        ({"choices": None}, "use vLLM 0.32"),
        ({"choices": [choice((OTHER,), "abort")]}, "finish reason 'abort'"),
        ({"choices": [choice(())]}, "do not belong to the tokens"),
        ({"choices": [choice((OTHER, END)) | {"token_ids": [END]}]}, "do not belong to the tokens"),
        ({"choices": [choice((OTHER,))]}, "stopped at token 40"),
        ({"choices": [choice((END,), logprob=-9999.0)]}, "is NaN"),
        ({"choices": [choice((END,)) | {"logprobs": None}]}, "use vLLM 0.32"),
    ],
)
def test_replies_that_must_not_be_trained_on(
    changed: dict[str, Any], says: str, sampler: VllmSampler, server: Scripted, prompt: Sample
) -> None:
    status, reply = answer(prompt, choice((END,)))
    server.replies[GENERATE] = [(status, reply | changed)]
    with pytest.raises(SamplerError, match=says):
        sampler.sample([prompt], 1, 0)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ((200, info("raw_logprobs")), "--logprobs-mode processed_logprobs"),
        ((200, info(mm_device_do_normalize=True)), "--no-mm-device-do-normalize"),
        ((200, info(tokens=4095)), "its --max-model-len must be at least batch.max_tokens = 4096, but is 4095"),
        ((404, b"Not Found"), "VLLM_SERVER_DEV_MODE=1"),
        ((200, {}), "use vLLM 0.32"),
    ],
)
def test_a_server_started_otherwise_is_refused_before_anything_is_sampled(
    reply: Reply, says: str, sampler: VllmSampler, server: Scripted, prompt: Sample
) -> None:
    server.replies["/server_info"] = [reply]
    with pytest.raises(SamplerError, match=says):
        sampler.sample([prompt], 1, 0)
    assert GENERATE not in server.paths()


def test_sync_saves_and_has_the_server_load_while_it_pauses(
    sampler: VllmSampler, server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    sampler.sync()
    folder = str(tmp_path / "weights")
    assert (tmp_path / "weights" / "model.safetensors").is_file()
    assert [(path, body) for path, body, _ in server.asked[1:]] == [
        ("/pause?mode=wait", None),
        ("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": folder}}),
        ("/resume", None),
    ]
    assert {key for _, _, key in server.asked} == {"Bearer secret"}


def test_a_server_that_cannot_load_the_weights_is_not_left_paused(
    sampler: VllmSampler, server: Scripted, tmp_path: Path
) -> None:
    server.replies["/collective_rpc"] = [(500, b"no such folder")]
    with pytest.raises(SamplerError, match=f"no such folder; make {tmp_path / 'weights'} readable"):
        sampler.sync()
    assert server.paths()[-1] == "/resume"
