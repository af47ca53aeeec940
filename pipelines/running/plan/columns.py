"""Guesses from the name of an input column which field it holds, and writes the config block that maps the columns."""

import re
from collections.abc import Collection, Iterable

from groundtrace.stages.sources.base import OPTIONAL_FIELDS, RowSettings
from groundtrace.stages.sources.shapes.base import OneRecordPerRow
from groundtrace.stages.sources.shapes.registry import SHAPES

_NAMES = {
    "question": ("question", "query", "problem", "prompt", "instruction", "text"),
    "answer": (
        *("answer", "gold_answer", "gt_answer", "correct_answer", "label", "solution", "ground_truth", "gt", "gold"),
        *("target", "response"),
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
"""Column names that usually hold a field, the likelier first."""
_FILLED_IN = ("source", "license")
"""Fields that are often the same for a whole input, so that a constant can replace the column."""
_SEPARATORS = re.compile(r"[\s_\-.]+")


def guess_columns(columns: Collection[str]) -> dict[str, str]:
    """Return, for each field (such as ``question``), the input column that probably holds this field.

    Only the names of the columns are compared. A field without such a column is left out.
    """
    by_name = {_SEPARATORS.sub("_", column).strip("_").casefold(): column for column in sorted(columns, reverse=True)}
    return {
        field: next(by_name[name] for name in names if name in by_name)
        for field, names in _NAMES.items()
        if any(name in by_name for name in names)
    }


def missing_fields(columns: Collection[str], rows: RowSettings, are_rows: bool) -> list[str]:
    """Return the required fields that neither a column nor a constant provides.

    ``are_rows`` is True for inputs that are not JSON Lines. The rows of such inputs need no id, and their media may be
    in the column ``images`` or ``image``.
    """
    are_rows = are_rows or rows.shape != OneRecordPerRow.name or rows.number_ids or rows.file_ids
    found = guess_columns(columns) if are_rows else {}
    shaped = SHAPES.named(rows.shape).gives
    given = shaped | {field for field in _NAMES if rows.columns.get(field, field) in columns or field in rows.constants}
    own = {"id"} | ({"media"} & {*found} if found.get("media") in ("images", "image") else set()) if are_rows else set()
    return [field for field in _NAMES if field not in {*given, *own, *OPTIONAL_FIELDS}]


def input_block(columns: Collection[str], fields: Iterable[str], source: str) -> list[str]:
    """Return the config lines for these fields: guessed columns, constants, and placeholders that the user fills in.

    ``source`` is the default for the constant ``source``.
    """
    guessed = guess_columns(columns)
    mapped, constants = ["[input.columns]"], ["[input.constants]"]
    for field in fields:
        if field in guessed and guessed[field] != field:
            mapped.append(f"{field} = {_quoted(guessed[field])}")
        elif field in _FILLED_IN and field not in guessed:
            value = source if field == "source" else "unknown"
            constants.append(f"{field} = {_quoted(value)}  # {_MEANING[field]}")
        elif field not in guessed:
            mapped.append(f'# {field} = "…"  # no column has a similar name: write the name of the right one here')
    return [*(mapped if len(mapped) > 1 else []), *(constants if len(constants) > 1 else [])]


_MEANING = {
    "source": "the origin of the records, for every row and the data card",
    "license": "the licence of the records; needed to publish the data set",
}


def _quoted(text: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'
