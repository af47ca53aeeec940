"""Rollouts in several turns from a real vLLM server, with code that is executed in the sandbox and shows images."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from groundtrace.trainer.collate import collate
from groundtrace.trainer.encode import with_response
from groundtrace.trainer.environments.sandbox import SandboxEnvironment
from groundtrace.trainer.episodes import LEFT_OUT, roll_out
from groundtrace.trainer.grpo import train_grpo
from groundtrace.trainer.policy import score
from groundtrace.trainer.rollouts import TransformersSampler
from groundtrace.trainer.sample import EncodedImage, Limit, Observed, Rollout, Sample
from groundtrace.trainer.sampler import Sampler
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.vllm_rollouts import GENERATE, VllmSampler

from .led_policy import ANSWERS, FIRST, LIMITS, SECOND, Led, final, lead

pytestmark = pytest.mark.vllm

TOLERANCE_NATS = 1e-3
"""Between log-probabilities of the server and of the trainer's forward pass, both in float32, of any token."""
GROUP = 12
STOPS = SandboxEnvironment.stops
ERROR = "NameError: name 'area' is not defined\n</interpreter>"


@pytest.fixture(scope="module")
def led(tiny_qwen3vl_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Led:
    torch.manual_seed(0)
    return lead(tiny_qwen3vl_dir, tmp_path_factory.mktemp("led"))


class Recording(VllmSampler):
    """Keeps each request with the server's reply, and when both were."""

    def __init__(self, led: Led, settings: TrainerSettings) -> None:
        super().__init__(led.vlm, settings.rollout, str(led.folder.parent / "weights"), STOPS)
        self.asked: list[tuple[dict[str, Any], dict[str, Any], float, float]] = []

    async def _ask(self, session: Any, path: str, body: Any = None, method: str = "POST") -> Any:
        started = time.monotonic()
        reply = await super()._ask(session, path, body, method)
        if path == GENERATE:
            self.asked.append((body, reply, started, time.monotonic()))
        return reply


class Greedy(Recording):
    """Asks for the likeliest token each time."""

    def request(self, prompt: Sample, n: int, seed: int) -> dict[str, Any]:
        body = super().request(prompt, n, seed)
        body["sampling_params"]["temperature"] = 0.0
        return body


def played(led: Led, sampler: Sampler, settings: TrainerSettings, n: int, seed: int = 0) -> list[Rollout]:
    sampler.sync()
    [found] = roll_out(led.vlm, sampler, settings, [(led.row, led.prompt)], n, seed)
    return found


@dataclass
class Played:
    """A group of responses and the requests that drew them."""

    rollouts: list[Rollout]
    sampler: Recording


@pytest.fixture(scope="module", params=[1.0, 0.7])
def group(request: pytest.FixtureRequest, led: Led, rollout_url: str) -> Played:
    settings = led.settings(rollout_url, rollout={"temperature": request.param})
    sampler = Recording(led, settings)
    return Played(played(led, sampler, settings, GROUP), sampler)


def whole(rollouts: list[Rollout]) -> list[Rollout]:
    """The responses that went as the policy has learnt it, of which there have to be some."""
    found = [each for each in rollouts if (text := each.text) and FIRST in text and SECOND in text and last(each)]
    assert len(found) >= GROUP // 2
    return found


def last(rollout: Rollout) -> str:
    """The answer with which the response ends; "" if it is none of those that the policy has learnt."""
    return next((answer for answer in ANSWERS if (rollout.text or "").endswith(final(answer))), "")


def test_code_runs_and_its_images_come_back(group: Played) -> None:
    for each in whole(group.rollouts):
        assert each.trajectory is not None
        assert [turn.status for turn in each.trajectory.written] == ["error", "ok", ""]
        assert [len(seen.tokens.images) for seen in each.observed] == [0, 1]
        assert (each.lost, each.limits, each.is_truncated) == ("", (), False)
    assert {*map(last, whole(group.rollouts))} == {*ANSWERS}


def test_the_tokens_that_are_sent_are_those_that_were_sampled(led: Led, group: Played) -> None:
    """Of every request and reply: nothing between a reply and the next turn's prompt is tokenised again."""
    prompt = led.prompt.ids.tolist()
    prefixes = [(each, start) for each in group.rollouts for start, _ in each.turns]
    sent = Counter(tuple(body["token_ids"]) for body, *_ in group.sampler.asked)
    wanted = Counter((*prompt, *each.ids[:start]) for each, start in prefixes if start)
    assert sent == wanted + Counter([tuple(prompt)]), "one request for all first turns, and one for each later turn"
    drawn = {
        (*body["token_ids"], *choice["token_ids"]): [token["logprob"] for token in choice["logprobs"]["content"]]
        for body, reply, *_ in group.sampler.asked
        for choice in reply["choices"]
    }
    for each in group.rollouts:
        assert each.logprobs is not None
        for start, end in each.turns:
            logprobs = drawn[(*prompt, *each.ids[:end])]
            assert tuple(logprobs) == each.logprobs[start:end], "what is trained on is what the server drew, whole"


def test_each_request_has_the_images_of_its_tokens(led: Led, group: Played) -> None:
    for body, *_ in group.sampler.asked:
        images = body["features"]["mm_placeholders"]["image"]
        at = [place for each in images for place in range(each["offset"], each["offset"] + each["length"])]
        assert at == [place for place, token in enumerate(body["token_ids"]) if token == led.vlm.image_id]
        assert len(images) == len(body["features"]["kwargs_data"]["image"])
        params = body["sampling_params"]
        assert (params["top_p"], params["top_k"], params["logprobs"]) == (1.0, 0, 0)
    counts = Counter(len(body["features"]["mm_hashes"]["image"]) for body, *_ in group.sampler.asked)
    assert counts[2] >= len(whole(group.rollouts)), "the question's image, and the one that the code showed"


def sample_of(led: Led, rollout: Rollout) -> Sample:
    return with_response(led.prompt, rollout.ids, "g", rollout.is_truncated, rollout.observed)


def test_masks_token_by_token(led: Led, group: Played) -> None:
    """What the policy wrote counts; the result, its image and the template between the turns do not."""
    for each in whole(group.rollouts):
        sample, pieces = sample_of(led, each), list[tuple[str, bool, bool]]()
        kinds = zip(sample.ids.tolist(), sample.loss_mask.tolist(), sample.is_image.tolist(), strict=True)
        for token, counts, is_image in list(kinds)[len(led.prompt) :]:
            text = led.vlm.tokenizer.decode([token], skip_special_tokens=False)
            if pieces and pieces[-1][1:] == (counts, is_image):
                text = pieces.pop()[0] + text
            pieces.append((text, counts, is_image))
        failed, (shown, rest) = pieces[1][0], (pieces[3][0], pieces[5][0])
        assert pieces == [
            (FIRST, True, False),
            (failed, False, False),
            (SECOND, True, False),
            (shown, False, False),
            ("<|image_pad|>" * 16, False, True),
            (rest, False, False),
            (f"{final(last(each))}<|im_end|>", True, False),
        ]
        assert failed.startswith("<|im_end|>\n<|im_start|>user\n<interpreter>\nTraceback")
        assert failed.endswith(f"{ERROR}<|im_end|>\n<|im_start|>assistant\n")
        assert shown == "<|im_end|>\n<|im_start|>user\n<interpreter>\n400\n<|vision_start|>"
        assert rest == "<|vision_end|>\n</interpreter><|im_end|>\n<|im_start|>assistant\n"
        assert each.logprobs is not None
        between = [place for seen in each.observed for place in range(seen.start, seen.end)]
        assert not any(each.logprobs[place] for place in between)


@torch.no_grad()
def differences(led: Led, rollout: Rollout, temperature: float) -> torch.Tensor:
    """Between the server's log-probabilities of the policy's tokens and the trainer's, in nats."""
    ours = score(led.vlm, collate(led.vlm, [sample_of(led, rollout)]), temperature, led.vlm.never_ids).logprobs
    assert rollout.logprobs is not None
    theirs = [value for start, end in rollout.turns for value in rollout.logprobs[start:end]]
    return (ours - torch.tensor(theirs)).abs()


def test_log_probabilities_are_the_trainers(led: Led, group: Played) -> None:
    """In every turn of every response; and not if another image were in the observation."""
    temperature = group.sampler.asked[0][0]["sampling_params"]["temperature"]
    for each in group.rollouts:
        assert differences(led, each, temperature).max() < TOLERANCE_NATS
    [first, *_] = whole(group.rollouts)
    assert differences(led, with_noise(first), temperature).max() > 3 * TOLERANCE_NATS


def with_noise(rollout: Rollout) -> Rollout:
    """The response with noise in place of the image that the code showed."""

    def noisy(image: EncodedImage) -> EncodedImage:
        generator = torch.Generator().manual_seed(0)
        return replace(image, key="noise", patches=torch.rand(image.patches.shape, generator=generator) * 2 - 1)

    def seen(each: Observed) -> Observed:
        return Observed(each.start, replace(each.tokens, images=tuple(map(noisy, each.tokens.images))))

    return replace(rollout, observed=tuple(map(seen, rollout.observed)))


def test_greedy_responses_are_those_of_transformers(led: Led, rollout_url: str) -> None:
    settings = led.settings(rollout_url)
    ours = TransformersSampler(led.vlm, replace(settings.rollout, temperature=1e-4), STOPS)
    [by_transformers] = played(led, ours, led.settings(), 1)
    [by_vllm] = played(led, Greedy(led, settings), settings, 1)
    assert by_vllm.text == by_transformers.text
    assert (by_vllm.ids, by_vllm.turns) == (by_transformers.ids, by_transformers.turns)
    assert len(by_vllm.turns) == 3


LIMITED: dict[str, tuple[dict[str, Any], tuple[Limit, ...], int, Callable[[str], bool]]] = {
    "turns": ({"environment": {"max_turns": 2}}, (Limit.TURNS,), 2, lambda text: text.endswith(SECOND)),
    "tokens in a turn": ({"rollout": {"max_new_tokens": 20}}, (Limit.TOKENS,), 1, FIRST.startswith),
    "tokens in a result": ({"rollout": {"max_new_tokens": 90}}, (Limit.TOKENS,), 1, FIRST.__eq__),
    "images": ({"environment": {"max_images": 0}}, (Limit.IMAGES,), 3, lambda text: LEFT_OUT in text),
    "time": ({"environment": {"max_wait_s": 0.01}}, (Limit.TIME,), 1, FIRST.__eq__),
}


@pytest.mark.parametrize("name", LIMITED)
def test_limits_are_named(name: str, led: Led, rollout_url: str) -> None:
    sections, reached, turns, ends_so = LIMITED[name]
    settings = led.settings(rollout_url, **sections)
    [found] = played(led, Greedy(led, settings), settings, 1)
    if name == "images":  # what the policy writes without the image, it has not learnt: it may go on to another limit
        assert Limit.IMAGES in found.limits
    else:
        assert found.limits == reached
    assert len(found.turns) == turns
    assert found.is_truncated == (Limit.TOKENS in found.limits)
    assert bool(found.lost) == (Limit.TIME in reached)
    assert found.text is not None and ends_so(found.text)
    assert len(found.ids) <= settings.rollout.max_new_tokens


def test_responses_are_drawn_while_others_are_executed(
    led: Led, rollout_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request is sent while code of other responses runs, at most ``steps_at_once`` of it."""
    spans, step = list[tuple[float, float]](), SandboxEnvironment.step

    async def timed(self: SandboxEnvironment, text: str) -> Any:
        started = time.monotonic()
        try:
            return await step(self, text)
        finally:
            spans.append((started, time.monotonic()))

    monkeypatch.setattr(SandboxEnvironment, "step", timed)
    settings = led.settings(rollout_url, environment={"steps_at_once": 2})
    sampler = Recording(led, settings)
    played(led, sampler, settings, 8)
    later = [(start, end) for body, _, start, end in sampler.asked if body["sampling_params"]["n"] == 1]
    assert any(begin < start < end for start, _ in later for begin, end in spans)
    most = max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)
    assert most == 2


def test_a_step_of_grpo(led: Led, rollout_url: str, tmp_path: Path) -> None:
    """The whole command: responses of the server, executed, scored by CodeDance's reward, and a gradient."""
    grpo = {"steps": 1, "prompts_per_step": 1, "group_size": 8, "dynamic_sampling": False, "overlong": "keep"}
    verifying = {"options": {"sandbox": LIMITS, "verify": True}}
    settings = led.settings(rollout_url, grpo=grpo | {"optimiser": {"lr": 1e-4}}, environment=verifying)
    train_grpo(settings, led.run, tmp_path / "out")
    [line] = map(json.loads, (tmp_path / "out/metrics.jsonl").read_text("utf-8").splitlines())
    assert (line["lost"], line["unscored"], line["groups_kept"]) == (0, 0, 1)
    assert line["calls"] > 1 and line["turns"] > 2
    assert 0 < line["outcome"] < 1, "both answers were drawn"
    assert line["grad_norm"] > 0
    assert line["logprob_gap"] < TOLERANCE_NATS
    assert (tmp_path / "out/model/model.safetensors").is_file()
