"""The gallery of a report: rows of the shards with their images, the points and boxes of their traces, and attempts."""

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import cv2

from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.grading.responses.tags import Tag, format_number, scan_tags
from groundtrace.schemas.arrow import CORE
from groundtrace.vision.decode import UndecodableMedia, decode_image
from groundtrace.vision.media import MediaMissing, MediaNotAllowed, MediaStore
from groundtrace.vision.samples import Pixels

MAX_SIDE_PX = 640
MAX_IMAGES = 3
MAX_MARKS = 60
MAX_ATTEMPTS = 8
MAX_TRACE_CHARS, MAX_ATTEMPT_CHARS = 3000, 1000
IMAGE_BYTES = 2_200_000
_SIDES_PX = (MAX_SIDE_PX, 480, 320, 160)
_MARKUP = re.compile(r"(</?[A-Za-z_]{1,20}>)")
ShardRow = Mapping[str, Any]
"""A row of a shard, with the columns that :mod:`groundtrace.schemas.arrow` declares."""


@dataclass(frozen=True)
class ResponsePart:
    """A part of a response. Its ``kind`` is ``text``, ``markup`` (a structural tag), ``points``, ``box``, or ``more``
    (text was cut off here).

    The ``marks`` of points and boxes are (number, coordinates), numbered in the order of the response.
    """

    kind: str
    text: str
    marks: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class ImageMark:
    """A numbered point or box on an image; positions and sizes are in percent of the image's sides."""

    number: int
    label: str
    left: float
    top: float
    width: float | None = None
    height: float | None = None


@dataclass(frozen=True)
class Image:
    """An image of a row with the size of the original in px; ``uri`` is None if the image cannot be shown."""

    caption: str
    uri: str | None
    width_px: int = 1
    height_px: int = 1
    marks: tuple[ImageMark, ...] = ()

    @property
    def ratio(self) -> float:
        """Width divided by height."""
        return self.width_px / self.height_px


@dataclass(frozen=True)
class ShownAttempt:
    """An attempt to answer a question, as the gallery shows it."""

    spans: tuple[ResponsePart, ...]
    answer: str | None
    correct: bool | None


