"""Converts a row of a run to messages for molmo-utils 0.0.1 and for the chat template of a Molmo 2 processor.

An image becomes ``{"type": "image", "image": PIL}``. A clip becomes ``{"type": "video", "video": [PIL, …],
"timestamps": […]}``. ``process_vision_info`` of molmo-utils accepts both dicts. In the dict of a clip, ``video`` holds
the row's frames, to which the trace refers, and ``timestamps`` holds their times in seconds. The video file itself is
not used, because molmo-utils would sample other frames from it, at most 2 a second. There is one exception: a clip of
one frame becomes an image, since molmo-utils cannot compute its frame rate.

In a row, each frame of a clip has a line of text such as ``Frame 2 (1.5 s): <image>``. The messages do not contain
these lines, since the dict of the clip holds the frames and their times.

Messages in the format of molmo-utils can also be the input of a run, with the layout ``conversations``. In the input, a
clip must be a video file, ``{"type": "video", "video": PATH}``. A clip as a list of frames is refused.
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
    """Convert a row to messages for molmo-utils and for the chat template of a Molmo 2 processor.

    ``row`` is an SFT row, whose ``messages`` are converted, or an RL row, whose ``prompt`` is converted. In the result,
    images and clips replace the placeholders ``<image>`` of the text. Coordinates in the texts stay pixels of the
    original image. Raises UserError if the row has no images or no messages, or if the number of placeholders does not
    match the images and clips. A row that a run wrote, and that nobody has changed, never causes this error.
    """
    messages = row.get("messages") or row.get("prompt")
    if not messages or row.get("images") is None:
        raise UserError(
            "the row must have the column 'images', and the column 'messages' or 'prompt': pass an SFT or RL row of a "
            "run to molmo_messages"
        )
    media = _media(row)
    turns = [{"role": turn["role"], "content": _content(turn, media)} for turn in messages]
    if media:
        raise UserError(
            f"the text of row {row.get('id')} has no <image> mark for {len(media)} of its images or clips: repeat the "
            "run"
        )
    return turns


def _media(row: Mapping[str, Any]) -> list[Part]:
    """Return the row's images and clips in order, each in the form that molmo-utils expects."""
    images = [_opened(image) for image in row["images"]]
    frames = row.get("frames")
    if not frames:
        return [{"type": "image", "image": image} for image in images]
    if len(frames) != len(images):
        raise UserError(
            f"row {row.get('id')} must have one image for each frame, but has {len(frames)} frames and {len(images)} "
            "images: repeat the run"
        )
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
    """Return an item of the column ``images`` as a PIL image.

    In a shard (Parquet file), the item is a dict with ``bytes`` and ``path``. The library ``datasets`` gives the item
    as a PIL image, which is returned unchanged.
    """
    return image if isinstance(image, Image.Image) else Image.open(io.BytesIO(image["bytes"])).convert("RGB")


def _content(turn: Mapping[str, Any], media: list[Part]) -> list[Part]:
    """Return the parts (texts, images and clips) of a turn; only a user's turn has images and clips."""
    is_user = turn["role"] == "user"
    return list(_parts(turn["content"], media)) if is_user else [{"type": "text", "text": turn["content"]}]


def _parts(text: str, media: list[Part]) -> Iterator[Part]:
    """Yield the parts of a text: the text between its marks, and the next image or clip in place of each mark.

    A mark is a placeholder for an image or a clip. ``media`` are the images and clips that no mark has used yet. Each
    yielded image or clip is removed from this list. Raises UserError if the text has more marks than media.
    """
    for piece in _pieces(text):
        if piece not in (_MARK, _CLIP):
            yield {"type": "text", "text": piece}
        elif media:
            yield media.pop(0)
        else:
            raise UserError(
                "the text of the row has more <image> marks than the row has images and clips: repeat the run that "
                "wrote the row"
            )


def _pieces(text: str) -> Sequence[str]:
    """Split the text at its marks ``<image>``. The result contains the texts and the marks, in order.

    The frames of a clip are treated in another way. Each frame has a line such as ``Frame 2 (1.5 s): <image>``. The
    consecutive lines of one clip are replaced by a single mark ``<clip>``.
    """
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
    """Split the text at its marks ``<image>``. The marks are kept as items of the result; empty parts are left out."""
    return [piece for piece in re.split(f"({_MARK})", text) if piece]
