"""JPEG files with so many scans that a small file takes minutes, and real files with bytes that look like scans."""

import io

import numpy as np
import pytest
from PIL import Image, ImageFile

from groundtrace.vision import decode
from groundtrace.vision.decode import UndecodableMedia, decode_image
from groundtrace.vision.jpeg_scans import MAX_SCANS, MAX_SEGMENTS, has_many_scans

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8))
SCAN, END = b"\xff\xda", b"\xff\xd9"


def jpeg(picture: Image.Image, **options: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, "JPEG", **options)
    return out.getvalue()


def repeated(picture: Image.Image, more: int) -> bytes:
    """A progressive JPEG file whose last scan is there again ``more`` times."""
    data = jpeg(picture, progressive=True)
    last = data[data.rindex(SCAN) : -len(END)]
    return data.removesuffix(END) + last * more + END


def with_segment(data: bytes, body: bytes) -> bytes:
    return data[:2] + b"\xff\xe5" + (len(body) + 2).to_bytes(2, "big") + body + data[2:]


PLAIN, PROGRESSIVE = jpeg(NOISE), jpeg(NOISE, progressive=True)
FAKE = (SCAN + b"\0\2") * (MAX_SCANS + 1)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        PROGRESSIVE,
        jpeg(NOISE, progressive=True, quality=100, subsampling=0, restart_marker_blocks=1),
        with_segment(PROGRESSIVE, FAKE),
        with_segment(PLAIN, jpeg(NOISE) + FAKE),
        PLAIN + FAKE,
        repeated(NOISE, MAX_SCANS - PROGRESSIVE.count(SCAN)),
    ],
    ids=["baseline", "progressive", "restarts", "metadata", "a preview", "a video after the image", "the most scans"],
)
def test_files_that_are_decoded(data: bytes) -> None:
    assert not has_many_scans(data)
    assert decode_image(data).width == 160


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_file_with_too_many_scans_is_refused_before_it_is_decoded(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = repeated(Image.new(mode, (3000, 3000)), 20_000)
    for where, name in ((ImageFile.ImageFile, "load"), (decode, "_by_opencv")):
        monkeypatch.setattr(where, name, lambda *_: pytest.fail("the file is decoded"))
    with pytest.raises(
        UndecodableMedia, match="the JPEG file has more than 100 scans: save the image again as JP"
    ) as why:
        decode_image(data)
    assert why.value.kind == "too_large"


def test_scans_with_fill_bytes_and_between_other_segments_count() -> None:
    data = repeated(NOISE, MAX_SCANS)
    assert has_many_scans(data.replace(SCAN, b"\xff" + SCAN))
    assert has_many_scans(data.replace(SCAN, b"\xff\xfe\0\4ab" + SCAN))


def test_a_file_with_too_many_segments_is_refused() -> None:
    comments = b"\xff\xfe\0\2" * MAX_SEGMENTS
    assert has_many_scans(PLAIN[:2] + comments + PLAIN[2:] + FAKE)
    assert not has_many_scans(PLAIN[:2] + comments + PLAIN[2:])
