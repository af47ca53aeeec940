"""Encodes a training row (a conversation with images) as a sample: tokens with a loss mask, and encoded images.

The chat template renders the conversation with a placeholder for each answer. The answers are tokenised separately and
inserted. So an answer is unchanged even if the template drops or rewrites the thinking of earlier turns. Coordinates in
the answers are converted from pixels to those that the model uses. The first token of an answer follows the last token
of its prompt, as in sampling: no token contains text of both.

If a message contains the text of a special token, such as ``<|im_end|>``, a space is inserted into the token's text. So
no part of a message is read as an image or as the end of a turn.

Images are decoded by the same code as in the curation pipeline, one row at a time.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from PIL import Image

from groundtrace.rewards.rows.row import TrainingRow, UnusableRow, per_stream, sizes_of
from groundtrace.trainer.model import ModelError, VisionLanguageModel
from groundtrace.trainer.sample import EncodedImage, Observed, Sample, TurnSpan
from groundtrace.trainer.time_limit import TooLong, at_most
from groundtrace.vision.decode import UndecodableMedia, decode_image

MARK = "<image>"
_PLACEHOLDER = "\ue000answer\ue000"
RENDERING_S = 10.0
"""The time in which a chat template must render a conversation, which usually takes a millisecond."""

Message = Mapping[str, str]
"""The type of a turn: a mapping with ``role`` and ``content``. ``content`` has one :data:`MARK` for each image."""


def encode_messages(
    vlm: VisionLanguageModel, id: str, messages: Sequence[Message], images: Sequence[EncodedImage]
) -> Sample:
    """Return a conversation as a training sample, in which only the tokens of the assistant's turns count in the loss.

    ``messages`` are the turns; the last one must be the assistant's. ``images`` are the images for the ``<image>``
    placeholders in the turns, in order. ``id`` is the row's id, for error messages. The end token of an assistant turn
    counts, too. The turns of all other roles, such as observations (results of tools), are masked. Raises UnusableRow
    in these cases:

    - The number of ``<image>`` placeholders differs from the number of images.
    - The last turn is not the assistant's.
    - The chat template cannot render the turns.

    Raises ModelError if the chat template computes for more than :data:`RENDERING_S` seconds. This limit exists only in
    the main thread.
    """
    if not messages or messages[-1]["role"] != "assistant":
        raise UnusableRow(
            f"{id}: the last turn is not the assistant's, but SFT trains on the assistant's last turn: remove the "
            "row or add an answer"
        )
    pieces = _pieces(vlm, id, messages, with_prompt=False)
    if pieces[-3][0] != _pieces(vlm, id, messages[:-1], with_prompt=True)[-1][0]:
        raise UnusableRow(
            f"{id}: the text that the chat template puts before an answer differs between training and sampling: "
            "use another template"
        )
    return _assembled(vlm, id, pieces[:-1], images)  # the template's text after the last answer is not a target


def encode_prompt(
    vlm: VisionLanguageModel, id: str, messages: Sequence[Message], images: Sequence[EncodedImage]
) -> Sample:
    """Return a conversation as a prompt: a sample without tokens for the loss, which ends where the next answer starts.

    ``messages`` are the turns of the conversation. ``images`` are the images for the ``<image>`` placeholders in the
    turns, in order. ``id`` is the row's id, for error messages. Raises UnusableRow if the number of ``<image>``
    placeholders differs from the number of images, or if the chat template cannot render the turns.
    """
    pieces = [(ids, False) for ids, _ in _pieces(vlm, id, messages, with_prompt=True)]
    return _assembled(vlm, id, pieces, images)


def encode_observation(
    vlm: VisionLanguageModel, row: TrainingRow, message: Message, images: Sequence[EncodedImage], has_ended: bool
) -> Sample:
    """Return the tokens between two assistant turns: an observation (a tool's result) with the chat template's text.

    ``row`` is the row whose question the response answers. ``message`` is the observation, and ``images`` are its
    images. ``has_ended`` is whether the policy (the model in training) has already written the end token of the earlier
    assistant turn. If it has not, the result begins with this token. Raises UnusableRow if the number of ``<image>``
    placeholders differs from the number of images, or if the chat template cannot render the turns.
    """
    turns = row.messages[:-1] if row.messages[-1]["role"] == "assistant" else row.messages
    pieces = _pieces(vlm, row.id, [*turns, {"role": "assistant", "content": ""}, message], with_prompt=True)
    (end, _), (between, _) = pieces[-2:]
    return _assembled(vlm, row.id, [([] if has_ended else end, False), (between, False)], images)


def with_response(
    prompt: Sample, ids: Sequence[int], group: str, is_truncated: bool = False, observed: Sequence[Observed] = ()
) -> Sample:
    """Return a prompt and the response to it as one sample, with exactly the tokens that were sampled.

    ``ids`` are the tokens of the response. ``observed`` are the observations (results of tools) among these tokens.
    ``group`` is the name of the group (the responses to one prompt) to which this response belongs. ``is_truncated`` is
    True if the response was cut off at the maximum length. In the result, the loss mask is True for the tokens of the
    response except those of observations.
    """
    before, response = len(prompt), torch.tensor(ids, dtype=torch.int64)
    is_ours = torch.ones(len(ids), dtype=torch.bool)
    is_image, images = ~is_ours, list(prompt.images)
    spans, start = list[TurnSpan](), 0
    for each in observed:
        is_ours[each.start : each.end] = False
        is_image[each.start : each.end] = each.tokens.is_image
        images += each.tokens.images
        spans += [TurnSpan(before + start, before + each.start, True)]
        spans += [TurnSpan(before + each.start, before + each.end, False)]
        start = each.end
    if start < len(ids) or not observed:
        spans.append(TurnSpan(before + start, before + len(ids), True))
    return Sample(
        prompt.id,
        group,
        torch.cat([prompt.ids, response]),
        torch.cat([prompt.loss_mask, is_ours]),
        torch.cat([prompt.is_image, is_image]),
        tuple(images),
        (*prompt.turns, *spans),
        prompt.stream,
        is_truncated=is_truncated,
    )


def neutral(vlm: VisionLanguageModel, text: str) -> str:
    """Return the text, changed so that no part of it is tokenised as a special token.

    After the first character of each special token, a space is inserted, e.g. ``<|im_end|>`` → ``< |im_end|>``.
    """
    for token in vlm.special_texts:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def _rendered(vlm: VisionLanguageModel, id: str, messages: Sequence[Message], with_prompt: bool) -> str:
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "assistant":
            turns.append({"role": "assistant", "content": [{"type": "text", "text": _PLACEHOLDER}]})
        else:
            turns.append({"role": message["role"], "content": _parts(vlm, message["content"])})
    try:
        with at_most(RENDERING_S):
            return vlm.processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=with_prompt)
    except TooLong as error:
        raise ModelError(
            f"the chat template of {vlm.settings.path} has not rendered the row {id} in {RENDERING_S:g} s: set "
            "model.path to another model, or correct its template"
        ) from error
    except Exception as error:  # a template can raise any type
        raise UnusableRow(
            f"{id}: the chat template cannot render the row's turns ({error}): remove the row, or use another template"
        ) from error


def _pieces(
    vlm: VisionLanguageModel, id: str, messages: Sequence[Message], with_prompt: bool
) -> list[tuple[list[int], bool]]:
    """Return a conversation as pieces: its assistant turns, and the text before, between and after these turns.

    Each piece is a pair of its token ids and a bool: True for an assistant turn with its end token, and False for the
    other text. The other text is all turns of other roles, and the text that the chat template adds. If ``with_prompt``
    is True, the last piece ends with the template's text before a new answer. Raises UnusableRow if the template leaves
    out an assistant turn, or puts no end token after an answer.
    """
    answers = [message["content"] for message in messages if message["role"] == "assistant"]
    if MARK in "".join(answers):
        raise UnusableRow(
            f"{id}: an assistant turn contains {MARK}, but only turns of other roles may contain it: remove {MARK} "
            "from this turn"
        )
    between = _rendered(vlm, id, messages, with_prompt).split(_PLACEHOLDER)
    if len(between) != len(answers) + 1:
        raise UnusableRow(
            f"{id}: the chat template leaves out {len(answers) + 1 - len(between)} assistant turns: use another "
            "template"
        )
    pieces = [(_ids(vlm, between[0]), False)]
    for answer, after in zip(answers, between[1:], strict=True):
        end, rest = _split_end(vlm, id, _ids(vlm, after))
        pieces += [(_ids(vlm, neutral(vlm, answer)) + end, True), (rest, False)]
    return pieces


def _parts(vlm: VisionLanguageModel, content: str) -> list[dict[str, str]]:
    """Split the text of a turn at its ``<image>`` placeholders; return the text parts and image parts, in order."""
    parts: list[dict[str, str]] = []
    for index, text in enumerate(content.split(MARK)):
        if index:
            parts.append({"type": "image"})
        if text:
            parts.append({"type": "text", "text": neutral(vlm, text).replace(_PLACEHOLDER, "")})
    return parts


def _ids(vlm: VisionLanguageModel, text: str) -> list[int]:
    return vlm.tokenizer(text, add_special_tokens=False).input_ids


def _split_end(vlm: VisionLanguageModel, id: str, ids: list[int]) -> tuple[list[int], list[int]]:
    """Split the tokens that follow an answer; return a list with the end token, and a list with the other tokens.

    ``ids`` holds the tokens that follow the answer. The end token is the first of them, and ends the answer. Raises
    UnusableRow if the first token is not an end token.
    """
    if not ids or ids[0] not in vlm.end_ids:
        raise UnusableRow(
            f"{id}: the chat template does not put an end-of-sequence token after an answer: use another template"
        )
    return ids[:1], ids[1:]


def _assembled(
    vlm: VisionLanguageModel, id: str, pieces: Sequence[tuple[list[int], bool]], images: Sequence[EncodedImage]
) -> Sample:
    """Return the pieces of a conversation as one sample: their tokens with a loss mask, and the images.

    Each piece is a pair of its token ids and a bool, which is True if its tokens count in the loss. In the pieces that
    do not count, each image token belongs to one of ``images``, in order. Such a token is repeated, so that it occurs
    once for each merged patch of its image. A merged patch is a group of patches, e.g. 2 x 2, that the vision tower
    merges into one token. ``id`` is the row's id, for error messages. Raises UnusableRow if the number of these image
    tokens, before they are repeated, differs from the number of images.
    """
    ids: list[int] = []
    mask: list[bool] = []
    image: list[bool] = []
    turns: list[TurnSpan] = []
    waiting = list(reversed(images))
    for piece, ours in pieces:
        start = len(ids)
        for token in piece:
            is_image = token == vlm.image_id and not ours
            if is_image and not waiting:
                raise UnusableRow(
                    f"{id}: the text has more {MARK} marks than the {len(images)} images of the row: write one mark "
                    "for each image"
                )
            count = waiting.pop().tokens if is_image else 1
            ids += [token] * count
            image += [is_image] * count
        mask += [ours] * (len(ids) - start)
        if len(ids) > start:
            turns.append(TurnSpan(start, len(ids), ours))
    if waiting:
        raise UnusableRow(
            f"{id}: the row has {len(images)} images, but its text has {len(images) - len(waiting)} {MARK} marks: "
            "write one mark for each image"
        )
    return Sample(
        id,
        id,
        torch.tensor(ids, dtype=torch.int64),
        torch.tensor(mask, dtype=torch.bool),
        torch.tensor(image, dtype=torch.bool),
        tuple(images),
        tuple(turns),
    )


def encoded_images(vlm: VisionLanguageModel, row: TrainingRow) -> tuple[EncodedImage, ...]:
    """Return the images of a training row: decoded, rotated to upright, and encoded for the vision tower of ``vlm``.

    Raises UnusableRow if an image cannot be decoded or resized.
    """
    found = []
    for number, (data, _) in enumerate(row.images, 1):
        try:
            decoded = decode_image(data)
        except UndecodableMedia as error:
            raise UnusableRow(f"{row.id}: image {number} does not decode: {error}") from error
        key, name = hashlib.sha256(data).hexdigest(), f"{row.id}: image {number}"
        found.append(vlm.encode_image(Image.fromarray(decoded.pixels), key, name))
    return tuple(found)


def sft_sample(vlm: VisionLanguageModel, row: TrainingRow) -> Sample:
    """Return a row for supervised fine-tuning as a sample: its turns as tokens with a loss mask, and its images.

    The tokens of the assistant's turns count in the loss; the last turn must be the assistant's.

    The coordinates in the answers' point and box tags are converted from pixels to the coordinates that the model uses.
    Raises UnusableRow if the row cannot be encoded.
    """
    images = encoded_images(vlm, row)
    messages = [_in_frame(vlm, row, turn, images) for turn in row.messages]
    return encode_messages(vlm, row.id, messages, images)


def prompt_sample(vlm: VisionLanguageModel, row: TrainingRow, images: tuple[EncodedImage, ...] | None = None) -> Sample:
    """Return the turns of a row before the assistant's last turn, as a tokenised prompt that the model can answer.

    The coordinates in the point and box tags of earlier answers are converted from pixels to the coordinates that the
    model uses. ``images`` are the row's encoded images; None means that they are encoded here. Raises UnusableRow if
    the row cannot be encoded.
    """
    images = encoded_images(vlm, row) if images is None else images
    turns = row.messages[:-1] if row.messages[-1]["role"] == "assistant" else row.messages
    return encode_prompt(vlm, row.id, [_in_frame(vlm, row, turn, images) for turn in turns], images)


def prompt_samples(
    vlm: VisionLanguageModel, row: TrainingRow, only: Collection[str] = ()
) -> list[tuple[TrainingRow, Sample]]:
    """Return the tokenised prompts of a row (a question with its images), each in a pair with a row for this prompt.

    A row may have several streams. A stream is a form of response: reasoning with boxes, or reasoning with text only.
    A row with streams has one prompt for each stream. Each of these prompts is paired with a copy of the row, in which
    it is the only prompt. A row without streams has one prompt, which is paired with the row itself.

    ``only`` holds the names of the streams for which prompts are returned; if it is empty, prompts for all streams are
    returned. The result is empty if the row has streams, but none of them is in ``only``. The prompts share the row's
    encoded images. Raises UnusableRow if the row cannot be encoded.
    """
    rows, images = per_stream(row, only), encoded_images(vlm, row)
    return [(each, replace(prompt_sample(vlm, each, images), stream=each.context.stream or "")) for each in rows]


def _in_frame(
    vlm: VisionLanguageModel, row: TrainingRow, turn: Mapping[str, str], images: tuple[EncodedImage, ...]
) -> Mapping[str, str]:
    if turn["role"] != "assistant" or not images:
        return turn
    try:
        content = vlm.speech.to_model(turn["content"], sizes_of(row, images))
    except ValueError as error:
        raise UnusableRow(f"{row.id}: {error}") from error
    return {**turn, "content": content}
