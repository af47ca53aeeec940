"""Reads, checks and decodes the first records of an input in the same way as a run, but without models."""

import itertools
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundtrace.grading.input_record import InputRecord, InvalidRecord, parse_record
from groundtrace.schemas.records import Draft
from groundtrace.schemas.text import excerpt
from groundtrace.stages.ingest_records import DUPLICATE_ID, assemble, keeping_order
from groundtrace.stages.plumbing.stage import Reject
from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.stages.sources.registry import read_source
from groundtrace.vision.checked_medium import MEDIA_MISSING, MEDIA_NOT_ALLOWED, check_medium
from groundtrace.vision.clips import VideoSettings
from groundtrace.vision.media import MediaRoots, MediaStore

MAX_RECORDS = 5000
"""The maximum number of records that are read."""
MIN_RECORDS = 50
"""The number of records that are read even if this takes longer than :data:`MAX_READ_S`."""
MAX_READ_S = 60.0
"""The number of seconds after which no further record is read, since the media may be large or remote."""
MAX_PLACES = 10
"""The maximum number of places of one problem that :attr:`Problem.where` names."""
_PLACE = re.compile(r"(?P<file>.+), (?P<unit>line|row|entry|record) (?P<number>\d+)", re.DOTALL)
_UNITS = {"line": "lines", "row": "rows", "entry": "entries", "record": "records"}
_OF_FILES = (MEDIA_MISSING, MEDIA_NOT_ALLOWED)
"""The reasons of rejection whose detail names a file. All rejections for such a reason are reported as one problem."""


@dataclass(frozen=True)
class Problem:
    """Describes why some records of the input cannot be used.

    ``reason`` is the code with which a run rejects these records, such as ``duplicate_id``. ``detail`` explains the
    problem of the first of these records. ``records`` is the number of these records. ``places`` are their places in
    the input, such as "questions.csv, line 12". Several records may have one place: a row may hold several questions.
    """

    reason: str
    detail: str
    records: int
    places: tuple[str, ...]

    @property
    def where(self) -> str:
        """Return the first :data:`MAX_PLACES` places as text, such as "tasks.csv, lines 5, 9, 12 and 3 more".

        Places of one file are listed after its name. A place of another form, such as that of an image, is listed as it
        is.
        """
        distinct = list(dict.fromkeys(self.places))
        numbers: dict[tuple[str, str], list[str]] = {}
        for place in distinct[:MAX_PLACES]:
            found = _PLACE.fullmatch(place)
            named = numbers.setdefault((found["file"], found["unit"]) if found else (place, ""), [])
            named += [found["number"]] if found else []
        parts = [
            f"{file}, {_UNITS[unit] if len(each) > 1 else unit} {', '.join(each)}" if unit else file
            for (file, unit), each in numbers.items()
        ]
        left = len(distinct) - MAX_PLACES
        return "; ".join(parts) + (f" and {left} more" if left > 0 else "")


@dataclass(frozen=True)
class RecordSample:
    """Holds the first records of an input, as a run would read them.

    ``read`` is the number of records read. ``drafts`` are the usable records; a draft is a question with its data.
    ``problems`` states why the other records cannot be used.
    """

    read: int
    drafts: tuple[Draft, ...]
    problems: tuple[Problem, ...]


def sample_records(
    sources: Sequence[Source],
    rows: RowSettings,
    roots: MediaRoots,
    video: VideoSettings | None,
    may_lack_question: bool = False,
) -> RecordSample:
    """Read and check the first records of an input, and return which of them can be used, and why the others cannot.

    At most :data:`MAX_RECORDS` records are read. Reading stops after :data:`MAX_READ_S` seconds, if at least
    :data:`MIN_RECORDS` records have been read. Decoded frames and other derived images are written into a temporary
    folder.

    Args:
        sources: The files of the input.
        rows: The config's section ``[input]``, with which they are read: e.g. which column holds the question.
        roots: Two folders: the data folder with the images and clips, and the run folder. The temporary folder is used
            instead of the run folder.
        video: The settings for clips; None if clips are not accepted.
        may_lack_question: Whether a record may have images and no question.

    Raises the errors of reading the input, such as InputError for a damaged file.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = replace(roots, run_root=folder).store()
        found = itertools.chain.from_iterable(read_source(source, rows, store) for source in sources)
        records: dict[str, list[InputRecord]] = {}
        drafts: list[tuple[InputRecord, Draft]] = []
        places: dict[tuple[str, str], list[str]] = {}
        first_of: dict[str, str] = {}
        read, end_s = 0, time.monotonic() + MAX_READ_S
        for raw in itertools.islice(found, MAX_RECORDS):
            if read >= MIN_RECORDS and time.monotonic() > end_s:
                break
            read += 1
            try:
                record = parse_record(raw, may_lack_question, rows.columns)
                records.setdefault(record.id, []).append(record)
                drafts.append((record, _draft(record, store, video)))
            except (InvalidRecord, Reject) as error:
                reason = error.reason if isinstance(error, Reject) else error.reason.value
                detail = first_of.setdefault(reason, error.detail) if reason in _OF_FILES else error.detail
                places.setdefault((reason, detail), []).append(raw.origin.input_row)
    kept = {record_id: min(same, key=keeping_order) for record_id, same in records.items()}
    for record, _ in drafts:
        if record is not kept[record.id]:
            places.setdefault((DUPLICATE_ID, _repeated(kept[record.id])), []).append(record.origin.input_row)
    usable = tuple(draft for record, draft in drafts if record is kept[record.id])
    problems = (Problem(*why, len(found), tuple(found)) for why, found in places.items())
    return RecordSample(read, usable, tuple(sorted(problems, key=lambda problem: -problem.records)))


def _repeated(kept: InputRecord) -> str:
    """Return the detail of the problem that several records have the id of ``kept``, the record that keeps the id."""
    where = kept.origin.input_row
    return f"{excerpt(kept.id)} is also the id of {where}: of the records read here, {where} keeps the id"


def _draft(record: InputRecord, store: MediaStore, video: VideoSettings | None) -> Draft:
    return assemble(record, {uri: check_medium(uri, store, video) for uri in record.media})
