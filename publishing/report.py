"""The report of a run: one HTML file that opens anywhere, with the funnel, the figures and a gallery of rows.

The page needs no network and runs no script; its policy forbids both, so that a reply that slips through the
escaping can do nothing. The rows shown are those whose ids hash lowest: the same run shows the same rows.
"""

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import cv2
import duckdb
import jinja2
import pyarrow.parquet as pq

from publishing.figures import funnel, open_tables, pass_rates, rejections, role_costs
from schemas.responses.response import parse_boxes, parse_points
from schemas.responses.tags import Tag, format_number, scan_tags
from schemas.run_summary import RunSummary
from stages.plumbing.malloc import release_memory
from vision.decode import Pixels, UndecodableMedia, decode_image

SHOWN_ROWS = {"sft": 24, "rl": 12}
EXAMPLES = 3
MAX_SIDE_PX = 640
MAX_IMAGES = 3
MAX_MARKS = 60
MAX_ATTEMPTS = 8
MAX_TRACE_CHARS, MAX_ATTEMPT_CHARS = 3000, 1000
IMAGE_BYTES = 2_200_000
_SIDES_PX = (MAX_SIDE_PX, 480, 320, 160)
_MARKUP = re.compile(r"(</?[A-Za-z_]{1,20}>)")
_COLUMNS = (
    "id", "source", "license", "images", "overlays", "frames", "question", "answer", "answer_type", "choices", "points",
    "boxes", "scores", "extra_scores", "pass_rate", "k", "attempts", "rubrics", "messages",
)  # fmt: skip
ShardRow = Mapping[str, Any]
"""A row of a shard, as :mod:`schemas.arrow` declares it."""


@dataclass(frozen=True)
class Span:
    """A stretch of a response: text, markup (a structural tag), points, box, or more (what was cut off).

    ``marks`` of points and box are (number, coordinates), numbered in the order of the response.
    """

    kind: str
    text: str
    marks: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Mark:
    """A numbered point or box on an image; places and sizes are in percent of the image's sides."""

    number: int
    label: str
    left: float
    top: float
    width: float | None = None
    height: float | None = None


@dataclass(frozen=True)
class Image:
    """An image of a row; ``uri`` is None where it cannot be shown. ``ratio`` is width over height."""

    caption: str
    uri: str | None
    ratio: float = 1.0
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Answered:
    """One attempt as shown."""

    spans: tuple[Span, ...]
    answer: str | None
    correct: bool | None


@dataclass(frozen=True)
class Entry:
    """A row of a shard as the gallery shows it. ``hidden`` images are left out; a score of None is unscored."""

    row: ShardRow
    images: tuple[Image, ...]
    hidden: int
    trace: tuple[Span, ...]
    attempts: tuple[Answered, ...]
    scores: tuple[tuple[str, float | None], ...] = ()


@dataclass
class ImageRoom:
    """The page's room for images: how many are to come, and the bytes that are left for them."""

    images: int
    bytes_left: int = field(default=IMAGE_BYTES)

    def embed(self, pixels: Pixels) -> str | None:
        """The image as a data URI, as large as its share of the room allows; None if nothing fits."""
        share = self.bytes_left // max(self.images, 1)
        self.images -= 1
        for kind, data in _encodings(pixels):
            if len(data) <= share:
                self.bytes_left -= len(data)
                return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
        return None


def write_report(staging: Path, run_root: Path, summary: RunSummary) -> None:
    """Write ``report.html`` into ``staging`` from its shards and ``rubrics.json``, named after ``run_root``.

    Raises :class:`publishing.figures.InspectError` for shards that cannot be read.
    """
    release_memory()
    with open_tables(staging, summary) as tables:
        rates, examples = pass_rates(tables, summary), _examples(tables)
        ids = {side: _lowest_ids(tables, side, SHOWN_ROWS[side]) for side in summary.sets}
    rows = {side: _rows_of(staging / side, wanted) for side, wanted in ids.items()}
    columns = [row[name] or [] for side in rows.values() for row in side for name in ("images", "overlays")]
    room = ImageRoom(sum(min(len(images), MAX_IMAGES) for images in columns))
    rubrics = staging / "rubrics.json"
    page = _template().render(
        name=run_root.name,
        run=summary,
        flows=funnel(summary),
        rejections=rejections(summary),
        examples=examples,
        rates=rates,
        costs=role_costs(summary),
        rubrics=json.loads(rubrics.read_text("utf-8")) if rubrics.is_file() else None,
        galleries={side: [_entry(row, room) for row in found] for side, found in rows.items()},
    )
    (staging / "report.html").write_text(page, "utf-8", errors="backslashreplace")


def spans_of(text: str, max_chars: int) -> tuple[Span, ...]:
    """The beginning of a response, cut into prose, structural tags and chips."""
    shown, spans = text[:max_chars], list[Span]()
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
        spans.append(Span("more", f"… {len(text) - len(shown):,} more characters"))
    return tuple(spans)


def _chip(text: str, tag: Tag, points: int, boxes: int) -> Span | None:
    """The chip of a tag, or None when the tag holds no coordinates; numbers go on from those given."""
    written = text[tag.start : tag.end]
    if tag.name == "box":
        kind, label, number = "box", dict(tag.attributes).get("alt", ""), boxes + 1
        corners = [(box.x1, box.y1, box.x2, box.y2) for box in parse_boxes(written)]
    else:
        kind, label, number = "points", tag.label, points + 1
        corners = [(point.x, point.y) for point in parse_points(written)]
    marks = tuple((number + i, ", ".join(map(format_number, corner))) for i, corner in enumerate(corners))
    return Span(kind, label, marks) if marks else None


