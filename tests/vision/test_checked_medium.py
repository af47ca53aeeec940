"""Checked media: usable images are described, and unusable ones get a reason, whatever their name or place."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.media import MediaStore

GREY = Image.new("RGB", (60, 40), (211, 211, 211))


def encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def bomb() -> bytes:
    """A small PNG that says of itself that it has 10,000 million pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


USABLE = {
    "plain.png": (encoded(GREY, "PNG"), (60, 40)),
    "png-called.jpg": (encoded(GREY, "PNG"), (60, 40)),
    "jpeg-called.png": (encoded(GREY, "JPEG"), (60, 40)),
    "no-extension": (encoded(GREY, "WEBP"), (60, 40)),
    "cmyk.jpg": (encoded(GREY.convert("CMYK"), "JPEG"), (60, 40)),
    "sixteen-bit.png": (encoded(Image.fromarray(np.full((40, 60), 50_000, np.uint16)), "PNG"), (60, 40)),
    "palette-trns.png": (encoded(GREY.convert("P"), "PNG", transparency=0), (60, 40)),
    "alpha-only.png": (encoded(Image.new("LA", (60, 40), (0, 0)), "PNG"), (60, 40)),
    "one-bit.png": (encoded(GREY.convert("1"), "PNG"), (60, 40)),
    "five.png": (encoded(GREY.resize((5, 5)), "PNG"), (5, 5)),
    "tall.png": (encoded(Image.new("L", (2520, 8526), 211), "PNG"), (2520, 8526)),
}


@pytest.mark.parametrize("name", USABLE)
def test_usable_pictures(name: str, tmp_path: Path) -> None:
    data, size = USABLE[name]
    (tmp_path / name).write_bytes(data)
    found = check_medium(f"input:{name}", MediaStore(str(tmp_path), str(tmp_path)))
    assert found.ref is not None, found.detail
    assert (found.ref.width, found.ref.height, found.ref.size_bytes) == (*size, len(data))
    assert (found.ref.uri, found.ref.kind, found.ref.orientation) == (f"input:{name}", "image", 1)
    assert int(found.ref.dhash, 16).bit_length() <= 64
    assert len(found.ref.dhash) == 16


OTHER = GREY.resize((60, 40)).point(lambda value: 255 - value)
UNUSABLE = {
    "truncated.jpg": (encoded(GREY, "JPEG")[:-80], "truncated"),
    "truncated.png": (encoded(GREY, "PNG")[:-30], "truncated"),
    "empty.png": (b"", "empty: the file has no bytes"),
    "text.png": (b"this is no picture", "not_an_image"),
    "page.jpg": (b"<!DOCTYPE html><html>404</html>", "not_an_image"),
    "moving.gif": (encoded(GREY, "GIF", save_all=True, append_images=[OTHER]), "animated"),
    "moving.png": (encoded(GREY, "PNG", save_all=True, append_images=[OTHER]), "animated"),
    "bomb.png": (bomb(), "too_large: the image has 100000x100000 pixels"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_pictures(name: str, tmp_path: Path) -> None:
    data, detail = UNUSABLE[name]
    (tmp_path / name).write_bytes(data)
    found = check_medium(f"input:{name}", MediaStore(str(tmp_path), str(tmp_path)))
    assert (found.ref, found.reason) == (None, "undecodable_media")
    assert found.detail.startswith(f"input:{name}: {detail}")


def test_a_video_is_unsupported(tmp_path: Path) -> None:
    writer = cv2.VideoWriter(str(tmp_path / "clip.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 5, (32, 32))
    for _ in range(3):
        writer.write(np.full((32, 32, 3), 211, np.uint8))
    writer.release()
    found = check_medium("input:clip.avi", MediaStore(str(tmp_path), str(tmp_path)))
    assert (found.reason, found.detail) == ("unsupported_media", "input:clip.avi: video")


NOT_THERE = [
    ("input:no.png", "media_missing"),
    ("input:folder", "media_missing"),
    ("input:a.png/b", "media_missing"),
    ("input:" + "x" * 400, "media_missing"),
    ("input:ring", "media_missing"),
    ("input:../x.png", "media_not_allowed"),
    ("input:folder/../../x.png", "media_not_allowed"),
    ("input:/etc/hostname", "media_not_allowed"),
    ("input:https://example.org/a.png", "media_not_allowed"),
    ("input:file:///etc/hostname", "media_not_allowed"),
    ("input:..\\x.png", "media_not_allowed"),
    ("input:C:/x.png", "media_not_allowed"),
    ("input:a.png\0", "media_not_allowed"),
    ("run:../a.png", "media_not_allowed"),
]


@pytest.mark.parametrize(("uri", "reason"), NOT_THERE, ids=lambda value: ascii(value)[:30])
def test_media_that_cannot_be_opened(uri: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "folder").mkdir(parents=True)
    (tmp_path / "data" / "a.png").write_bytes(USABLE["plain.png"][0])
    (tmp_path / "data" / "ring").symlink_to(tmp_path / "data" / "ring")
    (tmp_path / "x.png").write_bytes(USABLE["plain.png"][0])
    found = check_medium(uri, MediaStore(str(tmp_path / "data"), str(tmp_path / "run")))
    assert (found.ref, found.reason) == (None, reason)
    assert repr(uri) in found.detail
