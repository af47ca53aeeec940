"""Reads questions about the images of a COCO file, which holds the images' file names and boxes.

The questions are an input of any format, with ``image_id``, ``question`` and ``answer``. ``input.coco_instances`` names
the COCO file. A row's ``image_id`` selects its image, and three rules select its boxes:

- If the row has ``annotation_ids``, these annotations give the boxes.
- Otherwise, if the row has ``categories`` (names or ids), the image's annotations of these categories give the boxes.
- Otherwise all annotations of the image give the boxes.

The last two rules leave out crowds, because the box of a crowd holds many objects. COCO boxes are ``[x, y, width,
height]`` in pixels.

The boxes and file names of the COCO file are in memory: about 400 bytes for each annotation, and 350 MB for the 860,000
annotations of train2017. Segmentations are skipped while the file is read.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import is_elsewhere
from groundtrace.schemas.text import counted, excerpt, printable
from groundtrace.stages.sources.json_arrays import NotAnArray, named_entries
from groundtrace.stages.sources.shapes.base import BadRow, Reader, Row, Shape, ShapeSettings, folder_line
from groundtrace.storage.places import Place, StorageError, StoreUnavailable

SLACK = 0.01
"""The maximum distance by which a box may extend beyond its image, as a share of the image's width or height.

The limit is the same for all inputs (:data:`groundtrace.stages.ingest_records.CLIP_SHARE`).
"""


@dataclass(frozen=True)
class Annotation:
    """Holds one box of a COCO file.

    ``id`` is the number of the annotation, and ``category`` is the id of its category. ``xywh`` is x, y, width and
    height in pixels, as in the file. ``is_crowd`` is True if the box surrounds many objects.
    """

    id: int
    category: int
    xywh: tuple[float, float, float, float]
    is_crowd: bool


@dataclass
class CocoFile:
    """Holds the content of a COCO file without its segmentations.

    ``images`` maps the id of each image to its file name, width and height. ``names`` maps the id of each category to
    its name. ``by_image`` maps the id of each image to its boxes.
    """

    images: dict[int, tuple[str, float, float]] = field(default_factory=dict)
    """Maps the id of an image to its file name, width and height."""
    names: dict[int, str] = field(default_factory=dict)
    by_image: dict[int, list[Annotation]] = field(default_factory=lambda: defaultdict(list))

    @cached_property
    def ids(self) -> dict[str, int]:
        """Return a mapping from the name of each category (kind of object, such as "dog") to its id."""
        return {name: number for number, name in self.names.items()}


class Coco(Shape):
    """Implements the shape (layout) of rows that name their image by ``image_id``. The image's boxes are in a COCO
    file.
    """

    name, title = "coco", "questions about the images of a COCO file"
    gives = frozenset({"media", "boxes"})
    list_columns = frozenset({"annotation_ids", "categories"})

    def fits(self, columns: frozenset[str], first: Sequence[Row]) -> bool:
        """Return whether the rows have a question, and name their image only by ``image_id``.

        ``columns`` are the names of the input's columns, and ``first`` are its first rows.
        """
        named = {name.casefold() for name in columns}
        return {"image_id", "question"} <= columns and named.isdisjoint({"image", "images", "media", "image_path"})

    def read(self, row: Row, settings: ShapeSettings, id_column: str) -> Iterator[Row]:
        """Yield the row with ``media`` and ``boxes`` added from the COCO file.

        ``row`` is a row of the input, and ``settings`` holds the settings of its layout. The setting ``coco_instances``
        is the path of the COCO file. Here, the path is relative to the working folder, but in :meth:`reader`, it is
        relative to the input's folder. ``id_column`` is not used.
        """
        return iter(self.reader(settings, Path(), id_column)(row))

    def reader(self, settings: ShapeSettings, folder: Place, id_column: str) -> Reader:
        """Return a function that adds ``media`` and ``boxes`` from the COCO file to a row.

        The setting ``coco_instances`` is the path of the COCO file, relative to ``folder``. The file is read at the
        first row. Raises UserError if the setting is empty.
        """
        if not settings.coco_instances:
            raise UserError('input.shape = "coco" needs the COCO file: set input.coco_instances to its path')
        path = folder / settings.coco_instances
        return lambda row: _read(row, _instances(path, _stamp(path)))

    def files(self, settings: ShapeSettings) -> tuple[str, ...]:
        """Return a tuple with the path of the COCO file of boxes, relative to the input's folder. It is empty if the
        settings do not name a COCO file.
        """
        return (settings.coco_instances,) if settings.coco_instances else ()

    def template(self, columns: frozenset[str], first: Sequence[Row], folder: Place) -> list[str]:
        """Return the lines of a new config that name the COCO file and the folder of its images.

        ``columns`` are the names of the input's columns, ``first`` are its first rows, and ``folder`` is its folder.
        COCO files are found by their names, in ``folder`` and the folders in it. Links to files outside ``folder`` are
        left out. If there is not exactly one such file, the line for the COCO file is a comment.
        """
        below = (path for pattern in ("*instances*.json", "*/*instances*.json") for path in folder.glob(pattern))
        found = sorted(str(path)[len(str(folder)) :].lstrip("/") for path in below if _is_own(path, folder))
        if len(found) == 1:
            line = f"coco_instances = {json.dumps(found[0])}  # boxes and file names come from here"
            return [line, folder_line(folder, _first_file_name(folder / found[0]))]
        seen = ", ".join(map(printable, found)) or "none is seen here"
        return [f'# coco_instances = "…"  # the COCO file that holds the boxes: {seen}', folder_line(folder, None)]


COCO = Coco()


def _is_own(path: Place, folder: Place) -> bool:
    """Return whether a path in ``folder`` is a file, and is not a link to a file outside the folder. The folder may
    come from a stranger.
    """
    return path.is_file() and not (isinstance(path, Path) and is_elsewhere(path, Path(str(folder))))


def _first_file_name(path: Place) -> Any:
    """Return the file name of the first image in the COCO file ``path``.

    Returns None if the COCO file has no such name or cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig") as stream:
            return next((entry.get("file_name") for _, entry in named_entries(stream, ("images",))), None)
    except (OSError, ValueError):
        return None  # the fault is reported when the file is read


