"""The sampler that works anywhere, transformers' own ``generate``, and the choice of a sampler."""

import copy
from collections.abc import Sequence

import torch
from transformers import GenerationConfig

from schemas.extras import require_extra
from trainer.model import VisionLanguageModel, set_attention
from trainer.sample import Sample
from trainer.sampling import Rollout, Sampler
from trainer.settings import RolloutSettings


class TransformersSampler:
    """``generate`` in this process, on the very weights that are trained. Top-p and top-k are off."""

    def __init__(self, vlm: VisionLanguageModel, settings: RolloutSettings) -> None:
        self._vlm, self._settings = vlm, settings
        pad = vlm.tokenizer.pad_token_id
        self._config = GenerationConfig(
            do_sample=True,
            temperature=settings.temperature,
            top_p=1.0,
            top_k=0,
            max_new_tokens=settings.max_new_tokens,
            eos_token_id=list(vlm.end_ids),
            pad_token_id=vlm.end_ids[0] if pad is None else pad,
            suppress_tokens=list(vlm.never_ids),
        )

    def sync(self) -> None:
        """Nothing to do: the weights are the same."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """See :class:`trainer.sampling.Sampler`. Prompts of similar length go together; the answers keep the order of
        the prompts.
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
        self._vlm.model.model.rope_deltas = None  # those of the batch before would be taken for this one's
        inputs = {name: value.to(self._vlm.device) for name, value in inputs.items()}
        config = copy.deepcopy(self._config)
        config.num_return_sequences = n
        out = self._vlm.model.generate(**inputs, generation_config=config)
        rollouts = [self._rollout(row) for row in out[:, longest:].tolist()]
        return [rollouts[index * n : (index + 1) * n] for index in range(len(prompts))]

    def _rollout(self, ids: list[int]) -> Rollout:
        """The answer without the padding that ``generate`` adds after its end."""
        end = next((place for place, token in enumerate(ids) if token in self._vlm.end_ids), None)
        return Rollout(tuple(ids if end is None else ids[: end + 1]), end is None)


def make_sampler(vlm: VisionLanguageModel, settings: RolloutSettings, weights_folder: str) -> Sampler:
    """The sampler of ``rollout.kind``; ``weights_folder`` is where one outside this process reads weights from."""
    if settings.kind == "vllm":
        require_extra("train", "rollout.kind vllm", "msgpack")
        from trainer.vllm_rollouts import VllmSampler

        return VllmSampler(vlm, settings, weights_folder)
    return TransformersSampler(vlm, settings)
