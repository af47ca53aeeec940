"""Writes the two parts of a divided input as folders: OUT/questions/train and OUT/questions/held.

OUT is the output folder of ``beam loop``. The questions in ``train`` are trained on; those in ``held`` are only used to
evaluate the models.

Each folder has a file ``records.jsonl`` and the media. The records are read as ``beam run`` reads them, with the
layout, the column map and the constants of the config's section ``[input]``. They are written in Groundtrace's own
fields, so that the later steps need none of these settings. A column that is not read as a field is written only if
``input.keep`` names it. There is one exception: a JSON Lines input for which ``[input]`` sets nothing except ``keep``.
Its lines are written with all their keys. A local media file is not copied but linked (a hard link), if the file system
allows it.

The folder OUT/questions is written under another name, and renamed when it is complete. Its file ``split.json`` holds
the input and the settings of the split, and ``media.json`` the state of the media files.
"""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from groundtrace.config.settings import to_toml
from groundtrace.grading.input_record import InputRecord, InvalidRecord, parse_record
from groundtrace.pipelines.loop.held_out import Seen, SplitError, held_out
from groundtrace.pipelines.loop.media_stamps import changed_medium, write_stamps
from groundtrace.pipelines.loop.part_media import EMBEDDED, PartMedia
from groundtrace.pipelines.loop.settings import HeldOutSettings
from groundtrace.pipelines.running.endings import RunPaused
from groundtrace.schemas.json_lines import NotAnObject, parse_object
from groundtrace.schemas.records import RawRecord
from groundtrace.schemas.safe_files import read_json, refuse_links
from groundtrace.schemas.text import storable
from groundtrace.stages.sources.base import FIELDS, Input, RowSettings
from groundtrace.stages.sources.registry import read_source
from groundtrace.storage.files import is_unfinished, new_folder
from groundtrace.storage.places import StorageSettings, StoreUnavailable, is_in_store
from groundtrace.vision.decode import UndecodableMedia, decode_image
from groundtrace.vision.hashing import pixel_sha256
from groundtrace.vision.media import MediaMissing, MediaNotAllowed, MediaStore

FOLDER, TRAIN, HELD, SPLIT = "questions", "train", "held", "split.json"
RECORDS = "records.jsonl"
_ALL = "all.jsonl"
_CHANGED, _AS_GIVEN = "+", "="
"""The first character of a line in ``all.jsonl``: "+" if the reader has replaced media paths by URIs, else "="."""


@dataclass(frozen=True)
class Division:
    """Describes how the questions of an input were divided.

    ``train`` and ``held`` are the numbers of records to train on and of records that are held out. ``groups`` maps the
    id of each held-out question to the name of its media group (the questions with common images).
    """

    train: int
    held: int
    groups: Mapping[str, str]


def divide(out: Path, found: Input, rows: RowSettings, storage: StorageSettings, settings: HeldOutSettings) -> Division:
    """Divide the questions of an input into a part to train on and a part to evaluate on, and write both into a folder.

    The folder is ``questions`` in the output folder of ``beam loop``. If this folder already holds the division of this
    input with these settings, nothing is written. The result holds the sizes of the two parts, and the ids of the
    evaluation's questions.

    Args:
        out: The output folder of the loop, which is created if it is missing.
        found: The input: the files with the questions, and their columns.
        rows: The config's section ``[input]``, with which the input is read: e.g. which column holds the question.
        storage: The settings of an object store, for an input in a store.
        settings: The share (0–1) of the usable records to hold out, and the seed by which they are chosen.

    Raises :class:`groundtrace.pipelines.loop.held_out.SplitError` if the input cannot be divided, or if the folder
    holds the division of another input, or a division with other settings. Raises
    :class:`groundtrace.pipelines.running.endings.RunPaused` if a store is unreachable.
    """
    _check_kept(rows)
    identity = {
        "input": found.fingerprint,
        "rows": hashlib.sha256(to_toml(rows).encode()).hexdigest(),
        "share": settings.share,
        "seed": settings.seed,
    }
    folder = out / FOLDER
    if folder.exists():
        return _known(folder, identity, found.media_root)
    out.mkdir(parents=True, exist_ok=True)
    for left in (path for path in out.iterdir() if is_unfinished(path.name) and path.name.startswith(f".{FOLDER}.")):
        refuse_links(out, left.name)
        shutil.rmtree(left)
    try:
        with new_folder(folder) as unfinished:
            division = _write(unfinished, found, rows, storage, settings)
            text = json.dumps(identity | {"name": found.name, **vars(division)}, ensure_ascii=False, indent=1)
            (unfinished / SPLIT).write_text(storable(text) + "\n", "utf-8")
    except StoreUnavailable as error:
        raise RunPaused(str(error)) from error
    return division