def _read(row: Row, held: CocoFile) -> Iterable[Row]:
    image_id = _number(row.get("image_id"))
    if image_id not in held.images:
        raise BadRow(f"image_id: the COCO file has no image {excerpt(row.get('image_id'))}")
    name, width, height = held.images[image_id]
    boxes = [_box(each, held.names, width, height) for each in _chosen(row, held, image_id)]
    return [{**row, "media": [name], "boxes": boxes or None}]


def _chosen(row: Row, held: CocoFile, image_id: int) -> list[Annotation]:
    found = held.by_image.get(image_id, [])
    if (wanted := _listed(row.get("annotation_ids"))) is not None:
        by_id = {each.id: each for each in found}
        numbers = [_number(each) for each in wanted]
        if missing := [number for number in numbers if number not in by_id]:
            raise BadRow(f"annotation_ids: the COCO file has no annotation {missing[0]} of image {image_id}")
        return [by_id[number] for number in numbers]
    found = [each for each in found if not each.is_crowd]
    if (wanted := _listed(row.get("categories"))) is not None:
        numbers = {held.ids.get(str(each), _number(each)) for each in wanted}
        if unknown := numbers - held.names.keys():
            lacking = counted(len(unknown), "is", "are")
            raise BadRow(f"categories: of the categories {excerpt(wanted)} in the row, {lacking} not in the COCO file")
        return [each for each in found if each.category in numbers]
    return found


def _box(each: Annotation, names: Mapping[int, str], width: float, height: float) -> dict[str, Any]:
    x, y, w, h = each.xywh
    if each.category not in names:
        raise BadRow(f"boxes: annotation {each.id} has the category {each.category}, which is not in the COCO file")
    if w > 0 and h > 0 and (x + w > width * (1 + SLACK) or y + h > height * (1 + SLACK)):
        problem = f"[{x:g}, {y:g}, {w:g}, {h:g}] extends beyond the {width:g}x{height:g} image"
        raise BadRow(f"boxes: annotation {each.id}: {problem}: a COCO box is x, y, width, height")
    return {"label": names[each.category], "bbox": [x, y, x + w, y + h]}


def _listed(value: Any) -> list[Any] | None:
    if value is None or value == "":
        return None
    return value if isinstance(value, list) else [value]


def _number(value: Any) -> int:
    """Return the id ``value`` as a number. Returns -1, which is never an id, if ``value`` is not a number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return -1


def _stamp(path: Place) -> tuple[float, int]:
    """Return the time of the last change and the size in bytes of the file ``path``; zeros for a missing file.

    These values change if the file is overwritten, so that the file is then read again and not taken from the cache.
    """
    try:
        found = path.stat()
    except OSError:
        return 0.0, 0
    return found.st_mtime, found.st_size


@lru_cache(maxsize=1)
def _instances(path: Place, stamp: tuple[float, int]) -> CocoFile:
    """Return the content of the COCO file ``path``, without its segmentations.

    The result is cached. ``stamp`` is the result of :func:`_stamp` for the file; with another stamp, the file is read
    again. Raises UserError if it is not a COCO file.
    """
    held = CocoFile()
    remedy = "set input.coco_instances to the path of a COCO file, relative to the questions' folder"
    try:
        with path.open(encoding="utf-8-sig") as text:
            for array, entry in named_entries(text, ("images", "annotations", "categories")):
                _hold(held, array, entry)
    except (StorageError, StoreUnavailable):
        raise
    except (OSError, UnicodeDecodeError, NotAnArray) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UserError(
            f"{path} cannot be read as a COCO file ({' '.join(str(reason).split())[:200]}): {remedy}"
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a COCO file of boxes ({type(error).__name__}: {error}): {remedy}") from error
    if not held.images or not held.names:
        lacking = " and no ".join(
            name for name, found in (("images", held.images), ("categories", held.names)) if not found
        )
        raise UserError(f"{path} has no {lacking}: {remedy}")
    return held


def _hold(held: CocoFile, array: str, entry: Mapping[str, Any]) -> None:
    if array == "images":
        name = entry["file_name"]
        if not isinstance(name, str):
            raise TypeError(f"the file_name of an image is {excerpt(name)}, but has to be text")
        held.images[int(entry["id"])] = (name, float(entry["width"]), float(entry["height"]))
    elif array == "categories":
        held.names[int(entry["id"])] = str(entry["name"])
    else:
        x, y, w, h = (float(value) for value in entry["bbox"])
        if not all(math.isfinite(value) for value in (x, y, w, h)):
            raise ValueError(f"the bbox of annotation {entry['id']} has a value that is not finite")
        box = Annotation(int(entry["id"]), int(entry["category_id"]), (x, y, w, h), bool(entry.get("iscrowd")))
        held.by_image[int(entry["image_id"])].append(box)
