"""Reads an input into validated questions, and decodes each medium (image or clip) once.

The inputs are the sources of a data set, such as files. The outputs are one :class:`groundtrace.schemas.records.Draft`
(a question with its data) for each usable record, and a rejection with a reason for each other record. Media files stay
where they are; only references to them are passed on. A record of images without a question is usable only in a recipe
that writes questions.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, TaggedOutput

from groundtrace.grading.input_record import InputRecord, InvalidRecord, parse_record
from groundtrace.schemas.coding import record
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.reasons import MEANING
from groundtrace.schemas.records import NO_ORIGIN, Draft, MediaRef, Origin, Question, RawRecord
from groundtrace.schemas.text import storable
from groundtrace.stages.plumbing.metrics import count_in
from groundtrace.stages.plumbing.on_cores import OnAllCores
from groundtrace.stages.plumbing.spreading import SpreadByKey
from groundtrace.stages.plumbing.stage import (
    READ,
    REJECTED,
    DraftStage,
    Reject,
    Stage,
    apply,
    kept_output,
    rejected_output,
)
from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.stages.sources.registry import read_source
from groundtrace.vision.checked_medium import (
    MEDIA_MISSING,
    MEDIA_NOT_ALLOWED,
    UNDECODABLE_MEDIA,
    UNSUPPORTED_MEDIA,
    CheckedMedium,
    check_medium,
)
from groundtrace.vision.clips import VideoSettings
from groundtrace.vision.media import MediaRoots

DUPLICATE_ID, INVALID_BOXES = "duplicate_id", "invalid_boxes"
CLIP_SHARE = 0.01
"""The maximum distance by which a box may extend beyond its image, as a share of the image's width or height.

Such a box is cut off at the edges of the image. A record with a box that extends further is rejected.
"""


@record
class InvalidRow:
    """Describes a record that cannot be used, but whose id could be read.

    ``number`` is the record's number in the input. ``reason`` is a code from
    :class:`groundtrace.schemas.reasons.Reason`, and ``detail`` explains it in a sentence. ``origin`` has the values of
    the input's columns that the config keeps. ``question``, ``answer``, ``source`` and ``license`` are the
    record's unchecked texts in the fields of these names; "" if the field is missing or is not a text.
    """

    number: int
    reason: str
    detail: str
    origin: Origin = NO_ORIGIN
    question: str = ""
    answer: str = ""
    source: str = ""
    license: str = ""


@record
class IngestPart:
    """Holds one of three things: a valid record, an invalid record, or a checked medium of a record. The two other
    fields are None.

    Beam groups the objects of this class by the id of their record. A draft (a question with its data) is made from the
    objects of a valid record and its checked media.
    """

    valid: InputRecord | None = None
    invalid: InvalidRow | None = None
    medium: CheckedMedium | None = None


def assemble(rec: InputRecord, media: dict[str, CheckedMedium]) -> Draft:
    """Return the draft (a question with its data) of a valid record. Raises :class:`Reject` if one of its media or one
    of its boxes is unusable.

    ``media`` maps the URI of each medium to the result of its check.
    """
    checked = [media[uri] for uri in rec.media]
    for medium in checked:
        if medium.ref is None:
            raise Reject(medium.reason, medium.detail)
    refs = tuple(medium.ref for medium in checked if medium.ref is not None)
    try:
        boxes = None if rec.boxes is None else tuple(_inside(box, refs) for box in rec.boxes)
    except ValueError as error:
        raise Reject(INVALID_BOXES, str(error)) from error
    return Draft(_question(rec, refs, boxes))


def _question(rec: InputRecord, refs: tuple[MediaRef, ...], boxes: tuple[Box, ...] | None) -> Question:
    return Question(
        id=rec.id,
        source=rec.source,
        license=rec.license,
        media=refs,
        question=rec.question,
        answer=rec.answer,
        answer_type=rec.answer_type,
        choices=rec.choices,
        opened_choices=rec.opened_choices,
        gold_boxes=boxes,
        origin=rec.origin,
    )


def _inside(box: Box, refs: tuple[MediaRef, ...]) -> Box:
    """Return the box, cut off at the edges of its image. ``refs`` are the media of the record.

    Raises ValueError in these cases:

    - The record has no image with the box's ``media_index``.
    - A side of the box is outside the image by more than 1 % of the image's width or height.
    - No part of the box is inside the image.
    """
    if box.media_index >= len(refs):
        raise ValueError(f"boxes: media_index (from 0) is {box.media_index}, but the record has only {len(refs)} media")
    width, height = refs[box.media_index].width, refs[box.media_index].height
    slack_x, slack_y = width * CLIP_SHARE, height * CLIP_SHARE
    x_out = box.x1 < -slack_x or box.x2 > width + slack_x
    if x_out or box.y1 < -slack_y or box.y2 > height + slack_y:
        corners = (box.x1, box.y1, box.x2, box.y2)
        raise ValueError(f"boxes: {corners} is outside the {width}x{height} image")
    clipped = replace(
        box, x1=max(box.x1, 0.0), y1=max(box.y1, 0.0), x2=min(box.x2, float(width)), y2=min(box.y2, float(height))
    )
    if clipped.width <= 0 or clipped.height <= 0:
        raise ValueError(f"boxes: no part of the box {(box.x1, box.y1, box.x2, box.y2)} is inside the image")
    return clipped


def _uses(use: tuple[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield a pair for each medium that a record uses: the URI of the medium, and the id of the record.

    ``use`` holds the id of the record and the URIs of its media. Beam groups the pairs by URI, so that each medium is
    checked once.
    """
    record_id, uris = use
    for uri in uris:
        yield uri, record_id


