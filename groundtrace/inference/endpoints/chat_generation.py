"""Generates replies with a vision-language model of the ``transformers`` library, for
:class:`groundtrace.inference.endpoints.chat_model.ChatEndpoint`.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from groundtrace.grading.messages import MediaPart
from groundtrace.inference.request import Sampling
from groundtrace.prompts.loader import RenderedPrompt

_MEDIA_TOKENS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


@dataclass(frozen=True)
class Chat:
    """Holds a prompt that is ready for a chat model. ``text`` is the prompt in the form of the model's chat template,
    and ``images`` are its images in order. ``digest`` is a hash of the prompt. Together with a sample's index it is
    the seed of the random numbers that choose the tokens of this sample.
    """

    text: str
    images: tuple[Image.Image, ...]
    digest: str


@dataclass(frozen=True)
class ChatModel:
    """Holds a model and its processor, and generates replies with them. Only one thread may use this object."""

    model: Any
    processor: Any

    def chat(self, prompt: RenderedPrompt, images: Sequence[Image.Image]) -> Chat:
        """Convert a prompt to a chat for this model. ``images`` are the images of the prompt in order, in RGB and
        upright.
        """
        parts = [
            {"type": "image"} if isinstance(part, MediaPart) else {"type": "text", "text": part.text}
            for part in prompt.user
        ]
        messages = [{"role": "user", "content": parts}]
        if prompt.system:
            messages.insert(0, {"role": "system", "content": [{"type": "text", "text": prompt.system}]})
        text = self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        content = json.dumps([text, *(part.sha256 for part in prompt.media)])
        return Chat(text, tuple(images), hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest())

    @torch.inference_mode()
    def draw(
        self,
        chats: Sequence[Chat],
        indices: Sequence[Sequence[int]],
        sampling: Sampling,
        must_end: Callable[[], bool] = lambda: False,
    ) -> list[list[tuple[str, str]]]:
        """Generate samples (replies) for several chats in one batch. ``indices`` holds, for each chat, the numbers of
        the samples to generate. ``sampling`` applies to all chats. If ``must_end`` returns True after a token, no
        further tokens are generated, and the texts may be cut off.

        Returns one list for each chat, with a tuple for each of its samples: the text and the finish reason ("stop" or
        "length").
        """
        rows = [(chat, index) for chat, numbers in zip(chats, indices, strict=True) for index in numbers]
        inputs = self._inputs([chat for chat, _ in rows])
        ends = _end_ids(self.model, self.processor.tokenizer)
        config = GenerationConfig(
            max_new_tokens=sampling.max_tokens,
            min_new_tokens=1,
            do_sample=False,  # the random numbers come from _OwnNumbers
            eos_token_id=list(ends),
            pad_token_id=self.processor.tokenizer.pad_token_id or ends[0],
        )
        ids = self.model.generate(
            **inputs,
            generation_config=config,
            logits_processor=self._processors(rows, sampling),
            stopping_criteria=StoppingCriteriaList([_Ending(must_end)]),
        )
        turns = ids[:, inputs["input_ids"].shape[1] :].tolist()
        drawn = iter([self._read(turn, ends) for turn in turns])
        return [[next(drawn) for _ in numbers] for numbers in indices]

    def _inputs(self, chats: Sequence[Chat], continued: str = "") -> Any:
        images = [list(chat.images) for chat in chats]
        return self.processor(
            text=[chat.text + continued for chat in chats],
            images=images if any(images) else None,
            padding=True,
            padding_side="left",
            return_tensors="pt",
            add_special_tokens=False,  # the chat template has them
        ).to(self.model.device)

    def _processors(self, rows: Sequence[tuple[Chat, int]], sampling: Sampling) -> LogitsProcessorList:
        """Return the functions that change the logits before the token with the highest logit is taken.

        ``rows`` has the chat and the sample's number for each row of the batch. One function prevents the model from
        writing image and video tokens, since such a token in a text marks the position of an image or a video. If the
        temperature is above 0, other functions choose the tokens at random.
        """
        device, config = self.model.device, self.model.config
        media = [token for name in _MEDIA_TOKENS if isinstance(token := getattr(config, name, None), int)]
        processors: list[LogitsProcessor] = [SuppressTokensLogitsProcessor(media, device)] if media else []
        if sampling.temperature > 0:
            processors.append(TemperatureLogitsWarper(sampling.temperature))
            processors += [TopPLogitsWarper(sampling.top_p)] if sampling.top_p < 1 else []
            processors.append(_OwnNumbers([f"{chat.digest} {index}" for chat, index in rows]))
        return LogitsProcessorList(processors)

    def _read(self, turn: Sequence[int], ends: Sequence[int]) -> tuple[str, str]:
        end = next((place for place, token in enumerate(turn) if token in ends), None)
        text = self.processor.tokenizer.decode(turn[:end], skip_special_tokens=True)
        return text, "length" if end is None else "stop"

    @torch.inference_mode()
    def logprobs(self, chat: Chat, given: str, text: str) -> tuple[float, ...]:
        """Return the log-probability (in nats) of each token of ``text``, if the reply to ``chat`` begins with
        ``given`` and continues with ``text``. No reply is generated. A token that has characters of both ``given``
        and ``text`` belongs to ``text``.
        """
        before, whole = self._inputs([chat], given), self._inputs([chat], given + text)
        first, ids = before["input_ids"][0].tolist(), whole["input_ids"][0].tolist()
        shared = next((place for place, (a, b) in enumerate(zip(first, ids, strict=False)) if a != b), len(first))
        logits = self.model(**whole).logits[0, shared - 1 : -1].float().log_softmax(dim=-1)
        return tuple(logits.gather(1, whole["input_ids"][0, shared:, None])[:, 0].tolist())


class _Ending(StoppingCriteria):
    """Ends the generation of all rows (samples) of a batch as soon as the function ``must_end`` returns True."""

    def __init__(self, must_end: Callable[[], bool]) -> None:
        self._must_end = must_end

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """Return, for each row of the batch, whether its generation ends. ``scores`` and ``kwargs`` are not used."""
        return torch.full((input_ids.shape[0],), self._must_end(), device=input_ids.device, dtype=torch.bool)


class _OwnNumbers(LogitsProcessor):
    """Chooses the next token of each row at random. A row is one sample of the batch, and has its own random generator.

    The logits of all other tokens become minus infinity, so that greedy decoding takes the chosen token. ``names`` has
    one text for each row. The seed of the row's generator is computed from this text.
    """

    def __init__(self, names: Sequence[str]) -> None:
        seeds = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big") for name in names]
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores in which each row has only one finite value, at the chosen token. ``scores`` are the logits of
        all tokens. The chosen token is the first one whose cumulative probability is above the row's random number.
        ``input_ids`` is not used.
        """
        numbers = torch.tensor([torch.rand((), generator=each, dtype=torch.float64) for each in self._generators])
        heights = scores.double().softmax(dim=-1).cumsum(dim=-1)
        at = numbers.to(scores.device)[:, None] * heights[:, -1:]
        chosen = torch.searchsorted(heights, at, right=True).clamp(max=scores.shape[-1] - 1)
        return torch.full_like(scores, -torch.inf).scatter(1, chosen, 0.0)


def _end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the ids of all tokens that end a reply. They are the end ids in the model's generation config (a list or
    one id), and the end id of the tokenizer.
    """
    named = model.generation_config.eos_token_id
    ids = {tokenizer.eos_token_id, *(named if isinstance(named, list | tuple) else [named])} - {None}
    return tuple(sorted(ids))
