"""The default sampler, transformers' ``generate``, which needs no server; and the choice of a sampler."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from groundtrace.config.extras import require_extra
from groundtrace.trainer.model import VisionLanguageModel, set_attention
from groundtrace.trainer.sample import Rollout, Sample, Sampler
from groundtrace.trainer.settings import RolloutSettings

NEUTRAL = {
    "num_beams": 1,
    "top_k": 0,
    "top_p": 1.0,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "remove_invalid_values": False,
    "use_cache": True,
}
"""Generation settings that leave the model's distribution unchanged. Fields without a default in ``generate``, such as
min_p, are turned off by None; see :func:`_bare_config`."""


@contextlib.contextmanager
def _bare_config(model: Any) -> Iterator[None]:
    """Hides the checkpoint's generation settings from ``generate`` within this context.

    Otherwise ``generate`` would fill missing fields from them, such as a repetition penalty that the loss ignores.
    """
    own, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


class _Drawn(LogitsProcessor):
    """Records each drawn token's log-probability in the distribution from which it was drawn; leaves the scores
    unchanged.
    """

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self._scores: torch.Tensor | None = None
        self._found: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._note(input_ids)
        self._scores = scores
        return scores

    def of(self, ids: torch.Tensor) -> list[list[float]]:
        """Returns the log-probabilities of each generated row; call this once, after generation."""
        self._note(ids)
        return torch.cat(self._found, dim=1).tolist()

    def _note(self, ids: torch.Tensor) -> None:
        if self._scores is not None:
            logprobs = (self._scores.float() / self._temperature).log_softmax(dim=1)
            self._found.append(logprobs.gather(1, ids[:, -1:]))


class TransformersSampler:
    """Samples with ``generate`` in this process, from the weights that are trained.

    Only the temperature and the banned tokens change the model's distribution; the checkpoint's generation settings are
    ignored.
    """

    def __init__(self, vlm: VisionLanguageModel, settings: RolloutSettings) -> None:
        self._vlm, self._settings = vlm, settings
        pad = vlm.tokenizer.pad_token_id
        self._config = GenerationConfig(
            **NEUTRAL,
            do_sample=True,
            temperature=settings.temperature,
            max_new_tokens=settings.max_new_tokens,
            eos_token_id=list(vlm.end_ids),
            pad_token_id=vlm.end_ids[0] if pad is None else pad,
            suppress_tokens=list(vlm.never_ids),
        )

    def sync(self) -> None:
        """Does nothing: the sampler uses the trained weights themselves."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """Samples ``n`` answers to each prompt, in the order of the prompts; prompts of similar length are sampled
        together.
        """
        torch.manual_seed(seed)
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        found: dict[int, list[Rollout]] = {}
        self._vlm.model.eval()
        set_attention(self._vlm.model, "sdpa")
        try:
            for start in range(0, len(order), self._settings.prompts_at_once):
                part = order[start : start + self._settings.prompts_at_once]
                found |= zip(part, self._generate([prompts[index] for index in part], n), strict=True)
        finally:
            self._vlm.model.train()
        return [found[index] for index in range(len(prompts))]

    @torch.inference_mode()
    def _generate(self, prompts: list[Sample], n: int) -> list[list[Rollout]]:
        longest = max(map(len, prompts))
        ids = torch.full((len(prompts), longest), self._config.pad_token_id)
        mask, is_image = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = prompt.ids
            mask[row, longest - len(prompt) :] = 1
            is_image[row, longest - len(prompt) :] = prompt.is_image.long()
        inputs = {"input_ids": ids, "attention_mask": mask, "mm_token_type_ids": is_image}
        images = [image for prompt in prompts for image in prompt.images]
        if images:
            inputs["pixel_values"] = torch.cat([image.patches for image in images])
            inputs["image_grid_thw"] = torch.tensor([image.grid for image in images])
        self._vlm.model.model.rope_deltas = None  # otherwise the previous batch's would be used
        inputs = {name: value.to(self._vlm.device) for name, value in inputs.items()}
        drawn = _Drawn(self._settings.temperature)
        with _bare_config(self._vlm.model):
            out = self._vlm.model.generate(
                **inputs,
                generation_config=self._config,
                num_return_sequences=n,
                logits_processor=LogitsProcessorList([drawn]),
            )
        pairs = zip(out[:, longest:].tolist(), drawn.of(out), strict=True)
        rollouts = [self._rollout(*pair) for pair in pairs]
        return [rollouts[index * n : (index + 1) * n] for index in range(len(prompts))]

    def _rollout(self, ids: list[int], logprobs: list[float]) -> Rollout:
        """Returns the answer without the padding that ``generate`` adds after the answer's end."""
        end = next((place for place, token in enumerate(ids) if token in self._vlm.end_ids), None)
        length = len(ids) if end is None else end + 1
        return Rollout(tuple(ids[:length]), end is None, tuple(logprobs[:length]))


def make_sampler(vlm: VisionLanguageModel, settings: RolloutSettings, weights_folder: str) -> Sampler:
    """Returns the sampler of ``rollout.kind``; a sampler outside this process reads its weights from
    ``weights_folder``.
    """
    if settings.kind == "vllm":
        require_extra("train", "rollout.kind vllm", "msgpack")
        from groundtrace.trainer.vllm_rollouts import VllmSampler

        return VllmSampler(vlm, settings, weights_folder)
    return TransformersSampler(vlm, settings)