class _Read(beam.DoFn):
    def __init__(self, rows: RowSettings, roots: MediaRoots, limit: int | None) -> None:
        self._rows, self._roots, self._limit = rows, roots, limit

    def process(self, source: Source) -> Iterator[RawRecord]:
        yield from islice(read_source(source, self._rows, self._roots.store()), source.share_of(self._limit))


class _Parse(beam.DoFn):
    def __init__(self, may_lack_question: bool, columns: Mapping[str, str]) -> None:
        self._may_lack_question, self._columns = may_lack_question, dict(columns)

    def process(self, raw: RawRecord) -> Iterator[object]:
        """Emit the record and the URIs of its media, or the reason why the record is unusable.

        Also emit the record's number and id to the output ``read``.
        """
        count_in(STAGE.name)
        try:
            rec = parse_record(raw, self._may_lack_question, self._columns)
        except InvalidRecord as error:
            if error.record_id is None:
                yield TaggedOutput(READ, (raw.number, f"line#{raw.number}"))
                yield _rejected(f"line#{raw.number}", error.reason.value, error.detail, error.origin)
            else:
                record_id = storable(error.record_id)
                yield TaggedOutput(READ, (raw.number, record_id))
                texts = {name: storable(text) for name, text in error.texts.items()}
                invalid = InvalidRow(raw.number, error.reason.value, storable(error.detail), error.origin, **texts)
                yield TaggedOutput("invalid", (record_id, IngestPart(invalid=invalid)))
        else:
            yield TaggedOutput(READ, (raw.number, rec.id))
            yield TaggedOutput("uses", (rec.id, rec.media))
            yield (rec.id, IngestPart(valid=rec))


class _CheckMedia(OnAllCores):
    """Opens and checks each medium (image or clip) once, even if several records use it."""

    def __init__(self, roots: MediaRoots, video: VideoSettings) -> None:
        self._roots, self._video = roots, video

    def setup(self) -> None:
        super().setup()
        self._store = self._roots.store()

    def work(self, element: tuple[str, Iterable[str]]) -> IngestPart:
        return IngestPart(medium=check_medium(element[0], self._store, self._video))

    def outputs(self, element: tuple[str, Iterable[str]], result: IngestPart) -> Iterator[tuple[str, IngestPart]]:
        for record_id in sorted(set(element[1])):
            yield record_id, result


def keeping_order(rec: InputRecord) -> tuple[str, int]:
    """Return a sort key: of several valid records with one id, the record with the smallest key keeps the id.

    The key depends on the record's content, so that the order of the input has no effect. Only equal records are
    ordered by their number in the input.
    """
    return order_key(repr(replace(rec, number=0))), rec.number


class _Assemble(beam.DoFn):
    """Makes at most one draft (a question with its data) for each record id. All other records with the same id are
    rejected.
    """

    def process(self, group: tuple[str, Iterable[IngestPart]]) -> Iterator[object]:
        """Emit at most one draft (question with its data) for the records with one id, and a rejection for each other
        record with this id.

        ``group`` is a pair: the id, and the objects of this id, i.e. its records and their checked media.
        """
        record_id, parts = group[0], list(group[1])
        valid = sorted(
            (part.valid for part in parts if part.valid is not None),
            key=keeping_order,
        )
        invalid = sorted((part.invalid for part in parts if part.invalid is not None), key=lambda row: row.number)
        media = {part.medium.uri: part.medium for part in parts if part.medium is not None}
        repeated = len(valid) + len(invalid) > 1
        for row in invalid:
            name = f"{record_id}#{row.number}" if repeated else record_id
            question = Question(record_id, row.source, row.license, (), row.question, row.answer, "", origin=row.origin)
            yield _rejected(name, row.reason, row.detail, row.origin, Draft(question))
        for rec in valid[1:]:
            detail = f"{record_id!r} is also the id of {valid[0].origin.input_row}"
            yield _rejected(f"{record_id}#{rec.number}", DUPLICATE_ID, detail, rec.origin, _readable(rec, media))
        if valid:
            try:
                yield kept_output(STAGE, assemble(valid[0], media))
            except Reject as why:
                yield _rejected(valid[0].id, why.reason, why.detail, valid[0].origin, _readable(valid[0], media))