@dataclass(frozen=True)
class ShownRow:
    """A row of a shard as the gallery shows it; ``hidden`` is the number of images left out; the score None means
    unscored.

    ``facts`` are (name, value) pairs: the names of its media, and its added columns of texts, numbers and booleans.
    """

    row: ShardRow
    images: tuple[Image, ...]
    hidden: int
    trace: tuple[ResponsePart, ...]
    attempts: tuple[ShownAttempt, ...]
    scores: tuple[tuple[str, float | None], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


@dataclass
class ImageRoom:
    """The page's budget for images: the number of images that are not embedded yet, and the bytes left for these
    images.
    """

    images: int
    bytes_left: int = field(default=IMAGE_BYTES)

    def embed(self, pixels: Pixels) -> str | None:
        """Return the image as a data URI, in the largest size within its share of the budget; None if no size fits."""
        share = self.bytes_left // max(self.images, 1)
        self.images -= 1
        for kind, data in _encodings(pixels):
            if len(data) <= share:
                self.bytes_left -= len(data)
                return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
        return None


def spans_of(text: str, max_chars: int) -> tuple[ResponsePart, ...]:
    """Split the beginning of a response into prose, structural tags, points and boxes."""
    shown, spans = text[:max_chars], list[ResponsePart]()
    at = points = boxes = 0
    for tag in scan_tags(shown):
        chip = _chip(shown, tag, points, boxes)
        if chip is None:
            continue
        spans += _prose(shown[at : tag.start])
        spans.append(chip)
        at = tag.end
        points += len(chip.marks) if chip.kind == "points" else 0
        boxes += len(chip.marks) if chip.kind == "box" else 0
    spans += _prose(shown[at:])
    if len(text) > len(shown):
        spans.append(ResponsePart("more", f"… {len(text) - len(shown):,} more characters"))
    return tuple(spans)


def _chip(text: str, tag: Tag, points: int, boxes: int) -> ResponsePart | None:
    """Return the part for a tag; None if the tag has no coordinates. ``points`` and ``boxes`` are their numbers before
    it.
    """
    written = text[tag.start : tag.end]
    if tag.name == "box":
        kind, label, number = "box", dict(tag.attributes).get("alt", ""), boxes + 1
        corners = [(box.x1, box.y1, box.x2, box.y2) for box in parse_boxes(written)]
    else:
        kind, label, number = "points", tag.label, points + 1
        corners = [(point.x, point.y) for point in parse_points(written)]
    marks = tuple((number + i, ", ".join(map(format_number, corner))) for i, corner in enumerate(corners))
    return ResponsePart(kind, label, marks) if marks else None


def _prose(text: str) -> Iterator[ResponsePart]:
    for part in _MARKUP.split(text):
        if part:
            yield ResponsePart("markup" if _MARKUP.fullmatch(part) else "text", part)


def entry_of(row: ShardRow, room: ImageRoom) -> ShownRow:
    """Return the row as the gallery shows it; ``room`` limits the size of its images."""
    originals, overlays = row["images"] or [], row["overlays"] or []
    images = [_original(row, index, room) for index in shown_images(row)]
    for number, overlay in enumerate(overlays[:MAX_IMAGES], start=1):
        caption = "as the teacher saw it" if len(overlays) == 1 else f"as the teacher saw it ({number})"
        images.append(_image(overlay["bytes"], caption, room))
    turns = row.get("messages") or []
    return ShownRow(
        row={"rubrics": None, **row},  # the page shows rubrics apart from other added columns
        images=tuple(images),
        hidden=len(originals) + len(overlays) - len(images),
        trace=spans_of(turns[-1]["content"] or "", MAX_TRACE_CHARS) if turns else (),
        attempts=tuple(
            ShownAttempt(spans_of(tried["text"] or "", MAX_ATTEMPT_CHARS), tried["answer"], tried["correct"])
            for tried in (row["attempts"] or [])[:MAX_ATTEMPTS]
        ),
        scores=_scores(row),
        facts=_facts(row),
    )


def rejected_entry(row: ShardRow, room: ImageRoom, store: MediaStore) -> ShownRow:
    """Return a rejected record with its first image and, if it has traces, its best trace."""
    traces = row["traces"] or []
    best = max(traces, key=lambda trace: trace["score"] or 0.0, default=None)
    text = "" if best is None else best["text"]
    shown = {
        "messages": [{"content": text}] if text else [],
        "points": [asdict(point) for point in parse_points(text)],
        "boxes": [asdict(box) for box in parse_boxes(text)],
        "scores": {} if best is None else {v["name"]: v["value"] for v in best["verdicts"]} | {"final": best["score"]},
        "overlays": [],
        "frames": None,
        "images": [{"bytes": _opened(medium["uri"], store)} for medium in row["media"][:1]],
    }
    return entry_of({**row, **shown}, room)


def _opened(uri: str, store: MediaStore) -> bytes:
    """Return the file's bytes; empty if it cannot be read, so that the image is shown as missing."""
    try:
        return store.open_bytes(uri, store.limits.max_bytes)
    except (MediaMissing, MediaNotAllowed, UndecodableMedia):
        return b""


def _facts(row: ShardRow) -> tuple[tuple[str, str], ...]:
    """Return the facts of a :class:`ShownRow`."""
    named = [("media", row.get("media_names"))] + [(name, row[name]) for name in row if name not in CORE]
    lists = [(name, value if isinstance(value, list) else [value]) for name, value in named if value is not None]
    plain = str | int | float | bool
    return tuple(
        (name, ", ".join(str(each) for each in values))
        for name, values in lists
        if values and all(isinstance(each, plain) for each in values)
    )


def _scores(row: ShardRow) -> tuple[tuple[str, float | None], ...]:
    """Return the row's scores, the final score last; empty if all scores are None."""
    scores = dict(row.get("scores") or {})
    final = [("final", scores.pop("final"))] if "final" in scores else []
    given = row.get("verdicts") or row.get("extra_scores") or []  # older runs have extra_scores
    further = [(each["name"], each["value"]) for each in given if each["name"] not in scores]
    found = (*scores.items(), *further, *final)
    return found if any(value is not None for _, value in found) else ()


def shown_images(row: ShardRow) -> list[int]:
    """Return the indices of the row's images to show, in order; frames of a clip that have points are preferred."""
    places = _places(row)
    pointed = {(point["media_index"], point["frame"]) for point in row["points"] or []}
    first = sorted(range(len(places)), key=lambda index: (places[index] not in pointed, index))
    return sorted(first[:MAX_IMAGES])


def _places(row: ShardRow) -> list[tuple[int, int | None]]:
    """Return for each of the row's images the index of its medium and its frame number (None for a still image)."""
    frames = row.get("frames")
    if not frames:
        return [(index, None) for index in range(len(row["images"] or []))]
    return [(frame["media_index"], frame["frame"]) for frame in frames]


def _original(row: ShardRow, index: int, room: ImageRoom) -> Image:
    place = media_index, frame = _places(row)[index]
    caption = "original" if len(row["images"]) == 1 else f"original {index + 1}"
    if frame is not None:
        caption = f"frame {frame} ({row['frames'][index]['t_s']:.2f} s)"
    points = [
        (n, point["label"], (point["x"], point["y"]))
        for n, point in enumerate(row["points"] or [], start=1)
        if (point["media_index"], point["frame"]) == place
    ]
    boxes = [
        (n, box["label"], (box["x1"], box["y1"], box["x2"], box["y2"]))
        for n, box in enumerate(row["boxes"] or [], start=1)
        if box["media_index"] == media_index and frame is None
    ]
    return _image(row["images"][index]["bytes"], caption, room, [*points, *boxes])


def _image(
    data: bytes, caption: str, room: ImageRoom, places: Sequence[tuple[int, str, tuple[float, ...]]] = ()
) -> Image:
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
    """Return a point (x, y) or box (x1, y1, x2, y2) in pixels as a mark on an image; None if a value is not finite."""
    if not all(map(math.isfinite, place)):
        return None
    sides = (width_px, height_px) * 2
    shares = [round(min(max(100 * v / s, 0), 100), 2) for v, s in zip(place, sides, strict=False)]
    if len(shares) == 2:
        return ImageMark(number, label, *shares)
    left, top, right, bottom = shares
    return ImageMark(number, label, left, top, round(right - left, 2), round(bottom - top, 2))


def _encodings(pixels: Pixels) -> Iterator[tuple[str, bytes]]:
    """Yield the image in decreasing sizes: as PNG if it has at most 1.5 times the JPEG's bytes (as for drawings), else
    as JPEG.
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
