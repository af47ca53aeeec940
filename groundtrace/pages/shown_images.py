"""Embeds images in an HTML page, with numbered points and boxes drawn on them, within a limit of bytes for the page."""

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import cv2

from groundtrace.vision.decode import UndecodableMedia, decode_image
from groundtrace.vision.samples import Pixels

MAX_SIDE_PX = 640
MAX_MARKS = 60
IMAGE_BYTES = 2_200_000
_SIDES_PX = (MAX_SIDE_PX, 480, 320, 160)


@dataclass(frozen=True)
class ImageMark:
    """Holds a point or box with its number and label, as a page draws it on an image.

    Positions and sizes are in percent of the image's width or height. ``left`` and ``top`` are the position of the
    point, or of the box's upper left corner. ``width`` and ``height`` are None for a point.
    """

    number: int
    label: str
    left: float
    top: float
    width: float | None = None
    height: float | None = None


@dataclass(frozen=True)
class Image:
    """Holds an image as a page shows it.

    ``uri`` is the image file as a data URI; it is None if the image cannot be shown. ``width_px`` and ``height_px`` are
    the size of the original image in pixels. ``marks`` are the points and boxes to draw on it.
    """

    caption: str
    uri: str | None
    width_px: int = 1
    height_px: int = 1
    marks: tuple[ImageMark, ...] = ()

    @property
    def ratio(self) -> float:
        """Return the aspect ratio of the image: its width divided by its height."""
        return self.width_px / self.height_px


@dataclass
class ImageRoom:
    """Holds how many bytes the remaining images of a page may use, so that the page does not become too large.

    ``images`` is the number of images that are still to be embedded. ``bytes_left`` is the number of bytes that all
    these images together may use. Each embedded image reduces both numbers. An image that cannot be embedded reduces
    only ``images``.
    """

    images: int
    bytes_left: int = field(default=IMAGE_BYTES)

    def embed(self, pixels: Pixels) -> str | None:
        """Return an image as a data URI, or None if the image is too large in every size that is tried.

        ``pixels`` is the image as RGB uint8 (H, W, 3). The image may use an equal share of the bytes that are left:
        ``bytes_left`` divided by ``images``. Of all sizes that fit into this share, the method uses the largest. Each
        call reduces :attr:`images` by 1. If the image fits, the call also reduces :attr:`bytes_left` by the size of the
        encoded image in bytes.
        """
        share = self.bytes_left // max(self.images, 1)
        self.images -= 1
        for kind, data in _encodings(pixels):
            if len(data) <= share:
                self.bytes_left -= len(data)
                return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
        return None


def shown_image(
    data: bytes, caption: str, room: ImageRoom, places: Sequence[tuple[int, str, tuple[float, ...]]] = ()
) -> Image:
    """Return an image in the form in which a page shows it, with the given points and boxes.

    ``data`` is the encoded image file, e.g. PNG. ``room`` holds how many images and bytes the page may still embed;
    this call reduces these numbers. ``places`` are the points and boxes, each as (number, label, coordinates in
    pixels). A point has the coordinates (x, y), a box (x1, y1, x2, y2). If the image cannot be decoded or does not fit
    into the page, the result has no ``uri``, and its caption gives the reason.
    """
    try:
        pixels = decode_image(data).pixels
    except UndecodableMedia as error:
        room.images -= 1
        return Image(f"{caption}: cannot be shown here ({error.kind})", None)
    height, width = pixels.shape[:2]
    uri = room.embed(pixels)
    marks = [_mark(number, label or "", place, width, height) for number, label, place in places[:MAX_MARKS]]
    note = caption if uri else f"{caption}: left out, this page is full"
    return Image(note, uri, width, height, tuple(mark for mark in marks if mark is not None))


def _mark(number: int, label: str, place: tuple[float, ...], width_px: int, height_px: int) -> ImageMark | None:
    """Return a point or box as a mark on an image; None if a coordinate is not finite.

    ``place`` is the point (x, y) or the box (x1, y1, x2, y2) in pixels. ``number`` and ``label`` are those of the point
    or box. ``width_px`` and ``height_px`` are the size of the image in pixels.
    """
    if not all(map(math.isfinite, place)):
        return None
    sides = (width_px, height_px) * 2
    shares = [round(min(max(100 * v / s, 0), 100), 2) for v, s in zip(place, sides, strict=False)]
    if len(shares) == 2:
        return ImageMark(number, label, *shares)
    left, top, right, bottom = shares
    return ImageMark(number, label, left, top, round(right - left, 2), round(bottom - top, 2))


def _encodings(pixels: Pixels) -> Iterator[tuple[str, bytes]]:
    """Yield the image in several sizes, the largest first, each as a pair (file type, bytes).

    The type is PNG if the PNG has at most 1.5 times the bytes of the JPEG, which is typical of drawings. Otherwise the
    type is JPEG.
    """
    bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    height, width = bgr.shape[:2]
    for side in _SIDES_PX:
        scale = min(side / max(width, height), 1.0)
        size = (max(round(width * scale), 1), max(round(height * scale), 1))
        small = cv2.resize(bgr, size, interpolation=cv2.INTER_AREA) if scale < 1 else bgr
        png = cv2.imencode(".png", small, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
        jpeg = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes()
        yield ("png", png) if len(png) <= 1.5 * len(jpeg) else ("jpeg", jpeg)
