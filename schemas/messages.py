"""What is said to a model: ordered parts of text and media, exactly in the order in which the model sees them."""

from dataclasses import dataclass

from schemas.records import MediaRef, Overlay


@dataclass(frozen=True)
class TextPart:
    """A stretch of text."""

    text: str


@dataclass(frozen=True)
class MediaPart:
    """A medium by reference. ``upright`` is False when the file's EXIF orientation must be applied before it is
    shown.
    """

    uri: str
    sha256: str
    kind: str = "image"
    upright: bool = True


Part = TextPart | MediaPart


def media_part(ref: MediaRef | Overlay) -> MediaPart:
    """The part that shows an original medium or a drawn one."""
    if isinstance(ref, Overlay):
        return MediaPart(ref.uri, ref.sha256)
    return MediaPart(ref.uri, ref.sha256, ref.kind, upright=ref.orientation <= 1)
