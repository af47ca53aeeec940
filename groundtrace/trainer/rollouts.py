"""Samples rollouts with transformers' ``generate``, which needs no server, and makes the configured sampler."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from groundtrace.config.extras import require_extra
from groundtrace.trainer.model import VisionLanguageModel, set_attention
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Sampler, turn_length
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
"""Generation settings that leave the model's distribution unchanged. The value None turns off the fields that have no
default in ``generate``, such as min_p (:func:`_bare_config`)."""


@contextlib.contextmanager
def _bare_config(model: Any) -> Iterator[None]:
    """Hide the checkpoint's generation settings from ``generate`` within this context.

    Otherwise ``generate`` would take missing fields from these settings, such as a repetition penalty, which the loss
    does not include.
    """
    own, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


class _Drawn(LogitsProcessor):
    """Records each drawn token's log-probability in the distribution from which it was drawn.

    It does not change the scores.
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
        """Return the log-probabilities of the tokens of each generated row. Call this once, after generation."""
        self._note(ids)
        return torch.cat(self._found, dim=1).tolist()

    def _note(self, ids: torch.Tensor) -> None:
        if self._scores is not None:
            logprobs = (self._scores.float() / self._temperature).log_softmax(dim=1)
            self._found.append(logprobs.gather(1, ids[:, -1:]))


class _Stopped(StoppingCriteria):
    """Ends each row as soon as its drawn text contains one of the ``stops``."""

    def __init__(self, vlm: VisionLanguageModel, stops: Sequence[str], prompt_tokens: int) -> None:
        self._decode, self._stops, self._start = vlm.tokenizer.batch_decode, stops, prompt_tokens
        self._tail = max(map(len, stops))

    def __call__(self, input_ids: torch.LongTensor, scores: torch.Tensor, **others: Any) -> torch.BoolTensor:
        texts = self._decode(input_ids[:, max(self._start, input_ids.shape[1] - self._tail) :])
        found = [any(stop in text for stop in self._stops) for text in texts]
        return torch.tensor(found, device=input_ids.device)  # type: ignore[return-value] (a tensor of bools)


class TransformersSampler(Sampler):
    """Samples with ``generate`` in this process, from the weights in training.

    Only the temperature and the banned tokens change the model's distribution; the checkpoint's generation settings are
    ignored. A turn ends with the model's end token or with one of the texts in ``stops``.
    """

    def __init__(self, vlm: VisionLanguageModel, settings: RolloutSettings, stops: Sequence[str] = ()) -> None:
        self._vlm, self._settings, self._stops = vlm, settings, stops
        self.prompts_at_once = settings.prompts_at_once
        pad = vlm.tokenizer.pad_token_id
        self._config = GenerationConfig(
            **NEUTRAL,
            do_sample=True,
            temperature=settings.temperature,
            eos_token_id=list(vlm.end_ids),
            pad_token_id=vlm.end_ids[0] if pad is None else pad,
            suppress_tokens=list(vlm.never_ids),
        )

    def sync(self) -> None:
        """Do nothing, because the sampler uses the same weights as the training."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """Return ``n`` sampled turns for each prompt, in the order of the prompts."""
        found = dict(self.stream(prompts, n, seed))
        return [found[index] for index in range(len(prompts))]

    def stream(self, prompts: Sequence[Sample], n: int, seed: int) -> Iterator[tuple[int, list[Rollout]]]:
        """Yield the index and the ``n`` turns of each prompt; prompts of similar length are sampled together."""
        torch.manual_seed(seed)
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        size = self._settings.prompts_at_once
        for start in range(0, len(order), size):
            part = order[start : start + size]
            yield from zip(part, self._generate([prompts[index] for index in part], n), strict=True)

    @torch.inference_mode()
    def _generate(self, prompts: list[Sample], n: int) -> list[list[Rollout]]:
        """Return ``n`` turns for each prompt, from one call of ``generate``."""
        longest = max(map(len, prompts))
        room = [self._settings.max_new_tokens - prompt.response_tokens for prompt in prompts]
        drawn = _Drawn(self._settings.temperature)
        stopping = [_Stopped(self._vlm, self._stops, longest)] if self._stops else []
        self._config.max_new_tokens = max(room)
        self._vlm.model.model.rope_deltas = None  # otherwise the previous batch's would be used
        self._vlm.model.eval()
        set_attention(self._vlm.model, "sdpa")
        try:
            with _bare_config(self._vlm.model):
                out = self._vlm.model.generate(
                    **self._inputs(prompts, longest),
                    generation_config=self._config,
                    num_return_sequences=n,
                    logits_processor=LogitsProcessorList([drawn]),
                    stopping_criteria=StoppingCriteriaList(stopping),
                )
        finally:
            self._vlm.model.train()
        pairs = list(zip(out[:, longest:].tolist(), drawn.of(out), strict=True))
        return [
            [self._turn(*pair, room[index]) for pair in pairs[index * n : (index + 1) * n]]
            for index in range(len(prompts))
        ]

    def _inputs(self, prompts: Sequence[Sample], longest: int) -> dict[str, torch.Tensor]:
        """Return the prompts as inputs of ``generate``, padded on the left."""
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
        return {name: value.to(self._vlm.device) for name, value in inputs.items()}

    def _turn(self, ids: list[int], logprobs: list[float], room: int) -> Rollout:
        """Return the turn, of at most ``room`` tokens, without the padding that ``generate`` adds after it."""
        length, has_ended = turn_length(self._vlm, ids[:room], self._stops)
        return Rollout(tuple(ids[:length]), not has_ended, tuple(logprobs[:length]))


def make_sampler(
    vlm: VisionLanguageModel,
    settings: RolloutSettings,
    weights_folder: str,
    stops: Sequence[str] = (),
    max_tokens: int = 0,
) -> Sampler:
    """Return the sampler of the configured ``rollout.kind``.

    A turn ends with the model's end token or with one of the texts in ``stops``. A sampling server reads its weights
    from ``weights_folder``, and must accept sequences of ``max_tokens`` tokens.
    """
    if settings.kind == "vllm":
        require_extra("train", "rollout.kind vllm", "msgpack")
        from groundtrace.trainer.vllm_rollouts import VllmSampler

        return VllmSampler(vlm, settings, weights_folder, stops, max_tokens)
    return TransformersSampler(vlm, settings, stops)
