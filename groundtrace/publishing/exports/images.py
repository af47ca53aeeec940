"""Makes the images of a row upright and opaque, so that every trainer decodes them to the same pixels.

Points and boxes refer to the upright image. Most trainers open images with Pillow. Such trainers do not apply the EXIF
orientation, and do not put a white background behind transparent pixels. So an image that needs a rotation or a
background is encoded again, as a PNG. All other images keep their bytes.
"""

import io
from dataclasses import dataclass

import cv2
from PIL import ExifTags, Image

from groundtrace.publishing.exports.errors import LeftOut
from groundtrace.vision.decode import UndecodableMedia, decode_image

EXTENSIONS = {"JPEG": "jpg", "MPO": "jpg", "PNG": "png", "GIF": "gif", "WEBP": "webp", "BMP": "bmp", "TIFF": "tif"}
"""File extensions by Pillow's name of the format; an image of another format is encoded again as a PNG."""
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "PPM")
_PNG_EXIF = (b"eXIf", b"Raw profile type", b"XML:com.adobe.xmp")
_PLAIN_MODES = ("RGB", "L", "1", "P")


@dataclass(frozen=True)
class UprightImage:
    """Holds an image that is upright and opaque: it needs neither a rotation nor a background.

    ``data`` holds its encoded bytes, and ``extension`` is the file extension of its format. ``width`` and ``height``
    are in px.
    """

    data: bytes
    extension: str
    width: int
    height: int


def upright_image(data: bytes) -> UprightImage:
    """Return the image upright and without transparency. ``data`` holds the encoded image.

    Raises LeftOut if the header or a checksum of the image is wrong. The pixels are decoded only if the image has to be
    encoded again, since the run has already decoded all images once.
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
    except Exception as error:  # a hostile header can make Pillow raise any exception
        raise LeftOut("unreadable_image", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    _, png = cv2.imencode(".png", cv2.cvtColor(decoded.pixels, cv2.COLOR_RGB2BGR))
    return UprightImage(png.tobytes(), "png", decoded.width, decoded.height)


def _is_upright(image: Image.Image, data: bytes) -> bool:
    """Return whether the image is upright: its EXIF data requests neither a rotation nor mirroring."""
    if image.format == "PNG" and not any(mark in data for mark in _PNG_EXIF):
        return True  # without this, Pillow would decode all pixels to look for EXIF after them
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1) not in range(2, 9)
    except Exception:  # groundtrace.vision.decode, too, ignores the orientation of broken EXIF
        return True


def _check_sums(image: Image.Image, data: bytes) -> None:
    """Check the checksums of a PNG. Raises Pillow's error if a chunk of the PNG is damaged.

    Images of other formats are not checked, because these formats have no checksums.
    """
    if image.format == "PNG":
        with Image.open(io.BytesIO(data), formats=("PNG",)) as again:
            again.verify()
