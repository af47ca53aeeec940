"""Builds a message to a model: parts of text and media, in the order in which the model sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groundtrace.grading.responses.times import format_moment
from groundtrace.schemas.records import FrameRef, MediaRef, Overlay


@dataclass(frozen=True)
class TextPart:
    """Holds a text as a part of a message."""

    text: str


@dataclass(frozen=True)
class MediaPart:
    """Holds a reference to an image, frame or drawn image, as a part of a message.

    ``upright`` is False if the file must be rotated by its EXIF orientation before it is shown.
    """

    uri: str
    sha256: str
    kind: str = "image"
    upright: bool = True


Part = TextPart | MediaPart


def media_part(ref: MediaRef | Overlay | FrameRef) -> MediaPart:
    """Return the message part for an original image, a frame or a drawn image."""
    if isinstance(ref, Overlay | FrameRef):
        return MediaPart(ref.uri, ref.sha256)
    return MediaPart(ref.uri, ref.sha256, ref.kind, upright=ref.orientation <= 1)


def shown(media: Sequence[MediaRef], drawn: Mapping[tuple[int, int | None], Overlay] | None = None) -> list[Part]:
    """Return the message parts for the media, as a model sees them.

    An image is one part. A clip has a line about the clip, and its frames. Before each frame is a line with the frame's
    number and time. ``drawn`` holds the overlays (images with drawn marks) that replace images or frames. Its key is
    (media index, None) for an image, and (media index, frame number) for a frame.
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
    """Return the line of text before the frames of a clip.

    The line contains the number of frames and the last frame's time in seconds. If a question has several media, it
    also contains the number of the clip. ``index`` is the clip's index among the ``count`` media of the question.
    """
    which = f"Medium {index + 1}: a" if count > 1 else "A"
    last = medium.frames[len(medium.frames) - 1]
    frames = f"{last.number} frames" if last.number > 1 else "its one frame"
    return f"{which} video clip, shown as {frames}, the last at {last.t_s:.2f} s."
