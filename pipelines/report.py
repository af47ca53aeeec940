"""The report of a run: one HTML file that opens anywhere, with the funnel, the figures and a gallery of rows.

The page needs no network and runs no script; its policy forbids both, so that a model's reply that slipped through the
escaping could still do nothing. The rows shown are those whose ids hash lowest: the same run shows the same rows.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from pipelines.inspect import Summary, funnel, open_tables, pass_rates, rejections, role_costs
from vision.decode import Pixels

SFT_ROWS, RL_ROWS, EXAMPLES = 24, 12, 3
MAX_SIDE_PX = 640
MAX_PICTURES = 3
MAX_ATTEMPTS = 8
MAX_RUBRICS = 40
MAX_TEXT_CHARS = 3000
PICTURE_BYTES = 2_600_000
_SIDES_PX = (MAX_SIDE_PX, 480, 320, 160)
_MARKUP = re.compile(r"</?[a-z_]{1,20}>")
_COLUMNS = (
    "id", "source", "license", "images", "overlays", "question", "answer", "answer_type", "choices", "points",
    "boxes", "scores", "pass_rate", "k", "attempts", "rubrics", "messages",
)  # fmt: skip
_ShardRow = Mapping[str, Any]


@dataclass(frozen=True)
class Span:
    """A stretch of a response: prose, a structural tag (``markup``), or a chip for a point or box tag.

    A chip's ``marks`` are (number, coordinates) in the order of the response, numbered as on the picture.
    """

    kind: str
    text: str
    marks: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Mark:
    """A numbered point or box on a picture; places and sizes in percent of the picture's sides."""

    number: int
    label: str
    left: float
    top: float
    width: float | None = None
    height: float | None = None


@dataclass(frozen=True)
class Picture:
    """A picture of a row; ``uri`` is None where it could not be shown, and ``caption`` then says why."""

    caption: str
    uri: str | None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Answered:
    """One attempt as shown."""

    spans: tuple[Span, ...]
    answer: str | None
    correct: bool | None


@dataclass(frozen=True)
class Entry:
    """A row of a shard as the gallery shows it."""

    row: _ShardRow
    pictures: tuple[Picture, ...]
    pictures_left_out: int
    trace: tuple[Span, ...]
    attempts: tuple[Answered, ...]
    attempts_left_out: int


@dataclass
class _Room:
    """What is left of the page's room for pictures: bytes, and pictures to share them."""

    pictures: int
    bytes_left: int = field(default=PICTURE_BYTES)

    def fit(self, pixels: Pixels) -> tuple[str, bytes]:
        """The picture as (media type, bytes), as large as its share of the room lets it be."""
        share = self.bytes_left // max(self.pictures, 1)
        kind, data = next((made for made in _encodings(pixels) if len(made[1]) <= share), ("", b""))
        self.pictures -= 1
        self.bytes_left -= len(data)
        return kind, data


def write_report(staging: Path, run_root: Path, summary: Summary) -> None:
    """Write ``report.html`` into ``staging`` from its shards and ``rubrics.json``; ``run_root`` names the run.

    Raises :class:`pipelines.inspect.InspectError` for shards that cannot be read.
    """
    with open_tables(staging, summary) as tables:
        rows = {name: _lowest(tables, staging / name, name, count) for name, count in _SHOWN.items()}
        figures = {
            "examples": _examples(tables),
            "rates": pass_rates(tables, summary),
        }
    room = _Room(
        sum(min(len(row[part] or ()), MAX_PICTURES) for side in rows.values() for row in side for part in _PARTS)
    )
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=_number, usd=_usd, clip=_clip, share=_share)
    template = resources.files("pipelines").joinpath("report.html.jinja").read_text("utf-8")
    page = environment.from_string(template).render(
        name=run_root.name,
        run=summary,
        flows=funnel(summary),
        rejections=rejections(summary),
        costs=role_costs(summary),
        rubrics=_rubrics(staging / "rubrics.json"),
        galleries={name: [_entry(row, room) for row in side] for name, side in rows.items()},
        **figures,
    )
    (staging / "report.html").write_text(page, "utf-8", errors="backslashreplace")
