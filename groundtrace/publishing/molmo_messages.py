"""A row of a run as messages of molmo-utils 0.0.1, and so of a Molmo 2 processor's chat template.

An image is ``{"type": "image", "image": PIL}``. A clip is ``{"type": "video", "video": [PIL, …], "timestamps": […]}``
with the frames of the row, which the trace speaks of, and their times in seconds; of the file molmo-utils would pick
others by its own cap of 2 frames a second. ``process_vision_info`` takes both. Lines of the text that only hold a
frame's mark are dropped, since the frames and their times stand in the element; a clip of one frame, which molmo-utils
cannot give a rate, is an image.

The way back is the shape ``conversations`` of an input: it reads messages with ``{"type": "video", "video": PATH}``.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from PIL import Image

from groundtrace.schemas.errors import UserError

_MARK = "<image>"
_FRAME_LINE = re.compile(r"^Frame \d+ \([\d.]+ s\): <image>\n?", re.MULTILINE)
_CLIP = "<clip>"

Part = dict[str, Any]


def molmo_messages(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages of an SFT row, or the prompt of an RL row, with its images and clips where their marks stand.

    Coordinates in texts stay those of the row, pixels of the original. Raises UserError for a row whose marks and
    images differ in number, as no run writes it.
    """
    messages = row.get("messages") or row.get("prompt")
    if not messages or row.get("images") is None:
        raise UserError("molmo_messages needs a row of a run, with images and with messages or a prompt")
    media = _media(row)
    said = [{"role": turn["role"], "content": _content(turn, media)} for turn in messages]
    if media:
        raise UserError(f"row {row.get('id')}: {len(media)} more media than marks in its text")
    return said


def _media(row: Mapping[str, Any]) -> list[Part]:
    """The elements of the row's media, in order."""
    images = [_opened(image) for image in row["images"]]
    frames = row.get("frames")
    if not frames:
        return [{"type": "image", "image": image} for image in images]
    if len(frames) != len(images):
        raise UserError(f"row {row.get('id')}: {len(frames)} frames for {len(images)} images")
    media: list[Part] = []
    for index in sorted({frame["media_index"] for frame in frames}):
        own = [(frame, image) for frame, image in zip(frames, images, strict=True) if frame["media_index"] == index]
        if len(own) == 1:
            media.append({"type": "image", "image": own[0][1]})
        else:
            media.append(
                {
                    "type": "video",
                    "video": [image for _, image in own],
                    "timestamps": [frame["t_s"] for frame, _ in own],
                }
            )
    return media


def _opened(image: Any) -> Image.Image:
    """The image of a cell: bytes and path as in a shard, or what ``datasets`` has made of them."""
    return image if isinstance(image, Image.Image) else Image.open(io.BytesIO(image["bytes"])).convert("RGB")


def _content(turn: Mapping[str, Any], media: list[Part]) -> list[Part]:
    """The parts of a turn; only a user's shows media."""
    is_user = turn["role"] == "user"
    return list(_parts(turn["content"], media)) if is_user else [{"type": "text", "text": turn["content"]}]


def _parts(text: str, media: list[Part]) -> Iterator[Part]:
    """The text cut at its marks, with the media that stand there taken off the list."""
    for piece in _pieces(text):
        if piece not in (_MARK, _CLIP):
            yield {"type": "text", "text": piece}
        elif media:
            yield media.pop(0)
        else:
            raise UserError("the text of a row has more marks than the row has media")


def _pieces(text: str) -> Sequence[str]:
    """The text with each run of frame lines as one mark of a clip."""
    cut: list[str] = []
    at = 0
    for found in _FRAME_LINE.finditer(text):
        before = text[at : found.start()]
        if before or not cut or cut[-1] != _CLIP:
            cut += [*_split(before), _CLIP]
        elif found.group().startswith("Frame 1 "):
            cut.append(_CLIP)
        at = found.end()
    return [*cut, *_split(text[at:])]


def _split(text: str) -> list[str]:
    return [piece for piece in re.split(f"({_MARK})", text) if piece]