def _prose(text: str) -> Iterator[Span]:
    for part in _MARKUP.split(text):
        if part:
            yield Span("markup" if _MARKUP.fullmatch(part) else "text", part)


def _entry(row: ShardRow, room: ImageRoom) -> Entry:
    images, overlays = row["images"] or [], row["overlays"] or []
    images = [_original(row, index, room) for index in shown_images(row)]
    for number, overlay in enumerate(overlays[:MAX_IMAGES], start=1):
        caption = "as the teacher saw it" if len(overlays) == 1 else f"as the teacher saw it ({number})"
        images.append(_image(overlay["bytes"], caption, room))
    turns = row.get("messages") or []
    return Entry(
        row=row,
        images=tuple(images),
        hidden=len(images) + len(overlays) - len(images),
        trace=spans_of(turns[-1]["content"] or "", MAX_TRACE_CHARS) if turns else (),
        attempts=tuple(
            Answered(spans_of(tried["text"] or "", MAX_ATTEMPT_CHARS), tried["answer"], tried["correct"])
            for tried in (row["attempts"] or [])[:MAX_ATTEMPTS]
        ),
        scores=_scores(row),
    )


def _scores(row: ShardRow) -> tuple[tuple[str, float | None], ...]:
    """The row's scores, the final one last; none where nothing was verified."""
    scores = dict(row.get("scores") or {})
    final = [("final", scores.pop("final"))] if "final" in scores else []
    further = [(score["name"], score["value"]) for score in row.get("extra_scores") or []]
    found = (*scores.items(), *further, *final)
    return found if any(value is not None for _, value in found) else ()


def shown_images(row: ShardRow) -> list[int]:
    """Which of the row's images to show, in order: of a clip the frames that its points are on, before others."""
    places = _places(row)
    pointed = {(point["media_index"], point["frame"]) for point in row["points"] or []}
    first = sorted(range(len(places)), key=lambda index: (places[index] not in pointed, index))
    return sorted(first[:MAX_IMAGES])


def _places(row: ShardRow) -> list[tuple[int, int | None]]:
    """Of each of the row's images the medium, and of a frame its number."""
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
    return Image(note, uri, width / height, tuple(mark for mark in marks if mark is not None))


def _mark(number: int, label: str, place: tuple[float, ...], width_px: int, height_px: int) -> Mark | None:
    """A point (x, y) or box (x1, y1, x2, y2) in pixels as a mark on the image; None if not finite."""
    if not all(map(math.isfinite, place)):
        return None
    sides = (width_px, height_px) * 2
    shares = [round(min(max(100 * v / s, 0), 100), 2) for v, s in zip(place, sides, strict=False)]
    if len(shares) == 2:
        return Mark(number, label, *shares)
    left, top, right, bottom = shares
    return Mark(number, label, left, top, round(right - left, 2), round(bottom - top, 2))


def _encodings(pixels: Pixels) -> Iterator[tuple[str, bytes]]:
    """The image in falling sizes, as PNG where that is about as small as JPEG, as it is for drawings."""
    bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    height, width = bgr.shape[:2]
    for side in _SIDES_PX:
        scale = min(side / max(width, height), 1.0)
        size = (max(round(width * scale), 1), max(round(height * scale), 1))
        small = cv2.resize(bgr, size, interpolation=cv2.INTER_AREA) if scale < 1 else bgr
        png = cv2.imencode(".png", small, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
        jpeg = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes()
        yield ("png", png) if len(png) <= 1.5 * len(jpeg) else ("jpeg", jpeg)


def _lowest_ids(tables: duckdb.DuckDBPyConnection, side: str, count: int) -> list[str]:
    found = tables.execute(f"SELECT id FROM {side} ORDER BY sha256(id), id LIMIT {count}")
    return [row_id for (row_id,) in found.fetchall()]


def _rows_of(folder: Path, ids: Sequence[str]) -> list[ShardRow]:
    """The rows with these ids, in their order. Shards are sorted by the ids' hash, so little is read."""
    found: dict[str, ShardRow] = {}
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as shard:
            columns = [name for name in _COLUMNS if name in shard.schema_arrow.names]
            for group in range(shard.num_row_groups):
                held = set(shard.read_row_group(group, columns=["id"])["id"].to_pylist()) & set(ids)
                batches = shard.iter_batches(16, row_groups=[group], columns=columns) if held else ()
                for batch in batches:
                    found |= {row["id"]: row for row in batch.to_pylist() if row["id"] in held}
                    if held <= found.keys():
                        break
    return [found[row_id] for row_id in ids]


def _examples(tables: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Some rejected (id, detail) by (stage, reason), those whose ids hash lowest."""
    query = f"""SELECT stage, reason, id, detail FROM rejected QUALIFY
        row_number() OVER (PARTITION BY stage, reason ORDER BY sha256(id), id) <= {EXAMPLES}
        ORDER BY stage, reason, sha256(id), id"""
    examples: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for stage, reason, row_id, detail in tables.execute(query).fetchall():
        examples.setdefault((stage, reason), []).append((row_id, detail or ""))
    return examples


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["clip"] = lambda text, size: text if len(text) <= size else f"{text[: size - 1]}…"
    environment.filters["usd"] = lambda usd: f"${usd:,.2f}" if usd == 0 or usd >= 0.01 else f"${usd:.6f}"
    environment.filters["number"] = lambda value: f"{value:,}"
    return environment.from_string(resources.files("publishing").joinpath("report.html.jinja").read_text("utf-8"))
