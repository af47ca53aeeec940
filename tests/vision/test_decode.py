"""Every kind of still that the decoder promises to read, and every way in which it promises to refuse."""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from pathlib import Path
from unittest.mock import PropertyMock

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from groundtrace.vision.decode import Limits, UndecodableMedia, decode_image

PICTURE = np.dstack(
    [
        np.tile(np.arange(0, 240, 10, np.uint8), (16, 1)),
        np.tile(np.arange(0, 240, 15, np.uint8)[:, None], (1, 24)),
        np.full((16, 24), 90, np.uint8),
    ]
)


def encoded(picture: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int, height: int, depth: int, colour: int, rows: bytes, extra: bytes = b"") -> bytes:
    per_row = len(rows) // height
    raw = b"".join(b"\0" + rows[i * per_row : (i + 1) * per_row] for i in range(height))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


RGB = Image.fromarray(PICTURE)
NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8))
JPEG, PNG, GIF = encoded(RGB, "JPEG"), encoded(RGB, "PNG"), encoded(RGB, "GIF")
WEBP, TIFF, BMP = encoded(RGB, "WEBP", lossless=True), encoded(RGB, "TIFF"), encoded(RGB, "BMP")
FRAMES = [RGB, Image.fromarray(255 - PICTURE)]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP", "WEBP", "PPM"])
def test_lossless_formats_give_the_very_pixels(kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    found = decode_image(encoded(RGB, kind, **options))
    assert np.array_equal(found.pixels, PICTURE)
    assert (found.width, found.height, found.orientation, found.format, found.frames) == (24, 16, 1, kind, 1)
    assert found.pixels.dtype == np.uint8
    assert found.pixels.flags.c_contiguous


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"quality": 30}, {"subsampling": 0}])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_both_jpeg_decoders_give_the_same_pixels(mode: str, options: dict[str, object]) -> None:
    data = encoded(NOISE.convert(mode), "JPEG", **options)
    reference = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert np.array_equal(decode_image(data).pixels, reference)
    # Bytes after the end keep OpenCV from being asked, so this is the other path.
    assert np.array_equal(decode_image(data + b"appended").pixels, reference)


PNG_CASES = {
    "1 bit": (png(4, 1, 1, 0, b"\xa0"), [255, 0, 255, 0]),
    "2 bits": (png(4, 1, 2, 0, b"\x1b"), [0, 85, 170, 255]),
    "4 bits": (png(2, 1, 4, 0, b"\x5f"), [85, 255]),
    "16 bits are scaled": (png(4, 1, 16, 0, bytes.fromhex("0000 0180 8000 ffff")), [0, 1, 128, 255]),
    "grey key": (png(3, 1, 8, 0, b"\1\2\3", chunk(b"tRNS", b"\0\2")), [1, 255, 3]),
    "2 bit grey key": (png(4, 1, 2, 0, b"\x1b", chunk(b"tRNS", b"\0\1")), [0, 255, 170, 255]),
    "16 bit grey key": (png(2, 1, 16, 0, b"\1\2\1\3", chunk(b"tRNS", b"\1\2")), [255, 1]),
    "colour key": (png(2, 1, 8, 2, b"\1\1\1\2\2\2", chunk(b"tRNS", b"\0\1\0\1\0\1")), [255, 2]),
    "grey and alpha": (png(2, 1, 8, 4, b"\x10\0\x10\xff"), [255, 16]),
    "alpha only": (png(3, 1, 8, 6, bytes([0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 255])), [255, 127, 0]),
    "fully transparent": (png(1, 1, 8, 6, b"\5\6\7\0"), [255]),
    "palette": (png(2, 1, 8, 3, b"\0\1", chunk(b"PLTE", b"\7\7\7\x09\x09\x09")), [7, 9]),
    "palette with alpha": (
        png(3, 1, 8, 3, b"\0\1\2", chunk(b"PLTE", b"\0\0\0\0\0\0\4\4\4") + chunk(b"tRNS", b"\x80\0")),
        [127, 255, 4],
    ),
}


@pytest.mark.parametrize("name", PNG_CASES)
def test_png_kinds_on_white(name: str) -> None:
    data, greys = PNG_CASES[name]
    assert decode_image(data).pixels.tolist() == [[[grey] * 3 for grey in greys]]


DISLIKED = {
    b"iCCP": b"x\0\0" + zlib.compress(b"no profile" * 20),
    b"sBIT": b"\x09\x09\x09",
    b"gAMA": bytes(4),
    b"bKGD": b"\0",
    b"pHYs": b"\0",
}


