"""Answers are drawn from the model's own distribution, whatever its checkpoint says of sampling."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from groundtrace.trainer.collate import collate
from groundtrace.trainer.encode import encode_prompt, with_response
from groundtrace.trainer.model import VisionLanguageModel, load_model
from groundtrace.trainer.policy import score
from groundtrace.trainer.rollouts import TransformersSampler
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.settings import ModelSettings, RolloutSettings

HOSTILE: dict[str, Any] = {
    "do_sample": True,
    "temperature": 0.3,
    "top_k": 3,
    "top_p": 0.4,
    "min_p": 0.2,
    "top_h": 0.3,
    "typical_p": 0.5,
    "epsilon_cutoff": 0.01,
    "eta_cutoff": 0.01,
    "repetition_penalty": 1.5,
    "encoder_repetition_penalty": 1.5,
    "no_repeat_ngram_size": 1,
    "encoder_no_repeat_ngram_size": 1,
    "bad_words_ids": [[40]],
    "min_length": 500,
    "min_new_tokens": 9,
    "forced_bos_token_id": 41,
    "forced_eos_token_id": 42,
    "exponential_decay_length_penalty": [2, 1.5],
    "suppress_tokens": [43],
    "begin_suppress_tokens": [44],
    "sequence_bias": [[[45], 5.0]],
    "guidance_scale": 2.0,
    "renormalize_logits": True,
    "remove_invalid_values": True,
    "watermarking_config": {"bias": 5.0, "seeding_scheme": "lefthash"},
    "max_time": 1e-6,
    "use_cache": False,
}
"""Each of these would change what is drawn, or how long an answer may be."""


@pytest.fixture(params=[1.0, 0.7])
def settings(request: pytest.FixtureRequest) -> RolloutSettings:
    return RolloutSettings(max_new_tokens=12, temperature=request.param)


@pytest.fixture
def hostile(folders: Mapping[str, Path], tmp_path: Path) -> VisionLanguageModel:
    """The tiny model with generation settings of which the loss knows nothing."""
    folder = tmp_path / "hostile"
    shutil.copytree(folders["qwen3"], folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | HOSTILE), "utf-8")
    return load_model(ModelSettings(str(folder), dtype="float32"), device="cpu")


def asked(vlm: VisionLanguageModel) -> list[Sample]:
    texts = ("How many are red?", "Is it?")
    return [encode_prompt(vlm, text, ({"role": "user", "content": text},), ()) for text in texts]


def test_a_hostile_checkpoint_draws_what_a_plain_one_does(
    hostile: VisionLanguageModel, qwen3: VisionLanguageModel, settings: RolloutSettings
) -> None:
    own = hostile.model.generation_config.to_dict()
    found = TransformersSampler(hostile, settings).sample(asked(hostile), 4, seed=3)
    assert found == TransformersSampler(qwen3, settings).sample(asked(qwen3), 4, seed=3)
    assert hostile.model.generation_config.to_dict() == own, "what is saved with the model stays"


def test_the_sampler_knows_the_probabilities_it_drew_from(vlm: VisionLanguageModel, settings: RolloutSettings) -> None:
    """They are the trainer's own: of every token, in answers of several lengths beside each other."""
    prompts = asked(vlm)
    for prompt, rollouts in zip(prompts, TransformersSampler(vlm, settings).sample(prompts, 6, seed=1), strict=True):
        for rollout in rollouts:
            assert rollout.logprobs is not None and len(rollout.logprobs) == len(rollout.ids)
            sample = with_response(prompt, rollout.ids, "q")
            with torch.no_grad():
                ours = score(vlm, collate(vlm, [sample]), settings.temperature, vlm.never_ids).logprobs
            assert rollout.logprobs == pytest.approx(ours.tolist(), abs=1e-4)
