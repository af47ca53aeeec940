"""Appends lines to a file in a run folder, and reads them. Each line is a JSON object."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from groundtrace.publishing.reading import InspectError

T = TypeVar("T")


def append_line(file: Path, fields: Mapping[str, Any]) -> None:
    """Append one line to a file: the ``fields`` as a JSON object. The line is on the disk when the function returns.

    If the last line of the file has no line break, because a process was killed, a line break is added first. Raises
    OSError if the file cannot be written.
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
    """Yield one object for each line of a file, in order. Yield nothing if the file is missing.

    Each line is a JSON object. ``make`` is a function that converts it to the result. It may raise TypeError, KeyError
    or ValueError for an invalid object. A killed process may leave an incomplete last line, so an invalid last line
    without a line break is skipped. Raises :class:`groundtrace.publishing.reading.InspectError` for any other invalid
    line, and if the file cannot be read.
    """
    try:
        lines = file.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise InspectError(f"cannot read {file}: {error.strerror or error}: make the file readable") from error
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield make(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            if number < len(lines):
                raise InspectError(f"{file} is damaged at line {number}: remove this line") from error
