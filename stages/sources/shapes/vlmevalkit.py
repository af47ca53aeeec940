"""Reads the tables of VLMEvalKit.

Their columns are ``index``, ``image`` (base64) or ``image_path``, ``question``, ``A``, ``B``, … and ``answer``. The
options that are not empty are the choices. If the answer is the letter of a choice, the choice becomes the answer. A
``hint`` is put before the question. To keep files small, an image cell may hold the index of an earlier row instead of
that row's image. Lists of images are read in the notation of JSON or of Python.
"""

import ast
import json
import re
import string
from collections.abc import Iterator, Sequence
from typing import Any

from groundtrace.stages.sources.shapes.base import BadRow, Row, Shape, ShapeSettings, folder_line
from groundtrace.storage.places import Place

MAX_INDEX_CHARS = 64
"""An image cell up to this length holds the index of another row, as in VLMEvalKit; images in base64 are longer."""
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
_NONE = ("", "nan")


class VlmEvalKit(Shape):
    """Implements the shape (layout) of the rows of VLMEvalKit's tables, with answer options in the columns ``A``,
    ``B``, ….
    """

    name, title = "vlmevalkit", "a table of VLMEvalKit"
    gives = frozenset({"id", "question", "answer", "media"})

    def fits(self, columns: frozenset[str], first: Sequence[Row]) -> bool:
        """Return whether the input has the columns of VLMEvalKit, and also has options or images in base64.

        ``columns`` are the names of the input's columns, and ``first`` are its first rows.
        """
        if not {"index", "question"} <= columns or columns.isdisjoint({"image", "image_path"}):
            return False
        return {"A", "B"} <= columns or any(_is_base64(row.get("image")) for row in first)

    def read(self, row: Row, settings: ShapeSettings, id_column: str) -> Iterator[Row]:
        """Yield the row with its choices, its media, and its answer as the text of one of the choices.

        ``row`` is a row of the input, and ``settings`` holds the settings of its layout. A row without choices may have
        any answer. Raises :class:`BadRow` if a row has choices and its answer is not one of them, or if a cell that
        holds a list cannot be read.
        """
        index = _cell(row.get("index"))
        options = {letter: text for letter in string.ascii_uppercase if (text := _cell(row.get(letter)))}
        answer = _cell(row.get("answer"))
        letter = re.sub(r"[\s().]", "", answer).upper() if options else ""
        if letter in options:
            answer = options[letter]
        elif options and answer not in options.values():
            raise BadRow(f"answer: {answer!r} is neither a letter ({', '.join(options)}) nor the text of an option")
        hint, question = _cell(row.get("hint")), _cell(row.get("question"))
        yield {
            **row,
            "id": index or None,
            "question": f"{hint}\n{question}" if hint else question,
            "choices": list(options.values()) or None,
            "answer": answer or None,
            "media": list(_media(row, index)),
        }

    def template(self, columns: frozenset[str], first: Sequence[Row], folder: Place) -> list[str]:
        """Return the line of a new config for the setting ``media_folder``, in a list. The list is empty if the input
        has no column ``image_path``.

        ``columns`` are the names of the input's columns, ``first`` are its first rows, and ``folder`` is its folder.
        """
        if "image_path" not in columns:
            return []
        cells = [_cell(row.get("image_path")) for row in first]
        return [folder_line(folder, next((cell for cell in cells if cell and not cell.startswith("[")), None))]


VLMEVALKIT = VlmEvalKit()


def _media(row: Row, index: str) -> Iterator[Any]:
    images, paths = _items(row.get("image")), _items(row.get("image_path"))
    if paths and not any(len(image) > MAX_INDEX_CHARS for image in images):
        yield from paths
        return
    for image in images:
        yield {"base64": image, "name": index} if len(image) > MAX_INDEX_CHARS else {"same_as": image}


def _items(value: Any) -> list[str]:
    """Return the texts in the table cell ``value``: the items of its list, or the one text of a cell without a list.

    Returns an empty list for an empty cell. Raises BadRow if the text of the cell begins and ends like a list, but
    cannot be read as a list of texts.
    """
    if isinstance(value, list):
        return [str(item) for item in value]
    text = _cell(value)
    if not text.startswith("[") or not text.endswith("]"):
        return [text] if text else []
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list) and all(isinstance(item, str | int) for item in found):
            return [str(item) for item in found]
    raise BadRow("image: the cell begins and ends like a list, but is not a list of texts in JSON or Python")


def _cell(value: Any) -> str:
    """Return the text of the table cell ``value``; "" for None and for the text "nan", which pandas writes for it."""
    text = "" if value is None else str(value).strip()
    return "" if text.casefold() in _NONE else text


def _is_base64(value: Any) -> bool:
    return isinstance(value, str) and len(value) > MAX_INDEX_CHARS and bool(_BASE64.fullmatch(value[:1000]))
