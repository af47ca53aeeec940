"""Reads a folder of images: one record without a question for each image file, at any depth.

Images are not copied. The id of an image is its path in the folder, so that the id stays the same if images are added.
The field ``source`` is the folder's name, and the field ``license`` is ``unknown``. If the config has constants for
these fields, the constants are used instead. This format does not read a folder that also holds tables, JSON Lines,
Parquet or archives, because these files may hold questions.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from groundtrace.schemas.records import RawRecord
from groundtrace.stages.sources.base import Format, Input, NothingHere, RowSettings, Source, is_run_folder
from groundtrace.stages.sources.rows import placed_records
from groundtrace.storage.places import Place, storage_of
from groundtrace.vision.media import MediaStore

IMAGE_ENDS = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
DATA_ENDS = frozenset({".csv", ".tsv", ".jsonl", ".parquet", ".arrow", ".tar", ".zip", ".gz"})
"""Endings of files that may hold records. ``.json`` is not among them: SA-1B has a file of masks for each image."""
UNKNOWN = "unknown"


class Images(Format):
    """Implements the format of folders that hold only images. This format is tried only for recipes (pipelines) that
    write questions.
    """

    name = "images"
    lacks_questions = True

    def find(self, name: str, path: Place, rows: RowSettings) -> Input:
        """Return the folder ``path`` as an input with one source.

        ``rows`` holds the settings by which rows become records. The fingerprint of the input is made of the names and
        sizes of the images. Raises NothingHere if the folder has no images, or if it also has other data files.
        """
        if not path.is_dir():
            raise NothingHere("no folder of images")
        files = _files(path)
        if any(file.suffix.lower() in DATA_ENDS for _, file in files):
            raise NothingHere("no folder that holds only images")
        images = [(relative, file) for relative, file in files if file.suffix.lower() in IMAGE_ENDS]
        if not images:
            raise NothingHere("no image")
        digest = hashlib.sha256()
        for relative, file in images:
            digest.update(f"{relative}\0{file.stat().st_size}\n".encode(errors="surrogateescape"))
        root = str(path.resolve())
        source = Source(self.name, root, records=len(images), storage=storage_of(path))
        return Input(root, (source,), root, digest.hexdigest(), frozenset({"id", "image", "source", "license"}))

    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        """Yield one record without a question for each image of the folder, in the order of their paths.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records. Nothing
        is written to ``store``, because images are not copied.
        """
        found = ((row["image"], row) for row in self.rows(source, rows))
        return placed_records(found, source, rows, store)

    def media(self, source: Source, rows: RowSettings) -> Iterator[Any]:
        """Yield the path of each image, relative to the folder.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records.
        """
        return (row["image"] for row in self.rows(source, rows))

    def rows(self, source: Source, rows: RowSettings) -> Iterator[dict[str, str]]:
        """Yield one row for each image: a mapping with the id, image, source and license of its record.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records. Source
        and license are left out if the config has a constant for them.
        """
        given = {"source": source.place.name or UNKNOWN, "license": UNKNOWN}
        given = {field: value for field, value in given.items() if field not in rows.constants}
        for relative, file in _files(source.place):
            if file.suffix.lower() in IMAGE_ENDS:
                yield {"id": relative, "image": relative, **given}


IMAGES = Images()


def _files(folder: Any) -> list[tuple[str, Any]]:
    """Return the files below a folder with their paths in the folder, sorted.

    Hidden files and the files of run folders (outputs of Groundtrace) are left out.
    """
    found = sorted((file.relative_to(folder).as_posix(), file) for file in folder.rglob("*"))
    shown = [(relative, file) for relative, file in found if not any(p.startswith(".") for p in relative.split("/"))]
    below = {parent for _, file in shown for parent in file.parents} - {folder, *folder.parents}
    runs = {parent for parent in below if is_run_folder(parent)}
    return [(relative, file) for relative, file in shown if file.is_file() and runs.isdisjoint(file.parents)]
