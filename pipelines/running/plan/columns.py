"""Guesses which column of an input holds each field of a record, such as the question.

The module also writes lines for the user's config that name these columns. A column is guessed by its name. If no
column has a name that fits the question, a column whose texts end with question marks is taken for the question.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from groundtrace.stages.sources.base import FIELDS, OPTIONAL_FIELDS, RowSettings
from groundtrace.stages.sources.shapes.base import OneRecordPerRow, Row
from groundtrace.stages.sources.shapes.registry import SHAPES

_NAMES = {
    "question": ("question", "query", "problem", "prompt", "instruction", "text"),
    "answer": (
        *("answer", "gold_answer", "gt_answer", "correct_answer", "label", "solution", "ground_truth", "gt", "gold"),
        *("target", "truth", "response"),
    ),
    "media": (
        *("media", "images", "image", "image_path", "image_file", "img", "img_path", "file_name", "filename", "file"),
        *("path", "picture", "photo", "video"),
    ),
    "id": ("id", "uid", "question_id", "qid", "sample_id", "index", "idx"),
    "choices": ("choices", "options", "candidates"),
    "source": ("source", "data_source", "dataset", "dataset_name", "origin"),
    "license": ("license", "licence"),
}
"""Maps a field of a record, such as the question, to the names of input columns that usually hold this field.

The more likely names are first.
"""
_CLOSE = {
    "answer_type": ("type", "answer_type", "answer_kind", "answer_format"),
    "boxes": ("boxes", "box", "bbox", "bboxes", "bounding_box", "bounding_boxes"),
}
"""Maps a field of a record to the names of input columns that may hold the field, but often hold something else.

