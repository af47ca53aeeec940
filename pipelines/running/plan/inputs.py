"""Finds the input that ``--input`` names, by trying one input format (e.g. Parquet, JSON Lines) after the other, and
checks that its fields are there.
"""

import difflib
import hashlib
import itertools
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from groundtrace.pipelines.running.endings import RunPaused
from groundtrace.pipelines.running.plan.columns import missing_fields
from groundtrace.pipelines.running.plan.first_checks import INPUT_REMEDY
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.paths import local_path
from groundtrace.schemas.safe_files import refuse_special
from groundtrace.schemas.text import storable
from groundtrace.stages.sources import registry
from groundtrace.stages.sources.base import Input, InputError, NothingHere, RowSettings, Source, refuse_link_out
from groundtrace.stages.sources.hf_datasets import DataSets
from groundtrace.stages.sources.rows import media_column
from groundtrace.stages.sources.shapes.base import FIRST_ROWS, OneRecordPerRow, Row, Shape
from groundtrace.stages.sources.shapes.registry import SHAPES, shape_of
from groundtrace.stages.sources.tables import METADATA_FILE
from groundtrace.storage.places import (
    STANDARD,
    Place,
    StorageSettings,
    StoreUnavailable,
    check_bucket,
    is_in_store,
    place,
)

AS_IT_IS = RowSettings()
_ONE_KIND = ("table", "jsonl", "parquet")
"""The formats that read only files of one kind in a folder."""
_RECORD_ENDS = {".csv", ".tsv", ".jsonl", ".parquet"}


def find_input(
    name: str, rows: RowSettings = AS_IT_IS, storage: StorageSettings = STANDARD, may_lack_questions: bool = False
) -> Input:
    """Find the input that the command line names, and return its description: its files and columns.

    Args:
        name: The name of the input: a file, a folder, a URL, or the id of a data set.
        rows: The config's section ``[input]``, with which the input is read: e.g. which column holds the question.
        storage: The settings of an object store.
        may_lack_questions: Whether the input may be a folder of images without questions.

    Raises :class:`InputError` if the input cannot be read, or evidently lacks a configured column or split. Raises
    :class:`groundtrace.storage.places.StorageError` for a store (remote storage such as S3) that cannot be used as
    configured, and :class:`groundtrace.pipelines.running.endings.RunPaused` for a store that is unreachable.
    """
    if not name.strip():
        raise InputError("--input is empty: name a file, a folder or a data set")
    try:
        path = place(name, storage) if is_in_store(name) else local_path(name)
        found = _ask_formats(name, path, rows, may_lack_questions)
    except UserError:
        raise
    except StoreUnavailable as error:
        raise RunPaused(str(error)) from error
    except OSError as error:
        raise InputError(f"cannot read the input {name} ({error.strerror or error}): correct --input") from error
    except (ValueError, RuntimeError) as error:  # such as a pattern with ** in a wrong place, or a link to itself
        raise InputError(f"cannot read the input {name} ({error}): correct --input") from error
    for file in (found.name, *(source.path for source in found.sources)):
        if storable(file) != file:
            raise InputError(f"the name {file!a} is not UTF-8, so no row can hold it: rename this file or folder")
    _check_columns(rows, found)
    sources = (replace(each, storage=storage, root=found.media_root) for each in found.sources)
    found = replace(found, sources=tuple(sources))
    if SHAPES.named(rows.shape).is_expanding:  # a data set declares its number of rows; a row may be several records
        sources = (replace(each, records=None) if each.kind == DataSets.name else each for each in found.sources)
        found = replace(found, sources=tuple(sources))
    return replace(_with_files(found, rows, storage), unread=_unread(path, found))


def _unread(path: Place, found: Input) -> tuple[str, ...]:
    """Return the sorted names of the files in the folder ``path`` that may hold records, but that the input lacks.

    Files in subfolders and hidden files are not listed. The result is () if ``path`` is not a folder, or if the library
    ``datasets`` reads it, because it is then unknown which files are read. It is also () if the folder cannot be
    listed. This is no error, because the result is only used for a note to the user. ``found`` describes the input.
    """
    kind = found.sources[0].kind
    if kind not in _ONE_KIND:
        return ()
    read = {found.sources[0].place.name, METADATA_FILE}
    try:
        if not path.is_dir():
            return ()
        ours = (
            file for file in path.iterdir() if file.suffix.lower() in _RECORD_ENDS and not file.name.startswith(".")
        )
        left = (
            file for file in ours if file.name not in read and not (kind == "parquet" and file.suffix == ".parquet")
        )
        return tuple(sorted(file.name for file in left if file.is_file()))
    except (OSError, StoreUnavailable):
        return ()


def count_records(sources: Sequence[Source], limit: int | None = None) -> int | None:
    """Return how many records the input holds; None if they cannot be counted without reading media.

    ``sources`` are the files of the input. With a ``limit``, only the first ``limit`` records of the whole input are
    counted; None means all.
    """
    total = 0
    for source in sources:
        found = registry.format_of(source).count(source)
        if found is None:
            return None
        share = source.share_of(limit)
        total += found if share is None else min(found, share)
    return total


def first_rows(found: Input) -> list[Row]:
    """Return the first rows of an input, unchanged; an empty list if they cannot be read before a run.

    ``found`` describes the input: its files and columns.
    """
    rows = itertools.chain.from_iterable(registry.format_of(each).rows(each, AS_IT_IS) for each in found.sources)
    return list(itertools.islice(rows, FIRST_ROWS))


