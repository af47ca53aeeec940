"""Images as they are exported: upright, opaque, and otherwise byte for byte."""

import io

import numpy as np
import pytest
from PIL import Image

from groundtrace.publishing.exports.errors import LeftOut
from groundtrace.publishing.exports.images import upright_image
from groundtrace.vision.decode import decode_image
from tests.publishing.exports.made_runs import picture


def shown(data: bytes) -> np.ndarray:
    """What a trainer sees: Pillow's pixels as RGB, whatever else the file says."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def rotated(orientation: int, kind: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return picture(30, 20, kind, exif=exif)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


GLASS = Image.fromarray(np.random.default_rng(1).integers(0, 255, (20, 30, 4), dtype=np.uint8), "RGBA")
DEEP = Image.fromarray(np.random.default_rng(1).integers(0, 65535, (20, 30), dtype=np.uint16))


@pytest.mark.parametrize(
    ("data", "extension"),
    [
        (picture(30, 20), "png"),
        (picture(30, 20, "JPEG"), "jpg"),
        (picture(30, 20, "WEBP"), "webp"),
        (picture(30, 20, "BMP"), "bmp"),
        (encoded(Image.new("L", (30, 20))), "png"),
        (encoded(Image.new("P", (30, 20)), "GIF"), "gif"),
        (rotated(1), "jpg"),
        (rotated(9), "jpg"),
    ],
)
def test_a_plain_image_keeps_its_bytes(data: bytes, extension: str) -> None:
    image = upright_image(data)
    assert image.data is data
    assert (image.extension, image.width, image.height) == (extension, 30, 20)


@pytest.mark.parametrize(
    "data",
    [
        *(rotated(orientation) for orientation in range(2, 9)),
        rotated(6, "PNG"),
        encoded(GLASS),
        encoded(GLASS.convert("P"), transparency=0),
        encoded(Image.new("CMYK", (30, 20), (90, 10, 200, 30)), "JPEG"),
        encoded(DEEP),
    ],
)
def test_a_plain_decoder_sees_what_the_pipeline_saw(data: bytes) -> None:
    image, decoded = upright_image(data), decode_image(data)
    assert image.extension == "png"
    assert (image.width, image.height) == (decoded.width, decoded.height)
    assert np.array_equal(shown(image.data), decoded.pixels)


def broken(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[len(data) // 2] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize("data", [b"", b"no image", picture()[:20], picture(kind="JPEG")[:10], broken(picture())])
def test_what_is_no_image(data: bytes) -> None:
    with pytest.raises(LeftOut, match="unreadable_image"):
        upright_image(data)
