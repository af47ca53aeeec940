"""Reads the rows of verl, in which ``prompt`` is a list of messages with role and content.

The gold answer is ``reward_model.ground_truth``. In verl's examples, the prompt is ``extra_info.question`` with
instructions on the answer's form. If the prompt contains ``extra_info.question``, the question is this text. Otherwise
the question is the text of the prompt's only user turn. ``images`` are bytes or paths.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from groundtrace.schemas.text import excerpt
from groundtrace.stages.sources.shapes.base import BadRow, Row, Shape, ShapeSettings
from groundtrace.stages.sources.shapes.conversations import Turn, placed, read_turns
from groundtrace.storage.places import Place


class Verl(Shape):
    """Implements the shape (layout) of rows that the trainer verl reads, with ``prompt`` and ``reward_model``."""

    name, title = "verl", "rows of verl"
    gives = frozenset({"question", "answer", "media"})
    list_columns = frozenset({"prompt", "images"})

    def fits(self, columns: frozenset[str], first: Sequence[Row]) -> bool:
        """Return whether the input has the columns ``prompt`` and ``reward_model``, but not both of the columns
        ``question`` and ``answer``.

        ``columns`` are the names of its columns, and ``first`` are its first rows. If ``first`` is not empty, at least
        one of these rows must also have a mapping as its ``reward_model``. Shards of Groundtrace's runs have all four
        columns; they are read as plain rows.
        """
        if not {"prompt", "reward_model"} <= columns or {"question", "answer"} <= columns:
            return False
        return not first or any(isinstance(row.get("reward_model"), Mapping) for row in first)

    def read(self, row: Row, settings: ShapeSettings, id_column: str) -> Iterator[Row]:
        """Yield the row with ``question``, ``answer`` and ``media``, which are read from its nested columns.

        ``row`` is a row of the input, and ``settings`` holds the settings of its layout. Raises :class:`BadRow` if the
        prompt does not have exactly one user turn, or if the row has no ground truth. Also raises :class:`BadRow` if
        the prompt has placeholders ``<image>`` or ``<video>``, but not one for each medium.
        """
        turns = [turn for turn in read_turns(row.get("prompt")) if turn.role == "user"]
        if len(turns) != 1:
            raise BadRow(f"prompt: expected exactly one user turn, got {len(turns)}")
        images = _images(row, turns[0])
        yield {
            **row,
            "question": placed(_own_words(row, turns[0].text), 0, len(images)),
            "answer": _ground_truth(row.get("reward_model")),
            "media": images,
        }

    def template(self, columns: frozenset[str], first: Sequence[Row], folder: Place) -> list[str]:
        """Return an empty list, because this shape (layout of rows) needs no config lines of its own.

        ``beam init`` writes the line with the shape's name. The arguments are not used.
        """
        return []


VERL = Verl()


def _images(row: Row, turn: Turn) -> list[Any]:
    found = row.get("images") or row.get("image") or row.get("videos") or []
    images = found if isinstance(found, list) else [found]
    marks = turn.text.count("<image>") + turn.text.count("<video>")
    if marks and marks != len(images):
        raise BadRow(f"prompt: the text has {marks} marks <image> or <video>, but the row has {len(images)} media")
    return [_medium(image) for image in images]


def _medium(image: Any) -> Any:
    """Return the path in a mapping such as ``{"image": "a.jpg"}`` or ``{"video": "a.mp4"}``. Return other values
    unchanged.

    verl's loaders also read such mappings.
    """
    if isinstance(image, Mapping) and "bytes" not in image and "path" not in image:
        return image.get("image") or image.get("video") or image
    return image


def _own_words(row: Row, text: str) -> str:
    extra = row.get("extra_info")
    asked = extra.get("question") if isinstance(extra, Mapping) else None
    return asked if isinstance(asked, str) and asked.strip() and asked.strip() in text else text


def _ground_truth(value: Any) -> Any:
    if not isinstance(value, Mapping) or value.get("ground_truth") is None:
        raise BadRow(f"reward_model: expected an object with 'ground_truth', got {excerpt(value)}")
    truth = value["ground_truth"]
    if isinstance(truth, list) and len(truth) == 1:
        return truth[0]
    return truth
