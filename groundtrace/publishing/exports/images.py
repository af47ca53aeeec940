"""The images of a row as every trainer shows them: upright, and in colours that a plain decoder reads as ours does.

Points and boxes refer to the upright image. Most trainers open images with Pillow and apply neither the EXIF
orientation nor a white ground behind transparency, so an image that needs either is written anew, as a PNG without
loss. All others keep their bytes.
"""

import io
from dataclasses import dataclass

import cv2
from PIL import ExifTags, Image

from groundtrace.publishing.exports.errors import LeftOut
from groundtrace.vision.decode import UndecodableMedia, decode_image

EXTENSIONS = {"JPEG": "jpg", "MPO": "jpg", "PNG": "png", "GIF": "gif", "WEBP": "webp", "BMP": "bmp", "TIFF": "tif"}
"""By the format that Pillow names; any other is written anew as a PNG."""
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "PPM")
_PNG_EXIF = (b"eXIf", b"Raw profile type", b"XML:com.adobe.xmp")
_PLAIN_MODES = ("RGB", "L", "1", "P")


@dataclass(frozen=True)
class UprightImage:
    """The bytes of an image without an orientation to apply, its size in px, and the extension of its format."""

    data: bytes
    extension: str
    width: int
    height: int


def upright_image(data: bytes) -> UprightImage:
    """Returns the image upright. Raises LeftOut for bytes that are no image, as far as header and checksums tell.

    Pixels are decoded only where they have to be written anew, since a run has decoded them all before.
    """
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            extension = EXTENSIONS.get(image.format or "", "")
            is_plain = image.mode in _PLAIN_MODES and not image.has_transparency_data and _is_upright(image, data)
            if extension and is_plain:
                _check_sums(image, data)
                return UprightImage(data, extension, *image.size)
        decoded = decode_image(data)
    except UndecodableMedia as error:
        raise LeftOut("unreadable_image", error.detail) from error
    except Exception as error:  # Pillow raises whatever a hostile header leads to
        raise LeftOut("unreadable_image", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    _, png = cv2.imencode(".png", cv2.cvtColor(decoded.pixels, cv2.COLOR_RGB2BGR))
    return UprightImage(png.tobytes(), "png", decoded.width, decoded.height)


def _is_upright(image: Image.Image, data: bytes) -> bool:
    if image.format == "PNG" and not any(mark in data for mark in _PNG_EXIF):
        return True  # Pillow would decode the pixels to look behind them
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1) not in range(2, 9)
    except Exception:  # broken EXIF has no orientation, as for groundtrace.vision.decode
        return True


def _check_sums(image: Image.Image, data: bytes) -> None:
    """Raises what Pillow raises for a PNG with a damaged chunk; the other formats have no checksums."""
    if image.format == "PNG":
        with Image.open(io.BytesIO(data), formats=("PNG",)) as again:
            again.verify()