def read_division(out: Path) -> Division:
    """Return how ``beam loop`` divided the questions into a part to train on and a part to evaluate on.

    ``out`` is the output folder of the loop, whose file ``questions/split.json`` is read. Raises OSError if the file
    cannot be read, ValueError or KeyError if it is damaged, and UnsafeFile if it is a pipe or a device.
    """
    found = read_json(out / FOLDER / SPLIT)
    return Division(found["train"], found["held"], found["groups"])


def _known(folder: Path, identity: Mapping[str, Any], media_root: str) -> Division:
    """Return how the questions in ``folder`` were divided into a part to train on and a part to evaluate on.

    ``identity`` describes the input and the settings of the present command: the section ``[input]``, the share and the
    seed. ``media_root`` is the folder of the input's media. Raises SplitError if the folder was made from another input
    or with other settings, if an image or clip of the input has changed since then, or if the folder cannot be read.
    """
    try:
        found = read_json(folder / SPLIT)
        differing = [key for key, value in identity.items() if found[key] != value]
        division = read_division(folder.parent)
        changed = None if is_in_store(media_root) else changed_medium(folder, Path(media_root))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SplitError(
            f"{folder} lacks files of an earlier `beam loop`, or these files are damaged: choose another --output"
        ) from error
    if differing:
        named = {"input": "--input", "rows": "[input] of the curation's config"}
        keys = ", ".join(named.get(key, f"held_out.{key}") for key in differing)
        raise SplitError(
            f"the questions in {folder} were made with another setting of {keys}, and models may have been trained on "
            "these questions: restore the earlier setting, or choose another --output"
        )
    if changed is not None:
        raise SplitError(
            f"{changed} has changed since the questions in {folder} were made, and models may have been trained on "
            "it: restore the file, or choose another --output"
        )
    return division


def _check_kept(rows: RowSettings) -> None:
    """Raise SplitError if a column in ``input.keep`` has the name of a field whose value comes from elsewhere.

    The value may come from another column or from ``input.constants``. An example: ``input.keep`` names the column
    ``answer``, but the config reads the field ``answer`` from the column ``label``. Then a row would have two values
    with the name ``answer``.
    """
    for name in rows.keep:
        if name in FIELDS and (rows.columns.get(name, name) != name or name in rows.constants):
            source = f"the column {rows.columns[name]!r}" if name in rows.columns else f"input.constants.{name}"
            raise SplitError(
                f"input.keep cannot keep the column {name!r}, because {source} gives the {name} of each record: rename "
                f"the column {name!r} of the input"
            )


def _write(
    folder: Path, found: Input, rows: RowSettings, storage: StorageSettings, settings: HeldOutSettings
) -> Division:
    """Divide the questions, and write those to train on and those to evaluate on into two subfolders of ``folder``.

    ``folder`` must be empty. Returns the sizes of the two parts, and the media groups of the questions to evaluate on.
    A media group consists of the questions that share an image.
    """
    store = MediaStore(found.media_root, str(folder), cache_bytes=0, storage=storage)
    lines, records = folder / _ALL, list[tuple[str, InputRecord | None]]()
    with lines.open("w", encoding="utf-8") as stream:
        for raw in (raw for source in found.sources for raw in read_source(source, rows, store)):
            stream.write(f"{_CHANGED if raw.materialised else _AS_GIVEN}{_line(raw, rows)}\n")
            records.append(_parsed(raw))
    hashes = _hashes({uri for _, record in records if record is not None for uri in record.media}, store)
    ids = Counter(record_id for record_id, _ in records if record_id)
    seen = [_seen(record, hashes, ids) for _, record in records]
    held = held_out(seen, settings.share, settings.seed)
    with lines.open(encoding="utf-8", newline="\n") as stream:
        media = PartMedia(store, folder)
        _write_parts(folder, stream, held, media)
    write_stamps(folder, Path(store.input_root), media.local)
    lines.unlink()
    shutil.rmtree(folder / EMBEDDED, ignore_errors=True)  # of embedded media, which both parts have as links by now
    return Division(len(records) - len(held), len(held), {records[place][0]: group for place, group in held.items()})