def seen_shape(found: Input) -> Shape:
    """Return the layout of an input's rows that its columns and first rows suggest, such as the layout of LLaVA.

    ``found`` describes the input: its files and columns.
    """
    return shape_of(found.columns, first_rows(found))


def check_fields(found: Input, rows: RowSettings, may_lack_questions: bool = False) -> None:
    """Raise :class:`InputError` if the input lacks a required field, such as the question.

    A run would then reject every record. ``found`` describes the input: its files and columns. ``rows`` holds the
    config's section ``[input]``, e.g. which column holds the question. ``may_lack_questions`` is True if the recipe
    also accepts images without questions.
    """
    if not may_lack_questions:
        check_questions(found, rows)
    missing = fields_lacking(found, rows, may_lack_questions)
    if missing:
        names = ", ".join(sorted(found.columns))
        shape = seen_shape(found) if rows.shape == OneRecordPerRow.name else SHAPES[OneRecordPerRow.name]
        seen = f"it looks like {shape.title}" if shape.name != OneRecordPerRow.name else f"its columns are {names}"
        raise InputError(
            f"{found.name} has no column for {', '.join(missing)} ({seen}): "
            f"run `beam init {shlex.quote(found.name)} --output my.toml`, and name the columns in my.toml"
        )


def fields_lacking(found: Input, rows: RowSettings, may_lack_questions: bool) -> list[str]:
    """Return the names of the required fields (e.g. ``answer``) that neither a column nor a constant provides.

    ``found`` describes the input: its files and columns. ``rows`` holds the config's section ``[input]``, e.g. which
    column holds the question. A constant is a value that the config sets for all records. The list is empty if the
    columns of the input are not known before a run. If ``may_lack_questions`` is True, an input that lacks both the
    question and the answer is accepted, and the list then contains neither of the two.
    """
    if not found.columns:
        return []
    are_rows = all(source.kind != "jsonl" for source in found.sources)
    missing = missing_fields(found.columns, rows, are_rows)
    if may_lack_questions and {"question", "answer"} <= {*missing}:
        return [name for name in missing if name not in ("question", "answer")]
    return missing


def check_questions(found: Input, rows: RowSettings) -> None:
    """Raise :class:`InputError` if the input is a folder of images without questions.

    ``found`` describes the input: its files and columns. ``rows`` holds the config's section ``[input]``. If this
    section gives a constant question, no error is raised. The user cannot add questions by naming columns, so the error
    describes another remedy.
    """
    if found.columns == {"image"} and "question" not in rows.constants:
        raise InputError(
            f"{found.name} holds images and no questions: write the questions into one .csv file in this folder, "
            "with the columns image, question and answer, and give this file as --input"
        )


def _ask_formats(name: str, path: Place, rows: RowSettings, may_lack_questions: bool) -> Input:
    absent: list[NothingHere] = []
    for each in registry.formats():
        if each.lacks_questions and not may_lack_questions:
            continue
        try:
            return each.find(name, path, rows)
        except NothingHere as error:
            absent.append(error)
    check_bucket(path)
    *files, last = map(str, absent)
    raise InputError(
        f"{name} is not an input: there is {', '.join(files)}, and {last}. To correct this, {INPUT_REMEDY}"
    ) from absent[-1]


def _with_files(found: Input, rows: RowSettings, storage: StorageSettings) -> Input:
    """Return the input with a digest (``fingerprint``) that includes the further files which the input needs.

    The input's shape (layout of rows) determines these files, such as a file of boxes. If there are none, the input is
    returned unchanged. ``found`` describes the input, ``rows`` holds the config's section ``[input]``, and ``storage``
    the settings of an object store. Raises InputError if such a file cannot be read. Raises UnsafeFile if such a file
    is a pipe or a device, because reading it would never end.

    Also raises InputError if such a file is a link out of the input's folder. The reason is that a stranger may have
    made this folder, and ``beam init`` may have taken the file's name from it. There is one exception: if the name is
    absolute or leaves the folder by ``..``, links are accepted, because the user has written such a name.
    """
    digest = hashlib.sha256(found.fingerprint.encode())
    names = SHAPES.named(rows.shape).files(rows)
    for name in names:
        path = f"{found.media_root}/{name}"
        try:
            path = place(found.media_root, storage) / name
            if isinstance(path, Path):
                if Path(os.path.normpath(name)).parts[:1] not in (("/",), ("..",)):
                    refuse_link_out(path, Path(found.media_root), "set input.coco_instances to the file itself")
                refuse_special(path)
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a link to itself
            why = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read {path} ({why}): correct its path in the config's [input]") from error
    return replace(found, fingerprint=digest.hexdigest()) if names else found


def _check_columns(rows: RowSettings, found: Input) -> None:
    """Raise InputError if the input lacks a column that the config names.

    The config's ``input.columns`` names the column that provides a field of a record, such as the question.
    ``input.keep`` names columns that the output rows also get. These names are not checked if the input's columns are
    unknown. ``found`` describes the input. Also raises InputError if ``input.keep`` names the column with the media.
    """
    names = sorted(found.columns and found.columns | SHAPES.named(rows.shape).gives)
    named = [(f"input.columns.{field}", column) for field, column in rows.columns.items()]
    for key, column in [*named, *(("input.keep", column) for column in rows.keep)]:
        if names and column not in names:
            near = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"use one of its columns {', '.join(names)}"
            raise InputError(f"{key}: the input has no column {column!r}; {hint}")
    if (media := media_column(rows, found.columns)) in rows.keep:
        raise InputError(
            f"input.keep: the column {media!r} cannot be kept, because it holds the media, which every row already has "
            "in the columns images and media_names: remove the column from input.keep"
        )
