"""Builds a message to a model: a list of texts and images, in the order in which the model sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groundtrace.grading.responses.times import format_moment
from groundtrace.schemas.records import FrameRef, MediaRef, Overlay


@dataclass(frozen=True)
class TextPart:
    """Holds a piece of text in a message."""

    text: str


@dataclass(frozen=True)
class MediaPart:
    """Holds a reference to one image file in a message: an original image, a frame or an image with drawings.

    ``uri`` is the address of the file, and ``sha256`` is the digest of its bytes. ``kind`` is the kind of medium, such
    as "image". ``upright`` is False if the file must be rotated by its EXIF orientation before it is shown.
    """

    uri: str
    sha256: str
    kind: str = "image"
    upright: bool = True


Part = TextPart | MediaPart


def media_part(ref: MediaRef | Overlay | FrameRef) -> MediaPart:
    """Return the part of a message that shows one image file.

    ``ref`` is an original image, a frame of a clip, or an image with drawings (overlay). Only an original image may
    need a rotation by its EXIF orientation.
    """
    if isinstance(ref, Overlay | FrameRef):
        return MediaPart(ref.uri, ref.sha256)
    return MediaPart(ref.uri, ref.sha256, ref.kind, upright=ref.orientation <= 1)


def shown(media: Sequence[MediaRef], drawn: Mapping[tuple[int, int | None], Overlay] | None = None) -> list[Part]:
    """Return the parts of a message that show the media of a question, in order.

    ``media`` are the images and clips. An image becomes one part. A clip becomes a line of text about the clip and
    then, for each frame, a line with the frame's number and time, and the frame itself.

    ``drawn`` holds overlays: copies of images or frames with drawings on them. Such a copy is shown instead of the
    original. The key is (media index, None) for an image, and (media index, frame number) for a frame. If ``drawn`` is
    None, all originals are shown.
    """
    drawn = drawn or {}
    parts: list[Part] = []
    for index, medium in enumerate(media):
        if not medium.frames:
            parts.append(media_part(drawn.get((index, None), medium)))
            continue
        parts.append(TextPart(clip_line(medium, index, len(media))))
        for frame in medium.frames:
            parts.append(TextPart(f"{format_moment(frame.number, frame.t_s).capitalize()}:"))
            parts.append(media_part(drawn.get((index, frame.number), frame)))
    return parts


def clip_line(medium: MediaRef, index: int, count: int) -> str:
    """Return the line of text that introduces a clip, such as "A video clip, shown as 8 frames, the last at 3.50 s."

    ``medium`` is the clip. ``index`` is its position (from 0) among the ``count`` media of the question. If there are
    several media, the line also names the number of the medium: "Medium 2: a video clip, …".
    """
    which = f"Medium {index + 1}: a" if count > 1 else "A"
    last = medium.frames[len(medium.frames) - 1]
    frames = f"{last.number} frames" if last.number > 1 else "its one frame"
    return f"{which} video clip, shown as {frames}, the last at {last.t_s:.2f} s."
