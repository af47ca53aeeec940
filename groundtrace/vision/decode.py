"""Decodes image bytes to upright 8-bit RGB pixels, or raises a typed error with the reason.

The content of the file determines the format. The result has the same pixels as in an image viewer: the EXIF
orientation is applied, transparency is composited on white, 16-bit samples are scaled (not clipped), and CMYK and
palettes are converted. Colour profiles and gamma chunks are ignored, as vision encoders ignore them.

OpenCV decodes PNG and JPEG (RGB and grey), because it is faster than Pillow and keeps 16-bit samples. Pillow decodes
the other formats. For an image with 8-bit samples, OpenCV and Pillow give the same pixels. OpenCV also accepts damaged
files. Therefore a PNG is rejected unless its chunks and checksums are intact, and a JPEG that does not end with an end
marker is decoded or rejected by Pillow. A truncated JPEG with a false end marker is not detected.
"""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from groundtrace.vision.jpeg_scans import MAX_SCANS, has_many_scans
from groundtrace.vision.samples import Pixels, Samples, to_rgb, upright

# Runs already work on several images at once. OpenCV's own threads would only wait for work, in a busy loop.
cv2.setNumThreads(1)

Kind = Literal["empty", "truncated", "corrupt", "not_an_image", "too_large", "too_small", "animated", "unsupported"]