The config that ``beam init`` writes proposes such a column only in a commented line.
"""
_SUGGESTED = {
    "answer_type": "if it holds answer types: mcq, numeric, bool, text or boxes",
    "boxes": "if it holds gold boxes",
}
MAX_KEPT = 3
"""The maximum number of columns in the commented line ``# keep = […]``, an example in the config that ``beam init``
writes. The setting ``keep`` lists the input's columns to copy into every row.
"""
_FILLED_IN = ("source", "license")
"""Fields that are often the same for a whole input, so that a constant can replace the column."""
_SEPARATORS = re.compile(r"[\s_\-.]+")
_QUESTION_MARKS = ("?", "？", "؟")


def guess_columns(columns: Collection[str], first: Sequence[Row] = ()) -> dict[str, str]:
    """Return, for each field of a record, the input column that probably holds it, e.g. ``{"question": "query"}``.

    ``columns`` are the names of the input's columns. A field without a column of a similar name is left out. There is
    one exception: the question may also be found by its values, if ``first``, the first rows of the input, is given
    (:func:`_asked_column`).
    """
    by_name = {_plain(column): column for column in sorted(columns, reverse=True)}
    found = {
        field: next(by_name[name] for name in names if name in by_name)
        for field, names in _NAMES.items()
        if any(name in by_name for name in names)
    }
    asked = None if "question" in found else _asked_column({*columns} - {*found.values(), *FIELDS}, first)
    return found if asked is None else found | {"question": asked}


def _asked_column(columns: Collection[str], first: Sequence[Row]) -> str | None:
    """Return the only column whose texts end with a question mark in more than half of the first rows.

    The result is None if there is no such column, or if there are several. ``columns`` are the names of the columns
    that may be the question, and ``first`` are the first rows of the input.
    """

    def is_asked(value: object) -> bool:
        return isinstance(value, str) and value.rstrip().endswith(_QUESTION_MARKS)

    asked = [column for column in columns if sum(is_asked(row.get(column)) for row in first) > len(first) / 2]
    return asked[0] if len(asked) == 1 else None


def _plain(column: str) -> str:
    return _SEPARATORS.sub("_", column).strip("_").casefold()


def unused_columns(columns: Collection[str], first: Sequence[Row] = ()) -> list[str]:
    """Return the sorted names of the columns that hold no field.

    ``columns`` are the names of the input's columns, and ``first`` are its first rows. A field is a part of a record,
    such as the question. A column holds a field if it has the field's name, or if :func:`guess_columns` finds it for
    the field.
    """
    guessed = guess_columns(columns, first)
    return sorted({*columns} - {field if field in columns else guessed.get(field) for field in FIELDS})


def has_id_column(columns: Collection[str], first: Sequence[Row]) -> bool:
    """Return whether a column of the input that is not used as a field may hold ids.

    A field is a part of a record, such as the question. A column may hold ids if its values in the first rows are texts
    or whole numbers, and all differ. ``columns`` are the names of the input's columns, and ``first`` are its first
    rows.
    """
    for column in unused_columns(columns, first):
        values = [row.get(column) for row in first]
        if all(type(value) in (str, int) for value in values) and len({*values}) == len(values):
            return True
    return False


def suggestions(unused: Iterable[str]) -> list[str]:
    """Return config lines, as comments, that show the user which unused columns may hold an answer type or boxes.

    The lines belong to the config's section ``[input.columns]``. ``unused`` are the names of the input's columns that
    hold no field of a record. The result has a line for each unused column with a name similar to ``answer_type`` or
    ``boxes``, e.g. ``# boxes = "bbox"  # if it holds gold boxes``.
    """
    return [
        f"# {field} = {_quoted(column)}  # {_SUGGESTED[field]}"
        for field, names in _CLOSE.items()
        for column in unused
        if _plain(column) in names
    ]


def missing_fields(columns: Collection[str], rows: RowSettings, are_rows: bool) -> list[str]:
    """Return the names of the required fields that neither a column nor a constant of the config provides.

    A field is a part of a record, such as the question. A column provides a field if it has the field's name, or if the
    config names this column for the field. ``columns`` are the names of the input's columns. ``rows`` holds the
    config's section ``[input]``, with these names and constants. ``are_rows`` is True for all input formats except JSON
    Lines, e.g. for Parquet files.

    There are three special cases:

    - ``are_rows`` is True.
    - The ids are generated: the config sets ``number_ids`` or ``file_ids``.
    - The config names a special layout of the rows, such as that of LLaVA. The layout also provides some fields.

    In each of these cases, the id is not required, and a column ``images`` or ``image`` also provides the media.
    """
    are_rows = are_rows or rows.shape != OneRecordPerRow.name or rows.number_ids or rows.file_ids
    found = guess_columns(columns) if are_rows else {}
    shaped = SHAPES.named(rows.shape).gives
    given = shaped | {field for field in _NAMES if rows.columns.get(field, field) in columns or field in rows.constants}
    own = {"id"} | ({"media"} & {*found} if found.get("media") in ("images", "image") else set()) if are_rows else set()
    return [field for field in _NAMES if field not in {*given, *own, *OPTIONAL_FIELDS}]


def input_block(
    columns: Collection[str],
    fields: Iterable[str],
    source: str,
    suggested: Sequence[str] = (),
    first: Sequence[Row] = (),
) -> list[str]:
    """Return lines of a config that state which column of the input holds each field of a record, such as the question.

    The result has at most one line for each field:

    - If a column has the field's name, the field needs no line.
    - If a column has a similar name, the line names this column for the field. The question may also be found by its
      values (:func:`guess_columns`); the line then ends with a comment that states this.
    - If no column has the field's name or a similar name, the line depends on the field. For ``source`` and
      ``license``, the line sets a constant for all rows. For any other field, the line is a comment in which the user
      fills in the column.

    Args:
        columns: The names of the input's columns.
        fields: The names of the fields.
        source: The name of the input, which is the value of the constant ``source``.
        suggested: Commented lines for columns that may hold further fields (:func:`suggestions`). They are put at the
            end of the section ``[input.columns]``.
        first: The first rows of the input.
    """
    guessed, by_name = guess_columns(columns, first), guess_columns(columns)
    mapped, constants = ["[input.columns]"], ["[input.constants]"]
    for field in fields:
        if field in guessed and guessed[field] != field:
            how = "" if field in by_name else "  # found by its values: most end with a question mark"
            mapped.append(f"{field} = {_quoted(guessed[field])}{how}")
        elif field in _FILLED_IN and field not in guessed:
            value = source if field == "source" else "unknown"
            constants.append(f"{field} = {_quoted(value)}  # {_MEANING[field]}")
        elif field not in guessed:
            other = ", or set number_ids = true in [input]" if field == "id" else ""
            mapped.append(f'# {field} = "…"  # no column has a similar name: write the right name here{other}')
    if len(mapped) == 1:
        mapped = ["# [input.columns]"] if suggested else []
    return [*mapped, *suggested, *(constants if len(constants) > 1 else [])]


def keep_lines(unused: Sequence[str], suggested: Sequence[str], lacks_answer: bool = False) -> list[str]:
    """Return comments for the config that name the input's unused columns, and show how to copy some into the rows.

    The comments belong to the section ``[input]``; its key ``keep`` lists the columns to copy. ``unused`` are the names
    of the columns that hold no field (part of a record, such as the question). The result is empty if there are none.
    ``suggested`` is the result of :func:`suggestions`: comments that propose a field for some unused columns. The
    example line ``# keep = […]`` leaves out the columns with a proposed field, and columns with a dot in their name.
    If no column was found for the answer (``lacks_answer``), and only one unused column has no proposed field, this
    column is left out, too, because it probably holds the answers.
    """
    if not unused:
        return []
    lines = [f"# Columns that no field uses: {', '.join(map(_quoted, unused))}"]
    free = [each for each in map(_quoted, unused) if not any(each in line for line in suggested)]
    others = [each for each in free if "." not in each]
    if others and not (lacks_answer and len(free) == 1):
        lines.append(f"# keep = [{', '.join(others[:MAX_KEPT])}]  # copies them into every row")
    return lines


_MEANING = {
    "source": "the origin of the records, for every row and the data card",
    "license": "the licence of the records; needed to publish the data set",
}


def _quoted(text: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'
