"""Samples turns from a model in this process. A turn is one answer of the model in a conversation.

The model first processes the prompts. Then it draws one token of each turn at a time. This code takes less time and
memory than transformers' ``generate``. If several turns are drawn for a prompt, the model processes the prompt and its
images once. The keys and values of earlier tokens are not copied for a new token. Turns that have ended are removed
from the batch. The checkpoint's ``generation_config`` is not used.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from groundtrace.trainer import attention
from groundtrace.trainer.collate import distinct_images
from groundtrace.trainer.model import VisionLanguageModel, set_attention
from groundtrace.trainer.policy import image_features
from groundtrace.trainer.sample import Sample

IsComplete = Callable[[Sequence[int]], bool]
"""The type of a function that gets the tokens of a turn, and returns whether it is complete without an end token."""
Drawn = tuple[list[int], list[float]]
"""The tokens of a turn, and for each token its log-probability in the distribution from which it was drawn."""

_GROWTH = 32
"""The number of tokens by which the buffers of keys and values grow."""
_MAX_GOING = 0.9
"""Ended turns are removed from the batch when the share of turns that still run is at most this number."""


class GrowingLayer(DynamicLayer):
    """Holds the keys and values of one attention layer, in buffers with free space for further tokens.

    A new token is written into the free space, without a copy of the earlier keys and values. They are copied only if
    a buffer is full or the batch is reduced. All tensors are (turns, heads, tokens, head_dim). Each row of the batch is
    one turn that is being drawn.
    """

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add the keys and values of new tokens; return the keys and the values of all tokens, earlier and new.

        ``key_states`` and ``value_states`` are (turns, heads, new tokens, head_dim).
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._buffers = tuple(_with_room(each[:, :, :0], each.shape[2]) for each in (key_states, value_states))
        start = self.get_seq_length()
        end = start + key_states.shape[2]
        if end > self._buffers[0].shape[2]:
            self._buffers = tuple(_with_room(each[:, :, :start], key_states.shape[2]) for each in self._buffers)
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:end] = new
        return self._show(end)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Reduce the batch to the rows with these indices, in this order.

        If an index is repeated, its row is copied.
        """
        end = self.get_seq_length()
        self._buffers = tuple(buffer[indices] for buffer in self._buffers)
        self._show(end)

    def _show(self, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (buffer[:, :, :end] for buffer in self._buffers)
        self.keys, self.values = keys, values
        return keys, values


def _with_room(states: torch.Tensor, tokens: int) -> torch.Tensor:
    """Return a buffer that begins with a copy of ``states``, with free space for ``tokens`` + ``_GROWTH`` more tokens.

    ``states`` holds keys or values, (turns, heads, tokens, head_dim).
    """
    rows, heads, length, width = states.shape
    buffer = states.new_empty((rows, heads, length + tokens + _GROWTH, width))
    buffer[:, :, :length] = states
    return buffer


@torch.inference_mode()
def draw_turns(
    vlm: VisionLanguageModel,
    prompts: Sequence[Sample],
    n: int,
    room: Sequence[int],
    temperature: float,
    is_complete: IsComplete | None = None,
) -> list[list[Drawn]]:
    """Return ``n`` turns for each prompt, each as its token ids and their log-probabilities.

    A turn is one answer of the model. For each prompt, ``room`` holds the maximum number of tokens of a turn. A turn
    ends after the model's end token or at this maximum. It also ends as soon as ``is_complete`` returns True for the
    tokens of the turn; if ``is_complete`` is None, this rule does not apply. ``temperature`` divides the logits before
    the softmax. Tokens are drawn with torch's default random generator. The model must be in evaluation mode.
    """
    batch = _Batch(vlm, prompts)
    batch.keep([number // n for number in range(len(prompts) * n)])
    turns: list[Drawn] = [([], []) for _ in range(len(prompts) * n)]
    going = list(range(len(turns)))  # the turns of the batch, in order
    ended = set[int]()
    while True:
        tokens, logprobs = batch.draw(temperature)
        for turn, token, logprob in zip(going, tokens, logprobs, strict=True):
            if turn not in ended:
                ids, found = turns[turn]
                ids.append(token)
                found.append(logprob)
                if token in vlm.end_ids or len(ids) == room[turn // n] or (is_complete and is_complete(ids)):
                    ended.add(turn)
        rows = [row for row, turn in enumerate(going) if turn not in ended]
        if not rows:
            return [turns[start : start + n] for start in range(0, len(turns), n)]
        if len(rows) <= _MAX_GOING * len(going):
            batch.keep(rows)
            going = [going[row] for row in rows]
        batch.read_drawn()


class _Batch:
    """Holds a batch of turns (answers of the model) while their tokens are sampled one after the other.

    For each turn, the batch holds the attention's keys and values, the last hidden state and the next rotary position.
    """

    def __init__(self, vlm: VisionLanguageModel, prompts: Sequence[Sample]) -> None:
        """Run the model on the prompts, padded on the left. At first, the batch has one row for each prompt."""
        self._vlm, self._never = vlm, torch.tensor(vlm.never_ids, dtype=torch.int64, device=vlm.device)
        longest = max(map(len, prompts))
        ids = torch.zeros((len(prompts), longest), dtype=torch.int64)
        seen, positions = torch.zeros_like(ids), torch.zeros((3, *ids.shape), dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            start = longest - len(prompt)
            ids[row, start:], seen[row, start:] = prompt.ids, 1
            positions[:, row, start:] = vlm.positions(prompt.ids, prompt.is_image, prompt.images)
        self._seen, self._next = seen.to(vlm.device), (positions.amax((0, 2)) + 1).to(vlm.device)
        self._tokens = self._seen[:, -1:]  # replaced by the first draw
        self._cache = Cache(layer_class_to_replicate=GrowingLayer)
        set_attention(vlm.model, attention.NAME)
        features = image_features(vlm, distinct_images(prompts).to(vlm.device))
        set_attention(vlm.model, "sdpa")
        self._hidden = self._read(ids.to(vlm.device), positions.to(vlm.device), features)

    def draw(self, temperature: float) -> tuple[list[int], list[float]]:
        """Draw the next token of each turn (answer of the model); return the tokens and their log-probabilities.

        The logits are divided by ``temperature`` before the softmax.
        """
        logits = self._vlm.model.get_output_embeddings()(self._hidden).float() / temperature
        logprobs = logits.index_fill(1, self._never, -torch.inf).log_softmax(dim=1)
        self._tokens = torch.multinomial(logprobs.exp(), 1)
        return self._tokens[:, 0].tolist(), logprobs.gather(1, self._tokens)[:, 0].tolist()

    def keep(self, places: Sequence[int]) -> None:
        """Reduce the batch to the turns (answers of the model) with the indices ``places``, in this order.

        If an index is repeated, its turn is copied.
        """
        rows = torch.tensor(places, device=self._seen.device)
        self._cache.batch_select_indices(rows)
        self._seen, self._next, self._tokens, self._hidden = (
            each[rows] for each in (self._seen, self._next, self._tokens, self._hidden)
        )

    def read_drawn(self) -> None:
        """Run the model on the tokens that :meth:`draw` has just drawn, so that the next tokens can be drawn."""
        self._seen = torch.cat([self._seen, torch.ones_like(self._tokens)], dim=1)
        self._hidden = self._read(self._tokens, self._next[:, None].expand(3, -1, 1))
        self._next = self._next + 1

    def _read(self, ids: torch.Tensor, positions: torch.Tensor, features: dict[str, Any] | None = None) -> torch.Tensor:
        """Run the model on one or more new tokens of each turn; return the last tokens' hidden states, (turns, width).

        ``ids`` are the new tokens, and ``positions`` are their rotary positions. ``features`` are the vision tower's
        features of the images in these tokens; None if there are no images.
        """
        found = self._vlm.model.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=self._seen,
            mm_encoder_outputs=features,
            past_key_values=self._cache,
            use_cache=True,
        )
        return found.last_hidden_state[:, -1]
