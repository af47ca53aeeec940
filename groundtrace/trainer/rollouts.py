"""Samples responses in this process from the model in training, and makes the sampler that the config names."""

from collections.abc import Iterator, Sequence

import torch

from groundtrace.config.extras import require_extra
from groundtrace.trainer.decoding import IsComplete, draw_turns
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Sampler, turn_length
from groundtrace.trainer.settings import RolloutSettings
from groundtrace.trainer.sharding import reshard, unshard


class TransformersSampler(Sampler):
    """Samples responses in this process, directly from the model in training.

    ``settings`` holds the temperature and the maximum lengths. A response has one or several turns (answers of the
    model). A turn ends with the model's end token or with one of the texts in ``stops``. The temperature scales the
    logits, and some tokens must not be drawn. The generation settings of the model's folder are ignored.
    """

    def __init__(self, vlm: VisionLanguageModel, settings: RolloutSettings, stops: Sequence[str] = ()) -> None:
        self._vlm, self._settings, self._stops = vlm, settings, stops
        self.prompts_at_once = settings.prompts_at_once

    def sync(self) -> None:
        """Prepare the weights for sampling.

        If the model is sharded (divided among GPUs), its weights are gathered on each GPU.

        A model that is not sharded needs no preparation, because the sampler uses the same weights as the training.
        """
        unshard(self._vlm.model)

    def release(self) -> None:
        """Free the weights that :meth:`sync` gathered.

        A model that is not sharded (divided among GPUs) does not change.
        """
        reshard(self._vlm.model)

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """Return ``n`` sampled turns (answers of the model) for each prompt, in the order of the prompts.

        ``seed`` is the seed of the sampling.
        """
        found = dict(self.stream(prompts, n, seed))
        return [found[index] for index in range(len(prompts))]

    def stream(self, prompts: Sequence[Sample], n: int, seed: int) -> Iterator[tuple[int, list[Rollout]]]:
        """Yield, for each prompt, its index and ``n`` sampled turns (answers of the model).

        ``seed`` is the seed of the sampling. Prompts of similar length are sampled together. So the prompts are not
        yielded in the given order.
        """
        torch.manual_seed(seed)
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        size = self._settings.prompts_at_once
        for start in range(0, len(order), size):
            part = order[start : start + size]
            yield from zip(part, self._drawn([prompts[index] for index in part], n), strict=True)

    def _drawn(self, prompts: list[Sample], n: int) -> list[list[Rollout]]:
        """Sample ``n`` turns (answers of the model) for each prompt, and return them.

        The turns of all prompts are sampled in one batch.
        """
        room = [self._settings.max_new_tokens - prompt.response_tokens for prompt in prompts]
        self._vlm.model.eval()
        try:
            drawn = draw_turns(self._vlm, prompts, n, room, self._settings.temperature, self._is_complete())
        finally:
            self._vlm.model.train()
        return [[self._turn(*turn) for turn in turns] for turns in drawn]

    def _is_complete(self) -> IsComplete | None:
        """Return a function that gets the tokens of a turn, and returns whether their text contains a stop.

        A stop is a text that ends a turn (an answer of the model), such as ``</code>``. If there are no stops, the
        result is None instead of a function.
        """
        if not self._stops:
            return None
        decode, stops = self._vlm.tokenizer.decode, self._stops
        longest = max(len(stop.encode()) for stop in stops)  # in tokens: a token is at least one byte

        def is_complete(ids: Sequence[int]) -> bool:
            text = decode(ids[-longest:], skip_special_tokens=False)
            return any(stop in text for stop in stops)

        return is_complete

    def _turn(self, ids: list[int], logprobs: list[float]) -> Rollout:
        length, has_ended = turn_length(self._vlm, ids, self._stops)
        return Rollout(tuple(ids[:length]), not has_ended, tuple(logprobs[:length]))


def make_sampler(
    vlm: VisionLanguageModel,
    settings: RolloutSettings,
    weights_folder: str,
    stops: Sequence[str] = (),
    max_tokens: int = 0,
) -> Sampler:
    """Return a sampler of the kind that ``rollout.kind`` names: one in this process, or one that uses a vLLM server.

    A sampler draws turns, i.e. answers of the model. A turn ends with the model's end token or with one of the texts in
    ``stops``. ``weights_folder`` is the folder from which a server reads the weights. ``max_tokens`` is the length of a
    sequence that the server must accept. A sampler in this process uses neither ``weights_folder`` nor ``max_tokens``.
    """
    if settings.kind == "vllm":
        require_extra("train", "rollout.kind vllm", "msgpack")
        from groundtrace.trainer.vllm_rollouts import VllmSampler

        return VllmSampler(vlm, settings, weights_folder, stops, max_tokens)
    return TransformersSampler(vlm, settings, stops)
