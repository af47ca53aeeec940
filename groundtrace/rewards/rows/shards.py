"""Reads a run's shards (Parquet files): gives access to rows by index, with their images as bytes.

The rows are in the order of the shards. If the shards are large (:data:`MAX_BYTES_IN_MEMORY`), the library ``datasets``
memory-maps the rows, so the rows can be larger than memory. A row stays in an Arrow table until it is used. Rows are
not read from a data set of ``datasets`` by index: this would decode the images, or make another copy of the rows.
"""

import contextlib
import copy
import hashlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic_core import to_json

from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.rewards.blindness import COLUMNS, RewardedQuestion, rewarded_question
from groundtrace.rewards.case import Context
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow, labels_of
from groundtrace.rewards.rubrics import RUBRICS
from groundtrace.rewards.streams import GROUNDED, STREAM_PROMPTS, STREAMS, TEXTUAL, streams_asked
from groundtrace.schemas.arrow import added_columns
from groundtrace.schemas.columns import Column, Value, as_json, is_plain
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Question
from groundtrace.schemas.run_files import files_of, problem_of, shards_of
from groundtrace.schemas.safe_files import is_elsewhere
from groundtrace.storage.shard_check import check_shards
from groundtrace.storage.shard_fault import ShardFault

MAX_BYTES_IN_MEMORY = 64_000_000
"""The maximum total size of shard files, in bytes, that are read into memory.

The rows of larger files are copied into a memory-mapped file, which takes longer to open.
"""
MAX_ROWS_IN_MEMORY_BYTES = 2**30
"""The maximum size of rows, in bytes, that stay in memory. Rows of small files can be much larger than the files."""
ROWS_AT_ONCE = 4
"""The number of rows that are read at a time with their images. Each row may have images of a hundred megabytes."""
BATCH_ROWS = 1000
IMAGES_AT_ONCE = 32
"""The number of rows whose images are in memory at once, when the images of all rows are read."""
CHECKED: tuple[Column[Any], ...] = (COMPLEXITY, RUBRICS)
"""Columns that stages of the pipeline may add to the rows, and that rewards read. When a row is read, the values in
these columns are validated.
"""
BOXES_SOURCE = "boxes_source"
"""The column with the origin of ``gold_boxes``."""
POINTABLE = ("entities", "pointable")
"""The columns with the things that can be pointed at; if they are absent or null, the labels of the gold boxes are
used.
"""
_HASHED_ROWS = 1000
COMMON = ("id", "source", "license", "images", "question", "answer", "answer_type", "choices", "gold_boxes", "attempts")
NEEDED = {"sft": (*COMMON, "messages"), "rl": (*COMMON, "prompt")}


class ShardError(UserError):
    """Raised if the shards (Parquet files) of a run cannot be read; the message names the folder and the fault."""


