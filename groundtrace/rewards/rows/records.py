"""Reads a folder with a file ``records.jsonl`` as rows, so that a model can be evaluated on them.

A row is one question with its prompt, its images and the data for the reward. The prompts have the same wording as the
prompts in shards (the Parquet files of a run).
"""

import contextlib
import hashlib
from pathlib import Path

from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.grading.input_record import InvalidRecord, parse_record
from groundtrace.grading.question_text import BOXES, POINTS, TEXTUAL, user_text
from groundtrace.rewards.case import Context
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow, labels_of
from groundtrace.rewards.rows.shards import ShardError
from groundtrace.rewards.streams import GROUNDED
from groundtrace.rewards.streams import TEXTUAL as TEXTUAL_STREAM
from groundtrace.schemas.json_lines import read_lines
from groundtrace.schemas.records import MediaRef, Question, RawRecord
from groundtrace.schemas.safe_files import is_elsewhere
from groundtrace.vision.decode import UndecodableMedia
from groundtrace.vision.media import MediaStore

STREAMS = {BOXES: GROUNDED, TEXTUAL: TEXTUAL_STREAM}
"""Maps a form of prompt to its stream of iVGR, which is one of two ways to ask a question.

The prompt of the grounded stream requests reasoning with boxes, and that of the textual stream requests reasoning only
in words.
"""


class Records:
    """Gives access by index to the records of a folder with a file ``records.jsonl``, for an evaluation.

    Each record is returned as a row, which is a question with its prompt and its images. A record and its images are
    read and checked only when the record is used.
    """

    def __init__(self, folder: Path, form: str = POINTS) -> None:
        """Open the file ``records.jsonl`` in ``folder``; the images are searched for in this folder, too.

        ``form`` is the name of the form of response that the prompts request, such as reasoning with points. Raises
        ShardError if there are no records, or if the file is a link that leads out of the folder.
        """
        self._form = form
        self._store = MediaStore(str(folder), str(folder))
        file = folder / "records.jsonl"
        if is_elsewhere(file, folder):
            raise ShardError(f"{file} is a link to a file outside its folder: copy this file into the folder")
        with file.open("rb") as stream:
            self._lines = list(read_lines(stream))
        if not self._lines:
            raise ShardError(f"{folder}/records.jsonl holds no records: add at least one")

    @property
    def sha256(self) -> str:
        """Return a digest of the records, without their images."""
        return hashlib.sha256("\n".join(line for _, line in self._lines).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._lines)

    def gives(self, name: str) -> bool:
        """Return whether the records have the field ``name``, which a reward may need.

        ``name`` is the name of a field of :class:`groundtrace.rewards.case.Context`. Records can have only the field
        ``stream``, the kind of reasoning: with boxes, or only in words. The records have this field if their prompts
        request one of these two kinds. Shards (files of training rows) can have more fields
        (:meth:`groundtrace.rewards.rows.shards.Shards.gives`).
        """
        return name == "stream" and self._form in STREAMS

    def count_free_text(self) -> int:
        """Return the number of records whose gold answer is free text; only a judge can grade other wordings of it.

        No images are read. Invalid records are not counted.
        """
        found = 0
        for number, line in self._lines:
            with contextlib.suppress(InvalidRecord):
                record = parse_record(RawRecord(number, line))
                found += answer_type_named(record.answer_type).needs_judge(record.answer, record.choices)
        return found

    def __getitem__(self, index: int) -> TrainingRow:
        """Return the record with this index as a row.

        Raises UnusableRow if the record is invalid, if it has a video, or if one of its image files is missing or too
        large (:class:`groundtrace.vision.decode.Limits`).
        """
        number, line = self._lines[index]
        try:
            record = parse_record(RawRecord(number, line))
            files = [(*self._store.open_sniffed(uri, None), uri) for uri in record.media]
        except (InvalidRecord, OSError, UndecodableMedia) as error:
            raise UnusableRow(f"line {number}: {error}") from error
        if any(kind == "video" for kind, _, _ in files):
            raise UnusableRow(
                f"{record.id}: the record has a video, which cannot be evaluated: evaluate shards instead of "
                "records.jsonl, because shards hold the frames of videos"
            )
        images = tuple((data, uri) for _, data, uri in files)
        media = tuple(MediaRef(uri, "image", "", "", "", 0, 0, 1, len(data)) for data, uri in images)
        question = Question(
            record.id,
            record.source,
            record.license,
            media,
            record.question,
            record.answer,
            record.answer_type,
            record.choices,
            gold_boxes=record.boxes,
        )
        named = labels_of(record.boxes or ())
        messages = ({"role": "user", "content": user_text(question, self._form)},)
        context = Context(stream=STREAMS.get(self._form))
        return TrainingRow(record.id, record.source, messages, images, question, named, named, context=context)