_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "PPM")  # MPO comes in through JPEG
_PNG = b"\x89PNG\r\n\x1a\n"
_PIXEL_CHUNKS = frozenset((b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"))
_JPEG = b"\xff\xd8\xff"
_JPEG_END = b"\xff\xd9"
_KNOWN = (_JPEG, _PNG, b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
_UNSUPPORTED = (
    (0, b"%PDF", "PDF"),
    (0, b"%!PS", "PostScript"),
    (0, b"<svg", "SVG"),
    (0, b"8BPS", "Photoshop"),
    (0, b"\xff\x0a", "JPEG XL"),
    (0, b"\x00\x00\x00\x0cJXL ", "JPEG XL"),
    (0, b"\x00\x00\x00\x0cjP  ", "JPEG 2000"),
    (4, b"ftyphei", "HEIC"),
    (4, b"ftypmif1", "HEIF"),
)


class UndecodableMedia(ValueError):
    """Raised if bytes are not a usable image or clip.

    ``kind`` is a short code for the reason, e.g. "truncated" or "too_large". ``detail`` is a sentence that explains the
    reason.
    """

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind: Kind = kind
        self.detail = detail

    def __reduce__(self) -> tuple[type[UndecodableMedia], tuple[Kind, str]]:
        """Return the constructor and its arguments for pickle, so that the error can be sent between workers."""
        return type(self), (self.kind, self.detail)


@dataclass(frozen=True)
class Limits:
    """Holds the size limits of an image. They are checked against the file's header, before any pixel is decoded.

    Attributes:
        max_pixels: the maximum of width times height.
        max_decoded_bytes: the maximum size of the decoder's output, before it is converted to 8-bit RGB. For example,
            16-bit RGBA takes 8 bytes for each pixel.
        min_side: the minimum width and the minimum height in pixels.
        max_bytes: the maximum size of the file in bytes.

    For all formats except PNG, images above Pillow's own limit against decompression bombs (179 megapixels) are
    refused, whatever ``max_pixels`` is.
    """

    max_pixels: float = 100e6
    max_decoded_bytes: float = 400e6
    min_side: int = 1
    max_bytes: int = 256 * 2**20


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class DecodedImage:
    """Holds a decoded still image. ``pixels`` is the upright image as ``(height, width, 3)`` uint8 RGB.

    ``width`` and ``height`` are the size of the upright image in pixels. ``orientation`` is the EXIF value (1 to 8) by
    which the image was turned upright; it is 1 if the file has no such value. ``format`` is the detected file format,
    e.g. "PNG". ``frames`` is the number of images in the file. It is always 1, because a file with several images is
    rejected.
    """

    pixels: Pixels
    width: int
    height: int
    orientation: int
    format: str
    frames: int


def decode_image(data: bytes, limits: Limits = DEFAULT_LIMITS) -> DecodedImage:
    """Decode the bytes of one still image, and return its upright RGB pixels with their size and format.

    ``data`` holds the bytes of the file. ``limits`` holds the accepted sizes. Raises :class:`UndecodableMedia` for any
    bytes that are not a complete image within the limits. No other error is raised, whatever the bytes are.
    """
    if not data:
        raise UndecodableMedia("empty", "the file has no bytes")
    if len(data) > limits.max_bytes:
        raise UndecodableMedia("too_large", f"the file has {len(data)} bytes, the limit is {limits.max_bytes}")
    try:
        pixels, orientation, name = _decode_png(data, limits) or _decode_with_pillow(data, limits)
    except UndecodableMedia:
        raise
    except Exception as error:  # the decoders raise some fifteen types for malformed bytes
        raise _explained(data, error) from error
    height, width = pixels.shape[:2]
    return DecodedImage(pixels, width, height, orientation, name, 1)


@dataclass(frozen=True)
class _PngHeader:
    width: int
    height: int
    depth: int
    colour_type: int
    grey_key: int | None  # the sample value that means transparent; only greyscale with tRNS has one
    names: frozenset[bytes]
    has_exif: bool

    @property
    def pixel_bytes(self) -> int:
        """Return the number of bytes per pixel in OpenCV's output.

        OpenCV writes a palette image as colours, and grey with alpha as RGBA.
        """
        channels = {0: 1, 2: 3, 3: 4 if b"tRNS" in self.names else 3}.get(self.colour_type, 4)
        return channels * (2 if self.depth == 16 else 1)


def _png_header(data: bytes) -> _PngHeader:
    """Return the header fields of a PNG, after a check of the lengths and checksums of all chunks up to the end chunk.

    Raises UndecodableMedia if the file is incomplete or damaged.
    """
    names: set[bytes] = set()
    fields: tuple[int, int, int, int] | None = None
    key: int | None = None
    has_exif = False
    view, at = memoryview(data), len(_PNG)
    while b"IEND" not in names:
        if at + 12 > len(data):
            raise UndecodableMedia("truncated", "the PNG file is incomplete: its end chunk is missing")
        length = int.from_bytes(view[at : at + 4], "big")
        name, body = bytes(view[at + 4 : at + 8]), view[at + 8 : at + 8 + length]
        if at + 12 + length > len(data):
            raise UndecodableMedia("truncated", f"the PNG file is incomplete: it stops inside its chunk {name!r}")
        if zlib.crc32(view[at + 4 : at + 8 + length]) != int.from_bytes(
            view[at + 8 + length : at + 12 + length], "big"
        ):
            raise UndecodableMedia("corrupt", f"the PNG chunk {name!r} has a wrong checksum")
        if fields is None:
            if name != b"IHDR" or length != 13:
                raise UndecodableMedia("corrupt", "the PNG does not begin with a header chunk")
            fields = struct.unpack(">IIBB", body[:10])
        elif name == b"tRNS" and fields[3] == 0 and length == 2:
            key = int.from_bytes(body, "big")
        elif name == b"eXIf":
            has_exif = True
        elif name in (b"tEXt", b"zTXt", b"iTXt"):
            has_exif |= bytes(body[:20]).startswith((b"Raw profile type", b"XML:com.adobe.xmp"))
        names.add(name)
        at += 12 + length
    assert fields is not None
    return _PngHeader(*fields, key, frozenset(names), has_exif)


def _decode_png(data: bytes, limits: Limits) -> tuple[Pixels, int, str] | None:
    """Return pixels, orientation and format of a PNG, decoded by OpenCV; None if Pillow must decode or reject it."""
    if not data.startswith(_PNG):
        return None
    header = _png_header(data)
    _check_size(header.width, header.height, header.pixel_bytes, limits)
    if b"acTL" in header.names:
        return None
    samples = _by_opencv(_without_metadata(data, header.names), cv2.IMREAD_UNCHANGED)
    if samples is None or samples.shape[:2] != (header.height, header.width):
        return None
    key = header.grey_key
    if samples.ndim == 2 and key is not None:  # OpenCV leaves out the transparency of grey PNGs
        key = key * 255 // (2**header.depth - 1) if header.depth < 8 else key
        samples[samples == key] = 65535 if header.depth == 16 else 255
    orientation = 1
    if header.has_exif:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            orientation = _orientation(image)
    return upright(to_rgb(samples), orientation), orientation, "PNG"


def _without_metadata(data: bytes, names: frozenset[bytes]) -> bytes:
    """Return the PNG file with only the chunks that its pixels need.

    The removed chunks hold colour profiles and other metadata, on which no pixel depends. They are removed because
    libpng prints a warning on the terminal for a metadata chunk that it does not accept. ``data`` is the PNG file; the
    caller must have checked its chunks. ``names`` are the types of all chunks in the file.
    """
    if names <= _PIXEL_CHUNKS:
        return data
    kept, at = [_PNG], len(_PNG)
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] in _PIXEL_CHUNKS:
            kept.append(data[at:end])
        if data[at + 4 : at + 8] == b"IEND":
            break
        at = end
    return b"".join(kept)


def _decode_with_pillow(data: bytes, limits: Limits) -> tuple[Pixels, int, str]:
    """Return the pixels, orientation and format of an image file that :func:`_decode_png` does not decode.

    Pillow opens and checks the file. OpenCV then decodes the pixels if the file is an intact RGB or grey JPEG. Pillow
    decodes the pixels of all other images.
    """
    with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
        _check_size(*image.size, _pixel_bytes(image), limits)
        name = "JPEG" if image.format == "MPO" else (image.format or "?")
        if name == "JPEG" and has_many_scans(data):
            raise UndecodableMedia(
                "too_large", f"the JPEG file has more than {MAX_SCANS} scans: save the image again as JPEG or PNG"
            )
        # The further images of an MPO are previews or the second view of a stereo pair; viewers show only the first.
        if image.format != "MPO" and getattr(image, "is_animated", False):
            raise UndecodableMedia(  # the number of frames is not read: that takes minutes for a stranger's file
                "animated", f"the {name} file has several frames or pages: save the one to use as a separate image"
            )
        orientation = _orientation(image)
        if name == "JPEG" and image.mode in ("RGB", "L") and _ends_like_jpeg(data):
            pixels = _by_opencv(data, cv2.IMREAD_COLOR_RGB)
            if pixels is not None and pixels.shape[1::-1] == image.size:
                return upright(pixels.astype(np.uint8, copy=False), orientation), orientation, name
        ImageFile.LOAD_TRUNCATED_IMAGES = False  # molmo_utils sets it when it is imported: half an image would pass
        image.load()
        _check_size(*image.size, _pixel_bytes(image), limits)
        # Pillow rotates some TIFFs itself and then removes the tag: apply only the remaining orientation.
        return upright(_flattened(image, data), _orientation(image)), orientation, name


def _by_opencv(data: bytes, flags: int) -> Samples | None:
    try:
        return cv2.imdecode(np.frombuffer(data, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:  # Pillow then decodes the image or raises the error
        return None


def _ends_like_jpeg(data: bytes) -> bool:
    return data[-64:].rstrip(b"\0\r\n ").endswith(_JPEG_END)


def _flattened(image: Image.Image, data: bytes) -> Pixels:
    """Return the loaded image as 8-bit RGB. Transparent pixels are composited on white.

    Of some TIFFs with more than 8 bits per sample, Pillow keeps only the high byte of each sample. OpenCV decodes such
    a file again, from the file's bytes ``data``. Raises UndecodableMedia if the samples cannot be converted.
    """
    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and image.format == "PPM"):
        return to_rgb(np.asarray(image).clip(0, 65535).astype(np.uint16))
    if mode in ("I", "F", "LAB"):
        raise UndecodableMedia(
            "unsupported",
            f"the image has samples of type {mode}, for which black and white are not defined: convert it to 8-bit RGB",
        )
    bits = _tiff_bits(image)
    if max(bits) > 8:
        deep = _by_opencv(data, cv2.IMREAD_UNCHANGED)  # Pillow would keep only the high bytes
        if deep is None or deep.dtype != np.uint16 or deep.shape[1::-1] != image.size:
            raise UndecodableMedia(
                "unsupported",
                f"the TIFF image has samples of {bits} bits, which cannot be read: convert it to 8-bit RGB",
            )
        return to_rgb(deep)
    if image.has_transparency_data:
        rgba = np.array(image.convert("RGBA"))
        return to_rgb(cv2.cvtColor(rgba, cv2.COLOR_RGBA2BGRA))
    return np.array(image.convert("RGB"))


def _tiff_bits(image: Image.Image) -> tuple[int, ...]:
    """Return the numbers of bits per sample, as a TIFF states them in its header; (8,) for other formats."""
    bits = image.tag_v2.get(258, 8) if image.format == "TIFF" else 8  # type: ignore[attr-defined]
    return bits if isinstance(bits, tuple) else (bits,)


def _pixel_bytes(image: Image.Image) -> int:
    """Return the number of bytes per decoded pixel. This number follows from the image's header, without decoding."""
    wide = {"I": 4, "F": 4}.get(image.mode, 2 if image.mode.startswith("I;16") or max(_tiff_bits(image)) > 8 else 1)
    return wide * {"P": 3, "PA": 4}.get(image.mode, len(image.getbands()))


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation; 1 if it is missing, unreadable or outside 1-8."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # broken EXIF does not make an image unreadable
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _check_size(width: int, height: int, pixel_bytes: int, limits: Limits) -> None:
    decoded_bytes = width * height * pixel_bytes
    if width * height > limits.max_pixels:
        raise UndecodableMedia(
            "too_large", f"the image has {width}x{height} pixels, the limit is {limits.max_pixels:.0f} pixels in total"
        )
    if decoded_bytes > limits.max_decoded_bytes:
        limit = f"the limit is {limits.max_decoded_bytes:.0f} bytes in total"
        raise UndecodableMedia("too_large", f"the image has {width}x{height} pixels of {pixel_bytes} bytes, {limit}")
    if min(width, height) < limits.min_side:
        raise UndecodableMedia(
            "too_small", f"the image has {width}x{height} pixels, but both sides need at least {limits.min_side}"
        )


def _explained(data: bytes, error: Exception) -> UndecodableMedia:
    """Convert the error of a decoder to UndecodableMedia, and return it.

    The kind of the result (such as "truncated") depends on the type of ``error``, on the bytes of the file in ``data``,
    and in one case on the text of ``error``.
    """
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning | MemoryError):
        return UndecodableMedia("too_large", "the image has more pixels than the decoder accepts: make it smaller")
    for offset, magic, name in _UNSUPPORTED:
        if data.startswith(magic, offset):
            return UndecodableMedia(
                "unsupported", f"files of the format {name} cannot be read: convert the image to PNG or JPEG"
            )
    detail = " ".join(str(error).split())[:200] or type(error).__name__
    cut_riff = data[:4] == b"RIFF" and int.from_bytes(data[4:8], "little") + 8 > len(data)
    cut_jpeg = data.startswith(_JPEG) and not _ends_like_jpeg(data)
    if cut_riff or cut_jpeg or "truncated" in detail or isinstance(error, EOFError):
        return UndecodableMedia("truncated", "the file ends before the end of the image")
    if isinstance(error, UnidentifiedImageError):
        if data.startswith(_KNOWN):
            return UndecodableMedia("corrupt", "the file begins like an image, but its header is truncated or damaged")
        return UndecodableMedia("not_an_image", "the file does not begin like any image format that can be read")
    return UndecodableMedia("corrupt", detail)