class Shards:
    """Gives access by index to the rows of one training set of a run, which is stored as shards (Parquet files).

    ``side`` is the name of the training set: ``sft`` (supervised fine-tuning) or ``rl`` (reinforcement learning).
    ``sha256`` is a digest of the number of rows and of the rows' ids in order.
    """

    def __init__(self, data: Path, side: str, cache: Path) -> None:
        """Open the shards of a run.

        Args:
            data: a run folder, or a folder that directly holds shards.
            side: ``sft`` or ``rl``.
            cache: the folder for the memory-mapped copy of large shards.

        Raises:
            ShardError: if there are no shards or no rows, if a column is missing, if a shard cannot be read or
                :func:`groundtrace.storage.shard_check.check_shards` refuses it, or if a link leads from ``data`` to a
                shard outside it.
        """
        self.side = side
        files = _shard_files(data, side)
        try:
            check_shards(files)
        except ShardFault as error:
            raise ShardError(str(error)) from error
        rows = _opened(files, cache)
        missing = [name for name in NEEDED[side] if name not in rows.column_names]
        if missing:
            raise ShardError(
                f"{files[0].parent} has no column {missing[0]!r}, which {side} shards must have: repeat the run"
            )
        columns = [name for name in ("frames", *POINTABLE, BOXES_SOURCE) if name in rows.column_names]
        added = (column for column in added_columns(pq.read_schema(files[0])) if column.for_training)
        self._added = [column.name for column in added if is_plain(column.type) and column.name in rows.column_names]
        kept = [*NEEDED[side], *columns, *self._added]
        if not _are_images(type := rows.schema.field("images").type):
            raise ShardError(
                f"{files[0].parent}: the column 'images' must be lists of images, not {type}: repeat the run"[:300]
            )
        self._rows = rows.select(kept)
        self.sha256 = self._digest()

    def _digest(self) -> str:
        ids = "\n".join(map(str, self._column("id")))
        return hashlib.sha256(f"{len(self)}\n{ids}".encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def content_sha256(self) -> str:
        """Return a digest of the rows' values: their texts, boxes and other columns, and the sizes of their images.

        The images themselves are not hashed, because they may have hundreds of gigabytes.
        """
        digest, counts, sizes = hashlib.sha256(), list[int | None](), list[int | None]()
        names = [name for name in self._rows.column_names if name != "images"]
        for start in range(0, len(self), _HASHED_ROWS):
            part = self._rows.slice(start, _HASHED_ROWS)  # limits the memory for the values
            digest.update(to_json(part.select(names).to_pylist()))
            for images in part.column("images").chunks:
                counts += pc.call_function("list_value_length", [images]).to_pylist()
                sizes += pc.call_function("binary_length", [images.flatten().field("bytes")]).to_pylist()
        digest.update(to_json((counts, sizes)))
        return digest.hexdigest()

    def __len__(self) -> int:
        return self._rows.num_rows

    def _column(self, name: str) -> list[Any]:
        return self._rows.column(name).to_pylist()

    def gives(self, name: str) -> bool:
        """Return whether any row has a value in ``name``, a column that the pipeline can add, such as ``rubrics``.

        The result is False if the pipeline did not add the column. The name ``stream`` is a special case: the result is
        True if any row has streams, which are prompts for different kinds of responses (with boxes, or only in words).
        """
        if name == "stream":
            return any(self.streams)
        return name in self._added and any(self._column(name))

    @cached_property
    def streams(self) -> list[tuple[str, ...]]:
        """Return the streams in which each row is asked, in the order of the rows.

        A stream is ``grounded`` (with boxes) or ``textual`` (only in words). The tuple of a row with a single prompt is
        empty.
        """
        if self.side != "rl" or STREAMS.name not in self._added:
            return [()] * len(self)
        return [tuple(streams or ()) for streams in self._column(STREAMS.name)]

    def count_prompts(self, only: Collection[str] = ()) -> int:
        """Return the total number of prompts of all rows.

        A row without streams has one prompt. Any other row has one prompt for each of its streams, which are ways to
        answer: with boxes, or only in words. If ``only`` is not empty, it holds the wanted streams, and other streams
        are not counted.
        """
        return sum(len(streams_asked(streams, only)) if streams else 1 for streams in self.streams)

    def count_detected(self) -> int:
        """Return the number of rows whose gold boxes were made by a detector (a model that finds objects)."""
        return sum(source == "detector" for source in self._column(BOXES_SOURCE)) if self._has(BOXES_SOURCE) else 0

    @property
    def strata(self) -> list[frozenset[str]]:
        """Return, for each row, the strata of its rubrics (criteria of grading): ``easy``, ``hard`` or both.

        The set of a row is empty if the row has no rubrics.
        """
        if RUBRICS.name not in self._added:
            return [frozenset()] * len(self)
        return [frozenset(rubric["stratum"] for rubric in rubrics or ()) for rubrics in self._column(RUBRICS.name)]

    def _has(self, column: str) -> bool:
        return column in self._rows.column_names

    def rewarded_questions(self, only: Collection[str] = ()) -> Iterator[RewardedQuestion]:
        """Yield the rows' questions with the data that :mod:`groundtrace.rewards.blindness` needs. No images are read.

        Rows without question, answer or answer type are left out. If ``only`` is not empty, it holds the wanted streams
        (``grounded``, ``textual``). Other streams are then left out, and so are rows that have only other streams.
        """
        narrow = self._rows.select([name for name in COLUMNS if self._has(name)])
        for row in (row for batch in narrow.to_batches(BATCH_ROWS) for row in batch.to_pylist()):
            if all(isinstance(row[name], str) for name in ("question", "answer", "answer_type")):
                found = rewarded_question(row)
                streams = streams_asked(found.streams, only)
                if streams or not found.streams:
                    yield replace(found, streams=streams)

    def count_free_text(self) -> int:
        """Return the number of rows whose gold answer is free text; only a judge can grade other wordings of it.

        No images are read.
        """
        columns = (self._column(name) for name in ("answer", "answer_type", "choices"))
        return sum(
            answer_type_named(named).needs_judge(answer, tuple(choices) if choices else None)
            for answer, named, choices in zip(*columns, strict=True)
            if isinstance(answer, str) and isinstance(named, str)
        )

    def subset(self, indices: Collection[int]) -> "Shards":
        """Return a view of only the rows with these indices, in the order of the shards (Parquet files).

        No row is copied. Raises ValueError if ``indices`` is empty.
        """
        runs = itertools.groupby(enumerate(sorted(indices)), lambda pair: pair[1] - pair[0])
        spans = [[index for _, index in run] for _, run in runs]
        found = copy.copy(self)
        for name in ("streams", "_places", "content_sha256"):  # these are cached for all rows
            found.__dict__.pop(name, None)
        found._rows = pa.concat_tables([self._rows.slice(span[0], len(span)) for span in spans])
        found.sha256 = found._digest()
        return found

    def images_sha256(self) -> list[tuple[str, ...]]:
        """Return, for each row, the SHA-256 digests of its image files as hexadecimal text.

        All images are read once. An image without bytes is left out.
        """
        batches = self._rows.select(["images"]).to_batches(IMAGES_AT_ONCE)
        rows = (row for batch in batches for row in batch.column(0).to_pylist())
        return [tuple(hashlib.sha256(each["bytes"]).hexdigest() for each in row or () if each["bytes"]) for row in rows]

    def named(self, id: str) -> TrainingRow:
        """Return the row with this id, without reading the images of other rows.

        Raises UnusableRow if no row, or more than one row, has this id.
        """
        places = self._places.get(id, ())
        if len(places) != 1:
            problem = f"{len(places)} rows of {self.side} have" if places else f"no row of {self.side} has"
            remedy = "give each record its own id, and repeat the run" if places else "use the id of a row of this run"
            raise UnusableRow(f"cannot identify the row, because {problem} the id {id!r:.80}: {remedy}")
        return self[places[0]]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, id in enumerate(self._column("id")):
            found.setdefault(id, []).append(place)
        return found

    def __getitem__(self, index: int) -> TrainingRow:
        """Return the row with this index, counted from 0. Raises UnusableRow if its fields are invalid."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        fields = self._rows.slice(index % len(self), 1).to_pylist()[0]
        try:
            added = {name: fields[name] for name in self._added if fields[name] is not None}
            return _row(fields, fields["messages"], added) if self.side == "sft" else _asked_row(fields, added)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise UnusableRow(f"row {index} of {self.side} cannot be used: {error}") from error


def _opened(files: Sequence[Path], cache: Path) -> pa.Table:
    """Return the rows of all files: in memory if files and rows are small, else memory-mapped from the folder
    ``cache``.

    Rows can be much larger than their files, for example because many rows share an image.

    Raises ShardError if the files cannot be read as shards.
    """
    try:
        is_small = sum(file.stat().st_size for file in files) <= MAX_BYTES_IN_MEMORY
        if is_small and (rows := _in_memory(files)) is not None:
            return rows
        rows = datasets.Dataset.from_parquet(
            [str(file) for file in files], cache_dir=str(cache), batch_size=ROWS_AT_ONCE
        )
    except Exception as error:  # the readers raise many types for a file that is not a shard
        raise ShardError(
            f"{files[0].parent} cannot be read: {_line(error.__cause__ or error)}: repeat the run"
        ) from error
    assert isinstance(rows, datasets.Dataset)
    return rows.data.table


def _in_memory(files: Sequence[Path]) -> pa.Table | None:
    """Return the rows of all files; None if they take more than :data:`MAX_ROWS_IN_MEMORY_BYTES`."""
    parts, size_bytes = list[pa.Table](), 0
    for file in files:
        with pq.ParquetFile(file) as shard:
            batches = list[pa.RecordBatch]()
            for batch in shard.iter_batches(ROWS_AT_ONCE):
                size_bytes += batch.nbytes
                if size_bytes > MAX_ROWS_IN_MEMORY_BYTES:
                    return None
                batches.append(batch)
            parts.append(pa.Table.from_batches(batches, shard.schema_arrow))
    return pa.concat_tables(parts, promote_options="default")


def _are_images(type: pa.DataType) -> bool:
    """Return whether a column of this type holds lists of images.

    Each image must be a struct that has the fields ``bytes`` and ``path``.
    """
    if not (pa.types.is_list(type) or pa.types.is_large_list(type)) or not pa.types.is_struct(type.value_type):
        return False
    return {"bytes", "path"} <= {type.value_type.field(place).name for place in range(type.value_type.num_fields)}


def _asked_row(fields: Mapping[str, Any], added: Mapping[str, Any]) -> TrainingRow:
    return replace(_row(fields, fields["prompt"], added), streams=_streams(fields))


def _row(fields: Mapping[str, Any], turns: Sequence[Mapping[str, Any]] | None, added: Mapping[str, Any]) -> TrainingRow:
    texts = [fields["id"], fields["question"], fields["answer"], fields["answer_type"]]
    texts += [turn[name] for turn in turns or () for name in ("role", "content")]
    if not turns or not all(isinstance(text, str) for text in texts):
        raise TypeError(
            "the row has no messages, or one of its texts (id, question, answer, answer_type, or the role or content "
            "of a message) is null"
        )
    boxes = tuple(Box(**box) for box in fields["gold_boxes"] or ())
    question = Question(
        fields["id"],
        fields["source"] or "",
        fields["license"] or "",
        (),
        fields["question"],
        fields["answer"],
        fields["answer_type"],
        tuple(fields["choices"]) if fields["choices"] else None,
        gold_boxes=boxes or None,
    )
    images = tuple((image["bytes"] or b"", image["path"] or "") for image in fields["images"] or ())
    frames = tuple((f["media_index"], f["frame"], f["t_s"]) for f in fields.get("frames") or ())
    messages = tuple({"role": turn["role"], "content": turn["content"]} for turn in turns)
    named = labels_of(boxes)
    objects = [fields.get(name) for name in POINTABLE]
    entities, pointable = (named if phrases is None else tuple(phrases) for phrases in objects)
    known = None if objects[0] is None and not named else entities
    context = _context(added)
    return TrainingRow(question.id, question.source, messages, images, question, known, pointable, frames, context)


def _streams(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the streams of a row as pairs (name, prompt). ``fields`` holds the columns of the row.

    A stream is a way to answer: with boxes, or only in words. Raises TypeError if a stream is unknown or has no prompt.
    """
    streams = tuple(fields.get(STREAMS.name) or ())
    found = {prompt["stream"]: prompt["content"] for prompt in fields.get(STREAM_PROMPTS.name) or ()}
    for stream in streams:
        if stream not in (GROUNDED, TEXTUAL):
            raise TypeError(f"streams must be {GROUNDED} or {TEXTUAL}, got {stream!r}")
        if not isinstance(found.get(stream), str):
            raise TypeError(f"stream_prompts has no prompt for the stream {stream}")
    return tuple((stream, found[stream]) for stream in streams)


def _context(added: Mapping[str, Any]) -> Context:
    context = Context(values=tuple(Value(name, as_json(value)) for name, value in added.items()))
    for column in CHECKED:
        context.added(column)
    return context


def shard_side(data: Path) -> str:
    """Return which training set of a run is to be evaluated: ``rl`` (reinforcement learning) or ``sft`` (supervised).

    ``data`` is a run folder (the output of a pipeline), or a folder that directly holds shards (Parquet files). In a
    run folder, the result is ``rl`` if there are RL shards. In a folder of shards, it is ``rl`` if the rows have the
    column ``prompt``. Otherwise it is ``sft``.
    """
    if _own_shards(data, "rl"):
        return "rl"
    files = [] if _own_shards(data, "sft") else _own_shards(data, ".")
    with contextlib.suppress(pa.ArrowException, OSError):  # reading the rows later raises a better error
        return "rl" if files and "prompt" in pq.read_schema(files[0]).names else "sft"
    return "sft"


def shards_to_evaluate(data: Path, cache: Path) -> Shards:
    """Open the shards (Parquet files) in ``data`` whose questions are evaluated.

    ``data`` is a run folder (the output of a pipeline), or a folder that directly holds shards. :func:`shard_side`
    selects the training set, ``rl`` or ``sft``. ``cache`` is the folder for the memory-mapped copy of large shards.
    Raises ShardError if there are no shards or no rows, if a column is missing, or if a shard cannot be read. If there
    are no shards, the error message also mentions the file records.jsonl. The reason is that a user can evaluate a
    folder with this file instead of a folder with shards.
    """
    side = shard_side(data)
    if not _files(data, side):
        raise ShardError(
            f"{data} has no shards and no records.jsonl: give the output folder of a `beam run`, or a folder with "
            "records.jsonl"
        )
    return Shards(data, side, cache)


def _files(data: Path, side: str) -> list[Path]:
    """Return the shards (Parquet files) of one training set in the run folder ``data``, sorted by name.

    ``side`` is the training set, ``rl`` or ``sft``, and also the name of its folder in ``data``. If this folder has no
    shards, return the shards that ``data`` directly holds.
    """
    return _own_shards(data, side) or _own_shards(data, ".")


def _own_shards(data: Path, name: str) -> list[Path]:
    """Return the shards (Parquet files) in the folder ``name`` of ``data``, sorted by name.

    Raises ShardError if a link leads from ``data`` to a shard outside it. The reason is that a stranger may have sent
    ``data``, with a link to private rows of the user. The trained model would then contain these rows.
    """
    shards = shards_of(data, name, accepts_links=True)  # they are checked below, with an error of this module
    for shard in shards:
        if is_elsewhere(shard, data):
            raise ShardError(
                f"{shard} is outside of {data}, because the shard or its folder is a link: replace the link by a copy "
                "of the files to which it leads, or give the folder of these files as the data"
            )
    return shards


def _shard_files(data: Path, side: str) -> list[Path]:
    """Return the shards (Parquet files) of one training set that have at least one row.

    ``side`` is the training set, ``rl`` or ``sft``. ``data`` is a run folder, or a folder that directly holds shards.
    Raises ShardError if there are no shards, if no shard has a row, if a shard cannot be read, or if the run's list of
    files (in run.json) is damaged or differs from the shards.
    """
    files = _files(data, side)
    if not files:
        raise ShardError(f"{data} {_missing(data, side)}")
    _check_files(files[0].parent)
    try:
        held = [file for file in files if pq.read_metadata(file).num_rows]
    except (pa.ArrowException, OSError) as error:
        raise ShardError(f"{files[0].parent} cannot be read: {_line(error)}: repeat the run") from error
    if not held:
        raise ShardError(f"{files[0].parent} holds no rows: use the shards of another run")
    return held


def _missing(data: Path, side: str) -> str:
    """Return the end of the error message for data without shards of one training set: the problem and the remedy.

    ``data`` is the folder that the user gave. ``side`` is the training set that the command needs, ``rl`` or ``sft``.
    """
    if side == "rl" and _own_shards(data, "sft"):
        return (
            "has SFT rows but no RL rows: lower split.sft_ratio or widen [difficulty] in the pipeline's config and "
            "repeat the run, or use the SFT rows with `trainer sft`"
        )
    if side == "sft" and _own_shards(data, "rl"):
        return (
            "has RL rows but no SFT rows: raise split.sft_ratio in the pipeline's config and repeat the run (some "
            "pipelines make no SFT rows), or use the RL rows with `trainer grpo`"
        )
    needed = f"give the output folder of a `beam run`, which has {side}/*.parquet"
    if (data / "records.jsonl").is_file():
        return f"has records.jsonl but no shards, and only `trainer eval` reads records.jsonl: {needed}"
    return f"has no shards: {needed}"


def _check_files(shards: Path) -> None:
    """Raise ShardError if the shards in a run folder differ from the run's list of files.

    Shards outside a run folder are not checked. Shards of a run without such a list (from an earlier version of the
    code) are not checked either.
    """
    run = shards.resolve().parent
    try:
        files = files_of(run)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ShardError(f"{run / 'run.json'} is damaged ({type(error).__name__}): repeat the run") from error
    problem = "" if files is None else problem_of(run, files, [shards.name], digests=True)
    if problem:
        raise ShardError(f"the files in {run} have changed since the run ended ({problem}): repeat the run")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
