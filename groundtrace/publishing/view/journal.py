"""Appends lines to a file beside a run and reads them back; each line is a JSON object."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from groundtrace.publishing.reading import InspectError

T = TypeVar("T")


def append_line(file: Path, fields: Mapping[str, Any]) -> None:
    """Append one line to a file, and return when it is on the disk. Raises OSError.

    A line that a killed process left without its end is ended first, so that the new line is whole.
    """
    file.parent.mkdir(exist_ok=True)
    line = json.dumps(fields, ensure_ascii=False) + "\n"
    with file.open("ab+") as opened:
        size = opened.seek(0, os.SEEK_END)
        is_whole = size == 0 or os.pread(opened.fileno(), 1, size - 1) == b"\n"
        opened.write(("" if is_whole else "\n").encode() + line.encode("utf-8", "backslashreplace"))
        opened.flush()
        os.fsync(opened.fileno())


def read_lines(file: Path, make: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """Yield what ``make`` makes of each line's object, in order; nothing if the file is missing.

    ``make`` may raise TypeError, KeyError or ValueError for an object of another form. A last line without its end,
    which a killed process left, is passed over. Raises :class:`groundtrace.publishing.reading.InspectError` for another
    line that cannot be read.
    """
    try:
        lines = file.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise InspectError(f"cannot read {file}: {error.strerror or error}: make it readable") from error
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield make(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if number < len(lines):
                raise InspectError(f"{file} is damaged at line {number}: remove this line") from error