def _readable(rec: InputRecord, media: dict[str, CheckedMedium]) -> Draft:
    """Return a draft (a question with its data) for a rejection, with the question and the usable media of ``rec``. The
    record has valid fields, but is rejected for another reason, such as a duplicate id or an unusable image.
    """
    refs = (media[uri].ref for uri in rec.media)
    return Draft(_question(rec, tuple(ref for ref in refs if ref is not None), None))


def _rejected(record_id: str, reason: str, detail: str, origin: Origin, draft: Draft | None = None) -> TaggedOutput:
    rejected = STAGE.rejected(record_id, Reject(reason, storable(detail)))
    return rejected_output(replace(rejected, origin=origin, draft=draft))


def _place(numbered: tuple[int, Source]) -> int:
    return numbered[0]


def _number(raw: RawRecord) -> int:
    return raw.number


STAGE = Stage(
    "ingest",
    "records are parsed; every image is opened and decoded once",
    reasons={
        **{reason.value: meaning for reason, meaning in MEANING.items()},
        DUPLICATE_ID: "another record has the same id",
        MEDIA_MISSING: "a media file does not exist",
        MEDIA_NOT_ALLOWED: "a media path or link leaves the input folder, is a URL, or names what may not be read",
        UNDECODABLE_MEDIA: "a media file cannot be decoded whole",
        UNSUPPORTED_MEDIA: "this medium is of a kind that the pipeline does not process",
    },
    settings=RowSettings,
)


@dataclass
class IngestRecords(DraftStage):
    """Stage (pipeline step) that reads an input, validates its records and decodes their media.

    Attributes:
        sources: the parts of the input, such as files.
        rows: the settings by which the rows of the input become records.
        roots: the data folder and the run folder.
        limit: the number of records to read from the beginning of the whole input; None means all records.
        video: the settings for clips.
        may_lack_question: whether a record may have images and no question.
    """

    sources: tuple[Source, ...]
    rows: RowSettings
    roots: MediaRoots
    limit: int | None = None
    video: VideoSettings = field(default_factory=VideoSettings)
    may_lack_question: bool = False
    stage = STAGE

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sources:
            raise ValueError("IngestRecords has no sources: pass the sources of the input, such as context.sources")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")

    def expand(self, pbegin: PBegin) -> Any:
        """Read and validate the records of the input, and return the outputs ``kept``, ``rejected`` and ``read``.

        ``pbegin`` is the pipeline. The output ``kept`` has a draft (a question with its data) for each usable record,
        and ``rejected`` has a rejection for each other record. The output ``read`` has the number (position in the
        input) and the id of every record.
        """
        raw = (
            pbegin
            | "Sources" >> beam.Create(list(enumerate(self.sources)), reshuffle=False)
            | "SpreadSources" >> SpreadByKey(_place, int, tuple[int, Source])
            | "Source" >> beam.Values()
            | "Read" >> beam.ParDo(_Read(self.rows, self.roots, self.limit)).with_output_types(RawRecord)
            | "SpreadRecords" >> SpreadByKey(_number, int, RawRecord)
        )
        parsed = apply(
            raw,
            "Parse",
            _Parse(self.may_lack_question, self.rows.columns),
            kept=tuple[str, IngestPart],
            uses=tuple[str, tuple[str, ...]],
            invalid=tuple[str, IngestPart],
            **{READ: tuple[int, str]},
        )
        media = (
            parsed.uses
            | "EachMedium" >> beam.FlatMap(_uses)
            | "OncePerMedium" >> beam.GroupByKey()
            | "CheckMedia" >> beam.ParDo(_CheckMedia(self.roots, self.video)).with_output_types(tuple[str, IngestPart])
        )
        joined = (parsed.kept, parsed.invalid, media) | "Parts" >> beam.Flatten() | "JoinById" >> beam.GroupByKey()
        assembled = apply(joined, "Assemble", _Assemble())
        rejected = (parsed[REJECTED], assembled[REJECTED]) | "Rejected" >> beam.Flatten()
        return {"kept": assembled.kept, REJECTED: rejected, READ: parsed[READ]}