@pytest.mark.parametrize("name", DISLIKED)
def test_libpng_prints_no_warning_about_metadata(name: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    rows = b"".join(bytes([value] * 12) for value in (10, 90, 250))
    plain, told = (png(4, 3, 8, 2, rows, extra) for extra in (b"", chunk(name, DISLIKED[name])))
    assert (decode_image(told).pixels == decode_image(plain).pixels).all()
    assert capfd.readouterr().err == ""


def test_16_bit_colour_is_scaled_in_png_and_tiff() -> None:
    rgb = png(1, 1, 16, 2, bytes.fromhex("0180 7fff ffff"))
    assert decode_image(rgb).pixels.tolist() == [[[1, 127, 255]]]
    deep = Image.fromarray(np.array([[0, 384, 65535]], np.uint16))
    assert decode_image(encoded(deep, "TIFF")).pixels[0, :, 0].tolist() == [0, 1, 255]


def test_cmyk_inks_become_colours() -> None:
    inks = np.zeros((16, 16, 4), np.uint8)
    inks[:, :, 1:3] = 255  # magenta and yellow make red
    red = decode_image(encoded(Image.fromarray(inks, "CMYK"), "JPEG", quality=95)).pixels.astype(int)
    assert np.abs(red - [255, 0, 0]).max() < 12


def test_float_samples_are_refused() -> None:
    holes = np.array([[0.0, np.nan], [np.inf, 1.0]], np.float32)
    with pytest.raises(UndecodableMedia) as error:
        decode_image(encoded(Image.fromarray(holes), "TIFF"))
    assert error.value.kind == "unsupported"


# By the EXIF standard: which place of the upright picture holds the stored first row and first column.
UPRIGHT = {
    0: PICTURE,
    1: PICTURE,
    2: PICTURE[:, ::-1],
    3: PICTURE[::-1, ::-1],
    4: PICTURE[::-1],
    5: PICTURE.transpose(1, 0, 2),
    6: np.rot90(PICTURE, -1),
    7: PICTURE[::-1, ::-1].transpose(1, 0, 2),
    8: np.rot90(PICTURE),
    9: PICTURE,
}


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("value", UPRIGHT)
def test_exif_orientation(value: int, kind: str) -> None:
    exif = Image.Exif()
    exif[274] = value
    options = {"lossless": True} if kind == "WEBP" else {}
    found = decode_image(encoded(RGB, kind, exif=exif, **options))
    assert np.array_equal(found.pixels, UPRIGHT[value])
    assert found.orientation == (value if 1 <= value <= 8 else 1)
    assert (found.height, found.width) == UPRIGHT[value].shape[:2]


@pytest.mark.parametrize("value", UPRIGHT)
def test_exif_orientation_of_jpeg(value: int) -> None:
    exif = Image.Exif()
    exif[274] = value
    found = decode_image(encoded(RGB, "JPEG", exif=exif, quality=95, subsampling=0))
    assert found.pixels.shape == UPRIGHT[value].shape
    assert np.abs(found.pixels.astype(int) - UPRIGHT[value]).mean() < 3


def test_the_extension_does_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"
    file.write_bytes(PNG)
    assert decode_image(file.read_bytes()).format == "PNG"


@pytest.mark.parametrize(("width", "height"), [(5, 5), (1, 1), (3, 9000), (9000, 3)])
def test_odd_sizes(width: int, height: int) -> None:
    found = decode_image(encoded(Image.new("RGB", (width, height), (1, 2, 3)), "PNG"))
    assert found.pixels.shape == (height, width, 3)


def test_a_multi_picture_jpeg_is_a_still() -> None:
    data = encoded(RGB, "MPO", save_all=True, append_images=[FRAMES[1]])
    found = decode_image(data)
    assert (found.format, found.frames, found.pixels.shape) == ("JPEG", 1, PICTURE.shape)


BOMB = png(60_000, 60_000, 8, 0, b"\0" * 60_000)
REFUSED = {
    "zero bytes": (b"", "empty"),
    "text": (b"hello, this is no picture", "not_an_image"),
    "one byte": (b"\xff", "not_an_image"),
    "video": (b"\0\0\0\x18ftypmp42" + bytes(64), "not_an_image"),
    "jpeg in half": (JPEG[: len(JPEG) // 2], "truncated"),
    "jpeg without its end": (JPEG[:-2], "truncated"),
    "jpeg start": (JPEG[:4], "truncated"),
    "progressive jpeg in half": (encoded(NOISE, "JPEG", progressive=True)[:9000], "truncated"),
    "png in half": (PNG[: len(PNG) // 2], "truncated"),
    "png without its end": (PNG[:-12], "truncated"),
    "png start": (PNG[:10], "truncated"),
    "png with a changed byte": (PNG[:60] + bytes([PNG[60] ^ 1]) + PNG[61:], "corrupt"),
    "gif in half": (encoded(NOISE, "GIF")[:9000], "truncated"),
    "gif cut in its header": (GIF[:40], "corrupt"),
    "webp in half": (WEBP[: len(WEBP) // 2], "truncated"),
    "bmp in half": (BMP[: len(BMP) // 2], "truncated"),
    "animated gif": (encoded(RGB, "GIF", save_all=True, append_images=FRAMES), "animated"),
    "animated png": (encoded(RGB, "PNG", save_all=True, append_images=FRAMES), "animated"),
    "animated webp": (encoded(RGB, "WEBP", save_all=True, append_images=FRAMES), "animated"),
    "tiff of two pages": (encoded(RGB, "TIFF", save_all=True, append_images=FRAMES), "animated"),
    "png bomb": (BOMB, "too_large"),
    "pdf": (b"%PDF-1.7\n" + bytes(64), "unsupported"),
    "heic": (b"\0\0\0\x18ftypheic" + bytes(64), "unsupported"),
}


@pytest.mark.parametrize("name", [name for name in REFUSED if "half" in name or "without its end" in name])
def test_they_are_refused_where_another_library_lets_truncated_images_pass(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    test_refusals_are_typed(name)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_typed(name: str) -> None:
    data, kind = REFUSED[name]
    with pytest.raises(UndecodableMedia) as error:
        decode_image(data)
    assert error.value.kind == kind
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{kind}: ")


def test_the_pages_of_a_tiff_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = PropertyMock(return_value=2)
    monkeypatch.setattr("PIL.TiffImagePlugin.TiffImageFile.n_frames", counted)
    test_refusals_are_typed("tiff of two pages")
    counted.assert_not_called()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"])
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(max_pixels=24 * 16 - 1), "too_large"),
        (Limits(max_decoded_bytes=24 * 16 * 3 - 1), "too_large"),
        (Limits(min_side=17), "too_small"),
        (Limits(max_bytes=30), "too_large"),
    ],
)
def test_limits(kind: str, limits: Limits, expected: str) -> None:
    with pytest.raises(UndecodableMedia) as error:
        decode_image(encoded(RGB, kind), limits)
    assert error.value.kind == expected


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(UndecodableMedia("truncated", "stops")))
    assert (error.kind, str(error)) == ("truncated", "truncated: stops")


def decodes_or_refuses(data: bytes) -> None:
    try:
        found = decode_image(data, Limits(max_pixels=1e6))
    except UndecodableMedia:
        return
    assert found.pixels.shape == (found.height, found.width, 3)
    assert found.pixels.dtype == np.uint8


HEADS = [
    b"",
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"RIFF\x40\0\0\0WEBP",
    b"II*\0",
    b"BM",
    b"P6 ",
]


@settings(max_examples=150)
@given(st.sampled_from(HEADS), st.binary(max_size=200))
def test_arbitrary_bytes(head: bytes, tail: bytes) -> None:
    decodes_or_refuses(head + tail)


@settings(max_examples=250)
@given(
    st.sampled_from([JPEG, PNG, GIF, WEBP, TIFF, BMP, PNG_CASES["palette with alpha"][0]]),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4),
    st.integers(0, 40),
)
def test_damaged_files(data: bytes, flips: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(data)
    for at, change in flips:
        damaged[at % len(damaged)] ^= change
    decodes_or_refuses(bytes(damaged[: len(damaged) - cut]))


DEEP = np.arange(24 * 16 * 4, dtype=np.uint16).reshape(16, 24, 4) * 40


@pytest.mark.parametrize(
    ("data", "pixel_bytes"),
    [
        (png(24, 16, 16, 6, DEEP.astype(">u2").tobytes()), 8),
        (png(24, 16, 16, 2, DEEP[..., :3].astype(">u2").tobytes()), 6),
        (png(24, 16, 16, 4, DEEP[..., :2].astype(">u2").tobytes()), 8),  # OpenCV decodes grey with alpha to RGBA
        (png(24, 16, 16, 0, DEEP[..., 0].astype(">u2").tobytes()), 2),
        (encoded(RGB.convert("P"), "PNG"), 3),
        (encoded(RGB.convert("P"), "PNG", transparency=0), 4),
        (encoded(RGB.convert("RGBA"), "PNG"), 4),
        (encoded(RGB.convert("RGBA"), "TIFF"), 4),
        (encoded(RGB.convert("L"), "JPEG"), 1),
        (JPEG, 3),
        (WEBP, 3),
        (encoded(Image.fromarray(DEEP[..., 0]), "TIFF"), 2),
    ],
)
def test_the_decoded_bytes_are_bounded_by_the_header(data: bytes, pixel_bytes: int) -> None:
    decode_image(data, Limits(max_decoded_bytes=24 * 16 * pixel_bytes))
    with pytest.raises(UndecodableMedia, match=f"24x16 pixels of {pixel_bytes} bytes") as error:
        decode_image(data, Limits(max_decoded_bytes=24 * 16 * pixel_bytes - 1))
    assert error.value.kind == "too_large"


@pytest.mark.parametrize(
    "data",
    [
        png(24, 16, 16, 6, DEEP.astype(">u2").tobytes()),
        encoded(Image.merge("RGBA", [*RGB.split(), RGB.getchannel(0)]), "PNG"),
        PNG,
    ],
)
def test_stripes_give_the_same_pixels(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decode_image(data).pixels
    for stripe_bytes in (1, 500):
        monkeypatch.setattr("groundtrace.vision.samples.STRIPE_BYTES", stripe_bytes)
        assert np.array_equal(decode_image(data).pixels, whole)


def test_opencv_starts_no_threads_of_its_own() -> None:
    assert cv2.getNumThreads() == 1