def _write_parts(folder: Path, lines: Iterable[str], held: Mapping[int, str], media: PartMedia) -> None:
    for side in (TRAIN, HELD):
        (folder / side).mkdir()
    train, other = (folder / side / RECORDS for side in (TRAIN, HELD))
    with train.open("w", encoding="utf-8") as kept, other.open("w", encoding="utf-8") as asked:
        for place, line in enumerate(lines):
            side, stream = (HELD, asked) if place in held else (TRAIN, kept)
            stream.write(_placed(line[1:].rstrip("\n"), line[0] == _CHANGED, media, folder / side) + "\n")


def _placed(line: str, has_uris: bool, media: PartMedia, side: Path) -> str:
    """Put a record's images and clips into the folder ``side``; return the record's JSON line with their paths.

    ``side`` is the folder of the record's part: the questions to train on, or the questions to evaluate on.
    ``has_uris`` is True if the line holds URIs instead of paths; the URIs are then replaced by paths. A line that is
    not a JSON object is returned unchanged.
    """
    try:
        fields = parse_object(line)
    except NotAnObject:
        return line
    given = fields.get("media")
    listed = given if isinstance(given, list) else [given]
    for each in listed:
        if isinstance(each, str):
            media.put(each if has_uris else f"input:{each}", side)
    if not (has_uris and isinstance(given, list)):
        return line
    fields["media"] = [each.partition(":")[2] if isinstance(each, str) else each for each in given]
    return storable(json.dumps(fields, ensure_ascii=False))


def _line(raw: RawRecord, rows: RowSettings) -> str:
    """Return a record as one line of JSON, with its fields and the columns that the config keeps.

    A line that is not a JSON object is returned unchanged: the run rejects it. ``raw.problem`` is a fault that the
    reader found in the record, such as a wrong layout. If there is a fault, its text replaces the value of the field
    ``media``, so that the run rejects the record and shows this text.
    """
    text = " ".join(raw.text.splitlines())
    if not (rows.keep or raw.problem):
        return text
    try:
        fields = parse_object(text)
    except NotAnObject:
        return text
    kept = dict.fromkeys(rows.keep) | {value.column: value.plain for value in raw.origin.kept}
    fields |= {name: value for name, value in kept.items() if name not in FIELDS}
    if raw.problem:
        fields["media"] = {"problem": raw.problem}
    return storable(json.dumps(fields, ensure_ascii=False))


def _parsed(raw: RawRecord) -> tuple[str, InputRecord | None]:
    """Return the id of a record ("" if the id cannot be read), and the record itself (None if it is invalid)."""
    try:
        record = parse_record(raw, may_lack_question=True)
    except InvalidRecord as error:
        return error.record_id or "", None
    return record.id, record


def _seen(record: InputRecord | None, hashes: Mapping[str, str], ids: Mapping[str, int]) -> Seen:
    if record is None or any(uri not in hashes for uri in record.media):
        return Seen()
    media = tuple(hashes[uri] for uri in record.media)
    is_still = not any(value.startswith("clip ") for value in media)
    return Seen(media, is_still and bool(record.question) and ids[record.id] == 1)


def _hashes(uris: Iterable[str], store: MediaStore) -> dict[str, str]:
    """Return a hash of the decoded pixels of each image, by URI; media that cannot be decoded are left out.

    A clip gets a value made of its URI instead of a hash of its pixels. A question about a clip is never held out for
    the evaluation, so equal clips need not be found.
    """
    names = sorted(uris)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = pool.map(lambda uri: _hash(uri, store), names)
        return {uri: value for uri, value in zip(names, found, strict=True) if value}


def _hash(uri: str, store: MediaStore) -> str:
    try:
        kind, data = store.open_sniffed(uri, None)
        return f"clip {uri}" if kind == "video" else pixel_sha256(decode_image(data, store.limits).pixels)
    except (MediaMissing, MediaNotAllowed, UndecodableMedia, ImportError):
        return ""


def settings_after(rows: RowSettings) -> RowSettings:
    """Return the ``[input]`` settings with which ``beam run`` reads one of the two parts of a divided input.

    One part is for training, the other for evaluation. ``rows`` are the settings with which the undivided input was
    read. Only the columns to keep (``input.keep``) are taken from ``rows``. All other settings were applied before the
    parts were written, so the result has the defaults of these settings.
    """
    return replace(RowSettings(), keep=rows.keep)
